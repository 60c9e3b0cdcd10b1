//! The facts of one process on Windows: start, parent, path, command line, directory.

use std::{
    ffi::{OsString, c_void},
    fs::OpenOptions,
    io,
    mem::{MaybeUninit, offset_of, zeroed},
    os::windows::{
        ffi::OsStringExt as _,
        fs::OpenOptionsExt as _,
        io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle},
    },
    path::{Path, PathBuf},
    slice,
};

use windows_sys::{
    Wdk::System::Threading::{
        NtQueryInformationProcess, PROCESSINFOCLASS, ProcessBasicInformation,
        ProcessCommandLineInformation,
    },
    Win32::{
        Foundation::{ERROR_INVALID_PARAMETER, FILETIME, LocalFree, UNICODE_STRING},
        Storage::FileSystem::{
            BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_ID_INFO,
            FILE_READ_ATTRIBUTES, FileIdInfo, GetFileInformationByHandle,
            GetFileInformationByHandleEx,
        },
        System::{
            Diagnostics::Debug::ReadProcessMemory,
            Threading::{
                GetProcessTimes, OpenProcess, PEB, PROCESS_ACCESS_RIGHTS,
                PROCESS_BASIC_INFORMATION, PROCESS_NAME_WIN32, PROCESS_QUERY_LIMITED_INFORMATION,
                PROCESS_VM_READ, QueryFullProcessImageNameW, RTL_USER_PROCESS_PARAMETERS,
            },
        },
        UI::Shell::CommandLineToArgvW,
    },
};

use crate::{foreground::FileId, security::checked};

/// The longest path, and the longest command line, in UTF-16 units: the limit of a UNICODE_STRING.
const UNITS_MAX: usize = 32768;

/// The result of opening a process.
pub(super) enum Found {
    Open(Open),
    /// The process exists, but this user may not inspect it.
    Closed,
    Gone,
}

/// An open process. Windows does not use its id again while the handle is open.
pub(super) struct Open {
    pid: u32,
    handle: OwnedHandle,
}

pub(super) fn open(pid: u32) -> Found {
    match open_for(pid, PROCESS_QUERY_LIMITED_INFORMATION) {
        Ok(handle) => Found::Open(Open { pid, handle }),
        Err(error) if error.raw_os_error() == Some(ERROR_INVALID_PARAMETER as i32) => Found::Gone,
        Err(_) => Found::Closed,
    }
}

fn open_for(pid: u32, rights: PROCESS_ACCESS_RIGHTS) -> io::Result<OwnedHandle> {
    // SAFETY: no pointers.
    let handle = unsafe { OpenProcess(rights, 0, pid) };
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so that the handle is open and ours.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

impl Open {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// The start time, in units of 100 ns.
    pub(super) fn start(&self) -> Option<u64> {
        let [mut start, mut end, mut kernel, mut user] = [FILETIME::default(); 4];
        // SAFETY: the handle is open, and the pointers are to values of ours.
        checked(unsafe {
            let handle = self.handle.as_raw_handle();
            GetProcessTimes(handle, &mut start, &mut end, &mut kernel, &mut user)
        })
        .ok()?;
        Some(u64::from(start.dwHighDateTime) << 32 | u64::from(start.dwLowDateTime))
    }

    /// The parent, if it lives. A process with the parent's id that started later than this one is
    /// not the parent.
    pub(super) fn parent(&self) -> Option<u32> {
        let parent = u32::try_from(self.basic()?.InheritedFromUniqueProcessId).ok()?;
        let Found::Open(open) = open(parent) else { return None };
        (open.start()? <= self.start()?).then_some(parent)
    }

    /// The path of the executable.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let mut units = vec![0; UNITS_MAX];
        let mut length = UNITS_MAX as u32;
        let handle = self.handle.as_raw_handle();
        // SAFETY: the handle is open; the pointer and the number are those of one array.
        checked(unsafe {
            QueryFullProcessImageNameW(handle, PROCESS_NAME_WIN32, units.as_mut_ptr(), &mut length)
        })
        .ok()?;
        Some(OsString::from_wide(units.get(..length as usize)?).into())
    }

    /// The command line and the working directory. The directory is `None` unless the process's
    /// memory may be read.
    pub(super) fn command_line(&self) -> (Option<Vec<u16>>, Option<PathBuf>) {
        let line = self.queried_command_line();
        let Some((memory, parameters)) = self.parameters() else { return (line, None) };
        let text = |text: &UNICODE_STRING| memory.text(text.Buffer.addr(), text.Length.into());
        // `CurrentDirectory.DosPath`, which has no name in the declaration.
        let [length, address] = [5, 6].map(|at| parameters.Reserved2[at].addr());
        let directory = memory.text(address, length & 0xffff);
        // Wine does not answer the query for the command line.
        let line = line.or_else(|| text(&parameters.CommandLine));
        (line, directory.map(|units| OsString::from_wide(&units).into()))
    }

    fn queried_command_line(&self) -> Option<Vec<u16>> {
        // Room for a UNICODE_STRING and its text.
        let mut memory = vec![0_u64; (size_of::<UNICODE_STRING>() + 2 * UNITS_MAX) / 8];
        let bytes = size_of_val(&memory[..]) as u32;
        // SAFETY: the pointer and the length are those of one array.
        unsafe { self.query(ProcessCommandLineInformation, memory.as_mut_ptr().cast(), bytes)? };
        // SAFETY: the system has filled in a UNICODE_STRING, and the array is aligned for it.
        let text = unsafe { memory.as_ptr().cast::<UNICODE_STRING>().read() };
        if text.Length == 0 || text.Buffer.is_null() {
            return None;
        }
        // SAFETY: the text is in the same array, behind the UNICODE_STRING.
        Some(unsafe { slice::from_raw_parts(text.Buffer, usize::from(text.Length) / 2) }.to_vec())
    }

    /// The process's parameters, and the memory that they point to.
    fn parameters(&self) -> Option<(Memory, RTL_USER_PROCESS_PARAMETERS)> {
        let handle =
            open_for(self.pid, PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_VM_READ).ok()?;
        let memory = Memory(handle);
        let pointer = self.basic()?.PebBaseAddress.addr() + offset_of!(PEB, ProcessParameters);
        // SAFETY: any bytes are a valid value of a number, and of this structure.
        let parameters = unsafe { memory.value(memory.value(pointer)?)? };
        Some((memory, parameters))
    }

    fn basic(&self) -> Option<PROCESS_BASIC_INFORMATION> {
        // SAFETY: all-zero is a valid value of the type.
        let mut basic: PROCESS_BASIC_INFORMATION = unsafe { zeroed() };
        let bytes = size_of_val(&basic) as u32;
        // SAFETY: the pointer and the length are those of one value.
        unsafe { self.query(ProcessBasicInformation, (&raw mut basic).cast(), bytes)? };
        Some(basic)
    }

    /// Has the system write `bytes` bytes to `into`.
    ///
    /// # Safety
    /// The bytes have to be writable.
    unsafe fn query(&self, what: PROCESSINFOCLASS, into: *mut c_void, bytes: u32) -> Option<()> {
        let mut filled = 0;
        // SAFETY: the handle is open; the caller's pointer is to that many bytes.
        let status = unsafe {
            NtQueryInformationProcess(self.handle.as_raw_handle(), what, into, bytes, &mut filled)
        };
        (status >= 0).then_some(())
    }
}

