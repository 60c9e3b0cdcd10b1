//! How a terminal speaks the protocol: the pure machine in the wrapper's middle.
//!
//! A driver hands it everything that happens as an [`Input`] and does what each [`Output`] says, in
//! order. What the child prints is painted on a grid, from which [`extract`] reads messages. What
//! arrives for the agent waits here until the terminal is free, is typed by [`inject`] as its
//! [`recipe`] wants it, and is acknowledged only then. The machine never waits and reads no clock.

pub mod agents;
pub mod brief;
pub mod dialog;
mod escape;
pub mod extract;
pub mod inject;
pub mod keyboard;
pub mod keys;
mod mailbag;
pub mod obstacle;
mod outgoing;
pub mod recipe;
mod refusal;
pub mod screen;
mod source;
pub mod transcript;
mod typing;

pub use outgoing::OutgoingMessage;
pub use refusal::{Cause, Refusal};

use crate::protocol::{Moment, deliver::Proof, name};
use extract::{Extracted, Extractor, SILENCE_MS};
use keyboard::Reader;
use keys::InputLine;
use mailbag::Mailbag;
use obstacle::Obstacle;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use recipe::{Known, Reads, Recipe, Spot, Turns};
use refusal::Sent;
use source::Source;
use std::collections::VecDeque;
use transcript::Record;

/// Keys that wait while a message is typed or the child doesn't read, in bytes. Beyond it the person's
/// terminal isn't read from, and answers of a terminal stay with the screen, which has a bound for them.
const KEYS_BYTES_MAX: usize = 64 << 10;
/// Deliveries that are known to have been typed: for doubles, and for `[reply:ID]`.
const TYPED_MAX: usize = 1024;
/// Frames whose digits are remembered.
const DRAWN_MAX: usize = 32;
/// Senders whose sessions are remembered.
const SENDERS_MAX: usize = 256;
/// What the agent is told at a time.
const COMPLAINTS_MAX: usize = 16;
/// Prompts of a shell that are remembered.
const PROMPTS_MAX: usize = 8;
/// Where the recipe sees the end of a turn, it is over after so long without output.
const IDLE_MS: u64 = 350;
/// Another reason why messages wait is reported once it has lasted for so long.
const LASTING_MS: u64 = 2000;
/// A key that was pressed so long ago has done what it does.
const SEEN_MS: u64 = 10_000;
/// A text that was submitted is looked after so often, and for so long before it is submitted again: some
/// programs take an Enter that follows a paste too soon for a part of it.
const LEAVING_LOOK_MS: u64 = 30;
const LEAVING_MS: u64 = 700;
/// The same where the program shows nothing of the Enter.
const UNANSWERED_MS: u64 = 3000;
/// What was submitted is taken up within this time, or was already over.
const TAKING_UP_MS: u64 = 3000;
/// Where the program writes down what it is told, not before that, unless nothing is written for so long: one
/// that is still beginning may show nothing, and later make one prompt of all.
const WRITTEN_DOWN_MS: u64 = 20_000;
/// How often the screen is looked at for it.
const TAKING_UP_LOOK_MS: u64 = 50;
/// A text is submitted so often at most.
const PRESSES_MAX: u32 = 4;
/// How often something is tried that no input need announce.
const RETRY_MS: u64 = 1000;

/// What a bridge is made with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How the command takes text.
    pub recipe: Recipe,
    /// A real terminal shows the screen, and answers what the child asks a terminal.
    pub attached: bool,
    /// The terminal's columns.
    pub columns: usize,
    /// And rows.
    pub rows: usize,
    /// `->relay:Bob hello` counts, too.
    pub inline: bool,
    /// The transcript that its program writes is followed.
    pub transcript: bool,
    /// What the agent says is read from the screen all the same.
    pub grid: bool,
    /// What the agent is told once, before anything else; nothing is where what is typed would be run.
    pub brief: Option<String>,
    /// Where the frames' digits come from.
    pub seed: [u8; 32],
}

