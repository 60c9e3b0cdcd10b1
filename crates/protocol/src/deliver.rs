//! DELIVER: a head for each recipient, followed by bytes that all recipients share.
//!
//! The sender's `payload` and `payload_meta` are passed on byte for byte.

use super::{
    code::Violation,
    envelope::{Envelope, append_json},
    frame,
    json::{self, unquoted},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The proof of the sender's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// The key that policy sets for the name.
    Key,
    /// The token of a resumed session.
    Token,
    /// No proof: the name was free.
    Claim,
    /// The companion key that the sender's agent stated.
    Companion,
    /// No proof: the sender is a guest, whose name the daemon made.
    Guest,
    /// The operator's key.
    Operator,
    /// The operator's key, shown by a bridge: the sender is an agent of another machine.
    Bridge,
}

impl Proof {
    /// The text on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Token => "token",
            Self::Claim => "claim",
            Self::Companion => "companion",
            Self::Guest => "guest",
            Self::Operator => "operator",
            Self::Bridge => "bridge",
        }
    }
}

/// A DELIVER's `delivery.sender`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender<'a> {
    /// The sender's session.
    pub session: Cow<'a, str>,
    /// The proof of the sender's identity.
    pub auth: Proof,
}

/// A DELIVER's `delivery`: what the daemon states about the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery<'a> {
    /// The recipient's session.
    #[serde(default)]
    pub session_id: Cow<'a, str>,
    /// The delivery's number in its stream.
    pub seq: u64,
    /// The number of the attempt; left out for the first.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// Whether the daemon waits for an ACK.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_ack: bool,
    /// `*` if the message was sent to everyone or to a topic.
    #[serde(default, rename = "originalTo", skip_serializing_if = "Option::is_none")]
    pub original_to: Option<Cow<'a, str>>,
    /// The sender as the daemon knows it; absent from a 1.0 daemon.
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

/// The part of a DELIVER's head that names its recipient: the same for a whole connection, so it is
/// written once.
#[derive(Clone, Debug)]
pub struct RecipientText(Box<str>);

