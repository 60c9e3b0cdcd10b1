//! A validating scanner of JSON (RFC 8259) that builds no values.
//!
//! Every message passes once through this scanner, the daemon's innermost loop: an object is
//! scanned member by member, and each value is returned as text.

use std::borrow::Cow;

/// A position where a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotJson {
    /// The number of bytes before the error.
    pub(super) at: usize,
    /// The token that was expected.
    pub(super) expected: &'static str,
}

/// The bytes of a string that are checked together, with vector instructions.
const CHUNK_BYTES: usize = 32;

/// Scans a text that is one object, possibly with white space around it.
///
/// `found` is called with each member: its key without quotes, and its value's text. If the text is
/// not JSON, `found` was called with the members before the error. If a value only nests too deep,
/// `found` was also called with the members after it.
pub(super) fn members<'a>(
    text: &'a str,
    mut found: impl FnMut(&'a str, &'a str),
) -> Result<(), NotJson> {
    let mut scanner = Scanner { text, at: 0, too_deep: None };
    scanner.skip_blanks();
    scanner.byte(b'{', "an object")?;
    scanner.members(&mut found)
}

/// Scans a text that is one object without its opening brace, like [`members`].
pub(super) fn members_without_brace<'a>(
    text: &'a str,
    mut found: impl FnMut(&'a str, &'a str),
) -> Result<(), NotJson> {
    Scanner { text, at: 0, too_deep: None }.members(&mut found)
}

/// Returns the text of a JSON string: borrowed where it has no escapes, else owned. Returns `None`
/// for a value that is not a string, or not Unicode text (half of a surrogate pair).
pub(super) fn unquoted(json: &str) -> Option<Cow<'_, str>> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }
    serde_json::from_str(json).ok().map(Cow::Owned)
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// The position of a value that nests too deep.
    too_deep: Option<NotJson>,
}

/// The kind of a container that is open.
#[derive(Clone, Copy, PartialEq)]
enum Opened {
    Array,
    Object,
}

