//! Policy in force: keys of names, rules, rate limits, and the file that is read again.

use super::script::check;
use expect_test::expect;

#[test]
fn name_with_a_key_requires_it() {
    check(expect![[r#"
        policy key Ann k
        a joins {"agent":"ann"}
            a < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"policy.toml has a key for ann: HELLO states it in `auth.key`","ref":"h"}
            a close Fault(Unauthorized)
        b joins {"agent":"Ann","auth":{"key":"other"}}
            b < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"policy.toml has another key for Ann than `auth.key` states","ref":"h"}
            b close Fault(Unauthorized)
        c joins {"agent":"Ann","auth":{}}
            c < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"policy.toml has a key for Ann: HELLO states it in `auth.key`","ref":"h"}
            c close Fault(Unauthorized)
        ann joins {"agent":"Ann","auth":{"key":"k"}}
            ann < WELCOME {"agent":"Ann"}
        bob joins {"auth":{"key":"nobody asks"}}
            bob < WELCOME {"agent":"Bob"}
        ann> Bob: with a key
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"with a key"}
        d joins {"agent":"Ann"}
            d < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"policy.toml has a key for Ann: HELLO states it in `auth.key`","ref":"h"}
            d close Fault(Unauthorized)
        ann goes
        e joins {"agent":"Ann","session":{"resume_token":"ann:1"}}
            e < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"policy.toml has a key for Ann: HELLO states it in `auth.key`","ref":"h"}
            e close Fault(Unauthorized)
        f connects
        f says RESUME {"resume_token":"ann:1","streams":{}}
            f < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"policy.toml has a key for this name: send HELLO, with the key and the token","ref":"x"}
        g joins {"agent":"Ann","auth":{"key":"k"},"session":{"resume_token":"ann:1"}}
            g < WELCOME {"agent":"Ann","session_id":"s1"}
            g < PING {}
        g> Bob: with both
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"with both"}
    "#]]);
}

