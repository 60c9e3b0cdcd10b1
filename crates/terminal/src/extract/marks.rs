//! Marks of messages in text that is typed into a program when messages are read from its screen. A
//! backslash inside each mark makes it plain text.
//!
//! The backslash goes inside the mark and not before it. As a result, no row contains a whole mark
//! of typed text, however the program wraps the text and whichever part of it the screen shows. A
//! whole mark on the screen is therefore the agent's own. In the arrow, the backslash comes before
//! a letter, since programs that draw Markdown keep a backslash there.

use unicode_width::UnicodeWidthChar;

/// The marks that begin and end messages and blocks. The backslash goes between the two parts of
/// each.
const MARKS: [(&str, &str); 4] =
    [("->", "relay:"), ("[[", "RELAY]]"), ("[[/", "RELAY]]"), (">>", ">")];

/// The marks as agents escape them, with a backslash before the mark.
const ESCAPED: [&str; 3] = ["\\<<<", "\\>>>", "\\->relay:"];

/// Adds a backslash inside each mark, even if there is a backslash already.
pub fn escape(text: &str) -> String {
    let (mut escaped, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let mark = mark(rest);
        let end = mark.map_or_else(|| first.len_utf8(), |(middle, _)| middle);
        escaped.push_str(&rest[..end]);
        escaped.extend(mark.map(|_| '\\'));
        rest = &rest[end..];
    }
    escaped
}

/// Removes the backslashes that agents put before marks. In text from a screen, also removes one
/// backslash inside each mark that was typed.
pub(super) fn unescape(text: &str, on_screen: bool) -> String {
    let (mut unescaped, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let typed = mark(rest).filter(|(_, is_escaped)| on_screen && *is_escaped);
        let own = ESCAPED.iter().find(|mark| rest.starts_with(**mark));
        let (shown, end) = match (typed, own) {
            (Some((middle, _)), _) => (&rest[..middle], middle + 1),
            (None, Some(mark)) => (&mark[1..], mark.len()),
            (None, None) => (&rest[..first.len_utf8()], first.len_utf8()),
        };
        unescaped.push_str(shown);
        rest = &rest[end..];
    }
    unescaped
}

/// Returns where the backslash belongs in the mark that a text begins with, as a byte offset, and
/// whether it is there.
fn mark(text: &str) -> Option<(usize, bool)> {
    MARKS.iter().filter(|(head, _)| text.starts_with(&head[..1])).find_map(|(head, tail)| {
        let middle = end_of(text, head)?;
        let rest = text[middle..].trim_start_matches(|c| c == '\\' || is_widthless(c));
        end_of(rest, tail)?;
        Some((middle, text[middle..].starts_with('\\')))
    })
}

/// Returns the byte offset after `part` of a mark, if the text begins with it. Skips characters
/// without width, since programs may leave them out.
fn end_of(text: &str, part: &str) -> Option<usize> {
    let mut characters = text.chars();
    for wanted in part.chars() {
        characters.by_ref().find(|&c| c == wanted || !is_widthless(c)).filter(|&c| c == wanted)?;
    }
    Some(text.len() - characters.as_str().len())
}

fn is_widthless(character: char) -> bool {
    character.width() == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_puts_a_backslash_inside_each_mark() {
        for (text, escaped) in [
            ("->relay:Bob <<<hi>>>", "->\\relay:Bob <<<hi>>\\>"),
            ("see ->relay:Bob", "see ->\\relay:Bob"),
            ("\\->relay:Bob", "\\->\\relay:Bob"),
            ("->\\relay:Bob", "->\\\\relay:Bob"),
            ("-\u{200b}>rel\u{200d}ay:Bob", "-\u{200b}>\\rel\u{200d}ay:Bob"),
            ("[[RELAY]]{}[[/RELAY]]", "[[\\RELAY]]{}[[/\\RELAY]]"),
            (">>>>>> 1", ">>\\>>\\>> 1"),
            ("-> [x] >> ```a``` é", "-> [x] >> ```a``` é"),
        ] {
            assert_eq!(escape(text), escaped);
            assert_eq!(unescape(escaped, true), text);
        }
    }

    #[test]
    fn unescape_removes_backslashes_before_marks() {
        for on_screen in [true, false] {
            assert_eq!(
                unescape("\\->relay:Bob \\<<< \\>>> \\n", on_screen),
                "->relay:Bob <<< >>> \\n"
            );
        }
        assert_eq!(unescape("->\\relay: >>\\>", false), "->\\relay: >>\\>");
    }

    proptest! {
        #[test]
        fn escaped_text_has_no_mark(
            pieces in prop::collection::vec(
                prop::sample::select(vec!["-", ">", "relay:", "->relay:", "[", "[RELAY]]", "\\", "\u{200b}", "a"]),
                0..40,
            ),
        ) {
            let escaped = escape(&pieces.concat());
            let shown: String = escaped.chars().filter(|&c| !is_widthless(c)).collect();
            for mark in ["->relay:", "[[RELAY]]", "[[/RELAY]]", ">>>"] {
                prop_assert!(!shown.contains(mark), "{escaped:?}");
            }
        }
    }
}
