//! System calls fail: the n-th write, sync, open, rename or accept returns an error, or kills the
//! daemon. No accepted message is lost, nothing hangs, and the next daemon works.
//!
//! A cell of the table is one such failure. `AGENT_RELAY_FAULTS` is a number of seconds to try
//! cells, or `all`; `AGENT_RELAY_FAULTS_SEED` chooses their order. `AGENT_RELAY_FAULTS_CELL` is a
//! part of the names of the cells to try. Without these, a few cells are tried. `strace` makes the
//! calls fail.

mod cell;
mod moments;
mod talk;
mod traced;

use cell::{Cell, Setup};
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    env,
    fs::{self, File},
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    process::{Child, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};
use talk::{Conversation, Messages, Watchdog};
use testkit::{
    sandbox::Sandbox,
    waiting::{output, wait},
};
use traced::{has_strace, traced};

/// The number of cells that are tried without a setting.
const CELLS_BY_DEFAULT: usize = 12;

/// The number of cells that are tried at a time; a cell mostly waits.
const WORKERS: usize = 3;

#[test]
fn failed_system_call_loses_no_accepted_message() {
    if !has_strace() {
        return;
    }
    let options = Options::read();
    let mut cells: VecDeque<_> = [Setup::Fresh, Setup::Used].into_iter().flat_map(table).collect();
    cells.retain(|cell| options.cell.as_deref().is_none_or(|part| cell.to_string().contains(part)));
    shuffle(cells.make_contiguous(), options.seed);
    let count = cells.len();
    assert!(count > 0, "no cell has such a name");
    cells.truncate(options.cells);
    let (queue, results) = (Mutex::new(cells), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while Instant::now() < options.end_at
                    && let Some(cell) = { queue.lock().pop_front() }
                {
                    let end = panic::catch_unwind(AssertUnwindSafe(|| attempt(&cell)));
                    eprintln!("{cell}: {}", end.as_ref().map_or("FAILED", |end| end.0));
                    results.lock().push((cell, end.ok()));
                }
            });
        }
    });
    report(results.into_inner(), count, options.seed);
}

/// The cells of a setup: one for each call in a run without faults.
fn table(setup: Setup) -> BTreeSet<Cell> {
    let sandbox = Sandbox::empty();
    let log = run(&sandbox, setup, None).log;
    let cells = cell::cells(setup, &log, sandbox.directory());
    assert!(cells.iter().any(Cell::is_sync_of_log), "{setup:?}: relay.db-wal is never synced");
    cells
}

