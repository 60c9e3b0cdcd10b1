//! Who hears it: the pure machine in the daemon's middle.
//!
//! A driver hands it everything that happens as an [`Input`] and does what each [`Output`] says, in
//! order. The machine never waits, reads no clock and returns no error: a peer's mistake becomes an
//! answer or a close.
//!
//! A frame comes in at [`Router::handle`]. Who may speak at all is `handshake`'s matter, what outlives a
//! connection `session`'s, what a member may say `member`'s; a SEND is judged in `send`, and what was
//! taken goes out in `delivery`; who waits for an answer gets it in `asking`, and what became of a
//! message its sender is told in `outcome`. Behind them stand plain tables: `roster` (names), `client`
//! (connections), `stream` (order), `outbox` (bounds), `doubles`, `topics`, `alarm`.

mod again;
mod alarm;
mod answer;
mod asking;
mod client;
mod dead;
mod delivery;
mod doubles;
mod handshake;
mod hash;
mod heartbeat;
mod idle;
mod ledger;
mod limits;
mod member;
mod message;
mod outbox;
mod outcome;
pub mod policy;
mod redelivery;
mod relay;
mod replay;
mod reports;
mod restore;
mod resume;
mod roster;
mod send;
mod session;
#[cfg(test)]
mod sim;
mod slots;
mod stream;
#[cfg(test)]
mod testbed;
#[cfg(test)]
mod tests;
mod topics;
mod unheard;

pub(crate) use hash::FastMap;
pub use limits::Limits;

use crate::protocol::{
    Moment, Now,
    code::Violation,
    relay::{Counts, TooOften},
    secret::Hash,
};
use crate::record::{Change, Query, QueryResult};
use alarm::{Alarm, Alarms};
use asking::Questions;
use client::Client;
use dead::DeadLetters;
use ledger::Ledger;
use message::Message;
use policy::{Pairs, Policy};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use relay::Desks;
use reports::Reports;
use roster::{Agent, Roster};
use serde_json::value::RawValue;
use slots::{Key, Slots};
use std::{collections::BTreeSet, mem, sync::Arc};
use stream::{Stream, Streams};
use topics::Subscriptions;
use uuid::Uuid;

/// Heads whose room is kept, and the most of one that is worth it.
const SPARES_MAX: usize = 256;
const SPARE_BYTES_MAX: usize = 4096;

/// Pairs of agents of which one spoke to the other within a minute or two.
const PAIRS_MAX: usize = 1 << 16;

type AgentKey = Key<Agent>;
type StreamKey = Key<Stream>;
type MessageKey = Key<Message>;

/// A connection, for as long as the daemon runs. They count up and are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// Everything that can happen.
#[derive(Debug)]
pub enum Input<'a> {
    /// A stream of the owner's was accepted; nothing has been said yet.
    Connected(ClientId),
    /// One whole frame's JSON.
    Frame(ClientId, &'a [u8]),
    /// The client's bytes are no frame, or the peer is somebody else's. Nothing more is read from it.
    Violated(ClientId, Violation),
    /// So many bytes of this client's [`Output::Frame`]s have left for the system.
    Written(ClientId, usize),
    /// The connection ended, either way. Its last input.
    Disconnected(ClientId),
    /// The store has kept all changes up to this one, counted over all that were said.
    Kept(u64),
    /// The store lost what it had, and begins anew.
    Lost,
    /// All changes up to this one are through, but of messages nothing could be kept, and why.
    Refused(u64, &'a str),
    /// The answer to this client's [`Output::Query`]; or why there is none, in a sentence.
    Found(ClientId, Result<QueryResult, String>),
    /// What the owner has decided, from now on.
    Policy(Arc<Policy>),
    /// The policy file was read again, as this client wanted; or why it can't be, in a sentence.
    Reloaded(ClientId, Result<(), String>),
    /// Bytes that the daemon holds outside the machine: half-read frames, its inbox.
    Outside(usize),
    /// The deadline is reached.
    Tick,
    /// The daemon shall go down; the reason is BYE's.
    Stop(&'static str),
}

/// Everything that is to be done.
#[derive(Debug)]
pub enum Output {
    /// Have the store keep it. What is kept is kept in this order.
    Keep(Change),
    /// Ask the store, after all that it was to keep before. A client has one question at a time.
    Query(ClientId, Box<Query>),
    /// Read the policy file again, for this client.
    Reload(ClientId),
    /// Write a frame. Frames of one client leave in this order.
    Frame(ClientId, Frame),
    /// Stop reading from the client (false), or go on (true).
    Gate(ClientId, bool),
    /// Write what was handed out, then close. [`Input::Disconnected`] follows.
    Close(ClientId, CloseReason),
    /// Close at once, whatever is still to be written. [`Input::Disconnected`] follows.
    HangUp(ClientId),
    /// A line for the log, at the level that a person who runs the place wants.
    Log(String),
    /// Everybody was told BYE and has been closed: the daemon may end.
    Stopped,
}

/// Each message moves one or two of them: what is rare and large is boxed.
const _: () = assert!(size_of::<Output>() <= 64);

/// A frame's bytes, its length in front: the recipient's own part, and what others share.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Length, and all or the first part of the JSON.
    pub head: Vec<u8>,
    /// The rest, made once for all recipients.
    pub shared: Option<Arc<[u8]>>,
}

impl Frame {
    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.head.len() + self.shared.as_ref().map_or(0, |shared| shared.len())
    }
}

