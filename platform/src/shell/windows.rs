//! Windows: `cmd` and PowerShell. A path has no double quote.

/// The characters besides letters and digits that mean themselves in a shell.
pub(super) const PLAIN: [char; 7] = ['\\', '/', '.', '_', '-', '+', ':'];

/// A backslash at the end would escape the quote.
pub(super) fn quoted(word: &str) -> String {
    let end = if word.ends_with('\\') { "\\" } else { "" };
    format!("\"{word}{end}\"")
}
