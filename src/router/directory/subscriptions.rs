//! Subscriptions: which agents get messages on which topics.

use crate::{
    protocol::topic::Pattern,
    router::{
        hash::{HashKey, KeyedMap},
        keys::AgentKey,
    },
};
use rustc_hash::FxHashMap;

/// The bytes of a subscription without its text: its entries in the tables here and in its session.
const ENTRIES_BYTES: usize = 192;

/// Returns the bytes that a subscription holds.
pub(in crate::router) fn bytes_of(pattern: &Pattern) -> usize {
    // The text counts twice, because it may also be a key here.
    2 * pattern.as_str().len() + ENTRIES_BYTES
}

/// All agents' subscriptions: literal ones by topic, those with wildcards by agent.
#[derive(Debug)]
pub(super) struct Subscriptions {
    literal: KeyedMap<Box<str>, Vec<AgentKey>>,
    wildcard: FxHashMap<AgentKey, Vec<Pattern>>,
    bytes: usize,
}

impl Subscriptions {
    pub(super) fn new(hash_key: HashKey) -> Self {
        let literal = KeyedMap::with_hasher(hash_key);
        Self { literal, wildcard: FxHashMap::default(), bytes: 0 }
    }

    /// Returns the bytes that all subscriptions hold.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn add(&mut self, pattern: &Pattern, agent: AgentKey) {
        self.bytes += bytes_of(pattern);
        if pattern.is_literal() {
            self.literal.entry(pattern.as_str().into()).or_default().push(agent);
        } else {
            self.wildcard.entry(agent).or_default().push(pattern.clone());
        }
    }

    pub(super) fn remove(&mut self, pattern: &Pattern, agent: AgentKey) {
        let removed;
        if let Some(agents) = self.literal.get_mut(pattern.as_str()) {
            removed = agents.extract_if(.., |other| *other == agent).count();
            if agents.is_empty() {
                self.literal.remove(pattern.as_str());
            }
        } else if let Some(patterns) = self.wildcard.get_mut(&agent) {
            removed = patterns.extract_if(.., |other| other == pattern).count();
            if patterns.is_empty() {
                self.wildcard.remove(&agent);
            }
        } else {
            return;
        }
        self.bytes -= removed * bytes_of(pattern);
    }

    /// Appends all agents that subscribe to `topic`, each once.
    pub(super) fn collect(&self, topic: &str, agents: &mut Vec<AgentKey>) {
        agents.extend(self.literal.get(topic).into_iter().flatten());
        let matches =
            |patterns: &Vec<Pattern>| patterns.iter().any(|pattern| pattern.matches(topic));
        let matching = self.wildcard.iter().filter(|(_, patterns)| matches(patterns));
        agents.extend(matching.map(|(agent, _)| *agent));
        agents.sort_unstable();
        agents.dedup();
    }
}
