//! The parts of a text that a program expands even in a paste: names of files that it attaches, and
//! words with a special meaning. A backslash in the right position prevents the expansion.

use serde::{Deserialize, Deserializer, de::Error as _};
use std::collections::BTreeSet;
use unicode_width::UnicodeWidthChar;

/// The parts of a text that a program would expand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Vec<Expansion>")]
pub struct Expansions {
    pub(super) words: Vec<Expansion>,
    /// The extensions of files that the program attaches as pictures.
    pub(super) pictures: Vec<String>,
}

/// A word that is expanded, and its backslash position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expansion {
    /// Whether the program expands this text only at the beginning of a word.
    begins_word: bool,
    /// The part of the word before the backslash.
    before: String,
    /// The part of the word after the backslash. If it is empty, the program expands the word only
    /// before a name.
    after: String,
}

impl Expansion {
    fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.split_once('\\')?;
        let begins_word = before.starts_with(' ');
        let before = before.strip_prefix(' ').unwrap_or(before);
        let is_valid = text.trim_start().len() > 1 && !after.contains('\\');
        let (before, after) = (before.to_owned(), after.to_owned());
        is_valid.then_some(Self { begins_word, before, after })
    }

    /// Returns the byte where the backslash belongs, if the word begins at byte `at` of the line.
    fn backslash(&self, line: &str, at: usize) -> Option<usize> {
        let middle = at + self.before.len();
        let end = middle + self.after.len();
        let is_expanded = line.get(at..middle)?.eq_ignore_ascii_case(&self.before)
            && line.get(middle..end)?.eq_ignore_ascii_case(&self.after)
            && (!self.after.is_empty() || line[end..].starts_with(is_name_char))
            && (!self.begins_word || begins_word(&line[..at]));
        is_expanded.then_some(middle)
    }
}

impl<'de> Deserialize<'de> for Expansion {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} needs one backslash, in or next to the text that is expanded: write '\\@'"
            ))
        })
    }
}

impl From<Vec<Expansion>> for Expansions {
    fn from(words: Vec<Expansion>) -> Self {
        Self { words, pictures: Vec::new() }
    }
}

impl Expansions {
    /// Whether the program expands nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.pictures.is_empty()
    }

    /// Inserts the backslashes that prevent expansion.
    #[must_use]
    pub fn escape(&self, text: &str) -> String {
        let lines = text.split('\n').map(|line| self.escape_line(line));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn escape_line(&self, line: &str) -> String {
        let mut backslashes: BTreeSet<usize> = self.picture_ends(line).collect();
        for (at, _) in line.char_indices() {
            backslashes.extend(self.words.iter().filter_map(|word| word.backslash(line, at)));
        }
        let mut escaped = line.to_owned();
        let missing = backslashes.iter().rev().filter(|&&at| !ends_escaping(&line[..at]));
        missing.for_each(|&at| escaped.insert(at, '\\'));
        escaped
    }

    /// Returns where the names of pictures end that the program would attach. Such a name is at the
    /// end of a line, or before a path.
    fn picture_ends(&self, line: &str) -> impl Iterator<Item = usize> {
        let mut at = 0;
        let pieces = pieces_before_paths(line).filter_map(move |piece| {
            let start = at;
            at += piece.len();
            let name = piece.trim_matches(is_blank);
            let quoted = ['"', '\''].iter().find_map(|&quote| {
                name.strip_prefix(quote).and_then(|name| name.strip_suffix(quote))
            });
            let name = unescaped(quoted.unwrap_or(name)).to_ascii_lowercase();
            let is_picture = self.pictures.iter().any(|end| name.ends_with(&**end));
            let end = piece.trim_end_matches(is_blank).len() - usize::from(quoted.is_some());
            is_picture.then_some(start + end)
        });
        pieces.take(if self.pictures.is_empty() { 0 } else { usize::MAX })
    }
}

/// Splits a line before each blank that precedes a path.
fn pieces_before_paths(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest.take()?;
        let is_before_path = |at: &usize| *at > 0 && begins_path(&line[at + 1..]);
        let cut = line.match_indices(' ').map(|(at, _)| at).find(is_before_path);
        rest = cut.map(|at| &line[at..]);
        Some(&line[..cut.unwrap_or(line.len())])
    })
}

fn begins_path(text: &str) -> bool {
    let drive = text.strip_prefix(|first: char| first.is_ascii_alphabetic());
    text.starts_with('/') || drive.is_some_and(|rest| rest.starts_with(":\\"))
}

/// Returns a text without its escaping backslashes.
fn unescaped(text: &str) -> String {
    let mut characters = text.chars();
    let mut unescaped = String::with_capacity(text.len());
    while let Some(character) = characters.next() {
        let literal = if character == '\\' { characters.next() } else { None };
        unescaped.push(literal.unwrap_or(character));
    }
    unescaped
}

/// Whether a text ends in a backslash that escapes the next character.
fn ends_escaping(text: &str) -> bool {
    !(text.len() - text.trim_end_matches('\\').len()).is_multiple_of(2)
}

