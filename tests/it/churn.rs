//! Many agents that come and go, under load, while the daemon is killed and started again.
//!
//! `AGENT_RELAY_CHURN` is the number of seconds, with two hundred agents, two thousand messages a
//! second and a kill every minute (see ci/fuzz). Without it, a few agents send at full speed.
//!
//! Each pair of a sender and a receiver has numbered messages, which the sender repeats until they
//! are accepted. So a receiver gets every number in order, and again only as a redelivery.

use crate::{crash::join, fallible_client::FallibleClient};
use parking_lot::Mutex;
use platform::endpoint::Endpoint;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    env, fs,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};
use testkit::{
    sandbox::Sandbox,
    waiting::{WATCHDOG, resident_bytes, until},
};

/// The number of receivers of each sender.
const PEERS: u64 = 5;

/// The number of messages before an agent leaves and joins again. Every other time it hangs up
/// without BYE.
const STAY: u64 = 250;

/// The extent of a run.
struct Extent {
    senders: u64,
    receivers: u64,
    /// The pause between two messages of a sender.
    pace: Duration,
    /// The number of daemons that are killed.
    kills: u32,
    life: Life,
}

/// The end of a daemon's life.
enum Life {
    Time(Duration),
    /// This many messages more were received.
    Messages(u64),
}

impl Extent {
    fn of_environment() -> Self {
        let Ok(seconds) = env::var("AGENT_RELAY_CHURN") else {
            let (pace, life) = (Duration::ZERO, Life::Messages(600));
            return Self { senders: 6, receivers: 6, pace, kills: 3, life };
        };
        let seconds: u32 = seconds.parse().expect("AGENT_RELAY_CHURN is a number of seconds");
        let kills = seconds.div_ceil(60);
        let life = Life::Time(Duration::from_secs(seconds.into()) / kills);
        Self { senders: 100, receivers: 100, pace: Duration::from_millis(50), kills, life }
    }
}

/// The messages of one pair.
#[derive(Default)]
struct Stream {
    accepted: u64,
    received: u64,
    /// The id of the last DELIVER.
    last_id: String,
}

#[derive(Default)]
struct Tally {
    streams: Mutex<BTreeMap<(u64, u64), Stream>>,
    accepted: AtomicU64,
    received: AtomicU64,
    lost: AtomicU64,
    doubled: AtomicU64,
    redelivered: AtomicU64,
    senders_stop: AtomicBool,
    is_over: AtomicBool,
}

