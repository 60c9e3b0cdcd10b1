//! Peers that lie, replay, flood, or are of another version.

use crate::support::{
    host::{Host, connect},
    nats::Nats,
    until,
};
use agent_relay_nats::{batch, link::VERSION_HEADER};
use async_nats::HeaderMap;
use client::{Client, Event, Outgoing, Settings};
use protocol::secret::Secret;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The instance of the peer's bridge.
const INSTANCE: u64 = 0xe;

/// The messages with a sender that is none.
const LIES: usize = 300;

/// The messages of a flood.
const FLOOD: usize = 3000;

/// A client of NATS that makes any claims about itself.
struct Peer {
    runtime: Runtime,
    client: async_nats::Client,
    /// The number of the next frame.
    sent: u64,
}

impl Peer {
    /// A peer that has announced the host `evil` with the agent Eve.
    fn new(nats: &Nats) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async_nats::connect(nats.urls())).unwrap();
        let mut peer = Self { runtime, client, sent: 0 };
        peer.announce();
        peer
    }

    /// Announces Eve. A peer has to repeat this before it counts as silent.
    fn announce(&mut self) {
        self.beat(
            &json!({"version": 1, "host": "evil", "instance": "000000000000000e", "age_ms": 1,
            "exports": ["Eve"]}),
        );
    }

    fn beat(&mut self, beat: &Value) {
        let beat = serde_json::to_vec(beat).unwrap();
        self.publish("relay-here.evil", None, beat);
    }

    /// Publishes frames to Bob as one message.
    fn frames(&mut self, version: Option<&str>, frames: &[&[u8]]) {
        let mut bytes = batch::begin(INSTANCE, self.sent);
        for (number, frame) in (self.sent..).zip(frames) {
            batch::append(&mut bytes, number, frame);
        }
        self.sent += frames.len() as u64;
        self.publish("relay.pi.evil.bob", version, bytes);
    }

    fn send(&mut self, from: &str, id: &str, body: &str) {
        let frame = json!({"v": 1, "type": "SEND", "id": id, "ts": 0, "from": from, "to": "Bob",
            "payload": {"kind": "message", "body": body}, "payload_meta": {"requires_ack": true}});
        self.frames(Some("1"), &[&serde_json::to_vec(&frame).unwrap()]);
    }

    fn publish(&mut self, subject: &'static str, version: Option<&str>, bytes: Vec<u8>) {
        let mut headers = HeaderMap::new();
        if let Some(version) = version {
            headers.insert(VERSION_HEADER, version);
        }
        self.runtime.block_on(async {
            self.client.publish_with_headers(subject, headers, bytes.into()).await.unwrap();
            self.client.flush().await.unwrap();
        });
    }
}

fn two(nats: &Nats) -> [Host; 2] {
    let mut hosts = [Host::new("desk", &["Ann"]), Host::new("pi", &["Bob"])];
    connect(&mut hosts, &nats.urls(), &[]);
    hosts
}

/// The bodies that Bob gets, up to and including this one.
fn bodies_until(bob: &Client, last: &str) -> Vec<String> {
    let mut bodies = Vec::new();
    until(&format!("the message {last:?}"), || {
        while let Ok(event) = bob.events().try_recv() {
            if let Event::Delivered(delivery) = event {
                bob.acknowledge(&delivery.id);
                bodies.push(format!("{}: {}", delivery.from, delivery.body));
                if delivery.body == last {
                    return Some(());
                }
            }
        }
        None
    });
    bodies
}

