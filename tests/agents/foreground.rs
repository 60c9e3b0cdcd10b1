//! Messages wait while a program other than the CLI reads the terminal.
//!
//! Background processes of the CLI do not count as such a program.

use crate::{
    cli::{Agent, Cli, Workspace},
    peer::{Peer, await_report, await_typed, frame_body},
};
use platform::pty::Size;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::{
    model::{Model, Reply},
    sandbox::Sandbox,
    waiting::until,
};

/// A server of the Model Context Protocol with one tool.
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

impl Cli {
    /// The command that ends the CLI.
    fn exit_command(self) -> &'static str {
        match self {
            Self::Claude | Self::Codex => "/exit",
            Self::Gemini => "/quit",
            _ => self.is_unknown_here(),
        }
    }
}

fn write_script(path: &Path, lines: &str) {
    fs::write(path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(path).status().unwrap().success());
}

/// A wrapped script that runs the CLI and then a shell with the CLI's prompt.
struct Scene<'a> {
    sandbox: &'a Sandbox,
    model: &'a Model,
    bob: Peer,
    agent: Agent,
    marker: PathBuf,
    asked: usize,
}

impl<'a> Scene<'a> {
    fn new(workspace: &Workspace<'_>, sandbox: &'a Sandbox, model: &'a Model) -> Self {
        let folder = workspace.project();
        fs::write(folder.join("rc"), "PS1='❯ '\necho a shell is here\n").unwrap();
        let program = workspace.program().display();
        write_script(&folder.join("start"), &format!("'{program}'\nbash --noprofile --rcfile rc"));
        let bob = Peer::join(sandbox, "Bob");
        let start = folder.join("start");
        let agent = workspace.wrap_command(&[start.as_os_str()], SIZE);
        let marker = folder.join("marker");
        Self { sandbox, model, bob, agent, marker, asked: 0 }
    }

    /// Waits for the model's next requests. Their prompts must be messages with these bodies.
    #[track_caller]
    fn expect_prompts(&mut self, bodies: &[&str]) {
        self.asked += bodies.len();
        let asked = self.agent.with_screen_on_panic(|| self.model.wait_for_requests(self.asked));
        let asked: Vec<&str> = asked[self.asked - bodies.len()..]
            .iter()
            .map(|asked| frame_body(&asked.prompt))
            .collect();
        assert_eq!(asked, bodies);
        self.agent.wait_until_idle();
    }

    /// Checks that a message waits at the shell, and that the shell still runs the user's commands.
    #[track_caller]
    fn check_waiting_at_the_shell(&mut self) -> String {
        let body = format!("touch {}", self.marker.display());
        let id = self.bob.send("Ann", &body);
        await_report(self.sandbox, &self.agent, &id, "waiting", "bash would run the text");
        let word = format!("done{}", self.asked);
        self.enter(&format!("echo ''{word}"));
        self.agent.terminal.wait_for_row(&word);
        self.agent.wait_until_still();
        await_report(self.sandbox, &self.agent, &id, "waiting", "bash would run the text");
        assert!(
            !self.marker.exists(),
            "the shell ran the message:\n{}",
            self.agent.terminal.text()
        );
        body
    }

    /// Types a command line in the shell.
    #[track_caller]
    fn enter(&mut self, line: &str) {
        self.agent.wait_until_still();
        self.agent.terminal.press(&format!("{line}\r"));
    }
}

fn shell_gets_no_messages(cli: Cli) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let mut scene = Scene::new(&workspace, &sandbox, &model);
    scene.agent.wait_until_idle();
    scene.bob.send("Ann", "first");
    scene.expect_prompts(&["first"]);
    scene.agent.enter_command(cli.exit_command());
    scene.agent.terminal.wait_for_row("a shell is here");
    let body = scene.check_waiting_at_the_shell();
    scene.enter(&workspace.program().display().to_string());
    scene.expect_prompts(&[&body]);
    if cli == Cli::Gemini {
        // In Gemini CLI, Ctrl-Z undoes typing and suspends nothing.
        return;
    }
    scene.agent.terminal.press("\x1a");
    scene.agent.terminal.wait_for("Stopped");
    let body = scene.check_waiting_at_the_shell();
    scene.enter("fg");
    scene.expect_prompts(&[&body]);
}

/// An editor that the CLI starts.
struct Editor {
    /// The script's line that starts the editor.
    line: &'static str,
    /// A text shown by the editor.
    shown: &'static str,
    /// The keys that end the editor.
    keys: &'static str,
    /// The reported reason why messages wait while the editor runs.
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
    why: "reads commands",
};

impl Cli {
    /// The key that opens the composer's text in an editor.
    fn editor_key(self) -> &'static str {
        match self {
            Self::Claude | Self::Codex | Self::Gemini => "\x07",
            _ => self.is_unknown_here(),
        }
    }
}

