//! Transcript tests of the session: inputs at the left margin, the session's outputs indented
//! below.

use super::*;
use crate::{client::message::Outgoing, protocol::payload::Meta};
use expect_test::{Expect, expect};
use std::fmt::Write;

mod asking;
mod resume;

const WELCOME: &str = r#"{"v":1,"type":"WELCOME","id":"w","ts":1,"payload":{"session_id":"s-1","resume_token":"t-1","agent":"Ann","server":{"max_frame_bytes":400,"heartbeat_ms":5000}}}"#;

/// A WELCOME of a daemon that grants `resume`.
fn resumable_welcome(session: &str, token: &str, frame_bytes_max: usize) -> String {
    format!(
        r#"{{"v":1,"type":"WELCOME","id":"w","ts":1,"payload":{{"session_id":"{session}","resume_token":"{token}","agent":"Ann","capabilities":{{"resume":true}},"server":{{"max_frame_bytes":{frame_bytes_max},"heartbeat_ms":5000}}}}}}"#
    )
}

/// A session, its clock, and the transcript.
struct Script {
    session: Session,
    now: Now,
    /// Ids that the session made, in order of appearance.
    ids: Vec<String>,
    /// The number of envelopes from the daemon, and the last one.
    envelopes: u64,
    last: String,
    text: String,
}

impl Script {
    fn new(first_attempts: u32, retry_cycle_after_ms: Option<u64>) -> Self {
        Self::of(Identity { first_attempts, retry_cycle_after_ms, ..Self::identity() })
    }

    fn identity() -> Identity {
        Identity {
            agent: Some("Ann".to_owned()),
            mode: None,
            capabilities: Capabilities { resume: true, ..Capabilities::default() },
            key: None,
            companion_key: None,
            first_attempts: 1,
            retry_cycle_after_ms: None,
            local: false,
            seed: [3; 32],
        }
    }

    fn of(identity: Identity) -> Self {
        let session = Session::new(identity);
        let (now, ids) = (Now::default(), Vec::new());
        Self { session, now, ids, envelopes: 0, last: String::new(), text: String::new() }
    }

    fn joined() -> Self {
        let mut script = Self::new(1, None);
        script.run("start\nconnected");
        script.say(WELCOME);
        script.text.clear();
        script
    }

    fn input(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.session.handle(self.now, input, &mut out);
        for output in out {
            let line = self.render(output);
            writeln!(self.text, "  {line}").unwrap();
        }
    }

    fn say(&mut self, json: &str) {
        self.input(Input::Frame(json.as_bytes()));
    }

