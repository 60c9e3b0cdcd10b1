//! Plays the documents' examples: those of clients are sent to a daemon, and those of the daemon
//! are compared with its real answers, member by member.

use super::examples as documented_examples;
use protocol::secret::{Secret, hash_text};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};
use testkit::{raw::Raw, sandbox::Sandbox};

#[test]
fn examples_are_played_to_a_daemon() {
    let mut script = Script::of_documents();
    first_minute(&mut script);
    afternoon(&mut script);
    modes(&mut script);
    topics(&mut script);
    returning(&mut script);
    questions(&mut script);
    backpressure(&mut script);
    resuming(&mut script);
    requests(&mut script);
    operator_requests(&mut script);
    assert_eq!(script.unplayed, BTreeSet::new());
}

/// The documents' envelopes by their ids.
struct Script {
    examples: BTreeMap<String, String>,
    unplayed: BTreeSet<String>,
    /// The daemon's real ids, tokens and keys, by those in the examples.
    real: BTreeMap<String, String>,
}

/// How exactly the members of a received envelope must match its example's.
#[derive(Clone, Copy, PartialEq)]
enum Members {
    /// Both have the same members.
    Exactly,
    /// The received envelope may lack members: the example shows several cases at once.
    OnlyThese,
}

impl Script {
    fn of_documents() -> Self {
        let mut examples = BTreeMap::new();
        for text in documented_examples() {
            let id = read(&text)["id"].as_str().unwrap().to_owned();
            assert!(examples.insert(id.clone(), text).is_none(), "two examples are {id}");
        }
        let unplayed = examples.keys().cloned().collect();
        Self { examples, unplayed, real: BTreeMap::new() }
    }

    /// Returns the text of an example with the daemon's real ids, tokens and keys.
    #[track_caller]
    fn example_text(&mut self, id: &str) -> String {
        let mut text =
            self.examples.get(id).unwrap_or_else(|| panic!("no example is {id}")).clone();
        self.unplayed.remove(id);
        for (made_up, real) in &self.real {
            text = text.replace(&format!("\"{made_up}\""), &format!("\"{real}\""));
        }
        text
    }

    #[track_caller]
    fn example(&mut self, id: &str) -> Value {
        read(&self.example_text(id))
    }

    /// Sends an example as a client, byte for byte.
    #[track_caller]
    fn send(&mut self, raw: &mut Raw, id: &str) {
        raw.send_text(&self.example_text(id));
    }

    /// Receives an envelope, which must be like an example.
    #[track_caller]
    fn receive(&mut self, raw: &mut Raw, id: &str, has: Members) -> Value {
        let received = raw.receive().unwrap_or_else(|| panic!("{id} expected, not the end"));
        self.check_like(id, &received, has);
        received
    }

    #[track_caller]
    fn check_like(&mut self, id: &str, received: &Value, has: Members) {
        let example = self.example(id);
        let (mut shown, mut real) = (BTreeSet::new(), BTreeSet::new());
        members(&example, "", &mut shown);
        members(received, "", &mut real);
        let is_like =
            if has == Members::Exactly { shown == real } else { shown.is_superset(&real) };
        let different = shown.symmetric_difference(&real);
        assert!(is_like, "{example}\nis not like\n{received}\n{different:?}");
        for member in ["type", "from", "to"] {
            assert_eq!(example[member], received[member], "{member}: {received}");
        }
        for member in ["code", "fatal", "kind", "ack_id", "ref"] {
            let (shown, real) = (&example["payload"][member], &received["payload"][member]);
            assert_eq!(shown, real, "{member}: {received}");
        }
        if example["from"] == "@relay" {
            let reply_to = |envelope: &Value| envelope["payload_meta"]["replyTo"].clone();
            assert_eq!(
                (&example["payload"]["body"], reply_to(&example)),
                (&received["payload"]["body"], reply_to(received))
            );
        }
    }

