//! A new start from what an earlier daemon kept.

#[cfg(test)]
use super::sim::Canary;
use super::{
    AgentKey, Output, Router, StreamKey,
    alarm::Alarm,
    doubles::{self, Content, Holder, Standing},
    hash::FastMap,
    idle::Floor,
    message::{Body, HEAD_BYTES, Kept, Message, SendId, Speaker, State},
    outcome::Answers,
    replay::Replay,
    session::Session,
};
use crate::protocol::{Now, code::NackCode, deliver::Shared, topic::Pattern};
use crate::record::{
    AgentRecord, Change, Clock, DedupRecord, DeliveryRecord, Ending, Image, MessageRecord,
    SessionRecord, StreamRecord,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem,
};

/// Answers of `@relay` to one agent in a millisecond, at most: its numbers go on over restarts by time.
const RELAY_SEQS_PER_MS: u64 = 1_024;

/// An agent with a session that left so shortly before the last daemon's end was connected when
/// that was told to stop.
const STOP_MS_MAX: u64 = 2_000;

/// Who and what the records' numbers mean now.
#[derive(Default)]
struct Places {
    /// When something was kept last.
    clock: Clock,
    agents: FastMap<u64, AgentKey>,
    /// Those who were here when the daemon ended: they may have heard what is open.
    here: HashSet<u64>,
    /// Senders who are forgotten: their messages still go out.
    ghosts: FastMap<u64, AgentKey>,
    streams: FastMap<u64, StreamKey>,
    /// Fingerprints of messages.
    contents: FastMap<u64, Content>,
    /// Open deliveries of messages.
    open: FastMap<u64, u32>,
    /// Messages whose recipient was away.
    away: HashSet<u64>,
}

impl Places {
    fn sender(&self, number: u64) -> Option<AgentKey> {
        self.agents.get(&number).or_else(|| self.ghosts.get(&number)).copied()
    }
}

impl Router {
    /// Takes up what was kept. Nothing has happened before.
    pub fn restore(&mut self, now: Now, image: Image, out: &mut Vec<Output>) {
        self.now = now;
        mem::swap(&mut self.out, out);
        self.ledger.last = image.last;
        if image.last.agent > 0 {
            self.relay_seq_base = now.monotonic.0 * RELAY_SEQS_PER_MS;
        }
        let mut places = Places { clock: image.clock, ..Places::default() };
        for (_, record) in image.agents {
            let number = record.number;
            if record.forget_at.is_none() {
                places.here.insert(number);
            }
            let agent = self.restore_agent(record);
            places.agents.insert(number, agent);
        }
        for (_, record) in image.sessions {
            self.restore_session(record, &places);
        }
        for (_, record) in image.streams {
            self.restore_stream(&record, &mut places);
        }
        for double in image.dedup.values() {
            places.contents.insert(double.message, Content::from_fingerprint(double.fingerprint));
        }
        for (_, record) in image.deliveries {
            self.restore_delivery(record, &image.messages, &mut places);
        }
        self.forget_guests(&image.dedup, &places);
        let room = self.room_for_doubles(&image.dedup, &places);
        for (_, record) in image.dedup {
            #[cfg(test)]
            if self.has(Canary::ForgottenDoubles) {
                continue;
            }
            self.restore_double(&record, &places, &room);
        }
        for (_, record) in image.questions {
            self.restore_open_question(record, &places.agents);
        }
        // Last, since they make room for all else.
        for (_, record) in image.notices {
            #[cfg(test)]
            if self.has(Canary::ForgottenAnswers) {
                self.keep(Change::NoticeEnded(record.number));
                continue;
            }
            let sender = places.agents.get(&record.agent).copied();
            self.restore_answer(sender, record);
        }
        for (number, dead) in image.dead_letters {
            self.dead.add(dead.id, number, dead.to);
        }
        for key in self.streams.keys() {
            self.streams[key].guess_gone();
            self.refresh_turn(key);
            self.close_if_over(key);
        }
        mem::swap(&mut self.out, out);
    }

