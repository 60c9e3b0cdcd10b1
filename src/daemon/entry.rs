//! The entries of a client's queue: what its reader has read and the router has not handled.

use super::channel::ChannelAccount;
use client::link::{BufferedBytes, ReadQuota};
use protocol::{
    client_frame::{ClientBatch, ClientFrame},
    code::Violation,
};
use std::sync::Arc;

/// An entry of a client's queue in the schedule.
#[derive(Debug)]
pub(super) enum Entry {
    /// Frames, of which the first ones may be handled already.
    Frames(QueuedFrames),
    /// The client's reader read something else than frames, or the client is another user's.
    Violated(Violation),
    /// The client's reader has ended. This is the last entry.
    Ended,
}

/// Parsed frames that use their reader's quota until they are dropped.
#[derive(Debug)]
pub(super) struct QueuedFrames {
    batch: ClientBatch,
    /// The index of the next frame.
    next: usize,
    bytes: usize,
    quota: Quota,
    buffered: BufferedBytes,
}

/// A limit for the parsed frames of a client.
#[derive(Clone, Debug)]
pub(super) enum Quota {
    /// The quota of a connection's reader, which waits.
    Reader(Arc<ReadQuota>),
    /// The account of a channel, in which the client has spent credit.
    Channel(Arc<ChannelAccount>),
}

impl QueuedFrames {
    /// Waits until a reader's quota has room for a batch that is not empty. The batch counts in the
    /// memory from the beginning of the wait.
    pub(super) fn new(batch: ClientBatch, quota: Quota, buffered: &BufferedBytes) -> Self {
        let bytes = batch.bytes();
        buffered.add(bytes);
        match &quota {
            Quota::Reader(quota) => quota.acquire(bytes),
            Quota::Channel(account) => account.acquire(bytes),
        }
        Self { batch, next: 0, bytes, quota, buffered: buffered.clone() }
    }

    /// Returns the next frame.
    pub(super) fn frame(&self) -> ClientFrame<'_> {
        self.batch.frame(self.next)
    }

    /// Notes that the next frame is handled. Returns whether it was the last one.
    pub(super) fn advance(&mut self) -> bool {
        self.next += 1;
        self.next == self.batch.len()
    }
}

impl Drop for QueuedFrames {
    fn drop(&mut self) {
        match &self.quota {
            Quota::Reader(quota) => quota.release(self.bytes),
            Quota::Channel(account) => account.release(self.bytes),
        }
        self.buffered.subtract(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Arc, thread};

    #[test]
    fn batch_counts_while_it_waits_for_the_quota() {
        const USED: usize = 10;
        let (quota, buffered) = (Arc::new(ReadQuota::new(USED)), BufferedBytes::default());
        quota.acquire(USED);
        let batch = ClientBatch::of_frame(b"{}");
        let bytes = batch.bytes();
        thread::scope(|scope| {
            let reader = Quota::Reader(Arc::clone(&quota));
            let waiting = scope.spawn(|| QueuedFrames::new(batch, reader, &buffered));
            while buffered.bytes() < bytes {
                thread::yield_now();
            }
            assert!(!waiting.is_finished());
            quota.release(USED);
            drop(waiting.join().unwrap());
        });
        assert_eq!(buffered.bytes(), 0);
    }
}