    /// The bodies of all examples of this kind: requests to `@relay`, or its responses.
    fn bodies(&self, kind: &str) -> BTreeSet<String> {
        let of_kind = self.examples.values().map(|text| read(text)["payload"].take());
        let of_kind = of_kind.filter(|payload| payload["kind"] == kind);
        of_kind.filter_map(|payload| Some(payload["body"].as_str()?.to_owned())).collect()
    }

    /// Makes later examples contain a real value instead of a made-up one.
    fn learn(&mut self, made_up: &str, real: &Value) {
        self.real.insert(made_up.to_owned(), real.as_str().expect("a text").to_owned());
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("an example is JSON")
}

/// Collects every member by its path and the kind of its value.
fn members(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                members(value, &format!("{path}.{name}"), found);
            }
        }
        Value::Array(array) => {
            array.iter().for_each(|value| members(value, &format!("{path}[]"), found))
        }
        Value::Null => panic!("{path} is null"),
        Value::Bool(_) => drop(found.insert(format!("{path}: boolean"))),
        Value::Number(_) => drop(found.insert(format!("{path}: number"))),
        Value::String(_) => drop(found.insert(format!("{path}: string"))),
    }
    if value.as_object().is_some_and(|object| object.is_empty()) {
        found.insert(format!("{path}: object"));
    }
}

fn first_minute(script: &mut Script) {
    // The example of WELCOME states the defaults, so this sandbox's daemon has no configuration.
    let mut sandbox = Sandbox::empty();
    sandbox.start();
    let (mut ann, mut bob) = (sandbox.connect(), sandbox.join("Bob"));
    script.send(&mut ann, "a-1");
    let welcome =
        script.receive(&mut ann, "5e0c7a52-6f0e-4d0e-9a51-3c1f0b6f2f10", Members::Exactly);
    let mut granted = script.example("5e0c7a52-6f0e-4d0e-9a51-3c1f0b6f2f10");
    granted["payload"]["server"]["version"] = json!(env!("CARGO_PKG_VERSION"));
    assert_eq!(welcome["payload"]["capabilities"], granted["payload"]["capabilities"]);
    assert_eq!(welcome["payload"]["server"], granted["payload"]["server"]);
    script.send(&mut ann, "a-2");
    let accepted =
        script.receive(&mut ann, "0f6b2f63-36a5-4b5e-8a07-2b1c3d4e5f60", Members::Exactly);
    assert_eq!(
        accepted["payload"],
        script.example("0f6b2f63-36a5-4b5e-8a07-2b1c3d4e5f60")["payload"]
    );
    let deliver =
        script.receive(&mut bob, "c9a1e0d2-7b3f-4e88-9d10-a4b5c6d7e8f9", Members::Exactly);
    script.learn("c9a1e0d2-7b3f-4e88-9d10-a4b5c6d7e8f9", &deliver["id"]);
    script.send(&mut bob, "b-2");
    assert_eq!(bob.drain(), Vec::<Value>::new());
    assert_eq!(bob.ask("inbox", &json!({}))["messages"], json!([]), "it is acknowledged");

    ann.answers_pings = false;
    let mut other = sandbox.connect();
    script.send(&mut other, "a-1");
    let ping = script.receive(&mut ann, "3d3b8f0e-52a1-4c53-8f7e-6a7b8c9d0e1f", Members::Exactly);
    script.learn("9f86d081", &ping["payload"]["nonce"]);
    script.send(&mut ann, "a-3");
    other.expect_code("ERROR", "NAME_IN_USE");

    ann.send_json(&json!({"v": 1, "type": "SEND", "id": "a-7", "to": "Bob", "payload": {}}));
    let error = script.receive(&mut ann, "7a0d5f1c-8b1e-4f0a-b6b3-0c1d2e3f4a5b", Members::Exactly);
    assert_eq!(error["payload"], script.example("7a0d5f1c-8b1e-4f0a-b6b3-0c1d2e3f4a5b")["payload"]);
    ann.send_json(
        &json!({"v": 1, "type": "SEND", "id": "a-13", "ts": 0, "to": "Bbo", "payload": {}}),
    );
    let nack = script.receive(&mut ann, "e4b1c2d3-f4a5-4687-98a9-bacbdcedfe0f", Members::Exactly);
    assert_eq!(nack["payload"], script.example("e4b1c2d3-f4a5-4687-98a9-bacbdcedfe0f")["payload"]);
    script.send(&mut ann, "a-4");
    ann.expect_end();
    script.real.clear();
}

