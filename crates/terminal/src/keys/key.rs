//! The keys, classed by their effect on the line that is being typed.

/// The known or possible effect of a key on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Adds text.
    Text,
    /// Adds a line break.
    LineBreak,
    /// Adds a line break or submits the line, as an Enter after a backslash does.
    LineBreakOrSubmit,
    /// May change the text.
    MayEdit,
    /// May change the text and the meaning of later keys.
    MayChangeMode,
    /// May change the meaning of later keys, as Escape does.
    Escape,
    /// Submits the line.
    Submit,
    /// Adds a line break or submits the line, depending on the program.
    LineFeed,
    /// Discards the line, as Ctrl+C does.
    Abandon,
    /// Leaves the line unchanged.
    NoEffect,
    /// Is no key: the terminal answers a query, or reports the mouse or the focus.
    Report,
}

impl Key {
    /// Returns the key that types a character or a control character.
    pub(super) fn of_character(byte: u8) -> Self {
        match byte {
            0x03 => Self::Abandon,
            // End of file, redraw, flow control, suspend.
            0x04 | 0x0c | 0x11 | 0x13 | 0x1a => Self::NoEffect,
            // After such a key, the next key is taken literally or completes a command.
            0x16 | 0x18 | 0x1d => Self::MayChangeMode,
            0x00..=0x1f | 0x7f => Self::MayEdit,
            _ => Self::Text,
        }
    }
}