#[test]
fn peer_that_lies_is_refused_by_name_and_harms_nobody() {
    let nats = Nats::one();
    let [desk, pi] = two(&nats);
    let (ann, bob) = (desk.join("Ann"), pi.join("Bob"));
    let mut evil = Peer::new(&nats);
    pi.bridge().line("evil is here: Eve");
    evil.frames(Some("1"), &[b"not json", b"", b"[1]"]);
    evil.publish("relay.pi.evil.bob", Some("1"), b"\xff\xff\xff\xffx".to_vec());
    evil.frames(Some("7"), &[b"{}"]);
    evil.frames(None, &[b"{}"]);
    // Each is refused to a host that has no stream.
    for index in 0..LIES {
        let from = ["Ann", "Ann@desk", "Bob", "@operator", "Eve@desk"][index % 5];
        if index % 10 == 0 {
            evil.announce();
        }
        evil.send(from, &format!("lie-{index}"), "a lie");
    }
    let body = until("the message of Eve", || {
        // The stream drops messages beyond a host's share.
        evil.announce();
        evil.send("Eve", "true-1", "as myself");
        let Ok(Event::Delivered(delivery)) = bob.events().try_recv() else { return None };
        bob.acknowledge(&delivery.id);
        Some(format!("{}: {}", delivery.from, delivery.body))
    });
    assert_eq!(body, "Eve@evil: as myself");
    ann.send(Outgoing::message("Bob@pi", "after")).unwrap();
    assert_eq!(bodies_until(&bob, "after"), ["Ann@desk: after"]);
}

#[test]
fn peer_of_another_version_is_refused_by_name() {
    let nats = Nats::one();
    let [_desk, pi] = two(&nats);
    let mut evil = Peer::new(&nats);
    evil.beat(&json!({"version": 2, "anything": []}));
    pi.bridge().line("evil is refused: it speaks version 2, this bridge version 1");
    evil.frames(Some("2"), &[b"{}"]);
    pi.bridge().line("a message in the name of evil is dropped: it is of version \"2\"");
}

#[test]
fn replayed_message_arrives_once() {
    let nats = Nats::one();
    let [desk, pi] = two(&nats);
    let (ann, bob) = (desk.join("Ann"), pi.join("Bob"));
    let mut evil = Peer::new(&nats);
    pi.bridge().line("evil is here: Eve");
    for _ in 0..5 {
        evil.send("Eve", "again", "once");
    }
    let mut bytes = batch::begin(INSTANCE, evil.sent);
    let frame = json!({"v": 1, "type": "SEND", "id": "m", "ts": 0, "from": "Eve", "to": "Bob",
        "payload": {"kind": "message", "body": "at most once"}});
    batch::append(&mut bytes, evil.sent, &serde_json::to_vec(&frame).unwrap());
    evil.sent += 1;
    for _ in 0..5 {
        evil.publish("relay.pi.evil.bob", Some("1"), bytes.clone());
    }
    evil.send("Eve", "last", "last");
    let bodies = ["Eve@evil: once", "Eve@evil: at most once", "Eve@evil: last"];
    assert_eq!(bodies_until(&bob, "last"), bodies);
    drop(ann);
}

#[test]
fn flood_of_a_peer_stops_nobody_else() {
    let nats = Nats::one();
    let [desk, pi] = two(&nats);
    let (ann, bob) = (desk.join("Ann"), pi.join("Bob"));
    let mut evil = Peer::new(&nats);
    pi.bridge().line("evil is here: Eve");
    for index in 0..FLOOD {
        evil.send("Eve", &format!("flood-{index}"), "flood");
    }
    ann.send(Outgoing::message("Bob@pi", "after")).unwrap();
    let bodies = bodies_until(&bob, "after");
    assert!(bodies.len() <= FLOOD + 1);
}

