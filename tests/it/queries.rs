//! States of messages, as the commands show them.

use crate::{
    commands::{USAGE, err, out, run},
    wrap::{PARAGRAPH, fullscreen},
};
use platform::tty::Size;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, process::Stdio, slice};
use testkit::{
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::{until, wait},
};

const DONE: i32 = 0;
const FAILED: i32 = 1;

/// Runs a command with `--json`, and parses its lines.
#[track_caller]
fn rows(sandbox: &Sandbox, line: &[&str]) -> Vec<Value> {
    let line: Vec<_> = line.iter().copied().chain(["--json"]).collect();
    let printed = out(&run(sandbox, &line, DONE));
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Sends a message. Returns its id.
#[track_caller]
fn send(sandbox: &Sandbox, line: &[&str]) -> String {
    let line: Vec<_> = ["send", "--json"].iter().chain(line).copied().collect();
    let sent: Value = serde_json::from_str(&out(&run(sandbox, &line, DONE))).unwrap();
    sent["send_id"].as_str().unwrap().to_owned()
}

/// Waits until a message is in a state. Returns its row.
#[track_caller]
fn await_state(sandbox: &Sandbox, id: &str, state: &str) -> Value {
    for _ in 0..10_000 {
        let mut found = rows(sandbox, &["status", id]);
        assert_eq!(found.len(), 1, "{found:?}");
        if found[0]["state"] == state {
            return found.remove(0);
        }
    }
    panic!("{id} is never {state}");
}

#[test]
fn expired_message_is_redelivered_once() {
    let mut sandbox = Sandbox::new();
    sandbox.join("Bob").leave();
    assert_eq!(out(&run(&sandbox, &["history", "--dead"], DONE)), "no dead letters\n");
    let sent = send(&sandbox, &["--ttl", "1ms", "Bob", "the tests are green"]);
    let dead = await_state(&sandbox, &sent, "dead");
    assert_eq!((&dead["code"], &dead["to"]), (&"EXPIRED".into(), &"Bob".into()));
    let letters = out(&run(&sandbox, &["history", "--dead"], DONE));
    assert!(letters.contains("  its time to live ran out"), "{letters}");
    assert!(letters.contains("the tests are green"), "{letters}");

    // The message is redelivered after its sender and the daemon have ended.
    sandbox.kill();
    sandbox.start();
    let id = dead["id"].as_str().unwrap();
    let again = out(&run(&sandbox, &["redeliver", &sent], DONE));
    assert_eq!(again, "1 message is on the way again\n");
    let twice = err(&run(&sandbox, &["redeliver", id], FAILED));
    assert!(twice.contains("it is no dead letter"), "{twice}");
    assert_eq!(out(&run(&sandbox, &["history", "--dead"], DONE)), "no dead letters\n");
    // The redelivered message is stored as well.
    sandbox.kill();
    sandbox.start();
    let received = rows(&sandbox, &["listen", "--as", "Bob", "--count", "1"]);
    assert_eq!((&received[0]["id"], &received[0]["delivery"]["seq"]), (&dead["id"], &dead["seq"]));
    assert_eq!(received[0]["payload"]["body"], "the tests are green");
    await_state(&sandbox, id, "acknowledged");
    assert_eq!(out(&run(&sandbox, &["inbox", "--as", "Bob"], DONE)), "nothing waits for Bob\n");
    let over = err(&run(&sandbox, &["redeliver", id], FAILED));
    assert!(over.contains("it is no dead letter"), "{over}");
}

#[test]
fn purge_and_forget_remove_an_agent_that_is_away() {
    let sandbox = Sandbox::new();
    sandbox.join("Bob").leave();
    let sent = send(&sandbox, &["Bob", "old news"]);
    let refused = err(&run(&sandbox, &["purge", "--forget", "Bob"], FAILED));
    assert!(refused.contains("Bob has mail: purge it first"), "{refused}");
    assert_eq!(out(&run(&sandbox, &["purge", "Bob"], DONE)), "purged 1 message of Bob\n");
    assert_eq!(await_state(&sandbox, &sent, "dead")["code"], "EXPIRED");
    let again = rows(&sandbox, &["purge", "Bob"]);
    assert_eq!(
        (&again[0]["schema"], &again[0]["purged"]),
        (&"agent-relay.purged/1".into(), &0.into())
    );
    assert_eq!(out(&run(&sandbox, &["purge", "--forget", "Bob"], DONE)), "Bob is forgotten\n");
    let unknown = err(&run(&sandbox, &["purge", "Bob"], FAILED));
    assert!(unknown.contains("no agent Bob is known"), "{unknown}");
}

#[test]
fn renamed_agent_keeps_its_mail_and_its_history() {
    let mut sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    bob.send("Ann", "from the old name", json!({"requires_ack": true}));
    let message = ann.expect("DELIVER");
    ann.acknowledge(&message);
    bob.expect("ACK");
    let refused = err(&run(&sandbox, &["rename", "Bob", "Eve"], FAILED));
    assert!(refused.contains("Bob is connected: end it first"), "{refused}");
    bob.leave();
    send(&sandbox, &["Bob", "to the old name"]);
    let usage = err(&run(&sandbox, &["rename", "Bob", "root"], USAGE));
    assert!(usage.contains("this name is reserved"), "{usage}");
    assert_eq!(out(&run(&sandbox, &["rename", "bob", "Eve"], DONE)), "bob is Eve now\n");
    for is_restarted in [false, true] {
        if is_restarted {
            sandbox.kill();
            sandbox.start();
        }
        let names = |options: &[&str]| -> Vec<_> {
            let found = rows(&sandbox, &[&["history"], options].concat());
            found.iter().map(|row| (row["from"].clone(), row["to"].clone())).collect()
        };
        let to = (json!("@operator"), json!("Eve"));
        let from = (json!("Eve"), json!("Ann"));
        assert_eq!(names(&["--with", "Eve"]), [to.clone(), from.clone()]);
        assert_eq!(names(&["--with", "Eve", "--to", "Ann"]), slice::from_ref(&from));
        assert_eq!(names(&["--search", "old name", "--with", "Bob"]), [to, from]);
        let unknown = err(&run(&sandbox, &["send", "Bob", "x"], 3));
        assert!(unknown.contains("Bob was renamed: it is Eve now"), "{unknown}");
    }
    // The next agent of the old name is another one.
    assert_eq!(sandbox.join("Bob").ask("history", &json!({}))["messages"], json!([]));
    let received = rows(&sandbox, &["listen", "--as", "Eve", "--count", "1"]);
    assert_eq!(received[0]["payload"]["body"], "to the old name");
}

#[test]
fn rename_is_whole_if_the_daemon_is_killed_meanwhile() {
    let mut sandbox = Sandbox::new();
    sandbox.join("Ann").leave();
    send(&sandbox, &["Ann", "kept"]);
    let mut names = ["Ann", "Eve"];
    for _ in 0..6 {
        let mut tap = sandbox.operator();
        tap.ask("tap", &json!({"changes": true}));
        let line = ["rename", names[0], names[1]];
        let mut renaming = sandbox.command(line).stdout(Stdio::null()).spawn().unwrap();
        // The store has the change now, or gets it soon.
        let change = tap.expect("DELIVER")["payload"]["data"].take();
        assert_eq!((&change["agent"], &change["from"]), (&names[1].into(), &names[0].into()));
        sandbox.kill();
        // The command may have got no answer.
        renaming.kill().unwrap();
        wait(&mut renaming, "the command");
        sandbox.start();
        let known: Vec<_> = sandbox.operator().agents();
        assert_eq!((known.len(), &known[0]["waiting"]), (1, &json!(1)), "{known:?}");
        assert!(names.contains(&known[0]["name"].as_str().unwrap()), "{known:?}");
        // The same command completes an interrupted one.
        run(&sandbox, &line, DONE);
        names.reverse();
    }
    let received = rows(&sandbox, &["listen", "--as", names[0], "--count", "1"]);
    assert_eq!(received[0]["payload"]["body"], "kept");
}

#[test]
fn next_agent_of_a_forgotten_name_sees_nothing_of_the_one_before() {
    let mut sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    ann.send("Bob", "for the first one", json!({"requires_ack": true}));
    let message = bob.expect("DELIVER");
    bob.acknowledge(&message);
    ann.expect("ACK");
    bob.leave();
    run(&sandbox, &["purge", "--forget", "Bob"], DONE);
    // Ended deliveries are in the history after the next start at the latest.
    for is_restarted in [false, true] {
        if is_restarted {
            sandbox.kill();
            sandbox.start();
            ann = sandbox.join("Ann");
        }
        let mut next = sandbox.join("Bob");
        assert_eq!(next.ask("history", &json!({}))["messages"], json!([]));
        let of_ann = ann.ask("history", &json!({}))["messages"].take();
        assert_eq!(of_ann[0]["payload"]["body"], "for the first one");
        next.leave();
        run(&sandbox, &["purge", "--forget", "Bob"], DONE);
    }
}

#[test]
fn purge_ends_mail_in_flight_by_force_only() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    send(&sandbox, &["Bob", "given"]);
    bob.expect("DELIVER");
    let refused = err(&run(&sandbox, &["purge", "Bob"], FAILED));
    assert!(refused.contains("all mail of Bob is in flight"), "{refused}");
    let forced = out(&run(&sandbox, &["purge", "Bob", "--force"], DONE));
    assert_eq!(forced, "purged 1 message of Bob\n");
}

