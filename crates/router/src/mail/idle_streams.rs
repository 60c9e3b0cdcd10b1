//! Closing of idle streams: at the limit of open streams, the longest idle ones make room for
//! others, those of the principal that has most of them first, then the sender's own.
//!
//! A stream is idle if none of its messages waits, is in flight or is retained for replay. The last
//! sequence number of a closed stream is remembered, so that a client that resumes from a lower
//! number learns that it has missed messages. No sequence number is assigned twice: streams that
//! the sender opens later, even the same one, begin above the sender's floor.

use super::{mailbox::Floor, stream::Stream, table::Mail};
use crate::{
    accounts::{Class, Principal},
    context::Context,
    keys::{AgentKey, StreamKey},
    work::NODE_WORK,
};
use protocol::{
    Moment,
    record::{Change, StreamRecord},
};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The limit of open streams divided by this number is the most streams that are closed at once,
/// and as many as a search of all streams should close.
const PARTS: usize = 16;

/// The shortest time from a sender's search that closed too few streams to its next one.
const SEARCH_INTERVAL_MS: u64 = 1_000;

/// The two kinds of searches, as indices.
const ALL: usize = 0;
const OWN: usize = 1;

impl Mail {
    /// Whether another stream from this sender may be opened. If the sender's share is reached,
    /// closes idle streams: first of the principal that has most of them, if it holds more streams
    /// than the sender, then the sender's own.
    pub(crate) fn has_room_for_stream(&mut self, ctx: &mut Context, from: AgentKey) -> bool {
        if missing_streams(ctx, from) > 0 {
            self.close_streams_of_largest(ctx, from);
        }
        if missing_streams(ctx, from) > 0 {
            self.close_own_streams(ctx, from);
        }
        missing_streams(ctx, from) == 0
    }

    /// Closes the longest idle streams of the principal that has most of them, at most half of what
    /// it holds. Does nothing if the sender's last search closed too few shortly before.
    fn close_streams_of_largest(&mut self, ctx: &mut Context, from: AgentKey) {
        let (now, own) = (ctx.now.monotonic, ctx.accounts.principal(from));
        if now < self.search_after(from)[ALL] {
            return;
        }
        ctx.spend(NODE_WORK * self.streams.len() as u64);
        let mut idle: FxHashMap<Principal, Vec<StreamKey>> = FxHashMap::default();
        for (key, stream) in self.streams.iter().filter(|(_, stream)| self.is_idle(stream)) {
            idle.entry(ctx.accounts.principal(stream.from())).or_default().push(key);
        }
        let held = |holder| ctx.accounts.held(Class::Streams, holder);
        // The nameless are many, so one of them makes room for another.
        let may_lose = |holder| held(holder) > held(own) || (own.is_none() && holder.is_none());
        let largest = idle.into_iter().filter(|(holder, _)| may_lose(*holder));
        let largest = largest.max_by_key(|(holder, streams)| (streams.len(), *holder));
        let batch = ctx.limits.streams_max.div_ceil(PARTS);
        let mut closed = 0;
        if let Some((holder, streams)) = largest {
            let half = (held(holder) / 2).max(1);
            closed = self.close_longest_idle(ctx, streams, batch.min(half));
        }
        if closed < batch {
            self.search_after(from)[ALL] = now.plus(SEARCH_INTERVAL_MS);
        }
    }

    /// Closes the longest idle streams of a sender, at least as many as it needs if there are as
    /// many. Does nothing if the sender's last search closed too few shortly before.
    fn close_own_streams(&mut self, ctx: &mut Context, from: AgentKey) {
        let now = ctx.now.monotonic;
        if now < self.search_after(from)[OWN] {
            return;
        }
        let Some(sender) = self.mailboxes.get(from.0) else { return };
        let count = sender.sends.len();
        ctx.spend(NODE_WORK * count as u64);
        let idle = sender.sends.iter().copied().filter(|key| self.is_idle(&self.streams[*key]));
        let (idle, missing) = (idle.collect(), missing_streams(ctx, from));
        let batch = ctx.limits.streams_max.div_ceil(PARTS).min(count / 2);
        if self.close_longest_idle(ctx, idle, batch.max(missing)) < missing {
            self.search_after(from)[OWN] = now.plus(SEARCH_INTERVAL_MS);
        }
    }

