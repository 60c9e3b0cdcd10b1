//! Whatever a program shows, a person presses and the relay says, in whatever order: a bridge types one
//! message at a time, presses no key but what sends it off, and each message is acknowledged once, or
//! given back, or waits.

use agent_relay::bridge::{
    Bridge, DeliveryFailure, FailureCause, IncomingMessage, Input, Output, Progress, SendHandle,
    Settings,
    frame::{PASTE_BEGINS, PASTE_ENDS},
    keyboard::Reader,
    obstacle::Obstacle,
    recipe::{Book, ReaderState, Reads, Recipe, Spot},
    transcript::{Record, TranscriptId},
};
use agent_relay::protocol::{
    Moment,
    code::NackCode,
    name::{EVERYONE, Name},
};
use std::collections::{BTreeMap, VecDeque};

/// Operations of one input; more only take longer.
const OPERATIONS_MAX: usize = 300;

/// Deadlines that one operation may meet.
const TICKS_MAX: usize = 2_000;

/// A text is sent off so often at most.
const PRESSES_MAX: usize = 4;

/// What is wrapped, and what its empty line to type into begins with.
const COMMANDS: [(&str, &str); 7] = [
    ("claude", "❯\u{a0}"),
    ("codex", "› "),
    ("gemini", " > "),
    ("aider", "> "),
    ("agent", ""),
    ("opencode", ""),
    ("bash", "$ "),
];

/// What programs print.
const SHOWN: [&str; 36] = [
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

/// What people press, and terminals answer by themselves.
const PRESSED: [&str; 14] = [
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

/// The first bytes are the settings, then each is an operation, or more where it says so.
pub(crate) fn run(bytes: &[u8]) {
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

/// The input, taken from its front; behind its end stand zeros.
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

    fn one_of<'b>(&mut self, texts: &[&'b str]) -> &'b str {
        texts[usize::from(self.byte()) % texts.len()]
    }
}

/// What has become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waits,
    Acknowledged,
    GivenBack,
}

/// A text that was typed and is not done with.
struct Open {
    /// A message's id; none for the relay's own words.
    id: Option<String>,
    presses: usize,
    /// The terminal has taken all of it at this count of bytes.
    until: u64,
    /// The program says that it got it.
    is_written_down: bool,
}

impl Open {
    fn was_sent_off(&self, written: u64) -> bool {
        self.is_written_down || (self.presses > 0 && self.until <= written)
    }
}

struct World {
    bridge: Bridge,
    recipe: Recipe,
    prompt: &'static str,
    attached: bool,
    now: Moment,
    /// The program that reads while the command has the terminal, and the one that reads now.
    own: Reader,
    reader: Reader,
    /// The terminal takes nothing until it is said to.
    stalls: bool,
    handed: u64,
    written: u64,
    mail: BTreeMap<String, Fate>,
    urgent: VecDeque<String>,
    usual: VecDeque<String>,
    open: Option<Open>,
    /// The person pressed these, and they have not been passed on.
    keys: Vec<u8>,
    /// Typed, and not shown so far.
    unseen: String,
    /// The last frame's first line.
    header: String,
    said: Option<SendHandle>,
}

impl World {
    fn new(command: usize, settings: u8) -> Self {
        let (command, prompt) = COMMANDS[command % COMMANDS.len()];
        let command: Vec<_> = command.split(' ').map(str::to_owned).collect();
        let recipe = Book::default().choose(&command, "linux", None);
        let has = |bit: u8| settings & bit != 0;
        let attached = has(1);
        let own = match recipe.reads {
            Reads::Shell => Reader::Shell,
            Reads::Text if recipe.shows_composer() => Reader::Agent(recipe.name.clone()),
            Reads::Text => Reader::Accepted,
        };
        let mut bridge = Bridge::new(&Settings {
            recipe: recipe.clone(),
            attached,
            columns: if has(2) { 60 } else { 30 },
            rows: 12,
            inline: has(4),
            transcript: recipe.transcript.is_some() && !has(8),
            grid: has(16),
            brief: has(32).then(|| "Print:\n```\n->relay:Bob <<<hello>>>\n```".to_owned()),
            seed: [7; 32],
        });
        bridge.handle(Moment(0), Input::Reads(own.clone()), &mut Vec::new());
        Self {
            bridge,
            recipe,
            prompt,
            attached,
            now: Moment(0),
            reader: own.clone(),
            own,
            stalls: false,
            handed: 0,
            written: 0,
            mail: BTreeMap::new(),
            urgent: VecDeque::new(),
            usual: VecDeque::new(),
            open: None,
            keys: Vec::new(),
            unseen: String::new(),
            header: String::new(),
            said: None,
        }
    }

