//! Agents that are started again after they were cut off.

use crate::activity::await_activity;
use serde_json::Value;
use std::{fs, path::PathBuf};
use testkit::{claude::Claude, sandbox::Sandbox, waiting::until};

#[track_caller]
fn run(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let ended = sandbox.run(arguments);
    assert!(ended.status.success(), "{arguments:?}: {ended:?}");
    String::from_utf8(ended.stdout).unwrap()
}

/// The process id of an agent's wrapper.
pub(crate) fn wrapper_of(sandbox: &Sandbox, name: &str) -> u64 {
    let state: Value = serde_json::from_str(&run(sandbox, &["release", name, "--json"])).unwrap();
    state["wrapper_pid"].as_u64().unwrap()
}

/// One start: the directory and the arguments.
fn start(directory: &str, arguments: &[&str]) -> (PathBuf, Vec<String>) {
    (directory.into(), arguments.iter().map(|&word| word.to_owned()).collect())
}

#[test]
fn killed_agent_goes_on_in_its_own_conversation_with_its_mail() {
    let sandbox = Sandbox::new();
    let claude = Claude::install(&sandbox);
    let work = sandbox.directory().join("work");
    fs::create_dir(&work).unwrap();
    let cwd = work.to_str().unwrap();
    let command = ["--", &claude.program, "--model", "opus", "Fix the tests."];
    run(&sandbox, &[&["spawn", "Ann", "--cwd", cwd][..], &command].concat());
    claude.hook("UserPromptSubmit", r#"{"session_id":"c0ffee","prompt":"Work."}"#);
    await_activity(&sandbox, "working");
    let record = sandbox.home().join("agents/ann.json");
    until("the conversation is recorded", || {
        fs::read_to_string(&record).is_ok_and(|text| text.contains("c0ffee"))
    });
    sandbox.kill_process(wrapper_of(&sandbox, "Ann"));
    until("Ann is away", || run(&sandbox, &["restore"]).contains("Ann"));
    run(&sandbox, &["send", "Ann", "Are you back?"]);

    let listed = run(&sandbox, &["restore", "--json"]);
    let row: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&row["name"], &row["conversation"]), (&"Ann".into(), &"c0ffee".into()));
    claude.forget();
    let restored = run(&sandbox, &["restore", "--all"]);
    assert!(restored.starts_with("Ann goes on (process "), "{restored}");
    until("Ann runs again", || claude.started().len() == 2);
    let expected = [
        start(cwd, &["--model", "opus", "Fix the tests."]),
        start(cwd, &["--resume", "c0ffee", "--model", "opus"]),
    ];
    assert_eq!(claude.started(), expected);
    let waiting = run(&sandbox, &["inbox", "--as", "Ann"]);
    assert!(waiting.contains("Are you back?"), "{waiting}");
    let twice = sandbox.run(["restore", "Ann"]);
    assert!(String::from_utf8_lossy(&twice.stderr).contains("Ann runs already"), "{twice:?}");

    // `restore` omits a stopped agent, but starts it if it is named.
    run(&sandbox, &["stop", "Ann"]);
    assert!(run(&sandbox, &["restore", "--all"]).contains("no agent was cut off"));
    run(&sandbox, &["restore", "ann"]);
    until("Ann runs once more", || claude.started().len() == 3);
    run(&sandbox, &["stop", "Ann"]);

    // A renamed agent continues under its new name.
    assert_eq!(run(&sandbox, &["rename", "Ann", "Eve"]), "Ann is Eve now\n");
    run(&sandbox, &["restore", "eve"]);
    until("Eve runs", || claude.started().len() == 4);
    assert_eq!(claude.started()[3], expected[1]);
    let waiting = run(&sandbox, &["inbox", "--as", "Eve"]);
    assert!(waiting.contains("Are you back?"), "{waiting}");
    run(&sandbox, &["stop", "Eve"]);
}

/// Writes the record of an agent that was cut off.
pub(crate) fn record(sandbox: &Sandbox, name: &str, program: &str, directory: &str, started: u64) {
    let folder = sandbox.home().join("agents");
    platform::paths::make_private_dir(&folder).unwrap();
    let record = serde_json::json!({
        "name": name, "cli": "claude", "directory": directory, "program": program,
        "arguments": [], "options": [], "started": started,
    });
    fs::write(folder.join(format!("{}.json", name.to_lowercase())), record.to_string()).unwrap();
}

#[test]
fn command_that_only_prints_its_version_replaces_no_record() {
    let sandbox = Sandbox::new();
    let claude = Claude::install(&sandbox);
    claude.print("2.1.330\r\n");
    claude.end(0);
    let unknown = sandbox.run(["restore", "Ann"]);
    let why = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(1));
    assert!(why.contains("nothing is recorded of Ann"), "{why}");
    record(&sandbox, "Ann", &claude.program, sandbox.directory().to_str().unwrap(), 1);
    run(&sandbox, &["spawn", "Ann", "--", &claude.program, "--version"]);
    until("its wrapper has ended", || run(&sandbox, &["restore"]).contains("Ann"));
    until("it has left", || sandbox.run(["purge", "Ann", "--forget"]).status.success());
    assert!(run(&sandbox, &["restore"]).contains("no agent was cut off"));
}

#[test]
fn agent_that_ends_at_once_is_not_restored() {
    let sandbox = Sandbox::new();
    let claude = Claude::install(&sandbox);
    claude.print("No conversation\r\n");
    claude.end(3);
    record(&sandbox, "Ann", &claude.program, sandbox.directory().to_str().unwrap(), 1);
    let restored = sandbox.run(["restore", "--all"]);
    let why = String::from_utf8_lossy(&restored.stderr).into_owned();
    assert!(why.contains("Ann ended at once, with code 3"), "{why}");
    assert_eq!((restored.status.code(), &restored.stdout[..]), (Some(1), &b""[..]));
    assert!(run(&sandbox, &["restore"]).contains("Ann"), "it can be tried once more");
}

#[test]
fn agent_with_missing_directory_is_named_and_others_are_started() {
    let sandbox = Sandbox::new();
    let claude = Claude::install(&sandbox);
    record(&sandbox, "Gone", &claude.program, "/nowhere/at/all", 1);
    record(&sandbox, "Ann", &claude.program, sandbox.directory().to_str().unwrap(), 2);
    let restored = sandbox.run(["restore", "--all"]);
    let why = String::from_utf8_lossy(&restored.stderr).into_owned();
    assert!(why.contains("Gone ran in /nowhere/at/all, which is gone"), "{why}");
    let said = String::from_utf8_lossy(&restored.stdout).into_owned();
    assert!(said.starts_with("Ann begins a conversation"), "{said}");
    assert_eq!(restored.status.code(), Some(1));
    run(&sandbox, &["stop", "Ann"]);
}
