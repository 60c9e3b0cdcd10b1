//! Unix only: waiting for one thing, until another thread says stop.

use std::{
    io,
    net::Shutdown,
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::net::UnixStream,
    },
};

/// Says stop; for ever, and to all that watch it.
#[derive(Debug)]
pub(crate) struct Stop {
    /// Shut down to say so; who waits watches the other end.
    say: UnixStream,
    hear: UnixStream,
}

/// What a wait ended with; both may be so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) ready: bool,
    pub(crate) stopped: bool,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        let (say, hear) = UnixStream::pair()?;
        Ok(Self { say, hear })
    }

    pub(crate) fn stop(&self) {
        // It fails only if it was done before.
        let _ = self.say.shutdown(Shutdown::Both);
    }

    /// Waits until `file` is ready for `event`, or somebody has said stop.
    pub(crate) fn wait(&self, file: impl AsFd, event: libc::c_short) -> io::Result<Waited> {
        let file = file.as_fd();
        let mut polled = [
            libc::pollfd { fd: file.as_raw_fd(), events: event, revents: 0 },
            libc::pollfd { fd: self.hear.as_raw_fd(), events: libc::POLLIN, revents: 0 },
        ];
        loop {
            // SAFETY: the pointer and the count are those of one array, whose descriptors are open for
            // as long as the two references live.
            if unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) } >= 0 {
                let [ready, stopped] = polled.map(|polled| polled.revents != 0);
                return Ok(Waited { ready, stopped });
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}