#[test]
fn daemon_survives_without_a_reader_of_its_log() {
    let sandbox = Sandbox::empty();
    let mut daemon =
        sandbox.command(["up", "--foreground"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(daemon.stderr.take());
    let watchdog = Watchdog::start(Some(daemon));
    let (endpoint, mut messages) = (sandbox.endpoint(), Messages::default());
    Conversation::new(&endpoint, &watchdog, &mut messages).run();
    Conversation::new(&endpoint, &watchdog, &mut messages).check_all_received();
    kill(watchdog.end());
}

/// The settings in the environment.
struct Options {
    cells: usize,
    end_at: Instant,
    seed: u64,
    cell: Option<String>,
}

impl Options {
    fn read() -> Self {
        let far_future = Instant::now() + Duration::from_secs(31_536_000);
        let (mut cells, mut end_at) = (usize::MAX, far_future);
        let cell = env::var("AGENT_RELAY_FAULTS_CELL").ok();
        match env::var("AGENT_RELAY_FAULTS") {
            Ok(all) if all == "all" => {}
            Ok(seconds) => {
                let seconds = seconds.parse().expect("AGENT_RELAY_FAULTS is seconds, or `all`");
                end_at = Instant::now() + Duration::from_secs(seconds);
            }
            Err(_) if cell.is_some() => {}
            Err(_) => cells = CELLS_BY_DEFAULT,
        }
        let seed = env::var("AGENT_RELAY_FAULTS_SEED");
        let seed =
            seed.map_or(7, |seed| seed.parse().expect("AGENT_RELAY_FAULTS_SEED is a number"));
        Self { cells, end_at, seed, cell }
    }
}

fn shuffle(cells: &mut [Cell], seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for left in (2..=cells.len()).rev() {
        cells.swap(left - 1, (random.next_u64() % left as u64) as usize);
    }
}

/// The outcome of a cell, and the number of refused sends.
type Outcome = (&'static str, usize);

fn report(results: Vec<(Cell, Option<Outcome>)>, count: usize, seed: u64) {
    let (mut ends, mut refused) = (BTreeMap::<_, usize>::new(), 0);
    for (_, end) in &results {
        *ends.entry(end.map_or("failed", |end| end.0)).or_default() += 1;
        refused += end.map_or(0, |end| end.1);
    }
    eprintln!(
        "{} of {count} cells with seed {seed}: {ends:?}; STORE_FAILED was sent {refused} times",
        results.len()
    );
    let failed = results.iter().filter(|(_, end)| end.is_none());
    let failed: Vec<_> = failed.map(|(cell, _)| cell.to_string()).collect();
    assert!(failed.is_empty(), "{} cells failed:\n{}", failed.len(), failed.join("\n"));
}

/// Runs one cell, and checks that no accepted message is lost and that the next daemon works.
fn attempt(cell: &Cell) -> Outcome {
    let mut sandbox = Sandbox::empty();
    let mut result = run(&sandbox, cell.setup, Some(cell));
    let is_hit = result.log.contains("(INJECTED)") || cell.is_kill() && result.end.is_some();
    let end = match result.end {
        _ if !is_hit => "not come to",
        None => "went on",
        Some(status) => {
            check_end(cell, status, &result.stderr);
            if status.code().is_none() { "killed" } else { "ended" }
        }
    };
    assert!(!result.stderr.contains("panicked"), "{}", result.stderr);
    sandbox.start();
    let watchdog = Watchdog::start(None);
    let endpoint = sandbox.endpoint();
    Conversation::new(&endpoint, &watchdog, &mut result.messages).check_all_received();
    watchdog.end();
    let files = fs::read_dir(sandbox.home()).unwrap().map(|file| file.unwrap().file_name());
    let aside: Vec<_> = files.filter(|name| name.to_string_lossy().contains("damaged")).collect();
    assert!(aside.is_empty(), "nothing was damaged, but there is {aside:?}:\n{}", result.stderr);
    (end, result.messages.refused)
}

/// Checks that a daemon that ends by itself prints the reason.
fn check_end(cell: &Cell, status: ExitStatus, stderr: &str) {
    if cell.is_kill() && status.code().is_none() {
        return;
    }
    assert_eq!(status.code(), Some(1), "{stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(cell.hides_stderr() || last.starts_with("agent-relay: "), "{stderr}");
}

struct RunResult {
    messages: Messages,
    /// strace's log of the calls.
    log: String,
    /// The daemon's standard error.
    stderr: String,
    /// The daemon's exit status, if the daemon ended by itself.
    end: Option<ExitStatus>,
}

/// Runs the conversation with the cell's call failing in the daemon, until the daemon has ended.
fn run(sandbox: &Sandbox, setup: Setup, cell: Option<&Cell>) -> RunResult {
    let (mut messages, endpoint) = (Messages::default(), sandbox.endpoint());
    if setup == Setup::Used {
        let mut first = sandbox.command(["up", "--foreground"]);
        let watchdog = Watchdog::start(Some(first.stderr(Stdio::null()).spawn().unwrap()));
        Conversation::new(&endpoint, &watchdog, &mut messages).run();
        kill(watchdog.end());
    }
    let (log, stderr) = (sandbox.directory().join("log"), sandbox.directory().join(cell::STDERR));
    let watchdog = Watchdog::start(Some(start(sandbox, cell, &log, &stderr)));
    Conversation::new(&endpoint, &watchdog, &mut messages).run();
    let mut daemon = watchdog.end().expect("the watchdog was started with a daemon");
    let mut end = daemon.try_wait().unwrap();
    if setup == Setup::Used || cell.is_some_and(Cell::is_kill) {
        kill(Some(daemon));
    } else if end.is_none() {
        // A command that the daemon does not accept fails, so it is repeated.
        while !output(sandbox.command(["down"])).status.success() {}
        let status = wait(&mut daemon, "the stopped daemon");
        // A daemon that fails while it stops prints why.
        end = Some(status).filter(|status| !status.success());
    }
    let read = |path: PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    RunResult { messages, log: read(log), stderr: read(stderr), end }
}

/// Starts a daemon under strace.
fn start(sandbox: &Sandbox, cell: Option<&Cell>, log: &PathBuf, stderr: &PathBuf) -> Child {
    let mut arguments = vec!["-f".into(), "-o".into(), log.into()];
    match cell {
        Some(cell) => {
            arguments.extend(cell.arguments(sandbox.directory()).into_iter().map(Into::into))
        }
        None => arguments.extend(["-e".into(), format!("trace={}", cell::calls()).into()]),
    }
    let mut command = traced(sandbox, arguments);
    command.stdout(Stdio::null()).stderr(File::create(stderr).unwrap()).spawn().unwrap()
}

fn kill(daemon: Option<Child>) {
    let mut daemon = daemon.expect("the watchdog was started with a daemon");
    daemon.kill().ok();
    daemon.wait().unwrap();
}