/// Plays the page of docs/CLIENTS.md, but for BUSY.
fn afternoon(script: &mut Script) {
    const WELCOME: &str = "8b0f9c5e-6a64-4f0c-8a57-3a1d5b9be0a1";
    const DELIVER: &str = "7f3c9a52-1c9d-4d8e-a6f0-2b4d6e8f0a1c";
    const REPLACED: &str = "3f2a1b0c-9d8e-4f7a-8b6c-5d4e3f2a1b0c";
    const TOKEN: &str = "2f0e4c6a8b1d3f5976543210fedcba98112233445566778899aabbccddeeff00";
    let mut sandbox = Sandbox::empty();
    sandbox.start();
    let (mut ann, mut bob) = (sandbox.connect(), sandbox.join("Bob"));
    script.send(&mut ann, "p-2");
    let welcome = script.receive(&mut ann, WELCOME, Members::Exactly);
    assert_eq!(
        welcome["payload"]["capabilities"],
        script.example(WELCOME)["payload"]["capabilities"]
    );
    script.send(&mut ann, "p-4");
    script.receive(&mut ann, "5d9f0c4e-0a4b-4b36-9f5c-8f1e1fb7f1c2", Members::Exactly);
    assert_eq!(bob.expect("DELIVER")["payload"], script.example("p-4")["payload"]);
    bob.send("Ann", "My turn", json!({"requires_ack": true}));
    let deliver = script.receive(&mut ann, DELIVER, Members::Exactly);
    assert_eq!(deliver["payload"], script.example(DELIVER)["payload"]);
    script.learn(DELIVER, &deliver["id"]);
    script.send(&mut ann, "p-6");
    ann.drain();
    assert_eq!(ann.ask("inbox", &json!({}))["messages"], json!([]), "it is acknowledged");

    ann.answers_pings = false;
    let mut other = sandbox.connect();
    script.send(&mut other, "p-2");
    let ping = script.receive(&mut ann, "0d6e7f20-3f5b-4d0d-9c53-b7b7d2b4b3d2", Members::Exactly);
    script.learn("4ac1d3b0", &ping["payload"]["nonce"]);
    script.send(&mut ann, "p-3");
    other.expect_code("ERROR", "NAME_IN_USE");
    ann.answers_pings = true;

    script.learn(TOKEN, &welcome["payload"]["resume_token"]);
    let mut newer = sandbox.connect();
    script.send(&mut newer, "p-7");
    let resumed = newer.expect("WELCOME")["payload"]["session_id"].take();
    assert_eq!(resumed, welcome["payload"]["session_id"]);
    let replaced = script.receive(&mut ann, REPLACED, Members::Exactly);
    assert_eq!(replaced["payload"], script.example(REPLACED)["payload"]);
    ann.expect_end();
    script.real.clear();
}

