//! GitHub Copilot CLI, with the person's own model and without an account.

use crate::{
    cli::{Cli, Workspace, search_path},
    hooks::delegating_model,
    mcp,
    peer::{frame_body, relay_line},
    scene::Scene,
};
use serde_json::{Value, json};
use std::{fs, path::Path};
use terminal::{agents, brief};
use testkit::{
    model::{Gate, Model, Reply},
    sandbox::Sandbox,
    waiting::until,
};

/// Starts Copilot with more options of `run` and with these arguments. Its agent can run the
/// program `agent-relay` by its name.
fn start<'a>(
    sandbox: &'a Sandbox,
    model: &Model,
    options: &[&str],
    arguments: &[&str],
) -> Scene<'a> {
    let mut workspace = Workspace::new(sandbox, Cli::Copilot, model, "ann");
    let programs = Path::new(env!("CARGO_BIN_EXE_agent-relay")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), search_path().display());
    workspace.set("PATH", path.as_ref());
    Scene::new(sandbox, workspace, options, arguments)
}

/// A message that names a file does not attach it.
#[test]
fn copilot_receives_messages() {
    let model = Model::start(|_| Reply::new().says("Noted."));
    let sandbox = Sandbox::new();
    let scene = start(&sandbox, &model, &[], &[]);
    fs::write(scene.file("file"), "").unwrap();
    let long = format!("a long one\n\n{}\n\t- and\n\n!ls\n/exit", "word ".repeat(1000).trim_end());
    let bodies = [
        ("three\nlines\nof it", "three\nlines\nof it"),
        (&*long, &*long.replace('\t', "    ")),
        ("@file and ./@file, (@./file) end", "@\\file and ./@\\file, (@\\./file) end"),
    ];
    for (count, (body, expected)) in (1..).zip(bodies) {
        scene.send(body);
        let asked = model.wait_for_requests(count);
        assert_eq!(asked.len(), count, "each message arrives once");
        assert_eq!(frame_body(&asked[count - 1].prompt), expected);
        model.wait_for_answers(count);
    }
}

/// A subagent's words are not sent.
#[test]
fn copilot_sends_messages() {
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
            asked.prompt.strip_prefix("Tell him ").and_then(|number| number.parse().ok());
        match (number, &asked.result) {
            (Some(0), None) => Reply::new().says("A part first.").calls("task", task()),
            (Some(number), _) => {
                let text = format!("I tell him.\n\n->relay:Bob <<<\n{}>>>\n\nDone.", texts[number]);
                Reply::new().says(text)
            }
            (None, _) => Reply::new().says("->relay:Bob <<<of a subagent>>>"),
        }
    });
    let sandbox = Sandbox::new();
    let mut scene = start(&sandbox, &model, &[], &[]);
    for (number, body) in bodies.iter().enumerate() {
        scene.submit(&format!("Tell him {number}"));
        assert_eq!(&scene.receive(), body);
        // The task in the first prompt costs two more requests.
        model.wait_for_answers(3 + number);
    }
}

/// Also checks the variable that marks an agent's commands. Without it, a command of an unwrapped
/// Copilot would send in its user's name.
#[test]
fn copilot_messages_wait_for_work_a_dialog_and_half_typed_input() {
    let variable = agents::named("copilot").unwrap().command_variable.expect("a variable");
    let gate = Gate::default();
    let opened = gate.clone();
    let model = Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Run it.", None) => {
            Reply::new().says("I will run it.").runs(format!("echo ${variable} >made"))
        }
        ("Run it.", Some(_)) => Reply::new().says("Wait.\n\n").waits(&opened).says("It has run."),
        _ => Reply::new().says("Noted."),
    });
    let sandbox = Sandbox::new();
    let mut scene = start(&sandbox, &model, &["--no-hooks"], &[]);
    scene.submit("Run it.");
    scene.agent.terminal.wait_for(Cli::Copilot.permission().0);
    let first = scene.send("1\nyes, do it");
    scene.await_report(&first, "waiting", "asks a question");
    assert!(!scene.file("made").exists(), "the dialog was answered");
    scene.agent.terminal.press("1");
    scene.agent.terminal.wait_for("Wait.");
    assert_eq!(fs::read_to_string(scene.file("made")).unwrap(), "1\n");
    scene.await_report(&first, "waiting", "at work");
    assert_eq!(model.wait_for_requests(2).len(), 2);
    gate.open();
    assert_eq!(frame_body(&model.wait_for_requests(3)[2].prompt), "1\nyes, do it");
    scene.await_report(&first, "confirmed", "");
    // The user has typed half a line or entered the shell mode.
    for (number, (keys, shown, why, undo)) in [
        ("half a line", "❯ half a line", "half typed", "\u{7f}".repeat(11)),
        ("!", "! Execute shell command", "shell", "\u{7f}".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        scene.agent.wait_until_idle();
        scene.agent.terminal.press(keys);
        scene.agent.terminal.wait_for(shown);
        let id = scene.send(keys);
        scene.await_report(&id, "waiting", why);
        let count = 3 + number;
        assert_eq!(model.wait_for_requests(count).len(), count, "it was typed too soon");
        scene.agent.terminal.press(&undo);
        assert_eq!(frame_body(&model.wait_for_requests(count + 1)[count].prompt), keys);
        scene.await_report(&id, "confirmed", "");
    }
}

