//! A simulated world around the machine: clients that join twice, vanish, stall, flood and lie, and a
//! clock that jumps.
//!
//! Everything comes from a seed, so a failure is replayed (see `seeds`). Beside the machine runs a model,
//! which knows nothing of queues and windows: only which messages were taken and how each may end. After
//! every step both are compared, and the machine's own tables are added up anew. Here the disk keeps
//! everything at once and the daemon lives; another world is `lasting`.
//! A world ends in peace: everybody comes back, reads and acknowledges, and nothing may be left.

mod audit;
mod disk;
mod lasting;
mod model;
mod outcomes;
mod person;
mod promises;
mod seeds;
mod steps;

use super::{
    ClientId, CloseReason, Frame, Input, Limits, Output, Router, StreamKey,
    client::{Stage, What},
    ledger::Promise,
    message::State,
};
use crate::protocol::{
    Moment, Now,
    envelope::{Envelope, Header, Kind},
};
use model::Model;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use seeds::Story;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A bug planted on purpose: the simulation has to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Canary {
    /// Two messages of a stream change places.
    SwappedOrder,
    /// What was on the way is forgotten when its connection ends.
    LostRedelivery,
    /// What an ended connection didn't take is dropped without a word.
    SilentDrop,
    /// Of what was missed, the first message doesn't come again.
    LostReplay,
    /// A message is accepted before it is kept.
    AcceptedEarly,
    /// What was reserved of a stream's numbers is used again after a crash.
    ReusedNumbers,
    /// A stream that was closed begins anew.
    ForgottenFloors,
    /// A queue takes more than it may.
    CrowdedQueue,
    /// A name that somebody has is given away.
    TwoOwners,
    /// After a crash nobody knows what was taken before.
    ForgottenDoubles,
    /// What waits for a sender is gone after a crash.
    ForgottenAnswers,
    /// Messages are given up long before their time.
    NoPatience,
    /// Messages expire while they have time to live left.
    ShortLives,
    /// What comes again doesn't say so.
    FirstAttempts,
    /// A connection's last frame leaves before the one that was handed out before it.
    SwappedFrames,
    /// The client library forgets what was heard when its connection ends.
    ForgetfulLibrary,
}

/// Failures after which a message is a dead letter.
const FAILURES_MAX: u32 = 10;

const NAMES: [&str; 6] = ["ann", "bob", "cid", "dan", "eve", "fay"];
const TOPICS: [&str; 3] = ["build", "build.linux", "chat"];
const PATTERNS: [&str; 4] = ["build", "build.*", ">", "chat"];

#[test]
fn no_seed_breaks_a_rule() {
    seeds::look_into_all(|seed, steps| World::run(seed, steps, None));
}

#[test]
fn planted_bugs_are_found() {
    let (steps, forgetful) = (World::run as Run, lasting::World::run as Run);
    for (canary, sign, run) in [
        (Canary::SwappedOrder, "overtakes", steps),
        (Canary::LostRedelivery, "nobody was told", steps),
        (Canary::SilentDrop, "nobody was told", steps),
        (Canary::LostReplay, "is to come again", steps),
        (Canary::ForgottenFloors, "has a wrong seq", steps),
        (Canary::CrowdedQueue, "in a queue", steps),
        (Canary::TwoOwners, "has two owners", steps),
        (Canary::NoPatience, "is gone for {\"GAVE_UP\"}", steps),
        (Canary::ShortLives, "is gone for {\"EXPIRED\"}", steps),
        (Canary::AcceptedEarly, "is accepted before", forgetful),
        (Canary::ReusedNumbers, "has the number of", forgetful),
        (Canary::ForgottenFloors, "has the number of", forgetful),
        (Canary::CrowdedQueue, "in a queue", forgetful),
        (Canary::TwoOwners, "has two owners", forgetful),
        (Canary::ForgottenDoubles, "is kept for 2, not 1", forgetful),
        (Canary::ForgottenAnswers, "was never told", forgetful),
        (Canary::NoPatience, "is lost: Dead { code: GaveUp", forgetful),
        (Canary::ShortLives, "is lost: Dead { code: Expired", forgetful),
        (Canary::FirstAttempts, "comes again as if it came first", forgetful),
        (Canary::SwappedFrames, "which is after", forgetful),
        (Canary::ForgetfulLibrary, "is heard twice by", forgetful),
    ] {
        // Another rule may be broken, too.
        let breaks = |failure: &String| failure.contains(sign);
        let fails = |seed| {
            let failure = run(seed, seeds::STEPS, Some(canary)).err().filter(breaks)?;
            Some((seed, failure))
        };
        let found = (0..seeds::SEEDS).find_map(fails);
        let (seed, failure) = found.unwrap_or_else(|| panic!("{canary:?} was not found"));
        let is_told = failure.contains("RELAY_SEED=");
        assert!(is_told, "{canary:?}: {failure}");
        assert_eq!(run(seed, seeds::STEPS, Some(canary)), Err(failure), "its seed replays it");
    }
}

