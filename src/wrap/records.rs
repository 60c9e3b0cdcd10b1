//! Records of the home: a directory with a JSON file for each.

use platform::paths;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

/// The longest record that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Reads all records of a directory, in no order. Invalid records are logged and omitted.
///
/// # Errors
/// If the directory cannot be read.
pub(super) fn all<T: DeserializeOwned>(directory: &Path) -> io::Result<Vec<T>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut records = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            match read(&path) {
                Ok(record) => records.extend(record),
                Err(error) => tracing::warn!("{error}"),
            }
        }
    }
    Ok(records)
}

/// Reads a record. `None` if there is no file.
///
/// # Errors
/// If the file cannot be read, or is not a record. The error names the file.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match parse(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::other(format!("{}: {error}", path.display()))),
        Ok(record) => Ok(Some(record)),
    }
}

fn parse<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    if fs::metadata(path)?.len() > BYTES_MAX {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is too long for a record"));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Writes a record, and its directory if there is none.
///
/// # Errors
/// If it cannot be written, such as one with a path that is not valid text.
pub(super) fn write(path: &Path, record: &impl Serialize) -> io::Result<()> {
    path.parent().map_or(Ok(()), paths::make_private_dir)?;
    paths::write_private_file(path, &serde_json::to_vec(record)?)
}