fn editor_gets_no_messages(cli: Cli, editor: &Editor) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let mut workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let script = workspace.project().join("editor");
    write_script(&script, editor.line);
    workspace.set("EDITOR", script.as_os_str());
    let mut agent = workspace.wrap("Ann", SIZE, &[]);
    agent.wait_until_idle();
    bob.send("Ann", "first");
    agent.with_screen_on_panic(|| model.wait_for_requests(1));
    agent.wait_until_idle();
    agent.wait_until_still();
    agent.terminal.press(cli.editor_key());
    agent.terminal.wait_for(editor.shown);
    let id = bob.send("Ann", "second");
    await_report(&sandbox, &agent, &id, "waiting", editor.why);
    agent.wait_until_still();
    await_report(&sandbox, &agent, &id, "waiting", editor.why);
    agent.terminal.press(editor.keys);
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(2));
    assert_eq!(frame_body(&asked[1].prompt), "second");
    let got = fs::read_to_string(workspace.project().join("editor.got")).unwrap_or_default();
    assert_eq!(got, "");
}

#[test]
fn claude_editor_gets_no_messages() {
    editor_gets_no_messages(Cli::Claude, &READER);
}

#[test]
fn claude_vim_gets_no_messages() {
    editor_gets_no_messages(Cli::Claude, &VIM);
}

#[test]
fn codex_editor_gets_no_messages() {
    editor_gets_no_messages(Cli::Codex, &READER);
}

#[test]
fn gemini_editor_gets_no_messages() {
    editor_gets_no_messages(Cli::Gemini, &READER);
}

#[test]
fn shell_after_claude_ends_or_is_suspended_gets_no_messages() {
    shell_gets_no_messages(Cli::Claude);
}

#[test]
fn shell_after_codex_ends_or_is_suspended_gets_no_messages() {
    shell_gets_no_messages(Cli::Codex);
}

#[test]
fn shell_after_gemini_ends_or_is_suspended_gets_no_messages() {
    shell_gets_no_messages(Cli::Gemini);
}

/// The tool call that makes the CLI run a command in the background.
fn background_call(cli: Cli, command: &str) -> (&'static str, Value) {
    match cli {
        Cli::Claude => (
            "Bash",
            json!({"command": command, "description": "Goes on", "run_in_background": true}),
        ),
        Cli::Codex => (
            "exec_command",
            json!({
                "cmd": command, "tty": true, "yield_time_ms": 250,
                "sandbox_permissions": "require_escalated", "justification": "May this run?",
            }),
        ),
        Cli::Gemini => (
            "run_shell_command",
            json!({"command": command, "description": "Goes on", "is_background": true}),
        ),
        _ => cli.is_unknown_here(),
    }
}

impl Workspace<'_> {
    /// Adds an MCP server to the settings, started through a shell.
    fn add_server(&self) {
        let script = self.project().join("server.cjs");
        fs::write(&script, SERVER).unwrap();
        let words = ["-c".to_owned(), format!("node '{}'; exit 0", script.display())];
        let server = json!({"look": {"command": "sh", "args": words}});
        match self.cli {
            Cli::Claude | Cli::Gemini => self.extend_settings(json!({ "mcpServers": server })),
            Cli::Codex => {
                let file = self.user_home().join(".codex/config.toml");
                let settings = fs::read_to_string(&file).unwrap();
                let server = format!("[mcp_servers.look]\ncommand = \"sh\"\nargs = {words:?}\n");
                fs::write(file, settings + &server).unwrap();
            }
            _ => self.cli.is_unknown_here(),
        }
    }
}

/// Checks that running MCP servers and commands in the background are no reason to wait.
fn background_processes_delay_no_message(cli: Cli) {
    let model = Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Begin.", None) => {
            let (tool, input) = background_call(cli, "touch began; cat; sleep 600");
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
    let bob = Peer::join(&sandbox, "Bob");
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    workspace.add_server();
    let mut agent = workspace.wrap("Ann", SIZE, &[]);
    agent.wait_until_idle();
    let exists = |name: &str| workspace.project().join(name).exists();
    agent.with_screen_on_panic(|| until("the server has begun", || exists("server.began")));
    let (question, yes) = cli.permission();
    for (number, (word, file, end)) in
        [("Begin.", "began", "It has begun."), ("Leave.", "left", "It is left.")]
            .into_iter()
            .enumerate()
    {
        agent.wait_until_idle();
        agent.submit(word);
        agent.answer(question, yes);
        agent.terminal.wait_for(end);
        agent.with_screen_on_panic(|| until("the command runs", || exists(file)));
        agent.wait_until_still();
        let id = bob.send("Ann", file);
        let asked = agent.with_screen_on_panic(|| model.wait_for_requests(3 * (number + 1)));
        assert_eq!(frame_body(&asked[3 * number + 2].prompt), file);
        await_typed(&sandbox, &agent, &id);
    }
}

#[test]
fn claude_background_processes_delay_no_message() {
    background_processes_delay_no_message(Cli::Claude);
}

#[test]
fn codex_background_processes_delay_no_message() {
    background_processes_delay_no_message(Cli::Codex);
}

#[test]
fn gemini_background_processes_delay_no_message() {
    background_processes_delay_no_message(Cli::Gemini);
}
