//! The agent CLI Claude Code.

mod hooks;
mod mcp;
mod resume;
mod transcript;

use super::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "claude",
    recipe: include_str!("recipe.toml"),
    transcript: Some(&transcript::FORMAT),
    hooks: Some(&hooks::HOOKS),
    mcp: Some(mcp::give),
    resume: Some(&resume::RESUME),
    is_tried_on_windows: true,
    command_variable: Some("CLAUDECODE"),
    instruction_file: Some("CLAUDE.md"),
};
