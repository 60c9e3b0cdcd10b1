//! A simple reader for the transcripts of the CLIs.

use crate::cli::{Cli, Workspace};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The speaker of a recorded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Model,
}

impl Workspace<'_> {
    /// All transcripts in this home, ordered by name.
    pub(crate) fn transcripts(&self) -> Vec<PathBuf> {
        let (folder, depth) = match self.cli {
            Cli::Claude => (".claude/projects", 1),
            Cli::Codex => (".codex/sessions", 3),
            Cli::Gemini => (".gemini/tmp", 2),
            cli => cli.is_unknown_here(),
        };
        let mut folders = vec![self.user_home().join(folder)];
        for _ in 0..depth {
            folders = folders.iter().flat_map(|folder| entries(folder)).collect();
        }
        let files = folders.iter().flat_map(|folder| entries(folder));
        let mut files: Vec<_> =
            files.filter(|file| file.extension().is_some_and(|end| end == "jsonl")).collect();
        files.sort();
        files
    }

    /// The recorded texts, in the order of the file.
    pub(crate) fn recorded(&self, file: &Path) -> Vec<(Speaker, String)> {
        let text = fs::read_to_string(file).unwrap();
        // A last line without a line feed is still being written.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let records = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        match self.cli {
            Cli::Claude => records.filter_map(|record| claude(&record)).collect(),
            Cli::Codex => records.filter_map(|record| codex(&record)).collect(),
            Cli::Gemini => records.filter_map(|record| gemini(&record)).collect(),
            cli => cli.is_unknown_here(),
        }
    }

    /// Whether any file of the CLI, including a subagent's, records these words of a model.
    pub(crate) fn has_recorded_anywhere(&self, words: &str) -> bool {
        let folder = match self.cli {
            Cli::Claude => ".claude/projects",
            Cli::Codex => ".codex/sessions",
            Cli::Gemini => ".gemini/tmp",
            cli => cli.is_unknown_here(),
        };
        let mut paths = vec![self.user_home().join(folder)];
        while let Some(path) = paths.pop() {
            paths.extend(entries(&path));
            let text = fs::read_to_string(&path).unwrap_or_default();
            let mut lines = text.lines().filter(|line| line.contains(words));
            if lines.any(|line| {
                [r#""role":"assistant""#, r#""type":"gemini""#]
                    .iter()
                    .any(|role| line.contains(role))
            }) {
                return true;
            }
        }
        false
    }

    /// Whether all transcripts together record exactly this text of this speaker exactly once.
    pub(crate) fn has_recorded(&self, by: Speaker, wanted: &str) -> bool {
        let files = self.transcripts();
        let recorded = files.iter().flat_map(|file| self.recorded(file));
        recorded.filter(|(speaker, text)| *speaker == by && text == wanted).count() == 1
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

fn claude(record: &Value) -> Option<(Speaker, String)> {
    let content = &record["message"]["content"];
    match record["type"].as_str()? {
        "user" => Some((Speaker::User, content.as_str()?.to_owned())),
        "assistant" => Some((Speaker::Model, content[0]["text"].as_str()?.to_owned())),
        _ => None,
    }
}

fn codex(record: &Value) -> Option<(Speaker, String)> {
    let message = &record["payload"];
    if record["type"] != "response_item" || message["type"] != "message" {
        return None;
    }
    let text = message["content"][0]["text"].as_str()?.to_owned();
    match message["role"].as_str()? {
        "user" => Some((Speaker::User, text)),
        "assistant" => Some((Speaker::Model, text)),
        _ => None,
    }
}

fn gemini(record: &Value) -> Option<(Speaker, String)> {
    match record["type"].as_str()? {
        "user" => Some((Speaker::User, record["content"][0]["text"].as_str()?.to_owned())),
        "gemini" => Some((Speaker::Model, record["content"].as_str()?.to_owned())),
        _ => None,
    }
}