    fn step(&mut self, operations: &mut Operations<'_>) {
        match operations.byte() % 24 {
            0..=3 => self.pass(u64::from(operations.byte()) * 20),
            4 | 5 => self.prints(operations.one_of(&SHOWN).as_bytes()),
            6 => self.prints(operations.take()),
            7 | 8 => self.shows_its_prompt(),
            9 | 10 => self.echoes(),
            11 => self.presses(operations.one_of(&PRESSED).as_bytes()),
            12 => self.presses(operations.take()),
            13 | 14 => self.gets_mail(operations),
            15 => self.gets_it_again(operations.byte()),
            16 | 17 => self.writes_down(operations),
            18 => self.resizes(operations.byte(), operations.byte()),
            19 => self.hears(operations),
            20 => self.input(Input::Held(operations.byte() % 2 == 1)),
            21 => {
                let barred = |why| Reader::Barred(why, None);
                self.reader = match operations.byte() % 4 {
                    0 => barred(Obstacle::Shell),
                    1 => barred(Obstacle::Nested),
                    _ => self.own.clone(),
                };
                self.input(Input::Reads(self.reader.clone()));
            }
            22 => self.stalls = !self.stalls,
            _ => self.takes(u64::from(operations.byte())),
        }
    }

    /// Lets time pass, with all ticks on the way.
    fn pass(&mut self, ms: u64) {
        let until = self.now.plus(ms);
        let mut ticks = 0;
        while let Some(due) = self.bridge.deadline().filter(|&due| due <= until) {
            self.now = self.now.max(due);
            self.input(Input::Tick);
            ticks += 1;
            assert!(ticks < TICKS_MAX, "the deadline {due:?} does not move at {:?}", self.now);
        }
        self.now = until;
    }

    fn prints(&mut self, bytes: &[u8]) {
        self.input(Input::Printed(bytes));
    }

    /// The line to type into, empty, on a clear screen.
    fn shows_its_prompt(&mut self) {
        self.unseen.clear();
        let picture = format!("\x1b[2J\x1b[H\x1b[?2004hWelcome.\r\n\r\n{}", self.prompt);
        self.prints(picture.as_bytes());
    }

    /// Shows what was typed.
    fn echoes(&mut self) {
        let shown = std::mem::take(&mut self.unseen).replace('\n', "\r\n");
        self.prints(shown.as_bytes());
    }

    fn presses(&mut self, bytes: &[u8]) {
        if bytes.is_empty() || !self.bridge.wants_keys() {
            return;
        }
        self.keys.extend_from_slice(bytes);
        self.input(Input::Keys(bytes));
        // What is kept back can be told from what sends a text off.
        if (1..4).contains(&self.keys.len()) {
            self.presses(b"and more");
        }
    }

    fn gets_mail(&mut self, operations: &mut Operations<'_>) {
        let urgent = operations.byte().is_multiple_of(4);
        let (body, number) = (operations.text(), self.mail.len());
        let id = format!("{number:08}-mail");
        self.mail.insert(id.clone(), Fate::Waits);
        if urgent { &mut self.urgent } else { &mut self.usual }.push_back(id.clone());
        self.deliver(id, urgent, 1, body);
    }

