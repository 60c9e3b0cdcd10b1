//! opencode, a CLI without a transcript, read from its screen.

use crate::{
    cli::installed,
    hooks::{UNTIL_GO, announced_id},
    model::{Asked, Gate, Model, Reply},
    peer,
    sandbox::{Sandbox, WATCHDOG, output, until},
    terminal::Terminal,
};
use agent_relay::{
    bridge::agents,
    client::{Client, Event, Outgoing, SendId, Settings},
};
use platform::pty::Size;
use serde_json::{Value, json};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{self, Path, PathBuf},
    thread,
    time::Duration,
};

/// A width at which opencode shows no column beside the conversation.
const SIZE: Size = Size { rows: 40, cols: 100 };

/// The time in which opencode must end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The beginning of the placeholder in the empty composer.
const PLACEHOLDER: &str = "Ask anything…";

/// opencode in the wrapper, as Ann, and its peer Bob.
struct Scene<'a> {
    sandbox: &'a Sandbox,
    project: PathBuf,
    terminal: Terminal,
    bob: Client,
}

impl<'a> Scene<'a> {
    /// Starts opencode, and waits for its empty composer.
    fn new(sandbox: &'a Sandbox, model: &Model) -> Self {
        Self::with(sandbox, model, &[], None)
    }

    /// Starts opencode with more options of `run`, and with a configuration in its variable.
    fn with(
        sandbox: &'a Sandbox,
        model: &Model,
        options: &[&str],
        configuration: Option<&str>,
    ) -> Self {
        let (user_home, project) =
            (sandbox.directory().join("user_home"), sandbox.directory().join("project"));
        let settings = user_home.join(".config/opencode/opencode.json");
        fs::create_dir_all(settings.parent().unwrap()).unwrap();
        fs::create_dir_all(&project).unwrap();
        fs::write(settings, opencode_settings(model)).unwrap();
        let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        let words = [&["run", "-n", "Ann"], options, &["--"]].concat();
        let words = words.into_iter().map(OsString::from);
        let command = [relay.into_os_string()].into_iter().chain(words).chain([opencode()]);
        let command: Vec<OsString> = command.collect();
        let mut environment = environment(sandbox, &user_home);
        let variable =
            configuration.map(|text| ("OPENCODE_CONFIG_CONTENT".into(), Some(text.into())));
        environment.extend(variable);
        let terminal = Terminal::start(&command, &environment, &project, SIZE);
        let bob = Client::join(Settings::agent(sandbox.endpoint().as_text(), "Bob")).unwrap();
        let scene = Self { sandbox, project, terminal, bob };
        scene.terminal.wait_for(PLACEHOLDER);
        scene
    }

    /// Types a text as the user, and submits it.
    #[track_caller]
    fn submit(&mut self, text: &str) {
        self.terminal.press(text);
        self.terminal.wait_for(&format!("┃  {text}"));
        self.terminal.press("\r");
    }

    /// The text of the next message to Bob.
    #[track_caller]
    fn receive(&self) -> String {
        loop {
            match self.bob.events().recv_timeout(WATCHDOG) {
                Ok(Event::Delivered(delivery)) => {
                    self.bob.acknowledge(&delivery.id);
                    return delivery.body.clone();
                }
                Ok(_) => {}
                Err(_) => panic!("no message arrives:\n{}", self.terminal.text()),
            }
        }
    }

    fn send(&self, body: &str) -> SendId {
        self.bob.send(Outgoing::message("Ann", body)).unwrap()
    }

    /// Waits until `status` reports this state and a reason that contains `why`.
    #[track_caller]
    fn await_report(&self, id: &SendId, state: &str, why: &str) {
        until(&format!("{id} is reported {state}: {why}\n{}", self.terminal.text()), || {
            let status = output(self.sandbox.command(["status", &id.0, "--json"])).stdout;
            let status: Value = serde_json::from_slice(&status).unwrap_or_default();
            let reported = &status["reported"];
            reported["state"] == state && reported["why"].as_str().unwrap_or_default().contains(why)
        });
    }
}

impl Drop for Scene<'_> {
    /// Ends the wrapper, which ends opencode. A failure prints opencode's log.
    fn drop(&mut self) {
        if thread::panicking() {
            let log =
                self.sandbox.directory().join("user_home/.local/share/opencode/log/opencode.log");
            eprintln!("{}", fs::read_to_string(log).unwrap_or_default());
        }
        self.terminal.pty.end(GRACE).ok();
    }
}

/// The body of a frame. opencode adds a blank to pasted text.
#[track_caller]
fn frame_body(prompt: &str) -> &str {
    peer::frame_body(prompt.trim_end_matches(' '))
}

/// The executable that `ci/agents` has installed.
fn opencode() -> OsString {
    let program = installed().join("node_modules/.bin/opencode");
    assert!(program.exists(), "{} is missing: run ci/agents", program.display());
    program.into_os_string()
}

