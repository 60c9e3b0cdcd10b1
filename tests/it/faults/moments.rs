//! A daemon that is killed, or cannot read or lock its files, at awkward moments.

use super::traced::{Attached, has_strace, injected, traced};
use crate::{crash, fallible_client::FallibleClient, hostile::Pair};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::atomic::AtomicBool,
};
use testkit::{
    sandbox::{Daemon, Sandbox},
    waiting::{output, until},
};

/// The files of the store.
const STORE: [&str; 2] = ["relay.db", "relay.db-wal"];

/// Agents that are away, to whom messages are sent in turn.
const AWAY: [&str; 8] = ["A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8"];

/// A sandbox with a stopped daemon that knows the agents of [`AWAY`].
fn known() -> Sandbox {
    let mut sandbox = Sandbox::with_config("durability = \"process\"\n");
    AWAY.iter().for_each(|name| sandbox.join(name).leave());
    stop(&mut sandbox);
    sandbox
}

#[track_caller]
fn stop(sandbox: &mut Sandbox) {
    let down = sandbox.run(["down"]);
    assert!(down.status.success(), "{down:?}");
    assert!(sandbox.await_daemon_end().success());
}

/// Ann, who sends to the agents of [`AWAY`].
fn join(sandbox: &Sandbox) -> FallibleClient {
    crash::join(&sandbox.endpoint(), "Ann", &mut None, &AtomicBool::new(false)).unwrap()
}

/// Sends this many messages of a length, or fewer if the daemon dies. Returns the accepted bodies,
/// without their padding.
fn send(ann: &mut FallibleClient, prefix: &str, count: usize, length: usize) -> BTreeSet<String> {
    let mut accepted = BTreeSet::new();
    for number in 0..count {
        let (to, id) = (AWAY[number % AWAY.len()], format!("{prefix}{number}"));
        let body = format!("{id}{}", "-".repeat(length - id.len()));
        let answer = ann.send(&id, to, &body).and_then(|()| ann.receive());
        let Some(answer) = answer else { break };
        assert_eq!(answer["type"], "ACK", "{answer}");
        accepted.insert(id);
    }
    accepted
}

/// Starts an undisturbed daemon, and checks that each accepted message arrives once and whole, that
/// the daemon accepts more, and that no file was set aside.
#[track_caller]
fn check_received(sandbox: &mut Sandbox, accepted: &BTreeSet<String>, length: usize) {
    sandbox.start();
    let mut received = BTreeMap::new();
    for name in AWAY {
        let mut raw = sandbox.join(name);
        // A message of this daemon follows all earlier ones.
        sandbox.join("Ann").send(name, "last", json!({}));
        loop {
            let deliver = raw.expect("DELIVER");
            raw.acknowledge(&deliver);
            let body = deliver["payload"]["body"].as_str().unwrap();
            if body == "last" {
                break;
            }
            assert_eq!(body.len(), length);
            let number = body.trim_end_matches('-').to_owned();
            assert_eq!(received.insert(number, deliver["id"].clone()), None, "{body}");
        }
        raw.leave();
    }
    let lost: Vec<_> = accepted.iter().filter(|body| !received.contains_key(*body)).collect();
    assert!(lost.is_empty(), "accepted and lost: {lost:?}");
    let files = fs::read_dir(sandbox.home()).unwrap().map(|file| file.unwrap().file_name());
    let aside: Vec<_> = files.filter(|name| name.to_string_lossy().contains("damaged")).collect();
    assert!(aside.is_empty(), "{aside:?}");
}

#[test]
fn daemon_killed_during_a_checkpoint_loses_nothing() {
    if !has_strace() {
        return;
    }
    for write in [1, 1_000] {
        // The first idle time of a store has a short checkpoint. On a loaded machine it may come
        // only when the log is long, and be hit by the kill.
        let mut kills = (0..5).map(|_| kill_in_checkpoint(write));
        assert!(kills.any(|of_long_log| of_long_log), "a checkpoint of a long log was not killed");
    }
}

