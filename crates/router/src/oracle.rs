//! The rules that hold for whatever a router puts out, and a testbed that checks them after each
//! input: a router with fake clients, fake clocks and the fake queue of a store.
//!
//! Three drivers use the testbed: text scripts (`tests::script`), random worlds from a seed (`sim`)
//! and a fuzzer (`fuzz`). After each input, the testbed checks the rules that hold for every
//! output, whatever the inputs were.

pub mod fuzz;

use crate::{ClientId, Input, Limits, Output, Router, schedule::Schedule};
use protocol::{
    Now,
    client_frame::ClientBatch,
    code::Violation,
    envelope::{Envelope, Kind},
    frame::PREFIX,
    record::{Change, Ending},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    rc::Rc,
};

/// The quantum of the schedule, which is short so that a few frames take a round.
pub(crate) const QUANTUM: i64 = 1_000;

/// The outcome of a check; an error names the broken rule.
pub(crate) type Checked<T = ()> = Result<T, String>;

/// Returns `why` as the broken rule unless `holds`.
pub(crate) fn ensure(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(why()) }
}

/// An output of the router. Frames are given as the bytes that a stream would carry.
#[derive(Debug)]
pub(crate) enum Event {
    Frame(ClientId, Rc<[u8]>),
    Other(Output),
}

/// An entry of a client's queue in the schedule.
#[derive(Clone, Debug)]
pub(crate) enum Arrival {
    /// The JSON of a frame.
    Frame(Rc<[u8]>),
    Violated(Violation),
    /// The connection has ended. This is the last entry.
    Ended,
}

/// The work that was done while a client was ready: its own, and that of each other client.
#[derive(Debug, Default)]
struct Share {
    own: u64,
    others: BTreeMap<ClientId, u64>,
}

/// The client's end of a connection.
#[derive(Debug, Default)]
pub(crate) struct End {
    /// The name in WELCOME, in lower case, until the router closes the connection.
    pub(crate) name: Option<String>,
    /// Frames that are not completely written.
    pub(crate) unwritten: VecDeque<Rc<[u8]>>,
    /// The number of bytes of the first frame that are written.
    left: usize,
    /// Whether the client's frames wait in the schedule.
    pub(crate) is_paused: bool,
    /// Whether the router closes the connection once all frames are written.
    pub(crate) is_closing: bool,
    /// Whether the client is gone and only its frames are still to be handled.
    is_gone: bool,
}

impl End {
    /// Returns the number of bytes that were not reported as written.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.unwritten.iter().map(|frame| frame.len()).sum::<usize>() - self.left
    }
}

/// A router with fake clients, clocks and store.
#[derive(Debug)]
pub(crate) struct Testbed {
    pub(crate) router: Router,
    pub(crate) now: Now,
    pub(crate) ends: BTreeMap<ClientId, End>,
    /// Changes that the store has not persisted yet.
    pub(crate) pending: VecDeque<Change>,
    /// Deliveries that were accepted and have not ended.
    pub(crate) open: BTreeSet<u64>,
    pub(crate) is_stopped: bool,
    schedule: Schedule<Arrival>,
    quantum: u64,
    /// The shares of the clients that are ready, without operators.
    shares: BTreeMap<ClientId, Share>,
    /// The router's outputs when it deferred a frame.
    deferred: Vec<Event>,
    operators: BTreeSet<ClientId>,
    /// The most work of one entry.
    work_max: u64,
    frame_bytes_max: usize,
    /// The number of changes that the store has persisted or refused.
    through: u64,
    clients: u64,
}

impl Testbed {
    pub(crate) fn new(limits: &Limits, seed: [u8; 32], now: Now) -> Self {
        Self {
            router: Router::new(limits.clone(), seed),
            now,
            ends: BTreeMap::new(),
            pending: VecDeque::new(),
            open: BTreeSet::new(),
            is_stopped: false,
            schedule: Schedule::new(QUANTUM),
            quantum: QUANTUM as u64,
            shares: BTreeMap::new(),
            deferred: Vec::new(),
            operators: BTreeSet::new(),
            work_max: 0,
            frame_bytes_max: limits.frame_bytes_max,
            through: 0,
            clients: 0,
        }
    }

    /// Lets time pass on both clocks.
    pub(crate) const fn advance(&mut self, ms: u64) {
        self.now.monotonic = self.now.monotonic.plus(ms);
        self.now.unix_ms = self.now.unix_ms.wrapping_add(ms);
    }

    /// Makes the client's end of a connection, for [`Input::Connected`].
    pub(crate) fn new_end(&mut self) -> ClientId {
        self.clients += 1;
        let id = ClientId(self.clients);
        self.ends.insert(id, End::default());
        self.schedule.add(id, None);
        id
    }

