//! Agents in consoles that behave like those of Windows where Wine's do not: see
//! `ci/cross/shim/conpty.c`. Only `ci/windows` runs these tests, under Wine.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy recognizes only functions with `#[test]` as tests"
)]

use platform::pty::Size;
use std::{ffi::OsStr, fs, process::Command, thread};
use testkit::{
    programs::example_program,
    sandbox::Sandbox,
    terminal::{SIZE, Terminal},
    waiting::{output, until},
};

/// The variables of the shim.
const BEHAVIOUR: &str = "AGENT_RELAY_TEST_CONSOLE";
const SIZES: &str = "AGENT_RELAY_TEST_CONSOLE_SIZES";

/// Returns `agent-relay run` or `spawn` of a program that reads lines and first runs these.
fn start(sandbox: &Sandbox, how: &[&str], lines: &[&str]) -> Command {
    let mut command = sandbox.command(how);
    command.args(["--accepts-text", "--"]).arg(example_program("lines")).args(lines);
    command
}

/// Spawns Ann with [`start`]'s program.
#[track_caller]
fn spawn<'a>(sandbox: &'a Sandbox, lines: &[&str], variable: (&str, &OsStr)) -> Spawned<'a> {
    let mut spawn = start(sandbox, &["spawn", "Ann"], lines);
    spawn.env(variable.0, variable.1);
    let spawn = output(spawn);
    assert!(spawn.status.success(), "{spawn:?}");
    Spawned(sandbox)
}

/// Ann in the background. Dropping it stops Ann: her processes would outlive the test.
struct Spawned<'a>(&'a Sandbox);

impl Drop for Spawned<'_> {
    fn drop(&mut self) {
        let stop = self.0.run(["stop", "Ann"]);
        assert!(stop.status.success() || thread::panicking(), "{stop:?}");
    }
}

#[track_caller]
fn wait_until_away(sandbox: &Sandbox) {
    let mut operator = sandbox.operator();
    until("Ann has left", || {
        operator.agents().iter().any(|agent| agent["name"] == "Ann" && agent["here"] == false)
    });
}

#[test]
fn exit_is_reported_although_the_console_never_closes() {
    let sandbox = Sandbox::new();
    let mut run = start(&sandbox, &["run", "-n", "Ann"], &["print some text", "exit 7"]);
    run.env(BEHAVIOUR, "stays");
    let run = output(run);
    assert_eq!(run.status.code(), Some(7), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stdout).contains("some text"), "{run:?}");
    wait_until_away(&sandbox);
}

#[test]
fn agent_is_stopped_although_its_console_never_closes() {
    let sandbox = Sandbox::new();
    drop(spawn(&sandbox, &[], (BEHAVIOUR, "stays".as_ref())));
    wait_until_away(&sandbox);
}

#[test]
fn questions_of_the_console_are_answered_before_the_command_starts() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let behaviour = (BEHAVIOUR, "position,attributes".as_ref());
    let _ann = spawn(&sandbox, &["say Bob hello"], behaviour);
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "hello");
    // Before the answers, nothing that is typed arrives.
    let mut driver = Terminal::command_in(&sandbox, SIZE, &["attach", "Ann"]);
    driver.wait_for("ready");
    driver.press("size\r");
    driver.wait_for(" rows, ");
}

#[test]
fn console_takes_the_size_of_the_terminal_that_drives_it() {
    let sandbox = Sandbox::new();
    let sizes = sandbox.directory().join("sizes");
    let _ann = spawn(&sandbox, &[], (SIZES, sizes.as_ref()));
    let _driver = Terminal::command_in(&sandbox, Size { rows: 20, cols: 77 }, &["attach", "Ann"]);
    until("the console has the driver's size", || {
        fs::read_to_string(&sizes).unwrap() == "120x40\n77x20\n"
    });
}
