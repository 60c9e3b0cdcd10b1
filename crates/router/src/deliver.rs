//! Delivery of queued messages: DELIVERs, the recipients' ACKs and NACKs, and the time to live.

use super::{
    Router,
    connections::Content,
    interface::ClientId,
    keys::{AgentKey, MessageKey},
    mail::{Message, QueueState},
    work::{self, DELIVERY_WORK},
};
use protocol::{
    client_frame::ClientAck,
    code::NackCode,
    payload::Nack,
    record::{Change, Ending},
};
use uuid::Uuid;

/// The shortest delay of a message that was returned.
const DELAY_MS_MIN: u64 = 50;

/// The reason in the NACK of a message whose time to live ran out.
const EXPIRED: &str = "its time to live ran out";

impl Router {
    /// Hands an agent's queued messages to its connection, the oldest first, as far as the
    /// connection's window has room.
    pub(super) fn pump(&mut self, agent: AgentKey) {
        while let Some((client, key)) = self.next_for(agent) {
            let expires = self.mail.message(key).map(|message| message.expires);
            let expires = expires.map(|expires| self.ctx.planted.expires(expires));
            // If the driver woke late, the message's timer has not fired yet; or it is overdue.
            if expires.is_some_and(|expires| expires < self.ctx.now.monotonic) {
                self.expire_at_cost_of_sender(key);
            } else {
                self.hand_out(client, key);
            }
        }
    }

    fn next_for(&mut self, agent: AgentKey) -> Option<(ClientId, MessageKey)> {
        if self.leftovers.has(agent) {
            return None;
        }
        let client = self.directory.client(agent)?;
        let in_flight_max = self.connections.membership(client)?.in_flight_max();
        let key = self.mail.next_for(&self.ctx, agent, in_flight_max)?;
        if !self.ctx.has_share_of_store(agent) {
            self.connections.pause_for_store(&mut self.ctx, client);
            return None;
        }
        let bytes = self.mail.message(key)?.bytes;
        self.connections.has_room(&self.ctx, client, bytes).then_some((client, key))
    }

    /// Hands a message, the first of its stream, to its recipient's connection.
    fn hand_out(&mut self, client: ClientId, key: MessageKey) {
        self.ctx.counts.delivered += 1;
        let Some(message) = self.mail.message(key) else { return };
        let stream = message.stream;
        if message.reliable().is_some() {
            self.mail.begin_attempt(&mut self.ctx, key);
            if let Some(message) = self.mail.message(key) {
                // The SEND has paid for the first attempt, and the recipient pays for the others.
                if message.attempts > 1 {
                    let work = DELIVERY_WORK + work::of_bytes(message.bytes);
                    self.requests.add_debt(message.to, work);
                }
                self.connections.deliver(&mut self.ctx, client, message, Content::AtLeastOnce(key));
            }
        } else if let Some(message) = self.mail.take_out(&mut self.ctx, key) {
            self.hand_at_most_once(client, message);
        }
        self.mail.settle_stream(&mut self.ctx, stream);
    }

    /// Hands an at-most-once message to its recipient's connection.
    pub(super) fn hand_at_most_once(&mut self, client: ClientId, message: Message) {
        if message.is_replay {
            return self.connections.deliver(&mut self.ctx, client, &message, Content::Copy);
        }
        let Message { order, bytes, .. } = message;
        let content = Content::AtMostOnce { sent: message.sent.clone(), order, charged: bytes };
        self.connections.deliver(&mut self.ctx, client, &message, content);
        self.retain_for_replay(message);
    }

    fn retain_for_replay(&mut self, message: Message) {
        let session = self.directory.session(message.to);
        let can_resume = session.is_some_and(|session| session.capabilities.resume);
        self.mail.retain_for_replay(&mut self.ctx, message, can_resume);
    }

    /// Ends a delivery. If the recipient reports on deliveries, the delivery and its last report
    /// are remembered, since further reports may follow.
    fn end(&mut self, key: MessageKey, ending: Ending) -> Option<Message> {
        self.notify_end(key, &ending);
        let message = self.mail.end(&mut self.ctx, key, ending)?;
        self.close_reported(&message);
        Some(message)
    }

    fn close_reported(&mut self, message: &Message) {
        if let Some(reliable) = message.reliable()
            && (reliable.reported.is_some() || self.reports_on_deliveries(message.to))
        {
            let reported = reliable.reported.as_deref().cloned();
            self.requests.close_reported(message.id, message.to, reported);
        }
    }

    /// Whether an agent's connection reports the progress of deliveries.
    fn reports_on_deliveries(&self, agent: AgentKey) -> bool {
        let client = self.directory.client(agent);
        let membership = client.and_then(|client| self.connections.membership(client));
        membership.is_some_and(|membership| membership.capabilities.reports)
    }

    /// Handles a recipient's ACK. Ignores the ACK of a delivery that the recipient never got or has
    /// acknowledged before.
    pub(super) fn acknowledged(&mut self, client: ClientId, ack: &ClientAck) {
        let answered = match (ack.id, &ack.answer) {
            (Some(id), Some(answer)) => self.answered(client, id, answer),
            _ => None,
        };
        self.end_acknowledged(client, ack);
        if let Some(answer) = answered {
            self.ctx.record(Change::Sync);
            self.tell(answer);
        }
    }

