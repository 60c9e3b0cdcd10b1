//! Scripts for tests of a terminal side. A script is a text with the terminal side's inputs on
//! unindented lines and its outputs on indented lines. In this module and in the tests, a
//! transcript is such a text with all its outputs, unless it says an agent CLI's transcript.
//!
//! The variable `UPDATE_EXPECT=1` rewrites the outputs. The first line is `run COMMAND`, `run
//! COMMAND with a brief` (which is typed before all other texts), `run COMMAND with a hooked brief`
//! (which hooks give to conversations), `run COMMAND with a wake budget of NUMBER`, or `run COMMAND
//! with a transcript` (the program writes a transcript, and a search for it is complete every 250
//! ms).
//!
//! The second line may name a beginning, and stands for the lines that `beginning` returns: for
//! example `begin ready` (the program shows its empty input line) or `begin message typed` (in
//! addition, a message from Bob is typed and not submitted, and reports are shown). Each other
//! input line is a time in milliseconds, a verb and its arguments:
//!
//! ```text
//! 0 prints TEXT                     the program prints; \e, \r, \n and \s are escape, return, line
//!                                   feed and blank, here and in all arguments
//! 0 keys TEXT                       the person types
//! 0 message FROM [ID [SESSION [ATTEMPT [hops:NUMBER[/WORK]]]]]: BODY
//!                                   a delivery
//! 0 resize 80x24                    columns and rows of the terminal
//! 0 accepted 3                      the daemon accepted message 3 of this agent
//! 0 undelivered 3 CODE WHY          message 3 was not delivered
//! 0 inner begins | ends             an inner `run` marks where its output begins | ends
//! 0 foreground self                 a program gets the foreground: self, shell, relay (another
//!                                   wrapper), suspended, or a name
//! 0 stalls | drains                 the terminal accepts no bytes | accepts all again
//! 0 holds | releases                the person holds messages back | releases them
//! 0 owned FILE                      the system says that this transcript is the program's
//! 0 transcript FILE prompt TEXT     a transcript gets a record: prompt, reply or turn-over
//! 0 other-agents                    other agents are in the directory from here on
//! 0 hook POINT [relays] [FRAME…]    a hook reports, with the digits of frames that it has seen;
//!                                   behind `cut:`, those of a frame without its middle; `relays`:
//!                                   the tool was one of the relay's own
//! 0 session FILE [forgets]          a hook reports that a conversation with this transcript
//!                                   begins, or goes on after it was cleared or compacted
//! 0 hook-gone TICKET                the answered hook was gone
//! 0 not-woken ID                    the process that wakes the agent did not bring it the message
//! 0 takes [ID]                      a command of the agent's takes a message, or all
//! 0 counts TO                       a command of the agent's is about to send a message
//! 0 connected                       the wrapper has joined the daemon
//! 0 rejected WHY                    the daemon rejected the wrapper for now
//! 0 rejected-permanently WHY        the daemon rejected the wrapper for good
//! 0 started                         the program counts as started
//! 0 exits                           the program has ended
//! 0 reports                         from here on, the transcript shows reports
//! 0 activity                        from here on, the transcript shows the agent's activity
//! 0 state                           the transcript shows the terminal side's state
//! 0 dialog                          the transcript shows the dialog that the person can answer
//! 0 ends                            nothing happens; time advances until here
//! ```

use crate::{obstacle::Obstacle, recipe::Reads, *};
use expect_test::Expect;
use protocol::{
    code::NackCode,
    deliver::Proof,
    hook::{Frame, Point, Report},
    payload::LoopCount,
};
use std::fmt::Write as _;

/// The time between two complete searches for transcripts.
const SEARCH_MS: u64 = 250;

/// Checks a transcript: runs its unindented lines, and compares the result with the whole
/// transcript.
#[track_caller]
pub(crate) fn check(expect: Expect) {
    expect.assert_eq(&run(&input_lines(expect.data())));
}

