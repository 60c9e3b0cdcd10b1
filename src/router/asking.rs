//! Asking and waiting: open questions, their answers, and what a sender that is away finds on its return.
//!
//! A question is one delivery of a SEND with `sync`. It is open until its recipient answers, its time is
//! over, or the delivery fails; that the delivery is acknowledged does not end it.

use super::{
    AgentKey, ClientId, Frame, Output, Router,
    alarm::Alarm,
    client::What,
    hash::FastMap,
    message::{Message, SendId, State},
    send::Said,
};
use crate::protocol::{
    Moment,
    code::NackCode,
    deliver::{Shared, shared_object},
    envelope::{Header, Kind},
    frame::PREFIX,
    payload::{Ack, CORRELATION_ID_BYTES_MAX, Nack, SendMeta, Sync},
    record::{Clock, MessageRecord},
};
use serde::Serialize;
use std::{collections::VecDeque, mem, sync::Arc};
use uuid::Uuid;

/// What a question counts for in memory, beside its correlation id.
const QUESTION_BYTES: usize = 256;

/// One delivery whose sender waits for an answer.
#[derive(Debug)]
pub(super) struct Question {
    from: AgentKey,
    /// As the message has it.
    by: Option<ClientId>,
    /// The connection that asked; none where that was before this daemon.
    client: Option<ClientId>,
    to: AgentKey,
    send_id: SendId,
    correlation_id: Box<str>,
    timeout_ms: u64,
    until: Moment,
}

impl Question {
    fn bytes(&self) -> usize {
        QUESTION_BYTES + self.correlation_id.len()
    }
}

/// The open ones.
#[derive(Debug, Default)]
pub(super) struct Questions {
    by_delivery: FastMap<Uuid, Question>,
    /// How many each sender has.
    counts: FastMap<AgentKey, usize>,
}

impl Questions {
    /// How many a sender has open.
    pub(super) fn count(&self, sender: AgentKey) -> usize {
        self.counts.get(&sender).copied().unwrap_or(0)
    }

    fn add(&mut self, delivery: Uuid, question: Question) {
        *self.counts.entry(question.from).or_default() += 1;
        self.by_delivery.insert(delivery, question);
    }

    fn remove(&mut self, delivery: Uuid) -> Option<Question> {
        let question = self.by_delivery.remove(&delivery)?;
        let count = self.counts.get_mut(&question.from).expect("it was counted when it was added");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&question.from);
        }
        Some(question)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.by_delivery.values().map(Question::bytes).sum()
    }
}

/// What waits for a session to be taken up, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Answers {
    frames: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

impl Answers {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, frame: Arc<[u8]>) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    fn pop(&mut self) -> Option<Arc<[u8]>> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }
}

/// What is wrong with a question.
pub(super) fn check(sync: &Sync) -> Result<(), String> {
    let most = CORRELATION_ID_BYTES_MAX;
    if !(1..=most).contains(&sync.correlation_id.len()) {
        return Err(format!("`correlationId` has 1 to {most} bytes"));
    }
    let most = Sync::TIMEOUT_MS_MAX;
    if sync.timeout_ms.is_some_and(|ms| !(1..=most).contains(&ms)) {
        return Err(format!("`timeoutMs` is 1 to {most}"));
    }
    Ok(())
}

/// What a question takes in memory.
pub(super) fn room_for(sync: &Sync) -> usize {
    QUESTION_BYTES + sync.correlation_id.len()
}

/// Questions.
impl Router {
    /// A SEND with `sync` was taken for one recipient.
    pub(super) fn open_question(&mut self, said: &Said<'_>, to: AgentKey, delivery: Uuid) {
        let Some(sync) = &said.asks else { return };
        let timeout_ms = sync.timeout_ms.unwrap_or(Sync::TIMEOUT_MS);
        let question = Question {
            from: said.from,
            by: said.by,
            client: Some(said.client),
            to,
            send_id: SendId::new(&said.envelope.id),
            correlation_id: sync.correlation_id.as_str().into(),
            timeout_ms,
            until: self.now.monotonic.plus(timeout_ms),
        };
        self.await_answer(delivery, question);
    }

