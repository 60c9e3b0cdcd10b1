//! The agent CLI Claude Code.

mod transcript;

use super::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "claude",
    recipe: include_str!("recipe.toml"),
    transcript: Some(&transcript::FORMAT),
    command_variable: Some("CLAUDECODE"),
    instruction_file: Some("CLAUDE.md"),
};
