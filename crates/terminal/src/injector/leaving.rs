//! The third stage of an injection: the Enter was pressed, and the text must leave the input line.

use super::{
    Injector, RETRY_MS, View,
    injection::{Injection, Interference, Stage},
};
use crate::{extract::UPDATE_MAX_MS, obstacle::Obstacle, output::Output};
use protocol::Moment;

/// The time between two checks of the input line.
const CHECK_MS: u64 = 30;
/// The time after which the Enter is pressed again. Some programs take an Enter that follows a
/// paste too soon for a part of the paste.
pub(super) const PRESS_AGAIN_MS: u64 = 700;
/// The time after which the Enter is pressed again if the program has printed nothing since.
pub(super) const PRESS_AGAIN_SILENT_MS: u64 = 3000;
/// The most times that the Enter is pressed for one text.
pub(super) const PRESSES_MAX: u32 = 4;

/// Returns the time of the next check of the input line.
pub(super) fn check_at(presses: u32, checked_at: Moment, obstacle: Option<Obstacle>) -> Moment {
    let may_press = presses < PRESSES_MAX && obstacle != Some(Obstacle::NoEnterTaken);
    checked_at.plus(if may_press { CHECK_MS } else { RETRY_MS })
}

/// Whether the Enter may be pressed again, if it was last pressed at `since`.
pub(super) fn may_press_again(now: Moment, since: Moment) -> bool {
    now.since(since) >= PRESS_AGAIN_MS
}

impl Injector {
    /// Checks whether the submitted text has left the input line, and presses Enter again if it
    /// stays.
    pub(crate) fn check_leaving(&mut self, now: Moment, view: &View<'_>, out: &mut Vec<Output>) {
        let Some(injection) = &mut self.injection else { return };
        let Stage::Leaving { since, presses, checked_at, held_at } = &mut injection.stage else {
            return;
        };
        let (since, presses) = (*since, *presses);
        if now < check_at(presses, *checked_at, injection.obstacle) {
            return;
        }
        *checked_at = now;
        let is_held = self.recipe.holds_text(view.spot);
        if is_held {
            *held_at = now;
        }
        let missing_since = *held_at;
        if !is_held && self.has_left(now, missing_since, view) {
            return match self.injection {
                Some(Injection { interference: Interference::None, .. }) => self.complete(now, out),
                _ => self.resolve_missing_text(now, since, view, out),
            };
        }
        if let Some(why) = self.reader_obstacle() {
            self.note_delay(Some(why), out);
            return self.let_keys_through(out);
        }
        // A program that has printed nothing since the Enter may not have read it yet.
        let has_printed = self.printed_at > Some(since);
        let patience_ms = if has_printed { PRESS_AGAIN_MS } else { PRESS_AGAIN_SILENT_MS };
        let stays = is_held && now.since(since) >= patience_ms && self.is_at_rest(now);
        // The person's keys may have changed the text, and then an Enter would submit that.
        let interference = self.injection.as_ref().map(|injection| injection.interference);
        let is_alone = interference == Some(Interference::None);
        let may_press = is_alone && presses < PRESSES_MAX;
        if stays && may_press {
            self.press_submit(presses + 1, out);
        }
        // The person's keys are passed on, since only the person may know what the program waits
        // for.
        let asks = self.recipe.shows_dialog(view.spot);
        if asks || (stays && presses > 1) {
            self.let_keys_through(out);
        }
        let is_ignored = stays && !may_press;
        let ignored = is_ignored.then_some(Obstacle::NoEnterTaken);
        self.note_delay(asks.then_some(Obstacle::Dialog).or(ignored), out);
    }

    /// Whether the text, which is not shown, has left the input line: the line is empty again, or
    /// has not shown the text for a while. Before that, the program may be in the middle of
    /// painting the line.
    fn has_left(&self, now: Moment, missing_since: Moment, view: &View<'_>) -> bool {
        let missing_ms = now.since(missing_since);
        let printed_within = |ms| self.printed_at.is_some_and(|at| now.since(at) < ms);
        let is_painting =
            printed_within(CHECK_MS) || (view.spot.synchronizing && printed_within(UPDATE_MAX_MS));
        let is_empty = self.shows_empty_line(view);
        let is_seen = is_empty || self.is_at_rest(now) || missing_ms >= self.recipe.guard_ms_max;
        (is_empty && !is_painting) || (missing_ms >= PRESS_AGAIN_MS && is_seen)
    }
}
