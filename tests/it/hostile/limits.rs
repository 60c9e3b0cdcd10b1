//! At and over the limits that `wire` doesn't show, and what is somebody else's already.

use super::siege::{Pair, hello};
use crate::sandbox::{Sandbox, output};
use serde_json::{Value, json};

fn subscribe(topic: &str) -> Value {
    json!({"v": 1, "type": "SUBSCRIBE", "id": topic, "ts": 0, "topic": topic, "payload": {}})
}

#[test]
fn a_session_has_256_subscriptions() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    for number in 0..256 {
        bob.say(&subscribe(&format!("topic.{number}")));
        bob.expect("ACK");
    }
    bob.say(&subscribe("one.more"));
    bob.expect_code("NACK", "LIMIT");
    bob.say(&subscribe("topic.7"));
    assert_eq!(bob.expect("ACK")["payload"]["ack_id"], "topic.7", "what it has already is no more");
    ann.say(&json!({"v": 1, "type": "SEND", "id": "t", "ts": 0, "topic": "topic.255",
        "payload": {"body": "here"}}));
    assert_eq!(bob.expect("DELIVER")["topic"], "topic.255");
    ann.say(&json!({"v": 1, "type": "SEND", "id": "t", "ts": 0, "topic": "one.more",
        "payload": {"body": "not here"}, "payload_meta": {"requires_ack": true}}));
    assert_eq!(ann.expect("ACK")["payload"]["recipients"], 0);
    assert_eq!(bob.fence(), Vec::<Value>::new());
}

#[test]
fn a_pattern_has_256_bytes_as_well() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    for longest in ["t".repeat(256), format!("{}.>", "t".repeat(254)), "*.".repeat(127) + "xx"] {
        assert_eq!(longest.len(), 256);
        bob.say(&json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 0, "topic": longest,
            "payload": {}}));
        bob.expect("ACK");
    }
    for wrong in ["t".repeat(257), String::new(), "a..b".to_owned(), ".".repeat(256)] {
        bob.say(&json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 0, "topic": wrong,
            "payload": {}}));
        bob.expect_code("NACK", "INVALID");
    }
    assert_eq!(bob.fence(), Vec::<Value>::new());
}

/// A payload is its sender's and its recipient's affair: what is in it the daemon doesn't judge.
#[test]
fn a_label_of_any_length_arrives() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    for bytes in [256, 257, 100_000] {
        let thread = "t".repeat(bytes);
        ann.say(&json!({"v": 1, "type": "SEND", "id": "x", "ts": 0, "to": "Bob",
            "payload": {"kind": "message", "body": "b", "thread": thread}}));
        assert_eq!(bob.expect("DELIVER")["payload"]["thread"], thread);
    }
}

/// What the daemon adds to a frame may be what makes it too long.
#[test]
fn a_delivery_over_the_longest_frame_is_refused() {
    let sandbox = Sandbox::with_config("max_frame_bytes = 4096\n");
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    let send = |id: &str, bytes: usize| {
        let empty = json!({"v": 1, "type": "SEND", "id": id, "ts": 0, "to": "Bob",
            "payload": {"b": ""}});
        let body = "x".repeat(bytes - empty.to_string().len());
        json!({"v": 1, "type": "SEND", "id": id, "ts": 0, "to": "Bob", "payload": {"b": body}})
    };
    ann.say(&send("at", 4096));
    assert_eq!(ann.expect_code("NACK", "TOO_LARGE")["payload"]["ack_id"], "at");
    ann.say(&send("under", 4096 - 512));
    bob.expect("DELIVER");
    assert_eq!((ann.fence(), bob.fence()), (vec![], vec![]));
}

#[test]
fn beyond_max_clients_nobody_else_is_welcomed() {
    let sandbox = Sandbox::with_config("max_clients = 3\n");
    let mut clients: Vec<_> = ["A", "B", "C"].map(|name| sandbox.join(name)).into();
    let mut fourth = sandbox.connect();
    fourth.say(&hello("D"));
    fourth.expect_code("ERROR", "TOO_MANY_CLIENTS");
    fourth.expect_end();
    for client in &mut clients {
        assert_eq!(client.fence(), Vec::<Value>::new());
    }
    let mut leaving = clients.pop().unwrap();
    leaving.say(&json!({"v": 1, "type": "BYE", "id": "b", "ts": 0, "payload": {"reason": "r"}}));
    leaving.expect_end();
    sandbox.join("D");
}

