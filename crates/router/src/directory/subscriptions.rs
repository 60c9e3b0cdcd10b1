//! Subscriptions: which agents get messages on which topics.

use super::pattern_trie::{PatternTrie, insert_sorted, remove_sorted};
use crate::{
    accounts::Class,
    context::Context,
    hash::{HashKey, KeyedMap},
    keys::AgentKey,
};
use protocol::topic::Pattern;

/// The bytes of a subscription without its text: its entries in the tables here and in its session.
/// A pattern with wildcards may add two nodes to the trie, and a table of children.
const LITERAL_BYTES: usize = 192;
const WILDCARD_BYTES: usize = 640;

/// Returns the bytes that a subscription holds.
pub(crate) fn bytes_of(pattern: &Pattern) -> usize {
    let entries = if pattern.is_literal() { LITERAL_BYTES } else { WILDCARD_BYTES };
    // The text counts twice, because it may also be a key here.
    2 * pattern.as_str().len() + entries
}

/// All agents' subscriptions: literal ones by topic, those with wildcards in a trie.
#[derive(Debug)]
pub(super) struct Subscriptions {
    /// The subscribers of each topic, sorted.
    literal: KeyedMap<Box<str>, Vec<AgentKey>>,
    wildcard: PatternTrie<AgentKey>,
}

impl Subscriptions {
    pub(super) fn new(hash_key: HashKey) -> Self {
        let literal = KeyedMap::with_hasher(hash_key);
        Self { literal, wildcard: PatternTrie::new() }
    }

    /// Adds a subscription. Adding one that is there changes nothing.
    pub(super) fn add(&mut self, ctx: &mut Context, pattern: &Pattern, agent: AgentKey) {
        let text = pattern.as_str();
        let is_new = if pattern.is_literal() {
            insert_sorted(self.literal.entry(text.into()).or_default(), agent)
        } else {
            self.wildcard.insert(text, agent)
        };
        if is_new {
            ctx.memory.charge(bytes_of(pattern));
            ctx.accounts.charge(Class::Subscriptions, agent, bytes_of(pattern));
        }
    }

    /// Removes a subscription. Removing one that is not there changes nothing.
    pub(super) fn remove(&mut self, ctx: &mut Context, pattern: &Pattern, agent: AgentKey) {
        let text = pattern.as_str();
        let was_there = if pattern.is_literal() {
            self.remove_literal(text, agent)
        } else {
            self.wildcard.remove(text, agent)
        };
        if was_there {
            ctx.memory.release(bytes_of(pattern));
            ctx.accounts.release(Class::Subscriptions, agent, bytes_of(pattern));
        }
    }

    fn remove_literal(&mut self, topic: &str, agent: AgentKey) -> bool {
        let Some(agents) = self.literal.get_mut(topic) else { return false };
        let was_there = remove_sorted(agents, agent);
        if agents.is_empty() {
            self.literal.remove(topic);
        }
        was_there
    }

    /// Appends all agents that subscribe to `topic`, each once. Returns the work done, in visits of
    /// a node: those of the trie, half a visit for each token compared in them, and one for each
    /// subscription that matches.
    pub(super) fn collect(&self, topic: &str, agents: &mut Vec<AgentKey>) -> u64 {
        agents.extend(self.literal.get(topic).into_iter().flatten());
        let visited = self.wildcard.collect(topic, agents);
        let matching = agents.len() as u64;
        agents.sort_unstable();
        agents.dedup();
        visited.nodes + visited.tokens / 2 + matching
    }
}
