//! Windows named pipes.
//!
//! A pipe cannot be shut down as a socket can. [`Stream::hang_up`] therefore withdraws the pipe
//! from all later calls, cancels those in progress until they have released it, and closes it. The
//! other side can still read what was written. (DisconnectNamedPipe would discard it.)

#[path = "windows/accept.rs"]
mod accept;

use std::{
    io::{self, Read as _, Write as _},
    os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle, RawHandle},
    ptr::{null, null_mut},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use interprocess::os::windows::named_pipe::{DuplexPipeStream, pipe_mode::Bytes};
use windows_sys::{
    Wdk::Storage::FileSystem::{FileModeInformation, NtQueryInformationFile},
    Win32::{
        Foundation::{
            ERROR_ACCESS_DENIED, ERROR_NO_DATA, ERROR_PIPE_BUSY, ERROR_PIPE_NOT_CONNECTED,
            INVALID_HANDLE_VALUE,
        },
        Storage::FileSystem::{
            CreateFileW, FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, OPEN_EXISTING,
            SECURITY_IDENTIFICATION, SECURITY_SQOS_PRESENT,
        },
        System::{
            IO::{CancelIoEx, IO_STATUS_BLOCK},
            Pipes::WaitNamedPipeW,
        },
    },
};

use accept::Event;

use super::{
    EndpointState, Written,
    pipe::{self, CONNECT, PipeState},
};
use crate::{
    endpoint::Endpoint,
    locked, naming,
    peer::User,
    refusal,
    security::{self, Descriptor, wide},
};

/// The largest write in one call. A larger write may exceed the process's quota.
const WRITE_BYTES_MAX: usize = 64 << 10;
/// The time a client waits while all instances of a pipe are busy.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time that hanging up waits for calls in progress to release the pipe.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The listening pipe.
pub(crate) struct Listener {
    endpoint: Endpoint,
    /// The owner and the access list, in SDDL.
    access: String,
    /// The instance that the next client opens. `None` if the system refused to make one.
    next: Mutex<Option<OwnedHandle>>,
    stopped: AtomicBool,
    stop: Event,
}

/// Succeeds always, since a pipe, unlike a socket, needs no directory.
pub(crate) fn check_bindable(_: &Endpoint) -> io::Result<()> {
    Ok(())
}

/// Whether a pipe is foreign: this user may not connect to it, or does not trust its server. If no
/// instance waits for a client, the access of the pipe is examined instead of connecting.
pub(crate) fn is_foreign(endpoint: &Endpoint) -> io::Result<bool> {
    match pipe::settled_state(endpoint) {
        PipeState::Absent => return Ok(false),
        PipeState::Listening => {}
        PipeState::Unattended => return pipe::is_foreign(endpoint),
    }
    match super::Stream::connect(endpoint) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(true),
        Err(error) => Err(error),
    }
}

impl Listener {
    pub(crate) fn bind(endpoint: &Endpoint, user: &User) -> io::Result<Self> {
        Self::bind_with(endpoint, pipe::access(user)?)
    }

    pub(crate) fn bind_guarded(endpoint: &Endpoint) -> io::Result<Self> {
        Self::bind_with(endpoint, pipe::guarded_access()?)
    }

    fn bind_with(endpoint: &Endpoint, access: String) -> io::Result<Self> {
        let taken = || {
            refusal(
                io::ErrorKind::AddrInUse,
                format!(
                    "another process listens at {endpoint}; stop it or choose another endpoint"
                ),
            )
        };
        let descriptor = Descriptor::of(&access)?;
        let first = match pipe::settled_state(endpoint) {
            PipeState::Listening => return Err(taken()),
            PipeState::Absent => {
                pipe::instance(endpoint.as_text(), &descriptor, FILE_FLAG_FIRST_PIPE_INSTANCE)
            }
            PipeState::Unattended => pipe::join(endpoint, &descriptor),
        };
        let first = first
            // With this error, Windows reports that the name belongs to another user's pipe.
            .map_err(|error| if is(&error, ERROR_ACCESS_DENIED) { taken() } else { error })
            .map_err(naming(format!("listen at {endpoint}")))?;
        Ok(Self {
            endpoint: endpoint.clone(),
            access,
            next: Mutex::new(Some(first)),
            stopped: AtomicBool::new(false),
            stop: Event::new()?,
        })
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        let pipe = self.next_client().map_err(naming(format!("accept at {}", self.endpoint)))?;
        match pipe {
            Some(pipe) if !self.stopped.load(Ordering::SeqCst) => Stream::new(pipe),
            _ => Err(refusal(
                io::ErrorKind::Interrupted,
                format!("listening at {} was stopped", self.endpoint),
            )),
        }
    }

