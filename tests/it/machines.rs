//! Links between the daemons of two machines, here two sandboxes: messages that cross, refusals,
//! and the cost of a lost link.

use crate::commands::{DONE, FAILED, NOT_DELIVERED, USAGE, err, run};
use crossbeam_channel::{Sender, bounded};
use machines::{
    link::{Agents, End, FRAME_EXTRA_BYTES, Link, Pipe},
    local::{Daemon, Local, now},
    topics::Topics,
};
use protocol::{
    frame::FRAME_BYTES_MAX,
    name::{Host, Name},
    secret::Secret,
    topic::Pattern,
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Command, Stdio},
    thread::{self, JoinHandle},
};
use testkit::{
    exposition,
    programs::Running,
    raw::Raw,
    sandbox::Sandbox,
    waiting::{WATCHDOG, output, until, wait},
};

/// A machine's side of a link, in a thread of this process.
struct Side {
    stream: TcpStream,
    stop: Sender<()>,
    thread: JoinHandle<Option<End>>,
}

impl Side {
    fn start(sandbox: &Sandbox, peer: &str, exports: &[&str], stream: TcpStream) -> Self {
        Self::with_topics(sandbox, peer, exports, Topics::default(), stream)
    }

    fn with_topics(
        sandbox: &Sandbox,
        peer: &str,
        exports: &[&str],
        topics: Topics,
        stream: TcpStream,
    ) -> Self {
        let name = |text: &&str| Name::parse(text).unwrap();
        let key = fs::read_to_string(sandbox.home().join("operator.key")).unwrap();
        let daemon = Daemon {
            endpoint: sandbox.endpoint().as_text().to_owned(),
            server: None,
            key: Secret::stated(key.trim_end()),
            remote_ttl_ms: 600_000,
            when_absent: None,
        };
        let exports: Vec<_> = exports.iter().map(name).collect();
        // The laptop starts each link.
        let bridge = (peer != "laptop").then(|| Secret::stated(&"b".repeat(64)));
        let peer = Host::parse(peer).unwrap();
        let ends = [stream.try_clone().unwrap(), stream.try_clone().unwrap()];
        let (stop, stopped) = bounded(1);
        let thread = thread::spawn(move || {
            let [input, output] = ends;
            let (sender, events) = bounded(64);
            let longest = FRAME_BYTES_MAX + FRAME_EXTRA_BYTES;
            let pipe = Pipe::start(input, output, longest, sender).unwrap();
            let mut local = Local::new(daemon, exports.clone(), topics.clone());
            let (has_patterns, imports) = (false, None);
            let agents = Agents { peer, exports, has_patterns, imports, topics, bridge };
            let mut link = Link::begin(now(), &agents, pipe, FRAME_BYTES_MAX as u64, |line| {
                eprintln!("{line}")
            });
            let end = local.run(&mut link, &events, &stopped);
            if end.is_none() {
                link.leave(now(), "it was stopped", false, events);
            }
            end
        });
        Self { stream, stop, thread }
    }

    /// Waits for the end of the link.
    fn end(self) -> Option<End> {
        self.thread.join().unwrap()
    }

    fn stop(self) {
        self.stop.send(()).unwrap();
        assert_eq!(self.end(), None);
    }
}

/// Two ends of a connection.
fn cable() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

/// A laptop that exports Ann, and a pi that exports Bob, linked.
struct Linked {
    laptop: Side,
    pi: Side,
}

impl Linked {
    fn start(laptop: &Sandbox, pi: &Sandbox) -> Self {
        let (one, other) = cable();
        let linked = Self {
            laptop: Side::start(laptop, "pi", &["Ann"], one),
            pi: Side::start(pi, "laptop", &["Bob"], other),
        };
        await_agent(laptop, "Bob@pi");
        await_agent(pi, "Ann@laptop");
        linked
    }

    /// Cuts the cable, and waits until both sides have noticed.
    fn cut(self) {
        self.laptop.stream.shutdown(Shutdown::Both).unwrap();
        for side in [self.laptop, self.pi] {
            let end = side.end();
            assert!(matches!(end, Some(End::Lost(_))), "{end:?}");
        }
    }
}

fn await_agent(sandbox: &Sandbox, name: &str) {
    await_presence(sandbox, name, true);
}

fn await_presence(sandbox: &Sandbox, name: &str, here: bool) {
    let mut operator = sandbox.operator();
    until(&format!("{name} is here: {here}"), || {
        operator.agents().iter().any(|agent| agent["name"] == name && agent["here"] == here)
    });
}

fn at_least_once() -> Value {
    json!({"requires_ack": true})
}

fn body(deliver: &Value) -> &str {
    deliver["payload"]["body"].as_str().unwrap()
}

