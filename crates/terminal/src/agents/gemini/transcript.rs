//! Gemini CLI's transcripts: `tmp/<project>/chats/session-*.jsonl`.

use crate::transcript::{
    ContextUse, Format, Home, Leader, Location, ProjectList, Record, Row, texts,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use std::{
    borrow::Cow,
    collections::HashMap,
    path::{Path, PathBuf},
};

pub(super) static FORMAT: Format = Format {
    name: "gemini",
    home: Home { folder: ".gemini", variable: "GEMINI_CLI_HOME", variable_names_parent: true },
    folders: "tmp/*/chats",
    path_of_session: None,
    location: Location::ByFirstLine {
        leader,
        is_kept_open: false,
        project_list: Some(ProjectList { path: "projects.json", folder }),
    },
    row,
    context: Some(context),
    #[cfg(any(test, feature = "testing"))]
    turn: include_str!("turn.jsonl"),
};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    content: &'a RawValue,
}

/// Gemini CLI writes a message a second time, under the same id, once the results of its tool calls
/// are known.
fn row(line: &str) -> Option<Row<'_>> {
    let Line { id, kind, content } = serde_json::from_str(line).ok()?;
    // When the person interrupts a message, all messages are written again with new ids and
    // timestamps. In these copies, the content of the agent's messages is a list instead of a
    // string.
    let is_first_copy = content.get().starts_with('"');
    let text = texts(content).concat();
    let record = match kind {
        _ if text.is_empty() => return None,
        "user" => Record::Prompt(text),
        "gemini" if is_first_copy => Record::Reply(text),
        _ => return None,
    };
    Some(Row { id: Some(id), records: vec![record] })
}

/// Reads the token counts of a model's answer.
fn context(line: &str) -> Option<ContextUse> {
    #[derive(Deserialize)]
    struct Line {
        tokens: Tokens,
    }
    #[derive(Deserialize)]
    struct Tokens {
        total: u64,
    }
    let Line { tokens } = serde_json::from_str(line).ok()?;
    Some(ContextUse { tokens: tokens.total, window: None })
}

/// Reads the first line of a transcript: the kind of agent, and the hash of the working directory.
fn leader(line: &str, directory: &Path) -> Leader {
    #[derive(Deserialize)]
    struct Head<'a> {
        kind: &'a str,
    }
    match serde_json::from_str::<Head<'_>>(line) {
        Ok(Head { kind: "subagent" }) => Leader::Subagent,
        // A Gemini CLI that starts removes transcripts without a message. If their own CLI still
        // runs, it goes on writing to a file without a first line.
        _ if !line.contains("\"projectHash\"") => Leader::Unknown,
        _ if line.contains(&project_hash(directory)) => Leader::Here,
        _ => Leader::Elsewhere,
    }
}

/// Returns the hash that Gemini CLI derives from a working directory.
fn project_hash(directory: &Path) -> String {
    let digest = Sha256::digest(directory.as_os_str().as_encoded_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads `projects.json`. Returns the name of the folder below `tmp` that belongs to `directory`.
fn folder(file: &[u8], directory: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct List {
        projects: HashMap<PathBuf, String>,
    }
    let mut list: List = serde_json::from_slice(file).ok()?;
    list.projects.remove(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::tests::check;

    #[test]
    fn context_is_taken_from_the_last_answer() {
        let lines = r#"{"id":"1","type":"gemini","content":"x","tokens":{"input":100,"output":10,"total":110}}
{"id":"2","type":"user","content":"y"}"#;
        assert_eq!(FORMAT.context_in(lines), Some(ContextUse { tokens: 110, window: None }));
    }

    #[test]
    fn prompts_and_replies_are_read_once() {
        check(
            &FORMAT,
            r#"{"sessionId":"f1","projectHash":"91","startTime":"2026-11-20T12:00:00.000Z","kind":"main"}
{"$set":{"messages":[{"id":"s","type":"user","content":[{"text":"<session_context>"}]}]}}
{"id":"1","timestamp":"2026-11-20T12:00:01.000Z","type":"user","content":[{"text":"Hello there"}]}
{"id":"2","timestamp":"2026-11-20T12:00:02.000Z","type":"gemini","content":"Said so","thoughts":[],"model":"m"}
{"$set":{"lastUpdated":"2026-11-20T12:00:02.000Z"}}
{"id":"2","timestamp":"2026-11-20T12:00:03.000Z","type":"gemini","content":"Said so","toolCalls":[{"name":"x"}]}
{"id":"3","timestamp":"2026-11-20T12:00:03.000Z","type":"user","content":[{"functionResponse":{"name":"x"}}]}
{"id":"4","timestamp":"2026-11-20T12:00:04.000Z","type":"info","content":"Request cancelled."}
{"id":"5","timestamp":"2026-11-20T12:00:05.000Z","type":"gemini","content":[{"text":"Said so"}],"thoughts":[]}
{"id":"6","timestamp":"2026-11-20T12:00:06.000Z","type":"gemini","content":"","toolCalls":[{"name":"x"}]}
{"id":"6","timestamp":"2026-11-20T12:00:07.000Z","type":"gemini","content":"And this","toolCalls":[{"name":"x"}]}
"#,
            &["prompt Hello there", "reply Said so", "reply And this"],
        );
    }

    #[test]
    fn first_line_tells_a_subagent_from_an_agent_and_its_directory() {
        let here = project_hash(Path::new("/here"));
        let head = |hash: &str, kind: &str| {
            format!(r#"{{"sessionId":"f1","projectHash":"{hash}"{kind}}}"#)
        };
        for (line, expected) in [
            (head("91", r#","kind":"subagent""#), Leader::Subagent),
            (head(&here, r#","kind":"subagent""#), Leader::Subagent),
            (head("91", r#","kind":"main""#), Leader::Elsewhere),
            (head(&here, r#","kind":"main""#), Leader::Here),
            (head(&here, ""), Leader::Here),
            (r#"{"id":"1","type":"user","content":[]}"#.to_owned(), Leader::Unknown),
        ] {
            assert_eq!(leader(&line, Path::new("/here")), expected, "{line}");
        }
    }
}
