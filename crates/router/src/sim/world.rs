//! The seeded world: six applications on the client library, and an operator who takes mail, around
//! a router that crashes, with a disk that is slow, fills up, fails and starts over.
//!
//! Bytes travel in both directions at their own pace, connections are cut, and clients break the
//! protocol. The checks in `promises` know only what the protocol promises, not the router's
//! tables. A world ends by winding down: the disk works, every application is connected and
//! acknowledges, and in the end nothing may be pending.

use super::{
    NAMES,
    app::App,
    disk::Disk,
    limits,
    promises::Promises,
    seeds::{self, Trace},
};
use crate::{
    ClientId, Input, Output, PeerProcess,
    oracle::{Arrival, Checked, Event, Testbed, ensure},
    planted::Bug,
};
use client::session;
use protocol::{
    Moment, Now,
    code::Violation,
    envelope::{Envelope, Kind},
    frame::PREFIX,
    name::RELAY,
    payload::{Ack, Busy, Welcome},
    record::Change,
    secret::{Hash, Secret},
};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

/// A connection's client side.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// The application that uses the connection. Intruders and abandoned connections have none.
    pub(super) owner: Option<usize>,
    /// The name that the client asks for.
    pub(super) name: &'static str,
    /// Frames that have not reached the router.
    pub(super) inbound: VecDeque<Vec<u8>>,
    /// Whether the client closes the connection once the router has read all frames.
    pub(super) is_leaving: bool,
}

pub(super) struct World {
    pub(super) seed: u64,
    steps: usize,
    pub(super) rng: ChaCha8Rng,
    pub(super) bed: Testbed,
    bug: Option<Bug>,
    pub(super) disk: Disk,
    pub(super) promises: Promises,
    pub(super) apps: Vec<App>,
    pub(super) connections: BTreeMap<ClientId, Connection>,
    /// Members after the last input, by folded name.
    members: BTreeMap<String, ClientId>,
    pub(super) is_winding_down: bool,
    trace: Trace,
}

/// The operator's key.
pub(super) const OPERATOR_KEY: &str = "open";

fn operator_key() -> Hash {
    Secret::stated(OPERATOR_KEY).hash()
}

const fn now_at(ms: u64) -> Now {
    Now { monotonic: Moment(ms), unix_ms: ms }
}

impl World {
    /// Runs a world for `steps` steps, with or without a planted bug.
    ///
    /// # Errors
    /// If a promise is broken: says which, how to run the world again, and what happened last.
    pub(super) fn run(seed: u64, steps: usize, bug: Option<Bug>) -> Checked {
        seeds::run_traced(seed, steps, |trace| Self::run_with(seed, steps, bug, trace))
    }

    fn run_with(seed: u64, steps: usize, bug: Option<Bug>, trace: Trace) -> Checked {
        let mut bytes = [1; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut bed = Testbed::new(&limits(), bytes, now_at(1_000));
        bed.router.ctx.planted.plant(bug);
        bed.router.admit_operators(operator_key());
        let mut world = Self {
            seed,
            steps,
            rng: ChaCha8Rng::from_seed(bytes),
            bed,
            bug,
            disk: Disk::default(),
            promises: Promises::default(),
            apps: Vec::new(),
            connections: BTreeMap::new(),
            members: BTreeMap::new(),
            is_winding_down: false,
            trace,
        };
        for name in NAMES {
            let app = world.new_app(name);
            world.apps.push(app);
        }
        let outcome = (0..steps).try_for_each(|_| world.step()).and_then(|()| world.wind_down());
        outcome.map_err(|why| format!("{why}\n{}", world.trace()))
    }

    fn trace(&self) -> String {
        self.trace.text(self.seed, self.steps, "sim::no_seed")
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        self.trace.note(self.bed.now.monotonic.0, line);
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.rng.next_u32() as usize % bound
    }

    pub(super) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub(super) fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.rng.fill_bytes(&mut bytes);
        bytes
    }
}