#[test]
fn message_crosses_with_its_bytes_and_its_host() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let (mut ann, mut bob) = (laptop.join("Ann"), pi.join("Bob"));
    let linked = Linked::start(&laptop, &pi);
    ann.send_text(
        r#"{"v":1,"type":"SEND","id":"m-1","ts":1,"to":"bob@PI","topic":"t","payload":{"kind":"message", "body":"\ud800","n":1.0},"payload_meta":{"requires_ack":true , "importance":7}}"#,
    );
    assert_eq!(ann.expect("ACK")["payload"]["ack_id"], "m-1");
    let text = bob.receive_text().unwrap();
    assert!(text.contains(r#""payload":{"kind":"message", "body":"\ud800","n":1.0}"#), "{text}");
    assert!(text.contains(r#""payload_meta":{"requires_ack":true , "importance":7}"#), "{text}");
    let deliver: Value = serde_json::from_str(&text.replace("\\ud800", "")).unwrap();
    assert_eq!([&deliver["from"], &deliver["topic"]], ["Ann@laptop", "t"]);
    assert_eq!(deliver["delivery"]["sender"]["auth"], "bridge");
    bob.acknowledge(&deliver);
    bob.send("Ann@laptop", "at most once", json!({}));
    let deliver = ann.expect("DELIVER");
    assert_eq!((body(&deliver), &deliver["from"]), ("at most once", &json!("Bob@pi")));
    linked.laptop.stop();
    let end = linked.pi.end();
    assert!(
        matches!(&end, Some(End::Lost(why)) if why == "laptop left: it was stopped"),
        "{end:?}"
    );
}

#[test]
fn question_is_answered_from_another_machine() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let (mut ann, mut bob) = (laptop.join("Ann"), pi.join("Bob"));
    let linked = Linked::start(&laptop, &pi);
    let sync = json!({"correlationId": "c-1", "timeoutMs": 300_000});
    ann.send("Bob@pi", "which port?", json!({"sync": sync}));
    ann.expect("ACK");
    let question = bob.expect("DELIVER");
    bob.acknowledge(&question);
    // The answer is given while there is no link, and comes with the next one.
    linked.cut();
    bob.send_json(&json!({"v": 1, "type": "ACK", "id": "a", "ts": 0, "payload": {
        "ack_id": question["id"], "correlationId": "c-1", "response": true, "responseData": {"body": "8080"}}}));
    let linked = Linked::start(&laptop, &pi);
    let answer = ann.expect("ACK");
    assert_eq!([&answer["from"], &answer["payload"]["correlationId"]], ["Bob@pi", "c-1"]);
    assert_eq!(answer["payload"]["responseData"]["body"], "8080");
    linked.cut();
}

/// Joins as an agent that gets no at-least-once messages.
fn join_to_send(sandbox: &Sandbox, name: &str) -> Raw {
    let mut raw = sandbox.connect();
    raw.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0,
        "payload": {"agent": name, "capabilities": {"max_inflight": 0}}}));
    raw.expect("WELCOME");
    raw
}

/// Sends from both machines while the link is cut and the daemons are killed, and checks that
/// every message arrives once and in order.
fn exchange(rounds: usize, disturb: impl Fn(usize, Linked, &mut Sandbox, &mut Sandbox) -> Linked) {
    const PER_ROUND: usize = 40;
    let (mut laptop, mut pi) = (Sandbox::new(), Sandbox::new());
    for (sandbox, name) in [(&laptop, "Ann"), (&pi, "Bob")] {
        sandbox.join(name).leave();
    }
    let mut linked = Linked::start(&laptop, &pi);
    for round in 0..rounds {
        for (sandbox, from, to) in [(&laptop, "Ann", "Bob@pi"), (&pi, "Bob", "Ann@laptop")] {
            let mut sender = join_to_send(sandbox, from);
            for number in 0..PER_ROUND {
                sender.send(to, &(round * PER_ROUND + number).to_string(), at_least_once());
            }
            for _ in 0..PER_ROUND {
                sender.expect("ACK");
            }
            sender.leave();
        }
        linked = disturb(round, linked, &mut laptop, &mut pi);
    }
    let all: Vec<_> = (0..rounds * PER_ROUND).map(|number| number.to_string()).collect();
    for (sandbox, name) in [(&laptop, "Ann"), (&pi, "Bob")] {
        let mut receiver = sandbox.join(name);
        let mut received = Vec::new();
        while received.len() < all.len() {
            let deliver = receiver.expect("DELIVER");
            receiver.acknowledge(&deliver);
            received.push(body(&deliver).to_owned());
        }
        assert_eq!(received, all, "{name}");
        receiver.send(name, "nothing comes after all", json!({}));
        assert_eq!(body(&receiver.expect("DELIVER")), "nothing comes after all");
    }
    linked.cut();
}

#[test]
fn messages_arrive_once_and_in_order_though_the_link_is_cut() {
    exchange(8, |_, linked, laptop, pi| {
        linked.cut();
        Linked::start(laptop, pi)
    });
}

#[test]
fn messages_arrive_once_and_in_order_though_daemons_are_killed() {
    exchange(6, |round, linked, laptop, pi| {
        let killed = if round % 2 == 0 { laptop } else { pi };
        killed.kill();
        killed.start();
        linked
    });
}

/// Each side waits for the other's answers, and continues to answer.
#[test]
fn windows_that_are_full_in_both_directions_do_not_stop_the_link() {
    const MESSAGES: usize = 60;
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let body = "x".repeat(100_000);
    Linked::start(&laptop, &pi).cut();
    for (sandbox, from, to) in [(&laptop, "Ann", "Bob@pi"), (&pi, "Bob", "Ann@laptop")] {
        let mut sender = join_to_send(sandbox, from);
        for _ in 0..MESSAGES {
            sender.send(to, &body, at_least_once());
            sender.expect("ACK");
        }
        sender.leave();
    }
    let linked = Linked::start(&laptop, &pi);
    for (sandbox, name) in [(&laptop, "Ann"), (&pi, "Bob")] {
        let mut receiver = sandbox.join(name);
        for _ in 0..MESSAGES {
            let deliver = receiver.expect("DELIVER");
            receiver.acknowledge(&deliver);
        }
    }
    linked.cut();
}

/// Messages on `build.…`, and to everyone.
fn topics() -> Topics {
    let patterns = vec![Pattern::parse("build.>").unwrap()];
    Topics { patterns, broadcasts: true }
}