#[test]
fn old_words_act_like_their_successors() {
    let sandbox = Sandbox::new();
    sandbox.join("Bob").leave();
    let sent = send(&sandbox, &["--ttl", "1ms", "Bob", "too late"]);
    await_state(&sandbox, &sent, "dead");
    for (old, new) in [
        (&["dead-letters"][..], &["history", "--dead"][..]),
        (&["dead-letters", "--json"], &["history", "--dead", "--json"]),
        (&["events", "--kind", "message"], &["tap", "--events", "--kind", "message"]),
    ] {
        let printed = out(&run(&sandbox, old, DONE));
        assert!(printed.lines().count() == 2 || old.contains(&"--json"), "{printed}");
        assert_eq!(printed, out(&run(&sandbox, new, DONE)));
    }
    let help = out(&run(&sandbox, &["help", "all"], DONE));
    for old in ["dead-letters", "events ", "forget "] {
        assert!(!help.contains(&format!("\n  {old}")), "{help}");
    }
    let both = err(&run(&sandbox, &["forget", "Bob", "--delete"], USAGE));
    assert!(both.contains("--forget ends no messages; purge the agent first"), "{both}");
    assert_eq!(out(&run(&sandbox, &["forget", "Bob"], DONE)), "Bob is forgotten\n");
}

