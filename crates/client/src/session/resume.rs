//! The state for resuming a session: the position in each stream, and the deliveries held back
//! until the daemon has answered RESUME.
//!
//! Deliveries that arrive between WELCOME and that answer are held back, since they may be later
//! than some that were lost with the last connection. After SYNC, the daemon replays everything
//! above the positions in RESUME, so held-back deliveries above them are dropped.

use crate::message::Delivery;
use protocol::{
    Moment,
    name::RELAY,
    payload::{StreamPosition, SyncInfo},
};
use std::{
    collections::{HashMap, VecDeque},
    mem,
};

/// The number of remembered stream positions. Beyond it, the stream that was silent longest is
/// forgotten: RESUME omits it, and its lost at-most-once messages stay lost. At-least-once messages
/// are redelivered anyway.
const STREAMS_MAX: usize = 1024;

/// The bytes of a RESUME besides its streams.
const RESUME_BYTES: usize = 512;

/// The most deliveries that are held back: the default length of an agent's queue in the daemon.
const HELD_BACK_MAX: usize = 10_000;

/// The most bytes of deliveries that are held back.
const HELD_BACK_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The state for resuming a session.
#[derive(Debug, Default)]
pub(super) struct ResumeState {
    /// Whether the daemon keeps messages while this client is away.
    granted: bool,
    /// The position in each stream. The key is the sender, a blank, and the topic.
    positions: HashMap<String, Position>,
    /// The number of deliveries noted so far.
    noted: u64,
    /// A buffer for the key of a lookup, which saves an allocation for each delivery.
    key: String,
    request: Option<Request>,
    /// Whether the last connection ended because its RESUME was not answered in time.
    timed_out: bool,
    held_back: VecDeque<Delivery>,
    held_back_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    last_seq: u64,
    /// The value of [`ResumeState::noted`] at the stream's last delivery.
    noted: u64,
}

/// A RESUME without an answer.
#[derive(Debug)]
struct Request {
    id: String,
    until: Moment,
}

impl ResumeState {
    /// Handles WELCOME. `granted` says whether the daemon keeps messages while this client is away,
    /// `resumed` whether the session continues. Returns the deliveries that were held back for a
    /// session that has ended.
    pub(super) fn welcome(&mut self, granted: bool, resumed: bool) -> VecDeque<Delivery> {
        self.granted = granted;
        if granted && resumed {
            return VecDeque::new();
        }
        self.clear()
    }

    /// Notes the position of a delivery that the application got, now or earlier.
    pub(super) fn note(&mut self, delivery: &Delivery) {
        if !self.granted || delivery.from == RELAY {
            return;
        }
        self.noted += 1;
        let noted = self.noted;
        set_key(&mut self.key, delivery);
        if let Some(position) = self.positions.get_mut(&self.key) {
            *position = Position { last_seq: position.last_seq.max(delivery.seq), noted };
            return;
        }
        if self.positions.len() == STREAMS_MAX {
            let silent = self.positions.iter().min_by_key(|(_, position)| position.noted);
            let silent = silent.map(|(key, _)| key.clone()).expect("there are STREAMS_MAX");
            self.positions.remove(&silent);
        }
        self.positions.insert(self.key.clone(), Position { last_seq: delivery.seq, noted });
    }

    /// The streams for a RESUME, the most recent first, as many as fit into a frame. The others are
    /// forgotten.
    pub(super) fn streams(&mut self, frame_bytes_max: usize) -> Vec<StreamPosition> {
        let mut latest: Vec<_> = self.positions.drain().collect();
        latest.sort_unstable_by_key(|(_, position)| std::cmp::Reverse(position.noted));
        let mut left = frame_bytes_max.saturating_sub(RESUME_BYTES);
        let mut streams = Vec::new();
        for (key, position) in latest {
            let (peer, topic) = key.split_once(' ').expect("a key has a blank");
            let (peer, topic, last_seq) = (peer.to_owned(), topic.to_owned(), position.last_seq);
            let stream = StreamPosition { topic, peer, last_seq, server_last_seq: None };
            let bytes = serde_json::to_string(&stream).expect("wire types are JSON").len() + 1;
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => break,
            }
            streams.push(stream);
            self.positions.insert(key, position);
        }
        streams
    }

    /// Notes that RESUME was sent, and when to stop waiting for its answer.
    pub(super) fn requested(&mut self, id: String, until: Moment) {
        self.request = Some(Request { id, until });
    }

    /// Whether RESUME was sent and not answered yet.
    pub(super) const fn is_waiting(&self) -> bool {
        self.request.is_some()
    }

    /// Whether an unanswered RESUME has this id.
    pub(super) fn is_about(&self, id: &str) -> bool {
        self.request.as_ref().is_some_and(|request| request.id == id)
    }

    /// The moment to stop waiting for the answer to RESUME.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.request.as_ref().map(|request| request.until)
    }

    /// Handles a RESUME that was not answered in time. Returns whether the next connection may send
    /// another one: two in a row without an answer are enough.
    pub(super) fn time_out(&mut self) -> bool {
        self.request = None;
        !mem::replace(&mut self.timed_out, true)
    }

    /// Holds a delivery back until RESUME is answered. Beyond a limit, returns all deliveries that
    /// were held back: out of order is better than lost.
    pub(super) fn hold_back(&mut self, delivery: Delivery) -> VecDeque<Delivery> {
        self.held_back_bytes += delivery.json().len();
        self.held_back.push_back(delivery);
        if self.held_back.len() > HELD_BACK_MAX || self.held_back_bytes > HELD_BACK_BYTES_MAX {
            return self.release();
        }
        VecDeque::new()
    }

    /// Handles SYNC: drops the held-back deliveries that the daemon replays, and returns the rest.
    /// If the daemon has forgotten a stream's sender, the stream has the number 0 in SYNC and is
    /// not replayed.
    pub(super) fn synced(&mut self, sync: &SyncInfo) -> VecDeque<Delivery> {
        let mut rest = self.release();
        rest.retain(|delivery| {
            let topic = delivery.topic.as_deref().unwrap_or_default();
            let of =
                |stream: &&StreamPosition| stream.peer == delivery.from && stream.topic == topic;
            let known = sync.streams.iter().find(of).and_then(|stream| stream.server_last_seq);
            set_key(&mut self.key, delivery);
            let position = self.positions.get(&self.key);
            known == Some(0) || position.is_none_or(|position| delivery.seq <= position.last_seq)
        });
        rest
    }

    /// Forgets all positions, since there is no session to resume. Returns the held-back
    /// deliveries.
    pub(super) fn clear(&mut self) -> VecDeque<Delivery> {
        self.positions.clear();
        self.release()
    }

    /// Handles the loss of the connection. Deliveries stay held back until the next connection has
    /// resumed the session or not.
    pub(super) fn disconnected(&mut self) {
        self.request = None;
    }

    fn release(&mut self) -> VecDeque<Delivery> {
        (self.request, self.timed_out) = (None, false);
        self.held_back_bytes = 0;
        mem::take(&mut self.held_back)
    }
}

fn set_key(key: &mut String, delivery: &Delivery) {
    key.clear();
    key.push_str(&delivery.from);
    key.push(' ');
    key.push_str(delivery.topic.as_deref().unwrap_or_default());
}