/// Why the daemon closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client said BYE.
    Bye,
    /// A fatal ERROR was sent.
    Fault(crate::protocol::code::ErrorCode),
    /// The daemon goes down.
    Stopping,
}

/// The machine.
#[derive(Debug)]
pub struct Router {
    limits: Limits,
    random: ChaCha8Rng,
    /// Of the input that is being handled.
    now: Now,
    /// What it gave rise to so far.
    out: Vec<Output>,
    started: Option<Moment>,
    /// When the driver last woke late: silence before that is nobody's fault.
    woke: Moment,
    alarms: Alarms,
    clients: FastMap<ClientId, Client>,
    /// Those who are nobody yet, the oldest first.
    strangers: BTreeSet<ClientId>,
    members: usize,
    roster: Roster,
    streams: Streams,
    messages: Slots<Message>,
    /// At-least-once messages by the id of their DELIVER.
    deliveries: FastMap<Uuid, MessageKey>,
    ledger: Ledger,
    dead: DeadLetters,
    reports: Reports,
    questions: Questions,
    /// What `@relay`'s numbers count from.
    relay_seq_base: u64,
    /// SENDs that are remembered, of all names.
    doubles: usize,
    subscriptions: Subscriptions,
    /// Whose session a token takes up, or took up last.
    tokens: FastMap<Hash, AgentKey>,
    taps: Vec<ClientId>,
    desks: Desks,
    /// Names that became free while this input is handled, for those who wait for them.
    vacated: Vec<AgentKey>,
    memory: Memory,
    counts: Counts,
    stopping: Stopping,
    stop_reason: Option<&'static str>,
    about_daemon: Option<Box<RawValue>>,
    /// Of what proves an operator; without it there is none.
    operator_key: Option<Hash>,
    policy: Arc<Policy>,
    /// Who spoke to whom of late, by their numbers.
    pairs: Pairs<u64>,
    /// What came too often, if anything did.
    too_often: Option<TooOften<'static>>,
    /// Room for heads to come: a broadcast makes many at once, and allocating them one by one would
    /// cost more than writing them.
    spare: Vec<Vec<u8>>,
    #[cfg(test)]
    canary: Option<sim::Canary>,
}

/// What counts against `memory_bytes_max` beside subscriptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    /// Queues, answers, and what clients said that aren't read from.
    inside: usize,
    /// What sessions have at hand to replay it.
    replay: usize,
    outside: usize,
}

