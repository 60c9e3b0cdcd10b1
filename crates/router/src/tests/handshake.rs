//! Handshakes, names in use, heartbeats, and the end of connections and of the daemon.

use super::script::{check, run};
use expect_test::expect;

#[test]
fn first_frame_must_be_hello_or_resume() {
    check(expect![[r#"
        a connects
        a says SEND to=Bob {}
            a < ERROR {"code":"HANDSHAKE_REQUIRED","fatal":true,"message":"the first frame is HELLO or RESUME","ref":"x"}
            a close Fault(HandshakeRequired)
        b connects
        b says PONG {"nonce":"n"}
            b < ERROR {"code":"HANDSHAKE_REQUIRED","fatal":true,"message":"the first frame is HELLO or RESUME","ref":"x"}
            b close Fault(HandshakeRequired)
        c connects
        c raw {"v":1,"type":"WHAT","id":"i1","ts":1,"payload":{}}
            c < ERROR {"code":"HANDSHAKE_REQUIRED","fatal":true,"message":"the first frame is HELLO or RESUME","ref":"i1"}
            c close Fault(HandshakeRequired)
        d connects
        d raw {"v":1,"id":"i1","ts":1,"payload":{}}
            d < ERROR {"code":"HANDSHAKE_REQUIRED","fatal":true,"message":"the first frame is HELLO or RESUME","ref":"i1"}
            d close Fault(HandshakeRequired)
        e connects
        e raw {"v":1,"type":"HELLO","id":"i2","ts":"x","payload":{"agent":"E"}}
            e < ERROR {"code":"INVALID","fatal":false,"message":"`ts` is not a number","ref":"i2"}
        e says HELLO {"agent":7}
            e < ERROR {"code":"INVALID","fatal":false,"message":"HELLO: `agent` is not a string","ref":"x"}
        e says HELLO {}
            e < ERROR {"code":"INVALID","fatal":false,"message":"HELLO: the payload has no `agent`","ref":"x"}
        e says HELLO {"agent":"E"}
            e < WELCOME {"agent":"E"}
    "#]]);
}

#[test]
fn frame_without_envelope_ends_the_connection() {
    check(expect![[r#"
        a connects
        a raw [1]
            a < ERROR {"code":"BAD_FRAME","fatal":true,"message":"the frame is not a JSON object"}
            a close Fault(BadFrame)
        b connects
        b raw {"v":2,"type":"HELLO","id":"i","ts":1,"payload":{"agent":"B"}}
            b < ERROR {"code":"UNSUPPORTED_VERSION","fatal":true,"message":"`v` is 2; this daemon speaks 1","ref":"i"}
            b close Fault(UnsupportedVersion)
        c connects
        c breaks FRAME_TOO_LARGE
            c < ERROR {"code":"FRAME_TOO_LARGE","fatal":true,"message":"broken"}
            c close Fault(FrameTooLarge)
        ann joins
            ann < WELCOME {"agent":"Ann"}
        ann raw {"v":1,"type":"SEND","id":"i","ts":1,"payload":
            ann < ERROR {"code":"BAD_FRAME","fatal":true,"message":"the frame is not JSON: a value expected at byte 47"}
            ann close Fault(BadFrame)
        bob joins
            bob < WELCOME {"agent":"Bob"}
        bob breaks UNAUTHORIZED
            bob < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"broken"}
            bob close Fault(Unauthorized)
        cid joins
            cid < WELCOME {"agent":"Cid"}
    "#]]);
}

#[test]
fn invalid_envelope_is_reported_and_the_connection_continues() {
    check(expect![[r#"
        ann joins
            ann < WELCOME {"agent":"Ann"}
        ann raw {"v":1,"type":"WHAT","id":"i1","ts":1,"payload":{}}
            ann < ERROR {"code":"INVALID","fatal":false,"message":"`type` \"WHAT\" is not known","ref":"i1"}
        ann raw {"v":1,"type":"SEND","id":"i2","ts":1}
            ann < ERROR {"code":"INVALID","fatal":false,"message":"the envelope has no `payload`","ref":"i2"}
        ann raw {"v":1,"type":"ACK","id":"i3","ts":1,"payload":{"ack_id":5}}
            ann < ERROR {"code":"INVALID","fatal":false,"message":"ACK: `ack_id` is not a string","ref":"i3"}
        ann raw {"v":1,"type":"PONG","id":"i4","ts":1,"payload":{}}
            ann < ERROR {"code":"INVALID","fatal":false,"message":"PONG: there is no `nonce`","ref":"i4"}
        ann says HELLO {"agent":"Ann"}
            ann < ERROR {"code":"INVALID","fatal":false,"message":"this connection has sent HELLO already","ref":"x"}
        ann says WELCOME {}
            ann < ERROR {"code":"INVALID","fatal":false,"message":"WELCOME is sent only by the daemon","ref":"x"}
        ann says DELIVER {}
            ann < ERROR {"code":"INVALID","fatal":false,"message":"DELIVER is sent only by the daemon","ref":"x"}
        ann says PING {"nonce":"n"}
            ann < ERROR {"code":"INVALID","fatal":false,"message":"PING is sent only by the daemon","ref":"x"}
        ann says ERROR {}
            ann < ERROR {"code":"INVALID","fatal":false,"message":"ERROR is sent only by the daemon","ref":"x"}
        ann says BUSY {}
            ann < ERROR {"code":"INVALID","fatal":false,"message":"BUSY is sent only by the daemon","ref":"x"}
        ann says SYNC {}
            ann < ERROR {"code":"INVALID","fatal":false,"message":"SYNC is sent only by the daemon","ref":"x"}
        ann> Ann: still here
            ann < DELIVER d1 Ann -> Ann seq 1 {"body":"still here"}
    "#]]);
}

#[test]
fn reserved_and_malformed_names_are_refused() {
    check(expect![[r#"
        a joins {"agent":"admin"}
            a < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"admin\": this name is reserved; choose another","ref":"h"}
            a close Fault(InvalidName)
        b joins {"agent":"-x"}
            b < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"-x\": a name begins and ends with a letter or a digit","ref":"h"}
            b close Fault(InvalidName)
        c joins {"agent":"@relay"}
            c < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"@relay\": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'","ref":"h"}
            c close Fault(InvalidName)
        d joins {"agent":"*"}
            d < ERROR {"code":"INVALID_NAME","fatal":true,"message":"\"*\": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'","ref":"h"}
            d close Fault(InvalidName)
    "#]]);
}

#[test]
fn handshake_times_out() {
    check(expect![[r#"
        a connects
        wait 4999
        wait 1
            a < ERROR {"code":"HANDSHAKE_TIMEOUT","fatal":true,"message":"no HELLO came within 5 s"}
            a close Fault(HandshakeTimeout)
        a goes
        b connects
        b says RESUME {}
            b < NACK {"ack_id":"x","code":"UNAUTHORIZED","message":"a RESUME before HELLO needs `resume_token`; send HELLO"}
        wait 5000
            b < ERROR {"code":"HANDSHAKE_TIMEOUT","fatal":true,"message":"no HELLO came within 5 s"}
            b close Fault(HandshakeTimeout)
        wait 999
        wait 1
            b hang up
        b goes
    "#]]);
}

#[test]
fn oldest_unauthenticated_connection_gives_way() {
    check(expect![[r#"
        limits unauthenticated_max=2
        a connects
        b connects
        c joins
            a < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"more than 2 connections are without a handshake"}
            a close Fault(TooManyClients)
            c < WELCOME {"agent":"C"}
        d connects
        e connects
            b < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"more than 2 connections are without a handshake"}
            b close Fault(TooManyClients)
        b says HELLO {"agent":"B"}
    "#]]);
}

#[test]
fn process_with_most_unauthenticated_connections_gives_way() {
    check(expect![[r#"
        limits unauthenticated_max=3
        process 7: e1 e2 e3 e4
        a connects
        e1 connects
        e2 connects
        e3 connects
            e1 < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"more than 3 connections are without a handshake"}
            e1 close Fault(TooManyClients)
        e4 connects
            e2 < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"more than 3 connections are without a handshake"}
            e2 close Fault(TooManyClients)
        a says HELLO {"agent":"A"}
            a < WELCOME {"agent":"A"}
    "#]]);
}

#[test]
fn clients_and_names_are_bounded() {
    check(expect![[r#"
        limits clients_max=2 names_max=3
        ann joins
            ann < WELCOME {"agent":"Ann"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        cid joins
            cid < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"2 clients are connected already","ref":"h"}
            cid close Fault(TooManyClients)
        bob says SUBSCRIBE topic=t {}
            bob < ACK {"ack_id":"x"}
        bob goes
        cid2 joins
            cid2 < WELCOME {"agent":"Cid"}
        ann says SUBSCRIBE topic=t {}
            ann < ACK {"ack_id":"x"}
        ann goes
        dan joins
            dan < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"3 names are known already","ref":"h"}
            dan close Fault(TooManyClients)
        ann joins
            ann < WELCOME {"agent":"Ann"}
    "#]]);
}

#[test]
fn operators_join_a_full_daemon() {
    check(expect![[r#"
        limits clients_max=1 names_max=1
        ann joins
            ann < WELCOME {"agent":"Ann"}
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks agents {"limit":1}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        gus joins {"mode":"guest"}
            gus < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"2 clients are connected already","ref":"h"}
            gus close Fault(TooManyClients)
    "#]]);
}

#[test]
fn full_table_forgets_names_without_mail_key_and_session() {
    check(expect![[r#"
        limits names_max=5
        policy key Kay k
        here: ann bob
        kay joins {"auth":{"key":"k"}}
            kay < WELCOME {"agent":"Kay"}
        kay says BYE {"reason":"done"}
            kay close Bye
        ann>> Bob: mail
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"mail"}
        bob says BYE {"reason":"done"}
            bob close Bye
        cid joins
            cid < WELCOME {"agent":"Cid"}
        cid says BYE {"reason":"done"}
            cid close Bye
        wait 1
        dan joins
            dan < WELCOME {"agent":"Dan"}
        dan says BYE {"reason":"done"}
            dan close Bye
        eve joins
            eve < WELCOME {"agent":"Eve"}
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks agents {"limit":5}
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Bob","queued":1,"queued_bytes":588,"since":1001000,"subscriptions":0,"waiting":1},{"here":false,"in_flight":0,"name":"Dan","queued":0,"queued_bytes":0,"since":1001001,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Eve","queued":0,"queued_bytes":0,"session":"s-f9880bd21be61006","since":1001001,"subscriptions":0,"waiting":0},{"here":false,"in_flight":0,"name":"Kay","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        fay joins
            fay < WELCOME {"agent":"Fay"}
        guy joins
            guy < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"5 names are known already","ref":"h"}
            guy close Fault(TooManyClients)
    "#]]);
}

#[test]
fn many_short_stays_do_not_shut_newcomers_out() {
    let mut script = "limits names_max=64\n".to_owned();
    for at in 0..200 {
        script.push_str(&format!("a{at} joins {{\"agent\":\"A{at}\"}}\n"));
        script.push_str(&format!("a{at} says BYE {{\"reason\":\"done\"}}\n"));
    }
    let transcript = run(&script);
    assert_eq!(transcript.matches("WELCOME").count(), 200, "{transcript}");
}

#[test]
fn name_in_use_is_refused_once_its_owner_was_pinged() {
    check(expect![[r#"
        ann joins
            ann < WELCOME {"agent":"Ann"}
        ann2 joins
            ann < PING {}
            ann2 waits
        wait 249
        wait 1
            ann2 < ERROR {"code":"NAME_IN_USE","fatal":true,"message":"Ann is connected already; choose another name, or end that one"}
            ann2 close Fault(NameInUse)
        ann> Ann: mine still
            ann < DELIVER d1 Ann -> Ann seq 1 {"body":"mine still"}
    "#]]);
}

#[test]
fn names_ignore_case() {
    check(expect![[r#"
        ann joins
            ann < WELCOME {"agent":"Ann"}
        ann2 joins {"agent":"aNN"}
            ann < PING {}
            ann2 waits
        wait 250
            ann2 < ERROR {"code":"NAME_IN_USE","fatal":true,"message":"aNN is connected already; choose another name, or end that one"}
            ann2 close Fault(NameInUse)
        bob joins
            bob < WELCOME {"agent":"Bob"}
        bob> ANN: hi
            ann < DELIVER d1 Bob -> Ann seq 1 {"body":"hi"}
    "#]]);
}

#[test]
fn freed_name_goes_to_the_first_waiting_connection() {
    check(expect![[r#"
        ann joins
            ann < WELCOME {"agent":"Ann"}
        ann2 joins
            ann < PING {}
            ann2 waits
        ann2> Ann: said while waiting
        ann3 joins
            ann3 waits
        wait 100
        ann goes
            ann2 goes on
            ann2 < WELCOME {"agent":"Ann"}
            ann2 < DELIVER d1 Ann -> Ann seq 1 {"body":"said while waiting"}
        wait 150
            ann3 < ERROR {"code":"NAME_IN_USE","fatal":true,"message":"Ann is connected already; choose another name, or end that one"}
            ann3 close Fault(NameInUse)
    "#]]);
}

#[test]
fn waiting_connection_that_ends_is_forgotten() {
    check(expect![[r#"
        ann joins
            ann < WELCOME {"agent":"Ann"}
        ann2 joins
            ann < PING {}
            ann2 waits
        ann2 goes
        ann goes
        ann3 joins
            ann3 < WELCOME {"agent":"Ann"}
    "#]]);
}

#[test]
fn unknown_token_resumes_no_session() {
    check(expect![[r#"
        ann connects
        ann says RESUME {"session_id":"s-1","agent":"Ann","resume_token":"t"}
            ann < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; send HELLO","ref":"x"}
        ann says RESUME {"streams":7}
            ann < NACK {"ack_id":"x","code":"UNAUTHORIZED","message":"a RESUME before HELLO needs `resume_token`; send HELLO"}
        ann says HELLO {"agent":"Ann","session":{"resume_token":"t"}}
            ann < ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"the token was used before, is out of date, or is another name's; this is a fresh session","ref":"x"}
            ann < WELCOME {"agent":"Ann"}
        ann says RESUME {"session_id":"s-1","agent":"Ann"}
            ann < SYNC {"session_id":"s1","streams":[]}
        ann> Ann: here
            ann < DELIVER d1 Ann -> Ann seq 1 {"body":"here"}
    "#]]);
}

#[test]
fn unknown_mode_is_invalid() {
    check(expect![[r#"
        c joins {"mode":"boss"}
            c < ERROR {"code":"INVALID","fatal":false,"message":"HELLO: mode \"boss\" is not known","ref":"h"}
    "#]]);
}

#[test]
fn guest_sends_and_receives_no_broadcast() {
    check(expect![[r#"
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-e43fe68b","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        ann joins
            ann < WELCOME {"agent":"Ann"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        gus> Ann: hello
            ann < DELIVER d1 @guest-e43fe68b -> Ann seq 1 {"body":"hello"}
        gus>> Ann: surely
            gus < ACK {"ack_id":"g2","durability":"disk","state":"accepted"}
            ann < DELIVER d2 @guest-e43fe68b -> Ann seq 2 requires_ack true {"body":"surely"}
        ann> *: all
            bob < DELIVER d3 Ann -> Bob seq 1 originalTo "*" {"body":"all"}
        gus says SUBSCRIBE topic=t {}
            gus < NACK {"ack_id":"x","code":"FORBIDDEN","message":"this connection has supports_topics: false"}
        gus> nobody: hi
            gus < NACK {"ack_id":"g3","code":"UNKNOWN_AGENT","message":"no agent nobody was ever here; here are Ann, Bob"}
        ann acks d2
        ann> @guest-e43fe68b: back to you
            gus < DELIVER d4 Ann -> @guest-e43fe68b seq 1 {"body":"back to you"}
        ann>> @guest-e43fe68b: it has no mailbox
            ann < NACK {"ack_id":"a3","code":"NO_ACK","message":"@guest-e43fe68b does not acknowledge: send without requires_ack"}
        gus goes
        ann> @guest-e43fe68b: gone
            ann < NACK {"ack_id":"a4","code":"UNKNOWN_AGENT","message":"no agent @guest-e43fe68b was ever here; here are Ann, Bob"}
    "#]]);
}

#[test]
fn capabilities_are_granted_as_requested() {
    check(expect![[r#"
        ann joins {"capabilities":{"ack":false,"max_inflight":3}}
            ann < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":3,"resume":false,"supports_topics":true}}
        bob joins {"capabilities":{"supports_topics":false,"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":false}}
    "#]]);
}

#[test]
fn silent_client_is_pinged_and_closed() {
    check(expect![[r#"
        ann joins
            ann < WELCOME {"agent":"Ann"}
        wait 4999
        wait 1
            ann < PING {}
        wait 9999
        wait 1
            ann < ERROR {"code":"HEARTBEAT_TIMEOUT","fatal":true,"message":"no frame came for 10 s after a PING"}
            ann close Fault(HeartbeatTimeout)
        wait 1000
            ann hang up
        ann goes
    "#]]);
}

#[test]
fn any_frame_delays_the_next_ping() {
    check(expect![[r#"
        ann joins
            ann < WELCOME {"agent":"Ann"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        wait 4000
        ann> Bob: one
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"one"}
        wait 1000
            bob < PING {}
        wait 3999
        wait 1
            ann < PING {}
        bob says PONG {"nonce":"whatever"}
        ann says ACK {"ack_id":"no-such"}
        wait 4999
        wait 1
            ann < PING {}
            bob < PING {}
    "#]]);
}

#[test]
fn sleep_of_the_daemon_postpones_every_deadline_once() {
    check(expect![[r#"
        ann joins
            ann < WELCOME {"agent":"Ann"}
        bob connects
        sleep 60000
        wait 4999
        wait 1
            ann < PING {}
            bob < ERROR {"code":"HANDSHAKE_TIMEOUT","fatal":true,"message":"no HELLO came within 5 s"}
            bob close Fault(HandshakeTimeout)
        wait 10000
            bob hang up
            ann < ERROR {"code":"HEARTBEAT_TIMEOUT","fatal":true,"message":"no frame came for 10 s after a PING"}
            ann close Fault(HeartbeatTimeout)
    "#]]);
}

#[test]
fn bye_of_a_client_keeps_its_mailbox() {
    check(expect![[r#"
        ann joins
            ann < WELCOME {"agent":"Ann"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        bob>> Ann: kept
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 Bob -> Ann seq 1 requires_ack true {"body":"kept"}
        ann says BYE {"reason":"done"}
            ann close Bye
        bob> Ann: too late
            bob < NACK {"ack_id":"b2","code":"AGENT_OFFLINE","message":"Ann is away"}
        wait 1000
            ann hang up
        ann goes
        ann joins
            ann < WELCOME {"agent":"Ann"}
            ann < DELIVER d1 Bob -> Ann seq 1 attempt 2 requires_ack true {"body":"kept"}
    "#]]);
}

#[test]
fn stop_sends_bye_and_waits_for_all_connections() {
    check(expect![[r#"
        ann joins
            ann < WELCOME {"agent":"Ann"}
        bob connects
        stop upgrade
            ann < BYE {"reason":"upgrade"}
            ann close Stopping
            bob < BYE {"reason":"upgrade"}
            bob close Stopping
        cid connects
            cid < ERROR {"code":"SHUTTING_DOWN","fatal":true,"message":"the daemon is going down"}
            cid close Fault(ShuttingDown)
        ann> Ann: unheard
        ann goes
        bob goes
        cid goes
            stopped
    "#]]);
}

#[test]
fn stop_takes_at_most_a_second() {
    check(expect![[r#"
        ann joins
            ann < WELCOME {"agent":"Ann"}
        stop
            ann < BYE {"reason":"stop"}
            ann close Stopping
        wait 999
        wait 1
            ann hang up
            stopped
        ann joins
    "#]]);
}
