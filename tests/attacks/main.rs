//! Measures an innocent pair's latency while other clients attack their daemon.
//!
//!     cargo build --profile dist
//!     cargo run --profile dist --example attacks -- [--quick] [--json] [WORD]
//!
//! Each attack has a daemon of its own. A second pair talks through a second daemon, which nobody
//! attacks, so that what the attack takes from the machine is told from what it takes from the
//! daemon.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints")]
#![allow(clippy::unwrap_used, reason = "a part of the tests")]

mod attacks;
mod site;

use agent_relay::cli::bench::{
    measure,
    route::{Daemon, End, Template},
};
use argh::FromArgs;
use attacks::{ATTACKS, Attack, encoded, leave_and_wait};
use platform::process::SYSTEM;
use serde::Serialize;
use site::{Site, Stage};
use std::{
    fmt, io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use testkit::{
    sandbox::Sandbox,
    waiting::{peak_resident_bytes, resident_bytes},
};

/// Measure two agents while clients attack their daemon.
#[derive(FromArgs)]
struct Options {
    /// measure for a few seconds only, to see that it works
    #[argh(switch)]
    quick: bool,

    /// print one JSON object
    #[argh(switch)]
    json: bool,

    /// measure only the attacks with this word in their names
    #[argh(positional, default = "String::new()")]
    word: String,
}

fn main() -> io::Result<()> {
    let options: Options = argh::from_env();
    let report = measure_attacks(options.quick, &options.word)?;
    match options.json {
        true => println!("{}", serde_json::to_string(&report)?),
        false => print!("{report}"),
    }
    Ok(())
}

/// The pause between two looks at the attackers' progress.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

const BODY_BYTES: usize = 256;

/// The batches that each attacker has to have written before the pair is measured.
const BATCHES_BEFORE: u64 = 4;

/// Writes to an end of a connection.
type Write = Box<dyn Fn(&[u8]) -> io::Result<()>>;

/// Two agents of one daemon. One sends messages, the other receives them.
struct Pair {
    write: Write,
    to: End,
    template: Template,
    /// Reads what the sender gets, up to the first refusal.
    refusal: JoinHandle<Option<String>>,
    hang_up: Box<dyn FnOnce()>,
}

impl Pair {
    fn join(daemon: &Daemon) -> io::Result<Self> {
        let mut from = End::join(daemon, "innocent-a", 64)?;
        let (write, hang_up) = (Box::new(from.writer()), Box::new(from.hang_up()));
        let refusal = move || loop {
            match from.read_kinds(|_, _| {}) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Some(error.to_string());
                }
                Err(_) => return None,
            }
        };
        Ok(Self {
            write,
            to: End::join(daemon, "innocent-b", 64)?,
            template: Template::new(Some("innocent-b"), None, BODY_BYTES),
            refusal: thread::Builder::new().name("refusal".to_owned()).spawn(refusal)?,
            hang_up,
        })
    }

    fn time_one(&mut self) -> io::Result<u64> {
        let times = measure::latency(&self.write, &mut self.to, &mut self.template, 1)?;
        Ok(times[0])
    }

    /// Ends the sender's connection. Returns the first BUSY, NACK or ERROR that it got.
    fn end(self) -> Option<String> {
        (self.hang_up)();
        self.refusal.join().unwrap()
    }
}

/// Percentiles, in microseconds. `None` if the pair had to be cut off.
#[derive(Clone, Copy, Debug, Serialize)]
struct Percentiles {
    p50: Option<f64>,
    p99: Option<f64>,
}

impl Percentiles {
    fn of(mut times: Vec<u64>, is_stalled: bool) -> Self {
        times.sort_unstable();
        let at = |part: f64| {
            let last = times.len().checked_sub(1)?;
            Some(times[(last as f64 * part) as usize] as f64 / 1e3)
        };
        if is_stalled {
            Self { p50: None, p99: None }
        } else {
            Self { p50: at(0.5), p99: at(0.99) }
        }
    }
}

