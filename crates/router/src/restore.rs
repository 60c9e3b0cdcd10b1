//! Restoring of the state that an earlier daemon recorded.

use super::{
    Router,
    interface::Output,
    keys::{AgentKey, StreamKey},
    mail::{Mail, SendState, Sent},
    send_digest::SendDigest,
    sender::SenderAuth,
    timers::Timer,
};
use protocol::{
    Now,
    code::NackCode,
    deliver::Shared,
    record::{
        AgentRecord, Change, Clock, DedupRecord, DeliveryRecord, Ending, Image, MessageRecord,
        SessionRecord, StreamRecord,
    },
};
use rustc_hash::FxHashMap;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// The most messages of a stream in a millisecond, of answers of `@relay` and of guests. After a
/// restart, the sequence numbers of these streams continue from the daemon's clock in milliseconds,
/// multiplied by this number, so that no number is used twice.
const SEQS_PER_MS: u64 = 1_024;

/// The longest duration of an orderly stop. An agent with a session that left within this time
/// before the last daemon's end was connected when the daemon began to stop.
const STOP_MS_MAX: u64 = 2_000;

/// The restored agents, streams and SENDs, by their numbers in records.
#[derive(Default)]
struct Restored {
    /// The time of the last record.
    clock: Clock,
    /// The sequence number above which streams continue whose last numbers are not recorded.
    seqs: u64,
    agents: FxHashMap<u64, AgentKey>,
    /// Agents that were connected when the last daemon ended. They may have received their open
    /// deliveries.
    here: HashSet<u64>,
    /// Keys for senders that are forgotten and whose messages still go out.
    ghosts: FxHashMap<u64, AgentKey>,
    streams: FxHashMap<u64, StreamKey>,
    /// The digest of each message's SEND.
    digests: FxHashMap<u64, SendDigest>,
    /// The number of each message's open deliveries.
    open: FxHashMap<u64, u32>,
    /// Messages whose recipient was away.
    away: HashSet<u64>,
    /// The last message with a restored delivery. Its other deliveries share it, and later messages
    /// share its sender.
    last: Option<(u64, Arc<Sent>)>,
}

impl Restored {
    fn sender(&self, number: u64) -> Option<AgentKey> {
        self.agents.get(&number).or_else(|| self.ghosts.get(&number)).copied()
    }

    /// Returns what all deliveries of a message share.
    fn sent(&mut self, from: AgentKey, message: &MessageRecord) -> Arc<Sent> {
        let last = self.last.as_ref();
        if let Some((_, sent)) =
            last.filter(|(number, sent)| (*number, sent.from) == (message.number, from))
        {
            return sent.clone();
        }
        let auth = last.map(|(_, sent)| &sent.auth);
        let auth =
            auth.filter(|auth| (&auth.session, auth.proof) == (&message.session, message.proof));
        let auth = auth.cloned().unwrap_or_else(|| SenderAuth::of_record(message));
        let sent = Arc::new(Sent::restored(from, message, auth));
        self.last = Some((message.number, sent.clone()));
        sent
    }
}

impl Router {
    /// Restores the state in `image`. Must be called before the first input is handled.
    pub fn restore(&mut self, now: Now, image: Image, out: &mut Vec<Output>) {
        self.ctx.now = now;
        self.ctx.swap_outputs(out);
        self.ctx.journal.restore(image.last);
        let seqs = now.monotonic.0 * SEQS_PER_MS;
        if image.last.agent > 0 {
            self.requests.continue_seqs(seqs);
        }
        let mut restored = Restored { clock: image.clock, seqs, ..Restored::default() };
        for (_, record) in image.agents {
            self.restore_agent(record, &mut restored);
        }
        if !image.sessions.is_empty() {
            let until = self.lifecycle.await_returns(now.monotonic);
            self.ctx.timers.set(until, Timer::Returns);
        }
        for (_, record) in image.sessions {
            self.restore_session(record, &restored);
        }
        for (_, record) in image.streams {
            self.restore_stream(&record, &mut restored);
        }
        // Only open messages need theirs, and they are fewer than the remembered ones.
        for record in image.messages.keys().filter_map(|number| image.dedup.get(number)) {
            let digest = SendDigest::from_fingerprint(record.fingerprint);
            restored.digests.insert(record.message, digest);
        }
        for (_, record) in image.deliveries {
            self.restore_delivery(&record, &image.messages, &mut restored);
        }
        self.restore_dedup(&image.dedup, &restored);
        for (_, record) in image.questions {
            let agent = |number| restored.agents.get(&number).copied();
            let ends = (agent(record.from), agent(record.to));
            self.questions.restore(&mut self.ctx, record, ends);
        }
        // Notices are restored last, because they are dropped if memory is short.
        for (_, record) in image.notices {
            let sender = restored.agents.get(&record.agent).copied();
            self.restore_notice(self.ctx.planted.notified(sender), record);
        }
        for (number, dead) in image.dead_letters {
            self.mail.note_dead_letter(dead.id, number, dead.to, 0);
        }
        self.mail.finish_restore(&mut self.ctx);
        self.ctx.swap_outputs(out);
    }

