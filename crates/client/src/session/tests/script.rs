//! Transcripts of the session: a text with the session's inputs as unindented lines and its outputs
//! as indented ones.
//!
//! `UPDATE_EXPECT=1` writes the outputs. Most tests begin with a session that has joined. Inputs:
//!
//! ```text
//! start | close                     the program starts | closes the session
//! connected | not-connected | gone  the stream to the daemon begins | cannot begin | ends
//! reconnect                         gone, wait, connected: only the HELLO stands in the transcript
//! welcome [SESSION TOKEN]           WELCOME of session s-1, or of a session that can be resumed
//! wait                              time advances to the next deadline, with a tick
//! pass 5000                         milliseconds go by, without a tick
//! send ID TO [BYTES]                a message, at least once, with a body of that length
//! send-at-most-once ID TO
//! ack ID | return ID | answer ID [BYTES]
//!                                   the program acknowledges, returns or answers a delivery
//! subscribe a.* | unsubscribe a.*
//! deliver ID {DELIVERY} [FROM [TOPIC]]
//!                                   a DELIVER from FROM, or from Bob
//! daemon> TYPE {PAYLOAD}            any other envelope of the daemon
//! daemon again                      the same envelope once more
//! frame {ENVELOPE}                  a frame as it stands
//! ```
//!
//! `#3` stands for the third id that the session made.

use crate::{
    Settings,
    message::{ConnectionState, Event, Outgoing, Reply, SendId},
    session::{Input, Output, Session},
};
use expect_test::Expect;
use protocol::{
    Now,
    code::NackCode,
    envelope::{Envelope, Kind},
    payload::{Meta, Nack, Sync},
};
use serde_json::value::to_raw_value;
use std::fmt::Write;

pub(super) const WELCOME: &str = r#"{"v":1,"type":"WELCOME","id":"w","ts":1,"payload":{"session_id":"s-1","resume_token":"t-1","agent":"Ann","server":{"max_frame_bytes":400,"heartbeat_ms":5000}}}"#;

/// A WELCOME of a daemon that grants `resume`.
pub(super) fn resumable_welcome(session: &str, token: &str, frame_bytes_max: usize) -> String {
    format!(
        r#"{{"v":1,"type":"WELCOME","id":"w","ts":1,"payload":{{"session_id":"{session}","resume_token":"{token}","agent":"Ann","capabilities":{{"resume":true}},"server":{{"max_frame_bytes":{frame_bytes_max},"heartbeat_ms":5000}}}}}}"#
    )
}

/// A session, its clock, and the transcript.
pub(super) struct Script {
    pub(super) session: Session,
    pub(super) now: Now,
    /// Ids that the session made, in order of appearance.
    ids: Vec<String>,
    /// The number of envelopes from the daemon, and the last one.
    envelopes: u64,
    last: String,
    pub(super) text: String,
}

impl Script {
    pub(super) fn new(first_attempts: u32, retry_cycle_after_ms: Option<u64>) -> Self {
        Self::of(Settings { first_attempts, retry_cycle_after_ms, ..Self::settings() })
    }

    pub(super) fn settings() -> Settings {
        Settings::agent("", "Ann")
    }

    pub(super) fn of(settings: Settings) -> Self {
        let session = Session::new(settings, [3; 32]);
        let (now, ids) = (Now::default(), Vec::new());
        Self { session, now, ids, envelopes: 0, last: String::new(), text: String::new() }
    }

    pub(super) fn joined() -> Self {
        let mut script = Self::new(1, None);
        script.run("start\nconnected");
        script.say(WELCOME);
        script.text.clear();
        script
    }

    pub(super) fn input(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.session.handle(self.now, input, &mut out);
        for output in out {
            let line = self.render(output);
            writeln!(self.text, "  {line}").unwrap();
        }
    }

    pub(super) fn say(&mut self, json: &str) {
        self.input(Input::Frame(json.as_bytes()));
    }

    /// Runs the unindented lines of a transcript, and compares the resulting transcript with it.
    #[track_caller]
    pub(super) fn check(&mut self, expect: Expect) {
        self.text.clear();
        self.run(&inputs(expect.data()));
        expect.assert_eq(&self.text);
    }

