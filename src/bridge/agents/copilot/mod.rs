//! The agent CLI GitHub Copilot CLI.

mod transcript;

use super::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "copilot",
    recipe: include_str!("recipe.toml"),
    transcript: Some(&transcript::FORMAT),
    hooks: None,
    mcp: None,
    command_variable: Some("COPILOT_CLI"),
    instruction_file: Some("AGENTS.md"),
};
