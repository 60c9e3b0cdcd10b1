//! The injector, which brings messages and the relay's own texts to the agent, one at a time,
//! without disturbing the person.
//!
//! The [`Observer`] gathers the facts about the terminal. From these, [`decide`] chooses the steps
//! for the text on its way, or for the next one. [`act`] carries them out.

mod act;
mod adoption;
mod answered;
mod brief;
mod decide;
mod delivering;
mod history;
mod interference;
mod kept_keys;
mod keys;
mod leases;
mod loop_counts;
mod loop_guard;
mod notices;
mod observation;
mod observer;
mod prompts;
mod queue;
mod reported_work;
mod routes;
mod startup;
mod turn;
mod waiting;
mod write_count;

use super::{
    dialog,
    frame::Entry,
    input::IncomingMessage,
    keyboard::Reader,
    obstacle::Obstacle,
    output::{Output, Progress, RETURN_MS, State},
    recipe::{Reads, Shown, Spot, Typed},
    screen::Screen,
    settings::Settings,
};
use act::Text;
use answered::{Answered, Question};
use brief::Brief;
use delivering::Delivering;
use history::History;
use kept_keys::KeptKeys;
use loop_guard::LoopGuard;
use notices::Notices;
use observer::Observer;
use protocol::{
    Moment,
    control::{Dialog, Explanation},
};
use queue::MessageQueue;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use routes::HookRoutes;

/// With this many waiting bytes, no more are accepted. Bytes wait while the child does not read, or
/// while a text is typed. At the limit, the driver stops reading the person's terminal, and answers
/// to the child's queries stay with the screen, which limits them.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// The time between two attempts at an action that may become possible without any input.
const RETRY_MS: u64 = 1000;

/// Facts about the terminal and the agent, from the listener.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) spot: &'a Spot,
    pub(super) shown: &'a Shown,
    /// Whether the agent is at work, according to its transcript.
    pub(super) is_at_work: bool,
    /// Whether the screen shows a message that the agent has not finished.
    pub(super) is_in_message: bool,
    /// Whether the agent's messages are read from the screen. If so, marks in typed text are
    /// escaped.
    pub(super) reads_screen: bool,
}

impl View<'_> {
    /// Returns how to enter a text, given whether the terminal may drop the sequences around a
    /// paste.
    fn entry(&self, may_drop_paste_marks: bool) -> Entry {
        match (self.spot.bracketed_paste, may_drop_paste_marks) {
            (true, false) => Entry::Pasted,
            (true, true) => Entry::PastedAsKeys,
            (false, _) => Entry::Typed,
        }
    }
}

/// A frame that is being typed or read. The listener must recognise it, so that it does not count
/// as a message from the agent.
pub(super) struct TypedFrame {
    pub(super) hex: String,
    pub(super) body: String,
}

/// The injector of texts into the agent.
pub(super) struct Injector {
    pub(super) observer: Observer,
    delivering: Delivering,
    /// The text on its way, or the last one.
    text: Option<Text>,
    rng: ChaCha20Rng,
    queue: MessageQueue,
    notices: Notices,
    /// The brief, if the CLI's hooks deliver it.
    brief: Option<Brief>,
    loop_guard: LoopGuard,
    hooks: HookRoutes,
    kept_keys: KeptKeys,
    answered: Answered,
    may_drop_paste_marks: bool,
    pub(super) history: History,
    /// The time of the next attempt at an action that may become possible without any input.
    retry_at: Option<Moment>,
    /// The outputs caused by the current input so far.
    pub(super) out: Vec<Output>,
    /// The frames that were typed or handed over, and that the listener has not remembered yet.
    pub(super) typed: Vec<TypedFrame>,
}

