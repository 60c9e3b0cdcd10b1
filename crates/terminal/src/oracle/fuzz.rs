//! Fuzzing of a terminal side with arbitrary program output, keys of a person, and relay events, in
//! any order. The terminal side must type one message at a time and press only the keys that submit
//! it. It must acknowledge each message once, return it, or keep it waiting.

use crate::{
    DeliveryFailure, FailureCause, IncomingMessage, Input, Output, Progress, SendHandle, Settings,
    TerminalSide,
    keyboard::Reader,
    obstacle::Obstacle,
    oracle::{Fate, Fates, Ticks, is_terminal_answer, typed_lines},
    recipe::{Book, Reads, Recipe, Shown, Spot, Typed},
    transcript::{Record, TranscriptId},
};
use protocol::{
    Moment,
    code::NackCode,
    name::{self, EVERYONE, Name},
};
use std::collections::VecDeque;

/// How many operations are run for one input. More would only take longer.
const OPERATIONS_MAX: usize = 300;

/// How many times the terminal side may submit one text.
const PRESSES_MAX: usize = 4;

/// Commands, each with its prompt before an empty input line.
const COMMANDS: [(&str, &str); 7] = [
    ("claude", "❯\u{a0}"),
    ("codex", "› "),
    ("gemini", " > "),
    ("aider", "> "),
    ("agent", ""),
    ("opencode", ""),
    ("bash", "$ "),
];

/// Pieces of program output.
const OUTPUTS: [&str; 36] = [
    "\x1b[2J\x1b[H",
    "\r\n",
    "\x1b[?2004h",
    "\x1b[?2004l",
    "\x1b[?1049h",
    "\x1b[?1049l",
    "\x1b[?25l",
    "\x1b[?25h",
    "\x1b[?2026h",
    "\x1b[?2026l",
    "\x1b[6n\x1b[c",
    "\x1b[A\x1b[K",
    "❯ ",
    "› ",
    " > ",
    "! ",
    "$ ",
    ">>> ",
    "half a line",
    "\x1b[2mfaint words\x1b[m",
    "]",
    "Esc to cancel\r\n",
    "esc to interrupt\r\n",
    "• esc to interrupt)\r\n",
    "(esc to cancel, 1s)\r\n",
    "❯ 1. Yes\r\n  2. No\r\n",
    "│ ● 1. Allow once\r\n",
    "△ Permission required\r\n",
    "Overwrite? [y/N] ",
    "->relay:Bob <<<hello>>>\r\n",
    "->relay:* [topic:t] <<<\r\nhello\r\n",
    ">>>\r\n",
    "->relay:Bob [reply:00000000] <<<yes>>>\r\n",
    "[[RELAY]]\r\n{\"to\":\"Bob\"}\r\n[[/RELAY]]\r\n",
    "[relay 000000 from Ann, id 00000000]\r\n",
    "All is done, and this stands here.\r\n",
];

/// Keys of people, and answers of terminals to queries.
const KEYS: [&str; 14] = [
    "a",
    "hello there",
    "\r",
    "\n",
    "\x1b",
    "\x03",
    "\x15",
    "\x7f",
    "\x1b[A",
    "\x16",
    "\x1b[I",
    "\x1b[24;80R",
    "\x1b[200~pasted\ntext\x1b[201~",
    "[relay 000000 from Ann, id 00000000]",
];

/// Reads two bytes as settings, and each further byte as an operation, some with arguments.
pub fn run(bytes: &[u8]) {
    let Some((&[command, settings], rest)) = bytes.split_first_chunk() else { return };
    let mut world = World::new(usize::from(command), settings);
    let mut operations = Operations(rest);
    for _ in 0..OPERATIONS_MAX {
        if operations.0.is_empty() {
            break;
        }
        world.step(&mut operations);
    }
    world.end();
}

/// The rest of the input. All bytes after its end are zero.
struct Operations<'a>(&'a [u8]);

