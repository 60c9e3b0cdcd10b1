//! Streams: what one agent says to one other on one topic, numbered from 1.

use super::{AgentKey, MessageKey, StreamKey, hash::FastMap, outbox::Turn, slots::Slots};
use crate::protocol::Moment;
use std::{
    borrow::Borrow,
    collections::{BTreeMap, VecDeque},
    hash::{Hash, Hasher},
    ops::{Index, IndexMut},
    sync::Arc,
};

/// So many that made room for others are remembered. Beyond, RESUME takes each for one that was closed.
const CLOSED_MAX: usize = 1 << 16;

/// One of them.
#[derive(Debug)]
pub(super) struct Stream {
    identity: Identity,
    /// The stream's own number and its sender's, in records.
    pub(super) number: u64,
    pub(super) from_number: u64,
    /// The store knows of it.
    pub(super) is_recorded: bool,
    /// Of its last message: which stream was silent longest.
    pub(super) last_order: u64,
    /// The last number given, or that an earlier daemon may have given; never goes back.
    last_seq: u64,
    /// The last one that is known to be given.
    spoken: u64,
    /// The last one that was delivered and can't come again.
    pub(super) gone: u64,
    /// Numbers that may go out, and that are being reserved for that.
    pub(super) reserved: u64,
    pub(super) asked: u64,
    /// What waits to go out, in the order of its numbers.
    pub(super) waiting: VecDeque<(u64, MessageKey)>,
    /// What is on the way and not acknowledged.
    pub(super) on_way: BTreeMap<u64, MessageKey>,
    /// What the recipient's outbox knows of it.
    pub(super) turn: Option<Turn>,
    /// Its sender or its recipient is forgotten: it ends with its last message.
    pub(super) is_orphan: bool,
}

impl Stream {
    pub(super) const fn to(&self) -> AgentKey {
        self.identity.to
    }

    pub(super) const fn from(&self) -> AgentKey {
        self.identity.from
    }

    pub(super) const fn topic(&self) -> Option<&Arc<str>> {
        self.identity.topic.as_ref()
    }

    pub(super) const fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub(super) const fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.spoken = self.last_seq;
        self.last_seq
    }

    /// The last number given, as far as that is known, for somebody who has heard this one.
    pub(super) fn last_known(&self, heard: u64) -> u64 {
        self.spoken.max(heard.min(self.last_seq))
    }

    /// An earlier daemon ended. Nobody knows what was delivered then, but what waits, and all that it
    /// follows without a gap, is not: whoever has heard less has missed something.
    pub(super) fn guess_gone(&mut self) {
        self.spoken = self.waiting.back().map_or(0, |(seq, _)| *seq);
        self.gone = self.spoken;
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

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.on_way.is_empty()
    }

    /// Puts a message among those that wait, where its number belongs.
    pub(super) fn wait(&mut self, seq: u64, message: MessageKey) {
        match self.waiting.back() {
            Some((last, _)) if *last > seq => {
                let place = self.waiting.partition_point(|(other, _)| *other < seq);
                self.waiting.insert(place, (seq, message));
            }
            _ => self.waiting.push_back((seq, message)),
        }
    }

    /// A message is over.
    pub(super) fn forget(&mut self, seq: u64) {
        if self.on_way.remove(&seq).is_none() {
            self.forget_waiting(seq);
        }
    }

    /// A message waits no longer.
    pub(super) fn forget_waiting(&mut self, seq: u64) {
        if let Ok(place) = self.waiting.binary_search_by_key(&seq, |(other, _)| *other) {
            self.waiting.remove(place);
        }
    }

    /// What was on the way beyond this number waits again, in order. Gives it back.
    pub(super) fn take_back(&mut self, after: u64) -> Vec<MessageKey> {
        let Some(first) = after.checked_add(1) else { return Vec::new() };
        let taken = self.on_way.split_off(&first);
        for (seq, message) in taken.iter().rev() {
            self.wait(*seq, *message);
        }
        taken.into_values().collect()
    }
}

/// What tells streams apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    from: AgentKey,
    to: AgentKey,
    topic: Option<Arc<str>>,
}

