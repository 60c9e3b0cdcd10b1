//! Outgoing messages: kept in order until the daemon has accepted them, and retransmitted after
//! BUSY.

use super::{
    backoff::{BACKOFF_MS_MAX, doubled},
    rng::SessionRng,
    step::Output,
};
use crate::message::{Event, Forwarded, Outgoing, SendId};
use protocol::{
    Moment, Now,
    envelope::{Header, Kind},
    frame::{FRAME_BYTES_MAX, PREFIX},
    name::EVERYONE,
    payload::{Ack, Busy, MessagePayload, Nack},
};
use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

/// The most at-most-once messages that are kept after they were sent, in case BUSY answers one, and
/// the most bytes of these messages.
const RECENT_MESSAGES: usize = 256;
const RECENT_BYTES: usize = 4 * 1024 * 1024;

/// The messages that the daemon has not accepted yet.
///
/// The order is kept for each recipient: while a message waits for a busy recipient, all later
/// messages wait that might reach the same recipient. Only messages that were in flight when BUSY
/// came can overtake the waiting message.
#[derive(Debug)]
pub(super) struct Outbox {
    /// The longest frame of the connection, if there is one.
    frame_bytes_max: Option<usize>,
    /// The next message's position in the order.
    next: u64,
    /// Messages to be sent, in order.
    queued: VecDeque<Message>,
    /// At-least-once messages that were sent and not answered.
    in_flight: HashMap<String, Message>,
    /// The number of messages in flight that were retransmitted after BUSY.
    retried: usize,
    /// The at-most-once messages that were sent last.
    recent: VecDeque<Message>,
    recent_bytes: usize,
}

#[derive(Debug)]
struct Message {
    order: u64,
    id: SendId,
    target: Target,
    at_least_once: bool,
    frame: Vec<u8>,
    /// The weight to release once the message is removed; 0 afterwards.
    weight: usize,
    /// The number of BUSY frames that answered the message.
    busy: u32,
    /// The moment before which the message must not be sent again.
    retry_at: Option<Moment>,
}

impl Message {
    fn blocks(&self, later: &Self) -> bool {
        self.target.blocks(&later.target)
    }
}

/// The agents that may get a message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// A single agent, its name in lower case.
    One(String),
    /// Several agents that are not known here: everyone, or a topic's subscribers.
    Several,
    /// The recipients whose queue was full, in lower case. The other recipients have the message.
    Rest(Vec<String>),
}

impl Target {
    fn of(outgoing: &Outgoing) -> Self {
        match outgoing.to.as_deref() {
            Some(to) if to != EVERYONE => Self::One(to.to_ascii_lowercase()),
            _ => Self::Several,
        }
    }

