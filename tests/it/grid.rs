//! Messages extracted from the screen of a full-screen program that shows its text unchanged.

use crate::wrap::fullscreen;
use client::{Client, Event, Settings};
use platform::pty::Size;
use std::{collections::BTreeMap, fs, path, time::Instant};
use testkit::{
    bodies::{Body, all},
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::WATCHDOG,
};

/// The minimum share of bodies that must arrive exactly, in percent.
const EXACT_MIN: usize = 95;

/// The tag of the last message.
const END: &str = "end";

/// A message with a tag that identifies it.
fn message(tag: &str, body: &str) -> String {
    let body =
        body.replace("<<<", "\\<<<").replace(">>>", "\\>>>").replace("->relay:", "\\->relay:");
    format!("->relay:Bob [thread:{tag}] <<<\n{body}>>>")
}

/// Returns the bodies that Bob receives until the last message, by their tags.
fn receive_all(bob: &Client, terminal: &Terminal) -> BTreeMap<String, Vec<String>> {
    let (mut received, end) = (BTreeMap::<_, Vec<_>>::new(), Instant::now() + WATCHDOG);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let event = bob.events().recv_timeout(left);
        let event = event.unwrap_or_else(|_| panic!("no end:\n{}", terminal.text()));
        let Event::Delivered(delivery) = event else { continue };
        bob.acknowledge(&delivery.id);
        let tag = delivery.thread.expect("a tag");
        if tag == END {
            return received;
        }
        received.entry(tag).or_default().push(delivery.body);
    }
}

/// Shows all bodies, several in a reply, and checks how many arrive exactly.
fn check(columns: u16, options: &[&str]) {
    let sandbox = Sandbox::new();
    let bob = Client::join(Settings::agent(sandbox.endpoint().as_text(), "Bob")).unwrap();
    let wrap = path::absolute(env!("CARGO_BIN_EXE_agent-relay-wrap")).unwrap();
    let program = fullscreen();
    let command = [&[wrap.to_str().unwrap(), "-n", "Ann", "--", &program], options].concat();
    let mut ann = Terminal::run_in(&sandbox, &command, Size { rows: 40, cols: columns });
    let bodies = all();
    let tagged: Vec<_> =
        (0..).zip(&bodies).map(|(n, body)| message(&format!("n{n}"), &body.text)).collect();
    let replies = tagged.chunks(10).map(|messages| messages.join("\n\n"));
    for (number, reply) in replies.chain([message(END, "all")]).enumerate() {
        let file = sandbox.directory().join(format!("{number}.txt"));
        fs::write(&file, reply + &format!("\n\nThat was reply {number}.")).unwrap();
        ann.wait_for_row(">");
        ann.press(&format!("read {number}.txt\r"));
        ann.wait_for(&format!("That was reply {number}."));
    }
    let mut received = receive_all(&bob, &ann);
    let mut inexact = Vec::new();
    for (n, Body { name, text }) in bodies.iter().enumerate() {
        let arrived = received.remove(&format!("n{n}")).unwrap_or_default();
        assert!(arrived.len() < 2, "{name} arrived twice at {columns} columns");
        if arrived.first().map(String::as_str) != Some(text.trim_matches([' ', '\t', '\r', '\n'])) {
            inexact.push((name, arrived));
        }
    }
    assert!(received.is_empty(), "never sent: {received:?}");
    let exact = bodies.len() - inexact.len();
    let names: Vec<_> = inexact.iter().map(|(name, _)| name).collect();
    eprintln!("{columns} columns: {exact} of {} exact, not {names:?}", bodies.len());
    assert!(exact * 100 >= EXACT_MIN * bodies.len(), "{inexact:?}");
}

#[test]
fn messages_of_a_program_that_moves_up_are_extracted() {
    for columns in [60, 100, 200] {
        check(columns, &[]);
    }
}

#[test]
fn messages_of_a_program_on_the_alternate_screen_are_extracted() {
    for columns in [60, 100, 200] {
        check(columns, &["--alternate"]);
    }
}
