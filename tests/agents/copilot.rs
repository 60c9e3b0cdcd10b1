//! GitHub Copilot CLI, with a model of the person's own and without an account.

use crate::{
    cli::installed,
    hooks::UNTIL_GO,
    mcp,
    model::{Gate, Model, Reply},
    peer::{frame_body, relay_line},
    sandbox::{Sandbox, WATCHDOG, output, until},
    terminal::Terminal,
};
use agent_relay::{
    bridge::{agents, brief},
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

const SIZE: Size = Size { rows: 40, cols: 100 };

/// The time in which Copilot must end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// A part of the row below the empty composer of an idle agent.
const IDLE: &str = "/ commands · ? help";

/// A part of a question whether a command may run.
const PERMISSION: &str = "Do you want to run this command?";

/// Copilot in the wrapper, as Ann, and its peer Bob.
struct Scene<'a> {
    sandbox: &'a Sandbox,
    project: PathBuf,
    terminal: Terminal,
    bob: Client,
}

impl<'a> Scene<'a> {
    /// Starts Copilot with these options of `run` and these arguments, and waits for its empty
    /// composer.
    fn new(sandbox: &'a Sandbox, model: &Model, options: &[&str], arguments: &[&str]) -> Self {
        let (user_home, project) =
            (sandbox.directory().join("user_home"), sandbox.directory().join("project"));
        fs::create_dir_all(user_home.join(".copilot")).unwrap();
        fs::create_dir_all(&project).unwrap();
        let settings = json!({"trustedFolders": [&project]});
        fs::write(user_home.join(".copilot/config.json"), settings.to_string()).unwrap();
        let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        let words = [&["run", "-n", "Ann"], options, &["--"]].concat();
        let words = words.into_iter().map(OsString::from);
        let command = [relay.into_os_string()].into_iter().chain(words).chain([copilot()]);
        let command: Vec<_> = command.chain(arguments.iter().map(OsString::from)).collect();
        let environment = environment(sandbox, model, &user_home);
        let terminal = Terminal::start(&command, &environment, &project, SIZE);
        let bob = Client::join(Settings::agent(sandbox.endpoint().as_text(), "Bob")).unwrap();
        let scene = Self { sandbox, project, terminal, bob };
        scene.terminal.wait_for(IDLE);
        scene
    }

    /// Types a text as the user, and submits it.
    #[track_caller]
    fn submit(&mut self, text: &str) {
        self.terminal.wait_for(IDLE);
        self.terminal.press(text);
        self.terminal.wait_for(&format!("❯ {text}"));
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

    /// Waits until `agents` shows this activity from this source.
    #[track_caller]
    fn await_activity(&self, activity: &str, source: &str) {
        until(&format!("{activity} by {source}"), || {
            let listed = output(self.sandbox.command(["agents", "--json"])).stdout;
            let rows = String::from_utf8(listed).unwrap();
            let mut rows = rows.lines().filter_map(|row| serde_json::from_str::<Value>(row).ok());
            let row = rows.find(|row| row["name"] == "Ann").unwrap_or_default();
            row["activity"] == activity && row["activity_source"] == source
        });
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
    /// Ends the wrapper, which ends Copilot.
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.terminal.text());
        }
        self.terminal.pty.end(GRACE).ok();
    }
}

fn copilot() -> OsString {
    let program = installed().join("node_modules/.bin/copilot");
    assert!(program.exists(), "{} is missing: run ci/agents", program.display());
    program.into_os_string()
}

/// Copilot's variables, without a network and with the folder into which it has unpacked itself,
/// and a removal for each variable of this process.
fn environment(
    sandbox: &Sandbox,
    model: &Model,
    user_home: &Path,
) -> Vec<(OsString, Option<OsString>)> {
    let removed = env::vars_os().map(|(name, _)| (name, None));
    let (endpoint, home, cache) = (sandbox.endpoint(), sandbox.home(), installed().join("cache"));
    let url = format!("{}/v1", model.url());
    let programs = Path::new(env!("CARGO_BIN_EXE_agent-relay")).parent().unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
    let set: [(&str, &OsStr); 16] = [
        ("PATH", path.as_ref()),
        ("HOME", user_home.as_ref()),
        ("XDG_CACHE_HOME", cache.as_ref()),
        ("TERM", "xterm-256color".as_ref()),
        ("COLORTERM", "truecolor".as_ref()),
        ("LANG", "C.UTF-8".as_ref()),
        ("SHELL", "/bin/bash".as_ref()),
        ("COPILOT_AUTO_UPDATE", "false".as_ref()),
        ("COPILOT_OFFLINE", "true".as_ref()),
        ("COPILOT_PROVIDER_BASE_URL", url.as_ref()),
        ("COPILOT_PROVIDER_API_KEY", "opens nothing".as_ref()),
        ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "100000".as_ref()),
        ("COPILOT_PROVIDER_MAX_OUTPUT_TOKENS", "10000".as_ref()),
        ("COPILOT_MODEL", "scripted".as_ref()),
        ("AGENT_RELAY_ENDPOINT", endpoint.as_text().as_ref()),
        ("AGENT_RELAY_HOME", home.as_ref()),
    ];
    removed.chain(set.map(|(name, value)| (name.into(), Some(value.to_owned())))).collect()
}

