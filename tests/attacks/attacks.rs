//! The attacks: ways in which clients can spend a daemon's time or memory.

use super::site::{Site, Stage};
use agent_relay::cli::bench::route::End;
use platform::transport::{Stream, Written};
use protocol::{
    frame,
    payload::{Auth, Capabilities, Hello},
};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    iter,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};
use testkit::sandbox::Daemon;

/// The frames that an attacker writes at once.
const BATCH: u64 = 64;

/// An attack, by one client or several.
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) config: &'static str,
    /// The number of rules in the policy.
    pub(super) rules: usize,
    /// Prepares the daemon. What is returned stays connected.
    pub(super) prepare: fn(&Site, Stage) -> io::Result<Vec<End>>,
    /// The frames of an attacker from this number on, after it has joined.
    pub(super) frames: fn(&Site, Stage, u64) -> Vec<Value>,
    /// How an attacker joins.
    pub(super) join: fn(&Site, Stage) -> io::Result<End>,
    /// Whether an attacker joins again after each batch.
    pub(super) reconnects: bool,
}

const PLAIN: Attack = Attack {
    name: "",
    config: "",
    rules: 0,
    prepare: |_, _| Ok(Vec::new()),
    frames: |_, _, _| Vec::new(),
    join: join_as_agent,
    reconnects: false,
};

/// All attacks.
pub(super) const ATTACKS: [Attack; 18] = [
    Attack {
        name: "topic floods, 25,600 patterns",
        prepare: subscribe_to_patterns,
        frames: |_, _, from| batch(from, |id| send(id, json!({"topic": "a.b.c.d"}))),
        ..PLAIN
    },
    Attack {
        name: "unknown names",
        frames: |_, stage, from| {
            batch(from, |id| send(id, json!({"to": format!("none-{}-{id}", stage.attacker)})))
        },
        ..PLAIN
    },
    Attack {
        name: "status, 3,900 names",
        prepare: know_names,
        frames: |_, _, from| batch(from, |id| ask(id, "status", json!({}))),
        ..PLAIN
    },
    Attack {
        name: "agents, 3,900 names",
        prepare: know_names,
        frames: |_, _, from| batch(from, |id| ask(id, "agents", json!({}))),
        ..PLAIN
    },
    Attack {
        name: "inbox over 10,000",
        config: "queue_max_messages = 40000\nqueue_max_bytes = 134217728\n",
        prepare: fill_inbox,
        frames: |_, _, from| {
            batch(from, |id| ask(id, "inbox", json!({"agent": "Full", "limit": 1})))
        },
        join: join_as_operator,
        ..PLAIN
    },
    Attack {
        name: "message of unknown ids",
        frames: |_, stage, from| {
            batch(from, |id| {
                ask(id, "message", json!({"id": format!("none-{}-{id}", stage.attacker)}))
            })
        },
        join: join_as_operator,
        ..PLAIN
    },
    Attack {
        name: "second daemons on the home",
        // Once the attacked daemon has ended, a second one listens, and is killed.
        join: |site, stage| {
            Err(match Daemon::try_start(site.second_daemon(stage.attacker)) {
                Ok(_) => io::Error::other("the second daemon listens"),
                Err(log) => io::Error::other(log),
            })
        },
        reconnects: true,
        ..PLAIN
    },
    Attack {
        name: "RESUME loops",
        join: join_with_messages,
        frames: |_, stage, from| {
            batch(from, |id| {
                let payload =
                    json!({"agent": attacker(stage.attacker), "streams": {"": {"last_seq": 0}}});
                json!({"v": 1, "type": "RESUME", "id": id, "ts": 0, "payload": payload})
            })
        },
        ..PLAIN
    },
    Attack {
        name: "subscriptions that come and go",
        frames: |_, _, from| {
            batch(from, |id| {
                let kind = if id.ends_with(['0', '2', '4', '6', '8']) { "" } else { "UN" };
                json!({"v": 1, "type": format!("{kind}SUBSCRIBE"), "id": id, "ts": 0,
                    "topic": "a.b", "payload": {}})
            })
        },
        ..PLAIN
    },
    Attack {
        name: "names with mail to themselves",
        join: join_by_a_new_name,
        reconnects: true,
        ..PLAIN
    },
    Attack {
        name: "guests that fill a queue",
        prepare: know_away,
        frames: |_, stage, from| batch(from, |id| send_acked(&stage.id(id), "Away", json!({}))),
        join: join_as_guest,
        ..PLAIN
    },
    Attack {
        name: "connections",
        join: |site, stage| connect_and_join(site, stage, &[]),
        reconnects: true,
        ..PLAIN
    },
    Attack {
        name: "connections that begin a frame",
        prepare: begin_frames,
        join: |site, stage| connect_and_join(site, stage, &[0, 1, 0, 0, b'{']),
        reconnects: true,
        ..PLAIN
    },
    Attack {
        name: "1,200 half-read frames of 59 KB",
        prepare: begin_frames_of_agents,
        reconnects: true,
        ..PLAIN
    },
    Attack {
        name: "500 unread mailboxes, long frames",
        join: |site, stage| send_long_frames_unread(site, stage),
        reconnects: true,
        ..PLAIN
    },
    Attack {
        name: "reconnects to 64,000 streams",
        prepare: open_streams,
        reconnects: true,
        ..PLAIN
    },
    Attack {
        name: "at least once, ttl 1",
        prepare: know_away,
        frames: |_, stage, from| {
            batch(from, |id| send_acked(&stage.id(id), "Away", json!({"ttl_ms": 1})))
        },
        ..PLAIN
    },
    Attack {
        name: "broadcasts to busy, 1,000 rules",
        config: "queue_max_messages = 10\n",
        rules: 1_000,
        prepare: join_busy_recipients,
        frames: |_, stage, from| batch(from, |id| send_acked(&stage.id(id), "*", json!({}))),
        ..PLAIN
    },
];

