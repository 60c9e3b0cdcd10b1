//! Audits of the router's tables: the tables agree with each other, and no limit is exceeded.

use super::{
    disk::Disk,
    sends::{Key, number_of},
};
use crate::{
    Router,
    accounts::{Class, Principal, size_class},
    connections::{Client, Content, Stage},
    directory::bytes_of,
    keys::AgentKey,
    mail::{Load, Mailbox, Message, QueueState, RECORD_BYTES, Sent, Stream, bytes_of_report},
    oracle::{Checked, ensure},
};
use protocol::{name::OPERATOR, relay::Reported};
use std::collections::{BTreeMap, BTreeSet};

impl Router {
    pub(super) fn audit(&self, here: &BTreeSet<String>) -> Checked {
        self.audit_names(here)?;
        self.audit_sessions()?;
        self.audit_loads()?;
        self.mail
            .all_mailboxes()
            .try_for_each(|(agent, mailbox)| self.audit_queue(agent, mailbox))?;
        self.mail.all_streams().try_for_each(|stream| self.audit_stream(stream))?;
        self.audit_accounts()?;
        self.connections.all().try_for_each(|(_, client)| self.audit_client(client))?;
        let messages = self.mail.all_messages();
        let kept = messages.filter(|message| message.reliable().is_some()).count();
        ensure(kept == self.mail.delivery_count(), || format!("{kept} messages have an id"))?;
        let limits = &self.ctx.limits;
        ensure(self.mail.streams() <= limits.streams_max, || "too many streams".into())?;
        ensure(self.connections.unauthenticated() <= limits.unauthenticated_max, || {
            "too many unauthenticated connections".into()
        })?;
        ensure(self.members() <= limits.clients_max, || "too many members".into())?;
        ensure(self.directory.len() <= limits.names_max, || "too many names".into())
    }

    /// Checks that no name has two connections, and that connections and directory agree on the
    /// members.
    fn audit_names(&self, here: &BTreeSet<String>) -> Checked {
        let (mut owned, mut welcomed) = (BTreeSet::new(), BTreeSet::new());
        for (id, client) in self.connections.all() {
            if let Stage::Member(membership) = &client.stage
                && !membership.is_operator()
            {
                let agent = client.agent.and_then(|agent| self.directory.get(agent));
                let agent = agent.ok_or_else(|| format!("the member {id:?} has no agent"))?;
                ensure(agent.client == Some(id), || format!("{} has two owners", agent.name))?;
                owned.insert(agent.name.folded());
                if !client.holds_frames() {
                    welcomed.insert(agent.name.folded());
                }
            }
        }
        let mut here = here.clone();
        here.remove(OPERATOR);
        ensure(welcomed == here, || {
            format!("the members are {welcomed:?}, and {here:?} got WELCOMEs")
        })?;
        self.audit_counts()?;
        let listed = self.directory.here().len();
        let agents = owned.iter().filter(|name| !name.starts_with('@')).count();
        ensure(listed == agents && self.members() == owned.len(), || {
            format!("{listed} agents are listed and {agents} are connected")
        })
    }

    /// Returns the number of members without operators.
    fn members(&self) -> usize {
        let is_operator = |client: &Client| match &client.stage {
            Stage::Member(membership) => membership.is_operator(),
            _ => false,
        };
        let operators = self.connections.all().filter(|(_, client)| is_operator(client)).count();
        self.ctx.accounts.total(Class::Members) - operators
    }

