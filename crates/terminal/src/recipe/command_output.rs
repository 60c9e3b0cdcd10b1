//! Recognises command output on the screen, so that it is not read as the agent's words.

use super::{Recipe, shown::after_prompt, spot::shows};

/// The maximum length of a word before a prompt's mark, in bytes.
const PROMPT_WORDS_MAX: usize = 24;

/// A recipe; its texts mark the beginning and the end of such output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandOutput(pub(super) Recipe);

impl CommandOutput {
    /// Returns whether a command's output follows this row. `None` if the row is neither a question
    /// nor an input line, and so changes nothing.
    pub(crate) fn follows(&self, row: &str) -> Option<bool> {
        let Recipe { output_after_question, output_after_entry, dialog, composer, .. } = &self.0;
        if output_after_question.is_empty() && output_after_entry.is_empty() {
            return None;
        }
        let begins = |text: &str, words: &[String]| words.iter().any(|word| text.starts_with(word));
        match shows([row], dialog) {
            true => Some(begins(row, output_after_question)),
            false => entry(composer, row).map(|entry| begins(entry, output_after_entry)),
        }
    }
}

/// Returns the text after a prompt. The prompt may begin with words of a mode that the recipe does
/// not know. Even so, the rows after it must not count as output.
fn entry<'a>(prompts: &[String], row: &'a str) -> Option<&'a str> {
    let in_mode = || {
        let (words, entry) = row.split_once("> ").or_else(|| Some((row.strip_suffix('>')?, "")))?;
        let is_mode = words.len() <= PROMPT_WORDS_MAX
            && words.bytes().all(|byte| byte.is_ascii_lowercase() || b" -".contains(&byte));
        is_mode.then_some(entry)
    };
    after_prompt(prompts, row).or_else(in_mode)
}
