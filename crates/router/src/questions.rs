//! Open questions: deliveries whose senders wait for an answer.
//!
//! A question is one delivery of a SEND with `sync`. The question is open until its recipient
//! answers, its time is over, or the delivery fails. An acknowledgement without an answer does not
//! close the question: before it, the store has the question as a part of its message, and after it
//! as a record of its own.

use super::{
    context::Context, interface::ClientId, keys::AgentKey, send_request::SendRequest,
    sender::SendId, timers::Timer,
};
use protocol::{
    Moment,
    deliver::Shared,
    payload::{CORRELATION_ID_BYTES_MAX, SendMeta, Sync},
    record::{Change, Clock, MessageRecord, QuestionRecord},
};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use uuid::Uuid;

/// The bytes of a question in memory, without its correlation id.
const QUESTION_BYTES: usize = 256;

/// The time after which a running daemon has surely reported a question's timeout. A question that
/// timed out longer than this before the last daemon's end is not restored.
const TIMED_OUT_MS: u64 = 60_000;

/// A delivery whose sender waits for an answer.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) from: AgentKey,
    /// The connection that asked, if it is a companion's or an operator's, as in
    /// [`Message`](super::mail::Message).
    pub(super) by: Option<ClientId>,
    /// The connection that asked, whatever its kind; `None` if an earlier daemon got the question.
    pub(super) client: Option<ClientId>,
    pub(super) to: AgentKey,
    pub(super) send_id: SendId,
    pub(super) correlation_id: Box<str>,
    pub(super) timeout_ms: u64,
    until: Moment,
    /// Whether the time is over and an operator asked: a late answer becomes mail.
    pub(super) is_late: bool,
    /// Whether an answer is being stored as mail. Other answers are ignored meanwhile.
    pub(super) is_being_mailed: bool,
    /// Whether the store has a record of the question apart from its message.
    is_recorded: bool,
}

impl Question {
    fn bytes(&self) -> usize {
        QUESTION_BYTES + self.correlation_id.len()
    }
}

/// All open questions.
#[derive(Debug, Default)]
pub(super) struct Questions {
    by_delivery: FxHashMap<Uuid, Question>,
    /// Each sender's questions, by their deliveries' ids.
    by_sender: FxHashMap<AgentKey, BTreeSet<Uuid>>,
    /// Questions whose time is over, by the end of that time. They are not among the above.
    late: BTreeSet<(Moment, Uuid)>,
}

impl Questions {
    /// Returns the number of a sender's questions, without the late ones.
    pub(super) fn count(&self, sender: AgentKey) -> usize {
        self.by_sender.get(&sender).map_or(0, BTreeSet::len)
    }

    pub(super) fn get(&self, delivery: Uuid) -> Option<&Question> {
        self.by_delivery.get(&delivery)
    }

    /// Opens the question of a SEND that was queued for one recipient, if the SEND asks one.
    pub(super) fn open(
        &mut self,
        ctx: &mut Context,
        send: &SendRequest<'_>,
        to: AgentKey,
        delivery: Uuid,
    ) {
        let Some(sync) = &send.asks else { return };
        let timeout_ms = sync.timeout_ms.unwrap_or(Sync::TIMEOUT_MS);
        let question = Question {
            from: send.from,
            by: send.by,
            client: Some(send.client),
            to,
            send_id: SendId::new(&send.envelope.id),
            correlation_id: sync.correlation_id.as_str().into(),
            timeout_ms,
            until: ctx.now.monotonic.plus(timeout_ms),
            is_late: false,
            is_being_mailed: false,
            is_recorded: false,
        };
        self.insert(ctx, delivery, question);
    }

    /// Restores the question of a message whose delivery is open. The timeout counts from the time
    /// at which the message was accepted. The last daemon ran until `clock`.
    /// A question whose time was over is restored for `kept_ms`.
    pub(super) fn restore_with_message(
        &mut self,
        ctx: &mut Context,
        delivery: Uuid,
        message: &MessageRecord,
        (from, to): (AgentKey, AgentKey),
        (clock, kept_ms): (Clock, u64),
    ) {
        // Most messages ask no question, and a search costs less than parsing.
        let text = std::str::from_utf8(&message.shared).unwrap_or_default();
        if !text.contains("\"sync\"") {
            return;
        }
        let shared = Shared::read(&message.shared);
        let meta = shared.and_then(|shared| shared.payload_meta);
        let meta: Option<SendMeta> = meta.and_then(|meta| serde_json::from_str(meta.get()).ok());
        let Some(sync) = meta.and_then(|meta| meta.sync) else { return };
        let timeout_ms = sync.timeout_ms.unwrap_or(Sync::TIMEOUT_MS);
        let age_ms = clock.0.unix_ms.saturating_sub(message.unix_ms);
        if age_ms > timeout_ms.saturating_add(TIMED_OUT_MS).saturating_add(kept_ms) {
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
            is_late: false,
            is_being_mailed: false,
            is_recorded: false,
        };
        self.insert(ctx, delivery, question);
    }

    /// Restores a question that was recorded when its delivery was acknowledged. The two agents are
    /// `None` if their names are forgotten.
    pub(super) fn restore(
        &mut self,
        ctx: &mut Context,
        record: QuestionRecord,
        ends: (Option<AgentKey>, Option<AgentKey>),
    ) {
        let QuestionRecord { delivery, send_id, correlation_id, timeout_ms, until, .. } = record;
        // A question that was restored with its message needs no record of its own.
        let ((Some(from), Some(to)), false) = (ends, self.by_delivery.contains_key(&delivery))
        else {
            ctx.record(Change::QuestionEnded(delivery));
            return;
        };
        let question = Question {
            from,
            by: None,
            client: None,
            to,
            send_id: SendId::new(&send_id),
            correlation_id,
            timeout_ms,
            until,
            is_late: false,
            is_being_mailed: false,
            is_recorded: true,
        };
        self.insert(ctx, delivery, question);
    }

