//! The report of a hook of an agent CLI to the wrapper of its agent.

use serde::{Deserialize, Serialize};

/// The longest path of a transcript that counts, in bytes.
pub const TRANSCRIPT_BYTES_MAX: usize = 4096;

/// A point in an agent's work where its CLI runs a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// A conversation begins, or continues after it was cleared or compacted.
    SessionBegan,
    /// The conversation is about to be compacted, and no hook will report that it continues.
    SessionCompacts,
    /// A prompt was submitted, which begins a turn.
    PromptSubmitted,
    /// A tool is about to run.
    ToolStarts,
    /// A tool has ended, and the model is about to get its result.
    ToolEnded,
    /// The CLI asks its person whether a tool may run.
    PermissionAsked,
    /// The CLI puts the agent's question to its person.
    PersonAsked,
    /// The agent's turn has ended.
    TurnEnded,
    /// The conversation has ended.
    SessionEnded,
    /// The hook waits. Its answer begins a turn.
    Waits,
}

/// A report of one hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The point that triggered the hook.
    pub point: Point,
    /// The whole message frames in the prompt, or in the tool's result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
    /// The path of the conversation's transcript, as the CLI states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// Whether the conversation lost its earlier content: it was cleared or compacted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgets: bool,
    /// The CLI's id of the conversation, if the hook states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether the tool was the relay's own, which is not work of the agent: a command
    /// `agent-relay`, or a tool of its MCP server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_relays: bool,
}

impl Report {
    /// Returns a report that states nothing but these frames.
    #[must_use]
    pub fn new(point: Point, frames: Vec<Frame>) -> Self {
        Self { point, frames, transcript: None, forgets: false, session: None, is_relays: false }
    }
}

/// A message frame that a hook has seen from its first line to its last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The frame's six digits.
    pub hex: String,
    /// The number of non-blank characters in the frame. A CLI may cut a long result in its middle.
    pub length: usize,
}

impl Frame {
    /// Returns the frame with these digits and this text.
    #[must_use]
    pub fn of(hex: &str, text: &str) -> Self {
        let is_seen = |c: &char| !c.is_whitespace() && !c.is_control();
        Self { hex: hex.to_owned(), length: text.chars().filter(is_seen).count() }
    }
}
