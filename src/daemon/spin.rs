//! Adaptive spinning: looking a little longer before parking, while traffic is dense.
//!
//! Waking a parked thread costs more than a message's whole way through the daemon. So the router's
//! thread looks on for some tens of microseconds, but only where another core can bring something
//! meanwhile, and only as long as that pays: an idle daemon parks at once and uses no processor.

use crossbeam_channel::Receiver;
use std::{
    hint, thread,
    time::{Duration, Instant},
};

/// How long it looks on.
const SPIN: Duration = Duration::from_micros(30);

/// Looks in vain before it parks at once.
const MISSES_MAX: u32 = 4;

/// How long a pause may be and the traffic still be called dense.
const DENSE: Duration = Duration::from_micros(200);

/// Whether to spin, learnt from how it went.
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
    /// Takes the next event if it comes before it is time to park.
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

    /// A short park means that looking on would have paid.
    fn is_worth_it(&mut self, now: Instant) -> bool {
        if self.parked_at.take().is_some_and(|parked| now - parked < DENSE) {
            self.misses = 0;
        }
        self.more_cores && self.misses < MISSES_MAX
    }
}