/// The figures of an attack.
#[derive(Clone, Debug, Serialize)]
struct Row {
    attack: &'static str,
    clients: usize,
    /// The attacked daemon's pair, before the attack and during it.
    idle: Percentiles,
    attacked: Percentiles,
    /// The other daemon's pair, during the attack.
    beside: Percentiles,
    /// The first BUSY, NACK or ERROR that the attacked pair got.
    refusal: Option<String>,
    /// The attacked daemon's resident memory in MiB, where `ps` reports it.
    resident_mib: Option<u64>,
    /// The most that it was, where the system reports it.
    peak_mib: Option<u64>,
    /// The time until the attacked daemon has ended, in milliseconds.
    stop_ms: u128,
    /// Whether the pair's p99 is at most ten times its idle p99, or 20 ms, and nothing was refused.
    held: bool,
}

/// All figures of a run.
#[derive(Clone, Debug, Serialize)]
struct Report {
    unit: &'static str,
    rows: Vec<Row>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["idle p50", "p99", "attacked p50", "p99", "beside p50", "p99"];
        write!(f, "{:<34}{:>8}", "us", "clients")?;
        heads.iter().try_for_each(|head| write!(f, "{head:>13}"))?;
        writeln!(f, "{:>9}{:>9}{:>9}{:>9}  goal", "refused", "RSS MiB", "peak", "stop ms")?;
        for row in &self.rows {
            write!(f, "{:<34}{:>8}", row.attack, row.clients)?;
            for Percentiles { p50, p99 } in [row.idle, row.attacked, row.beside] {
                for figure in [p50, p99] {
                    match figure {
                        Some(figure) => write!(f, "{figure:>13.1}")?,
                        None => write!(f, "{:>13}", "none")?,
                    }
                }
            }
            let refused = if row.refusal.is_some() { "yes" } else { "no" };
            let [resident, peak] = [row.resident_mib, row.peak_mib]
                .map(|mib| mib.map_or_else(|| "none".to_owned(), |mib| mib.to_string()));
            write!(f, "{refused:>9}{resident:>9}{peak:>9}{:>9}", row.stop_ms)?;
            writeln!(f, "  {}", if row.held { "reached" } else { "missed" })?;
        }
        Ok(())
    }
}

/// Measures the attacks with this word in their names, and prints the name of each.
fn measure_attacks(is_quick: bool, word: &str) -> io::Result<Report> {
    let (quiet, _sandbox) = Site::start("", 0)?;
    let mut rows = Vec::new();
    for attack in ATTACKS.iter().filter(|attack| attack.name.contains(word)) {
        for attackers in [1, 20] {
            let clients = if attackers == 1 { "1 client" } else { "20 clients" };
            eprintln!("{}, {clients} …", attack.name);
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}, {clients}: {error}", attack.name))
            };
            rows.push(run(attack, Stage::new(is_quick, attackers), &quiet).map_err(named)?);
        }
    }
    Ok(Report { unit: "us", rows })
}

fn run(attack: &Attack, stage: Stage, quiet: &Site) -> io::Result<Row> {
    let (site, mut sandbox) = Site::start(attack.config, attack.rules)?;
    let (mut pair, mut beside) = (Pair::join(&site.daemon)?, Pair::join(&quiet.daemon)?);
    let prepared = (attack.prepare)(&site, stage)?;
    let (idle, _) = measure_pairs(&mut pair, &mut beside, stage);
    let progress = Progress::default();
    let row = thread::scope(|scope| {
        let (site, progress) = (&site, &progress);
        let attacked = Attacked { progress, sandbox: &mut sandbox };
        for attacker in 0..stage.attackers {
            let stage = stage.of(attacker);
            scope.spawn(move || attack_until_end(attack, site, stage, progress));
        }
        progress.await_start(stage.attackers as u64 * BATCHES_BEFORE, stage.stalled);
        let (times, quiet_times) = measure_pairs(&mut pair, &mut beside, stage);
        // Who sends to a pair that was cut off is told so.
        let refusal = pair.end().filter(|_| times.p99.is_some());
        let pid = attacked.sandbox.daemon_pid();
        let goal = idle.p99.map_or(0.0, |p99| 10.0 * p99).max(20_000.0);
        Row {
            attack: attack.name,
            clients: stage.attackers,
            idle,
            attacked: times,
            beside: quiet_times,
            held: refusal.is_none() && times.p99.is_some_and(|p99| p99 <= goal),
            refusal,
            resident_mib: resident_bytes(pid).map(|bytes| bytes >> 20),
            peak_mib: peak_resident_bytes(pid).map(|bytes| bytes >> 20),
            stop_ms: time_stop(attacked.sandbox).as_millis(),
        }
    });
    drop(prepared);
    beside.end();
    Ok(row)
}

