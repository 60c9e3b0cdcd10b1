//! Dialogs of the CLIs: questions before a tool is used, questions of the model, and pickers that a
//! command of the CLI opens.
//!
//! A message waits until the person has closed the dialog. Its words look like a dialog's. If
//! `AGENT_RELAY_SCREENS` names a folder, the screens are written there as snapshots, without paths
//! of this machine.

use crate::{
    cli::{Agent, Cli},
    peer::{Peer, await_report, await_typed, start_ann},
};
use serde_json::{Value, json};
use std::{env, fmt::Write as _, fs, path::Path};
use terminal::screen::Screen;
use testkit::{
    foreign_words::BODIES,
    model::{Model, Reply},
    sandbox::Sandbox,
};

const COLUMNS: u16 = 100;

/// The cause of a dialog.
#[derive(Clone)]
enum Opener {
    /// The model calls this tool.
    Tool(&'static str, Value),
    /// The person enters this command.
    Command(&'static str),
}

/// A dialog of a CLI.
struct Dialog {
    name: &'static str,
    opener: Opener,
    /// Words that are on the screen only while the dialog is open.
    sign: &'static str,
}

fn tool(name: &'static str, tool: &'static str, input: Value, sign: &'static str) -> Dialog {
    Dialog { name, opener: Opener::Tool(tool, input), sign }
}

fn command(name: &'static str, command: &'static str, sign: &'static str) -> Dialog {
    Dialog { name, opener: Opener::Command(command), sign }
}

/// Opens each dialog, checks that a message waits until the dialog ends, and closes it. `dialogs`
/// gets the project's folder.
fn messages_wait_for(cli: Cli, dialogs: impl FnOnce(&str) -> Vec<Dialog>) {
    let sandbox = Sandbox::new();
    let dialogs = dialogs(sandbox.directory().join("ann/project").to_str().unwrap());
    let openers: Vec<_> =
        dialogs.iter().map(|dialog| (prompt(dialog), dialog.opener.clone())).collect();
    let model = Model::start(move |asked| {
        match (openers.iter().find(|(prompt, _)| *prompt == asked.prompt), &asked.result) {
            (Some((_, Opener::Tool(tool, input))), None) => {
                Reply::new().calls(*tool, input.clone())
            }
            _ => Reply::new().says("Noted."),
        }
    });
    let bob = Peer::join(&sandbox, "Bob");
    let (_workspace, mut agent) = start_ann(&sandbox, cli, &model, COLUMNS);
    // Codex opens no picker before its first request to the model.
    agent.submit("Begin.");
    model.wait_for_requests(1);
    for (dialog, body) in dialogs.iter().zip(BODIES.iter().cycle()) {
        agent.wait_until_idle();
        match &dialog.opener {
            // These two CLIs paint text of their own after a typed command.
            Opener::Command(command) if matches!(cli, Cli::Qwen | Cli::Copilot) => {
                agent.submit(command);
            }
            Opener::Command(command) => agent.enter_command(command),
            Opener::Tool(..) => agent.submit(&prompt(dialog)),
        }
        agent.terminal.wait_for(dialog.sign);
        let asked = model.wait_for_requests(0).len();
        let id = bob.send("Ann", body);
        await_report(&sandbox, &agent, &id, "waiting", "asks a question");
        agent.wait_until_still();
        agent.terminal.wait_for(dialog.sign);
        assert_eq!(model.wait_for_requests(0).len(), asked, "{} was answered", dialog.name);
        save_screen(&agent, dialog.name, &sandbox);
        agent.terminal.press("\x1b");
        await_typed(&sandbox, &agent, &id);
    }
}

fn prompt(dialog: &Dialog) -> String {
    format!("Show {}.", dialog.name)
}

/// Writes the screen into the folder for snapshots, if there is one.
fn save_screen(agent: &Agent, name: &str, sandbox: &Sandbox) {
    let Some(folder) = env::var_os("AGENT_RELAY_SCREENS") else { return };
    let path = sandbox.directory().to_str().unwrap();
    let home: String = "/home/ann".chars().chain(std::iter::repeat('n')).take(path.len()).collect();
    let snapshot = agent.terminal.look(snapshot).replace(path, &home);
    let file = format!("{}-dialog-{name}.txt", agent.cli.name());
    fs::write(Path::new(&folder).join(file), snapshot).unwrap();
}

/// Returns the screen as the tests of recipes read it.
fn snapshot(screen: &Screen) -> String {
    let ((columns, rows), cursor) = (screen.size(), screen.cursor());
    let mut snapshot = format!(
        "size {columns}x{rows} cursor row {} column {} visible {} alternate {} \
         bracketed_paste true\n",
        cursor.row,
        cursor.column,
        cursor.visible,
        screen.alternate()
    );
    for number in 0..rows {
        let (text, mark) = (screen.row(number).text, if number == cursor.row { '>' } else { ' ' });
        if !text.trim().is_empty() || number == cursor.row {
            writeln!(snapshot, "{number:3}{mark}|{}", text.trim_end()).unwrap();
        }
    }
    snapshot
}

/// A question of the model with two answers.
fn question() -> Value {
    let option = |label: &str| json!({"label": label, "description": "A colour."});
    json!({"questions": [{
        "question": "Which colours do you like?", "header": "Colour", "multiSelect": true,
        "options": [option("Red"), option("Blue")],
    }]})
}

#[test]
fn claude_gets_no_key_at_a_dialog() {
    messages_wait_for(Cli::Claude, |_| {
        let write = json!({"file_path": "made", "content": "hello\n"});
        let fetch = json!({"url": "http://example.test/page", "prompt": "What does it say?"});
        vec![
            tool("write", "Write", write, "Do you want to create"),
            tool("fetch", "WebFetch", fetch, "Do you want to allow"),
            tool("choices", "AskUserQuestion", question(), "Which colours"),
            command("model", "/model", "Select model"),
            command("theme", "/theme", "Choose the text style"),
            command("resume", "/resume", "Resume session"),
        ]
    });
}

#[test]
fn codex_gets_no_key_at_a_dialog() {
    messages_wait_for(Cli::Codex, |_| {
        vec![
            command("permissions", "/permissions", "Update Model Permissions"),
            command("model", "/model", "Select Model"),
            command("theme", "/theme", "Select Syntax Theme"),
            command("experimental", "/experimental", "Experimental features"),
            command("resume", "/resume", "Resume a previous"),
        ]
    });
}

#[test]
fn gemini_gets_no_key_at_a_dialog() {
    messages_wait_for(Cli::Gemini, |_| {
        let write = json!({"file_path": "made", "content": "hello\n"});
        let fetch = json!({"prompt": "Summarize http://example.test/page"});
        vec![
            tool("write", "write_file", write, "Apply this change?"),
            tool("fetch", "web_fetch", fetch, "Do you want to proceed?"),
            command("model", "/model", "Press Esc to close"),
            command("theme", "/theme", "Select Theme"),
            command("settings", "/settings", "Apply To"),
        ]
    });
}

#[test]
fn qwen_gets_no_key_at_a_dialog() {
    messages_wait_for(Cli::Qwen, |project| {
        let write = json!({"file_path": format!("{project}/made"), "content": "hello\n"});
        let fetch = json!({"url": "http://example.test/page", "prompt": "What does it say?"});
        vec![
            tool("write", "write_file", write, "Apply this change?"),
            tool("fetch", "web_fetch", fetch, "Do you want to proceed?"),
            tool("question", "ask_user_question", question(), "Which colours"),
            command("theme", "/theme", "Select Theme"),
            command("approval", "/approval-mode", "(Use Enter to select"),
        ]
    });
}

#[test]
fn copilot_gets_no_key_at_a_dialog() {
    messages_wait_for(Cli::Copilot, |project| {
        let write = json!({"path": format!("{project}/made"), "file_text": "hello\n"});
        vec![
            tool("create", "create", write, "Do you want to create"),
            command("theme", "/theme", "Select a Color Mode"),
            command("model", "/model", "Search models"),
            command("resume", "/resume", "Source: [All]"),
        ]
    });
}

#[test]
fn opencode_gets_no_key_at_a_dialog() {
    messages_wait_for(Cli::Opencode, |_| {
        let write = json!({"filePath": "made", "content": "hello\n"});
        vec![
            tool("write", "write", write, "△ Permission required"),
            command("models", "/models", "Select model"),
            command("themes", "/themes", "Themes"),
            command("sessions", "/sessions", "Sessions"),
        ]
    });
}
