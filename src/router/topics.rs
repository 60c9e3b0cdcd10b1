//! Who hears which topic.

use super::{AgentKey, hash::FastMap};
use crate::protocol::topic::Pattern;

/// What a subscription takes beside its text: its places in the tables, here and in its session.
const PLACES_BYTES: usize = 192;

/// What a subscription takes.
pub(super) fn bytes_of(pattern: &Pattern) -> usize {
    // The text is also a key.
    2 * pattern.as_str().len() + PLACES_BYTES
}

/// Everybody's subscriptions: plain ones by their topic, those with wildcards in a row.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    plain: FastMap<Box<str>, Vec<AgentKey>>,
    wild: Vec<(Pattern, AgentKey)>,
    bytes: usize,
}

impl Subscriptions {
    /// What they take together.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn add(&mut self, pattern: &Pattern, agent: AgentKey) {
        self.bytes += bytes_of(pattern);
        if pattern.is_literal() {
            self.plain.entry(pattern.as_str().into()).or_default().push(agent);
        } else {
            self.wild.push((pattern.clone(), agent));
        }
    }

    pub(super) fn remove(&mut self, pattern: &Pattern, agent: AgentKey) {
        let removed;
        if let Some(agents) = self.plain.get_mut(pattern.as_str()) {
            removed = agents.extract_if(.., |other| *other == agent).count();
            if agents.is_empty() {
                self.plain.remove(pattern.as_str());
            }
        } else {
            let is_it = |(other, who): &mut (Pattern, AgentKey)| *who == agent && other == pattern;
            removed = self.wild.extract_if(.., is_it).count();
        }
        self.bytes -= removed * bytes_of(pattern);
    }

    /// Appends everyone who hears `topic`, each once.
    pub(super) fn collect(&self, topic: &str, agents: &mut Vec<AgentKey>) {
        agents.extend(self.plain.get(topic).into_iter().flatten());
        agents.extend(
            self.wild.iter().filter(|(pattern, _)| pattern.matches(topic)).map(|(_, agent)| *agent),
        );
        agents.sort_unstable();
        agents.dedup();
    }
}
