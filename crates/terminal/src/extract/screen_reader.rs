//! The reader of a screen's rows: it finds messages in them, and distinguishes new messages from
//! repaints.
//!
//! Rows that have scrolled off are final and are read once, in order. At each sample, a clone of
//! the scanner reads the visible rows, and a message in them is extracted once its rows are stable.

use super::{
    extracted::Extracted,
    finding::{Finding, IfExtended},
    overwritten::OverwrittenMessages,
    row_scanner::RowScanner,
    rules::Rules,
    scrolled_text::ScrolledText,
    seen::{Fingerprint, RepaintTracker, SeenLog, Verdict, hash},
    stability::RowStability,
};
use crate::{
    bounded,
    screen::{Discontinuity, Row, Screen, ScreenObserver, VisibleRows},
};
use protocol::Moment;
use std::collections::VecDeque;

/// How many messages that scrolled off an alternate screen still count as a part of its snapshot.
const SNAPSHOT_MESSAGES_MAX: usize = 256;

/// How many messages on the primary screen, or overwritten there, are recognised.
const SHOWN_MAX: usize = 256;

/// A reader, with its state after the rows read so far.
#[derive(Default)]
pub(super) struct ScreenReader {
    pub(super) rules: Rules,
    /// Whether there is a clock, so that rows are read once they are stable.
    pub(super) is_live: bool,
    /// Whether the input has ended, so that the last rows of an alternate screen are also final.
    pub(super) is_finishing: bool,
    /// The scanner of the screen that is shown.
    scanner: RowScanner,
    /// The scanner of the primary screen, while the alternate one is shown.
    primary: Option<RowScanner>,
    /// The text in the alternate screen's snapshots, if the program uses synchronized updates.
    scrolled: Option<ScrolledText>,
    pub(super) stability: RowStability,
    seen: SeenLog,
    overwritten: OverwrittenMessages,
    repaint: RepaintTracker,
    /// Messages that were extracted from rows of the primary screen before the rows scrolled off,
    /// in order.
    shown: Vec<Fingerprint>,
    /// Messages that scrolled off the alternate screen since its last repaint.
    snapshot: VecDeque<Fingerprint>,
    turn_ended: Moment,
    pub(super) extracted: Vec<Extracted>,
    /// Whether a message was open when the rows were last read.
    pub(super) is_in_message: bool,
}

/// A finding that may be a repaint of an earlier one.
struct Candidate {
    fingerprint: Fingerprint,
    extracted: Extracted,
}

/// How visible rows are read.
#[derive(Clone, Copy)]
struct ReadMode {
    now: Moment,
    /// The cursor's row, which is not stable within a turn.
    cursor: usize,
    /// Whether the turn is over, so that all rows are final.
    ends_turn: bool,
}

impl ScreenObserver for ScreenReader {
    fn rows_scrolling_off(&mut self, visible: VisibleRows<'_>, count: usize) {
        let has_history = self.primary.is_none() && self.scanner.next_row > 0;
        if has_history && self.stability.is_repainted(visible, count) {
            // All rows count as erased before the program painted other rows over them.
            self.discontinuity(Discontinuity::AllRowsErased);
        }
    }

    fn row_scrolled_off(&mut self, row: &Row) {
        if let Some(scrolled) = &mut self.scrolled {
            if !scrolled.row_scrolled_off(row) {
                self.begin_snapshot();
            }
            return;
        }
        self.stability.row_scrolled_off();
        self.read_final(row);
    }

    fn update_completed(&mut self, visible: VisibleRows<'_>) {
        if self.primary.is_some() {
            self.add_snapshot(visible);
        }
    }

    fn leaving_alternate(&mut self, visible: VisibleRows<'_>) {
        // With a clock, stable rows were read already, and the other rows were not final.
        if self.is_live && !self.is_finishing {
            return;
        }
        if self.scrolled.is_some() {
            self.add_snapshot(visible);
        }
        let (mut scanner, mut findings) = (self.scanner.clone(), Vec::new());
        let scrolled = self.scrolled.as_ref().map(|scrolled| scrolled.rows().0.to_vec());
        let rows = scrolled.unwrap_or_else(|| visible.to_vec());
        rows.iter().for_each(|row| scanner.read(row, &self.rules, &mut findings));
        scanner.end_turn(&self.rules, &mut findings);
        let candidates = self.candidates(findings);
        self.judge_snapshot(candidates);
    }

