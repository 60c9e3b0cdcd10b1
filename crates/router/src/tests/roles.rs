//! Companions, operators and guests: their proofs and permissions.

use super::script::check;
use expect_test::expect;

#[test]
fn operator_needs_the_key() {
    check(expect![[r#"
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        a joins {"mode":"operator","auth":{"key":"opens"}}
            a < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"`auth.key` must be what operator.key in the daemon's home contains","ref":"h"}
            a close Fault(Unauthorized)
        b joins {"mode":"operator","auth":{}}
            b < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"`auth.key` must be what operator.key in the daemon's home contains","ref":"h"}
            b close Fault(Unauthorized)
        c joins {"mode":"operator"}
            c < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"`auth.key` must be what operator.key in the daemon's home contains","ref":"h"}
            c close Fault(Unauthorized)
    "#]]);
}

#[test]
fn operators_share_a_name_and_get_their_own_answers() {
    check(expect![[r#"
        here: ann op
        op2 joins {"mode":"operator","auth":{"key":"open"}}
            op2 < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op> Ann: one
            ann < DELIVER d1 @operator -> Ann seq 1 {"body":"one"}
        op2> Ann: two
            ann < DELIVER d2 @operator -> Ann seq 2 {"body":"two"}
        op>> Ann 50ms: three
            op < ACK {"ack_id":"o2","durability":"disk","state":"accepted"}
            ann < DELIVER d3 @operator -> Ann seq 3 requires_ack true {"body":"three"}
        op2>> Bob: four
            op2 < NACK {"ack_id":"o2","code":"UNKNOWN_AGENT","message":"no agent Bob was ever here; here is Ann"}
        ann> *: nobody else is here
        ann> @operator: only at least once
            ann < NACK {"ack_id":"a2","code":"AGENT_OFFLINE","message":"@operator has a mailbox only: send with requires_ack"}
        ann>> @operator: so
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
        op says SUBSCRIBE topic=t {}
            op < NACK {"ack_id":"x","code":"FORBIDDEN","message":"this connection has supports_topics: false"}
        op says RESUME {"streams":{}}
            op < NACK {"ack_id":"x","code":"FORBIDDEN","message":"only an agent has a session to resume"}
        op says ACK {"ack_id":"m"}
        op asks agents
            op < DELIVER d4 @relay -> @operator seq 1 {"body":"agents","data":{"agents":[{"here":true,"in_flight":1,"name":"Ann","queued":1,"queued_bytes":607,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        op asks status
            op < DELIVER d5 @relay -> @operator seq 2 {"body":"status","data":{"agents_here":1,"agents_known":1,"connections":3,"counts":{"acknowledged":0,"busy":0,"delivered":3,"expired":0,"gave_up":0,"given_back":0,"refused":2,"taken":5},"guests":0,"mailbox":1,"memory_bytes":2217,"memory_bytes_max":536870912,"messages":2,"protocol":"1.1","streams":2,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
        wait 50
            op < NACK {"ack_id":"o2","code":"EXPIRED","message":"its time to live ran out","to":"Ann"}
        op goes
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op> Ann: five
            ann < DELIVER d6 @operator -> Ann seq 4 {"body":"five"}
    "#]]);
}

#[test]
fn operator_stream_numbers_continue_after_a_crash() {
    check(expect![[r#"
        here: ann op
        op>> Ann: one
            op < ACK {"ack_id":"o1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 @operator -> Ann seq 1 requires_ack true {"body":"one"}
        ann acks d1
        crash
        here: ann op
        op>> Ann: two
            op < ACK {"ack_id":"o1","durability":"disk","state":"accepted"}
            ann < DELIVER d2 @operator -> Ann seq 1025 requires_ack true {"body":"two"}
        wait 9000000000
            ann < PING {}
            op < PING {}
            ann < ERROR {"code":"HEARTBEAT_TIMEOUT","fatal":true,"message":"no frame came for 10 s after a PING"}
            ann close Fault(HeartbeatTimeout)
            op < ERROR {"code":"HEARTBEAT_TIMEOUT","fatal":true,"message":"no frame came for 10 s after a PING"}
            op close Fault(HeartbeatTimeout)
            ann hang up
            op hang up
        here: op
        op asks agents
            op < DELIVER d3 @relay -> @operator seq 1024001 {"body":"agents","data":{"agents":[]},"kind":"response"}
    "#]]);
}

#[test]
fn companion_sends_for_its_agent_and_gets_its_notices() {
    check(expect![[r#"
        here: bob
        ann joins {"companion_key":"k"}
            ann < WELCOME {"agent":"Ann"}
        com joins {"agent":"ann","mode":"companion","companion_key":"k"}
            com < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        com2 joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            com2 < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        ann> Bob: one
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"one"}
        com>> Bob: two
            com < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"two"}
        com2> *: three
            bob < DELIVER d3 Ann -> Bob seq 3 originalTo "*" {"body":"three"}
        com says SEND id=x from=Bob to=Bob {"body":"as Bob"}
            com < NACK {"ack_id":"x","code":"FORBIDDEN","message":"you are Ann and cannot send as \"Bob\""}
        com> Zoe: nobody
            com < NACK {"ack_id":"c2","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        bob> Ann: an answer
            ann < DELIVER d4 Bob -> Ann seq 1 {"body":"an answer"}
        com acks d4
        com says SUBSCRIBE topic=t {}
            com < NACK {"ack_id":"x","code":"FORBIDDEN","message":"this connection has supports_topics: false"}
        com says RESUME {"streams":{"":{"last_seq":0}}}
            com < NACK {"ack_id":"x","code":"FORBIDDEN","message":"only an agent has a session to resume"}
        com asks history
            com < DELIVER d5 @relay -> Ann seq 1 {"body":"history","data":{"messages":[{"attempts":1,"body":"two","expires":87401000,"failures":0,"from":"Ann","id":"d2","send_id":"c1","seq":2,"state":"delivered","to":"Bob"}]},"kind":"response"}
        com asks inbox
            com < DELIVER d6 @relay -> Ann seq 2 {"body":"inbox","data":{"messages":[]},"kind":"response"}
        com asks inbox {"of":"Bob"}
            com < NACK {"ack_id":"q","code":"FORBIDDEN","message":"you are Ann: \"Bob\"'s mail is for operators"}
        com asks tap
            com < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"tap\" is for operators, who join with what is in the home's operator.key"}
        bob nacks d2
            com < NACK {"ack_id":"c1","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
    "#]]);
}

#[test]
fn notice_of_a_gone_companion_goes_to_its_agent() {
    check(expect![[r#"
        here: bob
        ann joins {"companion_key":"k"}
            ann < WELCOME {"agent":"Ann"}
        com joins {"agent":"ann","mode":"companion","companion_key":"k"}
            com < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        com>> Bob: one
            com < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"one"}
        com>> Bob: two
            com < ACK {"ack_id":"c2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"two"}
        com goes
        bob nacks d1
            ann < NACK {"ack_id":"c1","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
        ann goes
        bob nacks d2
        ann joins {"session":{"resume_token":"ann:1"},"companion_key":"k"}
            ann < WELCOME {"agent":"Ann","session_id":"s2"}
            ann < PING {}
        ann pongs
            ann < NACK {"ack_id":"c2","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
    "#]]);
}

#[test]
fn companion_without_the_key_of_its_agent_is_refused() {
    check(expect![[r#"
        ann joins {"companion_key":"k"}
            ann < WELCOME {"agent":"Ann"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        a joins {"agent":"Ann","mode":"companion","companion_key":"x"}
            a < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"Ann stated another key for its companions, or none","ref":"h"}
            a close Fault(Unauthorized)
        b joins {"agent":"Ann","mode":"companion"}
            b < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"a companion states in `companion_key` what Ann stated in its HELLO","ref":"h"}
            b close Fault(Unauthorized)
        c joins {"agent":"Ann","mode":"companion","companion_key":""}
            c < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"a companion states in `companion_key` what Ann stated in its HELLO","ref":"h"}
            c close Fault(Unauthorized)
        d joins {"agent":"Bob","mode":"companion","companion_key":"k"}
            d < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"Bob stated another key for its companions, or none","ref":"h"}
            d close Fault(Unauthorized)
        e joins {"agent":"Zoe","mode":"companion","companion_key":"k"}
            e < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"no agent Zoe was ever here, so it has no companion","ref":"h"}
            e close Fault(Unauthorized)
        f joins {"agent":"@operator","mode":"companion","companion_key":"k"}
            f < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"@operator\": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'","ref":"h"}
            f close Fault(InvalidName)
        bob goes
        g joins {"agent":"Bob","mode":"companion","companion_key":"k"}
            g < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"Bob stated another key for its companions, or none","ref":"h"}
            g close Fault(Unauthorized)
        crash
        i joins {"agent":"Bob","mode":"companion","companion_key":"k"}
            i < WELCOME {"agent":"Bob","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
    "#]]);
}

#[test]
fn companion_needs_its_agent_connected_with_the_same_key() {
    check(expect![[r#"
        here: bob
        ann joins {"companion_key":"k"}
            ann < WELCOME {"agent":"Ann"}
        com joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            com < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        ann goes
        com>> Bob: without her
            com < NACK {"ack_id":"c1","code":"AGENT_OFFLINE","message":"the agent in whose name you would speak is away"}
        com asks status
            com < NACK {"ack_id":"q","code":"AGENT_OFFLINE","message":"the agent in whose name you would speak is away"}
        ann joins {"companion_key":"other"}
            ann < WELCOME {"agent":"Ann"}
        com> Bob: with another
            com < NACK {"ack_id":"c2","code":"AGENT_OFFLINE","message":"the agent in whose name you would speak is away"}
        ann goes
        ann joins {"companion_key":"k"}
            ann < WELCOME {"agent":"Ann"}
        com2 joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            com2 < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        com> Bob: here again
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"here again"}
        com2> Bob: here too
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"here too"}
    "#]]);
}

#[test]
fn requests_about_others_are_for_operators() {
    check(expect![[r#"
        here: ann bob cid
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-09191889","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        ann>> Bob: secret
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"secret"}
        gus>> Bob: mine
            gus < ACK {"ack_id":"g1","durability":"disk","state":"accepted"}
            bob < DELIVER d2 @guest-09191889 -> Bob seq 1 requires_ack true {"body":"mine"}
        ann asks message {"id":"a1"}
            ann < DELIVER d3 @relay -> Ann seq 1 {"body":"message","data":{"messages":[{"attempts":1,"body":"secret","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"delivered","to":"Bob"}]},"kind":"response"}
        bob asks message {"id":"d1"}
            bob < DELIVER d4 @relay -> Bob seq 1 {"body":"message","data":{"messages":[{"attempts":1,"body":"secret","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"delivered","to":"Bob"}]},"kind":"response"}
        cid asks message {"id":"a1"}
            cid < NACK {"ack_id":"q","code":"FORBIDDEN","message":"you are Cid: others' mail is for operators"}
        gus asks message {"id":"d1"}
            gus < NACK {"ack_id":"q","code":"FORBIDDEN","message":"you are @guest-09191889: others' mail is for operators"}
        gus asks message {"id":"g1"}
            gus < DELIVER d5 @relay -> @guest-09191889 seq 1 {"body":"message","data":{"messages":[{"attempts":1,"body":"mine","expires":87401000,"failures":0,"from":"@guest-09191889","id":"d2","send_id":"g1","seq":1,"state":"delivered","to":"Bob"}]},"kind":"response"}
        gus asks history
            gus < DELIVER d6 @relay -> @guest-09191889 seq 2 {"body":"history","data":{"messages":[{"attempts":1,"body":"mine","expires":87401000,"failures":0,"from":"@guest-09191889","id":"d2","send_id":"g1","seq":1,"state":"delivered","to":"Bob"}]},"kind":"response"}
        gus asks inbox
            gus < DELIVER d7 @relay -> @guest-09191889 seq 3 {"body":"inbox","data":{"messages":[]},"kind":"response"}
        gus asks inbox {"of":"Bob"}
            gus < NACK {"ack_id":"q","code":"FORBIDDEN","message":"you are @guest-09191889: \"Bob\"'s mail is for operators"}
        cid asks history {"of":"bob"}
            cid < NACK {"ack_id":"q","code":"FORBIDDEN","message":"you are Cid: \"bob\"'s mail is for operators"}
        cid asks history {"with":"bob"}
            cid < DELIVER d8 @relay -> Cid seq 1 {"body":"history","data":{"messages":[]},"kind":"response"}
        bob asks inbox {"of":"BOB"}
            bob < DELIVER d9 @relay -> Bob seq 2 {"body":"inbox","data":{"messages":[{"attempts":1,"body":"secret","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"delivered","to":"Bob"},{"attempts":1,"body":"mine","expires":87401000,"failures":0,"from":"@guest-09191889","id":"d2","send_id":"g1","seq":1,"state":"delivered","to":"Bob"}]},"kind":"response"}
        ann asks dead-letters
            ann < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"dead-letters\" is for operators, who join with what is in the home's operator.key"}
        gus asks redeliver {"id":"d1"}
            gus < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"redeliver\" is for operators, who join with what is in the home's operator.key"}
        ann asks stop
            ann < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"stop\" is for operators, who join with what is in the home's operator.key"}
        gus asks tap
            gus < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"tap\" is for operators, who join with what is in the home's operator.key"}
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks message {"id":"a1"}
            op < DELIVER d10 @relay -> @operator seq 1 {"body":"message","data":{"messages":[{"attempts":1,"body":"secret","expires":87401000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"delivered","to":"Bob"}]},"kind":"response"}
    "#]]);
}

#[test]
fn answer_goes_to_the_connection_that_asked() {
    check(expect![[r#"
        here: bob op
        ann joins {"companion_key":"k"}
            ann < WELCOME {"agent":"Ann"}
        com joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            com < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        com says SEND to=Bob meta={"sync":{"correlationId":"c"}} {"body":"1?"}
            com < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1?"}
        op says SEND to=Bob meta={"sync":{"correlationId":"o"}} {"body":"2?"}
            op < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d2 @operator -> Bob seq 1 requires_ack true {"body":"2?"}
        com acks d1 {"correlationId":"c","response":false}
        bob acks d1 {"correlationId":"c","response":true}
            com < ACK from Bob {"ack_id":"x","correlationId":"c","response":true}
        bob acks d2 {"correlationId":"o","response":true}
            op < ACK from Bob {"ack_id":"x","correlationId":"o","response":true}
        com says SEND to=Bob meta={"sync":{"correlationId":"d"}} {"body":"3?"}
            com < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 2 requires_ack true {"body":"3?"}
        com goes
        bob acks d3 {"correlationId":"d","response":true}
        op says SEND to=Ann meta={"sync":{"correlationId":"e","timeoutMs":50}} {"body":"4?"}
            op < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            ann < DELIVER d4 @operator -> Ann seq 1 requires_ack true {"body":"4?"}
        com joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            com < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        com acks d4 {"correlationId":"e","response":true}
        wait 50
            op < NACK {"ack_id":"x","code":"SYNC_TIMEOUT","correlationId":"e","message":"Ann did not answer within 50 ms","to":"Ann"}
    "#]]);
}

#[test]
fn notices_of_an_agent_do_not_go_to_its_companion() {
    check(expect![[r#"
        here: bob
        ann joins {"companion_key":"k"}
            ann < WELCOME {"agent":"Ann"}
        ann says SEND to=Bob meta={"sync":{"correlationId":"c"}} {"body":"well?"}
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"well?"}
        ann goes
        bob acks d1 {"correlationId":"c","response":true,"responseData":{"body":"for Ann"}}
        com joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            com < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        ann joins {"session":{"resume_token":"ann:1"},"companion_key":"k"}
            ann < WELCOME {"agent":"Ann","session_id":"s2"}
            ann < PING {}
        ann pongs
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","response":true,"responseData":{"body":"for Ann"}}
    "#]]);
    check(expect![[r#"
        here: bob
        ann joins {"companion_key":"k"}
            ann < WELCOME {"agent":"Ann"}
        ann says SEND to=Bob meta={"sync":{"correlationId":"c"}} {"body":"well?"}
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"well?"}
        ann goes
        bob acks d1 {"correlationId":"c","response":true,"responseData":{"body":"for Ann"}}
        crash
        com joins {"agent":"Ann","mode":"companion","companion_key":"x"}
            com < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        ann joins {"session":{"resume_token":"ann:1"},"companion_key":"k"}
            com < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"the agent is back, and stated another key for its companions, or none"}
            com close Fault(Unauthorized)
            ann < WELCOME {"agent":"Ann","session_id":"s2"}
            ann < PING {}
        ann pongs
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","response":true,"responseData":{"body":"for Ann"}}
    "#]]);
}

#[test]
fn guest_that_returns_with_its_key_is_the_same() {
    check(expect![[r#"
        here: bob
        gus joins {"mode":"guest","guest_key":"0123456789abcdef"}
            gus < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Bob: once
            gus < ACK {"ack_id":"g1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 @guest-ef842070 -> Bob seq 1 requires_ack true {"body":"once"}
        gus goes
        gus joins {"mode":"guest","guest_key":"0123456789abcdef"}
            gus < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus again
            gus < ACK {"ack_id":"g1","durability":"disk","state":"accepted"}
        gil joins {"mode":"guest","guest_key":"0123456789abcdef"}
            gus < ERROR {"code":"SESSION_REPLACED","fatal":true,"message":"another connection took this session up"}
            gus close Fault(SessionReplaced)
            gil < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gil goes
        crash
        gus joins {"mode":"guest","guest_key":"0123456789abcdef"}
            gus < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus again
            gus < ACK {"ack_id":"g1","durability":"disk","state":"accepted"}
        gus>> Bob: its numbers go on
            gus < ACK {"ack_id":"g1","away":true,"durability":"disk","state":"accepted"}
    "#]]);
}

#[test]
fn guest_is_forgotten_when_nothing_depends_on_it() {
    check(expect![[r#"
        limits resume_window_ms=1000
        here: bob
        disk shows
        gus joins {"mode":"guest","guest_key":"0123456789abcdef"}
            gus < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus> Bob: at most once
            bob < DELIVER d1 @guest-ef842070 -> Bob seq 1 {"body":"at most once"}
        gus goes
        gus joins {"mode":"guest","guest_key":"0123456789abcdef"}
            gus < WELCOME {"agent":"@guest-378c0eb3","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Bob: at least once
            keep stream 3→1 "" up to 0
            keep @guest-378c0eb3 here
            keep g2 for [Bob#1 attempts 1], 0 left
            gus < ACK {"ack_id":"g2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 @guest-378c0eb3 -> Bob seq 1 requires_ack true {"body":"at least once"}
        gus says BYE {}
            gus close Bye
        gus goes
            keep agent 3 forgotten
        gus joins {"mode":"guest","guest_key":"0123456789abcdef"}
            gus < WELCOME {"agent":"@guest-1ee22270","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Bob: at least once
            keep stream 4→1 "" up to 0
            keep @guest-1ee22270 here
            keep g3 for [Bob#1 attempts 1], 0 left
            gus < ACK {"ack_id":"g3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 @guest-1ee22270 -> Bob seq 1 requires_ack true {"body":"at least once"}
        gus goes
            keep @guest-1ee22270 away
        wait 1000
            keep agent 4 forgotten
        gil joins {"mode":"guest","guest_key":"short"}
            gil < ERROR {"code":"INVALID","fatal":false,"message":"HELLO: `guest_key` must have 16 to 128 bytes","ref":"h"}
    "#]]);
}

#[test]
fn guests_that_may_return_make_room_for_others() {
    check(expect![[r#"
        limits names_max=5
        here: bob
        gus joins {"mode":"guest","guest_key":"0123456789abcdef"}
            gus < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Bob: 1
            gus < ACK {"ack_id":"g1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 @guest-ef842070 -> Bob seq 1 requires_ack true {"body":"1"}
        gus goes
        gil joins {"mode":"guest","guest_key":"123456789abcdef0"}
            gil < WELCOME {"agent":"@guest-1a753c74","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gil>> Bob: 1
            gil < ACK {"ack_id":"g1","durability":"disk","state":"accepted"}
            bob < DELIVER d2 @guest-1a753c74 -> Bob seq 1 requires_ack true {"body":"1"}
        gil goes
        guy joins {"mode":"guest"}
            guy < WELCOME {"agent":"@guest-593ce744","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gil joins {"mode":"guest","guest_key":"123456789abcdef0"}
            gil < WELCOME {"agent":"@guest-1a753c74","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus joins {"mode":"guest","guest_key":"0123456789abcdef"}
            gus < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"2 names of guests are known already","ref":"h"}
            gus close Fault(TooManyClients)
    "#]]);
}

#[test]
fn companion_needs_the_key_of_its_agent_also_while_that_is_away() {
    check(expect![[r#"
        ann joins {"companion_key":"k"}
            ann < WELCOME {"agent":"Ann"}
        ann goes
        one joins {"agent":"Ann","mode":"companion","companion_key":"other"}
            one < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"Ann stated another key for its companions, or none","ref":"h"}
            one close Fault(Unauthorized)
        two joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            two < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
    "#]]);
}
