//! Replacement of a daemon while agents run, which reconnect by themselves.

use crate::{
    sandbox::{Sandbox, output, until},
    wrap::reading,
};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Child, Output, Stdio},
    thread,
};

/// A sandbox with a detached daemon, which is stopped when dropped.
pub(crate) struct Replaced(pub(crate) Sandbox);

impl Replaced {
    pub(crate) fn new() -> Self {
        let place = Self(Sandbox::empty());
        place.done(&["up"]);
        place
    }

    /// Runs a command that has to succeed. Returns its output.
    #[track_caller]
    pub(crate) fn done(&self, line: &[&str]) -> String {
        text(&self.0.run(line))
    }

    /// Returns the daemon's process id.
    #[track_caller]
    fn daemon(&self) -> u64 {
        let status = self.done(&["status", "--json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        status["status"]["daemon"]["pid"].as_u64().unwrap()
    }

    #[track_caller]
    fn wait_until_here(&self, names: &[&str]) {
        let is_here = |listed: &str, name: &str| {
            let row = listed.lines().find(|line| line.contains(&format!(r#""name":"{name}""#)));
            row.is_some_and(|row| row.contains(r#""here":true"#))
        };
        for _ in 0..1000 {
            let listed = self.done(&["agents", "--json"]);
            if names.iter().all(|name| is_here(&listed, name)) {
                return;
            }
        }
        panic!("{names:?} do not come back");
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let stopped = self.0.run(["down"]);
        assert!(stopped.status.success() || thread::panicking(), "{stopped:?}");
    }
}

#[track_caller]
fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// An agent in a process of its own.
struct Listener(Child);

impl Listener {
    fn start(sandbox: &Sandbox, name: &str) -> Self {
        let mut command = sandbox.command(["listen", "--as", name]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn is_there(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn listeners_and_wrapped_agents_survive_a_replaced_daemon() {
    let place = Replaced::new();
    let mut bob = Listener::start(&place.0, "Bob");
    let mut ann = reading(&place.0, "Ann", &[]);
    place.wait_until_here(&["Ann", "Bob"]);
    let old = place.daemon();

    let printed = place.done(&["up", "--replace"]);
    let lines: Vec<_> = printed.lines().collect();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(lines[0], format!("version {version} was stopped"), "{printed}");
    assert!(lines[1].starts_with("the daemon is up at "), "{printed}");
    assert_ne!(place.daemon(), old);

    place.wait_until_here(&["Ann", "Bob"]);
    assert!(bob.is_there());
    ann.press("still here?\r");
    ann.wait_for_row("heard: still here?");
    assert_eq!(ann.text().matches("ready").count(), 1, "it did not begin again");
    ann.press("exit 7\r");
    assert_eq!(ann.finish(), 7);
}

#[test]
fn replacement_keeps_the_endpoint() {
    let place = Replaced::new();
    let old = place.daemon();
    let mut replace = place.0.program(env!("CARGO_BIN_EXE_agent-relay"));
    replace.arg("--home").arg(place.0.home()).args(["up", "--replace", "--json"]);
    let report: Value = serde_json::from_str(&text(&output(replace))).unwrap();
    assert_eq!(report["endpoint"], place.0.endpoint().as_text());
    assert_eq!((&report["started"], &report["replaced"]), (&true.into(), &report["version"]));
    assert_ne!(place.daemon(), old);
}

#[test]
fn replace_without_a_daemon_starts_one() {
    let place = Replaced(Sandbox::empty());
    let report: Value = serde_json::from_str(&place.done(&["up", "--replace", "--json"])).unwrap();
    assert_eq!((&report["started"], report.get("replaced")), (&true.into(), None));
}

#[test]
fn failed_replacement_keeps_the_old_daemon() {
    let place = Replaced::new();
    let config = place.0.home().join("config.toml");
    fs::write(&config, "heartbeat = 1\n").unwrap();
    let refused = place.0.run(["up", "--replace"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    // The old daemon still answers.
    drop(place.0.join("Ann"));
    fs::remove_file(&config).unwrap();
}

/// As an installation does it: on every system a running program can be moved aside, on none
/// overwritten.
#[test]
fn daemon_is_replaced_while_its_program_is_in_use() {
    let built = Path::new(env!("CARGO_BIN_EXE_agent-relay"));
    let place = Replaced(Sandbox::empty());
    let programs = place.0.directory().join("programs");
    fs::create_dir(&programs).unwrap();
    let (program, aside) = (programs.join(built.file_name().unwrap()), programs.join("old"));
    let install = || {
        fs::copy(built, &program).unwrap();
        // On Unix, a process that another test forks has our file open until it execs.
        let mut help = place.0.program(&program);
        help.arg("--help");
        until("it can be run", || help.output().is_ok());
    };
    install();
    let run = |line: &[&str]| {
        let mut command = place.0.program(&program);
        command.args(["--endpoint", place.0.endpoint().as_text(), "--home"]);
        text(&output({
            command.arg(place.0.home()).args(line);
            command
        }))
    };
    run(&["up"]);
    let old = place.daemon();
    fs::rename(&program, &aside).unwrap();
    install();
    let report: Value = serde_json::from_str(&run(&["up", "--replace", "--json"])).unwrap();
    assert_eq!((&report["started"], &report["replaced"]), (&true.into(), &report["version"]));
    assert_ne!(place.daemon(), old);
    // The old daemon has ended, and the new one runs.
    until("nothing runs the old program", || fs::remove_file(&aside).is_ok());
    run(&["down"]);
    until("nothing runs the new one", || fs::remove_file(&program).is_ok());
}

#[test]
fn killed_daemon_is_replaced_despite_an_open_connection() {
    let mut sandbox = Sandbox::new();
    let held = sandbox.join("Ann");
    sandbox.kill();
    sandbox.let_others_start();
    let place = Replaced(sandbox);
    place.done(&["up"]);
    let mut cid = place.0.join("Cid");
    place.done(&["send", "--as", "Bob", "Cid", "this one hears"]);
    assert_eq!(cid.expect("DELIVER")["payload"]["body"], "this one hears");
    drop(held);
}
