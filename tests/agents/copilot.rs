//! GitHub Copilot CLI, with a model of the person's own and without an account.

use crate::{
    cli::installed,
    model::{Gate, Model, Reply},
    peer::frame_body,
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
    let set: [(&str, &OsStr); 16] = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin".as_ref()),
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
            (Some(0), None) => Reply::new().says("A part first.").calls(
                "task",
                json!({"agent_type": "general-purpose", "description": "a part", "name": "part",
                    "prompt": "A part.", "mode": "sync"}),
            ),
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
