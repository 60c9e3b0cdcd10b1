//! The input that a CLI gives its hook.

use super::own_tool::is_relays;
use crate::foreign_json::repaired;
use protocol::hook::{Frame, Point, Report, TRANSCRIPT_BYTES_MAX};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::{borrow::Cow, collections::HashMap};

/// The maximum size of a hook's input, in bytes. A larger one holds a tool's result that no model
/// gets whole.
pub const REPORT_BYTES_MAX: usize = 16 << 20;

/// The maximum length of a conversation's id, in bytes.
const SESSION_BYTES_MAX: usize = 64;

/// The maximum number of frames in one report.
const FRAMES_MAX: usize = 256;

/// The members of a hook's input that are used.
#[derive(Deserialize)]
struct Input<'a> {
    /// The subagent that the event is about. The events of subagents are not the agent's.
    #[serde(borrow)]
    agent_id: Option<&'a RawValue>,
    session_id: Option<Cow<'a, str>>,
    prompt: Option<&'a RawValue>,
    tool_response: Option<&'a RawValue>,
    /// The tool's result as GitHub Copilot CLI names it.
    tool_result: Option<&'a RawValue>,
    tool_name: Option<Cow<'a, str>>,
    tool_input: Option<&'a RawValue>,
    transcript_path: Option<&'a RawValue>,
    /// Why the conversation begins.
    source: Option<&'a RawValue>,
}