impl<'a> Operations<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn take(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte());
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(self.take()).into_owned()
    }

    fn choose<'b>(&mut self, texts: &[&'b str]) -> &'b str {
        texts[usize::from(self.byte()) % texts.len()]
    }
}

/// A typed text that was neither acknowledged nor returned yet.
struct Injection {
    /// The message's id, or `None` for a text of the relay itself.
    id: Option<String>,
    presses: usize,
    /// Whether an Enter of the person was passed on after the text and may have submitted it.
    has_person_submitted: bool,
    /// The count of accepted bytes when the terminal has the text and its last submission.
    end_bytes: u64,
    /// Whether the transcript contains the text.
    is_in_transcript: bool,
}

impl Injection {
    fn was_submitted(&self, written: u64) -> bool {
        self.is_in_transcript
            || self.has_person_submitted
            || (self.presses > 0 && self.end_bytes <= written)
    }
}

struct World {
    side: TerminalSide,
    recipe: Recipe,
    prompt: &'static str,
    attached: bool,
    now: Moment,
    /// The reader while the command has the terminal. `reader` is the current reader.
    own: Reader,
    reader: Reader,
    /// Whether the terminal accepts no bytes.
    is_stalled: bool,
    typed_bytes: u64,
    accepted_bytes: u64,
    messages: Fates,
    urgent: VecDeque<String>,
    usual: VecDeque<String>,
    injection: Option<Injection>,
    /// The last submitted text. If the composer shows it again, it is submitted again.
    left: Option<Injection>,
    /// Keys of the person that the terminal side has not passed on yet.
    pending_keys: Vec<u8>,
    /// Typed text that the program has not echoed yet.
    unechoed: String,
    /// The first line of the last frame that was typed.
    header: String,
    /// The digits of all frames.
    hexes: Vec<String>,
    last_send: Option<SendHandle>,
}

impl World {
    fn new(command: usize, settings: u8) -> Self {
        let (command, prompt) = COMMANDS[command % COMMANDS.len()];
        let command: Vec<_> = command.split(' ').map(str::to_owned).collect();
        let book = Book::default();
        let recipe = book.choose(&command, "linux", None);
        let has = |bit: u8| settings & bit != 0;
        let attached = has(1);
        let own = match recipe.reads {
            Reads::Shell => Reader::Shell,
            Reads::Text if recipe.shows_composer() => Reader::Agent(recipe.name.clone()),
            Reads::Text => Reader::Accepted,
        };
        let mut side = TerminalSide::new(&Settings {
            recipe: recipe.clone(),
            book,
            system: "linux",
            attached,
            may_drop_paste_marks: has(64),
            columns: if has(2) { 60 } else { 30 },
            rows: 12,
            inline: has(4),
            transcript: recipe.transcript.is_some() && !has(8),
            grid: has(16),
            brief: has(32).then(|| "Print:\n```\n->relay:Bob <<<hello>>>\n```".to_owned()),
            hooked_brief: None,
            contradiction_ms: 1000,
            seed: [7; 32],
        });
        side.handle(
            Moment(0),
            Input::Reads { reader: own.clone(), gathers_lines: false },
            &mut Vec::new(),
        );
        Self {
            side,
            recipe,
            prompt,
            attached,
            now: Moment(0),
            reader: own.clone(),
            own,
            is_stalled: false,
            typed_bytes: 0,
            accepted_bytes: 0,
            messages: Fates::default(),
            urgent: VecDeque::new(),
            usual: VecDeque::new(),
            injection: None,
            left: None,
            pending_keys: Vec::new(),
            unechoed: String::new(),
            header: String::new(),
            hexes: Vec::new(),
            last_send: None,
        }
    }

