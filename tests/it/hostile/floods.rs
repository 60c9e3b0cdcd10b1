//! Clients that connect too often, send too much, or do not read.

use super::attack::{Attack, HostileClient, SMALL_LIMITS, check_under_attack, frame, hello};
use parking_lot::Mutex;
use platform::transport::Stream;
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use testkit::{
    raw::{Raw, session},
    sandbox::Sandbox,
    waiting::{WATCHDOG, until},
};

/// Connections that never finish their handshake.
const HALF_OPEN: usize = 1000;

fn send(id: &str, to: &str, body: &str, meta: &Value) -> Value {
    json!({"v": 1, "type": "SEND", "id": id, "ts": 0, "to": to,
        "payload": {"kind": "message", "body": body}, "payload_meta": meta})
}

#[test]
fn half_open_connections_affect_no_other_client() {
    let files = platform::process::allow_open_files(4 * HALF_OPEN as u64).unwrap();
    assert!(files >= 2 * HALF_OPEN as u64, "the system allows {files} open files");
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    let half_open = |attack: &Attack<'_>| {
        let hello = frame(&hello("Nobody").to_string());
        let parts = [&hello[..0], &hello[..2], &hello[..hello.len() - 1]];
        let mut clients = Vec::new();
        for number in 0..HALF_OPEN {
            let client = attack.connect();
            client.send_bytes(parts[number % parts.len()]);
            clients.push(client);
        }
        attack.report_started(0);
        attack.wait_for_end();
    };
    check_under_attack(&mut sandbox, &[&half_open]);
}

/// Connections that come as fast as they can. The newest of them stay open.
#[test]
fn flood_of_connections_affects_no_other_process() {
    const OPEN: usize = 300;
    const COMMANDS: usize = 20;
    let sandbox = Sandbox::with_config(SMALL_LIMITS);
    let is_over = AtomicBool::new(false);
    let (begun, has_begun) = crossbeam_channel::bounded(1);
    let outputs: Vec<_> = thread::scope(|scope| {
        scope.spawn(|| {
            let mut open = VecDeque::new();
            while !is_over.load(Ordering::Relaxed) {
                // The daemon may have no descriptor left for a moment.
                open.extend(Stream::connect(&sandbox.endpoint()));
                if open.len() > OPEN {
                    open.pop_front();
                    let _ = begun.try_send(());
                }
            }
        });
        let begun = has_begun.recv_timeout(WATCHDOG);
        let outputs = (0..COMMANDS).map(|_| sandbox.run(["status"])).collect();
        is_over.store(true, Ordering::Relaxed);
        begun.expect("the flood begins");
        outputs
    });
    for output in outputs {
        assert!(output.status.success(), "{output:?}");
    }
}

/// RESUMEs of a name that has no session: each is answered, and none completes a handshake.
fn resumes() -> Vec<u8> {
    let resume = json!({"v": 1, "type": "RESUME", "id": "r", "ts": 0, "payload": {"agent": "No"}});
    frame(&resume.to_string()).repeat(100)
}

