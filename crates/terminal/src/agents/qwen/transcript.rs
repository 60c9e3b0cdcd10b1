//! Qwen Code's transcripts: `projects/<directory>/chats/<session>.jsonl`.

use crate::{
    foreign_json::elements,
    transcript::{Format, Home, Location, Record, Row},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

pub(super) static FORMAT: Format = Format {
    name: "qwen",
    home: Home { folder: ".qwen", variable: "QWEN_HOME", variable_names_parent: false },
    folders: "projects/*/chats",
    path_of_session: None,
    location: Location::ByProcess,
    row,
    context: None,
    #[cfg(any(test, feature = "testing"))]
    turn: include_str!("turn.jsonl"),
};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Message<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    parts: &'a RawValue,
}

#[derive(Deserialize)]
struct Part {
    text: String,
    /// Whether the agent only thought the text.
    #[serde(default)]
    thought: bool,
}

fn row(line: &str) -> Option<Row<'_>> {
    let Line { kind, uuid, message } = serde_json::from_str(line).ok()?;
    let make = match kind {
        "user" => Record::Prompt,
        "assistant" => Record::Reply,
        _ => return None,
    };
    let parts = elements::<Part>(message.parts).into_iter().filter(|part| !part.thought);
    Some(Row { id: uuid, records: parts.map(|part| make(part.text)).collect() })
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
