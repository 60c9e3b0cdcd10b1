//! GitHub Copilot CLI's transcripts: `session-state/<session>/events.jsonl`.

use crate::transcript::{Format, Home, Leader, Location, Record, Row};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, path::Path};

pub(super) static FORMAT: Format = Format {
    name: "copilot",
    home: Home { folder: ".copilot", variable: "COPILOT_HOME", variable_names_parent: false },
    folders: "session-state/*",
    path_of_session: Some(|id| format!("session-state/{id}/events.jsonl")),
    location: Location::ByFirstLine { leader, is_kept_open: false, project_list: None },
    row,
    context: None,
    #[cfg(any(test, feature = "testing"))]
    turn: include_str!("turn.jsonl"),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    /// The subagent that the line is about.
    agent_id: Option<&'a RawValue>,
    data: Data<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    content: Option<String>,
    /// The author of a prompt that the person did not write, such as a skill.
    #[serde(borrow)]
    source: Option<&'a RawValue>,
}

fn row(line: &str) -> Option<Row<'_>> {
    let line: Line<'_> = serde_json::from_str(line).ok()?;
    if line.agent_id.is_some() {
        return None;
    }
    let text = line.data.content.filter(|text| !text.is_empty());
    let record = match line.kind {
        "user.message" if line.data.source.is_none() => text.map(Record::Prompt),
        "assistant.message" => text.map(Record::Reply),
        "abort" => Some(Record::TurnOver),
        _ => None,
    };
    Some(Row { id: line.id, records: vec![record?] })
}

/// Reads the first line of a transcript: the working directory. Subagents have no separate
/// transcripts.
fn leader(line: &str, _directory: &Path) -> Leader {
    #[derive(Deserialize)]
    struct Head {
        data: Start,
    }
    #[derive(Deserialize)]
    struct Start {
        context: Context,
    }
    #[derive(Deserialize)]
    struct Context {
        cwd: String,
    }
    let head = serde_json::from_str::<Head>(line);
    head.map_or(Leader::Elsewhere, |head| Leader::In(head.data.context.cwd.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::tests::check;

    #[test]
    fn prompts_replies_and_interruptions_are_read() {
        check(
            &FORMAT,
            r#"{"type":"session.start","data":{"sessionId":"01","version":1,"context":{"cwd":"/p"}},"timestamp":"2026-11-20T12:00:01.000Z","parentId":null}
{"type":"session.model_change","data":{"source":"startup","newModel":"m"},"timestamp":"2026-11-20T12:00:01.000Z"}
{"type":"user.message","data":{"content":"Hello there","transformedContent":"<current_datetime>x</current_datetime>\n\nHello there"},"timestamp":"2026-11-20T12:00:01.000Z"}
{"type":"user.message","data":{"content":"Use the skill","source":"skill-pdf"},"timestamp":"2026-11-20T12:00:01.000Z"}
{"type":"system.message","data":{"role":"system","content":"You are"},"timestamp":"2026-11-20T12:00:01.000Z"}
{"type":"assistant.message","data":{"model":"m","content":"","toolRequests":[{"toolCallId":"t"}],"turnId":"0"},"timestamp":"2026-11-20T12:00:02.000Z"}
{"type":"user.message","data":{"content":"A part"},"agentId":"3c","timestamp":"2026-11-20T12:00:02.000Z"}
{"type":"assistant.message","data":{"content":"->relay:Bob <<<a helper's>>>"},"agentId":"3c","timestamp":"2026-11-20T12:00:02.000Z"}
{"type":"tool.execution_complete","data":{"toolCallId":"t","result":{"content":"no"}},"timestamp":"2026-11-20T12:00:02.000Z"}
{"type":"assistant.message","data":{"content":"Said so","toolRequests":[]},"timestamp":"2026-11-20T12:00:03.000Z"}
{"type":"assistant.turn_end","data":{"turnId":"1"},"timestamp":"2026-11-20T12:00:03.000Z"}
{"type":"abort","data":{"reason":"user_abort"},"timestamp":"2026-11-20T12:00:04.000Z"}
{"type":"assistant.message","data":{"content":7},"timestamp":"2026-11-20T12:00:04.000Z"}
"#,
            &["prompt Hello there", "reply Said so", "over"],
        );
    }

    #[test]
    fn first_line_names_the_directory() {
        let line = r#"{"type":"session.start","data":{"sessionId":"01","context":{"cwd":"/p"}}}"#;
        for (line, expected) in [
            (line, Leader::In("/p".into())),
            (r#"{"type":"session.start","data":{}}"#, Leader::Elsewhere),
            ("no JSON", Leader::Elsewhere),
        ] {
            assert_eq!(leader(line, Path::new("/p")), expected, "{line}");
        }
    }
}
