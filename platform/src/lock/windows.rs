//! Windows: the identity of a file: its volume and index.

use std::{fs::File, io, os::windows::io::AsRawHandle as _};

use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, GetFileInformationByHandle,
};

use crate::security::checked;

pub(crate) fn identity(file: &File) -> io::Result<(u64, u64)> {
    let mut known = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and the pointer is to a value of ours.
    checked(unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut known) })?;
    let index = u64::from(known.nFileIndexHigh) << 32 | u64::from(known.nFileIndexLow);
    Ok((u64::from(known.dwVolumeSerialNumber), index))
}
