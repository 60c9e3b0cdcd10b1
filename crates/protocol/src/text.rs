//! Text from outside: characters that a terminal must not get, how they are shown instead, and
//! quotations in sentences.

use std::fmt::{self, Write};

/// The number of characters that a quotation shows.
const QUOTED_MAX: usize = 80;

/// Whether a character could press a key, control a terminal or hide text: C0 except newline and
/// tab, DEL, C1, bidirectional controls, U+2028 and U+2029, and the invisible tags U+E0000–E007F.
///
/// Such a character is removed from text typed into an agent, and printed as `\u{…}`.
#[must_use]
pub const fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' => true,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

/// A quotation in a sentence: within quotation marks, escaped, and cut if it is long.
///
/// (`Debug` of a text ignores a precision such as `{:.80?}`.)
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let mut characters = self.0.chars();
        for character in characters.by_ref().take(QUOTED_MAX) {
            match character {
                '\'' => f.write_char(character)?,
                _ => write!(f, "{}", character.escape_debug())?,
            }
        }
        f.write_str(if characters.next().is_some() { "\"…" } else { "\"" })
    }
}

/// The number of characters in a short id.
const SHORT_ID_CHARS: usize = 8;

/// Returns the short form of an id, the one that people and agents use.
#[must_use]
pub fn short_id(id: &str) -> String {
    id.chars().take(SHORT_ID_CHARS).collect()
}

/// Escapes the hidden characters of a text, except line breaks and tabs.
#[must_use]
pub fn escaped_text(text: &str) -> String {
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
#[must_use]
pub fn escaped(text: &str) -> String {
    escaped_text(text).replace('\n', "\\u{a}").replace('\t', "\\u{9}")
}

/// Escapes a body, and indents all lines but its first, so that none can look like a heading.
#[must_use]
pub fn indented(body: &str) -> String {
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
    fn quotation_is_escaped_and_cut() {
        assert_eq!(Quoted("it's \"é\"\n\u{1b}").to_string(), r#""it's \"é\"\n\u{1b}""#);
        let long = "x".repeat(81);
        assert_eq!(Quoted(&long[1..]).to_string(), format!("\"{}\"", &long[1..]));
        assert_eq!(Quoted(&long).to_string(), format!("\"{}\"…", &long[1..]));
    }

    #[test]
    fn controls_and_invisible_characters_are_hidden() {
        for hidden in "\0\x03\x08\r\x1b\x1f\x7f\u{80}\u{9b}\u{9f}\u{61c}\u{200e}\u{200f}\u{202a}\
            \u{202e}\u{2066}\u{2069}\u{2028}\u{2029}\u{e0000}\u{e0041}\u{e007f}"
            .chars()
        {
            assert!(is_hidden(hidden), "{hidden:?}");
        }
        for shown in " a\n\t~\u{a0}é\u{200b}\u{200d}漢🎉\u{fe0f}\u{2027}\u{e0080}".chars() {
            assert!(!is_hidden(shown), "{shown:?}");
        }
    }

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
