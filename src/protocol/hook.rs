//! What a hook of an agent CLI reports to the wrapper of its agent.

use serde::{Deserialize, Serialize};

/// A point in an agent's work at which the agent's CLI runs a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// A conversation begins, or goes on after it was cleared or compacted.
    SessionBegan,
    /// A prompt was submitted, with which a turn begins.
    PromptSubmitted,
    /// A tool is about to run.
    ToolStarts,
    /// A tool has ended, and the model is about to get its result.
    ToolEnded,
    /// The CLI asks its person whether a tool may run.
    PermissionAsked,
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
    /// The point at which the hook was run.
    pub point: Point,
    /// The whole message frames in the prompt, or in the tool's result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
}

/// A message frame that a hook has seen from its first line to its last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The frame's six digits.
    pub hex: String,
    /// The number of characters from the first line to the last that are no blanks. A CLI may cut a
    /// long result in its middle.
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
