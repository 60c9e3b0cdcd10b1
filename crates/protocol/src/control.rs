//! The protocol between a command and a wrapper, at the wrapper's own endpoint.
//!
//! Frames are as in the daemon's protocol; each frame has one JSON object whose `type` names its
//! variant. The command sends requests, and the wrapper sends answers. A command that attaches gets
//! screens and output until the end.

use super::{frame, hook::Report, payload::LoopCount, secret::Secret};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// The longest frame that a wrapper accepts: the keys of one read.
pub const REQUEST_BYTES_MAX: usize = 128 * 1024;

/// The longest frame that a command accepts: a large screen with all attributes.
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The bytes of a screen, or of a piece of output, before they are encoded.
pub const SNAPSHOT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The number of an ended command's last lines that are sent.
pub const LAST_LINES_MAX: usize = 10;

/// The longest path of an edited file that counts, in bytes.
pub const EDITED_BYTES_MAX: usize = 4096;

/// A request of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Request {
    /// Sends the terminal's screen and its output from now on.
    Attach {
        /// Whether the command will send keys, too.
        drive: bool,
        /// The columns of the attached terminal.
        columns: u16,
        /// The rows of the attached terminal.
        rows: u16,
        /// Whether the command only takes a snapshot, and no terminal shows the agent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        looks: bool,
    },
    /// Passes on keys that the person pressed.
    Keys {
        /// The bytes that the terminal sent.
        bytes: Bytes,
    },
    /// Reports a new size of the attached terminal, and requests the screen again.
    Resize {
        /// The terminal's columns.
        columns: u16,
        /// The terminal's rows.
        rows: u16,
    },
    /// Stops typing messages.
    Hold,
    /// Continues typing messages.
    Release,
    /// Presses the key of a choice in a dialog, if exactly this dialog is still on the screen;
    /// STATE answers.
    Choose {
        /// The dialog, as STATE has shown it.
        dialog: Dialog,
        /// The number of the choice, from 1.
        choice: usize,
    },
    /// Ends the agent's command; ENDED answers.
    Stop,
    /// Asks for the state.
    State,
    /// Asks for the facts about the terminal and the resulting decision; WHY answers.
    Why,
    /// Passes on the report of a hook; HOOKED answers.
    Hook {
        /// The key of the agent's commands, which its hooks have, too.
        key: Secret,
        /// The report.
        report: Report,
    },
    /// Says that the hook has printed the text of HOOKED.
    Printed,
    /// Takes messages that wait for the agent, for a command that the agent runs; TAKEN answers.
    Take {
        /// The key of the agent's commands.
        key: Secret,
        /// The beginning of the id of a message; without it, all messages are taken.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// Counts a message that the agent's command is about to send; COUNTED answers.
    Count {
        /// The key of the agent's commands.
        key: Secret,
        /// The recipient's name.
        to: String,
    },
    /// Reports that the daemon accepted a message from the agent's command to the agent's person.
    Wrote {
        /// The key of the agent's commands.
        key: Secret,
    },
    /// Reports that a file was edited; EDITED answers.
    Edited {
        /// The key of the agent's commands, for an edit of the wrapper's own agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<Secret>,
        /// The name of the agent that edited the file, unless that is the wrapper's own agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The file's path, absolute and without links.
        path: String,
        /// The time since then, in milliseconds.
        ago_ms: u64,
    },
}

