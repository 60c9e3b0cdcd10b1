//! Windows named pipes.
//!
//! A pipe cannot be shut down as a socket can. [`Stream::hang_up`] therefore takes the pipe away from
//! all later calls, cancels those under way until they have let go of it, and closes it, which leaves
//! the other side what was written. (DisconnectNamedPipe would throw that away.)

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

use interprocess::os::windows::{
    named_pipe::{DuplexPipeStream, PipeListener, PipeListenerOptions, pipe_mode::Bytes},
    security_descriptor::{AsSecurityDescriptorExt as _, BorrowedSecurityDescriptor},
};
use windows_sys::{
    Wdk::Storage::FileSystem::{FileModeInformation, NtQueryInformationFile},
    Win32::{
        Foundation::{
            ERROR_ACCESS_DENIED, ERROR_FILE_NOT_FOUND, ERROR_NO_DATA, ERROR_PIPE_BUSY,
            ERROR_PIPE_NOT_CONNECTED, INVALID_HANDLE_VALUE,
        },
        Storage::FileSystem::{
            CreateFileW, FILE_APPEND_DATA, FILE_FLAG_OVERLAPPED, FILE_GENERIC_READ,
            FILE_GENERIC_WRITE, OPEN_EXISTING, SECURITY_IDENTIFICATION, SECURITY_SQOS_PRESENT,
        },
        System::{
            IO::{CancelIoEx, IO_STATUS_BLOCK},
            Pipes::{NMPWAIT_NOWAIT, WaitNamedPipeW},
        },
    },
};

use super::{Place, Written};
use crate::{
    endpoint::Endpoint,
    locked, naming,
    peer::{Peer, User},
    refusal,
    security::{self, Descriptor, wide},
};

/// What the system may keep for a side that does not read yet.
const BUFFER_BYTES: u32 = 64 << 10;
/// The most that is written in one call: a larger write may be refused for want of quota.
const WRITE_BYTES_MAX: usize = 64 << 10;
/// Reading and writing without FILE_CREATE_PIPE_INSTANCE, which GENERIC_WRITE would ask for as well.
const CONNECT: u32 = (FILE_GENERIC_READ | FILE_GENERIC_WRITE) & !FILE_APPEND_DATA;
/// How long a client waits while every instance of a pipe is taken.
const BUSY: Duration = Duration::from_secs(5);
/// How long calls under way get to let go of a pipe that is hung up.
const LET_GO: Duration = Duration::from_secs(1);

/// The listening pipe.
pub(crate) struct Listener {
    pipe: PipeListener<Bytes, Bytes>,
    endpoint: Endpoint,
    stopped: AtomicBool,
    /// The connection to ourselves that wakes a waiting accept; kept, because accept goes on waiting
    /// after a client that has gone again.
    wake: Mutex<Option<OwnedHandle>>,
}

/// A pipe's name is all that it takes.
pub(crate) fn check(_: &Endpoint) -> io::Result<()> {
    Ok(())
}

impl Listener {
    pub(crate) fn bind(endpoint: &Endpoint, user: &User) -> io::Result<Self> {
        let taken = || {
            refusal(
                io::ErrorKind::AddrInUse,
                format!(
                    "somebody listens at {endpoint} already: stop it or choose another endpoint"
                ),
            )
        };
        if exists(endpoint) {
            return Err(taken());
        }
        let descriptor = Descriptor::of(&pipe_access(user)?)?;
        // SAFETY: the descriptor is valid, and lives until after its copy is made.
        let owned =
            unsafe { BorrowedSecurityDescriptor::from_ptr(descriptor.as_ptr()) }.to_owned_sd()?;
        let pipe = PipeListenerOptions::new()
            .path(endpoint.as_text())
            .accept_remote(false)
            .input_buffer_size_hint(BUFFER_BYTES)
            .output_buffer_size_hint(BUFFER_BYTES)
            .security_descriptor(Some(owned))
            .create_duplex()
            // So Windows says that the first instance is another's.
            .map_err(|error| if is(&error, ERROR_ACCESS_DENIED) { taken() } else { error })
            .map_err(naming(format!("listen at {endpoint}")))?;
        Ok(Self {
            pipe,
            endpoint: endpoint.clone(),
            stopped: AtomicBool::new(false),
            wake: Mutex::new(None),
        })
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        self.check_stop()?;
        let pipe = self.pipe.accept().map_err(naming(format!("accept at {}", self.endpoint)))?;
        self.check_stop()?;
        Stream::new(pipe)
    }

    pub(crate) fn stop(&self) {
        if !self.stopped.swap(true, Ordering::SeqCst) {
            // If it cannot be opened, a client has it open, and accept wakes up for that one.
            *locked(&self.wake) = open(&self.endpoint).ok();
        }
    }

    pub(crate) fn place(&self) -> io::Result<Place> {
        Ok(Place::Mine)
    }

    fn check_stop(&self) -> io::Result<()> {
        if !self.stopped.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(refusal(
            io::ErrorKind::Interrupted,
            format!("listening at {} was stopped", self.endpoint),
        ))
    }
}

