//! The adoption of the last submitted text: whether the agent has begun to work on it.
//!
//! Before the adoption, the agent may look idle. If another text were typed then, the two would
//! become one prompt.

use super::history::History;
use protocol::Moment;

/// How long a program may take to show that it works on a submitted text. After this time, its work
/// counts as too quick to be seen.
const ADOPTED_MS: u64 = 3000;
/// How long a program that records its prompts may take to record the submitted one. A starting
/// program may show nothing for long.
const RECORDED_MS: u64 = 20_000;
/// The time between two checks whether the screen shows a working agent.
const LOOK_MS: u64 = 50;

/// Replaces a frame's digits if the person has submitted the text.
const PERSONS: &str = "";

/// The progress of the last submitted text towards its adoption.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    stage: Stage,
    /// Whether the program is known to record its prompts in a transcript.
    pub(super) records_prompts: bool,
}

#[derive(Debug, Default)]
enum Stage {
    /// No adoption is awaited.
    #[default]
    Done,
    /// The agent has not been seen at work yet.
    Awaited {
        /// When the text was submitted or recorded.
        since: Moment,
        /// The digits of the text's frame.
        hex: String,
        checked_at: Moment,
    },
    /// The agent was seen at work.
    Seen { hex: String },
}

impl Adoption {
    pub(super) fn new(records_prompts: bool) -> Self {
        Self { records_prompts, ..Self::default() }
    }

    /// Notes that a text was submitted in a frame with these digits. Only if the program's screen
    /// shows when it works.
    pub(super) fn begin(&mut self, now: Moment, hex: String) {
        self.stage = Stage::Awaited { since: now, hex, checked_at: now };
    }

    /// Notes that the person has pressed Enter, perhaps to submit a prompt. Only if the program's
    /// screen shows when it works.
    pub(super) fn begin_persons(&mut self, now: Moment) {
        if !matches!(self.stage, Stage::Awaited { .. }) {
            self.begin(now, PERSONS.to_owned());
        }
    }

    /// Notes that a hook reports a turn, perhaps the person's.
    pub(super) fn note_turn(&mut self) {
        if matches!(&self.stage, Stage::Awaited { hex, .. } if hex == PERSONS) {
            self.end();
        }
    }

    /// Ends the wait for an adoption.
    pub(super) fn end(&mut self) {
        self.stage = Stage::Done;
    }

    /// Whether a look at the screen for signs of work is due, `LOOK_MS` after the last one.
    pub(super) fn wants_check(&self, now: Moment) -> bool {
        matches!(self.stage, Stage::Awaited { checked_at, .. } if now.since(checked_at) >= LOOK_MS)
    }

    /// Notes whether the screen shows that the agent works.
    pub(super) fn check(&mut self, now: Moment, looks_busy: bool) {
        let Stage::Awaited { hex, checked_at, .. } = &mut self.stage else { return };
        *checked_at = now;
        if looks_busy {
            self.stage = Stage::Seen { hex: std::mem::take(hex) };
        }
    }

    /// Whether the agent may not have adopted the last text yet.
    pub(super) fn is_pending(&self, now: Moment, history: &History) -> bool {
        let Stage::Awaited { since, hex, .. } = &self.stage else { return false };
        let awaits_record = self.awaits_record(hex, history);
        now.since(*since) < if awaits_record { RECORDED_MS } else { ADOPTED_MS }
    }

    /// Ends the wait on timeout. If the program did not record this prompt, no further records are
    /// expected.
    pub(super) fn expire(&mut self, now: Moment, history: &History) {
        if let Stage::Awaited { hex, .. } = &self.stage
            && !self.is_pending(now, history)
        {
            self.records_prompts &= !self.awaits_record(hex, history);
            self.stage = Stage::Done;
        }
    }

    /// Returns the time until the next attempt to type, if a pending adoption is the obstacle.
    pub(super) fn retry_ms(&self) -> Option<u64> {
        (!matches!(self.stage, Stage::Done)).then_some(LOOK_MS)
    }

    /// Notes that a prompt was recorded. `is_shown` tells by a frame's digits whether the prompt
    /// contains it. The agent begins to work on it now.
    pub(super) fn confirm(&mut self, now: Moment, is_shown: impl Fn(&str) -> bool) {
        match &mut self.stage {
            Stage::Awaited { since, hex, .. } if is_shown(hex) => *since = now,
            Stage::Seen { hex } if is_shown(hex) => {}
            _ => return,
        }
        self.records_prompts = true;
    }

    fn awaits_record(&self, hex: &str, history: &History) -> bool {
        self.records_prompts && history.is_unconfirmed(hex)
    }
}
