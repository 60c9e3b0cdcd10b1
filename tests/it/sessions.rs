//! Sessions through a real socket, and over the end of a daemon.

use crate::{
    raw::{Raw, session},
    sandbox::Sandbox,
};
use serde_json::{Value, json};

/// Says HELLO as an agent that comes back, with this token if there is one. Gives back WELCOME's payload.
#[track_caller]
fn join(sandbox: &Sandbox, token: Option<&Value>) -> (Raw, Value) {
    let mut bob = sandbox.connect();
    bob.say(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 1, "payload": {
        "agent": "Bob", "capabilities": {"resume": true}, "session": session(token)}}));
    let welcome = bob.expect("WELCOME")["payload"].take();
    (bob, welcome)
}

/// What a DELIVER says, and its number.
fn heard(deliver: &Value) -> (&Value, &Value) {
    (&deliver["payload"]["body"], &deliver["delivery"]["seq"])
}

#[test]
fn what_was_missed_comes_again_after_resume() {
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
    bob.say(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 1,
        "payload": {"streams": {"": {"last_seq": 1}}}}));
    let sync = bob.expect("SYNC")["payload"].take();
    let place = json!({"topic": "", "peer": "Ann", "last_seq": 1, "server_last_seq": 3});
    assert_eq!(sync, json!({"session_id": first["session_id"], "streams": [place]}));
    assert_eq!(heard(&bob.expect("DELIVER")), (&json!("two"), &json!(2)));
    assert_eq!(heard(&bob.expect("DELIVER")), (&json!("three"), &json!(3)));
}

#[test]
fn a_deliver_says_whether_its_sender_took_a_name_or_came_back_to_it() {
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
fn a_token_takes_over_and_is_used_up() {
    let sandbox = Sandbox::new();
    let (mut older, first) = join(&sandbox, None);
    let (bob, again) = join(&sandbox, Some(&first["resume_token"]));
    assert_eq!(again["session_id"], first["session_id"]);
    older.expect_code("ERROR", "SESSION_REPLACED");
    older.expect_end();
    bob.hang_up();
    let mut thief = sandbox.connect();
    thief.say(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 1,
        "payload": {"agent": "Bob", "resume_token": first["resume_token"]}}));
    assert_eq!(thief.expect_code("ERROR", "RESUME_REJECTED")["payload"]["fatal"], false);
}

#[test]
fn a_session_outlives_the_daemons_death() {
    let mut sandbox = Sandbox::new();
    let (mut bob, first) = join(&sandbox, None);
    bob.say(
        &json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 1, "topic": "build", "payload": {}}),
    );
    bob.expect("ACK");
    sandbox.kill();
    sandbox.start();
    let mut ann = sandbox.join("Ann");
    ann.say(&json!({"v": 1, "type": "SEND", "id": "m", "ts": 1, "topic": "build",
        "payload": {"body": "while Bob is away"}, "payload_meta": {"requires_ack": true}}));
    assert_eq!(ann.expect("ACK")["payload"]["recipients"], 1);
    let mut bob = sandbox.connect();
    bob.say(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 1, "payload": {
        "agent": "Bob", "resume_token": first["resume_token"],
        "streams": {"build": {"last_seq": 0}}}}));
    let welcome = bob.expect("WELCOME")["payload"].take();
    assert_eq!(welcome["session_id"], first["session_id"]);
    bob.expect("SYNC");
    assert_eq!(heard(&bob.expect("DELIVER")), (&json!("while Bob is away"), &json!(1)));
}
