//! How long it takes: printed, and judged by nobody but who reads it, since it is the machine's as much as ours.

use crate::{
    agent::{Agent, Household, Kind},
    model::{Model, Reply},
    other::{Other, ann, ann_with, says_to},
    sandbox::{Sandbox, WATCHDOG},
};
use platform::pty::Size;
use std::{
    env, fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// So often each is measured, and where all is wanted.
const TIMES: usize = 4;
const TIMES_ALL: usize = 20;

/// After this time since the last key a person counts as away.
const UNTOUCHED: Duration = Duration::from_millis(1200);

/// How often a file is looked at for what is to come in it.
const LOOK: Duration = Duration::from_millis(1);

fn how_often() -> usize {
    if env::var_os("AGENT_RELAY_AGENTS_ALL").is_some() { TIMES_ALL } else { TIMES }
}

#[track_caller]
fn tell(what: &str, kind: Kind, mut times: Vec<Duration>) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_millis();
    let (half, most, last) = (at(50), at(95), at(100));
    eprintln!("latency: {what}, {}: p50 {half} ms, p95 {most} ms, max {last} ms", kind.name());
}

/// When a text is in one of these files.
fn await_text(household: &Household<'_>, text: &str) -> Instant {
    let has = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|all| all.contains(text));
    let end = Instant::now() + WATCHDOG;
    while !household.transcripts().iter().any(has) {
        assert!(Instant::now() < end, "{text:?} is in no transcript");
        thread::sleep(LOOK);
    }
    Instant::now()
}

/// Says what it is asked to say.
fn model() -> Model {
    Model::start(|asked| match asked.prompt.strip_prefix("Say ") {
        Some(word) => Reply::new().says(says_to("Bob", word)),
        None => Reply::new().says("Noted."),
    })
}

/// From a record in the transcript to who listens, and from who sends to the question.
fn takes_so_long(kind: Kind) {
    let model = model();
    let sandbox = Sandbox::new();
    let bob = Other::join(&sandbox, "Bob");
    let (household, mut agent) = ann(&sandbox, kind, &model, SIZE.cols);
    let (mut heard, mut asked) = (Vec::new(), Vec::new());
    for number in 0..how_often() {
        model.answered(2 * number);
        agent.wait_until_idle();
        let word = format!("word-{number}-that-is-said");
        agent.submit(&format!("Say {word}"));
        // The prompt has it, too.
        let said = says_to("Bob", &word);
        let (written, at) = thread::scope(|scope| {
            let written = scope.spawn(|| await_text(&household, &said));
            let at = bob.hear_at(&agent, &word);
            (written.join().unwrap(), at)
        });
        heard.push(at.saturating_duration_since(written));
        rest(&agent, &model, 2 * number + 1);
        let sent = bob.hand_over(&agent, "Ann", &format!("number {number}"));
        let all = agent.while_running(|| model.asked(2 * number + 2));
        asked.push(all[2 * number + 1].at.saturating_duration_since(sent));
    }
    tell("from the transcript to the listener", kind, heard);
    tell("from the sender to the question", kind, asked);
    tell("from Enter to the question, by itself", kind, from_enter(kind));
}

/// From the screen to who listens: since it has shown a message, and since it has changed at all.
fn takes_so_long_off_the_screen(kind: Kind) {
    let (model, sandbox) = (model(), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let (_household, mut agent) = ann_with(&sandbox, kind, &model, SIZE.cols, &["--grid"]);
    let (mut since_shown, mut since_painted) = (Vec::new(), Vec::new());
    for number in 0..how_often() {
        model.answered(number);
        agent.wait_until_idle();
        let word = format!("word-{number}-that-is-said");
        agent.submit(&format!("Say {word}"));
        let (shown, heard, painted) = thread::scope(|scope| {
            let shown = scope.spawn(|| {
                agent.terminal.wait_for(&format!("{word}>>>"));
                Instant::now()
            });
            let heard = bob.hear_at(&agent, &word);
            (shown.join().unwrap(), heard, agent.terminal.painted())
        });
        since_shown.push(heard.saturating_duration_since(shown));
        since_painted.push(heard.saturating_duration_since(painted));
    }
    tell("from a message on the screen to the listener", kind, since_shown);
    tell("from the last byte on the screen to the listener", kind, since_painted);
}

/// The agent has answered so often, and rests for as long as it takes to be sure.
#[track_caller]
fn rest(agent: &Agent, model: &Model, answers: usize) {
    model.answered(answers);
    agent.wait_until_idle();
    agent.stand_still();
    // Nobody has touched a key for so long.
    thread::sleep(UNTOUCHED);
}

/// What the CLI itself needs.
fn from_enter(kind: Kind) -> Vec<Duration> {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::empty());
    let household = Household::new(&sandbox, kind, &model, "bare");
    let mut agent = household.start(SIZE, &[]);
    let mut times = Vec::new();
    for number in 0..how_often() {
        agent.wait_until_idle();
        agent.paste(&format!("number {number}"));
        let entered = Instant::now();
        agent.terminal.press("\r");
        agent.see_enter_taken();
        let all = agent.while_running(|| model.asked(number + 1));
        times.push(all[number].at.saturating_duration_since(entered));
        model.answered(number + 1);
    }
    times
}

#[test]
fn what_claude_says_and_is_told_takes_so_long() {
    takes_so_long(Kind::Claude);
}

#[test]
fn what_codex_says_and_is_told_takes_so_long() {
    takes_so_long(Kind::Codex);
}

#[test]
fn what_gemini_says_and_is_told_takes_so_long() {
    takes_so_long(Kind::Gemini);
}

#[test]
fn what_claude_shows_takes_so_long() {
    takes_so_long_off_the_screen(Kind::Claude);
}

#[test]
fn what_codex_shows_takes_so_long() {
    takes_so_long_off_the_screen(Kind::Codex);
}

#[test]
fn what_gemini_shows_takes_so_long() {
    takes_so_long_off_the_screen(Kind::Gemini);
}
