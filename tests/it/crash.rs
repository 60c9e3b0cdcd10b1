//! The daemon is killed at random, again and again, while agents talk: what it accepted arrives, whatever
//! `durability` says.
//!
//! `AGENT_RELAY_CRASHES` says how often; CI does it a thousand times (see ci/run).

use crate::{
    line::Line,
    sandbox::{Sandbox, WATCHDOG},
};
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

const CRASHES: usize = 25;
/// One daemon's, and the next one's.
const DURABILITIES: [&str; 2] = ["disk", "process"];
const SENDERS: [&str; 2] = ["Ann", "Bob"];
const READERS: [&str; 2] = ["Cid", "Dan"];

/// How often something is killed.
pub(crate) fn crashes() -> usize {
    let asked = env::var("AGENT_RELAY_CRASHES");
    asked.map_or(CRASHES, |text| text.parse().expect("AGENT_RELAY_CRASHES is a number"))
}

/// Joins as soon as there is a daemon that takes the name; `None` if all is over before.
fn join(endpoint: &Endpoint, name: &str, is_over: &AtomicBool) -> Option<Line> {
    let end = Instant::now() + WATCHDOG;
    while !is_over.load(Ordering::Acquire) {
        assert!(Instant::now() < end, "{name} finds no daemon");
        if let Some(mut line) = Line::connect(endpoint)
            && line.join(name).is_some()
        {
            return Some(line);
        }
        // Nothing tells when a killed daemon is up again.
        thread::sleep(Duration::from_millis(5));
    }
    None
}

/// What everybody has seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// Bodies that were accepted.
    pub(crate) accepted: BTreeSet<String>,
    /// What they were said to survive.
    durabilities: BTreeSet<String>,
    /// The id of the DELIVER that brought a body.
    pub(crate) heard: BTreeMap<String, String>,
    /// The body of each number of a stream.
    numbers: BTreeMap<(String, String, u64), String>,
    /// The last body that each reader heard first from each sender.
    last: BTreeMap<(String, String), u64>,
}

#[derive(Default)]
pub(crate) struct Scene {
    seen: Mutex<Seen>,
    changed: Condvar,
    senders_stop: AtomicBool,
    over: AtomicBool,
}

impl Scene {
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock()
    }

    /// Waits until this is so.
    pub(crate) fn await_that(&self, what: &str, is_so: impl Fn(&Seen) -> bool) {
        let end = Instant::now() + WATCHDOG;
        let mut seen = self.seen.lock();
        while !is_so(&seen) {
            let late = self.changed.wait_until(&mut seen, end).timed_out();
            let missing: Vec<_> =
                seen.accepted.iter().filter(|body| !seen.heard.contains_key(*body)).collect();
            assert!(!late, "it does not come that {what}; accepted and not heard: {missing:?}");
        }
    }

    pub(crate) fn note<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        let noted = change(&mut self.seen.lock());
        self.changed.notify_all();
        noted
    }
}

/// Says one thing after the other to each reader by turns, each again until it is accepted.
fn send(endpoint: &Endpoint, scene: &Scene, name: &str) {
    let mut line = None;
    for number in 1_u64.. {
        let to = READERS[number as usize % READERS.len()];
        let body = format!("{name}>{to}:{number}");
        let id = format!("{name}-{number}");
        loop {
            if line.is_none() {
                line = join(endpoint, name, &scene.over);
            }
            let Some(open) = &mut line else { return };
            match open.send(&id, to, &body).and_then(|()| open.hear()) {
                None => line = None,
                Some(answer) if answer["type"] == "ACK" => {
                    let durability = answer["payload"]["durability"].as_str().unwrap().to_owned();
                    scene.note(|seen| seen.durabilities.insert(durability));
                    break;
                }
                Some(answer) if answer["payload"]["code"] == "UNKNOWN_AGENT" => {}
                Some(answer) => panic!("{answer}"),
            }
        }
        scene.note(|seen| seen.accepted.insert(body));
        if scene.senders_stop.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Hears and acknowledges everything.
fn read(endpoint: &Endpoint, scene: &Scene, name: &str) {
    while let Some(mut line) = join(endpoint, name, &scene.over) {
        while let Some(deliver) = line.hear() {
            scene.note(|seen| seen.hear(name, &deliver));
            if line.acknowledge(&deliver).is_none() {
                break;
            }
        }
    }
}

impl Seen {
    pub(crate) fn hear(&mut self, reader: &str, deliver: &Value) {
        assert_eq!(deliver["type"], "DELIVER", "{deliver}");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (from, body, id) =
            (text(&deliver["from"]), text(&deliver["payload"]["body"]), text(&deliver["id"]));
        let seq = deliver["delivery"]["seq"].as_u64().unwrap();
        let owner = self
            .numbers
            .entry((from.clone(), reader.to_owned(), seq))
            .or_insert_with(|| body.clone());
        assert_eq!(*owner, body, "a number is used once: {deliver}");
        if let Some(before) = self.heard.insert(body.clone(), id.clone()) {
            assert_eq!(before, id, "a message has one DELIVER: {deliver}");
            let attempt = deliver["delivery"]["attempt"].as_u64().unwrap_or(1);
            assert!(attempt > 1, "what comes again says so: {deliver}");
            return;
        }
        let number: u64 = body.rsplit(':').next().unwrap().parse().unwrap();
        let last = self.last.entry((reader.to_owned(), from)).or_default();
        assert!(*last < number, "{number} comes after {last}");
        *last = number;
    }
}

#[test]
fn what_a_killed_daemon_accepted_arrives_once_and_in_order() {
    let crashes = crashes();
    let mut random = ChaCha8Rng::seed_from_u64(crashes as u64);
    let scene = Scene::default();
    let mut sandbox = Sandbox::new();
    let endpoint = sandbox.endpoint();
    thread::scope(|scope| {
        for name in READERS {
            let (endpoint, scene) = (&endpoint, &scene);
            scope.spawn(move || read(endpoint, scene, name));
        }
        let senders = SENDERS.map(|name| {
            let (endpoint, scene) = (&endpoint, &scene);
            scope.spawn(move || send(endpoint, scene, name))
        });
        for durability in DURABILITIES.into_iter().cycle().take(crashes) {
            let more = 1 + random.next_u32() as usize % 40;
            let (accepted, heard) = {
                let seen = scene.seen.lock();
                (seen.accepted.len(), seen.heard.len())
            };
            // Something of either kind, so that both are cut off at every place.
            scene.await_that("agents talk", |seen| {
                seen.accepted.len() >= accepted + more / 2 || seen.heard.len() >= heard + more
            });
            sandbox.kill();
            let config = format!("durability = \"{durability}\"\n");
            fs::write(sandbox.home().join("config.toml"), config).unwrap();
            sandbox.start();
        }
        scene.senders_stop.store(true, Ordering::Release);
        for sender in senders {
            sender.join().unwrap();
        }
        scene.await_that("all that was accepted is heard", |seen| {
            seen.accepted.iter().all(|body| seen.heard.contains_key(body))
        });
        scene.over.store(true, Ordering::Release);
        sandbox.kill();
    });
    let seen = scene.seen.lock();
    eprintln!("{} were accepted over {crashes} crashes", seen.accepted.len());
    assert!(seen.accepted.len() >= crashes, "{} were accepted", seen.accepted.len());
    assert!(seen.durabilities.iter().eq(DURABILITIES.iter()), "{:?}", seen.durabilities);
}