/// Sends on a topic, or to everyone without one. Returns the number of recipients.
fn publish(sender: &mut Raw, topic: Option<&str>, body: &str) -> u64 {
    let mut send = json!({"v": 1, "type": "SEND", "id": body, "ts": 0, "to": "*",
        "payload": {"kind": "message", "body": body}, "payload_meta": at_least_once()});
    if let Some(topic) = topic {
        send["topic"] = json!(topic);
    }
    sender.send_json(&send);
    sender.expect("ACK")["payload"]["recipients"].as_u64().unwrap()
}

/// Sends on a topic until so many recipients get it, the bridge among them. Returns the last body.
fn await_topics(sender: &mut Raw, recipients: u64) -> String {
    let mut tries = 0;
    until("a subscription of the bridge", || {
        tries += 1;
        publish(sender, Some("build.begin"), &format!("try {tries}")) == recipients
    });
    format!("try {tries}")
}

fn subscribe(agent: &mut Raw, pattern: &str) {
    agent.send_json(&json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 0, "topic": pattern,
        "payload": {}}));
    agent.expect("ACK");
}

/// Takes the next message, which is from this sender.
fn take(agent: &mut Raw, from: &str) -> String {
    let deliver = agent.expect("DELIVER");
    assert_eq!(deliver["from"], from, "{deliver}");
    agent.acknowledge(&deliver);
    body(&deliver).to_owned()
}

#[test]
fn messages_on_topics_and_to_everyone_cross_by_choice_of_both_sides() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let [mut ann, mut zoe] = ["Ann", "Zoe"].map(|name| laptop.join(name));
    let [mut bob, mut cid] = ["Bob", "Cid"].map(|name| pi.join(name));
    for agent in [&mut ann, &mut zoe, &mut bob, &mut cid] {
        subscribe(agent, ">");
    }
    let (one, other) = cable();
    let of_laptop = Side::with_topics(&laptop, "pi", &["Ann"], topics(), one);
    // The pi takes topics only.
    let of_pi = Topics { broadcasts: false, ..topics() };
    let of_pi = Side::with_topics(&pi, "laptop", &["Bob"], of_pi, other);
    await_agent(&laptop, "all@pi");
    await_agent(&pi, "all@laptop");
    // It comes to all subscribers there, and not back.
    let begun = await_topics(&mut ann, 2);
    while take(&mut zoe, "Ann") != begun {}
    for agent in [&mut bob, &mut cid] {
        assert_eq!(take(agent, "Ann@laptop"), begun);
    }
    // These do not cross: another topic, a message to everyone, and one of another agent.
    assert_eq!(publish(&mut ann, Some("chess"), "chess"), 1);
    assert_eq!(publish(&mut ann, None, "to everyone"), 2);
    for said in ["chess", "to everyone"] {
        assert_eq!(take(&mut zoe, "Ann"), said);
    }
    assert_eq!(publish(&mut zoe, Some("build.no"), "of Zoe"), 2);
    assert_eq!(take(&mut ann, "Zoe"), "of Zoe");
    assert_eq!(publish(&mut ann, Some("build.no"), "end"), 2);
    assert_eq!(take(&mut zoe, "Ann"), "end");
    for agent in [&mut bob, &mut cid] {
        assert_eq!(take(agent, "Ann@laptop"), "end");
    }
    // Also in the other direction, and while there is no link.
    of_laptop.stream.shutdown(Shutdown::Both).unwrap();
    for side in [of_laptop, of_pi] {
        assert!(matches!(side.end(), Some(End::Lost(_))));
    }
    assert_eq!(publish(&mut bob, Some("build.ok"), "later"), 2);
    assert_eq!(take(&mut cid, "Bob"), "later");
    let (one, other) = cable();
    let of_laptop = Side::with_topics(&laptop, "pi", &["Ann"], topics(), one);
    let _of_pi = Side::with_topics(&pi, "laptop", &["Bob"], topics(), other);
    for agent in [&mut ann, &mut zoe] {
        assert_eq!(take(agent, "Bob@pi"), "later");
    }
    of_laptop.stop();
}

#[test]
fn side_that_takes_no_topics_gets_none() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    let (one, other) = cable();
    other.set_read_timeout(Some(WATCHDOG)).unwrap();
    let side = Side::with_topics(&sandbox, "pi", &["Ann"], topics(), one);
    let mut stranger = Stranger { side, stream: other };
    assert_eq!(stranger.receive()["payload"]["takes_topics"], true);
    // As a bridge of an earlier version does.
    stranger.hello(1, &json!(["Bob"]));
    await_agent(&sandbox, "Bob@pi");
    assert_eq!(stranger.receive()["type"], "WELCOME");
    stranger.send(r#"{"v":1,"type":"WELCOME","id":"w","ts":0,"payload":{}}"#);
    assert_eq!(connected(&sandbox), ["Ann", "Bob@pi"]);
    assert_eq!(publish(&mut ann, Some("build.ok"), "on a topic"), 0);
    assert_eq!(publish(&mut ann, None, "to everyone"), 0);
    ann.send("Bob@pi", "to Bob", at_least_once());
    ann.expect("ACK");
    let frame = loop {
        let frame = stranger.receive();
        if frame["type"] == "SEND" {
            break frame;
        }
    };
    assert_eq!(frame["to"], "Bob");
    stranger.side.stop();
}

