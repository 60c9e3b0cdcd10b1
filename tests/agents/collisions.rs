//! Files that an agent edits with its CLI's tools.

use crate::{
    cli::{Cli, Workspace},
    hooks::{UNTIL_GO, each_version, link_extension},
};
use platform::pty::Size;
use serde_json::{Value, json};
use std::{fs, path::Path};
use testkit::{
    claude,
    model::{Model, Reply},
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::until,
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// A program named like Claude Code. It edits the same file until it is notified that the other
/// agent has edited it, too.
const CID: &str = r#"
echo ready
until grep -q 'Ann and you have edited the same file' told; do
    hook PostToolUse <edit >told
    sleep 0.05
done
"#;

/// The arguments that make a CLI run its tools without a question.
fn permissive(cli: Cli) -> &'static [&'static str] {
    match cli {
        Cli::Claude => &["--permission-mode=acceptEdits", "--allowedTools=Bash"],
        // It has a patch tool only with models that it knows, and advertises newer ones.
        Cli::Codex => &[
            "--model=gpt-5.5",
            r#"--config=notice.model_migrations={"gpt-5.5"="gpt-6-sol"}"#,
            "--ask-for-approval=never",
            "--sandbox=danger-full-access",
        ],
        Cli::Gemini | Cli::Qwen => &["--allowed-tools=run_shell_command,write_file"],
        Cli::Copilot => &["--allow-all-tools"],
        Cli::Opencode => &[],
    }
}

/// A reply that edits a file with a tool of the CLI.
fn edits(cli: Cli, file: &Path) -> Reply {
    let (reply, text) = (Reply::new().says("I begin."), "hello\n");
    match cli {
        Cli::Claude => reply.calls("Write", json!({"file_path": file, "content": text})),
        Cli::Codex => {
            let patch = "*** Begin Patch\n*** Add File: made\n+hello\n*** End Patch";
            reply.calls("apply_patch", json!(patch))
        }
        Cli::Gemini | Cli::Qwen => {
            reply.calls("write_file", json!({"file_path": file, "content": text}))
        }
        Cli::Copilot => reply.calls("create", json!({"path": file, "file_text": text})),
        Cli::Opencode => reply.calls("write", json!({"filePath": "made", "content": text})),
    }
}

fn runs(cli: Cli) -> Reply {
    match cli {
        Cli::Codex => {
            let input = json!({"cmd": UNTIL_GO, "yield_time_ms": 30_000});
            Reply::new().calls("exec_command", input)
        }
        _ => Reply::new().runs(UNTIL_GO),
    }
}

/// With its next result, the agent is notified that another agent has edited its file.
fn edit_is_reported(cli: Cli, program: &Path) {
    let sandbox = Sandbox::new();
    let made = sandbox.directory().join("ann/project/made");
    let edited = made.clone();
    let model = Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Work.", None) => edits(cli, &edited),
        ("Work.", Some(result)) if result.contains("went") => Reply::new().says("Done."),
        ("Work.", Some(_)) => runs(cli),
        _ => Reply::new().says("Noted."),
    });
    let workspace = Workspace::new(&sandbox, cli, &model, "ann").with_program(program.to_owned());
    match cli {
        Cli::Gemini => link_extension(&workspace),
        Cli::Opencode => workspace.extend_settings(json!({"permission": "allow"})),
        _ => {}
    }
    let mut agent = workspace.wrap_with(&["-n", "Ann"], SIZE, permissive(cli));
    agent.wait_until_idle();
    agent.submit("Work.");
    agent.with_screen_on_panic(|| {
        until("the command runs", || workspace.project().join("runs").exists())
    });
    let edit = json!({"tool_name": "Edit", "tool_input": {"file_path": made}});
    fs::write(sandbox.directory().join("edit"), edit.to_string()).unwrap();
    let script = claude::install_with_hooks(&sandbox, CID);
    let cid = Terminal::wrap(&sandbox, "Cid", &[&script]);
    assert_eq!(agent.with_screen_on_panic(|| cid.finish()), 0);
    fs::write(workspace.project().join("go"), "").unwrap();
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(3));
    let told = "Cid and you have edited the same file within ten minutes: ";
    let request: &Value = &asked[2].request;
    assert!(request.to_string().contains(told), "{request}");
}

#[test]
fn claude_edit_is_reported() {
    each_version(Cli::Claude, |program| edit_is_reported(Cli::Claude, program));
}

#[test]
fn codex_edit_is_reported() {
    each_version(Cli::Codex, |program| edit_is_reported(Cli::Codex, program));
}

#[test]
fn gemini_edit_is_reported() {
    each_version(Cli::Gemini, |program| edit_is_reported(Cli::Gemini, program));
}

#[test]
fn opencode_edit_is_reported() {
    each_version(Cli::Opencode, |program| edit_is_reported(Cli::Opencode, program));
}

#[test]
fn qwen_edit_is_reported() {
    each_version(Cli::Qwen, |program| edit_is_reported(Cli::Qwen, program));
}

#[test]
fn copilot_edit_is_reported() {
    each_version(Cli::Copilot, |program| edit_is_reported(Cli::Copilot, program));
}