    /// As after a connection that was lost.
    fn gets_it_again(&mut self, which: u8) {
        let id = format!("{:08}-mail", usize::from(which) % (self.mail.len() + 1));
        if self.mail.contains_key(&id) {
            self.deliver(id, false, 2, "again".to_owned());
        }
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

    /// A file that may be the program's transcript goes on, or is known to be it.
    fn writes_down(&mut self, operations: &mut Operations<'_>) {
        let what = operations.byte();
        let id = TranscriptId(u32::from(what / 16 % 3));
        let record = match what % 16 {
            0 => return self.input(Input::Owned(id)),
            1 => Record::Prompt(format!("{}\nits first lines", self.header)),
            2 | 3 => Record::Prompt(self.writes_it_all_down()),
            4 | 5 => Record::Prompt(operations.one_of(&PRESSED).to_owned()),
            6..=9 => Record::Reply(operations.one_of(&SHOWN).replace("\r\n", "\n")),
            10 | 11 => Record::Reply(operations.text()),
            _ => Record::TurnOver,
        };
        self.input(Input::Recorded(id, record));
    }

    /// The last frame, whole: so it was sent off, by whatever.
    fn writes_it_all_down(&mut self) -> String {
        let hex = self.header.get(7..13).unwrap_or("000000");
        let prompt = format!("{}\nbody\n[/relay {hex}]", self.header);
        if let Some(open) = &mut self.open {
            open.is_written_down = true;
        }
        prompt
    }

    fn resizes(&mut self, columns: u8, rows: u8) {
        let (columns, rows) = (usize::from(columns), usize::from(rows % 32));
        self.input(Input::Resized { columns, rows });
    }

    /// What the relay says.
    fn hears(&mut self, operations: &mut Operations<'_>) {
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

    /// The terminal takes a part of what was typed.
    fn takes(&mut self, part: u64) {
        let bytes = (self.handed - self.written) * part / 255;
        self.report_written(bytes);
    }

    fn report_written(&mut self, bytes: u64) {
        self.written += bytes;
        self.input(Input::Written(usize::try_from(bytes).expect("it was typed")));
    }

    /// The program ends: nothing is left undone.
    fn end(mut self) {
        self.pass(10_000);
        self.input(Input::ChildGone);
        assert_eq!((self.bridge.deadline(), self.bridge.state().waiting), (None, 0));
        assert!(self.mail.values().all(|fate| *fate != Fate::Waits), "{:?}", self.mail);
        self.mail.insert("late".to_owned(), Fate::Waits);
        self.deliver("late".to_owned(), true, 1, String::new());
        assert_eq!(self.mail["late"], Fate::GivenBack);
    }

    fn input(&mut self, input: Input<'_>) {
        let is_tick = matches!(input, Input::Tick);
        let again = match &input {
            Input::Delivered(mail) => Some(mail.id.clone()),
            _ => None,
        };
        let is_over = matches!(input, Input::ChildGone);
        let mut out = Vec::new();
        self.bridge.handle(self.now, input, &mut out);
        for output in out {
            match output {
                Output::Write(bytes) => self.is_typed(bytes, is_tick),
                Output::Acknowledge(id) => self.is_acknowledged(&id, again.as_deref()),
                Output::Return(id) => {
                    let is_open = |open: &Open| open.id.as_ref() == Some(&id);
                    if !is_over && self.open.as_ref().is_some_and(is_open) {
                        self.is_taken_back();
                    }
                    let fate = self.mail.insert(id, Fate::GivenBack);
                    assert_eq!(fate, Some(Fate::Waits), "it is given back once");
                }
                Output::Report(id, progress) => self.is_reported(&id, progress, again.as_deref()),
                Output::Send(number, said) => {
                    assert!(self.said.is_none_or(|before| before < number));
                    self.said = Some(number);
                    assert!(said.to == EVERYONE || Name::parse(&said.to).is_ok(), "{said:?}");
                    assert!(!said.body.trim().is_empty(), "{said:?}");
                }
                Output::Log(line) if line.starts_with("the agent did not get ") => {
                    self.is_taken_back();
                }
                Output::Log(line) => assert!(!line.is_empty()),
            }
        }
        if is_over {
            self.open = None;
            return;
        }
        self.count();
        if !self.stalls && self.written < self.handed {
            self.report_written(self.handed - self.written);
        }
    }

    /// What was being typed is, where it is not seen any more.
    fn is_taken_back(&mut self) {
        assert!(self.open.take().is_some(), "it was typed");
        let spot = Spot::of(self.bridge.screen());
        assert!(!self.recipe.holds_text(&spot), "it would be there twice: {spot:?}");
    }

    /// What waits is what was not acknowledged, and the relay's own words while they are typed.
    fn count(&mut self) {
        let waiting = self.mail.values().filter(|fate| **fate == Fate::Waits).count();
        let own = self.open.as_ref().is_some_and(|open| open.id.is_none());
        let counted = self.bridge.state().waiting;
        if own && counted == waiting {
            let open = self.open.take().expect("it is open");
            assert!(open.was_sent_off(self.written), "it was sent off");
        } else {
            assert_eq!(counted, waiting + usize::from(own));
        }
    }

    fn is_typed(&mut self, bytes: Vec<u8>, is_tick: bool) {
        self.handed += bytes.len() as u64;
        self.unseen.push_str(&String::from_utf8_lossy(&bytes));
        if !self.keys.is_empty() && self.keys == bytes {
            return self.keys.clear();
        }
        if !self.attached && is_answer(&bytes) {
            return;
        }
        let text = String::from_utf8(bytes).expect("what is typed is text");
        assert!(is_tick, "nothing is typed at once: {text:?}");
        assert_eq!(self.reader, self.own, "another program reads it");
        if let Some(open) = &mut self.open {
            assert_eq!(text, self.recipe.submit, "one at a time");
            open.presses += 1;
            open.until = self.handed;
            assert!(open.presses <= PRESSES_MAX, "it is enough");
            let spot = Spot::of(self.bridge.screen());
            assert!(self.recipe.holds_text(&spot), "an Enter would do something else: {spot:?}");
        } else {
            self.begins(&text);
        }
    }

    /// A text is typed, which presses no key.
    fn begins(&mut self, text: &str) {
        assert!(!self.bridge.state().held, "its person holds it");
        let spot = Spot::of(self.bridge.screen());
        let prompts = [spot.before.clone()];
        let state = ReaderState { reader: &self.reader, prompts: &prompts, at_work: false };
        assert!(self.recipe.form(&spot, state).is_ok(), "{text:?} at {spot:?}");
        let inner = text.strip_prefix(PASTE_BEGINS).and_then(|text| text.strip_suffix(PASTE_ENDS));
        assert_eq!(inner.is_some(), spot.bracketed_paste, "{text:?}");
        let (inner, keys) = inner.map_or((text, "\n\r"), |inner| (inner, "\n\t"));
        assert!(inner.chars().all(|c| !c.is_control() || keys.contains(c)), "{text:?}");
        let (start, header) =
            (inner.find("[relay "), inner.lines().find(|it| it.contains("[relay ")));
        let (Some(start), Some(header)) = (start, header) else { panic!("no frame: {text:?}") };
        let before = &inner[..start];
        assert!(before.is_empty() || before.starts_with(": <<'relay-"), "{text:?}");
        header.clone_into(&mut self.header);
        let is_own = [" from @relay] ", " from \\@relay] "].iter().any(|it| header.contains(it));
        let id = (!is_own).then(|| {
            let next = self.urgent.pop_front().or_else(|| self.usual.pop_front());
            let next = next.unwrap_or_else(|| panic!("nothing waits: {text:?}"));
            assert!(header.contains(&next[..8]), "{next} is next: {text:?}");
            assert_eq!(self.mail[&next], Fate::Waits);
            next
        });
        self.open = Some(Open { id, presses: 0, until: u64::MAX, is_written_down: false });
    }

    fn is_acknowledged(&mut self, id: &str, again: Option<&str>) {
        if again == Some(id) {
            return assert_eq!(self.mail[id], Fate::Acknowledged, "{id}");
        }
        let open = self.open.take().unwrap_or_else(|| panic!("{id} was not typed"));
        assert_eq!(open.id.as_deref(), Some(id));
        assert!(open.was_sent_off(self.written), "{id} was sent off");
        let fate = self.mail.insert(id.to_owned(), Fate::Acknowledged);
        assert_eq!(fate, Some(Fate::Waits), "{id} is acknowledged once");
    }

    fn is_reported(&mut self, id: &str, progress: Progress, again: Option<&str>) {
        let is_open = self.open.as_ref().is_some_and(|open| open.id.as_deref() == Some(id));
        let presses = self.open.as_ref().filter(|_| is_open).map_or(0, |open| open.presses);
        let expected = match progress {
            Progress::Waiting(why) => {
                let holds_up = match why {
                    Obstacle::Dialog | Obstacle::Shell | Obstacle::Nested => true,
                    Obstacle::NoEnterTaken => presses == PRESSES_MAX,
                    _ => !is_open,
                };
                holds_up && self.mail[id] == Fate::Waits
            }
            Progress::Unhindered => self.mail[id] == Fate::Waits,
            Progress::Injected if again == Some(id) => self.mail[id] == Fate::Acknowledged,
            Progress::Injected => is_open,
            Progress::Confirmed => self.mail[id] == Fate::Acknowledged,
        };
        assert!(expected, "{id} is said to be {progress:?}: {:?}", self.mail[id]);
    }
}

/// What a terminal answers by itself: digits.
fn is_answer(bytes: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_digit() || b"?>;".contains(byte);
    let mut answers = bytes.split(|byte| *byte == 0x1b);
    answers.next().is_some_and(<[u8]>::is_empty)
        && answers.all(|answer| {
            let digits = answer.strip_prefix(b"[").and_then(<[u8]>::split_last);
            digits.is_some_and(|(last, digits)| {
                last.is_ascii_alphabetic() && digits.iter().all(is_plain)
            })
        })
}