#[test]
fn dead_letters_are_selected_as_other_messages_are() {
    let sandbox = Sandbox::new();
    for (to, text) in [("Bob", "the first port"), ("Cid", "the second port")] {
        sandbox.join(to).leave();
        let sent = send(&sandbox, &["--ttl", "1ms", to, text]);
        await_state(&sandbox, &sent, "dead");
    }
    send(&sandbox, &["Bob", "the third port"]);
    for (options, texts) in [
        (&[][..], &["the second port", "the first port"][..]),
        (&["--with", "bob"], &["the first port"]),
        (&["--to", "Cid"], &["the second port"]),
        (&["--search", "first port"], &["the first port"]),
        (&["--limit", "1"], &["the second port"]),
        (&["--until", "2020-01-01"], &[]),
    ] {
        let found = rows(&sandbox, &[&["history", "--dead"], options].concat());
        let found: Vec<_> = found.iter().map(|row| &row["payload"]["body"]).collect();
        assert_eq!(found, texts, "{options:?}");
    }
}

#[test]
fn purge_deletes_for_good_after_a_question() {
    let sandbox = Sandbox::new();
    sandbox.join("Bob").leave();
    let sent = send(&sandbox, &["Bob", "secret words"]);
    let unasked = err(&run(&sandbox, &["purge", "Bob", "--delete"], USAGE));
    assert!(unasked.contains("give --yes"), "{unasked}");
    for (answer, code) in [("n\r", FAILED), ("y\r", DONE)] {
        let size = Size { rows: 24, cols: 80 };
        let mut asked = Terminal::command_in(&sandbox, size, &["purge", "Bob", "--delete"]);
        asked.wait_for("for good? [y/N]");
        asked.press(answer);
        assert_eq!(asked.finish(), code);
    }
    assert_eq!(out(&run(&sandbox, &["history", "--dead"], DONE)), "no dead letters\n");
    let gone = err(&run(&sandbox, &["status", &sent], FAILED));
    assert!(gone.contains("no longer kept"), "{gone}");
    let again = out(&run(&sandbox, &["purge", "Bob", "--delete", "--yes"], DONE));
    assert_eq!(again, "purged 0 messages of Bob\n");
}

