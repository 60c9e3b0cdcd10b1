//! opencode, a CLI without a transcript, read from its screen.

use crate::{
    cli::{Cli, Workspace},
    hooks::{UNTIL_GO, announced_id, delegating_model},
    peer, processes,
    scene::Scene,
};
use serde_json::json;
use std::{fs, path::Path, time::Duration};
use terminal::agents;
use testkit::{
    model::{Asked, Gate, Model, Reply},
    sandbox::Sandbox,
    waiting::{output, until},
};

/// Starts opencode with more options of `run`, and with a configuration in its variable.
fn start<'a>(
    sandbox: &'a Sandbox,
    model: &Model,
    options: &[&str],
    configuration: Option<&str>,
) -> Scene<'a> {
    let mut workspace = Workspace::new(sandbox, Cli::Opencode, model, "ann");
    if let Some(text) = configuration {
        workspace.set("OPENCODE_CONFIG_CONTENT", text.as_ref());
    }
    Scene::new(sandbox, workspace, options, &[])
}

/// The body of a frame. opencode adds a blank to pasted text.
#[track_caller]
fn frame_body(prompt: &str) -> &str {
    peer::frame_body(prompt.trim_end_matches(' '))
}

#[test]
fn opencode_receives_messages() {
    let model = Model::start(|_| Reply::new().says("Noted."));
    let sandbox = Sandbox::new();
    let scene = start(&sandbox, &model, &[], None);
    let long = format!("a long one\n\n{}\n\t- and\n\n!ls\n/exit", "word ".repeat(1000).trim_end());
    let bodies = ["three\nlines\nof it", &*long, "the last"];
    // On a slow machine, opencode is late to show that it is busy: messages sent meanwhile would
    // join the same turn.
    for (count, body) in (1..).zip(bodies) {
        scene.send(body);
        let asked = model.wait_for_requests(count);
        assert_eq!(asked.len(), count, "each message arrives once");
        assert_eq!(frame_body(&asked[count - 1].prompt), body);
        scene.agent.terminal.wait_for("Noted.");
    }
}

#[test]
fn opencode_sends_messages() {
    let lines: String = (1..60).map(|n| format!("line {n} of many\n")).collect();
    let bodies = [
        "yes",
        "A first paragraph, that is longer than a row of this screen, so that it has to be broken somewhere.\n\n\
            A second one:\n\n- one\n- two\n\nThe end.",
        lines.trim_end(),
    ];
    let texts = bodies.map(str::to_owned);
    let model = Model::start(move |asked| {
        let number: Option<usize> =
            asked.prompt.trim().strip_prefix("Tell him ").and_then(|number| number.parse().ok());
        let text = number.map_or_else(
            || "Nothing.".to_owned(),
            |number| format!("I tell him.\n\n->relay:Bob <<<\n{}>>>\n\nDone.", texts[number]),
        );
        Reply::new().says(text).in_pieces_of(20).with_delay(Duration::from_millis(40))
    });
    let sandbox = Sandbox::new();
    let mut scene = start(&sandbox, &model, &[], None);
    for (number, body) in bodies.iter().enumerate() {
        scene.agent.submit(&format!("Tell him {number}"));
        assert_eq!(&scene.receive(), body);
    }
}

/// Checks the variable that marks an agent's commands. Without it, a command of an unwrapped
/// opencode would send in its user's name.
#[test]
fn opencode_marks_commands_of_its_agent() {
    let variable = agents::named("opencode").unwrap().command_variable.expect("a variable");
    let model = Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Run it.", None) => Reply::new().says("I run it.").runs(format!("echo ${variable} >made")),
        _ => Reply::new().says("It has run."),
    });
    let sandbox = Sandbox::new();
    let mut scene = start(&sandbox, &model, &[], None);
    scene.agent.submit("Run it.");
    scene.permit();
    scene.agent.terminal.wait_for("It has run.");
    assert_eq!(fs::read_to_string(scene.file("made")).unwrap(), "1\n");
}

