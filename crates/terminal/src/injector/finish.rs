//! The end of an injection: the text was submitted, and the transcript confirms it.

use super::{Injector, submitted::Submitted};
use crate::{
    frame::holds_frame,
    output::{Output, Progress},
};
use protocol::Moment;

impl Injector {
    /// Ends the current injection as submitted.
    pub(super) fn complete(&mut self, now: Moment, out: &mut Vec<Output>) {
        self.submitted_at = Some(now);
        // A prompt begins a turn even if the agent prints nothing in answer.
        self.turn.change(now);
        self.note_turn_for_brief();
        let Some(injection) = self.injection.take() else { return };
        self.submitted = Submitted::of(&injection).filter(|_| self.kept_keys.is_empty());
        if self.recipe.shows_composer() {
            self.adoption.begin(now, injection.hex);
        } else {
            self.adoption.end();
        }
        if let Some(message) = injection.content.into_message() {
            self.acknowledge(message.id, out);
        }
        self.release_keys(out);
    }

    /// Acknowledges a message that the agent has got.
    pub(super) fn acknowledge(&mut self, id: String, out: &mut Vec<Output>) {
        self.history.add_typed(id.clone());
        out.push(Output::Report(id.clone(), Progress::Injected));
        out.push(Output::Acknowledge(id));
    }

    /// Notes a prompt that the agent's transcript has recorded. A text in a frame that the prompt
    /// contains counts as submitted.
    pub(crate) fn confirm(&mut self, now: Moment, prompt: &str, out: &mut Vec<Output>) {
        self.note_shown(now, |hex| holds_frame(prompt, hex), out);
        self.notices.begin_turn();
        self.note_turn_for_brief();
        self.retry_at = None;
    }

    /// Notes that the agent's transcript has recorded a reply.
    pub(crate) fn note_reply(&mut self) {
        self.adoption.end();
        self.retry_at = None;
    }

    /// Notes that the agent's transcript has recorded the end of a turn.
    pub(crate) fn note_turn_end(&mut self) {
        self.end_turn();
        self.adoption.end();
        self.retry_at = None;
    }
}
