//! The dedup windows of all senders, and the bound for all together.

use super::{
    dedup::{self, Holder, SendState},
    table::Mail,
};
use crate::{
    protocol::Moment,
    router::{context::Context, keys::AgentKey, send_digest::SendDigest},
};
use rustc_hash::FxHashMap;

impl Mail {
    /// Returns the state of a SEND, if it is remembered.
    pub(in crate::router) fn send_state(
        &self,
        sender: AgentKey,
        digest: SendDigest,
    ) -> Option<&SendState> {
        self.mailboxes.get(sender.0)?.dedup.state(digest)
    }

    /// Whether any of an agent's SENDs is remembered.
    pub(in crate::router) fn remembers_sends_of(&self, sender: AgentKey) -> bool {
        self.mailboxes.get(sender.0).is_some_and(|mailbox| !mailbox.dedup.is_empty())
    }

    /// Remembers the state of a SEND. `opened` deliveries are new; the sender's window keeps the
    /// latest `most` SENDs.
    pub(in crate::router) fn remember_send(
        &mut self,
        sender: AgentKey,
        digest: SendDigest,
        state: SendState,
        opened: u32,
        most: usize,
    ) {
        let window = &mut self.mailboxes[sender.0].dedup;
        self.dedup_entries -= window.len();
        window.note(digest, state, opened, most);
        self.dedup_entries += window.len();
    }

    /// Shrinks windows if all together have too many SENDs. `forget_at` tells when an absent
    /// agent's name is forgotten.
    pub(in crate::router) fn bound_dedup(
        &mut self,
        ctx: &Context,
        forget_at: impl Fn(AgentKey) -> Option<Moment>,
    ) {
        if self.dedup_entries <= ctx.limits.dedup_total_max {
            return;
        }
        let mut holders: Vec<_> = self.mailboxes.iter().collect();
        holders.sort_unstable_by_key(|(_, mailbox)| mailbox.number);
        let holders = holders.into_iter().map(|(slot, mailbox)| {
            let agent = AgentKey(slot);
            Holder { agent, forget_at: forget_at(agent), count: mailbox.dedup.len() }
        });
        let mut holders: Vec<_> = holders.collect();
        self.dedup_entries = dedup::share_out(&mut holders, ctx.limits.dedup_total_max);
        for Holder { agent, count, .. } in holders {
            self.mailboxes[agent.0].dedup.keep_last(count);
        }
    }

    /// Returns how many of its latest SENDs each sender may keep. `counts` has how many each sender
    /// has.
    pub(in crate::router) fn dedup_shares(
        ctx: &Context,
        counts: FxHashMap<AgentKey, usize>,
        forget_at: impl Fn(AgentKey) -> Option<Moment>,
    ) -> FxHashMap<AgentKey, usize> {
        let holders = counts.into_iter().map(|(agent, count)| {
            let count = count.min(ctx.limits.dedup_max);
            Holder { agent, forget_at: forget_at(agent), count }
        });
        let mut holders: Vec<_> = holders.collect();
        holders.sort_unstable_by_key(|holder| holder.agent);
        dedup::share_out(&mut holders, ctx.limits.dedup_total_max);
        holders.into_iter().map(|holder| (holder.agent, holder.count)).collect()
    }

    /// Forgets an at-most-once SEND that reached all its recipients.
    pub(in crate::router) fn forget_send(&mut self, sender: AgentKey, digest: SendDigest) {
        if let Some(mailbox) = self.mailboxes.get_mut(sender.0) {
            mailbox.dedup.forget(digest);
        }
    }

    /// Undoes the deliveries of a SEND to these recipients: a repeat goes to them again. Recipients
    /// that have the message from an earlier SEND keep it.
    pub(in crate::router) fn undo_send(
        &mut self,
        sender: AgentKey,
        digest: SendDigest,
        deliveries: usize,
        mut recipients: Vec<AgentKey>,
    ) {
        let Some(mailbox) = self.mailboxes.get_mut(sender.0) else { return };
        let Some(state) = mailbox.dedup.state(digest).cloned() else { return };
        let (had, number) = match state {
            SendState::Complete { recipients, number, .. } => (recipients.unwrap_or(1), number),
            SendState::Partial { recipients: had, left, number, .. } => {
                recipients.extend(left);
                (had, number)
            }
        };
        let had = had.saturating_sub(deliveries as u64);
        if had == 0 {
            mailbox.dedup.forget(digest);
        } else {
            let left = recipients;
            let state = SendState::Partial { recipients: had, left, number, ticket: 0 };
            mailbox.dedup.set_state(digest, state);
        }
    }
}