fn batch(from: u64, frame: impl Fn(&str) -> Value) -> Vec<Value> {
    (from..from + BATCH).map(|number| frame(&number.to_string())).collect()
}

fn send(id: &str, address: Value) -> Value {
    let payload = json!({"kind": "message", "body": "x"});
    let mut send = json!({"v": 1, "type": "SEND", "id": id, "ts": 0, "payload": payload});
    let (Value::Object(send_members), Value::Object(address)) = (&mut send, address) else {
        unreachable!("both are objects")
    };
    send_members.extend(address);
    send
}

/// A SEND with at-least-once delivery, and further members of its `payload_meta`.
fn send_acked(id: &str, to: &str, mut meta: Value) -> Value {
    meta["requires_ack"] = json!(true);
    send(id, json!({"to": to, "payload_meta": meta}))
}

fn ask(id: &str, body: &str, data: Value) -> Value {
    json!({"v": 1, "type": "SEND", "id": id, "ts": 0, "to": "@relay",
        "payload": {"kind": "request", "body": body, "data": data}})
}

fn attacker(number: usize) -> String {
    format!("attacker-{number}")
}

fn join_as_agent(site: &Site, stage: Stage) -> io::Result<End> {
    End::join(&site.daemon, &attacker(stage.attacker), 64)
}

fn join_as_operator(site: &Site, _: Stage) -> io::Result<End> {
    let auth = Some(Auth { key: Some(site.operator_key.reveal().to_owned()) });
    let hello = Hello { mode: Some("operator".to_owned()), auth, ..Hello::default() };
    End::join_with(&site.daemon, &hello)
}

fn join_as_guest(site: &Site, _: Stage) -> io::Result<End> {
    let mode = Some("guest".to_owned());
    End::join_with(&site.daemon, &Hello { mode, ..Hello::default() })
}

