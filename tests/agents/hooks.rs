//! Messages that reach an agent through its CLI's hooks.

use crate::{
    cli::{Agent, Cli, Workspace},
    peer::{Peer, await_report, frame_body},
};
use platform::pty::Size;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::{fs, path::Path};
use terminal::screen::Screen;
use testkit::{
    model::{Asked, Model, Reply, frames::instructions},
    sandbox::Sandbox,
    waiting::{output, until},
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// A command that runs until the project has a file `go`.
pub(crate) const UNTIL_GO: &str = "touch runs; until test -e go; do sleep 0.05; done; echo went";

/// Installs the extension with our hooks like a user of Gemini CLI.
pub(crate) fn link_extension(workspace: &Workspace<'_>) {
    let extension = workspace.project().parent().unwrap().join("extension");
    let extension = extension.to_str().unwrap();
    let mut write = workspace.command(env!("CARGO_BIN_EXE_agent-relay").as_ref());
    write.args(["gemini-extension", extension]);
    let mut link = workspace.command(workspace.program());
    link.args(["extensions", "link", extension, "--consent"]);
    for command in [write, link] {
        let done = output(command);
        assert!(done.status.success(), "{done:?}");
    }
}

/// Starts Ann. Claude Code and Gemini CLI let her run commands without a question.
fn start_ann<'a>(
    sandbox: &'a Sandbox,
    (cli, program): (Cli, &Path),
    model: &Model,
) -> (Workspace<'a>, Agent) {
    let workspace = Workspace::new(sandbox, cli, model, "ann").with_program(program.to_owned());
    let arguments: &[&str] = match cli {
        Cli::Claude => &["--permission-mode=default", "--allowedTools=Bash"],
        Cli::Gemini => {
            link_extension(&workspace);
            &["--allowed-tools=run_shell_command"]
        }
        _ => &[],
    };
    let agent = workspace.wrap_with(&["-n", "Ann"], SIZE, arguments);
    agent.wait_until_idle();
    (workspace, agent)
}

/// Allows a command after Codex asks for permission.
#[track_caller]
pub(crate) fn permit(agent: &mut Agent) {
    if agent.cli == Cli::Codex {
        let (question, yes) = agent.cli.permission();
        agent.answer(question, yes);
    }
}

/// A model that answers "Work." with a command, and then reads the message that it was notified of.
pub(crate) fn reading_model() -> Model {
    Model::start(|asked| match (&*asked.prompt, &asked.result) {
        ("Work.", None) => Reply::new().says("I begin.").runs(UNTIL_GO),
        ("Work.", Some(result)) if result.contains("[relay ") => Reply::new().says("I have read."),
        ("Work.", Some(_)) => match announced_id(asked) {
            Some(id) => {
                Reply::new().runs(format!("{} read {id}", env!("CARGO_BIN_EXE_agent-relay")))
            }
            None => Reply::new().says("I was told of nothing."),
        },
        _ => Reply::new().says("Noted."),
    })
}

/// A model with a subagent that runs a command. Notified of a message with the subagent's result,
/// the model reads it with the program `relay`.
pub(crate) fn delegating_model(task: Value, relay: &'static str) -> Model {
    Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Work.", None) => Reply::new().says("I begin.").calls("task", task.clone()),
        ("Work.", Some(result)) if result.contains("[relay ") => Reply::new().says("I have read."),
        ("Work.", Some(result)) => match result.split_once(" wrote to you (id ") {
            Some((_, rest)) => Reply::new().runs(format!("{relay} read {}", &rest[..8])),
            None => Reply::new().says("I was told of nothing."),
        },
        ("A part.", None) => Reply::new().runs(UNTIL_GO),
        ("A part.", Some(_)) => Reply::new().says("The part is done."),
        _ => Reply::new().says("Noted."),
    })
}

/// Returns the id in the request's notice.
pub(crate) fn announced_id(asked: &Asked) -> Option<String> {
    let request = asked.request.to_string();
    let (_, rest) = request.split_once(" wrote to you (id ")?;
    rest.get(..8).map(str::to_owned)
}