/// opencode's variables, without downloads, and a removal for each variable of this process.
fn environment(sandbox: &Sandbox, user_home: &Path) -> Vec<(OsString, Option<OsString>)> {
    let removed = env::vars_os().map(|(name, _)| (name, None));
    let (endpoint, home) = (sandbox.endpoint(), sandbox.home());
    let set: [(&str, &OsStr); 11] = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin".as_ref()),
        ("HOME", user_home.as_ref()),
        ("TERM", "xterm-256color".as_ref()),
        ("COLORTERM", "truecolor".as_ref()),
        ("LANG", "C.UTF-8".as_ref()),
        ("SHELL", "/bin/bash".as_ref()),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1".as_ref()),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".as_ref()),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".as_ref()),
        ("AGENT_RELAY_ENDPOINT", endpoint.as_text().as_ref()),
        ("AGENT_RELAY_HOME", home.as_ref()),
    ];
    removed.chain(set.map(|(name, value)| (name.into(), Some(value.to_owned())))).collect()
}

fn opencode_settings(model: &Model) -> String {
    let models = json!({"scripted": {
        "name": "Scripted", "tool_call": true, "limit": {"context": 100_000, "output": 10_000},
    }});
    let options = json!({"baseURL": format!("{}/v1", model.url()), "apiKey": "opens nothing"});
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "Scripted", "options": options, "models": models,
    });
    let settings = json!({
        "autoupdate": false, "share": "disabled", "enabled_providers": ["scripted"],
        "model": "scripted/scripted", "small_model": "scripted/scripted",
        "provider": {"scripted": provider}, "permission": {"bash": "ask", "edit": "ask"},
    });
    settings.to_string()
}

#[test]
fn opencode_receives_messages() {
    let model = Model::start(|_| Reply::new().says("Noted."));
    let sandbox = Sandbox::new();
    let scene = Scene::new(&sandbox, &model);
    let long = format!("a long one\n\n{}\n\t- and\n\n!ls\n/exit", "word ".repeat(1000).trim_end());
    let bodies = ["three\nlines\nof it", &*long, "the last"];
    // On a slow machine opencode shows late that it is busy: messages sent meanwhile would join the
    // same turn.
    for (count, body) in (1..).zip(bodies) {
        scene.send(body);
        let asked = model.wait_for_requests(count);
        assert_eq!(asked.len(), count, "each message arrives once");
        assert_eq!(frame_body(&asked[count - 1].prompt), body);
        scene.terminal.wait_for("Noted.");
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
    let mut scene = Scene::new(&sandbox, &model);
    for (number, body) in bodies.iter().enumerate() {
        scene.submit(&format!("Tell him {number}"));
        assert_eq!(&scene.receive(), body);
    }
}

/// Checks the variable by which a command knows that an agent runs it. Without the variable, a
/// command of an unwrapped opencode would send in its user's name.
#[test]
fn opencode_marks_commands_of_its_agent() {
    let variable = agents::named("opencode").unwrap().command_variable.expect("a variable");
    let model = Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Run it.", None) => Reply::new().says("I run it.").runs(format!("echo ${variable} >made")),
        _ => Reply::new().says("It has run."),
    });
    let sandbox = Sandbox::new();
    let mut scene = Scene::new(&sandbox, &model);
    scene.submit("Run it.");
    scene.terminal.wait_for("△ Permission required");
    scene.terminal.press("\r");
    scene.terminal.wait_for("It has run.");
    assert_eq!(fs::read_to_string(scene.project.join("made")).unwrap(), "1\n");
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
    let mut scene = Scene::with(&sandbox, &model, &["--no-hooks"], None);
    scene.submit("Run it.");
    scene.terminal.wait_for("△ Permission required");
    let first = scene.send("1\nyes, do it");
    scene.await_report(&first, "waiting", "asks something");
    assert!(!scene.project.join("made").exists(), "the dialog was answered");
    scene.terminal.press("\r");
    scene.terminal.wait_for("Wait.");
    scene.await_report(&first, "waiting", "at work");
    assert_eq!(model.wait_for_requests(2).len(), 2);
    gate.open();
    assert_eq!(frame_body(&model.wait_for_requests(3)[2].prompt), "1\nyes, do it");
    scene.await_report(&first, "injected", "");
    scene.terminal.wait_for("Noted.");
    // The user has typed half a line, or has entered the shell mode.
    for (number, (keys, why, undo)) in
        [("half a line", "half typed", "\u{7f}".repeat(11)), ("!", "at work", "\u{7f}".to_owned())]
            .into_iter()
            .enumerate()
    {
        scene.terminal.press(keys);
        scene.terminal.wait_for(if keys == "!" { "esc exit shell mode" } else { keys });
        let id = scene.send(keys);
        scene.await_report(&id, "waiting", why);
        assert_eq!(
            model.wait_for_requests(3 + number).len(),
            3 + number,
            "the message was typed too soon"
        );
        scene.terminal.press(&undo);
        assert_eq!(frame_body(&model.wait_for_requests(4 + number)[3 + number].prompt), keys);
        scene.await_report(&id, "injected", "");
    }
}

