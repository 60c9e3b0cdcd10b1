//! Clients in another language, written from the documents alone: tests/client.py, and the program
//! that docs/CLIENTS.md prints.

use crate::document::page_program;
use platform::transport::Listener;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    process::{Child, ChildStdin, Stdio},
    sync::{Arc, mpsc},
    thread,
};
use testkit::{
    raw::Raw,
    sandbox::Sandbox,
    waiting::{WATCHDOG, not_tried, wait},
};

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client.py");

/// The client's exit code on a system without Unix sockets.
const UNSUPPORTED_CODE: i32 = 77;

#[test]
fn client_joins_sends_receives_and_acknowledges() {
    let sandbox = Sandbox::new();
    let Some((mut ann, welcome)) = PythonClient::join(&sandbox, "Ann") else { return };
    assert_eq!(welcome["payload"]["agent"], "Ann");
    let mut bob = sandbox.join("Bob");

    let body = r#"Your turn: "é"  \n 漢"#;
    ann.command(&format!("send bob {body}"));
    let deliver = bob.expect("DELIVER");
    assert_eq!((&deliver["from"], &deliver["to"]), (&json!("Ann"), &json!("Bob")));
    assert_eq!(deliver["payload"], json!({"kind": "message", "body": body}));
    assert_eq!(deliver["delivery"]["sender"]["session"], welcome["payload"]["session_id"]);
    assert_eq!(deliver["delivery"]["requires_ack"], true);
    let accepted = ann.expect("ACK");
    assert_eq!(accepted["payload"]["state"], "accepted");
    assert_eq!(accepted["payload"]["durability"], "disk");
    bob.acknowledge(&deliver);

    let id = bob.send("Ann", "My turn", json!({"requires_ack": true}));
    assert_eq!(bob.expect("ACK")["payload"]["ack_id"], *id);
    let received = ann.expect("DELIVER");
    assert_eq!(
        (&received["from"], &received["payload"]["body"]),
        (&json!("Bob"), &json!("My turn"))
    );
    bob.send("Ann", "By the way", json!({}));
    assert_eq!(ann.expect("DELIVER")["delivery"]["seq"], 2);

    // Ann's client runs this command once the daemon has accepted her previous message.
    ann.command("send * All done");
    let last = bob.expect("DELIVER");
    assert_eq!(last["delivery"]["originalTo"], "*");
    assert_eq!(ann.expect("ACK")["payload"]["recipients"], 1);
    bob.acknowledge(&last);
    assert_eq!(queued(&mut bob), [("Ann".to_owned(), 0), ("Bob".to_owned(), 0)]);

    ann.command("send Zoe Anybody?");
    assert_eq!(ann.expect("NACK")["payload"]["code"], "UNKNOWN_AGENT");
    ann.leave();
    let id = bob.send("Ann", "Still there?", json!({}));
    let offline = bob.expect_code("NACK", "AGENT_OFFLINE");
    assert_eq!(offline["payload"]["ack_id"], *id);
}

#[test]
fn client_subscribes_and_publishes() {
    let sandbox = Sandbox::new();
    let Some((mut ann, _)) = PythonClient::join(&sandbox, "Ann") else { return };
    let mut bob = sandbox.join("Bob");
    ann.command("subscribe build.>");
    ann.expect("ACK");
    assert_eq!(publish(&mut bob, "b-1", "build.linux.arm"), 1);
    let received = ann.expect("DELIVER");
    assert_eq!(received["topic"], "build.linux.arm");
    assert_eq!(received["delivery"]["originalTo"], "*");
    assert_eq!(publish(&mut bob, "b-2", "build"), 0);
    ann.command("unsubscribe build.>");
    ann.expect("ACK");
    assert_eq!(publish(&mut bob, "b-3", "build.linux"), 0);
    ann.command("subscribe a.>.b");
    assert_eq!(ann.expect("NACK")["payload"]["code"], "INVALID");

    bob.send_json(
        &json!({"v": 1, "type": "SUBSCRIBE", "id": "b-4", "ts": 0, "topic": "chat", "payload": {}}),
    );
    bob.expect("ACK");
    ann.command("publish chat Hello");
    let received = bob.expect("DELIVER");
    assert_eq!(
        (&received["topic"], &received["payload"]["body"]),
        (&json!("chat"), &json!("Hello"))
    );
    assert_eq!(ann.expect("ACK")["payload"]["recipients"], 1);
    ann.leave();
}

