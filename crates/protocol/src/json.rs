//! A validating scanner of JSON (RFC 8259) that builds no values.
//!
//! Every message passes once through this scanner, the daemon's innermost loop: an object is
//! scanned member by member, and each value is returned as text.

use memchr::{memchr, memchr2};
use std::borrow::Cow;

/// A position where a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotJson {
    /// The number of bytes before the error.
    pub(super) at: usize,
    /// The token that was expected.
    pub(super) expected: &'static str,
}

/// The most objects and arrays that are open at once in a text.
pub(super) const DEPTH_MAX: u32 = 128;

/// Scans a text that is one object, possibly with white space around it.
///
/// `found` is called with each member: its key without quotes, and its value's text. If the text is
/// not JSON, `found` was called with the members before the error. If a value only nests too deep,
/// `found` was also called with the members after it.
pub(super) fn members<'a>(
    text: &'a str,
    found: impl FnMut(&'a str, &'a str),
) -> Result<(), NotJson> {
    let mut scanner = Scanner::new(text);
    scanner.skip_blanks();
    let _ = scanner.byte(b'{', "an object").and_then(|()| scanner.members(found));
    scanner.outcome()
}

/// Scans a text that is one object without its opening brace, like [`members`].
pub(super) fn members_without_brace<'a>(
    text: &'a str,
    found: impl FnMut(&'a str, &'a str),
) -> Result<(), NotJson> {
    let mut scanner = Scanner::new(text);
    let _ = scanner.members(found);
    scanner.outcome()
}

/// Returns the text of a JSON string: borrowed where it has no escapes, else owned. Returns `None`
/// for a value that is not a string, or not Unicode text (half of a surrogate pair).
pub(super) fn unquoted(json: &str) -> Option<Cow<'_, str>> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr(b'\\', text.as_bytes()).is_none() {
        return Some(Cow::Borrowed(text));
    }
    serde_json::from_str(json).ok().map(Cow::Owned)
}

/// A scanner's position in a text. Its methods return `None` after an error, which the scanner
/// remembers, so that what they return fits into a register.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// Whether the text has a control character, which is allowed between values only.
    has_controls: bool,
    error: Option<NotJson>,
}

/// The beginning of a value.
#[derive(Clone, Copy, PartialEq)]
enum Begun {
    /// A whole value that nests nothing.
    Whole,
    /// A whole object or array without members.
    Empty,
    /// The opener of an array.
    Array,
    /// The opener of an object.
    Object,
}

/// Steps through a text of a known form.
impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let has_controls = has_controls(text.as_bytes());
        Self { text, at: 0, has_controls, error: None }
    }

    /// Scans this text.
    #[inline]
    pub(super) fn literal(&mut self, text: &str) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += if rest.starts_with(text.as_bytes()) { text.len() } else { return None };
        Some(())
    }

    /// Scans the rest of a string without escapes, after its opening quote. Returns its text.
    #[inline]
    pub(super) fn rest_of_string(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.at = skip_plain(self.text.as_bytes(), start) + 1;
        let is_plain = !self.has_controls && self.text.as_bytes().get(self.at - 1) == Some(&b'"');
        if is_plain { self.text.get(start..self.at - 1) } else { None }
    }

    /// Scans an object. Returns its text.
    #[inline]
    pub(super) fn object(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.value()?;
        self.text.get(start..self.at).filter(|text| text.starts_with('{'))
    }

    /// Whether the whole text was scanned without an error.
    pub(super) fn is_done(&self) -> bool {
        self.at == self.text.len() && self.error.is_none()
    }
}

impl<'a> Scanner<'a> {
    fn outcome(self) -> Result<(), NotJson> {
        self.error.map_or(Ok(()), Err)
    }