    /// Appends an entry to a client's queue.
    ///
    /// # Errors
    /// If an output breaks a rule.
    pub(crate) fn arrive(&mut self, id: ClientId, arrival: Arrival) -> Checked<Vec<Event>> {
        let is_frame = matches!(arrival, Arrival::Frame(_));
        if matches!(arrival, Arrival::Ended) {
            // Nobody will read the answers for which the client's frames wait.
            self.schedule.set_blocked(id, false);
            if let Some(end) = self.ends.get_mut(&id) {
                end.is_gone = true;
            }
        }
        self.schedule.push(id, arrival);
        if is_frame { self.handle(Input::Arrived(id)) } else { Ok(Vec::new()) }
    }

    /// Returns the entry whose turn it is, and that the router does not defer.
    ///
    /// # Errors
    /// If an output breaks a rule.
    pub(crate) fn next_arrival(&mut self) -> Checked<Option<(ClientId, Arrival)>> {
        while let Some((id, arrival)) = self.schedule.turn() {
            let arrival = arrival.clone();
            let mut out = Vec::new();
            let is_frame = matches!(arrival, Arrival::Frame(_));
            if !is_frame || !self.router.defers(id, &mut out) {
                return Ok(Some((id, arrival)));
            }
            let events = self.record(out)?;
            self.deferred.extend(events);
        }
        Ok(None)
    }

    /// Returns how many clients have entries that are not handled.
    pub(crate) fn unserved(&self) -> usize {
        self.ends.keys().filter(|id| !self.schedule.is_empty(**id)).count()
    }

    /// Handles the entry whose turn it is. Returns nothing if there is none.
    ///
    /// # Errors
    /// If an output breaks a rule, or the schedule is unfair.
    pub(crate) fn serve(&mut self) -> Checked<Option<Vec<Event>>> {
        let arrival = self.next_arrival()?;
        let mut events = mem::take(&mut self.deferred);
        let Some((id, arrival)) = arrival else {
            return Ok((!events.is_empty()).then_some(events));
        };
        let mut out = Vec::new();
        match arrival {
            Arrival::Frame(json) => {
                let batch = ClientBatch::of_frame(&json);
                self.router.handle(self.now, Input::Frame(id, batch.frame(0)), &mut out);
            }
            Arrival::Violated(violation) => {
                self.router.handle(self.now, Input::Violated(id, violation), &mut out);
            }
            Arrival::Ended => {
                self.ends.remove(&id);
                self.router.handle(self.now, Input::Disconnected(id), &mut out);
            }
        }
        let work = self.router.take_work();
        self.schedule.spend(id, work, true);
        if !self.ends.contains_key(&id) {
            self.schedule.remove(id);
        }
        events.extend(self.record(out)?);
        self.check_shares(id, work)?;
        Ok(Some(events))
    }

    /// Checks that no client that was ready all the time got much less work done than another.
    fn check_shares(&mut self, served: ClientId, work: u64) -> Checked {
        self.work_max = self.work_max.max(work);
        let slack = 3 * (self.quantum + self.work_max);
        for (id, share) in &mut self.shares {
            if *id == served {
                share.own += work;
            } else if !self.operators.contains(&served) {
                *share.others.entry(served).or_default() += work;
            }
            let most = share.others.values().max().copied().unwrap_or(0);
            ensure(most <= share.own + slack, || {
                format!("{id:?} is ready and got {} of work, another client {most}", share.own)
            })?;
        }
        let ready = |id: &ClientId| self.schedule.is_ready(*id) && !self.operators.contains(id);
        self.shares.retain(|id, _| ready(id));
        for id in self.ends.keys().filter(|id| ready(id)) {
            self.shares.entry(*id).or_default();
        }
        Ok(())
    }

    /// Hands an input to the router, and records its outputs.
    ///
    /// # Errors
    /// If an output breaks a rule.
    pub(crate) fn handle(&mut self, input: Input<'_>) -> Checked<Vec<Event>> {
        let mut out = Vec::new();
        self.router.handle(self.now, input, &mut out);
        self.record(out)
    }

    /// Checks and records outputs.
    ///
    /// # Errors
    /// If an output breaks a rule.
    pub(crate) fn record(&mut self, out: Vec<Output>) -> Checked<Vec<Event>> {
        ensure(!self.is_stopped || out.is_empty(), || format!("after the stop: {out:?}"))?;
        let mut events = Vec::with_capacity(out.len());
        for output in out {
            match output {
                Output::Frame(id, frame) => {
                    let mut bytes = frame.head.clone();
                    bytes.extend_from_slice(frame.shared.as_deref().unwrap_or_default());
                    self.router.recycle(frame);
                    let bytes: Rc<[u8]> = bytes.into();
                    self.record_frame(id, &bytes)?;
                    events.push(Event::Frame(id, bytes));
                    continue;
                }
                Output::Persist(ref change) => {
                    self.record_change(change)?;
                    self.pending.push_back(change.clone());
                }
                Output::SetPaused(id, is_paused) => {
                    let end = self.open_end(id)?;
                    end.is_paused = is_paused;
                    let waits = is_paused && !end.is_gone;
                    self.schedule.set_blocked(id, waits);
                }
                Output::Admitted(id) => drop(self.open_end(id)?),
                Output::Operator(id) => {
                    self.operators.insert(id);
                    self.schedule.make_operator(id);
                }
                Output::Close(id, _) => {
                    let end = self.open_end(id)?;
                    (end.is_closing, end.name) = (true, None);
                    self.schedule.discard(id, |arrival| matches!(arrival, Arrival::Ended));
                }
                Output::HangUp(id) => {
                    let is_closing = self.ends.get(&id).is_some_and(|end| end.is_closing);
                    ensure(is_closing, || format!("{id:?} is hung up and was not closed"))?;
                }
                Output::Stopped => self.is_stopped = true,
                Output::Log(ref line) => ensure(!line.is_empty(), || "an empty line".into())?,
                Output::Query(..) | Output::Reload(_) => {}
            }
            events.push(Event::Other(output));
        }
        Ok(events)
    }

