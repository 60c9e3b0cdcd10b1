//! A world in which the daemon dies, between any two steps, and its disk is slow, fills up, fails, and begins
//! anew.
//!
//! Here the clients are applications on our own client library. Nothing is known of what the machine
//! should do next, only what was promised: see `promises`, and `outcomes` for senders. What is kept has to be what the machine holds,
//! whenever the disk has come up with it.

use super::{
    Canary, Checked, NAMES, PATTERNS, TOPICS,
    disk::{Disk, Health, Report},
    person::Person,
    promises::{Promises, Sent},
    seeds::{self, Story},
};
use crate::{
    client::session,
    protocol::{
        Moment, Now,
        code::NackCode,
        envelope::{Envelope, Header, Kind},
        payload::{Ack, Capabilities, Nack, Welcome},
    },
    router::{ClientId, Frame, Input, Limits, Output, Router},
};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use uuid::Uuid;

/// A connection.
#[derive(Debug, Default)]
struct Wire {
    /// Whose it is; nobody's are those of strangers, and what was left behind.
    owner: Option<usize>,
    /// The folded name that it has, from WELCOME to its end.
    member: Option<String>,
    /// On the way to the daemon, and from it.
    inbound: VecDeque<Vec<u8>>,
    outbound: VecDeque<Vec<u8>>,
    /// Bytes of the first of these that have left.
    left: usize,
    is_gated: bool,
    /// The daemon closes it once all has left.
    is_closing: bool,
    /// The other end does, once all has come.
    is_leaving: bool,
}

pub(super) struct World {
    seed: u64,
    steps: usize,
    random: ChaCha8Rng,
    router: Router,
    canary: Option<Canary>,
    now: u64,
    disk: Disk,
    promises: Promises,
    people: Vec<Person>,
    wires: BTreeMap<ClientId, Wire>,
    next_client: u64,
    is_peace: bool,
    story: Story,
}

impl World {
    pub(super) fn run(seed: u64, steps: usize, canary: Option<Canary>) -> Checked {
        seeds::tell(seed, steps, |story| Self::live(seed, steps, canary, story))
    }

