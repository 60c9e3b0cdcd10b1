//! What was heard: which deliveries the application has, and which it is done with.

use crate::client::message::Delivery;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

/// Deliveries that an application may hold unacknowledged. The daemon's window is far smaller; only
/// messages that expired there while they waited here come on top of it.
const OPEN_MAX: usize = 4096;

/// Ids remembered of each kind, to know doubles by.
///
/// Of what was acknowledged, only that comes again whose acknowledgement was lost with the connection:
/// the last few, at most `max_inflight` of them, which is at most this ([`INFLIGHT_MAX`]). Of what needs
/// no acknowledgement, only that comes again which is above the place that RESUME names: nothing that
/// was heard, unless a daemon replays more than it was asked for, and its `replay_messages` is 1,000
/// where nobody says otherwise.
const REMEMBERED: usize = 4096;

/// The most that HELLO asks for as `max_inflight`.
pub(super) const INFLIGHT_MAX: u64 = REMEMBERED as u64;

/// Tells a new delivery from one that comes again.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// At-least-once deliveries that the application has not answered, with their numbers.
    open: HashMap<String, u64>,
    /// Acknowledged ones.
    done: Recent,
    /// At-most-once ones.
    seen: Recent,
    /// What became of messages: the ids of the envelopes that said so, and of the SENDs.
    outcomes: Recent,
}

/// What is to be done with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The application hears it.
    New,
    /// The application has it, or had it: nothing.
    Double,
    /// The application was done with it: the daemon is told again.
    Done,
    /// No room for more unanswered ones.
    Full,
}

impl Heard {
    pub(super) fn judge(&mut self, delivery: &Delivery) -> Verdict {
        let id = delivery.id.as_str();
        if !delivery.requires_ack {
            // What was acknowledged is replayed like this, too.
            let is_known = self.done.contains(id) || self.open.contains_key(id);
            return if !is_known && self.seen.insert(id) { Verdict::New } else { Verdict::Double };
        }
        if self.done.contains(id) {
            Verdict::Done
        } else if self.open.contains_key(id) {
            Verdict::Double
        } else if self.open.len() == OPEN_MAX {
            Verdict::Full
        } else {
            self.open.insert(id.to_owned(), delivery.seq);
            Verdict::New
        }
    }

    /// Whether the envelope with this id says for the first time what became of a message. The daemon says
    /// it again where a crash left it unsure whether it had.
    pub(super) fn is_new_outcome(&mut self, id: &str, send_id: &str) -> bool {
        self.outcomes.insert(&format!("{id} {send_id}"))
    }

    /// The application is done with it. Its number, if there is something to say.
    pub(super) fn acknowledge(&mut self, id: &str) -> Option<u64> {
        let seq = self.open.remove(id)?;
        self.done.insert(id);
        Some(seq)
    }

    /// The application doesn't have it any more. Whether there is something to say.
    pub(super) fn give_back(&mut self, id: &str) -> bool {
        self.open.remove(id).is_some()
    }
}

/// The last [`REMEMBERED`] ids.
#[derive(Debug, Default)]
struct Recent {
    set: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Recent {
    fn contains(&self, id: &str) -> bool {
        self.set.contains(id)
    }

    /// Whether it is new.
    fn insert(&mut self, id: &str) -> bool {
        let id: Arc<str> = id.into();
        if !self.set.insert(Arc::clone(&id)) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_ids_are_remembered() {
        let mut recent = Recent::default();
        for number in 0..=REMEMBERED {
            assert!(recent.insert(&number.to_string()));
        }
        assert!(!recent.contains("0") && recent.contains("1"));
        assert_eq!(recent.set.len(), REMEMBERED);
        assert!(!recent.insert("1"));
    }
}
