//! A connection to a daemon that may end anywhere, in the middle of a frame too.

use agent_relay::protocol::frame::{Decoder, FRAME_BYTES_MAX};
use platform::{endpoint::Endpoint, transport::Stream};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    io::{Read, Write},
};

pub(crate) struct Line {
    stream: Stream,
    decoder: Decoder,
    heard: VecDeque<Value>,
}

impl Line {
    /// A connection that has said nothing, if there is a daemon.
    pub(crate) fn connect(endpoint: &Endpoint) -> Option<Self> {
        let stream = Stream::connect(endpoint).ok()?;
        Some(Self { stream, decoder: Decoder::new(FRAME_BYTES_MAX), heard: VecDeque::new() })
    }

    /// Says HELLO; `None` if the daemon doesn't take it.
    pub(crate) fn join(&mut self, name: &str) -> Option<()> {
        self.say(
            &json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {"agent": name}}),
        )?;
        self.hear().filter(|answer| answer["type"] == "WELCOME").map(drop)
    }

    pub(crate) fn say(&mut self, envelope: &Value) -> Option<()> {
        let json = envelope.to_string();
        let mut bytes = u32::try_from(json.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(json.as_bytes());
        (&self.stream).write_all(&bytes).ok()
    }

    /// Says a message that is to be acknowledged.
    pub(crate) fn send(&mut self, id: &str, to: &str, body: &str) -> Option<()> {
        self.say(&json!({
            "v": 1, "type": "SEND", "id": id, "ts": 0, "to": to,
            "payload": {"kind": "message", "body": body}, "payload_meta": {"requires_ack": true},
        }))
    }

    pub(crate) fn acknowledge(&mut self, deliver: &Value) -> Option<()> {
        self.say(&json!({"v": 1, "type": "ACK", "id": "a", "ts": 0,
            "payload": {"ack_id": deliver["id"]}}))
    }

    /// The next envelope but PING; `None` when the connection is over.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        loop {
            if let Some(envelope) = self.heard.pop_front() {
                if envelope["type"] != "PING" {
                    return Some(envelope);
                }
                self.say(&json!({"v": 1, "type": "PONG", "id": "p", "ts": 0,
                    "payload": envelope["payload"]}))?;
                continue;
            }
            let count =
                (&self.stream).read(self.decoder.space()).ok().filter(|count| *count > 0)?;
            self.decoder.filled(count);
            let frames = self.decoder.take().expect("a daemon's frames are whole or cut off");
            for json in frames.into_iter().flatten() {
                self.heard.push_back(serde_json::from_slice(json).unwrap());
            }
        }
    }

    /// What ends it from another thread.
    pub(crate) fn stream(&self) -> Stream {
        self.stream.clone()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stream.hang_up();
    }
}
