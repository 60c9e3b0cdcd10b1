//! What a person's command and one wrapper say to each other, at the wrapper's own endpoint.
//!
//! The frames are the protocol's, each with one JSON object whose `type` says what it is. The command
//! asks, the wrapper answers; who attaches gets pictures and output until the end.

use super::frame;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// The longest frame that a wrapper takes: a read's worth of keys.
pub const REQUEST_BYTES_MAX: usize = 128 * 1024;

/// The longest frame that a command takes: the picture of a large screen with every attribute there is.
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of a picture, or of a piece of output, before they are put into a frame.
pub const PICTURE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Lines of a command that ended which are told.
pub const LAST_LINES_MAX: usize = 10;

/// What a command asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Request {
    /// Show the terminal from now on.
    Attach {
        /// Keys are to come, too.
        drive: bool,
        /// The size of the terminal that it is shown on.
        columns: u16,
        /// See there.
        rows: u16,
    },
    /// The person typed this.
    Keys {
        /// As the terminal sent it.
        bytes: Bytes,
    },
    /// The terminal that it is shown on has this size now; a fresh picture is wanted.
    Resize {
        /// Its columns.
        columns: u16,
        /// And rows.
        rows: u16,
    },
    /// Type no more messages.
    Hold,
    /// Type them again.
    Release,
    /// End the agent's command; ENDED answers.
    Stop,
    /// How does it stand?
    State,
}

/// What a wrapper says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Answer {
    /// How it stands; the answer to STATE, HOLD and RELEASE.
    State(State),
    /// The whole screen, painted anew whatever the terminal showed before.
    Screen {
        /// The size of the agent's terminal.
        columns: u16,
        /// See there.
        rows: u16,
        /// What paints it.
        bytes: Bytes,
    },
    /// What the agent's command printed after that.
    Output {
        /// As it printed it.
        bytes: Bytes,
    },
    /// The command has ended; the last answer.
    Ended(Ended),
    /// The request was refused.
    Error {
        /// In one sentence.
        message: String,
    },
}

/// How a wrapped agent stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The agent's name.
    pub name: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The command's process.
    pub pid: u32,
    /// The wrapper's process.
    pub wrapper_pid: u32,
    /// Messages that wait to be typed.
    pub waiting: usize,
    /// Why they do, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its person holds its messages.
    pub held: bool,
    /// The daemon is there.
    pub connected: bool,
    /// Terminals that show it, beside its own.
    pub attached: usize,
    /// When the command began, in milliseconds since 1970.
    pub since: u64,
    /// Where what the agent says is read. An older wrapper doesn't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

/// Where what an agent says is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum Source {
    /// Off its screen.
    Screen,
    /// In the transcript that its program writes.
    Transcript {
        /// Which file that is.
        path: String,
    },
    /// Nowhere: its program's transcript is not found so far.
    Missing {
        /// Since when it is looked for, in milliseconds since 1970.
        since: u64,
    },
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// The signal that ended it, by the convention for exit codes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The last lines on its screen that were not blank.
    pub last_lines: Vec<String>,
    /// They stood on a full screen, which its terminal has taken away.
    #[serde(skip)]
    pub taken_away: bool,
}

impl Ended {
    /// With this exit code, and these lines on its screen.
    #[must_use]
    pub fn new(code: i32, screen: &str) -> Self {
        let lines = screen.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let mut last_lines: Vec<_> = lines.rev().take(LAST_LINES_MAX).map(str::to_owned).collect();
        last_lines.reverse();
        // What shells make of a signal.
        let signal = (129..=128 + 64).contains(&code).then(|| code - 128);
        Self { code, signal, last_lines, taken_away: false }
    }
}

/// In words: `ended with code 137 (signal 9)`.
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
    /// Appends it as a frame.
    pub fn append(&self, bytes: &mut Vec<u8>) {
        append(self, bytes);
    }

    /// Reads a frame's JSON; a sentence says what is wrong with it.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        read(json, "request")
    }
}

impl Answer {
    /// Appends it as a frame.
    pub fn append(&self, bytes: &mut Vec<u8>) {
        append(self, bytes);
    }

    /// Reads a frame's JSON; a sentence says what is wrong with it.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        read(json, "answer")
    }
}

fn append(it: &impl Serialize, bytes: &mut Vec<u8>) {
    frame::append(bytes, |json| {
        serde_json::to_writer(json, it).expect("memory takes every value of ours");
    });
}

fn read<'a, T: Deserialize<'a>>(json: &'a [u8], what: &str) -> Result<T, String> {
    serde_json::from_slice(json)
        .map_err(|error| format!("this is no {what} of a wrapper's: {error}"))
}

