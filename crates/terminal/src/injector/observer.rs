//! The observer, which gathers the facts about the terminal and the agent from all sources and
//! returns an [`Observation`].

use super::{
    History, View,
    adoption::Adoption,
    observation::{Observation, Source},
    prompts::Prompts,
    reported_work::ReportedWork,
    startup::Startup,
    turn::Turn,
    write_count::WriteCount,
};
use crate::{
    activity::{Look, OnScreen},
    keyboard::Reader,
    keys::InputLine,
    obstacle::Obstacle,
    recipe::{Form, Recipe, Shown, Spot, Turns, Typed, text_before_cursor},
    screen::Screen,
    settings::Settings,
};
use protocol::{Moment, activity::ActivitySource};

/// How long after a key press its effect on the screen must have appeared.
pub(super) const KEY_SEEN_MS: u64 = 10_000;

/// How long a sign of work must stand still before a hook's or a transcript's report of the turn's
/// end outranks it.
const STILL_MS: u64 = 2000;

/// How long a sign of work that usually moves must stand still before it no longer counts.
const STILL_UNREPORTED_MS: u64 = 10_000;

/// The observed state of the terminal and the agent.
#[derive(Default)]
pub(crate) struct Observer {
    pub(crate) recipe: Recipe,
    /// The program that reads the terminal.
    pub(crate) reader: Reader,
    prompts: Prompts,
    pub(super) line: InputLine,
    pub(crate) times: Times,
    pub(super) startup: Startup,
    pub(super) adoption: Adoption,
    pub(super) turn: Turn,
    pub(super) work: ReportedWork,
    /// The sign of work on the screen, and since when it has stood still.
    busy: Option<(String, Moment)>,
    pub(super) writes: WriteCount,
    /// Whether the person holds the agent's messages.
    pub(super) is_held: bool,
}

/// The times of the latest events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) started: Option<Moment>,
    pub(super) printed: Option<Moment>,
    /// The person's last key.
    pub(super) key: Option<Moment>,
    pub(super) submitted: Option<Moment>,
}

