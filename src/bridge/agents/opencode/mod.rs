//! The agent CLI opencode.

mod hooks;

use super::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "opencode",
    recipe: include_str!("recipe.toml"),
    transcript: None,
    hooks: Some(&hooks::HOOKS),
    mcp: None,
    command_variable: Some("OPENCODE"),
    instruction_file: Some("AGENTS.md"),
};
