//! The steps of a seeded world: what its applications do, and what happens to them.

use super::{
    NAMES, PATTERNS, TOPICS,
    app::App,
    sends::Sent,
    world::{OPERATOR_KEY, World},
};
use crate::{
    ClientId, Input,
    oracle::{Arrival, Checked, End},
};
use client::session;
use protocol::{
    code::{ErrorCode, NackCode, Violation},
    envelope::{Header, Kind},
    frame::PREFIX,
    name::{OPERATOR, RELAY},
    payload::{Capabilities, Nack},
};
use rand_core::Rng;
use serde_json::{Value, json};
use uuid::Uuid;

impl World {
    pub(super) fn step(&mut self) -> Checked {
        match self.below(200) {
            0..40 => self.send(),
            40..70 => self.answer(),
            70..110 => self.carry_some_in(),
            110..150 => self.write_some(),
            150..174 => {
                let inputs = 1 + self.below(6);
                self.commit(inputs)
            }
            174..177 => self.change_disk(),
            177..180 => self.cut(),
            180 => self.end_app(),
            181 => self.intrude(),
            182..184 => self.subscribe(),
            184 => self.crash(),
            185 => {
                let ms = 1 + self.below(10_000) as u64;
                self.bed.advance(ms);
                self.tick()
            }
            186 => {
                let bytes = self.below(4) * 6_000;
                self.handle(Input::Outside(bytes))
            }
            187 => self.break_protocol(),
            188 => self.take_mail(),
            _ => {
                let ms = 1 + self.below(150) as u64;
                self.wait(ms)
            }
        }
    }

    /// Changes the disk's health. In some worlds, a failed disk also loses its records; these
    /// worlds do not crash afterwards.
    fn change_disk(&mut self) -> Checked {
        let may_lose = self.seed.is_multiple_of(4) && self.disk.fails();
        let is_anew = may_lose && self.one_in(4);
        let health = self.below(3);
        self.note(|| format!("the disk: {health}, begun again: {is_anew}"));
        self.disk.set_health(health);
        if is_anew {
            self.disk.begin_anew();
            self.handle(Input::Lost)?;
        }
        Ok(())
    }

    pub(super) fn new_app(&mut self, name: &'static str) -> App {
        let capabilities = Capabilities {
            ack: !self.one_in(10) || self.is_winding_down,
            resume: !self.one_in(3),
            max_inflight: [1, 2, 256][self.below(3)],
            supports_topics: true,
            reports: false,
            broadcasts: false,
        };
        let (is_guest, seed) = (self.one_in(4) && !self.is_winding_down, self.bytes());
        let mut app = App::new(name, is_guest, capabilities, seed);
        app.is_over = true;
        app
    }

    /// Sends one message or several, and repeats some that the store refused.
    fn send(&mut self) -> Checked {
        let index = self.below(self.apps.len());
        if self.apps[index].is_over {
            return self.begin(index);
        }
        let times = if self.one_in(10) { 8 } else { 1 };
        for _ in 0..times {
            let again =
                self.apps[index].refused.pop().filter(|_| self.rng.next_u32().is_multiple_of(2));
            let number = again.unwrap_or_else(|| self.new_message(index));
            let sent = &self.promises.sends[number];
            let (id, message) = self.apps[index].message(number, sent);
            self.note(|| format!("{} sends {number}", NAMES[index]));
            self.drive(index, session::Input::Send(id, message, 1))?;
        }
        Ok(())
    }

    fn new_message(&mut self, index: usize) -> usize {
        let topic = TOPICS[self.below(TOPICS.len())];
        let name = NAMES[self.below(NAMES.len())];
        let (to, topic) = match self.below(10) {
            0..5 => (Some(name), None),
            5..7 => (Some(name), Some(topic)),
            7..9 => (Some("*"), None),
            _ => (None, Some(topic)),
        };
        // The operator's mailbox accepts only messages without a question.
        let is_for_operator = to.is_some() && topic.is_none() && self.one_in(20);
        let to = if is_for_operator { Some(OPERATOR) } else { to };
        let number = self.promises.sends.len();
        let length = if self.one_in(10) { 900 } else { self.below(40) };
        let asks = self.one_in(4) && !is_for_operator;
        let sent = Sent {
            app: NAMES[index],
            by: (!self.apps[index].is_guest).then_some(NAMES[index]),
            to,
            topic,
            requires_ack: asks || is_for_operator || !self.one_in(3),
            timeout_ms: asks.then(|| 1 + self.below(3_000) as u64),
            ttl_ms: self.one_in(6).then(|| self.below(3_000) as u64),
            body: format!("{number} {}", "x".repeat(length)),
            read_at: None,
        };
        self.promises.sends.push(sent);
        number
    }

