//! Two clients that show the same token at the same time.

use crate::upgrade::DetachedDaemon;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Barrier, thread};
use testkit::{
    raw::{Raw, session},
    sandbox::Sandbox,
};

const RACES: usize = 20;

fn hello(token: Option<&Value>) -> Value {
    json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {"agent": "Bob",
        "capabilities": {"resume": true}, "session": session(token)}})
}

/// Shows the token on two connections at once. Returns both, each with its answer.
fn race(sandbox: &Sandbox, token: &Value) -> [(Raw, Value); 2] {
    let start = Barrier::new(2);
    let run = || {
        let mut racer = sandbox.connect();
        start.wait();
        racer.send_json(&hello(Some(token)));
        let answer = racer.receive().expect("an answer");
        (racer, answer)
    };
    thread::scope(|scope| {
        let other = scope.spawn(run);
        [run(), other.join().unwrap()]
    })
}

/// Reads until the daemon has handled everything that a racer sent, and acknowledges the messages.
/// Returns their bodies, or true if the racer's session was taken over.
fn read_on(racer: &mut Raw) -> (BTreeSet<String>, bool) {
    racer.try_send_json(&json!({"v": 1, "type": "SEND", "id": "fence", "ts": 0, "to": "@relay",
        "payload": {"kind": "request", "body": "status"}}));
    let mut delivers: Vec<Value> = Vec::new();
    loop {
        let envelope = racer.receive().expect("an answer, or ERROR");
        match envelope["type"].as_str() {
            Some("ERROR") => {
                assert_eq!(envelope["payload"]["code"], "SESSION_REPLACED", "{envelope}");
                return (BTreeSet::new(), true);
            }
            _ if envelope["payload_meta"]["replyTo"] == "fence" => break,
            Some("DELIVER") => delivers.push(envelope),
            _ => panic!("{envelope}"),
        }
    }
    delivers.iter().for_each(|deliver| racer.acknowledge(deliver));
    let body = |deliver: &Value| deliver["payload"]["body"].as_str().unwrap().to_owned();
    (delivers.iter().map(body).collect(), false)
}

/// The token holds until one of them proves that it got its WELCOME, so both resume the session,
/// one after the other. The later one has the session then, and the token is used up.
#[test]
fn token_shown_twice_at_once_resumes_one_session() {
    let detached = DetachedDaemon::new();
    let sandbox = &detached.0;
    let mut ann = sandbox.join("Ann");
    let mut bob = sandbox.connect();
    bob.send_json(&hello(None));
    let mut welcome = bob.expect("WELCOME")["payload"].take();
    let mut older = Some(bob);
    for round in 0..RACES {
        ann.send("Bob", &round.to_string(), json!({"requires_ack": true}));
        ann.expect("ACK");
        if round % 2 == 0 {
            // In other rounds, the racers take over a session that is in use.
            older = None;
        }
        let token = welcome["resume_token"].take();
        let mut racers = race(sandbox, &token).map(|(mut racer, answer)| {
            assert_eq!(answer["type"], "WELCOME", "{answer}");
            assert_eq!(answer["payload"]["session_id"], welcome["session_id"], "{answer}");
            let (heard, is_replaced) = read_on(&mut racer);
            (racer, answer, heard, is_replaced)
        });
        racers.sort_by_key(|(.., is_replaced)| *is_replaced);
        let [(mut winner, mut won, heard, false), (.., true)] = racers else {
            panic!("one of them has the session")
        };
        assert!(heard.contains(&round.to_string()), "{heard:?}");
        welcome = won["payload"].take();
        // The winner's proof followed the fence of `read_on`.
        winner.drain();
        let mut thief = sandbox.connect();
        thief.send_json(&hello(Some(&token)));
        thief.expect_code("ERROR", "RESUME_REJECTED");
        // The daemon pings the winner, who answers while it reads.
        winner.drain();
        thief.expect_code("ERROR", "NAME_IN_USE");
        drop(older.replace(winner));
    }
    let stolen = "Bob: a token that was used came again";
    let log = sandbox.await_logged(stolen, RACES);
    assert_eq!(log.matches(stolen).count(), RACES, "{log}");
}