/// Runs a script and returns its transcript.
pub(crate) fn run(script: &str) -> String {
    let mut lines = script.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().expect("a first line, `run COMMAND`");
    let mut player = Player::new(&stated_settings(first));
    writeln!(player.transcript, "{first}").unwrap();
    for line in lines {
        match line.strip_prefix("begin ") {
            Some(state) => player.begin(first, state),
            None => player.line(line),
        }
    }
    player.transcript
}

/// Runs a script and returns the outputs, without indentation.
pub(crate) fn outputs(script: &str) -> String {
    let transcript = run(script);
    let outputs = transcript.lines().filter_map(|line| line.strip_prefix(INDENT));
    outputs.map(|output| format!("{output}\n")).collect()
}

/// Returns the unindented lines of a transcript.
fn input_lines(transcript: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines = || transcript.lines().filter(|line| !line.trim().is_empty());
    let least = lines().map(indent).min().unwrap_or(0);
    lines().filter(|line| indent(line) == least).map(|line| format!("{line}\n")).collect()
}

/// The indentation of outputs.
const INDENT: &str = "    ";

/// Returns the settings for a script's first line.
fn stated_settings(line: &str) -> Settings {
    let command = line.strip_prefix("run ").expect("a first line, `run COMMAND`");
    if let Some(command) = command.strip_suffix(" with a brief") {
        let brief = Some("Print:\n```\n->relay:Bob <<<\nhello>>>\n```".to_owned());
        Settings { brief, ..settings(command) }
    } else if let Some((command, budget)) = command.split_once(" with a wake budget of ") {
        let mut settings = settings(command);
        settings.recipe.wake_budget = budget.parse().expect("a number");
        settings
    } else if let Some(command) = command.strip_suffix(" with a hooked brief") {
        let agent = agents::named(command).expect("an agent CLI");
        let begins = agent.hooks.and_then(|hooks| hooks.begins).expect("hooks that take a brief");
        let hooked_brief = Some(hooks::HookedBrief { text: "the brief".to_owned(), begins });
        let brief = Some("the brief, and do nothing yet".to_owned());
        Settings { brief, hooked_brief, ..settings(command) }
    } else if let Some(command) = command.strip_suffix(" with a transcript") {
        Settings { transcript: true, ..settings(command) }
    } else if let Some(command) = command.strip_suffix(" without paste marks") {
        Settings { may_drop_paste_marks: true, ..settings(command) }
    } else {
        settings(command)
    }
}

/// Returns the transcript up to a named state of the program.
fn beginning(run: &str, state: &str) -> String {
    match state {
        "ready" => ready(run),
        "message typed" => ready(run) + MESSAGE_TYPED,
        "own turn sent, another conversation recorded" => TWO_CONVERSATIONS.to_owned(),
        state => panic!("there is no beginning {state}"),
    }
}

/// Returns the transcript up to an agent CLI's empty input line.
fn ready(run: &str) -> String {
    let prompt = match run.split(' ').nth(1) {
        Some("claude") => r"❯\s",
        Some("codex") => r"›\s",
        Some("gemini") => r"\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G",
        _ => panic!("no empty input line is known for: {run}"),
    };
    format!("0 started\n0 prints \\e[?2004h{prompt}\n")
}

const MESSAGE_TYPED: &str = r"900 reports
1000 message Bob: hello
    1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
";

const TWO_CONVERSATIONS: &str = r#"0 prints \e[?2004h>\s
20000 keys who are you\r
    20000 types who are you\r
20010 prints \r\nwho are you\r\n->relay:Bob <<<me>>>\r\n\r\n>\s
20100 transcript 0 prompt who are you
20100 transcript 0 reply ->relay:Bob <<<me>>>
20200 transcript 0 turn-over
    20250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "me", data: None, meta: None, reply_to: None }
30000 transcript 1 reply ->relay:Bob <<<of another>>>
30100 transcript 1 prompt of another
30110 transcript 1 reply ->relay:Bob <<<of another, too>>>
30200 transcript 1 turn-over
90000 transcript 1 prompt of another again
90100 transcript 1 reply ->relay:Bob <<<of another again>>>
90200 transcript 1 turn-over
"#;