/// A message for the agent.
#[derive(Clone, Debug, Default)]
pub struct Mail {
    /// The DELIVER's id.
    pub id: String,
    /// Who says it.
    pub from: String,
    /// The sender's session, in the daemon's words.
    pub session: Option<String>,
    /// How the daemon knows the sender.
    pub auth: Option<Proof>,
    /// It goes before others that wait.
    pub urgent: bool,
    /// 2 or more where it comes again.
    pub attempt: u32,
    /// The text.
    pub body: String,
}

/// Names one [`OutgoingMessage`] in its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(pub u64);

/// Names one file that may be the child's transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct File(pub u32);

/// Everything that can happen.
#[derive(Debug)]
pub enum Input<'a> {
    /// The child printed.
    Printed(&'a [u8]),
    /// The person's terminal sent this: keys, and what a terminal answers.
    Keys(&'a [u8]),
    /// The terminal has another size.
    Resized {
        /// Its columns.
        columns: usize,
        /// And rows.
        rows: usize,
    },
    /// A message arrived.
    Delivered(Mail),
    /// The daemon answers for a message of the agent's.
    Accepted {
        /// Which.
        number: Number,
        /// Its recipient is not here: it waits.
        away: bool,
    },
    /// A message of the agent's was not delivered, as it turns out at once or much later.
    Refused(Refusal),
    /// The relay is there, or away.
    Connected(bool),
    /// The relay doesn't take the agent in for now, and is asked again; a sentence says why.
    ShutOut(String),
    /// The relay is gone for good; a sentence says why.
    CutOff(String),
    /// Its person wants no messages typed for now, or wants them again.
    Held(bool),
    /// So many bytes of [`Output::Write`] were taken by the child's terminal.
    Written(usize),
    /// This file is the child's transcript: the system says so.
    Owned(File),
    /// A file that may be the child's transcript goes on with this.
    Recorded(File, Record),
    /// All that those files had at this moment has been told.
    Searched {
        /// See there.
        at: Moment,
        /// No other agent of its kind is at work in the child's directory: the system says so.
        is_alone: bool,
    },
    /// Another program may read the terminal from now on.
    Reads(Reader),
    /// The program that reads the terminal has this recipe, which its command did not tell.
    Recognised(Box<Recipe>),
    /// The deadline is reached.
    Tick,
    /// The child is gone and all it printed was handed over. The last input that counts.
    ChildGone,
}

/// Everything that is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Type this into the child's terminal: each in a write of its own, in order.
    Write(Vec<u8>),
    /// Send this.
    Send(Number, OutgoingMessage),
    /// The delivery with this id has been typed and submitted.
    Acknowledge(String),
    /// How far a delivery is, for whoever asks.
    Report(String, Progress),
    /// The delivery can't be typed any more: give it back, to be delivered again.
    GiveBack(String),
    /// A line for the log.
    Log(String),
}

/// How far a delivery is on its way into the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is not typed yet, for this reason.
    Waiting(Obstacle),
    /// It is not typed yet, and the reason that was reported is over.
    Unhindered,
    /// It was typed and submitted.
    Injected,
    /// The agent's own program has written down that it got it, from the frame's beginning to its end.
    Confirmed,
}

/// How it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Messages that wait to be typed.
    pub waiting: usize,
    /// Why they do.
    pub why: Option<Obstacle>,
    /// Messages typed.
    pub typed: u64,
    /// The relay is there.
    pub connected: bool,
    /// Its person holds its messages.
    pub held: bool,
}

/// Where what the agent says is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Off its screen.
    OnScreen,
    /// In this file.
    In(File),
    /// Its transcript is not found so far.
    Nowhere,
}

