//! The agent CLI GitHub Copilot CLI.

mod hooks;
mod mcp;
mod resume;
mod transcript;

use super::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "copilot",
    recipe: include_str!("recipe.toml"),
    transcript: Some(&transcript::FORMAT),
    hooks: Some(&hooks::HOOKS),
    mcp: Some(mcp::give),
    resume: Some(&resume::RESUME),
    is_tried_on_windows: false,
    command_variable: Some("COPILOT_CLI"),
    instruction_file: Some("AGENTS.md"),
};
