//! Transcripts: the files in which agent CLIs write down their conversations.
//!
//! Such a file has a JSON object on each line and grows while its agent works. A [`Format`] says
//! how one CLI writes its transcripts and where they are. A [`Reader`] turns the bytes of one file
//! into [`Record`]s. It skips lines that its format does not know, since later versions of a CLI
//! add kinds of lines. Finding and opening the files is the driver's task.

mod dedup;
mod format;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod reader;

pub(crate) use dedup::DedupWindow;
pub use format::{Format, Home, Leader, Location, ProcessFile, ProcessSession, ProjectList};
pub use reader::Reader;

use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

/// Identifies one transcript that may be the child's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TranscriptId(pub u32);

/// A part of a conversation that matters to the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A text that the agent was given, unchanged.
    Prompt(String),
    /// A text that the agent wrote.
    Reply(String),
    /// The end of the agent's work on a prompt.
    TurnOver,
}

impl Record {
    /// Returns the number of bytes of the record's text.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Prompt(text) | Self::Reply(text) => text.len(),
            Self::TurnOver => 0,
        }
    }
}

/// A parser, which turns the lines of one transcript into records.
pub(crate) trait Parser: fmt::Debug + Send {
    /// Reads a line, which is a JSON object with this timestamp. Appends the line's records.
    fn read(&mut self, line: &str, timestamp: &str, records: &mut Vec<Record>);
}

/// Returns the texts of a message's content, which is a string, or a list of parts of which some
/// have a text.
pub(crate) fn texts(content: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    struct Part {
        text: Option<String>,
    }
    let content = content.get();
    if let Ok(text) = serde_json::from_str::<String>(content) {
        return vec![text];
    }
    let parts: Vec<Part> = serde_json::from_str(content).unwrap_or_default();
    parts.into_iter().filter_map(|part| part.text).collect()
}

#[cfg(test)]
pub(super) mod tests;
