//! Streams: the messages of one agent to another on one topic, numbered from 1.

use super::outbox::Turn;
use crate::{
    capacity::shrink,
    hash::{HashKey, KeyedMap},
    interface::PeerProcess,
    keys::{AgentKey, MessageKey, StreamKey, StreamSlot, count_step},
};
use protocol::Moment;
use slotmap::SlotMap;
use std::{
    borrow::Borrow,
    collections::{BTreeMap, VecDeque},
    hash::{Hash, Hasher},
    ops::{Index, IndexMut},
    sync::Arc,
};

/// The most closed streams whose last numbers are remembered. Beyond it these numbers are cleared,
/// and every stream that is opened later counts as one that was closed before.
const CLOSED_MAX: usize = 1 << 16;

/// An open stream of messages.
#[derive(Debug)]
pub(crate) struct Stream {
    identity: Identity,
    from: AgentKey,
    /// The process that sent all messages of the stream that have not ended; `None` if there are
    /// several, or an earlier daemon got any of them.
    sender_process: Option<PeerProcess>,
    /// The stream's own number in records.
    pub(crate) number: u64,
    /// Whether the store has a record of the stream.
    pub(crate) is_recorded: bool,
    /// The order of the stream's last message, by which the longest idle stream is found.
    pub(super) last_order: u64,
    /// The last assigned sequence number, or the last one that an earlier daemon may have assigned.
    /// Never decreases.
    last_seq: u64,
    /// The last sequence number that is known to be assigned.
    last_given: u64,
    /// The last sequence number whose message was delivered and cannot be replayed.
    pub(super) gone: u64,
    /// The last sequence number that is reserved: messages up to it may go out.
    pub(crate) reserved: u64,
    /// The last sequence number that is being reserved.
    pub(crate) reserving: u64,
    /// Messages that wait, by sequence number.
    pub(crate) waiting: VecDeque<(u64, MessageKey)>,
    /// Messages that were handed out and are not acknowledged, by sequence number.
    pub(crate) in_flight: BTreeMap<u64, MessageKey>,
    /// The stream's turn in its recipient's outbox.
    pub(crate) turn: Option<Turn>,
    /// Whether the stream counts as one with messages in flight to its recipient.
    pub(super) is_in_flight: bool,
    /// Whether the sender is forgotten, so that the stream ends with its last message.
    pub(crate) is_orphan: bool,
}

impl Stream {
    pub(crate) const fn to(&self) -> AgentKey {
        self.identity.to
    }

    pub(crate) const fn from(&self) -> AgentKey {
        self.from
    }

    pub(crate) const fn sender_process(&self) -> Option<PeerProcess> {
        self.sender_process
    }

    /// Notes which process sends the next message.
    pub(super) fn note_sender(&mut self, process: Option<PeerProcess>) {
        let is_only = self.is_empty() || self.sender_process == process;
        self.sender_process = process.filter(|_| is_only);
    }

    /// Notes that nobody knows which process sent the next message.
    pub(super) const fn forget_sender_process(&mut self) {
        self.sender_process = None;
    }

    /// Returns the sender's number in records.
    pub(crate) const fn sender_number(&self) -> u64 {
        self.identity.from
    }

    pub(crate) const fn topic(&self) -> Option<&Arc<str>> {
        self.identity.topic.as_ref()
    }

