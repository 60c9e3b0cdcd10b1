//! The ten gaps that version 1.0 of the protocol lists, each closed: one test for each.
//!
//! Details have tests of their own.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use testkit::{raw::Raw, sandbox::Sandbox, waiting::output};

/// Publishes to a topic with `requires_ack`. Returns the number of recipients.
fn publish(raw: &mut Raw, topic: &str, body: &str) -> Value {
    raw.send_json(&json!({"v": 1, "type": "SEND", "id": body, "ts": 0, "topic": topic,
        "payload": {"kind": "message", "body": body}, "payload_meta": {"requires_ack": true}}));
    raw.expect("ACK")["payload"]["recipients"].take()
}

fn subscribe(raw: &mut Raw, pattern: &str) {
    raw.send_json(
        &json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 0, "topic": pattern, "payload": {}}),
    );
    raw.expect("ACK");
}

/// Returns the bodies of all messages that are deliverable now.
fn bodies(raw: &mut Raw) -> Vec<String> {
    let received = raw.drain();
    received
        .iter()
        .map(|envelope| envelope["payload"]["body"].as_str().unwrap().to_owned())
        .collect()
}

/// Sends HELLO as Bob with a token. Returns the first answer.
fn hello_as_bob(sandbox: &Sandbox, token: &Value) -> (Raw, Value) {
    let mut bob = sandbox.connect();
    bob.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {
        "agent": "Bob", "capabilities": {"resume": true}, "session": {"resume_token": token}}}));
    let first = bob.receive().expect("an answer");
    (bob, first)
}

#[test]
fn point_1_full_queue_answers_busy_and_loses_nothing() {
    let sandbox = Sandbox::with_config("queue_max_messages = 10\n");
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    let mut accepted = Vec::new();
    for number in 0..20 {
        let body = format!("{number}");
        ann.send("Bob", &body, json!({"requires_ack": true}));
        let answer = ann.receive().unwrap();
        match answer["type"].as_str() {
            Some("ACK") => accepted.push(body),
            _ => {
                assert_eq!(answer["type"], "BUSY", "{answer}");
                assert!(answer["payload"]["retry_after_ms"].as_u64() >= Some(50), "{answer}");
                assert!(answer["payload"]["queue_depth"].as_u64() >= Some(5), "{answer}");
            }
        }
    }
    assert_eq!(accepted.len(), 5, "one sender has half of a queue");
    assert_eq!(bodies(&mut bob), accepted, "what was accepted arrives, what was not doesn't");
}

#[test]
fn point_2_token_is_valid_once_for_its_name_within_the_window() {
    let sandbox = Sandbox::new();
    let code = |received: &Value| received["payload"]["code"].clone();
    let mut bob = sandbox.join("Bob");
    drop(bob.drain());
    bob.hang_up();
    let (mut bob, fresh) = hello_as_bob(&sandbox, &json!("0".repeat(64)));
    assert_eq!(code(&fresh), "RESUME_REJECTED", "one that was made up");
    let first = bob.expect("WELCOME")["payload"].take();
    let mut ann = sandbox.connect();
    ann.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {
        "agent": "Ann", "session": {"resume_token": first["resume_token"]}}}));
    assert_eq!(code(&ann.expect("ERROR")), "RESUME_REJECTED", "another's");
    bob.hang_up();
    let (mut bob, second) = hello_as_bob(&sandbox, &first["resume_token"]);
    assert_eq!(
        second["payload"]["session_id"], first["session_id"],
        "shown elsewhere, not used up"
    );
    assert_ne!(second["payload"]["resume_token"], first["resume_token"]);
    // With the PONG that this sends, the token is used up.
    drop(bob.drain());
    // The PONG followed that fence.
    drop(bob.drain());
    bob.hang_up();
    let (mut bob, spent) = hello_as_bob(&sandbox, &first["resume_token"]);
    assert_eq!(code(&spent), "RESUME_REJECTED", "a used one");
    bob.expect("WELCOME");

    let sandbox = Sandbox::with_config("resume_window_ms = 300\n");
    let mut bob = sandbox.connect();
    let last = bob.hello("Bob");
    bob.hang_up();
    testkit::waiting::until("the window is over", || {
        let mut asker = sandbox.join("Asker");
        let away = asker.agents().into_iter().find(|agent| agent["name"] == "Bob").unwrap();
        asker.leave();
        let since = away["since"].as_u64().unwrap();
        away["here"] == false && platform::clock::unix_ms() > since + 400
    });
    let (_, late) = hello_as_bob(&sandbox, &last["resume_token"]);
    assert_eq!(code(&late), "RESUME_REJECTED", "one that is too old");
}

