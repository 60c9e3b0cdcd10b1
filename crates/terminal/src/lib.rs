//! The terminal side: the state machine between an agent's terminal and the relay. It never waits
//! and reads no clock.
//!
//! A driver passes on every event as an [`Input`] and performs each [`Output`] in order. Two parts
//! do the work. The `listener` reads the agent's messages from its screen or from its transcript.
//! The `injector` types incoming messages into the terminal when nothing obstructs that, as the
//! program's [`recipe`] says. The terminal side passes facts from one part to the other.
//!
//! Begin with [`TerminalSide`]. Then, for messages out of the terminal: `listener`, [`screen`] and
//! [`extract`] (rows of the grid to messages), [`transcript`] (the file of an agent CLI to
//! messages). For messages into the terminal: `injector::observer` collects facts,
//! `injector::decide` is the pure decision, [`frame`] the lines around a message. [`keyboard`]
//! finds the program that reads the keyboard, [`hooks`] and [`handover`] are what an agent CLI is
//! given, [`agents`] has a folder for each CLI, [`overlay`] and [`attention`] what a person sees
//! and hears.
//!
//! Two words have a meaning of their own here: the *grid* is the rows of a terminal's screen, a
//! *spot* is the part around the cursor that a recipe reads.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")
)]

mod activity;
pub mod agents;
pub mod attention;
mod bounded;
pub mod brief;
mod dialog;
mod escape;
pub mod extract;
mod failure;
pub mod foreign_json;
pub mod frame;
pub mod handover;
pub mod hooks;
mod injector;
mod input;
pub mod keyboard;
pub mod keys;
mod listener;
pub mod obstacle;
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod outgoing;
mod output;
pub mod overlay;
mod ownership;
pub mod recipe;
pub mod resume;
pub mod screen;
mod settings;
mod source;
pub mod transcript;
mod words;

pub use activity::Doing;
pub use failure::{DeliveryFailure, FailureCause};
pub use input::{IncomingMessage, Input, UnreadMessage};
pub use outgoing::OutgoingMessage;
pub use output::{Caller, Output, Progress, SendHandle, State, Taken, Unreadable};
pub use settings::Settings;
pub use source::ReadFrom;

use activity::ActivityWatch;
use injector::{Injector, View};
use keyboard::Reader;
use listener::{Event, Listener};
use obstacle::Obstacle;
use output::RETURN_MS;
use protocol::{
    Moment,
    control::{Dialog, Explanation},
    name::{self, OPERATOR},
};
use recipe::{Recipe, Shown, Spot};
use transcript::{Record, TranscriptId};

/// The state machine of one wrapper.
pub struct TerminalSide {
    injector: Injector,
    listener: Listener,
    activity: ActivityWatch,
    is_connected: bool,
    /// Whether the agent was notified that the relay rejects it for now.
    is_rejection_told: bool,
    /// Whether the child has ended.
    is_child_gone: bool,
    settings: Settings,
    /// Whether the actions that are due wait until the driver has determined the reader.
    awaits_reader: bool,
}

