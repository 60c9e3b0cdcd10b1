//! A client's request queue: each connection is answered in the order in which it asked.
//!
//! While the store looks something up for a connection, or the policy file is read, the
//! connection's later requests wait here. A connection has one query at a time, so the connection
//! identifies the request that a result answers.

use super::request::Request;
use crate::{interface::ClientId, send_request::Refusal};
use protocol::record::Query;
use serde_json::value::RawValue;
use std::collections::VecDeque;

/// The most requests of one connection that may wait for an earlier one.
pub(super) const WAITING_MAX: usize = 32;

/// The most bytes of their `data`.
pub(super) const WAITING_BYTES_MAX: usize = 8 * 1024;

/// An operation outside the router that a request waits for.
#[derive(Debug)]
pub(super) enum Operation {
    /// A query of the store.
    Query(Query),
    /// Reading the policy file again.
    Reload,
    /// Persisting what the request has changed. The `data` is its answer.
    Persist(Box<RawValue>),
}

/// A request that is not answered yet.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) client: ClientId,
    pub(super) send_id: Box<str>,
    pub(super) requires_ack: bool,
    /// The length of its `data`.
    pub(super) bytes: usize,
    pub(super) request: Result<Request, Refusal>,
}

/// A connection's queue.
#[derive(Debug)]
pub(super) struct Queue {
    /// The request that waits for an operation.
    pub(super) first: PendingRequest,
    /// Whether the store is queried a second time, because its first answer was outdated.
    pub(super) is_second: bool,
    /// The requests that follow.
    pub(super) waiting: VecDeque<PendingRequest>,
}

impl Queue {
    /// Appends a request. An error means that the queue is full.
    pub(super) fn push(&mut self, request: PendingRequest) -> Result<(), ()> {
        let bytes: usize = self.waiting.iter().map(|request| request.bytes).sum();
        if self.waiting.len() >= WAITING_MAX || bytes + request.bytes > WAITING_BYTES_MAX {
            return Err(());
        }
        self.waiting.push_back(request);
        Ok(())
    }
}
