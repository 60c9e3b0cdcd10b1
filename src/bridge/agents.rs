//! The agent CLIs that are known: a folder and a line of [`AGENTS`] for each.
//!
//! A folder has the CLI's [`Agent`] in `mod.rs`, and its recipe in the form of recipes.toml, whose
//! keys `recipe/generic.toml` explains. If the CLI writes transcripts, `transcript.rs` reads them,
//! and `turn.jsonl` is an example.

mod aider;
mod antigravity;
mod claude;
mod codex;
mod gemini;
mod opencode;

use super::transcript::Format;

/// An agent CLI.
pub struct Agent {
    /// The name of its folder, its recipe and its format of transcripts.
    pub name: &'static str,
    /// The recipe, as TOML.
    pub recipe: &'static str,
    /// The format of the transcripts that the CLI writes, if it is known.
    pub transcript: Option<&'static Format>,
    /// An environment variable that the CLI sets for the commands of its agent, if one is known.
    /// Without it, such a command in an agent that was started without the wrapper counts as its
    /// person's.
    pub command_variable: Option<&'static str>,
    /// The file of instructions that the agent reads in its project, if one is known.
    pub instruction_file: Option<&'static str>,
}

/// All agent CLIs, in the order in which their recipes are tried.
pub static AGENTS: &[Agent] = &[
    claude::AGENT,
    codex::AGENT,
    gemini::AGENT,
    opencode::AGENT,
    aider::AGENT,
    antigravity::AGENT,
];

/// The CLI of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.name == name)
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

/// The files of instructions that agents read, each once.
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
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bridge/agents");
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