/// Connections of applications and intruders.
impl World {
    pub(super) fn connect(
        &mut self,
        owner: Option<usize>,
        name: &'static str,
    ) -> Result<ClientId, String> {
        let id = self.bed.new_end();
        self.connections.insert(id, Connection { owner, name, ..Connection::default() });
        // All intruders are of one process.
        let pid = owner.map_or(1, |owner| owner as u32 + 2);
        self.handle(Input::Connected(id, Some(PeerProcess { pid, start: 0 })))?;
        Ok(id)
    }

    /// Connects the applications that want a connection. Some attempts fail.
    fn dial(&mut self) -> Checked {
        while let Some(index) = self.apps.iter().position(|app| app.dials) {
            self.apps[index].dials = false;
            if self.one_in(8) && !self.is_winding_down {
                let why = "connection refused".to_owned();
                self.drive(index, session::Input::NotConnected { why, absent: true })?;
                continue;
            }
            let id = self.connect(Some(index), NAMES[index])?;
            self.apps[index].connection = Some(id);
            self.note(|| format!("{} is {id:?}", NAMES[index]));
            self.drive(index, session::Input::Connected)?;
        }
        Ok(())
    }

    pub(super) fn some_connection(&mut self) -> Option<ClientId> {
        let index = self.below(self.connections.len().max(1));
        self.connections.keys().nth(index).copied()
    }

    /// Carries some frames of one client or of several to the router, which handles some of all
    /// frames that it has.
    pub(super) fn carry_some_in(&mut self) -> Checked {
        for _ in 0..=self.below(3) {
            let Some(id) = self.some_connection() else { return Ok(()) };
            for _ in 0..=self.below(8) {
                self.carry_in(id)?;
            }
        }
        for _ in 0..=self.below(12) {
            self.serve()?;
        }
        Ok(())
    }

    /// Carries a frame to the router.
    fn carry_in(&mut self, id: ClientId) -> Checked {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        match connection.inbound.pop_front() {
            Some(bytes) => self.arrive(id, Arrival::Frame(bytes[PREFIX..].into())),
            None if connection.is_leaving => self.disconnect(id),
            None => Ok(()),
        }
    }

    /// Carries all frames of a client to the router, which handles all frames that it has.
    pub(super) fn carry_all_in(&mut self, id: ClientId) -> Checked {
        while self.connections.get(&id).is_some_and(|connection| !connection.inbound.is_empty()) {
            self.carry_in(id)?;
        }
        while self.serve()? {}
        Ok(())
    }

    /// Brings a frame to the router, which handles all frames that it has.
    pub(super) fn frame(&mut self, id: ClientId, json: &[u8]) -> Checked {
        self.arrive(id, Arrival::Frame(json.into()))?;
        while self.serve()? {}
        Ok(())
    }

    /// Appends an entry to a client's queue.
    pub(super) fn arrive(&mut self, id: ClientId, arrival: Arrival) -> Checked {
        let events = self.bed.arrive(id, arrival)?;
        // The router only notes that the client is alive, which costs no audit.
        if events.is_empty() { Ok(()) } else { self.carry_out(events) }
    }

    /// Lets the router handle the entry whose turn it is. Returns false if there is none.
    pub(super) fn serve(&mut self) -> Result<bool, String> {
        let Some((id, arrival)) = self.bed.next_arrival()? else { return Ok(false) };
        match &arrival {
            Arrival::Frame(json) => {
                self.note(|| format!("{id:?} > {:.300}", String::from_utf8_lossy(json)));
                if let Ok(envelope) = Envelope::read(json) {
                    let name = self.bed.ends.get(&id).and_then(|end| end.name.as_deref());
                    self.promises.reads(name, &envelope, self.bed.now.monotonic);
                }
            }
            Arrival::Violated(_) => {}
            Arrival::Ended => {
                self.note(|| format!("{id:?} ends"));
                self.promises.ends(id);
            }
        }
        if let Some(events) = self.bed.serve()? {
            self.carry_out(events)?;
        }
        Ok(true)
    }

