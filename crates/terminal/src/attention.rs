//! An agent's claim on its person's attention: the sign in the terminal's title, and the times when
//! the person is notified.

use crate::overlay::Sign;
use protocol::{Moment, activity::Activity};
use std::fmt;

/// How long a dialog must be open before the person is notified.
const ASKED_MS: u64 = 500;

/// How long an agent must be idle before its work counts as finished: a message from another agent
/// may begin its next turn.
const RESTED_MS: u64 = 1000;

/// How long after a key the person counts as looking at a terminal that does not report its focus.
pub const KEY_MS: u64 = 10_000;

/// The minimum time between two notices that the agent has sent a message to its person.
const WROTE_MS: u64 = 5000;

/// A reason to notify an agent's person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The agent waits for permission to use a tool.
    WaitsForPermission,
    /// The agent asks its person something.
    AsksPerson,
    /// The agent has finished its work.
    Finished,
    /// The agent has sent a message to its person.
    Wrote,
}

/// Words that follow the agent's name.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WaitsForPermission => "waits for permission",
            Self::AsksPerson => "asks you something",
            Self::Finished => "has finished",
            Self::Wrote => "has written to you",
        })
    }
}

/// The state machine of one agent's terminal.
#[derive(Debug)]
pub struct Attention {
    activity: Option<Activity>,
    /// Whether the terminal has the focus; `None` before its first report.
    is_focused: Option<bool>,
    /// The time of the last key, or of the start.
    last_key: Moment,
    /// The number of other terminals that show the agent to its person.
    viewers: usize,
    /// Whether the agent has finished since its person last looked.
    is_unseen: bool,
    /// When to notify the person of the activity.
    due: Option<Moment>,
    /// When the person was last notified of a message from the agent.
    wrote: Option<Moment>,
}

impl Attention {
    /// Returns the state at an agent's start. The person has just started it, and so is looking at
    /// it.
    #[must_use]
    pub fn new(now: Moment) -> Self {
        Self {
            activity: None,
            is_focused: None,
            last_key: now,
            viewers: 0,
            is_unseen: false,
            due: None,
            wrote: None,
        }
    }

    /// Returns the sign for the title.
    #[must_use]
    pub fn sign(&self) -> Option<Sign> {
        match self.activity {
            Some(Activity::WaitsForPermission | Activity::AsksPerson) => Some(Sign::Waits),
            Some(Activity::Working) => Some(Sign::Works),
            _ => self.is_unseen.then_some(Sign::Finished),
        }
    }

    /// Whether the agent has finished its work since its person last looked.
    #[must_use]
    pub fn is_unseen(&self) -> bool {
        self.is_unseen
    }