/// An identity that is looked up without owning its topic.
trait Identified {
    fn parts(&self) -> (AgentKey, AgentKey, Option<&str>);
}

impl Identified for Identity {
    fn parts(&self) -> (AgentKey, AgentKey, Option<&str>) {
        (self.from, self.to, self.topic.as_deref())
    }
}

impl Identified for (AgentKey, AgentKey, Option<&str>) {
    fn parts(&self) -> (AgentKey, AgentKey, Option<&str>) {
        *self
    }
}

impl Hash for dyn Identified + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (from, to, topic) = self.parts();
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

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Streams {
    slots: Slots<Stream>,
    keys: FastMap<Identity, StreamKey>,
    /// Of those that made room for others and are not open again: their last number.
    closed: FastMap<Identity, u64>,
    /// Of some that number is not known any more.
    is_cut: bool,
    /// Until then nobody looks for those that may be closed.
    pub(super) rest_until: Moment,
}

impl Streams {
    pub(super) fn find(
        &self,
        from: AgentKey,
        to: AgentKey,
        topic: Option<&str>,
    ) -> Option<StreamKey> {
        self.keys.get(&(from, to, topic) as &dyn Identified).copied()
    }

    /// Opens one whose numbers go on after `last_seq`, and of which these are reserved.
    pub(super) fn open(
        &mut self,
        (from, from_number): (AgentKey, u64),
        to: AgentKey,
        topic: Option<&str>,
        (last_seq, reserved): (u64, u64),
    ) -> StreamKey {
        let identity = Identity { from, to, topic: topic.map(Arc::from) };
        let closed = self.closed.remove(&identity as &dyn Identified);
        let gone = closed.unwrap_or(if self.is_cut { last_seq } else { 0 });
        let stream = self.slots.insert(Stream {
            identity: identity.clone(),
            number: 0,
            from_number,
            is_recorded: false,
            last_order: 0,
            last_seq,
            spoken: 0,
            gone,
            reserved,
            asked: reserved,
            waiting: VecDeque::new(),
            on_way: BTreeMap::new(),
            turn: None,
            is_orphan: false,
        });
        self.keys.insert(identity, stream);
        stream
    }

    /// Remembers how far one goes that is closed to make room: nothing of it can come again.
    pub(super) fn note_closed(&mut self, stream: StreamKey) {
        if self.closed.len() >= CLOSED_MAX {
            self.closed.clear();
            self.is_cut = true;
        }
        let stream = &self.slots[stream];
        self.closed.insert(stream.identity.clone(), stream.last_seq);
    }

    /// How far one went that made room for others and is not open again; 0 if none is known.
    pub(super) fn closed_at(&self, from: AgentKey, to: AgentKey, topic: Option<&str>) -> u64 {
        self.closed.get(&(from, to, topic) as &dyn Identified).copied().unwrap_or(0)
    }

    pub(super) fn close(&mut self, stream: StreamKey) -> Option<Stream> {
        let stream = self.slots.remove(stream)?;
        self.keys.remove(&stream.identity);
        Some(stream)
    }

    /// All of them, the oldest first.
    pub(super) fn keys(&self) -> Vec<StreamKey> {
        let mut keys: Vec<_> = self.keys.values().copied().collect();
        keys.sort_unstable_by_key(|key| self.slots[*key].number);
        keys
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (StreamKey, &Stream)> {
        self.keys.values().map(|key| (*key, &self.slots[*key]))
    }

    pub(super) fn get(&self, stream: StreamKey) -> Option<&Stream> {
        self.slots.get(stream)
    }

    pub(super) fn get_mut(&mut self, stream: StreamKey) -> Option<&mut Stream> {
        self.slots.get_mut(stream)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &Stream> {
        self.slots.values()
    }
}

impl Index<StreamKey> for Streams {
    type Output = Stream;

    fn index(&self, stream: StreamKey) -> &Stream {
        &self.slots[stream]
    }
}

impl IndexMut<StreamKey> for Streams {
    fn index_mut(&mut self, stream: StreamKey) -> &mut Stream {
        &mut self.slots[stream]
    }
}