    pub(super) const fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub(super) const fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_given = self.last_seq;
        self.last_seq
    }

    /// Returns the last sequence number that is known to be assigned. A number that the recipient
    /// has received proves to be assigned, if it is not above `last_seq`.
    pub(crate) fn last_known(&self, received: u64) -> u64 {
        self.last_given.max(received.min(self.last_seq))
    }

    /// Estimates, after a restart, which messages cannot be replayed: all before the gapless run of
    /// waiting messages at the end. A recipient that has received less than these has missed
    /// something.
    pub(super) fn guess_gone(&mut self) {
        self.last_given = self.waiting.back().map_or(0, |(seq, _)| *seq);
        self.gone = self.last_given;
        for (seq, _) in self.waiting.iter().rev() {
            if *seq != self.gone {
                break;
            }
            self.gone -= 1;
        }
    }

    pub(super) fn is_waiting(&self, seq: u64) -> bool {
        self.waiting.binary_search_by_key(&seq, |(other, _)| *other).is_ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Inserts a message among those that wait, by its sequence number.
    pub(super) fn wait(&mut self, seq: u64, message: MessageKey) {
        match self.waiting.back() {
            Some((last, _)) if *last > seq => {
                let index = self.waiting.partition_point(|(other, _)| *other < seq);
                self.waiting.insert(index, (seq, message));
            }
            _ => self.waiting.push_back((seq, message)),
        }
    }

    /// Removes a message that waits or is in flight.
    pub(super) fn forget(&mut self, seq: u64) {
        if self.in_flight.remove(&seq).is_none() {
            self.forget_waiting(seq);
        }
    }

    /// Removes a message from those that wait.
    pub(super) fn forget_waiting(&mut self, seq: u64) {
        if let Ok(index) = self.waiting.binary_search_by_key(&seq, |(other, _)| *other) {
            self.waiting.remove(index);
            shrink(&mut self.waiting);
        }
    }

    /// Moves the messages in flight after this sequence number back to those that wait. Returns
    /// them in order.
    pub(super) fn take_back(&mut self, after: u64) -> Vec<MessageKey> {
        let Some(first) = after.checked_add(1) else { return Vec::new() };
        let taken_back = self.in_flight.split_off(&first);
        for (seq, message) in taken_back.iter().rev() {
            self.wait(*seq, *message);
        }
        taken_back.into_values().collect()
    }
}

/// A stream's sender, recipient and topic. No two open streams have the same identity. The sender
/// is given by its number in records, which it has even after its name was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    from: u64,
    to: AgentKey,
    topic: Option<Arc<str>>,
}

/// The borrowed parts of an identity.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Parts<'a> {
    from: u64,
    to: AgentKey,
    topic: Option<&'a str>,
}

/// An identity or its borrowed parts, so that a look-up needs no owned topic.
trait Identified {
    fn parts(&self) -> Parts<'_>;
}

impl Identified for Identity {
    fn parts(&self) -> Parts<'_> {
        Parts { from: self.from, to: self.to, topic: self.topic.as_deref() }
    }
}

impl Identified for Parts<'_> {
    fn parts(&self) -> Parts<'_> {
        *self
    }
}

impl Hash for dyn Identified + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Parts { from, to, topic } = self.parts();
        from.hash(state);
        to.hash(state);
        if let Some(topic) = topic {
            state.write(topic.as_bytes());
        }
    }
}

impl PartialEq for dyn Identified + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Identified + '_ {}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self as &dyn Identified).hash(state);
    }
}

impl<'a> Borrow<dyn Identified + 'a> for Identity {
    fn borrow(&self) -> &(dyn Identified + 'a) {
        self
    }
}

/// All open streams.
#[derive(Debug)]
pub(super) struct Streams {
    streams: SlotMap<StreamSlot, Stream>,
    keys: KeyedMap<Identity, StreamKey>,
    /// The last sequence numbers of idle streams that were closed and are not open again.
    closed: KeyedMap<Identity, u64>,
    /// Whether some of these numbers were forgotten.
    is_cut: bool,
    /// The moments until which searches for idle streams by forgotten senders are put off.
    pub(super) search_after: [Moment; 2],
}

impl Streams {
    pub(super) fn new(hash_key: HashKey) -> Self {
        Self {
            streams: SlotMap::default(),
            keys: KeyedMap::with_hasher(hash_key),
            closed: KeyedMap::with_hasher(hash_key),
            is_cut: false,
            search_after: [Moment(0); 2],
        }
    }

    /// Returns the open stream from the agent with the number `from`.
    pub(super) fn find(&self, from: u64, to: AgentKey, topic: Option<&str>) -> Option<StreamKey> {
        self.keys.get(&Parts { from, to, topic } as &dyn Identified).copied()
    }

