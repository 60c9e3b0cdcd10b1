//! What is read off the screens of wrapped CLIs, where nothing else is to be had: for each, how much of the
//! corpus is heard as it was said, but for what the CLI itself throws away.

use crate::{
    agent::{Agent, Household, Kind},
    corpus::{Body, bodies},
    model::{Asked, Model, Reply},
    other::Other,
    sandbox::{Sandbox, WATCHDOG},
    shown::{heard_as, shown},
    terminal::Terminal,
};
use agent_relay::client::Event;
use platform::pty::Size;
use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant},
};

/// Messages that an agent says in one reply.
const AT_A_TIME: usize = 5;

/// A model says 4 KB a second, ten times as many as a real one. Codex shows what comes in pictures; what
/// moves by more than a screen between two of them nobody ever sees.
const PIECE: usize = 40;
const PACE: Duration = Duration::from_millis(10);

/// The least that has to be heard exactly, in percent.
const EXACT_MIN: usize = 80;

/// The height of the terminal; many bodies are longer.
const ROWS: u16 = 40;

/// How often a person who resizes a window does so.
const RESIZE: Duration = Duration::from_millis(150);

/// What is submitted is asked within this time, or not at all; and is looked for so often.
const ASKED: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);

/// The tag of the last message.
const END: &str = "end";

/// What another agent has heard.
#[derive(Debug)]
struct Heard {
    to: &'static str,
    thread: Option<String>,
    body: String,
}

/// What became of each of the bodies.
#[derive(Default)]
struct Outcome {
    exact: usize,
    altered: Vec<String>,
    lost: Vec<String>,
    doubled: Vec<String>,
    invented: Vec<String>,
}

/// What an agent writes to say a body, by whose tag it is known again.
fn said(tag: &str, body: &str) -> String {
    let body =
        body.replace("<<<", "\\<<<").replace(">>>", "\\>>>").replace("->relay:", "\\->relay:");
    format!("->relay:Bob [thread:{tag}] <<<\n{body}>>>")
}

fn tag(number: usize) -> String {
    format!("n{number}")
}

/// Several to a turn; but `>>>` behind a fence leaves it open, as the CLIs understand Markdown, and all that
/// follows in the reply is code.
fn turns(bodies: &[Body]) -> Vec<String> {
    let mut turns: Vec<Vec<String>> = vec![Vec::new()];
    for (number, body) in bodies.iter().enumerate() {
        let last = turns.last_mut().unwrap();
        last.push(said(&tag(number), &body.text));
        if last.len() == AT_A_TIME || shown(&body.text).leaves_a_fence_open {
            turns.push(Vec::new());
        }
    }
    turns.retain(|turn| !turn.is_empty());
    let reply =
        |messages: &Vec<String>| format!("I tell Bob.\n\n{}\n\nDone.", messages.join("\n\n"));
    turns.iter().map(reply).collect()
}

/// Says each of the turns when it is asked for its number, and the end after the last.
fn model(turns: &[String]) -> Model {
    let turns = [turns, &[said(END, "That was all.")]].concat();
    Model::start(move |asked: &Asked| {
        let number = asked.prompt.split_once("Tell part ").and_then(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
        });
        // The wrapper says what it did not understand.
        let text = number.and_then(|number| turns.get(number)).map_or("Noted.", String::as_str);
        Reply::new().says(text).in_pieces_of(PIECE).with_delay(PACE)
    })
}

/// Agents who hear whatever is sent to them.
fn listeners(sandbox: &Sandbox) -> Receiver<Heard> {
    let (told, heard) = mpsc::channel();
    for name in ["Bob", "Cid"] {
        listen(Other::join(sandbox, name), name, told.clone());
    }
    heard
}

fn listen(other: Other, to: &'static str, told: Sender<Heard>) {
    thread::spawn(move || {
        for event in other.0.events() {
            let Event::Delivered(delivery) = event else { continue };
            other.0.acknowledge(&delivery.id);
            let thread = delivery.thread.clone();
            if told.send(Heard { to, thread, body: delivery.body }).is_err() {
                return;
            }
        }
    });
}

/// All that is heard until the end is.
#[track_caller]
fn heard_until_the_end(heard: &Receiver<Heard>) -> Vec<Heard> {
    let (mut all, end) = (Vec::new(), Instant::now() + WATCHDOG);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let one = heard.recv_timeout(left).expect("the last message is heard");
        if one.thread.as_deref() == Some(END) {
            return all;
        }
        all.push(one);
    }
}