/// The memory of a process of the same word size as this one, 32 or 64 bits.
struct Memory(OwnedHandle);

impl Memory {
    /// Reads a value.
    ///
    /// # Safety
    /// Any bytes have to be a valid `T`.
    unsafe fn value<T>(&self, address: usize) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the length is that of the value.
        unsafe { self.read(address, value.as_mut_ptr().cast(), size_of::<T>())? };
        // SAFETY: all of its bytes were filled in, and any are valid.
        Some(unsafe { value.assume_init() })
    }

    /// Reads a text of `bytes` bytes; `None` for an empty one.
    fn text(&self, address: usize, bytes: usize) -> Option<Vec<u16>> {
        let mut units = vec![0_u16; bytes / 2];
        // SAFETY: the length is that of the array.
        unsafe { self.read(address, units.as_mut_ptr().cast(), size_of_val(&units[..]))? };
        (!units.is_empty()).then_some(units)
    }

    /// Reads exactly `bytes` bytes to `into`.
    ///
    /// # Safety
    /// The bytes have to be writable.
    unsafe fn read(&self, address: usize, into: *mut c_void, bytes: usize) -> Option<()> {
        let mut filled = 0;
        let from = std::ptr::without_provenance(address);
        // SAFETY: the handle is open; the caller's pointer is to that many bytes. The address is
        // the other process's, where the system checks it.
        let read =
            unsafe { ReadProcessMemory(self.0.as_raw_handle(), from, into, bytes, &mut filled) };
        (read != 0 && filled == bytes).then_some(())
    }
}

/// The arguments of a command line, split by the system's own rules; `None` for an empty line.
pub(super) fn split(line: &[u16]) -> Option<Vec<OsString>> {
    if line.is_empty() {
        return None;
    }
    let line: Vec<u16> = line.iter().copied().chain([0]).collect();
    let mut count = 0;
    // SAFETY: the text ends with a zero, and the pointer is to a number of ours.
    let list = unsafe { CommandLineToArgvW(line.as_ptr(), &mut count) };
    if list.is_null() {
        return None;
    }
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the list has `count` texts, each with a zero at its end, until it is freed.
    let arguments = unsafe {
        let texts = slice::from_raw_parts(list, count);
        let arguments = texts.iter().map(|&text| {
            let length = (0..).take_while(|&at| *text.add(at) != 0).count();
            OsString::from_wide(slice::from_raw_parts(text, length))
        });
        let arguments = arguments.collect();
        LocalFree(list.cast());
        arguments
    };
    Some(arguments)
}

pub(super) fn file_id(path: &Path) -> io::Result<FileId> {
    let mut options = OpenOptions::new();
    options.access_mode(FILE_READ_ATTRIBUTES).custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    let file = options.open(path)?;
    let handle = file.as_raw_handle();
    let mut id = FILE_ID_INFO::default();
    let (into, bytes) = ((&raw mut id).cast(), size_of_val(&id) as u32);
    // SAFETY: the handle is open; the pointer and the number are those of one value.
    if unsafe { GetFileInformationByHandleEx(handle, FileIdInfo, into, bytes) } != 0 {
        let file = u128::from_le_bytes(id.FileId.Identifier);
        return Ok(FileId { volume: id.VolumeSerialNumber, file });
    }
    // Some file systems, such as FAT and those of some servers, have only short ids.
    let mut known = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and the pointer is to a value of ours.
    checked(unsafe { GetFileInformationByHandle(handle, &mut known) })?;
    let file = u128::from(known.nFileIndexHigh) << 32 | u128::from(known.nFileIndexLow);
    Ok(FileId { volume: known.dwVolumeSerialNumber.into(), file })
}
