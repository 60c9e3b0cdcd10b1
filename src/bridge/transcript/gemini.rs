//! Gemini CLI: `tmp/<project>/chats/session-*.jsonl`.

use super::{Record, Seen, texts};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    content: &'a RawValue,
}

/// A message is written again, with its id, when its tools' results are known. When the person has cut one
/// off, all are, with new ids and times, but then what the agent said is a list, and not one text.
pub(super) fn read(line: &str, at: &str, seen: &mut Seen, out: &mut Vec<Record>) {
    let Ok(Line { id, kind, content }) = serde_json::from_str(line) else { return };
    let is_text = content.get().starts_with('"');
    let text = texts(content).concat();
    if text.is_empty() || seen.again(id, at) {
        return;
    }
    match kind {
        "user" => out.push(Record::Prompt(text)),
        "gemini" if is_text => out.push(Record::Reply(text)),
        _ => {}
    }
}

pub(super) fn is_of_subagent(head: &str) -> bool {
    #[derive(Deserialize)]
    struct Head<'a> {
        kind: &'a str,
    }
    serde_json::from_str::<Head<'_>>(head).is_ok_and(|head| head.kind == "subagent")
}
