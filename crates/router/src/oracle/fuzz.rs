//! Fuzzing of a router, with bytes as operations of clients. Each output must follow the testbed's
//! rules, memory must be bounded, and in the end the router must forget all state.

#![allow(clippy::unwrap_used, reason = "a fuzz target panics when what it checks is wrong")]

use crate::{
    ClientId, Input, Limits, Output, PeerProcess,
    oracle::{Arrival, Event, Testbed},
};
use protocol::{
    Moment, Now,
    code::{ErrorCode, Violation},
    deliver,
    envelope::{Envelope, Kind},
    frame::PREFIX,
    record::QueryResult,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
/// The most operations that are run for one input. More operations would only take longer.
const OPERATIONS_MAX: usize = 2_000;

/// The number of operations between two checks of the memory that the router counts.
const OPERATIONS_BETWEEN: usize = 50;

/// The most timer ticks after which the router must have forgotten all state.
const TICKS_MAX: usize = 10_000;

const NAMES: [&str; 8] = ["Ann", "bob", "BOB", "Carl", "dora", "e.v-e", "Ann ", "operator"];
const TOPICS: [&str; 8] = ["a", "a.b", "a.b.c", "*", "a.*", ">", "a.>", "a..b"];

fn limits() -> Limits {
    Limits {
        frame_bytes_max: 4096,
        heartbeat_ms: 1_000,
        handshake_ms: 500,
        resume_window_ms: 5_000,
        ttl_ms: 10_000,
        queue_messages_max: 16,
        queue_bytes_max: 16 << 10,
        memory_bytes_max: 64 << 10,
        clients_max: 6,
        mailbox_days: 1,
        names_max: 7,
        streams_max: 24,
        unauthenticated_max: 4,
        subscriptions_max: 3,
        dedup_max: 8,
        dedup_total_max: 32,
        answers_bytes_max: 4096,
        window_bytes: 2048,
        ..Limits::default()
    }
}

/// The most bytes of answers that one input of the router adds to a client whose unread answers are
/// at the limit.
const ANSWERS_BYTES_BEYOND: usize = 64 << 10;

/// Reads three bytes as an operation, or more where the operation has arguments.
pub fn run(bytes: &[u8]) {
    let mut world = World::new();
    let mut operations = Operations(bytes);
    for number in 1..=OPERATIONS_MAX {
        if operations.0.is_empty() || world.bed.is_stopped {
            break;
        }
        world.step(&mut operations);
        if number % OPERATIONS_BETWEEN == 0 {
            world.check_memory();
        }
    }
    world.forget_all();
}

/// The rest of the input. Beyond its end, all bytes are zero.
struct Operations<'a>(&'a [u8]);

impl<'a> Operations<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// A client behind a connection.
#[derive(Default)]
struct Peer {
    name: Option<String>,
    /// The ids and sequence numbers of the DELIVERs that the client may acknowledge.
    received: Vec<(String, u64)>,
    /// The last sequence number of each stream among first delivery attempts.
    seqs: BTreeMap<String, u64>,
    /// The answer to the client's last request.
    answer: Option<Value>,
}

struct World {
    bed: Testbed,
    peers: BTreeMap<ClientId, Peer>,
    outside_bytes: usize,
    /// Whether the store confirms no changes for now. `is_store_full` says that it has no space for
    /// messages.
    is_store_held: bool,
    is_store_full: bool,
    /// Clients whose queries the store has not answered.
    queries: Vec<ClientId>,
}

impl World {
    fn new() -> Self {
        let now = Now { monotonic: Moment(1), unix_ms: 1 << 40 };
        Self {
            bed: Testbed::new(&limits(), [7; 32], now),
            peers: BTreeMap::new(),
            outside_bytes: 0,
            is_store_held: false,
            is_store_full: false,
            queries: Vec::new(),
        }
    }

    fn step(&mut self, operations: &mut Operations<'_>) {
        let (kind, client, option) = (operations.byte(), operations.byte(), operations.byte());
        if kind % 16 == 0 || self.peers.is_empty() {
            self.connect();
        }
        let id = self.peer(client);
        match kind % 16 {
            0 | 1 => self.hello(id, option),
            2..=4 => self.send(id, option, operations.byte(), operations.byte()),
            5 => self.answer_delivery(id, option, false),
            6 => self.answer_delivery(id, option, true),
            7 => self.subscribe(id, option),
            8 => self.write(id, usize::MAX),
            9 => self.write(id, usize::from(option) * 8),
            10 => self.pass_time(option),
            11 => self.disconnect(id),
            12 => self.send_small(id, option),
            13 => {
                let json = operations.take(usize::from(option));
                self.frame(id, json);
            }
            14 => self.request(id, option),
            _ => self.disturb(id, option),
        }
    }

