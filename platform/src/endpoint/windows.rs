//! Windows: the name of a pipe.

use std::{ffi::OsString, io, path::Path};

use super::Endpoint;
use crate::{
    paths,
    peer::User,
    refusal,
    transport::{
        Stream,
        pipe::{self, Found},
    },
};

/// The form of an endpoint, for error sentences.
pub(crate) const FORM: &str = r"the name of a pipe on this machine, as \\.\pipe\NAME";
/// The endpoint of [`Endpoint::shared`].
pub(crate) const SHARED: &str = r"\\.\pipe\agent-relay";
const PREFIX: &str = r"\\.\pipe\";
/// Windows's limit for the whole name, in UTF-16 units.
const NAME_UNITS_MAX: usize = 256;

pub(crate) fn parse(text: &str) -> io::Result<String> {
    let prefix = text.get(..PREFIX.len()).filter(|prefix| prefix.eq_ignore_ascii_case(PREFIX));
    let name = prefix.map(|_| &text[PREFIX.len()..]).unwrap_or_default();
    if name.is_empty() || name.contains(['\\', '/']) {
        return Err(refusal(
            io::ErrorKind::InvalidInput,
            format!("{text} is not an endpoint: it is {FORM}"),
        ));
    }
    let units = text.encode_utf16().count();
    if units > NAME_UNITS_MAX {
        return Err(refusal(
            io::ErrorKind::InvalidInput,
            format!(
                "the endpoint {text} has {units} characters, and this system's limit for a pipe's name is {NAME_UNITS_MAX}: choose a shorter one"
            ),
        ));
    }
    Ok(format!("{PREFIX}{name}"))
}

pub(crate) fn inside(directory: &Path, name: &str) -> OsString {
    // All pipes of a machine are in one directory, so the name contains the path to be unique.
    let place: String = directory
        .to_string_lossy()
        .chars()
        .map(|character| if matches!(character, '\\' | '/' | ':') { '-' } else { character })
        .collect();
    format!("{SHARED}-{place}-{name}").into()
}

pub(crate) fn of_agent(directory: &Path, name: &str) -> io::Result<OsString> {
    if paths::home().is_ok_and(|home| directory.starts_with(home)) {
        return Ok(format!("{}-{name}", per_user(&User::me()?)).into());
    }
    Ok(inside(directory, name))
}

pub(crate) fn per_user(user: &User) -> String {
    format!("{SHARED}-{user}")
}

/// Whether this user is let in and trusts who is there; a pipe has no owner to look at from
/// outside.
pub(crate) fn is_foreign(endpoint: &Endpoint) -> io::Result<bool> {
    match pipe::look_until_settled(endpoint) {
        Found::Nothing => return Ok(false),
        Found::Listening => {}
        Found::Unattended => return pipe::is_foreign(endpoint),
    }
    match Stream::connect(endpoint) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(true),
        Err(error) => Err(error),
    }
}
