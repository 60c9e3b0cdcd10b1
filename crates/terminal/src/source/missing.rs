//! Detection of messages that the screen shows and no transcript contains.

use protocol::Moment;

/// The longest time from a message's appearance on the screen to its record.
const RECORDED_MS: u64 = 15_000;

/// Detects that a message on the screen is not recorded in a transcript.
#[derive(Default)]
pub(super) struct MissingRecord {
    /// The time of the last reply in the child's transcript.
    replied_at: Option<Moment>,
    /// The time since which the screen has shown a message that may be missing.
    shown_since: Option<Moment>,
    /// Whether the agent has been told, which happens only once for a transcript.
    is_reported: bool,
}

impl MissingRecord {
    /// Notes that the screen shows a message.
    pub(super) fn note_shown(&mut self, now: Moment) {
        self.shown_since.get_or_insert(now);
    }

    /// Notes a reply in the child's transcript.
    pub(super) fn note_reply(&mut self, now: Moment) {
        self.replied_at = Some(now);
        self.shown_since = None;
    }

    /// Notes that another transcript is the child's, so that a missing message is reported again.
    pub(super) fn note_own(&mut self) {
        self.is_reported = false;
    }

    /// Returns the time at which a message on the screen counts as missing.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.shown_since.filter(|_| !self.is_reported).map(|since| since.plus(RECORDED_MS))
    }

    /// Whether to report a missing message. Returns `true` once.
    pub(super) fn is_due(&mut self, now: Moment) -> bool {
        let Some(due) = self.deadline().filter(|due| *due <= now) else { return false };
        self.shown_since = None;
        // After a recent reply, the transcript is found and read. It has the message in a code
        // fence, which the screen does not show.
        if self.replied_at.is_some_and(|replied_at| replied_at.plus(2 * RECORDED_MS) > due) {
            return false;
        }
        self.is_reported = true;
        true
    }
}
