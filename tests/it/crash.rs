//! The daemon is killed at random moments while agents send messages: every accepted message
//! arrives, with each value of `durability`.
//!
//! `AGENT_RELAY_CRASHES` is the number of kills; `ci/run --all` does a thousand.

use crate::fallible_client::FallibleClient;
use parking_lot::{Condvar, Mutex, MutexGuard};
use platform::endpoint::Endpoint;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use testkit::{sandbox::Sandbox, waiting::WATCHDOG};

const CRASHES: usize = 25;
/// The values of `durability` that successive daemons have in turn.
const DURABILITIES: [&str; 2] = ["disk", "process"];
const SENDERS: [&str; 2] = ["Ann", "Bob"];
const READERS: [&str; 2] = ["Cid", "Dan"];

/// Returns the number of kills.
pub(crate) fn crashes() -> usize {
    let setting = env::var("AGENT_RELAY_CRASHES");
    setting.map_or(CRASHES, |text| text.parse().expect("AGENT_RELAY_CRASHES is a number"))
}

/// Joins once a daemon accepts the name, and continues the session of `token`. Returns `None` if
/// the test ends before.
pub(crate) fn join(
    endpoint: &Endpoint,
    name: &str,
    token: &mut Option<String>,
    is_over: &AtomicBool,
) -> Option<FallibleClient> {
    let end = Instant::now() + WATCHDOG;
    while !is_over.load(Ordering::Acquire) {
        assert!(Instant::now() < end, "{name} finds no daemon");
        let had_token = token.is_some();
        if let Some(mut client) = FallibleClient::connect(endpoint)
            && let Some(goes_on) = client.join(name, token)
        {
            assert_eq!(goes_on, had_token, "the session of {name}");
            return Some(client);
        }
        // No event shows that a killed daemon has been replaced.
        thread::sleep(Duration::from_millis(5));
    }
    None
}

/// The messages that were accepted, and the messages that were received.
#[derive(Default)]
pub(crate) struct Record {
    /// Bodies that were accepted.
    pub(crate) accepted: BTreeSet<String>,
    /// The durabilities that ACKs have stated.
    durabilities: BTreeSet<String>,
    /// The id of the DELIVER of each body.
    pub(crate) received: BTreeMap<String, String>,
    /// The body of each sequence number of a stream.
    numbers: BTreeMap<(String, String, u64), String>,
    /// The last number that each reader received from each sender. Redeliveries do not count.
    last: BTreeMap<(String, String), u64>,
}

#[derive(Default)]
pub(crate) struct SharedRecord {
    record: Mutex<Record>,
    changed: Condvar,
    senders_stop: AtomicBool,
    is_over: AtomicBool,
}

impl SharedRecord {
    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock()
    }

    /// Waits until `condition` holds, which `what` names. Panics after [`WATCHDOG`] without a new
    /// message.
    pub(crate) fn wait_until(&self, what: &str, condition: impl Fn(&Record) -> bool) {
        let mut record = self.record.lock();
        let (mut count, mut end) = (0, Instant::now() + WATCHDOG);
        while !condition(&record) {
            let new_count = record.accepted.len() + record.received.len();
            if new_count > count {
                (count, end) = (new_count, Instant::now() + WATCHDOG);
            }
            let late = self.changed.wait_until(&mut record, end).timed_out();
            let missing: Vec<_> = record
                .accepted
                .iter()
                .filter(|body| !record.received.contains_key(*body))
                .collect();
            assert!(!late, "timed out before {what}; accepted and not received: {missing:?}");
        }
    }

    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        let result = change(&mut self.record.lock());
        self.changed.notify_all();
        result
    }
}