#[test]
fn topics_of_a_machine_that_floods_delay_no_other_messages() {
    const FLOOD: usize = 400;
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let mut ann = laptop.join("Ann");
    // It takes nothing.
    let mut slow = laptop.join("Slow");
    subscribe(&mut slow, "build.>");
    let mut flooding = join_to_send(&pi, "Eve");
    let mut bob = join_to_send(&pi, "Bob");
    let (one, other) = cable();
    let of_laptop = Side::with_topics(&laptop, "pi", &["Ann"], topics(), one);
    let of_pi = Side::with_topics(&pi, "laptop", &["Bob", "Eve"], topics(), other);
    for name in ["all@pi", "Bob@pi"] {
        await_agent(&laptop, name);
    }
    await_agent(&pi, "Ann@laptop");
    await_topics(&mut flooding, 1);
    let body = "x".repeat(20_000);
    for number in 0..FLOOD {
        flooding.send_json(&json!({"v": 1, "type": "SEND", "id": format!("f-{number}"), "ts": 0,
            "topic": "build.x", "payload": {"kind": "message", "body": body},
            "payload_meta": at_least_once()}));
    }
    for number in 0..100 {
        bob.send("Ann@laptop", &number.to_string(), at_least_once());
        bob.expect("ACK");
        assert_eq!(take(&mut ann, "Bob@pi"), number.to_string());
    }
    of_laptop.stop();
    assert!(matches!(of_pi.end(), Some(End::Lost(_))));
}

#[test]
fn bridge_leaves_names_of_another_bridge_alone() {
    let (laptop, other, pi) = (Sandbox::new(), Sandbox::new(), Sandbox::new());
    let command = stdio(&pi, &["--peer", "laptop", "--export", "Bob"]);
    let _bridge = Running(bridge(&laptop, "pi", &command).spawn().unwrap());
    await_agent(&laptop, "Bob@pi");
    let second = [&laptop, &other].map(|machine| {
        let mut bridge = bridge(machine, "pi", &command);
        bridge.stderr(Stdio::piped()).spawn().unwrap()
    });
    for failed in second {
        let failed = failed.wait_with_output().unwrap();
        let said = err(&failed);
        assert_eq!(failed.status.code(), Some(FAILED), "{said}");
        assert!(said.contains("still has the name") && said.contains("NAME_IN_USE"), "{said}");
    }
    await_agent(&laptop, "Bob@pi");
}

/// After a reboot of the laptop, the pi does not know yet that the earlier link is lost.
#[test]
fn bridge_waits_for_the_names_of_an_earlier_one() {
    let (laptop, rebooted, pi) = (Sandbox::new(), Sandbox::new(), Sandbox::new());
    let command = stdio(&pi, &["--peer", "laptop", "--export", "Bob"]);
    let mut earlier = Running(bridge(&laptop, "pi", &command).spawn().unwrap());
    await_agent(&laptop, "Bob@pi");
    let mut later =
        Running(bridge(&rebooted, "pi", &command).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(later.0.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let said = "pi: another bridge has the name Ann@laptop; waiting at most 20 s for its end";
    assert!(line.ends_with(said), "{line}");
    earlier.0.kill().unwrap();
    wait(&mut earlier.0, "the earlier bridge");
    await_agent(&rebooted, "Bob@pi");
}

#[test]
fn sender_is_notified_of_undelivered_messages() {
    let (laptop, pi) = (Sandbox::with_config("remote_ttl_ms = 1000\n"), Sandbox::new());
    let mut ann = laptop.join("Ann");
    let linked = Linked::start(&laptop, &pi);
    let refusal = |ann: &mut Raw| {
        ann.expect("ACK");
        ann.expect_code("NACK", "REFUSED")["payload"]["message"].as_str().unwrap().to_owned()
    };
    ann.send("Bob@pi", "to nobody", at_least_once());
    let why = refusal(&mut ann);
    assert!(why.ends_with("no agent Bob was ever there (UNKNOWN_AGENT)"), "{why}");
    fs::write(pi.home().join("policy.toml"), "[[rule]]\nfrom = \"*@laptop\"\nallow = false\n")
        .unwrap();
    run(&pi, &["policy", "reload"], DONE);
    let mut bob = pi.join("Bob");
    ann.send("Bob@pi", "against the rules", at_least_once());
    let why = refusal(&mut ann);
    let rule = "a rule there forbids messages from Ann to Bob (FORBIDDEN)";
    assert!(why.ends_with(rule), "{why}");
    fs::write(pi.home().join("policy.toml"), "").unwrap();
    run(&pi, &["policy", "reload"], DONE);
    ann.send("Bob@pi", "to be returned", at_least_once());
    ann.expect("ACK");
    let deliver = bob.expect("DELIVER");
    bob.send_json(&json!({"v": 1, "type": "NACK", "id": "n", "ts": 0,
        "payload": {"ack_id": deliver["id"], "code": "REFUSED", "message": "not now"}}));
    let notice = ann.expect("DELIVER");
    assert_eq!(notice["from"], "Bob@pi");
    assert!(body(&notice).contains("was not delivered: Bob refused it: not now"), "{notice}");
    ann.acknowledge(&notice);
    linked.cut();
    await_presence(&laptop, "Bob@pi", false);
    ann.send("Bob@pi", "without a link", at_least_once());
    assert_eq!(ann.expect("ACK")["payload"]["away"], true);
    ann.expect_code("NACK", "EXPIRED");
}

/// A machine that breaks the rules, and the HELLO and errors that it gets.
struct Stranger {
    stream: TcpStream,
    side: Side,
}

impl Stranger {
    fn before(sandbox: &Sandbox) -> Self {
        let (one, other) = cable();
        other.set_read_timeout(Some(WATCHDOG)).unwrap();
        Self { side: Side::start(sandbox, "pi", &["Ann"], one), stream: other }
    }

    fn send(&mut self, json: &str) {
        let mut frame = u32::try_from(json.len()).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(json.as_bytes());
        // The other side may have hung up already.
        let _ = self.stream.write_all(&frame);
    }

    fn receive(&mut self) -> Value {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).unwrap();
        let mut json = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut json).unwrap();
        serde_json::from_slice(&json).unwrap()
    }

    fn hello(&mut self, link: u64, agents: &Value) {
        self.send(
            &json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {
            "link": link, "program": "9.9", "agents": agents, "max_frame_bytes": 1 << 20}})
            .to_string(),
        );
    }

    #[track_caller]
    fn expect_refusal(self, why: &str) {
        let end = self.side.end();
        assert!(matches!(&end, Some(End::Refused(text)) if text.contains(why)), "{end:?}");
    }
}