/// Plays the turns, and what a person does while the answer comes that is waited for.
fn play(
    kind: Kind,
    columns: u16,
    turns: &[String],
    rests: impl Fn(&Agent),
    meanwhile: impl Fn(&Terminal, &mut dyn FnMut() -> bool),
) -> Vec<Heard> {
    let (model, sandbox) = (model(turns), Sandbox::new());
    let heard = listeners(&sandbox);
    let household = Household::new(&sandbox, kind, &model, "ann");
    let size = Size { rows: ROWS, cols: columns };
    let mut agent = household.wrap_with(&["-n", "Ann", "--grid"], size, &[]);
    let mut count = 0;
    for number in 0..=turns.len() {
        rests(&agent);
        let prompt = format!("Tell part {number}");
        submit(&mut agent, &model, &prompt);
        // The wrapper may have said something to the agent, too.
        while !agent.while_running(|| model.asked(count + 1)[count].prompt.contains(&prompt)) {
            count += 1;
        }
        count += 1;
        thread::scope(|scope| {
            let answer = scope.spawn(|| model.answered(count));
            if number < turns.len() {
                meanwhile(&agent.terminal, &mut || answer.is_finished());
            }
            answer.join().unwrap();
        });
    }
    agent.while_running(|| heard_until_the_end(&heard))
}

/// Submits a prompt. Gemini CLI takes an Enter for a part of what was pasted where it is late with that, and what
/// a resize leaves behind looks as if it had not.
fn submit(agent: &mut Agent, model: &Model, prompt: &str) {
    agent.submit(prompt);
    let is_asked = || model.asked(0).iter().any(|asked| asked.prompt.contains(prompt));
    let end = Instant::now() + ASKED;
    while !is_asked() && Instant::now() < end {
        thread::sleep(LOOK);
    }
    if !is_asked() {
        agent.terminal.press("\r");
    }
}

fn judge(kind: Kind, bodies: &[Body], heard: Vec<Heard>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut by_tag: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Heard { to, thread, body } in heard {
        match thread {
            Some(thread) if to == "Bob" => by_tag.entry(thread).or_default().push(body),
            _ => outcome.invented.push(format!("to {to}: {body:?}")),
        }
    }
    for (number, body) in bodies.iter().enumerate() {
        let heard = by_tag.remove(&tag(number)).unwrap_or_default();
        match &heard[..] {
            [] => outcome.lost.push(body.name.clone()),
            [one] => match heard_as(kind, &shown(&body.text), one) {
                Ok(()) => outcome.exact += 1,
                Err(why) => outcome.altered.push(format!("{}: {why}", body.name)),
            },
            more => outcome.doubled.push(format!("{}: {more:?}", body.name)),
        }
    }
    outcome.invented.extend(by_tag.into_keys());
    outcome
}

/// An opener that was escaped, where the CLI shows the backslash to nobody, is an opener.
fn is_unescaped(bodies: &[Body]) -> impl Fn(&String) -> bool {
    let bodies: Vec<String> = bodies.iter().map(|body| body.text.clone()).collect();
    move |invented| {
        let openers = bodies.iter().flat_map(|body| body.lines());
        let mut bare = openers.filter_map(|line| line.strip_prefix("->relay:Cid <<<"));
        bare.any(|words| invented.contains(words.trim_end_matches(">>>")))
    }
}

fn is_heard_off_the_screen(kind: Kind) {
    for (columns, bodies) in bodies() {
        let heard = play(kind, columns, &turns(&bodies), Agent::wait_until_idle, |_, _| {});
        let outcome = judge(kind, &bodies, heard);
        let Outcome { exact, altered, lost, doubled, mut invented } = outcome;
        let unescaped = is_unescaped(&bodies);
        let backslashes = invented.extract_if(.., |one| kind != Kind::Gemini && unescaped(one));
        let backslashes: Vec<_> = backslashes.collect();
        let percent = exact * 100 / bodies.len();
        let name = kind.name();
        eprintln!("{name}, {columns} columns: {exact} of {} exact, {percent} %", bodies.len());
        for (what, all) in [("altered", &altered), ("lost", &lost), ("unescaped", &backslashes)] {
            all.iter().for_each(|one| eprintln!("  {what}: {one}"));
        }
        assert_eq!(doubled, [""; 0], "{name}, {columns} columns: nothing is doubled");
        assert_eq!(invented, [""; 0], "{name}, {columns} columns: nothing is invented");
        assert!(percent >= EXACT_MIN, "{name}, {columns} columns: {percent} % exact");
    }
}

#[test]
fn claude_is_heard_off_its_screen() {
    is_heard_off_the_screen(Kind::Claude);
}

#[test]
fn codex_is_heard_off_its_screen() {
    is_heard_off_the_screen(Kind::Codex);
}

#[test]
fn gemini_is_heard_off_its_screen() {
    is_heard_off_the_screen(Kind::Gemini);
}

