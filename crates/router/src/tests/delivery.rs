//! At-least-once deliveries: acceptance, acknowledgement, return, failure, dedup.

use super::script::{check, run};
use expect_test::expect;

#[test]
fn message_is_accepted_delivered_and_acknowledged() {
    check(expect![[r#"
        here: ann bob
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"one"}
        bob acks d1
        bob acks d1
        bob says ACK {"ack_id":"nonsense"}
        ann acks d1
        bob goes
        bob joins
            bob < WELCOME {"agent":"Bob"}
    "#]]);
}

#[test]
fn mailbox_is_redelivered_until_acknowledged() {
    check(expect![[r#"
        here: ann bob
        bob goes
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob: two
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"one"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"two"}
        bob acks d1
        bob goes
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 2 requires_ack true {"body":"two"}
        bob goes
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 3 requires_ack true {"body":"two"}
        bob acks d2
        bob goes
        bob joins
            bob < WELCOME {"agent":"Bob"}
    "#]]);
}

#[test]
fn cumulative_ack_covers_deliveries_of_its_stream() {
    check(expect![[r#"
        here: ann
        bob joins {"capabilities":{"max_inflight":3}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":3,"resume":false,"supports_topics":true}}
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob #t: other stream
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob #t seq 1 requires_ack true {"body":"other stream"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        ann>> Bob: 3
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
        bob acks d3 {"cumulative_seq":99}
            bob < DELIVER d4 Ann -> Bob seq 3 requires_ack true {"body":"3"}
        bob goes
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d2 Ann -> Bob #t seq 1 attempt 2 requires_ack true {"body":"other stream"}
            bob < DELIVER d4 Ann -> Bob seq 3 attempt 2 requires_ack true {"body":"3"}
    "#]]);
}

#[test]
fn deliveries_in_flight_are_bounded_by_max_inflight() {
    check(expect![[r#"
        here: ann
        bob joins {"capabilities":{"max_inflight":1}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":1,"resume":false,"supports_topics":true}}
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
        ann> Bob: 3 waits behind it
        ann> Bob #t: another stream does not
            bob < DELIVER d2 Ann -> Bob #t seq 1 {"body":"another stream does not"}
        bob acks d1
            bob < DELIVER d3 Ann -> Bob seq 2 requires_ack true {"body":"2"}
            bob < DELIVER d4 Ann -> Bob seq 3 {"body":"3 waits behind it"}
        bob acks d3
    "#]]);
}

#[test]
fn max_inflight_0_leaves_mail_in_the_mailbox() {
    check(expect![[r#"
        here: ann
        bob joins {"capabilities":{"max_inflight":0}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":0,"resume":false,"supports_topics":true}}
        ann>> Bob: kept
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        ann> Bob: behind it
        bob goes
            ann < NACK {"ack_id":"a2","code":"AGENT_OFFLINE","message":"Bob went away before it was delivered","to":"Bob"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"kept"}
    "#]]);
}

#[test]
fn returned_delivery_is_redelivered_before_its_successors() {
    check(expect![[r#"
        here: ann
        bob joins {"capabilities":{"max_inflight":2}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":2,"resume":false,"supports_topics":true}}
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        ann>> Bob: 3
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
        bob nacks d1 10
        bob acks d2
        wait 49
        wait 1
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"1"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"3"}
        bob acks d1
    "#]]);
}

#[test]
fn refusal_is_reported_to_the_sender() {
    check(expect![[r#"
        here: ann bob
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        bob nacks d1
            ann < NACK {"ack_id":"a1","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
        bob nacks d1
        ann nacks d2
        bob acks d2
    "#]]);
}

#[test]
fn nack_of_a_recipient_needs_no_code() {
    check(expect![[r#"
        here: ann bob
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        bob says NACK {"ack_id":"d1"}
            ann < NACK {"ack_id":"a1","code":"REFUSED","message":"Bob refused it","to":"Bob"}
    "#]]);
}

#[test]
fn delivery_is_given_up_after_ten_failures() {
    check(expect![[r#"
        here: ann bob
        ann>> Bob: poison
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"poison"}
        bob nacks d1 50
        wait 50
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"poison"}
        bob nacks d1 50
        wait 50
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 3 requires_ack true {"body":"poison"}
        bob nacks d1 50
        wait 50
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 4 requires_ack true {"body":"poison"}
        bob nacks d1 50
        wait 50
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 5 requires_ack true {"body":"poison"}
        bob nacks d1 50
        wait 50
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 6 requires_ack true {"body":"poison"}
        bob nacks d1 50
        wait 50
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 7 requires_ack true {"body":"poison"}
        bob nacks d1 50
        wait 50
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 8 requires_ack true {"body":"poison"}
        bob nacks d1 50
        wait 50
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 9 requires_ack true {"body":"poison"}
        bob nacks d1 50
        wait 50
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 10 requires_ack true {"body":"poison"}
        bob nacks d1 50
            ann < NACK {"ack_id":"a1","code":"GAVE_UP","message":"10 attempts to deliver it failed","to":"Bob"}
        wait 50
    "#]]);
}

#[test]
fn lost_connection_counts_as_failure_of_its_oldest_delivery() {
    let lose = |times| {
        let mut script = "ann joins\nbob joins\nann>> Bob: poison\nann>> Bob: fine\n".to_owned();
        script.push_str("bob says BYE {}\nbob goes\nbob joins\n");
        script.push_str(&"bob goes\nbob joins\n".repeat(times));
        run(&script)
    };
    assert!(!lose(9).contains("GAVE_UP"));
    let transcript = lose(10);
    let (before, after) = transcript.split_once("GAVE_UP").expect("ten are enough");
    assert!(before.contains("d1 Ann -> Bob seq 1 attempt 11 "), "{transcript}");
    assert!(before.ends_with("ann < NACK {\"ack_id\":\"a1\",\"code\":\""), "{transcript}");
    assert!(after.contains("d2 Ann -> Bob seq 2 attempt 12 "), "{transcript}");
    assert!(!after.contains("d1 "), "{transcript}");
}

#[test]
fn unwritten_delivery_does_not_fail() {
    let mut script = "ann joins\nbob joins\nbob goes\nann>> Bob: fine\n".to_owned();
    let stalls = "bob connects\nbob stalls\nbob says HELLO {\"agent\":\"Bob\"}\nbob goes\n";
    script.push_str(&stalls.repeat(12));
    let transcript = run(&script);
    assert!(transcript.contains("attempt 12"), "{transcript}");
    assert!(!transcript.contains("GAVE_UP"), "{transcript}");
}

/// Each second, the wall clock is a second earlier than before.
#[test]
fn clock_that_goes_back_changes_neither_order_nor_ttl() {
    check(expect![[r#"
        here: ann bob
        ann>> Bob 3000ms: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        back 2000
        wait 1000
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        bob goes
        back 2000
        wait 1000
        ann>> Bob: 3
            ann < ACK {"ack_id":"a3","away":true,"durability":"disk","state":"accepted"}
        back 2000
        wait 999
        wait 1
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        back 2000
        wait 1000
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 2 requires_ack true {"body":"2"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"3"}
        ann>> Bob: 4
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
            bob < DELIVER d4 Ann -> Bob seq 4 requires_ack true {"body":"4"}
        back 2000
        crash
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 3 requires_ack true {"body":"2"}
            bob < DELIVER d3 Ann -> Bob seq 3 attempt 2 requires_ack true {"body":"3"}
            bob < DELIVER d4 Ann -> Bob seq 4 attempt 2 requires_ack true {"body":"4"}
        ann joins
            ann < WELCOME {"agent":"Ann"}
        ann>> Bob: 5
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d5 Ann -> Bob seq 1025 requires_ack true {"body":"5"}
    "#]]);
}

/// Before each line in turn, the wall clock is set to a year later, to 2038, to 2100 or to 1970.
#[test]
fn jump_of_the_wall_clock_changes_nothing() {
    const JUMPS: [u64; 4] = [31_537_000_000, 2_147_483_648_000, 4_102_444_800_000, 0];
    const SILENT: &str = "wait 1000\nann says PONG {\"nonce\":\"n\"}";
    let mut script: Vec<&str> = r#"
ann joins
bob joins {"capabilities":{"resume":true}}
cid joins
ann>> Bob 4000ms: expires
ann says SEND to=Bob meta={"sync":{"correlationId":"c","timeoutMs":7000}} {"n":1}
ann>> Bob: stays
bob goes"#
        .trim()
        .lines()
        .collect();
    script.extend(SILENT.lines().cycle().take(2 * 16));
    script.push(r#"bob joins {"capabilities":{"resume":true},"session":{"resume_token":"bob:1"}}"#);
    script.push("bob goes");
    script.extend(["wait 599999", "wait 1"]);
    script.push(r#"bob joins {"session":{"resume_token":"bob:2"}}"#);
    let without = run(&script.join("\n"));
    for event in ["EXPIRED", "SYNC_TIMEOUT", "HEARTBEAT_TIMEOUT", "stays", "RESUME_REJECTED"] {
        assert!(without.contains(event), "no {event}: {without}");
    }
    for jump in JUMPS {
        for at in 0..script.len() {
            let mut jumping = script.clone();
            let jump = format!("wall {jump}");
            jumping.insert(at, &jump);
            let transcript = run(&jumping.join("\n"));
            let same: Vec<_> = transcript.lines().filter(|line| *line != jump).collect();
            assert_eq!(same.join("\n"), without.trim_end(), "{jump} before {}", script[at]);
        }
    }
}

#[test]
fn message_expires_after_its_ttl() {
    check(expect![[r#"
        here: ann
        bob joins {"capabilities":{"max_inflight":1}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":1,"resume":false,"supports_topics":true}}
        ann>> Bob 100ms: on the way
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"on the way"}
        ann>> Bob 50ms: waits
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
        ann> Bob 60ms: waits too
        wait 50
            bob < DELIVER d2 Ann -> Bob seq 3 {"body":"waits too"}
            ann < NACK {"ack_id":"a2","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        wait 10
        wait 40
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        bob acks d1
        ann>> Bob: next
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 4 requires_ack true {"body":"next"}
    "#]]);
}

#[test]
fn ttl_is_at_most_30_days() {
    check(expect![[r#"
        limits mailbox_days=60
        here: ann bob
        bob goes
        ann says SEND to=Bob id=long meta={"requires_ack":true,"ttl_ms":18446744073709551615} {"n":1}
            ann < ACK {"ack_id":"long","away":true,"durability":"disk","state":"accepted"}
        ann asks message {"id":"long"}
            ann < DELIVER d2 @relay -> Ann seq 1 {"body":"message","data":{"messages":[{"attempts":0,"body":null,"expires":2593001000,"failures":0,"from":"Ann","id":"d1","send_id":"long","seq":1,"state":"waiting","to":"Bob","waits_for":"recipient"}]},"kind":"response"}
    "#]]);
}

#[test]
fn default_ttl_is_a_day() {
    check(expect![[r#"
        limits heartbeat_ms=1099511627776
        here: ann bob
        bob goes
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        wait 86399999
        wait 1
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
    "#]]);
}

#[test]
fn duplicate_send_is_answered_and_not_delivered_again() {
    check(expect![[r#"
        here: ann bob
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"one"}
        ann again
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        bob acks d1
        ann again
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        ann goes
        ann joins
            ann < WELCOME {"agent":"Ann"}
        ann says SEND id=a1 to=Bob meta={"requires_ack":true} {"body":"one"}
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        ann says SEND id=a1 to=Bob meta={"requires_ack":true} {"body":"two"}
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"two"}
        bob says SEND id=a1 to=Bob meta={"requires_ack":true} {"body":"one"}
            bob < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Bob -> Bob seq 1 requires_ack true {"body":"one"}
    "#]]);
}

#[test]
fn duplicate_send_repeats_that_the_recipient_is_away() {
    check(expect![[r#"
        here: ann bob
        bob goes
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann again
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
    "#]]);
}

#[test]
fn at_most_once_sends_are_not_deduplicated() {
    check(expect![[r#"
        here: ann bob
        ann> Bob: one
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"one"}
        ann again
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"one"}
    "#]]);
}

#[test]
fn dedup_window_forgets_the_oldest_send() {
    check(expect![[r#"
        limits dedup_max=1
        here: ann bob
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"one"}
        ann>> Bob: two
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"two"}
        ann says SEND id=a1 to=Bob meta={"requires_ack":true} {"body":"one"}
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        bob acks d1
        ann says SEND id=a1 to=Bob meta={"requires_ack":true} {"body":"one"}
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"one"}
    "#]]);
}

#[test]
fn full_dedup_memory_forgets_the_longest_absent_first() {
    check(expect![[r#"
        limits dedup_total_max=4
        here: ann bob cid dan
        cid>> Ann: one
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 Cid -> Ann seq 1 requires_ack true {"body":"one"}
        dan>> Ann: two
            dan < ACK {"ack_id":"d1","durability":"disk","state":"accepted"}
            ann < DELIVER d2 Dan -> Ann seq 1 requires_ack true {"body":"two"}
        cid goes
        wait 1
        dan goes
        bob>> Ann: three
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            ann < DELIVER d3 Bob -> Ann seq 1 requires_ack true {"body":"three"}
        bob>> Ann: four
            bob < ACK {"ack_id":"b2","durability":"disk","state":"accepted"}
            ann < DELIVER d4 Bob -> Ann seq 2 requires_ack true {"body":"four"}
        bob>> Ann: five
            bob < ACK {"ack_id":"b3","durability":"disk","state":"accepted"}
            ann < DELIVER d5 Bob -> Ann seq 3 requires_ack true {"body":"five"}
        ann acks d1
        ann acks d2
        ann acks d3
        bob says SEND id=b1 to=Ann meta={"requires_ack":true} {"body":"three"}
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
        dan joins
            dan < WELCOME {"agent":"Dan"}
        dan says SEND id=d1 to=Ann meta={"requires_ack":true} {"body":"two"}
            dan < ACK {"ack_id":"d1","durability":"disk","state":"accepted"}
        cid joins
            cid < WELCOME {"agent":"Cid"}
        cid says SEND id=c1 to=Ann meta={"requires_ack":true} {"body":"one"}
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            ann < DELIVER d6 Cid -> Ann seq 2 requires_ack true {"body":"one"}
    "#]]);
}

#[test]
fn full_dedup_memory_is_shared_evenly_by_connected_names() {
    check(expect![[r#"
        limits dedup_total_max=4
        here: ann bob cid
        ann>> Cid: one
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            cid < DELIVER d1 Ann -> Cid seq 1 requires_ack true {"body":"one"}
        bob>> Cid: two
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            cid < DELIVER d2 Bob -> Cid seq 1 requires_ack true {"body":"two"}
        bob>> Cid: three
            bob < ACK {"ack_id":"b2","durability":"disk","state":"accepted"}
            cid < DELIVER d3 Bob -> Cid seq 2 requires_ack true {"body":"three"}
        bob>> Cid: four
            bob < ACK {"ack_id":"b3","durability":"disk","state":"accepted"}
            cid < DELIVER d4 Bob -> Cid seq 3 requires_ack true {"body":"four"}
        bob>> Cid: five
            bob < ACK {"ack_id":"b4","durability":"disk","state":"accepted"}
            cid < DELIVER d5 Bob -> Cid seq 4 requires_ack true {"body":"five"}
        cid acks d1
        cid acks d2
        cid acks d3
        ann again
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        bob says SEND id=b2 to=Cid meta={"requires_ack":true} {"body":"three"}
            bob < ACK {"ack_id":"b2","durability":"disk","state":"accepted"}
        bob says SEND id=b1 to=Cid meta={"requires_ack":true} {"body":"two"}
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            cid < DELIVER d6 Bob -> Cid seq 5 requires_ack true {"body":"two"}
    "#]]);
}

#[test]
fn newest_dedup_entries_survive_a_crash() {
    check(expect![[r#"
        limits dedup_total_max=4
        here: ann bob cid
        ann>> Cid: one
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            cid < DELIVER d1 Ann -> Cid seq 1 requires_ack true {"body":"one"}
        ann>> Cid: two
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            cid < DELIVER d2 Ann -> Cid seq 2 requires_ack true {"body":"two"}
        ann goes
        wait 1
        bob>> Cid: three
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            cid < DELIVER d3 Bob -> Cid seq 1 requires_ack true {"body":"three"}
        bob>> Cid: four
            bob < ACK {"ack_id":"b2","durability":"disk","state":"accepted"}
            cid < DELIVER d4 Bob -> Cid seq 2 requires_ack true {"body":"four"}
        bob>> Cid: five
            bob < ACK {"ack_id":"b3","durability":"disk","state":"accepted"}
            cid < DELIVER d5 Bob -> Cid seq 3 requires_ack true {"body":"five"}
        cid acks d1
        cid acks d2
        cid acks d3
        cid acks d4
        cid acks d5
        crash
        cid joins
            cid < WELCOME {"agent":"Cid"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        bob says SEND id=b1 to=Cid meta={"requires_ack":true} {"body":"three"}
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
        ann joins
            ann < WELCOME {"agent":"Ann"}
        ann says SEND id=a2 to=Cid meta={"requires_ack":true} {"body":"two"}
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
        ann says SEND id=a1 to=Cid meta={"requires_ack":true} {"body":"one"}
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            cid < DELIVER d6 Ann -> Cid seq 1025 requires_ack true {"body":"one"}
    "#]]);
}

#[test]
fn sender_is_notified_of_messages_queued_for_an_ended_connection() {
    check(expect![[r#"
        here: ann bob
        bob stalls
        ann> Bob: handed out, not written
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"handed out, not written"}
        ann>> Bob: kept
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"kept"}
        bob goes
            ann < NACK {"ack_id":"a1","code":"AGENT_OFFLINE","message":"Bob went away before it was delivered","to":"Bob"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 2 requires_ack true {"body":"kept"}
    "#]]);
}
