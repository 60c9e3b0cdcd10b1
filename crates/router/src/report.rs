//! Reports to senders: notices of their messages, and answers to their questions.

use super::{
    Router,
    accounts::nameless,
    connections::Content,
    context::Context,
    frame::Frame,
    interface::ClientId,
    journal::Continuation,
    keys::AgentKey,
    mail::{Message, QueueState},
    notices,
    outcome::{Notice, Outcome},
    questions::Question,
    work::FAILURE_WORK,
};
use protocol::{
    calendar::time_limit,
    client_frame::Answer,
    code::NackCode,
    envelope::{Header, Kind},
    frame::PREFIX,
    payload::{Ack, Nack},
    record::NoticeRecord,
};
use serde::Serialize;
use uuid::Uuid;

/// How often an answer is in memory until it is written: it is kept, and copied to be written.
const COPIES: usize = 2;

/// Returns a notice for a sender. The store has no record of it.
fn notice_of(
    ctx: &mut Context,
    kind: Kind,
    from: Option<&str>,
    payload: &impl Serialize,
) -> Notice {
    let (mut text, mut bytes) = (Uuid::encode_buffer(), Vec::new());
    let id = ctx.new_id().hyphenated().encode_lower(&mut text);
    Header { from, ..Header::new(kind, id, ctx.now.unix_ms) }.append(&mut bytes, payload);
    Notice { frame: bytes.into(), number: None }
}

impl Router {
    /// Notifies a sender that a delivery failed, and closes the delivery's question. If a companion
    /// sent the message and has left, its agent is notified: a command ends once its message is
    /// accepted.
    pub(super) fn report_failure(&mut self, message: &Message, code: NackCode, why: String) {
        self.ctx.spend(FAILURE_WORK);
        let delivery = message.reliable.as_ref().map(|_| message.id);
        let question = delivery.and_then(|id| self.questions.close(&mut self.ctx, id));
        let client = question.as_ref().and_then(|question| question.client);
        let nack = Nack {
            to: self.directory.name(message.to).map(ToString::to_string),
            correlation_id: question.map(|question| question.correlation_id.into()),
            ..Nack::new(message.sent.id.as_str(), code, why)
        };
        let notice = notice_of(&mut self.ctx, Kind::Nack, None, &nack);
        let (sender, by) = (message.sent.from, message.sent.by);
        let outcome = Outcome { sender, by, client, is_failure: true, notice };
        if message.reliable.is_some() { self.tell(outcome) } else { self.inform(outcome) }
    }

    /// Tells a sender of an outcome once the store has persisted it, so that no crash undoes what
    /// was told. If the agent is told, the store gets the notice together with the outcome, so that
    /// no crash hides it.
    pub(super) fn tell(&mut self, mut outcome: Outcome) {
        let waits = !self.ctx.journal.is_settled() && !self.ctx.planted.tells_early();
        if waits && let Some(listener) = self.listener(&outcome) {
            if outcome.by != Some(listener) {
                self.record_notice(outcome.sender, &mut outcome.notice);
            }
            let (sender, bytes) = outcome.charged();
            self.ctx.charge_memory(sender, bytes);
            self.wait(Continuation::Tell(Box::new(outcome)));
        } else {
            self.inform(outcome);
        }
    }

    /// Tells a sender of an outcome that is persisted.
    pub(super) fn told(&mut self, outcome: Outcome) {
        let (sender, bytes) = outcome.charged();
        self.ctx.release_memory(sender, bytes);
        self.inform(outcome);
    }

    /// Tells a sender of an outcome now, or when its session is resumed.
    fn inform(&mut self, outcome: Outcome) {
        let (listener, ends_with_sender) = (self.listener(&outcome), outcome.ends_with_sender());
        let Outcome { sender, by, notice, .. } = outcome;
        match listener {
            Some(client) if by == Some(client) => {
                let frame = Frame { head: Vec::new(), shared: Some(notice.frame) };
                self.connections.hand(&mut self.ctx, client, frame, Content::Answer);
            }
            Some(client) => self.connections.hand_notice(&mut self.ctx, client, notice),
            None if ends_with_sender => {}
            None => self.hold_notice(sender, notice),
        }
    }

    /// Returns the connection that is told of an outcome: the one that sent the message or asked
    /// the question, or else the agent's.
    fn listener(&self, outcome: &Outcome) -> Option<ClientId> {
        let is_member = |client: &ClientId| self.connections.membership(*client).is_some();
        match outcome.by.filter(is_member) {
            None if outcome.ends_with_sender() => None,
            None => {
                outcome.client.filter(is_member).or_else(|| self.client_for_notices(outcome.sender))
            }
            by => by,
        }
    }