impl RecipientText {
    /// `session` was made by the daemon, so it needs no escapes.
    #[must_use]
    pub fn new(name: &str, session: &str) -> Self {
        Self(format!(r#","to":"{name}","delivery":{{"session_id":"{session}","seq":"#).into())
    }
}

/// The part of a DELIVER's head that names its sender: the same for a whole session, so it is
/// written once.
#[derive(Clone, Debug)]
pub struct SenderText(Box<str>);

impl SenderText {
    /// `session` was made by the daemon, so it needs no escapes.
    #[must_use]
    pub fn new(session: &str, auth: Proof) -> Self {
        let auth = auth.as_str();
        Self(format!(r#","sender":{{"session":"{session}","auth":"{auth}"}}}},"#).into())
    }
}

/// The part of a DELIVER that differs by recipient.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// The DELIVER's id. The daemon made it, so it contains nothing to escape.
    pub id: &'a str,
    /// The daemon's time, in milliseconds since 1970.
    pub ts: u64,
    /// The recipient.
    pub to: &'a RecipientText,
    /// The delivery's number in its stream.
    pub seq: u64,
    /// The number of the attempt.
    pub attempt: u32,
    /// Whether the daemon waits for an ACK.
    pub requires_ack: bool,
    /// Whether the message was sent to everyone or to a topic.
    pub to_everyone: bool,
    /// The sender.
    pub sender: &'a SenderText,
}

impl Head<'_> {
    /// Appends the frame up to its shared part. The frame's length prefix includes `shared_bytes`,
    /// the length of that part.
    ///
    /// The frame is written without serde, for speed.
    pub fn append(&self, bytes: &mut Vec<u8>, shared_bytes: usize) {
        let start = bytes.len();
        bytes.extend_from_slice(b"\0\0\0\0{\"v\":1,\"type\":\"DELIVER\",\"id\":\"");
        bytes.extend_from_slice(self.id.as_bytes());
        bytes.extend_from_slice(b"\",\"ts\":");
        append_number(bytes, self.ts);
        bytes.extend_from_slice(self.to.0.as_bytes());
        append_number(bytes, self.seq);
        if self.attempt > 1 {
            bytes.extend_from_slice(b",\"attempt\":");
            append_number(bytes, self.attempt.into());
        }
        if self.requires_ack {
            bytes.extend_from_slice(b",\"requires_ack\":true");
        }
        if self.to_everyone {
            bytes.extend_from_slice(b",\"originalTo\":\"*\"");
        }
        bytes.extend_from_slice(self.sender.0.as_bytes());
        frame::seal(bytes, start, shared_bytes);
    }
}

fn append_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The bytes before the sender's name and the topic in the shared part of a DELIVER.
const FROM: &[u8] = b"\"from\":\"";
const TOPIC: &[u8] = b",\"topic\":";

/// Appends the part that all recipients share, which ends the frame.
pub fn append_shared(
    bytes: &mut Vec<u8>,
    from: &str,
    topic: Option<&str>,
    payload: &str,
    payload_meta: Option<&str>,
) {
    bytes.extend_from_slice(FROM);
    bytes.extend_from_slice(from.as_bytes());
    bytes.push(b'"');
    if let Some(topic) = topic {
        bytes.extend_from_slice(TOPIC);
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

/// The members of a DELIVER that all its recipients share.
#[derive(Clone, Debug, Deserialize)]
pub struct Shared<'a> {
    /// The sender's name.
    #[serde(borrow)]
    pub from: Cow<'a, str>,
    /// The message's topic.
    #[serde(borrow, default)]
    pub topic: Option<Cow<'a, str>>,
    /// The sender's `payload`.
    #[serde(borrow)]
    pub payload: &'a RawValue,
    /// The sender's `payload_meta`.
    #[serde(borrow, default)]
    pub payload_meta: Option<&'a RawValue>,
}

impl<'a> Shared<'a> {
    /// Reads the shared part of a DELIVER as [`append_shared`] wrote it and the store keeps it.
    /// Returns `None` if the bytes are damaged.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (mut from, mut topic, mut payload, mut payload_meta) = (None, None, None, None);
        let text = std::str::from_utf8(bytes).ok()?;
        let members = json::members_without_brace(text, |key, value| match key {
            "from" => from = Some(value),
            "topic" => topic = Some(value),
            "payload" => payload = Some(value),
            "payload_meta" => payload_meta = Some(value),
            _ => {}
        });
        members.ok()?;
        let raw = |value| serde_json::from_str::<&RawValue>(value).ok();
        Some(Self {
            from: unquoted(from?)?,
            topic: topic.map(|topic| unquoted(topic).ok_or(())).transpose().ok()?,
            payload: raw(payload?)?,
            payload_meta: payload_meta.and_then(raw),
        })
    }
}

/// Returns the sender's name and the topic from a shared part that [`append_shared`] wrote, without
/// reading its payload. Returns `None` if these are damaged.
#[must_use]
pub fn sender_and_topic(shared: &[u8]) -> Option<(&str, Option<Cow<'_, str>>)> {
    let rest = shared.strip_prefix(FROM)?;
    let (from, rest) = rest.split_at_checked(memchr::memchr(b'"', rest)?)?;
    let from = str::from_utf8(from).ok()?;
    let Some(rest) = rest[1..].strip_prefix(TOPIC) else { return Some((from, None)) };
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
    let topic = unquoted(values.next()?.ok()?.get())?;
    Some((from, Some(topic)))
}

/// Returns the shared part of a DELIVER as the text of a JSON object: a [`Shared`].
#[must_use]
pub fn shared_object(shared: &[u8]) -> String {
    format!("{{{}", String::from_utf8_lossy(shared))
}

/// Reads a DELIVER's `delivery`, as a client does.
pub fn read<'a>(envelope: &Envelope<'a>) -> Result<Delivery<'a>, Violation> {
    envelope.decode_member(envelope.delivery.unwrap_or("{}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Kind;

    #[test]
    fn sender_and_topic_are_read_without_the_payload() {
        let read = |from, topic, payload| {
            let mut shared = Vec::new();
            append_shared(&mut shared, from, topic, payload, None);
            let read = sender_and_topic(&shared).unwrap();
            (read.0.to_owned(), read.1.map(Cow::into_owned))
        };
        assert_eq!(read("Ann", None, r#"{"topic":"no"}"#), ("Ann".to_owned(), None));
        let topic = "a \"b\" \\ \u{e4}\n";
        assert_eq!(read("x@y", Some(topic), "{"), ("x@y".to_owned(), Some(topic.to_owned())));
        for damaged in
            [&b""[..], b"\"from\":\"Ann", b"\"from\":\"\xff\"", b"\"from\":\"A\",\"topic\":7,"]
        {
            assert!(sender_and_topic(damaged).is_none(), "{damaged:?}");
        }
    }

    #[test]
    fn numbers_are_written_as_in_json() {
        for number in [0, 9, 10, 1_734_440_000_000, u64::MAX] {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            append_number(&mut ours, number);
            append_json(&mut theirs, &number);
            assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn head_is_written_as_serde_writes_it() {
        let (to, sender) = (RecipientText::new("Bob", "s-2"), SenderText::new("s-1", Proof::Guest));
        for (attempt, requires_ack, to_everyone) in [(1, false, false), (2, true, true)] {
            let (to, sender) = (&to, &sender);
            let head =
                Head { id: "d-1", ts: 7, to, seq: 42, attempt, requires_ack, to_everyone, sender };
            let delivery = Delivery {
                session_id: "s-2".into(),
                seq: 42,
                attempt,
                requires_ack,
                original_to: to_everyone.then(|| "*".into()),
                sender: Some(Sender { session: "s-1".into(), auth: Proof::Guest }),
            };
            let mut bytes = Vec::new();
            head.append(&mut bytes, 0);
            let delivery = serde_json::to_string(&delivery).unwrap();
            let beginning = r#"{"v":1,"type":"DELIVER","id":"d-1","ts":7,"to":"Bob","delivery":"#;
            assert_eq!(str::from_utf8(&bytes[4..]), Ok(&*format!("{beginning}{delivery},")));
        }
    }

    #[test]
    fn shared_part_reads_back() {
        for topic in [Some("a\"b"), None] {
            let mut bytes = Vec::new();
            append_shared(&mut bytes, "Ann", topic, r#"{"body":"caf\u00e9"}"#, Some("{ }"));
            let shared = Shared::read(&bytes).unwrap();
            assert_eq!((&*shared.from, shared.topic.as_deref()), ("Ann", topic));
            assert_eq!(shared.payload.get(), r#"{"body":"caf\u00e9"}"#);
            assert_eq!(shared.payload_meta.unwrap().get(), "{ }");
            let object = shared_object(&bytes);
            let same: Shared<'_> = serde_json::from_str(&object).unwrap();
            assert_eq!((same.from, same.topic), (shared.from, shared.topic));
        }
    }

    #[test]
    fn damaged_shared_part_is_none() {
        let beginning = br#""from":"Ann","topic":"t","payload":{"body":"x"}"#;
        assert!(Shared::read(&[&beginning[..], b"}"].concat()).is_some());
        for end in 0..=beginning.len() {
            assert!(Shared::read(&beginning[..end]).is_none(), "{end}");
        }
        for damaged in [&b"\xff{"[..], br#""from":7,"payload":{}}"#, br#""payload":{}}"#] {
            assert!(Shared::read(damaged).is_none());
        }
    }

    #[test]
    fn head_and_shared_part_form_a_frame() {
        let payload = r#"{ "body" : "\u00e9", "n": 1234567890123456789012345 }"#;
        let (mut shared, mut bytes) = (Vec::new(), Vec::new());
        append_shared(&mut shared, "Ann", Some("a\"b"), payload, Some("{ }"));
        let (to, sender) =
            (&RecipientText::new("Bob", "s-2"), &SenderText::new("s-1", Proof::Claim));
        let (attempt, requires_ack, to_everyone) = (1, true, true);
        let head =
            Head { id: "d-1", ts: 7, to, seq: 42, attempt, requires_ack, to_everyone, sender };
        head.append(&mut bytes, shared.len());
        bytes.extend_from_slice(&shared);
        let length = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        assert_eq!(length, bytes.len() - 4);
        let envelope = Envelope::read(&bytes[4..]).unwrap();
        assert_eq!(envelope.kind, Kind::Deliver);
        assert_eq!(envelope.topic.as_deref(), Some("a\"b"));
        assert_eq!((envelope.payload, envelope.payload_meta), (payload, Some("{ }")));
        let delivery = read(&envelope).unwrap();
        assert_eq!((delivery.seq, &*delivery.session_id, delivery.attempt), (42, "s-2", 1));
        assert!(delivery.requires_ack);
    }
}
