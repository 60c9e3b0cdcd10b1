//! The seeds of worlds, the threads that run them, and the way to run one of them again.
//!
//! `RELAY_SEEDS` and `RELAY_STEPS` set the number of worlds and of each world's steps; `RELAY_SEED`
//! runs one alone and shows its trace.

use crate::oracle::Checked;
use std::{
    collections::VecDeque,
    num::NonZero,
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// The number of worlds in a plain `cargo test`, and the steps of each world. `ci/simulation` runs
/// more.
const SEEDS: u64 = 40;
pub(super) const STEPS: usize = 200;

const LINES: usize = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

pub(super) fn steps() -> usize {
    number("RELAY_STEPS").map_or(STEPS, |steps| steps as usize)
}

fn seeds() -> Range<u64> {
    match number("RELAY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RELAY_SEEDS").unwrap_or(SEEDS),
    }
}

/// Returns the settings that run a world again.
fn replay(seed: u64, steps: usize) -> String {
    format!("replay with RELAY_SEED={seed} RELAY_STEPS={steps}")
}

/// Runs a world. A world that breaks a rule is run a second time, with a trace.
pub(super) fn run_traced(seed: u64, steps: usize, run: impl Fn(Trace) -> Checked) -> Checked {
    if number("RELAY_SEED").is_some() {
        return run(Trace::recording());
    }
    run(Trace::default()).or_else(|why| {
        run(Trace::recording())?;
        Err(format!("{why}, but not twice; {}", replay(seed, steps)))
    })
}

/// The last lines of what happened, if they are recorded.
#[derive(Debug, Default)]
pub(super) struct Trace(Option<VecDeque<String>>);

impl Trace {
    fn recording() -> Self {
        Self(Some(VecDeque::new()))
    }

    pub(super) fn note(&mut self, now: u64, line: impl FnOnce() -> String) {
        let Some(lines) = &mut self.0 else { return };
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(format!("{now:>7} {}", line()));
    }

    /// Returns the command that runs the world again, and the last lines.
    pub(super) fn text(&self, seed: u64, steps: usize, test: &str) -> String {
        let lines: Vec<_> = self.0.iter().flatten().map(String::as_str).collect();
        let replay = replay(seed, steps);
        format!(
            "{replay} cargo test --workspace --lib {test}; the last lines:\n{}",
            lines.join("\n")
        )
    }
}

/// Runs all worlds, with a thread for each core, until one breaks a rule.
pub(super) fn run_all(run: impl Fn(u64, usize) -> Checked + Sync) {
    let (seeds, steps) = (seeds(), steps());
    let (next, failure) = (AtomicU64::new(seeds.start), Mutex::new(None));
    let look = || {
        while failure.lock().expect("nobody panics with it").is_none() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return;
            }
            if let Err(why) = run(seed, steps) {
                failure.lock().expect("nobody panics with it").get_or_insert(why);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(look))));
    if let Some(failure) = failure.into_inner().expect("nobody panics with it") {
        panic!("{failure}");
    }
}
