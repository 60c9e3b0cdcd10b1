//! Tests of the border. A script has an input on each line; indented lines are outputs.

use super::*;
use expect_test::{Expect, expect};
use protocol::{envelope::Envelope, topic::Pattern};
use std::fmt::Write as _;

/// The border of a machine that exports Ann and Al to the machines pi and mac. pi exports Bob and
/// Bea, and mac exports Bob. No messages to everyone or on topics cross at first.
struct World {
    border: Border,
    now: Now,
    transcript: String,
}

impl World {
    fn new() -> Self {
        let name = |text: &str| Name::parse(text).unwrap();
        let border = Border::new([name("Ann"), name("Al")], Topics::default(), 600_000);
        let mut world = Self { border, now: Now::default(), transcript: String::new() };
        for (host, agents) in [("pi", &["Bob", "Bea"][..]), ("mac", &["Bob"])] {
            let agents = agents.iter().map(|text| name(text)).chain([Name::all()]).collect();
            world.input(Input::Present(Host::parse(host).unwrap(), agents));
        }
        world
    }

    fn input(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.border.handle(self.now, input, &mut out);
        for output in out {
            writeln!(self.transcript, "    {}", shown(output)).unwrap();
        }
    }

    /// Runs a line: a word, the machine, and the word's arguments.
    fn line(&mut self, line: &str) {
        writeln!(self.transcript, "{line}").unwrap();
        let mut words = line.splitn(3, ' ');
        let (word, host) = (words.next().unwrap(), words.next().unwrap_or_default());
        let rest = words.next().unwrap_or_default();
        if word == "wait" {
            self.now.monotonic = self.now.monotonic.plus(host.parse().unwrap());
            return self.input(Input::Tick);
        }
        let host = &Host::parse(host).unwrap();
        let (agent, json) = rest.split_once(' ').unwrap_or((rest, ""));
        let topic = agent;
        let agent = || recipient(agent).unwrap();
        let id = || SendId(json.to_owned());
        match word {
            // delivered HOST RECIPIENT SENDER ID META
            "delivered" => {
                let delivery = delivery(host, &agent(), json);
                self.input(Input::Delivered(host, agent(), Box::new(delivery)));
            }
            // copied HOST TOPIC SENDER ID META: a message to everyone, on a topic unless that is -
            "copied" => {
                let mut delivery = delivery(host, &Name::all(), json);
                delivery.topic = Some(topic.to_owned()).filter(|topic| topic != "-");
                delivery.original_to = Some("*".to_owned());
                self.input(Input::Delivered(host, Name::all(), Box::new(delivery)));
            }
            // topics pi PATTERNS, where * is for messages to everyone without a topic
            "topics" => {
                let (all, patterns) = rest.split(' ').partition::<Vec<_>, _>(|text| *text == "*");
                let patterns = patterns.into_iter().map(|text| Pattern::parse(text).unwrap());
                let (patterns, broadcasts) = (patterns.collect(), !all.is_empty());
                self.border.topics = Topics { patterns, broadcasts };
            }
            "accepted" => self.input(Input::Accepted(host, agent(), id())),
            "refused" => {
                let nack = serde_json::from_str(json).unwrap();
                self.input(Input::Refused(host, agent(), nack));
            }
            "answered" => {
                let answer = Answer { from: "Ann".to_owned(), response: Some(true), data: None };
                self.input(Input::Answered(host, agent(), id(), "c".to_owned(), answer));
            }
            "carried" => self.input(Input::Carried(host, rest.to_owned())),
            "lost" => self.input(Input::NotCarried(host, rest.to_owned(), "too long".to_owned())),
            "frame" => {
                let ticket = self.transcript.lines().count() as u64;
                self.input(Input::Frame(host, rest.as_bytes(), ticket));
            }
            // joined HOST AGENTS
            "joined" => {
                let agents = rest.split(' ').map(|text| recipient(text).unwrap()).collect();
                self.input(Input::Present(host.clone(), agents));
            }
            // exports pi AGENTS
            "exports" => {
                let agents = rest.split(' ').map(|text| Name::parse(text).unwrap()).collect();
                self.input(Input::Exports(agents));
            }
            "absent" => self.input(Input::Absent(host.clone())),
            _ => panic!("{line}"),
        }
    }
}