/// An answer of a wrapper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Answer {
    /// The state; the answer to STATE, HOLD and RELEASE.
    State(AgentState),
    /// The whole screen, which replaces whatever the terminal shows.
    Screen {
        /// The columns of the agent's terminal.
        columns: u16,
        /// The rows of the agent's terminal.
        rows: u16,
        /// The terminal output that paints the screen.
        bytes: Bytes,
    },
    /// Output of the agent's command after the last screen.
    Output {
        /// The bytes that the command printed.
        bytes: Bytes,
    },
    /// The answer to WHY.
    Why(Explanation),
    /// The answer to HOOK.
    Hooked {
        /// The text for the agent, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// The answer to TAKE.
    Taken {
        /// The messages in their frames.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The reason why messages that wait here cannot be read now, in words.
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The answer to COUNT.
    Counted {
        /// The count of messages between the agent and the recipient, with this one, if the agent's
        /// work is known.
        #[serde(flatten)]
        hops: Option<LoopCount>,
    },
    /// The answer to EDITED.
    Edited {
        /// The time since the wrapper's own agent edited the file, in milliseconds. Set only if
        /// that edit collides with the other agent's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ago_ms: Option<u64>,
    },
    /// The command has ended; the last answer.
    Ended(Ended),
    /// The request was refused.
    Error {
        /// The reason, in one sentence.
        message: String,
    },
}

/// The state of a wrapped agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentState {
    /// The agent's name.
    pub name: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The command's process.
    pub pid: u32,
    /// The wrapper's process.
    pub wrapper_pid: u32,
    /// The command's initial working directory. An older wrapper does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The number of messages that wait to be typed.
    pub waiting: usize,
    /// The reason why the messages wait, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether the agent's person holds the agent's messages.
    pub held: bool,
    /// Whether the daemon is connected.
    pub connected: bool,
    /// The number of attached terminals, without the wrapper's own.
    pub attached: usize,
    /// Whether the wrapper has a person's terminal of its own. An older wrapper does not state it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_terminal: bool,
    /// The start of the command, in milliseconds since 1970.
    pub since: u64,
    /// The source of the agent's messages. An older wrapper does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The reason why the agent's CLI reports nothing by hooks, although it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_hooks: Option<String>,
    /// The dialog on the agent's screen, if its choices are numbered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialog: Option<Dialog>,
    /// The latest collisions with other agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collisions: Vec<Collision>,
}

/// A file that an agent and another one have edited at about the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collision {
    /// The other agent's name.
    pub with: String,
    /// The file's path, absolute and without links.
    pub path: String,
    /// The time of the later edit, in milliseconds since 1970.
    pub since: u64,
}

/// A dialog with numbered choices on an agent's screen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialog {
    /// The rows above the choices, without frames around them.
    pub text: String,
    /// The choices with the numbers 1, 2, …, without their numbers; at most nine.
    pub choices: Vec<String>,
    /// The number of bytes typed into the terminal before the dialog. It distinguishes the dialog
    /// from an equal one that follows its answer.
    pub typed: u64,
}

/// The facts that a wrapper knows about its terminal, and its decision about the next message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The next step, or the obstacle that keeps the next message from being typed.
    pub decision: String,
    /// The stage of the message being typed, or `waiting`.
    pub stage: String,
    /// The facts, in the order they are checked.
    pub facts: Vec<Fact>,
    /// The relay's own pending notices for the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// A fact about a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// The subject.
    pub name: String,
    /// The value, as far as it is known.
    pub value: String,
    /// The source of the value.
    pub source: String,
}

/// A source of an agent's messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum Source {
    /// The agent's screen.
    Screen,
    /// The transcript that the agent's program writes.
    Transcript {
        /// The transcript's file.
        path: String,
    },
    /// No source: the transcript of the agent's program has not been found yet.
    Missing {
        /// When the transcript was first expected, in milliseconds since 1970: at the first prompt
        /// or shown message. Until then, the present time.
        since: u64,
    },
}

/// The end of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The exit code.
    pub code: i32,
    /// The signal that ended the command, by the convention for exit codes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The last lines on the command's screen that were not blank.
    pub last_lines: Vec<String>,
    /// Whether the lines were on the alternate screen, which the terminal has left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken_away: bool,
    /// Whether the agent has sent or received a message. An older wrapper does not state it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_messages: bool,
}

impl Ended {
    /// Returns the end of a command with this exit code and this text on its screen.
    #[must_use]
    pub fn new(code: i32, screen: &str) -> Self {
        let lines = screen.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let mut last_lines: Vec<_> = lines.rev().take(LAST_LINES_MAX).map(str::to_owned).collect();
        last_lines.reverse();
        // Shells report a command that a signal ended with the code 128 plus the signal's number.
        let signal = (129..=128 + 64).contains(&code).then(|| code - 128);
        Self { code, signal, last_lines, ..Self::default() }
    }
}

/// Writes the end in words: `ended with code 137 (signal 9)`.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended with code {}", self.code)?;
        match self.signal {
            Some(signal) => write!(f, " (signal {signal})"),
            None => Ok(()),
        }
    }
}

impl Request {
    /// Appends the value as a frame.
    pub fn append(&self, bytes: &mut Vec<u8>) {
        append(self, bytes);
    }

    /// Reads a frame's JSON. The error is a sentence.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        read(json, "request")
    }
}