    fn step(&mut self, operations: &mut Operations<'_>) {
        match operations.byte() % 24 {
            0..=3 => self.pass_time(u64::from(operations.byte()) * 20),
            4 | 5 => self.print(operations.choose(&OUTPUTS).as_bytes()),
            6 => self.print(operations.take()),
            7 | 8 => self.show_prompt(),
            9 | 10 => self.echo(),
            11 => self.press(operations.choose(&KEYS).as_bytes()),
            12 => self.press(operations.take()),
            13 | 14 => self.deliver_new(operations),
            15 => self.deliver_again(operations.byte()),
            16 | 17 => self.add_record(operations),
            18 => self.resize(operations.byte(), operations.byte()),
            19 => self.handle_event(operations),
            20 => self.input(Input::Held(operations.byte() % 2 == 1)),
            21 => {
                let barred = |why| Reader::Barred(why, None);
                self.reader = match operations.byte() % 4 {
                    0 => barred(Obstacle::Shell),
                    1 => barred(Obstacle::Nested),
                    _ => self.own.clone(),
                };
                self.input(Input::Reads { reader: self.reader.clone(), gathers_lines: false });
            }
            22 => self.is_stalled = !self.is_stalled,
            _ => self.accept_part(u64::from(operations.byte())),
        }
    }

    /// Lets time pass, with a tick at each deadline.
    fn pass_time(&mut self, ms: u64) {
        let (until, mut ticks) = (self.now.plus(ms), Ticks::default());
        while ticks.next(&self.side, &mut self.now, until) {
            self.input(Input::Tick);
        }
    }

    fn print(&mut self, bytes: &[u8]) {
        self.input(Input::Printed(bytes));
    }

    /// Prints an empty input line on a cleared screen.
    fn show_prompt(&mut self) {
        self.unechoed.clear();
        let picture = format!("\x1b[2J\x1b[H\x1b[?2004hWelcome.\r\n\r\n{}", self.prompt);
        self.print(picture.as_bytes());
    }

    /// Prints the text that was typed and not echoed yet.
    fn echo(&mut self) {
        let shown = std::mem::take(&mut self.unechoed).replace('\n', "\r\n");
        self.print(shown.as_bytes());
    }

    fn press(&mut self, bytes: &[u8]) {
        if bytes.is_empty() || !self.side.wants_keys() {
            return;
        }
        self.pending_keys.extend_from_slice(bytes);
        self.input(Input::Keys(bytes));
        // A submission is shorter than four bytes. Keys that are held back must be longer, so that
        // the checks can distinguish them from a submission.
        if (1..4).contains(&self.pending_keys.len()) {
            self.press(b"and more");
        }
    }

    fn deliver_new(&mut self, operations: &mut Operations<'_>) {
        let urgent = operations.byte().is_multiple_of(4);
        let (body, number) = (operations.text(), self.messages.len());
        let id = format!("{number:08}-mail");
        self.messages.deliver(&id);
        if urgent { &mut self.urgent } else { &mut self.usual }.push_back(id.clone());
        self.deliver(id, urgent, 1, body);
    }

    /// Redelivers a message, as after its return or a lost connection.
    fn deliver_again(&mut self, which: u8) {
        let id = format!("{:08}-mail", usize::from(which) % (self.messages.len() + 1));
        let Some(fate) = self.messages.of(&id) else { return };
        if fate == Fate::Returned {
            self.messages.deliver(&id);
            self.usual.push_back(id.clone());
        }
        self.deliver(id, false, 2, "again".to_owned());
    }

    fn deliver(&mut self, id: String, urgent: bool, attempt: u32, body: String) {
        let from = "Ann".to_owned();
        self.input(Input::Delivered(IncomingMessage {
            id,
            from,
            urgent,
            attempt,
            body,
            ..IncomingMessage::default()
        }));
    }

