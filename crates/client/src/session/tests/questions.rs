//! Tests of questions and answers in a session.

use super::{script::reply, *};

#[test]
fn answer_is_retransmitted_until_its_timeout() {
    check(expect![[r#"
        deliver d1 {"seq":1,"requires_ack":true}
          delivered d1 from Bob: hi
        answer d1
          > ACK #2 {"ack_id":"d1","seq":1,"correlationId":"c","response":true,"responseData":"xxx"}
          Released(10)
        reconnect
          > HELLO #3 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
          > ACK #2 {"ack_id":"d1","seq":1,"correlationId":"c","response":true,"responseData":"xxx"}
        deliver d1 {"seq":1,"requires_ack":true,"attempt":2}
          > ACK #4 {"ack_id":"d1","seq":1}
        pass 5000
        reconnect
          > HELLO #5 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
    "#]]);
}

#[test]
fn answer_given_while_disconnected_is_sent_after_reconnect() {
    check(expect![[r#"
        deliver d1 {"seq":1,"requires_ack":true}
          delivered d1 from Bob: hi
        gone
          HangUp
          State(Backoff { wait_ms: 88, why: "the stream ended" })
        answer d1
          Released(10)
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
          > ACK #3 {"ack_id":"d1","seq":1,"correlationId":"c","response":true,"responseData":"xxx"}
    "#]]);
}

#[test]
fn answer_given_while_disconnected_is_refused_after_its_timeout() {
    check(expect![[r#"
        deliver d1 {"seq":1,"requires_ack":true}
          delivered d1 from Bob: hi
        gone
          HangUp
          State(Backoff { wait_ms: 88, why: "the stream ended" })
        answer d1
          Released(10)
        wait
          State(Connecting)
          Connect
        pass 5000
        connected
          State(Handshaking)
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
          Refused { send_id: SendId("d1"), nack: Nack { ack_id: "d1", code: "STALE", message: "nobody waits for the answer any more", to: None, correlation_id: None, retry_after_ms: None } }
    "#]]);
}

#[test]
fn answers_over_the_limit_are_refused_if_unsent_and_dropped_if_sent() {
    let mut script = Script::joined();
    let answer = |script: &mut Script, number: usize| {
        let id = format!("d{number}");
        script.run(&format!("deliver {id} {{\"seq\":{number},\"requires_ack\":true}}"));
        script.input(Input::Answer(reply(&id, 3), 10));
    };
    for number in 1..=300 {
        answer(&mut script, number);
    }
    assert!(!script.text.contains("Refused"), "{}", script.text);
    script.run("gone");
    for number in 1..=256 {
        script.input(Input::Answer(reply(&format!("e{number}"), 3), 10));
    }
    assert!(!script.text.contains("Refused"), "{}", script.text);
    script.input(Input::Answer(reply("e257", 3), 10));
    let refused: Vec<_> = script.text.lines().filter(|line| line.contains("Refused")).collect();
    let [refused] = refused[..] else { panic!("{refused:?}") };
    assert!(refused.contains(r#"send_id: SendId("e1")"#), "{refused}");
    assert!(refused.contains(r#"code: "LIMIT""#), "{refused}");
}

#[test]
fn answer_over_the_frame_limit_is_refused_and_the_delivery_acknowledged() {
    Script::joined().check(expect![[r#"
        deliver d1 {"seq":1,"requires_ack":true}
          delivered d1 from Bob: hi
        answer d1 400
          Refused { send_id: SendId("d1"), nack: Nack { ack_id: "d1", code: "TOO_LARGE", message: "the answer takes 559 bytes; the daemon's max_frame_bytes is 400", to: None, correlation_id: None, retry_after_ms: None } }
          > ACK #2 {"ack_id":"d1","seq":1}
          Released(10)
    "#]]);
}

#[test]
fn refused_answer_is_not_retransmitted() {
    check(expect![[r#"
        deliver d1 {"seq":1,"requires_ack":true}
          delivered d1 from Bob: hi
        answer d1
          > ACK #2 {"ack_id":"d1","seq":1,"correlationId":"c","response":true,"responseData":"xxx"}
          Released(10)
        daemon> NACK {"ack_id":"d1","code":"TOO_LARGE","message":"no"}
          Refused { send_id: SendId("d1"), nack: Nack { ack_id: "d1", code: "TOO_LARGE", message: "no", to: None, correlation_id: None, retry_after_ms: None } }
        reconnect
          > HELLO #3 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
    "#]]);
}

#[test]
fn answer_to_a_question_is_an_event() {
    check(expect![[r#"
        send m1 Bob
          > SEND m1 Bob
        daemon> ACK {"ack_id":"m1","state":"accepted"}
          Released(10)
          Accepted { send_id: SendId("m1"), recipients: None, away: false }
        daemon> ACK {"ack_id":"m1","correlationId":"c","responseData":[1]}
          Answered { send_id: SendId("m1"), correlation_id: "c", answer: Answer { from: "", response: None, data: Some(RawValue([1])) } }
    "#]]);
}

#[test]
fn repeated_outcome_is_reported_once() {
    check(expect![[r#"
        send m1 Bob
          > SEND m1 Bob
        daemon> ACK {"ack_id":"m1","state":"accepted"}
          Released(10)
          Accepted { send_id: SendId("m1"), recipients: None, away: false }
        daemon> NACK {"ack_id":"m1","code":"EXPIRED","message":"no"}
          Refused { send_id: SendId("m1"), nack: Nack { ack_id: "m1", code: "EXPIRED", message: "no", to: None, correlation_id: None, retry_after_ms: None } }
        reconnect
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
        daemon again
        daemon> ACK {"ack_id":"m1","correlationId":"c","responseData":[1]}
          Answered { send_id: SendId("m1"), correlation_id: "c", answer: Answer { from: "", response: None, data: Some(RawValue([1])) } }
        reconnect
          > HELLO #3 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
        daemon again
    "#]]);
}
