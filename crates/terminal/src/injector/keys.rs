//! Handling of the person's keys: they are passed on, or kept back while a text is typed.

use super::{Injector, delivering::Delivering, interference::Interference};
use crate::{
    recipe::{self, Spot},
    screen::Screen,
};
use protocol::Moment;

impl Injector {
    /// Handles bytes from the person's terminal. Returns whether one of the keys submits a line.
    pub(crate) fn press(&mut self, now: Moment, bytes: &[u8], screen: &Screen) -> bool {
        self.retry_at = None;
        let line_feed_breaks = self.observer.recipe.line_feed_breaks(screen.bracketed_paste());
        let before = recipe::text_before_cursor(screen);
        let pressed = self.observer.line.press(now, bytes, &before, line_feed_breaks);
        let are_kept = !self.kept_keys.is_empty();
        if pressed.any {
            let spot = Spot::of(screen);
            self.observer.pressed(now, &spot);
            self.answered.pressed(now, self.question(&spot));
            if let Delivering::Waiting { left, .. } = &mut self.delivering {
                *left = None;
            }
        } else if !are_kept && !self.observer.line.is_ambiguous() {
            // The bytes are a terminal's answer, and the child may be waiting for it.
            self.write(bytes.to_vec());
            return false;
        }
        if screen.alternate() {
            self.observer.line.forget_mode();
        }
        let passes = self.text.as_ref().is_some_and(|text| text.passes_keys);
        if self.delivering.has_text() && !passes {
            // The keys would become a part of the text that is being typed.
            self.kept_keys.add(bytes, pressed.submit);
        } else if pressed.any || are_kept {
            self.pass_keys(bytes.to_vec(), pressed.submit);
            if pressed.submit && self.observer.recipe.shows_composer() {
                self.observer.adoption.begin_persons(now);
            }
        } else {
            self.write(bytes.to_vec());
        }
        let is_submitted = pressed.any && pressed.submit;
        if is_submitted {
            // A command like `/new` begins a conversation that no hook reports before its first
            // prompt.
            self.hooks.session = None;
            self.end_loops();
        }
        is_submitted
    }

    /// From now on, passes the person's keys on although a text is on its way, or keeps them back.
    pub(super) fn pass_keys_on(&mut self, passes: bool) {
        if let Some(text) = &mut self.text {
            text.passes_keys = passes;
        }
        if passes && let Some((keys, has_submit)) = self.kept_keys.take() {
            self.pass_keys(keys, has_submit);
        }
    }

    /// Writes the kept keys, after a delivery has ended.
    pub(super) fn release_keys(&mut self) {
        if let Some((keys, _)) = self.kept_keys.take() {
            self.write(keys);
        }
    }

    fn pass_keys(&mut self, keys: Vec<u8>, has_submit: bool) {
        if let Some(text) = self.text.as_mut().filter(|_| self.delivering.has_text()) {
            text.interference = text.interference.max(Interference::of(has_submit));
        }
        self.write(keys);
    }
}
