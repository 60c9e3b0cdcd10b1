//! SEND: judged, then taken for each recipient, refused, or put off with BUSY.

use super::{
    AgentKey, ClientId, Frame, MessageKey, Router, StreamKey,
    alarm::Alarm,
    asking,
    client::What,
    doubles::{self, Content, Holder, Standing},
    ledger::Promise,
    message::{Body, HEAD_BYTES, Kept, Message, SendId, Speaker, State},
    roster::Agent,
};
use crate::protocol::{
    Moment,
    code::NackCode,
    deliver::{Delivery, Head, Sender, append_shared},
    envelope::{Envelope, Kind},
    frame,
    name::{EVERYONE, Name, OPERATOR, RELAY},
    payload::{Ack, Busy, SendMeta, Sync},
    relay::TooOften,
    secret::{Hash, is_same},
    text::Quoted,
    topic,
};
use std::sync::Arc;
use uuid::Uuid;

/// Where a sender's backoff begins.
const RETRY_MS: u64 = 50;

/// Names that an UNKNOWN_AGENT tells at most.
const NAMES_TOLD: usize = 20;

/// What is shared by recipients and no longer than this is copied: counting its owners would cost more.
const COPIED_BYTES_MAX: usize = 2048;

/// A SEND that may be taken, if its recipients have room.
#[derive(Debug)]
pub(super) struct Said<'e> {
    pub(super) envelope: &'e Envelope<'e>,
    pub(super) client: ClientId,
    pub(super) from: AgentKey,
    /// The same connection, where it isn't its agent's own.
    pub(super) by: Option<ClientId>,
    /// At least once.
    pub(super) requires_ack: bool,
    /// Its sender waits for an answer.
    pub(super) asks: Option<Sync>,
    expires: Moment,
    /// The longest that a DELIVER of it can be: what room is asked for.
    pub(super) bytes: usize,
}

/// A DELIVER that was made of it.
pub(super) struct Taken {
    pub(super) id: Uuid,
    pub(super) seq: u64,
    /// The message, unless it was handed out at once.
    key: Option<MessageKey>,
}

/// Why a SEND can't be taken, by anyone or by one.
pub(super) type Refusal = (NackCode, String);

/// How a SEND to many was taken.
#[derive(Default)]
struct Share {
    /// Have it from an earlier time.
    had: u64,
    /// The message's number, if it has one from then.
    number: u64,
    /// Have it now.
    new: u64,
    /// What is to be kept of it for them.
    kept: Vec<MessageKey>,
    /// Have no room.
    busy: Vec<AgentKey>,
    /// The longest of their queues.
    depth: usize,
}

enum Verdict {
    /// There is room; the stream, if it is open already.
    Take(Option<StreamKey>),
    /// So many messages wait.
    Busy(usize),
    /// The sender has to wait for so long: it speaks to this recipient too often.
    TooOften(u64),
    Refuse(NackCode, String),
}

impl Router {
    pub(super) fn send(&mut self, client: ClientId, envelope: &Envelope<'_>) {
        match self.judge(client, envelope) {
            Ok(said) => match envelope.to.as_deref() {
                None | Some(EVERYONE) => self.send_to_many(&said),
                Some(name) if name.eq_ignore_ascii_case(RELAY) && said.asks.is_some() => {
                    let why = format!("{RELAY} answers with a DELIVER: ask it without `sync`");
                    self.refuse(client, &envelope.id, NackCode::Invalid, why);
                }
                Some(name) if name.eq_ignore_ascii_case(RELAY) => self.request(&said),
                Some(name) => self.send_to_one(&said, name),
            },
            Err((code, message)) => self.refuse(client, &envelope.id, code, message),
        }
    }

    pub(super) fn refuse(&mut self, client: ClientId, id: &str, code: NackCode, message: String) {
        self.counts.refused += 1;
        self.nack(client, id, code, message);
    }

    /// One of several recipients doesn't get it.
    fn refuse_one(&mut self, said: &Said<'_>, to: AgentKey, code: NackCode, message: String) {
        self.counts.refused += 1;
        self.tell_sender((said.from, said.by), to, &said.envelope.id, code, message);
    }

