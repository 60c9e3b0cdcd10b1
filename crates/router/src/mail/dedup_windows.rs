//! The dedup windows of all senders, and the bound for all together.

use super::{
    dedup::{self, DedupWindow, Holder, SendState},
    table::Mail,
};
use crate::{context::Context, keys::AgentKey, send_digest::SendDigest};
use protocol::Moment;
use rustc_hash::FxHashMap;

impl Mail {
    /// Returns the state of a SEND, if it is remembered.
    pub(crate) fn send_state(&self, sender: AgentKey, digest: SendDigest) -> Option<&SendState> {
        self.mailboxes.get(sender.0)?.dedup.state(digest)
    }

    /// Whether any of an agent's SENDs is remembered.
    pub(crate) fn remembers_sends_of(&self, sender: AgentKey) -> bool {
        self.mailboxes.get(sender.0).is_some_and(|mailbox| !mailbox.dedup.is_empty())
    }

    /// Changes an agent's window, with the count of all SENDs, and charges the agent for the lists
    /// of recipients in the window.
    pub(super) fn change_dedup(
        &mut self,
        ctx: &mut Context,
        sender: AgentKey,
        change: impl FnOnce(&mut DedupWindow),
    ) {
        let Some(mailbox) = self.mailboxes.get_mut(sender.0) else { return };
        let window = &mut mailbox.dedup;
        let (entries, bytes) = (window.len(), window.left_bytes());
        change(window);
        self.dedup_entries = self.dedup_entries - entries + window.len();
        if window.left_bytes() != bytes {
            ctx.charge_memory(sender, window.left_bytes());
            ctx.release_memory(sender, bytes);
        }
    }

    /// Remembers the state of a SEND. `opened` deliveries are new; the sender's window keeps the
    /// latest `most` SENDs.
    pub(crate) fn remember_send(
        &mut self,
        ctx: &mut Context,
        sender: AgentKey,
        digest: SendDigest,
        state: SendState,
        opened: u32,
        most: usize,
    ) {
        self.change_dedup(ctx, sender, |window| window.note(digest, state, opened, most));
    }

    /// Shrinks windows if all together have too many SENDs. `forget_at` tells when an absent
    /// agent's name is forgotten.
    pub(crate) fn bound_dedup(
        &mut self,
        ctx: &mut Context,
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
        dedup::share_out(&mut holders, ctx.limits.dedup_total_max);
        for Holder { agent, count, .. } in holders {
            self.change_dedup(ctx, agent, |window| window.keep_last(count));
        }
    }

    /// Returns how many of its latest SENDs each sender may keep. `counts` has how many each sender
    /// has.
    pub(crate) fn dedup_shares(
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
    pub(crate) fn forget_send(&mut self, ctx: &mut Context, sender: AgentKey, digest: SendDigest) {
        self.change_dedup(ctx, sender, |window| window.forget(digest));
    }

    /// Undoes the deliveries of a SEND to these recipients: a repeat goes to them again. Recipients
    /// that have the message from an earlier SEND keep it.
    pub(crate) fn undo_send(
        &mut self,
        ctx: &mut Context,
        sender: AgentKey,
        digest: SendDigest,
        deliveries: usize,
        mut recipients: Vec<AgentKey>,
    ) {
        let Some(state) = self.send_state(sender, digest).cloned() else { return };
        let (had, number) = match state {
            SendState::Complete { recipients, number, .. } => (recipients.unwrap_or(1), number),
            SendState::Partial { recipients: had, left, number, .. } => {
                recipients.extend(left);
                (had, number)
            }
        };
        let had = had.saturating_sub(deliveries as u64);
        let state = SendState::Partial { recipients: had, left: recipients, number, ticket: 0 };
        self.change_dedup(ctx, sender, |window| match had {
            0 => window.forget(digest),
            _ => window.set_state(digest, state),
        });
    }
}
