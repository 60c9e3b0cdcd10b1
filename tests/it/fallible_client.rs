//! A client with a connection to the daemon that may end at any byte.

use platform::{endpoint::Endpoint, transport::Stream};
use protocol::frame::{Decoder, FRAME_BYTES_MAX};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    io::{Read, Write},
};

pub(crate) struct FallibleClient {
    stream: Stream,
    decoder: Decoder,
    received: VecDeque<Value>,
}

impl FallibleClient {
    /// A connection that has sent nothing, or `None` if there is no daemon.
    pub(crate) fn connect(endpoint: &Endpoint) -> Option<Self> {
        let stream = Stream::connect(endpoint).ok()?;
        Some(Self { stream, decoder: Decoder::new(FRAME_BYTES_MAX), received: VecDeque::new() })
    }

    /// Sends HELLO, with the token of the last session if there is one, and takes the next token.
    /// Returns whether that session continues, or `None` if the daemon does not welcome the client.
    pub(crate) fn join(&mut self, name: &str, token: &mut Option<String>) -> Option<bool> {
        let mut payload = json!({"agent": name});
        if let Some(token) = token {
            payload["session"] = json!({"resume_token": token});
        }
        self.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": payload}))?;
        let mut answer = self.receive()?;
        let is_rejected = answer["payload"]["code"] == "RESUME_REJECTED";
        if is_rejected {
            *token = None;
            answer = self.receive()?;
        }
        let next = answer["payload"]["resume_token"].as_str()?.to_owned();
        Some(token.replace(next).is_some() && !is_rejected)
    }

    pub(crate) fn send_json(&mut self, envelope: &Value) -> Option<()> {
        let json = envelope.to_string();
        let mut bytes = u32::try_from(json.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(json.as_bytes());
        (&self.stream).write_all(&bytes).ok()
    }

    /// Sends a message with `requires_ack`.
    pub(crate) fn send(&mut self, id: &str, to: &str, body: &str) -> Option<()> {
        self.send_json(&json!({
            "v": 1, "type": "SEND", "id": id, "ts": 0, "to": to,
            "payload": {"kind": "message", "body": body}, "payload_meta": {"requires_ack": true},
        }))
    }

    pub(crate) fn acknowledge(&mut self, deliver: &Value) -> Option<()> {
        self.send_json(&json!({"v": 1, "type": "ACK", "id": "a", "ts": 0,
            "payload": {"ack_id": deliver["id"]}}))
    }

    /// Receives the next envelope other than PING; `None` at the end of the connection.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        loop {
            if let Some(envelope) = self.received.pop_front() {
                if envelope["type"] != "PING" {
                    return Some(envelope);
                }
                self.send_json(&json!({"v": 1, "type": "PONG", "id": "p", "ts": 0,
                    "payload": envelope["payload"]}))?;
                continue;
            }
            let count =
                (&self.stream).read(self.decoder.space()).ok().filter(|count| *count > 0)?;
            self.decoder.filled(count);
            let frames = self.decoder.take().expect("a daemon's frames are whole or cut off");
            for json in frames.into_iter().flatten() {
                self.received.push_back(serde_json::from_slice(json).unwrap());
            }
        }
    }

    /// Returns the stream, so that another thread can end the connection.
    pub(crate) fn stream(&self) -> Stream {
        self.stream.clone()
    }
}

impl Drop for FallibleClient {
    fn drop(&mut self) {
        self.stream.hang_up();
    }
}
