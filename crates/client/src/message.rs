//! The values that an application passes to a [`Client`](super::Client) and gets from it.

use protocol::{
    code::{ErrorCode, Violation},
    deliver::{self, Proof},
    envelope::Envelope,
    payload::{ErrorPayload, LoopCount, MessagePayload, Meta, Nack, Sync, Welcome},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// The id of a SEND: a UUID made by the client, which identifies the message in events and NACKs.
/// It stays the same when the SEND is sent again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SendId(pub String);

impl fmt::Display for SendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A message to be sent. The default is an empty at-most-once message without a recipient.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// The SEND's id, if the caller chose one; otherwise a new one is made. An id belongs to one
    /// message.
    pub id: Option<SendId>,
    /// An agent's name, or `*` for every connected agent; optional with a topic.
    pub to: Option<String>,
    /// The message's topic, without wildcards, at most 256 bytes.
    pub topic: Option<String>,
    /// The payload's kind; `message` where empty.
    pub kind: String,
    /// The payload's text.
    pub body: String,
    /// The payload's data: one JSON value.
    pub data: Option<Box<RawValue>>,
    /// The payload's label for a conversation, at most
    /// [`THREAD_BYTES_MAX`](protocol::payload::THREAD_BYTES_MAX) bytes.
    pub thread: Option<String>,
    /// The message's `payload_meta`: at least once or at most once, time to live, question.
    pub meta: Meta,
}

/// A message of another machine's agent. A bridge passes it on byte for byte.
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// The id of the SEND, which must be the same if the message is passed on again.
    pub id: SendId,
    /// The recipient's name.
    pub to: String,
    /// The message's topic.
    pub topic: Option<String>,
    /// The payload: one JSON object.
    pub payload: String,
    /// The `payload_meta`: one JSON object.
    pub meta: Option<String>,
    /// Whether `meta` asks for at-least-once delivery.
    pub at_least_once: bool,
}

impl Forwarded {
    /// An estimate of the memory that the message takes while it waits.
    pub(super) fn weight(&self) -> usize {
        self.payload.len() + self.meta.as_deref().map_or(0, str::len) + OVERHEAD_BYTES
    }
}

/// The overhead of every message or answer that counts against the limit, in bytes.
const OVERHEAD_BYTES: usize = 256;

impl Outgoing {
    /// An at-least-once message with a text, for one agent.
    #[must_use]
    pub fn message(to: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            to: Some(to.into()),
            body: body.into(),
            meta: Meta { requires_ack: true, ..Meta::default() },
            ..Self::default()
        }
    }

    /// An estimate of the memory that the message takes while it waits.
    pub(super) fn weight(&self) -> usize {
        let data = self.data.as_deref().map_or(0, |data| data.get().len());
        self.body.len() + data + OVERHEAD_BYTES
    }
}

/// A received message, parsed once on arrival.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The DELIVER's id, for the acknowledgement.
    pub id: String,
    /// The sender's name.
    pub from: String,
    /// The sender's session, which changes when another client takes the name; absent from a 1.0
    /// daemon.
    pub session: Option<String>,
    /// The proof of the sender's identity; absent from a 1.0 daemon.
    pub auth: Option<Proof>,
    /// The name that the message was delivered to: the recipient's own.
    pub to: String,
    /// `*` if the message was sent to everyone or to a topic.
    pub original_to: Option<String>,
    /// The message's topic.
    pub topic: Option<String>,
    /// The delivery's number in its stream: of this sender and topic, from 1.
    pub seq: u64,
    /// 1, or more for a redelivery, which an earlier client of this name may have received.
    pub attempt: u32,
    /// Whether the daemon waits for [`acknowledge`](super::Client::acknowledge).
    pub requires_ack: bool,
    /// The payload's kind, such as `message`.
    pub kind: String,
    /// The payload's text.
    pub body: String,
    /// The payload's data: one JSON value.
    pub data: Option<Box<RawValue>>,
    /// The payload's label for a conversation.
    pub thread: Option<String>,
    /// The id of the message that this one answers.
    pub reply_to: Option<String>,
    /// The parameters of a question, if the sender waits for an [`answer`](super::Client::answer);
    /// its time is in milliseconds.
    pub sync: Option<Box<Sync>>,
    /// The importance that the sender states, from 0 to 100 by convention, if it is a number.
    pub importance: Option<f64>,
    /// The sender's count of messages with the recipient, if it is valid.
    pub hops: Option<LoopCount>,
    json: Box<str>,
}