    /// What is wrong with a SEND whoever it is for.
    fn judge<'e>(&self, client: ClientId, envelope: &'e Envelope<'e>) -> Result<Said<'e>, Refusal> {
        let (from, by) = self.sender_at(client)?;
        let name = &self.roster[from].name;
        if let Some(claimed) = envelope.from.as_deref().filter(|claimed| !name.is(claimed)) {
            let message = format!("you are {name} and can't send as {}", Quoted(claimed));
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
        let meta: SendMeta = match envelope.payload_meta {
            None => SendMeta::default(),
            Some(meta) => {
                envelope.typed(meta).map_err(|violation| (NackCode::Invalid, violation.message))?
            }
        };
        if let Some(sync) = &meta.sync {
            asking::check(sync).map_err(|why| (NackCode::Invalid, why))?;
        }
        Ok(Said {
            envelope,
            client,
            from,
            by,
            requires_ack: meta.requires_ack || meta.sync.is_some(),
            expires: self.now.monotonic.plus(meta.ttl_ms.unwrap_or(self.limits.ttl_ms)),
            bytes: deliver_bytes_max(envelope, name),
            asks: meta.sync,
        })
    }

    /// In whose name a member speaks; a companion only while its agent is here.
    fn sender_at(&self, client: ClientId) -> Result<(AgentKey, Option<ClientId>), Refusal> {
        let from = self.agent_of(client).expect("a member has a name");
        let seat = self.seat_of(client).expect("only a member says SEND");
        if let Some(key) = seat.companion_key.filter(|_| seat.is_beside())
            && !self.has_companion(from, &key)
        {
            let message = "the agent in whose name you would speak is away".to_owned();
            return Err((NackCode::AgentOffline, message));
        }
        Ok((from, seat.is_beside().then_some(client)))
    }

    /// Whether an agent is here that stated this key for its companions.
    pub(super) fn has_companion(&self, agent: AgentKey, key: &Hash) -> bool {
        let client = self.roster.get(agent).and_then(|agent| agent.client);
        let stated = client.and_then(|client| self.seat_of(client)?.companion_key);
        stated.is_some_and(|stated| is_same(&stated, key))
    }

    fn send_to_one(&mut self, said: &Said<'_>, name: &str) {
        let content = said.requires_ack.then(|| Content::of(said.envelope));
        if let Some(content) = content
            && self.repeat_answer(said, content).is_some()
        {
            return;
        }
        let Some(to) = self.roster.find(name) else {
            let (code, message) = self.unknown(name);
            return self.refuse(said.client, &said.envelope.id, code, message);
        };
        if let Some(why) = self.forbidden(said, to) {
            return self.refuse(said.client, &said.envelope.id, NackCode::Forbidden, why);
        }
        self.make_room(said.bytes);
        match self.judge_recipient(said, to) {
            Verdict::Take(stream) => {
                self.counts.taken += 1;
                let taken = self.take(said, to, stream, content, None);
                if let (Some(content), Some(key)) = (content, taken.key) {
                    let away = self.roster[to].client.is_none();
                    let promise = self.promise(said, None, away);
                    let (ticket, number) = self.keep_taken(
                        said,
                        (content, None),
                        vec![key],
                        (None, &[]),
                        Some(promise),
                    );
                    let standing = Standing::Taken { recipients: None, away, number, ticket };
                    self.note(said, content, standing, 1);
                }
                self.copy_to_taps(said, 1, Some(taken));
            }
            Verdict::Busy(depth) => self.say_busy(said, depth, &[]),
            Verdict::TooOften(wait_ms) => {
                let why = self.note_too_often(said, to, wait_ms);
                self.refuse(said.client, &said.envelope.id, NackCode::Limit, why);
            }
            Verdict::Refuse(code, why) => self.refuse(said.client, &said.envelope.id, code, why),
        }
    }

    fn send_to_many(&mut self, said: &Said<'_>) {
        let is_known = said.requires_ack || !self.roster[said.from].doubles.is_empty();
        let content = is_known.then(|| Content::of(said.envelope));
        let before = content.and_then(|content| self.repeat_answer(said, content));
        let (had, number, mut recipients) = match before {
            Some(Standing::Taken { .. }) => return,
            // Nobody knows yet whether the others have it.
            Some(Standing::Partly { left, ticket, .. }) if !self.ledger.is_kept(ticket) => {
                return self.say_busy(said, 0, &left);
            }
            Some(Standing::Partly { recipients, number, left, .. }) => (recipients, number, left),
            None => (0, 0, self.recipients(said)),
        };
        // Those to whom policy forbids it aren't recipients.
        recipients.retain(|to| self.forbidden(said, *to).is_none());
        let mut share = Share { had, number, ..Share::default() };
        let mut shared = None;
        for to in recipients {
            self.make_room(said.bytes);
            match self.judge_recipient(said, to) {
                Verdict::Take(stream) => {
                    let shared = shared.get_or_insert_with(|| self.shared(said));
                    let taken = self.take(said, to, stream, content, Some(shared));
                    share.new += 1;
                    share.kept.extend(taken.key.filter(|_| said.requires_ack));
                }
                Verdict::Busy(waiting) => {
                    share.busy.push(to);
                    share.depth = share.depth.max(waiting);
                }
                Verdict::TooOften(wait_ms) => {
                    let why = self.note_too_often(said, to, wait_ms);
                    self.refuse_one(said, to, NackCode::Limit, why);
                }
                Verdict::Refuse(code, why) => self.refuse_one(said, to, code, why),
            }
        }
        if share.new > 0 || (share.busy.is_empty() && had == 0) {
            self.counts.taken += u64::from(had == 0);
            self.copy_to_taps(said, share.new, None);
        }
        match content {
            Some(content) if said.requires_ack => self.conclude_kept(said, content, share),
            content => self.conclude_once(said, content, share),
        }
    }

    /// Remembers of an at-most-once SEND to many who has it, while some have not.
    fn conclude_once(&mut self, said: &Said<'_>, content: Option<Content>, share: Share) {
        let Share { had, new, number, busy, depth, .. } = share;
        if !busy.is_empty() {
            self.say_busy(said, depth, &busy);
            if had + new > 0 {
                let content = content.unwrap_or_else(|| Content::of(said.envelope));
                let recipients = had + new;
                let standing = Standing::Partly { recipients, left: busy, number, ticket: 0 };
                self.note(said, content, standing, 0);
            }
        } else if let Some(content) = content {
            self.roster[said.from].doubles.forget(content);
        }
    }

    /// Has an at-least-once SEND to many kept, and accepted if all have it.
    fn conclude_kept(&mut self, said: &Said<'_>, content: Content, share: Share) {
        let Share { had, new, number, kept, busy, depth } = share;
        let recipients = had + new;
        if !busy.is_empty() {
            self.say_busy(said, depth, &busy);
            if recipients == 0 {
                return;
            }
        }
        let is_done = busy.is_empty();
        let promise = is_done.then(|| self.promise(said, Some(recipients), false));
        let number = Some(number).filter(|number| *number > 0);
        let have = (Some(recipients), &*busy);
        let (ticket, number) = self.keep_taken(said, (content, number), kept, have, promise);
        let standing = if is_done {
            Standing::Taken { recipients: Some(recipients), away: false, number, ticket }
        } else {
            Standing::Partly { recipients, left: busy, number, ticket }
        };
        self.note(said, content, standing, new as u32);
    }

    /// Who hears it: a topic's subscribers or everyone, but never the sender.
    fn recipients(&self, said: &Said<'_>) -> Vec<AgentKey> {
        let mut recipients = Vec::new();
        match said.envelope.topic.as_deref() {
            Some(topic) => {
                self.subscriptions.collect(topic, &mut recipients);
                recipients.retain(|agent| self.hears_topics(*agent, said.requires_ack));
            }
            None => recipients.extend_from_slice(self.roster.here()),
        }
        recipients.retain(|agent| *agent != said.from);
        recipients
    }

    /// Whether a subscriber is here, or takes up its session again and is to find such mail then.
    fn hears_topics(&self, agent: AgentKey, requires_ack: bool) -> bool {
        let agent = &self.roster[agent];
        agent.client.is_some()
            || requires_ack
                && agent.session.as_deref().is_some_and(|session| {
                    session.capabilities.resume
                        && session.capabilities.ack
                        && session.is_good_at(self.now.monotonic)
                })
    }

    /// What the sender is told where policy forbids it to say this to a recipient.
    fn forbidden(&self, said: &Said<'_>, to: AgentKey) -> Option<String> {
        let (from, to) = (self.roster[said.from].name.as_str(), self.roster.get(to)?.name.as_str());
        let rule = self.policy.rule_against(from, to, said.envelope.topic.as_deref())?;
        Some(rule.refusal(from, to))
    }

    /// How long the sender has to be silent until it may speak to a recipient again.
    fn wait_ms(&self, said: &Said<'_>, to: &Agent) -> u64 {
        let Some(per_minute) = self.policy.per_pair_per_minute else { return 0 };
        let from = self.roster[said.from].number;
        self.pairs.wait_ms(self.now.monotonic, per_minute, from, to.number)
    }

    /// Puts down for `status` that a sender speaks too often, and says to it how long it has to wait.
    fn note_too_often(&mut self, said: &Said<'_>, to: AgentKey, wait_ms: u64) -> String {
        let name = |agent| self.roster[agent].name.to_string();
        let (from, to, at) = (name(said.from), name(to), self.now.unix_ms);
        let why = format!(
            "{from} speaks to {to} more often than per_pair_per_minute in policy.toml allows; the \
             next one may come in {wait_ms} ms"
        );
        let refused = self.too_often.as_ref().map_or(0, |before| before.refused) + 1;
        self.too_often = Some(TooOften { refused, from: from.into(), to: to.into(), at });
        why
    }

    fn judge_recipient(&mut self, said: &Said<'_>, to: AgentKey) -> Verdict {
        let Some(agent) = self.roster.get(to) else {
            return Verdict::Refuse(NackCode::UnknownAgent, "its name was forgotten".to_owned());
        };
        let name = &agent.name;
        match agent.client.and_then(|client| self.seat_of(client)) {
            None if name.is(OPERATOR) => {
                let message = format!("{name} hears answers to what it says, and gets no mail");
                return Verdict::Refuse(NackCode::AgentOffline, message);
            }
            None if !said.requires_ack || name.is_daemons() => {
                return Verdict::Refuse(NackCode::AgentOffline, format!("{name} is away"));
            }
            Some(seat) if said.requires_ack && !seat.capabilities.ack => {
                let message = format!("{name} doesn't acknowledge: send without requires_ack");
                return Verdict::Refuse(NackCode::NoAck, message);
            }
            _ => {}
        }
        let most = self.limits.frame_bytes_max;
        if said.bytes > most {
            let message = format!("its DELIVER to {name} would be over max_frame_bytes ({most})");
            return Verdict::Refuse(NackCode::TooLarge, message);
        }
        let wait_ms = self.wait_ms(said, agent);
        if wait_ms > 0 {
            return Verdict::TooOften(wait_ms);
        }
        let stream = self.streams.find(said.from, to, said.envelope.topic.as_deref());
        if said.requires_ack && self.ledger.backlog() >= self.limits.backlog_max {
            return Verdict::Busy(agent.outbox.total().messages);
        }
        if said.asks.is_some() && self.questions.count(said.from) >= self.limits.questions_max {
            let most = self.limits.questions_max;
            let message = format!("no more than {most} questions of one name may wait for answers");
            return Verdict::Refuse(NackCode::Limit, message);
        }
        let asking = said.asks.as_ref().map_or(0, asking::room_for);
        let held = self.memory_held() + said.bytes + asking;
        let has_room = agent.outbox.has_room(&self.limits, said.from, said.bytes);
        #[cfg(test)]
        let has_room = has_room || self.has(super::sim::Canary::CrowdedQueue);
        if held > self.limits.memory_bytes_max || !has_room {
            return Verdict::Busy(agent.outbox.total().messages);
        }
        if stream.is_none() && !self.has_room_for_stream() {
            let message = format!("{} streams are open already", self.streams.len());
            return Verdict::Refuse(NackCode::Limit, message);
        }
        Verdict::Take(stream)
    }

    /// Takes it for one recipient, who has room: from here on it has a number.
    fn take(
        &mut self,
        said: &Said<'_>,
        to: AgentKey,
        stream: Option<StreamKey>,
        content: Option<Content>,
        shared: Option<&Arc<[u8]>>,
    ) -> Taken {
        let topic = said.envelope.topic.as_deref();
        let stream = stream.unwrap_or_else(|| self.open_stream(said.from, to, topic));
        let seq = self.next_seq(stream);
        let id = self.new_id();
        self.ledger.last.delivery += 1;
        self.streams[stream].last_order = self.ledger.last.delivery;
        self.note_pair(said, to);
        let body = match content.filter(|_| said.requires_ack) {
            Some(content) => Body::Kept(Kept {
                id,
                // It gets one when it is handed to the store.
                message: 0,
                shared: shared.map_or_else(|| self.shared(said), Arc::clone),
                to_everyone: shared.is_some(),
                unix_ms: self.now.unix_ms,
                speaker: self.speaker(said).clone(),
                attempts: 0,
                recorded: u32::from(self.roster[to].client.is_some()),
                failures: 0,
                state: State::Storing,
                content,
                reported: None,
            }),
            None => match self.deliver_once(said, to, stream, (id, seq), shared) {
                Some(frame) => Body::Once(frame),
                None => return Taken { id, seq, key: None },
            },
        };
        let bytes = match &body {
            Body::Once(frame) => frame.bytes(),
            Body::Kept(kept) => kept.shared.len() + HEAD_BYTES,
        };
        self.roster[to].outbox.charge(said.from, bytes);
        self.memory.inside += bytes;
        let message = self.messages.insert(Message {
            from: said.from,
            by: said.by,
            to,
            stream,
            seq,
            order: self.ledger.last.delivery,
            send_id: SendId::new(&said.envelope.id),
            bytes,
            expires: said.expires,
            alarm: said.expires,
            is_replay: false,
            body,
        });
        self.streams[stream].wait(seq, message);
        self.refresh_turn(stream);
        if said.requires_ack {
            // All else begins when it is kept.
            self.record_stream(stream);
            self.deliveries.insert(id, message);
            self.open_question(said, to, id);
        } else {
            self.alarms.set(said.expires, Alarm::Message(message));
            self.pump(to);
        }
        Taken { id, seq, key: Some(message) }
    }

    fn note_pair(&mut self, said: &Said<'_>, to: AgentKey) {
        if let Some(per_minute) = self.policy.per_pair_per_minute {
            let (from, to) = (self.roster[said.from].number, self.roster[to].number);
            self.pairs.note(self.now.monotonic, per_minute, from, to);
        }
    }

    /// Hands an at-most-once message straight out where nothing waits; else gives its frame back.
    fn deliver_once(
        &mut self,
        said: &Said<'_>,
        to: AgentKey,
        stream: StreamKey,
        (id, seq): (Uuid, u64),
        shared: Option<&Arc<[u8]>>,
    ) -> Option<Frame> {
        let is_large = said.bytes > COPIED_BYTES_MAX + HEAD_BYTES;
        let room = self.room(if shared.is_some() && is_large { HEAD_BYTES } else { said.bytes });
        let recipient = &self.roster[to];
        let client = recipient.client.expect("who is away gets no at-most-once mail");
        let seat = self.seat_of(client).expect("an agent that is here has a seat");
        let speaker = self.speaker(said);
        let delivery = Delivery {
            seq,
            session_id: (&*seat.speaker.session).into(),
            original_to: shared.map(|_| EVERYONE.into()),
            attempt: 1,
            requires_ack: false,
            sender: Some(Sender { session: (&*speaker.session).into(), auth: speaker.proof }),
        };
        let mut text = Uuid::encode_buffer();
        let id = id.hyphenated().encode_lower(&mut text);
        let head = Head { id, ts: self.now.unix_ms, to: recipient.name.as_str(), delivery };
        let frame = self.whole_frame(room, said, &head, shared);
        let bytes = frame.bytes();
        let waits = !self.streams[stream].waiting.is_empty()
            || seq > self.streams[stream].reserved
            || recipient.outbox.next(seat.in_flight_max()).is_some()
            || !self.clients[&client].window.has_room(bytes, self.limits.window_bytes);
        if waits {
            return Some(frame);
        }
        let resumes = seat.capabilities.resume;
        self.counts.delivered += 1;
        self.roster[to].outbox.charge(said.from, bytes);
        self.memory.inside += bytes;
        let (send_id, order) = (SendId::new(&said.envelope.id), self.ledger.last.delivery);
        if resumes {
            let (from, by, expires) = (said.from, said.by, said.expires);
            let body = Body::Once(frame);
            let (alarm, is_replay) = (expires, false);
            let message = Message {
                from,
                by,
                to,
                stream,
                seq,
                order,
                send_id,
                bytes,
                expires,
                alarm,
                is_replay,
                body,
            };
            self.hand_out_once(client, message);
        } else {
            self.lose_track(stream, seq);
            let (from, by) = (said.from, said.by);
            self.hand(client, frame, What::Once { from, by, send_id, order });
        }
        None
    }

    pub(super) fn speaker(&self, said: &Said<'_>) -> &Speaker {
        &self.seat_of(said.client).expect("only a member's SEND is taken").speaker
    }

    /// What all recipients get.
    pub(super) fn shared(&self, said: &Said<'_>) -> Arc<[u8]> {
        let mut bytes = Vec::with_capacity(said.bytes);
        self.append_shared(said, &mut bytes);
        bytes.into()
    }

    fn append_shared(&self, said: &Said<'_>, bytes: &mut Vec<u8>) {
        let Envelope { topic, payload, payload_meta, .. } = said.envelope;
        let from = self.roster[said.from].name.as_str();
        append_shared(bytes, from, topic.as_deref(), payload, *payload_meta);
    }

    /// A whole DELIVER, in one piece unless its end is shared with others.
    fn whole_frame(
        &self,
        mut bytes: Vec<u8>,
        said: &Said<'_>,
        head: &Head<'_>,
        shared: Option<&Arc<[u8]>>,
    ) -> Frame {
        head.append(&mut bytes, shared.map_or(0, |shared| shared.len()));
        match shared {
            Some(shared) if shared.len() > COPIED_BYTES_MAX => {
                return Frame { head: bytes, shared: Some(Arc::clone(shared)) };
            }
            Some(shared) => bytes.extend_from_slice(shared),
            None => {
                self.append_shared(said, &mut bytes);
                frame::seal(&mut bytes, 0, 0);
            }
        }
        Frame { head: bytes, shared: None }
    }

    /// Opens the stream of two agents who are known. Its numbers begin above those of all that was closed.
    pub(super) fn open_stream(
        &mut self,
        from: AgentKey,
        to: AgentKey,
        topic: Option<&str>,
    ) -> StreamKey {
        let sender = &self.roster[from];
        let floor = sender.floor.seq;
        #[cfg(test)]
        let floor = if self.has(super::sim::Canary::ForgottenFloors) { 0 } else { floor };
        let reserved = if sender.is_guest() { u64::MAX } else { floor };
        let stream = self.streams.open((from, sender.number), to, topic, (floor, reserved));
        self.roster[from].says.insert(stream);
        self.roster[to].hears.insert(stream);
        stream
    }

    /// A SEND that came before: what was said to it then, said again.
    fn repeat_answer(&mut self, said: &Said<'_>, content: Content) -> Option<Standing> {
        let standing = self.roster[said.from].doubles.standing(content)?.clone();
        if let Standing::Taken { recipients, away, ticket, .. } = standing {
            let promise = self.promise(said, recipients, away);
            if self.ledger.is_kept(ticket) {
                self.accept(&promise);
            } else if self.ledger.is_busy_repeating() {
                self.say_busy(said, 0, &[]);
            } else {
                self.promise_again(promise, said.from, content);
            }
        }
        Some(standing)
    }

    fn note(&mut self, said: &Said<'_>, content: Content, standing: Standing, opened: u32) {
        self.remember(said.from, content, standing, opened, self.limits.doubles_max);
        if self.doubles > self.limits.doubles_total_max {
            self.forget_some_doubles();
        }
    }

    pub(super) fn remember(
        &mut self,
        sender: AgentKey,
        content: Content,
        standing: Standing,
        opened: u32,
        most: usize,
    ) {
        let doubles = &mut self.roster[sender].doubles;
        self.doubles -= doubles.len();
        doubles.note(content, standing, opened, most);
        self.doubles += doubles.len();
    }

    fn forget_some_doubles(&mut self) {
        let holders = self.roster.keys().into_iter().map(|agent| {
            let Agent { forget_at, doubles, .. } = &self.roster[agent];
            Holder { agent, forget_at: *forget_at, count: doubles.len() }
        });
        let mut holders: Vec<_> = holders.collect();
        self.doubles = doubles::share_out(&mut holders, self.limits.doubles_total_max);
        for Holder { agent, count, .. } in holders {
            self.roster[agent].doubles.keep_last(count);
        }
    }

    fn promise(&self, said: &Said<'_>, recipients: Option<u64>, away: bool) -> Promise {
        let send_id = SendId::new(&said.envelope.id);
        Promise { client: said.client, send_id, recipients, away }
    }

    pub(super) fn accept(&mut self, promise: &Promise) {
        let ack = Ack {
            ack_id: promise.send_id.as_str().into(),
            state: Some("accepted".into()),
            durability: Some(self.limits.durability.as_str().into()),
            recipients: promise.recipients,
            away: promise.away,
            ..Ack::default()
        };
        self.answer(promise.client, Kind::Ack, &ack);
    }

    fn say_busy(&mut self, said: &Said<'_>, depth: usize, busy: &[AgentKey]) {
        self.counts.busy += 1;
        let busy = busy.iter().filter_map(|agent| self.roster.get(*agent));
        let busy = Busy {
            ack_id: said.envelope.id.to_string(),
            retry_after_ms: RETRY_MS,
            queue_depth: depth as u64,
            busy: busy.map(|agent| agent.name.to_string()).collect(),
        };
        self.answer(said.client, Kind::Busy, &busy);
    }

    /// Nobody has that name.
    fn unknown(&self, name: &str) -> Refusal {
        if let Err(why) = Name::parse(name)
            && !name.starts_with('@')
        {
            return (NackCode::Invalid, format!("{} is nobody's name: {why}", Quoted(name)));
        }
        let mut here: Vec<_> =
            self.roster.here().iter().map(|agent| self.roster[*agent].name.as_str()).collect();
        here.sort_by_cached_key(|name| name.to_ascii_lowercase());
        let more = here.len().saturating_sub(NAMES_TOLD);
        here.truncate(NAMES_TOLD);
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

/// A bound for every DELIVER that can be made of a SEND; off by its unused room at most.
fn deliver_bytes_max(envelope: &Envelope<'_>, from: &Name) -> usize {
    const FIELDS: &str = r#""from":"","topic":"","payload":,"payload_meta":}"#;
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    let topic: usize = envelope.topic.iter().flat_map(|topic| topic.bytes()).map(escaped).sum();
    HEAD_BYTES
        + FIELDS.len()
        + from.as_str().len()
        + topic
        + envelope.payload.len()
        + envelope.payload_meta.map_or(0, str::len)
}