#[test]
fn client_retries_when_busy() {
    let sandbox = Sandbox::with_config("queue_max_messages = 2\n");
    let Some((mut ann, _)) = PythonClient::join(&sandbox, "Ann") else { return };
    let mut bob = sandbox.join("Bob");
    ann.command("send Bob one\nsend Bob two");
    let one = bob.expect("DELIVER");
    ann.expect("ACK");
    let busy = ann.expect("BUSY");
    bob.acknowledge(&one);
    let two = bob.expect("DELIVER");
    assert_eq!((&two["payload"]["body"], &two["delivery"]["seq"]), (&json!("two"), &json!(2)));
    // Bob's ACK and Ann's retry can cross: then Ann gets BUSY once more.
    let mut answer = ann.receive();
    while answer["type"] == "BUSY" {
        answer = ann.receive();
    }
    assert_eq!((&answer["type"], &answer["payload"]["state"]), (&json!("ACK"), &json!("accepted")));
    assert_eq!(answer["payload"]["ack_id"], busy["payload"]["ack_id"]);
    ann.leave();
}

#[test]
fn client_answers_pings() {
    let sandbox = Sandbox::with_config("heartbeat_ms = 1500\n");
    let Some((mut ann, _)) = PythonClient::join(&sandbox, "Ann") else { return };
    let mut bob = sandbox.join("Bob");
    bob.answers_pings = false;
    // The daemon sends a PING each heartbeat, and disconnects a client that leaves three
    // unanswered. After Bob's four PINGs, Ann is connected only if her client answers.
    for _ in 0..4 {
        let ping = bob.expect("PING");
        bob.send_json(
            &json!({"v": 1, "type": "PONG", "id": "b-0", "ts": 0, "payload": ping["payload"]}),
        );
    }
    bob.answers_pings = true;
    bob.send("Ann", "Still there?", json!({"requires_ack": true}));
    bob.expect("ACK");
    assert_eq!(ann.expect("DELIVER")["delivery"]["attempt"], Value::Null);
    ann.leave();
}

#[test]
fn client_reports_a_stop_and_a_refusal() {
    let mut sandbox = Sandbox::new();
    let Some((mut ann, _)) = PythonClient::join(&sandbox, "Ann") else { return };
    let (error, mut refused) = PythonClient::start(&sandbox, "root").expect("the client runs here");
    assert_eq!(error["payload"]["code"], "INVALID_NAME");
    refused.expect_end_by_daemon();
    sandbox.operator().send_json(&json!({
        "v": 1, "type": "SEND", "id": "o-1", "ts": 0, "to": "@relay",
        "payload": {"kind": "request", "body": "stop"},
    }));
    assert_eq!(ann.expect("BYE")["payload"]["reason"], "stop");
    ann.expect_end_by_daemon();
    assert!(sandbox.await_daemon_end().success());
}