    /// The moments until which a sender's next searches of [`ALL`] streams and of its [`OWN`] are
    /// put off. All forgotten senders have them in common.
    fn search_after(&mut self, from: AgentKey) -> &mut [Moment; 2] {
        match self.mailboxes.get_mut(from.0) {
            Some(sender) => &mut sender.search_after,
            None => &mut self.streams.search_after,
        }
    }

    /// Closes those of these idle streams that were silent longest, at most `most`. Returns how
    /// many.
    fn close_longest_idle(
        &mut self,
        ctx: &mut Context,
        mut idle: Vec<StreamKey>,
        most: usize,
    ) -> usize {
        idle.sort_unstable_by_key(|key| {
            let stream = &self.streams[*key];
            (stream.last_order, stream.number)
        });
        idle.truncate(most);
        self.raise_floors(ctx, &idle);
        for key in &idle {
            let (from, to) = (self.streams[*key].from(), self.streams[*key].to());
            self.mailboxes[from.0].sends.remove(key);
            self.mailboxes[to.0].receives.remove(key);
            self.streams.note_closed(*key);
            self.close_stream(ctx, *key);
        }
        idle.len()
    }

    fn is_idle(&self, stream: &Stream) -> bool {
        let mailbox = self.mailboxes.get(stream.to().0);
        let oldest = mailbox.and_then(|mailbox| mailbox.replay.oldest());
        let is_retained = oldest.is_some_and(|oldest| oldest <= stream.last_order);
        !stream.is_orphan && stream.is_empty() && !is_retained
    }

    /// Raises the senders' floors to the last numbers of these streams, and records them.
    fn raise_floors(&mut self, ctx: &mut Context, closing: &[StreamKey]) {
        let mut raised = BTreeSet::new();
        for key in closing {
            let stream = &self.streams[*key];
            let floor = &mut self.mailboxes[stream.from().0].floor;
            if floor.seq < stream.last_seq() {
                floor.seq = stream.last_seq();
                raised.insert(stream.from());
            }
        }
        for agent in raised {
            self.record_floor(ctx, agent);
        }
    }

    /// Records a sender's floor, if it has one. A guest does not return, so its floor is not
    /// recorded.
    pub(crate) fn record_floor(&mut self, ctx: &mut Context, agent: AgentKey) {
        let mailbox = &mut self.mailboxes[agent.0];
        if mailbox.floor.seq == 0 || mailbox.is_guest {
            return;
        }
        if mailbox.floor.number == 0 {
            mailbox.floor.number = ctx.journal.next_stream();
        }
        let (Floor { seq: reserved, number }, from) = (mailbox.floor, mailbox.number);
        let record = StreamRecord { number, from, to: 0, topic: None, reserved };
        ctx.record(Change::Stream(Box::new(record)));
    }

    /// Restores a sender's floor.
    pub(crate) fn restore_floor(&mut self, sender: AgentKey, seq: u64, number: u64) {
        self.mailboxes[sender.0].floor = Floor { seq, number };
    }

    /// Closes a stream, here and in the store.
    pub(super) fn close_stream(&mut self, ctx: &mut Context, key: StreamKey) {
        let Some(stream) = self.streams.close(key) else { return };
        ctx.accounts.release(Class::Streams, stream.from(), 1);
        if stream.is_recorded {
            ctx.record_end(stream.from(), Change::StreamEnded(stream.number));
        }
    }
}

/// Returns how many streams too many a sender's principal would hold with another one.
fn missing_streams(ctx: &Context, from: AgentKey) -> usize {
    let own = ctx.accounts.principal(from);
    ctx.accounts.excess(Class::Streams, own, 1, ctx.limits.streams_max)
}