#[test]
fn opencode_messages_wait_for_work_a_dialog_and_half_typed_input() {
    let gate = Gate::default();
    let opened = gate.clone();
    let model = Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Run it.", None) => Reply::new().says("I will run it.").runs("echo ran > made"),
        ("Run it.", Some(_)) => Reply::new().says("Wait.\n\n").waits(&opened).says("It has run."),
        _ => Reply::new().says("Noted."),
    });
    let sandbox = Sandbox::new();
    let mut scene = start(&sandbox, &model, &["--no-hooks"], None);
    scene.agent.submit("Run it.");
    scene.agent.terminal.wait_for("△ Permission required");
    let first = scene.send("1\nyes, do it");
    scene.await_report(&first, "waiting", "asks a question");
    assert!(!scene.file("made").exists(), "the dialog was answered");
    scene.agent.terminal.press("\r");
    scene.agent.terminal.wait_for("Wait.");
    scene.await_report(&first, "waiting", "at work");
    assert_eq!(model.wait_for_requests(2).len(), 2);
    gate.open();
    assert_eq!(frame_body(&model.wait_for_requests(3)[2].prompt), "1\nyes, do it");
    scene.await_report(&first, "injected", "");
    scene.agent.terminal.wait_for("Noted.");
    // The user has typed half a line or entered the shell mode.
    for (number, (keys, why, undo)) in
        [("half a line", "half typed", "\u{7f}".repeat(11)), ("!", "at work", "\u{7f}".to_owned())]
            .into_iter()
            .enumerate()
    {
        scene.agent.terminal.press(keys);
        scene.agent.terminal.wait_for(if keys == "!" { "esc exit shell mode" } else { keys });
        let id = scene.send(keys);
        scene.await_report(&id, "waiting", why);
        assert_eq!(
            model.wait_for_requests(3 + number).len(),
            3 + number,
            "the message was typed too soon"
        );
        scene.agent.terminal.press(&undo);
        assert_eq!(frame_body(&model.wait_for_requests(4 + number)[3 + number].prompt), keys);
        scene.await_report(&id, "injected", "");
    }
}

/// A plugin of the user that creates a file when a tool has ended.
const PLUGIN: &str = r#"import { writeFileSync } from "node:fs"
export const Mark = async ({ directory }) => ({
  "tool.execute.after": async () => writeFileSync(`${directory}/mark`, ""),
})
"#;

/// The agent is notified of a message between two of its tool calls; its subagent is not. The
/// user's own configuration and plugin apply together with the wrapper's.
#[test]
fn opencode_working_agent_is_notified_and_reads() {
    let task = json!({"description": "a part", "prompt": "A part.", "subagent_type": "general"});
    let model = delegating_model(task, env!("CARGO_BIN_EXE_agent-relay"));
    let sandbox = Sandbox::new();
    let plugin = sandbox.directory().join("mark.js");
    fs::write(&plugin, PLUGIN).unwrap();
    let configuration = format!(
        "{{\"permission\": {{\"bash\": \"allow\"}}, // no questions\n\"plugin\": [\"file://{}\"],}}",
        plugin.display()
    );
    let mut scene = start(&sandbox, &model, &[], Some(&configuration));
    scene.agent.submit("Work.");
    until("the command runs", || scene.file("runs").exists());
    let id = scene.send("the walrus sings");
    scene.await_report(&id, "waiting", "at work");
    fs::write(scene.file("go"), "").unwrap();
    let asked = model.wait_for_requests(5);
    assert_eq!(asked[2].result.as_deref(), Some("went\n"));
    let told = asked[3].result.as_deref().unwrap();
    assert!(told.contains("The part is done."), "{told}");
    let read = asked[4].result.as_deref().unwrap();
    assert!(read.contains("] Another agent wrote this, not your user."), "{read}");
    assert!(read.contains("the walrus sings"), "{read}");
    scene.await_report(&id, "confirmed", "");
    assert!(scene.file("mark").exists(), "the user's plugin has not run");
    scene.agent.terminal.wait_for("I have read.");
    scene.send("and this");
    let asked = model.wait_for_requests(6);
    assert_eq!(asked.len(), 6);
    assert_eq!(frame_body(&asked[5].prompt), "and this");
    assert_no_system_text_has("walrus", &asked);
}

