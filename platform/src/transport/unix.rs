//! Unix sockets.

use std::{
    fs::{self, Metadata},
    io::{self, Read as _, Write as _},
    net::Shutdown,
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::fs::{FileTypeExt as _, MetadataExt as _},
    },
    path::Path,
    time::Duration,
};

use interprocess::{
    local_socket::{
        GenericFilePath, Listener as AnyListener, ListenerNonblockingMode, ListenerOptions,
        Stream as AnyStream, ToFsName as _,
        traits::{Listener as _, Stream as _, StreamCommon as _},
    },
    os::unix::uds_local_socket as uds,
};

use super::{EndpointState, Written};
use crate::{
    endpoint::{self, Endpoint},
    naming, paths,
    peer::User,
    poll::Stop,
    refusal,
};

/// The listening socket, and the identity of its file.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: uds::Listener,
    endpoint: Endpoint,
    file: FileId,
    stop: Stop,
}

/// The device and inode of a socket. The kernel does not reuse the inode while the socket is bound.
#[derive(Debug, PartialEq, Eq)]
struct FileId(u64, u64);

impl Listener {
    pub(crate) fn bind(endpoint: &Endpoint, user: &User) -> io::Result<Self> {
        if *user != User::me()? {
            return Err(refusal(
                io::ErrorKind::Unsupported,
                format!(
                    "cannot listen at {endpoint} for user {user}: on this system a process listens only for its own user"
                ),
            ));
        }
        let directory = endpoint::short_directory()?;
        if Path::new(endpoint.as_text()).parent() == Some(&directory) {
            paths::make_private_dir(&directory).map_err(|error| {
                refusal(error.kind(), format!("{error}, or a home with a shorter path"))
            })?;
        }
        remove_stale_socket(endpoint)?;
        let listening = || naming(format!("listen at {endpoint}"));
        let AnyListener::UdSocket(socket) = listen(endpoint)
            .map_err(|error| directory_error(endpoint).unwrap_or(error))
            .map_err(listening())?;
        // The accept call must not block: accept waits in poll, which a stop also ends.
        socket.set_nonblocking(ListenerNonblockingMode::Accept).map_err(listening())?;
        let file = FileId::of(&look(endpoint)?.ok_or_else(|| {
            refusal(
                io::ErrorKind::NotFound,
                format!("{endpoint} was removed as it was made; try again"),
            )
        })?);
        Ok(Self { socket, endpoint: endpoint.clone(), file, stop: Stop::new()? })
    }

