//! A CLI in the background: its messages arrive, and `agents` names the transcript that they are
//! read from.

use crate::{
    cli::{Cli, Workspace},
    peer::{Peer, relay_line},
};
use platform::pty::Size;
use serde_json::{Value, json};
use std::path::Path;
use testkit::{
    model::{Model, Reply},
    sandbox::Sandbox,
};

/// Stops Ann on drop.
struct StopOnDrop<'a>(&'a Sandbox);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.run(["stop", "Ann"]);
    }
}

/// Where the wrapper reads Ann's messages from, as reported by `agents`.
fn source(sandbox: &Sandbox) -> Value {
    let printed = sandbox.run(["agents", "--json"]).stdout;
    let rows = str::from_utf8(&printed).unwrap().lines();
    let mut rows = rows.map(|row| serde_json::from_str::<Value>(row).unwrap());
    rows.find(|row| row["name"] == "Ann").expect("Ann is there")["source"].clone()
}

fn spawned_cli_sends_messages(cli: Cli) {
    let line = relay_line("Bob", "I am here.");
    let model = Model::start(move |_| Reply::new().says(format!("I tell him.\n\n{line}")));
    let sandbox = Sandbox::new();
    let bob = Peer::join(&sandbox, "Bob");
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let stop = StopOnDrop(&sandbox);
    let agent = workspace.spawn("Ann", Size { rows: 40, cols: 120 });
    agent.with_screen_on_panic(|| assert_eq!(source(&sandbox)["from"], "missing"));
    bob.send("Ann", "Are you there?");
    assert_eq!(bob.receive_text(&agent), "I am here.");
    let source = source(&sandbox);
    let path = source["path"].as_str().unwrap_or_default();
    let files = workspace.transcripts();
    assert!(files.iter().any(|file| file == Path::new(path)), "{source} is not among {files:?}");
    assert_eq!(source, json!({"from": "transcript", "path": path}));
    drop(stop);
}

/// A restored agent continues its own conversation.
fn restored_cli_continues(cli: Cli) {
    let line = relay_line("Bob", "I am here.");
    let model = Model::start(move |_| Reply::new().says(format!("I tell him.\n\n{line}")));
    let sandbox = Sandbox::new();
    let bob = Peer::join(&sandbox, "Bob");
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let size = Size { rows: 40, cols: 120 };
    let agent = workspace.spawn("Ann", size);
    bob.send("Ann", "Are you there?");
    assert_eq!(bob.receive_text(&agent), "I am here.");
    let stop = |name| assert!(sandbox.run(["stop", name]).status.success());
    stop("Ann");
    drop(agent);
    let restored = workspace.restore("Ann");
    assert!(restored.contains("Ann goes on (process "), "{restored}");
    let _stop = StopOnDrop(&sandbox);
    let agent = workspace.attach("Ann", size);
    agent.terminal.wait_for("Are you there?");
    agent.wait_until_idle();
    bob.send("Ann", "And now?");
    assert_eq!(bob.receive_text(&agent), "I am here.");
}

#[test]
fn restored_claude_continues() {
    restored_cli_continues(Cli::Claude);
}

#[test]
fn restored_codex_continues() {
    restored_cli_continues(Cli::Codex);
}

#[test]
fn restored_qwen_continues() {
    restored_cli_continues(Cli::Qwen);
}

#[test]
fn restored_opencode_continues() {
    restored_cli_continues(Cli::Opencode);
}

#[test]
fn spawned_claude_sends_messages() {
    spawned_cli_sends_messages(Cli::Claude);
}

#[test]
fn spawned_codex_sends_messages() {
    spawned_cli_sends_messages(Cli::Codex);
}

#[test]
fn spawned_gemini_sends_messages() {
    spawned_cli_sends_messages(Cli::Gemini);
}