/// A message that names a file does not attach it.
#[test]
fn copilot_receives_messages() {
    let model = Model::start(|_| Reply::new().says("Noted."));
    let sandbox = Sandbox::new();
    let scene = Scene::new(&sandbox, &model, &[], &[]);
    fs::write(scene.project.join("file"), "").unwrap();
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
    let mut scene = Scene::new(&sandbox, &model, &[], &[]);
    for (number, body) in bodies.iter().enumerate() {
        scene.submit(&format!("Tell him {number}"));
        assert_eq!(&scene.receive(), body);
        // The task of the first prompt costs two requests more.
        model.wait_for_answers(3 + number);
    }
}

/// Checks also the variable by which a command knows that an agent runs it. Without the variable, a
/// command of an unwrapped Copilot would send in its user's name.
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
    let mut scene = Scene::new(&sandbox, &model, &["--no-hooks"], &[]);
    scene.submit("Run it.");
    scene.terminal.wait_for(PERMISSION);
    let first = scene.send("1\nyes, do it");
    scene.await_report(&first, "waiting", "asks something");
    assert!(!scene.project.join("made").exists(), "the dialog was answered");
    scene.terminal.press("1");
    scene.terminal.wait_for("Wait.");
    assert_eq!(fs::read_to_string(scene.project.join("made")).unwrap(), "1\n");
    scene.await_report(&first, "waiting", "at work");
    assert_eq!(model.wait_for_requests(2).len(), 2);
    gate.open();
    assert_eq!(frame_body(&model.wait_for_requests(3)[2].prompt), "1\nyes, do it");
    scene.await_report(&first, "confirmed", "");
    // The user has typed half a line, or has entered the shell mode.
    for (number, (keys, shown, why, undo)) in [
        ("half a line", "❯ half a line", "half typed", "\u{7f}".repeat(11)),
        ("!", "! Execute shell command", "shell", "\u{7f}".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        scene.terminal.wait_for(IDLE);
        scene.terminal.press(keys);
        scene.terminal.wait_for(shown);
        let id = scene.send(keys);
        scene.await_report(&id, "waiting", why);
        let count = 3 + number;
        assert_eq!(model.wait_for_requests(count).len(), count, "it was typed too soon");
        scene.terminal.press(&undo);
        assert_eq!(frame_body(&model.wait_for_requests(count + 1)[count].prompt), keys);
        scene.await_report(&id, "confirmed", "");
    }
}

/// A model that lets a subagent run a command, and reads the message of which it is told then.
fn reading_model() -> Model {
    Model::start(|asked| match (&*asked.prompt, &asked.result) {
        ("Work.", None) => Reply::new().says("I begin.").calls("task", task()),
        ("Work.", Some(result)) if result.contains("[relay ") => Reply::new().says("I have read."),
        ("Work.", Some(result)) => match result.split_once(" wrote to you (id ") {
            Some((_, rest)) => {
                Reply::new().runs(format!("agent-relay read {}", rest.get(..8).unwrap()))
            }
            None => Reply::new().says("I was told of nothing."),
        },
        ("A part.", None) => Reply::new().runs(UNTIL_GO),
        ("A part.", Some(_)) => Reply::new().says("The part is done."),
        _ => Reply::new().says("Noted."),
    })
}