impl Delivery {
    /// Parses a DELIVER.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn read(envelope: &Envelope<'_>) -> Result<Self, Violation> {
        let payload = envelope.decode_member(envelope.payload)?;
        let meta = match envelope.payload_meta {
            Some(meta) => envelope.decode_member(meta)?,
            None => KnownMeta::default(),
        };
        Self::with(envelope, payload, meta)
    }

    /// Parses a DELIVER for a bridge, which passes on its bytes: a payload or `payload_meta` in an
    /// unknown form counts as empty.
    pub(super) fn read_any(envelope: &Envelope<'_>) -> Result<Self, Violation> {
        let payload = envelope.decode_member(envelope.payload).unwrap_or_default();
        let meta = envelope.payload_meta.map(|meta| envelope.decode_member(meta));
        Self::with(envelope, payload, meta.and_then(Result::ok).unwrap_or_default())
    }

    fn with(
        envelope: &Envelope<'_>,
        payload: MessagePayload<'_>,
        meta: KnownMeta<'_>,
    ) -> Result<Self, Violation> {
        let delivery = deliver::read(envelope)?;
        let missing =
            |what: &str| envelope.violation(ErrorCode::Invalid, format!("DELIVER has no `{what}`"));
        let (session, auth) =
            delivery.sender.map(|sender| (sender.session.into_owned(), sender.auth)).unzip();
        Ok(Self {
            id: envelope.id.clone().into_owned(),
            from: envelope.from.as_deref().ok_or_else(|| missing("from"))?.to_owned(),
            session,
            auth,
            to: envelope.to.as_deref().ok_or_else(|| missing("to"))?.to_owned(),
            original_to: delivery.original_to.map(Into::into),
            topic: envelope.topic.as_deref().map(str::to_owned),
            seq: delivery.seq,
            attempt: delivery.attempt,
            requires_ack: delivery.requires_ack,
            kind: payload.kind.into_owned(),
            body: payload.body.into_owned(),
            data: payload.data.map(ToOwned::to_owned),
            thread: payload.thread,
            reply_to: meta.reply_to.map(Into::into),
            sync: meta.sync.map(Box::new),
            importance: envelope.payload_meta.and_then(importance),
            hops: envelope.payload_meta.and_then(hops),
            json: envelope.json.into(),
        })
    }

    /// The whole DELIVER as JSON, byte for byte, including members without a field in this type.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }
}

/// The checked members of a DELIVER's `payload_meta`.
#[derive(Default, Deserialize)]
struct KnownMeta<'a> {
    #[serde(borrow, default, rename = "replyTo")]
    reply_to: Option<Cow<'a, str>>,
    #[serde(default)]
    sync: Option<Sync>,
}

/// The importance in a `payload_meta`. A value of another kind is ignored rather than refused.
fn importance(meta: &str) -> Option<f64> {
    #[derive(Deserialize)]
    struct Importance {
        importance: f64,
    }
    serde_json::from_str(meta).ok().map(|Importance { importance }| importance)
}

/// The count in a `payload_meta`. A value of another kind is ignored rather than refused.
fn hops(meta: &str) -> Option<LoopCount> {
    serde_json::from_str(meta).ok()
}

/// An answer to a question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The name of the agent that answers.
    pub from: String,
    /// Yes or no, if the answer says so.
    pub response: Option<bool>,
    /// Further data: one JSON value, at most as long as a frame.
    pub data: Option<Box<RawValue>>,
}

impl Answer {
    /// The answer's text: the member `body` of its data, as this project's clients set it.
    #[must_use]
    pub fn body(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Body {
            body: String,
        }
        let body: Body = serde_json::from_str(self.data.as_deref()?.get()).ok()?;
        Some(body.body)
    }
}

/// An answer to be sent to a question, for [`Client::reply`](super::Client::reply).
#[derive(Clone, Debug)]
pub struct Reply {
    /// The id of the question's delivery.
    pub delivery_id: String,
    /// The delivery's number in its stream, if it is known.
    pub seq: Option<u64>,
    /// The question's parameters.
    pub sync: Sync,
    /// Yes or no, if the answer says so.
    pub response: Option<bool>,
    /// Further data: one JSON value.
    pub data: Option<Box<RawValue>>,
}

impl Reply {
    /// An estimate of the memory that the answer takes until it is sent.
    pub(super) fn weight(&self) -> usize {
        self.data.as_deref().map_or(0, |data| data.get().len()) + OVERHEAD_BYTES
    }
}

/// An event for the application, from [`Client::events`](super::Client::events).
#[derive(Clone, Debug)]
pub enum Event {
    /// A message arrived. If it [requires](Delivery::requires_ack) an acknowledgement, acknowledge
    /// or return it: otherwise it stays in the daemon, and takes one place of
    /// [`max_inflight`](protocol::payload::Capabilities::max_inflight).
    Delivered(Box<Delivery>),
    /// The daemon has accepted responsibility for an at-least-once message. The recipient may not
    /// have read it.
    Accepted {
        /// The message.
        send_id: SendId,
        /// The number of recipients of a broadcast.
        recipients: Option<u64>,
        /// Whether the recipient is away, so that the message waits for it.
        away: bool,
    },
    /// A message was not delivered, or not to one recipient of several (`nack.to`).
    ///
    /// The library does not send the message again. With the code `STORE_FAILED`, the daemon's disk
    /// is full or failing, and the message may be accepted later. If the id is that of a delivery,
    /// the answer to its question could not be passed on.
    Refused {
        /// The message.
        send_id: SendId,
        /// The code and the reason.
        nack: Nack,
    },
    /// A recipient of a question (a message with `meta.sync`) answered it. A question to several
    /// recipients can have several answers. [`Client::ask`](super::Client::ask) returns the answer
    /// instead.
    Answered {
        /// The question.
        send_id: SendId,
        /// The question's `correlationId`.
        correlation_id: String,
        /// The answer.
        answer: Answer,
    },
    /// A recipient's queue is full. The library sends the message again by itself.
    Busy {
        /// The message.
        send_id: SendId,
        /// The time until the message is sent again, in milliseconds.
        wait_ms: u64,
    },
    /// The daemon answered a subscription that no call waits for: it was repeated in a new session,
    /// or its call timed out.
    Subscribed {
        /// The pattern.
        pattern: String,
        /// The refusal, if it was refused.
        refused: Option<Nack>,
    },
    /// The session is resumed, but the daemon cannot replay the messages that were lost with the
    /// last connection. At-most-once messages may be missing; no at-least-once message is.
    Missed {
        /// The reason.
        why: String,
    },
    /// The daemon sent an ERROR. If the ERROR is fatal, the connection is over, and the client
    /// tries to connect again.
    Error(ErrorPayload),
    /// The connection's state changed.
    State(ConnectionState),
    /// The client has ended for good: it does not reconnect, and no event follows. The outcome of
    /// messages without an answer is unknown.
    Ended(Ended),
}

