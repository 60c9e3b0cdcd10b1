//! Recognition of each installed CLI version by its process, for each way to start it.

use crate::{
    cli::{Cli, Workspace},
    peer::{Peer, await_typed, frame_body},
};
use platform::pty::Size;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::{
    model::{Model, Reply},
    sandbox::Sandbox,
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// Ways to start a CLI. Except for the first two, no word of the command names the CLI.
const STARTS: [&str; 8] = [
    "by its name",
    "by its file's path",
    "through env",
    "through a script that waits for it",
    "through a script that becomes it",
    "through a text of a shell's command line",
    "through npm",
    "through a link of another name",
];

/// The command for a way to start.
fn command(workspace: &Workspace<'_>, start: &str) -> Vec<String> {
    let program = workspace.program().to_str().unwrap();
    let folder = workspace.project();
    let script = |text: &str| write_script(&folder.join("start"), text);
    let words: Vec<String> = match start {
        "by its name" => vec![program.into()],
        "by its file's path" => vec![text(&fs::canonicalize(program).unwrap())],
        "through env" => vec!["env".into(), "X=1".into(), program.into()],
        "through a script that waits for it" => vec![script(&format!("'{program}'\necho over"))],
        "through a script that becomes it" => vec![script(&format!("exec '{program}'"))],
        "through a text of a shell's command line" => {
            vec!["bash".into(), "-c".into(), format!("'{program}'; echo over")]
        }
        "through npm" => {
            link(program, &folder.join("node_modules/.bin/assistant"));
            ["npm", "exec", "--offline", "--no", "--", "assistant"].map(str::to_owned).to_vec()
        }
        "through a link of another name" => vec![link(program, &folder.join("assistant"))],
        start => panic!("{start:?} is no way to start"),
    };
    words
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn write_script(path: &Path, lines: &str) -> String {
    fs::write(path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(path).status().unwrap().success());
    text(path)
}

fn link(program: &str, path: &Path) -> String {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let link = Command::new("ln").arg("-s").arg(program).arg(path).status();
    assert!(link.unwrap().success());
    text(path)
}

fn is_recognised_however_started(cli: Cli, program: &Path) {
    for start in STARTS {
        eprintln!("{start}");
        is_recognised_when_started(cli, program.to_owned(), start);
    }
}

fn is_recognised_when_started(cli: Cli, program: PathBuf, start: &str) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let workspace = Workspace::new(&sandbox, cli, &model, "ann").with_program(program);
    let words = command(&workspace, start);
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    let agent = workspace.wrap_command(&words, SIZE);
    agent.wait_until_idle();
    for (number, body) in ["first", "second"].into_iter().enumerate() {
        let id = bob.send("Ann", body);
        await_typed(&sandbox, &agent, &id);
        let asked = agent.with_screen_on_panic(|| model.wait_for_requests(number + 1));
        assert_eq!(frame_body(&asked[number].prompt), body, "{start}");
    }
}

#[test]
fn pinned_claude_is_recognised_however_started() {
    is_recognised_however_started(Cli::Claude, &Cli::Claude.programs()[0]);
}

#[test]
fn current_claude_is_recognised_however_started() {
    is_recognised_however_started(Cli::Claude, &Cli::Claude.programs()[1]);
}

#[test]
fn codex_is_recognised_however_started() {
    is_recognised_however_started(Cli::Codex, &Cli::Codex.programs()[0]);
}

#[test]
fn gemini_is_recognised_however_started() {
    is_recognised_however_started(Cli::Gemini, &Cli::Gemini.programs()[0]);
}