impl Tally {
    fn accept(&self, pair: (u64, u64)) {
        self.streams.lock().entry(pair).or_default().accepted += 1;
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    fn receive(&self, deliver: &Value) {
        let body = deliver["payload"]["body"].as_str().unwrap();
        let mut numbers = body.split(' ').map(|number| number.parse::<u64>().unwrap());
        let mut next = || numbers.next().unwrap();
        let (pair, number) = ((next(), next()), next());
        let id = deliver["id"].as_str().unwrap();
        let mut streams = self.streams.lock();
        let stream = streams.entry(pair).or_default();
        if number >= stream.received {
            self.lost.fetch_add(number - stream.received, Ordering::Relaxed);
            stream.received = number + 1;
            id.clone_into(&mut stream.last_id);
            self.received.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let is_again = deliver["delivery"]["attempt"].as_u64().unwrap_or(1) > 1;
        let is_same = number + 1 < stream.received || id == stream.last_id;
        let count = if is_again && is_same { &self.redelivered } else { &self.doubled };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until everything accepted is received, or nothing more comes.
    fn await_all(&self) {
        let (mut last, mut end) = (0, Instant::now() + WATCHDOG);
        loop {
            let received = self.received.load(Ordering::Relaxed);
            if received >= self.accepted.load(Ordering::Relaxed) || Instant::now() > end {
                return;
            }
            if received > last {
                (last, end) = (received, Instant::now() + WATCHDOG);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The number of accepted messages that were not received.
    fn missing(&self) -> u64 {
        let streams = self.streams.lock();
        let missing =
            streams.values().map(|stream| stream.accepted.saturating_sub(stream.received));
        self.lost.load(Ordering::Relaxed) + missing.sum::<u64>()
    }
}

/// Leaves the daemon with BYE, which ends the session, or hangs up.
fn leave(mut client: FallibleClient, token: &mut Option<String>, is_polite: bool) {
    if is_polite {
        *token = None;
        // The connection may be over, which is as good.
        client.send_json(&json!({"v": 1, "type": "BYE", "id": "bye", "ts": 0, "payload": {}}));
        while client.receive().is_some() {}
    }
}

fn send(endpoint: &Endpoint, extent: &Extent, tally: &Tally, own: u64) {
    let (mut client, mut token, mut due) = (None, None, Instant::now());
    let from = format!("churn-from-{own}");
    for message in 0_u64.. {
        let to = (own + message % PEERS) % extent.receivers;
        let number = message / PEERS;
        let (id, body) = (format!("{own}-{message}"), format!("{own} {to} {number}"));
        let name = format!("churn-to-{to}");
        loop {
            if client.is_none() {
                client = join(endpoint, &from, &mut token, &tally.is_over);
            }
            let Some(connected) = &mut client else { return };
            match connected.send(&id, &name, &body).and_then(|()| connected.receive()) {
                None => client = None,
                Some(answer) if answer["type"] == "ACK" => break,
                Some(answer) if answer["type"] == "BUSY" => {
                    let wait = answer["payload"]["retry_after_ms"].as_u64().unwrap();
                    thread::sleep(Duration::from_millis(wait));
                }
                Some(answer) if answer["payload"]["code"] == "UNKNOWN_AGENT" => {}
                Some(answer) => panic!("{answer}"),
            }
        }
        tally.accept((own, to));
        if tally.senders_stop.load(Ordering::Acquire) {
            return;
        }
        if message % STAY == STAY - 1
            && let Some(client) = client.take()
        {
            leave(client, &mut token, (message / STAY).is_multiple_of(2));
        }
        // A sender that is late does not catch up by more than a second.
        let earliest = Instant::now().checked_sub(Duration::from_secs(1)).unwrap_or(due);
        due = (due + extent.pace).max(earliest);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

fn receive(endpoint: &Endpoint, tally: &Tally, own: u64) {
    let (mut count, mut token, name) = (0, None, format!("churn-to-{own}"));
    while let Some(mut client) = join(endpoint, &name, &mut token, &tally.is_over) {
        while let Some(deliver) = client.receive() {
            assert_eq!(deliver["type"], "DELIVER", "{deliver}");
            if tally.is_over.load(Ordering::Acquire) {
                break;
            }
            tally.receive(&deliver);
            count += 1;
            if client.acknowledge(&deliver).is_none() {
                break;
            }
            if count % STAY == 0 {
                leave(client, &mut token, (count / STAY).is_multiple_of(2));
                break;
            }
        }
    }
}

/// The resources of a process. A number is `None` where the system does not say.
pub(crate) struct Usage {
    pub(crate) bytes: Option<u64>,
    pub(crate) descriptors: Option<usize>,
    pub(crate) threads: Option<usize>,
}

impl Usage {
    pub(crate) fn of(pid: u64) -> Self {
        let count = |what: &str| Some(fs::read_dir(format!("/proc/{pid}/{what}")).ok()?.count());
        Self { bytes: resident_bytes(pid), descriptors: count("fd"), threads: count("task") }
    }

    fn mib(&self) -> Option<f64> {
        self.bytes.map(|bytes| bytes as f64 / f64::from(1 << 20))
    }

    fn print(&self, when: &str) {
        let number =
            |number: Option<usize>| number.map_or_else(|| "?".to_owned(), |it| it.to_string());
        eprintln!(
            "{when}: {:.1} MiB, {} descriptors, {} threads",
            self.mib().unwrap_or(f64::NAN),
            number(self.descriptors),
            number(self.threads)
        );
    }
}

/// The slope of the line that fits the points best.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let above: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let below: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    (points.len() > 2).then(|| above / below)
}

fn await_end_of_life(life: &Life, tally: &Tally) {
    match life {
        Life::Time(time) => thread::sleep(*time),
        Life::Messages(more) => {
            let target = tally.received.load(Ordering::Relaxed) + more;
            until("agents talk", || tally.received.load(Ordering::Relaxed) >= target);
        }
    }
}

/// Runs the daemons' lives. Returns the memory at the end of each, by hours.
fn run_lives(sandbox: &mut Sandbox, extent: &Extent, tally: &Tally) -> Vec<(f64, f64)> {
    let (began, mut memory) = (Instant::now(), Vec::new());
    for number in 0..extent.kills {
        await_end_of_life(&extent.life, tally);
        let usage = Usage::of(sandbox.daemon_pid());
        usage.print(&format!(
            "life {} of {}, {} accepted, {} received, {} again",
            number + 1,
            extent.kills,
            tally.accepted.load(Ordering::Relaxed),
            tally.received.load(Ordering::Relaxed),
            tally.redelivered.load(Ordering::Relaxed),
        ));
        memory.extend(usage.mib().map(|mib| (began.elapsed().as_secs_f64() / 3_600.0, mib)));
        sandbox.kill();
        sandbox.start();
    }
    memory
}

#[test]
fn agents_that_come_and_go_lose_nothing_while_daemons_are_killed() {
    let (extent, tally) = (Extent::of_environment(), Tally::default());
    let mut sandbox = Sandbox::new();
    let endpoint = sandbox.endpoint();
    let first = Usage::of(sandbox.daemon_pid());
    first.print("first daemon, without agents");
    let (extent, tally) = (&extent, &tally);
    let memory = thread::scope(|scope| {
        let endpoint = &endpoint;
        let receivers = (0..extent.receivers)
            .map(|own| scope.spawn(move || receive(endpoint, tally, own)))
            .collect::<Vec<_>>();
        let senders = (0..extent.senders)
            .map(|own| scope.spawn(move || send(endpoint, extent, tally, own)))
            .collect::<Vec<_>>();
        let memory = run_lives(&mut sandbox, extent, tally);
        tally.senders_stop.store(true, Ordering::Release);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        tally.await_all();
        tally.is_over.store(true, Ordering::Release);
        // A last message to each receiver ends its wait.
        let mut last = sandbox.join("churn-last");
        for own in 0..extent.receivers {
            last.send(&format!("churn-to-{own}"), "the end", json!({}));
        }
        receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
        // Not `leave`: a receiver that had left already has refused its message.
        drop(last);
        memory
    });
    let pid = sandbox.daemon_pid();
    let is_back = |now: Option<usize>, before: Option<usize>| now <= before.map(|it| it + 2);
    until("descriptors and threads are as few as at the beginning", || {
        let last = Usage::of(pid);
        is_back(last.descriptors, first.descriptors) && is_back(last.threads, first.threads)
    });
    Usage::of(pid).print("last daemon, without agents");
    let (missing, doubled) = (tally.missing(), tally.doubled.load(Ordering::Relaxed));
    let slope = slope(&memory).map_or_else(|| "?".to_owned(), |slope| format!("{slope:+.1}"));
    eprintln!(
        "{} accepted, {missing} lost, {doubled} doubled; memory at the end of each life: {slope} \
         MiB/h",
        tally.accepted.load(Ordering::Relaxed)
    );
    assert_eq!((missing, doubled), (0, 0), "lost and doubled");
}