    fn discontinuity(&mut self, cause: Discontinuity) {
        let (is_alternate, is_resized) = (self.primary.is_some(), self.repaint.after_resize());
        match cause {
            // Without a preceding resize, erasing the first row does not announce a repaint.
            Discontinuity::FirstRowErased if !is_resized => return,
            Discontinuity::Resized
            | Discontinuity::AlternateShown
            | Discontinuity::PrimaryShown => self.stability.clear(),
            _ => self.stability.begin_repaint(),
        }
        match cause {
            Discontinuity::AlternateRepainted => return self.begin_snapshot(),
            Discontinuity::ScreenCleared | Discontinuity::HistoryCleared if is_alternate => {
                return self.begin_snapshot();
            }
            // Up to here, the program may have painted for the old size.
            Discontinuity::ScreenCleared | Discontinuity::FirstRowErased if is_resized => {
                self.drop_open();
            }
            // The rows below may not belong to an open message, so the message is dropped.
            Discontinuity::AllRowsErased => self.drop_open(),
            Discontinuity::ScreenCleared | Discontinuity::FirstRowErased => {
                return self.scanner.rows_disturbed();
            }
            Discontinuity::HistoryCleared | Discontinuity::Reset => {
                let open = self.scanner.reset();
                open.into_iter().for_each(|finding| self.overwritten.add(finding));
            }
            Discontinuity::Resized => {
                if is_alternate {
                    self.begin_snapshot();
                }
            }
            Discontinuity::AlternateShown => {
                self.primary = Some(std::mem::take(&mut self.scanner));
                self.snapshot.clear();
            }
            Discontinuity::PrimaryShown => {
                self.scrolled = None;
                self.scanner = self.primary.take().unwrap_or_default();
                self.scanner.rows_disturbed();
            }
        }
        self.begin_repaint(cause == Discontinuity::Resized);
    }
}

impl ScreenReader {
    /// Returns a reader with these rules. `is_live` says that there is a clock.
    pub(super) fn new(rules: Rules, is_live: bool) -> Self {
        Self { rules, is_live, ..Self::default() }
    }

    /// Drops an open message: the rows below may not belong to it. The program may repaint it.
    fn drop_open(&mut self) {
        let open = self.scanner.drop_open();
        open.into_iter().for_each(|finding| self.overwritten.add(finding));
    }

    /// Notes that the program may repaint all messages from here on.
    fn begin_repaint(&mut self, is_resize: bool) {
        self.shown.clear();
        self.repaint = self.repaint.begin_again(&self.seen, is_resize);
    }

    /// Notes that the terminal has another size, and that rows without room have scrolled off. They
    /// were read as rows of the old size, and the program may repaint them all.
    pub(super) fn resized(&mut self, columns: usize) {
        self.rules.columns = Some(columns);
        self.drop_open();
        self.begin_repaint(true);
    }

    /// Begins a snapshot of the alternate screen that does not continue the previous one.
    fn begin_snapshot(&mut self) {
        if self.scanner.next_row > 0 {
            self.scanner = RowScanner::default();
        }
        self.snapshot.clear();
        self.scrolled = None;
    }

    /// Samples the visible rows. Rows that differ from the last sample changed at `changed` or
    /// before.
    pub(super) fn sample(&mut self, screen: &Screen, changed: Moment) {
        if self.scrolled.is_some() && !screen.synchronizing() {
            self.add_snapshot(screen.visible_rows());
        }
        self.rows_scrolling_off(screen.visible_rows(), 0);
        self.stability.sample(screen, changed);
    }