    pub(super) fn write_some(&mut self) -> Checked {
        let Some(id) = self.some_connection() else { return Ok(()) };
        let all = self.bed.ends[&id].unwritten_bytes();
        let bytes = if self.one_in(3) { self.below(all + 1) } else { all };
        self.write_bytes(id, bytes)
    }

    /// Writes `bytes` bytes of the router's frames to a connection.
    pub(super) fn write_bytes(&mut self, id: ClientId, bytes: usize) -> Checked {
        let Some(end) = self.bed.ends.get(&id) else { return Ok(()) };
        if bytes == 0 && end.is_closing && end.unwritten.is_empty() {
            return self.disconnect(id);
        }
        let frames = self.bed.write(id, bytes);
        if bytes > 0 {
            frames.iter().for_each(|frame| self.promises.once.written(frame));
            self.handle(Input::Written(id, bytes))?;
        }
        self.reach(id, frames)
    }

    /// Hands frames to the library, if it still uses this connection.
    fn reach(&mut self, id: ClientId, frames: Vec<Rc<[u8]>>) -> Checked {
        for frame in frames {
            let owner = self.connections.get(&id).and_then(|connection| connection.owner);
            let Some(index) = owner.filter(|index| self.apps[*index].connection == Some(id)) else {
                self.promises.outcomes.loses(&frame);
                continue;
            };
            self.apps[index].reads(&frame[PREFIX..]);
            let is_passed_on = self.bug == Some(Bug::ForgetfulLibrary);
            let known = is_passed_on.then(|| self.apps[index].known(&frame[PREFIX..])).flatten();
            self.drive(index, session::Input::Frame(&frame[PREFIX..]))?;
            if let Some(known) = known {
                self.apps[index].takes(client::Event::Delivered(known), &self.promises)?;
            }
            self.apps[index].is_repeated = false;
        }
        Ok(())
    }

    /// Abandons a connection: the client closes it once the router has read all its frames.
    pub(super) fn abandon(&mut self, id: ClientId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            (connection.owner, connection.is_leaving) = (None, true);
        }
    }

    pub(super) fn cut(&mut self) -> Checked {
        match self.some_connection() {
            Some(id) => self.disconnect(id),
            None => Ok(()),
        }
    }

    /// Ends a connection for both sides.
    pub(super) fn disconnect(&mut self, id: ClientId) -> Checked {
        let Some(connection) = self.connections.remove(&id) else { return Ok(()) };
        self.arrive(id, Arrival::Ended)?;
        while self.bed.ends.contains_key(&id) {
            ensure(self.serve()?, || format!("{id:?} is gone, and its end is not handled"))?;
        }
        self.lose(id, &connection)
    }

    fn lose(&mut self, id: ClientId, connection: &Connection) -> Checked {
        if let Some(index) = connection.owner
            && self.apps[index].connection == Some(id)
        {
            self.apps[index].connection = None;
            self.drive(index, session::Input::Disconnected("the stream ended".to_owned()))?;
        }
        Ok(())
    }
}

/// The daemon and its disk.
impl World {
    pub(super) fn handle(&mut self, input: Input<'_>) -> Checked {
        let events = self.bed.handle(input)?;
        self.carry_out(events)
    }

    fn carry_out(&mut self, events: Vec<Event>) -> Checked {
        let ends = self.bed.ends.iter();
        let members = ends.filter_map(|(id, end)| Some((end.name.clone()?, *id))).collect();
        let before = std::mem::replace(&mut self.members, members);
        self.judge(&events)?;
        // Notices wait until it is known that their recipient got its WELCOME.
        let stays = |name: &String, id: &ClientId| {
            self.members.get(name) == Some(id) && self.bed.router.connections.knows_session(*id)
        };
        let stayed = before.into_iter().filter(|(name, id)| stays(name, id));
        let stayed = stayed.map(|(name, _)| name).collect();
        self.promises.once.settle(self.bed.router.held_once(), &stayed)?;
        let hung_up = |event| match event {
            Event::Other(Output::HangUp(id)) => Some(id),
            _ => None,
        };
        events.into_iter().filter_map(hung_up).try_for_each(|id| self.disconnect(id))
    }