#[test]
fn client_sends_the_documented_envelopes() {
    let sandbox = Sandbox::empty();
    let listener = Arc::new(Listener::bind(&sandbox.endpoint()).unwrap());
    let accepting = Arc::clone(&listener);
    let daemon = thread::spawn(move || {
        let mut daemon = Raw::over(accepting.accept().ok()?);
        let hello = daemon.expect("HELLO");
        daemon.send_json(&daemon_envelope("WELCOME", json!({"session_id": "s-1", "agent": "Ann"})));
        Some((daemon, hello))
    });
    let Some((mut ann, _)) = PythonClient::join(&sandbox, "Ann") else {
        listener.stop();
        assert!(daemon.join().unwrap().is_none());
        return;
    };
    let (mut daemon, hello) = daemon.join().unwrap().expect("the client connected");
    assert_eq!((&hello["v"], &hello["payload"]["agent"]), (&json!(1), &json!("Ann")));

    daemon.answers_pings = false;
    daemon.send_json(&daemon_envelope("PING", json!({"nonce": "0badcafe"})));
    assert_eq!(daemon.expect("PONG")["payload"], json!({"nonce": "0badcafe"}));

    let mut deliver = daemon_envelope("DELIVER", json!({"kind": "message", "body": "once"}));
    deliver["from"] = json!("Bob");
    deliver["delivery"] = json!({"seq": 7, "session_id": "s-1", "requires_ack": true});
    for _ in 0..2 {
        daemon.send_json(&deliver);
        let ack = daemon.expect("ACK");
        assert_eq!(ack["payload"], json!({"ack_id": "d-1", "seq": 7}));
    }
    // Both copies are acknowledged, but only the first is printed: the client prints BUSY next.
    assert_eq!(ann.expect("DELIVER"), deliver);
    deliver["id"] = json!("d-2");
    deliver["payload"] = json!({"body": 7});
    daemon.send_json(&deliver);
    let nack = daemon.expect("NACK");
    assert_eq!(
        (&nack["payload"]["ack_id"], &nack["payload"]["code"]),
        (&json!("d-2"), &json!("INVALID"))
    );

    ann.command("send Bob hi");
    let send = daemon.expect("SEND");
    daemon.send_json(&daemon_envelope(
        "BUSY",
        json!({"ack_id": send["id"], "retry_after_ms": 1, "queue_depth": 1}),
    ));
    ann.expect("BUSY");
    assert_eq!(daemon.expect("SEND"), send, "the same again, with the same id");
    drop(ann.commands.take());
    daemon.send_json(&daemon_envelope("ACK", json!({"ack_id": send["id"], "state": "accepted"})));
    ann.expect("ACK");
    daemon.expect("BYE");
    daemon.hang_up();
    ann.leave();
}

#[test]
fn printed_client_survives_the_daemon() {
    let mut sandbox = Sandbox::new();
    let program = sandbox.directory().join("client.py");
    fs::write(&program, page_program()).unwrap();
    let program = program.to_str().unwrap();
    let Some(mut bob) = PythonClient::spawn(&sandbox, &[program, "Bob"]) else { return };
    let mut ann = PythonClient::spawn(&sandbox, &[program, "Ann"]).expect("Bob's client runs");
    sandbox.wait_for_agents(&["Ann", "Bob"]);
    ann.command("send Bob Your turn\nsend Zoe Anybody?");
    assert_eq!(bob.expect("DELIVER")["payload"], json!({"kind": "message", "body": "Your turn"}));
    assert_eq!(ann.expect("ACK")["payload"]["state"], "accepted");
    assert_eq!(ann.expect("NACK")["payload"]["code"], "UNKNOWN_AGENT");

    sandbox.kill();
    ann.command("send Bob Still there?");
    sandbox.start();
    let deliver = bob.expect("DELIVER");
    assert_eq!(deliver["payload"]["body"], "Still there?");
    assert_eq!(deliver["delivery"]["sender"]["auth"], "token", "the session is resumed");
    assert_eq!(ann.expect("ACK")["payload"]["state"], "accepted");

    let mut refused = PythonClient::spawn(&sandbox, &[program, "root"]).expect("it runs");
    let status = wait(&mut refused.process, "root's client");
    assert_eq!(status.code(), Some(1));
    assert!(refused.end().1.contains("(INVALID_NAME)"));
    // Nothing came twice.
    ann.leave();
    bob.leave();
}

/// An envelope from a daemon.
fn daemon_envelope(kind: &str, payload: Value) -> Value {
    json!({"v": 1, "type": kind, "id": "d-1", "ts": 0, "payload": payload})
}

