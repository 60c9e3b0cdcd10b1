//! Requests to `@relay` about messages, and the redelivery of dead letters.

use super::script::{check, run};
use expect_test::expect;

#[test]
fn message_request_shows_each_state_of_a_delivery() {
    check(expect![[r#"
        here: ann bob op
        bob goes
        disk holds
        ann>> Bob #t: hello
        op asks inbox {"of":"Bob"}
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"hello","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"Bob","topic":"t","waits_for":"store"}]},"kind":"response"}
        ann asks message {"id":"a1"}
        disk keeps
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
            ann < DELIVER d3 @relay -> Ann seq 1 {"body":"message","data":{"messages":[{"attempts":0,"body":"hello","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"Bob","topic":"t","waits_for":"recipient"}]},"kind":"response"}
        ann asks message {"id":"a1"}
            ann < DELIVER d4 @relay -> Ann seq 2 {"body":"message","data":{"messages":[{"attempts":0,"body":"hello","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"Bob","topic":"t","waits_for":"recipient"}]},"kind":"response"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d1 Ann -> Bob #t seq 1 requires_ack true {"body":"hello"}
        bob asks report {"id":"d1","state":"injected","why":"typed"}
            bob < DELIVER d5 @relay -> Bob seq 1 {"body":"report","data":{},"kind":"response"}
        ann asks message {"id":"d1"}
            ann < DELIVER d6 @relay -> Ann seq 3 {"body":"message","data":{"messages":[{"attempts":1,"body":"hello","expires":87401000,"failures":0,"from":"Ann","id":"d1","reported":{"at":1001000,"state":"injected","why":"typed"},"send_id":"a1","seq":1,"state":"injected","to":"Bob","topic":"t"}]},"kind":"response"}
        ann asks report {"id":"d1","state":"confirmed"}
            ann < NACK {"ack_id":"q","code":"FORBIDDEN","message":"only its recipient reports about a delivery"}
        bob asks report {"id":"d1","state":"eaten"}
            bob < NACK {"ack_id":"q","code":"INVALID","message":"the state of a report is one of waiting, injected, confirmed"}
        bob nacks d1 100
        ann asks message {"id":"a1"}
            ann < DELIVER d7 @relay -> Ann seq 4 {"body":"message","data":{"messages":[{"attempts":1,"body":"hello","expires":87401000,"failures":1,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"Bob","topic":"t","until":1001100,"waits_for":"rest"}]},"kind":"response"}
        wait 100
            bob < DELIVER d1 Ann -> Bob #t seq 1 attempt 2 requires_ack true {"body":"hello"}
        bob acks d1
        ann asks message {"id":"a1"}
            ann < DELIVER d8 @relay -> Ann seq 5 {"body":"message","data":{"messages":[{"attempts":2,"body":"hello","ended":1001100,"failures":1,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"acknowledged","to":"Bob","topic":"t"}]},"kind":"response"}
        bob asks report {"id":"d1","state":"confirmed"}
            bob < DELIVER d9 @relay -> Bob seq 2 {"body":"report","data":{},"kind":"response"}
        ann asks message {"id":"a1"}
            ann < DELIVER d10 @relay -> Ann seq 6 {"body":"message","data":{"messages":[{"attempts":2,"body":"hello","ended":1001100,"failures":1,"from":"Ann","id":"d1","reported":{"at":1001100,"state":"confirmed"},"send_id":"a1","seq":1,"state":"acknowledged","to":"Bob","topic":"t"}]},"kind":"response"}
        ann asks report {"id":"d1","state":"waiting"}
            ann < NACK {"ack_id":"q","code":"FORBIDDEN","message":"only its recipient reports about a delivery"}
        ann asks message {"id":"nobody's"}
            ann < NACK {"ack_id":"q","code":"NOT_FOUND","message":"\"nobody's\" is not a message's id, or that message is no longer kept"}
    "#]]);
}

#[test]
fn delivery_that_its_recipient_has_not_typed_is_waiting_with_the_reported_reason() {
    check(expect![[r#"
        here: ann op
        bob joins {"capabilities":{"reports":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"reports":true,"resume":false,"supports_topics":true}}
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"one"}
        ann>> Bob: two
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"two"}
        op asks inbox {"of":"Bob"}
            op < DELIVER d3 @relay -> @operator seq 1 {"body":"inbox","data":{"messages":[{"attempts":1,"body":"one","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"Bob","waits_for":"agent"},{"attempts":1,"body":"two","expires":87401000,"failures":0,"from":"Ann","id":"d2","send_id":"a2","seq":2,"state":"waiting","to":"Bob","waits_for":"agent"}]},"kind":"response"}
        bob asks report {"id":"d1","state":"waiting","why":"a line is half typed"}
            bob < DELIVER d4 @relay -> Bob seq 1 {"body":"report","data":{},"kind":"response"}
        op asks inbox {"of":"Bob"}
            op < DELIVER d5 @relay -> @operator seq 2 {"body":"inbox","data":{"messages":[{"attempts":1,"body":"one","expires":87401000,"failures":0,"from":"Ann","id":"d1","reported":{"at":1001000,"state":"waiting","why":"a line is half typed"},"send_id":"a1","seq":1,"state":"waiting","to":"Bob","waits_for":"agent","why":"a line is half typed"},{"attempts":1,"body":"two","expires":87401000,"failures":0,"from":"Ann","id":"d2","send_id":"a2","seq":2,"state":"waiting","to":"Bob","waits_for":"agent"}]},"kind":"response"}
        op asks agents
            op < DELIVER d6 @relay -> @operator seq 3 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Bob","queued":2,"queued_bytes":1174,"session":"s-3f55abebab4afccc","since":1001000,"subscriptions":0,"waiting":2,"why":"a line is half typed","why_since":1001000}]},"kind":"response"}
        bob asks report {"id":"d1","state":"injected"}
            bob < DELIVER d7 @relay -> Bob seq 2 {"body":"report","data":{},"kind":"response"}
        op asks agents
            op < DELIVER d8 @relay -> @operator seq 4 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":1,"name":"Bob","queued":2,"queued_bytes":1174,"session":"s-3f55abebab4afccc","since":1001000,"subscriptions":0,"waiting":1}]},"kind":"response"}
        bob acks d1
        op asks agents
            op < DELIVER d9 @relay -> @operator seq 5 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Bob","queued":1,"queued_bytes":587,"session":"s-3f55abebab4afccc","since":1001000,"subscriptions":0,"waiting":1}]},"kind":"response"}
    "#]]);
}

#[test]
fn reason_is_forgotten_when_the_delivery_is_returned_or_its_recipient_leaves() {
    check(expect![[r#"
        here: ann bob op
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"one"}
        bob asks report {"id":"d1","state":"waiting","why":"held"}
            bob < DELIVER d2 @relay -> Bob seq 1 {"body":"report","data":{},"kind":"response"}
        bob nacks d1 100
        bob asks report {"id":"d1","state":"waiting","why":"too late"}
            bob < DELIVER d3 @relay -> Bob seq 2 {"body":"report","data":{},"kind":"response"}
        ann asks message {"id":"d1"}
            ann < DELIVER d4 @relay -> Ann seq 1 {"body":"message","data":{"messages":[{"attempts":1,"body":"one","expires":87401000,"failures":1,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"Bob","until":1001100,"waits_for":"rest"}]},"kind":"response"}
        wait 100
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"one"}
        ann asks message {"id":"d1"}
            ann < DELIVER d5 @relay -> Ann seq 2 {"body":"message","data":{"messages":[{"attempts":2,"body":"one","expires":87401000,"failures":1,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"Bob","waits_for":"agent"}]},"kind":"response"}
        bob asks report {"id":"d1","state":"waiting","why":"held again"}
            bob < DELIVER d6 @relay -> Bob seq 3 {"body":"report","data":{},"kind":"response"}
        ann asks message {"id":"d1"}
            ann < DELIVER d7 @relay -> Ann seq 3 {"body":"message","data":{"messages":[{"attempts":2,"body":"one","expires":87401000,"failures":1,"from":"Ann","id":"d1","reported":{"at":1001100,"state":"waiting","why":"held again"},"send_id":"a1","seq":1,"state":"waiting","to":"Bob","waits_for":"agent","why":"held again"}]},"kind":"response"}
        bob goes
        ann asks message {"id":"d1"}
            ann < DELIVER d8 @relay -> Ann seq 4 {"body":"message","data":{"messages":[{"attempts":2,"body":"one","expires":87401000,"failures":2,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"Bob","waits_for":"recipient"}]},"kind":"response"}
        op asks agents
            op < DELIVER d9 @relay -> @operator seq 1 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Bob","queued":1,"queued_bytes":587,"since":1001100,"subscriptions":0,"waiting":1}]},"kind":"response"}
        bob joins {"capabilities":{"reports":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"reports":true,"resume":false,"supports_topics":true}}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 3 requires_ack true {"body":"one"}
        ann asks message {"id":"d1"}
            ann < DELIVER d10 @relay -> Ann seq 5 {"body":"message","data":{"messages":[{"attempts":3,"body":"one","expires":87401000,"failures":2,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"Bob","waits_for":"agent"}]},"kind":"response"}
    "#]]);
}

#[test]
fn late_report_does_not_bring_back_the_reason_of_a_delivery_that_is_over() {
    check(expect![[r#"
        here: ann bob op
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"one"}
        bob asks report {"id":"d1","state":"waiting","why":"held"}
            bob < DELIVER d2 @relay -> Bob seq 1 {"body":"report","data":{},"kind":"response"}
        bob acks d1
        ann asks message {"id":"d1"}
            ann < DELIVER d3 @relay -> Ann seq 1 {"body":"message","data":{"messages":[{"attempts":1,"body":"one","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"acknowledged","to":"Bob"}]},"kind":"response"}
        bob asks report {"id":"d1","state":"waiting","why":"too late"}
            bob < DELIVER d4 @relay -> Bob seq 2 {"body":"report","data":{},"kind":"response"}
        ann asks message {"id":"d1"}
            ann < DELIVER d5 @relay -> Ann seq 2 {"body":"message","data":{"messages":[{"attempts":1,"body":"one","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"acknowledged","to":"Bob"}]},"kind":"response"}
        bob asks report {"id":"d1","state":"confirmed"}
            bob < DELIVER d6 @relay -> Bob seq 3 {"body":"report","data":{},"kind":"response"}
        bob asks report {"id":"d1","state":"injected"}
            bob < DELIVER d7 @relay -> Bob seq 4 {"body":"report","data":{},"kind":"response"}
        ann asks message {"id":"d1"}
            ann < DELIVER d8 @relay -> Ann seq 3 {"body":"message","data":{"messages":[{"attempts":1,"body":"one","ended":1001000,"failures":0,"from":"Ann","id":"d1","reported":{"at":1001000,"state":"confirmed"},"send_id":"a1","seq":1,"state":"acknowledged","to":"Bob"}]},"kind":"response"}
        ann>> Bob 50ms: two
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d9 Ann -> Bob seq 2 requires_ack true {"body":"two"}
        bob asks report {"id":"d9","state":"waiting","why":"held"}
            bob < DELIVER d10 @relay -> Bob seq 5 {"body":"report","data":{},"kind":"response"}
        wait 50
            ann < NACK {"ack_id":"a2","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        bob asks report {"id":"d9","state":"waiting","why":"too late"}
            bob < DELIVER d11 @relay -> Bob seq 6 {"body":"report","data":{},"kind":"response"}
        ann asks message {"id":"a2"}
            ann < DELIVER d12 @relay -> Ann seq 4 {"body":"message","data":{"messages":[{"attempts":1,"body":"two","code":"EXPIRED","ended":1001050,"failures":0,"from":"Ann","id":"d9","reported":{"at":1001000,"state":"waiting","why":"held"},"send_id":"a2","seq":2,"state":"dead","to":"Bob","why":"its time to live ran out"}]},"kind":"response"}
        op asks redeliver {"id":"a2"}
            bob < DELIVER d9 Ann -> Bob seq 2 requires_ack true {"body":"two"}
            op < DELIVER d13 @relay -> @operator seq 1 {"body":"redeliver","data":{"redelivered":1},"kind":"response"}
        ann asks message {"id":"a2"}
            ann < DELIVER d14 @relay -> Ann seq 5 {"body":"message","data":{"messages":[{"attempts":1,"body":"two","expires":87401050,"failures":0,"from":"Ann","id":"d9","send_id":"a2","seq":2,"state":"waiting","to":"Bob","waits_for":"agent"}]},"kind":"response"}
    "#]]);
}

#[test]
fn inbox_says_why_a_message_waits() {
    check(expect![[r#"
        here: ann op
        bob joins {"capabilities":{"ack":true,"max_inflight":1}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":1,"resume":false,"supports_topics":true}}
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
        ann>> Bob: 3
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
        ann>> Bob #t: 4
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
        bob asks inbox
            bob < DELIVER d5 @relay -> Bob seq 1 {"body":"inbox","data":{"messages":[{"attempts":1,"body":"1","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"delivered","to":"Bob"},{"attempts":0,"body":"2","expires":87401000,"failures":0,"from":"Ann","id":"d2","send_id":"a2","seq":2,"state":"waiting","to":"Bob","waits_for":"window"},{"attempts":0,"body":"3","expires":87401000,"failures":0,"from":"Ann","id":"d3","send_id":"a3","seq":3,"state":"waiting","to":"Bob","waits_for":"turn"},{"attempts":0,"body":"4","expires":87401000,"failures":0,"from":"Ann","id":"d4","send_id":"a4","seq":1,"state":"waiting","to":"Bob","topic":"t","waits_for":"window"}]},"kind":"response"}
        op asks inbox {"of":"bob","limit":2}
            op < DELIVER d6 @relay -> @operator seq 1 {"body":"inbox","data":{"messages":[{"attempts":1,"body":"1","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"delivered","to":"Bob"},{"attempts":0,"body":"2","expires":87401000,"failures":0,"from":"Ann","id":"d2","send_id":"a2","seq":2,"state":"waiting","to":"Bob","waits_for":"window"}],"next_cursor":"2"},"kind":"response"}
        op asks inbox {"of":"bob","limit":2,"cursor":"2"}
            op < DELIVER d7 @relay -> @operator seq 2 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"3","expires":87401000,"failures":0,"from":"Ann","id":"d3","send_id":"a3","seq":3,"state":"waiting","to":"Bob","waits_for":"turn"},{"attempts":0,"body":"4","expires":87401000,"failures":0,"from":"Ann","id":"d4","send_id":"a4","seq":1,"state":"waiting","to":"Bob","topic":"t","waits_for":"window"}]},"kind":"response"}
        bob acks d1
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        bob nacks d2 1000
            bob < DELIVER d4 Ann -> Bob #t seq 1 requires_ack true {"body":"4"}
        bob asks inbox
            bob < DELIVER d8 @relay -> Bob seq 2 {"body":"inbox","data":{"messages":[{"attempts":1,"body":"2","expires":87401000,"failures":1,"from":"Ann","id":"d2","send_id":"a2","seq":2,"state":"waiting","to":"Bob","until":1002000,"waits_for":"rest"},{"attempts":0,"body":"3","expires":87401000,"failures":0,"from":"Ann","id":"d3","send_id":"a3","seq":3,"state":"waiting","to":"Bob","waits_for":"turn"},{"attempts":1,"body":"4","expires":87401000,"failures":0,"from":"Ann","id":"d4","send_id":"a4","seq":1,"state":"delivered","to":"Bob","topic":"t"}]},"kind":"response"}
    "#]]);
}

#[test]
fn redelivered_dead_letter_keeps_its_id_and_number() {
    check(expect![[r#"
        here: ann bob op
        bob goes
        ann>> Bob 50ms: first
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob: second
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        wait 50
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        op asks dead-letters
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"dead-letters","data":{"messages":[{"attempts":0,"body":"first","code":"EXPIRED","ended":1001050,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"dead","to":"Bob","why":"its time to live ran out"}]},"kind":"response"}
        op asks history {"dead":true}
            op < DELIVER d3 @relay -> @operator seq 2 {"body":"history","data":{"messages":[{"attempts":0,"body":"first","code":"EXPIRED","ended":1001050,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"dead","to":"Bob","why":"its time to live ran out"}]},"kind":"response"}
        disk shows
        op asks redeliver {"id":"a1"}
            keep delivery 1 revived
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"redeliver","data":{"redelivered":1},"kind":"response"}
        op asks redeliver {"id":"a1"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"it is no dead letter: it waits, or was acknowledged"}
        op asks dead-letters
            op < DELIVER d5 @relay -> @operator seq 4 {"body":"dead-letters","data":{"messages":[]},"kind":"response"}
        bob joins
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
            keep delivery 1: 1 attempts, 0 failures
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"first"}
            keep delivery 2: 1 attempts, 0 failures
            bob < DELIVER d6 Ann -> Bob seq 2 requires_ack true {"body":"second"}
        bob acks d1
            keep delivery 1: Acknowledged
        op asks redeliver {"id":"d1"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"it is no dead letter: it waits, or was acknowledged"}
        op asks redeliver {"id":"nobody's"}
            op < NACK {"ack_id":"q","code":"NOT_FOUND","message":"\"nobody's\" is not a message's id, or that message is no longer kept"}
    "#]]);
}

#[test]
fn dead_letter_acknowledged_during_lookup_is_not_redelivered() {
    check(expect![[r#"
        here: ann bob op
        ann>> Bob 50ms: late
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"late"}
        wait 50
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        disk holds
        op asks redeliver {"id":"a1"}
        bob acks d1
        disk finds
            op < NACK {"ack_id":"q","code":"INVALID","message":"it is no dead letter: it waits, or was acknowledged"}
        disk keeps
        op asks message {"id":"d1"}
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"message","data":{"messages":[{"attempts":1,"body":"late","ended":1001050,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"acknowledged","to":"Bob"}]},"kind":"response"}
    "#]]);
}

#[test]
fn redelivery_keeps_ttl_at_least_default() {
    check(expect![[r#"
        limits ttl_ms=100
        here: ann bob op
        bob goes
        ann>> Bob 50ms: hurry
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 500ms: patience
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        wait 500
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            ann < NACK {"ack_id":"a2","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        op asks redeliver {"id":"a1"}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"redeliver","data":{"redelivered":1},"kind":"response"}
        op asks redeliver {"id":"a2"}
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"redeliver","data":{"redelivered":1},"kind":"response"}
        wait 99
        wait 1
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        wait 399
        op asks inbox {"of":"Bob"}
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"patience","expires":1002000,"failures":0,"from":"Ann","id":"d3","send_id":"a2","seq":2,"state":"waiting","to":"Bob","waits_for":"recipient"}]},"kind":"response"}
        wait 1
            ann < NACK {"ack_id":"a2","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        ann asks message {"id":"a2"}
            ann < DELIVER d5 @relay -> Ann seq 1 {"body":"message","data":{"messages":[{"attempts":0,"body":"patience","code":"EXPIRED","ended":1002000,"failures":0,"from":"Ann","id":"d3","send_id":"a2","seq":2,"state":"dead","to":"Bob","why":"its time to live ran out"}]},"kind":"response"}
    "#]]);
}

#[test]
fn redelivered_dead_letter_of_a_gone_guest_ends_its_stream() {
    check(expect![[r#"
        here: bob op
        bob goes
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-3f55abeb","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Bob 50ms: one
            gus < ACK {"ack_id":"g1","away":true,"durability":"disk","state":"accepted"}
        gus>> Bob 50ms: two
            gus < ACK {"ack_id":"g2","away":true,"durability":"disk","state":"accepted"}
        gus goes
        wait 50
        here: ann
        disk shows
        op asks redeliver {"id":"g1"}
            keep stream 3→1 "" up to 0
            keep delivery 1 revived
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"redeliver","data":{"redelivered":1},"kind":"response"}
        op asks redeliver {"id":"g2"}
            keep delivery 2 revived
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"redeliver","data":{"redelivered":1},"kind":"response"}
        bob joins
            keep Bob here
            keep session of agent 1 with []
            bob < WELCOME {"agent":"Bob"}
            keep delivery 1: 1 attempts, 0 failures
            bob < DELIVER d3 @guest-3f55abeb -> Bob seq 1 requires_ack true {"body":"one"}
            keep delivery 2: 1 attempts, 0 failures
            bob < DELIVER d4 @guest-3f55abeb -> Bob seq 2 requires_ack true {"body":"two"}
        bob acks d3
            keep delivery 1: Acknowledged
        bob acks d4
            keep delivery 2: Acknowledged
            keep stream 1 ended
    "#]]);
}

#[test]
fn redelivered_dead_letter_of_a_forgotten_name_leaves_the_queue_as_it_came() {
    check(expect![[r#"
        here: ann bob op
        bob>> Ann: 1
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 Bob -> Ann seq 1 requires_ack true {"body":"1"}
        bob>> Ann: a longer one
            bob < ACK {"ack_id":"b2","durability":"disk","state":"accepted"}
            ann < DELIVER d2 Bob -> Ann seq 2 requires_ack true {"body":"a longer one"}
        ann nacks d2
            bob < NACK {"ack_id":"b2","code":"REFUSED","message":"Ann refused it: no","to":"Ann"}
        bob goes
        op asks forget {"name":"Bob"}
            op < DELIVER d3 @relay -> @operator seq 1 {"body":"forget","data":{},"kind":"response"}
        op asks redeliver {"id":"b2"}
            ann < DELIVER d2 Bob -> Ann seq 2 requires_ack true {"body":"a longer one"}
            op < DELIVER d4 @relay -> @operator seq 2 {"body":"redeliver","data":{"redelivered":1},"kind":"response"}
        ann acks d2
        ann acks d1
        op asks status
            op < DELIVER d5 @relay -> @operator seq 3 {"body":"status","data":{"agents_here":1,"agents_known":1,"connections":2,"counts":{"acknowledged":2,"busy":0,"delivered":3,"expired":0,"gave_up":0,"given_back":1,"refused":0,"taken":2},"guests":0,"memory_bytes":0,"memory_bytes_max":536870912,"messages":0,"protocol":"1.1","streams":0,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
    "#]]);
}

#[test]
fn redelivery_needs_its_recipient_and_space() {
    check(expect![[r#"
        limits queue_messages_max=2
        here: ann bob op
        bob goes
        ann>> Bob 50ms: one
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        wait 50
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        ann>> Bob: fills her half
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        op asks redeliver {"id":"a1"}
            op < NACK {"ack_id":"q","code":"LIMIT","message":"Bob has no room: 1 messages are in its queue; try again later"}
    "#]]);
    check(expect![[r#"
        limits mailbox_days=1 ttl_ms=1099511627776
        here: ann bob op
        bob goes
        ann>> Bob 50ms: one
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann goes
        wait 90000000
            op < PING {}
            op < ERROR {"code":"HEARTBEAT_TIMEOUT","fatal":true,"message":"no frame came for 10 s after a PING"}
            op close Fault(HeartbeatTimeout)
            op hang up
        here: cid
        op asks redeliver {"id":"a1"}
    "#]]);
}

#[test]
fn history_filters_by_name_topic_and_words() {
    check(expect![[r#"
        here: ann bob cid op
        ann>> Bob: alpha
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"alpha"}
        bob acks d1
        bob>> Cid #t: beta
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            cid < DELIVER d2 Bob -> Cid #t seq 1 requires_ack true {"body":"beta"}
        cid>> Ann: gamma
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            ann < DELIVER d3 Cid -> Ann seq 1 requires_ack true {"body":"gamma"}
        ann asks history
            ann < DELIVER d4 @relay -> Ann seq 1 {"body":"history","data":{"messages":[{"attempts":1,"body":"gamma","expires":87401000,"failures":0,"from":"Cid","id":"d3","send_id":"c1","seq":1,"state":"delivered","to":"Ann"},{"attempts":1,"body":"alpha","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"acknowledged","to":"Bob"}]},"kind":"response"}
        op asks history {"limit":2}
            op < DELIVER d5 @relay -> @operator seq 1 {"body":"history","data":{"messages":[{"attempts":1,"body":"gamma","expires":87401000,"failures":0,"from":"Cid","id":"d3","send_id":"c1","seq":1,"state":"delivered","to":"Ann"},{"attempts":1,"body":"beta","expires":87401000,"failures":0,"from":"Bob","id":"d2","send_id":"b1","seq":1,"state":"delivered","to":"Cid","topic":"t"}],"next_cursor":"2"},"kind":"response"}
        op asks history {"limit":2,"cursor":"2"}
            op < DELIVER d6 @relay -> @operator seq 2 {"body":"history","data":{"messages":[{"attempts":1,"body":"alpha","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"acknowledged","to":"Bob"}]},"kind":"response"}
        op asks history {"of":"bob","with":"CID"}
            op < DELIVER d7 @relay -> @operator seq 3 {"body":"history","data":{"messages":[{"attempts":1,"body":"beta","expires":87401000,"failures":0,"from":"Bob","id":"d2","send_id":"b1","seq":1,"state":"delivered","to":"Cid","topic":"t"}]},"kind":"response"}
        op asks history {"topic":"t"}
            op < DELIVER d8 @relay -> @operator seq 4 {"body":"history","data":{"messages":[{"attempts":1,"body":"beta","expires":87401000,"failures":0,"from":"Bob","id":"d2","send_id":"b1","seq":1,"state":"delivered","to":"Cid","topic":"t"}]},"kind":"response"}
        op asks history {"search":"gamma"}
            op < DELIVER d9 @relay -> @operator seq 5 {"body":"history","data":{"messages":[{"attempts":1,"body":"gamma","expires":87401000,"failures":0,"from":"Cid","id":"d3","send_id":"c1","seq":1,"state":"delivered","to":"Ann"}]},"kind":"response"}
        op asks history {"cursor":"x"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"a cursor is the `next_cursor` of the page before it"}
        op asks history {"of":"all"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"\"all\" is nobody's name: this name is reserved; choose another"}
        op asks inbox
            op < DELIVER d10 @relay -> @operator seq 6 {"body":"inbox","data":{"messages":[]},"kind":"response"}
        op asks inbox {"of":"Zoe"}
            op < NACK {"ack_id":"q","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here"}
    "#]]);
}

#[test]
fn pending_requests_are_answered_in_order_and_bounded() {
    check(expect![[r#"
        here: ann bob op
        disk holds
        op asks history
        op asks agents {"limit":"x"}
        op asks dead-letters
        op asks tap
        ann asks history
        bob goes
        disk keeps
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"history","data":{"messages":[]},"kind":"response"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"the data of \"agents\": `limit` is not a whole number from 0 to 18446744073709551615, in digits"}
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"dead-letters","data":{"messages":[]},"kind":"response"}
            op < DELIVER d3 @relay -> @operator seq 3 {"body":"tap","data":{},"kind":"response"}
            ann < DELIVER d4 @relay -> Ann seq 1 {"body":"history","data":{"messages":[]},"kind":"response"}
    "#]]);
    let long = format!("here: ann\nann asks history {{\"search\":\"{}\"}}", "x".repeat(2_048));
    assert!(run(&long).contains("it may be 2048 bytes long"));
    let script = format!("here: ann\ndisk holds\n{}disk keeps", "ann asks history\n".repeat(34));
    let transcript = run(&script);
    assert_eq!(transcript.matches("LIMIT").count(), 1, "{transcript}");
    assert_eq!(transcript.matches(r#""messages":[]"#).count(), 33, "{transcript}");
    for (words, refused) in [(32, false), (33, true)] {
        let text = "a ".repeat(words);
        let many = run(&format!("here: ann\nann asks history {{\"search\":\"{text}\"}}"));
        assert_eq!(many.contains("`search` has more than 32 words"), refused, "{many}");
    }
    // Four of 2 KiB may wait behind the first.
    let long = format!("ann asks history {{\"search\":\"{}\"}}\n", "x".repeat(2_000));
    let transcript = run(&format!("here: ann\ndisk holds\n{}", long.repeat(6)));
    assert_eq!(transcript.matches("LIMIT").count(), 1, "{transcript}");
}

#[test]
fn lookup_overtaken_by_a_change_is_repeated() {
    check(expect![[r#"
        here: ann bob
        ann>> Bob: x
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"x"}
        ann>> Bob: y
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"y"}
        disk holds
        ann asks message {"id":"a1"}
        bob acks d1
        disk finds
        disk keeps
            ann < DELIVER d3 @relay -> Ann seq 1 {"body":"message","data":{"messages":[{"attempts":1,"body":"x","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"acknowledged","to":"Bob"}]},"kind":"response"}
        disk holds
        ann asks message {"id":"a2"}
        bob acks d2
        disk finds
        disk finds
            ann < DELIVER d4 @relay -> Ann seq 2 {"body":"message","data":{"messages":[{"attempts":1,"body":"y","failures":0,"from":"Ann","id":"d2","send_id":"a2","seq":2,"state":"over","to":"Bob"}]},"kind":"response"}
        ann asks history
        ann asks agents {"limit":1}
        disk errs
            ann < NACK {"ack_id":"q","code":"STORE_FAILED","message":"the store could not answer the request: disk I/O error"}
            ann < DELIVER d5 @relay -> Ann seq 3 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0}],"next_cursor":"Ann"},"kind":"response"}
        disk keeps
    "#]]);
}

#[test]
fn long_answers_are_paged_within_a_frame() {
    let long = "x".repeat(6_000);
    let mut script = "limits frame_bytes_max=8192\nhere: ann bob op\nbob goes\n".to_owned();
    for _ in 0..8 {
        script.push_str(&format!("ann>> Bob: {}\n", "x".repeat(1_500)));
    }
    script.push_str(&format!("ann>> Bob: {long}\nop asks inbox {{\"of\":\"Bob\"}}\n"));
    script.push_str(
        "ann asks message {\"id\":\"a9\"}\nann asks message {\"id\":\"a9\",\"offset\":0}\n",
    );
    script.push_str("ann asks message {\"id\":\"a9\",\"offset\":6000}\n");
    script.push_str("ann asks message {\"id\":\"a9\",\"offset\":9999}");
    let transcript = run(&script);
    let answers: Vec<_> = transcript.lines().filter(|line| line.contains("response")).collect();
    assert!(answers[0].contains(r#""next_cursor":"3""#), "{transcript}");
    assert!(answers[1].contains(r#""truncated":true"#), "{transcript}");
    assert!(answers[2].contains(r#""next_offset":3072"#), "{transcript}");
    assert!(!answers[3].contains("next_offset"), "{transcript}");
    assert_eq!((answers.len(), transcript.matches("INVALID").count()), (4, 1), "{transcript}");
}

#[test]
fn agents_cut_off_by_a_crash_are_reconnecting_for_30_s() {
    check(expect![[r#"
        here: ann bob cid dan op
        bob goes
        dan says BYE {"reason":"done"}
            dan close Bye
        wait 2001
            dan hang up
        ann>> Cid: hello
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            cid < DELIVER d1 Ann -> Cid seq 1 requires_ack true {"body":"hello"}
        crash
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks agents
            op < DELIVER d2 @relay -> @operator seq 3073025 {"body":"agents","data":{"agents":[{"here":false,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"reconnecting":true,"since":1003001,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Bob","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Cid","queued":1,"queued_bytes":589,"reconnecting":true,"since":1003001,"subscriptions":0,"waiting":1},{"here":false,"in_flight":0,"name":"Dan","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        ann joins
            ann < WELCOME {"agent":"Ann"}
        ann goes
        wait 29999
            op < PING {}
            op < ERROR {"code":"HEARTBEAT_TIMEOUT","fatal":true,"message":"no frame came for 10 s after a PING"}
            op close Fault(HeartbeatTimeout)
            op hang up
        op2 joins
            op2 < WELCOME {"agent":"Op"}
        op2 asks agents
            op2 < DELIVER d3 @relay -> Op seq 3073025 {"body":"agents","data":{"agents":[{"here":false,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"since":1003001,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Bob","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Cid","queued":1,"queued_bytes":589,"reconnecting":true,"since":1003001,"subscriptions":0,"waiting":1},{"here":false,"in_flight":0,"name":"Dan","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Op","queued":0,"queued_bytes":0,"session":"s-b6728bfdb9e29391","since":1033000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        wait 1
        op2 asks agents
            op2 < DELIVER d4 @relay -> Op seq 3073026 {"body":"agents","data":{"agents":[{"here":false,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"since":1003001,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Bob","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Cid","queued":1,"queued_bytes":589,"since":1003001,"subscriptions":0,"waiting":1},{"here":false,"in_flight":0,"name":"Dan","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Op","queued":0,"queued_bytes":0,"session":"s-b6728bfdb9e29391","since":1033000,"subscriptions":0,"waiting":0}]},"kind":"response"}
    "#]]);
}

#[test]
fn agents_cut_off_by_a_stop_are_reconnecting_while_their_session_lasts() {
    check(expect![[r#"
        limits resume_window_ms=20000
        here: ann bob
        bob goes
        wait 2001
        stop upgrade
            ann < BYE {"reason":"upgrade"}
            ann close Stopping
        crash
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks agents
            op < DELIVER d1 @relay -> @operator seq 3073025 {"body":"agents","data":{"agents":[{"here":false,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"reconnecting":true,"since":1003001,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Bob","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        wait 20001
            op < PING {}
            op < ERROR {"code":"HEARTBEAT_TIMEOUT","fatal":true,"message":"no frame came for 10 s after a PING"}
            op close Fault(HeartbeatTimeout)
            op hang up
        op2 joins
            op2 < WELCOME {"agent":"Op"}
        op2 asks agents
            op2 < DELIVER d2 @relay -> Op seq 3073025 {"body":"agents","data":{"agents":[{"here":false,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"since":1003001,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Bob","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Op","queued":0,"queued_bytes":0,"session":"s-327ad600fa6774de","since":1023002,"subscriptions":0,"waiting":0}]},"kind":"response"}
    "#]]);
}

#[test]
fn id_that_several_agents_used_shows_each_its_own_and_is_not_redelivered() {
    check(expect![[r#"
        here: ann bob cid dan op
        ann says SEND id=same to=Bob meta={"requires_ack":true} {"body":"of Ann"}
            ann < ACK {"ack_id":"same","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"of Ann"}
        cid says SEND id=same to=Bob meta={"requires_ack":true} {"body":"of Cid"}
            cid < ACK {"ack_id":"same","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Cid -> Bob seq 1 requires_ack true {"body":"of Cid"}
        bob says NACK {"ack_id":"d1","code":"INVALID","message":"no"}
            ann < NACK {"ack_id":"same","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
        bob says NACK {"ack_id":"d2","code":"INVALID","message":"no"}
            cid < NACK {"ack_id":"same","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
        ann asks message {"id":"same"}
            ann < DELIVER d3 @relay -> Ann seq 1 {"body":"message","data":{"messages":[{"attempts":1,"body":"of Ann","code":"REFUSED","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"same","seq":1,"state":"dead","to":"Bob","why":"Bob refused it: no"}]},"kind":"response"}
        dan asks message {"id":"same"}
            dan < NACK {"ack_id":"q","code":"FORBIDDEN","message":"you are Dan: others' mail is for operators"}
        op asks redeliver {"id":"same"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"SENDs of 2 agents have the id \"same\": name a delivery's, such as b70df1ab, 21de6b0f"}
        op asks redeliver {"id":"d1"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"of Ann"}
            op < DELIVER d4 @relay -> @operator seq 1 {"body":"redeliver","data":{"redelivered":1},"kind":"response"}
    "#]]);
}
