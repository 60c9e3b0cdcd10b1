//! The brief, which explains to an agent how to send messages: printed, written into files, and
//! typed at the start.

use crate::{
    commands::{USAGE, err, out, run},
    wrap::wrap_line_reader_with,
};
use serde_json::{Value, json};
use std::{fs, path::PathBuf, process::Output};
use testkit::{
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::{not_tried, output, until},
};

const DONE: i32 = 0;
const FAILED: i32 = 1;

/// A sandbox with these files in the working directory of commands.
fn project(files: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::empty();
    for (name, text) in files {
        fs::write(sandbox.directory().join(name), text).unwrap();
    }
    sandbox
}

#[track_caller]
fn read(sandbox: &Sandbox, name: &str) -> String {
    fs::read_to_string(sandbox.directory().join(name)).unwrap()
}

fn exists(sandbox: &Sandbox, name: &str) -> bool {
    sandbox.directory().join(name).exists()
}

fn json_lines(output: &Output) -> Vec<Value> {
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn brief_is_printed_with_or_without_a_name() {
    let sandbox = Sandbox::empty();
    let text = out(&run(&sandbox, &["brief"], DONE));
    assert!(text.contains("$AGENT_RELAY_AGENT") && text.contains("\n->relay:Bob <<<\n"), "{text}");
    let text = out(&run(&sandbox, &["brief", "Ann"], DONE));
    assert!(text.contains("Your name is Ann.\n"), "{text}");
    let printed = json_lines(&run(&sandbox, &["brief", "Ann", "--json"], DONE));
    let expected = json!({"schema": "agent-relay.brief/1", "name": "Ann", "text": text});
    assert_eq!(printed, [expected]);
    let mut inside = sandbox.command(["brief"]);
    inside.env("AGENT_RELAY_AGENT", "Cid");
    assert!(out(&output(inside)).contains("Your name is Cid.\n"));
    for (line, words) in [
        (&["brief", "user"][..], "reserved"),
        (&["brief", "a b"], "to change a file, use --install FILE"),
        (&["brief", "--claude"], "no --install or --remove; give one of them"),
        (&["brief", "--install", "--remove"], "exclude each other"),
        (&["brief", "install"], "did you mean --install?"),
        (&["brief", "--install", "Ann"], "there is no file Ann"),
    ] {
        let refused = run(&sandbox, line, USAGE);
        assert!(err(&refused).contains(words), "{refused:?}");
    }
    assert!(!exists(&sandbox, "Ann"));
}

#[test]
fn missing_file_is_made_and_removed_again() {
    let sandbox = project(&[]);
    let text = out(&run(&sandbox, &["brief"], DONE));
    let made = out(&run(&sandbox, &["brief", "--install"], DONE));
    assert_eq!(made, format!("AGENTS.md was made, with this text:\n\n{text}"));
    assert!(read(&sandbox, "AGENTS.md").contains(&text));
    let second = out(&run(&sandbox, &["brief", "--install"], DONE));
    assert!(second.starts_with("AGENTS.md had this text already:\n"), "{second}");
    let removed = out(&run(&sandbox, &["brief", "--remove"], DONE));
    assert_eq!(removed, "AGENTS.md had no other text and was removed\n");
    assert!(!exists(&sandbox, "AGENTS.md"));
    let nothing = out(&run(&sandbox, &["brief", "--remove"], DONE));
    assert!(nothing.starts_with("nothing to remove: "), "{nothing}");
}

#[test]
fn existing_files_get_the_brief_and_keep_their_text() {
    let (claude, gemini) = ("# Rules\r\n\r\n- be kind\r\n", "no end of the line");
    let sandbox = project(&[("CLAUDE.md", claude), ("GEMINI.md", gemini)]);
    let installed = json_lines(&run(&sandbox, &["brief", "--install", "--json"], DONE));
    let changes: Vec<_> = installed.iter().map(|entry| (&entry["path"], &entry["done"])).collect();
    assert_eq!(
        changes,
        [(&json!("CLAUDE.md"), &json!("added")), (&json!("GEMINI.md"), &json!("added"))]
    );
    assert!(!exists(&sandbox, "AGENTS.md"));
    let with = read(&sandbox, "CLAUDE.md");
    assert!(with.starts_with(claude) && with.lines().count() > 20);
    assert_eq!(with.matches("\r\n").count(), with.matches('\n').count(), "{with:?}");

    let older = with.replace("Other agents", "OTHER AGENTS") + "more\r\n";
    fs::write(sandbox.directory().join("CLAUDE.md"), &older).unwrap();
    let replaced = out(&run(&sandbox, &["brief", "--install", "--claude", "--codex"], DONE));
    assert!(replaced.contains("CLAUDE.md now has this text instead of an older one:\n"));
    assert!(replaced.contains("AGENTS.md was made, with this text:\n"), "{replaced}");
    assert_eq!(read(&sandbox, "CLAUDE.md"), with + "more\r\n");

    run(&sandbox, &["brief", "--remove"], DONE);
    assert_eq!(read(&sandbox, "CLAUDE.md"), format!("{claude}more\r\n"));
    assert_eq!(read(&sandbox, "GEMINI.md"), gemini);
    assert!(!exists(&sandbox, "AGENTS.md"));
    let absent = out(&run(&sandbox, &["brief", "--remove", "GEMINI.md"], DONE));
    assert_eq!(absent, "GEMINI.md does not have the text\n");
    let left = fs::read_dir(sandbox.directory()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("md")).collect();
    assert_eq!(left.len(), 2, "other files are left: {left:?}");
}

#[test]
fn unreadable_file_leaves_all_files_unchanged() {
    let broken = "one\n<!-- agent-relay: begin -->\ntwo\n";
    let sandbox = project(&[("AGENTS.md", "fine\n"), ("GEMINI.md", broken)]);
    for action in ["--install", "--remove"] {
        let refused = run(&sandbox, &["brief", action], FAILED);
        assert!(err(&refused).contains("GEMINI.md:2: this marker"), "{refused:?}");
        assert_eq!(
            (read(&sandbox, "AGENTS.md"), read(&sandbox, "GEMINI.md")),
            ("fine\n".into(), broken.into())
        );
    }
    fs::write(sandbox.directory().join("x.md"), b"\xff\xfe#\0").unwrap();
    fs::create_dir(sandbox.directory().join("d.md")).unwrap();
    for (file, words) in [("x.md", "UTF-8"), ("d.md", "not a file"), ("no/x.md", "directory")] {
        let refused = run(&sandbox, &["brief", "--install", file], FAILED);
        assert!(err(&refused).contains(words), "{refused:?}");
    }
}

#[test]
fn read_only_file_leaves_all_files_unchanged() {
    let files = [("AGENTS.md", "a\n"), ("CLAUDE.md", "c\n"), ("GEMINI.md", "g\n")];
    let sandbox = project(&files);
    let gemini = sandbox.directory().join("GEMINI.md");
    let writable = fs::metadata(&gemini).unwrap().permissions();
    let mut read_only = writable.clone();
    read_only.set_readonly(true);
    fs::set_permissions(&gemini, read_only).unwrap();
    let refused = run(&sandbox, &["brief", "--install"], FAILED);
    assert!(err(&refused).contains("GEMINI.md is not written: it is read-only"), "{refused:?}");
    assert_eq!(out(&refused), "");
    for (name, text) in files {
        assert_eq!(read(&sandbox, name), text);
    }
    // A read-only file that needs no change causes no error.
    run(&sandbox, &["brief", "--remove"], DONE);
    // Windows removes no read-only file, not even with its directory.
    fs::set_permissions(&gemini, writable).unwrap();
}

#[test]
fn link_is_followed_and_its_target_is_not_removed() {
    let sandbox = project(&[("AGENTS.md", "")]);
    let mut link = sandbox.program("ln");
    link.args(["-s", "AGENTS.md", "CLAUDE.md"]);
    if link.status().is_ok_and(|status| status.success()) {
        let installed = out(&run(&sandbox, &["brief", "--install"], DONE));
        let (first, _) = installed.split_once('\n').unwrap();
        assert!(first.starts_with("CLAUDE.md (which leads to "), "{installed}");
        assert!(!installed.contains("\nAGENTS.md "), "both names are one file: {installed}");
        run(&sandbox, &["brief", "--remove", "--claude"], DONE);
        assert_eq!(read(&sandbox, "CLAUDE.md"), "");
        fs::remove_file(sandbox.directory().join("AGENTS.md")).unwrap();
        let refused = run(&sandbox, &["brief", "--install", "--claude"], FAILED);
        assert!(err(&refused).contains("link to a missing file"), "{refused:?}");
    } else {
        not_tried("there is no `ln -s`");
    }
}

#[test]
fn agent_gets_the_brief_once_before_any_message() {
    let mut sandbox = Sandbox::new();
    let _ann = wrap_line_reader_with(&sandbox, &["-n", "Ann", "--brief"], &["keep typed"]);
    let typed = sandbox.directory().join("typed");
    let typed = || fs::read_to_string(&typed).unwrap();
    let count = |words: &str| typed().matches(words).count();
    until("Ann is here", || out(&sandbox.run(["agents", "--json"])).contains(r#""here":true"#));
    run(&sandbox, &["send", "Ann", "the first mail"], DONE);
    until("the message is typed", || count("the first mail") == 1);
    let text = typed();
    assert_eq!(count("Your name is Ann."), 1, "{text}");
    assert!(text.find("Your name is Ann.") < text.find("the first mail"), "{text}");
    assert!(text.contains("from @relay] The relay wrote this, not your user."), "{text}");

    sandbox.kill();
    sandbox.start();
    until("Ann is back", || out(&sandbox.run(["agents", "--json"])).contains(r#""here":true"#));
    run(&sandbox, &["send", "Ann", "the next mail"], DONE);
    until("the message is typed", || count("the next mail") == 1);
    assert_eq!(count("Your name is Ann."), 1, "the brief is not repeated");
    let history = out(&run(&sandbox, &["history", "--json"], DONE));
    assert!(!history.contains(r#""from":"Ann""#), "what was typed is not sent: {history}");
}

#[test]
fn shell_gets_no_brief() {
    let sandbox = Sandbox::new();
    let line = ["bash", "--norc", "--noprofile"];
    let ann = Terminal::wrap_with(&sandbox, &["-n", "Ann", "--brief"], &line);
    ann.wait_for_row("$");
    run(&sandbox, &["send", "Ann", "mail"], DONE);
    ann.wait_for("[/relay ");
    let shown = ann.text();
    assert!(!shown.contains("Your name is") && !shown.contains("@relay]"), "{shown}");
}

#[test]
fn file_in_another_directory_can_be_named() {
    let sandbox = project(&[]);
    let directory: PathBuf = sandbox.directory().join("docs");
    fs::create_dir(&directory).unwrap();
    let file = directory.join("CONVENTIONS.md");
    let name = file.to_str().unwrap();
    run(&sandbox, &["brief", "--install", name], DONE);
    assert!(fs::read_to_string(&file).unwrap().contains("->relay:Bob <<<"));
    run(&sandbox, &["brief", "--remove", name], DONE);
    assert!(!file.exists());
}