/// Returns the settings of a terminal side for a command in a person's terminal.
pub(crate) fn settings(command: &str) -> Settings {
    let command: Vec<_> = command.split(' ').map(str::to_owned).collect();
    let book = recipe::Book::default();
    Settings {
        recipe: book.choose(&command, "linux", None),
        book,
        system: "linux",
        attached: true,
        may_drop_paste_marks: false,
        columns: 80,
        rows: 24,
        inline: false,
        transcript: false,
        grid: false,
        brief: None,
        hooked_brief: None,
        contradiction_ms: 1000,
        seed: [7; 32],
    }
}

/// Returns the reader for a program with this recipe.
pub(crate) fn reader(recipe: &Recipe) -> Reader {
    match recipe.reads {
        Reads::Shell => Reader::Shell,
        Reads::Text if recipe.shows_composer() => Reader::Agent(recipe.name.clone()),
        Reads::Text => Reader::Accepted,
    }
}

/// The player of a script.
struct Player {
    side: TerminalSide,
    now: Moment,
    /// The reader while the command has the foreground.
    command_reader: Reader,
    /// The number of bytes that the terminal has not accepted, while it is stalled.
    stalled: Option<usize>,
    /// Whether reports are shown in the transcript.
    shows_reports: bool,
    /// Whether the agent's activity is shown in the transcript.
    shows_activity: bool,
    /// The time of the next search for transcripts.
    next_search: Option<Moment>,
    /// Whether no other agent is in the directory.
    is_alone: bool,
    last_caller: u64,
    /// The frames that were handed to commands of the agent.
    handed_over: Vec<Frame>,
    transcript: String,
}

impl Player {
    fn new(settings: &Settings) -> Self {
        let mut side = TerminalSide::new(settings);
        let command_reader = reader(&settings.recipe);
        side.injector.assume_reader(command_reader.clone());
        let now = Moment(0);
        Self {
            side,
            now,
            command_reader,
            stalled: None,
            shows_reports: false,
            shows_activity: false,
            next_search: settings.transcript.then_some(now),
            is_alone: true,
            last_caller: 0,
            handed_over: Vec::new(),
            transcript: String::new(),
        }
    }

    /// Runs a beginning and checks its transcript. Only the `begin` line is shown for it.
    fn begin(&mut self, run: &str, state: &str) {
        let beginning = beginning(run, state);
        let start = self.transcript.len();
        for line in input_lines(&beginning).lines() {
            self.line(line);
        }
        self.tick(self.now);
        assert_eq!(self.transcript.split_off(start), beginning, "the beginning {state:?}");
        writeln!(self.transcript, "begin {state}").unwrap();
    }

    /// Runs a line: a time and an input.
    fn line(&mut self, line: &str) {
        let (time, rest) = line.split_once(' ').expect("a time and a verb");
        self.advance(Moment(time.parse().expect("a time")));
        writeln!(self.transcript, "{line}").unwrap();
        self.input_line(rest);
    }

