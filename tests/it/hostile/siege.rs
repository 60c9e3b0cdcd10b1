//! Besieging a daemon, and what has to hold meanwhile.

use crate::{
    raw::Raw,
    sandbox::{Sandbox, resident_bytes},
};
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

/// Bounds small enough to be reached within a second.
pub(super) const SMALL: &str =
    "memory_max_bytes = 33554432\nqueue_max_bytes = 4194304\nqueue_max_messages = 1000\n";
const MEMORY_BYTES_MAX: u64 = 32 << 20;

/// What a daemon may take beyond `memory_max_bytes`: its code, its threads, its tables.
const BEYOND_BYTES: u64 = 64 << 20;

/// What the pair says while it is besieged, and after how much of it the memory is looked at.
const ROUNDS: usize = 60;
const ROUNDS_BETWEEN: usize = 12;

/// Handshakes before the siege, and again each time that the memory was looked at. The median of all
/// within the siege may be so long: a machine that has other things to do delays some handshakes, a daemon
/// that can't cope delays most.
const HANDSHAKES: usize = 9;
const HANDSHAKE_MAX: Duration = Duration::from_millis(100);

/// Where the machine itself is so slow that a handshake takes long without a siege, it may take so many
/// times as long within one: those who besiege take their part of the processors, too.
const TIMES_MAX: u32 = 4;

/// Runs neighbours, each on a thread, and beside them a pair that notices nothing.
///
/// A neighbour says that it is in place, and stops when the siege is over; its connections are ended
/// for it.
#[track_caller]
pub(super) fn withstands(sandbox: &mut Sandbox, neighbours: &[&(dyn Fn(&Siege<'_>) + Sync)]) {
    let mut pair = Pair::join(sandbox);
    pair.talk(1);
    let before = median(handshakes(sandbox, &mut pair));
    let (in_place, came) = mpsc::channel();
    let siege = Siege {
        sandbox,
        in_place: Mutex::new(in_place),
        over: AtomicBool::new(false),
        next: AtomicUsize::new(0),
        streams: Mutex::default(),
    };
    thread::scope(|scope| {
        let siege = &siege;
        let _over = Over(siege);
        for neighbour in neighbours {
            scope.spawn(move || neighbour(siege));
        }
        for _ in neighbours {
            came.recv_timeout(crate::sandbox::WATCHDOG).expect("each neighbour gets in place");
        }
        let mut times = Vec::new();
        for _ in 0..ROUNDS / ROUNDS_BETWEEN {
            pair.talk(ROUNDS_BETWEEN);
            pair.check_memory();
            times.extend(handshakes(sandbox, &mut pair));
        }
        check_handshakes(before, times);
    });
    pair.talk(1);
    pair.check_memory();
    assert!(sandbox.is_up());
}

/// Ends the siege, also where the pair noticed something.
struct Over<'a>(&'a Siege<'a>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
        for stream in self.0.streams.lock().unwrap().values() {
            stream.hang_up();
        }
    }
}

/// What the neighbours share.
pub(super) struct Siege<'a> {
    pub(super) sandbox: &'a Sandbox,
    in_place: Mutex<mpsc::Sender<()>>,
    over: AtomicBool,
    next: AtomicUsize,
    streams: Mutex<BTreeMap<usize, Stream>>,
}

impl Siege<'_> {
    /// What this neighbour does has begun to bite.
    pub(super) fn in_place(&self) {
        self.in_place.lock().unwrap().send(()).unwrap();
    }

    pub(super) fn goes_on(&self) -> bool {
        !self.over.load(Ordering::SeqCst)
    }

    /// Waits for the end.
    pub(super) fn hold_out(&self) {
        while self.goes_on() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// A connection that has said nothing.
    pub(super) fn connect(&self) -> Foe<'_> {
        let stream = Stream::connect(&self.sandbox.endpoint()).unwrap();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.streams.lock().unwrap().insert(number, stream.clone());
        if !self.goes_on() {
            stream.hang_up();
        }
        Foe { siege: self, number, stream }
    }

    /// A connection that has joined, unless the siege is over.
    pub(super) fn join(&self, name: &str) -> Foe<'_> {
        let foe = self.connect();
        foe.say(&hello(name));
        let welcome = foe.hear();
        assert!(!self.goes_on() || welcome.is_some_and(|welcome| welcome["type"] == "WELCOME"));
        foe
    }
}

