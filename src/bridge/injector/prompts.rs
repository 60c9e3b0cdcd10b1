//! A shell's prompts at which a command begins, rather than goes on.

use crate::bridge::{keyboard::Reader, recipe::Spot};

/// Prompts that are remembered.
const PROMPTS_MAX: usize = 8;

/// Prompts shown before the person typed: no command can have been unfinished then.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    known: Vec<String>,
    /// The person has pressed a key since the shell last got the foreground.
    has_typed: bool,
}

impl Prompts {
    pub(super) fn known(&self) -> &[String] {
        &self.known
    }

    /// Remembers a shell's prompt that is shown before a key is pressed.
    pub(super) fn learn(&mut self, reader: &Reader, spot: &Spot) {
        let is_primary = *reader == Reader::Shell && !self.has_typed && spot.is_shell();
        if !is_primary || self.known.contains(&spot.before) {
            return;
        }
        if self.known.len() == PROMPTS_MAX {
            self.known.remove(0);
        }
        self.known.push(spot.before.clone());
    }

    pub(super) fn person_typed(&mut self) {
        self.has_typed = true;
    }

    pub(super) fn reader_changed(&mut self, reader: &Reader) {
        self.has_typed &= *reader != Reader::Shell;
    }
}