    /// An earlier daemon took it, and its delivery is not over. Its time goes on from when it was taken.
    pub(super) fn restore_question(
        &mut self,
        delivery: Uuid,
        message: &MessageRecord,
        (from, to): (AgentKey, AgentKey),
        clock: Clock,
    ) {
        // There may be very many that don't ask.
        let text = std::str::from_utf8(&message.shared).unwrap_or_default();
        if !text.contains("\"sync\"") || self.roster.get(from).is_none() {
            return;
        }
        let object = shared_object(&message.shared);
        let said: Option<Shared<'_>> = serde_json::from_str(&object).ok();
        let meta = said.and_then(|said| said.payload_meta);
        let meta: Option<SendMeta> = meta.and_then(|meta| serde_json::from_str(meta.get()).ok());
        let Some(sync) = meta.and_then(|meta| meta.sync) else { return };
        let timeout_ms = sync.timeout_ms.unwrap_or(Sync::TIMEOUT_MS);
        let question = Question {
            from,
            by: None,
            client: None,
            to,
            send_id: SendId::new(&message.send_id),
            correlation_id: sync.correlation_id.into(),
            timeout_ms,
            until: clock.moment_of(message.unix_ms).plus(timeout_ms),
        };
        self.await_answer(delivery, question);
    }

    fn await_answer(&mut self, delivery: Uuid, question: Question) {
        self.alarms.set(question.until, Alarm::Question(delivery));
        self.memory.inside += question.bytes();
        self.questions.add(delivery, question);
    }

    /// Nobody waits for an answer any more.
    pub(super) fn close_question(&mut self, delivery: Uuid) -> Option<Question> {
        let question = self.questions.remove(delivery)?;
        self.alarms.remove(question.until, Alarm::Question(delivery));
        self.memory.inside -= question.bytes();
        Some(question)
    }

    /// Who asked is forgotten.
    pub(super) fn close_questions_of(&mut self, sender: AgentKey) {
        if self.questions.count(sender) == 0 {
            return;
        }
        let all = self.questions.by_delivery.iter();
        let its = all.filter(|(_, question)| question.from == sender);
        for delivery in its.map(|(delivery, _)| *delivery).collect::<Vec<_>>() {
            self.close_question(delivery);
        }
    }

    /// The time of a question is over. That its message is accepted is said first.
    pub(super) fn ring_question(&mut self, delivery: Uuid) {
        let message = self.deliveries.get(&delivery).map(|key| &self.messages[*key]);
        let kept = message.and_then(Message::kept);
        if kept.is_none_or(|kept| kept.state != State::Storing) {
            self.time_out_question(delivery);
        }
    }

    /// A message is accepted: where that took longer than its question had, nobody waits any more.
    pub(super) fn question_is_kept(&mut self, delivery: Uuid) {
        let question = self.questions.by_delivery.get(&delivery);
        if question.is_some_and(|question| question.until <= self.now.monotonic) {
            self.time_out_question(delivery);
        }
    }

    fn time_out_question(&mut self, delivery: Uuid) {
        let Some(question) = self.close_question(delivery) else { return };
        let recipient = self.roster.get(question.to);
        let to = recipient.map(|agent| agent.name.to_string());
        let who = match (recipient, &to) {
            (Some(agent), Some(name)) if agent.client.is_none() => format!("{name} is away and"),
            (_, Some(name)) => name.clone(),
            (_, None) => "an agent that is forgotten".to_owned(),
        };
        let why = format!("{who} did not answer within {} ms", question.timeout_ms);
        let nack = Nack {
            to,
            correlation_id: Some(question.correlation_id.into()),
            ..Nack::new(question.send_id.as_str(), NackCode::SyncTimeout, why)
        };
        let frame = self.frame_for_sender(Kind::Nack, None, &nack);
        self.inform((question.from, question.by), question.client, frame);
    }

    /// An ACK from a recipient may be the answer to a question. Any but the first is passed over, as is
    /// one with another correlation id.
    pub(super) fn answered(&mut self, client: ClientId, ack: &Ack<'_>) {
        let Some(delivery) = self.find_question(client, ack) else { return };
        let question = &self.questions.by_delivery[&delivery];
        let (send_id, from) = (question.send_id.clone(), self.roster[question.to].name.clone());
        let answer = Ack {
            ack_id: send_id.as_str().into(),
            correlation_id: ack.correlation_id.clone(),
            response: ack.response,
            response_data: ack.response_data,
            ..Ack::default()
        };
        let frame = self.frame_for_sender(Kind::Ack, Some(from.as_str()), &answer);
        match self.judge_answer(frame.len()) {
            Ok(()) => {
                if let Some(question) = self.close_question(delivery) {
                    self.inform((question.from, question.by), question.client, frame);
                }
            }
            Err((code, why)) => {
                let correlation_id = ack.correlation_id.clone();
                let nack = Nack { correlation_id, ..Nack::new(&*ack.ack_id, code, why) };
                self.answer(client, Kind::Nack, &nack);
            }
        }
    }

