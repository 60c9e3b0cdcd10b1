//! Checks of an installed service that the tests of systemd and of launchd share.

use crate::{
    programs::program,
    sandbox::{Sandbox, daemon_in},
    waiting::{output, until},
};
use serde_json::{Value, json};
use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

/// A service manager that `agent-relay service` can install the daemon for.
pub trait ServiceHost {
    fn sandbox(&self) -> &Sandbox;

    /// `agent-relay` with arguments, in the session of the service manager.
    fn command(&self, arguments: &[&str]) -> Command;

    fn run(&self, arguments: &[&str]) -> Output {
        output(self.command(arguments))
    }

    /// Runs a command that must succeed, and returns its standard output.
    #[track_caller]
    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The report of `service status --json`.
    fn service(&self) -> Value {
        let output = self.run(&["service", "status", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.success(), report["running"] == true, "{report}");
        report
    }

    fn pid(&self) -> Option<u64> {
        self.service()["pid"].as_u64()
    }
}

/// Checks the report of a service that has just been installed.
pub fn check_installation(host: &impl ServiceHost, kind: &str, definition: &Path) {
    let report = host.service();
    assert_eq!(report["kind"], kind);
    assert_eq!([&report["enabled"], &report["running"]], [true, true]);
    assert_eq!(report["program"], json!(program("agent-relay")));
    assert_eq!(report["home"], json!(host.sandbox().home()));
    assert_eq!(report["definition"], json!(definition));
    assert!(report["since"].is_u64(), "{report}");
}

/// Checks that a message arrives, and that stopping and starting twice is harmless.
pub fn check_use_stop_and_start(host: &impl ServiceHost) {
    let mut ann = host.sandbox().join("Ann");
    host.succeeds(&["send", "Ann", "hello"]);
    assert_eq!(ann.expect("DELIVER")["payload"]["body"], "hello");
    drop(ann);

    host.succeeds(&["service", "stop"]);
    assert_eq!(host.service()["running"], false);
    // A second stop succeeds, too.
    host.succeeds(&["service", "stop"]);
    host.succeeds(&["service", "start"]);
    let pid = host.pid();
    host.succeeds(&["service", "start"]);
    assert_eq!(host.pid(), pid, "a running service is not started again");
}

/// Checks that an uninstall removes the definition and keeps the home.
pub fn check_removal(host: &impl ServiceHost, definition: &Path) {
    let home = host.sandbox().home();
    let removed = host.succeeds(&["service", "uninstall"]);
    assert!(removed.contains(&*home.to_string_lossy()), "{removed}");
    assert_eq!(host.succeeds(&["service", "uninstall"]), "no service was installed\n");
    assert!(!definition.exists());
    assert!(home.join("relay.db").exists(), "the store stays");
}

/// Checks that the service restarts after a kill, and does not after a stop. The service must not
/// be installed before, and is stopped afterwards.
pub fn check_restart_after_kill_but_not_after_stop(host: &impl ServiceHost) {
    host.succeeds(&["service", "install"]);
    let before = host.pid().unwrap();
    let mut command = host.command(&["listen", "--as", "Cid"]);
    let mut listener = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let cid_is_connected = || {
        let listed = String::from_utf8(host.run(&["agents", "--json"]).stdout).unwrap();
        listed.contains(r#""here":true"#)
    };
    until("Cid is connected", cid_is_connected);
    host.sandbox().kill_process(before);
    // launchd restarts a service at the earliest ten seconds after its last start.
    until("the service runs again", || host.pid().is_some_and(|pid| pid != before));
    until("the daemon can be reached", || host.service()["since"].is_u64());

    // Cid's client, which waits, reconnects to the service and starts no daemon of its own.
    until("Cid is connected again", cid_is_connected);
    assert_eq!(daemon_in(&host.run(&["status", "--json"])), host.pid());

    host.succeeds(&["down"]);
    host.sandbox().await_logged("Cid: the daemon was stopped on purpose", 1);
    until("the service has ended", || host.service()["running"] == false);
    listener.kill().unwrap();
    listener.wait().unwrap();
}
