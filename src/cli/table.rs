//! Tables that fit the terminal: long cells are cut, and the least important columns are left out.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The blanks between two columns.
const GAP: usize = 2;

/// The width of cut columns in a very narrow terminal.
const LEAST: usize = 3;

/// The sign at the end of a cut cell.
const CUT: char = '…';

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    heading: &'static str,
    /// The minimum width: the column becomes narrower only if the table does not fit otherwise.
    min: usize,
    /// Whether the column is left out if the table is too wide.
    is_optional: bool,
}

impl Column {
    /// A column that is never cut, such as ids.
    pub(super) const fn whole(heading: &'static str) -> Self {
        Self { heading, min: usize::MAX, is_optional: false }
    }

    /// A column that may be cut to this width.
    pub(super) const fn cut(heading: &'static str, min: usize) -> Self {
        Self { heading, min, is_optional: false }
    }

    /// A column that is left out of a narrow terminal. The last ones are left out first.
    pub(super) const fn optional(heading: &'static str) -> Self {
        Self { heading, min: usize::MAX, is_optional: true }
    }
}

/// Aligns the rows below their heading, in at most `width` columns of a terminal if possible.
pub(super) fn lines(columns: &[Column], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let natural = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
        cells.chain([columns[column].heading.width()]).max().unwrap_or(0)
    };
    let mut shown: Vec<_> = (0..columns.len()).map(|column| (column, natural(column))).collect();
    let total = |shown: &[(usize, usize)]| {
        let widths: usize = shown.iter().map(|(_, width)| width).sum();
        widths + GAP * shown.len().saturating_sub(1)
    };
    while total(&shown) > width {
        let Some(last) = shown.iter().rposition(|(column, _)| columns[*column].is_optional) else {
            break;
        };
        shown.remove(last);
    }
    for least in [usize::MAX, LEAST] {
        while total(&shown) > width {
            let can_shrink = |(column, width): &&mut (usize, usize)| {
                let Column { min, .. } = columns[*column];
                min < usize::MAX && *width > min.min(least)
            };
            let widest = shown.iter_mut().filter(can_shrink).max_by_key(|(_, width)| *width);
            let Some((_, widest)) = widest else { break };
            *widest -= 1;
        }
    }
    let heading = columns.iter().map(|column| column.heading.to_owned()).collect();
    let all = std::iter::once(&heading).chain(rows);
    all.map(|row: &Vec<String>| line(row, &shown)).collect()
}

/// A row with the shown columns, which have these widths.
fn line(row: &[String], shown: &[(usize, usize)]) -> String {
    let mut line = String::new();
    for &(column, width) in shown {
        let cell = cut(row.get(column).map(String::as_str).unwrap_or_default(), width);
        line.push_str(&cell);
        let blanks = (width + GAP).saturating_sub(cell.width());
        line.extend(std::iter::repeat_n(' ', blanks));
    }
    line.trim_end().to_owned()
}

/// Cuts a text to a width.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut cut, mut used) = (String::new(), 1);
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > width {
            break;
        }
        cut.push(character);
    }
    cut.push(CUT);
    cut
}

/// Breaks a text into lines of at most `width` columns, between words if possible. All lines but
/// the first begin with `indent` blanks.
pub(super) fn broken(text: &str, width: usize, indent: usize) -> String {
    let indent = indent.min(width / 2);
    let (mut broken, mut used) = (String::new(), 0);
    let next_line = |broken: &mut String| {
        broken.truncate(broken.trim_end_matches(' ').len());
        broken.push('\n');
        broken.extend(std::iter::repeat_n(' ', indent));
        indent
    };
    for word in text.split_inclusive(' ') {
        let is_first = used == 0 || used == indent;
        if used + word.trim_end().width() > width && !is_first {
            used = next_line(&mut broken);
        }
        for character in word.chars() {
            let wide = character.width().unwrap_or(0);
            if used + wide > width && character != ' ' {
                used = next_line(&mut broken);
            }
            broken.push(character);
            used += wide;
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::whole("ID"),
        Column::cut("FROM", 6),
        Column::optional("TOPICS"),
        Column::cut("TEXT", 5),
    ];

    fn table(width: usize, rows: &[[&str; 4]]) -> Vec<String> {
        let rows: Vec<_> =
            rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect();
        lines(&COLUMNS, &rows, width)
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["1a2b3c4d", "Annabel", "2", "hello"], ["5e6f7a8b", "Bob", "", "中文"]];
        assert_eq!(
            table(80, &rows),
            [
                "ID        FROM     TOPICS  TEXT",
                "1a2b3c4d  Annabel  2       hello",
                "5e6f7a8b  Bob              中文",
            ]
        );
    }

    #[test]
    fn narrow_table_leaves_columns_out_and_cuts_cells() {
        let rows = [["1a2b3c4d", "Annabel-the-second", "2", "hello, how far are you?"]];
        assert_eq!(table(42, &rows)[1], "1a2b3c4d  Annabel-the-se…  hello, how far…");
        // Nothing can be cut further: the table is wider than the terminal.
        assert_eq!(table(5, &rows)[1], "1a2b3c4d  An…  he…");
        assert_eq!(table(30, &rows)[1], "1a2b3c4d  Annabel-…  hello, h…");
    }

    #[test]
    fn cells_are_cut_at_the_width_of_the_terminal() {
        assert_eq!(cut("hello", 5), "hello");
        assert_eq!(cut("hello!", 5), "hell…");
        assert_eq!(cut("中文字", 5), "中文…");
        assert_eq!(cut("中文字", 4), "中…");
    }

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(broken("one two three", 7, 2), "one two\n  three");
        assert_eq!(broken("one 3f2504e0-4f89", 8, 2), "one\n  3f2504\n  e0-4f8\n  9");
        assert_eq!(broken("", 8, 2), "");
        for width in 4..20 {
            let all = broken("a text of some, or many, words 中文字中文字", width, 4);
            assert!(all.lines().all(|line| line.width() <= width), "{width}: {all}");
        }
    }
}