#[test]
fn side_that_does_not_introduce_itself_properly_is_refused() {
    let sandbox = Sandbox::new();
    for (link, agents, why) in [
        (2, json!(["Bob"]), "version 2 of the link (agent-relay \"9.9\"), and this side version 1"),
        (0, json!(["Bob"]), "version 0 of the link"),
        (1, json!(["Bob@mac"]), "it exports \"Bob@mac\""),
        (1, json!(["@operator"]), "it exports \"@operator\""),
        (1, json!(["all"]), "this name is reserved"),
        (1, json!(vec!["Bob"; 257]), "it exports 257 agents, and 256 are the most"),
        (1, json!([]), "exports no agent"),
        (1, json!(["Bob", "bob"]), "it exports bob twice"),
        (1, json!("Bob"), "HELLO"),
    ] {
        let mut stranger = Stranger::before(&sandbox);
        stranger.hello(link, &agents);
        stranger.expect_refusal(why);
    }
    let mut stranger = Stranger::before(&sandbox);
    stranger.send(r#"{"v":1,"type":"SEND","id":"x","ts":0,"from":"Bob","to":"Ann","payload":{}}"#);
    stranger.expect_refusal("it began with SEND");
    let mut stranger = Stranger::before(&sandbox);
    stranger.stream.write_all(b"Welcome to pi!\x1b[2J\n").unwrap();
    stranger.expect_refusal("does not speak as a bridge, but says \"Welcome to pi!");
    assert_eq!(sandbox.operator().agents().len(), 0);
}

#[test]
fn side_that_lies_or_floods_harms_nobody() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    let mut zoe = sandbox.join("Zoe");
    let mut stranger = Stranger::before(&sandbox);
    assert_eq!(stranger.receive()["payload"]["agents"], json!(["Ann"]));
    stranger.hello(1, &json!(["Bob"]));
    await_agent(&sandbox, "Bob@pi");
    assert_eq!(stranger.receive()["type"], "WELCOME");
    let send = |from: &str, to: &str, id: &str| {
        json!({"v": 1, "type": "SEND", "id": id, "ts": 0, "from": from, "to": to,
            "payload": {"kind": "message", "body": id}, "payload_meta": {"requires_ack": true}})
        .to_string()
    };
    stranger.send(&send("Eve", "Ann", "as-another"));
    assert_eq!(stranger.receive()["payload"]["code"], "FORBIDDEN");
    stranger.send(&send("Bob", "Zoe", "to-another"));
    assert_eq!(stranger.receive()["payload"]["code"], "FORBIDDEN");
    for _ in 0..2 {
        stranger.send(&send("Bob", "Ann", "replayed"));
        assert_eq!(
            stranger.receive()["payload"],
            json!({"ack_id": "replayed", "state": "accepted"})
        );
    }
    let deliver = ann.expect("DELIVER");
    assert_eq!((&deliver["from"], body(&deliver)), (&json!("Bob@pi"), "replayed"));
    ann.acknowledge(&deliver);
    // The answers that these would get are not read.
    for number in 0..5_000 {
        stranger.send(&send("Bob", "Ann", &format!("flood-{number}-{}", "x".repeat(20))));
    }
    zoe.send("Ann", "from here", at_least_once());
    zoe.expect("ACK");
    let mut last = String::new();
    while last != "from here" {
        let deliver = ann.expect("DELIVER");
        ann.acknowledge(&deliver);
        body(&deliver).clone_into(&mut last);
    }
    stranger.stream.shutdown(Shutdown::Both).unwrap();
    let end = stranger.side.end();
    assert!(matches!(&end, Some(End::Lost(_) | End::Refused(_))), "{end:?}");
}

/// The command that runs `stdio` in a sandbox.
fn stdio(sandbox: &Sandbox, arguments: &[&str]) -> Vec<String> {
    let home = sandbox.home().to_str().unwrap().to_owned();
    let program = env!("CARGO_BIN_EXE_agent-relay").to_owned();
    let endpoint = sandbox.endpoint().as_text().to_owned();
    let own = [program, "--home".to_owned(), home, "--endpoint".to_owned(), endpoint];
    own.into_iter()
        .chain(["stdio".to_owned()])
        .chain(arguments.iter().map(|it| (*it).to_owned()))
        .collect()
}

fn bridge(laptop: &Sandbox, host: &str, command: &[String]) -> Command {
    let own = ["bridge", host, "--export", "Ann", "--"].map(str::to_owned);
    laptop.command(own.iter().chain(command))
}

