//! The files in which the CLIs write down what was said, read as simply as may be.

use crate::agent::{Household, Kind};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Who has said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    User,
    Model,
}

impl Household<'_> {
    /// All transcripts of this home, in the order of their names.
    pub(crate) fn transcripts(&self) -> Vec<PathBuf> {
        let (folder, depth) = match self.kind {
            Kind::Claude => (".claude/projects", 1),
            Kind::Codex => (".codex/sessions", 3),
            Kind::Gemini => (".gemini/tmp", 2),
        };
        let mut folders = vec![self.person().join(folder)];
        for _ in 0..depth {
            folders = folders.iter().flat_map(|folder| entries(folder)).collect();
        }
        let files = folders.iter().flat_map(|folder| entries(folder));
        let mut files: Vec<_> =
            files.filter(|file| file.extension().is_some_and(|end| end == "jsonl")).collect();
        files.sort();
        files
    }

    /// What was said, in the order of the file.
    pub(crate) fn said(&self, file: &Path) -> Vec<(Who, String)> {
        let text = fs::read_to_string(file).unwrap();
        // A last line without its end is still being written.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let records = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        match self.kind {
            Kind::Claude => records.filter_map(|record| claude(&record)).collect(),
            Kind::Codex => records.filter_map(|record| codex(&record)).collect(),
            Kind::Gemini => records.filter_map(|record| gemini(&record)).collect(),
        }
    }

    /// Whether any file of the program's has these words, also where an agent of the agent's own said them.
    pub(crate) fn has_written(&self, words: &str) -> bool {
        let folder = match self.kind {
            Kind::Claude => ".claude/projects",
            Kind::Codex => ".codex/sessions",
            Kind::Gemini => ".gemini/tmp",
        };
        let mut paths = vec![self.person().join(folder)];
        while let Some(path) = paths.pop() {
            paths.extend(entries(&path));
            let text = fs::read_to_string(&path).unwrap_or_default();
            let mut lines = text.lines().filter(|line| line.contains(words));
            if lines.any(|line| {
                [r#""role":"assistant""#, r#""type":"gemini""#].iter().any(|who| line.contains(who))
            }) {
                return true;
            }
        }
        false
    }

    /// Whether exactly this was said, once, in exactly one transcript.
    pub(crate) fn has_said(&self, who: Who, what: &str) -> bool {
        let files = self.transcripts();
        let said = files.iter().flat_map(|file| self.said(file));
        said.filter(|(speaker, text)| *speaker == who && text == what).count() == 1
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

fn claude(record: &Value) -> Option<(Who, String)> {
    let content = &record["message"]["content"];
    match record["type"].as_str()? {
        "user" => Some((Who::User, content.as_str()?.to_owned())),
        "assistant" => Some((Who::Model, content[0]["text"].as_str()?.to_owned())),
        _ => None,
    }
}

fn codex(record: &Value) -> Option<(Who, String)> {
    let message = &record["payload"];
    if record["type"] != "response_item" || message["type"] != "message" {
        return None;
    }
    let text = message["content"][0]["text"].as_str()?.to_owned();
    match message["role"].as_str()? {
        "user" => Some((Who::User, text)),
        "assistant" => Some((Who::Model, text)),
        _ => None,
    }
}

fn gemini(record: &Value) -> Option<(Who, String)> {
    match record["type"].as_str()? {
        "user" => Some((Who::User, record["content"][0]["text"].as_str()?.to_owned())),
        "gemini" => Some((Who::Model, record["content"].as_str()?.to_owned())),
        _ => None,
    }
}