    /// Hands an agent the notices that waited for it, once the store has what they tell.
    pub(super) fn hand_waiting_notices(&mut self, agent: AgentKey) {
        if self.ctx.journal.is_settled() {
            self.hand_notices(agent);
        } else {
            self.wait(Continuation::Notices(agent));
        }
    }

    /// Hands an agent the notices that waited for it, if it is still here.
    pub(super) fn hand_notices(&mut self, agent: AgentKey) {
        let Some(client) = self.client_for_notices(agent) else { return };
        for notice in self.notices.take(&mut self.ctx, agent) {
            self.connections.hand_notice(&mut self.ctx, client, notice);
        }
    }

    /// Returns an agent's connection, if it gets notices already.
    fn client_for_notices(&self, agent: AgentKey) -> Option<ClientId> {
        let client = self.directory.client(agent);
        client.filter(|client| self.connections.knows_session(*client))
    }

    /// Hands a notice to a sender, on its connection or when its session is resumed.
    pub(super) fn inform_agent(&mut self, sender: AgentKey, notice: Notice) {
        match self.client_for_notices(sender) {
            Some(client) => self.connections.hand_notice(&mut self.ctx, client, notice),
            None => self.hold_notice(sender, notice),
        }
    }

    /// Stores a notice until its sender's session is resumed. Drops the notice if the sender has no
    /// session.
    pub(super) fn hold_notice(&mut self, sender: AgentKey, mut notice: Notice) {
        self.record_notice(sender, &mut notice);
        let agent = self.directory.get(sender).filter(|agent| agent.session.is_some());
        let (Some(agent), Notice { frame, number: Some(number) }) = (agent, &notice) else {
            return notices::record_end(&mut self.ctx, sender, &notice);
        };
        self.mail.make_room(&mut self.ctx, frame.len());
        self.notices.hold(&mut self.ctx, sender, &agent.name, *number, frame.clone());
    }

    /// Records a notice, unless that has happened or its sender has no session.
    fn record_notice(&mut self, sender: AgentKey, notice: &mut Notice) {
        let agent = self.directory.get(sender).filter(|agent| agent.session.is_some());
        if let (Some(agent), None) = (agent, notice.number) {
            let number = self.ctx.journal.next_notice();
            notice.number = Some(number);
            notices::record(&mut self.ctx, number, agent.number, &notice.frame);
        }
    }

    /// Restores a notice. The sender is `None` if its name is forgotten.
    pub(super) fn restore_notice(&mut self, sender: Option<AgentKey>, record: NoticeRecord) {
        self.ctx.journal.note_notice(record.number);
        let notice = Notice { frame: record.frame, number: Some(record.number) };
        match sender {
            Some(sender) => self.hold_notice(sender, notice),
            None => notices::record_end(&mut self.ctx, nameless(), &notice),
        }
    }

    /// Returns the notices that the store has, with their senders: notices that wait for their
    /// senders or for the store, and notices that were handed out and are not written yet.
    pub(super) fn recorded_notices(&self) -> Vec<(AgentKey, Notice)> {
        let notices = self.notices.all().chain(self.connections.unwritten_notices());
        let told = self.ctx.journal.outcomes().map(Outcome::notice_of_sender);
        let notices = notices.chain(told);
        notices.filter(|(_, notice)| notice.number.is_some()).collect()
    }

    /// Records the question of a delivery that was acknowledged, because the question is still
    /// open. Questions of guests and companions are not recorded: their connections end with the
    /// daemon. So do those of operators, but a late answer to an operator becomes mail.
    pub(super) fn record_question_of(&mut self, message: &Message) {
        let sender = self.directory.get(message.sent.from);
        if message.reliable.is_some()
            && (message.sent.by.is_none() || self.is_operator(message.sent.from))
            && sender.is_some_and(|sender| !sender.is_guest())
        {
            let numbers = |agent| self.directory.get(agent).map(|agent| agent.number);
            self.questions.record_alone(&mut self.ctx, message.id, numbers);
        }
    }

    /// Handles the end of a question's time. If the question's message is still being persisted,
    /// the timeout waits until the message is accepted.
    pub(super) fn on_question_timer(&mut self, delivery: Uuid) {
        let message = self.mail.delivery(delivery).map(|(_, message)| message);
        let reliable = message.and_then(Message::reliable);
        if reliable.is_none_or(|reliable| reliable.state != QueueState::Persisting) {
            self.time_out_question(delivery);
        }
    }