#[test]
fn bridge_and_stdio_link_two_machines_until_they_are_stopped() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let mut bob = pi.join("Bob");
    let command = stdio(&pi, &["--peer", "laptop", "--export", "Bob"]);
    let mut running =
        Running(bridge(&laptop, "pi", &command).stderr(Stdio::piped()).spawn().unwrap());
    await_agent(&laptop, "Bob@pi");
    let agents = String::from_utf8(run(&laptop, &["agents"], DONE).stdout).unwrap();
    assert!(agents.contains("Bob@pi                  on pi  "), "{agents}");
    let row: Value =
        serde_json::from_slice(&run(&laptop, &["agents", "--json"], DONE).stdout).unwrap();
    assert_eq!([&row["name"], &row["host"]], ["Bob@pi", "pi"]);
    let sent = run(&laptop, &["send", "--json", "--as", "Ann", "Bob@pi", "hello"], DONE);
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!([&sent["state"], &sent["arrived"]], [&json!("accepted"), &json!(true)]);
    let deliver = bob.expect("DELIVER");
    assert_eq!((body(&deliver), &deliver["from"]), ("hello", &json!("Ann@laptop")));
    bob.acknowledge(&deliver);
    let refused = run(&laptop, &["send", "Bob@pi", "from a person"], NOT_DELIVERED);
    let why = err(&refused);
    assert!(why.contains("@operator is not exported to pi: only Ann"), "{why}");
    running.0.kill().unwrap();
    wait(&mut running.0, "the bridge");
    await_presence(&pi, "Ann@laptop", false);
}

