//! Agents' processes are killed, and every process stands still: what was accepted arrives, and each
//! message has one DELIVER.
//!
//! `AGENT_RELAY_CRASHES` says how often receivers and senders are killed, all together.

use crate::{
    crash::{self, Scene},
    sandbox::{self, Sandbox, until, wait},
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

/// How often each process stands still: once for so many crashes, within these bounds.
const CRASHES_PER_STANDSTILL: usize = 100;
const STANDSTILLS_MIN: usize = 3;
const STANDSTILLS_MAX: usize = 10;

/// Small, so that it is over soon; and longer than two of them.
const HEARTBEAT: &str = "heartbeat_ms = 200\n";
const STANDSTILL: Duration = Duration::from_millis(700);

/// Longer than a message takes from a process's start to its acceptance, mostly.
const LIFE_MAX_MS: u32 = 40;

/// `agent-relay listen`, and a thread that notes what it prints.
struct Listener<'s> {
    process: Child,
    notes: Option<thread::ScopedJoinHandle<'s, ()>>,
}

impl<'s> Listener<'s> {
    fn start(scope: &'s thread::Scope<'s, '_>, sandbox: &Sandbox, scene: &'s Scene) -> Self {
        let mut command = sandbox.command(["listen", "--as", "Rob", "--json"]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let notes = scope.spawn(move || {
            let mut line = String::new();
            // A killed process may leave a piece of a line.
            while out.read_line(&mut line).is_ok_and(|count| count > 0) && line.ends_with('\n') {
                let deliver: Value = serde_json::from_str(&line).unwrap();
                scene.note(|seen| seen.hear("Rob", &deliver));
                line.clear();
            }
        });
        Self { process, notes: Some(notes) }
    }
}

/// As a crash would, at any moment.
impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        let noted = self.notes.take().map(thread::ScopedJoinHandle::join);
        assert!(thread::panicking() || noted.is_some_and(|noted| noted.is_ok()));
    }
}

/// How far it has come.
#[derive(Default)]
struct Course {
    /// Processes that were killed.
    deaths: AtomicUsize,
    is_over: AtomicBool,
}

/// `agent-relay send`s, one after the other, until it is over; each goes through this before its end.
fn send(
    sandbox: &Sandbox,
    scene: &Scene,
    name: &str,
    course: &Course,
    mut suffer: impl FnMut(&mut Child),
) {
    for number in 1_u64.. {
        let body = format!("{name}>Rob:{number}");
        let mut command = sandbox.command(["send", "--as", name, "Rob", &body]);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        suffer(&mut process);
        let status = wait(&mut process, "`agent-relay send`");
        if status.success() {
            scene.note(|seen| seen.accepted.insert(body));
        } else if status.code().is_none() {
            course.deaths.fetch_add(1, Ordering::Relaxed);
        }
        if course.is_over.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Ends the senders, also where something went wrong.
struct Over<'a>(&'a Course);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

#[test]
fn receivers_and_senders_that_are_killed_lose_nothing() {
    let (sandbox, scene, course) = (Sandbox::new(), Scene::default(), Course::default());
    let mut receivers = 0;
    sandbox.join("Rob").leave();
    thread::scope(|scope| {
        for (seed, name) in [(1, "Ann"), (2, "Bob")] {
            let (sandbox, scene, course) = (&sandbox, &scene, &course);
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            scope.spawn(move || {
                send(sandbox, scene, name, course, |process| {
                    let life = random.next_u32() % (2 * LIFE_MAX_MS);
                    if life < LIFE_MAX_MS {
                        thread::sleep(Duration::from_millis(life.into()));
                        process.kill().ok();
                    }
                });
            });
        }
        let _over = Over(&course);
        let mut random = ChaCha8Rng::seed_from_u64(3);
        while course.deaths.load(Ordering::Relaxed) < crash::crashes() {
            let heard = scene.seen().heard.len();
            let _rob = Listener::start(scope, &sandbox, &scene);
            let more = 1 + random.next_u32() as usize % 4;
            scene.await_that("Rob hears some", |seen| seen.heard.len() >= heard + more);
            receivers += 1;
            course.deaths.fetch_add(1, Ordering::Relaxed);
        }
    });
    let deaths = course.deaths.into_inner();
    eprintln!("{receivers} receivers and {} senders were killed", deaths - receivers);
    assert!(receivers > 0 && deaths > receivers, "both are to be killed");
    finish(&sandbox, &scene);
}

/// Rob hears the rest, and nobody gave up.
fn finish(sandbox: &Sandbox, scene: &Scene) {
    thread::scope(|scope| {
        let _rob = Listener::start(scope, sandbox, scene);
        scene.await_that("all that was accepted is heard", |seen| {
            seen.accepted.iter().all(|body| seen.heard.contains_key(body))
        });
    });
    let accepted = scene.seen().accepted.len();
    assert!(accepted >= STANDSTILLS_MIN, "{accepted} were accepted");
    assert_eq!(sandbox.run(["dead-letters"]).stdout, b"no dead letters\n");
}

#[test]
fn who_stands_still_for_longer_than_two_heartbeats_loses_nothing() {
    let mut sandbox = Sandbox::with_config(HEARTBEAT);
    let (scene, course) = (Scene::default(), Course::default());
    sandbox.join("Rob").leave();
    let daemon = sandbox.join("Asking").ask("status", &Value::Null)["daemon"]["pid"].to_string();
    thread::scope(|scope| {
        let (place, scene) = (&sandbox, &scene);
        let course = &course;
        let mut random = ChaCha8Rng::seed_from_u64(4);
        scope.spawn(move || {
            send(place, scene, "Ann", course, |process| {
                let life = random.next_u32() % (4 * LIFE_MAX_MS);
                if life < LIFE_MAX_MS {
                    thread::sleep(Duration::from_millis(life.into()));
                    stand_still(place, &process.id().to_string(), || thread::sleep(STANDSTILL));
                }
            });
        });
        let _over = Over(course);
        let more = || {
            let heard = scene.seen().heard.len();
            scene.await_that("Rob hears some", |seen| seen.heard.len() >= heard + 3);
        };
        let standstills = crash::crashes() / CRASHES_PER_STANDSTILL;
        for _ in 0..standstills.clamp(STANDSTILLS_MIN, STANDSTILLS_MAX) {
            // One that lost many connections in a row comes back ever later.
            let rob = Listener::start(scope, place, scene);
            more();
            // Nothing in it tells how long it has stood.
            stand_still(place, &daemon, || thread::sleep(STANDSTILL));
            more();
            stand_still(place, &rob.process.id().to_string(), || {
                let mut asking = place.join("Asking");
                until("Rob is taken for gone", || {
                    asking.agents().iter().any(|it| it["name"] == "Rob" && it["here"] == false)
                });
                asking.leave();
            });
            more();
        }
    });
    finish(&sandbox, &scene);
    assert!(sandbox.is_up());
}

/// Stops a process, and lets it go on after this.
fn stand_still(sandbox: &Sandbox, process: &str, meanwhile: impl FnOnce()) {
    let signal = |name| {
        let mut kill = sandbox.program("kill");
        kill.args([name, process]);
        sandbox::output(kill).status.success()
    };
    // It may be over already.
    let stopped = signal("-STOP");
    if stopped {
        meanwhile();
    }
    assert!(signal("-CONT") || !stopped);
}
