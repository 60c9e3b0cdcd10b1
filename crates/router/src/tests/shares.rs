//! Shares: no principal can shut out another one, and one that is alone is not refused much.

use super::script::{check, cost_of_last, run};
use expect_test::expect;

#[test]
fn streams_of_the_largest_holder_are_closed_first() {
    check(expect![[r#"
        limits streams_max=9
        here: ann bob cid
        disk shows
        cid> Bob: oldest of all
            keep stream 3→2 "" up to 1024
            bob < DELIVER d1 Cid -> Bob seq 1 {"body":"oldest of all"}
        ann> Bob #1: 1
            keep stream 1→2 "1" up to 1024
            bob < DELIVER d2 Ann -> Bob #1 seq 1 {"body":"1"}
        ann> Bob #2: 2
            keep stream 1→2 "2" up to 1024
            bob < DELIVER d3 Ann -> Bob #2 seq 1 {"body":"2"}
        ann> Bob #3: 3
            keep stream 1→2 "3" up to 1024
            bob < DELIVER d4 Ann -> Bob #3 seq 1 {"body":"3"}
        ann> Bob #4: 4
            keep stream 1→2 "4" up to 1024
            bob < DELIVER d5 Ann -> Bob #4 seq 1 {"body":"4"}
        ann> Bob #5: 5
            keep stream 1→0 "" up to 1
            keep stream 2 ended
            keep stream 1→2 "5" up to 1025
            bob < DELIVER d6 Ann -> Bob #5 seq 2 {"body":"5"}
        cid> Bob #1: 1
            keep stream 3→2 "1" up to 1024
            bob < DELIVER d7 Cid -> Bob #1 seq 1 {"body":"1"}
        cid> Bob #2: 2
            keep stream 3 ended
            keep stream 3→2 "2" up to 1024
            bob < DELIVER d8 Cid -> Bob #2 seq 1 {"body":"2"}
        cid> Bob #3: 3
            keep stream 3→0 "" up to 1
            keep stream 1 ended
            keep stream 3→2 "3" up to 1025
            bob < DELIVER d9 Cid -> Bob #3 seq 2 {"body":"3"}
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-ce176696","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus> Bob: 1
            bob < DELIVER d10 @guest-ce176696 -> Bob seq 1 {"body":"1"}
        gil joins {"mode":"guest"}
            gil < WELCOME {"agent":"@guest-05723dae","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gil> Bob: the guests share
            keep stream 8 ended
            bob < DELIVER d11 @guest-05723dae -> Bob seq 1 {"body":"the guests share"}
    "#]]);
}

#[test]
fn sender_that_fills_streams_with_mail_leaves_room_for_others() {
    check(expect![[r#"
        limits streams_max=6
        here: ann bob cid
        bob goes
        ann>> Bob #1: 1
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob #2: 2
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob #3: 3
            ann < ACK {"ack_id":"a3","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob #4: refused
            ann < NACK {"ack_id":"a4","code":"LIMIT","message":"3 of 6 streams are open, and the sender's share of them is used up"}
        cid> Ann: 1
            ann < DELIVER d1 Cid -> Ann seq 1 {"body":"1"}
        cid> Ann #2: 2
            ann < DELIVER d2 Cid -> Ann #2 seq 1 {"body":"2"}
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-ce176696","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Bob: 1
            gus < ACK {"ack_id":"g1","away":true,"durability":"disk","state":"accepted"}
        gil joins {"mode":"guest"}
            gil < WELCOME {"agent":"@guest-f3a182da","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gil>> Bob: refused
            gil < NACK {"ack_id":"g1","code":"LIMIT","message":"5 of 6 streams are open, and the sender's share of them is used up"}
        cid> Ann #3: in place of the first
            ann < DELIVER d3 Cid -> Ann #3 seq 2 {"body":"in place of the first"}
    "#]]);
}

#[test]
fn sender_with_mail_for_absent_agents_leaves_memory_to_others() {
    check(expect![[r#"
        limits memory_bytes_max=12800
        here: ann bob cid dan
        dan goes
        cid goes
        ann>> Dan: x*800
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann>> Cid: x*800
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        ann>> Cid: x*900
            ann < BUSY {"ack_id":"a3","queue_depth":1,"retry_after_ms":50}
        bob>> Dan: x*800
            bob < ACK {"ack_id":"b1","away":true,"durability":"disk","state":"accepted"}
        bob>> Cid: x*100
            bob < ACK {"ack_id":"b2","away":true,"durability":"disk","state":"accepted"}
        bob>> Cid: refused
            bob < BUSY {"ack_id":"b3","queue_depth":2,"retry_after_ms":50}
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-225e7041","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Cid: x*400
            gus < ACK {"ack_id":"g1","away":true,"durability":"disk","state":"accepted"}
        gus goes
        gil joins {"mode":"guest"}
            gil < WELCOME {"agent":"@guest-f3b88acd","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gil>> Cid: refused, as guests share
            gil < BUSY {"ack_id":"g1","queue_depth":3,"retry_after_ms":50}
        cid joins
            cid < WELCOME {"agent":"Cid"}
            cid < DELIVER d1 Ann -> Cid seq 1 requires_ack true {"body":"x*800"}
            cid < DELIVER d2 Bob -> Cid seq 1 requires_ack true {"body":"x*100"}
            cid < DELIVER d3 @guest-225e7041 -> Cid seq 1 requires_ack true {"body":"x*400"}
        cid acks d1
        ann>> Cid: x*100
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
            cid < DELIVER d4 Ann -> Cid seq 2 requires_ack true {"body":"x*100"}
    "#]]);
}

#[test]
fn subscribers_that_take_nothing_leave_a_publisher_its_share() {
    check(expect![[r#"
        limits memory_bytes_max=102400
        here: ann sub
        bob joins {"capabilities":{"ack":true,"max_inflight":0}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":0,"resume":false,"supports_topics":true}}
        bob says SUBSCRIBE id=s topic=t {}
            bob < ACK {"ack_id":"s"}
        cid joins {"capabilities":{"ack":true,"max_inflight":0}}
            cid < WELCOME {"agent":"Cid","capabilities":{"ack":true,"max_inflight":0,"resume":false,"supports_topics":true}}
        cid says SUBSCRIBE id=s topic=t {}
            cid < ACK {"ack_id":"s"}
        sub says SUBSCRIBE id=s topic=t {}
            sub < ACK {"ack_id":"s"}
        ann>> * #t: x*2000
            ann < ACK {"ack_id":"a1","durability":"disk","recipients":3,"state":"accepted"}
            sub < DELIVER d1 Ann -> Sub #t seq 1 originalTo "*" requires_ack true {"body":"x*2000"}
        sub acks d1
        ann>> * #t: y*2000
            ann < BUSY {"ack_id":"a2","busy":["Cid"],"queue_depth":1,"retry_after_ms":50}
            sub < DELIVER d2 Ann -> Sub #t seq 2 originalTo "*" requires_ack true {"body":"y*2000"}
        sub acks d2
        ann again
            ann < ACK {"ack_id":"a2","durability":"disk","recipients":3,"state":"accepted"}
        ann>> * #t: z*2000
            ann < BUSY {"ack_id":"a3","busy":["Bob","Cid"],"queue_depth":2,"retry_after_ms":50}
            sub < DELIVER d3 Ann -> Sub #t seq 3 originalTo "*" requires_ack true {"body":"z*2000"}
        sub acks d3
        ann again
            ann < NACK {"ack_id":"a3","code":"LIMIT","message":"Bob takes no messages: too many of your broadcasts wait for it","to":"Bob"}
            ann < NACK {"ack_id":"a3","code":"LIMIT","message":"Cid takes no messages: too many of your broadcasts wait for it","to":"Cid"}
            ann < ACK {"ack_id":"a3","durability":"disk","recipients":1,"state":"accepted"}
        ann> * #t: at most once
            sub < DELIVER d4 Ann -> Sub #t seq 4 originalTo "*" {"body":"at most once"}
            ann < BUSY {"ack_id":"a4","busy":["Bob","Cid"],"queue_depth":2,"retry_after_ms":50}
        ann>> Bob: x*9000
            ann < ACK {"ack_id":"a5","durability":"disk","state":"accepted"}
        ann>> Sub: alone
            ann < ACK {"ack_id":"a6","durability":"disk","state":"accepted"}
            sub < DELIVER d5 Ann -> Sub seq 1 requires_ack true {"body":"alone"}
    "#]]);
}

#[test]
fn publisher_uses_up_no_share_of_its_subscribers() {
    check(expect![[r#"
        limits memory_bytes_max=102400
        here: ann dan
        bob joins {"capabilities":{"ack":true,"max_inflight":0}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":0,"resume":false,"supports_topics":true}}
        bob says SUBSCRIBE id=s topic=t {}
            bob < ACK {"ack_id":"s"}
        ann>> * #t: x*4000
            ann < ACK {"ack_id":"a1","durability":"disk","recipients":1,"state":"accepted"}
        ann>> * #t: y*4000
            ann < BUSY {"ack_id":"a2","busy":["Bob"],"queue_depth":1,"retry_after_ms":50}
        ann again
            ann < BUSY {"ack_id":"a2","busy":["Bob"],"queue_depth":1,"retry_after_ms":50}
        bob>> Dan: x*9000
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            dan < DELIVER d1 Bob -> Dan seq 1 requires_ack true {"body":"x*9000"}
        dan>> * #t: x*4000
            dan < ACK {"ack_id":"d1","durability":"disk","recipients":1,"state":"accepted"}
    "#]]);
}

#[test]
fn lone_sender_may_fill_half_of_the_memory_and_send_one_message_of_any_size() {
    check(expect![[r#"
        limits memory_bytes_max=7000
        here: ann bob
        bob goes
        ann>> Bob: x*400
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob: x*400
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob: refused
            ann < BUSY {"ack_id":"a3","queue_depth":2,"retry_after_ms":50}
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"x*400"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"x*400"}
        bob acks d1
        bob acks d2
        ann>> Bob: x*3000
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"x*3000"}
        ann>> Bob: refused
            ann < BUSY {"ack_id":"a5","queue_depth":1,"retry_after_ms":50}
        bob acks d3
        ann>> Bob: x*6000
            ann < BUSY {"ack_id":"a6","queue_depth":0,"retry_after_ms":50}
    "#]]);
}

#[test]
fn open_questions_count_in_the_share_of_their_sender() {
    check(expect![[r#"
        limits memory_bytes_max=6016
        here: ann bob cid
        ann says SEND to=Bob meta={"sync":{"correlationId":"c*250"}} {"body":"1"}
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        bob acks d1
        ann says SEND to=Bob meta={"sync":{"correlationId":"c*250"}} {"body":"2"}
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        bob acks d2
        ann says SEND to=Bob meta={"sync":{"correlationId":"c*250"}} {"body":"3"}
            ann < BUSY {"ack_id":"x","queue_depth":0,"retry_after_ms":50}
        cid says SEND to=Bob meta={"sync":{"correlationId":"c*250"}} {"body":"4"}
            cid < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Cid -> Bob seq 1 requires_ack true {"body":"4"}
    "#]]);
}

#[test]
fn reports_count_in_the_share_of_their_recipient() {
    check(expect![[r#"
        limits memory_bytes_max=8000
        here: op ann bob
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"one"}
        ann>> Bob: two
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"two"}
        op asks status
            op < DELIVER d3 @relay -> @operator seq 1 {"body":"status","data":{"agents_here":2,"agents_known":2,"connections":3,"counts":{"acknowledged":0,"busy":0,"delivered":2,"expired":0,"gave_up":0,"given_back":0,"refused":0,"taken":2},"guests":0,"memory_bytes":2198,"memory_bytes_max":8000,"messages":2,"protocol":"1.1","streams":1,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
        bob asks report {"id":"d1","state":"waiting","why":"x*100"}
            bob < DELIVER d4 @relay -> Bob seq 1 {"body":"report","data":{},"kind":"response"}
        op asks status
            op < DELIVER d5 @relay -> @operator seq 2 {"body":"status","data":{"agents_here":2,"agents_known":2,"connections":3,"counts":{"acknowledged":0,"busy":0,"delivered":2,"expired":0,"gave_up":0,"given_back":0,"refused":0,"taken":2},"guests":0,"memory_bytes":2554,"memory_bytes_max":8000,"messages":2,"protocol":"1.1","streams":1,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
        outside 4200
        bob asks report {"id":"d2","state":"waiting","why":"y*100"}
            bob < DELIVER d6 @relay -> Bob seq 2 {"body":"report","data":{},"kind":"response"}
        ann asks message {"id":"a2"}
            ann < DELIVER d7 @relay -> Ann seq 1 {"body":"message","data":{"messages":[{"attempts":1,"body":"two","expires":87401000,"failures":0,"from":"Ann","id":"d2","reported":{"at":1001000,"state":"waiting"},"send_id":"a2","seq":2,"state":"waiting","to":"Bob","waits_for":"agent"}]},"kind":"response"}
        outside 0
        bob acks d1
        bob nacks d2
            ann < NACK {"ack_id":"a2","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
        op asks status
            op < DELIVER d8 @relay -> @operator seq 3 {"body":"status","data":{"agents_here":2,"agents_known":2,"connections":3,"counts":{"acknowledged":1,"busy":0,"delivered":2,"expired":0,"gave_up":0,"given_back":1,"refused":0,"taken":2},"guests":0,"memory_bytes":0,"memory_bytes_max":8000,"messages":0,"protocol":"1.1","streams":1,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
    "#]]);
}

#[test]
fn answers_count_in_the_share_of_their_asker() {
    check(expect![[r#"
        limits memory_bytes_max=16000
        here: op ann bob cid
        ann says SEND to=Bob id=1 meta={"sync":{"correlationId":"c"}} {"n":1}
            ann < ACK {"ack_id":"1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"n":1}
        ann says SEND to=Bob id=2 meta={"sync":{"correlationId":"c"}} {"n":2}
            ann < ACK {"ack_id":"2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"n":2}
        bob acks d1
        bob acks d2
        ann stalls
        bob acks d1 {"correlationId":"c","responseData":"x*2000"}
            ann < ACK from Bob {"ack_id":"1","correlationId":"c","responseData":"x*2000"}
        op asks status
            op < DELIVER d3 @relay -> @operator seq 1 {"body":"status","data":{"agents_here":3,"agents_known":3,"connections":4,"counts":{"acknowledged":2,"busy":0,"delivered":2,"expired":0,"gave_up":0,"given_back":0,"refused":0,"taken":2},"guests":0,"memory_bytes":4571,"memory_bytes_max":16000,"messages":0,"protocol":"1.1","streams":1,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
        bob acks d2 {"correlationId":"c","responseData":"y*2000"}
            bob < NACK {"ack_id":"21de6b0f-aff5-4b9d-aff7-fc6d3b65c9b9","code":"LIMIT","correlationId":"c","message":"its asker has no room for the answer now; send it again later"}
        cid>> Bob: others have room
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            bob < DELIVER d4 Cid -> Bob seq 1 requires_ack true {"body":"others have room"}
        ann reads
        bob acks d2 {"correlationId":"c","responseData":"y*2000"}
            ann < ACK from Bob {"ack_id":"2","correlationId":"c","responseData":"y*2000"}
        op asks status
            op < DELIVER d5 @relay -> @operator seq 2 {"body":"status","data":{"agents_here":3,"agents_known":3,"connections":4,"counts":{"acknowledged":2,"busy":0,"delivered":3,"expired":0,"gave_up":0,"given_back":0,"refused":0,"taken":3},"guests":0,"memory_bytes":1112,"memory_bytes_max":16000,"messages":1,"protocol":"1.1","streams":2,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
    "#]]);
}

#[test]
fn refused_sender_drops_no_replays_of_others() {
    check(expect![[r#"
        limits memory_bytes_max=4000
        here: ann cid
        bob joins {"capabilities":{"ack":true,"resume":true,"max_inflight":9,"supports_topics":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":9,"resume":true,"supports_topics":true}}
        cid goes
        ann> Bob: x*400
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"x*400"}
        ann>> Cid: x*1000
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        ann>> Cid: x*900
            ann < BUSY {"ack_id":"a3","queue_depth":1,"retry_after_ms":50}
        bob says RESUME {"streams":[{"topic":"","peer":"Ann","last_seq":0}]}
            bob < SYNC {"session_id":"s3","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":1,"topic":""}]}
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"x*400"}
    "#]]);
}

#[test]
fn subscriptions_of_one_agent_leave_memory_for_those_of_others() {
    check(expect![[r#"
        limits memory_bytes_max=11428
        here: ann bob
        ann says SUBSCRIBE id=1 topic=a.* {}
            ann < ACK {"ack_id":"1"}
        ann says SUBSCRIBE id=2 topic=b.* {}
            ann < ACK {"ack_id":"2"}
        ann says SUBSCRIBE id=3 topic=c.* {}
            ann < ACK {"ack_id":"3"}
        ann says SUBSCRIBE id=4 topic=d.* {}
            ann < NACK {"ack_id":"4","code":"LIMIT","message":"the daemon has no memory for another subscription; try later"}
        bob says SUBSCRIBE id=5 topic=a.* {}
            bob < ACK {"ack_id":"5"}
        bob says SUBSCRIBE id=6 topic=b.* {}
            bob < ACK {"ack_id":"6"}
        ann says UNSUBSCRIBE id=7 topic=a.* {}
            ann < ACK {"ack_id":"7"}
        ann says UNSUBSCRIBE id=8 topic=b.* {}
            ann < ACK {"ack_id":"8"}
        ann says SUBSCRIBE id=9 topic=d.* {}
            ann < ACK {"ack_id":"9"}
    "#]]);
}

#[test]
fn companions_and_guests_leave_places_for_others() {
    check(expect![[r#"
        limits clients_max=8
        ann joins {"companion_key":"k"}
            ann < WELCOME {"agent":"Ann"}
        com1 joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            com1 < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        com2 joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            com2 < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        com3 joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            com3 < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        com4 joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            com4 < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"4 connections of Ann are open already","ref":"h"}
            com4 close Fault(TooManyClients)
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-6304f381","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gil joins {"mode":"guest"}
            gil < WELCOME {"agent":"@guest-f9880bd2","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gwen joins {"mode":"guest"}
            gwen < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"2 connections of guests are open already","ref":"h"}
            gwen close Fault(TooManyClients)
        bob joins
            bob < WELCOME {"agent":"Bob"}
        cid joins
            cid < WELCOME {"agent":"Cid"}
        com3 goes
        com4 joins {"agent":"Ann","mode":"companion","companion_key":"k"}
            com4 < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"3 connections of Ann are open already","ref":"h"}
            com4 close Fault(TooManyClients)
    "#]]);
}

#[test]
fn guests_leave_names_for_agents() {
    check(expect![[r#"
        limits names_max=4
        here: ann
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gil joins {"mode":"guest"}
            gil < WELCOME {"agent":"@guest-ab4afccc","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gwen joins {"mode":"guest"}
            gwen < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"2 names of guests are known already","ref":"h"}
            gwen close Fault(TooManyClients)
        bob joins
            bob < WELCOME {"agent":"Bob"}
        cid joins
            cid < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"4 names are known already","ref":"h"}
            cid close Fault(TooManyClients)
    "#]]);
}

#[test]
fn names_that_never_had_mail_make_room_though_their_sessions_could_be_resumed() {
    check(expect![[r#"
        limits names_max=3
        here: ann bob
        ann> Bob: mail
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"mail"}
        ann goes
        eve joins
            eve < WELCOME {"agent":"Eve"}
        eve goes
        dan joins
            dan < WELCOME {"agent":"Dan"}
        eve joins
            eve < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"3 names are known already","ref":"h"}
            eve close Fault(TooManyClients)
    "#]]);
}

#[test]
fn recipients_left_by_broadcasts_count_in_the_share_of_their_sender() {
    check(expect![[r#"
        limits queue_messages_max=2 window_bytes=1
        here: ann bob cid op
        bob stalls
        ann> Bob: 1
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"1"}
        op asks status
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"status","data":{"agents_here":3,"agents_known":3,"connections":4,"counts":{"acknowledged":0,"busy":0,"delivered":1,"expired":0,"gave_up":0,"given_back":0,"refused":0,"taken":1},"guests":0,"memory_bytes":1304,"memory_bytes_max":536870912,"messages":0,"protocol":"1.1","streams":1,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
        ann> *: 2
            ann < BUSY {"ack_id":"a2","busy":["Bob"],"queue_depth":1,"retry_after_ms":50}
            cid < DELIVER d3 Ann -> Cid seq 1 originalTo "*" {"body":"2"}
        op asks status
            op < DELIVER d4 @relay -> @operator seq 2 {"body":"status","data":{"agents_here":3,"agents_known":3,"connections":4,"counts":{"acknowledged":0,"busy":1,"delivered":2,"expired":0,"gave_up":0,"given_back":0,"refused":0,"taken":2},"guests":0,"memory_bytes":1312,"memory_bytes_max":536870912,"messages":0,"protocol":"1.1","streams":2,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
        bob reads
        ann again
            bob < DELIVER d5 Ann -> Bob seq 2 originalTo "*" {"body":"2"}
        op asks status
            op < DELIVER d6 @relay -> @operator seq 3 {"body":"status","data":{"agents_here":3,"agents_known":3,"connections":4,"counts":{"acknowledged":0,"busy":1,"delivered":3,"expired":0,"gave_up":0,"given_back":0,"refused":0,"taken":2},"guests":0,"memory_bytes":0,"memory_bytes_max":536870912,"messages":0,"protocol":"1.1","streams":2,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
    "#]]);
}

#[test]
fn unread_answers_of_guests_leave_memory_to_others() {
    check(expect![[r#"
        limits answers_bytes_max=3200 memory_bytes_max=3428
        here: ann bob
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-3f55abeb","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gil joins {"mode":"guest"}
            gil < WELCOME {"agent":"@guest-b165823e","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus stalls
        gil stalls
        gus> Zoe: 1
            gus < NACK {"ack_id":"g1","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        gus> Zoe: 2
            gus < NACK {"ack_id":"g2","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        gus> Zoe: 3
            gus < NACK {"ack_id":"g3","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        gus> Zoe: 4
            gus < NACK {"ack_id":"g4","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        gil> Zoe: 1
            gil < NACK {"ack_id":"g1","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        gil> Zoe: 2
            gil < NACK {"ack_id":"g2","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        gil> Zoe: 3
            gil < NACK {"ack_id":"g3","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
        gil> Zoe: 4
            gil < NACK {"ack_id":"g4","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
            gil waits
        gil> Zoe: 5
        gil> Zoe: waits
        ann>> Bob: x*100
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"x*100"}
        bob acks d1
        gil reads
            gil goes on
            gil < NACK {"ack_id":"g5","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
            gil < NACK {"ack_id":"g6","code":"UNKNOWN_AGENT","message":"no agent Zoe was ever here; here are Ann, Bob"}
    "#]]);
}

#[test]
fn guest_takes_the_place_of_a_name_that_is_not_needed() {
    check(expect![[r#"
        limits names_max=2
        here: ann bob
        ann goes
        bob goes
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-3f55abeb","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
    "#]]);
}

#[test]
fn broadcast_at_the_limit_of_streams_searches_all_streams_once() {
    const STREAMS: u64 = 512;
    let mut lines = vec![format!("limits streams_max={STREAMS}")];
    lines.push(r#"bob joins {"agent":"Bob"}"#.to_owned());
    lines.push("bob goes".to_owned());
    // All streams of these are full of mail for an absent agent.
    for sender in ["ann", "cid", "dan", "eve", "fay", "guy", "hal", "ida"] {
        let name = sender[..1].to_uppercase() + &sender[1..];
        lines.push(format!(r#"{sender} joins {{"agent":"{name}"}}"#));
        lines.extend((0..STREAMS / 2).map(|number| format!("{sender}>> Bob #t.{number}: x")));
    }
    let members = (0..64).map(|number| format!(r#"m{number} joins {{"agent":"M{number}"}}"#));
    lines.extend(members);
    lines.push("m0> *: to everyone".to_owned());
    let work = cost_of_last(&lines).work;
    assert!(work < 100_000, "it takes {work}");
}

#[test]
fn sender_that_fills_the_backlog_of_the_store_waits_and_nobody_else() {
    check(expect![[r#"
        limits backlog_max=32
        here: ann bob cid
        disk holds
        ann>> Bob: 1
        ann>> Bob: 2
        ann>> Bob: 3
        ann>> Bob: 4
        ann>> Bob: 5
            ann waits
        ann>> Bob: handled later
        cid>> Bob: 1
        cid> Bob: at most once
        disk keeps 6
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"3"}
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
            bob < DELIVER d4 Ann -> Bob seq 4 requires_ack true {"body":"4"}
            ann goes on
        disk keeps
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            bob < DELIVER d5 Cid -> Bob seq 1 requires_ack true {"body":"1"}
            bob < DELIVER d6 Cid -> Bob seq 2 {"body":"at most once"}
            ann < ACK {"ack_id":"a5","durability":"disk","state":"accepted"}
            bob < DELIVER d7 Ann -> Bob seq 5 requires_ack true {"body":"5"}
            ann < ACK {"ack_id":"a6","durability":"disk","state":"accepted"}
            bob < DELIVER d8 Ann -> Bob seq 6 requires_ack true {"body":"handled later"}
    "#]]);
}

#[test]
fn agent_that_repeats_resume_waits_and_nobody_else() {
    check(expect![[r#"
        limits backlog_max=32
        here: ann bob cid
        ann>> Bob: x*9
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"x*9"}
        ann>> Bob: x*9
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"x*9"}
        disk holds
        bob says RESUME id=r1 {"streams":{"":{"last_seq":0}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":2,"topic":""}]}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"x*9"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 2 requires_ack true {"body":"x*9"}
        bob says RESUME id=r2 {"streams":{"":{"last_seq":0}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":2,"topic":""}]}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 3 requires_ack true {"body":"x*9"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 3 requires_ack true {"body":"x*9"}
        bob says RESUME id=r3 {"streams":{"":{"last_seq":0}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":2,"topic":""}]}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 4 requires_ack true {"body":"x*9"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 4 requires_ack true {"body":"x*9"}
        bob says RESUME id=r4 {"streams":{"":{"last_seq":0}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":2,"topic":""}]}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 5 requires_ack true {"body":"x*9"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 5 requires_ack true {"body":"x*9"}
        bob says RESUME id=r5 {"streams":{"":{"last_seq":0}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":2,"topic":""}]}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 6 requires_ack true {"body":"x*9"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 6 requires_ack true {"body":"x*9"}
        bob says RESUME id=r6 {"streams":{"":{"last_seq":0}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":2,"topic":""}]}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 7 requires_ack true {"body":"x*9"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 7 requires_ack true {"body":"x*9"}
        bob says RESUME id=r7 {"streams":{"":{"last_seq":0}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":2,"topic":""}]}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 8 requires_ack true {"body":"x*9"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 8 requires_ack true {"body":"x*9"}
        bob says RESUME id=r8 {"streams":{"":{"last_seq":0}}}
            bob waits
        cid>> Ann: 1
        disk keeps
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            ann < DELIVER d3 Cid -> Ann seq 1 requires_ack true {"body":"1"}
            bob goes on
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":2,"topic":""}]}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 9 requires_ack true {"body":"x*9"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 9 requires_ack true {"body":"x*9"}
    "#]]);
}

#[test]
fn agent_that_toggles_subscriptions_waits_and_nobody_else() {
    check(expect![[r#"
        limits backlog_max=16
        here: ann bob
        disk holds
        ann says SUBSCRIBE topic=a id=1 {}
        ann says UNSUBSCRIBE topic=a id=2 {}
        ann says SUBSCRIBE topic=a id=3 {}
        ann says UNSUBSCRIBE topic=a id=4 {}
        ann says SUBSCRIBE topic=a id=5 {}
            ann waits
        bob says SUBSCRIBE topic=b id=1 {}
        disk keeps
            ann < ACK {"ack_id":"1"}
            ann < ACK {"ack_id":"2"}
            ann < ACK {"ack_id":"3"}
            ann < ACK {"ack_id":"4"}
            bob < ACK {"ack_id":"1"}
            ann goes on
            ann < ACK {"ack_id":"5"}
    "#]]);
}

#[test]
fn redelivery_waits_for_the_store_even_without_frames() {
    check(expect![[r#"
        limits backlog_max=16 window_bytes=500
        here: ann bob
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        ann>> Bob: 3
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"3"}
        ann>> Bob: 4
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
            bob < DELIVER d4 Ann -> Bob seq 4 requires_ack true {"body":"4"}
        ann>> Bob: 5
            ann < ACK {"ack_id":"a5","durability":"disk","state":"accepted"}
            bob < DELIVER d5 Ann -> Bob seq 5 requires_ack true {"body":"5"}
        ann>> Bob: 6
            ann < ACK {"ack_id":"a6","durability":"disk","state":"accepted"}
            bob < DELIVER d6 Ann -> Bob seq 6 requires_ack true {"body":"6"}
        ann>> Bob: 7
            ann < ACK {"ack_id":"a7","durability":"disk","state":"accepted"}
            bob < DELIVER d7 Ann -> Bob seq 7 requires_ack true {"body":"7"}
        ann>> Bob: 8
            ann < ACK {"ack_id":"a8","durability":"disk","state":"accepted"}
            bob < DELIVER d8 Ann -> Bob seq 8 requires_ack true {"body":"8"}
        disk holds
        bob says RESUME id=r1 {"streams":{"":{"last_seq":0}}}
            bob < SYNC {"session_id":"s2","streams":[{"last_seq":0,"peer":"Ann","server_last_seq":8,"topic":""}]}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"body":"1"}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 2 requires_ack true {"body":"2"}
            bob < DELIVER d3 Ann -> Bob seq 3 attempt 2 requires_ack true {"body":"3"}
            bob < DELIVER d4 Ann -> Bob seq 4 attempt 2 requires_ack true {"body":"4"}
            bob < DELIVER d5 Ann -> Bob seq 5 attempt 2 requires_ack true {"body":"5"}
            bob < DELIVER d6 Ann -> Bob seq 6 attempt 2 requires_ack true {"body":"6"}
            bob < DELIVER d7 Ann -> Bob seq 7 attempt 2 requires_ack true {"body":"7"}
            bob waits
        disk keeps
            bob goes on
            bob < DELIVER d8 Ann -> Bob seq 8 attempt 2 requires_ack true {"body":"8"}
    "#]]);
}

#[test]
fn guests_share_one_half_of_a_queue() {
    check(expect![[r#"
        limits queue_messages_max=4
        here: bob ann
        bob goes
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-3f55abeb","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gil joins {"mode":"guest"}
            gil < WELCOME {"agent":"@guest-b165823e","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Bob: 1
            gus < ACK {"ack_id":"g1","away":true,"durability":"disk","state":"accepted"}
        gil>> Bob: 2
            gil < ACK {"ack_id":"g1","away":true,"durability":"disk","state":"accepted"}
        gil>> Bob: refused, as guests share
            gil < BUSY {"ack_id":"g2","queue_depth":2,"retry_after_ms":50}
        gus>> Bob: refused
            gus < BUSY {"ack_id":"g2","queue_depth":2,"retry_after_ms":50}
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        gus goes
        gil>> Bob: still refused, though its sender is gone
            gil < BUSY {"ack_id":"g3","queue_depth":3,"retry_after_ms":50}
    "#]]);
}

#[test]
fn sender_that_fills_the_store_with_mail_leaves_room_for_others() {
    check(expect![[r#"
        limits mail_bytes_max=9142
        here: ann bob cid
        cid goes
        ann>> Cid: x*800
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann>> Cid: x*800
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        ann>> Cid: x*900
            ann < BUSY {"ack_id":"a3","queue_depth":2,"retry_after_ms":50}
        ann> Bob: at most once, which the store does not hold
            bob < DELIVER d1 Ann -> Bob seq 1 {"body":"at most once, which the store does not hold"}
        bob>> Ann: 1
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            ann < DELIVER d2 Bob -> Ann seq 1 requires_ack true {"body":"1"}
        ann acks d2
        cid joins
            cid < WELCOME {"agent":"Cid"}
            cid < DELIVER d3 Ann -> Cid seq 1 requires_ack true {"body":"x*800"}
            cid < DELIVER d4 Ann -> Cid seq 2 requires_ack true {"body":"x*800"}
        cid acks d3
        ann>> Bob: accepted
            ann < ACK {"ack_id":"a5","durability":"disk","state":"accepted"}
            bob < DELIVER d5 Ann -> Bob seq 2 requires_ack true {"body":"accepted"}
    "#]]);
}

#[test]
fn all_wait_while_the_backlog_of_the_store_is_full() {
    check(expect![[r#"
        limits backlog_max=4
        here: ann bob cid dan eve
        disk holds
        ann>> *: to all
        bob>> Cid: waits
            bob waits
        disk keeps
            ann < ACK {"ack_id":"a1","durability":"disk","recipients":4,"state":"accepted"}
            cid waits
            dan waits
            eve waits
            bob goes on
            cid goes on
            dan goes on
            eve goes on
            bob < DELIVER d1 Ann -> Bob seq 1 originalTo "*" requires_ack true {"body":"to all"}
            cid < DELIVER d2 Ann -> Cid seq 1 originalTo "*" requires_ack true {"body":"to all"}
            dan < DELIVER d3 Ann -> Dan seq 1 originalTo "*" requires_ack true {"body":"to all"}
            eve < DELIVER d4 Ann -> Eve seq 1 originalTo "*" requires_ack true {"body":"to all"}
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            cid waits
            cid goes on
            cid < DELIVER d5 Bob -> Cid seq 1 requires_ack true {"body":"waits"}
    "#]]);
}

#[test]
fn sender_whose_mail_ends_at_once_waits_for_the_store_and_nobody_else() {
    check(expect![[r#"
        limits backlog_max=32
        here: ann bob cid
        bob goes
        ann>> Bob 10ms: 1
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 10ms: 2
            ann < ACK {"ack_id":"a2","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 10ms: 3
            ann < ACK {"ack_id":"a3","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 10ms: 4
            ann < ACK {"ack_id":"a4","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 10ms: 5
            ann < ACK {"ack_id":"a5","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 10ms: 6
            ann < ACK {"ack_id":"a6","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 10ms: 7
            ann < ACK {"ack_id":"a7","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 10ms: 8
            ann < ACK {"ack_id":"a8","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 10ms: 9
            ann < ACK {"ack_id":"a9","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 10ms: 10
            ann < ACK {"ack_id":"a10","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 10ms: 11
            ann < ACK {"ack_id":"a11","away":true,"durability":"disk","state":"accepted"}
        ann>> Bob 10ms: 12
            ann < ACK {"ack_id":"a12","away":true,"durability":"disk","state":"accepted"}
        disk holds
        wait 11
        cid>> Cid: is handled
        cid> Ann: at most once
        disk keeps 5
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            ann < NACK {"ack_id":"a2","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        wait 0
        disk keeps
            ann < NACK {"ack_id":"a3","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            ann < NACK {"ack_id":"a4","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            ann < NACK {"ack_id":"a5","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            cid < DELIVER d1 Cid -> Cid seq 1 requires_ack true {"body":"is handled"}
            ann waits
            ann goes on
            ann < DELIVER d2 Cid -> Ann seq 1 {"body":"at most once"}
        wait 0
            ann < NACK {"ack_id":"a6","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            ann < NACK {"ack_id":"a7","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            ann < NACK {"ack_id":"a8","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            ann < NACK {"ack_id":"a9","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            ann < NACK {"ack_id":"a10","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            ann < NACK {"ack_id":"a11","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            ann < NACK {"ack_id":"a12","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
    "#]]);
}

#[test]
fn deliveries_that_are_acknowledged_together_wait_for_the_store_and_nobody_else() {
    check(expect![[r#"
        limits backlog_max=8
        here: ann bob cid
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        ann>> Bob: 3
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"3"}
        ann>> Bob: 4
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
            bob < DELIVER d4 Ann -> Bob seq 4 requires_ack true {"body":"4"}
        ann>> Bob: 5
            ann < ACK {"ack_id":"a5","durability":"disk","state":"accepted"}
            bob < DELIVER d5 Ann -> Bob seq 5 requires_ack true {"body":"5"}
        ann>> Bob: 6
            ann < ACK {"ack_id":"a6","durability":"disk","state":"accepted"}
            bob < DELIVER d6 Ann -> Bob seq 6 requires_ack true {"body":"6"}
        ann>> Bob: 7
            ann < ACK {"ack_id":"a7","durability":"disk","state":"accepted"}
            bob < DELIVER d7 Ann -> Bob seq 7 requires_ack true {"body":"7"}
        ann>> Bob: 8
            ann < ACK {"ack_id":"a8","durability":"disk","state":"accepted"}
            bob < DELIVER d8 Ann -> Bob seq 8 requires_ack true {"body":"8"}
        disk shows
        disk holds
        bob acks d8 {"cumulative_seq":8}
            keep delivery 8: Acknowledged
            keep delivery 1: Acknowledged
            keep delivery 2: Acknowledged
            keep delivery 3: Acknowledged
        bob> Cid: waits
            bob waits
        cid>> Cid: is handled
            keep stream 3→3 "" up to 1024
            keep c1 for [Cid#1 attempts 1], 0 left
        disk keeps
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            cid waits
            keep delivery 4: Acknowledged
            keep delivery 5: Acknowledged
            keep delivery 6: Acknowledged
            keep delivery 7: Acknowledged
            cid goes on
            cid < DELIVER d9 Cid -> Cid seq 1 requires_ack true {"body":"is handled"}
            bob goes on
            keep stream 2→3 "" up to 1024
            cid < DELIVER d10 Bob -> Cid seq 1 {"body":"waits"}
        crash
            keep Ann away
            keep Bob away
            keep Cid away
            keep session of agent 1 with [] until 601000
            keep session of agent 2 with [] until 601000
            keep session of agent 3 with [] until 601000
        bob joins
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
    "#]]);
}

#[test]
fn deliveries_that_were_acknowledged_together_are_recorded_at_a_stop() {
    check(expect![[r#"
        limits backlog_max=8
        here: ann bob cid
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        ann>> Bob: 3
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"3"}
        ann>> Bob: 4
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
            bob < DELIVER d4 Ann -> Bob seq 4 requires_ack true {"body":"4"}
        ann>> Bob: 5
            ann < ACK {"ack_id":"a5","durability":"disk","state":"accepted"}
            bob < DELIVER d5 Ann -> Bob seq 5 requires_ack true {"body":"5"}
        ann>> Bob: 6
            ann < ACK {"ack_id":"a6","durability":"disk","state":"accepted"}
            bob < DELIVER d6 Ann -> Bob seq 6 requires_ack true {"body":"6"}
        disk shows
        disk holds
        bob acks d3 {"cumulative_seq":6}
            keep delivery 3: Acknowledged
            keep delivery 1: Acknowledged
            keep delivery 2: Acknowledged
            keep delivery 4: Acknowledged
        stop
            ann < BYE {"reason":"stop"}
            keep session of agent 1 with [] until 601000
            keep Ann away
            ann close Stopping
            bob < BYE {"reason":"stop"}
            keep session of agent 2 with [] until 601000
            keep Bob away
            bob close Stopping
            cid < BYE {"reason":"stop"}
            keep session of agent 3 with [] until 601000
            keep Cid away
            cid close Stopping
        ann goes
        bob goes
        cid goes
            keep delivery 5: Acknowledged
            keep delivery 6: Acknowledged
            keep stream 1→2 "" up to 6
            stopped
        disk keeps
        crash
        bob joins
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
    "#]]);
}

#[test]
fn deliveries_that_were_acknowledged_together_and_not_recorded_are_repeated_after_a_crash() {
    check(expect![[r#"
        limits backlog_max=8
        here: ann bob cid
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        ann>> Bob: 3
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"3"}
        ann>> Bob: 4
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
            bob < DELIVER d4 Ann -> Bob seq 4 requires_ack true {"body":"4"}
        ann>> Bob: 5
            ann < ACK {"ack_id":"a5","durability":"disk","state":"accepted"}
            bob < DELIVER d5 Ann -> Bob seq 5 requires_ack true {"body":"5"}
        ann>> Bob: 6
            ann < ACK {"ack_id":"a6","durability":"disk","state":"accepted"}
            bob < DELIVER d6 Ann -> Bob seq 6 requires_ack true {"body":"6"}
        disk holds
        bob acks d3 {"cumulative_seq":6}
        disk keeps 4
        crash
        bob joins
    "#]]);
}

#[test]
fn streams_of_a_guest_that_leaves_wait_for_the_store_and_nobody_else() {
    check(expect![[r#"
        limits backlog_max=16
        here: bob cid
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-3f55abeb","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Bob #1: 1
            gus < ACK {"ack_id":"g1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 @guest-3f55abeb -> Bob #1 seq 1 requires_ack true {"body":"1"}
        gus>> Bob #2: 2
            gus < ACK {"ack_id":"g2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 @guest-3f55abeb -> Bob #2 seq 1 requires_ack true {"body":"2"}
        gus>> Bob #3: 3
            gus < ACK {"ack_id":"g3","durability":"disk","state":"accepted"}
            bob < DELIVER d3 @guest-3f55abeb -> Bob #3 seq 1 requires_ack true {"body":"3"}
        gus>> Bob #4: 4
            gus < ACK {"ack_id":"g4","durability":"disk","state":"accepted"}
            bob < DELIVER d4 @guest-3f55abeb -> Bob #4 seq 1 requires_ack true {"body":"4"}
        gus>> Bob #5: 5
            gus < ACK {"ack_id":"g5","durability":"disk","state":"accepted"}
            bob < DELIVER d5 @guest-3f55abeb -> Bob #5 seq 1 requires_ack true {"body":"5"}
        gus>> Bob #6: 6
            gus < ACK {"ack_id":"g6","durability":"disk","state":"accepted"}
            bob < DELIVER d6 @guest-3f55abeb -> Bob #6 seq 1 requires_ack true {"body":"6"}
        gus>> Bob #7: 7
            gus < ACK {"ack_id":"g7","durability":"disk","state":"accepted"}
            bob < DELIVER d7 @guest-3f55abeb -> Bob #7 seq 1 requires_ack true {"body":"7"}
        gus>> Bob #8: 8
            gus < ACK {"ack_id":"g8","durability":"disk","state":"accepted"}
            bob < DELIVER d8 @guest-3f55abeb -> Bob #8 seq 1 requires_ack true {"body":"8"}
        gus>> Bob #9: 9
            gus < ACK {"ack_id":"g9","durability":"disk","state":"accepted"}
            bob < DELIVER d9 @guest-3f55abeb -> Bob #9 seq 1 requires_ack true {"body":"9"}
        gus>> Bob #10: 10
            gus < ACK {"ack_id":"g10","durability":"disk","state":"accepted"}
            bob < DELIVER d10 @guest-3f55abeb -> Bob #10 seq 1 requires_ack true {"body":"10"}
        bob acks d1
        bob acks d2
        bob acks d3
        bob acks d4
        bob acks d5
        bob acks d6
        bob acks d7
        bob acks d8
        bob acks d9
        bob acks d10
        disk shows
        disk holds
        gus goes
            keep stream 1 ended
            keep stream 2 ended
            keep stream 3 ended
            keep stream 4 ended
            keep stream 5 ended
            keep stream 6 ended
            keep stream 7 ended
            keep agent 3 forgotten
        cid>> Cid: is handled
            keep stream 2→2 "" up to 1024
            keep c1 for [Cid#1 attempts 1], 0 left
        disk keeps
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            cid waits
            keep stream 8 ended
            keep stream 9 ended
            keep stream 10 ended
            cid goes on
            cid < DELIVER d11 Cid -> Cid seq 1 requires_ack true {"body":"is handled"}
    "#]]);
}

#[test]
fn send_to_many_waits_for_the_store_and_nobody_else() {
    check(expect![[r#"
        limits backlog_max=16
        here: ann bob cid dan eve fay
        disk holds
        ann>> *: first
            ann < BUSY {"ack_id":"a1","busy":["Fay"],"queue_depth":0,"retry_after_ms":50}
        bob>> Cid: is handled
        disk keeps
            bob waits
            cid waits
            dan waits
            eve waits
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            bob goes on
            cid goes on
            dan goes on
            eve goes on
            bob < DELIVER d1 Ann -> Bob seq 1 originalTo "*" requires_ack true {"body":"first"}
            cid < DELIVER d2 Ann -> Cid seq 1 originalTo "*" requires_ack true {"body":"first"}
            cid < DELIVER d3 Bob -> Cid seq 1 requires_ack true {"body":"is handled"}
            dan < DELIVER d4 Ann -> Dan seq 1 originalTo "*" requires_ack true {"body":"first"}
            eve < DELIVER d5 Ann -> Eve seq 1 originalTo "*" requires_ack true {"body":"first"}
        ann again
            ann < ACK {"ack_id":"a1","durability":"disk","recipients":5,"state":"accepted"}
            fay < DELIVER d6 Ann -> Fay seq 1 originalTo "*" requires_ack true {"body":"first"}
        bob> *: at most once
            cid < DELIVER d7 Bob -> Cid seq 2 originalTo "*" {"body":"at most once"}
            ann < DELIVER d8 Bob -> Ann seq 1 originalTo "*" {"body":"at most once"}
            dan < DELIVER d9 Bob -> Dan seq 1 originalTo "*" {"body":"at most once"}
            eve < DELIVER d10 Bob -> Eve seq 1 originalTo "*" {"body":"at most once"}
            fay < DELIVER d11 Bob -> Fay seq 1 originalTo "*" {"body":"at most once"}
    "#]]);
}

#[test]
fn sender_of_long_messages_waits_for_the_store_and_nobody_else() {
    check(expect![[r#"
        limits backlog_max=32
        here: ann bob cid
        disk holds
        ann>> Bob: x*30000
        ann>> Bob: y*30000
        ann>> Bob: handled later
            ann waits
        cid>> Bob: is handled
        disk keeps
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"x*30000"}
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"y*30000"}
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Cid -> Bob seq 1 requires_ack true {"body":"is handled"}
            ann goes on
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
            bob < DELIVER d4 Ann -> Bob seq 3 requires_ack true {"body":"handled later"}
    "#]]);
}

#[test]
fn companions_of_another_key_leave_when_their_agent_is_back() {
    check(expect![[r#"
        ann joins {"companion_key":"right"}
            ann < WELCOME {"agent":"Ann"}
        crash
        cal joins {"mode":"companion","agent":"Ann","companion_key":"wrong"}
            cal < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        cam joins {"mode":"companion","agent":"Ann","companion_key":"right"}
            cam < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        ann joins {"companion_key":"right"}
            cal < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"the agent is back, and stated another key for its companions, or none"}
            cal close Fault(Unauthorized)
            ann < WELCOME {"agent":"Ann"}
        cam> Ann: is still here
            ann < DELIVER d1 Ann -> Ann seq 1 {"body":"is still here"}
        crash
        cal joins {"mode":"companion","agent":"Ann","companion_key":"right"}
            cal < WELCOME {"agent":"Ann","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false},"session_id":"s2"}
        ann joins {}
            cal < ERROR {"code":"UNAUTHORIZED","fatal":true,"message":"the agent is back, and stated another key for its companions, or none"}
            cal close Fault(Unauthorized)
            ann < WELCOME {"agent":"Ann"}
    "#]]);
}

#[test]
fn names_of_one_process_leave_room_for_others() {
    check(expect![[r#"
        limits names_max=16
        process 7: fae gil hal ida jan kim lea mia ned oli
        here: fae gil hal ida jan kim lea mia
        ned joins
            ned < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"8 names of process 7 are known already","ref":"h"}
            ned close Fault(TooManyClients)
        fae says BYE {"reason":"done"}
            fae close Bye
        wait 1000
            fae hang up
            ned hang up
        ned joins
            ned < WELCOME {"agent":"Ned"}
        here: ann bob
        oli joins
            oli < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"8 names of process 7 are known already","ref":"h"}
            oli close Fault(TooManyClients)
        fae joins
            fae < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"8 names of process 7 are known already","ref":"h"}
            fae close Fault(TooManyClients)
        here: cid dan eve pia quy
    "#]]);
}

#[test]
fn name_that_comes_by_another_process_is_charged_to_it_within_its_share() {
    check(expect![[r#"
        limits names_max=16
        process 7: ann bob cid dan eve fae gil hal
        process 8: ann2 bob2 cid2 dan2 eve2 fae2 gil2 hal2 ida2
        here: ann bob cid dan eve fae gil hal
        ann says BYE {"reason":"done"}
            ann close Bye
        bob says BYE {"reason":"done"}
            bob close Bye
        cid says BYE {"reason":"done"}
            cid close Bye
        dan says BYE {"reason":"done"}
            dan close Bye
        eve says BYE {"reason":"done"}
            eve close Bye
        fae says BYE {"reason":"done"}
            fae close Bye
        gil says BYE {"reason":"done"}
            gil close Bye
        hal says BYE {"reason":"done"}
            hal close Bye
        ann2 joins
            ann2 < WELCOME {"agent":"Ann"}
        bob2 joins
            bob2 < WELCOME {"agent":"Bob"}
        cid2 joins
            cid2 < WELCOME {"agent":"Cid"}
        dan2 joins
            dan2 < WELCOME {"agent":"Dan"}
        eve2 joins
            eve2 < WELCOME {"agent":"Eve"}
        fae2 joins
            fae2 < WELCOME {"agent":"Fae"}
        gil2 joins
            gil2 < WELCOME {"agent":"Gil"}
        hal2 joins
            hal2 < WELCOME {"agent":"Hal"}
        ida2 joins
            ida2 < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"6 names of process 8 are known already","ref":"h"}
            ida2 close Fault(TooManyClients)
    "#]]);
}

#[test]
fn process_whose_share_is_used_up_displaces_no_name_of_another() {
    check(expect![[r#"
        limits names_max=8
        process 7: ann bob cid dan eve
        here: ann bob cid dan
        here: fae gil hal ida
        fae>> Fae: to itself
            fae < ACK {"ack_id":"f1","durability":"disk","state":"accepted"}
            fae < DELIVER d1 Fae -> Fae seq 1 requires_ack true {"body":"to itself"}
        fae says BYE {"reason":"done"}
            fae close Bye
        gil goes
        eve joins
            eve < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"8 names are known already","ref":"h"}
            eve close Fault(TooManyClients)
        jan joins
            jan < WELCOME {"agent":"Jan"}
        fae joins
            fae < WELCOME {"agent":"Fae"}
            fae < DELIVER d1 Fae -> Fae seq 1 attempt 2 requires_ack true {"body":"to itself"}
    "#]]);
}

#[test]
fn remembered_sends_of_another_machine_outlast_guests_and_empty_names() {
    check(expect![[r#"
        limits names_max=4
        here: bob
        ann joins {"agent":"Ann@pi","mode":"bridge","auth":{"key":"open"}}
            ann < WELCOME {"agent":"Ann@pi","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false}}
        ann>> Bob: once
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann@pi -> Bob seq 1 requires_ack true {"body":"once"}
        ann says BYE {"reason":"done"}
            ann close Bye
        gus joins {"mode":"guest","guest_key":"0123456789abcdef"}
            gus < WELCOME {"agent":"@guest-378c0eb3","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Bob: once, too
            gus < ACK {"ack_id":"g1","durability":"disk","state":"accepted"}
            bob < DELIVER d2 @guest-378c0eb3 -> Bob seq 1 requires_ack true {"body":"once, too"}
        gus goes
        cid joins
            cid < WELCOME {"agent":"Cid"}
        cid says BYE {"reason":"done"}
            cid close Bye
        dan joins
            dan < WELCOME {"agent":"Dan"}
        eve joins
            eve < WELCOME {"agent":"Eve"}
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks agents
            op < DELIVER d3 @relay -> @operator seq 1 {"body":"agents","data":{"agents":[{"here":false,"host":"pi","in_flight":0,"name":"Ann@pi","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":2,"name":"Bob","queued":2,"queued_bytes":1196,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Dan","queued":0,"queued_bytes":0,"session":"s-47be31f69448cd25","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Eve","queued":0,"queued_bytes":0,"session":"s-8551b0310c3d0735","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
    "#]]);
}

#[test]
fn own_mail_holds_no_name() {
    check(expect![[r#"
        limits names_max=6
        process 7: ann bob cid
        here: ann bob cid dan hal ida
        ann>> Ann: to itself
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 Ann -> Ann seq 1 requires_ack true {"body":"to itself"}
        bob>> Cid: of the same process
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
            cid < DELIVER d2 Bob -> Cid seq 1 requires_ack true {"body":"of the same process"}
        dan>> Bob: of another process
            dan < ACK {"ack_id":"d1","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Dan -> Bob seq 1 requires_ack true {"body":"of another process"}
        ann says BYE {"reason":"done"}
            ann close Bye
        bob says BYE {"reason":"done"}
            bob close Bye
        cid says BYE {"reason":"done"}
            cid close Bye
        eve joins
            eve < WELCOME {"agent":"Eve"}
        wait 1
        fay joins
            fay < WELCOME {"agent":"Fay"}
        guy joins
            guy < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"6 names are known already","ref":"h"}
            guy close Fault(TooManyClients)
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d3 Dan -> Bob seq 1 attempt 2 requires_ack true {"body":"of another process"}
    "#]]);
}

#[test]
fn name_with_much_own_mail_makes_room_in_steps() {
    let mut lines = vec!["limits names_max=2".to_owned(), "here: ann bob".to_owned()];
    lines.extend((0..600).map(|number| format!("ann>> Ann: {number}")));
    lines.push("ann says BYE {}".to_owned());
    lines.extend((0..4).map(|number| format!("c{number} joins {{\"agent\":\"Cid\"}}")));
    let transcript = run(&lines.join("\n"));
    let (_, after) = transcript.split_once("ann says BYE").unwrap();
    assert_eq!(after.matches("2 names are known already").count(), 2, "{after}");
    assert_eq!(after.matches("WELCOME").count(), 1, "{after}");
}

#[test]
fn mail_that_a_guest_of_the_same_process_sent_holds_no_name() {
    check(expect![[r#"
        limits names_max=3
        process 7: ann gus
        here: ann
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> Ann: to a neighbour
            gus < ACK {"ack_id":"g1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 @guest-ef842070 -> Ann seq 1 requires_ack true {"body":"to a neighbour"}
        ann says BYE {"reason":"done"}
            ann close Bye
        gus says BYE {"reason":"done"}
            gus close Bye
        gus goes
        here: bob cid
        dan joins
            dan < WELCOME {"agent":"Dan"}
    "#]]);
}

#[test]
fn mail_of_an_earlier_daemon_holds_a_name_but_its_own_does_not() {
    check(expect![[r#"
        limits names_max=2
        here: ann bob
        ann>> Ann: to itself
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 Ann -> Ann seq 1 requires_ack true {"body":"to itself"}
        ann>> Bob: from Ann
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 1 requires_ack true {"body":"from Ann"}
        ann says BYE {"reason":"done"}
            ann close Bye
        bob says BYE {"reason":"done"}
            bob close Bye
        crash
        cid joins
            cid < WELCOME {"agent":"Cid"}
        dan joins
            dan < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"2 names are known already","ref":"h"}
            dan close Fault(TooManyClients)
    "#]]);
}

#[test]
fn names_of_another_machine_have_a_share_and_go_first() {
    check(expect![[r#"
        limits names_max=8
        process 7: e1 e2 e3 e4 e5 f1 f2
        here: ann bob
        e1 joins {"agent":"E1@pi","mode":"bridge","auth":{"key":"open"}}
            e1 < WELCOME {"agent":"E1@pi","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false}}
        e2 joins {"agent":"E2@pi","mode":"bridge","auth":{"key":"open"}}
            e2 < WELCOME {"agent":"E2@pi","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false}}
        e3 joins {"agent":"E3@PI","mode":"bridge","auth":{"key":"open"}}
            e3 < WELCOME {"agent":"E3@PI","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false}}
        e4 joins {"agent":"E4@pi","mode":"bridge","auth":{"key":"open"}}
            e4 < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"3 names of machine pi are known already","ref":"h"}
            e4 close Fault(TooManyClients)
        f1 joins {"agent":"F1@pc","mode":"bridge","auth":{"key":"open"}}
            f1 < WELCOME {"agent":"F1@pc","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":false}}
        ann says BYE {"reason":"done"}
            ann close Bye
        e2 says BYE {"reason":"done"}
            e2 close Bye
        here: cid dan eve
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks agents
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"agents","data":{"agents":[{"here":false,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Bob","queued":0,"queued_bytes":0,"session":"s-ef8420704fca44c6","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Cid","queued":0,"queued_bytes":0,"session":"s-1a131cb2f3b88acd","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Dan","queued":0,"queued_bytes":0,"session":"s-de63edd1c8f9ac8f","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"host":"pi","in_flight":0,"name":"E1@pi","queued":0,"queued_bytes":0,"session":"s-3f55abebab4afccc","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"host":"PI","in_flight":0,"name":"E3@PI","queued":0,"queued_bytes":0,"session":"s-a6d97e146304f381","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Eve","queued":0,"queued_bytes":0,"session":"s-5a4fab611fe8fe85","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"host":"pc","in_flight":0,"name":"F1@pc","queued":0,"queued_bytes":0,"session":"s-f3a182daf9880bd2","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
    "#]]);
}

#[test]
fn names_of_machines_that_left_make_room_before_those_of_machines_here_and_of_this_one() {
    let joins = |client: &str, name: &str| {
        let hello = r#""mode":"bridge","auth":{"key":"open"},"capabilities":{"resume":true}"#;
        format!(r#"{client} joins {{"agent":"{name}",{hello}}}"#)
    };
    let mut lines = vec!["limits names_max=8".to_owned(), "here: ann bob".to_owned()];
    lines.extend([("e1", "E1@pi"), ("f1", "F1@pc"), ("f2", "F2@pc")].map(|(a, b)| joins(a, b)));
    lines.extend(["ann says BYE {}", "f1 goes", "e1 goes", "here: cid dan eve"].map(str::to_owned));
    let is_known = |name: &str, lines: &[String]| {
        let ask = [format!("bob> {name}: there?")];
        !run(&[lines, &ask].concat().join("\n")).contains("UNKNOWN_AGENT")
    };
    let names = ["E1@pi", "F1@pc", "Ann"];
    for (newcomer, known) in
        [("gil", [false, true, true]), ("hal", [false, false, true]), ("ida", [false; 3])]
    {
        lines.push(format!("{newcomer} joins"));
        assert_eq!(names.map(|name| is_known(name, &lines)), known, "after {newcomer}");
    }
}

#[test]
fn machine_that_changes_its_names_displaces_no_other_name() {
    let mut lines = vec!["limits names_max=64".to_owned(), "log shows".to_owned()];
    for name in ["ann", "bob", "cid"] {
        lines.push(format!("here: {name}"));
        lines.push(format!("{name} says BYE {{}}"));
    }
    for number in 0..200 {
        let hello = r#""mode":"bridge","auth":{"key":"open"},"capabilities":{"resume":true}"#;
        lines.push(format!(r#"r{number} joins {{"agent":"R{number}@evil",{hello}}}"#));
        lines.push(format!("r{number} goes"));
    }
    for name in ["Ann", "Bob", "Cid"] {
        lines.push(format!("pia> {name}: still there?"));
    }
    lines.insert(2, "here: pia".to_owned());
    let transcript = run(&lines.join("\n"));
    assert!(!transcript.contains("UNKNOWN_AGENT"), "{transcript}");
    assert_eq!(transcript.matches("names of machine evil are known, its share").count(), 1);
}

#[test]
fn senders_that_fill_a_queue_leave_room_for_broadcasts_of_another() {
    check(expect![[r#"
        limits queue_messages_max=16 window_bytes=1
        here: ann bob cid eve
        bob stalls
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Bob: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
        ann>> Bob: 3
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
        ann>> Bob: 4
            ann < ACK {"ack_id":"a4","durability":"disk","state":"accepted"}
        ann>> Bob: 5
            ann < ACK {"ack_id":"a5","durability":"disk","state":"accepted"}
        ann>> Bob: 6
            ann < ACK {"ack_id":"a6","durability":"disk","state":"accepted"}
        ann>> Bob: 7
            ann < ACK {"ack_id":"a7","durability":"disk","state":"accepted"}
        ann>> Bob: 8
            ann < BUSY {"ack_id":"a8","queue_depth":7,"retry_after_ms":50}
        cid>> Bob: 1
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
        cid>> Bob: 2
            cid < ACK {"ack_id":"c2","durability":"disk","state":"accepted"}
        cid>> Bob: 3
            cid < ACK {"ack_id":"c3","durability":"disk","state":"accepted"}
        cid>> Bob: 4
            cid < ACK {"ack_id":"c4","durability":"disk","state":"accepted"}
        cid>> Bob: 5
            cid < BUSY {"ack_id":"c5","queue_depth":11,"retry_after_ms":50}
        eve>> Bob: 1
            eve < ACK {"ack_id":"e1","durability":"disk","state":"accepted"}
        eve>> *: 2
            eve < ACK {"ack_id":"e2","durability":"disk","recipients":3,"state":"accepted"}
            ann < DELIVER d2 Eve -> Ann seq 1 originalTo "*" requires_ack true {"body":"2"}
            cid < DELIVER d3 Eve -> Cid seq 1 originalTo "*" requires_ack true {"body":"2"}
    "#]]);
}

#[test]
fn connections_of_one_process_leave_room_for_others() {
    check(expect![[r#"
        limits clients_max=8
        process 7: ann bob cid dan eve fae
        here: ann bob cid dan
        eve joins
            eve < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"4 connections of process 7 are open already","ref":"h"}
            eve close Fault(TooManyClients)
        gil joins
            gil < WELCOME {"agent":"Gil"}
        hal joins
            hal < WELCOME {"agent":"Hal"}
        ann says BYE {"reason":"done"}
            ann close Bye
        wait 1000
            ann hang up
            eve hang up
        eve joins
            eve < ERROR {"code":"TOO_MANY_CLIENTS","fatal":true,"message":"3 connections of process 7 are open already","ref":"h"}
            eve close Fault(TooManyClients)
        here: ida
    "#]]);
}