type Run = fn(u64, usize, Option<Canary>) -> Checked;

type Checked = Result<(), String>;

/// One connection, seen from its other end.
#[derive(Debug, Default)]
struct Actor {
    /// Its folded name, from WELCOME to its end.
    name: Option<String>,
    /// Neither reads nor answers.
    stalls: bool,
    is_closing: bool,
    /// Frames handed to it and not yet reported as written.
    unwritten: VecDeque<Handed>,
    /// Bytes of the first that were.
    written: usize,
    /// DELIVERs that it may acknowledge.
    heard: Vec<Heard>,
    /// The token it showed.
    claim: Option<String>,
    /// What it said last that it had heard.
    asked: Vec<Place>,
    nonce: Option<String>,
}

impl Actor {
    fn unwritten_bytes(&self) -> usize {
        self.unwritten.iter().map(|handed| handed.bytes).sum::<usize>() - self.written
    }
}

/// A stream to an agent, and the last number of it that was heard.
#[derive(Clone, Debug)]
struct Place {
    topic: String,
    peer: String,
    last_seq: u64,
}

/// A name's last session, as its client knows it.
#[derive(Debug)]
struct Tenure {
    id: String,
    token: String,
    spent: Option<String>,
    patterns: BTreeSet<&'static str>,
    resumes: bool,
    acknowledges: bool,
    away_since: Option<u64>,
}

impl Tenure {
    fn is_good_at(&self, now: u64) -> bool {
        self.away_since.is_none_or(|since| now < since + limits().resume_window_ms)
    }
}

#[derive(Debug)]
struct Handed {
    bytes: usize,
    once: Option<(String, String)>,
}

#[derive(Clone, Debug)]
struct Heard {
    id: String,
    key: (String, String),
    requires_ack: bool,
}

struct World {
    seed: u64,
    steps: usize,
    random: ChaCha8Rng,
    router: Router,
    now: u64,
    actors: BTreeMap<ClientId, Actor>,
    tenures: BTreeMap<String, Tenure>,
    next_client: u64,
    next_send: u64,
    said: u64,
    model: Model,
    story: Story,
}

impl World {
    fn run(seed: u64, steps: usize, canary: Option<Canary>) -> Checked {
        seeds::tell(seed, steps, |story| Self::live(seed, steps, canary, story))
    }

    fn live(seed: u64, steps: usize, canary: Option<Canary>, story: Story) -> Checked {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut router = Router::new(limits(), bytes);
        router.canary = canary;
        let mut world = Self {
            seed,
            steps,
            random: ChaCha8Rng::from_seed(bytes),
            router,
            now: 1_000,
            actors: BTreeMap::new(),
            tenures: BTreeMap::new(),
            next_client: 1,
            next_send: 1,
            said: 0,
            model: Model::default(),
            story,
        };
        let outcome = (0..steps).try_for_each(|_| world.step()).and_then(|()| world.peace());
        outcome.map_err(|why| format!("{why}\n{}", world.story()))
    }