#[test]
fn status_shows_each_state_of_a_message() {
    let sandbox = Sandbox::new();
    sandbox.join("Bob").leave();
    let sent = send(&sandbox, &["--as", "Ann", "--topic", "t", "Bob", "one\ntwo\u{1b}[31m"]);
    let status = out(&run(&sandbox, &["status", &sent], DONE));
    assert!(status.starts_with("Ann -> Bob on t\n"), "{status}");
    assert!(status.contains("waiting: until Bob is here; it expires in 24 h"), "{status}");
    assert!(status.contains("it survives the loss of power"), "{status}");
    let waiting = rows(&sandbox, &["inbox", "--as", "bob"]);
    assert_eq!((waiting.len(), &waiting[0]["send_id"]), (1, &sent.as_str().into()));
    assert_eq!(waiting[0]["schema"], "agent-relay.message/1");
    let inbox = out(&run(&sandbox, &["inbox", "--as", "Bob"], DONE));
    assert!(inbox.contains("one two\\u{1b}[31m"), "{inbox}");
    let shown = out(&run(&sandbox, &["read", &sent], DONE));
    assert_eq!(shown, "Ann -> Bob on t\none\ntwo\\u{1b}[31m\n");

    let mut bob = sandbox.join("Bob");
    let deliver = bob.expect("DELIVER");
    let id = deliver["id"].as_str().unwrap();
    let report = json!({"id": id, "state": "waiting", "why": "a dialog is open"});
    bob.ask("report", &report);
    // An agent's frame shows the first eight digits of the id.
    let status = out(&run(&sandbox, &["status", &id[..8]], DONE));
    assert!(status.contains("reported  waiting: a dialog is open"), "{status}");
    assert!(status.contains("now       waiting: a dialog is open; it expires"), "{status}");
    // Bob has no wrapper to ask, so `agents` shows the reason that the daemon knows.
    let agents = out(&run(&sandbox, &["agents"], DONE));
    assert!(agents.lines().any(|line| line.starts_with("Bob: 1 waits, for ")), "{agents}");
    assert!(agents.contains(" s: a dialog is open\n"), "{agents}");
    bob.ask("report", &json!({"id": id, "state": "injected"}));
    let status = out(&run(&sandbox, &["status", &id[..8]], DONE));
    assert!(
        status.contains("injected: typed into Bob, who has not acknowledged it; it expires"),
        "{status}"
    );
    bob.acknowledge(&deliver);
    await_state(&sandbox, id, "acknowledged");
    let status = out(&run(&sandbox, &["status", id], DONE));
    assert!(status.contains("now       acknowledged (injected), "), "{status}");
    assert_eq!(out(&run(&sandbox, &["read", &id[..8]], DONE)), shown);
    for command in ["status", "read", "redeliver"] {
        let unknown = err(&run(&sandbox, &[command, "nobody's"], FAILED));
        assert_eq!(
            unknown,
            "agent-relay: \"nobody's\" is not a message's id, or that message is no longer kept; \
             `agent-relay history` shows ids\n"
        );
    }
    assert_eq!(out(&run(&sandbox, &["inbox"], DONE)), "nothing waits for you\n");
}

#[test]
fn history_is_searched_by_agent_topic_and_words() {
    let sandbox = Sandbox::new();
    for name in ["Bob", "Cid"] {
        sandbox.join(name).leave();
    }
    for options in [&[][..], &["--with", "Bob"]] {
        let none = out(&run(&sandbox, &[&["history"], options].concat(), DONE));
        assert!(none.starts_with("no message is stored: at-least-once"), "{none}");
    }
    send(&sandbox, &["--as", "Ann", "Bob", "the port is 8080"]);
    send(&sandbox, &["--as", "Ann", "--topic", "build", "Cid", "the build is green"]);
    send(&sandbox, &["Bob", "the port is closed"]);
    let bodies = |line: &[&str]| -> Vec<String> {
        let line: Vec<_> = ["history"].iter().chain(line).copied().collect();
        let found = rows(&sandbox, &line);
        found.iter().map(|row| row["payload"]["body"].as_str().unwrap().to_owned()).collect()
    };
    let all = ["the port is closed", "the build is green", "the port is 8080"];
    assert_eq!(bodies(&[]), all);
    assert_eq!(bodies(&["--limit", "2"]), all[..2]);
    assert_eq!(bodies(&["--search", "PORT is"]), [all[0], all[2]]);
    assert_eq!(bodies(&["--search", "port", "--with", "ann"]), [all[2]]);
    assert_eq!(bodies(&["--topic", "build"]), [all[1]]);
    assert_eq!(bodies(&["--search", "nothing like it"]), Vec::<String>::new());
    let table = out(&run(&sandbox, &["history", "--with", "Cid"], DONE));
    assert!(
        table.contains("Ann -> Cid on build") && table.contains("waiting (recipient)"),
        "{table}"
    );
    for filter in [["--search", "nothing like it"], ["--to", "Ann"], ["--until", "2h"]] {
        let none = out(&run(&sandbox, &[&["history"], &filter[..]].concat(), DONE));
        assert_eq!(none, "no stored message matches\n", "{filter:?}");
    }
}

