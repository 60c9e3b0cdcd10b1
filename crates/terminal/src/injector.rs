//! The injector: it decides when a text is typed into the agent and how, and types it.
//!
//! Messages and the relay's own texts wait until the program reads its input, its screen is at rest
//! and the person has not begun a line ([`readiness`]). Then one text is typed ([`begin`]),
//! submitted once the screen has settled ([`guard`]), and watched until it has left the input line
//! ([`leaving`]). Only then is its message acknowledged. The next text waits until the agent has
//! adopted the last one, that is, begun to work on it ([`adoption`]).

mod adoption;
mod begin;
mod brief;
mod finish;
mod guard;
mod history;
mod injection;
mod kept_keys;
mod keys;
mod leases;
mod leaving;
mod loop_counts;
mod loop_guard;
mod notices;
mod prompts;
mod queue;
mod readiness;
mod reported_work;
mod routes;
mod startup;
mod submitted;
mod turn;
mod waiting;
mod write_count;

use super::{
    activity::{Look, OnScreen},
    input::IncomingMessage,
    keyboard::Reader,
    keys::InputLine,
    obstacle::Obstacle,
    output::{Caller, Output, Progress, RETURN_MS, State},
    recipe::{ReaderState, Reads, Recipe, Spot, Turns, text_before_cursor},
    screen::Screen,
    settings::Settings,
};
use adoption::Adoption;
use brief::Brief;
use history::History;
use injection::{Injection, Stage};
use kept_keys::KeptKeys;
use leases::Leases;
use loop_guard::LoopGuard;
use notices::Notices;
use prompts::Prompts;
use protocol::{Moment, activity::ActivitySource};
use queue::{Block, MessageQueue};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use reported_work::ReportedWork;
use startup::Startup;
use std::collections::VecDeque;
use submitted::Submitted;
use turn::Turn;
use write_count::WriteCount;

/// The number of waiting bytes from which on no more are accepted. Bytes wait while the child does
/// not read, or while a text is typed. At the limit, the driver stops reading the person's
/// terminal, and answers to the child's queries stay with the screen, which limits them.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// The time between two attempts at an action that becomes possible without any input.
const RETRY_MS: u64 = 1000;

/// Facts about the terminal and the agent, which the injector gets from the listener.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) spot: &'a Spot,
    /// Whether the agent is at work, according to its transcript.
    pub(super) is_at_work: bool,
    /// Whether the screen shows a message that the agent has not finished.
    pub(super) is_in_message: bool,
    /// Whether the agent's messages are read from the screen. If so, marks in typed text are
    /// escaped.
    pub(super) reads_screen: bool,
}

/// A frame that is being typed or read. The listener must recognise it, since it is no message of
/// the agent.
pub(super) struct TypedFrame {
    pub(super) hex: String,
    pub(super) body: String,
}

/// Types texts into the agent, one at a time, without disturbing the person.
pub(super) struct Injector {
    recipe: Recipe,
    rng: ChaCha20Rng,
    /// The program that reads the terminal.
    reader: Reader,
    prompts: Prompts,
    line: InputLine,
    started_at: Option<Moment>,
    startup: Startup,
    printed_at: Option<Moment>,
    /// The time at which the person last pressed a key.
    key_at: Option<Moment>,
    submitted_at: Option<Moment>,
    /// The time of the next attempt at an action that becomes possible without any input.
    retry_at: Option<Moment>,
    adoption: Adoption,
    turn: Turn,
    work: ReportedWork,
    notices: Notices,
    /// The brief, if the program's hooks take it.
    brief: Option<Brief>,
    queue: MessageQueue,
    loop_guard: LoopGuard,
    /// The obstacle that currently keeps all texts from being typed.
    block: Option<Block>,
    injection: Option<Injection>,
    /// The last submitted text, if the Enter may have to be pressed again.
    submitted: Option<Submitted>,
    leases: Leases,
    /// The hook that waits to begin a turn.
    waiter: Option<Caller>,
    /// The CLI's id of the conversation, as hooks have stated it since the person's last Enter.
    session: Option<String>,
    /// The time before which no hook begins a turn, since a menu may be open.
    wake_not_before: Option<Moment>,
    /// The hooks that told the agent of messages, each with the messages' ids.
    announced: VecDeque<(Caller, Vec<String>)>,
    kept_keys: KeptKeys,
    writes: WriteCount,
    history: History,
    /// Whether the person holds the agent's messages.
    is_held: bool,
}