#[track_caller]
fn assert_no_system_text_has(text: &str, asked: &[Asked]) {
    let messages = asked.iter().filter_map(|asked| asked.request["messages"].as_array()).flatten();
    for message in messages.filter(|message| message["role"] == "system") {
        assert!(!message.to_string().contains(text), "{message}");
    }
}

/// The half-typed prompt stays in its line. A waiting hook may be killed.
#[test]
fn opencode_is_woken_over_a_draft() {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let mut scene = start(&sandbox, &model, &[], None);
    scene.agent.submit("Hello.");
    scene.agent.terminal.wait_for("Noted.");
    let draft = "┃  a half written prompt";
    scene.agent.terminal.press("a half written prompt");
    scene.agent.terminal.wait_for(draft);
    for (count, body) in (2..).zip(["one", "two"]) {
        let id = scene.send(body);
        let asked = model.wait_for_requests(count);
        assert_eq!(frame_body(&asked[count - 1].prompt), body);
        scene.await_report(&id, "confirmed", "");
        scene.agent.terminal.wait_for(draft);
        assert_no_system_text_has("[relay ", &asked);
        let words = [sandbox.directory().to_str().unwrap(), "hook", "wait"];
        until("a hook waits", || processes::kill(&words) > 0);
    }
    scene.agent.terminal.press("\r");
    let asked = model.wait_for_requests(4);
    assert_eq!(asked[3].prompt.trim_end(), "a half written prompt");
}

/// The agent reads with one relay tool and answers with another. The user's own server is kept.
#[test]
fn opencode_reads_and_sends_by_tools() {
    let model = Model::start(|asked| match (&*asked.prompt, &asked.result) {
        ("Work.", None) => Reply::new().runs(UNTIL_GO),
        ("Work.", Some(result)) if result.contains("accepted ") => Reply::new().says("Done."),
        ("Work.", Some(result)) if result.contains("[relay ") => {
            Reply::new().calls("agent-relay_send", json!({"to": "Bob", "body": "I have it"}))
        }
        ("Work.", Some(_)) => match announced_id(asked) {
            Some(id) => Reply::new().calls("agent-relay_read", json!({ "id": id })),
            None => Reply::new().says("I was told of nothing."),
        },
        _ => Reply::new().says("Noted."),
    });
    let sandbox = Sandbox::new();
    let own = [env!("CARGO_BIN_EXE_agent-relay"), "mcp"];
    let configuration = json!({
        "permission": {"bash": "allow"}, "mcp": {"own": {"type": "local", "command": own}},
    });
    let mut scene = start(&sandbox, &model, &["--mcp"], Some(&configuration.to_string()));
    scene.agent.submit("Work.");
    let asked = scene.read_and_answer_by_tools(&model);
    let tools = asked[0].request["tools"].to_string();
    assert!(tools.contains("\"own_read\""), "{tools}");
}

/// Two tools end at the same time, and their hooks report one after the other.
#[test]
fn late_notice_of_opencode_joins_the_next_tool_result() {
    let sandbox = Sandbox::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut node = sandbox.program(Path::new("node"));
    node.arg(root.join("tests/agents/opencode/late.mjs"));
    node.arg(root.join("crates/terminal/src/agents/opencode/plugin.js"));
    node.arg(sandbox.directory().join("plugin.mjs"));
    let ended = output(node);
    assert!(ended.status.success(), "{ended:?}");
    let results = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(results, "done notice, done\ndone\ndone notice notice\n");
}
