//! The agent CLI opencode.

mod configuration;
mod hooks;
mod jsonc;
mod mcp;
mod resume;

use super::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "opencode",
    recipe: include_str!("recipe.toml"),
    transcript: None,
    hooks: Some(&hooks::HOOKS),
    mcp: Some(mcp::give),
    resume: Some(&resume::RESUME),
    is_tried_on_windows: false,
    command_variable: Some("OPENCODE"),
    instruction_file: Some("AGENTS.md"),
};
