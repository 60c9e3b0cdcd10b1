//! Pictures of an alternate screen into one text.
//!
//! What is longer than such a screen moves up in it from picture to picture, and nothing but that says
//! what stood above. Only programs that say when a picture is whole are read so; half of a picture would
//! be taken for text.

use crate::bridge::screen::Row;

/// Rows with text that two pictures share, at least, where they show the same text.
const SHARED_MIN: usize = 2;

/// A picture's rows at the top that may hide the text (a headline, or the prompt that is being answered):
/// this part of it.
const HEAD: usize = 4;

/// How many screens of what moved up are kept, for when it comes down again.
const SCREENS_KEPT: usize = 2;

/// Rows that a terminal scrolls off while one picture is painted, at most.
const SCROLLED_MAX: usize = 4096;

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
        let says = |row: &&Row| !row.text.trim().is_empty();
        let mut best = Shared::default();
        let head = self.painted.len() / HEAD;
        for text in 0..self.rows.len() {
            for at in 0..=head.min(picture.len()) {
                let pairs = std::iter::zip(&self.rows[text..], &picture[at..]);
                let same = pairs.take_while(|(known, row)| known == row).map(|(_, row)| row);
                let rows = same.filter(says).count();
                let moves = |shared: &Shared| (shared.text - shared.picture).abs_diff(self.top);
                let this = Shared { text, picture: at, rows };
                if text >= at
                    && (rows > best.rows
                        || rows == best.rows && rows > 0 && moves(&this) < moves(&best))
                {
                    best = this;
                }
            }
        }
        let all = picture.iter().filter(says).count();
        if best.rows >= SHARED_MIN.min(all) { best } else { Shared::default() }
    }
}
