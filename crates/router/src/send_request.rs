//! A SEND that passed all checks which do not depend on its recipients.

use super::{
    interface::ClientId,
    keys::{AgentKey, MessageKey, StreamKey},
    mail::{HEAD_BYTES_MAX, Message, Reliable, Sent},
};
use protocol::{
    Moment, code::NackCode, deliver::append_shared, envelope::Envelope, name::Name, payload::Sync,
};
use std::sync::Arc;
use uuid::Uuid;

/// A SEND that is accepted if its recipients have room.
#[derive(Debug)]
pub(super) struct SendRequest<'e> {
    pub(super) envelope: &'e Envelope<'e>,
    pub(super) client: ClientId,
    pub(super) from: AgentKey,
    /// `client`, if the connection is a companion's or an operator's and not the agent's own.
    pub(super) by: Option<ClientId>,
    /// Whether to deliver at least once, rather than at most once.
    pub(super) requires_ack: bool,
    /// The question that the SEND asks.
    pub(super) asks: Option<Sync>,
    pub(super) expires: Moment,
    /// An upper bound for the bytes of each DELIVER.
    pub(super) bytes: usize,
}

/// The reason why a SEND is refused, for all recipients or for one.
pub(super) type Refusal = (NackCode, String);

/// The numbers and the id that a message gets for one recipient.
pub(super) struct Numbers {
    /// The DELIVER's id.
    pub(super) id: Uuid,
    pub(super) to: AgentKey,
    pub(super) stream: StreamKey,
    pub(super) seq: u64,
    pub(super) order: u64,
}

/// A message that was queued or handed out.
pub(super) struct Queued {
    /// The DELIVER's id.
    pub(super) id: Uuid,
    pub(super) seq: u64,
    /// The key of the queued message; none if the message was handed out at once.
    pub(super) key: Option<MessageKey>,
}

impl SendRequest<'_> {
    /// Appends the part of the DELIVERs that is the same for all recipients.
    pub(super) fn append_shared(&self, from: &Name, bytes: &mut Vec<u8>) {
        let Envelope { topic, payload, payload_meta, .. } = self.envelope;
        append_shared(bytes, from.as_str(), topic.as_deref(), payload, *payload_meta);
    }

    /// Returns the message for one recipient.
    pub(super) fn message(
        &self,
        numbers: &Numbers,
        sent: Arc<Sent>,
        reliable: Option<Box<Reliable>>,
    ) -> Message {
        Message {
            to: numbers.to,
            stream: numbers.stream,
            seq: numbers.seq,
            order: numbers.order,
            id: numbers.id,
            bytes: sent.shared.len() + HEAD_BYTES_MAX,
            sent,
            expires: self.expires,
            timer: self.expires,
            attempts: u32::from(reliable.is_none()),
            is_replay: false,
            reliable,
        }
    }
}

/// Returns an upper bound for the bytes of every DELIVER that can be made of a SEND.
pub(super) fn deliver_bytes_max(envelope: &Envelope<'_>, from: &Name) -> usize {
    const FIELDS: &str = r#""from":"","topic":"","payload":,"payload_meta":}"#;
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    let topic: usize = envelope.topic.iter().flat_map(|topic| topic.bytes()).map(escaped).sum();
    HEAD_BYTES_MAX
        + FIELDS.len()
        + from.as_str().len()
        + topic
        + envelope.payload.len()
        + envelope.payload_meta.map_or(0, str::len)
}
