//! Latency and throughput from host to host, and of bare JetStream on the same servers and stream.
//!
//! Bare JetStream publishes, awaits the answer of the stream, receives by a pull consumer, and
//! acknowledges. Both are measured in turns, so that other load on the machine affects both.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy recognizes only functions with `#[test]` as tests"
)]
#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]

mod support;

use agent_relay_nats::{
    js,
    link::{Link, Servers, StreamSettings},
    outbox::{Publish, Published},
    pull::{self, Received},
    subject::{self, Token},
};
use client::{Client, Event, Outgoing};
use futures_util::StreamExt;
use std::time::{Duration, Instant};
use support::{
    host::{Host, connect},
    nats::Nats,
    until,
};
use tokio::{runtime::Runtime, sync::mpsc};

/// The messages of each latency, in turns of [`TURN`].
const LATENCIES: usize = 1000;
const TURN: usize = 50;

/// The messages of each throughput.
const MESSAGES: usize = 5000;

/// The pairs of agents that send at once.
const PAIRS: usize = 8;

/// The messages that are not answered yet, of bare JetStream, and of one agent.
const WINDOW: usize = 64;

const BODY_BYTES: usize = 200;

/// A publisher and a consumer without the relay.
struct Bare {
    here: Token,
    runtime: Runtime,
    link: Link,
    deliveries: mpsc::Receiver<Received>,
    number: usize,
}

impl Bare {
    fn new(nats: &Nats, replicas: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let here = Token::received("bare").unwrap();
        let urls = nats.urls().split(',').map(str::to_owned).collect();
        let servers = Servers { urls, ..Servers::default() };
        let (link, deliveries) = runtime.block_on(async {
            let (link, _events) = Link::connect(&servers, here.clone()).await.unwrap();
            let settings = StreamSettings { replicas, bytes: js::STREAM_BYTES };
            let mut stream = js::stream_settings(&here, settings, link.server().max_payload);
            // Nothing is removed from it, so it has no shares.
            stream["max_msgs_per_subject"] = (-1).into();
            stream["discard_new_per_subject"] = false.into();
            let stream = stream.to_string().into();
            link.client().request(js::create_stream_subject(&here), stream).await.unwrap();
            link.create_consumer(&here, js::STREAM_BYTES).await.unwrap();
            let (sender, deliveries) = mpsc::channel(WINDOW);
            tokio::spawn(pull::run(link.clone(), here.clone(), sender));
            (link, deliveries)
        });
        Self { here, runtime, link, deliveries, number: 0 }
    }

    fn next(&mut self) -> Publish {
        self.number += 1;
        let here = &self.here;
        Publish {
            subject: subject::messages(here, here, here),
            id: format!("bare-{}", self.number),
            batch: vec![b'x'; BODY_BYTES].into(),
        }
    }

    fn latencies(&mut self, count: usize, latencies: &mut Vec<Duration>) {
        for _ in 0..count {
            let publish = self.next();
            let (here, link, deliveries) = (&self.here, &self.link, &mut self.deliveries);
            self.runtime.block_on(async {
                let begun = Instant::now();
                let (published, delivery) =
                    tokio::join!(link.publish(here, &publish, None), deliveries.recv());
                latencies.push(begun.elapsed());
                assert_eq!(published, Published::Stored);
                link.publish_now(delivery.unwrap().reply, "+ACK".into());
            });
        }
    }

    /// Messages a second.
    fn throughput(&mut self) -> f64 {
        let all: Vec<_> = (0..MESSAGES).map(|_| self.next()).collect();
        let (here, link, deliveries) = (&self.here, &self.link, &mut self.deliveries);
        let begun = Instant::now();
        self.runtime.block_on(async {
            let publish = async {
                let mut all = futures_util::stream::iter(all)
                    .map(|publish| async move { link.publish(here, &publish, None).await })
                    .buffer_unordered(WINDOW);
                while let Some(published) = all.next().await {
                    assert_eq!(published, Published::Stored);
                }
            };
            let receive = async {
                for _ in 0..MESSAGES {
                    let delivery = deliveries.recv().await.unwrap();
                    link.publish_now(delivery.reply, "+ACK".into());
                }
            };
            tokio::join!(publish, receive)
        });
        MESSAGES as f64 / begun.elapsed().as_secs_f64()
    }
}

fn message(to: &str) -> Outgoing {
    Outgoing::message(to, "x".repeat(BODY_BYTES))
}

/// Waits for a message and acknowledges it.
fn receive(client: &Client) {
    loop {
        match client.events().recv().unwrap() {
            Event::Delivered(delivery) => return client.acknowledge(&delivery.id),
            Event::Refused { nack, .. } => panic!("{nack:?}"),
            _ => {}
        }
    }
}

fn latencies(
    (ann, bob): (&Client, &Client),
    to: &str,
    count: usize,
    latencies: &mut Vec<Duration>,
) {
    for _ in 0..count {
        let begun = Instant::now();
        ann.send(message(to)).unwrap();
        receive(bob);
        latencies.push(begun.elapsed());
        let accepted = |event| matches!(event, Event::Accepted { .. });
        while !accepted(ann.events().recv().unwrap()) {}
    }
}

