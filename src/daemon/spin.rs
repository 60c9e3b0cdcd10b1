//! Adaptive spinning: polling the inbox for a short time before parking, while traffic is dense.
//!
//! Waking a parked thread takes longer than routing a message. So the router's thread polls for
//! some tens of microseconds, but only if there is another core, and only while that succeeds: an
//! idle daemon parks at once and uses no processor.

use crossbeam_channel::Receiver;
use std::{
    hint, thread,
    time::{Duration, Instant},
};

/// The time for which the thread polls before it parks.
const SPIN: Duration = Duration::from_micros(30);

/// The number of consecutive empty polls after which the thread parks without polling.
const MISSES_MAX: u32 = 4;

/// The longest time from parking to the next event in dense traffic.
const DENSE: Duration = Duration::from_micros(200);

/// The decision whether to spin, from the success of earlier polls.
#[derive(Debug)]
pub(super) struct Spin {
    more_cores: bool,
    misses: u32,
    parked_at: Option<Instant>,
}

impl Default for Spin {
    fn default() -> Self {
        let more_cores = thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        Self { more_cores, misses: MISSES_MAX, parked_at: None }
    }
}

impl Spin {
    /// Polls the inbox, and returns the next event if it comes before the thread has to park.
    pub(super) fn receive<T>(&mut self, inbox: &Receiver<T>) -> Option<T> {
        if let Ok(event) = inbox.try_recv() {
            self.parked_at = None;
            return Some(event);
        }
        let start = Instant::now();
        if !self.is_worth_it(start) {
            self.parked_at = Some(start);
            return None;
        }
        loop {
            for _ in 0..16 {
                hint::spin_loop();
                if let Ok(event) = inbox.try_recv() {
                    self.misses = 0;
                    return Some(event);
                }
            }
            let now = Instant::now();
            if now - start > SPIN {
                self.misses += 1;
                self.parked_at = Some(now);
                return None;
            }
        }
    }

    /// Whether to spin. A short park means that polling would have succeeded.
    fn is_worth_it(&mut self, now: Instant) -> bool {
        if self.parked_at.take().is_some_and(|parked| now - parked < DENSE) {
            self.misses = 0;
        }
        self.more_cores && self.misses < MISSES_MAX
    }
}