    /// Whether a message for `later` must wait for a message for this target, since it might
    /// overtake that message at a recipient.
    fn blocks(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::One(name), Self::One(other)) => name == other,
            (Self::Rest(names), Self::One(other)) => names.contains(other),
            _ => true,
        }
    }
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self {
            frame_bytes_max: None,
            next: 0,
            queued: VecDeque::new(),
            in_flight: HashMap::new(),
            retried: 0,
            recent: VecDeque::new(),
            recent_bytes: 0,
        }
    }

    /// Handles a new connection: sends everything queued.
    pub(super) fn connected(&mut self, now: Now, frame_bytes_max: usize, out: &mut Vec<Output>) {
        self.frame_bytes_max = Some(frame_bytes_max);
        for message in &mut self.queued {
            message.retry_at = None;
        }
        self.flush(now, out);
    }

    /// Handles the loss of the connection: unanswered messages are queued again with their ids. An
    /// at-most-once message that only some recipients have is refused, since the daemon may have
    /// restarted and forgotten which recipients have it.
    pub(super) fn disconnected(&mut self, out: &mut Vec<Output>) {
        self.frame_bytes_max = None;
        self.retried = 0;
        self.recent.clear();
        self.recent_bytes = 0;
        let mut all: Vec<_> = self.in_flight.drain().map(|(_, message)| message).collect();
        all.extend(self.queued.drain(..));
        all.sort_by_key(|message| message.order);
        for message in all {
            if message.at_least_once || !matches!(message.target, Target::Rest(_)) {
                self.queued.push_back(message);
            } else {
                out.push(Self::no_room(message.id.0));
            }
        }
    }

    /// Adds a message, and sends it if nothing blocks it.
    pub(super) fn add(
        &mut self,
        now: Now,
        id: SendId,
        outgoing: &Outgoing,
        weight: usize,
        out: &mut Vec<Output>,
    ) {
        let at_least_once = outgoing.meta.requires_ack || outgoing.meta.sync.is_some();
        let (target, frame) = (Target::of(outgoing), encode(now, &id, outgoing));
        self.add_frame(id, target, at_least_once, frame, weight, out);
    }

    /// Adds a message of another machine's agent, and sends it if nothing blocks it.
    pub(super) fn add_forwarded(
        &mut self,
        now: Now,
        message: Forwarded,
        weight: usize,
        out: &mut Vec<Output>,
    ) {
        let target = Target::One(message.to.to_ascii_lowercase());
        let frame = encode_forwarded(now, &message);
        self.add_frame(message.id, target, message.at_least_once, frame, weight, out);
    }

    fn add_frame(
        &mut self,
        id: SendId,
        target: Target,
        at_least_once: bool,
        frame: Vec<u8>,
        weight: usize,
        out: &mut Vec<Output>,
    ) {
        let order = self.next;
        let (busy, retry_at) = (0, None);
        let message = Message { order, id, target, at_least_once, frame, weight, busy, retry_at };
        self.next += 1;
        let blocked =
            self.queued.iter().chain(self.retried()).any(|earlier| earlier.blocks(&message));
        if self.frame_bytes_max.is_none() || blocked {
            self.queued.push_back(message);
        } else {
            self.send(message, out);
        }
    }

    /// Handles the ACK of the daemon that accepted a message.
    pub(super) fn accepted(&mut self, now: Now, ack: &Ack<'_>, out: &mut Vec<Output>) {
        if self.remove(&ack.ack_id, out) {
            let send_id = SendId(ack.ack_id.clone().into_owned());
            let Ack { recipients, away, .. } = *ack;
            out.push(Output::Event(Event::Accepted { send_id, recipients, away }));
            self.flush(now, out);
        }
    }

    /// Handles a NACK from the daemon or a recipient. A NACK about a message that the daemon
    /// accepted before is only passed on to the application.
    pub(super) fn refused(&mut self, now: Now, nack: Nack, out: &mut Vec<Output>) {
        // After one recipient's NACK, the others may still get the message; the SEND's own answer
        // follows.
        if nack.to.is_none() || matches!(self.target(&nack.ack_id), Some(Target::One(_))) {
            self.remove(&nack.ack_id, out);
        }
        out.push(Output::refused(nack));
        self.flush(now, out);
    }

    /// Handles BUSY: the message is sent again later.
    pub(super) fn busy(
        &mut self,
        now: Now,
        busy: Busy,
        rng: &mut SessionRng,
        out: &mut Vec<Output>,
    ) {
        let Some(mut message) = self.take_sent(&busy.ack_id) else {
            return out.push(Self::no_room(busy.ack_id));
        };
        if !busy.busy.is_empty() && !matches!(message.target, Target::One(_)) {
            message.target =
                Target::Rest(busy.busy.iter().map(|name| name.to_ascii_lowercase()).collect());
        }
        let first = busy.retry_after_ms.clamp(1, BACKOFF_MS_MAX);
        let wait_ms = rng.jitter(doubled(first, message.busy, BACKOFF_MS_MAX));
        message.busy += 1;
        message.retry_at = Some(now.monotonic.plus(wait_ms));
        out.push(Output::Event(Event::Busy { send_id: message.id.clone(), wait_ms }));
        let index = self.queued.partition_point(|other| other.order < message.order);
        self.queued.insert(index, message);
    }

    /// The refusal of a message that was answered with BUSY and is not retransmitted.
    fn no_room(ack_id: String) -> Output {
        Output::refused(Nack {
            ack_id,
            code: Kind::Busy.to_string(),
            message: "the recipient had no room for it".to_owned(),
            ..Nack::default()
        })
    }

    /// Sends the queued messages that nothing blocks any more.
    pub(super) fn flush(&mut self, now: Now, out: &mut Vec<Output>) {
        if self.frame_bytes_max.is_none() || self.queued.is_empty() {
            return;
        }
        let mut blocked: Vec<_> = self.retried().map(|message| message.target.clone()).collect();
        for mut message in std::mem::take(&mut self.queued) {
            message.retry_at = message.retry_at.filter(|at| *at > now.monotonic);
            let is_blocked = message.retry_at.is_some()
                || blocked.iter().any(|earlier| earlier.blocks(&message.target));
            if !is_blocked {
                if message.busy > 0 && message.at_least_once {
                    blocked.push(message.target.clone());
                }
                self.send(message, out);
                continue;
            }
            if !blocked.contains(&message.target) {
                blocked.push(message.target.clone());
            }
            self.queued.push_back(message);
        }
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        self.frame_bytes_max?;
        self.queued.iter().filter_map(|message| message.retry_at).min()
    }

    /// The messages in flight that were retransmitted after BUSY. Until the daemon answers such a
    /// message, later messages to the same recipients wait.
    fn retried(&self) -> impl Iterator<Item = &Message> {
        self.in_flight.values().filter(|message| message.busy > 0).take(self.retried)
    }

    fn send(&mut self, mut message: Message, out: &mut Vec<Output>) {
        let frame_bytes_max = self.frame_bytes_max.unwrap_or(FRAME_BYTES_MAX);
        let bytes = message.frame.len() - PREFIX;
        if bytes > frame_bytes_max {
            out.push(Output::Released(message.weight));
            return out.push(Output::too_large(message.id.0, "message", bytes, frame_bytes_max));
        }
        out.push(Output::Frame(message.frame.clone()));
        if message.at_least_once {
            self.retried += usize::from(message.busy > 0);
            self.in_flight.insert(message.id.0.clone(), message);
            return;
        }
        if message.weight > 0 {
            out.push(Output::Released(std::mem::take(&mut message.weight)));
        }
        self.recent_bytes += message.frame.len();
        self.recent.push_back(message);
        while self.recent.len() > RECENT_MESSAGES || self.recent_bytes > RECENT_BYTES {
            let oldest = self.recent.pop_front().expect("the limits are above zero");
            self.recent_bytes -= oldest.frame.len();
        }
    }

    /// Whether the daemon may still answer about a message.
    pub(super) fn has(&self, id: &str) -> bool {
        self.in_flight.contains_key(id) || self.recent.iter().any(|message| message.id.0 == id)
    }

    fn target(&self, id: &str) -> Option<&Target> {
        self.in_flight.get(id).map(|message| &message.target)
    }

    /// Removes a message that was sent.
    fn take_sent(&mut self, id: &str) -> Option<Message> {
        if let Some(message) = self.in_flight.remove(id) {
            self.retried -= usize::from(message.busy > 0);
            return Some(message);
        }
        let index = self.recent.iter().position(|message| message.id.0 == id)?;
        let message = self.recent.remove(index)?;
        self.recent_bytes -= message.frame.len();
        Some(message)
    }

    /// Removes a message and releases its weight. Returns false if there is no message with this
    /// id.
    fn remove(&mut self, id: &str, out: &mut Vec<Output>) -> bool {
        let message = self.take_sent(id).or_else(|| {
            let index = self.queued.iter().position(|message| message.id.0 == id)?;
            self.queued.remove(index)
        });
        if let Some(weight) =
            message.as_ref().map(|message| message.weight).filter(|weight| *weight > 0)
        {
            out.push(Output::Released(weight));
        }
        message.is_some()
    }
}

