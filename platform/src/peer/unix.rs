//! Unix: user ids.

use std::io;

/// A user id.
pub(crate) type Id = u32;

pub(crate) fn me() -> io::Result<Id> {
    // SAFETY: geteuid has no arguments and cannot fail.
    Ok(unsafe { libc::geteuid() })
}

pub(crate) fn is_system(id: &Id) -> bool {
    *id == 0
}
