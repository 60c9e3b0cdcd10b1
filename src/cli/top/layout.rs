//! The places of the panes of `top` in a terminal of any size.

use ratatui::layout::Rect;

/// The minimum number of rows of panes for showing both panes.
const PANES_ROWS_MIN: u16 = 6;

/// The rows of the pane of messages, if it is shown with the others.
const MESSAGES_ROWS_MIN: u16 = 3;

/// The minimum number of rows of the pane of agents: a heading, twelve agents, and the line about
/// those that are away.
const AGENTS_ROWS: u16 = 14;

/// The minimum number of columns for showing the screen of the selected agent.
const PREVIEW_COLUMNS_MIN: u16 = 120;

/// The most columns of that screen, with a line before it.
const PREVIEW_COLUMNS_MAX: u16 = 82;

/// The most columns and rows that are drawn on. No real terminal has more, and each cell takes
/// memory.
const SIZE_MAX: (u16, u16) = (600, 250);

/// Limits the size of a terminal to the drawn part.
pub(super) fn limited(columns: u16, rows: u16) -> (u16, u16) {
    (columns.min(SIZE_MAX.0), rows.min(SIZE_MAX.1))
}

/// The areas of the terminal. An area that has no room is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Areas {
    /// The line with the daemon and the counts.
    pub(super) top: Rect,
    /// The agents: a heading and a row for each.
    pub(super) agents: Rect,
    /// The lines about the selected agent.
    pub(super) details: Rect,
    /// The messages: a heading and a row for each.
    pub(super) messages: Rect,
    /// The screen of the selected agent, below a line.
    pub(super) preview: Rect,
    /// The three panes together.
    pub(super) body: Rect,
    /// The line with the keys.
    pub(super) bottom: Rect,
}

impl Areas {
    /// Divides a terminal for this number of agents, and of rows about the selected one.
    /// `messages_first` says which pane is shown if there is only room for one.
    pub(super) fn of(
        columns: u16,
        rows: u16,
        agents: usize,
        details: usize,
        messages_first: bool,
    ) -> Self {
        let top = Rect::new(0, 0, columns, rows.min(1));
        let bottom = Rect::new(0, rows.saturating_sub(1), columns, u16::from(rows > 1));
        let body = Rect::new(0, top.height, columns, rows.saturating_sub(2));
        let preview_columns = match columns {
            PREVIEW_COLUMNS_MIN.. => (columns / 5 * 2).min(PREVIEW_COLUMNS_MAX),
            _ => 0,
        };
        let left = columns - preview_columns;
        let preview = Rect::new(left, body.y, preview_columns, body.height);
        let wanted = |rows: usize| u16::try_from(rows).unwrap_or(u16::MAX);
        let (agents_rows, details_rows) = match body.height {
            0..PANES_ROWS_MIN if messages_first => (0, 0),
            0..PANES_ROWS_MIN => (body.height, 0),
            height => {
                let most = AGENTS_ROWS.max(height / 2);
                let agents = wanted(agents.saturating_add(1)).clamp(2, most);
                // Messages get the rest: at least their heading and two rows.
                let both = height - MESSAGES_ROWS_MIN;
                let details = wanted(details).min(both.saturating_sub(agents).max(height / 4));
                (agents.min(both - details), details)
            }
        };
        let agents = Rect::new(0, body.y, left, agents_rows);
        let details = Rect::new(0, agents.bottom(), left, details_rows);
        let messages_rows = body.height - agents_rows - details.height;
        let messages = Rect::new(0, details.bottom(), left, messages_rows);
        Self { top, agents, details, messages, preview, body, bottom }
    }

    /// The rows of an area below its heading.
    pub(super) fn rows(area: Rect) -> usize {
        usize::from(area.height.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_share_the_terminal() {
        let areas = Areas::of(80, 24, 3, 0, false);
        assert_eq!(areas.agents, Rect::new(0, 1, 80, 4));
        assert_eq!(areas.messages, Rect::new(0, 5, 80, 18));
        assert!(areas.preview.is_empty());
        let many = Areas::of(200, 60, 200, 0, false);
        assert_eq!((many.agents.height, many.messages.height), (29, 29));
        assert_eq!(many.preview, Rect::new(120, 1, 80, 58));
        let twelve = Areas::of(80, 24, 12, 9, false);
        let heights = [twelve.agents.height, twelve.details.height, twelve.messages.height];
        assert_eq!(heights, [13, 6, 3]);
        let small = Areas::of(20, 5, 3, 1, true);
        assert_eq!((small.agents.height, small.messages.height), (0, 3));
    }

    #[test]
    fn areas_are_inside_of_every_terminal() {
        for columns in (0..250).step_by(7) {
            for rows in 0..70 {
                for (details, messages_first) in [(0, true), (1, false), (2, true)] {
                    let whole = Rect::new(0, 0, columns, rows);
                    let areas = Areas::of(columns, rows, 9, details, messages_first);
                    let Areas { top, agents, details, messages, preview, body, bottom } = areas;
                    for area in [top, agents, details, messages, preview, body, bottom] {
                        assert_eq!(area.intersection(whole), area, "{columns}x{rows}");
                    }
                }
            }
        }
    }
}
