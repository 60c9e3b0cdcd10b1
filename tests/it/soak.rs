//! A conversation that goes on and on: one message a second to each of two wrapped full-screen programs,
//! which answer each, for as many seconds as `AGENT_RELAY_SOAK` says; without it, a few at full speed.
//!
//! Each answer quotes its message, so who hears every answer once and in order knows that every message was
//! typed once and in order. Meanwhile neither the daemon nor a wrapper grows.

use crate::{
    sandbox::{Sandbox, WATCHDOG, resident_bytes, until},
    terminal::SIZE,
    wrap::{PARAGRAPH, fullscreen},
};
use agent_relay::client::{Client, Event, Outgoing, Settings};
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

/// Messages to each of them where no time is given.
const MESSAGES: usize = 20;

/// That wait for their answers at a time.
const WAITING_MAX: usize = 6;

/// From one message to the next where time is given.
const PACE: Duration = Duration::from_secs(1);

/// By then each process has what it keeps: so many messages to each of them, or a part of the time.
const WARM_MESSAGES: usize = 5;
const WARM_PART: u32 = 2;

/// How much more a process may have at the end than it had when it was warm. The daemon remembers what became
/// of some 45,000 messages, in 40 MB: it has all of that after four hours, and in an hour grows by less than this.
const GROWTH_BYTES_MAX: u64 = 16 << 20;

/// How often is said how it stands.
const NEWS_EVERY: Duration = Duration::from_secs(60);

#[test]
fn nothing_is_lost_and_nothing_grows() {
    let given = env::var("AGENT_RELAY_SOAK").ok();
    let given = given.map(|text| text.parse().expect("AGENT_RELAY_SOAK is a number of seconds"));
    let sandbox = Sandbox::new();
    let agents = [("Ann", "--main"), ("Cid", "--alternate")];
    let wrapped = agents.map(|(name, screen)| Wrapped::start(&sandbox, name, screen));
    let mut asking = sandbox.join("Asking");
    let is_here =
        |all: &[Value], name| all.iter().any(|it| it["name"] == name && it["here"] == true);
    until("both are here", || {
        let here = asking.agents();
        agents.iter().all(|(name, _)| is_here(&here, *name))
    });
    asking.leave();
    let mut soak = Soak::new(&sandbox, wrapped);
    match given.map(Duration::from_secs) {
        None => {
            soak.talk_until(|soak| soak.heard_by_all() >= WARM_MESSAGES, None);
            soak.is_warm();
            soak.talk_until(|soak| soak.said_to_all() >= MESSAGES, None);
        }
        Some(length) => {
            let began = Instant::now();
            soak.talk_until(|_| began.elapsed() * WARM_PART >= length, Some(PACE));
            soak.is_warm();
            soak.talk_until(|_| began.elapsed() >= length, Some(PACE));
        }
    }
    soak.end();
}

/// A wrapped program in a terminal at which nobody looks.
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

/// One of the two, as who talks with it sees it.
struct Agent {
    wrapped: Wrapped,
    said: usize,
    heard: usize,
}

struct Soak {
    bob: Client,
    agents: [Agent; 2],
    daemon: u64,
    began: Instant,
    heard_at: Instant,
    told_at: Instant,
    /// What each process had when it was warm.
    warm: Option<Vec<u64>>,
}