    /// Adds a record to a file that may be the program's transcript, or confirms that the file is
    /// its transcript.
    fn add_record(&mut self, operations: &mut Operations<'_>) {
        let what = operations.byte();
        let id = TranscriptId(u32::from(what / 16 % 3));
        let record = match what % 16 {
            0 => return self.input(Input::Owned(id)),
            1 => Record::Prompt(format!("{}\nits first lines", self.header)),
            2 | 3 => Record::Prompt(self.last_frame()),
            4 | 5 => Record::Prompt(operations.choose(&KEYS).to_owned()),
            6..=9 => Record::Reply(operations.choose(&OUTPUTS).replace("\r\n", "\n")),
            10 | 11 => Record::Reply(operations.text()),
            _ => Record::TurnOver,
        };
        self.input(Input::Recorded(id, record));
    }

    /// Returns a prompt with the last frame, which proves to the terminal side that the frame was
    /// submitted.
    fn last_frame(&mut self) -> String {
        let hex = self.header.get(7..13).unwrap_or("000000");
        let prompt = format!("{}\nbody\n[/relay {hex}]", self.header);
        if let Some(injection) = &mut self.injection {
            injection.is_in_transcript = true;
        }
        prompt
    }

    fn resize(&mut self, columns: u8, rows: u8) {
        let (columns, rows) = (usize::from(columns), usize::from(rows % 32));
        self.input(Input::Resized { columns, rows });
    }

    /// Handles an event of the relay.
    fn handle_event(&mut self, operations: &mut Operations<'_>) {
        let what = operations.byte();
        let handle = SendHandle(u64::from(what / 8));
        let input = match what % 8 {
            0 | 1 => Input::Connected(what.is_multiple_of(8)),
            2 => Input::Rejected { why: "it is full".to_owned(), is_permanent: false },
            3 => Input::Rejected { why: "it said BYE".to_owned(), is_permanent: true },
            4 => Input::Accepted { handle, away: true },
            cause => Input::Undelivered(DeliveryFailure {
                handle: Some(handle),
                id: Some(format!("s-{}", handle.0)),
                to: (cause == 5).then(|| "Bob".to_owned()),
                cause: if cause == 7 {
                    FailureCause::Unsent
                } else {
                    FailureCause::Nack(NackCode::Expired)
                },
                why: operations.text(),
            }),
        };
        self.input(input);
    }

    /// Lets the terminal accept a part of the typed bytes.
    fn accept_part(&mut self, part: u64) {
        let bytes = (self.typed_bytes - self.accepted_bytes) * part / 255;
        self.report_written(bytes);
    }

    fn report_written(&mut self, bytes: u64) {
        self.accepted_bytes += bytes;
        self.input(Input::Written(usize::try_from(bytes).expect("typed bytes")));
    }

    /// Ends the program, and checks that no message is left waiting.
    fn end(mut self) {
        self.pass_time(10_000);
        self.input(Input::ChildGone);
        assert_eq!((self.side.deadline(), self.side.state().waiting), (None, 0));
        self.messages.check_end();
        self.messages.deliver("late");
        self.deliver("late".to_owned(), true, 1, String::new());
        assert_eq!(self.messages.of("late"), Some(Fate::Returned));
    }

    fn input(&mut self, input: Input<'_>) {
        let is_tick = matches!(input, Input::Tick);
        self.handle(input, is_tick);
    }