    /// Checks what `status` counts, and the order in which `agents` lists.
    fn audit_counts(&self) -> Checked {
        let names = self.directory.keys().into_iter().map(|key| &self.directory[key].name);
        let (own, all): (Vec<_>, Vec<_>) = names.partition(|name| name.is_daemons());
        let guests = own.iter().filter(|name| name.is_guests()).count();
        let mut all: Vec<_> = all.into_iter().map(|name| name.folded()).collect();
        all.sort_unstable();
        let listed = self.directory.after(b"").map(|agent| self.directory[agent].name.folded());
        ensure(all == listed.collect::<Vec<_>>(), || "the list of names is wrong".into())?;
        let mut origins = BTreeMap::new();
        for origin in
            self.directory.keys().iter().filter_map(|key| self.directory[*key].origin.as_ref())
        {
            *origins.entry(format!("{origin:?}")).or_default() += 1_usize;
        }
        let charged =
            self.directory.by_origin().map(|(origin, names)| (format!("{origin:?}"), *names));
        ensure(origins == charged.collect(), || format!("{origins:?} are the names by origin"))?;
        let counted = (self.directory.agents(), self.directory.guests());
        ensure(counted == (all.len(), guests), || format!("{counted:?} agents and guests"))?;
        let keys = self.directory.keys().into_iter();
        let here = keys
            .filter(|key| self.directory[*key].is_guest() && self.directory[*key].client.is_some());
        let (here, counted) = (here.count(), self.directory.guests_here());
        ensure(here == counted, || format!("{here} guests are here, not {counted}"))
    }

    /// Checks that every member has a session, and that the counts of tokens, replay buffers and
    /// subscriptions are right.
    fn audit_sessions(&self) -> Checked {
        let (mut tokens, mut replay, mut subscribed) = (0, 0, 0);
        for key in self.directory.keys() {
            let agent = &self.directory[key];
            let is_here = agent.client.is_some();
            let Some(session) = agent.session.as_deref() else {
                ensure(!is_here || agent.is_guest(), || format!("{} has no session", agent.name))?;
                continue;
            };
            for hash in session.tokens() {
                ensure(self.directory.token_owner(hash) == Some(key), || {
                    format!("the directory gives a token of {} to another agent", agent.name)
                })?;
                tokens += 1;
            }
            let ends = session.expires().is_some();
            ensure(ends != is_here, || {
                format!("the session of {}: expires {ends}, connected {is_here}", agent.name)
            })?;
            subscribed += session.subscriptions.iter().map(bytes_of).sum::<usize>();
        }
        for (_, mailbox) in self.mail.all_mailboxes() {
            let (count, bytes) = (mailbox.replay.iter().count(), mailbox.replay.bytes());
            let summed: usize = mailbox.replay.iter().map(|message| message.bytes).sum();
            ensure(bytes == summed && bytes <= self.ctx.limits.replay_bytes_max, || {
                format!("a replay buffer counts {bytes} bytes, its messages have {summed}")
            })?;
            ensure(count <= self.ctx.limits.replay_messages_max, || {
                format!("a replay buffer has {count} messages")
            })?;
            replay += bytes + count * RECORD_BYTES;
        }
        let listed =
            self.mail.all_mailboxes().map(|(agent, mailbox)| (agent, mailbox.replay.bytes()));
        let listed = listed.map(|(agent, bytes)| (size_class(bytes), agent));
        let listed: BTreeSet<_> = listed.filter(|(class, _)| *class > 0).collect();
        ensure(self.mail.replay_holders().eq(listed), || "a replay buffer is misplaced".into())?;
        let counted = self.directory.tokens();
        ensure(tokens == counted, || {
            format!("the sessions have {tokens} tokens, but the directory counts {counted}")
        })?;
        let counted = self.ctx.accounts.total(Class::Subscriptions);
        ensure(subscribed == counted, || {
            format!("the subscriptions take {subscribed} bytes, but the directory counts {counted}")
        })?;
        let counted = self.ctx.memory.replay();
        ensure(replay == counted, || {
            format!("the replay buffers take {replay} bytes, but the memory counts {counted}")
        })
    }

