//! Codex's transcripts: `sessions/<year>/<month>/<day>/rollout-*.jsonl`.

use crate::transcript::{ContextUse, Format, Home, Leader, Location, Record, Row, texts};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, path::Path};

pub(super) static FORMAT: Format = Format {
    name: "codex",
    home: Home { folder: ".codex", variable: "CODEX_HOME", variable_names_parent: false },
    folders: "sessions/*/*/*",
    path_of_session: None,
    location: Location::ByFirstLine { leader, is_kept_open: true, project_list: None },
    row,
    context: Some(context),
    #[cfg(any(test, feature = "testing"))]
    turn: include_str!("turn.jsonl"),
};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    payload: Payload<'a>,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    turn_id: Option<Cow<'a, str>>,
    role: Option<&'a str>,
    content: Option<&'a RawValue>,
    item: Option<Item<'a>>,
    /// The prompt, in transcripts of older versions.
    message: Option<String>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    content: Option<&'a RawValue>,
}

fn row(line: &str) -> Option<Row<'_>> {
    let Line { kind, payload } = serde_json::from_str(line).ok()?;
    let (id, records) = match (kind, payload.kind, payload.role, payload.item) {
        ("response_item", Some("message"), Some("assistant"), _) => {
            let texts = payload.content.map(texts).unwrap_or_default();
            (payload.id, texts.into_iter().map(Record::Reply).collect())
        }
        ("event_msg", Some("item_completed"), _, Some(item)) if item.kind == "UserMessage" => {
            let texts = item.content.map(texts).unwrap_or_default();
            (item.id, vec![Record::Prompt(texts.concat())])
        }
        ("event_msg", Some("user_message"), ..) => {
            (None, payload.message.map(Record::Prompt).into_iter().collect())
        }
        ("event_msg", Some("task_started"), ..) => (payload.turn_id, vec![Record::TurnBegan]),
        ("event_msg", Some("task_complete" | "turn_aborted"), ..) => {
            (payload.turn_id, vec![Record::TurnOver])
        }
        _ => return None,
    };
    Some(Row { id, records })
}

/// Reads the token counts of the model's last answer.
fn context(line: &str) -> Option<ContextUse> {
    #[derive(Deserialize)]
    struct Line {
        payload: Count,
    }
    #[derive(Deserialize)]
    struct Count {
        info: Info,
    }
    #[derive(Deserialize)]
    struct Info {
        last_token_usage: Usage,
        model_context_window: Option<u64>,
    }
    #[derive(Deserialize)]
    struct Usage {
        total_tokens: u64,
    }
    let Line { payload: Count { info } } = serde_json::from_str(line).ok()?;
    let window = info.model_context_window;
    Some(ContextUse { tokens: info.last_token_usage.total_tokens, window })
}

/// Reads the first line of a transcript: the working directory, and the source of the conversation.
/// The source is a word such as `cli`, or an object that says why an agent began the conversation.
fn leader(line: &str, _directory: &Path) -> Leader {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        payload: Meta<'a>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        /// Missing in transcripts of older versions, which have no subagents.
        #[serde(borrow)]
        source: Option<&'a RawValue>,
        cwd: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Source<'a> {
        #[serde(borrow)]
        subagent: Option<&'a RawValue>,
        /// Present if Codex itself began the conversation, for example to consolidate its memory.
        internal: Option<&'a RawValue>,
    }
    let Ok(Head { payload: Meta { source, cwd } }) = serde_json::from_str(line) else {
        return Leader::Elsewhere;
    };
    let source = source.and_then(|source| serde_json::from_str::<Source<'_>>(source.get()).ok());
    if source.is_some_and(|source| source.subagent.or(source.internal).is_some()) {
        return Leader::Subagent;
    }
    let cwd = cwd.and_then(|cwd| serde_json::from_str(cwd.get()).ok());
    cwd.map_or(Leader::Elsewhere, Leader::In)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::tests::check;

    #[test]
    fn context_is_taken_from_the_last_answer() {
        let lines = r#"{"timestamp":"t","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":900},"last_token_usage":{"input_tokens":100,"total_tokens":110},"model_context_window":258400}}}
{"timestamp":"t","type":"event_msg","payload":{"type":"token_count","info":null}}
{"timestamp":"t","type":"event_msg","payload":{"type":"task_complete"}}"#;
        let read = ContextUse { tokens: 110, window: Some(258_400) };
        assert_eq!(FORMAT.context_in(lines), Some(read));
    }

    #[test]
    fn prompts_replies_and_ends_of_turns_are_read() {
        check(
            &FORMAT,
            r#"{"timestamp":"2026-11-20T12:00:01.000Z","ordinal":0,"type":"session_meta","payload":{"id":"01","cwd":"/p"}}
{"timestamp":"2026-11-20T12:00:01.000Z","type":"event_msg","payload":{"type":"task_started","turn_id":"1"}}
{"timestamp":"2026-11-20T12:00:01.000Z","type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]}}
{"timestamp":"2026-11-20T12:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]}}
{"timestamp":"2026-11-20T12:00:01.000Z","type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"Hello there"}]}}}
{"timestamp":"2026-11-20T12:00:02.000Z","type":"event_msg","payload":{"type":"item_completed","item":{"type":"AgentMessage","id":"m","content":[{"type":"Text","text":"Said so"}]}}}
{"timestamp":"2026-11-20T12:00:02.000Z","type":"response_item","payload":{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"Said so"}]}}
{"timestamp":"2026-11-20T12:00:02.000Z","type":"event_msg","payload":{"type":"task_complete","last_agent_message":"Said so"}}
{"timestamp":"2026-11-20T12:00:03.000Z","type":"event_msg","payload":{"type":"task_started","turn_id":"2"}}
{"timestamp":"2026-11-20T12:00:03.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"A summary: ->relay:Bob"}]}}
{"timestamp":"2026-11-20T12:00:03.000Z","type":"compacted","payload":{"message":"m","replacement_history":[]}}
{"timestamp":"2026-11-20T12:00:03.000Z","type":"event_msg","payload":{"type":"turn_aborted","reason":"interrupted"}}
"#,
            &["begin", "prompt Hello there", "reply Said so", "over", "begin", "over"],
        );
    }

    #[test]
    fn first_line_tells_a_subagent_from_an_agent_and_its_directory() {
        let head = |source: &str| {
            format!(
                r#"{{"timestamp":"t","type":"session_meta","payload":{{"id":"01","cwd":"/p"{source}}}}}"#
            )
        };
        let spawned =
            r#","source":{"subagent":{"thread_spawn":{"parent_thread_id":"00","depth":1}}}"#;
        let here = Leader::In("/p".into());
        for (line, expected) in [
            (&*head(spawned), &Leader::Subagent),
            (&head(r#","source":{"subagent":"review"}"#), &Leader::Subagent),
            (&head(r#","source":{"internal":"memory_consolidation"}"#), &Leader::Subagent),
            (&head(r#","source":"cli","thread_source":"user""#), &here),
            (&head(r#","source":{"custom":"mine"}"#), &here),
            (&head(""), &here),
            ("subagent", &Leader::Elsewhere),
        ] {
            assert_eq!(leader(line, Path::new("/p")), *expected, "{line}");
        }
    }
}
