//! Activities of agents, as commands show it and wait for it.

use crate::wrap::send;
use platform::clock;
use serde_json::{Value, json};
use std::{fs, process::Output};
use testkit::{
    claude,
    raw::Raw,
    sandbox::Sandbox,
    waiting::{until, wait},
};

fn said(ended: &Output) -> String {
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

/// Waits for a state of an agent. Returns the exit code and the message.
fn wait_for(sandbox: &Sandbox, words: &[&str]) -> (Option<i32>, String) {
    let ended = sandbox.run(["wait"].iter().chain(words));
    (ended.status.code(), said(&ended))
}

/// Reports an agent's activity.
fn report(agent: &mut Raw, activity: &str) {
    agent.ask("activity", &json!({"activity": activity, "source": "screen", "for_ms": 0}));
}

#[test]
fn wait_ends_once_a_state_is_reached() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let timeout = ["--timeout", "300ms"];
    let (code, why) = wait_for(&sandbox, &[&["Bob", "ended"][..], &timeout].concat());
    assert_eq!((code, why.contains("not ended after 300 ms: Bob is here")), (Some(4), true));
    let (code, why) = wait_for(&sandbox, &[&["Bob", "message"][..], &timeout].concat());
    assert_eq!((code, why.contains("nothing waits for Bob")), (Some(4), true), "{why}");
    report(&mut bob, "working");
    let (code, why) = wait_for(&sandbox, &[&["Bob", "idle"][..], &timeout].concat());
    assert_eq!((code, why.contains("Bob is working")), (Some(4), true), "{why}");
    report(&mut bob, "idle");
    assert_eq!(wait_for(&sandbox, &["bob", "idle"]), (Some(0), String::new()));
    bob.leave();
    assert_eq!(wait_for(&sandbox, &["Bob", "ended"]), (Some(0), String::new()));
    let sent = sandbox.run(["send", "Bob", "hello"]);
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    assert_eq!(wait_for(&sandbox, &["Bob", "message"]), (Some(0), String::new()));
}

#[test]
fn wait_goes_on_after_the_daemon_was_killed() {
    let mut sandbox = Sandbox::new();
    sandbox.join("Bob").leave();
    let mut waiting = sandbox.command(["wait", "Bob", "message", "--timeout", "1m"]);
    let mut waiting = waiting.spawn().unwrap();
    let mut operator = sandbox.operator();
    until("it asks and is told of changes", || {
        operator.ask("status", &json!({}))["connections"] == 3
    });
    sandbox.kill();
    sandbox.start();
    let sent = sandbox.run(["send", "Bob", "hello"]);
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    assert_eq!(wait(&mut waiting, "wait").code(), Some(0));
}

#[test]
fn status_of_a_message_shows_its_recipients_activity() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    report(&mut bob, "waits-for-permission");
    send(&mut ann, "Bob", "hello");
    let delivered = bob.expect("DELIVER");
    let id = delivered["id"].as_str().unwrap();
    let status = || -> Value {
        let printed = sandbox.run(["status", id, "--json"]);
        serde_json::from_slice(&printed.stdout).unwrap_or_else(|_| panic!("{}", said(&printed)))
    };
    let row = status();
    assert_eq!(
        (&row["schema"], &row["payload"]["body"]),
        (&json!("agent-relay.message/1"), &json!("hello"))
    );
    let (activity, source) = (&row["agent"]["activity"], &row["agent"]["activity_source"]);
    assert_eq!((activity, source), (&json!("waits-for-permission"), &json!("screen")));
    assert!(row["agent"]["activity_since"].is_u64(), "{row}");
    bob.acknowledge(&delivered);
    until("a closed delivery has no agent", || status()["agent"].is_null());
}

#[test]
fn wait_for_a_state_that_is_not_known_is_refused() {
    let sandbox = Sandbox::new();
    let bob = sandbox.join("Bob");
    let (code, why) = wait_for(&sandbox, &["Bob", "idle"]);
    assert_eq!((code, why.contains("it is not known when Bob is idle")), (Some(1), true), "{why}");
    bob.leave();
    let (code, why) = wait_for(&sandbox, &["Bob", "idle"]);
    assert_eq!((code, why.contains("Bob is away")), (Some(1), true), "{why}");
    let (code, why) = wait_for(&sandbox, &["Bbo", "ended"]);
    assert_eq!((code, why.contains("no agent named \"Bbo\"")), (Some(1), true), "{why}");
    assert_eq!(wait_for(&sandbox, &["Bob", "dancing"]).0, Some(2));
}