    /// Adds a snapshot of the alternate screen after an update.
    fn add_snapshot(&mut self, visible: VisibleRows<'_>) {
        let snapshot = visible.to_vec();
        let Some(mut scrolled) = self.scrolled.take() else {
            self.scrolled = Some(ScrolledText::new(snapshot));
            return;
        };
        match scrolled.add(snapshot) {
            Some(rows @ 0..) => {
                (0..rows).for_each(|_| self.stability.row_scrolled_off());
            }
            Some(_) => self.stability.clear(),
            None => {
                self.begin_snapshot();
                self.stability.begin_repaint();
            }
        }
        for row in scrolled.take_final() {
            self.read_final(&row);
        }
        self.scrolled = Some(scrolled);
    }

    /// Reads a final row.
    fn read_final(&mut self, row: &Row) {
        let mut findings = Vec::new();
        self.scanner.read(row, &self.rules, &mut findings);
        self.candidates(findings).into_iter().for_each(|candidate| self.judge_final(candidate));
    }

    /// Returns the findings that count now, without overwritten messages.
    fn candidates(&mut self, findings: Vec<Finding>) -> Vec<Candidate> {
        let findings = findings.into_iter().filter_map(|finding| self.overwritten.filter(finding));
        let candidate = |Finding { extracted, .. }| {
            let fingerprint = Fingerprint::of(&extracted);
            Candidate { fingerprint, extracted }
        };
        findings.map(candidate).collect()
    }

    /// Returns the rows that are not final, and how many of them are above the screen.
    fn pending_rows(&self) -> (Vec<&Row>, usize) {
        match &self.scrolled {
            Some(scrolled) => {
                let (rows, above) = scrolled.rows();
                (rows.iter().collect(), above)
            }
            None => (self.stability.rows().collect(), 0),
        }
    }

    /// Extracts a finding in final rows, unless it was extracted while its rows were visible.
    fn judge_final(&mut self, candidate: Candidate) {
        let fingerprint = candidate.fingerprint;
        if self.primary.is_some() {
            self.judge_snapshot(vec![candidate]);
            return bounded::push(&mut self.snapshot, SNAPSHOT_MESSAGES_MAX, fingerprint);
        }
        let Verdict::New(before) = self.repaint.judge(fingerprint, &self.seen) else { return };
        if let Some(at) = self.shown.iter().position(|&shown| shown == fingerprint) {
            self.shown.drain(..=at);
            return;
        }
        before.into_iter().for_each(|number| self.repaint.renumber(number));
        self.extract(before, candidate);
    }

    /// Extracts a message. It comes before the message with this ordinal, or after all others.
    fn extract(&mut self, before: Option<usize>, candidate: Candidate) {
        self.seen.insert(before, candidate.fingerprint);
        self.extracted.push(candidate.extracted);
    }

    /// Reads the visible rows, and extracts new messages from the stable ones.
    pub(super) fn read_visible(&mut self, now: Moment, cursor: usize) {
        self.read_pending(ReadMode { now, cursor, ends_turn: false });
    }

    /// Reads the visible rows at the end of a turn; all of them are final.
    pub(super) fn end_turn(&mut self, now: Moment, cursor: usize) {
        self.read_pending(ReadMode { now, cursor, ends_turn: true });
        self.extracted.extend(self.overwritten.end_turn());
        self.turn_ended = now;
    }

    fn read_pending(&mut self, mode: ReadMode) {
        let (mut scanner, mut findings) = (self.scanner.clone(), Vec::new());
        let (rows, above) = self.pending_rows();
        rows.iter().for_each(|row| scanner.read(row, &self.rules, &mut findings));
        let opened = scanner.lines.open_since();
        self.is_in_message = scanner.lines.is_in_message() && !mode.ends_turn;
        if mode.ends_turn {
            scanner.end_turn(&self.rules, &mut findings);
        }
        let top = self.scanner.next_row + above as u64;
        // Messages are judged in order, so judging stops before the first one that may still
        // change.
        let end = findings
            .iter()
            .position(|finding| finding.is_message() && !self.is_final(finding, top, mode));
        findings.truncate(end.unwrap_or(findings.len()));
        findings.retain(|finding| finding.is_message() || self.is_final(finding, top, mode));
        let candidates = self.candidates(findings);
        match self.primary {
            Some(_) => self.judge_snapshot(candidates),
            None => self.judge_visible(candidates, mode),
        }
        if let Some(opened) = opened.filter(|_| mode.ends_turn) {
            let (mut rows, _) = self.pending_rows();
            while rows.last().is_some_and(|row| row.text.is_empty()) {
                rows.pop();
            }
            let rows = rows.into_iter().map(hash).collect();
            self.scanner.mark_turn_end(opened, rows);
        }
    }

