//! Audits of the router's tables: they agree with each other, and no bound is exceeded.

use super::{
    Router, Stage, State, What,
    disk::Disk,
    promises::{Key, number_of},
};
use crate::router::{
    AgentKey,
    client::Client,
    message::Message,
    outbox::Load,
    roster::Agent,
    stream::Stream,
    testbed::{Checked, ensure},
    topics,
};
use std::collections::{BTreeMap, BTreeSet};

impl Router {
    pub(super) fn audit(&self, here: &BTreeSet<String>) -> Checked {
        self.audit_names(here)?;
        self.audit_sessions()?;
        self.audit_loads()?;
        self.roster.all().try_for_each(|agent| self.audit_queue(agent))?;
        self.streams.all().try_for_each(|stream| self.audit_stream(stream))?;
        self.clients.values().try_for_each(|client| self.audit_client(client))?;
        let kept = self.messages.values().filter(|message| message.kept().is_some()).count();
        ensure(kept == self.deliveries.len(), || format!("{kept} messages have an id"))?;
        let limits = &self.limits;
        ensure(self.streams.len() <= limits.streams_max, || "too many streams".into())?;
        ensure(self.strangers.len() <= limits.strangers_max, || "too many strangers".into())?;
        ensure(self.members <= limits.clients_max, || "too many members".into())?;
        ensure(self.roster.len() <= limits.names_max, || "too many names".into())
    }

    /// Checks that each name has one owner, in both tables.
    fn audit_names(&self, here: &BTreeSet<String>) -> Checked {
        let mut owned = BTreeSet::new();
        for (id, client) in &self.clients {
            if let Stage::Member(_) = client.stage {
                let agent = client.agent.and_then(|agent| self.roster.get(agent));
                let agent = agent.ok_or_else(|| format!("{id:?} is nobody"))?;
                ensure(agent.client == Some(*id), || format!("{} has two owners", agent.name))?;
                owned.insert(agent.name.folded());
            }
        }
        ensure(owned == *here, || format!("here are {owned:?}, welcomed were {here:?}"))?;
        let listed = self.roster.here().len();
        let agents = owned.iter().filter(|name| !name.starts_with('@')).count();
        ensure(listed == agents && self.members == owned.len(), || "a wrong listing".into())
    }

    /// Checks that every member has a session with valid tokens and counted replay bytes.
    fn audit_sessions(&self) -> Checked {
        let (mut tokens, mut replay, mut subscribed) = (0, 0, 0);
        for key in self.roster.keys() {
            let agent = &self.roster[key];
            let is_here = agent.client.is_some();
            let Some(session) = agent.session.as_deref() else {
                ensure(!is_here || agent.is_guest(), || format!("{} has no session", agent.name))?;
                continue;
            };
            for hash in session.tokens() {
                ensure(self.tokens.get(hash) == Some(&key), || "a token leads elsewhere".into())?;
                tokens += 1;
            }
            let ends = session.expires.is_some();
            ensure(ends != is_here, || format!("the session of {} ends: {ends}", agent.name))?;
            let (count, bytes) = (session.replay.iter().count(), session.replay.bytes());
            let summed: usize = session.replay.iter().map(|message| message.bytes).sum();
            ensure(bytes == summed && bytes <= self.limits.replay_bytes_max, || {
                format!("{bytes} of {summed} bytes are at hand")
            })?;
            ensure(count <= self.limits.replay_messages_max, || format!("{count} are at hand"))?;
            replay += bytes;
            subscribed += session.subscriptions.iter().map(topics::bytes_of).sum::<usize>();
        }
        ensure(tokens == self.tokens.len(), || format!("{tokens} tokens are good"))?;
        let counted = self.subscriptions.bytes();
        ensure(subscribed == counted, || {
            format!("subscriptions take {subscribed}, not {counted}")
        })?;
        ensure(replay == self.memory.replay, || format!("{replay} bytes are at hand"))
    }

