//! Changes for the store, and outputs that wait until they are persisted.

use super::script::check;
use expect_test::expect;

#[test]
fn message_is_accepted_and_delivered_once_persisted() {
    check(expect![[r#"
        begin message pending
        ann> Bob: behind it in its stream
        ann> Bob #t: the first of another stream
        disk keeps
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"kept"}
            bob < DELIVER d3 Ann -> Bob seq 3 {"body":"behind it in its stream"}
            bob < DELIVER d4 Ann -> Bob #t seq 1 {"body":"the first of another stream"}
    "#]]);
}

#[test]
fn stream_numbers_are_reserved_ahead() {
    check(expect![[r#"
        here: ann bob
        disk shows
        disk holds
        ann> Bob: waits for its number
            keep stream 1→2 "" up to 1024
        disk keeps
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"waits for its number"}
        disk holds
        ann> Bob: has one already
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"has one already"}
    "#]]);
}

#[test]
fn message_refused_by_the_store_is_not_accepted() {
    check(expect![[r#"
        begin message pending
        bob> Ann: of another stream
        disk fails
            ann < NACK {"ack_id":"a2","code":"STORE_FAILED","message":"the store could not keep the message; send it again later: no space left on device"}
            ann < DELIVER d2 Bob -> Ann seq 1 {"body":"of another stream"}
        ann again
        disk keeps
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"kept"}
    "#]]);
}

#[test]
fn duplicate_of_a_pending_send_is_answered_with_it() {
    check(expect![[r#"
        here: ann bob
        disk holds
        ann>> Bob: kept
        ann again
        disk keeps
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"kept"}
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        ann again
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
    "#]]);
    check(expect![[r#"
        here: ann bob
        disk holds
        ann>> Bob: kept
        ann again
        disk fails
            ann < NACK {"ack_id":"a1","code":"STORE_FAILED","message":"the store could not keep the message; send it again later: no space left on device"}
            ann < NACK {"ack_id":"a1","code":"STORE_FAILED","message":"the store could not keep the message; send it again later"}
        disk keeps
    "#]]);
}

#[test]
fn resent_send_is_accepted_once_persisted() {
    check(expect![[r#"
        begin failed message resent
        disk keeps
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 3 requires_ack true {"body":"kept"}
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
    "#]]);
    check(expect![[r#"
        begin failed message resent
        disk fails
            ann < NACK {"ack_id":"a2","code":"STORE_FAILED","message":"the store could not keep the message; send it again later: no space left on device"}
            ann < NACK {"ack_id":"a2","code":"STORE_FAILED","message":"the store could not keep the message; send it again later"}
    "#]]);
}

#[test]
fn broadcast_is_accepted_when_every_part_is_persisted() {
    check(expect![[r#"
        begin broadcast pending
        disk keeps
            bob < DELIVER d2 Ann -> Bob seq 1 originalTo "*" requires_ack true {"body":"all"}
        ann again
            ann < ACK {"ack_id":"a2","durability":"disk","recipients":2,"state":"accepted"}
            cid < DELIVER d3 Ann -> Cid seq 2 originalTo "*" requires_ack true {"body":"all"}
    "#]]);
}

#[test]
fn broadcast_refused_in_part_is_retried_for_that_part() {
    check(expect![[r#"
        begin broadcast pending
        disk fails
        disk holds
        ann again
        disk keeps
            ann < ACK {"ack_id":"a2","durability":"disk","recipients":2,"state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 originalTo "*" requires_ack true {"body":"all"}
            cid < DELIVER d3 Ann -> Cid seq 2 originalTo "*" requires_ack true {"body":"all"}
    "#]]);
    check(expect![[r#"
        begin broadcast pending
        disk keeps
            bob < DELIVER d2 Ann -> Bob seq 1 originalTo "*" requires_ack true {"body":"all"}
        disk holds
        ann again
        disk fails
            ann < NACK {"ack_id":"a2","code":"STORE_FAILED","message":"the store could not keep the message; send it again later: no space left on device"}
        ann again
        disk keeps
            ann < ACK {"ack_id":"a2","durability":"disk","recipients":2,"state":"accepted"}
            cid < DELIVER d3 Ann -> Cid seq 3 originalTo "*" requires_ack true {"body":"all"}
    "#]]);
}

#[test]
fn delivery_record_follows_its_attempts_and_failures() {
    check(expect![[r#"
        here: ann bob
        bob goes
        disk shows
        ann>> Bob: waits in the mailbox
            keep stream 1→2 "" up to 1024
            keep a1 for [Bob#1 attempts 0], 0 left
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        bob joins
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
            keep delivery 1: 1 attempts, 0 failures
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"waits in the mailbox"}
        bob nacks d1 50
            keep delivery 1: 1 attempts, 1 failures
        wait 50
            keep delivery 1: 2 attempts, 1 failures
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"waits in the mailbox"}
        bob acks d1
            keep delivery 1: Acknowledged
        ann>> Bob: goes out at once
            keep a2 for [Bob#2 attempts 1], 0 left
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"goes out at once"}
        bob nacks d2
            keep delivery 2: Dead { code: Refused, why: "Bob refused it: no" }
            keep answer 1 for agent 1
            ann < NACK {"ack_id":"a2","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
            keep answer 1 ended
        bob acks d2
            keep delivery 2: Acknowledged
        bob acks d2
    "#]]);
}

#[test]
fn clean_stop_continues_stream_numbers() {
    check(expect![[r#"
        here: ann bob
        bob stalls
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        bob goes
        disk shows
        stop upgrade
            ann < BYE {"reason":"upgrade"}
            keep session of agent 1 with [] until 601000
            keep Ann away
            ann close Stopping
        ann goes
            keep stream 1→2 "" up to 2
            stopped
    "#]]);
}

#[test]
fn forgotten_name_is_removed_from_the_store() {
    check(expect![[r#"
        limits mailbox_days=1 ttl_ms=1099511627776
        here: ann bob
        bob goes
        ann>> Bob: nobody comes for it
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann> *: the last of a stream
        ann goes
        disk shows
        wait 90000000
            keep session of agent 1 ended
            keep session of agent 2 ended
            keep agent 1 forgotten
            keep delivery 1: Dead { code: Expired, why: "the name of its recipient was forgotten" }
            keep stream 1 ended
            keep agent 2 forgotten
    "#]]);
}

#[test]
fn open_messages_are_stored_again_after_a_loss() {
    check(expect![[r#"
        here: ann bob
        ann says SUBSCRIBE topic=t {}
            ann < ACK {"ack_id":"x"}
        bob goes
        ann>> Bob: over
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"over"}
        bob acks d1
        bob goes
        ann>> Bob: one
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob #t: two
            ann < ACK {"ack_id":"a3","away":true,"durability":"disk","state":"accepted"}
        disk holds
        ann>> Bob: is being kept
        disk shows
        disk loses
            keep Ann here
            keep session of agent 1 with ["t"]
            keep Bob away
            keep session of agent 2 with [] until 601000
            keep stream 1→2 "" up to 1024
            keep stream 1→2 "t" up to 1024
            keep a2 again for [Bob#2 attempts 0], 0 left
            keep a3 again for [Bob#1 attempts 0], 0 left
        disk keeps
            ann < ACK {"ack_id":"a4","away":true,"durability":"disk","state":"accepted"}
        crash
            keep Ann away
            keep session of agent 1 with ["t"] until 601000
        bob joins
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
            keep delivery 2: 1 attempts, 0 failures
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"one"}
            keep delivery 3: 1 attempts, 0 failures
            bob < DELIVER d3 Ann -> Bob #t seq 1 requires_ack true {"body":"two"}
            keep delivery 4: 1 attempts, 0 failures
            bob < DELIVER d4 Ann -> Bob seq 3 requires_ack true {"body":"is being kept"}
    "#]]);
}

#[test]
fn guests_of_a_crashed_daemon_are_removed_from_the_store() {
    check(expect![[r#"
        here: bob
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Bob: once
            gus < ACK {"ack_id":"g1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 @guest-ef842070 -> Bob seq 1 requires_ack true {"body":"once"}
        disk shows
        crash
            keep Bob away
            keep session of agent 1 with [] until 601000
            keep agent 2 forgotten
        crash
        bob joins
            keep Bob here
            keep session of agent 1 with []
            bob < WELCOME {"agent":"Bob"}
            keep delivery 1: 2 attempts, 0 failures
            bob < DELIVER d1 @guest-ef842070 -> Bob seq 1 attempt 2 requires_ack true {"body":"once"}
    "#]]);
}

#[test]
fn messages_stored_again_survive_the_next_disk_failure() {
    check(expect![[r#"
        here: ann bob
        bob goes
        ann>> Bob: accepted
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        disk holds
        ann>> Bob: is being kept
        disk shows
        disk loses
            keep Ann here
            keep session of agent 1 with []
            keep Bob away
            keep session of agent 2 with [] until 601000
            keep stream 1→2 "" up to 1024
            keep a1 again for [Bob#1 attempts 0], 0 left
        disk fails
            ann < NACK {"ack_id":"a2","code":"STORE_FAILED","message":"the store could not keep the message; send it again later: no space left on device"}
        disk keeps
        crash
            keep Ann away
            keep session of agent 1 with [] until 601000
        bob joins
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
            keep delivery 1: 1 attempts, 0 failures
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"accepted"}
    "#]]);
}

#[test]
fn delivery_after_a_crash_is_marked_as_another_attempt() {
    check(expect![[r#"
        here: ann bob
        bob goes
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        disk holds
        bob joins
        disk keeps
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"one"}
        crash
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"one"}
    "#]]);
}

/// Bob may have received the message before the first crash, and the second daemon ends before he
/// is back.
#[test]
fn delivery_that_an_earlier_daemon_may_have_made_is_an_attempt_for_later_daemons() {
    check(expect![[r#"
        here: ann bob
        bob goes
        ann>> Bob: hello
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        disk holds
        bob joins
        disk keeps 2
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"hello"}
        disk shows
        crash
            keep Ann away
            keep Bob away
            keep session of agent 1 with [] until 601000
            keep session of agent 2 with [] until 601000
            keep delivery 1: 1 attempts, 0 failures
        crash
        disk keeps
        bob joins
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
            keep delivery 1: 2 attempts, 0 failures
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"hello"}
    "#]]);
}
