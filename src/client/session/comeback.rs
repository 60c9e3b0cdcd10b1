//! Coming back to a session: how far each stream was heard, and what waits until the rest was replayed.
//!
//! Between WELCOME and the daemon's answer to RESUME, messages come that are later than some that were
//! lost with the last connection. They wait here. After SYNC, all that is above a place that RESUME
//! named comes (again), in order, so what was held back of it is let go unheard.

use crate::{
    client::message::Delivery,
    protocol::{
        Moment,
        name::RELAY,
        payload::{StreamPlace, SyncInfo},
    },
};
use std::{
    collections::{HashMap, VecDeque},
    mem,
};

/// Streams whose places are remembered. Where there are more, the one that was silent longest is
/// forgotten: of it, RESUME asks for nothing, so that at-most-once messages that were lost with a
/// connection stay lost. At-least-once ones come again anyway.
const STREAMS_MAX: usize = 1024;

/// What a RESUME needs beside its streams.
const RESUME_BYTES: usize = 512;

/// Deliveries held back: as many as the daemon's queue may have had for us.
const HELD_BACK_MAX: usize = 10_000;

/// Their bytes.
const HELD_BACK_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What there is to know for a return.
#[derive(Debug, Default)]
pub(super) struct Comeback {
    /// Whether the daemon keeps messages for a return.
    granted: bool,
    /// By sender, a blank, and topic.
    places: HashMap<String, Place>,
    /// Counts what was heard.
    heard: u64,
    /// The key that is looked up; kept so that none is made for each message.
    key: String,
    waiting: Option<Waiting>,
    held_back: VecDeque<Delivery>,
    held_back_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    last_seq: u64,
    /// [`Comeback::heard`] at that time.
    heard: u64,
}

/// A RESUME that isn't answered.
#[derive(Debug)]
struct Waiting {
    id: String,
    until: Moment,
}

impl Comeback {
    /// WELCOME: whether the daemon keeps messages for a return, and whether this is one. Gives back
    /// what was held back for a session that is over.
    pub(super) fn welcome(&mut self, granted: bool, resumed: bool) -> VecDeque<Delivery> {
        self.granted = granted;
        if granted && resumed {
            return VecDeque::new();
        }
        self.forget()
    }

    /// The application has heard it, now or earlier.
    pub(super) fn note(&mut self, delivery: &Delivery) {
        if !self.granted || delivery.from == RELAY {
            return;
        }
        self.heard += 1;
        let heard = self.heard;
        set_key(&mut self.key, delivery);
        if let Some(place) = self.places.get_mut(&self.key) {
            *place = Place { last_seq: place.last_seq.max(delivery.seq), heard };
            return;
        }
        if self.places.len() == STREAMS_MAX {
            let silent = self.places.iter().min_by_key(|(_, place)| place.heard);
            let silent = silent.map(|(key, _)| key.clone()).expect("there are many");
            self.places.remove(&silent);
        }
        self.places.insert(self.key.clone(), Place { last_seq: delivery.seq, heard });
    }

    /// What RESUME says: those heard last, as many as one frame has room for. The others are forgotten.
    pub(super) fn streams(&mut self, frame_bytes_max: usize) -> Vec<StreamPlace> {
        let mut latest: Vec<_> = self.places.drain().collect();
        latest.sort_unstable_by_key(|(_, place)| std::cmp::Reverse(place.heard));
        let mut left = frame_bytes_max.saturating_sub(RESUME_BYTES);
        let mut streams = Vec::new();
        for (key, place) in latest {
            let (peer, topic) = key.split_once(' ').expect("a key has a blank");
            let (peer, topic, last_seq) = (peer.to_owned(), topic.to_owned(), place.last_seq);
            let stream = StreamPlace { topic, peer, last_seq, server_last_seq: None };
            let bytes = serde_json::to_string(&stream).expect("wire types are JSON").len() + 1;
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => break,
            }
            streams.push(stream);
            self.places.insert(key, place);
        }
        streams
    }

    /// RESUME was said.
    pub(super) fn asked(&mut self, id: String, until: Moment) {
        self.waiting = Some(Waiting { id, until });
    }

    /// Whether RESUME isn't answered yet.
    pub(super) const fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether RESUME bore this id, and isn't answered yet.
    pub(super) fn is_about(&self, id: &str) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.id == id)
    }

    /// When the answer is given up.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.waiting.as_ref().map(|waiting| waiting.until)
    }

    /// Keeps a delivery until RESUME is answered. What is over the bound brings everything back at once:
    /// rather out of order than not at all.
    pub(super) fn hold_back(&mut self, delivery: Delivery) -> VecDeque<Delivery> {
        self.held_back_bytes += delivery.json().len();
        self.held_back.push_back(delivery);
        if self.held_back.len() > HELD_BACK_MAX || self.held_back_bytes > HELD_BACK_BYTES_MAX {
            return self.release();
        }
        VecDeque::new()
    }

    /// SYNC: what is above a named place comes again, as far as the daemon knows the stream: one whose
    /// sender it has forgotten has no number there. Gives back the rest.
    pub(super) fn synced(&mut self, sync: &SyncInfo) -> VecDeque<Delivery> {
        let mut rest = self.release();
        rest.retain(|delivery| {
            let topic = delivery.topic.as_deref().unwrap_or_default();
            let of = |place: &&StreamPlace| place.peer == delivery.from && place.topic == topic;
            let known = sync.streams.iter().find(of).and_then(|place| place.server_last_seq);
            set_key(&mut self.key, delivery);
            known == Some(0)
                || self.places.get(&self.key).is_none_or(|place| delivery.seq <= place.last_seq)
        });
        rest
    }

    /// There is nothing to come back to: gives back what was held back.
    pub(super) fn forget(&mut self) -> VecDeque<Delivery> {
        self.places.clear();
        self.release()
    }

    /// The connection is over. What was held back still is, until it is known how the next one begins.
    pub(super) fn lost(&mut self) {
        self.waiting = None;
    }

    fn release(&mut self) -> VecDeque<Delivery> {
        self.waiting = None;
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