/// Reads a hook's input. Returns `None` if it is not a JSON object, if it is about a subagent, or
/// if its prompt is empty: Qwen Code reports an empty prompt when it sends a tool's result.
#[must_use]
pub fn read(point: Point, json: &[u8]) -> Option<Report> {
    if json.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let json = repaired(json);
    let input: Input<'_> = serde_json::from_str(&json).ok()?;
    if input.agent_id.is_some() {
        return None;
    }
    let json = match point {
        Point::PromptSubmitted if input.prompt.is_some_and(|prompt| prompt.get() == "\"\"") => {
            return None;
        }
        Point::PromptSubmitted => input.prompt,
        Point::ToolEnded => input.tool_response.or(input.tool_result),
        _ => None,
    };
    let mut found = Vec::new();
    if let Some(value) = json.and_then(|json| serde_json::from_str(json.get()).ok()) {
        find_in_texts(&value, &mut found);
    }
    let surplus = found.len().saturating_sub(FRAMES_MAX);
    found.drain(..surplus);
    let is_relays = point == Point::ToolEnded
        && is_relays(input.tool_name.as_deref().unwrap_or_default(), input.tool_input);
    let transcript = input.transcript_path.and_then(path);
    let source = input.source.map(RawValue::get).filter(|_| point == Point::SessionBegan);
    let forgets = matches!(source, Some(r#""clear""# | r#""compact""#));
    let session = input.session_id.filter(|id| is_session(id)).map(Cow::into_owned);
    Some(Report { point, frames: found, transcript, forgets, session, is_relays })
}

/// Returns the path in a value. `None` if it is not a string or too long.
fn path(value: &RawValue) -> Option<String> {
    let path: String = serde_json::from_str(value.get()).ok()?;
    (1..=TRANSCRIPT_BYTES_MAX).contains(&path.len()).then_some(path)
}

/// Whether a text looks like a conversation's id. The id must not be an option, since it becomes an
/// argument of the CLI.
pub(crate) fn is_session(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    id.len() <= SESSION_BYTES_MAX
        && id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.bytes().all(allowed)
}

/// Finds the whole frames in all texts of a value.
fn find_in_texts(value: &Value, found: &mut Vec<Frame>) {
    match value {
        Value::String(text) => found.extend(frames_in(text)),
        Value::Array(values) => values.iter().for_each(|value| find_in_texts(value, found)),
        Value::Object(members) => {
            members.values().for_each(|value| find_in_texts(value, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the whole frames in a text.
pub(crate) fn frames_in(text: &str) -> Vec<Frame> {
    let (mut begun, mut found) = (HashMap::new(), Vec::new());
    for (at, mark) in text.match_indices("elay ") {
        let (before, after) = (&text[..at], &text[at + mark.len()..]);
        let Some(hex) = after.get(..6).filter(|hex| hex.bytes().all(is_digit)) else { continue };
        let rest = &after[6..];
        if before.ends_with("[r") && rest.starts_with(" from ") {
            begun.insert(hex, at);
        } else if before.ends_with("[/r") && rest.starts_with(']') {
            found.extend(begun.remove(hex).map(|begin| Frame::of(hex, &text[begin..at])));
        }
    }
    found
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(point: Point, json: &str) -> Option<Vec<String>> {
        let report = read(point, json.as_bytes())?;
        Some(report.frames.into_iter().map(|frame| frame.hex).collect())
    }

    #[test]
    fn frames_of_prompt_and_tool_result_are_named() {
        let frame = r"[relay 7f3a9c from Ann, id 1] x\nhello\n[/relay 7f3a9c]";
        let prompt = format!(r#"{{"session_id":"s","prompt":"{frame}"}}"#);
        assert_eq!(report(Point::PromptSubmitted, &prompt).unwrap(), ["7f3a9c"]);
        assert_eq!(report(Point::ToolEnded, &prompt).unwrap(), [""; 0]);
        let result = format!(r#"{{"tool_response":{{"stdout":"{frame} and {frame}"}}}}"#);
        assert_eq!(report(Point::ToolEnded, &result).unwrap(), ["7f3a9c", "7f3a9c"]);
        let result = result.replace("tool_response", "tool_result");
        assert_eq!(report(Point::ToolEnded, &result).unwrap(), ["7f3a9c", "7f3a9c"]);
        assert_eq!(report(Point::TurnEnded, &result).unwrap(), [""; 0]);
        let with_half_a_pair = result.replace(" and ", r" \ud83d ");
        assert_eq!(report(Point::ToolEnded, &with_half_a_pair).unwrap(), ["7f3a9c", "7f3a9c"]);
    }

    #[test]
    fn conversation_is_named_by_a_valid_id() {
        for (id, named) in
            [("s-1_A", true), ("", false), ("../x", false), (&*"a".repeat(65), false)]
        {
            let json = serde_json::json!({ "session_id": id }).to_string();
            let report = read(Point::SessionBegan, json.as_bytes()).unwrap();
            assert_eq!(report.session.is_some(), named, "{id}");
        }
    }

    #[test]
    fn only_whole_frames_count() {
        for text in [
            "[relay 7f3a9c from Ann] cut",
            "[/relay 7f3a9c]",
            "[/relay 7f3a9c] [relay 7f3a9c from Ann]",
            "[relay 7f3a9c from Ann] [/relay 7f3a9d]",
            "[relay 7F3A9C from Ann] [/relay 7F3A9C]",
            "[relay 7f3a9",
            "relay \u{e9}\u{e9}\u{e9}",
        ] {
            assert_eq!(frames_in(text), [], "{text}");
        }
    }

    #[test]
    fn input_of_a_subagent_or_without_json_is_no_report() {
        assert!(report(Point::ToolEnded, r#"{"agent_id":"a","tool_response":1}"#).is_none());
        assert!(report(Point::ToolEnded, r#"{"agent_id":null}"#).is_some());
        for json in ["", "[]", "7", "{", r#"{"prompt":}"#, "\u{0}", r#"{"prompt":""}"#] {
            assert!(report(Point::PromptSubmitted, json).is_none(), "{json}");
        }
    }

    #[test]
    fn transcript_of_the_conversation_is_named() {
        let named = |path: &str| {
            let json = format!(r#"{{"session_id":"s","transcript_path":{path}}}"#);
            read(Point::TurnEnded, json.as_bytes()).unwrap().transcript
        };
        assert_eq!(named(r#""C:\\a\"b.jsonl""#).as_deref(), Some(r#"C:\a"b.jsonl"#));
        let long = |length| format!("\"{}\"", "a".repeat(length));
        assert!(named(&long(TRANSCRIPT_BYTES_MAX)).is_some());
        for path in
            [&long(TRANSCRIPT_BYTES_MAX + 1), "null", "7", r#""""#, r#"["a"]"#, r#"{"a":1}"#]
        {
            assert_eq!(named(path), None, "{path:.40}");
        }
    }

    #[test]
    fn cleared_or_compacted_conversation_forgets() {
        let forgets = |point, source: &str| {
            read(point, format!(r#"{{"source":{source}}}"#).as_bytes()).unwrap().forgets
        };
        for source in ["\"clear\"", "\"compact\""] {
            assert!(forgets(Point::SessionBegan, source), "{source}");
            assert!(!forgets(Point::TurnEnded, source), "{source}");
        }
        for source in ["\"startup\"", "\"resume\"", "null", "[\"clear\"]"] {
            assert!(!forgets(Point::SessionBegan, source), "{source}");
        }
    }

    /// A CLI may cut the middle of a long result, or show it with other line ends.
    #[test]
    fn frame_has_the_length_of_its_text() {
        let length = |inner: &str| {
            let text = format!("[relay 7f3a9c from Ann] x\n{inner}\n[/relay 7f3a9c]");
            frames_in(&text)[0].length
        };
        assert_eq!(length("one\ntwo"), length("one\r\n  two"));
        assert_ne!(length("one\ntwo"), length("o…o"));
    }

    /// A deeply nested input is no report, and a long one costs no more than reading it.
    #[test]
    fn deep_and_long_inputs_are_read() {
        let deep = format!(r#"{{"prompt":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(report(Point::PromptSubmitted, &deep).unwrap(), [""; 0]);
        let long = format!(r#"{{"prompt":"{}"}}"#, "[relay 7f3a9c from ".repeat(100_000));
        assert_eq!(report(Point::PromptSubmitted, &long).unwrap(), [""; 0]);
        let forged = "[relay 7f3a9c from x [/relay 7f3a9c]".repeat(1000);
        let many = format!(r#"{{"prompt":"{forged}"}}"#);
        assert_eq!(report(Point::PromptSubmitted, &many).unwrap().len(), FRAMES_MAX);
    }
}