/// Sends numbered messages to the readers in turn, and repeats each one until it is accepted.
fn send(endpoint: &Endpoint, shared: &SharedRecord, name: &str) {
    let (mut client, mut token) = (None, None);
    for number in 1_u64.. {
        let to = READERS[number as usize % READERS.len()];
        let body = format!("{name}>{to}:{number}");
        let id = format!("{name}-{number}");
        loop {
            if client.is_none() {
                client = join(endpoint, name, &mut token, &shared.is_over);
            }
            let Some(connected) = &mut client else { return };
            match connected.send(&id, to, &body).and_then(|()| connected.receive()) {
                None => client = None,
                Some(answer) if answer["type"] == "ACK" => {
                    let durability = answer["payload"]["durability"].as_str().unwrap().to_owned();
                    shared.update(|record| record.durabilities.insert(durability));
                    break;
                }
                Some(answer) if answer["payload"]["code"] == "UNKNOWN_AGENT" => {}
                Some(answer) => panic!("{answer}"),
            }
        }
        shared.update(|record| record.accepted.insert(body));
        if shared.senders_stop.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Receives and acknowledges messages.
fn read(endpoint: &Endpoint, shared: &SharedRecord, name: &str) {
    let mut token = None;
    while let Some(mut client) = join(endpoint, name, &mut token, &shared.is_over) {
        while let Some(deliver) = client.receive() {
            shared.update(|record| record.receive(name, &deliver));
            if client.acknowledge(&deliver).is_none() {
                break;
            }
        }
    }
}

impl Record {
    pub(crate) fn receive(&mut self, reader: &str, deliver: &Value) {
        assert_eq!(deliver["type"], "DELIVER", "{deliver}");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (from, body, id) =
            (text(&deliver["from"]), text(&deliver["payload"]["body"]), text(&deliver["id"]));
        let seq = deliver["delivery"]["seq"].as_u64().unwrap();
        let owner = self
            .numbers
            .entry((from.clone(), reader.to_owned(), seq))
            .or_insert_with(|| body.clone());
        assert_eq!(*owner, body, "a number was reused: {deliver}");
        if let Some(before) = self.received.insert(body.clone(), id.clone()) {
            assert_eq!(before, id, "a message has one DELIVER: {deliver}");
            let attempt = deliver["delivery"]["attempt"].as_u64().unwrap_or(1);
            assert!(attempt > 1, "a redelivery without its attempt: {deliver}");
            return;
        }
        let number: u64 = body.rsplit(':').next().unwrap().parse().unwrap();
        let last = self.last.entry((reader.to_owned(), from)).or_default();
        assert!(*last < number, "{number} arrived after {last}");
        *last = number;
    }
}

#[test]
fn messages_accepted_before_a_kill_arrive_once_and_in_order() {
    let crashes = crashes();
    let mut random = ChaCha8Rng::seed_from_u64(crashes as u64);
    let shared = SharedRecord::default();
    let mut sandbox = Sandbox::new();
    let endpoint = sandbox.endpoint();
    thread::scope(|scope| {
        for name in READERS {
            let (endpoint, shared) = (&endpoint, &shared);
            scope.spawn(move || read(endpoint, shared, name));
        }
        let senders = SENDERS.map(|name| {
            let (endpoint, shared) = (&endpoint, &shared);
            scope.spawn(move || send(endpoint, shared, name))
        });
        for durability in DURABILITIES.into_iter().cycle().take(crashes) {
            let more = 1 + random.next_u32() as usize % 40;
            let (accepted, received) = {
                let record = shared.record.lock();
                (record.accepted.len(), record.received.len())
            };
            // The kill waits for progress of either kind, so that kills hit both sends and
            // deliveries.
            shared.wait_until("agents talk", |record| {
                record.accepted.len() >= accepted + more / 2
                    || record.received.len() >= received + more
            });
            sandbox.kill();
            let config = format!("durability = \"{durability}\"\n");
            fs::write(sandbox.home().join("config.toml"), config).unwrap();
            sandbox.start();
        }
        shared.senders_stop.store(true, Ordering::Release);
        for sender in senders {
            sender.join().unwrap();
        }
        shared.wait_until("all that was accepted is received", |record| {
            record.accepted.iter().all(|body| record.received.contains_key(body))
        });
        shared.is_over.store(true, Ordering::Release);
        sandbox.kill();
    });
    let record = shared.record.lock();
    eprintln!("{} were accepted over {crashes} crashes", record.accepted.len());
    assert!(record.accepted.len() >= crashes, "{} were accepted", record.accepted.len());
    assert!(record.durabilities.iter().eq(DURABILITIES.iter()), "{:?}", record.durabilities);
}
