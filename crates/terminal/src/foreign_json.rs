//! JSON from agent CLIs. It is not always Unicode text.
//!
//! A CLI cuts a text at a number of UTF-16 units and writes half of a surrogate pair (`\ud83d`), a
//! tool's output has bytes that are not UTF-8, a crash leaves NULs in a file. The rest of the row
//! must stay readable.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Returns the text with U+FFFD in place of bytes that are not Unicode, and blanks in place of
/// control characters, which JSON does not allow.
#[must_use]
pub fn repaired(json: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(json);
    let is_control = |c: char| c < ' ' && !matches!(c, '\t' | '\n' | '\r');
    let text = match text.contains(is_control) {
        true => Cow::Owned(text.replace(is_control, " ")),
        false => text,
    };
    match half_pairs(&text) {
        halves if halves.is_empty() => text,
        halves => {
            let mut text = text.into_owned();
            for at in halves {
                text.replace_range(at..at + ESCAPE_BYTES, "\\ufffd");
            }
            Cow::Owned(text)
        }
    }
}

/// The length of an escape such as `\ud83d`.
const ESCAPE_BYTES: usize = 6;

/// Returns the positions of escapes that are half of a surrogate pair.
fn half_pairs(json: &str) -> Vec<usize> {
    let (bytes, mut at, mut halves) = (json.as_bytes(), 0, Vec::new());
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        let is_low = |at| unit(bytes, at).is_some_and(|unit| (0xdc00..0xe000).contains(&unit));
        match unit(bytes, at) {
            Some(0xd800..0xdc00) if is_low(at + ESCAPE_BYTES) => at += 2 * ESCAPE_BYTES,
            Some(0xd800..0xe000) => {
                halves.push(at);
                at += ESCAPE_BYTES;
            }
            // Another escape; its second character may be a backslash.
            _ => at += 2,
        }
        at = at.min(bytes.len());
    }
    halves
}

/// Returns the UTF-16 unit of the escape at this position, if there is one.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + ESCAPE_BYTES)?.strip_prefix(b"\\u")?;
    let mut digits = digits.iter().map(|&byte| char::from(byte).to_digit(16));
    digits.try_fold(0, |unit, digit| Some(unit << 4 | u16::try_from(digit?).ok()?))
}

/// Returns the elements of a list that deserialize to `T`. Others are skipped, since later versions
/// of a CLI add kinds of elements.
pub(crate) fn elements<'a, T: Deserialize<'a>>(list: &'a RawValue) -> Vec<T> {
    let all: Vec<&RawValue> = serde_json::from_str(list.get()).unwrap_or_default();
    all.into_iter().filter_map(|element| serde_json::from_str(element.get()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    use std::fmt::Write as _;

    #[test]
    fn half_of_a_surrogate_pair_is_replaced_alone() {
        for (json, text) in [
            (r#""a \ud83d b""#, "a \u{fffd} b"),
            (r#""\udE00""#, "\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\ud83d\\ude00""#, "\u{fffd}\\ude00"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\\\ud83d""#, "\\\u{fffd}"),
            (r#""\uD83D\uDE00 \n\"""#, "😀 \n\""),
        ] {
            let read: String = serde_json::from_str(&repaired(json.as_bytes())).unwrap();
            assert_eq!(read, text, "{json}");
        }
    }

    #[test]
    fn bytes_that_json_does_not_allow_are_replaced() {
        let json = b"\0\0{\"a\":\"b\xffc\x01d\"}\0\r";
        let read: Value = serde_json::from_str(&repaired(json)).unwrap();
        assert_eq!(read, serde_json::json!({ "a": "b\u{fffd}c d" }));
    }

    #[test]
    fn elements_of_other_kinds_are_skipped() {
        let list = RawValue::from_string(r#"["a",7,{"b":1},null,"c"]"#.to_owned()).unwrap();
        assert_eq!(elements::<String>(&list), ["a", "c"]);
        let none = RawValue::from_string(r#"{"a":1}"#.to_owned()).unwrap();
        assert_eq!(elements::<String>(&none), [""; 0]);
    }

    proptest! {
        #[test]
        fn any_string_of_units_is_read(units in prop::collection::vec(any::<u16>(), 0..20)) {
            let mut json = String::from("\"");
            units.iter().for_each(|unit| write!(json, "\\u{unit:04x}").unwrap());
            json.push('"');
            let read: String = serde_json::from_str(&repaired(json.as_bytes())).unwrap();
            prop_assert_eq!(read, String::from_utf16_lossy(&units));
        }

        #[test]
        fn valid_json_is_unchanged(text in any::<String>()) {
            let json = Value::from(text).to_string();
            prop_assert_eq!(&*repaired(json.as_bytes()), &*json);
        }
    }
}