/// Messages a second of this number of pairs.
fn throughput(pairs: &[(Client, Client)]) -> f64 {
    let each = MESSAGES / pairs.len();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (index, (from, to)) in pairs.iter().enumerate() {
            scope.spawn(move || {
                let mut open = 0;
                for _ in 0..each {
                    while open == WINDOW {
                        open -= usize::from(matches!(
                            from.events().recv().unwrap(),
                            Event::Accepted { .. }
                        ));
                    }
                    from.send(message(&format!("agent-{index}@pi"))).unwrap();
                    open += 1;
                }
                while open > 0 {
                    open -= usize::from(matches!(
                        from.events().recv().unwrap(),
                        Event::Accepted { .. }
                    ));
                }
            });
            scope.spawn(move || (0..each).for_each(|_| receive(to)));
        }
    });
    (each * pairs.len()) as f64 / begun.elapsed().as_secs_f64()
}

/// The 50th and the 99th percentile, in milliseconds.
fn percentiles(mut latencies: Vec<Duration>) -> (f64, f64) {
    latencies.sort();
    let at = |part: usize| latencies[latencies.len() * part / 100].as_secs_f64() * 1000.0;
    (at(50), at(99))
}

#[test]
fn figures() {
    println!("durability  replicas  path             p50 ms  p99 ms  messages/s");
    for durability in ["process", "disk"] {
        for (nats, replicas) in [(Nats::one(), 1), (Nats::three(), 3)] {
            measure(durability, &nats, replicas);
        }
    }
}

/// The hosts of a network and their agents, besides the host that is measured.
const HOSTS: usize = 49;
const AGENTS: usize = 20;

/// Threads and memory of a daemon and its bridge, joined by the agents of many hosts.
#[test]
fn threads_and_memory() {
    let (nats, mut pi) = (Nats::one(), Host::new("pi", &["bob"]));
    pi.start_bridge_with(&nats.urls(), &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let urls = nats.urls().split(',').map(str::to_owned).collect::<Vec<_>>();
    let client = runtime.block_on(async_nats::connect(urls)).unwrap();
    let exports: Vec<_> = (0..AGENTS).map(|agent| format!("agent-{agent}")).collect();
    until("the agents of all hosts", || {
        for host in 0..HOSTS {
            let name = format!("host-{host}");
            let beat = serde_json::json!({"version": 1, "host": name, "age_ms": 1000,
                "instance": format!("{host:016x}"), "exports": exports});
            let publish = client.publish(format!("relay-here.{name}"), beat.to_string().into());
            runtime.block_on(publish).unwrap();
        }
        runtime.block_on(client.flush()).unwrap();
        let agents = pi.command(&["agents"]);
        let here = agents.iter().filter(|line| line.contains("@host-")).count();
        (here == HOSTS * AGENTS).then_some(())
    });
    println!("{HOSTS} hosts, each with {AGENTS} agents   threads     MB");
    for (what, pid) in [("daemon", pi.daemon().id()), ("bridge", pi.bridge().id())] {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        };
        let (threads, kb) = (value("Threads:"), value("VmRSS:"));
        let [threads, mb] = [threads, kb.map(|kb| kb / 1000)]
            .map(|it| it.map_or_else(|| "?".to_owned(), |it| it.to_string()));
        println!("{what:<32}{threads:>7}{mb:>7}");
    }
}

fn measure(durability: &str, nats: &Nats, replicas: usize) {
    let names: Vec<_> = (0..PAIRS).map(|index| format!("agent-{index}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let config = format!("durability = \"{durability}\"\n");
    let mut hosts = ["desk", "pi"].map(|host| Host::with_config(host, &names, &config));
    connect(&mut hosts, &nats.urls(), &["--replicas", &replicas.to_string()]);
    let [desk, pi] = &hosts;
    let pairs: Vec<_> = names.iter().map(|name| (desk.join(name), pi.join(name))).collect();
    let mut bare = Bare::new(nats, replicas);

    let (mut bare_latencies, mut one_latencies, mut relay_latencies) =
        (Vec::new(), Vec::new(), Vec::new());
    let across = (&pairs[0].0, &pairs[0].1);
    let beside = (&pairs[0].0, &pairs[1].0);
    // The first messages of each are sent with cold caches and connections.
    bare.latencies(TURN, &mut Vec::new());
    latencies(across, "agent-0@pi", TURN, &mut Vec::new());
    for _ in 0..LATENCIES / TURN {
        bare.latencies(TURN, &mut bare_latencies);
        latencies(beside, "agent-1", TURN, &mut one_latencies);
        latencies(across, "agent-0@pi", TURN, &mut relay_latencies);
    }
    let (bare_p50, bare_p99) = percentiles(bare_latencies);
    let (one_p50, one_p99) = percentiles(one_latencies);
    let (p50, p99) = percentiles(relay_latencies);
    let row = |path: &str, latency: Option<(f64, f64)>, rate: Option<f64>| {
        let ms = |ms: Option<f64>| ms.map_or_else(String::new, |ms| format!("{ms:.2}"));
        let (p50, p99) = (ms(latency.map(|it| it.0)), ms(latency.map(|it| it.1)));
        let rate = rate.map_or_else(String::new, |rate| format!("{rate:.0}"));
        println!("{durability:<12}{replicas:<10}{path:<16}{p50:>7}{p99:>8}{rate:>12}");
    };
    row("bare JetStream", Some((bare_p50, bare_p99)), Some(bare.throughput()));
    row("one daemon", Some((one_p50, one_p99)), None);
    row("host to host", Some((p50, p99)), Some(throughput(&pairs[..1])));
    row(&format!("{PAIRS} pairs"), None, Some(throughput(&pairs)));
    println!("{:<22}p50 is {:.1} times that of bare JetStream", "", p50 / bare_p50);
}
