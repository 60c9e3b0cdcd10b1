//! `tap --events`, and `agents --watch` and `--here`, between real processes and in terminals.

use crate::{
    commands::{DONE, USAGE, err, known, out, run, run_with},
    questions::answer,
};
use ::terminal::screen::Screen;
use platform::pty::Size;
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, PipeReader},
    path,
    process::{Child, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};
use testkit::{
    programs::example_program,
    raw::Raw,
    sandbox::Sandbox,
    terminal::{self, Terminal},
    waiting::{self, WATCHDOG, output, until},
};

/// A command that prints lines until it is ended.
struct Running {
    child: Child,
    lines: Receiver<String>,
    notices: Receiver<String>,
}

impl Running {
    fn start(sandbox: &Sandbox, line: &[&str]) -> Self {
        let mut command = sandbox.command(line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let notices = lines_of(child.stderr.take().unwrap());
        Self { child, lines, notices }
    }

    /// Runs `events --follow` with further options, and waits until it follows.
    fn events(sandbox: &Sandbox, options: &[&str]) -> Self {
        let events = Self::start(sandbox, &[&["tap", "--events", "--follow"], options].concat());
        events.wait_for_notice("following the daemon at ");
        events
    }

    #[track_caller]
    fn wait_for_notice(&self, text: &str) {
        loop {
            let notice = self.notices.recv_timeout(WATCHDOG);
            let notice = notice.unwrap_or_else(|error| panic!("{text:?} is not said: {error}"));
            if notice.contains(text) {
                return;
            }
        }
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(WATCHDOG).unwrap()
    }

    #[track_caller]
    fn event(&self) -> Value {
        event(&self.line())
    }

    /// Checks that the next event is this one, so that none was printed before it.
    #[track_caller]
    fn expect_next(&self, expected: &str) {
        assert_eq!(short(&self.event()), expected);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // This fails if the command has ended by itself.
        self.child.kill().ok();
        self.child.wait().unwrap();
    }
}

fn lines_of(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            if line.map(|line| sender.send(line)).is_err() {
                return;
            }
        }
    });
    lines
}

#[track_caller]
fn event(line: &str) -> Value {
    let event: Value = serde_json::from_str(line).unwrap();
    assert_eq!(event["schema"], "agent-relay.event/1", "{line}");
    assert!(event["time"].is_u64(), "{line}");
    event
}

/// The events that `events` prints with these options.
#[track_caller]
fn past(sandbox: &Sandbox, options: &[&str]) -> Vec<Value> {
    let printed = out(&run(sandbox, &[&["tap", "--events"], options].concat(), DONE));
    printed.lines().map(event).collect()
}

/// An event in short: its state and its subject.
fn short(event: &Value) -> String {
    let text = |member: &str| event[member].as_str().unwrap_or_default().to_owned();
    match &*text("kind") {
        "agent" => format!("{} {}", text("agent"), text("state")),
        "lost" => "lost".to_owned(),
        kind => format!("{kind} {} {} -> {}", text("state"), text("from"), text("to")),
    }
}

fn report(agent: &mut Raw, activity: &str) {
    agent.ask("activity", &json!({"activity": activity, "source": "hooks", "for_ms": 0}));
}

