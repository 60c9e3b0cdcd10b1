//! The router with its clients: hands it what comes, and carries out its outputs without waiting.

use super::{
    client_table::ClientTable, entry::Entry, error::DaemonError, event::Event, inbox::Handler,
    policy_thread::PolicyReloader, stopped, store_thread::StoreHandle,
};
use client::link::BufferedBytes;
use protocol::{
    Moment, Now,
    delivery_id::IdKey,
    record::{Clock, Image},
    relay::Process,
    secret::Hash,
};
use router::{ClientId, Input, Limits, Output, Router, policy::Policy};
use std::{mem, sync::Arc, time::Duration};

/// The work of a round, before its output is written and the inbox is looked at again, in units of
/// about a nanosecond.
const ROUNDS_WORK: u64 = 1_000_000;

/// The least change in buffered bytes that is reported to the router.
const BUFFERED_STEP_BYTES: usize = 1024 * 1024;

/// The decrease in counted memory after which the allocator returns free pages to the system.
const RETURN_STEP_BYTES: usize = 32 * 1024 * 1024;

/// The most warnings of the store that `status` shows; older ones are dropped.
const REMARKS_MAX: usize = 8;

/// The router, and what carries out its outputs.
pub(super) struct Routing {
    router: Router,
    buffered: BufferedBytes,
    buffered_reported: usize,
    peak: Peak,
    clients: ClientTable,
    store: StoreHandle,
    reloader: PolicyReloader,
    outputs: Vec<Output>,
    /// Whether the router has stopped.
    stopped: bool,
    /// The vital thread that panicked, if one did.
    panicked: Option<&'static str>,
    clock: DaemonClock,
    about: Process<'static>,
    /// The last warning of damage that a query found.
    damage: Option<String>,
}

/// The initial state of a daemon.
pub(super) struct Start {
    pub(super) limits: Limits,
    pub(super) seed: [u8; 32],
    /// The stored state of the last daemon.
    pub(super) image: Image,
    pub(super) id_key: IdKey,
    /// The hash of the operator's key.
    pub(super) operator_key: Hash,
    pub(super) policy: Arc<Policy>,
    /// The description of the daemon in `status`.
    pub(super) about: Process<'static>,
}

impl Routing {
    pub(super) fn new(
        start: Start,
        buffered: BufferedBytes,
        store: StoreHandle,
        reloader: PolicyReloader,
    ) -> Self {
        let mut routing = Self {
            router: Router::new(start.limits, start.seed),
            buffered,
            buffered_reported: 0,
            peak: Peak(0),
            clients: ClientTable::default(),
            store,
            reloader,
            outputs: Vec::new(),
            stopped: false,
            panicked: None,
            clock: DaemonClock::continuing(start.image.clock),
            about: start.about,
            damage: None,
        };
        routing.describe();
        routing.router.admit_operators(start.operator_key);
        let now = routing.clock.now();
        routing.router.use_id_key(start.id_key);
        routing.router.restore(now, start.image, &mut routing.outputs);
        routing.execute();
        routing.handle(now, Input::Policy(start.policy));
        routing
    }

    /// Ends all connections at once.
    pub(super) fn hang_up(&mut self) {
        self.clients.hang_up_all();
    }