    /// Checks the bytes that queues, answers, notices and questions are charged
    /// for.
    fn audit_loads(&self) -> Checked {
        let mut loads: BTreeMap<(AgentKey, AgentKey), Load> = BTreeMap::new();
        let mut add = |to: AgentKey, sent: &Sent, bytes: usize| {
            loads.entry((to, sent.from)).or_default().add(Load::of(sent, bytes));
        };
        let (again, queued): (Vec<_>, Vec<_>) =
            self.mail.all_messages().partition(|message| message.is_replay);
        for message in queued {
            add(message.to, &message.sent, message.bytes);
        }
        let mut inside: usize = again.iter().map(|message| message.memory_bytes()).sum();
        inside += self.mail.all_messages().map(report_bytes).sum::<usize>();
        let charged = self.questions.charged().chain(self.notices.charged());
        let charged = charged.chain(self.ctx.journal.charged());
        inside += charged.map(|(_, bytes)| bytes).sum::<usize>();
        inside += self.ctx.accounts.total(Class::Subscriptions);
        for (_, client) in self.connections.all() {
            inside += client.window.memory_bytes();
            for handed in client.window.frames() {
                if let (Content::AtMostOnce { sent, charged, .. }, Some(to)) =
                    (&handed.content, client.agent)
                {
                    add(to, sent, *charged);
                }
            }
        }
        let mailboxes: BTreeMap<_, _> = self.mail.all_mailboxes().collect();
        let mut by_payer: BTreeMap<(AgentKey, AgentKey), Load> = BTreeMap::new();
        for ((to, from), load) in &loads {
            let sum = by_payer.entry((*to, mailboxes[to].outbox.payer_of(*from))).or_default();
            sum.add(*load);
        }
        for ((to, payer), load) in &by_payer {
            let counted = mailboxes[to].outbox.share(*payer);
            ensure(counted == *load, || {
                format!("a sender's share counts {counted:?}, its messages have {load:?}")
            })?;
            let (messages, bytes) =
                (self.ctx.limits.queue_messages_max, self.ctx.limits.queue_bytes_max);
            let is_half = load.messages <= messages / 2 && load.bytes <= bytes / 2;
            ensure(is_half || load.messages == 1, || {
                format!("one sender has {load:?} in a queue")
            })?;
            inside += load.memory_bytes();
        }
        let queued: usize = mailboxes.values().map(|mailbox| mailbox.outbox.total().messages).sum();
        let there: usize = loads.values().map(|load| load.messages).sum();
        ensure(queued == there, || {
            format!("the queues count {queued} messages, the table has {there}")
        })?;
        for mailbox in mailboxes.values() {
            let (counted, summed) = (mailbox.dedup.left_bytes(), mailbox.dedup.summed_left_bytes());
            ensure(counted == summed, || format!("{counted} bytes of recipients, not {summed}"))?;
            inside += counted;
        }
        let entries: usize = mailboxes.values().map(|mailbox| mailbox.dedup.len()).sum();
        let counted = self.mail.dedup_entry_count();
        ensure(entries == counted, || format!("{entries} dedup entries, not {counted}"))?;
        let most = self.ctx.limits.dedup_total_max;
        ensure(entries <= most, || format!("{entries} dedup entries, and not {most} at most"))?;
        let counted = self.ctx.memory.inside();
        ensure(counted == inside, || {
            format!("the memory counts {counted} bytes, but the messages take {inside}")
        })
    }