/// Kills a daemon at one of a checkpoint's writes into the database, and checks that nothing is
/// lost. Returns whether that checkpoint was for a long log.
fn kill_in_checkpoint(write: usize) -> bool {
    const LENGTH: usize = 60_000;
    // The length of the log that makes a commit copy it into the database, and a length just below
    // it.
    const CHECKPOINT_BYTES: u64 = 16_000_000;
    const BEFORE_BYTES: u64 = 12_000_000;
    let mut sandbox = known();
    sandbox.start();
    let path = sandbox.home().join(STORE[1]);
    let log = || path.metadata().unwrap().len();
    let (mut ann, mut accepted) = (join(&sandbox), BTreeSet::new());
    while log() < BEFORE_BYTES {
        accepted.append(&mut send(&mut ann, &format!("{}-", accepted.len()), 20, LENGTH));
    }
    let kill = format!("pwrite64:signal=KILL:when={write}");
    let injected = injected(&sandbox, &kill, &STORE[..1]);
    let _strace = Attached::to(&sandbox, sandbox.daemon_pid(), injected);
    let last = send(&mut ann, "last", 400, LENGTH);
    assert!(last.len() < 400, "the daemon was not killed");
    assert_eq!(sandbox.await_daemon_end().code(), None, "killed");
    let of_long_log = log() > CHECKPOINT_BYTES;
    accepted.extend(last);
    check_received(&mut sandbox, &accepted, LENGTH);
    of_long_log
}

#[test]
fn daemon_killed_at_each_of_ten_starts_loses_nothing() {
    const CALLS: &str = "openat,pread64,pwrite64,fdatasync,fsync,ftruncate,unlink";
    if !has_strace() {
        return;
    }
    let mut sandbox = known();
    sandbox.start();
    let accepted = send(&mut join(&sandbox), "", 200, 1_000);
    assert_eq!(accepted.len(), 200);
    sandbox.kill();
    let mut killed = 0;
    for start in 1..=10 {
        let kill = format!("{CALLS}:signal=KILL:when={}", start * 5);
        // A daemon that makes fewer calls is killed once it listens.
        let started = Daemon::try_start(traced(&sandbox, injected(&sandbox, &kill, &STORE)));
        killed += usize::from(started.is_err());
    }
    assert!(killed >= 5, "{killed} were killed before they listened");
    check_received(&mut sandbox, &accepted, 1_000);
}

/// Returns the version of a store, and how many messages it has.
#[track_caller]
fn version_and_messages(path: &Path) -> (u32, u32) {
    let store = rusqlite::Connection::open(path).unwrap();
    let number = |sql: &str| -> u32 { store.query_row(sql, [], |row| row.get(0)).unwrap() };
    let version = number("PRAGMA user_version");
    let history = "SELECT count(*) FROM sqlite_schema WHERE name = 'history'";
    assert_eq!(number(history), u32::from(version < 6), "version {version} is whole");
    let sound: String = store.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok", "{}", path.display());
    (version, number("SELECT count(*) FROM message"))
}

/// The names of a store of version 2 that was taken over, and of the new one until it is complete
/// and until it has its own name.
const KEPT: &str = "relay.db.before-v2";
const DRAFT: &str = "relay.db.taking-over";
const COMPLETE: &str = "relay.db.of-v2";

/// The version of a store that this program writes.
const CURRENT: u32 = 7;

/// The number of the store's messages.
const MESSAGES: u32 = 80;

/// Checks the files of a daemon that was killed while it took a store over, and returns the version
/// of the store.
#[track_caller]
fn version_left(home: &Path, kill: &str) -> u32 {
    let examined = Sandbox::empty();
    for file in files_of(home, "relay.db") {
        fs::copy(home.join(&file), examined.directory().join(file)).unwrap();
    }
    let look = |name: &str| {
        let path = examined.directory().join(name);
        path.exists().then(|| version_and_messages(&path))
    };
    match (look("relay.db"), look(KEPT), look(COMPLETE)) {
        (Some((2, MESSAGES)), None, None | Some((CURRENT, MESSAGES))) => 2,
        (None, Some((2, MESSAGES)), Some((CURRENT, MESSAGES)))
        | (Some((CURRENT, MESSAGES)), Some((2, MESSAGES)), None) => CURRENT,
        other => panic!("{kill}: {other:?}"),
    }
}

