//! Messages that wait because the agent and their sender only answer each other.

use super::{Injector, loop_counts::LoopCounts};
use crate::{
    frame::plain,
    input::IncomingMessage,
    obstacle::Obstacle,
    output::{Output, Progress},
};
use protocol::{
    name::{self, EVERYONE},
    payload::LoopCount,
};
use std::{collections::VecDeque, mem};

/// How many messages wait here at most, and how many bytes: half of one client's window, so that
/// others have the rest. The daemon keeps further messages.
const MESSAGES_MAX: usize = 128;
const BYTES_MAX: usize = 8 << 20;

/// The factor for the budget if the work of the agent or its peer is not known, since no hook
/// reports it.
const UNSEEN_WORK: u32 = 5;

/// The delay before the daemon redelivers a returned message. It doubles with each attempt, so that
/// the daemon does not give up before the usual time to live ends.
const AGAIN_MS: u64 = 60_000;
const DOUBLINGS_MAX: u32 = 9;

/// The counts of messages, and the messages that wait because of them, oldest first.
pub(super) struct LoopGuard {
    counts: LoopCounts,
    waiting: VecDeque<IncomingMessage>,
    bytes: usize,
}

impl LoopGuard {
    /// Returns a guard without messages; its counts begin with this work number.
    pub(super) fn new(work: u32) -> Self {
        Self { counts: LoopCounts::new(work), waiting: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.waiting.iter().any(|message| message.id == id)
    }

    /// Whether a waiting message has an id that begins with `prefix`, or any if `None`.
    pub(super) fn holds(&self, prefix: Option<&str>) -> bool {
        self.waiting.iter().any(|message| message.id.starts_with(prefix.unwrap_or_default()))
    }

    pub(super) fn take_all(&mut self) -> VecDeque<IncomingMessage> {
        self.bytes = 0;
        mem::take(&mut self.waiting)
    }

    fn push(&mut self, message: IncomingMessage) {
        self.bytes += message.body.len();
        self.waiting.push_back(message);
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= MESSAGES_MAX || self.bytes >= BYTES_MAX
    }

    fn has_message_from(&self, from: &str) -> bool {
        self.waiting.iter().any(|message| message.from.eq_ignore_ascii_case(from))
    }
}

impl Injector {
    /// Queues a new message, unless a loop makes it wait.
    pub(super) fn receive(&mut self, message: IncomingMessage) {
        if message.urgent || name::is_daemons(&message.from) {
            return self.admit(message);
        }
        // A redelivered message states an old count.
        if let Some(hops) = message.hops.filter(|_| message.attempt <= 1) {
            self.loop_guard.counts.learn(&message.from, hops);
            self.admit_looping();
        }
        match self.pass(&message) {
            Ok(()) => self.admit(message),
            Err(max) => self.defer(message, max),
        }
    }

    /// Makes a message wait, if there is capacity. A message that the daemon does not persist
    /// cannot be returned and does not wait.
    fn defer(&mut self, message: IncomingMessage, max: u32) {
        if !self.loop_guard.is_full() {
            self.tell_of_loop(&message.from, max);
            self.out.push(Output::Report(message.id.clone(), Progress::Waiting(Obstacle::Looping)));
            self.loop_guard.push(message);
        } else if message.requires_ack {
            let doublings = message.attempt.saturating_sub(1).min(DOUBLINGS_MAX);
            self.out.push(Output::Return(message.id, AGAIN_MS << doublings));
        } else {
            self.admit(message);
        }
    }

    /// Notes work of the agent or a prompt of its person. Messages with all peers, and notices, may
    /// go on.
    pub(super) fn end_loops(&mut self) {
        self.notices.renew_budget();
        self.loop_guard.counts.reset();
        self.admit_looping();
    }

    /// Counts a message from the agent to another. Returns the count to send with it, if the
    /// agent's work is known.
    pub(crate) fn count_sent(&mut self, to: &str) -> Option<LoopCount> {
        if name::is_daemons(to) || to == EVERYONE {
            return None;
        }
        let max = self.budget(true)?;
        let count = self.loop_guard.counts.count_sent(to);
        if count.hops > max {
            self.tell_of_loop(to, max);
        }
        Some(count).filter(|_| self.observer.work.is_heard)
    }

    /// Queues the messages that may go on, each after its sender's older ones.
    fn admit_looping(&mut self) {
        for message in self.loop_guard.take_all() {
            if self.pass(&message).is_ok() {
                self.out.push(Output::Report(message.id.clone(), Progress::Unhindered));
                self.admit(message);
            } else {
                self.loop_guard.push(message);
            }
        }
    }

    /// Lets a message pass and counts it. If it must wait, returns how many messages have passed.
    fn pass(&mut self, message: &IncomingMessage) -> Result<(), u32> {
        let Some(max) = self.budget(message.hops.is_some()) else { return Ok(()) };
        let is_first = !self.loop_guard.has_message_from(&message.from);
        let passes = is_first && self.loop_guard.counts.admit(&message.from, max);
        if passes { Ok(()) } else { Err(max) }
    }

    fn admit(&mut self, message: IncomingMessage) {
        self.queue.push(message);
        self.retry_at = None;
    }

    /// Returns how many messages may pass between the agent and a peer without work. `None` for a
    /// program that is no agent CLI: its turns cost nothing.
    fn budget(&self, knows_peers_work: bool) -> Option<u32> {
        let budget = self.observer.recipe.wake_budget;
        let knows_work = self.observer.work.is_heard && knows_peers_work;
        let max = if knows_work { budget } else { budget.saturating_mul(UNSEEN_WORK) };
        self.observer.recipe.shows_composer().then_some(max)
    }

    fn tell_of_loop(&mut self, peer: &str, max: u32) {
        if self.loop_guard.counts.tell(peer) {
            self.notify(format!(
                "{} and you have sent each other {max} messages without a prompt of a user and \
                 without the use of a tool. Further ones may wait until there is one of these. Do \
                 not answer this.",
                plain(peer)
            ));
        }
    }
}
