//! Processes of agents are killed, and every process is suspended: accepted messages arrive, and
//! each has one DELIVER.
//!
//! `AGENT_RELAY_CRASHES` is the number of kills of receivers and senders together.

use crate::{
    crash::{self, SharedRecord},
    roles, wrap,
};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};
use testkit::{
    sandbox::Sandbox,
    waiting::{self, until, wait},
};

/// The number of suspensions of each process: one for this many kills, within these bounds.
const CRASHES_PER_SUSPENSION: usize = 100;
const SUSPENSIONS_MIN: usize = 3;
const SUSPENSIONS_MAX: usize = 10;

/// A short heartbeat, so that a suspension longer than two of them is short, too.
const HEARTBEAT: &str = "heartbeat_ms = 200\n";
const SUSPENSION: Duration = Duration::from_millis(700);

/// The longest life of a sending process before it is killed: longer than most sends take until the
/// daemon accepts the message.
const LIFE_MAX_MS: u32 = 40;

/// A process of `agent-relay listen`, and a thread that records its output.
struct Listener<'s> {
    process: Child,
    notes: Option<thread::ScopedJoinHandle<'s, ()>>,
}

impl<'s> Listener<'s> {
    fn start(
        scope: &'s thread::Scope<'s, '_>,
        sandbox: &Sandbox,
        shared: &'s SharedRecord,
    ) -> Self {
        let mut command = sandbox.command(["listen", "--as", "Rob", "--json"]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let notes = scope.spawn(move || {
            let mut line = String::new();
            // A killed process may leave a part of a line.
            while out.read_line(&mut line).is_ok_and(|count| count > 0) && line.ends_with('\n') {
                let deliver: Value = serde_json::from_str(&line).unwrap();
                shared.update(|record| record.receive("Rob", &deliver));
                line.clear();
            }
        });
        Self { process, notes: Some(notes) }
    }
}

/// Kills the process, as a crash would.
impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        let result = self.notes.take().map(thread::ScopedJoinHandle::join);
        assert!(thread::panicking() || result.is_some_and(|result| result.is_ok()));
    }
}

#[derive(Default)]
struct Progress {
    /// Processes that were killed.
    deaths: AtomicUsize,
    is_over: AtomicBool,
}

