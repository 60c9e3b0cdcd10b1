//! Messages read from the screens of wrapped CLIs, for CLIs without a transcript.
//!
//! Each test reports how much of the corpus arrives exactly, except for markup that the CLI does
//! not show.

use crate::{
    cli::{Agent, Cli, Workspace},
    peer::Peer,
    rendering::{check_shown, shown},
};
use client::Event;
use platform::pty::Size;
use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant},
};
use testkit::{
    bodies::{Body, bodies},
    model::{Asked, Model, Reply},
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::WATCHDOG,
};

/// The number of messages that an agent sends in one reply.
const AT_A_TIME: usize = 5;

/// The number of characters in a piece of a reply, and the delay between pieces: 4 KB a second, ten
/// times the speed of a real model.
///
/// Codex repaints at intervals, and never shows rows that scroll by more than a screen between two
/// repaints, so replies must not be faster.
const PIECE: usize = 40;
const DELAY: Duration = Duration::from_millis(10);

/// The minimum share of bodies that must arrive exactly, in percent.
const EXACT_MIN: usize = 80;

/// The height of the terminal; many bodies are longer.
const ROWS: u16 = 40;

/// The interval between two changes of size.
const RESIZE_INTERVAL: Duration = Duration::from_millis(150);

/// How long a submitted prompt may take to reach the model before Enter is pressed again.
const ASKED: Duration = Duration::from_secs(5);

/// The interval between searches of the requests for a prompt.
const POLL: Duration = Duration::from_millis(10);

/// How long it takes at most until a silent agent's turn counts as over, whatever its screen shows.
const TURN_OVER: Duration = Duration::from_secs(120);

/// The `thread` of the last message, which marks the end.
const END: &str = "end";

/// A message that a peer has received.
#[derive(Debug)]
struct Received {
    to: &'static str,
    thread: Option<String>,
    body: String,
}

/// The results for all bodies, by name.
#[derive(Default)]
struct Outcome {
    /// The number of bodies that arrived exactly.
    exact: usize,
    altered: Vec<String>,
    lost: Vec<String>,
    duplicated: Vec<String>,
    /// Messages that the agent did not send.
    invented: Vec<String>,
}

/// A message to Bob as written by the agent, with a thread that identifies the body.
fn relay_message(tag: &str, body: &str) -> String {
    let body =
        body.replace("<<<", "\\<<<").replace(">>>", "\\>>>").replace("->relay:", "\\->relay:");
    format!("->relay:Bob [thread:{tag}] <<<\n{body}>>>")
}

fn tag(number: usize) -> String {
    format!("n{number}")
}

/// Returns the agent's replies. Each contains several messages.
///
/// A `>>>` after a body that ends with a fence leaves the fence open in the CLIs' Markdown, so such
/// a message is the last one in its reply.
fn turns(bodies: &[Body]) -> Vec<String> {
    let mut turns: Vec<Vec<String>> = vec![Vec::new()];
    for (number, body) in bodies.iter().enumerate() {
        let last = turns.last_mut().unwrap();
        last.push(relay_message(&tag(number), &body.text));
        if last.len() == AT_A_TIME || shown(&body.text).leaves_a_fence_open {
            turns.push(Vec::new());
        }
    }
    turns.retain(|turn| !turn.is_empty());
    let reply =
        |messages: &Vec<String>| format!("I tell Bob.\n\n{}\n\nDone.", messages.join("\n\n"));
    turns.iter().map(reply).collect()
}

/// A model that answers `Tell part N` with the N-th reply. After the last reply, it answers with
/// the [`END`] message.
fn model(turns: &[String]) -> Model {
    let (turns, end) = (turns.to_vec(), relay_message(END, "That was all."));
    Model::start(move |asked: &Asked| {
        let number = asked.prompt.split_once("Tell part ").and_then(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
        });
        // The wrapper may also report text that it did not understand.
        let text = number.map(|number| turns.get(number).unwrap_or(&end));
        let text = text.map_or("Noted.", String::as_str);
        Reply::new().says(text).in_pieces_of(PIECE).with_delay(DELAY)
    })
}

