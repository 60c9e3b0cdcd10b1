//! Messages between hosts while daemons, bridges and NATS servers are killed, servers paused, and
//! streams filled and deleted, at random: none is lost or doubled, and the order of each pair is
//! kept.
//!
//! `AGENT_RELAY_NATS_MESSAGES` is the number of messages, `AGENT_RELAY_NATS_AGENTS` the number of
//! agents on all three hosts, `AGENT_RELAY_NATS_SECONDS` the time over which they send, and
//! `AGENT_RELAY_NATS_SEED` the seed of the faults.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy recognizes only functions with `#[test]` as tests"
)]
#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]

mod support;

use std::{
    collections::VecDeque,
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

/// The longest pause between two faults, in milliseconds.
const PAUSE_MS: u64 = 1000;

/// The silence that stops faults until a message comes: NATS needs its servers for some seconds
/// without a crash to redeliver.
const CALM: Duration = Duration::from_secs(20);

/// The longest time that a bridge or a NATS server is away, in milliseconds.
const AWAY_MS: u64 = 1500;

/// The longest stop of a NATS server, in milliseconds.
const STOPPED_MS: u64 = 3000;

/// The longest time that a bridge is away while further faults are made, in milliseconds.
const OUTAGE_MS: u64 = 6000;

/// The lines of each host's bridges that a failure prints.
const LINES: usize = 40;

fn number(name: &str, default: usize) -> usize {
    let text = env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Information about a host's stream.
fn stream_info(host: &str) -> String {
    format!("$JS.API.STREAM.INFO.RELAY_{}", host.replace('.', "~"))
}

fn delete_stream(host: &str) -> String {
    format!("$JS.API.STREAM.DELETE.RELAY_{}", host.replace('.', "~"))
}

/// Information about a host's consumer.
fn consumer_info(host: &str) -> String {
    let token = host.replace('.', "~");
    format!("$JS.API.CONSUMER.INFO.RELAY_{token}.{token}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    KillDaemon,
    KillBridge,
    /// Kills a bridge that stays away during further faults.
    BridgeOutage,
    KillServer,
    /// Kills the server that leads a host's stream or consumer.
    KillLeader,
    /// Stops a server, and continues it.
    PauseServer,
    /// Deletes a host's stream with all that is in it.
    DeleteStream,
}

/// The faults of each round, in a random order.
const ROUND: [Kind; 9] = [
    Kind::KillDaemon,
    Kind::KillDaemon,
    Kind::KillBridge,
    Kind::BridgeOutage,
    Kind::KillServer,
    Kind::KillServer,
    Kind::KillLeader,
    Kind::PauseServer,
    Kind::DeleteStream,
];

#[derive(Debug)]
struct Fault {
    kind: Kind,
    pause: Duration,
    /// The host, or a number that chooses the server.
    host: usize,
    /// The part of the longest time away.
    away: f64,
    of_stream: bool,
    /// Whether a bridge is asked to end, so that it tells the other hosts.
    is_gentle: bool,
}

impl Fault {
    fn is_of_server(&self) -> bool {
        matches!(
            self.kind,
            Kind::KillServer | Kind::KillLeader | Kind::PauseServer | Kind::DeleteStream
        )
    }

    fn away(&self, longest_ms: u64) -> Duration {
        Duration::from_millis(longest_ms).mul_f64(self.away)
    }
}

/// The faults that a seed determines.
#[derive(Debug)]
struct Plan {
    random: Random,
    faults: VecDeque<Fault>,
}

impl Plan {
    /// The next fault. Those of servers are postponed while a server is not healthy.
    fn next(&mut self, are_servers_healthy: bool) -> Fault {
        let can_be = |fault: &Fault| are_servers_healthy || !fault.is_of_server();
        loop {
            if let Some(index) = self.faults.iter().position(can_be) {
                return self.faults.remove(index).unwrap();
            }
            let (random, mut kinds) = (&mut self.random, ROUND.to_vec());
            while !kinds.is_empty() {
                self.faults.push_back(Fault {
                    kind: kinds.swap_remove(random.below(kinds.len() as u64) as usize),
                    pause: Duration::from_millis(random.below(PAUSE_MS)),
                    host: random.below(3) as usize,
                    away: random.below(1000) as f64 / 1000.0,
                    of_stream: random.below(2) == 0,
                    is_gentle: random.below(2) == 0,
                });
            }
        }
    }
}

/// The numbers of faults.
#[derive(Debug, Default)]
struct Counts {
    daemons: usize,
    /// Also those with an outage.
    bridges: usize,
    outages: usize,
    /// Also the leaders.
    servers: usize,
    leaders: usize,
    pauses: usize,
    /// The streams that were deleted.
    streams: usize,
}

impl Counts {
    /// Whether each kind of process was killed, and a stream deleted.
    fn have_each(&self) -> bool {
        self.daemons > 0 && self.bridges > 0 && self.servers > 0 && self.streams > 0
    }
}

/// The source of faults.
#[derive(Debug)]
struct Faults<'a> {
    plan: Plan,
    hosts: &'a mut [Host; 3],
    nats: &'a mut Nats,
    counts: Counts,
    /// The host with a stopped bridge, and the end of that.
    outage: Option<(usize, Instant)>,
}

impl Faults<'_> {
    /// Makes one fault, and ends it, unless it is an outage.
    fn make_one(&mut self) {
        let are_healthy = (0..self.nats.count()).all(|index| self.nats.is_healthy(index));
        let fault = self.plan.next(are_healthy);
        thread::sleep(fault.pause);
        self.end_outage(false);
        let server = fault.host % self.nats.count();
        match fault.kind {
            Kind::KillDaemon => {
                self.counts.daemons += 1;
                self.hosts[fault.host].kill_daemon();
                self.hosts[fault.host].start_daemon();
            }
            Kind::KillBridge => {
                self.counts.bridges += 1;
                let is_away = self.outage.is_some_and(|(away, _)| away == fault.host);
                let host = (fault.host + usize::from(is_away)) % HOSTS.len();
                if fault.is_gentle {
                    self.hosts[host].stop_bridge();
                } else {
                    self.hosts[host].kill_bridge();
                }
                thread::sleep(fault.away(AWAY_MS));
                self.hosts[host].start_bridge();
            }
            Kind::BridgeOutage => {
                self.end_outage(true);
                self.counts.bridges += 1;
                self.counts.outages += 1;
                self.hosts[fault.host].kill_bridge();
                self.outage = Some((fault.host, Instant::now() + fault.away(OUTAGE_MS)));
            }
            Kind::KillServer => self.kill_server(server, fault.away(AWAY_MS)),
            Kind::KillLeader => {
                let host = HOSTS[fault.host];
                let subject = if fault.of_stream { stream_info(host) } else { consumer_info(host) };
                let leader = self.nats.leader(&subject);
                self.counts.leaders += usize::from(leader.is_some());
                self.kill_server(leader.unwrap_or(server), fault.away(AWAY_MS));
            }
            Kind::PauseServer => {
                self.counts.pauses += 1;
                self.nats.signal(server, "STOP");
                thread::sleep(fault.away(STOPPED_MS));
                self.nats.signal(server, "CONT");
            }
            Kind::DeleteStream => {
                let deleted = api(&self.nats.urls(), &delete_stream(HOSTS[fault.host]));
                let is_deleted = deleted.is_some_and(|answer| answer["success"] == true);
                self.counts.streams += usize::from(is_deleted);
            }
        }
    }

    fn kill_server(&mut self, server: usize, away: Duration) {
        self.counts.servers += 1;
        self.nats.kill(server);
        thread::sleep(away);
        self.nats.start(server);
    }

    /// Starts the bridge that is away, if it is time or `now`.
    fn end_outage(&mut self, now: bool) {
        if let Some((host, _)) = self.outage.take_if(|(_, end)| now || *end <= Instant::now()) {
            self.hosts[host].start_bridge();
        }
    }
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
    // Such a stream takes 16 messages of each host, so it is full whenever its bridge is away.
    let more = ["--max-mib", "1", "--replicas", &replicas.to_string()];
    until("streams", || nats.try_set_up(&HOSTS, &more).ok());
    connect(&mut hosts, &nats.urls(), &[]);
    let pairs = pairs(&hosts);
    let each = messages.div_ceil(pairs.len());
    let total = each * pairs.len();
    println!("{replicas} servers, {} agents, {total} messages", agents * HOSTS.len());
    for host in HOSTS {
        // For comparison with the times in a failure's output. They may differ by milliseconds
        // although the consumer is the same, since each server has its own.
        let info = api(&nats.urls(), &consumer_info(host)).unwrap();
        println!("{host}: consumer of {}", info["created"]);
    }

    // The agents send once all have joined.
    let mut clients = Vec::new();
    for host in &hosts {
        let joined =
            host.agents.iter().map(|agent| (host.name.clone(), agent.clone(), host.join(agent)));
        clients.extend(joined);
    }
    let (traffic, is_over) = (Traffic::default(), AtomicBool::new(false));
    let mut counts = Counts::default();
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
        let _end = EndOnDrop(&is_over);
        counts = make_faults_until(total, seed, &traffic, &mut hosts, &mut nats);
        if traffic.count() >= total {
            let _printer = StateOnPanic(&hosts, &nats);
            wait_until_nothing_is_on_its_way(&hosts, &nats.urls());
        }
    });
    let _printer = StateOnPanic(&hosts, &nats);
    if let Err(why) = traffic.check(&pairs, each) {
        panic!("{why}");
    }
    assert!(counts.have_each(), "{counts:?}");
    let says_full = |host: &Host| {
        let lines = host.last_bridge_lines(usize::MAX);
        lines.iter().any(|line| line.contains("is full"))
    };
    assert!(hosts.iter().any(says_full), "no host found a stream full");
}

