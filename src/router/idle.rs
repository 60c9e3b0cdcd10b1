//! Where as many streams are open as may be, those that were silent longest are closed for new ones.
//!
//! Nothing of such a one waits, is on the way, or is at hand to come again. How far it went is remembered, so
//! that whoever resumes it from below hears that it has missed something. None of its numbers is given again: whatever its sender says in streams that are opened later, the
//! same one too, has numbers above the sender's floor.

use super::{AgentKey, Router, StreamKey, stream::Stream};
use crate::record::{Change, StreamRecord};
use std::collections::BTreeSet;

/// How many parts there are of all streams, of which one is closed at once: to look at them all costs more
/// than one is worth.
const PARTS: usize = 16;

/// When there are too few of them, how long it is until they are looked at again.
const REST_MS: u64 = 1_000;

/// What an agent's streams that were closed leave behind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Floor {
    /// The last number of all of them.
    pub(super) seq: u64,
    /// Of its record; 0 if there is none.
    pub(super) number: u64,
}

impl Router {
    /// Whether another stream may be opened. Where there are as many as may be, those go that were silent
    /// longest.
    pub(super) fn has_room_for_stream(&mut self) -> bool {
        self.close_some();
        self.streams.len() < self.limits.streams_max
    }

    fn close_some(&mut self) {
        let (now, most) = (self.now.monotonic, self.limits.streams_max);
        if self.streams.len() < most || now < self.streams.rest_until {
            return;
        }
        let idle = self.streams.iter().filter(|(_, stream)| self.is_idle(stream));
        let mut idle: Vec<_> =
            idle.map(|(key, stream)| (stream.last_order, stream.number, key)).collect();
        let wanted = most.div_ceil(PARTS);
        if idle.len() < wanted {
            self.streams.rest_until = now.plus(REST_MS);
        }
        idle.sort_unstable();
        idle.truncate(wanted);
        let idle: Vec<_> = idle.into_iter().map(|(_, _, key)| key).collect();
        self.raise_floors(&idle);
        for key in idle {
            self.close_idle(key);
        }
    }

    /// Nothing of it waits or is on the way, nor can it come again.
    fn is_idle(&self, stream: &Stream) -> bool {
        let session = self.roster.get(stream.to()).and_then(|agent| agent.session.as_deref());
        let oldest = session.and_then(|session| session.replay.oldest());
        let is_at_hand = oldest.is_some_and(|oldest| oldest <= stream.last_order);
        !stream.is_orphan && stream.is_empty() && !is_at_hand
    }

    /// The senders' later streams go on above these, also if the daemon ends at once.
    fn raise_floors(&mut self, closing: &[StreamKey]) {
        let mut raised = BTreeSet::new();
        for key in closing {
            let stream = &self.streams[*key];
            let floor = &mut self.roster[stream.from()].floor;
            if floor.seq < stream.last_seq() {
                floor.seq = stream.last_seq();
                raised.insert(stream.from());
            }
        }
        for agent in raised {
            self.keep_floor(agent);
        }
    }

    /// Hands an agent's floor to the store. Guests never come again.
    pub(super) fn keep_floor(&mut self, agent: AgentKey) {
        let agent = &mut self.roster[agent];
        if agent.floor.seq == 0 || agent.is_guest() {
            return;
        }
        if agent.floor.number == 0 {
            self.ledger.last.stream += 1;
            agent.floor.number = self.ledger.last.stream;
        }
        let Floor { seq: reserved, number } = agent.floor;
        let record = StreamRecord { number, from: agent.number, to: 0, topic: None, reserved };
        self.keep(Change::Stream(Box::new(record)));
    }

    fn close_idle(&mut self, key: StreamKey) {
        let (from, to) = (self.streams[key].from(), self.streams[key].to());
        self.roster[from].says.remove(&key);
        self.roster[to].hears.remove(&key);
        self.streams.note_closed(key);
        self.close_stream(key);
    }
}
