//! Stability of rows: since when each visible row has not changed.

use crate::screen::{Row, Screen, VisibleRows};
use protocol::Moment;

/// How long a row must stay unchanged before it is read. Including all other delays, a recipient
/// gets a message within 300 ms.
pub(super) const STABLE_MS: u64 = 250;

/// The minimum number of changed rows with text that counts as a repaint. Fewer changed rows may be
/// a blinking mark, or a tool's state.
const REPAINTED_MIN: usize = 2;

/// The visible rows as they were at the last sample.
#[derive(Debug, Default)]
pub(super) struct RowStability {
    rows: Vec<SampledRow>,
    /// The number of rows that have left the top since the last sample.
    scrolled_off: usize,
    /// Whether the rows are being repainted from the top. If so, rows that leave the top do not
    /// shift the others.
    is_repainting: bool,
    scratch: Row,
}

#[derive(Debug, Clone, Default)]
struct SampledRow {
    row: Row,
    since: Moment,
}

impl RowStability {
    /// Notes that a row left the top, so that the rows below it moved up unchanged.
    pub(super) fn row_scrolled_off(&mut self) {
        if !self.is_repainting {
            self.scrolled_off = self.scrolled_off.saturating_add(1);
        }
    }

    /// Notes that the rows are being repainted. Rows that look the same afterwards are unchanged.
    pub(super) fn begin_repaint(&mut self) {
        self.is_repainting = true;
    }

    /// Whether the text in the upper half of the rows has changed; `scrolling` rows are about to
    /// scroll off. New text appears further down, so a change in the upper half means that the
    /// program shows another part of its text.
    pub(super) fn is_repainted(&mut self, visible: VisibleRows<'_>, scrolling: usize) -> bool {
        if self.is_repainting || self.scrolled_off > 0 {
            return false;
        }
        let mut changed = 0;
        for (sampled, index) in self.rows.iter().skip(scrolling).zip(0..visible.count() / 2) {
            visible.read(index, &mut self.scratch);
            let texts = [&sampled.row, &self.scratch].map(|row| row.text.trim());
            changed +=
                usize::from(texts[0] != texts[1] && texts.iter().all(|text| !text.is_empty()));
        }
        changed >= REPAINTED_MIN
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.scrolled_off = 0;
    }

    /// Samples the rows. Rows that differ from the last sample count as changed at `at`.
    pub(super) fn sample(&mut self, screen: &Screen, at: Moment) {
        let visible = screen.visible_rows();
        self.is_repainting = false;
        let scrolled_off = std::mem::take(&mut self.scrolled_off).min(self.rows.len());
        self.rows.drain(..scrolled_off);
        self.rows.resize_with(visible.count(), || SampledRow { row: Row::default(), since: at });
        for (index, sampled) in self.rows.iter_mut().enumerate() {
            visible.read(index, &mut self.scratch);
            if self.scratch != sampled.row {
                std::mem::swap(&mut self.scratch, &mut sampled.row);
                sampled.since = at;
            }
        }
    }

    /// Returns the sampled rows, from the top.
    pub(super) fn rows(&self) -> impl DoubleEndedIterator<Item = &Row> {
        self.rows.iter().map(|sampled| &sampled.row)
    }

    /// Returns when the row last changed.
    pub(super) fn unchanged_since(&self, index: usize) -> Option<Moment> {
        self.rows.get(index).map(|sampled| sampled.since)
    }

    /// Whether the row has been unchanged for long enough.
    pub(super) fn is_stable(&self, index: usize, now: Moment) -> bool {
        self.unchanged_since(index).is_some_and(|since| since.plus(STABLE_MS) <= now)
    }

    /// Whether any of this many rows below this one has text.
    pub(super) fn has_text_below(&self, index: usize, rows: usize) -> bool {
        self.rows().skip(index + 1).take(rows).any(|row| !row.text.trim().is_empty())
    }

    /// Returns when the next row becomes stable.
    pub(super) fn next_stable_at(&self, now: Moment) -> Option<Moment> {
        let stable_at = self.rows.iter().map(|sampled| sampled.since.plus(STABLE_MS));
        stable_at.filter(|&at| at > now).min()
    }
}