impl Injector {
    pub(super) fn new(settings: &Settings) -> Self {
        let prompt = settings.brief.clone().filter(|_| settings.recipe.reads == Reads::Text);
        let (brief, prompt) = match &settings.hooked_brief {
            Some(hooked) => {
                let (brief, prompt) = Brief::new(hooked.clone(), prompt);
                (Some(brief), prompt)
            }
            None => (None, prompt),
        };
        Self {
            recipe: settings.recipe.clone(),
            rng: ChaCha20Rng::from_seed(settings.seed),
            reader: Reader::default(),
            prompts: Prompts::default(),
            line: InputLine::default(),
            started_at: None,
            startup: Startup::default(),
            printed_at: None,
            key_at: None,
            submitted_at: None,
            retry_at: None,
            adoption: Adoption::new(settings.transcript),
            turn: Turn::default(),
            work: ReportedWork::default(),
            notices: Notices::new(prompt),
            brief,
            queue: MessageQueue::default(),
            loop_guard: LoopGuard::new(u32::from_le_bytes(
                *settings.seed.first_chunk().expect("a seed of 32 bytes"),
            )),
            block: None,
            injection: None,
            submitted: None,
            leases: Leases::default(),
            waiter: None,
            session: None,
            wake_not_before: None,
            announced: VecDeque::new(),
            kept_keys: KeptKeys::default(),
            writes: WriteCount::default(),
            history: History::default(),
            is_held: false,
        }
    }

    /// Notes the time of the first input. Later calls have no effect.
    pub(super) fn start(&mut self, now: Moment) {
        self.started_at.get_or_insert(now);
    }

