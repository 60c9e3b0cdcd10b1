//! The one wall between Agent Relay and the operating system.
//!
//! Everything that differs between Linux, macOS and Windows is here and nowhere else, and all
//! `unsafe` is here. The crate is cut by feature; inside a feature, `unix.rs` and `windows.rs` are
//! twins: the same items in the same order, so that they can be read side by side. The documentation
//! of what both promise is in the feature's own file, and `tests/contract.rs` checks it on every
//! system.
//!
//! What is not here: framing, retries, limits, logging, policy. Nothing in this crate knows what an
//! envelope or an agent is.
//!
//! Errors are [`std::io::Error`]s whose text names the object: the path, the pipe, the command.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")
)]

#[cfg(windows)]
#[path = "access/windows.rs"]
mod access;
pub mod clock;
pub mod endpoint;
pub mod foreground;
pub mod lock;
pub mod paths;
pub mod peer;
#[cfg(unix)]
#[path = "poll/unix.rs"]
mod poll;
pub mod process;
pub mod pty;
#[cfg(windows)]
#[path = "registry/windows.rs"]
mod registry;
#[cfg(windows)]
#[path = "security/windows.rs"]
mod security;
pub mod service;
pub mod stop;
pub mod terminal;
pub mod transport;

use std::{
    fmt::Display,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Puts what was tried, and on what, in front of the system's words. Keeps the kind.
pub(crate) fn naming(what: impl Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// An error of our own, as one sentence.
pub(crate) fn refusal(kind: io::ErrorKind, sentence: impl Into<String>) -> io::Error {
    io::Error::new(kind, sentence.into())
}

/// For what nobody can leave half done, so that a panic while it was held has left it whole.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
