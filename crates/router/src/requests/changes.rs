//! Changes of deliveries and agents, for the taps that asked for them.
//!
//! A change is made only while somebody follows changes. A tap whose window is full loses changes,
//! and gets their number as a change of its own as soon as there is room.

use super::rows::raw;
use crate::{
    Router,
    connections::{Content, Doing},
    interface::ClientId,
    keys::{AgentKey, MessageKey},
    mail::{HEAD_BYTES_MAX, Message},
    send_request::{Queued, SendRequest},
};
use protocol::{
    code::NackCode,
    name::Name,
    record::Ending,
    relay::{
        ACCEPTED, ACKNOWLEDGED, CHANGE, Change, ChangeKind, DEAD, JOINED, LEFT, REDELIVERED,
        RENAMED,
    },
};
use uuid::Uuid;

impl Router {
    /// Tells that an at-least-once delivery is persisted.
    pub(crate) fn notify_accepted(&mut self, key: MessageKey) {
        if let Some(change) = self.change_of(key, ACCEPTED) {
            let at = self.mail.message(key).and_then(Message::reliable).map(|own| own.unix_ms);
            self.notify(&Change { at: at.unwrap_or(change.at), ..change });
        }
    }

    /// Tells that an at-most-once message was accepted for one recipient.
    pub(crate) fn notify_at_most_once(
        &mut self,
        send: &SendRequest<'_>,
        to: AgentKey,
        queued: &Queued,
    ) {
        if send.requires_ack || !self.requests.follows_changes() {
            return;
        }
        let name = |agent| self.directory.name(agent).map(|name| name.to_string().into());
        let change = Change {
            state: Some(ACCEPTED.into()),
            id: Some(queued.id.to_string().into()),
            send_id: Some(send.envelope.id.as_ref().into()),
            from: name(send.from),
            to: name(to),
            topic: send.envelope.topic.as_deref().map(Into::into),
            requires_ack: Some(false),
            ..Change::new(ChangeKind::Message, self.ctx.now.unix_ms)
        };
        self.notify(&change);
    }

    /// Tells that a delivery ends. The delivery is still open.
    pub(crate) fn notify_end(&mut self, key: MessageKey, ending: &Ending) {
        let (state, code, why) = match ending {
            Ending::Acknowledged => (ACKNOWLEDGED, None, None),
            Ending::Dead { code, why } => (DEAD, Some(code.as_str()), Some(&**why)),
            Ending::Erased => (DEAD, Some(NackCode::Expired.as_str()), None),
        };
        if let Some(change) = self.change_of(key, state) {
            let (code, why) = (code.map(Into::into), why.map(Into::into));
            self.notify(&Change { code, why, ..change });
        }
    }

    /// Tells that a recipient has acknowledged a delivery after it had become a dead letter, whose
    /// message the router does not have any more.
    pub(crate) fn notify_acknowledged_late(&mut self, id: Uuid, to: AgentKey) {
        if self.requests.follows_changes() {
            let to = self.directory.name(to).map(|name| name.to_string().into());
            self.notify(&Change {
                state: Some(ACKNOWLEDGED.into()),
                id: Some(id.to_string().into()),
                to,
                ..Change::new(ChangeKind::Message, self.ctx.now.unix_ms)
            });
        }
    }

    /// Tells that a dead letter is delivered again.
    pub(crate) fn notify_redelivered(&mut self, id: Uuid) {
        if let Some((key, _)) = self.mail.delivery(id)
            && let Some(change) = self.change_of(key, REDELIVERED)
        {
            self.notify(&change);
        }
    }

    /// Tells that an answer to a question was passed on.
    pub(crate) fn notify_answer(
        &mut self,
        delivery: Uuid,
        (from, to): (AgentKey, AgentKey),
        send_id: &str,
    ) {
        if !self.requests.follows_changes() {
            return;
        }
        let name = |agent| self.directory.name(agent).map(|name| name.to_string().into());
        let change = Change {
            id: Some(delivery.to_string().into()),
            send_id: Some(send_id.into()),
            from: name(from),
            to: name(to),
            ..Change::new(ChangeKind::Answer, self.ctx.now.unix_ms)
        };
        self.notify(&change);
    }

