//! Channels of an operator's connection, with a client that speaks them byte by byte.

use crate::churn::Usage;
use client::{Clients, Settings};
use protocol::{
    channel::{CHANNELS_MAX, CREDIT_BYTES, Control, OWN},
    secret::Secret,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, VecDeque},
    fs,
};
use testkit::{
    raw::{Raw, session},
    sandbox::Sandbox,
    waiting::until,
};

/// An operator's connection with channels. PINGs are answered in their channel.
struct Shared {
    raw: Raw,
    sending: u32,
    arriving: u32,
    unread: VecDeque<(u32, Value)>,
    ended: BTreeSet<u32>,
    /// The bytes that the daemon has granted.
    granted: u64,
}

impl Shared {
    fn open(sandbox: &Sandbox) -> Self {
        let (raw, ended) = (sandbox.operator(), BTreeSet::new());
        Self { raw, sending: OWN, arriving: OWN, unread: VecDeque::new(), ended, granted: 0 }
    }

    fn control(&mut self, control: Control) {
        let mut bytes = Vec::new();
        control.append(&mut bytes);
        self.raw.send_bytes(&bytes);
        if let Control::Select(number) = control {
            self.sending = number;
        }
    }

    fn send(&mut self, channel: u32, envelope: &Value) {
        if self.sending != channel {
            self.control(Control::Select(channel));
        }
        self.raw.send_json(envelope);
    }

    /// Joins as an agent in a new channel. Returns WELCOME's payload.
    #[track_caller]
    fn hello(&mut self, channel: u32, name: &str, token: Option<&Value>) -> Value {
        let capabilities = json!({"ack": true, "resume": true});
        let payload =
            json!({"agent": name, "capabilities": capabilities, "session": session(token)});
        let hello = json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": payload});
        self.send(channel, &hello);
        self.expect(channel, "WELCOME")["payload"].take()
    }

    fn say(&mut self, channel: u32, id: &str, to: &str, body: &str) {
        let send = json!({"v": 1, "type": "SEND", "id": id, "ts": 0, "to": to,
            "payload": {"kind": "message", "body": body}, "payload_meta": {"requires_ack": true}});
        self.send(channel, &send);
    }

    fn acknowledge(&mut self, channel: u32, deliver: &Value) {
        let ack = json!({"v": 1, "type": "ACK", "id": "a", "ts": 0,
            "payload": {"ack_id": deliver["id"], "seq": deliver["delivery"]["seq"]}});
        self.send(channel, &ack);
    }

    /// Receives one frame. Returns false at the end of the connection.
    fn receive(&mut self) -> bool {
        let Some(content) = self.raw.receive_content() else { return false };
        match Control::parse(&content) {
            Some(Control::Select(number)) => self.arriving = number,
            Some(Control::Credit(_, bytes)) => self.granted += u64::from(bytes),
            Some(Control::End(number)) => assert!(self.ended.insert(number), "{number} ends twice"),
            None => {
                let envelope: Value = serde_json::from_slice(&content).unwrap();
                if envelope["type"] == "PING" {
                    let payload = &envelope["payload"];
                    let pong =
                        json!({"v": 1, "type": "PONG", "id": "p", "ts": 0, "payload": payload});
                    self.send(self.arriving, &pong);
                } else {
                    self.unread.push_back((self.arriving, envelope));
                }
            }
        }
        true
    }

    /// Receives the next envelope of a channel; `None` if the channel or the connection ends first.
    fn next(&mut self, channel: u32) -> Option<Value> {
        loop {
            if let Some(at) = self.unread.iter().position(|(of, _)| *of == channel) {
                return self.unread.remove(at).map(|(_, envelope)| envelope);
            }
            if self.ended.contains(&channel) || !self.receive() {
                return None;
            }
        }
    }

    #[track_caller]
    fn expect(&mut self, channel: u32, kind: &str) -> Value {
        let envelope = self.next(channel).unwrap_or_else(|| panic!("{kind} expected, not the end"));
        assert_eq!(envelope["type"], kind, "{envelope}");
        envelope
    }

    /// Expects a fatal ERROR about the connection itself, and its end.
    #[track_caller]
    fn expect_end(&mut self, code: &str) {
        let error = self.expect(OWN, "ERROR");
        assert_eq!(
            (&error["payload"]["code"], &error["payload"]["fatal"]),
            (&code.into(), &true.into())
        );
        assert_eq!(self.next(OWN), None);
    }
}

fn await_presence(sandbox: &Sandbox, name: &str, here: bool) {
    let mut operator = sandbox.operator();
    until(&format!("{name} is here: {here}"), || {
        operator.agents().iter().any(|agent| agent["name"] == name && agent["here"] == here)
    });
}