impl Answer {
    /// Appends the value as a frame.
    pub fn append(&self, bytes: &mut Vec<u8>) {
        append(self, bytes);
    }

    /// Reads a frame's JSON. The error is a sentence.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        read(json, "answer")
    }
}

fn append(value: &impl Serialize, bytes: &mut Vec<u8>) {
    frame::append(bytes, |json| {
        serde_json::to_writer(json, value).expect("wire types are JSON and a Vec takes every byte");
    });
}

fn read<'a, T: Deserialize<'a>>(json: &'a [u8], what: &str) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| format!("invalid wrapper {what}: {error}"))
}

/// Bytes of any kind, as base64 in JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.0.escape_ascii())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        STANDARD.decode(text.as_bytes()).map(Self).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::Decoder,
        hook::{Frame, Point},
    };

    fn json(bytes: &[u8]) -> String {
        let mut decoder = Decoder::new(ANSWER_BYTES_MAX);
        decoder.space()[..bytes.len()].copy_from_slice(bytes);
        decoder.filled(bytes.len());
        let batch = decoder.batch().unwrap().unwrap();
        String::from_utf8(batch.frames().next().unwrap().to_vec()).unwrap()
    }

    #[track_caller]
    fn assert_request(request: &Request, text: &str) {
        let mut bytes = Vec::new();
        request.append(&mut bytes);
        assert_eq!(json(&bytes), text);
        assert_eq!(Request::read(text.as_bytes()).as_ref(), Ok(request));
    }

    #[track_caller]
    fn assert_answer(answer: &Answer, text: &str) {
        let mut bytes = Vec::new();
        answer.append(&mut bytes);
        assert_eq!(json(&bytes), text);
        assert_eq!(Answer::read(text.as_bytes()).as_ref(), Ok(answer));
    }

    #[test]
    fn requests_are_objects_with_a_type() {
        let attach = Request::Attach { drive: true, columns: 100, rows: 30, looks: false };
        assert_request(&attach, r#"{"type":"ATTACH","drive":true,"columns":100,"rows":30}"#);
        let bytes = Bytes(b"\x1b\xff".to_vec());
        assert_request(&Request::Keys { bytes }, r#"{"type":"KEYS","bytes":"G/8="}"#);
        let resize = Request::Resize { columns: 1, rows: 2 };
        assert_request(&resize, r#"{"type":"RESIZE","columns":1,"rows":2}"#);
        assert_request(&Request::Hold, r#"{"type":"HOLD"}"#);
        assert_request(&Request::Release, r#"{"type":"RELEASE"}"#);
        assert_request(&Request::Stop, r#"{"type":"STOP"}"#);
        let dialog = Dialog { text: "Sure?".into(), choices: vec!["Yes".into()], typed: 7 };
        assert_request(
            &Request::Choose { dialog, choice: 1 },
            r#"{"type":"CHOOSE","dialog":{"text":"Sure?","choices":["Yes"],"typed":7},"choice":1}"#,
        );
        assert_request(&Request::State, r#"{"type":"STATE"}"#);
        let key = Secret::stated("k");
        let frames = vec![Frame::of("789200", "a b")];
        let transcript = Some("/t.jsonl".to_owned());
        let report = Report { transcript, ..Report::new(Point::ToolEnded, frames) };
        assert_request(
            &Request::Hook { key: key.clone(), report },
            r#"{"type":"HOOK","key":"k","report":{"point":"tool-ended","frames":[{"hex":"789200","length":2}],"transcript":"/t.jsonl"}}"#,
        );
        assert_request(&Request::Printed, r#"{"type":"PRINTED"}"#);
        let take = |id| Request::Take { key: key.clone(), id };
        assert_request(&take(None), r#"{"type":"TAKE","key":"k"}"#);
        assert_request(&take(Some("1a".into())), r#"{"type":"TAKE","key":"k","id":"1a"}"#);
        let count = Request::Count { key: key.clone(), to: "Bob".into() };
        assert_request(&count, r#"{"type":"COUNT","key":"k","to":"Bob"}"#);
        let edited = |key, by| Request::Edited { key, by, path: "/w/a".into(), ago_ms: 5 };
        let own = edited(Some(key), None);
        assert_request(&own, r#"{"type":"EDITED","key":"k","path":"/w/a","ago_ms":5}"#);
        let by_bob = edited(None, Some("Bob".into()));
        assert_request(&by_bob, r#"{"type":"EDITED","by":"Bob","path":"/w/a","ago_ms":5}"#);
    }

    #[test]
    fn answers_are_objects_with_a_type() {
        let state =
            AgentState { name: "Ann".into(), command: vec!["cat".into()], ..AgentState::default() };
        for (source, json) in [
            (Source::Screen, r#"{"from":"screen"}"#),
            (Source::Transcript { path: "/t".into() }, r#"{"from":"transcript","path":"/t"}"#),
            (Source::Missing { since: 5 }, r#"{"from":"missing","since":5}"#),
        ] {
            assert_answer(
                &Answer::State(AgentState { source: Some(source), ..AgentState::default() }),
                &format!(
                    "{{\"type\":\"STATE\",\"name\":\"\",\"command\":[],\"pid\":0,\"wrapper_pid\":0,\
                     \"waiting\":0,\"held\":false,\"connected\":false,\"attached\":0,\"since\":0,\
                     \"source\":{json}}}"
                ),
            );
        }
        assert_answer(
            &Answer::State(AgentState {
                why: Some("held".into()),
                held: true,
                waiting: 3,
                ..state
            }),
            "{\"type\":\"STATE\",\"name\":\"Ann\",\"command\":[\"cat\"],\"pid\":0,\"wrapper_pid\":0,\
             \"waiting\":3,\"why\":\"held\",\"held\":true,\"connected\":false,\"attached\":0,\"since\":0}",
        );
        let bytes = Bytes(b"\x1b[m".to_vec());
        let screen = Answer::Screen { columns: 9, rows: 8, bytes: bytes.clone() };
        assert_answer(&screen, r#"{"type":"SCREEN","columns":9,"rows":8,"bytes":"G1tt"}"#);
        assert_answer(&Answer::Output { bytes }, r#"{"type":"OUTPUT","bytes":"G1tt"}"#);
        assert_answer(
            &Answer::Ended(Ended::new(137, "one\n\ntwo  \n\n")),
            r#"{"type":"ENDED","code":137,"signal":9,"last_lines":["one","two"]}"#,
        );
        assert_answer(&Answer::Hooked { text: None }, r#"{"type":"HOOKED"}"#);
        assert_answer(
            &Answer::Taken { text: Some("x".into()), why: None },
            r#"{"type":"TAKEN","text":"x"}"#,
        );
        let hops = Some(LoopCount { hops: 3, work: 7 });
        assert_answer(&Answer::Counted { hops }, r#"{"type":"COUNTED","hops":3,"work":7}"#);
        assert_answer(&Answer::Counted { hops: None }, r#"{"type":"COUNTED"}"#);
        assert_answer(&Answer::Edited { ago_ms: Some(5) }, r#"{"type":"EDITED","ago_ms":5}"#);
        assert_answer(&Answer::Edited { ago_ms: None }, r#"{"type":"EDITED"}"#);
        let error = Answer::Error { message: "no".into() };
        assert_answer(&error, r#"{"type":"ERROR","message":"no"}"#);
    }

    #[test]
    fn unknown_json_members_are_ignored_and_invalid_requests_refused() {
        assert_eq!(Request::read(br#"{"new":[1],"type":"STOP"}"#), Ok(Request::Stop));
        for text in [
            r#"{"type":"STOP""#,
            r#"{"type":"stop"}"#,
            r#"{"type":"DANCE"}"#,
            r#"{"type":"KEYS","bytes":"?"}"#,
            r#"{"type":"ATTACH","drive":true,"columns":-1,"rows":2}"#,
            r#"{"type":"ATTACH","drive":true,"columns":70000,"rows":2}"#,
            "[]",
            "\u{1}",
        ] {
            let refused = Request::read(text.as_bytes()).unwrap_err();
            assert!(refused.starts_with("invalid wrapper request: "), "{refused}");
        }
    }

    #[test]
    fn end_has_last_lines_and_signal() {
        let screen: String = (0..40).map(|n| format!("line {n}\n\n")).collect();
        let ended = Ended::new(3, &screen);
        assert_eq!(ended.last_lines.len(), LAST_LINES_MAX);
        assert_eq!((ended.last_lines[0].as_str(), ended.signal), ("line 30", None));
        assert_eq!(ended.to_string(), "ended with code 3");
        assert_eq!(Ended::new(143, "").to_string(), "ended with code 143 (signal 15)");
        assert_eq!(Ended::new(0, " \n").last_lines, Vec::<String>::new());
    }
}
