//! Bounds and their outcomes: queues, memory, unread answers, frames that wait.

use super::script::{check, run};
use expect_test::expect;

#[test]
fn sender_gets_half_of_what_others_leave_of_a_queue() {
    check(expect![[r#"
        limits queue_messages_max=4 window_bytes=1
        here: ann bob cid
        bob stalls
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
        ann> Bob: 3
            ann < BUSY {"ack_id":"a3","queue_depth":2,"retry_after_ms":50}
        cid> Bob: 1
        cid>> Bob: 2
            cid < BUSY {"ack_id":"c2","queue_depth":3,"retry_after_ms":50}
        cid>> Bob: 3
            cid < BUSY {"ack_id":"c3","queue_depth":3,"retry_after_ms":50}
        bob reads
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
            bob < DELIVER d3 Cid -> Bob seq 1 {"body":"1"}
        ann again
            bob < DELIVER d4 Ann -> Bob seq 3 {"body":"3"}
    "#]]);
}

#[test]
fn busy_comes_before_the_answers_to_later_frames() {
    check(expect![[r#"
        limits queue_messages_max=2 window_bytes=1
        here: ann bob
        bob stalls
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
            ann < BUSY {"ack_id":"a2","queue_depth":1,"retry_after_ms":50}
        disk holds
        ann>> Ann: 3
        ann> Bob: 4
            ann < BUSY {"ack_id":"a4","queue_depth":1,"retry_after_ms":50}
        ann says SUBSCRIBE topic=t {}
        disk keeps
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
            ann < DELIVER d2 Ann -> Ann seq 1 requires_ack true {"body":"3"}
            ann < ACK {"ack_id":"x"}
    "#]]);
}

#[test]
fn empty_queue_accepts_one_message_of_any_size() {
    check(expect![[r#"
        limits queue_bytes_max=600
        here: ann bob
        bob stalls
        ann> Bob: x*700
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"x*700"}
        ann> Bob: x
            ann < BUSY {"ack_id":"a2","queue_depth":1,"retry_after_ms":50}
        bob reads
        ann> Bob: x
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"x"}
    "#]]);
}

#[test]
fn asker_that_does_not_read_its_answers_gets_no_more() {
    check(expect![[r#"
        limits answers_bytes_max=1000
        here: ann bob
        ann says SEND to=Bob id=1 meta={"sync":{"correlationId":"c"}} {"n":1}
            ann < ACK {"ack_id":"1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"n":1}
        ann says SEND to=Bob id=2 meta={"sync":{"correlationId":"c"}} {"n":2}
            ann < ACK {"ack_id":"2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"n":2}
        ann says SEND to=Bob id=3 meta={"sync":{"correlationId":"c"}} {"n":3}
            ann < ACK {"ack_id":"3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"n":3}
        ann stalls
        bob acks d1 {"correlationId":"c","responseData":"x*1200"}
            ann < ACK from Bob {"ack_id":"1","correlationId":"c","responseData":"x*1200"}
            ann waits
        wait 1999
        bob acks d2 {"correlationId":"c","responseData":"x*1200"}
            ann < ACK from Bob {"ack_id":"2","correlationId":"c","responseData":"x*1200"}
        wait 1
        bob acks d3 {"correlationId":"c","responseData":"short"}
            bob < NACK {"ack_id":"44edbef5-fca6-4949-a179-e3549b140437","code":"LIMIT","correlationId":"c","message":"its asker has no room for the answer now; send it again later"}
        ann reads
            ann goes on
        bob acks d3 {"correlationId":"c","responseData":"short"}
            ann < ACK from Bob {"ack_id":"3","correlationId":"c","responseData":"short"}
    "#]]);
}

#[test]
fn mailbox_is_bounded_like_a_queue() {
    check(expect![[r#"
        limits queue_messages_max=4 window_bytes=1
        here: ann bob
        bob goes
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob: 3
            ann < BUSY {"ack_id":"a3","queue_depth":2,"retry_after_ms":50}
    "#]]);
}

#[test]
fn busy_broadcast_is_retried_for_busy_recipients_only() {
    check(expect![[r#"
        limits queue_messages_max=4 window_bytes=1
        here: ann bob cid
        bob stalls
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
        ann>> *: all
            ann < BUSY {"ack_id":"a3","busy":["Bob"],"queue_depth":2,"retry_after_ms":50}
            cid < DELIVER d2 Ann -> Cid seq 1 originalTo "*" requires_ack true {"body":"all"}
        ann again
            ann < BUSY {"ack_id":"a3","busy":["Bob"],"queue_depth":2,"retry_after_ms":50}
        bob reads
            bob < DELIVER d3 Ann -> Bob seq 2 {"body":"2"}
        ann again
            ann < ACK {"ack_id":"a3","durability":"disk","recipients":2,"state":"accepted"}
            bob < DELIVER d4 Ann -> Bob seq 3 originalTo "*" requires_ack true {"body":"all"}
        ann again
            ann < ACK {"ack_id":"a3","durability":"disk","recipients":2,"state":"accepted"}
    "#]]);
}

#[test]
fn busy_at_most_once_broadcast_is_retried_for_busy_recipients_only() {
    check(expect![[r#"
        limits queue_messages_max=4 window_bytes=1
        here: ann bob cid
        bob stalls
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
        ann> *: all
            ann < BUSY {"ack_id":"a3","busy":["Bob"],"queue_depth":2,"retry_after_ms":50}
            cid < DELIVER d2 Ann -> Cid seq 1 originalTo "*" {"body":"all"}
        bob reads
            bob < DELIVER d3 Ann -> Bob seq 2 {"body":"2"}
        ann again
            bob < DELIVER d4 Ann -> Bob seq 3 originalTo "*" {"body":"all"}
        ann again
            bob < DELIVER d5 Ann -> Bob seq 4 originalTo "*" {"body":"all"}
            cid < DELIVER d6 Ann -> Cid seq 2 originalTo "*" {"body":"all"}
    "#]]);
}

#[test]
fn broadcast_without_free_recipient_is_not_accepted() {
    check(expect![[r#"
        limits queue_messages_max=4 window_bytes=1
        here: ann bob
        bob stalls
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
        ann>> *: all
            ann < BUSY {"ack_id":"a3","busy":["Bob"],"queue_depth":2,"retry_after_ms":50}
        bob reads
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
        cid joins
            cid < WELCOME {"agent":"Cid"}
        ann again
            ann < ACK {"ack_id":"a3","durability":"disk","recipients":2,"state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 originalTo "*" requires_ack true {"body":"all"}
            cid < DELIVER d4 Ann -> Cid seq 1 originalTo "*" requires_ack true {"body":"all"}
    "#]]);
}

#[test]
fn memory_is_bounded_over_all_queues() {
    check(expect![[r#"
        limits memory_bytes_max=6300
        here: ann bob
        outside 1000
        bob stalls
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
        ann> Bob: 3
            ann < BUSY {"ack_id":"a3","queue_depth":2,"retry_after_ms":50}
        bob reads
        ann> Bob: 4
            bob < DELIVER d3 Ann -> Bob seq 3 {"body":"4"}
        outside 5800
        ann>> Bob: 5
            ann < BUSY {"ack_id":"a5","queue_depth":0,"retry_after_ms":50}
        outside 0
        ann again
            ann < ACK {"ack_id":"a5","durability":"disk","state":"accepted"}
            bob < DELIVER d4 Ann -> Bob seq 4 requires_ack true {"body":"5"}
    "#]]);
}

#[test]
fn subscriptions_get_half_of_the_memory() {
    check(expect![[r#"
        limits memory_bytes_max=11428
        here: ann bob
        bob says SUBSCRIBE id=1 topic=t*250 {}
            bob < ACK {"ack_id":"1"}
        bob says SUBSCRIBE id=2 topic=t*250.> {}
            bob < ACK {"ack_id":"2"}
        bob says SUBSCRIBE id=3 topic=a.* {}
            bob < ACK {"ack_id":"3"}
        bob says SUBSCRIBE id=4 topic=t*250 {}
            bob < ACK {"ack_id":"4"}
        ann> Bob: room
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"room"}
        bob goes
        cid joins
            cid < WELCOME {"agent":"Cid"}
        cid says SUBSCRIBE id=5 topic=a.* {}
            cid < ACK {"ack_id":"5"}
        cid says SUBSCRIBE id=5 topic=b.* {}
            cid < NACK {"ack_id":"5","code":"LIMIT","message":"the daemon has no memory for another subscription; try later"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        cid says SUBSCRIBE id=6 topic=b.* {}
            cid < ACK {"ack_id":"6"}
        cid says UNSUBSCRIBE id=7 topic=b.* {}
            cid < ACK {"ack_id":"7"}
        outside 11328
        cid says SUBSCRIBE id=8 topic=b.* {}
            cid < NACK {"ack_id":"8","code":"LIMIT","message":"the daemon has no memory for another subscription; try later"}
    "#]]);
}

#[test]
fn window_keeps_the_order_of_waiting_messages() {
    check(expect![[r#"
        limits window_bytes=1
        here: ann bob cid
        bob stalls
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        cid>> Bob: 2
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
        ann> Bob: 3
        cid> Bob #t: 4
        bob reads
            bob < DELIVER d2 Cid -> Bob seq 1 requires_ack true {"body":"2"}
            bob < DELIVER d3 Ann -> Bob seq 2 {"body":"3"}
            bob < DELIVER d4 Cid -> Bob #t seq 1 {"body":"4"}
    "#]]);
}

#[test]
fn frames_of_a_client_with_unread_answers_wait() {
    check(expect![[r#"
        limits answers_bytes_max=300
        here: ann
        ann stalls
        ann> Zoe: 1
            ann < NACK {"ack_id":"a1","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
        ann> Zoe: 2
            ann < NACK {"ack_id":"a2","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
            ann waits
        ann> Zoe: 3
        ann reads
            ann goes on
            ann < NACK {"ack_id":"a3","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
        ann> Zoe: 4
            ann < NACK {"ack_id":"a4","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
    "#]]);
}

#[test]
fn frames_read_before_the_pause_are_answered_in_order() {
    check(expect![[r#"
        limits answers_bytes_max=600
        here: bob
        ann joins {"capabilities":{"max_inflight":0}}
            ann < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":0,"resume":false,"supports_topics":true}}
        ann>> Ann: x*700
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        ann stalls
        ann asks inbox
            ann < DELIVER d2 @relay -> Ann seq 1 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"x*700","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"Ann","waits_for":"window"}]},"kind":"response"}
            ann waits
        ann asks inbox
        ann> Bob: between them
        ann asks inbox {"limit":1,"cursor":"9"}
        ann says BYE {"reason":"done"}
        ann> Bob: beyond the end
        ann reads
            ann goes on
            ann < DELIVER d3 @relay -> Ann seq 2 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"x*700","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"Ann","waits_for":"window"}]},"kind":"response"}
            ann waits
            ann goes on
            bob < DELIVER d4 Ann -> Bob seq 1 {"body":"between them"}
            ann < DELIVER d5 @relay -> Ann seq 3 {"body":"inbox","data":{"messages":[]},"kind":"response"}
            ann close Bye
    "#]]);
}

#[test]
fn waiting_frames_are_handled_while_the_client_reads() {
    check(expect![[r#"
        limits answers_bytes_max=600
        here: ann
        ann stalls
        ann> Zoe: 1
            ann < NACK {"ack_id":"a1","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
        ann> Zoe: 2
            ann < NACK {"ack_id":"a2","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
        ann> Zoe: 3
            ann < NACK {"ack_id":"a3","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
        ann> Zoe: 4
            ann < NACK {"ack_id":"a4","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
            ann waits
        ann> Zoe: is told at once
        ann says RESUME {}
        ann> Zoe: 6
        ann takes 200
        ann takes 200
        ann takes 200
            ann goes on
            ann < NACK {"ack_id":"a5","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
            ann < SYNC {"session_id":"s1","streams":[]}
            ann < NACK {"ack_id":"a6","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
            ann waits
        ann takes 200
        ann> Zoe: 7
        ann takes 200
        ann takes 200
            ann goes on
            ann < NACK {"ack_id":"a7","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
        ann takes 200
        ann> Zoe: 8
            ann < NACK {"ack_id":"a8","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
    "#]]);
}

#[test]
fn frames_of_a_client_that_left_are_handled() {
    check(expect![[r#"
        limits answers_bytes_max=300
        here: bob op ann
        ann stalls
        ann> Zoe: 1
            ann < NACK {"ack_id":"a1","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        ann> Zoe: 2
            ann < NACK {"ack_id":"a2","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
            ann waits
        ann> *: unheard
        ann> Bob: unheard
        op asks status
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"status","data":{"agents_here":2,"agents_known":2,"connections":3,"counts":{"acknowledged":0,"busy":0,"delivered":0,"expired":0,"gave_up":0,"given_back":0,"refused":2,"taken":0},"guests":0,"memory_bytes":378,"memory_bytes_max":536870912,"messages":0,"protocol":"1.1","streams":0,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
            op waits
            op goes on
        ann goes
            bob < DELIVER d2 Ann -> Bob seq 1 originalTo "*" {"body":"unheard"}
            bob < DELIVER d3 Ann -> Bob seq 2 {"body":"unheard"}
        op asks status
            op < DELIVER d4 @relay -> @operator seq 2 {"body":"status","data":{"agents_here":1,"agents_known":2,"connections":2,"counts":{"acknowledged":0,"busy":0,"delivered":2,"expired":0,"gave_up":0,"given_back":0,"refused":2,"taken":2},"guests":0,"memory_bytes":0,"memory_bytes_max":536870912,"messages":0,"protocol":"1.1","streams":1,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
            op waits
            op goes on
    "#]]);
}

#[test]
fn row_requests_wait_for_memory() {
    check(expect![[r#"
        limits memory_bytes_max=4000
        here: ann bob op
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        bob acks d1
        outside 4001
        op asks status
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"status","data":{"agents_here":2,"agents_known":2,"connections":3,"counts":{"acknowledged":1,"busy":0,"delivered":1,"expired":0,"gave_up":0,"given_back":0,"refused":0,"taken":1},"guests":0,"memory_bytes":4001,"memory_bytes_max":4000,"messages":0,"protocol":"1.1","streams":1,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
        op asks agents
            op < NACK {"ack_id":"q","code":"LIMIT","message":"the daemon has no memory for the answer; ask again later"}
        op asks inbox {"of":"Bob"}
            op < NACK {"ack_id":"q","code":"LIMIT","message":"the daemon has no memory for the answer; ask again later"}
        op asks history
            op < NACK {"ack_id":"q","code":"LIMIT","message":"the daemon has no memory for the answer; ask again later"}
        op asks dead-letters
            op < NACK {"ack_id":"q","code":"LIMIT","message":"the daemon has no memory for the answer; ask again later"}
        op asks message {"id":"d1"}
            op < NACK {"ack_id":"q","code":"LIMIT","message":"the daemon has no memory for the answer; ask again later"}
        op asks redeliver {"id":"d1"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"it is no dead letter: it waits, or was acknowledged"}
        outside 0
        disk holds
        op asks history
        outside 4001
        disk finds
            op < NACK {"ack_id":"q","code":"LIMIT","message":"the daemon has no memory for the answer; ask again later"}
        outside 0
        op asks agents
            op < DELIVER d3 @relay -> @operator seq 2 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Bob","queued":0,"queued_bytes":0,"session":"s-ef8420704fca44c6","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        disk keeps
    "#]]);
}

#[test]
fn paused_client_survives_while_draining() {
    check(expect![[r#"
        limits answers_bytes_max=500
        here: ann
        ann stalls
        ann> Zoe: 1
            ann < NACK {"ack_id":"a1","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
        ann> Zoe: 2
            ann < NACK {"ack_id":"a2","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
        ann> Zoe: 3
            ann < NACK {"ack_id":"a3","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here is Ann"}
            ann waits
        wait 5000
            ann < PING {}
        wait 9000
        ann takes 100
        wait 9000
        ann takes 100
        wait 9000
        wait 9000
            ann < ERROR {"code":"HEARTBEAT_TIMEOUT","fatal":true,"message":"no frame came for 10 s after a PING"}
            ann close Fault(HeartbeatTimeout)
            ann hang up
    "#]]);
}

#[test]
fn client_that_never_reads_is_closed_and_keeps_its_mailbox() {
    check(expect![[r#"
        here: ann bob
        bob stalls
        ann>> Bob: kept
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"kept"}
        ann> Bob: lost
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"lost"}
        wait 5000
            ann < PING {}
            bob < PING {}
        ann says PONG {"nonce":"n"}
        wait 10000
            ann < PING {}
            bob < ERROR {"code":"HEARTBEAT_TIMEOUT","fatal":true,"message":"no frame came for 10 s after a PING"}
            bob close Fault(HeartbeatTimeout)
        wait 1000
            bob hang up
        bob goes
            ann < NACK {"ack_id":"a2","code":"AGENT_OFFLINE","message":"Bob went away before it was delivered","to":"Bob"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"kept"}
    "#]]);
}

#[test]
fn late_inputs_about_a_gone_client_are_ignored() {
    check(expect![[r#"
        here: ann
        ann goes
        ann> Ann: late
        ann breaks BAD_FRAME
        ann goes
        bob joins
            bob < WELCOME {"agent":"Bob"}
    "#]]);
}

#[test]
fn queue_is_for_ten_thousand_messages_by_default() {
    let mut script =
        "limits window_bytes=1\nann joins\nbob joins\ncid joins\nbob stalls\n".to_owned();
    // Half of seven eighths, and half of the rest.
    let (ann, cid) = (4_375, 2_188);
    script.push_str(&"ann> Bob: x\n".repeat(ann + 1));
    script.push_str(&"cid>> Bob: x\n".repeat(cid + 1));
    let transcript = run(&script);
    let count = |text: &str| transcript.matches(text).count();
    assert_eq!((count("ann < BUSY"), count("cid < BUSY")), (1, 1));
    assert_eq!(count("accepted"), cid);
    assert!(transcript.contains(&format!(r#""queue_depth":{}"#, ann + cid)));
}

#[test]
fn busy_names_as_many_recipients_as_fit_a_frame() {
    check(expect![[r#"
        limits frame_bytes_max=660 queue_messages_max=2
        here: ann
        bob joins {"agent":"Bob-whose-name-has-more-than-forty-letters","capabilities":{"max_inflight":0}}
            bob < WELCOME {"agent":"Bob-whose-name-has-more-than-forty-letters","capabilities":{"ack":true,"max_inflight":0,"resume":false,"supports_topics":true}}
        cid joins {"agent":"Cid-whose-name-has-more-than-forty-letters","capabilities":{"max_inflight":0}}
            cid < WELCOME {"agent":"Cid-whose-name-has-more-than-forty-letters","capabilities":{"ack":true,"max_inflight":0,"resume":false,"supports_topics":true}}
        dan joins {"agent":"Dan-whose-name-has-more-than-forty-letters","capabilities":{"max_inflight":0}}
            dan < WELCOME {"agent":"Dan-whose-name-has-more-than-forty-letters","capabilities":{"ack":true,"max_inflight":0,"resume":false,"supports_topics":true}}
        eve joins {"agent":"Eve-whose-name-has-more-than-forty-letters","capabilities":{"max_inflight":0}}
            eve < WELCOME {"agent":"Eve-whose-name-has-more-than-forty-letters","capabilities":{"ack":true,"max_inflight":0,"resume":false,"supports_topics":true}}
        ann>> *: 1
            ann < ACK {"ack_id":"a1","durability":"disk","recipients":4,"state":"accepted"}
        ann>> *: 2
            ann < BUSY {"ack_id":"a2","busy":["Bob-whose-name-has-more-than-forty-letters","Cid-whose-name-has-more-than-forty-letters","Dan-whose-name-has-more-than-forty-letters"],"queue_depth":1,"retry_after_ms":50}
    "#]]);
}

/// The lane of a client that reads nothing has the frame, also when its message is over.
#[test]
fn unwritten_frame_of_an_expired_message_counts_in_the_memory() {
    check(expect![[r#"
        here: ann bob op
        bob stalls
        ann>> Bob 60ms: x*500
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"x*500"}
        wait 60
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        op asks status
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"status","data":{"agents_here":2,"agents_known":2,"connections":3,"counts":{"acknowledged":0,"busy":0,"delivered":1,"expired":1,"gave_up":0,"given_back":0,"refused":0,"taken":1},"guests":0,"memory_bytes":812,"memory_bytes_max":536870912,"messages":0,"protocol":"1.1","streams":1,"uptime_ms":60,"version":"0.1.0"},"kind":"response"}
        bob reads
        op asks status
            op < DELIVER d3 @relay -> @operator seq 2 {"body":"status","data":{"agents_here":2,"agents_known":2,"connections":3,"counts":{"acknowledged":0,"busy":0,"delivered":1,"expired":1,"gave_up":0,"given_back":0,"refused":0,"taken":1},"guests":0,"memory_bytes":0,"memory_bytes_max":536870912,"messages":0,"protocol":"1.1","streams":1,"uptime_ms":60,"version":"0.1.0"},"kind":"response"}
    "#]]);
}
