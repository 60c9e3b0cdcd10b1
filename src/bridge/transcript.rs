//! Transcripts: the files in which agent CLIs write down their conversations.
//!
//! Such a file holds a JSON object on each line and grows while its agent works. A [`Format`] says
//! how one CLI writes its transcripts and where they are; a [`Reader`] makes [`Record`]s of one
//! file's bytes, and skips what its format does not know, since formats grow. Finding and opening
//! the files is the driver's task.

mod dedup;
mod format;
mod reader;

pub use dedup::DedupWindow;
pub use format::{Format, Home, Leader, Location, ProcessFile, ProjectList, Session};
pub use reader::Reader;

use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

/// Identifies one transcript that may be the child's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TranscriptId(pub u32);

/// The part of a conversation that matters to the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A text that the agent was given, word for word.
    Prompt(String),
    /// A text that the agent wrote.
    Reply(String),
    /// The end of the agent's work at a prompt.
    TurnOver,
}

impl Record {
    /// The bytes of its text.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Prompt(text) | Self::Reply(text) => text.len(),
            Self::TurnOver => 0,
        }
    }
}

/// Makes records of the lines of one transcript.
pub trait Parser: fmt::Debug + Send {
    /// Reads a line: a JSON object that has this timestamp.
    fn read(&mut self, line: &str, timestamp: &str, records: &mut Vec<Record>);
}

/// The texts of a message's content, which is a string, or a list of parts of which some have text.
#[must_use]
pub fn texts(content: &RawValue) -> Vec<String> {
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
