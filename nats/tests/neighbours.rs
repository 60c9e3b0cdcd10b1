//! Hosts of this version and of the version before exchange messages while they are upgraded one
//! after the other, over NATS and over a link.
//!
//! `AGENT_RELAY_BEFORE` and `AGENT_RELAY_NATS_BEFORE` are the programs of the version before, which
//! `ci/machines --all` builds. Without them, nothing is tested.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy recognizes only functions with `#[test]` as tests"
)]
#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]

mod support;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use support::{
    host::{Host, Programs},
    nats::Nats,
    traffic::{Traffic, pairs},
    until,
};

/// The messages that each of the two agents sends.
const EACH: usize = 200;

/// The time that sending them takes, so that some are in flight during each upgrade.
const TIME: Duration = Duration::from_secs(10);

/// More agents of a host than the earlier version accepts.
const MANY: usize = 24;

/// The programs of the version before.
fn before() -> Option<Programs> {
    let before = Programs::before();
    if before.is_none() {
        println!("skipped: AGENT_RELAY_BEFORE and AGENT_RELAY_NATS_BEFORE name no programs");
    }
    before
}

fn hosts(before: &Programs) -> [Host; 2] {
    [("desk", "Ann"), ("pi", "Bob")].map(|(name, agent)| Host::of_version(name, &[agent], before))
}

/// Waits until both agents are known on the other host.
fn await_agents([desk, pi]: &[Host; 2]) {
    for (host, agent) in [(desk, "Bob@pi"), (pi, "Ann@desk")] {
        until(&format!("{agent} on {}", host.name), || {
            host.command(&["agents"]).iter().any(|line| line.contains(agent)).then_some(())
        });
    }
}

/// Lets both agents send, and upgrades the hosts in this order meanwhile: `restart` restarts the
/// bridges of a host after the upgrade of its daemon.
fn upgrade(mut hosts: [Host; 2], order: [usize; 2], restart: impl Fn(&mut [Host; 2], usize)) {
    await_agents(&hosts);
    let (traffic, stop) = (Traffic::default(), AtomicBool::new(false));
    let clients = [hosts[0].join("Ann"), hosts[1].join("Bob")];
    let names = ["Ann@desk", "Bob@pi"];
    thread::scope(|scope| {
        for (at, client) in clients.iter().enumerate() {
            let (traffic, stop) = (&traffic, &stop);
            scope.spawn(move || {
                let others = [names[1 - at].to_owned()];
                let stop = || stop.load(Ordering::Relaxed);
                traffic.run(names[at], client, &others, (EACH, TIME), &stop);
            });
        }
        for (step, at) in order.into_iter().enumerate() {
            until("more messages", || (traffic.count() >= EACH * (step + 1) / 2).then_some(()));
            hosts[at].change_version(&Programs::built());
            restart(&mut hosts, at);
        }
        until("all messages", || {
            let is_over = traffic.count() >= 2 * EACH || !traffic.faults().is_empty();
            is_over.then_some(())
        });
        stop.store(true, Ordering::Relaxed);
    });
    let lines = hosts.each_ref().map(|host| host.last_bridge_lines(20));
    traffic.check(&pairs(&hosts), EACH).unwrap_or_else(|why| panic!("{why}\n{lines:#?}"));
}

/// The arguments that export more agents than the earlier version accepts.
fn many() -> Vec<String> {
    (0..MANY).flat_map(|number| ["--export".to_owned(), format!("more-{number}")]).collect()
}

#[test]
fn hosts_over_nats_are_upgraded_one_after_the_other() {
    let Some(before) = before() else { return };
    for order in [[0, 1], [1, 0]] {
        let nats = Nats::one();
        let mut hosts = hosts(&before);
        for host in &mut hosts {
            host.start_bridge_with(&nats.urls(), &[]);
        }
        upgrade(hosts, order, |hosts, at| {
            hosts[at].stop_bridge();
            hosts[at].start_bridge();
        });
    }
}

#[test]
fn hosts_over_a_link_are_upgraded_one_after_the_other() {
    let Some(before) = before() else { return };
    for order in [[0, 1], [1, 0]] {
        let mut hosts = hosts(&before);
        let [desk, pi] = &mut hosts;
        desk.start_link(pi, &[]);
        upgrade(hosts, order, |[desk, pi], _| {
            desk.stop_bridge();
            desk.start_link(pi, &[]);
        });
    }
}

#[test]
fn host_of_the_version_before_takes_the_first_agents_of_this_one() {
    let Some(before) = before() else { return };
    let nats = Nats::one();
    let many = many();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for is_link in [false, true] {
        let mut hosts = hosts(&before);
        hosts[0].change_version(&Programs::built());
        let [desk, pi] = &mut hosts;
        if is_link {
            desk.start_link(pi, &many);
        } else {
            desk.start_bridge_with(&nats.urls(), &many);
            pi.start_bridge_with(&nats.urls(), &[]);
        }
        desk.bridge().line("which takes 20 agents of 25: not more-19, more-20");
        await_agents(&hosts);
        let known = until("the first 20 agents", || {
            let known = hosts[1].command(&["agents"]);
            (known.iter().filter(|line| line.contains("@desk")).count() >= 20).then_some(known)
        });
        let knows = |agent: &str| known.iter().any(|line| line.starts_with(agent));
        assert!(knows("more-18@desk") && !knows("more-19@desk"), "{known:#?}");
    }
}