impl TerminalSide {
    /// Makes a terminal side for a child that is about to run.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            injector: Injector::new(settings),
            listener: Listener::new(settings),
            activity: ActivityWatch::default(),
            is_connected: false,
            is_rejection_told: false,
            is_child_gone: false,
            settings: settings.clone(),
            awaits_reader: false,
        }
    }

    /// Handles one input, and appends the driver's next actions to `out`.
    pub fn handle(&mut self, now: Moment, input: Input<'_>, out: &mut Vec<Output>) {
        self.injector.observer.times.started.get_or_insert(now);
        self.listener.source.start(now);
        match input {
            Input::Printed(bytes) => self.printed(now, bytes),
            Input::Keys(bytes) => self.keys(now, bytes),
            Input::Resized { columns, rows } => self.listener.resized(now, columns, rows),
            Input::Expanded(message, members) => self.listener.expanded(now, &message, members),
            Input::Delivered(message) if self.is_child_gone => {
                self.injector.out.push(Output::Return(message.id, RETURN_MS));
            }
            Input::Delivered(message) => self.injector.deliver(message),
            Input::Accepted { handle, away } => {
                if let Some(sentence) = self.listener.sent.away(handle).filter(|_| away) {
                    self.injector.notify_later(sentence);
                }
            }
            Input::Undelivered(failure) => self.undelivered(now, &failure),
            Input::Unread(unread) => self.injector.notify(self.listener.sent.unread(&unread)),
            Input::Connected(is_connected) => self.connected(now, is_connected),
            Input::Rejected { why, is_permanent } => self.rejected(&why, is_permanent),
            Input::Held(is_held) => self.injector.hold(is_held),
            Input::Written(bytes) => {
                self.injector.count_written(bytes);
                self.answer();
                self.injector.advance(now);
            }
            Input::Owned(id) => self.listener.owned(now, id),
            Input::Recorded(id, record) => self.recorded(now, id, record),
            Input::Searched { at, is_alone } => self.listener.searched(now, at, is_alone),
            Input::Reads { reader, gathers_lines } => self.reads(now, reader, gathers_lines),
            Input::InnerOutput(is_inner) => self.listener.set_inner_output(now, is_inner),
            Input::Hooked(caller, report) => {
                self.activity.report(now, report.point);
                self.injector.hooked(now, caller, &report);
            }
            Input::HookGone(caller) => self.injector.hook_gone(caller),
            Input::HookUnconfirmed(caller) => self.injector.hook_unconfirmed(now, caller),
            Input::NotWoken(id) => self.injector.not_woken(&id),
            Input::Take(caller, id) => {
                let reads_screen = self.listener.source.reads_screen();
                let taken = self.injector.take(now, id.as_deref(), reads_screen);
                self.injector.out.push(Output::Taken(caller, taken));
                self.remember_typed(now);
            }
            Input::Count(caller, to) => {
                let count = self.injector.count_sent(&to);
                self.injector.out.push(Output::Counted(caller, count));
            }
            Input::Collided(with, path) => self.injector.collided(&with, &path),
            Input::Tick => self.on_tick(now),
            Input::ChildGone => self.child_gone(now),
        }
        self.pass_on(now);
        out.append(&mut self.injector.out);
        out.extend(self.activity.tell(now).map(Output::Activity));
    }

    /// When the driver must pass the next [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        if self.is_child_gone {
            return None;
        }
        [self.tick_at(), self.activity.deadline()].into_iter().flatten().min()
    }

    /// Returns when the injector or the listener is due.
    fn tick_at(&self) -> Option<Moment> {
        [self.injector.deadline(), self.listener.deadline()].into_iter().flatten().min()
    }

    /// Whether the terminal side has capacity for more of the person's keys. Otherwise the driver
    /// must not read the person's terminal.
    #[must_use]
    pub fn wants_keys(&self) -> bool {
        self.injector.wants_keys()
    }

    /// Whether the terminal side has capacity for more messages. Otherwise the driver must leave
    /// them with the daemon.
    #[must_use]
    pub fn wants_messages(&self) -> bool {
        self.injector.wants_messages()
    }

    /// Returns the program that reads the terminal, as known from the last [`Input::Reads`].
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.injector.observer.reader
    }

    /// Returns the recipe of the program that reads the terminal.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.injector.observer.recipe
    }

    /// Returns the screen that the child has painted.
    #[must_use]
    pub fn screen(&self) -> &screen::Screen {
        self.listener.screen()
    }

    /// Returns the source of the agent's messages.
    #[must_use]
    pub fn read_from(&self) -> ReadFrom {
        self.listener.source.read_from()
    }

    /// Notes that the real terminal is gone: from now on the terminal side answers the child's
    /// queries. The real terminal has answered the earlier ones.
    pub fn lose_terminal(&mut self) {
        self.settings.attached = false;
        drop(self.listener.extractor.screen_mut().take_answers());
    }

    /// Returns a summary of the terminal side's state, for people.
    #[must_use]
    pub fn state(&self) -> State {
        State { connected: self.is_connected, ..self.injector.state() }
    }

    /// Returns the dialog with numbered choices that the agent's CLI shows to its person. After a
    /// key press, a dialog may be answered already, so none is returned until it has left the
    /// screen or ten seconds have passed.
    #[must_use]
    pub fn dialog(&self, now: Moment) -> Option<Dialog> {
        self.injector.dialog(now, &Spot::of(self.listener.screen()))
    }

    /// Returns the known facts about the terminal, and their consequence for the next text.
    #[must_use]
    pub fn explain(&self, now: Moment) -> Explanation {
        let spot = Spot::of(self.listener.screen());
        let shown = self.injector.shown(&spot);
        self.injector.explain(now, &view(&self.listener, &spot, &shown))
    }

    /// Returns when the agent began to work without any hook's report, if no hook has ever
    /// reported.
    #[must_use]
    pub fn unheard_since(&self) -> Option<Moment> {
        self.activity.unheard_since()
    }

    fn printed(&mut self, now: Moment, bytes: &[u8]) {
        self.activity.changed(now);
        self.listener.printed(now, bytes);
        self.answer();
        self.injector.printed(now, self.listener.screen());
    }

    /// Answers the child's queries to its terminal, unless a real terminal answers them.
    fn answer(&mut self) {
        if self.settings.attached || !self.injector.has_room() {
            return;
        }
        let answers = self.listener.extractor.screen_mut().take_answers();
        if !answers.is_empty() {
            self.injector.write(answers);
        }
    }

    fn keys(&mut self, now: Moment, bytes: &[u8]) {
        let is_submitted = self.injector.press(now, bytes, self.listener.screen());
        if is_submitted {
            self.listener.entered(now);
        }
    }

    fn recorded(&mut self, now: Moment, id: TranscriptId, record: Record) {
        let was_typed_here = matches!(
            &record, Record::Prompt(text) if self.injector.history.typed_beginning_of(text)
        );
        self.listener.recorded(now, (id, record), was_typed_here);
    }

    fn connected(&mut self, now: Moment, is_connected: bool) {
        if is_connected {
            self.activity.forget_told();
            self.activity.changed(now);
            self.listener.sent.connected();
            self.is_rejection_told = false;
        }
        self.is_connected = is_connected;
    }

    /// Notifies the agent that the relay rejected it. A temporary rejection is reported once,
    /// however often the wrapper tries to connect again.
    fn rejected(&mut self, why: &str, is_permanent: bool) {
        if is_permanent {
            self.is_connected = false;
            self.injector
                .notify(format!("The relay rejected you: {why}. Your messages are not delivered."));
        } else if !std::mem::replace(&mut self.is_rejection_told, true) {
            self.injector.notify(format!(
                "You are not connected to the relay: {why}. It is asked again every 30 s; what you say \
                 to others waits until then."
            ));
        }
    }

    fn undelivered(&mut self, now: Moment, failure: &DeliveryFailure) {
        if let Some(notice) = self.listener.sent.fail(now, failure) {
            self.injector.out.push(Output::Log(notice.log));
            self.injector.notify(notice.line);
        }
    }

    /// Returns the recipe for a program that reads the terminal, unless it is the current one.
    /// While a transcript is followed, its program's recipe stays current.
    fn recipe_for(&self, reader: &Reader) -> Option<Recipe> {
        let Settings { book, system, recipe: command, transcript, .. } = &self.settings;
        match reader {
            _ if *transcript => None,
            Reader::Agent(name) if self.recipe().name != *name => Some(book.named(name, system)),
            Reader::Shell | Reader::Barred(Obstacle::Shell, _)
                if self.recipe().shows_composer() =>
            {
                Some(command.clone())
            }
            _ => None,
        }
    }

    fn reads(&mut self, now: Moment, mut reader: Reader, gathers_lines: bool) {
        if let Some(recipe) = self.recipe_for(&reader) {
            self.listener.set_recipe(&recipe);
            self.injector.observer.recipe = recipe;
        }
        // An editor that the agent started has just ended, or the agent does not read yet.
        if gathers_lines && matches!(reader, Reader::Agent(_)) && self.recipe().raw_mode {
            reader = Reader::Barred(Obstacle::NotReading, None);
        }
        if *self.reader() != reader {
            self.listener.inner_run.set_foreground(now, reader.is_relay());
            self.listener.settle_inner_run(now);
            self.pass_on(now);
            self.injector.set_reader(now, reader);
            self.activity.changed(now);
        }
        if std::mem::take(&mut self.awaits_reader) {
            self.act(now);
        }
    }

    fn on_tick(&mut self, now: Moment) {
        if self.is_child_gone {
            return;
        }
        let is_unknown = *self.reader() == Reader::Unseen;
        let doubts_inner_run = self.listener.inner_run.is_overruled(now);
        if is_unknown || self.injector.needs_reader(now) || doubts_inner_run {
            self.awaits_reader = true;
            return self.injector.out.push(Output::Identify);
        }
        self.act(now);
    }

    /// Performs the actions that are due. If this may press a key, the reader was determined just
    /// now.
    fn act(&mut self, now: Moment) {
        // A look at the activity alone must not trigger anything else early.
        if self.tick_at().is_some_and(|at| at <= now) {
            self.tick(now);
        }
        if self.activity.wants_look(now) {
            let spot = Spot::of(self.listener.screen());
            let shown = self.injector.shown(&spot);
            let look = self.injector.observer.look(now, &view(&self.listener, &spot, &shown));
            self.activity.look(now, look);
        }
    }

    fn tick(&mut self, now: Moment) {
        self.injector.observer.settle_keys(now);
        self.listener.settle_inner_run(now);
        self.pass_on(now);
        let mut found = self.listener.tick(now);
        // The driver determined the reader for the texts that wait now. A text added further below
        // waits for the next tick.
        let reader_is_fresh = self.injector.has_text(now);
        let spot = Spot::of(self.listener.screen());
        let shown = self.injector.learn(now, &spot);
        if self.injector.is_turn_over(now, &view(&self.listener, &spot, &shown)) {
            self.injector.end_turn();
            self.listener.end_turn(now, &mut found);
        }
        self.listener.settle(now, found, &self.injector.observer.recipe.name);
        self.pass_on(now);
        let seen = view(&self.listener, &spot, &shown);
        if self.injector.end_work_if_idle(now, &seen) {
            self.activity.changed(now);
        }
        self.injector.act(now, &seen, reader_is_fresh);
        self.remember_typed(now);
    }

    /// Lets the listener recognise the frames that were typed or handed over.
    fn remember_typed(&mut self, now: Moment) {
        for frame in self.injector.typed.drain(..) {
            self.listener.remember_frame(now, &frame.hex, &frame.body);
        }
    }

    fn child_gone(&mut self, now: Moment) {
        if std::mem::replace(&mut self.is_child_gone, true) {
            return;
        }
        self.listener.finish(now);
        self.pass_on(now);
        self.injector.end();
        self.activity.end(now);
    }

    /// Passes the listener's events on to the driver and to the injector.
    fn pass_on(&mut self, now: Moment) {
        for event in std::mem::take(&mut self.listener.events) {
            match event {
                Event::Message(handle, mut message) => {
                    self.name_answered(&mut message);
                    let hops = self.injector.count_sent(&message.to);
                    self.injector.out.push(Output::Send(handle, message, hops));
                }
                Event::Group(mut message) => {
                    self.name_answered(&mut message);
                    self.injector.out.push(Output::Expand(message));
                }
                Event::Problem(sentence) => {
                    self.injector.out.push(Output::Log(sentence.clone()));
                    self.injector.notify(sentence);
                }
                Event::Prompt(text) => self.injector.confirm(now, &text),
                Event::Reply => self.injector.note_reply(),
                Event::TurnOver => self.injector.note_turn_end(),
            }
        }
    }

    /// Replaces the beginning of an id that the message answers by the delivery's whole id. If
    /// there is no such delivery, the message is sent without an id. The agent is notified, unless
    /// the message is for a guest: there it fails anyway.
    fn name_answered(&mut self, message: &mut OutgoingMessage) {
        if let Some(prefix) = message.reply_to.take() {
            message.reply_to = self.injector.find_given(&prefix);
            let is_for_guest = name::is_daemons(&message.to) && message.to != OPERATOR;
            if message.reply_to.is_none() && !is_for_guest {
                self.injector.notify(format!(
                    "[reply:{prefix:.40}] matches no message that you received; yours was sent without it."
                ));
            }
        }
    }
}

fn view<'a>(listener: &Listener, spot: &'a Spot, shown: &'a Shown) -> View<'a> {
    View {
        spot,
        shown,
        is_at_work: listener.source.is_at_work(),
        is_in_message: listener.extractor.is_in_message(),
        reads_screen: listener.source.reads_screen(),
    }
}

#[cfg(test)]
mod tests;
