//! A daemon that logs to a pipe or a terminal that is read late or never.

use platform::{pty::Pty, transport::Stream};
use serde_json::json;
use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader, Read},
    path, thread,
};
use testkit::{
    sandbox::{Daemon, Sandbox},
    terminal::{SIZE, environment},
    waiting::until,
};

/// A number of joins and leaves with more log lines than any pipe or terminal holds.
const SOME: usize = 1_000;

/// A number of joins and leaves with more log lines than the daemon's queue holds as well.
const MANY: usize = 3_000;

fn command(sandbox: &Sandbox) -> std::process::Command {
    let mut command = sandbox.command(["up", "--foreground"]);
    command.env("AGENT_RELAY_LOG", "trace");
    command
}

/// Lets agents join and leave, and then sends a message between two agents.
fn talk(sandbox: &Sandbox, joins: usize) {
    for _ in 0..joins {
        sandbox.join("Eve").leave();
    }
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    ann.send("Bob", "hello", json!({"requires_ack": true}));
    ann.expect("ACK");
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "hello");
}

#[track_caller]
fn down(sandbox: &Sandbox) {
    let down = sandbox.run(["down"]);
    assert!(down.status.success(), "{down:?}");
}

#[test]
fn unread_pipe_stops_nothing() {
    let sandbox = Sandbox::empty();
    let (reader, writer) = io::pipe().unwrap();
    let daemon = Daemon::start_into(&sandbox, command(&sandbox), writer);
    talk(&sandbox, SOME);
    down(&sandbox);
    assert!(daemon.await_end().success());
    drop(reader);
}

#[test]
fn pipe_read_late_gets_the_number_of_dropped_lines_and_the_last_line() {
    let sandbox = Sandbox::empty();
    let (reader, writer) = io::pipe().unwrap();
    let daemon = Daemon::start_into(&sandbox, command(&sandbox), writer);
    talk(&sandbox, MANY);
    let mut log = BufReader::new(reader).lines().map(Result::unwrap);
    assert!(log.next().unwrap().contains("listening at"));
    // All lines of the queue are read before the stop, which waits only a second for the rest.
    log.find(|line| line.ends_with(" lines of the log were dropped")).unwrap();
    let last = thread::spawn(move || log.last());
    down(&sandbox);
    assert!(daemon.await_end().success());
    let last = last.join().unwrap().unwrap();
    assert!(last.ends_with(" INFO stopped"), "{last}");
}

#[test]
fn unread_terminal_stops_nothing() {
    let sandbox = Sandbox::empty();
    let program = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let (endpoint, home) = (sandbox.endpoint(), sandbox.home());
    let line = ["--endpoint", endpoint.as_text(), "--home", home.to_str().unwrap()];
    let line = line.into_iter().chain(["up", "--foreground"]).map(OsString::from);
    let command: Vec<_> = [program.into_os_string()].into_iter().chain(line).collect();
    let mut env = environment(&sandbox);
    env.push(("AGENT_RELAY_LOG".into(), Some("trace".into())));
    let terminal = Pty::spawn(&command, &env, Some(sandbox.directory()), SIZE).unwrap();
    // This terminal is not read further. On Windows, its first output is a question, and without
    // the answer it does not start the command.
    let mut reader = terminal.reader().unwrap();
    assert_ne!(reader.read(&mut [0; 1024]).unwrap(), 0);
    until("the daemon listens", || Stream::connect(&endpoint).is_ok());
    talk(&sandbox, SOME);
    down(&sandbox);
    drop((reader, terminal));
}
