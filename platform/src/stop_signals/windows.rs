//! Windows: the library ctrlc, with three additions. The window's size is polled, since the
//! console's own event would have to be read from among the keys. In raw mode, Ctrl-Break is
//! reported as a key. When the console closes, the process gets time to end.

use std::{
    io,
    sync::Mutex,
    sync::mpsc::{RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    thread,
    time::Duration,
};

use windows_sys::{
    Win32::System::Console::{
        CTRL_BREAK_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
        SetConsoleCtrlHandler,
    },
    core::BOOL,
};

use super::{Signal, handles_console, notify};
use crate::{locked, naming, security::checked, tty};

/// The interval between two polls of the size.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The thread that polls the window's size, if there is a window. The thread ends when this is
/// dropped; nothing waits for that, since a console does not answer the thread while its output is
/// not read.
#[derive(Debug)]
pub(crate) struct Watch {
    _end: Option<SyncSender<()>>,
}

pub(crate) fn watch(_keys: bool) -> io::Result<Watch> {
    register_handler()?;
    let Some(mut size) = tty::size() else { return Ok(Watch { _end: None }) };
    let (end, ended) = sync_channel(0);
    // Waits for: 200 ms between looks, the system, then what `notify` waits for. Not joined: a
    // console whose output nobody reads does not answer.
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if let Some(now) = tty::size().filter(|now| *now != size)
                && ended.try_recv() == Err(TryRecvError::Empty)
            {
                size = now;
                notify(Signal::Resize);
            }
        }
    })?;
    Ok(Watch { _end: Some(end) })
}

pub(crate) fn suspend() -> io::Result<()> {
    Ok(())
}

/// Registers the handler once for the process. It is never removed, because removing would wait for
/// a lock that the system holds while it calls a handler.
fn register_handler() -> io::Result<()> {
    static REGISTERED: Mutex<bool> = Mutex::new(false);
    let mut registered = locked(&REGISTERED);
    if !*registered {
        // The last registered handler is called first, so this handler is called before ctrlc's.
        // SAFETY: the function has the required signature, and is never removed.
        checked(unsafe { SetConsoleCtrlHandler(Some(handle_event), 1) })
            .map_err(naming("register a console handler"))?;
        *registered = true;
    }
    Ok(())
}

/// Handles a console event, in a thread of the system.
unsafe extern "system" fn handle_event(event: u32) -> BOOL {
    match event {
        CTRL_BREAK_EVENT if tty::is_raw() => {
            notify(Signal::Break);
            BOOL::from(true)
        }
        // According to the documentation, only services receive the events of logoff and shutdown.
        CTRL_CLOSE_EVENT | CTRL_LOGOFF_EVENT | CTRL_SHUTDOWN_EVENT if handles_console() => {
            notify(Signal::Stop);
            // Windows ends the process when this function returns, or after five seconds.
            loop {
                thread::park();
            }
        }
        _ => BOOL::from(false),
    }
}

#[cfg(test)]
mod tests {
    use windows_sys::Win32::System::Console::CTRL_C_EVENT;

    use super::*;

    #[test]
    fn ctrl_c_and_ctrl_break_are_left_to_ctrlc() {
        for event in [CTRL_C_EVENT, CTRL_BREAK_EVENT] {
            // SAFETY: it takes any number. No test here is in raw mode.
            assert_eq!(unsafe { handle_event(event) }, 0);
        }
    }
}