/// The machine.
pub struct Bridge {
    recipe: Recipe,
    attached: bool,
    random: ChaCha20Rng,
    extractor: Extractor,
    source: Source,
    /// The program that reads the terminal.
    reader: Reader,
    /// Prompts that a shell showed before anybody typed: no command was unfinished.
    prompts: Vec<String>,
    /// The person has pressed a key since the shell began, or came back to the foreground.
    typed_at_shell: bool,
    line: InputLine,
    started: Option<Moment>,
    /// Since when the line to type into is there, at the start.
    free_since: Option<Moment>,
    /// It was there for long enough: the program has begun.
    settled: bool,
    printed_at: Option<Moment>,
    touched_at: Option<Moment>,
    submitted_at: Option<Moment>,
    /// When to try again what only a [`Input::Tick`] can find possible.
    retry_at: Option<Moment>,
    /// When the screen was last looked at for a text that leaves.
    left_looked_at: Option<Moment>,
    /// What was submitted has not been taken up yet, as far as can be seen.
    taking_up: Option<TakingUp>,
    /// The program writes down what it is told, as far as is known.
    writes_down: bool,
    turn: Turn,
    /// What the agent is still to be told before anything else.
    brief: Option<String>,
    mail: Mailbag,
    /// Why nothing is typed, and since when.
    obstacle: Option<(Obstacle, Moment)>,
    injection: Option<Injection>,
    held_keys: Vec<u8>,
    /// One of them sends a line off.
    holds_submit: bool,
    handed_out: u64,
    written: u64,
    typed: VecDeque<String>,
    /// The digits of the last frames, and the deliveries in them.
    drawn: VecDeque<(String, Option<String>)>,
    senders: VecDeque<(String, String)>,
    sent: Sent,
    next: u64,
    state: State,
    /// The agent was told that the relay doesn't take it in.
    shut_out: bool,
    gone: bool,
}

/// What the agent is doing in answer to one prompt.
#[derive(Debug, Default)]
struct Turn {
    open: bool,
    /// The screen stands still, and the recipe has judged it.
    looked_at: bool,
    told: bool,
    complaints: Vec<String>,
    complaints_left_out: usize,
}

/// A text was submitted, and the agent begins to work at it: until that is seen it may look idle, and would
/// make one prompt of this text and the next.
#[derive(Debug)]
struct TakingUp {
    /// When it was submitted, or written down.
    since: Moment,
    /// The digits of its frame.
    hex: String,
    /// It was seen at work.
    begun: bool,
    looked_at: Moment,
}

/// What is being typed.
#[derive(Debug)]
struct Injection {
    item: Item,
    /// The digits of its frame.
    hex: String,
    /// The program that it was typed into.
    reader: Reader,
    /// The count of bytes at which the terminal has all of this stage.
    until: u64,
    stage: Stage,
    /// The person's keys pass: the program asks something, or does not take the text as it should.
    keys_pass: bool,
    /// Why it is not submitted, or does not leave.
    held_up: Option<Obstacle>,
    /// What the person has done meanwhile.
    hand: Hand,
}

/// What the person did to a program that was being typed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hand {
    /// Nothing.
    Off,
    /// Keys were pressed.
    Keys,
    /// Enter was among them.
    Enter,
}

#[derive(Debug)]
enum Item {
    Mail(Mail),
    /// The relay's own words.
    Own,
}

#[derive(Debug)]
enum Stage {
    /// The text is on its way into the terminal.
    Text,
    /// It is there; the Enter waits.
    Guard {
        /// Since this moment, but for what was asked meanwhile.
        typed: Moment,
        /// From this one on.
        since: Moment,
    },
    /// The Enter is on its way, for the first time or once more.
    Submit {
        /// How often it was pressed.
        presses: u32,
    },
    /// It was pressed at this moment; the text has not left the line to type into yet.
    Leaving {
        /// See there.
        since: Moment,
        /// As above.
        presses: u32,
    },
}

