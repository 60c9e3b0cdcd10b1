//! Windows only: reading and writing keys under the registry's HKEY_LOCAL_MACHINE.

use std::{io, os::windows::ffi::OsStringExt as _, ptr::null_mut};

use windows_sys::Win32::{
    Foundation::{ERROR_FILE_NOT_FOUND, ERROR_SUCCESS},
    System::Registry::{
        HKEY_LOCAL_MACHINE, REG_DWORD, REG_EXPAND_SZ, RRF_RT_REG_SZ, RegDeleteTreeW, RegGetValueW,
        RegSetKeyValueW,
    },
};

use crate::security::wide;

/// The longest text that is read.
const UNITS_MAX: usize = 1024;

/// A text under a key, with its environment variables expanded.
pub(crate) fn text(key: &str, name: &str) -> io::Result<std::ffi::OsString> {
    let (key, name) = (wide(key), wide(name));
    let mut units = vec![0_u16; UNITS_MAX];
    let mut bytes = (UNITS_MAX * 2) as u32;
    // SAFETY: the texts end with a zero; the pointer and the length are those of one vector.
    known(unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key.as_ptr(),
            name.as_ptr(),
            RRF_RT_REG_SZ,
            null_mut(),
            units.as_mut_ptr().cast(),
            &mut bytes,
        )
    })?;
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    Ok(std::ffi::OsString::from_wide(&units[..end]))
}

/// Stores a text with unexpanded variables under a key, which is made if it is missing.
pub(crate) fn set_text(key: &str, name: &str, text: &str) -> io::Result<()> {
    let units = wide(text);
    let bytes: Vec<u8> = units.into_iter().flat_map(u16::to_le_bytes).collect();
    set(key, name, REG_EXPAND_SZ, &bytes)
}

/// Stores a number under a key, which is made if it is missing.
pub(crate) fn set_number(key: &str, name: &str, number: u32) -> io::Result<()> {
    set(key, name, REG_DWORD, &number.to_le_bytes())
}

/// Removes a key with its subkeys; returns false if there is none.
pub(crate) fn remove(key: &str) -> io::Result<bool> {
    let key = wide(key);
    // SAFETY: the text ends with a zero.
    match unsafe { RegDeleteTreeW(HKEY_LOCAL_MACHINE, key.as_ptr()) } {
        ERROR_FILE_NOT_FOUND => Ok(false),
        error => known(error).map(|()| true),
    }
}

fn set(key: &str, name: &str, kind: u32, bytes: &[u8]) -> io::Result<()> {
    let (key, name) = (wide(key), wide(name));
    // SAFETY: the texts end with a zero; the pointer and the length are those of one slice.
    known(unsafe {
        RegSetKeyValueW(
            HKEY_LOCAL_MACHINE,
            key.as_ptr(),
            name.as_ptr(),
            kind,
            bytes.as_ptr().cast(),
            bytes.len() as u32,
        )
    })
}

fn known(error: u32) -> io::Result<()> {
    if error == ERROR_SUCCESS { Ok(()) } else { Err(io::Error::from_raw_os_error(error as i32)) }
}
