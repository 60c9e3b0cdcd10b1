//! The tools: their descriptions, and the command of this program that each of them runs.

use super::pages::Pages;
use protocol::{
    payload::{IMPORTANCE_MAX, Sync},
    typed,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// The longest text of an argument other than a message's body: names, topics, ids, words.
const TEXT_BYTES_MAX: usize = 1024;

/// The most seconds to wait for an answer.
const TIMEOUT_S_MAX: u64 = Sync::TIMEOUT_MS_MAX / 1000;

/// The seconds to wait for an answer if the caller does not say it.
const TIMEOUT_S: u64 = Sync::TIMEOUT_MS / 1000;

/// The most messages that `history` shows, and how many it shows by default.
const ROWS_MAX: u64 = 200;
const ROWS: u64 = 20;

/// A command line of this program that a tool runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The words after the program's name.
    pub words: Vec<String>,
    /// The text for the command's standard input.
    pub input: Option<String>,
}

/// The work of a tool call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A command; its output is the result.
    Runs(CommandLine, Shown),
    /// A page of an earlier result.
    Page { id: String, offset: usize },
}

/// How the output of a command becomes the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// As printed, since it contains no other agent's text.
    Own,
    /// In a frame: the first page, and further pages on request.
    Others,
    /// In a frame: a page of a message, from a position on. The message itself is kept by the
    /// daemon.
    Message { id: String, offset: usize },
    /// In a frame: the answer of an agent, with the seconds that the command waits for it.
    Answer { of: String, timeout_s: u64 },
}

/// A tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Whether the tool changes nothing.
    reads_only: bool,
    properties: fn() -> Value,
    required: &'static [&'static str],
    /// Turns arguments into work, in the name of the agent that was named on the command line.
    pub(super) work: fn(arguments: &str, name: Option<&str>) -> Result<Work, String>,
}

/// All tools.
pub(super) static TOOLS: &[Tool] = &[
    Tool {
        name: "send",
        title: "Send a message",
        description: "Send a message to another agent, to everyone (*), or on a topic. Returns when \
                      the relay has accepted it; message_status tells whether it has arrived.",
        reads_only: false,
        properties: || {
            json!({
                "to": text("The agent's name, @ and a team's group, several with commas, or * for everyone."),
                "body": json!({"type": "string", "description": "The text."}),
                "topic": text("The topic to send on: its subscribers get the message."),
                "thread": text("A label of the conversation."),
                "importance": importance(),
            })
        },
        required: &["to", "body"],
        work: send,
    },
    Tool {
        name: "ask",
        title: "Ask an agent",
        description: "Ask one agent a question and wait for its answer. Without an answer in time, \
                      this fails; the question still reaches the agent.",
        reads_only: false,
        properties: || {
            json!({
                "to": text("The agent's name."),
                "body": json!({"type": "string", "description": "The question."}),
                "timeout_seconds": number("The time to wait.", 1, TIMEOUT_S_MAX, TIMEOUT_S),
                "thread": text("A label of the conversation."),
                "importance": importance(),
            })
        },
        required: &["to", "body"],
        work: ask,
    },
    Tool {
        name: "read",
        title: "Read messages",
        description: "Read a message: the same as the command `agent-relay read ID`. Without an id, \
                      read everything that waits for you. A message that waits for you counts as \
                      delivered by this. Also shows the next page of a long result.",
        reads_only: false,
        properties: || {
            json!({
                "id": text("The message's id, or its first eight characters; or the id of a long \
                            result."),
                "offset": json!({
                    "type": "integer", "minimum": 0, "default": 0,
                    "description": "Where to begin in a long text, in bytes.",
                }),
            })
        },
        required: &[],
        work: read,
    },
    Tool {
        name: "inbox",
        title: "List waiting messages",
        description: "List the messages that wait for you, and why each of them waits.",
        reads_only: true,
        properties: || json!({}),
        required: &[],
        work: inbox,
    },
    Tool {
        name: "agents",
        title: "List agents",
        description: "List the agents, whether they are here, and the messages that wait for each.",
        reads_only: true,
        properties: || json!({}),
        required: &[],
        work: agents,
    },
    Tool {
        name: "message_status",
        title: "Show a message's state",
        description: "Show whether a message has arrived, or why it waits.",
        reads_only: true,
        properties: || json!({"id": text("The message's id, or its first eight characters.")}),
        required: &["id"],
        work: message_status,
    },
    Tool {
        name: "history",
        title: "Show past messages",
        description: "Show messages to and from you, the newest first.",
        reads_only: true,
        properties: || {
            json!({
                "with": text("Only messages to or from this agent."),
                "topic": text("Only messages on this topic."),
                "search": text("Only messages with all of these words."),
                "thread": text("Only messages with this label of a conversation."),
                "limit": number("At most this many.", 1, ROWS_MAX, ROWS),
            })
        },
        required: &[],
        work: history,
    },
];