    /// Checks the outputs of one input.
    fn judge(&mut self, events: &[Event]) -> Checked {
        for event in events {
            match event {
                Event::Other(Output::Close(id, _)) => self.promises.ends(*id),
                Event::Other(Output::Persist(change)) => self.promises.ended(change),
                _ => {}
            }
        }
        let mut changes = 0;
        for event in events {
            match event {
                Event::Frame(id, frame) => self.judge_frame(*id, frame)?,
                Event::Other(Output::Persist(change)) => {
                    self.note(|| format!("    keep {:.160}", format!("{change:?}")));
                    let ttl_ms = limits().ttl_ms;
                    self.promises.changed(change, self.bed.now.monotonic, ttl_ms)?;
                    changes += 1;
                }
                Event::Other(Output::Close(id, reason)) => {
                    self.note(|| format!("    close {id:?} {reason:?}"));
                }
                Event::Other(Output::Log(line)) => {
                    if let Some((name, _)) = line.split_once(" is away: ") {
                        self.promises.outcomes.drops(&name.to_lowercase());
                    }
                }
                Event::Other(
                    Output::SetPaused(..)
                    | Output::Admitted(_)
                    | Output::Operator(_)
                    | Output::HangUp(_),
                ) => {}
                Event::Other(output) => return Err(format!("{output:?} to nobody")),
            }
        }
        self.disk.take(changes, self.bed.now);
        self.bed.router.audit(&self.members.keys().cloned().collect())
    }

    fn judge_frame(&mut self, id: ClientId, frame: &[u8]) -> Checked {
        let json = &frame[PREFIX..];
        self.note(|| format!("    {id:?} < {:.300}", String::from_utf8_lossy(json)));
        let envelope = Envelope::read(json).map_err(|bad| bad.to_string())?;
        let typed = |bad: Violation| bad.to_string();
        match envelope.kind {
            Kind::Welcome => {
                let welcome: Welcome = envelope.decode_member(envelope.payload).map_err(typed)?;
                let name = welcome.agent.to_lowercase();
                self.promises.outcomes.welcomes(name, welcome.session_id);
            }
            Kind::Deliver if envelope.from.as_deref() == Some(RELAY) => {}
            Kind::Deliver => {
                let now = self.bed.now.monotonic;
                self.promises.check_deliver(id, &envelope, &self.disk, now)?;
            }
            Kind::Sync => {
                let name = self.bed.ends[&id].name.clone().unwrap_or_default();
                let now = self.bed.now.monotonic;
                self.promises.replay.synced(id, &name, envelope.payload, now);
            }
            Kind::Nack => {
                let nack = envelope.decode_member(envelope.payload).map_err(typed)?;
                self.promises.notifies(&nack, &self.disk)?;
            }
            Kind::Busy => {
                let busy: Busy = envelope.decode_member(envelope.payload).map_err(typed)?;
                self.promises.once.busy(&busy.ack_id);
            }
            Kind::Ack => {
                let ack: Ack<'_> = envelope.decode_member(envelope.payload).map_err(typed)?;
                if ack.state.as_deref() == Some("accepted") {
                    self.promises.check_ack(&ack, &self.disk)?;
                }
                if ack.correlation_id.is_some() {
                    let from = envelope.from.as_deref();
                    self.promises.check_told(&ack.ack_id, from, &self.disk)?;
                }
            }
            _ => {}
        }
        if self.bug == Some(Bug::SwappedFrames) {
            let unwritten = &mut self.bed.ends.get_mut(&id).expect("it has a frame").unwritten;
            let count = unwritten.len();
            if count > 2 {
                unwritten.swap(count - 2, count - 1);
            }
        }
        Ok(())
    }

