//! Searches for words, which may be any parts of a text.
//!
//! Texts and words are compared without case and accents. The index has the texts in pieces of
//! three characters, so that it also finds words of languages that put no spaces between them. It
//! is begun once somebody searches, and then follows in idle times. Shorter words, and messages
//! that are not indexed yet, are found by reading the messages.
//!
//! SQLite cannot be interrupted while it looks in the index for the next text, and it takes long to
//! compare the places of pieces that a text has thousands of times. So it only finds the texts that
//! have some of the pieces. Reading these texts shows whether they have the words.
//!
//! Indexing a text cannot be interrupted, and a SEND that arrives meanwhile waits for its end. So
//! long texts are not indexed. Their entry is a mark: a search finds the mark and reads the text.

use super::row::signed;
use protocol::{deliver::Shared, payload::MessagePayload, typed};
use rusqlite::{Connection, functions::FunctionFlags, params};
use std::{borrow::Cow, collections::BTreeSet};
use unicode_normalization::UnicodeNormalization as _;

/// The characters of the index's pieces.
const PIECE_CHARS: usize = 3;

/// The most pieces by which the index finds a text.
const PIECES_MAX: usize = 32;

/// The most bytes of a text that is indexed, as the index gets it.
pub(super) const INDEXED_BYTES_MAX: usize = 16 << 10;

/// The character between two words. No word has it.
const SEPARATOR: &str = "\n";

/// The entry of a longer text. No word has a control character.
const MARK: &str = "\u{1}\u{1}\u{1}";

/// The expression that finds these entries.
pub(super) const MARK_EXPRESSION: &str = "\"\u{1}\u{1}\u{1}\"";

/// Adds the text of a message's body to the index. Returns the bytes that it got.
pub(super) fn index(
    connection: &Connection,
    number: u64,
    shared: &[u8],
) -> rusqlite::Result<usize> {
    let Some(body) = body(shared) else { return Ok(0) };
    let is_short = |text: &Cow<'_, str>| text.len() <= INDEXED_BYTES_MAX;
    let short = Some(body).filter(is_short);
    let short = short.as_deref().map(folded).filter(is_short);
    let entry = short.as_deref().unwrap_or(MARK);
    connection
        .prepare_cached("INSERT OR REPLACE INTO words (rowid, body) VALUES (?, ?)")?
        .execute(params![signed(number), entry])?;
    Ok(entry.len())
}

/// Adds the SQL function `has_words(shared, words)` to a connection: whether a message's body has
/// all of some words, which are [folded](Words::all).
pub(super) fn add_function(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("has_words", 2, flags, |context| {
        let (shared, words) = (context.get_raw(0), context.get_raw(1));
        let (Ok(shared), Ok(words)) = (shared.as_blob(), words.as_str()) else { return Ok(false) };
        let Some(body) = body(shared) else { return Ok(false) };
        let body = folded(&body);
        Ok(words.split(SEPARATOR).all(|word| body.contains(word)))
    })
}

/// Words to search for.
#[derive(Clone, Debug)]
pub(super) struct Words {
    /// The words, folded, with [separators](SEPARATOR).
    pub(super) all: String,
    /// The expression by which the index finds texts with pieces of the words; `None` if all words
    /// are shorter than a piece.
    pub(super) expression: Option<String>,
    /// Whether the words are pieces, so that these texts need not be read.
    pub(super) are_pieces: bool,
}

impl Words {
    /// Reads what was asked for. `None` if it has no word with a letter or digit.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let words = text.split(|c: char| c.is_whitespace() || c.is_control());
        let words = words.filter(|word| word.contains(char::is_alphanumeric)).map(folded);
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            return None;
        }
        let pieces: BTreeSet<_> = words.iter().flat_map(|word| pieces(word)).collect();
        let pieces: BTreeSet<_> = pieces.into_iter().take(PIECES_MAX).collect();
        let terms: Vec<_> =
            pieces.iter().map(|piece| format!("\"{}\"", piece.replace('"', "\"\""))).collect();
        Some(Self {
            all: words.join(SEPARATOR),
            expression: (!terms.is_empty()).then(|| terms.join(" ")),
            are_pieces: words.iter().all(|word| pieces.contains(&**word)),
        })
    }
}