/// The state of a client, as in docs/PROTOCOL.md, section 15. Unread events about attempts to
/// connect are merged into the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// No connection is attempted: [`Event::Ended`] follows.
    Disconnected,
    /// A stream is being opened.
    Connecting,
    /// HELLO was sent.
    Handshaking,
    /// Messages flow. WELCOME has the session and the daemon's limits.
    Ready(Box<Welcome>),
    /// The client waits before the next attempt to connect.
    Backoff {
        /// The time until the next attempt, in milliseconds.
        wait_ms: u64,
        /// The reason why the last attempt failed.
        why: String,
    },
}

/// The reason why a connection is over for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The application closed the connection.
    Closed,
    /// The daemon ended the connection with an ERROR that a new attempt would get again.
    Error(ErrorPayload),
    /// All attempts failed.
    GaveUp {
        /// The number of attempts in the last cycle.
        attempts: u32,
        /// The reason why the last attempt failed.
        why: String,
        /// The failure of the last attempt.
        last: LastFailure,
    },
}

/// The failure of an attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastFailure {
    /// There is no listener at the endpoint.
    NoListener,
    /// The connection ended without an ERROR.
    Disconnected,
    /// The daemon ended the connection with an ERROR of this code.
    Refused(ErrorCode),
    /// Any other failure.
    Other,
}

impl Ended {
    /// Whether the daemon ended the connection with this code.
    #[must_use]
    pub fn has_code(&self, code: ErrorCode) -> bool {
        self.code() == Some(code)
    }

    /// The code that the daemon ended the connection with.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Error(error) => ErrorCode::parse(&error.code),
            Self::GaveUp { last: LastFailure::Refused(code), .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the daemon is probably about to end: a killed process accepts connections until the
    /// system has closed its listener, and they end at once.
    #[must_use]
    pub fn is_of_ending_daemon(&self) -> bool {
        matches!(self, Self::GaveUp { last: LastFailure::Disconnected, .. })
            || self.has_code(ErrorCode::ShuttingDown)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::Error(error) => write!(f, "{} ({})", error.message, error.code),
            Self::GaveUp { attempts: 1, why, .. } => f.write_str(why),
            Self::GaveUp { attempts, why, .. } => {
                write!(f, "gave up after {attempts} attempts: {why}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(meta: &str) -> Delivery {
        let json = format!(
            r#"{{"v":1,"type":"DELIVER","id":"d-1","ts":1,"to":"Bob","delivery":{{"seq":1,
            "sender":{{"session":"s-1","auth":"key"}}}},"from":"Ann",
            "payload":{{"kind":"note","body":"a\nb","data":{{"n":1}},"thread":"t"}}{meta}}}"#
        );
        let delivery = Delivery::read(&Envelope::read(json.as_bytes()).unwrap()).unwrap();
        assert_eq!(delivery.json(), json);
        delivery
    }

    #[test]
    fn delivery_has_every_fact_of_its_deliver() {
        let delivery = delivery(r#","payload_meta":{"replyTo":"m-1"}"#);
        assert_eq!((delivery.session.as_deref(), delivery.auth), (Some("s-1"), Some(Proof::Key)));
        assert_eq!((delivery.kind.as_str(), delivery.body.as_str()), ("note", "a\nb"));
        assert_eq!(delivery.data.as_deref().map(RawValue::get), Some(r#"{"n":1}"#));
        assert_eq!(
            (delivery.thread.as_deref(), delivery.reply_to.as_deref()),
            (Some("t"), Some("m-1"))
        );
    }

    #[test]
    fn importance_of_another_kind_is_ignored() {
        for (meta, importance) in [
            (r#","payload_meta":{"importance":76}"#, Some(76.0)),
            (r#","payload_meta":{"importance":"high"}"#, None),
            (r#","payload_meta":{}"#, None),
            ("", None),
        ] {
            assert_eq!(delivery(meta).importance, importance, "{meta}");
        }
    }
}
