//! Beginnings of scripts: states that several tests start from, each with the transcript that leads
//! to it. A script names one with `begin STATE`.

pub(super) const BEGINNINGS: &[(&str, &str)] = &[
    (
        "question asked",
        r#"here: ann bob
ann says SEND to=Bob meta={"sync":{"correlationId":"c"}} {"n":1}
    ann < ACK {"ack_id":"x","durability":"disk","state":"accepted"}
    bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"n":1}
"#,
    ),
    (
        "three messages delivered, sender away",
        r#"here: ann bob
ann>> Bob: 1
    ann < ACK {"ack_id":"a1","durability":"disk","state":"accepted"}
    bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"body":"1"}
ann>> Bob: 2
    ann < ACK {"ack_id":"a2","durability":"disk","state":"accepted"}
    bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"body":"2"}
ann>> Bob: 3
    ann < ACK {"ack_id":"a3","durability":"disk","state":"accepted"}
    bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"body":"3"}
ann goes
"#,
    ),
    (
        "two questions and two messages delivered, sender away",
        r#"here: bob
ann joins {"capabilities":{"resume":true}}
    ann < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":256,"resume":true,"supports_topics":true}}
ann says SEND to=Bob id=1 meta={"sync":{"correlationId":"c"}} {"n":1}
    ann < ACK {"ack_id":"1","durability":"disk","state":"accepted"}
    bob < DELIVER d1 Ann -> Bob seq 1 requires_ack true {"n":1}
ann says SEND to=Bob id=2 meta={"sync":{"correlationId":"c","timeoutMs":100}} {"n":2}
    ann < ACK {"ack_id":"2","durability":"disk","state":"accepted"}
    bob < DELIVER d2 Ann -> Bob seq 2 requires_ack true {"n":2}
ann says SEND to=Bob id=3 meta={"requires_ack":true} {"n":3}
    ann < ACK {"ack_id":"3","durability":"disk","state":"accepted"}
    bob < DELIVER d3 Ann -> Bob seq 3 requires_ack true {"n":3}
ann says SEND to=Bob id=4 meta={"requires_ack":true,"ttl_ms":100} {"n":4}
    ann < ACK {"ack_id":"4","durability":"disk","state":"accepted"}
    bob < DELIVER d4 Ann -> Bob seq 4 requires_ack true {"n":4}
ann goes
"#,
    ),
    (
        "message pending",
        r#"here: ann bob
ann> Bob: the stream is open
    bob < DELIVER d1 Ann -> Bob seq 1 {"body":"the stream is open"}
disk holds
ann>> Bob: kept
"#,
    ),
    (
        "failed message resent",
        r#"begin message pending
bob says SUBSCRIBE topic=t {}
ann again
disk fails 1
    ann < NACK {"ack_id":"a2","code":"STORE_FAILED","message":"the store could not keep the message; send it again later: no space left on device"}
ann again
disk keeps 1
    bob < ACK {"ack_id":"x"}
"#,
    ),
    (
        "broadcast pending",
        r#"limits queue_messages_max=2
here: ann bob cid
cid stalls
ann> Cid: fills the half
    cid < DELIVER d1 Ann -> Cid seq 1 {"body":"fills the half"}
disk holds
ann>> *: all
    ann < BUSY {"ack_id":"a2","busy":["Cid"],"queue_depth":1,"retry_after_ms":50}
cid reads
ann again
    ann < BUSY {"ack_id":"a2","busy":["Cid"],"queue_depth":0,"retry_after_ms":50}
"#,
    ),
];
