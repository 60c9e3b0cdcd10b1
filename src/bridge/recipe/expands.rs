//! What a program makes more of than text, also where it is pasted: names of files that it attaches, words
//! that it has a meaning for. A backslash in the right place keeps it from that.

use serde::{Deserialize, Deserializer, de::Error as _};
use std::collections::BTreeSet;
use unicode_width::UnicodeWidthChar;

/// What a program would expand in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expands {
    pub(super) words: Vec<Expansion>,
    /// How names of pictures end that it attaches where they are pasted.
    pub(super) pictures: Vec<String>,
}

/// A text that is expanded, and where the backslash belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expansion {
    /// It counts only at the beginning of a word.
    begins_word: bool,
    /// What stands before the backslash.
    before: String,
    /// And behind it; where that is nothing, a name has to begin there.
    behind: String,
}

impl Expansion {
    fn parse(text: &str) -> Option<Self> {
        let (before, behind) = text.split_once('\\')?;
        let begins_word = before.starts_with(' ');
        let before = before.strip_prefix(' ').unwrap_or(before);
        let is_something = text.trim_start().len() > 1 && !behind.contains('\\');
        let (before, behind) = (before.to_owned(), behind.to_owned());
        is_something.then_some(Self { begins_word, before, behind })
    }

    /// Where the backslash belongs, if it is here.
    fn place(&self, line: &str, at: usize) -> Option<usize> {
        let middle = at + self.before.len();
        let end = middle + self.behind.len();
        let is_it = line.get(at..middle)?.eq_ignore_ascii_case(&self.before)
            && line.get(middle..end)?.eq_ignore_ascii_case(&self.behind)
            && (!self.behind.is_empty() || line[end..].starts_with(is_of_name))
            && (!self.begins_word || begins_word(&line[..at]));
        is_it.then_some(middle)
    }
}

impl<'de> Deserialize<'de> for Expansion {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} does not say what is expanded and where the one backslash belongs: write '\\@'"
            ))
        })
    }
}

impl Expands {
    /// Whether the program expands nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.words.is_empty() && self.pictures.is_empty()
    }

    /// A text with the backslashes that keep it text.
    #[must_use]
    pub fn escape(&self, text: &str) -> String {
        let lines = text.split('\n').map(|line| self.escape_line(line));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn escape_line(&self, line: &str) -> String {
        let mut places: BTreeSet<usize> = self.picture_ends(line).collect();
        for (at, _) in line.char_indices() {
            places.extend(self.words.iter().filter_map(|word| word.place(line, at)));
        }
        let mut escaped = line.to_owned();
        let places = places.iter().rev().filter(|&&place| !ends_escaping(&line[..place]));
        places.for_each(|&place| escaped.insert(place, '\\'));
        escaped
    }

    /// Where names of pictures end that would be taken for one: at the end of a line, or before a path.
    fn picture_ends(&self, line: &str) -> impl Iterator<Item = usize> {
        let mut at = 0;
        let pieces = pieces_before_paths(line).filter_map(move |piece| {
            let start = at;
            at += piece.len();
            let name = piece.trim_matches(is_blank);
            let quoted = ['"', '\''].iter().find_map(|&quote| {
                name.strip_prefix(quote).and_then(|name| name.strip_suffix(quote))
            });
            let ends = unescaped(quoted.unwrap_or(name)).to_ascii_lowercase();
            let is_picture = self.pictures.iter().any(|end| ends.ends_with(&**end));
            let end = piece.trim_end_matches(is_blank).len() - usize::from(quoted.is_some());
            is_picture.then_some(start + end)
        });
        // Without pictures there is nothing to look for.
        pieces.take(if self.pictures.is_empty() { 0 } else { usize::MAX })
    }
}

/// Cuts a line before each blank that a path follows.
fn pieces_before_paths(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest.take()?;
        let is_cut = |at: &usize| *at > 0 && begins_path(&line[at + 1..]);
        let cut = line.match_indices(' ').map(|(at, _)| at).find(is_cut);
        rest = cut.map(|at| &line[at..]);
        Some(&line[..cut.unwrap_or(line.len())])
    })
}

fn begins_path(text: &str) -> bool {
    let mut bytes = text.bytes();
    match bytes.next() {
        Some(b'/') => true,
        Some(first) => {
            first.is_ascii_alphabetic() && bytes.next() == Some(b':') && bytes.next() == Some(b'\\')
        }
        None => false,
    }
}

/// A text without the backslashes that take something's meaning from it.
fn unescaped(text: &str) -> String {
    let mut characters = text.chars();
    let mut unescaped = String::with_capacity(text.len());
    while let Some(character) = characters.next() {
        let meant = if character == '\\' { characters.next() } else { None };
        unescaped.push(meant.unwrap_or(character));
    }
    unescaped
}

/// Whether the last backslash of a text is for what follows.
fn ends_escaping(text: &str) -> bool {
    !(text.len() - text.trim_end_matches('\\').len()).is_multiple_of(2)
}

fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || "_-:".contains(character)
}

/// Whether what follows this begins a word, also where something stands between that nobody sees.
fn begins_word(before: &str) -> bool {
    let last = before.chars().rev().find(|&character| !is_widthless(character));
    last.is_none_or(|last| is_blank(last) || "。、？！".contains(last))
}

/// Whether it shows nothing: a blank, or something without width.
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

    fn expands(words: &[&str], pictures: &[&str]) -> Expands {
        Expands {
            words: words.iter().map(|word| Expansion::parse(word).unwrap()).collect(),
            pictures: pictures.iter().map(|&end| end.to_owned()).collect(),
        }
    }

    #[track_caller]
    fn check(expands: &Expands, cases: &[(&str, &str)]) {
        for (text, escaped) in cases {
            assert_eq!(expands.escape(text), *escaped, "{text:?}");
        }
    }

    #[test]
    fn a_backslash_stands_where_the_recipe_has_it() {
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
    fn a_word_begins_behind_what_shows_nothing() {
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
    fn the_end_of_a_picture_s_name_is_not_one_any_more() {
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
    fn what_says_no_place_for_one_backslash_is_refused() {
        for wrong in ["", "@", "\\", " \\", "\\@\\"] {
            assert_eq!(Expansion::parse(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_but_backslashes_is_added_and_nothing_is_left_to_expand(
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
