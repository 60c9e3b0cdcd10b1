//! The router: the pure state machine that decides which clients get each message.
//!
//! A driver hands everything that happens to the router as an [`Input`], and carries out each
//! [`Output`], in order. The router never waits, reads no clock and returns no errors: it answers a
//! client's mistake with a frame, or closes the connection. It writes no file: changes go to the
//! store as outputs.
//!
//! Begin with [`Router`], then `receive`, `send` and `deliver`. The state is divided among
//! components. No component reads another one's fields; facts from other components are passed as
//! arguments. The components are:
//! - `connections`: stages of the handshake, windows, clients that wait for a name, heartbeats,
//!   pauses;
//! - `directory`: names, sessions, tokens, subscriptions;
//! - `mail`: messages, streams, queues, dedup windows, replay buffers, dead letters;
//! - `questions`: deliveries whose senders wait for an answer; `notices`: frames that wait for
//!   senders that are away;
//! - `requests`: requests to `@relay`, taps, recipients' reports about deliveries;
//! - `enforcement`: the owner's policy; `lifecycle`: start and stop.
//!
//! The driver hands over frames in the order of the `schedule`, which is pure, too.
//!
//! All components work in a `context`: limits, the time, timers, random numbers, memory accounting,
//! outputs, the `journal` of the changes handed to the store, and who pays for them (`backlog`).
//! Each file with an `impl Router` is a flow through several components: `handshake`, `names`,
//! `receive`, `send`, `persist`, `deliver`, `report`, `operator_mail`, `resume`, `redeliver`,
//! `unread`, `departure`, `leftovers`, `restore`, `rerecord`, `stop`.
//!
//! Tests: `oracle` has the rules for all that the router puts out, checked by scripts (`tests/`),
//! random seeds (`sim/`) and a fuzzer; `planted` has bugs that the seeds must find.
//!
//! # Who pays
//!
//! What many clients share is charged to a principal (`accounts`): a name with its companions, or
//! all guests together. A share is half of what others leave of seven eighths of the bound. What
//! was accepted is never evicted: its sender gets BUSY or LIMIT before. The bounds are in
//! [`Limits`].
//!
//! | what | charged to | at the bound |
//! |---|---|---|
//! | messages: their bytes in the store, in memory, in one queue | the sender | BUSY |
//! | copies of a broadcast | the sender, half of its shares | BUSY; repeated, NACK LIMIT |
//! | unwritten DELIVERs | the client's agent | the rest waits in the queue |
//! | answers, unread or waiting | the asker | its frames wait; NACK LIMIT once it reads nothing |
//! | notices, replays that wait | the agent | its SENDs get BUSY; its largest notices go |
//! | reports on deliveries | the recipient | the reason is left out |
//! | messages retained for replay | the recipient | its oldest are dropped |
//! | subscriptions, open questions | the agent | NACK LIMIT |
//! | streams | the sender | idle ones are closed; else NACK LIMIT |
//! | changes that the store has yet to write | who caused them | its frames and DELIVERs wait |
//! | half-read frames | the process | the longest of the largest holder is refused |
//! | connections, channels | name, guests, process | TOO_MANY_CLIENTS, or the newest is closed |
//! | names | guests, process, machine | unneeded ones are forgotten; else TOO_MANY_CLIENTS |
//! | remembered SENDs, late ACKs, history | the sender | the oldest of the largest holder goes |

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")
)]

mod accounts;
mod answers;
mod backlog;
mod capacity;
mod connections;
mod context;
mod deliver;
mod departure;
mod directory;
mod enforcement;
mod frame;
mod handshake;
mod hash;
mod interface;
mod journal;
mod keys;
mod leftovers;
mod lifecycle;
mod limits;
mod mail;
mod memory;
mod names;
mod notices;
mod operator_mail;
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod outcome;
mod overdue;
mod persist;
mod planted;
pub mod policy;
mod questions;
mod receive;
mod redeliver;
mod report;
mod requests;
mod rerecord;
mod restore;
mod resume;
pub mod schedule;
mod send;
mod send_digest;
mod send_request;
mod sender;
#[cfg(test)]
mod sim;
mod stop;
#[cfg(test)]
mod tests;
mod timers;
mod unread;
mod work;

pub use interface::{ClientId, CloseReason, Frame, Input, Output, PeerProcess};
pub use limits::Limits;

use connections::Connections;
use context::Context;
use directory::Directory;
use enforcement::Enforcement;
use hash::HashKey;
use keys::AgentKey;
use leftovers::Leftovers;
use lifecycle::Lifecycle;
use mail::Mail;
use notices::Notices;
use overdue::Overdue;
use persist::ACTIONS_PER_INPUT;
use protocol::{Moment, Now, delivery_id::IdKey, secret::Hash};
use questions::Questions;
use requests::Requests;
use serde_json::value::RawValue;
use timers::{TIMERS_PER_TICK, Timer};

