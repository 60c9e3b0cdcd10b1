//! Windows: SIDs, as text.

use std::io;

use crate::security;

/// A SID.
pub(crate) type Id = String;

pub(crate) fn me() -> io::Result<Id> {
    security::my_sid().map_err(crate::naming("ask who this user is"))
}

pub(crate) fn is_system(id: &Id) -> bool {
    id == security::SYSTEM || id == security::ADMINISTRATORS
}