/// A program under the name of Claude Code that reports by its hooks and shows a dialog. Each step
/// waits for a file. Reports are repeated until the next step, since a hook gives up when its
/// wrapper is slow.
const CLAUDE: &str = r#"
report() { until [ -e "$2" ]; do echo '{}' | hook "$1"; sleep 0.05; done & }
step() { wait; until [ -e "$1" ]; do sleep 0.05; done; }
echo ready
step prompt; report UserPromptSubmit permission
step permission; report PermissionRequest allowed; printf '\n❯ 1. Yes\n  2. No\n'
step allowed; printf '\033[2J\033[Hallowed\n'
step question; report PreToolUse stop; printf '\n❯ 1. Red\n  2. Blue\n'
step stop; report Stop end; printf '\033[2J\033[H'
step end
"#;

/// Waits until Ann's activity is this many milliseconds old.
#[track_caller]
pub(crate) fn await_age(sandbox: &Sandbox, ms: u64) {
    until("the activity lasts", || {
        let since = ann(sandbox)["activity_since"].as_u64();
        since.is_some_and(|since| clock::unix_ms().saturating_sub(since) >= ms)
    });
}

fn ann(sandbox: &Sandbox) -> Value {
    let listed = sandbox.run(["agents", "--json"]).stdout;
    let rows = listed.split(|byte| *byte == b'\n').map(serde_json::from_slice::<Value>);
    rows.filter_map(Result::ok).find(|row| row["name"] == "Ann").unwrap_or_default()
}

/// Waits until the hooks of Ann have reported her activity.
#[track_caller]
pub(crate) fn await_activity(sandbox: &Sandbox, activity: &str) {
    until(activity, || {
        let row = ann(sandbox);
        row["activity"] == activity && row["activity_source"] == "hooks"
    });
}

#[test]
fn hooks_report_an_agents_activity() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let terminal = claude::start_with_hooks(&sandbox, CLAUDE, &[]);
    let step = |name: &str| fs::write(sandbox.directory().join(name), "").unwrap();
    step("prompt");
    await_activity(&sandbox, "working");
    step("permission");
    await_activity(&sandbox, "waits-for-permission");
    send(&mut bob, "Ann", "hello");
    let history = sandbox.run(["inbox", "--as", "Ann", "--json"]).stdout;
    let row: Value = serde_json::from_slice(history.trim_ascii()).unwrap();
    let shown = sandbox.run(["status", row["id"].as_str().unwrap()]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("  agent     Ann waits for permission, for "), "{shown}");
    let listed = String::from_utf8(sandbox.run(["agents"]).stdout).unwrap();
    assert!(listed.contains("  waits for permission  "), "{listed}");
    step("allowed");
    await_activity(&sandbox, "working");
    step("question");
    await_activity(&sandbox, "asks-person");
    step("stop");
    await_activity(&sandbox, "idle");
    assert_eq!(wait_for(&sandbox, &["Ann", "idle"]).0, Some(0));
    step("end");
    assert_eq!(terminal.finish(), 0);
    assert_eq!(wait_for(&sandbox, &["Ann", "ended"]).0, Some(0));
    assert_eq!(ann(&sandbox)["activity"], Value::Null);
}

#[test]
fn agents_say_why_a_cli_has_no_hooks() {
    let sandbox = Sandbox::new();
    let mut terminal = claude::start(&sandbox, "#!/bin/sh\necho ready; read end\n", &[]);
    let listed = String::from_utf8(sandbox.run(["agents"]).stdout).unwrap();
    let note =
        "note: Ann has no hooks, so messages are only typed: its version is unknown, or older";
    assert!(listed.contains(note), "{listed}");
    terminal.press("\r");
    terminal.finish();
}
