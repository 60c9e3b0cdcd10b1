//! The daemon as a launchd agent, in the session of the user who runs the tests.
//!
//! These tests are a binary of their own, because a user has only one such agent. `ci/macos native`
//! runs them; plain `cargo test` does not.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy recognizes only functions with `#[test]` as tests"
)]

use platform::service;
use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};
use testkit::{
    managed::{self, ServiceHost},
    sandbox::Sandbox,
    waiting::output,
};

/// A lock held by the test that has the agent installed: a user has only one such agent.
static INSTALLATION: Mutex<()> = Mutex::new(());

/// A launchd agent whose definition is in a sandbox. Dropping it uninstalls the agent.
struct Launchd {
    sandbox: Sandbox,
    _lock: MutexGuard<'static, ()>,
}

impl Launchd {
    fn new() -> Self {
        let lock = INSTALLATION.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(service::installed().unwrap().is_none(), "this user's own agent is installed here");
        Self { sandbox: Sandbox::empty(), _lock: lock }
    }

    fn definition(&self) -> PathBuf {
        self.sandbox.directory().join("Library/LaunchAgents/dev.agent-relay.daemon.plist")
    }
}

impl ServiceHost for Launchd {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.sandbox.command(arguments)
    }
}

impl Drop for Launchd {
    fn drop(&mut self) {
        let removed = self.sandbox.run(["service", "uninstall"]);
        if !removed.status.success() {
            eprintln!("the agent is not uninstalled: {removed:?}");
        }
    }
}

#[test]
fn service_is_installed_used_stopped_and_removed() {
    let launchd = Launchd::new();
    launchd.succeeds(&["service", "install"]);
    managed::check_installation(&launchd, "launchd", &launchd.definition());
    let mut lint = launchd.sandbox.program("plutil");
    lint.arg("-lint").arg(launchd.definition());
    let lint = output(lint);
    assert!(lint.status.success(), "{lint:?}");

    managed::check_use_stop_and_start(&launchd);
    let pid = launchd.pid();
    // Installing again restarts the agent.
    launchd.succeeds(&["service", "install"]);
    assert_ne!(launchd.pid(), pid);

    managed::check_removal(&launchd, &launchd.definition());
}

#[test]
fn agent_of_an_earlier_version_is_taken_over() {
    let launchd = Launchd::new();
    launchd.succeeds(&["service", "install"]);
    let former = launchd.definition().with_file_name("agent-relay.plist");
    let list = fs::read_to_string(launchd.definition()).unwrap();
    launchd.succeeds(&["service", "uninstall"]);
    fs::write(&former, list.replace("dev.agent-relay.daemon", "agent-relay")).unwrap();
    launchd.succeeds(&["service", "start"]);
    let pid = launchd.pid();
    launchd.succeeds(&["service", "install"]);
    assert_ne!(launchd.pid(), pid);
    assert!(!former.exists() && launchd.definition().exists());
}

/// launchd gives background work less of the processors and disks.
#[test]
fn daemon_is_not_background_work() {
    let launchd = Launchd::new();
    launchd.succeeds(&["service", "install"]);
    let user = platform::peer::User::me().unwrap();
    let mut print = launchd.sandbox.program("launchctl");
    print.arg("print").arg(format!("gui/{user}/dev.agent-relay.daemon"));
    let shown = String::from_utf8(output(print).stdout).unwrap();
    assert!(shown.contains("spawn type = interactive"), "{shown}");
}

#[test]
fn killed_service_restarts_and_stopped_service_stays_down() {
    managed::check_restart_after_kill_but_not_after_stop(&Launchd::new());
}
