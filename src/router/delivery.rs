//! From a queue to the recipient and back: handing out, ACK, NACK, time to live.

use super::{
    AgentKey, ClientId, Frame, MessageKey, Router, StreamKey,
    alarm::Alarm,
    client::What,
    message::{Body, FAILURES_MAX, HEAD_BYTES, Kept, Message, REST_MS_MIN, State},
    outbox::Turn,
};
use crate::protocol::{
    code::NackCode,
    deliver::{Delivery, Head, Sender},
    name::EVERYONE,
    payload::{Ack, Nack},
};
use crate::record::{Change, Ending};
use std::mem;
use uuid::Uuid;

/// What the sender of a message hears whose time to live ran out.
const OVER_DUE: &str = "its time to live ran out";

impl Router {
    /// Hands out what an agent's window has room for, the oldest first.
    pub(super) fn pump(&mut self, agent: AgentKey) {
        while let Some((client, key)) = self.next_for(agent) {
            // A driver that woke late has not rung for it yet.
            let expires = self.messages[key].expires;
            #[cfg(test)]
            let expires = self.shortened(expires);
            if expires < self.now.monotonic {
                self.expire(key, OVER_DUE);
            } else {
                self.hand_out(client, key);
            }
        }
    }

    fn next_for(&self, agent: AgentKey) -> Option<(ClientId, MessageKey)> {
        let agent = self.roster.get(agent)?;
        let id = agent.client?;
        let stream = agent.outbox.next(self.seat_of(id)?.in_flight_max())?;
        let (_, key) = *self.streams[stream].waiting.front()?;
        #[cfg(test)]
        let key = self.swapped(stream).unwrap_or(key);
        let room = self.limits.window_bytes;
        let has_room = self.clients[&id].window.has_room(self.messages[key].bytes, room);
        has_room.then_some((id, key))
    }

    /// The first message of its stream goes to its recipient's connection.
    fn hand_out(&mut self, client: ClientId, key: MessageKey) {
        self.counts.delivered += 1;
        let message = &mut self.messages[key];
        let (stream, seq) = (message.stream, message.seq);
        self.streams[stream].forget_waiting(seq);
        if let Some(kept) = message.kept_mut() {
            kept.attempts += 1;
            kept.state = State::OnWay { written: false };
            let is_recorded = kept.attempts <= kept.recorded;
            let to = message.to;
            self.streams[stream].on_way.insert(seq, key);
            self.roster[to].outbox.in_flight += 1;
            if !is_recorded {
                self.record_attempt(key);
            }
            if let Some(frame) = self.frame_of(key) {
                self.hand(client, frame, What::Kept(key));
            }
        } else if let Some(message) = self.messages.remove(key) {
            self.alarms.remove(message.alarm, Alarm::Message(key));
            self.hand_out_once(client, message);
        }
        self.refresh_turn(stream);
        self.close_if_over(stream);
    }

    /// An at-most-once message goes to its recipient's connection.
    pub(super) fn hand_out_once(&mut self, client: ClientId, mut message: Message) {
        let Body::Once(frame) = &mut message.body else { return };
        let frame = mem::take(frame);
        if message.is_replay {
            self.memory.inside -= message.bytes;
            return self.hand(client, frame, What::Copy);
        }
        let (from, by, order) = (message.from, message.by, message.order);
        if self.seat_of(client).is_some_and(|seat| seat.capabilities.resume) {
            let (frame, send_id) = (self.repeatable(frame), message.send_id.clone());
            message.body = Body::Once(frame.clone());
            self.put_by(message);
            self.hand(client, frame, What::Once { from, by, send_id, order });
        } else {
            self.lose_track(message.stream, message.seq);
            self.hand(client, frame, What::Once { from, by, send_id: message.send_id, order });
        }
    }

    /// An at-least-once message as it goes out this time.
    fn frame_of(&mut self, key: MessageKey) -> Option<Frame> {
        let room = self.room(HEAD_BYTES);
        let message = &self.messages[key];
        Some(self.frame_again(room, message, message.kept()?, true))
    }

