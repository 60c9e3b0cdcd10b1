//! Agents that are started again after they were cut off.

use crate::activity::await_activity;
use serde_json::Value;
use std::fs;
use testkit::{
    claude,
    sandbox::Sandbox,
    waiting::{output, until},
};

/// A program under the name of Claude Code that notes its arguments and its directory, begins a
/// conversation with a prompt, and ends with a file.
pub(crate) const CLAUDE: &str = r#"
echo "$(pwd): $@" >> "$HOME/started"
echo ready
while ! [ -e "$HOME/prompt" ]; do sleep 0.05; done
until "$RELAY" agents --json | grep -q '"activity":"working"'; do
    echo '{"session_id":"c0ffee","prompt":"Work."}' | hook UserPromptSubmit
done
while ! [ -e "$HOME/end" ]; do sleep 0.05; done
"#;

/// The head of a script reads the arguments up to the settings of its hooks, and keeps the rest.
fn started(sandbox: &Sandbox) -> Vec<String> {
    let text = fs::read_to_string(sandbox.directory().join("started")).unwrap_or_default();
    text.lines()
        .map(|line| {
            let words = line.split(' ').filter(|word| !word.contains("settings"));
            words.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

fn step(sandbox: &Sandbox, name: &str) {
    fs::write(sandbox.directory().join(name), "").unwrap();
}

#[track_caller]
fn run(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let ended = sandbox.run(arguments);
    assert!(ended.status.success(), "{arguments:?}: {ended:?}");
    String::from_utf8(ended.stdout).unwrap()
}

/// The process id of the wrapper of a command that `spawn` has reported.
pub(crate) fn wrapper_of(sandbox: &Sandbox, spawned: &Value) -> u64 {
    let mut ps = sandbox.program("ps");
    ps.args(["-o", "ppid=", "-p", &spawned["pid"].to_string()]);
    String::from_utf8(output(ps).stdout).unwrap().trim().parse().unwrap()
}

#[test]
fn killed_agent_goes_on_in_its_own_conversation_with_its_mail() {
    let sandbox = Sandbox::new();
    let program = claude::install_with_hooks(&sandbox, CLAUDE);
    let work = sandbox.directory().join("work");
    fs::create_dir(&work).unwrap();
    let cwd = work.to_str().unwrap();
    let command = ["--", &program, "--model", "opus", "Fix the tests."];
    let spawned =
        run(&sandbox, &[&["spawn", "Ann", "--json", "--cwd", cwd][..], &command].concat());
    step(&sandbox, "prompt");
    await_activity(&sandbox, "working");
    let record = sandbox.home().join("agents/ann.json");
    until("the conversation is recorded", || {
        fs::read_to_string(&record).is_ok_and(|text| text.contains("c0ffee"))
    });
    sandbox.kill_process(wrapper_of(&sandbox, &serde_json::from_str(&spawned).unwrap()));
    until("Ann is away", || run(&sandbox, &["restore"]).contains("Ann"));
    run(&sandbox, &["send", "Ann", "Are you back?"]);

    let listed = run(&sandbox, &["restore", "--json"]);
    let row: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&row["name"], &row["conversation"]), (&"Ann".into(), &"c0ffee".into()));
    fs::remove_file(sandbox.directory().join("prompt")).unwrap();
    let restored = run(&sandbox, &["restore", "--all"]);
    assert!(restored.starts_with("Ann goes on (process "), "{restored}");
    until("Ann runs again", || started(&sandbox).len() == 2);
    let expected = [
        format!("{cwd}: --model opus Fix the tests."),
        format!("{cwd}: --resume c0ffee --model opus"),
    ];
    assert_eq!(started(&sandbox), expected);
    let waiting = run(&sandbox, &["inbox", "--as", "Ann"]);
    assert!(waiting.contains("Are you back?"), "{waiting}");
    let twice = sandbox.run(["restore", "Ann"]);
    assert!(String::from_utf8_lossy(&twice.stderr).contains("Ann runs already"), "{twice:?}");

    // An agent that was stopped is not missed, but can be started again by its name.
    run(&sandbox, &["stop", "Ann"]);
    assert!(run(&sandbox, &["restore", "--all"]).contains("no agent was cut off"));
    run(&sandbox, &["restore", "ann"]);
    until("Ann runs once more", || started(&sandbox).len() == 3);
    run(&sandbox, &["stop", "Ann"]);

    // A renamed agent goes on under its new name.
    assert_eq!(run(&sandbox, &["rename", "Ann", "Eve"]), "Ann is Eve now\n");
    run(&sandbox, &["restore", "eve"]);
    until("Eve runs", || started(&sandbox).len() == 4);
    assert_eq!(started(&sandbox)[3], expected[1]);
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
    let program = claude::install_with_hooks(&sandbox, "echo 2.1.330");
    let unknown = sandbox.run(["restore", "Ann"]);
    let why = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(1));
    assert!(why.contains("nothing is recorded of Ann"), "{why}");
    record(&sandbox, "Ann", &program, sandbox.directory().to_str().unwrap(), 1);
    run(&sandbox, &["spawn", "Ann", "--", &program, "--version"]);
    until("its wrapper has ended", || run(&sandbox, &["restore"]).contains("Ann"));
    until("it has left", || sandbox.run(["purge", "Ann", "--forget"]).status.success());
    assert!(run(&sandbox, &["restore"]).contains("no agent was cut off"));
}

#[test]
fn agent_that_ends_at_once_is_not_restored() {
    let sandbox = Sandbox::new();
    let program = claude::install_with_hooks(&sandbox, "echo No conversation; exit 3");
    record(&sandbox, "Ann", &program, sandbox.directory().to_str().unwrap(), 1);
    let restored = sandbox.run(["restore", "--all"]);
    let why = String::from_utf8_lossy(&restored.stderr).into_owned();
    assert!(why.contains("Ann ended at once, with code 3"), "{why}");
    assert_eq!((restored.status.code(), &restored.stdout[..]), (Some(1), &b""[..]));
    assert!(run(&sandbox, &["restore"]).contains("Ann"), "it can be tried once more");
}

#[test]
fn agent_whose_directory_is_gone_is_named_and_others_are_started() {
    let sandbox = Sandbox::new();
    let program = claude::install_with_hooks(&sandbox, CLAUDE);
    record(&sandbox, "Gone", &program, "/nowhere/at/all", 1);
    record(&sandbox, "Ann", &program, sandbox.directory().to_str().unwrap(), 2);
    let restored = sandbox.run(["restore", "--all"]);
    let why = String::from_utf8_lossy(&restored.stderr).into_owned();
    assert!(why.contains("Gone ran in /nowhere/at/all, which is gone"), "{why}");
    let said = String::from_utf8_lossy(&restored.stdout).into_owned();
    assert!(said.starts_with("Ann begins a conversation"), "{said}");
    assert_eq!(restored.status.code(), Some(1));
    run(&sandbox, &["stop", "Ann"]);
}