    /// Checks what each principal is charged with.
    fn audit_accounts(&self) -> Checked {
        let mut held: BTreeMap<(usize, Principal), usize> = BTreeMap::new();
        let mut add = |class: Class, agent: AgentKey, amount: usize| {
            let principal = self.ctx.accounts.principal(agent);
            *held.entry((class as usize, principal)).or_default() += amount;
        };
        for stream in self.mail.all_streams() {
            add(Class::Streams, stream.from(), 1);
        }
        for message in self.mail.all_messages() {
            let payer = if message.is_replay { message.to } else { message.sent.from };
            add(Class::Memory, payer, message.memory_bytes());
            add(Class::Memory, message.to, report_bytes(message));
            if message.reliable().is_some() {
                add(Class::Mail, payer, message.bytes);
            }
            if !message.is_replay {
                add(Class::Copies, payer, Load::of(&message.sent, message.bytes).copies);
            }
        }
        for (_, client) in self.connections.all() {
            if let (Stage::Member(_), Some(agent)) = (&client.stage, client.agent) {
                add(Class::Members, agent, 1);
            }
            if let Some(agent) = client.agent {
                add(Class::Memory, agent, client.window.memory_bytes());
            }
            for handed in client.window.frames() {
                if let Content::AtMostOnce { sent, charged, .. } = &handed.content {
                    add(Class::Memory, sent.from, *charged + RECORD_BYTES);
                    add(Class::Copies, sent.from, Load::of(sent, *charged).copies);
                }
            }
        }
        for (agent, mailbox) in self.mail.all_mailboxes() {
            add(Class::Memory, agent, mailbox.dedup.left_bytes());
        }
        for key in self.directory.keys() {
            let session = self.directory[key].session.as_deref();
            let patterns = session.into_iter().flat_map(|session| &session.subscriptions);
            add(Class::Subscriptions, key, patterns.map(bytes_of).sum());
        }
        let charged = self.questions.charged().chain(self.notices.charged());
        for (payer, bytes) in charged.chain(self.ctx.journal.charged()) {
            add(Class::Memory, payer, bytes);
        }
        for charge in self.ctx.backlog.charges() {
            add(Class::Store, charge.payer, charge.cost);
        }
        let waits = self.connections.all().any(|(id, _)| self.connections.awaits_store(id));
        let waits = waits || self.defers_changes();
        ensure(!waits || !self.ctx.journal.is_settled(), || {
            "a client, or a change, waits for no change".into()
        })?;
        let charged = self.ctx.accounts.all().into_iter().filter(|(_, amount)| *amount > 0);
        let charged: BTreeMap<_, _> = charged.collect();
        held.retain(|_, amount| *amount > 0);
        ensure(charged == held, || format!("{charged:?} is charged, {held:?} is held"))
    }

    fn audit_queue(&self, agent: AgentKey, mailbox: &Mailbox) -> Checked {
        let (limits, total) = (&self.ctx.limits, mailbox.outbox.total());
        ensure(mailbox.outbox.is_consistent(), || "the shares do not add up".into())?;
        ensure(total.messages <= limits.queue_messages_max, || {
            format!("{total:?} are in a queue")
        })?;
        ensure(total.bytes <= limits.queue_bytes_max || total.messages == 1, || {
            format!("{total:?} are in a queue")
        })?;
        let in_flight =
            self.mail.streams_to(agent).map(|(_, stream)| stream.in_flight.len()).sum::<usize>();
        let counted = mailbox.outbox.in_flight;
        ensure(in_flight as u64 == counted, || format!("{in_flight} in flight, not {counted}"))?;
        self.audit_mailbox(agent, mailbox)?;
        let agent = &self.directory[agent];
        let Some(client) = agent.client.and_then(|client| self.connections.get(client)) else {
            return ensure(in_flight == 0, || "messages in flight to an absent agent".into());
        };
        let Stage::Member(membership) = &client.stage else { return Ok(()) };
        let most = membership.in_flight_max();
        ensure(in_flight as u64 <= most, || {
            format!("{in_flight} in flight, at most {most} allowed")
        })?;
        let is_idle = client.window.frames().all(|handed| handed.content.is_answer())
            && !agent.client.is_some_and(|client| self.connections.awaits_store(client));
        ensure(!is_idle || mailbox.outbox.next(most).is_none(), || {
            format!("{} could get more messages and gets none", agent.name)
        })
    }