    /// Runs a script of one input a line.
    fn run(&mut self, lines: &str) {
        for line in lines.lines() {
            writeln!(self.text, "{line}").unwrap();
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["start"] => self.input(Input::Start),
                ["connected"] => self.input(Input::Connected),
                ["not-connected"] => {
                    self.input(Input::NotConnected { why: "nobody there".to_owned(), absent: true })
                }
                ["gone"] => self.input(Input::Disconnected("the stream ended".to_owned())),
                ["close"] => self.input(Input::Close),
                ["welcome"] => self.say(WELCOME),
                ["wait"] => {
                    let deadline = self.session.deadline().expect("something waits");
                    assert!(deadline > self.now.monotonic, "no deadline is in the past");
                    self.now.monotonic = deadline;
                    self.input(Input::Tick);
                }
                ["pass", ms] => self.now.monotonic = self.now.monotonic.plus(ms.parse().unwrap()),
                ["send", id, to] => self.send(id, to, true),
                ["toss", id, to] => self.send(id, to, false),
                ["ack", id] => self.input(Input::Acknowledge(id.to_owned())),
                ["answer", id] => self.input(Input::Answer(asking::reply(id, 3), 10)),
                ["give-back", id] => {
                    let nack = Nack::new(id, NackCode::Refused, "no");
                    self.input(Input::Return(Nack { retry_after_ms: Some(70), ..nack }));
                }
                ["subscribe", pattern] => self.input(Input::Subscribe(pattern.to_owned())),
                ["unsubscribe", pattern] => self.input(Input::Unsubscribe(pattern.to_owned())),
                ["daemon>", kind, payload] => {
                    let payload = self.with_ids(payload);
                    self.envelopes += 1;
                    let id = self.envelopes;
                    self.last = format!(
                        r#"{{"v":1,"type":"{kind}","id":"x{id}","ts":1,"payload":{payload}}}"#
                    );
                    self.say(&self.last.clone());
                }
                ["daemon", "again"] => self.say(&self.last.clone()),
                ["deliver", id, delivery] => self.deliver(id, "Bob", "", delivery),
                ["deliver", id, delivery, from] => self.deliver(id, from, "", delivery),
                ["deliver", id, delivery, from, topic] => {
                    self.deliver(id, from, &format!(r#""topic":"{topic}","#), delivery);
                }
                ["keeps", session, token] => self.say(&resumable_welcome(session, token, 4000)),
                _ => panic!("unknown line {line:?}"),
            }
        }
    }

    fn deliver(&mut self, id: &str, from: &str, topic: &str, delivery: &str) {
        self.say(&format!(
            r#"{{"v":1,"type":"DELIVER","id":"{id}","ts":1,"from":"{from}","to":"Ann",{topic}"payload":{{"kind":"message","body":"hi"}},"delivery":{delivery}}}"#
        ));
    }

    fn send(&mut self, id: &str, to: &str, at_least_once: bool) {
        let meta = Meta { requires_ack: at_least_once, ..Meta::default() };
        let message = Outgoing { meta, ..Outgoing::message(to, "x") };
        self.input(Input::Send(SendId(id.to_owned()), message, 10));
    }

    /// Replaces `#3` by the third id that the session made.
    fn with_ids(&self, text: &str) -> String {
        self.ids.iter().enumerate().fold(text.to_owned(), |text, (index, id)| {
            text.replace(&format!("\"#{}\"", index + 1), &format!("\"{id}\""))
        })
    }

    fn render(&mut self, output: Output) -> String {
        match output {
            Output::Frame(bytes) => {
                let envelope = Envelope::read(&bytes[4..]).unwrap();
                let id = self.short(&envelope.id);
                let mut line = format!("> {} {id}", envelope.kind.as_str());
                for part in
                    [envelope.to.as_deref(), envelope.topic.as_deref()].into_iter().flatten()
                {
                    write!(line, " {part}").unwrap();
                }
                if envelope.kind != Kind::Send {
                    write!(line, " {}", envelope.payload).unwrap();
                }
                line
            }
            Output::Event(Event::Delivered(delivery)) => {
                format!("hear {} from {}: {}", delivery.id, delivery.from, delivery.body)
            }
            Output::Event(Event::State(State::Ready(welcome))) => {
                format!("ready {}", welcome.session_id)
            }
            Output::Event(event) => format!("{event:?}"),
            other => format!("{other:?}"),
        }
    }

    fn short(&mut self, id: &str) -> String {
        if id.len() != 36 {
            return id.to_owned();
        }
        let index = self.ids.iter().position(|known| known == id).unwrap_or_else(|| {
            self.ids.push(id.to_owned());
            self.ids.len() - 1
        });
        format!("#{}", index + 1)
    }
}

#[track_caller]
fn check(lines: &str, expected: Expect) {
    let mut script = Script::joined();
    script.run(lines);
    expected.assert_eq(&script.text);
}

#[test]
fn hello_then_ready_then_bye() {
    let mut script = Script::new(1, None);
    script.run("start\nconnected\nwelcome\ndaemon> PING {\"nonce\":\"n\"}\nclose");
    expect![[r#"
        start
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #1 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true}}
        welcome
          ready s-1
        daemon> PING {"nonce":"n"}
          > PONG #2 {"nonce":"n"}
        close
          > BYE #3 {"reason":"done"}
          Close
          State(Disconnected)
          Ended(Closed)
    "#]].assert_eq(&script.text);
}

#[test]
fn cycle_of_ten_attempts_ends_with_an_error() {
    let mut script = Script::joined();
    script.run("pass 20000\ngone");
    for _ in 0..9 {
        script.run("wait\nnot-connected");
    }
    script.run("wait\nconnected\nwait");
    expect![[r#"
        pass 20000
        gone
          HangUp
          State(Backoff { wait_ms: 88, why: "the stream ended" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 184, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 398, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 733, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 1577, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 3059, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 6924, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 14707, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 27622, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 25920, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        wait
          HangUp
          State(Disconnected)
          Ended(GaveUp { attempts: 10, why: "the daemon did not send WELCOME within 10000 ms", absent: false })
    "#]].assert_eq(&script.text);
}

#[test]
fn first_join_makes_the_stated_number_of_attempts() {
    let mut script = Script::new(2, Some(30_000));
    script.run("start\nnot-connected\nwait\nnot-connected");
    expect![[r#"
        start
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 113, why: "nobody there" })
        wait
          State(Connecting)
          Connect
        not-connected
          State(Disconnected)
          Ended(GaveUp { attempts: 2, why: "nobody there", absent: true })
    "#]]
    .assert_eq(&script.text);
}

#[test]
fn new_cycle_begins_after_the_stated_time() {
    let mut script = Script::new(1, Some(30_000));
    script.run("start\nconnected\nwelcome\npass 20000\ngone");
    for _ in 0..10 {
        script.run("wait\nnot-connected");
    }
    script.text.clear();
    script.run("wait\nnot-connected");
    expect![[r#"
        wait
          State(Connecting)
          Connect
        not-connected
          State(Backoff { wait_ms: 86, why: "nobody there" })
    "#]]
    .assert_eq(&script.text);
}

#[test]
fn client_with_cycles_reconnects_after_any_absence() {
    let mut script = Script::new(1, Some(30_000));
    script.run("start\nconnected\nwelcome\npass 20000\nsend a Bob\ngone");
    for _cycle in 0..100 {
        for _attempt in 0..10 {
            script.text.clear();
            script.run("wait\nnot-connected");
        }
        assert_eq!(script.session.deadline(), Some(script.now.monotonic.plus(30_000)));
        assert!(!script.text.contains("Ended"), "{}", script.text);
    }
    script.text.clear();
    script.run("wait\nconnected\nwelcome");
    expect![[r#"
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
          > SEND a Bob
    "#]].assert_eq(&script.text);
}

#[test]
fn name_in_use_is_tried_again_in_the_next_cycle() {
    let taken = r#"daemon> ERROR {"code":"NAME_IN_USE","fatal":true,"message":"words"}"#;
    let mut script = Script::new(1, Some(30_000));
    script.run("start\nconnected\nwelcome\npass 20000\nsend a Bob\ngone\nwait\nconnected");
    script.text.clear();
    script.run(taken);
    script.run("wait\nconnected\nwelcome");
    expect![[r#"
        daemon> ERROR {"code":"NAME_IN_USE","fatal":true,"message":"words"}
          Error(ErrorPayload { code: "NAME_IN_USE", fatal: true, message: "words", reference: None })
          HangUp
          State(Backoff { wait_ms: 30000, why: "words (NAME_IN_USE)" })
        wait
          State(Connecting)
          Connect
        connected
          State(Handshaking)
          > HELLO #3 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
        welcome
          ready s-1
          > SEND a Bob
    "#]].assert_eq(&script.text);
    // Who never was here has no claim to it.
    let mut script = Script::new(1, Some(30_000));
    script.run("start\nconnected");
    script.run(taken);
    assert!(script.text.contains("Ended(Error("), "{}", script.text);
}

#[test]
fn short_connections_do_not_begin_a_new_cycle() {
    let mut script = Script::joined();
    for _ in 0..9 {
        script.run("gone\nwait\nconnected\nwelcome");
    }
    script.text.clear();
    script.run("gone");
    expect![[r#"
        gone
          HangUp
          State(Disconnected)
          Ended(GaveUp { attempts: 10, why: "the stream ended", absent: false })
    "#]]
    .assert_eq(&script.text);
}

#[test]
fn fatal_errors_end_the_session_or_lead_to_a_reconnect() {
    for (code, ends) in [
        ("SESSION_REPLACED", true),
        ("NAME_IN_USE", true),
        ("INVALID_NAME", true),
        ("UNAUTHORIZED", true),
        ("UNSUPPORTED_VERSION", true),
        ("BAD_FRAME", true),
        ("SOMETHING_NEW", true),
        ("HEARTBEAT_TIMEOUT", false),
        ("SHUTTING_DOWN", false),
        ("TOO_MANY_CLIENTS", false),
        ("INTERNAL", false),
    ] {
        let mut script = Script::joined();
        script.run(&format!(
            "daemon> ERROR {{\"code\":\"{code}\",\"fatal\":true,\"message\":\"words\"}}"
        ));
        assert_eq!(script.text.contains("Ended(Error("), ends, "{}", script.text);
        assert_eq!(script.session.deadline().is_none(), ends, "{}", script.text);
        assert!(script.text.contains("HangUp"), "{}", script.text);
    }
}

#[test]
fn token_is_sent_until_rejected_and_bye_leads_to_a_reconnect() {
    check(
        "daemon> BYE {\"reason\":\"upgrade\",\"retry_after_ms\":400}\nwait\nconnected\n\
         daemon> ERROR {\"code\":\"RESUME_REJECTED\",\"fatal\":false,\"message\":\"old\"}\ngone\n\
         wait\nconnected\nwelcome",
        expect![[r#"
            daemon> BYE {"reason":"upgrade","retry_after_ms":400}
              HangUp
              State(Backoff { wait_ms: 400, why: "the daemon left: upgrade" })
            wait
              State(Connecting)
              Connect
            connected
              State(Handshaking)
              > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
            daemon> ERROR {"code":"RESUME_REJECTED","fatal":false,"message":"old"}
            gone
              HangUp
              State(Backoff { wait_ms: 191, why: "the stream ended" })
            wait
              State(Connecting)
              Connect
            connected
              State(Handshaking)
              > HELLO #3 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true}}
            welcome
              ready s-1
        "#]],
    );
}

#[test]
fn at_least_once_message_is_retransmitted_until_accepted() {
    check(
        "send m1 Bob\ntoss m2 Bob\nsend m3 Bob\ndaemon> ACK {\"ack_id\":\"m3\",\"state\":\"accepted\"}\n\
         gone\nsend m4 Bob\ntoss m5 Bob\nwait\nconnected\nwelcome\n\
         daemon> ACK {\"ack_id\":\"m1\",\"state\":\"accepted\",\"recipients\":2}\n\
         daemon> ACK {\"ack_id\":\"m1\",\"state\":\"accepted\"}\n\
         daemon> NACK {\"ack_id\":\"m4\",\"code\":\"UNKNOWN_AGENT\",\"message\":\"who\"}\n\
         daemon> NACK {\"ack_id\":\"m1\",\"code\":\"EXPIRED\",\"message\":\"late\"}",
        expect![[r#"
            send m1 Bob
              > SEND m1 Bob
            toss m2 Bob
              > SEND m2 Bob
              Released(10)
            send m3 Bob
              > SEND m3 Bob
            daemon> ACK {"ack_id":"m3","state":"accepted"}
              Released(10)
              Accepted { send_id: SendId("m3"), recipients: None, away: false }
            gone
              HangUp
              State(Backoff { wait_ms: 88, why: "the stream ended" })
            send m4 Bob
            toss m5 Bob
            wait
              State(Connecting)
              Connect
            connected
              State(Handshaking)
              > HELLO #2 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
            welcome
              ready s-1
              > SEND m1 Bob
              > SEND m4 Bob
              > SEND m5 Bob
              Released(10)
            daemon> ACK {"ack_id":"m1","state":"accepted","recipients":2}
              Released(10)
              Accepted { send_id: SendId("m1"), recipients: Some(2), away: false }
            daemon> ACK {"ack_id":"m1","state":"accepted"}
            daemon> NACK {"ack_id":"m4","code":"UNKNOWN_AGENT","message":"who"}
              Released(10)
              Refused { send_id: SendId("m4"), nack: Nack { ack_id: "m4", code: "UNKNOWN_AGENT", message: "who", to: None, correlation_id: None, retry_after_ms: None } }
            daemon> NACK {"ack_id":"m1","code":"EXPIRED","message":"late"}
              Refused { send_id: SendId("m1"), nack: Nack { ack_id: "m1", code: "EXPIRED", message: "late", to: None, correlation_id: None, retry_after_ms: None } }
        "#]],
    );
}

#[test]
fn busy_holds_back_all_messages_to_the_same_recipient() {
    check(
        "send m1 Bob\nsend m2 bob\ndaemon> BUSY {\"ack_id\":\"m1\",\"retry_after_ms\":50,\"queue_depth\":9}\n\
         send m3 BOB\nsend m4 Cid\nsend m5 *\nsend m6 Cid\n\
         daemon> BUSY {\"ack_id\":\"m2\",\"retry_after_ms\":50,\"queue_depth\":9}\nwait\n\
         daemon> BUSY {\"ack_id\":\"m1\",\"retry_after_ms\":50,\"queue_depth\":9}\nwait\n\
         daemon> ACK {\"ack_id\":\"m1\",\"state\":\"accepted\"}\n\
         daemon> ACK {\"ack_id\":\"m2\",\"state\":\"accepted\"}",
        expect![[r#"
            send m1 Bob
              > SEND m1 Bob
            send m2 bob
              > SEND m2 bob
            daemon> BUSY {"ack_id":"m1","retry_after_ms":50,"queue_depth":9}
              Busy { send_id: SendId("m1"), wait_ms: 44 }
            send m3 BOB
            send m4 Cid
              > SEND m4 Cid
            send m5 *
            send m6 Cid
            daemon> BUSY {"ack_id":"m2","retry_after_ms":50,"queue_depth":9}
              Busy { send_id: SendId("m2"), wait_ms: 46 }
            wait
              > SEND m1 Bob
            daemon> BUSY {"ack_id":"m1","retry_after_ms":50,"queue_depth":9}
              Busy { send_id: SendId("m1"), wait_ms: 99 }
            wait
            daemon> ACK {"ack_id":"m1","state":"accepted"}
              Released(10)
              Accepted { send_id: SendId("m1"), recipients: None, away: false }
              > SEND m2 bob
            daemon> ACK {"ack_id":"m2","state":"accepted"}
              Released(10)
              Accepted { send_id: SendId("m2"), recipients: None, away: false }
              > SEND m3 BOB
              > SEND m5 *
              > SEND m6 Cid
        "#]],
    );
}

#[test]
fn busy_broadcast_holds_back_messages_to_the_busy_recipients_only() {
    check(
        "send m1 *\ndaemon> BUSY {\"ack_id\":\"m1\",\"retry_after_ms\":50,\"queue_depth\":9,\"busy\":[\"Bob\"]}\n\
         send m2 Cid\nsend m3 bob\nsend m4 *\nwait\n\
         daemon> ACK {\"ack_id\":\"m1\",\"state\":\"accepted\",\"recipients\":2}",
        expect![[r#"
            send m1 *
              > SEND m1 *
            daemon> BUSY {"ack_id":"m1","retry_after_ms":50,"queue_depth":9,"busy":["Bob"]}
              Busy { send_id: SendId("m1"), wait_ms: 44 }
            send m2 Cid
              > SEND m2 Cid
            send m3 bob
            send m4 *
            wait
              > SEND m1 *
            daemon> ACK {"ack_id":"m1","state":"accepted","recipients":2}
              Released(10)
              Accepted { send_id: SendId("m1"), recipients: Some(2), away: false }
              > SEND m3 bob
              > SEND m4 *
        "#]],
    );
}

#[test]
fn partly_delivered_at_most_once_message_is_not_retransmitted_after_reconnect() {
    let mut script = Script::joined();
    script.run(
        "toss m1 *\ndaemon> BUSY {\"ack_id\":\"m1\",\"retry_after_ms\":50,\"queue_depth\":9,\"busy\":[\"Bob\"]}\n\
         toss m2 Bob\nsend m3 *\ngone",
    );
    assert!(
        script.text.contains(
            r#"Refused { send_id: SendId("m1"), nack: Nack { ack_id: "m1", code: "BUSY""#
        )
    );
    script.text.clear();
    script.run("wait\nconnected\nwelcome");
    assert!(!script.text.contains("> SEND m1"), "{}", script.text);
    assert!(
        script.text.contains("> SEND m2 Bob\n  Released(10)\n  > SEND m3 *"),
        "{}",
        script.text
    );
}

#[test]
fn busy_at_most_once_message_is_retransmitted() {
    check(
        "toss m1 Bob\ndaemon> BUSY {\"ack_id\":\"m1\",\"retry_after_ms\":50,\"queue_depth\":9}\nwait\n\
         daemon> BUSY {\"ack_id\":\"m0\",\"retry_after_ms\":50,\"queue_depth\":9}",
        expect![[r#"
            toss m1 Bob
              > SEND m1 Bob
              Released(10)
            daemon> BUSY {"ack_id":"m1","retry_after_ms":50,"queue_depth":9}
              Busy { send_id: SendId("m1"), wait_ms: 44 }
            wait
              > SEND m1 Bob
            daemon> BUSY {"ack_id":"m0","retry_after_ms":50,"queue_depth":9}
              Refused { send_id: SendId("m0"), nack: Nack { ack_id: "m0", code: "BUSY", message: "the recipient had no room for it", to: None, correlation_id: None, retry_after_ms: None } }
        "#]],
    );
}

#[test]
fn busy_waits_double_up_to_thirty_seconds() {
    let mut script = Script::joined();
    script.run("send m1 Bob");
    let mut waits = Vec::new();
    for _ in 0..12 {
        script.run("daemon> BUSY {\"ack_id\":\"m1\",\"retry_after_ms\":100,\"queue_depth\":1}");
        waits.push(script.session.deadline().unwrap().since(script.now.monotonic));
        script.run("wait");
    }
    for (place, wait) in waits.iter().enumerate() {
        let middle = (100 << place).min(30_000);
        assert!((middle * 85 / 100..=middle * 115 / 100).contains(wait), "{waits:?}");
    }
}

#[test]
fn message_over_the_frame_limit_is_refused_locally() {
    let mut script = Script::joined();
    let message = Outgoing::message("Bob", "x".repeat(400));
    script.text.push_str("a large message\n");
    script.input(Input::Send(SendId("m1".to_owned()), message, 10));
    expect![[r#"
        a large message
          Released(10)
          Refused { send_id: SendId("m1"), nack: Nack { ack_id: "m1", code: "TOO_LARGE", message: "the message takes 525 bytes; the daemon's max_frame_bytes is 400", to: None, correlation_id: None, retry_after_ms: None } }
    "#]].assert_eq(&script.text);
}

#[test]
fn error_about_a_message_refuses_it() {
    check(
        "send m1 Bob\ndaemon> ERROR {\"code\":\"INVALID\",\"fatal\":false,\"message\":\"deep\",\"ref\":\"m1\"}\n\
         daemon> ERROR {\"code\":\"INVALID\",\"fatal\":false,\"message\":\"odd\"}",
        expect![[r#"
            send m1 Bob
              > SEND m1 Bob
            daemon> ERROR {"code":"INVALID","fatal":false,"message":"deep","ref":"m1"}
              Released(10)
              Refused { send_id: SendId("m1"), nack: Nack { ack_id: "m1", code: "INVALID", message: "deep", to: None, correlation_id: None, retry_after_ms: None } }
            daemon> ERROR {"code":"INVALID","fatal":false,"message":"odd"}
              Error(ErrorPayload { code: "INVALID", fatal: false, message: "odd", reference: None })
        "#]],
    );
}

#[test]
fn duplicate_deliveries_are_dropped() {
    check(
        "deliver d1 {\"seq\":1,\"requires_ack\":true}\ndeliver d1 {\"seq\":1,\"requires_ack\":true,\"attempt\":2}\n\
         ack d1\nack d1\ndeliver d1 {\"seq\":1,\"requires_ack\":true,\"attempt\":3}\n\
         deliver d2 {\"seq\":2}\nack d2\ndeliver d2 {\"seq\":2}\n\
         deliver d3 {\"seq\":3,\"requires_ack\":true}\ngive-back d3\n\
         deliver d3 {\"seq\":3,\"requires_ack\":true,\"attempt\":2}\n\
         deliver d4 {\"seq\":4,\"requires_ack\":true}\ngone\nack d4\nwait\nconnected\nwelcome\n\
         deliver d4 {\"seq\":4,\"requires_ack\":true,\"attempt\":2}",
        expect![[r#"
            deliver d1 {"seq":1,"requires_ack":true}
              hear d1 from Bob: hi
            deliver d1 {"seq":1,"requires_ack":true,"attempt":2}
            ack d1
              > ACK #2 {"ack_id":"d1","seq":1}
            ack d1
            deliver d1 {"seq":1,"requires_ack":true,"attempt":3}
              > ACK #3 {"ack_id":"d1","seq":1}
            deliver d2 {"seq":2}
              hear d2 from Bob: hi
            ack d2
            deliver d2 {"seq":2}
            deliver d3 {"seq":3,"requires_ack":true}
              hear d3 from Bob: hi
            give-back d3
              > NACK #4 {"ack_id":"d3","code":"REFUSED","message":"no","retry_after_ms":70}
            deliver d3 {"seq":3,"requires_ack":true,"attempt":2}
              hear d3 from Bob: hi
            deliver d4 {"seq":4,"requires_ack":true}
              hear d4 from Bob: hi
            gone
              HangUp
              State(Backoff { wait_ms: 97, why: "the stream ended" })
            ack d4
            wait
              State(Connecting)
              Connect
            connected
              State(Handshaking)
              > HELLO #5 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
            welcome
              ready s-1
            deliver d4 {"seq":4,"requires_ack":true,"attempt":2}
              > ACK #6 {"ack_id":"d4","seq":4}
        "#]],
    );
}

#[test]
fn unreadable_payload_is_returned() {
    let mut script = Script::joined();
    script.text.push_str("a body that is a number\n");
    script.say(
        r#"{"v":1,"type":"DELIVER","id":"d1","ts":1,"from":"Bob","to":"Ann","payload":{"body":7},"delivery":{"seq":1,"requires_ack":true}}"#,
    );
    expect![[r#"
        a body that is a number
          > NACK #2 {"ack_id":"d1","code":"INVALID","message":"DELIVER: `body` is not a string"}
    "#]]
    .assert_eq(&script.text);
}

#[test]
fn subscriptions_are_repeated_after_reconnect() {
    check(
        "subscribe a.*\nsubscribe b\ndaemon> ACK {\"ack_id\":\"#2\"}\n\
         daemon> NACK {\"ack_id\":\"#3\",\"code\":\"FORBIDDEN\",\"message\":\"no\"}\ngone\n\
         subscribe c\nwait\nconnected\nwelcome\nunsubscribe c\nunsubscribe c",
        expect![[r##"
            subscribe a.*
              > SUBSCRIBE #2 a.* {}
            subscribe b
              > SUBSCRIBE #3 b {}
            daemon> ACK {"ack_id":"#2"}
              Subscribed { pattern: "a.*", refused: None }
            daemon> NACK {"ack_id":"#3","code":"FORBIDDEN","message":"no"}
              Subscribed { pattern: "b", refused: Some(Nack { ack_id: "e8c7278f-c82a-4c27-800b-af60265aaf1b", code: "FORBIDDEN", message: "no", to: None, correlation_id: None, retry_after_ms: None }) }
            gone
              HangUp
              State(Backoff { wait_ms: 107, why: "the stream ended" })
            subscribe c
            wait
              State(Connecting)
              Connect
            connected
              State(Handshaking)
              > HELLO #4 {"agent":"Ann","capabilities":{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true},"session":{"resume_token":"t-1"}}
            welcome
              ready s-1
              > SUBSCRIBE #5 a.* {}
              > SUBSCRIBE #6 c {}
            unsubscribe c
              > UNSUBSCRIBE #7 c {}
            unsubscribe c
        "##]],
    );
}

#[test]
fn protocol_violation_ends_the_connection_and_unknown_type_does_not() {
    check(
        "daemon> WHATEVER {}\ndaemon> HELLO {}\ndaemon> PING {",
        expect![[r#"
            daemon> WHATEVER {}
              Error(ErrorPayload { code: "INVALID", fatal: false, message: "`type` \"WHATEVER\" is not known", reference: Some("x1") })
            daemon> HELLO {}
              Error(ErrorPayload { code: "INVALID", fatal: false, message: "the daemon sent HELLO, which is out of place", reference: None })
            daemon> PING {
              HangUp
              State(Backoff { wait_ms: 88, why: "the daemon broke the protocol: BAD_FRAME: the frame is not JSON: a comma or the object's end expected at byte 50" })
        "#]],
    );
}

#[test]
fn hostile_frames_never_panic() {
    let mut frames = Vec::new();
    for kind in Kind::ALL {
        for payload in ["{}", "[]", "1", r#"{"ack_id":7}"#, r#"{"nonce":""}"#] {
            for rest in ["", r#","delivery":{"seq":-1}"#, r#","from":"x","to":"y","delivery":{}"#] {
                let kind = kind.as_str();
                frames.push(format!(
                    r#"{{"v":1,"type":"{kind}","id":"i","ts":1,"payload":{payload}{rest}}}"#
                ));
            }
        }
    }
    for frame in &frames {
        for script in [&mut Script::joined(), &mut Script::new(1, None)] {
            script.say(frame);
            script.run("start\nconnected");
            script.say(frame);
        }
    }
}