/// Fills the store with messages, and turns it into one of version 2. Returns the accepted
/// messages.
fn fill_older_store(sandbox: &mut Sandbox) -> BTreeSet<String> {
    sandbox.start();
    let accepted = send(&mut join(sandbox), "", MESSAGES as usize, 1_000);
    stop(sandbox);
    let old = rusqlite::Connection::open(sandbox.home().join("relay.db")).unwrap();
    old.execute_batch(include_str!("../../../crates/store/data/back_to_5.sql")).unwrap();
    old.execute_batch(include_str!("../../../crates/store/data/back_to_4.sql")).unwrap();
    old.execute_batch(include_str!("../../../crates/store/data/back_to_3.sql")).unwrap();
    old.execute_batch(include_str!("../../../crates/store/data/back_to_2.sql")).unwrap();
    old.close().unwrap();
    accepted
}

#[test]
fn takeover_on_a_full_disk_leaves_the_older_store() {
    if !has_strace() {
        return;
    }
    let mut sandbox = known();
    let accepted = fill_older_store(&mut sandbox);
    let store = sandbox.home().join("relay.db");
    let before = fs::read(&store).unwrap();
    let full = injected(&sandbox, "pwrite64:error=ENOSPC", &[DRAFT]);
    let Err(printed) = Daemon::try_start(traced(&sandbox, full)) else {
        panic!("the daemon started")
    };
    let last = printed.lines().last().unwrap_or_default();
    for words in ["no room for the new file", "free some disk space; the file is as it was"] {
        assert!(last.contains(words), "{printed}");
    }
    assert!(fs::read(&store).unwrap() == before);
    assert!(files_of(&sandbox.home(), "relay.db.").is_empty());
    check_received(&mut sandbox, &accepted, 1_000);
}

/// A daemon that takes over a store of version 2 is killed at calls on the files of both.
#[test]
fn daemon_killed_during_a_takeover_leaves_the_old_or_the_new_version() {
    const CALLS: &str = "openat,pread64,pwrite64,fdatasync,fsync,ftruncate,unlink,rename";
    const KILLS: usize = 24;
    if !has_strace() {
        return;
    }
    let mut sandbox = known();
    let accepted = fill_older_store(&mut sandbox);
    let (home, saved) = (sandbox.home(), sandbox.directory().join("saved"));
    fs::copy(home.join("relay.db"), &saved).unwrap();
    let files = [&STORE[..], &[KEPT, DRAFT, COMPLETE]].concat();
    let take_over = |sandbox: &Sandbox, inject: &str| {
        for file in files_of(&home, "relay.db") {
            fs::remove_file(home.join(file)).unwrap();
        }
        fs::copy(&saved, home.join("relay.db")).unwrap();
        let arguments = injected(sandbox, inject, &files);
        Daemon::try_start(traced(sandbox, arguments)).is_err()
    };
    let undisturbed = format!("{CALLS}:delay_enter=0");
    assert!(!take_over(&sandbox, &undisturbed), "the daemon listens");
    let log = fs::read_to_string(sandbox.directory().join("log")).unwrap();
    let calls = calls_of_first_thread(&log);
    assert!(calls.len() > 3 * KILLS, "{} calls", calls.len());
    let evenly = (1..=KILLS).map(|number| calls[number * calls.len() / KILLS - 1]);
    // Few calls rename a file, and each is a turn.
    let renaming = calls.iter().copied().filter(|(call, _)| *call == "rename");
    let kills =
        evenly.chain(renaming).map(|(call, count)| format!("{call}:signal=KILL:when={count}"));
    let (mut versions, mut killed) = (BTreeSet::new(), 0);
    // The last daemon is killed once it listens.
    for inject in kills.chain([undisturbed]) {
        killed += usize::from(take_over(&sandbox, &inject));
        versions.insert(version_left(&home, &inject));
    }
    assert!(killed >= KILLS / 4 * 3, "{killed} were killed before they listened");
    assert!(versions.iter().eq(&[2, CURRENT]), "{versions:?}");
    check_received(&mut sandbox, &accepted, 1_000);
    assert_eq!(version_and_messages(&home.join(KEPT)), (2, MESSAGES));
}