#[test]
fn new_key_applies_to_later_connections() {
    check(expect![[r#"
        here: ann bob
        policy key Ann k
        ann> Bob: she stays
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"she stays"}
        ann goes
        ann joins
            ann < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"policy.toml has a key for Ann: HELLO states it in `auth.key`","ref":"h"}
            ann close Fault(Unauthorized)
    "#]]);
}

#[test]
fn first_matching_rule_decides_per_recipient() {
    check(expect![[r#"
        here: ann bob cid
        bob says SUBSCRIBE topic=t {}
            bob < ACK {"ack_id":"x"}
        cid says SUBSCRIBE topic=t {}
            cid < ACK {"ack_id":"x"}
        policy Ann Bob t yes; Ann Bob * no; * Cid t no; @guest-* * * no
        ann> Bob: no
            ann < NACK {"ack_id":"a1","code":"FORBIDDEN","message":"Ann may not send this to Bob: line 2 of policy.toml forbids it"}
        ann>> bob: no
            ann < NACK {"ack_id":"a2","code":"FORBIDDEN","message":"Ann may not send this to Bob: line 2 of policy.toml forbids it"}
        ann> Bob #t: yes
            bob < DELIVER d1 Ann -> Bob #t seq 1 {"body":"yes"}
        ann>> *: but Bob
            ann < ACK {"ack_id":"a4","durability":"disk","recipients":1,"state":"accepted"}
            cid < DELIVER d2 Ann -> Cid seq 1 originalTo "*" requires_ack true {"body":"but Bob"}
        ann>> * #t: but Cid
            ann < ACK {"ack_id":"a5","durability":"disk","recipients":1,"state":"accepted"}
            bob < DELIVER d3 Ann -> Bob #t seq 2 originalTo "*" requires_ack true {"body":"but Cid"}
        cid> Bob: whoever
            bob < DELIVER d4 Cid -> Bob seq 1 {"body":"whoever"}
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-62f80861","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus> Bob: no
            gus < NACK {"ack_id":"g1","code":"FORBIDDEN","message":"@guest-62f80861 may not send this to Bob: line 4 of policy.toml forbids it"}
        gus asks status
            gus < NACK {"ack_id":"q","code":"FORBIDDEN","message":"@guest-62f80861 may not send this to @relay: line 4 of policy.toml forbids it"}
        ann> Bob: no
            ann < NACK {"ack_id":"a6","code":"FORBIDDEN","message":"Ann may not send this to Bob: line 2 of policy.toml forbids it"}
        policy * * * yes
        ann> Bob: yes
            bob < DELIVER d5 Ann -> Bob seq 1 {"body":"yes"}
    "#]]);
}

#[test]
fn request_body_to_relay_matches_as_topic() {
    check(expect![[r#"
        here: ann op
        policy * @relay history no; @operator * * no
        ann asks history
            ann < NACK {"ack_id":"q","code":"FORBIDDEN","message":"Ann may not send this to @relay: line 1 of policy.toml forbids it"}
        ann asks status
            ann < DELIVER d1 @relay -> Ann seq 1 {"body":"status","data":{"agents_here":1,"agents_known":1,"connections":2,"counts":{"acknowledged":0,"busy":0,"delivered":0,"expired":0,"gave_up":0,"given_back":0,"refused":1,"taken":0},"guests":0,"memory_bytes":0,"memory_bytes_max":536870912,"messages":0,"protocol":"1.1","streams":0,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
        op asks history
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"history","data":{"messages":[]},"kind":"response"}
        op> Ann: no
            op < NACK {"ack_id":"o1","code":"FORBIDDEN","message":"@operator may not send this to Ann: line 2 of policy.toml forbids it"}
    "#]]);
}

#[test]
fn rate_limit_stops_two_agents_that_answer_each_other() {
    check(expect![[r#"
        limits heartbeat_ms=60000
        here: ann bob cid
        policy rate 2
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        ann> Bob: 3
            ann < NACK {"ack_id":"a3","code":"LIMIT","message":"Ann speaks to Bob more often than per_pair_per_minute in policy.toml allows; the next one may come in 30 s"}
        bob> Ann: each way on its own
            ann < DELIVER d3 Bob -> Ann seq 1 {"body":"each way on its own"}
        ann> *: only Cid
            ann < NACK {"ack_id":"a4","code":"LIMIT","message":"Ann speaks to Bob more often than per_pair_per_minute in policy.toml allows; the next one may come in 30 s","to":"Bob"}
            cid < DELIVER d4 Ann -> Cid seq 1 originalTo "*" {"body":"only Cid"}
        ann> Nobody: costs nothing
            ann < NACK {"ack_id":"a5","code":"UNKNOWN_AGENT","message":"no agent Nobody was ever here; here are Ann, Bob, Cid"}
        wait 29999
        ann> Bob: too soon
            ann < NACK {"ack_id":"a6","code":"LIMIT","message":"Ann speaks to Bob more often than per_pair_per_minute in policy.toml allows; the next one may come in 1 ms"}
        wait 1
        ann> Bob: 4
            bob < DELIVER d5 Ann -> Bob seq 3 {"body":"4"}
        ann asks status
            ann < DELIVER d6 @relay -> Ann seq 1 {"body":"status","data":{"agents_here":3,"agents_known":3,"connections":3,"counts":{"acknowledged":0,"busy":0,"delivered":5,"expired":0,"gave_up":0,"given_back":0,"refused":4,"taken":5},"guests":0,"memory_bytes":1097,"memory_bytes_max":536870912,"messages":1,"protocol":"1.1","streams":3,"too_often":{"at":1030999,"from":"Ann","refused":3,"to":"Bob"},"uptime_ms":30000,"version":"0.1.0"},"kind":"response"}
    "#]]);
}

#[test]
fn policy_file_is_reread_for_operators_in_order() {
    check(expect![[r#"
        here: ann op
        ann asks reload
            ann < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"reload\" is for operators, who join with what is in the home's operator.key"}
        op asks reload
            reload for op
        op asks agents {"limit":1}
        op reread
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"reload","data":{},"kind":"response"}
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        op asks reload
            reload for op
        op reread policy.toml:3: not so
            op < NACK {"ack_id":"q","code":"INVALID","message":"policy.toml:3: not so"}
        op asks reload
            reload for op
        op goes
        op reread
    "#]]);
}

#[test]
fn rules_apply_to_answers_and_to_the_words_of_a_refusal() {
    check(expect![[r#"
        policy bob ann * no; * * * yes
        here: ann bob cid
        ann says SEND to=Bob id=1 meta={"sync":{"correlationId":"c"}} {"n":1}
            ann < NACK {"ack_id":"1","code":"FORBIDDEN","message":"the answer would be refused: Bob may not send this to Ann: line 1 of policy.toml forbids it"}
        ann says SEND to=* id=2 meta={"sync":{"correlationId":"d"}} {"n":2}
            ann < ACK {"ack_id":"2","durability":"disk","recipients":1,"state":"accepted"}
            cid < DELIVER d1 Ann -> Cid seq 1 originalTo "*" requires_ack true {"n":2}
        ann>> Bob: no question
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 1 requires_ack true {"body":"no question"}
        bob nacks d2
            ann < NACK {"ack_id":"a1","code":"REFUSED","message":"Bob refused it","to":"Bob"}
        policy * * * yes
        ann says SEND to=Bob id=3 meta={"sync":{"correlationId":"e"}} {"n":3}
            ann < ACK {"ack_id":"3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 2 requires_ack true {"n":3}
        policy bob ann * no; * * * yes
        bob acks d3 {"correlationId":"e","response":true}
            bob < NACK {"ack_id":"44edbef5-3c21-46e7-a717-466444dd637b","code":"FORBIDDEN","correlationId":"e","message":"Bob may not send this to Ann: line 1 of policy.toml forbids it"}
    "#]]);
}
