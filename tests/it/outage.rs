//! The daemon dies or is stopped while agents run: which process starts the next one, and whether
//! messages arrive.

use crate::{
    commands::{Detached, err},
    hostile::Pair,
    killed::suspend,
    upgrade::DetachedDaemon,
    wrap::{wait_for_notice, wait_until_heard, wrap_line_reader},
};
use platform::{clock, lock::Lock, process::SYSTEM, transport::Listener};
use serde_json::{Value, json};
use std::{
    fs, path,
    process::{Child, Stdio},
    thread,
};
use testkit::{
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::{self, until},
};

/// Parts of lines that a wrapper writes into the daemon's log.
const STARTED: &str = "the daemon had died, and was started again";
const STOPPED: &str = "the daemon was stopped on purpose";
const TOO_OFTEN: &str = "the daemon was started 5 times within a minute";

/// The times of a home's automatic starts, in milliseconds since 1970.
fn starts(sandbox: &Sandbox) -> Vec<u64> {
    let text = fs::read_to_string(sandbox.home().join("starts")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn is_marked(sandbox: &Sandbox) -> bool {
    sandbox.home().join("daemon.stopped").exists()
}

/// Stops the daemon by a signal, or by `down` on a system without signals.
#[track_caller]
fn stop(detached: &DetachedDaemon) {
    if SYSTEM == "windows" {
        detached.run_ok(&["down"]);
        return;
    }
    detached.0.signal("TERM", detached.0.answering_daemon().unwrap());
}

/// Kills the daemon, and waits until another one is up.
#[track_caller]
fn kill_and_await_another(sandbox: &Sandbox) {
    let old = sandbox.answering_daemon().expect("a daemon is up");
    sandbox.kill_process(old);
    until("another daemon is up", || sandbox.answering_daemon().is_some_and(|new| new != old));
}

/// Returns an agent's row of `agents --json`.
fn agent(sandbox: &Sandbox, name: &str) -> Option<Value> {
    let listed = sandbox.run(["agents", "--json"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut rows = listed.lines().map(|row| serde_json::from_str::<Value>(row).unwrap());
    rows.find(|row| row["name"] == name)
}

#[track_caller]
pub(crate) fn wait_until_here(sandbox: &Sandbox, name: &str) {
    until(&format!("{name} is here"), || {
        agent(sandbox, name).is_some_and(|agent| agent["here"] == true)
    });
}

#[track_caller]
fn expect_heard_once(terminal: &Terminal, body: &str) {
    wait_until_heard(terminal, body);
    let line = format!("heard: {body}");
    assert_eq!(terminal.text().matches(&line).count(), 1, "{}", terminal.text());
}

#[test]
fn wrapped_agents_start_a_killed_daemon_and_lose_nothing() {
    let mut sandbox = Sandbox::new();
    let (mut ann, mut bob) =
        (wrap_line_reader(&sandbox, "Ann", &[]), wrap_line_reader(&sandbox, "Bob", &[]));
    ann.press("say Bob before it\r");
    expect_heard_once(&bob, "before it");

    sandbox.kill();
    ann.press("say Bob said while nobody heard\r");
    ann.wait_for("\nsaid while nobody heard>>>\n");
    bob.press("say Ann said at that time\r");
    bob.wait_for("\nsaid at that time>>>\n");
    sandbox.let_others_start();

    expect_heard_once(&bob, "said while nobody heard");
    expect_heard_once(&ann, "said at that time");
    expect_heard_once(&bob, "before it");
    assert_eq!(starts(&sandbox).len(), 1);
    sandbox.await_logged(STARTED, 1);

    // The message has one delivery, with the id that Bob's frame shows. On a slow machine Bob may
    // have lost his connection before he acknowledged it; the frame then also says `again`.
    let rows = sandbox.run(["history", "--json", "--search", "nobody"]);
    let rows = String::from_utf8(rows.stdout).unwrap();
    let [row] = rows.lines().collect::<Vec<_>>()[..] else { panic!("{rows}") };
    let row: Value = serde_json::from_str(row).unwrap();
    let id = &row["id"].as_str().unwrap()[..8];
    assert!(bob.text().contains(&format!(" from Ann, id {id}")), "{id}:\n{}", bob.text());
}

#[test]
fn only_a_person_starts_a_daemon_after_down() {
    let detached = DetachedDaemon::new();
    let mut ann = wrap_line_reader(&detached.0, "Ann", &[]);
    detached.run_ok(&["down"]);
    assert!(is_marked(&detached.0));
    detached.0.await_logged(STOPPED, 1);

    let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    for line in ["send Bob hello", "up", "listen --as Ann"] {
        ann.press(&format!("run \"{}\" {line}\r", relay.display()));
        wait_for_notice(&ann, &format!("{STOPPED}: your user starts it with `agent-relay up`"));
        ann.press("size\r");
        ann.wait_for("30 rows");
    }
    assert!(!Lock::is_held(&detached.0.home().join("daemon.lock")).unwrap());
    assert!(starts(&detached.0).is_empty());

    detached.run_ok(&["up"]);
    assert!(!is_marked(&detached.0));
    wait_until_here(&detached.0, "Ann");
}

#[test]
fn down_without_a_daemon_forbids_automatic_starts() {
    let mut sandbox = Sandbox::new();
    let _ann = wrap_line_reader(&sandbox, "Ann", &[]);
    sandbox.kill();
    assert!(!is_marked(&sandbox));
    // The `down` command waits for the start lock, which the sandbox releases next.
    let mut down = sandbox.command(["down"]);
    let mut down = down.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sandbox.let_others_start();
    assert!(waiting::wait(&mut down, "down").success());
    assert!(is_marked(&sandbox));
    sandbox.await_logged(STOPPED, 1);
    assert_eq!(sandbox.answering_daemon(), None);
}

#[test]
fn stopped_daemon_marks_its_home_and_a_replaced_one_does_not() {
    let detached = DetachedDaemon::new();
    let ann = wrap_line_reader(&detached.0, "Ann", &[]);
    detached.run_ok(&["up", "--replace"]);
    wait_until_here(&detached.0, "Ann");
    assert!(!is_marked(&detached.0));
    assert!(starts(&detached.0).is_empty(), "the wrapper started none");

    stop(&detached);
    until("the home is marked", || is_marked(&detached.0));
    detached.0.await_logged(STOPPED, 1);
    // Any command of a person starts a daemon.
    detached.run_ok(&["send", "Ann", "there again"]);
    wait_until_heard(&ann, "there again");
    assert!(!is_marked(&detached.0));
}

#[test]
fn daemon_is_restarted_at_most_five_times_a_minute() {
    let (detached, other) = (DetachedDaemon::new(), DetachedDaemon::new());
    let _ann = wrap_line_reader(&detached.0, "Ann", &[]);
    let _bob = wrap_line_reader(&other.0, "Bob", &[]);
    for count in 1..=5 {
        kill_and_await_another(&detached.0);
        assert_eq!(starts(&detached.0).len(), count);
    }
    wait_until_here(&detached.0, "Ann");
    // Entries of the current time make the test independent of its own duration.
    let now = format!("{}\n", clock::unix_ms());
    fs::write(detached.0.home().join("starts"), now.repeat(5)).unwrap();
    detached.0.kill_process(detached.0.answering_daemon().unwrap());
    detached.0.await_logged(TOO_OFTEN, 1);
    assert_eq!((detached.0.answering_daemon(), starts(&detached.0).len()), (None, 5));

    kill_and_await_another(&other.0);
    assert_eq!(starts(&other.0).len(), 1, "starts are counted for each home");
    // A start by a person is never refused, and resets the count of automatic starts.
    detached.run_ok(&["up"]);
    kill_and_await_another(&detached.0);
}

/// Processes that are killed when dropped.
struct Listeners(Vec<Child>);

impl Drop for Listeners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

#[test]
fn many_listeners_restart_one_daemon() {
    let detached = DetachedDaemon::new();
    let names: Vec<_> = (0..20).map(|number| format!("L{number}")).collect();
    let listening = names.iter().map(|name| {
        let mut command = detached.0.command(["listen", "--as", name]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    });
    let _listeners = Listeners(listening.collect());
    names.iter().for_each(|name| wait_until_here(&detached.0, name));
    kill_and_await_another(&detached.0);
    names.iter().for_each(|name| wait_until_here(&detached.0, name));
    assert_eq!(starts(&detached.0).len(), 1);
    detached.0.await_logged("listening at", 2);
    let log = detached.0.await_logged(STARTED, 1);
    assert_eq!(log.matches(STARTED).count(), 1, "{log}");
    assert_eq!(log.matches("listening at").count(), 2, "{log}");
}

#[test]
fn agent_cut_off_by_a_crash_is_listed_as_reconnecting() {
    let mut sandbox = Sandbox::new();
    sandbox.join("Bob").leave();
    let mut ann = sandbox.join("Ann");
    // Ann's session is stored before her accepted message, so the session survives the crash.
    ann.send("Bob", "hello", json!({"requires_ack": true}));
    assert_eq!(ann.expect("ACK")["payload"]["state"], "accepted");
    sandbox.kill();
    drop(ann);
    sandbox.start();
    let row = agent(&sandbox, "Ann").unwrap();
    assert_eq!((&row["here"], &row["reconnecting"]), (&false.into(), &true.into()), "{row}");
    assert_eq!(agent(&sandbox, "Bob").unwrap().get("reconnecting"), None);
    let listed = String::from_utf8(sandbox.run(["agents"]).stdout).unwrap();
    assert!(listed.contains("  reconnecting  "), "{listed}");
    assert!(listed.contains("  away  "), "{listed}");
    let _ann = sandbox.join("Ann");
    assert_eq!(agent(&sandbox, "Ann").unwrap()["here"], true);
}

/// A killed daemon's listener accepts connections until the system has closed it, and its locks are
/// released only after that.
#[test]
fn up_waits_until_a_killed_daemon_is_gone() {
    let sandbox = Sandbox::empty();
    platform::paths::make_private_dir(&sandbox.home()).unwrap();
    let lock = Lock::take(&sandbox.home().join("daemon.lock")).unwrap().unwrap();
    let listener = Listener::bind(&sandbox.endpoint()).unwrap();
    let _detached = Detached(&sandbox);
    thread::scope(|scope| {
        let up = scope.spawn(|| sandbox.run(["up"]));
        for _ in 0..3 {
            drop(listener.accept().unwrap());
        }
        drop((listener, lock));
        let up = up.join().unwrap();
        assert!(up.status.success(), "{up:?}");
    });
    assert!(sandbox.answering_daemon().is_some());
}

#[test]
fn up_succeeds_directly_after_a_loaded_daemon_was_killed() {
    const CLIENTS: usize = 200;
    let detached = DetachedDaemon::new();
    let sandbox = &detached.0;
    let name = |number: usize| format!("ring-{}", number % CLIENTS);
    let mut clients: Vec<_> = (0..CLIENTS).map(|number| sandbox.join(&name(number))).collect();
    for round in 0..3 {
        let pid = sandbox.answering_daemon().unwrap();
        for (number, client) in clients.iter_mut().enumerate() {
            for message in 0..5 {
                let body = format!("{round}-{message}");
                client.send(&name(number + 1), &body, json!({"requires_ack": true}));
            }
        }
        sandbox.kill_process(pid);
        detached.run_ok(&["up"]);
        clients = (0..CLIENTS).map(|number| sandbox.join(&name(number))).collect();
    }
}

#[test]
fn up_on_a_full_daemon_succeeds() {
    let sandbox = Sandbox::with_config("max_clients = 1\n");
    let _ann = sandbox.join("Ann");
    let up = sandbox.run(["up"]);
    assert!(up.status.success(), "{up:?}");
    assert!(String::from_utf8(up.stdout).unwrap().starts_with("the daemon was up already"));
    let up = sandbox.run(["up", "--json"]);
    assert!(up.status.success(), "{up:?}");
    let up: Value = serde_json::from_slice(&up.stdout).unwrap();
    assert_eq!((&up["schema"], &up["started"]), (&"agent-relay.up/1".into(), &false.into()));
}

#[test]
fn person_runs_an_agent_while_guests_have_no_place() {
    let sandbox = Sandbox::with_config("max_clients = 4\n");
    let mut guests = [(); 3].map(|()| sandbox.connect());
    for (guest, answer) in guests.iter_mut().zip(["WELCOME", "WELCOME", "ERROR"]) {
        let payload = json!({"mode": "guest"});
        guest.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 1, "payload": payload}));
        guest.expect(answer);
    }
    let exe = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let run = sandbox.run(["run", "-n", "Ann", "--", exe.to_str().unwrap(), "--version"]);
    assert!(run.status.success(), "{run:?}");
}

#[test]
fn suspended_daemon_keeps_its_home_and_commands_name_the_remedy() {
    let mut sandbox = Sandbox::new();
    let mut pair = Pair::join(&sandbox);
    pair.talk(1);
    suspend(&sandbox, &sandbox.daemon_pid().to_string(), || {
        let lines: [&[&str]; 4] =
            [&["up"], &["up", "--foreground"], &["send", "Ann", "hello"], &["down"]];
        thread::scope(|scope| {
            let sandbox = &sandbox;
            let commands = lines.map(|line| scope.spawn(move || (line, sandbox.run(line))));
            for command in commands {
                let (line, failed) = command.join().unwrap();
                assert_eq!(failed.status.code(), Some(1), "{line:?}: {failed:?}");
                let words = match line {
                    [_, "--foreground"] => "is already running",
                    _ => "if its process is suspended, continue or end it",
                };
                assert!(err(&failed).contains(words), "{line:?}: {failed:?}");
            }
        });
    });
    pair.talk(5);
    assert!(sandbox.is_up());
    assert!(sandbox.run(["status"]).status.success());
}