    /// Whether all rows of a finding are stable, and more text cannot change the finding. `top` is
    /// the number of the first visible row.
    fn is_final(&self, finding: &Finding, top: u64, mode: ReadMode) -> bool {
        if mode.ends_turn {
            return true;
        }
        let index = |row: u64| usize::try_from(row.saturating_sub(top)).unwrap_or(usize::MAX);
        let is_of_ended_turn = |row: u64| {
            self.stability.unchanged_since(index(row)).is_some_and(|since| since < self.turn_ended)
        };
        let is_stable = (finding.first_row.max(top)..=finding.last_row).all(|row| {
            self.stability.is_stable(index(row), mode.now)
                && (index(row) != mode.cursor || is_of_ended_turn(row))
        });
        let rows_below = match finding.if_extended {
            IfExtended::Unchanged => return is_stable,
            IfExtended::Reopened => usize::MAX,
            IfExtended::Completed => 1,
        };
        let last = index(finding.last_row);
        is_stable
            && (is_of_ended_turn(finding.last_row)
                || self.stability.has_text_below(last, rows_below))
    }

    /// Extracts new messages from the visible rows of the primary screen.
    fn judge_visible(&mut self, candidates: Vec<Candidate>, mode: ReadMode) {
        let (mut repaint, mut at, mut present) = (self.repaint.clone(), 0, Vec::new());
        for candidate in candidates {
            let fingerprint = candidate.fingerprint;
            present.push(fingerprint);
            let Verdict::New(before) = repaint.judge(fingerprint, &self.seen) else { continue };
            let known = self.shown[at..].iter().position(|&known| known == fingerprint);
            if let Some(found) = known {
                at += found + 1;
                continue;
            }
            if let Some(number) = before {
                repaint.renumber(number);
                self.repaint.renumber(number + 1);
            } else {
                self.shown.insert(at, fingerprint);
                at += 1;
            }
            self.extract(before, candidate);
        }
        if mode.ends_turn {
            // A repaint ends with its turn: the same message in the next turn is a new one.
            self.repaint = RepaintTracker::default();
            self.shown = present;
        }
        // The last messages of the list were erased longest ago.
        self.shown.truncate(SHOWN_MAX);
    }

    /// Extracts new messages of a snapshot. The snapshot begins with the messages that scrolled off
    /// it.
    fn judge_snapshot(&mut self, mut candidates: Vec<Candidate>) {
        let visible = candidates.iter().map(|candidate| candidate.fingerprint);
        let snapshot: Vec<Fingerprint> = self.snapshot.iter().copied().chain(visible).collect();
        // Messages before the first known message are new: they could not be read before.
        if let Some((first, number)) = RepaintTracker::first_seen(&snapshot, &self.seen) {
            let before = first.saturating_sub(self.snapshot.len());
            for (candidate, number) in candidates.drain(..before).zip(number..) {
                self.extract(Some(number), candidate);
            }
        }
        let mut repaint = RepaintTracker::begin(&self.seen);
        for &message in snapshot.iter().take(snapshot.len() - candidates.len()) {
            repaint.judge(message, &self.seen);
        }
        for candidate in candidates {
            if let Verdict::New(before) = repaint.judge(candidate.fingerprint, &self.seen) {
                before.into_iter().for_each(|number| repaint.renumber(number));
                self.extract(before, candidate);
            }
        }
    }
}
