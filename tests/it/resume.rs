//! Connections are cut and daemons die while messages flow both ways: no message is lost or
//! duplicated, and each sender's messages arrive in order.

use crate::{
    upgrade::DetachedDaemon,
    wrap::{wait_until_heard, wrap_line_reader},
};
use client::{Client, ConnectionState, Ended, Event, Meta, Outgoing, SendId, Settings};
use parking_lot::Mutex;
use platform::{
    endpoint::Endpoint,
    transport::{Listener, Stream},
};
use protocol::code::ErrorCode;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};
use testkit::{raw::Raw, sandbox::Sandbox, waiting::WATCHDOG};

/// The number of messages in each direction in a round. In each round, a connection is cut once.
const MESSAGES: usize = 200;

/// Approximate bytes that a client receives in a round.
const ROUND_BYTES: usize = 250 * MESSAGES;

/// The number of rounds. More would take too long, because of the backoff between reconnections.
const ROUNDS: usize = 5;

/// The bytes that a client still receives before its connection is cut.
struct Budget(AtomicUsize);

impl Budget {
    const NONE: usize = usize::MAX;

    /// Takes `count` bytes from the budget. Returns how many of them are passed on. If these are
    /// fewer than `count`, the budget is used up, and the next connection has no limit.
    fn spend(&self, count: usize) -> usize {
        let spent = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| match left {
            Self::NONE => None,
            left => Some(left.checked_sub(count).unwrap_or(Self::NONE)),
        });
        spent.map_or(count, |left| left.min(count))
    }
}

/// A proxy between a client and the daemon, which can cut the connection.
struct Proxy {
    endpoint: Endpoint,
    listener: Arc<Listener>,
    streams: Arc<Mutex<Vec<Stream>>>,
    budget: Arc<Budget>,
    accepting: Option<thread::JoinHandle<()>>,
}

impl Proxy {
    fn start(sandbox: &Sandbox, name: &str) -> Self {
        let endpoint = Endpoint::inside(sandbox.directory(), name).unwrap();
        let listener = Arc::new(Listener::bind(&endpoint).unwrap());
        let streams = Arc::<Mutex<Vec<Stream>>>::default();
        let budget = Arc::new(Budget(AtomicUsize::new(Budget::NONE)));
        let (daemon, accepts, opened) =
            (sandbox.endpoint(), Arc::clone(&listener), Arc::clone(&streams));
        let spends = Arc::clone(&budget);
        let accepting = thread::spawn(move || {
            while let Ok(near) = accepts.accept() {
                // Without a daemon, the proxy ends the client's connection, so that the client
                // tries again.
                let Ok(far) = Stream::connect(&daemon) else {
                    near.hang_up();
                    continue;
                };
                opened.lock().extend([near.clone(), far.clone()]);
                let (from, to) = (near.clone(), far.clone());
                thread::spawn(move || copy(&from, &to, |count| count));
                let spends = Arc::clone(&spends);
                thread::spawn(move || copy(&far, &near, |count| spends.spend(count)));
            }
        });
        Self { endpoint, listener, streams, budget, accepting: Some(accepting) }
    }

    /// Cuts the connection after this many more bytes to the client, also within a frame.
    fn cut_after(&self, bytes: usize) {
        self.budget.0.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.stop();
        for stream in self.streams.lock().drain(..) {
            stream.hang_up();
        }
        drop(self.accepting.take().map(thread::JoinHandle::join));
    }
}

/// Copies bytes until `allow` permits fewer than were read.
fn copy(mut from: &Stream, mut to: &Stream, allow: impl Fn(usize) -> usize) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let allowed = allow(count);
        if to.write_all(&buffer[..allowed]).is_err() || allowed < count {
            break;
        }
    }
    from.hang_up();
    to.hang_up();
}

/// A client of the library that acknowledges each message.
struct Agent {
    client: Arc<Client>,
    facts: mpsc::Receiver<Fact>,
    sent: HashMap<SendId, usize>,
    /// The last number received.
    last: Option<usize>,
    /// The reasons of `Missed` events.
    missed: Vec<String>,
}

/// A relevant event of an agent.
#[derive(Debug)]
enum Fact {
    Received(String),
    Accepted(SendId),
    Refused(SendId, String),
    Missed(String),
    Ready(String),
    Ended(Ended),
}

