//! The question of an agent, fitted into the pane that shows it.

use super::layout::Areas;
use crate::cli::table::{self, cut};
use protocol::{control::Dialog, text::escaped};
use ratatui::layout::Rect;

/// The rows of a question.
pub(super) struct Question {
    pub(super) text: Vec<String>,
    pub(super) choices: Vec<String>,
    /// Whether there are rows for the whole text and for all choices.
    pub(super) is_whole: bool,
}

impl Question {
    /// Fits a dialog's text and its choices into the rows below the first one of an area. Parts of
    /// both are shown, however few rows there are.
    pub(super) fn fitted(dialog: &Dialog, area: Rect) -> Self {
        let room = Areas::rows(area);
        let choices = dialog.choices.iter().enumerate();
        let choices = choices.map(|(at, choice)| format!("{} {}", at + 1, escaped(choice)));
        let text: Vec<_> = dialog.text.lines().map(escaped).collect();
        let text_rows = room.saturating_sub(dialog.choices.len()).max(room.min(1));
        let width = usize::from(area.width.saturating_sub(2)).max(1);
        let (text, has_text) = fitted(text, " · ", width, text_rows);
        let (choices, has_choices) = fitted(choices.collect(), "  ", width, room - text.len());
        Self { text, choices, is_whole: has_text && has_choices }
    }
}

/// Fits lines into rows: each on its own row if there are enough, or else together, cut at the end.
/// Also returns whether nothing was cut.
fn fitted(lines: Vec<String>, separator: &str, width: usize, rows: usize) -> (Vec<String>, bool) {
    if lines.len() <= rows {
        return (lines, true);
    }
    let together = lines.join(separator);
    let broken = table::broken(&together, width, 0);
    let is_whole = broken.lines().count() <= rows;
    let mut fitted: Vec<_> = broken.lines().take(rows).map(str::to_owned).collect();
    if let Some(last) = fitted.last_mut().filter(|_| !is_whole) {
        *last = cut(&format!("{last}{}", " ".repeat(width)), width);
    }
    (fitted, is_whole)
}