    /// Records the question of a delivery that was acknowledged. `numbers` returns an agent's
    /// number in records, unless the agent is forgotten.
    pub(super) fn record_alone(
        &mut self,
        ctx: &mut Context,
        delivery: Uuid,
        numbers: impl Fn(AgentKey) -> Option<u64>,
    ) {
        if let Some(question) = self.by_delivery.get_mut(&delivery) {
            question.is_recorded = true;
            record(ctx, delivery, question, numbers);
        }
    }

    /// Records again all questions that have records of their own, for a store that lost them.
    pub(super) fn record_again(
        &self,
        ctx: &mut Context,
        numbers: impl Fn(AgentKey) -> Option<u64>,
    ) {
        let mut recorded: Vec<_> = self.recorded().collect();
        recorded.sort_unstable();
        for delivery in recorded {
            record(ctx, delivery, &self.by_delivery[&delivery], &numbers);
        }
    }

    /// Returns the questions that have records of their own, by their deliveries' ids.
    pub(super) fn recorded(&self) -> impl Iterator<Item = Uuid> {
        self.by_delivery.iter().filter(|(_, question)| question.is_recorded).map(|(id, _)| *id)
    }

    fn insert(&mut self, ctx: &mut Context, delivery: Uuid, question: Question) {
        ctx.timers.set(question.until, Timer::Question(delivery));
        ctx.charge_memory(question.from, question.bytes());
        self.by_sender.entry(question.from).or_default().insert(delivery);
        self.by_delivery.insert(delivery, question);
    }

    /// Keeps a question whose time is over, so that a late answer can become mail. Beyond the limit
    /// for open questions, the oldest late one is closed.
    pub(super) fn retire(&mut self, ctx: &mut Context, delivery: Uuid) {
        let Some(question) = self.by_delivery.get_mut(&delivery).filter(|own| !own.is_late) else {
            return;
        };
        question.is_late = true;
        let (from, until) = (question.from, question.until);
        self.remove_from_sender(from, delivery);
        ctx.timers.cancel(until, Timer::Question(delivery));
        ctx.timers.set(until.plus(ctx.limits.operator_mail_ms), Timer::Question(delivery));
        self.late.insert((until, delivery));
        if self.late.len() > ctx.limits.questions_max
            && let Some((_, oldest)) = self.late.first().copied()
        {
            self.close(ctx, oldest);
        }
    }

    /// Sets whether an answer to a question is being stored as mail.
    pub(super) fn set_being_mailed(&mut self, delivery: Uuid, is_being_mailed: bool) {
        if let Some(question) = self.by_delivery.get_mut(&delivery) {
            question.is_being_mailed = is_being_mailed;
        }
    }

    fn remove_from_sender(&mut self, sender: AgentKey, delivery: Uuid) {
        if let Some(own) = self.by_sender.get_mut(&sender) {
            own.remove(&delivery);
            if own.is_empty() {
                self.by_sender.remove(&sender);
            }
        }
    }

    /// Removes and returns a question.
    pub(super) fn close(&mut self, ctx: &mut Context, delivery: Uuid) -> Option<Question> {
        let question = self.by_delivery.remove(&delivery)?;
        let mut timer = question.until;
        if question.is_late {
            self.late.remove(&(question.until, delivery));
            timer = timer.plus(ctx.limits.operator_mail_ms);
        } else {
            self.remove_from_sender(question.from, delivery);
        }
        ctx.timers.cancel(timer, Timer::Question(delivery));
        ctx.release_memory(question.from, question.bytes());
        if question.is_recorded {
            ctx.record(Change::QuestionEnded(delivery));
        }
        Some(question)
    }

    /// Closes all questions of a sender that is forgotten.
    pub(super) fn close_all_of(&mut self, ctx: &mut Context, sender: AgentKey) {
        for delivery in self.by_sender.get(&sender).cloned().unwrap_or_default() {
            self.close(ctx, delivery);
        }
    }

    /// Whether a question's time is over, which its sender does not know yet.
    pub(super) fn is_due(&self, delivery: Uuid, now: Moment) -> bool {
        self.get(delivery).is_some_and(|question| question.until <= now && !question.is_late)
    }
}

fn record(
    ctx: &mut Context,
    delivery: Uuid,
    question: &Question,
    number: impl Fn(AgentKey) -> Option<u64>,
) {
    // A forgotten agent neither asks nor answers.
    let (Some(from), Some(to)) = (number(question.from), number(question.to)) else { return };
    ctx.record(Change::Question(Box::new(QuestionRecord {
        delivery,
        from,
        to,
        send_id: question.send_id.as_str().into(),
        correlation_id: question.correlation_id.clone(),
        timeout_ms: question.timeout_ms,
        until: question.until,
    })));
}

/// Checks the question of a SEND. The error is a sentence.
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

/// Returns the bytes that a question takes in memory.
pub(super) fn bytes_of(sync: &Sync) -> usize {
    QUESTION_BYTES + sync.correlation_id.len()
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Questions {
        /// Returns the sender of each question, and the question's bytes.
        pub(crate) fn charged(&self) -> impl Iterator<Item = (AgentKey, usize)> {
            self.by_delivery.values().map(|question| (question.from, question.bytes()))
        }
    }
}