/// The pieces of a word.
fn pieces(word: &str) -> impl Iterator<Item = &str> {
    let ends = word.char_indices().map(|(start, c)| start + c.len_utf8());
    let starts = word.char_indices().map(|(start, _)| start);
    starts.zip(ends.skip(PIECE_CHARS - 1)).map(|(start, end)| &word[start..end])
}

/// A text without case and accents.
fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => text.to_ascii_lowercase().into(),
            false => text.into(),
        };
    }
    // Marks of other scripts are parts of letters.
    let without_accents = text.nfkd().filter(|c| !('\u{300}'..='\u{36f}').contains(c));
    let letters = without_accents.nfc().flat_map(char::to_lowercase);
    letters.map(|c| if c == 'ς' { 'σ' } else { c }).collect()
}

/// The text of a message, unless it is damaged or its payload is of another kind.
fn body(shared: &[u8]) -> Option<Cow<'_, str>> {
    let payload = Shared::read(shared)?.payload.get();
    let payload: MessagePayload<'_> = typed::read(payload).ok()?;
    Some(payload.body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::deliver;

    #[test]
    fn body_is_read_from_the_shared_part() {
        let read = |payload| {
            let mut shared = Vec::new();
            deliver::append_shared(&mut shared, "Ann", Some("t"), payload, Some("{}"));
            body(&shared).map(Cow::into_owned)
        };
        assert_eq!(read(r#"{"kind":"message","body":"caf\u00e9"}"#).as_deref(), Some("café"));
        assert_eq!(read(r#"{"body":7}"#), None);
        assert_eq!(body(b"\xff{"), None);
    }

    #[test]
    fn texts_are_compared_without_case_and_accents() {
        for (text, expected) in [
            ("Already plain", "already plain"),
            ("Käse ÉTÉ ñandú Łódź", "kase ete nandu łodz"),
            ("ＡＢＣ ﬁne ǅ", "abc fine dz"),
            ("部署完成 İ", "部署完成 i"),
            ("ハス バス 서버 कि", "ハス バス 서버 कि"),
            ("ΟΔΟΣ Οδός", "οδοσ οδοσ"),
        ] {
            assert_eq!(folded(text), expected);
        }
    }

    #[test]
    fn index_finds_pieces_of_long_words() {
        let parse = |text| Words::parse(text).map(|it| (it.all, it.expression, it.are_pieces));
        let some = |all: &str, expression: Option<&str>, are_pieces| {
            Some((all.to_owned(), expression.map(str::to_owned), are_pieces))
        };
        assert_eq!(parse("Port 808"), some("port\n808", Some("\"808\" \"ort\" \"por\""), false));
        assert_eq!(parse("TCP udp"), some("tcp\nudp", Some("\"tcp\" \"udp\""), true));
        assert_eq!(
            parse("部署 y\"so\u{0}ok"),
            some("部署\ny\"so\nok", Some("\"\"\"so\" \"y\"\"s\""), false)
        );
        assert_eq!(parse("部署完成"), some("部署完成", Some("\"署完成\" \"部署完\""), false));
        assert_eq!(parse("部署"), some("部署", None, false));
        assert_eq!(parse("a\u{b4}b"), some("a b", Some("\"a b\""), true));
        assert_eq!(parse(" !! \u{1F600} \u{345}"), None);
    }

    #[test]
    fn no_search_makes_the_index_compare_many_pieces_or_their_places() {
        let letters = "a".repeat(1_900) + "b";
        let digits: String = (0..400).map(|number| number.to_string()).collect();
        for (text, terms) in [(&letters, 2), (&digits, PIECES_MAX)] {
            let words = Words::parse(text).unwrap();
            let expression = words.expression.unwrap();
            let found: Vec<_> = expression.split(' ').collect();
            assert_eq!(found.len(), terms, "{expression}");
            assert!(found.iter().all(|term| term.len() == PIECE_CHARS + 2), "{expression}");
            assert!(!words.are_pieces);
        }
    }
}
