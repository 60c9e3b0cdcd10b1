//! Nothing is typed while another program than the CLI reads the terminal, and what the CLI has
//! started for its work is none.

use crate::{
    agent::{Agent, Household, Kind},
    model::{Model, Reply},
    other::{Other, await_report, await_typed, framed},
    sandbox::{Sandbox, until},
};
use platform::pty::Size;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A server of tools by the Model Context Protocol, which offers one.
const SERVER: &str = r#"
const answer = (id, result) => console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
require("node:readline").createInterface({ input: process.stdin }).on("line", line => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") {
    require("node:fs").writeFileSync(__dirname + "/server.began", "");
    answer(id, {
      protocolVersion: params.protocolVersion, capabilities: { tools: {} },
      serverInfo: { name: "look", version: "1" },
    });
  } else if (method === "tools/list") {
    const tool = { name: "look", description: "Looks", inputSchema: { type: "object" } };
    answer(id, { tools: [tool] });
  } else if (id !== undefined) {
    answer(id, {});
  }
});
"#;

const SIZE: Size = Size { rows: 40, cols: 100 };

impl Kind {
    /// Its command that ends it.
    fn exit(self) -> &'static str {
        match self {
            Self::Claude | Self::Codex => "/exit",
            Self::Gemini => "/quit",
        }
    }
}

fn write_script(path: &Path, lines: &str) {
    fs::write(path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(path).status().unwrap().success());
}

/// A wrapped script has started a shell that looks like an agent, from which a person starts one.
struct Scene<'a> {
    sandbox: &'a Sandbox,
    model: &'a Model,
    bob: Other,
    agent: Agent,
    marker: PathBuf,
    asked: usize,
}

impl<'a> Scene<'a> {
    fn new(household: &Household<'_>, sandbox: &'a Sandbox, model: &'a Model) -> Self {
        let folder = household.project();
        fs::write(folder.join("rc"), "PS1='❯ '\necho a shell is here\n").unwrap();
        let program = household.program().display();
        write_script(&folder.join("start"), &format!("'{program}'\nbash --noprofile --rcfile rc"));
        let bob = Other::join(sandbox, "Bob");
        let start = folder.join("start");
        let agent = household.wrap_command(&[start.as_os_str()], SIZE);
        let marker = folder.join("marker");
        Self { sandbox, model, bob, agent, marker, asked: 0 }
    }

    /// A message gets to the model, as what waited before it has.
    #[track_caller]
    fn is_asked(&mut self, bodies: &[&str]) {
        self.asked += bodies.len();
        let asked = self.agent.while_running(|| self.model.asked(self.asked));
        let asked: Vec<&str> =
            asked[self.asked - bodies.len()..].iter().map(|it| framed(&it.prompt)).collect();
        assert_eq!(asked, bodies);
        self.agent.wait_until_idle();
    }

    /// A message that a shell would run waits, and the shell still does what its person says.
    #[track_caller]
    fn waits_at_the_shell(&mut self) -> String {
        let body = format!("touch {}", self.marker.display());
        let id = self.bob.send("Ann", &body);
        await_report(self.sandbox, &self.agent, &id, "waiting", "bash runs what is typed");
        let word = format!("done{}", self.asked);
        self.enter(&format!("echo ''{word}"));
        self.agent.terminal.wait_for_row(&word);
        self.agent.stand_still();
        await_report(self.sandbox, &self.agent, &id, "waiting", "bash runs what is typed");
        assert!(!self.marker.exists(), "it was run:\n{}", self.agent.terminal.text());
        body
    }

    /// A person's command line in the shell.
    #[track_caller]
    fn enter(&mut self, line: &str) {
        self.agent.stand_still();
        self.agent.terminal.press(&format!("{line}\r"));
    }
}

