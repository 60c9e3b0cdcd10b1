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

/// Everybody's subscriptions: plain ones by their topic, those with wildcards by who has them.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    plain: FastMap<Box<str>, Vec<AgentKey>>,
    wild: FastMap<AgentKey, Vec<Pattern>>,
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
            self.wild.entry(agent).or_default().push(pattern.clone());
        }
    }

    pub(super) fn remove(&mut self, pattern: &Pattern, agent: AgentKey) {
        let removed;
        if let Some(agents) = self.plain.get_mut(pattern.as_str()) {
            removed = agents.extract_if(.., |other| *other == agent).count();
            if agents.is_empty() {
                self.plain.remove(pattern.as_str());
            }
        } else if let Some(patterns) = self.wild.get_mut(&agent) {
            removed = patterns.extract_if(.., |other| other == pattern).count();
            if patterns.is_empty() {
                self.wild.remove(&agent);
            }
        } else {
            return;
        }
        self.bytes -= removed * bytes_of(pattern);
    }

    /// Appends everyone who hears `topic`, each once.
    pub(super) fn collect(&self, topic: &str, agents: &mut Vec<AgentKey>) {
        agents.extend(self.plain.get(topic).into_iter().flatten());
        let hears = |patterns: &Vec<Pattern>| patterns.iter().any(|pattern| pattern.matches(topic));
        agents.extend(self.wild.iter().filter(|(_, of)| hears(of)).map(|(agent, _)| *agent));
        agents.sort_unstable();
        agents.dedup();
    }
}