    /// Tells that an agent has joined or left.
    pub(crate) fn notify_presence(&mut self, agent: AgentKey) {
        if let Some(change) = self.change_of_agent(agent) {
            let is_here = self.directory.client(agent).is_some();
            let state = if is_here { JOINED } else { LEFT };
            self.notify(&Change { state: Some(state.into()), ..change });
        }
    }

    /// Tells that an agent was renamed.
    pub(crate) fn notify_renamed(&mut self, agent: AgentKey, before: &Name) {
        if let Some(change) = self.change_of_agent(agent) {
            let from = Some(before.to_string().into());
            self.notify(&Change { state: Some(RENAMED.into()), from, ..change });
        }
    }

    /// Tells what an agent does now.
    pub(crate) fn notify_activity(&mut self, agent: AgentKey, doing: Doing) {
        if let Some(change) = self.change_of_agent(agent) {
            self.notify(&Change {
                state: Some(doing.activity.as_str().into()),
                since: Some(doing.since),
                source: Some(doing.source.as_str().into()),
                unseen: doing.unseen,
                ..change
            });
        }
    }

    /// Tells a client how many changes it has lost, if its window has room again.
    pub(crate) fn notify_lost(&mut self, client: ClientId) {
        let of = |tap: &super::table::Tap| tap.client == client && tap.has_changes;
        if let Some(index) = self.requests.taps().iter().position(of) {
            self.hand_lost(index);
        }
    }

    /// Returns the change of an at-least-once delivery, if anybody follows changes.
    fn change_of(&self, key: MessageKey, state: &'static str) -> Option<Change<'static>> {
        if !self.requests.follows_changes() {
            return None;
        }
        let message = self.mail.message(key).filter(|message| message.reliable.is_some())?;
        let name = |agent| self.directory.name(agent).map(|name| name.to_string().into());
        let stream = self.mail.stream(message.stream);
        let topic = stream.and_then(|stream| stream.topic());
        Some(Change {
            state: Some(state.into()),
            id: Some(message.id.to_string().into()),
            send_id: Some(message.sent.id.as_str().to_owned().into()),
            from: name(message.sent.from),
            to: name(message.to),
            topic: topic.map(|topic| topic.to_string().into()),
            requires_ack: Some(true),
            ..Change::new(ChangeKind::Message, self.ctx.now.unix_ms)
        })
    }

    /// Returns the change of an agent, if anybody follows changes. Guests and operators are no
    /// agents.
    fn change_of_agent(&self, agent: AgentKey) -> Option<Change<'static>> {
        if !self.requests.follows_changes() {
            return None;
        }
        let name = &self.directory.get(agent)?.name;
        (!name.is_daemons()).then(|| Change {
            agent: Some(name.to_string().into()),
            ..Change::new(ChangeKind::Agent, self.ctx.now.unix_ms)
        })
    }

    /// Hands a change to each client that follows changes.
    fn notify(&mut self, change: &Change<'_>) {
        for index in 0..self.requests.taps().len() {
            if !self.requests.taps()[index].has_changes {
                continue;
            }
            if !self.hand_lost(index) || !self.hand_change(index, change) {
                self.requests.note_lost_copy(index);
            }
        }
    }

    /// Hands a tap the number of changes that it has lost. Returns false if its window has no room.
    fn hand_lost(&mut self, index: usize) -> bool {
        if !self.requests.has_lost_copies(index) {
            return true;
        }
        let lost = self.requests.take_lost_copies(index);
        let change = Change { lost, ..Change::new(ChangeKind::Lost, self.ctx.now.unix_ms) };
        let is_handed = self.hand_change(index, &change);
        if !is_handed {
            self.requests.return_lost_copies(index, lost);
        }
        is_handed
    }

    /// Hands a change to a tap. Returns false if its window has no room.
    fn hand_change(&mut self, index: usize, change: &Change<'_>) -> bool {
        let tap = &self.requests.taps()[index];
        let (client, request) = (tap.client, tap.request.clone());
        let json = raw(change);
        if !self.connections.has_room(&self.ctx, client, json.get().len() + HEAD_BYTES_MAX) {
            return false;
        }
        if let Some(frame) = self.relay_frame(client, CHANGE, "", &json, &request) {
            self.connections.hand(&mut self.ctx, client, frame, Content::Copy);
        }
        true
    }
}