fn is_name_char(character: char) -> bool {
    character.is_alphanumeric() || "_-:".contains(character)
}

/// Whether a word begins after this text. Characters without width do not count.
fn begins_word(before: &str) -> bool {
    let last = before.chars().rev().find(|&character| !is_widthless(character));
    last.is_none_or(|last| is_blank(last) || "。、？！".contains(last))
}

/// Whether a character is invisible: a blank, or without width.
pub(crate) fn is_blank(character: char) -> bool {
    character.is_whitespace() || is_widthless(character)
}

fn is_widthless(character: char) -> bool {
    character.width() == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expands(words: &[&str], pictures: &[&str]) -> Expansions {
        Expansions {
            words: words.iter().map(|word| Expansion::parse(word).unwrap()).collect(),
            pictures: pictures.iter().map(|&end| end.to_owned()).collect(),
        }
    }

    #[track_caller]
    fn check(expands: &Expansions, cases: &[(&str, &str)]) {
        for (text, escaped) in cases {
            assert_eq!(expands.escape(text), *escaped, "{text:?}");
        }
    }

    #[test]
    fn backslash_is_inserted_as_the_recipe_says() {
        check(
            &expands(&["\\@"], &[]),
            &[
                ("@a", "\\@a"),
                ("x@a (@b),@c\n @d", "x\\@a (\\@b),\\@c\n \\@d"),
                ("a @", "a \\@"),
                ("\\@a \\\\@a \\\\\\@a", "\\@a \\\\\\@a \\\\\\@a"),
            ],
        );
        check(
            &expands(&["$\\", "[@\\"], &[]),
            &[
                ("use $a, x$b-c $1 [$d](x)", "use $\\a, x$\\b-c $\\1 [$\\d](x)"),
                ("$ $$ $(id) ${HOME} $$a", "$ $$ $(id) ${HOME} $$\\a"),
                ("@a [@a](plugin://a) [@]", "@a [@\\a](plugin://a) [@]"),
            ],
        );
        check(
            &expands(&["u\\ltra", "ul\\tr"], &[]),
            &[("Ultra ULTRAS ul", "U\\l\\tra U\\L\\TRAS ul")],
        );
    }

    #[test]
    fn word_begins_after_characters_without_width() {
        check(
            &expands(&[" \\@"], &[]),
            &[
                ("@a\n@b @c\t@d", "\\@a\n\\@b \\@c\t\\@d"),
                ("\u{a0}@a \u{200b}@b\u{feff}@c", "\u{a0}\\@a \u{200b}\\@b\u{feff}@c"),
                ("\u{feff}@a。@b！@c？@d、@e", "\u{feff}\\@a。\\@b！\\@c？\\@d、\\@e"),
                (
                    "x@a (@b) \"@c\" é@d e\u{301}@e -@f `@g`",
                    "x@a (@b) \"@c\" é@d e\u{301}@e -@f `@g`",
                ),
            ],
        );
    }

    #[test]
    fn picture_name_gets_a_backslash_at_its_end() {
        check(
            &expands(&[], &[".png", ".jpeg"]),
            &[
                ("/a/b.png", "/a/b.png\\"),
                ("see /a/b.PNG \u{feff}\nnext", "see /a/b.PNG\\ \u{feff}\nnext"),
                ("/a.png /b.jpeg C:\\c.png x", "/a.png\\ /b.jpeg\\ C:\\c.png x"),
                ("\"/a/b.png\"\n'C:\\b.png' ", "\"/a/b.png\\\"\n'C:\\b.png\\' "),
                ("/a/b.p\\n\\g", "/a/b.p\\n\\g\\"),
                ("/a/b.png\\", "/a/b.png\\"),
                ("/a/b.png, and /a.png.", "/a/b.png, and /a.png."),
                ("png\n.pngs\n\"", "png\n.pngs\n\""),
            ],
        );
    }

    #[test]
    fn expansion_without_exactly_one_backslash_is_rejected() {
        for wrong in ["", "@", "\\", " \\", "\\@\\"] {
            assert_eq!(Expansion::parse(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn escape_adds_only_backslashes_and_is_idempotent(
            every in prop::sample::select(&["\\@", " \\@"][..]),
            text in "([@$\\\\/ua'\" \n。\u{200b}]|ultra|\\.png|[^a]){0,12}"
        ) {
            let all = expands(&[every, "$\\", "u\\ltra"], &[".png"]);
            let escaped = all.escape(&text);
            let mut rest = text.chars().peekable();
            for character in escaped.chars() {
                match rest.peek() {
                    Some(next) if *next == character => drop(rest.next()),
                    _ => prop_assert_eq!(character, '\\', "{:?}", text),
                }
            }
            prop_assert_eq!(rest.next(), None);
            prop_assert_eq!(all.escape(&escaped), escaped.clone(), "{:?}", text);
        }
    }
}