    /// The time to call [`Attention::take_due`].
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        self.due
    }

    /// Notes the agent's activity.
    pub fn does(&mut self, now: Moment, activity: Activity) {
        let before = self.activity.replace(activity);
        if before == Some(activity) {
            return;
        }
        self.due = match activity {
            Activity::WaitsForPermission | Activity::AsksPerson => Some(now.plus(ASKED_MS)),
            Activity::Idle if before == Some(Activity::Working) => Some(now.plus(RESTED_MS)),
            // A dialog that was answered elsewhere causes no notice. Neither does the start.
            _ => None,
        };
    }

    /// Notes the terminal's report of its focus.
    pub fn focus(&mut self, is_focused: bool) {
        self.is_focused = Some(is_focused);
        self.is_unseen &= !is_focused;
    }

    /// Notes that the person has pressed a key in the agent's terminal.
    pub fn key(&mut self, now: Moment) {
        self.last_key = now;
        self.is_unseen = false;
    }

    /// Notes the number of other terminals that show the agent to its person.
    pub fn viewers(&mut self, viewers: usize) {
        self.viewers = viewers;
        self.is_unseen &= viewers == 0;
    }

    /// Notes that the agent has sent a message to its person. Returns a notice if one is due.
    pub fn wrote(&mut self, now: Moment) -> Option<Notice> {
        if self.is_looked_at(now) || self.wrote.is_some_and(|at| now.since(at) < WROTE_MS) {
            return None;
        }
        self.wrote = Some(now);
        Some(Notice::Wrote)
    }

    /// Returns the notice that is due. Each dialog has one. Work that finishes while the person is
    /// not looking has one until the person looks.
    pub fn take_due(&mut self, now: Moment) -> Option<Notice> {
        self.due.take_if(|due| *due <= now)?;
        if self.is_looked_at(now) {
            return None;
        }
        match self.activity? {
            Activity::WaitsForPermission => Some(Notice::WaitsForPermission),
            Activity::AsksPerson => Some(Notice::AsksPerson),
            Activity::Idle => {
                (!std::mem::replace(&mut self.is_unseen, true)).then_some(Notice::Finished)
            }
            _ => None,
        }
    }

    fn is_looked_at(&self, now: Moment) -> bool {
        let has_focus = self.is_focused.unwrap_or_else(|| now.since(self.last_key) < KEY_MS);
        has_focus || self.viewers > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the notices up to a time.
    fn notices(attention: &mut Attention, until: u64) -> Vec<(u64, Notice)> {
        let mut notices = Vec::new();
        while let Some(at) = attention.deadline().filter(|at| at.0 <= until) {
            notices.extend(attention.take_due(at).map(|notice| (at.0, notice)));
        }
        notices
    }

    fn unfocused() -> Attention {
        let mut attention = Attention::new(Moment(0));
        attention.focus(false);
        attention
    }

    #[test]
    fn each_dialog_is_notified_once_in_a_terminal_without_focus() {
        let mut attention = unfocused();
        attention.does(Moment(0), Activity::Working);
        assert_eq!(attention.sign(), Some(Sign::Works));
        for at in [1000, 2000] {
            attention.does(Moment(at), Activity::WaitsForPermission);
            attention.does(Moment(at + 1), Activity::WaitsForPermission);
            assert_eq!(attention.sign(), Some(Sign::Waits));
            let expected = [(at + 500, Notice::WaitsForPermission)];
            assert_eq!(notices(&mut attention, at + 900), expected);
            attention.does(Moment(at + 900), Activity::Working);
        }
        attention.does(Moment(3000), Activity::AsksPerson);
        attention.does(Moment(3400), Activity::Working);
        assert_eq!(notices(&mut attention, 9000), [], "the dialog was open for a moment");
        attention.does(Moment(9000), Activity::AsksPerson);
        attention.focus(true);
        assert_eq!(notices(&mut attention, 10_000), []);
    }

    #[test]
    fn finished_work_is_notified_once_until_the_person_looks() {
        let mut attention = unfocused();
        attention.does(Moment(0), Activity::Starting);
        attention.does(Moment(10), Activity::Idle);
        assert_eq!(notices(&mut attention, 9000), [], "the agent has not worked");
        for (at, expected) in [(10_000, Some(Notice::Finished)), (20_000, None)] {
            attention.does(Moment(at), Activity::Working);
            attention.does(Moment(at + 1), Activity::Idle);
            assert_eq!(
                notices(&mut attention, at + 9000),
                expected.map(|notice| (at + 1001, notice)).into_iter().collect::<Vec<_>>()
            );
            assert_eq!(attention.sign(), Some(Sign::Finished));
        }
        let looks: [fn(&mut Attention); 3] =
            [|it| it.focus(true), |it| it.key(Moment(29_000)), |it| it.viewers(1)];
        for look in looks {
            attention.is_unseen = true;
            look(&mut attention);
            assert_eq!((attention.sign(), attention.is_unseen()), (None, false));
        }
        attention.viewers(0);
        attention.focus(false);
        attention.does(Moment(30_000), Activity::Working);
        attention.does(Moment(30_001), Activity::Idle);
        attention.does(Moment(30_500), Activity::Working);
        assert_eq!(notices(&mut attention, 39_000), [], "a message began the next turn");
    }

    #[test]
    fn key_counts_as_a_look_at_a_terminal_without_focus_reports() {
        let mut attention = Attention::new(Moment(0));
        attention.does(Moment(0), Activity::Working);
        attention.key(Moment(5000));
        attention.does(Moment(14_000), Activity::AsksPerson);
        assert_eq!(notices(&mut attention, 14_500), []);
        attention.does(Moment(14_600), Activity::Working);
        attention.does(Moment(15_000), Activity::AsksPerson);
        assert_eq!(notices(&mut attention, 20_000), [(15_500, Notice::AsksPerson)]);
    }

    #[test]
    fn attached_terminal_counts_as_a_look_at_the_agent() {
        let mut attention = unfocused();
        attention.viewers(1);
        assert_eq!(attention.wrote(Moment(0)), None);
        attention.does(Moment(0), Activity::WaitsForPermission);
        assert_eq!(notices(&mut attention, 9000), []);
        attention.viewers(0);
        assert_eq!(attention.wrote(Moment(9000)), Some(Notice::Wrote));
        assert_eq!(attention.wrote(Moment(10_000)), None);
        assert_eq!(attention.wrote(Moment(14_000)), Some(Notice::Wrote));
    }
}