    /// Returns an instance that a client has opened, after making the next one. `None` once the
    /// listener is stopped.
    fn next_client(&self) -> io::Result<Option<OwnedHandle>> {
        let mut next = locked(&self.next);
        loop {
            let pipe = next.take().map_or_else(|| self.instance(), Ok)?;
            match accept::wait_for_client(&pipe, &self.stop) {
                Ok(true) => {
                    // If this fails, the next call tries again, and reports the error.
                    *next = self.instance().ok();
                    return Ok(Some(pipe));
                }
                Ok(false) => {
                    *next = Some(pipe);
                    return Ok(None);
                }
                // The client has left again. Its instance keeps the name until there is another:
                // otherwise other clients would find no pipe, and another process could make one.
                Err(error) if is(&error, ERROR_NO_DATA) => {
                    *next = Some(pipe);
                    *next = Some(self.instance()?);
                }
                Err(error) => {
                    *next = Some(pipe);
                    return Err(error);
                }
            }
        }
    }

    fn instance(&self) -> io::Result<OwnedHandle> {
        pipe::instance(self.endpoint.as_text(), &Descriptor::of(&self.access)?, 0)
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.stop.set();
    }

    pub(crate) fn endpoint_state(&self) -> io::Result<EndpointState> {
        Ok(EndpointState::Mine)
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// A connected pipe, until it is hung up. Every call in progress holds a clone of the inner `Arc`.
#[derive(Debug)]
pub(crate) struct Stream(Mutex<Option<Arc<Pipe>>>);

impl Stream {
    pub(crate) fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        let stream = Self::new(open(endpoint)?)?;
        if let Some(pipe) = stream.pipe() {
            pipe::check_integrity(pipe.handle(), stream.peer_pid())?;
        }
        Ok(stream)
    }

    pub(crate) fn hang_up(&self) {
        let Some(pipe) = locked(&self.0).take() else { return };
        let give_up = Instant::now() + RELEASE_TIMEOUT;
        // Cancelling affects only calls that wait now. A call that has cloned the `Arc` but does
        // not wait yet is cancelled in the next iteration.
        while Arc::strong_count(&pipe) > 1 && Instant::now() < give_up {
            // SAFETY: the handle is open while the reference lives; null means all calls.
            unsafe { CancelIoEx(pipe.handle(), null()) };
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn write_now(&self, _: &[u8]) -> io::Result<Written> {
        Ok(Written::Unsupported)
    }

    pub(crate) fn peer(&self) -> io::Result<User> {
        let pipe = self.pipe().ok_or(io::ErrorKind::NotConnected)?;
        let sid = if pipe.0.is_server() {
            security::client_sid(pipe.handle())?
        } else {
            security::owner_sid(pipe.handle())?
        };
        Ok(User::of_sid(sid))
    }

    pub(crate) fn peer_pid(&self) -> Option<u32> {
        self.pipe()?.0.peer_process_id().ok()
    }

    pub(crate) const fn await_input(&self, _: Option<Duration>) -> io::Result<bool> {
        Ok(true)
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(pipe) = self.pipe() else { return Ok(0) };
        match (&pipe.0).read(buffer) {
            Err(error) if self.has_ended(&error) => Ok(0),
            result => result,
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            // Nothing is sent, since the other side would read an empty write as the end.
            return Ok(0);
        }
        let pipe = self.pipe().ok_or_else(ended)?;
        let bytes = &bytes[..bytes.len().min(WRITE_BYTES_MAX)];
        match (&pipe.0).write(bytes) {
            Err(error) if self.has_ended(&error) => Err(ended()),
            result => result,
        }
    }

    fn new(pipe: OwnedHandle) -> io::Result<Self> {
        debug_assert!(
            is_overlapped(pipe.as_raw_handle()),
            "reads and writes would exclude each other"
        );
        let pipe = DuplexPipeStream::try_from(pipe)
            .map_err(|error| error.cause.unwrap_or_else(|| io::ErrorKind::InvalidInput.into()))?;
        Ok(Self(Mutex::new(Some(Arc::new(Pipe(pipe))))))
    }

    fn pipe(&self) -> Option<Arc<Pipe>> {
        locked(&self.0).clone()
    }

    /// Whether an error means that either side has ended the connection.
    fn has_ended(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::BrokenPipe
            || is(error, ERROR_PIPE_NOT_CONNECTED)
            || is(error, ERROR_NO_DATA)
            || locked(&self.0).is_none()
    }
}

/// A pipe that is closed at once when dropped. A stream of interprocess would first wait in another
/// thread until the other side has read everything, which is not needed: the other side can still
/// read after the close.
#[derive(Debug)]
struct Pipe(DuplexPipeStream<Bytes>);

impl Pipe {
    fn handle(&self) -> RawHandle {
        self.0.as_raw_handle()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.0.assume_flushed();
    }
}

/// Opens a pipe for overlapped calls, so that reads and writes do not wait for each other. The
/// pipe's server can identify this process, but not act as its user.
fn open(endpoint: &Endpoint) -> io::Result<OwnedHandle> {
    let path = wide(endpoint.as_text());
    let give_up = Instant::now() + BUSY_TIMEOUT;
    loop {
        // SAFETY: the path ends with a zero; null means no attributes and no template.
        let pipe = unsafe {
            CreateFileW(
                path.as_ptr(),
                CONNECT,
                0,
                security::NO_ATTRIBUTES,
                OPEN_EXISTING,
                FILE_FLAG_OVERLAPPED | SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION,
                null_mut(),
            )
        };
        if pipe != INVALID_HANDLE_VALUE {
            // SAFETY: the call has succeeded, so that the handle is open and ours.
            return Ok(unsafe { OwnedHandle::from_raw_handle(pipe) });
        }
        let error = io::Error::last_os_error();
        if is(&error, ERROR_ACCESS_DENIED) {
            let words = format!(
                "{error}: another user's process listens there, or one that accepts only terminals opened with `Run as administrator`"
            );
            return Err(refusal(io::ErrorKind::PermissionDenied, words));
        }
        if !is(&error, ERROR_PIPE_BUSY) {
            return Err(error);
        }
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(refusal(
                io::ErrorKind::TimedOut,
                format!("the server has been busy for {} s", BUSY_TIMEOUT.as_secs()),
            ));
        }
        // SAFETY: the path ends with a zero. A failure shows in the next attempt.
        unsafe { WaitNamedPipeW(path.as_ptr(), left.as_millis().clamp(1, 1000) as u32) };
    }
}

/// Whether the handle is overlapped. On a handle that is not, the system serializes the calls.
fn is_overlapped(pipe: RawHandle) -> bool {
    const FILE_SYNCHRONOUS_IO: u32 = 0x30;
    let (mut status, mut mode) = (IO_STATUS_BLOCK::default(), 0_u32);
    // SAFETY: the handle is open; the pointers are to values of ours, and the length is the
    // second's.
    let result = unsafe {
        NtQueryInformationFile(pipe, &mut status, (&raw mut mode).cast(), 4, FileModeInformation)
    };
    result == 0 && mode & FILE_SYNCHRONOUS_IO == 0
}

fn is(error: &io::Error, code: u32) -> bool {
    error.raw_os_error() == Some(code as i32)
}

fn ended() -> io::Error {
    refusal(io::ErrorKind::BrokenPipe, "the connection has ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, process, sync::Barrier};
    use windows_sys::Win32::Storage::FileSystem::FILE_CREATE_PIPE_INSTANCE;

    /// A pipe for one test.
    fn endpoint(name: &str) -> Endpoint {
        Endpoint::parse(format!(r"\\.\pipe\test-{}-{name}", process::id()).as_ref()).unwrap()
    }

    fn listener(endpoint: &Endpoint) -> Listener {
        Listener::bind(endpoint, &User::me().unwrap()).unwrap()
    }

    /// The security descriptor of this user's pipes.
    fn own_descriptor() -> Descriptor {
        Descriptor::of(&pipe::access(&User::me().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn handles_are_overlapped_and_others_are_detected() {
        let endpoint = endpoint("overlapped");
        let listener = listener(&endpoint);
        let client = open(&endpoint).unwrap();
        assert!(is_overlapped(client.as_raw_handle()));
        let server = listener.accept().unwrap();
        assert!(is_overlapped(server.pipe().unwrap().handle()));
        let plain = File::options().read(true).write(true).open(endpoint.as_text()).unwrap();
        assert!(!is_overlapped(plain.as_raw_handle()));
    }

    /// The rights that docs/PROTOCOL.md states for clients.
    #[test]
    fn client_rights_are_as_documented() {
        assert_eq!(CONNECT, 0x0012_019B);
        assert_eq!(CONNECT & FILE_CREATE_PIPE_INSTANCE, 0);
    }

    #[test]
    fn two_hundred_clients_wait_before_the_first_accept() {
        const CLIENTS: usize = 200;
        let endpoint = endpoint("burst");
        let listener = listener(&endpoint);
        let together = Barrier::new(CLIENTS + 1);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    together.wait();
                    let client = loop {
                        match Stream::connect(&endpoint) {
                            // On a busy machine, all others may be faster.
                            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                            connected => break connected.unwrap(),
                        }
                    };
                    assert_eq!(client.read(&mut [0]).unwrap(), 1);
                });
            }
            together.wait();
            for _ in 0..CLIENTS {
                assert_eq!(listener.accept().unwrap().write(b"x").unwrap(), 1);
            }
        });
    }

    #[test]
    fn clients_that_leave_unaccepted_are_skipped_and_the_name_stays() {
        let endpoint = endpoint("leaving");
        let listener = listener(&endpoint);
        for _ in 0..50 {
            drop(open(&endpoint).unwrap());
            thread::scope(|scope| {
                let accepted = scope.spawn(|| listener.accept().unwrap());
                let client = Stream::connect(&endpoint).unwrap();
                assert_eq!(client.write(b"x").unwrap(), 1);
                assert_eq!(accepted.join().unwrap().read(&mut [0]).unwrap(), 1);
            });
        }
    }

    #[test]
    fn pipe_of_a_program_with_low_integrity_is_refused() {
        let endpoint = endpoint("low");
        let me = User::me().unwrap();
        let low = Descriptor::of(&format!("O:{me}D:P(A;;GA;;;{me})S:(ML;;NW;;;LW)")).unwrap();
        let _theirs = pipe::instance(endpoint.as_text(), &low, 0).unwrap();
        let error = Stream::connect(&endpoint).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    }

    #[test]
    fn client_never_accepted_waits_until_the_deadline() {
        let endpoint = endpoint("busy");
        let _listener = listener(&endpoint);
        let _first = open(&endpoint).unwrap();
        let before = Instant::now();
        let error = open(&endpoint).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert!(before.elapsed() >= BUSY_TIMEOUT, "the client did not wait");
    }

    #[test]
    fn only_own_pipe_is_joined() {
        let ours = endpoint("ours");
        let _left = listener(&ours);
        let _client = open(&ours).unwrap();
        // The only instance has a client, so no instance waits for a client now.
        assert!(!super::is_foreign(&ours).unwrap());
        let pipe = pipe::join(&ours, &own_descriptor()).unwrap();
        assert!(is_overlapped(pipe.as_raw_handle()));
        open(&ours).unwrap();

        let others = endpoint("others");
        let everybody = Descriptor::of("D:(A;;GA;;;WD)").unwrap();
        let _theirs = pipe::instance(others.as_text(), &everybody, 0).unwrap();
        let _client = open(&others).unwrap();
        assert!(super::is_foreign(&others).unwrap());
        let error = pipe::join(&others, &own_descriptor()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
    }

    #[test]
    fn listening_pipe_differs_from_absent_and_unattended() {
        let endpoint = endpoint("settled");
        assert_eq!(pipe::settled_state(&endpoint), PipeState::Absent);
        let _listener = listener(&endpoint);
        assert_eq!(pipe::settled_state(&endpoint), PipeState::Listening);
        let _client = open(&endpoint).unwrap();
        assert_eq!(pipe::settled_state(&endpoint), PipeState::Unattended);
    }
}
