//! The handling of the person's keys, which are passed on, or kept back while a text is being
//! typed.

use super::{Injector, injection::Interference};
use crate::{
    output::Output,
    recipe::{self, Spot},
    screen::Screen,
};
use protocol::Moment;

impl Injector {
    /// Handles bytes from the person's terminal. Returns whether a key among them submits a line.
    pub(crate) fn press(
        &mut self,
        now: Moment,
        bytes: &[u8],
        screen: &Screen,
        out: &mut Vec<Output>,
    ) -> bool {
        self.retry_at = None;
        let line_feed_breaks = self.recipe.line_feed_breaks(screen.bracketed_paste());
        let pressed =
            self.line.press(now, bytes, &recipe::text_before_cursor(screen), line_feed_breaks);
        let are_kept = !self.kept_keys.is_empty();
        if pressed.any {
            self.key_at = Some(now);
            self.submitted = None;
            self.prompts.learn(&self.reader, &Spot::of(screen));
            self.prompts.person_typed();
        } else if !are_kept && !self.line.is_ambiguous() {
            // The bytes are a terminal's answer, for which the child may be waiting.
            self.write(bytes.to_vec(), out);
            return false;
        }
        if screen.alternate() {
            self.line.forget_mode();
        }
        let keeps = self.injection.as_ref().is_some_and(|injection| !injection.passes_keys);
        if keeps {
            // The keys would become a part of the text that is being typed.
            self.kept_keys.add(bytes, pressed.submit);
        } else if pressed.any || are_kept {
            self.pass_keys(bytes.to_vec(), pressed.submit, out);
            if pressed.submit && self.recipe.shows_composer() {
                self.adoption.begin_persons(now);
            }
        } else {
            self.write(bytes.to_vec(), out);
        }
        let is_submitted = pressed.any && pressed.submit;
        if is_submitted {
            // A command like `/new` begins a conversation that no hook reports before its first
            // prompt.
            self.session = None;
            self.end_loops(out);
        }
        is_submitted
    }

    /// Ends an escape sequence that did not continue in time. Its bytes count as a key that was
    /// pressed when the ESC arrived.
    pub(crate) fn settle_keys(&mut self, now: Moment) {
        let pressed_at = self.line.expire_unfinished(now);
        self.key_at = self.key_at.max(pressed_at);
    }

    /// Passes the person's keys on from now on, although a text is being typed.
    pub(super) fn let_keys_through(&mut self, out: &mut Vec<Output>) {
        if let Some(injection) = &mut self.injection {
            injection.passes_keys = true;
        }
        if let Some((keys, has_submit)) = self.kept_keys.take() {
            self.pass_keys(keys, has_submit, out);
        }
    }

    /// Writes the kept keys, after an injection has ended.
    pub(super) fn release_keys(&mut self, out: &mut Vec<Output>) {
        if let Some((keys, _)) = self.kept_keys.take() {
            self.write(keys, out);
        }
    }

    fn pass_keys(&mut self, keys: Vec<u8>, has_submit: bool, out: &mut Vec<Output>) {
        if let Some(injection) = &mut self.injection {
            let enters = has_submit || injection.interference == Interference::Enter;
            injection.interference = if enters { Interference::Enter } else { Interference::Keys };
        }
        self.write(keys, out);
    }
}