    /// Handles an input. A text may be typed only after a tick, and once the reader that it needs
    /// is known.
    fn handle(&mut self, input: Input<'_>, is_tick: bool) {
        let redelivered = match &input {
            Input::Delivered(mail) => Some(mail.id.clone()),
            _ => None,
        };
        let has_ended = matches!(input, Input::ChildGone);
        let mut out = Vec::new();
        self.side.handle(self.now, input, &mut out);
        let mut identifies = false;
        for output in out {
            match output {
                Output::Identify => identifies = true,
                Output::Write(bytes) => self.check_write(bytes, is_tick),
                Output::Acknowledge(id) => self.check_acknowledged(&id, redelivered.as_deref()),
                Output::Return(id, _) => {
                    let is_open = |injection: &Injection| injection.id.as_ref() == Some(&id);
                    if !has_ended && self.injection.as_ref().is_some_and(is_open) {
                        self.check_draft_removed();
                    }
                    self.messages.decide(&id, Fate::Returned);
                }
                Output::Report(id, progress) => {
                    self.check_report(&id, progress, redelivered.as_deref())
                }
                Output::Send(number, said, _) => {
                    assert!(self.last_send.is_none_or(|before| before < number));
                    self.last_send = Some(number);
                    assert!(said.to == EVERYONE || Name::parse_any(&said.to).is_ok(), "{said:?}");
                    let is_empty = said.body.trim().is_empty() && said.data.is_none();
                    assert!(!is_empty, "{said:?}");
                }
                Output::Expand(said) => assert!(name::group_of(&said.to).is_some(), "{said:?}"),
                Output::Log(line) if line.starts_with("the agent did not get ") => {
                    self.check_draft_removed();
                }
                Output::Activity(doing) => assert!(doing.since <= self.now),
                Output::Log(line) => assert!(!line.is_empty()),
                Output::Hooked(..)
                | Output::Taken(..)
                | Output::Counted(..)
                | Output::Wake { .. } => {
                    panic!("nobody asks")
                }
            }
        }
        if has_ended {
            self.injection = None;
            return;
        }
        self.check_count();
        if identifies {
            assert!(is_tick, "the reader is of interest only at a tick");
            self.handle(Input::Reads { reader: self.reader.clone(), gathers_lines: false }, true);
        }
        if !self.is_stalled && self.accepted_bytes < self.typed_bytes {
            self.report_written(self.typed_bytes - self.accepted_bytes);
        }
    }

    /// Checks that a text was being typed, and that the agent's input line no longer holds it.
    fn check_draft_removed(&mut self) {
        assert!(self.injection.take().is_some(), "a text was being typed");
        assert!(!self.shown().holds_own, "it would be typed twice");
    }

    /// Checks that `waiting` counts all messages that are neither acknowledged nor returned, and a
    /// text of the relay while it is being typed.
    fn check_count(&mut self) {
        let waiting = self.messages.waiting();
        let own = self.injection.as_ref().is_some_and(|injection| injection.id.is_none());
        let counted = self.side.state().waiting;
        if own && counted == waiting {
            let injection = self.injection.take().expect("a text is being typed");
            assert!(injection.was_submitted(self.accepted_bytes), "the text was submitted");
            self.left = Some(injection);
        } else {
            assert_eq!(counted, waiting + usize::from(own));
        }
    }

    fn check_write(&mut self, bytes: Vec<u8>, is_tick: bool) {
        self.typed_bytes += bytes.len() as u64;
        self.unechoed.push_str(&String::from_utf8_lossy(&bytes));
        if !self.pending_keys.is_empty() && self.pending_keys == bytes {
            if let Some(injection) = &mut self.injection {
                injection.has_person_submitted |= bytes.contains(&b'\r') || bytes.contains(&b'\n');
            }
            return self.pending_keys.clear();
        }
        if !self.attached && is_terminal_answer(&bytes) {
            return;
        }
        let text = String::from_utf8(bytes).expect("what is typed is text");
        assert!(is_tick, "typed without a tick: {text:?}");
        assert_eq!(self.reader, self.own, "another program reads the text");
        let left = self.left.as_mut().filter(|_| text == self.recipe.submit);
        if let Some(injection) = self.injection.as_mut().or(left) {
            assert_eq!(text, self.recipe.submit, "one text at a time");
            injection.presses += 1;
            injection.end_bytes = self.typed_bytes;
            assert!(injection.presses <= PRESSES_MAX, "too many submissions");
            assert!(self.shown().holds_own, "the composer does not hold the text");
        } else {
            self.check_frame(&text);
        }
    }