/// Runs `agent-relay send` repeatedly until the test is over, and calls `disturb` on each process.
fn send(
    sandbox: &Sandbox,
    shared: &SharedRecord,
    name: &str,
    progress: &Progress,
    mut disturb: impl FnMut(&mut Child),
) {
    for number in 1_u64.. {
        let body = format!("{name}>Rob:{number}");
        let mut command = sandbox.command(["send", "--as", name, "Rob", &body]);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        disturb(&mut process);
        let status = wait(&mut process, "`agent-relay send`");
        if status.success() {
            shared.update(|record| record.accepted.insert(body));
        } else if status.code().is_none() {
            progress.deaths.fetch_add(1, Ordering::Relaxed);
        }
        if progress.is_over.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Ends the senders when dropped, also after a failed check.
struct EndOnDrop<'a>(&'a Progress);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

#[test]
fn killed_receivers_and_senders_lose_nothing() {
    let (sandbox, shared, progress) =
        (Sandbox::new(), SharedRecord::default(), Progress::default());
    let mut receivers = 0;
    sandbox.join("Rob").leave();
    thread::scope(|scope| {
        for (seed, name) in [(1, "Ann"), (2, "Bob")] {
            let (sandbox, shared, progress) = (&sandbox, &shared, &progress);
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            scope.spawn(move || {
                send(sandbox, shared, name, progress, |process| {
                    let life = random.next_u32() % (2 * LIFE_MAX_MS);
                    if life < LIFE_MAX_MS {
                        thread::sleep(Duration::from_millis(life.into()));
                        process.kill().ok();
                    }
                });
            });
        }
        let _end = EndOnDrop(&progress);
        let mut random = ChaCha8Rng::seed_from_u64(3);
        while progress.deaths.load(Ordering::Relaxed) < crash::crashes() {
            let received = shared.record().received.len();
            let _rob = Listener::start(scope, &sandbox, &shared);
            let more = 1 + random.next_u32() as usize % 4;
            shared
                .wait_until("Rob receives some", |record| record.received.len() >= received + more);
            receivers += 1;
            progress.deaths.fetch_add(1, Ordering::Relaxed);
        }
    });
    let deaths = progress.deaths.into_inner();
    eprintln!("{receivers} receivers and {} senders were killed", deaths - receivers);
    assert!(receivers > 0 && deaths > receivers, "receivers and senders were killed");
    finish(&sandbox, &shared);
}

/// The daemon, a receiver and senders die together, as in a machine that is reset.
#[test]
fn everything_killed_again_and_again_loses_nothing() {
    let (mut sandbox, shared) = (Sandbox::new(), SharedRecord::default());
    sandbox.join("Rob").leave();
    thread::scope(|scope| {
        for round in 1..=crash::crashes() / 4 {
            let received = shared.record().received.len();
            let rob = Listener::start(scope, &sandbox, &shared);
            let mut senders: Vec<_> = (0..4)
                .map(|number| {
                    let name = format!("Sender{number}");
                    let body = format!("{name}>Rob:{round}");
                    let mut command = sandbox.command(["send", "--as", &name, "Rob", &body]);
                    command.stdout(Stdio::null()).stderr(Stdio::null());
                    (body, command.spawn().unwrap())
                })
                .collect();
            shared.wait_until("Rob receives some", |record| {
                record.received.len() > received + round % 3
            });
            if round % 2 == 0 {
                until("a sender has ended", || {
                    senders.iter_mut().any(|(_, sender)| sender.try_wait().unwrap().is_some())
                });
            }
            sandbox.kill();
            senders.iter_mut().for_each(|(_, sender)| drop(sender.kill()));
            drop(rob);
            for (body, mut sender) in senders {
                if wait(&mut sender, "`agent-relay send`").success() {
                    shared.update(|record| record.accepted.insert(body));
                }
            }
            // A sender that came too late has started a daemon before it was killed.
            sandbox.start_in_place_of_others();
        }
    });
    finish(&sandbox, &shared);
}

/// A wrapper is killed when it has begun to type, when the text is on the screen, and when the
/// program has read it. The message is redelivered unless the wrapper has acknowledged it.
#[test]
fn message_of_a_killed_wrapper_is_typed_again_with_a_mark() {
    thread::scope(|scope| {
        for moment in ["[relay ", "the message", "heard: the message"] {
            scope.spawn(move || kill_wrapper_at(moment));
        }
    });
}

/// Kills a wrapper that types a message, as soon as its terminal shows these words.
fn kill_wrapper_at(moment: &str) {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let ann = wrap::wrap_line_reader(&sandbox, "Ann", &[]);
    wrap::send(&mut bob, "Ann", "the message");
    ann.wait_for(moment);
    // Dropping a terminal kills the processes in it.
    drop(ann);
    let mut is_open = false;
    until("the daemon knows", || {
        let agents = bob.agents();
        let away = agents.iter().find(|it| it["name"] == "Ann" && it["here"] == false);
        is_open = away.is_some_and(|ann| ann["queued"] == 1);
        away.is_some()
    });
    let ann = wrap::wrap_line_reader(&sandbox, "Ann", &[]);
    wrap::send(&mut bob, "Ann", "the last one");
    wrap::wait_until_heard(&ann, "the last one");
    let text = ann.text();
    let heard = text.matches("heard: the message\n").count();
    assert_eq!(heard, usize::from(is_open), "lost or twice:\n{text}");
    assert_eq!(text.contains(", again]"), is_open, "{text}");
}

/// Only the wrapper dies, while it types: its program gets a hangup.
#[test]
fn program_of_a_killed_wrapper_ends_and_its_name_is_free() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let ann = wrap::wrap_line_reader(&sandbox, "Ann", &[]);
    let count = || roles::all_processes(&sandbox, &mut Vec::new());
    // Processes are not counted where the system does not show them.
    until("the daemon, the wrapper and its program run", || matches!(count(), 0 | 3));
    wrap::send(&mut bob, "Ann", "the message");
    ann.wait_for("[relay ");
    sandbox.signal("KILL", ann.pty.pid().into());
    until("only the daemon is left", || count() <= 1);
    drop(ann);
    let again = wrap::wrap_line_reader(&sandbox, "Ann", &[]);
    wrap::send(&mut bob, "Ann", "the last one");
    wrap::wait_until_heard(&again, "the last one");
}

