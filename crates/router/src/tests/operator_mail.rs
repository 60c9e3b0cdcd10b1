//! The operator's mailbox, and late answers to the operator's questions.

use super::script::check;
use expect_test::expect;

#[test]
fn mail_waits_until_an_operator_takes_it() {
    check(expect![[r#"
        here: ann bob
        ann>> @operator: the tests pass
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks status
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"status","data":{"agents_here":2,"agents_known":2,"connections":3,"counts":{"acknowledged":0,"busy":0,"delivered":0,"expired":0,"gave_up":0,"given_back":0,"refused":0,"taken":1},"guests":0,"mailbox":1,"memory_bytes":1110,"memory_bytes_max":536870912,"messages":1,"protocol":"1.1","streams":1,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
        op asks inbox
            op < DELIVER d3 @relay -> @operator seq 2 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"the tests pass","expires":605801000,"failures":0,"from":"Ann","id":"d2","send_id":"a1","seq":1,"state":"waiting","to":"@operator","waits_for":"recipient"}]},"kind":"response"}
        bob>> @Operator: mine fail
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
        op asks take {"ids":["d2"]}
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"take","data":{"taken":1},"kind":"response"}
        op asks take {"ids":["d2"]}
            op < DELIVER d5 @relay -> @operator seq 4 {"body":"take","data":{"taken":0},"kind":"response"}
        op asks inbox {"of":"@operator"}
            op < DELIVER d7 @relay -> @operator seq 5 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"mine fail","expires":605801000,"failures":0,"from":"Bob","id":"d6","send_id":"b1","seq":1,"state":"waiting","to":"@operator","waits_for":"recipient"}]},"kind":"response"}
        op asks history
            op < DELIVER d8 @relay -> @operator seq 6 {"body":"history","data":{"messages":[{"attempts":0,"body":"mine fail","expires":605801000,"failures":0,"from":"Bob","id":"d6","send_id":"b1","seq":1,"state":"waiting","to":"@operator","waits_for":"recipient"},{"attempts":0,"body":"the tests pass","ended":1001000,"failures":0,"from":"Ann","id":"d2","send_id":"a1","seq":1,"state":"acknowledged","to":"@operator"}]},"kind":"response"}
        op goes
        bob asks inbox {"of":"@operator"}
            bob < NACK {"ack_id":"q","code":"FORBIDDEN","message":"you are Bob: \"@operator\"'s mail is for operators"}
        bob asks take {"ids":["d5"]}
            bob < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"take\" is for operators, who join with what is in the home's operator.key"}
        bob asks status
            bob < DELIVER d9 @relay -> Bob seq 1 {"body":"status","data":{"agents_here":2,"agents_known":2,"connections":2,"counts":{"acknowledged":1,"busy":0,"delivered":0,"expired":0,"gave_up":0,"given_back":0,"refused":2,"taken":2},"guests":0,"memory_bytes":1105,"memory_bytes_max":536870912,"messages":1,"protocol":"1.1","streams":2,"uptime_ms":0,"version":"0.1.0"},"kind":"response"}
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks take {"ids":["x"]}
            op < NACK {"ack_id":"q","code":"INVALID","message":"\"x\" is not a whole id"}
    "#]]);
}

#[test]
fn guest_may_send_to_the_operator_and_not_read() {
    check(expect![[r#"
        here: ann
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        gus>> @operator: hello
            gus < ACK {"ack_id":"g1","durability":"disk","state":"accepted"}
        gus asks inbox {"of":"@operator"}
            gus < NACK {"ack_id":"q","code":"FORBIDDEN","message":"you are @guest-ef842070: \"@operator\"'s mail is for operators"}
        gus asks take {"ids":["d1"]}
            gus < NACK {"ack_id":"q","code":"FORBIDDEN","message":"\"take\" is for operators, who join with what is in the home's operator.key"}
        gus goes
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks inbox
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"hello","expires":605801000,"failures":0,"from":"@guest-ef842070","id":"d1","send_id":"g1","seq":1,"state":"waiting","to":"@operator","waits_for":"recipient"}]},"kind":"response"}
    "#]]);
}

