//! The bound on the wait for a command's last output.
//!
//! The output of a command that has ended should end soon. A process that the command has left
//! behind may keep the terminal open, and the pseudo console of Windows may never close.

use protocol::Moment;
use std::mem;

/// The longest pause in the last output.
const PAUSE_MS: u64 = 2000;

/// The longest time that output may continue, from the command's end until the processes left
/// behind are hung up, and again from there on.
const PRINTING_MAX_MS: u64 = 10_000;

/// The remedies for output that does not end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The processes that the command has left behind are hung up.
    HangUp,
    /// The output is not waited for any more.
    GiveUp,
}

/// The wait for the last output.
#[derive(Debug, Default)]
pub(super) struct LastOutput {
    /// The time of the next remedy; `None` while the command runs.
    due: Option<Moment>,
    /// The latest time that output can delay the remedy to.
    due_max: Moment,
    has_hung_up: bool,
}

impl LastOutput {
    pub(super) fn command_ended(&mut self, now: Moment) {
        self.due = Some(now.plus(PAUSE_MS));
        self.due_max = now.plus(PRINTING_MAX_MS);
    }

    /// Notes that there was output.
    pub(super) fn printed(&mut self, now: Moment) {
        self.due = self.due.map(|_| now.plus(PAUSE_MS).min(self.due_max));
    }

    /// Notes that the person's terminal does not take the output at the moment. It is unknown then
    /// whether there is more.
    pub(super) fn blocked(&mut self, now: Moment) {
        self.due = self.due.map(|_| now.plus(PAUSE_MS));
        self.due_max = self.due_max.max(self.due.unwrap_or_default());
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        self.due
    }

    /// Returns the remedy that is due, if any.
    pub(super) fn remedy(&mut self, now: Moment) -> Option<Remedy> {
        self.due.filter(|due| *due <= now)?;
        if mem::replace(&mut self.has_hung_up, true) {
            return Some(Remedy::GiveUp);
        }
        self.command_ended(now);
        Some(Remedy::HangUp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_output_is_given_up_after_the_processes_left_behind_are_hung_up() {
        let mut output = LastOutput::default();
        output.printed(Moment(0));
        assert_eq!(output.deadline(), None, "the command runs");
        output.command_ended(Moment(1000));
        output.printed(Moment(1500));
        assert_eq!((output.deadline(), output.remedy(Moment(3499))), (Some(Moment(3500)), None));
        assert_eq!(output.remedy(Moment(3500)), Some(Remedy::HangUp));
        output.printed(Moment(4000));
        assert_eq!((output.deadline(), output.remedy(Moment(5999))), (Some(Moment(6000)), None));
        assert_eq!(output.remedy(Moment(6000)), Some(Remedy::GiveUp));
    }

    #[test]
    fn output_that_goes_on_is_given_up_after_the_processes_left_behind_are_hung_up() {
        let mut output = LastOutput::default();
        output.command_ended(Moment(0));
        for (until, expected) in [(10_000, Remedy::HangUp), (20_000, Remedy::GiveUp)] {
            for at in (until - PRINTING_MAX_MS..until).step_by(100) {
                assert_eq!(output.remedy(Moment(at)), None, "{at}");
                output.printed(Moment(at));
            }
            assert_eq!(output.remedy(Moment(until)), Some(expected));
        }
    }

    #[test]
    fn output_that_the_terminal_does_not_take_is_waited_for() {
        let mut output = LastOutput::default();
        output.command_ended(Moment(0));
        for at in (0..100_000).step_by(100) {
            output.blocked(Moment(at));
            assert_eq!(output.remedy(Moment(at)), None, "{at}");
        }
    }
}
