//! The router's thread: waits for its inbox and nothing else, and does what the machine says.

use super::{event::Event, hands::Hands, spin::Spin};
use crate::{
    link::Held,
    protocol::{Moment, Now, relay::Process, secret::Hash},
    record::{Clock, Image},
    router::{ClientId, Input, Limits, Output, Router, policy::Policy},
    store::Report,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, select};
use std::{sync::Arc, time::Duration};

/// Events taken before what they gave rise to is written.
const EVENTS_BEFORE_FLUSH: usize = 256;

/// Change of what is held outside the machine that is worth telling it.
const HELD_STEP_BYTES: usize = 1024 * 1024;

/// What `status` shows of what the store had to say, the last of it.
const REMARKS_MAX: usize = 8;

/// The machine, its ears and its hands.
pub(super) struct Core {
    router: Router,
    inbox: Receiver<Event>,
    held: Held,
    held_told: usize,
    hands: Hands,
    outputs: Vec<Output>,
    spin: Spin,
    time: Time,
    about: Process<'static>,
}

/// What a daemon starts with.
pub(super) struct Start {
    pub(super) limits: Limits,
    pub(super) seed: [u8; 32],
    /// What the last one left.
    pub(super) image: Image,
    /// Of what operators prove themselves with.
    pub(super) operator_key: Hash,
    pub(super) policy: Arc<Policy>,
    /// What `status` says about it.
    pub(super) about: Process<'static>,
}

impl Core {
    pub(super) fn new(start: Start, inbox: Receiver<Event>, held: Held, hands: Hands) -> Self {
        let mut core = Self {
            router: Router::new(start.limits, start.seed),
            inbox,
            held,
            held_told: 0,
            hands,
            outputs: Vec::new(),
            spin: Spin::default(),
            time: Time::going_on(start.image.clock),
            about: start.about,
        };
        core.describe();
        core.router.admit_operators(start.operator_key);
        let now = core.time.now();
        core.router.restore(now, start.image, &mut core.outputs);
        core.perform();
        core.handle(now, Input::Policy(start.policy));
        core
    }