/// Numbers as large as they get are numbers, and what is beyond them is told.
#[test]
fn the_largest_numbers() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    // On topics of their own: what rests for ever holds up what comes after it.
    for (topic, ttl) in [("a", u64::MAX), ("b", i64::MAX as u64)] {
        ann.say(&json!({"v": 1, "type": "SEND", "id": topic, "ts": 0, "to": "Bob", "topic": topic,
            "payload": {"body": "x"}, "payload_meta": {"requires_ack": true, "ttl_ms": ttl}}));
        ann.expect("ACK");
        let heard = bob.expect("DELIVER");
        bob.say(&json!({"v": 1, "type": "NACK", "id": "n", "ts": 0, "payload": {"ack_id":
            heard["id"], "code": "REFUSED", "message": "later", "retry_after_ms": u64::MAX}}));
        bob.say(
            &json!({"v": 1, "type": "ACK", "id": "a", "ts": 0, "payload": {"ack_id": "unknown",
            "seq": u64::MAX, "cumulative_seq": u64::MAX}}),
        );
    }
    for wrong in [json!(-1), json!(1.5), json!("1"), json!(1e300)] {
        ann.send("Bob", "wrong", json!({"ttl_ms": wrong}));
        ann.expect_code("NACK", "INVALID");
    }
    ann.say_text(&format!(
        r#"{{"v":1,"type":"PONG","id":"p","ts":{}e999,"payload":{{"nonce":"{}"}}}}"#,
        "9".repeat(1000),
        "n".repeat(100_000)
    ));
    assert_eq!((ann.fence(), bob.fence()), (vec![], vec![]));
}

/// Only the recipient's own deliveries count.
#[test]
fn an_acknowledgement_of_somebody_elses_delivery() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    let mut mallory = sandbox.join("Mallory");
    let id = ann.send("Bob", "for Bob", json!({"requires_ack": true}));
    ann.expect("ACK");
    let heard = bob.expect("DELIVER");
    for ack_id in [heard["id"].clone(), json!(id)] {
        let of_his = json!({"ack_id": ack_id, "seq": 1, "cumulative_seq": 1});
        let as_a_nack = json!({"ack_id": ack_id, "code": "REFUSED", "message": "I am Bob"});
        for (kind, payload) in [("ACK", of_his), ("NACK", as_a_nack)] {
            let said = json!({"v": 1, "type": kind, "id": "x", "ts": 0, "from": "Bob",
                "payload": payload});
            for stranger in [&mut mallory, &mut ann] {
                stranger.say(&said);
                assert_eq!(stranger.fence(), Vec::<Value>::new(), "without a word");
            }
        }
    }
    bob.hang_up();
    let mut bob = sandbox.connect();
    bob.hello("Bob");
    let again = bob.expect("DELIVER");
    assert_eq!((&again["id"], &again["delivery"]["attempt"]), (&heard["id"], &json!(2)));
    bob.acknowledge(&again);
    assert_eq!(bob.fence(), Vec::<Value>::new());
    assert_eq!(ann.fence(), Vec::<Value>::new());
}

/// The second says what it found, and the first goes on.
#[test]
fn two_daemons() {
    let mut sandbox = Sandbox::new();
    let mut pair = Pair::join(&sandbox);
    let same_home = sandbox.run(["up", "--foreground"]);
    let said = String::from_utf8_lossy(&same_home.stderr);
    assert_eq!(same_home.status.code(), Some(1), "{said}");
    assert!(said.contains("is already running"), "{said}");
    let mut other_home = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
    other_home.arg("--endpoint").arg(sandbox.endpoint().as_text());
    other_home.arg("--home").arg(sandbox.directory().join("other")).args(["up", "--foreground"]);
    let same_endpoint = output(other_home);
    let said = String::from_utf8_lossy(&same_endpoint.stderr);
    assert_eq!(same_endpoint.status.code(), Some(1), "{said}");
    assert!(said.contains("a daemon is already running at"), "{said}");
    pair.talk(20);
    sandbox.join("Newcomer");
    assert!(sandbox.is_up());
}