/// Plays HELLO in each mode.
fn modes(script: &mut Script) {
    let mut sandbox = Sandbox::empty();
    platform::paths::make_private_dir(&sandbox.home()).unwrap();
    let key_of =
        |id| read(&script.examples[id])["payload"]["auth"]["key"].as_str().unwrap().to_owned();
    let (key, shown) = (key_of("u-2"), key_of("o-1"));
    let hash = hash_text(&Secret::stated(&key).hash());
    let policy = format!("[[agent]]\nname = 'claude-1'\nkey = '{hash}'\n");
    let path = sandbox.home().join("policy.toml");
    platform::paths::write_private_file(&path, policy.as_bytes()).unwrap();
    sandbox.start();
    let operator_key = fs::read_to_string(sandbox.home().join("operator.key")).unwrap();
    script.learn(&shown, &json!(operator_key.trim_end()));

    let mut codex = sandbox.connect();
    script.send(&mut codex, "u-1");
    let granted = codex.expect("WELCOME")["payload"]["capabilities"].take();
    assert_eq!(granted, script.example("u-1")["payload"]["capabilities"]);
    let mut sender_of = |id: &str| {
        let mut raw = sandbox.connect();
        script.send(&mut raw, id);
        raw.expect("WELCOME");
        raw.send("codex-1", id, json!({}));
        let deliver = codex.expect("DELIVER");
        let auth = deliver["delivery"]["sender"]["auth"].as_str().unwrap().to_owned();
        (raw, deliver["from"].as_str().unwrap().to_owned(), auth)
    };
    let (_claude, from, auth) = sender_of("u-2");
    assert_eq!((&*from, &*auth), ("claude-1", "key"));
    let (_companion, from, auth) = sender_of("c-1");
    assert_eq!((&*from, &*auth), ("claude-1", "companion"));
    let (_operator, from, auth) = sender_of("o-1");
    assert_eq!((&*from, &*auth), ("@operator", "operator"));
    let (_guest, from, auth) = sender_of("g-1");
    assert!(from.starts_with("@guest-") && auth == "guest", "{from} {auth}");
    script.real.clear();
}

fn topics(script: &mut Script) {
    let sandbox = Sandbox::new();
    let (mut claude, mut codex) = (sandbox.join("claude-1"), sandbox.join("codex-1"));
    script.send(&mut codex, "a-11");
    script.receive(&mut codex, "2c5ea4c0-4067-41e9-8bad-9b1deb4d3b7d", Members::Exactly);
    claude.send_json(&json!({"v": 1, "type": "SEND", "id": "t", "ts": 0, "topic": "build.linux", "payload": {"body": "!"}}));
    assert_eq!(codex.expect("DELIVER")["payload"]["body"], "!");
    script.send(&mut codex, "a-12");
    assert_eq!(codex.expect("ACK")["payload"]["ack_id"], "a-12");

    let send = script.example("a-10");
    claude.send_json(&send);
    claude.expect("ACK");
    let deliver = codex.expect("DELIVER");
    for member in ["topic", "payload", "payload_meta"] {
        assert_eq!(deliver[member], send[member]);
    }
    codex.acknowledge(&deliver);
    script.real.clear();
}

/// Plays a DELIVER with all its members, its NACK and its ACK.
fn returning(script: &mut Script) {
    let deliver = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
    let sandbox = Sandbox::new();
    let (mut claude, mut codex) = (sandbox.join("claude-1"), sandbox.join("codex-1"));
    codex.send_json(
        &json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 0, "topic": "chess", "payload": {}}),
    );
    codex.expect("ACK");
    let mut to_all = script.example("a-10");
    to_all.as_object_mut().unwrap().remove("to");
    claude.send_json(&to_all);
    claude.expect("ACK");
    codex.expect("DELIVER");
    // When `drain` returns, the DELIVER has been written, so that its loss counts as a failed
    // delivery.
    codex.drain();
    codex.hang_up();
    let mut codex = sandbox.connect();
    codex.hello("codex-1");
    let received = script.receive(&mut codex, deliver, Members::Exactly);
    assert_eq!(received["delivery"]["attempt"], 2);
    script.learn(deliver, &received["id"]);
    script.send(&mut codex, "b-10");
    codex.drain();
    let rests = codex.ask("inbox", &json!({}))["messages"][0].take();
    assert_eq!((&rests["waits_for"], &rests["failures"]), (&json!("rest"), &json!(2)), "{rests}");
    script.send(&mut codex, "b-9");
    codex.drain();
    assert_eq!(codex.ask("inbox", &json!({}))["messages"], json!([]));
    script.real.clear();
}