/// Starts two peers, and returns a channel of all messages that they receive.
fn start_peers(sandbox: &Sandbox) -> Receiver<Received> {
    let (sender, received) = mpsc::channel();
    for name in ["Bob", "Cid"] {
        listen(Peer::join(sandbox, name), name, sender.clone());
    }
    received
}

fn listen(peer: Peer, to: &'static str, sender: Sender<Received>) {
    thread::spawn(move || {
        for event in peer.0.events() {
            let Event::Delivered(delivery) = event else { continue };
            peer.0.acknowledge(&delivery.id);
            let thread = delivery.thread.clone();
            if sender.send(Received { to, thread, body: delivery.body }).is_err() {
                return;
            }
        }
    });
}

/// Adds the messages that arrive before the [`END`] message. Returns whether that message arrives
/// in time.
fn receive_until_the_end(
    received: &Receiver<Received>,
    all: &mut Vec<Received>,
    time: Duration,
) -> bool {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(message) = received.recv_timeout(left) else { return false };
        if message.thread.as_deref() == Some(END) {
            return true;
        }
        all.push(message);
    }
}

/// Plays the turns, calls `meanwhile` during each answer, and returns all received messages. Each
/// of `end_times` is the timeout for an [`END`] message; the last one is for the last attempt.
fn play(
    cli: Cli,
    columns: u16,
    turns: &[String],
    wait_until_ready: impl Fn(&Agent),
    meanwhile: impl Fn(&Terminal, &mut dyn FnMut() -> bool),
    end_times: &[Duration],
) -> Vec<Received> {
    let (model, sandbox) = (model(turns), Sandbox::new());
    let received = start_peers(&sandbox);
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let size = Size { rows: ROWS, cols: columns };
    let mut agent = workspace.wrap_with(&["-n", "Ann", "--grid"], size, &[]);
    let (mut count, mut all) = (0, Vec::new());
    for number in 0..turns.len() + end_times.len() {
        wait_until_ready(&agent);
        let prompt = format!("Tell part {number}");
        submit(&mut agent, &model, &prompt);
        // The wrapper may have typed a notice before the prompt.
        while !agent.with_screen_on_panic(|| {
            model.wait_for_requests(count + 1)[count].prompt.contains(&prompt)
        }) {
            count += 1;
        }
        count += 1;
        thread::scope(|scope| {
            let answer = scope.spawn(|| model.wait_for_answers(count));
            if number < turns.len() {
                meanwhile(&agent.terminal, &mut || answer.is_finished());
            }
            answer.join().unwrap();
        });
        let time = number.checked_sub(turns.len()).map(|attempt| end_times[attempt]);
        if time.is_some_and(|time| receive_until_the_end(&received, &mut all, time)) {
            return all;
        }
    }
    panic!("the last message does not arrive:\n{}", agent.terminal.text())
}

/// Submits a prompt, and presses Enter a second time if the model is not asked.
///
/// Gemini CLI may take the first Enter as part of the paste. After a resize, old text on the screen
/// hides this from [`Agent::ensure_submitted`].
fn submit(agent: &mut Agent, model: &Model, prompt: &str) {
    agent.submit(prompt);
    let is_asked = || model.wait_for_requests(0).iter().any(|asked| asked.prompt.contains(prompt));
    let end = Instant::now() + ASKED;
    while !is_asked() && Instant::now() < end {
        thread::sleep(POLL);
    }
    if !is_asked() {
        agent.terminal.press("\r");
    }
}

/// Compares the received messages with the bodies.
fn judge(cli: Cli, bodies: &[Body], received: Vec<Received>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut by_tag: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Received { to, thread, body } in received {
        match thread {
            Some(thread) if to == "Bob" => by_tag.entry(thread).or_default().push(body),
            _ => outcome.invented.push(format!("to {to}: {body:?}")),
        }
    }
    for (number, body) in bodies.iter().enumerate() {
        let received = by_tag.remove(&tag(number)).unwrap_or_default();
        match &received[..] {
            [] => outcome.lost.push(body.name.clone()),
            [text] => match check_shown(cli, &shown(&body.text), text) {
                Ok(()) => outcome.exact += 1,
                Err(why) => outcome.altered.push(format!("{}: {why}", body.name)),
            },
            texts => outcome.duplicated.push(format!("{}: {texts:?}", body.name)),
        }
    }
    outcome.invented.extend(by_tag.into_keys());
    outcome
}