/// Bytes that need not be text: base64 in JSON.
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
    use crate::protocol::frame::Decoder;

    fn json(bytes: &[u8]) -> String {
        let mut decoder = Decoder::new(ANSWER_BYTES_MAX);
        decoder.space()[..bytes.len()].copy_from_slice(bytes);
        decoder.filled(bytes.len());
        let batch = decoder.batch().unwrap().unwrap();
        String::from_utf8(batch.frames().next().unwrap().to_vec()).unwrap()
    }

    #[track_caller]
    fn is_asked(request: &Request, text: &str) {
        let mut bytes = Vec::new();
        request.append(&mut bytes);
        assert_eq!(json(&bytes), text);
        assert_eq!(Request::read(text.as_bytes()).as_ref(), Ok(request));
    }

    #[track_caller]
    fn is_said(answer: &Answer, text: &str) {
        let mut bytes = Vec::new();
        answer.append(&mut bytes);
        assert_eq!(json(&bytes), text);
        assert_eq!(Answer::read(text.as_bytes()).as_ref(), Ok(answer));
    }

    #[test]
    fn requests_are_one_object_each() {
        let attach = Request::Attach { drive: true, columns: 100, rows: 30 };
        is_asked(&attach, r#"{"type":"ATTACH","drive":true,"columns":100,"rows":30}"#);
        let bytes = Bytes(b"\x1b\xff".to_vec());
        is_asked(&Request::Keys { bytes }, r#"{"type":"KEYS","bytes":"G/8="}"#);
        let resize = Request::Resize { columns: 1, rows: 2 };
        is_asked(&resize, r#"{"type":"RESIZE","columns":1,"rows":2}"#);
        is_asked(&Request::Hold, r#"{"type":"HOLD"}"#);
        is_asked(&Request::Release, r#"{"type":"RELEASE"}"#);
        is_asked(&Request::Stop, r#"{"type":"STOP"}"#);
        is_asked(&Request::State, r#"{"type":"STATE"}"#);
    }

    #[test]
    fn answers_are_one_object_each() {
        let state = State { name: "Ann".into(), command: vec!["cat".into()], ..State::default() };
        for (source, json) in [
            (Source::Screen, r#"{"from":"screen"}"#),
            (Source::Transcript { path: "/t".into() }, r#"{"from":"transcript","path":"/t"}"#),
            (Source::Missing { since: 5 }, r#"{"from":"missing","since":5}"#),
        ] {
            is_said(
                &Answer::State(State { source: Some(source), ..State::default() }),
                &format!(
                    "{{\"type\":\"STATE\",\"name\":\"\",\"command\":[],\"pid\":0,\"wrapper_pid\":0,\
                     \"waiting\":0,\"held\":false,\"connected\":false,\"attached\":0,\"since\":0,\
                     \"source\":{json}}}"
                ),
            );
        }
        is_said(
            &Answer::State(State { why: Some("held".into()), held: true, waiting: 3, ..state }),
            "{\"type\":\"STATE\",\"name\":\"Ann\",\"command\":[\"cat\"],\"pid\":0,\"wrapper_pid\":0,\
             \"waiting\":3,\"why\":\"held\",\"held\":true,\"connected\":false,\"attached\":0,\"since\":0}",
        );
        let bytes = Bytes(b"\x1b[m".to_vec());
        let screen = Answer::Screen { columns: 9, rows: 8, bytes: bytes.clone() };
        is_said(&screen, r#"{"type":"SCREEN","columns":9,"rows":8,"bytes":"G1tt"}"#);
        is_said(&Answer::Output { bytes }, r#"{"type":"OUTPUT","bytes":"G1tt"}"#);
        is_said(
            &Answer::Ended(Ended::new(137, "one\n\ntwo  \n\n")),
            r#"{"type":"ENDED","code":137,"signal":9,"last_lines":["one","two"]}"#,
        );
        let error = Answer::Error { message: "no".into() };
        is_said(&error, r#"{"type":"ERROR","message":"no"}"#);
    }

    #[test]
    fn what_is_new_is_passed_over_and_what_is_unknown_refused() {
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
            assert!(refused.starts_with("this is no request of a wrapper's: "), "{refused}");
        }
    }

    #[test]
    fn an_end_has_its_last_lines_and_its_signal() {
        let screen: String = (0..40).map(|n| format!("line {n}\n\n")).collect();
        let ended = Ended::new(3, &screen);
        assert_eq!(ended.last_lines.len(), LAST_LINES_MAX);
        assert_eq!((ended.last_lines[0].as_str(), ended.signal), ("line 30", None));
        assert_eq!(ended.to_string(), "ended with code 3");
        assert_eq!(Ended::new(143, "").to_string(), "ended with code 143 (signal 15)");
        assert_eq!(Ended::new(0, " \n").last_lines, Vec::<String>::new());
    }
}
