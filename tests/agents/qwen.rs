//! Qwen Code: messages are typed, read from its transcript, and announced by hooks.

use crate::{
    cli::{Cli, Workspace},
    hooks::reading_model,
    mcp,
    peer::{frame_body, relay_line},
    scene::Scene,
};
use serde_json::{Value, json};
use std::fs;
use terminal::agents;
use testkit::{
    model::{Model, Reply},
    sandbox::Sandbox,
    waiting::until,
};

/// Starts Qwen Code with more options of `run` and more members in its user's settings.
fn start<'a>(sandbox: &'a Sandbox, model: &Model, options: &[&str], more: Value) -> Scene<'a> {
    let workspace = Workspace::new(sandbox, Cli::Qwen, model, "ann");
    workspace.extend_settings(more);
    Scene::new(sandbox, workspace, options, &[])
}

#[test]
fn qwen_exchanges_messages() {
    let model = Model::start(|asked| match asked.prompt.contains("yes or no") {
        true => Reply::new().says(relay_line("Bob", "`yes`,\n* of course")),
        false => Reply::new().says("Noted."),
    });
    let sandbox = Sandbox::new();
    let scene = start(&sandbox, &model, &[], json!({}));
    let long = format!("a long one\n\n{}\n\t- and\n\n!ls\n/exit", "word ".repeat(1000).trim_end());
    for (count, body) in (1..).zip(["yes or no?\nsay it", &*long, "look at @file"]) {
        let id = scene.send(body);
        let asked = model.wait_for_requests(count);
        assert_eq!(asked.len(), count, "each message arrives once");
        assert_eq!(frame_body(&asked[count - 1].prompt), body.replace('@', "\\@"));
        scene.await_report(&id, "confirmed", "");
    }
    assert_eq!(scene.receive(), "`yes`,\n* of course");
}

/// The user's own hooks still run, and the rule in docs/AGENTS.md allows the command.
#[test]
fn qwen_working_agent_is_notified_and_reads() {
    let (model, sandbox) = (reading_model(), Sandbox::new());
    let hook = json!({"type": "command", "command": "touch own-hook"});
    let rule = format!("Bash({} read *)", env!("CARGO_BIN_EXE_agent-relay"));
    let settings = json!({
        "hooks": {"PostToolUse": [{ "hooks": [hook] }]},
        "permissions": {"allow": [rule]},
    });
    let mut scene = start(&sandbox, &model, &[], settings);
    scene.agent.submit("Work.");
    scene.permit();
    until("the command runs", || scene.file("runs").exists());
    let id = scene.send("the walrus sings");
    scene.await_report(&id, "waiting", "at work");
    fs::write(scene.file("go"), "").unwrap();
    model.wait_for_requests(2);
    assert!(scene.file("own-hook").exists(), "the user's hook did not run");
    let asked = model.wait_for_requests(3);
    let read = asked[2].result.as_deref().unwrap();
    assert!(read.contains("] Another agent wrote this, not your user."), "{read}");
    assert!(read.contains("the walrus sings"), "{read}");
    scene.await_report(&id, "confirmed", "");
    scene.agent.wait_until_idle();
    scene.send("and this");
    let asked = model.wait_for_requests(4);
    assert_eq!(frame_body(&asked[3].prompt), "and this");
}

/// A dialog, a draft and the shell mode keep a message from being typed.
#[test]
fn qwen_messages_wait_for_a_dialog_and_half_typed_input() {
    let variable = agents::named("qwen").unwrap().command_variable.expect("a variable");
    let model = Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Run it.", None) => Reply::new().says("I will.").runs(format!("echo ${variable} > made")),
        _ => Reply::new().says("Noted."),
    });
    let sandbox = Sandbox::new();
    let mut scene = start(&sandbox, &model, &[], json!({}));
    scene.agent.submit("Run it.");
    scene.agent.terminal.wait_for(Cli::Qwen.permission().0);
    let id = scene.send("1\nyes, do it");
    scene.await_report(&id, "waiting", "asks a question");
    assert!(!scene.file("made").exists(), "the dialog was answered");
    scene.permit();
    assert_eq!(frame_body(&model.wait_for_requests(3)[2].prompt), "1\nyes, do it");
    assert_eq!(fs::read_to_string(scene.file("made")).unwrap(), "1\n");
    let erase = "\u{7f}".repeat(11);
    let drafts = [
        ("half a line", "half a line", "half typed", &*erase),
        ("!", "shell mode enabled", "shell mode", "\u{1b}"),
    ];
    for (count, (keys, shown, why, undo)) in (4..).zip(drafts) {
        scene.agent.wait_until_idle();
        scene.agent.terminal.press(keys);
        scene.agent.terminal.wait_for(shown);
        let id = scene.send(keys);
        scene.await_report(&id, "waiting", why);
        scene.agent.terminal.press(undo);
        assert_eq!(frame_body(&model.wait_for_requests(count)[count - 1].prompt), keys);
    }
}

/// The user's own MCP server is kept.
#[test]
fn qwen_reads_and_sends_by_tools() {
    let (model, sandbox) = (mcp::model(|name| format!("mcp__agent-relay__{name}")), Sandbox::new());
    let own = json!({
        "command": env!("CARGO_BIN_EXE_agent-relay"), "args": ["mcp"],
        "env": {"AGENT_RELAY_AGENT": "Carl"},
    });
    let settings = json!({
        "mcpServers": {"own": own},
        "permissions": {"allow": ["mcp__agent-relay"]},
    });
    let mut scene = start(&sandbox, &model, &["--mcp"], settings);
    scene.agent.submit("Work.");
    scene.permit();
    let asked = scene.read_and_answer_by_tools(&model);
    let request = &asked[0].request;
    let tools = request["tools"].to_string();
    assert!(tools.contains("mcp__agent-relay__read"), "{tools}");
    assert!(request["messages"].to_string().contains("mcp__own__read"), "{request}");
}