    fn live(seed: u64, steps: usize, canary: Option<Canary>, story: Story) -> Checked {
        let mut bytes = [1; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut router = Router::new(limits(), bytes);
        router.canary = canary;
        let mut world = Self {
            seed,
            steps,
            random: ChaCha8Rng::from_seed(bytes),
            router,
            canary,
            now: 1_000,
            disk: Disk::default(),
            promises: Promises::default(),
            people: Vec::new(),
            wires: BTreeMap::new(),
            next_client: 1,
            is_peace: false,
            story,
        };
        for name in NAMES {
            let person = world.new_person(name);
            world.people.push(person);
        }
        let steps = (0..steps).try_for_each(|_| world.step());
        let outcome = steps.and_then(|()| world.peace());
        outcome.map_err(|why| format!("{why}\n{}", world.story()))
    }

    fn story(&self) -> String {
        self.story.text(self.seed, self.steps, "sim::lasting")
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        self.story.note(self.now, line);
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.next_u32() as usize % bound
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    fn now(&self) -> Now {
        Now { monotonic: Moment(self.now), unix_ms: self.now }
    }

    fn step(&mut self) -> Checked {
        match self.below(200) {
            0..40 => self.speak(),
            40..70 => self.answer(),
            70..110 => self.carry_some_in(),
            110..150 => self.carry_some_out(),
            150..174 => {
                let inputs = 1 + self.below(6);
                self.commit(inputs)
            }
            174..177 => self.turn(),
            177..180 => self.cut(),
            180 => self.die(),
            181 => self.intrude(),
            182..184 => self.listen(),
            184 => self.crash(),
            185 => {
                self.now += 1 + self.below(10_000) as u64;
                self.tick()
            }
            186 => {
                let bytes = self.below(4) * 6_000;
                self.handle(Input::Outside(bytes))
            }
            _ => {
                let ms = 1 + self.below(150) as u64;
                self.wait(ms)
            }
        }
    }

    /// The disk is as it will be for a while. In some worlds, in which nothing dies afterwards, what failed may
    /// begin anew, and fail again at once.
    fn turn(&mut self) -> Checked {
        let may_lose = self.seed.is_multiple_of(4) && self.disk.health == Health::Fails;
        let is_anew = may_lose && self.one_in(4);
        self.disk.health = [Health::Works, Health::Full, Health::Fails][self.below(3)];
        let health = self.disk.health;
        self.note(|| format!("the disk: {health:?}"));
        if is_anew {
            self.note(|| "it begins anew".to_owned());
            self.disk.begin_anew();
            self.handle(Input::Lost)?;
        }
        Ok(())
    }
}

/// What people do.
impl World {
    fn new_person(&mut self, name: &'static str) -> Person {
        let capabilities = Capabilities {
            ack: !self.one_in(10) || self.is_peace,
            resume: !self.one_in(3),
            max_inflight: [1, 2, 256][self.below(3)],
            supports_topics: true,
            reports: false,
        };
        let (is_guest, seed) = (self.one_in(10) && !self.is_peace, self.bytes());
        let mut person = Person::new(name, is_guest, capabilities, seed);
        person.is_over = true;
        person
    }

    fn speak(&mut self) -> Checked {
        let who = self.below(self.people.len());
        if self.people[who].is_over {
            return self.begin(who);
        }
        let times = if self.one_in(10) { 8 } else { 1 };
        for _ in 0..times {
            let again =
                self.people[who].refused.pop().filter(|_| self.random.next_u32().is_multiple_of(2));
            let number = again.unwrap_or_else(|| self.new_send(who));
            let sent = &self.promises.sends[number];
            let (id, message) = self.people[who].message(number, sent);
            self.note(|| format!("{} sends {number}", NAMES[who]));
            self.drive(who, session::Input::Send(id, message, 1))?;
        }
        Ok(())
    }

    fn new_send(&mut self, who: usize) -> usize {
        let topic = TOPICS[self.below(TOPICS.len())];
        let name = NAMES[self.below(NAMES.len())];
        let (to, topic) = match self.below(10) {
            0..5 => (Some(name), None),
            5..7 => (Some(name), Some(topic)),
            7..9 => (Some("*"), None),
            _ => (None, Some(topic)),
        };
        let number = self.promises.sends.len();
        let length = if self.one_in(10) { 900 } else { self.below(40) };
        let asks = self.one_in(4);
        let sent = Sent {
            by: (!self.people[who].is_guest).then_some(NAMES[who]),
            to,
            topic,
            requires_ack: asks || !self.one_in(3),
            timeout_ms: asks.then(|| 1 + self.below(3_000) as u64),
            ttl_ms: self.one_in(6).then(|| self.below(3_000) as u64),
            body: format!("{number} {}", "x".repeat(length)),
        };
        self.promises.sends.push(sent);
        number
    }

    /// A life begins.
    fn begin(&mut self, who: usize) -> Checked {
        let person = self.new_person(self.people[who].name);
        self.people[who] = person;
        self.people[who].is_over = false;
        self.note(|| format!("{} begins anew", NAMES[who]));
        self.drive(who, session::Input::Start)
    }

    /// The application dies: what it has said may still arrive.
    fn die(&mut self) -> Checked {
        let who = self.below(self.people.len());
        if let Some(id) = self.people[who].wire.take()
            && let Some(wire) = self.wires.get_mut(&id)
        {
            (wire.owner, wire.is_leaving) = (None, true);
        }
        self.note(|| format!("{} dies", NAMES[who]));
        self.people[who].is_over = true;
        self.begin(who)
    }

    fn listen(&mut self) -> Checked {
        let who = self.below(self.people.len());
        let pattern = PATTERNS[self.below(PATTERNS.len())].to_owned();
        let input = match self.below(3) {
            0 => session::Input::Unsubscribe(pattern),
            _ => session::Input::Subscribe(pattern),
        };
        if self.people[who].is_over { Ok(()) } else { self.drive(who, input) }
    }

    /// ACK, later please, or not at all.
    fn answer(&mut self) -> Checked {
        let who = self.below(self.people.len());
        let (count, kind) = (self.people[who].held.len(), self.below(20));
        if let Some(reply) = self.people[who].to_answer.pop() {
            self.note(|| format!("{} answers {}", NAMES[who], reply.delivery_id));
            return self.drive(who, session::Input::Answer(reply, 1));
        }
        if count == 0 {
            return Ok(());
        }
        if kind < 6 {
            return self.answer_all(who);
        }
        let place = self.below(count);
        let id = self.people[who].held.remove(place);
        if kind < 16 {
            return self.acknowledge(who, id);
        }
        let mut nack = Nack::new(id.to_string(), NackCode::Refused, "not now");
        // Where this gets lost, it comes again even if it isn't wanted.
        self.people[who].gives_back(id);
        if kind < 19 {
            nack.retry_after_ms = Some(self.below(400) as u64);
        } else {
            self.promises.given_up.insert(id);
        }
        self.note(|| format!("{} gives back {id}", NAMES[who]));
        self.drive(who, session::Input::GiveBack(nack))
    }

    fn answer_all(&mut self, who: usize) -> Checked {
        while let Some(id) = self.people[who].held.pop() {
            self.acknowledge(who, id)?;
        }
        Ok(())
    }

    fn acknowledge(&mut self, who: usize, id: Uuid) -> Checked {
        self.promises.acknowledged.insert(id);
        if let Some(reply) = self.people[who].asked.remove(&id) {
            match self.below(4) {
                0 => {}
                1 => self.people[who].to_answer.push(reply),
                _ => return self.drive(who, session::Input::Answer(reply, 1)),
            }
        }
        self.drive(who, session::Input::Acknowledge(id.to_string()))
    }

    /// Somebody wants a name that is taken, or takes one that is free.
    fn intrude(&mut self) -> Checked {
        let name = NAMES[self.below(NAMES.len())];
        let token = self.one_in(2).then_some("stolen");
        let id = self.connect(None)?;
        let mut hello = Vec::new();
        let payload = json!({"agent": name, "session": {"resume_token": token}});
        Header::new(Kind::Hello, "h", 1).append(&mut hello, &payload);
        self.handle(Input::Frame(id, &hello[4..]))
    }

    /// The library takes something in.
    fn drive(&mut self, who: usize, input: session::Input<'_>) -> Checked {
        let (now, mut out) = (self.now(), Vec::new());
        self.people[who].session.handle(now, input, &mut out);
        for output in out {
            let person = &mut self.people[who];
            match output {
                session::Output::Connect => person.dials = true,
                session::Output::Frame(bytes) => {
                    if let Some(wire) = person.wire.and_then(|id| self.wires.get_mut(&id)) {
                        wire.inbound.push_back(bytes);
                    }
                }
                session::Output::Close => {
                    if let Some(wire) = person.wire.take().and_then(|id| self.wires.get_mut(&id)) {
                        (wire.owner, wire.is_leaving) = (None, true);
                    }
                }
                session::Output::HangUp => {
                    person.dials = false;
                    if let Some(id) = person.wire.take() {
                        self.hang_up(id)?;
                    }
                }
                session::Output::Released(_) => {}
                session::Output::Event(event) => {
                    self.promises.outcomes.heard(&event);
                    person.takes(event, &self.promises)?;
                }
            }
        }
        Ok(())
    }
}

/// What happens to connections.
impl World {
    fn connect(&mut self, owner: Option<usize>) -> Result<ClientId, String> {
        let id = ClientId(self.next_client);
        self.next_client += 1;
        self.wires.insert(id, Wire { owner, ..Wire::default() });
        self.handle(Input::Connected(id))?;
        Ok(id)
    }

    /// Who awaits a stream gets one, mostly.
    fn dial(&mut self) -> Checked {
        while let Some(who) = self.people.iter().position(|person| person.dials) {
            self.people[who].dials = false;
            if self.one_in(8) && !self.is_peace {
                let why = "nobody there".to_owned();
                self.drive(who, session::Input::NotConnected { why, absent: true })?;
                continue;
            }
            let id = self.connect(Some(who))?;
            self.people[who].wire = Some(id);
            self.note(|| format!("{} is {id:?}", NAMES[who]));
            if self.canary == Some(Canary::ForgetfulLibrary) {
                self.people[who].session.forget_heard();
            }
            self.drive(who, session::Input::Connected)?;
        }
        Ok(())
    }

    fn some_wire(&mut self) -> Option<ClientId> {
        let place = self.below(self.wires.len().max(1));
        self.wires.keys().nth(place).copied()
    }

    fn carry_some_in(&mut self) -> Checked {
        let Some(id) = self.some_wire().filter(|id| !self.wires[id].is_gated) else {
            return Ok(());
        };
        // They are read at once: a gate that shuts because of one is too late for the others.
        for _ in 0..=self.below(4) {
            self.carry_in(id)?;
        }
        Ok(())
    }

    /// A frame reaches the daemon.
    fn carry_in(&mut self, id: ClientId) -> Checked {
        let Some(wire) = self.wires.get_mut(&id) else { return Ok(()) };
        match wire.inbound.pop_front() {
            Some(bytes) => {
                self.note(|| format!("{id:?} > {:.300}", String::from_utf8_lossy(&bytes[4..])));
                self.listens(&bytes)?;
                self.handle(Input::Frame(id, &bytes[4..]))
            }
            None if wire.is_leaving => self.disconnect(id),
            None => Ok(()),
        }
    }

    fn listens(&mut self, bytes: &[u8]) -> Checked {
        let envelope = Envelope::read(&bytes[4..]).map_err(|bad| bad.to_string())?;
        if envelope.kind == Kind::Nack {
            let nack = envelope.typed(envelope.payload).map_err(|bad| bad.to_string())?;
            self.promises.gives_back(&nack);
        }
        Ok(())
    }

    fn carry_some_out(&mut self) -> Checked {
        let Some(id) = self.some_wire() else { return Ok(()) };
        let all: usize = self.wires[&id].outbound.iter().map(Vec::len).sum();
        let all = all - self.wires[&id].left;
        let bytes = if self.one_in(3) { self.below(all + 1) } else { all };
        self.carry_out(id, bytes)
    }

    /// So many bytes leave the daemon.
    fn carry_out(&mut self, id: ClientId, bytes: usize) -> Checked {
        let Some(wire) = self.wires.get_mut(&id) else { return Ok(()) };
        if bytes == 0 && wire.is_closing && wire.outbound.is_empty() {
            return self.disconnect(id);
        }
        let frames = self.leave(id, bytes);
        if bytes > 0 {
            self.handle(Input::Written(id, bytes))?;
        }
        self.reach(id, frames)
    }

    /// What has left as a whole.
    fn leave(&mut self, id: ClientId, bytes: usize) -> Vec<Vec<u8>> {
        let Some(wire) = self.wires.get_mut(&id) else { return Vec::new() };
        wire.left += bytes;
        let mut frames = Vec::new();
        while let Some(first) = wire.outbound.front()
            && first.len() <= wire.left
        {
            wire.left -= first.len();
            frames.extend(wire.outbound.pop_front());
        }
        frames
    }

    /// Frames reach a library, while it listens on this connection.
    fn reach(&mut self, id: ClientId, frames: Vec<Vec<u8>>) -> Checked {
        for frame in frames {
            let owner = self.wires.get(&id).and_then(|wire| wire.owner);
            let Some(who) = owner.filter(|who| self.people[*who].wire == Some(id)) else {
                self.promises.outcomes.loses(&frame);
                continue;
            };
            self.people[who].reads(&frame[4..]);
            self.drive(who, session::Input::Frame(&frame[4..]))?;
            self.people[who].knows = false;
        }
        Ok(())
    }

    /// The library is done with a connection: what it said may arrive before.
    fn hang_up(&mut self, id: ClientId) -> Checked {
        if let Some(wire) = self.wires.get_mut(&id) {
            (wire.owner, wire.is_leaving) = (None, true);
        }
        if self.one_in(2) { self.disconnect(id) } else { Ok(()) }
    }

    fn cut(&mut self) -> Checked {
        match self.some_wire() {
            Some(id) => self.disconnect(id),
            None => Ok(()),
        }
    }

    /// Both ends find the connection ended.
    fn disconnect(&mut self, id: ClientId) -> Checked {
        let Some(wire) = self.wires.remove(&id) else { return Ok(()) };
        self.note(|| format!("{id:?} ends"));
        self.promises.ends(id);
        self.handle(Input::Disconnected(id))?;
        self.lose(id, &wire)
    }

    fn lose(&mut self, id: ClientId, wire: &Wire) -> Checked {
        if let Some(who) = wire.owner
            && self.people[who].wire == Some(id)
        {
            self.people[who].wire = None;
            self.drive(who, session::Input::Disconnected("the stream ended".to_owned()))?;
        }
        Ok(())
    }
}

/// What happens to the daemon.
impl World {
    fn handle(&mut self, input: Input<'_>) -> Checked {
        let (now, mut out) = (self.now(), Vec::new());
        self.router.handle(now, input, &mut out);
        self.take_all(out)
    }

    fn take_all(&mut self, out: Vec<Output>) -> Checked {
        let (mut changes, mut hung_up) = (Vec::new(), Vec::new());
        for output in &out {
            if let Output::Close(id, _) = output {
                self.promises.ends(*id);
            }
        }
        for output in out {
            match output {
                Output::Frame(id, frame) => self.take_frame(id, frame)?,
                Output::Keep(change) => {
                    self.note(|| format!("    keep {:.160}", format!("{change:?}")));
                    self.promises.said(&change, Moment(self.now), limits().ttl_ms)?;
                    changes.push(change);
                }
                Output::Gate(id, is_open) => self.wire(id)?.is_gated = !is_open,
                Output::Close(id, reason) => {
                    self.note(|| format!("    close {id:?} {reason:?}"));
                    let wire = self.wire(id)?;
                    (wire.is_closing, wire.member) = (true, None);
                }
                Output::HangUp(id) => hung_up.push(id),
                Output::Log(line) => {
                    if let Some((name, _)) = line.split_once(" is away: ") {
                        self.promises.outcomes.drops(&name.to_lowercase(), &self.promises.sends);
                    }
                }
                Output::Query(..) | Output::Reload(_) | Output::Stopped => {
                    return Err(format!("{output:?} to nobody"));
                }
            }
        }
        self.disk.take(changes, self.now());
        let here = self.wires.values().filter_map(|wire| wire.member.clone()).collect();
        self.router.audit(&here)?;
        hung_up.into_iter().try_for_each(|id| self.disconnect(id))
    }

    fn wire(&mut self, id: ClientId) -> Result<&mut Wire, String> {
        self.wires.get_mut(&id).ok_or_else(|| format!("{id:?} is gone and is told something"))
    }

    fn take_frame(&mut self, id: ClientId, frame: Frame) -> Checked {
        let mut bytes = frame.head;
        bytes.extend_from_slice(frame.shared.as_deref().unwrap_or_default());
        self.note(|| format!("    {id:?} < {:.300}", String::from_utf8_lossy(&bytes[4..])));
        let envelope = Envelope::read(&bytes[4..]).map_err(|bad| bad.to_string())?;
        let typed = |bad: crate::protocol::code::Violation| bad.to_string();
        match envelope.kind {
            Kind::Welcome => {
                let welcome: Welcome = envelope.typed(envelope.payload).map_err(typed)?;
                let name = welcome.agent.to_lowercase();
                let Promises { outcomes, sends, .. } = &mut self.promises;
                outcomes.welcomes(&name, &welcome.session_id, sends);
                self.wire(id)?.member = Some(name);
            }
            Kind::Deliver => self.promises.delivers(id, &envelope, &self.disk)?,
            Kind::Ack => {
                let ack: Ack<'_> = envelope.typed(envelope.payload).map_err(typed)?;
                if ack.state.as_deref() == Some("accepted") {
                    self.promises.accepts(&ack, &self.disk)?;
                }
            }
            _ => {}
        }
        let is_swapped = self.canary == Some(Canary::SwappedFrames);
        let wire = self.wire(id)?;
        if wire.is_closing {
            return Err(format!("{id:?} is told something after its close"));
        }
        wire.outbound.push_back(bytes);
        let count = wire.outbound.len();
        if is_swapped && count > 2 {
            wire.outbound.swap(count - 2, count - 1);
        }
        Ok(())
    }

    fn commit(&mut self, inputs: usize) -> Checked {
        match self.disk.commit(inputs) {
            None => {}
            Some(Report::Kept(upto)) => {
                self.note(|| format!("kept {upto}"));
                self.handle(Input::Kept(upto))?;
            }
            Some(Report::Refused(upto)) => {
                self.note(|| format!("refused {upto}"));
                self.handle(Input::Refused(upto, "no space left on device"))?;
            }
        }
        if self.disk.is_even() { self.router.audit_kept(&self.disk) } else { Ok(()) }
    }

    /// The daemon dies and another one begins with what was kept.
    fn crash(&mut self) -> Checked {
        // Of a disk that lost what it had, nobody promises anything.
        if self.disk.is_anew() {
            return Ok(());
        }
        self.last_words()?;
        let inputs = self.below(self.disk.behind() + 1);
        let lost = self.disk.crash(inputs);
        self.note(|| format!("crash; of what was not synced, {inputs} inputs' changes are kept"));
        for stream in self.promises.loses(&lost, &self.disk) {
            self.people.iter_mut().for_each(|person| person.forgets(&stream));
        }
        self.now += self.below(500) as u64;
        let held: Vec<_> = self.router.kept_answers().map(|(_, _, frame)| frame).collect();
        self.router = Router::new(limits(), self.bytes());
        self.router.canary = self.canary;
        let (now, mut out) = (self.now(), Vec::new());
        let wires = std::mem::take(&mut self.wires);
        let handed = wires.values().flat_map(|wire| &wire.outbound).map(Vec::as_slice);
        for frame in handed
            .chain(held.iter().map(|frame| &**frame))
            .filter(|frame| !self.disk.had_answer(frame))
        {
            self.promises.outcomes.loses(frame);
        }
        self.router.restore(now, self.disk.image(), &mut out);
        self.take_all(out)?;
        wires.into_iter().try_for_each(|(id, wire)| self.lose(id, &wire))
    }

    /// What was handed out may leave before anybody hears so.
    fn last_words(&mut self) -> Checked {
        for id in self.wires.keys().copied().collect::<Vec<_>>() {
            if self.one_in(2) {
                let all = self.wires[&id].outbound.iter().map(Vec::len).sum::<usize>();
                let bytes = self.below(all + 1 - self.wires[&id].left);
                let frames = self.leave(id, bytes);
                self.reach(id, frames)?;
            }
        }
        Ok(())
    }

    fn wait(&mut self, ms: u64) -> Checked {
        let until = self.now + ms;
        self.dial()?;
        while let Some(due) = self.deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.tick()?;
            self.dial()?;
        }
        self.now = until;
        Ok(())
    }

    fn deadline(&self) -> Option<u64> {
        let people = self.people.iter().filter(|person| !person.is_over);
        let people = people.filter_map(|person| person.session.deadline());
        people.chain(self.router.deadline()).map(|due| due.0).min()
    }

    fn tick(&mut self) -> Checked {
        let is_due = |due: Option<Moment>, now| due.is_some_and(|due| due.0 <= now);
        if is_due(self.router.deadline(), self.now) {
            self.handle(Input::Tick)?;
        }
        for who in 0..self.people.len() {
            let person = &self.people[who];
            if !person.is_over && is_due(person.session.deadline(), self.now) {
                self.drive(who, session::Input::Tick)?;
            }
        }
        Ok(())
    }
}

/// The end.
impl World {
    /// The disk works, everybody is here and answers; then nothing may be left.
    fn peace(&mut self) -> Checked {
        self.note(|| "peace".to_owned());
        (self.is_peace, self.disk.health) = (true, Health::Works);
        self.handle(Input::Outside(0))?;
        for id in self.wires.keys().copied().collect::<Vec<_>>() {
            self.disconnect(id)?;
        }
        for _ in 0..900 {
            for who in (0..self.people.len()).cycle().take(3 * self.people.len()) {
                self.settle(who)?;
                self.commit(usize::MAX)?;
            }
            let is_left_behind = |wire: &Wire| wire.owner.is_none();
            let behind = self.wires.iter().filter(|(_, wire)| is_left_behind(wire));
            for id in behind.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.disconnect(id)?;
            }
            if self.is_quiet() {
                return self.nothing_is_left();
            }
            self.wait(200)?;
        }
        Err(format!("in a quiet world something still waits: {}", self.what_waits()))
    }

