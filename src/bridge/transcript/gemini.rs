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

/// A message is written again, with its id, when its costs or its tools' results are known.
pub(super) fn read(line: &str, seen: &mut Seen, out: &mut Vec<Record>) {
    let Ok(Line { id, kind, content }) = serde_json::from_str(line) else { return };
    let text = texts(content).concat();
    if text.is_empty() || seen.again(id) {
        return;
    }
    match kind {
        "user" => out.push(Record::Prompt(text)),
        "gemini" => out.push(Record::Reply(text)),
        _ => {}
    }
}
