//! Sessions over several connections: tokens, takeover, subscriptions, mail, and replay.

use super::script::{check, run};
use expect_test::expect;

#[test]
fn token_resumes_a_session_with_its_state() {
    check(expect![[r#"
        here: ann bob
        bob says SUBSCRIBE topic=build {}
            bob < ACK {"ack_id":"x"}
        ann>> Bob: not acknowledged
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"not acknowledged"}
        bob goes
        bob joins {"session":{"resume_token":"bob:1"}}
            bob < WELCOME {"agent":"Bob","session_id":"s2"}
            bob < PING {}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"not acknowledged"}
        ann> #build: subscribed still
            bob < DELIVER d2 Ann -> Bob #build seq 1 originalTo "*" {"body":"subscribed still"}
    "#]]);
}

#[test]
fn token_takes_over_from_an_older_connection_at_once() {
    check(expect![[r#"
        here: ann bob
        disk shows
        ann>> Bob: not acknowledged
            keep stream 1→2 "" up to 1024
            keep a1 for [Bob#1 attempts 1], 0 left
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"not acknowledged"}
        bob2 joins {"agent":"Bob","session":{"resume_token":"bob:1"}}
            bob < ERROR {"code":"SESSION_REPLACED","fatal":true,"message":"another connection took this session up"}
            bob close Fault(SessionReplaced)
            keep Bob here
            keep session of agent 2 with []
            bob2 < WELCOME {"agent":"Bob","session_id":"s2"}
            bob2 < PING {}
            keep delivery 1: 2 attempts, 0 failures
            bob2 < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"not acknowledged"}
        bob2 acks d1
            keep delivery 1: Acknowledged
        bob goes
    "#]]);
}

#[test]
fn used_token_is_reported_as_stolen() {
    let mut script = "log shows\nbob joins {\"capabilities\":{\"resume\":true}}\n".to_owned();
    for number in 1..=9 {
        script += &format!(
            r#"bob goes
               bob joins {{"session":{{"resume_token":"bob:{number}"}}}}
               bob pongs
            "#
        );
    }
    // Token 1 is too old; token 2 is the oldest remembered one.
    for number in [1, 2] {
        script += &format!(
            r#"cid connects
               cid says RESUME {{"agent":"Bob","resume_token":"bob:{number}"}}
            "#
        );
    }
    let told = run(&script);
    let (_, told) = told.split_once("cid connects").unwrap();
    let stolen = "log Bob: a token that was used came again; it may have been stolen";
    let (first, second) = told.split_once("cid connects").unwrap();
    assert!(!first.contains(stolen) && second.contains(stolen), "{told}");
    assert_eq!(told.matches("RESUME_REJECTED").count(), 2, "{told}");
}

#[test]
fn token_is_valid_once_for_its_name_within_the_window() {
    check(expect![[r#"
        limits resume_window_ms=1000
        here: ann bob
        log shows
        bob goes
            log Bob (client 2): left
        cid joins {"session":{"resume_token":"bob:1"}}
            cid < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; this is a fresh session","ref":"h"}
            log Cid (client 3): joined (claim)
            cid < WELCOME {"agent":"Cid"}
        bob joins {"session":{"resume_token":"bob:1"}}
            log Bob (client 4): joined (token)
            bob < WELCOME {"agent":"Bob","session_id":"s2"}
            bob < PING {}
        bob pongs
        bob goes
            log Bob (client 4): left
        bob joins {"session":{"resume_token":"bob:1"}}
            log Bob: a token that was used came again; it may have been stolen
            bob < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; this is a fresh session","ref":"h"}
            log Bob (client 5): joined (claim)
            bob < WELCOME {"agent":"Bob"}
        bob goes
            log Bob (client 5): left
        bob joins {"session":{"resume_token":"bob:2"}}
            bob < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; this is a fresh session","ref":"h"}
            log Bob (client 6): joined (claim)
            bob < WELCOME {"agent":"Bob"}
        bob goes
            log Bob (client 6): left
        wait 999
        bob joins {"session":{"resume_token":"bob:4"}}
            log Bob (client 7): joined (token)
            bob < WELCOME {"agent":"Bob","session_id":"s5"}
            bob < PING {}
        bob pongs
        bob goes
            log Bob (client 7): left
        wait 1000
        bob joins {"session":{"resume_token":"bob:5"}}
            bob < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; this is a fresh session","ref":"h"}
            log Bob (client 8): joined (claim)
            bob < WELCOME {"agent":"Bob"}
        zoe joins {"session":{"resume_token":"made up"}}
            zoe < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; this is a fresh session","ref":"h"}
            log Zoe (client 9): joined (claim)
            zoe < WELCOME {"agent":"Zoe"}
    "#]]);
}

#[test]
fn bye_ends_the_session_and_its_token() {
    check(expect![[r#"
        here: ann bob
        bob says SUBSCRIBE topic=build {}
            bob < ACK {"ack_id":"x"}
        ann>> Bob: stays in the mailbox
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"stays in the mailbox"}
        disk shows
        bob says BYE {"reason":"enough"}
            keep session of agent 2 ended
            keep Bob away
            bob close Bye
        bob goes
        ann>> #build: nobody hears it
            keep a2 for [], 0 left
            ann < ACK {"ack_id":"a2","durability":"disk","recipients":0,"state":"accepted"}
        bob joins {"session":{"resume_token":"bob:1"}}
            bob < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; this is a fresh session","ref":"h"}
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
            keep delivery 1: 2 attempts, 0 failures
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"stays in the mailbox"}
    "#]]);
}

#[test]
fn wrong_token_waits_for_a_name_in_use() {
    check(expect![[r#"
        here: ann
        ann2 joins {"agent":"Ann","session":{"resume_token":"made up"}}
            ann2 < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; this is a fresh session","ref":"h"}
            ann < PING {}
            ann2 waits
        wait 250
            ann2 < ERROR {"code":"NAME_IN_USE","fatal":true,"message":"Ann is connected already; choose another name, or end that one"}
            ann2 close Fault(NameInUse)
    "#]]);
}

#[test]
fn takeover_does_not_free_a_name_for_waiting_connections() {
    check(expect![[r#"
        here: ann
        ann2 joins {"agent":"Ann"}
            ann < PING {}
            ann2 waits
        ann3 joins {"agent":"Ann","session":{"resume_token":"ann:1"}}
            ann < ERROR {"code":"SESSION_REPLACED","fatal":true,"message":"another connection took this session up"}
            ann close Fault(SessionReplaced)
            ann3 < WELCOME {"agent":"Ann","session_id":"s1"}
            ann3 < PING {}
        wait 250
            ann2 < ERROR {"code":"NAME_IN_USE","fatal":true,"message":"Ann is connected already; choose another name, or end that one"}
            ann2 close Fault(NameInUse)
    "#]]);
}

#[test]
fn subscription_is_acknowledged_once_persisted() {
    check(expect![[r#"
        here: ann bob
        disk shows
        disk holds
        bob says SUBSCRIBE topic=build {}
            keep session of agent 2 with ["build"]
        bob says SUBSCRIBE topic=build {}
        bob says SUBSCRIBE topic=a..b {}
            bob < NACK {"ack_id":"x","code":"INVALID","message":"a topic is one or more tokens split by '.', none of them empty"}
        disk keeps
            bob < ACK {"ack_id":"x"}
            bob < ACK {"ack_id":"x"}
        disk holds
        bob says UNSUBSCRIBE topic=build {}
            keep session of agent 2 with []
        disk fails
            bob < ACK {"ack_id":"x"}
    "#]]);
}

#[test]
fn absent_subscriber_gets_at_least_once_messages_within_the_window() {
    check(expect![[r#"
        limits resume_window_ms=1000
        here: ann
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        cid joins
            cid < WELCOME {"agent":"Cid"}
        bob says SUBSCRIBE topic=build {}
            bob < ACK {"ack_id":"x"}
        cid says SUBSCRIBE topic=build {}
            cid < ACK {"ack_id":"x"}
        bob goes
        cid goes
        ann>> #build: for bob
            ann < ACK {"ack_id":"a1","durability":"disk","recipients":1,"state":"accepted"}
        ann> #build: for nobody
        bob joins {"capabilities":{"resume":true},"session":{"resume_token":"bob:1"}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true},"session_id":"s2"}
            bob < PING {}
            bob < DELIVER d1 Ann -> Bob #build seq 1 originalTo "*" requires_ack true {"body":"for bob"}
        bob acks d1
        cid joins {"session":{"resume_token":"cid:1"}}
            cid < WELCOME {"agent":"Cid","session_id":"s3"}
            cid < PING {}
        ann> #build: for both
            bob < DELIVER d2 Ann -> Bob #build seq 2 originalTo "*" {"body":"for both"}
            cid < DELIVER d3 Ann -> Cid #build seq 1 originalTo "*" {"body":"for both"}
        bob goes
        wait 1000
        ann>> #build: for cid
            ann < ACK {"ack_id":"a4","durability":"disk","recipients":1,"state":"accepted"}
            cid < DELIVER d4 Ann -> Cid #build seq 2 originalTo "*" requires_ack true {"body":"for cid"}
    "#]]);
}

#[test]
fn at_most_once_messages_wait_for_a_session_that_can_resume() {
    check(expect![[r#"
        here: ann
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        bob stalls
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
        bob goes
        ann> Bob: away
            ann < NACK {"ack_id":"a3","code":"AGENT_OFFLINE","message":"Bob is away"}
        bob joins {"capabilities":{"resume":true},"session":{"resume_token":"bob:1"}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true},"session_id":"s2"}
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
            bob < PING {}
        ann> Bob: 3
            bob < DELIVER d3 Ann -> Bob seq 3 {"body":"3"}
        bob goes
        bob joins {"session":{"resume_token":"bob:2"}}
            bob < WELCOME {"agent":"Bob","session_id":"s2"}
            bob < PING {}
        bob stalls
        ann> Bob: 4
            bob < DELIVER d4 Ann -> Bob seq 4 {"body":"4"}
        bob goes
            ann < NACK {"ack_id":"a5","code":"AGENT_OFFLINE","message":"Bob went away before it was delivered","to":"Bob"}
    "#]]);
}

#[test]
fn unsent_messages_wait_for_resume_and_end_with_a_fresh_session() {
    check(expect![[r#"
        limits window_bytes=1
        here: ann
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        bob stalls
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
        bob goes
        bob joins {"capabilities":{"resume":true},"session":{"resume_token":"bob:1"}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true},"session_id":"s2"}
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
            bob < PING {}
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
    "#]]);
    check(expect![[r#"
        limits window_bytes=1
        here: ann
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        bob stalls
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
        bob goes
        bob joins
            ann < NACK {"ack_id":"a1","code":"AGENT_OFFLINE","message":"Bob went away before it was delivered","to":"Bob"}
            ann < NACK {"ack_id":"a2","code":"AGENT_OFFLINE","message":"Bob went away before it was delivered","to":"Bob"}
            bob < WELCOME {"agent":"Bob"}
    "#]]);
}

#[test]
fn senders_are_notified_when_a_session_ends() {
    check(expect![[r#"
        limits resume_window_ms=1000
        here: ann
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        bob stalls
        ann> Bob: nobody comes for it
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"nobody comes for it"}
        bob goes
        wait 999
        wait 1
            ann < NACK {"ack_id":"a1","code":"AGENT_OFFLINE","message":"Bob went away before it was delivered","to":"Bob"}
    "#]]);
    check(expect![[r#"
        limits resume_window_ms=1000
        here: ann
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        bob stalls
        ann> Bob: the daemon goes first
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"the daemon goes first"}
        bob goes
        stop upgrade
            ann < NACK {"ack_id":"a1","code":"AGENT_OFFLINE","message":"Bob went away before it was delivered","to":"Bob"}
            ann < BYE {"reason":"upgrade"}
            ann close Stopping
    "#]]);
}

#[test]
fn resume_after_hello_replays_missed_messages_in_order() {
    check(expect![[r#"
        here: ann
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        bob acks d2
        ann> Bob: 3
            bob < DELIVER d3 Ann -> Bob seq 3 {"body":"3"}
        ann>> Bob: 4
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
            bob < DELIVER d4 Ann -> Bob seq 4 requires_ack true {"body":"4"}
        ann> Bob #chat: another stream
            bob < DELIVER d5 Ann -> Bob #chat seq 1 {"body":"another stream"}
        bob goes
        bob joins {"capabilities":{"resume":true},"session":{"resume_token":"bob:1"}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true},"session_id":"s2"}
            bob < PING {}
            bob < DELIVER d4 Ann -> Bob seq 4 attempt 2 requires_ack true {"body":"4"}
        bob says RESUME {"streams":{"":{"last_seq":1}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":1,"peer":"Ann","server_last_seq":4,"topic":""}]}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 2 {"body":"2"}
            bob < DELIVER d3 Ann -> Bob seq 3 {"body":"3"}
            bob < DELIVER d4 Ann -> Bob seq 4 attempt 3 requires_ack true {"body":"4"}
        bob says RESUME {"streams":[{"topic":"chat","peer":"ann","last_seq":0},{"topic":"","peer":"Ann","last_seq":3},{"topic":"x","peer":"Ann","last_seq":9}]}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":0,"peer":"ann","server_last_seq":1,"topic":"chat"},{"last_seq":3,"peer":"Ann","server_last_seq":4,"topic":""},{"last_seq":9,"peer":"Ann","server_last_seq":0,"topic":"x"}]}
            bob < DELIVER d4 Ann -> Bob seq 4 attempt 4 requires_ack true {"body":"4"}
            bob < DELIVER d5 Ann -> Bob #chat seq 1 {"body":"another stream"}
        bob acks d4
        bob says RESUME {"streams":{"":{"last_seq":4}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":4,"peer":"Ann","server_last_seq":4,"topic":""}]}
    "#]]);
}

#[test]
fn resume_may_be_the_first_frame() {
    check(expect![[r#"
        here: ann
        bob joins {"capabilities":{"resume":true,"max_inflight":9}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":9,"resume":true,"supports_topics":true}}
        bob says SUBSCRIBE topic=build {}
            bob < ACK {"ack_id":"x"}
        ann> #build: 1
            bob < DELIVER d1 Ann -> Bob #build seq 1 originalTo "*" {"body":"1"}
        ann>> #build: 2
            ann < ACK {"ack_id":"a2","durability":"disk","recipients":1,"state":"accepted"}
            bob < DELIVER d2 Ann -> Bob #build seq 2 originalTo "*" requires_ack true {"body":"2"}
        bob goes
        ann>> #build: 3
            ann < ACK {"ack_id":"a3","durability":"disk","recipients":1,"state":"accepted"}
        bob connects
        bob says RESUME {"streams":{"build":{"last_seq":1}}}
            bob < NACK {"ack_id":"x","code":"UNAUTHORIZED","message":"a RESUME before HELLO needs `resume_token`; send HELLO"}
        bob says RESUME {"resume_token":"made up","streams":{"build":{"last_seq":1}}}
            bob < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; send HELLO","ref":"x"}
        bob says RESUME {"resume_token":"bob:1","agent":"Ann"}
            bob < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; send HELLO","ref":"x"}
        bob says RESUME {"resume_token":"bob:1","agent":"Bob","streams":7}
            bob < ERROR {"code":"INVALID","fatal":false,"message":"RESUME: `streams` is not an object or a list","ref":"x"}
        bob says RESUME {"resume_token":"bob:1","agent":"Bob","streams":{"build":{"last_seq":1}}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":9,"resume":true,"supports_topics":true},"session_id":"s2"}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":1,"peer":"Ann","server_last_seq":3,"topic":"build"}]}
            bob < PING {}
            bob < DELIVER d2 Ann -> Bob #build seq 2 attempt 2 originalTo "*" requires_ack true {"body":"2"}
            bob < DELIVER d3 Ann -> Bob #build seq 3 originalTo "*" requires_ack true {"body":"3"}
        ann> #build: 4
            bob < DELIVER d4 Ann -> Bob #build seq 4 originalTo "*" {"body":"4"}
        bob2 connects
        bob2 says RESUME {"resume_token":"bob:2"}
            bob < ERROR {"code":"SESSION_REPLACED","fatal":true,"message":"another connection took this session up"}
            bob close Fault(SessionReplaced)
            bob2 < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":9,"resume":true,"supports_topics":true},"session_id":"s2"}
            bob2 < SYNC {"session_id":"s2","streams":[]}
            bob2 < PING {}
            bob2 < DELIVER d2 Ann -> Bob #build seq 2 attempt 3 originalTo "*" requires_ack true {"body":"2"}
            bob2 < DELIVER d3 Ann -> Bob #build seq 3 attempt 2 originalTo "*" requires_ack true {"body":"3"}
        ann says RESUME {"streams":{"":{"last_seq":0}}}
            ann < SYNC {"session_id":"s1","streams":[]}
    "#]]);
}

#[test]
fn resume_beyond_the_replay_buffer_is_stale_and_keeps_the_token() {
    check(expect![[r#"
        limits replay_messages_max=2
        here: ann
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
        ann> Bob: 3
            bob < DELIVER d3 Ann -> Bob seq 3 {"body":"3"}
        bob says RESUME {"streams":{"":{"last_seq":0}}}
            bob < NACK {"ack_id":"x","code":"STALE","message":"messages of Ann on topic \"\" after 0 are not retained any more; go on without them, or send HELLO"}
        bob says RESUME {"streams":{"":{"last_seq":1}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":1,"peer":"Ann","server_last_seq":3,"topic":""}]}
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
            bob < DELIVER d3 Ann -> Bob seq 3 {"body":"3"}
        bob goes
        bob connects
        bob says RESUME {"resume_token":"bob:1","streams":{"":{"last_seq":0}}}
            bob < NACK {"ack_id":"x","code":"STALE","message":"messages of Ann on topic \"\" after 0 are not retained any more; go on without them, or send HELLO"}
        bob says HELLO {"agent":"Bob","capabilities":{"resume":true},"session":{"resume_token":"bob:1"}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true},"session_id":"s2"}
            bob < PING {}
        bob says RESUME {"streams":{"":{"last_seq":1}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":1,"peer":"Ann","server_last_seq":3,"topic":""}]}
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
            bob < DELIVER d3 Ann -> Bob seq 3 {"body":"3"}
    "#]]);
}

#[test]
fn fresh_session_gets_unacknowledged_messages_only() {
    check(expect![[r#"
        here: ann
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        bob goes
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 2 requires_ack true {"body":"2"}
        bob says RESUME {"streams":{"":{"last_seq":0}}}
            bob < NACK {"ack_id":"x","code":"STALE","message":"messages of Ann on topic \"\" after 0 are not retained any more; go on without them, or send HELLO"}
        bob says RESUME {"streams":{"":{"last_seq":1}}}
            bob < SYNC {"session_id":"s3","streams":[{"last_seq":1,"peer":"Ann","server_last_seq":2,"topic":""}]}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 3 requires_ack true {"body":"2"}
    "#]]);
}

#[test]
fn session_without_resume_gets_unacknowledged_messages_only() {
    check(expect![[r#"
        here: ann bob
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        bob says RESUME {"streams":{"":{"last_seq":0}}}
            bob < NACK {"ack_id":"x","code":"STALE","message":"messages of Ann on topic \"\" after 0 are not retained any more; go on without them, or send HELLO"}
        bob says RESUME {"streams":{"":{"last_seq":1}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":1,"peer":"Ann","server_last_seq":2,"topic":""}]}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 2 requires_ack true {"body":"2"}
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-1e070a1c","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus says RESUME {"streams":{}}
            gus < NACK {"ack_id":"x","code":"FORBIDDEN","message":"only an agent has a session to resume"}
    "#]]);
}

#[test]
fn expired_messages_are_not_replayed_and_not_stale() {
    check(expect![[r#"
        here: ann
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        ann> Bob 50ms: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
        wait 60
        bob says RESUME {"streams":{"":{"last_seq":0}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":2,"topic":""}]}
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
    "#]]);
}

#[test]
fn replay_buffer_gives_way_to_new_messages() {
    check(expect![[r#"
        limits memory_bytes_max=3000
        here: ann cid
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        ann> Bob: x*1100
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"x*1100"}
        ann> Cid: x*1100
            cid < DELIVER d2 Ann -> Cid seq 1 {"body":"x*1100"}
        bob says RESUME {"streams":{"":{"last_seq":0}}}
            bob < NACK {"ack_id":"x","code":"STALE","message":"messages of Ann on topic \"\" after 0 are not retained any more; go on without them, or send HELLO"}
    "#]]);
}

#[test]
fn sync_too_large_for_a_frame_is_refused() {
    check(expect![[r#"
        limits frame_bytes_max=1000
        here: ann bob
        bob says RESUME {"streams":[{"topic":"a-long-topic","peer":"Ann","last_seq":0},{"topic":"a-long-topic","peer":"Ann","last_seq":0},{"topic":"a-long-topic","peer":"Ann","last_seq":0},{"topic":"a-long-topic","peer":"Ann","last_seq":0},{"topic":"a-long-topic","peer":"Ann","last_seq":0},{"topic":"a-long-topic","peer":"Ann","last_seq":0},{"topic":"a-long-topic","peer":"Ann","last_seq":0},{"topic":"a-long-topic","peer":"Ann","last_seq":0},{"topic":"a-long-topic","peer":"Ann","last_seq":0},{"topic":"a-long-topic","peer":"Ann","last_seq":0},{"topic":"a-long-topic","peer":"Ann","last_seq":0},{"topic":"a-long-topic","peer":"Ann","last_seq":0}]}
            bob < NACK {"ack_id":"x","code":"TOO_LARGE","message":"the SYNC would be larger than max_frame_bytes (1000); name fewer streams"}
    "#]]);
}

#[test]
fn sessions_survive_a_crash_of_the_daemon() {
    check(expect![[r#"
        here: ann cid
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        bob says SUBSCRIBE topic=build.* {}
            bob < ACK {"ack_id":"x"}
        cid goes
        ann>> #build.x: 1
            ann < ACK {"ack_id":"a1","durability":"disk","recipients":1,"state":"accepted"}
            bob < DELIVER d1 Ann -> Bob #build.x seq 1 originalTo "*" requires_ack true {"body":"1"}
        ann>> #build.x: 2
            ann < ACK {"ack_id":"a2","durability":"disk","recipients":1,"state":"accepted"}
            bob < DELIVER d2 Ann -> Bob #build.x seq 2 originalTo "*" requires_ack true {"body":"2"}
        ann>> #build.x: 3
            ann < ACK {"ack_id":"a3","durability":"disk","recipients":1,"state":"accepted"}
            bob < DELIVER d3 Ann -> Bob #build.x seq 3 originalTo "*" requires_ack true {"body":"3"}
        bob acks d2
        crash
        here: ann
        ann>> #build.x: 4
            ann < ACK {"ack_id":"a1","durability":"disk","recipients":1,"state":"accepted"}
        bob connects
        bob says RESUME {"resume_token":"bob:1","streams":{"build.x":{"last_seq":0}}}
            bob < NACK {"ack_id":"x","code":"STALE","message":"messages of Ann on topic \"build.x\" after 0 are not retained any more; go on without them, or send HELLO"}
        bob says RESUME {"resume_token":"bob:1","streams":{"build.x":{"last_seq":2}}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true},"session_id":"s3"}
            bob < SYNC {"session_id":"s3","streams":[{"last_seq":2,"peer":"Ann","server_last_seq":1025,"topic":"build.x"}]}
            bob < PING {}
            bob < DELIVER d1 Ann -> Bob #build.x seq 1 attempt 2 originalTo "*" requires_ack true {"body":"1"}
            bob < DELIVER d3 Ann -> Bob #build.x seq 3 attempt 2 originalTo "*" requires_ack true {"body":"3"}
            bob < DELIVER d4 Ann -> Bob #build.x seq 1025 originalTo "*" requires_ack true {"body":"4"}
        cid joins {"session":{"resume_token":"cid:1"}}
            cid < WELCOME {"agent":"Cid","session_id":"s2"}
            cid < PING {}
    "#]]);
}

#[test]
fn resume_window_continues_over_a_crash() {
    check(expect![[r#"
        limits resume_window_ms=1000
        here: ann bob
        bob goes
        wait 600
        disk shows
        crash
            keep Ann away
            keep session of agent 1 with [] until 2600
        wait 500
            keep session of agent 2 ended
        ann joins {"session":{"resume_token":"ann:1"}}
            keep Ann here
            keep session of agent 1 with []
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        bob joins {"session":{"resume_token":"bob:1"}}
            bob < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; this is a fresh session","ref":"h"}
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
    "#]]);
}

#[test]
fn token_before_holds_until_the_client_has_proved_that_it_got_its_welcome() {
    check(expect![[r#"
        here: ann bob
        bob says SUBSCRIBE topic=build {}
            bob < ACK {"ack_id":"x"}
        bob goes
        ann>> Bob: waits
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        bob joins {"session":{"resume_token":"bob:1"}}
            bob < WELCOME {"agent":"Bob","session_id":"s2"}
            bob < PING {}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"waits"}
        bob goes
        bob joins {"session":{"resume_token":"bob:1"}}
            bob < WELCOME {"agent":"Bob","session_id":"s2"}
            bob < PING {}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"waits"}
        bob pongs
        bob goes
        cid connects
        cid says RESUME {"agent":"Bob","resume_token":"bob:2"}
            cid < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; send HELLO","ref":"x"}
        dan connects
        dan says RESUME {"agent":"Bob","resume_token":"bob:1"}
            dan < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; send HELLO","ref":"x"}
        bob joins {"session":{"resume_token":"bob:3"}}
            bob < WELCOME {"agent":"Bob","session_id":"s2"}
            bob < PING {}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 3 requires_ack true {"body":"waits"}
    "#]]);
}

#[test]
fn notice_waits_for_the_proof_that_its_agent_is_back() {
    check(expect![[r#"
        here: ann bob
        bob goes
        ann>> Bob 60ms: expires
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann goes
        wait 100
        ann joins {"session":{"resume_token":"ann:1"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann goes
        ann joins {"session":{"resume_token":"ann:1"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann says PONG {"nonce":"guessed"}
        ann pongs
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
    "#]]);
}

#[test]
fn welcome_waits_until_its_token_is_stored_but_not_for_a_store_that_fails() {
    check(expect![[r#"
        here: bob
        disk holds
        ann joins
        bob> Ann: behind WELCOME
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-ab4afccc","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        disk keeps
            ann < WELCOME {"agent":"Ann"}
            ann < DELIVER d1 Bob -> Ann seq 1 {"body":"behind WELCOME"}
        disk holds
        cid joins
        disk fails
            cid < WELCOME {"agent":"Cid"}
        disk holds
        dan joins
        stop
            bob < BYE {"reason":"stop"}
            bob close Stopping
            ann < BYE {"reason":"stop"}
            ann close Stopping
            gus < BYE {"reason":"stop"}
            gus close Stopping
            cid < BYE {"reason":"stop"}
            cid close Stopping
            dan < WELCOME {"agent":"Dan"}
            dan < BYE {"reason":"stop"}
            dan close Stopping
    "#]]);
}

#[test]
fn tokens_before_and_after_a_welcome_resume_after_a_crash() {
    check(expect![[r#"
        here: ann bob
        ann goes
        ann joins {"session":{"resume_token":"ann:1"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        crash
        ann joins {"session":{"resume_token":"ann:2"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        crash
        ann joins {"session":{"resume_token":"ann:2"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
        crash
        ann joins {"session":{"resume_token":"ann:2"}}
            ann < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; this is a fresh session","ref":"h"}
            ann < WELCOME {"agent":"Ann"}
    "#]]);
}

#[test]
fn name_is_kept_for_its_session_for_3_s_after_a_start() {
    check(expect![[r#"
        here: ann bob cid
        cid says BYE {}
            cid close Bye
        crash
        ann2 joins {"auth":{}}
            ann2 waits
        ann3 joins {"auth":{}}
            ann3 waits
        bob2 joins {"auth":{}}
            bob2 waits
        cid joins {"auth":{}}
            cid < WELCOME {"agent":"Cid"}
        ann joins {"session":{"resume_token":"ann:1"},"auth":{}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        wait 2999
        wait 1
            bob2 goes on
            bob2 < WELCOME {"agent":"Bob"}
        wait 250
            ann2 < ERROR {"code":"NAME_IN_USE","fatal":true,"message":"Ann is connected already; choose another name, or end that one"}
            ann2 close Fault(NameInUse)
            ann3 < ERROR {"code":"NAME_IN_USE","fatal":true,"message":"Ann is connected already; choose another name, or end that one"}
            ann3 close Fault(NameInUse)
    "#]]);
    check(expect![[r#"
        here: ann
        crash
        ann2 joins {"auth":{}}
            ann2 waits
        ann joins {"auth":{"key":"open"}}
            ann < WELCOME {"agent":"Ann"}
        wait 3250
            ann2 < ERROR {"code":"NAME_IN_USE","fatal":true,"message":"Ann is connected already; choose another name, or end that one"}
            ann2 close Fault(NameInUse)
    "#]]);
}