fn encode(now: Now, id: &SendId, outgoing: &Outgoing) -> Vec<u8> {
    let kind = if outgoing.kind.is_empty() { "message" } else { &outgoing.kind };
    let spoken = MessagePayload {
        kind: Cow::Borrowed(kind),
        body: Cow::Borrowed(&outgoing.body),
        data: outgoing.data.as_deref(),
        thread: outgoing.thread.clone(),
    };
    let payload = serde_json::to_string(&spoken).expect("wire types are JSON");
    let meta = serde_json::to_string(&outgoing.meta).expect("wire types are JSON");
    let header = Header {
        to: outgoing.to.as_deref(),
        topic: outgoing.topic.as_deref(),
        ..Header::new(Kind::Send, &id.0, now.unix_ms)
    };
    let meta = (!outgoing.meta.is_empty()).then_some(meta.as_str());
    send_frame(&header, &payload, meta)
}

fn encode_forwarded(now: Now, message: &Forwarded) -> Vec<u8> {
    let header = Header {
        to: Some(&message.to),
        topic: message.topic.as_deref(),
        ..Header::new(Kind::Send, &message.id.0, now.unix_ms)
    };
    send_frame(&header, &message.payload, message.meta.as_deref())
}

fn send_frame(header: &Header<'_>, payload: &str, meta: Option<&str>) -> Vec<u8> {
    let meta = meta.map(|meta| ("payload_meta", meta));
    let mut frame = Vec::new();
    header.append_raw(&mut frame, [("payload", payload)].into_iter().chain(meta));
    frame
}
