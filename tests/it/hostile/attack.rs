//! An attack on a daemon, and the checks of other clients and of the memory meanwhile.

use platform::transport::Stream;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use testkit::{
    raw::Raw,
    sandbox::Sandbox,
    waiting::{WATCHDOG, resident_bytes},
};

/// Limits small enough to be reached within a second.
pub(super) const SMALL_LIMITS: &str =
    "memory_max_bytes = 33554432\nqueue_max_bytes = 4194304\nqueue_max_messages = 1000\n";
const MEMORY_BYTES_MAX: u64 = 32 << 20;

/// Memory of a daemon beyond `memory_max_bytes`: code, threads, tables.
const BEYOND_BYTES: u64 = 64 << 20;

/// The checks of the memory during an attack. Before each, the pair exchanges rounds of messages;
/// after each, newcomers join.
const CHECKS: usize = 3;
const ROUNDS: usize = 3;
const NEWCOMERS: usize = 4;

/// The most answers that the attackers get for each of their unanswered requests during an
/// operator's handshake. An agent's also waits for the disk, of any speed. A handshake passes about
/// ten threads and queues, and at each of them an attacker may be ahead once or twice; a daemon
/// that starves newcomers answers without end. The limit holds for the lower quartile: a daemon
/// starves newcomers each time, while the system schedules threads late now and then.
const TURNS_MAX: usize = 24;

/// The pause between two rounds of messages while the attackers start.
const START_PACE: Duration = Duration::from_millis(50);

/// Runs attackers, each in a thread, next to a pair that must not be disturbed.
///
/// An attacker reports that it has started, and returns when the attack is over. The end of the
/// attack closes its connections. The limits are counts of work, so that they hold on a machine of
/// any speed.
#[track_caller]
pub(super) fn check_under_attack(
    sandbox: &mut Sandbox,
    attackers: &[&(dyn Fn(&Attack<'_>) + Sync)],
) {
    let mut pair = Pair::join(sandbox);
    pair.talk(1);
    let (started, reports) = mpsc::channel();
    let attack = Attack {
        sandbox,
        started: Mutex::new(started),
        is_over: AtomicBool::new(false),
        next_number: AtomicUsize::new(0),
        streams: Mutex::default(),
        answers: AtomicUsize::new(0),
    };
    thread::scope(|scope| {
        let attack = &attack;
        let _end = EndOnDrop(attack);
        for attacker in attackers {
            scope.spawn(move || attacker(attack));
        }
        let unanswered = attack.await_start(&reports, attackers.len(), &mut pair);
        let mut counts = Vec::new();
        for _ in 0..CHECKS {
            pair.talk(ROUNDS);
            pair.check_memory();
            for _ in 0..NEWCOMERS {
                pair.talk(1);
                join_and_leave(sandbox);
                let before = attack.answers();
                sandbox.operator().leave();
                counts.push(attack.answers() - before);
            }
        }
        check_counts(counts, unanswered * TURNS_MAX);
    });
    pair.talk(1);
    pair.check_memory();
    assert!(sandbox.is_up());
}

/// Ends the attack when dropped, also after a failed check.
struct EndOnDrop<'a>(&'a Attack<'a>);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        for stream in self.0.streams.lock().unwrap().values() {
            stream.hang_up();
        }
    }
}

/// The state that attackers share.
pub(super) struct Attack<'a> {
    pub(super) sandbox: &'a Sandbox,
    started: Mutex<mpsc::Sender<usize>>,
    is_over: AtomicBool,
    next_number: AtomicUsize,
    streams: Mutex<BTreeMap<usize, Stream>>,
    /// The number of envelopes that the attackers received.
    answers: AtomicUsize,
}

impl Attack<'_> {
    /// Reports that the attacker has begun to load the daemon. The attacker has at most this many
    /// unanswered requests at a time.
    pub(super) fn report_started(&self, unanswered: usize) {
        self.started.lock().unwrap().send(unanswered).unwrap();
    }

    /// Exchanges messages until all attackers have started. Returns the sum of their unanswered
    /// requests.
    #[track_caller]
    fn await_start(
        &self,
        reports: &mpsc::Receiver<usize>,
        attackers: usize,
        pair: &mut Pair,
    ) -> usize {
        let (mut waiting, mut unanswered) = (attackers, 0);
        let mut progress = (self.progress(), Instant::now());
        while waiting > 0 {
            pair.talk(1);
            if let Ok(count) = reports.recv_timeout(START_PACE) {
                waiting -= 1;
                unanswered += count;
            }
            if self.progress() != progress.0 {
                progress = (self.progress(), Instant::now());
            }
            assert!(progress.1.elapsed() < WATCHDOG, "{waiting} attackers do not start");
        }
        unanswered
    }

    /// The number of connections that the attackers have made and answers that they have received.
    fn progress(&self) -> usize {
        self.next_number.load(Ordering::Relaxed) + self.answers()
    }

    fn answers(&self) -> usize {
        self.answers.load(Ordering::Relaxed)
    }

    pub(super) fn is_running(&self) -> bool {
        !self.is_over.load(Ordering::SeqCst)
    }

    pub(super) fn wait_for_end(&self) {
        while self.is_running() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// A connection that has sent nothing.
    pub(super) fn connect(&self) -> HostileClient<'_> {
        let stream = Stream::connect(&self.sandbox.endpoint()).unwrap();
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        self.streams.lock().unwrap().insert(number, stream.clone());
        if !self.is_running() {
            stream.hang_up();
        }
        HostileClient { attack: self, number, stream }
    }

    /// A connection that has joined, unless the attack is over.
    pub(super) fn join(&self, name: &str) -> HostileClient<'_> {
        let client = self.connect();
        client.send_json(&hello(name));
        let welcome = client.receive();
        assert!(!self.is_running() || welcome.is_some_and(|welcome| welcome["type"] == "WELCOME"));
        client
    }
}