#[test]
fn point_3_every_refusal_has_a_code_and_a_sentence() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    let mut codes = BTreeSet::new();
    for (header, meta) in [
        (json!({"to": "Nobody"}), json!({})),
        (json!({"to": "not a name"}), json!({})),
        (json!({"to": "Nobody", "from": "Bob"}), json!({})),
        (json!({"topic": "a.*"}), json!({})),
        (json!({"to": "Nobody"}), json!({"ttl_ms": "soon"})),
    ] {
        let mut send = json!({"v": 1, "type": "SEND", "id": "m", "ts": 0,
            "payload": {"body": "?"}, "payload_meta": meta});
        send.as_object_mut().unwrap().extend(header.as_object().unwrap().clone());
        ann.send_json(&send);
        let nack = ann.expect("NACK");
        assert!(nack["payload"]["message"].as_str().unwrap().len() > 8, "{nack}");
        codes.insert(nack["payload"]["code"].as_str().unwrap().to_owned());
    }
    let wanted = ["FORBIDDEN", "INVALID", "UNKNOWN_AGENT"].map(str::to_owned);
    assert_eq!(codes, BTreeSet::from(wanted));
}

#[test]
fn point_4_delivery_is_at_least_once_only_with_requires_ack() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    ann.send("Bob", "at least once", json!({"requires_ack": true}));
    assert_eq!(ann.expect("ACK")["payload"]["state"], "accepted");
    ann.send("Bob", "at most once", json!({}));
    let (at_least_once, at_most_once) = (bob.expect("DELIVER"), bob.expect("DELIVER"));
    assert_eq!(at_least_once["delivery"]["requires_ack"], true);
    assert_eq!(at_most_once["delivery"].get("requires_ack"), None);
    assert_eq!(ann.drain(), Vec::<Value>::new(), "no reply means taken");
    bob.hang_up();
    let mut bob = sandbox.join("Bob");
    let second = bob.expect("DELIVER");
    assert_eq!((&second["id"], &second["delivery"]["attempt"]), (&at_least_once["id"], &json!(2)));
    assert_eq!(bob.drain(), Vec::<Value>::new());
    bob.acknowledge(&second);
    drop(bob.drain());
    bob.hang_up();
    let mut bob = sandbox.join("Bob");
    assert_eq!(bob.drain(), Vec::<Value>::new(), "it was acknowledged");
    bob.leave();
    ann.send("Bob", "nobody is here for it", json!({}));
    ann.expect_code("NACK", "AGENT_OFFLINE");
}

#[test]
fn point_5_topics_have_wildcards_and_subscriptions_end_with_the_session() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob, mut cid) =
        (sandbox.join("Ann"), sandbox.join("Bob"), sandbox.join("Cid"));
    subscribe(&mut bob, "build.*");
    subscribe(&mut bob, "build.>");
    subscribe(&mut cid, "build");
    assert_eq!(publish(&mut ann, "build.linux", "1"), 1, "two patterns, one delivery");
    assert_eq!(publish(&mut ann, "build.linux.arm", "2"), 1);
    assert_eq!(publish(&mut ann, "build", "3"), 1);
    assert_eq!(bodies(&mut bob), ["1", "2"]);
    assert_eq!(bodies(&mut cid), ["3"]);
    bob.leave();
    assert_eq!(publish(&mut ann, "build.linux", "4"), 0, "gone with the session");
}

#[test]
fn point_6_messages_of_one_sender_arrive_in_order() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob, mut cid) =
        (sandbox.join("Ann"), sandbox.join("Bob"), sandbox.join("Cid"));
    for number in 0..30 {
        let to = ["*", "Bob", "Cid"][number % 3];
        ann.send(to, &number.to_string(), json!({"requires_ack": number % 2 == 0}));
    }
    for (raw, own) in [(&mut bob, 1), (&mut cid, 2)] {
        for wanted in (0..30).filter(|number| number % 3 == 0 || number % 3 == own) {
            assert_eq!(raw.expect("DELIVER")["payload"]["body"], wanted.to_string());
        }
    }
}

