//! A message for one recipient, from its queueing to its end.

use super::sent::Sent;
use crate::{
    context::Context,
    frame::Frame,
    keys::{AgentKey, StreamKey},
    send_digest::SendDigest,
};
use protocol::{
    Moment,
    deliver::{Head, RecipientText},
    relay::{DeliveryState, Reported, WaitsFor},
};
use std::sync::Arc;
use uuid::Uuid;

/// The longest head of a DELIVER: the part that is not shared, with every number at its longest.
pub(crate) const HEAD_BYTES_MAX: usize = 512;

/// The memory that a message takes besides its text: itself, and its places in the tables.
pub(crate) const RECORD_BYTES: usize = 512;

/// The longest shared part that is copied into each frame. For short parts, copying costs less than
/// counting references.
const COPIED_BYTES_MAX: usize = 2048;

/// A message for one recipient.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) sent: Arc<Sent>,
    pub(crate) to: AgentKey,
    pub(crate) stream: StreamKey,
    pub(crate) seq: u64,
    /// The message's position in the order of all messages.
    pub(crate) order: u64,
    /// The DELIVER's id.
    pub(crate) id: Uuid,
    /// The bytes that count in the queue.
    pub(crate) bytes: usize,
    pub(crate) expires: Moment,
    /// The time of the message's timer.
    pub(crate) timer: Moment,
    /// The number of the last attempt to deliver the message. The only attempt of an at-most-once
    /// message counts from the start.
    pub(crate) attempts: u32,
    /// Whether the message is a replay: it was delivered before, and its recipient asked for it
    /// again. A replay counts in no queue, and its sender gets no NACK.
    pub(crate) is_replay: bool,
    /// The state of an at-least-once delivery.
    pub(crate) reliable: Option<Box<Reliable>>,
}

impl Message {
    /// The bytes that count in the memory.
    pub(crate) const fn memory_bytes(&self) -> usize {
        self.bytes + RECORD_BYTES
    }

    pub(crate) fn reliable(&self) -> Option<&Reliable> {
        self.reliable.as_deref()
    }

    pub(super) fn reliable_mut(&mut self) -> Option<&mut Reliable> {
        self.reliable.as_deref_mut()
    }

    /// Whether neither the message nor those after it in its stream may go out yet.
    pub(crate) fn is_blocked(&self) -> bool {
        self.reliable()
            .is_some_and(|own| matches!(own.state, QueueState::Persisting | QueueState::Delayed(_)))
    }

    /// Returns the frame of the message's next DELIVER. The end of the frame is a separate part if
    /// it is large.
    pub(crate) fn frame(&self, ctx: &mut Context, to: &RecipientText) -> Frame {
        let mut text = Uuid::encode_buffer();
        let shared = &self.sent.shared;
        let is_copied = shared.len() <= COPIED_BYTES_MAX;
        let mut bytes = ctx.head_buffer(HEAD_BYTES_MAX + if is_copied { shared.len() } else { 0 });
        let head = Head {
            id: self.id.hyphenated().encode_lower(&mut text),
            ts: ctx.now.unix_ms,
            to,
            seq: self.seq,
            attempt: ctx.planted.attempt(self.attempts),
            requires_ack: self.reliable.is_some(),
            to_everyone: self.sent.to_everyone,
            sender: &self.sent.auth.text,
        };
        head.append(&mut bytes, shared.len());
        if !is_copied {
            return Frame { head: bytes, shared: Some(Arc::clone(shared)) };
        }
        bytes.extend_from_slice(shared);
        Frame { head: bytes, shared: None }
    }
}

/// An at-least-once delivery.
#[derive(Debug)]
pub(crate) struct Reliable {
    /// The message's number in records.
    pub(crate) message: u64,
    /// The time at which the SEND came.
    pub(crate) unix_ms: u64,
    /// The number of attempts that the store has recorded.
    pub(crate) recorded: u32,
    pub(crate) failures: u32,
    pub(crate) state: QueueState,
    /// The SEND's digest in its sender's dedup window.
    pub(crate) digest: SendDigest,
    /// The recipient's last report.
    pub(crate) reported: Option<Box<Reported>>,
    pub(crate) unread: UnreadNotice,
}

/// Whether the sender of a delivery is told that the delivery waits in its recipient's wrapper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UnreadNotice {
    #[default]
    Untold,
    /// The sender is told at this moment if the delivery still waits then.
    ToldAt(Moment),
    /// The sender was told, or is never told.
    Settled,
}

impl Reliable {
    /// Returns the state of an unacknowledged delivery that its recipient's connection has, and
    /// what it waits for. `reports` tells whether that connection reports on deliveries.
    pub(crate) fn progress(&self, reports: bool) -> (DeliveryState, Option<WaitsFor>) {
        match self.reported.as_deref() {
            Some(reported) if reported.is_confirmed() => (DeliveryState::Confirmed, None),
            Some(reported) if !reported.is_waiting() => (DeliveryState::Injected, None),
            None if !reports => (DeliveryState::Delivered, None),
            _ => (DeliveryState::Waiting, Some(WaitsFor::Agent)),
        }
    }

    /// Sets the state of a delivery that is no longer in flight. The recipient's report no longer
    /// counts.
    pub(super) fn take_back(&mut self, state: QueueState) {
        self.state = state;
        self.reported = None;
    }
}

/// The state of an at-least-once message in its recipient's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueState {
    /// The message is being persisted, and is accepted afterwards.
    Persisting,
    /// The message is queued and not handed out.
    Waiting,
    /// The message was returned by its recipient, and is not handed out again before this moment.
    /// The rest of its stream waits, too.
    Delayed(Moment),
    /// The message was handed out and is not acknowledged.
    InFlight {
        /// Whether the operating system has accepted all bytes of the DELIVER.
        written: bool,
    },
}
