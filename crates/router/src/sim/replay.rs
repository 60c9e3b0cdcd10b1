//! Replay: after a SYNC, missed messages come again, before new messages of their stream.

use super::sends::{Key, Stream};
use crate::{
    ClientId,
    oracle::{Checked, ensure},
};
use protocol::Moment;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A message that was delivered at some time.
#[derive(Clone, Debug)]
struct Past {
    key: Key,
    expires: Moment,
}

/// The messages of a stream, by number.
type Numbers = BTreeMap<u64, Past>;

#[derive(Debug, Default)]
pub(super) struct Replay {
    past: BTreeMap<Stream, Numbers>,
    /// Messages that a SYNC promised to a connection, and that are not replayed yet.
    due: BTreeMap<(ClientId, Stream), Numbers>,
    /// Deliveries that are not replayed: dead letters, and deliveries that were never written to
    /// their recipients.
    dead: BTreeSet<Key>,
}

impl Replay {
    /// Takes note of a SYNC, which promises all messages that its client missed.
    pub(super) fn synced(&mut self, client: ClientId, name: &str, sync: &str, now: Moment) {
        let sync: Value = serde_json::from_str(sync).unwrap_or_default();
        for row in sync["streams"].as_array().into_iter().flatten() {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let topic = Some(text("topic")).filter(|topic| !topic.is_empty());
            let stream = (text("peer").to_lowercase(), name.to_owned(), topic);
            let last_seq = row["last_seq"].as_u64().unwrap_or_default();
            // SYNC states 0 for a stream that is not open.
            if row["server_last_seq"].as_u64().unwrap_or_default() > last_seq
                && let Some(past) = self.past.get(&stream)
            {
                let missed = past.range(last_seq + 1..).map(|(seq, past)| (*seq, past.clone()));
                let missed = missed.filter(|(_, past)| self.is_wanted(past, now));
                let missed: Vec<_> = missed.collect();
                self.due.entry((client, stream)).or_default().extend(missed);
            }
        }
    }

    /// Whether a message has to be replayed: it has neither expired nor ended as a dead letter.
    fn is_wanted(&self, past: &Past, now: Moment) -> bool {
        past.expires > now && !self.dead.contains(&past.key)
    }

    /// Checks that a DELIVER overtakes no due message. Returns whether its own message was due.
    pub(super) fn delivered(
        &mut self,
        client: ClientId,
        stream: &Stream,
        seq: u64,
        (key, expires): (Key, Moment),
        now: Moment,
    ) -> Checked<bool> {
        self.past.entry(stream.clone()).or_default().insert(seq, Past { key, expires });
        let of = (client, stream.clone());
        let Some(mut due) = self.due.remove(&of) else { return Ok(false) };
        let is_due = due.remove(&seq).is_some();
        due.retain(|_, past| self.is_wanted(past, now));
        if let Some((first, past)) = due.first_key_value() {
            ensure(*first > seq, || format!("{past:?} with seq {first} is due before {seq}"))?;
        }
        self.due.insert(of, due);
        Ok(is_due)
    }

    /// Takes note of a delivery that ends: it is not due any more.
    pub(super) fn ends(&mut self, key: &Key, is_dead: bool) {
        self.due.values_mut().for_each(|due| due.retain(|_, past| past.key != *key));
        if is_dead {
            self.dead.insert(key.clone());
        }
    }

    /// Takes note of a delivery that is open after a crash, which may have lost its end.
    pub(super) fn reopens(&mut self, key: &Key) {
        self.dead.remove(key);
    }

    pub(super) fn left(&mut self, client: ClientId) {
        self.due.retain(|(other, _), _| *other != client);
    }

    /// Forgets everything: a crash loses the replay buffers.
    pub(super) fn crash(&mut self) {
        self.past.clear();
        self.due.clear();
    }

    /// Checks at the end that every message that a SYNC promised was replayed, has expired or is a
    /// dead letter.
    pub(super) fn everything_was_replayed(&self, now: Moment) -> Checked {
        let mut due = self.due.values().flatten();
        match due.find(|(_, past)| self.is_wanted(past, now)) {
            Some(late) => Err(format!("{late:?} was promised and not replayed")),
            None => Ok(()),
        }
    }
}
