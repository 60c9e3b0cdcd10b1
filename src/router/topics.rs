//! Who hears which topic.

use super::{AgentKey, hash::FastMap};
use crate::protocol::topic::Pattern;

/// Everybody's subscriptions: plain ones by their topic, those with wildcards in a row.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    plain: FastMap<Box<str>, Vec<AgentKey>>,
    wild: Vec<(Pattern, AgentKey)>,
}

impl Subscriptions {
    pub(super) fn add(&mut self, pattern: &Pattern, agent: AgentKey) {
        if pattern.is_literal() {
            self.plain.entry(pattern.as_str().into()).or_default().push(agent);
        } else {
            self.wild.push((pattern.clone(), agent));
        }
    }

    pub(super) fn remove(&mut self, pattern: &Pattern, agent: AgentKey) {
        if let Some(agents) = self.plain.get_mut(pattern.as_str()) {
            agents.retain(|other| *other != agent);
            if agents.is_empty() {
                self.plain.remove(pattern.as_str());
            }
        } else {
            self.wild.retain(|(other, who)| *who != agent || other != pattern);
        }
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
