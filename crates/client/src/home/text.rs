//! Texts that people write, in the encodings of the editors and shells of every system.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The byte order mark of UTF-8, which some editors and Windows PowerShell's pipes write.
const UTF_8: &[u8] = b"\xef\xbb\xbf";

/// A byte order mark of UTF-16, which Windows PowerShell writes to files, and its byte order.
type Utf16 = (&'static [u8], fn([u8; 2]) -> u16);

const UTF_16: [Utf16; 2] = [(b"\xff\xfe", u16::from_le_bytes), (b"\xfe\xff", u16::from_be_bytes)];

/// The reason why bytes are not a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotText {
    /// No byte order mark, and not UTF-8.
    NotUtf8,
    /// A byte order mark of UTF-16, followed by invalid UTF-16.
    NotUtf16,
}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUtf8 => "it is not UTF-8",
            Self::NotUtf16 => "it begins as UTF-16 and is not",
        })
    }
}

impl From<NotText> for io::Error {
    fn from(why: NotText) -> Self {
        Self::new(io::ErrorKind::InvalidData, why.to_string())
    }
}

/// Decodes a text in UTF-8, or in UTF-16 if a byte order mark says so. The mark is left out.
///
/// # Errors
/// If the bytes are not a text.
pub(crate) fn decode(mut bytes: Vec<u8>) -> Result<String, NotText> {
    for (mark, unit) in UTF_16 {
        if let Some(rest) = bytes.strip_prefix(mark) {
            let (units, rest) = rest.as_chunks();
            let units: Vec<_> = units.iter().copied().map(unit).collect();
            let text = String::from_utf16(&units).ok().filter(|_| rest.is_empty());
            return text.ok_or(NotText::NotUtf16);
        }
    }
    if bytes.starts_with(UTF_8) {
        bytes.drain(..UTF_8.len());
    }
    String::from_utf8(bytes).map_err(|_| NotText::NotUtf8)
}

/// Reads the text of a file that people write.
pub fn read(path: &Path) -> io::Result<String> {
    // Opening a named pipe would wait for its other end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(decode(bytes)?)
}

/// Decodes a message's body, as UTF-8, or as UTF-16 if a byte order mark says so. Every line ends
/// with a newline alone then, as on every system.
///
/// # Errors
/// If the bytes are not a text.
pub fn body(bytes: Vec<u8>) -> Result<String, NotText> {
    let text = decode(bytes)?;
    Ok(if text.contains("\r\n") { text.replace("\r\n", "\n") } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Gr\u{fc}\u{df}e \u{1f600}\r\n";

    fn utf_16(mark: &[u8], bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        [mark.to_vec(), TEXT.encode_utf16().flat_map(bytes).collect()].concat()
    }

    #[test]
    fn text_is_decoded_by_its_mark_and_as_utf_8_without_one() {
        let (little, big) =
            (utf_16(b"\xff\xfe", u16::to_le_bytes), utf_16(b"\xfe\xff", u16::to_be_bytes));
        let marked = format!("\u{feff}{TEXT}").into_bytes();
        for bytes in [TEXT.as_bytes().to_vec(), marked, little, big] {
            assert_eq!(decode(bytes), Ok(TEXT.to_owned()));
        }
        for mark in [UTF_8, UTF_16[0].0, UTF_16[1].0, b""] {
            assert_eq!(decode(mark.to_vec()), Ok(String::new()));
        }
        assert_eq!(decode("a\u{feff}".into()), Ok("a\u{feff}".to_owned()), "it marks beginnings");
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        // An umlaut in the encoding of cmd and older programs, half a character, and an invalid
        // byte.
        for bytes in [&b"Gr\x81\xe1e"[..], b"a\xc3", b"\xef\xbb\xbf\xff"] {
            assert_eq!(decode(bytes.to_vec()), Err(NotText::NotUtf8));
        }
        for bytes in [&b"\xff\xfea"[..], b"\xff\xfe\x3d\xd8", b"\xfe\xff\xd8\x3d\0a"] {
            assert_eq!(decode(bytes.to_vec()), Err(NotText::NotUtf16));
        }
    }

    #[test]
    fn lines_of_a_body_end_with_a_newline_alone() {
        assert_eq!(body(b"a\r\nb\n\r\nc\rd\r\r\n".to_vec()), Ok("a\nb\n\nc\rd\r\n".to_owned()));
    }
}