/// Ends the traffic when dropped, also after a failed check.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until neither NATS nor a daemon has a message that may still come to an agent. All
/// duplicates have come then.
fn wait_until_nothing_is_on_its_way(hosts: &[Host], urls: &str) {
    for host in HOSTS {
        until(&format!("a consumer of {host} without messages"), || {
            let info = api(urls, &consumer_info(host))?;
            (info["num_pending"] == 0 && info["num_ack_pending"] == 0).then_some(())
        });
        until(&format!("an empty stream of {host}"), || {
            (api(urls, &stream_info(host))?["state"]["messages"] == 0).then_some(())
        });
    }
    for host in hosts {
        until(&format!("agents of {} for whom nothing waits", host.name), || {
            waiting(host)?.is_empty().then_some(())
        });
    }
}

/// Returns the agents of a host for whom something waits. `None` if the command fails.
fn waiting(host: &Host) -> Option<Vec<serde_json::Value>> {
    let agents = host.command(&["agents", "--json"]);
    let agents = agents.iter().map(|line| serde_json::from_str(line).ok());
    let mut agents = agents.collect::<Option<Vec<serde_json::Value>>>()?;
    // Each host has agents: no line means that the command failed.
    let has_failed = agents.is_empty();
    agents.retain(|agent| agent["waiting"] != 0 || agent["in_flight"] != 0);
    (!has_failed).then_some(agents)
}

