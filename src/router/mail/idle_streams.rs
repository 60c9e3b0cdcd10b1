//! Closing of idle streams: at the limit of open streams, the longest idle ones make room for
//! others.
//!
//! A stream is idle if none of its messages waits, is in flight or is retained for replay. The last
//! sequence number of a closed stream is remembered, so that a client that resumes from a lower
//! number learns that it has missed messages. No sequence number is assigned twice: streams that
//! the sender opens later, even the same one, begin above the sender's floor.

use super::{mailbox::Floor, stream::Stream, table::Mail};
use crate::{
    record::{Change, StreamRecord},
    router::{
        context::Context,
        keys::{AgentKey, StreamKey},
    },
};
use std::collections::BTreeSet;

/// The limit of open streams divided by this number is how many streams are closed at once. A
/// search is too expensive to close only one stream.
const PARTS: usize = 16;

/// The shortest time from a search that found too few idle streams to the next search.
const SEARCH_INTERVAL_MS: u64 = 1_000;

impl Mail {
    /// Whether another stream may be opened. Closes idle streams if the limit is reached.
    pub(in crate::router) fn has_room_for_stream(&mut self, ctx: &mut Context) -> bool {
        self.close_idle_streams(ctx);
        self.streams.len() < ctx.limits.streams_max
    }

    fn close_idle_streams(&mut self, ctx: &mut Context) {
        let (now, most) = (ctx.now.monotonic, ctx.limits.streams_max);
        if self.streams.len() < most || now < self.streams.search_after {
            return;
        }
        let idle = self.streams.iter().filter(|(_, stream)| self.is_idle(stream));
        let mut idle: Vec<_> =
            idle.map(|(key, stream)| (stream.last_order, stream.number, key)).collect();
        let wanted = most.div_ceil(PARTS);
        if idle.len() < wanted {
            self.streams.search_after = now.plus(SEARCH_INTERVAL_MS);
        }
        idle.sort_unstable();
        idle.truncate(wanted);
        let idle: Vec<_> = idle.into_iter().map(|(_, _, key)| key).collect();
        self.raise_floors(ctx, &idle);
        for key in idle {
            let (from, to) = (self.streams[key].from(), self.streams[key].to());
            self.mailboxes[from.0].sends.remove(&key);
            self.mailboxes[to.0].receives.remove(&key);
            self.streams.note_closed(key);
            self.close_stream(ctx, key);
        }
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
    pub(in crate::router) fn record_floor(&mut self, ctx: &mut Context, agent: AgentKey) {
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
    pub(in crate::router) fn restore_floor(&mut self, sender: AgentKey, seq: u64, number: u64) {
        self.mailboxes[sender.0].floor = Floor { seq, number };
    }

    /// Closes a stream, here and in the store.
    pub(super) fn close_stream(&mut self, ctx: &mut Context, key: StreamKey) {
        if let Some(stream) = self.streams.close(key)
            && stream.is_recorded
        {
            ctx.record(Change::StreamEnded(stream.number));
        }
    }
}
