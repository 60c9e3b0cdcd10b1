//! Unix only: waiting for one descriptor, until another thread requests a stop.

use std::{
    io,
    net::Shutdown,
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::net::UnixStream,
    },
};

/// A request to stop, which ends all present and future waits of [`Stop::wait`].
#[derive(Debug)]
pub(crate) struct Stop {
    /// The end that is shut down to request the stop; waiting threads poll the other end.
    requesting: UnixStream,
    watched: UnixStream,
}

/// The reasons why a wait ended; both may be true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) ready: bool,
    pub(crate) stopped: bool,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        let (requesting, watched) = UnixStream::pair()?;
        Ok(Self { requesting, watched })
    }

    pub(crate) fn stop(&self) {
        // The call fails only if the stop was requested before.
        let _ = self.requesting.shutdown(Shutdown::Both);
    }

    /// Waits until `file` is ready for `event`, or a stop was requested.
    pub(crate) fn wait(&self, file: impl AsFd, event: libc::c_short) -> io::Result<Waited> {
        let file = file.as_fd();
        let mut polled = [
            libc::pollfd { fd: file.as_raw_fd(), events: event, revents: 0 },
            libc::pollfd { fd: self.watched.as_raw_fd(), events: libc::POLLIN, revents: 0 },
        ];
        loop {
            // SAFETY: the pointer and the count are those of one array, whose descriptors are open
            // for as long as the two references live.
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
