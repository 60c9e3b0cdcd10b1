//! The events that were printed, so that none is printed again after the daemon was away.

use super::event::Event;
use std::collections::{HashSet, VecDeque};

/// The number of events that are remembered.
const SEEN_MAX: usize = 20_000;

/// The longest delay of an event's report: a message is reported once it is stored, with the time
/// of its arrival.
const LATE_MS: u64 = 60_000;

/// The events that were printed last.
#[derive(Debug)]
pub(super) struct Seen {
    keys: HashSet<String>,
    order: VecDeque<(u64, String)>,
    /// The beginning of the events that are wanted.
    start: u64,
    /// The time of the newest event.
    last: u64,
    /// The time of the newest event that is no longer remembered.
    forgotten: u64,
}

impl Seen {
    pub(super) fn new(start: u64) -> Self {
        Self { keys: HashSet::new(), order: VecDeque::new(), start, last: start, forgotten: 0 }
    }

    /// Notes that something has happened at this time, also if it is not printed.
    pub(super) fn note_time(&mut self, time: u64) {
        self.last = self.last.max(time);
    }

    /// The time of the newest event.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// The earliest time that may lack events.
    pub(super) fn floor(&self) -> u64 {
        let late = self.last.saturating_sub(LATE_MS).max(self.start);
        late.max(self.forgotten.saturating_add(1).min(self.last))
    }

    /// Remembers an event. Returns false if it is remembered already.
    pub(super) fn add(&mut self, event: &Event) -> bool {
        let Some(key) = event.key() else { return true };
        if !self.keys.insert(key.clone()) {
            return false;
        }
        self.order.push_back((event.time, key));
        if self.order.len() > SEEN_MAX
            && let Some((time, key)) = self.order.pop_front()
        {
            self.keys.remove(&key);
            self.forgotten = self.forgotten.max(time);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, state: &str, time: u64) -> Event {
        Event {
            kind: "message".to_owned(),
            id: Some(id.to_owned()),
            state: Some(state.to_owned()),
            time,
            ..Event::default()
        }
    }

    #[test]
    fn event_is_seen_once() {
        let mut seen = Seen::new(100_000);
        assert_eq!((seen.last(), seen.floor()), (100_000, 100_000));
        assert!(seen.add(&message("a", "accepted", 200_000)));
        assert!(seen.add(&message("a", "dead", 200_001)));
        assert!(!seen.add(&message("a", "accepted", 200_000)));
        // A dead letter can be delivered again, and die again.
        assert!(seen.add(&message("a", "dead", 200_002)));
        seen.note_time(200_002);
        assert_eq!((seen.last(), seen.floor()), (200_002, 140_002));
    }

    #[test]
    fn forgotten_events_are_not_asked_for_again() {
        let mut seen = Seen::new(0);
        for number in 0..SEEN_MAX as u64 + 10 {
            seen.note_time(500_000 + number);
            assert!(seen.add(&message(&number.to_string(), "accepted", 500_000 + number)));
        }
        assert_eq!(seen.order.len(), SEEN_MAX);
        assert_eq!(seen.floor(), 500_010);
    }
}