    fn story(&self) -> String {
        self.story.text(self.seed, self.steps, "no_seed")
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.next_u32() as usize % bound
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len())])
    }

    fn some_actor(&mut self, is_wanted: impl Fn(&Actor) -> bool) -> Option<ClientId> {
        let wanted = self.actors.iter().filter(|(_, actor)| is_wanted(actor));
        let all: Vec<_> = wanted.map(|(id, _)| *id).collect();
        self.pick(&all)
    }

    fn some_member(&mut self) -> Option<ClientId> {
        self.some_actor(|actor| actor.name.is_some())
    }

    fn step(&mut self) -> Checked {
        match self.below(100) {
            0..7 => self.join(),
            7..10 => self.vanish(),
            10..40 => self.speak(),
            40..55 => self.acknowledge(),
            55..60 => self.give_back(),
            60..84 => self.read(),
            84..87 => self.subscribe(),
            87..88 => self.lie(),
            88..89 => self.resume(),
            89..90 => self.stall(),
            90..92 => self.kill_readers(),
            92..93 => {
                let bytes = self.below(4) * 6_000;
                self.handle(Input::Outside(bytes))
            }
            93..94 => self.sleep(),
            _ => {
                let ms = 1 + self.below(300) as u64;
                self.wait(ms)
            }
        }
    }

    fn say(&mut self, id: ClientId, header: Header<'_>, payload: &Value) -> Checked {
        let mut bytes = Vec::new();
        header.append(&mut bytes, payload);
        self.frame(id, &bytes[4..])
    }

    fn frame(&mut self, id: ClientId, json: &[u8]) -> Checked {
        self.be_read(id)?;
        self.note(|| format!("{id:?} > {:.160}", String::from_utf8_lossy(json)));
        self.handle(Input::Frame(id, json))
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        self.story.note(self.now, line);
    }

    fn handle(&mut self, input: Input<'_>) -> Checked {
        let now = Now { monotonic: Moment(self.now), unix_ms: self.now };
        let gone = match &input {
            Input::Disconnected(id) => Some(*id),
            _ => None,
        };
        if !matches!(input, Input::Frame(..)) {
            self.note(|| format!("{input:?}"));
        }
        self.model.now = self.now;
        let before = self.members();
        let mut out = Vec::new();
        self.router.handle(now, input, &mut out);
        let mut taken = 0;
        while taken < out.len() {
            let said =
                out[taken..].iter().filter(|output| matches!(output, Output::Keep(_))).count();
            taken = out.len();
            self.said += said as u64;
            self.router.handle(now, Input::Kept(self.said), &mut out);
        }
        if let Some(id) = gone {
            self.leave(id, true);
            self.actors.remove(&id);
        }
        for output in out {
            self.take(output)?;
        }
        self.compare(&before)
    }

    fn take(&mut self, output: Output) -> Checked {
        match output {
            Output::Frame(id, frame) => self.take_frame(id, &frame)?,
            Output::Close(id, reason) => {
                self.note(|| format!("    close {id:?} {reason:?}"));
                self.leave(id, reason != CloseReason::Bye);
                if let Some(actor) = self.actors.get_mut(&id) {
                    actor.is_closing = true;
                }
            }
            Output::HangUp(id) => {
                self.note(|| format!("    hang up {id:?}"));
                let is_closing = self.actors.get(&id).is_some_and(|actor| actor.is_closing);
                if !is_closing {
                    return Err(format!("{id:?} is hung up without being closed"));
                }
            }
            Output::Gate(..)
            | Output::Log(_)
            | Output::Keep(_)
            | Output::Query(..)
            | Output::Reload(_) => {}
            Output::Stopped => return Err("nobody asked it to stop".to_owned()),
        }
        Ok(())
    }

    /// A connection ends; what becomes of its agent's session?
    fn leave(&mut self, id: ClientId, is_kept: bool) {
        let Some(name) = self.actors.get_mut(&id).and_then(|actor| actor.name.take()) else {
            return;
        };
        self.model.left(id);
        if !is_kept {
            self.tenures.remove(&name);
            return;
        }
        self.model.lost(id);
        if let Some(tenure) = self.tenures.get_mut(&name) {
            tenure.away_since = Some(self.now);
        }
    }

    /// Somebody is here: in the session that it showed a good token for, or in a new one.
    fn welcome(&mut self, id: ClientId, welcome: &Value) -> Checked {
        let text = |key: &str| welcome[key].as_str().unwrap_or_default().to_owned();
        let (name, session, token) =
            (text("agent").to_lowercase(), text("session_id"), text("resume_token"));
        let Some(actor) = self.actors.get_mut(&id) else { return Ok(()) };
        actor.name = Some(name.clone());
        let claim = actor.claim.take();
        if name.starts_with('@') {
            return Ok(());
        }
        let before = self.tenures.remove(&name);
        let is_good = before.as_ref().is_some_and(|before| {
            Some(&before.token) == claim.as_ref() && before.is_good_at(self.now)
        });
        if is_good != before.as_ref().is_some_and(|before| before.id == session) {
            return Err(format!("{claim:?} makes {session} of {before:?}"));
        }
        let before = before.filter(|_| is_good);
        let granted = |key: &str| welcome["capabilities"][key].as_bool().unwrap_or_default();
        let tenure = Tenure {
            id: session,
            token,
            spent: before.as_ref().map(|before| before.token.clone()),
            patterns: before.map(|before| before.patterns).unwrap_or_default(),
            resumes: granted("resume"),
            acknowledges: granted("ack"),
            away_since: None,
        };
        self.tenures.insert(name, tenure);
        Ok(())
    }

    fn take_frame(&mut self, id: ClientId, frame: &Frame) -> Checked {
        let mut bytes = frame.head.clone();
        bytes.extend_from_slice(frame.shared.as_deref().unwrap_or_default());
        let text = || String::from_utf8_lossy(&bytes[4..]);
        self.story.note(self.now, || format!("    {id:?} < {:.300}", text()));
        let envelope = Envelope::read(&bytes[4..]).map_err(|bad| format!("{bad}: {}", text()))?;
        let payload: Value = serde_json::from_str(envelope.payload).map_err(|e| e.to_string())?;
        let actor =
            self.actors.get_mut(&id).ok_or_else(|| format!("{id:?} is gone: {}", text()))?;
        if actor.is_closing {
            return Err(format!("{id:?} is told something after its close: {}", text()));
        }
        let mut once = None;
        match envelope.kind {
            Kind::Welcome => self.welcome(id, &payload)?,
            Kind::Sync => {
                let name = actor.name.clone().unwrap_or_default();
                self.model.synced(id, &name, &payload);
            }
            Kind::Nack if payload["code"] == "STALE" => {
                // Before WELCOME nobody else knows whose streams they are.
                if let Some(name) = &actor.name {
                    self.model.is_stale(name, &actor.asked)?;
                }
            }
            Kind::Ping => actor.nonce = payload["nonce"].as_str().map(str::to_owned),
            Kind::Deliver if envelope.from.as_deref() != Some("@relay") => {
                let (heard, seq, attempt) = model::heard(&envelope, &payload)?;
                self.model.delivered(id, &heard, &envelope, seq, attempt)?;
                if heard.requires_ack {
                    actor.heard.push(heard);
                } else {
                    once = Some(heard.key);
                }
            }
            Kind::Ack | Kind::Nack | Kind::Busy => {
                let name = actor.name.clone().unwrap_or_default();
                self.model.answered(&name, envelope.kind, &payload);
            }
            _ => {}
        }
        let handed = Handed { bytes: bytes.len(), once };
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.unwritten.push_back(handed);
        }
        Ok(())
    }

    fn members(&self) -> BTreeMap<String, ClientId> {
        let named = self.actors.iter().filter_map(|(id, actor)| Some((actor.name.clone()?, *id)));
        named.collect()
    }

    fn compare(&mut self, before: &BTreeMap<String, ClientId>) -> Checked {
        let members = self.members();
        // Who only just left or came can't have heard everything.
        let stayed = members.iter().filter(|(name, id)| before.get(*name) == Some(id));
        let stayed = stayed.map(|(name, _)| name.clone()).collect();
        self.model.settle(&self.router.held(), &stayed)?;
        self.router.audit(&members.into_keys().collect())
    }

    /// Everybody comes back and takes what there is; then nothing may be left.
    fn peace(&mut self) -> Checked {
        self.note(|| "peace".to_owned());
        self.handle(Input::Outside(0))?;
        for id in self.actors.keys().copied().collect::<Vec<_>>() {
            self.disconnect(id)?;
        }
        for name in NAMES {
            let id = ClientId(self.next_client);
            self.next_client += 1;
            self.actors.insert(id, Actor::default());
            self.handle(Input::Connected(id))?;
            let mut hello = json!({"agent": name, "capabilities": {"resume": true}});
            if let Some(tenure) = self.tenures.get(name).filter(|_| self.seed.is_multiple_of(2)) {
                let token = tenure.token.clone();
                hello["session"] = json!({"resume_token": token});
                self.claim(id, token);
            }
            self.say(id, Header::new(Kind::Hello, "h", 1), &hello)?;
            self.say_resume(id, &json!({}))?;
        }
        for _ in 0..200 {
            if self.is_quiet() {
                return self.model.nothing_is_due();
            }
            for id in self.actors.keys().copied().collect::<Vec<_>>() {
                self.settle_actor(id)?;
            }
            self.wait(100)?;
        }
        Err("in a quiet world something still waits".to_owned())
    }

    fn is_quiet(&self) -> bool {
        self.router.messages.len() == 0
            && self.router.memory.inside == 0
            && self.actors.values().all(|actor| actor.unwritten.is_empty())
    }

    fn settle_actor(&mut self, id: ClientId) -> Checked {
        self.write_all(id)?;
        while let Some(heard) = self.actors.get_mut(&id).and_then(|actor| actor.heard.pop()) {
            self.ack(id, &heard, None)?;
        }
        self.say(id, Header::new(Kind::Pong, "p", 1), &json!({"nonce": "n"}))
    }
}

