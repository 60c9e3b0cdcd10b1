//! The router's lifecycle: its start, and the progress of its stop.

use protocol::Moment;

/// How long after a start a name is reserved for a client that can resume its session.
const RETURN_MS: u64 = 3_000;

/// The progress of the router's stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stopping {
    #[default]
    No,
    Begun,
    Done,
}

/// Start and stop of the router.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lifecycle {
    started: Option<Moment>,
    /// The end of the time in which names are kept for who can resume their sessions, if there was
    /// a daemon before.
    returns_until: Option<Moment>,
    stopping: Stopping,
    reason: Option<&'static str>,
}

impl Lifecycle {
    /// Notes the time of an input: the first one is the start.
    pub(super) fn note_input(&mut self, now: Moment) {
        self.started.get_or_insert(now);
    }

    /// Begins the time in which names are kept for who can resume their sessions. Returns its end.
    pub(super) fn await_returns(&mut self, now: Moment) -> Moment {
        *self.returns_until.insert(now.plus(RETURN_MS))
    }

    pub(super) const fn returns_until(self) -> Option<Moment> {
        self.returns_until
    }

    /// Whether names are kept for who can resume their sessions.
    pub(super) fn is_awaiting_returns(self, now: Moment) -> bool {
        self.returns_until.is_some_and(|until| now < until)
    }

    /// Returns the milliseconds since the start.
    pub(super) fn uptime_ms(self, now: Moment) -> u64 {
        now.since(self.started.unwrap_or_default())
    }

    /// Begins the stop, for this reason. Returns false if the stop had begun before.
    pub(super) fn begin_stop(&mut self, reason: &'static str) -> bool {
        if self.is_stopping() {
            return false;
        }
        (self.stopping, self.reason) = (Stopping::Begun, Some(reason));
        true
    }

    pub(super) const fn note_stopped(&mut self) {
        self.stopping = Stopping::Done;
    }

    /// Whether the stop has begun.
    pub(super) fn is_stopping(self) -> bool {
        self.stopping != Stopping::No
    }

    pub(super) fn is_stopped(self) -> bool {
        self.stopping == Stopping::Done
    }

    pub(super) const fn stop_reason(self) -> Option<&'static str> {
        self.reason
    }
}