    /// Checks the memory that queues, answers and deferred frames are charged for.
    fn audit_loads(&self) -> Checked {
        let mut loads: BTreeMap<(AgentKey, AgentKey), Load> = BTreeMap::new();
        let mut add = |to: AgentKey, from: AgentKey, bytes: usize| {
            let load = loads.entry((to, from)).or_default();
            load.messages += 1;
            load.bytes += bytes;
        };
        let (again, queued): (Vec<_>, Vec<_>) =
            self.messages.values().partition(|message| message.is_replay);
        for message in queued {
            add(message.to, message.from, message.bytes);
        }
        let mut inside: usize = again.iter().map(|message| message.bytes).sum();
        inside += self.questions.bytes();
        let sessions = self.roster.all().filter_map(|agent| agent.session.as_deref());
        inside += sessions.map(|session| session.answers.bytes()).sum::<usize>();
        for client in self.clients.values() {
            inside += client.window.answers() + client.unheard.bytes();
            for handed in client.window.frames() {
                if let (What::Once { from, .. }, Some(to)) = (&handed.what, client.agent) {
                    add(to, *from, handed.bytes);
                }
            }
        }
        for ((to, from), load) in &loads {
            let counted = self.roster[*to].outbox.share(*from);
            ensure(counted == *load, || format!("a share of {counted:?} is {load:?}"))?;
            let (messages, bytes) = (self.limits.queue_messages_max, self.limits.queue_bytes_max);
            let is_half = load.messages <= messages / 2 && load.bytes <= bytes / 2;
            ensure(is_half || load.messages == 1, || {
                format!("one sender has {load:?} in a queue")
            })?;
            inside += load.bytes;
        }
        let queued: usize = self.roster.all().map(|agent| agent.outbox.total().messages).sum();
        let there: usize = loads.values().map(|load| load.messages).sum();
        ensure(queued == there, || format!("{queued} are queued, {there} are there"))?;
        let doubles: usize = self.roster.all().map(|agent| agent.doubles.len()).sum();
        ensure(doubles == self.doubles, || format!("{doubles} doubles, not {}", self.doubles))?;
        let most = self.limits.doubles_total_max;
        ensure(doubles <= most, || format!("{doubles} doubles, and not {most} at most"))?;
        let counted = self.memory.inside;
        ensure(counted == inside, || format!("{counted} bytes are counted, {inside} are there"))
    }

    fn audit_queue(&self, agent: &Agent) -> Checked {
        let (limits, total) = (&self.limits, agent.outbox.total());
        ensure(agent.outbox.is_consistent(), || "shares don't add up".into())?;
        ensure(total.messages <= limits.queue_messages_max, || {
            format!("{total:?} are in a queue")
        })?;
        ensure(total.bytes <= limits.queue_bytes_max || total.messages == 1, || {
            format!("{total:?} are in a queue")
        })?;
        let on_way =
            agent.hears.iter().map(|stream| self.streams[*stream].on_way.len()).sum::<usize>();
        ensure(on_way as u64 == agent.outbox.in_flight, || format!("{on_way} are on the way"))?;
        let Some(client) = agent.client.map(|client| &self.clients[&client]) else {
            return ensure(on_way == 0, || "on the way to nobody".into());
        };
        let Stage::Member(seat) = &client.stage else { return Ok(()) };
        let most = seat.in_flight_max();
        ensure(on_way as u64 <= most, || format!("{on_way} of {most} are on the way"))?;
        let is_idle = client.window.frames().all(|handed| handed.what.is_answer());
        ensure(!is_idle || agent.outbox.next(most).is_none(), || {
            format!("{} could get more and doesn't", agent.name)
        })
    }

    fn audit_stream(&self, stream: &Stream) -> Checked {
        let waiting = stream.waiting.iter().map(|(seq, key)| (seq, key, false));
        let on_way = stream.on_way.iter().map(|(seq, key)| (seq, key, true));
        for (seq, key, is_on_way) in waiting.chain(on_way) {
            let message = &self.messages[*key];
            let state = message.kept().map(|kept| kept.state);
            let is_right = matches!(state, Some(State::OnWay { .. })) == is_on_way;
            ensure(is_right && message.seq == *seq, || format!("{message:?} is misplaced"))?;
        }
        let ordered = stream.waiting.iter().is_sorted_by_key(|(seq, _)| *seq);
        ensure(ordered, || "what waits is out of order".into())?;
        let first = stream.waiting.front().map(|(_, key)| &self.messages[*key]);
        let may_go = |first: &&Message| !first.is_held() && first.seq <= stream.reserved;
        let turn = first.filter(may_go).map(|first| first.order);
        ensure(turn == stream.turn.map(|turn| turn.order), || "it is another's turn".into())?;
        let is_over = stream.is_orphan && stream.is_empty();
        ensure(!is_over, || "an orphaned stream stays".into())
    }