fn working_agent_is_notified_and_reads(cli: Cli, program: &Path) {
    let (model, sandbox) = (reading_model(), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let (workspace, mut agent) = start_ann(&sandbox, (cli, program), &model);
    agent.submit("Work.");
    permit(&mut agent);
    agent.with_screen_on_panic(|| {
        until("the command runs", || workspace.project().join("runs").exists())
    });
    let id = bob.send("Ann", "the walrus sings");
    await_report(&sandbox, &agent, &id, "waiting", "at work");
    fs::write(workspace.project().join("go"), "").unwrap();
    agent.with_screen_on_panic(|| model.wait_for_requests(2));
    permit(&mut agent);
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(3));
    let read = asked[2].result.as_deref().unwrap();
    assert!(read.contains("] Another agent wrote this, not your user."), "{read}");
    assert!(read.contains("the walrus sings"), "{read}");
    await_report(&sandbox, &agent, &id, "confirmed", "");
    agent.wait_until_idle();
    bob.send("Ann", "and this");
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(4));
    assert_eq!(asked.len(), 4);
    assert_eq!(frame_body(&asked[3].prompt), "and this");
    for asked in &asked {
        let instructs =
            instructions(&asked.request).iter().any(|part| part.to_string().contains("walrus"));
        assert!(!instructs, "{}", asked.request);
    }
}

#[test]
fn claude_working_agent_is_notified_and_reads() {
    each_version(Cli::Claude, |program| working_agent_is_notified_and_reads(Cli::Claude, program));
}

#[test]
fn codex_working_agent_is_notified_and_reads() {
    each_version(Cli::Codex, |program| working_agent_is_notified_and_reads(Cli::Codex, program));
}

#[test]
fn gemini_working_agent_is_notified_and_reads() {
    each_version(Cli::Gemini, |program| working_agent_is_notified_and_reads(Cli::Gemini, program));
}

/// Runs a test with each installed version of a CLI.
pub(crate) fn each_version(cli: Cli, test: impl Fn(&Path)) {
    for program in cli.programs() {
        eprintln!("{}", program.display());
        test(&program);
    }
}

#[test]
fn claude_is_woken_over_a_draft() {
    each_version(Cli::Claude, is_woken_over_a_draft);
}

#[test]
fn codex_is_woken_over_a_draft() {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let workspace = Workspace::new(&sandbox, Cli::Codex, &model, "ann");
    let mut agent = workspace.wrap_with(&["-n", "Ann"], SIZE, &[]);
    agent.wait_until_idle();
    // Codex writes down a conversation, and runs hooks, from its first prompt on.
    agent.submit("Hello.");
    agent.with_screen_on_panic(|| model.wait_for_answers(1));
    agent.wait_until_idle();
    let draft = |screen: &Screen| {
        screen.row(screen.cursor().row).text.trim_end().ends_with("› a half written prompt")
    };
    agent.terminal.press("a half written prompt");
    agent.terminal.wait_until_screen("the draft", draft);
    for (count, body) in ["one", "two\nlines"].into_iter().enumerate() {
        let id = bob.send("Ann", body);
        let asked = agent.with_screen_on_panic(|| model.wait_for_requests(count + 2));
        assert_eq!(frame_body(&asked[count + 1].prompt), body);
        await_report(&sandbox, &agent, &id, "confirmed", "");
        agent.terminal.wait_until_screen("the draft", draft);
    }
    agent.wait_until_still();
    agent.terminal.press("\r");
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(4));
    assert_eq!(asked[3].prompt, "a half written prompt");
}

/// The half-typed prompt is on the screen afterwards.
fn is_woken_over_a_draft(program: &Path) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let (_workspace, mut agent) = start_ann(&sandbox, (Cli::Claude, program), &model);
    let draft = |screen: &Screen| {
        let row = screen.row(screen.cursor().row).text;
        row.trim_end().replace("\u{a0}", " ").ends_with(" a half written prompt")
    };
    agent.terminal.press("a half written prompt");
    agent.terminal.wait_until_screen("the draft", draft);
    for (count, body) in ["one", "two"].into_iter().enumerate() {
        let id = bob.send("Ann", body);
        let asked = agent.with_screen_on_panic(|| model.wait_for_requests(count + 1));
        let request = asked[count].request.to_string();
        assert!(request.contains(&format!("not your user.\\n{body}\\n[/relay ")), "{request}");
        await_report(&sandbox, &agent, &id, "confirmed", "");
        agent.terminal.wait_until_screen("the draft", draft);
    }
    agent.terminal.press("\r");
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(3));
    assert_eq!(asked[2].prompt, "a half written prompt");
}