impl<'a> Scanner<'a> {
    /// Scans the members of an object after its opening brace, and the end of the text.
    fn members(mut self, found: &mut impl FnMut(&'a str, &'a str)) -> Result<(), NotJson> {
        self.skip_blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
        } else {
            loop {
                let key = self.key()?;
                let start = self.at;
                self.value()?;
                found(key, &self.text[start..self.at]);
                self.skip_blanks();
                if self.peek() != Some(b',') {
                    break;
                }
                self.at += 1;
                self.skip_blanks();
            }
            self.byte(b'}', "a comma or the object's end")?;
        }
        self.skip_blanks();
        if self.at < self.text.len() {
            return self.expected("nothing after the object");
        }
        self.too_deep.map_or(Ok(()), Err)
    }

    /// Scans a key and the colon. Returns the key.
    fn key(&mut self) -> Result<&'a str, NotJson> {
        let start = self.at;
        self.string()?;
        let key = &self.text[start + 1..self.at - 1];
        self.skip_blanks();
        self.byte(b':', "a colon")?;
        self.skip_blanks();
        Ok(key)
    }

    /// Scans a value of any kind. One bit for each open object or array suffices, because no frame
    /// may nest deeper than 128.
    fn value(&mut self) -> Result<(), NotJson> {
        let mut objects = 0_u128;
        let mut depth = 0;
        loop {
            if let Some(opened) = self.begin()? {
                if depth < u128::BITS {
                    objects = objects << 1 | u128::from(opened == Opened::Object);
                    depth += 1;
                    if opened == Opened::Object {
                        self.key()?;
                    }
                    continue;
                }
                self.skip_too_deep()?;
            }
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let is_object = objects & 1 == 1;
                self.skip_blanks();
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.skip_blanks();
                        if is_object {
                            self.key()?;
                        }
                        break;
                    }
                    Some(b'}') if is_object => self.at += 1,
                    Some(b']') if !is_object => self.at += 1,
                    _ => return self.expected("a comma or an end"),
                }
                objects >>= 1;
                depth -= 1;
            }
        }
    }

    /// Skips the rest of an object or array that nests too deep, by its brackets alone.
    #[cold]
    fn skip_too_deep(&mut self) -> Result<(), NotJson> {
        self.too_deep = Some(NotJson { at: self.at, expected: "less depth" });
        let mut depth = 1_usize;
        while depth > 0 {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => depth -= 1,
                Some(_) => {}
                None => return self.expected("an end"),
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Scans a whole value, or only the opener of an object or array that is not empty.
    fn begin(&mut self) -> Result<Option<Opened>, NotJson> {
        match self.peek() {
            Some(b'"') => self.string()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true")?,
            Some(b'f') => self.word("false")?,
            Some(b'n') => self.word("null")?,
            Some(opener @ (b'{' | b'[')) => {
                self.at += 1;
                self.skip_blanks();
                // In ASCII, '}' and ']' are two after their openers.
                if self.peek() != Some(opener + 2) {
                    return Ok(Some(if opener == b'{' { Opened::Object } else { Opened::Array }));
                }
                self.at += 1;
            }
            _ => return self.expected("a value"),
        }
        Ok(None)
    }

    fn string(&mut self) -> Result<(), NotJson> {
        self.byte(b'"', "a string")?;
        loop {
            self.at = skip_plain(self.text.as_bytes(), self.at);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return self.expected("no control character in a string"),
                None => return self.expected("the string's end"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), NotJson> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let digits = self.text.as_bytes().get(self.at + 1..self.at + 5);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return self.expected("four hexadecimal digits");
                }
                self.at += 5;
            }
            _ => return self.expected("an escape"),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), NotJson> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { self.expected("a digit") }
    }

    fn word(&mut self, word: &'static str) -> Result<(), NotJson> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return self.expected(word);
        }
        self.at += word.len();
        Ok(())
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn byte(&mut self, byte: u8, expected: &'static str) -> Result<(), NotJson> {
        if self.peek() != Some(byte) {
            return self.expected(expected);
        }
        self.at += 1;
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expected<T>(&self, expected: &'static str) -> Result<T, NotJson> {
        Err(NotJson { at: self.at, expected })
    }
}

/// Returns the position of the first special byte of a string from `at` on, or the end.
///
/// Most strings are short, so 16 bytes are checked before the longer pieces.
fn skip_plain(bytes: &[u8], at: usize) -> usize {
    let mut rest = &bytes[at..];
    let place = |rest: &[u8]| bytes.len() - rest.len();
    for _ in 0..2 {
        let Some((eight, after)) = rest.split_first_chunk() else { break };
        if let Some(hit) = special_in(u64::from_le_bytes(*eight)) {
            return place(rest) + hit;
        }
        rest = after;
    }
    while let Some((piece, after)) = rest.split_first_chunk::<CHUNK_BYTES>() {
        // A branch within a piece would prevent vector instructions.
        if piece.iter().fold(0, |found, byte| found | u8::from(is_special(*byte))) != 0 {
            break;
        }
        rest = after;
    }
    while let Some((eight, after)) = rest.split_first_chunk() {
        if let Some(hit) = special_in(u64::from_le_bytes(*eight)) {
            return place(rest) + hit;
        }
        rest = after;
    }
    place(rest) + rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len())
}

