//! The agent CLI of Gemini.

mod transcript;

use super::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "gemini",
    recipe: include_str!("recipe.toml"),
    transcript: Some(&transcript::FORMAT),
    hooks: None,
    mcp: None,
    command_variable: Some("GEMINI_CLI"),
    instruction_file: Some("GEMINI.md"),
};