    /// Advances the time to `until`, including all ticks and searches until then.
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
        while let Some(due) = self.side.deadline().filter(|&due| due <= until) {
            self.now = self.now.max(due);
            self.input(Input::Tick);
            ticks += 1;
            assert!(ticks < 10_000, "the deadline {due:?} does not advance at {:?}", self.now);
        }
    }

    /// Runs an input line without its time.
    fn input_line(&mut self, line: &str) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = unescaped(rest);
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
                let reader = match rest.as_str() {
                    "self" => self.command_reader.clone(),
                    "shell" => barred(Obstacle::Shell, "bash"),
                    "relay" => barred(Obstacle::Nested, "agent-relay"),
                    "suspended" => barred(Obstacle::Suspended, "claude"),
                    name => barred(Obstacle::OtherProgram, name),
                };
                self.input(Input::Reads { reader, gathers_lines: false });
            }
            "inner" => self.input(Input::InnerOutput(rest == "begins")),
            "stalls" => self.stalled = Some(0),
            "drains" => {
                let bytes = self.stalled.take().unwrap_or(0);
                self.input(Input::Written(bytes));
            }
            "owned" => self.input(Input::Owned(TranscriptId(rest.parse().unwrap()))),
            "transcript" => {
                let (file, record) = rest.split_once(' ').expect("a file and a record");
                let file = TranscriptId(file.parse().unwrap());
                self.input(Input::Recorded(file, stated_record(record)));
            }
            "reports" => self.shows_reports = true,
            "activity" => self.shows_activity = true,
            "other-agents" => self.is_alone = false,
            "hook" | "session" | "hook-gone" | "hook-unconfirmed" | "takes" | "counts"
            | "not-woken" => {
                self.hook_line(verb, rest);
            }
            "started" => self.side.injector.assume_started(),
            "holds" => self.input(Input::Held(true)),
            "releases" => self.input(Input::Held(false)),
            "connected" => self.input(Input::Connected(true)),
            "rejected" => self.input(Input::Rejected { why: rest, is_permanent: false }),
            "rejected-permanently" => self.input(Input::Rejected { why: rest, is_permanent: true }),
            "exits" => self.input(Input::ChildGone),
            "state" => self.show_state(),
            "dialog" => self.show_dialog(),
            "ends" => {}
            verb => panic!("there is no verb {verb}"),
        }
    }

    fn show_state(&mut self) {
        let State { waiting, why, typed, .. } = self.side.state();
        let words = |why: Obstacle| why.words("Ann", self.side.reader().name());
        let why = why.map_or_else(|| "nothing in the way".to_owned(), words);
        self.note(&format!("{waiting} waiting, {typed} typed: {why}"));
    }

    fn show_dialog(&mut self) {
        match self.side.dialog(self.now) {
            Some(Dialog { text, choices, .. }) => {
                self.note(&format!("asks {}: {}", shown(&text), choices.join(", ")));
            }
            None => self.note("asks nothing"),
        }
    }

    /// Runs a line about a hook, or about a command of the agent.
    fn hook_line(&mut self, verb: &str, rest: String) {
        self.last_caller += 1;
        let caller = Caller(self.last_caller);
        self.input(match verb {
            "hook" => {
                let mut words = rest.split(' ').peekable();
                let point = words.next().map(stated_point).expect("a point");
                let is_relays = words.next_if_eq(&"relays").is_some();
                let frames = words.map(|word| self.stated_frame(word)).collect();
                let session = Some("s-1".to_owned());
                Input::Hooked(caller, Report { session, is_relays, ..Report::new(point, frames) })
            }
            "session" => {
                let (file, forgets) =
                    rest.strip_suffix(" forgets").map_or((&*rest, false), |file| (file, true));
                let (point, transcript) = (Point::SessionBegan, Some(file.to_owned()));
                Input::Hooked(
                    caller,
                    Report { transcript, forgets, ..Report::new(point, Vec::new()) },
                )
            }
            "counts" => Input::Count(caller, rest),
            "not-woken" => Input::NotWoken(rest),
            "hook-unconfirmed" => {
                Input::HookUnconfirmed(Caller(rest.parse().expect("a hook's number")))
            }
            "hook-gone" => Input::HookGone(Caller(rest.parse().expect("a hook's number"))),
            _ => Input::Take(caller, Some(rest).filter(|id| !id.is_empty())),
        });
    }

    fn input(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.side.handle(self.now, input, &mut out);
        let (mut written, mut identifies) = (0, false);
        for output in out {
            match output {
                Output::Identify => identifies = true,
                Output::Write(bytes) => {
                    match &mut self.stalled {
                        Some(stalled) => *stalled += bytes.len(),
                        None => written += bytes.len(),
                    }
                    self.note(&format!("types {}", shown(&String::from_utf8_lossy(&bytes))));
                }
                Output::Send(handle, message, _) => {
                    self.note(&format!("sends {}: {message:?}", handle.0));
                }
                Output::Expand(message) => {
                    self.note(&format!("expands {}", message.to));
                    let members = match &*message.to {
                        "@team" => Ok(["Bob", "Cid"].map(str::to_owned).to_vec()),
                        other => Err(format!("there is no group {other}")),
                    };
                    self.input(Input::Expanded(message, members));
                }
                Output::Acknowledge(id) => self.note(&format!("acknowledges {id}")),
                Output::Report(id, progress) => {
                    if self.shows_reports {
                        self.note(&format!("reports {id} {progress:?}"));
                    }
                }
                Output::Return(id, _) => self.note(&format!("returns {id}")),
                Output::Hooked(caller, text) => {
                    let text = text.map_or_else(|| "nothing".to_owned(), |text| shown(&text));
                    self.note(&format!("answers hook {}: {text}", caller.0));
                }
                Output::Wake { session, text, .. } => {
                    self.note(&format!("wakes {session}: {}", shown(&text)));
                }
                Output::Taken(_, taken) => {
                    if let Taken::Text(text) = &taken {
                        self.handed_over.extend(frames_in(text));
                    }
                    self.note(&format!("hands over {taken:?}"));
                }
                Output::Activity(doing) => {
                    if self.shows_activity {
                        self.note(&format!("{} {}", doing.activity, doing.source));
                    }
                }
                Output::Counted(_, hops) => self.note(&format!("counts {hops:?}")),
                Output::Log(line) => self.note(&format!("logs {line}")),
            }
        }
        if identifies {
            let reader = self.side.reader().clone();
            self.input(Input::Reads { reader, gathers_lines: false });
        }
        if written > 0 {
            self.input(Input::Written(written));
        }
    }

    fn stated_frame(&self, word: &str) -> Frame {
        let (hex, cut) = word.strip_prefix("cut:").map_or((word, 0), |hex| (hex, 1));
        let length = self.handed_over.iter().find(|frame| frame.hex == hex);
        let length = length.map_or(0, |frame| frame.length - cut);
        Frame { hex: hex.to_owned(), length }
    }

    fn note(&mut self, output: &str) {
        writeln!(self.transcript, "{INDENT}{} {output}", self.now.0).unwrap();
    }
}

