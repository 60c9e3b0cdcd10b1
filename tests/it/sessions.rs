//! Sessions over a real socket, across daemons.

use crate::{
    raw::{Raw, session},
    sandbox::Sandbox,
};
use serde_json::{Value, json};

/// Sends HELLO as Bob, with a token if there is one. Returns WELCOME's payload.
#[track_caller]
fn join(sandbox: &Sandbox, token: Option<&Value>) -> (Raw, Value) {
    let mut bob = sandbox.connect();
    bob.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 1, "payload": {
        "agent": "Bob", "capabilities": {"resume": true}, "session": session(token)}}));
    let welcome = bob.expect("WELCOME")["payload"].take();
    (bob, welcome)
}

/// Returns the body and the sequence number of a DELIVER.
fn body_and_seq(deliver: &Value) -> (&Value, &Value) {
    (&deliver["payload"]["body"], &deliver["delivery"]["seq"])
}

#[test]
fn missed_messages_are_replayed_after_resume() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    let (mut bob, first) = join(&sandbox, None);
    for body in ["one", "two", "three"] {
        ann.send("Bob", body, json!({}));
        bob.expect("DELIVER");
    }
    bob.hang_up();
    let (mut bob, again) = join(&sandbox, Some(&first["resume_token"]));
    assert_eq!(again["session_id"], first["session_id"]);
    bob.send_json(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 1,
        "payload": {"streams": {"": {"last_seq": 1}}}}));
    let sync = bob.expect("SYNC")["payload"].take();
    let stream = json!({"topic": "", "peer": "Ann", "last_seq": 1, "server_last_seq": 3});
    assert_eq!(sync, json!({"session_id": first["session_id"], "streams": [stream]}));
    assert_eq!(body_and_seq(&bob.expect("DELIVER")), (&json!("two"), &json!(2)));
    assert_eq!(body_and_seq(&bob.expect("DELIVER")), (&json!("three"), &json!(3)));
}

#[test]
fn deliver_tells_a_claimed_name_from_a_resumed_one() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    let (mut bob, first) = join(&sandbox, None);
    let mut sender = |bob: &mut Raw| {
        bob.send("Ann", "hello", json!({}));
        ann.expect("DELIVER")["delivery"]["sender"].take()
    };
    let session = &first["session_id"];
    assert_eq!(sender(&mut bob), json!({"session": session, "auth": "claim"}));
    bob.hang_up();
    let (mut bob, _) = join(&sandbox, Some(&first["resume_token"]));
    assert_eq!(sender(&mut bob), json!({"session": session, "auth": "token"}));
}

#[test]
fn token_takes_over_once() {
    let sandbox = Sandbox::new();
    let (mut older, first) = join(&sandbox, None);
    let (bob, again) = join(&sandbox, Some(&first["resume_token"]));
    assert_eq!(again["session_id"], first["session_id"]);
    older.expect_code("ERROR", "SESSION_REPLACED");
    older.expect_end();
    bob.hang_up();
    let mut intruder = sandbox.connect();
    intruder.send_json(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 1,
        "payload": {"agent": "Bob", "resume_token": first["resume_token"]}}));
    assert_eq!(intruder.expect_code("ERROR", "RESUME_REJECTED")["payload"]["fatal"], false);
}

#[test]
fn session_survives_a_daemon_crash() {
    let mut sandbox = Sandbox::new();
    let (mut bob, first) = join(&sandbox, None);
    bob.send_json(
        &json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 1, "topic": "build", "payload": {}}),
    );
    bob.expect("ACK");
    sandbox.kill();
    sandbox.start();
    let mut ann = sandbox.join("Ann");
    ann.send_json(&json!({"v": 1, "type": "SEND", "id": "m", "ts": 1, "topic": "build",
        "payload": {"body": "while Bob is away"}, "payload_meta": {"requires_ack": true}}));
    assert_eq!(ann.expect("ACK")["payload"]["recipients"], 1);
    let mut bob = sandbox.connect();
    bob.send_json(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 1, "payload": {
        "agent": "Bob", "resume_token": first["resume_token"],
        "streams": {"build": {"last_seq": 0}}}}));
    let welcome = bob.expect("WELCOME")["payload"].take();
    assert_eq!(welcome["session_id"], first["session_id"]);
    bob.expect("SYNC");
    assert_eq!(body_and_seq(&bob.expect("DELIVER")), (&json!("while Bob is away"), &json!(1)));
}
