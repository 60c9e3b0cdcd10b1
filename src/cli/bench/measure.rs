//! Measurements of one-way latency, floods and fan-outs.

use super::route::{End, Template};
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The longest time without progress before a measurement fails.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Measures the one-way times of single messages, in nanoseconds. `write` writes to the sending
/// end.
pub fn latency(
    write: impl Fn(&[u8]) -> io::Result<()>,
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
        write(&bytes)?;
        while to.count_messages()? == 0 {}
        times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(times)
}

/// The result of a flood.
pub(super) struct Flood {
    /// Messages sent.
    pub(super) sent: u64,
    /// Messages received, by all receivers.
    pub(super) received: u64,
    /// The time from the first message sent to the last received.
    pub(super) time: Duration,
}

impl Flood {
    /// The number of messages received per second.
    pub(super) fn rate(&self) -> f64 {
        self.received as f64 / self.time.as_secs_f64()
    }
}

/// Sends for `time`, with at most `window` messages in flight to each receiver.
pub(super) fn flood(
    from: &End,
    to: &mut [End],
    template: &mut Template,
    window: u64,
    time: Duration,
) -> io::Result<Flood> {
    let receivers = to.len() as u64;
    let received = AtomicU64::new(0);
    let sent_all = AtomicU64::new(u64::MAX);
    let failed = AtomicBool::new(false);
    let hang_ups: Vec<_> = to.iter().map(End::hang_up).collect();
    let start = Instant::now();
    thread::scope(|scope| {
        let sender = thread::current();
        let mut threads = Vec::new();
        for end in to {
            let (received, sent_all, failed, sender) =
                (&received, &sent_all, &failed, sender.clone());
            let receive = move || {
                let outcome = receive(end, received, sent_all, &sender);
                failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                sender.unpark();
                outcome
            };
            // Waits for: the system (the daemon's frames).
            let builder = thread::Builder::new().name("bench-receiver".into());
            threads.push(builder.spawn_scoped(scope, receive)?);
        }
        let is_over = |start: Instant| start.elapsed() >= time || failed.load(Ordering::Relaxed);
        let mut sent = 0;
        let mut bytes = Vec::new();
        while !is_over(start) {
            let in_flight = sent - received.load(Ordering::Acquire) / receivers;
            if in_flight > window / 2 {
                thread::park_timeout(Duration::from_millis(1));
                continue;
            }
            bytes.clear();
            for _ in in_flight..window {
                template.append(&mut bytes);
            }
            from.write(&bytes)?;
            sent += window - in_flight;
        }
        // One more message wakes a receiver that has read all earlier messages.
        sent += 1;
        sent_all.store(sent, Ordering::Release);
        bytes.clear();
        template.append(&mut bytes);
        from.write(&bytes)?;
        await_all(&received, sent * receivers, &failed);
        let flood =
            Flood { sent, received: received.load(Ordering::Acquire), time: start.elapsed() };
        if flood.received < sent * receivers {
            hang_ups.into_iter().for_each(|hang_up| hang_up());
        }
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("a receiving thread panicked"))??;
        }
        Ok(flood)
    })
}

/// Waits for the last message. The caller's hang-up wakes receivers that get no more.
fn await_all(received: &AtomicU64, all: u64, failed: &AtomicBool) {
    let mut last = (0, Instant::now());
    loop {
        let now = received.load(Ordering::Acquire);
        if now >= all || failed.load(Ordering::Relaxed) || last.1.elapsed() > WATCHDOG {
            return;
        }
        if now > last.0 {
            last = (now, Instant::now());
        }
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Counts messages until all that were sent have arrived. Their number is known only once the last
/// message is sent.
fn receive(
    end: &mut End,
    received: &AtomicU64,
    sent_all: &AtomicU64,
    sender: &thread::Thread,
) -> io::Result<()> {
    let mut own = 0;
    while own < sent_all.load(Ordering::Acquire) {
        let count = end.count_messages()?;
        own += count;
        received.fetch_add(count, Ordering::Release);
        sender.unpark();
    }
    Ok(())
}