/// A person resizes the window while a reply comes. What is broken elsewhere then may be lost; nothing is
/// heard twice, and all is well again afterwards.
fn is_heard_once_while_it_is_resized(kind: Kind) {
    let (columns, bodies) = bodies().into_iter().find(|&(columns, _)| columns == 100).unwrap();
    let bodies: Vec<Body> = bodies.into_iter().filter(|body| body.text.len() < 3_000).collect();
    let bodies = &bodies[bodies.len().saturating_sub(AT_A_TIME * 3)..];
    let resize = |terminal: &Terminal, is_over: &mut dyn FnMut() -> bool| {
        for cols in [70, 120, 90, 60, columns].into_iter().cycle() {
            terminal.resize(Size { rows: ROWS, cols });
            if cols == columns && is_over() {
                return;
            }
            thread::sleep(RESIZE);
        }
    };
    // What a CLI leaves behind when it is resized looks like work.
    let started = Cell::new(false);
    let rests = |agent: &Agent| match started.replace(true) {
        true => agent.stand_still(),
        false => agent.wait_until_idle(),
    };
    let heard = play(kind, columns, &turns(bodies), rests, resize);
    let Outcome { exact, altered, lost, doubled, .. } = judge(kind, bodies, heard);
    let (name, all) = (kind.name(), bodies.len());
    eprintln!("{name}, resized: {exact} of {all} exact, altered {altered:?}, lost {lost:?}");
    assert_eq!(doubled, [""; 0], "{name}: nothing is doubled");
}

#[test]
fn claude_is_heard_once_while_it_is_resized() {
    is_heard_once_while_it_is_resized(Kind::Claude);
}

#[test]
fn codex_is_heard_once_while_it_is_resized() {
    is_heard_once_while_it_is_resized(Kind::Codex);
}

#[test]
fn gemini_is_heard_once_while_it_is_resized() {
    is_heard_once_while_it_is_resized(Kind::Gemini);
}

/// How many rows a tool prints, which the CLI shows when it is asked for details.
const PRINTED: usize = 150;

/// Says what it is told to, or has a long file shown.
fn shows_a_file() -> Model {
    Model::start(|asked: &Asked| {
        let said = |word: &str| format!("I tell Bob.\n\n->relay:Bob <<<\n{word}>>>\n\nDone.");
        let prompt = asked.prompt.trim();
        if asked.result.is_some() {
            Reply::new().says(said("after the file"))
        } else if prompt == "Show the file." {
            Reply::new().says(said("before the file")).runs("cat long.txt")
        } else {
            Reply::new().says(said(prompt.strip_prefix("Say ").unwrap_or("what was not asked")))
        }
    })
}

/// Its person's part: what tools printed is shown in full, or not any more.
fn toggle_details(agent: &mut Agent) {
    agent.terminal.press(if agent.kind == Kind::Codex { "\x14" } else { "\x0f" });
}

/// The agent says what it is told to, and nobody hears anything else before.
#[track_caller]
fn say(agent: &mut Agent, bob: &Other, word: &str) {
    agent.wait_until_idle();
    agent.stand_still();
    agent.submit(&format!("Say {word}"));
    assert_eq!(bob.hear_text(agent), word);
    agent.wait_until_idle();
}

#[track_caller]
fn show_the_file(agent: &mut Agent, bob: &Other) {
    agent.stand_still();
    agent.submit("Show the file.");
    assert_eq!(bob.hear_text(agent), "before the file");
    let (question, yes) = agent.kind.permission();
    let end = "after the file";
    // To read a file some don't ask.
    let has_come = |text: &str| text.contains(question) || text.contains(end);
    agent.terminal.wait_until("a dialog, or the answer", has_come);
    if !agent.terminal.text().contains(end) {
        agent.answer(question, yes);
    }
    assert_eq!(bob.hear_text(agent), end);
}

/// A person looks at what a tool printed in full, and goes back, again and again.
fn is_heard_once_where_details_are_shown(kind: Kind) {
    let (model, sandbox) = (shows_a_file(), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let household = Household::new(&sandbox, kind, &model, "ann");
    let file: String = (0..PRINTED).map(|number| format!("row {number}\n")).collect();
    fs::write(household.project().join("long.txt"), file).unwrap();
    let size = Size { rows: ROWS, cols: 100 };
    let mut agent = household.wrap_with(&["-n", "Ann", "--grid"], size, &[]);
    for word in ["one", "two"] {
        say(&mut agent, &bob, word);
    }
    show_the_file(&mut agent, &bob);
    for word in ["three", "four", "five", "six", "seven", "eight"] {
        say(&mut agent, &bob, word);
        for _ in 0..4 {
            toggle_details(&mut agent);
            agent.stand_still();
            // So long rows stand until they count.
            agent.stand_still();
        }
    }
    for word in ["nine", "the end"] {
        say(&mut agent, &bob, word);
    }
}

#[test]
fn claude_is_heard_once_where_details_are_shown() {
    is_heard_once_where_details_are_shown(Kind::Claude);
}

#[test]
fn codex_is_heard_once_where_details_are_shown() {
    is_heard_once_where_details_are_shown(Kind::Codex);
}

#[test]
fn gemini_is_heard_once_where_details_are_shown() {
    is_heard_once_where_details_are_shown(Kind::Gemini);
}