    fn peer(&self, client: u8) -> ClientId {
        let ids: Vec<_> = self.peers.keys().collect();
        ids.get(usize::from(client) % ids.len().max(1)).map_or(ClientId(0), |id| **id)
    }

    fn connect(&mut self) -> ClientId {
        let id = self.bed.new_end();
        self.peers.insert(id, Peer::default());
        self.handle(Input::Connected(id, Some(PeerProcess { pid: id.0 as u32 % 3, start: 0 })));
        id
    }

    fn hello(&mut self, id: ClientId, option: u8) {
        let name = NAMES[usize::from(option % 8)];
        let capabilities = match option >> 3 & 3 {
            0 => json!({}),
            1 => json!({"max_inflight": option >> 5}),
            2 => json!({"ack": option >> 5 & 1 == 0, "resume": true}),
            _ => json!({"supports_topics": option >> 5 & 1 == 0, "max_inflight": 1}),
        };
        let mut payload = json!({"agent": name, "capabilities": capabilities});
        match option >> 6 {
            2 => payload["mode"] = json!("guest"),
            3 => payload["session"] = json!({"resume_token": "stolen"}),
            _ => {}
        }
        self.send_frame(id, "HELLO", json!({"payload": payload}));
    }

    fn send(&mut self, id: ClientId, option: u8, recipient: u8, size: u8) {
        let names: Vec<_> = self.peers.values().filter_map(|peer| peer.name.clone()).collect();
        let mut members = json!({
            "id": format!("m-{}", option >> 4),
            "payload": {"kind": "message", "body": "x".repeat(usize::from(size) * 15)},
            "payload_meta": {"requires_ack": option & 1 == 1},
        });
        match recipient % 4 {
            0 => members["to"] = json!("*"),
            1 => {}
            2 => members["to"] = json!(NAMES[usize::from(recipient >> 2) % NAMES.len()]),
            _ => members["to"] = json!(names.get(usize::from(recipient >> 2) % names.len().max(1))),
        }
        if option & 2 == 2 || recipient % 4 == 1 {
            members["topic"] = json!(TOPICS[usize::from(recipient >> 2) % TOPICS.len()]);
        }
        if option & 12 == 12 {
            members["payload_meta"]["ttl_ms"] = json!(u64::from(size) * 40);
        }
        self.send_frame(id, "SEND", members);
    }

    /// Sends an ACK or NACK of a delivery, mostly as the client that received it.
    fn answer_delivery(&mut self, id: ClientId, option: u8, is_nack: bool) {
        let mut owners = self.peers.iter().filter(|(_, peer)| !peer.received.is_empty());
        let (owner, received) = match owners.find(|(other, _)| **other >= id) {
            Some((owner, peer)) => (*owner, &peer.received[..]),
            None => (id, &[][..]),
        };
        let id = if option & 0x80 == 0 { owner } else { id };
        // The index counts from the last delivery, since most earlier deliveries are settled.
        let index = received.len().saturating_sub(1 + usize::from(option & 3));
        let (ack_id, seq) =
            received.get(index).cloned().unwrap_or_else(|| ("nothing".to_owned(), 1));
        let mut payload = json!({"ack_id": ack_id, "seq": seq});
        if is_nack {
            payload = json!({"ack_id": ack_id, "code": "REFUSED", "message": "not now"});
            match option >> 4 & 3 {
                0 => {}
                1 => payload["retry_after_ms"] = json!(0),
                2 => payload["retry_after_ms"] = json!(3_000),
                _ => payload["retry_after_ms"] = json!(u64::MAX),
            }
        } else if option & 0x40 == 0x40 {
            payload["cumulative_seq"] = json!(if option & 0x20 == 0 { seq } else { u64::MAX });
        }
        self.send_frame(id, if is_nack { "NACK" } else { "ACK" }, json!({"payload": payload}));
    }

    fn subscribe(&mut self, id: ClientId, option: u8) {
        let kind = if option & 8 == 0 { "SUBSCRIBE" } else { "UNSUBSCRIBE" };
        self.send_frame(id, kind, json!({"topic": TOPICS[usize::from(option % 8)], "payload": {}}));
    }

    /// Writes at most this many bytes of the router's output to a client.
    fn write(&mut self, id: ClientId, bytes: usize) {
        let Some(end) = self.bed.ends.get(&id) else { return };
        let bytes = bytes.min(end.unwritten_bytes());
        self.bed.write(id, bytes);
        self.handle(Input::Written(id, bytes));
    }

