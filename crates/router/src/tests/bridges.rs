//! Bridges: the agents of other machines, under whose names they join.

use super::script::check;
use expect_test::expect;

#[test]
fn bridge_alone_joins_as_an_agent_of_another_machine() {
    check(expect![[r#"
        here: bob
        a joins {"agent":"Ann@pi"}
            a < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"Ann@pi\": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'","ref":"h"}
            a close Fault(InvalidName)
        b joins {"agent":"Ann@pi","mode":"bridge"}
            b < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"`auth.key` must be what operator.key in the daemon's home contains","ref":"h"}
            b close Fault(Unauthorized)
        c joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"opens"}}
            c < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"`auth.key` must be what operator.key in the daemon's home contains","ref":"h"}
            c close Fault(Unauthorized)
        d joins {"agent":"Ann","mode":"bridge","auth":{"key":"open"}}
            d < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"Ann\": the name of an agent of another machine is NAME@HOST","ref":"h"}
            d close Fault(InvalidName)
        e joins {"agent":"Ann@pi@pi","mode":"bridge","auth":{"key":"open"}}
            e < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"Ann@pi@pi\": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'","ref":"h"}
            e close Fault(InvalidName)
        f joins {"agent":"operator@pi","mode":"bridge","auth":{"key":"open"}}
            f < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"operator@pi\": this name is reserved; choose another","ref":"h"}
            f close Fault(InvalidName)
        g joins {"mode":"bridge","auth":{"key":"open"}}
            g < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"G\": the name of an agent of another machine is NAME@HOST","ref":"h"}
            g close Fault(InvalidName)
        ann joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"}}
            ann < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false}}
        ann> Bob: from afar
            bob < DELIVER d1 Ann@pi -> Bob seq 1 {"body":"from afar"}
        bob> ann@PI: from near
            ann < DELIVER d2 Bob -> Ann@pi seq 1 {"body":"from near"}
        ann says SEND id=x from=Ann to=Bob {"body":"as another"}
            ann < NACK {"ack_id":"x","code":"FORBIDDEN","message":"you are Ann@pi and cannot send as \"Ann\""}
    "#]]);
}

#[test]
fn bridge_gets_only_what_is_for_its_name() {
    check(expect![[r#"
        here: bob zoe
        ann joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"}}
            ann < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false}}
        ann says SUBSCRIBE topic=t {}
            ann < NACK {"ack_id":"x","code":"FORBIDDEN","message":"this connection has supports_topics: false"}
        ann asks tap
            ann < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"tap\" is for operators, who join with what is in the home's operator.key"}
        ann asks inbox {"of":"Bob"}
            ann < NACK {"ack_id":"q","code":"FORBIDDEN","message":"you are Ann@pi: \"Bob\"'s mail is for operators"}
        bob>> *: to everyone here
            bob < ACK {"ack_id":"b1","durability":"disk","recipients":1,"state":"accepted"}
            zoe < DELIVER d1 Bob -> Zoe seq 1 originalTo "*" requires_ack true {"body":"to everyone here"}
        bob>> * #t: on a topic
            bob < ACK {"ack_id":"b2","durability":"disk","recipients":0,"state":"accepted"}
        ann> *: from afar to everyone
            bob < DELIVER d2 Ann@pi -> Bob seq 1 originalTo "*" {"body":"from afar to everyone"}
            zoe < DELIVER d3 Ann@pi -> Zoe seq 1 originalTo "*" {"body":"from afar to everyone"}
        bob>> Ann@pi: to one
            bob < ACK {"ack_id":"b3","durability":"disk","state":"accepted"}
            ann < DELIVER d4 Bob -> Ann@pi seq 1 requires_ack true {"body":"to one"}
        bob>> Eve@pi: to nobody
            bob < NACK {"ack_id":"b4","code":"UNKNOWN_AGENT","message":"no agent Eve@pi was ever here; here are Ann@pi, Bob, Zoe"}
    "#]]);
}

