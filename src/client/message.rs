//! What an application says and hears: the values that go in and out of a [`Client`](super::Client).

use crate::protocol::{
    code::{ErrorCode, Violation},
    deliver::{self, Proof},
    envelope::Envelope,
    payload::{Fault, MessagePayload, Meta, Nack, Sync, Welcome},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// The id of a SEND, made by the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SendId(pub String);

impl fmt::Display for SendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Something to be said.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// An agent's name, `*`, or nothing where the topic says it all.
    pub to: Option<String>,
    /// On which topic.
    pub topic: Option<String>,
    /// The payload's kind; `message` where empty.
    pub kind: String,
    /// The text.
    pub body: String,
    /// Anything else: one JSON value.
    pub data: Option<Box<RawValue>>,
    /// A label for a conversation.
    pub thread: Option<String>,
    /// What the daemon shall do with it.
    pub meta: Meta,
}

/// What a message counts beside its text.
const OVERHEAD_BYTES: usize = 256;

impl Outgoing {
    /// An at-least-once message for one agent.
    #[must_use]
    pub fn message(to: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            to: Some(to.into()),
            body: body.into(),
            meta: Meta { requires_ack: true, ..Meta::default() },
            ..Self::default()
        }
    }

    /// About what it takes while it is held.
    pub(super) fn weight(&self) -> usize {
        let data = self.data.as_deref().map_or(0, |data| data.get().len());
        self.body.len() + data + OVERHEAD_BYTES
    }
}

/// A received message, parsed once on arrival.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The DELIVER's id, by which the message is acknowledged.
    pub id: String,
    /// The sender's name.
    pub from: String,
    /// The sender's session; absent from a 1.0 daemon.
    pub session: Option<String>,
    /// The proof by which the daemon knows the sender; absent from a 1.0 daemon.
    pub auth: Option<Proof>,
    /// The name it was delivered to.
    pub to: String,
    /// `*` where it was sent to everyone or to a topic.
    pub original_to: Option<String>,
    /// The topic it was sent on.
    pub topic: Option<String>,
    /// Its number in the stream.
    pub seq: u64,
    /// 1, or more for a redelivery.
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
    /// The parameters of a question whose sender waits for an
    /// [`answer`](super::Client::answer).
    pub sync: Option<Box<Sync>>,
    /// The importance that its sender states, if it is a number.
    pub importance: Option<f64>,
    json: Box<str>,
}

impl Delivery {
    /// Parses a DELIVER.
    pub(super) fn read(envelope: &Envelope<'_>) -> Result<Self, Violation> {
        let delivery = deliver::read(envelope)?;
        let payload: MessagePayload<'_> = envelope.typed(envelope.payload)?;
        let meta: KnownMeta<'_> = match envelope.payload_meta {
            Some(meta) => envelope.typed(meta)?,
            None => KnownMeta::default(),
        };
        let missing =
            |what: &str| envelope.breaks(ErrorCode::Invalid, format!("DELIVER has no `{what}`"));
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
            json: envelope.json.into(),
        })
    }

    /// The whole DELIVER, byte for byte.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }
}

/// The members of a DELIVER's `payload_meta` that have to be of their kind.
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

/// What another agent answers to a question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Who answers.
    pub from: String,
    /// Yes or no, where it says so.
    pub response: Option<bool>,
    /// Anything else: one JSON value.
    pub data: Option<Box<RawValue>>,
}

impl Answer {
    /// Its text: the `body` of its data, by which our own clients answer.
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

/// An answer to a delivery that asks.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The delivery's id.
    pub delivery_id: String,
    /// Its number.
    pub seq: u64,
    /// The question's parameters.
    pub sync: Sync,
    /// Yes or no.
    pub response: bool,
    /// Anything else.
    pub data: Option<Box<RawValue>>,
}

impl Reply {
    /// About what it takes until it is said.
    pub(super) fn weight(&self) -> usize {
        self.data.as_deref().map_or(0, |data| data.get().len()) + OVERHEAD_BYTES
    }
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A message arrived. Where it requires an acknowledgement, give one or give it back.
    Delivered(Delivery),
    /// The daemon answers for an at-least-once message from now on.
    Accepted {
        /// Which.
        send_id: SendId,
        /// How many have it, of a broadcast.
        recipients: Option<u64>,
        /// The recipient is not here: the message waits for it.
        away: bool,
    },
    /// A message was not delivered, or one recipient of several (`nack.to`) has not got it.
    ///
    /// The library doesn't send it again. Where the code is `STORE_FAILED`, the daemon's disk is full or
    /// fails, and the same message may be taken later. Where the id is a delivery's, the answer to it could
    /// not be passed on.
    Refused {
        /// Which.
        send_id: SendId,
        /// Code and sentence.
        nack: Nack,
    },
    /// A question that was sent with `meta.sync` is answered, by one of those who have it.
    Answered {
        /// Which.
        send_id: SendId,
        /// By what.
        answer: Answer,
    },
    /// A recipient has no room now: the library sends the message again by itself.
    Busy {
        /// Which.
        send_id: SendId,
        /// After so long.
        wait_ms: u64,
    },
    /// The daemon answered a subscription.
    Subscribed {
        /// Its pattern.
        pattern: String,
        /// Why not, if not.
        refused: Option<Nack>,
    },
    /// The session goes on, but the daemon can't send again what it said last to the lost connection: some
    /// at-most-once messages may be missing. No at-least-once message is.
    Missed {
        /// What the daemon says.
        why: String,
    },
    /// The daemon complains about something that the library said; where it is fatal, the connection is
    /// over and another one is tried.
    Complaint(Fault),
    /// The connection's state changed.
    State(State),
    /// The connection is over and nothing brings it back by itself.
    Ended(Ended),
}

/// A client's state, as in docs/PROTOCOL.md, section 15.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is tried.
    Disconnected,
    /// A stream is being opened.
    Connecting,
    /// HELLO was said.
    Handshaking,
    /// Messages flow.
    Ready(Box<Welcome>),
    /// The next try waits.
    Backoff {
        /// For so long.
        wait_ms: u64,
        /// Because of this.
        why: String,
    },
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The application closed it.
    Closed,
    /// The daemon said so, for good.
    Fault(Fault),
    /// So many tries failed, the last one with these words.
    GaveUp {
        /// How many.
        attempts: u32,
        /// The last one's reason.
        why: String,
        /// Whether nobody listens there.
        absent: bool,
    },
}

impl Ended {
    /// Whether the daemon said `code`.
    #[must_use]
    pub fn is(&self, code: ErrorCode) -> bool {
        matches!(self, Self::Fault(fault) if fault.is(code))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::Fault(fault) => write!(f, "{} ({})", fault.message, fault.code),
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
