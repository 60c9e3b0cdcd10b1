//! Search for a key pressed together with Ctrl, in each encoding that terminals use.

use super::encoded::{CsiKey, Win32Key};
use crate::bridge::escape::{ESC, Sender, Token, Tokenizer};

/// Returns where in a terminal's bytes Ctrl and a key were pressed. The key is given by its
/// lower-case letter or its sign.
///
/// The encodings are the control character, `CSI 92;5u`, `CSI 27;5;92~`, and that of Windows.
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
        match tokenizer.next(byte) {
            Some(Token::Csi { parameters, last: b'_' }) => {
                let pressed = Win32Key::parse(parameters).filter(|key| key.has(Win32Key::CTRL));
                if pressed.is_some_and(|key| key.character() == Some(control.into())) {
                    return Some(escape_at);
                }
            }
            Some(Token::Csi { parameters, last }) => {
                let pressed = CsiKey::parse(parameters, last);
                if pressed.is_some_and(|pressed| pressed.matches(key.into(), CsiKey::CTRL)) {
                    return Some(escape_at);
                }
            }
            _ => {}
        }
    }
    None
}