    /// Starts an application from scratch, without any earlier state.
    pub(super) fn begin(&mut self, index: usize) -> Checked {
        let app = self.new_app(self.apps[index].name);
        self.apps[index] = app;
        self.apps[index].is_over = false;
        self.note(|| format!("{} starts from scratch", NAMES[index]));
        self.drive(index, session::Input::Start)
    }

    /// Ends an application, in order or by a crash, and starts it again. Frames that it has sent
    /// may still arrive.
    fn end_app(&mut self) -> Checked {
        let index = self.below(self.apps.len());
        self.note(|| format!("{} ends", NAMES[index]));
        if self.one_in(3) && !self.apps[index].is_over {
            self.drive(index, session::Input::Close)?;
        }
        if let Some(id) = self.apps[index].connection.take() {
            self.abandon(id);
        }
        self.apps[index].is_over = true;
        self.begin(index)
    }

    fn subscribe(&mut self) -> Checked {
        let index = self.below(self.apps.len());
        let pattern = PATTERNS[self.below(PATTERNS.len())].to_owned();
        let input = match self.below(3) {
            0 => session::Input::Unsubscribe(pattern),
            _ => session::Input::Subscribe(pattern),
        };
        if self.apps[index].is_over { Ok(()) } else { self.drive(index, input) }
    }

    /// Acknowledges deliveries, or returns one.
    fn answer(&mut self) -> Checked {
        let poisoned = self.apps.iter().position(App::holds_poison);
        let index = poisoned.unwrap_or_else(|| self.below(self.apps.len()));
        let (count, kind) = (self.apps[index].held.len(), self.below(20));
        if let Some(reply) = self.apps[index].to_answer.pop() {
            self.note(|| format!("{} answers {}", NAMES[index], reply.delivery_id));
            return self.drive(index, session::Input::Answer(reply, 1));
        }
        if count == 0 {
            return Ok(());
        }
        if kind < 6 && poisoned.is_none() {
            return self.acknowledge_all(index);
        }
        let app = &self.apps[index];
        let poison = app.held.iter().position(|id| Some(*id) == app.poison);
        let kind = if poison.is_some() { 16 } else { kind };
        let held = poison.unwrap_or_else(|| self.below(count));
        let id = self.apps[index].held.remove(held);
        if kind < 16 {
            return self.acknowledge(index, id);
        }
        let mut nack = Nack::new(id.to_string(), NackCode::Refused, "not now");
        // If the NACK is lost, the delivery comes again.
        self.apps[index].gives_back(id);
        if kind < 19 {
            let is_poison = self.apps[index].poison == Some(id);
            nack.retry_after_ms = Some(if is_poison { 0 } else { self.below(400) as u64 });
            self.apps[index].poison.get_or_insert(id);
        } else {
            self.promises.given_up.insert(id);
        }
        self.note(|| format!("{} gives back {id}", NAMES[index]));
        self.drive(index, session::Input::Return(nack))?;
        if self.apps[index].poison == Some(id) {
            // The delivery comes again soon, so that its failures add up.
            self.exchange(index)?;
            self.wait(50)?;
            self.exchange(index)?;
        }
        Ok(())
    }

    pub(super) fn acknowledge_all(&mut self, index: usize) -> Checked {
        while let Some(id) = self.apps[index].held.pop() {
            self.acknowledge(index, id)?;
        }
        Ok(())
    }

    fn acknowledge(&mut self, index: usize, id: Uuid) -> Checked {
        self.promises.acknowledged.insert(id);
        if let Some(reply) = self.apps[index].asked.remove(&id) {
            match self.below(4) {
                0 => {}
                1 => self.apps[index].to_answer.push(reply),
                _ => return self.drive(index, session::Input::Answer(reply, 1)),
            }
        }
        self.drive(index, session::Input::Acknowledge(id.to_string()))
    }

    /// Exchanges all pending frames with an application.
    fn exchange(&mut self, index: usize) -> Checked {
        let Some(id) = self.apps[index].connection else { return Ok(()) };
        self.carry_all_in(id)?;
        let bytes = self.bed.ends.get(&id).map_or(0, End::unwritten_bytes);
        self.write_bytes(id, bytes)
    }

