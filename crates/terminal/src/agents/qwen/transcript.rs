//! Qwen Code's transcripts: `projects/<directory>/chats/<session>.jsonl`.

use crate::transcript::{Format, Home, Location, Parser, ProcessFile, ProcessSession, Record};
use serde::Deserialize;

pub(super) static FORMAT: Format = Format {
    name: "qwen",
    home: Home { folder: ".qwen", variable: "QWEN_HOME", variable_names_parent: false },
    folders: "projects/*/chats",
    path_of_session: None,
    location: Location::ByProcess(ProcessFile {
        path: |pid| format!("sessions/{pid}.json"),
        session: ProcessSession::of_id_and_start,
    }),
    parser: || Box::new(Lines),
    #[cfg(any(test, feature = "testing"))]
    turn: include_str!("turn.jsonl"),
};

/// A parser without state, since no line depends on another.
#[derive(Debug)]
struct Lines;

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    /// Whether the agent thought the text and did not say it.
    #[serde(default)]
    thought: bool,
}

impl Parser for Lines {
    fn read(&mut self, line: &str, _timestamp: &str, records: &mut Vec<Record>) {
        let Ok(Line { kind, message: Some(message) }) = serde_json::from_str(line) else { return };
        let make = match &*kind {
            "user" => Record::Prompt,
            "assistant" => Record::Reply,
            _ => return,
        };
        let said = message.parts.into_iter().filter(|part| !part.thought);
        records.extend(said.filter_map(|part| part.text).map(make));
    }
}

#[cfg(test)]
mod tests {
    use crate::transcript::tests::check;

    #[test]
    fn prompts_and_replies_are_read() {
        check(
            &super::FORMAT,
            r#"{"type":"user","provenance":"real_user","timestamp":"2026-11-20T11:59:59.999Z","message":{"role":"user","parts":[{"text":"long ago"}]}}
{"type":"user","provenance":"real_user","timestamp":"2026-11-20T12:00:01.000Z","message":{"role":"user","parts":[{"text":"Hello there"}]}}
{"type":"system","provenance":"system","timestamp":"2026-11-20T12:00:02.000Z","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"response_text":"Said so"}}}
{"type":"assistant","provenance":"assistant_output","timestamp":"2026-11-20T12:00:02.000Z","message":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"Said so"},{"functionCall":{"name":"run_shell_command","args":{"command":"ls"}}}]}}
{"type":"tool_result","provenance":"tool_result","timestamp":"2026-11-20T12:00:03.000Z","message":{"role":"user","parts":[{"functionResponse":{"name":"run_shell_command","response":{"output":"no"}}}]}}
{"type":"user","subtype":"mid_turn_user_message","provenance":"real_user","timestamp":"2026-11-20T12:00:04.000Z","message":{"role":"user","parts":[{"text":"And this"}]}}
not JSON at all
{"type":"assistant","message":{"parts":[{"text":"half a li"#,
            &["prompt Hello there", "reply Said so", "prompt And this"],
        );
    }
}
