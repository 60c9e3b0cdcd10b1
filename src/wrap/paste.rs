//! Pastes that are open in one of several terminals. The keys of the others wait until the paste
//! ends, since they would become a part of it.

use protocol::Moment;
use terminal::frame::{PASTE_BEGINS, PASTE_ENDS};

const BEGINS: &[u8] = PASTE_BEGINS.as_bytes();
pub(super) const ENDS: &[u8] = PASTE_ENDS.as_bytes();

/// How long a stalled paste blocks the keys of other terminals.
const STALLED_MS: u64 = 1000;

/// The marks of pastes in one terminal's keys.
#[derive(Debug, Default)]
pub(super) struct Paste {
    /// Whether a paste has begun and not ended.
    is_unfinished: bool,
    /// The end of the time that the paste blocks the keys of other terminals.
    holds_until: Option<Moment>,
    /// The last bytes, which may be the beginning of a mark.
    end: Vec<u8>,
}

impl Paste {
    /// Notes keys of the terminal.
    pub(super) fn feed(&mut self, now: Moment, keys: &[u8]) {
        if keys.is_empty() {
            return;
        }
        let mut bytes = std::mem::take(&mut self.end);
        bytes.extend_from_slice(keys);
        let last = |mark: &[u8]| bytes.windows(mark.len()).rposition(|part| part == mark);
        let is_open = match (last(BEGINS), last(ENDS)) {
            (None, None) => self.is_unfinished,
            (begins, ends) => begins > ends,
        };
        self.is_unfinished = is_open;
        self.holds_until = is_open.then(|| now.plus(STALLED_MS));
        self.end = bytes.split_off(bytes.len().saturating_sub(BEGINS.len() - 1));
    }

    /// Whether a paste holds the keys of others.
    pub(super) fn holds_others(&self) -> bool {
        self.holds_until.is_some()
    }

    /// The time when [`Paste::expire`] is due.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.holds_until
    }

    /// Lets other terminals continue if the paste has stalled.
    pub(super) fn expire(&mut self, now: Moment) {
        self.holds_until.take_if(|until| *until <= now);
    }

    /// Whether a paste has begun and not ended, however long ago.
    pub(super) fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paste_is_open_between_its_marks_however_they_are_cut() {
        let keys = b"a\x1b[200~text\x1b[200~more\x1b[201~b";
        for cut in 1..keys.len() {
            let mut paste = Paste::default();
            let mut seen = 0;
            for piece in keys.chunks(cut) {
                paste.feed(Moment(7), piece);
                seen += piece.len();
                let is_within = seen >= 7 && seen < keys.len() - 1;
                assert_eq!(paste.holds_others(), is_within, "{cut} {seen}");
            }
        }
    }

    #[test]
    fn stalled_paste_releases_other_terminals() {
        let mut paste = Paste::default();
        paste.feed(Moment(0), BEGINS);
        paste.expire(Moment(999));
        assert_eq!((paste.holds_others(), paste.deadline()), (true, Some(Moment(1000))));
        paste.expire(Moment(1000));
        assert_eq!((paste.holds_others(), paste.deadline()), (false, None));
        assert!(paste.is_unfinished());
        paste.feed(Moment(2000), b"x");
        assert!(paste.holds_others());
        paste.feed(Moment(2999), ENDS);
        assert!(!paste.is_unfinished() && !paste.holds_others());
    }
}
