//! DELIVER: a small head of the recipient's own around bytes that all recipients share.
//!
//! The sender's `payload` and `payload_meta` go through byte for byte; nothing here parses them.

use super::{
    code::Violation,
    envelope::{Envelope, append_json},
    frame,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// How the daemon knows the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// It has the key that policy sets for the name.
    Key,
    /// It resumed its session.
    Token,
    /// It took a free name.
    Claim,
    /// It speaks for its agent.
    Companion,
    /// It has no name of its own.
    Guest,
    /// It runs the place.
    Operator,
}

impl Proof {
    /// The proof as it stands on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Token => "token",
            Self::Claim => "claim",
            Self::Companion => "companion",
            Self::Guest => "guest",
            Self::Operator => "operator",
        }
    }
}

/// `delivery.sender`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender<'a> {
    /// The sender's session.
    pub session: Cow<'a, str>,
    /// How it is known.
    pub auth: Proof,
}

/// `delivery`: what the daemon says about a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery<'a> {
    /// Its number in the stream.
    pub seq: u64,
    /// The recipient's session.
    #[serde(default)]
    pub session_id: Cow<'a, str>,
    /// `*` where it was sent to everyone or to a topic.
    #[serde(default, rename = "originalTo", skip_serializing_if = "Option::is_none")]
    pub original_to: Option<Cow<'a, str>>,
    /// From the second on.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// An ACK is awaited.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_ack: bool,
    /// Who sent it, in the daemon's words; absent from a 1.0 daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender<'a>>,
}

const fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_first(attempt: &u32) -> bool {
    *attempt <= 1
}

/// A DELIVER's part that differs by recipient.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// The DELIVER's own id; of the daemon's making, so without escapes.
    pub id: &'a str,
    /// The daemon's clock.
    pub ts: u64,
    /// The recipient's name.
    pub to: &'a str,
    /// What the daemon says about it.
    pub delivery: Delivery<'a>,
}

impl Head<'_> {
    /// Appends the frame up to its shared part, its length counting that too.
    pub fn append(&self, bytes: &mut Vec<u8>, shared_bytes: usize) {
        let start = bytes.len();
        bytes.extend_from_slice(b"\0\0\0\0{\"v\":1,\"type\":\"DELIVER\",\"id\":\"");
        bytes.extend_from_slice(self.id.as_bytes());
        bytes.extend_from_slice(b"\",\"ts\":");
        append_json(bytes, &self.ts);
        bytes.extend_from_slice(b",\"to\":\"");
        bytes.extend_from_slice(self.to.as_bytes());
        bytes.extend_from_slice(b"\",\"delivery\":");
        append_json(bytes, &self.delivery);
        bytes.push(b',');
        frame::seal(bytes, start, shared_bytes);
    }
}

/// Appends the part that is the same for every recipient: it ends the frame.
pub fn append_shared(
    bytes: &mut Vec<u8>,
    from: &str,
    topic: Option<&str>,
    payload: &str,
    payload_meta: Option<&str>,
) {
    bytes.extend_from_slice(b"\"from\":\"");
    bytes.extend_from_slice(from.as_bytes());
    bytes.push(b'"');
    if let Some(topic) = topic {
        bytes.extend_from_slice(b",\"topic\":");
        append_json(bytes, &topic);
    }
    bytes.extend_from_slice(b",\"payload\":");
    bytes.extend_from_slice(payload.as_bytes());
    if let Some(meta) = payload_meta {
        bytes.extend_from_slice(b",\"payload_meta\":");
        bytes.extend_from_slice(meta.as_bytes());
    }
    bytes.push(b'}');
}

/// Reads what the daemon says about a message, on a client's side.
pub fn read<'a>(envelope: &Envelope<'a>) -> Result<Delivery<'a>, Violation> {
    envelope.typed(envelope.delivery.unwrap_or("{}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::envelope::Kind;

    #[test]
    fn a_deliver_is_head_and_shared_part_in_one_frame() {
        let payload = r#"{ "body" : "\u00e9", "n": 1234567890123456789012345 }"#;
        let (mut shared, mut bytes) = (Vec::new(), Vec::new());
        append_shared(&mut shared, "Ann", Some("a\"b"), payload, Some("{ }"));
        let sender = Sender { session: "s-1".into(), auth: Proof::Claim };
        let delivery = Delivery {
            seq: 42,
            session_id: "s-2".into(),
            original_to: Some("*".into()),
            attempt: 1,
            requires_ack: true,
            sender: Some(sender),
        };
        let head = Head { id: "d-1", ts: 7, to: "Bob", delivery: delivery.clone() };
        head.append(&mut bytes, shared.len());
        bytes.extend_from_slice(&shared);
        let length = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        assert_eq!(length, bytes.len() - 4);
        let envelope = Envelope::read(&bytes[4..]).unwrap();
        assert_eq!(envelope.kind, Kind::Deliver);
        assert_eq!(envelope.topic.as_deref(), Some("a\"b"));
        assert_eq!((envelope.payload, envelope.payload_meta), (payload, Some("{ }")));
        assert_eq!(read(&envelope).unwrap(), delivery);
        assert!(!envelope.delivery.unwrap().contains("attempt"));
    }
}
