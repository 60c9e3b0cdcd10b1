//! The seeded simulation: worlds in which applications join, leave, stall, flood and break the
//! protocol, while the daemon crashes and its disk fails.
//!
//! Everything comes from a seed, so a failure can be run again (see `seeds`). After each input
//! judges compare what the router does with what was promised, and the router's tables are added up
//! anew.

mod app;
mod audit;
mod disk;
mod once;
mod outcomes;
mod promises;
mod replay;
mod seeds;
mod steps;
mod world;

use super::{
    Limits, Router, StreamKey,
    client::{Stage, What},
    ledger::Promise,
    message::State,
};
use crate::protocol::Moment;
use world::World;

/// A planted bug, which the simulation has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Canary {
    /// Two messages of a stream change places.
    SwappedOrder,
    /// Deliveries in flight are forgotten when their connection ends.
    LostRedelivery,
    /// Messages that an ended connection did not read are dropped without a notice.
    SilentDrop,
    /// The first missed message is not replayed.
    LostReplay,
    /// Messages are accepted before they are persisted.
    AcceptedEarly,
    /// Reserved stream numbers are used again after a crash.
    ReusedNumbers,
    /// Streams that were closed begin at number 1 again.
    ForgottenFloors,
    /// Queues exceed their bounds.
    CrowdedQueue,
    /// Names in use are given away.
    TwoOwners,
    /// After a crash nobody knows what was taken before.
    ForgottenDoubles,
    /// Notices are gone after a crash.
    ForgottenAnswers,
    /// Messages are given up long before their time.
    NoPatience,
    /// Messages expire while they have time to live left.
    ShortLives,
    /// Redeliveries are marked as first attempts.
    FirstAttempts,
    /// The last two frames of a connection leave in the wrong order.
    SwappedFrames,
    /// The client library forgets what was heard when its connection ends.
    ForgetfulLibrary,
}

/// Failures after which a message is a dead letter.
const FAILURES_MAX: u32 = 10;

const NAMES: [&str; 6] = ["ann", "bob", "cid", "dan", "eve", "fay"];
const TOPICS: [&str; 3] = ["build", "build.linux", "chat"];
const PATTERNS: [&str; 4] = ["build", "build.*", ">", "chat"];

#[test]
fn no_seed_breaks_a_promise() {
    seeds::run_all(|seed, steps| World::run(seed, steps, None));
}

#[test]
fn planted_bugs_are_found() {
    for (canary, sign) in [
        (Canary::SwappedOrder, "which is after"),
        (Canary::LostRedelivery, "held are"),
        (Canary::SilentDrop, "was not notified"),
        (Canary::LostReplay, "is due"),
        (Canary::AcceptedEarly, "is accepted before"),
        (Canary::ReusedNumbers, "has the number of"),
        (Canary::ForgottenFloors, "has the number of"),
        (Canary::CrowdedQueue, "in a queue"),
        (Canary::TwoOwners, "has two owners"),
        (Canary::ForgottenDoubles, "is kept for 2, not 1"),
        (Canary::ForgottenAnswers, "was never notified"),
        (Canary::NoPatience, "is lost: Dead { code: GaveUp"),
        (Canary::ShortLives, "is lost: Dead { code: Expired"),
        (Canary::FirstAttempts, "comes again as if it came first"),
        (Canary::SwappedFrames, "which is after"),
        (Canary::ForgetfulLibrary, "is received twice by"),
    ] {
        // It may break other promises, too.
        let breaks = |failure: &String| failure.contains(sign);
        let fails = |seed| {
            let failure = World::run(seed, seeds::STEPS, Some(canary)).err().filter(breaks)?;
            Some((seed, failure))
        };
        let found = (0..seeds::SEEDS).find_map(fails);
        let (seed, failure) = found.unwrap_or_else(|| panic!("{canary:?} was not found"));
        assert!(failure.contains("RELAY_SEED="), "{canary:?}: {failure}");
        let again = World::run(seed, seeds::STEPS, Some(canary));
        assert_eq!(again, Err(failure), "its seed replays it");
    }
}

/// Limits so small that every one is met, but for dedup: an application that waits for more answers
/// than SENDs are remembered may have one accepted twice.
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
        streams_max: 14,
        strangers_max: 3,
        subscriptions_max: 3,
        resume_window_ms: 20_000,
        replay_messages_max: 5,
        replay_bytes_max: 3_000,
        doubles_max: 4_096,
        doubles_total_max: 1 << 16,
        backlog_max: 60,
        answers_bytes_max: 2_000,
        waiting_answers_bytes_max: 3_000,
        window_bytes: 1_000,
        ..Limits::default()
    }
}

impl Router {
    pub(super) fn has(&self, canary: Canary) -> bool {
        self.canary == Some(canary)
    }

    /// The canary that doesn't wait for the disk.
    pub(super) fn accept_early(&mut self, promise: Option<Promise>) -> Option<Promise> {
        if !self.has(Canary::AcceptedEarly) {
            return promise;
        }
        promise.inspect(|promise| self.accept(promise)).and(None)
    }

    /// The canary that swaps: the second message of a stream goes first.
    pub(super) fn swapped(&self, stream: StreamKey) -> Option<super::MessageKey> {
        let (_, second) = self.streams[stream].waiting.get(1)?;
        let is_kept = self.messages[*second].kept().is_some();
        let first_is_kept = self.streams[stream].turn.is_some_and(|turn| turn.kept);
        (self.canary == Some(Canary::SwappedOrder) && is_kept == first_is_kept).then_some(*second)
    }

    /// The canary that forgets: what was on the way to an agent is gone.
    pub(super) fn lose_redelivery(&mut self, agent: super::AgentKey) {
        if self.canary != Some(Canary::LostRedelivery) {
            return;
        }
        for stream in self.roster[agent].hears.clone() {
            let first = self.streams[stream].waiting.front().map(|(_, key)| *key);
            if let Some(key) = first {
                self.settle(key);
            }
        }
    }

    /// The canary that gives up early.
    pub(super) fn patience(&self, failures_max: u32) -> u32 {
        if self.has(Canary::NoPatience) { 2 } else { failures_max }
    }

    /// The canary that is in a hurry.
    pub(super) fn shortened(&self, expires: Moment) -> Moment {
        let ms = if self.has(Canary::ShortLives) { 100 } else { 0 };
        Moment(expires.0.saturating_sub(ms))
    }

    /// The canary that forgets what was missed.
    pub(super) fn loses_replay(&self) -> bool {
        self.canary == Some(Canary::LostReplay)
    }
}