    fn pass_time(&mut self, option: u8) {
        let due = self.bed.router.deadline();
        let ms = match option >> 6 {
            0 => u64::from(option) * 10,
            1 => due.map_or(0, |due| due.since(self.bed.now.monotonic)),
            2 => u64::from(option & 63) * 100,
            // More rarely, the system is suspended for some hours, after which most messages have
            // expired.
            _ if option >= 0xf8 => u64::from(option & 7) * 3_600_000,
            _ => u64::from(option & 63),
        };
        self.bed.advance(ms);
        // The wall clock may be set back.
        self.bed.now.unix_ms = self.bed.now.unix_ms.wrapping_sub(u64::from(option & 7) * 500);
        if self.bed.router.deadline().is_some_and(|due| due <= self.bed.now.monotonic) {
            self.handle(Input::Tick);
        }
    }

    fn disconnect(&mut self, id: ClientId) {
        if self.peers.contains_key(&id) {
            // Frames that waited are handled first, and may still be answered.
            self.arrive(id, Arrival::Ended);
            self.peers.remove(&id);
        }
    }

    fn send_small(&mut self, id: ClientId, option: u8) {
        let (kind, payload) = match option % 6 {
            0 => ("BYE", json!({"reason": "enough"})),
            1 => ("PONG", json!({"nonce": "n"})),
            2 => ("RESUME", json!({"session_id": "s-1", "streams": {"a": {"last_seq": 3}}})),
            3 => (
                "RESUME",
                json!({"session_id": "s-1", "resume_token": "stolen", "streams":
                [{"topic": "", "peer": "Ann", "last_seq": u64::MAX}]}),
            ),
            4 => ("WELCOME", json!({})),
            _ => ("PING", json!({"nonce": 7})),
        };
        self.send_frame(id, kind, json!({"payload": payload}));
    }

    fn request(&mut self, id: ClientId, option: u8) {
        let (body, data) = match option % 8 {
            0..=2 => ("status", Value::Null),
            3 => ("agents", json!({"limit": option >> 3})),
            4 => ("agents", json!({"cursor": NAMES[usize::from(option >> 3) % 8], "limit": 1})),
            5 => ("tap", Value::Null),
            6 => ("history", json!([])),
            _ if option == 247 => ("activity", json!({"activity": "waiting"})),
            _ if option & 0xc0 == 0x80 => {
                let activities = ["starting", "working", "waits-for-permission", "idle"];
                let activity = activities[usize::from(option >> 3) % 4];
                let for_ms = u64::from(option) << 56;
                ("activity", json!({"activity": activity, "source": "hooks", "for_ms": for_ms}))
            }
            _ if option & 0xc0 == 0x40 => {
                let received = self.peers.get(&id).and_then(|peer| peer.received.last());
                let received = received.map_or("nothing", |(received, _)| received);
                let state = if option & 8 == 0 { "waiting" } else { "injected" };
                ("report", json!({"id": received, "state": state, "why": "a dialog is open"}))
            }
            _ if option == 255 => ("stop", Value::Null),
            _ => ("what?", json!({})),
        };
        let mut payload = json!({"kind": "request", "body": body});
        if !data.is_null() {
            payload["data"] = data;
        }
        self.send_frame(id, "SEND", json!({"to": "@relay", "payload": payload}));
    }

    fn disturb(&mut self, id: ClientId, option: u8) {
        match option % 5 {
            4 => {
                self.is_store_held = option & 0x40 == 0x40;
                self.is_store_full = option & 0x80 == 0x80;
                self.persist();
            }
            0 => {
                let violation = Violation::new(ErrorCode::BadFrame, "no frame");
                self.arrive(id, Arrival::Violated(violation));
            }
            1 => {
                self.outside_bytes = usize::from(option) << 8;
                self.handle(Input::Outside(self.outside_bytes));
            }
            2 if option == 252 => self.handle(Input::Stop("upgrade")),
            2 => self.handle(Input::Tick),
            // Inputs about a client that is gone, which come late, or about one that never existed.
            _ => {
                let late = ClientId(u64::from(option));
                if !self.peers.contains_key(&late) {
                    self.arrive(late, Arrival::Frame((*b"{}").into()));
                    self.handle(Input::Written(late, 100));
                    self.handle(Input::Disconnected(late));
                }
            }
        }
    }

    fn send_frame(&mut self, id: ClientId, kind: &str, members: Value) {
        let mut envelope = json!({"v": 1, "type": kind, "id": "x", "ts": 1});
        let object = envelope.as_object_mut().expect("it is one");
        let Value::Object(members) = members else { unreachable!("it is one") };
        object.extend(members.into_iter().filter(|(_, value)| !value.is_null()));
        self.frame(id, envelope.to_string().as_bytes());
    }

    /// Sends a frame, unless the client's frames wait or the frame's length is not allowed.
    fn frame(&mut self, id: ClientId, json: &[u8]) {
        let is_read = self.bed.ends.get(&id).is_some_and(|end| !end.is_paused);
        if is_read && (1..=limits().frame_bytes_max).contains(&json.len()) {
            self.arrive(id, Arrival::Frame(json.into()));
        }
    }

