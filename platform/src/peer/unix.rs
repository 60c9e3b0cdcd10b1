//! Unix: user ids.

use std::io;

pub(crate) type Id = u32;

pub(crate) fn me() -> io::Result<Id> {
    // SAFETY: geteuid has no arguments and cannot fail.
    Ok(unsafe { libc::geteuid() })
}

/// The form of a user's text, for error sentences.
pub(crate) const FORM: &str = "a user id";

pub(crate) fn parse(text: &str) -> Option<Id> {
    text.parse().ok()
}

pub(crate) fn is_system(id: &Id) -> bool {
    *id == 0
}
