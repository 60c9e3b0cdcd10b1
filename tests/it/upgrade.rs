//! Replacement of a daemon while agents run, which reconnect by themselves.

use crate::wrap::wrap_line_reader;
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Child, Output, Stdio},
    thread,
};
use testkit::{
    programs::copy_program,
    raw::Raw,
    sandbox::Sandbox,
    waiting::{output, until},
};

/// A sandbox with a detached daemon, which is stopped when dropped.
pub(crate) struct DetachedDaemon(pub(crate) Sandbox);

impl DetachedDaemon {
    pub(crate) fn new() -> Self {
        let detached = Self(Sandbox::configured(""));
        detached.run_ok(&["up"]);
        detached
    }

    /// Runs a command that has to succeed. Returns its output.
    #[track_caller]
    pub(crate) fn run_ok(&self, line: &[&str]) -> String {
        text(&self.0.run(line))
    }

    /// Returns the daemon's process id.
    #[track_caller]
    fn daemon(&self) -> u64 {
        self.0.answering_daemon().unwrap()
    }

    #[track_caller]
    fn wait_until_here(&self, names: &[&str]) {
        let is_here = |listed: &str, name: &str| {
            let row = listed.lines().find(|line| line.contains(&format!(r#""name":"{name}""#)));
            row.is_some_and(|row| row.contains(r#""here":true"#))
        };
        for _ in 0..1000 {
            let listed = self.run_ok(&["agents", "--json"]);
            if names.iter().all(|name| is_here(&listed, name)) {
                return;
            }
        }
        panic!("{names:?} do not come back");
    }
}

impl Drop for DetachedDaemon {
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

/// A process of `agent-relay listen`.
struct Listener(Child);

impl Listener {
    fn start(sandbox: &Sandbox, name: &str) -> Self {
        let mut command = sandbox.command(["listen", "--as", name]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn is_running(&mut self) -> bool {
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
    let detached = DetachedDaemon::new();
    let mut bob = Listener::start(&detached.0, "Bob");
    let mut ann = wrap_line_reader(&detached.0, "Ann", &[]);
    detached.wait_until_here(&["Ann", "Bob"]);
    let old = detached.daemon();

    let printed = detached.run_ok(&["up", "--replace"]);
    let lines: Vec<_> = printed.lines().collect();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(lines[0], format!("version {version} was stopped"), "{printed}");
    assert!(lines[1].starts_with("the daemon is up at "), "{printed}");
    assert_ne!(detached.daemon(), old);

    detached.wait_until_here(&["Ann", "Bob"]);
    assert!(bob.is_running());
    ann.press("still here?\r");
    ann.wait_for_row("heard: still here?");
    assert_eq!(ann.text().matches("ready").count(), 1, "the program was not restarted");
    ann.press("exit 7\r");
    assert_eq!(ann.finish(), 7);
}

#[test]
fn replacement_keeps_the_endpoint() {
    let detached = DetachedDaemon::new();
    let old = detached.daemon();
    let mut replace = detached.0.program(env!("CARGO_BIN_EXE_agent-relay"));
    replace.arg("--home").arg(detached.0.home()).args(["up", "--replace", "--json"]);
    let report: Value = serde_json::from_str(&text(&output(replace))).unwrap();
    assert_eq!(report["endpoint"], detached.0.endpoint().as_text());
    assert_eq!((&report["started"], &report["replaced"]), (&true.into(), &report["version"]));
    assert_ne!(detached.daemon(), old);
}

#[test]
fn replace_without_a_daemon_starts_one() {
    let detached = DetachedDaemon(Sandbox::empty());
    let report: Value =
        serde_json::from_str(&detached.run_ok(&["up", "--replace", "--json"])).unwrap();
    assert_eq!((&report["started"], report.get("replaced")), (&true.into(), None));
}

#[test]
fn failed_replacement_keeps_the_old_daemon() {
    let detached = DetachedDaemon::new();
    let config = detached.0.home().join("config.toml");
    fs::write(&config, "heartbeat = 1\n").unwrap();
    let refused = detached.0.run(["up", "--replace"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    // The old daemon still answers.
    detached.0.join("Ann").leave();
    fs::remove_file(&config).unwrap();
}

/// Replaces a program as an installation does. Every system can move a running program, and none
/// can overwrite it.
#[test]
fn daemon_is_replaced_while_its_program_is_in_use() {
    let built = Path::new(env!("CARGO_BIN_EXE_agent-relay"));
    let detached = DetachedDaemon(Sandbox::empty());
    let programs = detached.0.directory().join("programs");
    fs::create_dir(&programs).unwrap();
    let (program, aside) = (programs.join(built.file_name().unwrap()), programs.join("old"));
    let install = || copy_program(built, &program);
    install();
    let run = |line: &[&str]| {
        let mut command = detached.0.program(&program);
        command.args(["--endpoint", detached.0.endpoint().as_text(), "--home"]);
        text(&output({
            command.arg(detached.0.home()).args(line);
            command
        }))
    };
    run(&["up"]);
    let old = detached.daemon();
    fs::rename(&program, &aside).unwrap();
    install();
    let report: Value = serde_json::from_str(&run(&["up", "--replace", "--json"])).unwrap();
    assert_eq!((&report["started"], &report["replaced"]), (&true.into(), &report["version"]));
    assert_ne!(detached.daemon(), old);
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
    let detached = DetachedDaemon(sandbox);
    detached.run_ok(&["up"]);
    let mut cid = detached.0.join("Cid");
    detached.run_ok(&["send", "--as", "Bob", "Cid", "this one hears"]);
    assert_eq!(cid.expect("DELIVER")["payload"]["body"], "this one hears");
    drop(held);
}

/// The client sends only what version 1.0 knew.
#[test]
fn client_of_version_1_0_is_served() {
    let sandbox = Sandbox::new();
    let join = |name: &str, resume_token: Option<&Value>| {
        let mut raw = sandbox.connect();
        raw.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {
            "agent": name,
            "capabilities": {"ack": true, "resume": true, "max_inflight": 64, "supports_topics": true},
            "session": testkit::raw::session(resume_token),
        }}));
        let welcome = raw.expect("WELCOME")["payload"].take();
        (raw, welcome)
    };
    let ((mut ann, _), (mut bob, welcome)) = (join("Ann", None), join("Bob", None));
    bob.send_json(&json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 0, "topic": "builds",
        "payload": {}}));
    bob.expect("ACK");
    let send = |ann: &mut Raw, id: &str, header: Value| {
        let mut envelope = json!({"v": 1, "type": "SEND", "id": id, "ts": 0,
            "payload": {"kind": "message", "body": id, "data": {}},
            "payload_meta": {"requires_ack": true}});
        envelope.as_object_mut().unwrap().extend(header.as_object().unwrap().clone());
        ann.send_json(&envelope);
        let ack = ann.expect("ACK");
        assert_eq!(ack["payload"]["ack_id"], id, "{ack}");
    };
    let receive = |bob: &mut Raw, body: &str| {
        let deliver = bob.expect("DELIVER");
        let read = (&deliver["v"], &deliver["from"], &deliver["payload"]["body"]);
        assert_eq!(read, (&json!(1), &json!("Ann"), &json!(body)));
        assert!(
            deliver["delivery"]["seq"].is_u64() && deliver["delivery"]["session_id"].is_string()
        );
        bob.acknowledge(&deliver);
    };
    send(&mut ann, "direct", json!({"to": "Bob"}));
    receive(&mut bob, "direct");
    send(&mut ann, "to a topic", json!({"to": "*", "topic": "builds"}));
    receive(&mut bob, "to a topic");
    bob.drain();
    bob.hang_up();
    drop(bob);
    let (mut bob, back) = join("Bob", Some(&welcome["resume_token"]));
    assert_eq!(back["session_id"], welcome["session_id"]);
    send(&mut ann, "after a resume", json!({"to": "Bob"}));
    receive(&mut bob, "after a resume");
    bob.leave();
}

#[test]
fn newer_store_is_refused_with_both_versions() {
    let mut sandbox = Sandbox::new();
    sandbox.run(["down"]);
    sandbox.await_daemon_end();
    let store = rusqlite::Connection::open(sandbox.home().join("relay.db")).unwrap();
    let known: u32 = store.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    store.execute_batch(&format!("PRAGMA user_version = {}", known + 1)).unwrap();
    store.close().unwrap();
    let refused = sandbox.run(["up"]);
    let printed = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{printed}");
    let both = format!("schema {}, this one knows {known}", known + 1);
    assert!(printed.contains(&both) && printed.contains("run that version"), "{printed}");
    let files = fs::read_dir(sandbox.home()).unwrap().map(|file| file.unwrap().file_name());
    assert!(!files.into_iter().any(|name| name.to_string_lossy().contains("damaged")));
}