impl std::fmt::Debug for Listener {
    /// interprocess's own would wait for an accept to end.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// A connected pipe, until it is hung up. Every call under way holds the inner `Arc`.
#[derive(Debug)]
pub(crate) struct Stream(Mutex<Option<Arc<Pipe>>>);

impl Stream {
    pub(crate) fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        let pipe = open(endpoint)?;
        Self::new(
            DuplexPipeStream::try_from(pipe).map_err(|error| {
                error.cause.unwrap_or_else(|| io::ErrorKind::InvalidInput.into())
            })?,
        )
    }

    pub(crate) fn hang_up(&self) {
        let Some(pipe) = locked(&self.0).take() else { return };
        let give_up = Instant::now() + LET_GO;
        // Cancelling is not sticky: a call that has taken its reference but not yet begun to wait is
        // caught the next time round.
        while Arc::strong_count(&pipe) > 1 && Instant::now() < give_up {
            // SAFETY: the handle is open while the reference lives; null means all calls.
            unsafe { CancelIoEx(pipe.handle(), null()) };
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn write_now(&self, _: &[u8]) -> io::Result<Written> {
        Ok(Written::Unsupported)
    }

    pub(crate) fn peer(&self) -> io::Result<Peer> {
        let pipe = self.pipe().ok_or(io::ErrorKind::NotConnected)?;
        let sid = if pipe.0.is_server() {
            security::client_sid(pipe.handle())?
        } else {
            security::owner_sid(pipe.handle())?
        };
        Ok(Peer { user: User::of_sid(sid), pid: pipe.0.peer_process_id().ok() })
    }

    pub(crate) fn server(&self) -> io::Result<User> {
        Ok(self.peer()?.user)
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
            // Sent, the other side would take it for the end.
            return Ok(0);
        }
        let pipe = self.pipe().ok_or_else(ended)?;
        let bytes = &bytes[..bytes.len().min(WRITE_BYTES_MAX)];
        match (&pipe.0).write(bytes) {
            Err(error) if self.has_ended(&error) => Err(ended()),
            result => result,
        }
    }

    fn new(pipe: DuplexPipeStream<Bytes>) -> io::Result<Self> {
        debug_assert!(
            is_overlapped(pipe.as_raw_handle()),
            "reads and writes would exclude each other"
        );
        Ok(Self(Mutex::new(Some(Arc::new(Pipe(pipe))))))
    }

    fn pipe(&self) -> Option<Arc<Pipe>> {
        locked(&self.0).clone()
    }

    /// Whether an error is the connection's end: the other side's, or a hang-up of ours.
    fn has_ended(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::BrokenPipe
            || is(error, ERROR_PIPE_NOT_CONNECTED)
            || is(error, ERROR_NO_DATA)
            || locked(&self.0).is_none()
    }
}

/// Closed when dropped, at once: interprocess would give what was written to a thread of its own that
/// waits until the other side has read it. Closing leaves it readable.
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

/// Who may use the pipe, and who owns it. Whom a service serves may connect, but not make instances of his own,
/// in which others would meet him instead. What runs at a low level of integrity may only look on.
fn pipe_access(user: &User) -> io::Result<String> {
    let me = User::me()?;
    let users = if *user == me { String::new() } else { format!("(A;;{CONNECT:#x};;;{user})") };
    Ok(format!("O:{me}D:P(A;;GA;;;{me})(A;;GA;;;SY){users}S:(ML;;NW;;;ME)"))
}

/// Opens a pipe so that reads and writes do not wait for each other, and so that its server can learn
/// who we are but not act as us.
fn open(endpoint: &Endpoint) -> io::Result<OwnedHandle> {
    let path = wide(endpoint.as_text());
    let give_up = Instant::now() + BUSY;
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
        if !is(&error, ERROR_PIPE_BUSY) {
            return Err(error);
        }
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(refusal(
                io::ErrorKind::TimedOut,
                format!("it has been busy for {} s", BUSY.as_secs()),
            ));
        }
        // SAFETY: the path ends with a zero. Whatever the answer, the next attempt tells.
        unsafe { WaitNamedPipeW(path.as_ptr(), left.as_millis().clamp(1, 1000) as u32) };
    }
}

/// Whether there is such a pipe, without connecting to it.
fn exists(endpoint: &Endpoint) -> bool {
    let path = wide(endpoint.as_text());
    // SAFETY: the path ends with a zero.
    let free = unsafe { WaitNamedPipeW(path.as_ptr(), NMPWAIT_NOWAIT) } != 0;
    free || !is(&io::Error::last_os_error(), ERROR_FILE_NOT_FOUND)
}

/// The system serializes the calls on a handle that is not.
fn is_overlapped(pipe: RawHandle) -> bool {
    const FILE_SYNCHRONOUS_IO: u32 = 0x30;
    let (mut status, mut mode) = (IO_STATUS_BLOCK::default(), 0_u32);
    // SAFETY: the handle is open; the pointers are to values of ours, and the length is the second's.
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