/// Returns a predicate for messages that the agent only quoted: the body escaped the opener with a
/// backslash, but the CLI does not show it.
fn is_unescaped(bodies: &[Body]) -> impl Fn(&String) -> bool {
    let bodies: Vec<String> = bodies.iter().map(|body| body.text.clone()).collect();
    move |invented| {
        let openers = bodies.iter().flat_map(|body| body.lines());
        let mut bare = openers.filter_map(|line| line.strip_prefix("->relay:Cid <<<"));
        bare.any(|words| invented.contains(words.trim_end_matches(">>>")))
    }
}

fn messages_are_read_from_the_grid(cli: Cli) {
    for (columns, bodies) in bodies() {
        let ready = Agent::wait_until_idle;
        let received = play(cli, columns, &turns(&bodies), ready, |_, _| {}, &[WATCHDOG]);
        let outcome = judge(cli, &bodies, received);
        let Outcome { exact, altered, lost, duplicated, mut invented } = outcome;
        let unescaped = is_unescaped(&bodies);
        let backslashes = invented.extract_if(.., |text| cli != Cli::Gemini && unescaped(text));
        let backslashes: Vec<_> = backslashes.collect();
        let percent = exact * 100 / bodies.len();
        let name = cli.name();
        eprintln!("{name}, {columns} columns: {exact} of {} exact, {percent} %", bodies.len());
        for (result, items) in [("altered", &altered), ("lost", &lost), ("unescaped", &backslashes)]
        {
            items.iter().for_each(|item| eprintln!("  {result}: {item}"));
        }
        assert_eq!(duplicated, [""; 0], "{name}, {columns} columns: nothing is duplicated");
        assert_eq!(invented, [""; 0], "{name}, {columns} columns: nothing is invented");
        assert!(percent >= EXACT_MIN, "{name}, {columns} columns: {percent} % exact");
    }
}

#[test]
fn claude_messages_are_read_from_the_grid() {
    messages_are_read_from_the_grid(Cli::Claude);
}

#[test]
fn codex_messages_are_read_from_the_grid() {
    messages_are_read_from_the_grid(Cli::Codex);
}

#[test]
fn gemini_messages_are_read_from_the_grid() {
    messages_are_read_from_the_grid(Cli::Gemini);
}

/// Checks that no message is repeated while the user resizes the window during replies. Messages
/// may be lost then, also in the next turn: a fence stays open if its end was not seen, until the
/// wrapper has seen the turn's end. Later messages arrive.
fn resized_screen_repeats_no_message(cli: Cli) {
    let (columns, bodies) = bodies().into_iter().find(|&(columns, _)| columns == 100).unwrap();
    let bodies: Vec<Body> = bodies.into_iter().filter(|body| body.text.len() < 3_000).collect();
    let bodies = &bodies[bodies.len().saturating_sub(AT_A_TIME * 3)..];
    let resize = |terminal: &Terminal, is_over: &mut dyn FnMut() -> bool| {
        for cols in [70, 120, 90, 60, columns].into_iter().cycle() {
            terminal.resize(Size { rows: ROWS, cols });
            if cols == columns && is_over() {
                return;
            }
            thread::sleep(RESIZE_INTERVAL);
        }
    };
    // A resize may leave old text on the screen that looks like a sign of work, so only the first
    // wait can be for an idle screen.
    let started = Cell::new(false);
    let wait_until_ready = |agent: &Agent| match started.replace(true) {
        true => agent.wait_until_still(),
        false => agent.wait_until_idle(),
    };
    let end_times = [TURN_OVER, WATCHDOG];
    let received = play(cli, columns, &turns(bodies), wait_until_ready, resize, &end_times);
    let Outcome { exact, altered, lost, duplicated, .. } = judge(cli, bodies, received);
    let (name, all) = (cli.name(), bodies.len());
    eprintln!("{name}, resized: {exact} of {all} exact, altered {altered:?}, lost {lost:?}");
    assert_eq!(duplicated, [""; 0], "{name}: nothing is duplicated");
}

