//! A simulated world around the machine: clients that join twice, vanish, stall, flood and lie, and a
//! clock that jumps.
//!
//! Everything comes from a seed, so a failure is replayed with `RELAY_SEED=… cargo test sim`. Beside the
//! machine runs a model, which knows nothing of queues and windows: only which messages were taken and
//! how each may end. After every step both are compared, and the machine's own tables are added up anew.
//! A world ends in peace: everybody comes back, reads and acknowledges, and nothing may be left.

mod audit;
mod model;

use super::{
    ClientId, Frame, Input, Limits, Output, Router, StreamKey,
    client::{Stage, What},
    message::{FAILURES_MAX, State},
};
use crate::protocol::{
    Moment, Now,
    code::{ErrorCode, Violation},
    envelope::{Envelope, Header, Kind},
};
use model::{Model, Said};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
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
}

const SEEDS: u64 = 200;
const STEPS: usize = 200;
const NAMES: [&str; 6] = ["ann", "bob", "cid", "dan", "eve", "fay"];
const TOPICS: [&str; 3] = ["build", "build.linux", "chat"];
const PATTERNS: [&str; 4] = ["build", "build.*", ">", "chat"];
const LINES: usize = 40;

#[test]
fn no_seed_breaks_a_rule() {
    if let Ok(seed) = std::env::var("RELAY_SEED") {
        World::run(seed.parse().expect("a number"), None)
            .unwrap_or_else(|failure| panic!("{failure}"));
        return;
    }
    for seed in 0..SEEDS {
        World::run(seed, None).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn planted_bugs_are_found() {
    for canary in [Canary::SwappedOrder, Canary::LostRedelivery, Canary::SilentDrop] {
        let found = (0..SEEDS).find_map(|seed| World::run(seed, Some(canary)).err());
        let failure = found.unwrap_or_else(|| panic!("{canary:?} was not found"));
        assert!(failure.contains("RELAY_SEED="), "{failure}");
    }
}

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
    patterns: BTreeSet<&'static str>,
    nonce: Option<String>,
}

impl Actor {
    fn unwritten_bytes(&self) -> usize {
        self.unwritten.iter().map(|handed| handed.bytes).sum::<usize>() - self.written
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
    random: ChaCha8Rng,
    router: Router,
    now: u64,
    actors: BTreeMap<ClientId, Actor>,
    next_client: u64,
    next_send: u64,
    model: Model,
    lines: VecDeque<String>,
}

impl World {
    fn run(seed: u64, canary: Option<Canary>) -> Checked {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut router = Router::new(limits(), bytes);
        router.canary = canary;
        let mut world = Self {
            random: ChaCha8Rng::from_seed(bytes),
            router,
            now: 1_000,
            actors: BTreeMap::new(),
            next_client: 1,
            next_send: 1,
            model: Model::default(),
            lines: VecDeque::new(),
        };
        let outcome = (0..STEPS).try_for_each(|_| world.step()).and_then(|()| world.peace());
        outcome.map_err(|why| {
            let lines: Vec<_> = world.lines.into_iter().collect();
            format!("{why}\nreplay with RELAY_SEED={seed}; the last lines:\n{}", lines.join("\n"))
        })
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
            87..89 => self.lie(),
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

    fn join(&mut self) -> Checked {
        let id = ClientId(self.next_client);
        self.next_client += 1;
        self.actors.insert(id, Actor::default());
        self.handle(Input::Connected(id))?;
        if self.one_in(8) {
            return Ok(());
        }
        let name = NAMES[self.below(NAMES.len())];
        let name = if self.one_in(2) { name.to_uppercase() } else { name.to_owned() };
        let most = [0, 1, 2, 256][self.below(4)];
        let capabilities = json!({"ack": !self.one_in(8), "max_inflight": most});
        let mut hello = json!({"agent": name, "capabilities": capabilities});
        if self.one_in(8) {
            hello = json!({"mode": "guest"});
        }
        if self.one_in(10) {
            hello["session"] = json!({"resume_token": "stolen"});
        }
        self.say(id, Header::new(Kind::Hello, "h", 1), &hello)
    }

    fn vanish(&mut self) -> Checked {
        let Some(id) = self.some_actor(|_| true) else { return Ok(()) };
        if self.one_in(4) {
            self.say(id, Header::new(Kind::Bye, "b", 1), &json!({"reason": "enough"}))?;
            if self.one_in(2) {
                return Ok(());
            }
        }
        self.disconnect(id)
    }

    fn disconnect(&mut self, id: ClientId) -> Checked {
        self.handle(Input::Disconnected(id))
    }

    /// SEND: to one, to all, to a topic, or once more; floods are many in a row.
    fn speak(&mut self) -> Checked {
        let Some(id) = self.some_member() else { return Ok(()) };
        let times = if self.one_in(10) { 12 } else { 1 };
        for _ in 0..times {
            let Some(name) = self.actors.get(&id).and_then(|actor| actor.name.clone()) else {
                return Ok(());
            };
            if self.one_in(5)
                && let Some(again) = self.model.repeatable(&name)
            {
                self.send(id, again)?;
                continue;
            }
            let said = self.new_said(name);
            self.send(id, said)?;
        }
        Ok(())
    }

    fn new_said(&mut self, from: String) -> Said {
        let number = self.next_send;
        self.next_send += 1;
        let (to, topic) = match self.below(10) {
            0..6 => {
                let topic = self.one_in(4).then(|| TOPICS[self.below(TOPICS.len())]);
                (Some(self.recipient()), topic)
            }
            6..8 => (Some("*"), None),
            _ => (None, Some(TOPICS[self.below(TOPICS.len())])),
        };
        let ttl = self.one_in(5).then(|| self.below(2_000) as u64);
        let length = if self.one_in(10) { 900 } else { self.below(60) };
        Said {
            id: format!("s{number}"),
            from,
            to,
            topic,
            requires_ack: self.one_in(2),
            ttl,
            payload: format!("{{ \"body\":\"{}\",\"n\":{number}}}", "x".repeat(length)),
        }
    }

    /// Somebody who is here, most of the time.
    fn recipient(&mut self) -> &'static str {
        let members = self.members();
        let here: Vec<_> = NAMES.into_iter().filter(|name| members.contains_key(*name)).collect();
        match self.pick(&here) {
            Some(name) if !self.one_in(5) => name,
            _ => NAMES[self.below(NAMES.len())],
        }
    }

    fn send(&mut self, id: ClientId, said: Said) -> Checked {
        let here = self.recipients(id, &said);
        self.model.begin(&said, here);
        let mut meta = json!({"requires_ack": said.requires_ack});
        if let Some(ttl) = said.ttl {
            meta["ttl_ms"] = json!(ttl);
        }
        let (mut bytes, meta) = (Vec::new(), meta.to_string());
        let header =
            Header { to: said.to, topic: said.topic, ..Header::new(Kind::Send, &said.id, 1) };
        header.append_raw(&mut bytes, &[("payload", &said.payload), ("payload_meta", &meta)]);
        self.note(format!(
            "{} SEND {} to {:?} #{:?} ack {}",
            said.from, said.id, said.to, said.topic, said.requires_ack
        ));
        self.handle(Input::Frame(id, &bytes[4..]))
    }

    /// Who hears it, by the rules: nobody's queue is known here.
    fn recipients(&self, sender: ClientId, said: &Said) -> BTreeSet<String> {
        let hears = |actor: &Actor| match said.topic {
            None => true,
            Some(topic) => actor.patterns.iter().any(|pattern| {
                crate::protocol::topic::Pattern::parse(pattern).unwrap().matches(topic)
            }),
        };
        let others = self.actors.iter().filter(|(id, actor)| **id != sender && hears(actor));
        let names = others.filter_map(|(_, actor)| actor.name.clone());
        match said.to {
            Some(name) if name != "*" => BTreeSet::from([name.to_owned()]),
            _ => names.filter(|name| !name.starts_with('@')).collect(),
        }
    }

    fn acknowledge(&mut self) -> Checked {
        let Some(id) = self.some_actor(|actor| actor.name.is_some() && !actor.heard.is_empty())
        else {
            return Ok(());
        };
        let count = self.actors[&id].heard.len();
        if self.one_in(3) {
            while let Some(heard) = self.actors.get_mut(&id).and_then(|actor| actor.heard.pop()) {
                self.ack(id, &heard, None)?;
            }
            return Ok(());
        }
        let place = self.below(count);
        let heard = self.actors[&id].heard[place].clone();
        let cumulative = self.one_in(3).then_some(u64::MAX);
        self.ack(id, &heard, cumulative)
    }

    fn ack(&mut self, id: ClientId, heard: &Heard, cumulative: Option<u64>) -> Checked {
        self.model.acknowledges(&heard.key, cumulative.is_some());
        let mut ack = json!({"ack_id": heard.id});
        if let Some(seq) = cumulative {
            ack["cumulative_seq"] = json!(seq);
        }
        self.say(id, Header::new(Kind::Ack, "a", 1), &ack)
    }

    fn give_back(&mut self) -> Checked {
        let Some(id) = self.some_actor(|actor| actor.name.is_some() && !actor.heard.is_empty())
        else {
            return Ok(());
        };
        let place = self.below(self.actors[&id].heard.len());
        let heard = self.actors[&id].heard[place].clone();
        let mut nack = json!({"ack_id": heard.id, "code": "LATER"});
        if !self.one_in(4) {
            nack["retry_after_ms"] = json!(self.below(400));
            self.model.gives_back(&heard.key);
        }
        self.say(id, Header::new(Kind::Nack, "n", 1), &nack)
    }

    /// A message that whoever hears it fails at, again and again.
    fn kill_readers(&mut self) -> Checked {
        let Some(id) = self.some_actor(|actor| actor.name.is_some() && !actor.heard.is_empty())
        else {
            return Ok(());
        };
        let heard = self.actors[&id].heard[0].clone();
        for _ in 0..FAILURES_MAX {
            if self.actors.get(&id).is_none_or(|actor| actor.name.is_none()) {
                return Ok(());
            }
            self.model.gives_back(&heard.key);
            let nack = json!({"ack_id": heard.id, "code": "LATER", "retry_after_ms": 0});
            self.say(id, Header::new(Kind::Nack, "n", 1), &nack)?;
            self.write_all(id)?;
            self.wait(50)?;
        }
        Ok(())
    }

    /// Some of what was handed out is written, to the last byte or not.
    fn read(&mut self) -> Checked {
        let Some(id) = self.some_actor(|actor| !actor.stalls && !actor.unwritten.is_empty()) else {
            return Ok(());
        };
        let all = self.actors[&id].unwritten_bytes();
        let bytes = if self.one_in(3) { 1 + self.below(all) } else { all };
        self.write(id, bytes)?;
        if let Some(actor) = self.actors.get_mut(&id)
            && let Some(nonce) = actor.nonce.take()
            && actor.name.is_some()
        {
            return self.say(id, Header::new(Kind::Pong, "p", 1), &json!({"nonce": nonce}));
        }
        Ok(())
    }

    fn write_all(&mut self, id: ClientId) -> Checked {
        match self.actors.get(&id).map(Actor::unwritten_bytes) {
            None | Some(0) => Ok(()),
            Some(bytes) => self.write(id, bytes),
        }
    }

    fn write(&mut self, id: ClientId, bytes: usize) -> Checked {
        let Some(actor) = self.actors.get_mut(&id) else { return Ok(()) };
        actor.written += bytes;
        while let Some(first) = actor.unwritten.front()
            && first.bytes <= actor.written
        {
            actor.written -= first.bytes;
            if let Some(key) = actor.unwritten.pop_front().and_then(|handed| handed.once) {
                self.model.was_written(&key);
            }
        }
        self.handle(Input::Written(id, bytes))
    }

    fn subscribe(&mut self) -> Checked {
        let Some(id) = self.some_member() else { return Ok(()) };
        let pattern = PATTERNS[self.below(PATTERNS.len())];
        let kind = if self.one_in(3) { Kind::Unsubscribe } else { Kind::Subscribe };
        let Some(actor) = self.actors.get_mut(&id) else { return Ok(()) };
        if !actor.name.as_ref().is_some_and(|name| name.starts_with('@')) {
            match kind {
                Kind::Subscribe => actor.patterns.insert(pattern),
                _ => actor.patterns.remove(pattern),
            };
        }
        self.say(id, Header { topic: Some(pattern), ..Header::new(kind, "t", 1) }, &json!({}))
    }

    /// What no good client says; nobody else may notice.
    fn lie(&mut self) -> Checked {
        let Some(id) = self.some_actor(|actor| !actor.is_closing) else { return Ok(()) };
        let foreign: Vec<_> = self
            .actors
            .iter()
            .filter(|(other, _)| **other != id)
            .flat_map(|(_, a)| &a.heard)
            .collect();
        let foreign = foreign.first().map_or_else(|| "none".to_owned(), |heard| heard.id.clone());
        let is_member = self.actors[&id].name.is_some();
        let header = |kind| Header::new(kind, "l", 1);
        match self.below(8) {
            0 => self.frame(id, b"[]"),
            1 => {
                self.frame(id, b"{\"v\":1,\"type\":\"WHAT\",\"id\":\"i\",\"ts\":1,\"payload\":{}}")
            }
            2 => self.say(id, header(Kind::Welcome), &json!({"agent": "ann"})),
            3 => self.say(id, header(Kind::Hello), &json!({"agent": "admin"})),
            4 if is_member => self.say(id, header(Kind::Ack), &json!({"ack_id": foreign})),
            5 if is_member => {
                let forged = Header { from: Some("root"), to: Some("ann"), ..header(Kind::Send) };
                self.say(id, forged, &json!({"body": "forged"}))
            }
            6 if is_member => {
                let request = Header { to: Some("@relay"), ..header(Kind::Send) };
                self.say(id, request, &json!({"kind": "request", "body": "tap"}))
            }
            _ => {
                let broken = Violation::new(ErrorCode::FrameTooLarge, "too large");
                self.handle(Input::Violated(id, broken))
            }
        }
    }

    fn stall(&mut self) -> Checked {
        if let Some(id) = self.some_actor(|_| true)
            && let Some(actor) = self.actors.get_mut(&id)
        {
            actor.stalls = !actor.stalls;
        }
        Ok(())
    }

    /// The daemon itself is stopped for a while.
    fn sleep(&mut self) -> Checked {
        self.now += 1 + self.below(30_000) as u64;
        self.note(format!("slept until {}", self.now));
        self.handle(Input::Tick)
    }

    fn wait(&mut self, ms: u64) -> Checked {
        let until = self.now + ms;
        while let Some(due) = self.router.deadline().filter(|due| due.0 <= until) {
            self.now = self.now.max(due.0);
            self.handle(Input::Tick)?;
        }
        self.now = until;
        Ok(())
    }

    fn say(&mut self, id: ClientId, header: Header<'_>, payload: &Value) -> Checked {
        let mut bytes = Vec::new();
        header.append(&mut bytes, payload);
        self.frame(id, &bytes[4..])
    }

    fn frame(&mut self, id: ClientId, json: &[u8]) -> Checked {
        self.note(format!("{id:?} > {:.160}", String::from_utf8_lossy(json)));
        self.handle(Input::Frame(id, json))
    }

    fn note(&mut self, line: String) {
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{:>7} {line}", self.now));
    }

    fn handle(&mut self, input: Input<'_>) -> Checked {
        let now = Now { monotonic: Moment(self.now), unix_ms: self.now };
        let gone = match &input {
            Input::Disconnected(id) => Some(*id),
            _ => None,
        };
        if !matches!(input, Input::Frame(..)) {
            self.note(format!("{input:?}"));
        }
        let before = self.members();
        let mut out = Vec::new();
        self.router.handle(now, input, &mut out);
        if let Some(id) = gone {
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
                self.note(format!("    close {id:?} {reason:?}"));
                if let Some(actor) = self.actors.get_mut(&id) {
                    actor.is_closing = true;
                    actor.name = None;
                }
            }
            Output::HangUp(id) => {
                self.note(format!("    hang up {id:?}"));
                let is_closing = self.actors.get(&id).is_some_and(|actor| actor.is_closing);
                if !is_closing {
                    return Err(format!("{id:?} is hung up without being closed"));
                }
            }
            Output::Gate(..) | Output::Log(_) => {}
            Output::Stopped => return Err("nobody asked it to stop".to_owned()),
        }
        Ok(())
    }

    fn take_frame(&mut self, id: ClientId, frame: &Frame) -> Checked {
        let mut bytes = frame.head.clone();
        bytes.extend_from_slice(frame.shared.as_deref().unwrap_or_default());
        let text = String::from_utf8_lossy(&bytes[4..]).into_owned();
        self.note(format!("    {id:?} < {text:.300}"));
        let envelope = Envelope::read(&bytes[4..]).map_err(|bad| format!("{bad}: {text}"))?;
        let payload: Value = serde_json::from_str(envelope.payload).map_err(|e| e.to_string())?;
        let actor = self.actors.get_mut(&id).ok_or_else(|| format!("{id:?} is gone: {text}"))?;
        if actor.is_closing {
            return Err(format!("{id:?} is told something after its close: {text}"));
        }
        let mut once = None;
        match envelope.kind {
            Kind::Welcome => actor.name = payload["agent"].as_str().map(str::to_lowercase),
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
        actor.unwritten.push_back(Handed { bytes: bytes.len(), once });
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
        self.note("peace".to_owned());
        self.handle(Input::Outside(0))?;
        for id in self.actors.keys().copied().collect::<Vec<_>>() {
            self.disconnect(id)?;
        }
        for name in NAMES {
            let id = ClientId(self.next_client);
            self.next_client += 1;
            self.actors.insert(id, Actor::default());
            self.handle(Input::Connected(id))?;
            self.say(id, Header::new(Kind::Hello, "h", 1), &json!({"agent": name}))?;
        }
        for _ in 0..200 {
            if self.is_quiet() {
                return Ok(());
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
        streams_max: 50,
        strangers_max: 3,
        subscriptions_max: 3,
        doubles_max: 4,
        answers_bytes_max: 2_000,
        window_bytes: 1_000,
        ..Limits::default()
    }
}

impl Router {
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

    /// Every delivery that is not over: the SEND's id, and to whom.
    fn held(&self) -> BTreeSet<(String, String)> {
        let name = |agent| self.roster[agent].name.folded();
        let mut held: BTreeSet<_> = self
            .messages
            .values()
            .map(|message| (message.send_id.as_str().to_owned(), name(message.to)))
            .collect();
        for client in self.clients.values() {
            for handed in client.window.frames() {
                if let (What::Once(_, id), Some(agent)) = (&handed.what, client.agent) {
                    held.insert((id.as_str().to_owned(), name(agent)));
                }
            }
        }
        held
    }
}