    /// Ends the deliveries that an ACK names.
    fn end_acknowledged(&mut self, client: ClientId, ack: &ClientAck) {
        let Some(agent) = self.connections.agent_of(client) else { return };
        let Some(id) = ack.id else { return };
        let Some(key) = self.mail.delivered_to(agent, id) else {
            return self.acknowledged_late(agent, id);
        };
        let others = self.mail.acknowledged_with(key, ack.cumulative_seq);
        if let Some(message) = self.end(key, Ending::Acknowledged) {
            self.note_acknowledged(message);
        }
        for key in others {
            self.notify_end(key, &Ending::Acknowledged);
            if let Some(message) = self.mail.end_with_others(&mut self.ctx, key) {
                self.close_reported(&message);
                self.note_acknowledged(message);
            }
        }
        self.pump(agent);
    }

    fn note_acknowledged(&mut self, message: Message) {
        self.ctx.spend(DELIVERY_WORK);
        self.ctx.counts.acknowledged += 1;
        self.record_question_of(&message);
        self.retain_for_replay(message);
    }

    /// Handles an ACK that arrives after its delivery became a dead letter.
    fn acknowledged_late(&mut self, agent: AgentKey, id: Uuid) {
        let number = self.directory[agent].number;
        if self.mail.acknowledge_dead_letter(&mut self.ctx, id, number) {
            self.notify_acknowledged_late(id, agent);
        }
    }

    /// Handles a recipient's NACK: the recipient refuses the message, or wants it again later.
    pub(super) fn returned(&mut self, client: ClientId, nack: &Nack) {
        let Some(agent) = self.connections.agent_of(client) else { return };
        let Ok(id) = Uuid::try_parse(&nack.ack_id) else { return };
        let Some(key) = self.mail.delivered_to(agent, id) else { return };
        let reliable = self.mail.message(key).and_then(Message::reliable);
        if !reliable.is_some_and(|own| matches!(own.state, QueueState::InFlight { .. })) {
            return;
        }
        match nack.retry_after_ms {
            None => {
                let sender = self.mail.message(key).map(|message| message.sent.from);
                let may_speak = sender.is_none_or(|to| self.forbidden_answer(agent, to).is_none());
                let name = &self.directory[agent].name;
                let why = match nack.message.trim() {
                    words if may_speak && !words.is_empty() => {
                        format!("{name} refused it: {words:.200}")
                    }
                    _ => format!("{name} refused it"),
                };
                self.ctx.counts.given_back += 1;
                self.fail(key, NackCode::Refused, why);
            }
            Some(ms) => {
                let until = self.ctx.now.monotonic.plus(ms.max(DELAY_MS_MIN));
                self.mail.delay(&mut self.ctx, key, until);
                self.count_failure(key);
            }
        }
        self.pump(agent);
    }

    /// Counts a failed delivery, and makes the message a dead letter after too many failures.
    pub(super) fn count_failure(&mut self, key: MessageKey) {
        if let Some(why) = self.mail.count_failure(&mut self.ctx, key) {
            self.ctx.counts.gave_up += 1;
            self.fail(key, NackCode::GaveUp, why);
        }
    }

    /// Ends a delivery without an ACK: the delivery becomes a dead letter, and the sender gets a
    /// NACK.
    fn fail(&mut self, key: MessageKey, code: NackCode, why: String) {
        let ending = Ending::Dead { code, why: why.as_str().into() };
        if let Some(message) = self.end(key, ending) {
            if message.reliable.is_some()
                && let Some(to) = self.directory.get(message.to)
            {
                let sender = self.ctx.accounts.principal(message.sent.from);
                let sender = sender.map_or(0, |sender| self.directory[sender].number);
                self.mail.note_dead_letter(message.id, message.order, to.number, sender);
            }
            self.report_failure(&message, code, why);
        }
    }

    /// Ends a delivery as expired, without a dead letter: the store keeps nothing of it.
    pub(super) fn erase(&mut self, key: MessageKey, why: &str) {
        self.ctx.counts.expired += 1;
        if let Some(message) = self.end(key, Ending::Erased) {
            self.report_failure(&message, NackCode::Expired, why.to_owned());
        }
    }

    pub(super) fn expire(&mut self, key: MessageKey, why: &str) {
        if self.mail.message(key).is_some_and(|message| message.is_replay) {
            self.mail.remove(&mut self.ctx, key);
            return;
        }
        self.ctx.counts.expired += 1;
        self.fail(key, NackCode::Expired, why.to_owned());
    }

    /// Ends a message whose time to live is over. The sender, which has set that, pays.
    pub(super) fn expire_at_cost_of_sender(&mut self, key: MessageKey) {
        let sender = self.mail.message(key).map(|message| message.sent.from);
        if let Some(sender) = sender {
            self.at_cost_of(sender, |router| router.expire(key, EXPIRED));
        }
    }

    /// Handles a message's timer: expires the message, or ends its delay.
    pub(super) fn on_message_timer(&mut self, key: MessageKey) {
        let Some(message) = self.mail.message(key) else { return };
        let to = message.to;
        if message.expires <= self.ctx.now.monotonic {
            self.expire_or_wait(key);
        } else {
            self.mail.end_delay(&mut self.ctx, key);
        }
        self.pump(to);
    }
}