fn delivery(host: &Host, to: &Name, rest: &str) -> Delivery {
    let mut words = rest.splitn(3, ' ');
    let (from, id) = (words.next().unwrap(), words.next().unwrap());
    let meta = words.next().unwrap_or("{}");
    let ack = meta.contains("true");
    let json = format!(
        r#"{{"v":1,"type":"DELIVER","id":"{id}","ts":1,"from":"{from}","to":"{}","payload":{{"b": 1.0 }},"payload_meta":{meta},"delivery":{{"seq":1,"session_id":"s","requires_ack":{ack}}}}}"#,
        to.at(host)
    );
    Delivery::read(&Envelope::read(json.as_bytes()).unwrap()).unwrap()
}

fn shown(output: Output) -> String {
    let text = |frame: Vec<u8>| String::from_utf8(frame).unwrap();
    match output {
        Output::Forward(host, name, message) => {
            let Forwarded { id, to, topic, payload, meta, at_least_once } = message;
            let (topic, meta) = (topic.unwrap_or_default(), meta.unwrap_or_default());
            format!("{} sends {id} to {to} {topic}{payload} {meta} {at_least_once}", name.at(&host))
        }
        Output::Acknowledge(host, name, id) => format!("{} acknowledges {id}", name.at(&host)),
        Output::Return(host, name, id, why) => format!("{} returns {id}: {why}", name.at(&host)),
        Output::Answer(host, name, reply) => {
            let (id, question) = (reply.delivery_id, reply.sync.correlation_id);
            format!("{} answers {id} {question}: {:?}", name.at(&host), reply.response)
        }
        Output::Notify(host, name, message) => {
            let to = message.to.unwrap_or_default();
            format!("{} notifies {to}: {}", name.at(&host), message.body)
        }
        Output::Carry(carry) => format!("to {}: {}", carry.host, text(carry.frame)),
        Output::Settled(host, _, outcome) => format!("{host} settled {outcome:?}"),
        Output::Log(line) => format!("log: {line}"),
    }
}

#[track_caller]
fn check(expect: Expect) {
    let mut world = World::new();
    let lines = expect.data().lines();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let least = lines.clone().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap();
    for line in lines.filter(|line| !line.trim().is_empty() && indent(line) == least) {
        world.line(line.trim());
    }
    expect.assert_eq(&world.transcript);
}