impl Agent {
    fn join(endpoint: &Endpoint, name: &str) -> Self {
        // A busy machine may need more than one cycle of attempts.
        let settings = Settings {
            retry_cycle_after_ms: Some(1_000),
            ..Settings::agent(endpoint.as_text(), name)
        };
        let client = Arc::new(Client::join(settings).unwrap());
        let (sender, facts) = mpsc::channel();
        let (events, acknowledges) = (client.events().clone(), Arc::downgrade(&client));
        thread::spawn(move || {
            for event in events {
                let fact = match event {
                    Event::Delivered(delivery) => {
                        let Some(client) = acknowledges.upgrade() else { return };
                        client.acknowledge(&delivery.id);
                        Fact::Received(delivery.body.clone())
                    }
                    Event::Accepted { send_id, .. } => Fact::Accepted(send_id),
                    Event::Refused { send_id, nack } => Fact::Refused(send_id, nack.code),
                    Event::Missed { why } => Fact::Missed(why),
                    Event::State(ConnectionState::Ready(welcome)) => {
                        Fact::Ready(welcome.session_id)
                    }
                    Event::Ended(ended) => Fact::Ended(ended),
                    _ => continue,
                };
                if sender.send(fact).is_err() {
                    return;
                }
            }
        });
        Self { client, facts, sent: HashMap::new(), last: None, missed: Vec::new() }
    }

    fn send(&mut self, to: &str, number: usize, at_least_once: bool) {
        let meta = Meta { requires_ack: at_least_once, ..Meta::default() };
        let message = Outgoing { meta, ..Outgoing::message(to, number.to_string()) };
        let id = self.client.send(message).unwrap();
        self.sent.insert(id, number);
    }

    #[track_caller]
    fn next_fact(&self) -> Fact {
        self.facts.recv_timeout(WATCHDOG).expect("something happens")
    }

    /// Receives numbers in order, each once, until all of `missing` have arrived and `unanswered`
    /// sends are accepted. Returns the agent's at-most-once numbers that were refused.
    #[track_caller]
    fn receive(&mut self, mut missing: HashSet<usize>, mut unanswered: usize) -> HashSet<usize> {
        let mut refused = HashSet::new();
        while !missing.is_empty() || unanswered > 0 {
            let fact = self.facts.recv_timeout(WATCHDOG);
            let fact = fact.unwrap_or_else(|_| {
                panic!("no {missing:?}, {unanswered} unanswered; missed: {:?}", self.missed)
            });
            match fact {
                Fact::Received(body) => {
                    let number = body.parse().unwrap();
                    assert!(self.last < Some(number), "{number} arrived after {:?}", self.last);
                    self.last = Some(number);
                    missing.remove(&number);
                }
                Fact::Accepted(id) => {
                    assert!(self.sent.contains_key(&id));
                    unanswered -= 1;
                }
                Fact::Refused(id, code) => {
                    assert_eq!(code, "AGENT_OFFLINE", "only an absent recipient is a reason");
                    refused.insert(self.sent[&id]);
                }
                Fact::Missed(why) => self.missed.push(why),
                Fact::Ready(_) => {}
                Fact::Ended(ended) => panic!("{ended}"),
            }
        }
        refused
    }
}

/// Exchanges first messages. Then both names are stored, and each agent has a stream to resume.
#[track_caller]
fn exchange_first_messages(ann: &mut Agent, bob: &mut Agent) {
    bob.send("Ann", 0, true);
    ann.send("Bob", 0, true);
    for agent in [ann, bob] {
        agent.receive(HashSet::from([0]), 1);
    }
}

/// Exchanges messages between Ann and Bob, while Ann's connection is cut repeatedly.
fn talk_while_cut(seed: u64) {
    let sandbox = Sandbox::new();
    let proxy = Proxy::start(&sandbox, "proxy");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut ann = Agent::join(&proxy.endpoint, "Ann");
    let mut bob = Agent::join(&sandbox.endpoint(), "Bob");
    exchange_first_messages(&mut ann, &mut bob);
    let mut next = 1;
    for _ in 0..ROUNDS {
        let numbers: Vec<_> = (next..next + MESSAGES).collect();
        next += MESSAGES;
        proxy.cut_after(random.next_u32() as usize % ROUND_BYTES);
        let (mut at_least_once, mut at_most_once) = (HashSet::new(), HashSet::new());
        for (index, number) in numbers.iter().enumerate() {
            // The last message of a round requires an ACK; by its arrival, all refusals have
            // arrived.
            let requires_ack = index + 1 == MESSAGES || random.next_u32().is_multiple_of(2);
            if requires_ack { &mut at_least_once } else { &mut at_most_once }.insert(*number);
            bob.send("Ann", *number, requires_ack);
            ann.send("Bob", *number, true);
        }
        let refused = bob.receive(numbers.iter().copied().collect(), at_least_once.len());
        assert!(refused.is_subset(&at_most_once), "{refused:?}");
        let mut missing: HashSet<_> = at_least_once.union(&at_most_once).copied().collect();
        missing.retain(|number| !refused.contains(number));
        ann.receive(missing, MESSAGES);
        assert_eq!(ann.missed, Vec::<String>::new());
    }
}

