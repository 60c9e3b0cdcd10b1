//! Windows: the name of a pipe.

use std::{ffi::OsString, io, path::Path};

use super::hash;
use crate::{paths, peer::User, random, refusal};

/// The form of an endpoint, for error sentences.
pub(crate) const FORM: &str = r"the name of a pipe on this machine, as \\.\pipe\NAME";
/// The endpoint of [`super::Endpoint::shared`].
pub(crate) const SHARED: &str = r"\\.\pipe\agent-relay";
const PREFIX: &str = r"\\.\pipe\";
/// The random digits of a private name.
const DIGITS: usize = 32;
/// Windows's limit for the whole name, in UTF-16 units.
const NAME_UNITS_MAX: usize = 256;

pub(crate) fn parse(text: &str) -> io::Result<String> {
    let prefix = text.get(..PREFIX.len()).filter(|prefix| prefix.eq_ignore_ascii_case(PREFIX));
    let name = prefix.map(|_| &text[PREFIX.len()..]).unwrap_or_default();
    if name.is_empty() || name.contains(['\\', '/']) {
        return Err(refusal(
            io::ErrorKind::InvalidInput,
            format!("{text} is not an endpoint: an endpoint is {FORM}"),
        ));
    }
    let units = text.encode_utf16().count();
    if units > NAME_UNITS_MAX {
        return Err(refusal(
            io::ErrorKind::InvalidInput,
            format!(
                "the endpoint {text} has {units} characters, and this system's limit for a pipe's name is {NAME_UNITS_MAX}; choose a shorter one"
            ),
        ));
    }
    Ok(format!("{PREFIX}{name}"))
}

pub(crate) fn inside(directory: &Path, name: &str) -> OsString {
    // All pipes of a machine share one directory, so the path makes the name unique.
    let path: String = directory
        .to_string_lossy()
        .chars()
        .map(|character| if matches!(character, '\\' | '/' | ':') { '-' } else { character })
        .collect();
    format!("{SHARED}-{path}-{name}").into()
}

pub(crate) fn fitting(directory: &Path, name: &str) -> io::Result<OsString> {
    let pipe = inside(directory, name);
    match pipe.to_string_lossy().encode_utf16().count() > NAME_UNITS_MAX {
        true => Ok(format!("{SHARED}-{:016x}", hash(directory, name)).into()),
        false => Ok(pipe),
    }
}

pub(crate) fn of_agent(directory: &Path, name: &str) -> io::Result<OsString> {
    if paths::home().is_ok_and(|home| directory.starts_with(home)) {
        return Ok(format!("{}-{name}", of_user(&User::me()?)).into());
    }
    fitting(directory, name)
}

pub(crate) fn private(_: &Path, last: Option<&str>) -> io::Result<OsString> {
    let me = User::me()?;
    match last.filter(|last| is_private(last, &me)) {
        Some(last) => Ok(last.into()),
        None => private_of(&me),
    }
}

/// A new private endpoint of a user.
pub(crate) fn private_of(user: &User) -> io::Result<OsString> {
    let digits = u128::from_le_bytes(random::bytes()?);
    Ok(format!("{}-{digits:0DIGITS$x}", of_user(user)).into())
}

fn is_private(text: &str, user: &User) -> bool {
    let digits = text.strip_prefix(&of_user(user)).and_then(|rest| rest.strip_prefix('-'));
    let is_digit = |byte: u8| byte.is_ascii_hexdigit();
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(is_digit))
}

/// The text of [`super::Endpoint::of`].
pub(crate) fn of_user(user: &User) -> String {
    format!("{SHARED}-{user}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_name_is_random_and_kept() {
        let private = |last| private(Path::new("x"), last).unwrap().into_string().unwrap();
        let first = private(None);
        assert!(first.starts_with(&of_user(&User::me().unwrap())) && parse(&first).is_ok());
        assert_eq!(private(Some(&first)), first);
        for other in ["", SHARED, &of_user(&User::me().unwrap()), &first[..first.len() - 1]] {
            let drawn = private(Some(other));
            assert_eq!((drawn.len(), drawn == first), (first.len(), false), "{other}");
        }
    }
}
