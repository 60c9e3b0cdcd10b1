//! A SEND that passed all checks which do not depend on its recipients.

use super::{
    frame::Frame,
    interface::ClientId,
    keys::{AgentKey, MessageKey, StreamKey},
    mail::{Body, HEAD_BYTES_MAX, Message},
    sender::SendId,
};
use crate::protocol::{
    Moment,
    code::NackCode,
    deliver::{Head, append_shared},
    envelope::Envelope,
    frame,
    name::Name,
    payload::Sync,
};
use std::sync::Arc;
use uuid::Uuid;

/// The longest shared part that is copied into each frame. For short parts, copying costs less than
/// counting references.
const COPIED_BYTES_MAX: usize = 2048;

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
    /// Returns the part of the DELIVERs that is the same for all recipients.
    pub(super) fn shared(&self, from: &Name) -> Arc<[u8]> {
        let mut bytes = Vec::with_capacity(self.bytes);
        self.append_shared(from, &mut bytes);
        bytes.into()
    }

    fn append_shared(&self, from: &Name, bytes: &mut Vec<u8>) {
        let Envelope { topic, payload, payload_meta, .. } = self.envelope;
        append_shared(bytes, from.as_str(), topic.as_deref(), payload, *payload_meta);
    }

    /// Returns the message for one recipient.
    pub(super) fn message(&self, numbers: &Numbers, bytes: usize, body: Body) -> Message {
        Message {
            from: self.from,
            by: self.by,
            to: numbers.to,
            stream: numbers.stream,
            seq: numbers.seq,
            order: numbers.order,
            send_id: SendId::new(&self.envelope.id),
            bytes,
            expires: self.expires,
            timer: self.expires,
            is_replay: false,
            body,
        }
    }

    /// Returns the capacity that the first part of a DELIVER's frame needs.
    pub(super) const fn head_bytes(&self, is_shared: bool) -> usize {
        let is_large = self.bytes > COPIED_BYTES_MAX + HEAD_BYTES_MAX;
        if is_shared && is_large { HEAD_BYTES_MAX } else { self.bytes }
    }

    /// Returns the frame of a DELIVER. The end of the frame is a separate part if it is large and
    /// shared with other recipients.
    pub(super) fn frame(
        &self,
        mut bytes: Vec<u8>,
        from: &Name,
        head: &Head<'_>,
        shared: Option<&Arc<[u8]>>,
    ) -> Frame {
        head.append(&mut bytes, shared.map_or(0, |shared| shared.len()));
        match shared {
            Some(shared) if shared.len() > COPIED_BYTES_MAX => {
                return Frame { head: bytes, shared: Some(Arc::clone(shared)) };
            }
            Some(shared) => bytes.extend_from_slice(shared),
            None => {
                self.append_shared(from, &mut bytes);
                frame::seal(&mut bytes, 0, 0);
            }
        }
        Frame { head: bytes, shared: None }
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
