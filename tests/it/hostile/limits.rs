//! Limits that `wire` does not test, and uses of what belongs to another client.

use super::attack::{Pair, hello};
use crate::sandbox::{Sandbox, output};
use serde_json::{Value, json};

fn subscribe(topic: &str) -> Value {
    json!({"v": 1, "type": "SUBSCRIBE", "id": topic, "ts": 0, "topic": topic, "payload": {}})
}

#[test]
fn session_has_at_most_256_subscriptions() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    for number in 0..256 {
        bob.send_json(&subscribe(&format!("topic.{number}")));
        bob.expect("ACK");
    }
    bob.send_json(&subscribe("one.more"));
    bob.expect_code("NACK", "LIMIT");
    bob.send_json(&subscribe("topic.7"));
    assert_eq!(
        bob.expect("ACK")["payload"]["ack_id"],
        "topic.7",
        "a repeated subscription does not count"
    );
    ann.send_json(&json!({"v": 1, "type": "SEND", "id": "t", "ts": 0, "topic": "topic.255",
        "payload": {"body": "here"}}));
    assert_eq!(bob.expect("DELIVER")["topic"], "topic.255");
    ann.send_json(&json!({"v": 1, "type": "SEND", "id": "t", "ts": 0, "topic": "one.more",
        "payload": {"body": "not here"}, "payload_meta": {"requires_ack": true}}));
    assert_eq!(ann.expect("ACK")["payload"]["recipients"], 0);
    assert_eq!(bob.drain(), Vec::<Value>::new());
}

#[test]
fn pattern_has_at_most_256_bytes() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    for longest in ["t".repeat(256), format!("{}.>", "t".repeat(254)), "*.".repeat(127) + "xx"] {
        assert_eq!(longest.len(), 256);
        bob.send_json(&json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 0, "topic": longest,
            "payload": {}}));
        bob.expect("ACK");
    }
    for wrong in ["t".repeat(257), String::new(), "a..b".to_owned(), ".".repeat(256)] {
        bob.send_json(&json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 0, "topic": wrong,
            "payload": {}}));
        bob.expect_code("NACK", "INVALID");
    }
    assert_eq!(bob.drain(), Vec::<Value>::new());
}

/// The daemon does not check the content of payloads.
#[test]
fn label_of_any_length_arrives() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    for bytes in [256, 257, 100_000] {
        let thread = "t".repeat(bytes);
        ann.send_json(&json!({"v": 1, "type": "SEND", "id": "x", "ts": 0, "to": "Bob",
            "payload": {"kind": "message", "body": "b", "thread": thread}}));
        assert_eq!(bob.expect("DELIVER")["payload"]["thread"], thread);
    }
}

#[test]
fn client_beyond_max_clients_is_refused() {
    let sandbox = Sandbox::with_config("max_clients = 3\n");
    let mut clients: Vec<_> = ["A", "B", "C"].map(|name| sandbox.join(name)).into();
    let mut fourth = sandbox.connect();
    fourth.send_json(&hello("D"));
    fourth.expect_code("ERROR", "TOO_MANY_CLIENTS");
    fourth.expect_end();
    for client in &mut clients {
        assert_eq!(client.drain(), Vec::<Value>::new());
    }
    let mut leaving = clients.pop().unwrap();
    leaving
        .send_json(&json!({"v": 1, "type": "BYE", "id": "b", "ts": 0, "payload": {"reason": "r"}}));
    leaving.expect_end();
    sandbox.join("D");
}

#[test]
fn largest_numbers_are_accepted_and_larger_ones_refused() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    // Each has a topic of its own, since a message that waits forever delays its successors.
    for (topic, ttl) in [("a", u64::MAX), ("b", i64::MAX as u64)] {
        ann.send_json(
            &json!({"v": 1, "type": "SEND", "id": topic, "ts": 0, "to": "Bob", "topic": topic,
            "payload": {"body": "x"}, "payload_meta": {"requires_ack": true, "ttl_ms": ttl}}),
        );
        ann.expect("ACK");
        let deliver = bob.expect("DELIVER");
        bob.send_json(&json!({"v": 1, "type": "NACK", "id": "n", "ts": 0, "payload": {"ack_id":
            deliver["id"], "code": "REFUSED", "message": "later", "retry_after_ms": u64::MAX}}));
        bob.send_json(
            &json!({"v": 1, "type": "ACK", "id": "a", "ts": 0, "payload": {"ack_id": "unknown",
            "seq": u64::MAX, "cumulative_seq": u64::MAX}}),
        );
    }
    for wrong in [json!(-1), json!(1.5), json!("1"), json!(1e300)] {
        ann.send("Bob", "wrong", json!({"ttl_ms": wrong}));
        ann.expect_code("NACK", "INVALID");
    }
    ann.send_text(&format!(
        r#"{{"v":1,"type":"PONG","id":"p","ts":{}e999,"payload":{{"nonce":"{}"}}}}"#,
        "9".repeat(1000),
        "n".repeat(100_000)
    ));
    assert_eq!((ann.drain(), bob.drain()), (vec![], vec![]));
}

#[test]
fn acknowledgement_of_a_foreign_delivery_is_ignored() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    let mut mallory = sandbox.join("Mallory");
    let id = ann.send("Bob", "for Bob", json!({"requires_ack": true}));
    ann.expect("ACK");
    let deliver = bob.expect("DELIVER");
    for ack_id in [deliver["id"].clone(), json!(id)] {
        let ack = json!({"ack_id": ack_id, "seq": 1, "cumulative_seq": 1});
        let nack = json!({"ack_id": ack_id, "code": "REFUSED", "message": "I am Bob"});
        for (kind, payload) in [("ACK", ack), ("NACK", nack)] {
            let forged = json!({"v": 1, "type": kind, "id": "x", "ts": 0, "from": "Bob",
                "payload": payload});
            for client in [&mut mallory, &mut ann] {
                client.send_json(&forged);
                assert_eq!(client.drain(), Vec::<Value>::new(), "no answer");
            }
        }
    }
    bob.hang_up();
    let mut bob = sandbox.connect();
    bob.hello("Bob");
    let redelivered = bob.expect("DELIVER");
    assert_eq!(
        (&redelivered["id"], &redelivered["delivery"]["attempt"]),
        (&deliver["id"], &json!(2))
    );
    bob.acknowledge(&redelivered);
    assert_eq!(bob.drain(), Vec::<Value>::new());
    assert_eq!(ann.drain(), Vec::<Value>::new());
}

#[test]
fn second_daemon_fails_and_the_first_continues() {
    let mut sandbox = Sandbox::new();
    let mut pair = Pair::join(&sandbox);
    let same_home = sandbox.run(["up", "--foreground"]);
    let printed = String::from_utf8_lossy(&same_home.stderr);
    assert_eq!(same_home.status.code(), Some(1), "{printed}");
    assert!(printed.contains("is already running"), "{printed}");
    let mut other_home = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
    other_home.arg("--endpoint").arg(sandbox.endpoint().as_text());
    other_home.arg("--home").arg(sandbox.directory().join("other")).args(["up", "--foreground"]);
    let same_endpoint = output(other_home);
    let printed = String::from_utf8_lossy(&same_endpoint.stderr);
    assert_eq!(same_endpoint.status.code(), Some(1), "{printed}");
    assert!(printed.contains("a daemon is already running at"), "{printed}");
    pair.talk(20);
    sandbox.join("Newcomer");
    assert!(sandbox.is_up());
}