/// Publishes with `requires_ack`. Returns the number of recipients.
fn publish(from: &mut Raw, id: &str, topic: &str) -> u64 {
    from.send_json(&json!({
        "v": 1, "type": "SEND", "id": id, "ts": 0, "topic": topic,
        "payload": {"kind": "message", "body": "news"}, "payload_meta": {"requires_ack": true},
    }));
    let ack = from.expect("ACK");
    assert_eq!(ack["payload"]["ack_id"], id);
    ack["payload"]["recipients"].as_u64().expect("a number of recipients")
}

/// Returns the names of all agents, with the numbers of queued messages.
fn queued(asker: &mut Raw) -> Vec<(String, u64)> {
    asker
        .agents()
        .iter()
        .map(|row| (row["name"].as_str().unwrap().to_owned(), row["queued"].as_u64().unwrap()))
        .collect()
}

/// A process of a client, which reads commands and prints envelopes.
struct PythonClient {
    process: Child,
    commands: Option<ChildStdin>,
    envelopes: mpsc::Receiver<Value>,
}

impl PythonClient {
    /// A client that has joined, with its WELCOME; `None` if the system cannot run it.
    fn join(sandbox: &Sandbox, name: &str) -> Option<(Self, Value)> {
        let (welcome, client) = Self::start(sandbox, name)?;
        assert_eq!(welcome["type"], "WELCOME", "{welcome}");
        Some((client, welcome))
    }

    /// A client and the first envelope it received; `None`, after a line with the reason, if the
    /// system cannot run it.
    fn start(sandbox: &Sandbox, name: &str) -> Option<(Value, Self)> {
        let endpoint = sandbox.endpoint();
        let mut client = Self::spawn(sandbox, &[CLIENT, "--socket", endpoint.as_text(), name])?;
        match client.envelopes.recv_timeout(WATCHDOG) {
            Ok(first) => Some((first, client)),
            Err(_) => {
                let (code, stderr) = client.end();
                assert_eq!(code, Some(UNSUPPORTED_CODE), "{stderr}");
                not_tried(&stderr);
                None
            }
        }
    }

    /// Starts a Python program with these arguments. Prints the reason and returns `None` if there
    /// is no Python.
    fn spawn(sandbox: &Sandbox, words: &[&str]) -> Option<Self> {
        let mut command = sandbox.program("python3");
        command.env("AGENT_RELAY_ENDPOINT", sandbox.endpoint().as_text()).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = match command.spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                not_tried(&format!("there is no python3 here: {error}"));
                return None;
            }
            spawned => spawned.unwrap(),
        };
        let commands = process.stdin.take();
        let out = process.stdout.take().unwrap();
        let (received, envelopes) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                let envelope = serde_json::from_str(&line.unwrap()).unwrap();
                if received.send(envelope).is_err() {
                    break;
                }
            }
        });
        Some(Self { process, commands, envelopes })
    }

    fn command(&mut self, command: &str) {
        writeln!(self.commands.as_mut().expect("the client has not left"), "{command}").unwrap();
    }

    #[track_caller]
    fn receive(&mut self) -> Value {
        match self.envelopes.recv_timeout(WATCHDOG) {
            Ok(envelope) => envelope,
            Err(_) => panic!("nothing more came: {}", self.end().1),
        }
    }

    #[track_caller]
    fn expect(&mut self, kind: &str) -> Value {
        let envelope = self.receive();
        assert_eq!(envelope["type"], kind, "{envelope}");
        envelope
    }

    /// Ends the client's input, so that it sends BYE, and checks its end.
    #[track_caller]
    fn leave(mut self) {
        assert_eq!(self.end(), (Some(0), String::new()));
        assert_eq!(self.envelopes.recv().ok(), None, "all envelopes were expected");
    }

    #[track_caller]
    fn expect_end_by_daemon(&mut self) {
        let (code, stderr) = self.end();
        assert_eq!((code, stderr.trim()), (Some(1), "the daemon ended the connection"));
    }

    /// Ends the client's input, and waits for its end. Returns the exit code and the standard
    /// error.
    fn end(&mut self) -> (Option<i32>, String) {
        drop(self.commands.take());
        let status = wait(&mut self.process, "client.py");
        let mut stderr = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (status.code(), stderr)
    }
}

impl Drop for PythonClient {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