/// The calls on the store in a log of strace by the thread of the first one: their names, and their
/// numbers for `when=`, which counts each thread's calls of each name.
fn calls_of_first_thread(log: &str) -> Vec<(&str, usize)> {
    let calls = log.lines().filter(|line| line.contains("relay.db"));
    let calls = calls.filter_map(|line| line.split_once('(')?.0.split_once(' '));
    let calls: Vec<_> = calls.map(|(thread, call)| (thread, call.trim())).collect();
    let mut counts = BTreeMap::new();
    let first = calls.iter().filter(|(thread, _)| *thread == calls[0].0);
    let numbered = first.map(|(_, call)| {
        *counts.entry(*call).or_insert(0) += 1;
        (*call, counts[call])
    });
    numbered.collect()
}

/// The names of a directory's files with this prefix.
fn files_of(directory: &Path, prefix: &str) -> Vec<String> {
    let files = fs::read_dir(directory).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// One read fails while the daemon starts, which its main thread does. SQLite reports most failed
/// reads as damage.
#[test]
fn failed_read_of_the_store_loses_nothing() {
    if !has_strace() {
        return;
    }
    let mut sandbox = known();
    let (mut accepted, mut injected_count) = (BTreeSet::new(), 0);
    for number in (1..40).step_by(4) {
        sandbox.start();
        accepted.extend(send(&mut join(&sandbox), &format!("{number}-"), 10, 4_000));
        sandbox.kill();
        let fails = format!("pread64:error=EIO:when={number}");
        let mut arguments = injected(&sandbox, &fails, &STORE);
        arguments.retain(|argument| argument != "-f");
        let started = Daemon::try_start(traced(&sandbox, arguments));
        if let Err(printed) = started {
            let last = printed.lines().last().unwrap_or_default();
            assert!(last.starts_with("agent-relay: cannot open the store "), "{printed}");
            assert!(last.ends_with("relay.db: disk I/O error; check the disk"), "{printed}");
        }
        let log = fs::read_to_string(sandbox.directory().join("log")).unwrap();
        injected_count += log.matches("(INJECTED)").count();
    }
    assert_eq!(injected_count, 10);
    check_received(&mut sandbox, &accepted, 4_000);
}

/// The daemon opens the store again after the failed read, and then finds the empty file that it
/// has made itself.
#[test]
fn first_start_with_a_failed_read_reports_no_empty_store() {
    if !has_strace() {
        return;
    }
    let mut started = 0;
    for number in 1..=5 {
        let sandbox = Sandbox::empty();
        let fails = format!("pread64:error=EIO:when={number}");
        let mut arguments = injected(&sandbox, &fails, &STORE);
        arguments.retain(|argument| argument != "-f");
        // SQLite reports some of the failures as disk errors, which end the daemon.
        let Ok(_daemon) = Daemon::try_start(traced(&sandbox, arguments)) else { continue };
        let log = fs::read_to_string(sandbox.directory().join("log")).unwrap();
        started += log.matches("(INJECTED)").count();
        let status = sandbox.run(["status", "--json"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        let daemon = &status["status"]["daemon"];
        assert!(daemon["pid"].is_u64() && daemon.get("remarks").is_none(), "{number}: {status}");
    }
    assert!(started > 0, "a daemon started after a failed read");
}

#[test]
fn file_system_without_locks_is_refused_with_a_remedy() {
    if !has_strace() {
        return;
    }
    let sandbox = Sandbox::empty();
    let refused = output(traced(&sandbox, injected(&sandbox, "flock:error=ENOLCK", &[])));
    let printed = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{printed}");
    let [line] = printed.lines().collect::<Vec<_>>()[..] else { panic!("{printed}") };
    for words in ["daemon.lock", "No locks available", "choose a directory on a local disk"] {
        assert!(line.contains(words), "{line}");
    }
}

/// Every write to the store is refused, as on a file system that was mounted again without writing.
#[test]
fn home_that_becomes_read_only_stops_only_acceptances() {
    check_outage("openat,pwrite64,ftruncate,fsync,fdatasync:error=EROFS");
}

/// A full disk still opens and syncs files.
#[test]
fn disk_that_is_full_for_a_while_stops_only_acceptances() {
    check_outage("pwrite64:error=ENOSPC");
}

/// Makes calls on the store fail for a while. Until they work again, each message that requires an
/// acknowledgement is refused, and everything else continues.
fn check_outage(calls: &str) {
    if !has_strace() {
        return;
    }
    let mut sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    let outage = Attached::to(&sandbox, sandbox.daemon_pid(), injected(&sandbox, calls, &STORE));
    let mut accepted = Vec::new();
    let mut send = |ann: &mut testkit::raw::Raw, body: &str| -> Value {
        ann.send("Bob", body, json!({"requires_ack": true}));
        let answer = ann.receive().unwrap();
        if answer["type"] == "ACK" {
            accepted.push(body.to_owned());
        }
        answer
    };
    for _ in 0..20 {
        let refused = send(&mut ann, "refused");
        assert_eq!(refused["payload"]["code"], "STORE_FAILED", "{refused}");
        let message = refused["payload"]["message"].as_str().unwrap();
        assert!(message.contains("relay.db"), "{message}");
        ann.send("Bob", "at most once", json!({}));
        assert_eq!(bob.expect("DELIVER")["payload"]["body"], "at most once");
    }
    let status = ann.ask("status", &Value::Null);
    assert!(status["daemon"]["store_fails"].is_string(), "{status}");
    let status = sandbox.run(["status"]);
    assert!(String::from_utf8(status.stdout).unwrap().contains("relay.db"), "commands say it");
    drop(outage);
    until("the store accepts again", || send(&mut ann, "accepted")["type"] == "ACK");
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "accepted");
    assert!(sandbox.is_up());
    sandbox.kill();
    sandbox.start();
    let redelivered = sandbox.join("Bob").expect("DELIVER");
    assert_eq!(redelivered["payload"]["body"], "accepted");
    assert_eq!(accepted, ["accepted"]);
}

/// Every second call on a socket is interrupted, and a reader leaves more unread than a socket
/// holds, so that writes are short.
#[test]
fn interrupted_calls_and_short_writes_on_sockets_change_nothing() {
    const CALLS: &str = "recvfrom,recvmsg,read,readv,sendto,sendmsg,write,writev,accept4,poll";
    if !has_strace() {
        return;
    }
    let mut sandbox = Sandbox::new();
    let arguments = injected(&sandbox, &format!("{CALLS}:error=EINTR:when=1+2"), &[]);
    let interrupted = Attached::to(&sandbox, sandbox.daemon_pid(), arguments);
    let (mut cid, mut dan) = (sandbox.join("Cid"), sandbox.join("Dan"));
    let body = |number: usize| number.to_string().repeat(400_000);
    for number in 1..=4 {
        cid.send("Dan", &body(number), json!({"requires_ack": true}));
        cid.expect("ACK");
    }
    for number in 1..=4 {
        let deliver = dan.expect("DELIVER");
        assert!(deliver["payload"]["body"] == *body(number), "message {number}");
        dan.acknowledge(&deliver);
    }
    Pair::join(&sandbox).talk(30);
    // A stop wakes a thread by a byte that is sent without waiting, which no signal interrupts.
    drop(interrupted);
    stop(&mut sandbox);
    let log = fs::read_to_string(sandbox.directory().join("log")).unwrap();
    assert!(log.matches("(INJECTED)").count() > 100, "{log}");
}

/// The daemon cannot log why it does not start, so the command says that.
#[test]
fn start_with_a_full_disk_names_the_log_and_the_remedy() {
    if !has_strace() {
        return;
    }
    let sandbox = Sandbox::empty();
    platform::paths::make_private_dir(&sandbox.home()).unwrap();
    fs::write(sandbox.home().join("policy.toml"), "wrong").unwrap();
    let mut up = sandbox.program("strace");
    up.args(["-qq", "-s", "0"]);
    up.args(injected(&sandbox, "write:error=ENOSPC", &["daemon.log"]));
    let daemon = sandbox.command(["up"]);
    up.arg(daemon.get_program()).args(daemon.get_args());
    let up = output(up);
    let refused = String::from_utf8(up.stderr).unwrap();
    let log = sandbox.home().join("daemon.log");
    let full = format!("write {}: No space left on device", log.display());
    assert!(refused.contains(&full), "{refused}");
    assert!(refused.contains("free some disk space there"), "{refused}");
}