    /// Returns the time at which the next tick is due.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let stage = self.injection.as_ref().and_then(|injection| match injection.stage {
            Stage::Guard { since, .. } => Some(self.enter_at(since)),
            Stage::Leaving { presses, checked_at, .. } => {
                Some(leaving::check_at(presses, checked_at, injection.obstacle))
            }
            Stage::Typing { .. } | Stage::Submitting { .. } => None,
        });
        let turn = self.turn.deadline(self.recipe.shows_idle());
        let leases = self.leases.deadline(self.work.is_at_work());
        let hooks = [self.stuck_at(), self.wake_at(), leases, self.work.deadline(self.rests_at())];
        let all = [stage, self.begin_at(), self.report_at(), turn].into_iter().chain(hooks);
        all.flatten().min()
    }

    /// Whether there is room for more of the person's keys.
    pub(super) fn wants_keys(&self) -> bool {
        self.has_room() && self.kept_keys.len() < WAITING_BYTES_MAX
    }

    /// Whether there is room for more messages.
    pub(super) fn wants_messages(&self) -> bool {
        !self.queue.is_full()
    }

    /// Whether the terminal has accepted enough bytes that keys, and answers to the child's
    /// queries, may be written.
    pub(super) fn has_room(&self) -> bool {
        self.writes.unwritten() < WAITING_BYTES_MAX as u64
    }

    /// Whether a text waits to be typed.
    pub(super) fn has_text(&self) -> bool {
        !self.queue.is_empty() || self.notices.are_due()
    }

    /// Whether the driver must determine now which program reads the terminal, because a text is
    /// about to be typed or submitted.
    pub(super) fn needs_reader(&self, now: Moment) -> bool {
        match self.injection.as_ref().map(|injection| &injection.stage) {
            Some(Stage::Guard { since, .. }) => now >= self.enter_at(*since),
            Some(Stage::Leaving { since, .. }) => leaving::may_press_again(now, *since),
            Some(Stage::Typing { .. } | Stage::Submitting { .. }) => false,
            None if self.stuck_at().is_some_and(|at| at <= now) => true,
            None => self.has_text() && self.is_at_rest(now),
        }
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(super) fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Returns the terminal side's state, of which only the injector's part is filled in.
    pub(super) fn state(&self) -> State {
        let injected = usize::from(self.injection.is_some());
        let waiting = self.queue.len() + self.loop_guard.len() + self.leases.len() + injected;
        let why = match &self.injection {
            Some(_) if self.writes.unwritten() > 0 => Some(Obstacle::NotReading),
            Some(injection) => injection.obstacle,
            None if waiting == 0 => None,
            None if self.is_held => Some(Obstacle::Held),
            None if waiting == self.loop_guard.len() => Some(Obstacle::Looping),
            None => self.block.map(|block| block.why),
        };
        State { waiting, why, typed: self.history.count(), held: self.is_held, connected: false }
    }

    /// Returns the id of the last typed delivery whose id begins with `prefix`.
    pub(super) fn find_typed(&self, prefix: &str) -> Option<String> {
        self.leases.find(prefix).or_else(|| self.history.find_typed(prefix))
    }

    /// Whether a recorded prompt begins with a frame that was typed here.
    pub(super) fn typed_beginning_of(&self, prompt: &str) -> bool {
        self.history.typed_beginning_of(prompt)
    }

    /// Notes that the child has printed; `screen` contains the output.
    pub(super) fn printed(&mut self, now: Moment, screen: &Screen) {
        self.printed_at = Some(now);
        self.retry_at = None;
        self.turn.change(now);
        if !self.line.is_untouched() {
            self.line.screen_shows(&text_before_cursor(screen));
        }
        let recipe = &self.recipe;
        self.adoption.check(now, || recipe.looks_busy(&Spot::of(screen)));
    }

    /// Notes the program that reads the terminal from now on.
    pub(super) fn set_reader(&mut self, now: Moment, reader: Reader) {
        if self.reader == reader {
            return;
        }
        self.prompts.reader_changed(&reader);
        self.reader = reader;
        self.retry_at = None;
        let Some(injection) = &mut self.injection else { return };
        injection.passes_keys &= injection.reader != self.reader;
        if let Stage::Guard { since, .. } = &mut injection.stage {
            *since = now.min(*since);
        }
    }

    pub(super) fn set_recipe(&mut self, recipe: Recipe) {
        self.recipe = recipe;
    }

    /// Handles a delivery, which may be a redelivery of a known message.
    pub(super) fn deliver(&mut self, message: IncomingMessage, out: &mut Vec<Output>) {
        if self.history.was_typed(&message.id) {
            out.push(Output::Report(message.id.clone(), Progress::Injected));
            out.push(Output::Acknowledge(message.id));
        } else if self.injection.as_ref().is_some_and(|injection| injection.is_of(&message.id)) {
            self.repeat_delay(out);
        } else if self.leases.contains(&message.id) {
            // A record of it may still come.
        } else if self.queue.contains(&message.id) {
            self.queue.forget_report(&message.id);
        } else if self.loop_guard.contains(&message.id) {
            out.push(Output::Report(message.id, Progress::Waiting(Obstacle::Looping)));
        } else {
            self.receive(message, out);
        }
    }

    /// Queues a sentence for the agent. At most once in each turn, the waiting sentences are typed
    /// as one line.
    pub(super) fn notify(&mut self, sentence: String) {
        self.notices.add(sentence);
        self.retry_at = None;
    }

    /// Holds messages back (`true`) or releases them. A text that is being typed is submitted in
    /// any case.
    pub(super) fn hold(&mut self, held: bool) {
        self.is_held = held;
        self.retry_at = None;
    }

    /// Returns to the daemon all messages that were not submitted, after the child has ended.
    pub(super) fn end(&mut self, out: &mut Vec<Output>) {
        let current = self.injection.take().and_then(|injection| injection.content.into_message());
        let leased = self.leases.end_all().into_iter().map(|lease| lease.message);
        let looping = self.loop_guard.take_all();
        let rest = std::iter::from_fn(|| self.queue.pop()).chain(looping);
        let all = current.into_iter().chain(leased).chain(rest);
        out.extend(all.map(|message| Output::Return(message.id, RETURN_MS)));
    }

    /// Whether the screen has been unchanged for so long that a text may be typed.
    pub(super) fn is_at_rest(&self, now: Moment) -> bool {
        self.rests_at().is_none_or(|at| at <= now)
    }

    /// Returns the time from which the screen is at rest, unless it changes before.
    fn rests_at(&self) -> Option<Moment> {
        let changed_at = self.printed_at.max(self.submitted_at);
        changed_at.map(|at| at.plus(self.recipe.quiet_ms))
    }

    /// Remembers a shell's prompt, if the screen is at rest.
    pub(super) fn learn_prompt(&mut self, now: Moment, spot: &Spot) {
        if self.is_at_rest(now) {
            self.prompts.learn(&self.reader, spot);
        }
    }

    /// Remembers how an empty input line looks, if the line is empty and the screen is at rest.
    pub(super) fn learn_empty_line(&mut self, now: Moment, spot: &Spot) {
        if self.line.is_untouched() && self.is_at_rest(now) {
            self.line.remember_empty_look(&spot.before);
        }
    }

    /// Whether the agent's turn has ended: the agent looks idle, or was silent for a long time.
    pub(super) fn is_turn_over(&mut self, now: Moment, view: &View<'_>) -> bool {
        let at_work = self.is_reported_at_work();
        let known = known(&self.recipe, &self.reader, &self.prompts, at_work, view);
        self.turn.is_over(now, || self.recipe.looks_idle(view.spot, known))
    }

    /// Compares the reports of hooks with the screen, and ends leases that are in doubt. Returns
    /// whether work that hooks have reported has ended by that.
    pub(super) fn compare_hooks(&mut self, now: Moment, view: &View<'_>) -> bool {
        let has_ended = self.work.is_at_work() && self.compare_work(now, view);
        let may_be_unreported = self.brief.is_some() && !self.work.is_heard();
        if may_be_unreported && (view.is_at_work || self.recipe.looks_busy(view.spot)) {
            self.note_turn_for_brief();
        }
        self.end_doubtful_leases(now);
        has_ended
    }

    /// Ends the work that hooks have reported if the screen has shown an idle agent for a while.
    /// Returns whether it has.
    fn compare_work(&mut self, now: Moment, view: &View<'_>) -> bool {
        let ReaderState { reader, prompts, .. } = self.known(view);
        let known = ReaderState { reader, prompts, at_work: records_work(&self.recipe, view) };
        let form = self.recipe.form(view.spot, known);
        let shows_line = matches!(form, Ok(_) | Err(Obstacle::HalfTyped));
        let looks_free = self.recipe.shows_idle()
            && shows_line
            && !self.recipe.looks_busy(view.spot)
            && self.is_at_rest(now);
        let has_ended = self.work.compare(now, looks_free);
        if has_ended {
            self.leases.turn_ended(now);
            self.retry_at = None;
        }
        has_ended
    }

    /// Looks at the screen and the foreground for signs of what the agent does.
    pub(super) fn look(&self, now: Moment, view: &View<'_>) -> Look {
        let at_work = match () {
            () if self.work.is_at_work() => Some(ActivitySource::Hooks),
            () if records_work(&self.recipe, view) => Some(ActivitySource::Screen),
            () => None,
        };
        Look {
            shown: self.shown(view),
            is_at_rest: self.is_at_rest(now),
            is_recognised: self.recipe.shows_composer(),
            at_work,
        }
    }

    fn shown(&self, view: &View<'_>) -> OnScreen {
        if matches!(self.reader, Reader::Shell | Reader::Barred(Obstacle::Shell, _)) {
            return OnScreen::Shell;
        }
        if !matches!(&self.reader, Reader::Agent(name) if *name == self.recipe.name) {
            return OnScreen::Nothing;
        }
        let ReaderState { reader, prompts, .. } = self.known(view);
        match self.recipe.form(view.spot, ReaderState { reader, prompts, at_work: false }) {
            Err(Obstacle::Dialog) => OnScreen::Dialog,
            _ if self.recipe.looks_busy(view.spot) => OnScreen::Busy,
            Ok(_) | Err(Obstacle::HalfTyped | Obstacle::ShellMode) => OnScreen::InputLine,
            Err(_) => OnScreen::Nothing,
        }
    }

    /// Notes the end of the agent's turn.
    pub(super) fn end_turn(&mut self) {
        self.turn.end();
        self.notices.begin_turn();
        self.type_brief_without_hooks();
    }

    /// Writes bytes to the child's terminal.
    pub(super) fn write(&mut self, bytes: Vec<u8>, out: &mut Vec<Output>) {
        self.writes.hand_out(bytes.len());
        out.push(Output::Write(bytes));
    }

    /// Whether the agent is at work according to its CLI's hooks, or may be about to be.
    fn is_reported_at_work(&self) -> bool {
        self.work.is_at_work() || self.leases.bar_others()
    }

    fn known<'a>(&'a self, view: &View<'_>) -> ReaderState<'a> {
        known(&self.recipe, &self.reader, &self.prompts, self.is_reported_at_work(), view)
    }
}

fn known<'a>(
    recipe: &Recipe,
    reader: &'a Reader,
    prompts: &'a Prompts,
    is_reported_at_work: bool,
    view: &View<'_>,
) -> ReaderState<'a> {
    let at_work = is_reported_at_work || records_work(recipe, view);
    ReaderState { reader, prompts: prompts.known(), at_work }
}

/// Whether the agent is at work, according to the transcript of a CLI that records the ends of its
/// turns.
fn records_work(recipe: &Recipe, view: &View<'_>) -> bool {
    recipe.turns == Some(Turns::Transcript) && view.is_at_work
}

#[cfg(test)]
impl Injector {
    /// Sets the program that reads the terminal at the start.
    pub(super) fn assume_reader(&mut self, reader: Reader) {
        self.reader = reader;
    }

    /// Skips the wait for the program's start.
    pub(super) fn assume_started(&mut self) {
        self.startup = Startup::Complete;
    }
}

#[cfg(test)]
mod tests;
