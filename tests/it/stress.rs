//! Frames stay whole and in order with any pattern of reads.
//!
//! A routing thread and a client's writer thread write to one stream in turn. A reader that
//! stalls at random moments makes them alternate often.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, HashMap},
    thread,
    time::Duration,
};
use testkit::{sandbox::Sandbox, waiting::output};

const SENDERS: usize = 3;
const MESSAGES: usize = 1_500;

/// Bodies of very different lengths, determined by their number.
fn body(number: usize) -> String {
    let length = [0, 10, 300, 3_000, 40_000][number * 7 % 11 % 5];
    char::from(b'a' + (number % 26) as u8).to_string().repeat(length)
}

/// Sends all messages, and waits after BUSY, so that nothing is lost and the order is kept.
fn flood(sandbox: &Sandbox, name: &str) {
    let mut raw = sandbox.join(name);
    for number in 0..MESSAGES {
        let send = json!({
            "v": 1, "type": "SEND", "id": format!("{name}-{number}"), "ts": 0, "to": "Reader",
            "payload": {"number": number, "body": body(number)},
            "payload_meta": {"requires_ack": true},
        });
        loop {
            raw.send_json(&send);
            let answer = raw.receive().expect("an answer to each message");
            match answer["type"].as_str() {
                Some("ACK") => break,
                Some("BUSY") => {
                    let wait = answer["payload"]["retry_after_ms"].as_u64().unwrap();
                    thread::sleep(Duration::from_millis(wait));
                }
                _ => panic!("{answer}"),
            }
        }
    }
}

#[test]
fn stalling_reader_gets_every_frame_whole_and_in_order() {
    let sandbox = Sandbox::new();
    let mut reader = sandbox.join("Reader");
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let names: Vec<String> = (0..SENDERS).map(|sender| format!("Sender{sender}")).collect();
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| flood(&sandbox, name));
        }
        let mut next: HashMap<String, usize> = HashMap::new();
        for _ in 0..SENDERS * MESSAGES {
            match random.next_u32() % 100 {
                // This pause is long enough for the socket and the lane to fill up.
                0 => thread::sleep(Duration::from_millis(20)),
                1..20 => thread::yield_now(),
                _ => {}
            }
            let deliver: Value = reader.expect("DELIVER");
            let number = next.entry(deliver["from"].as_str().unwrap().to_owned()).or_default();
            assert_eq!(deliver["payload"]["number"], *number, "in each sender's order");
            assert_eq!(deliver["payload"]["body"], body(*number), "whole");
            *number += 1;
            reader.acknowledge(&deliver);
        }
        assert!(names.iter().all(|name| next[name] == MESSAGES));
    });
    assert_eq!(reader.drain(), Vec::<Value>::new(), "and nothing twice");
}

/// Each sender is a separate process. Each is accepted or prints the reason.
#[test]
fn hundreds_of_send_commands_at_once_are_all_answered() {
    const ROUNDS: usize = 2;
    const AT_ONCE: usize = 200;
    let mut sandbox = Sandbox::new();
    let mut reader = sandbox.join("Reader");
    let mut accepted = BTreeSet::new();
    for round in 0..ROUNDS {
        let results = thread::scope(|scope| {
            let senders: Vec<_> = (0..AT_ONCE)
                .map(|number| {
                    let body = format!("{round}-{number}");
                    scope.spawn(|| (output(sandbox.command(["send", "Reader", &body])), body))
                })
                .collect();
            // Meanwhile newcomers are welcomed.
            sandbox.join("Newcomer").leave();
            senders.into_iter().map(|sender| sender.join().unwrap()).collect::<Vec<_>>()
        });
        for (sent, body) in results {
            let printed = String::from_utf8_lossy(&sent.stderr);
            assert!(sent.status.success() || printed.starts_with("agent-relay: "), "{sent:?}");
            if sent.status.success() {
                accepted.insert(body);
            }
        }
    }
    eprintln!("{} of {} were accepted", accepted.len(), ROUNDS * AT_ONCE);
    assert!(accepted.len() > AT_ONCE, "{} were accepted", accepted.len());
    let mut received = BTreeSet::new();
    while !received.is_superset(&accepted) {
        let deliver = reader.expect("DELIVER");
        let body = deliver["payload"]["body"].as_str().unwrap().to_owned();
        assert!(received.insert(body), "twice: {deliver}");
        reader.acknowledge(&deliver);
    }
    assert!(sandbox.is_up());
}
