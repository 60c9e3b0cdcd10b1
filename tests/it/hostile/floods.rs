//! Those who connect, say or leave unread more than anyone needs.

use super::siege::{SMALL, Siege, frame, hello, withstands};
use crate::{
    raw::session,
    sandbox::{Sandbox, WATCHDOG},
};
use serde_json::{Value, json};
use std::{thread, time::Duration};

/// Connections that never finish their handshake.
const HALF_OPEN: usize = 1000;

fn send(id: &str, to: &str, body: &str, meta: &Value) -> Value {
    json!({"v": 1, "type": "SEND", "id": id, "ts": 0, "to": to,
        "payload": {"kind": "message", "body": body}, "payload_meta": meta})
}

#[test]
fn a_thousand_half_open_connections() {
    let files = platform::process::allow_open_files(4 * HALF_OPEN as u64).unwrap();
    assert!(files >= 2 * HALF_OPEN as u64, "the system allows {files} open files");
    let mut sandbox = Sandbox::with_config(&format!("{SMALL}handshake_timeout_ms = 60000\n"));
    let half_open = |siege: &Siege<'_>| {
        let hello = frame(&hello("Nobody").to_string());
        let said = [&hello[..0], &hello[..2], &hello[..hello.len() - 1]];
        let mut foes = Vec::new();
        for number in 0..HALF_OPEN {
            let foe = siege.connect();
            foe.say_bytes(said[number % said.len()]);
            foes.push(foe);
        }
        siege.in_place();
        siege.hold_out();
    };
    withstands(&mut sandbox, &[&half_open]);
}

/// Its queue fills, which its senders hear, and nobody else.
#[test]
fn a_client_that_never_reads() {
    let mut sandbox = Sandbox::with_config(SMALL);
    let sloth = |siege: &Siege<'_>| {
        let _sloth = siege.join("Sloth");
        siege.in_place();
        siege.hold_out();
    };
    let pusher = |siege: &Siege<'_>| {
        wait_for(siege.sandbox, "Sloth");
        let foe = siege.join("Pusher");
        let (mut taken, mut busy) = (0, 0);
        let body = "x".repeat(8 << 10);
        while siege.goes_on() {
            if busy == 1 {
                siege.in_place();
            }
            foe.say(&send(&format!("p-{taken}"), "Sloth", &body, &json!({"requires_ack": true})));
            match foe.hear() {
                Some(answer) if answer["type"] == "ACK" => taken += 1,
                Some(answer) if answer["type"] == "BUSY" => busy += 1,
                Some(answer) => assert_eq!(answer["type"], "PING", "{answer}"),
                None => break,
            }
        }
        assert!(taken > 100, "{taken} were taken");
    };
    withstands(&mut sandbox, &[&sloth, &pusher]);
}

#[test]
fn a_client_that_never_reads_is_closed_and_its_mail_stays() {
    let sandbox = Sandbox::with_config("heartbeat_ms = 500\n");
    let sloth = sandbox.join("Sloth");
    let mut ann = sandbox.join("Ann");
    ann.send("Sloth", "wake up", json!({"requires_ack": true}));
    ann.expect("ACK");
    drop(ann);
    wait_until_away(&sandbox, "Sloth");
    drop(sloth);
    assert_eq!(sandbox.join("Sloth").expect("DELIVER")["payload"]["body"], "wake up");
}

/// It isn't read from until it takes them; nobody else feels it.
#[test]
fn a_sender_that_never_reads_its_answers() {
    let mut sandbox = Sandbox::with_config(SMALL);
    let deaf = |siege: &Siege<'_>| {
        let foe = siege.join("Deaf");
        let nobody = frame(&send("n", "Nobody", "x", &json!({})).to_string()).repeat(100);
        for round in 0.. {
            if round == 10 {
                siege.in_place();
            }
            if !foe.say_bytes(&nobody) {
                break;
            }
        }
    };
    withstands(&mut sandbox, &[&deaf]);
}