    /// Hands the last changes over to the store, which may have to wait for the disk. Returns the
    /// reason of the stop, if the router was told to stop.
    ///
    /// # Errors
    /// If a vital thread panicked.
    pub(super) fn finish(self) -> Result<Option<&'static str>, DaemonError> {
        let reason = self.router.stop_reason();
        let (jobs, last) = self.store.into_last_job(Clock(self.clock.now()));
        if jobs.send(last).is_err() {
            tracing::error!("the store ended before the last changes reached it");
        }
        self.panicked.map_or(Ok(reason), |thread| Err(DaemonError::Panicked(thread)))
    }

    fn handle_event(&mut self, now: Now, event: Event) {
        match event {
            Event::Accepted(id, process, client) => {
                self.clients.add(id, process.map(|process| process.pid), client);
                self.handle(now, Input::Connected(id, process));
            }
            Event::Frames(id, frames) => {
                self.clients.schedule.push(id, Entry::Frames(frames));
                self.handle(now, Input::Arrived(id));
            }
            Event::Violated(id, violation) => {
                self.clients.schedule.push(id, Entry::Violated(violation));
            }
            Event::Evicted(id, violation) => {
                let is_stuck = !self.clients.is_written(id);
                self.handle(now, Input::Violated(id, violation));
                // It holds memory until it ends. What reads nothing would not read an ERROR.
                if is_stuck {
                    self.clients.hang_up(id);
                }
            }
            Event::Written(id, buffer) => {
                let bytes = self.clients.written(id, buffer);
                if bytes > 0 {
                    self.handle(now, Input::Written(id, bytes));
                }
            }
            Event::Credited(id) => self.clients.add_credit(id),
            Event::WriterFailed(id) => self.clients.hang_up(id),
            Event::Ended(id) => self.clients.schedule.push(id, Entry::Ended),
            Event::Described(about) => {
                let Process { pid, endpoint, home, left, endpoint_fails, .. } = about;
                let stores = self.about.clone();
                self.about = Process { pid, endpoint, home, left, endpoint_fails, ..stores };
                self.describe();
            }
            Event::Hour => self.store.tell_time(Clock(now)),
            Event::Stored(report) => self.stored(now, report),
            Event::PolicyRead(clients, read) => self.policy_read(now, &clients, read),
            Event::Panicked(thread) => self.panicked = Some(thread),
            Event::Stop(reason) => self.handle(now, Input::Stop(reason)),
        }
    }

    /// Handles frames in the order of the schedule, for a bounded amount of work.
    fn serve(&mut self, now: Now) {
        let mut work = 0;
        while work < ROUNDS_WORK
            && let Some((id, entry)) = self.clients.schedule.turn()
        {
            if matches!(entry, Entry::Frames(_)) && self.router.defers(id, &mut self.outputs) {
                self.execute();
                continue;
            }
            let (is_done, is_end) = match entry {
                Entry::Frames(frames) => {
                    let input = Input::Frame(id, frames.frame());
                    self.router.handle(now, input, &mut self.outputs);
                    (frames.advance(), false)
                }
                Entry::Violated(violation) => {
                    let input = Input::Violated(id, violation.clone());
                    self.router.handle(now, input, &mut self.outputs);
                    (true, false)
                }
                Entry::Ended => {
                    self.client_ended(now, id);
                    (true, true)
                }
            };
            let spent = self.router.take_work();
            work += spent.max(1);
            drop(self.clients.schedule.spend(id, spent, is_done));
            if is_end {
                self.clients.remove(id);
                self.store.forget(id.0);
            }
            self.execute();
            if is_done {
                self.clients.grant(id, &self.buffered);
            }
            while let Some(id) = self.clients.full.pop() {
                self.flush_client(now, id);
            }
        }
    }

    fn client_ended(&mut self, now: Now, id: ClientId) {
        // Frames already handed out are written first: the client may have closed only its sending
        // half.
        self.flush_client(now, id);
        self.handle(now, Input::Disconnected(id));
    }

    fn stored(&mut self, now: Now, report: store::Report) {
        match report {
            store::Report::Persisted(count) => {
                let done = self.store.add_done(count);
                self.handle(now, Input::Persisted(done));
            }
            store::Report::Refused { count, why } => {
                let done = self.store.add_done(count);
                self.handle(now, Input::Refused(done, &why));
            }
            store::Report::Health(Ok(())) => {
                tracing::info!("the store works again");
                self.about.store_fails = None;
                self.describe();
            }
            store::Report::Health(Err(why)) => {
                tracing::error!("the store fails: {why}");
                self.about.store_fails = Some(why);
                self.describe();
            }
            store::Report::Lost(why) => {
                self.remark(None, why);
                self.handle(now, Input::Lost);
            }
            store::Report::Saved(why) => self.remark(None, why),
            store::Report::Ousted(why) => {
                tracing::error!("{why}");
                self.handle(now, Input::Stop(stopped::OUSTED));
            }
            store::Report::Damaged(why) => {
                let former = self.damage.replace(why.clone());
                self.remark(former, why);
            }
            store::Report::Answer(number, answer) => {
                self.store.note_answer(number);
                self.handle(now, Input::Found(ClientId(number), answer));
            }
        }
    }

    /// Logs a warning of the store. `status` shows it, instead of the former one of its kind.
    fn remark(&mut self, former: Option<String>, why: String) {
        tracing::error!("{why}");
        add_remark(&mut self.about.remarks, former, why);
        self.describe();
    }

    fn policy_read(&mut self, now: Now, clients: &[ClientId], read: Result<Arc<Policy>, String>) {
        let result = read.map(|policy| self.handle(now, Input::Policy(policy)));
        for client in clients {
            self.handle(now, Input::Reloaded(*client, result.clone()));
        }
    }

    fn describe(&mut self) {
        let about = serde_json::value::to_raw_value(&self.about);
        self.router.describe_daemon(about.expect("a description is JSON"));
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.router.handle(now, input, &mut self.outputs);
        self.execute();
    }

    fn execute(&mut self) {
        let mut outputs = mem::take(&mut self.outputs);
        outputs.drain(..).for_each(|output| self.carry_out(output));
        self.outputs = outputs;
    }

    /// Carries out an output without waiting: frames go to lanes, which are flushed later.
    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Frame(id, frame) => {
                self.clients.append(id, &frame);
                self.router.recycle(frame);
            }
            Output::Persist(change) => self.store.push(change),
            Output::Query(id, query) => self.store.query(id.0, self.clients.pid(id), *query),
            Output::Reload(id) => self.reloader.reload(Some(id)),
            Output::SetPaused(id, is_paused) => self.clients.set_paused(id, is_paused),
            Output::Admitted(id) => self.clients.admit(id),
            Output::Operator(id) => self.clients.make_operator(id),
            Output::Close(id, reason) => {
                tracing::debug!("client {}: closing: {reason:?}", id.0);
                self.clients.close(id);
                self.store.forget(id.0);
            }
            Output::HangUp(id) => self.clients.hang_up(id),
            Output::Log(line) => tracing::info!("{line}"),
            Output::Stopped => self.stopped = true,
        }
    }

    /// Flushes all lanes, including lanes that get more bytes during the flush.
    fn flush(&mut self, now: Now) {
        while let Some(id) = self.clients.take_dirty() {
            self.flush_client(now, id);
        }
        self.clients.full.clear();
        self.store.hand_over(Clock(now));
    }

    fn flush_client(&mut self, now: Now, id: ClientId) {
        let written = self.clients.flush(id);
        if written > 0 {
            self.handle(now, Input::Written(id, written));
        }
    }

    fn report_buffered(&mut self, now: Now) {
        let bytes = self.buffered.bytes();
        if bytes.abs_diff(self.buffered_reported) >= BUFFERED_STEP_BYTES {
            self.buffered_reported = bytes;
            self.handle(now, Input::Outside(bytes));
        }
    }
}