/// A machine that panics has a story too.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.story());
        }
    }
}

/// Small enough that every bound is met.
fn limits() -> Limits {
    Limits {
        heartbeat_ms: 1_000,
        handshake_ms: 700,
        ttl_ms: 15_000,
        queue_messages_max: 6,
        queue_bytes_max: 6_000,
        memory_bytes_max: 24_000,
        clients_max: 7,
        names_max: 7,
        streams_max: 14,
        strangers_max: 3,
        subscriptions_max: 3,
        resume_window_ms: 3_000,
        replay_messages_max: 5,
        replay_bytes_max: 3_000,
        doubles_max: 4,
        // So few that names that are away lose some, and so many that each still has its last ones.
        doubles_total_max: 26,
        answers_bytes_max: 2_000,
        window_bytes: 1_000,
        ..Limits::default()
    }
}

impl Router {
    pub(super) fn has(&self, canary: Canary) -> bool {
        self.canary == Some(canary)
    }

    /// The canary that doesn't wait for the disk.
    pub(super) fn accept_early(&mut self, promise: Option<Promise>) -> Option<Promise> {
        if !self.has(Canary::AcceptedEarly) {
            return promise;
        }
        promise.inspect(|promise| self.accept(promise)).and(None)
    }

    /// The canary that swaps: the second message of a stream goes first.
    pub(super) fn swapped(&self, stream: StreamKey) -> Option<super::MessageKey> {
        let (_, second) = self.streams[stream].waiting.get(1)?;
        let is_kept = self.messages[*second].kept().is_some();
        let first_is_kept = self.streams[stream].turn.is_some_and(|turn| turn.kept);
        (self.canary == Some(Canary::SwappedOrder) && is_kept == first_is_kept).then_some(*second)
    }