    /// Reads the screen, for the text on its way.
    fn shown(&self) -> Shown {
        let spot = Spot::of(self.side.screen());
        let prompts = [spot.before.clone()];
        let frames: Vec<&str> = self.hexes.iter().map(String::as_str).collect();
        let typed = Typed { own: frames.last().copied(), frames };
        self.recipe.read(&spot, &self.reader, &prompts, &typed)
    }

    /// Checks a new frame, which must not contain any control keys.
    fn check_frame(&mut self, text: &str) {
        assert!(!self.side.state().held, "messages are held");
        let spot = Spot::of(self.side.screen());
        let form = self.shown().form;
        assert!(form.is_ok(), "{text:?} at {spot:?}: {form:?}");
        let (inner, is_pasted) = typed_lines(text);
        assert_eq!(is_pasted, spot.bracketed_paste, "{text:?}");
        let may_have_tabs = is_pasted && !self.side.settings.may_drop_paste_marks;
        assert!(may_have_tabs || !inner.contains('\t'), "{text:?}");
        let (start, header) = (inner.find("[relay "), headers(inner).last());
        let (Some(start), Some(header)) = (start, header) else { panic!("no frame: {text:?}") };
        let before = &inner[..start];
        assert!(before.is_empty() || before.starts_with(": <<'relay-"), "{text:?}");
        header.clone_into(&mut self.header);
        self.hexes.extend(headers(inner).filter_map(|header| header.get(7..13).map(str::to_owned)));
        let is_own =
            [" from @relay] ", " from \\@relay] "].iter().any(|line| header.contains(line));
        let id = (!is_own).then(|| {
            let next = self.urgent.pop_front().or_else(|| self.usual.pop_front());
            let next = next.unwrap_or_else(|| panic!("nothing waits: {text:?}"));
            assert!(header.contains(&next[..8]), "{next} is next: {text:?}");
            assert_eq!(self.messages.of(&next), Some(Fate::Waiting));
            next
        });
        self.left = None;
        self.injection = Some(Injection {
            id,
            presses: 0,
            has_person_submitted: false,
            end_bytes: u64::MAX,
            is_in_transcript: false,
        });
    }

    fn check_acknowledged(&mut self, id: &str, redelivered: Option<&str>) {
        if redelivered == Some(id) {
            return assert_eq!(self.messages.of(id), Some(Fate::Acknowledged), "{id}");
        }
        let injection = self.injection.take().unwrap_or_else(|| panic!("{id} was not typed"));
        assert_eq!(injection.id.as_deref(), Some(id));
        assert!(injection.was_submitted(self.accepted_bytes), "{id} was submitted");
        self.left = Some(injection);
        self.messages.decide(id, Fate::Acknowledged);
    }

    fn check_report(&mut self, id: &str, progress: Progress, redelivered: Option<&str>) {
        let is_open =
            self.injection.as_ref().is_some_and(|injection| injection.id.as_deref() == Some(id));
        let presses =
            self.injection.as_ref().filter(|_| is_open).map_or(0, |injection| injection.presses);
        let fate = self.messages.of(id).expect("a message that was delivered");
        let expected = match progress {
            Progress::Waiting(why) => {
                let holds_up = match why {
                    Obstacle::Dialog | Obstacle::NotShown | Obstacle::Shell | Obstacle::Nested => {
                        true
                    }
                    // After keys of the person, the Enter is not pressed again.
                    Obstacle::NoEnterTaken => presses > 0,
                    _ => !is_open,
                };
                holds_up && fate == Fate::Waiting
            }
            Progress::Unhindered => fate == Fate::Waiting,
            Progress::Injected if redelivered == Some(id) => fate == Fate::Acknowledged,
            Progress::Injected => is_open,
            Progress::Confirmed => fate == Fate::Acknowledged,
        };
        assert!(expected, "{id} is reported as {progress:?}: {fate:?}");
    }
}

/// Returns the first lines of the frames in a text. A notice may precede a message.
fn headers(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| line.starts_with("[relay "))
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpus() {
        testkit::corpus::run("terminal", super::run);
    }
}
