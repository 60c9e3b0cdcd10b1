//! Streams and subscriptions in great numbers, and idle streams that are closed to make room.

use super::script::{check, cost_of_last};
use expect_test::expect;

#[test]
fn end_of_a_name_is_linear_in_its_streams() {
    const MANY: u64 = 2_000;
    for end in ["gus goes", "bob goes\nwait 1"] {
        let script = ["limits mailbox_days=0", "here: bob", r#"gus joins {"mode":"guest"}"#];
        let mut lines = script.map(str::to_owned).to_vec();
        lines.extend((0..MANY).map(|number| format!("gus> Bob #job.{number}: x")));
        lines.extend(end.lines().map(str::to_owned));
        let steps = cost_of_last(&lines).steps;
        assert!(steps < 100 * MANY, "{end:?} takes {steps}");
    }
}

#[test]
fn end_of_a_session_is_independent_of_other_subscriptions() {
    const MANY: u64 = 100;
    let mut lines = Vec::new();
    for agent in 0..40 {
        lines.push(format!(r#"a{agent} joins {{"agent":"A{agent}"}}"#));
        lines.extend((0..MANY).map(|of| format!("a{agent} says SUBSCRIBE topic=*.{of} {{}}")));
    }
    lines.push(r#"a39 says BYE {"reason":"done"}"#.to_owned());
    let steps = cost_of_last(&lines).steps;
    assert!(steps < 10 * MANY, "it takes {steps}");
}

#[test]
fn resume_below_the_floor_of_a_closed_stream_is_stale() {
    check(expect![[r#"
        limits streams_max=1
        here: ann bob cid
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
        ann> Cid: in its place
            cid < DELIVER d3 Ann -> Cid seq 3 {"body":"in its place"}
        bob says RESUME {"streams":[{"topic":"","peer":"Ann","last_seq":1}]}
            bob < NACK {"ack_id":"x","code":"STALE","message":"messages of Ann on topic \"\" after 1 are not retained any more; go on without them, or send HELLO"}
        bob says RESUME {"streams":[{"topic":"","peer":"Ann","last_seq":2}]}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":2,"peer":"Ann","server_last_seq":0,"topic":""}]}
        ann> Bob: open again
            bob < DELIVER d4 Ann -> Bob seq 4 {"body":"open again"}
        bob says RESUME {"streams":[{"topic":"","peer":"Ann","last_seq":1}]}
            bob < NACK {"ack_id":"x","code":"STALE","message":"messages of Ann on topic \"\" after 1 are not retained any more; go on without them, or send HELLO"}
        bob says RESUME {"streams":[{"topic":"","peer":"Ann","last_seq":4}]}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":4,"peer":"Ann","server_last_seq":4,"topic":""}]}
    "#]]);
}

#[test]
fn longest_silent_stream_is_closed_and_its_numbers_are_not_reused() {
    check(expect![[r#"
        limits streams_max=3
        here: ann bob cid
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
        ann> Cid: 1
            cid < DELIVER d3 Ann -> Cid seq 1 {"body":"1"}
        disk shows
        ann> Bob #t: above those
            keep stream 1→0 "" up to 2
            keep stream 1 ended
            keep stream 1→2 "t" up to 1026
            bob < DELIVER d4 Ann -> Bob #t seq 3 {"body":"above those"}
        ann> Cid #t: above those
            keep stream 2 ended
            keep stream 1→3 "t" up to 1026
            cid < DELIVER d5 Ann -> Cid #t seq 3 {"body":"above those"}
        ann> Bob: above those
            keep stream 1→0 "" up to 3
            keep stream 4 ended
            keep stream 1→2 "" up to 1027
            bob < DELIVER d6 Ann -> Bob seq 4 {"body":"above those"}
        cid> Ann: his first
            keep stream 3→1 "" up to 1024
            ann < DELIVER d7 Cid -> Ann seq 1 {"body":"his first"}
        bob says RESUME {"streams":[{"topic":"","peer":"Ann","last_seq":2}]}
            bob < NACK {"ack_id":"x","code":"STALE","message":"messages of Ann on topic \"\" after 2 are not retained any more; go on without them, or send HELLO"}
        cid says RESUME {"streams":[{"topic":"","peer":"Ann","last_seq":1}]}
            cid < SYNC {"session_id":"s3","streams":[{"last_seq":1,"peer":"Ann","server_last_seq":0,"topic":""}]}
    "#]]);
}

#[test]
fn stream_with_messages_stays_open() {
    check(expect![[r#"
        limits streams_max=5
        here: ann bob cid
        dan joins {"capabilities":{"ack":true,"resume":true,"max_inflight":9,"supports_topics":true}}
            dan < WELCOME {"agent":"Dan","capabilities":{"ack":true,"max_inflight":9,"resume":true,"supports_topics":true}}
        ann>> Bob: on the way
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"on the way"}
        cid goes
        ann>> Cid: in a mailbox
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        ann> Dan: at hand
            dan < DELIVER d2 Ann -> Dan seq 1 {"body":"at hand"}
        ann> Bob #t: no room
            ann < NACK {"ack_id":"a4","code":"LIMIT","message":"3 of 5 streams are open, and the sender's share of them is used up"}
        dan goes
        dan joins {"session":{"resume_token":"dan:1"},"capabilities":{"ack":true,"resume":true,"max_inflight":9,"supports_topics":true}}
            dan < WELCOME {"agent":"Dan","capabilities":{"ack":true,"max_inflight":9,"resume":true,"supports_topics":true},"session_id":"s4"}
            dan < PING {}
        dan says RESUME {"streams":[{"topic":"","peer":"Ann","last_seq":0}]}
            dan < SYNC {"session_id":"s4","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":1,"topic":""}]}
            dan < DELIVER d2 Ann -> Dan seq 1 {"body":"at hand"}
        bob acks d1
        ann> Bob #t: not looked at again so soon
            ann < NACK {"ack_id":"a5","code":"LIMIT","message":"3 of 5 streams are open, and the sender's share of them is used up"}
        wait 1000
        ann> Bob #t: room
            bob < DELIVER d3 Ann -> Bob #t seq 2 {"body":"room"}
    "#]]);
}

#[test]
fn floors_of_closed_streams_survive_a_crash() {
    check(expect![[r#"
        limits streams_max=1
        here: ann bob cid
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
        ann> Cid: 3
            cid < DELIVER d3 Ann -> Cid seq 3 {"body":"3"}
        cid> Ann: his own
            ann < DELIVER d4 Cid -> Ann seq 1 {"body":"his own"}
        ann goes
        crash
        here: ann bob cid
        ann> Bob: above 3
            bob < DELIVER d5 Ann -> Bob seq 4 {"body":"above 3"}
        ann goes
        crash
        bob joins
            bob < WELCOME {"agent":"Bob","session_id":"s4"}
        cid joins
            cid < WELCOME {"agent":"Cid","session_id":"s5"}
        ann joins
            ann < WELCOME {"agent":"Ann","session_id":"s6"}
        ann> Bob: above what may have been given
            bob < DELIVER d5 Ann -> Bob seq 1028 {"body":"above what may have been given"}
        ann> Cid: above that
            cid < DELIVER d6 Ann -> Cid seq 1029 {"body":"above that"}
    "#]]);
}

#[test]
fn floors_of_closed_streams_are_stored_again_after_a_loss() {
    check(expect![[r#"
        limits streams_max=1
        here: ann bob
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        bob> Ann: 1
            ann < DELIVER d2 Bob -> Ann seq 1 {"body":"1"}
        disk shows
        disk loses
            keep Ann here
            keep session of agent 1 with []
            keep stream 1→0 "" up to 1
            keep Bob here
            keep session of agent 2 with []
            keep stream 2→1 "" up to 1024
    "#]]);
}

#[test]
fn forgotten_name_leaves_no_floor() {
    check(expect![[r#"
        limits mailbox_days=0 streams_max=1
        here: ann bob
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob #t: 2
            bob < DELIVER d2 Ann -> Bob #t seq 2 {"body":"2"}
        disk shows
        ann goes
            keep session of agent 1 with [] until 601000
            keep Ann away
        wait 1
            keep stream 3 ended
            keep stream 2 ended
            keep agent 1 forgotten
        ann joins
            keep Ann here
            keep session of agent 3 with []
            ann < WELCOME {"agent":"Ann"}
        ann> Bob: her first
            keep stream 3→2 "" up to 1024
            bob < DELIVER d3 Ann -> Bob seq 1 {"body":"her first"}
    "#]]);
}

#[test]
fn guest_stream_numbers_are_not_reused() {
    check(expect![[r#"
        limits streams_max=1
        here: bob
        disk shows
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus> Bob: 1
            bob < DELIVER d1 @guest-ef842070 -> Bob seq 1 {"body":"1"}
        gus> Bob #t: 2
            bob < DELIVER d2 @guest-ef842070 -> Bob #t seq 2 {"body":"2"}
        gus>> Bob: 3
            keep stream 2→1 "" up to 0
            keep g3 for [Bob#3 attempts 1], 0 left
            gus < ACK {"ack_id":"g3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 @guest-ef842070 -> Bob seq 3 requires_ack true {"body":"3"}
        bob acks d3
            keep delivery 3: Acknowledged
        gus> Bob #t: 4
            keep stream 1 ended
            bob < DELIVER d4 @guest-ef842070 -> Bob #t seq 4 {"body":"4"}
        gus goes
            keep agent 2 forgotten
    "#]]);
}

#[test]
fn redelivered_dead_letter_uses_the_reopened_stream() {
    check(expect![[r#"
        limits streams_max=1
        here: ann bob op
        bob goes
        ann>> Bob 50ms: 1
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        wait 50
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        ann> Ann: 2
            ann < DELIVER d1 Ann -> Ann seq 2 {"body":"2"}
        disk shows
        op asks redeliver {"id":"a1"}
            keep stream 1→0 "" up to 2
            keep stream 3 ended
            keep stream 1→2 "" up to 2
            keep delivery 1 revived
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"redeliver","data":{"redelivered":1},"kind":"response"}
        ann>> Bob: 3
            keep stream 1→2 "" up to 1026
            keep a3 for [Bob#3 attempts 0], 0 left
            ann < ACK {"ack_id":"a3","away":true,"durability":"disk","state":"accepted"}
        crash
            keep Ann away
            keep session of agent 1 with [] until 601050
        bob joins
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
            keep delivery 1: 1 attempts, 0 failures
            bob < DELIVER d3 Ann -> Bob seq 1 requires_ack true {"body":"1"}
            keep delivery 3: 1 attempts, 0 failures
            bob < DELIVER d4 Ann -> Bob seq 3 requires_ack true {"body":"3"}
        bob acks d3
            keep delivery 1: Acknowledged
        bob acks d4
            keep delivery 3: Acknowledged
    "#]]);
}
