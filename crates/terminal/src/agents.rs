//! The agent CLIs that Agent Relay knows. Each has a folder here and a line in [`AGENTS`].
//!
//! In each folder, `mod.rs` has the CLI's [`Agent`], and `recipe.toml` its recipe, written like the
//! user's recipes.toml; `recipe.rs` explains the keys. If the CLI writes transcripts,
//! `transcript.rs` reads them, and `turn.jsonl` is an example.

mod agy;
mod aider;
mod claude;
mod codex;
mod copilot;
mod gemini;
mod opencode;
mod qwen;

use super::{handover::GiveServer, hooks::Hooks, resume::Resume, transcript::Format};

/// An agent CLI.
pub struct Agent {
    /// The name of the CLI's folder, of its recipe and of its format of transcripts.
    pub name: &'static str,
    /// The recipe, as TOML.
    pub recipe: &'static str,
    /// The format of the transcripts that the CLI writes, if it is known.
    pub transcript: Option<&'static Format>,
    /// The CLI's hooks, if the wrapper gives it some.
    pub hooks: Option<&'static Hooks>,
    /// How to give the CLI our MCP server, if that is known.
    pub mcp: Option<GiveServer>,
    /// How to resume a conversation, if that is known.
    pub resume: Option<&'static Resume>,
    /// Whether hooks and handover were tried on Windows.
    pub is_tried_on_windows: bool,
    /// An environment variable that the CLI sets for its agent's commands, if one is known. Without
    /// it, a command of an agent that was started without the wrapper counts as the user's command.
    pub command_variable: Option<&'static str>,
    /// The file of instructions that the agent reads in its project, if one is known.
    pub instruction_file: Option<&'static str>,
}

/// All agent CLIs, in the order that their recipes are tried.
pub static AGENTS: &[Agent] = &[
    claude::AGENT,
    codex::AGENT,
    gemini::AGENT,
    opencode::AGENT,
    aider::AGENT,
    agy::AGENT,
    qwen::AGENT,
    copilot::AGENT,
];

/// Returns the agent CLI with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.name == name)
}

/// Returns the formats of transcripts of all agent CLIs.
pub fn formats() -> impl Iterator<Item = &'static Format> {
    AGENTS.iter().filter_map(|agent| agent.transcript)
}

/// Returns the format of transcripts with this name. Recipes use these names.
#[must_use]
pub fn format(name: &str) -> Option<&'static Format> {
    formats().find(|format| format.name == name)
}

/// Returns the names of all agents' files of instructions, without duplicates.
#[must_use]
pub fn instruction_files() -> Vec<&'static str> {
    let mut files = Vec::new();
    for file in AGENTS.iter().filter_map(|agent| agent.instruction_file) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs};

    #[test]
    fn every_folder_is_in_the_table() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/agents");
        let folders = fs::read_dir(folder).unwrap();
        let folders: BTreeSet<_> =
            folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let names: BTreeSet<_> = AGENTS.iter().map(|agent| agent.name.to_owned()).collect();
        assert_eq!(folders, names);
    }

    #[test]
    fn format_has_the_name_of_its_agent() {
        for agent in AGENTS {
            assert!(agent.transcript.is_none_or(|format| format.name == agent.name));
        }
    }
}
