//! Recognition of command output on the screen, so that it is not read as the agent's words.

use super::{shown::after_prompt, spot::shows};

/// The longest word that may stand in front of a prompt's mark, in bytes.
const PROMPT_WORDS_MAX: usize = 24;

/// The texts by which the beginning and the end of such output are recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    /// Beginnings of the questions whose answer runs a command.
    pub(super) after_question: Vec<String>,
    /// Beginnings of the person's entries that run one.
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
            false => entry(composer, row).map(|entry| begins(entry, after_entry)),
        }
    }
}

/// Returns the text behind a prompt. The prompt may have words of a mode in front that the recipe
/// does not know: what follows must not count as output for that.
fn entry<'a>(prompts: &[String], row: &'a str) -> Option<&'a str> {
    let in_mode = || {
        let (words, entry) = row.split_once("> ").or_else(|| Some((row.strip_suffix('>')?, "")))?;
        let is_mode = words.len() <= PROMPT_WORDS_MAX
            && words.bytes().all(|byte| byte.is_ascii_lowercase() || b" -".contains(&byte));
        is_mode.then_some(entry)
    };
    after_prompt(prompts, row).or_else(in_mode)
}
