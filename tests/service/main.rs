//! The daemon as a service of a real systemd, the user's own, which each test starts for itself.
//!
//! `ci/service` makes the place for it, where the system itself was not started by systemd, and runs this;
//! plain `cargo test` does not.

#![allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "all of this is tests, which clippy sees only where `#[test]` stands"
)]

mod managed;
#[path = "../it/raw.rs"]
#[allow(dead_code, reason = "what only the other tests need")]
mod raw;
#[path = "../it/sandbox.rs"]
#[allow(dead_code, reason = "what only the other tests need")]
mod sandbox;

use managed::Managed;
use sandbox::{Sandbox, output, until, wait};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

/// Where Debian has it; it is in nobody's PATH.
const SYSTEMD: &str = "/lib/systemd/systemd";

/// A user's systemd, ended at the end with all that it has started.
struct Systemd {
    place: Sandbox,
    process: Child,
}

impl Systemd {
    fn start() -> Self {
        let place = Sandbox::empty();
        platform::paths::make_private_dir(&runtime(&place)).unwrap();
        let log = fs::File::create(place.directory().join("systemd.log")).unwrap();
        let mut command = in_session(&place, place.program(SYSTEMD));
        command.args(["--user", "--log-target=console"]).stderr(log);
        let systemd = Self { process: command.spawn().unwrap(), place };
        let socket = runtime(&systemd.place).join("systemd/private");
        until("systemd listens", || socket.exists());
        systemd
    }

    /// Runs a command that has to fail; what it said.
    #[track_caller]
    fn fails(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn unit(&self) -> PathBuf {
        self.place.directory().join(".config/systemd/user/agent-relay.service")
    }

    fn systemctl(&self, words: &[&str]) -> Output {
        let mut command = in_session(&self.place, self.place.program("systemctl"));
        command.arg("--user").args(words);
        output(command)
    }
}

impl Managed for Systemd {
    fn place(&self) -> &Sandbox {
        &self.place
    }

    fn command(&self, words: &[&str]) -> Command {
        in_session(&self.place, self.place.command(words))
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        self.systemctl(&["exit"]);
        wait(&mut self.process, "systemd");
    }
}

fn runtime(place: &Sandbox) -> PathBuf {
    place.directory().join("run")
}

fn in_session(place: &Sandbox, mut command: Command) -> Command {
    command.env("XDG_RUNTIME_DIR", runtime(place));
    command
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut all = Vec::new();
    for entry in entries {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(files(&entry.path())),
            false => all.push(entry.path()),
        }
    }
    all
}

#[test]
fn it_is_installed_used_stopped_and_removed() {
    let systemd = Systemd::start();
    let nothing = systemd.fails(&["service", "status"]);
    assert!(nothing.contains("no service is installed"), "{nothing}");
    let installed = systemd.done(&["service", "install"]);
    assert!(installed.starts_with("systemd user unit, started at each logon"), "{installed}");

    managed::is_as_installed(&systemd, "systemd", &systemd.unit());
    managed::is_used_stopped_and_started(&systemd);
    managed::is_removed(&systemd, &systemd.unit());
    let left = files(&systemd.place.directory().join(".config"));
    assert!(left.is_empty(), "{left:?}");
    let known = systemd.systemctl(&["cat", "agent-relay"]);
    assert!(!known.status.success(), "{known:?}");
}

#[test]
fn it_comes_back_if_it_was_killed_and_stays_away_if_it_was_told_to_stop() {
    let systemd = Systemd::start();
    managed::comes_back_if_killed_and_stays_away_if_stopped(&systemd);
    let shown = systemd.systemctl(&["show", "agent-relay", "--property=ActiveState", "--value"]);
    assert_eq!(String::from_utf8_lossy(&shown.stdout).trim(), "inactive");
}

#[test]
fn a_daemon_that_runs_beside_it_makes_room() {
    let mut systemd = Systemd::start();
    systemd.done(&["up"]);
    let mut ann = systemd.place.join("Ann");
    systemd.done(&["service", "install"]);
    assert_eq!(ann.expect("BYE")["payload"]["reason"], "upgrade");
    assert!(systemd.pid().is_some());

    systemd.done(&["service", "stop"]);
    systemd.place.start();
    let beside = systemd.run(&["service", "status"]);
    let words = String::from_utf8_lossy(&beside.stderr);
    assert!(words.contains("the service did not start"), "{words}");
    systemd.done(&["service", "start"]);
    assert!(systemd.pid().is_some());
}

