//! The start of a program with a known input line, and whether the start is complete.

use protocol::Moment;

/// The progress of a program's start.
///
/// A program may show its input line before it asks something, for example whether to trust a
/// folder. So the program counts as started only after the line has stayed empty for a while.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Startup {
    /// The empty input line is not on the screen.
    #[default]
    NotReady,
    /// The empty input line has been on the screen since this time.
    ReadySince(Moment),
    Complete,
}

impl Startup {
    pub(super) fn is_complete(self) -> bool {
        matches!(self, Self::Complete)
    }

    /// Returns when the empty input line will have been shown for long enough.
    pub(super) fn deadline(self, start_ms: u64) -> Option<Moment> {
        let Self::ReadySince(since) = self else { return None };
        Some(since.plus(start_ms))
    }

    /// Notes since when the screen has shown the same rows, if they have an empty input line.
    pub(super) fn observe(&mut self, now: Moment, ready_since: Option<Moment>, start_ms: u64) {
        *self = match (*self, ready_since) {
            (Self::Complete, _) => Self::Complete,
            (_, None) => Self::NotReady,
            (Self::ReadySince(since), _) | (Self::NotReady, Some(since)) => {
                let is_complete = now.since(since) >= start_ms;
                if is_complete { Self::Complete } else { Self::ReadySince(since) }
            }
        };
    }
}