#[test]
fn delivery_is_carried_byte_for_byte_and_acknowledged_once_accepted() {
    check(expect![[r#"
        delivered pi Bob Ann d-1 {"requires_ack":true , "ttl_ms":5}
            to pi: {"v":1,"type":"SEND","id":"d-1","ts":0,"from":"Ann","to":"Bob","payload":{"b": 1.0 },"payload_meta":{"requires_ack":true , "ttl_ms":5}}
        carried pi d-1
            Bob@pi acknowledges d-1
        carried pi d-1
        delivered pi bob ann d-2 {}
            to pi: {"v":1,"type":"SEND","id":"d-2","ts":0,"from":"ann","to":"bob","payload":{"b": 1.0 },"payload_meta":{}}
        carried pi d-2
    "#]]);
}

#[test]
fn agents_that_are_not_exported_send_nothing() {
    check(expect![[r#"
        delivered pi Bob Zoe d-1 {"requires_ack":true}
            Bob@pi returns d-1: Zoe is not exported to pi: only Al, Ann
        delivered pi Bob @operator d-2 {"requires_ack":true}
            Bob@pi returns d-2: @operator is not exported to pi: only Al, Ann
        delivered pi Bob Bob@mac d-3 {"requires_ack":true}
            Bob@pi returns d-3: Bob@mac is not exported to pi: only Al, Ann
        delivered pi Bob Zoe d-4 {}
            log: a message to Bob@pi is dropped: Zoe is not exported to pi: only Al, Ann
    "#]]);
}

#[test]
fn message_that_cannot_be_carried_is_returned() {
    check(expect![[r#"
        delivered pi Bob Ann d-1 {"requires_ack":true}
            to pi: {"v":1,"type":"SEND","id":"d-1","ts":0,"from":"Ann","to":"Bob","payload":{"b": 1.0 },"payload_meta":{"requires_ack":true}}
        lost pi d-1
            Bob@pi returns d-1: too long
        delivered pi Bob Ann d-2 {}
            to pi: {"v":1,"type":"SEND","id":"d-2","ts":0,"from":"Ann","to":"Bob","payload":{"b": 1.0 },"payload_meta":{}}
        lost pi d-2
            log: d-2 for pi is dropped: too long
    "#]]);
}

#[test]
fn message_of_another_machine_is_settled_once_accepted() {
    check(expect![[r#"
        frame pi {"v":1,"type":"SEND","id":"x-1","ts":1,"from":"Bob","to":"Ann","topic":"t","payload":{"b": 1.0 },"payload_meta":{"requires_ack":true}}
            Bob@pi sends x-1 to Ann t{"b": 1.0 } {"requires_ack":true} true
        frame pi {"v":1,"type":"SEND","id":"x-2","ts":1,"from":"Bob","to":"Ann","payload":{},"payload_meta":{"requires_ack":true}}
        frame pi {"v":1,"type":"SEND","id":"x-3","ts":1,"from":"Bob","to":"Ann","payload":{}}
        frame pi {"v":1,"type":"SEND","id":"x-4","ts":1,"from":"Bob","to":"Al","payload":{}}
            Bob@pi sends x-4 to Al {}  false
            pi settled Accepted("x-4")
        accepted pi Bob x-1
            pi settled Accepted("x-1")
            Bob@pi sends x-2 to Ann {} {"requires_ack":true} true
        accepted pi Bob x-2
            pi settled Accepted("x-2")
            Bob@pi sends x-3 to Ann {}  false
            pi settled Accepted("x-3")
        accepted pi Bob x-2
    "#]]);
}

#[test]
fn refusal_that_may_pass_keeps_the_order() {
    check(expect![[r#"
        frame pi {"v":1,"type":"SEND","id":"x-1","ts":1,"from":"Bob","to":"Ann","payload":{},"payload_meta":{"requires_ack":true}}
            Bob@pi sends x-1 to Ann {} {"requires_ack":true} true
        frame pi {"v":1,"type":"SEND","id":"x-2","ts":1,"from":"Bob","to":"Ann","payload":{},"payload_meta":{"requires_ack":true}}
        refused pi Bob {"ack_id":"x-1","code":"STORE_FAILED","message":"the disk is full"}
        wait 999
        wait 1
            Bob@pi sends x-1 to Ann {} {"requires_ack":true} true
        refused pi Bob {"ack_id":"x-1","code":"LIMIT","message":"too often"}
        wait 1999
        wait 1
            Bob@pi sends x-1 to Ann {} {"requires_ack":true} true
        accepted pi Bob x-1
            pi settled Accepted("x-1")
            Bob@pi sends x-2 to Ann {} {"requires_ack":true} true
        refused pi Bob {"ack_id":"x-2","code":"FORBIDDEN","message":"policy"}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-2","ts":0,"from":"Ann","to":"Bob","payload":{"ack_id":"x-2","code":"FORBIDDEN","message":"policy"}}
            pi settled Refused
    "#]]);
}

#[test]
fn later_failure_is_carried_back_and_told_to_the_sender() {
    check(expect![[r#"
        frame pi {"v":1,"type":"SEND","id":"x-1","ts":1,"from":"Bob","to":"Ann","payload":{},"payload_meta":{"requires_ack":true}}
            Bob@pi sends x-1 to Ann {} {"requires_ack":true} true
        accepted pi Bob x-1
            pi settled Accepted("x-1")
        refused pi Bob {"ack_id":"x-1","code":"EXPIRED","message":"its time to live ran out","to":"Ann"}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-1","ts":0,"from":"Ann","to":"Bob","payload":{"ack_id":"x-1","code":"EXPIRED","message":"its time to live ran out"}}
        refused pi Bob {"ack_id":"x-1","code":"SYNC_TIMEOUT","message":"no answer","to":"Ann"}
        refused pi Bob {"ack_id":"x-1","code":"INVALID","message":"of nobody"}
            log: Bob@pi: of nobody (INVALID)
        delivered pi Bob Ann d-1 {"requires_ack":true}
            to pi: {"v":1,"type":"SEND","id":"d-1","ts":0,"from":"Ann","to":"Bob","payload":{"b": 1.0 },"payload_meta":{"requires_ack":true}}
        frame pi {"v":1,"type":"NACK","id":"r-1","ts":1,"from":"Bob","to":"Ann","payload":{"ack_id":"d-1","code":"UNKNOWN_AGENT","message":"no Bob here"}}
            Bob@pi returns d-1: no Bob here (UNKNOWN_AGENT)
            pi settled Dropped
        frame pi {"v":1,"type":"NACK","id":"r-1","ts":1,"from":"Bob","to":"Ann","payload":{"ack_id":"d-1","code":"EXPIRED","message":"too late"}}
            Bob@pi notifies Ann: your message to Bob@pi was not delivered: too late (EXPIRED)
            pi settled Dropped
    "#]]);
}

#[test]
fn answers_cross_in_both_directions() {
    check(expect![[r#"
        answered pi Bob x-1
            to pi: {"v":1,"type":"ACK","id":"answer-x-1","ts":0,"from":"Ann","to":"Bob","payload":{"ack_id":"x-1","correlationId":"c","response":true}}
        frame pi {"v":1,"type":"ACK","id":"answer-d-1","ts":1,"from":"Bea","to":"Ann","payload":{"ack_id":"d-1","correlationId":"c-1","response":false}}
            Bea@pi answers d-1 c-1: Some(false)
            pi settled Dropped
        frame pi {"v":1,"type":"ACK","id":"answer-d-1","ts":1,"from":"Bea","to":"Ann","payload":{"ack_id":"d-1"}}
            log: a frame of pi is dropped: it has no `correlationId`
            pi settled Dropped
    "#]]);
}

#[test]
fn machine_cannot_speak_for_others_or_reach_them() {
    check(expect![[r#"
        frame pi {"v":1,"type":"SEND","id":"x-1","ts":1,"from":"Eve","to":"Ann","payload":{}}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-1","ts":0,"from":"Ann","to":"Eve","payload":{"ack_id":"x-1","code":"FORBIDDEN","message":"no Eve@pi has joined here"}}
            pi settled Refused
        frame mac {"v":1,"type":"SEND","id":"x-1","ts":1,"from":"Bea","to":"Ann","payload":{}}
            to mac: {"v":1,"type":"NACK","id":"refusal-x-1","ts":0,"from":"Ann","to":"Bea","payload":{"ack_id":"x-1","code":"FORBIDDEN","message":"no Bea@mac has joined here"}}
            mac settled Refused
        frame pi {"v":1,"type":"SEND","id":"x-2","ts":1,"from":"Bob","to":"Zoe","payload":{}}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-2","ts":0,"from":"Zoe","to":"Bob","payload":{"ack_id":"x-2","code":"FORBIDDEN","message":"Zoe is not exported to pi"}}
            pi settled Refused
        frame pi {"v":1,"type":"SEND","id":"x-3","ts":1,"from":"Ann","to":"Al","payload":{}}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-3","ts":0,"from":"Al","to":"Ann","payload":{"ack_id":"x-3","code":"FORBIDDEN","message":"no Ann@pi has joined here"}}
            pi settled Refused
        frame pi {"v":1,"type":"SEND","id":"x-4","ts":1,"from":"Bob@pi","to":"Ann","payload":{}}
            log: a frame of pi is dropped: `from` "Bob@pi": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'
            pi settled Dropped
        frame pi {"v":1,"type":"SEND","id":"x-5","ts":1,"from":"@operator","to":"Ann","payload":{}}
            log: a frame of pi is dropped: `from` "@operator": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'
            pi settled Dropped
        frame pi {"v":1,"type":"SEND","id":"x-6","ts":1,"from":"Bob","to":"*","payload":{}}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-6","ts":0,"from":"*","to":"Bob","payload":{"ack_id":"x-6","code":"FORBIDDEN","message":"messages to all of pi are not taken here"}}
            pi settled Refused
        frame pi {"v":1,"type":"SEND","id":"x-7","ts":1,"from":"Bob","to":"@relay","payload":{}}
            log: a frame of pi is dropped: `to` "@relay": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'
            pi settled Dropped
        frame pi {"v":1,"type":"SEND","id":"x-8","ts":1,"from":"Bob","topic":"t","payload":{}}
            log: a frame of pi is dropped: it has no `to`
            pi settled Dropped
        frame pi {"v":1,"type":"SEND","id":"x-9","ts":1,"from":"Bob","to":"Ann","payload":{},"payload_meta":{"ttl_ms":"x"}}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-9","ts":0,"from":"Ann","to":"Bob","payload":{"ack_id":"x-9","code":"INVALID","message":"SEND: `ttl_ms` is not a whole number from 0 to 18446744073709551615, in digits"}}
            pi settled Refused
        frame pi {"v":1,"type":"ACK","id":"x","ts":1,"from":"Eve","to":"Ann","payload":{"ack_id":"d-1","correlationId":"c-1"}}
            log: a frame of pi is dropped: Eve of pi and Ann are not both exported
            pi settled Dropped
        frame pi {"v":1,"type":"NACK","id":"x","ts":1,"from":"Bob","to":"Zoe","payload":{"ack_id":"d-1","code":"EXPIRED"}}
            log: a frame of pi is dropped: Bob of pi and Zoe are not both exported
            pi settled Dropped
        frame pi {"v":1,"type":"SUBSCRIBE","id":"x","ts":1,"from":"Bob","to":"Ann","topic":">","payload":{}}
            log: a frame of pi is dropped: SUBSCRIBE does not cross a border
            pi settled Dropped
        frame pi {"v":1,"type":"SEND","id":"x-10","ts":1,"from":"Bob","to":"Ann"
            log: a frame of pi is dropped: BAD_FRAME: the frame is not JSON: a comma or the object's end expected at byte 63
            pi settled Dropped
        frame new {"v":1,"type":"SEND","id":"x-1","ts":1,"from":"Bob","to":"Ann","payload":{}}
            to new: {"v":1,"type":"NACK","id":"refusal-x-1","ts":0,"from":"Ann","to":"Bob","payload":{"ack_id":"x-1","code":"FORBIDDEN","message":"no Bob@new has joined here"}}
            new settled Refused
    "#]]);
}

#[test]
fn messages_to_everyone_and_on_topics_leave_as_far_as_this_side_lets_them() {
    check(expect![[r#"
        copied pi build.ok Ann d-1 {"requires_ack":true}
            all@pi acknowledges d-1
        delivered pi * Ann d-2 {"requires_ack":true}
            all@pi returns d-2: messages to all do not cross to pi
        topics pi build.> *
        copied pi build.ok Ann d-3 {"requires_ack":true}
            to pi: {"v":1,"type":"SEND","id":"d-3","ts":0,"from":"Ann","to":"*","topic":"build.ok","payload":{"b": 1.0 },"payload_meta":{"requires_ack":true}}
        carried pi d-3
            all@pi acknowledges d-3
        copied pi - Ann d-4 {}
            to pi: {"v":1,"type":"SEND","id":"d-4","ts":0,"from":"Ann","to":"*","payload":{"b": 1.0 },"payload_meta":{}}
        copied pi chess Ann d-5 {"requires_ack":true}
            all@pi acknowledges d-5
        copied pi chess Ann d-6 {}
        copied pi build.ok Zoe d-7 {"requires_ack":true}
            all@pi acknowledges d-7
        copied pi build.ok Bob@mac d-8 {"requires_ack":true}
            all@pi acknowledges d-8
        delivered pi * Ann d-9 {"requires_ack":true}
            to pi: {"v":1,"type":"SEND","id":"d-9","ts":0,"from":"Ann","to":"*","payload":{"b": 1.0 },"payload_meta":{"requires_ack":true}}
        frame pi {"v":1,"type":"NACK","id":"r","ts":1,"from":"*","to":"Ann","payload":{"ack_id":"d-9","code":"INVALID","message":"no"}}
            all@pi returns d-9: no (INVALID)
            pi settled Dropped
        delivered pi * Zoe d-10 {"requires_ack":true}
            all@pi returns d-10: Zoe is not exported to pi: only Al, Ann
        copied new build.ok Ann d-11 {"requires_ack":true}
    "#]]);
}

#[test]
fn messages_to_everyone_and_on_topics_are_taken_as_far_as_this_side_lets_them() {
    check(expect![[r#"
        topics pi build.>
        frame pi {"v":1,"type":"SEND","id":"x-1","ts":1,"from":"Bob","to":"*","topic":"build.ok","payload":{},"payload_meta":{"requires_ack":true}}
            Bob@pi sends all-x-1 to * build.ok{} {"requires_ack":true} true
        frame pi {"v":1,"type":"SEND","id":"x-2","ts":1,"from":"Bob","to":"*","topic":"build.ok","payload":{},"payload_meta":{"requires_ack":true}}
        frame pi {"v":1,"type":"SEND","id":"x-3","ts":1,"from":"Bob","to":"Ann","payload":{}}
            Bob@pi sends x-3 to Ann {}  false
            pi settled Accepted("x-3")
        frame pi {"v":1,"type":"SEND","id":"x-1","ts":1,"from":"Bob","to":"*","topic":"build.ok","payload":{},"payload_meta":{"requires_ack":true}}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-1","ts":0,"from":"*","to":"Bob","payload":{"ack_id":"x-1","code":"INVALID","message":"an earlier message of this id is not answered yet"}}
            pi settled Refused
        refused pi Bob {"ack_id":"all-x-1","code":"LIMIT","message":"too much","to":"*"}
        wait 1000
            Bob@pi sends all-x-1 to * build.ok{} {"requires_ack":true} true
        refused pi Bob {"ack_id":"all-x-1","code":"LIMIT","message":"Zoe takes no messages","to":"Zoe"}
            log: Zoe does not get a message of Bob@pi to all: Zoe takes no messages (LIMIT)
        accepted pi Bob all-x-1
            pi settled Accepted("x-1")
            Bob@pi sends all-x-2 to * build.ok{} {"requires_ack":true} true
        refused pi Bob {"ack_id":"all-x-1","code":"EXPIRED","message":"its time to live ran out","to":"Al"}
            log: Al does not get a message of Bob@pi to all: its time to live ran out (EXPIRED)
        refused pi Bob {"ack_id":"all-x-2","code":"FORBIDDEN","message":"policy"}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-2","ts":0,"from":"*","to":"Bob","payload":{"ack_id":"x-2","code":"FORBIDDEN","message":"policy"}}
            pi settled Refused
        frame pi {"v":1,"type":"SEND","id":"x-4","ts":1,"from":"Bob","to":"*","topic":"chess","payload":{}}
            pi settled Accepted("x-4")
        frame pi {"v":1,"type":"SEND","id":"x-5","ts":1,"from":"Bob","to":"*","payload":{},"payload_meta":{"requires_ack":true}}
            pi settled Accepted("x-5")
        frame pi {"v":1,"type":"SEND","id":"x-6","ts":1,"from":"Bob","to":"*","topic":"build.ok","payload":{},"payload_meta":{"sync":{"correlationId":"c"}}}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-6","ts":0,"from":"*","to":"Bob","payload":{"ack_id":"x-6","code":"INVALID","message":"questions to all do not cross to another machine"}}
            pi settled Refused
        frame pi {"v":1,"type":"SEND","id":"x-7","ts":1,"from":"Eve","to":"*","topic":"build.ok","payload":{}}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-7","ts":0,"from":"*","to":"Eve","payload":{"ack_id":"x-7","code":"FORBIDDEN","message":"no Eve@pi has joined here"}}
            pi settled Refused
        frame pi {"v":1,"type":"SEND","id":"x-8","ts":1,"from":"*","to":"*","topic":"build.ok","payload":{}}
            log: a frame of pi is dropped: `from` "*": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'
            pi settled Dropped
        frame pi {"v":1,"type":"ACK","id":"x","ts":1,"from":"*","to":"Ann","payload":{"ack_id":"d-1","correlationId":"c-1"}}
            log: a frame of pi is dropped: `from` "*": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'
            pi settled Dropped
        frame pi {"v":1,"type":"NACK","id":"x","ts":1,"from":"Bob","to":"*","payload":{"ack_id":"d-1","code":"EXPIRED"}}
            log: a frame of pi is dropped: `to` "*": a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'
            pi settled Dropped
        frame pi {"v":1,"type":"SEND","id":"all-x","ts":1,"from":"Bob","to":"Ann","payload":{},"payload_meta":{"requires_ack":true}}
            Bob@pi sends all-x to Ann {} {"requires_ack":true} true
        refused pi Bob {"ack_id":"all-x","code":"LIMIT","message":"full","to":"Ann"}
    "#]]);
}

#[test]
fn agents_that_are_exported_no_longer_are_not_reached() {
    check(expect![[r#"
        exports pi Ann Zoe
        frame pi {"v":1,"type":"SEND","id":"x-1","ts":1,"from":"Bob","to":"Zoe","payload":{}}
            Bob@pi sends x-1 to Zoe {}  false
            pi settled Accepted("x-1")
        frame pi {"v":1,"type":"SEND","id":"x-2","ts":1,"from":"Bob","to":"Al","payload":{}}
            to pi: {"v":1,"type":"NACK","id":"refusal-x-2","ts":0,"from":"Al","to":"Bob","payload":{"ack_id":"x-2","code":"FORBIDDEN","message":"Al is not exported to pi"}}
            pi settled Refused
        delivered pi Bob Al d-1 {"requires_ack":true}
            Bob@pi returns d-1: Al is not exported to pi: only Ann, Zoe
    "#]]);
}

#[test]
fn messages_of_an_agent_that_has_left_are_refused() {
    check(expect![[r#"
        frame pi {"v":1,"type":"SEND","id":"x-1","ts":1,"from":"Bob","to":"Ann","payload":{},"payload_meta":{"requires_ack":true}}
            Bob@pi sends x-1 to Ann {} {"requires_ack":true} true
        frame pi {"v":1,"type":"SEND","id":"x-2","ts":1,"from":"Bea","to":"Ann","payload":{},"payload_meta":{"requires_ack":true}}
            Bea@pi sends x-2 to Ann {} {"requires_ack":true} true
        joined pi Bea
            to pi: {"v":1,"type":"NACK","id":"refusal-x-1","ts":0,"from":"Ann","to":"Bob","payload":{"ack_id":"x-1","code":"FORBIDDEN","message":"no Bob@pi has joined here any more"}}
            pi settled Refused
        accepted pi Bob x-1
        accepted pi Bea x-2
            pi settled Accepted("x-2")
    "#]]);
}

#[test]
fn machine_that_left_has_nothing_on_its_way() {
    check(expect![[r#"
        delivered pi Bob Ann d-1 {"requires_ack":true}
            to pi: {"v":1,"type":"SEND","id":"d-1","ts":0,"from":"Ann","to":"Bob","payload":{"b": 1.0 },"payload_meta":{"requires_ack":true}}
        frame pi {"v":1,"type":"SEND","id":"x-1","ts":1,"from":"Bob","to":"Ann","payload":{},"payload_meta":{"requires_ack":true}}
            Bob@pi sends x-1 to Ann {} {"requires_ack":true} true
        absent pi
        carried pi d-1
        accepted pi Bob x-1
        delivered pi Bob Ann d-1 {"requires_ack":true}
    "#]]);
}