#[test]
fn cut_connection_loses_nothing() {
    thread::scope(|scope| {
        for seed in 0..3 {
            scope.spawn(move || talk_while_cut(seed));
        }
    });
}

#[test]
fn killed_daemon_loses_no_at_least_once_message() {
    let mut sandbox = Sandbox::new();
    let mut ann = Agent::join(&sandbox.endpoint(), "Ann");
    let mut bob = Agent::join(&sandbox.endpoint(), "Bob");
    exchange_first_messages(&mut ann, &mut bob);
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for round in 0..ROUNDS {
        let numbers: Vec<_> = (1 + round * MESSAGES..=(round + 1) * MESSAGES).collect();
        let kill_at = random.next_u64() as usize % MESSAGES;
        for (index, number) in numbers.iter().enumerate() {
            bob.send("Ann", *number, true);
            ann.send("Bob", *number, true);
            if index == kill_at {
                sandbox.kill();
                sandbox.start();
            }
        }
        let all: HashSet<_> = numbers.iter().copied().collect();
        bob.receive(all.clone(), MESSAGES);
        ann.receive(all, MESSAGES);
    }
}

#[test]
fn replaced_daemon_loses_no_at_least_once_message() {
    let detached = DetachedDaemon::new();
    let endpoint = detached.0.endpoint();
    let mut ann = Agent::join(&endpoint, "Ann");
    let mut bob = Agent::join(&endpoint, "Bob");
    exchange_first_messages(&mut ann, &mut bob);
    let mut cid = detached.0.join("Cid");
    for number in 1..=MESSAGES {
        bob.send("Ann", number, true);
        ann.send("Bob", number, true);
        if number == MESSAGES / 2 {
            detached.run_ok(&["up", "--replace"]);
            assert_eq!(cid.expect("BYE")["payload"]["reason"], "upgrade");
        }
    }
    bob.receive((1..=MESSAGES).collect(), MESSAGES);
    ann.receive((1..=MESSAGES).collect(), MESSAGES);
}

#[test]
fn wrapped_agent_sends_and_receives_after_a_replacement() {
    let detached = DetachedDaemon::new();
    let bob = Agent::join(&detached.0.endpoint(), "Bob");
    let mut ann = wrap_line_reader(&detached.0, "Ann", &[]);
    detached.run_ok(&["up", "--replace"]);
    ann.press("say Bob still here\r");
    loop {
        match bob.next_fact() {
            Fact::Received(body) => break assert_eq!(body, "still here"),
            Fact::Ready(_) => {}
            bad => panic!("{bad:?}"),
        }
    }
    detached.run_ok(&["send", "--as", "Cid", "Ann", "welcome back"]);
    wait_until_heard(&ann, "welcome back");
    assert_eq!(ann.text().matches("ready").count(), 1, "the program was not restarted");
    ann.press("exit 7\r");
    assert_eq!(ann.finish(), 7);
}

#[test]
fn session_keeps_its_subscriptions_over_a_daemon_crash() {
    let mut sandbox = Sandbox::new();
    let ann = Agent::join(&sandbox.endpoint(), "Ann");
    ann.client.subscribe("news.*").unwrap();
    sandbox.kill();
    sandbox.start();
    // Ann may have reconnected or not, but her subscription is in effect in both cases.
    let news = ["send", "--json", "--topic", "news.today", "*", "heard"];
    let sent = sandbox.run(news);
    assert!(String::from_utf8_lossy(&sent.stdout).contains(r#""recipients":1"#), "{sent:?}");
    let session = &ann.client.welcome().session_id;
    let back = ann.next_fact();
    assert!(matches!(&back, Fact::Ready(session_id) if session_id == session), "{back:?}");
    let received = ann.next_fact();
    assert!(matches!(&received, Fact::Received(body) if body == "heard"), "{received:?}");
}

#[test]
fn session_taken_over_by_its_token_does_not_reconnect() {
    let sandbox = Sandbox::new();
    let ann = Agent::join(&sandbox.endpoint(), "Ann");
    let token = ann.client.welcome().resume_token.clone();
    let mut newer: Raw = sandbox.connect();
    newer.send_json(&json!({
        "v": 1, "type": "HELLO", "id": "h", "ts": 0,
        "payload": {"agent": "Ann", "session": {"resume_token": token}},
    }));
    let welcome = newer.expect("WELCOME");
    assert_eq!(welcome["payload"]["session_id"], ann.client.welcome().session_id);
    loop {
        match ann.next_fact() {
            Fact::Ended(ended) => {
                break assert!(ended.has_code(ErrorCode::SessionReplaced), "{ended}");
            }
            Fact::Ready(_) => {}
            bad => panic!("{bad:?}"),
        }
    }
}
