//! The daemon dies, or is stopped, while agents run: who starts the next one, and what of their
//! messages.

use crate::{
    sandbox::{self, Sandbox, until},
    terminal::Terminal,
    upgrade::Replaced,
    wrap::{is_told, reading, wait_until_heard},
};
use platform::process::SYSTEM;
use platform::{clock, lock::Lock};
use serde_json::{Value, json};
use std::{
    fs, path,
    process::{Child, Stdio},
};

/// What a wrapper writes into the daemon's log.
const STARTED: &str = "the daemon had died, and was started again";
const STOPPED: &str = "the daemon was stopped on purpose";
const TOO_OFTEN: &str = "the daemon was started 5 times within a minute";

fn log(sandbox: &Sandbox) -> String {
    fs::read_to_string(sandbox.home().join("daemon.log")).unwrap_or_default()
}

/// The times of a home's automatic starts.
fn starts(sandbox: &Sandbox) -> Vec<u64> {
    let text = fs::read_to_string(sandbox.home().join("starts")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn is_marked(sandbox: &Sandbox) -> bool {
    sandbox.home().join("daemon.stopped").exists()
}

/// The number of the daemon's process, where one is up.
fn daemon(sandbox: &Sandbox) -> Option<u64> {
    let status = sandbox.run(["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).ok()?;
    status["status"]["daemon"]["pid"].as_u64()
}

#[track_caller]
fn kill(sandbox: &Sandbox, pid: u64) {
    let pid = pid.to_string();
    let line = if SYSTEM == "windows" {
        ["taskkill", "/F", "/PID", &pid]
    } else {
        ["kill", "-s", "KILL", &pid]
    };
    let mut kill = sandbox.program(line[0]);
    kill.args(&line[1..]);
    let ended = sandbox::output(kill);
    assert!(ended.status.success(), "{ended:?}");
}

/// Tells the daemon to stop, where the system can by a signal, else by the command.
#[track_caller]
fn tell_to_stop(place: &Replaced) {
    if SYSTEM == "windows" {
        place.done(&["down"]);
        return;
    }
    let mut kill = place.0.program("kill");
    kill.args(["-s", "TERM", &daemon(&place.0).unwrap().to_string()]);
    assert!(sandbox::output(kill).status.success());
}

/// Kills the daemon, and waits until another one is up.
#[track_caller]
fn kill_and_await_another(sandbox: &Sandbox) {
    let old = daemon(sandbox).expect("a daemon is up");
    kill(sandbox, old);
    until("another daemon is up", || daemon(sandbox).is_some_and(|new| new != old));
}

/// What `agents --json` says of one.
fn agent(sandbox: &Sandbox, name: &str) -> Option<Value> {
    let listed = sandbox.run(["agents", "--json"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut rows = listed.lines().map(|row| serde_json::from_str::<Value>(row).unwrap());
    rows.find(|row| row["name"] == name)
}

#[track_caller]
fn until_here(sandbox: &Sandbox, name: &str) {
    until(&format!("{name} is here"), || {
        agent(sandbox, name).is_some_and(|agent| agent["here"] == true)
    });
}

#[track_caller]
fn is_heard_once(terminal: &Terminal, body: &str) {
    wait_until_heard(terminal, body);
    let line = format!("heard: {body}");
    assert_eq!(terminal.text().matches(&line).count(), 1, "{}", terminal.text());
}

#[test]
fn wrapped_agents_start_a_killed_daemon_and_lose_nothing() {
    let mut sandbox = Sandbox::new();
    let (mut ann, mut bob) = (reading(&sandbox, "Ann", &[]), reading(&sandbox, "Bob", &[]));
    ann.press("say Bob before it\r");
    is_heard_once(&bob, "before it");

    sandbox.kill();
    ann.press("say Bob said while nobody heard\r");
    ann.wait_for("\nsaid while nobody heard>>>\n");
    bob.press("say Ann said at that time\r");
    bob.wait_for("\nsaid at that time>>>\n");
    sandbox.let_others_start();

    is_heard_once(&bob, "said while nobody heard");
    is_heard_once(&ann, "said at that time");
    is_heard_once(&bob, "before it");
    assert_eq!(starts(&sandbox).len(), 1);
    assert!(log(&sandbox).contains(STARTED), "{}", log(&sandbox));

    // The message has one delivery, and the id of that is the one that Bob was shown.
    let rows = sandbox.run(["history", "--json", "--search", "nobody"]);
    let rows = String::from_utf8(rows.stdout).unwrap();
    let [row] = rows.lines().collect::<Vec<_>>()[..] else { panic!("{rows}") };
    let row: Value = serde_json::from_str(row).unwrap();
    let id = &row["id"].as_str().unwrap()[..8];
    assert!(bob.text().contains(&format!(" from Ann, id {id}]")), "{id}:\n{}", bob.text());
}

#[test]
fn nobody_but_a_person_starts_a_daemon_after_down() {
    let place = Replaced::new();
    let mut ann = reading(&place.0, "Ann", &[]);
    place.done(&["down"]);
    assert!(is_marked(&place.0));
    until("Ann's wrapper has looked", || log(&place.0).contains(STOPPED));

    let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    for line in ["send Bob hello", "up", "listen --as Ann"] {
        ann.press(&format!("run \"{}\" {line}\r", relay.display()));
        is_told(&ann, &format!("{STOPPED}: your user starts it with `agent-relay up`"));
        ann.press("size\r");
        ann.wait_for("30 rows");
    }
    assert!(!Lock::is_held(&place.0.home().join("daemon.lock")).unwrap());
    assert!(starts(&place.0).is_empty());

    place.done(&["up"]);
    assert!(!is_marked(&place.0));
    until_here(&place.0, "Ann");
}

#[test]
fn down_without_a_daemon_forbids_automatic_starts() {
    let mut sandbox = Sandbox::new();
    let _ann = reading(&sandbox, "Ann", &[]);
    sandbox.kill();
    assert!(!is_marked(&sandbox));
    // The command waits for the start lock, which is free from here on.
    let mut down = sandbox.command(["down"]);
    let mut down = down.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sandbox.let_others_start();
    assert!(sandbox::wait(&mut down, "down").success());
    assert!(is_marked(&sandbox));
    until("Ann's wrapper has looked", || log(&sandbox).contains(STOPPED));
    assert_eq!(daemon(&sandbox), None);
}

#[test]
fn a_daemon_that_is_told_to_stop_marks_its_home_and_one_that_makes_room_does_not() {
    let place = Replaced::new();
    let ann = reading(&place.0, "Ann", &[]);
    place.done(&["up", "--replace"]);
    until_here(&place.0, "Ann");
    assert!(!is_marked(&place.0));
    assert!(starts(&place.0).is_empty(), "the wrapper started none");

    tell_to_stop(&place);
    until("it is marked", || is_marked(&place.0));
    until("Ann's wrapper has looked", || log(&place.0).contains(STOPPED));
    // Any command of a person's does.
    place.done(&["send", "Ann", "there again"]);
    wait_until_heard(&ann, "there again");
    assert!(!is_marked(&place.0));
}

#[test]
fn a_daemon_is_started_five_times_within_a_minute_and_not_once_more() {
    let (place, other) = (Replaced::new(), Replaced::new());
    let _ann = reading(&place.0, "Ann", &[]);
    let _bob = reading(&other.0, "Bob", &[]);
    for count in 1..=5 {
        kill_and_await_another(&place.0);
        assert_eq!(starts(&place.0).len(), count);
    }
    until_here(&place.0, "Ann");
    // However long that took, it was within this minute.
    let now = format!("{}\n", clock::unix_ms());
    fs::write(place.0.home().join("starts"), now.repeat(5)).unwrap();
    kill(&place.0, daemon(&place.0).unwrap());
    until("Ann's wrapper gives it up", || log(&place.0).contains(TOO_OFTEN));
    assert_eq!((daemon(&place.0), starts(&place.0).len()), (None, 5));

    kill_and_await_another(&other.0);
    assert_eq!(starts(&other.0).len(), 1, "another home's starts are its own");
    // A person's start is never refused, and ends the minute.
    place.done(&["up"]);
    kill_and_await_another(&place.0);
}

/// Processes that are killed at the end.
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
fn many_that_lose_a_daemon_at_once_start_one() {
    let place = Replaced::new();
    let names: Vec<_> = (0..20).map(|number| format!("L{number}")).collect();
    let listening = names.iter().map(|name| {
        let mut command = place.0.command(["listen", "--as", name]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    });
    let _listeners = Listeners(listening.collect());
    names.iter().for_each(|name| until_here(&place.0, name));
    kill_and_await_another(&place.0);
    names.iter().for_each(|name| until_here(&place.0, name));
    assert_eq!(starts(&place.0).len(), 1);
    let log = log(&place.0);
    assert_eq!(log.matches(STARTED).count(), 1, "{log}");
    assert_eq!(log.matches("listening at").count(), 2, "{log}");
}

#[test]
fn an_agent_that_a_crash_cut_off_is_listed_as_reconnecting() {
    let mut sandbox = Sandbox::new();
    sandbox.join("Bob").leave();
    let mut ann = sandbox.join("Ann");
    // What is stored before an accepted message outlives the daemon.
    ann.send("Bob", "hello", json!({"requires_ack": true}));
    assert_eq!(ann.expect("ACK")["payload"]["state"], "accepted");
    sandbox.kill();
    drop(ann);
    sandbox.start();
    let row = agent(&sandbox, "Ann").unwrap();
    assert_eq!((&row["here"], &row["reconnecting"]), (&false.into(), &true.into()), "{row}");
    assert_eq!(agent(&sandbox, "Bob").unwrap().get("reconnecting"), None);
    let listed = String::from_utf8(sandbox.run(["agents"]).stdout).unwrap();
    assert!(listed.contains("reconnecting for "), "{listed}");
    assert!(listed.contains("away for "), "{listed}");
    let _ann = sandbox.join("Ann");
    assert_eq!(agent(&sandbox, "Ann").unwrap()["here"], true);
}
