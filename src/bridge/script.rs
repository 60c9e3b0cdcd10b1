//! Scripts for tests: a bridge's inputs as lines of text, and its outputs as others.

use super::{obstacle::Obstacle, recipe::Reads, *};
use crate::protocol::{code::NackCode, deliver::Proof};
use std::fmt::Write as _;

/// Time between two complete searches for transcripts.
const SEARCH_MS: u64 = 250;

/// Plays a script on a bridge, and returns its outputs.
///
/// A line is a time in milliseconds, a verb and its arguments, with `\e`, `\r`, `\n` and `\s` (a
/// blank) for those characters: `prints`, `keys`, `message FROM [ID [SESSION [ATTEMPT]]]: BODY`,
/// `resize COLUMNSxROWS`, `accepted N`, `undelivered N CODE WHY`, `foreground
/// self|shell|relay|suspended|NAME`,
/// `stalls` (the terminal takes nothing), `takes` (it takes everything again), `holds`, `releases`,
/// `owned FILE`, `records FILE prompt|reply|over TEXT`, `reports` (from now on reports are shown),
/// `connected`, `shut-out WHY`, `cut-off WHY`, `gone`, `why` (asks for the state), `ends`.
pub(super) fn play(command: &str, script: &str) -> String {
    play_with(&settings(command), script)
}

/// Plays a script on a bridge with a brief, which is typed first.
pub(super) fn play_briefed(command: &str, script: &str) -> String {
    let brief = Some("Print:\n```\n->relay:Bob <<<\nhello>>>\n```".to_owned());
    play_with(&Settings { brief, ..settings(command) }, script)
}

/// Plays a script on a bridge whose program writes a transcript. A search for it is complete every
/// 250 ms.
pub(super) fn play_transcribed(command: &str, script: &str) -> String {
    play_with(&Settings { transcript: true, ..settings(command) }, script)
}

fn play_with(settings: &Settings, script: &str) -> String {
    let mut player = Player::new(settings);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (time, rest) = line.split_once(' ').expect("a time and a verb");
        player.advance(Moment(time.parse().expect("a time")));
        player.run(rest);
    }
    player.outputs
}

/// The settings of a bridge to a command in a person's terminal.
pub(super) fn settings(command: &str) -> Settings {
    let command: Vec<_> = command.split(' ').map(str::to_owned).collect();
    let recipe = recipe::Book::default().choose(&command, "linux", None);
    Settings {
        recipe,
        attached: true,
        columns: 80,
        rows: 24,
        inline: false,
        transcript: false,
        grid: false,
        brief: None,
        seed: [7; 32],
    }
}

/// The reader that a program with this recipe is.
pub(super) fn reader(recipe: &Recipe) -> Reader {
    match recipe.reads {
        Reads::Shell => Reader::Shell,
        Reads::Text if recipe.shows_composer() => Reader::Agent(recipe.name.clone()),
        Reads::Text => Reader::Accepted,
    }
}

/// The player of a script.
struct Player {
    bridge: Bridge,
    now: Moment,
    /// The reader while the command has the foreground.
    command_reader: Reader,
    /// The bytes that a stalled terminal has not taken.
    stalled: Option<usize>,
    /// Reports are shown.
    shows_reports: bool,
    /// The time of the next search for transcripts.
    next_search: Option<Moment>,
    /// No other agent is in the directory.
    is_alone: bool,
    outputs: String,
}

impl Player {
    fn new(settings: &Settings) -> Self {
        let mut bridge = Bridge::new(settings);
        let command_reader = reader(&settings.recipe);
        bridge.injector.assume_reader(command_reader.clone());
        let now = Moment(0);
        Self {
            bridge,
            now,
            command_reader,
            stalled: None,
            shows_reports: false,
            next_search: settings.transcript.then_some(now),
            is_alone: true,
            outputs: String::new(),
        }
    }

    /// Advances the time, with all ticks and searches on the way.
    fn advance(&mut self, until: Moment) {
        while let Some(at) = self.next_search.filter(|&at| at <= until) {
            self.tick(at);
            self.now = at;
            self.input(Input::Searched { at, is_alone: self.is_alone });
            self.next_search = Some(at.plus(SEARCH_MS));
        }
        self.tick(until);
        self.now = until;
    }

    fn tick(&mut self, until: Moment) {
        let mut ticks = 0;
        while let Some(due) = self.bridge.deadline().filter(|&due| due <= until) {
            self.now = self.now.max(due);
            self.input(Input::Tick);
            ticks += 1;
            assert!(ticks < 10_000, "the deadline {due:?} does not advance at {:?}", self.now);
        }
    }

