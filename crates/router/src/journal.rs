//! The journal: the changes given to the store, how many of them it has persisted, and the actions
//! that wait for that.
//!
//! Changes go to the store as [`Output::Persist`](super::Output::Persist). Each change has a
//! ticket, which is its sequence number. An action that waits for a change is queued here with the
//! change's ticket; for most changes, no action waits.

use super::{
    interface::ClientId,
    keys::{AgentKey, MessageKey, StreamKey},
    outcome::Outcome,
    send_digest::SendDigest,
    sender::SendId,
};
use protocol::record::LastNumbers;
use serde_json::value::RawValue;
use std::{collections::VecDeque, mem};
use uuid::Uuid;

/// Tickets, the actions that wait for them, and the last numbers assigned to records.
#[derive(Debug, Default)]
pub(super) struct Journal {
    recorded: u64,
    persisted: u64,
    /// The actions that wait, in the order of their tickets.
    line: VecDeque<(u64, Continuation)>,
    last: LastNumbers,
    last_notice: u64,
}

/// An action that waits until a change is persisted.
#[derive(Debug)]
pub(super) enum Continuation {
    /// Accepts a SEND and lets its deliveries go out.
    Accept(Box<PendingSend>),
    /// Answers a SEND that was repeated, maybe on another connection, while the first one was being
    /// persisted.
    Repeat(Acceptance, AgentKey, SendDigest),
    /// Allows a stream to use sequence numbers up to this one.
    Reserve(StreamKey, u64),
    /// Allows at-least-once messages to a client, now that the store has recorded its arrival.
    Join(ClientId),
    /// Acknowledges a change of subscriptions, by the id of its frame.
    Subscribe(ClientId, SendId),
    /// Tells a sender how its message ended.
    Tell(Box<Outcome>),
    /// Hands an agent the notices that waited for it.
    Notices(AgentKey),
    /// Answers a client's request with this `data`.
    Respond(ClientId, Box<RawValue>),
}

/// A SEND that is being persisted.
#[derive(Debug)]
pub(super) struct PendingSend {
    pub(super) sender: AgentKey,
    pub(super) digest: SendDigest,
    pub(super) deliveries: Vec<MessageKey>,
    /// Whether no recipient has the message from an earlier SEND.
    pub(super) is_first: bool,
    /// The ACK for the sender; none if BUSY asked the sender to repeat the SEND.
    pub(super) acceptance: Option<Acceptance>,
}

/// The ACK that tells a sender that its SEND is accepted.
#[derive(Clone, Debug)]
pub(super) struct Acceptance {
    pub(super) client: ClientId,
    pub(super) send_id: SendId,
    pub(super) recipients: Option<u64>,
    pub(super) away: bool,
    /// The question, by its delivery's id, whose answer the SEND is. Its sender gets no ACK.
    pub(super) answers: Option<Uuid>,
}

impl Journal {
    /// Counts a change that was handed to the store. Returns its ticket.
    pub(super) const fn note_recorded(&mut self) -> u64 {
        self.recorded += 1;
        self.recorded
    }

    /// Returns the ticket of the last change.
    pub(super) const fn last_ticket(&self) -> u64 {
        self.recorded
    }

    /// Whether all changes are persisted, and no action waits.
    pub(super) fn is_settled(&self) -> bool {
        self.recorded == self.persisted && self.line.is_empty()
    }

    pub(super) const fn is_persisted(&self, ticket: u64) -> bool {
        ticket <= self.persisted
    }

    /// Queues an action until the change with this ticket is persisted. Tickets never decrease from
    /// call to call.
    pub(super) fn wait(&mut self, ticket: u64, continuation: Continuation) {
        self.line.push_back((ticket, continuation));
    }

    /// Notes that the store has handled all changes up to this ticket.
    pub(super) fn advance(&mut self, upto: u64) {
        self.persisted = upto.min(self.recorded);
    }

    /// Whether the change of the first action in line is persisted.
    pub(super) fn has_ready(&self) -> bool {
        self.line.front().is_some_and(|(ticket, _)| *ticket <= self.persisted)
    }

    /// Returns the last ticket with nothing left to do: its change and all before it are persisted,
    /// and no action waits.
    pub(super) fn concluded(&self) -> u64 {
        let first = self.line.front().map_or(u64::MAX, |(ticket, _)| ticket.saturating_sub(1));
        first.min(self.persisted)
    }

    /// Removes and returns the first action in line, if its change is persisted.
    pub(super) fn next_ready(&mut self) -> Option<Continuation> {
        self.line.pop_front_if(|(ticket, _)| *ticket <= self.persisted).map(|(_, ready)| ready)
    }

    /// Returns the outcomes that wait to be told.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.line.iter().filter_map(|(_, continuation)| match continuation {
            Continuation::Tell(outcome) => Some(&**outcome),
            _ => None,
        })
    }

    /// Drops the actions that wait, because the daemon ends. Returns the outcomes that were to be
    /// told.
    pub(super) fn drop_line(&mut self) -> Vec<Outcome> {
        let line = mem::take(&mut self.line).into_iter();
        let told = line.filter_map(|(_, continuation)| match continuation {
            Continuation::Tell(outcome) => Some(*outcome),
            _ => None,
        });
        told.collect()
    }

    /// Continues the numbers of an earlier daemon.
    pub(super) const fn restore(&mut self, last: LastNumbers) {
        self.last = last;
    }

    pub(super) const fn next_agent(&mut self) -> u64 {
        self.last.agent += 1;
        self.last.agent
    }

    pub(super) const fn next_message(&mut self) -> u64 {
        self.last.message += 1;
        self.last.message
    }

    pub(super) const fn next_stream(&mut self) -> u64 {
        self.last.stream += 1;
        self.last.stream
    }

    pub(super) const fn next_delivery(&mut self) -> u64 {
        self.last.delivery += 1;
        self.last.delivery
    }

    pub(super) const fn next_notice(&mut self) -> u64 {
        self.last_notice += 1;
        self.last_notice
    }

    /// Notes the number of a notice that an earlier daemon recorded.
    pub(super) fn note_notice(&mut self, number: u64) {
        self.last_notice = self.last_notice.max(number);
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Journal {
        /// Returns the sender of each outcome that waits to be told, and the outcome's bytes.
        pub(crate) fn charged(&self) -> impl Iterator<Item = (AgentKey, usize)> {
            self.outcomes().map(Outcome::charged)
        }
    }
}