#[test]
fn all_agents_of_a_machine_get_topics_and_broadcasts_of_this_machine_by_choice() {
    check(expect![[r#"
        here: bob zoe
        eve joins {"agent":"all@pi"}
            eve < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"all@pi\": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'","ref":"h"}
            eve close Fault(InvalidName)
        eve joins {"agent":"all"}
            eve < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"all\": this name is reserved; choose another","ref":"h"}
            eve close Fault(InvalidName)
        eve joins {"agent":"all@pi","mode":"bridge","auth":{"key":"opens"}}
            eve < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"`auth.key` must be what operator.key in the daemon's home contains","ref":"h"}
            eve close Fault(Unauthorized)
        all joins {"agent":"all@pi","mode":"bridge","auth":{"key":"open"}}
            all < WELCOME {"agent":"all@pi"}
        mac joins {"agent":"all@mac","mode":"bridge","auth":{"key":"open"},"capabilities":{"broadcasts":true}}
            mac < WELCOME {"agent":"all@mac","capabilities":{"ack":true,"broadcasts":true,"max_inflight":256,"resume":false,"supports_topics":true}}
        ann joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"},"capabilities":{"broadcasts":true}}
            ann < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false}}
        all says SUBSCRIBE topic=build.> {}
            all < ACK {"ack_id":"x"}
        ann says SUBSCRIBE topic=build.> {}
            ann < NACK {"ack_id":"x","code":"FORBIDDEN","message":"this connection has supports_topics: false"}
        bob> * #build.ok: on a topic
            all < DELIVER d1 Bob -> all@pi #build.ok seq 1 originalTo "*" {"body":"on a topic"}
        bob>> * #build.ok: at least once
            bob < ACK {"ack_id":"b2","durability":"disk","recipients":1,"state":"accepted"}
            all < DELIVER d2 Bob -> all@pi #build.ok seq 2 originalTo "*" requires_ack true {"body":"at least once"}
        bob> * #chess: on another topic
        bob>> *: to everyone
            bob < ACK {"ack_id":"b4","durability":"disk","recipients":2,"state":"accepted"}
            mac < DELIVER d3 Bob -> all@mac seq 1 originalTo "*" requires_ack true {"body":"to everyone"}
            zoe < DELIVER d4 Bob -> Zoe seq 1 originalTo "*" requires_ack true {"body":"to everyone"}
        bob says SEND to=* meta={"sync":{"correlationId":"c"}} {"body":"a question?"}
            bob < ACK {"ack_id":"x","durability":"disk","recipients":1,"state":"accepted"}
            zoe < DELIVER d5 Bob -> Zoe seq 2 originalTo "*" requires_ack true {"body":"a question?"}
        ann> * #build.ok: from a machine
        ann> *: from a machine
            bob < DELIVER d6 Ann@pi -> Bob seq 1 originalTo "*" {"body":"from a machine"}
            zoe < DELIVER d7 Ann@pi -> Zoe seq 1 originalTo "*" {"body":"from a machine"}
        bob> all@PI: to all of one machine
            all < DELIVER d8 Bob -> all@pi seq 1 {"body":"to all of one machine"}
        bob> all@lab: to no machine
            bob < NACK {"ack_id":"b6","code":"UNKNOWN_AGENT","message":"no agent all@lab was ever here; here are all@mac, all@pi, Ann@pi, Bob, Zoe"}
    "#]]);
}

