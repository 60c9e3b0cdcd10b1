//! A long conversation: one message a second to each of two wrapped full-screen programs, which
//! answer it. `AGENT_RELAY_SOAK` is the number of seconds; without it, a few messages are sent at
//! full speed.
//!
//! Each answer quotes its message. If every answer arrives once and in order, every message was
//! typed once and in order. Meanwhile the memory of the daemon and of the wrappers must not grow.

use crate::wrap::{PARAGRAPH, fullscreen};
use client::{Client, Event, Outgoing, Settings};
use platform::pty::Pty;
use serde_json::Value;
use std::{
    env,
    ffi::OsString,
    io::Read,
    path,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use testkit::{
    sandbox::Sandbox,
    terminal::SIZE,
    waiting::{WATCHDOG, resident_bytes, until},
};

/// The number of messages to each program if no time is given.
const MESSAGES: usize = 20;

/// The most messages to one program that are unanswered at a time.
const WAITING_MAX: usize = 6;

/// The interval between messages if a time is given.
const PACE: Duration = Duration::from_secs(1);

/// The warm-up that brings each process to its usual memory: a number of messages or, if a time is
/// given, a fraction (1/n) of this time.
const WARM_MESSAGES: usize = 5;
const WARM_PART: u32 = 2;

/// The maximum growth of a process after the warm-up. The daemon keeps the outcomes of about 45,000
/// messages, in 40 MB. It reaches this number after four hours, and grows by less than this limit
/// in an hour.
const GROWTH_BYTES_MAX: u64 = 16 << 20;

/// The interval between printed reports.
const REPORT_EVERY: Duration = Duration::from_secs(60);

#[test]
fn long_conversation_loses_nothing_and_memory_is_bounded() {
    let seconds = env::var("AGENT_RELAY_SOAK").ok();
    let seconds =
        seconds.map(|text| text.parse().expect("AGENT_RELAY_SOAK is a number of seconds"));
    let sandbox = Sandbox::new();
    let agents = [("Ann", "--main"), ("Cid", "--alternate")];
    let wrapped = agents.map(|(name, screen)| Wrapped::start(&sandbox, name, screen));
    let mut asking = sandbox.join("Asking");
    let is_here = |all: &[Value], name| {
        all.iter().any(|agent| agent["name"] == name && agent["here"] == true)
    };
    until("both are here", || {
        let here = asking.agents();
        agents.iter().all(|(name, _)| is_here(&here, *name))
    });
    asking.leave();
    let mut soak = Soak::new(&sandbox, wrapped);
    match seconds.map(Duration::from_secs) {
        None => {
            soak.talk_until(|soak| soak.received_from_all() >= WARM_MESSAGES, None);
            soak.note_memory();
            soak.talk_until(|soak| soak.sent_to_all() >= MESSAGES, None);
        }
        Some(length) => {
            let began = Instant::now();
            soak.talk_until(|_| began.elapsed() * WARM_PART >= length, Some(PACE));
            soak.note_memory();
            soak.talk_until(|_| began.elapsed() >= length, Some(PACE));
        }
    }
    soak.end();
}

/// A wrapped program in a terminal. The output is discarded.
struct Wrapped {
    name: &'static str,
    pty: Pty,
    screen: Option<JoinHandle<()>>,
}

impl Wrapped {
    fn start(sandbox: &Sandbox, name: &'static str, screen: &str) -> Self {
        let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        let words =
            ["run", "-n", name, "--accepts-text", "--", &fullscreen(), screen].map(OsString::from);
        let command: Vec<_> = [relay.into_os_string()].into_iter().chain(words).collect();
        let env = [
            ("AGENT_RELAY_ENDPOINT", sandbox.endpoint().as_text().into()),
            ("AGENT_RELAY_HOME", sandbox.home().into_os_string()),
            ("TERM", "xterm-256color".into()),
        ];
        let env = env.map(|(name, value): (&str, OsString)| (name.into(), Some(value)));
        let pty = Pty::spawn(&command, &env, Some(sandbox.directory()), SIZE).unwrap();
        let mut reader = pty.reader().unwrap();
        let screen = thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while reader.read(&mut buffer).is_ok_and(|count| count > 0) {}
        });
        Self { name, pty, screen: Some(screen) }
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        self.pty.kill().ok();
        self.pty.close();
        if let Some(screen) = self.screen.take() {
            screen.join().ok();
        }
    }
}

/// A wrapped program, with the numbers of messages to and from it.
struct Agent {
    wrapped: Wrapped,
    sent: usize,
    received: usize,
}