    pub(crate) fn bind_guarded(endpoint: &Endpoint) -> io::Result<Self> {
        Self::bind(endpoint, &User::me()?)
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        loop {
            let waited = self.stop.wait(&self.socket, libc::POLLIN);
            if waited.map_err(naming("wait for connections"))?.stopped {
                return Err(refusal(
                    io::ErrorKind::Interrupted,
                    format!("listening at {} was stopped", self.endpoint),
                ));
            }
            match self.socket.accept() {
                Ok(stream) => {
                    // On BSD, accepted sockets inherit the listener's non-blocking mode.
                    stream.set_nonblocking(false)?;
                    return Ok(Stream(stream));
                }
                // The client has disconnected before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(naming(format!("accept at {}", self.endpoint))(error)),
            }
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.stop();
    }

    pub(crate) fn endpoint_state(&self) -> io::Result<EndpointState> {
        Ok(match look(&self.endpoint)? {
            None => EndpointState::Gone,
            Some(metadata) if FileId::of(&metadata) == self.file => EndpointState::Mine,
            Some(_) => EndpointState::Foreign,
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A socket that cannot be examined or removed stays; the next listener replaces it.
        if matches!(self.endpoint_state(), Ok(EndpointState::Mine)) {
            let _ = fs::remove_file(self.endpoint.as_text());
        }
    }
}

impl FileId {
    fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Stream(uds::Stream);

impl Stream {
    pub(crate) fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        let path = Path::new(endpoint.as_text());
        match AnyStream::connect(path.to_fs_name::<GenericFilePath>()?) {
            Ok(AnyStream::UdSocket(socket)) => Ok(Self(socket)),
            // The system reports a socket without a listener and another kind of file by the same
            // error.
            Err(error)
                if error.kind() == io::ErrorKind::ConnectionRefused
                    && fs::metadata(path)
                        .is_ok_and(|metadata| !metadata.file_type().is_socket()) =>
            {
                Err(not_a_socket(endpoint))
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn hang_up(&self) {
        // Shutting down fails only if the connection has ended already.
        let _ = self.0.inner().shutdown(Shutdown::Both);
    }

    pub(crate) fn write_now(&self, bytes: &[u8]) -> io::Result<Written> {
        // On systems without this flag, Rust's start-up code ignores SIGPIPE.
        #[cfg(target_os = "linux")]
        const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        #[cfg(not(target_os = "linux"))]
        const FLAGS: i32 = libc::MSG_DONTWAIT;
        loop {
            // SAFETY: the pointer and the length are those of one slice, which the call only reads.
            let sent = unsafe {
                libc::send(self.0.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), FLAGS)
            };
            if let Ok(sent) = usize::try_from(sent) {
                return Ok(Written::Bytes(sent));
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return Ok(Written::Bytes(0)),
                _ => return Err(error),
            }
        }
    }

    pub(crate) fn peer(&self) -> io::Result<User> {
        let uid = self.0.peer_creds()?.euid().ok_or(io::ErrorKind::Unsupported)?;
        Ok(User::of_uid(uid))
    }

    #[cfg(not(target_os = "macos"))]
    pub(crate) fn peer_pid(&self) -> Option<u32> {
        self.0.peer_creds().ok()?.pid()?.try_into().ok()
    }

    #[cfg(target_os = "macos")]
    pub(crate) fn peer_pid(&self) -> Option<u32> {
        let (mut pid, mut bytes) = (0, size_of::<libc::pid_t>() as libc::socklen_t);
        // SAFETY: the socket is open, and the pointers are to values of ours, the length being that
        // of the first.
        let asked = unsafe {
            let (socket, into) = (self.0.as_fd().as_raw_fd(), (&raw mut pid).cast());
            libc::getsockopt(socket, libc::SOL_LOCAL, libc::LOCAL_PEERPID, into, &mut bytes)
        };
        (asked == 0).then_some(pid).and_then(|pid: libc::pid_t| pid.try_into().ok())
    }

    pub(crate) fn await_input(&self, time: Option<Duration>) -> io::Result<bool> {
        let ms = time.map_or(-1, |time| time.as_millis().try_into().unwrap_or(i32::MAX));
        let fd = self.0.as_fd().as_raw_fd();
        let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer is to one value of ours, and the socket is open.
        match unsafe { libc::poll(&raw mut polled, 1, ms) } {
            0 => Ok(false),
            1.. => Ok(true),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match (&self.0).read(buffer) {
            // The other side has closed without reading all bytes, which is an ordinary end.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
            result => result,
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }
}

/// Checks that a listener could bind the endpoint, as far as that is known without binding it.
pub(crate) fn check_bindable(endpoint: &Endpoint) -> io::Result<()> {
    match look(endpoint)? {
        Some(metadata) if !metadata.file_type().is_socket() => Err(not_a_socket(endpoint)),
        _ => check_directory(endpoint),
    }
}

pub(crate) fn is_foreign(endpoint: &Endpoint) -> io::Result<bool> {
    match fs::symlink_metadata(endpoint.as_text()) {
        Ok(metadata) => Ok(User::of_uid(metadata.uid()) != User::me()?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(naming(endpoint)(error)),
    }
}

/// Checks the directory of a socket.
fn check_directory(endpoint: &Endpoint) -> io::Result<()> {
    let directory = Path::new(endpoint.as_text()).parent();
    directory.map_or(Ok(()), paths::check_writable)
}

/// The error of the socket's directory, if a socket cannot be made in it.
fn directory_error(endpoint: &Endpoint) -> Option<io::Error> {
    let why = check_directory(endpoint).err()?;
    Some(refusal(why.kind(), format!("{why}; choose another endpoint")))
}

/// Makes the directory of a socket if it is missing.
pub(crate) fn restore_directory(endpoint: &Endpoint) -> io::Result<()> {
    match Path::new(endpoint.as_text()).parent() {
        Some(directory) if !directory.exists() => paths::make_private_dir(directory),
        _ => Ok(()),
    }
}

/// Removes a socket of this user without a listener, and refuses any other object.
fn remove_stale_socket(endpoint: &Endpoint) -> io::Result<()> {
    let Some(metadata) = look(endpoint)? else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(not_a_socket(endpoint));
    }
    let owner = User::of_uid(metadata.uid());
    if owner != User::me()? {
        return Err(refusal(
            io::ErrorKind::PermissionDenied,
            format!("{endpoint} belongs to the user with id {owner}; choose another endpoint"),
        ));
    }
    match Stream::connect(endpoint) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(endpoint.as_text()).map_err(naming(format!("remove {endpoint}")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A listener is presumably alive: it is connected, too busy to accept, or not permitted.
        _ => Err(refusal(
            io::ErrorKind::AddrInUse,
            format!("another process listens at {endpoint}; stop it or choose another endpoint"),
        )),
    }
}

/// The error for an object that is not a socket.
fn not_a_socket(endpoint: &Endpoint) -> io::Error {
    refusal(
        io::ErrorKind::AlreadyExists,
        format!("{endpoint} exists and is not a socket; move it away or choose another endpoint"),
    )
}

/// The metadata of the path itself; links are not followed.
fn look(endpoint: &Endpoint) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(endpoint.as_text()) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(naming(format!("look at {endpoint}"))(error)),
    }
}

/// Whether the error means that there is no file. A path below a regular file cannot exist either.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Binds with mode 0600 from the first moment on.
#[cfg(target_os = "linux")]
fn listen(endpoint: &Endpoint) -> io::Result<AnyListener> {
    use interprocess::os::unix::local_socket::ListenerOptionsExt as _;
    options(endpoint)?.mode(0o600).create_sync()
}

/// Binds with mode 0600 from the first moment on. On these systems only the umask can ensure that.
/// A file that another thread makes at the same time gets fewer permissions, which does no harm.
#[cfg(not(target_os = "linux"))]
fn listen(endpoint: &Endpoint) -> io::Result<AnyListener> {
    let options = options(endpoint)?;
    // SAFETY: umask touches no memory and cannot fail.
    let before = unsafe { libc::umask(0o177) };
    let listener = options.create_sync();
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    listener
}

/// The options of a listener. With `reclaim_name`, interprocess would remove any file at the path
/// when the listener is dropped; [`Listener`] removes only its own socket.
fn options(endpoint: &Endpoint) -> io::Result<ListenerOptions<'_>> {
    let name = Path::new(endpoint.as_text()).to_fs_name::<GenericFilePath>()?;
    Ok(ListenerOptions::new().name(name).reclaim_name(false))
}
