//! Departures: ends of connections and sessions, and the effects on their mail.

use super::{
    Router,
    connections::Content,
    interface::{ClientId, CloseReason, Output},
    keys::AgentKey,
    mail::Sent,
    notices,
    work::DELIVERY_WORK,
};
use protocol::{
    code::{ErrorCode, NackCode, Violation},
    envelope::Kind,
    payload::{ErrorPayload, Nack},
    record::Change,
};

/// The reason why a member leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Departure {
    /// The connection ended without BYE, or the member broke a rule. An unacknowledged delivery may
    /// be the cause: the oldest one counts as failed.
    Lost,
    /// Another connection continues the member's session.
    Replaced,
    /// The member sent BYE, which ends its session.
    Bye,
    /// The daemon stops.
    Stopped,
}

impl From<CloseReason> for Departure {
    fn from(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Bye => Self::Bye,
            CloseReason::Stopping => Self::Stopped,
            CloseReason::Fault(ErrorCode::SessionReplaced) => Self::Replaced,
            CloseReason::Fault(_) => Self::Lost,
        }
    }
}

impl Router {
    /// Answers a violation with an ERROR, and ends the connection if the code is fatal.
    pub(super) fn violated(&mut self, id: ClientId, violation: Violation) {
        let code = violation.code;
        if code.is_fatal() && self.connections.contains(id) {
            self.log(id, &violation.to_string());
        }
        self.connections.answer(&mut self.ctx, id, Kind::Error, &ErrorPayload::from(violation));
        if code.is_fatal() {
            self.close(id, CloseReason::Fault(code));
        }
    }

    /// Closes a connection. Frames that were handed out are still written.
    pub(super) fn close(&mut self, id: ClientId, reason: CloseReason) {
        if self.connections.is_open(id) {
            self.leave(id, reason.into());
            self.connections.release_frames(&mut self.ctx, id);
            self.ctx.emit(Output::Close(id, reason));
            self.connections.close(&mut self.ctx, id);
        }
    }

    /// Handles the end of a connection. At-most-once messages that were handed out, not written and
    /// not retained by the session are lost: their senders get NACKs.
    pub(super) fn disconnected(&mut self, id: ClientId) {
        self.leave(id, Departure::Lost);
        let Some((agent, mut window)) = self.connections.remove(&mut self.ctx, id) else { return };
        while let Some(agent) = agent
            && let Some(frame) = window.pop()
        {
            match frame.content {
                Content::Notice(notice) => self.inform_agent(agent, notice),
                Content::Answer | Content::Copy | Content::AtLeastOnce(_) => {}
                Content::AtMostOnce { sent, charged, .. } => {
                    self.mail.release(&mut self.ctx, agent, &sent, charged);
                    self.undelivered(&sent, agent);
                }
            }
        }
        if let Some(agent) = agent
            && self.directory.get(agent).is_some_and(|it| it.is_guest() && it.client.is_none())
        {
            self.guest_left(agent);
        }
        self.stop_if_empty();
    }

    /// Forgets a guest, unless it may return and send again what it does not know to be accepted.
    fn guest_left(&mut self, agent: AgentKey) {
        if self.directory[agent].guest_key.is_some() && self.mail.remembers_sends_of(agent) {
            self.directory.schedule_forgetting(&mut self.ctx, agent);
        } else {
            self.forget_in_steps(agent);
        }
    }

    /// Sends a NACK to the sender of an at-most-once message whose recipient left before the
    /// message was written.
    pub(super) fn undelivered(&mut self, sent: &Sent, to: AgentKey) {
        self.ctx.counts.refused += 1;
        let Some(name) = self.ctx.planted.reported(self.directory.name(to)) else { return };
        let message = format!("{name} went away before it was delivered");
        let id = sent.id.as_str();
        self.nack_sender(sent.from, sent.by, to, id, NackCode::AgentOffline, message);
    }

    /// Sends a NACK about one recipient of a SEND: to the connection `by`, if a companion or an
    /// operator sent the message, or else to the sender's current connection. A sender that is away
    /// gets none.
    pub(super) fn nack_sender(
        &mut self,
        sender: AgentKey,
        by: Option<ClientId>,
        recipient: AgentKey,
        ack_id: &str,
        code: NackCode,
        message: String,
    ) {
        let Some(client) = by.or_else(|| self.directory.client(sender)) else { return };
        let to = self.directory.name(recipient).map(ToString::to_string);
        let nack = Nack { to, ..Nack::new(ack_id, code, message) };
        self.connections.answer(&mut self.ctx, client, Kind::Nack, &nack);
    }