#[test]
fn policy_applies_to_all_agents_of_another_machine() {
    check(expect![[r#"
        here: bob zoe
        policy Bob *@pi build.ok yes; * *@pi * no
        all joins {"agent":"all@pi","mode":"bridge","auth":{"key":"open"},"capabilities":{"broadcasts":true}}
            all < WELCOME {"agent":"all@pi","capabilities":{"ack":true,"broadcasts":true,"max_inflight":256,"resume":false,"supports_topics":true}}
        all says SUBSCRIBE topic=> {}
            all < ACK {"ack_id":"x"}
        bob> * #build.ok: allowed
            all < DELIVER d1 Bob -> all@pi #build.ok seq 1 originalTo "*" {"body":"allowed"}
        bob> * #build.no: forbidden
        bob>> *: forbidden
            bob < ACK {"ack_id":"b3","durability":"disk","recipients":1,"state":"accepted"}
            zoe < DELIVER d2 Bob -> Zoe seq 1 originalTo "*" requires_ack true {"body":"forbidden"}
    "#]]);
}

#[test]
fn all_agents_of_a_machine_get_topics_that_were_sent_while_the_bridge_was_away() {
    check(expect![[r#"
        here: bob
        all joins {"agent":"all@pi","mode":"bridge","auth":{"key":"open"},"companion_key":"k","capabilities":{"resume":true,"broadcasts":true}}
            all < WELCOME {"agent":"all@pi","capabilities":{"ack":true,"broadcasts":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        all says SUBSCRIBE topic=build.> {}
            all < ACK {"ack_id":"x"}
        all goes
        bob>> * #build.ok: waits
            bob < ACK {"ack_id":"b1","durability":"disk","recipients":1,"state":"accepted"}
        bob> * #build.ok: is lost
        bob>> *: is for those who are here
            bob < ACK {"ack_id":"b3","durability":"disk","recipients":0,"state":"accepted"}
        all joins {"agent":"all@pi","mode":"bridge","auth":{"key":"open"},"companion_key":"k","capabilities":{"resume":true,"broadcasts":true}}
            all < WELCOME {"agent":"all@pi","capabilities":{"ack":true,"broadcasts":true,"max_inflight":256,"resume":true,"supports_topics":true},"session_id":"s2"}
            all < PING {}
            all < DELIVER d1 Bob -> all@pi #build.ok seq 1 originalTo "*" requires_ack true {"body":"waits"}
    "#]]);
}

#[test]
fn lost_connection_of_a_bridge_is_no_failure() {
    check(expect![[r#"
        here: bob op
        ann joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"},"capabilities":{"resume":true}}
            ann < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":false}}
        bob>> Ann@pi: again and again
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 Bob -> Ann@pi seq 1 requires_ack true {"body":"again and again"}
        ann goes
        bob> Ann@pi: at most once
            bob < NACK {"ack_id":"b2","code":"AGENT_OFFLINE","message":"Ann@pi is away"}
        ann joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"},"capabilities":{"resume":true}}
            ann < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":false},"session_id":"s3"}
            ann < PING {}
            ann < DELIVER d1 Bob -> Ann@pi seq 1 attempt 2 requires_ack true {"body":"again and again"}
        ann goes
        op asks message {"id":"d1"}
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"message","data":{"messages":[{"attempts":2,"body":"again and again","expires":1601000,"failures":0,"from":"Bob","id":"d1","send_id":"b1","seq":1,"state":"waiting","to":"Ann@pi","waits_for":"recipient"}]},"kind":"response"}
    "#]]);
}

#[test]
fn bridge_continues_the_session_of_its_name_without_a_token() {
    check(expect![[r#"
        here: bob
        ann joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"},"companion_key":"k","capabilities":{"resume":true}}
            ann < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":false}}
        ann>> Bob: a question's fate
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann@pi -> Bob seq 1 requires_ack true {"body":"a question's fate"}
        two joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"},"companion_key":"k","capabilities":{"resume":true}}
            ann < ERROR {"code":"SESSION_REPLACED","fatal":true,"message":"another connection took this session up"}
            ann close Fault(SessionReplaced)
            two < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":false},"session_id":"s2"}
            two < PING {}
        two pongs
        two goes
        bob nacks d1
        three connects
        three says RESUME {"resume_token":"two:1","streams":{}}
            three < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"this name is another machine's: send HELLO in mode bridge","ref":"x"}
        four joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"},"companion_key":"other","capabilities":{"resume":true}}
            four < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":false},"session_id":"s2"}
            four < PING {}
        four pongs
            four < NACK {"ack_id":"a1","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
        five joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"},"companion_key":"k"}
            four < PING {}
            five waits
        wait 250
            five < ERROR {"code":"NAME_IN_USE","fatal":true,"message":"Ann@pi is connected already; choose another name, or end that one"}
            five close Fault(NameInUse)
        six joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"}}
            four < PING {}
            six waits
        four goes
            six goes on
            six < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false},"session_id":"s2"}
            six < PING {}
        six pongs
        six goes
        sleep 700000
        seven joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"},"capabilities":{"resume":true}}
            seven < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":false}}
    "#]]);
}

#[test]
fn message_to_another_machine_waits_for_a_shorter_time() {
    check(expect![[r#"
        limits remote_ttl_ms=500 heartbeat_ms=100000
        here: bob
        ann joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"}}
            ann < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false}}
        ann goes
        bob>> Ann@pi: as long as usual
            bob < ACK {"ack_id":"b1","away":true,"durability":"disk","state":"accepted"}
        bob>> Ann@pi 900ms: as long as it says
            bob < ACK {"ack_id":"b2","away":true,"durability":"disk","state":"accepted"}
        wait 500
            bob < NACK {"ack_id":"b1","code":"EXPIRED","message":"its time to live ran out","to":"Ann@pi"}
        wait 400
            bob < NACK {"ack_id":"b2","code":"EXPIRED","message":"its time to live ran out","to":"Ann@pi"}
    "#]]);
}

#[test]
fn policy_applies_to_agents_of_other_machines() {
    check(expect![[r#"
        here: bob zoe
        policy *@pi Bob * yes; *@pi * * no; Bob *@* * yes; * *@* * no
        ann joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"}}
            ann < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false}}
        ann> Bob: allowed
            bob < DELIVER d1 Ann@pi -> Bob seq 1 {"body":"allowed"}
        ann> Zoe: forbidden
            ann < NACK {"ack_id":"a2","code":"FORBIDDEN","message":"Ann@pi may not send this to Zoe: line 2 of policy.toml forbids it"}
        bob> Ann@pi: allowed
            ann < DELIVER d2 Bob -> Ann@pi seq 1 {"body":"allowed"}
        zoe> Ann@pi: forbidden
            zoe < NACK {"ack_id":"z1","code":"FORBIDDEN","message":"Zoe may not send this to Ann@pi: line 4 of policy.toml forbids it"}
    "#]]);
}
