//! Routing of SENDs: recipients, order, and refusals.

use super::script::check;
use expect_test::expect;

#[test]
fn direct_message_reaches_its_recipient() {
    check(expect![[r#"
        here: ann bob
        ann> bob: hi
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"hi"}
        bob> ANN: hi yourself
            ann < DELIVER d2 Bob -> Ann seq 1 {"body":"hi yourself"}
        ann> Ann: to myself
            ann < DELIVER d3 Ann -> Ann seq 1 {"body":"to myself"}
    "#]]);
}

#[test]
fn streams_are_per_sender_recipient_and_topic() {
    check(expect![[r#"
        here: ann bob cid
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        ann> Bob #t: other topic
            bob < DELIVER d2 Ann -> Bob #t seq 1 {"body":"other topic"}
        ann> *: 2 for Bob, 1 for Cid
            bob < DELIVER d3 Ann -> Bob seq 2 originalTo "*" {"body":"2 for Bob, 1 for Cid"}
            cid < DELIVER d4 Ann -> Cid seq 1 originalTo "*" {"body":"2 for Bob, 1 for Cid"}
        cid> Bob: 1
            bob < DELIVER d5 Cid -> Bob seq 1 {"body":"1"}
        ann> Bob: 3
            bob < DELIVER d6 Ann -> Bob seq 3 {"body":"3"}
        ann> Cid: 2
            cid < DELIVER d7 Ann -> Cid seq 2 {"body":"2"}
    "#]]);
}

#[test]
fn stream_numbers_continue_over_sessions() {
    check(expect![[r#"
        here: ann bob
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        bob goes
        ann> Bob: takes no number
            ann < NACK {"ack_id":"a2","code":"AGENT_OFFLINE","message":"Bob is away"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        ann> Bob: 2
            bob < DELIVER d2 Ann -> Bob seq 2 {"body":"2"}
    "#]]);
}

#[test]
fn broadcast_reaches_all_but_its_sender() {
    check(expect![[r#"
        here: ann
        ann> *: nobody
        ann>> *: nobody
            ann < ACK {"ack_id":"a2","durability":"disk","recipients":0,"state":"accepted"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        cid joins
            cid < WELCOME {"agent":"Cid"}
        ann> *: all
            bob < DELIVER d1 Ann -> Bob seq 1 originalTo "*" {"body":"all"}
            cid < DELIVER d2 Ann -> Cid seq 1 originalTo "*" {"body":"all"}
        ann>> *: all, surely
            ann < ACK {"ack_id":"a4","durability":"disk","recipients":2,"state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 2 originalTo "*" requires_ack true {"body":"all, surely"}
            cid < DELIVER d4 Ann -> Cid seq 2 originalTo "*" requires_ack true {"body":"all, surely"}
    "#]]);
}

#[test]
fn topic_reaches_each_subscriber_once() {
    check(expect![[r#"
        here: ann bob cid
        bob says SUBSCRIBE topic=build.* {}
            bob < ACK {"ack_id":"x"}
        bob says SUBSCRIBE topic=build.> {}
            bob < ACK {"ack_id":"x"}
        bob says SUBSCRIBE topic=build.linux {}
            bob < ACK {"ack_id":"x"}
        cid says SUBSCRIBE topic=build {}
            cid < ACK {"ack_id":"x"}
        ann says SUBSCRIBE topic=> {}
            ann < ACK {"ack_id":"x"}
        ann> #build.linux: one
            bob < DELIVER d1 Ann -> Bob #build.linux seq 1 originalTo "*" {"body":"one"}
        ann> * #build: two
            cid < DELIVER d2 Ann -> Cid #build seq 1 originalTo "*" {"body":"two"}
        ann> Cid #build.linux: direct with a topic
            cid < DELIVER d3 Ann -> Cid #build.linux seq 1 {"body":"direct with a topic"}
        bob says UNSUBSCRIBE topic=build.* {}
            bob < ACK {"ack_id":"x"}
        bob says UNSUBSCRIBE topic=never {}
            bob < ACK {"ack_id":"x"}
        bob> #build.linux: to ann
            ann < DELIVER d4 Bob -> Ann #build.linux seq 1 originalTo "*" {"body":"to ann"}
        ann>> #build.linux: three
            ann < ACK {"ack_id":"a4","durability":"disk","recipients":1,"state":"accepted"}
            bob < DELIVER d5 Ann -> Bob #build.linux seq 2 originalTo "*" requires_ack true {"body":"three"}
        bob goes
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d5 Ann -> Bob #build.linux seq 2 attempt 2 originalTo "*" requires_ack true {"body":"three"}
        ann>> #build.linux: gone with the session
            ann < ACK {"ack_id":"a5","durability":"disk","recipients":0,"state":"accepted"}
    "#]]);
}

#[test]
fn subscriptions_are_validated_and_bounded() {
    check(expect![[r#"
        limits subscriptions_max=2
        here: ann
        ann says SUBSCRIBE {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"SUBSCRIBE names its topic in `topic`"}
        ann says SUBSCRIBE topic=a..b {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"a topic is one or more tokens split by '.', none of them empty"}
        ann says SUBSCRIBE topic=>.a {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"'>' stands at the end of a pattern only"}
        ann says SUBSCRIBE topic=a {}
            ann < ACK {"ack_id":"x"}
        ann says SUBSCRIBE topic=a {}
            ann < ACK {"ack_id":"x"}
        ann says SUBSCRIBE topic=b {}
            ann < ACK {"ack_id":"x"}
        ann says SUBSCRIBE topic=c {}
            ann < NACK {"ack_id":"x","code":"LIMIT","message":"a session has at most 2 subscriptions"}
        ann says UNSUBSCRIBE topic=a {}
            ann < ACK {"ack_id":"x"}
        ann says SUBSCRIBE topic=c {}
            ann < ACK {"ack_id":"x"}
        bob joins {"capabilities":{"supports_topics":false}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false}}
        bob says SUBSCRIBE topic=a {}
            bob < NACK {"ack_id":"x","code":"FORBIDDEN","message":"this connection has supports_topics: false"}
        bob says UNSUBSCRIBE topic=a {}
            bob < NACK {"ack_id":"x","code":"FORBIDDEN","message":"this connection has supports_topics: false"}
    "#]]);
}

#[test]
fn invalid_send_is_refused_and_uses_no_number() {
    check(expect![[r#"
        here: ann bob
        ann says SEND to=Bob from=Bob {}
            ann < NACK {"ack_id":"x","code":"FORBIDDEN","message":"you are Ann and cannot send as \"Bob\""}
        ann says SEND to=Bob from=ann {"in":"her own name, in her own case"}
            bob < DELIVER d1 Ann -> Bob seq 1 {"in":"her own name, in her own case"}
        ann says SEND {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"a SEND names `to`, a `topic`, or both"}
        ann says SEND topic=a.* {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"a message is sent on one topic: '*' and '>' are for subscriptions"}
        ann says SEND to=Bob topic=a..b {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"a topic is one or more tokens split by '.', none of them empty"}
        ann says SEND to=Bob meta={"requires_ack":1} {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"SEND: `requires_ack` is not a boolean"}
        ann says SEND to=Bob meta={"ttl_ms":"1"} {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"SEND: `ttl_ms` is not a whole number from 0 to 18446744073709551615, in digits"}
        ann says SEND to=Bob meta={"ttl_ms":1e3} {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"SEND: `ttl_ms` is not a whole number from 0 to 18446744073709551615, in digits"}
        ann says SEND to=Bob meta={"sync":7} {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"SEND: `sync` is not an object"}
        ann says SEND to=Bob meta={"sync":{"timeoutMs":5}} {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"SEND: there is no `sync.correlationId`"}
        ann says SEND to=Bob meta={"sync":{"correlationId":""}} {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"`correlationId` has 1 to 256 bytes"}
        ann says SEND to=Bob meta={"sync":{"correlationId":"c*257"}} {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"`correlationId` has 1 to 256 bytes"}
        ann says SEND id=q to=Bob topic=q meta={"sync":{"correlationId":"c*256"}} {}
            ann < ACK {"ack_id":"q","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob #q seq 1 requires_ack true {}
        ann says SEND to=Bob meta={"sync":{"correlationId":"c","timeoutMs":3600001}} {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"`timeoutMs` is 1 to 3600000"}
        ann says SEND to=@relay meta={"sync":{"correlationId":"c"}} {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"@relay answers with a DELIVER: ask it without `sync`"}
        ann says SEND to=-x {}
            ann < NACK {"ack_id":"x","code":"INVALID","message":"\"-x\" is nobody's name: a name begins and ends with a letter or a digit"}
        ann says SEND to=Bob meta={"other":[1,2],"importance":"high","replyTo":7} {"n":2}
            bob < DELIVER d3 Ann -> Bob seq 2 {"n":2}
    "#]]);
}

#[test]
fn absent_recipient_is_reported() {
    check(expect![[r#"
        here: ann bob
        ann> Zoe: never seen
            ann < NACK {"ack_id":"a1","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        ann>> Zoe: never seen
            ann < NACK {"ack_id":"a2","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        ann> @guest-00000000: never seen
            ann < NACK {"ack_id":"a3","code":"UNKNOWN_AGENT","message":"no agent @guest-00000000 was ever here; here are Ann, Bob"}
        bob goes
        ann> Bob: away
            ann < NACK {"ack_id":"a4","code":"AGENT_OFFLINE","message":"Bob is away"}
    "#]]);
}

#[test]
fn at_least_once_needs_a_recipient_that_acknowledges() {
    check(expect![[r#"
        here: ann
        bob joins {"capabilities":{"ack":false}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":false,"max_inflight":256,"resume":false,"supports_topics":true}}
        cid joins
            cid < WELCOME {"agent":"Cid"}
        ann>> Bob: surely
            ann < NACK {"ack_id":"a1","code":"NO_ACK","message":"Bob does not acknowledge: send without requires_ack"}
        ann> Bob: perhaps
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"perhaps"}
        ann>> *: all, surely
            ann < NACK {"ack_id":"a3","code":"NO_ACK","message":"Bob does not acknowledge: send without requires_ack","to":"Bob"}
            ann < ACK {"ack_id":"a3","durability":"disk","recipients":1,"state":"accepted"}
            cid < DELIVER d2 Ann -> Cid seq 1 originalTo "*" requires_ack true {"body":"all, surely"}
    "#]]);
}

#[test]
fn message_too_large_to_deliver_is_refused() {
    check(expect![[r#"
        limits frame_bytes_max=1000
        here: ann
        ann> Ann: x*426
            ann < DELIVER d1 Ann -> Ann seq 1 {"body":"x*426"}
        ann> Ann: x*427
            ann < NACK {"ack_id":"a2","code":"TOO_LARGE","message":"its DELIVER to Ann would be over max_frame_bytes (1000)"}
    "#]]);
}

#[test]
fn broadcast_too_large_to_deliver_is_refused_per_recipient() {
    check(expect![[r#"
        limits frame_bytes_max=1000
        here: ann bob cid
        ann>> *: x*427
            ann < NACK {"ack_id":"a1","code":"TOO_LARGE","message":"its DELIVER to Bob would be over max_frame_bytes (1000)","to":"Bob"}
            ann < NACK {"ack_id":"a1","code":"TOO_LARGE","message":"its DELIVER to Cid would be over max_frame_bytes (1000)","to":"Cid"}
            ann < ACK {"ack_id":"a1","durability":"disk","recipients":0,"state":"accepted"}
    "#]]);
}

#[test]
fn streams_are_bounded() {
    check(expect![[r#"
        limits streams_max=3
        here: ann bob cid
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob #t: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob #t seq 1 requires_ack true {"body":"2"}
        ann> Cid: 3
            ann < NACK {"ack_id":"a3","code":"LIMIT","message":"2 of 3 streams are open, and the sender's share of them is used up"}
        ann>> *: 4
            ann < NACK {"ack_id":"a4","code":"LIMIT","message":"2 of 3 streams are open, and the sender's share of them is used up","to":"Cid"}
            ann < ACK {"ack_id":"a4","durability":"disk","recipients":1,"state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 2 originalTo "*" requires_ack true {"body":"4"}
        ann> Bob: 5
            bob < DELIVER d4 Ann -> Bob seq 3 {"body":"5"}
    "#]]);
}

#[test]
fn names_are_forgotten_with_their_mailboxes() {
    check(expect![[r#"
        limits mailbox_days=1 ttl_ms=18446744073709551615 heartbeat_ms=1099511627776
        here: ann bob
        bob goes
        ann>> Bob: kept
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        wait 86399999
        wait 1
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"the name of its recipient was forgotten","to":"Bob"}
        ann> Bob: who?
            ann < NACK {"ack_id":"a2","code":"UNKNOWN_AGENT","message":"no agent Bob was ever here; here is Ann"}
    "#]]);
}

#[test]
fn guest_messages_survive_their_sender() {
    check(expect![[r#"
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-e43fe68b","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        bob goes
        gus>> Bob: remember
            gus < ACK {"ack_id":"g1","away":true,"durability":"disk","state":"accepted"}
        gus goes
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d1 @guest-e43fe68b -> Bob seq 1 requires_ack true {"body":"remember"}
        bob acks d1
    "#]]);
}
