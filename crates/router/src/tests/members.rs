//! Members of the wrong kind: the error names the member and none of this program's types.

use super::script::run;
use serde_json::{Value, json};

/// A frame with the kinds of its members.
struct Shape {
    example: Value,
    /// The JSON pointer to the object with the members.
    at: &'static str,
    members: &'static [(&'static str, Kind)],
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Flag,
    Number,
    Whole,
    Object,
    Streams,
}

impl Kind {
    /// Returns the kind in the words of an error.
    const fn in_words(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Flag => "a boolean",
            Self::Number => "a number",
            Self::Whole => "a whole number from 0 to 18446744073709551615, in digits",
            Self::Object => "an object",
            Self::Streams => "an object or a list",
        }
    }

    /// Whether a value is of this kind.
    fn takes(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Whole => value.is_u64(),
            Self::Object => value.is_object(),
            Self::Streams => value.is_object() || value.is_array(),
        }
    }
}

use Kind::{Flag, Number, Object, Streams, Text, Whole};

const HEADER: &[(&str, Kind)] = &[
    ("v", Number),
    ("type", Text),
    ("id", Text),
    ("ts", Number),
    ("from", Text),
    ("to", Text),
    ("topic", Text),
    ("payload", Object),
    ("payload_meta", Object),
    ("delivery", Object),
];

const HELLO: &[(&str, Kind)] = &[
    ("agent", Text),
    ("capabilities", Object),
    ("capabilities.ack", Flag),
    ("capabilities.resume", Flag),
    ("capabilities.max_inflight", Whole),
    ("capabilities.supports_topics", Flag),
    ("session", Object),
    ("session.resume_token", Text),
    ("mode", Text),
    ("auth", Object),
    ("auth.key", Text),
    ("companion_key", Text),
    ("program", Text),
    ("directory", Text),
];

const META: &[(&str, Kind)] = &[
    ("requires_ack", Flag),
    ("ttl_ms", Whole),
    ("sync", Object),
    ("sync.correlationId", Text),
    ("sync.timeoutMs", Whole),
    ("sync.blocking", Flag),
];

const ACK: &[(&str, Kind)] = &[
    ("ack_id", Text),
    ("seq", Whole),
    ("cumulative_seq", Whole),
    ("correlationId", Text),
    ("response", Flag),
];

const NACK: &[(&str, Kind)] =
    &[("ack_id", Text), ("code", Text), ("message", Text), ("retry_after_ms", Whole)];

const RESUME: &[(&str, Kind)] = &[
    ("session_id", Text),
    ("agent", Text),
    ("resume_token", Text),
    ("streams", Streams),
    ("streams.chat", Object),
    ("streams.chat.last_seq", Whole),
];

/// The members of a first RESUME that are read before its token is known to be good.
const FIRST_RESUME: &[(&str, Kind)] = &[("agent", Text), ("resume_token", Text)];

const RESUME_LIST: &[(&str, Kind)] = &[
    ("streams[1]", Object),
    ("streams[1].topic", Text),
    ("streams[1].peer", Text),
    ("streams[1].last_seq", Whole),
];

const PAGE: &[(&str, Kind)] = &[("cursor", Text), ("limit", Whole)];

/// The requests to `@relay` that take data.
const REQUESTS: &[(&str, &[(&str, Kind)])] = &[
    ("agents", PAGE),
    ("dead-letters", PAGE),
    ("message", &[("id", Text), ("offset", Whole)]),
    ("message", PAGE),
    ("inbox", &[("of", Text)]),
    ("inbox", PAGE),
    ("history", &[("of", Text), ("with", Text), ("topic", Text), ("search", Text)]),
    ("history", &[("dead", Flag)]),
    ("history", PAGE),
    ("redeliver", &[("id", Text)]),
    ("rename", &[("name", Text), ("new_name", Text)]),
    ("report", &[("id", Text), ("state", Text), ("why", Text)]),
    ("activity", &[("activity", Text), ("source", Text), ("for_ms", Whole), ("unseen", Flag)]),
    ("stop", &[("reason", Text)]),
];

fn envelope(kind: &str, payload: Value) -> Value {
    json!({"v": 1, "type": kind, "id": "i", "ts": 1, "payload": payload})
}