/// The agent is notified of a message between two of its tool calls; its subagent is not. The
/// user's own hooks and plugins still run, and the rule in docs/AGENTS.md allows the command.
#[test]
fn copilot_working_agent_is_notified_and_reads() {
    let model = delegating_model(task(), "agent-relay");
    let sandbox = Sandbox::new();
    let hook = |mark: &str| {
        let mark = sandbox.directory().join("ann/project").join(mark);
        let hook = json!({"type": "command", "bash": format!("touch {}", mark.display())});
        json!({"version": 1, "hooks": {"postToolUse": [hook]}}).to_string()
    };
    let (user_hooks, plugin) =
        (sandbox.directory().join("ann/person/.copilot/hooks"), sandbox.directory().join("plugin"));
    fs::create_dir_all(&user_hooks).unwrap();
    fs::create_dir_all(&plugin).unwrap();
    fs::write(user_hooks.join("mine.json"), hook("of-user")).unwrap();
    fs::write(plugin.join("hooks.json"), hook("of-plugin")).unwrap();
    fs::write(plugin.join("plugin.json"), r#"{"name": "mine", "hooks": "hooks.json"}"#).unwrap();
    let allow = "--allow-tool=shell(agent-relay:*)";
    let arguments = [allow, "--plugin-dir", plugin.to_str().unwrap()];
    let mut scene = start(&sandbox, &model, &[], &arguments);
    scene.submit("Work.");
    scene.permit();
    until("the command runs", || scene.file("runs").exists());
    let id = scene.send("the walrus sings");
    scene.await_report(&id, "waiting", "at work");
    fs::write(scene.file("go"), "").unwrap();
    let asked = model.wait_for_requests(5);
    let result = |at: usize| asked[at].result.as_deref().unwrap();
    assert!(!result(2).contains("wrote to you"), "{}", result(2));
    assert!(result(3).contains("The part is done."), "{}", result(3));
    let read = result(4);
    assert!(read.contains("] Another agent wrote this, not your user."), "{read}");
    assert!(read.contains("the walrus sings"), "{read}");
    scene.await_report(&id, "confirmed", "");
    for mark in ["of-user", "of-plugin"] {
        assert!(scene.file(mark).exists(), "no hook has made {mark}");
    }
    scene.send("and this");
    let asked = model.wait_for_requests(6);
    assert_eq!(asked.len(), 6);
    assert_eq!(frame_body(&asked[5].prompt), "and this");
}

/// Returns how often a request has Ann's brief.
fn briefs(request: &Value) -> usize {
    let text = serde_json::to_string(brief::text(Some("Ann")).trim_end()).unwrap();
    request.to_string().matches(text.trim_matches('"')).count()
}

/// Enters one of Copilot's own commands. After its first key, the composer already shows a whole
/// command.
#[track_caller]
fn enter_command(scene: &mut Scene<'_>, command: &str) {
    scene.agent.wait_until_idle();
    scene.agent.terminal.press(command);
    scene.agent.terminal.wait_for(&format!("❯ {command}"));
    scene.agent.terminal.press("\r");
}

/// A hook delivers the brief with each conversation's first prompt. No hook reports an interrupted
/// turn.
#[test]
fn copilot_gets_the_brief_and_shows_its_activity() {
    let gate = Gate::default();
    let opened = gate.clone();
    let model = Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Run.", None) => Reply::new().runs("touch made"),
        ("Ask.", None) => Reply::new().calls("ask_user", question()),
        ("Think.", None) => Reply::new().says("I think.").waits(&opened).says("I have thought."),
        ("Hello.", None) => Reply::new().says(relay_line("Bob", "hello")).runs("touch made"),
        _ => Reply::new().says("Done."),
    });
    let sandbox = Sandbox::new();
    let mut scene = start(&sandbox, &model, &["--brief"], &[]);
    scene.submit("Run.");
    scene.await_activity("waits-for-permission", "hooks");
    scene.permit();
    scene.await_activity("idle", "hooks");
    scene.submit("Ask.");
    scene.await_activity("asks-person", "hooks");
    scene.agent.terminal.wait_for("enter accept");
    scene.agent.terminal.press("\r");
    scene.await_activity("idle", "hooks");
    scene.submit("Think.");
    scene.await_activity("working", "hooks");
    scene.agent.terminal.wait_for("I think.");
    scene.agent.terminal.press("\x1b");
    scene.agent.terminal.wait_for("esc again to interrupt");
    scene.agent.terminal.press("\x1b");
    scene.await_activity("idle", "screen");
    gate.open();
    enter_command(&mut scene, "/clear");
    scene.agent.terminal.wait_until("an empty screen", |text| !text.contains("I think."));
    scene.submit("Hello.");
    let asked = model.wait_for_requests(6);
    assert_eq!((briefs(&asked[0].request), &*asked[0].prompt), (1, "Run."));
    assert_eq!((briefs(&asked[5].request), &*asked[5].prompt), (1, "Hello."));
    // The words count before the turn ends.
    scene.agent.terminal.wait_for(Cli::Copilot.permission().0);
    assert_eq!(scene.receive(), "hello");
}