/// Ends the daemon, and returns how long that takes.
fn time_stop(sandbox: &mut Sandbox) -> Duration {
    let begun = Instant::now();
    if SYSTEM == "windows" {
        sandbox.run(["down"]);
    } else {
        sandbox.signal("TERM", sandbox.daemon_pid());
    }
    sandbox.await_daemon_end();
    begun.elapsed()
}

/// Measures messages of both pairs by turns. A pair that is not answered is cut off.
fn measure_pairs(pair: &mut Pair, beside: &mut Pair, stage: Stage) -> (Percentiles, Percentiles) {
    let deadline = Instant::now() + stage.time;
    let mut times = [Vec::new(), Vec::new()];
    let mut is_stalled = false;
    let (done, is_done) = crossbeam_channel::bounded::<()>(1);
    let hang_ups = [pair.to.hang_up(), beside.to.hang_up()];
    thread::scope(|scope| {
        let watch = move || {
            if is_done
                .recv_timeout(stage.time + stage.stalled)
                .is_err_and(|error| error.is_timeout())
            {
                hang_ups.into_iter().for_each(|hang_up| hang_up());
            }
        };
        scope.spawn(watch);
        while times[0].len() < stage.messages && Instant::now() < deadline && !is_stalled {
            for (pair, times) in [&mut *pair, &mut *beside].into_iter().zip(&mut times) {
                match pair.time_one() {
                    Ok(time) => times.push(time),
                    Err(_) => is_stalled = true,
                }
            }
        }
        drop(done);
    });
    let [times, beside] = times;
    (Percentiles::of(times, is_stalled), Percentiles::of(beside, false))
}

/// The progress of the attackers.
#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    batches: AtomicU64,
}

impl Progress {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Waits until this many batches are written, for a limited time: an attacker may be stopped by
    /// the daemon.
    fn await_start(&self, batches: u64, longest: Duration) {
        let deadline = Instant::now() + longest;
        while self.batches.load(Ordering::Acquire) < batches && Instant::now() < deadline {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// A daemon under attack. The attack ends when this is dropped; an attacker may wait for the
/// daemon, which is killed.
struct Attacked<'a> {
    progress: &'a Progress,
    sandbox: &'a mut Sandbox,
}

impl Drop for Attacked<'_> {
    fn drop(&mut self) {
        self.progress.is_over.store(true, Ordering::Release);
        self.sandbox.kill();
    }
}

/// Attacks until the measurement is over. An attacker whose connection ends joins again.
fn attack_until_end(attack: &Attack, site: &Site, stage: Stage, progress: &Progress) {
    let mut number = 0;
    while !progress.is_over() {
        let joined = (attack.join)(site, stage);
        if attack.reconnects {
            // The daemon may refuse the attacker, or may have ended the connection already.
            progress.batches.fetch_add(1, Ordering::Release);
            drop(joined.and_then(|mut end| leave_and_wait(&mut end)));
            continue;
        }
        let Ok(mut end) = joined else { continue };
        let (write, hang_up) = (end.writer(), end.hang_up());
        thread::scope(|scope| {
            scope.spawn(move || while end.discard().is_ok() {});
            while !progress.is_over() {
                let frames = (attack.frames)(site, stage, number);
                number += frames.len() as u64;
                if write(&encoded(&frames)).is_err() {
                    break;
                }
                progress.batches.fetch_add(1, Ordering::Release);
            }
            hang_up();
        });
    }
}
