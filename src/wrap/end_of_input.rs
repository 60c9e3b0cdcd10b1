//! The end of piped input, which is passed to the command as a key (Ctrl+D on Unix).
//!
//! Every read from a closed pipe reports its end, but a terminal reports the key to one read only.
//! So the key is pressed repeatedly for a while: a partial line consumes one press, and each program
//! of a script needs another.

use protocol::Moment;

/// The time between two presses of the key.
const AGAIN_MS: u64 = 500;

/// The most presses.
const PRESSES_MAX: u32 = 20;

/// The state of the input.
#[derive(Debug)]
pub(super) struct EndOfInput {
    /// Whether the input is a pipe or a file.
    is_passed_on: bool,
    due: Option<Moment>,
    presses: u32,
}

impl EndOfInput {
    pub(super) fn new(is_passed_on: bool) -> Self {
        Self { is_passed_on, due: None, presses: 0 }
    }

    /// Notes that the input has ended.
    pub(super) fn begin(&mut self, now: Moment) {
        self.due = self.is_passed_on.then_some(now);
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        self.due
    }

    /// Whether the key is to be pressed now.
    pub(super) fn take_due(&mut self, now: Moment) -> bool {
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        self.presses += 1;
        self.due = (self.presses < PRESSES_MAX).then(|| now.plus(AGAIN_MS));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_pressed_a_limited_number_of_times() {
        let mut input = EndOfInput::new(true);
        assert!(!input.take_due(Moment(0)));
        input.begin(Moment(7));
        let mut presses = Vec::new();
        while let Some(due) = input.deadline() {
            assert!(!input.take_due(Moment(due.0 - 1)) && input.take_due(due));
            presses.push(due.0);
        }
        assert_eq!((presses.len(), presses[0], presses[1]), (PRESSES_MAX as usize, 7, 507));
    }

    #[test]
    fn end_of_a_terminals_input_is_not_a_key() {
        let mut input = EndOfInput::new(false);
        input.begin(Moment(7));
        assert_eq!(input.deadline(), None);
    }
}