    fn restore_agent(&mut self, record: AgentRecord) -> AgentKey {
        let key = self.roster.add(record.name, record.number);
        let agent = &mut self.roster[key];
        agent.since_unix_ms = record.since_unix_ms;
        agent.forget_at = record.forget_at;
        // Operators never come or go: they are not forgotten, and their streams go on.
        if agent.name.is_daemons() {
            return key;
        }
        if agent.forget_at.is_none() {
            // It was here when the daemon ended.
            agent.since_unix_ms = self.now.unix_ms;
            self.set_forgetting(key);
        } else if let Some(at) = record.forget_at {
            self.alarms.set(at, Alarm::Agent(key));
        }
        key
    }

    /// Whoever had it is away now, and may come back.
    fn restore_session(&mut self, record: SessionRecord, places: &Places) {
        let Some(agent) = places.agents.get(&record.agent).copied() else {
            self.keep(Change::SessionEnded { agent: record.agent });
            return;
        };
        // They were checked when they were taken; what isn't one now would match nothing.
        let patterns = record.subscriptions.iter().filter_map(|text| Pattern::parse(text).ok());
        let subscriptions: Vec<_> = patterns.collect();
        for pattern in &subscriptions {
            self.subscriptions.add(pattern, agent);
        }
        for hash in [Some(record.token), record.spent].into_iter().flatten() {
            self.tokens.insert(hash, agent);
        }
        let was_here = places.here.contains(&record.agent);
        let gone_ms = places.clock.0.unix_ms.saturating_sub(self.roster[agent].since_unix_ms);
        self.roster[agent].is_expected = was_here || gone_ms <= STOP_MS_MAX;
        self.roster[agent].session = Some(Box::new(Session {
            id: record.id,
            token: record.token,
            spent: record.spent.into_iter().collect(),
            expires: record.expires,
            capabilities: record.capabilities,
            subscriptions,
            replay: Replay::default(),
            answers: Answers::default(),
        }));
        match record.expires {
            Some(at) => self.alarms.set(at, Alarm::Session(agent)),
            // It was in use when the daemon ended.
            None => self.leave_session(agent),
        }
    }

    fn restore_stream(&mut self, record: &StreamRecord, places: &mut Places) {
        if record.to == 0
            && let Some(sender) = places.agents.get(&record.from)
        {
            self.roster[*sender].floor = Floor { seq: record.reserved, number: record.number };
            return;
        }
        let Some(to) = places.agents.get(&record.to).copied() else {
            self.keep(Change::StreamEnded(record.number));
            return;
        };
        let sender = places.agents.get(&record.from).copied();
        let from = sender.unwrap_or_else(|| {
            *places.ghosts.entry(record.from).or_insert_with(|| self.roster.ghost())
        });
        // Who is forgotten says nothing more, but all that was said may go out.
        let numbers = sender.map_or((0, u64::MAX), |_| (record.reserved, record.reserved));
        #[cfg(test)]
        let numbers = if self.has(Canary::ReusedNumbers) { (0, numbers.1) } else { numbers };
        let key = self.streams.open((from, record.from), to, record.topic.as_deref(), numbers);
        let stream = &mut self.streams[key];
        stream.number = record.number;
        stream.is_recorded = true;
        stream.is_orphan = sender.is_none();
        if sender.is_some() {
            self.roster[from].says.insert(key);
        }
        self.roster[to].hears.insert(key);
        places.streams.insert(record.number, key);
    }