    fn restore_agent(&mut self, record: AgentRecord, restored: &mut Restored) {
        let (number, is_guest) = (record.number, record.name.is_guests());
        // The operators' name has no connection of its own, and is never forgotten.
        if record.forget_at.is_none() && !record.name.is_daemons() {
            restored.here.insert(number);
        }
        let agent = self.directory.restore_agent(&mut self.ctx, record);
        self.mail.open_mailbox(&mut self.ctx, agent, number, is_guest);
        if is_guest {
            self.mail.restore_floor(agent, restored.seqs, 0);
        }
        restored.agents.insert(number, agent);
    }

    fn restore_session(&mut self, record: SessionRecord, restored: &Restored) {
        let Some(agent) = restored.agents.get(&record.agent).copied() else {
            self.ctx.record(Change::SessionEnded { agent: record.agent });
            return;
        };
        let since_unix_ms = self.directory[agent].since_unix_ms;
        let away_ms = restored.clock.0.unix_ms.saturating_sub(since_unix_ms);
        let was_here = restored.here.contains(&record.agent) || away_ms <= STOP_MS_MAX;
        self.directory.restore_session(&mut self.ctx, agent, record, was_here);
    }

    fn restore_stream(&mut self, record: &StreamRecord, restored: &mut Restored) {
        let sender = restored.agents.get(&record.from).copied();
        if record.to == 0
            && let Some(sender) = sender
        {
            return self.mail.restore_floor(sender, record.reserved, record.number);
        }
        let Some(to) = restored.agents.get(&record.to).copied() else {
            self.ctx.record(Change::StreamEnded(record.number));
            return;
        };
        let key = match sender {
            Some(from) if self.directory[from].is_guest() => {
                let record = StreamRecord { reserved: restored.seqs, ..record.clone() };
                self.mail.restore_stream(&mut self.ctx, &record, from, to)
            }
            Some(from) => self.mail.restore_stream(&mut self.ctx, record, from, to),
            None => {
                let ghost = *restored
                    .ghosts
                    .entry(record.from)
                    .or_insert_with(|| self.directory.unused_key());
                self.mail.restore_orphan(&mut self.ctx, record, ghost, to, 0)
            }
        };
        restored.streams.insert(record.number, key);
    }

