//! The daemon as an agent of launchd's, in the session of the user who runs this: a binary of its own, because a
//! user has only one such agent. `ci/macos native` runs it; plain `cargo test` does not.

#![allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "all of this is tests, which clippy sees only where `#[test]` stands"
)]

#[path = "../service/managed.rs"]
mod managed;
#[path = "../it/raw.rs"]
#[allow(dead_code, reason = "what only the other tests need")]
mod raw;
#[path = "../it/sandbox.rs"]
#[allow(dead_code, reason = "what only the other tests need")]
mod sandbox;

use managed::Managed;
use platform::service;
use sandbox::{Sandbox, output};
use std::{
    path::PathBuf,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A user has one such agent.
static ONE: Mutex<()> = Mutex::new(());

/// Where an agent is installed: in a sandbox, since launchd takes a definition from anywhere. Removed at the end.
struct Launchd {
    place: Sandbox,
    _one: MutexGuard<'static, ()>,
}

impl Launchd {
    fn new() -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(service::installed().unwrap().is_none(), "this user's own agent is installed here");
        Self { place: Sandbox::empty(), _one: one }
    }

    fn definition(&self) -> PathBuf {
        self.place.directory().join("Library/LaunchAgents/agent-relay.plist")
    }
}

impl Managed for Launchd {
    fn place(&self) -> &Sandbox {
        &self.place
    }

    fn command(&self, words: &[&str]) -> Command {
        self.place.command(words)
    }
}

impl Drop for Launchd {
    fn drop(&mut self) {
        let removed = self.place.run(["service", "uninstall"]);
        if !removed.status.success() {
            eprintln!("something stays: {removed:?}");
        }
    }
}

#[test]
fn it_is_installed_used_stopped_and_removed() {
    let launchd = Launchd::new();
    launchd.done(&["service", "install"]);
    managed::is_as_installed(&launchd, "launchd", &launchd.definition());
    let mut lint = launchd.place.program("plutil");
    lint.arg("-lint").arg(launchd.definition());
    let lint = output(lint);
    assert!(lint.status.success(), "{lint:?}");

    managed::is_used_stopped_and_started(&launchd);
    let pid = launchd.pid();
    // Over itself, it is another process of the same agent.
    launchd.done(&["service", "install"]);
    assert_ne!(launchd.pid(), pid);

    managed::is_removed(&launchd, &launchd.definition());
}

#[test]
fn it_comes_back_if_it_was_killed_and_stays_away_if_it_was_told_to_stop() {
    managed::comes_back_if_killed_and_stays_away_if_stopped(&Launchd::new());
}
