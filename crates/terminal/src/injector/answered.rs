//! The dialog that a key was pressed in, which may be answered by it and still be on the screen.

use super::observer::KEY_SEEN_MS;
use protocol::Moment;

/// The longest time for which a program that repaints its screen leaves a dialog out.
const REPAINT_MS: u64 = 100;

/// The text of a dialog and its choices.
pub(super) type Question = (String, Vec<String>);

/// The dialog in which the last key was pressed.
#[derive(Debug, Default)]
pub(super) struct Answered(Option<Pressed>);

#[derive(Debug)]
struct Pressed {
    question: Question,
    at: Moment,
    /// Since when the screen has not shown the dialog.
    gone_since: Option<Moment>,
}

impl Answered {
    /// Notes that a key was pressed while the screen showed this dialog. A key without a dialog
    /// leaves the last one as it was: it may be about to be painted again.
    pub(super) fn pressed(&mut self, now: Moment, question: Option<Question>) {
        if let Some(question) = question {
            self.0 = Some(Pressed { question, at: now, gone_since: None });
        }
    }

    /// Whether it matters what the screen shows.
    pub(super) fn wants_look(&self) -> bool {
        self.0.is_some()
    }

    /// Notes the dialog on the screen. One that was gone, for longer than a repaint takes, is
    /// another one when it comes back, even with the same words.
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

    /// Whether a dialog on the screen is the one that may be answered already.
    pub(super) fn is(&self, now: Moment, question: &Question) -> bool {
        let pressed = self.0.as_ref().filter(|pressed| now.since(pressed.at) < KEY_SEEN_MS);
        pressed.is_some_and(|pressed| pressed.question == *question)
    }
}
