//! The sequence numbers of streams, and the streams' records.
//!
//! The store reserves sequence numbers in blocks before they are used, so that no number is reused
//! after a crash. A guest's stream ends with its last message and never continues, so it needs no
//! reservation: the store has such a stream only while it has one of the stream's messages.

use super::table::Mail;
use crate::{
    context::Context,
    interface::PeerProcess,
    journal::Continuation,
    keys::{AgentKey, StreamKey},
};
use protocol::record::{Change, StreamRecord};

/// The number of sequence numbers in a block.
const BLOCK: u64 = 1_024;

/// The most blocks that are reserved at once.
const BLOCKS_MAX: u64 = 1_024;

/// Returns how many sequence numbers are reserved at once after `seq`: a quarter of those that were
/// used, in whole blocks. Thus a fast sender does not have to wait for a slow disk.
fn ahead(seq: u64) -> u64 {
    BLOCK * (1 + seq / (4 * BLOCK)).min(BLOCKS_MAX)
}

impl Mail {
    /// Assigns the sequence number of a new message of this process in its stream. The message goes
    /// out once its number is reserved.
    pub(crate) fn next_seq(
        &mut self,
        ctx: &mut Context,
        key: StreamKey,
        process: Option<PeerProcess>,
    ) -> u64 {
        let stream = &mut self.streams[key];
        stream.note_sender(process);
        let seq = stream.next_seq();
        let ahead = ahead(seq);
        if seq + ahead / 2 > stream.reserving {
            self.reserve(ctx, key, seq + ahead - 1);
        }
        seq
    }

    /// Assigns a new message's position in the order of all messages.
    pub(crate) fn next_order(&mut self, ctx: &mut Context, key: StreamKey) -> u64 {
        let order = ctx.journal.next_delivery();
        self.streams[key].last_order = order;
        order
    }

    fn reserve(&mut self, ctx: &mut Context, key: StreamKey, upto: u64) {
        self.streams[key].reserving = upto;
        let record = self.stream_record(ctx, key, upto);
        let ticket = ctx.record(Change::Stream(Box::new(record)));
        ctx.wait(ticket, Continuation::Reserve(key, upto));
    }

    /// Allows a stream to use sequence numbers up to this one. Returns the stream's recipient.
    pub(crate) fn note_reserved(&mut self, key: StreamKey, upto: u64) -> Option<AgentKey> {
        // The stream may be closed already, because its recipient's name was forgotten.
        let stream = self.streams.get_mut(key)?;
        stream.reserved = upto;
        let to = stream.to();
        self.refresh_turn(key);
        Some(to)
    }

    /// Records a stream that is not in the store yet.
    pub(crate) fn record_stream(&mut self, ctx: &mut Context, key: StreamKey) {
        if !self.streams[key].is_recorded {
            self.record_stream_anew(ctx, key);
        }
    }

    /// Records all recorded streams again, for a store that lost them.
    pub(crate) fn record_streams_again(&mut self, ctx: &mut Context) {
        for key in self.streams.keys() {
            if self.streams[key].is_recorded {
                self.record_stream_anew(ctx, key);
            }
        }
    }

    fn record_stream_anew(&mut self, ctx: &mut Context, key: StreamKey) {
        let reserving = self.streams[key].reserving;
        let reserved = if reserving == u64::MAX { 0 } else { reserving };
        let record = self.stream_record(ctx, key, reserved);
        ctx.record(Change::Stream(Box::new(record)));
    }

    /// Records the last assigned sequence numbers, in place of the reserved ones.
    pub(super) fn record_last_numbers(&mut self, ctx: &mut Context) {
        for key in self.streams.keys() {
            let stream = &self.streams[key];
            let (reserving, last) = (stream.reserving, stream.last_seq());
            if stream.is_recorded && reserving != u64::MAX && reserving != last {
                let record = self.stream_record(ctx, key, last);
                ctx.record(Change::Stream(Box::new(record)));
            }
        }
    }

    fn stream_record(&mut self, ctx: &mut Context, key: StreamKey, reserved: u64) -> StreamRecord {
        let stream = &mut self.streams[key];
        if !stream.is_recorded {
            stream.number = ctx.journal.next_stream();
            stream.is_recorded = true;
        }
        StreamRecord {
            number: stream.number,
            from: stream.sender_number(),
            to: self.mailboxes[stream.to().0].number,
            topic: stream.topic().cloned(),
            reserved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_grow_with_the_numbers_used() {
        assert_eq!([1, 513, 4_095].map(ahead), [BLOCK; 3]);
        assert_eq!([4_096, 1 << 20].map(ahead), [2 * BLOCK, 257 * BLOCK]);
        assert_eq!([1 << 30, 1 << 52].map(ahead), [BLOCKS_MAX * BLOCK; 2]);
    }
}
