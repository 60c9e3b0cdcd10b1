//! The second stage of an injection: the text is typed, and its Enter waits until the screen has
//! settled and shows the text.

use super::{
    Injector, RETRY_MS, View,
    injection::{Content, Injection, Interference, Stage},
};
use crate::{
    keyboard::Reader,
    obstacle::Obstacle,
    output::{Output, RETURN_MS},
};
use protocol::Moment;

/// The longest time that a program takes to show or to record a text that it has received.
const TEXT_SHOWN_MS: u64 = 20_000;

impl Injector {
    /// Counts bytes that the terminal has accepted. The caller then calls [`Injector::advance`].
    pub(crate) fn count_written(&mut self, bytes: usize) {
        self.writes.add_written(bytes);
        self.retry_at = None;
    }

    /// Enters the next stage if the terminal has accepted all bytes of the current one.
    pub(crate) fn advance(&mut self, now: Moment, out: &mut Vec<Output>) {
        let Some(injection) = &mut self.injection else { return };
        match injection.stage {
            Stage::Typing { until } if self.writes.has_reached(until) => {
                injection.stage = Stage::Guard { typed_at: now, since: now };
            }
            Stage::Submitting { until, presses } if self.writes.has_reached(until) => {
                if self.recipe.shows_composer() {
                    injection.stage =
                        Stage::Leaving { since: now, presses, checked_at: now, held_at: now };
                } else {
                    self.complete(now, out);
                }
            }
            _ => {}
        }
    }

    /// Returns the time at which the Enter is due: the screen has not changed for the recipe's
    /// time, or the longest wait since `since` is over.
    pub(super) fn enter_at(&self, since: Moment) -> Moment {
        let changed_at = self.printed_at.map_or(since, |at| at.max(since));
        changed_at.plus(self.recipe.guard_ms).min(since.plus(self.recipe.guard_ms_max))
    }

    /// Submits the text if its Enter is due and the text stands in the input line.
    pub(crate) fn submit_when_due(&mut self, now: Moment, view: &View<'_>, out: &mut Vec<Output>) {
        let Some(Injection { stage: Stage::Guard { typed_at, since }, .. }) = self.injection else {
            return;
        };
        if now < self.enter_at(since) {
            return;
        }
        if let Some(why) = self.reader_obstacle() {
            return self.wait_for_reader(now, why, out);
        }
        if self.recipe.holds_text(view.spot) {
            return self.press_submit(1, out);
        }
        // While the program asks something, an Enter would answer that. Otherwise the program is
        // late to show the text, and the person's keys would mix with it, or the text is gone.
        let asks = self.recipe.shows_dialog(view.spot);
        let typed_at = if asks { now } else { typed_at };
        let Some(injection) = &mut self.injection else { return };
        injection.stage = Stage::Guard { typed_at, since: now };
        injection.passes_keys &= asks;
        self.note_delay(asks.then_some(Obstacle::Dialog), out);
        if asks || now.since(typed_at) >= self.recipe.guard_ms_max {
            self.let_keys_through(out);
        }
        if !asks && self.is_at_rest(now) && self.shows_empty_line(view) {
            self.resolve_missing_text(now, typed_at, view, out);
        }
    }

    /// Writes the keys that submit the input line; `presses` counts attempts.
    pub(super) fn press_submit(&mut self, presses: u32, out: &mut Vec<Output>) {
        self.write(self.recipe.submit.clone().into_bytes(), out);
        if let Some(injection) = &mut self.injection {
            injection.stage = Stage::Submitting { until: self.writes.end(), presses };
            injection.passes_keys = false;
            injection.obstacle = None;
        }
    }

    /// Returns an obstacle if another program reads the terminal than the one that got the text.
    pub(super) fn reader_obstacle(&self) -> Option<Obstacle> {
        let injection = self.injection.as_ref()?;
        match &self.reader {
            reader if *reader == injection.reader => None,
            Reader::Barred(why, _) => Some(*why),
            _ => Some(Obstacle::OtherProgram),
        }
    }

    /// Waits while another program has the terminal, and passes the person's keys to that program.
    fn wait_for_reader(&mut self, now: Moment, why: Obstacle, out: &mut Vec<Output>) {
        if let Some(Injection { stage: Stage::Guard { since, .. }, .. }) = &mut self.injection {
            *since = now.plus(RETRY_MS);
        }
        self.note_delay(Some(why), out);
        self.let_keys_through(out);
    }

    /// Decides about a text that has not been seen in the input line since `since`: the person may
    /// have submitted it or erased it.
    pub(super) fn resolve_missing_text(
        &mut self,
        now: Moment,
        since: Moment,
        view: &View<'_>,
        out: &mut Vec<Output>,
    ) {
        let Some(injection) = &self.injection else { return };
        let records_prompts = self.adoption.records_prompts();
        let patience_ms = match injection.interference {
            Interference::Enter if !records_prompts => return self.complete(now, out),
            // The person may have erased the text, or the program may be late to show it.
            Interference::Keys if !records_prompts => 2 * self.recipe.guard_ms_max,
            // The program may still show or record the text, perhaps after other work.
            _ => TEXT_SHOWN_MS,
        };
        if now.since(since) >= patience_ms && !self.recipe.looks_busy(view.spot) {
            self.return_text(out);
        }
    }

    /// Gives up on the text and returns its message to the daemon, which delivers it again.
    fn return_text(&mut self, out: &mut Vec<Output>) {
        match self.injection.take().map(|injection| injection.content) {
            Some(Content::Message(message)) => out.push(Output::Return(message.id, RETURN_MS)),
            Some(Content::Notice) => {
                out.push(Output::Log("the agent did not get the relay's words".into()));
            }
            None => {}
        }
        self.release_keys(out);
    }

    /// Whether the screen shows an empty input line.
    pub(super) fn shows_empty_line(&self, view: &View<'_>) -> bool {
        let form = self.recipe.form(view.spot, self.known(view));
        matches!(form, Ok(_) | Err(Obstacle::Busy))
    }
}