#[test]
fn conversation_is_told_in_order() {
    let sandbox = Sandbox::new();
    let events = Running::events(&sandbox, &[]);
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    report(&mut ann, "working");
    report(&mut ann, "working");
    report(&mut ann, "asks-person");
    ann.send("Bob", "hi", json!({"requires_ack": true}));
    let deliver = bob.expect("DELIVER");
    bob.acknowledge(&deliver);
    ann.expect("ACK");
    let expected = [
        "Ann joined",
        "Bob joined",
        "Ann working",
        "Ann asks-person",
        "message accepted Ann -> Bob",
        "message acknowledged Ann -> Bob",
    ];
    let told: Vec<_> = expected.iter().map(|_| events.event()).collect();
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
    let times: Vec<_> = told.iter().map(|event| event["time"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{told:?}");
    assert!(told[4..].iter().all(|event| event["id"] == deliver["id"]), "{told:?}");
    assert_eq!((&told[4]["send_id"], &told[4]["requires_ack"]), (&json!("m-1"), &json!(true)));
    assert_eq!(told[3]["source"], "hooks");
    ann.send("Bob", "at most once", json!({}));
    assert_eq!(short(&events.event()), "message accepted Ann -> Bob");
    bob.expect("DELIVER");
    bob.leave();
    assert_eq!(short(&events.event()), "Bob left");
    run(&sandbox, &["send", "Bob", "late"], DONE);
    run(&sandbox, &["purge", "Bob"], DONE);
    assert_eq!(short(&events.event()), "message accepted @operator -> Bob");
    let dead = events.event();
    assert_eq!(short(&dead), "message dead @operator -> Bob");
    assert_eq!(dead["code"], "EXPIRED");
    assert!(dead["why"].is_string(), "{dead}");
    ann.leave();
    events.expect_next("Ann left");
}

#[test]
fn options_select_events() {
    let sandbox = Sandbox::new();
    let long = "N".repeat(64);
    let filters: [&[&str]; 5] = [
        &["--from", "ann"],
        &["--to", &long],
        &["--topic", "a.b"],
        &["--kind", "agent"],
        &["--agent", "Cid"],
    ];
    let following = filters.map(|filter| Running::events(&sandbox, filter));
    let (mut ann, mut cid) = (sandbox.join("Ann"), sandbox.join("Cid"));
    sandbox.join(&long).leave();
    ann.send(&long, "one", json!({"requires_ack": true}));
    ann.expect("ACK");
    cid.send_json(&json!({
        "v": 1, "type": "SEND", "id": "x", "ts": 0, "to": "Ann", "topic": "a.b",
        "payload": {"kind": "message", "body": "two"}, "payload_meta": {"requires_ack": true},
    }));
    ann.expect("DELIVER");
    let to_long = format!("message accepted Ann -> {long}");
    let of_long = [format!("{long} joined"), format!("{long} left")];
    let expected: [&[&str]; 5] = [
        &[&to_long],
        &[&to_long],
        &["message accepted Cid -> Ann"],
        &["Ann joined", "Cid joined", &of_long[0], &of_long[1]],
        &["Cid joined", "message accepted Cid -> Ann"],
    ];
    for ((events, expected), filter) in following.iter().zip(expected).zip(filters) {
        let told: Vec<_> = expected.iter().map(|_| short(&events.event())).collect();
        assert_eq!(told, expected, "{filter:?}");
    }
    // An event for each filter. Nothing else may be printed before it.
    ann.send_json(&json!({
        "v": 1, "type": "SEND", "id": "y", "ts": 0, "to": long, "topic": "a.b",
        "payload": {"kind": "message", "body": "three"}, "payload_meta": {"requires_ack": true},
    }));
    ann.expect("ACK");
    ann.leave();
    cid.expect("ACK");
    cid.leave();
    let next = [&to_long, &to_long, &to_long, "Ann left", "Cid left"];
    for (events, next) in following.iter().zip(next) {
        events.expect_next(next);
    }
}

#[test]
fn past_events_are_those_of_the_history() {
    let sandbox = known(&["Bob"]);
    run(&sandbox, &["send", "Bob", "one"], DONE);
    run(&sandbox, &["purge", "Bob"], DONE);
    // An event does not include the body of its message.
    run_with(&sandbox, &["send", "--topic", "a.b", "Bob", "-"], &[b'x'; 1_000_000], DONE);
    until("the end is stored", || past(&sandbox, &[]).len() == 3);
    let states = |options: &[&str]| -> Vec<_> {
        past(&sandbox, options).iter().map(|event| event["state"].clone()).collect()
    };
    assert_eq!(states(&[]), ["accepted", "dead", "accepted"]);
    assert_eq!(states(&["--since", "1h", "--kind", "message", "--to", "bob"]).len(), 3);
    assert_eq!(states(&["--topic", "a.b"]), ["accepted"]);
    for none in [&["--since", "2100-01-01"][..], &["--from", "Bob"], &["--topic", "a"]] {
        assert_eq!(past(&sandbox, none), Vec::<Value>::new(), "{none:?}");
    }
    let refused = err(&run(&sandbox, &["tap", "--events", "--kind", "agent"], USAGE));
    assert!(refused.contains("only --follow shows agents"), "{refused}");
    let newest = run(&sandbox, &["--json", "tap", "--events", "--limit", "1"], DONE);
    assert!(out(&newest).len() < 1000, "{newest:?}");
    assert!(err(&newest).contains("only the newest 1 event of"), "{newest:?}");
    let events = Running::events(&sandbox, &["--since", "1h"]);
    let told = [events.event(), events.event(), events.event()];
    assert_eq!(told.map(|event| event["state"].clone()), ["accepted", "dead", "accepted"]);
    let _cid = sandbox.join("Cid");
    events.expect_next("Cid joined");
    let usage = sandbox.run(["tap", "--events", "--kind", "lost"]);
    assert!(err(&usage).contains("give message, answer or agent"), "{usage:?}");
    let tap = err(&run(&sandbox, &["tap", "--since", "1h"], USAGE));
    assert!(tap.contains("--since selects events; add --events"), "{tap}");
}

#[test]
fn events_go_on_after_the_daemon_was_killed() {
    let mut sandbox = known(&["Bob"]);
    let ann = sandbox.join("Ann");
    let events = Running::events(&sandbox, &[]);
    run(&sandbox, &["send", "Bob", "before"], DONE);
    assert_eq!(short(&events.event()), "message accepted @operator -> Bob");
    sandbox.kill();
    drop(ann);
    events.wait_for_notice("; trying again");
    sandbox.start();
    // These two may come before the events are followed again.
    run(&sandbox, &["send", "Bob", "between"], DONE);
    let _cid = sandbox.join("Cid");
    events.wait_for_notice("connected again");
    run(&sandbox, &["send", "Bob", "after"], DONE);
    let mut told = Vec::new();
    let mut ids = Vec::new();
    while ids.len() < 2 || told.len() < 5 {
        let event = events.event();
        if event["kind"] == "message" {
            ids.push(event["id"].clone());
        }
        told.push(short(&event));
    }
    told.sort();
    let expected = [
        "Ann left",
        "Cid joined",
        "lost",
        "message accepted @operator -> Bob",
        "message accepted @operator -> Bob",
    ];
    assert_eq!(told, expected);
    assert_ne!(ids[0], ids[1]);
    let _dora = sandbox.join("Dora");
    events.expect_next("Dora joined");
}

#[test]
fn answer_is_reported_once_despite_a_killed_daemon() {
    let mut sandbox = Sandbox::new();
    let events = Running::events(&sandbox, &["--kind", "answer"]);
    let answered = |sandbox: &Sandbox, body: &str| {
        let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
        ann.send("Bob", body, json!({"sync": {"correlationId": "c", "blocking": true}}));
        let deliver = bob.expect("DELIVER");
        answer(&mut bob, &deliver, "8080");
        ann.expect("ACK");
        ann.expect("ACK");
        deliver["id"].clone()
    };
    let first = answered(&sandbox, "port?");
    let told = events.event();
    assert_eq!((&*short(&told), &told["id"]), ("answer  Bob -> Ann", &first));
    sandbox.kill();
    events.wait_for_notice("; trying again");
    sandbox.start();
    events.wait_for_notice("connected again");
    let second = answered(&sandbox, "host?");
    events.expect_next("lost");
    assert_eq!(events.event()["id"], second, "the first one was told");
    let past = past(&sandbox, &["--kind", "answer"]);
    let ids: Vec<_> = past.iter().map(|event| event["id"].clone()).collect();
    assert_eq!(ids, [first, second]);
}

/// Starts `events --follow` with a pipe as its output, and waits until it follows.
fn follow_into_pipe(sandbox: &Sandbox) -> (PipeReader, Child, Receiver<String>) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = sandbox.command(["tap", "--events", "--follow"]);
    command.stdout(writer).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let notices = lines_of(child.stderr.take().unwrap());
    assert!(notices.recv_timeout(WATCHDOG).unwrap().contains("following the daemon at "));
    (reader, child, notices)
}

#[test]
fn closed_pipe_ends_events_quietly() {
    let sandbox = known(&["Bob"]);
    let (reader, mut child, notices) = follow_into_pipe(&sandbox);
    run(&sandbox, &["send", "Bob", "one"], DONE);
    let mut first = String::new();
    BufReader::new(reader).read_line(&mut first).unwrap();
    assert_eq!(event(&first)["state"], "accepted");
    until("the command ends", || {
        run(&sandbox, &["send", "Bob", "more"], DONE);
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().code(), Some(DONE));
    assert_eq!(notices.iter().collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn closed_pipe_ends_events_without_another_event() {
    let sandbox = known(&["Bob"]);
    let (reader, mut child, _notices) = follow_into_pipe(&sandbox);
    drop(reader);
    assert_eq!(waiting::wait(&mut child, "events").code(), Some(DONE));
}

#[test]
fn reasons_cannot_control_the_terminal() {
    let sandbox = Sandbox::new();
    let events = Running::events(&sandbox, &["--kind", "message"]);
    let mut bob = sandbox.join("Bob");
    run(&sandbox, &["send", "Bob", "one"], DONE);
    let deliver = bob.expect("DELIVER");
    let why = "\u{1b}]0;title\u{7}\u{9b}2J\u{202e}\u{5e9}\u{5dc}\u{5d5}\u{5dd}";
    bob.send_json(&json!({
        "v": 1, "type": "NACK", "id": "n", "ts": 0,
        "payload": {"ack_id": deliver["id"], "code": "X", "message": why},
    }));
    assert_eq!(events.event()["state"], "accepted");
    let line = events.line();
    let is_hidden = |character: char| character.is_control() || character == '\u{202e}';
    assert!(!line.contains(is_hidden), "{line:?}");
    assert_eq!(event(&line)["why"], format!("Bob refused it: {why}"));
}

/// Runs `agent-relay ARGUMENTS` in a terminal as a person would, with these variables.
fn start(
    sandbox: &Sandbox,
    size: Size,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Terminal {
    let program = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let line = [&[program.to_str().unwrap()], arguments].concat();
    let mut environment = terminal::environment(sandbox);
    environment.extend(["AGENT_RELAY_AGENT", "NO_COLOR"].map(|name| (name.into(), None)));
    let set = variables.iter().map(|(name, value)| (name.into(), Some(OsString::from(value))));
    environment.extend(set);
    Terminal::start(&line, &environment, sandbox.directory(), size)
}

#[test]
fn watched_list_is_repainted_in_a_terminal_of_any_size() {
    let mut sandbox = Sandbox::new();
    let long = "N".repeat(64);
    let (mut ann, long) = (sandbox.join("Ann"), sandbox.join(&long));
    let mut watch = start(&sandbox, Size { rows: 24, cols: 80 }, &["agents", "--watch"], &[]);
    watch.wait_until("both agents", |screen| screen.contains("Ann ") && screen.contains("NNN"));
    assert!(watch.look(|screen| screen.alternate()));
    report(&mut ann, "waits-for-permission");
    watch.wait_for("waits for permission");
    drop(long);
    watch.wait_for("1 away without mail:");
    for (rows, cols) in [(5, 20), (1, 1), (2, 3), (60, 200)] {
        watch.resize(Size { rows, cols });
        if cols > 3 {
            watch.wait_for("Ann");
        }
    }
    watch.resize(Size { rows: 3, cols: 20 });
    let _others = ["Bob", "Cid"].map(|name| sandbox.join(name));
    watch.wait_for("… and 7 more");
    watch.resize(Size { rows: 24, cols: 80 });
    sandbox.kill();
    watch.wait_for("; trying again");
    sandbox.start();
    let _ann = sandbox.join("Ann");
    watch.wait_until("the new list", |screen| {
        screen.contains(" here ") && !screen.contains("trying again")
    });
    watch.press("\u{3}");
    watch.wait_until_end();
    assert!(watch.look(|screen| !screen.alternate()), "{}", watch.text());
    let bytes = String::from_utf8_lossy(&watch.bytes()).into_owned();
    let (shown, hidden) = (bytes.rfind("\u{1b}[?25h"), bytes.rfind("\u{1b}[?25l"));
    assert!(shown > hidden, "{bytes:?}");
    assert_eq!(watch.finish(), DONE);
}

#[test]
fn suspended_list_gives_the_terminal_back() {
    let sandbox = Sandbox::new();
    let _ann = sandbox.join("Ann");
    let mut environment = terminal::environment(&sandbox);
    environment.extend(["AGENT_RELAY_AGENT", "NO_COLOR"].map(|name| (name.into(), None)));
    let size = Size { rows: 24, cols: 80 };
    let mut shell = Terminal::start(
        &["bash", "--norc", "--noprofile", "-i"],
        &environment,
        sandbox.directory(),
        size,
    );
    let program = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let is_given_back = |screen: &Screen| !screen.alternate() && screen.cursor().visible;
    shell.press(&format!("'{}' agents --watch\r", program.display()));
    shell.wait_until_screen("the list", |screen| {
        screen.alternate() && screen.text().contains("Ann ")
    });
    shell.press("\u{1a}");
    shell.wait_until_screen("the shell", |screen| {
        is_given_back(screen) && screen.text().contains("Stopped")
    });
    shell.press("fg\r");
    shell.wait_until_screen("the list again", |screen| {
        screen.alternate() && screen.text().contains("Ann ")
    });
    // Ctrl-Backslash.
    shell.press("\u{1c}");
    shell.wait_until_screen("the shell again", is_given_back);
    shell.press("exit\r");
    shell.wait_until_end();
}

#[test]
fn watched_list_is_printed_again_only_after_a_change() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    let watch = Running::start(&sandbox, &["agents", "--watch"]);
    let json = Running::start(&sandbox, &["agents", "--watch", "--json"]);
    let dumb = [("TERM", "dumb")];
    let dumb = start(&sandbox, Size { rows: 24, cols: 80 }, &["agents", "-w"], &dumb);
    assert!(watch.line().starts_with("NAME "));
    let row = watch.line();
    let words = |row: &str| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let [here, idle] = ["here", "idle"].map(|state| ["Ann", state].map(str::to_owned));
    assert_eq!(words(&row)[..2], here);
    let listed = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    assert_eq!(listed(&json.line())["schema"], "agent-relay.agent/1");
    dumb.wait_until("the state", |text| text.lines().any(|row| words(row).starts_with(&here)));
    // The age of a state does not count as a change.
    until("the age is another", || !out(&run(&sandbox, &["agents"], DONE)).contains(&row));
    report(&mut ann, "idle");
    assert_eq!(watch.line(), "");
    assert!(watch.line().starts_with("NAME "));
    assert_eq!(words(&watch.line())[..2], idle);
    assert_eq!(listed(&json.line())["activity"], "idle");
    dumb.wait_until("the change", |text| text.lines().any(|row| words(row).starts_with(&idle)));
    let bytes = String::from_utf8_lossy(&dumb.bytes()).into_owned();
    assert!(!bytes.contains("[?1049h"), "{bytes:?}");
    ann.leave();
    assert_eq!(listed(&json.line())["here"], false);
}

#[test]
fn agents_of_this_directory_are_listed() {
    let sandbox = Sandbox::new();
    let directory = sandbox.directory();
    let other = directory.join("other");
    fs::create_dir(&other).unwrap();
    let _bob = sandbox.join("Bob");
    // The wrapper runs in the sandbox's directory.
    let ann = Terminal::wrap(&sandbox, "Ann", &[&example_program("lines")]);
    let names = |directory: &path::Path| {
        let mut command = sandbox.command(["agents", "--here", "--json"]);
        command.current_dir(directory);
        let printed = out(&output(command));
        let rows = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    until("Ann is listed", || names(directory) == ["Ann"]);
    assert_eq!(names(directory.parent().unwrap()), ["Ann"]);
    assert_eq!(names(&other), Vec::<String>::new());
    let mut none = sandbox.command(["agents", "--here"]);
    none.current_dir(&other);
    assert!(out(&output(none)).starts_with("no agents in this directory; "));
    // The wrapper of an agent in the background runs elsewhere than its command.
    let mut spawn = sandbox.command(["spawn", "Cid", "--", &example_program("lines")]);
    spawn.current_dir(&other);
    output(spawn);
    assert_eq!(names(&other), ["Cid"]);
    assert_eq!(names(&sandbox.home().join("logs")), Vec::<String>::new());
    let listed = out(&run(&sandbox, &["agents", "Cid", "--json"], DONE));
    let cid: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(path::Path::new(cid["directory"].as_str().unwrap()), other);
    let lines = example_program("lines");
    assert_eq!(cid["program"], path::Path::new(&lines).file_name().unwrap().to_str().unwrap());
    run(&sandbox, &["stop", "Cid"], DONE);
    drop(ann);
}
