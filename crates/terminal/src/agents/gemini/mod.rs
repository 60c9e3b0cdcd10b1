//! The agent CLI of Gemini.

mod hooks;
mod resume;
mod transcript;

use super::Agent;

const COMMAND_VARIABLE: &str = "GEMINI_CLI";

pub(super) const AGENT: Agent = Agent {
    name: "gemini",
    recipe: include_str!("recipe.toml"),
    transcript: Some(&transcript::FORMAT),
    hooks: Some(&hooks::HOOKS),
    mcp: None,
    resume: Some(&resume::RESUME),
    is_tried_on_windows: false,
    command_variable: Some(COMMAND_VARIABLE),
    instruction_file: Some("GEMINI.md"),
};
