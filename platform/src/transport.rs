//! Listeners and streams: Unix sockets and Windows named pipes with one contract.
//!
//! A [`Stream`] is cheap to clone and may be used by any thread: one thread blocks in a read while
//! another writes, and a third ends both with [`Stream::hang_up`]. There are no timeouts, since
//! named pipes have none.
//!
//! Only the endpoint's owner can connect, and only from this machine. Both sides can query the
//! identity of the other side. [`Stream::connect`] checks the server's identity by itself.

#[cfg(unix)]
#[path = "transport/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "transport/windows.rs"]
mod imp;
#[cfg(windows)]
mod pipe;

use std::{
    io::{self, Read, Write},
    sync::Arc,
    time::Duration,
};

use crate::{endpoint::Endpoint, naming, peer::User, refusal};

/// The kind of object at a listener's endpoint; see [`Listener::endpoint_state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// This listener.
    Mine,
    /// No object: the socket was removed, and clients can no longer connect. The endpoint can be
    /// bound again.
    Gone,
    /// Another object.
    Foreign,
}

/// The result of [`Stream::write_now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The number of bytes written; 0 if the stream is full now.
    Bytes(usize),
    /// This system has no write that never blocks; nothing was written.
    Unsupported,
}

/// A bound endpoint that accepts connections.
#[derive(Debug)]
pub struct Listener(imp::Listener);

impl Listener {
    /// Starts to listen, for this user's processes only.
    ///
    /// The caller must hold a lock that makes it the only process that binds the endpoint: this
    /// call replaces the endpoint of a listener that has ended, and one of two concurrent calls
    /// would displace the listener of the other.
    ///
    /// # Errors
    /// `AddrInUse` if there is a listener; `AlreadyExists` if there is another kind of object;
    /// `PermissionDenied` if the object is another user's; and the system's errors.
    pub fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        Self::bind_for(endpoint, &User::me()?)
    }

    /// Starts to listen for the processes of another user, which a service does. Only that user can
    /// connect.
    ///
    /// # Errors
    /// `Unsupported` where there are no such services; else as [`Listener::bind`].
    pub fn bind_for(endpoint: &Endpoint, user: &User) -> io::Result<Self> {
        imp::Listener::bind(endpoint, user).map(Self)
    }

    /// Listens at an endpoint again, as [`Listener::bind_for`] does. On Unix, a directory that was
    /// removed with its socket is made again, for this user only.
    ///
    /// # Errors
    /// If the directory cannot be made; else as [`Listener::bind_for`].
    pub fn bind_again(endpoint: &Endpoint, user: &User) -> io::Result<Self> {
        #[cfg(unix)]
        imp::restore_directory(endpoint)?;
        Self::bind_for(endpoint, user)
    }

    /// Starts to listen for processes of this user that have at least the rights of this process.
    /// On Windows, processes that are not elevated cannot connect to an elevated listener. On other
    /// systems, all processes of a user have the same rights.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn bind_guarded(endpoint: &Endpoint) -> io::Result<Self> {
        imp::Listener::bind_guarded(endpoint).map(Self)
    }

    /// Checks that this user could listen at the endpoint, as far as that is known without
    /// listening. An existing listener and its user are not examined.
    ///
    /// # Errors
    /// `AlreadyExists` if there is an object of another kind; or if the directory of a socket is
    /// missing or not writable.
    pub fn check_bindable(endpoint: &Endpoint) -> io::Result<()> {
        imp::check_bindable(endpoint)
    }

    /// Whether the object at the endpoint is another user's, so that this user can neither listen
    /// there nor trust the listener. False if the endpoint is free.
    ///
    /// # Errors
    /// If the system refuses to say.
    pub fn is_foreign(endpoint: &Endpoint) -> io::Result<bool> {
        imp::is_foreign(endpoint)
    }

    /// Waits for a connection. Only one thread may call this at a time.
    ///
    /// # Errors
    /// Always `Interrupted` after [`Listener::stop`]. Any other error concerns only this call (for
    /// example, no file handles left), and the next call may succeed.
    pub fn accept(&self) -> io::Result<Stream> {
        self.0.accept().map(Stream::new)
    }

    /// Ends all calls of [`Listener::accept`], present and future.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Examines the object at the endpoint. A socket's path can be removed or replaced without a
    /// notification of the listener; a pipe's name cannot.
    ///
    /// # Errors
    /// If the system refuses to say.
    pub fn endpoint_state(&self) -> io::Result<EndpointState> {
        self.0.endpoint_state()
    }
}