/// The frames of an agent that has joined.
fn shapes() -> Vec<Shape> {
    let of = |kind: &str, payload: Value, members| Shape {
        example: envelope(kind, payload),
        at: "/payload",
        members,
    };
    let place = json!({"topic": "", "peer": "Bob", "last_seq": 0});
    let mut send = envelope("SEND", json!({}));
    send["to"] = json!("Bob");
    let mut asking = send.clone();
    asking["payload_meta"] = json!({"sync": {"correlationId": "c"}});
    vec![
        Shape { example: send, at: "", members: HEADER },
        Shape { example: asking, at: "/payload_meta", members: META },
        of("ACK", json!({"ack_id": "d"}), ACK),
        of("NACK", json!({"ack_id": "d"}), NACK),
        of("PONG", json!({"nonce": "n"}), &[("nonce", Text)]),
        of("BYE", json!({}), &[("reason", Text), ("retry_after_ms", Whole)]),
        of("RESUME", json!({"streams": {"chat": {"last_seq": 0}}}), RESUME),
        of("RESUME", json!({"streams": [place, place]}), RESUME_LIST),
    ]
}

/// The requests of an operator.
fn requests() -> Vec<Shape> {
    let request = |body: &str, data: Value| {
        let mut request = envelope("SEND", json!({"kind": "request", "body": body, "data": data}));
        request["to"] = json!("@relay");
        request
    };
    let spoken: &[(&str, Kind)] = &[("kind", Text), ("body", Text)];
    let status = request("status", json!({}));
    let mut shapes = vec![Shape { example: status, at: "/payload", members: spoken }];
    for (body, members) in REQUESTS {
        let data = json!({"id": "d", "state": "injected"});
        shapes.push(Shape { example: request(body, data), at: "/payload/data", members });
    }
    shapes
}

/// Returns values of every kind, and some that are nearly a whole number.
fn values() -> [Value; 11] {
    [
        Value::Null,
        json!(true),
        json!("x"),
        json!("5"),
        json!(-1),
        json!(1.5),
        json!(1e3),
        json!(1e30),
        json!(7),
        json!([]),
        json!({}),
    ]
}

/// Returns the example with another value for a member.
fn with(shape: &Shape, member: &str, value: &Value) -> Value {
    let mut frame = shape.example.clone();
    let mut place = frame.pointer_mut(shape.at).unwrap();
    for name in member.replace('[', ".").replace(']', "").split('.') {
        place = match place {
            Value::Array(list) => &mut list[name.parse::<usize>().unwrap()],
            other => &mut other[name],
        };
    }
    *place = value.clone();
    frame
}

/// Returns the answers to each of these frames.
fn answers(script: &str, who: &str, frames: &[Value]) -> Vec<String> {
    let lines: Vec<_> = frames.iter().map(|frame| format!("{who} raw {frame}\n")).collect();
    let transcript = run(&(script.to_owned() + &lines.concat()));
    let line = format!("{who} raw ");
    let mut said: Vec<String> = Vec::new();
    for text in transcript.lines() {
        match said.last_mut() {
            _ if text.starts_with(&line) => said.push(String::new()),
            Some(last) => *last = format!("{last}{}\n", text.trim_start()),
            None => {}
        }
    }
    assert_eq!(said.len(), frames.len());
    said
}

/// Checks that an error names neither Rust's types nor places in the JSON text.
#[track_caller]
fn check_words(said: &str) {
    for ours in ["struct ", "enum ", "u64", "usize", "u32", "i64", "untagged", "variant", "field"] {
        assert!(!said.contains(ours), "{ours:?} in {said}");
    }
    assert!(!said.contains(" at line ") && !said.contains("column"), "{said}");
}

