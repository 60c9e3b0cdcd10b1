//! The example of the Rust client library, as in another project's program.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
};
use testkit::{
    programs::{Running, example_program},
    sandbox::Sandbox,
    waiting::{WATCHDOG, assert_success, output, wait},
};

fn agent(sandbox: &Sandbox, words: &[&str]) -> Command {
    let mut command = sandbox.program(example_program("agent"));
    command.env("AGENT_RELAY_HOME", sandbox.home());
    command.env("AGENT_RELAY_ENDPOINT", sandbox.endpoint().as_text()).args(words);
    command
}

fn printed(output: &Output) -> &str {
    assert_success(output);
    str::from_utf8(&output.stdout).unwrap().trim_end()
}

#[test]
fn example_sends_asks_answers_and_survives_the_daemon() {
    let mut sandbox = Sandbox::new();
    let mut bob = agent(&sandbox, &["Bob"]);
    let mut bob = Running(bob.stdout(Stdio::piped()).spawn().unwrap());
    let out = bob.0.stdout.take().unwrap();
    let (print, lines) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(out).lines().try_for_each(|line| print.send(line.unwrap()))
    });
    let next_line = || lines.recv_timeout(WATCHDOG).expect("Bob prints a line");
    let run = |sandbox: &Sandbox, words: &[&str]| output(agent(sandbox, words));
    assert_eq!(next_line(), "joined as Bob");

    let answer = run(&sandbox, &["Ann", "ask", "Bob", "Which port?"]);
    assert_eq!(printed(&answer), r#"Bob answers "8080""#);
    assert_eq!(next_line(), r#"Ann says "Which port?""#);

    let refused = run(&sandbox, &["Ann", "send", "Bbo", "Hello"]);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("(UNKNOWN_AGENT)"), "{refused:?}");

    sandbox.kill();
    sandbox.start();
    assert_eq!(next_line(), "connected again");
    assert_eq!(printed(&run(&sandbox, &["Ann", "send", "Bob", "stop"])), "accepted");
    assert_eq!(next_line(), r#"Ann says "stop""#);
    assert!(wait(&mut bob.0, "Bob").success());
    assert_eq!(lines.recv().ok(), None, "Bob prints no more");
}
