//! Claude Code: `projects/<directory>/<session>.jsonl`.

use super::{Record, texts};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(default)]
    subtype: Option<&'a str>,
    /// A helper's of the agent's own, not the agent's.
    #[serde(default)]
    is_sidechain: bool,
    /// Not the person's, or not the agent's, words.
    #[serde(default)]
    is_meta: bool,
    #[serde(default)]
    is_api_error_message: bool,
    #[serde(default)]
    is_compact_summary: bool,
    /// It is a copy of another conversation's, which the person took this one out of.
    #[serde(default)]
    forked_from: Option<&'a RawValue>,
    /// Which message the person cut off.
    #[serde(default)]
    interrupted_message_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

pub(super) fn read(line: &str, out: &mut Vec<Record>) {
    let Ok(line) = serde_json::from_str::<Line<'_>>(line) else { return };
    let is_anothers = line.is_sidechain || line.forked_from.is_some();
    let is_no_word = line.is_meta || line.is_api_error_message || line.is_compact_summary;
    if is_anothers || is_no_word {
        return;
    }
    match (line.kind, line.subtype, line.message) {
        ("system", Some("turn_duration"), _) => out.push(Record::TurnOver),
        ("user", ..) if line.interrupted_message_id.is_some() => out.push(Record::TurnOver),
        ("user", _, Some(message)) => {
            out.extend(texts(message.content).into_iter().map(Record::Prompt));
        }
        ("assistant", _, Some(message)) => {
            out.extend(texts(message.content).into_iter().map(Record::Reply));
        }
        _ => {}
    }
}
