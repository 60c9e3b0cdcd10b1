//! The protocol through a real socket: what a daemon answers to good frames and to bad ones.
//!
//! Each line of docs/PROTOCOL.md on frames, envelopes, handshake and identity has its test here. A
//! bystander is in every one of them: whatever somebody else does, it notices nothing.

use crate::{raw::Raw, sandbox::Sandbox};
use serde_json::{Value, json};

const PRETTY: &str =
    r#"{ "v" : 1, "type":"SEND" ,"id":"m","ts":1, "to":"Bob", "payload":PAYLOAD }"#;

/// Runs a test beside a bystander, who can still talk to itself afterwards, with the daemon up.
#[track_caller]
fn beside_a_bystander(test: impl FnOnce(&Sandbox)) {
    let mut sandbox = Sandbox::new();
    let mut bystander = sandbox.join("Bystander");
    test(&sandbox);
    bystander.send("Bystander", "still here", json!({}));
    let mut heard = vec![];
    while heard.last().is_none_or(|last: &Value| last["type"] != "DELIVER") {
        heard.push(bystander.hear().expect("the bystander is still connected"));
    }
    assert_eq!(heard.len(), 1, "a bystander notices nothing: {heard:?}");
    assert!(sandbox.is_up());
}

/// After a good handshake, `bytes` are answered by a fatal ERROR with `code`, then the end.
#[track_caller]
fn is_fatal(bytes: &[u8], code: &str) {
    beside_a_bystander(|sandbox| {
        let mut raw = sandbox.join("Ann");
        raw.say_bytes(bytes);
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
fn an_empty_frame_is_fatal() {
    is_fatal(&[0, 0, 0, 0], "BAD_FRAME");
}

#[test]
fn a_frame_that_is_not_utf8_is_fatal() {
    is_fatal(&[0, 0, 0, 4, b'{', 0xff, 0xfe, b'}'], "BAD_FRAME");
}

#[test]
fn a_frame_that_is_not_json_is_fatal() {
    is_fatal(&frame("{\"v\":1,"), "BAD_FRAME");
}

#[test]
fn a_frame_that_is_no_object_is_fatal() {
    is_fatal(&frame("[1,2]"), "BAD_FRAME");
}

#[test]
fn bytes_around_the_object_are_fatal() {
    is_fatal(&frame("{} x"), "BAD_FRAME");
}

#[test]
fn a_length_over_the_limit_is_fatal_before_its_bytes_come() {
    is_fatal(&(1024 * 1024 + 1_u32).to_be_bytes(), "FRAME_TOO_LARGE");
    is_fatal(&u32::MAX.to_be_bytes(), "FRAME_TOO_LARGE");
}

#[test]
fn another_version_is_fatal() {
    is_fatal(
        &frame(r#"{"v":2,"type":"PONG","id":"x","ts":1,"payload":{}}"#),
        "UNSUPPORTED_VERSION",
    );
}

#[test]
fn good_frames_before_a_bad_one_are_answered_first() {
    beside_a_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        let good = r#"{"v":1,"type":"SEND","id":"m-1","ts":1,"to":"Nobody","payload":{}}"#;
        ann.say_bytes(&[frame(good), frame("nonsense")].concat());
        ann.expect_code("NACK", "UNKNOWN_AGENT");
        ann.expect_code("ERROR", "BAD_FRAME");
        ann.expect_end();
    });
}

/// After a good handshake, `json` is answered by ERROR `INVALID` that names `reference`, and the
/// connection goes on.
#[track_caller]
fn is_invalid(json: &str, reference: Option<&str>) {
    beside_a_bystander(|sandbox| {
        let mut raw = sandbox.join("Ann");
        raw.say_text(json);
        let error = raw.expect_code("ERROR", "INVALID");
        assert_eq!(error["payload"]["fatal"], false);
        assert_eq!(error["payload"].get("ref").and_then(Value::as_str), reference, "{error}");
        assert_eq!(raw.fence(), Vec::<Value>::new());
    });
}

#[test]
fn an_unknown_type_is_invalid() {
    is_invalid(r#"{"v":1,"type":"SHOUT","id":"x","ts":1,"payload":{}}"#, Some("x"));
}

#[test]
fn a_missing_field_is_invalid() {
    is_invalid(r#"{"type":"SEND","id":"x","ts":1,"payload":{}}"#, Some("x"));
    is_invalid(r#"{"v":1,"type":"SEND","ts":1,"payload":{}}"#, None);
    is_invalid(r#"{"v":1,"type":"SEND","id":"x","payload":{}}"#, Some("x"));
    is_invalid(r#"{"v":1,"type":"SEND","id":"x","ts":1}"#, Some("x"));
}

#[test]
fn a_field_of_the_wrong_kind_is_invalid() {
    is_invalid(r#"{"v":1,"type":"SEND","id":"x","ts":"1","payload":{}}"#, Some("x"));
    is_invalid(r#"{"v":1,"type":"SEND","id":"x","ts":1,"to":3,"payload":{}}"#, Some("x"));
    is_invalid(r#"{"v":1,"type":"SEND","id":"x","ts":1,"to":"Bob","payload":[]}"#, Some("x"));
    is_invalid(r#"{"v":1,"type":"ACK","id":"x","ts":1,"payload":{"ack_id":7}}"#, Some("x"));
}

#[test]
fn a_header_field_given_twice_is_invalid() {
    is_invalid(
        r#"{"v":1,"type":"SEND","id":"x","ts":1,"to":"a","to":"b","payload":{}}"#,
        Some("x"),
    );
}

#[test]
fn nesting_too_deep_is_invalid() {
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let json = |inner: &str| {
        format!(r#"{{"v":1,"type":"SEND","id":"x","ts":1,"to":"Ann","payload":{{"d":{inner}}}}}"#)
    };
    is_invalid(&json(&deep), Some("x"));
    beside_a_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        ann.say_text(&json(&deep[1..deep.len() - 1]));
        let text = ann.hear_text().expect("the connection goes on");
        assert!(text.contains("\"type\":\"DELIVER\""), "{text}");
    });
}

#[test]
fn a_second_hello_is_invalid() {
    is_invalid(r#"{"v":1,"type":"HELLO","id":"x","ts":1,"payload":{"agent":"Ann"}}"#, Some("x"));
}

#[test]
fn fields_come_in_any_order_with_escapes_and_unknown_ones() {
    beside_a_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        ann.say_text(
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
    beside_a_bystander(|sandbox| {
        let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
        for payload in payloads {
            let meta = payload.replace("body", "requires_Ack");
            let send = PRETTY.replace("PAYLOAD", payload);
            ann.say_text(
                &send.replace("\"payload\"", &format!("\"payload_meta\":{meta}, \"payload\"")),
            );
            let text = bob.hear_text().unwrap();
            assert!(text.contains(&format!("\"payload\":{payload}")), "{payload}\n{text}");
            assert!(text.contains(&format!("\"payload_meta\":{meta}")), "{meta}\n{text}");
        }
    });
}

/// A good SEND with a value that isn't allowed gets NACK `code`.
#[track_caller]
fn is_refused(send: Value, code: &str) {
    beside_a_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        let mut envelope = json!({"v": 1, "type": "SEND", "id": "x", "ts": 1, "payload": {}});
        envelope.as_object_mut().unwrap().extend(send.as_object().unwrap().clone());
        ann.say(&envelope);
        let nack = ann.expect_code("NACK", code);
        assert_eq!(nack["payload"]["ack_id"], "x");
        assert_eq!(ann.fence(), Vec::<Value>::new());
    });
}

#[test]
fn values_that_are_not_allowed_are_refused() {
    is_refused(json!({"topic": "build.*"}), "INVALID");
    is_refused(json!({"topic": "a..b"}), "INVALID");
    is_refused(json!({"topic": "t".repeat(257)}), "INVALID");
    is_refused(json!({}), "INVALID");
    is_refused(json!({"to": "Bystander", "payload_meta": {"requires_ack": "yes"}}), "INVALID");
    is_refused(json!({"to": "Bystander", "payload_meta": {"ttl_ms": -5}}), "INVALID");
    is_refused(json!({"to": "Bystander", "payload_meta": {"sync": 1}}), "INVALID");
}

#[test]
fn nobody_speaks_in_anothers_name() {
    is_refused(json!({"to": "Bystander", "from": "Bystander"}), "FORBIDDEN");
}

#[test]
fn who_was_never_here_is_unknown_and_those_here_are_named() {
    beside_a_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        ann.send("Nobody", "x", json!({}));
        let nack = ann.expect_code("NACK", "UNKNOWN_AGENT");
        assert!(nack["payload"]["message"].as_str().unwrap().contains("Bystander"), "{nack}");
    });
}

/// The first frame is answered by a fatal ERROR.
#[track_caller]
fn first_is_fatal(json: &str, code: &str) {
    beside_a_bystander(|sandbox| {
        let mut raw = sandbox.connect();
        raw.say_text(json);
        assert_eq!(raw.expect_code("ERROR", code)["payload"]["fatal"], true);
        raw.expect_end();
    });
}

#[test]
fn the_first_frame_is_hello_or_resume() {
    for kind in ["SEND", "PONG", "BYE", "SHOUT"] {
        let json = format!(r#"{{"v":1,"type":"{kind}","id":"x","ts":1,"payload":{{}}}}"#);
        first_is_fatal(&json, "HANDSHAKE_REQUIRED");
    }
}

#[test]
fn a_name_that_cannot_be_had_is_fatal() {
    for name in ["", "a b", "-a", "@relay", "*", "operator", "ROOT", &"n".repeat(65)] {
        let hello =
            json!({"v": 1, "type": "HELLO", "id": "x", "ts": 1, "payload": {"agent": name}});
        first_is_fatal(&hello.to_string(), "INVALID_NAME");
    }
}

#[test]
fn what_comes_later_says_so() {
    for mode in ["companion", "operator"] {
        let hello = json!({"v": 1, "type": "HELLO", "id": "x", "ts": 1, "payload": {"agent": "Ann", "mode": mode}});
        first_is_fatal(&hello.to_string(), "UNAUTHORIZED");
    }
    beside_a_bystander(|sandbox| {
        let mut raw = sandbox.connect();
        raw.say(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 1, "payload": {"session_id": "s-1"}}));
        raw.expect_code("NACK", "UNAUTHORIZED");
        raw.say(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 1, "payload":
            {"agent": "Ann", "session": {"resume_token": "made up"}}}));
        let error = raw.expect_code("ERROR", "RESUME_REJECTED");
        assert_eq!(error["payload"]["fatal"], false);
        raw.expect("WELCOME");
    });
}

#[test]
fn welcome_says_what_was_granted() {
    beside_a_bystander(|sandbox| {
        let mut raw = sandbox.connect();
        let welcome = raw.hello("Ann");
        assert!(welcome["session_id"].as_str().unwrap().starts_with("s-"));
        assert!(welcome["resume_token"].as_str().unwrap().len() >= 32);
        assert_eq!(welcome["agent"], "Ann");
        assert_eq!(
            welcome["capabilities"],
            json!({"ack": true, "resume": false, "max_inflight": 256, "supports_topics": true})
        );
        assert_eq!(welcome["server"]["protocol"], "1.1");
        assert_eq!(welcome["server"]["max_frame_bytes"], 1024 * 1024);
        assert_eq!(welcome["server"]["heartbeat_ms"], 5000);
        assert_eq!(welcome["server"]["resume_window_ms"], 600_000);
        assert_eq!(welcome["server"]["queue_max_messages"], 10_000);
    });
}

#[test]
fn a_name_in_use_is_refused_in_any_case_and_free_again_afterwards() {
    beside_a_bystander(|sandbox| {
        let bob = sandbox.join("Bob");
        let mut second = sandbox.connect();
        second.say(
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
fn silence_before_the_handshake_ends_it() {
    let sandbox = Sandbox::with_config("handshake_timeout_ms = 100\n");
    let mut raw = sandbox.connect();
    raw.expect_code("ERROR", "HANDSHAKE_TIMEOUT");
    raw.expect_end();
}

#[test]
fn silence_after_it_is_asked_about_and_then_ends_it() {
    let sandbox = Sandbox::with_config("heartbeat_ms = 100\n");
    let mut raw = sandbox.join("Ann");
    raw.answers_pings = false;
    let ping = raw.expect("PING");
    assert!(!ping["payload"]["nonce"].as_str().unwrap().is_empty());
    raw.expect_code("ERROR", "HEARTBEAT_TIMEOUT");
    raw.expect_end();
}

#[test]
fn a_newcomer_takes_the_place_of_the_oldest_without_a_handshake() {
    beside_a_bystander(|sandbox| {
        let mut oldest = sandbox.connect();
        let others: Vec<Raw> = (0..256).map(|_| sandbox.connect()).collect();
        oldest.expect_code("ERROR", "TOO_MANY_CLIENTS");
        oldest.expect_end();
        drop(others);
    });
}

#[test]
fn a_frame_in_single_bytes_is_a_frame() {
    beside_a_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        for byte in frame(r#"{"v":1,"type":"SEND","id":"m","ts":1,"to":"Ann","payload":{}}"#) {
            ann.say_bytes(&[byte]);
        }
        ann.expect("DELIVER");
    });
}

#[test]
fn bye_ends_the_connection() {
    beside_a_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        ann.say(&json!({"v": 1, "type": "BYE", "id": "b", "ts": 1, "payload": {"reason": "done"}}));
        ann.expect_end();
    });
}

#[test]
fn topics_are_subscribed_to_by_pattern() {
    beside_a_bystander(|sandbox| {
        let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
        let subscribe = |kind: &str, topic: &str| json!({"v": 1, "type": kind, "id": topic, "ts": 1, "topic": topic, "payload": {}});
        bob.say(&subscribe("SUBSCRIBE", "build.>"));
        assert_eq!(bob.expect("ACK")["payload"]["ack_id"], "build.>");
        bob.say(&subscribe("SUBSCRIBE", "a.>.b"));
        bob.expect_code("NACK", "INVALID");
        let on_topic = json!({"v": 1, "type": "SEND", "id": "t", "ts": 1, "topic": "build.x",
            "payload": {"body": "green"}, "payload_meta": {"requires_ack": true}});
        ann.say(&on_topic);
        let accepted = ann.expect("ACK");
        assert_eq!(accepted["payload"]["recipients"], 1);
        assert_eq!(accepted["payload"]["durability"], "memory");
        let deliver = bob.expect("DELIVER");
        assert_eq!((&deliver["topic"], &deliver["to"]), (&json!("build.x"), &json!("Bob")));
        assert_eq!(deliver["delivery"]["originalTo"], "*");
        assert_eq!(deliver["delivery"]["requires_ack"], true);
        assert_eq!(deliver["delivery"]["sender"]["auth"], "claim");
        bob.acknowledge(&deliver);
        bob.say(&subscribe("UNSUBSCRIBE", "build.>"));
        bob.expect("ACK");
        ann.say(&on_topic);
        assert_eq!(ann.expect("ACK")["payload"]["recipients"], 1, "the same id: the same answer");
    });
}

#[test]
fn what_is_not_acknowledged_comes_again_to_the_next_of_the_name() {
    beside_a_bystander(|sandbox| {
        let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
        ann.send("Bob", "keep this", json!({"requires_ack": true}));
        ann.expect("ACK");
        let first = bob.expect("DELIVER");
        bob.hang_up();
        let mut bob = sandbox.connect();
        bob.hello("Bob");
        let second = bob.expect("DELIVER");
        assert_eq!(
            (&second["id"], &second["delivery"]["seq"]),
            (&first["id"], &first["delivery"]["seq"])
        );
        assert_eq!(second["delivery"]["attempt"], 2);
        bob.acknowledge(&second);
        assert_eq!(bob.fence(), Vec::<Value>::new());
    });
}
