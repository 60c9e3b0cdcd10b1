//! Transcript tests of the session.

mod questions;
mod resume;
mod script;

use self::script::{Script, WELCOME, resumable_welcome};
use super::*;
use expect_test::{Expect, expect};

#[track_caller]
fn check(expect: Expect) {
    Script::joined().check(expect);
}

#[test]
fn hello_then_ready_then_bye() {
    Script::new(1, None).check(expect![[r#"
        start
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #1 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true}}
        welcome
          ready s-1
        daemon> PING {"nonce":"n"}
          > PONG #2 {"nonce":"n"}
        close
          > BYE #3 {"reason":"done"}
          Close
          State(Disconnected)
          Ended(Closed)
    "#]]);
}

#[test]
fn cycle_of_ten_attempts_ends_with_an_error() {
    Script::joined().check(expect![[r#"
        pass 20000
        gone
          HangUp
          State(Backoff { wait_ms: 88, why: "the stream ended" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 184, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 398, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 733, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 1577, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 3059, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 6924, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 14707, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 27622, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 25920, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        wait
          HangUp
          State(Disconnected)
          Ended(GaveUp { attempts: 10, why: "the daemon did not send WELCOME within 10 s: if its process is suspended, continue or end it", last: Other })
    "#]]);
}

#[test]
fn first_join_makes_the_stated_number_of_attempts() {
    Script::new(2, Some(30_000)).check(expect![[r#"
        start
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 113, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Disconnected)
          Ended(GaveUp { attempts: 2, why: "nobody there", last: NoListener })
    "#]]);
}

#[test]
fn new_cycle_begins_after_the_stated_time() {
    let mut script = Script::new(1, Some(30_000));
    script.run("start\nconnected\nwelcome\npass 20000\ngone");
    for _ in 0..10 {
        script.run("wait\nnot-connected");
    }
    script.check(expect![[r#"
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 86, why: "nobody there" })
    "#]]);
}

#[test]
fn client_with_cycles_reconnects_after_any_absence() {
    let mut script = Script::new(1, Some(30_000));
    script.run("start\nconnected\nwelcome\npass 20000\nsend a Bob\ngone");
    for _cycle in 0..100 {
        for _attempt in 0..10 {
            script.text.clear();
            script.run("wait\nnot-connected");
        }
        assert_eq!(script.session.deadline(), Some(script.now.monotonic.plus(30_000)));
        assert!(!script.text.contains("Ended"), "{}", script.text);
    }
    script.check(expect![[r#"
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
          > SEND a Bob
    "#]]);
}

#[test]
fn name_in_use_is_tried_again_in_the_next_cycle() {
    let mut script = Script::new(1, Some(30_000));
    script.run("start\nconnected\nwelcome\npass 20000\nsend a Bob\ngone\nwait\nconnected");
    script.check(expect![[r#"
        daemon> ERROR {"code":"NAME_IN_USE","fatal":true,"message":"words"}
          Error(ErrorPayload { code: "NAME_IN_USE", fatal: true, message: "words", reference: None })
          HangUp
          State(Backoff { wait_ms: 30000, why: "words (NAME_IN_USE)" })
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #3 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
          > SEND a Bob
    "#]]);
    // A client that never joined ends at NAME_IN_USE instead of beginning a new cycle.
    let mut script = Script::new(1, Some(30_000));
    script.run("start\nconnected");
    script.run(r#"daemon> ERROR {"code":"NAME_IN_USE","fatal":true,"message":"words"}"#);
    assert!(script.text.contains("Ended(Error("), "{}", script.text);
}

#[test]
fn short_connections_do_not_begin_a_new_cycle() {
    let mut script = Script::joined();
    for _ in 0..9 {
        script.run("gone\nwait\nconnected\nwelcome");
    }
    script.check(expect![[r#"
        gone
          HangUp
          State(Disconnected)
          Ended(GaveUp { attempts: 10, why: "the stream ended", last: Disconnected })
    "#]]);
}

#[test]
fn fatal_errors_end_the_session_or_lead_to_a_reconnect() {
    for (code, ends) in [
        ("SESSION_REPLACED", true),
        ("NAME_IN_USE", true),
        ("INVALID_NAME", true),
        ("UNAUTHORIZED", true),
        ("UNSUPPORTED_VERSION", true),
        ("BAD_FRAME", true),
        ("SOMETHING_NEW", true),
        ("HEARTBEAT_TIMEOUT", false),
        ("SHUTTING_DOWN", false),
        ("TOO_MANY_CLIENTS", false),
        ("INTERNAL", false),
    ] {
        let mut script = Script::joined();
        script.run(&format!(
            "daemon> ERROR {{\"code\":\"{code}\",\"fatal\":true,\"message\":\"words\"}}"
        ));
        assert_eq!(script.text.contains("Ended(Error("), ends, "{}", script.text);
        assert_eq!(script.session.deadline().is_none(), ends, "{}", script.text);
        assert!(script.text.contains("HangUp"), "{}", script.text);
    }
}

#[test]
fn token_is_sent_until_rejected_and_bye_leads_to_a_reconnect() {
    check(expect![[r#"
        daemon> BYE {"reason":"upgrade","retry_after_ms":400}
          HangUp
          State(Backoff { wait_ms: 400, why: "the daemon left: upgrade" })
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        daemon> ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"old"}
        reconnect
          > HELLO #3 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true}}
        welcome
          ready s-1
    "#]]);
}

#[test]
fn at_least_once_message_is_retransmitted_until_accepted() {
    check(expect![[r#"
        send m1 Bob
          > SEND m1 Bob
        send-at-most-once m2 Bob
          > SEND m2 Bob
          Released(10)
        send m3 Bob
          > SEND m3 Bob
        daemon> ACK {"ack_id":"m3","state":"accepted"}
          Released(10)
          Accepted { send_id: SendId("m3"), recipients: None, away: false }
        gone
          HangUp
          State(Backoff { wait_ms: 88, why: "the stream ended" })
        send m4 Bob
        send-at-most-once m5 Bob
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
          > SEND m1 Bob
          > SEND m4 Bob
          > SEND m5 Bob
          Released(10)
        daemon> ACK {"ack_id":"m1","state":"accepted","recipients":2}
          Released(10)
          Accepted { send_id: SendId("m1"), recipients: Some(2), away: false }
        daemon> ACK {"ack_id":"m1","state":"accepted"}
        daemon> NACK {"ack_id":"m4","code":"UNKNOWN_AGENT","message":"who"}
          Released(10)
          Refused { send_id: SendId("m4"), nack: Nack { ack_id: "m4", code: "UNKNOWN_AGENT", message: "who", to: None, correlation_id: None, retry_after_ms: None } }
        daemon> NACK {"ack_id":"m1","code":"EXPIRED","message":"late"}
          Refused { send_id: SendId("m1"), nack: Nack { ack_id: "m1", code: "EXPIRED", message: "late", to: None, correlation_id: None, retry_after_ms: None } }
    "#]]);
}

#[test]
fn busy_holds_back_all_messages_to_the_same_recipient() {
    check(expect![[r#"
        send m1 Bob
          > SEND m1 Bob
        send m2 bob
          > SEND m2 bob
        daemon> BUSY {"ack_id":"m1","retry_after_ms":50,"queue_depth":9}
          Busy { send_id: SendId("m1"), wait_ms: 44 }
        send m3 BOB
        send m4 Cid
          > SEND m4 Cid
        send m5 *
        send m6 Cid
        daemon> BUSY {"ack_id":"m2","retry_after_ms":50,"queue_depth":9}
          Busy { send_id: SendId("m2"), wait_ms: 46 }
        wait
          > SEND m1 Bob
        daemon> BUSY {"ack_id":"m1","retry_after_ms":50,"queue_depth":9}
          Busy { send_id: SendId("m1"), wait_ms: 99 }
        wait
        daemon> ACK {"ack_id":"m1","state":"accepted"}
          Released(10)
          Accepted { send_id: SendId("m1"), recipients: None, away: false }
          > SEND m2 bob
        daemon> ACK {"ack_id":"m2","state":"accepted"}
          Released(10)
          Accepted { send_id: SendId("m2"), recipients: None, away: false }
          > SEND m3 BOB
          > SEND m5 *
          > SEND m6 Cid
    "#]]);
}

#[test]
fn busy_broadcast_holds_back_messages_to_the_busy_recipients_only() {
    check(expect![[r#"
        send m1 *
          > SEND m1 *
        daemon> BUSY {"ack_id":"m1","retry_after_ms":50,"queue_depth":9,"busy":["Bob"]}
          Busy { send_id: SendId("m1"), wait_ms: 44 }
        send m2 Cid
          > SEND m2 Cid
        send m3 bob
        send m4 *
        wait
          > SEND m1 *
        daemon> ACK {"ack_id":"m1","state":"accepted","recipients":2}
          Released(10)
          Accepted { send_id: SendId("m1"), recipients: Some(2), away: false }
          > SEND m3 bob
          > SEND m4 *
    "#]]);
}

#[test]
fn partly_delivered_at_most_once_message_is_not_retransmitted_after_reconnect() {
    let mut script = Script::joined();
    script.run(
        "send-at-most-once m1 *\ndaemon> BUSY {\"ack_id\":\"m1\",\"retry_after_ms\":50,\"queue_depth\":9,\"busy\":[\"Bob\"]}\n\
         send-at-most-once m2 Bob\nsend m3 *\ngone",
    );
    assert!(
        script.text.contains(
            r#"Refused { send_id: SendId("m1"), nack: Nack { ack_id: "m1", code: "BUSY""#
        )
    );
    script.text.clear();
    script.run("wait\nconnected\nwelcome");
    assert!(!script.text.contains("> SEND m1"), "{}", script.text);
    assert!(
        script.text.contains("> SEND m2 Bob\n  Released(10)\n  > SEND m3 *"),
        "{}",
        script.text
    );
}

#[test]
fn busy_at_most_once_message_is_retransmitted() {
    check(expect![[r#"
        send-at-most-once m1 Bob
          > SEND m1 Bob
          Released(10)
        daemon> BUSY {"ack_id":"m1","retry_after_ms":50,"queue_depth":9}
          Busy { send_id: SendId("m1"), wait_ms: 44 }
        wait
          > SEND m1 Bob
        daemon> BUSY {"ack_id":"m0","retry_after_ms":50,"queue_depth":9}
          Refused { send_id: SendId("m0"), nack: Nack { ack_id: "m0", code: "BUSY", message: "the recipient had no room for it", to: None, correlation_id: None, retry_after_ms: None } }
    "#]]);
}

#[test]
fn busy_waits_double_up_to_thirty_seconds() {
    let mut script = Script::joined();
    script.run("send m1 Bob");
    let mut waits = Vec::new();
    for _ in 0..12 {
        script.run("daemon> BUSY {\"ack_id\":\"m1\",\"retry_after_ms\":100,\"queue_depth\":1}");
        waits.push(script.session.deadline().unwrap().since(script.now.monotonic));
        script.run("wait");
    }
    for (busy, wait) in waits.iter().enumerate() {
        let middle = (100 << busy).min(30_000);
        assert!((middle * 85 / 100..=middle * 115 / 100).contains(wait), "{waits:?}");
    }
}

#[test]
fn message_over_the_frame_limit_is_refused_locally() {
    Script::joined().check(expect![[r#"
        send m1 Bob 400
          Released(10)
          Refused { send_id: SendId("m1"), nack: Nack { ack_id: "m1", code: "TOO_LARGE", message: "the message takes 525 bytes; the daemon's max_frame_bytes is 400", to: None, correlation_id: None, retry_after_ms: None } }
    "#]]);
}

#[test]
fn error_about_a_message_refuses_it() {
    check(expect![[r#"
        send m1 Bob
          > SEND m1 Bob
        daemon> ERROR {"code":"INVALID","fatal":false,"message":"deep","ref":"m1"}
          Released(10)
          Refused { send_id: SendId("m1"), nack: Nack { ack_id: "m1", code: "INVALID", message: "deep", to: None, correlation_id: None, retry_after_ms: None } }
        daemon> ERROR {"code":"INVALID","fatal":false,"message":"odd"}
          Error(ErrorPayload { code: "INVALID", fatal: false, message: "odd", reference: None })
    "#]]);
}

#[test]
fn duplicate_deliveries_are_dropped() {
    check(expect![[r#"
        deliver d1 {"seq":1,"requires_ack":true}
          delivered d1 from Bob: hi
        deliver d1 {"seq":1,"requires_ack":true,"attempt":2}
        ack d1
          > ACK #2 {"ack_id":"d1","seq":1}
        ack d1
        deliver d1 {"seq":1,"requires_ack":true,"attempt":3}
          > ACK #3 {"ack_id":"d1","seq":1}
        deliver d2 {"seq":2}
          delivered d2 from Bob: hi
        ack d2
        deliver d2 {"seq":2}
        deliver d3 {"seq":3,"requires_ack":true}
          delivered d3 from Bob: hi
        return d3
          > NACK #4 {"ack_id":"d3","code":"REFUSED","message":"no","retry_after_ms":70}
        deliver d3 {"seq":3,"requires_ack":true,"attempt":2}
          delivered d3 from Bob: hi
        deliver d4 {"seq":4,"requires_ack":true}
          delivered d4 from Bob: hi
        gone
          HangUp
          State(Backoff { wait_ms: 97, why: "the stream ended" })
        ack d4
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #5 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
        deliver d4 {"seq":4,"requires_ack":true,"attempt":2}
          > ACK #6 {"ack_id":"d4","seq":4}
    "#]]);
}

#[test]
fn unreadable_payload_is_returned() {
    Script::joined().check(expect![[r#"
        frame {"v":1,"type":"DELIVER","id":"d1","ts":1,"from":"Bob","to":"Ann","payload":{"body":7},"delivery":{"seq":1,"requires_ack":true}}
          > NACK #2 {"ack_id":"d1","code":"INVALID","message":"DELIVER: `body` is not a string"}
    "#]]);
}

#[test]
fn subscriptions_are_repeated_after_reconnect() {
    check(expect![[r##"
        subscribe a.*
          > SUBSCRIBE #2 a.* {}
        subscribe b
          > SUBSCRIBE #3 b {}
        daemon> ACK {"ack_id":"#2"}
          Subscribed { pattern: "a.*", refused: None }
        daemon> NACK {"ack_id":"#3","code":"FORBIDDEN","message":"no"}
          Subscribed { pattern: "b", refused: Some(Nack { ack_id: "e8c7278f-c82a-4c27-800b-af60265aaf1b", code: "FORBIDDEN", message: "no", to: None, correlation_id: None, retry_after_ms: None }) }
        gone
          HangUp
          State(Backoff { wait_ms: 107, why: "the stream ended" })
        subscribe c
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #4 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
          > SUBSCRIBE #5 a.* {}
          > SUBSCRIBE #6 c {}
        unsubscribe c
          > UNSUBSCRIBE #7 c {}
        unsubscribe c
    "##]]);
}

#[test]
fn protocol_violation_ends_the_connection_and_unknown_type_does_not() {
    check(expect![[r#"
        daemon> WHATEVER {}
          Error(ErrorPayload { code: "INVALID", fatal: false, message: "`type` \"WHATEVER\" is not known", reference: Some("x1") })
        daemon> HELLO {}
          Error(ErrorPayload { code: "INVALID", fatal: false, message: "the daemon sent HELLO, which is out of place", reference: None })
        daemon> PING {
          HangUp
          State(Backoff { wait_ms: 88, why: "the daemon broke the protocol: BAD_FRAME: the frame is not JSON: a comma or the object's end expected at byte 50" })
    "#]]);
}

#[test]
fn hostile_frames_never_panic() {
    let mut frames = Vec::new();
    for kind in Kind::ALL {
        for payload in ["{}", "[]", "1", r#"{"ack_id":7}"#, r#"{"nonce":""}"#] {
            for rest in ["", r#","delivery":{"seq":-1}"#, r#","from":"x","to":"y","delivery":{}"#] {
                let kind = kind.as_str();
                frames.push(format!(
                    r#"{{"v":1,"type":"{kind}","id":"i","ts":1,"payload":{payload}{rest}}}"#
                ));
            }
        }
    }
    for frame in &frames {
        for script in [&mut Script::joined(), &mut Script::new(1, None)] {
            script.say(frame);
            script.run("start\nconnected");
            script.say(frame);
        }
    }
}
