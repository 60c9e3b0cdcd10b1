//! Unix: shells of POSIX.

/// The characters besides letters and digits that mean themselves in a shell.
pub(super) const PLAIN: [char; 10] = ['/', '.', '_', '-', '+', ',', ':', '@', '%', '='];

pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