    /// Checks the orders in which requests find an agent's messages, and what they count.
    fn audit_mailbox(&self, agent: AgentKey, mailbox: &Mailbox) -> Checked {
        let (mut kept, mut once, mut in_flight) = (BTreeSet::new(), BTreeSet::new(), 0);
        let mut oldest: Option<(u64, &Reported)> = None;
        for message in self.mail.all_messages().filter(|message| message.to == agent) {
            let Some(reliable) = message.reliable() else {
                once.insert(message.order);
                continue;
            };
            kept.insert(message.order);
            let waits = reliable.progress(false).1.is_some();
            let is_in_flight = matches!(reliable.state, QueueState::InFlight { .. });
            in_flight += u64::from(is_in_flight && !waits);
            let why = reliable.reported.as_deref().filter(|reported| reported.why.is_some());
            if let Some(why) = why.filter(|_| is_in_flight && waits)
                && oldest.is_none_or(|(order, _)| message.order < order)
            {
                oldest = Some((message.order, why));
            }
        }
        let progress = self.mail.progress(agent, false);
        ensure(mailbox.at_least_once.keys().eq(&kept), || "a delivery is not listed".into())?;
        ensure(mailbox.at_most_once.keys().eq(&once), || "a message is not listed".into())?;
        ensure(progress.in_flight == in_flight, || {
            format!("{in_flight} deliveries do not wait, not {}", progress.in_flight)
        })?;
        ensure(progress.why == oldest.map(|(_, why)| why), || "another reason is shown".into())?;
        let flying = self.mail.streams_to(agent).filter(|(_, stream)| !stream.in_flight.is_empty());
        let flying: BTreeSet<_> = flying.map(|(key, _)| key).collect();
        ensure(mailbox.in_flight_streams == flying, || "a stream in flight is not listed".into())
    }

    fn audit_stream(&self, stream: &Stream) -> Checked {
        let waiting = stream.waiting.iter().map(|(seq, key)| (seq, key, false));
        let in_flight = stream.in_flight.iter().map(|(seq, key)| (seq, key, true));
        for (seq, key, is_in_flight) in waiting.chain(in_flight) {
            let Some(message) = self.mail.message(*key) else {
                return Err("a lost message".into());
            };
            let state = message.reliable().map(|reliable| reliable.state);
            let is_right = matches!(state, Some(QueueState::InFlight { .. })) == is_in_flight;
            ensure(is_right && message.seq == *seq, || format!("{message:?} is misplaced"))?;
        }
        let ordered = stream.waiting.iter().is_sorted_by_key(|(seq, _)| *seq);
        ensure(ordered, || "the waiting messages are out of order".into())?;
        let first = stream.waiting.front().and_then(|(_, key)| self.mail.message(*key));
        let may_go = |first: &&Message| !first.is_blocked() && first.seq <= stream.reserved;
        let turn = first.filter(may_go).map(|first| first.order);
        ensure(turn == stream.turn.map(|turn| turn.order), || "it is another's turn".into())?;
        let is_over = stream.is_orphan && stream.is_empty();
        ensure(!is_over, || "an orphaned stream stays".into())
    }

    fn audit_client(&self, client: &Client) -> Checked {
        let deliveries = client.window.frames().filter(|handed| !handed.content.is_answer());
        let bytes: Vec<_> = deliveries.map(|handed| handed.bytes).collect();
        let sum: usize = bytes.iter().sum();
        ensure(sum <= self.ctx.limits.window_bytes || bytes.len() == 1, || {
            format!("a window of {sum}")
        })?;
        let needs_timer = !matches!(client.stage, Stage::HungUp);
        // A client whose first frame waits for its turn is in time.
        let is_in_time = matches!(client.stage, Stage::Unauthenticated { .. }) && client.has_spoken;
        ensure(client.timer.is_some() == needs_timer || is_in_time, || {
            format!("the timer of {client:?} is wrong")
        })
    }
}

/// Returns the bytes of the report on a delivery.
fn report_bytes(message: &Message) -> usize {
    let reported = message.reliable().and_then(|reliable| reliable.reported.as_deref());
    reported.map_or(0, bytes_of_report)
}