impl Injector {
    pub(super) fn new(settings: &Settings) -> Self {
        let prompt = settings.brief.clone().filter(|_| settings.recipe.reads == Reads::Text);
        let hooked = settings.hooked_brief.clone();
        let brief = hooked.map(|hooked| Brief::new(hooked, prompt.clone()));
        let typed = prompt.filter(|_| brief.as_ref().is_none_or(Brief::is_typed_at_start));
        Self {
            observer: Observer::new(settings),
            delivering: Delivering::default(),
            text: None,
            rng: ChaCha20Rng::from_seed(settings.seed),
            queue: MessageQueue::default(),
            notices: Notices::new(typed),
            brief,
            loop_guard: LoopGuard::new(u32::from_le_bytes(
                *settings.seed.first_chunk().expect("a seed of 32 bytes"),
            )),
            hooks: HookRoutes::default(),
            kept_keys: KeptKeys::default(),
            answered: Answered::default(),
            may_drop_paste_marks: settings.may_drop_paste_marks,
            history: History::default(),
            retry_at: None,
            out: Vec::new(),
            typed: Vec::new(),
        }
    }

    /// Returns the time of the next tick.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let Observer { recipe, times, turn, work, .. } = &self.observer;
        let all = [
            decide::deadline(recipe, &self.delivering, times.printed),
            self.begin_at(),
            self.report_at(),
            turn.deadline(recipe.shows_idle()),
            self.stuck_at(),
            self.wake_at(),
            self.hooks.leases.deadline(work.is_at_work),
            work.deadline(self.observer.rests_at()),
        ];
        all.into_iter().flatten().min()
    }

    /// Returns the earliest time to type the next text, if one waits.
    fn begin_at(&self) -> Option<Moment> {
        let next_at = self.next_at().filter(|_| !self.delivering.has_text())?;
        // The default means "at once", and must not make a text begin before the other times.
        let later = Some(next_at).filter(|at| *at > Moment::default());
        self.observer.free_at().max(self.retry_at).max(later)
    }

    /// Returns when to look whether the last text is in the composer again.
    fn stuck_at(&self) -> Option<Moment> {
        let Delivering::Waiting { left, .. } = self.delivering else { return None };
        decide::stuck_at(left?, self.text_facts(), self.observer.times.printed)
    }

    /// Whether there is capacity for more of the person's keys.
    pub(super) fn wants_keys(&self) -> bool {
        self.has_room() && self.kept_keys.len() < WAITING_BYTES_MAX
    }

    /// Whether there is capacity for more messages.
    pub(super) fn wants_messages(&self) -> bool {
        !self.queue.is_full()
    }

    /// Whether the terminal has accepted enough bytes, so that keys and answers to the child's
    /// queries may be written.
    pub(super) fn has_room(&self) -> bool {
        self.observer.writes.unwritten() < WAITING_BYTES_MAX as u64
    }

    /// Whether a text waits to be typed now.
    pub(super) fn has_text(&self, now: Moment) -> bool {
        self.next_at().is_some_and(|at| at <= now)
    }

    /// Returns when the next text is due; the default means at once.
    fn next_at(&self) -> Option<Moment> {
        let message = (!self.queue.is_empty()).then(Moment::default);
        message.or_else(|| self.notices.due_at())
    }

    /// Whether the driver must determine now which program reads the terminal, because a text is
    /// about to be typed or submitted.
    pub(super) fn needs_reader(&self, now: Moment) -> bool {
        let Observer { recipe, times, .. } = &self.observer;
        match self.delivering {
            Delivering::Waiting { .. } => {
                let is_stuck = self.stuck_at().is_some_and(|at| at <= now);
                is_stuck || (self.has_text(now) && self.observer.is_at_rest(now))
            }
            _ => decide::may_press(recipe, &self.delivering, times.printed, now),
        }
    }

    /// Returns the terminal side's state. Only the injector's part is filled in.
    pub(super) fn state(&self) -> State {
        let (held, typed) = (self.observer.is_held, self.history.count);
        State { waiting: self.waiting(), why: self.reason(), typed, held, connected: false }
    }

    /// Returns how many messages are not known to have reached the agent, including the text on its
    /// way.
    fn waiting(&self) -> usize {
        let on_its_way = usize::from(self.delivering.has_text());
        self.queue.len() + self.loop_guard.len() + self.hooks.leases.len() + on_its_way
    }

    /// Returns what obstructs the text on its way, or the waiting texts.
    fn reason(&self) -> Option<Obstacle> {
        let waiting = self.waiting();
        match self.delivering {
            Delivering::Waiting { .. } if waiting == 0 => None,
            Delivering::Waiting { .. } if self.observer.is_held => Some(Obstacle::Held),
            Delivering::Waiting { .. } if waiting == self.loop_guard.len() => {
                Some(Obstacle::Looping)
            }
            Delivering::Waiting { block, .. } => block.map(|block| block.why),
            _ if self.observer.writes.unwritten() > 0 => Some(Obstacle::NotReading),
            _ => self.text.as_ref().and_then(|text| text.obstacle),
        }
    }

    /// Returns the known facts, what happens to the text on its way or the next one, and why.
    pub(super) fn explain(&self, now: Moment, view: &View<'_>) -> Explanation {
        let seen = self.observe(now, view, true);
        let later = self.next_at().is_some_and(|at| at > now);
        let decision = match (self.reason(), decide::verdict(&seen, now)) {
            (Some(why), _) => why.to_string(),
            (None, _) if self.delivering.has_text() => "a text is on its way".to_owned(),
            (None, Err(why)) => why.to_string(),
            (None, Ok(_)) if later => "notices wait, since a few began turns already".to_owned(),
            (None, Ok(_)) if seen.has_next => "the next text is typed now".to_owned(),
            (None, Ok(_)) => "a text could be typed now".to_owned(),
        };
        let notices = self.notices.waiting().map(str::to_owned).collect();
        let stage = self.delivering.stage().to_owned();
        Explanation { decision, stage, facts: seen.facts(now), notices }
    }

    /// Returns the id of the last delivery to the agent, complete or under way, that begins with
    /// `prefix`.
    pub(super) fn find_given(&self, prefix: &str) -> Option<String> {
        let on_its_way = self.text.as_ref().and_then(Text::message).map(|message| &message.id);
        let on_its_way = on_its_way.filter(|id| id.starts_with(prefix)).cloned();
        let leased = || self.hooks.leases.find(prefix);
        on_its_way.or_else(leased).or_else(|| self.history.find_typed(prefix))
    }

    /// Notes that the child has printed; `screen` already shows the output.
    pub(super) fn printed(&mut self, now: Moment, screen: &Screen) {
        self.retry_at = None;
        self.observer.printed(now, screen, &typed(&self.history, self.text.as_ref()));
        if self.answered.wants_look() && !screen.synchronizing() {
            let question = self.question(&Spot::of(screen));
            self.answered.look(now, question.as_ref());
        }
    }

    /// Notes which program now reads the terminal.
    pub(super) fn set_reader(&mut self, now: Moment, reader: Reader) {
        if !self.observer.set_reader(reader) {
            return;
        }
        self.retry_at = None;
        if let Some(text) = &mut self.text {
            text.passes_keys &= text.reader != self.observer.reader;
        }
        if let Delivering::Settling { since, .. } = &mut self.delivering {
            *since = now.min(*since);
        }
    }

    /// Handles a delivery, which may be a redelivery of a known message.
    pub(super) fn deliver(&mut self, message: IncomingMessage) {
        if self.history.was_typed(&message.id) {
            self.out.push(Output::Report(message.id.clone(), Progress::Injected));
            self.out.push(Output::Acknowledge(message.id));
        } else if self.on_its_way().is_some_and(|current| current.id == message.id) {
            self.repeat_delay();
        } else if self.hooks.leases.contains(&message.id) {
            // A record of the message may still come.
        } else if self.queue.contains(&message.id) {
            self.queue.forget_report(&message.id);
        } else if self.loop_guard.contains(&message.id) {
            self.out.push(Output::Report(message.id, Progress::Waiting(Obstacle::Looping)));
        } else {
            self.receive(message);
        }
    }

    /// Returns the message on its way. `None` if the text on its way is the relay's own.
    fn on_its_way(&self) -> Option<&IncomingMessage> {
        self.text.as_ref().and_then(Text::message)
    }

    /// Queues a sentence for the agent. At most once a turn, the waiting sentences are typed as one
    /// line.
    pub(super) fn notify(&mut self, sentence: String) {
        self.notices.add(sentence, false);
        self.retry_at = None;
    }

    /// Queues a sentence that does not begin a turn: it goes with the next text, or through a hook.
    pub(super) fn notify_later(&mut self, sentence: String) {
        self.notices.add(sentence, true);
    }

    /// Tells the agent that another agent has edited the same file.
    pub(super) fn collided(&mut self, with: &str, path: &str) {
        self.notify_later(notices::collision(with, path));
    }

    /// Holds messages back (`true`) or releases them. A text that is already being typed is still
    /// submitted.
    pub(super) fn hold(&mut self, held: bool) {
        self.observer.is_held = held;
        self.retry_at = None;
    }

    /// Returns all unsubmitted messages to the daemon, after the child has ended.
    pub(super) fn end(&mut self) {
        self.delivering = Delivering::default();
        let current = self.text.take().and_then(|mut text| text.take_message());
        let leased = self.hooks.leases.end_all().into_iter().map(|lease| lease.message);
        let looping = self.loop_guard.take_all();
        let rest = std::iter::from_fn(|| self.queue.pop()).chain(looping);
        let all = current.into_iter().chain(leased).chain(rest);
        self.out.extend(all.map(|message| Output::Return(message.id, RETURN_MS)));
    }

    /// Reads the screen, and remembers it for later looks.
    pub(super) fn learn(&mut self, now: Moment, spot: &Spot) -> Shown {
        self.observer.learn(now, spot, &typed(&self.history, self.text.as_ref()))
    }

    /// Reads the screen.
    pub(super) fn shown(&self, spot: &Spot) -> Shown {
        self.observer.shown(spot, &typed(&self.history, self.text.as_ref()))
    }

    /// Returns the dialog on the screen, if the agent's CLI shows one with numbered choices and no
    /// text or key is on its way into the terminal.
    pub(super) fn dialog(&self, now: Moment, spot: &Spot) -> Option<Dialog> {
        let is_readable = !spot.synchronizing && !self.delivering.has_text();
        if !(is_readable && self.observer.shows_choices(&self.shown(spot))) {
            return None;
        }
        let question = self.question(spot).filter(|it| !self.answered.is(now, it));
        let (text, choices) = question?;
        Some(Dialog { text, choices, typed: self.observer.writes.handed_out })
    }

    /// Returns the text and the choices of the dialog on the screen.
    fn question(&self, spot: &Spot) -> Option<Question> {
        dialog::choices(&spot.without(&self.history.frames()))
    }

    /// Whether the agent's turn has ended: the agent looks idle, or was silent for a long time.
    pub(super) fn is_turn_over(&mut self, now: Moment, view: &View<'_>) -> bool {
        let mut turn = self.observer.turn;
        let is_over = turn.is_over(now, || {
            let seen = self.observe(now, view, false);
            seen.recipe.shows_idle() && seen.work.is_none() && seen.shown.form.is_ok()
        });
        self.observer.turn = turn;
        is_over
    }

    /// Compares the hooks' reports with the screen. Returns whether this ends work that hooks have
    /// reported.
    pub(super) fn end_work_if_idle(&mut self, now: Moment, view: &View<'_>) -> bool {
        let shows_work = self.observer.shows_work(now, view.shown);
        let has_ended = self.observer.end_work_if_idle(now, view);
        if has_ended {
            self.hooks.leases.turn_ended(now);
            self.retry_at = None;
        }
        if view.is_at_work || shows_work {
            self.note_turn_for_brief();
        }
        has_ended
    }

    /// Notes the end of the agent's turn.
    pub(super) fn end_turn(&mut self) {
        self.observer.turn.end();
        self.notices.begin_turn();
        self.type_brief_without_hooks();
    }

    /// Writes bytes to the child's terminal.
    pub(super) fn write(&mut self, bytes: Vec<u8>) {
        self.observer.writes.handed_out += bytes.len() as u64;
        self.out.push(Output::Write(bytes));
    }
}

/// Returns the frames that were typed here. Their rows on the screen are ours.
fn typed<'a>(history: &'a History, text: Option<&'a Text>) -> Typed<'a> {
    Typed { frames: history.frames(), own: text.map(|text| &*text.hex) }
}

#[cfg(test)]
mod tests;