    fn restore_delivery(
        &mut self,
        record: DeliveryRecord,
        messages: &BTreeMap<u64, MessageRecord>,
        places: &mut Places,
    ) {
        let message = messages.get(&record.message);
        let known = places.streams.get(&record.stream).copied();
        let stream = known.or_else(|| self.stream_in_place(&record, message?, places));
        let (Some(message), Some(stream)) = (message, stream) else {
            return self.lose(&record);
        };
        let (from, to) = (self.streams[stream].from(), self.streams[stream].to());
        let bytes = message.shared.len() + HEAD_BYTES;
        let content = places.contents.get(&record.message).copied();
        let attempts = record.attempts.max(u32::from(places.here.contains(&record.to)));
        let key = self.messages.insert(Message {
            from,
            by: None,
            to,
            stream,
            seq: record.seq,
            order: record.number,
            send_id: SendId::new(&message.send_id),
            bytes,
            expires: record.expires,
            alarm: record.expires,
            is_replay: false,
            body: Body::Kept(Kept {
                id: record.id,
                message: record.message,
                shared: message.shared.clone(),
                to_everyone: message.to_everyone,
                unix_ms: message.unix_ms,
                speaker: Speaker { session: message.session.clone(), proof: message.proof },
                attempts,
                recorded: attempts,
                failures: record.failures,
                state: State::Waiting,
                content: content.unwrap_or_default(),
                reported: None,
            }),
        });
        self.alarms.set(record.expires, Alarm::Message(key));
        self.deliveries.insert(record.id, key);
        self.restore_question(record.id, message, (from, to), places.clock);
        let waits_in = &mut self.streams[stream];
        waits_in.last_order = waits_in.last_order.max(record.number);
        waits_in.wait(record.seq, key);
        self.roster[to].outbox.charge(from, bytes);
        self.memory.inside += bytes;
        *places.open.entry(record.message).or_default() += 1;
        if record.attempts == 0 {
            places.away.insert(record.message);
        }
    }

    /// A dead letter that is to be delivered again waits in the stream that was opened in place of its own.
    fn stream_in_place(
        &self,
        record: &DeliveryRecord,
        message: &MessageRecord,
        places: &Places,
    ) -> Option<StreamKey> {
        let said = Shared::read(&message.shared)?;
        let (from, to) = (places.sender(message.sender)?, *places.agents.get(&record.to)?);
        self.streams.find(from, to, said.topic.as_deref())
    }

    /// What belongs to nothing that is known can't be delivered.
    fn lose(&mut self, record: &DeliveryRecord) {
        let why = "its recipient or its text is not in the store any more".into();
        let ending = Ending::Dead { code: NackCode::StoreFailed, why };
        let (delivery, unix_ms) = (record.number, self.now.unix_ms);
        self.keep(Change::Ended { delivery, ending, unix_ms });
    }

    /// Guests that were here when the daemon ended don't come back: what they sent is in the store still.
    fn forget_guests(&mut self, doubles: &BTreeMap<u64, DedupRecord>, places: &Places) {
        let senders = doubles.values().map(|double| double.sender);
        let gone: BTreeSet<_> = senders.filter(|it| !places.agents.contains_key(it)).collect();
        for sender in gone {
            self.keep(Change::AgentForgotten(sender));
        }
    }

    /// How many of its last doubles each sender may keep.
    fn room_for_doubles(
        &self,
        doubles: &BTreeMap<u64, DedupRecord>,
        places: &Places,
    ) -> FastMap<AgentKey, usize> {
        let mut counts: FastMap<AgentKey, usize> = FastMap::default();
        for agent in doubles.values().filter_map(|double| places.agents.get(&double.sender)) {
            *counts.entry(*agent).or_default() += 1;
        }
        let holders = counts.into_iter().map(|(agent, count)| {
            let forget_at = self.roster[agent].forget_at;
            Holder { agent, forget_at, count: count.min(self.limits.doubles_max) }
        });
        let mut holders: Vec<_> = holders.collect();
        doubles::share_out(&mut holders, self.limits.doubles_total_max);
        holders.into_iter().map(|holder| (holder.agent, holder.count)).collect()
    }

    fn restore_double(
        &mut self,
        record: &DedupRecord,
        places: &Places,
        room: &FastMap<AgentKey, usize>,
    ) {
        let Some(sender) = places.agents.get(&record.sender).copied() else { return };
        let number = record.message;
        let standing = if record.remaining.is_empty() {
            let away = record.recipients.is_none() && places.away.contains(&number);
            Standing::Taken { recipients: record.recipients, away, number, ticket: 0 }
        } else {
            let left = record.remaining.iter().filter_map(|agent| places.sender(*agent)).collect();
            let recipients = record.recipients.unwrap_or(0);
            Standing::Partly { recipients, left, number, ticket: 0 }
        };
        let open = places.open.get(&number).copied().unwrap_or(0);
        let content = Content::from_fingerprint(record.fingerprint);
        self.remember(sender, content, standing, open, room[&sender]);
    }
}
