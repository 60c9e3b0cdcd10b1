//! What the daemon says itself, and how it ends a connection.

use super::{
    AgentKey, ClientId, CloseReason, Frame, Output, Router, Stopping,
    alarm::Alarm,
    client::{Stage, What},
};
use crate::protocol::{
    code::{NackCode, Violation},
    envelope::{Header, Kind},
    payload::{Ack, Bye, ErrorPayload, Nack},
};
use serde::Serialize;
use uuid::Uuid;

/// How long a connection, and the whole daemon, may take to write its last frames.
pub(super) const CLOSE_MS: u64 = 1_000;

/// Room for an ordinary answer.
const ANSWER_BYTES: usize = 192;

impl Router {
    /// Says something to a client, however full its queue is.
    pub(super) fn answer(&mut self, client: ClientId, kind: Kind, payload: &impl Serialize) {
        let (mut text, mut head) = (Uuid::encode_buffer(), self.room(ANSWER_BYTES));
        let id = self.new_id().hyphenated().encode_lower(&mut text);
        Header::new(kind, id, self.now.unix_ms).append(&mut head, payload);
        self.hand(client, Frame { head, shared: None }, What::Answer);
    }

    pub(super) fn acknowledge(&mut self, client: ClientId, ack_id: &str) {
        self.answer(client, Kind::Ack, &Ack { ack_id: ack_id.into(), ..Ack::default() });
    }

    pub(super) fn nack(
        &mut self,
        client: ClientId,
        ack_id: &str,
        code: NackCode,
        message: impl Into<String>,
    ) {
        self.answer(client, Kind::Nack, &Nack::new(ack_id, code, message));
    }

    /// Tells a sender what became of what it sent: the connection that said it, where that wasn't the
    /// agent's own, or else the one that the agent has now. Whoever isn't here hears nothing.
    pub(super) fn tell_sender(
        &mut self,
        (sender, by): (AgentKey, Option<ClientId>),
        recipient: AgentKey,
        ack_id: &str,
        code: NackCode,
        message: String,
    ) {
        let own = || self.roster.get(sender).and_then(|agent| agent.client);
        let Some(client) = by.or_else(own) else { return };
        let to = self.roster.get(recipient).map(|agent| agent.name.to_string());
        self.answer(client, Kind::Nack, &Nack { to, ..Nack::new(ack_id, code, message) });
    }

    /// Hands a frame out. To a connection that is being closed nothing more is said.
    pub(super) fn hand(&mut self, id: ClientId, frame: Frame, what: What) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if matches!(client.stage, Stage::Closing { .. } | Stage::HungUp) {
            return;
        }
        let bytes = frame.bytes();
        if what.is_answer() {
            self.memory.inside += bytes;
        }
        client.window.hand(bytes, what);
        let unread = client.window.answers();
        self.out.push(Output::Frame(id, frame));
        if unread > self.limits.answers_bytes_max {
            self.gate(id, false);
        }
    }

    /// Opens or shuts a client's gate, if it isn't so already.
    pub(super) fn gate(&mut self, id: ClientId, open: bool) {
        if let Some(client) = self.clients.get_mut(&id)
            && client.is_gated == open
        {
            client.is_gated = !open;
            self.out.push(Output::Gate(id, open));
        }
    }

    /// Answers a broken rule, and ends the connection if it was one of those.
    pub(super) fn violated(&mut self, client: ClientId, violation: Violation) {
        let code = violation.code;
        if code.is_fatal() && self.clients.contains_key(&client) {
            self.log(client, &violation.to_string());
        }
        self.answer(client, Kind::Error, &ErrorPayload::from(violation));
        if code.is_fatal() {
            self.close(client, CloseReason::Fault(code));
        }
    }

    /// Ends a connection; what was handed out is still written.
    pub(super) fn close(&mut self, id: ClientId, reason: CloseReason) {
        match self.clients.get(&id).map(|client| &client.stage) {
            None | Some(Stage::Closing { .. } | Stage::HungUp) => return,
            Some(Stage::Stranger { .. } | Stage::Contender(_) | Stage::Member(_)) => {}
        }
        self.unseat(id, reason.into());
        self.out.push(Output::Close(id, reason));
        if let Some(client) = self.clients.get_mut(&id) {
            client.stage = Stage::Closing { since: self.now.monotonic };
        }
        self.arm(id);
    }

    /// The daemon goes down: everybody is told, and has a moment to take it in.
    pub(super) fn stop(&mut self, reason: &'static str) {
        if self.stopping != Stopping::No {
            return;
        }
        self.stopping = Stopping::Begun;
        self.stop_reason = Some(reason);
        self.alarms.set(self.now.monotonic.plus(CLOSE_MS), Alarm::Stop);
        for agent in self.roster.keys() {
            self.drop_once(agent);
        }
        let mut all: Vec<_> = self.clients.keys().copied().collect();
        all.sort_unstable();
        for client in all {
            let bye = Bye { reason: reason.to_owned(), retry_after_ms: None };
            self.answer(client, Kind::Bye, &bye);
            self.close(client, CloseReason::Stopping);
        }
        self.stop_if_empty();
    }

    pub(super) fn stop_if_empty(&mut self) {
        if self.stopping == Stopping::Begun && self.clients.is_empty() {
            self.stopped();
        }
    }

    /// Whoever is left has had its moment.
    pub(super) fn stopped(&mut self) {
        self.stopping = Stopping::Done;
        self.keep_unwritten();
        self.settle_ledger();
        let is_open = |client: &&ClientId| !matches!(self.clients[client].stage, Stage::HungUp);
        let mut left: Vec<_> = self.clients.keys().filter(is_open).copied().collect();
        left.sort_unstable();
        self.out.extend(left.into_iter().map(Output::HangUp));
        self.out.push(Output::Stopped);
    }

    /// A line for the log about a client, by its name if it has one.
    pub(super) fn log(&mut self, id: ClientId, line: &str) {
        let agent = self.clients.get(&id).and_then(|client| client.agent);
        let line = match agent.and_then(|agent| self.roster.get(agent)) {
            Some(agent) => format!("{} (client {}): {line}", agent.name, id.0),
            None => format!("client {}: {line}", id.0),
        };
        self.out.push(Output::Log(line));
    }
}