    /// A message that was kept, as it goes out this time.
    pub(super) fn frame_again(
        &self,
        mut head: Vec<u8>,
        message: &Message,
        kept: &Kept,
        requires_ack: bool,
    ) -> Frame {
        let Kept { id, shared, speaker, .. } = kept;
        let to = &self.roster[message.to];
        let session = to.session.as_deref().map_or("", |session| &session.id);
        let attempt = kept.attempts;
        #[cfg(test)]
        let attempt = if self.has(super::sim::Canary::FirstAttempts) { 1 } else { attempt };
        let delivery = Delivery {
            seq: message.seq,
            session_id: session.into(),
            original_to: kept.to_everyone.then(|| EVERYONE.into()),
            attempt,
            requires_ack,
            sender: Some(Sender { session: (&*speaker.session).into(), auth: speaker.proof }),
        };
        let mut text = Uuid::encode_buffer();
        let id = id.hyphenated().encode_lower(&mut text);
        let to = to.name.as_str();
        Head { id, ts: self.now.unix_ms, to, delivery }.append(&mut head, shared.len());
        Frame { head, shared: Some(shared.clone()) }
    }

    /// The first of a stream's waiting messages changed: its recipient's outbox has to know.
    pub(super) fn refresh_turn(&mut self, key: StreamKey) {
        let stream = &mut self.streams[key];
        let turn = stream.waiting.front().and_then(|(seq, message)| {
            let message = &self.messages[*message];
            let turn = Turn { order: message.order, kept: message.kept().is_some() };
            (!message.is_held() && *seq <= stream.reserved).then_some(turn)
        });
        if turn != stream.turn {
            self.roster[stream.to()].outbox.turn(key, stream.turn, turn);
            stream.turn = turn;
        }
    }

    /// A delivery is over, and how: it leaves every table, and the store hears of it.
    fn end(&mut self, key: MessageKey, ending: Ending) -> Option<Message> {
        let message = self.messages.get_mut(key)?;
        let order = message.order;
        if let Some(kept) = message.kept_mut() {
            if ending == Ending::Acknowledged {
                kept.reported = kept.reported.take().filter(|reported| !reported.is_waiting());
            }
            let (delivery, unix_ms) = (order, self.now.unix_ms);
            self.keep(Change::Ended { delivery, ending, unix_ms });
        }
        self.settle(key)
    }

    /// It leaves every table.
    pub(super) fn settle(&mut self, key: MessageKey) -> Option<Message> {
        let message = self.messages.remove(key)?;
        self.alarms.remove(message.alarm, Alarm::Message(key));
        self.streams[message.stream].forget(message.seq);
        if message.is_replay {
            self.memory.inside -= message.bytes;
        } else {
            self.release(Some(message.to), message.from, message.bytes);
        }
        if let Body::Kept(kept) = &message.body {
            self.deliveries.remove(&kept.id);
            if kept.reported.is_some() || self.reports_on_deliveries(message.to) {
                let reported = kept.reported.as_deref().cloned();
                self.reports.close(kept.id, message.to, reported);
            }
            if matches!(kept.state, State::OnWay { .. }) {
                self.roster[message.to].outbox.in_flight -= 1;
            }
            if let Some(sender) = self.roster.get_mut(message.from) {
                sender.doubles.close_one(kept.content);
            }
        }
        self.refresh_turn(message.stream);
        self.close_if_over(message.stream);
        Some(message)
    }

    /// ACK from a recipient. What it never got, or acknowledged before, is passed over.
    pub(super) fn acked(&mut self, client: ClientId, ack: &Ack<'_>) {
        self.answered(client, ack);
        let Some((agent, key)) = self.find_delivery(client, &ack.ack_id) else {
            return self.acked_late(client, &ack.ack_id);
        };
        let stream = self.messages[key].stream;
        let mut over = vec![key];
        if let Some(last) = ack.cumulative_seq {
            let stream = &self.streams[stream];
            over.extend(stream.on_way.range(..=last).map(|(_, key)| *key));
            let waiting = stream.waiting.iter().take_while(|(seq, _)| *seq <= last);
            over.extend(waiting.map(|(_, key)| *key).filter(|key| self.was_delivered(*key)));
        }
        for key in over {
            if let Some(message) = self.end(key, Ending::Acknowledged) {
                self.counts.acknowledged += 1;
                self.keep_question_of(&message);
                self.put_by(message);
            }
        }
        self.pump(agent);
    }

    /// ACK of a dead letter: it arrived after all.
    fn acked_late(&mut self, client: ClientId, id: &str) {
        let (Ok(id), Some(agent)) = (Uuid::try_parse(id), self.agent_of(client)) else { return };
        if let Some(delivery) = self.dead.acknowledge(id, self.roster[agent].number) {
            let unix_ms = self.now.unix_ms;
            self.keep(Change::Ended { delivery, ending: Ending::Acknowledged, unix_ms });
        }
    }