impl Bridge {
    /// A bridge to a child that is about to run.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let mut extractor = Extractor::live(settings.columns, settings.rows);
        extractor.skip_margin(settings.recipe.margin.into());
        if settings.inline {
            extractor.allow_inline();
        }
        Self {
            recipe: settings.recipe.clone(),
            attached: settings.attached,
            random: ChaCha20Rng::from_seed(settings.seed),
            extractor,
            source: Source::new(settings),
            reader: Reader::default(),
            prompts: Vec::new(),
            typed_at_shell: false,
            line: InputLine::default(),
            started: None,
            free_since: None,
            settled: false,
            printed_at: None,
            touched_at: None,
            submitted_at: None,
            retry_at: None,
            left_looked_at: None,
            taking_up: None,
            writes_down: settings.transcript,
            turn: Turn::default(),
            brief: settings.brief.clone().filter(|_| settings.recipe.reads == Reads::Text),
            mail: Mailbag::default(),
            obstacle: None,
            injection: None,
            held_keys: Vec::new(),
            holds_submit: false,
            handed_out: 0,
            written: 0,
            typed: VecDeque::new(),
            drawn: VecDeque::new(),
            senders: VecDeque::new(),
            sent: Sent::default(),
            next: 0,
            state: State::default(),
            shut_out: false,
            gone: false,
        }
    }

    /// Something happens.
    pub fn handle(&mut self, now: Moment, input: Input<'_>, out: &mut Vec<Output>) {
        self.started.get_or_insert(now);
        match input {
            Input::Printed(bytes) => self.printed(now, bytes, out),
            Input::Keys(bytes) => self.keys(now, bytes, out),
            Input::Resized { columns, rows } => self.resized(now, columns, rows, out),
            Input::Delivered(mail) => self.delivered(mail, out),
            Input::Accepted { number, away } => self.accepted(number, away),
            Input::Refused(refusal) => self.refused(now, &refusal, out),
            Input::Connected(connected) => self.connected(connected),
            Input::ShutOut(sentence) => self.shut_out(&sentence),
            Input::CutOff(sentence) => self.cut_off(&sentence),
            Input::Held(held) => self.hold(held),
            Input::Written(bytes) => self.was_written(now, bytes, out),
            Input::Owned(file) => self.owned(now, file, out),
            Input::Recorded(file, record) => self.recorded(now, file, record, out),
            Input::Searched { at, is_alone } => self.searched(now, at, is_alone, out),
            Input::Reads(reader) => self.reads(now, reader, out),
            Input::Recognised(recipe) => self.recognised(*recipe),
            Input::Tick => self.tick(now, out),
            Input::ChildGone => self.child_gone(now, out),
        }
    }

    /// When [`Input::Tick`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        if self.gone {
            return None;
        }
        let enter = self.injection.as_ref().and_then(|injection| match injection.stage {
            Stage::Guard { since, .. } => Some(self.enter_at(since)),
            Stage::Leaving { since, presses } => Some(self.leaves_at(since, presses)),
            Stage::Text | Stage::Submit { .. } => None,
        });
        let extractor = self.extractor.deadline();
        let typing = [enter, self.inject_at(), self.report_at()];
        let all =
            typing.into_iter().chain([extractor, self.turn_ends_at(), self.source.deadline()]);
        all.flatten().min()
    }

    /// Whether there is room for more keys; until then the person's terminal is left alone.
    #[must_use]
    pub fn wants_keys(&self) -> bool {
        self.unwritten() < KEYS_BYTES_MAX as u64 && self.held_keys.len() < KEYS_BYTES_MAX
    }

    /// Whether there is room for more mail; until then it is left where it is, in the end with its
    /// sender.
    #[must_use]
    pub fn wants_mail(&self) -> bool {
        !self.mail.is_full()
    }

    /// Whether it has to be known right now which program reads the terminal: something is about to
    /// be typed or sent off.
    #[must_use]
    pub fn asks_for_reader(&self, now: Moment) -> bool {
        match self.injection.as_ref().map(|injection| &injection.stage) {
            Some(Stage::Guard { since, .. }) => now >= self.enter_at(*since),
            Some(Stage::Leaving { since, .. }) => now.since(*since) >= LEAVING_MS,
            Some(Stage::Text | Stage::Submit { .. }) => false,
            None => self.has_something_to_type() && self.has_stood_still(now),
        }
    }

    /// The program that reads the terminal, as far as it was told.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// How the program takes text.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// What the child's bytes have painted.
    #[must_use]
    pub fn screen(&self) -> &screen::Screen {
        self.extractor.screen()
    }

    /// Where what the agent says is read.
    #[must_use]
    pub fn read_from(&self) -> Heard {
        self.source.read_from()
    }

    /// How it stands.
    #[must_use]
    pub fn state(&self) -> State {
        let waiting = self.mail.len() + usize::from(self.injection.is_some());
        let why = match self.injection {
            Some(_) if self.unwritten() > 0 => Some(Obstacle::NotReading),
            Some(Injection { held_up, .. }) => held_up,
            None if self.state.held => Some(Obstacle::Held).filter(|_| waiting > 0),
            None => self.obstacle.map(|(why, _)| why).filter(|_| waiting > 0),
        };
        State { waiting, why, ..self.state.clone() }
    }

    fn printed(&mut self, now: Moment, bytes: &[u8], out: &mut Vec<Output>) {
        self.printed_at = Some(now);
        self.retry_at = None;
        self.turn.open = true;
        self.turn.looked_at = false;
        let mut found = Vec::new();
        self.extractor.feed(now, bytes, &mut found);
        self.answer(out);
        if !self.line.is_untouched() {
            self.line.screen_shows(&recipe::before(self.extractor.screen()));
        }
        self.look_whether_it_began(now);
        self.shown(now, found, out);
        self.look_for_answers(now, out);
    }

    /// Tells the child what it asks its terminal, where no real one does.
    fn answer(&mut self, out: &mut Vec<Output>) {
        if self.attached || self.unwritten() >= KEYS_BYTES_MAX as u64 {
            return;
        }
        let answers = self.extractor.screen_mut().take_answers();
        if !answers.is_empty() {
            self.write(answers, out);
        }
    }

    fn keys(&mut self, now: Moment, bytes: &[u8], out: &mut Vec<Output>) {
        self.retry_at = None;
        let screen = self.extractor.screen();
        let before = recipe::before(screen);
        let line_feed_breaks = self.recipe.line_feed_breaks(screen.bracketed_paste());
        let pressed = self.line.press(now, bytes, &before, line_feed_breaks);
        let (is_held, in_doubt) = (!self.held_keys.is_empty(), self.line.is_ambiguous());
        if pressed.any {
            self.touched_at = Some(now);
            self.learn_prompt(&Spot::of(self.extractor.screen()));
            self.typed_at_shell = true;
            if pressed.submit {
                self.source.entered(now, self.extractor.screen());
            }
        } else if !is_held && !in_doubt {
            // A terminal's answer, for which the child may be waiting.
            return self.write(bytes.to_vec(), out);
        }
        if self.extractor.screen().alternate() {
            self.line.forget_mode();
        }
        // What is being typed is submitted before anything else is typed.
        match self.injection {
            Some(Injection { keys_pass: false, .. }) => {
                self.held_keys.extend_from_slice(bytes);
                self.holds_submit |= pressed.submit;
            }
            _ if pressed.any || is_held => self.pass_keys(bytes.to_vec(), pressed.submit, out),
            _ => self.write(bytes.to_vec(), out),
        }
    }

    /// What was printed before another wrapper began, or until it ended, belongs to who had the
    /// terminal.
    fn reads(&mut self, now: Moment, reader: Reader, out: &mut Vec<Output>) {
        if self.reader.is_relay() != reader.is_relay() {
            let mut found = Vec::new();
            self.extractor.turn_over(now, &mut found);
            self.shown(now, found, out);
        }
        if std::mem::replace(&mut self.reader, reader.clone()) != reader {
            self.typed_at_shell &= reader != Reader::Shell;
            self.reader_changed(now);
        }
    }

    /// Adopts a recipe. Where the agent's words are read does not change.
    fn recognised(&mut self, recipe: Recipe) {
        self.extractor.skip_margin(recipe.margin.into());
        self.recipe = recipe;
    }

    fn resized(&mut self, now: Moment, columns: usize, rows: usize, out: &mut Vec<Output>) {
        let mut found = Vec::new();
        self.extractor.resize(now, columns, rows, &mut found);
        self.shown(now, found, out);
    }

    fn delivered(&mut self, mail: Mail, out: &mut Vec<Output>) {
        let current = self.injection.as_ref().is_some_and(|injection| injection.is_of(&mail.id));
        if self.gone {
            return out.push(Output::GiveBack(mail.id));
        }
        if self.typed.contains(&mail.id) {
            out.push(Output::Report(mail.id.clone(), Progress::Injected));
            return out.push(Output::Acknowledge(mail.id));
        }
        if current {
            self.report_held_up(out);
            return;
        }
        if self.mail.holds(&mail.id) {
            return self.mail.forget_report(&mail.id);
        }
        self.mail.push(mail);
        self.retry_at = None;
    }

    fn accepted(&mut self, number: Number, away: bool) {
        if let Some(to) = self.sent.recipient(number).filter(|_| away) {
            self.complain(format!("{to} is away; your message waits until {to} is back."));
        }
    }

    fn refused(&mut self, now: Moment, refusal: &Refusal, out: &mut Vec<Output>) {
        if let Some(told) = self.sent.tell(now, refusal) {
            out.push(Output::Log(told.log));
            self.complain(told.line);
        }
    }

    fn connected(&mut self, connected: bool) {
        if connected {
            self.sent.connected();
        }
        self.state.connected = connected;
        self.shut_out &= !connected;
    }

    /// Told once, however often the relay is asked.
    fn shut_out(&mut self, sentence: &str) {
        if !std::mem::replace(&mut self.shut_out, true) {
            self.complain(format!(
                "You are not connected to the relay: {sentence}. It is asked again every 30 s; what you \
                 say to others waits until then."
            ));
        }
    }

    fn cut_off(&mut self, sentence: &str) {
        self.state.connected = false;
        self.complain(format!(
            "You are cut off from the relay: {sentence}. What you say to others is not delivered."
        ));
    }

    /// What is half typed is submitted all the same.
    fn hold(&mut self, held: bool) {
        self.state.held = held;
        self.retry_at = None;
    }

    fn child_gone(&mut self, now: Moment, out: &mut Vec<Output>) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        let mut found = Vec::new();
        self.extractor.finish(now, &mut found);
        self.shown(now, found, out);
        let current = self.injection.take().and_then(|injection| match injection.item {
            Item::Mail(mail) => Some(mail),
            Item::Own => None,
        });
        let rest = std::iter::from_fn(|| self.mail.pop());
        out.extend(current.into_iter().chain(rest).map(|mail| Output::GiveBack(mail.id)));
    }

    fn tick(&mut self, now: Moment, out: &mut Vec<Output>) {
        if self.gone {
            return;
        }
        let pressed_at = self.line.expire_unfinished(now);
        self.touched_at = self.touched_at.max(pressed_at);
        let mut found = Vec::new();
        self.extractor.tick(now, &mut found);
        // Only for what waits by now, the driver has looked who reads.
        let may_type = self.has_something_to_type();
        let spot = Spot::of(self.extractor.screen());
        if self.has_stood_still(now) {
            self.learn_prompt(&spot);
        }
        if self.turn_is_over(now, &spot) {
            self.turn.open = false;
            self.turn.told = false;
            self.source.turn_over();
            self.extractor.turn_over(now, &mut found);
        }
        self.shown(now, found, out);
        self.miss_transcript(now, out);
        self.look_for_answers(now, out);
        if self.line.is_untouched() && self.has_stood_still(now) {
            self.line.remember_empty_look(&spot.before);
        }
        self.submit_when_due(now, &spot, out);
        self.look_whether_it_left(now, &spot, out);
        match may_type {
            true => self.inject_when_free(now, &spot, out),
            false if self.has_something_to_type() => self.retry_at = Some(now),
            false => {}
        }
    }

    /// Remembers a shell's prompt that is shown before a key is pressed.
    fn learn_prompt(&mut self, spot: &Spot) {
        let is_primary = self.reader == Reader::Shell && !self.typed_at_shell && spot.is_shell();
        if is_primary && !self.prompts.contains(&spot.before) {
            if self.prompts.len() == PROMPTS_MAX {
                self.prompts.remove(0);
            }
            self.prompts.push(spot.before.clone());
        }
    }
}

