//! Tables of words.

/// A table of words, as one text with blanks between them.
#[derive(Clone, Copy)]
pub(crate) struct Words(pub(crate) &'static str);

impl Words {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'static str> {
        self.0.split_ascii_whitespace()
    }

    pub(crate) fn contains(self, word: &str) -> bool {
        self.iter().any(|known| known == word)
    }
}
