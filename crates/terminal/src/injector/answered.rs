//! The dialog of the last key press. It may be answered already and still be on the screen.

use super::observer::KEY_SEEN_MS;
use protocol::Moment;

/// How long a repaint may hide a dialog at most.
const REPAINT_MS: u64 = 100;

/// A dialog's text and choices.
pub(super) type Question = (String, Vec<String>);

/// The dialog of the last key press.
#[derive(Debug, Default)]
pub(super) struct Answered(Option<Pressed>);

#[derive(Debug)]
struct Pressed {
    question: Question,
    at: Moment,
    /// Since when the dialog has been off the screen.
    gone_since: Option<Moment>,
}

impl Answered {
    /// Notes a key press while the screen showed this dialog. A key press without a dialog keeps
    /// the last one, since it may be about to be repainted.
    pub(super) fn pressed(&mut self, now: Moment, question: Option<Question>) {
        if let Some(question) = question {
            self.0 = Some(Pressed { question, at: now, gone_since: None });
        }
    }

    /// Whether the next look at the screen matters.
    pub(super) fn wants_look(&self) -> bool {
        self.0.is_some()
    }

    /// Notes the dialog on the screen. If it was gone for longer than a repaint, it counts as
    /// another dialog, even with the same words.
    pub(super) fn look(&mut self, now: Moment, shown: Option<&Question>) {
        let Some(pressed) = &mut self.0 else { return };
        let was_gone = pressed.gone_since.is_some_and(|since| now.since(since) >= REPAINT_MS);
        if was_gone || now.since(pressed.at) >= KEY_SEEN_MS {
            self.0 = None;
        } else if shown == Some(&pressed.question) {
            pressed.gone_since = None;
        } else {
            pressed.gone_since.get_or_insert(now);
        }
    }

    /// Whether a dialog on the screen may already be answered.
    pub(super) fn is(&self, now: Moment, question: &Question) -> bool {
        let pressed = self.0.as_ref().filter(|pressed| now.since(pressed.at) < KEY_SEEN_MS);
        pressed.is_some_and(|pressed| pressed.question == *question)
    }
}