    /// Ends a connection's membership, or its wait for a handshake or a name.
    fn leave(&mut self, id: ClientId, departure: Departure) {
        if self.connections.membership(id).is_some() {
            self.log(id, "left");
        }
        if let Some((agent, membership)) = self.connections.leave(&mut self.ctx, id) {
            self.requests.leave(id);
            if !membership.is_beside() {
                self.end_membership(id, agent, departure);
            }
        }
    }

    fn end_membership(&mut self, id: ClientId, agent: AgentKey, departure: Departure) {
        self.directory.leave(agent, self.ctx.now.unix_ms);
        let suspect = self.mail.take_back(&mut self.ctx, agent);
        // A bridge's connections end when its link does, which is no failure of a message.
        let is_bridge = self.directory[agent].name.host().is_some();
        if let Some(key) = suspect.filter(|_| departure == Departure::Lost && !is_bridge) {
            self.count_failure(key);
        }
        let session = self.directory.session(agent);
        let can_resume = session.is_some_and(|session| session.capabilities.resume);
        if can_resume && matches!(departure, Departure::Lost | Departure::Replaced) {
            self.drop_replays(agent);
            self.retract(id, agent);
        } else {
            self.drop_at_most_once(agent);
        }
        match departure {
            Departure::Replaced => {}
            Departure::Bye => {
                self.directory.drop_guest_key(agent);
                self.end_session(agent);
            }
            Departure::Lost | Departure::Stopped => {
                self.directory.leave_session(&mut self.ctx, agent);
            }
        }
        if departure != Departure::Replaced && !self.directory[agent].is_guest() {
            self.directory.schedule_forgetting(&mut self.ctx, agent);
        }
        self.directory.note_freed(agent);
        // At the daemon's end, no agent's leaving is reported.
        if !matches!(departure, Departure::Replaced | Departure::Stopped) {
            self.notify_presence(agent);
        }
    }

    /// Queues again the retained messages that were handed to a connection and are not written yet.
    /// The connection may still write them: the recipient recognises a duplicate by its id.
    fn retract(&mut self, id: ClientId, agent: AgentKey) {
        let mut retracted = Vec::new();
        self.connections.retract(id, |order| {
            let message = self.mail.take_retained(&mut self.ctx, agent, order);
            let is_retained = message.is_some();
            retracted.extend(message);
            is_retained
        });
        self.ctx.spend(DELIVERY_WORK * retracted.len() as u64);
        for message in retracted {
            self.mail.release(&mut self.ctx, agent, &message.sent, message.bytes);
            self.mail.insert(&mut self.ctx, message);
        }
    }

    /// Drops the replays that wait for an agent, because the connection that asked for them has
    /// ended.
    fn drop_replays(&mut self, agent: AgentKey) {
        for key in self.mail.waiting_replays(agent) {
            self.ctx.spend(DELIVERY_WORK);
            self.mail.remove(&mut self.ctx, key);
        }
    }

    /// Ends a session that was not resumed in time.
    pub(super) fn on_session_timer(&mut self, agent: AgentKey) {
        let now = self.ctx.now.monotonic;
        if self.directory.session(agent).is_some_and(|session| !session.is_good_at(now)) {
            self.end_session(agent);
        }
    }

    /// Ends a session, here and in the store.
    fn end_session(&mut self, agent: AgentKey) {
        if self.drop_session(agent) {
            let agent = self.directory[agent].number;
            self.ctx.record(Change::SessionEnded { agent });
        }
    }

    /// Removes an agent's session from every table, with its replay buffer, at-most-once messages
    /// and notices. Returns whether there was a session.
    pub(super) fn drop_session(&mut self, agent: AgentKey) -> bool {
        self.mail.drop_replay(&mut self.ctx, agent);
        self.drop_at_most_once(agent);
        for notice in self.notices.take(&mut self.ctx, agent) {
            notices::record_end(&mut self.ctx, agent, &notice);
        }
        self.directory.remove_session(&mut self.ctx, agent)
    }

    /// Forgets the name of an agent that stayed away too long.
    pub(super) fn on_agent_timer(&mut self, agent: AgentKey) {
        if self.directory.get(agent).is_some_and(|agent| agent.client.is_none()) {
            self.forget_in_steps(agent);
        }
    }
}