impl Observer {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            recipe: settings.recipe.clone(),
            adoption: Adoption::new(settings.transcript),
            ..Self::default()
        }
    }

    /// Returns the facts known now, apart from those about deliveries.
    pub(super) fn observe(&self, now: Moment, view: &View<'_>) -> Observation<'_> {
        let shows_work = self.shows_work(now, view.shown);
        let silent_since = self.times.started.filter(|_| self.times.printed.is_none());
        Observation {
            recipe: &self.recipe,
            reader: &self.reader,
            is_synchronizing: view.spot.synchronizing,
            work: self.work_source(view, shows_work),
            shows_work,
            shown: view.shown.clone(),
            is_recorded_at_work: view.is_at_work,
            is_in_message: view.reads_screen && view.is_in_message,
            is_adopting: false,
            records_prompts: self.adoption.records_prompts,
            is_silent: silent_since.is_some_and(|at| now.since(at) < self.recipe.start_ms),
            is_started: self.is_started(),
            printed_at: self.times.printed,
            rests_at: self.rests_at(),
            key_at: self.times.key,
            is_line_empty: self.line.is_empty(&view.spot.before),
            has_draft: !self.line.is_untouched(),
            may_be_in_command_mode: self.line.may_take_text_for_commands(),
            is_held: self.is_held,
            handed_out: self.writes.handed_out,
            has_unwritten: self.writes.unwritten() > 0,
            has_next: false,
            text: None,
        }
    }

    /// Reads the screen according to the recipe.
    pub(super) fn shown(&self, spot: &Spot, typed: &Typed<'_>) -> Shown {
        self.recipe.read(spot, &self.reader, &self.prompts.known, typed)
    }

    /// Returns the first source that says that the agent works.
    fn work_source(&self, view: &View<'_>, shows_work: bool) -> Option<Source> {
        match () {
            () if self.work.is_at_work => Some(Source::Hooks),
            () if self.is_recorded(view) => Some(Source::Transcript),
            () => shows_work.then_some(Source::Screen),
        }
    }

    /// Whether a sign of work on the screen counts. A sign that has stood still for a while does
    /// not count if it usually moves, or if hooks or the CLI's transcript report the ends of turns
    /// and no turn goes on.
    pub(super) fn shows_work(&self, now: Moment, shown: &Shown) -> bool {
        let Some(row) = &shown.busy else { return false };
        let still_ms = match &self.busy {
            Some((seen, since)) if seen == row => now.since(*since),
            _ => 0,
        };
        let is_over = self.work.is_over() || self.recipe.turns == Some(Turns::Transcript);
        match is_over {
            true => still_ms < STILL_MS,
            false => !self.recipe.work_moves || still_ms < STILL_UNREPORTED_MS,
        }
    }

    /// Whether the transcript says that the agent is at work, if the CLI records the ends of its
    /// turns.
    fn is_recorded(&self, view: &View<'_>) -> bool {
        self.recipe.turns == Some(Turns::Transcript) && view.is_at_work
    }

    /// Whether the program has finished starting, as far as can be seen.
    fn is_started(&self) -> bool {
        !self.recipe.shows_composer() || self.startup.is_complete()
    }

    /// Returns when the screen will be at rest, unless it changes before.
    pub(super) fn rests_at(&self) -> Option<Moment> {
        let changed_at = self.times.printed.max(self.times.submitted);
        changed_at.map(|at| at.plus(self.recipe.quiet_ms))
    }

    /// Whether the screen has been unchanged long enough for typing a text.
    pub(super) fn is_at_rest(&self, now: Moment) -> bool {
        self.rests_at().is_none_or(|at| at <= now)
    }

    /// Returns the earliest time when no delay obstructs the next text.
    pub(super) fn free_at(&self) -> Option<Moment> {
        let Times { started, printed, key, submitted } = self.times;
        let silent_since = started.filter(|_| printed.is_none());
        let after = |at: Option<Moment>, ms| at.map(|at| at.plus(ms));
        let free = [
            after(silent_since, self.recipe.start_ms),
            after(printed, self.recipe.quiet_ms),
            after(submitted, self.recipe.quiet_ms),
            after(key, self.recipe.untouched_ms),
            self.startup.deadline(self.recipe.start_ms),
        ];
        free.into_iter().flatten().max()
    }

    /// Notes that the child has printed; `screen` contains the output.
    pub(super) fn printed(&mut self, now: Moment, screen: &Screen, typed: &Typed<'_>) {
        self.times.printed = Some(now);
        self.turn.change(now);
        if !self.line.is_untouched() {
            self.line.screen_shows(&text_before_cursor(screen));
        }
        if self.adoption.wants_check(now) {
            let shown = self.shown(&Spot::of(screen), typed);
            let shows_work = self.shows_work(now, &shown);
            self.adoption.check(now, shows_work);
        }
    }

    /// Notes which program now reads the terminal. Returns whether it is another one.
    pub(super) fn set_reader(&mut self, reader: Reader) -> bool {
        let has_changed = self.reader != reader;
        if has_changed {
            self.prompts.reader_changed(&reader);
            self.reader = reader;
        }
        has_changed
    }

    /// Notes that the person has pressed a key.
    pub(super) fn pressed(&mut self, now: Moment, spot: &Spot) {
        self.times.key = Some(now);
        self.prompts.learn(&self.reader, spot);
        self.prompts.has_typed = true;
    }

    /// Ends an escape sequence that did not continue in time. Its bytes count as a key pressed when
    /// the ESC arrived.
    pub(crate) fn settle_keys(&mut self, now: Moment) {
        let pressed_at = self.line.expire_unfinished(now);
        self.times.key = self.times.key.max(pressed_at);
    }

    /// Reads the screen. If it is at rest, remembers the look of a shell's prompt and of an empty
    /// input line. Also notes how long the sign of work has stood still.
    pub(super) fn learn(&mut self, now: Moment, spot: &Spot, typed: &Typed<'_>) -> Shown {
        if self.is_at_rest(now) {
            self.prompts.learn(&self.reader, spot);
            if self.line.is_untouched() {
                self.line.remember_empty_look(&spot.before);
            }
        }
        let shown = self.shown(spot, typed);
        self.busy = shown.busy.clone().map(|row| match self.busy.take() {
            Some((before, since)) if before == row => (before, since),
            _ => (row, now),
        });
        shown
    }

    /// If nothing hinders a look at the composer, derives from it whether the program has started,
    /// whether the agent has adopted the last text, and whether the person's line is empty.
    pub(super) fn learn_from_composer(
        &mut self,
        now: Moment,
        spot: &Spot,
        form: Result<Form, Obstacle>,
        history: &History,
    ) {
        let shows_composer = self.recipe.shows_composer();
        if shows_composer {
            let ready_since = form.is_ok().then(|| self.times.printed.unwrap_or(now));
            self.startup.observe(now, ready_since, self.recipe.start_ms);
        }
        let Some(form) = form.ok().filter(|_| self.is_started()) else { return };
        self.adoption.expire(now, history);
        let is_adopting = self.adoption.is_pending(now, history);
        let is_command = form != Form::Plain && self.line.may_take_text_for_commands();
        if is_adopting || is_command || !shows_composer {
            return;
        }
        // The screen shows an empty line although keys were pressed: they may have answered a
        // dialog.
        self.line.remember_empty_look(&spot.before);
        let key_at = self.times.key;
        let is_key_seen = key_at.is_none_or(|at| now.since(at) >= KEY_SEEN_MS);
        if self.times.printed > key_at && is_key_seen {
            self.line.mark_empty();
        }
    }

    /// Ends the work reported by hooks if the screen has shown an idle agent for a while. Returns
    /// whether it has.
    pub(super) fn end_work_if_idle(&mut self, now: Moment, view: &View<'_>) -> bool {
        if !self.work.is_at_work {
            return false;
        }
        let looks_free = self.recipe.shows_idle()
            && view.shown.shows_line(!self.line.is_untouched())
            && !self.shows_work(now, view.shown)
            && !self.is_recorded(view)
            && self.is_at_rest(now);
        self.work.end_if_idle(now, looks_free)
    }

    /// Looks at the screen and the foreground for signs of the agent's activity.
    pub(crate) fn look(&self, now: Moment, view: &View<'_>) -> Look {
        let at_work = match () {
            () if self.work.is_at_work => Some(ActivitySource::Hooks),
            () if self.is_recorded(view) => Some(ActivitySource::Screen),
            () => None,
        };
        Look {
            shown: self.on_screen(now, view.shown),
            is_at_rest: self.is_at_rest(now),
            is_recognised: self.recipe.shows_composer(),
            at_work,
        }
    }

    /// Whether the agent's CLI shows a dialog with numbered choices.
    pub(super) fn shows_choices(&self, shown: &Shown) -> bool {
        self.recipe.digits_choose && self.is_agents_own() && shown.form == Err(Obstacle::Dialog)
    }

    /// Whether the recipe's program reads the terminal.
    fn is_agents_own(&self) -> bool {
        matches!(&self.reader, Reader::Agent(name) if *name == self.recipe.name)
    }

    fn on_screen(&self, now: Moment, shown: &Shown) -> OnScreen {
        if matches!(self.reader, Reader::Shell | Reader::Barred(Obstacle::Shell, _)) {
            return OnScreen::Shell;
        }
        if !self.is_agents_own() {
            return OnScreen::Nothing;
        }
        match shown.form {
            Err(Obstacle::Dialog) => OnScreen::Dialog,
            _ if self.shows_work(now, shown) => OnScreen::Busy,
            Ok(_) | Err(Obstacle::HalfTyped | Obstacle::ShellMode) => OnScreen::InputLine,
            Err(_) => OnScreen::Nothing,
        }
    }
}