fn is_special(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// Returns the index of the first special byte among eight, of which the first is in the lowest
/// bits. A hit may borrow from the byte after it, so only the first hit is exact, which suffices.
fn special_in(eight: u64) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let zero_in = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes;
    let control = eight.wrapping_sub(ONES * 0x20) & !eight;
    let quote = zero_in(eight ^ (ONES * u64::from(b'"')));
    let backslash = zero_in(eight ^ (ONES * u64::from(b'\\')));
    let hits = (control | quote | backslash) & (ONES * 0x80);
    (hits != 0).then(|| hits.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    fn is_json_object(text: &str) -> bool {
        members(text, |_, _| {}).is_ok()
    }

    fn agrees(text: &str) {
        let theirs = text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{')
            && serde_json::from_str::<IgnoredAny>(text).is_ok();
        assert_eq!(is_json_object(text), theirs, "{text:?}");
    }

    #[test]
    fn members_are_returned_as_text() {
        let mut found = Vec::new();
        let text = r#" { "a" : [ 1 , {"b":[]} ] ,"\u0061\"":"x\\" , "":-1.5E+3} "#;
        members(text, |key, value| found.push((key, value))).unwrap();
        assert_eq!(
            found,
            [("a", r#"[ 1 , {"b":[]} ]"#), (r#"\u0061\""#, r#""x\\""#), ("", "-1.5E+3")]
        );
    }

    #[test]
    fn grammar_agrees_with_serde_json() {
        for value in [
            "0",
            "-0",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "1e+",
            "1E-7",
            "1.0e9",
            "+1",
            "0x1",
            "1e999",
            "true",
            "tru",
            "nul",
            "nulll",
            "[",
            "]",
            "[]",
            "[ ]",
            "[1]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{}",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":1 \"b\":2}",
            "[{]}",
            "{[}]",
            "[}",
            "{]",
            "\"",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12G4\"",
            "\"\\ud800\"",
            "\"\u{1}\"",
            "\"\t\"",
            "\"\u{7f}\"",
            "\"é\"",
            "\"\\/\"",
            "",
            " ",
        ] {
            agrees(&format!("{{\"k\":{value}}}"));
            agrees(&format!("{{\"k\":[{{}},{value},\"{}\"]}}", "x".repeat(100)));
            agrees(value);
        }
        for text in ["{}", "{} ", "{}x", "{}{}", "[]", "{\"a\":1}\u{c}", "{\u{a0}}"] {
            agrees(text);
        }
    }

    #[test]
    fn special_byte_is_found_at_every_position() {
        for special in ['"', '\\', '\u{1f}', '\0'] {
            for length in 0..80 {
                for other in ['a', ' ', '!', '#', '[', ']', '\u{7f}', 'é', '\u{a2}'] {
                    let text = format!("{}{special}zzzz\"", other.to_string().repeat(length));
                    let place = text.find(special).unwrap();
                    assert_eq!(skip_plain(text.as_bytes(), 0), place, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn depth_is_limited() {
        let nested =
            |depth: usize| format!("{{\"k\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(is_json_object(&nested(128)));
        assert!(!is_json_object(&nested(129)));
    }

    #[test]
    fn members_after_a_too_deep_value_are_found() {
        let found = |json: &str| {
            let mut keys = Vec::new();
            let outcome = members(json, |key, _| keys.push(key.to_owned()));
            (keys.concat(), outcome.map_err(|bad| bad.expected))
        };
        let (open, close) = ("[".repeat(500), "]".repeat(500));
        let inner = r#"{"x":"]\"é"},é"#;
        assert_eq!(
            found(&format!(r#"{{"a":1,"b":{open}{inner}{close},"c":[{{}}]}} "#)),
            ("abc".to_owned(), Err("less depth"))
        );
        assert_eq!(found(&format!(r#"{{"a":1,"b":{open}"#)), ("a".to_owned(), Err("an end")));
        assert_eq!(
            found(&format!(r#"{{"b":{open}{close},"c":}}"#)),
            ("b".to_owned(), Err("a value"))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_judged_as_by_serde_json(text in "[\\[\\]{}:,\"\\\\ a0-9eE.+tnu-]{0,24}") {
            agrees(&text);
            agrees(&format!("{{\"k\":{text}}}"));
            agrees(&format!("{{\"k\":\"{text}\"}}"));
        }
    }
}
