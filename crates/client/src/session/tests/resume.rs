//! Tests of a session that loses its connection: tokens, RESUME, subscriptions, dedup.

use super::*;
use crate::Mode;
use protocol::payload::Capabilities;

/// A session of Ann that the daemon allows her to resume.
fn resumable() -> Script {
    let mut script = Script::new(1, None);
    script.run("start\nconnected\nwelcome s-1 t-1");
    script.text.clear();
    script
}

#[track_caller]
fn check(expect: Expect) {
    resumable().check(expect);
}

/// Reconnects, and leaves the reconnection out of the transcript.
fn reconnect(script: &mut Script, welcome: &str) {
    script.run("reconnect");
    script.text.clear();
    script.run(welcome);
}

/// The number of envelopes of a kind in the transcript.
fn count(script: &Script, kind: &str) -> usize {
    script.text.matches(&format!("> {kind} ")).count()
}

#[test]
fn replayed_acknowledged_delivery_is_dropped() {
    let mut script = resumable();
    script.run("deliver d1 {\"seq\":1,\"requires_ack\":true}\ndeliver d2 {\"seq\":2,\"requires_ack\":true}\nack d1");
    script.text.clear();
    script.run("deliver d1 {\"seq\":1,\"attempt\":2}\ndeliver d2 {\"seq\":2,\"attempt\":2}");
    assert!(!script.text.contains("delivered"), "{}", script.text);
}

#[test]
fn held_back_delivery_of_a_forgotten_sender_is_passed_on() {
    let mut script = resumable();
    script.run("deliver d1 {\"seq\":1} @guest-1\ndeliver d2 {\"seq\":1}");
    reconnect(&mut script, "welcome s-1 t-2");
    script.run(
        "deliver d3 {\"seq\":2,\"requires_ack\":true} @guest-1\n\
         deliver d4 {\"seq\":2,\"requires_ack\":true}",
    );
    script.text.clear();
    script.run(
        "daemon> SYNC {\"session_id\":\"s-1\",\"streams\":[\
         {\"topic\":\"\",\"peer\":\"@guest-1\",\"last_seq\":1,\"server_last_seq\":0},\
         {\"topic\":\"\",\"peer\":\"Bob\",\"last_seq\":1,\"server_last_seq\":2}]}",
    );
    assert!(script.text.contains("delivered d3 from @guest-1: hi"), "{}", script.text);
    assert!(!script.text.contains("delivered d4"), "the daemon delivers it again: {}", script.text);
}

