//! At-least-once messages, one to one, with an ACK each way: what durability costs.

use super::route::{End, Template, invalid};
use crate::protocol::{
    envelope::{Envelope, Header, Kind},
    payload::Ack,
};
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// How long nothing may move before the bench gives up.
const WATCHDOG: Duration = Duration::from_secs(20);

/// From a SEND to its ACK, in nanoseconds, one message at a time; and the durability that the ACK says.
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
    let read = |error: crate::protocol::code::Violation| invalid(&error.to_string());
    let envelope = Envelope::read(json).map_err(read)?;
    let ack: Ack<'_> = envelope.typed(envelope.payload).map_err(read)?;
    Ok(ack.durability.map_or_else(|| "unknown".to_owned(), |text| text.into_owned()))
}

/// Reads once, acknowledges each message that came, and says how many.
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

/// How far a flood is.
struct Progress {
    accepted: AtomicU64,
    heard: AtomicU64,
    sent_all: AtomicU64,
    failed: AtomicBool,
    sender: Thread,
}

impl Progress {
    fn new() -> Self {
        Self {
            accepted: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            sent_all: AtomicU64::new(u64::MAX),
            failed: AtomicBool::new(false),
            sender: thread::current(),
        }
    }

    /// Messages that are both accepted and heard.
    fn through(&self) -> u64 {
        self.accepted.load(Ordering::Acquire).min(self.heard.load(Ordering::Acquire))
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Counts steps on one end until as many came as were sent.
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
        while self.through() < all && !self.has_failed() && last.1.elapsed() < WATCHDOG {
            let now = self.through();
            if now > last.0 {
                last = (now, Instant::now());
            }
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// Messages a second that were accepted and heard, with `window` on the way.
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
        let builder = || thread::Builder::new().name("bench-receiver".into());
        let threads = [
            builder()
                .spawn_scoped(scope, move || progress.count(&progress.accepted, || accept(from)))?,
            builder()
                .spawn_scoped(scope, move || progress.count(&progress.heard, || acknowledge(to)))?,
        ];
        let (mut sent, mut bytes) = (0, Vec::new());
        while start.elapsed() < time && !progress.has_failed() {
            let on_the_way = sent - progress.through();
            if on_the_way > window / 2 {
                thread::park_timeout(Duration::from_millis(1));
                continue;
            }
            bytes.clear();
            (on_the_way..window).for_each(|_| template.append(&mut bytes));
            write(&bytes)?;
            sent += window - on_the_way;
        }
        // One more, so that nobody who has everything is left waiting for it.
        sent += 1;
        progress.sent_all.store(sent, Ordering::Release);
        bytes.clear();
        template.append(&mut bytes);
        write(&bytes)?;
        progress.await_all(sent);
        let rate = progress.through() as f64 / start.elapsed().as_secs_f64();
        if progress.through() < sent {
            hang_ups.into_iter().for_each(|hang_up| hang_up());
        }
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("a receiving thread panicked"))??;
        }
        Ok(rate)
    })
}

/// Reads once and counts what was accepted.
fn accept(end: &mut End) -> io::Result<u64> {
    let mut count = 0;
    end.read_kinds(|kind, _| count += u64::from(kind == Kind::Ack))?;
    Ok(count)
}
