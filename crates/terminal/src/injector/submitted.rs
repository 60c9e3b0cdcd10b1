//! The last submitted text, which may be seen in the input line again: the program took its Enter
//! for a line break, and was so slow to paint that the text seemed to have left.

use super::{
    Injector, View,
    injection::{Injection, Interference, Stage},
    leaving::{PRESS_AGAIN_MS, PRESS_AGAIN_SILENT_MS, PRESSES_MAX},
};
use crate::{keyboard::Reader, output::Output};
use protocol::Moment;

/// The time for which the screen must have been unchanged before the Enter is pressed again.
const UNCHANGED_MS: u64 = 1000;

/// The last submitted text, as long as an Enter can submit nothing but this text: the person has
/// pressed no key since the text was typed, and no other text was typed.
#[derive(Debug)]
pub(super) struct Submitted {
    /// The digits of the text's frame.
    hex: String,
    /// The program that the text was typed into.
    reader: Reader,
    /// The time at which the Enter was last pressed.
    pressed_at: Moment,
    /// The number of attempts to submit the text so far.
    presses: u32,
    /// The time of the last look at the input line.
    checked_at: Moment,
}

impl Submitted {
    /// Returns the text of an injection that ends, if only an Enter has followed the text.
    pub(super) fn of(injection: &Injection) -> Option<Self> {
        let Stage::Leaving { since, presses, checked_at, .. } = injection.stage else {
            return None;
        };
        let is_alone = injection.interference == Interference::None;
        is_alone.then(|| Self {
            hex: injection.hex.clone(),
            reader: injection.reader.clone(),
            pressed_at: since,
            presses,
            checked_at,
        })
    }
}

impl Injector {
    /// Returns the time at which the screen has been unchanged for so long that the submitted text
    /// counts as stuck if it is shown. `None` if no such look is due until the screen changes.
    pub(super) fn stuck_at(&self) -> Option<Moment> {
        let Submitted { hex, reader, pressed_at, presses, checked_at } = self.submitted.as_ref()?;
        let may_press = *presses < PRESSES_MAX
            && self.reader == *reader
            && self.injection.is_none()
            && self.history.is_unconfirmed(hex);
        let printed_at = self.printed_at?;
        let is_silent = printed_at <= *pressed_at;
        let patience_ms = if is_silent { PRESS_AGAIN_SILENT_MS } else { PRESS_AGAIN_MS };
        let at = printed_at.plus(UNCHANGED_MS).max(pressed_at.plus(patience_ms));
        (may_press && *checked_at < at).then_some(at)
    }

    /// Presses Enter again if the last submitted text stands in the input line.
    pub(crate) fn submit_stuck(&mut self, now: Moment, view: &View<'_>, out: &mut Vec<Output>) {
        if self.stuck_at().is_none_or(|at| now < at) {
            return;
        }
        let Some(submitted) = &mut self.submitted else { return };
        submitted.checked_at = now;
        if view.is_at_work || !self.recipe.holds_frame(view.spot, &submitted.hex) {
            return;
        }
        submitted.pressed_at = now;
        submitted.presses += 1;
        let hex = submitted.hex.clone();
        self.submitted_at = Some(now);
        self.adoption.begin(now, hex);
        self.write(self.recipe.submit.clone().into_bytes(), out);
    }
}