    fn arrive(&mut self, id: ClientId, arrival: Arrival) {
        let events = self.bed.arrive(id, arrival).unwrap();
        self.carry_out(events);
    }

    fn handle(&mut self, input: Input<'_>) {
        let events = self.bed.handle(input).unwrap();
        self.carry_out(events);
    }

    /// Carries out outputs, and lets the router handle all frames.
    fn carry_out(&mut self, events: Vec<Event>) {
        self.carry_out_one(events);
        while let Some(events) = self.bed.serve().unwrap() {
            self.carry_out_one(events);
        }
    }

    fn carry_out_one(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Frame(id, frame) => self.receive(id, &frame),
                Event::Other(Output::Query(id, _)) => self.queries.push(id),
                Event::Other(Output::Reload(id)) => panic!("{id:?} is no operator"),
                Event::Other(_) => {}
            }
        }
        self.persist();
        while let Some(id) = self.queries.pop() {
            self.handle(Input::Found(id, Ok(QueryResult::default())));
        }
    }

    /// Lets the store commit all changes, unless it is held.
    fn persist(&mut self) {
        if self.is_store_held || self.bed.pending.is_empty() {
            return;
        }
        let (_, report) = self.bed.commit(self.bed.pending.len(), !self.is_store_full);
        self.handle(report);
    }

    /// Handles a frame that the router sent to a client.
    fn receive(&mut self, id: ClientId, frame: &[u8]) {
        let envelope = Envelope::read(&frame[PREFIX..]).expect("the testbed has read it");
        let peer = self.peers.get_mut(&id).expect("its end is there");
        match envelope.kind {
            Kind::Welcome => {
                let welcome: Value = serde_json::from_str(envelope.payload).expect("JSON");
                peer.name = welcome["agent"].as_str().map(str::to_owned);
            }
            Kind::Deliver => peer.deliver(&envelope),
            _ => {}
        }
    }

    /// Checks that the router counts no more memory than its limits allow.
    fn check_memory(&mut self) {
        let Some(status) = self.status() else { return };
        let counted = status["memory_bytes"].as_u64().expect("a number") as usize;
        let bytes_max = limits().memory_bytes_max
            + self.outside_bytes
            + self.peers.len() * (limits().answers_bytes_max + ANSWERS_BYTES_BEYOND);
        assert!(counted <= bytes_max, "{counted} bytes of {bytes_max}");
    }

    /// Returns the daemon's status as a guest gets it, if there is room for a guest.
    fn status(&mut self) -> Option<Value> {
        let guest = self.connect();
        self.send_frame(guest, "HELLO", json!({"payload": {"mode": "guest"}}));
        self.write(guest, usize::MAX);
        self.request(guest, 0);
        let status = self.peers.get_mut(&guest).and_then(|peer| peer.answer.take());
        self.disconnect(guest);
        status
    }

    /// Checks that nothing is left when all clients have gone and all timers have run out.
    fn forget_all(&mut self) {
        (self.is_store_held, self.is_store_full) = (false, false);
        self.persist();
        self.handle(Input::Outside(0));
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            self.disconnect(id);
        }
        let mut ticks = 0;
        while let Some(due) = self.bed.router.deadline().filter(|_| !self.bed.is_stopped) {
            self.bed.advance(due.since(self.bed.now.monotonic));
            self.handle(Input::Tick);
            ticks += 1;
            assert!(ticks < TICKS_MAX, "timers without end");
        }
        if self.bed.is_stopped {
            return;
        }
        assert!(self.bed.open.is_empty(), "lost: {:?}", self.bed.open);
        assert_eq!(self.bed.unserved(), 0, "clients with frames");
        let status = self.status().expect("there is room, and nobody stopped it");
        for count in ["memory_bytes", "messages", "streams", "agents_known", "agents_here"] {
            assert_eq!(status[count], 0, "{count}: {status}");
        }
    }
}

impl Peer {
    fn deliver(&mut self, envelope: &Envelope<'_>) {
        let from = envelope.from.as_deref().expect("a DELIVER has a sender");
        if from == "@relay" {
            let response: Value = serde_json::from_str(envelope.payload).expect("JSON");
            self.answer = Some(response["data"].clone());
            return;
        }
        let delivery = deliver::read(envelope).expect("a DELIVER says its delivery");
        let sender = delivery.sender.as_ref().map(|sender| sender.session.to_string());
        let stream = format!("{from} {sender:?} {:?}", envelope.topic);
        if delivery.attempt == 1 {
            let last = self.seqs.insert(stream, delivery.seq);
            assert!(last.is_none_or(|last| last < delivery.seq), "{last:?}, then {}", delivery.seq);
        }
        self.received.push((envelope.id.to_string(), delivery.seq));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpus() {
        testkit::corpus::run("router", super::run);
    }
}