    /// The canary that forgets: what was on the way to an agent is gone.
    pub(super) fn lose_redelivery(&mut self, agent: super::AgentKey) {
        if self.canary != Some(Canary::LostRedelivery) {
            return;
        }
        for stream in self.roster[agent].hears.clone() {
            let first = self.streams[stream].waiting.front().map(|(_, key)| *key);
            if let Some(key) = first {
                self.settle(key);
            }
        }
    }

    /// The canary that gives up early.
    pub(super) fn patience(&self, failures_max: u32) -> u32 {
        if self.has(Canary::NoPatience) { 2 } else { failures_max }
    }

    /// The canary that is in a hurry.
    pub(super) fn shortened(&self, expires: Moment) -> Moment {
        let ms = if self.has(Canary::ShortLives) { 100 } else { 0 };
        Moment(expires.0.saturating_sub(ms))
    }

    /// The canary that forgets what was missed.
    pub(super) fn loses_replay(&self) -> bool {
        self.canary == Some(Canary::LostReplay)
    }

    /// Every delivery that is not over: the SEND's id, and to whom.
    fn held(&self) -> BTreeSet<(String, String)> {
        let name = |agent| self.roster[agent].name.folded();
        let mut held: BTreeSet<_> = self
            .messages
            .values()
            .filter(|message| !message.is_replay)
            .map(|message| (message.send_id.as_str().to_owned(), name(message.to)))
            .collect();
        for client in self.clients.values() {
            for handed in client.window.frames() {
                if let (What::Once { send_id, .. }, Some(agent)) = (&handed.what, client.agent) {
                    held.insert((send_id.as_str().to_owned(), name(agent)));
                }
            }
        }
        held
    }
}