/// Joins by a name that nobody had, and sends a message to itself.
fn join_by_a_new_name(site: &Site, _: Stage) -> io::Result<End> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("new-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let mut end = End::join(&site.daemon, &name, 64)?;
    exchange(&mut end, [send_acked("own", &name, json!({}))].into_iter())?;
    Ok(end)
}

/// Opens connections that write these bytes only, and joins.
fn connect_and_join(site: &Site, stage: Stage, bytes: &[u8]) -> io::Result<End> {
    let connect = |_| {
        let stream = Stream::connect(&site.daemon.endpoint)?;
        (&stream).write_all(bytes)?;
        Ok(stream)
    };
    let streams: io::Result<Vec<_>> = (0..BATCH).map(connect).collect();
    let end = join_as_agent(site, stage);
    drop(streams?);
    end
}

/// Writes the frames, and waits for as many answers.
fn exchange(end: &mut End, frames: impl Iterator<Item = Value>) -> io::Result<()> {
    let mut frames = frames.peekable();
    while frames.peek().is_some() {
        let part: Vec<_> = frames.by_ref().take(BATCH as usize).collect();
        end.write(&encoded(&part))?;
        end.await_frames(part.len())?;
    }
    Ok(())
}

/// The bytes of frames.
pub(super) fn encoded(frames: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for json in frames {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(json.to_string().as_bytes());
        frame::seal(&mut bytes, start, 0);
    }
    bytes
}

/// Opens connections that write most of a large frame, and nothing more.
fn begin_frames(site: &Site, stage: Stage) -> io::Result<Vec<End>> {
    let begin = |_| {
        let end = End::connect(&site.daemon.endpoint)?;
        // The daemon may have closed the connection to make room for others.
        end.write(&[0, 1, 0, 0]).and_then(|()| end.write(&[b' '; 60_000])).ok();
        Ok(end)
    };
    (0..stage.part(250)).map(begin).collect()
}

/// Joins agents that write most of a large frame, and nothing more.
fn begin_frames_of_agents(site: &Site, stage: Stage) -> io::Result<Vec<End>> {
    let begin = |number| {
        let end = End::join(&site.daemon, &format!("half-{number}"), 64)?;
        // The daemon may have closed the connection to make room for others.
        end.write(&[0, 16, 0, 0]).and_then(|()| end.write(&[b' '; 59_000])).ok();
        Ok(end)
    };
    (0..stage.part(1_200)).map(begin).collect()
}

