//! An agent's own program that is in front, and then is not.

use super::{BODIES, Expected, File, PROGRAM, Program, Stage};

/// An agent is given time for each message.
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

/// A shell that looks like the agent, from which a person starts the agent.
const SHELL: Program = Program {
    needs: &["bash"],
    files: &[("rc", File::Text("PS1='❯ '\n"))],
    command: &["bash", "--noprofile", "--rcfile", "{dir}/rc"],
    prompt: "❯",
    first: &[("{toy}\r", "ready")],
    expected: Expected::TypedOrWaiting,
    leave: &["\r", "\u{3}", "exit\r"],
    ..PROGRAM
};

/// The same shell after an agent of a known name, as a launcher leaves it behind.
const LAUNCHER: Program = Program {
    needs: &["bash"],
    files: &[
        ("rc", File::Text("PS1='❯ '\n")),
        ("bin/toy", File::Script("#!/bin/bash\n{toy}\nexec bash --noprofile --rcfile {dir}/rc\n")),
    ],
    command: &["{dir}/bin/toy"],
    prompt: "ready",
    first: &[],
    ..SHELL
};

/// Messages come while the agent works, and the person ends or suspends it with `keys`.
#[track_caller]
fn gives_way_to_a_shell(program: &Program, keys: &str) {
    let Some(mut stage) = Stage::start(program) else { return };
    stage.press("work\r", "working");
    stage.send(&BODIES);
    stage.settle(Expected::Waiting);
    stage.press(keys, "❯");
    stage.press("echo b''ack\r", "back");
    stage.settle_anew(Expected::TypedOrWaiting);
    stage.leave();
}

/// Messages come while the agent has started another program, which `keys` end.
#[track_caller]
fn starts(needs: &'static [&'static str], line: &str, shown: &str, bodies: &[&str], keys: &str) {
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
fn an_agent_gets_messages_by_its_recipe() {
    let mut stage = Stage::start(&TOY).expect("the tests' own program is there");
    stage.send(FEW);
    stage.settle(Expected::Typed);
    stage.leave();
}

#[test]
fn an_agent_that_ends_leaves_messages_to_no_shell() {
    gives_way_to_a_shell(&SHELL, "quit\r");
}

#[test]
fn a_launched_agent_that_ends_leaves_messages_to_no_shell() {
    gives_way_to_a_shell(&LAUNCHER, "quit\r");
}

#[test]
fn an_agent_that_is_suspended_leaves_messages_to_no_shell() {
    // The first makes the shell tell of it.
    let leave = &["\r", "\u{3}", "exit\r", "exit\r"];
    gives_way_to_a_shell(&Program { leave, ..SHELL }, "\u{1a}");
}

#[test]
fn an_agents_editor_gets_no_messages() {
    starts(&["ed"], "run ed nine\r", "9", &["!touch {mark}", "w {mark}"], "Q\r");
}

#[test]
fn an_agents_full_screen_editor_gets_no_messages() {
    let bodies = [":!touch {mark}", "i\nx\u{1b}:w {mark}\r"];
    let line = "run vim.tiny -u NONE -i NONE -n\r";
    starts(&["vim.tiny"], line, "~", &bodies, ":q!\r");
}

#[test]
fn an_agents_shell_gets_no_messages() {
    starts(&["bash"], "run bash --norc --noprofile\r", "$", &[], "exit\r");
}

/// It stays in the agent's process group, and looks like the agent.
#[test]
fn an_agents_shell_without_job_control_gets_no_messages() {
    starts(&["dash"], "run {dir}/bin/below\r", "❯", &[], "exit\r");
}
