//! What a member may say besides SEND, what is written to it, and how it leaves.

use super::{
    AgentKey, ClientId, CloseReason, MessageKey, Router,
    alarm::Alarm,
    client::{Client, Handed, Seat, Stage, What},
    message::{Message, State},
    topics,
};
use crate::protocol::{
    code::{ErrorCode, NackCode},
    envelope::{Envelope, Kind},
    payload::{Bye, Heartbeat},
    text::Quoted,
    topic::Pattern,
};
use crate::record::Change;
use std::mem;

const DAY_MS: u64 = 86_400_000;

/// How a member leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// Without a word, or by breaking a rule: what it had unacknowledged may be why.
    Lost,
    /// Its session goes on at once, with another connection.
    Replaced,
    /// It said BYE, and is done with its session.
    Bye,
    /// The daemon goes down.
    Stopped,
}

impl From<CloseReason> for Departure {
    fn from(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Bye => Self::Bye,
            CloseReason::Stopping => Self::Stopped,
            CloseReason::Fault(ErrorCode::SessionReplaced) => Self::Replaced,
            CloseReason::Fault(_) => Self::Lost,
        }
    }
}

impl Router {
    pub(super) fn frame(&mut self, id: ClientId, json: &[u8]) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let is_gated = client.is_gated;
        if matches!(client.stage, Stage::Member(_)) {
            client.heard = self.now.monotonic;
            if client.pinged.take().is_some() {
                self.arm(id);
            }
        }
        if is_gated && self.has_to_wait(id, json) {
            self.put_off(id, json);
        } else {
            self.hear(id, json);
        }
    }

    /// A frame has its turn.
    pub(super) fn hear(&mut self, id: ClientId, json: &[u8]) {
        match self.clients.get(&id).map(|client| &client.stage) {
            Some(Stage::Member(_)) => match Envelope::read(json) {
                Ok(envelope) => self.envelope(id, &envelope),
                Err(violation) => self.violated(id, violation),
            },
            Some(Stage::Stranger { .. }) => self.frame_of_stranger(id, json),
            Some(Stage::Contender(_)) => unreachable!("its gate is shut"),
            Some(Stage::Closing { .. } | Stage::HungUp) | None => {}
        }
    }

    fn envelope(&mut self, id: ClientId, envelope: &Envelope<'_>) {
        let done = match envelope.kind {
            Kind::Send => {
                self.send(id, envelope);
                Ok(())
            }
            // A delivery is acknowledged and given back by who got it, and by nobody else.
            Kind::Ack | Kind::Nack if self.seat_of(id).is_some_and(Seat::is_beside) => Ok(()),
            Kind::Ack => envelope.typed(envelope.payload).map(|ack| self.acked(id, &ack)),
            Kind::Nack => envelope.typed(envelope.payload).map(|nack| self.given_back(id, &nack)),
            Kind::Pong => envelope.typed::<Heartbeat>(envelope.payload).map(drop),
            Kind::Subscribe | Kind::Unsubscribe => {
                self.subscribe(id, envelope);
                Ok(())
            }
            Kind::Bye => envelope.typed(envelope.payload).map(|bye: Bye| {
                self.log(id, &format!("said BYE: {}", Quoted(&bye.reason)));
                self.close(id, CloseReason::Bye);
            }),
            Kind::Resume => {
                self.resume(id, envelope);
                Ok(())
            }
            Kind::Hello => {
                let why = "this connection has said HELLO already";
                Err(envelope.breaks(ErrorCode::Invalid, why))
            }
            Kind::Welcome | Kind::Deliver | Kind::Ping | Kind::Error | Kind::Busy | Kind::Sync => {
                let why = format!("{} is the daemon's to say", envelope.kind);
                Err(envelope.breaks(ErrorCode::Invalid, why))
            }
        };
        if let Err(violation) = done {
            self.violated(id, violation);
        }
    }

    /// A member's seat.
    pub(super) fn seat_of(&self, id: ClientId) -> Option<&Seat> {
        match self.clients.get(&id)? {
            Client { stage: Stage::Member(seat), .. } => Some(seat),
            _ => None,
        }
    }

    pub(super) fn seat_mut(&mut self, id: ClientId) -> Option<&mut Seat> {
        match self.clients.get_mut(&id)? {
            Client { stage: Stage::Member(seat), .. } => Some(seat),
            _ => None,
        }
    }

    /// A member's agent.
    pub(super) fn agent_of(&self, id: ClientId) -> Option<AgentKey> {
        self.clients.get(&id)?.agent
    }

    fn subscribe(&mut self, id: ClientId, envelope: &Envelope<'_>) {
        match self.change_subscription(id, envelope) {
            Ok(()) => self.acknowledge_kept(id, &envelope.id),
            Err((code, message)) => self.nack(id, &envelope.id, code, message),
        }
    }

    fn change_subscription(
        &mut self,
        id: ClientId,
        envelope: &Envelope<'_>,
    ) -> Result<(), (NackCode, String)> {
        let kind = envelope.kind.as_str();
        let most = self.limits.subscriptions_max;
        let Some(agent) = self.agent_of(id) else { return Ok(()) };
        if self.seat_of(id).is_none_or(|seat| !seat.capabilities.supports_topics) {
            return Err((NackCode::Forbidden, "this connection has supports_topics: false".into()));
        }
        let topic = envelope
            .topic
            .as_deref()
            .ok_or_else(|| (NackCode::Invalid, format!("{kind} names its topic in `topic`")))?;
        let pattern = Pattern::parse(topic).map_err(|why| (NackCode::Invalid, why.to_string()))?;
        let Some(session) = self.roster[agent].session.as_deref() else { return Ok(()) };
        if self.ledger.backlog() >= self.limits.backlog_max || self.ledger.is_busy_subscribing() {
            return Err((NackCode::Limit, format!("the store is behind; say {kind} again later")));
        }
        let place = session.subscriptions.iter().position(|other| *other == pattern);
        match (envelope.kind, place) {
            (Kind::Subscribe, None) if session.subscriptions.len() >= most => {
                return Err((
                    NackCode::Limit,
                    format!("a session has at most {most} subscriptions"),
                ));
            }
            (Kind::Subscribe, None) => {
                if !self.has_room_to_subscribe(&pattern) {
                    let why = "the daemon has no memory for another subscription; try later";
                    return Err((NackCode::Limit, why.into()));
                }
                self.subscriptions.add(&pattern, agent);
                self.session_mut(agent).subscriptions.push(pattern);
            }
            (Kind::Unsubscribe, Some(place)) => {
                self.subscriptions.remove(&pattern, agent);
                self.session_mut(agent).subscriptions.swap_remove(place);
            }
            _ => return Ok(()),
        }
        self.keep_session(agent);
        Ok(())
    }

    /// Half of the memory is for what is said, whatever is listened to.
    pub(super) fn has_room_to_subscribe(&mut self, pattern: &Pattern) -> bool {
        let (bytes, most) = (topics::bytes_of(pattern), self.limits.memory_bytes_max);
        self.make_room(bytes);
        self.subscriptions.bytes() + bytes <= most / 2 && self.memory_held() + bytes <= most
    }

    /// Bytes that were handed out have left.
    pub(super) fn written(&mut self, id: ClientId, bytes: usize) {
        let now = self.now.monotonic;
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.window.add_written(bytes);
        if client.is_gated && matches!(client.stage, Stage::Member(_)) {
            // It reads, slowly; that nothing is heard of it is the daemon's own doing.
            client.heard = now;
            client.pinged = client.pinged.map(|_| now);
        }
        let agent = client.agent;
        while let Some(handed) = self.clients.get_mut(&id).and_then(|c| c.window.next_written()) {
            self.left(id, agent, handed);
        }
        if self.clients.get(&id).is_some_and(|client| client.is_gated) {
            self.hear_on(id);
        }
        if let Some(agent) = agent {
            self.pump(agent);
        }
    }

    /// A frame was written as a whole.
    fn left(&mut self, id: ClientId, agent: Option<AgentKey>, handed: Handed) {
        match handed.what {
            What::Answer => self.memory.inside -= handed.bytes,
            What::Outcome(outcome) => {
                self.memory.inside -= handed.bytes;
                self.outcome_is_over(&outcome);
            }
            What::Copy => {}
            What::Once { from, .. } => self.release(agent, from, handed.bytes),
            // Of a connection that is being closed it may be on the way to the next one already.
            What::Kept(key) if self.seat_of(id).is_some() => {
                if let Some(kept) = self.messages.get_mut(key).and_then(|m| m.kept_mut())
                    && let State::OnWay { written } = &mut kept.state
                {
                    *written = true;
                }
            }
            What::Kept(_) => {}
        }
    }

    /// A message is out of its queue.
    pub(super) fn release(&mut self, agent: Option<AgentKey>, from: AgentKey, bytes: usize) {
        if let Some(agent) = agent.and_then(|agent| self.roster.get_mut(agent)) {
            agent.outbox.release(from, bytes);
            self.memory.inside -= bytes;
        }
    }

    /// The connection is gone. What it was handed and didn't take, and what its session doesn't keep, is
    /// lost, and its senders hear so.
    pub(super) fn disconnected(&mut self, id: ClientId) {
        self.unseat(id, Departure::Lost);
        let Some(mut client) = self.clients.remove(&id) else { return };
        self.strangers.remove(&id);
        if let Some(at) = client.alarm {
            self.alarms.remove(at, Alarm::Client(id));
        }
        while let Some(handed) = client.window.next_lost() {
            match handed.what {
                What::Answer => self.memory.inside -= handed.bytes,
                What::Outcome(outcome) => {
                    self.memory.inside -= handed.bytes;
                    if let Some(agent) = client.agent {
                        self.inform_again(agent, outcome);
                    }
                }
                What::Copy | What::Kept(_) => {}
                What::Once { from, by, send_id, .. } => {
                    self.release(client.agent, from, handed.bytes);
                    if let Some(agent) = client.agent {
                        self.undelivered((from, by), agent, send_id.as_str());
                    }
                }
            }
        }
        if let Some(agent) = client.agent
            && self.roster.get(agent).is_some_and(|agent| agent.is_guest())
        {
            self.forget(agent);
        }
        self.stop_if_empty();
    }

    /// An at-most-once message's recipient went before it had it.
    fn undelivered(&mut self, from: (AgentKey, Option<ClientId>), to: AgentKey, send_id: &str) {
        #[cfg(test)]
        if self.canary == Some(super::sim::Canary::SilentDrop) {
            return;
        }
        self.counts.refused += 1;
        let Some(name) = self.roster.get(to).map(|agent| agent.name.clone()) else { return };
        let message = format!("{name} went away before it was delivered");
        self.tell_sender(from, to, send_id, NackCode::AgentOffline, message);
    }

    /// Takes everything back that belongs to a connection.
    pub(super) fn unseat(&mut self, id: ClientId, departure: Departure) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        self.memory.inside -= mem::take(&mut client.unheard).bytes();
        match mem::replace(&mut client.stage, Stage::HungUp) {
            Stage::Member(seat) => {
                let agent = client.agent;
                self.log(id, "left");
                self.members -= 1;
                self.taps.retain(|other| *other != id);
                self.desks.remove(&id);
                if let Some(agent) = agent.filter(|_| !seat.is_beside()) {
                    self.end_membership(id, agent, departure);
                }
            }
            Stage::Contender(contender) => {
                self.strangers.remove(&id);
                if let Some(agent) = self.roster.find(contender.applicant.name.as_str()) {
                    self.roster[agent].contenders.retain(|other| *other != id);
                }
            }
            Stage::Stranger { .. } => {
                self.strangers.remove(&id);
            }
            stage @ (Stage::Closing { .. } | Stage::HungUp) => client.stage = stage,
        }
    }

    fn end_membership(&mut self, id: ClientId, agent: AgentKey, departure: Departure) {
        self.roster.leave(agent, self.now.unix_ms);
        self.take_back(agent, departure);
        if self.keeps_mail(agent, departure) {
            self.drop_replays(agent);
            self.regain(id, agent);
        } else {
            self.drop_once(agent);
        }
        match departure {
            Departure::Replaced => {}
            Departure::Bye => self.end_session(agent),
            Departure::Lost | Departure::Stopped => self.leave_session(agent),
        }
        if departure != Departure::Replaced && !self.roster[agent].is_guest() {
            self.set_forgetting(agent);
        }
        self.vacated.push(agent);
    }

    /// An agent that is away is forgotten some day.
    pub(super) fn set_forgetting(&mut self, agent: AgentKey) {
        let days = self.limits.mailbox_days;
        let at = self.now.monotonic.plus(days.saturating_mul(DAY_MS));
        self.roster[agent].forget_at = Some(at);
        self.alarms.set(at, Alarm::Agent(agent));
        self.keep_agent(agent);
    }

    /// What was on the way waits again, for whoever speaks for the agent next.
    fn take_back(&mut self, agent: AgentKey, departure: Departure) {
        let mut blamed: Option<(u64, MessageKey)> = None;
        let heard: Vec<_> = self.roster[agent].hears.iter().copied().collect();
        for key in heard {
            for message_key in self.streams[key].take_back(0) {
                let message = &mut self.messages[message_key];
                let order = message.order;
                let Some(kept) = message.kept_mut() else { continue };
                if kept.state == (State::OnWay { written: true })
                    && blamed.is_none_or(|(oldest, _)| order < oldest)
                {
                    blamed = Some((order, message_key));
                }
                kept.take_back(State::Waiting);
            }
            self.refresh_turn(key);
        }
        self.roster[agent].outbox.in_flight = 0;
        if let Some((_, message)) = blamed.filter(|_| departure == Departure::Lost) {
            self.blame(message);
        }
        #[cfg(test)]
        self.lose_redelivery(agent);
    }

    /// Whether at-most-once mail waits for an agent that leaves like this.
    fn keeps_mail(&self, agent: AgentKey, departure: Departure) -> bool {
        let session = self.roster[agent].session.as_deref();
        matches!(departure, Departure::Lost | Departure::Replaced)
            && session.is_some_and(|session| session.capabilities.resume)
    }

    /// What was handed to a connection and hasn't left waits again, as far as it is at hand.
    fn regain(&mut self, id: ClientId, agent: AgentKey) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(session) = self.roster[agent].session.as_deref_mut() else { return };
        let mut regained = Vec::new();
        for handed in client.window.frames_mut() {
            if let What::Once { order, .. } = handed.what
                && let Some(message) = session.replay.take(order, &self.streams)
            {
                // It may still leave. Whoever hears it twice knows it by its id.
                handed.what = What::Copy;
                self.memory.replay -= message.bytes;
                regained.push(message);
            }
        }
        for message in regained {
            self.wait_once(message);
        }
    }

    /// At-most-once mail that waits for an agent is lost, and its senders hear so.
    pub(super) fn drop_once(&mut self, agent: AgentKey) {
        for key in self.waiting_once(agent, |_| true) {
            if let Some(message) = self.settle(key)
                && !message.is_replay
            {
                self.lose_track(message.stream, message.seq);
                let from = (message.from, message.by);
                self.undelivered(from, message.to, message.send_id.as_str());
            }
        }
    }

    /// Nobody is there any more who wanted to hear these again.
    fn drop_replays(&mut self, agent: AgentKey) {
        for key in self.waiting_once(agent, |message| message.is_replay) {
            self.settle(key);
        }
    }

    fn waiting_once(
        &self,
        agent: AgentKey,
        is_meant: impl Fn(&Message) -> bool,
    ) -> Vec<MessageKey> {
        let streams = self.roster[agent].hears.iter().map(|key| &self.streams[*key]);
        let waiting = streams.flat_map(|stream| stream.waiting.iter().map(|(_, key)| *key));
        let once = waiting.filter(|key| {
            let message = &self.messages[*key];
            message.kept().is_none() && is_meant(message)
        });
        once.collect()
    }

    /// An agent stayed away for good.
    pub(super) fn ring_agent(&mut self, agent: AgentKey) {
        if self.roster.get(agent).is_some_and(|agent| agent.client.is_none()) {
            self.forget(agent);
        }
    }

    /// Forgets a name: its mailbox at once, what it said with the last of it.
    pub(super) fn forget(&mut self, agent: AgentKey) {
        let Some(forgotten) = self.roster.get_mut(agent) else { return };
        if let Some(at) = forgotten.forget_at.take() {
            self.alarms.remove(at, Alarm::Agent(agent));
        }
        self.drop_session(agent);
        self.close_questions_of(agent);
        let forgotten = &mut self.roster[agent];
        let (hears, says) = (mem::take(&mut forgotten.hears), mem::take(&mut forgotten.says));
        for key in hears {
            let Some(stream) = self.streams.get(key) else { continue };
            let (from, waiting) = (stream.from(), stream.waiting.clone());
            for (_, message) in waiting {
                self.expire(message, "the name of its recipient was forgotten");
            }
            if let Some(sender) = self.roster.get_mut(from) {
                sender.says.remove(&key);
            }
            self.close_stream(key);
        }
        for key in says {
            if self.streams.get(key).is_some() {
                self.streams[key].is_orphan = true;
                self.close_if_over(key);
            }
        }
        if let Some(removed) = self.roster.remove(agent) {
            // Only frames of a connection that never ends can still count here.
            self.memory.inside -= removed.outbox.total().bytes;
            self.doubles -= removed.doubles.len();
            if removed.floor.number > 0 {
                self.keep(Change::StreamEnded(removed.floor.number));
            }
            // Of a guest, only what it sent at least once is in the store.
            if !removed.is_guest() || !removed.doubles.is_empty() {
                self.keep(Change::AgentForgotten(removed.number));
            }
        }
    }

    /// Closes a stream whose sender is forgotten, once nothing of it waits.
    pub(super) fn close_if_over(&mut self, key: super::StreamKey) {
        let stream = &self.streams[key];
        if stream.is_orphan && stream.is_empty() {
            let to = stream.to();
            if let Some(recipient) = self.roster.get_mut(to) {
                recipient.hears.remove(&key);
            }
            self.close_stream(key);
        }
    }
}
