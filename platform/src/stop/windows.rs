//! Windows: ctrlc does all but the size of the window, which only looking tells: the console's own
//! notice of it would have to be read from among the keys.

use std::{
    io,
    sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{Signal, tell};
use crate::terminal;

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
    let Some(mut size) = terminal::size() else { return Ok(Watch { end: None, thread: None }) };
    let (end, ended) = sync_channel(0);
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if let Some(now) = terminal::size().filter(|now| *now != size) {
                size = now;
                tell(Signal::Resize);
            }
        }
    })?;
    Ok(Watch { end: Some(end), thread: Some(thread) })
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