#[test]
fn claude_resized_screen_repeats_no_message() {
    resized_screen_repeats_no_message(Cli::Claude);
}

#[test]
fn codex_resized_screen_repeats_no_message() {
    resized_screen_repeats_no_message(Cli::Codex);
}

#[test]
fn gemini_resized_screen_repeats_no_message() {
    resized_screen_repeats_no_message(Cli::Gemini);
}

/// The number of rows that a tool prints. The CLI shows all of them while details are on.
const PRINTED: usize = 150;

/// A model that sends a word on request, or prints a long file with a command.
fn file_printing_model() -> Model {
    Model::start(|asked: &Asked| {
        let message = |word: &str| format!("I tell Bob.\n\n->relay:Bob <<<\n{word}>>>\n\nDone.");
        let prompt = asked.prompt.trim();
        if prompt.starts_with("[relay ") {
            // The wrapper may report rows that it read while they were painted.
            Reply::new().says("Noted.")
        } else if asked.result.is_some() {
            Reply::new().says(message("after the file"))
        } else if prompt == "Show the file." {
            Reply::new().says(message("before the file")).runs("cat long.txt")
        } else {
            let unknown = format!("an unknown prompt: {prompt:?}");
            Reply::new().says(message(prompt.strip_prefix("Say ").unwrap_or(&unknown)))
        }
    })
}

/// Toggles the details of tools' output with the CLI's key.
fn toggle_details(agent: &mut Agent) {
    agent.terminal.press(if agent.cli == Cli::Codex { "\x14" } else { "\x0f" });
}

/// Makes the agent send a word, and checks that Bob receives it next.
#[track_caller]
fn send_word(agent: &mut Agent, bob: &Peer, word: &str) {
    agent.wait_until_idle();
    agent.wait_until_still();
    agent.submit(&format!("Say {word}"));
    assert_eq!(bob.receive_text(agent), word);
    agent.wait_until_idle();
}

#[track_caller]
fn show_the_file(agent: &mut Agent, bob: &Peer) {
    agent.wait_until_still();
    agent.submit("Show the file.");
    assert_eq!(bob.receive_text(agent), "before the file");
    let (question, yes) = agent.cli.permission();
    let end = "after the file";
    // Some CLIs do not ask before they read a file.
    let is_shown = |text: &str| text.contains(question) || text.contains(end);
    agent.terminal.wait_until("a dialog, or the answer", is_shown);
    if !agent.terminal.text().contains(end) {
        agent.answer(question, yes);
    }
    assert_eq!(bob.receive_text(agent), end);
}

/// Checks that no message is repeated when the user toggles the details of tools' output many
/// times.
fn toggled_details_repeat_no_message(cli: Cli) {
    let (model, sandbox) = (file_printing_model(), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let file: String = (0..PRINTED).map(|number| format!("row {number}\n")).collect();
    fs::write(workspace.project().join("long.txt"), file).unwrap();
    let size = Size { rows: ROWS, cols: 100 };
    let mut agent = workspace.wrap_with(&["-n", "Ann", "--grid"], size, &[]);
    for word in ["one", "two"] {
        send_word(&mut agent, &bob, word);
    }
    show_the_file(&mut agent, &bob);
    for word in ["three", "four", "five", "six", "seven", "eight"] {
        send_word(&mut agent, &bob, word);
        for _ in 0..4 {
            toggle_details(&mut agent);
            agent.wait_until_still();
            // The wrapper reads rows only after they have stayed unchanged for some time.
            agent.wait_until_still();
        }
    }
    for word in ["nine", "the end"] {
        send_word(&mut agent, &bob, word);
    }
}

#[test]
fn claude_toggled_details_repeat_no_message() {
    toggled_details_repeat_no_message(Cli::Claude);
}

#[test]
fn codex_toggled_details_repeat_no_message() {
    toggled_details_repeat_no_message(Cli::Codex);
}

#[test]
fn gemini_toggled_details_repeat_no_message() {
    toggled_details_repeat_no_message(Cli::Gemini);
}