impl Tool {
    /// Returns the description of the tool for the client.
    pub(super) fn description(&self) -> Value {
        let mut schema = json!({
            "type": "object", "properties": (self.properties)(), "additionalProperties": false,
        });
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": schema,
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.reads_only,
                "destructiveHint": false,
                "idempotentHint": self.reads_only,
                "openWorldHint": false,
            },
        })
    }
}

fn text(description: &str) -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": TEXT_BYTES_MAX, "description": description,
    })
}

fn number(description: &str, minimum: u64, maximum: u64, default: u64) -> Value {
    json!({
        "type": "integer", "minimum": minimum, "maximum": maximum, "default": default,
        "description": description,
    })
}

fn importance() -> Value {
    json!({
        "type": "integer", "minimum": 0, "maximum": IMPORTANCE_MAX,
        "description": "Above 75, the message goes before others that wait.",
    })
}

fn send(arguments: &str, name: Option<&str>) -> Result<Work, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        to: String,
        body: String,
        topic: Option<String>,
        thread: Option<String>,
        importance: Option<u64>,
    }
    let Arguments { to, body, topic, thread, importance } = typed::read(arguments)?;
    let mut line = Line::new("send");
    line.option("as", name)?;
    line.option("topic", topic.as_deref())?;
    line.option("thread", thread.as_deref())?;
    line.number("importance", importance, 0..=IMPORTANCE_MAX.into())?;
    line.argument("to", &to)?;
    Ok(Work::Runs(line.with_input(body), Shown::Own))
}

fn ask(arguments: &str, name: Option<&str>) -> Result<Work, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        to: String,
        body: String,
        timeout_seconds: Option<u64>,
        thread: Option<String>,
        importance: Option<u64>,
    }
    let Arguments { to, body, timeout_seconds, thread, importance } = typed::read(arguments)?;
    let timeout_s = timeout_seconds.unwrap_or(TIMEOUT_S);
    let mut line = Line::new("ask");
    line.option("as", name)?;
    line.number("timeout", Some(timeout_s), 1..=TIMEOUT_S_MAX)
        .map_err(|_| format!("`timeout_seconds` is not from 1 to {TIMEOUT_S_MAX}"))?;
    line.option("thread", thread.as_deref())?;
    line.number("importance", importance, 0..=IMPORTANCE_MAX.into())?;
    line.argument("to", &to)?;
    Ok(Work::Runs(line.with_input(body), Shown::Answer { of: to, timeout_s }))
}

fn read(arguments: &str, name: Option<&str>) -> Result<Work, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        id: Option<String>,
        offset: Option<u64>,
    }
    let Arguments { id, offset } = typed::read(arguments)?;
    let offset = offset.map(|offset| usize::try_from(offset).unwrap_or(usize::MAX));
    let Some(id) = id else {
        if offset.is_some() {
            return Err("`offset` needs an `id`".to_owned());
        }
        let mut line = Line::new("inbox");
        match name {
            // Outside a wrapper, nothing can be taken.
            Some(_) => line.option("as", name)?,
            None => line.words.push("--take".to_owned()),
        }
        return Ok(Work::Runs(line.end(), Shown::Others));
    };
    let offset = offset.unwrap_or(0);
    if Pages::is_kept_id(&id) {
        return Ok(Work::Page { id, offset });
    }
    let mut line = Line::new("read");
    line.argument("id", &id)?;
    Ok(Work::Runs(line.end(), Shown::Message { id, offset }))
}