impl Memory {
    const fn total(self) -> usize {
        self.inside + self.replay + self.outside
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    No,
    Begun,
    Done,
}

impl Router {
    /// A machine that nobody has connected to. Everything random in it comes from `seed`.
    #[must_use]
    pub fn new(limits: Limits, seed: [u8; 32]) -> Self {
        Self {
            limits,
            random: ChaCha8Rng::from_seed(seed),
            now: Now::default(),
            out: Vec::new(),
            started: None,
            woke: Moment(0),
            alarms: Alarms::default(),
            clients: FastMap::default(),
            strangers: BTreeSet::new(),
            members: 0,
            roster: Roster::default(),
            streams: Streams::default(),
            messages: Slots::default(),
            deliveries: FastMap::default(),
            ledger: Ledger::default(),
            dead: DeadLetters::default(),
            reports: Reports::default(),
            questions: Questions::default(),
            relay_seq_base: 0,
            doubles: 0,
            subscriptions: Subscriptions::default(),
            tokens: FastMap::default(),
            taps: Vec::new(),
            desks: Desks::default(),
            vacated: Vec::new(),
            memory: Memory::default(),
            counts: Counts::default(),
            stopping: Stopping::No,
            stop_reason: None,
            about_daemon: None,
            operator_key: None,
            policy: Arc::default(),
            pairs: Pairs::new(PAIRS_MAX),
            too_often: None,
            spare: Vec::new(),
            #[cfg(test)]
            canary: None,
        }
    }

    /// Everything that counts against `memory_bytes_max`.
    const fn memory_held(&self) -> usize {
        self.memory.total() + self.subscriptions.bytes()
    }

    /// What the driver wants `status` to say about the daemon around the machine: a JSON object.
    pub fn describe_daemon(&mut self, about: Box<RawValue>) {
        self.about_daemon = Some(about);
    }

    /// Why the daemon goes down, once it was told to.
    #[must_use]
    pub const fn stop_reason(&self) -> Option<&'static str> {
        self.stop_reason
    }

    /// What operators prove themselves with.
    pub const fn admit_operators(&mut self, key: Hash) {
        self.operator_key = Some(key);
    }

    /// Takes in what happened and appends what is to be done.
    pub fn handle(&mut self, now: Now, input: Input<'_>, out: &mut Vec<Output>) {
        if self.stopping == Stopping::Done {
            return;
        }
        self.now = now;
        self.started.get_or_insert(now.monotonic);
        mem::swap(&mut self.out, out);
        match input {
            Input::Connected(client) => self.connected(client),
            Input::Frame(client, json) => self.frame(client, json),
            Input::Violated(client, violation) => self.violated(client, violation),
            Input::Written(client, bytes) => self.written(client, bytes),
            Input::Disconnected(client) => self.disconnected(client),
            Input::Lost => self.say_again(),
            Input::Kept(upto) => self.kept(upto),
            Input::Refused(upto, why) => self.refused(upto, why),
            Input::Found(client, found) => self.found(client, found),
            Input::Policy(policy) => self.policy = policy,
            Input::Reloaded(client, result) => self.reloaded(client, result),
            Input::Outside(bytes) => self.memory.outside = bytes,
            Input::Tick => self.tick(),
            Input::Stop(reason) => self.stop(reason),
        }
        self.fill_vacated();
        mem::swap(&mut self.out, out);
    }

    /// Takes back the room of a frame that nobody needs any more. Not needed, but cheaper.
    pub fn recycle(&mut self, frame: Frame) {
        let mut head = frame.head;
        if self.spare.len() < SPARES_MAX && (1..=SPARE_BYTES_MAX).contains(&head.capacity()) {
            head.clear();
            self.spare.push(head);
        }
    }

    /// Room for a head.
    fn room(&mut self, bytes: usize) -> Vec<u8> {
        let mut room = self.spare.pop().unwrap_or_default();
        room.reserve(bytes);
        room
    }

    /// When [`Input::Tick`] is wanted next.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        self.alarms.first()
    }

    fn tick(&mut self) {
        let now = self.now.monotonic;
        if self.deadline().is_some_and(|due| now.since(due) > self.limits.heartbeat_ms) {
            self.woke = now;
        }
        while let Some(alarm) = self.alarms.take_due(now) {
            match alarm {
                Alarm::Client(client) => self.ring_client(client),
                Alarm::Message(message) => self.ring_message(message),
                Alarm::Agent(agent) => self.ring_agent(agent),
                Alarm::Session(agent) => self.ring_session(agent),
                Alarm::Question(delivery) => self.ring_question(delivery),
                Alarm::Stop => self.stopped(),
            }
        }
    }

    fn new_id(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        self.random.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// As many random bytes, in hexadecimal digits.
    fn random_hex(&mut self, bytes: usize) -> String {
        (0..bytes).map(|_| format!("{:02x}", self.random.next_u32() as u8)).collect()
    }
}
