//! What an application says and hears: the values that go in and out of a [`Client`](super::Client).

use crate::protocol::{
    code::{ErrorCode, Violation},
    deliver::{self, Proof},
    envelope::Envelope,
    payload::{Fault, Meta, Nack, Spoken, Sync, Welcome},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, ops::Range};

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

/// A message that arrived. Its payload was checked: [`spoken`](Self::spoken) always succeeds.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its id, to acknowledge it by.
    pub id: String,
    /// Who says it.
    pub from: String,
    /// The name it was delivered to.
    pub to: String,
    /// `*` where it was sent to everyone or to a topic.
    pub original_to: Option<String>,
    /// On which topic.
    pub topic: Option<String>,
    /// Its number in the stream.
    pub seq: u64,
    /// 1, or more where it comes again.
    pub attempt: u32,
    /// The daemon awaits [`acknowledge`](super::Client::acknowledge).
    pub requires_ack: bool,
    /// How the daemon knows the sender; absent from a 1.0 daemon.
    pub auth: Option<Proof>,
    /// The id of the SEND that this answers.
    pub reply_to: Option<String>,
    /// The sender waits for an [`answer`](super::Client::answer).
    pub asks: Option<Box<Sync>>,
    json: Box<str>,
    payload: Range<usize>,
    meta: Option<Range<usize>>,
}

impl Delivery {
    /// Reads a DELIVER and checks that our applications can read its payload.
    pub(super) fn read(envelope: &Envelope<'_>, json: &str) -> Result<Self, Violation> {
        let delivery = deliver::read(envelope)?;
        envelope.typed::<Spoken<'_>>(envelope.payload)?;
        let meta: KnownMeta<'_> = match envelope.payload_meta {
            Some(meta) => envelope.typed(meta)?,
            None => KnownMeta::default(),
        };
        let missing =
            |what: &str| envelope.breaks(ErrorCode::Invalid, format!("DELIVER has no `{what}`"));
        Ok(Self {
            id: envelope.id.clone().into_owned(),
            from: envelope.from.as_deref().ok_or_else(|| missing("from"))?.to_owned(),
            to: envelope.to.as_deref().ok_or_else(|| missing("to"))?.to_owned(),
            original_to: delivery.original_to.map(Into::into),
            topic: envelope.topic.as_deref().map(str::to_owned),
            seq: delivery.seq,
            attempt: delivery.attempt,
            requires_ack: delivery.requires_ack,
            auth: delivery.sender.map(|sender| sender.auth),
            reply_to: meta.reply_to.map(Into::into),
            asks: meta.sync.map(Box::new),
            payload: place(json, envelope.payload),
            meta: envelope.payload_meta.map(|meta| place(json, meta)),
            json: json.into(),
        })
    }

    /// The whole DELIVER, as it came.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Its `payload`, byte for byte.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.json[self.payload.clone()]
    }

    /// Its `payload_meta`, byte for byte.
    #[must_use]
    pub fn meta(&self) -> Option<&str> {
        self.meta.clone().map(|range| &self.json[range])
    }

    /// Its payload, typed.
    ///
    /// # Panics
    /// Never: the payload was read when it arrived.
    #[must_use]
    pub fn spoken(&self) -> Spoken<'_> {
        serde_json::from_str(self.payload()).expect("it was read when it arrived")
    }
}

/// What we read of a DELIVER's `payload_meta`.
#[derive(Default, Deserialize)]
struct KnownMeta<'a> {
    #[serde(borrow, default, rename = "replyTo")]
    reply_to: Option<Cow<'a, str>>,
    #[serde(default)]
    sync: Option<Sync>,
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
    /// What it asked with.
    pub asks: Sync,
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

/// Where `part`, which lies in `whole`, lies.
fn place(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
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

/// Section 10's states.
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
