//! Transcripts: the files that agent CLIs write their conversations to.
//!
//! Such a file has a JSON object on each line and grows while its agent works. A [`Format`] says
//! how one CLI writes its transcripts and where they are. A [`Reader`] turns the bytes of one file
//! into [`Record`]s. It skips lines that its format does not know, since later versions of a CLI
//! add kinds of lines. Finding and opening the files is the driver's task.

mod format;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod known;
mod reader;

pub use format::{Format, Home, Leader, Location, ProcessSession, ProjectList};
pub use reader::Reader;

use crate::foreign_json::elements;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Identifies one transcript that may be the child's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TranscriptId(pub u32);

/// A part of a conversation that is relevant to the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A text that the agent was given, unchanged.
    Prompt(String),
    /// A text that the agent wrote.
    Reply(String),
    /// The beginning of the agent's work, on a prompt that follows or without one.
    TurnBegan,
    /// The end of the agent's work on a prompt.
    TurnOver,
}

impl Record {
    /// Returns the record's text, which is empty for a turn's beginning and end.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Prompt(text) | Self::Reply(text) => text,
            Self::TurnBegan | Self::TurnOver => "",
        }
    }

    /// Removes the first bytes of the record's text.
    fn without_first(mut self, bytes: usize) -> Self {
        if let Self::Prompt(text) | Self::Reply(text) = &mut self {
            text.drain(..bytes);
        }
        self
    }
}

/// How much of a model's context a conversation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ContextUse {
    /// The tokens of the last request and its answer.
    pub tokens: u64,
    /// The maximum number of tokens in the model's context, if the transcript states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
}

/// A row of a transcript.
#[derive(Debug, Default)]
pub(crate) struct Row<'a> {
    /// The CLI's id of the row. If the CLI appends the row again, the copy has the same id.
    pub(crate) id: Option<Cow<'a, str>>,
    pub(crate) records: Vec<Record>,
}

/// Returns the texts of a message's content. The content is a string, or a list with texts in some
/// of its parts.
pub(crate) fn texts(content: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    struct Part {
        text: String,
    }
    match serde_json::from_str(content.get()) {
        Ok(text) => vec![text],
        Err(_) => elements(content).into_iter().map(|part: Part| part.text).collect(),
    }
}

#[cfg(test)]
pub(super) mod tests;
