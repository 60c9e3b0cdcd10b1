//! Reports of a terminal's focus among the bytes that it sends.

use protocol::Moment;
use std::mem;

/// The reports of a terminal that it has got the focus, or lost it.
const FOCUSED: &[u8] = b"\x1b[I";
const UNFOCUSED: &[u8] = b"\x1b[O";

/// The longest time from the first byte of a report to its last. A terminal sends them together,
/// and a connection may cut them.
const REPORT_MS: u64 = 50;

/// The finder of one terminal's reports.
#[derive(Debug, Default)]
pub(super) struct FocusReports {
    /// The beginning of a possible report, and the moment when it becomes a key.
    held: Vec<u8>,
    held_until: Option<Moment>,
}

/// The programs that have asked a terminal to report its focus.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Askers {
    /// The program, which gets the reports, too.
    pub(super) program: bool,
    /// The wrapper. A program that has not asked does not get the beginning of a report, since it
    /// would read that as the Escape key.
    pub(super) wrapper: bool,
}

/// The input from a terminal.
pub(super) struct Sent {
    /// The reports, the oldest first: whether the terminal has the focus.
    pub(super) reports: Vec<bool>,
    /// Whether there are other bytes.
    pub(super) has_keys: bool,
    /// The bytes for the program.
    pub(super) keys: Vec<u8>,
}

impl FocusReports {
    /// Takes reports from a terminal's bytes.
    pub(super) fn read(&mut self, now: Moment, bytes: &[u8], askers: Askers) -> Sent {
        self.held_until = None;
        let bytes = [&mem::take(&mut self.held), bytes].concat();
        let (mut keys, mut reports, mut rest) = (Vec::new(), Vec::new(), &bytes[..]);
        while let Some(at) = rest.windows(FOCUSED.len()).position(is_report) {
            let (before, report) = rest.split_at(at);
            reports.push(report.starts_with(FOCUSED));
            keys.extend_from_slice(before);
            rest = &report[FOCUSED.len()..];
        }
        keys.extend_from_slice(rest);
        if !askers.program && askers.wrapper {
            let begun = [&FOCUSED[..1], &FOCUSED[..2]].into_iter().find(|it| keys.ends_with(it));
            self.held = keys.split_off(keys.len() - begun.map_or(0, <[u8]>::len));
            self.held_until = begun.map(|_| now.plus(REPORT_MS));
        }
        let has_keys = !keys.is_empty();
        Sent { reports, has_keys, keys: if askers.program { bytes } else { keys } }
    }

    /// The moment when [`FocusReports::expired_keys`] is due.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.held_until
    }

    /// Returns the bytes that began like a report but did not complete it.
    pub(super) fn expired_keys(&mut self, now: Moment) -> Option<Vec<u8>> {
        self.held_until.take_if(|until| *until <= now)?;
        Some(mem::take(&mut self.held))
    }
}

fn is_report(bytes: &[u8]) -> bool {
    bytes == FOCUSED || bytes == UNFOCUSED
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Askers = Askers { program: false, wrapper: false };
    const WRAPPER: Askers = Askers { program: false, wrapper: true };
    const BOTH: Askers = Askers { program: true, wrapper: true };

    /// Reads pieces that come at the same time, and returns all reports and keys.
    fn read(pieces: &[&str], askers: Askers) -> (Vec<bool>, String) {
        let mut focus = FocusReports::default();
        let (mut reports, mut keys) = (Vec::new(), Vec::new());
        for piece in pieces {
            let sent = focus.read(Moment(0), piece.as_bytes(), askers);
            reports.extend(sent.reports);
            keys.extend(sent.keys);
        }
        assert_eq!(focus.expired_keys(Moment(REPORT_MS - 1)), None);
        keys.extend(focus.expired_keys(Moment(REPORT_MS)).into_iter().flatten());
        (reports, String::from_utf8(keys).unwrap())
    }

    #[test]
    fn reports_are_taken_wherever_they_are_cut() {
        let reports = (vec![false, true], "ab".to_owned());
        for pieces in [&["a\x1b[Ob\x1b[I"][..], &["a\x1b", "[Ob\x1b[", "I"]] {
            assert_eq!(read(pieces, WRAPPER), reports);
        }
        assert_eq!(read(&["a\x1b[Ob\x1b[I"], NOBODY), reports);
        assert_eq!(read(&["a\x1b[Ob"], BOTH), (vec![false], "a\x1b[Ob".to_owned()));
    }

    #[test]
    fn keys_that_begin_like_a_report_are_keys() {
        for keys in ["\x1b", "\x1b[", "\x1b[A", "x\x1b"] {
            for askers in [NOBODY, WRAPPER, BOTH] {
                assert_eq!(read(&[keys], askers), (vec![], keys.to_owned()));
            }
        }
        let mut focus = FocusReports::default();
        assert!(!focus.read(Moment(0), b"\x1b[I", WRAPPER).has_keys);
        assert!(focus.read(Moment(0), b"x", WRAPPER).has_keys);
    }
}
