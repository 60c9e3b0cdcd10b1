//! Questions between real processes: the command, the library, and the wrapper's `[reply:ID]`.

use crate::{
    commands::{USAGE, err, out, run},
    wrap::{wait_for_notice, wrap_line_reader},
};
use client::{Client, ClientError, Delivery, Event, Outgoing, Settings, link::Connection};
use platform::transport::Stream;
use protocol::{
    activity::{Activity, ActivitySource},
    frame::FRAME_BYTES_MAX,
    relay::ActivityRequest,
};
use serde_json::{Value, json, value::RawValue};
use std::{
    io::{self, BufRead, BufReader},
    path::Path,
    process::{Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use testkit::{
    raw::Raw,
    sandbox::Sandbox,
    terminal,
    waiting::{output, until},
};

const DONE: i32 = 0;
const NOT_DELIVERED: i32 = 3;
const TIMED_OUT: i32 = 4;

/// A timeout longer than any answer in these tests takes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(50);

/// Answers a DELIVER, with this data.
pub(crate) fn answer(raw: &mut Raw, deliver: &Value, data: &str) {
    assert_eq!(deliver["delivery"]["requires_ack"], true, "{deliver}");
    let (id, asks) = (&deliver["id"], &deliver["payload_meta"]["sync"]);
    assert_eq!(asks["blocking"], true);
    raw.send_text(&format!(
        r#"{{"v":1,"type":"ACK","id":"answer","ts":0,"payload":{{"ack_id":{id},"correlationId":{},"response":true,"responseData":{data}}}}}"#,
        asks["correlationId"]
    ));
}

/// Runs `ask` while Bob answers with this data.
fn asked(sandbox: &Sandbox, bob: &mut Raw, line: &[&str], data: &str) -> Output {
    thread::scope(|scope| {
        let asking = scope.spawn(|| run(sandbox, line, DONE));
        let deliver = bob.expect("DELIVER");
        assert_eq!(deliver["payload"]["body"], "Which port?");
        answer(bob, &deliver, data);
        asking.join().unwrap()
    })
}

fn library(sandbox: &Sandbox, name: &str) -> Client {
    Client::join(Settings::agent(sandbox.endpoint().as_text(), name)).unwrap()
}

fn delivered(client: &Client) -> Delivery {
    loop {
        if let Event::Delivered(delivery) = client.events().recv_timeout(ANSWER_TIMEOUT).unwrap() {
            return *delivery;
        }
    }
}

#[test]
fn ask_prints_the_answer() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let ask = ["ask", "Bob", "Which port?"];
    let printed = out(&asked(&sandbox, &mut bob, &ask, r#"{"body":"8080\u001b[2J"}"#));
    assert_eq!(printed, "8080\\u{1b}[2J\n");
    let printed = out(&asked(&sandbox, &mut bob, &ask, r#"{"port": 8080}"#));
    assert_eq!(printed, "{\"port\": 8080}\n");
    let ask = ["ask", "--as", "Ann", "--json", "Bob", "Which port?"];
    let printed = out(&asked(&sandbox, &mut bob, &ask, r#"[1, 1.50,"é"]"#));
    let line =
        r#"{"schema":"agent-relay.answer/1","from":"Bob","response":true,"data":[1, 1.50,"é"]}"#;
    assert_eq!(printed.trim_end(), line);
}

#[test]
fn unanswered_ask_has_its_own_exit_codes() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let late = run(&sandbox, &["ask", "--timeout", "200ms", "Bob", "Which port?"], TIMED_OUT);
    let words = String::from_utf8(late.stderr).unwrap();
    let lines: Vec<_> = words.lines().collect();
    let id = lines[0].strip_prefix("agent-relay: asked Bob: ").unwrap_or_else(|| panic!("{words}"));
    assert_eq!(id.len(), 8, "{words}");
    let resume = format!("a later answer is kept: `agent-relay ask --resume {id}`");
    assert_eq!(lines[1], format!("agent-relay: Bob did not answer within 200 ms; {resume}"));
    let deliver = bob.expect("DELIVER");
    bob.acknowledge(&deliver);
    run(&sandbox, &["ask", "Bbo", "Which port?"], NOT_DELIVERED);
    run(&sandbox, &["ask", "*", "Which port?"], USAGE);
    run(&sandbox, &["ask", "--timeout", "2h", "Bob", "Which port?"], USAGE);
    thread::scope(|scope| {
        let asking = scope.spawn(|| run(&sandbox, &["ask", "Bob", "Which port?"], NOT_DELIVERED));
        let id = bob.expect("DELIVER")["id"].take();
        bob.send_json(&json!({"v": 1, "type": "NACK", "id": "n", "ts": 0,
            "payload": {"ack_id": id, "code": "X", "message": "I don't talk about ports"}}));
        let refused = String::from_utf8(asking.join().unwrap().stderr).unwrap();
        assert!(refused.contains("I don't talk about ports"), "{refused}");
    });
}

#[test]
fn asker_is_notified_of_the_agents_other_actions() {
    let sandbox = Sandbox::new();
    let bob = library(&sandbox, "Bob");
    let mut ask = sandbox.command(["ask", "Bob", "Which port?"]);
    ask.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut ask = ask.spawn().unwrap();
    let mut said = BufReader::new(ask.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.next().unwrap().contains("asked Bob: "));
    let question = delivered(&bob);
    // The turn ends without an answer.
    bob.acknowledge(&question.id);
    let idle = ActivityRequest {
        activity: Activity::Idle.to_string(),
        source: ActivitySource::Hooks.to_string(),
        for_ms: 0,
        unseen: false,
    };
    drop(bob.report_activity(&idle).unwrap());
    let rests = "agent-relay: Bob has ended its turn without an answer; still waiting";
    assert_eq!(said.next().unwrap(), rests);
    // An answer to something else does not count, nor does one that does not name this question.
    let mut other = Outgoing::message("@operator", "to another question");
    other.meta.reply_to = Some("1a2b3c4d-55f7".to_owned());
    bob.send(other).unwrap();
    bob.send(Outgoing::message("@operator", "It is\n8080.")).unwrap();
    let wrote = said.next().unwrap();
    let words = "agent-relay: Bob wrote to you without naming the question: It is 8080. (";
    assert!(wrote.starts_with(words) && wrote.ends_with("); still waiting"), "{wrote}");
    let data = RawValue::from_string(r#"{"body":"8080"}"#.to_owned()).unwrap();
    bob.answer(&question, true, Some(&data)).unwrap();
    assert_eq!(said.next(), None);
    let asked = ask.wait_with_output().unwrap();
    assert!(asked.status.success() && out(&asked) == "8080\n", "{asked:?}");
}

#[test]
fn listener_marks_questions() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    thread::scope(|scope| {
        let listening =
            scope.spawn(|| run(&sandbox, &["listen", "--as", "Bob", "--count", "1"], DONE));
        until("Bob is here", || ann.agents().iter().any(|agent| agent["name"] == "Bob"));
        ann.send("Bob", "Which port?", json!({"sync": {"correlationId": "c"}}));
        let heard = out(&listening.join().unwrap());
        assert!(heard.ends_with(" Ann asks: Which port?\n"), "{heard}");
    });
}

#[test]
fn library_asks_and_answers() {
    let sandbox = Sandbox::new();
    let (ann, bob) = (library(&sandbox, "Ann"), library(&sandbox, "Bob"));
    thread::scope(|scope| {
        let asking =
            scope.spawn(|| ann.ask(Outgoing::message("Bob", "Which port?"), ANSWER_TIMEOUT));
        let delivery = delivered(&bob);
        assert!(delivery.sync.as_ref().is_some_and(|asks| asks.blocking));
        // An acknowledgement is not an answer: the question stays open.
        bob.acknowledge(&delivery.id);
        let data = RawValue::from_string(r#"{"body":"8080"}"#.to_owned()).unwrap();
        bob.answer(&delivery, true, Some(&data)).unwrap();
        let answer = asking.join().unwrap().unwrap();
        assert_eq!((answer.from.as_str(), answer.response), ("Bob", Some(true)));
        assert_eq!(answer.body().as_deref(), Some("8080"));
    });
    let silence = ann.ask(Outgoing::message("Bob", "And?"), Duration::from_millis(100));
    let Err(ClientError::Refused(nack)) = silence else { panic!("{silence:?}") };
    assert_eq!((nack.code.as_str(), nack.to.as_deref()), ("SYNC_TIMEOUT", Some("Bob")));
}

#[test]
fn question_and_answer_survive_a_crash_of_the_daemon() {
    let mut sandbox = Sandbox::new();
    let (ann, bob) = (library(&sandbox, "Ann"), library(&sandbox, "Bob"));
    let asking =
        thread::spawn(move || ann.ask(Outgoing::message("Bob", "Which port?"), ANSWER_TIMEOUT));
    let delivery = delivered(&bob);
    sandbox.kill();
    bob.answer(&delivery, false, None).unwrap();
    sandbox.start();
    let answer = asking.join().unwrap().unwrap();
    assert_eq!((answer.from.as_str(), answer.response), ("Bob", Some(false)));
}

#[test]
fn first_reply_of_a_wrapped_agent_is_the_answer_and_the_next_a_message() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let _ann = wrap_line_reader(&sandbox, "Ann", &[]);
    let asks = json!({"sync": {"correlationId": "c", "timeoutMs": 50_000}});
    let send_id = bob.send("Ann", "Which port?\nreply Bob 8080\nreply Bob again", asks);
    assert_eq!(bob.expect("ACK")["payload"]["state"], "accepted");
    let answer = bob.expect("ACK");
    assert_eq!(answer["from"], "Ann");
    let payload = json!({"ack_id": send_id, "correlationId": "c", "response": true,
        "responseData": {"body": "8080"}});
    assert_eq!(answer["payload"], payload);
    let message = bob.expect("DELIVER");
    assert_eq!(message["payload"]["body"], "again", "the first answer counts");
    assert!(message["payload_meta"]["replyTo"].is_string(), "{message}");
    bob.acknowledge(&message);
}

/// A body with a `reply` command of the line reader for each of these names. FROM is replaced by
/// the asking client.
fn replies(to: &[&str]) -> String {
    to.iter().map(|name| format!("\nreply {name} to {name}")).collect()
}

/// Asks Ann from a shell: as the operator if the home has the operator's key, else as a guest.
fn asked_by_a_person(sandbox: &Sandbox, home: &Path, to: &[&str]) -> String {
    let mut ask = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
    ask.arg("--endpoint").arg(sandbox.endpoint().as_text()).arg("--home").arg(home);
    ask.args(["ask", "--timeout", "50s", "Ann", &replies(to)]);
    let asked = output(ask);
    assert_eq!(asked.status.code(), Some(DONE), "{to:?}: {asked:?}");
    out(&asked)
}

#[test]
fn wrapped_agent_answers_a_person_by_the_name_in_the_header() {
    let sandbox = Sandbox::new();
    let _ann = wrap_line_reader(&sandbox, "Ann", &[]);
    let (home, empty) = (sandbox.home(), sandbox.directory().join("empty"));
    for (name, answer) in [
        ("FROM", "to @operator\n"),
        (r"\FROM", "to \\@operator\n"),
        ("operator", "to operator\n"),
        ("user", "to user\n"),
    ] {
        assert_eq!(asked_by_a_person(&sandbox, &home, &[name]), answer);
    }
    for (name, begins) in [("FROM", "to @guest-"), (r"\FROM", "to \\@guest-")] {
        let answer = asked_by_a_person(&sandbox, &empty, &[name]);
        assert!(answer.starts_with(begins), "{answer}");
    }
}

#[test]
fn only_the_asking_person_is_answered_and_no_guest_is_messaged() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let ann = wrap_line_reader(&sandbox, "Ann", &[]);
    let to = ["Bob", "@guest-00112233", "FROM", "FROM"];
    assert_eq!(asked_by_a_person(&sandbox, &sandbox.home(), &to), "to @operator\n");
    let message = bob.expect("DELIVER");
    assert_eq!(message["payload"]["body"], "to Bob");
    bob.acknowledge(&message);
    let notice = r#"Your message to @guest-00112233 ("to @guest-00112233") was not delivered: that is a guest's command line, which hears no messages. "#;
    wait_for_notice(&ann, notice);
    until("the second reply is mail", || {
        out(&run(&sandbox, &["inbox"], DONE)).contains("to @operator")
    });
}

#[test]
fn message_of_a_wrapped_agent_waits_in_the_operators_mailbox() {
    let sandbox = Sandbox::new();
    let _ann = wrap_line_reader(&sandbox, "Ann", &[]);
    run(&sandbox, &["send", "Ann", &replies(&["FROM"])], DONE);
    until("the reply is mail", || out(&run(&sandbox, &["inbox"], DONE)).contains("to @operator"));
    let reminder = "1 message waits for you: run `agent-relay inbox`";
    for command in [&["agents"][..], &["send", "Ann", "more"]] {
        let rows = terminal::rows(&sandbox, command, 80);
        assert!(rows.iter().any(|row| row.ends_with(reminder)), "{rows:#?}");
    }
    assert!(err(&run(&sandbox, &["agents"], DONE)).is_empty(), "no person looks");
    assert!(out(&run(&sandbox, &["status"], DONE)).contains("for you   1 message"));
    let taken = out(&run(&sandbox, &["inbox", "--take"], DONE));
    assert!(taken.contains("Ann -> @operator") && taken.contains("\nto @operator\n"), "{taken}");
    assert_eq!(out(&run(&sandbox, &["inbox"], DONE)), "nothing waits for you\n");
    let history = out(&run(&sandbox, &["history", "--json"], DONE));
    assert!(history.contains(r#""to":"@operator""#), "{history}");
}

#[test]
fn mailbox_of_the_operator_is_shown_whole_and_taken_once() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    for number in 0..90 {
        bob.send("@operator", &format!("number {number}."), json!({"requires_ack": true}));
        bob.expect("ACK");
    }
    let bodies = |arguments: &[&str]| -> Vec<_> {
        let rows = out(&run(&sandbox, arguments, DONE));
        let row = |row| serde_json::from_str::<Value>(row).unwrap()["payload"]["body"].to_string();
        rows.lines().map(row).collect()
    };
    let sent: Vec<_> = (0..90).map(|number| format!("\"number {number}.\"")).collect();
    assert_eq!(bodies(&["inbox", "--json"]), sent);
    assert_eq!(bodies(&["inbox", "--take", "--json"]), sent);
    assert_eq!(out(&run(&sandbox, &["inbox", "--take"], DONE)), "nothing waits for you\n");
    run(&sandbox, &["inbox", "--take", "--as", "Bob"], USAGE);
    // Without the operator's key, a person is a guest, who has no mailbox.
    let mut guest = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
    guest.arg("--endpoint").arg(sandbox.endpoint().as_text());
    guest.arg("--home").arg(sandbox.directory().join("empty")).arg("inbox");
    let refused = output(guest);
    assert!(!refused.status.success() && err(&refused).contains("a guest cannot run"));
}

/// Returns the id that `ask` printed.
fn asked_id(asked: &Output) -> String {
    let words = err(asked);
    let id = words.lines().find_map(|line| line.strip_prefix("agent-relay: asked Bob: "));
    id.unwrap_or_else(|| panic!("{words}")).to_owned()
}

#[test]
fn answer_in_time_is_found_by_the_questions_id() {
    let mut sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let ask = ["ask", "Bob", "Which port?"];
    let id = asked_id(&asked(&sandbox, &mut bob, &ask, r#"{"body":"8080"}"#));
    for is_restarted in [false, true] {
        if is_restarted {
            sandbox.kill();
            sandbox.start();
        }
        let resumed = run(&sandbox, &["ask", "--resume", &id], DONE);
        assert_eq!((out(&resumed), err(&resumed)), ("8080\n".to_owned(), String::new()));
        let history = out(&run(&sandbox, &["history", "--json", "--search", "8080"], DONE));
        let row: Value = serde_json::from_str(&history).unwrap();
        assert_eq!(row["state"], "acknowledged");
        let (from, to, replies) = (&row["from"], &row["to"], &row["payload_meta"]["replyTo"]);
        assert_eq!((from, to), (&json!("Bob"), &json!("@operator")));
        assert!(replies.as_str().unwrap().starts_with(&id), "{row}");
        let read = out(&run(&sandbox, &["read", row["id"].as_str().unwrap()], DONE));
        assert!(read.ends_with("\n8080\n"), "{read}");
    }
    assert_eq!(out(&run(&sandbox, &["inbox"], DONE)), "nothing waits for you\n");
    let events = out(&run(&sandbox, &["events", "--kind", "answer", "--from", "Bob"], DONE));
    let event: Value = serde_json::from_str(&events).unwrap();
    assert!(event["id"].as_str().unwrap().starts_with(&id), "{event}");
}

#[test]
fn question_and_its_answer_are_found_by_their_thread() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    for (thread, data) in [("port", r#"{"body":"8080"}"#), ("other", r#"{"body":"9090"}"#)] {
        asked(&sandbox, &mut bob, &["ask", "--thread", thread, "Bob", "Which port?"], data);
    }
    let found = out(&run(&sandbox, &["history", "--thread", "port"], DONE));
    let rows: Vec<_> = found.lines().skip(1).collect();
    assert!(rows[0].contains("Bob -> @operator") && rows[0].ends_with(": 8080"), "{found}");
    assert!(rows[1].ends_with("[port] Which port?"), "{found}");
    assert_eq!(rows.len(), 2, "{found}");
    run(&sandbox, &["ask", "--resume", "1a2b3c4d", "--thread", "port"], USAGE);
    run(&sandbox, &["ask", "--thread", &"x".repeat(257), "Bob", "Which port?"], USAGE);
}

#[test]
fn late_answer_is_mail_and_is_found_by_the_questions_id() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let late = run(&sandbox, &["ask", "--timeout", "200ms", "Bob", "Which port?"], TIMED_OUT);
    let id = asked_id(&late);
    run(&sandbox, &["ask", "--resume", "--timeout", "200ms", &id], TIMED_OUT);
    let deliver = bob.expect("DELIVER");
    assert!(deliver["id"].as_str().unwrap().starts_with(&id));
    answer(&mut bob, &deliver, r#"{"body":"8080"}"#);
    let shown = run(&sandbox, &["ask", "--resume", &id], DONE);
    assert_eq!(out(&shown), "8080\n");
    assert_eq!(out(&run(&sandbox, &["inbox"], DONE)), "nothing waits for you\n", "it was taken");
    let json = out(&run(&sandbox, &["ask", "--resume", "--json", &id], DONE));
    let line =
        r#"{"schema":"agent-relay.answer/1","from":"Bob","response":true,"data":{"body":"8080"}}"#;
    assert_eq!(json.trim_end(), line, "it is in the history");
}

#[test]
fn resumed_question_waits_for_its_answer() {
    let mut sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let late = run(&sandbox, &["ask", "--timeout", "200ms", "Bob", "Which port?"], TIMED_OUT);
    let id = asked_id(&late);
    let deliver = bob.expect("DELIVER");
    bob.acknowledge(&deliver);
    sandbox.kill();
    sandbox.start();
    let mut bob = sandbox.join("Bob");
    thread::scope(|scope| {
        let resuming = scope.spawn(|| run(&sandbox, &["ask", "--resume", &id], DONE));
        answer(&mut bob, &deliver, "[8080]");
        assert_eq!(out(&resuming.join().unwrap()), "[8080]\n");
    });
    run(&sandbox, &["ask", "--resume", "00000000"], 1);
    run(&sandbox, &["ask", "--resume", &id, "more"], USAGE);
}

/// Joins with the token of an earlier WELCOME. Returns the new WELCOME.
fn back(raw: &mut Raw, name: &str, welcome: &Value) -> Value {
    let session = json!({"resume_token": welcome["resume_token"]});
    raw.send_json(&json!({
        "v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {"agent": name, "session": session},
    }));
    let again = raw.expect("WELCOME")["payload"].take();
    assert_eq!(again["session_id"], welcome["session_id"]);
    again
}

/// Waits until the store has a message in a state. Earlier changes are stored by then.
fn await_state(sandbox: &Sandbox, id: &Value, state: &str) {
    let mut operator = sandbox.operator();
    until(state, || {
        let found = operator.ask("message", &json!({"id": id}));
        found["messages"][0]["state"] == state
    });
}

#[test]
fn outcomes_wait_for_their_sender_across_daemon_crashes() {
    let mut sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.connect(), sandbox.join("Bob"));
    let mut welcome = ann.hello("Ann");
    let asked = json!({"sync": {"correlationId": "c", "timeoutMs": 3_600_000, "blocking": true}});
    let asked = json!(ann.send("Bob", "Which port?", asked));
    let hurry = json!({"requires_ack": true, "ttl_ms": 4_000});
    let hurry = json!(ann.send("Bob", "in a hurry", hurry));
    for _ in 0..2 {
        assert_eq!(ann.expect("ACK")["payload"]["state"], "accepted");
    }
    ann.hang_up();
    ann.expect_end();
    let deliver = bob.expect("DELIVER");
    bob.acknowledge(&deliver);
    await_state(&sandbox, &asked, "acknowledged");
    // The question is acknowledged and still open, also after the daemon's restart.
    sandbox.kill();
    sandbox.start();
    await_state(&sandbox, &hurry, "dead");
    let mut bob = sandbox.join("Bob");
    let data = json!({"body": "8080"});
    answer(&mut bob, &deliver, &data.to_string());
    bob.drain();
    await_state(&sandbox, &asked, "acknowledged");
    sandbox.kill();
    sandbox.start();
    let mut ann = sandbox.connect();
    welcome = back(&mut ann, "Ann", &welcome);
    let nack = ann.expect_code("NACK", "EXPIRED");
    assert_eq!((&nack["payload"]["ack_id"], &nack["payload"]["to"]), (&hurry, &json!("Bob")));
    let ack = ann.expect("ACK");
    assert_eq!((&ack["payload"]["ack_id"], &ack["from"]), (&asked, &json!("Bob")));
    assert_eq!(ack["payload"]["responseData"], data);
    // Once stored, an outcome that Ann has received is not sent again.
    ann.drain();
    await_state(&sandbox, &asked, "acknowledged");
    sandbox.kill();
    sandbox.start();
    let mut ann = sandbox.connect();
    back(&mut ann, "Ann", &welcome);
    assert_eq!(ann.drain(), Vec::<Value>::new());
}

#[test]
fn acknowledged_question_is_answered_after_a_daemon_crash() {
    let mut sandbox = Sandbox::new();
    let (ann, bob) = (library(&sandbox, "Ann"), library(&sandbox, "Bob"));
    let asking =
        thread::spawn(move || ann.ask(Outgoing::message("Bob", "Which port?"), ANSWER_TIMEOUT));
    let delivery = delivered(&bob);
    bob.acknowledge(&delivery.id);
    await_state(&sandbox, &json!(delivery.id), "acknowledged");
    sandbox.kill();
    sandbox.start();
    bob.answer(&delivery, true, None).unwrap();
    let answer = asking.join().unwrap().unwrap();
    assert_eq!((answer.from.as_str(), answer.response), ("Bob", Some(true)));
}

#[test]
fn answer_waits_for_the_library_across_a_daemon_crash() {
    let mut sandbox = Sandbox::new();
    let (endpoint, is_away) = (sandbox.endpoint(), Arc::new(AtomicBool::new(false)));
    let stays = Arc::clone(&is_away);
    let connect = move || {
        if stays.load(Ordering::Acquire) {
            return Err(io::Error::other("not now"));
        }
        Connection::over(Stream::connect(&endpoint)?, "client", FRAME_BYTES_MAX)
    };
    let settings = Settings::agent(sandbox.endpoint().as_text(), "Ann");
    let ann = Client::over(settings, Box::new(connect)).unwrap();
    let mut bob = sandbox.join("Bob");
    let asking =
        thread::spawn(move || ann.ask(Outgoing::message("Bob", "Which port?"), ANSWER_TIMEOUT));
    let deliver = bob.expect("DELIVER");
    is_away.store(true, Ordering::Release);
    sandbox.kill();
    sandbox.start();
    let mut bob = sandbox.join("Bob");
    bob.expect("DELIVER");
    answer(&mut bob, &deliver, r#"{"body":"8080"}"#);
    bob.drain();
    await_state(&sandbox, &deliver["id"], "acknowledged");
    sandbox.kill();
    is_away.store(false, Ordering::Release);
    sandbox.start();
    let answer = asking.join().unwrap().unwrap();
    assert_eq!(answer.body().as_deref(), Some("8080"));
}

#[test]
fn waiting_ask_finds_its_answer_after_a_restart_of_the_daemon() {
    let mut sandbox = Sandbox::new();
    let bob = library(&sandbox, "Bob");
    let ask = sandbox.command(["ask", "Bob", "Which port?"]);
    let asking = thread::spawn(move || output(ask));
    let delivery = delivered(&bob);
    sandbox.kill();
    sandbox.start();
    let data = RawValue::from_string(r#"{"body":"8080"}"#.to_owned()).unwrap();
    bob.answer(&delivery, true, Some(&data)).unwrap();
    let asked = asking.join().unwrap();
    assert!(asked.status.success() && out(&asked) == "8080\n", "{asked:?}");
}
