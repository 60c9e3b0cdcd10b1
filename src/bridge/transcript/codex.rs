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
    #[serde(borrow, default)]
    item: Option<Item<'a>>,
    /// Of older versions.
    #[serde(default)]
    message: Option<String>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// The turn has a prompt: else its reply is a summary of the conversation, which may quote it. Gives back
/// whether it has one after this line.
pub(super) fn read(line: &str, prompted: bool, out: &mut Vec<Record>) -> bool {
    let Ok(Line { kind, payload }) = serde_json::from_str(line) else { return prompted };
    match (kind, payload.kind, payload.role, payload.item) {
        ("response_item", Some("message"), Some("assistant"), _) if prompted => {
            let texts = payload.content.map(texts).unwrap_or_default();
            out.extend(texts.into_iter().map(Record::Reply));
        }
        ("event_msg", Some("item_completed"), _, Some(item)) if item.kind == "UserMessage" => {
            let texts = item.content.map(texts).unwrap_or_default();
            out.push(Record::Prompt(texts.concat()));
            return true;
        }
        ("event_msg", Some("user_message"), ..) => {
            out.extend(payload.message.map(Record::Prompt));
            return true;
        }
        ("event_msg", Some("task_started"), ..) => return false,
        ("event_msg", Some("task_complete" | "turn_aborted"), ..) => out.push(Record::TurnOver),
        _ => {}
    }
    prompted
}

/// Who has begun a conversation is a word, such as `cli`, or what an agent began it for.
pub(super) fn is_of_subagent(head: &str) -> bool {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        payload: Meta<'a>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(borrow)]
        source: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Source<'a> {
        #[serde(borrow, default)]
        subagent: Option<&'a RawValue>,
        /// What Codex does for itself.
        #[serde(borrow, default)]
        internal: Option<&'a RawValue>,
    }
    // Older versions don't say it, and have no such agents.
    let Ok(Head { payload }) = serde_json::from_str(head) else { return false };
    let source = serde_json::from_str::<Source<'_>>(payload.source.get());
    source.is_ok_and(|source| source.subagent.or(source.internal).is_some())
}