#[test]
fn point_7_sender_name_cannot_be_forged() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    ann.send_json(&json!({"v": 1, "type": "SEND", "id": "m", "ts": 0, "from": "Cid", "to": "Bob",
        "payload": {"body": "it is me"}}));
    ann.expect_code("NACK", "FORBIDDEN");
    let mut intruder = sandbox.connect();
    intruder.send_json(
        &json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {"agent": "Ann"}}),
    );
    drop(ann.drain());
    intruder.expect_code("ERROR", "NAME_IN_USE");
    intruder.expect_end();
    ann.send("Bob", "it is me", json!({}));
    let received = bob.expect("DELIVER");
    assert_eq!(
        (&received["from"], &received["delivery"]["sender"]["auth"]),
        (&json!("Ann"), &json!("claim"))
    );
}

#[test]
fn point_8_quoted_message_is_not_sent() {
    let sandbox = Sandbox::empty();
    let recording = sandbox.directory().join("recording");
    let screen = "Say it like this:\r\n```\r\n->relay:Bob <<<\r\nan example>>>\r\n```\r\n\
                  grep: ->relay:Bob <<< quoted>>>\r\n    ->relay:Bob <<< deep>>>\r\n\
                  ->relay:Bob <<<\r\nmeant>>>\r\nend\r\n";
    std::fs::write(&recording, screen).unwrap();
    let mut extract = sandbox.program(env!("CARGO_BIN_EXE_agent-relay-wrap"));
    extract.args(["extract", "--cols=80"]).arg(&recording);
    let extracted = output(extract);
    let printed = String::from_utf8_lossy(&extracted.stdout).into_owned();
    assert_eq!(printed.trim_end(), r#"{"body":"meant","to":"Bob"}"#, "{extracted:?}");
}

#[test]
fn point_9_question_has_one_answer_or_times_out() {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    let sync = |ms: u64| json!({"correlationId": "c", "timeoutMs": ms, "blocking": true});
    let question = ann.send("Bob", "Which port?", json!({"sync": sync(50_000)}));
    assert_eq!(ann.expect("ACK")["payload"]["state"], "accepted", "requires_ack is implied");
    let deliver = bob.expect("DELIVER");
    assert_eq!(deliver["payload_meta"]["sync"], sync(50_000));
    bob.acknowledge(&deliver);
    for data in [r#"{"port": 8080,"n":1.50}"#, "2"] {
        bob.send_text(&format!(
            r#"{{"v":1,"type":"ACK","id":"x","ts":0,"payload":{{"ack_id":{},"correlationId":"c","response":true,"responseData":{data}}}}}"#,
            deliver["id"]
        ));
    }
    let answer = ann.receive_text().unwrap();
    assert!(
        answer.contains(r#""responseData":{"port": 8080,"n":1.50}"#),
        "byte for byte: {answer}"
    );
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((&answer["type"], &answer["from"]), (&json!("ACK"), &json!("Bob")));
    let ids = |envelope: &Value| {
        (envelope["payload"]["ack_id"].clone(), envelope["payload"]["correlationId"].clone())
    };
    assert_eq!(ids(&answer), (json!(question), json!("c")));
    drop(bob.drain());
    assert_eq!(ann.drain(), Vec::<Value>::new(), "one answer counts");

    let question = ann.send("Bob", "And now?", json!({"sync": sync(100)}));
    ann.expect("ACK");
    let timeout = ann.expect_code("NACK", "SYNC_TIMEOUT");
    assert_eq!(ids(&timeout), (json!(question), json!("c")));
    assert_eq!(timeout["payload"]["to"], "Bob");
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "And now?", "the delivery stands");
}

#[test]
fn point_10_deliveries_in_flight_are_bounded_by_max_inflight() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    let mut bob = sandbox.connect();
    bob.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {
        "agent": "Bob", "capabilities": {"max_inflight": 2}}}));
    assert_eq!(bob.expect("WELCOME")["payload"]["capabilities"]["max_inflight"], 2);
    for number in 0..5 {
        ann.send("Bob", &number.to_string(), json!({"requires_ack": true}));
        ann.expect("ACK");
    }
    let first = bob.drain();
    assert_eq!(first.len(), 2, "{first:?}");
    bob.acknowledge(&first[0]);
    let next = bob.drain();
    assert_eq!(next.len(), 1, "{next:?}");
    assert_eq!(next[0]["payload"]["body"], "2");
}