/// Makes faults until enough messages have come and each kind of process was killed, or no message
/// comes for long.
fn make_faults_until(
    total: usize,
    seed: u64,
    traffic: &Traffic,
    hosts: &mut [Host; 3],
    nats: &mut Nats,
) -> Counts {
    let plan = Plan { random: Random::new(seed), faults: VecDeque::new() };
    let mut faults = Faults { plan, hosts, nats, counts: Counts::default(), outage: None };
    let (begun, mut last, mut changed, mut is_calm) = (Instant::now(), 0, Instant::now(), false);
    while (traffic.count() < total || !faults.counts.have_each())
        && traffic.faults().is_empty()
        && changed.elapsed() < WATCHDOG
    {
        if changed.elapsed() < CALM {
            faults.make_one();
        } else if !is_calm {
            is_calm = true;
            faults.end_outage(true);
            println!("nothing comes since {} s", changed.elapsed().as_secs());
            print_state(faults.hosts, faults.nats);
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
    faults.end_outage(true);
    println!("{:?} in {} s", faults.counts, begun.elapsed().as_secs());
    faults.counts
}

/// Prints the state if the test fails.
struct StateOnPanic<'a>(&'a [Host], &'a Nats);

impl Drop for StateOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            print_state(self.0, self.1);
        }
    }
}

/// Prints the output of the bridges and JetStream, and the waiting messages.
fn print_state(hosts: &[Host], nats: &Nats) {
    for host in hosts {
        println!("== {}", host.name);
        for subject in [stream_info(&host.name), consumer_info(&host.name)] {
            match api(&nats.urls(), &subject) {
                Some(mut info) => {
                    info["config"].take();
                    println!("{info}");
                }
                None => println!("{subject}: no answer"),
            }
        }
        println!("{}", host.last_bridge_lines(LINES).join("\n"));
        for agent in waiting(host).unwrap_or_default() {
            println!("{agent}");
            let name = agent["name"].as_str().unwrap();
            let messages = host.command(&["history", "--with", name, "--limit", "1000", "--json"]);
            let open = messages.iter().filter(|line| !line.contains(r#""state":"acknowledged""#));
            open.for_each(|line| println!("{line}"));
        }
    }
}
