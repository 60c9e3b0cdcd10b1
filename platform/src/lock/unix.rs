//! Unix: the identity of a file: its device and inode.

use std::{fs::File, io, os::unix::fs::MetadataExt};

pub(crate) fn identity(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}
