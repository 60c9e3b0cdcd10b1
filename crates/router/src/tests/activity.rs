//! Activities of agents, and notices to senders whose messages wait.

use super::script::check;
use expect_test::expect;

#[test]
fn activity_is_listed_until_its_agent_leaves() {
    check(expect![[r#"
        here: ann bob op
        ann asks activity {"activity":"working","source":"hooks","for_ms":400}
            ann < DELIVER d1 @relay -> Ann seq 1 {"body":"activity","data":{},"kind":"response"}
        op asks agents
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"agents","data":{"agents":[{"activity":"working","activity_since":1000600,"activity_source":"hooks","here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0},{"here":true,"in_flight":0,"name":"Bob","queued":0,"queued_bytes":0,"session":"s-ef8420704fca44c6","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        ann asks activity {"activity":"waits-for-permission","source":"screen","for_ms":18446744073709551615}
            ann < DELIVER d3 @relay -> Ann seq 2 {"body":"activity","data":{},"kind":"response"}
        op asks agents {"limit":1}
            op < DELIVER d4 @relay -> @operator seq 2 {"body":"agents","data":{"agents":[{"activity":"waits-for-permission","activity_since":0,"activity_source":"screen","here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0}],"next_cursor":"Ann"},"kind":"response"}
        ann goes
        ann joins
            ann < WELCOME {"agent":"Ann"}
        op asks agents {"limit":1}
            op < DELIVER d5 @relay -> @operator seq 3 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-4fd6d7801ee22270","since":1001000,"subscriptions":0,"waiting":0}],"next_cursor":"Ann"},"kind":"response"}
    "#]]);
}

#[test]
fn unseen_end_of_work_is_listed_and_told_until_its_person_looks() {
    check(expect![[r#"
        here: ann op
        op asks tap {"changes":true}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"tap","data":{"changes":true},"kind":"response"}
        ann asks activity {"activity":"idle","source":"hooks","for_ms":0}
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"","data":{"agent":"Ann","at":1001000,"kind":"agent","since":1001000,"source":"hooks","state":"idle"},"kind":"change"}
            ann < DELIVER d3 @relay -> Ann seq 1 {"body":"activity","data":{},"kind":"response"}
        ann asks activity {"activity":"idle","source":"hooks","for_ms":1000,"unseen":true}
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"","data":{"agent":"Ann","at":1001000,"kind":"agent","since":1000000,"source":"hooks","state":"idle","unseen":true},"kind":"change"}
            ann < DELIVER d5 @relay -> Ann seq 2 {"body":"activity","data":{},"kind":"response"}
        ann asks activity {"activity":"idle","source":"screen","for_ms":1000,"unseen":true}
            ann < DELIVER d6 @relay -> Ann seq 3 {"body":"activity","data":{},"kind":"response"}
        op asks agents {"limit":1}
            op < DELIVER d7 @relay -> @operator seq 4 {"body":"agents","data":{"agents":[{"activity":"idle","activity_since":1000000,"activity_source":"screen","here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"unseen":true,"waiting":0}]},"kind":"response"}
        ann asks activity {"activity":"idle","source":"hooks","for_ms":2000}
            op < DELIVER d8 @relay -> @operator seq 5 {"body":"","data":{"agent":"Ann","at":1001000,"kind":"agent","since":999000,"source":"hooks","state":"idle"},"kind":"change"}
            ann < DELIVER d9 @relay -> Ann seq 4 {"body":"activity","data":{},"kind":"response"}
        op asks agents {"limit":1}
            op < DELIVER d10 @relay -> @operator seq 6 {"body":"agents","data":{"agents":[{"activity":"idle","activity_since":999000,"activity_source":"hooks","here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
    "#]]);
}

#[test]
fn only_an_agent_itself_reports_a_known_activity() {
    check(expect![[r#"
        here: ann op
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-3f55abeb","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus asks activity {"activity":"idle","source":"hooks","for_ms":0}
            gus < NACK {"ack_id":"q","code":"FORBIDDEN","message":"only an agent itself reports what it does"}
        op asks activity {"activity":"idle","source":"hooks","for_ms":0}
            op < NACK {"ack_id":"q","code":"FORBIDDEN","message":"only an agent itself reports what it does"}
        ann asks activity {"activity":"dances","source":"hooks","for_ms":0}
            ann < NACK {"ack_id":"q","code":"INVALID","message":"the activity is one of starting, working, waits-for-permission, asks-person, idle, shell, ended, its source hooks, screen"}
        ann asks activity {"activity":"idle","source":"rumour","for_ms":0}
            ann < NACK {"ack_id":"q","code":"INVALID","message":"the activity is one of starting, working, waits-for-permission, asks-person, idle, shell, ended, its source hooks, screen"}
        op asks agents
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-e43fe68bd7d9a9ba","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
    "#]]);
}

#[test]
fn sender_is_told_once_why_its_oldest_message_waits() {
    check(expect![[r#"
        limits heartbeat_ms=600000
        ann joins {"capabilities":{"reports":true}}
            ann < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":256,"reports":true,"resume":false,"supports_topics":true}}
        bob joins {"capabilities":{"reports":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"reports":true,"resume":false,"supports_topics":true}}
        bob asks activity {"activity":"working","source":"hooks","for_ms":1000}
            bob < DELIVER d1 @relay -> Bob seq 1 {"body":"activity","data":{},"kind":"response"}
        ann>> Bob: one
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 1 requires_ack true {"body":"one"}
        bob asks report {"id":"d2","state":"waiting","why":"the agent is at work"}
            bob < DELIVER d3 @relay -> Bob seq 2 {"body":"report","data":{},"kind":"response"}
        ann>> Bob: two
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d4 Ann -> Bob seq 2 requires_ack true {"body":"two"}
        bob asks report {"id":"d4","state":"waiting","why":"the agent is at work"}
            bob < DELIVER d5 @relay -> Bob seq 3 {"body":"report","data":{},"kind":"response"}
        wait 29999
        wait 1
            ann < DELIVER d6 @relay -> Ann seq 1 {"body":"Your message to Bob (id b70df1ab) waits: `agent-relay status b70df1ab` says why.","data":{"activity":"working","activity_ms":31000,"for_ms":30000,"id":"b70df1ab-4a6d-4e41-bc39-7408cc43e159","to":"Bob","why":"the agent is at work"},"kind":"unread"}
        bob asks report {"id":"d2","state":"waiting","why":"a line is half typed"}
            bob < DELIVER d7 @relay -> Bob seq 4 {"body":"report","data":{},"kind":"response"}
        wait 60000
        bob acks d2
        bob goes
        bob joins {"capabilities":{"reports":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"reports":true,"resume":false,"supports_topics":true}}
            bob < DELIVER d4 Ann -> Bob seq 2 attempt 2 requires_ack true {"body":"two"}
        bob asks report {"id":"d4","state":"waiting","why":"a line is half typed"}
            bob < DELIVER d8 @relay -> Bob seq 5 {"body":"report","data":{},"kind":"response"}
        wait 60000
    "#]]);
}

#[test]
fn sender_of_a_message_that_no_longer_waits_is_not_told() {
    check(expect![[r#"
        limits heartbeat_ms=600000
        ann joins {"capabilities":{"reports":true}}
            ann < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":256,"reports":true,"resume":false,"supports_topics":true}}
        bob joins {"capabilities":{"reports":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"reports":true,"resume":false,"supports_topics":true}}
        ann>> Bob: acknowledged
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"acknowledged"}
        bob asks report {"id":"d1","state":"waiting","why":"held"}
            bob < DELIVER d2 @relay -> Bob seq 1 {"body":"report","data":{},"kind":"response"}
        bob acks d1
        ann>> Bob: typed
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 2 requires_ack true {"body":"typed"}
        bob asks report {"id":"d3","state":"waiting","why":"held"}
            bob < DELIVER d4 @relay -> Bob seq 2 {"body":"report","data":{},"kind":"response"}
        bob asks report {"id":"d3","state":"injected"}
            bob < DELIVER d5 @relay -> Bob seq 3 {"body":"report","data":{},"kind":"response"}
        ann>> Bob: waits again later
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
            bob < DELIVER d6 Ann -> Bob seq 3 requires_ack true {"body":"waits again later"}
        bob asks report {"id":"d6","state":"waiting","why":"held"}
            bob < DELIVER d7 @relay -> Bob seq 4 {"body":"report","data":{},"kind":"response"}
        bob asks report {"id":"d6","state":"waiting"}
            bob < DELIVER d8 @relay -> Bob seq 5 {"body":"report","data":{},"kind":"response"}
        wait 30000
        bob asks report {"id":"d6","state":"waiting","why":"held"}
            bob < DELIVER d9 @relay -> Bob seq 6 {"body":"report","data":{},"kind":"response"}
        wait 29999
        wait 1
            ann < DELIVER d10 @relay -> Ann seq 1 {"body":"Your message to Bob (id 44edbef5) waits: `agent-relay status 44edbef5` says why.","data":{"for_ms":60000,"id":"44edbef5-9c5d-44e1-b187-b35e0c3995fb","to":"Bob","why":"held"},"kind":"unread"}
    "#]]);
}

#[test]
fn only_agents_that_report_themselves_are_told_and_not_of_broadcasts() {
    check(expect![[r#"
        limits heartbeat_ms=600000
        here: cid op
        bob joins {"capabilities":{"reports":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"reports":true,"resume":false,"supports_topics":true}}
        cid>> Bob: one
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Cid -> Bob seq 1 requires_ack true {"body":"one"}
        op>> Bob: two
            op < ACK {"ack_id":"o1","durability":"disk","state":"accepted"}
            bob < DELIVER d2 @operator -> Bob seq 1 requires_ack true {"body":"two"}
        bob asks report {"id":"d1","state":"waiting","why":"held"}
            bob < DELIVER d3 @relay -> Bob seq 1 {"body":"report","data":{},"kind":"response"}
        bob asks report {"id":"d2","state":"waiting","why":"held"}
            bob < DELIVER d4 @relay -> Bob seq 2 {"body":"report","data":{},"kind":"response"}
        ann joins {"capabilities":{"reports":true}}
            ann < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":256,"reports":true,"resume":false,"supports_topics":true}}
        ann>> *: three
            ann < ACK {"ack_id":"a1","durability":"disk","recipients":2,"state":"accepted"}
            bob < DELIVER d5 Ann -> Bob seq 1 originalTo "*" requires_ack true {"body":"three"}
            cid < DELIVER d6 Ann -> Cid seq 1 originalTo "*" requires_ack true {"body":"three"}
        bob asks report {"id":"d5","state":"waiting","why":"held"}
            bob < DELIVER d7 @relay -> Bob seq 3 {"body":"report","data":{},"kind":"response"}
        wait 60000
    "#]]);
}

#[test]
fn program_and_directory_of_an_agent_are_listed_while_it_is_here() {
    check(expect![[r#"
        here: op
        ann joins {"program":"claude","directory":"/src/\u001b[2J"}
            ann < WELCOME {"agent":"Ann"}
        op asks agents
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"agents","data":{"agents":[{"directory":"/src/\u001b[2J","here":true,"in_flight":0,"name":"Ann","program":"claude","queued":0,"queued_bytes":0,"session":"s-ef8420704fca44c6","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        ann goes
        op asks agents
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"agents","data":{"agents":[{"here":false,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        ann joins
            ann < WELCOME {"agent":"Ann"}
        op asks agents
            op < DELIVER d3 @relay -> @operator seq 3 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","queued":0,"queued_bytes":0,"session":"s-378c0eb31a753c74","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
    "#]]);
}

#[test]
fn program_and_directory_that_are_too_long_for_a_list_are_left_out() {
    check(expect![[r#"
        here: op
        ann joins {"program":"p*64","directory":"d*513"}
            ann < WELCOME {"agent":"Ann"}
        op asks agents
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","program":"p*64","queued":0,"queued_bytes":0,"session":"s-ef8420704fca44c6","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
        bob joins {"program":"p*65","directory":"d*512"}
            bob < WELCOME {"agent":"Bob"}
        op asks agents
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"agents","data":{"agents":[{"here":true,"in_flight":0,"name":"Ann","program":"p*64","queued":0,"queued_bytes":0,"session":"s-ef8420704fca44c6","since":1001000,"subscriptions":0,"waiting":0},{"directory":"d*512","here":true,"in_flight":0,"name":"Bob","queued":0,"queued_bytes":0,"session":"s-ab4afccc378c0eb3","since":1001000,"subscriptions":0,"waiting":0}]},"kind":"response"}
    "#]]);
}