#[test]
fn clients_of_one_connection_are_clients_like_others() {
    let sandbox = Sandbox::new();
    let (mut shared, mut eve) = (Shared::open(&sandbox), sandbox.join("Eve"));
    assert_eq!(shared.hello(1, "Ann", None)["agent"], "Ann");
    shared.hello(2, "Bob", None);
    shared.say(1, "m-1", "Bob", "from Ann");
    assert_eq!(shared.expect(1, "ACK")["payload"]["ack_id"], "m-1");
    let deliver = shared.expect(2, "DELIVER");
    assert_eq!(
        (&deliver["from"], &deliver["payload"]["body"]),
        (&"Ann".into(), &"from Ann".into())
    );
    shared.acknowledge(2, &deliver);
    eve.send("Ann", "from Eve", json!({"requires_ack": true}));
    eve.expect("ACK");
    assert_eq!(shared.expect(1, "DELIVER")["payload"]["body"], "from Eve");

    shared.send(1, &json!({"v": 1, "type": "BYE", "id": "b", "ts": 0, "payload": {}}));
    assert_eq!(shared.next(1), None);
    await_presence(&sandbox, "Ann", false);
    shared.control(Control::End(1));
    // The number is not used again.
    shared.hello(3, "Ann", None);
    assert_eq!(shared.expect(3, "DELIVER")["delivery"]["attempt"], 2);
    shared.control(Control::End(2));
    assert_eq!(shared.next(2), None);
    await_presence(&sandbox, "Bob", false);
    await_presence(&sandbox, "Ann", true);
    let request = json!({"v": 1, "type": "SEND", "id": "s", "ts": 0, "to": "@relay",
        "payload": {"kind": "request", "body": "status"}});
    shared.send(OWN, &request);
    shared.expect(OWN, "DELIVER");
}

#[test]
fn channels_end_with_their_connection_and_their_sessions_resume() {
    let sandbox = Sandbox::new();
    let mut shared = Shared::open(&sandbox);
    let welcome = shared.hello(1, "Ann", None);
    shared.hello(2, "Bob", None);
    // Half a frame does not count.
    shared.raw.send_bytes(&[0, 0, 1, 0, b'{']);
    shared.raw.hang_up();
    await_presence(&sandbox, "Bob", false);
    await_presence(&sandbox, "Ann", false);
    let mut eve = sandbox.join("Eve");
    eve.send("Ann", "waits", json!({"requires_ack": true}));
    eve.expect("ACK");
    let mut shared = Shared::open(&sandbox);
    let resumed = shared.hello(1, "Ann", Some(&welcome["resume_token"]));
    assert_eq!(resumed["session_id"], welcome["session_id"]);
    assert_eq!(shared.expect(1, "DELIVER")["payload"]["body"], "waits");
}

#[test]
fn channel_that_is_not_read_stops_no_other() {
    const MESSAGES: usize = 60;
    let sandbox = Sandbox::new();
    let (mut shared, mut eve) = (Shared::open(&sandbox), sandbox.join("Eve"));
    shared.hello(1, "Ann", None);
    shared.hello(2, "Bob", None);
    let long = "x".repeat(10_000);
    for _ in 0..MESSAGES {
        eve.send("Ann", &long, json!({"requires_ack": true}));
        eve.expect("ACK");
    }
    for number in 0..MESSAGES {
        eve.send("Bob", &number.to_string(), json!({"requires_ack": true}));
        eve.expect("ACK");
        let deliver = shared.expect(2, "DELIVER");
        shared.acknowledge(2, &deliver);
    }
    let bytes = |shared: &Shared| -> usize {
        shared.unread.iter().map(|(_, envelope)| envelope.to_string().len()).sum()
    };
    let before = bytes(&shared);
    assert!((CREDIT_BYTES / 2..2 * CREDIT_BYTES).contains(&before), "{before} bytes of Ann's");
    // Each grant lets more come.
    for _ in 0..MESSAGES {
        let deliver = shared.expect(1, "DELIVER");
        shared.control(Control::Credit(1, 12_000));
        shared.acknowledge(1, &deliver);
    }
}

#[test]
fn daemon_grants_credit_for_handled_bytes() {
    let sandbox = Sandbox::new();
    let mut shared = Shared::open(&sandbox);
    shared.hello(1, "Ann", None);
    let body = "x".repeat(CREDIT_BYTES / 2);
    for number in 0..20 {
        shared.say(1, &format!("m-{number}"), "Ann", &body);
        shared.expect(1, "ACK");
        let deliver = shared.expect(1, "DELIVER");
        shared.acknowledge(1, &deliver);
        shared.control(Control::Credit(1, CREDIT_BYTES as u32));
    }
    assert!(shared.granted > 18 * CREDIT_BYTES as u64 / 2, "{} bytes", shared.granted);
}

