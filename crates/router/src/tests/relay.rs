//! Requests to `@relay` about the daemon itself, and taps.

use super::script::{check, run};
use expect_test::expect;

#[test]
fn status_shows_counts_and_limits() {
    check(expect![[r#"
        here: ann
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        bob goes
        ann>> Bob: waits
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann says SEND id=q to=@relay {"kind":"request","body":"status"}
            ann < DELIVER d1 @relay -> Ann seq 1 {"body":"status","data":{"agents_here":1,"agents_known":2,"connections":2,"counts":{"acknowledged":0,"busy":0,"delivered":0,"expired":0,"gave_up":0,"given_back":0,"refused":0,"taken":1},"guests":1,"memory_bytes":1101,"memory_bytes_max":536870912,"messages":1,"protocol":"1.1","streams":1,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
        gus says SEND id=r to=@RELAY meta={"requires_ack":true} {"kind":"request","body":"status"}
            gus < ACK {"ack_id":"r","state":"accepted"}
            gus < DELIVER d2 @relay -> @guest-ef842070 seq 1 {"body":"status","data":{"agents_here":1,"agents_known":2,"connections":2,"counts":{"acknowledged":0,"busy":0,"delivered":0,"expired":0,"gave_up":0,"given_back":0,"refused":0,"taken":1},"guests":1,"memory_bytes":1101,"memory_bytes_max":536870912,"messages":1,"protocol":"1.1","streams":1,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
    "#]]);
}

#[test]
fn agents_are_listed_in_pages() {
    check(expect![[r#"
        here: bob ann cid
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-09191889","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        bob says SUBSCRIBE topic=t {}
            bob < ACK {"ack_id":"x"}
        cid goes
        ann>> Bob: on the way
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"on the way"}
        gus says SEND id=q to=@relay {"kind":"request","body":"agents","data":{"limit":2}}
            gus < DELIVER d2 @relay -> @guest-09191889 seq 1 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-ef8420704fca44c6","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":1,"name":"Bob","queued":1,"queued_bytes":594,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":1,"waiting":0}],"next_cursor":"Bob"},"kind":"response"}
        gus says SEND id=q to=@relay {"kind":"request","body":"agents","data":{"limit":2,"cursor":"bob"}}
            gus < DELIVER d3 @relay -> @guest-09191889 seq 2 {"body":"agents","data":{"agents":[{"here":false,"in_flight":0,"name":"Cid","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        gus says SEND id=q to=@relay {"kind":"request","body":"agents","data":{"limit":"x"}}
            gus < NACK {"ack_id":"q","code":"INVALID","message":"the data of \"agents\": `limit` is not a whole number from 0 to 18446744073709551615, in digits"}
    "#]]);
}

#[test]
fn unknown_request_is_refused() {
    check(expect![[r#"
        here: ann
        ann says SEND id=q1 to=@relay {"kind":"request","body":"reload"}
            ann < NACK {"ack_id":"q1","code":"FORBIDDEN","message":"\"reload\" is for operators, who join with what is in the home's operator.key"}
        ann says SEND id=q2 to=@relay {"kind":"request","body":"dance"}
            ann < NACK {"ack_id":"q2","code":"INVALID","message":"\"dance\" is no request; ask for status, agents, message, inbox, take, history, dead-letters, redeliver, forget, rename, purge, report, activity, tap, reload or stop"}
        ann says SEND id=q3 to=@relay {"kind":"message","body":"status"}
            ann < NACK {"ack_id":"q3","code":"INVALID","message":"@relay answers SENDs of kind \"request\""}
        ann says SEND id=q4 to=@relay {"kind":"request","body":7}
            ann < NACK {"ack_id":"q4","code":"INVALID","message":"SEND: `body` is not a string"}
    "#]]);
}

#[test]
fn tap_copies_routed_messages() {
    check(expect![[r#"
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op says SEND id=q to=@relay {"kind":"request","body":"tap"}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"tap","data":{},"kind":"response"}
        ann joins
            ann < WELCOME {"agent":"Ann"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        ann> Bob #t: one
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"","data":{"from":"Ann","id":"b70df1ab-6528-464b-8255-08e23e2d31e7","payload":{"body":"one"},"recipients":1,"requires_ack":false,"send_id":"a1","seq":1,"to":"Bob","topic":"t"},"kind":"tap"}
            bob < DELIVER d3 Ann -> Bob #t seq 1 {"body":"one"}
        ann>> *: two
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"","data":{"from":"Ann","payload":{"body":"two"},"payload_meta":{"requires_ack":true},"recipients":1,"requires_ack":true,"send_id":"a2","to":"*"},"kind":"tap"}
            ann < ACK {"ack_id":"a2","durability":"disk","recipients":1,"state":"accepted"}
            bob < DELIVER d5 Ann -> Bob seq 1 originalTo "*" requires_ack true {"body":"two"}
        ann> Zoe: not routed
            ann < NACK {"ack_id":"a3","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        ann says SEND id=x to=Bob meta={"k":1} { "body" : "kept  as it is" }
            bob < DELIVER d6 Ann -> Bob seq 2 {"body":"kept  as it is"}
            op < DELIVER d7 @relay -> @operator seq 4 {"body":"","data":{"from":"Ann","id":"44edbef5-74b6-4e65-80a6-4bcd7622c01a","payload":{"body":"kept  as it is"},"payload_meta":{"k":1},"recipients":1,"requires_ack":false,"send_id":"x","seq":2,"to":"Bob"},"kind":"tap"}
        op goes
        ann> Bob: unseen
            bob < DELIVER d8 Ann -> Bob seq 3 {"body":"unseen"}
    "#]]);
}

#[test]
fn tap_copies_a_busy_broadcast_once_a_recipient_has_it() {
    check(expect![[r#"
        limits queue_messages_max=4 window_bytes=1
        here: ann bob
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op says SEND id=q to=@relay {"kind":"request","body":"tap"}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"tap","data":{},"kind":"response"}
        bob stalls
        ann> Bob: 1
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"","data":{"from":"Ann","id":"b70df1ab-6528-464b-8255-08e23e2d31e7","payload":{"body":"1"},"recipients":1,"requires_ack":false,"send_id":"a1","seq":1,"to":"Bob"},"kind":"tap"}
            bob < DELIVER d3 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob: 2
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"","data":{"from":"Ann","id":"21de6b0f-f66c-48c3-8725-3fa9afabf58b","payload":{"body":"2"},"recipients":1,"requires_ack":false,"send_id":"a2","seq":2,"to":"Bob"},"kind":"tap"}
        ann>> *: all
            ann < BUSY {"ack_id":"a3","busy":["Bob"],"queue_depth":2,"retry_after_ms":50}
        bob reads
            bob < DELIVER d5 Ann -> Bob seq 2 {"body":"2"}
        ann again
            op < DELIVER d6 @relay -> @operator seq 4 {"body":"","data":{"from":"Ann","payload":{"body":"all"},"payload_meta":{"requires_ack":true},"recipients":1,"requires_ack":true,"send_id":"a3","to":"*"},"kind":"tap"}
            ann < ACK {"ack_id":"a3","durability":"disk","recipients":1,"state":"accepted"}
            bob < DELIVER d7 Ann -> Bob seq 3 originalTo "*" requires_ack true {"body":"all"}
    "#]]);
}

#[test]
fn slow_tap_loses_copies_and_is_notified() {
    check(expect![[r#"
        limits window_bytes=1
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op says SEND id=q to=@relay {"kind":"request","body":"tap"}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"tap","data":{},"kind":"response"}
        op stalls
        ann joins
            ann < WELCOME {"agent":"Ann"}
        ann> Ann: 1
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"","data":{"from":"Ann","id":"b70df1ab-4a6d-4e41-bc39-7408cc43e159","payload":{"body":"1"},"recipients":1,"requires_ack":false,"send_id":"a1","seq":1,"to":"Ann"},"kind":"tap"}
            ann < DELIVER d3 Ann -> Ann seq 1 {"body":"1"}
        ann> Ann: 2
            ann < DELIVER d4 Ann -> Ann seq 2 {"body":"2"}
        ann> Ann: 3
            ann < DELIVER d5 Ann -> Ann seq 3 {"body":"3"}
        op reads
        ann> Ann: 4
            ann < DELIVER d6 Ann -> Ann seq 4 {"body":"4"}
            op < DELIVER d7 @relay -> @operator seq 3 {"body":"","data":{"from":"Ann","id":"7ef84764-074f-4744-8adc-78441c375c02","lost":2,"payload":{"body":"4"},"recipients":1,"requires_ack":false,"send_id":"a4","seq":4,"to":"Ann"},"kind":"tap"}
    "#]]);
}

#[test]
fn operator_stops_the_daemon() {
    check(expect![[r#"
        here: ann
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op says SEND id=q to=@relay {"kind":"request","body":"stop"}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"stop","data":{},"kind":"response"}
            ann < BYE {"reason":"stop"}
            ann close Stopping
            op < BYE {"reason":"stop"}
            op close Stopping
        ann goes
        op goes
            stopped
    "#]]);
}

#[test]
fn purge_makes_waiting_mail_dead_letters_and_tells_its_senders() {
    check(expect![[r#"
        here: ann bob op
        ann>> Bob: given
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"given"}
        bob goes
        bob joins {"capabilities":{"ack":true,"max_inflight":1}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":1,"resume":false,"supports_topics":true}}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"given"}
        ann>> Bob: waits
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
        ann> Bob: waits, too
        op asks purge {"name":"bob"}
            ann < NACK {"ack_id":"a3","code":"EXPIRED","message":"an operator purged the mail of its recipient","to":"Bob"}
            ann < NACK {"ack_id":"a2","code":"EXPIRED","message":"an operator purged the mail of its recipient","to":"Bob"}
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"purge","data":{"in_flight":1,"purged":2},"kind":"response"}
        op asks purge {"name":"Bob"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"all mail of Bob is in flight: end it with `force`"}
        op asks inbox {"of":"Bob"}
            op < DELIVER d3 @relay -> @operator seq 2 {"body":"inbox","data":{"messages":[{"attempts":2,"body":"given","expires":87401000,"failures":1,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"delivered","to":"Bob"}]},"kind":"response"}
        op asks purge {"name":"Bob","force":true}
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"an operator purged the mail of its recipient","to":"Bob"}
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"purge","data":{"purged":1},"kind":"response"}
        op asks purge {"name":"Bob","force":true}
            op < DELIVER d5 @relay -> @operator seq 4 {"body":"purge","data":{"purged":0},"kind":"response"}
        op asks dead-letters
            op < DELIVER d7 @relay -> @operator seq 5 {"body":"dead-letters","data":{"messages":[{"attempts":1,"body":"waits","code":"EXPIRED","ended":1001000,"failures":0,"from":"Ann","id":"d6","send_id":"a2","seq":2,"state":"dead","to":"Bob","why":"an operator purged the mail of its recipient"},{"attempts":2,"body":"given","code":"EXPIRED","ended":1001000,"failures":1,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"dead","to":"Bob","why":"an operator purged the mail of its recipient"}]},"kind":"response"}
        bob acks d1
        ann>> Bob: secret
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
            bob < DELIVER d8 Ann -> Bob seq 4 requires_ack true {"body":"secret"}
        bob goes
        disk shows
        op asks purge {"name":"Bob","delete":true}
            keep delivery 4: Erased
            keep answer 3 for agent 1
            ann < NACK {"ack_id":"a4","code":"EXPIRED","message":"an operator purged the mail of its recipient","to":"Bob"}
            op < DELIVER d9 @relay -> @operator seq 6 {"body":"purge","data":{"purged":1},"kind":"response"}
            keep answer 3 ended
        op asks message {"id":"a4"}
            op < NACK {"ack_id":"q","code":"NOT_FOUND","message":"\"a4\" is not a message's id, or that message is no longer kept"}
        op asks purge {"name":"Cid"}
            op < NACK {"ack_id":"q","code":"UNKNOWN_AGENT","message":"no agent Cid is known"}
        op asks purge {"name":"@operator"}
            op < NACK {"ack_id":"q","code":"UNKNOWN_AGENT","message":"no agent @operator is known"}
        ann asks purge {"name":"Ann"}
            ann < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"purge\" is for operators, who join with what is in the home's operator.key"}
    "#]]);
}

#[test]
fn purge_ends_500_messages_at_once() {
    let mut script = "here: ann op\nbob joins\nbob goes\n".to_owned();
    for _ in 0..501 {
        script.push_str("ann>> Bob: x\n");
    }
    script.push_str("op asks purge {\"name\":\"Bob\"}\nop asks purge {\"name\":\"Bob\"}\n");
    let transcript = run(&script);
    assert!(transcript.contains(r#""data":{"more":true,"purged":500}"#), "{transcript}");
    assert!(transcript.contains(r#""data":{"purged":1}"#), "{transcript}");
    assert_eq!(transcript.matches("EXPIRED").count(), 501);
}

#[test]
fn renamed_agent_keeps_its_mail_streams_subscriptions_and_history() {
    check(expect![[r#"
        here: ann bob op
        bob says SUBSCRIBE topic=t.* {}
            bob < ACK {"ack_id":"x"}
        bob>> Ann: earlier
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 Bob -> Ann seq 1 requires_ack true {"body":"earlier"}
        bob goes
        ann>> Bob: waits
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        op asks tap {"changes":true}
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"tap","data":{"changes":true},"kind":"response"}
        disk shows
        op asks rename {"name":"bob","new_name":"Eve"}
            keep Eve away
            op < DELIVER d3 @relay -> @operator seq 2 {"body":"","data":{"agent":"Eve","at":1001000,"from":"Bob","kind":"agent","state":"renamed"},"kind":"change"}
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"rename","data":{},"kind":"response"}
        op asks agents
            op < DELIVER d5 @relay -> @operator seq 4 {"body":"agents","data":{"agents":[{"here":true,"in_flight":1,"name":"Ann","queued":1,"queued_bytes":591,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Eve","queued":1,"queued_bytes":589,"since":1001000,"subscriptions":1,"waiting":1}]},"kind":"response"}
        ann>> Bob: late
            ann < NACK {"ack_id":"a2","code":"UNKNOWN_AGENT","message":"Bob was renamed: it is Eve now"}
        ann>> Eve: again
            keep a3 for [Eve#2 attempts 0], 0 left
            ann < ACK {"ack_id":"a3","away":true,"durability":"disk","state":"accepted"}
            op < DELIVER d6 @relay -> @operator seq 5 {"body":"","data":{"at":1001000,"from":"Ann","id":"44edbef5-f83e-4815-88a3-d48d6180da32","kind":"message","requires_ack":true,"send_id":"a3","state":"accepted","to":"Eve"},"kind":"change"}
        op asks inbox {"of":"Eve"}
            op < DELIVER d9 @relay -> @operator seq 6 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"waits","expires":87401000,"failures":0,"from":"Ann","id":"d7","send_id":"a1","seq":1,"state":"waiting","to":"Eve","waits_for":"recipient"},{"attempts":0,"body":"again","expires":87401000,"failures":0,"from":"Ann","id":"d8","send_id":"a3","seq":2,"state":"waiting","to":"Eve","waits_for":"recipient"}]},"kind":"response"}
        op asks history {"of":"Eve"}
            op < DELIVER d10 @relay -> @operator seq 7 {"body":"history","data":{"messages":[{"attempts":0,"body":"again","expires":87401000,"failures":0,"from":"Ann","id":"d8","send_id":"a3","seq":2,"state":"waiting","to":"Eve","waits_for":"recipient"},{"attempts":0,"body":"waits","expires":87401000,"failures":0,"from":"Ann","id":"d7","send_id":"a1","seq":1,"state":"waiting","to":"Eve","waits_for":"recipient"},{"attempts":1,"body":"earlier","expires":87401000,"failures":0,"from":"Eve","id":"d1","send_id":"b1","seq":1,"state":"delivered","to":"Ann"}]},"kind":"response"}
        op asks history {"of":"Eve","with":"Ann"}
            op < DELIVER d11 @relay -> @operator seq 8 {"body":"history","data":{"messages":[{"attempts":0,"body":"again","expires":87401000,"failures":0,"from":"Ann","id":"d8","send_id":"a3","seq":2,"state":"waiting","to":"Eve","waits_for":"recipient"},{"attempts":0,"body":"waits","expires":87401000,"failures":0,"from":"Ann","id":"d7","send_id":"a1","seq":1,"state":"waiting","to":"Eve","waits_for":"recipient"},{"attempts":1,"body":"earlier","expires":87401000,"failures":0,"from":"Eve","id":"d1","send_id":"b1","seq":1,"state":"delivered","to":"Ann"}]},"kind":"response"}
        op asks rename {"name":"Bob","new_name":"Eve"}
            op < DELIVER d12 @relay -> @operator seq 9 {"body":"rename","data":{},"kind":"response"}
        eve joins {"session":{"resume_token":"bob:1"}}
            keep Eve here
            keep session of agent 2 with ["t.*"]
            op < DELIVER d13 @relay -> @operator seq 10 {"body":"","data":{"agent":"Eve","at":1001000,"kind":"agent","state":"joined"},"kind":"change"}
            eve < WELCOME {"agent":"Eve","session_id":"s2"}
            eve < PING {}
            keep delivery 2: 1 attempts, 0 failures
            eve < DELIVER d7 Ann -> Eve seq 1 requires_ack true {"body":"waits"}
            keep delivery 3: 1 attempts, 0 failures
            eve < DELIVER d8 Ann -> Eve seq 2 requires_ack true {"body":"again"}
        ann>> * #t.x: news
            keep stream 1→2 "t.x" up to 1024
            keep a4 for [Eve#1 attempts 1], 0 left
            ann < ACK {"ack_id":"a4","durability":"disk","recipients":1,"state":"accepted"}
            op < DELIVER d14 @relay -> @operator seq 11 {"body":"","data":{"at":1001000,"from":"Ann","id":"7ef84764-e556-4450-aa90-b1c8025f9a34","kind":"message","requires_ack":true,"send_id":"a4","state":"accepted","to":"Eve","topic":"t.x"},"kind":"change"}
            eve < DELIVER d15 Ann -> Eve #t.x seq 1 originalTo "*" requires_ack true {"body":"news"}
        bob joins
            keep Bob here
            keep session of agent 4 with []
            op < DELIVER d16 @relay -> @operator seq 12 {"body":"","data":{"agent":"Bob","at":1001000,"kind":"agent","state":"joined"},"kind":"change"}
            bob < WELCOME {"agent":"Bob"}
        bob>> Ann: of another one
            keep stream 4→1 "" up to 1024
            keep b2 for [Ann#1 attempts 1], 0 left
            bob < ACK {"ack_id":"b2","durability":"disk","state":"accepted"}
            op < DELIVER d17 @relay -> @operator seq 13 {"body":"","data":{"at":1001000,"from":"Bob","id":"4b6827e7-cdf6-447e-97e7-4e7ca0b5a98a","kind":"message","requires_ack":true,"send_id":"b2","state":"accepted","to":"Ann"},"kind":"change"}
            ann < DELIVER d18 Bob -> Ann seq 1 requires_ack true {"body":"of another one"}
        op asks history {"of":"eve"}
            op < DELIVER d19 @relay -> @operator seq 14 {"body":"history","data":{"messages":[{"attempts":1,"body":"news","expires":87401000,"failures":0,"from":"Ann","id":"d15","send_id":"a4","seq":1,"state":"delivered","to":"Eve","to_everyone":true,"topic":"t.x"},{"attempts":1,"body":"again","expires":87401000,"failures":0,"from":"Ann","id":"d8","send_id":"a3","seq":2,"state":"delivered","to":"Eve"},{"attempts":1,"body":"waits","expires":87401000,"failures":0,"from":"Ann","id":"d7","send_id":"a1","seq":1,"state":"delivered","to":"Eve"},{"attempts":1,"body":"earlier","expires":87401000,"failures":0,"from":"Eve","id":"d1","send_id":"b1","seq":1,"state":"delivered","to":"Ann"}]},"kind":"response"}
        bob asks history
            bob < DELIVER d20 @relay -> Bob seq 1 {"body":"history","data":{"messages":[{"attempts":1,"body":"of another one","expires":87401000,"failures":0,"from":"Bob","id":"d18","send_id":"b2","seq":1,"state":"delivered","to":"Ann"}]},"kind":"response"}
        eve asks history
            eve < DELIVER d21 @relay -> Eve seq 1 {"body":"history","data":{"messages":[{"attempts":1,"body":"news","expires":87401000,"failures":0,"from":"Ann","id":"d15","send_id":"a4","seq":1,"state":"delivered","to":"Eve","to_everyone":true,"topic":"t.x"},{"attempts":1,"body":"again","expires":87401000,"failures":0,"from":"Ann","id":"d8","send_id":"a3","seq":2,"state":"delivered","to":"Eve"},{"attempts":1,"body":"waits","expires":87401000,"failures":0,"from":"Ann","id":"d7","send_id":"a1","seq":1,"state":"delivered","to":"Eve"},{"attempts":1,"body":"earlier","expires":87401000,"failures":0,"from":"Eve","id":"d1","send_id":"b1","seq":1,"state":"delivered","to":"Ann"}]},"kind":"response"}
    "#]]);
}

#[test]
fn rename_is_kept_across_a_crash() {
    check(expect![[r#"
        here: ann bob op
        bob goes
        ann>> Bob 50ms: dies
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        wait 50
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        op asks rename {"name":"Bob","new_name":"Eve"}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"rename","data":{},"kind":"response"}
        crash
        here: op
        op asks rename {"name":"Ann","new_name":"Zed"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"Ann may be reconnecting: try again in half a minute"}
        here: ann
        ann>> Bob: late
            ann < NACK {"ack_id":"a1","code":"UNKNOWN_AGENT","message":"Bob was renamed: it is Eve now"}
        op asks history {"of":"Eve"}
            op < DELIVER d3 @relay -> @operator seq 1075201 {"body":"history","data":{"messages":[{"attempts":0,"body":"dies","code":"EXPIRED","ended":1001050,"failures":0,"from":"Ann","id":"d2","send_id":"a1","seq":1,"state":"dead","to":"Eve","why":"its time to live ran out"}]},"kind":"response"}
        op asks redeliver {"id":"a1"}
            op < DELIVER d4 @relay -> @operator seq 1075202 {"body":"redeliver","data":{"redelivered":1},"kind":"response"}
        eve joins
            eve < WELCOME {"agent":"Eve"}
            eve < DELIVER d2 Ann -> Eve seq 1 requires_ack true {"body":"dies"}
    "#]]);
}

#[test]
fn rename_refuses_names_that_are_connected_known_keyed_or_reserved() {
    check(expect![[r#"
        policy key Kay k
        here: ann bob op
        bob goes
        kay joins {"auth":{"key":"k"}}
            kay < WELCOME {"agent":"Kay"}
        kay goes
        op asks rename {"name":"Ann","new_name":"Eve"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"Ann is connected: end it first"}
        op asks rename {"name":"Bob","new_name":"ann"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"an agent ann is known; forget it first, or choose another name"}
        op asks rename {"name":"Bob","new_name":"root"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"no agent can be named \"root\": this name is reserved; choose another"}
        op asks rename {"name":"Bob","new_name":"a b"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"no agent can be named \"a b\": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'"}
        op asks rename {"name":"Bob","new_name":"Eve@there"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"no agent can be named \"Eve@there\": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'"}
        op asks rename {"name":"Bob","new_name":"kay"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"policy.toml has a key for kay; remove the key first"}
        op asks rename {"name":"Kay","new_name":"Eve"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"policy.toml has a key for Kay; remove the key first"}
        op asks rename {"name":"Cid","new_name":"Eve"}
            op < NACK {"ack_id":"q","code":"UNKNOWN_AGENT","message":"no agent Cid is known"}
        op asks rename {"name":"@operator","new_name":"Eve"}
            op < NACK {"ack_id":"q","code":"UNKNOWN_AGENT","message":"no agent @operator is known"}
        ann asks rename {"name":"Bob","new_name":"Eve"}
            ann < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"rename\" is for operators, who join with what is in the home's operator.key"}
        op asks rename {"name":"Bob","new_name":"BOB"}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"rename","data":{},"kind":"response"}
        op asks agents
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"BOB","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Kay","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
    "#]]);
}

#[test]
fn agent_is_found_by_its_latest_earlier_names_only() {
    check(expect![[r#"
        here: ann bob op
        ann>> Bob: x
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"x"}
        bob acks d1
        bob goes
        op asks rename {"name":"Bob","new_name":"b2"}
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"rename","data":{},"kind":"response"}
        op asks rename {"name":"b2","new_name":"b3"}
            op < DELIVER d3 @relay -> @operator seq 2 {"body":"rename","data":{},"kind":"response"}
        op asks rename {"name":"b3","new_name":"b4"}
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"rename","data":{},"kind":"response"}
        op asks history {"of":"b4"}
            op < DELIVER d5 @relay -> @operator seq 4 {"body":"history","data":{"messages":[{"attempts":1,"body":"x","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"acknowledged","to":"b4"}]},"kind":"response"}
        op asks rename {"name":"b4","new_name":"b5"}
            op < DELIVER d6 @relay -> @operator seq 5 {"body":"rename","data":{},"kind":"response"}
        op asks history {"of":"b5"}
            op < DELIVER d7 @relay -> @operator seq 6 {"body":"history","data":{"messages":[]},"kind":"response"}
        op asks history {"of":"Bob"}
            op < DELIVER d8 @relay -> @operator seq 7 {"body":"history","data":{"messages":[{"attempts":1,"body":"x","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"acknowledged","to":"b5"}]},"kind":"response"}
        ann>> b2: late
            ann < NACK {"ack_id":"a2","code":"UNKNOWN_AGENT","message":"b2 was renamed: it is b5 now"}
        op asks forget {"name":"b5"}
            op < DELIVER d9 @relay -> @operator seq 8 {"body":"forget","data":{},"kind":"response"}
        ann>> b2: late
            ann < NACK {"ack_id":"a3","code":"UNKNOWN_AGENT","message":"no agent b2 was ever here; here is Ann"}
    "#]]);
}

#[test]
fn forget_refuses_names_that_are_connected_keyed_or_have_mail() {
    check(expect![[r#"
        policy key Kay k
        here: ann bob op
        kay joins {"auth":{"key":"k"}}
            kay < WELCOME {"agent":"Kay"}
        kay goes
        bob goes
        ann>> Bob: mail
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        op asks forget {"name":"Ann"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"Ann is connected: end it first"}
        op asks forget {"name":"kay"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"policy.toml has a key for Kay; remove the key first"}
        op asks forget {"name":"Bob"}
            op < NACK {"ack_id":"q","code":"INVALID","message":"Bob has mail: purge it first"}
        op asks forget {"name":"Cid"}
            op < NACK {"ack_id":"q","code":"UNKNOWN_AGENT","message":"no agent Cid is known"}
        ann asks forget {"name":"Bob"}
            ann < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"forget\" is for operators, who join with what is in the home's operator.key"}
        op asks purge {"name":"Bob"}
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"an operator purged the mail of its recipient","to":"Bob"}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"purge","data":{"purged":1},"kind":"response"}
        op asks forget {"name":"BOB"}
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"forget","data":{},"kind":"response"}
        op asks forget {"name":"Bob"}
            op < NACK {"ack_id":"q","code":"UNKNOWN_AGENT","message":"no agent Bob is known"}
        ann> Bob: x
            ann < NACK {"ack_id":"a2","code":"UNKNOWN_AGENT","message":"no agent Bob was ever here; here is Ann"}
    "#]]);
}

#[test]
fn tap_with_changes_gets_changes_in_place_of_copies() {
    check(expect![[r#"
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks tap {"changes":true}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"tap","data":{"changes":true},"kind":"response"}
        ann joins
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"","data":{"agent":"Ann","at":1001000,"kind":"agent","state":"joined"},"kind":"change"}
            ann < WELCOME {"agent":"Ann"}
        bob joins
            op < DELIVER d3 @relay -> @operator seq 3 {"body":"","data":{"agent":"Bob","at":1001000,"kind":"agent","state":"joined"},"kind":"change"}
            bob < WELCOME {"agent":"Bob"}
        bob asks activity {"activity":"working","source":"hooks","for_ms":400}
            op < DELIVER d4 @relay -> @operator seq 4 {"body":"","data":{"agent":"Bob","at":1001000,"kind":"agent","since":1000600,"source":"hooks","state":"working"},"kind":"change"}
            bob < DELIVER d5 @relay -> Bob seq 1 {"body":"activity","data":{},"kind":"response"}
        bob asks activity {"activity":"working","source":"screen","for_ms":600}
            bob < DELIVER d6 @relay -> Bob seq 2 {"body":"activity","data":{},"kind":"response"}
        bob asks activity {"activity":"idle","source":"hooks","for_ms":0}
            op < DELIVER d7 @relay -> @operator seq 5 {"body":"","data":{"agent":"Bob","at":1001000,"kind":"agent","since":1001000,"source":"hooks","state":"idle"},"kind":"change"}
            bob < DELIVER d8 @relay -> Bob seq 3 {"body":"activity","data":{},"kind":"response"}
        ann> Bob #t: at most once
            op < DELIVER d9 @relay -> @operator seq 6 {"body":"","data":{"at":1001000,"from":"Ann","id":"b70df1ab-28f0-4884-933c-3ed4ca47fb08","kind":"message","requires_ack":false,"send_id":"a1","state":"accepted","to":"Bob","topic":"t"},"kind":"change"}
            bob < DELIVER d10 Ann -> Bob #t seq 1 {"body":"at most once"}
        ann>> Bob #t: at least once
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            op < DELIVER d11 @relay -> @operator seq 7 {"body":"","data":{"at":1001000,"from":"Ann","id":"21de6b0f-f83e-4815-88a3-d48d6180da32","kind":"message","requires_ack":true,"send_id":"a2","state":"accepted","to":"Bob","topic":"t"},"kind":"change"}
            bob < DELIVER d12 Ann -> Bob #t seq 2 requires_ack true {"body":"at least once"}
        bob acks d12
            op < DELIVER d13 @relay -> @operator seq 8 {"body":"","data":{"at":1001000,"from":"Ann","id":"21de6b0f-f83e-4815-88a3-d48d6180da32","kind":"message","requires_ack":true,"send_id":"a2","state":"acknowledged","to":"Bob","topic":"t"},"kind":"change"}
        ann>> *: to everyone
            ann < ACK {"ack_id":"a3","durability":"disk","recipients":1,"state":"accepted"}
            op < DELIVER d14 @relay -> @operator seq 9 {"body":"","data":{"at":1001000,"from":"Ann","id":"44edbef5-d249-439a-8564-133ca3457ca4","kind":"message","requires_ack":true,"send_id":"a3","state":"accepted","to":"Bob"},"kind":"change"}
            bob < DELIVER d15 Ann -> Bob seq 1 originalTo "*" requires_ack true {"body":"to everyone"}
        bob nacks d15
            op < DELIVER d16 @relay -> @operator seq 10 {"body":"","data":{"at":1001000,"code":"REFUSED","from":"Ann","id":"44edbef5-d249-439a-8564-133ca3457ca4","kind":"message","requires_ack":true,"send_id":"a3","state":"dead","to":"Bob","why":"Bob refused it: no"},"kind":"change"}
            ann < NACK {"ack_id":"a3","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
        bob goes
            op < DELIVER d17 @relay -> @operator seq 11 {"body":"","data":{"agent":"Bob","at":1001000,"kind":"agent","state":"left"},"kind":"change"}
        ann>> Bob 100ms: runs out
            ann < ACK {"ack_id":"a4","away":true,"durability":"disk","state":"accepted"}
            op < DELIVER d18 @relay -> @operator seq 12 {"body":"","data":{"at":1001000,"from":"Ann","id":"7ef84764-f9cf-4b4c-a556-0ca66e38a113","kind":"message","requires_ack":true,"send_id":"a4","state":"accepted","to":"Bob"},"kind":"change"}
        wait 200
            op < DELIVER d19 @relay -> @operator seq 13 {"body":"","data":{"at":1001100,"code":"EXPIRED","from":"Ann","id":"7ef84764-f9cf-4b4c-a556-0ca66e38a113","kind":"message","requires_ack":true,"send_id":"a4","state":"dead","to":"Bob","why":"its time to live ran out"},"kind":"change"}
            ann < NACK {"ack_id":"a4","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        op goes
        ann> Ann: untold
            ann < DELIVER d20 Ann -> Ann seq 1 {"body":"untold"}
    "#]]);
}

#[test]
fn slow_tap_is_told_how_many_changes_it_has_lost() {
    check(expect![[r#"
        limits window_bytes=1
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks tap {"changes":true}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"tap","data":{"changes":true},"kind":"response"}
        op stalls
        ann joins
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"","data":{"agent":"Ann","at":1001000,"kind":"agent","state":"joined"},"kind":"change"}
            ann < WELCOME {"agent":"Ann"}
        ann> Ann: 1
            ann < DELIVER d3 Ann -> Ann seq 1 {"body":"1"}
        ann> Ann: 2
            ann < DELIVER d4 Ann -> Ann seq 2 {"body":"2"}
        op reads
            op < DELIVER d5 @relay -> @operator seq 3 {"body":"","data":{"at":1001000,"kind":"lost","lost":2},"kind":"change"}
    "#]]);
}

#[test]
fn replaced_connection_is_no_change() {
    check(expect![[r#"
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks tap {"changes":true}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"tap","data":{"changes":true},"kind":"response"}
        ann joins {"capabilities":{"resume":true}}
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"","data":{"agent":"Ann","at":1001000,"kind":"agent","state":"joined"},"kind":"change"}
            ann < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        ann2 joins {"agent":"Ann","capabilities":{"resume":true},"session":{"resume_token":"ann:1"}}
            ann < ERROR {"code":"SESSION_REPLACED","fatal":true,"message":"another connection took this session up"}
            ann close Fault(SessionReplaced)
            ann2 < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true},"session_id":"s2"}
            ann2 < PING {}
    "#]]);
}

#[test]
fn taps_and_counters_show_only_what_the_store_keeps() {
    check(expect![[r#"
        here: ann bob
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks tap
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"tap","data":{},"kind":"response"}
        disk holds
        ann>> Bob: refused
        ann>> *: refused, too
        disk fails
            ann < NACK {"ack_id":"a1","code":"STORE_FAILED","message":"the store could not keep the message; send it again later: no space left on device"}
            ann < NACK {"ack_id":"a2","code":"STORE_FAILED","message":"the store could not keep the message; send it again later: no space left on device"}
        disk holds
        ann>> Bob: kept
        ann>> *: kept, too
        disk keeps
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"","data":{"from":"Ann","id":"44edbef5-e222-42e8-a210-984170ef4c88","payload":{"body":"kept"},"payload_meta":{"requires_ack":true},"recipients":1,"requires_ack":true,"send_id":"a3","seq":3,"to":"Bob"},"kind":"tap"}
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"kept"}
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"","data":{"from":"Ann","payload":{"body":"kept, too"},"payload_meta":{"requires_ack":true},"recipients":1,"requires_ack":true,"send_id":"a4","to":"*"},"kind":"tap"}
            ann < ACK {"ack_id":"a4","durability":"disk","recipients":1,"state":"accepted"}
            bob < DELIVER d5 Ann -> Bob seq 4 originalTo "*" requires_ack true {"body":"kept, too"}
        op asks status
            op < DELIVER d6 @relay -> @operator seq 4 {"body":"status","data":{"agents_here":2,"agents_known":2,"connections":3,"counts":{"acknowledged":0,"busy":0,"delivered":2,"expired":0,"gave_up":0,"given_back":0,"refused":2,"taken":2},"guests":0,"memory_bytes":2205,"memory_bytes_max":536870912,"messages":2,"protocol":"1.1","streams":1,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
    "#]]);
}

#[test]
fn message_that_is_purged_while_it_is_stored_is_never_accepted() {
    check(expect![[r#"
        here: ann bob
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        bob goes
        disk holds
        ann>> Bob: purged
        op asks purge {"name":"Bob"}
        disk keeps
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"an operator purged the mail of its recipient","to":"Bob"}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"purge","data":{"purged":1},"kind":"response"}
    "#]]);
}
