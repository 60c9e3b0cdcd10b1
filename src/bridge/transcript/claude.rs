//! Claude Code: `projects/<directory>/<session>.jsonl`.

use super::{Record, texts};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    /// A helper's of the agent's own, not the agent's.
    #[serde(default)]
    is_sidechain: bool,
    /// Not the person's, or not the agent's, words.
    #[serde(default)]
    is_meta: bool,
    #[serde(default)]
    is_api_error_message: bool,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(default)]
    stop_reason: Option<&'a str>,
}

pub(super) fn read(line: &str, out: &mut Vec<Record>) {
    let Ok(line) = serde_json::from_str::<Line<'_>>(line) else { return };
    let Some(message) = line.message else { return };
    if line.is_sidechain || line.is_meta || line.is_api_error_message {
        return;
    }
    match line.kind {
        "user" => out.extend(texts(message.content).into_iter().map(Record::Prompt)),
        "assistant" => {
            out.extend(texts(message.content).into_iter().map(Record::Reply));
            if message.stop_reason == Some("end_turn") {
                out.push(Record::TurnOver);
            }
        }
        _ => {}
    }
}