    fn record_frame(&mut self, id: ClientId, bytes: &Rc<[u8]>) -> Checked {
        let most = self.frame_bytes_max;
        let end = self.open_end(id)?;
        end.unwritten.push_back(bytes.clone());
        let (prefix, json) = bytes.split_first_chunk::<PREFIX>().ok_or("a frame has a length")?;
        let length = u32::from_be_bytes(*prefix) as usize;
        ensure(length == json.len(), || format!("{length} is not the length of {}", json.len()))?;
        ensure(length <= most, || format!("a frame has {length} bytes"))?;
        let envelope = Envelope::read(json).map_err(|bad| bad.to_string())?;
        match envelope.kind {
            Kind::Welcome => end.name = Some(name_in(&envelope)?),
            Kind::Deliver
            | Kind::Ack
            | Kind::Nack
            | Kind::Ping
            | Kind::Error
            | Kind::Busy
            | Kind::Sync
            | Kind::Bye => {}
            kind @ (Kind::Hello
            | Kind::Send
            | Kind::Pong
            | Kind::Resume
            | Kind::Subscribe
            | Kind::Unsubscribe) => return Err(format!("{kind:?} is for clients to send")),
        }
        Ok(())
    }

    fn record_change(&mut self, change: &Change) -> Checked {
        match change {
            Change::Accepted(accepted) | Change::AcceptedAgain(accepted) => {
                self.open.extend(accepted.deliveries.iter().map(|delivery| delivery.number));
            }
            Change::Redelivered { delivery, .. } => {
                self.open.insert(*delivery);
            }
            Change::Ended { delivery, ending, .. } => {
                let was_open = self.open.remove(delivery);
                // A dead letter may still be acknowledged.
                let may_end = was_open || matches!(ending, Ending::Acknowledged);
                return ensure(may_end, || format!("delivery {delivery} ends and was not open"));
            }
            _ => {}
        }
        Ok(())
    }

    fn open_end(&mut self, id: ClientId) -> Checked<&mut End> {
        let end =
            self.ends.get_mut(&id).ok_or_else(|| format!("{id:?} gets an output when gone"))?;
        ensure(!end.is_closing, || format!("{id:?} gets an output after its close"))?;
        Ok(end)
    }

    /// Writes `bytes` bytes of the unwritten frames, for an [`Input::Written`]. Returns the frames
    /// that are now written as a whole.
    pub(crate) fn write(&mut self, id: ClientId, bytes: usize) -> Vec<Rc<[u8]>> {
        let Some(end) = self.ends.get_mut(&id) else { return Vec::new() };
        end.left += bytes;
        let mut frames = Vec::new();
        while let Some(first) = end.unwritten.front()
            && first.len() <= end.left
        {
            end.left -= first.len();
            frames.extend(end.unwritten.pop_front());
        }
        frames
    }

    /// Persists the first changes of the store's queue. Without `space`, the store refuses the
    /// messages among them. Returns the persisted changes, and the report to the router.
    pub(crate) fn commit(&mut self, count: usize, space: bool) -> (Vec<Change>, Input<'static>) {
        self.through += count as u64;
        let mut persisted: Vec<_> = self.pending.drain(..count).collect();
        if space {
            return (persisted, Input::Persisted(self.through));
        }
        let needs_space =
            |change: &mut Change| matches!(change, Change::Accepted(_) | Change::Answer(_));
        let refused = persisted.extract_if(.., needs_space);
        for change in refused {
            let Change::Accepted(accepted) = change else { continue };
            accepted.deliveries.iter().for_each(|delivery| _ = self.open.remove(&delivery.number));
        }
        (persisted, Input::Refused(self.through, "no space left on device"))
    }
}

fn name_in(welcome: &Envelope<'_>) -> Checked<String> {
    let payload: serde_json::Value =
        serde_json::from_str(welcome.payload).map_err(|bad| bad.to_string())?;
    let name = payload["agent"].as_str().ok_or("a WELCOME has a name")?;
    Ok(name.to_lowercase())
}
