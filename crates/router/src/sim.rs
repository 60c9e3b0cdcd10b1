//! The seeded simulation: worlds in which applications join, leave, stall, flood and break the
//! protocol, while the daemon crashes and its disk fails.
//!
//! All random decisions come from a seed, so that a failure can be run again (see `seeds`). After
//! each input, the router's outputs are checked against what the protocol promises (`promises`),
//! and the router's tables against each other (`audit`).

mod app;
mod audit;
mod disk;
mod once;
mod outcomes;
mod promises;
mod replay;
mod seeds;
mod sends;
mod steps;
mod world;

use super::{Limits, planted::Bug};
use std::thread;
use world::World;

/// The number of failures after which a message becomes a dead letter.
const FAILURES_MAX: u32 = 10;

const NAMES: [&str; 6] = ["ann", "bob", "cid", "dan", "eve", "fay"];
const TOPICS: [&str; 3] = ["build", "build.linux", "chat"];
const PATTERNS: [&str; 4] = ["build", "build.*", ">", "chat"];

#[test]
fn no_seed_breaks_a_promise() {
    seeds::run_all(|seed, steps| World::run(seed, steps, None));
}

/// The seeds of which one has to find a planted bug.
const BUGS_SEEDS: u64 = 250;

#[test]
fn planted_bugs_are_found() {
    thread::scope(|scope| {
        for (bug, sign) in [
            (Bug::SwappedOrder, "which is after"),
            (Bug::LostRedelivery, "held are"),
            (Bug::SilentDrop, "was not notified"),
            (Bug::LostReplay, "is due"),
            (Bug::AcceptedEarly, "is accepted before"),
            (Bug::ToldEarly, "is told before"),
            (Bug::ReusedNumbers, "has the number of"),
            (Bug::ForgottenFloors, "has the number of"),
            (Bug::CrowdedQueue, "in a queue"),
            (Bug::TwoOwners, "has two owners"),
            (Bug::ForgottenDoubles, "is stored for 2 recipients, but accepted for 1"),
            (Bug::ForgottenGuests, "is stored for 2 recipients, but accepted for 1"),
            (Bug::ForgottenAnswers, "was never notified"),
            (Bug::NoPatience, "is lost: Dead { code: GaveUp"),
            (Bug::ShortLives, "is lost: Dead { code: Expired"),
            (Bug::FirstAttempts, "comes again as if it came first"),
            (Bug::SwappedFrames, "which is after"),
            (Bug::ForgetfulLibrary, "is received twice by"),
        ] {
            scope.spawn(move || check_found(bug, sign));
        }
    });
}

/// Checks that a seed finds the bug, with this sign, and that the seed replays it.
fn check_found(bug: Bug, sign: &str) {
    // The bug may break other promises, too: such failures do not count.
    let breaks = |failure: &String| failure.contains(sign);
    let fails = |seed| {
        let failure = World::run(seed, seeds::STEPS, Some(bug)).err().filter(breaks)?;
        Some((seed, failure))
    };
    let found = (0..BUGS_SEEDS).find_map(fails);
    let (seed, failure) = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
    assert!(failure.contains("RELAY_SEED="), "{bug:?}: {failure}");
    let again = World::run(seed, seeds::STEPS, Some(bug));
    assert_eq!(again, Err(failure), "its seed replays it");
}

/// Limits so small that the worlds reach every one of them, except for the dedup windows. An
/// application that waits for more answers than a window remembers SENDs may have a SEND accepted
/// twice.
fn limits() -> Limits {
    Limits {
        heartbeat_ms: 1_000,
        handshake_ms: 700,
        ttl_ms: 600_000,
        queue_messages_max: 12,
        queue_bytes_max: 9_000,
        memory_bytes_max: 40_000,
        clients_max: 8,
        names_max: 9,
        streams_max: 10,
        operator_mail_ms: 600_000,
        unauthenticated_max: 3,
        subscriptions_max: 3,
        resume_window_ms: 20_000,
        replay_messages_max: 5,
        replay_bytes_max: 3_000,
        dedup_max: 4_096,
        dedup_total_max: 1 << 16,
        backlog_max: 60,
        answers_bytes_max: 2_000,
        waiting_answers_bytes_max: 3_000,
        window_bytes: 1_000,
        ..Limits::default()
    }
}
