//! The agent CLI Claude Code.

mod hooks;
mod transcript;

use super::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "claude",
    recipe: include_str!("recipe.toml"),
    transcript: Some(&transcript::FORMAT),
    hooks: Some(&hooks::HOOKS),
    command_variable: Some("CLAUDECODE"),
    instruction_file: Some("CLAUDE.md"),
};
