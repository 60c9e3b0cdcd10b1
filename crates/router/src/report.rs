//! Reports to senders: notices of their messages, and answers to their questions.

use super::{
    Router,
    connections::{Content, Notice},
    context::Context,
    frame::Frame,
    interface::ClientId,
    keys::AgentKey,
    mail::{Message, QueueState},
    notices,
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
use std::sync::Arc;
use uuid::Uuid;

/// Returns a frame from the daemon to a sender, as shared bytes that can be handed out more than
/// once.
fn frame_for_sender(
    ctx: &mut Context,
    kind: Kind,
    from: Option<&str>,
    payload: &impl Serialize,
) -> Arc<[u8]> {
    let (mut text, mut bytes) = (Uuid::encode_buffer(), Vec::new());
    let id = ctx.new_id().hyphenated().encode_lower(&mut text);
    Header { from, ..Header::new(kind, id, ctx.now.unix_ms) }.append(&mut bytes, payload);
    bytes.into()
}

impl Router {
    /// Notifies a sender that a delivery failed, and closes the delivery's question. If a companion
    /// sent the message and has left, its agent is notified: a command ends once its message is
    /// accepted.
    pub(super) fn report_failure(&mut self, message: &Message, code: NackCode, why: String) {
        let delivery = message.reliable.as_ref().map(|_| message.id);
        let question = delivery.and_then(|id| self.questions.close(&mut self.ctx, id));
        let client = question.as_ref().and_then(|question| question.client);
        let nack = Nack {
            to: self.directory.name(message.to).map(ToString::to_string),
            correlation_id: question.map(|question| question.correlation_id.into()),
            ..Nack::new(message.sent.id.as_str(), code, why)
        };
        let frame = frame_for_sender(&mut self.ctx, Kind::Nack, None, &nack);
        let by = message.sent.by.filter(|by| self.connections.membership(*by).is_some());
        self.inform(message.sent.from, by, client, frame);
    }

    /// Hands a frame to a sender: on the connection `client` that asked the question, or else on
    /// the agent's current connection, or else when the session is resumed. If `by` is set, a
    /// companion or an operator sent the message, and only that connection gets the frame.
    fn inform(
        &mut self,
        sender: AgentKey,
        by: Option<ClientId>,
        client: Option<ClientId>,
        frame: Arc<[u8]>,
    ) {
        if let Some(by) = by {
            let frame = Frame { head: Vec::new(), shared: Some(frame) };
            return self.connections.hand(&mut self.ctx, by, frame, Content::Answer);
        }
        let notice = Notice { frame, number: None };
        match client.filter(|client| self.connections.membership(*client).is_some()) {
            Some(client) => self.connections.hand_notice(&mut self.ctx, client, notice),
            None => self.inform_agent(sender, notice),
        }
    }

    /// Hands a notice to a sender, on its connection or when its session is resumed.
    pub(super) fn inform_agent(&mut self, sender: AgentKey, notice: Notice) {
        let client = self.directory.client(sender);
        match client.filter(|client| self.connections.knows_session(*client)) {
            Some(client) => self.connections.hand_notice(&mut self.ctx, client, notice),
            None => self.hold_notice(sender, notice),
        }
    }

    /// Stores a notice until its sender's session is resumed. Drops the notice if the sender has no
    /// session.
    pub(super) fn hold_notice(&mut self, sender: AgentKey, notice: Notice) {
        let agent = self.directory.get(sender).filter(|agent| agent.session.is_some());
        let Some(agent) = agent else { return notices::record_end(&mut self.ctx, &notice) };
        let Notice { frame, number } = notice;
        let number = number.unwrap_or_else(|| {
            let number = self.ctx.journal.next_notice();
            notices::record(&mut self.ctx, number, agent.number, &frame);
            number
        });
        self.mail.make_room(&mut self.ctx, frame.len());
        self.notices.hold(&mut self.ctx, sender, &agent.name, number, frame);
    }

    /// Restores a notice. The sender is `None` if its name is forgotten.
    pub(super) fn restore_notice(&mut self, sender: Option<AgentKey>, record: NoticeRecord) {
        self.ctx.journal.note_notice(record.number);
        let notice = Notice { frame: record.frame, number: Some(record.number) };
        match sender {
            Some(sender) => self.hold_notice(sender, notice),
            None => notices::record_end(&mut self.ctx, &notice),
        }
    }

    /// Returns the notices that the store has, with their senders: notices that wait for their
    /// senders, and notices that were handed out and are not written yet.
    pub(super) fn recorded_notices(&self) -> Vec<(AgentKey, Notice)> {
        let notices = self.notices.all().chain(self.connections.unwritten_notices());
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
        let (from, by, client) = (question.from, question.by, question.client);
        if self.is_operator(from) {
            self.questions.retire(&mut self.ctx, delivery);
        } else {
            self.questions.close(&mut self.ctx, delivery);
        }
        let frame = frame_for_sender(&mut self.ctx, Kind::Nack, None, &nack);
        self.inform(from, by, client, frame);
    }

    /// Handles an ACK that may answer a question. Ignores every answer after the first, and answers
    /// with another correlation id.
    pub(super) fn answered(&mut self, client: ClientId, delivery: Uuid, stated: &Answer) {
        let Some(question) = self.questions.get(delivery) else { return };
        if self.connections.agent_of(client) != Some(question.to)
            || *question.correlation_id != *stated.correlation_id
            || question.is_being_mailed
        {
            return;
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
        let frame = frame_for_sender(&mut self.ctx, Kind::Ack, Some(from), &answer);
        let allowed = match self.forbidden_answer(ends.0, ends.1) {
            Some(why) => Err((NackCode::Forbidden, why)),
            None => self.check_answer(frame.len()),
        };
        let passed = allowed.and_then(|()| {
            if is_mailed { self.mail_answer(client, delivery, stated) } else { Ok(()) }
        });
        match passed {
            Ok(()) if is_mailed => {
                self.notify_answer(delivery, ends, &answer.ack_id);
                self.copy_answer_to_taps(delivery, ends, &answer, frame.len());
            }
            Ok(()) => {
                if let Some(question) = self.questions.close(&mut self.ctx, delivery) {
                    self.notify_answer(delivery, ends, &answer.ack_id);
                    self.copy_answer_to_taps(delivery, ends, &answer, frame.len());
                    self.inform(question.from, question.by, question.client, frame);
                }
            }
            Err(refusal) => {
                let correlation_id = stated.correlation_id.clone();
                self.return_answer(client, &stated.ack_id, correlation_id, refusal);
            }
        }
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
        self.mail.make_room(&mut self.ctx, bytes);
        if !self.ctx.has_memory_for(bytes) {
            let why = "the daemon has no room for the answer now; send it again later";
            return Err((NackCode::Limit, why.to_owned()));
        }
        Ok(())
    }
}
