//! Latency between agents and the relay, printed but not judged: it depends on the machine.

use crate::{
    cli::{Agent, Cli, Workspace},
    peer::{Peer, relay_line, start_ann, start_ann_with},
};
use platform::pty::Size;
use std::{
    env, fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
use testkit::{
    model::{Model, Reply},
    sandbox::Sandbox,
    waiting::WATCHDOG,
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// The number of measurements, in a normal and in a full run.
const ROUNDS: usize = 4;
const ROUNDS_ALL: usize = 20;

/// How long a test waits after the last key, so that the user counts as away.
const UNTOUCHED: Duration = Duration::from_millis(1200);

/// The interval between checks of a transcript.
const POLL: Duration = Duration::from_millis(1);

fn rounds() -> usize {
    if env::var_os("AGENT_RELAY_AGENTS_ALL").is_some() { ROUNDS_ALL } else { ROUNDS }
}

#[track_caller]
fn report(measurement: &str, cli: Cli, mut times: Vec<Duration>) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_millis();
    let (half, most, last) = (at(50), at(95), at(100));
    eprintln!(
        "latency: {measurement}, {}: p50 {half} ms, p95 {most} ms, max {last} ms",
        cli.name()
    );
}

/// Waits until a transcript contains a text, and returns that time.
fn await_text(workspace: &Workspace<'_>, text: &str) -> Instant {
    let has = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|all| all.contains(text));
    let end = Instant::now() + WATCHDOG;
    while !workspace.transcripts().iter().any(has) {
        assert!(Instant::now() < end, "{text:?} is in no transcript");
        thread::sleep(POLL);
    }
    Instant::now()
}

/// A model that sends the prompt's word to Bob.
fn model() -> Model {
    Model::start(|asked| match asked.prompt.strip_prefix("Say ") {
        Some(word) => Reply::new().says(relay_line("Bob", word)),
        None => Reply::new().says("Noted."),
    })
}

/// Measures the time from a record in the transcript to the recipient, and from a sender to the
/// model.
fn measure_transcript_latency(cli: Cli) {
    let model = model();
    let sandbox = Sandbox::new();
    let bob = Peer::join(&sandbox, "Bob");
    let (workspace, mut agent) = start_ann(&sandbox, cli, &model, SIZE.cols);
    let (mut received, mut asked) = (Vec::new(), Vec::new());
    for number in 0..rounds() {
        model.wait_for_answers(2 * number);
        agent.wait_until_idle();
        let word = format!("word-{number}-that-is-said");
        agent.submit(&format!("Say {word}"));
        // The prompt contains the word, too, so the whole line is searched for.
        let line = relay_line("Bob", &word);
        let (written, at) = thread::scope(|scope| {
            let written = scope.spawn(|| await_text(&workspace, &line));
            let at = bob.receive_at(&agent, &word);
            (written.join().unwrap(), at)
        });
        received.push(at.saturating_duration_since(written));
        wait_until_at_rest(&agent, &model, 2 * number + 1);
        let sent = bob.send_accepted(&agent, "Ann", &format!("number {number}"));
        let requests = agent.with_screen_on_panic(|| model.wait_for_requests(2 * number + 2));
        asked.push(requests[2 * number + 1].at.saturating_duration_since(sent));
    }
    report("from the transcript to the recipient", cli, received);
    report("from the sender to the model", cli, asked);
    report("from Enter to the model, without the wrapper", cli, measure_bare_cli(cli));
}

/// Measures the time until the recipient has a message: since the screen shows the message, and
/// since the last byte of output.
fn measure_grid_latency(cli: Cli) {
    let (model, sandbox) = (model(), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let (_workspace, mut agent) = start_ann_with(&sandbox, cli, &model, SIZE.cols, &["--grid"]);
    let (mut since_shown, mut since_painted) = (Vec::new(), Vec::new());
    for number in 0..rounds() {
        model.wait_for_answers(number);
        agent.wait_until_idle();
        let word = format!("word-{number}-that-is-said");
        agent.submit(&format!("Say {word}"));
        let (shown, received, painted) = thread::scope(|scope| {
            let shown = scope.spawn(|| {
                agent.terminal.wait_for(&format!("{word}>>>"));
                Instant::now()
            });
            let received = bob.receive_at(&agent, &word);
            (shown.join().unwrap(), received, agent.terminal.painted())
        });
        since_shown.push(received.saturating_duration_since(shown));
        since_painted.push(received.saturating_duration_since(painted));
    }
    report("from a message on the screen to the recipient", cli, since_shown);
    report("from the last byte on the screen to the recipient", cli, since_painted);
}

/// Waits until the model has sent `answers` answers, the CLI is idle, and the user counts as away.
#[track_caller]
fn wait_until_at_rest(agent: &Agent, model: &Model, answers: usize) {
    model.wait_for_answers(answers);
    agent.wait_until_idle();
    agent.wait_until_still();
    thread::sleep(UNTOUCHED);
}

/// Measures the time from Enter to the model, without the wrapper.
fn measure_bare_cli(cli: Cli) -> Vec<Duration> {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::empty());
    let workspace = Workspace::new(&sandbox, cli, &model, "bare");
    let mut agent = workspace.start(SIZE, &[]);
    let mut times = Vec::new();
    for number in 0..rounds() {
        agent.wait_until_idle();
        agent.paste(&format!("number {number}"));
        let entered = Instant::now();
        agent.terminal.press("\r");
        agent.ensure_submitted();
        let requests = agent.with_screen_on_panic(|| model.wait_for_requests(number + 1));
        times.push(requests[number].at.saturating_duration_since(entered));
        model.wait_for_answers(number + 1);
    }
    times
}

#[test]
fn claude_transcript_latency_is_measured() {
    measure_transcript_latency(Cli::Claude);
}

#[test]
fn codex_transcript_latency_is_measured() {
    measure_transcript_latency(Cli::Codex);
}

#[test]
fn gemini_transcript_latency_is_measured() {
    measure_transcript_latency(Cli::Gemini);
}

#[test]
fn claude_grid_latency_is_measured() {
    measure_grid_latency(Cli::Claude);
}

#[test]
fn codex_grid_latency_is_measured() {
    measure_grid_latency(Cli::Codex);
}

#[test]
fn gemini_grid_latency_is_measured() {
    measure_grid_latency(Cli::Gemini);
}
