//! Agents that give the terminal to another program: a shell after their end, an editor, their own
//! shell.

use super::{BODIES, Expected, File, PROGRAM, Program, Stage};

/// Only a few bodies, since an agent takes time for each message.
const FEW: &[&str] = &["touch {mark}", "\u{1b}[201~\rtouch {mark}\r"];

const TOY: Program = Program {
    files: &[
        ("nine", File::Text("to edit.\n")),
        ("bin/below", File::Script("#!/bin/sh\nPS1='❯ ' exec dash -i +m\n")),
    ],
    command: &["{toy}"],
    prompt: "❯",
    expected: Expected::Typed,
    leave: &["\r", "quit\r"],
    ..PROGRAM
};

/// A shell with the agent's prompt, where the user starts the agent.
const SHELL: Program = Program {
    needs: &["bash"],
    files: &[("rc", File::Text("PS1='❯ '\n"))],
    command: &["bash", "--noprofile", "--rcfile", "{dir}/rc"],
    prompt: "❯",
    setup: &[("{toy}\r", "ready")],
    expected: Expected::TypedOrWaiting,
    leave: &["\r", "\u{3}", "exit\r"],
    ..PROGRAM
};

/// A launcher with the agent's name that leaves a shell with the agent's prompt behind.
const LAUNCHER: Program = Program {
    needs: &["bash"],
    files: &[
        ("rc", File::Text("PS1='❯ '\n")),
        ("bin/toy", File::Script("#!/bin/bash\n{toy}\nexec bash --noprofile --rcfile {dir}/rc\n")),
    ],
    command: &["{dir}/bin/toy"],
    prompt: "ready",
    setup: &[],
    ..SHELL
};

/// Checks messages that arrive while the agent works, before the user ends or suspends it with
/// `keys`.
#[track_caller]
fn check_shell_gets_no_message(program: &Program, keys: &str) {
    let Some(mut stage) = Stage::start(program) else { return };
    stage.press("work\r", "working");
    stage.send(&BODIES);
    stage.settle(Expected::Waiting);
    stage.press(keys, "❯");
    stage.press("echo b''ack\r", "back");
    stage.settle_for_another_reason(Expected::TypedOrWaiting);
    stage.leave();
}

/// Checks messages that arrive while a program that the agent has started runs, until `keys` end
/// it.
#[track_caller]
fn check_child_gets_no_message(
    needs: &'static [&'static str],
    line: &str,
    shown: &str,
    bodies: &[&str],
    keys: &str,
) {
    let toy = Program { needs, ..TOY };
    let Some(mut stage) = Stage::start(&toy) else { return };
    stage.press(line, shown);
    stage.send(FEW);
    stage.send(bodies);
    stage.settle(Expected::Waiting);
    stage.press(keys, "back");
    stage.settle(Expected::Typed);
    stage.leave();
}

#[test]
fn agent_with_a_recipe_gets_messages() {
    let mut stage = Stage::start(&TOY).expect("the program `toy` is built");
    stage.send(FEW);
    stage.settle(Expected::Typed);
    stage.leave();
}

#[test]
fn shell_after_an_ended_agent_gets_no_message() {
    check_shell_gets_no_message(&SHELL, "quit\r");
}

#[test]
fn shell_of_a_launcher_after_an_ended_agent_gets_no_message() {
    check_shell_gets_no_message(&LAUNCHER, "quit\r");
}

#[test]
fn shell_after_a_suspended_agent_gets_no_message() {
    // The first `exit` only makes the shell report the stopped job.
    let leave = &["\r", "\u{3}", "exit\r", "exit\r"];
    check_shell_gets_no_message(&Program { leave, ..SHELL }, "\u{1a}");
}

#[test]
fn editor_of_an_agent_gets_no_message() {
    check_child_gets_no_message(
        &["ed"],
        "run ed nine\r",
        "9",
        &["!touch {mark}", "w {mark}"],
        "Q\r",
    );
}

#[test]
fn full_screen_editor_of_an_agent_gets_no_message() {
    let bodies = [":!touch {mark}", "i\nx\u{1b}:w {mark}\r"];
    let line = "run vim.tiny -u NONE -i NONE -n\r";
    check_child_gets_no_message(&["vim.tiny"], line, "~", &bodies, ":q!\r");
}

#[test]
fn shell_of_an_agent_gets_no_message() {
    check_child_gets_no_message(&["bash"], "run bash --norc --noprofile\r", "$", &[], "exit\r");
}

/// The shell stays in the agent's process group and has the agent's prompt.
#[test]
fn shell_of_an_agent_without_job_control_gets_no_message() {
    check_child_gets_no_message(&["dash"], "run {dir}/bin/below\r", "❯", &[], "exit\r");
}
