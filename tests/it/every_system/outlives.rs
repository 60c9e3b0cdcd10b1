//! An agent CLI of `run` continues without its window.

use crate::activity::await_activity;
use platform::pty::{OUTLIVES_TERMINAL, Size};
use serde_json::Value;
use std::{env, fs};
use testkit::{
    claude::Claude,
    programs::{copy_program, example_program},
    sandbox::Sandbox,
    terminal::{SIZE, Terminal},
    waiting::{assert_success, until},
};

const DETACH: &str = "\u{1c}";

/// Stops Ann when it is dropped, if she runs: her processes would outlive the test.
struct Outlives<'a>(&'a Sandbox);

impl Drop for Outlives<'_> {
    fn drop(&mut self) {
        drop(self.0.run(["stop", "Ann"]));
    }
}

#[track_caller]
fn state(sandbox: &Sandbox) -> Value {
    let state = sandbox.run(["release", "Ann", "--json"]);
    assert_success(&state);
    serde_json::from_slice(&state.stdout).unwrap()
}

fn is_running(sandbox: &Sandbox) -> bool {
    sandbox.run(["release", "Ann"]).status.success()
}

#[track_caller]
fn attach(sandbox: &Sandbox) -> Terminal {
    let terminal = Terminal::command_in(sandbox, SIZE, &["attach", "Ann"]);
    terminal.wait_for_bytes("attached to Ann");
    terminal
}

#[track_caller]
fn detach(mut terminal: Terminal) {
    terminal.press(DETACH);
    terminal.wait_for("Ann runs on; `agent-relay attach Ann` shows it again");
    assert_eq!(terminal.finish(), 0);
}

