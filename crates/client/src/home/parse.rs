//! TOML read through serde, with errors that name the line, the key, and what is expected there.
//!
//! serde's messages quote the value that was found, which may be a secret in the wrong place. So an
//! error repeats only the part of serde's message that says what was expected.

use crate::home::{error::ConfigError, nearest::nearest};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Unexpected, Visitor, value::MapAccessDeserializer},
};
use std::{fmt, marker::PhantomData, path::Path};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The longest part of an unknown key that an error repeats, in characters.
const SHOWN_CHARACTERS_MAX: usize = 40;

/// Parses the text of a file; `path` is for errors.
///
/// # Errors
/// If the text is not TOML, or does not match `T`.
pub fn parse<'a, T: Deserialize<'a>>(path: &Path, text: &'a str) -> Result<T, ConfigError> {
    let error = |at: Option<usize>, reason| ConfigError {
        path: path.to_owned(),
        line: at.map(|at| line_at(text, at)),
        reason,
    };
    let table = DeTable::parse(text)
        .map_err(|wrong| error(wrong.span().map(|span| span.start), syntax(wrong.message())))?;
    T::deserialize(toml::Deserializer::from(table.clone())).map_err(|wrong| {
        let at = wrong.span().map(|span| span.start);
        let location = at.and_then(|at| location_at(table.get_ref(), at));
        error(at, explain(location.as_ref(), wrong.message()))
    })
}

/// The line, from 1, of a byte offset in a text.
#[must_use]
pub fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// The line of the first of these top-level keys in a text that parses.
pub(super) fn line_of_key(text: &str, keys: &[&str]) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let lines = table.get_ref().keys().filter(|key| keys.contains(&&**key.get_ref()));
    lines.map(|key| line_at(text, key.span().start)).min()
}

/// The part of a file that an error is about.
enum Location<'a> {
    Key(&'a str),
    ValueOf(&'a str),
}

/// Finds the innermost key at a byte offset, or the key of the value there.
fn location_at<'a>(table: &'a DeTable<'_>, offset: usize) -> Option<Location<'a>> {
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref().as_ref();
        if key.span().contains(&offset) {
            return Some(Location::Key(name));
        }
        let is_here = || value.span().contains(&offset).then_some(Location::ValueOf(name));
        location_within(value, offset).or_else(is_here)
    })
}

fn location_within<'a>(value: &'a Spanned<DeValue<'_>>, offset: usize) -> Option<Location<'a>> {
    match value.get_ref() {
        DeValue::Table(table) => location_at(table, offset),
        DeValue::Array(values) => values.iter().find_map(|value| location_within(value, offset)),
        _ => None,
    }
}

/// Says what is wrong at a location, from serde's message about it.
fn explain(location: Option<&Location<'_>>, message: &str) -> String {
    let expected = message.rsplit_once(", expected ").map(|(_, expected)| expected);
    match (location, expected) {
        (Some(Location::Key(key)), Some(keys)) => unknown_key(key, keys),
        (Some(Location::ValueOf(key)), Some(expected)) => {
            format!("`{key}`: expected {}", in_toml(key, expected))
        }
        (Some(Location::Key(key) | Location::ValueOf(key)), None) => format!("`{key}`: {message}"),
        (None, Some(expected)) => format!("expected {expected}"),
        (None, None) => message.to_owned(),
    }
}

/// Says that a key is unknown; serde gives the known ones between backticks.
fn unknown_key(key: &str, known: &str) -> String {
    let shown: String = key.chars().take(SHOWN_CHARACTERS_MAX).collect();
    let known: Vec<_> = known.split('`').skip(1).step_by(2).collect();
    match nearest(&shown, known.iter().map(|&key| key.to_owned())) {
        Some(near) => format!("unknown key {shown:?} (did you mean \"{near}\"?)"),
        None => format!("unknown key {shown:?}; the keys are {}", known.join(", ")),
    }
}

