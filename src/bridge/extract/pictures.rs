//! Pictures of an alternate screen into one text.
//!
//! What is longer than such a screen moves up in it from picture to picture, and nothing but that says
//! what stood above. Only programs that say when a picture is whole are read so; half of a picture would
//! be taken for text.

use crate::bridge::screen::Row;

/// Rows with text that two pictures share in one place, at least, where they show the same text; and so many
/// that nothing else has to say so.
const SHARED_MIN: usize = 2;
const SHARED_SURE: usize = 6;

/// A picture's rows at the top that may hide the text (a headline, or the prompt that is being answered),
/// and those below it (a composer): this part of it.
const EDGE: usize = 4;

/// How many screens of what moved up are kept, for when it comes down again.
const SCREENS_KEPT: usize = 2;

/// Rows that a terminal scrolls off while one picture is painted, at most.
const SCROLLED_MAX: usize = 1024;

/// What a program shows, as one text.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    /// The text that is not read for good: what stood above the last picture, and what it shows.
    rows: Vec<Row>,
    /// Where in them the picture begins.
    top: usize,
    /// The picture, as it was painted.
    painted: Vec<Row>,
    /// What the terminal itself scrolled off since.
    scrolled: Vec<Row>,
}

/// What a picture is to the text before.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing: this is another text.
    Anew,
    /// It begins so many rows further down in it, or up.
    By(isize),
}

/// Where a picture and the text have rows in common.
#[derive(Clone, Copy, Default)]
struct Shared {
    /// From this row of the text on.
    text: usize,
    /// From this row of the picture on.
    picture: usize,
    /// So many rows that say something.
    rows: usize,
}

impl Pictures {
    /// The first picture.
    pub(super) fn of(painted: Vec<Row>) -> Self {
        Self { rows: painted.clone(), painted, ..Self::default() }
    }

    /// All rows of the text that are not read for good, and how many of them stand above the screen.
    pub(super) fn text(&self) -> (&[Row], usize) {
        (&self.rows, self.top)
    }

    /// The terminal scrolled a row off; whether there is room for it.
    pub(super) fn scroll(&mut self, row: &Row) -> bool {
        let fits = self.scrolled.len() < SCROLLED_MAX;
        if fits {
            self.scrolled.push(row.clone());
        }
        fits
    }

    /// The next picture is whole.
    pub(super) fn next(&mut self, painted: Vec<Row>) -> Moved {
        let scrolled = std::mem::take(&mut self.scrolled);
        let above = scrolled.len();
        if above == 0 && painted == self.painted {
            return Moved::By(0);
        }
        let picture = [scrolled, painted.clone()].concat();
        let shared = self.shared(&picture);
        let Some(top) = shared.text.checked_sub(shared.picture).filter(|_| shared.rows > 0) else {
            self.painted = painted;
            self.rows = picture;
            self.top = above;
            return Moved::Anew;
        };
        if top == self.top {
            // What changed in its place was no longer the same text.
            for at in (0..shared.picture).filter(|&at| self.painted.get(at) != picture.get(at)) {
                self.rows[top + at] = picture[at].clone();
            }
        }
        self.rows.truncate(shared.text);
        self.rows.extend_from_slice(&picture[shared.picture..]);
        let before = std::mem::replace(&mut self.top, top + above);
        self.painted = painted;
        Moved::By(self.top as isize - before as isize)
    }

    /// Rows so far above the screen that they don't come down again.
    pub(super) fn read(&mut self) -> Vec<Row> {
        let far = self.top.saturating_sub(SCREENS_KEPT * self.painted.len());
        self.top -= far;
        self.rows.drain(..far).collect()
    }

    /// The longest stretch of rows that the picture has in common with the text.
    fn shared(&self, picture: &[Row]) -> Shared {
        let edge = self.painted.len() / EDGE;
        let mut best = Shared::default();
        for top in 0..self.rows.len() {
            let (at, rows) = longest(&self.rows[top..], picture, edge);
            let this = Shared { text: top + at, picture: at, rows };
            if rows > 0 && self.is_better(&this, &best) {
                best = this;
            }
        }
        let shared_min = SHARED_MIN.min(picture.iter().filter(|row| says(row)).count());
        let is_sure = best.rows >= shared_min && self.is_likely(&best, picture, edge);
        if is_sure { best } else { Shared::default() }
    }

    fn is_better(&self, this: &Shared, best: &Shared) -> bool {
        this.rows > best.rows || this.rows == best.rows && self.moves(this) < self.moves(best)
    }

    /// By how many rows the picture would have moved.
    fn moves(&self, shared: &Shared) -> usize {
        (shared.text - shared.picture).abs_diff(self.top)
    }

    /// Whether a text that has moved so shows more than what another one has, too, such as its first words.
    fn is_likely(&self, shared: &Shared, picture: &[Row], edge: usize) -> bool {
        let pairs = || std::iter::zip(&self.rows[shared.text..], &picture[shared.picture..]);
        let same = pairs().filter(|(known, row)| says(known) && known == row).count();
        let other = pairs().filter(|(known, row)| says(known) && known != row).count();
        self.moves(shared) == 0 || shared.rows >= SHARED_SURE || other <= edge || same >= other
    }
}

/// Where the longest stretch begins that a text and a picture have in common side by side, so many rows down at
/// most, and how many of its rows say something. From the end on, so that each row is looked at once.
fn longest(text: &[Row], picture: &[Row], edge: usize) -> (usize, usize) {
    let (mut rows, mut best) = (0, (0, 0));
    for (at, (known, row)) in std::iter::zip(text, picture).enumerate().rev() {
        rows = if known == row { rows + usize::from(says(row)) } else { 0 };
        if at <= edge && rows >= best.1 {
            best = (at, rows);
        }
    }
    best
}

fn says(row: &Row) -> bool {
    !row.text.trim().is_empty()
}
