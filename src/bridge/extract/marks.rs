//! Marks in text that is typed where the screen is read: a backslash inside each keeps it from
//! being one.
//!
//! It stands inside and not before: however a program cuts the text into rows, and whatever part of
//! it a screen shows, no row has a whole mark. So a whole mark on the screen is the agent's own.
//!
//! What begins a message has it before a letter: there, it also stays in programs that draw
//! Markdown.

use unicode_width::UnicodeWidthChar;

/// What begins and ends messages and blocks, in two parts. The backslash stands between them.
const MARKS: [(&str, &str); 4] =
    [("->", "relay:"), ("[[", "RELAY]]"), ("[[/", "RELAY]]"), (">>", ">")];

/// What agents write with a backslash before it.
const ESCAPED: [&str; 3] = ["\\<<<", "\\>>>", "\\->relay:"];

/// The text with a backslash inside each mark, also where one is there already.
pub fn escape(text: &str) -> String {
    let (mut escaped, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let mark = mark(rest);
        let end = mark.map_or_else(|| first.len_utf8(), |mark| mark.middle);
        escaped.push_str(&rest[..end]);
        escaped.extend(mark.map(|_| '\\'));
        rest = &rest[end..];
    }
    escaped
}

/// The text without the backslashes before the agent's marks and, off a screen, without one inside
/// each mark that was typed.
pub(super) fn unescape(text: &str, on_screen: bool) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let typed = mark(rest).filter(|mark| on_screen && mark.is_escaped);
        let agents = ESCAPED.iter().find(|mark| rest.starts_with(**mark));
        let (shown, end) = match (typed, agents) {
            (Some(Mark { middle, .. }), _) => (&rest[..middle], middle + 1),
            (None, Some(mark)) => (&mark[1..], mark.len()),
            (None, None) => (&rest[..first.len_utf8()], first.len_utf8()),
        };
        plain.push_str(shown);
        rest = &rest[end..];
    }
    plain
}

/// A mark at the beginning of a text.
#[derive(Clone, Copy)]
struct Mark {
    /// Where the backslash belongs.
    middle: usize,
    /// One is there.
    is_escaped: bool,
}

fn mark(text: &str) -> Option<Mark> {
    MARKS.iter().filter(|(head, _)| text.starts_with(&head[..1])).find_map(|(head, tail)| {
        let middle = end_of(text, head)?;
        let rest = text[middle..].trim_start_matches(|c| c == '\\' || is_widthless(c));
        end_of(rest, tail)?;
        Some(Mark { middle, is_escaped: text[middle..].starts_with('\\') })
    })
}

/// Where a part of a mark ends that a text begins with. Programs may leave out characters without
/// width.
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
    fn backslash_stands_inside_each_mark() {
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
    fn agents_own_backslashes_stand_before_marks() {
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
        fn no_part_of_typed_text_has_a_mark(
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
