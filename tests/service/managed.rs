//! What holds of a daemon whatever system looks after it: for the tests of systemd and of launchd.

use super::sandbox::{Sandbox, output, until};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Where `agent-relay service` has a system to install for.
pub(crate) trait Managed {
    fn place(&self) -> &Sandbox;

    /// `agent-relay` with arguments, in the session of that system.
    fn command(&self, words: &[&str]) -> Command;

    fn run(&self, words: &[&str]) -> Output {
        output(self.command(words))
    }

    /// Runs a command that has to succeed; what it printed.
    #[track_caller]
    fn done(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

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

/// Once it is installed, and then removed.
pub(crate) fn is_as_installed(managed: &impl Managed, kind: &str, definition: &Path) {
    let report = managed.service();
    assert_eq!(report["kind"], kind);
    assert_eq!([&report["enabled"], &report["running"]], [true, true]);
    assert_eq!(report["program"], env!("CARGO_BIN_EXE_agent-relay"));
    assert_eq!(report["home"], json!(managed.place().home()));
    assert_eq!(report["definition"], json!(definition));
    assert!(report["since"].is_u64(), "{report}");
}

/// What goes through it arrives, and it runs as often as it is to.
pub(crate) fn is_used_stopped_and_started(managed: &impl Managed) {
    let mut ann = managed.place().join("Ann");
    managed.done(&["send", "Ann", "hello"]);
    assert_eq!(ann.expect("DELIVER")["payload"]["body"], "hello");
    drop(ann);

    managed.done(&["service", "stop"]);
    assert_eq!(managed.service()["running"], false);
    // Once more is no failure.
    managed.done(&["service", "stop"]);
    managed.done(&["service", "start"]);
    let pid = managed.pid();
    managed.done(&["service", "start"]);
    assert_eq!(managed.pid(), pid, "it ran already");
}

pub(crate) fn is_removed(managed: &impl Managed, definition: &Path) {
    let home = managed.place().home();
    let removed = managed.done(&["service", "uninstall"]);
    assert!(removed.contains(&*home.to_string_lossy()), "{removed}");
    assert_eq!(managed.done(&["service", "uninstall"]), "no service was installed\n");
    assert!(!definition.exists());
    assert!(home.join("relay.db").exists(), "what was kept stays");
}

/// Not installed before; stopped at the end.
pub(crate) fn comes_back_if_killed_and_stays_away_if_stopped(managed: &impl Managed) {
    managed.done(&["service", "install"]);
    let before = managed.pid().unwrap();
    let mut listen = managed.command(&["listen", "--as", "Cid"]);
    let mut listening = listen.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_here = || {
        let listed = String::from_utf8(managed.run(&["agents", "--json"]).stdout).unwrap();
        listed.contains(r#""here":true"#)
    };
    until("Cid is here", is_here);
    kill(managed.place(), before);
    // launchd waits for ten seconds after a start before it makes the next one.
    until("it comes back", || managed.pid().is_some_and(|pid| pid != before));
    until("it can be reached", || managed.service()["since"].is_u64());

    // Who misses it starts none beside it.
    until("Cid is here again", is_here);
    assert_eq!(daemon(managed), managed.pid());

    managed.done(&["down"]);
    let log = managed.place().home().join("daemon.log");
    until("Cid has looked", || {
        fs::read_to_string(&log).unwrap().contains("Cid: the daemon was stopped on purpose")
    });
    until("it has ended", || managed.service()["running"] == false);
    listening.kill().unwrap();
    listening.wait().unwrap();
}

/// The process of the daemon that answers.
fn daemon(managed: &impl Managed) -> Option<u64> {
    let status: Value = serde_json::from_slice(&managed.run(&["status", "--json"]).stdout).ok()?;
    status["status"]["daemon"]["pid"].as_u64()
}

/// As a crash would.
pub(crate) fn kill(place: &Sandbox, pid: u64) {
    let mut kill = place.program("kill");
    kill.args(["-9", &pid.to_string()]);
    let killed = output(kill);
    assert!(killed.status.success(), "{killed:?}");
}
