//! Codex: `sessions/<year>/<month>/<day>/rollout-*.jsonl`.

use super::{Record, texts};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    payload: Payload<'a>,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(rename = "type", default)]
    kind: Option<&'a str>,
    #[serde(default)]
    role: Option<&'a str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    message: Option<String>,
}

pub(super) fn read(line: &str, out: &mut Vec<Record>) {
    let Ok(Line { kind, payload }) = serde_json::from_str(line) else { return };
    match (kind, payload.kind, payload.role) {
        ("response_item", Some("message"), Some("assistant")) => {
            let texts = payload.content.map(texts).unwrap_or_default();
            out.extend(texts.into_iter().map(Record::Reply));
        }
        ("event_msg", Some("user_message"), _) => {
            out.extend(payload.message.map(Record::Prompt));
        }
        ("event_msg", Some("task_complete" | "turn_complete" | "turn_aborted"), _) => {
            out.push(Record::TurnOver);
        }
        _ => {}
    }
}
