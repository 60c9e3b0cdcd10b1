//! What real CLIs write, cut down to what is read of it.

use super::*;

const SINCE: &str = "2026-11-20T12:00:00.000Z";

/// What a reader makes of a file, fed in pieces of every size.
#[track_caller]
fn check(format: Format, file: &str, expected: &[&str]) {
    for piece in 1..=file.len() {
        let (mut reader, mut out) = (Reader::new(format, SINCE.to_owned()), Vec::new());
        for bytes in file.as_bytes().chunks(piece) {
            reader.feed(bytes, &mut out);
        }
        assert_eq!(told(&out), expected, "{format:?} in pieces of {piece}");
        reader.restart();
        reader.feed(file.as_bytes(), &mut out);
        assert_eq!(told(&out), expected, "{format:?} again");
    }
}

fn told(records: &[Record]) -> Vec<String> {
    let told = records.iter().map(|record| match record {
        Record::Prompt(text) => format!("prompt {text}"),
        Record::Reply(text) => format!("reply {text}"),
        Record::TurnOver => "over".to_owned(),
    });
    told.collect()
}

#[test]
fn claude_code() {
    check(
        Format::Claude,
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

#[test]
fn codex() {
    check(
        Format::Codex,
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
        &["prompt Hello there", "reply Said so", "over", "over"],
    );
}

#[test]
fn gemini_cli() {
    check(
        Format::Gemini,
        r#"{"sessionId":"f1","projectHash":"91","startTime":"2026-11-20T12:00:00.000Z","kind":"main"}
{"$set":{"messages":[{"id":"s","type":"user","content":[{"text":"<session_context>"}]}]}}
{"id":"1","timestamp":"2026-11-20T12:00:01.000Z","type":"user","content":[{"text":"Hello there"}]}
{"id":"2","timestamp":"2026-11-20T12:00:02.000Z","type":"gemini","content":"Said so","thoughts":[],"model":"m"}
{"$set":{"lastUpdated":"2026-11-20T12:00:02.000Z"}}
{"id":"2","timestamp":"2026-11-20T12:00:03.000Z","type":"gemini","content":"Said so","toolCalls":[{"name":"x"}]}
{"id":"3","timestamp":"2026-11-20T12:00:03.000Z","type":"user","content":[{"functionResponse":{"name":"x"}}]}
{"id":"4","timestamp":"2026-11-20T12:00:04.000Z","type":"info","content":"Request cancelled."}
{"id":"5","timestamp":"2026-11-20T12:00:05.000Z","type":"gemini","content":[{"text":"Said so"}],"thoughts":[]}
{"id":"6","timestamp":"2026-11-20T12:00:06.000Z","type":"gemini","content":"","toolCalls":[{"name":"x"}]}
{"id":"6","timestamp":"2026-11-20T12:00:07.000Z","type":"gemini","content":"And this","toolCalls":[{"name":"x"}]}
"#,
        &["prompt Hello there", "reply Said so", "reply And this"],
    );
}

#[test]
fn a_file_says_at_its_beginning_that_it_is_of_a_subagent() {
    let codex = |source: &str| {
        format!(
            r#"{{"timestamp":"t","type":"session_meta","payload":{{"id":"01","cwd":"/p"{source}}}}}"#
        )
    };
    let spawned = r#","source":{"subagent":{"thread_spawn":{"parent_thread_id":"00","depth":1}}}"#;
    for (format, head, expected) in [
        (Format::Codex, &*codex(spawned), true),
        (Format::Codex, &codex(r#","source":{"subagent":"review"}"#), true),
        (Format::Codex, &codex(r#","source":{"internal":"memory_consolidation"}"#), true),
        (Format::Codex, &codex(r#","source":"cli","thread_source":"user""#), false),
        (Format::Codex, &codex(r#","source":{"custom":"mine"}"#), false),
        (Format::Codex, &codex(""), false),
        (Format::Codex, "subagent", false),
        (Format::Gemini, r#"{"sessionId":"f1","projectHash":"91","kind":"subagent"}"#, true),
        (Format::Gemini, r#"{"sessionId":"f1","projectHash":"91","kind":"main"}"#, false),
        (Format::Gemini, r#"{"sessionId":"f1","projectHash":"91"}"#, false),
        (Format::Claude, r#"{"type":"mode","kind":"subagent"}"#, false),
    ] {
        assert_eq!(format.is_of_subagent(head), expected, "{format:?}: {head}");
    }
}

#[test]
fn a_line_that_is_too_long_is_passed_over() {
    let (mut reader, mut out) = (Reader::new(Format::Gemini, SINCE.to_owned()), Vec::new());
    let line = |id: u8| {
        format!(
            "{{\"id\":\"{id}\",\"timestamp\":\"{SINCE}\",\"type\":\"gemini\",\"content\":\"{id}\"}}\n"
        )
    };
    reader.feed(line(1).as_bytes(), &mut out);
    let long = vec![b'x'; LINE_BYTES_MAX / 2 + 1];
    reader.feed(&long, &mut out);
    reader.feed(&long, &mut out);
    reader.feed(b"\n", &mut out);
    reader.feed(line(2).as_bytes(), &mut out);
    assert_eq!(told(&out), ["reply 1", "reply 2"]);
}

/// One line more than are remembered, and a time that many of them have.
#[test]
fn a_long_file_that_is_written_anew_is_not_read_twice() {
    let (mut reader, mut out) = (Reader::new(Format::Gemini, SINCE.to_owned()), Vec::new());
    let line = |id: usize| {
        let (second, ms) = (id / 500, id % 500 / 100);
        let at = format!("2026-11-20T12:00:{second:02}.{ms:03}Z");
        format!(
            "{{\"id\":\"{id}\",\"timestamp\":\"{at}\",\"type\":\"gemini\",\"content\":\"{id}\"}}\n"
        )
    };
    let count = SEEN_MAX + 250;
    let mut file: String = (0..count).map(line).collect();
    reader.feed(file.as_bytes(), &mut out);
    assert_eq!(out.len(), count);
    out.clear();
    file.push_str(&line(count));
    for expected in [vec![format!("reply {count}")], vec![]] {
        reader.restart();
        reader.feed(file.as_bytes(), &mut out);
        assert_eq!(told(&out), expected);
        out.clear();
    }
}