/// The columns of a table below its heading, without the first two: times and ids.
fn cells(table: &str) -> Vec<String> {
    let lines = table.lines().skip(1);
    lines
        .map(|line| {
            line.split("  ").filter(|cell| !cell.is_empty()).skip(2).collect::<Vec<_>>().join("|")
        })
        .collect()
}

#[test]
fn history_shows_a_broadcast_as_one_message() {
    let sandbox = Sandbox::new();
    let mut agents = ["Bob", "Cid", "Dan", "Eve"].map(|name| sandbox.join(name));
    send(&sandbox, &["--as", "Ann", "Bob", "before"]);
    let sent = send(&sandbox, &["--as", "Ann", "*", "to all"]);
    send(&sandbox, &["--as", "Ann", "Bob", "after"]);
    for agent in &mut agents[..3] {
        let deliver = (0..).find_map(|_| {
            let deliver = agent.expect("DELIVER");
            (deliver["payload"]["body"] == "to all").then_some(deliver)
        });
        agent.acknowledge(&deliver.unwrap());
    }
    until("three have it", || {
        rows(&sandbox, &["status", &sent])
            .iter()
            .filter(|row| row["state"] == "acknowledged")
            .count()
            == 3
    });
    let table =
        |options: &[&str]| cells(&out(&run(&sandbox, &[&["history"], options].concat(), DONE)));
    let all = [
        "Ann -> Bob|delivered|after",
        "Ann -> Bob, Cid +2|3 acknowledged, 1 delivered|to all",
        "Ann -> Bob|delivered|before",
    ];
    assert_eq!(table(&[]), all);
    assert_eq!(table(&["--limit", "2"]), all[..2], "all rows of the last message are read");
    assert_eq!(table(&["--to", "Eve"]), ["Ann -> Eve|delivered|to all"]);
    let lines = |options: &[&str]| {
        let found = rows(&sandbox, &[&["history"], options].concat());
        found.iter().map(|row| row["to"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(lines(&["--limit", "2"]), ["Bob", "Eve", "Dan", "Cid", "Bob"]);
    assert_eq!(lines(&["--limit", "1"]), ["Bob"]);
    let read = out(&run(&sandbox, &["read", &sent], DONE));
    let states = "Bob: acknowledged, Cid: acknowledged, Dan: acknowledged, Eve: delivered";
    assert_eq!(read, format!("Ann -> Bob, Cid +2\n{states}\nto all\n"));
}

#[test]
fn replies_and_threads_are_shown_and_found() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let file = sandbox.directory().join("long");
    fs::write(&file, longest()).unwrap();
    send(&sandbox, &["--as", "Ann", "--thread", "port", "Bob", "Which port?"]);
    send(&sandbox, &["--as", "Ann", "--thread", "port", "Bob", "--file", file.to_str().unwrap()]);
    let question = bob.expect("DELIVER")["id"].take();
    bob.send_json(&json!({
        "v": 1, "type": "SEND", "id": "r", "ts": 0, "to": "@operator",
        "payload": {"kind": "message", "body": "8080", "thread": "port"},
        "payload_meta": {"requires_ack": true, "replyTo": question},
    }));
    until("the reply is accepted", || bob.receive().unwrap()["type"] == "ACK");
    send(&sandbox, &["--as", "Ann", "--thread", "ports", "Bob", "Another thread"]);
    let short = &question.as_str().unwrap()[..8];
    let shown = [
        format!("Bob -> @operator|waiting (recipient)|[port] re {short}: 8080"),
        "Ann -> Bob|delivered|(long: `agent-relay read` shows it)".to_owned(),
        "Ann -> Bob|delivered|[port] Which port?".to_owned(),
    ];
    let history = ["history", "--thread", "port"];
    assert_eq!(cells(&out(&run(&sandbox, &history, DONE))), shown);
    assert_eq!(rows(&sandbox, &history).len(), 3);
    assert_eq!(rows(&sandbox, &["history", "--thread", "Port"]).len(), 0);
    let read = out(&run(&sandbox, &["read", "r"], DONE));
    assert_eq!(read, format!("Bob -> @operator, an answer to {short}, thread port\n8080\n"));
    let inbox = out(&run(&sandbox, &["inbox", "--take"], DONE));
    assert!(inbox.contains(&format!(", an answer to {short}, thread port\n8080\n")), "{inbox}");
}

/// The body of a message that is too long for a row.
fn longest() -> String {
    "\"\\\u{e4}".repeat(1_048_576 / 6 - 200)
}

#[test]
fn longest_message_is_read_whole() {
    let sandbox = Sandbox::new();
    sandbox.join("Bob").leave();
    let body = longest();
    let file = sandbox.directory().join("body");
    fs::write(&file, &body).unwrap();
    let sent = send(&sandbox, &["Bob", "--file", file.to_str().unwrap()]);
    let listed = rows(&sandbox, &["inbox", "--as", "Bob"]);
    assert_eq!(listed[0]["truncated"], true);
    let whole = rows(&sandbox, &["read", &sent]);
    assert_eq!(whole[0]["payload"]["body"], body.as_str());
    assert_eq!(whole[0].get("truncated"), None);
}

/// Two messages to Ann, as each command shows them.
struct Sent<'a> {
    sandbox: &'a Sandbox,
    ids: [String; 2],
}

impl<'a> Sent<'a> {
    fn to_ann(sandbox: &'a Sandbox) -> Self {
        Self { sandbox, ids: ["first", "second"].map(|body| send(sandbox, &["Ann", body])) }
    }

    fn ann(&self) -> Value {
        let mut agents = rows(self.sandbox, &["agents"]).into_iter();
        agents.find(|agent| agent["name"] == "Ann").unwrap()
    }

    /// Waits until both messages wait for a reason with one of these texts, and checks that every
    /// command shows that reason. Returns the reason.
    #[track_caller]
    fn wait_for(&self, reasons: &[&str]) -> String {
        let sandbox = self.sandbox;
        let reason = || self.ann()["why"].as_str().unwrap_or_default().to_owned();
        until(&format!("they wait for {reasons:?}"), || {
            reasons.iter().any(|text| reason().contains(text))
        });
        let why = reason();
        let ann = self.ann();
        assert_eq!((&ann["waiting"], &ann["in_flight"]), (&json!(2), &json!(0)), "{ann}");
        let shown = |row: &Value| ["state", "waits_for", "why"].map(|member| row[member].clone());
        let waiting = ["waiting", "agent", &why].map(|text| json!(text));
        let inbox = rows(sandbox, &["inbox", "--as", "Ann"]);
        let history = rows(sandbox, &["history", "--with", "Ann"]);
        let history = history.into_iter().filter(|row| row["to"] == "Ann");
        let status = self.ids.iter().flat_map(|id| rows(sandbox, &["status", id]));
        let all: Vec<_> = inbox.into_iter().chain(history).chain(status).collect();
        assert_eq!(all.len(), 6, "{all:?}");
        for row in &all {
            assert_eq!(shown(row), waiting, "{row}");
        }
        self.is_shown_to_people(&why);
        why
    }

    #[track_caller]
    fn is_shown_to_people(&self, why: &str) {
        let inbox = out(&run(self.sandbox, &["inbox", "--as", "Ann"], DONE));
        assert_eq!(inbox.matches(" waiting (agent) ").count(), 2, "{inbox}");
        assert_eq!(
            inbox.lines().filter(|line| *line == format!("    {why}")).count(),
            2,
            "{inbox}"
        );
        let agents = out(&run(self.sandbox, &["agents"], DONE));
        let remark = |line: &&str| line.starts_with("Ann: 2 wait, for ") && line.ends_with(why);
        assert_eq!(agents.lines().filter(remark).count(), 1, "{agents}");
        for id in &self.ids {
            let status = out(&run(self.sandbox, &["status", id], DONE));
            assert!(status.contains(&format!("now       waiting: {why}; it expires")), "{status}");
        }
    }

    /// Waits until both messages are typed, and checks that every command shows that.
    #[track_caller]
    fn are_typed(&self) {
        for id in &self.ids {
            let typed = await_state(self.sandbox, id, "acknowledged");
            assert_eq!((&typed["reported"]["state"], typed.get("why")), (&json!("injected"), None));
            let status = out(&run(self.sandbox, &["status", id], DONE));
            assert!(status.contains("now       acknowledged (injected), "), "{status}");
        }
        let ann = self.ann();
        assert_eq!(
            (&ann["waiting"], &ann["in_flight"], ann.get("why")),
            (&json!(0), &json!(0), None)
        );
        assert_eq!(rows(self.sandbox, &["inbox", "--as", "Ann"]), Vec::<Value>::new());
        let agents = out(&run(self.sandbox, &["agents"], DONE));
        assert!(!agents.contains("Ann: "), "{agents}");
    }
}

#[test]
fn all_commands_agree_on_state_and_reason_for_a_shell() {
    let sandbox = Sandbox::new();
    let mut ann = Terminal::wrap(&sandbox, "Ann", &["bash", "--norc", "--noprofile"]);
    ann.wait_for_row("$");
    let change = |command: &str| drop(run(&sandbox, &[command, "Ann"], DONE));
    change("hold");
    let sent = Sent::to_ann(&sandbox);
    let held = sent.wait_for(&["on hold"]);
    ann.press("echo half");
    ann.wait_for_row("$ echo half");
    change("release");
    let half_typed = sent.wait_for(&["half typed", "no empty input line"]);
    change("hold");
    sent.wait_for(&["on hold"]);
    ann.press("\u{15}printf 'in\\x1b[?1049hfull screen'; read answer; printf '\\x1b[?1049lout\\n'; sleep 1000\r");
    ann.wait_for("full screen");
    change("release");
    let full_screen = sent.wait_for(&["full-screen"]);
    ann.press("\r");
    ann.wait_for("out");
    let other = sent.wait_for(&["is in the terminal's foreground"]);
    let all: BTreeSet<_> = [held, half_typed, full_screen, other].into();
    assert_eq!(all.len(), 4, "{all:?}");
    ann.press("\u{3}");
    sent.are_typed();
}

#[test]
fn all_commands_agree_on_state_and_reason_for_an_agent() {
    let sandbox = Sandbox::new();
    let busy =
        "[[recipe]]\nname = \"painter\"\ncommands = [\"fullscreen\"]\nbusy = [\"still at work\"]\n";
    fs::write(sandbox.home().join("recipes.toml"), busy).unwrap();
    let _bob = sandbox.join("Bob");
    let mut ann = Terminal::wrap(&sandbox, "Ann", &[&fullscreen()]);
    ann.wait_for_row(">");
    ann.press("menu\r");
    ann.wait_for("❯ 1. Yes");
    let sent = Sent::to_ann(&sandbox);
    sent.wait_for(&["asks a question"]);
    ann.press("1say Bob I am still at work.\r");
    ann.wait_for("still at work.>>>");
    sent.wait_for(&["the agent is at work"]);
    // The agent counts as busy while its busy text is near the cursor, so more output ends that.
    for _ in 0..4 {
        ann.press(&format!("say Bob {PARAGRAPH}\r"));
    }
    sent.are_typed();
}

#[test]
fn store_is_closed_to_other_processes() {
    let sandbox = Sandbox::new();
    sandbox.join("Bob").leave();
    send(&sandbox, &["Bob", "the tests are green"]);
    // Answers come from a second connection.
    assert_eq!(rows(&sandbox, &["history"]).len(), 1);
    let other = rusqlite::Connection::open(sandbox.home().join("relay.db")).unwrap();
    let read = other.query_row("SELECT count(*) FROM agent", [], |row| row.get::<_, u32>(0));
    let error = read.unwrap_err().sqlite_error_code();
    assert_eq!(error, Some(rusqlite::ErrorCode::DatabaseBusy));
}