    /// Runs a line without its time.
    fn run(&mut self, line: &str) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.replace("\\e", "\x1b").replace("\\r", "\r").replace("\\n", "\n");
        let rest = rest
            .replace("\\s", " ")
            .replace("\\x7f", "\x7f")
            .replace("\\x15", "\x15")
            .replace("\\x08", "\x08");
        match verb {
            "prints" => self.input(Input::Printed(rest.as_bytes())),
            "keys" => self.input(Input::Keys(rest.as_bytes())),
            "message" => self.input(Input::Delivered(message(&rest))),
            "resize" => {
                let (columns, rows) = rest.split_once('x').expect("80x24");
                let (columns, rows) = (columns.parse().unwrap(), rows.parse().unwrap());
                self.input(Input::Resized { columns, rows });
            }
            "accepted" => {
                let (number, away) = rest.split_once(' ').unwrap_or((&rest, ""));
                let handle = SendHandle(number.parse().unwrap());
                self.input(Input::Accepted { handle, away: away == "away" });
            }
            "undelivered" => {
                self.input(Input::Undelivered(failure(&rest)));
            }
            "foreground" => {
                let barred = |why, name: &str| Reader::Barred(why, Some(name.to_owned()));
                self.input(Input::Reads(match rest.as_str() {
                    "self" => self.command_reader.clone(),
                    "shell" => barred(Obstacle::Shell, "bash"),
                    "relay" => barred(Obstacle::Nested, "agent-relay"),
                    "suspended" => barred(Obstacle::Suspended, "claude"),
                    name => barred(Obstacle::OtherProgram, name),
                }));
            }
            "stalls" => self.stalled = Some(0),
            "takes" => {
                let bytes = self.stalled.take().unwrap_or(0);
                self.input(Input::Written(bytes));
            }
            "owned" => self.input(Input::Owned(TranscriptId(rest.parse().unwrap()))),
            "records" => {
                let (file, record) = rest.split_once(' ').expect("a file and a record");
                let (kind, text) = record.split_once(' ').unwrap_or((record, ""));
                let record = match kind {
                    "prompt" => Record::Prompt(text.to_owned()),
                    "reply" => Record::Reply(text.to_owned()),
                    _ => Record::TurnOver,
                };
                self.input(Input::Recorded(TranscriptId(file.parse().unwrap()), record));
            }
            "reports" => self.shows_reports = true,
            "accompanied" => self.is_alone = false,
            "settles" => self.bridge.injector.assume_started(),
            "holds" => self.input(Input::Held(true)),
            "releases" => self.input(Input::Held(false)),
            "connected" => self.input(Input::Connected(true)),
            "shut-out" => self.input(Input::Rejected { why: rest, is_permanent: false }),
            "cut-off" => self.input(Input::Rejected { why: rest, is_permanent: true }),
            "gone" => self.input(Input::ChildGone),
            "why" => {
                let State { waiting, why, typed, .. } = self.bridge.state();
                let words = |why: Obstacle| why.words("Ann", self.bridge.reader().name());
                let why = why.map_or_else(|| "nothing in the way".to_owned(), words);
                self.note(&format!("{waiting} waiting, {typed} typed: {why}"));
            }
            "ends" => {}
            verb => panic!("there is no verb {verb}"),
        }
    }

    fn input(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.bridge.handle(self.now, input, &mut out);
        let mut written = 0;
        for output in out {
            match output {
                Output::Write(bytes) => {
                    match &mut self.stalled {
                        Some(stalled) => *stalled += bytes.len(),
                        None => written += bytes.len(),
                    }
                    let text = String::from_utf8_lossy(&bytes).replace('\x1b', "\\e");
                    self.note(&format!("types {}", text.replace('\r', "\\r").replace('\n', "\\n")));
                }
                Output::Send(handle, message) => {
                    self.note(&format!("sends {}: {message:?}", handle.0));
                }
                Output::Acknowledge(id) => self.note(&format!("acknowledges {id}")),
                Output::Report(id, progress) => {
                    if self.shows_reports {
                        self.note(&format!("reports {id} {progress:?}"));
                    }
                }
                Output::Return(id) => self.note(&format!("returns {id}")),
                Output::Log(line) => self.note(&format!("logs {line}")),
            }
        }
        if written > 0 {
            self.input(Input::Written(written));
        }
    }

    fn note(&mut self, output: &str) {
        writeln!(self.outputs, "{} {output}", self.now.0).expect("writing to a String cannot fail");
    }
}

fn message(line: &str) -> IncomingMessage {
    let (head, body) = line.split_once(": ").expect("a sender and a body");
    let mut words = head.split(' ');
    let mut word = |default: &str| words.next().unwrap_or(default).to_owned();
    IncomingMessage {
        from: word(""),
        id: word("11111111-2222"),
        session: Some(word("s-1")),
        urgent: false,
        attempt: word("1").parse().expect("a number"),
        auth: Some(Proof::Claim),
        body: body.to_owned(),
    }
}

fn failure(line: &str) -> DeliveryFailure {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().expect("a number, a code and a sentence").to_owned();
    DeliveryFailure {
        handle: Some(SendHandle(word().parse().expect("a number"))),
        id: Some("s-1".to_owned()),
        to: None,
        cause: NackCode::parse(&word()).map_or(FailureCause::Unsent, FailureCause::Nack),
        why: word(),
    }
}