    /// Runs until the machine says that it has stopped, or the store's thread has died; the end of
    /// `news` tells so. Then until nobody has a way into the inbox any more. Returns why it was
    /// told to stop, if it was.
    pub(super) fn run(mut self, news: Sender<()>) -> Option<&'static str> {
        while !self.hands.stopped {
            let event = self.wait();
            let now = self.time.now();
            if let Some(event) = event {
                self.take(now, event);
                for _ in 1..EVENTS_BEFORE_FLUSH {
                    let Ok(event) = self.inbox.try_recv() else { break };
                    self.take(now, event);
                }
            }
            self.tell_held(now);
            if self.router.deadline().is_some_and(|deadline| deadline <= now.monotonic) {
                self.handle(now, Input::Tick);
            }
            self.flush(now);
        }
        for client in self.hands.clients.values() {
            client.hang_up();
        }
        self.hands.clients.clear();
        drop(news);
        let reason = self.router.stop_reason();
        let Self { hands: Hands { storing, reloading, .. }, inbox, time, .. } = self;
        // With them, the threads end that have a way into the inbox.
        drop(reloading);
        let (jobs, last) = storing.last(Clock(time.now()));
        let mut last = Some(last);
        while last.is_some() {
            // The store may wait for room in the inbox while this thread waits for the store.
            select! {
                send(jobs, last.take().expect("the loop goes on while there is one")) -> sent => {
                    if sent.is_err() {
                        tracing::error!("the store ended before the last changes reached it");
                    }
                }
                recv(inbox) -> event => event.map_or((), turn_away),
            }
        }
        drop(jobs);
        inbox.iter().for_each(turn_away);
        reason
    }

    fn wait(&mut self) -> Option<Event> {
        if let Some(event) = self.spin.receive(&self.inbox) {
            return Some(event);
        }
        let Some(deadline) = self.router.deadline() else {
            return Some(self.inbox.recv().expect("the keeper holds a sender"));
        };
        let left = deadline.since(self.time.now().monotonic);
        match self.inbox.recv_timeout(Duration::from_millis(left)) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the keeper holds a sender"),
        }
    }

    fn take(&mut self, now: Now, event: Event) {
        match event {
            Event::Accepted(id, client) => {
                self.hands.clients.insert(id, client);
                self.handle(now, Input::Connected(id));
            }
            Event::Batch(id, batch) => {
                self.held.subtract(batch.bytes());
                for json in batch.frames() {
                    self.handle(now, Input::Frame(id, json));
                }
            }
            Event::Violated(id, violation) => self.handle(now, Input::Violated(id, violation)),
            Event::Written(id, buffer) => {
                let bytes = buffer.len();
                if let Some(client) = self.hands.clients.get_mut(&id) {
                    if let Some(lane) = &mut client.lane {
                        lane.written(buffer);
                    }
                    client.mark_dirty(id, &mut self.hands.dirty);
                    self.handle(now, Input::Written(id, bytes));
                }
            }
            Event::Ended(id) => {
                // What was already said to it leaves first: it may have closed its own half only.
                self.flush_client(now, id);
                self.handle(now, Input::Disconnected(id));
                self.hands.clients.remove(&id);
            }
            Event::Described(about) => {
                let Process { pid, endpoint, home, left, .. } = about;
                self.about = Process { pid, endpoint, home, left, ..self.about.clone() };
                self.describe();
            }
            Event::Hour => self.hands.storing.tell_time(Clock(now)),
            Event::Stored(report) => self.stored(now, report),
            Event::PolicyRead(askers, read) => self.policy_read(now, &askers, read),
            Event::StoreDied => self.hands.stopped = true,
            Event::Stop(reason) => self.handle(now, Input::Stop(reason)),
        }
    }

    fn stored(&mut self, now: Now, report: Report) {
        match report {
            Report::Persisted(count) => {
                let through = self.hands.storing.pass(count);
                self.handle(now, Input::Kept(through));
            }
            Report::Refused { count, why } => {
                let through = self.hands.storing.pass(count);
                self.handle(now, Input::Refused(through, &why));
            }
            Report::Health(Ok(())) => {
                tracing::info!("the store works again");
                self.about.store_fails = None;
                self.describe();
            }
            Report::Health(Err(why)) => {
                tracing::error!("the store fails: {why}");
                self.about.store_fails = Some(why);
                self.describe();
            }
            Report::Lost(why) => {
                tracing::error!("{why}");
                let remarks = &mut self.about.remarks;
                remarks.push(why);
                remarks.drain(..remarks.len().saturating_sub(REMARKS_MAX));
                self.describe();
                self.handle(now, Input::Lost);
            }
            Report::Answer(number, found) => {
                self.handle(now, Input::Found(ClientId(number), found));
            }
        }
    }

    fn policy_read(&mut self, now: Now, askers: &[ClientId], read: Result<Arc<Policy>, String>) {
        let result = read.map(|policy| self.handle(now, Input::Policy(policy)));
        for asker in askers {
            self.handle(now, Input::Reloaded(*asker, result.clone()));
        }
    }

    fn describe(&mut self) {
        let about = serde_json::value::to_raw_value(&self.about);
        self.router.describe_daemon(about.expect("it is texts and numbers"));
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.router.handle(now, input, &mut self.outputs);
        self.perform();
    }

    fn perform(&mut self) {
        for output in self.outputs.drain(..) {
            if let Some(frame) = self.hands.perform(output) {
                self.router.recycle(frame);
            }
        }
    }

    /// Writes what waits for anyone; what that lets the machine say is written too.
    fn flush(&mut self, now: Now) {
        while let Some(id) = self.hands.dirty.pop() {
            self.flush_client(now, id);
        }
        self.hands.storing.hand_over(Clock(now));
    }

    fn flush_client(&mut self, now: Now, id: ClientId) {
        let Some(client) = self.hands.clients.get_mut(&id) else { return };
        client.dirty = false;
        let Some(lane) = &mut client.lane else { return };
        let through = match lane.flush() {
            Ok(through) => through,
            Err(error) => {
                tracing::debug!("client {}: {error}", id.0);
                client.hang_up();
                client.lane = None;
                return;
            }
        };
        if client.closing && lane.waiting().is_empty() {
            client.lane = None;
        }
        if through > 0 {
            self.handle(now, Input::Written(id, through));
        }
    }

    fn tell_held(&mut self, now: Now) {
        let bytes = self.held.bytes();
        if bytes.abs_diff(self.held_told) >= HELD_STEP_BYTES {
            self.held_told = bytes;
            self.handle(now, Input::Outside(bytes));
        }
    }
}

/// Who comes too late has a lane in the inbox, and its writer would wait for ever: what is left in a
/// channel is not dropped with its receiver.
fn turn_away(event: Event) {
    if let Event::Accepted(_, client) = event {
        client.hang_up();
    }
}

/// Both clocks. Moments go on where the last daemon's ended.
struct Time {
    /// The system's clock when this daemon's stood at `base`.
    start: u64,
    base: Moment,
}

impl Time {
    fn going_on(clock: Clock) -> Self {
        let base = clock.moment_at(platform::clock::unix_ms());
        Self { start: platform::clock::monotonic_ms(), base }
    }

    fn now(&self) -> Now {
        let gone = platform::clock::monotonic_ms().saturating_sub(self.start);
        Now { monotonic: self.base.plus(gone), unix_ms: platform::clock::unix_ms() }
    }
}
