//! The pseudo console of a newer `conpty.dll` next to the executable, or else the system's.

use std::{
    io::{self, PipeReader, PipeWriter},
    mem::transmute,
    os::windows::io::AsRawHandle as _,
    ptr::null_mut,
    sync::OnceLock,
};

use windows_sys::{
    Win32::{
        Foundation::{FARPROC, HANDLE, HMODULE, S_OK},
        System::{
            Console::{COORD, HPCON, PSEUDOCONSOLE_INHERIT_CURSOR},
            LibraryLoader::{
                GetProcAddress, LOAD_LIBRARY_SEARCH_APPLICATION_DIR, LOAD_LIBRARY_SEARCH_SYSTEM32,
                LoadLibraryExW,
            },
        },
    },
    core::HRESULT,
};

use crate::{pty::Size, refusal, security::wide};

/// The flag that makes a console keep wrapped lines when its size changes instead of printing them
/// again.
const RESIZE_QUIRK: u32 = 2;
/// The flag that makes a console accept keys as win32-input-mode sequences, which state all that a
/// console reports about a key.
const WIN32_INPUT_MODE: u32 = 4;

/// A console for other processes.
pub(super) struct Console {
    // Declared first, to be dropped first: unread output does not delay the console's end.
    output: PipeReader,
    handle: Handle,
}

impl Console {
    /// Opens a console, and returns it with the writer of its input.
    pub(super) fn open(size: Size) -> io::Result<(Self, PipeWriter)> {
        let calls = calls()?;
        let (input, typing) = io::pipe()?;
        let (output, printing) = io::pipe()?;
        let mut handle = 0;
        let flags = PSEUDOCONSOLE_INHERIT_CURSOR | RESIZE_QUIRK | WIN32_INPUT_MODE;
        let (from, to) = (input.as_raw_handle(), printing.as_raw_handle());
        // SAFETY: both handles are open, and the console keeps copies of its own; the pointer is to
        // a handle of ours.
        checked_result(unsafe { (calls.create)(coord(size), from, to, flags, &mut handle) })?;
        Ok((Self { output, handle: Handle(handle) }, typing))
    }

    /// A separate reader of the output.
    pub(super) fn output(&self) -> io::Result<PipeReader> {
        self.output.try_clone()
    }

    pub(super) fn resize(&self, size: Size) -> io::Result<()> {
        // SAFETY: the console is open.
        checked_result(unsafe { (calls()?.resize)(self.handle.0, coord(size)) })
    }

    /// The handle for starting a process in this console; valid while `self` lives.
    pub(super) fn handle(&self) -> HPCON {
        self.handle.0
    }
}

struct Handle(HPCON);

impl Drop for Handle {
    fn drop(&mut self) {
        if let Ok(calls) = calls() {
            // SAFETY: the console is open, and is not used any more.
            unsafe { (calls.close)(self.0) };
        }
    }
}

type Create = unsafe extern "system" fn(COORD, HANDLE, HANDLE, u32, *mut HPCON) -> HRESULT;
type Resize = unsafe extern "system" fn(HPCON, COORD) -> HRESULT;
type Close = unsafe extern "system" fn(HPCON);

struct Calls {
    create: Create,
    resize: Resize,
    close: Close,
}

fn calls() -> io::Result<&'static Calls> {
    static CALLS: OnceLock<Option<Calls>> = OnceLock::new();
    let found = CALLS.get_or_init(|| ["conpty.dll", "kernel32.dll"].into_iter().find_map(calls_of));
    found.as_ref().ok_or_else(|| {
        let why = "this Windows has no pseudo consoles; use Windows 10 1809 or newer";
        refusal(io::ErrorKind::Unsupported, why)
    })
}

/// The functions of a library in the executable's directory or the system's. The current directory
/// and PATH are not searched.
fn calls_of(library: &str) -> Option<Calls> {
    let places = LOAD_LIBRARY_SEARCH_APPLICATION_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32;
    // SAFETY: the name ends with a zero.
    let library = unsafe { LoadLibraryExW(wide(library).as_ptr(), null_mut(), places) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the names are those of functions with these signatures, in a library that is never
    // unloaded.
    unsafe {
        Some(Calls {
            create: transmute::<FARPROC, Option<Create>>(find(library, c"CreatePseudoConsole"))?,
            resize: transmute::<FARPROC, Option<Resize>>(find(library, c"ResizePseudoConsole"))?,
            close: transmute::<FARPROC, Option<Close>>(find(library, c"ClosePseudoConsole"))?,
        })
    }
}

fn find(library: HMODULE, name: &std::ffi::CStr) -> FARPROC {
    // SAFETY: the library is loaded, and the name ends with a zero.
    unsafe { GetProcAddress(library, name.as_ptr().cast()) }
}

fn coord(size: Size) -> COORD {
    let length = |cells: u16| i16::try_from(cells).unwrap_or(i16::MAX).max(1);
    COORD { X: length(size.cols), Y: length(size.rows) }
}

fn checked_result(result: HRESULT) -> io::Result<()> {
    if result == S_OK {
        return Ok(());
    }
    // An HRESULT with this facility wraps an ordinary error code.
    let code = if result as u32 >> 16 == 0x8007 { result & 0xffff } else { result };
    Err(io::Error::from_raw_os_error(code))
}