/// Connections that never finish their handshake, read no answers, and begin a long frame.
#[test]
fn strangers_that_send_much_affect_no_other_client() {
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    // A frame of a mebibyte, which ends early.
    let begin_long = |client: &HostileClient<'_>| {
        client.send_bytes(&(1_u32 << 20).to_be_bytes())
            && (0..200).all(|_| client.send_bytes(&[b' '; 4096]))
    };
    let attacker = |floods: bool| {
        move |attack: &Attack<'_>| {
            attack.report_started(0);
            let resumes = resumes();
            while attack.is_running() {
                let client = attack.connect();
                let mut is_open = !floods || (0..20).all(|_| client.send_bytes(&resumes));
                is_open = is_open && begin_long(&client);
                while is_open && attack.is_running() {
                    thread::sleep(Duration::from_millis(5));
                    is_open = client.send_bytes(b" ");
                }
            }
        }
    };
    let (floods, begins) = (attacker(true), attacker(false));
    let attackers: [&(dyn Fn(&Attack<'_>) + Sync); 2] = [&floods, &begins];
    check_under_attack(&mut sandbox, &attackers.repeat(25));
}

#[test]
fn stranger_that_reads_no_answers_has_no_more_time() {
    let sandbox = Sandbox::with_config("handshake_timeout_ms = 100\n");
    let mut client = sandbox.connect();
    // More than the daemon answers, and the system holds, for a client that reads nothing: the rest
    // is taken once the connection is being closed.
    client.try_send_bytes(&resumes().repeat(200));
    until("the connection is closed", || !client.try_send_bytes(b" "));
}

/// The queue of the client fills, and the daemon answers only the client's senders with BUSY.
#[test]
fn client_that_never_reads_affects_only_its_senders() {
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    let never_reads = |attack: &Attack<'_>| {
        let _stalled = attack.join("Stalled");
        attack.report_started(0);
        attack.wait_for_end();
    };
    let sends = |attack: &Attack<'_>| {
        wait_for(attack.sandbox, "Stalled");
        let client = attack.join("Sender");
        let (mut accepted, mut busy) = (0, 0);
        let body = "x".repeat(8 << 10);
        while attack.is_running() {
            if busy == 1 {
                attack.report_started(1);
            }
            client.send_json(&send(
                &format!("p-{accepted}"),
                "Stalled",
                &body,
                &json!({"requires_ack": true}),
            ));
            match client.receive() {
                Some(answer) if answer["type"] == "ACK" => accepted += 1,
                Some(answer) if answer["type"] == "BUSY" => busy += 1,
                Some(answer) => assert_eq!(answer["type"], "PING", "{answer}"),
                None => break,
            }
        }
        assert!(accepted > 100, "{accepted} were accepted");
    };
    check_under_attack(&mut sandbox, &[&never_reads, &sends]);
}

#[test]
fn client_that_never_reads_is_closed_and_keeps_its_mailbox() {
    let sandbox = Sandbox::with_config("heartbeat_ms = 1000\n");
    let stalled = sandbox.join("Stalled");
    let mut ann = sandbox.join("Ann");
    ann.send("Stalled", "wake up", json!({"requires_ack": true}));
    ann.expect("ACK");
    drop(ann);
    wait_until_away(&sandbox, "Stalled");
    drop(stalled);
    assert_eq!(sandbox.join("Stalled").expect("DELIVER")["payload"]["body"], "wake up");
}

/// The daemon pauses reads from the sender until the sender has read its answers.
#[test]
fn sender_that_never_reads_its_answers_affects_no_other_client() {
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    let never_reads = |attack: &Attack<'_>| {
        let client = attack.join("Stalled");
        let frames = frame(&send("n", "Nobody", "x", &json!({})).to_string()).repeat(100);
        for round in 0.. {
            if round == 10 {
                attack.report_started(0);
            }
            if !client.send_bytes(&frames) {
                break;
            }
        }
    };
    check_under_attack(&mut sandbox, &[&never_reads]);
}

/// Each answer is as long as a frame can be, and one read of the daemon has many requests.
#[test]
fn client_with_many_unread_requests_affects_no_other_client() {
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    let requests = |attack: &Attack<'_>| {
        let client = attack.join("Requester");
        let message = send("m", "Requester", &"x".repeat(50 << 10), &json!({"requires_ack": true}));
        for number in 0..20 {
            let mut message = message.clone();
            message["id"] = number.to_string().into();
            client.send_json(&message);
        }
        let request = json!({"v": 1, "type": "SEND", "id": "r", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": "inbox"}});
        client.send_bytes(&frame(&request.to_string()).repeat(1_000));
        attack.report_started(0);
        attack.wait_for_end();
    };
    check_under_attack(&mut sandbox, &[&requests]);
}

#[test]
fn endless_single_bytes_affect_no_other_client() {
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    // This client sends complete frames, one byte at a time.
    let one_by_one = |name: &'static str| {
        move |attack: &Attack<'_>| {
            let client = attack.join(name);
            let bytes = frame(&send("m", name, "to myself", &json!({})).to_string());
            for round in 0.. {
                if round == 1 {
                    attack.report_started(1);
                }
                if !bytes.iter().all(|byte| client.send_bytes(&[*byte])) {
                    break;
                }
                while client.receive().is_some_and(|received| received["type"] != "DELIVER") {}
            }
        }
    };
    // This client sends a frame that is never complete.
    let never_ends = |attack: &Attack<'_>| {
        let client = attack.join("Endless");
        let mut is_open =
            client.send_bytes(&(1_u32 << 20).to_be_bytes()) && client.send_bytes(b"{");
        attack.report_started(0);
        while is_open {
            is_open = client.send_bytes(b" ");
        }
    };
    check_under_attack(&mut sandbox, &[&one_by_one("Drop"), &one_by_one("Drip"), &never_ends]);
}

