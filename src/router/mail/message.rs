//! A message for one recipient, from its queueing to its end.

use crate::{
    protocol::{
        Moment,
        deliver::{Delivery, Head, Sender},
        name::EVERYONE,
        relay::Reported,
    },
    router::{
        context::Context,
        frame::Frame,
        interface::ClientId,
        keys::{AgentKey, StreamKey},
        send_digest::SendDigest,
        sender::{SendId, SenderAuth},
    },
};
use std::sync::Arc;
use uuid::Uuid;

/// The longest head of a DELIVER: the part that is not shared, with every number at its longest.
pub(in crate::router) const HEAD_BYTES_MAX: usize = 512;

/// A message for one recipient.
#[derive(Debug)]
pub(in crate::router) struct Message {
    pub(in crate::router) from: AgentKey,
    /// The connection that sent the message, if it is a companion's or an operator's. NACKs go to
    /// that connection. Once it has left, the agent gets only those of failed at-least-once
    /// deliveries.
    pub(in crate::router) by: Option<ClientId>,
    pub(in crate::router) to: AgentKey,
    pub(in crate::router) stream: StreamKey,
    pub(in crate::router) seq: u64,
    /// The message's position in the order of all messages.
    pub(in crate::router) order: u64,
    pub(in crate::router) send_id: SendId,
    /// The bytes that count in the queue.
    pub(in crate::router) bytes: usize,
    pub(in crate::router) expires: Moment,
    /// The time of the message's timer.
    pub(in crate::router) timer: Moment,
    /// Whether the message is a replay: it was delivered before, and its recipient asked for it
    /// again. A replay counts in no queue, and its sender gets no NACK.
    pub(in crate::router) is_replay: bool,
    pub(in crate::router) body: Body,
}

impl Message {
    pub(in crate::router) const fn reliable(&self) -> Option<&Reliable> {
        match &self.body {
            Body::AtLeastOnce(reliable) => Some(reliable),
            Body::AtMostOnce(_) => None,
        }
    }

    pub(super) const fn reliable_mut(&mut self) -> Option<&mut Reliable> {
        match &mut self.body {
            Body::AtLeastOnce(reliable) => Some(reliable),
            Body::AtMostOnce(_) => None,
        }
    }

    /// Whether neither the message nor those after it in its stream may go out yet.
    pub(in crate::router) fn is_blocked(&self) -> bool {
        self.reliable()
            .is_some_and(|own| matches!(own.state, State::Persisting | State::Delayed(_)))
    }
}

/// The content of a message, by how it is delivered.
#[derive(Debug)]
pub(in crate::router) enum Body {
    /// The frame for the one connection that will get it.
    AtMostOnce(Frame),
    /// The delivery from which each attempt writes its frame.
    AtLeastOnce(Reliable),
}

/// An at-least-once delivery.
#[derive(Debug)]
pub(in crate::router) struct Reliable {
    /// The DELIVER's id.
    pub(in crate::router) id: Uuid,
    /// The message's number in records.
    pub(in crate::router) message: u64,
    /// The part of the DELIVER that is the same for every recipient and attempt.
    pub(in crate::router) shared: Arc<[u8]>,
    pub(in crate::router) to_everyone: bool,
    /// The time at which the SEND came.
    pub(in crate::router) unix_ms: u64,
    pub(in crate::router) auth: SenderAuth,
    /// The number of times that the message was handed out.
    pub(in crate::router) attempts: u32,
    /// The number of attempts that the store has recorded.
    pub(in crate::router) recorded: u32,
    pub(in crate::router) failures: u32,
    pub(in crate::router) state: State,
    /// The SEND's digest in its sender's dedup window.
    pub(in crate::router) digest: SendDigest,
    /// The recipient's last report.
    pub(in crate::router) reported: Option<Box<Reported>>,
}

impl Reliable {
    /// Returns the state of an unacknowledged delivery that its recipient's connection has, and the
    /// obstacle for which it waits. `reports` tells whether that connection reports on deliveries.
    pub(in crate::router) fn progress(
        &self,
        reports: bool,
    ) -> (&'static str, Option<&'static str>) {
        match self.reported.as_deref() {
            Some(reported) if reported.is_confirmed() => ("confirmed", None),
            Some(reported) if !reported.is_waiting() => ("injected", None),
            None if !reports => ("delivered", None),
            _ => ("waiting", Some("agent")),
        }
    }

    /// Sets the state of a delivery that is no longer in flight. The recipient's report no longer
    /// counts.
    pub(super) fn take_back(&mut self, state: State) {
        self.state = state;
        self.reported = None;
    }
}

/// The state of an at-least-once message in its recipient's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::router) enum State {
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

/// The facts about a recipient that its DELIVERs state.
#[derive(Clone, Copy, Debug)]
pub(in crate::router) struct Recipient<'r> {
    pub(in crate::router) name: &'r str,
    /// The id of the recipient's session.
    pub(in crate::router) session: &'r str,
}

/// Returns the frame of an at-least-once message's next DELIVER.
pub(in crate::router) fn deliver_frame(
    ctx: &Context,
    mut head: Vec<u8>,
    message: &Message,
    reliable: &Reliable,
    to: Recipient<'_>,
    requires_ack: bool,
) -> Frame {
    let Reliable { id, shared, auth, .. } = reliable;
    let delivery = Delivery {
        seq: message.seq,
        session_id: to.session.into(),
        original_to: reliable.to_everyone.then(|| EVERYONE.into()),
        attempt: ctx.planted.attempt(reliable.attempts),
        requires_ack,
        sender: Some(Sender { session: (&*auth.session).into(), auth: auth.proof }),
    };
    let mut text = Uuid::encode_buffer();
    let id = id.hyphenated().encode_lower(&mut text);
    Head { id, ts: ctx.now.unix_ms, to: to.name, delivery }.append(&mut head, shared.len());
    Frame { head, shared: Some(shared.clone()) }
}
