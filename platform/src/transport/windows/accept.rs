//! The wait for a client of a pipe, which another thread can end.
//!
//! interprocess calls ConnectNamedPipe without an OVERLAPPED, which Windows forbids for overlapped
//! handles. docs/patches has a correction for it.

use std::{
    io,
    mem::zeroed,
    os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle},
    ptr::null,
};

use windows_sys::Win32::{
    Foundation::{
        ERROR_IO_PENDING, ERROR_OPERATION_ABORTED, ERROR_PIPE_CONNECTED, WAIT_FAILED, WAIT_OBJECT_0,
    },
    System::{
        IO::{CancelIoEx, GetOverlappedResult, OVERLAPPED},
        Pipes::ConnectNamedPipe,
        Threading::{CreateEventW, INFINITE, SetEvent, WaitForMultipleObjects},
    },
};

use super::is;
use crate::security;

/// An event that stays signalled.
pub(super) struct Event(OwnedHandle);

impl Event {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: null means no attributes and no name.
        let event = unsafe { CreateEventW(security::NO_ATTRIBUTES, 1, 0, null()) };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has succeeded, so that the handle is open and ours.
        Ok(Self(unsafe { OwnedHandle::from_raw_handle(event) }))
    }

    /// Signals the event.
    pub(super) fn set(&self) {
        // SAFETY: the handle is open. The call cannot fail for an open event.
        unsafe { SetEvent(self.0.as_raw_handle()) };
    }
}

/// Waits until a client has opened this instance of a pipe. Returns false if `stop` was signalled
/// before.
///
/// # Errors
/// `ERROR_NO_DATA` if a client has opened the instance and closed it again; and the system's
/// errors.
pub(super) fn wait_for_client(instance: &OwnedHandle, stop: &Event) -> io::Result<bool> {
    let (pipe, connected) = (instance.as_raw_handle(), Event::new()?);
    // SAFETY: all-zero is a valid value of the type.
    let mut call: OVERLAPPED = unsafe { zeroed() };
    call.hEvent = connected.0.as_raw_handle();
    // SAFETY: the handle is open and overlapped; the value and its event live until the call has
    // ended: this function waits for that.
    if unsafe { ConnectNamedPipe(pipe, &mut call) } != 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if is(&error, ERROR_PIPE_CONNECTED) => return Ok(true),
        error if is(&error, ERROR_IO_PENDING) => {}
        error => return Err(error),
    }
    let events = [call.hEvent, stop.0.as_raw_handle()];
    // SAFETY: both handles are open.
    let waited = unsafe { WaitForMultipleObjects(2, events.as_ptr(), 0, INFINITE) };
    let failed = (waited == WAIT_FAILED).then(io::Error::last_os_error);
    if waited != WAIT_OBJECT_0 {
        // SAFETY: the handle is open, and the value is that of the call in progress. If this fails,
        // the call has ended.
        unsafe { CancelIoEx(pipe, &call) };
    }
    let mut bytes = 0;
    // SAFETY: as above; 1 means to wait for the end of the call.
    if unsafe { GetOverlappedResult(pipe, &call, &mut bytes, 1) } != 0 {
        return Ok(true);
    }
    match (io::Error::last_os_error(), failed) {
        (_, Some(failed)) => Err(failed),
        (error, None) if is(&error, ERROR_OPERATION_ABORTED) => Ok(false),
        (error, None) => Err(error),
    }
}