#[test]
fn what_starts_a_daemon_starts_the_service() {
    let systemd = Systemd::start();
    systemd.done(&["service", "install"]);
    let before = systemd.pid().unwrap();
    let replaced: Value =
        serde_json::from_str(&systemd.done(&["up", "--replace", "--json"])).unwrap();
    assert_eq!(replaced["started"], true);
    let after = systemd.pid().unwrap();
    assert_ne!(after, before);
    assert_eq!(daemon(&systemd.place), Some(after));

    systemd.done(&["service", "stop"]);
    systemd.done(&["send", "--as", "Ann", "Ann", "hello"]);
    assert_eq!(daemon(&systemd.place), systemd.pid());

    // Another program's service would not become this one's.
    let unit = fs::read_to_string(systemd.unit()).unwrap();
    fs::write(systemd.unit(), unit.replace(env!("CARGO_BIN_EXE_agent-relay"), SYSTEMD)).unwrap();
    let refused = systemd.fails(&["up", "--replace"]);
    assert!(refused.contains("`agent-relay service install` changes that to"), "{refused}");
    assert_eq!(daemon(&systemd.place), systemd.pid());
    fs::write(systemd.unit(), unit).unwrap();
}

#[test]
fn a_program_that_is_gone_is_named_and_no_old_word_of_the_log() {
    let systemd = Systemd::start();
    systemd.done(&["service", "install"]);
    systemd.done(&["service", "stop"]);
    let unit = fs::read_to_string(systemd.unit()).unwrap();
    fs::write(systemd.unit(), unit.replace(env!("CARGO_BIN_EXE_agent-relay"), "/nowhere/at/all"))
        .unwrap();
    systemd.systemctl(&["daemon-reload"]);
    let failed = systemd.fails(&["service", "start"]);
    assert!(!failed.contains("its last line") && !failed.contains("own systemd"), "{failed}");
    let shown = String::from_utf8(systemd.run(&["service", "status"]).stdout).unwrap();
    assert!(shown.contains("/nowhere/at/all (missing"), "{shown}");
}

#[test]
fn one_that_cannot_start_says_why() {
    let systemd = Systemd::start();
    let home = systemd.place.home();
    platform::paths::make_private_dir(&home).unwrap();
    fs::write(home.join("policy.toml"), "nonsense").unwrap();
    let words = systemd.fails(&["service", "install"]);
    assert!(words.contains("policy.toml"), "{words}");
    assert!(words.contains("daemon.log"), "{words}");
    fs::remove_file(home.join("policy.toml")).unwrap();
    systemd.done(&["service", "start"]);
}

#[test]
fn its_definition_is_one_that_systemd_accepts() {
    let systemd = Systemd::start();
    systemd.done(&["service", "install"]);
    let mut verify = systemd.place.program("systemd-analyze");
    verify.args(["verify", "--user"]).arg(systemd.unit());
    let output = output(in_session(&systemd.place, verify));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    platform::paths::check_unchangeable(&systemd.unit()).unwrap();
}

#[test]
fn without_systemd_nothing_is_written_and_nothing_stopped() {
    let mut place = Sandbox::empty();
    let refused = |place: &Sandbox| {
        let output = output(in_session(place, place.command(["service", "install"])));
        assert_eq!(output.status.code(), Some(1));
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(words.contains("`agent-relay up` starts the daemon"), "{words}");
    };
    refused(&place);
    assert!(files(place.directory()).is_empty() && !place.home().exists());
    place.start();
    refused(&place);
    drop(place.join("Ann"));
}

/// The daemon of this place that answers.
fn daemon(place: &Sandbox) -> Option<u64> {
    let output = place.run(["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).ok()?;
    status["status"]["daemon"]["pid"].as_u64()
}

#[test]
fn where_no_system_looks_after_it_a_process_beside_it_does() {
    let place = Sandbox::empty();
    let mut command = place.command(["up", "--foreground", "--supervised"]);
    let mut supervisor = command.stderr(Stdio::null()).spawn().unwrap();
    until("it is up", || daemon(&place).is_some());
    let before = daemon(&place).unwrap();
    managed::kill(&place, before);
    until("it comes back", || daemon(&place).is_some_and(|pid| pid != before));
    // Where one is up already, there is nothing to look after.
    let mut command = place.command(["up", "--foreground", "--supervised"]);
    let mut other = command.stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(wait(&mut other, "the other supervisor").code(), Some(0));
    assert!(place.run(["down"]).status.success());
    assert_eq!(wait(&mut supervisor, "the supervisor").code(), Some(0));
    assert_eq!(daemon(&place), None);
    let log = || fs::read_to_string(place.home().join("daemon.log")).unwrap();
    assert_eq!(log().matches("it is started again").count(), 1, "{}", log());

    fs::write(place.home().join("config.toml"), "nonsense = 1\n").unwrap();
    let mut command = place.command(["up", "--foreground", "--supervised"]);
    let mut supervisor = command.stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(wait(&mut supervisor, "the supervisor").code(), Some(1));
    assert_eq!(log().matches("unknown key").count(), 5, "{}", log());
    assert!(log().contains("5 times in a row"), "{}", log());
}
