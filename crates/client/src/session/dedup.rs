//! Dedup of what the daemon sends: deliveries that the application has received or acknowledged,
//! and outcomes of messages that were reported to the application.

use crate::message::Delivery;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

/// The most deliveries that an application may hold unacknowledged. The daemon's own window is far
/// smaller, but a delivery that expires in the daemon leaves that window and stays unacknowledged
/// here.
const UNACKNOWLEDGED_MAX: usize = 4096;

/// The length of each dedup window, in ids.
///
/// An acknowledged delivery comes again only if its acknowledgement was lost with the connection,
/// which concerns at most `max_inflight` ([`INFLIGHT_MAX`]) deliveries. A delivery that needs no
/// acknowledgement comes again only if the daemon replays more than RESUME asked for; the daemon's
/// `replay_messages` is 1,000 by default.
const WINDOW: usize = 4096;

/// The highest `max_inflight` that HELLO asks for.
pub(super) const INFLIGHT_MAX: u64 = WINDOW as u64;

/// Tells new deliveries and outcomes from duplicates.
#[derive(Debug, Default)]
pub(super) struct Dedup {
    /// Unacknowledged at-least-once deliveries, with their numbers in the stream.
    unacknowledged: HashMap<String, u64>,
    /// Acknowledged deliveries.
    acknowledged: Window,
    /// At-most-once deliveries.
    at_most_once: Window,
    /// Outcomes that were reported, each by the ids of its envelope and of the SEND.
    outcomes: Window,
}

/// The treatment of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The application gets the delivery.
    New,
    /// The application got the delivery before.
    Duplicate,
    /// The application acknowledged the delivery before: the acknowledgement is sent again.
    Acknowledged,
    /// Too many deliveries are unacknowledged.
    Full,
}

impl Dedup {
    pub(super) fn judge(&mut self, delivery: &Delivery) -> Verdict {
        let id = delivery.id.as_str();
        if !delivery.requires_ack {
            // The daemon replays an acknowledged delivery as one that needs no acknowledgement.
            let is_known = self.acknowledged.contains(id) || self.unacknowledged.contains_key(id);
            return if !is_known && self.at_most_once.insert(id) {
                Verdict::New
            } else {
                Verdict::Duplicate
            };
        }
        if self.acknowledged.contains(id) {
            Verdict::Acknowledged
        } else if self.unacknowledged.contains_key(id) {
            Verdict::Duplicate
        } else if self.unacknowledged.len() == UNACKNOWLEDGED_MAX {
            Verdict::Full
        } else {
            self.unacknowledged.insert(id.to_owned(), delivery.seq);
            Verdict::New
        }
    }

    /// Remembers an outcome and returns whether it is new. After a crash, the daemon repeats
    /// outcomes that may not have arrived.
    pub(super) fn is_new_outcome(&mut self, id: &str, send_id: &str) -> bool {
        self.outcomes.insert(&format!("{id} {send_id}"))
    }

    /// Marks an unacknowledged delivery as acknowledged. Returns its number in the stream, or
    /// `None` if there is no such delivery.
    pub(super) fn acknowledge(&mut self, id: &str) -> Option<u64> {
        let seq = self.unacknowledged.remove(id)?;
        self.acknowledged.insert(id);
        Some(seq)
    }

    /// Forgets an unacknowledged delivery that the application returned. Returns false if there is
    /// no such delivery.
    pub(super) fn forget(&mut self, id: &str) -> bool {
        self.unacknowledged.remove(id).is_some()
    }
}

/// The last [`WINDOW`] ids.
#[derive(Debug, Default)]
struct Window {
    set: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Window {
    fn contains(&self, id: &str) -> bool {
        self.set.contains(id)
    }

    /// Adds an id. Returns false if the window has this id already.
    fn insert(&mut self, id: &str) -> bool {
        let id: Arc<str> = id.into();
        if !self.set.insert(Arc::clone(&id)) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > WINDOW
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
    fn window_drops_the_oldest_id() {
        let mut window = Window::default();
        for number in 0..=WINDOW {
            assert!(window.insert(&number.to_string()));
        }
        assert!(!window.contains("0") && window.contains("1"));
        assert_eq!(window.set.len(), WINDOW);
        assert!(!window.insert("1"));
    }
}
