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

/// The winner gets all messages. The loser's token is refused, and its HELLO goes on without one:
/// it waits for the name, which the winner has.
#[test]
fn token_shown_twice_at_once_resumes_one_session() {
    let detached = DetachedDaemon::new();
    let sandbox = &detached.0;
    let mut ann = sandbox.join("Ann");
    let mut bob = sandbox.connect();
    bob.send_json(&hello(None));
    let mut welcome = bob.expect("WELCOME")["payload"].take();
    let (mut older, mut heard) = (Some(bob), BTreeSet::new());
    for round in 0..RACES {
        ann.send("Bob", &round.to_string(), json!({"requires_ack": true}));
        ann.expect("ACK");
        if round % 2 == 0 {
            // In other rounds, the winner takes over a session that is in use.
            older = None;
        }
        let mut racers = race(sandbox, &welcome["resume_token"]);
        racers.sort_by_key(|(_, answer)| answer["type"] == "ERROR");
        let [(mut winner, mut won), (mut loser, lost)] = racers;
        assert_eq!(won["type"], "WELCOME", "{won}");
        assert_eq!(lost["payload"]["code"], "RESUME_REJECTED", "{lost}");
        assert_eq!(lost["payload"]["fatal"], false, "{lost}");
        assert_eq!(won["payload"]["session_id"], welcome["session_id"], "{won}");
        welcome = won["payload"].take();
        while !heard.contains(&round.to_string()) {
            let deliver = winner.expect("DELIVER");
            winner.acknowledge(&deliver);
            heard.insert(deliver["payload"]["body"].as_str().unwrap().to_owned());
        }
        // The daemon pings the winner, who answers while it reads.
        winner.drain();
        loser.expect_code("ERROR", "NAME_IN_USE");
        drop(older.replace(winner));
    }
    assert_eq!(heard.len(), RACES, "{heard:?}");
    let stolen = "Bob: a token that was used came again";
    let log = sandbox.await_logged(stolen, RACES);
    assert_eq!(log.matches(stolen).count(), RACES, "{log}");
}
