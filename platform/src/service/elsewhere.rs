//! Linux and macOS: the functions for services with their own account, which these systems do not
//! have.

use std::{io, path::PathBuf};

use super::{Body, Installed, Program, Site};
use crate::{peer::User, refusal};

pub(super) fn site(user: Option<&str>) -> io::Result<Option<Site>> {
    match user {
        None => Ok(None),
        Some(_) => Err(for_windows("--user", "a service runs as the user who installs it")),
    }
}

pub(super) fn check_logon() -> io::Result<()> {
    Err(for_windows("--logon", "a service is started at logon anyway"))
}

pub(super) fn watched() -> io::Result<Option<Installed>> {
    super::installed()
}

pub(super) fn run(_: Body) -> io::Result<()> {
    Err(for_windows("service run", "a service runs the daemon itself"))
}

pub(super) fn replaceable_by(_: &User, _: &Program) -> io::Result<Option<PathBuf>> {
    Ok(None)
}

fn for_windows(option: &str, reason: &str) -> io::Error {
    refusal(
        io::ErrorKind::Unsupported,
        format!("`{option}` is for Windows: on this system {reason}"),
    )
}
