//! Rows of a terminal's grid as text.

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::Term;
use alacritty_terminal::term::cell::{Cell, Flags};

/// The distance between two tab stops, in columns.
const TAB_COLUMNS: usize = 8;

/// A row of a grid.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Row {
    /// The text, without trailing blanks unless the row wraps. Invisible text is blank.
    pub text: String,
    /// The number of columns that the text fills.
    pub width: usize,
    /// Whether the terminal wrapped the line here, so that it continues in the next row.
    pub wraps: bool,
}

/// The visible rows of a screen.
#[derive(Clone, Copy)]
pub struct VisibleRows<'a>(pub(super) &'a Term<VoidListener>);

impl VisibleRows<'_> {
    /// Copies all visible rows.
    pub fn to_vec(&self) -> Vec<Row> {
        (0..self.count()).map(|index| self.row(index)).collect()
    }

    pub(super) fn row(&self, index: usize) -> Row {
        let mut row = Row::default();
        self.read(index, &mut row);
        row
    }

    /// The number of visible rows.
    pub fn count(&self) -> usize {
        self.0.screen_lines()
    }

    /// Reads a visible row into `row`.
    pub fn read(&self, index: usize, row: &mut Row) {
        read_row(self.0.grid(), Line(index as i32), row);
    }
}

/// Reads a row of a grid into `row`. `line` may be in the grid's history.
pub(super) fn read_row(grid: &Grid<Cell>, line: Line, row: &mut Row) {
    let cells = &grid[line][..Column(grid.columns())];
    row.text.clear();
    row.wraps = cells.last().is_some_and(|cell| cell.flags.contains(Flags::WRAPLINE));
    let is_blank = |cell: &Cell| {
        (matches!(cell.c, ' ' | '\t' | '\0') && cell.zerowidth().is_none()) || is_hidden(cell)
    };
    let end = match row.wraps {
        true => cells.len(),
        false => cells.iter().rposition(|cell| !is_blank(cell)).map_or(0, |last| last + 1),
    };
    let cells = &cells[..end];
    let ends_wide = cells.last().is_some_and(|cell| cell.flags.contains(Flags::WIDE_CHAR));
    row.width = end + usize::from(ends_wide);
    let mut column = 0;
    while let Some(cell) = cells.get(column) {
        column += 1;
        if cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
            continue;
        }
        if is_hidden(cell) {
            row.text.push(' ');
            continue;
        }
        row.text.push(if cell.c == '\0' { ' ' } else { cell.c });
        if cell.c == '\t' {
            // The grid has a tab in its first column, and blanks up to the next tab stop.
            while column % TAB_COLUMNS != 0 && cells.get(column).is_some_and(|cell| cell.c == ' ') {
                column += 1;
            }
        }
        if let Some(marks) = cell.zerowidth() {
            row.text.extend(marks);
        }
    }
}

/// Whether a cell's text is invisible: concealed, or in the colour of its background.
fn is_hidden(cell: &Cell) -> bool {
    cell.flags.contains(Flags::HIDDEN) || cell.fg == cell.bg
}