    fn restore_delivery(
        &mut self,
        record: &DeliveryRecord,
        messages: &BTreeMap<u64, MessageRecord>,
        restored: &mut Restored,
    ) {
        let message = messages.get(&record.message);
        let known = restored.streams.get(&record.stream).copied();
        let known = known.filter(|stream| self.is_between(*stream, record, message, restored));
        let stream = known.or_else(|| self.replacement(record, message?, restored));
        let (Some(message), Some(stream)) = (message, stream) else {
            // A delivery cannot be restored without its recipient or its message's text.
            let why = "its recipient or its text is not in the store any more".into();
            let ending = Ending::Dead { code: NackCode::StoreFailed, why };
            let (delivery, unix_ms) = (record.number, self.ctx.now.unix_ms);
            self.ctx.record(Change::Ended { delivery, ending, unix_ms });
            return;
        };
        let digest = restored.digests.get(&record.message).copied().unwrap_or_default();
        let attempts = record.attempts.max(u32::from(restored.here.contains(&record.to)));
        let Some((from, to)) = self.mail.stream(stream).map(|it| (it.from(), it.to())) else {
            return;
        };
        if attempts > record.attempts {
            // From now on the recipient counts as away, and the next daemon would not know that it
            // may have received the message.
            let (delivery, failures) = (record.number, record.failures);
            self.ctx.record(Change::Attempted { delivery, attempts, failures });
        }
        let is_operators = self.is_operator(from);
        let (ctx, sent) = (&mut self.ctx, restored.sent(from, message));
        self.mail.restore_message(ctx, stream, record, (message, sent), attempts, digest);
        if self.directory.get(from).is_some() {
            let kept_ms = if is_operators { ctx.limits.operator_mail_ms } else { 0 };
            let (ends, clock) = ((from, to), restored.clock);
            self.questions.restore_with_message(ctx, record.id, message, ends, (clock, kept_ms));
        }
        *restored.open.entry(record.message).or_default() += 1;
        if record.attempts == 0 && !self.is_operator(to) {
            restored.away.insert(record.message);
        }
    }

    /// Whether a stream has the sender of a delivery's message and its recipient. If not, a row in
    /// the store is damaged.
    fn is_between(
        &self,
        stream: StreamKey,
        record: &DeliveryRecord,
        message: Option<&MessageRecord>,
        restored: &Restored,
    ) -> bool {
        let ends = message.map(|it| (restored.sender(it.sender), restored.agents.get(&record.to)));
        let known = self.mail.stream(stream).map(|it| (it.from(), it.to()));
        matches!((ends, known), (Some((Some(from), Some(to))), Some(known)) if known == (from, *to))
    }

    /// Returns the open stream that replaces the stream in the record of a redelivered dead letter.
    fn replacement(
        &self,
        record: &DeliveryRecord,
        message: &MessageRecord,
        restored: &Restored,
    ) -> Option<StreamKey> {
        let shared = Shared::read(&message.shared)?;
        let to = *restored.agents.get(&record.to)?;
        self.mail.find_stream_to(to, message.sender, shared.topic.as_deref())
    }

    /// Restores the dedup windows, as far as the bound for all windows together allows.
    fn restore_dedup(&mut self, records: &BTreeMap<u64, DedupRecord>, restored: &Restored) {
        let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
        for record in records.values() {
            *counts.entry(record.sender).or_default() += 1;
        }
        // Guests that were connected do not return, but their SENDs are still in the store.
        let is_gone = |sender: &&u64| !restored.agents.contains_key(*sender);
        let mut gone: Vec<u64> = counts.keys().filter(is_gone).copied().collect();
        gone.sort_unstable();
        for sender in gone {
            self.ctx.record(Change::AgentForgotten(sender));
        }
        let agent = |(sender, count)| Some((*restored.agents.get(&sender)?, count));
        let counts = counts.into_iter().filter_map(agent).collect();
        let forget_at = |agent| self.directory.get(agent)?.forget_at;
        let shares = Mail::dedup_shares(&self.ctx, counts, forget_at);
        let share =
            |(sender, agent): (&u64, &AgentKey)| Some((*sender, (*agent, *shares.get(agent)?)));
        let senders: FxHashMap<_, _> = restored.agents.iter().filter_map(share).collect();
        let senders = self.ctx.planted.remembered(senders);
        for record in records.values() {
            if let Some((sender, share)) = senders.get(&record.sender).copied() {
                let state = restored_state(record, restored);
                let open = restored.open.get(&record.message).copied().unwrap_or(0);
                let digest = SendDigest::from_fingerprint(record.fingerprint);
                self.mail.remember_send(&mut self.ctx, sender, digest, state, open, share);
            }
        }
    }
}

fn restored_state(record: &DedupRecord, restored: &Restored) -> SendState {
    let number = record.message;
    if record.remaining.is_empty() {
        let away = record.recipients.is_none() && restored.away.contains(&number);
        return SendState::Complete { recipients: record.recipients, away, number, ticket: 0 };
    }
    let left = record.remaining.iter().filter_map(|agent| restored.sender(*agent)).collect();
    let recipients = record.recipients.unwrap_or(0);
    SendState::Partial { recipients, left, number, ticket: 0 }
}