    fn find_question(&self, client: ClientId, ack: &Ack<'_>) -> Option<Uuid> {
        let correlation_id = ack.correlation_id.as_deref()?;
        let delivery = Uuid::try_parse(&ack.ack_id).ok()?;
        let question = self.questions.by_delivery.get(&delivery)?;
        let is_it = self.agent_of(client) == Some(question.to)
            && *question.correlation_id == *correlation_id;
        is_it.then_some(delivery)
    }

    /// Whether an answer can be passed on; its question stays open if not.
    fn judge_answer(&mut self, bytes: usize) -> Result<(), (NackCode, String)> {
        let most = self.limits.frame_bytes_max;
        if bytes > PREFIX + most {
            let why = format!("what its asker would get is over max_frame_bytes ({most})");
            return Err((NackCode::TooLarge, why));
        }
        self.make_room(bytes);
        if self.memory_held() + bytes > self.limits.memory_bytes_max {
            let why = "the daemon has no room for the answer now; send it again later";
            return Err((NackCode::Limit, why.to_owned()));
        }
        Ok(())
    }
}

/// What a sender hears after its message was taken.
impl Router {
    /// A delivery failed: whoever sent it is told, and who waits for its answer waits no longer.
    pub(super) fn report_failure(&mut self, message: &Message, code: NackCode, why: String) {
        let question = message.kept().and_then(|kept| self.close_question(kept.id));
        let client = question.as_ref().and_then(|question| question.client);
        let nack = Nack {
            to: self.roster.get(message.to).map(|agent| agent.name.to_string()),
            correlation_id: question.map(|question| question.correlation_id.into()),
            ..Nack::new(message.send_id.as_str(), code, why)
        };
        let frame = self.frame_for_sender(Kind::Nack, None, &nack);
        self.inform((message.from, message.by), client, frame);
    }

    fn frame_for_sender(
        &mut self,
        kind: Kind,
        from: Option<&str>,
        payload: &impl Serialize,
    ) -> Arc<[u8]> {
        let (mut text, mut bytes) = (Uuid::encode_buffer(), Vec::new());
        let id = self.new_id().hyphenated().encode_lower(&mut text);
        Header { from, ..Header::new(kind, id, self.now.unix_ms) }.append(&mut bytes, payload);
        bytes.into()
    }

    /// Gives a sender a frame: on the connection that asked for it, on the one it has now, or when its
    /// session is taken up. A connection that isn't the agent's own has no return: nobody else would know
    /// what this answers.
    pub(super) fn inform(
        &mut self,
        (sender, by): (AgentKey, Option<ClientId>),
        client: Option<ClientId>,
        frame: Arc<[u8]>,
    ) {
        if let Some(by) = by {
            return self.hand(by, Frame { head: Vec::new(), shared: Some(frame) }, What::Answer);
        }
        let here = client.filter(|client| self.seat_of(*client).is_some());
        let Some(agent) = self.roster.get(sender) else { return };
        match here.or(agent.client) {
            Some(client) => self.hand_lasting(client, frame),
            None => self.keep_for_return(sender, frame),
        }
    }

    fn hand_lasting(&mut self, client: ClientId, frame: Arc<[u8]>) {
        let whole = Frame { head: Vec::new(), shared: Some(frame.clone()) };
        self.hand(client, whole, What::Lasting(frame));
    }

    /// Beyond the bounds, the oldest are dropped, and the log says so.
    fn keep_for_return(&mut self, sender: AgentKey, frame: Arc<[u8]>) {
        self.make_room(frame.len());
        let agent = &mut self.roster[sender];
        let Some(session) = agent.session.as_deref_mut() else { return };
        self.memory.inside += frame.len();
        session.answers.push(frame);
        let (most, mut dropped) = (self.limits.waiting_answers_bytes_max, 0);
        while (session.answers.frames.len() > 1 && session.answers.bytes() > most)
            || self.memory.total() + self.subscriptions.bytes() > self.limits.memory_bytes_max
        {
            let Some(oldest) = session.answers.pop() else { break };
            self.memory.inside -= oldest.len();
            dropped += 1;
        }
        if dropped > 0 {
            let name = &agent.name;
            let line = format!("{name} is away: {dropped} of the answers that wait for it dropped");
            self.out.push(Output::Log(line));
        }
    }

    /// A session is taken up: what waited for that goes out.
    pub(super) fn hand_answers(&mut self, client: ClientId, agent: AgentKey) {
        let Some(session) = self.roster[agent].session.as_deref_mut() else { return };
        let answers = mem::take(&mut session.answers);
        self.memory.inside -= answers.bytes();
        for frame in answers.frames {
            self.hand_lasting(client, frame);
        }
    }
}