#[test]
fn copilot_gets_the_brief_again_after_a_compaction() {
    let model = Model::start(|_| Reply::new().says("Noted."));
    let sandbox = Sandbox::new();
    let mut scene = start(&sandbox, &model, &["--brief"], &[]);
    scene.submit("One.");
    model.wait_for_answers(1);
    enter_command(&mut scene, "/compact");
    model.wait_for_answers(2);
    let id = scene.send("two");
    model.wait_for_answers(3);
    scene.await_report(&id, "confirmed", "");
    scene.submit("Three.");
    let asked = model.wait_for_requests(4);
    let counts: Vec<_> = asked.iter().map(|asked| briefs(&asked.request)).collect();
    // The second request asks for a summary. The summary replaces everything before it.
    assert_eq!(counts, [1, 1, 1, 1]);
    let (message, added) = asked[2].prompt.split_once("\n\n").unwrap();
    assert_eq!((frame_body(message), briefs(&added.into())), ("two", 1));
    assert_eq!(asked[3].prompt, "Three.");
}

/// The user's own MCP server is kept.
#[test]
fn copilot_reads_and_sends_by_tools() {
    let (model, sandbox) = (mcp::model(|name| format!("agent-relay-{name}")), Sandbox::new());
    let own = |name: &str| {
        let server = json!({
            "type": "local", "command": env!("CARGO_BIN_EXE_agent-relay"), "args": ["mcp"],
            "env": {"AGENT_RELAY_AGENT": "Carl"}, "tools": ["*"],
        });
        json!({"mcpServers": {name: server}}).to_string()
    };
    let folder = sandbox.directory().join("ann/person/.copilot");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mcp-config.json"), own("of-file")).unwrap();
    let own = own("of-option");
    let arguments = ["--additional-mcp-config", &own, "--allow-tool", "shell", "agent-relay"];
    let mut scene = start(&sandbox, &model, &["--mcp"], &arguments);
    scene.submit("Work.");
    let asked = scene.read_and_answer_by_tools(&model);
    let tools = asked[0].request["tools"].to_string();
    for server in ["agent-relay", "of-file", "of-option"] {
        assert!(tools.contains(&format!("\"{server}-read\"")), "{server}: {tools}");
    }
}

fn task() -> Value {
    json!({"agent_type": "general-purpose", "description": "a part", "name": "part",
        "prompt": "A part.", "mode": "sync"})
}

fn question() -> Value {
    let colour = json!({"type": "string", "enum": ["red", "blue"]});
    let schema =
        json!({"type": "object", "properties": {"colour": colour}, "required": ["colour"]});
    json!({"message": "Which colour do you like?", "requestedSchema": schema})
}