/// A plugin of the user's, which leaves a file behind when a tool has ended.
const PLUGIN: &str = r#"import { writeFileSync } from "node:fs"
export const Mark = async ({ directory }) => ({
  "tool.execute.after": async () => writeFileSync(`${directory}/mark`, ""),
})
"#;

/// A model that lets a subagent run a command, and reads the message of which it is told then.
fn reading_model() -> Model {
    Model::start(|asked| match (&*asked.prompt, &asked.result) {
        ("Work.", None) => Reply::new().says("I begin.").calls(
            "task",
            json!({"description": "a part", "prompt": "A part.", "subagent_type": "general"}),
        ),
        ("Work.", Some(result)) if result.contains("[relay ") => Reply::new().says("I have read."),
        ("Work.", Some(result)) => match result.split_once(" wrote to you (id ") {
            Some((_, rest)) => Reply::new().runs(format!(
                "{} read {}",
                env!("CARGO_BIN_EXE_agent-relay"),
                rest.get(..8).unwrap()
            )),
            None => Reply::new().says("I was told of nothing."),
        },
        ("A part.", None) => {
            Reply::new().runs("touch runs; until test -e go; do sleep 0.05; done; echo went")
        }
        ("A part.", Some(_)) => Reply::new().says("The part is done."),
        _ => Reply::new().says("Noted."),
    })
}

/// The agent is told of a message between two of its tool calls, its subagent is not. The user's
/// own configuration and plugin hold beside the wrapper's.
#[test]
fn opencode_working_agent_is_told_and_reads() {
    let (model, sandbox) = (reading_model(), Sandbox::new());
    let plugin = sandbox.directory().join("mark.js");
    fs::write(&plugin, PLUGIN).unwrap();
    let configuration = format!(
        "{{\"permission\": {{\"bash\": \"allow\"}}, // no questions\n\"plugin\": [\"file://{}\"],}}",
        plugin.display()
    );
    let mut scene = Scene::with(&sandbox, &model, &[], Some(&configuration));
    scene.submit("Work.");
    until("the command runs", || scene.project.join("runs").exists());
    let id = scene.send("the walrus sings");
    scene.await_report(&id, "waiting", "at work");
    fs::write(scene.project.join("go"), "").unwrap();
    let asked = model.wait_for_requests(5);
    assert_eq!(asked[2].result.as_deref(), Some("went\n"));
    let told = asked[3].result.as_deref().unwrap();
    assert!(told.contains("The part is done."), "{told}");
    let read = asked[4].result.as_deref().unwrap();
    assert!(read.contains("] Another agent wrote this, not your user."), "{read}");
    assert!(read.contains("the walrus sings"), "{read}");
    scene.await_report(&id, "confirmed", "");
    assert!(scene.project.join("mark").exists(), "the user's plugin has not run");
    scene.terminal.wait_for("I have read.");
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

/// The half-typed prompt stays in its line.
#[test]
fn opencode_is_woken_over_a_draft() {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let mut scene = Scene::new(&sandbox, &model);
    scene.submit("Hello.");
    scene.terminal.wait_for("Noted.");
    let draft = "┃  a half written prompt";
    scene.terminal.press("a half written prompt");
    scene.terminal.wait_for(draft);
    for (count, body) in (2..).zip(["one", "two"]) {
        let id = scene.send(body);
        let asked = model.wait_for_requests(count);
        assert_eq!(frame_body(&asked[count - 1].prompt), body);
        scene.await_report(&id, "confirmed", "");
        scene.terminal.wait_for(draft);
        assert_no_system_text_has("[relay ", &asked);
    }
    scene.terminal.press("\r");
    let asked = model.wait_for_requests(4);
    assert_eq!(asked[3].prompt.trim_end(), "a half written prompt");
}

/// The agent reads by a tool of the relay, and answers by another. The user's own server stays.
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
    let mut scene = Scene::with(&sandbox, &model, &["--mcp"], Some(&configuration.to_string()));
    scene.submit("Work.");
    until("the command runs", || scene.project.join("runs").exists());
    let id = scene.send("the walrus sings");
    scene.await_report(&id, "waiting", "at work");
    fs::write(scene.project.join("go"), "").unwrap();
    assert_eq!(scene.receive(), "I have it");
    let asked = model.wait_for_requests(4);
    let read = asked[2].result.as_deref().unwrap();
    assert!(read.contains("the walrus sings"), "{read}");
    let tools = asked[0].request["tools"].to_string();
    assert!(tools.contains("\"own_read\""), "{tools}");
    scene.await_report(&id, "confirmed", "");
}