fn leaves_messages_to_no_shell(kind: Kind) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let household = Household::new(&sandbox, kind, &model, "ann");
    let mut scene = Scene::new(&household, &sandbox, &model);
    scene.agent.wait_until_idle();
    scene.bob.send("Ann", "first");
    scene.is_asked(&["first"]);
    scene.agent.enter_command(kind.exit());
    scene.agent.terminal.wait_for_row("a shell is here");
    let waits = scene.waits_at_the_shell();
    scene.enter(&household.program().display().to_string());
    scene.is_asked(&[&waits]);
    if kind == Kind::Gemini {
        // Its Ctrl-Z takes back what was typed.
        return;
    }
    scene.agent.terminal.press("\x1a");
    scene.agent.terminal.wait_for("Stopped");
    let waits = scene.waits_at_the_shell();
    scene.enter("fg");
    scene.is_asked(&[&waits]);
}

/// What the person's editor is, and what ends it.
struct Editor {
    /// A script's line.
    line: &'static str,
    shown: &'static str,
    keys: &'static str,
    /// Why messages wait meanwhile.
    why: &'static str,
}

const READER: Editor = Editor {
    line: "was=$(stty -g); stty sane; printf '\\033[?1049h\\033[Hin the editor\\n'; cat >\"$0.got\"\n\
           stty \"$was\"; printf '\\033[?1049l'",
    shown: "in the editor",
    keys: "\x04",
    why: "is in the terminal's foreground",
};

const VIM: Editor = Editor {
    line: "exec vim.tiny -u NONE -i NONE -n \"$1\"",
    shown: "~\n~",
    keys: ":q!\r",
    why: "takes what is typed for commands",
};

impl Kind {
    /// The key that hands its composer to an editor.
    fn editor_key(self) -> &'static str {
        match self {
            Self::Claude | Self::Codex | Self::Gemini => "\x07",
        }
    }
}

fn leaves_messages_to_no_editor(kind: Kind, editor: &Editor) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let mut household = Household::new(&sandbox, kind, &model, "ann");
    let script = household.project().join("editor");
    write_script(&script, editor.line);
    household.set("EDITOR", script.as_os_str());
    let mut agent = household.wrap("Ann", SIZE, &[]);
    agent.wait_until_idle();
    bob.send("Ann", "first");
    agent.while_running(|| model.asked(1));
    agent.wait_until_idle();
    agent.stand_still();
    agent.terminal.press(kind.editor_key());
    agent.terminal.wait_for(editor.shown);
    let id = bob.send("Ann", "second");
    await_report(&sandbox, &agent, &id, "waiting", editor.why);
    agent.stand_still();
    await_report(&sandbox, &agent, &id, "waiting", editor.why);
    agent.terminal.press(editor.keys);
    let asked = agent.while_running(|| model.asked(2));
    assert_eq!(framed(&asked[1].prompt), "second");
    let got = fs::read_to_string(household.project().join("editor.got")).unwrap_or_default();
    assert_eq!(got, "");
}

#[test]
fn editor_of_claude_gets_no_messages() {
    leaves_messages_to_no_editor(Kind::Claude, &READER);
}

#[test]
fn vim_of_claude_gets_no_messages() {
    leaves_messages_to_no_editor(Kind::Claude, &VIM);
}

#[test]
fn editor_of_codex_gets_no_messages() {
    leaves_messages_to_no_editor(Kind::Codex, &READER);
}

#[test]
fn editor_of_gemini_gets_no_messages() {
    leaves_messages_to_no_editor(Kind::Gemini, &READER);
}

#[test]
fn claude_that_ends_or_is_suspended_leaves_messages_to_no_shell() {
    leaves_messages_to_no_shell(Kind::Claude);
}

#[test]
fn codex_that_ends_or_is_suspended_leaves_messages_to_no_shell() {
    leaves_messages_to_no_shell(Kind::Codex);
}

#[test]
fn gemini_that_ends_or_is_suspended_leaves_messages_to_no_shell() {
    leaves_messages_to_no_shell(Kind::Gemini);
}