#[test]
fn messages_wait_for_room_in_a_full_stream() {
    let nats = Nats::one();
    let mut hosts = [Host::new("desk", &["Ann"]), Host::new("pi", &["Bob"])];
    crate::set_up(&nats, &["desk", "pi"], &["--max-mib", "1"]);
    connect(&mut hosts, &nats.urls(), &[]);
    let [desk, pi] = &hosts;
    let ann = desk.join("Ann");
    // Nothing leaves the stream, and the host counts as present for some seconds.
    pi.bridge().signal("STOP");
    for number in 0..40 {
        let body = format!("{number} {}", "x".repeat(64 * 1024));
        ann.send(Outgoing::message("Bob@pi", body)).unwrap();
    }
    let line = desk.bridge().line("messages to pi wait for room");
    assert!(line.contains("(its max_bytes is 1048576)"), "{line}");
    // A message to an agent that the daemon does not know would be refused.
    let bob = pi.join("Bob");
    pi.bridge().signal("CONT");
    let mut numbers = Vec::new();
    until("all messages", || {
        while let Ok(Event::Delivered(delivery)) = bob.events().try_recv() {
            bob.acknowledge(&delivery.id);
            numbers.push(delivery.body.split(' ').next().unwrap().parse::<u32>().unwrap());
        }
        (numbers.len() == 40).then_some(())
    });
    assert!(numbers.iter().copied().eq(0..40), "{numbers:?}");
    while let Ok(event) = ann.events().try_recv() {
        assert!(!matches!(event, Event::Refused { .. }), "{event:?}");
    }
}

/// Without permissions, a host may also pretend to be another one.
#[test]
fn host_that_fills_a_stream_leaves_room_for_others() {
    let nats = Nats::one();
    crate::set_up(&nats, &["pi"], &["--max-mib", "64"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(nats.urls()).await.unwrap();
        let publish = async |subject: String, bytes: usize| {
            let answer = client.request(subject, vec![b'x'; bytes].into()).await.unwrap();
            serde_json::from_slice::<Value>(&answer.payload).unwrap()
        };
        let mut refused = Value::Null;
        // Each message is for another agent, and of nearly the greatest size.
        for index in 0..80 {
            let answer = publish(format!("relay.pi.evil.x{index}"), 1_000_000).await;
            if !answer["error"].is_null() {
                refused = answer["error"]["description"].clone();
                break;
            }
        }
        assert_eq!(refused, "maximum messages per subject exceeded");
        let answer = publish("relay.pi.desk.bob".to_owned(), 1_000_000).await;
        assert!(answer["seq"].is_u64(), "{answer}");
    });
}

#[test]
fn name_that_another_bridge_has_is_refused_and_its_host_is_joined_without_it() {
    let nats = Nats::one();
    let mut hosts = [Host::new("desk", &["Ann"]), Host::new("pi", &["Bob", "Carl"])];
    let key = client::home::operator_key::read(&hosts[0].home()).unwrap();
    let secret = Secret::from_random([7; 32]);
    let other = Settings::bridge(hosts[0].endpoint(), "Bob@pi", (key, secret));
    let _other = Client::join(Settings { local: true, ..other }).unwrap();
    for host in &mut hosts {
        host.start_bridge_with(&nats.urls(), &[]);
    }
    let [desk, pi] = &hosts;
    desk.bridge().line("Bob@pi cannot join the daemon");
    until("Carl@pi among the agents", || {
        desk.command(&["agents"]).iter().any(|line| line.contains("Carl@pi")).then_some(())
    });
    let (ann, bob, carl) = (desk.join("Ann"), pi.join("Bob"), pi.join("Carl"));
    pi.bridge().line("desk is here");
    carl.send(Outgoing::message("Ann@desk", "hello")).unwrap();
    assert_eq!(bodies_until(&ann, "hello"), ["Carl@pi: hello"]);
    bob.send(Outgoing::message("Ann@desk", "hello")).unwrap();
    let why = until("a refusal", || match bob.events().try_recv() {
        Ok(Event::Refused { nack, .. }) => Some(nack.message),
        _ => None,
    });
    assert!(why.contains("no Bob@pi has joined here"), "{why}");
}

#[test]
fn second_bridge_of_a_host_ends_and_names_the_host() {
    let nats = Nats::one();
    let [desk, _pi] = two(&nats);
    let mut other = Host::new("Desk", &["Ann"]);
    other.start_bridge_with(&nats.urls(), &[]);
    other.bridge().line("another agent-relay-nats has joined as Desk");
    assert_eq!(other.bridge.as_mut().unwrap().wait().code(), Some(1));
    drop(desk);
}
