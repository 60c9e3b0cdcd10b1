//! Subscriptions: what the application wants to hear, and what the daemon was told of it.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
};

/// Patterns that one client may ask for: the daemon's own bound.
pub(super) const SUBSCRIPTIONS_MAX: usize = 256;

/// Patterns that are wanted, and those that the daemon may still have though they aren't.
#[derive(Debug, Default)]
pub(super) struct Topics {
    all: BTreeMap<String, Topic>,
    /// What was said in this connection and isn't answered, by its id.
    asked: HashMap<String, Asked>,
}

#[derive(Debug)]
struct Topic {
    wanted: bool,
    told: Told,
}

/// Whether the daemon knows what is wanted.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    No,
    /// The id of what was said last.
    Unanswered(String),
    Yes,
}

/// A SUBSCRIBE or an UNSUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) pattern: String,
    /// SUBSCRIBE.
    pub(super) wanted: bool,
}

impl Topics {
    /// The application wants it. False where there are [`SUBSCRIPTIONS_MAX`] already.
    pub(super) fn want(&mut self, pattern: &str) -> bool {
        if self.all.len() == SUBSCRIPTIONS_MAX && !self.all.contains_key(pattern) {
            return false;
        }
        self.all.insert(pattern.to_owned(), Topic { wanted: true, told: Told::No });
        true
    }

    /// The application doesn't want it any more. Whether it did.
    pub(super) fn give_up(&mut self, pattern: &str) -> bool {
        let Some(topic) = self.all.get_mut(pattern) else { return false };
        topic.told = Told::No;
        mem::take(&mut topic.wanted)
    }

    /// It was said with this id.
    pub(super) fn said(&mut self, id: String, asked: Asked) {
        if let Some(topic) = self.all.get_mut(&asked.pattern) {
            topic.told = Told::Unanswered(id.clone());
        }
        self.asked.insert(id, asked);
    }

    /// The daemon did it. Gives back what it was, if it was one of these.
    pub(super) fn done(&mut self, id: &str) -> Option<Asked> {
        let asked = self.asked.remove(id)?;
        if let Some(topic) = self.last_said(id, &asked.pattern) {
            topic.told = Told::Yes;
            if !asked.wanted {
                self.all.remove(&asked.pattern);
            }
        }
        Some(asked)
    }

    /// The daemon won't do it.
    pub(super) fn refused(&mut self, id: &str) -> Option<Asked> {
        let asked = self.asked.remove(id)?;
        if self.last_said(id, &asked.pattern).is_some() {
            self.all.remove(&asked.pattern);
        }
        Some(asked)
    }

    /// The pattern's topic, if nothing newer was said about it.
    fn last_said(&mut self, id: &str, pattern: &str) -> Option<&mut Topic> {
        let topic = self.all.get_mut(pattern)?;
        matches!(&topic.told, Told::Unanswered(last) if last == id).then_some(topic)
    }

    /// The connection is over: nothing that isn't answered will be.
    pub(super) fn lost(&mut self) {
        self.asked.clear();
        for topic in self.all.values_mut().filter(|topic| topic.told != Told::Yes) {
            topic.told = Told::No;
        }
    }

    /// The daemon knows nothing of what an earlier session was told.
    pub(super) fn forget(&mut self) {
        self.all.retain(|_, topic| topic.wanted);
        for topic in self.all.values_mut() {
            topic.told = Told::No;
        }
    }

    /// What the daemon is to be told.
    pub(super) fn untold(&self) -> Vec<Asked> {
        let untold = self.all.iter().filter(|(_, topic)| topic.told == Told::No);
        untold.map(|(name, topic)| Asked { pattern: name.clone(), wanted: topic.wanted }).collect()
    }
}
