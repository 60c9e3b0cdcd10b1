//! Messages on their way to the stream.
//!
//! A *lane* is everything for one agent of one host. One publish of a lane is in flight at a time:
//! a publish whose outcome is unknown is repeated before anything else of its lane, so the lane's
//! order is that of the stream. NATS recognizes the repetition by its `Nats-Msg-Id`; beyond the
//! stream's window, the receiving daemon recognizes each frame.

use crate::{
    batch,
    subject::{self, Token},
};
use agent_relay::protocol::name::Host;
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write,
    sync::Arc,
    time::{Duration, Instant},
};

/// The bytes that wait for the stream at most; further frames are refused.
///
/// The daemon's windows bound what waits at least once, so only a flood reaches this.
pub const BYTES_MAX: usize = 256 * 1024 * 1024;

/// The room that headers take of NATS's `max_payload`.
pub const HEADER_ROOM: usize = 512;

/// The pause before a publish is repeated, at first. It doubles with each repetition.
pub const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause before a publish is repeated.
pub const PAUSE_MAX: Duration = Duration::from_secs(2);

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
    /// The id by which the outcome is reported.
    pub id: String,
    /// The frame.
    pub frame: Vec<u8>,
}

/// A message for the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The subject.
    pub subject: String,
    /// The `Nats-Msg-Id`.
    pub id: String,
    /// The batch.
    pub batch: bytes::Bytes,
}

/// The outcome of a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// The stream has the message.
    Stored,
    /// The stream refuses the message for good, for this reason.
    Refused(Refusal),
    /// The stream may or may not have the message.
    Unknown,
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
}

/// What an [`Outbox`] is notified of.
#[derive(Debug)]
pub enum Input {
    /// A frame is to be carried.
    Carry(Lane, Carry),
    /// A publish has ended.
    Published(Lane, Published),
    /// NATS accepts messages of at most so many bytes.
    Limit(Limit),
    /// The deadline has passed.
    Tick,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Publish a message, and report the outcome.
    Publish(Lane, Arc<Publish>),
    /// The stream has the frame of this host and id.
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

#[derive(Debug)]
struct Queue {
    frames: VecDeque<Carry>,
    in_flight: Option<InFlight>,
}

#[derive(Debug)]
struct InFlight {
    publish: Arc<Publish>,
    /// The ids of its frames, with their hosts.
    frames: Vec<(Host, String)>,
    bytes: usize,
    pause: Duration,
    /// The time of the repetition, after an unknown outcome.
    repeat_at: Option<Instant>,
}

/// The messages on their way to the stream. The module describes it.
#[derive(Debug)]
pub struct Outbox {
    here: Token,
    limit: Limit,
    queues: BTreeMap<Lane, Queue>,
    bytes: usize,
}

impl Outbox {
    /// An empty outbox of the host `here`.
    #[must_use]
    pub fn new(here: Token, limit: Limit) -> Self {
        Self { here, limit, queues: BTreeMap::new(), bytes: 0 }
    }

    /// The time of the next [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.queues.values().filter_map(|queue| queue.in_flight.as_ref()?.repeat_at).min()
    }

    /// The bytes that wait for the stream.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Handles an input at a time.
    pub fn handle(&mut self, now: Instant, input: Input, outputs: &mut Vec<Output>) {
        match input {
            Input::Carry(lane, carry) => self.carry(lane, carry, outputs),
            Input::Published(lane, published) => self.published(now, lane, published, outputs),
            Input::Limit(limit) => self.limit = limit,
            Input::Tick => self.repeat(now, outputs),
        }
    }

    fn carry(&mut self, lane: Lane, carry: Carry, outputs: &mut Vec<Output>) {
        let size = batch::size_of(&carry.frame);
        if let Some(refusal) = self.refusal(&lane, &carry, size) {
            outputs.push(Output::Refused { host: carry.host, id: carry.id, refusal });
            return;
        }
        self.bytes += size;
        let queue = self
            .queues
            .entry(lane.clone())
            .or_insert_with(|| Queue { frames: VecDeque::new(), in_flight: None });
        queue.frames.push_back(carry);
        self.publish_next(lane, outputs);
    }