#[test]
fn flood_of_hello_affects_no_other_client() {
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    let reconnects = |attack: &Attack<'_>| {
        for round in 0.. {
            if round == 20 {
                attack.report_started(1);
            }
            if !attack.is_running() {
                break;
            }
            let client = attack.connect();
            client.send_json(&hello(&format!("name-{}", round % 64)));
            client.receive();
        }
    };
    // The daemon pings Ann for each client that claims her name, and her own client answers.
    let claims_ann = |attack: &Attack<'_>| {
        for round in 0.. {
            if round == 2 {
                attack.report_started(16);
            }
            let clients: Vec<_> = (0..16).map(|_| attack.connect()).collect();
            for client in &clients {
                client.send_json(&hello("ANN"));
            }
            let received: Vec<_> = clients.iter().filter_map(HostileClient::receive).collect();
            let mut codes = received.iter().map(|error| &error["payload"]["code"]);
            assert!(codes.all(|code| code == "NAME_IN_USE"), "{received:?}");
            if !attack.is_running() {
                break;
            }
        }
    };
    let repeats_hello = |attack: &Attack<'_>| {
        let client = attack.join("Repeater");
        let frames = frame(&hello("Repeater").to_string()).repeat(32);
        attack.report_started(32);
        while client.send_bytes(&frames) {
            let received: Vec<_> = (0..32).map_while(|_| client.receive()).collect();
            assert!(
                received.iter().all(|error| error["payload"]["code"] == "INVALID"),
                "{received:?}"
            );
        }
    };
    check_under_attack(&mut sandbox, &[&reconnects, &reconnects, &claims_ann, &repeats_hello]);
}

#[test]
fn flood_of_subscribe_affects_no_other_client() {
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    let subscribes = |number: usize| {
        move |attack: &Attack<'_>| {
            let client = attack.join(&format!("Subscriber-{number}"));
            // Long patterns cost the most, and all of these begin with the same segments.
            let topic = |place: usize| format!("a.*.{}{place:03}.>", "x".repeat(240));
            for round in 0.. {
                if round == 2 {
                    attack.report_started(20);
                }
                let kind = if round % 2 == 0 { "SUBSCRIBE" } else { "UNSUBSCRIBE" };
                let frames = (0..300).map(|place| {
                    frame(
                        &json!({"v": 1, "type": kind, "id": "s", "ts": 0,
                        "topic": topic(place), "payload": {}})
                        .to_string(),
                    )
                });
                let frames: Vec<_> = frames.collect();
                if !frames.chunks(20).all(|some| {
                    client.send_bytes(&some.concat())
                        && (0..some.len()).all(|_| client.receive().is_some())
                }) {
                    break;
                }
            }
        }
    };
    check_under_attack(&mut sandbox, &[&subscribes(0), &subscribes(1), &subscribes(2)]);
}

#[test]
fn flood_of_wrong_tokens_resumes_no_session() {
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    let guesses = |attack: &Attack<'_>| {
        let client = attack.connect();
        for guess in 0_u64.. {
            if guess == 100 {
                attack.report_started(1);
            }
            client.send_json(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 0,
                "payload": {"session_id": "s-1", "resume_token": format!("{guess:064x}")}}));
            let Some(answer) = client.receive() else { break };
            let refused =
                answer["type"] == "NACK" || answer["payload"]["code"] == "RESUME_REJECTED";
            assert!(refused, "{answer}");
        }
    };
    let guesses_with_hello = |attack: &Attack<'_>| {
        for guess in 0_u64.. {
            if guess == 10 {
                attack.report_started(1);
            }
            if !attack.is_running() {
                break;
            }
            let client = attack.connect();
            client.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload":
                {"agent": format!("guess-{}", guess % 8),
                 "session": {"resume_token": format!("{guess:064x}")}}}));
            if let Some(answer) = client.receive() {
                let is_later = answer["payload"]["code"] == "NAME_IN_USE";
                assert!(answer["payload"]["code"] == "RESUME_REJECTED" || is_later, "{answer}");
            }
        }
    };
    check_under_attack(&mut sandbox, &[&guesses, &guesses, &guesses_with_hello]);
}