fn questions(script: &mut Script) {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    script.send(&mut ann, "a-15");
    assert_eq!(ann.expect("ACK")["payload"]["state"], "accepted");
    script.learn("5f0c1d2e-8a7b-4c6d-9e0f-1a2b3c4d5e6f", &bob.expect("DELIVER")["id"]);
    script.send(&mut bob, "b-11");
    let answer = script.receive(&mut ann, "b5c6d7e8-f9a0-4b1c-8d2e-3f4a5b6c7d8e", Members::Exactly);
    assert_eq!(
        answer["payload"],
        script.example("b5c6d7e8-f9a0-4b1c-8d2e-3f4a5b6c7d8e")["payload"]
    );
    drop(bob.drain());
    // An unchanged envelope would be a duplicate of the first.
    let mut hurried = script.example("a-15");
    hurried["payload_meta"]["sync"]["timeoutMs"] = json!(50);
    ann.send_json(&hurried);
    ann.expect("ACK");
    script.receive(&mut ann, "c6d7e8f9-a0b1-4c2d-9e3f-4a5b6c7d8e9f", Members::Exactly);
    script.real.clear();
}

/// Plays BUSY for one recipient and for several.
fn backpressure(script: &mut Script) {
    let sandbox = Sandbox::with_config("queue_max_messages = 2\n");
    let (mut ann, _bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    ann.send("Bob", "fills her half", json!({"requires_ack": true}));
    ann.expect("ACK");
    let mut send = json!({"v": 1, "type": "SEND", "id": "a-14", "ts": 0, "to": "Bob",
        "payload": {"body": "?"}, "payload_meta": {"requires_ack": true}});
    ann.send_json(&send);
    script.receive(&mut ann, "9c858901-8a57-4791-81fe-4c455b099bc9", Members::Exactly);
    send["id"] = json!("p-5");
    ann.send_json(&send);
    script.receive(&mut ann, "e1b0f1d8-2f6e-4c3e-8ed1-6f2b7c8d9e0f", Members::Exactly);
    (send["id"], send["to"]) = (json!("a-16"), json!("*"));
    ann.send_json(&send);
    let busy = script.receive(&mut ann, "1c9e8f6a-3d52-4b0e-9c1d-7f2a6b5e4d3c", Members::Exactly);
    assert_eq!(busy["payload"]["busy"], json!(["Bob"]));
}

/// Plays a resumption with a token, by HELLO and by RESUME alone.
fn resuming(script: &mut Script) {
    const TOKEN: &str = "b1946ac92492d2347c6235b4d2611184591ac0b2a9d7b0c1f3b2d8e6a5c49370";
    const SESSION: &str = "s-7d1f20c39a4be586";
    const SYNC: &str = "16fd2706-8baf-433b-82eb-8c7fada847da";
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.connect(), sandbox.join("Bob"));
    ann.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0,
        "payload": {"agent": "Ann", "capabilities": {"resume": true}}}));
    let first = ann.expect("WELCOME")["payload"].take();
    for number in 1..=49 {
        bob.send_json(
            &json!({"v": 1, "type": "SEND", "id": number.to_string(), "ts": 0, "to": "Ann",
            "topic": "chess", "payload": {"body": number.to_string()}}),
        );
        ann.expect("DELIVER");
    }
    ann.drain();
    ann.hang_up();
    script.learn(SESSION, &first["session_id"]);
    let mut token = first["resume_token"].clone();
    for (hello, resume) in [(Some("a-19"), "a-20"), (None, "a-21")] {
        let mut ann = sandbox.connect();
        script.learn(TOKEN, &token);
        for example in hello.into_iter().chain([resume]) {
            script.send(&mut ann, example);
        }
        let welcome = ann.expect("WELCOME")["payload"].take();
        assert_eq!(welcome["session_id"], first["session_id"]);
        token = welcome["resume_token"].clone();
        let sync = script.receive(&mut ann, SYNC, Members::Exactly);
        assert_eq!(sync["payload"], script.example(SYNC)["payload"]);
        for number in 46..=49 {
            assert_eq!(ann.expect("DELIVER")["delivery"]["seq"], number);
        }
        ann.hang_up();
    }
    script.real.clear();
}