/// A connection that ignores failures.
pub(super) struct HostileClient<'a> {
    attack: &'a Attack<'a>,
    number: usize,
    stream: Stream,
}

impl HostileClient<'_> {
    /// Sends bytes. Returns false if the connection has ended.
    pub(super) fn send_bytes(&self, bytes: &[u8]) -> bool {
        (&self.stream).write_all(bytes).is_ok()
    }

    pub(super) fn send_json(&self, envelope: &Value) -> bool {
        self.send_bytes(&frame(&envelope.to_string()))
    }

    /// Receives the next envelope, or `None` at the end.
    pub(super) fn receive(&self) -> Option<Value> {
        let mut length = [0; 4];
        (&self.stream).read_exact(&mut length).ok()?;
        let mut json = vec![0; u32::from_be_bytes(length) as usize];
        (&self.stream).read_exact(&mut json).ok()?;
        self.attack.answers.fetch_add(1, Ordering::Relaxed);
        Some(serde_json::from_slice(&json).unwrap())
    }
}

impl Drop for HostileClient<'_> {
    fn drop(&mut self) {
        self.stream.hang_up();
        self.attack.streams.lock().unwrap().remove(&self.number);
    }
}

pub(super) fn frame(json: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(json.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

pub(super) fn hello(name: &str) -> Value {
    json!({"v": 1, "type": "HELLO", "id": "hello", "ts": 0, "payload": {"agent": name}})
}

/// Two agents that exchange messages, and fail at the first unexpected frame.
pub(crate) struct Pair {
    ann: Raw,
    bob: Raw,
    count: u64,
}

impl Pair {
    pub(crate) fn join(sandbox: &Sandbox) -> Self {
        Self { ann: sandbox.join("Ann"), bob: sandbox.join("Bob"), count: 0 }
    }

    /// Runs rounds of messages: a question with `requires_ack`, and an answer without it.
    #[track_caller]
    pub(crate) fn talk(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.count += 1;
            let question = format!("question {}", self.count);
            let id = self.ann.send("Bob", &question, json!({"requires_ack": true}));
            let deliver = self.bob.expect("DELIVER");
            assert_eq!(deliver["payload"]["body"], question);
            assert_eq!(deliver["delivery"]["seq"], self.count, "{deliver}");
            let accepted = self.ann.expect("ACK");
            assert_eq!(accepted["payload"]["ack_id"], id, "{accepted}");
            self.bob.acknowledge(&deliver);
            self.bob.send("Ann", "answer", json!({}));
            let deliver = self.ann.expect("DELIVER");
            assert_eq!(
                (&deliver["payload"]["body"], &deliver["from"]),
                (&json!("answer"), &json!("Bob"))
            );
        }
    }

    /// Checks the memory that the daemon counts, and the memory that the system reports.
    #[track_caller]
    pub(super) fn check_memory(&mut self) {
        self.ann
            .send_json(&json!({"v": 1, "type": "SEND", "id": "status", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": "status"}}));
        let status = self.ann.expect("DELIVER")["payload"]["data"].take();
        let (counted, most) =
            (&status["memory_bytes"], status["memory_bytes_max"].as_u64().unwrap());
        assert_eq!(most, MEMORY_BYTES_MAX, "{status}");
        assert!(counted.as_u64().unwrap() <= most, "{status}");
        let resident = resident_bytes(status["daemon"]["pid"].as_u64().unwrap());
        if let Some(resident) = resident {
            eprintln!("memory: {counted} counted, {resident} resident");
            assert!(resident <= most + BEYOND_BYTES, "{resident} are resident: {status}");
        }
    }
}

#[test]
fn resident_bytes_are_plausible() {
    let resident = resident_bytes(std::process::id().into()).expect("there is `ps`");
    assert!((1 << 20..64 << 30).contains(&resident), "{resident}");
}

/// Checks the numbers of answers that the attackers got during each handshake.
#[track_caller]
fn check_counts(mut counts: Vec<usize>, max: usize) {
    counts.sort_unstable();
    let quartile = counts[counts.len() / 4];
    eprintln!("answers during the handshakes: {counts:?}");
    assert!(quartile <= max, "{quartile} answers during a handshake; at most {max} are allowed");
}

/// Joins as a newcomer, and leaves.
#[track_caller]
fn join_and_leave(sandbox: &Sandbox) {
    let mut newcomer = sandbox.connect();
    newcomer.hello("Newcomer");
    newcomer.leave();
}