/// The agent is told of a message between two of its tool calls, its subagent is not. The user's
/// own hooks and plugins run beside the wrapper's, and the rule of the documents allows the command.
#[test]
fn copilot_working_agent_is_told_and_reads() {
    let (model, sandbox) = (reading_model(), Sandbox::new());
    let hook = |mark: &str| {
        let mark = sandbox.directory().join("project").join(mark);
        let hook = json!({"type": "command", "bash": format!("touch {}", mark.display())});
        json!({"version": 1, "hooks": {"postToolUse": [hook]}}).to_string()
    };
    let (user_hooks, plugin) =
        (sandbox.directory().join("user_home/.copilot/hooks"), sandbox.directory().join("plugin"));
    fs::create_dir_all(&user_hooks).unwrap();
    fs::create_dir_all(&plugin).unwrap();
    fs::write(user_hooks.join("mine.json"), hook("of-user")).unwrap();
    fs::write(plugin.join("hooks.json"), hook("of-plugin")).unwrap();
    fs::write(plugin.join("plugin.json"), r#"{"name": "mine", "hooks": "hooks.json"}"#).unwrap();
    let allow = "--allow-tool=shell(agent-relay:*)";
    let arguments = [allow, "--plugin-dir", plugin.to_str().unwrap()];
    let mut scene = Scene::new(&sandbox, &model, &[], &arguments);
    scene.submit("Work.");
    scene.terminal.wait_for(PERMISSION);
    scene.terminal.press("1");
    until("the command runs", || scene.project.join("runs").exists());
    let id = scene.send("the walrus sings");
    scene.await_report(&id, "waiting", "at work");
    fs::write(scene.project.join("go"), "").unwrap();
    let asked = model.wait_for_requests(5);
    let result = |at: usize| asked[at].result.as_deref().unwrap();
    assert!(!result(2).contains("wrote to you"), "{}", result(2));
    assert!(result(3).contains("The part is done."), "{}", result(3));
    let read = result(4);
    assert!(read.contains("] Another agent wrote this, not your user."), "{read}");
    assert!(read.contains("the walrus sings"), "{read}");
    scene.await_report(&id, "confirmed", "");
    for mark in ["of-user", "of-plugin"] {
        assert!(scene.project.join(mark).exists(), "no hook has made {mark}");
    }
    scene.send("and this");
    let asked = model.wait_for_requests(6);
    assert_eq!(asked.len(), 6);
    assert_eq!(frame_body(&asked[5].prompt), "and this");
}

/// The brief comes by a hook with the first prompt of each conversation. An interrupted turn is
/// reported by no hook.
#[test]
fn copilot_gets_the_brief_and_shows_what_it_does() {
    let text = serde_json::to_string(brief::text(Some("Ann")).trim_end()).unwrap();
    let briefs = move |request: &Value| request.to_string().matches(text.trim_matches('"')).count();
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
    let mut scene = Scene::new(&sandbox, &model, &["--brief"], &[]);
    scene.submit("Run.");
    scene.await_activity("waits-for-permission", "hooks");
    scene.terminal.wait_for(PERMISSION);
    scene.terminal.press("1");
    scene.await_activity("idle", "hooks");
    scene.submit("Ask.");
    scene.await_activity("asks-person", "hooks");
    scene.terminal.wait_for("enter accept");
    scene.terminal.press("\r");
    scene.await_activity("idle", "hooks");
    scene.submit("Think.");
    scene.await_activity("working", "hooks");
    scene.terminal.wait_for("I think.");
    scene.terminal.press("\x1b");
    scene.terminal.wait_for("esc again to interrupt");
    scene.terminal.press("\x1b");
    scene.await_activity("idle", "screen");
    gate.open();
    scene.submit("/clear");
    scene.terminal.wait_until("an empty screen", |text| !text.contains("I think."));
    scene.submit("Hello.");
    let asked = model.wait_for_requests(6);
    assert_eq!((briefs(&asked[0].request), &*asked[0].prompt), (1, "Run."));
    assert_eq!((briefs(&asked[5].request), &*asked[5].prompt), (1, "Hello."));
    // The words count before the turn ends.
    scene.terminal.wait_for(PERMISSION);
    assert_eq!(scene.receive(), "hello");
}

/// The user's own server stays beside the wrapper's.
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
    let folder = sandbox.directory().join("user_home/.copilot");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mcp-config.json"), own("of-file")).unwrap();
    let own = own("of-option");
    let arguments = ["--additional-mcp-config", &own, "--allow-tool", "shell", "agent-relay"];
    let mut scene = Scene::new(&sandbox, &model, &["--mcp"], &arguments);
    scene.submit("Work.");
    until("the command runs", || scene.project.join("runs").exists());
    let id = scene.send("the walrus sings");
    scene.await_report(&id, "waiting", "at work");
    fs::write(scene.project.join("go"), "").unwrap();
    assert_eq!(scene.receive(), "I have it");
    let asked = model.wait_for_requests(4);
    let read = asked[2].result.as_deref().unwrap();
    assert!(read.contains("the walrus sings"), "{read}");
    scene.await_report(&id, "confirmed", "");
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
