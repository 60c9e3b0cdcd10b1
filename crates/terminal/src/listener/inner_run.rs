//! Whether the terminal's output belongs to an inner `run`, which reads that output itself.
//!
//! An inner `run` marks its exact beginning and end in its output. The foreground is known only
//! some time after a change, but it decides if it contradicts the marks for a while: an inner `run`
//! prints no mark if it was killed, or if it did not get this wrapper's environment.

use protocol::Moment;

#[derive(Debug, Default)]
pub(crate) struct InnerRun {
    /// How long marks may contradict the foreground.
    contradiction_ms: u64,
    has_output: bool,
    /// Whether a mark said so, rather than the foreground.
    is_marked: bool,
    has_foreground: bool,
    /// Since when the two differ.
    differs_since: Option<Moment>,
}

impl InnerRun {
    pub(crate) fn new(contradiction_ms: u64) -> Self {
        Self { contradiction_ms, ..Self::default() }
    }

    /// Whether the output belongs to an inner `run`.
    pub(crate) fn has_output(&self) -> bool {
        self.has_output
    }

    /// Returns when the foreground decides: at once, if the foreground began the output.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        let is_guess = self.has_output && !self.is_marked;
        let wait = if is_guess { 0 } else { self.contradiction_ms };
        self.differs_since.map(|since| since.plus(wait))
    }

    /// Notes a mark.
    pub(crate) fn set_output(&mut self, now: Moment, has_output: bool) {
        (self.has_output, self.is_marked) = (has_output, true);
        self.compare(now);
    }

    /// Follows the foreground.
    pub(crate) fn overrule(&mut self, now: Moment) {
        (self.has_output, self.is_marked) = (self.has_foreground, false);
        self.compare(now);
    }

    pub(crate) fn set_foreground(&mut self, now: Moment, has_foreground: bool) {
        self.has_foreground = has_foreground;
        self.compare(now);
    }

    fn compare(&mut self, now: Moment) {
        let differs = self.has_output != self.has_foreground;
        self.differs_since = differs.then(|| self.differs_since.unwrap_or(now));
    }

    /// Whether the output has another owner by now, according to the foreground.
    pub(crate) fn is_overruled(&self, now: Moment) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }
}