    /// Scans the members of an object after its opening brace, and the end of the text.
    fn members(&mut self, mut found: impl FnMut(&'a str, &'a str)) -> Option<()> {
        self.skip_blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
        } else {
            loop {
                let start = self.at;
                let end = self.key()?;
                let key = &self.text[start + 1..end - 1];
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
        Some(())
    }

    /// Scans a key and the colon. Returns the end of the key.
    fn key(&mut self) -> Option<usize> {
        self.string()?;
        let end = self.at;
        self.skip_blanks();
        self.byte(b':', "a colon")?;
        self.skip_blanks();
        Some(end)
    }

    /// Scans a value of any kind in an object. One bit for each open object or array suffices.
    fn value(&mut self) -> Option<()> {
        let mut objects = 0_u128;
        // The object around the value is open as well.
        let mut depth = 1;
        loop {
            match self.begin()? {
                Begun::Whole => {}
                Begun::Empty if depth < DEPTH_MAX => {}
                Begun::Empty => self.error = Some(self.too_deep()),
                Begun::Array | Begun::Object if depth == DEPTH_MAX => self.skip_too_deep()?,
                opened => {
                    let is_object = opened == Begun::Object;
                    objects = objects << 1 | u128::from(is_object);
                    depth += 1;
                    if is_object {
                        self.key()?;
                    }
                    continue;
                }
            }
            loop {
                if depth == 1 {
                    return Some(());
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
    fn skip_too_deep(&mut self) -> Option<()> {
        self.error = Some(self.too_deep());
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
        Some(())
    }

    const fn too_deep(&self) -> NotJson {
        NotJson { at: self.at, expected: "less depth" }
    }

    /// Scans a whole value, or only the opener of an object or array that is not empty.
    fn begin(&mut self) -> Option<Begun> {
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
                    return Some(if opener == b'{' { Begun::Object } else { Begun::Array });
                }
                self.at += 1;
                return Some(Begun::Empty);
            }
            _ => return self.expected("a value"),
        }
        Some(Begun::Whole)
    }

    fn string(&mut self) -> Option<()> {
        self.byte(b'"', "a string")?;
        loop {
            let start = self.at;
            let end = skip_plain(self.text.as_bytes(), start);
            if self.has_controls && has_controls(&self.text.as_bytes()[start..end]) {
                return self.expected("no control character in a string");
            }
            self.at = end;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Some(());
                }
                Some(_) => self.escape()?,
                None => return self.expected("the string's end"),
            }
        }
    }

    #[cold]
    fn escape(&mut self) -> Option<()> {
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
        Some(())
    }

    pub(super) fn number(&mut self) -> Option<()> {
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
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Some(()) } else { self.expected("a digit") }
    }

    fn word(&mut self, word: &'static str) -> Option<()> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return self.expected(word);
        }
        self.at += word.len();
        Some(())
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    #[inline]
    fn byte(&mut self, byte: u8, expected: &'static str) -> Option<()> {
        if self.peek() != Some(byte) {
            return self.expected(expected);
        }
        self.at += 1;
        Some(())
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Notes an error of the grammar, which takes precedence over too much depth.
    #[cold]
    fn expected<T>(&mut self, expected: &'static str) -> Option<T> {
        self.error = Some(NotJson { at: self.at, expected });
        None
    }
}

/// Whether a byte is a control character. The loop has no branches, so that the compiler can use
/// vector instructions.
fn has_controls(bytes: &[u8]) -> bool {
    bytes.iter().fold(u8::MAX, |least, byte| least.min(*byte)) < 0x20
}

/// Returns the position of the first quote or backslash from `at` on, or the end.
///
/// Most strings are short, so that eight bytes are checked before the rest.
#[inline]
fn skip_plain(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    if let Some((eight, _)) = rest.split_first_chunk()
        && let Some(hit) = special_in(u64::from_le_bytes(*eight))
    {
        return at + hit;
    }
    memchr2(b'"', b'\\', rest).map_or(bytes.len(), |hit| at + hit)
}

/// Returns the index of the first quote or backslash among eight little-endian bytes. A hit may
/// borrow from the byte after it, so only the first hit is exact.
#[inline]
fn special_in(eight: u64) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let zero_in = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes;
    let quote = zero_in(eight ^ (ONES * u64::from(b'"')));
    let backslash = zero_in(eight ^ (ONES * u64::from(b'\\')));
    let hits = (quote | backslash) & (ONES * 0x80);
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
        for special in ['"', '\\'] {
            for length in 0..80 {
                for other in ['a', ' ', '!', '#', '[', ']', '\u{7f}', 'é', '\u{a2}', '\0'] {
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
        assert!(is_json_object(&nested(127)));
        assert!(!is_json_object(&nested(128)));
        assert!(!is_json_object(&nested(128).replace('1', "")));
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
