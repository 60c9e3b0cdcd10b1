//! The terminal colours that a program has changed, in any notation.

/// How many bytes of a string are examined. A change of colours is shorter.
const BYTES_MAX: usize = 128;

/// The changed colours, according to the OSC strings that a program has printed.
#[derive(Default)]
pub(super) struct ChangedColours {
    pub(super) foreground: bool,
    pub(super) background: bool,
    pub(super) cursor: bool,
    /// Whether the palette has changed colours. It does not count which ones a reset restores.
    pub(super) palette: bool,
    /// The beginning of the current string.
    string: Vec<u8>,
}

impl ChangedColours {
    /// Notes a byte of an OSC string.
    pub(super) fn add(&mut self, byte: u8) {
        if self.string.len() < BYTES_MAX {
            self.string.push(byte);
        }
    }

    /// Notes the end of an OSC string.
    pub(super) fn end(&mut self) {
        let string = std::mem::take(&mut self.string);
        let text = String::from_utf8_lossy(&string);
        let mut words = text.split(';');
        let code: u32 = words.next().and_then(|code| code.parse().ok()).unwrap_or_default();
        match code {
            4 => self.palette |= words.skip(1).step_by(2).any(is_colour),
            10..=12 => {
                for (code, _) in (code..).zip(words).filter(|(_, word)| is_colour(word)) {
                    self.set(code, true);
                }
            }
            104 => self.palette = false,
            110..=112 => self.set(code - 100, false),
            _ => {}
        }
    }

    /// Notes whether the colour that this code sets is changed.
    fn set(&mut self, code: u32, is_changed: bool) {
        match code {
            10 => self.foreground = is_changed,
            11 => self.background = is_changed,
            12 => self.cursor = is_changed,
            _ => {}
        }
    }
}

/// Whether a word is a colour rather than a query for one.
fn is_colour(word: &str) -> bool {
    !matches!(word, "" | "?")
}