#[test]
fn resumed_session_states_its_positions_and_gets_the_rest_in_order() {
    check(expect![[r#"
        deliver d1 {"seq":1}
          delivered d1 from Bob: hi
        deliver d2 {"seq":7} Cid build.linux
          delivered d2 from Cid: hi
        deliver d3 {"seq":2}
          delivered d3 from Bob: hi
        deliver r {"seq":1} @relay
          delivered r from @relay: hi
        reconnect
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome s-1 t-2
          ready s-1
          > RESUME #3 {"session_id":"s-1","agent":"Ann","streams":[{"topic":"","peer":"Bob","last_seq":2},{"topic":"build.linux","peer":"Cid","last_seq":7}]}
        deliver d5 {"seq":4}
        deliver d9 {"seq":1} Dan
        daemon> SYNC {"session_id":"s-1","streams":[]}
          delivered d9 from Dan: hi
        deliver d4 {"seq":3}
          delivered d4 from Bob: hi
        deliver d5 {"seq":4}
          delivered d5 from Bob: hi
        reconnect
          > HELLO #4 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-2"}}
    "#]]);
}

#[test]
fn known_delivery_is_dropped_and_acknowledged_one_acknowledged_again() {
    check(expect![[r#"
        deliver d1 {"seq":1}
          delivered d1 from Bob: hi
        deliver d2 {"seq":2,"requires_ack":true}
          delivered d2 from Bob: hi
        deliver d3 {"seq":3,"requires_ack":true}
          delivered d3 from Bob: hi
        gone
          HangUp
          State(Backoff { wait_ms: 88, why: "the stream ended" })
        ack d2
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome s-1 t-2
          ready s-1
          > RESUME #3 {"session_id":"s-1","agent":"Ann","streams":[{"topic":"","peer":"Bob","last_seq":3}]}
        deliver d2 {"seq":2,"requires_ack":true,"attempt":2}
        deliver d3 {"seq":3,"requires_ack":true,"attempt":2}
        daemon> SYNC {"session_id":"s-1","streams":[]}
          > ACK #4 {"ack_id":"d2","seq":2}
        deliver d1 {"seq":1}
        ack d3
          > ACK #5 {"ack_id":"d3","seq":3}
    "#]]);
}

#[test]
fn held_back_deliveries_above_a_stated_position_are_dropped() {
    let mut script = resumable();
    script.run("deliver d1 {\"seq\":5,\"requires_ack\":true}");
    reconnect(&mut script, "welcome s-1 t-2");
    // The redelivery of a returned message is below the position in RESUME, so no replay repeats
    // it.
    script.run("deliver d0 {\"seq\":2,\"requires_ack\":true,\"attempt\":2}");
    script.run("deliver d2 {\"seq\":6}");
    assert_eq!(script.text.matches("delivered").count(), 0, "{}", script.text);
    script.text.clear();
    script.run("daemon> SYNC {\"session_id\":\"s-1\",\"streams\":[]}");
    assert!(script.text.contains("delivered d0") && !script.text.contains("d2"), "{}", script.text);
    script.run("deliver d2 {\"seq\":6}");
    assert!(script.text.contains("delivered d2"), "{}", script.text);
}

#[test]
fn session_without_deliveries_sends_no_resume() {
    check(expect![[r##"
        subscribe a
          > SUBSCRIBE #2 a {}
        daemon> ACK {"ack_id":"#2"}
          Subscribed { pattern: "a", refused: None }
        reconnect
          > HELLO #3 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome s-1 t-2
          ready s-1
        deliver d1 {"seq":1}
          delivered d1 from Bob: hi
    "##]]);
}

#[test]
fn rejected_token_leads_to_a_new_session_with_its_subscriptions() {
    check(expect![[r##"
        subscribe a
          > SUBSCRIBE #2 a {}
        daemon> ACK {"ack_id":"#2"}
          Subscribed { pattern: "a", refused: None }
        deliver d1 {"seq":1,"requires_ack":true}
          delivered d1 from Bob: hi
        reconnect
          > HELLO #3 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        daemon> ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"old"}
        welcome s-2 t-2
          ready s-2
          > SUBSCRIBE #4 a {}
        ack d1
          > ACK #5 {"ack_id":"d1","seq":1}
        deliver d1 {"seq":1,"requires_ack":true,"attempt":2}
          > ACK #6 {"ack_id":"d1","seq":1}
        reconnect
          > HELLO #7 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-2"}}
        welcome s-2 t-3
          ready s-2
          > RESUME #8 {"session_id":"s-2","agent":"Ann","streams":[{"topic":"","peer":"Bob","last_seq":1}]}
          > SUBSCRIBE #9 a {}
    "##]]);
}

#[test]
fn welcome_with_another_session_is_a_new_session() {
    let mut script = resumable();
    script.run("subscribe a\ndaemon> ACK {\"ack_id\":\"#2\"}\ndeliver d1 {\"seq\":1}");
    reconnect(&mut script, "welcome s-2 t-2");
    assert_eq!((count(&script, "SUBSCRIBE"), count(&script, "RESUME")), (1, 0), "{}", script.text);
}

#[test]
fn rejected_token_with_the_same_session_id_is_a_new_session() {
    let mut script = resumable();
    script.run("deliver d1 {\"seq\":1}\nsubscribe a\ngone\nwait\nconnected");
    script.run(r#"daemon> ERROR {"code":"RESUME_REJECTED","message":"old"}"#);
    script.text.clear();
    script.run("welcome s-1 t-2");
    assert_eq!((count(&script, "SUBSCRIBE"), count(&script, "RESUME")), (1, 0), "{}", script.text);
}

#[test]
fn only_unconfirmed_subscriptions_are_repeated() {
    check(expect![[r##"
        subscribe a
          > SUBSCRIBE #2 a {}
        subscribe b
          > SUBSCRIBE #3 b {}
        subscribe c
          > SUBSCRIBE #4 c {}
        subscribe d
          > SUBSCRIBE #5 d {}
        daemon> ACK {"ack_id":"#2"}
          Subscribed { pattern: "a", refused: None }
        daemon> ACK {"ack_id":"#3"}
          Subscribed { pattern: "b", refused: None }
        daemon> ACK {"ack_id":"#4"}
          Subscribed { pattern: "c", refused: None }
        unsubscribe b
          > UNSUBSCRIBE #6 b {}
        gone
          HangUp
          State(Backoff { wait_ms: 86, why: "the stream ended" })
        unsubscribe c
        subscribe e
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #7 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome s-1 t-2
          ready s-1
          > UNSUBSCRIBE #8 b {}
          > UNSUBSCRIBE #9 c {}
          > SUBSCRIBE #10 d {}
          > SUBSCRIBE #11 e {}
        daemon> ACK {"ack_id":"#8"}
        reconnect
          > HELLO #12 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-2"}}
        welcome s-1 t-3
          ready s-1
          > UNSUBSCRIBE #13 c {}
          > SUBSCRIBE #14 d {}
          > SUBSCRIBE #15 e {}
    "##]]);
}

#[test]
fn repeated_subscription_is_settled_by_its_last_answer() {
    let mut script = resumable();
    script.run("subscribe a\nunsubscribe a\nsubscribe a\ndaemon> ACK {\"ack_id\":\"#2\"}");
    reconnect(&mut script, "welcome s-1 t-2");
    assert_eq!(count(&script, "SUBSCRIBE"), 1, "{}", script.text);
    let mut script = resumable();
    script.run("subscribe a\nunsubscribe a\nsubscribe a\ndaemon> ACK {\"ack_id\":\"#2\"}");
    script.run("daemon> ACK {\"ack_id\":\"#3\"}\ndaemon> ACK {\"ack_id\":\"#4\"}");
    reconnect(&mut script, "welcome s-1 t-2");
    assert_eq!(count(&script, "SUBSCRIBE"), 0, "{}", script.text);
}

#[test]
fn stale_resume_is_reported_once_and_loses_no_at_least_once_message() {
    check(expect![[r##"
        deliver d1 {"seq":1}
          delivered d1 from Bob: hi
        reconnect
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome s-1 t-2
          ready s-1
          > RESUME #3 {"session_id":"s-1","agent":"Ann","streams":[{"topic":"","peer":"Bob","last_seq":1}]}
        deliver d8 {"seq":8,"requires_ack":true}
        deliver d9 {"seq":9}
        daemon> NACK {"ack_id":"#3","code":"STALE","message":"too_old"}
          Missed { why: "too_old (STALE)" }
          delivered d8 from Bob: hi
          delivered d9 from Bob: hi
        ack d8
          > ACK #4 {"ack_id":"d8","seq":8}
        deliver d10 {"seq":10}
          delivered d10 from Bob: hi
        reconnect
          > HELLO #5 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-2"}}
        welcome s-1 t-3
          ready s-1
          > RESUME #6 {"session_id":"s-1","agent":"Ann","streams":[{"topic":"","peer":"Bob","last_seq":10}]}
    "##]]);
    let mut script = resumable();
    script.run("deliver d1 {\"seq\":1}");
    reconnect(&mut script, "welcome s-1 t-2");
    script.run(r##"daemon> NACK {"ack_id":"#3","code":"STALE","message":"too_old"}"##);
    assert_eq!(script.text.matches("Missed").count(), 1, "{}", script.text);
    // No delivery has come since, so there is no position to state.
    reconnect(&mut script, "welcome s-1 t-3");
    assert_eq!(count(&script, "RESUME"), 0, "{}", script.text);
}

#[test]
fn unanswered_resume_ends_the_connection_and_is_repeated_once() {
    check(expect![[r#"
        deliver d1 {"seq":1}
          delivered d1 from Bob: hi
        reconnect
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome s-1 t-2
          ready s-1
          > RESUME #3 {"session_id":"s-1","agent":"Ann","streams":[{"topic":"","peer":"Bob","last_seq":1}]}
        deliver d3 {"seq":3,"requires_ack":true}
        wait
          HangUp
          State(Backoff { wait_ms: 86, why: "the daemon did not answer RESUME within 10 s" })
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #4 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-2"}}
        welcome s-1 t-3
          ready s-1
          > RESUME #5 {"session_id":"s-1","agent":"Ann","streams":[{"topic":"","peer":"Bob","last_seq":1}]}
        daemon> SYNC {"session_id":"s-1","streams":[]}
        deliver d2 {"seq":2}
          delivered d2 from Bob: hi
        deliver d3 {"seq":3,"requires_ack":true}
          delivered d3 from Bob: hi
    "#]]);
}

#[test]
fn resume_without_an_answer_twice_in_a_row_is_given_up() {
    check(expect![[r#"
        deliver d1 {"seq":1}
          delivered d1 from Bob: hi
        reconnect
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome s-1 t-2
          ready s-1
          > RESUME #3 {"session_id":"s-1","agent":"Ann","streams":[{"topic":"","peer":"Bob","last_seq":1}]}
        wait
          HangUp
          State(Backoff { wait_ms: 86, why: "the daemon did not answer RESUME within 10 s" })
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #4 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-2"}}
        welcome s-1 t-3
          ready s-1
          > RESUME #5 {"session_id":"s-1","agent":"Ann","streams":[{"topic":"","peer":"Bob","last_seq":1}]}
        deliver d3 {"seq":3}
        wait
          Missed { why: "the daemon did not answer RESUME within 10 s" }
          delivered d3 from Bob: hi
          HangUp
          State(Backoff { wait_ms: 106, why: "the daemon did not answer RESUME within 10 s" })
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #6 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-3"}}
        welcome s-1 t-4
          ready s-1
        deliver d4 {"seq":4}
          delivered d4 from Bob: hi
    "#]]);
}

#[test]
fn held_back_deliveries_over_the_limit_are_passed_on_at_once() {
    let mut script = resumable();
    script.run("deliver d1 {\"seq\":1}");
    reconnect(&mut script, "welcome s-1 t-2");
    for seq in 2..=10_001 {
        script.deliver(&format!("d{seq}"), "Bob", "", &format!("{{\"seq\":{seq}}}"));
    }
    assert_eq!(script.text.matches("delivered").count(), 0);
    script.deliver("d10002", "Bob", "", "{\"seq\":10002}");
    assert_eq!(script.text.matches("delivered").count(), 10_001);
    script.deliver("d10003", "Bob", "", "{\"seq\":10003}");
    assert_eq!(script.text.matches("delivered").count(), 10_002);
}

#[test]
fn held_back_deliveries_survive_the_loss_of_the_next_connection() {
    for (welcome, deliveries) in [("welcome s-1 t-3", 0), ("welcome s-2 t-3", 1), ("close", 1)] {
        let mut script = resumable();
        script.run("deliver d1 {\"seq\":1}");
        reconnect(&mut script, "welcome s-1 t-2\ndeliver d2 {\"seq\":2}");
        reconnect(&mut script, welcome);
        assert_eq!(script.text.matches("delivered d2").count(), deliveries, "{}", script.text);
    }
}

#[test]
fn positions_of_the_most_recent_streams_are_resumable() {
    let mut script = resumable();
    for number in 0..1030 {
        script.deliver(&format!("d{number}"), &format!("A{number}"), "", "{\"seq\":3}");
    }
    script.deliver("d", "A6", "", "{\"seq\":4}");
    script.run("reconnect");
    script.text.clear();
    script.say(&resumable_welcome("s-1", "t-2", 1_000_000));
    assert_eq!(script.text.matches("\"peer\"").count(), 1024);
    for (peer, seq, is_there) in [(5, 3, false), (6, 4, true), (7, 3, true), (1029, 3, true)] {
        let stream = format!(r#""peer":"A{peer}","last_seq":{seq}}}"#);
        assert_eq!(script.text.contains(&stream), is_there, "{stream}");
    }
}

#[test]
fn resume_fits_into_a_frame() {
    let mut script = resumable();
    for number in 0..100 {
        script.deliver(&format!("d{number}"), &format!("A{number}"), "", "{\"seq\":3}");
    }
    reconnect(&mut script, "welcome s-1 t-2");
    let line = script.text.lines().find(|line| line.contains("> RESUME")).unwrap();
    assert!((3000..4000).contains(&line.len()), "{line}");
    assert!(line.contains(r#""peer":"A99""#) && !line.contains(r#""peer":"A0""#), "{line}");
}

#[test]
fn client_without_resume_sends_its_token_and_subscribes_again() {
    let capabilities = Capabilities::default();
    let mut script = Script::of(Settings { capabilities, ..Script::settings() });
    script.run("start\nconnected\nwelcome s-1 t-1\nsubscribe a\ndaemon> ACK {\"ack_id\":\"#2\"}");
    script.run("deliver d1 {\"seq\":1}");
    reconnect(&mut script, "welcome s-1 t-2");
    assert_eq!((count(&script, "SUBSCRIBE"), count(&script, "RESUME")), (1, 0), "{}", script.text);
    script.run("reconnect");
    assert!(script.text.contains(r#""resume_token":"t-2""#), "{}", script.text);
}

#[test]
fn guest_has_no_session_to_resume() {
    let mut script = Script::of(Settings { mode: Mode::Guest, ..Script::settings() });
    script.run("start\nconnected\nwelcome s-1 t-1\ngone\nwait\nconnected");
    assert!(!script.text.contains("resume_token"), "{}", script.text);
}

#[test]
fn max_inflight_is_limited_to_the_dedup_window() {
    let capabilities = Capabilities { max_inflight: 1_000_000, ..Capabilities::default() };
    let mut script = Script::of(Settings { capabilities, ..Script::settings() });
    script.run("start\nconnected");
    assert!(script.text.contains(r#""max_inflight":4096"#), "{}", script.text);
}

#[test]
fn bye_leads_to_a_reconnect_with_the_token() {
    for (bye, wait_ms) in [
        (r#"{"reason":"upgrade","retry_after_ms":400}"#, 400),
        (r#"{"reason":"upgrade"}"#, 88),
        (r#"{"reason":"stop"}"#, 88),
        (r#"{"reason":"upgrade","retry_after_ms":3600000}"#, 30_000),
    ] {
        let mut script = resumable();
        script.run(&format!("send a Bob\ndaemon> BYE {bye}"));
        assert_eq!(script.session.deadline(), Some(script.now.monotonic.plus(wait_ms)), "{bye}");
        script.run("wait\nconnected\nwelcome s-1 t-2");
        assert!(script.text.contains(r#""resume_token":"t-1""#), "{}", script.text);
        assert_eq!(count(&script, "SEND"), 2, "{}", script.text);
    }
}

#[test]
fn replaced_session_does_not_reconnect() {
    let replaced =
        r#"daemon> ERROR {"code":"SESSION_REPLACED","fatal":true,"message":"a_newer_one"}"#;
    for retry_cycle_after_ms in [None, Some(30_000)] {
        let mut script = Script::new(1, retry_cycle_after_ms);
        script.run("start\nconnected\nwelcome s-1 t-1");
        script.run(replaced);
        assert_eq!(script.session.deadline(), None, "{}", script.text);
        assert!(script.text.contains("Ended(Error("), "{}", script.text);
    }
}

#[test]
fn store_failure_is_reported_in_the_daemons_words() {
    check(expect![[r#"
        send m1 Bob
          > SEND m1 Bob
        send m2 Bob
          > SEND m2 Bob
        daemon> NACK {"ack_id":"m1","code":"STORE_FAILED","message":"full"}
          Released(10)
          Refused { send_id: SendId("m1"), nack: Nack { ack_id: "m1", code: "STORE_FAILED", message: "full", to: None, correlation_id: None, retry_after_ms: None } }
        reconnect
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome s-1 t-2
          ready s-1
          > SEND m2 Bob
    "#]]);
}

/// A session that has joined a daemon on its own machine.
fn local() -> Script {
    let settings =
        Settings { local: true, retry_cycle_after_ms: Some(30_000), ..Script::settings() };
    let mut script = Script::of(settings);
    script.run("start\nconnected");
    script.say(WELCOME);
    script
}

/// The wait before the session's next attempt.
fn wait_ms(script: &Script) -> u64 {
    script.session.deadline().expect("a deadline").since(script.now.monotonic)
}

#[test]
fn local_client_tries_at_least_once_a_second_without_end() {
    let mut script = local();
    script.run("gone");
    for _ in 0..1000 {
        assert!(wait_ms(&script) <= 1000, "{}", script.text);
        script.run("wait\nnot-connected");
    }
    script.run("wait\nconnected\nwelcome");
    assert!(!script.text.contains("Ended"), "{}", script.text);
}

#[test]
fn local_client_waits_longer_after_an_error() {
    let error =
        |code: &str| format!(r#"daemon> ERROR {{"code":"{code}","fatal":true,"message":"no"}}"#);
    let mut script = local();
    script.run("reconnect");
    script.run(&error("NAME_IN_USE"));
    assert!(wait_ms(&script) >= 25_000, "{}", script.text);
    let mut longest = 0;
    for _ in 0..20 {
        script.run("wait\nconnected");
        script.run(&error("TOO_MANY_CLIENTS"));
        longest = longest.max(wait_ms(&script));
    }
    assert!(longest >= 25_000, "{}", script.text);
}

#[test]
fn local_client_ends_at_a_permanent_error() {
    let mut script = local();
    script.run("reconnect");
    script.run(r#"daemon> ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"no"}"#);
    assert_eq!(script.session.deadline(), None, "{}", script.text);
}