/// Receives the remaining messages, and checks that there are no dead letters.
fn finish(sandbox: &Sandbox, shared: &SharedRecord) {
    thread::scope(|scope| {
        let _rob = Listener::start(scope, sandbox, shared);
        shared.wait_until("all that was accepted is received", |record| {
            record.accepted.iter().all(|body| record.received.contains_key(body))
        });
    });
    let accepted = shared.record().accepted.len();
    assert!(accepted >= SUSPENSIONS_MIN, "{accepted} were accepted");
    assert_eq!(sandbox.run(["history", "--dead"]).stdout, b"no dead letters\n");
}

#[test]
fn processes_suspended_beyond_two_heartbeats_lose_nothing() {
    let mut sandbox = Sandbox::with_config(HEARTBEAT);
    let (shared, progress) = (SharedRecord::default(), Progress::default());
    sandbox.join("Rob").leave();
    let daemon = sandbox.join("Asking").ask("status", &Value::Null)["daemon"]["pid"].to_string();
    thread::scope(|scope| {
        let (sandbox, shared) = (&sandbox, &shared);
        let progress = &progress;
        let mut random = ChaCha8Rng::seed_from_u64(4);
        scope.spawn(move || {
            send(sandbox, shared, "Ann", progress, |process| {
                let life = random.next_u32() % (4 * LIFE_MAX_MS);
                if life < LIFE_MAX_MS {
                    thread::sleep(Duration::from_millis(life.into()));
                    suspend(sandbox, &process.id().to_string(), || thread::sleep(SUSPENSION));
                }
            });
        });
        let _end = EndOnDrop(progress);
        let more = || {
            let received = shared.record().received.len();
            shared.wait_until("Rob receives some", |record| record.received.len() >= received + 3);
        };
        let suspensions = crash::crashes() / CRASHES_PER_SUSPENSION;
        for _ in 0..suspensions.clamp(SUSPENSIONS_MIN, SUSPENSIONS_MAX) {
            // A new listener each time, since one that often lost its connection reconnects more
            // and more slowly.
            let rob = Listener::start(scope, sandbox, shared);
            more();
            // The daemon cannot report how long it was suspended, so the test waits by time.
            suspend(sandbox, &daemon, || thread::sleep(SUSPENSION));
            more();
            suspend(sandbox, &rob.process.id().to_string(), || {
                let mut asking = sandbox.join("Asking");
                until("Rob is listed as away", || {
                    asking
                        .agents()
                        .iter()
                        .any(|agent| agent["name"] == "Rob" && agent["here"] == false)
                });
                asking.leave();
            });
            more();
        }
    });
    finish(&sandbox, &shared);
    assert!(sandbox.is_up());
}

/// Suspends a process while `meanwhile` runs.
pub(crate) fn suspend(sandbox: &Sandbox, process: &str, meanwhile: impl FnOnce()) {
    let signal = |name| {
        let mut kill = sandbox.program("kill");
        kill.args([name, process]);
        waiting::output(kill).status.success()
    };
    // The signal fails if the process has ended.
    let stopped = signal("-STOP");
    if stopped {
        meanwhile();
    }
    assert!(signal("-CONT") || !stopped);
}