/// The connected agents, without the test's own.
fn connected(sandbox: &Sandbox) -> Vec<String> {
    let agents = sandbox.operator().agents();
    let here = agents.iter().filter(|agent| agent["here"] == true);
    here.map(|agent| agent["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn agents_that_match_a_pattern_are_exported_as_long_as_they_are_known() {
    let (laptop, pi, lab) = (Sandbox::new(), Sandbox::new(), Sandbox::new());
    let (web, mut db) = (laptop.join("web-1"), laptop.join("db-1"));
    let mut bob = pi.join("Bob");
    // An agent of a third machine with a matching name.
    let (one, other) = cable();
    let of_lab = Side::start(&laptop, "lab", &["db-1"], one);
    let of_laptop = Side::start(&lab, "laptop", &["web-9"], other);
    await_agent(&laptop, "web-9@lab");
    let command = stdio(&pi, &["--peer", "laptop", "--export", "Bob", "--export", "api-*"]);
    let own = ["bridge", "pi", "--export", "WEB-*", "--"].map(str::to_owned);
    let _bridge = Running(laptop.command(own.iter().chain(&command)).spawn().unwrap());
    await_agent(&pi, "web-1@laptop");
    // Agents that join later, on both sides.
    let mut later = laptop.join("web-2");
    let _api = pi.join("api-1");
    await_agent(&pi, "web-2@laptop");
    await_agent(&laptop, "api-1@pi");
    bob.send("web-2@laptop", "hello", at_least_once());
    bob.expect("ACK");
    let deliver = later.expect("DELIVER");
    assert_eq!((body(&deliver), &deliver["from"]), ("hello", &json!("Bob@pi")));
    later.acknowledge(&deliver);
    // An agent that no pattern matches can neither send nor be reached there.
    db.send("Bob@pi", "from another agent", at_least_once());
    db.expect("ACK");
    let refused = db.expect_code("NACK", "REFUSED");
    let why = refused["payload"]["message"].as_str().unwrap();
    assert!(why.contains("db-1 is not exported to pi: only web-1, web-2"), "{why}");
    bob.send("db-1@laptop", "to another agent", at_least_once());
    bob.expect_code("NACK", "UNKNOWN_AGENT");
    assert_eq!(connected(&pi), ["api-1", "Bob", "web-1@laptop", "web-2@laptop"]);
    // An agent that is away stays exported; a forgotten name does not.
    web.leave();
    until("a name that is forgotten", || {
        laptop.run(["purge", "--forget", "web-1"]).status.success()
    });
    await_presence(&pi, "web-1@laptop", false);
    bob.send("web-2@laptop", "again", at_least_once());
    bob.expect("ACK");
    later.expect("DELIVER");
    of_lab.stop();
    let end = of_laptop.end();
    assert!(matches!(end, Some(End::Lost(_))), "{end:?}");
}

#[test]
fn side_of_an_earlier_version_gets_the_first_agents() {
    let sandbox = Sandbox::new();
    let agents: Vec<_> = (0..25).map(|number| format!("a{number}")).collect();
    let agents: Vec<_> = agents.iter().map(String::as_str).collect();
    let (one, other) = cable();
    other.set_read_timeout(Some(WATCHDOG)).unwrap();
    let side = Side::start(&sandbox, "pi", &agents, one);
    let mut stranger = Stranger { side, stream: other };
    let hello = stranger.receive();
    assert_eq!(hello["payload"]["agents"], json!(agents[..20]));
    assert_eq!(hello["payload"]["more"], json!(agents[20..]));
    stranger.hello(1, &json!(["Bob"]));
    await_agent(&sandbox, "Bob@pi");
    // All of them are exported, even if the other side knows fewer.
    let mut last = sandbox.join("a24");
    stranger.send(
        &json!({"v": 1, "type": "SEND", "id": "x", "ts": 0, "from": "Bob", "to": "a24",
            "payload": {"kind": "message", "body": "x"}})
        .to_string(),
    );
    assert_eq!(last.expect("DELIVER")["from"], "Bob@pi");
    stranger.side.stop();
}

/// A later HELLO changes the agents at most once a second, and never to other agents' names.
#[test]
fn later_hello_changes_the_agents_of_a_machine() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    let mut stranger = Stranger::before(&sandbox);
    stranger.hello(1, &json!(["Bob"]));
    await_agent(&sandbox, "Bob@pi");
    stranger.send(r#"{"v":1,"type":"WELCOME","id":"w","ts":0,"payload":{}}"#);
    stranger.hello(1, &json!(["Bob@mac", "@operator"]));
    stranger.hello(1, &json!(["Cid", "Bob"]));
    await_agent(&sandbox, "Cid@pi");
    ann.send("Cid@pi", "hello", at_least_once());
    ann.expect("ACK");
    while stranger.receive()["type"] != "SEND" {}
    stranger.hello(1, &json!(["Cid"]));
    await_presence(&sandbox, "Bob@pi", false);
    assert_eq!(connected(&sandbox), ["Ann", "Cid@pi"]);
    stranger.side.stop();
}

#[test]
fn bridge_that_cannot_work_says_why() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let missing = ["/nonexistent/ssh".to_owned()];
    let failed = output(bridge(&laptop, "pi", &missing));
    assert_eq!(failed.status.code(), Some(FAILED));
    assert!(err(&failed).contains("cannot run /nonexistent/ssh"), "{}", err(&failed));
    let usage = stdio(&pi, &["--peer", "laptop"]);
    let failed = output(bridge(&laptop, "pi", &usage));
    assert_eq!(failed.status.code(), Some(FAILED));
    let said = err(&failed);
    assert!(said.contains("pi: no agent is exported to laptop"), "{said}");
    assert!(said.contains("cannot link to pi: ") && said.contains("ended with code 2"), "{said}");
    for (arguments, said) in [
        (&["bridge", "pi", "--export", "Ann"][..], "no command that reaches pi"),
        (&["bridge", "p i", "--export", "Ann", "--", "x"], "a name is made of"),
        (&["bridge", "pi", "--", "x"], "no agent is exported to pi"),
        (&["bridge", "pi", "--export", "Bob@pi", "--", "x"], "a name is made of"),
        (&["stdio", "--export", "Ann"], "--peer"),
        (&["bridge", "pi", "--export", "Ann", "--topic", "a..b", "--", "x"], "--topic"),
        (&["bridge", "pi", "--export", "Ann", "--export", "ann", "--", "x"], "ann is given twice"),
    ] {
        let failed = run(&laptop, arguments, USAGE);
        assert!(err(&failed).contains(said), "{}", err(&failed));
    }
    let mut inside = bridge(&laptop, "pi", &usage);
    inside.env("AGENT_RELAY_AGENT", "Ann");
    let failed = output(inside);
    assert_eq!(failed.status.code(), Some(USAGE));
    assert!(err(&failed).contains("only a person does"), "{}", err(&failed));
}

/// The answer of `status --json`.
fn status(sandbox: &Sandbox) -> Value {
    serde_json::from_slice(&run(sandbox, &["status", "--json"], DONE).stdout).unwrap()
}

/// Waits until the only bridge of a machine is in a state, and returns its report.
fn await_bridge(sandbox: &Sandbox, state: &str) -> Value {
    let mut bridge = Value::Null;
    until(&format!("a bridge that is {state}"), || {
        bridge = status(sandbox)["bridges"][0].clone();
        bridge["state"] == state
    });
    bridge
}

#[test]
fn bridges_are_reported_by_status_agents_and_doctor() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    assert_eq!(status(&laptop)["bridges"], json!([]));
    let mut bob = pi.join("Bob");
    let command = stdio(&pi, &["--peer", "laptop", "--export", "Bob"]);
    let mut running = Running(bridge(&laptop, "pi", &command).spawn().unwrap());
    let report = await_bridge(&laptop, "linked");
    assert_eq!(
        [&report["kind"], &report["name"], &report["links"]],
        [&json!("bridge"), &json!("pi"), &json!(1)]
    );
    assert_eq!(
        [&report["running"], &report["hosts"][0]["agents"]],
        [&json!(true), &json!(["Bob"])]
    );
    assert_eq!(await_bridge(&pi, "linked")["kind"], "stdio");
    run(&laptop, &["send", "--as", "Ann", "Bob@pi", "hello"], DONE);
    bob.expect("DELIVER");
    let metrics = |sandbox: &Sandbox| {
        let text = String::from_utf8(run(sandbox, &["status", "--prometheus"], DONE).stdout);
        exposition::read(&text.unwrap()).unwrap()
    };
    let value = |series: &str| metrics(&laptop).get(series).copied();
    let of_pi = |name: &str| format!("agent_relay_bridge_{name}{{kind=\"bridge\",name=\"pi\"}}");
    until("a message that was counted", || value(&of_pi("sent_total")) == Some(1.0));
    assert_eq!(value("agent_relay_up"), Some(1.0));
    assert_eq!(value(&of_pi("linked")), Some(1.0));
    let words = |line: &[&str], code| String::from_utf8(run(&laptop, line, code).stdout).unwrap();
    assert!(words(&["status"], DONE).contains("bridge    bridge to pi: linked for "));
    assert!(words(&["agents"], DONE).contains("\nbridge to pi: linked for "));
    assert!(words(&["doctor"], DONE).contains("ok   bridge    bridge to pi: linked for "));
    // Another bridge of that name can neither link nor take the report.
    let failed = output(bridge(&laptop, "pi", &command));
    assert_eq!(failed.status.code(), Some(FAILED), "{}", err(&failed));
    assert_eq!(await_bridge(&laptop, "linked")["pid"], report["pid"]);
    running.0.kill().unwrap();
    wait(&mut running.0, "the bridge");
    let report = await_bridge(&laptop, "ended");
    assert_eq!(report["error"]["text"], "it was killed, or it crashed");
    assert_eq!((value(&of_pi("up")), value(&of_pi("linked"))), (Some(0.0), Some(0.0)));
    let row: Value = serde_json::from_str(&words(&["agents", "Bob@pi", "--json"], DONE)).unwrap();
    assert_eq!([&row["name"], &row["link"]["state"]], [&json!("Bob@pi"), &json!("ended")]);
    assert!(words(&["doctor"], FAILED).contains("it crashed -- start it again, or delete "));
    until("a report that goes with stdio", || status(&pi)["bridges"] == json!([]));
    let mut other = pi.command(["status", "--prometheus", "--json"]);
    assert_eq!(other.output().unwrap().status.code(), Some(USAGE));
}