/// A connection without manners; whatever goes wrong with it is its own affair.
pub(super) struct Foe<'a> {
    siege: &'a Siege<'a>,
    number: usize,
    stream: Stream,
}

impl Foe<'_> {
    /// Says these bytes. Whether they were taken.
    pub(super) fn say_bytes(&self, bytes: &[u8]) -> bool {
        (&self.stream).write_all(bytes).is_ok()
    }

    pub(super) fn say(&self, envelope: &Value) -> bool {
        self.say_bytes(&frame(&envelope.to_string()))
    }

    /// The next envelope, or `None` at the end.
    pub(super) fn hear(&self) -> Option<Value> {
        let mut length = [0; 4];
        (&self.stream).read_exact(&mut length).ok()?;
        let mut json = vec![0; u32::from_be_bytes(length) as usize];
        (&self.stream).read_exact(&mut json).ok()?;
        Some(serde_json::from_slice(&json).unwrap())
    }
}

impl Drop for Foe<'_> {
    fn drop(&mut self) {
        self.stream.hang_up();
        self.siege.streams.lock().unwrap().remove(&self.number);
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

/// Two agents that talk, and would fail at the first frame that doesn't belong to their talk.
pub(super) struct Pair {
    ann: Raw,
    bob: Raw,
    said: u64,
}

impl Pair {
    pub(super) fn join(sandbox: &Sandbox) -> Self {
        Self { ann: sandbox.join("Ann"), bob: sandbox.join("Bob"), said: 0 }
    }

    /// Question and answer, the one at least once, the other at most once.
    #[track_caller]
    pub(super) fn talk(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.said += 1;
            let question = format!("question {}", self.said);
            let id = self.ann.send("Bob", &question, json!({"requires_ack": true}));
            let heard = self.bob.expect("DELIVER");
            assert_eq!(heard["payload"]["body"], question);
            assert_eq!(heard["delivery"]["seq"], self.said, "{heard}");
            let taken = self.ann.expect("ACK");
            assert_eq!(taken["payload"]["ack_id"], id, "{taken}");
            self.bob.acknowledge(&heard);
            self.bob.send("Ann", "answer", json!({}));
            let heard = self.ann.expect("DELIVER");
            assert_eq!(
                (&heard["payload"]["body"], &heard["from"]),
                (&json!("answer"), &json!("Bob"))
            );
        }
    }

    /// By its own count, and by the system's.
    #[track_caller]
    pub(super) fn check_memory(&mut self) {
        self.ann.say(&json!({"v": 1, "type": "SEND", "id": "status", "ts": 0, "to": "@relay",
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
fn the_system_says_what_is_resident() {
    let resident = resident_bytes(std::process::id().into()).expect("there is `ps`");
    assert!((1 << 20..64 << 30).contains(&resident), "{resident}");
}

/// How long newcomers take to join, between rounds of talk.
#[track_caller]
fn handshakes(sandbox: &Sandbox, pair: &mut Pair) -> Vec<Duration> {
    let handshakes = (0..HANDSHAKES).map(|_| {
        pair.talk(1);
        handshake(sandbox)
    });
    handshakes.collect()
}

#[track_caller]
fn check_handshakes(before: Duration, times: Vec<Duration>) {
    let (count, longest) = (times.len(), times.iter().max().copied().unwrap_or_default());
    let (within, most) = (median(times), HANDSHAKE_MAX.max(before * TIMES_MAX));
    let said = format!(
        "handshake: {within:?} at the median of {count}, {longest:?} at the most; {before:?} before"
    );
    eprintln!("{said}");
    assert!(within <= most, "{said}; allowed are {most:?}");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// How long a newcomer takes from its first byte to WELCOME.
#[track_caller]
fn handshake(sandbox: &Sandbox) -> Duration {
    let start = Instant::now();
    let mut visitor = sandbox.connect();
    visitor.say(&hello("Visitor"));
    visitor.expect("WELCOME");
    let time = start.elapsed();
    visitor.say(&json!({"v": 1, "type": "BYE", "id": "b", "ts": 0, "payload": {"reason": "done"}}));
    visitor.expect_end();
    time
}
