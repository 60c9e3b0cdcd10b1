//! The system fails at each call: the n-th write, sync, opening, renaming, accepting ends in an error, or
//! kills the daemon there. What was accepted is not lost, nothing hangs, and it works again afterwards.
//!
//! `AGENT_RELAY_FAULTS` says for how many seconds cells are tried, in an order that
//! `AGENT_RELAY_FAULTS_SEED` chooses; or `all`. `AGENT_RELAY_FAULTS_CELL` is a part of what a cell is
//! called, to try these alone. Without any of them a few are tried. `strace` makes the calls fail.

mod cell;
mod talk;

use crate::sandbox::{Sandbox, not_tried, output, wait};
use cell::{Cell, Scene};
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    env,
    fs::{self, File},
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};
use talk::{Place, Talk, Watch};

/// Cells that are tried where nothing is said.
const FEW: usize = 12;

/// At a time. They wait more than they work.
const WORKERS: usize = 3;

#[test]
fn whatever_call_fails_nothing_accepted_is_lost() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return not_tried("strace is not installed (ci/setup does it)");
    }
    let asked = Asked::read();
    let mut cells: VecDeque<_> = [Scene::Fresh, Scene::Used].into_iter().flat_map(table).collect();
    cells.retain(|cell| asked.cell.as_deref().is_none_or(|part| cell.to_string().contains(part)));
    shuffle(cells.make_contiguous(), asked.seed);
    let count = cells.len();
    assert!(count > 0, "no cell is called so");
    cells.truncate(asked.cells);
    let (waiting, tried) = (Mutex::new(cells), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while Instant::now() < asked.until
                    && let Some(cell) = { waiting.lock().pop_front() }
                {
                    let end = panic::catch_unwind(AssertUnwindSafe(|| attempt(&cell)));
                    eprintln!("{cell}: {}", end.as_ref().map_or("FAILED", |end| end.0));
                    tried.lock().push((cell, end.ok()));
                }
            });
        }
    });
    report(tried.into_inner(), count, asked.seed);
}

/// The cells of a scene, which are found by watching it.
fn table(scene: Scene) -> BTreeSet<Cell> {
    let sandbox = Sandbox::empty();
    let log = run(&sandbox, scene, None).log;
    let cells = cell::cells(scene, &log, sandbox.directory());
    assert!(cells.iter().any(Cell::is_sync_of_log), "{scene:?}: relay.db-wal is never synced");
    cells
}

