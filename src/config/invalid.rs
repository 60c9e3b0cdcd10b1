//! Mistakes in the text of a file that serde does not find.

use client::home::{ConfigError, parse::line_at};
use std::path::Path;
use toml::Spanned;

/// An error at a byte offset in the file's text.
pub(super) struct Invalid {
    offset: usize,
    reason: String,
}

impl Invalid {
    pub(super) fn at<T>(value: &Spanned<T>, reason: String) -> Self {
        Self { offset: value.span().start, reason }
    }

    /// Names the line in the text of a file.
    pub(super) fn of_file(self, path: &Path, text: &str) -> ConfigError {
        let line = Some(line_at(text, self.offset));
        ConfigError { path: path.to_owned(), line, reason: self.reason }
    }
}

/// Refuses more than that many tables of a list.
pub(super) fn check_count<T>(
    entries: &[Spanned<T>],
    key: &str,
    most: usize,
) -> Result<(), Invalid> {
    entries.get(most).map_or(Ok(()), |first| {
        Err(Invalid::at(first, format!("there are more than {most} [[{key}]]")))
    })
}
