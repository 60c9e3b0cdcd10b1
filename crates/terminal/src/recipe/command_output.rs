//! The rows that tell where a program shows the output of a command, which is not what its agent
//! says.

use super::{shown::after_prompt, spot::shows};

/// The texts by which the beginning and the end of such output are recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    /// Beginnings of the questions whose answer runs a command.
    pub(super) after_question: Vec<String>,
    /// Beginnings of the entries in the input line that run one.
    pub(super) after_entry: Vec<String>,
    /// Words of every question.
    pub(super) dialog: Vec<String>,
    /// The prompts of the input line.
    pub(super) composer: Vec<String>,
}

impl CommandOutput {
    /// Returns whether output of a command follows this row. `None` if the row is no question and
    /// no input line, so that it changes nothing.
    pub(crate) fn follows(&self, row: &str) -> Option<bool> {
        let Self { after_question, after_entry, dialog, composer } = self;
        if after_question.is_empty() && after_entry.is_empty() {
            return None;
        }
        let begins = |text: &str, words: &[String]| words.iter().any(|word| text.starts_with(word));
        match shows([row], dialog) {
            true => Some(begins(row, after_question)),
            false => after_prompt(composer, row).map(|entry| begins(entry, after_entry)),
        }
    }
}