fn inbox(arguments: &str, name: Option<&str>) -> Result<Work, String> {
    no_arguments(arguments)?;
    let mut line = Line::new("inbox");
    line.option("as", name)?;
    Ok(Work::Runs(line.end(), Shown::Others))
}

fn agents(arguments: &str, _: Option<&str>) -> Result<Work, String> {
    no_arguments(arguments)?;
    Ok(Work::Runs(Line::new("agents").end(), Shown::Others))
}

fn message_status(arguments: &str, _: Option<&str>) -> Result<Work, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        id: String,
    }
    let Arguments { id } = typed::read(arguments)?;
    let mut line = Line::new("status");
    line.argument("id", &id)?;
    Ok(Work::Runs(line.end(), Shown::Others))
}

fn history(arguments: &str, name: Option<&str>) -> Result<Work, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        with: Option<String>,
        topic: Option<String>,
        search: Option<String>,
        thread: Option<String>,
        limit: Option<u64>,
    }
    let Arguments { with, topic, search, thread, limit } = typed::read(arguments)?;
    let mut line = Line::new("history");
    line.option("of", name)?;
    line.option("with", with.as_deref())?;
    line.option("topic", topic.as_deref())?;
    line.option("search", search.as_deref())?;
    line.option("thread", thread.as_deref())?;
    line.number("limit", Some(limit.unwrap_or(ROWS)), 1..=ROWS_MAX)?;
    Ok(Work::Runs(line.end(), Shown::Others))
}

fn no_arguments(arguments: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {}
    typed::read(arguments).map(|Arguments {}| ())
}

/// A command line that is being written.
struct Line {
    words: Vec<String>,
    arguments: Vec<String>,
}

impl Line {
    fn new(command: &str) -> Self {
        Self { words: vec![command.to_owned()], arguments: Vec::new() }
    }

    fn option(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        if let Some(value) = value {
            check(name, value)?;
            self.words.push(format!("--{name}={value}"));
        }
        Ok(())
    }

    fn number(
        &mut self,
        name: &str,
        value: Option<u64>,
        range: RangeInclusive<u64>,
    ) -> Result<(), String> {
        match value {
            None => Ok(()),
            Some(value) if range.contains(&value) => self.option(name, Some(&value.to_string())),
            Some(_) => Err(format!("`{name}` is not from {} to {}", range.start(), range.end())),
        }
    }

    fn argument(&mut self, name: &str, value: &str) -> Result<(), String> {
        check(name, value)?;
        self.arguments.push(value.to_owned());
        Ok(())
    }

    fn end(self) -> CommandLine {
        let Self { mut words, arguments } = self;
        if !arguments.is_empty() {
            words.push("--".to_owned());
            words.extend(arguments);
        }
        CommandLine { words, input: None }
    }

    fn with_input(mut self, input: String) -> CommandLine {
        self.arguments.push("-".to_owned());
        CommandLine { input: Some(input), ..self.end() }
    }
}