/// Plays requests to `@relay` that every client may make.
fn requests(script: &mut Script) {
    let sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    sandbox.join("Cid").leave();
    ann.send_json(&json!({"v": 1, "type": "SEND", "id": "?", "ts": 0, "to": "@relay",
        "payload": {"kind": "request", "body": "nonsense"}}));
    let unknown = ann.expect_code("NACK", "INVALID")["payload"]["message"].take();
    let (_, known) = unknown.as_str().unwrap().split_once("ask for ").expect("all that there is");
    let words = known.split([',', ' ']).filter(|word| !["", "or"].contains(word));
    let known: BTreeSet<_> = words.map(str::to_owned).collect();
    assert_eq!(known, script.bodies("request"), "each request has an example");
    assert_eq!(known, script.bodies("response"), "and so has each answer");

    script.send(&mut ann, "a-30");
    script.receive(&mut ann, "886313e1-3b8a-4372-9b90-0c9aee199e5d", Members::OnlyThese);
    script.send(&mut ann, "a-31");
    script.receive(&mut ann, "3f2504e0-4f89-41d3-9a0c-0305e82c3301", Members::OnlyThese);

    bob.send_json(&json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 0, "topic": "build.linux", "payload": {}}));
    bob.expect("ACK");
    ann.send_text(
        r#"{"v":1,"type":"SEND","id":"a-2","ts":0,"topic":"build.linux","payload":{"kind":"message","body":"Your turn"},"payload_meta":{"requires_ack":true}}"#,
    );
    ann.expect("ACK");
    let deliver = bob.expect("DELIVER");
    script.learn("c9a1e0d2-7b3f-4e88-9d10-a4b5c6d7e8f9", &deliver["id"]);
    script.send(&mut bob, "b-34");
    script.receive(&mut bob, "1f0e1d2c-3b4a-4596-8778-69504a3b2c1d", Members::Exactly);
    script.send(&mut bob, "b-35");
    script.receive(&mut bob, "3b2c1d0e-4f5a-4b6c-8d7e-9f8a7b6c5d4e", Members::Exactly);
    script.send(&mut ann, "a-32");
    let way = script.receive(&mut ann, "5f0c3f6e-9a61-4f0e-8d0b-3c9d7a1e2b4f", Members::OnlyThese);
    assert_eq!(way["payload"]["data"]["messages"][0]["reported"]["state"], "waiting");
    script.send(&mut ann, "a-35");
    let piece =
        script.receive(&mut ann, "0d1f2e3c-4b5a-4968-8776-5a4b3c2d1e0f", Members::OnlyThese);
    let text = piece["payload"]["data"]["text"].as_str().unwrap();
    let shown = script.example("0d1f2e3c-4b5a-4968-8776-5a4b3c2d1e0f")["payload"]["data"].take();
    assert!(text.starts_with(shown["text"].as_str().unwrap()), "{text}");
    assert_eq!(shown["next_offset"], shown["text"].as_str().unwrap().len());
    bob.acknowledge(&deliver);
    drop(bob.drain());
    script.send(&mut ann, "a-37");
    let history =
        script.receive(&mut ann, "45c48cce-2e2d-4fbd-aa1a-fc51c7c6ad26", Members::Exactly);
    assert_eq!(history["payload"]["data"]["messages"][0]["state"], "acknowledged");

    for body in ["My turn", "Yours"] {
        bob.send("Ann", body, json!({"requires_ack": true}));
        bob.expect("ACK");
        ann.expect("DELIVER");
    }
    script.send(&mut ann, "a-36");
    script.receive(&mut ann, "9e107d9d-372b-4b68-a6bd-86a9f1c3d5e7", Members::Exactly);
    script.real.clear();
}

