//! The agent CLI Antigravity.

use super::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "agy",
    recipe: include_str!("recipe.toml"),
    transcript: None,
    hooks: None,
    mcp: None,
    resume: None,
    is_tried_on_windows: false,
    command_variable: None,
    instruction_file: None,
};
