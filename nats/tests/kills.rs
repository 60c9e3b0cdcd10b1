//! Messages between hosts while daemons, bridges and NATS servers are killed at random: none is
//! lost or doubled, and the order of each pair is kept.
//!
//! `AGENT_RELAY_NATS_MESSAGES` is the number of messages, `AGENT_RELAY_NATS_AGENTS` the number of
//! agents on all three hosts, `AGENT_RELAY_NATS_SEED` the seed of the kills.

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
const PAUSE_MS: u64 = 1500;

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
    let names: Vec<_> = (0..agents).map(|index| format!("agent-{index}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut hosts = HOSTS.map(|host| Host::new(host, &names));
    connect(&mut hosts, &nats.urls(), &["--replicas", &replicas.to_string()]);
    let pairs = pairs(&hosts);
    let each = messages.div_ceil(pairs.len());
    let total = each * pairs.len();
    println!("{replicas} servers, {} agents, {total} messages", agents * HOSTS.len());

    // Nobody sends before everybody is there.
    let mut clients = Vec::new();
    for host in &hosts {
        let joined =
            host.agents.iter().map(|agent| (host.name.clone(), agent.clone(), host.join(agent)));
        clients.extend(joined);
    }
    let (traffic, is_over) = (Traffic::default(), AtomicBool::new(false));
    let begun = Instant::now();
    let mut kills = Kills::default();
    thread::scope(|scope| {
        for (host, agent, client) in clients {
            let me = format!("{agent}@{host}");
            let others = pairs.iter().filter(|(from, _)| *from == me);
            let others: Vec<_> = others.map(|(_, to)| to.clone()).collect();
            let (traffic, is_over) = (&traffic, &is_over);
            scope.spawn(move || {
                let stop = || is_over.load(Ordering::Relaxed);
                traffic.run(&host, &agent, &client, &others, each, &stop);
            });
        }
        let mut random = Random::new(seed);
        let (mut last, mut changed) = (0, Instant::now());
        while traffic.count() < total && traffic.faults().is_empty() {
            if changed.elapsed() < CALM {
                kill_one(&mut random, &mut hosts, &mut nats, &mut kills);
            } else {
                thread::sleep(Duration::from_millis(PAUSE_MS));
            }
            if traffic.count() != last {
                if changed.elapsed() > CALM {
                    println!("nothing came for {} s", changed.elapsed().as_secs());
                }
                (last, changed) = (traffic.count(), Instant::now());
            }
            if changed.elapsed() > WATCHDOG {
                break;
            }
        }
        if traffic.count() >= total {
            // A message that comes twice would come by now.
            thread::sleep(SILENCE);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    println!("{kills:?} in {} s", begun.elapsed().as_secs());
    if let Err(why) = traffic.check(&pairs, each) {
        for host in &hosts {
            let subject = format!("$JS.API.CONSUMER.INFO.RELAY.{}", host.name.replace('.', "~"));
            println!("{:#?}", api(&nats.urls(), &subject));
            println!("{}:\n{}", host.name, host.bridge().lines().join("\n"));
        }
        panic!("{why}");
    }
    let urls = nats.urls();
    for host in HOSTS {
        let subject = format!("$JS.API.CONSUMER.INFO.RELAY.{}", host.replace('.', "~"));
        until("a consumer without messages", || {
            let info = api(&urls, &subject)?;
            (info["num_pending"] == 0 && info["num_ack_pending"] == 0).then_some(())
        });
    }
    let left = until("the stream's state", || api(&urls, "$JS.API.STREAM.INFO.RELAY"));
    println!("{} acknowledged messages are left in the stream", left["state"]["messages"]);
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
