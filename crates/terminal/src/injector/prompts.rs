//! A shell's primary prompts, where a command begins. At other prompts, a command continues.

use crate::{keyboard::Reader, recipe::Spot};

/// How many prompts are remembered.
const PROMPTS_MAX: usize = 8;

/// Prompts shown before the person typed, when no command could be unfinished.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    pub(super) known: Vec<String>,
    /// Whether the person has pressed a key since the shell last got the foreground.
    pub(super) has_typed: bool,
}

impl Prompts {
    /// Remembers the prompt on the screen if it is a shell's and the person has not pressed a key
    /// yet.
    pub(super) fn learn(&mut self, reader: &Reader, spot: &Spot) {
        let is_primary = *reader == Reader::Shell && !self.has_typed && spot.line_editor_waits();
        if !is_primary || self.known.contains(&spot.before) {
            return;
        }
        if self.known.len() == PROMPTS_MAX {
            self.known.remove(0);
        }
        self.known.push(spot.before.clone());
    }

    pub(super) fn reader_changed(&mut self, reader: &Reader) {
        self.has_typed &= *reader != Reader::Shell;
    }
}