    /// A client's own delivery by its id, if it awaits an ACK.
    fn find_delivery(&self, client: ClientId, id: &str) -> Option<(AgentKey, MessageKey)> {
        let id = Uuid::try_parse(id).ok()?;
        let (agent, key) = (self.agent_of(client)?, *self.deliveries.get(&id)?);
        let is_own = self.messages[key].to == agent && self.was_delivered(key);
        is_own.then_some((agent, key))
    }

    fn was_delivered(&self, key: MessageKey) -> bool {
        self.messages[key].kept().is_some_and(|kept| kept.attempts > 0)
    }

    /// NACK from a recipient: it wants the message later, or not at all.
    pub(super) fn given_back(&mut self, client: ClientId, nack: &Nack) {
        let Some((agent, key)) = self.find_delivery(client, &nack.ack_id) else { return };
        let message = &mut self.messages[key];
        let (stream, seq) = (message.stream, message.seq);
        let Some(kept) = message.kept_mut() else { return };
        if !matches!(kept.state, State::OnWay { .. }) {
            return;
        }
        match nack.retry_after_ms {
            None => {
                let why = format!("{} refused it: {:.200}", self.roster[agent].name, nack.message);
                self.counts.given_back += 1;
                self.fail(key, NackCode::Refused, why);
            }
            Some(ms) => {
                let until = self.now.monotonic.plus(ms.max(REST_MS_MIN));
                kept.take_back(State::Resting(until));
                self.roster[agent].outbox.in_flight -= 1;
                let stream_of_it = &mut self.streams[stream];
                stream_of_it.on_way.remove(&seq);
                stream_of_it.wait(seq, key);
                self.refresh_turn(stream);
                self.set_alarm(key);
                self.blame(key);
            }
        }
        self.pump(agent);
    }

    /// A delivery failed once more.
    pub(super) fn blame(&mut self, key: MessageKey) {
        let most = FAILURES_MAX;
        #[cfg(test)]
        let most = self.patience(most);
        let Some(kept) = self.messages.get_mut(key).and_then(Message::kept_mut) else { return };
        kept.failures += 1;
        if kept.failures < most {
            self.record_attempt(key);
        } else {
            self.counts.gave_up += 1;
            let why = format!("{FAILURES_MAX} attempts to deliver it failed");
            self.fail(key, NackCode::GaveUp, why);
        }
    }

    /// A delivery ended without an ACK: its sender is told.
    fn fail(&mut self, key: MessageKey, code: NackCode, why: String) {
        let ending = Ending::Dead { code, why: why.as_str().into() };
        if let Some(message) = self.end(key, ending) {
            if let (Some(kept), Some(to)) = (message.kept(), self.roster.get(message.to)) {
                self.dead.add(kept.id, message.order, to.number);
            }
            self.report_failure(&message, code, why);
        }
    }

    pub(super) fn expire(&mut self, key: MessageKey, why: &str) {
        if self.messages.get(key).is_some_and(|message| message.is_replay) {
            self.settle(key);
            return;
        }
        self.counts.expired += 1;
        self.fail(key, NackCode::Expired, why.to_owned());
    }

    /// Sets a message's alarm for the end of its rest, or of its time to live.
    pub(super) fn set_alarm(&mut self, key: MessageKey) {
        let message = &mut self.messages[key];
        self.alarms.remove(message.alarm, Alarm::Message(key));
        message.alarm = message.expires;
        if let Some(Kept { state: State::Resting(until), .. }) = message.kept() {
            message.alarm = message.expires.min(*until);
        }
        self.alarms.set(message.alarm, Alarm::Message(key));
    }

    pub(super) fn ring_message(&mut self, key: MessageKey) {
        let now = self.now.monotonic;
        let Some(message) = self.messages.get_mut(key) else { return };
        let (to, stream) = (message.to, message.stream);
        if message.expires <= now {
            self.expire(key, OVER_DUE);
        } else if let Some(kept @ Kept { state: State::Resting(_), .. }) = message.kept_mut() {
            kept.state = State::Waiting;
            self.set_alarm(key);
            self.refresh_turn(stream);
        }
        self.pump(to);
    }
}
