//! Which visible rows have stood still, and since when.

use crate::bridge::screen::{Row, Screen, VisibleRows};
use crate::protocol::Moment;

/// How long a row stands unchanged before it counts: with all that is on the way, others hear of it within 300 ms.
pub(super) const STILL_MS: u64 = 250;

/// Rows with other text where that is more than a mark that blinks, or a tool's state.
const PAINTED_OVER_MIN: usize = 2;

/// The visible rows, as they were when last looked at.
#[derive(Debug, Default)]
pub(super) struct Stillness {
    marks: Vec<Mark>,
    /// How many rows left the top since.
    gone: usize,
    /// The rows are being painted again, from the top: how many leave it says nothing.
    repainting: bool,
    scratch: Row,
}

#[derive(Debug, Clone, Default)]
struct Mark {
    row: Row,
    since: Moment,
}

impl Stillness {
    /// A row left the top: those below it moved up, unchanged.
    pub(super) fn scroll(&mut self) {
        if !self.repainting {
            self.gone = self.gone.saturating_add(1);
        }
    }

    /// The rows are painted again: those that look the same afterwards have not changed.
    pub(super) fn repaint(&mut self) {
        self.repainting = true;
    }

    /// Whether other text than before stands in the upper half of the rows, of which so many are just scrolling
    /// off. What is said more goes on below; only who shows another part of the text paints there.
    pub(super) fn is_painted_over(&mut self, view: VisibleRows<'_>, scrolled: usize) -> bool {
        if self.repainting || self.gone > 0 {
            return false;
        }
        let mut other = 0;
        for (mark, index) in self.marks.iter().skip(scrolled).zip(0..view.count() / 2) {
            view.read(index, &mut self.scratch);
            let texts = [&mark.row, &self.scratch].map(|row| row.text.trim());
            other += usize::from(texts[0] != texts[1] && texts.iter().all(|text| !text.is_empty()));
        }
        other >= PAINTED_OVER_MIN
    }

    /// Nothing is known of the rows any more.
    pub(super) fn forget(&mut self) {
        self.marks.clear();
        self.gone = 0;
    }

    /// Looks at the rows; what changed did so by `at`.
    pub(super) fn look(&mut self, screen: &Screen, at: Moment) {
        let view = screen.visible_rows();
        self.repainting = false;
        let gone = std::mem::take(&mut self.gone).min(self.marks.len());
        self.marks.drain(..gone);
        self.marks.resize_with(view.count(), || Mark { row: Row::default(), since: at });
        for (index, mark) in self.marks.iter_mut().enumerate() {
            view.read(index, &mut self.scratch);
            if self.scratch != mark.row {
                std::mem::swap(&mut self.scratch, &mut mark.row);
                mark.since = at;
            }
        }
    }

    /// The rows, from the top.
    pub(super) fn rows(&self) -> impl DoubleEndedIterator<Item = &Row> {
        self.marks.iter().map(|mark| &mark.row)
    }

    /// Since when the row has stood.
    pub(super) fn since(&self, index: usize) -> Option<Moment> {
        self.marks.get(index).map(|mark| mark.since)
    }

    /// Whether the row has stood long enough.
    pub(super) fn stood(&self, index: usize, now: Moment) -> bool {
        self.since(index).is_some_and(|since| since.plus(STILL_MS) <= now)
    }

    /// Whether text stands below the row.
    pub(super) fn text_below(&self, index: usize) -> bool {
        self.rows().skip(index + 1).any(|row| !row.text.trim().is_empty())
    }

    /// Whether the next row has text.
    pub(super) fn text_right_below(&self, index: usize) -> bool {
        self.rows().nth(index + 1).is_some_and(|row| !row.text.trim().is_empty())
    }

    /// When the next row will have stood long enough.
    pub(super) fn next(&self, now: Moment) -> Option<Moment> {
        self.marks.iter().map(|mark| mark.since.plus(STILL_MS)).filter(|&due| due > now).min()
    }
}