/// The user's settings and hooks, from the user's file and from `--settings`, apply together with
/// ours.
#[test]
fn claude_hooks_of_the_user_run() {
    each_version(Cli::Claude, hooks_of_the_user_run);
}

fn hooks_of_the_user_run(program: &Path) {
    let (model, sandbox) = (reading_model(), Sandbox::new());
    let workspace = Workspace::new(&sandbox, Cli::Claude, &model, "ann");
    let workspace = workspace.with_program(program.to_owned());
    let marks = |name: &str| {
        let command = format!("touch {}", workspace.project().join(name).display());
        json!({"hooks": {"PostToolUse": [{"hooks": [{"type": "command", "command": command}]}]}})
    };
    let file = workspace.user_home().join(".claude/settings.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, marks("of-file").to_string()).unwrap();
    let given = marks("of-argument").to_string();
    let arguments = ["--permission-mode=default", "--allowedTools=Bash", "--settings", &given];
    let mut agent = workspace.wrap_with(&["-n", "Ann"], SIZE, &arguments);
    agent.wait_until_idle();
    fs::write(workspace.project().join("go"), "").unwrap();
    let bob = Peer::join(&sandbox, "Bob");
    agent.submit("Work.");
    agent.with_screen_on_panic(|| model.wait_for_requests(2));
    let made = |name: &str| workspace.project().join(name).exists();
    agent.with_screen_on_panic(|| {
        until("the user's hooks ran", || made("of-file") && made("of-argument"))
    });
    agent.wait_until_idle();
    let id = bob.send("Ann", "hello");
    await_report(&sandbox, &agent, &id, "confirmed", "");
}

/// The user's trusted hooks in Codex's settings and in its arguments run together with ours.
#[test]
fn codex_hooks_of_the_user_run() {
    let (model, sandbox) = (reading_model(), Sandbox::new());
    let workspace = Workspace::new(&sandbox, Cli::Codex, &model, "ann");
    let project = workspace.project();
    let made = |name: &str| project.join(name).exists();
    // The hooks, and the setting that makes Codex trust the first one of `file`.
    let hook = |name: &str, file: &str| {
        let command = format!("touch {}", project.join(name).display());
        let hook = json!({"async": false, "command": command, "timeout": 600, "type": "command"});
        let definition = json!({"event_name": "post_tool_use", "hooks": [hook]}).to_string();
        let hash: String = Sha256::digest(definition).iter().map(|b| format!("{b:02x}")).collect();
        let hooks = format!("[{{hooks = [{{type = \"command\", command = {command:?}}}]}}]");
        let key = format!("{file}:post_tool_use:0:0");
        (hooks, format!("{{{key:?} = {{trusted_hash = \"sha256:{hash}\"}}}}"))
    };
    let file = workspace.user_home().join(".codex/config.toml");
    let settings = fs::read_to_string(&file).unwrap();
    let (hooks, trusted) = hook("of-file", &file.display().to_string());
    let own = format!("\n[hooks]\nPostToolUse = {hooks}\nstate = {trusted}\n");
    fs::write(&file, settings + &own).unwrap();
    let (hooks, trusted) = hook("of-argument", "/<session-flags>/config.toml");
    let hooks = format!("hooks.PostToolUse={hooks}");
    let trusted = format!("hooks.state={trusted}");
    let arguments = ["-c", &hooks, "-c", &trusted];
    let mut agent = workspace.wrap_with(&["-n", "Ann"], SIZE, &arguments);
    agent.wait_until_idle();
    fs::write(project.join("go"), "").unwrap();
    let bob = Peer::join(&sandbox, "Bob");
    agent.submit("Work.");
    permit(&mut agent);
    agent.with_screen_on_panic(|| {
        model.wait_for_requests(2);
        until("the user's hooks ran", || made("of-file") && made("of-argument"));
    });
    agent.wait_until_idle();
    let id = bob.send("Ann", "hello");
    await_report(&sandbox, &agent, &id, "confirmed", "");
    // The transcript may record the turn before the hook reports it.
    until("our hooks report", || {
        let agents = sandbox.run(["agents", "--json"]).stdout;
        String::from_utf8_lossy(&agents).contains("\"activity_source\":\"hooks\"")
    });
}
