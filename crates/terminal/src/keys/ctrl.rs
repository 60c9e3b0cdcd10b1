//! Search for a key pressed together with Ctrl, in every encoding that terminals use.

use super::encoded::{CsiKey, Win32Key};
use crate::escape::{ESC, Sender, Token, Tokenizer};

/// Returns the position where a terminal's bytes contain Ctrl with a key. The key is given by its
/// lower-case letter or its sign.
///
/// Terminals encode such a key as a control character, as `CSI 92;5u`, as `CSI 27;5;92`, or in the
/// win32-input-mode.
#[must_use]
pub fn find_ctrl(bytes: &[u8], key: u8) -> Option<usize> {
    let control = key & 0x1f;
    let mut tokenizer = Tokenizer::new(Sender::Keyboard);
    let mut escape_at = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            _ if byte == control => return Some(at),
            ESC => escape_at = at,
            _ => {}
        }
        let is_pressed = match tokenizer.next(byte) {
            Some(Token::Csi { parameters, last: b'_' }) => {
                let pressed = Win32Key::parse(parameters).filter(|key| key.has(Win32Key::CTRL));
                pressed.is_some_and(|key| key.character == Some(control.into()))
            }
            Some(Token::Csi { parameters, last }) => CsiKey::parse(parameters, last)
                .is_some_and(|pressed| pressed.matches(key.into(), CsiKey::CTRL)),
            _ => false,
        };
        if is_pressed {
            return Some(escape_at);
        }
    }
    None
}