fn check(name: &str, value: &str) -> Result<(), String> {
    match value.len() {
        0 => Err(format!("`{name}` is empty")),
        1..=TEXT_BYTES_MAX if !value.contains('\0') => Ok(()),
        1..=TEXT_BYTES_MAX => Err(format!("`{name}` has a NUL character")),
        _ => Err(format!("`{name}` is over {TEXT_BYTES_MAX} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(tool: &str, arguments: &str, name: Option<&str>) -> Result<Work, String> {
        let tool = TOOLS.iter().find(|known| known.name == tool).unwrap();
        (tool.work)(arguments, name)
    }

    /// The command line of a call, with its input behind `<`; or the error behind `!`.
    fn line(tool: &str, arguments: &str, name: Option<&str>) -> String {
        match work(tool, arguments, name) {
            Ok(Work::Runs(CommandLine { words, input }, _)) => {
                let input = input.map(|input| format!(" < {input}")).unwrap_or_default();
                format!("{}{input}", words.join(" "))
            }
            Ok(Work::Page { id, offset }) => format!("page {id} {offset}"),
            Err(why) => format!("! {why}"),
        }
    }

    #[test]
    fn calls_are_commands() {
        for (tool, arguments, expected) in [
            ("send", r#"{"to":"Bob","body":"hi"}"#, "send -- Bob - < hi"),
            (
                "send",
                r#"{"to":"-x","body":"-","topic":"a.b","thread":"t","importance":80}"#,
                "send --topic=a.b --thread=t --importance=80 -- -x - < -",
            ),
            ("ask", r#"{"to":"Bob","body":"?"}"#, "ask --timeout=30 -- Bob - < ?"),
            (
                "ask",
                r#"{"to":"Bob","body":"?","timeout_seconds":3600,"thread":"t","importance":null}"#,
                "ask --timeout=3600 --thread=t -- Bob - < ?",
            ),
            ("read", r#"{"id":"1a2b3c4d"}"#, "read -- 1a2b3c4d"),
            ("read", "{}", "inbox --take"),
            ("read", r#"{"id":"result-1-2","offset":7}"#, "page result-1-2 7"),
            ("inbox", "{}", "inbox"),
            ("agents", "{}", "agents"),
            ("message_status", r#"{"id":"1a2b3c4d"}"#, "status -- 1a2b3c4d"),
            ("history", "{}", "history --limit=20"),
            (
                "history",
                r#"{"with":"Bob","topic":"t","search":"a b","thread":"port","limit":1}"#,
                "history --with=Bob --topic=t --search=a b --thread=port --limit=1",
            ),
        ] {
            assert_eq!(line(tool, arguments, None), expected, "{tool} {arguments}");
        }
        for tool in ["inbox", "read"] {
            assert_eq!(line(tool, "{}", Some("Ann")), "inbox --as=Ann");
        }
        assert_eq!(line("history", "{}", Some("Ann")), "history --of=Ann --limit=20");
        let send = line("send", r#"{"to":"Bob","body":""}"#, Some("Ann"));
        assert_eq!(send, "send --as=Ann -- Bob - < ");
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (tool, arguments, expected) in [
            ("send", "{}", "there is no `to`"),
            ("send", r#"{"to":"Bob","body":7}"#, "`body` is not a string"),
            ("send", r#"{"to":"","body":"x"}"#, "`to` is empty"),
            ("send", r#"{"to":"a\u0000b","body":"x"}"#, "`to` has a NUL character"),
            (
                "send",
                r#"{"to":"a","body":"x","importance":101}"#,
                "`importance` is not from 0 to 100",
            ),
            (
                "ask",
                r#"{"to":"a","body":"x","timeout_seconds":0}"#,
                "`timeout_seconds` is not from 1 to 3600",
            ),
            ("read", r#"{"offset":1}"#, "`offset` needs an `id`"),
            ("read", r#"{"id":["x"]}"#, "`id` is not a string"),
            ("history", r#"{"limit":201}"#, "`limit` is not from 1 to 200"),
        ] {
            assert_eq!(line(tool, arguments, None), format!("! {expected}"), "{tool} {arguments}");
        }
        let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(TEXT_BYTES_MAX + 1));
        assert_eq!(line("message_status", &long, None), "! `id` is over 1024 bytes");
    }

    /// Every argument that a schema names is known, and no other.
    #[test]
    fn schemas_are_those_of_the_arguments() {
        for tool in TOOLS {
            let schema = &tool.description()["inputSchema"];
            let value = |schema: &Value| match schema["type"].as_str() {
                Some("string") => json!("x"),
                Some("integer") => schema["minimum"].clone(),
                other => panic!("{other:?}"),
            };
            let properties = schema["properties"].as_object().unwrap();
            let all: serde_json::Map<_, _> =
                properties.iter().map(|(name, schema)| (name.clone(), value(schema))).collect();
            (tool.work)(&Value::Object(all.clone()).to_string(), None).unwrap();
            for name in tool.required {
                let mut less = all.clone();
                less.remove(*name);
                (tool.work)(&Value::Object(less).to_string(), None).unwrap_err();
            }
            let required: serde_json::Map<_, _> = all
                .iter()
                .filter(|(name, _)| tool.required.contains(&name.as_str()))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            (tool.work)(&Value::Object(required).to_string(), None).unwrap();
            let mut more = all;
            more.insert("other".to_owned(), json!(1));
            let why = (tool.work)(&Value::Object(more).to_string(), None).unwrap_err();
            assert!(why.contains("unknown field `other`"), "{why}");
        }
        assert!(TOOLS.len() <= 8);
    }
}
