//! Unix: user ids.

use std::io;

pub(crate) type UserId = u32;

pub(crate) fn me() -> io::Result<UserId> {
    // SAFETY: geteuid has no arguments and cannot fail.
    Ok(unsafe { libc::geteuid() })
}

/// The form of a user's text, for error sentences.
pub(crate) const FORM: &str = "a user id";

pub(crate) fn parse(text: &str) -> Option<UserId> {
    text.parse().ok()
}

pub(crate) fn is_system(id: &UserId) -> bool {
    *id == 0
}