/// How it runs a command that goes on behind its back, and what it says to that.
fn background(kind: Kind, command: &str) -> (&'static str, Value) {
    match kind {
        Kind::Claude => (
            "Bash",
            json!({"command": command, "description": "Goes on", "run_in_background": true}),
        ),
        Kind::Codex => (
            "exec_command",
            json!({
                "cmd": command, "tty": true, "yield_time_ms": 250,
                "sandbox_permissions": "require_escalated", "justification": "May this run?",
            }),
        ),
        Kind::Gemini => (
            "run_shell_command",
            json!({"command": command, "description": "Goes on", "is_background": true}),
        ),
    }
}

impl Household<'_> {
    /// It starts a server of tools, by a shell.
    fn add_server(&self) {
        let script = self.project().join("server.cjs");
        fs::write(&script, SERVER).unwrap();
        let words = ["-c".to_owned(), format!("node '{}'; exit 0", script.display())];
        let server = json!({"look": {"command": "sh", "args": words}});
        let change = |file: &str, change: &dyn Fn(&mut Value)| {
            let file = self.person().join(file);
            let mut settings = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            change(&mut settings);
            fs::write(file, settings.to_string()).unwrap();
        };
        match self.kind {
            Kind::Claude => change(".claude.json", &|it| it["mcpServers"] = server.clone()),
            Kind::Gemini => {
                change(".gemini/settings.json", &|it| it["mcpServers"] = server.clone())
            }
            Kind::Codex => {
                let file = self.person().join(".codex/config.toml");
                let settings = fs::read_to_string(&file).unwrap();
                let server = format!("[mcp_servers.look]\ncommand = \"sh\"\nargs = {words:?}\n");
                fs::write(file, settings + &server).unwrap();
            }
        }
    }
}

/// What its tools leave running, and its servers, are no reason to wait.
fn is_not_held_up_by_what_it_has_started(kind: Kind) {
    let model = Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Begin.", None) => {
            let (tool, input) = background(kind, "touch began; cat; sleep 600");
            Reply::new().says("I begin.").calls(tool, input)
        }
        ("Begin.", Some(_)) => Reply::new().says("It has begun."),
        ("Leave.", None) => Reply::new()
            .says("I leave it.")
            .runs("touch left; nohup sleep 600 >out 2>&1 & echo left"),
        ("Leave.", Some(_)) => Reply::new().says("It is left."),
        _ => Reply::new().says("Noted."),
    });
    let sandbox = Sandbox::new();
    let bob = Other::join(&sandbox, "Bob");
    let household = Household::new(&sandbox, kind, &model, "ann");
    household.add_server();
    let mut agent = household.wrap("Ann", SIZE, &[]);
    agent.wait_until_idle();
    let is_there = |name: &str| household.project().join(name).exists();
    agent.while_running(|| until("the server has begun", || is_there("server.began")));
    let (question, yes) = kind.permission();
    for (number, (word, file, end)) in
        [("Begin.", "began", "It has begun."), ("Leave.", "left", "It is left.")]
            .into_iter()
            .enumerate()
    {
        agent.wait_until_idle();
        agent.submit(word);
        agent.answer(question, yes);
        agent.terminal.wait_for(end);
        agent.while_running(|| until("the command runs", || is_there(file)));
        agent.stand_still();
        let id = bob.send("Ann", file);
        let asked = agent.while_running(|| model.asked(3 * (number + 1)));
        assert_eq!(framed(&asked[3 * number + 2].prompt), file);
        await_typed(&sandbox, &agent, &id);
    }
}

#[test]
fn claude_is_not_held_up_by_what_it_has_started() {
    is_not_held_up_by_what_it_has_started(Kind::Claude);
}

#[test]
fn codex_is_not_held_up_by_what_it_has_started() {
    is_not_held_up_by_what_it_has_started(Kind::Codex);
}

#[test]
fn gemini_is_not_held_up_by_what_it_has_started() {
    is_not_held_up_by_what_it_has_started(Kind::Gemini);
}