#[test]
fn channels_that_are_not_open_end_the_connection() {
    let sandbox = Sandbox::new();
    let (select, end) = (Control::Select, Control::End);
    let cases: [&[Control]; 6] = [
        &[select(2)],
        &[select(1), select(3)],
        &[Control::Credit(1, 1)],
        &[end(1)],
        &[select(1), end(1), end(1)],
        &[select(1), end(1), select(OWN), select(1)],
    ];
    for controls in cases {
        let mut shared = Shared::open(&sandbox);
        controls.iter().for_each(|control| shared.control(*control));
        shared.expect_end("BAD_FRAME");
    }
    // The frames after an END need another SELECT.
    let mut shared = Shared::open(&sandbox);
    shared.control(select(1));
    shared.control(end(1));
    shared.raw.send_json(&json!({}));
    shared.expect_end("BAD_FRAME");
}

#[test]
fn number_of_channels_is_bounded() {
    const HANDSHAKES_MAX: usize = 256;
    let sandbox = Sandbox::new();
    let mut shared = Shared::open(&sandbox);
    for number in 1..=CHANNELS_MAX {
        shared.control(Control::Select(number as u32));
        // Of channels without a handshake, the oldest give way.
        while number - shared.ended.len() > HANDSHAKES_MAX {
            assert!(shared.receive(), "the connection ends at channel {number}");
        }
    }
    shared.control(Control::Select(CHANNELS_MAX as u32 + 1));
    shared.expect_end("TOO_MANY_CLIENTS");
    let mut shared = Shared::open(&sandbox);
    shared.hello(1, "Ann", None);
}

#[test]
fn violation_in_a_channel_ends_that_channel() {
    let sandbox = Sandbox::new();
    let mut shared = Shared::open(&sandbox);
    shared.hello(1, "Ann", None);
    shared.hello(2, "Bob", None);
    shared.control(Control::Select(1));
    shared.raw.send_text("\u{1}\u{0}");
    assert_eq!(shared.expect(1, "ERROR")["payload"]["code"], "BAD_FRAME");
    assert_eq!(shared.next(1), None);
    // Frames in flight are ignored.
    shared.say(1, "m-1", "Bob", "too late");
    shared.say(2, "m-2", "Bob", "to myself");
    assert_eq!(shared.expect(2, "ACK")["payload"]["ack_id"], "m-2");
    assert_eq!(shared.expect(2, "DELIVER")["payload"]["body"], "to myself");
}

#[test]
fn only_operators_have_channels() {
    let sandbox = Sandbox::new();
    let mut select = Vec::new();
    Control::Select(1).append(&mut select);
    let mut ann = sandbox.join("Ann");
    ann.send_bytes(&select);
    ann.expect_code("ERROR", "BAD_FRAME");
    ann.expect_end();
    let mut stranger = sandbox.connect();
    stranger.send_bytes(&select);
    stranger.expect_code("ERROR", "BAD_FRAME");
    stranger.expect_end();
}

#[test]
fn clients_in_channels_get_bye_when_the_daemon_stops() {
    let sandbox = Sandbox::new();
    let mut shared = Shared::open(&sandbox);
    (1..=3).for_each(|number| drop(shared.hello(number, &format!("Agent{number}"), None)));
    let stopping = std::thread::scope(|scope| {
        let down = scope.spawn(|| sandbox.run(["down"]));
        for channel in [1, 2, 3, OWN] {
            shared.expect(channel, "BYE");
            assert_eq!(shared.next(channel), None);
        }
        down.join().unwrap()
    });
    assert!(stopping.status.success(), "{stopping:?}");
}

#[test]
fn hundreds_of_agents_of_other_machines_take_no_threads() {
    const HOSTS: usize = 10;
    const AGENTS: usize = 20;
    let mut sandbox = Sandbox::new();
    let key = || {
        let key = fs::read_to_string(sandbox.home().join("operator.key")).unwrap();
        Secret::stated(key.trim_end())
    };
    let endpoint = sandbox.endpoint().as_text().to_owned();
    let operator = Settings { local: true, ..Settings::operator(&endpoint, key()) };
    let threads = |sandbox: &Sandbox| Usage::of(sandbox.daemon_pid()).threads;
    let (before, mut clients) = (threads(&sandbox), Clients::new(operator));
    for number in 0..HOSTS * AGENTS {
        let name = format!("Agent{}@host{}", number % AGENTS, number / AGENTS);
        let bridge = Secret::stated(&"b".repeat(64));
        let settings = Settings::bridge(&endpoint, name, (key(), bridge));
        clients.join(Settings { local: true, ..settings }).unwrap();
    }
    let more = threads(&sandbox).zip(before).map(|(now, before)| now.saturating_sub(before));
    // The connection's reader, and a writer if a write of the system was once short.
    assert!(more.is_none_or(|more| more <= 2), "{more:?} threads more");
    // After the daemon's end, all come back.
    sandbox.kill();
    sandbox.start();
    until("all are here", || {
        clients.work();
        while clients.next_event().is_some() {}
        let agents = String::from_utf8(sandbox.run(["agents", "--json"]).stdout).unwrap();
        let is_back = |line: &&str| line.contains("@host") && line.contains(r#""here":true"#);
        agents.lines().filter(is_back).count() == HOSTS * AGENTS
    });
}
