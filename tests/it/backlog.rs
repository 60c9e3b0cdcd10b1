//! A daemon with many undelivered messages in its store starts soon, and delivers them all.
//!
//! `AGENT_RELAY_BACKLOG` is the number of messages; CI prints the time for a hundred thousand
//! (`ci/run --all`).

use serde_json::json;
use std::{
    env,
    time::{Duration, Instant},
};
use testkit::{raw::Raw, sandbox::Sandbox};

const BACKLOG: usize = 2_000;

/// The numbers of agents. A queue holds at most 10,000 messages, and a sender's share of them is
/// less than half, so that a large backlog needs several senders and readers.
const SENDERS: usize = 2;
const READERS: usize = 20;

/// The maximum number of unanswered sends at a time.
const WINDOW: usize = 500;

const BODY_BYTES: usize = 256;

#[test]
fn daemon_starts_with_a_large_backlog() {
    let setting = env::var("AGENT_RELAY_BACKLOG");
    let backlog: usize =
        setting.map_or(BACKLOG, |text| text.parse().expect("AGENT_RELAY_BACKLOG is a number"));
    let each = backlog / (SENDERS * READERS);
    let mut sandbox = Sandbox::with_config("durability = \"process\"\n");
    let empty = restart(&mut sandbox);
    for reader in 0..READERS {
        sandbox.join(&format!("Reader-{reader}")).leave();
    }
    for sender in 0..SENDERS {
        for reader in 0..READERS {
            let sender = sandbox.join(&format!("Sender-{sender}"));
            fill(sender, &format!("Reader-{reader}"), each);
        }
    }
    let full = restart(&mut sandbox);
    let times = full.as_secs_f64() / empty.as_secs_f64();
    eprintln!(
        "from start to WELCOME with {} undelivered messages: {} ms; with none: {} ms; ratio {times:.1}",
        each * SENDERS * READERS,
        full.as_millis(),
        empty.as_millis(),
    );
    for reader in 0..READERS {
        let mut reader = sandbox.join(&format!("Reader-{reader}"));
        for _ in 0..each * SENDERS {
            let deliver = reader.expect("DELIVER");
            reader.acknowledge(&deliver);
        }
        assert!(reader.drain().is_empty(), "each comes once");
    }
}

/// Kills the daemon. Returns the time from the next start to the first WELCOME.
fn restart(sandbox: &mut Sandbox) -> Duration {
    sandbox.kill();
    let start = Instant::now();
    sandbox.start();
    sandbox.join("Probe");
    start.elapsed()
}

/// Sends messages to an agent that is away.
fn fill(mut sender: Raw, to: &str, count: usize) {
    let body = "x".repeat(BODY_BYTES);
    for window in (0..count).step_by(WINDOW) {
        let sent = WINDOW.min(count - window);
        for _ in 0..sent {
            sender.send(to, &body, json!({"requires_ack": true}));
        }
        for _ in 0..sent {
            let answer = sender.expect("ACK");
            assert_eq!(answer["payload"]["state"], "accepted", "{answer}");
        }
    }
    sender.leave();
}
