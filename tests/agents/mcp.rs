//! The MCP server, with the official clients and with agent CLIs.

use crate::{
    cli::{Agent, Cli, Workspace, installed},
    hooks::{UNTIL_GO, announced_id, each_version, permit},
    peer::{Peer, await_report},
};
use client::{Client, Event};
use platform::pty::Size;
use serde_json::{json, value::to_raw_value};
use std::{fs, path::Path, process::Command, thread};
use testkit::{
    model::{Asked, Model, Reply},
    sandbox::Sandbox,
    waiting::{output, until},
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// Runs a program with its own words followed by a server's command line, while Bob answers each
/// question. Returns its lines of output.
#[track_caller]
fn run_client(program: &Path, words: &[&Path]) -> Vec<String> {
    let sandbox = Sandbox::new();
    let Peer(bob) = Peer::join(&sandbox, "Bob");
    // The thread ends with the sandbox's daemon.
    thread::spawn(move || answer_all(&bob));
    let mut client: Command = sandbox.program(program);
    client.args(words).arg(env!("CARGO_BIN_EXE_agent-relay"));
    client.arg("--endpoint").arg(sandbox.endpoint().as_text());
    client.arg("--home").arg(sandbox.home()).args(["mcp", "--as", "Ann"]);
    let ended = output(client);
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn answer_all(bob: &Client) {
    while let Ok(event) = bob.events().recv() {
        if let Event::Delivered(delivery) = event {
            let data = to_raw_value(&json!({"body": "yes"})).unwrap();
            if bob.answer(&delivery, true, Some(&data)).is_err() {
                return;
            }
        }
    }
}

#[test]
fn python_client_uses_the_tools() {
    let python = installed().join("python/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/mcp/client.py");
    let used = run_client(&python, &[&script]);
    assert_eq!(used, ["legacy 2025-11-25", "auto 2026-07-28", "2026-07-28 2026-07-28"]);
}

#[test]
fn typescript_clients_use_the_tools() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/mcp/client.mjs");
    let used = run_client(Path::new("node"), &[&script, &installed()]);
    assert_eq!(used, ["legacy", "auto", "before"]);
}

/// The model's name for a tool of the server.
fn tool(cli: Cli, name: &str) -> String {
    match cli {
        Cli::Claude => format!("mcp__agent-relay__{name}"),
        _ => name.to_owned(),
    }
}

/// A model that answers "Work." with a command. Notified of a message, it reads it with one tool
/// and answers with another. `tool` returns the model's name for a tool of the server.
pub(crate) fn model(tool: impl Fn(&str) -> String + Send + 'static) -> Model {
    Model::start(move |asked: &Asked| match (&*asked.prompt, &asked.result) {
        ("Work.", None) => Reply::new().runs(UNTIL_GO),
        ("Work.", Some(result)) if result.contains("accepted ") => Reply::new().says("Done."),
        ("Work.", Some(result)) if result.contains("[relay ") => {
            let input = json!({"to": "Bob", "body": "I have it"});
            Reply::new().calls(tool("send"), input)
        }
        ("Work.", Some(_)) => match announced_id(asked) {
            Some(id) => Reply::new().calls(tool("read"), json!({ "id": id })),
            None => Reply::new().says("I was told of nothing."),
        },
        _ => Reply::new().says("Noted."),
    })
}

fn start_ann<'a>(
    sandbox: &'a Sandbox,
    (cli, program): (Cli, &Path),
    model: &Model,
) -> (Workspace<'a>, Agent) {
    let workspace = Workspace::new(sandbox, cli, model, "ann").with_program(program.to_owned());
    let arguments: &[&str] = if cli == Cli::Claude {
        &["--permission-mode=default", "--allowedTools=Bash,mcp__agent-relay"]
    } else {
        &[]
    };
    let agent = workspace.wrap_with(&["-n", "Ann", "--mcp"], SIZE, arguments);
    agent.wait_until_idle();
    (workspace, agent)
}

fn agent_reads_and_sends_by_tools(cli: Cli, program: &Path) {
    let (model, sandbox) = (model(move |name| tool(cli, name)), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let (workspace, mut agent) = start_ann(&sandbox, (cli, program), &model);
    agent.submit("Work.");
    permit(&mut agent);
    agent.with_screen_on_panic(|| {
        until("the command runs", || workspace.project().join("runs").exists());
    });
    let id = bob.send("Ann", "the walrus sings");
    await_report(&sandbox, &agent, &id, "waiting", "at work");
    fs::write(workspace.project().join("go"), "").unwrap();
    assert_eq!(bob.receive_text(&agent), "I have it");
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(4));
    let read = asked[2].result.as_deref().unwrap();
    assert!(read.contains("the walrus sings"), "{read}");
    await_report(&sandbox, &agent, &id, "confirmed", "");
    agent.wait_until_idle();
}

#[test]
fn claude_reads_and_sends_by_tools() {
    each_version(Cli::Claude, |program| agent_reads_and_sends_by_tools(Cli::Claude, program));
}

#[test]
fn codex_reads_and_sends_by_tools() {
    each_version(Cli::Codex, |program| agent_reads_and_sends_by_tools(Cli::Codex, program));
}
