//! The agent CLIs that are known: a folder and a line of [`AGENTS`] for each.
//!
//! Every folder has the CLI's recipe, in the form of recipes.toml (its keys are explained in
//! `recipe/generic.toml`). A CLI that writes a transcript also has a module with the format.

mod claude {
    pub(super) mod transcript;
}
mod codex {
    pub(super) mod transcript;
}
mod gemini {
    pub(super) mod transcript;
}

use super::transcript::Format;

/// An agent CLI.
pub struct Agent {
    /// The CLI's recipe, as TOML.
    pub recipe: &'static str,
    /// The format of the transcripts that it writes.
    pub transcript: Option<&'static Format>,
}

/// All agent CLIs, in the order in which their recipes are tried.
pub static AGENTS: &[Agent] = &[
    agent(include_str!("agents/claude/recipe.toml"), Some(&claude::transcript::FORMAT)),
    agent(include_str!("agents/codex/recipe.toml"), Some(&codex::transcript::FORMAT)),
    agent(include_str!("agents/gemini/recipe.toml"), Some(&gemini::transcript::FORMAT)),
    agent(include_str!("agents/opencode/recipe.toml"), None),
    agent(include_str!("agents/aider/recipe.toml"), None),
    agent(include_str!("agents/antigravity/recipe.toml"), None),
];

const fn agent(recipe: &'static str, transcript: Option<&'static Format>) -> Agent {
    Agent { recipe, transcript }
}

/// The formats of all transcripts.
pub fn formats() -> impl Iterator<Item = &'static Format> {
    AGENTS.iter().filter_map(|agent| agent.transcript)
}

/// The format of transcripts that recipes call by this name.
#[must_use]
pub fn format(name: &str) -> Option<&'static Format> {
    formats().find(|format| format.name == name)
}
