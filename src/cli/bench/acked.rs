//! Measurements of at-least-once messages, one to one, with an ACK each way.

use super::route::{End, Template, invalid};
use protocol::{
    envelope::{Envelope, Header, Kind},
    payload::Ack,
};
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// The longest time without progress before a measurement fails.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Measures the nanoseconds from each SEND to its ACK, one message at a time. Also returns the
/// durability that the ACK states.
pub(super) fn acceptance(
    from: &mut End,
    to: &mut End,
    template: &mut Template,
    count: usize,
) -> io::Result<(Vec<u64>, String)> {
    let (mut times, mut durability) = (Vec::with_capacity(count), String::new());
    let mut bytes = Vec::new();
    for _ in 0..count {
        bytes.clear();
        template.append(&mut bytes);
        let start = Instant::now();
        from.write(&bytes)?;
        let mut accepted = Vec::new();
        while accepted.is_empty() {
            from.read_kinds(|kind, json| {
                if kind == Kind::Ack {
                    accepted.push(json.to_vec());
                }
            })?;
        }
        times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        durability = durability_of(&accepted[0])?;
        while acknowledge(to)? == 0 {}
    }
    Ok((times, durability))
}

fn durability_of(json: &[u8]) -> io::Result<String> {
    let read = |error: protocol::code::Violation| invalid(&error.to_string());
    let envelope = Envelope::read(json).map_err(read)?;
    let ack: Ack<'_> = envelope.decode_member(envelope.payload).map_err(read)?;
    Ok(ack.durability.map_or_else(|| "unknown".to_owned(), |text| text.into_owned()))
}

/// Reads once, and acknowledges the messages. Returns their number.
fn acknowledge(end: &mut End) -> io::Result<u64> {
    let (mut count, mut acks) = (0, Vec::new());
    end.read_kinds(|kind, json| {
        if kind == Kind::Deliver
            && let Ok(envelope) = Envelope::read(json)
        {
            count += 1;
            let ack = Ack { ack_id: envelope.id, ..Ack::default() };
            Header::new(Kind::Ack, "ack", 0).append(&mut acks, &ack);
        }
    })?;
    end.write(&acks)?;
    Ok(count)
}

/// The progress of a flood.
struct Progress {
    accepted: AtomicU64,
    received: AtomicU64,
    sent_all: AtomicU64,
    failed: AtomicBool,
    sender: Thread,
}

impl Progress {
    fn new() -> Self {
        Self {
            accepted: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent_all: AtomicU64::new(u64::MAX),
            failed: AtomicBool::new(false),
            sender: thread::current(),
        }
    }

    /// The number of messages that are both accepted and received.
    fn completed(&self) -> u64 {
        self.accepted.load(Ordering::Acquire).min(self.received.load(Ordering::Acquire))
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Repeats `step` on one end, and adds its counts to `total`, until `total` is the number of
    /// messages sent.
    fn count(
        &self,
        total: &AtomicU64,
        mut step: impl FnMut() -> io::Result<u64>,
    ) -> io::Result<()> {
        let mut outcome = Ok(());
        while outcome.is_ok()
            && total.load(Ordering::Acquire) < self.sent_all.load(Ordering::Acquire)
        {
            outcome = step().map(|count| {
                total.fetch_add(count, Ordering::Release);
            });
            self.sender.unpark();
        }
        self.failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
        outcome
    }

    fn await_all(&self, all: u64) {
        let mut last = (0, Instant::now());
        while self.completed() < all && !self.has_failed() && last.1.elapsed() < WATCHDOG {
            let now = self.completed();
            if now > last.0 {
                last = (now, Instant::now());
            }
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// Measures the messages per second that are accepted and received, with `window` in flight.
pub(super) fn flood(
    from: &mut End,
    to: &mut End,
    template: &mut Template,
    window: u64,
    time: Duration,
) -> io::Result<f64> {
    let progress = Progress::new();
    let write = from.writer();
    let hang_ups = [from.hang_up(), to.hang_up()];
    let start = Instant::now();
    thread::scope(|scope| {
        let progress = &progress;
        // Waits for: the system (the daemon's frames).
        let builder = || thread::Builder::new().name("bench-receiver".into());
        let threads = [
            builder()
                .spawn_scoped(scope, move || progress.count(&progress.accepted, || accept(from)))?,
            builder().spawn_scoped(scope, move || {
                progress.count(&progress.received, || acknowledge(to))
            })?,
        ];
        let (mut sent, mut bytes) = (0, Vec::new());
        while start.elapsed() < time && !progress.has_failed() {
            let in_flight = sent - progress.completed();
            if in_flight > window / 2 {
                thread::park_timeout(Duration::from_millis(1));
                continue;
            }
            bytes.clear();
            (in_flight..window).for_each(|_| template.append(&mut bytes));
            write(&bytes)?;
            sent += window - in_flight;
        }
        // One more message wakes a thread that has read all earlier messages.
        sent += 1;
        progress.sent_all.store(sent, Ordering::Release);
        bytes.clear();
        template.append(&mut bytes);
        write(&bytes)?;
        progress.await_all(sent);
        let rate = progress.completed() as f64 / start.elapsed().as_secs_f64();
        if progress.completed() < sent {
            hang_ups.into_iter().for_each(|hang_up| hang_up());
        }
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("a receiving thread panicked"))??;
        }
        Ok(rate)
    })
}

/// Reads once, and counts the accepted messages.
fn accept(end: &mut End) -> io::Result<u64> {
    let mut count = 0;
    end.read_kinds(|kind, _| count += u64::from(kind == Kind::Ack))?;
    Ok(count)
}