    /// Commits the changes of the next `inputs` inputs to the disk, and reports that to the router.
    pub(super) fn commit(&mut self, inputs: usize) -> Checked {
        if let Some(report) = self.disk.commit(&mut self.bed, inputs) {
            self.note(|| format!("{report:?}"));
            self.handle(report)?;
        }
        let is_even = self.disk.is_even() && !self.bed.router.defers_changes();
        if is_even { self.bed.router.audit_kept(&self.disk) } else { Ok(()) }
    }

    /// Crashes the daemon. Another daemon begins with the disk's records.
    pub(super) fn crash(&mut self) -> Checked {
        // A disk that lost its records breaks promises after a crash, so these worlds do not crash.
        if self.disk.is_anew() {
            return Ok(());
        }
        if self.one_in(2) {
            self.lose_all_connections()?;
        }
        self.write_before_crash()?;
        let inputs = self.below(self.disk.unwritten_inputs() + 1);
        let lost: Vec<Change> = self.disk.crash(&mut self.bed, inputs);
        self.note(|| format!("crash; of what was not synced, {inputs} inputs' changes are kept"));
        for stream in self.promises.crash(&lost, &self.disk) {
            self.apps.iter_mut().for_each(|app| app.forgets(&stream));
        }
        let late = self.below(500) as u64;
        let now = now_at(self.bed.now.monotonic.0 + late);
        let notices = self.bed.router.recorded_notices().into_iter();
        let notices: Vec<_> = notices.map(|(_, notice)| notice.frame).collect();
        let seed = self.bytes();
        let former = std::mem::replace(&mut self.bed, Testbed::new(&limits(), seed, now));
        self.bed.router.ctx.planted.plant(self.bug);
        self.bed.router.admit_operators(operator_key());
        let unwritten = former.ends.values().flat_map(|end| &end.unwritten).map(|frame| &**frame);
        for frame in unwritten.chain(notices.iter().map(|frame| &**frame)) {
            if !self.disk.had_notice(frame) {
                self.promises.outcomes.loses(frame);
            }
        }
        let connections = std::mem::take(&mut self.connections);
        let (image, mut out) = (self.disk.image(), Vec::new());
        self.bed.open = image.deliveries.keys().copied().collect();
        self.bed.router.restore(now, image, &mut out);
        self.members.clear();
        let events = self.bed.record(out)?;
        self.judge(&events)?;
        connections.into_iter().try_for_each(|(id, connection)| self.lose(id, &connection))
    }

    /// Cuts all connections, some of them idle, and lets the router's timers run while the
    /// applications are away.
    fn lose_all_connections(&mut self) -> Checked {
        let ids: Vec<_> = self.connections.keys().copied().collect();
        if self.one_in(2) {
            self.disk.set_health(0);
            ids.iter().try_for_each(|id| self.carry_all_in(*id))?;
            self.commit(usize::MAX)?;
        }
        ids.iter().try_for_each(|id| self.disconnect(*id))?;
        let end = self.bed.now.monotonic.plus(self.below(4_000) as u64);
        while let Some(due) = self.bed.router.deadline().filter(|due| *due <= end) {
            self.bed.advance(due.since(self.bed.now.monotonic));
            self.handle(Input::Tick)?;
        }
        self.commit(usize::MAX)
    }