/// Plays requests to `@relay` that only operators may make.
fn operator_requests(script: &mut Script) {
    let mut sandbox = Sandbox::new();
    let (mut ann, mut bob, mut operator) =
        (sandbox.join("Ann"), sandbox.join("Bob"), sandbox.operator());
    for id in ["a-1", "a-2"] {
        let mut cid = sandbox.connect();
        cid.hello("Cid");
        cid.send_json(&json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 0, "topic": "build.linux", "payload": {}}));
        cid.expect("ACK");
        ann.send_json(&json!({"v": 1, "type": "SEND", "id": id, "ts": 0, "topic": "build.linux",
            "payload": {"kind": "message", "body": "Your turn"}, "payload_meta": {"requires_ack": true}}));
        ann.expect("ACK");
        let deliver = cid.expect("DELIVER");
        cid.send_json(&json!({"v": 1, "type": "NACK", "id": "n", "ts": 0,
            "payload": {"ack_id": deliver["id"], "code": "X", "message": "no"}}));
        ann.expect_code("NACK", "REFUSED");
        cid.leave();
    }
    ann.send("@operator", "hello", json!({"requires_ack": true}));
    ann.expect("ACK");
    let mail = operator.ask("inbox", &json!({}));
    script.learn("c9a1e0d2-7b3f-4e88-9d10-a4b5c6d7e8f9", &mail["messages"][0]["id"]);
    script.send(&mut operator, "o-31");
    let taken =
        script.receive(&mut operator, "7b9f3c1e-2d4a-4f6b-8c0d-1e2f3a4b5c6d", Members::Exactly);
    assert_eq!(taken["payload"]["data"], json!({"taken": 1}));
    script.real.clear();
    script.send(&mut operator, "o-32");
    let dead =
        script.receive(&mut operator, "d3d94468-02a4-4259-b55d-38e6d163e820", Members::Exactly);
    assert_eq!(dead["payload"]["data"]["messages"][0]["send_id"], "a-2");
    script.send(&mut operator, "o-33");
    let again =
        script.receive(&mut operator, "f47ac10b-58cc-4372-a567-0e02b2c3d479", Members::OnlyThese);
    assert_eq!(again["payload"]["data"], json!({"redelivered": 1}));
    script.send(&mut operator, "o-37");
    let purged =
        script.receive(&mut operator, "5b2f1c3e-8d4a-4f6b-9e7c-1a2b3c4d5e6f", Members::OnlyThese);
    assert_eq!(purged["payload"]["data"], json!({"purged": 1}));
    ann.expect_code("NACK", "EXPIRED");
    script.send(&mut operator, "o-38");
    script.receive(&mut operator, "6c3a2d4f-9e5b-4a7c-8f8d-2b3c4d5e6f70", Members::Exactly);
    sandbox.join("web-2").leave();
    script.send(&mut operator, "o-40");
    script.receive(&mut operator, "7d4b3e50-af6c-4b8d-9a9e-3c4d5e6f7081", Members::Exactly);
    script.send(&mut operator, "o-34");
    script.receive(&mut operator, "7b52009b-64fd-4a2e-a9e6-b8a3c1d5f7e9", Members::Exactly);
    script.send(&mut operator, "o-35");
    script.receive(&mut operator, "902ba3cd-a188-4c3f-9f5d-2e6b7a8c9d0e", Members::Exactly);
    script.send(&mut ann, "a-2");
    ann.expect("ACK");
    script.receive(&mut operator, "a8098c1a-f86e-41da-bd1a-00112444be1e", Members::OnlyThese);
    bob.expect("DELIVER");
    script.send(&mut operator, "o-39");
    script.receive(&mut operator, "4c8f6a1e-2b3d-4e5f-8a9b-0c1d2e3f4a5b", Members::Exactly);
    ann.send("Bob", "a change", json!({"requires_ack": true}));
    ann.expect("ACK");
    script.receive(&mut operator, "7d9e0f1a-3c4b-4d5e-9f6a-1b2c3d4e5f6a", Members::OnlyThese);
    bob.expect("DELIVER");
    script.send(&mut operator, "o-36");
    script.receive(&mut operator, "84a516a0-5c3b-4d8e-9f71-6c0b1a2d3e4f", Members::Exactly);
    let bye = script.receive(&mut bob, "6fa459ea-ee8a-4ca4-894e-db77e160355e", Members::Exactly);
    assert_eq!(bye["payload"]["reason"], "stop");
    bob.expect_end();
    assert!(sandbox.await_daemon_end().success());
    script.real.clear();
}
