//! Whether the agent is at work, as its CLI's hooks report it.

use protocol::{Moment, hook::Point};

/// How long the screen must show an idle agent before it outranks the hooks. An interrupted turn
/// may end without a report.
const LOOKS_IDLE_MS: u64 = 2000;

/// The agent's work, as reported by hooks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReportedWork {
    /// Whether a hook has reported anything.
    pub(super) is_heard: bool,
    /// Whether a hook has reported the beginning or the end of a turn.
    reports_turns: bool,
    pub(super) is_at_work: bool,
    /// Since when the screen has shown an idle agent that counts as working.
    idle_since: Option<Moment>,
    /// When the work was last compared with the screen.
    compared_at: Option<Moment>,
}

impl ReportedWork {
    /// Whether the CLI's hooks report turns and no turn goes on.
    pub(super) fn is_over(self) -> bool {
        self.reports_turns && !self.is_at_work
    }

    /// Notes a report.
    pub(super) fn note(&mut self, point: Point) {
        self.is_heard = true;
        match point {
            Point::PromptSubmitted
            | Point::ToolStarts
            | Point::ToolEnded
            | Point::PermissionAsked
            | Point::PersonAsked => {
                *self = Self { is_at_work: true, reports_turns: true, idle_since: None, ..*self };
            }
            Point::TurnEnded => (self.reports_turns, self.is_at_work) = (true, false),
            Point::SessionEnded => self.is_at_work = false,
            // A conversation may also be compacted in the middle of a turn.
            Point::SessionBegan | Point::SessionCompacts | Point::Waits => {}
        }
    }

    /// Returns when the next comparison with the screen is due. `rests_at` is when the screen will
    /// be at rest, unless it changes before.
    pub(super) fn deadline(self, rests_at: Option<Moment>) -> Option<Moment> {
        let is_later = |rests: &Moment| self.compared_at.is_none_or(|at| at < *rests);
        let lasts_at = self.idle_since.map(|since| since.plus(LOOKS_IDLE_MS));
        let due = lasts_at.into_iter().chain(rests_at.filter(is_later)).min();
        due.filter(|_| self.is_at_work)
    }

    /// Ends the reported work if the screen has shown an idle agent for a while. Returns whether
    /// the agent now counts as idle.
    pub(super) fn end_if_idle(&mut self, now: Moment, looks_idle: bool) -> bool {
        self.compared_at = Some(now);
        self.idle_since = looks_idle.then(|| self.idle_since.unwrap_or(now));
        let is_over = self.idle_since.is_some_and(|since| now.since(since) >= LOOKS_IDLE_MS);
        self.is_at_work = !is_over;
        is_over
    }
}