    fn refusal(&self, lane: &Lane, carry: &Carry, size: usize) -> Option<Refusal> {
        let room = self.room();
        if size > room {
            let Limit { name, bytes } = &self.limit;
            let message = format!(
                "the message has {} bytes, and NATS carries at most {room} to {}: its {name} is \
                 {bytes}; shorten the message, or raise {name}",
                carry.frame.len(),
                carry.host
            );
            return Some(Refusal { kind: RefusalKind::TooLarge, message });
        }
        // A lane that has nothing is never refused, or a full bridge could block it for long.
        if self.bytes + size > BYTES_MAX && self.queues.contains_key(lane) {
            let message = format!(
                "{} bytes wait for NATS already, of at most {BYTES_MAX}; send it again later",
                self.bytes
            );
            return Some(Refusal { kind: RefusalKind::Full, message });
        }
        None
    }

    fn room(&self) -> usize {
        self.limit.bytes.saturating_sub(HEADER_ROOM)
    }

    /// Publishes the next batch of a lane, unless one is in flight.
    fn publish_next(&mut self, lane: Lane, outputs: &mut Vec<Output>) {
        let wanted = batch::BYTES_WANTED.min(self.room());
        let Some(queue) = self.queues.get_mut(&lane) else {
            return;
        };
        if queue.in_flight.is_some() {
            return;
        }
        let (mut batch, mut frames, mut ids) = (Vec::new(), Vec::new(), Sha256::new());
        while let Some(next) = queue.frames.pop_front_if(|next| {
            frames.is_empty()
                || frames.len() < batch::FRAMES_MAX
                    && batch.len() + batch::size_of(&next.frame) <= wanted
        }) {
            batch::append(&mut batch, &next.frame);
            ids.update(next.id.as_bytes());
            ids.update([0]);
            frames.push((next.host, next.id));
        }
        if frames.is_empty() {
            self.queues.remove(&lane);
            return;
        }
        let publish = Arc::new(Publish {
            subject: subject::messages(&lane.host, &self.here, &lane.agent),
            id: message_id(&self.here, &lane, &ids.finalize()),
            batch: batch.into(),
        });
        let bytes = publish.batch.len();
        queue.in_flight = Some(InFlight {
            publish: Arc::clone(&publish),
            frames,
            bytes,
            pause: PAUSE,
            repeat_at: None,
        });
        outputs.push(Output::Publish(lane, publish));
    }

    fn published(
        &mut self,
        now: Instant,
        lane: Lane,
        published: Published,
        outputs: &mut Vec<Output>,
    ) {
        let Some(queue) = self.queues.get_mut(&lane) else {
            return;
        };
        let Some(in_flight) = queue.in_flight.as_mut() else {
            return;
        };
        let refusal = match published {
            Published::Unknown => {
                in_flight.repeat_at = Some(now + in_flight.pause);
                in_flight.pause = (in_flight.pause * 2).min(PAUSE_MAX);
                return;
            }
            Published::Stored => None,
            Published::Refused(refusal) => Some(refusal),
        };
        self.bytes -= in_flight.bytes;
        outputs.extend(in_flight.frames.drain(..).map(|(host, id)| match refusal.clone() {
            None => Output::Carried { host, id },
            Some(refusal) => Output::Refused { host, id, refusal },
        }));
        queue.in_flight = None;
        self.publish_next(lane, outputs);
    }

    fn repeat(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        for (lane, queue) in &mut self.queues {
            if let Some(in_flight) = &mut queue.in_flight
                && in_flight.repeat_at.is_some_and(|at| at <= now)
            {
                in_flight.repeat_at = None;
                outputs.push(Output::Publish(lane.clone(), Arc::clone(&in_flight.publish)));
            }
        }
    }
}

/// A `Nats-Msg-Id` of a batch: the same for the same frames of the same lane.
///
/// It has all of the ids, or a batch with more frames would be taken for one with fewer.
fn message_id(here: &Token, lane: &Lane, ids: &[u8]) -> String {
    let mut id = format!("{here}.{}.{}.", lane.host, lane.agent);
    for byte in &ids[..16] {
        write!(id, "{byte:02x}").expect("a String accepts everything");
    }
    id
}

#[cfg(test)]
mod tests;