/// Each change makes the daemon store all subscriptions of the session again, and the store is
/// slow.
#[test]
fn flood_of_changes_of_a_large_session_affects_no_other_client() {
    const CHANGES: usize = 1_000;
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    let changes = |number: usize| {
        move |attack: &Attack<'_>| {
            let client = attack.join(&format!("Changer-{number}"));
            let change = |kind: &str, topic: &str| {
                frame(
                    &json!({"v": 1, "type": kind, "id": "s", "ts": 0, "topic": topic,
                        "payload": {}})
                    .to_string(),
                )
            };
            for place in 0..255 {
                client.send_bytes(&change("SUBSCRIBE", &format!("{place:03}{}", "x".repeat(250))));
                client.receive();
            }
            let both =
                [change("SUBSCRIBE", "t"), change("UNSUBSCRIBE", "t")].concat().repeat(CHANGES / 2);
            thread::scope(|scope| {
                scope.spawn(|| while client.receive().is_some() {});
                for round in 0.. {
                    if round == 5 {
                        attack.report_started(CHANGES);
                    }
                    if !client.send_bytes(&both) {
                        break;
                    }
                }
            });
        }
    };
    check_under_attack(&mut sandbox, &[&changes(0), &changes(1)]);
}

/// A test with the largest number of clients that a daemon must welcome. Each client asks for the
/// maximum number of subscriptions, and the daemon refuses some when its memory is full.
#[test]
fn five_hundred_clients_with_all_subscriptions_affect_no_other_client() {
    const CLIENTS: usize = 500;
    let files = platform::process::allow_open_files(4 * CLIENTS as u64).unwrap();
    assert!(files >= 2 * CLIENTS as u64, "the system allows {files} open files");
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    let listeners = |number: usize| {
        move |attack: &Attack<'_>| {
            let (mut clients, mut accepted) = (Vec::new(), 0);
            for place in (number..CLIENTS).step_by(2) {
                let client = attack.join(&format!("Listener-{place}"));
                let topic = |topic: usize| format!("{topic:06}{}", "x".repeat(250));
                let frames = (0..256).map(|at| {
                    frame(
                        &json!({"v": 1, "type": "SUBSCRIBE", "id": "s", "ts": 0,
                            "topic": topic(place * 256 + at), "payload": {}})
                        .to_string(),
                    )
                });
                let frames: Vec<_> = frames.collect();
                for some in frames.chunks(32) {
                    assert!(client.send_bytes(&some.concat()) || !attack.is_running());
                    for _ in some {
                        let Some(answer) = client.receive() else { return };
                        let is_full = answer["payload"]["code"] == "LIMIT";
                        assert!(answer["type"] == "ACK" || is_full, "{answer}");
                        accepted += usize::from(!is_full);
                    }
                }
                clients.push(client);
            }
            assert!(accepted > 256, "{accepted} were accepted");
            attack.report_started(0);
            attack.wait_for_end();
        }
    };
    check_under_attack(&mut sandbox, &[&listeners(0), &listeners(1)]);
}

#[test]
fn flood_of_valid_tokens_affects_no_other_client() {
    let mut sandbox = Sandbox::with_config(SMALL_LIMITS);
    let resumes = |name: &'static str| {
        move |attack: &Attack<'_>| {
            let (mut token, mut session_id) = (None, Value::Null);
            for round in 0.. {
                if round == 20 {
                    attack.report_started(1);
                }
                let client = attack.connect();
                client.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload":
                    {"agent": name, "capabilities": {"resume": true},
                     "session": session(token.as_ref())}}));
                let Some(mut welcome) = client.receive() else { break };
                assert_eq!(welcome["type"], "WELCOME", "{welcome}");
                let current = welcome["payload"]["session_id"].take();
                assert!(round == 0 || current == session_id, "{current} is not {session_id}");
                (session_id, token) = (current, Some(welcome["payload"]["resume_token"].take()));
                let streams: Vec<_> = (0..100)
                    .map(|peer| json!({"peer": format!("Peer-{peer}"), "topic": "", "last_seq": 0}))
                    .collect();
                client.send_json(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 0,
                    "payload": {"session_id": session_id, "streams": streams}}));
                if round > 0 {
                    let Some(ping) = client.receive() else { break };
                    assert_eq!(ping["type"], "PING", "{ping}");
                }
                let Some(sync) = client.receive() else { break };
                assert_eq!(sync["type"], "SYNC", "{sync}");
            }
        }
    };
    check_under_attack(&mut sandbox, &[&resumes("Often"), &resumes("Again"), &resumes("Always")]);
}

