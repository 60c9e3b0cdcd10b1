//! The listener, which reads the agent's messages from its screen or its transcript and remembers
//! each message's outcome.

mod inner_run;
mod sent;

use super::{
    extract::{Extracted, Fault, Problem, ScreenExtractor},
    outgoing::OutgoingMessage,
    output::SendHandle,
    recipe::Recipe,
    screen::Screen,
    settings::Settings,
    source::Source,
    transcript::{Record, TranscriptId},
};
use inner_run::InnerRun;
use protocol::{Moment, name};
use sent::SentMessages;
use std::mem;

/// A fact that the listener has read. Facts come in the order that the agent produced them.
pub(super) enum Event {
    /// The agent sends a message. Its `reply_to` may still be only the beginning of an id.
    Message(SendHandle, OutgoingMessage),
    /// The agent sends a message to a group.
    Group(OutgoingMessage),
    /// A message has a problem. The sentence is for the log and for the agent.
    Problem(String),
    /// The child's own transcript has this prompt.
    Prompt(String),
    /// The child's own transcript has a reply.
    Reply,
    /// The child's own transcript has the end of a turn.
    TurnOver,
}

/// Reads the agent's messages from its screen and its transcripts.
pub(super) struct Listener {
    pub(super) extractor: ScreenExtractor,
    pub(super) source: Source,
    pub(super) sent: SentMessages,
    next_handle: u64,
    pub(super) inner_run: InnerRun,
    /// The facts that were read and not passed on yet.
    pub(super) events: Vec<Event>,
    /// Whether the agent was notified that an arrow after other text is no message. It is notified
    /// once, since it may only be writing about messages.
    is_misplaced_told: bool,
    /// Whether the screen is a shell's, and so shows the output of all that the shell runs.
    is_shell: bool,
}

impl Listener {
    pub(super) fn new(settings: &Settings) -> Self {
        let mut extractor = ScreenExtractor::live(settings.columns, settings.rows);
        extractor.report_misplaced();
        if settings.inline {
            extractor.allow_inline();
        }
        let mut listener = Self {
            extractor,
            source: Source::new(settings),
            sent: SentMessages::default(),
            next_handle: 0,
            inner_run: InnerRun::new(settings.contradiction_ms),
            events: Vec::new(),
            is_misplaced_told: false,
            is_shell: false,
        };
        listener.set_recipe(&settings.recipe);
        listener
    }

