//! Asking and waiting: open questions and their answers.
//!
//! A question is one delivery of a SEND with `sync`. It is open until its recipient answers, its time is
//! over, or the delivery fails; that the delivery is acknowledged does not end it. Until then the store
//! has it with the message, and after that alone.

use super::{
    AgentKey, ClientId, Router,
    alarm::Alarm,
    hash::FastMap,
    message::{Message, SendId, State},
    send::Said,
};
use crate::protocol::{
    Moment,
    code::NackCode,
    deliver::Shared,
    envelope::Kind,
    frame::PREFIX,
    payload::{Ack, CORRELATION_ID_BYTES_MAX, Nack, SendMeta, Sync},
};
use crate::record::{Change, Clock, MessageRecord, QuestionRecord};
use uuid::Uuid;

/// What a question counts for in memory, beside its correlation id.
const QUESTION_BYTES: usize = 256;

/// A daemon that lived for so long after the time of a question was over has said so, and kept that.
const RUNG_MS: u64 = 10_000;

/// One delivery whose sender waits for an answer.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) from: AgentKey,
    /// As the message has it.
    by: Option<ClientId>,
    /// The connection that asked; none where that was before this daemon.
    pub(super) client: Option<ClientId>,
    pub(super) to: AgentKey,
    send_id: SendId,
    pub(super) correlation_id: Box<str>,
    timeout_ms: u64,
    until: Moment,
    /// The store has it, without its message.
    is_kept: bool,
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

    /// Those that the store has without their messages.
    pub(super) fn kept(&self) -> impl Iterator<Item = Uuid> {
        self.by_delivery.iter().filter(|(_, question)| question.is_kept).map(|(id, _)| *id)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.by_delivery.values().map(Question::bytes).sum()
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
            is_kept: false,
        };
        self.await_answer(delivery, question);
    }

    /// An earlier daemon, which lived until then, took it, and its delivery is not over. Its time goes on
    /// from when it was taken.
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
        let meta = Shared::read(&message.shared).and_then(|said| said.payload_meta);
        let meta: Option<SendMeta> = meta.and_then(|meta| serde_json::from_str(meta.get()).ok());
        let Some(sync) = meta.and_then(|meta| meta.sync) else { return };
        let timeout_ms = sync.timeout_ms.unwrap_or(Sync::TIMEOUT_MS);
        if clock.0.unix_ms.saturating_sub(message.unix_ms) > timeout_ms.saturating_add(RUNG_MS) {
            return;
        }
        let question = Question {
            from,
            by: None,
            client: None,
            to,
            send_id: SendId::new(&message.send_id),
            correlation_id: sync.correlation_id.into(),
            timeout_ms,
            until: clock.moment_of(message.unix_ms).plus(timeout_ms),
            is_kept: false,
        };
        self.await_answer(delivery, question);
    }

    /// An earlier daemon kept it, since its delivery was acknowledged.
    pub(super) fn restore_open_question(
        &mut self,
        record: QuestionRecord,
        agents: &FastMap<u64, AgentKey>,
    ) {
        let QuestionRecord { delivery, send_id, correlation_id, timeout_ms, until, .. } = record;
        let place = (agents.get(&record.from).copied(), agents.get(&record.to).copied());
        let (Some(from), Some(to)) = place else {
            self.keep(Change::QuestionEnded(delivery));
            return;
        };
        // One that is asked with its message has that to go by.
        if self.questions.by_delivery.contains_key(&delivery) {
            self.keep(Change::QuestionEnded(delivery));
            return;
        }
        let question = Question {
            from,
            by: None,
            client: None,
            to,
            send_id: SendId::new(&send_id),
            correlation_id,
            timeout_ms,
            until,
            is_kept: true,
        };
        self.await_answer(delivery, question);
    }

    /// A delivery was acknowledged: what it asks is still to be answered. Guests, and connections that are
    /// not their agents' own, end with the daemon, and so does what they ask.
    pub(super) fn keep_question_of(&mut self, message: &Message) {
        let Some(kept) = message.kept().filter(|_| message.by.is_none()) else { return };
        let Some(question) = self.questions.by_delivery.get_mut(&kept.id) else { return };
        let asker = self.roster.get(question.from);
        question.is_kept = asker.is_some_and(|asker| !asker.is_guest());
        if question.is_kept {
            self.say_question(kept.id);
        }
    }

    fn say_question(&mut self, delivery: Uuid) {
        let question = &self.questions.by_delivery[&delivery];
        let number = |agent| self.roster.get(agent).map(|agent| agent.number);
        // Who is forgotten neither asks nor answers.
        let (Some(from), Some(to)) = (number(question.from), number(question.to)) else { return };
        self.keep(Change::Question(Box::new(QuestionRecord {
            delivery,
            from,
            to,
            send_id: question.send_id.as_str().into(),
            correlation_id: question.correlation_id.clone(),
            timeout_ms: question.timeout_ms,
            until: question.until,
        })));
    }

    /// Tells a store that lost it what is asked apart from messages.
    pub(super) fn say_questions_again(&mut self) {
        let mut kept: Vec<_> = self.questions.kept().collect();
        kept.sort_unstable();
        kept.into_iter().for_each(|delivery| self.say_question(delivery));
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
        if question.is_kept {
            self.keep(Change::QuestionEnded(delivery));
        }
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
                    self.copy_answer_to_taps(delivery, &question, &answer, frame.len());
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
