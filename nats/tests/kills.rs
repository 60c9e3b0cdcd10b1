//! Messages between hosts while daemons, bridges and NATS servers are killed at random: none is
//! lost or doubled, and the order of each pair is kept.
//!
//! `AGENT_RELAY_NATS_MESSAGES` is the number of messages, `AGENT_RELAY_NATS_AGENTS` the number of
//! agents on all three hosts, `AGENT_RELAY_NATS_SECONDS` the time over which they send, and
//! `AGENT_RELAY_NATS_SEED` the seed of the kills.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy recognizes only functions with `#[test]` as tests"
)]
#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]

mod support;

use std::{
    env,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use support::{
    WATCHDOG,
    host::{Host, connect},
    nats::{Nats, api},
    random::Random,
    traffic::{Traffic, pairs},
    until,
};

const HOSTS: [&str; 3] = ["desk", "pi", "lab.1"];

/// The longest pause between two kills, in milliseconds.
const PAUSE_MS: u64 = 1000;

/// The silence after which nothing is killed until a message comes: NATS needs its servers for
/// some seconds without a crash to redeliver.
const CALM: Duration = Duration::from_secs(20);

/// The time after the last message in which no further one may come.
const SILENCE: Duration = Duration::from_secs(1);

/// The longest time that a bridge or a NATS server is away, in milliseconds.
const AWAY_MS: u64 = 1500;

fn number(name: &str, default: usize) -> usize {
    let text = env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

#[derive(Debug, Default)]
struct Kills {
    daemons: usize,
    bridges: usize,
    servers: usize,
}

#[test]
fn one_server() {
    run(Nats::one(), 1);
}

#[test]
fn cluster_of_three() {
    run(Nats::three(), 3);
}

fn run(mut nats: Nats, replicas: usize) {
    let agents = number("AGENT_RELAY_NATS_AGENTS", 9) / HOSTS.len();
    let messages = number("AGENT_RELAY_NATS_MESSAGES", 2000);
    let seed = number("AGENT_RELAY_NATS_SEED", 1) as u64;
    let time = Duration::from_secs(number("AGENT_RELAY_NATS_SECONDS", 20) as u64);
    let names: Vec<_> = (0..agents).map(|index| format!("agent-{index}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut hosts = HOSTS.map(|host| Host::new(host, &names));
    connect(&mut hosts, &nats.urls(), &["--replicas", &replicas.to_string()]);
    let pairs = pairs(&hosts);
    let each = messages.div_ceil(pairs.len());
    let total = each * pairs.len();
    println!("{replicas} servers, {} agents, {total} messages", agents * HOSTS.len());

    // The agents send once all have joined.
    let mut clients = Vec::new();
    for host in &hosts {
        let joined =
            host.agents.iter().map(|agent| (host.name.clone(), agent.clone(), host.join(agent)));
        clients.extend(joined);
    }
    let (traffic, is_over) = (Traffic::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for (host, agent, client) in clients {
            let me = format!("{agent}@{host}");
            let others = pairs.iter().filter(|(from, _)| *from == me);
            let others: Vec<_> = others.map(|(_, to)| to.clone()).collect();
            let (traffic, is_over) = (&traffic, &is_over);
            scope.spawn(move || {
                let stop = || is_over.load(Ordering::Relaxed);
                traffic.run(&me, &client, &others, (each, time), &stop);
            });
        }
        kill_until(total, seed, &traffic, &mut hosts, &mut nats);
        if traffic.count() >= total {
            // A message that comes twice would come by now.
            thread::sleep(SILENCE);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    if let Err(why) = traffic.check(&pairs, each) {
        print_state(&hosts, &nats);
        panic!("{why}");
    }
    let urls = nats.urls();
    for host in HOSTS {
        let token = host.replace('.', "~");
        let subject = format!("$JS.API.CONSUMER.INFO.RELAY_{token}.{token}");
        until("a consumer without messages", || {
            let info = api(&urls, &subject)?;
            (info["num_pending"] == 0 && info["num_ack_pending"] == 0).then_some(())
        });
        let subject = format!("$JS.API.STREAM.INFO.RELAY_{token}");
        until("an empty stream", || {
            (api(&urls, &subject)?["state"]["messages"] == 0).then_some(())
        });
    }
}

/// Kills processes until so many messages have come, or none comes for long.
fn kill_until(total: usize, seed: u64, traffic: &Traffic, hosts: &mut [Host; 3], nats: &mut Nats) {
    let (mut kills, mut random) = (Kills::default(), Random::new(seed));
    let (begun, mut last, mut changed, mut is_calm) = (Instant::now(), 0, Instant::now(), false);
    while traffic.count() < total && traffic.faults().is_empty() && changed.elapsed() < WATCHDOG {
        if changed.elapsed() < CALM {
            kill_one(&mut random, hosts, nats, &mut kills);
        } else if !is_calm {
            is_calm = true;
            println!("nothing comes since {} s", changed.elapsed().as_secs());
            print_state(hosts, nats);
        } else {
            thread::sleep(Duration::from_millis(PAUSE_MS));
        }
        if traffic.count() != last {
            if is_calm {
                println!("nothing came for {} s", changed.elapsed().as_secs());
            }
            (last, changed, is_calm) = (traffic.count(), Instant::now(), false);
        }
    }
    println!("{kills:?} in {} s", begun.elapsed().as_secs());
}

/// Prints what the bridges and JetStream say.
fn print_state(hosts: &[Host], nats: &Nats) {
    for host in hosts {
        let token = host.name.replace('.', "~");
        let subject = format!("$JS.API.CONSUMER.INFO.RELAY_{token}.{token}");
        if let Some(mut info) = api(&nats.urls(), &subject) {
            info["config"].take();
            println!("{info}");
        }
        let lines = host.bridge().lines();
        println!("{}:\n{}", host.name, lines[lines.len().saturating_sub(8)..].join("\n"));
    }
}

/// Kills one process, starts it again, and waits until the next may be killed.
fn kill_one(random: &mut Random, hosts: &mut [Host; 3], nats: &mut Nats, kills: &mut Kills) {
    thread::sleep(Duration::from_millis(random.below(PAUSE_MS)));
    let host = usize::try_from(random.below(3)).unwrap();
    let away = Duration::from_millis(random.below(AWAY_MS));
    match random.below(3) {
        0 => {
            kills.daemons += 1;
            hosts[host].kill_daemon();
            hosts[host].start_daemon();
        }
        1 => {
            kills.bridges += 1;
            hosts[host].kill_bridge();
            thread::sleep(away);
            hosts[host].start_bridge();
        }
        _ => {
            let server = host % nats.count();
            if (0..nats.count()).any(|index| !nats.is_healthy(index)) {
                return;
            }
            kills.servers += 1;
            nats.kill(server);
            thread::sleep(away);
            nats.start(server);
        }
    }
}
