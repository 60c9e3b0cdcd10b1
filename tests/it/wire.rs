//! The protocol over a real socket: the daemon's answers to valid and to invalid frames.
//!
//! Each line of docs/PROTOCOL.md on frames, envelopes, handshake and identity has its test here or
//! in src/router/tests. Most tests run beside a bystander, a client that must not be affected.

use crate::{
    raw::Raw,
    sandbox::{Sandbox, not_tried, output},
};
use serde_json::{Value, json};

const PRETTY: &str =
    r#"{ "v" : 1, "type":"SEND" ,"id":"m","ts":1, "to":"Bob", "payload":PAYLOAD }"#;

/// Runs a test beside a bystander. Afterwards the bystander can still send to itself, and the
/// daemon is up.
#[track_caller]
fn with_bystander(test: impl FnOnce(&Sandbox)) {
    let mut sandbox = Sandbox::new();
    let mut bystander = sandbox.join("Bystander");
    test(&sandbox);
    bystander.send("Bystander", "still here", json!({}));
    let mut received = vec![];
    while received.last().is_none_or(|last: &Value| last["type"] != "DELIVER") {
        received.push(bystander.receive().expect("the bystander is still connected"));
    }
    assert_eq!(received.len(), 1, "the bystander was affected: {received:?}");
    assert!(sandbox.is_up());
}

/// Checks that after a handshake, `bytes` are answered by a fatal ERROR with `code` and the end.
#[track_caller]
fn expect_fatal(bytes: &[u8], code: &str) {
    with_bystander(|sandbox| {
        let mut raw = sandbox.join("Ann");
        raw.send_bytes(bytes);
        let error = raw.expect_code("ERROR", code);
        assert_eq!(error["payload"]["fatal"], true);
        raw.expect_end();
    });
}