    /// Writes frames to the applications without a report to the router, as may happen before a
    /// crash.
    fn write_before_crash(&mut self) -> Checked {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            if self.one_in(2) {
                let bytes = self.below(self.bed.ends[&id].unwritten_bytes() + 1);
                let frames = self.bed.write(id, bytes);
                self.reach(id, frames)?;
            }
        }
        Ok(())
    }

    pub(super) fn wait(&mut self, ms: u64) -> Checked {
        let end = self.bed.now.monotonic.plus(ms);
        self.dial()?;
        while let Some(due) = self.deadline().filter(|due| *due <= end) {
            self.bed.advance(due.since(self.bed.now.monotonic));
            self.tick()?;
            self.dial()?;
        }
        self.bed.advance(end.since(self.bed.now.monotonic));
        Ok(())
    }

    fn deadline(&self) -> Option<Moment> {
        let apps = self.apps.iter().filter(|app| !app.is_over);
        apps.filter_map(|app| app.session.deadline()).chain(self.bed.router.deadline()).min()
    }

    pub(super) fn tick(&mut self) -> Checked {
        let now = self.bed.now.monotonic;
        let is_due = |due: Option<Moment>| due.is_some_and(|due| due <= now);
        if is_due(self.bed.router.deadline()) {
            self.handle(Input::Tick)?;
        }
        for index in 0..self.apps.len() {
            let app = &self.apps[index];
            if !app.is_over && is_due(app.session.deadline()) {
                self.drive(index, session::Input::Tick)?;
            }
        }
        Ok(())
    }
}

/// The end of a world.
impl World {
    fn wind_down(&mut self) -> Checked {
        self.note(|| "winding down".to_owned());
        self.is_winding_down = true;
        self.disk.set_health(0);
        self.handle(Input::Outside(0))?;
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            self.disconnect(id)?;
        }
        for _ in 0..900 {
            for index in (0..self.apps.len()).cycle().take(3 * self.apps.len()) {
                self.settle(index)?;
                self.commit(usize::MAX)?;
            }
            self.disk.sync_rest();
            self.take_mail()?;
            let connections = self.connections.iter();
            let abandoned = connections.filter(|(_, connection)| connection.owner.is_none());
            for id in abandoned.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.disconnect(id)?;
            }
            if self.waits().is_empty() {
                return self.nothing_is_left();
            }
            self.wait(200)?;
        }
        Err(format!("not quiet after winding down: {}", self.waits()))
    }

    /// Makes an application read and answer all deliveries. An application that does not
    /// acknowledge is started again.
    fn settle(&mut self, index: usize) -> Checked {
        if self.apps[index].is_over || !self.apps[index].acknowledges {
            return self.begin(index);
        }
        let Some(id) = self.apps[index].connection else { return Ok(()) };
        let Some(end) = self.bed.ends.get(&id) else { return Ok(()) };
        self.write_bytes(id, end.unwritten_bytes())?;
        self.acknowledge_all(index)?;
        self.carry_all_in(id)
    }

    /// Returns a list of all that is still pending; empty if nothing is.
    fn waits(&self) -> String {
        let mut waits = String::new();
        for app in &self.apps {
            if app.connection.is_none() || !app.unanswered.is_empty() {
                let (name, unanswered) = (app.name, &app.unanswered);
                waits.push_str(&format!("{name} {:?} awaits {unanswered:?}; ", app.connection));
            }
        }
        for (id, connection) in &self.connections {
            let unwritten = self.bed.ends.get(id).map_or(0, |end| end.unwritten.len());
            if unwritten > 0 || !connection.inbound.is_empty() {
                waits.push_str(&format!("frames on {id:?}; "));
            }
        }
        if self.bed.unserved() > 0 {
            waits.push_str("frames in the schedule; ");
        }
        waits.push_str(&self.bed.router.rest());
        if !self.disk.is_even() {
            waits.push_str("changes; ");
        }
        waits
    }

    fn nothing_is_left(&self) -> Checked {
        let (disk, promises) = (&self.disk, &self.promises);
        let open: BTreeSet<_> = disk.open.union(&self.bed.open).collect();
        let (notices, questions) = (&disk.synced.notices, &disk.synced.questions);
        if !open.is_empty() || !notices.is_empty() || !questions.is_empty() {
            return Err(format!(
                "at the end there are open deliveries {open:?}, notices {notices:?}, \
                 questions {questions:?}"
            ));
        }
        promises.replay.everything_was_replayed(self.bed.now.monotonic)?;
        promises.outcomes.every_sender_was_notified(disk)
    }
}

/// Prints the trace if the router panics.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.trace());
        }
    }
}
