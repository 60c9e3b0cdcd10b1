//! The state of `@relay`: request queues, taps, reports about ended deliveries, and the sequence
//! numbers of the answers.

use super::{
    queue::{PendingRequest, Queue},
    reports::Reports,
};
use crate::{interface::ClientId, keys::AgentKey};
use protocol::relay::Reported;
use rustc_hash::FxHashMap;
use serde_json::value::RawValue;
use std::mem;
use uuid::Uuid;

/// All state of `@relay`.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The queues of clients whose first request waits for the store or the policy file.
    queues: FxHashMap<ClientId, Queue>,
    taps: Vec<Tap>,
    reports: Reports,
    /// The last sequence number in the stream of answers to each agent, counted from `seq_base`.
    seqs: FxHashMap<AgentKey, u64>,
    seq_base: u64,
    /// The work for agents that no frame of theirs has paid for: answers that waited for the store,
    /// repeated deliveries.
    debts: FxHashMap<AgentKey, u64>,
    about_daemon: Option<Box<RawValue>>,
}

/// A client that gets copies of all routed messages, or all changes.
#[derive(Debug)]
pub(super) struct Tap {
    pub(super) client: ClientId,
    /// The id of the request that began the tap.
    pub(super) request: Box<str>,
    /// Whether the client gets changes in place of copies.
    pub(super) has_changes: bool,
    /// The number of copies or changes that did not fit into the window and are not reported as
    /// lost yet.
    lost: u64,
}

impl Requests {
    /// Sets the description of the daemon's process, a JSON object, for the answers to `status`.
    pub(crate) fn describe_daemon(&mut self, about: Box<RawValue>) {
        self.about_daemon = Some(about);
    }

    pub(super) fn about_daemon(&self) -> Option<&RawValue> {
        self.about_daemon.as_deref()
    }

    /// Puts a request into its client's queue. Returns the request if the client has no queue, so
    /// that the request can be served at once. An error means that the queue is full.
    pub(super) fn enqueue(
        &mut self,
        request: PendingRequest,
    ) -> Result<Option<PendingRequest>, ()> {
        match self.queues.get_mut(&request.client) {
            None => Ok(Some(request)),
            Some(queue) => queue.push(request).map(|()| None),
        }
    }

    /// Makes a client's requests wait until the first one is answered.
    pub(super) fn wait(&mut self, queue: Queue) {
        self.queues.insert(queue.first.client, queue);
    }

    /// Removes and returns a client's queue, because its first request can be answered now.
    pub(super) fn take_queue(&mut self, client: ClientId) -> Option<Queue> {
        self.queues.remove(&client)
    }

    /// Forgets a client that has left.
    pub(crate) fn leave(&mut self, client: ClientId) {
        self.taps.retain(|tap| tap.client != client);
        self.queues.remove(&client);
    }

    /// Adds work that an agent's next frame pays for, on this connection or a later one.
    pub(crate) fn add_debt(&mut self, agent: AgentKey, work: u64) {
        if work > 0 {
            *self.debts.entry(agent).or_default() += work;
        }
    }

    /// Removes and returns the work that an agent has not paid for.
    pub(crate) fn take_debt(&mut self, agent: AgentKey) -> u64 {
        if self.debts.is_empty() { 0 } else { self.debts.remove(&agent).unwrap_or(0) }
    }

    /// Forgets an agent.
    pub(crate) fn forget(&mut self, agent: AgentKey) {
        self.seqs.remove(&agent);
        self.debts.remove(&agent);
    }

    /// Begins a client's tap. If the client has one already, it starts over for this request.
    pub(super) fn begin_tap(&mut self, client: ClientId, request: &str, has_changes: bool) {
        let fresh = Tap { client, request: request.into(), has_changes, lost: 0 };
        match self.taps.iter_mut().find(|tap| tap.client == client) {
            Some(tap) => *tap = fresh,
            None => self.taps.push(fresh),
        }
    }

    pub(super) fn taps(&self) -> &[Tap] {
        &self.taps
    }

    /// Whether a client gets changes.
    pub(crate) fn follows_changes(&self) -> bool {
        self.taps.iter().any(|tap| tap.has_changes)
    }

    /// Whether a tap has lost copies since the last call of
    /// [`take_lost_copies`](Self::take_lost_copies).
    pub(super) fn has_lost_copies(&self, tap: usize) -> bool {
        self.taps[tap].lost > 0
    }

    /// Counts a copy that found no room in a tap's window.
    pub(super) fn note_lost_copy(&mut self, tap: usize) {
        self.taps[tap].lost += 1;
    }

    /// Returns how many copies a tap has lost since the last call.
    pub(super) fn take_lost_copies(&mut self, tap: usize) -> u64 {
        mem::take(&mut self.taps[tap].lost)
    }

    /// Adds to a tap's lost copies again what could not be reported.
    pub(super) fn return_lost_copies(&mut self, tap: usize, lost: u64) {
        self.taps[tap].lost += lost;
    }

    /// Returns the sequence number of the next answer to an agent.
    pub(super) fn next_seq(&mut self, agent: AgentKey) -> u64 {
        let seq = self.seqs.entry(agent).or_default();
        *seq += 1;
        self.seq_base + *seq
    }

    /// Returns the sequence number of the last answer to an agent.
    pub(crate) fn last_seq(&self, agent: AgentKey) -> u64 {
        self.seq_base + self.seqs.get(&agent).copied().unwrap_or(0)
    }

    /// Continues the sequence numbers of all answers above `base`.
    pub(crate) const fn continue_seqs(&mut self, base: u64) {
        self.seq_base = base;
    }

    /// Remembers a delivery that has just ended, with its last report.
    pub(crate) fn close_reported(&mut self, id: Uuid, to: AgentKey, reported: Option<Reported>) {
        self.reports.close(id, to, reported);
    }

    /// Adds a report to an ended delivery. Returns whether the delivery is known.
    pub(super) fn add_report(&mut self, id: Uuid, reported: Reported) -> bool {
        self.reports.add(id, reported)
    }

    pub(super) const fn reports(&self) -> &Reports {
        &self.reports
    }
}