    fn audit_client(&self, client: &Client) -> Checked {
        let deliveries = client.window.frames().filter(|handed| !handed.what.is_answer());
        let bytes: Vec<_> = deliveries.map(|handed| handed.bytes).collect();
        let sum: usize = bytes.iter().sum();
        ensure(sum <= self.limits.window_bytes || bytes.len() == 1, || {
            format!("a window of {sum}")
        })?;
        let needs_alarm = !matches!(client.stage, Stage::HungUp);
        ensure(client.alarm.is_some() == needs_alarm, || format!("{client:?} has a wrong alarm"))
    }
}

/// The tables against the outside.
impl Router {
    /// At-most-once messages that have not left as a whole, with their senders' folded names.
    pub(super) fn held_once(&self) -> BTreeMap<Key, String> {
        let name = |agent: AgentKey| self.roster.get(agent).map(|agent| agent.name.folded());
        let queued = self.messages.values().filter(|message| !message.is_replay);
        let queued = queued.filter(|message| message.kept().is_none());
        let queued = queued.map(|message| (message.send_id.as_str(), message.to, message.from));
        let handed = self.clients.values().flat_map(|client| {
            client.window.frames().filter_map(|handed| match (&handed.what, client.agent) {
                (What::Once { send_id, from, .. }, Some(to)) => Some((send_id.as_str(), to, *from)),
                _ => None,
            })
        });
        let held = queued.chain(handed);
        let keyed = held.filter_map(|(id, to, from)| {
            // A guest that has gone is not notified.
            Some(((number_of(id)?, name(to)?), name(from).unwrap_or_default()))
        });
        keyed.collect()
    }

    /// Says what the router holds, if anything.
    pub(super) fn rest(&self) -> String {
        let messages = self.messages.values().map(|message| format!("{message:.300?}; "));
        let bytes = (self.memory.inside > 0).then(|| "bytes; ".to_owned());
        messages.chain(bytes).collect()
    }

    /// Checks that the disk has what the router holds.
    pub(super) fn audit_kept(&self, disk: &Disk) -> Checked {
        let held = self.deliveries.values().map(|key| self.messages[*key].order);
        let held: BTreeSet<_> = held.collect();
        if held != disk.open {
            return Err(format!("held are {held:?}, kept are {:?}", disk.open));
        }
        for stream in self.streams.all().filter(|stream| stream.is_recorded) {
            let record = disk.synced.streams.get(&stream.number);
            if record
                .is_none_or(|record| stream.asked != u64::MAX && record.reserved < stream.asked)
            {
                return Err(format!("{stream:?} is kept as {record:?}"));
            }
        }
        for agent in self.roster.all().filter(|agent| agent.floor.number > 0) {
            let record = disk.synced.streams.get(&agent.floor.number);
            if record.is_none_or(|record| record.reserved != agent.floor.seq) {
                return Err(format!("the floor of {agent:?} is kept as {record:?}"));
            }
        }
        let answers: Vec<_> = self.kept_answers().map(|(number, ..)| number).collect();
        let answers: BTreeSet<_> = answers.into_iter().collect();
        if !answers.iter().eq(disk.synced.notices.keys()) {
            let kept: Vec<_> = disk.synced.notices.keys().collect();
            return Err(format!("answers held are {answers:?}, kept are {kept:?}"));
        }
        let questions: BTreeSet<_> = self.questions.kept().collect();
        if !questions.iter().eq(disk.synced.questions.keys()) {
            let kept = &disk.synced.questions;
            return Err(format!("questions held are {questions:?}, kept are {kept:?}"));
        }
        for agent in self.roster.all().filter(|agent| !agent.is_guest()) {
            let record = disk.synced.sessions.get(&agent.number);
            let session = agent.session.as_deref();
            let token = session.map(|session| session.token);
            if token != record.map(|record| record.token) {
                return Err(format!("{} has {session:?}, kept is {record:?}", agent.name));
            }
        }
        Ok(())
    }
}