/// Puts serde's names of types into TOML's terms.
fn in_toml(key: &str, expected: &str) -> String {
    match expected {
        "a string" => "a text in quotes".to_owned(),
        "a boolean" => "true or false, without quotes".to_owned(),
        "a sequence" => format!("a list: each item begins with [[{key}]]"),
        other => other.to_owned(),
    }
}

/// Explains a syntax error. The parser's message is about the alternative that it tried last: for
/// `allow = nope` it complains about the float `nan`.
fn syntax(message: &str) -> String {
    let (problem, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let explained = match problem {
        "string values must be quoted" | "invalid float" | "invalid boolean" => {
            "a value is a number, true, false, or a text in quotes"
        }
        "duplicate key" => "this key is there already: leave one of the two out",
        "key with no value" | "invalid key-value pair" => "a line is KEY = VALUE, or [TABLE]",
        "unexpected key or value" => "nothing follows a value on its line",
        _ if problem.ends_with("string") && (expected == "`'`" || expected == "`\"`") => {
            "a text ends with the quotes that it began with"
        }
        _ => return format!("this is not TOML: {problem}"),
    };
    explained.to_owned()
}

/// A table. Without this type, serde's derived structs would also accept a list of values.
#[derive(Debug)]
pub struct Table<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TableVisitor(PhantomData)).map(Self)
    }
}

struct TableVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table, with its keys below it")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Deserializes a whole number from `MIN` to `MAX`.
///
/// # Errors
/// If it is anything else.
pub fn whole_number<'de, D, const MIN: u64, const MAX: u64>(
    deserializer: D,
) -> Result<u64, D::Error>
where
    D: Deserializer<'de>,
{
    deserializer.deserialize_u64(WholeNumber { min: MIN, max: MAX })
}

struct WholeNumber {
    min: u64,
    max: u64,
}

impl Visitor<'_> for WholeNumber {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.min, self.max)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        let allowed = u64::try_from(number).ok().filter(|n| (self.min..=self.max).contains(n));
        allowed.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }
}

/// Deserializes an optional non-empty text.
pub(super) fn non_empty_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.is_empty() {
        true => Err(D::Error::invalid_value(Unexpected::Str(""), &"a text that is not empty")),
        false => Ok(Some(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_errors_are_explained() {
        let value = "a value is a number, true, false, or a text in quotes";
        let line = "a line is KEY = VALUE, or [TABLE]";
        let ends = "a text ends with the quotes that it began with";
        for (text, reason) in [
            ("allow = nope", value),
            ("allow = True", value),
            ("allow = yes", value),
            ("a =", value),
            ("a = 1.0.0", value),
            ("a = 1\na", line),
            ("a : 1", line),
            ("{", line),
            ("a = 'x", ends),
            ("a = \"x", ends),
            ("a = '''x", ends),
            ("a = 1 b = 2", "nothing follows a value on its line"),
            ("[a]\n[a]", "this key is there already: leave one of the two out"),
            ("[a", "this is not TOML: unclosed table"),
            ("a = 1__2", "this is not TOML: `_` may only go between digits"),
            ("a = 12:99", "this is not TOML: invalid time"),
        ] {
            let number = text.lines().count();
            let error = parse::<toml::Table>(Path::new("x.toml"), text).unwrap_err();
            assert_eq!(error.to_string(), format!("x.toml:{number}: {reason}"), "{text:?}");
        }
    }

    #[test]
    fn unknown_key_gets_the_nearest_or_all() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Two {
            #[serde(rename = "colour")]
            _colour: Option<bool>,
            #[serde(rename = "size")]
            _size: Option<bool>,
        }
        let reason = |text| parse::<Two>(Path::new("x.toml"), text).unwrap_err().to_string();
        let near = "x.toml:1: unknown key \"color\" (did you mean \"colour\"?)";
        assert_eq!(reason("color = 1"), near);
        let far = "x.toml:2: unknown key \"width\"; the keys are colour, size";
        assert_eq!(reason("\nwidth = 1"), far);
        let value = "x.toml:1: `size`: expected true or false, without quotes";
        assert_eq!(reason("size = 'secret'"), value);
    }
}
