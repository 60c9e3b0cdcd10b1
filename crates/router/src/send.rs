//! Handling of SEND: its checks, and for each recipient queueing, a refusal or BUSY.

use super::{
    Router,
    frame::Frame,
    interface::ClientId,
    keys::{AgentKey, MessageKey, StreamKey},
    mail::{HEAD_BYTES_MAX, QueueState, RECORD_BYTES, Reliable, SendState, Sent, UnreadNotice},
    persist::{Reach, Recorded, acceptance_of},
    questions,
    send_digest::SendDigest,
    send_request::{Numbers, Queued, Refusal, SendRequest, deliver_bytes_max},
    sender::SendId,
    work::{self, CHECK_WORK, DELIVERY_WORK, NODE_WORK, RULE_WORK, STORED_WORK},
};
use protocol::{
    client_frame::ClientPayload,
    code::NackCode,
    envelope::{Envelope, Kind},
    name::{EVERYONE, Name, OPERATOR, RELAY},
    payload::Busy,
    text::Quoted,
    topic,
};
use std::sync::Arc;

/// The first interval of a sender's backoff, which BUSY states.
const RETRY_MS: u64 = 50;

/// The quotes and the comma of a name in a list.
const QUOTED_BYTES: usize = 3;

/// The most names that UNKNOWN_AGENT lists.
const NAMES_LISTED: usize = 20;

/// The changes of the store, and actions that wait for them, that a SEND to many may cause although
/// its sender's share of the store is used up. The other recipients get the SEND when it is repeated.
const CHANGES_AT_ONCE: usize = if cfg!(test) { 12 } else { 256 };

/// The outcome of a SEND to several recipients.
#[derive(Default)]
struct Fanout {
    /// The number of recipients that have the message from an earlier SEND, and the message's
    /// number in records since then.
    had: u64,
    number: u64,
    /// The number of recipients that get the message from this SEND.
    new: u64,
    /// At-least-once messages that have to be persisted.
    persisting: Vec<MessageKey>,
    /// Recipients whose queues have no room, and the length of the longest of these queues.
    busy: Vec<AgentKey>,
    depth: usize,
}

/// The decision whether a recipient gets a SEND.
pub(super) enum Verdict {
    /// The recipient's queue has room. Contains the stream, if it is open already.
    Accept(Option<StreamKey>),
    /// The recipient's queue, or the sender's share of the memory or of the store, has no room.
    /// Contains the number of messages in the queue.
    Busy(usize),
    /// The sender sends to this recipient too often, and has to wait for this number of
    /// milliseconds.
    TooOften(u64),
    Refuse(NackCode, String),
}

impl Router {
    pub(super) fn send(
        &mut self,
        client: ClientId,
        envelope: &Envelope<'_>,
        payload: Result<&ClientPayload, &str>,
    ) {
        match self.check_send(client, envelope, payload) {
            Ok(send) => match envelope.to.as_deref() {
                None | Some(EVERYONE) => self.send_to_many(&send),
                Some(name) if name.eq_ignore_ascii_case(RELAY) && send.asks.is_some() => {
                    let why = format!("{RELAY} answers with a DELIVER: ask it without `sync`");
                    self.refuse(client, &envelope.id, NackCode::Invalid, why);
                }
                Some(name) if name.eq_ignore_ascii_case(RELAY) => self.request(&send),
                Some(name) => self.send_to_one(&send, name),
            },
            Err((code, message)) => self.refuse(client, &envelope.id, code, message),
        }
    }

    pub(super) fn refuse(&mut self, client: ClientId, id: &str, code: NackCode, message: String) {
        self.ctx.counts.refused += 1;
        self.connections.nack(&mut self.ctx, client, id, code, message);
    }

    /// Refuses a SEND for one of several recipients.
    fn refuse_one(
        &mut self,
        send: &SendRequest<'_>,
        to: AgentKey,
        code: NackCode,
        message: String,
    ) {
        self.ctx.counts.refused += 1;
        self.nack_sender(send.from, send.by, to, &send.envelope.id, code, message);
    }