/// Joins agents that get a long message, ask for their mail again and again, read nothing, and each
/// send a frame of the largest size, as far as the daemon reads it.
fn send_long_frames_unread(site: &Site, stage: Stage) -> io::Result<End> {
    let mut sender = join_as_agent(site, stage)?;
    let mut ends = Vec::new();
    for number in 0..stage.part(500) / stage.attackers as u64 {
        let name = format!("unread-{}-{number}", stage.attacker);
        let end = End::join(&site.daemon, &name, 64)?;
        let mut message = send_acked(&stage.id(&number.to_string()), &name, json!({}));
        message["payload"]["body"] = "x".repeat(60_000).into();
        exchange(&mut sender, iter::once(message))?;
        ends.push(end);
    }
    for end in &ends {
        let frames: Vec<_> = (0..16).map(|id| ask(&id.to_string(), "inbox", json!({}))).collect();
        end.write(&encoded(&frames))?;
    }
    let mut frame = vec![b' '; 4 + (1 << 20)];
    frame[..4].copy_from_slice(&(1_u32 << 20).to_be_bytes());
    // The last byte is missing, so that the frame stays where it is.
    let mut rests = vec![&frame[..frame.len() - 1]; ends.len()];
    for _ in 0..stage.part(100) {
        for (end, rest) in ends.iter().zip(&mut rests) {
            // The daemon may have closed the connection to make room for others.
            if let Ok(Written::Bytes(count)) = end.write_now(rest) {
                *rest = &rest[count..];
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(sender)
}

/// Ends the session, and waits until the daemon has closed the connection.
pub(super) fn leave_and_wait(end: &mut End) -> io::Result<()> {
    end.write(&encoded(&[json!({"v": 1, "type": "BYE", "id": "bye", "ts": 0, "payload": {}})]))?;
    while end.discard().is_ok() {}
    Ok(())
}

/// Makes a name known whose agent is away.
fn know_away(site: &Site, _: Stage) -> io::Result<Vec<End>> {
    End::join(&site.daemon, "Away", 64)?.leave()?;
    Ok(Vec::new())
}

fn subscribe_to_patterns(site: &Site, stage: Stage) -> io::Result<Vec<End>> {
    let subscribe = |client: u64| {
        let mut end = End::join(&site.daemon, &format!("subscriber-{client}"), 64)?;
        let patterns = 0..256_u64;
        exchange(
            &mut end,
            patterns.map(|number| {
                let topic = format!("p{client}x{number}.*.c.*");
                json!({"v": 1, "type": "SUBSCRIBE", "id": number.to_string(), "ts": 0,
                    "topic": topic, "payload": {}})
            }),
        )?;
        Ok(end)
    };
    (0..stage.part(100)).map(subscribe).collect()
}

fn know_names(site: &Site, stage: Stage) -> io::Result<Vec<End>> {
    for number in 0..stage.part(3_900) {
        leave_and_wait(&mut End::join(&site.daemon, &format!("known-{number}"), 64)?)?;
    }
    Ok(Vec::new())
}

/// Sends at-least-once messages to an agent that is away.
fn fill_inbox(site: &Site, stage: Stage) -> io::Result<Vec<End>> {
    leave_and_wait(&mut End::join(&site.daemon, "Full", 64)?)?;
    let mut end = End::join(&site.daemon, "filler", 64)?;
    exchange(
        &mut end,
        (0..stage.part(10_000)).map(|number| send_acked(&number.to_string(), "Full", json!({}))),
    )?;
    Ok(Vec::new())
}

/// Joins, and gets messages that the daemon retains for the session.
fn join_with_messages(site: &Site, stage: Stage) -> io::Result<End> {
    let mut end = join_as_agent(site, stage)?;
    send_to(site, stage, &mut end, stage.part(1_000), |_| json!({}))?;
    Ok(end)
}

/// Delivers messages to the attackers, each in a stream of its own.
fn open_streams(site: &Site, stage: Stage) -> io::Result<Vec<End>> {
    let each = stage.part(64_000) / stage.attackers as u64;
    for attacker in 0..stage.attackers {
        let stage = stage.of(attacker);
        let mut end = join_as_agent(site, stage)?;
        send_to(site, stage, &mut end, each, |number| json!({"topic": format!("t.{number}")}))?;
    }
    Ok(Vec::new())
}

/// Sends messages to an attacker, which reads them.
fn send_to(
    site: &Site,
    stage: Stage,
    end: &mut End,
    count: u64,
    more: fn(u64) -> Value,
) -> io::Result<()> {
    let from = End::join(&site.daemon, &format!("sender-{}", stage.attacker), 64)?;
    for start in (0..count).step_by(BATCH as usize) {
        let part = (start..count.min(start + BATCH)).map(|number| {
            let mut address = more(number);
            address["to"] = attacker(stage.attacker).into();
            send(&number.to_string(), address)
        });
        let part: Vec<_> = part.collect();
        from.write(&encoded(&part))?;
        end.await_frames(part.len())?;
    }
    from.leave()
}

/// Joins recipients that acknowledge nothing.
fn join_busy_recipients(site: &Site, stage: Stage) -> io::Result<Vec<End>> {
    let capabilities = Capabilities { max_inflight: 1, ..Capabilities::default() };
    let join = |number| {
        let agent = Some(format!("busy-{number}"));
        End::join_with(&site.daemon, &Hello { agent, capabilities, ..Hello::default() })
    };
    (0..stage.part(50)).map(join).collect()
}