    /// Goes on with its life, or begins one in which it acknowledges.
    fn settle(&mut self, who: usize) -> Checked {
        if self.people[who].is_over || !self.people[who].acknowledges {
            return self.begin(who);
        }
        let Some(id) = self.people[who].wire else { return Ok(()) };
        let Some(wire) = self.wires.get(&id) else { return Ok(()) };
        let all = wire.outbound.iter().map(Vec::len).sum::<usize>() - wire.left;
        self.carry_out(id, all)?;
        self.answer_all(who)?;
        while self.wires.get(&id).is_some_and(|wire| !wire.inbound.is_empty() && !wire.is_gated) {
            self.carry_in(id)?;
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.what_waits().is_empty()
    }

    fn what_waits(&self) -> String {
        let mut waits = String::new();
        for person in &self.people {
            if person.wire.is_none() || !person.unanswered.is_empty() {
                let (name, unanswered) = (person.name, &person.unanswered);
                waits.push_str(&format!("{name} {:?} awaits {unanswered:?}; ", person.wire));
            }
        }
        let silent = |wire: &Wire| wire.inbound.is_empty() && wire.outbound.is_empty();
        for wire in self.wires.values().filter(|wire| !silent(wire)) {
            waits.push_str(&format!("frames on {wire:.300?}; "));
        }
        for message in self.router.messages.values() {
            waits.push_str(&format!("{message:.300?}; "));
        }
        if self.router.memory.inside > 0 {
            waits.push_str("bytes; ");
        }
        if !self.disk.is_even() {
            waits.push_str("changes; ");
        }
        waits
    }

    fn nothing_is_left(&self) -> Checked {
        if let Some(number) = self.disk.open.first() {
            return Err(format!("{number} is over and open on the disk"));
        }
        let (answers, questions) = (&self.disk.synced.notices, &self.disk.synced.questions);
        if !answers.is_empty() || !questions.is_empty() {
            return Err(format!("on the disk wait {answers:?} {questions:?}"));
        }
        self.promises.outcomes.nothing_is_due(&self.promises.sends, &self.disk)
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

/// Small enough that every bound is met, but for doubles: who waits for more answers than these are
/// remembered may be taken at his word twice.
fn limits() -> Limits {
    Limits {
        ttl_ms: 600_000,
        queue_messages_max: 12,
        queue_bytes_max: 9_000,
        memory_bytes_max: 40_000,
        clients_max: 8,
        names_max: 9,
        resume_window_ms: 20_000,
        doubles_max: 4_096,
        doubles_total_max: 1 << 16,
        backlog_max: 60,
        waiting_answers_bytes_max: 3_000,
        ..super::limits()
    }
}

impl Router {
    /// What is kept is what is held.
    fn audit_kept(&self, disk: &Disk) -> Checked {
        let held = self.deliveries.values().map(|key| self.messages[*key].order);
        let held: std::collections::BTreeSet<_> = held.collect();
        if held != disk.open {
            return Err(format!("held are {held:?}, kept are {:?}", disk.open));
        }
        for stream in self.streams.all().filter(|stream| stream.is_recorded) {
            let record = disk.synced.streams.get(&stream.number);
            if record
                .is_none_or(|record| stream.asked != u64::MAX && record.reserved < stream.asked)
            {
                return Err(format!("{stream:?} is kept as {record:?}"));
            }
        }
        for agent in self.roster.all().filter(|agent| agent.floor.number > 0) {
            let record = disk.synced.streams.get(&agent.floor.number);
            if record.is_none_or(|record| record.reserved != agent.floor.seq) {
                return Err(format!("the floor of {agent:?} is kept as {record:?}"));
            }
        }
        let answers: Vec<_> = self.kept_answers().map(|(number, ..)| number).collect();
        let answers: std::collections::BTreeSet<_> = answers.into_iter().collect();
        if !answers.iter().eq(disk.synced.notices.keys()) {
            let kept: Vec<_> = disk.synced.notices.keys().collect();
            return Err(format!("answers held are {answers:?}, kept are {kept:?}"));
        }
        let questions: std::collections::BTreeSet<_> = self.questions.kept().collect();
        if !questions.iter().eq(disk.synced.questions.keys()) {
            let kept = &disk.synced.questions;
            return Err(format!("questions held are {questions:?}, kept are {kept:?}"));
        }
        for agent in self.roster.all().filter(|agent| !agent.is_guest()) {
            let record = disk.synced.sessions.get(&agent.number);
            let session = agent.session.as_deref();
            let token = session.map(|session| session.token);
            if token != record.map(|record| record.token) {
                return Err(format!("{} has {session:?}, kept is {record:?}", agent.name));
            }
        }
        Ok(())
    }
}

#[test]
fn nothing_promised_is_broken_by_a_crash_or_a_disk() {
    seeds::look_into_all(|seed, steps| World::run(seed, steps, None));
}