/// Extraction: what the agent says.
impl Bridge {
    /// The screen shows something. Where a transcript is read, it says so better; and what another
    /// wrapper's program prints that one reads.
    fn shown(&mut self, now: Moment, found: Vec<Extracted>, out: &mut Vec<Output>) {
        match self.source.reads_screen() {
            _ if self.reader.is_relay() => {}
            true => self.extracted(now, found, out),
            false => self.source.saw(now, &found),
        }
    }

    fn extracted(&mut self, now: Moment, found: Vec<Extracted>, out: &mut Vec<Output>) {
        for extracted in found {
            match extracted {
                Extracted::Found(message) => self.say(now, message, out),
                Extracted::Problem(problem) => {
                    out.push(Output::Log(problem.sentence.clone()));
                    self.complain(problem.sentence);
                }
            }
        }
    }

    fn say(&mut self, now: Moment, mut message: OutgoingMessage, out: &mut Vec<Output>) {
        let number = Number(self.next);
        self.next += 1;
        self.sent.add(now, number, (&message.to, message.topic.as_deref()), &message.body);
        let reply = message.reply_to.take();
        message.reply_to = reply.and_then(|reply| self.find_reply(&reply, &message.to));
        out.push(Output::Send(number, message));
    }

    /// The delivery that an id's first characters name; a message to an agent goes out even if none does.
    fn find_reply(&mut self, reply: &str, to: &str) -> Option<String> {
        let found = self.typed.iter().rev().find(|id| id.starts_with(reply)).cloned();
        if found.is_none() && !name::is_daemons(to) {
            self.complain(format!(
                "[reply:{reply:.40}] names no message that you got; yours was sent without it."
            ));
        }
        found
    }

