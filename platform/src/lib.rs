//! The boundary between Agent Relay and the operating system.
//!
//! All differences between Linux, macOS and Windows are in this crate, and so is all `unsafe` code.
//! The crate is divided by feature. Inside a feature, `unix.rs` and `windows.rs` have the same
//! items in the same order, so that they can be read side by side. The feature's own file documents
//! the contract of both, and `tests/contract.rs` checks the contract on every system. Begin with
//! [`transport`] and [`pty`].
//!
//! Framing, retries, limits, logging and policy are in other crates. This crate does not know
//! envelopes. Where a text or a choice elsewhere depends on the system, it reads
//! [`process::SYSTEM`].
//!
//! Errors are [`std::io::Error`]s whose text names the object: the path, the pipe, the command.
//! Locks guard only handles of PTYs and pipes, and what belongs to the whole process: the listener
//! for signals, the terminal's modes, the state of a service.
//!
//! # Adding a system
//!
//! 1. A Unix uses each feature's `unix.rs` and has three parts of its own, which the compiler
//!    demands: in `foreground`, in `service`, and a constant in `clock/unix.rs`. Another system
//!    gets a file in every feature. A Unix silently gets an alternative elsewhere: search for
//!    `target_os` and for comments that name a system (`process`: children and open files, `paths`:
//!    the home, `pty`: errors at the end, `transport`).
//! 2. Outside of this crate: a variant of `System` in `crates/terminal/src/recipe/book.rs`, its
//!    name in the comment of the key `systems` in `recipe.rs` (a test makes a table of it) and in
//!    `fuzz/bodies/src/recipes.rs`; texts in `src/cli/service.rs`.
//! 3. `tests/contract.rs` runs there. `tests/contract/system.rs` knows the system, and `SKIPPED`
//!    the tests that it cannot run, with reasons.
//! 4. `ci/`: a script like `ci/macos` with its list of skipped tests, which
//!    `tests/it/document/named_tests.rs` reads, and a job in `.github/workflows/ci.yml`. Documents:
//!    docs/CONFIGURATION.md (Paths), docs/PROTOCOL.md (section 2), docs/SERVICE.md, README.md.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")
)]

#[cfg(windows)]
#[path = "access/windows.rs"]
mod access;
pub mod clock;
#[cfg(any(windows, test))]
mod create_process;
pub mod endpoint;
pub mod foreground;
pub mod front;
pub mod lock;
pub mod paths;
pub mod peer;
#[cfg(unix)]
#[path = "poll/unix.rs"]
mod poll;
pub mod process;
pub mod pty;
pub mod random;
#[cfg(windows)]
#[path = "registry/windows.rs"]
mod registry;
#[cfg(windows)]
#[path = "security/windows.rs"]
mod security;
pub mod service;
pub mod shell;
pub mod stop_signals;
pub mod transport;
pub mod tty;

use std::{
    fmt::Display,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Prefixes an error with the failed action and its object. Keeps the kind. Adds the remedy for a
/// full disk, to an error of the system's own.
pub(crate) fn naming(what: impl Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| {
        let is_full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let remedy = match is_full && error.get_ref().is_none() {
            true => "; free some disk space there",
            false => "",
        };
        io::Error::new(error.kind(), format!("{what}: {error}{remedy}"))
    }
}

/// Makes an error from a sentence of this crate, as opposed to an error of the system.
pub(crate) fn refusal(kind: io::ErrorKind, sentence: impl Into<String>) -> io::Error {
    io::Error::new(kind, sentence.into())
}

/// Locks a mutex whose value is valid even after a panic while it was locked.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_a_full_disk_has_its_remedy_once() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let named = naming("write /home/x")(naming("make /home/x.new")(full)).to_string();
        assert_eq!(named.matches("; free some disk space there").count(), 1, "{named}");
        let denied = naming("write /home/x")(io::ErrorKind::PermissionDenied.into());
        assert!(!denied.to_string().contains("disk"), "{denied}");
    }
}
