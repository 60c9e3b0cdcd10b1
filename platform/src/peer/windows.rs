//! Windows: SIDs, as text.

use std::io;

use crate::security;

/// A user's identity: the text of the SID.
pub(crate) type UserId = String;

/// The longest accepted text: fifteen numbers of ten digits, and some spare room.
const SID_BYTES_MAX: usize = 192;

pub(crate) fn me() -> io::Result<UserId> {
    security::my_sid().map_err(crate::naming("ask who this user is"))
}

/// The form of a user's text, for error sentences.
pub(crate) const FORM: &str = "a SID, as S-1-5-18";

pub(crate) fn parse(text: &str) -> Option<UserId> {
    let mut numbers = text.strip_prefix("S-1-")?.split('-');
    let is_number = |part: &str| part.parse::<u64>().is_ok() && !part.starts_with('+');
    (text.len() <= SID_BYTES_MAX && numbers.all(is_number)).then(|| text.to_owned())
}

pub(crate) fn is_system(id: &UserId) -> bool {
    id == security::SYSTEM || id == security::ADMINISTRATORS
}