    /// Connects a client that does not use the library and requests a name, with a wrong token or
    /// without a token. The name may be in use.
    fn intrude(&mut self) -> Checked {
        let name = NAMES[self.below(NAMES.len())];
        let token = self.one_in(2).then_some("stolen");
        let id = self.connect(None, name)?;
        let hello = json!({"agent": name, "session": {"resume_token": token}});
        self.say(id, Header::new(Kind::Hello, "h", 1), &hello)
    }

    /// Takes the operator's mail, by a command that connects for this only.
    pub(super) fn take_mail(&mut self) -> Checked {
        let id = self.connect(None, OPERATOR)?;
        let hello = json!({"mode": "operator", "auth": {"key": OPERATOR_KEY}});
        self.say(id, Header::new(Kind::Hello, "h", 1), &hello)?;
        let ids = self.bed.router.operator_mail_ids();
        self.note(|| format!("the operator takes {ids:?}"));
        self.promises.acknowledged.extend(&ids);
        let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
        let header = Header { to: Some(RELAY), ..Header::new(Kind::Send, "t", 1) };
        self.say(id, header, &json!({"kind": "request", "body": "take", "data": {"ids": ids}}))?;
        self.disconnect(id)
    }

    /// Makes a client break the protocol. Other clients must not be affected.
    fn break_protocol(&mut self) -> Checked {
        let Some(id) = self.some_connection() else { return Ok(()) };
        let header = |kind| Header::new(kind, "l", 1);
        match self.below(8) {
            0 => self.frame(id, b"[]"),
            1 => self.frame(id, br#"{"v":1,"type":"WHAT","id":"i","ts":1,"payload":{}}"#),
            2 => self.say(id, header(Kind::Welcome), &json!({"agent": "ann"})),
            3 => self.say(id, header(Kind::Hello), &json!({"agent": "admin"})),
            4 => {
                // The client may get the name that it asked for before the router reads the frame.
                let name = self.connections[&id].name;
                let of_another =
                    |other| self.connections.get(&other).is_some_and(|it| it.name != name);
                let foreign = self.promises.in_flight_at(of_another);
                let foreign = foreign.map_or_else(|| "none".to_owned(), |id| id.to_string());
                self.say(id, header(Kind::Ack), &json!({"ack_id": foreign}))
            }
            5 => {
                let forged = Header { from: Some("root"), to: Some("ann"), ..header(Kind::Send) };
                self.say(id, forged, &json!({"body": "forged"}))
            }
            6 => {
                let request = Header { to: Some("@relay"), ..header(Kind::Send) };
                self.say(id, request, &json!({"kind": "request", "body": "tap"}))
            }
            _ => {
                let broken = Violation::new(ErrorCode::FrameTooLarge, "too large");
                self.arrive(id, Arrival::Violated(broken))
            }
        }
    }

    fn say(&mut self, id: ClientId, header: Header<'_>, payload: &Value) -> Checked {
        let mut bytes = Vec::new();
        header.append(&mut bytes, payload);
        self.frame(id, &bytes[PREFIX..])
    }

    /// Hands an input to an application's session, and carries out its outputs.
    pub(super) fn drive(&mut self, index: usize, input: session::Input<'_>) -> Checked {
        let mut out = Vec::new();
        self.apps[index].session.handle(self.bed.now, input, &mut out);
        for output in out {
            let app = &mut self.apps[index];
            match output {
                session::Output::Connect => app.dials = true,
                session::Output::Frame(bytes) => {
                    let connection = app.connection.and_then(|id| self.connections.get_mut(&id));
                    if let Some(connection) = connection {
                        connection.inbound.push_back(bytes);
                    }
                }
                session::Output::Close => {
                    if let Some(id) = app.connection.take() {
                        self.abandon(id);
                    }
                }
                session::Output::HangUp => {
                    app.dials = false;
                    if let Some(id) = app.connection.take() {
                        // Frames that the library has sent may still arrive before the end.
                        self.abandon(id);
                        if self.one_in(2) {
                            self.disconnect(id)?;
                        }
                    }
                }
                session::Output::Released(_) => {}
                session::Output::Event(event) => {
                    self.promises.outcomes.notified(&event)?;
                    app.takes(event, &self.promises)?;
                }
            }
        }
        Ok(())
    }
}
