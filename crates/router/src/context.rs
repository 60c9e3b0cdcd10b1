//! The context that every component works in: limits, the time, random numbers, outputs, and the
//! timers, memory accounting and journal that all components share.

use super::{
    Output,
    accounts::{self, Accounts, Class},
    backlog::{self, Backlog},
    frame::Frame,
    journal::{Continuation, Journal},
    keys::AgentKey,
    limits::Limits,
    memory::Memory,
    planted::Planted,
    timers::Timers,
};
use protocol::{Now, delivery_id::IdKey, record::Change, relay::Counts};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::mem;
use uuid::Uuid;

/// The most head buffers that are kept for reuse, and the largest capacity of such a buffer.
const HEADS_MAX: usize = 256;
const HEAD_CAPACITY_MAX: usize = 4096;

/// The state that all components share. Components get it as `&mut`.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) limits: Limits,
    /// The time of the input that is being handled.
    pub(super) now: Now,
    pub(super) timers: Timers,
    pub(super) memory: Memory,
    pub(super) accounts: Accounts,
    pub(super) counts: Counts,
    pub(super) journal: Journal,
    pub(super) backlog: Backlog,
    pub(super) planted: Planted,
    /// The work so far, in units of about a nanosecond. Never decreases.
    pub(super) work: u64,
    rng: ChaCha8Rng,
    /// The key of the ids of deliveries.
    id_key: IdKey,
    /// The part of `work` that the driver was told.
    work_told: u64,
    /// Outputs of the input that is being handled.
    out: Vec<Output>,
    /// Empty buffers for the heads of later frames. A broadcast needs many heads at once, and
    /// allocating a head costs more than writing it.
    heads: Vec<Vec<u8>>,
}

impl Context {
    pub(super) fn new(limits: Limits, seed: [u8; 32]) -> Self {
        Self {
            limits,
            now: Now::default(),
            timers: Timers::default(),
            memory: Memory::default(),
            accounts: Accounts::default(),
            counts: Counts::default(),
            journal: Journal::default(),
            backlog: Backlog::default(),
            planted: Planted::default(),
            work: 0,
            rng: ChaCha8Rng::from_seed(seed),
            id_key: IdKey::default(),
            work_told: 0,
            out: Vec::new(),
            heads: Vec::new(),
        }
    }

    /// Swaps the outputs with the driver's buffer. The router calls this before and after each
    /// input.
    pub(super) const fn swap_outputs(&mut self, out: &mut Vec<Output>) {
        mem::swap(&mut self.out, out);
    }

    /// Counts work, in units of about a nanosecond, for which the client whose frame is being
    /// handled has to answer.
    pub(super) const fn spend(&mut self, units: u64) {
        self.work = self.work.saturating_add(units);
    }

    /// Returns the work since the last call.
    pub(super) const fn take_work(&mut self) -> u64 {
        let work = self.work - self.work_told;
        self.work_told = self.work;
        work
    }

    /// Excludes the work since `begun`, a former value of `work`, from what the driver is told
    /// next.
    pub(super) const fn excuse(&mut self, begun: u64) {
        self.work_told += self.work - begun;
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.out.push(output);
    }

    /// Hands a change to the store. Returns the change's ticket.
    pub(super) fn record(&mut self, change: Change) -> u64 {
        self.backlog.add(backlog::cost_of(&change));
        self.out.push(Output::Persist(change));
        self.journal.note_recorded()
    }

    /// Hands a change to the store for which nobody waits, and after which no other change of the
    /// same record follows: at once if the share of an agent's principal has room, or else later.
    pub(super) fn record_end(&mut self, agent: AgentKey, change: Change) {
        let principal = self.accounts.listed_as(agent);
        let handed = self.backlog.uncharged();
        if self.backlog.has_deferred(principal) || !self.has_share_of_store_after(agent, handed) {
            self.backlog.defer(principal, change);
        } else {
            self.record(change);
        }
    }

    /// Hands over the deferred changes of principals that may hand more to the store, or of all if
    /// the daemon ends.
    pub(super) fn record_deferred(&mut self, all: bool) {
        let of_others = self.backlog.take_uncharged();
        for principal in self.backlog.deferring() {
            while (all || self.has_share_of_store(principal))
                && let Some(change) = self.backlog.pop_deferred(principal)
            {
                self.record(change);
                let cost = self.backlog.take_uncharged();
                self.charge_store(principal, cost);
            }
        }
        self.backlog.add(of_others);
    }

    /// Queues an action until the change with this ticket is persisted. Tickets never decrease from
    /// call to call.
    pub(super) fn wait(&mut self, ticket: u64, continuation: Continuation) {
        self.backlog.add(1);
        self.journal.wait(ticket, continuation);
    }

    /// Charges an agent's principal for what was handed to the store, until the store has handled
    /// it.
    pub(super) fn charge_store(&mut self, agent: AgentKey, cost: usize) {
        if cost > 0 {
            self.accounts.charge(Class::Store, agent, cost);
            self.backlog.charge(agent, cost, self.journal.last_ticket());
        }
    }

