//! What is measured on a path: one-way latency, flood, fan-out.

use super::route::{End, Template};
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long the other side may stay silent before the bench gives up.
const WATCHDOG: Duration = Duration::from_secs(20);

/// One-way times of single messages, in nanoseconds.
pub(super) fn latency(
    from: &End,
    to: &mut End,
    template: &mut Template,
    count: usize,
) -> io::Result<Vec<u64>> {
    let mut times = Vec::with_capacity(count);
    let mut bytes = Vec::new();
    for _ in 0..count {
        bytes.clear();
        template.append(&mut bytes);
        let start = Instant::now();
        from.write(&bytes)?;
        while to.count_messages()? == 0 {}
        times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(times)
}

/// What a flood came to.
pub(super) struct Flood {
    /// Messages sent.
    pub(super) sent: u64,
    /// Messages heard, by all receivers.
    pub(super) heard: u64,
    /// From the first sent to the last heard.
    pub(super) time: Duration,
}

impl Flood {
    /// Messages heard in a second.
    pub(super) fn rate(&self) -> f64 {
        self.heard as f64 / self.time.as_secs_f64()
    }
}

/// Sends for `time` with at most `window` messages on the way to each receiver, and counts.
pub(super) fn flood(
    from: &End,
    to: &mut [End],
    template: &mut Template,
    window: u64,
    time: Duration,
) -> io::Result<Flood> {
    let receivers = to.len() as u64;
    let heard = AtomicU64::new(0);
    let sent_all = AtomicU64::new(u64::MAX);
    let failed = AtomicBool::new(false);
    let hang_ups: Vec<_> = to.iter().map(End::hang_up).collect();
    let start = Instant::now();
    thread::scope(|scope| {
        let sender = thread::current();
        let mut threads = Vec::new();
        for end in to {
            let (heard, sent_all, failed, sender) = (&heard, &sent_all, &failed, sender.clone());
            let receive = move || {
                let outcome = receive(end, heard, sent_all, &sender);
                failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                sender.unpark();
                outcome
            };
            let builder = thread::Builder::new().name("bench-receiver".into());
            threads.push(builder.spawn_scoped(scope, receive)?);
        }
        let is_over = |start: Instant| start.elapsed() >= time || failed.load(Ordering::Relaxed);
        let mut sent = 0;
        let mut bytes = Vec::new();
        while !is_over(start) {
            let on_the_way = sent - heard.load(Ordering::Acquire) / receivers;
            if on_the_way > window / 2 {
                thread::park_timeout(Duration::from_millis(1));
                continue;
            }
            bytes.clear();
            for _ in on_the_way..window {
                template.append(&mut bytes);
            }
            from.write(&bytes)?;
            sent += window - on_the_way;
        }
        // One more, so that a receiver that has everything is not left waiting for it.
        sent += 1;
        sent_all.store(sent, Ordering::Release);
        bytes.clear();
        template.append(&mut bytes);
        from.write(&bytes)?;
        await_all(&heard, sent * receivers, &failed);
        let flood = Flood { sent, heard: heard.load(Ordering::Acquire), time: start.elapsed() };
        if flood.heard < sent * receivers {
            hang_ups.into_iter().for_each(|hang_up| hang_up());
        }
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("a receiving thread panicked"))??;
        }
        Ok(flood)
    })
}

/// Waits for the last message; a receiver that gets nothing more is woken by the caller's hang-up.
fn await_all(heard: &AtomicU64, all: u64, failed: &AtomicBool) {
    let mut last = (0, Instant::now());
    loop {
        let now = heard.load(Ordering::Acquire);
        if now >= all || failed.load(Ordering::Relaxed) || last.1.elapsed() > WATCHDOG {
            return;
        }
        if now > last.0 {
            last = (now, Instant::now());
        }
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Counts until as many came as were sent; the number is known only after the last was sent.
fn receive(
    end: &mut End,
    heard: &AtomicU64,
    sent_all: &AtomicU64,
    sender: &thread::Thread,
) -> io::Result<()> {
    let mut mine = 0;
    while mine < sent_all.load(Ordering::Acquire) {
        let count = end.count_messages()?;
        mine += count;
        heard.fetch_add(count, Ordering::Release);
        sender.unpark();
    }
    Ok(())
}