    /// Runs a script of one input a line.
    pub(super) fn run(&mut self, lines: &str) {
        for line in lines.lines() {
            writeln!(self.text, "{line}").unwrap();
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["start"] => self.input(Input::Start),
                ["connected"] => self.input(Input::Connected),
                ["not-connected"] => {
                    self.input(Input::NotConnected { why: "nobody there".to_owned(), absent: true })
                }
                ["gone"] => self.input(Input::Disconnected("the stream ended".to_owned())),
                ["reconnect"] => self.reconnect(),
                ["close"] => self.input(Input::Close),
                ["welcome"] => self.say(WELCOME),
                ["wait"] => {
                    let deadline = self.session.deadline().expect("something waits");
                    assert!(deadline > self.now.monotonic, "no deadline is in the past");
                    self.now.monotonic = deadline;
                    self.input(Input::Tick);
                }
                ["pass", ms] => self.now.monotonic = self.now.monotonic.plus(ms.parse().unwrap()),
                ["send", id, to] => self.send(id, to, 1, true),
                ["send", id, to, bytes] => self.send(id, to, bytes.parse().unwrap(), true),
                ["send-at-most-once", id, to] => self.send(id, to, 1, false),
                ["ack", id] => self.input(Input::Acknowledge(id.to_owned())),
                ["answer", id] => self.input(Input::Answer(reply(id, 3), 10)),
                ["answer", id, bytes] => {
                    let reply = reply(id, bytes.parse().unwrap());
                    self.input(Input::Answer(reply, 10));
                }
                ["return", id] => {
                    let nack = Nack::new(id, NackCode::Refused, "no");
                    self.input(Input::Return(Nack { retry_after_ms: Some(70), ..nack }));
                }
                ["subscribe", pattern] => self.input(Input::Subscribe(pattern.to_owned())),
                ["unsubscribe", pattern] => self.input(Input::Unsubscribe(pattern.to_owned())),
                ["daemon>", kind, payload] => {
                    let payload = self.with_ids(payload);
                    self.envelopes += 1;
                    let id = self.envelopes;
                    self.last = format!(
                        r#"{{"v":1,"type":"{kind}","id":"x{id}","ts":1,"payload":{payload}}}"#
                    );
                    self.say(&self.last.clone());
                }
                ["daemon", "again"] => self.say(&self.last.clone()),
                ["deliver", id, delivery] => self.deliver(id, "Bob", "", delivery),
                ["deliver", id, delivery, from] => self.deliver(id, from, "", delivery),
                ["deliver", id, delivery, from, topic] => {
                    self.deliver(id, from, &format!(r#""topic":"{topic}","#), delivery);
                }
                ["welcome", session, token] => self.say(&resumable_welcome(session, token, 4000)),
                ["frame", envelope] => self.say(envelope),
                _ => panic!("unknown line {line:?}"),
            }
        }
    }

    /// Ends the connection and makes the next one, up to its HELLO.
    fn reconnect(&mut self) {
        let start = self.text.len();
        self.run("gone\nwait\nconnected");
        let steps = self.text.split_off(start);
        let lines: Vec<_> = steps.lines().map(str::trim_start).collect();
        let [
            "gone",
            "HangUp",
            backoff,
            "wait",
            "State(Connecting)",
            "Connect",
            "connected",
            "State(Handshaking)",
            hello,
        ] = lines[..]
        else {
            panic!("{steps}")
        };
        assert!(backoff.starts_with("State(Backoff {"), "{steps}");
        writeln!(self.text, "  {hello}").unwrap();
    }

    pub(super) fn deliver(&mut self, id: &str, from: &str, topic: &str, delivery: &str) {
        self.say(&format!(
            r#"{{"v":1,"type":"DELIVER","id":"{id}","ts":1,"from":"{from}","to":"Ann",{topic}"payload":{{"kind":"message","body":"hi"}},"delivery":{delivery}}}"#
        ));
    }

    fn send(&mut self, id: &str, to: &str, bytes: usize, at_least_once: bool) {
        let meta = Meta { requires_ack: at_least_once, ..Meta::default() };
        let message = Outgoing { meta, ..Outgoing::message(to, "x".repeat(bytes)) };
        self.input(Input::Send(SendId(id.to_owned()), message, 10));
    }

    /// Replaces `#3` by the third id that the session made.
    fn with_ids(&self, text: &str) -> String {
        self.ids.iter().enumerate().fold(text.to_owned(), |text, (index, id)| {
            text.replace(&format!("\"#{}\"", index + 1), &format!("\"{id}\""))
        })
    }

    fn render(&mut self, output: Output) -> String {
        match output {
            Output::Frame(bytes) => {
                let envelope = Envelope::read(&bytes[4..]).unwrap();
                let id = self.short(&envelope.id);
                let mut line = format!("> {} {id}", envelope.kind.as_str());
                for part in
                    [envelope.to.as_deref(), envelope.topic.as_deref()].into_iter().flatten()
                {
                    write!(line, " {part}").unwrap();
                }
                if envelope.kind != Kind::Send {
                    write!(line, " {}", envelope.payload).unwrap();
                }
                line
            }
            Output::Event(Event::Delivered(delivery)) => {
                format!("delivered {} from {}: {}", delivery.id, delivery.from, delivery.body)
            }
            Output::Event(Event::State(ConnectionState::Ready(welcome))) => {
                format!("ready {}", welcome.session_id)
            }
            Output::Event(event) => format!("{event:?}"),
            other => format!("{other:?}"),
        }
    }

    fn short(&mut self, id: &str) -> String {
        if id.len() != 36 {
            return id.to_owned();
        }
        let index = self.ids.iter().position(|known| known == id).unwrap_or_else(|| {
            self.ids.push(id.to_owned());
            self.ids.len() - 1
        });
        format!("#{}", index + 1)
    }
}

/// The lines of a transcript that are not indented.
fn inputs(transcript: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines = || transcript.lines().filter(|line| !line.trim().is_empty());
    let least = lines().map(indent).min().unwrap_or(0);
    let inputs = lines().filter(|line| indent(line) == least);
    inputs.map(|line| format!("{}\n", line.trim_start())).collect()
}

/// An answer to a delivery, with data of about this many bytes.
pub(super) fn reply(delivery_id: &str, bytes: usize) -> Reply {
    let sync = Sync { correlation_id: "c".to_owned(), timeout_ms: Some(5000), blocking: true };
    let data = Some(to_raw_value(&"x".repeat(bytes)).unwrap());
    Reply { delivery_id: delivery_id.to_owned(), seq: Some(1), sync, response: Some(true), data }
}