/// Each answer is as long as a frame may be, and many are asked for in what the daemon reads at once.
#[test]
fn one_that_asks_for_much_and_never_reads_it() {
    let mut sandbox = Sandbox::with_config(SMALL);
    let curious = |siege: &Siege<'_>| {
        let foe = siege.join("Curious");
        let mail = send("m", "Curious", &"x".repeat(50 << 10), &json!({"requires_ack": true}));
        for number in 0..20 {
            let mut mail = mail.clone();
            mail["id"] = number.to_string().into();
            foe.say(&mail);
        }
        let request = json!({"v": 1, "type": "SEND", "id": "r", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": "inbox"}});
        foe.say_bytes(&frame(&request.to_string()).repeat(1_000));
        siege.in_place();
        siege.hold_out();
    };
    withstands(&mut sandbox, &[&curious]);
}

#[test]
fn single_bytes_for_ever() {
    let mut sandbox = Sandbox::with_config(SMALL);
    // Frames that are whole at last …
    let patient = |name: &'static str| {
        move |siege: &Siege<'_>| {
            let foe = siege.join(name);
            let bytes = frame(&send("m", name, "to myself", &json!({})).to_string());
            for round in 0.. {
                if round == 1 {
                    siege.in_place();
                }
                if !bytes.iter().all(|byte| foe.say_bytes(&[*byte])) {
                    break;
                }
                while foe.hear().is_some_and(|heard| heard["type"] != "DELIVER") {}
            }
        }
    };
    // … and one that never is.
    let endless = |siege: &Siege<'_>| {
        let foe = siege.join("Endless");
        let mut said = foe.say_bytes(&(1_u32 << 20).to_be_bytes()) && foe.say_bytes(b"{");
        siege.in_place();
        while said {
            said = foe.say_bytes(b" ");
        }
    };
    withstands(&mut sandbox, &[&patient("Drop"), &patient("Drip"), &endless]);
}

#[test]
fn a_flood_of_hello() {
    let mut sandbox = Sandbox::with_config(SMALL);
    let comes_and_goes = |siege: &Siege<'_>| {
        for round in 0.. {
            if round == 20 {
                siege.in_place();
            }
            if !siege.goes_on() {
                break;
            }
            let foe = siege.connect();
            foe.say(&hello(&format!("name-{}", round % 64)));
            foe.hear();
        }
    };
    // Ann is asked whether she is there, which her client answers.
    let wants_to_be_ann = |siege: &Siege<'_>| {
        for round in 0.. {
            if round == 2 {
                siege.in_place();
            }
            let foes: Vec<_> = (0..16).map(|_| siege.connect()).collect();
            for foe in &foes {
                foe.say(&hello("ANN"));
            }
            let heard: Vec<_> = foes.iter().filter_map(super::siege::Foe::hear).collect();
            let mut codes = heard.iter().map(|error| &error["payload"]["code"]);
            assert!(codes.all(|code| code == "NAME_IN_USE"), "{heard:?}");
            if !siege.goes_on() {
                break;
            }
        }
    };
    let says_it_again = |siege: &Siege<'_>| {
        let foe = siege.join("Parrot");
        let again = frame(&hello("Parrot").to_string()).repeat(32);
        siege.in_place();
        while foe.say_bytes(&again) {
            let heard: Vec<_> = (0..32).map_while(|_| foe.hear()).collect();
            assert!(heard.iter().all(|error| error["payload"]["code"] == "INVALID"), "{heard:?}");
        }
    };
    withstands(&mut sandbox, &[&comes_and_goes, &comes_and_goes, &wants_to_be_ann, &says_it_again]);
}

#[test]
fn a_flood_of_subscribe() {
    let mut sandbox = Sandbox::with_config(SMALL);
    let curious = |number: usize| {
        move |siege: &Siege<'_>| {
            let foe = siege.join(&format!("Curious-{number}"));
            // Long, so that they cost what they can cost, and all on the way of one topic.
            let topic = |place: usize| format!("a.*.{}{place:03}.>", "x".repeat(240));
            for round in 0.. {
                if round == 2 {
                    siege.in_place();
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
                    foe.say_bytes(&some.concat()) && (0..some.len()).all(|_| foe.hear().is_some())
                }) {
                    break;
                }
            }
        }
    };
    withstands(&mut sandbox, &[&curious(0), &curious(1), &curious(2)]);
}

