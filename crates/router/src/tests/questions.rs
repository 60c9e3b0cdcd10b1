//! Questions and their answers.

use super::script::check;
use expect_test::expect;

#[test]
fn tap_copies_answers() {
    check(expect![[r#"
        op joins
            op < WELCOME {"agent":"@operator","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        op says SEND id=q to=@relay {"kind":"request","body":"tap"}
            op < DELIVER d1 @relay -> @operator seq 1 {"body":"tap","data":{},"kind":"response"}
        ann joins
            ann < WELCOME {"agent":"Ann"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
        ann says SEND id=x to=Bob meta={"sync":{"correlationId":"c"}} {"body":"6 x 7?"}
            op < DELIVER d2 @relay -> @operator seq 2 {"body":"","data":{"from":"Ann","id":"b70df1ab-6528-464b-8255-08e23e2d31e7","payload":{"body":"6 x 7?"},"payload_meta":{"sync":{"correlationId":"c"}},"recipients":1,"requires_ack":true,"send_id":"x","seq":1,"to":"Bob"},"kind":"tap"}
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 1 requires_ack true {"body":"6 x 7?"}
        bob acks d3 {"correlationId":"c","response":true,"responseData":{"body":"42"}}
            op < DELIVER d4 @relay -> @operator seq 3 {"body":"","data":{"answer":{"id":"21de6b0f-e222-42e8-a210-984170ef4c88","response":true,"responseData":{"body":"42"}},"from":"Bob","id":"b70df1ab-6528-464b-8255-08e23e2d31e7","recipients":1,"requires_ack":false,"send_id":"x","to":"Ann"},"kind":"tap"}
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","response":true,"responseData":{"body":"42"}}
    "#]]);
}

#[test]
fn first_ack_with_correlation_id_is_the_answer() {
    check(expect![[r#"
        here: ann bob cid
        ann says SEND to=Bob meta={"sync":{"correlationId":"c"}} {"body":"?"}
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"?"}
        bob acks d1
        cid acks d1 {"correlationId":"c","response":false}
        bob acks d1 {"correlationId":"other","response":false}
        bob acks d1 {"correlationId":"c","response":true,"responseData":{"body":"42"}}
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","response":true,"responseData":{"body":"42"}}
        bob acks d1 {"correlationId":"c","response":false}
    "#]]);
}

#[test]
fn answer_can_acknowledge_its_delivery() {
    check(expect![[r#"
        here: ann bob
        disk shows
        ann says SEND to=Bob meta={"sync":{"correlationId":"c"}} {"body":"?"}
            keep stream 1→2 "" up to 1024
            keep x for [Bob#1 attempts 1], 0 left
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"?"}
        bob acks d1 {"correlationId":"c"}
            keep answer-b70df1ab-55f7-4201-abde-43aaeb8ec471 for Ann, ended
            keep delivery 1: Acknowledged
            keep sync
            keep answer 1 for agent 1
            ann < ACK from Bob {"ack_id":"x","correlationId":"c"}
            keep answer 1 ended
    "#]]);
}

#[test]
fn answer_is_in_the_history_of_who_asked_and_who_answered() {
    check(expect![[r#"
        here: ann bob cid
        ann says SEND to=Bob meta={"sync":{"correlationId":"c"}} {"body":"port?"}
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"port?"}
        bob acks d1 {"correlationId":"c","response":true,"responseData":{"body":"8080"}}
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","response":true,"responseData":{"body":"8080"}}
        ann asks history
            ann < DELIVER d3 @relay -> Ann seq 1 {"body":"history","data":{"messages":[{"attempts":1,"body":"8080","ended":1001000,"failures":0,"from":"Bob","id":"d2","send_id":"answer-b70df1ab-1953-4d92-982c-301a89d20975","seq":1,"state":"acknowledged","to":"Ann"},{"attempts":1,"body":"port?","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"x","seq":1,"state":"acknowledged","to":"Bob"}]},"kind":"response"}
        bob asks history
            bob < DELIVER d4 @relay -> Bob seq 1 {"body":"history","data":{"messages":[{"attempts":1,"body":"8080","ended":1001000,"failures":0,"from":"Bob","id":"d2","send_id":"answer-b70df1ab-1953-4d92-982c-301a89d20975","seq":1,"state":"acknowledged","to":"Ann"},{"attempts":1,"body":"port?","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"x","seq":1,"state":"acknowledged","to":"Bob"}]},"kind":"response"}
        cid asks history
            cid < DELIVER d5 @relay -> Cid seq 1 {"body":"history","data":{"messages":[]},"kind":"response"}
        crash
        here: ann
        ann asks history {"search":"8080"}
            ann < DELIVER d6 @relay -> Ann seq 1024001 {"body":"history","data":{"messages":[{"attempts":1,"body":"8080","ended":1001000,"failures":0,"from":"Bob","id":"d2","send_id":"answer-b70df1ab-1953-4d92-982c-301a89d20975","seq":1,"state":"acknowledged","to":"Ann"}]},"kind":"response"}
        ann asks message {"id":"d2"}
            ann < DELIVER d7 @relay -> Ann seq 1024002 {"body":"message","data":{"messages":[{"attempts":1,"body":"8080","ended":1001000,"failures":0,"from":"Bob","id":"d2","send_id":"answer-b70df1ab-1953-4d92-982c-301a89d20975","seq":1,"state":"acknowledged","to":"Ann"}]},"kind":"response"}
    "#]]);
}

#[test]
fn answer_reaches_who_asked_although_the_store_refuses_it() {
    check(expect![[r#"
        here: ann bob
        ann says SEND to=Bob meta={"sync":{"correlationId":"c"}} {"body":"port?"}
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"port?"}
        disk holds
        bob acks d1 {"correlationId":"c","response":false}
        disk fails
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","response":false}
        ann asks history
        disk finds
            ann < DELIVER d2 @relay -> Ann seq 1 {"body":"history","data":{"messages":[{"attempts":1,"body":"port?","ended":1001000,"failures":0,"from":"Ann","id":"d1","send_id":"x","seq":1,"state":"acknowledged","to":"Bob"}]},"kind":"response"}
    "#]]);
}

#[test]
fn equal_correlation_ids_of_two_senders_stay_apart() {
    check(expect![[r#"
        here: ann bob cid
        ann says SEND to=Bob id=qa meta={"sync":{"correlationId":"c"}} {"body":"Ann asks"}
            ann < ACK {"ack_id":"qa","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"Ann asks"}
        cid says SEND to=Bob id=qc meta={"sync":{"correlationId":"c"}} {"body":"Cid asks"}
            cid < ACK {"ack_id":"qc","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Cid -> Bob seq 1 requires_ack true {"body":"Cid asks"}
        bob acks d2 {"correlationId":"c","responseData":"for Cid"}
            cid < ACK from Bob {"ack_id":"qc","correlationId":"c","responseData":"for Cid"}
        bob acks d1 {"correlationId":"c","responseData":"for Ann"}
            ann < ACK from Bob {"ack_id":"qa","correlationId":"c","responseData":"for Ann"}
    "#]]);
}

#[test]
fn question_times_out_and_its_delivery_stays() {
    check(expect![[r#"
        here: ann bob
        ann says SEND to=Bob meta={"sync":{"correlationId":"c","timeoutMs":500}} {"body":"?"}
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"?"}
        wait 499
        wait 1
            ann < NACK {"ack_id":"x","code":"SYNC_TIMEOUT","correlationId":"c","message":"Bob did not answer within 500 ms","to":"Bob"}
        bob acks d1 {"correlationId":"c","response":true}
        bob goes
        ann says SEND to=Bob id=y meta={"sync":{"correlationId":"c","timeoutMs":500}} {"body":"??"}
            ann < ACK {"ack_id":"y","away":true,"durability":"disk","state":"accepted"}
        wait 500
            ann < NACK {"ack_id":"y","code":"SYNC_TIMEOUT","correlationId":"c","message":"Bob is away and did not answer within 500 ms","to":"Bob"}
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"??"}
    "#]]);
}

#[test]
fn questions_stay_open_when_another_sender_is_forgotten() {
    check(expect![[r#"
        here: ann bob
        gus joins {"mode":"guest"}
            gus < WELCOME {"agent":"@guest-3f55abeb","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        ann says SEND to=Bob id=1 meta={"sync":{"correlationId":"a"}} {"body":"?"}
            ann < ACK {"ack_id":"1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"?"}
        gus says SEND to=Bob id=2 meta={"sync":{"correlationId":"g"}} {"body":"??"}
            gus < ACK {"ack_id":"2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 @guest-3f55abeb -> Bob seq 1 requires_ack true {"body":"??"}
        gus goes
        bob acks d2 {"correlationId":"g"}
        bob acks d1 {"correlationId":"a"}
            ann < ACK from Bob {"ack_id":"1","correlationId":"a"}
    "#]]);
}

#[test]
fn broadcast_question_has_one_answer_per_recipient() {
    check(expect![[r#"
        here: ann bob cid
        ann says SEND to=* meta={"sync":{"correlationId":"c","timeoutMs":500}} {"body":"?"}
            ann < ACK {"ack_id":"x","durability":"disk","recipients":2,"state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 originalTo "*" requires_ack true {"body":"?"}
            cid < DELIVER d2 Ann -> Cid seq 1 originalTo "*" requires_ack true {"body":"?"}
        bob acks d1 {"correlationId":"c","response":true}
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","response":true}
        wait 500
            ann < NACK {"ack_id":"x","code":"SYNC_TIMEOUT","correlationId":"c","message":"Cid did not answer within 500 ms","to":"Cid"}
    "#]]);
}

#[test]
fn failed_delivery_ends_its_question() {
    check(expect![[r#"
        here: ann bob
        ann says SEND to=Bob id=1 meta={"sync":{"correlationId":"c","timeoutMs":900}} {"n":1}
            ann < ACK {"ack_id":"1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"n":1}
        bob nacks d1
            ann < NACK {"ack_id":"1","code":"REFUSED","correlationId":"c","message":"Bob refused it: no","to":"Bob"}
        ann says SEND to=Bob id=2 meta={"ttl_ms":100,"sync":{"correlationId":"d","timeoutMs":900}} {"n":2}
            ann < ACK {"ack_id":"2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"n":2}
        wait 100
            ann < NACK {"ack_id":"2","code":"EXPIRED","correlationId":"d","message":"its time to live ran out","to":"Bob"}
        wait 900
    "#]]);
}

#[test]
fn notices_wait_for_a_sender_that_is_away() {
    check(expect![[r#"
        begin two questions and two messages delivered, sender away
        bob acks d1 {"correlationId":"c","responseData":[1]}
        bob nacks d3
        wait 100
        ann joins {"session":{"resume_token":"ann:1"}}
            ann < WELCOME {"agent":"Ann","session_id":"s2"}
            ann < PING {}
        ann pongs
            ann < ACK from Bob {"ack_id":"1","correlationId":"c","responseData":[1]}
            ann < NACK {"ack_id":"3","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
            ann < NACK {"ack_id":"2","code":"SYNC_TIMEOUT","correlationId":"c","message":"Bob did not answer within 100 ms","to":"Bob"}
            ann < NACK {"ack_id":"4","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
    "#]]);
}

#[test]
fn unwritten_notice_is_sent_on_the_next_connection() {
    check(expect![[r#"
        begin question asked
        ann stalls
        bob acks d1 {"correlationId":"c","responseData":[1]}
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","responseData":[1]}
        ann goes
        ann joins {"session":{"resume_token":"ann:1"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","responseData":[1]}
        ann goes
        ann joins {"session":{"resume_token":"ann:2"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
    "#]]);
}

#[test]
fn fresh_session_gets_no_notices_of_the_older_one() {
    check(expect![[r#"
        begin question asked
        ann goes
        bob acks d1 {"correlationId":"c","responseData":[1]}
        ann joins
            ann < WELCOME {"agent":"Ann"}
    "#]]);
}

#[test]
fn notices_of_a_session_are_bounded() {
    check(expect![[r#"
        limits waiting_answers_bytes_max=500
        begin three messages delivered, sender away
        log shows
        bob nacks d1
        bob nacks d2
        bob nacks d3
            log Ann is away: 1 of the answers that wait for it dropped
        ann joins {"session":{"resume_token":"ann:1"}}
            log Ann (client 3): joined (token)
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            ann < NACK {"ack_id":"a2","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
            ann < NACK {"ack_id":"a3","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
    "#]]);
}

#[test]
fn open_questions_of_a_name_are_bounded() {
    check(expect![[r#"
        limits questions_max=1
        here: ann bob
        ann says SEND to=Bob id=1 meta={"sync":{"correlationId":"c"}} {"n":1}
            ann < ACK {"ack_id":"1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"n":1}
        ann says SEND to=* id=2 meta={"sync":{"correlationId":"c"}} {"n":2}
            ann < NACK {"ack_id":"2","code":"LIMIT","message":"no more than 1 questions of one name may wait for answers","to":"Bob"}
            ann < ACK {"ack_id":"2","durability":"disk","recipients":0,"state":"accepted"}
        ann says SEND to=Bob id=3 meta={"sync":{"correlationId":"c"}} {"n":3}
            ann < NACK {"ack_id":"3","code":"LIMIT","message":"no more than 1 questions of one name may wait for answers"}
        bob acks d1 {"correlationId":"c"}
            ann < ACK from Bob {"ack_id":"1","correlationId":"c"}
        ann says SEND to=Bob id=4 meta={"sync":{"correlationId":"c"}} {"n":4}
            ann < ACK {"ack_id":"4","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"n":4}
    "#]]);
}

#[test]
fn answer_too_large_for_its_asker_is_returned() {
    check(expect![[r#"
        limits frame_bytes_max=700
        begin question asked
        bob acks d1 {"correlationId":"c","responseData":"x*580"}
            bob < NACK {"ack_id":"b70df1ab-55f7-4201-abde-43aaeb8ec471","code":"TOO_LARGE","correlationId":"c","message":"what its asker would get is over max_frame_bytes (700)"}
        bob acks d1 {"correlationId":"c","responseData":"short"}
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","responseData":"short"}
    "#]]);
}

#[test]
fn answer_without_memory_is_returned_and_can_be_retried() {
    check(expect![[r#"
        limits memory_bytes_max=12000
        begin question asked
        bob acks d1
        outside 8000
        bob acks d1 {"correlationId":"c","responseData":"x*2000"}
            bob < NACK {"ack_id":"b70df1ab-55f7-4201-abde-43aaeb8ec471","code":"LIMIT","correlationId":"c","message":"the daemon has no room for the answer now; send it again later"}
        outside 0
        bob acks d1 {"correlationId":"c","responseData":"x*2000"}
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","responseData":"x*2000"}
    "#]]);
}

#[test]
fn question_that_the_store_refuses_is_not_open() {
    check(expect![[r#"
        here: ann bob
        disk holds
        ann says SEND to=Bob meta={"sync":{"correlationId":"c","timeoutMs":100}} {"n":1}
        disk fails
            ann < NACK {"ack_id":"x","code":"STORE_FAILED","message":"the store could not keep the message; send it again later: no space left on device"}
        disk keeps
        wait 100
    "#]]);
}

#[test]
fn question_is_accepted_before_it_times_out() {
    check(expect![[r#"
        here: ann bob
        disk holds
        ann says SEND to=Bob meta={"sync":{"correlationId":"c","timeoutMs":100}} {"n":1}
        wait 200
        disk keeps
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            ann < NACK {"ack_id":"x","code":"SYNC_TIMEOUT","correlationId":"c","message":"Bob did not answer within 100 ms","to":"Bob"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"n":1}
    "#]]);
}

#[test]
fn question_with_open_delivery_survives_a_crash() {
    check(expect![[r#"
        ann joins {"capabilities":{"resume":true}}
            ann < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        ann says SEND to=Bob id=1 meta={"sync":{"correlationId":"c"}} {"n":1}
            ann < ACK {"ack_id":"1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"n":1}
        ann says SEND to=Bob id=2 meta={"sync":{"correlationId":"d","timeoutMs":1000}} {"n":2}
            ann < ACK {"ack_id":"2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"n":2}
        wait 400
        crash
        bob joins
            bob < WELCOME {"agent":"Bob"}
            bob < DELIVER d1 Ann -> Bob seq 1 attempt 2 requires_ack true {"n":1}
            bob < DELIVER d2 Ann -> Bob seq 2 attempt 2 requires_ack true {"n":2}
        bob acks d1 {"correlationId":"c","response":true}
        wait 599
        ann joins {"session":{"resume_token":"ann:1"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            ann < ACK from Bob {"ack_id":"1","correlationId":"c","response":true}
        wait 1
            ann < NACK {"ack_id":"2","code":"SYNC_TIMEOUT","correlationId":"d","message":"Bob did not answer within 1 s","to":"Bob"}
    "#]]);
}

#[test]
fn question_ignores_changes_of_the_wall_clock() {
    check(expect![[r#"
        ann joins {"capabilities":{"resume":true}}
            ann < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        bob joins {"capabilities":{"resume":true}}
            bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        ann says SEND to=Bob meta={"sync":{"correlationId":"c","timeoutMs":1000}} {"n":1}
            ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"n":1}
        wait 400
        bob goes
        crash 31
        ann joins {"session":{"resume_token":"ann:1"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
        wait 599
        wait 1
            ann < NACK {"ack_id":"x","code":"SYNC_TIMEOUT","correlationId":"c","message":"Bob is away and did not answer within 1 s","to":"Bob"}
    "#]]);
}

#[test]
fn forgotten_asker_gets_no_answer() {
    check(expect![[r#"
        here: bob
        guest connects
        guest says HELLO {"mode":"guest"}
            guest < WELCOME {"agent":"@guest-ef842070","capabilities":{"ack":false,"max_inflight":0,"resume":false,"supports_topics":false}}
        guest says SEND to=Bob meta={"sync":{"correlationId":"c","timeoutMs":100}} {"n":1}
            guest < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
            bob < DELIVER d1 @guest-ef842070 -> Bob seq 1 requires_ack true {"n":1}
        guest goes
        bob acks d1 {"correlationId":"c"}
        wait 100
    "#]]);
}

#[test]
fn notices_survive_a_crash() {
    check(expect![[r#"
        begin two questions and two messages delivered, sender away
        disk shows
        bob acks d1 {"correlationId":"c","responseData":[1]}
            keep answer-b70df1ab-55f7-4201-abde-43aaeb8ec471 for Ann, ended
            keep delivery 1: Acknowledged
            keep sync
            keep answer 1 for agent 2
        bob nacks d3
            keep delivery 3: Dead { code: Refused, why: "Bob refused it: no" }
            keep answer 2 for agent 2
        wait 100
            keep answer 3 for agent 2
            keep delivery 4: Dead { code: Expired, why: "its time to live ran out" }
            keep answer 4 for agent 2
        crash
            keep Bob away
            keep session of agent 1 with [] until 601100
        ann joins {"session":{"resume_token":"ann:1"}}
            keep Ann here
            keep session of agent 2 with []
            ann < WELCOME {"agent":"Ann","session_id":"s2"}
            ann < PING {}
        ann pongs
            keep session of agent 2 with []
            ann < ACK from Bob {"ack_id":"1","correlationId":"c","responseData":[1]}
            ann < NACK {"ack_id":"3","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
            ann < NACK {"ack_id":"2","code":"SYNC_TIMEOUT","correlationId":"c","message":"Bob did not answer within 100 ms","to":"Bob"}
            ann < NACK {"ack_id":"4","code":"EXPIRED","message":"its time to live ran out","to":"Bob"}
            keep answer 1 ended
            keep answer 2 ended
            keep answer 3 ended
            keep answer 4 ended
        crash
            keep Ann away
            keep session of agent 2 with [] until 601100
        ann joins {"session":{"resume_token":"ann:2"}}
            keep Ann here
            keep session of agent 2 with []
            ann < WELCOME {"agent":"Ann","session_id":"s2"}
            ann < PING {}
        ann pongs
            keep session of agent 2 with []
    "#]]);
}

#[test]
fn unwritten_notice_survives_a_crash() {
    check(expect![[r#"
        here: ann bob
        ann>> Bob: refused
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"refused"}
        ann goes
        bob nacks d1
        ann connects
        ann stalls
        ann says HELLO {"agent":"Ann","session":{"resume_token":"ann:1"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            ann < NACK {"ack_id":"a1","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
        crash
        ann joins {"session":{"resume_token":"ann:2"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            ann < NACK {"ack_id":"a1","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
        disk shows
        ann goes
            keep session of agent 1 with [] until 601000
            keep Ann away
        ann joins {"session":{"resume_token":"ann:3"}}
            keep Ann here
            keep session of agent 1 with []
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            keep session of agent 1 with []
    "#]]);
}

#[test]
fn notice_of_a_connected_sender_is_stored_until_it_is_written() {
    check(expect![[r#"
        here: ann bob
        disk shows
        ann says SEND to=Bob id=1 meta={"sync":{"correlationId":"c"}} {"n":1}
            keep stream 1→2 "" up to 1024
            keep 1 for [Bob#1 attempts 1], 0 left
            ann < ACK {"ack_id":"1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"n":1}
        bob acks d1 {"correlationId":"c"}
            keep answer-b70df1ab-55f7-4201-abde-43aaeb8ec471 for Ann, ended
            keep delivery 1: Acknowledged
            keep sync
            keep answer 1 for agent 1
            ann < ACK from Bob {"ack_id":"1","correlationId":"c"}
            keep answer 1 ended
        ann>> Bob: refused
            keep a1 for [Bob#2 attempts 1], 0 left
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"refused"}
        bob nacks d2
            keep delivery 3: Dead { code: Refused, why: "Bob refused it: no" }
            keep answer 2 for agent 1
            ann < NACK {"ack_id":"a1","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
            keep answer 2 ended
        ann stalls
        ann>> Bob: refused, and not written
            keep a2 for [Bob#3 attempts 1], 0 left
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"refused, and not written"}
        bob nacks d3
            keep delivery 4: Dead { code: Refused, why: "Bob refused it: no" }
            keep answer 3 for agent 1
            ann < NACK {"ack_id":"a2","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
        ann goes
            keep session of agent 1 with [] until 601000
            keep Ann away
    "#]]);
}

#[test]
fn notices_end_with_their_session() {
    check(expect![[r#"
        here: ann bob
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann goes
        bob nacks d1
        disk shows
        ann joins
            keep Ann here
            keep answer 1 ended
            keep session of agent 1 with []
            ann < WELCOME {"agent":"Ann"}
        ann>> Bob: 2
            keep a2 for [Bob#2 attempts 1], 0 left
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
        ann goes
            keep session of agent 1 with [] until 601000
            keep Ann away
        bob nacks d2
            keep delivery 2: Dead { code: Refused, why: "Bob refused it: no" }
            keep answer 2 for agent 1
        wait 600000
            bob < PING {}
            bob < ERROR {"code":"HEARTBEAT_TIMEOUT","fatal":true,"message":"no frame came for 10 s after a PING"}
            keep session of agent 2 with [] until 616000
            keep Bob away
            bob close Fault(HeartbeatTimeout)
            bob hang up
            keep answer 2 ended
            keep session of agent 1 ended
        crash
    "#]]);
}

#[test]
fn notices_of_a_session_are_bounded_after_a_crash() {
    check(expect![[r#"
        begin three messages delivered, sender away
        bob nacks d1
        bob nacks d2
        bob nacks d3
        disk shows
        log shows
        limits waiting_answers_bytes_max=500
        crash
            keep Bob away
            keep session of agent 2 with [] until 601000
            keep answer 1 ended
            log Ann is away: 1 of the answers that wait for it dropped
        ann joins {"session":{"resume_token":"ann:1"}}
            keep Ann here
            keep session of agent 1 with []
            log Ann (client 1): joined (token)
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            keep session of agent 1 with []
            ann < NACK {"ack_id":"a2","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
            ann < NACK {"ack_id":"a3","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
            keep answer 2 ended
            keep answer 3 ended
    "#]]);
}

#[test]
fn long_notice_does_not_displace_a_short_one_of_another() {
    check(expect![[r#"
        limits waiting_answers_bytes_max=700
        ann joins {"capabilities":{"resume":true}}
            ann < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
        here: bob cid
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        ann>> Cid: 2
            ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
            cid < DELIVER d2 Ann -> Cid seq 1 requires_ack true {"body":"2"}
        ann>> Cid: 3
            ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
            cid < DELIVER d3 Ann -> Cid seq 2 requires_ack true {"body":"3"}
        ann goes
        bob nacks d1
        cid says NACK {"ack_id":"d2","code":"X","message":"x*300"}
        cid says NACK {"ack_id":"d3","code":"X","message":"x*300"}
        ann joins {"session":{"resume_token":"ann:1"},"capabilities":{"resume":true}}
            ann < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true},"session_id":"s1"}
            ann < PING {}
        ann pongs
            ann < NACK {"ack_id":"a1","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
            ann < NACK {"ack_id":"a3","code":"REFUSED","message":"Cid refused it: x*200","to":"Cid"}
    "#]]);
}

#[test]
fn notices_give_way_to_messages_after_a_crash() {
    check(expect![[r#"
        here: ann bob cid
        ann>> Bob: 1
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
        cid>> Bob: 2
            cid < ACK {"ack_id":"c1","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Cid -> Bob seq 1 requires_ack true {"body":"2"}
        ann goes
        cid goes
        bob nacks d1
        bob nacks d2
        disk shows
        log shows
        limits memory_bytes_max=300
        crash
            keep Bob away
            keep session of agent 2 with [] until 601000
            keep answer 2 ended
            log Cid is away: 1 of the answers that wait for it dropped
        ann joins {"session":{"resume_token":"ann:1"}}
            keep Ann here
            keep session of agent 1 with []
            log Ann (client 1): joined (token)
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            keep session of agent 1 with []
            ann < NACK {"ack_id":"a1","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
            keep answer 1 ended
        cid joins {"session":{"resume_token":"cid:1"}}
            keep Cid here
            keep session of agent 3 with []
            log Cid (client 2): joined (token)
            cid < WELCOME {"agent":"Cid","session_id":"s3"}
            cid < PING {}
        cid pongs
            keep session of agent 3 with []
    "#]]);
}

#[test]
fn question_with_acknowledged_delivery_survives_a_crash() {
    check(expect![[r#"
        begin question asked
        disk shows
        bob acks d1
            keep delivery 1: Acknowledged
            keep question x 1→2 until 31000
        crash
            keep Ann away
            keep Bob away
            keep session of agent 1 with [] until 601000
            keep session of agent 2 with [] until 601000
        bob joins
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
        bob acks d1 {"correlationId":"c","response":true}
            keep answer-b70df1ab-55f7-4201-abde-43aaeb8ec471 for Ann, ended
            keep question ended
            keep sync
            keep answer 1 for agent 1
        ann joins {"session":{"resume_token":"ann:1"}}
            keep Ann here
            keep session of agent 1 with []
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            keep session of agent 1 with []
            ann < ACK from Bob {"ack_id":"x","correlationId":"c","response":true}
            keep answer 1 ended
    "#]]);
}

#[test]
fn question_timeout_continues_after_a_crash() {
    check(expect![[r#"
        here: ann bob
        ann says SEND to=Bob id=1 meta={"sync":{"correlationId":"c","timeoutMs":1000}} {"n":1}
            ann < ACK {"ack_id":"1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"n":1}
        disk shows
        bob acks d1
            keep delivery 1: Acknowledged
            keep question 1 1→2 until 2000
        wait 999
        crash
            keep Ann away
            keep Bob away
            keep session of agent 1 with [] until 601999
            keep session of agent 2 with [] until 601999
        wait 1
            keep question ended
            keep answer 1 for agent 1
        ann joins {"session":{"resume_token":"ann:1"}}
            keep Ann here
            keep session of agent 1 with []
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            keep session of agent 1 with []
            ann < NACK {"ack_id":"1","code":"SYNC_TIMEOUT","correlationId":"c","message":"Bob is away and did not answer within 1 s","to":"Bob"}
            keep answer 1 ended
        bob joins
            keep Bob here
            keep session of agent 2 with []
            bob < WELCOME {"agent":"Bob"}
        bob acks d1 {"correlationId":"c"}
    "#]]);
}

#[test]
fn question_times_out_once_over_crashes() {
    check(expect![[r#"
        here: ann bob
        bob goes
        ann says SEND to=Bob id=1 meta={"sync":{"correlationId":"c","timeoutMs":1000}} {"n":1}
            ann < ACK {"ack_id":"1","away":true,"durability":"disk","state":"accepted"}
        wait 1000
            ann < NACK {"ack_id":"1","code":"SYNC_TIMEOUT","correlationId":"c","message":"Bob is away and did not answer within 1 s","to":"Bob"}
        sleep 60001
        ann>> Bob: it is kept that it is later
            ann < ACK {"ack_id":"a1","away":true,"durability":"disk","state":"accepted"}
        crash
        ann joins {"session":{"resume_token":"ann:1"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
        wait 1
        ann says SEND to=Bob id=2 meta={"sync":{"correlationId":"c","timeoutMs":1000}} {"n":2}
            ann < ACK {"ack_id":"2","away":true,"durability":"disk","state":"accepted"}
        crash
        wait 20000
        ann joins {"session":{"resume_token":"ann:2"}}
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            ann < NACK {"ack_id":"2","code":"SYNC_TIMEOUT","correlationId":"c","message":"Bob is away and did not answer within 1 s","to":"Bob"}
    "#]]);
}

#[test]
fn notices_are_stored_again_after_a_loss() {
    check(expect![[r#"
        begin question asked
        ann>> Bob: refused
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"refused"}
        bob acks d1
        ann goes
        bob nacks d2
        disk shows
        disk loses
            keep Ann away
            keep session of agent 1 with [] until 601000
            keep Bob here
            keep session of agent 2 with []
            keep stream 1→2 "" up to 1024
            keep answer 1 for agent 1
            keep question x 1→2 until 31000
    "#]]);
}

#[test]
fn clean_stop_keeps_unwritten_notices() {
    check(expect![[r#"
        here: ann bob
        ann>> Bob: refused
            ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
            bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"refused"}
        ann stalls
        bob nacks d1
            ann < NACK {"ack_id":"a1","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
        disk shows
        stop upgrade
            ann < BYE {"reason":"upgrade"}
            keep session of agent 1 with [] until 601000
            keep Ann away
            ann close Stopping
            bob < BYE {"reason":"upgrade"}
            keep session of agent 2 with [] until 601000
            keep Bob away
            bob close Stopping
        bob goes
        wait 1000
            ann hang up
            keep stream 1→2 "" up to 1
            stopped
        crash
        ann joins {"session":{"resume_token":"ann:1"}}
            keep Ann here
            keep session of agent 1 with []
            ann < WELCOME {"agent":"Ann","session_id":"s1"}
            ann < PING {}
        ann pongs
            keep session of agent 1 with []
            ann < NACK {"ack_id":"a1","code":"REFUSED","message":"Bob refused it: no","to":"Bob"}
            keep answer 1 ended
    "#]]);
}