    /// Checks everything about a SEND that does not depend on its recipients.
    fn check_send<'e>(
        &self,
        client: ClientId,
        envelope: &'e Envelope<'e>,
        payload: Result<&ClientPayload, &str>,
    ) -> Result<SendRequest<'e>, Refusal> {
        let (from, by) = self.sender_at(client)?;
        let name = &self.directory[from].name;
        if let Some(claimed) = envelope.from.as_deref().filter(|claimed| !name.matches(claimed)) {
            let message = format!("you are {name} and cannot send as {}", Quoted(claimed));
            return Err((NackCode::Forbidden, message));
        }
        match envelope.topic.as_deref() {
            Some(topic) => {
                topic::check(topic).map_err(|why| (NackCode::Invalid, why.to_string()))?;
            }
            None if envelope.to.is_none() => {
                let message = "a SEND names `to`, a `topic`, or both".to_owned();
                return Err((NackCode::Invalid, message));
            }
            None => {}
        }
        let payload = payload.map_err(|why| (NackCode::Invalid, why.to_owned()))?;
        let ClientPayload::Send(meta) = payload else { unreachable!("the envelope is a SEND") };
        if let Some(sync) = &meta.sync {
            questions::check(sync).map_err(|why| (NackCode::Invalid, why))?;
        }
        let ttl_ms = self.ctx.limits.ttl_of(meta, envelope.to.as_deref().unwrap_or(EVERYONE));
        Ok(SendRequest {
            envelope,
            client,
            from,
            by,
            requires_ack: meta.is_at_least_once(),
            expires: self.ctx.now.monotonic.plus(ttl_ms),
            bytes: deliver_bytes_max(envelope, name),
            asks: meta.sync.clone(),
        })
    }

    /// Returns the agent in whose name a member sends, and the member's connection if it is a
    /// companion's or an operator's. Refuses a companion whose agent is away.
    fn sender_at(&self, client: ClientId) -> Result<(AgentKey, Option<ClientId>), Refusal> {
        let from = self.connections.agent_of(client).expect("a member has an agent");
        let membership = self.connections.membership(client).expect("only members send");
        if let Some(key) = membership.companion_key.filter(|_| membership.is_beside())
            && !self.has_companion(from, &key)
        {
            let message = "the agent in whose name you would speak is away".to_owned();
            return Err((NackCode::AgentOffline, message));
        }
        Ok((from, membership.is_beside().then_some(client)))
    }

    fn send_to_one(&mut self, send: &SendRequest<'_>, name: &str) {
        let digest = send.requires_ack.then(|| SendDigest::of(send.envelope));
        if let Some(digest) = digest
            && self.answer_repeated(send, digest).is_some()
        {
            return;
        }
        let Some(to) = self.recipient_named(name) else {
            let (code, message) = self.unknown(name);
            return self.refuse(send.client, &send.envelope.id, code, message);
        };
        if let Some(why) = self.forbidden(send, to) {
            return self.refuse(send.client, &send.envelope.id, NackCode::Forbidden, why);
        }
        match self.check_recipient(send, to) {
            Verdict::Accept(stream) => {
                let sent = self.sent(send, false);
                let queued = self.queue(send, &sent, to, stream, digest);
                if let (Some(digest), Some(key)) = (digest, queued.key) {
                    let away = self.directory[to].client.is_none() && !self.is_operator(to);
                    let acceptance = acceptance_of(send, None, away);
                    let reach = Reach::default();
                    let Recorded { number, ticket } =
                        self.persist(send, digest, None, vec![key], reach, Some(acceptance));
                    let state = SendState::Complete { recipients: None, away, number, ticket };
                    self.remember_send(send, digest, state, 1);
                }
                self.notify_at_most_once(send, to, &queued);
                if !send.requires_ack {
                    self.ctx.counts.taken += 1;
                    self.copy_to_taps(send, 1, Some(queued));
                }
            }
            Verdict::Busy(depth) => self.say_busy(send, depth, &[]),
            Verdict::TooOften(wait_ms) => {
                let why = self.note_too_often(send, to, wait_ms);
                self.refuse(send.client, &send.envelope.id, NackCode::Limit, why);
            }
            Verdict::Refuse(code, why) => self.refuse(send.client, &send.envelope.id, code, why),
        }
    }

    fn send_to_many(&mut self, send: &SendRequest<'_>) {
        let may_repeat = send.requires_ack || self.mail.remembers_sends_of(send.from);
        let digest = may_repeat.then(|| SendDigest::of(send.envelope));
        let before = digest.and_then(|digest| self.answer_repeated(send, digest));
        let is_repeated = before.is_some();
        let (had, number, mut recipients) = match before {
            Some(SendState::Complete { .. }) => return,
            // The deliveries of the earlier SEND are still being persisted, and may be undone.
            Some(SendState::Partial { left, ticket, .. })
                if !self.ctx.journal.is_persisted(ticket) =>
            {
                return self.say_busy(send, 0, &left);
            }
            Some(SendState::Partial { recipients, number, left, .. }) => (recipients, number, left),
            None => (0, 0, self.recipients(send)),
        };
        // Agents to which the policy forbids the SEND do not count as its recipients.
        self.retain_permitted(send, &mut recipients);
        let mut fanout = Fanout { had, number, ..Fanout::default() };
        let mut sent = None;
        for to in recipients {
            match self.check_one_of_many(send, to, fanout.persisting.len(), is_repeated) {
                Verdict::Accept(stream) => {
                    let sent = sent.get_or_insert_with(|| self.sent(send, true));
                    let queued = self.queue(send, sent, to, stream, digest);
                    self.notify_at_most_once(send, to, &queued);
                    fanout.new += 1;
                    fanout.persisting.extend(queued.key.filter(|_| send.requires_ack));
                }
                Verdict::Busy(depth) => {
                    fanout.busy.push(to);
                    fanout.depth = fanout.depth.max(depth);
                }
                Verdict::TooOften(wait_ms) => {
                    let why = self.note_too_often(send, to, wait_ms);
                    self.refuse_one(send, to, NackCode::Limit, why);
                }
                Verdict::Refuse(code, why) => self.refuse_one(send, to, code, why),
            }
        }
        // What the store has to keep counts, and is copied, once it has that.
        let is_taken = fanout.new > 0 || (fanout.busy.is_empty() && had == 0);
        if is_taken && !send.requires_ack {
            self.ctx.counts.taken += u64::from(had == 0);
        }
        if is_taken && (!send.requires_ack || fanout.new == 0) {
            self.copy_to_taps(send, fanout.new, None);
        }
        match digest {
            Some(digest) if send.requires_ack => self.conclude_at_least_once(send, digest, fanout),
            digest => self.conclude_at_most_once(send, digest, fanout),
        }
    }

    /// Checks a recipient of a SEND that the store has to record for `persisting` others already.
    /// There is no room for it if this has used up the sender's share of the store. A recipient that
    /// has made no room when the SEND is repeated does not get it.
    fn check_one_of_many(
        &mut self,
        send: &SendRequest<'_>,
        to: AgentKey,
        persisting: usize,
        is_repeated: bool,
    ) -> Verdict {
        let handed = self.ctx.backlog.uncharged() + persisting;
        if handed >= CHANGES_AT_ONCE && !self.ctx.has_share_of_store_after(send.from, handed) {
            return Verdict::Busy(0);
        }
        let verdict = self.check_recipient(send, to);
        let has_room = || self.mail.has_room_for_copy(&self.ctx, to, send.from, send.bytes);
        if !matches!(verdict, Verdict::Accept(_)) || has_room() {
            return verdict;
        }
        if !is_repeated {
            return Verdict::Busy(self.mail.queued(to).0);
        }
        let name = &self.directory[to].name;
        let message = format!("{name} takes no messages: too many of your broadcasts wait for it");
        Verdict::Refuse(NackCode::Limit, message)
    }

    /// Concludes an at-most-once SEND to several recipients. If some queues have no room, answers
    /// BUSY and remembers these recipients: a repeat goes to them only.
    fn conclude_at_most_once(
        &mut self,
        send: &SendRequest<'_>,
        digest: Option<SendDigest>,
        fanout: Fanout,
    ) {
        let Fanout { had, new, number, busy, depth, .. } = fanout;
        if !busy.is_empty() {
            self.say_busy(send, depth, &busy);
            if had + new > 0 {
                let digest = digest.unwrap_or_else(|| SendDigest::of(send.envelope));
                let recipients = had + new;
                let state = SendState::Partial { recipients, left: busy, number, ticket: 0 };
                self.remember_send(send, digest, state, 0);
            }
        } else if let Some(digest) = digest {
            self.mail.forget_send(&mut self.ctx, send.from, digest);
        }
    }

    /// Concludes an at-least-once SEND to several recipients: hands its new deliveries to the
    /// store. The SEND is accepted once they are persisted, if all recipients have it. If some
    /// queues have no room, answers BUSY.
    fn conclude_at_least_once(
        &mut self,
        send: &SendRequest<'_>,
        digest: SendDigest,
        fanout: Fanout,
    ) {
        let Fanout { had, new, number, persisting, busy, depth } = fanout;
        let recipients = had + new;
        if !busy.is_empty() {
            self.say_busy(send, depth, &busy);
            if recipients == 0 {
                return;
            }
        }
        let is_complete = busy.is_empty();
        let acceptance = is_complete.then(|| acceptance_of(send, Some(recipients), false));
        let number = Some(number).filter(|number| *number > 0);
        let reach = Reach { recipients: Some(recipients), left: &busy };
        let Recorded { number, ticket } =
            self.persist(send, digest, number, persisting, reach, acceptance);
        let state = if is_complete {
            SendState::Complete { recipients: Some(recipients), away: false, number, ticket }
        } else {
            SendState::Partial { recipients, left: busy, number, ticket }
        };
        self.remember_send(send, digest, state, new as u32);
    }

    /// Returns the subscribers of the SEND's topic, or all connected agents, without the sender.
    /// Agents of other machines are not among them, but the clients in place of all agents of a
    /// machine are: for a message of an agent of this machine that is no question.
    fn recipients(&mut self, send: &SendRequest<'_>) -> Vec<AgentKey> {
        let mut recipients = Vec::new();
        match send.envelope.topic.as_deref() {
            Some(topic) => {
                self.directory.subscribers(&mut self.ctx, topic, &mut recipients);
                recipients.retain(|agent| self.gets_topics(*agent, send.requires_ack));
            }
            None => {
                recipients.extend(self.directory.here());
                recipients.retain(|agent| self.gets_broadcasts(*agent));
            }
        }
        if self.directory[send.from].name.host().is_some() || send.asks.is_some() {
            recipients.retain(|agent| self.directory[*agent].name.host().is_none());
        }
        recipients.retain(|agent| *agent != send.from);
        recipients
    }

    /// Whether an agent that is here gets messages to everyone: those of other machines do not,
    /// unless a client in place of all of them asked for it.
    fn gets_broadcasts(&self, agent: AgentKey) -> bool {
        let agent = &self.directory[agent];
        let membership = agent.client.and_then(|client| self.connections.membership(client));
        agent.name.host().is_none()
            || membership.is_some_and(|membership| membership.capabilities.broadcasts)
    }

    /// Whether a subscriber gets a message: it is connected, or the message is at least once and
    /// the subscriber can still resume its session.
    fn gets_topics(&self, agent: AgentKey, requires_ack: bool) -> bool {
        let agent = &self.directory[agent];
        agent.client.is_some()
            || requires_ack
                && agent.session.as_deref().is_some_and(|session| {
                    session.capabilities.resume
                        && session.capabilities.ack
                        && session.is_good_at(self.ctx.now.monotonic)
                })
    }

    /// Returns the text of the refusal, if the policy forbids a SEND to this recipient.
    fn forbidden(&mut self, send: &SendRequest<'_>, to: AgentKey) -> Option<String> {
        self.ctx.spend(RULE_WORK * self.enforcement.rules() as u64);
        let from = self.directory[send.from].name.as_str();
        let name = self.directory.name(to)?.as_str();
        let topic = send.envelope.topic.as_deref();
        if let Some(rule) = self.enforcement.rule_against(from, name, topic) {
            return Some(rule.refusal(from, name));
        }
        let why = send.asks.as_ref().and_then(|_| self.forbidden_answer(to, send.from))?;
        Some(format!("the answer would be refused: {why}"))
    }

    /// Returns the text of the refusal, if the policy forbids one agent to answer another. An
    /// answer is a message without a topic.
    pub(super) fn forbidden_answer(&mut self, from: AgentKey, to: AgentKey) -> Option<String> {
        self.ctx.spend(RULE_WORK * self.enforcement.rules() as u64);
        let (from, to) = (self.directory.name(from)?.as_str(), self.directory.name(to)?.as_str());
        let rule = self.enforcement.rule_against(from, to, None)?;
        Some(rule.refusal(from, to))
    }

    /// Removes the recipients to which the policy forbids a SEND.
    fn retain_permitted(&mut self, send: &SendRequest<'_>, recipients: &mut Vec<AgentKey>) {
        let from = self.directory[send.from].name.as_str();
        let rules = self.enforcement.rules_on(from, send.envelope.topic.as_deref());
        let compared = self.enforcement.rules() + rules.len() * recipients.len();
        self.ctx.spend(RULE_WORK * compared as u64);
        if !rules.is_empty() {
            let name = |to: &AgentKey| self.directory.name(*to);
            recipients.retain(|to| name(to).is_none_or(|name| rules.allows(name.as_str())));
        }
        if send.asks.is_some() {
            recipients.retain(|to| self.forbidden_answer(*to, send.from).is_none());
        }
    }

    /// Counts a SEND above the rate limit, for `status`. Returns the text of the refusal.
    fn note_too_often(&mut self, send: &SendRequest<'_>, to: AgentKey, wait_ms: u64) -> String {
        let (from, to) = (&self.directory[send.from].name, &self.directory[to].name);
        self.enforcement.note_too_often(self.ctx.now, from, to, wait_ms)
    }

    pub(super) fn check_recipient(&mut self, send: &SendRequest<'_>, to: AgentKey) -> Verdict {
        self.ctx.spend(CHECK_WORK);
        let Some(agent) = self.directory.get(to) else {
            return Verdict::Refuse(NackCode::UnknownAgent, "its name was forgotten".to_owned());
        };
        let name = &agent.name;
        match agent.client.and_then(|client| self.connections.membership(client)) {
            None if name.matches(OPERATOR) && send.asks.is_some() => {
                let message = format!("{name} answers no questions: send it without `sync`");
                return Verdict::Refuse(NackCode::Invalid, message);
            }
            None if name.matches(OPERATOR) && !send.requires_ack => {
                let message = format!("{name} has a mailbox only: send with requires_ack");
                return Verdict::Refuse(NackCode::AgentOffline, message);
            }
            None if name.matches(OPERATOR) => {}
            None if !send.requires_ack || name.is_daemons() => {
                return Verdict::Refuse(NackCode::AgentOffline, format!("{name} is away"));
            }
            Some(membership) if send.requires_ack && !membership.capabilities.ack => {
                let message = format!("{name} does not acknowledge: send without requires_ack");
                return Verdict::Refuse(NackCode::NoAck, message);
            }
            _ => {}
        }
        let limits = &self.ctx.limits;
        let most = limits.frame_bytes_max;
        if send.bytes > most {
            let message = format!("its DELIVER to {name} would be over max_frame_bytes ({most})");
            return Verdict::Refuse(NackCode::TooLarge, message);
        }
        let pair = || (self.directory[send.from].number, agent.number);
        let wait_ms = self.enforcement.wait_ms(self.ctx.now, pair);
        if wait_ms > 0 {
            return Verdict::TooOften(wait_ms);
        }
        let stream = self.mail.find_stream(send.from, to, send.envelope.topic.as_deref());
        let most = limits.questions_max;
        if send.asks.is_some() && self.questions.count(send.from) >= most {
            let message = format!("no more than {most} questions of one name may wait for answers");
            return Verdict::Refuse(NackCode::Limit, message);
        }
        let bytes = send.bytes + RECORD_BYTES + send.asks.as_ref().map_or(0, questions::bytes_of);
        if !self.mail.has_room(&self.ctx, to, send.from, send.bytes)
            || !self.has_memory_for(send.from, bytes)
            || send.requires_ack && !self.ctx.has_share_of_mail(send.from, send.bytes)
        {
            return Verdict::Busy(self.mail.queued(to).0);
        }
        if stream.is_none() && !self.mail.has_room_for_stream(&mut self.ctx, send.from) {
            return Verdict::Refuse(NackCode::Limit, self.too_many_streams());
        }
        Verdict::Accept(stream)
    }

    /// Whether a sender's share of the memory has room for this number of bytes. If it has, drops
    /// replay buffers until the memory has room, too.
    pub(super) fn has_memory_for(&mut self, from: AgentKey, bytes: usize) -> bool {
        let has_share = self.ctx.has_share_of_memory(from, bytes);
        if has_share {
            self.mail.make_room(&mut self.ctx, bytes);
        }
        has_share
    }

    /// Returns the text of the refusal to open another stream.
    pub(super) fn too_many_streams(&self) -> String {
        let (open, most) = (self.mail.streams(), self.ctx.limits.streams_max);
        format!("{open} of {most} streams are open, and the sender's share of them is used up")
    }

    /// Queues a SEND for one recipient whose queue has room, and assigns the message's sequence
    /// number.
    pub(super) fn queue(
        &mut self,
        send: &SendRequest<'_>,
        sent: &Arc<Sent>,
        to: AgentKey,
        stream: Option<StreamKey>,
        digest: Option<SendDigest>,
    ) -> Queued {
        let stored = if send.requires_ack { STORED_WORK } else { 0 };
        self.ctx.spend(DELIVERY_WORK + stored + work::of_bytes(send.bytes));
        let topic = send.envelope.topic.as_deref();
        let stream =
            stream.unwrap_or_else(|| self.mail.open_stream(&mut self.ctx, send.from, to, topic));
        let process = self.connections.process(send.client);
        let seq = self.mail.next_seq(&mut self.ctx, stream, process);
        let order = self.mail.next_order(&mut self.ctx, stream);
        let numbers = Numbers { id: self.ctx.delivery_id(order), to, stream, seq, order };
        let number = |agent| self.directory[agent].number;
        self.enforcement.note_message(self.ctx.now, || (number(send.from), number(to)));
        let sent = Arc::clone(sent);
        let key = match digest.filter(|_| send.requires_ack) {
            Some(digest) => Some(self.queue_at_least_once(send, sent, &numbers, digest)),
            None => self.queue_at_most_once(send, sent, &numbers),
        };
        Queued { id: numbers.id, seq, key }
    }

    /// Queues an at-least-once message and opens its question. The message goes out once it is
    /// persisted.
    fn queue_at_least_once(
        &mut self,
        send: &SendRequest<'_>,
        sent: Arc<Sent>,
        numbers: &Numbers,
        digest: SendDigest,
    ) -> MessageKey {
        let reliable = Reliable {
            // The message gets its number when it is handed to the store.
            message: 0,
            unix_ms: self.ctx.now.unix_ms,
            recorded: u32::from(self.directory[numbers.to].client.is_some()),
            failures: 0,
            state: QueueState::Persisting,
            digest,
            reported: None,
            unread: UnreadNotice::default(),
        };
        let message = send.message(numbers, sent, Some(Box::new(reliable)));
        let key = self.mail.insert(&mut self.ctx, message);
        self.mail.record_stream(&mut self.ctx, numbers.stream);
        self.questions.open(&mut self.ctx, send, numbers.to, numbers.id);
        key
    }

    /// Hands out an at-most-once message if nothing waits before it. Otherwise queues the message
    /// and returns its key.
    fn queue_at_most_once(
        &mut self,
        send: &SendRequest<'_>,
        sent: Arc<Sent>,
        numbers: &Numbers,
    ) -> Option<MessageKey> {
        let Numbers { to, stream, seq, .. } = *numbers;
        let client = self.directory[to].client;
        let client = client.expect("only agents that are here get at-most-once messages");
        let in_flight_max = self.connections.room_for_one(&self.ctx, client, send.bytes);
        let has_to_wait = in_flight_max.is_none_or(|most| self.mail.has_to_wait(stream, seq, most));
        let message = send.message(numbers, sent, None);
        if has_to_wait {
            let key = self.mail.insert(&mut self.ctx, message);
            self.pump(to);
            return Some(key);
        }
        self.ctx.counts.delivered += 1;
        self.mail.charge(&mut self.ctx, to, &message.sent, message.bytes);
        self.hand_at_most_once(client, message);
        None
    }

    /// Returns the part of a SEND that all its deliveries share.
    pub(super) fn sent(&mut self, send: &SendRequest<'_>, to_everyone: bool) -> Arc<Sent> {
        let mut bytes = self.ctx.head_buffer(send.bytes);
        send.append_shared(&self.directory[send.from].name, &mut bytes);
        let shared = Arc::from(bytes.as_slice());
        self.ctx.recycle(Frame { head: bytes, shared: None });
        let (auth, id) = (Arc::clone(self.auth_of(send)), SendId::new(&send.envelope.id));
        Arc::new(Sent { from: send.from, by: send.by, auth, id, to_everyone, shared })
    }

    pub(super) fn say_busy(&mut self, send: &SendRequest<'_>, depth: usize, busy: &[AgentKey]) {
        self.ctx.counts.busy += 1;
        let names = busy.iter().filter_map(|agent| self.directory.name(*agent));
        // The SEND comes again for all of them, also for those that find no room in the frame.
        let mut room = self.ctx.limits.frame_bytes_max.saturating_sub(HEAD_BYTES_MAX);
        let fits = |name: &&Name| {
            let left = room.checked_sub(name.as_str().len() + QUOTED_BYTES);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let busy = Busy {
            ack_id: send.envelope.id.to_string(),
            retry_after_ms: RETRY_MS,
            queue_depth: depth as u64,
            busy: names.take_while(fits).map(ToString::to_string).collect(),
        };
        self.connections.answer(&mut self.ctx, send.client, Kind::Busy, &busy);
    }

    /// Returns the refusal of a SEND to a name that no agent has.
    fn unknown(&mut self, name: &str) -> Refusal {
        if let Err(why) = Name::parse_any(name)
            && !name.starts_with('@')
        {
            return (NackCode::Invalid, format!("{} is nobody's name: {why}", Quoted(name)));
        }
        if let Some(agent) = self.directory.find_earlier(&mut self.ctx, name) {
            let new = &self.directory[agent].name;
            return (NackCode::UnknownAgent, format!("{name:.80} was renamed: it is {new} now"));
        }
        let here = self.directory.here();
        let more = here.len().saturating_sub(NAMES_LISTED);
        let here = here.take(NAMES_LISTED).map(|agent| self.directory[agent].name.as_str());
        let here: Vec<_> = here.collect();
        self.ctx.spend(NODE_WORK * here.len() as u64);
        let mut message = format!("no agent {name:.80} was ever here; ");
        match here.as_slice() {
            [] => message.push_str("nobody is here now"),
            [only] => message.push_str(&format!("here is {only}")),
            several => message.push_str(&format!("here are {}", several.join(", "))),
        }
        if more > 0 {
            message.push_str(&format!(" and {more} more"));
        }
        (NackCode::UnknownAgent, message)
    }
}
