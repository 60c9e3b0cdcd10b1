//! The observer of a screen, for events without a trace in the grid.

use super::rows::{Row, VisibleRows};

/// An observer of a screen.
///
/// The screen calls the methods in the order of the events, while it handles each event. So a
/// report does not depend on how the program's bytes were split.
pub trait ScreenObserver {
    /// Announces that `count` rows are about to be reported to [`Self::row_scrolled_off`].
    /// `visible` are the rows that stay.
    fn rows_scrolling_off(&mut self, _visible: VisibleRows<'_>, _count: usize) {}

    /// Reports a row that left the top of the screen for good.
    fn row_scrolled_off(&mut self, _row: &Row) {}

    /// Reports that a synchronized update (DEC 2026) of the alternate screen is complete.
    fn update_completed(&mut self, _visible: VisibleRows<'_>) {}

    /// Reports that the alternate screen is about to be left.
    fn leaving_alternate(&mut self, _visible: VisibleRows<'_>) {}

    /// Reports that rows scrolling off from now on do not continue the earlier rows.
    fn discontinuity(&mut self, _cause: Discontinuity) {}
}

/// An observer that ignores all events.
#[derive(Clone, Copy, Debug)]
pub struct NoObserver;

impl ScreenObserver for NoObserver {}

/// Why the text above and the text below do not belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discontinuity {
    /// The whole screen was erased; the history stays.
    ScreenCleared,
    /// The history was erased.
    HistoryCleared,
    /// The terminal was reset.
    Reset,
    /// The size changes: rows that no longer fit scroll off next.
    Resized,
    /// The alternate screen is shown from here on, empty.
    AlternateShown,
    /// The primary screen is shown again, as it was left.
    PrimaryShown,
    /// A program without synchronized updates repaints the alternate screen from its top, or
    /// scrolls it back.
    AlternateRepainted,
    /// The primary screen's first row was erased. Programs that repaint all rows do this.
    FirstRowErased,
    /// All rows of the primary screen were erased one by one. Programs do this before they show
    /// another part of their text.
    AllRowsErased,
}
