//! Restoring of the state that an earlier daemon recorded.

use super::{
    Router,
    interface::Output,
    keys::{AgentKey, StreamKey},
    mail::{Mail, SendState},
    send_digest::SendDigest,
};
use crate::{
    protocol::{Now, code::NackCode, deliver::Shared},
    record::{
        AgentRecord, Change, Clock, DedupRecord, DeliveryRecord, Ending, Image, MessageRecord,
        SessionRecord, StreamRecord,
    },
};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The most answers of `@relay` to one agent in a millisecond. After a restart, the sequence
/// numbers of answers continue from the daemon's clock in milliseconds, multiplied by this number,
/// so that no number is used twice.
const RELAY_SEQS_PER_MS: u64 = 1_024;

/// The longest duration of an orderly stop. An agent with a session that left within this time
/// before the last daemon's end was connected when the daemon began to stop.
const STOP_MS_MAX: u64 = 2_000;

/// The restored agents, streams and SENDs, by their numbers in records.
#[derive(Default)]
struct Restored {
    /// The time of the last record.
    clock: Clock,
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
}

impl Restored {
    fn sender(&self, number: u64) -> Option<AgentKey> {
        self.agents.get(&number).or_else(|| self.ghosts.get(&number)).copied()
    }
}

impl Router {
    /// Restores the state in `image`. Must be called before the first input is handled.
    pub fn restore(&mut self, now: Now, image: Image, out: &mut Vec<Output>) {
        self.ctx.now = now;
        self.ctx.swap_outputs(out);
        self.ctx.journal.restore(image.last);
        if image.last.agent > 0 {
            self.requests.continue_seqs(now.monotonic.0 * RELAY_SEQS_PER_MS);
        }
        let mut restored = Restored { clock: image.clock, ..Restored::default() };
        for (_, record) in image.agents {
            self.restore_agent(record, &mut restored);
        }
        for (_, record) in image.sessions {
            self.restore_session(record, &restored);
        }
        for (_, record) in image.streams {
            self.restore_stream(&record, &mut restored);
        }
        for record in image.dedup.values() {
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
            if self.ctx.planted.restores_notices() {
                let sender = restored.agents.get(&record.agent).copied();
                self.restore_notice(sender, record);
            } else {
                self.ctx.record(Change::NoticeEnded(record.number));
            }
        }
        for (number, dead) in image.dead_letters {
            self.mail.note_dead_letter(dead.id, number, dead.to);
        }
        self.mail.finish_restore(&mut self.ctx);
        self.ctx.swap_outputs(out);
    }

    fn restore_agent(&mut self, record: AgentRecord, restored: &mut Restored) {
        let (number, is_guest) = (record.number, record.name.is_guests());
        if record.forget_at.is_none() {
            restored.here.insert(number);
        }
        let agent = self.directory.restore_agent(&mut self.ctx, record);
        self.mail.open_mailbox(agent, number, is_guest);
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
            Some(from) => self.mail.restore_stream(&self.ctx, record, from, to),
            None => {
                let ghost = *restored
                    .ghosts
                    .entry(record.from)
                    .or_insert_with(|| self.directory.unused_key());
                self.mail.restore_orphan(record, ghost, to, 0)
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
        let ctx = &mut self.ctx;
        let key = self.mail.restore_message(ctx, stream, record, message, attempts, digest);
        if let Some(queued) = self.mail.message(key)
            && self.directory.get(queued.from).is_some()
        {
            let (ends, clock) = ((queued.from, queued.to), restored.clock);
            self.questions.restore_with_message(ctx, record.id, message, ends, clock);
        }
        *restored.open.entry(record.message).or_default() += 1;
        if record.attempts == 0 {
            restored.away.insert(record.message);
        }
    }

    /// Returns the open stream that replaces the stream in the record of a redelivered dead letter.
    fn replacement(
        &self,
        record: &DeliveryRecord,
        message: &MessageRecord,
        restored: &Restored,
    ) -> Option<StreamKey> {
        let shared = Shared::read(&message.shared)?;
        let (from, to) = (restored.sender(message.sender)?, *restored.agents.get(&record.to)?);
        self.mail.find_stream(from, to, shared.topic.as_deref())
    }

    /// Restores the dedup windows, as far as the bound for all windows together allows.
    fn restore_dedup(&mut self, records: &BTreeMap<u64, DedupRecord>, restored: &Restored) {
        // Guests that were connected do not return, but their SENDs are still in the store.
        let senders = records.values().map(|record| record.sender);
        let gone: BTreeSet<_> =
            senders.filter(|sender| !restored.agents.contains_key(sender)).collect();
        for sender in gone {
            self.ctx.record(Change::AgentForgotten(sender));
        }
        let mut counts: FxHashMap<AgentKey, usize> = FxHashMap::default();
        for agent in records.values().filter_map(|record| restored.agents.get(&record.sender)) {
            *counts.entry(*agent).or_default() += 1;
        }
        let forget_at = |agent| self.directory.get(agent)?.forget_at;
        let shares = Mail::dedup_shares(&self.ctx, counts, forget_at);
        for record in records.values().filter(|_| self.ctx.planted.restores_dedup()) {
            if let Some(sender) = restored.agents.get(&record.sender).copied() {
                let number = record.message;
                let state = restored_state(record, restored);
                let open = restored.open.get(&number).copied().unwrap_or(0);
                let digest = SendDigest::from_fingerprint(record.fingerprint);
                self.mail.remember_send(sender, digest, state, open, shares[&sender]);
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
