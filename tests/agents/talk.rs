//! Two wrapped CLIs talk to each other, and nobody sits at either.

use crate::{
    agent::{Agent, Household, Kind},
    model::{Asked, Model, Reply},
    other::{Other, framed, says_to},
    sandbox::Sandbox,
};
use platform::pty::Size;
use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// One terminal is larger and smaller in turn, every second.
const SIZES: [Size; 3] = [Size { rows: 30, cols: 70 }, Size { rows: 45, cols: 120 }, SIZE];
const RESIZED_EVERY: Duration = Duration::from_secs(1);

/// What begins it.
const BEGIN: &str = "Count with the other one.";

/// Says the next number to the other one, up to the last.
fn counts_with(other: &'static str, last: usize) -> impl FnMut(&Asked) -> Reply + Send + 'static {
    move |asked| {
        let heard = if asked.prompt == BEGIN { 0 } else { number(&asked.prompt) };
        match heard < last {
            true => Reply::new().says(format!(
                "I have heard of {heard}.\n\n{}\n\nThat is what I say.",
                says_to(
                    other,
                    &format!("Number {} of {last}, which is `{heard}` and one.", heard + 1)
                )
            )),
            false => Reply::new().says("That was all."),
        }
    }
}

/// Which number somebody was asked with.
#[track_caller]
fn number(prompt: &str) -> usize {
    let said = framed(prompt).strip_prefix("Number ").unwrap_or_else(|| panic!("{prompt}"));
    said.split(' ').next().unwrap().parse().unwrap()
}

fn talk(kinds: [Kind; 2], turns: usize) {
    let models = [Model::start(counts_with("Cid", turns)), Model::start(counts_with("Ann", turns))];
    let sandbox = Sandbox::new();
    let bob = Other::join(&sandbox, "Bob");
    let households = ["ann", "cid"].map(|name| {
        let place = usize::from(name == "cid");
        Household::new(&sandbox, kinds[place], &models[place], name)
    });
    let mut ann = households[0].wrap("Ann", SIZE, &[]);
    let cid = households[1].wrap("Cid", SIZE, &[]);
    ann.wait_until_idle();
    cid.wait_until_idle();
    ann.submit(BEGIN);
    let (stop, stopped) = mpsc::channel::<()>();
    thread::scope(|scope| {
        // Moved, so that a failure ends it, too.
        let _stop = stop;
        scope.spawn(|| resize(&cid, stopped));
        for number in 1..=turns {
            let place = number % 2;
            let count = number.div_ceil(2) + usize::from(place == 0);
            ann.while_running(|| cid.while_running(|| models[place].asked(count)));
        }
    });
    // What came twice would have come before.
    for name in ["Ann", "Cid"] {
        bob.send(name, &format!("Number {} is no part of it.", turns + 1));
    }
    let odd = turns.div_ceil(2);
    let asked = models[1].asked(odd + 1);
    let numbers: Vec<usize> = asked.iter().map(|asked| number(&asked.prompt)).collect();
    assert_eq!(numbers, (1..=turns).step_by(2).chain([turns + 1]).collect::<Vec<_>>());
    let asked = models[0].asked(turns - odd + 2);
    assert_eq!(asked[0].prompt, BEGIN);
    let numbers: Vec<usize> = asked[1..].iter().map(|asked| number(&asked.prompt)).collect();
    assert_eq!(numbers, (2..=turns).step_by(2).chain([turns + 1]).collect::<Vec<_>>());
}

/// Until there is nobody any more who could stop it.
fn resize(agent: &Agent, stopped: mpsc::Receiver<()>) {
    let mut sizes = SIZES.into_iter().cycle();
    while stopped.recv_timeout(RESIZED_EVERY) == Err(RecvTimeoutError::Timeout) {
        agent.terminal.resize(sizes.next().unwrap());
    }
}

#[test]
fn claude_and_codex_talk_for_fifty_turns() {
    talk([Kind::Claude, Kind::Codex], 50);
}

#[test]
fn codex_and_claude_talk_while_the_other_is_resized() {
    talk([Kind::Codex, Kind::Claude], 10);
}

#[test]
fn gemini_and_claude_talk() {
    talk([Kind::Gemini, Kind::Claude], 10);
}

#[test]
fn codex_and_gemini_talk() {
    talk([Kind::Codex, Kind::Gemini], 10);
}
