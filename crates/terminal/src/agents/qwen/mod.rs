//! The agent CLI Qwen Code.

mod defaults;
mod hooks;
mod mcp;
mod resume;
mod transcript;

use super::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "qwen",
    recipe: include_str!("recipe.toml"),
    transcript: Some(&transcript::FORMAT),
    hooks: Some(&hooks::HOOKS),
    mcp: Some(mcp::give),
    resume: Some(&resume::RESUME),
    is_tried_on_windows: false,
    command_variable: Some(hooks::COMMAND_VARIABLE),
    instruction_file: Some("AGENTS.md"),
};
