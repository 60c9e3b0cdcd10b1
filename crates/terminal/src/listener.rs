//! The listener: it reads the agent's messages from its screen or from its transcript, and
//! remembers the outcome of each message.

mod inner_run;
mod sent;

use super::{
    extract::{Extracted, Fault, Problem, ScreenExtractor},
    failure::DeliveryFailure,
    frame::plain,
    input::UnreadMessage,
    outgoing::OutgoingMessage,
    output::SendHandle,
    recipe::Recipe,
    screen::Screen,
    settings::Settings,
    source::{ReadFrom, Source},
    transcript::{Record, TranscriptId},
};
use inner_run::InnerRun;
use protocol::Moment;
use sent::{FailureNotice, SentMessages};
use std::mem;

/// A fact that the listener has read. Facts are in the order in which the agent produced them.
pub(super) enum Event {
    /// The agent sends a message. Its `reply_to` may still be only the beginning of an id.
    Message(SendHandle, OutgoingMessage),
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
    extractor: ScreenExtractor,
    source: Source,
    sent: SentMessages,
    next_handle: u64,
    inner_run: InnerRun,
    /// Whether the agent was told that an arrow after other text is no message. It is told once,
    /// since it may only speak of messages.
    is_misplaced_told: bool,
    /// Whether the screen is that of a shell, which shows the output of all that it runs.
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
            is_misplaced_told: false,
            is_shell: false,
        };
        listener.set_recipe(&settings.recipe);
        listener
    }

    /// Notes the time of the first input. Later calls have no effect.
    pub(super) fn start(&mut self, now: Moment) {
        self.source.start(now);
    }

    /// Returns the time at which the next tick is due.
    pub(super) fn deadline(&self) -> Option<Moment> {
        [self.extractor.deadline(), self.source.deadline(), self.inner_run.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn screen(&self) -> &Screen {
        self.extractor.screen()
    }

    /// Takes the answers of the emulated terminal to the child's queries.
    pub(super) fn take_answers(&mut self) -> Vec<u8> {
        self.extractor.screen_mut().take_answers()
    }

    pub(super) fn read_from(&self) -> ReadFrom {
        self.source.read_from()
    }

    /// Whether messages are read from the screen.
    pub(super) fn reads_screen(&self) -> bool {
        self.source.reads_screen()
    }

    /// Whether the screen shows a message that the agent has not finished.
    pub(super) fn is_in_message(&self) -> bool {
        self.extractor.is_in_message()
    }

    /// Whether the agent is at work, according to its transcript.
    pub(super) fn is_at_work(&self) -> bool {
        self.source.is_at_work()
    }

    /// Reads the screen as this program paints it.
    pub(super) fn set_recipe(&mut self, recipe: &Recipe) {
        self.is_shell = recipe.is_shell;
        self.extractor.skip_margin(recipe.margin.into());
        self.extractor.leave_out(recipe.command_output());
        self.extractor.screen_mut().count_code_points(recipe.counts_code_points);
    }

    /// Remembers that a text is being typed in a frame with these digits, since it is no message of
    /// the agent.
    pub(super) fn remember_frame(&mut self, now: Moment, hex: &str, body: &str) {
        self.source.expect(now);
        if self.source.reads_screen() {
            self.extractor.remember_escaped(hex);
        } else {
            self.extractor.remember_injected(hex, body);
        }
    }

    /// Reads bytes that the child printed.
    pub(super) fn printed(&mut self, now: Moment, bytes: &[u8]) -> Vec<Event> {
        let mut found = Vec::new();
        self.extractor.feed(now, bytes, &mut found);
        let mut events = self.shown(now, found);
        events.extend(self.compare_with_screen(now));
        events
    }

    /// Notes that the person submitted a line.
    pub(super) fn entered(&mut self, now: Moment) {
        self.source.enter(now, self.extractor.screen());
    }

    pub(super) fn resized(&mut self, now: Moment, columns: usize, rows: usize) -> Vec<Event> {
        let mut found = Vec::new();
        self.extractor.resize(now, columns, rows, &mut found);
        self.shown(now, found)
    }

    /// Notes that the output from here on belongs to an inner `run`, or no longer. The rows so far
    /// belong to the program that printed before.
    pub(super) fn set_inner_output(&mut self, now: Moment, is_inner: bool) -> Vec<Event> {
        let mut events = Vec::new();
        if self.inner_run.has_output() != is_inner {
            events = self.read_rows(now);
        }
        self.inner_run.set_output(now, is_inner);
        events
    }

    fn read_rows(&mut self, now: Moment) -> Vec<Event> {
        let mut found = Vec::new();
        self.extractor.turn_over(now, &mut found);
        self.shown(now, found)
    }

    /// Whether the foreground is to decide now about an inner `run`, so that it must be known.
    pub(super) fn doubts_inner_run(&self, now: Moment) -> bool {
        self.inner_run.is_overruled(now)
    }

    /// Notes whether an inner `run` has the terminal's foreground.
    pub(super) fn set_inner_foreground(&mut self, now: Moment, is_inner: bool) {
        self.inner_run.set_foreground(now, is_inner);
    }

    /// Lets the foreground decide if it has contradicted the marks of an inner `run` for too long.
    pub(super) fn settle_inner_run(&mut self, now: Moment) -> Vec<Event> {
        if !self.inner_run.is_overruled(now) {
            return Vec::new();
        }
        let events = self.read_rows(now);
        self.inner_run.overrule(now);
        events
    }

    /// Reads rows that have not changed for a while. [`Listener::settle`] turns the results into
    /// events.
    pub(super) fn tick(&mut self, now: Moment) -> Vec<Extracted> {
        let mut found = Vec::new();
        self.extractor.tick(now, &mut found);
        found
    }

    /// Ends the agent's turn, and reads the rows that have not stood still yet.
    pub(super) fn end_turn(&mut self, now: Moment, found: &mut Vec<Extracted>) {
        self.source.end_turn();
        self.extractor.turn_over(now, found);
    }

    /// Handles the results of [`Listener::tick`], and compares transcripts with the screen.
    /// `program` is the name of the program whose transcript may be missing.
    pub(super) fn settle(
        &mut self,
        now: Moment,
        found: Vec<Extracted>,
        program: &str,
    ) -> Vec<Event> {
        let mut events = self.shown(now, found);
        events.extend(self.source.check_missing(now, program).map(Event::Problem));
        events.extend(self.compare_with_screen(now));
        events
    }

    /// Reads the rest of the screen after the child has ended.
    pub(super) fn finish(&mut self, now: Moment) -> Vec<Event> {
        let mut found = Vec::new();
        self.extractor.finish(now, &mut found);
        self.shown(now, found)
    }

    /// Notes that, according to the operating system, this transcript is the child's.
    pub(super) fn owned(&mut self, now: Moment, id: TranscriptId) -> Vec<Event> {
        let records = self.source.owned(id);
        self.read(now, records)
    }

    /// Reads a record that was added to a transcript that may be the child's. `was_typed_here` says
    /// that the record is a prompt with a frame that was typed here.
    pub(super) fn recorded(
        &mut self,
        now: Moment,
        id: TranscriptId,
        record: Record,
        was_typed_here: bool,
    ) -> Vec<Event> {
        let screen = self.extractor.screen();
        let records = self.source.recorded(now, (id, record), was_typed_here, screen);
        self.read(now, records)
    }

    /// Notes that all transcripts have been read up to their ends at the moment `at`.
    pub(super) fn searched(&mut self, now: Moment, at: Moment, is_alone: bool) -> Vec<Event> {
        let records = self.source.searched(now, at, is_alone);
        self.read(now, records)
    }

    /// Notes that the wrapper is connected to the relay again.
    pub(super) fn connected(&mut self) {
        self.sent.connected();
    }

    /// Returns a sentence for the agent about a message that waits for its recipient.
    pub(super) fn away(&self, handle: SendHandle) -> Option<String> {
        let to = self.sent.recipient(handle)?;
        let to = plain(to);
        Some(format!("{to} is away; your message waits until {to} is back."))
    }

    /// Returns the notice that a message of the agent's waits at its recipient.
    pub(super) fn unread(&self, unread: &UnreadMessage) -> String {
        self.sent.unread(unread)
    }

    /// Returns the notice about a message that was not delivered, unless an equal notice was given
    /// before a reconnect.
    pub(super) fn failed(
        &mut self,
        now: Moment,
        failure: &DeliveryFailure,
    ) -> Option<FailureNotice> {
        self.sent.fail(now, failure)
    }

    /// Handles messages and problems on the screen. They become events only if the screen is the
    /// source of messages, and not that of a shell. The output of an inner `run` is left to that
    /// `run`.
    fn shown(&mut self, now: Moment, found: Vec<Extracted>) -> Vec<Event> {
        if self.inner_run.has_output() || self.is_shell {
            return Vec::new();
        }
        if self.source.reads_screen() {
            return self.events(now, found);
        }
        self.source.note_shown(now, &found);
        Vec::new()
    }

    fn compare_with_screen(&mut self, now: Moment) -> Vec<Event> {
        let records = self.source.compare(now, self.extractor.screen());
        self.read(now, records)
    }

    /// Turns records of the child's own transcript into events.
    fn read(&mut self, now: Moment, records: Vec<Record>) -> Vec<Event> {
        let mut events = Vec::new();
        for record in records {
            match record {
                Record::Prompt(text) => events.push(Event::Prompt(text)),
                Record::Reply(text) => {
                    events.push(Event::Reply);
                    let found = self.source.read_reply(now, &text);
                    events.extend(self.events(now, found));
                }
                Record::TurnBegan => {}
                Record::TurnOver => events.push(Event::TurnOver),
            }
        }
        events
    }

    fn events(&mut self, now: Moment, found: Vec<Extracted>) -> Vec<Event> {
        found.into_iter().filter_map(|extracted| self.event(now, extracted)).collect()
    }

    fn event(&mut self, now: Moment, extracted: Extracted) -> Option<Event> {
        Some(match extracted {
            Extracted::Message(message) => {
                let handle = SendHandle(self.next_handle);
                self.next_handle += 1;
                self.sent.add(now, handle, &message);
                Event::Message(handle, message)
            }
            Extracted::Problem(Problem { fault: Fault::Misplaced, .. })
                if mem::replace(&mut self.is_misplaced_told, true) =>
            {
                return None;
            }
            Extracted::Problem(problem) => Event::Problem(problem.sentence),
        })
    }
}