/// Some agents send best-effort messages without a pause, others wait for each ACK, and the rest
/// are idle.
#[test]
fn flooded_daemon_says_bye_to_readers_and_keeps_accepted_messages() {
    let mut sandbox = Sandbox::new();
    sandbox.join("Away").leave();
    let accepted = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        let idle = ["Ann", "Bob"].map(|name| {
            let mut idle = sandbox.join(name);
            scope.spawn(move || {
                assert_eq!(idle.expect("BYE")["payload"]["reason"], "stop");
                Instant::now()
            })
        });
        let mut sink = sandbox.join("Sink");
        // The daemon gives the sink a second for all that it has left.
        scope.spawn(move || sink.receive_to_end());
        for number in 0..8 {
            let mut flooder = sandbox.join(&format!("Flooder-{number}"));
            let block = frame(&send("f", "Sink", "x", &json!({})).to_string()).repeat(200);
            scope.spawn(move || while flooder.try_send_bytes(&block) {});
        }
        for number in 0..4 {
            let keeper = sandbox.join(&format!("Keeper-{number}"));
            let accepted = &accepted;
            scope.spawn(move || send_until_bye(keeper, &format!("{number}"), accepted));
        }
        until("200 messages are accepted", || accepted.lock().len() >= 200);
        let asked = Instant::now();
        let stopped = sandbox.run(["down"]);
        assert!(stopped.status.success(), "{stopped:?}");
        for idle in idle {
            let heard = idle.join().unwrap().duration_since(asked);
            println!("BYE {} ms after the start of `down`", heard.as_millis());
        }
    });
    assert!(sandbox.await_daemon_end().success());
    sandbox.start();
    let (mut away, mut left) = (sandbox.join("Away"), accepted.into_inner());
    let mut received = BTreeSet::new();
    while !left.is_empty() {
        let delivery = away.expect("DELIVER");
        away.acknowledge(&delivery);
        let body = delivery["payload"]["body"].as_str().unwrap().to_owned();
        left.remove(&body);
        assert!(received.insert(body), "{delivery}");
    }
}

/// Sends at-least-once messages to `Away`, each after the answer to the one before, until the
/// daemon says BYE.
fn send_until_bye(mut client: Raw, name: &str, accepted: &Mutex<BTreeSet<String>>) {
    for number in 0.. {
        let body = format!("{name}-{number}");
        let message = send(&body, "Away", &body, &json!({"requires_ack": true}));
        if !client.try_send_bytes(&frame(&message.to_string())) {
            return;
        }
        match client.receive() {
            Some(answer) if answer["type"] == "ACK" => _ = accepted.lock().insert(body),
            Some(answer) if ["BUSY", "NACK"].contains(&answer["type"].as_str().unwrap()) => {}
            Some(answer) => return assert_eq!(answer["type"], "BYE", "{answer}"),
            None => return,
        }
    }
}

fn wait_for(sandbox: &Sandbox, name: &str) {
    wait_until(sandbox, &format!(r#""name":"{name}","here":true"#));
}

fn wait_until_away(sandbox: &Sandbox, name: &str) {
    wait_until(sandbox, &format!(r#""name":"{name}","here":false"#));
}

#[track_caller]
fn wait_until(sandbox: &Sandbox, row: &str) {
    until(row, || {
        let mut guest = sandbox.connect();
        guest.send_json(
            &json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {"mode": "guest"}}),
        );
        guest.expect("WELCOME");
        guest.send_json(&json!({"v": 1, "type": "SEND", "id": "a", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": "agents"}}));
        guest.receive_text().unwrap().contains(row)
    });
}