    /// Returns when the next tick is due.
    pub(super) fn deadline(&self) -> Option<Moment> {
        [self.extractor.deadline(), self.source.deadline(), self.inner_run.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn screen(&self) -> &Screen {
        self.extractor.screen()
    }

    /// Adjusts the reading of the screen to this program.
    pub(super) fn set_recipe(&mut self, recipe: &Recipe) {
        self.is_shell = recipe.is_shell;
        self.extractor.skip_margin(recipe.margin.into());
        self.extractor.leave_out(recipe.command_output());
        self.extractor.screen_mut().count_code_points(recipe.counts_code_points);
    }

    /// Remembers that a text is being typed in a frame with these digits, so that it does not count
    /// as a message from the agent.
    pub(super) fn remember_frame(&mut self, now: Moment, hex: &str, body: &str) {
        self.source.expect(now);
        if self.source.reads_screen() {
            self.extractor.remember_escaped(hex);
        } else {
            self.extractor.remember_injected(hex, body);
        }
    }

    /// Reads bytes that the child printed.
    pub(super) fn printed(&mut self, now: Moment, bytes: &[u8]) {
        self.extract(now, |extractor, found| extractor.feed(now, bytes, found));
        self.compare_with_screen(now);
    }

    /// Notes that the person submitted a line.
    pub(super) fn entered(&mut self, now: Moment) {
        self.source.enter(now, self.extractor.screen());
    }

    pub(super) fn resized(&mut self, now: Moment, columns: usize, rows: usize) {
        self.extract(now, |extractor, found| extractor.resize(now, columns, rows, found));
    }

    /// Notes that the output from here on belongs to an inner `run`, or no longer. Earlier rows
    /// belong to the program that printed before.
    pub(super) fn set_inner_output(&mut self, now: Moment, is_inner: bool) {
        if self.inner_run.has_output() != is_inner {
            self.read_rows(now);
        }
        self.inner_run.set_output(now, is_inner);
    }

    fn read_rows(&mut self, now: Moment) {
        self.extract(now, |extractor, found| extractor.turn_over(now, found));
    }

    /// Lets the foreground decide if it has contradicted the marks of an inner `run` for too long.
    pub(super) fn settle_inner_run(&mut self, now: Moment) {
        if self.inner_run.is_overruled(now) {
            self.read_rows(now);
            self.inner_run.overrule(now);
        }
    }

    /// Reads rows that have not changed for a while. [`Listener::settle`] turns the results into
    /// events.
    pub(super) fn tick(&mut self, now: Moment) -> Vec<Extracted> {
        let mut found = Vec::new();
        self.extractor.tick(now, &mut found);
        found
    }

    /// Ends the agent's turn, and reads the rows that are not stable yet.
    pub(super) fn end_turn(&mut self, now: Moment, found: &mut Vec<Extracted>) {
        self.source.end_turn();
        self.extractor.turn_over(now, found);
    }

    /// Handles the results of [`Listener::tick`], and compares transcripts with the screen. The
    /// transcript of the program named `program` may be missing.
    pub(super) fn settle(&mut self, now: Moment, found: Vec<Extracted>, program: &str) {
        self.shown(now, found);
        self.events.extend(self.source.check_missing(now, program).map(Event::Problem));
        self.compare_with_screen(now);
    }

    /// Reads the rest of the screen after the child has ended.
    pub(super) fn finish(&mut self, now: Moment) {
        self.extract(now, |extractor, found| extractor.finish(now, found));
    }

    /// Notes that, according to the operating system, this transcript is the child's.
    pub(super) fn owned(&mut self, now: Moment, id: TranscriptId) {
        let records = self.source.owned(id);
        self.read(now, records);
    }

    /// Reads a record that was added to a transcript that may be the child's. `was_typed` says
    /// that the record is a prompt with a frame that was typed here.
    pub(super) fn recorded(&mut self, now: Moment, of: (TranscriptId, Record), was_typed: bool) {
        let screen = self.extractor.screen();
        let records = self.source.recorded(now, of, was_typed, screen);
        self.read(now, records);
    }

    /// Notes that all transcripts have been read to their ends as of the time `at`.
    pub(super) fn searched(&mut self, now: Moment, at: Moment, is_alone: bool) {
        let records = self.source.searched(now, at, is_alone);
        self.read(now, records);
    }

    fn extract(
        &mut self,
        now: Moment,
        read: impl FnOnce(&mut ScreenExtractor, &mut Vec<Extracted>),
    ) {
        let mut found = Vec::new();
        read(&mut self.extractor, &mut found);
        self.shown(now, found);
    }

    /// Handles messages and problems on the screen. They become events only if the screen is the
    /// source of messages and is not a shell's. An inner `run` handles its own output.
    fn shown(&mut self, now: Moment, found: Vec<Extracted>) {
        if self.inner_run.has_output() || self.is_shell {
            return;
        }
        if self.source.reads_screen() {
            self.add_events(now, found);
        } else {
            self.source.note_shown(now, &found);
        }
    }

    fn compare_with_screen(&mut self, now: Moment) {
        let records = self.source.compare(now, self.extractor.screen());
        self.read(now, records);
    }

    /// Turns records of the child's own transcript into events.
    fn read(&mut self, now: Moment, records: Vec<Record>) {
        for record in records {
            match record {
                Record::Prompt(text) => self.events.push(Event::Prompt(text)),
                Record::Reply(text) => {
                    self.events.push(Event::Reply);
                    let found = self.source.read_reply(now, &text);
                    self.add_events(now, found);
                }
                Record::TurnBegan => {}
                Record::TurnOver => self.events.push(Event::TurnOver),
            }
        }
    }

    fn add_events(&mut self, now: Moment, found: Vec<Extracted>) {
        for extracted in found {
            let event = self.event(now, extracted);
            self.events.extend(event);
        }
    }

    /// Turns a message to a group into one for each of its agents, or into a problem.
    pub(super) fn expanded(
        &mut self,
        now: Moment,
        message: &OutgoingMessage,
        members: Result<Vec<String>, String>,
    ) {
        match members {
            Ok(names) => {
                for to in names {
                    let event = self.message(now, OutgoingMessage { to, ..message.clone() });
                    self.events.push(event);
                }
            }
            Err(why) => {
                let sentence = format!("Your message to {} was not sent: {why}.", message.to);
                self.events.push(Event::Problem(sentence));
            }
        }
    }

    fn message(&mut self, now: Moment, message: OutgoingMessage) -> Event {
        let handle = SendHandle(self.next_handle);
        self.next_handle += 1;
        self.sent.add(now, handle, &message);
        Event::Message(handle, message)
    }

    fn event(&mut self, now: Moment, extracted: Extracted) -> Option<Event> {
        Some(match extracted {
            Extracted::Message(message) if name::group_of(&message.to).is_some() => {
                Event::Group(message)
            }
            Extracted::Message(message) => self.message(now, message),
            Extracted::Problem(Problem { fault: Fault::Misplaced, .. })
                if mem::replace(&mut self.is_misplaced_told, true) =>
            {
                return None;
            }
            Extracted::Problem(problem) => Event::Problem(problem.sentence),
        })
    }
}