    fn complain(&mut self, sentence: String) {
        if self.turn.complaints.len() < COMPLAINTS_MAX {
            self.turn.complaints.push(sentence);
        } else {
            self.turn.complaints_left_out += 1;
        }
        self.retry_at = None;
    }

    fn turn_ends_at(&self) -> Option<Moment> {
        let changed = self.changed_at().filter(|_| self.turn.open)?;
        let looks = self.recipe.shows_idle() && !self.turn.looked_at;
        Some(changed.plus(if looks { IDLE_MS } else { SILENCE_MS }))
    }

    fn known(&self) -> Known<'_> {
        let told = self.recipe.turns == Some(Turns::Transcript);
        let at_work = told && self.source.at_work();
        Known { reader: &self.reader, prompts: &self.prompts, at_work }
    }

    fn turn_is_over(&mut self, now: Moment, spot: &Spot) -> bool {
        let Some(changed) = self.changed_at().filter(|_| self.turn.open) else { return false };
        let quiet_ms = now.since(changed);
        if quiet_ms < IDLE_MS {
            return false;
        }
        self.turn.looked_at = true;
        quiet_ms >= SILENCE_MS || self.recipe.looks_idle(spot, self.known())
    }
}

impl Injection {
    fn is_of(&self, id: &str) -> bool {
        matches!(&self.item, Item::Mail(mail) if mail.id == id)
    }
}

impl Turn {
    /// All complaints, in one line.
    fn tell(&mut self) -> String {
        self.told = true;
        let mut line = self.complaints.join(" ").replace(['\n', '\r'], " ");
        self.complaints.clear();
        match std::mem::take(&mut self.complaints_left_out) {
            0 => {}
            more => line.push_str(&format!(" ({more} more of your messages had trouble.)")),
        }
        line
    }
}

#[cfg(test)]
mod script;
#[cfg(test)]
mod tests;
