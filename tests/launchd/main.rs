//! The daemon as an agent of launchd's, in the session of the user who runs this: a binary of its own, because a
//! user has only one such agent. `ci/macos native` runs it; plain `cargo test` does not.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "all of this is tests, which clippy sees only where `#[test]` stands"
)]

#[path = "../it/raw.rs"]
#[allow(dead_code, reason = "what only the other tests need")]
mod raw;
#[path = "../it/sandbox.rs"]
#[allow(dead_code, reason = "what only the other tests need")]
mod sandbox;

use platform::service;
use sandbox::{Sandbox, output, until};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
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

    /// Runs a command that has to succeed; what it printed.
    #[track_caller]
    fn done(&self, words: &[&str]) -> String {
        let output = self.place.run(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn service(&self) -> Value {
        let output = self.place.run(["service", "status", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.success(), report["running"] == true, "{report}");
        report
    }

    fn pid(&self) -> Option<u64> {
        self.service()["pid"].as_u64()
    }

    fn definition(&self) -> PathBuf {
        self.place.directory().join("Library/LaunchAgents/agent-relay.plist")
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
    let report = launchd.service();
    assert_eq!(report["kind"], "launchd");
    assert_eq!([&report["enabled"], &report["running"]], [true, true]);
    assert_eq!(report["home"], json!(launchd.place.home()));
    assert_eq!(report["definition"], json!(launchd.definition()));
    assert!(report["since"].is_u64(), "{report}");
    let mut lint = launchd.place.program("plutil");
    lint.arg("-lint").arg(launchd.definition());
    let lint = output(lint);
    assert!(lint.status.success(), "{lint:?}");

    let mut ann = launchd.place.join("Ann");
    launchd.done(&["send", "Ann", "hello"]);
    assert_eq!(ann.expect("DELIVER")["payload"]["body"], "hello");
    drop(ann);

    launchd.done(&["service", "stop"]);
    assert_eq!(launchd.service()["running"], false);
    // Once more is no failure.
    launchd.done(&["service", "stop"]);
    launchd.done(&["service", "start"]);
    let pid = launchd.pid();
    launchd.done(&["service", "start"]);
    assert_eq!(launchd.pid(), pid, "it ran already");
    // Over itself, it is another process of the same agent.
    launchd.done(&["service", "install"]);
    assert_ne!(launchd.pid(), pid);

    launchd.done(&["service", "uninstall"]);
    assert_eq!(launchd.done(&["service", "uninstall"]), "no service was installed\n");
    assert!(!launchd.definition().exists());
    assert!(launchd.place.home().join("relay.db").exists(), "what was kept stays");
}

#[test]
fn it_comes_back_if_it_was_killed_and_stays_away_if_it_was_told_to_stop() {
    let launchd = Launchd::new();
    launchd.done(&["service", "install"]);
    let before = launchd.pid().unwrap();
    let mut kill = launchd.place.program("kill");
    kill.args(["-9", &before.to_string()]);
    let killed = output(kill);
    assert!(killed.status.success(), "{killed:?}");
    // launchd waits for ten seconds after a start before it makes the next one.
    until("it comes back", || launchd.pid().is_some_and(|pid| pid != before));
    until("it can be reached", || launchd.service()["since"].is_u64());

    launchd.done(&["down"]);
    until("it has ended", || launchd.service()["running"] == false);
}