/// The client that the work of an input is charged to.
#[derive(Clone, Copy)]
enum Payer {
    Now(ClientId),
    /// The client's agent pays with its next frame.
    Later(ClientId),
    /// The client pays only for what the input hands to the store.
    Store(ClientId),
    /// Timers and reports continue what a client has paid for with its frame.
    Nobody,
}

impl Payer {
    const fn of(input: &Input<'_>) -> Self {
        match input {
            Input::Frame(client, _) | Input::Violated(client, _) | Input::Disconnected(client) => {
                Self::Now(*client)
            }
            Input::Found(client, _) | Input::Reloaded(client, _) => Self::Later(*client),
            Input::Written(client, _) => Self::Store(*client),
            _ => Self::Nobody,
        }
    }

    const fn client(self) -> Option<ClientId> {
        match self {
            Self::Now(client) | Self::Later(client) | Self::Store(client) => Some(client),
            Self::Nobody => None,
        }
    }
}

/// The router's state: its components, and the context in which they work.
#[derive(Debug)]
pub struct Router {
    ctx: Context,
    connections: Connections,
    directory: Directory,
    mail: Mail,
    questions: Questions,
    notices: Notices,
    overdue: Overdue,
    leftovers: Leftovers,
    requests: Requests,
    enforcement: Enforcement,
    lifecycle: Lifecycle,
}

impl Router {
    /// Returns a router without connections. All its random numbers come from `seed`.
    #[must_use]
    pub fn new(limits: Limits, seed: [u8; 32]) -> Self {
        let hash_key = HashKey::new(seed);
        Self {
            ctx: Context::new(limits, seed),
            connections: Connections::default(),
            directory: Directory::new(hash_key),
            mail: Mail::new(hash_key),
            questions: Questions::default(),
            notices: Notices::default(),
            overdue: Overdue::default(),
            leftovers: Leftovers::default(),
            requests: Requests::default(),
            enforcement: Enforcement::default(),
            lifecycle: Lifecycle::default(),
        }
    }

    /// Sets the JSON object about the daemon's process that answers to `status` contain.
    pub fn describe_daemon(&mut self, about: Box<RawValue>) {
        self.requests.describe_daemon(about);
    }