/// Whatever it says, none of them is welcomed as somebody else.
#[test]
fn a_flood_of_resume_with_wrong_tokens() {
    let mut sandbox = Sandbox::with_config(SMALL);
    let guesses = |siege: &Siege<'_>| {
        let mut foe = siege.connect();
        for guess in 0_u64.. {
            if guess == 100 {
                siege.in_place();
            }
            foe.say(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 0,
                "payload": {"session_id": "s-1", "resume_token": format!("{guess:064x}")}}));
            let Some(answer) = foe.hear() else { break };
            if answer["payload"]["code"] == "HANDSHAKE_TIMEOUT" {
                foe = siege.connect();
                continue;
            }
            let refused =
                answer["type"] == "NACK" || answer["payload"]["code"] == "RESUME_REJECTED";
            assert!(refused, "{answer}");
        }
    };
    let guesses_with_hello = |siege: &Siege<'_>| {
        for guess in 0_u64.. {
            if guess == 10 {
                siege.in_place();
            }
            if !siege.goes_on() {
                break;
            }
            let foe = siege.connect();
            foe.say(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload":
                {"agent": format!("guess-{}", guess % 8),
                 "session": {"resume_token": format!("{guess:064x}")}}}));
            if let Some(answer) = foe.hear() {
                let is_later = answer["payload"]["code"] == "NAME_IN_USE";
                assert!(answer["payload"]["code"] == "RESUME_REJECTED" || is_later, "{answer}");
            }
        }
    };
    withstands(&mut sandbox, &[&guesses, &guesses, &guesses_with_hello]);
}

/// Each change of a session with many subscriptions says them all again to the store, which is slower.
#[test]
fn a_flood_of_changes_of_a_large_session() {
    let mut sandbox = Sandbox::with_config(&format!("{SMALL}heartbeat_ms = 60000\n"));
    let fickle = |number: usize| {
        move |siege: &Siege<'_>| {
            let foe = siege.join(&format!("Fickle-{number}"));
            let change = |kind: &str, topic: &str| {
                frame(
                    &json!({"v": 1, "type": kind, "id": "s", "ts": 0, "topic": topic,
                        "payload": {}})
                    .to_string(),
                )
            };
            for place in 0..255 {
                foe.say_bytes(&change("SUBSCRIBE", &format!("{place:03}{}", "x".repeat(250))));
                foe.hear();
            }
            let both = [change("SUBSCRIBE", "t"), change("UNSUBSCRIBE", "t")].concat().repeat(500);
            thread::scope(|scope| {
                scope.spawn(|| while foe.hear().is_some() {});
                for round in 0.. {
                    if round == 20 {
                        siege.in_place();
                    }
                    if !foe.say_bytes(&both) {
                        break;
                    }
                }
            });
        }
    };
    withstands(&mut sandbox, &[&fickle(0), &fickle(1), &fickle(2)]);
}

/// As many as a daemon has to welcome, each with all it may listen to.
#[test]
fn five_hundred_with_all_their_subscriptions() {
    const CLIENTS: usize = 500;
    let files = platform::process::allow_open_files(4 * CLIENTS as u64).unwrap();
    assert!(files >= 2 * CLIENTS as u64, "the system allows {files} open files");
    let mut sandbox = Sandbox::with_config(&format!("{SMALL}heartbeat_ms = 60000\n"));
    let listeners = |number: usize| {
        move |siege: &Siege<'_>| {
            let (mut foes, mut taken) = (Vec::new(), 0);
            for place in (number..CLIENTS).step_by(2) {
                let foe = siege.join(&format!("Listener-{place}"));
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
                    assert!(foe.say_bytes(&some.concat()) || !siege.goes_on());
                    for _ in some {
                        let Some(answer) = foe.hear() else { return };
                        let is_full = answer["payload"]["code"] == "LIMIT";
                        assert!(answer["type"] == "ACK" || is_full, "{answer}");
                        taken += usize::from(!is_full);
                    }
                }
                foes.push(foe);
            }
            assert!(taken > 256, "{taken} were taken");
            siege.in_place();
            siege.hold_out();
        }
    };
    withstands(&mut sandbox, &[&listeners(0), &listeners(1)]);
}

