//! The largest values of members, and acknowledgements of another client's deliveries.

use serde_json::{Value, json};
use testkit::sandbox::Sandbox;

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
fn largest_numbers_are_accepted_and_larger_ones_refused() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    // Each message has a different topic, since a message that waits forever delays its successors.
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
