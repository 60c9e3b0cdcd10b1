//! Windows: ctrlc does all but two things. The size of the window only looking tells: the console's own
//! notice of it would have to be read from among the keys. And Ctrl-Break is a key in raw mode.

use std::{
    io,
    sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use windows_sys::{
    Win32::System::Console::{CTRL_BREAK_EVENT, SetConsoleCtrlHandler},
    core::BOOL,
};

use super::{Signal, tell};
use crate::{naming, security::checked, terminal};

/// How often the size is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Being told of Ctrl-Break, and the thread that looks at the window's size, if there is a window.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Dropped to end the thread.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn watch() -> io::Result<Watch> {
    // Who came last is asked first, so before ctrlc's.
    // SAFETY: the function has the signature that is asked for, and stays.
    checked(unsafe { SetConsoleCtrlHandler(Some(take_break), 1) })
        .map_err(naming("listen for Ctrl-Break"))?;
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

/// Called in a thread of the system's.
unsafe extern "system" fn take_break(event: u32) -> BOOL {
    let is_ours = event == CTRL_BREAK_EVENT && terminal::is_raw();
    if is_ours {
        tell(Signal::Break);
    }
    BOOL::from(is_ours)
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: as when it was added. It fails only where that did.
        unsafe { SetConsoleCtrlHandler(Some(take_break), 0) };
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
    use windows_sys::Win32::System::Console::{CTRL_C_EVENT, CTRL_CLOSE_EVENT};

    use super::*;

    #[test]
    fn what_is_no_key_is_left_to_others() {
        for event in [CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_BREAK_EVENT] {
            // SAFETY: it takes any number. No test here is in raw mode.
            assert_eq!(unsafe { take_break(event) }, 0);
        }
    }
}