/// The most memory that was counted since the allocator last returned free pages.
struct Peak(usize);

impl Peak {
    /// Whether the memory has decreased so much that free pages should be returned. Long frames
    /// have pages of their own, so they could not use the pages of shorter ones.
    fn has_passed(&mut self, bytes: usize) -> bool {
        let has_passed = self.0.saturating_sub(bytes) >= RETURN_STEP_BYTES;
        self.0 = if has_passed { bytes } else { self.0.max(bytes) };
        has_passed
    }
}

/// Adds a warning in place of a former one, and drops the oldest if there are too many.
fn add_remark(remarks: &mut Vec<String>, former: Option<String>, why: String) {
    remarks.retain(|remark| Some(remark) != former.as_ref());
    remarks.push(why);
    remarks.drain(..remarks.len().saturating_sub(REMARKS_MAX));
}

impl Handler for Routing {
    type Event = Event;

    fn round(&mut self, events: impl Iterator<Item = Event>) {
        let now = self.clock.now();
        events.for_each(|event| self.handle_event(now, event));
        self.serve(now);
        self.report_buffered(now);
        if self.router.deadline().is_some_and(|deadline| deadline <= now.monotonic) {
            self.handle(now, Input::Tick);
        }
        self.flush(now);
        if self.peak.has_passed(self.router.memory_bytes()) {
            platform::process::return_free_memory();
        }
    }

    fn deadline(&self) -> Option<Moment> {
        if self.clients.schedule.is_idle() { self.router.deadline() } else { Some(Moment(0)) }
    }

    fn until(&self, moment: Moment) -> Duration {
        Duration::from_millis(moment.since(self.clock.now().monotonic))
    }

    fn has_ended(&self) -> bool {
        self.stopped || self.panicked.is_some()
    }

    /// Hangs up on a client that connects while the daemon ends. What the store could not put into
    /// its place is logged.
    fn reject(event: Event) {
        match event {
            Event::Accepted(.., client) => client.hang_up(),
            Event::Stored(store::Report::Ousted(why)) => tracing::error!("{why}"),
            _ => {}
        }
    }
}

/// The daemon's clock, whose moments continue from the last daemon's.
struct DaemonClock {
    /// The system's monotonic clock at the moment `base`.
    start: u64,
    base: Moment,
}

impl DaemonClock {
    fn continuing(clock: Clock) -> Self {
        let base = clock.moment_at(platform::clock::unix_ms());
        Self { start: platform::clock::monotonic_ms(), base }
    }

    fn now(&self) -> Now {
        let elapsed = platform::clock::monotonic_ms().saturating_sub(self.start);
        Now { monotonic: self.base.plus(elapsed), unix_ms: platform::clock::unix_ms() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_pages_are_returned_after_each_large_decrease() {
        let mut peak = Peak(0);
        let step = RETURN_STEP_BYTES;
        let passed: Vec<_> = [3 * step, 2 * step + 1, 2 * step, 2 * step, step, 0, 0]
            .map(|bytes| peak.has_passed(bytes))
            .into();
        assert_eq!(passed, [false, false, true, false, true, true, false]);
    }

    #[test]
    fn warnings_of_damage_replace_each_other_only() {
        let (mut remarks, mut damage) = (vec!["set aside".to_owned()], None::<String>);
        for number in 0..2 * REMARKS_MAX {
            let why = format!("damage {number}");
            add_remark(&mut remarks, damage.replace(why.clone()), why);
        }
        assert_eq!(remarks, ["set aside", "damage 15"]);
        for number in 0..2 * REMARKS_MAX {
            add_remark(&mut remarks, None, number.to_string());
        }
        assert_eq!(remarks, ["8", "9", "10", "11", "12", "13", "14", "15"]);
    }
}