/// Replaces escapes such as `\e` with their characters.
fn unescaped(text: &str) -> String {
    let escapes = [
        ("\\e", "\x1b"),
        ("\\r", "\r"),
        ("\\n", "\n"),
        ("\\s", " "),
        ("\\x7f", "\x7f"),
        ("\\x15", "\x15"),
        ("\\x08", "\x08"),
    ];
    escapes.iter().fold(text.to_owned(), |text, (escape, meaning)| text.replace(escape, meaning))
}

/// Returns a text in one line.
fn shown(text: &str) -> String {
    text.replace('\x1b', "\\e").replace('\r', "\\r").replace('\n', "\\n")
}

/// Returns the frames in a text, as a hook reports them.
pub(crate) fn frames_in(text: &str) -> Vec<Frame> {
    let json = serde_json::json!({"tool_response": {"stdout": text}}).to_string();
    hooks::read(Point::ToolEnded, json.as_bytes()).expect("a report").frames
}

fn stated_point(word: &str) -> Point {
    serde_json::from_value(word.into()).expect("a point")
}

fn stated_record(line: &str) -> Record {
    let (kind, text) = line.split_once(' ').unwrap_or((line, ""));
    match kind {
        "prompt" => Record::Prompt(text.to_owned()),
        "reply" => Record::Reply(text.to_owned()),
        "turn-over" => Record::TurnOver,
        other => panic!("no such record: {other}"),
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
        hops: word("").strip_prefix("hops:").map(stated_hops),
        requires_ack: true,
        auth: Some(Proof::Claim),
        topic: None,
        thread: None,
        body: body.to_owned(),
    }
}

fn stated_hops(words: &str) -> LoopCount {
    let (hops, work) = words.split_once('/').unwrap_or((words, "0"));
    let number = |word: &str| word.parse().expect("a number");
    LoopCount { hops: number(hops), work: number(work) }
}

fn failure(line: &str) -> DeliveryFailure {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().expect("`undelivered NUMBER CODE WHY`").to_owned();
    DeliveryFailure {
        handle: Some(SendHandle(word().parse().expect("a number"))),
        id: Some("s-1".to_owned()),
        to: None,
        cause: NackCode::parse(&word()).map_or(FailureCause::Unsent, FailureCause::Nack),
        why: word(),
    }
}