    /// Tells a sender that its question's time is over. An operator's question stays for a late
    /// answer, and ends when it is over a second time.
    pub(super) fn time_out_question(&mut self, delivery: Uuid) {
        let Some(question) = self.questions.get(delivery) else { return };
        if question.is_late {
            self.questions.close(&mut self.ctx, delivery);
            return;
        }
        let recipient = self.directory.get(question.to);
        let to = recipient.map(|agent| agent.name.to_string());
        let who = match (recipient, &to) {
            (Some(agent), Some(name)) if agent.client.is_none() => format!("{name} is away and"),
            (_, Some(name)) => name.clone(),
            (_, None) => "an agent that is forgotten".to_owned(),
        };
        let why = format!("{who} did not answer within {}", time_limit(question.timeout_ms));
        let nack = Nack {
            to,
            correlation_id: Some(question.correlation_id.to_string()),
            ..Nack::new(question.send_id.as_str(), NackCode::SyncTimeout, why)
        };
        let (sender, by, client) = (question.from, question.by, question.client);
        if self.is_operator(sender) {
            self.questions.retire(&mut self.ctx, delivery);
        } else {
            self.questions.close(&mut self.ctx, delivery);
        }
        let notice = notice_of(&mut self.ctx, Kind::Nack, None, &nack);
        self.inform(Outcome { sender, by, client, is_failure: false, notice });
    }

    /// Handles an ACK that may answer a question, and returns what the asker is to be told. Ignores
    /// every answer after the first, and answers with another correlation id.
    pub(super) fn answered(
        &mut self,
        client: ClientId,
        delivery: Uuid,
        stated: &Answer,
    ) -> Option<Outcome> {
        let question = self.questions.get(delivery)?;
        if self.connections.agent_of(client) != Some(question.to)
            || *question.correlation_id != *stated.correlation_id
            || question.is_being_mailed
        {
            return None;
        }
        let is_mailed = self.is_answered_by_mail(question);
        let ends = (question.to, question.from);
        let send_id = question.send_id.clone();
        let answer = Ack {
            ack_id: send_id.as_str().into(),
            correlation_id: Some(stated.correlation_id.clone()),
            response: stated.response,
            response_data: stated.response_data.as_deref(),
            ..Ack::default()
        };
        let from = self.directory[question.to].name.as_str();
        let notice = notice_of(&mut self.ctx, Kind::Ack, Some(from), &answer);
        let bytes = notice.frame.len();
        let Question { from: sender, by, client: asker, .. } = *question;
        let outcome = Outcome { sender, by, client: asker, is_failure: false, notice };
        let allowed = match self.forbidden_answer(ends.0, ends.1) {
            Some(why) => Err((NackCode::Forbidden, why)),
            None => self.check_answer(bytes),
        };
        let kept = allowed.and_then(|()| match is_mailed {
            true => self.mail_answer(client, delivery, stated),
            false => {
                self.check_asker(&outcome)?;
                Ok(self.keep_answer(client, delivery, stated))
            }
        });
        match kept {
            Ok(kept) => {
                self.notify_answer(delivery, ends, &answer.ack_id);
                self.copy_answer_to_taps((delivery, kept), ends, &answer, bytes);
            }
            Err(refusal) => {
                let correlation_id = stated.correlation_id.clone();
                self.return_answer(client, &stated.ack_id, correlation_id, refusal);
                return None;
            }
        }
        if is_mailed {
            return None;
        }
        self.questions.close(&mut self.ctx, delivery)?;
        Some(outcome)
    }

    /// Returns an answer that cannot be passed on to its sender.
    pub(super) fn return_answer(
        &mut self,
        client: ClientId,
        ack_id: &str,
        correlation_id: String,
        (code, why): (NackCode, String),
    ) {
        let nack = Nack { correlation_id: Some(correlation_id), ..Nack::new(ack_id, code, why) };
        self.connections.answer(&mut self.ctx, client, Kind::Nack, &nack);
    }

    /// Checks whether an answer of this number of bytes can be passed on. If not, the question
    /// stays open.
    fn check_answer(&mut self, bytes: usize) -> Result<(), (NackCode, String)> {
        let most = self.ctx.limits.frame_bytes_max;
        if bytes > PREFIX + most {
            let why = format!("what its asker would get is over max_frame_bytes ({most})");
            return Err((NackCode::TooLarge, why));
        }
        self.mail.make_room(&mut self.ctx, COPIES * bytes);
        if !self.ctx.has_memory_for(COPIES * bytes) {
            let why = "the daemon has no room for the answer now; send it again later";
            return Err((NackCode::Limit, why.to_owned()));
        }
        Ok(())
    }

    /// Checks whether who asked has room for an answer: in its share of the memory, and because it
    /// reads its answers. If not, the question stays open.
    fn check_asker(&self, outcome: &Outcome) -> Result<(), (NackCode, String)> {
        let client = self.listener(outcome);
        let reads = client.is_none_or(|id| self.connections.reads(&self.ctx, id));
        let (sender, bytes) = outcome.charged();
        if reads && self.ctx.has_share_of_memory(sender, COPIES * bytes) {
            return Ok(());
        }
        let why = "its asker has no room for the answer now; send it again later";
        Err((NackCode::Limit, why.to_owned()))
    }
}