#[test]
fn mail_of_the_operator_survives_a_crash_and_is_not_doubled() {
    check(expect![[r#"
        here: ann
        ann>> @operator: kept
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        crash
        here: ann op
        ann>> @operator: kept
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        op asks inbox
            op < DELIVER d2 @relay -> @operator seq 1024001 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"kept","expires":605801000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"@operator","waits_for":"recipient"}]},"kind":"response"}
        op asks take {"ids":["d1"]}
            op < DELIVER d3 @relay -> @operator seq 1024002 {"body":"take","data":{"taken":1},"kind":"response"}
        crash
        here: op
        op asks inbox
            op < DELIVER d4 @relay -> @operator seq 1024001 {"body":"inbox","data":{"messages":[]},"kind":"response"}
        op asks history
            op < DELIVER d5 @relay -> @operator seq 1024002 {"body":"history","data":{"messages":[{"attempts":0,"body":"kept","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"acknowledged","to":"@operator"}]},"kind":"response"}
    "#]]);
}

#[test]
fn mail_that_is_not_stored_is_not_taken() {
    check(expect![[r#"
        here: ann op
        disk holds
        ann>> @operator: soon
        op asks inbox
            op < DELIVER d2 @relay -> @operator seq 1 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"soon","expires":605801000,"failures":0,"from":"Ann","id":"d1","send_id":"a1","seq":1,"state":"waiting","to":"@operator","waits_for":"store"}]},"kind":"response"}
        op asks take {"ids":["d1"]}
            op < DELIVER d3 @relay -> @operator seq 2 {"body":"take","data":{"taken":0},"kind":"response"}
        disk keeps
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        op asks take {"ids":["d1"]}
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"take","data":{"taken":1},"kind":"response"}
    "#]]);
}

#[test]
fn mail_of_the_operator_has_its_own_time_to_live() {
    check(expect![[r#"
        limits operator_mail_ms=2000 ttl_ms=1000 heartbeat_ms=1099511627776
        here: ann
        ann>> @operator: two seconds
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        ann>> @operator 500ms: half a second
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
        wait 500
            ann < NACK {"ack_id":"a2","code":"EXPIRED","message":"its time to live ran out","to":"@operator"}
        wait 1499
        wait 1
            ann < NACK {"ack_id":"a1","code":"EXPIRED","message":"its time to live ran out","to":"@operator"}
    "#]]);
}

#[test]
fn one_sender_may_fill_only_half_of_the_operators_mailbox() {
    check(expect![[r#"
        limits queue_messages_max=4
        here: ann bob
        ann>> @operator: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
        ann>> @operator: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
        ann>> @operator: 3
            ann < BUSY {"ack_id":"a3","queue_depth":2,"retry_after_ms":50}
        bob>> @operator: 4
            bob < ACK {"ack_id":"b1","durability":"disk","state":"accepted"}
    "#]]);
}

#[test]
fn policy_and_kind_of_a_message_to_the_operator_are_checked() {
    check(expect![[r#"
        here: ann bob
        policy Ann @operator * no
        ann>> @operator: forbidden
            ann < NACK {"ack_id":"a1","code":"FORBIDDEN","message":"Ann may not send this to @operator: line 1 of policy.toml forbids it"}
        bob says SEND to=@operator meta={"sync":{"correlationId":"c"}} {"body":"?"}
            bob < NACK {"ack_id":"x","code":"INVALID","message":"@operator answers no questions: send it without `sync`"}
        bob> @operator: at most once
            bob < NACK {"ack_id":"b1","code":"AGENT_OFFLINE","message":"@operator has a mailbox only: send with requires_ack"}
        bob>> *: not the operator
            bob < ACK {"ack_id":"b2","durability":"disk","recipients":1,"state":"accepted"}
            ann < DELIVER d1 Bob -> Ann seq 1 originalTo "*" requires_ack true {"body":"not the operator"}
    "#]]);
}

#[test]
fn late_answer_to_the_operator_becomes_mail() {
    check(expect![[r#"
        here: ann op
        disk shows
        op says SEND id=q1 to=Ann meta={"sync":{"correlationId":"c","timeoutMs":500}} {"body":"port?"}
            keep stream 2→1 "" up to 1024
            keep q1 for [Ann#1 attempts 1], 0 left
            op < ACK {"ack_id":"q1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 @operator -> Ann seq 1 requires_ack true {"body":"port?"}
        ann acks d1
            keep delivery 1: Acknowledged
            keep question q1 2→1 until 1500
        wait 500
            op < NACK {"ack_id":"q1","code":"SYNC_TIMEOUT","correlationId":"c","message":"Ann did not answer within 500 ms","to":"Ann"}
        ann acks d1 {"correlationId":"c","response":true,"responseData":{"body":"8080"}}
            keep stream 1→2 "" up to 1024
            keep answer-b70df1ab-55f7-4201-abde-43aaeb8ec471 for [@operator#1 attempts 0], 0 left
            keep question ended
        ann acks d1 {"correlationId":"c","response":true,"responseData":{"body":"again"}}
        op asks inbox
            op < DELIVER d3 @relay -> @operator seq 1 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"8080","expires":605801500,"failures":0,"from":"Ann","id":"d2","send_id":"answer-b70df1ab-55f7-4201-abde-43aaeb8ec471","seq":1,"state":"waiting","to":"@operator","waits_for":"recipient"}]},"kind":"response"}
    "#]]);
}

#[test]
fn answer_to_a_command_that_has_ended_becomes_mail() {
    check(expect![[r#"
        here: ann op
        op says SEND id=q1 to=Ann meta={"sync":{"correlationId":"c","timeoutMs":500}} {"body":"1?"}
            op < ACK {"ack_id":"q1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 @operator -> Ann seq 1 requires_ack true {"body":"1?"}
        op says SEND id=q2 to=Ann meta={"sync":{"correlationId":"c","timeoutMs":500}} {"body":"2?"}
            op < ACK {"ack_id":"q2","durability":"disk","state":"accepted"}
            ann < DELIVER d2 @operator -> Ann seq 2 requires_ack true {"body":"2?"}
        op goes
        ann acks d1 {"correlationId":"c","response":false,"responseData":{"body":"no"}}
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        ann acks d2 {"correlationId":"c","response":true,"responseData":{"body":"b","n":1}}
        op says SEND id=q3 to=Ann meta={"sync":{"correlationId":"c","timeoutMs":500}} {"body":"3?"}
            op < ACK {"ack_id":"q3","durability":"disk","state":"accepted"}
            ann < DELIVER d3 @operator -> Ann seq 3 requires_ack true {"body":"3?"}
        ann acks d3 {"correlationId":"c","response":true}
            op < ACK from Ann {"ack_id":"q3","correlationId":"c","response":true}
        op asks inbox
            op < DELIVER d6 @relay -> @operator seq 1 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"no","expires":605801000,"failures":0,"from":"Ann","id":"d4","send_id":"answer-b70df1ab-55f7-4201-abde-43aaeb8ec471","seq":1,"state":"waiting","to":"@operator","waits_for":"recipient"},{"attempts":0,"body":"","expires":605801000,"failures":0,"from":"Ann","id":"d5","send_id":"answer-21de6b0f-8c00-4649-8eb8-a9a7b34c8fe8","seq":2,"state":"waiting","to":"@operator","waits_for":"recipient"}]},"kind":"response"}
    "#]]);
}

#[test]
fn question_of_the_operator_outlives_the_daemon() {
    check(expect![[r#"
        here: ann op
        op says SEND id=q1 to=Ann meta={"sync":{"correlationId":"c","timeoutMs":500}} {"body":"1?"}
            op < ACK {"ack_id":"q1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 @operator -> Ann seq 1 requires_ack true {"body":"1?"}
        op says SEND id=q2 to=Ann meta={"sync":{"correlationId":"e","timeoutMs":500}} {"body":"2?"}
            op < ACK {"ack_id":"q2","durability":"disk","state":"accepted"}
            ann < DELIVER d2 @operator -> Ann seq 2 requires_ack true {"body":"2?"}
        ann acks d1
        wait 500
            op < NACK {"ack_id":"q2","code":"SYNC_TIMEOUT","correlationId":"e","message":"Ann did not answer within 500 ms","to":"Ann"}
            op < NACK {"ack_id":"q1","code":"SYNC_TIMEOUT","correlationId":"c","message":"Ann did not answer within 500 ms","to":"Ann"}
        crash
        ann joins
            ann < WELCOME {"agent":"Ann"}
            ann < DELIVER d2 @operator -> Ann seq 2 attempt 2 requires_ack true {"body":"2?"}
        ann acks d1 {"correlationId":"c","response":true}
        ann acks d2 {"correlationId":"e","response":false}
        crash
        ann joins
            ann < WELCOME {"agent":"Ann","session_id":"s3"}
        ann acks d1 {"correlationId":"c","response":true}
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks inbox
            op < DELIVER d5 @relay -> @operator seq 1536001 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"yes","expires":605801500,"failures":0,"from":"Ann","id":"d3","send_id":"answer-b70df1ab-55f7-4201-abde-43aaeb8ec471","seq":1,"state":"waiting","to":"@operator","waits_for":"recipient"},{"attempts":0,"body":"no","expires":605801500,"failures":0,"from":"Ann","id":"d4","send_id":"answer-21de6b0f-8c00-4649-8eb8-a9a7b34c8fe8","seq":2,"state":"waiting","to":"@operator","waits_for":"recipient"}]},"kind":"response"}
    "#]]);
}

#[test]
fn answer_that_the_store_refuses_is_returned() {
    check(expect![[r#"
        here: ann op
        op says SEND id=q1 to=Ann meta={"sync":{"correlationId":"c"}} {"body":"1?"}
            op < ACK {"ack_id":"q1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 @operator -> Ann seq 1 requires_ack true {"body":"1?"}
        op goes
        disk holds
        ann acks d1 {"correlationId":"c","response":true}
        ann acks d1 {"correlationId":"c","response":true}
        disk fails
            ann < NACK {"ack_id":"b70df1ab-55f7-4201-abde-43aaeb8ec471","code":"STORE_FAILED","correlationId":"c","message":"the store could not keep the message; send it again later: no space left on device"}
        disk keeps
        ann acks d1 {"correlationId":"c","response":true}
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op asks inbox
            op < DELIVER d3 @relay -> @operator seq 1 {"body":"inbox","data":{"messages":[{"attempts":0,"body":"yes","expires":605801000,"failures":0,"from":"Ann","id":"d2","send_id":"answer-b70df1ab-55f7-4201-abde-43aaeb8ec471","seq":2,"state":"waiting","to":"@operator","waits_for":"recipient"}]},"kind":"response"}
    "#]]);
}

#[test]
fn late_questions_are_bounded_in_number_and_time() {
    check(expect![[r#"
        limits questions_max=1 operator_mail_ms=1000 heartbeat_ms=1099511627776
        here: ann op
        op says SEND id=q1 to=Ann meta={"sync":{"correlationId":"c","timeoutMs":100}} {"body":"1?"}
            op < ACK {"ack_id":"q1","durability":"disk","state":"accepted"}
            ann < DELIVER d1 @operator -> Ann seq 1 requires_ack true {"body":"1?"}
        wait 100
            op < NACK {"ack_id":"q1","code":"SYNC_TIMEOUT","correlationId":"c","message":"Ann did not answer within 100 ms","to":"Ann"}
        op says SEND id=q2 to=Ann meta={"sync":{"correlationId":"c","timeoutMs":100}} {"body":"2?"}
            op < ACK {"ack_id":"q2","durability":"disk","state":"accepted"}
            ann < DELIVER d2 @operator -> Ann seq 2 requires_ack true {"body":"2?"}
        wait 100
            op < NACK {"ack_id":"q2","code":"SYNC_TIMEOUT","correlationId":"c","message":"Ann did not answer within 100 ms","to":"Ann"}
        ann acks d1 {"correlationId":"c","response":true}
        wait 1000
        ann acks d2 {"correlationId":"c","response":true}
        op asks inbox
            op < DELIVER d3 @relay -> @operator seq 1 {"body":"inbox","data":{"messages":[]},"kind":"response"}
    "#]]);
}