    /// Returns the reason of the stop, once the stop has begun.
    #[must_use]
    pub const fn stop_reason(&self) -> Option<&'static str> {
        self.lifecycle.stop_reason()
    }

    /// Sets the key of the ids of new deliveries, by which the store finds them.
    pub const fn use_id_key(&mut self, key: IdKey) {
        self.ctx.use_id_key(key);
    }

    /// Sets the hash of the operator's key. Without a key, no client is admitted as an operator.
    pub const fn admit_operators(&mut self, key: Hash) {
        self.enforcement.set_operator_key(key);
    }

    /// Handles an input and appends the outputs that the driver has to carry out.
    pub fn handle(&mut self, now: Now, input: Input<'_>, out: &mut Vec<Output>) {
        if self.lifecycle.is_stopped() {
            return;
        }
        self.ctx.now = now;
        self.lifecycle.note_input(now.monotonic);
        self.ctx.swap_outputs(out);
        let (begun, payer) = (self.ctx.work, Payer::of(&input));
        let agent = payer.client().and_then(|client| self.connections.agent_of(client));
        match input {
            Input::Connected(client, process) => self.connected(client, process),
            Input::Arrived(client) => self.connections.note_arrival(&mut self.ctx, client),
            Input::Frame(client, frame) => self.frame(client, &frame),
            Input::Violated(client, violation) => self.violated(client, violation),
            Input::Written(client, bytes) => self.written(client, bytes),
            Input::Disconnected(client) => self.disconnected(client),
            Input::Lost => self.record_all(),
            Input::Persisted(upto) => self.persisted(upto, None),
            Input::Refused(upto, why) => self.persisted(upto, Some(why)),
            Input::Found(client, found) => self.found(client, found),
            Input::Policy(policy) => self.enforcement.set_policy(policy),
            Input::Reloaded(client, result) => self.reloaded(client, result),
            Input::Outside(bytes) => self.ctx.memory.set_outside(bytes),
            Input::Tick => self.tick(),
            Input::Stop(reason) => self.stop(reason),
        }
        self.assign_freed_names();
        self.bill(payer, begun);
        self.bill_store(payer, agent);
        self.ctx.swap_outputs(out);
    }

    /// Whether the client's next frame has to wait, since its principal's share of the store is used
    /// up; then the client is paused. The driver asks before it hands over a frame.
    pub fn defers(&mut self, client: ClientId, out: &mut Vec<Output>) -> bool {
        let agent = self.connections.agent_of(client);
        if agent.is_none_or(|agent| self.ctx.has_share_of_store(agent)) {
            return false;
        }
        self.ctx.swap_outputs(out);
        let is_paused = self.connections.pause_for_store(&mut self.ctx, client);
        self.ctx.swap_outputs(out);
        is_paused
    }

    /// Charges what was handed to the store to the agent of the client that caused it: `agent`, or
    /// the one that the client has joined as by that.
    fn bill_store(&mut self, payer: Payer, agent: Option<AgentKey>) {
        let cost = self.ctx.backlog.take_uncharged();
        let Some(client) = payer.client() else { return };
        let Some(agent) = self.connections.agent_of(client).or(agent) else { return };
        self.ctx.charge_store(agent, cost);
    }

    /// Charges the work since `begun` to the client that caused it.
    fn bill(&mut self, payer: Payer, begun: u64) {
        match payer {
            Payer::Now(client) => {
                if let Some(agent) = self.connections.agent_of(client) {
                    let debt = self.requests.take_debt(agent);
                    self.ctx.spend(debt);
                }
            }
            Payer::Later(client) => {
                if let Some(agent) = self.connections.agent_of(client) {
                    self.requests.add_debt(agent, self.ctx.work - begun);
                }
                self.ctx.excuse(begun);
            }
            Payer::Store(_) | Payer::Nobody => self.ctx.excuse(begun),
        }
    }

    /// Does something that an agent has caused earlier: the agent's next frame pays for the work,
    /// and its share of the store for the changes.
    fn at_cost_of(&mut self, agent: AgentKey, act: impl FnOnce(&mut Self)) {
        let (of_others, begun) = (self.ctx.backlog.take_uncharged(), self.ctx.work);
        act(self);
        let cost = self.ctx.backlog.take_uncharged();
        self.ctx.charge_store(agent, cost);
        if self.directory.get(agent).is_some() {
            self.requests.add_debt(agent, self.ctx.work - begun);
        }
        self.ctx.backlog.add(of_others);
    }

    /// The bytes of memory that are counted against `memory_bytes_max`.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        self.ctx.memory.held()
    }

    /// Returns the work of the frames since the last call, in units of about a nanosecond, with
    /// what the same agents still owed. The work is counted, not measured, so that it is the same
    /// in every run.
    pub const fn take_work(&mut self) -> u64 {
        self.ctx.take_work()
    }

    /// Takes back the buffer of a written frame for reuse. The call is optional and saves an
    /// allocation.
    pub fn recycle(&mut self, frame: Frame) {
        self.ctx.recycle(frame);
    }

    /// Returns the moment of the next [`Input::Tick`], if one is needed: now, while something is
    /// left to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        let is_ready =
            self.ctx.journal.has_ready() || self.overdue.is_ready() || self.leftovers.is_ready();
        let now = is_ready.then_some(self.ctx.now.monotonic);
        now.or_else(|| self.ctx.timers.next())
    }

    fn tick(&mut self) {
        let now = self.ctx.now.monotonic;
        if self.ctx.timers.next().is_some_and(|due| now.since(due) > self.ctx.limits.heartbeat_ms) {
            self.connections.note_late_wake(now);
        }
        self.continue_persisted(ACTIONS_PER_INPUT, None);
        self.end_overdue();
        self.end_leftovers();
        for _ in 0..TIMERS_PER_TICK {
            let Some(timer) = self.ctx.timers.take_due(now) else { break };
            match timer {
                Timer::Client(client) => {
                    if let Some(violation) = self.connections.on_timer(&mut self.ctx, client) {
                        self.violated(client, violation);
                    }
                }
                Timer::Message(message) => self.on_message_timer(message),
                Timer::Unread(message) => self.on_unread_timer(message),
                Timer::Agent(agent) => self.on_agent_timer(agent),
                Timer::Session(agent) => self.on_session_timer(agent),
                Timer::Question(delivery) => self.on_question_timer(delivery),
                Timer::Returns => self.end_wait_for_returns(),
                Timer::Stop => self.stopped(),
            }
        }
    }

    /// Logs a line about a client, with its agent's name if it has one.
    fn log(&mut self, id: ClientId, line: &str) {
        let agent = self.connections.agent_of(id);
        let line = match agent.and_then(|agent| self.directory.name(agent)) {
            Some(name) => format!("{name} (client {}): {line}", id.0),
            None => format!("client {}: {line}", id.0),
        };
        self.ctx.emit(Output::Log(line));
    }
}