    /// Opens a stream. Sequence numbers continue after `last_seq`; numbers up to `reserved` may be
    /// used.
    pub(super) fn open(
        &mut self,
        (from, from_number): (AgentKey, u64),
        to: AgentKey,
        topic: Option<&str>,
        (last_seq, reserved): (u64, u64),
    ) -> StreamKey {
        let identity = Identity { from: from_number, to, topic: topic.map(Arc::from) };
        let closed = self.closed.remove(&identity as &dyn Identified);
        let gone = closed.unwrap_or(if self.is_cut { last_seq } else { 0 });
        let stream = StreamKey(self.streams.insert(Stream {
            identity: identity.clone(),
            from,
            sender_process: None,
            number: 0,
            is_recorded: false,
            last_order: 0,
            last_seq,
            last_given: 0,
            gone,
            reserved,
            reserving: reserved,
            waiting: VecDeque::new(),
            in_flight: BTreeMap::new(),
            turn: None,
            is_in_flight: false,
            is_orphan: false,
        }));
        self.keys.insert(identity, stream);
        stream
    }

    /// Remembers the last sequence number of an idle stream that is being closed: none of its
    /// messages can be replayed.
    pub(super) fn note_closed(&mut self, stream: StreamKey) {
        if self.closed.len() >= CLOSED_MAX {
            self.closed.clear();
            self.is_cut = true;
        }
        let stream = &self[stream];
        self.closed.insert(stream.identity.clone(), stream.last_seq);
    }

    /// Returns the last sequence number of an idle stream that was closed and is not open again; 0
    /// if none is known.
    pub(super) fn closed_at(&self, from: u64, to: AgentKey, topic: Option<&str>) -> u64 {
        self.closed.get(&Parts { from, to, topic } as &dyn Identified).copied().unwrap_or(0)
    }

    pub(super) fn close(&mut self, stream: StreamKey) -> Option<Stream> {
        let stream = self.streams.remove(stream.0)?;
        self.keys.remove(&stream.identity);
        Some(stream)
    }

    /// Returns all streams, the oldest first.
    pub(super) fn keys(&self) -> Vec<StreamKey> {
        let mut keys: Vec<_> = self.keys.values().copied().collect();
        keys.sort_unstable_by_key(|key| self[*key].number);
        keys
    }

    /// Returns all streams, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (StreamKey, &Stream)> {
        self.keys.values().map(|key| (*key, &self[*key]))
    }

    pub(super) fn get(&self, stream: StreamKey) -> Option<&Stream> {
        count_step();
        self.streams.get(stream.0)
    }

    pub(super) fn get_mut(&mut self, stream: StreamKey) -> Option<&mut Stream> {
        self.streams.get_mut(stream.0)
    }

    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }
}

impl Index<StreamKey> for Streams {
    type Output = Stream;

    fn index(&self, stream: StreamKey) -> &Stream {
        count_step();
        &self.streams[stream.0]
    }
}

impl IndexMut<StreamKey> for Streams {
    fn index_mut(&mut self, stream: StreamKey) -> &mut Stream {
        count_step();
        &mut self.streams[stream.0]
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Streams {
        pub(crate) fn all(&self) -> impl Iterator<Item = &Stream> {
            self.streams.values()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{AgentSlot, MessageSlot};
    use slotmap::Key as _;

    #[test]
    fn stream_that_was_long_keeps_no_capacity() {
        let mut streams = Streams::new(HashKey::new([0; 32]));
        let (agent, message) = (AgentKey(AgentSlot::null()), MessageKey(MessageSlot::null()));
        let key = streams.open((agent, 1), agent, None, (0, 0));
        let stream = &mut streams[key];
        (0..4_000).for_each(|seq| stream.wait(seq, message));
        (1..4_000).for_each(|seq| stream.forget(seq));
        assert!(stream.is_waiting(0) && stream.waiting.capacity() <= 32);
    }
}
