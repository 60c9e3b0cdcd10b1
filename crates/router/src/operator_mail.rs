//! The operator's mailbox: mail that is taken by a request, and answers that no command awaits.
//!
//! All operators share one name, and none of their connections gets its mail: a message to the name
//! waits until an operator takes it. A command that asks a question may have ended when the answer
//! comes. Such an answer becomes mail.

use super::{
    Router,
    answers::AnswerMessage,
    interface::ClientId,
    journal::Acceptance,
    keys::AgentKey,
    mail::{QueueState, SendState},
    persist::{Reach, Recorded},
    questions::Question,
    send::Verdict,
    send_digest::SendDigest,
    send_request::{Refusal, SendRequest, deliver_bytes_max},
    sender::SendId,
};
use protocol::{
    client_frame::Answer,
    code::NackCode,
    name::{Name, OPERATOR},
    record::{Change, Ending},
    relay::{TakeRequest, Taken},
    text::Quoted,
};
use uuid::Uuid;

impl Router {
    /// Returns the operators' name, which is added if need be. It is added even beyond `names_max`:
    /// the owner must always be admitted.
    pub(super) fn operator(&mut self) -> AgentKey {
        self.directory.find(OPERATOR).unwrap_or_else(|| {
            let agent = self.add_agent(Name::made_by_daemon(OPERATOR), None);
            self.directory.record_agent(&mut self.ctx, agent);
            agent
        })
    }

    /// Returns the agent that a SEND names. The operators' name is known before any has joined.
    pub(super) fn recipient_named(&mut self, name: &str) -> Option<AgentKey> {
        if name.eq_ignore_ascii_case(OPERATOR) && self.enforcement.admits_operators() {
            return Some(self.operator());
        }
        self.directory.find(name)
    }

    pub(super) fn is_operator(&self, agent: AgentKey) -> bool {
        self.directory.name(agent).is_some_and(|name| name.matches(OPERATOR))
    }

    /// Returns the number of messages in the operator's mailbox that can be taken.
    pub(super) fn operator_mail(&self) -> u64 {
        self.directory.find(OPERATOR).map_or(0, |operator| self.mail.queued(operator).0 as u64)
    }

    /// Acknowledges messages in the operator's mailbox. Skips those that are gone or not stored
    /// yet.
    pub(super) fn take_mail(&mut self, request: &TakeRequest) -> Result<Taken, Refusal> {
        let parse = |id: &String| {
            let invalid = || (NackCode::Invalid, format!("{} is not a whole id", Quoted(id)));
            Uuid::try_parse(id).map_err(|_| invalid())
        };
        let ids = request.ids.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let mut taken = Taken::default();
        for id in ids {
            let Some((key, message)) = self.mail.delivery(id) else { continue };
            let is_stored = message.reliable().is_some_and(|own| own.state == QueueState::Waiting);
            if !is_stored || !self.is_operator(message.to) {
                continue;
            }
            self.notify_end(key, &Ending::Acknowledged);
            if self.mail.end(&mut self.ctx, key, Ending::Acknowledged).is_some() {
                self.ctx.counts.acknowledged += 1;
                taken.taken += 1;
            }
        }
        if taken.taken > 0 {
            self.ctx.record(Change::Sync);
        }
        Ok(taken)
    }

    /// Whether the answer to a question becomes mail: an operator asked, and the time is over or
    /// the connection that asked has ended.
    pub(super) fn is_answered_by_mail(&self, question: &Question) -> bool {
        let is_awaited =
            || question.client.is_some_and(|client| self.connections.membership(client).is_some());
        self.is_operator(question.from) && (question.is_late || !is_awaited())
    }

    /// Queues the answer to an operator's question as a message. The question ends when the message
    /// is stored. Returns the id of the message's delivery, or `None` if the message exists already.
    pub(super) fn mail_answer(
        &mut self,
        client: ClientId,
        delivery: Uuid,
        stated: &Answer,
    ) -> Result<Option<Uuid>, Refusal> {
        let Some(question) = self.questions.get(delivery) else { return Ok(None) };
        let (from, operator) = (question.to, question.from);
        let answer = AnswerMessage::new(delivery, stated);
        let envelope = answer.envelope(OPERATOR);
        let digest = SendDigest::of(&envelope);
        if self.mail.send_state(from, digest).is_some() {
            // An earlier daemon has stored this answer.
            self.questions.close(&mut self.ctx, delivery);
            return Ok(None);
        }
        let send = SendRequest {
            envelope: &envelope,
            client,
            from,
            by: None,
            requires_ack: true,
            asks: None,
            expires: self.ctx.now.monotonic.plus(self.ctx.limits.operator_mail_ms),
            bytes: deliver_bytes_max(&envelope, &self.directory[from].name),
        };
        let limit = |why: &str| Err((NackCode::Limit, why.to_owned()));
        let stream = match self.check_recipient(&send, operator) {
            Verdict::Accept(stream) => stream,
            Verdict::Busy(_) => {
                return limit("the daemon has no room for the answer now; send it again later");
            }
            Verdict::TooOften(_) => {
                return limit("there are too many messages to @operator; send it again later");
            }
            Verdict::Refuse(code, why) => return Err((code, why)),
        };
        self.ctx.counts.taken += 1;
        let sent = self.sent(&send, false);
        let queued = self.queue(&send, &sent, operator, stream, Some(digest));
        let acceptance = Acceptance {
            client,
            send_id: SendId::new(&answer.id),
            recipients: None,
            away: false,
            answers: Some(delivery),
        };
        let deliveries = queued.key.into_iter().collect();
        let Recorded { number, ticket } =
            self.persist(&send, digest, None, deliveries, Reach::default(), Some(acceptance));
        let state = SendState::Complete { recipients: None, away: false, number, ticket };
        self.remember_send(&send, digest, state, 1);
        self.questions.set_being_mailed(delivery, true);
        Ok(Some(queued.id))
    }

    /// Returns an answer to its sender, because the store could not keep it. The question stays.
    pub(super) fn return_mailed_answer(&mut self, client: ClientId, delivery: Uuid, why: String) {
        self.questions.set_being_mailed(delivery, false);
        let Some(question) = self.questions.get(delivery) else { return };
        let correlation_id = question.correlation_id.to_string();
        let ack_id = delivery.to_string();
        self.return_answer(client, &ack_id, correlation_id, (NackCode::StoreFailed, why));
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Router {
        /// Returns the ids of the messages in the operator's mailbox.
        pub(crate) fn operator_mail_ids(&self) -> Vec<Uuid> {
            let operator = self.directory.find(OPERATOR);
            let keys =
                operator.into_iter().flat_map(|operator| self.mail.open_deliveries(operator, 0));
            keys.filter_map(|key| Some(self.mail.message(key)?.id)).collect()
        }
    }
}
