//! The scrolling text of an alternate screen, recovered from successive snapshots.
//!
//! A text that is longer than the screen moves up from snapshot to snapshot, and its upper part is
//! shown nowhere else. Only programs with synchronized updates are read like this; without such
//! updates, half a repaint would be taken for text.

use crate::screen::Row;
use std::cmp::Reverse;

/// The minimum number of rows with text that two snapshots of the same text share.
const SHARED_MIN: usize = 2;

/// How many shared rows with text prove that two snapshots show the same text.
const SHARED_SURE: usize = 6;

/// A snapshot's edges are its height divided by this. At the top edge, a headline or the current
/// prompt may hide the text; at the bottom edge, a composer may.
const EDGE_DIVISOR: usize = 4;

/// How many screens of text are kept above the snapshot, since the program may scroll back.
const SCREENS_KEPT: usize = 2;

/// How many rows a terminal may scroll off within one update.
const SCROLLED_ROWS_MAX: usize = 1024;

/// The part of a program's text that is not final.
#[derive(Debug, Default)]
pub(super) struct ScrolledText {
    /// The rows of text above the last snapshot, followed by the snapshot's rows.
    rows: Vec<Row>,
    /// The index of the snapshot's first row.
    top: usize,
    /// The snapshot as it was painted.
    snapshot: Vec<Row>,
    /// The rows that the terminal has scrolled off since the last snapshot.
    scrolled_off: Vec<Row>,
}

/// Rows that a snapshot and the text have in common.
#[derive(Clone, Copy, Default)]
struct Overlap {
    /// The index of the first common row in the text.
    text: usize,
    /// The index of the first common row in the snapshot.
    snapshot: usize,
    /// The number of common rows with text.
    rows: usize,
}

impl ScrolledText {
    /// Returns the text of a first snapshot.
    pub(super) fn new(snapshot: Vec<Row>) -> Self {
        Self { rows: snapshot.clone(), snapshot, ..Self::default() }
    }

    /// Returns the rows that are not final, and how many of them are above the screen.
    pub(super) fn rows(&self) -> (&[Row], usize) {
        (&self.rows, self.top)
    }

    /// Adds a row that the terminal scrolled off. Returns `false` if there are too many such rows.
    pub(super) fn row_scrolled_off(&mut self, row: &Row) -> bool {
        let fits = self.scrolled_off.len() < SCROLLED_ROWS_MAX;
        if fits {
            self.scrolled_off.push(row.clone());
        }
        fits
    }

    /// Adds the next snapshot. Returns how many rows further down in the text it begins, or further
    /// up if negative; `None` if it shows another text.
    pub(super) fn add(&mut self, snapshot: Vec<Row>) -> Option<isize> {
        let scrolled_off = std::mem::take(&mut self.scrolled_off);
        let above = scrolled_off.len();
        if above == 0 && snapshot == self.snapshot {
            return Some(0);
        }
        let shown = [scrolled_off, snapshot.clone()].concat();
        let overlap = self.overlap(&shown);
        let top = overlap.text.checked_sub(overlap.snapshot).filter(|_| overlap.rows > 0);
        let Some(top) = top else {
            self.snapshot = snapshot;
            self.rows = shown;
            self.top = above;
            return None;
        };
        if top == self.top {
            // The text has not scrolled, so changed rows above the overlap are new text in the same
            // position.
            for at in (0..overlap.snapshot).filter(|&at| self.snapshot.get(at) != shown.get(at)) {
                self.rows[top + at] = shown[at].clone();
            }
        }
        self.rows.truncate(overlap.text);
        self.rows.extend_from_slice(&shown[overlap.snapshot..]);
        let before = std::mem::replace(&mut self.top, top + above);
        self.snapshot = snapshot;
        Some(self.top as isize - before as isize)
    }

    /// Takes the rows that are so far above the screen that they are final.
    pub(super) fn take_final(&mut self) -> Vec<Row> {
        let count = self.top.saturating_sub(SCREENS_KEPT * self.snapshot.len());
        self.top -= count;
        self.rows.drain(..count).collect()
    }

    /// Returns the longest overlap with the shown rows, if it proves that they show the same text.
    fn overlap(&self, shown: &[Row]) -> Overlap {
        let edge = self.snapshot.len() / EDGE_DIVISOR;
        let overlaps = (0..self.rows.len()).map(|top| {
            let (at, rows) = longest_common_run(&self.rows[top..], shown, edge);
            Overlap { text: top + at, snapshot: at, rows }
        });
        let rank = |overlap: &Overlap| (overlap.rows, Reverse(self.scroll(overlap)));
        // Among equal overlaps, the uppermost counts.
        let best = overlaps.rev().filter(|overlap| overlap.rows > 0).max_by_key(rank);
        let best = best.unwrap_or_default();
        let shared_min = SHARED_MIN.min(shown.iter().filter(|row| has_text(row)).count());
        let is_sure = best.rows >= shared_min && self.is_likely(&best, shown, edge);
        if is_sure { best } else { Overlap::default() }
    }

    /// Returns how many rows the text would have scrolled for this overlap.
    fn scroll(&self, overlap: &Overlap) -> usize {
        (overlap.text - overlap.snapshot).abs_diff(self.top)
    }

    /// Whether the rows after the overlap's beginning also agree. Two different texts may begin
    /// with equal rows.
    fn is_likely(&self, overlap: &Overlap, shown: &[Row], edge: usize) -> bool {
        let pairs = || std::iter::zip(&self.rows[overlap.text..], &shown[overlap.snapshot..]);
        let same = pairs().filter(|(known, row)| has_text(known) && known == row).count();
        let other = pairs().filter(|(known, row)| has_text(known) && known != row).count();
        self.scroll(overlap) == 0 || overlap.rows >= SHARED_SURE || other <= edge || same >= other
    }
}

/// Finds the longest run of equal rows in two texts that begins at most `edge` rows down. Returns
/// where it begins, and its number of rows with text. Compares from the end on, so that each row is
/// read once.
fn longest_common_run(text: &[Row], shown: &[Row], edge: usize) -> (usize, usize) {
    let (mut rows, mut best) = (0, (0, 0));
    for (at, (known, row)) in std::iter::zip(text, shown).enumerate().rev() {
        rows = if known == row { rows + usize::from(has_text(row)) } else { 0 };
        if at <= edge && rows >= best.1 {
            best = (at, rows);
        }
    }
    best
}

fn has_text(row: &Row) -> bool {
    !row.text.trim().is_empty()
}
