//! Two wrapped CLIs that exchange messages without a user.

use crate::{
    cli::{Agent, Cli, Workspace},
    loops::set_wake_budget,
    peer::{Peer, frame_body, relay_line},
};
use platform::pty::Size;
use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};
use testkit::{
    model::{Asked, Model, Reply},
    sandbox::Sandbox,
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// The sizes of one of the two terminals, in turn.
const SIZES: [Size; 3] = [Size { rows: 30, cols: 70 }, Size { rows: 45, cols: 120 }, SIZE];
const RESIZE_INTERVAL: Duration = Duration::from_secs(1);

/// The prompt that starts the exchange.
const BEGIN: &str = "Count with the other agent.";

/// A script that sends the number after the received one to the other agent, up to `last`.
fn counts_with(other: &'static str, last: usize) -> impl FnMut(&Asked) -> Reply + Send + 'static {
    move |asked| {
        let received = if asked.prompt == BEGIN { 0 } else { number(&asked.prompt) };
        match received < last {
            true => Reply::new().says(format!(
                "I have received {received}.\n\n{}\n\nThat is my answer.",
                relay_line(
                    other,
                    &format!("Number {} of {last}, which follows `{received}`.", received + 1)
                )
            )),
            false => Reply::new().says("That was all."),
        }
    }
}

/// The number in a received message.
#[track_caller]
fn number(prompt: &str) -> usize {
    let body = frame_body(prompt).strip_prefix("Number ").unwrap_or_else(|| panic!("{prompt}"));
    body.split(' ').next().unwrap().parse().unwrap()
}

fn talk(clis: [Cli; 2], turns: usize) {
    let models = [Model::start(counts_with("Cid", turns)), Model::start(counts_with("Ann", turns))];
    let sandbox = Sandbox::new();
    set_wake_budget(&sandbox, 2 * turns);
    let bob = Peer::join(&sandbox, "Bob");
    let workspaces = ["ann", "cid"].map(|name| {
        let index = usize::from(name == "cid");
        Workspace::new(&sandbox, clis[index], &models[index], name)
    });
    let mut ann = workspaces[0].wrap("Ann", SIZE, &[]);
    let cid = workspaces[1].wrap("Cid", SIZE, &[]);
    ann.wait_until_idle();
    cid.wait_until_idle();
    ann.submit(BEGIN);
    let (stop, stopped) = mpsc::channel::<()>();
    thread::scope(|scope| {
        // The sender is moved into the scope, so that a panic also drops it and ends the thread.
        let _stop = stop;
        scope.spawn(|| resize(&cid, stopped));
        for number in 1..=turns {
            let index = number % 2;
            let count = number.div_ceil(2) + usize::from(index == 0);
            ann.with_screen_on_panic(|| {
                cid.with_screen_on_panic(|| models[index].wait_for_requests(count))
            });
        }
    });
    // Messages arrive in order, so a duplicate would have arrived before this message.
    for name in ["Ann", "Cid"] {
        bob.send(name, &format!("Number {} is no part of it.", turns + 1));
    }
    let odd = turns.div_ceil(2);
    let asked = models[1].wait_for_requests(odd + 1);
    let numbers: Vec<usize> = asked.iter().map(|asked| number(&asked.prompt)).collect();
    assert_eq!(numbers, (1..=turns).step_by(2).chain([turns + 1]).collect::<Vec<_>>());
    let asked = models[0].wait_for_requests(turns - odd + 2);
    assert_eq!(asked[0].prompt, BEGIN);
    let numbers: Vec<usize> = asked[1..].iter().map(|asked| number(&asked.prompt)).collect();
    assert_eq!(numbers, (2..=turns).step_by(2).chain([turns + 1]).collect::<Vec<_>>());
}

/// Resizes the terminal repeatedly until the channel closes.
fn resize(agent: &Agent, stopped: mpsc::Receiver<()>) {
    let mut sizes = SIZES.into_iter().cycle();
    while stopped.recv_timeout(RESIZE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        agent.terminal.resize(sizes.next().unwrap());
    }
}

#[test]
fn claude_and_codex_talk_for_fifty_turns() {
    talk([Cli::Claude, Cli::Codex], 50);
}

#[test]
fn codex_and_claude_talk_while_one_is_resized() {
    talk([Cli::Codex, Cli::Claude], 10);
}

#[test]
fn gemini_and_claude_talk() {
    talk([Cli::Gemini, Cli::Claude], 10);
}

#[test]
fn codex_and_gemini_talk() {
    talk([Cli::Codex, Cli::Gemini], 10);
}
