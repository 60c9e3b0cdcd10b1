//! The inputs and outputs of an outbox.

use crate::subject::Token;
use bytes::Bytes;
use protocol::name::Host;
use std::{sync::Arc, time::Duration};

/// Everything for one agent of one host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    /// The receiving host.
    pub host: Token,
    /// The receiving agent.
    pub agent: Token,
}

/// A frame for an agent of another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carry {
    /// The receiving host.
    pub host: Host,
    /// The frame's id, which the other host confirms.
    pub id: String,
    /// Whether it is a message, rather than an answer or a refusal.
    pub is_message: bool,
    /// Whether it is published again until it is confirmed. A message that is sent at most once is
    /// not.
    pub is_repeated: bool,
    /// How long a message waits for room in a full stream.
    pub time_to_live: Duration,
    /// The frame.
    pub frame: Bytes,
}

/// A message for the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The subject.
    pub subject: String,
    /// The `Nats-Msg-Id`.
    pub id: String,
    /// The batch.
    pub batch: Bytes,
}

/// The outcome of a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// The stream has the message.
    Stored,
    /// The stream refuses the message for good, for this reason.
    Refused(Refusal),
    /// The stream has no room for the message at present. The text says which limit is reached.
    Full(String),
    /// The stream may or may not have the message.
    Unknown,
    /// The stream does not have the message: there was no connection.
    NotSent,
    /// Nothing receives messages on the subject at present.
    NoStream,
}

/// Why a frame is not carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind.
    pub kind: RefusalKind,
    /// A sentence for a person.
    pub message: String,
}

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The frame is larger than NATS carries.
    TooLarge,
    /// The stream or the bridge is full.
    Full,
    /// The host has no stream.
    NoStream,
}

/// An input of an [outbox](super::Outbox).
#[derive(Debug)]
pub enum Input {
    /// A frame is to be carried.
    Carry(Lane, Carry),
    /// A publish has ended.
    Published(Lane, Published),
    /// A host confirms the frame of this id.
    Confirmed(Token, String),
    /// A host has refused the message of this id.
    Refused(Token, String),
    /// A host's bridge was started again: it may have lost frames that it had not confirmed.
    Restarted(Token),
    /// A host is absent: the daemon has the messages that wait for it.
    Absent(Token),
    /// NATS accepts messages of at most this number of bytes.
    Limit(Limit),
    /// The deadline has passed.
    Tick,
}

/// An action for the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Publish a message, and report the outcome.
    Publish(Lane, Arc<Publish>),
    /// The frame of this host and id is finished: the other host has confirmed it, or it is not
    /// repeated.
    Carried {
        /// The receiving host.
        host: Host,
        /// The frame's id.
        id: String,
    },
    /// The frame of this host and id is not carried.
    Refused {
        /// The receiving host.
        host: Host,
        /// The frame's id.
        id: String,
        /// Why.
        refusal: Refusal,
    },
}

/// A limit of NATS on the size of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The setting's name.
    pub name: &'static str,
    /// Its value, in bytes.
    pub bytes: usize,
}