struct Soak {
    bob: Client,
    agents: [Agent; 2],
    daemon: u64,
    began: Instant,
    received_at: Instant,
    reported_at: Instant,
    /// The memory of each process at the end of the warm-up.
    warm: Option<Vec<u64>>,
}

impl Soak {
    fn new(sandbox: &Sandbox, wrapped: [Wrapped; 2]) -> Self {
        let bob = Client::join(Settings::agent(sandbox.endpoint().as_text(), "Bob")).unwrap();
        let daemon = sandbox.answering_daemon().unwrap();
        let agents = wrapped.map(|wrapped| Agent { wrapped, sent: 0, received: 0 });
        let now = Instant::now();
        Self { bob, agents, daemon, began: now, received_at: now, reported_at: now, warm: None }
    }

    fn received_from_all(&self) -> usize {
        self.agents.iter().map(|agent| agent.received).min().unwrap()
    }

    fn sent_to_all(&self) -> usize {
        self.agents.iter().map(|agent| agent.sent).min().unwrap()
    }

    /// Sends a message to each program that can take one, each time that `pace` has passed.
    #[track_caller]
    fn talk_until(&mut self, is_over: impl Fn(&Self) -> bool, pace: Option<Duration>) {
        let mut next = Instant::now();
        while !is_over(self) {
            if Instant::now() >= next {
                next += pace.unwrap_or_default();
                self.send();
            }
            self.receive_for(if pace.is_some() { next - Instant::now() } else { WATCHDOG });
        }
    }

    fn send(&mut self) {
        let can_take = |agent: &&mut Agent| agent.sent - agent.received < WAITING_MAX;
        for agent in self.agents.iter_mut().filter(can_take) {
            agent.sent += 1;
            let message = Outgoing::message(agent.wrapped.name, body(agent.sent));
            self.bob.send(message).unwrap();
        }
    }

    /// Receives the next event, if one comes within this time.
    #[track_caller]
    fn receive_for(&mut self, time: Duration) {
        match self.bob.events().recv_timeout(time.min(WATCHDOG)) {
            Ok(Event::Delivered(delivery)) => {
                self.bob.acknowledge(&delivery.id);
                let agent =
                    self.agents.iter_mut().find(|agent| agent.wrapped.name == delivery.from);
                let agent = agent.expect("one of the two");
                agent.received += 1;
                assert_eq!(delivery.body, body(agent.received).to_lowercase());
                self.received_at = Instant::now();
            }
            Ok(Event::Refused { nack, .. }) => panic!("{nack:?}"),
            Ok(Event::Ended(ended)) => panic!("{ended}"),
            Ok(_) | Err(_) => {}
        }
        assert!(self.received_at.elapsed() < WATCHDOG, "no answers: {}", self.report());
        if self.reported_at.elapsed() >= REPORT_EVERY {
            self.reported_at = Instant::now();
            eprintln!("{}", self.report());
        }
    }

    #[track_caller]
    fn note_memory(&mut self) {
        self.warm = self.resident();
        eprintln!("warm: {}", self.report());
    }

    /// Receives the last answers, and checks the memory.
    #[track_caller]
    fn end(&mut self) {
        while self.agents.iter().any(|agent| agent.received < agent.sent) {
            self.receive_for(WATCHDOG);
        }
        eprintln!("at the end: {}", self.report());
        let (Some(warm), Some(end)) = (&self.warm, self.resident()) else { return };
        for (before, after) in warm.iter().zip(end) {
            assert!(after <= before + GROWTH_BYTES_MAX, "the memory grew: {}", self.report());
        }
    }

    /// The memory of the daemon and of the wrappers, if the system reports it.
    fn resident(&self) -> Option<Vec<u64>> {
        let wrappers = self.agents.iter().map(|agent| agent.wrapped.pty.pid().into());
        [self.daemon].into_iter().chain(wrappers).map(resident_bytes).collect()
    }

    fn report(&self) -> String {
        let counts: Vec<_> = self.agents.iter().map(|agent| (agent.sent, agent.received)).collect();
        let resident = self.resident().unwrap_or_default();
        let kib: Vec<_> = resident.iter().map(|bytes| bytes >> 10).collect();
        format!(
            "after {} s: sent and received {counts:?}; the daemon and the wrappers have {kib:?} KiB",
            self.began.elapsed().as_secs()
        )
    }
}

/// The body of a message. The programs break it into rows, and answer it in lower case.
fn body(number: usize) -> String {
    match number % 3 {
        0 => format!("MESSAGE {number}"),
        1 => format!("MESSAGE {number}\n{PARAGRAPH}\nLAST LINE"),
        _ => format!("MESSAGE {number}\n\n- ONE\n- TWO\n\n{PARAGRAPH}\n\n{PARAGRAPH}"),
    }
}
