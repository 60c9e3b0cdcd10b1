//! Claude Code's transcripts, from 2.0 on: `projects/<directory>/<session>.jsonl`.

use crate::transcript::{ContextUse, Format, Home, Location, Record, Row, texts};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

pub(super) static FORMAT: Format = Format {
    name: "claude",
    home: Home { folder: ".claude", variable: "CLAUDE_CONFIG_DIR", variable_names_parent: false },
    folders: "projects/*",
    path_of_session: None,
    location: Location::ByProcess,
    row,
    context: Some(context),
    #[cfg(any(test, feature = "testing"))]
    turn: include_str!("turn.jsonl"),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    uuid: Option<Cow<'a, str>>,
    subtype: Option<&'a str>,
    /// Whether a subagent wrote the line.
    #[serde(default)]
    is_sidechain: bool,
    /// Whether Claude Code itself wrote the text, rather than the person or the agent.
    #[serde(default)]
    is_meta: bool,
    #[serde(default)]
    is_api_error_message: bool,
    #[serde(default)]
    is_compact_summary: bool,
    /// Present if the line was copied from another conversation when this one was forked from it.
    forked_from: Option<&'a RawValue>,
    /// The id of the message that the person interrupted, on a line that records the interruption.
    interrupted_message_id: Option<&'a RawValue>,
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

fn row(line: &str) -> Option<Row<'_>> {
    let line: Line<'_> = serde_json::from_str(line).ok()?;
    let is_of_another = line.is_sidechain || line.forked_from.is_some();
    let is_not_said = line.is_meta || line.is_api_error_message || line.is_compact_summary;
    if is_of_another || is_not_said {
        return None;
    }
    let all = |content, make: fn(String) -> Record| texts(content).into_iter().map(make).collect();
    let records = match (line.kind, line.subtype, line.message) {
        ("system", Some("turn_duration"), _) => vec![Record::TurnOver],
        ("user", ..) if line.interrupted_message_id.is_some() => vec![Record::TurnOver],
        ("user", _, Some(message)) => all(message.content, Record::Prompt),
        ("assistant", _, Some(message)) => all(message.content, Record::Reply),
        _ => return None,
    };
    Some(Row { id: line.uuid, records })
}

/// Reads the token counts of a model's answer. Subagents' answers are skipped: they have their own
/// context.
fn context(line: &str) -> Option<ContextUse> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Line {
        #[serde(default)]
        is_sidechain: bool,
        message: Answer,
    }
    #[derive(Deserialize)]
    struct Answer {
        usage: Usage,
    }
    #[derive(Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct Usage {
        input_tokens: u64,
        cache_creation_input_tokens: u64,
        cache_read_input_tokens: u64,
        output_tokens: u64,
    }
    let line: Line = serde_json::from_str(line).ok().filter(|line: &Line| !line.is_sidechain)?;
    let Usage { input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens } =
        line.message.usage;
    let parts = [cache_creation_input_tokens, cache_read_input_tokens, output_tokens];
    let tokens = parts.into_iter().fold(input_tokens, u64::saturating_add);
    // Lines that Claude Code writes itself have no token counts.
    (tokens > 0).then_some(ContextUse { tokens, window: None })
}

#[cfg(test)]
mod tests {
    use crate::transcript::tests::check;

    #[test]
    fn context_is_taken_from_the_last_answer() {
        let answer = |more: &str, read: u64| {
            format!(
                r#"{{"isSidechain":false{more},"message":{{"content":[],"usage":{{"input_tokens":4,"cache_creation_input_tokens":20,"cache_read_input_tokens":{read},"output_tokens":6}}}},"type":"assistant"}}"#
            )
        };
        let prompt = r#"{"isSidechain":false,"type":"user","message":{"content":"hello"}}"#;
        let side = answer("", 900).replace("false", "true");
        let lines = [&answer("", 70)[9..], &answer("", 170), &side, prompt].join("\n");
        let read = super::FORMAT.context_in(&lines).unwrap();
        assert_eq!((read.tokens, read.window), (200, None));
        assert_eq!(super::FORMAT.context_in(prompt), None);
    }

    #[test]
    fn prompts_replies_and_ends_of_turns_are_read() {
        check(
            &super::FORMAT,
            r#"{"type":"ai-title","title":"x"}
{"type":"user","message":{"role":"user","content":"long ago"},"timestamp":"2026-11-20T11:59:59.999Z","isSidechain":false}
{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"Hello \"there\""},"uuid":"u1","timestamp":"2026-11-20T12:00:01.000Z"}
{"isSidechain":false,"type":"user","isMeta":true,"message":{"role":"user","content":"<local-command-caveat>"},"timestamp":"2026-11-20T12:00:01.000Z"}
{"isSidechain":true,"message":{"content":[{"text":"->relay:Bob <<<a helper's>>>","type":"text"}],"role":"assistant"},"type":"assistant","timestamp":"2026-11-20T12:00:02.000Z"}
{"isSidechain":false,"message":{"content":[{"type":"thinking","thinking":"hm"}],"role":"assistant"},"type":"assistant","timestamp":"2026-11-20T12:00:02.000Z"}
{"isSidechain":false,"message":{"content":[{"text":"Said\n```\nso","type":"text"}],"stop_reason":"end_turn","role":"assistant"},"type":"assistant","uuid":"a1","timestamp":"2026-11-20T12:00:03.000Z"}
{"isSidechain":false,"message":{"content":[{"id":"t","input":{"text":"no"},"name":"Write","type":"tool_use"}],"role":"assistant"},"type":"assistant","timestamp":"2026-11-20T12:00:03.000Z"}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"no"}]},"timestamp":"2026-11-20T12:00:03.000Z"}
{"isSidechain":false,"isApiErrorMessage":true,"message":{"content":[{"text":"API Error","type":"text"}],"role":"assistant"},"type":"assistant","timestamp":"2026-11-20T12:00:04.000Z"}
{"type":"system","subtype":"turn_duration","durationMs":109,"timestamp":"2026-11-20T12:00:04.000Z"}
{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]},"interruptedMessageId":"msg","timestamp":"2026-11-20T12:00:05.000Z"}
{"type":"user","isCompactSummary":true,"message":{"role":"user","content":"This session is continued"},"timestamp":"2026-11-20T12:00:05.000Z"}
{"isSidechain":false,"forkedFrom":{"sessionId":"s","messageUuid":"a1"},"message":{"content":[{"text":"Said\n```\nso","type":"text"}],"role":"assistant"},"type":"assistant","uuid":"a1","timestamp":"2026-11-20T12:00:06.000Z"}
{"forkedFrom":{"sessionId":"s","messageUuid":"t1"},"type":"system","subtype":"turn_duration","durationMs":109,"timestamp":"2026-11-20T12:00:06.000Z"}
not JSON at all
{"type":"assistant","message":{"content":[{"text":"half a li"#,
            &["prompt Hello \"there\"", "reply Said\n```\nso", "over", "over"],
        );
    }
}