fn frame(json: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(json.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

#[test]
fn empty_frame_is_fatal() {
    expect_fatal(&[0, 0, 0, 0], "BAD_FRAME");
}

#[test]
fn frame_that_is_not_utf8_is_fatal() {
    expect_fatal(&[0, 0, 0, 4, b'{', 0xff, 0xfe, b'}'], "BAD_FRAME");
}

#[test]
fn frame_that_is_not_json_is_fatal() {
    expect_fatal(&frame("{\"v\":1,"), "BAD_FRAME");
}

#[test]
fn frame_that_is_not_an_object_is_fatal() {
    expect_fatal(&frame("[1,2]"), "BAD_FRAME");
}

#[test]
fn bytes_around_the_object_are_fatal() {
    expect_fatal(&frame("{} x"), "BAD_FRAME");
}

#[test]
fn length_over_the_limit_is_fatal_before_its_bytes_arrive() {
    expect_fatal(&(1024 * 1024 + 1_u32).to_be_bytes(), "FRAME_TOO_LARGE");
    expect_fatal(&u32::MAX.to_be_bytes(), "FRAME_TOO_LARGE");
}

#[test]
fn longest_frame_is_accepted_and_a_longer_one_is_fatal() {
    let sandbox = Sandbox::with_config("max_frame_bytes = 4096\n");
    let mut ann = sandbox.join("Ann");
    let send = |bytes: usize| {
        let json = |body: &str| {
            format!(
                r#"{{"v":1,"type":"SEND","id":"m","ts":1,"to":"Zoe","payload":{{"b":"{body}"}}}}"#
            )
        };
        json(&"x".repeat(bytes - json("").len()))
    };
    ann.send_text(&send(4096));
    ann.expect_code("NACK", "UNKNOWN_AGENT");
    ann.send_text(&send(4097));
    ann.expect_code("ERROR", "FRAME_TOO_LARGE");
    ann.expect_end();
}

#[test]
fn first_character_is_checked_before_depth_and_depth_before_grammar() {
    expect_fatal(&frame(&"[".repeat(200)), "BAD_FRAME");
    expect_fatal(&frame("  "), "BAD_FRAME");
    expect_fatal(&frame("{}{}"), "BAD_FRAME");
    expect_invalid(&format!("{{\"id\":\"x\",\"a\":{}", "[".repeat(200)), Some("x"));
    expect_invalid(&"{\"a\":".repeat(200), None);
}

#[test]
fn unsupported_version_is_fatal() {
    expect_fatal(
        &frame(r#"{"v":2,"type":"PONG","id":"x","ts":1,"payload":{}}"#),
        "UNSUPPORTED_VERSION",
    );
}

/// Another version may define other members, but `v` must be unique.
#[test]
fn version_is_checked_before_other_members() {
    for json in [r#"{"v":2,"type":"PONG","id":"x","id":"x"}"#, r#"{"v":2,"type":7}"#] {
        expect_fatal(&frame(json), "UNSUPPORTED_VERSION");
    }
    expect_fatal_first_frame(r#"{"v":2,"type":"HELLO","id":"x","to":7}"#, "UNSUPPORTED_VERSION");
    for versions in [r#""v":1,"v":2"#, r#""v":2,"v":1"#, r#""v":2,"v":2"#] {
        let json = format!(r#"{{{versions},"type":"PONG","id":"x","ts":1,"payload":{{}}}}"#);
        expect_invalid(&json, Some("x"));
    }
}

#[test]
fn good_frames_before_a_bad_one_are_answered_first() {
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        let good = r#"{"v":1,"type":"SEND","id":"m-1","ts":1,"to":"Nobody","payload":{}}"#;
        ann.send_bytes(&[frame(good), frame("nonsense")].concat());
        ann.expect_code("NACK", "UNKNOWN_AGENT");
        ann.expect_code("ERROR", "BAD_FRAME");
        ann.expect_end();
    });
}

/// Checks that after a handshake, `json` is answered by ERROR `INVALID` that names `reference`, and
/// that the connection continues.
#[track_caller]
fn expect_invalid(json: &str, reference: Option<&str>) {
    with_bystander(|sandbox| {
        let mut raw = sandbox.join("Ann");
        raw.send_text(json);
        let error = raw.expect_code("ERROR", "INVALID");
        assert_eq!(error["payload"]["fatal"], false);
        assert_eq!(error["payload"].get("ref").and_then(Value::as_str), reference, "{error}");
        assert_eq!(raw.drain(), Vec::<Value>::new());
    });
}

#[test]
fn missing_field_is_invalid() {
    expect_invalid(r#"{"type":"SEND","id":"x","ts":1,"payload":{}}"#, Some("x"));
    expect_invalid(r#"{"v":1,"id":"x","ts":1,"payload":{}}"#, Some("x"));
    expect_invalid(r#"{"v":1,"type":"SEND","ts":1,"payload":{}}"#, None);
    expect_invalid(r#"{"v":1,"type":"SEND","id":"x","payload":{}}"#, Some("x"));
    expect_invalid(r#"{"v":1,"type":"SEND","id":"x","ts":1}"#, Some("x"));
}

#[test]
fn field_of_the_wrong_kind_is_invalid() {
    expect_invalid(r#"{"v":1,"type":"SEND","id":"x","ts":"1","payload":{}}"#, Some("x"));
    expect_invalid(r#"{"v":1,"type":"SEND","id":"x","ts":1,"to":3,"payload":{}}"#, Some("x"));
    expect_invalid(r#"{"v":1,"type":"SEND","id":"x","ts":1,"to":"Bob","payload":[]}"#, Some("x"));
    expect_invalid(r#"{"v":1,"type":"ACK","id":"x","ts":1,"payload":{"ack_id":7}}"#, Some("x"));
    expect_invalid(r#"{"v":"1","type":"SEND","id":"x","ts":1,"payload":{}}"#, Some("x"));
    expect_invalid(r#"{"v":1,"type":7,"id":"x","ts":1,"payload":{}}"#, Some("x"));
    expect_invalid(r#"{"v":1,"type":"SEND","id":7,"ts":1,"payload":{}}"#, None);
    for member in ["from", "to", "topic", "payload_meta", "delivery"] {
        for value in ["7", "null"] {
            let json = format!(
                r#"{{"v":1,"type":"SEND","id":"x","ts":1,"to":"Ann","payload":{{}},"{member}":{value}}}"#
            );
            expect_invalid(
                &json.replacen(r#""to":"Ann","#, "", usize::from(member == "to")),
                Some("x"),
            );
        }
    }
}

#[test]
fn id_has_1_to_128_bytes() {
    let json = |id: &str| {
        format!(r#"{{"v":1,"type":"SEND","id":"{id}","ts":1,"to":"Zoe","payload":{{}}}}"#)
    };
    expect_invalid(&json(""), None);
    expect_invalid(&json(&"i".repeat(129)), None);
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        for id in ["m-001", " ", &"é".repeat(64)] {
            ann.send_text(&json(id));
            assert_eq!(ann.expect_code("NACK", "UNKNOWN_AGENT")["payload"]["ack_id"], id);
        }
    });
}

#[test]
fn repeated_header_field_is_invalid() {
    expect_invalid(
        r#"{"v":1,"type":"SEND","id":"x","ts":1,"to":"a","to":"b","payload":{}}"#,
        Some("x"),
    );
    expect_invalid(
        r#"{"v":1,"type":"SEND","id":"x","ts":1,"to":"a","\u0074o":"b","payload":{}}"#,
        Some("x"),
    );
}

#[test]
fn too_deep_nesting_is_invalid() {
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let json = |inner: &str| {
        format!(r#"{{"v":1,"type":"SEND","id":"x","ts":1,"to":"Ann","payload":{{"d":{inner}}}}}"#)
    };
    expect_invalid(&json(&deep), Some("x"));
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        ann.send_text(&json(&deep[1..deep.len() - 1]));
        let text = ann.receive_text().expect("the connection goes on");
        assert!(text.contains("\"type\":\"DELIVER\""), "{text}");
    });
}

#[test]
fn unordered_escaped_and_unknown_fields_are_accepted() {
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        ann.send_text(
            r#"  {"payload":{"body":"x"},"colour":{"a":[1,{}]},"to":"\u0041nn","ts":1e3,"id":"q\"1","type":"SEND","v":1} "#,
        );
        let deliver = ann.expect("DELIVER");
        assert_eq!(deliver["from"], "Ann");
        assert_ne!(deliver["id"], "q\"1", "a DELIVER's id is a new one");
    });
}

#[test]
fn payload_bytes_arrive_unchanged() {
    let payloads = [
        r#"{ "body" : "\u00e9\/\n" ,	"n": 1234567890123456789012345, "a":1,"a":2 }"#,
        r#"{"e":1e999,"neg":-0.0,"s":"\ud800","deep":[[[{"x":[]}]]]}"#,
        "{\"ü\":\"日本 \u{1f980} \u{7f}\"}",
        "{}",
        "{\r\n}",
    ];
    with_bystander(|sandbox| {
        let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
        for payload in payloads {
            let meta = payload.replace("body", "requires_Ack");
            let send = PRETTY.replace("PAYLOAD", payload);
            ann.send_text(
                &send.replace("\"payload\"", &format!("\"payload_meta\":{meta}, \"payload\"")),
            );
            let text = bob.receive_text().unwrap();
            assert!(text.contains(&format!("\"payload\":{payload}")), "{payload}\n{text}");
            assert!(text.contains(&format!("\"payload_meta\":{meta}")), "{meta}\n{text}");
        }
    });
}

/// Checks that a SEND with an invalid value is answered by NACK `code`.
#[track_caller]
fn expect_refused(send: Value, code: &str) {
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        let mut envelope = json!({"v": 1, "type": "SEND", "id": "x", "ts": 1, "payload": {}});
        envelope.as_object_mut().unwrap().extend(send.as_object().unwrap().clone());
        ann.send_json(&envelope);
        let nack = ann.expect_code("NACK", code);
        assert_eq!(nack["payload"]["ack_id"], "x");
        assert_eq!(ann.drain(), Vec::<Value>::new());
    });
}

#[test]
fn invalid_values_are_refused() {
    expect_refused(json!({"topic": "build.*"}), "INVALID");
    expect_refused(json!({"topic": "a..b"}), "INVALID");
    expect_refused(json!({"topic": "t".repeat(257)}), "INVALID");
    expect_refused(json!({}), "INVALID");
    expect_refused(json!({"to": "Bystander", "payload_meta": {"requires_ack": "yes"}}), "INVALID");
    expect_refused(json!({"to": "Bystander", "payload_meta": {"ttl_ms": -5}}), "INVALID");
    expect_refused(json!({"to": "Bystander", "payload_meta": {"sync": 1}}), "INVALID");
    for word in [String::new(), "c".repeat(257)] {
        let meta = json!({"sync": {"correlationId": word}});
        expect_refused(json!({"to": "Bystander", "payload_meta": meta}), "INVALID");
    }
}

#[test]
fn correlation_id_may_have_256_bytes() {
    with_bystander(|sandbox| {
        let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
        let word = "c".repeat(256);
        ann.send("Bob", "Well?", json!({"sync": {"correlationId": word}}));
        ann.expect("ACK");
        assert_eq!(bob.expect("DELIVER")["payload_meta"]["sync"]["correlationId"], word);
    });
}

#[test]
fn forged_sender_is_forbidden() {
    expect_refused(json!({"to": "Bystander", "from": "Bystander"}), "FORBIDDEN");
}

#[test]
fn names_ignore_case_and_a_topic_may_have_256_bytes() {
    with_bystander(|sandbox| {
        let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
        let topic = "t".repeat(256);
        ann.send_json(
            &json!({"v": 1, "type": "SEND", "id": "x", "ts": -7.5, "from": "aNN", "to": "bOB",
            "topic": topic, "payload": {}}),
        );
        let deliver = bob.expect("DELIVER");
        assert_eq!((&deliver["from"], &deliver["to"]), (&json!("Ann"), &json!("Bob")));
        assert_eq!(deliver["topic"], topic);
        assert!(deliver["ts"].as_u64().unwrap() > 1_600_000_000_000, "the daemon's clock");
        for to in ["", "a b", "root", "@nobody"] {
            ann.send(to, "x", json!({}));
            let code = if to.starts_with('@') { "UNKNOWN_AGENT" } else { "INVALID" };
            ann.expect_code("NACK", code);
        }
    });
}

#[test]
fn too_large_message_is_refused_for_each_recipient() {
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        let body = "x".repeat(1024 * 1024 - 200);
        ann.send("Bystander", &body, json!({}));
        ann.expect_code("NACK", "TOO_LARGE");
        ann.send("*", &body, json!({"requires_ack": true}));
        assert_eq!(ann.expect_code("NACK", "TOO_LARGE")["payload"]["to"], "Bystander");
        assert_eq!(ann.expect("ACK")["payload"]["recipients"], 0);
    });
}

#[test]
fn unknown_recipient_is_refused_with_known_names() {
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        ann.send("Nobody", "x", json!({}));
        let nack = ann.expect_code("NACK", "UNKNOWN_AGENT");
        assert!(nack["payload"]["message"].as_str().unwrap().contains("Bystander"), "{nack}");
    });
}

/// Checks that a first frame is answered by a fatal ERROR.
#[track_caller]
fn expect_fatal_first_frame(json: &str, code: &str) {
    with_bystander(|sandbox| {
        let mut raw = sandbox.connect();
        raw.send_text(json);
        assert_eq!(raw.expect_code("ERROR", code)["payload"]["fatal"], true);
        raw.expect_end();
    });
}

#[test]
fn first_frame_must_be_hello_or_resume() {
    for kind in ["SEND", "PONG", "BYE", "SHOUT"] {
        let json = format!(r#"{{"v":1,"type":"{kind}","id":"x","ts":1,"payload":{{}}}}"#);
        expect_fatal_first_frame(&json, "HANDSHAKE_REQUIRED");
    }
}

/// The type may come before or after the deep payload.
#[test]
fn too_deep_hello_is_invalid_and_other_first_frames_are_fatal() {
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let head = |kind: &str| format!(r#""v":1,"type":"{kind}","id":"x","ts":1"#);
    let payload = format!(r#""payload":{{"agent":"Ann","d":{deep}}}"#);
    with_bystander(|sandbox| {
        let mut raw = sandbox.connect();
        for kind in ["HELLO", "RESUME"] {
            for json in
                [format!("{{{},{payload}}}", head(kind)), format!("{{{payload},{}}}", head(kind))]
            {
                raw.send_text(&json);
                let error = raw.expect_code("ERROR", "INVALID")["payload"].take();
                assert_eq!((&error["fatal"], &error["ref"]), (&json!(false), &json!("x")));
            }
        }
        raw.hello("Ann");
    });
    expect_fatal_first_frame(&format!("{{{},{payload}}}", head("SEND")), "HANDSHAKE_REQUIRED");
}

#[test]
fn invalid_name_is_fatal() {
    for name in ["", "a b", "-a", "@relay", "*", "operator", "ROOT", &"n".repeat(65)] {
        let hello =
            json!({"v": 1, "type": "HELLO", "id": "x", "ts": 1, "payload": {"agent": name}});
        expect_fatal_first_frame(&hello.to_string(), "INVALID_NAME");
    }
}

#[test]
fn reserved_names_are_fatal_and_the_longest_name_is_not() {
    with_bystander(|sandbox| {
        for name in agent_relay::protocol::name::RESERVED {
            let mut raw = sandbox.connect();
            raw.send_json(&hello(json!({"agent": name})));
            raw.expect_code("ERROR", "INVALID_NAME");
            raw.expect_end();
        }
        for name in ["n".repeat(64), "a.b_c-9".to_owned()] {
            sandbox.join(&name);
        }
    });
}

fn hello(payload: Value) -> Value {
    json!({"v": 1, "type": "HELLO", "id": "h", "ts": 1, "payload": payload})
}

#[test]
fn invalid_hello_can_be_repeated() {
    with_bystander(|sandbox| {
        let mut raw = sandbox.connect();
        for wrong in [
            json!({}),
            json!({"agent": 7}),
            json!({"agent": "Ann", "mode": "king"}),
            json!({"agent": "Ann", "capabilities": {"max_inflight": -1}}),
            json!({"agent": "Ann", "capabilities": {"ack": "yes"}}),
        ] {
            raw.send_json(&hello(wrong));
            let error = raw.expect_code("ERROR", "INVALID");
            assert_eq!(
                (&error["payload"]["fatal"], &error["payload"]["ref"]),
                (&json!(false), &json!("h"))
            );
        }
        raw.send_text(r#"{"v":1,"type":"HELLO","id":"h","payload":{"agent":"Ann"}}"#);
        raw.expect_code("ERROR", "INVALID");
        raw.hello("Ann");
    });
}

#[test]
fn guest_sends_messages_and_is_in_no_broadcast_and_no_list() {
    let sandbox = Sandbox::new();
    let (mut ann, mut guest) = (sandbox.join("Ann"), sandbox.connect());
    guest.send_json(&hello(json!({"mode": "guest", "agent": "Ann"})));
    let name = guest.expect("WELCOME")["payload"]["agent"].as_str().unwrap().to_owned();
    let digits = name.strip_prefix("@guest-").unwrap();
    assert!(digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    guest.send("Ann", "a question", json!({"requires_ack": true}));
    guest.expect("ACK");
    let question = ann.expect("DELIVER");
    assert_eq!(
        (&question["from"], &question["delivery"]["sender"]["auth"]),
        (&json!(name), &json!("guest"))
    );
    ann.acknowledge(&question);
    ann.send(&name, "an answer", json!({}));
    assert_eq!(guest.expect("DELIVER")["payload"]["body"], "an answer");
    ann.send("*", "for agents", json!({"requires_ack": true}));
    assert_eq!(ann.expect("ACK")["payload"]["recipients"], 0);
    let names: Vec<_> = ann.agents().iter_mut().map(|row| row["name"].take()).collect();
    assert_eq!(names, ["Ann"]);
    assert_eq!(guest.drain(), Vec::<Value>::new());
}

#[test]
fn claim_of_a_name_in_use_only_pings_its_owner() {
    with_bystander(|sandbox| {
        let mut bob = sandbox.join("Bob");
        bob.answers_pings = false;
        let mut second = sandbox.connect();
        second.send_json(&hello(json!({"agent": "BOB"})));
        bob.expect("PING");
        second.expect_code("ERROR", "NAME_IN_USE");
        assert_eq!(bob.drain(), Vec::<Value>::new());
    });
}

/// A script that becomes another user, sends a frame, and prints the answer. The script exits with
/// 77 if it cannot become another user.
const OTHER_USER: &str = "
import os, socket, sys
try:
    os.setuid(65534)
except PermissionError:
    sys.exit(77)
with socket.socket(socket.AF_UNIX) as stream:
    stream.connect(sys.argv[1])
    said = sys.argv[2].encode()
    stream.sendall(len(said).to_bytes(4, 'big') + said)
    told = b''.join(iter(lambda: stream.recv(65536), b''))
sys.stdout.write(told[4:].decode())
";

/// The other user is refused even if the mode of the socket allows the connection.
#[test]
fn another_user_is_refused() {
    with_bystander(|sandbox| {
        let endpoint = sandbox.endpoint().as_text().to_owned();
        let mut open = sandbox.program("chmod");
        open.args(["a+rwx", sandbox.directory().to_str().unwrap(), &endpoint]);
        assert!(output(open).status.success());
        let mut other_user = sandbox.program("python3");
        other_user.args(["-c", OTHER_USER, &endpoint, &hello(json!({"agent": "Ann"})).to_string()]);
        let answer = output(other_user);
        if answer.status.code() == Some(77) {
            not_tried("only root can become another user");
            return;
        }
        let error: Value = serde_json::from_slice(&answer.stdout).expect("one frame, and the end");
        assert_eq!((&error["type"], &error["payload"]["fatal"]), (&json!("ERROR"), &json!(true)));
        assert_eq!(error["payload"]["code"], "UNAUTHORIZED");
        assert!(error["payload"]["message"].as_str().unwrap().contains("65534"), "{error}");
    });
}

#[test]
fn claims_without_proof_are_refused() {
    for mode in ["companion", "operator"] {
        let hello = json!({"v": 1, "type": "HELLO", "id": "x", "ts": 1, "payload": {"agent": "Ann", "mode": mode}});
        expect_fatal_first_frame(&hello.to_string(), "UNAUTHORIZED");
    }
    with_bystander(|sandbox| {
        let mut raw = sandbox.connect();
        raw.send_json(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 1, "payload": {"session_id": "s-1"}}));
        raw.expect_code("NACK", "UNAUTHORIZED");
        raw.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 1, "payload":
            {"agent": "Ann", "session": {"resume_token": "made up"}}}));
        let error = raw.expect_code("ERROR", "RESUME_REJECTED");
        assert_eq!(error["payload"]["fatal"], false);
        raw.expect("WELCOME");
    });
}

#[test]
fn welcome_states_what_is_granted() {
    with_bystander(|sandbox| {
        let mut raw = sandbox.connect();
        let welcome = raw.hello("Ann");
        assert!(welcome["session_id"].as_str().unwrap().starts_with("s-"));
        let token = welcome["resume_token"].as_str().unwrap();
        assert!(token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
        assert_ne!(
            sandbox.connect().hello("Bob")["resume_token"],
            token,
            "each client has its own token"
        );
        assert_eq!(welcome["agent"], "Ann");
        assert_eq!(
            welcome["capabilities"],
            json!({"ack": true, "resume": false, "max_inflight": 256, "supports_topics": true})
        );
        assert_eq!(welcome["server"]["protocol"], "1.1");
        assert_eq!(welcome["server"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(welcome["server"]["max_frame_bytes"], 1024 * 1024);
        assert_eq!(welcome["server"]["resume_window_ms"], 600_000);
        assert_eq!(welcome["server"]["queue_max_messages"], 10_000);
    });
    let mut without_config = Sandbox::empty();
    without_config.start();
    assert_eq!(without_config.connect().hello("Ann")["server"]["heartbeat_ms"], 5000);
}

#[test]
fn name_in_use_is_refused_in_any_case_until_its_owner_leaves() {
    with_bystander(|sandbox| {
        let bob = sandbox.join("Bob");
        let mut second = sandbox.connect();
        second.send_json(
            &json!({"v": 1, "type": "HELLO", "id": "h", "ts": 1, "payload": {"agent": "bob"}}),
        );
        second.expect_code("ERROR", "NAME_IN_USE");
        second.expect_end();
        bob.hang_up();
        let mut third = sandbox.connect();
        third.hello("BOB");
    });
}

#[test]
fn silent_connection_is_closed_before_the_handshake() {
    let sandbox = Sandbox::with_config("handshake_timeout_ms = 100\n");
    let mut raw = sandbox.connect();
    raw.expect_code("ERROR", "HANDSHAKE_TIMEOUT");
    raw.expect_end();
}

#[test]
fn silent_client_is_pinged_and_closed() {
    let sandbox = Sandbox::with_config("heartbeat_ms = 100\n");
    let mut raw = sandbox.join("Ann");
    raw.answers_pings = false;
    let ping = raw.expect("PING");
    assert!(!ping["payload"]["nonce"].as_str().unwrap().is_empty());
    raw.expect_code("ERROR", "HEARTBEAT_TIMEOUT");
    raw.expect_end();
}

#[test]
fn newest_connection_replaces_the_oldest_without_a_handshake() {
    with_bystander(|sandbox| {
        let mut oldest = sandbox.connect();
        let others: Vec<Raw> = (0..256).map(|_| sandbox.connect()).collect();
        oldest.expect_code("ERROR", "TOO_MANY_CLIENTS");
        oldest.expect_end();
        drop(others);
    });
}

#[test]
fn frame_may_arrive_in_single_bytes() {
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        for byte in frame(r#"{"v":1,"type":"SEND","id":"m","ts":1,"to":"Ann","payload":{}}"#) {
            ann.send_bytes(&[byte]);
        }
        ann.expect("DELIVER");
    });
}

#[test]
fn partial_frames_are_bounded_over_all_connections() {
    let sandbox = Sandbox::with_config("memory_max_bytes = 16777216\n");
    let mut bystander = sandbox.join("Bystander");
    let mut half = 1_000_000_u32.to_be_bytes().to_vec();
    half.resize(900_000, b' ');
    let mut greedy: Vec<Raw> = (0..16).map(|_| sandbox.connect()).collect();
    for raw in &mut greedy {
        raw.try_send_bytes(&half);
    }
    let refused = greedy.iter_mut().filter_map(|raw| {
        raw.try_send_bytes(&[b' '; 1_000_000 + 4 - 900_000]);
        let mut error = raw.receive()?;
        Some(error["payload"]["code"].take())
    });
    let refused: Vec<_> = refused.collect();
    assert!(refused.iter().any(|code| code == "TOO_MANY_CLIENTS"), "{refused:?}");
    assert!(refused.iter().any(|code| code == "BAD_FRAME"), "{refused:?}");
    bystander.send("Bystander", "still here", json!({}));
    bystander.expect("DELIVER");
}

#[test]
fn bye_ends_the_connection() {
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        ann.send_json(
            &json!({"v": 1, "type": "BYE", "id": "b", "ts": 1, "payload": {"reason": "done"}}),
        );
        ann.expect_end();
    });
}

#[test]
fn subscription_pattern_receives_matching_topics() {
    with_bystander(|sandbox| {
        let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
        let subscribe = |kind: &str, topic: &str| json!({"v": 1, "type": kind, "id": topic, "ts": 1, "topic": topic, "payload": {}});
        bob.send_json(&subscribe("SUBSCRIBE", "build.>"));
        assert_eq!(bob.expect("ACK")["payload"]["ack_id"], "build.>");
        bob.send_json(&subscribe("SUBSCRIBE", "a.>.b"));
        bob.expect_code("NACK", "INVALID");
        let on_topic = json!({"v": 1, "type": "SEND", "id": "t", "ts": 1, "topic": "build.x",
            "payload": {"body": "green"}, "payload_meta": {"requires_ack": true}});
        ann.send_json(&on_topic);
        let accepted = ann.expect("ACK");
        assert_eq!(accepted["payload"]["recipients"], 1);
        assert_eq!(accepted["payload"]["durability"], "disk");
        let deliver = bob.expect("DELIVER");
        assert_eq!((&deliver["topic"], &deliver["to"]), (&json!("build.x"), &json!("Bob")));
        assert_eq!(deliver["delivery"]["originalTo"], "*");
        assert_eq!(deliver["delivery"]["requires_ack"], true);
        assert_eq!(deliver["delivery"]["sender"]["auth"], "claim");
        bob.acknowledge(&deliver);
        bob.send_json(&subscribe("UNSUBSCRIBE", "build.>"));
        bob.expect("ACK");
        ann.send_json(&on_topic);
        assert_eq!(ann.expect("ACK")["payload"]["recipients"], 1, "the same id: the same answer");
    });
}

#[test]
fn messages_of_one_sender_arrive_in_order() {
    with_bystander(|sandbox| {
        let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
        bob.send_json(
            &json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 1, "topic": "t", "payload": {}}),
        );
        bob.expect("ACK");
        ann.send_json(&json!({"v": 1, "type": "SEND", "id": "0", "ts": 1, "topic": "t", "payload": {"body": "0"}}));
        for number in 1..50 {
            ann.send_json(
                &json!({"v": 1, "type": "SEND", "id": number.to_string(), "ts": 1, "to": "Bob",
                "topic": "t", "payload": {"body": number.to_string()},
                "payload_meta": {"requires_ack": number % 3 == 0}}),
            );
        }
        for number in 0..50 {
            let deliver = bob.expect("DELIVER");
            assert_eq!(deliver["payload"]["body"], number.to_string());
            assert_eq!(deliver["delivery"]["seq"], number + 1);
        }
    });
}