/// An end of a connection. The connection ends when all clones are dropped, or at once with
/// [`Stream::hang_up`]. In both cases the other side can still read the bytes that were written.
#[derive(Clone, Debug)]
pub struct Stream(Arc<imp::Stream>);

impl Stream {
    /// Connects to a listener and checks which user runs it.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused`, at once, if there is no listener; `AlreadyExists` if
    /// there is no socket but another object; `TimedOut` if a pipe stays busy; `PermissionDenied`
    /// if this user may not connect, or if the server is run neither by this user nor by the system
    /// or an administrator.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        Self::connect_among(endpoint, &[])
    }

    /// Connects as [`Stream::connect`] does, and also trusts servers that one of `users` runs. The
    /// caller names the account of a service that an administrator has installed for this user.
    ///
    /// # Errors
    /// As [`Stream::connect`].
    pub fn connect_among(endpoint: &Endpoint, users: &[User]) -> io::Result<Self> {
        let stream =
            imp::Stream::connect(endpoint).map_err(naming(format!("connect to {endpoint}")))?;
        let server = stream.peer().map_err(naming(format!("ask who runs {endpoint}")))?;
        if !server.is_trusted_server() && !users.contains(&server) {
            return Err(refusal(
                io::ErrorKind::PermissionDenied,
                format!(
                    "the server at {endpoint} is run by another user ({server}); choose another endpoint"
                ),
            ));
        }
        Ok(Self::new(stream))
    }

    /// Ends the connection now, for all clones: blocked reads and writes of other threads return
    /// within a second, and all later ones at once (reads with the end, writes with an error). The
    /// other side reads the bytes that were written, and then the end.
    pub fn hang_up(&self) {
        self.0.hang_up();
    }

    /// Waits until there is input or the end, or for this time. Returns false if the time is over.
    ///
    /// A read waits, too. But on Linux, a thread that waits in a read is also woken each time that
    /// the other side reads. On Windows this returns true at once.
    ///
    /// # Errors
    /// If the system refuses to wait.
    pub fn await_input(&self, time: Option<Duration>) -> io::Result<bool> {
        self.0.await_input(time)
    }

    /// Writes as much as is possible without blocking.
    ///
    /// # Errors
    /// `BrokenPipe` or the like if the connection has ended.
    pub fn write_now(&self, bytes: &[u8]) -> io::Result<Written> {
        self.0.write_now(bytes)
    }

    /// The user who owned the process at the other end when it connected. A pipe's server can call
    /// this only after it has read something.
    ///
    /// # Errors
    /// If the system does not report the user. The caller must not trust the peer then.
    pub fn peer(&self) -> io::Result<User> {
        self.0.peer().map_err(naming("ask who is at the other end"))
    }

    /// The id of the process at the other end when it connected, where the system reports it. The
    /// id may already belong to another process, so no trust depends on it.
    #[must_use]
    pub fn peer_pid(&self) -> Option<u32> {
        self.0.peer_pid()
    }

    fn new(stream: imp::Stream) -> Self {
        Self(Arc::new(stream))
    }
}

/// Blocks until there is input; `Ok(0)` is the end, whichever side caused it.
impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Blocks until some bytes are written. Writes are not buffered, so flushing does nothing.
impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
