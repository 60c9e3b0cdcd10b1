//! Keys that terminals encode as control sequences, with their modifiers.

use super::key::Key;

/// A key in an encoding that programs ask terminals for: `CSI 92;5u`, or `CSI 27;5;92~`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CsiKey {
    code: u32,
    modifiers: u32,
}

impl CsiKey {
    /// The Ctrl modifier.
    pub(super) const CTRL: u32 = 0b100;
    const SHIFT: u32 = 0b1;
    const ALT: u32 = 0b10;
    /// All modifiers except Caps Lock and Num Lock.
    const MODIFIERS: u32 = 0b11_1111;

    const ENTER: u32 = 13;
    const ESCAPE: u32 = 27;
    const LETTER_J: u32 = b'j' as u32;

    /// Parses the parameters and the last byte of a control sequence; `None` for the release of a
    /// key and for other sequences.
    pub(super) fn parse(parameters: &[u8], last: u8) -> Option<Self> {
        let mut fields = str::from_utf8(parameters).ok()?.split(';');
        let (code, modifiers) = match last {
            b'u' => (fields.next()?, fields.next()),
            b'~' if fields.next() == Some("27") => {
                let modifiers = fields.next();
                (fields.next()?, modifiers)
            }
            _ => return None,
        };
        let code = code.split(':').next()?.parse().ok()?;
        let modifiers = modifiers.and_then(|modifiers| modifiers.split(':').next()?.parse().ok());
        let modifiers = modifiers.unwrap_or(1_u32).saturating_sub(1) & Self::MODIFIERS;
        (!is_release(parameters)).then_some(Self { code, modifiers })
    }

    /// Whether this is the key of `character`, pressed with exactly these modifiers.
    pub(super) fn matches(self, character: char, modifiers: u32) -> bool {
        (self.code, self.modifiers) == (character.into(), modifiers)
    }

    pub(super) fn effect(self) -> Key {
        let character = u8::try_from(self.code).ok();
        match (self.code, self.modifiers) {
            (Self::ENTER, 0) => Key::Submit,
            (Self::ENTER, _) | (Self::LETTER_J, Self::CTRL) => Key::LineBreak,
            (Self::ESCAPE, 0) => Key::Escape,
            // The codes of the lock keys and of the modifier keys themselves.
            (57358..=57363 | 57441..=57454, _) => Key::NoEffect,
            (_, modifiers) if modifiers & Self::ALT != 0 => Key::MayChangeMode,
            (_, Self::CTRL) => {
                let letter = character.filter(|byte| matches!(byte, b'a'..=b'z' | b']'));
                letter.map_or(Key::MayEdit, |letter| Key::of_character(letter & 0x1f))
            }
            (_, modifiers) if modifiers & !Self::SHIFT != 0 => Key::MayEdit,
            _ => character.map_or(Key::Text, Key::of_character),
        }
    }
}

/// Whether a control sequence reports that a key was released: `CSI 97;1:3u`, `CSI 1;1:3A`.
pub(super) fn is_release(parameters: &[u8]) -> bool {
    let modifiers = parameters.split(|&byte| byte == b';').nth(1);
    modifiers.and_then(|modifiers| modifiers.split(|&byte| byte == b':').nth(1)) == Some(b"3")
}

/// A key as Windows consoles encode it in the win32-input-mode (`CSI ? 9001 h`).
///
/// The sequence is `CSI Vk ; Sc ; Uc ; Kd ; Cs ; Rc _`: the virtual key, its scan code, its
/// character as a UTF-16 unit, whether it went down, the modifiers, and how often it repeats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Win32Key {
    virtual_key: u32,
    /// The character, if the key types one; U+FFFD for one half of a surrogate pair.
    pub(super) character: Option<char>,
    modifiers: u32,
}

impl Win32Key {
    /// Either Alt key.
    pub(super) const ALT: u32 = 0x3;
    /// Either Ctrl key; with Alt it is AltGr.
    pub(super) const CTRL: u32 = 0xc;
    pub(super) const SHIFT: u32 = 0x10;

    /// The Alt key. A person can hold Alt and type a character's number; the release of Alt then
    /// carries the character.
    const VK_MENU: u32 = 0x12;
    /// Shift, Ctrl, Alt, Caps Lock, the Windows keys, Num Lock and Scroll Lock.
    const MODIFIER_KEYS: [u32; 8] = [0x10, 0x11, 0x12, 0x14, 0x5b, 0x5c, 0x90, 0x91];

    /// Parses the parameters of a sequence that ends in `_`; `None` for the release of a key.
    pub(super) fn parse(parameters: &[u8]) -> Option<Self> {
        let text = str::from_utf8(parameters).ok()?;
        let mut numbers = text.split(';').map(|number| number.parse::<u32>().unwrap_or(0));
        let [virtual_key, _, unit, down, modifiers] =
            std::array::from_fn(|_| numbers.next().unwrap_or(0));
        if down == 0 && (virtual_key != Self::VK_MENU || unit == 0) {
            return None;
        }
        let is_surrogate = (0xd800..0xe000).contains(&unit);
        let unit = if is_surrogate { u32::from(char::REPLACEMENT_CHARACTER) } else { unit };
        let character = char::from_u32(unit).filter(|&c| c != '\0');
        Some(Self { virtual_key, character, modifiers })
    }

    /// Whether any of these modifiers was down.
    pub(super) fn has(self, modifiers: u32) -> bool {
        self.modifiers & modifiers != 0
    }

    pub(super) fn is_modifier(self) -> bool {
        Self::MODIFIER_KEYS.contains(&self.virtual_key)
    }
}
