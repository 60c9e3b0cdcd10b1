//! Windows: ctrlc does all but three things. The size of the window only looking tells: the console's own
//! notice of it would have to be read from among the keys. Ctrl-Break is a key in raw mode. And where the console
//! goes, there has to be time to end.

use std::{
    io,
    sync::Mutex,
    sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use windows_sys::{
    Win32::System::Console::{
        CTRL_BREAK_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
        SetConsoleCtrlHandler,
    },
    core::BOOL,
};

use super::{Signal, hears_console, tell};
use crate::{locked, naming, security::checked, terminal};

/// How often the size is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The thread that looks at the window's size, if there is a window.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Dropped to end the thread.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn watch() -> io::Result<Watch> {
    take_console_events()?;
    let mut watch = Watch { end: None, thread: None };
    let Some(mut size) = terminal::size() else { return Ok(watch) };
    let (end, ended) = sync_channel(0);
    watch.end = Some(end);
    watch.thread = Some(thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if let Some(now) = terminal::size().filter(|now| *now != size) {
                size = now;
                tell(Signal::Resize);
            }
        }
    })?);
    Ok(watch)
}

/// Once for the process: the system holds a lock while it asks, which taking it back would wait for.
fn take_console_events() -> io::Result<()> {
    static TAKEN: Mutex<bool> = Mutex::new(false);
    let mut taken = locked(&TAKEN);
    if !*taken {
        // Who came last is asked first, so before ctrlc's.
        // SAFETY: the function has the signature that is asked for, and stays.
        checked(unsafe { SetConsoleCtrlHandler(Some(take), 1) })
            .map_err(naming("listen to the console"))?;
        *taken = true;
    }
    Ok(())
}

/// Called in a thread of the system's.
unsafe extern "system" fn take(event: u32) -> BOOL {
    match event {
        CTRL_BREAK_EVENT if terminal::is_raw() => {
            tell(Signal::Break);
            BOOL::from(true)
        }
        // The last two come to services alone, as far as the system's documentation goes.
        CTRL_CLOSE_EVENT | CTRL_LOGOFF_EVENT | CTRL_SHUTDOWN_EVENT if hears_console() => {
            tell(Signal::Stop);
            // The process has five seconds to end, and is ended at once when this returns.
            loop {
                thread::park();
            }
        }
        _ => BOOL::from(false),
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic in the listener has been reported where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use windows_sys::Win32::System::Console::CTRL_C_EVENT;

    use super::*;

    #[test]
    fn what_is_no_key_is_left_to_others() {
        for event in [CTRL_C_EVENT, CTRL_BREAK_EVENT] {
            // SAFETY: it takes any number. No test here is in raw mode.
            assert_eq!(unsafe { take(event) }, 0);
        }
    }
}
