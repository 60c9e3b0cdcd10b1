//! Text from other people or programs, made safe to show: control characters and characters that
//! deceive a reader are escaped.

use crate::protocol::text::is_hidden;

/// Escapes the hidden characters of a text, except line breaks and tabs.
pub(super) fn escaped_text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Escapes the hidden characters of a text that has to stay on one line: a name, a topic, a
/// sentence.
pub(super) fn escaped(text: &str) -> String {
    escaped_text(text).replace('\n', "\\u{a}").replace('\t', "\\u{9}")
}

/// Escapes a body, and indents all lines but its first, so that none can look like a heading.
pub(super) fn indented(body: &str) -> String {
    let body = escaped_text(body);
    let mut lines = body.trim_end_matches('\n').split('\n');
    let mut text = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        text.push_str(if line.is_empty() { "\n" } else { "\n    " });
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped() {
        assert_eq!(
            escaped_text("plain \u{e4}\u{4e2d}\u{1f600}\n\tx"),
            "plain \u{e4}\u{4e2d}\u{1f600}\n\tx"
        );
        assert_eq!(escaped_text("a\x1b[31mb\r\x07\x7f"), "a\\u{1b}[31mb\\u{d}\\u{7}\\u{7f}");
        assert_eq!(
            escaped_text("\u{9b}\u{202e}\u{2066}\u{200f}"),
            "\\u{9b}\\u{202e}\\u{2066}\\u{200f}"
        );
        assert_eq!(escaped_text("\u{2028}\u{e0041}\u{61c}"), "\\u{2028}\\u{e0041}\\u{61c}");
        assert_eq!(escaped("a\nb\tc"), "a\\u{a}b\\u{9}c");
        assert_eq!(indented("one\n\nAnn: two\n"), "one\n\n    Ann: two");
        for code in (0..=0x10_ffff).filter_map(char::from_u32) {
            let shown = escaped_text(&code.to_string());
            assert!(!shown.chars().any(is_hidden), "{shown:?}");
        }
    }
}