impl Soak {
    fn new(sandbox: &Sandbox, wrapped: [Wrapped; 2]) -> Self {
        let bob = Client::join(Settings::agent(sandbox.endpoint().as_text(), "Bob")).unwrap();
        let status = sandbox.run(["status", "--json"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        let daemon = status["status"]["daemon"]["pid"].as_u64().unwrap();
        let agents = wrapped.map(|wrapped| Agent { wrapped, said: 0, heard: 0 });
        let now = Instant::now();
        Self { bob, agents, daemon, began: now, heard_at: now, told_at: now, warm: None }
    }

    fn heard_by_all(&self) -> usize {
        self.agents.iter().map(|agent| agent.heard).min().unwrap()
    }

    fn said_to_all(&self) -> usize {
        self.agents.iter().map(|agent| agent.said).min().unwrap()
    }

    /// A message to each that can take one, each time that this much time has passed.
    #[track_caller]
    fn talk_until(&mut self, is_over: impl Fn(&Self) -> bool, pace: Option<Duration>) {
        let mut next = Instant::now();
        while !is_over(self) {
            if Instant::now() >= next {
                next += pace.unwrap_or_default();
                self.say();
            }
            self.hear_for(if pace.is_some() { next - Instant::now() } else { WATCHDOG });
        }
    }

    fn say(&mut self) {
        let can_take = |agent: &&mut Agent| agent.said - agent.heard < WAITING_MAX;
        for agent in self.agents.iter_mut().filter(can_take) {
            agent.said += 1;
            let message = Outgoing::message(agent.wrapped.name, body(agent.said));
            self.bob.send(message).unwrap();
        }
    }

    /// What comes next, if it comes within this time.
    #[track_caller]
    fn hear_for(&mut self, time: Duration) {
        match self.bob.events().recv_timeout(time.min(WATCHDOG)) {
            Ok(Event::Delivered(delivery)) => {
                self.bob.acknowledge(&delivery.id);
                let agent = self.agents.iter_mut().find(|it| it.wrapped.name == delivery.from);
                let agent = agent.expect("one of the two");
                agent.heard += 1;
                assert_eq!(delivery.body, body(agent.heard).to_lowercase());
                self.heard_at = Instant::now();
            }
            Ok(Event::Refused { nack, .. }) => panic!("{nack:?}"),
            Ok(Event::Ended(ended)) => panic!("{ended}"),
            Ok(_) | Err(_) => {}
        }
        assert!(self.heard_at.elapsed() < WATCHDOG, "nobody answers: {}", self.stands());
        if self.told_at.elapsed() >= NEWS_EVERY {
            self.told_at = Instant::now();
            eprintln!("{}", self.stands());
        }
    }

    #[track_caller]
    fn is_warm(&mut self) {
        self.warm = self.resident();
        eprintln!("warm: {}", self.stands());
    }

    /// The last answers come, and nothing more.
    #[track_caller]
    fn end(&mut self) {
        while self.agents.iter().any(|agent| agent.heard < agent.said) {
            self.hear_for(WATCHDOG);
        }
        eprintln!("at the end: {}", self.stands());
        let (Some(warm), Some(end)) = (&self.warm, self.resident()) else { return };
        for (before, after) in warm.iter().zip(end) {
            assert!(after <= before + GROWTH_BYTES_MAX, "it grows: {}", self.stands());
        }
    }

    /// What the daemon and the wrappers have in memory, where the system says.
    fn resident(&self) -> Option<Vec<u64>> {
        let wrappers = self.agents.iter().map(|agent| agent.wrapped.pty.pid().into());
        [self.daemon].into_iter().chain(wrappers).map(resident_bytes).collect()
    }

    fn stands(&self) -> String {
        let counts: Vec<_> = self.agents.iter().map(|agent| (agent.said, agent.heard)).collect();
        let resident = self.resident().unwrap_or_default();
        let kib: Vec<_> = resident.iter().map(|bytes| bytes >> 10).collect();
        format!(
            "after {} s: said and heard {counts:?}; the daemon and the wrappers have {kib:?} KiB",
            self.began.elapsed().as_secs()
        )
    }
}

/// Broken into rows by the programs; answered in small letters.
fn body(number: usize) -> String {
    match number % 3 {
        0 => format!("MESSAGE {number}"),
        1 => format!("MESSAGE {number}\n{PARAGRAPH}\nLAST LINE"),
        _ => format!("MESSAGE {number}\n\n- ONE\n- TWO\n\n{PARAGRAPH}\n\n{PARAGRAPH}"),
    }
}