#[test]
fn agent_cli_outlives_its_window_and_is_restored_after_its_wrapper_was_killed() {
    let sandbox = Sandbox::new();
    let claude = Claude::install(&sandbox);
    let options = ["-n", "Ann", "--topic", "build.>"];
    let terminal = Terminal::wrap_with(&sandbox, &options, &[&claude.program, "--model", "opus"]);
    terminal.wait_for("ready");
    let _ann = Outlives(&sandbox);
    let before = state(&sandbox);
    // The wrapper has the window where the window's end does not end it.
    assert_eq!(before["has_terminal"] == true, OUTLIVES_TERMINAL, "{before}");
    claude.hook("UserPromptSubmit", r#"{"session_id":"c0ffee","prompt":"Work."}"#);
    await_activity(&sandbox, "working");
    terminal.close_window();
    until("no terminal shows it", || {
        let state = state(&sandbox);
        state["has_terminal"] == Value::Null && state["attached"] == 0
    });
    let after = state(&sandbox);
    assert_eq!((&after["pid"], &after["directory"]), (&before["pid"], &before["directory"]));
    claude.print("it works on\r\n");
    let again = attach(&sandbox);
    again.wait_for("it works on");
    detach(again);
    sandbox.kill_process(after["wrapper_pid"].as_u64().unwrap());
    until("nobody is there", || !is_running(&sandbox));
    until("Ann is cut off", || {
        String::from_utf8_lossy(&sandbox.run(["restore"]).stdout).contains("Ann")
    });
    claude.forget();
    assert_success(&sandbox.run(["restore", "--all"]));
    until("Ann runs again", || claude.started().len() == 2);
    let directory = sandbox.directory().to_owned();
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let expected = [
        (directory.clone(), words(&["--model", "opus"])),
        (directory, words(&["--resume", "c0ffee", "--model", "opus"])),
    ];
    assert_eq!(claude.started(), expected);
    let agents = sandbox.operator().agents();
    let ann = agents.iter().find(|agent| agent["name"] == "Ann").unwrap();
    assert_eq!(ann["subscriptions"], 1, "{ann}");
}

#[test]
fn detached_agent_cli_gives_its_window_back_and_is_offered_again() {
    let sandbox = Sandbox::new();
    let claude = Claude::install(&sandbox);
    let mut terminal =
        Terminal::wrap_with(&sandbox, &["-n", "Ann", "--detach-key", "ctrl-]"], &[&claude.program]);
    terminal.wait_for("ready");
    let _ann = Outlives(&sandbox);
    terminal.press("\u{1d}");
    terminal.wait_for("Ann runs on; `agent-relay attach Ann` shows it again");
    assert_eq!(terminal.finish(), 0);
    until("no terminal shows it", || {
        let state = state(&sandbox);
        state["has_terminal"] == Value::Null && state["attached"] == 0
    });
    let mut again = Terminal::wrap(&sandbox, "Ann", &[&claude.program]);
    again.wait_for("Ann runs in the background; attach to it? [Y/n]");
    again.press("\r");
    again.wait_for_bytes("attached to Ann");
    claude.end(7);
    again.wait_for("Ann ended with code 7");
    assert_eq!(again.finish(), 7);
    assert_eq!(claude.started().len(), 1);
}

#[test]
fn agent_cli_that_ends_gives_its_window_all_its_output_and_its_exit_code() {
    let sandbox = Sandbox::new();
    let claude = Claude::install(&sandbox);
    // More rows than the window has, from a program that ends at once.
    let rows: String = (0..60).map(|row| format!("row <{row}>\r\n")).collect();
    claude.print(&rows);
    claude.end(7);
    let terminal = Terminal::wrap(&sandbox, "Ann", &[&claude.program]);
    terminal.wait_until_end();
    let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    for row in [0, 1, 30, 59] {
        assert!(shown.contains(&format!("<{row}>")), "row {row} is missing: {shown:?}");
    }
    assert!(
        terminal.text().contains("row <59>\nagent-relay: Ann ended with code 7"),
        "{}",
        terminal.text()
    );
    assert_eq!(terminal.finish(), 7);
    assert!(!is_running(&sandbox));
    // The name is free at once, and the output of the last run is not repeated.
    claude.forget();
    claude.end(0);
    let terminal = Terminal::wrap(&sandbox, "Ann", &[&claude.program]);
    terminal.wait_until_end();
    assert!(!terminal.text().contains("<59>"), "{}", terminal.text());
    assert_eq!(terminal.finish(), 0);
}

#[test]
fn agent_cli_that_does_not_start_says_why_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let missing = Terminal::wrap(&sandbox, "Ann", &["claude-that-is-not-there/claude"]);
    missing.wait_for("claude-that-is-not-there");
    assert_eq!(missing.finish(), 127);
    let claude = Claude::install(&sandbox);
    let other = sandbox.join("Ann");
    let taken = Terminal::wrap(&sandbox, "Ann", &[&claude.program]);
    taken.wait_for("Ann");
    assert_eq!(taken.finish(), 1);
    other.leave();
    assert!(claude.started().is_empty());
    assert!(!is_running(&sandbox));
}

#[test]
fn agent_cli_begins_with_the_size_of_its_window_and_reads_its_keys() {
    let sandbox = Sandbox::new();
    let program = sandbox.directory().join(format!("claude{}", env::consts::EXE_SUFFIX));
    copy_program(example_program("lines"), &program);
    let recording = sandbox.directory().join("recording");
    let wrap = testkit::programs::program("agent-relay-wrap");
    let [wrap, program, file] = [&wrap, &program, &recording].map(|path| path.to_str().unwrap());
    let command = [wrap, "-n", "Ann", "--no-brief", "--record", file, "--", program, "size"];
    let size = Size { rows: 20, cols: 77 };
    let mut terminal = Terminal::run_in(&sandbox, &command, size);
    terminal.wait_for("20 rows, 77 columns");
    let _ann = Outlives(&sandbox);
    terminal.press("print seen\r");
    terminal.wait_for_row("seen");
    terminal.press("exit 3\r");
    terminal.wait_for("Ann ended with code 3");
    assert_eq!(terminal.finish(), 3);
    let recorded = String::from_utf8_lossy(&fs::read(&recording).unwrap()).into_owned();
    assert!(recorded.contains("seen"), "{recorded:?}");
}
