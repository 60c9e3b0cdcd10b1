//! Listeners and streams: Unix sockets and Windows named pipes behind one contract.
//!
//! A [`Stream`] is a handle that is cheap to clone and may be used by any thread: one thread blocks
//! in a read while another writes, and a third ends both with [`Stream::hang_up`]. There are no
//! time-outs, since named pipes have none.
//!
//! The endpoint is open to its owner only (and closed to other machines), and both sides can say who
//! the other is; [`Stream::connect`] does so by itself.

#[cfg(unix)]
#[path = "transport/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "transport/windows.rs"]
mod imp;
#[cfg(windows)]
pub(crate) mod pipe;

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use crate::{
    endpoint::Endpoint,
    naming,
    peer::{Peer, User},
    refusal,
};

/// What stands at a listener's endpoint now; see [`Listener::place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This listener.
    Mine,
    /// Nothing: it was removed, and nobody can connect any more. It can be bound again.
    Gone,
    /// Something else.
    Foreign,
}

/// What became of [`Stream::write_now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// So many of the first bytes were taken; 0 if the stream is full now.
    Bytes(usize),
    /// This system has no write that never blocks; nothing was written.
    Unsupported,
}

/// Something that is connected to.
#[derive(Debug)]
pub struct Listener(imp::Listener);

impl Listener {
    /// Starts to listen, for this user's processes only.
    ///
    /// The caller holds the lock that makes it the only one to do so here: what a process left behind
    /// that has ended is replaced, and two that replaced at once would displace each other.
    ///
    /// # Errors
    /// `AddrInUse` if somebody listens there; `AlreadyExists` if something stands there that is not
    /// a listener's; `PermissionDenied` if it is another user's; and what the system says.
    pub fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        Self::bind_for(endpoint, &User::me()?)
    }

    /// The same for the processes of another user, where this process serves one: it runs as a service then.
    /// That user can connect, and nobody else.
    ///
    /// # Errors
    /// `Unsupported` where there are no such services; else as [`Listener::bind`].
    pub fn bind_for(endpoint: &Endpoint, user: &User) -> io::Result<Self> {
        imp::Listener::bind(endpoint, user).map(Self)
    }

    /// The same for those of this user's processes that have as much power as this one. On Windows one that is
    /// elevated is out of reach of those that aren't; elsewhere all processes of a user's have the same.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn bind_guarded(endpoint: &Endpoint) -> io::Result<Self> {
        imp::Listener::bind_guarded(endpoint).map(Self)
    }

    /// Checks that this user could listen there, as far as that shows without doing so. Who listens there
    /// now, and whose it is, is not looked at.
    ///
    /// # Errors
    /// `AlreadyExists` if something stands there that is not a listener's; and with a sentence, if the
    /// directory of a socket is not there or takes no files.
    pub fn check(endpoint: &Endpoint) -> io::Result<()> {
        imp::check(endpoint)
    }

    /// Waits for a connection. Only one thread may do so at a time.
    ///
    /// # Errors
    /// `Interrupted` once [`Listener::stop`] was called, then always. Any other error concerns this
    /// one attempt (no file handles left, for one), and the next may succeed.
    pub fn accept(&self) -> io::Result<Stream> {
        self.0.accept().map(Stream::new)
    }

    /// Ends [`Listener::accept`] for good, in whatever thread it waits.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Looks at what stands at the endpoint. A socket's path can be removed or replaced under a
    /// listener that notices nothing; a pipe's name cannot.
    ///
    /// # Errors
    /// If the system does not let us look.
    pub fn place(&self) -> io::Result<Place> {
        self.0.place()
    }
}

/// One end of a connection. The connection ends when all clones are dropped, or at once with
/// [`Stream::hang_up`]; either way the other side can still read what was written.
#[derive(Clone, Debug)]
pub struct Stream(Arc<imp::Stream>);

impl Stream {
    /// Connects to a listener and checks who runs it.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused`, at once, if nobody listens; `AlreadyExists` if what is there
    /// is no socket; `TimedOut` if a pipe stays busy;
    /// `PermissionDenied` if this user may not connect, or if what answers is run neither by this
    /// user nor by the system or an administrator.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        Self::connect_among(endpoint, &[])
    }

    /// The same where some users are trusted as this one is: the account of the service that an administrator
    /// has installed for this user.
    ///
    /// # Errors
    /// As [`Stream::connect`].
    pub fn connect_among(endpoint: &Endpoint, users: &[User]) -> io::Result<Self> {
        let stream =
            imp::Stream::connect(endpoint).map_err(naming(format!("connect to {endpoint}")))?;
        let server = stream.server().map_err(naming(format!("ask who runs {endpoint}")))?;
        if !server.is_trusted_server() && !users.contains(&server) {
            return Err(refusal(
                io::ErrorKind::PermissionDenied,
                format!(
                    "what answers at {endpoint} is run by another user ({server}): choose another endpoint"
                ),
            ));
        }
        Ok(Self::new(stream))
    }

    /// Ends the connection now: blocked reads and writes of other threads return within a second,
    /// and so does everything that comes after them, on all clones (reads with the end, writes with
    /// an error). The other side reads what was written and then the end.
    pub fn hang_up(&self) {
        self.0.hang_up();
    }

    /// Writes as much as goes without waiting.
    ///
    /// # Errors
    /// `BrokenPipe` or the like if the connection has ended.
    pub fn write_now(&self, bytes: &[u8]) -> io::Result<Written> {
        self.0.write_now(bytes)
    }

    /// Who is at the other end. A pipe's server can ask only once it has read something.
    ///
    /// # Errors
    /// If the system does not say; take it for a stranger then.
    pub fn peer(&self) -> io::Result<Peer> {
        self.0.peer().map_err(naming("ask who is at the other end"))
    }

    fn new(stream: imp::Stream) -> Self {
        Self(Arc::new(stream))
    }
}

/// Blocks until there is something; `Ok(0)` is the end, however it came about.
impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Blocks until some of it is taken. Nothing is held back, so that flushing does nothing.
impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