/// Checks the error for each member with each value of another kind.
fn check_all(script: &str, who: &str, shapes: &[Shape]) {
    for shape in shapes {
        for (member, kind) in shape.members {
            let wrong: Vec<_> = values().into_iter().filter(|value| !kind.takes(value)).collect();
            let frames: Vec<_> = wrong.iter().map(|value| with(shape, member, value)).collect();
            for (said, frame) in answers(script, who, &frames).iter().zip(&frames) {
                assert_eq!(said.lines().count(), 1, "{frame}: {said}");
                assert!(said.contains(r#""code":"INVALID""#), "{frame}: {said}");
                let words = format!("`{member}` is not {}\"", kind.in_words());
                assert!(said.contains(&words), "{words:?}, {frame}: {said}");
                check_words(said);
            }
        }
    }
}

#[test]
fn member_of_the_wrong_kind_is_named() {
    check_all("here: bob ann\n", "ann", &shapes());
    check_all("here: op\n", "op", &requests());
}

#[test]
fn member_of_the_wrong_kind_is_named_in_the_first_frame() {
    let hello = json!({"agent": "Ann", "capabilities": {}, "session": {}, "auth": {}});
    let first = |kind: &str, payload: Value, members| Shape {
        example: envelope(kind, payload),
        at: "/payload",
        members,
    };
    let resume = json!({"resume_token": "t", "streams": {"chat": {"last_seq": 0}}});
    let shapes = [first("HELLO", hello, HELLO), first("RESUME", resume, FIRST_RESUME)];
    check_all("ann connects\n", "ann", &shapes);
}

#[test]
fn missing_or_repeated_member_is_named() {
    let raw = |kind: &str, payload: &str| {
        format!(r#"ann raw {{"v":1,"type":"{kind}","id":"i","ts":1,"payload":{payload}}}"#)
    };
    let send = |meta: &str| {
        format!(
            r#"ann raw {{"v":1,"type":"SEND","id":"i","ts":1,"to":"Bob","payload":{{}},"payload_meta":{meta}}}"#
        )
    };
    let ask = |body: &str, data: &str| format!("ann asks {body} {data}");
    for (line, words) in [
        (raw("ACK", "{}"), "ACK: there is no `ack_id`"),
        (raw("PONG", "{}"), "PONG: there is no `nonce`"),
        (raw("ACK", r#"{"ack_id":"a","ack_id":"a"}"#), "ACK: `ack_id` is given twice"),
        (
            raw("RESUME", r#"{"streams":{"a b":{}}}"#),
            r#"RESUME: there is no `streams["a b"].last_seq`"#,
        ),
        (raw("RESUME", r#"{"streams":[{}]}"#), "RESUME: there is no `streams[0].topic`"),
        (raw("PONG", r#"{"nonce":"\ud800"}"#), "PONG: `nonce` is not Unicode text"),
        (send(r#"{"sync":{}}"#), "SEND: there is no `sync.correlationId`"),
        (send(r#"{"ttl_ms":1e999}"#), "SEND: `ttl_ms` is not a whole number"),
        (send(r#"{"ttl_ms":-0}"#), "SEND: `ttl_ms` is not a whole number"),
        (send(r#"{"ttl_ms":1,"ttl_ms":1}"#), "SEND: `ttl_ms` is given twice"),
        (ask("message", "{}"), r#"the data of "message": there is no `id`"#),
        (ask("report", r#"{"id":"d1"}"#), r#"the data of "report": there is no `state`"#),
        (
            ask("activity", r#"{"activity":"idle","source":"hooks"}"#),
            r#"the data of "activity": there is no `for_ms`"#,
        ),
        (ask("agents", "[]"), r#"the data of "agents": it is not an object"#),
    ] {
        let said = run(&format!("here: ann bob\n{line}"));
        let said = said.lines().last().unwrap();
        let inside = serde_json::to_string(words).unwrap();
        assert!(said.contains(inside.trim_matches('"')), "{words:?}: {said}");
        check_words(said);
    }
}

#[test]
fn member_of_any_kind_accepts_null() {
    let mut ack = envelope("ACK", json!({"ack_id": "d", "responseData": null}));
    let mut status = envelope("SEND", json!({"kind": "request", "body": "agents", "data": null}));
    (ack["from"], status["to"]) = (json!("Ann"), json!("@relay"));
    let said = answers("here: ann\n", "ann", &[ack, status]);
    assert_eq!(said[0], "");
    assert!(said[1].contains(r#""kind":"response""#), "{}", said[1]);
}

#[test]
fn error_does_not_repeat_secrets() {
    let script = r#"
        ann connects
        ann says HELLO {"agent":"Ann","auth":"planted-key"}
        ann says HELLO {"agent":"Ann","auth":{"key":["planted-key"]}}
    "#;
    let said = run(script);
    let said: Vec<_> = said.lines().filter(|line| line.starts_with("    ")).collect();
    assert!(said.len() == 2 && said.iter().all(|line| !line.contains("planted")), "{said:?}");
}
