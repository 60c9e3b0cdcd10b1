//! A client that says just what the test says, byte for byte, and hears what comes.

use crate::sandbox::WATCHDOG;
use platform::transport::Stream;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    sync::mpsc,
    thread,
};

/// HELLO's `session`: `null` is not the same as leaving the token out.
pub(crate) fn session(token: Option<&Value>) -> Value {
    token.map_or_else(|| json!({}), |token| json!({"resume_token": token}))
}

/// A connection without any manners of its own; only PINGs it answers, unless told not to.
pub(crate) struct Raw {
    stream: Stream,
    pub(crate) answers_pings: bool,
    next_id: u32,
    _watchdog: mpsc::Sender<()>,
}

impl Raw {
    /// Reads that take too long end the connection, and so the test.
    pub(crate) fn over(stream: Stream) -> Self {
        let (watchdog, ended) = mpsc::channel::<()>();
        let watched = stream.clone();
        thread::spawn(move || {
            if ended.recv_timeout(WATCHDOG) == Err(mpsc::RecvTimeoutError::Timeout) {
                watched.hang_up();
            }
        });
        Self { stream, answers_pings: true, next_id: 0, _watchdog: watchdog }
    }

    /// Joins as an agent; gives back WELCOME's payload.
    #[track_caller]
    pub(crate) fn hello(&mut self, name: &str) -> Value {
        self.say(
            &json!({"v": 1, "type": "HELLO", "id": "hello", "ts": 0, "payload": {"agent": name}}),
        );
        self.expect("WELCOME")["payload"].take()
    }

    /// Sends one frame around this JSON.
    pub(crate) fn say(&mut self, envelope: &Value) {
        self.say_text(&envelope.to_string());
    }

    /// Sends one frame around this text.
    pub(crate) fn say_text(&mut self, json: &str) {
        let length = u32::try_from(json.len()).unwrap();
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend_from_slice(json.as_bytes());
        self.say_bytes(&bytes);
    }

    /// Sends these bytes, whatever they are.
    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        (&self.stream).write_all(bytes).unwrap();
    }

    /// The same to a daemon that may have ended the connection.
    pub(crate) fn try_say_bytes(&mut self, bytes: &[u8]) {
        (&self.stream).write_all(bytes).ok();
    }

    /// Sends a message; gives back its id.
    pub(crate) fn send(&mut self, to: &str, body: &str, meta: Value) -> String {
        self.next_id += 1;
        let id = format!("m-{}", self.next_id);
        self.say(&json!({
            "v": 1, "type": "SEND", "id": id, "ts": 0, "to": to,
            "payload": {"kind": "message", "body": body}, "payload_meta": meta,
        }));
        id
    }

    /// Asks `@relay` for something; gives back the answer's data.
    #[track_caller]
    pub(crate) fn ask(&mut self, body: &str, data: &Value) -> Value {
        self.say(&json!({
            "v": 1, "type": "SEND", "id": "ask", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": body, "data": data},
        }));
        self.expect("DELIVER")["payload"]["data"].take()
    }

    /// Acknowledges a DELIVER.
    pub(crate) fn acknowledge(&mut self, deliver: &Value) {
        self.say(&json!({
            "v": 1, "type": "ACK", "id": "ack", "ts": 0,
            "payload": {"ack_id": deliver["id"], "seq": deliver["delivery"]["seq"]},
        }));
    }

    /// The next envelope as text, or `None` at the end.
    pub(crate) fn hear_text(&mut self) -> Option<String> {
        loop {
            let mut length = [0; 4];
            if !self.read(&mut length) {
                return None;
            }
            let mut json = vec![0; u32::from_be_bytes(length) as usize];
            assert!(self.read(&mut json), "the connection ended within a frame");
            let text = String::from_utf8(json).unwrap();
            if !(self.answers_pings && self.answer_ping(&text)) {
                return Some(text);
            }
        }
    }

    /// The next envelope, or `None` at the end.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        self.hear_text().map(|text| serde_json::from_str(&text).unwrap())
    }

    /// The next envelope, which has to be of this type.
    #[track_caller]
    pub(crate) fn expect(&mut self, kind: &str) -> Value {
        let envelope = self.hear().unwrap_or_else(|| panic!("{kind} expected, not the end"));
        assert_eq!(envelope["type"], kind, "{envelope}");
        envelope
    }

    /// The next envelope, which has to be of this type and say this code.
    #[track_caller]
    pub(crate) fn expect_code(&mut self, kind: &str, code: &str) -> Value {
        let envelope = self.expect(kind);
        assert_eq!(envelope["payload"]["code"], code, "{envelope}");
        let sentence = envelope["payload"]["message"].as_str().unwrap_or_default();
        assert!(sentence.len() > 8, "a sentence that a person understands: {envelope}");
        envelope
    }

    /// Nothing more comes, and the connection is closed.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.hear_text(), None);
    }

    /// Everything said before was looked at: what is not meant for a test comes before the answer.
    #[track_caller]
    pub(crate) fn fence(&mut self) -> Vec<Value> {
        self.say(&json!({
            "v": 1, "type": "SEND", "id": "fence", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": "status"},
        }));
        let mut heard = Vec::new();
        loop {
            let envelope = self.hear().expect("an answer to the fence");
            if envelope["payload_meta"]["replyTo"] == "fence" {
                return heard;
            }
            heard.push(envelope);
        }
    }

    /// Who is known to the daemon, a row each.
    #[track_caller]
    pub(crate) fn agents(&mut self) -> Vec<Value> {
        self.say(&json!({
            "v": 1, "type": "SEND", "id": "agents", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": "agents"},
        }));
        let mut answer = self.expect("DELIVER");
        assert_eq!(answer["payload_meta"]["replyTo"], "agents");
        serde_json::from_value(answer["payload"]["data"]["agents"].take()).expect("rows")
    }

    /// Says BYE, and waits until the daemon has let it go.
    #[track_caller]
    pub(crate) fn leave(mut self) {
        self.say(&json!({"v": 1, "type": "BYE", "id": "bye", "ts": 0, "payload": {}}));
        self.expect_end();
    }

    pub(crate) fn hang_up(&self) {
        self.stream.hang_up();
    }

    /// Fills `buffer`; false at the end of the stream before its first byte.
    fn read(&mut self, buffer: &mut [u8]) -> bool {
        let mut filled = 0;
        while filled < buffer.len() {
            match (&self.stream).read(&mut buffer[filled..]) {
                Ok(0) | Err(_) => {
                    assert_eq!(filled, 0, "the connection ended within a frame");
                    return false;
                }
                Ok(count) => filled += count,
            }
        }
        true
    }

    fn answer_ping(&mut self, text: &str) -> bool {
        if !text.contains("\"type\":\"PING\"") {
            return false;
        }
        let envelope: Value = serde_json::from_str(text).unwrap();
        let pong =
            json!({"v": 1, "type": "PONG", "id": "pong", "ts": 0, "payload": envelope["payload"]});
        self.say(&pong);
        true
    }
}