/// Joins as an agent that states its program and directory.
fn join_with_details(sandbox: &Sandbox, name: &str, program: &str, directory: &str) -> Raw {
    let mut raw = sandbox.connect();
    raw.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0,
        "payload": {"agent": name, "program": program, "directory": directory}}));
    raw.expect("WELCOME");
    raw
}

#[test]
fn agents_of_other_machines_have_their_programs_and_directories() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let _ann = join_with_details(&laptop, "Ann", "claude", "/src/secret");
    let _bob = join_with_details(&pi, "Bob", "codex", "/src/\u{1b}[2Japi");
    let command = stdio(&pi, &["--peer", "laptop", "--export", "Bob", "--export", "Cid"]);
    let own = ["bridge", "pi", "--export", "Ann", "--no-details", "--"].map(str::to_owned);
    let _bridge = Running(laptop.command(own.iter().chain(&command)).spawn().unwrap());
    await_bridge(&laptop, "linked");
    let row = |sandbox: &Sandbox, name: &str| -> Value {
        serde_json::from_slice(&run(sandbox, &["agents", name, "--json"], DONE).stdout).unwrap()
    };
    let of_bob = json!({"program": "codex", "directory": "/src/\u{1b}[2Japi"});
    let details = |row: &Value| json!({"program": row["program"], "directory": row["directory"]});
    until("the details of Bob", || details(&row(&laptop, "Bob@pi")) == of_bob);
    let shown = String::from_utf8(run(&laptop, &["agents"], DONE).stdout).unwrap();
    assert!(shown.contains("Bob@pi  codex    \\u{1b}[2Japi  on pi  "), "{shown}");
    // Later agents are reported, too. By then, Ann's details would have come.
    let _cid = join_with_details(&pi, "Cid", "gemini", "/src/web");
    until("the details of Cid", || row(&laptop, "Cid@pi")["program"] == "gemini");
    assert_eq!(details(&row(&pi, "Ann@laptop")), json!({"program": null, "directory": null}));
}

#[test]
fn metrics_are_those_of_the_document() {
    let laptop = Sandbox::new();
    let missing = ["/nonexistent/ssh".to_owned()];
    assert_eq!(output(bridge(&laptop, "pi", &missing)).status.code(), Some(FAILED));
    let text = String::from_utf8(run(&laptop, &["status", "--prometheus"], DONE).stdout).unwrap();
    let document = include_str!("../../docs/MACHINES.md");
    let names = |text: &str, before: &str| -> Vec<String> {
        let parts = text.split(before).skip(1);
        let names = parts.filter_map(|part| part.split([' ', '`']).next());
        names.filter(|name| name.starts_with("agent_relay_")).map(str::to_owned).collect()
    };
    let (mut printed, mut documented) = (names(&text, "# TYPE "), names(document, "| `"));
    // Only of a machine that is linked.
    printed.push("agent_relay_bridge_agents".to_owned());
    printed.sort();
    documented.sort();
    assert_eq!(documented, printed);
}

#[test]
fn bridge_without_a_command_has_the_settings_of_its_file() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let mut bob = pi.join("Bob");
    let command = ["--peer", "laptop", "--export", "Bob", "--export", "Cid", "--topic", "build.ok"];
    let command = stdio(&pi, &command);
    let text = format!(
        "[pi]\ncommand = {}\nexport = ['Ann']\nimport = ['Bob']\ntopic = ['build.>']\n",
        json!(command)
    );
    fs::write(laptop.home().join("bridges.toml"), text).unwrap();
    let mut linked = laptop.command(["bridge", "pi"]);
    let mut running = Running(linked.stderr(Stdio::piped()).spawn().unwrap());
    let report = await_bridge(&laptop, "linked");
    let remote = &report["hosts"][0];
    assert_eq!([&remote["agents"], &remote["takes_topics"]], [&json!(["Bob"]), &json!(true)]);
    run(&laptop, &["send", "--as", "Ann", "Bob@pi", "hello"], DONE);
    assert_eq!(body(&bob.expect("DELIVER")), "hello");
    run(&laptop, &["send", "--as", "Ann", "all@pi", "--topic", "build.ok", "to all of it"], DONE);
    assert_eq!(connected(&laptop), ["all@pi", "Bob@pi"]);
    running.0.kill().unwrap();
    let mut said = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let line = said.lines().find(|line| line.contains(" linked to pi: ")).unwrap();
    let time = line.strip_prefix("agent-relay: ").unwrap().split(' ').next().unwrap();
    assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{line}");
    // An option replaces its key, and an error names the line.
    let mut exported =
        Running(laptop.command(["bridge", "pi", "--export", "Dora"]).spawn().unwrap());
    await_agent(&pi, "Dora@laptop");
    exported.0.kill().unwrap();
    for (text, said) in [
        ("[lab]\ncommand = ['x']\nexport = []\n", "add a table [pi] with `command` to "),
        ("[pi]\n\ncommand = 'ssh pi'\n", "bridges.toml:3: `command`: expected a list of texts"),
    ] {
        fs::write(laptop.home().join("bridges.toml"), text).unwrap();
        let failed = laptop.command(["bridge", "pi"]).output().unwrap();
        assert!(!failed.status.success() && err(&failed).contains(said), "{}", err(&failed));
    }
    let checks = run(&laptop, &["doctor"], FAILED);
    let checks = String::from_utf8(checks.stdout).unwrap();
    assert!(checks.contains("fail config    ") && checks.contains("bridges.toml:3: "), "{checks}");
}
