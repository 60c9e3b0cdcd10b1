//! The key that detaches a terminal.

use std::{fmt, str::FromStr};
use terminal::keys::find_ctrl;

/// A key pressed together with Ctrl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DetachKey(u8);

impl Default for DetachKey {
    fn default() -> Self {
        Self(b'\\')
    }
}

/// Parses `ctrl-x`, `^x` or `C-x`.
impl FromStr for DetachKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let key = ["ctrl-", "ctrl+", "c-", "^"].iter().find_map(|start| lower.strip_prefix(start));
        match key.map(str::as_bytes) {
            // Ctrl-I is Tab, Ctrl-J and Ctrl-M are Enter, Ctrl-[ is Escape.
            Some([key @ (b'a'..=b'z' | b'@' | b'\\' | b']' | b'^' | b'_')])
                if !b"ijm".contains(key) =>
            {
                Ok(Self(*key))
            }
            _ => Err(format!("{text:?} is no key to detach with: take one like ctrl-]")),
        }
    }
}

/// Formats the key like `Ctrl-X`.
impl fmt::Display for DetachKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ctrl-{}", char::from(self.0.to_ascii_uppercase()))
    }
}

impl DetachKey {
    /// Ctrl-C.
    pub(crate) const INTERRUPT: Self = Self(b'c');

    /// Returns the position of the key in a terminal's bytes, if it was pressed.
    #[must_use]
    pub(crate) fn find(self, bytes: &[u8]) -> Option<usize> {
        find_ctrl(bytes, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_found_in_every_encoding() {
        let key = DetachKey::default();
        assert_eq!(key.to_string(), "Ctrl-\\");
        for (bytes, place) in [
            (&b"ls\x1c"[..], Some(2)),
            (b"\x1b[92;5u", Some(0)),
            (b"x\x1b[92;133u", Some(1)),
            (b"\x1b[92::92;5:1uy", Some(0)),
            (b"\x1b[27;5;92~", Some(0)),
            (b"x\x1b[220;43;28;1;8;1_", Some(1)),
            (b"\x1b[220;43;28;0;8;1_", None),
            (b"\x1b[220;43;92;1;0;1_", None),
            (b"\x1b[92;5:3u", None),
            (b"\x1b[92;1u", None),
            (b"\x1b[92;7u", None),
            (b"\x1b[92u", None),
            (b"\x1b[93;5u", None),
            (b"\x1b[1;5A", None),
            (b"\x1b[", None),
            (b"\\", None),
            (b"\xff\xfe", None),
            (b"", None),
        ] {
            assert_eq!(key.find(bytes), place, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn named_key_is_parsed() {
        for (text, byte) in [("ctrl-]", 0x1d), ("^a", 1), ("C-Q", 0x11), ("Ctrl+_", 0x1f)] {
            assert_eq!(text.parse::<DetachKey>().unwrap().find(&[byte]), Some(0), "{text}");
        }
        assert_eq!("^q".parse::<DetachKey>().unwrap().find(b"\x1b[113;5u"), Some(0));
        for text in ["", "q", "ctrl-", "ctrl-ab", "ctrl-m", "^[", "F1", "ctrl-\u{e4}"] {
            let refused = text.parse::<DetachKey>().unwrap_err();
            assert!(refused.contains("take one like ctrl-]"), "{refused}");
        }
    }
}