/// They are who they say they are, only far too often.
#[test]
fn a_flood_of_resume_with_right_tokens() {
    let mut sandbox = Sandbox::with_config(SMALL);
    let returns = |name: &'static str| {
        move |siege: &Siege<'_>| {
            let (mut token, mut session_id) = (None, Value::Null);
            for round in 0.. {
                if round == 20 {
                    siege.in_place();
                }
                let foe = siege.connect();
                foe.say(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload":
                    {"agent": name, "capabilities": {"resume": true},
                     "session": session(token.as_ref())}}));
                let Some(mut welcome) = foe.hear() else { break };
                assert_eq!(welcome["type"], "WELCOME", "{welcome}");
                let came = welcome["payload"]["session_id"].take();
                assert!(round == 0 || came == session_id, "{came} is not {session_id}");
                (session_id, token) = (came, Some(welcome["payload"]["resume_token"].take()));
                let streams: Vec<_> = (0..100)
                    .map(|peer| json!({"peer": format!("Peer-{peer}"), "topic": "", "last_seq": 0}))
                    .collect();
                foe.say(&json!({"v": 1, "type": "RESUME", "id": "r", "ts": 0,
                    "payload": {"session_id": session_id, "streams": streams}}));
                let Some(sync) = foe.hear() else { break };
                assert_eq!(sync["type"], "SYNC", "{sync}");
            }
        }
    };
    withstands(&mut sandbox, &[&returns("Often"), &returns("Again"), &returns("Always")]);
}

/// One sender has half of a queue, so that the other half is there for everyone else.
#[test]
fn a_flooder_and_a_quiet_sender_to_one_recipient() {
    let mut sandbox = Sandbox::with_config("queue_max_messages = 100\n");
    let (mut quiet, mut flooder) = (sandbox.join("Quiet"), sandbox.join("Flooder"));
    drop(sandbox.join("Rob"));
    wait_until_away(&sandbox, "Rob");
    let kept = json!({"requires_ack": true});
    for number in 0..120 {
        flooder.send("Rob", "flood", kept.clone());
        let answer = flooder.expect(if number < 50 { "ACK" } else { "BUSY" });
        assert!(number < 50 || answer["payload"]["queue_depth"] == 50, "{answer}");
    }
    quiet.send("Rob", "quiet 0", kept.clone());
    quiet.expect("ACK");

    // And while Rob reads: what is free of the half is the flooder's, the quiet one's is never busy.
    let mut rob = sandbox.join("Rob");
    let mut floods = 0;
    let mut next = 0;
    while next < 20 {
        let heard = rob.expect("DELIVER");
        if heard["from"] == "Quiet" {
            assert_eq!(heard["payload"]["body"], format!("quiet {next}"));
            next += 1;
            quiet.send("Rob", &format!("quiet {next}"), kept.clone());
            quiet.expect("ACK");
        } else {
            floods += 1;
        }
        for _ in 0..3 {
            flooder.send("Rob", "flood", kept.clone());
            let answer = flooder.hear().expect("the connection lasts");
            assert!(answer["type"] == "ACK" || answer["type"] == "BUSY", "{answer}");
        }
        rob.acknowledge(&heard);
    }
    assert!(floods >= 50, "{floods} of the flooder's");
    assert!(sandbox.is_up());
}

/// Waits until somebody is here: without a message nobody else hears of it.
fn wait_for(sandbox: &Sandbox, name: &str) {
    wait_until(sandbox, &format!(r#""name":"{name}","here":true"#));
}

fn wait_until_away(sandbox: &Sandbox, name: &str) {
    wait_until(sandbox, &format!(r#""name":"{name}","here":false"#));
}

#[track_caller]
fn wait_until(sandbox: &Sandbox, row: &str) {
    for _ in 0..WATCHDOG.as_secs() * 100 {
        let mut guest = sandbox.connect();
        guest.say(
            &json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {"mode": "guest"}}),
        );
        guest.expect("WELCOME");
        guest.say(&json!({"v": 1, "type": "SEND", "id": "a", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": "agents"}}));
        if guest.hear_text().unwrap().contains(row) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{row} does not come");
}