    /// Releases the charges for what the store has handled and nothing waits for any more.
    pub(super) fn release_store(&mut self) {
        let upto = self.journal.concluded();
        while let Some(charge) = self.backlog.next_handled(upto) {
            self.accounts.release(Class::Store, charge.payer, charge.cost);
        }
    }

    /// Whether an agent's principal may hand more to the store.
    pub(super) fn has_share_of_store(&self, agent: AgentKey) -> bool {
        self.has_share_of_store_for(agent, 1)
    }

    /// Whether an agent's principal, which had used up its share, may go on: half of the share is
    /// free again.
    pub(super) fn has_half_of_store(&self, agent: AgentKey) -> bool {
        let held = self.accounts.held(Class::Store, self.accounts.principal(agent));
        self.has_share_of_store_for(agent, held.max(1))
    }

    /// Whether an agent's principal may hand more to the store after this much, which it is not
    /// charged with yet.
    pub(super) fn has_share_of_store_after(&self, agent: AgentKey, handed: usize) -> bool {
        let own = self.accounts.held(Class::Store, self.accounts.principal(agent)) + handed;
        let total = self.accounts.total(Class::Store) + handed;
        accounts::excess(own, total, 1, self.limits.backlog_max) == 0
    }

    fn has_share_of_store_for(&self, agent: AgentKey, cost: usize) -> bool {
        let principal = self.accounts.principal(agent);
        self.accounts.excess(Class::Store, principal, cost, self.limits.backlog_max) == 0
    }

    /// Whether memory has room for `bytes` bytes more within `memory_bytes_max`.
    pub(super) const fn has_memory_for(&self, bytes: usize) -> bool {
        self.memory.held() + bytes <= self.limits.memory_bytes_max
    }

    /// Whether an agent's principal may hold `bytes` bytes more of the memory.
    pub(super) fn has_share_of_memory(&self, agent: AgentKey, bytes: usize) -> bool {
        self.accounts.excess(Class::Memory, Some(agent), bytes, self.shared_memory()) == 0
    }

    /// Returns the memory of which principals have shares.
    fn shared_memory(&self) -> usize {
        let others = self.memory.needed() - self.accounts.total(Class::Memory);
        self.limits.memory_bytes_max.saturating_sub(others)
    }

    /// Whether another message of a sender to several recipients may wait for one of them, for which
    /// such messages of `own` bytes wait already. All of them together take half of the sender's
    /// share, and those for one recipient half of what the others leave of that.
    pub(super) fn has_share_of_copies(&self, from: AgentKey, own: usize, bytes: usize) -> bool {
        let principal = self.accounts.principal(from);
        let memory = self.accounts.share(Class::Memory, principal, self.shared_memory());
        let mail = self.accounts.share(Class::Mail, principal, self.limits.mail_bytes_max);
        let all = self.accounts.held(Class::Copies, principal);
        own == 0 || accounts::excess(own, all, bytes, memory.min(mail) / 2) == 0
    }

    /// Whether an agent's principal may hold `bytes` bytes more of the mail in the store.
    pub(super) fn has_share_of_mail(&self, agent: AgentKey, bytes: usize) -> bool {
        let principal = self.accounts.principal(agent);
        self.accounts.excess(Class::Mail, principal, bytes, self.limits.mail_bytes_max) == 0
    }

    /// Charges memory, and an agent's principal for it.
    pub(super) fn charge_memory(&mut self, agent: AgentKey, bytes: usize) {
        self.memory.charge(bytes);
        self.accounts.charge(Class::Memory, agent, bytes);
    }

    pub(super) fn release_memory(&mut self, agent: AgentKey, bytes: usize) {
        self.memory.release(bytes);
        self.accounts.release(Class::Memory, agent, bytes);
    }

    pub(super) fn new_id(&mut self) -> Uuid {
        uuid::Builder::from_random_bytes(self.random_bytes()).into_uuid()
    }

    /// Returns a new id for the delivery with this number.
    pub(super) fn delivery_id(&mut self, number: u64) -> Uuid {
        let random = self.random_bytes();
        self.id_key.id(number, random)
    }

    pub(super) const fn use_id_key(&mut self, key: IdKey) {
        self.id_key = key;
    }

    fn random_bytes(&mut self) -> [u8; 16] {
        let (low, high) = (self.rng.next_u64(), self.rng.next_u64());
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }

    /// Returns `bytes` random bytes as lower-case hex.
    pub(super) fn random_hex(&mut self, bytes: usize) -> String {
        (0..bytes).map(|_| format!("{:02x}", self.rng.next_u32() as u8)).collect()
    }

    /// Returns an empty buffer with a capacity of at least `bytes` bytes for a frame's head.
    pub(super) fn head_buffer(&mut self, bytes: usize) -> Vec<u8> {
        let mut head = self.heads.pop().unwrap_or_default();
        head.reserve(bytes);
        head
    }

    /// Keeps the head buffer of a frame that is no longer needed, for reuse.
    pub(super) fn recycle(&mut self, frame: Frame) {
        let mut head = frame.head;
        if self.heads.len() < HEADS_MAX && (1..=HEAD_CAPACITY_MAX).contains(&head.capacity()) {
            head.clear();
            self.heads.push(head);
        }
    }
}
