//! The mark `daemon.stopped` in a home, which says that its daemon was stopped on purpose. While
//! the mark exists, only a person's command starts a daemon.
//!
//! The daemon sets the mark when it is told to stop, while it holds the home's lock, and every
//! daemon that starts clears it. A daemon that is killed, fails, or is replaced by another does not
//! set the mark.

use super::mark::Mark;

/// The mark `daemon.stopped`.
pub(crate) const MARK: Mark = Mark("daemon.stopped");

/// The reason of a stop on purpose, after which no wrapper starts the daemon again.
pub(super) const ON_PURPOSE: &str = "stop";

/// The reason of the stop of a daemon whose home another daemon has.
pub(super) const OUSTED: &str = "home-taken";