/// Whoever reads a daemon's log may go, or have no room for it.
#[test]
fn a_daemon_whose_log_nobody_takes_goes_on() {
    let sandbox = Sandbox::empty();
    let mut daemon =
        sandbox.command(["up", "--foreground"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(daemon.stderr.take());
    let watch = Watch::over(Some(daemon));
    let (endpoint, mut talk) = (sandbox.endpoint(), Talk::default());
    Place::new(&endpoint, &watch, &mut talk).all();
    Place::new(&endpoint, &watch, &mut talk).last();
    kill(watch.end());
}

/// What the environment asks for.
struct Asked {
    cells: usize,
    until: Instant,
    seed: u64,
    cell: Option<String>,
}

impl Asked {
    fn read() -> Self {
        let year = Instant::now() + Duration::from_secs(31_536_000);
        let (mut cells, mut until) = (usize::MAX, year);
        let cell = env::var("AGENT_RELAY_FAULTS_CELL").ok();
        match env::var("AGENT_RELAY_FAULTS") {
            Ok(all) if all == "all" => {}
            Ok(seconds) => {
                let seconds = seconds.parse().expect("AGENT_RELAY_FAULTS is seconds, or `all`");
                until = Instant::now() + Duration::from_secs(seconds);
            }
            Err(_) if cell.is_some() => {}
            Err(_) => cells = FEW,
        }
        let seed = env::var("AGENT_RELAY_FAULTS_SEED");
        let seed =
            seed.map_or(7, |seed| seed.parse().expect("AGENT_RELAY_FAULTS_SEED is a number"));
        Self { cells, until, seed, cell }
    }
}

fn shuffle(cells: &mut [Cell], seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for left in (2..=cells.len()).rev() {
        cells.swap(left - 1, (random.next_u64() % left as u64) as usize);
    }
}

/// What came of a cell, and how often its sender was refused.
type End = (&'static str, usize);

fn report(tried: Vec<(Cell, Option<End>)>, count: usize, seed: u64) {
    let (mut ends, mut refused) = (BTreeMap::<_, usize>::new(), 0);
    for (_, end) in &tried {
        *ends.entry(end.map_or("failed", |end| end.0)).or_default() += 1;
        refused += end.map_or(0, |end| end.1);
    }
    eprintln!(
        "{} of {count} cells with seed {seed}: {ends:?}; STORE_FAILED was said {refused} times",
        tried.len()
    );
    let failed = tried.iter().filter(|(_, end)| end.is_none());
    let failed: Vec<_> = failed.map(|(cell, _)| cell.to_string()).collect();
    assert!(failed.is_empty(), "{} cells failed:\n{}", failed.len(), failed.join("\n"));
}

/// One cell, and what has to hold.
fn attempt(cell: &Cell) -> End {
    let mut sandbox = Sandbox::empty();
    let mut ran = run(&sandbox, cell.scene, Some(cell));
    let is_hit = ran.log.contains("(INJECTED)") || cell.is_kill() && ran.end.is_some();
    let end = match ran.end {
        _ if !is_hit => "not come to",
        None => "went on",
        Some(status) => {
            check_end(cell, status, &ran.said);
            if status.code().is_none() { "killed" } else { "ended" }
        }
    };
    assert!(!ran.said.contains("panicked"), "{}", ran.said);
    sandbox.start();
    let watch = Watch::over(None);
    let endpoint = sandbox.endpoint();
    Place::new(&endpoint, &watch, &mut ran.talk).last();
    watch.end();
    let files = fs::read_dir(sandbox.home()).unwrap().map(|file| file.unwrap().file_name());
    let aside: Vec<_> = files.filter(|name| name.to_string_lossy().contains("damaged")).collect();
    assert!(aside.is_empty(), "nothing was damaged, but there is {aside:?}:\n{}", ran.said);
    (end, ran.talk.refused)
}

/// A daemon that ends by itself says why, in a sentence.
fn check_end(cell: &Cell, status: ExitStatus, said: &str) {
    if cell.is_kill() && status.code().is_none() {
        return;
    }
    assert_eq!(status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(cell.is_mute() || last.starts_with("agent-relay: "), "{said}");
}

/// What came of a run.
struct Ran {
    talk: Talk,
    /// All calls that are looked at.
    log: String,
    /// What the daemon said.
    said: String,
    /// How it ended, if it did by itself.
    end: Option<ExitStatus>,
}

/// Lets them talk at a daemon to which this happens, until it is no more.
fn run(sandbox: &Sandbox, scene: Scene, cell: Option<&Cell>) -> Ran {
    let (mut talk, endpoint) = (Talk::default(), sandbox.endpoint());
    if scene == Scene::Used {
        let mut first = sandbox.command(["up", "--foreground"]);
        let watch = Watch::over(Some(first.stderr(Stdio::null()).spawn().unwrap()));
        Place::new(&endpoint, &watch, &mut talk).all();
        kill(watch.end());
    }
    let (log, said) = (sandbox.directory().join("log"), sandbox.directory().join(cell::SAID));
    let watch = Watch::over(Some(start(sandbox, cell, &log, &said)));
    Place::new(&endpoint, &watch, &mut talk).all();
    let mut daemon = watch.end().expect("it was given one");
    let mut end = daemon.try_wait().unwrap();
    if scene == Scene::Used || cell.is_some_and(Cell::is_kill) {
        kill(Some(daemon));
    } else if end.is_none() {
        // Whom the daemon doesn't let in says so, and asks again.
        while !output(sandbox.command(["down"])).status.success() {}
        let status = wait(&mut daemon, "the stopped daemon");
        // What could not be written any more it says in its log.
        end = Some(status).filter(|status| !status.success());
    }
    let read = |path: PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    Ran { talk, log: read(log), said: read(said), end }
}

/// Starts a daemon whose calls are watched. It is this process's own child, not strace's.
fn start(sandbox: &Sandbox, cell: Option<&Cell>, log: &PathBuf, said: &PathBuf) -> Child {
    let mut command = sandbox.program("strace");
    command.args(["-D", "-f", "-y", "-qq", "-s", "0"]).arg("-o").arg(log);
    match cell {
        Some(cell) => command.args(cell.arguments(sandbox.directory())),
        None => command.args(["-e", &format!("trace={}", cell::calls())]),
    };
    let daemon = sandbox.command(["up", "--foreground"]);
    command.arg(daemon.get_program()).args(daemon.get_args());
    command.stdout(Stdio::null()).stderr(File::create(said).unwrap()).spawn().unwrap()
}

fn kill(daemon: Option<Child>) {
    let mut daemon = daemon.expect("it was given one");
    daemon.kill().ok();
    daemon.wait().unwrap();
}