/// Checks of the router's state against the world outside it.
impl Router {
    /// Returns the at-most-once messages that are not completely written, with their senders'
    /// folded names.
    pub(super) fn held_once(&self) -> BTreeMap<Key, String> {
        let name = |agent: AgentKey| self.directory.name(agent).map(|name| name.folded());
        let queued = self.mail.all_messages().filter(|message| !message.is_replay);
        let queued = queued.filter(|message| message.reliable().is_none());
        let queued =
            queued.map(|message| (message.sent.id.as_str(), message.to, message.sent.from));
        let handed = self.connections.all().flat_map(|(_, client)| {
            client.window.frames().filter_map(|handed| match (&handed.content, client.agent) {
                (Content::AtMostOnce { sent, .. }, Some(to)) => {
                    Some((sent.id.as_str(), to, sent.from))
                }
                _ => None,
            })
        });
        let held = queued.chain(handed);
        let keyed = held.filter_map(|(id, to, from)| {
            // A guest that has left is not notified.
            Some(((number_of(id)?, name(to)?), name(from).unwrap_or_default()))
        });
        keyed.collect()
    }

    /// Returns a list of all state that the router still holds.
    pub(super) fn rest(&self) -> String {
        let messages = self.mail.all_messages().map(|message| format!("{message:.300?}; "));
        let left = self.mail.all_mailboxes().map(|(_, mailbox)| mailbox.dedup.left_bytes());
        let lasting = self.ctx.accounts.total(Class::Subscriptions) + left.sum::<usize>();
        let bytes = (self.ctx.memory.inside() > lasting).then(|| "bytes; ".to_owned());
        messages.chain(bytes).collect()
    }

    /// Whether changes wait for the share of their principal.
    pub(super) fn defers_changes(&self) -> bool {
        self.ctx.backlog.deferred().next().is_some()
    }

    /// Checks that the disk's records agree with the router's state.
    pub(super) fn audit_kept(&self, disk: &Disk) -> Checked {
        let held = self.mail.all_messages().filter(|message| message.reliable().is_some());
        let held = held.map(|message| message.order);
        let held: BTreeSet<_> = held.collect();
        if held != disk.open {
            return Err(format!("held are {held:?}, kept are {:?}", disk.open));
        }
        for stream in self.mail.all_streams().filter(|stream| stream.is_recorded) {
            let record = disk.synced.streams.get(&stream.number);
            // The numbers of guests are not reserved in the store, and who is forgotten needs none.
            let from = self.directory.get(stream.from());
            let is_reserved =
                stream.reserving != u64::MAX && from.is_some_and(|from| !from.is_guest());
            if record.is_none_or(|record| is_reserved && record.reserved < stream.reserving) {
                return Err(format!("{stream:?} is kept as {record:?}"));
            }
        }
        for (_, mailbox) in self.mail.all_mailboxes() {
            let (seq, number) = mailbox.floor();
            let record = disk.synced.streams.get(&number);
            if number > 0 && record.is_none_or(|record| record.reserved != seq) {
                return Err(format!("the floor of {mailbox:?} is kept as {record:?}"));
            }
        }
        let answers: Vec<_> =
            self.recorded_notices().into_iter().filter_map(|(_, notice)| notice.number).collect();
        let answers: BTreeSet<_> = answers.into_iter().collect();
        if !answers.iter().eq(disk.synced.notices.keys()) {
            let kept: Vec<_> = disk.synced.notices.keys().collect();
            return Err(format!("answers held are {answers:?}, kept are {kept:?}"));
        }
        let questions: BTreeSet<_> = self.questions.recorded().collect();
        if !questions.iter().eq(disk.synced.questions.keys()) {
            let kept = &disk.synced.questions;
            return Err(format!("questions held are {questions:?}, kept are {kept:?}"));
        }
        let agents = self.directory.keys().into_iter().map(|agent| &self.directory[agent]);
        for agent in agents.filter(|agent| !agent.is_guest()) {
            let record = disk.synced.sessions.get(&agent.number);
            let session = agent.session.as_deref();
            let token = session.and_then(|session| session.tokens().last().copied());
            if token != record.map(|record| record.token) {
                return Err(format!("{} has {session:?}, kept is {record:?}", agent.name));
            }
        }
        Ok(())
    }
}
