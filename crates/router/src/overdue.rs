//! Overdue messages: their time to live is over, and their sender's share of the store is used up.
//!
//! A sender can choose that thousands of messages end at one moment. Each end is a change for the
//! store, so it waits until its sender may hand more to the store, and nobody else waits for it.
//! Overdue messages are not delivered.

use super::{
    Router,
    context::Context,
    keys::{AgentKey, MessageKey},
    timers::TIMERS_PER_TICK,
};
use std::collections::{BTreeMap, VecDeque};

/// The messages that are overdue, by the principals that pay for their ends.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    /// No queue is empty. A message may have ended since.
    waiting: BTreeMap<AgentKey, VecDeque<MessageKey>>,
    /// Payers that may hand more to the store, in the order of their turns.
    ready: VecDeque<AgentKey>,
}

impl Overdue {
    /// Whether messages can be ended now.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Notes which payers may hand more to the store, after it has handled something.
    pub(super) fn note_handled(&mut self, ctx: &Context) {
        self.ready.clear();
        self.ready.extend(self.waiting.keys().filter(|payer| ctx.has_half_of_store(**payer)));
    }

    /// Removes and returns the oldest message of the payer whose turn it is.
    fn pop(&mut self, ctx: &Context) -> Option<MessageKey> {
        while let Some(payer) = self.ready.pop_front() {
            if !ctx.has_share_of_store(payer) {
                continue;
            }
            let Some(own) = self.waiting.get_mut(&payer) else { continue };
            let oldest = own.pop_front();
            if own.is_empty() {
                self.waiting.remove(&payer);
            } else {
                self.ready.push_back(payer);
            }
            return oldest;
        }
        None
    }
}

impl Router {
    /// Ends a message whose time to live is over, if its sender may hand more to the store. The
    /// sender has set the time to live, and pays.
    pub(super) fn expire_or_wait(&mut self, key: MessageKey) {
        let Some(message) = self.mail.message(key) else { return };
        let payer = self.ctx.accounts.listed_as(message.sent.from);
        let has_to_wait = message.reliable().is_some()
            && (self.overdue.waiting.contains_key(&payer) || !self.ctx.has_share_of_store(payer));
        if has_to_wait {
            self.overdue.waiting.entry(payer).or_default().push_back(key);
        } else {
            self.expire_at_cost_of_sender(key);
        }
    }

    /// Ends overdue messages whose senders may hand more to the store.
    pub(super) fn end_overdue(&mut self) {
        for _ in 0..TIMERS_PER_TICK {
            let Some(key) = self.overdue.pop(&self.ctx) else { break };
            let to = self.mail.message(key).map(|message| message.to);
            self.expire_at_cost_of_sender(key);
            if let Some(to) = to {
                self.pump(to);
            }
        }
    }
}
