//! Leftovers: at-most-once messages that wait for an agent whose connection or session has ended.
//!
//! They may be thousands, so they end in portions, between which frames are handled. An agent that
//! is back meanwhile gets its mail once its leftovers have ended.

use super::{
    Router,
    keys::{AgentKey, MessageKey},
    work::DELIVERY_WORK,
};
use std::collections::BTreeMap;

/// The most leftovers that end at once.
pub(super) const LEFTOVERS_AT_ONCE: usize = if cfg!(test) { 4 } else { 256 };

/// The agents with leftovers.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// The order of each agent's last leftover.
    last: BTreeMap<AgentKey, u64>,
}

impl Leftovers {
    /// Whether there are leftovers to end.
    pub(super) fn is_ready(&self) -> bool {
        !self.last.is_empty()
    }

    /// Whether an agent has leftovers.
    pub(super) fn has(&self, agent: AgentKey) -> bool {
        self.last.contains_key(&agent)
    }
}

impl Router {
    /// Drops the at-most-once messages that wait for an agent, many of them later. Their senders
    /// get NACKs. The input that is being handled pays for all.
    pub(super) fn drop_at_most_once(&mut self, agent: AgentKey) {
        let before = self.leftovers.last.get(&agent).copied();
        let waiting = self.mail.waiting_at_most_once(agent, before.map_or(0, |last| last + 1)..);
        let (mut count, mut last) = (0, None);
        waiting.for_each(|(order, _)| (count, last) = (count + 1, Some(order)));
        if let Some(last) = last {
            self.ctx.spend(DELIVERY_WORK * count);
            self.leftovers.last.insert(agent, last);
            self.end_leftovers_of(agent);
        }
    }

    /// Ends some leftovers of one agent.
    pub(super) fn end_leftovers(&mut self) {
        if let Some((agent, _)) = self.leftovers.last.first_key_value() {
            self.end_leftovers_of(*agent);
        }
    }

    /// Ends all leftovers of an agent at once.
    pub(super) fn end_all_leftovers_of(&mut self, agent: AgentKey) {
        while self.leftovers.has(agent) {
            self.end_leftovers_of(agent);
        }
    }

    fn end_leftovers_of(&mut self, agent: AgentKey) {
        let Some(last) = self.leftovers.last.get(&agent).copied() else { return };
        let waiting = self.mail.waiting_at_most_once(agent, ..=last).take(LEFTOVERS_AT_ONCE);
        let some: Vec<(u64, MessageKey)> = waiting.collect();
        let is_over =
            some.len() < LEFTOVERS_AT_ONCE || some.last().map(|(at, _)| *at) == Some(last);
        for (_, key) in some {
            if let Some(message) = self.mail.remove(&mut self.ctx, key)
                && !message.is_replay
            {
                self.mail.note_gone(message.stream, message.seq);
                self.undelivered(&message.sent, message.to);
            }
        }
        if is_over {
            self.leftovers.last.remove(&agent);
            self.pump(agent);
        }
    }
}
