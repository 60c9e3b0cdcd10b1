//! The order of messages that a durable consumer delivers.
//!
//! JetStream delivers new messages in the order of the stream, but redelivers late: what was lost
//! on the way, or was with a process that died, comes again after newer messages. [`Sequencer`]
//! restores the order.
//!
//! Every delivery has a number of the consumer, which counts deliveries. While the numbers are
//! contiguous, nothing was lost, and messages pass at once. At the start and after a gap, the
//! sequencer *recovers*: it holds new messages, sends no acknowledgements, and asks for the
//! consumer's state. JetStream says how many messages it has delivered without an acknowledgement.
//! Once the sequencer has all of them, it passes them in the order of the stream.
//!
//! A new leader of a replicated consumer may know less than the old one had done, never more: its
//! state is a prefix. Its numbers may fall back, and then hide as many lost deliveries. But the
//! requests for messages are lost with the old leader, and the sequencer recovers after that, too.
//!
//! A message is acknowledged only if it was passed and settled here, so that nothing is lost even
//! if a server's numbers are wrong. Then a message may come twice or late.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The time after which a state that does not add up is asked for again.
pub const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The time without news after which a recovery ends with what it has.
///
/// Five times the consumer's `ack_wait`, within which everything that exists is redelivered. A
/// server that was killed may count messages that it has removed.
pub const RECOVERY_MAX: Duration = Duration::from_secs(15);

/// The number of settled messages that are remembered, to acknowledge them again without passing
/// them again. More than a consumer's window.
pub const DONE_MAX: usize = 4096;

/// One delivery of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<M> {
    /// The message's sequence in the stream.
    pub stream: u64,
    /// The number of this delivery in the consumer.
    pub consumer: u64,
    /// The subject to which this delivery is acknowledged.
    pub reply: String,
    /// The message.
    pub message: M,
}

/// The state of a consumer, as JetStream reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The time at which the consumer was created: another consumer has another one.
    pub created: String,
    /// The number of the last delivery.
    pub consumer: u64,
    /// The highest sequence that was delivered.
    pub stream: u64,
    /// Every message up to this sequence was acknowledged.
    pub floor: u64,
    /// The number of messages that were delivered and not acknowledged.
    pub pending: usize,
}

/// What a [`Sequencer`] is notified of.
#[derive(Debug)]
pub enum Input<M> {
    /// A message came.
    Delivered(Delivery<M>),
    /// The requests for messages were lost: the leader may be another one from now on.
    Interrupted,
    /// The receiver has accepted or refused the message of this sequence for good.
    Settled(u64),
    /// JetStream has confirmed an acknowledgement (true), or has not (false).
    Acknowledged(u64, bool),
    /// JetStream has reported the consumer's state, or has not.
    Info(Option<Info>),
    /// The deadline has passed.
    Tick,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<M> {
    /// Pass the message of this sequence to the receiver.
    Pass(u64, M),
    /// Acknowledge the message of this sequence on this subject, and report the confirmation.
    Acknowledge(u64, String),
    /// Ask for the consumer's state, and report it.
    AskInfo,
    /// Tell a person: the consumer was created anew.
    Replaced,
    /// Tell a person: a recovery ended although this number of messages did not come.
    GaveUp(usize),
}

/// The recovery's question to JetStream.
#[derive(Debug)]
struct Recovery {
    /// Whether what was settled before has been acknowledged again.
    repeated: bool,
    /// The difference between JetStream's count and what is known here, at the last answer.
    missing: usize,
    begun: Instant,
    asked: bool,
    ask_at: Instant,
    give_up_at: Instant,
}

/// The order of a durable consumer's messages. The module describes it.
#[derive(Debug)]
pub struct Sequencer<M> {
    created: Option<String>,
    /// The number of the next delivery.
    next: u64,
    /// The highest sequence that the present leader has delivered, as far as is known.
    ///
    /// Nothing beyond is acknowledged: a leader may take that for a delivery of all before it. It
    /// delivers it again, and then it is.
    delivered_to: u64,
    /// Passed and not settled, with the subject to acknowledge on.
    open: BTreeMap<u64, String>,
    /// Settled, and not to be acknowledged until the recovery is over.
    settled: BTreeMap<u64, String>,
    /// Came again although an acknowledgement was sent, and not acknowledged again so far.
    stale: BTreeMap<u64, String>,
    /// Acknowledged without confirmation so far.
    unconfirmed: BTreeMap<u64, String>,
    /// The last sequences that were settled, with the subject to acknowledge on.
    done: BTreeMap<u64, String>,
    /// Counted by JetStream as delivered, but not redelivered when a recovery waited for them.
    phantoms: usize,
    /// Held until the recovery is over.
    held: BTreeMap<u64, Delivery<M>>,
    recovery: Option<Recovery>,
}

impl<M> Sequencer<M> {
    /// A sequencer that knows nothing of the consumer, and so recovers first.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            created: None,
            next: 0,
            delivered_to: 0,
            open: BTreeMap::new(),
            settled: BTreeMap::new(),
            stale: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            done: BTreeMap::new(),
            held: BTreeMap::new(),
            phantoms: 0,
            recovery: Some(Recovery::begun(now)),
        }
    }

    /// The time of the next [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let recovery = self.recovery.as_ref()?;
        (!recovery.asked && self.unconfirmed.is_empty()).then_some(recovery.ask_at)
    }

    /// The time since which messages are held until others have come, and how many of these were
    /// missing when JetStream answered last.
    #[must_use]
    pub fn recovering(&self) -> Option<(Instant, usize)> {
        self.recovery.as_ref().map(|recovery| (recovery.begun, recovery.missing))
    }

    /// The subjects of messages that this side still works on, for `+WPI`: so they are not
    /// redelivered.
    pub fn in_progress(&self) -> impl Iterator<Item = &str> {
        let held = self.held.values().map(|delivery| delivery.reply.as_str());
        self.open.values().chain(self.settled.values()).map(String::as_str).chain(held)
    }

    /// The subjects of messages that are not settled here, for `-NAK` when this side ends.
    pub fn unsettled(&self) -> impl Iterator<Item = &str> {
        let held = self.held.values().map(|delivery| delivery.reply.as_str());
        self.open.values().map(String::as_str).chain(held)
    }

    /// Handles an input at a time.
    pub fn handle(&mut self, now: Instant, input: Input<M>, outputs: &mut Vec<Output<M>>) {
        match input {
            Input::Delivered(delivery) => self.delivered(now, delivery, outputs),
            Input::Interrupted => {
                let recovery = self.recovery.get_or_insert_with(|| Recovery::begun(now));
                recovery.give_up_at = now + RECOVERY_MAX;
            }
            Input::Settled(stream) => self.on_settled(stream, outputs),
            Input::Acknowledged(stream, true) => {
                self.unconfirmed.remove(&stream);
            }
            Input::Acknowledged(stream, false) => self.on_unconfirmed(now, stream),
            Input::Info(info) => self.on_info(now, info, outputs),
            Input::Tick => {}
        }
        self.ask(now, outputs);
    }

    fn delivered(&mut self, now: Instant, delivery: Delivery<M>, outputs: &mut Vec<Output<M>>) {
        if self.recovery.is_none() && delivery.consumer != self.next {
            self.recovery = Some(Recovery::begun(now));
        }
        let Some(recovery) = &mut self.recovery else {
            self.next = self.next.saturating_add(1);
            self.delivered_to = self.delivered_to.max(delivery.stream);
            self.pass(delivery, outputs);
            return;
        };
        recovery.give_up_at = now + RECOVERY_MAX;
        let (stream, reply) = (delivery.stream, &delivery.reply);
        if let Some(known) = self.reply_mut(stream) {
            known.clone_from(reply);
        } else if self.done.contains_key(&stream) {
            self.stale.insert(stream, delivery.reply);
        } else {
            self.held.insert(stream, delivery);
        }
    }

    /// Passes a message in its turn, or recognizes it as one that was passed before.
    fn pass(&mut self, delivery: Delivery<M>, outputs: &mut Vec<Output<M>>) {
        let Delivery { stream, reply, message, .. } = delivery;
        if let Some(known) = self.reply_mut(stream) {
            *known = reply;
        } else if self.done.contains_key(&stream) {
            // The acknowledgement was lost, or crossed this delivery.
            self.acknowledge(stream, reply, outputs);
        } else {
            self.open.insert(stream, reply);
            outputs.push(Output::Pass(stream, message));
        }
    }

    /// The subject on which a message that is known, and whose acknowledgement is not confirmed,
    /// is acknowledged.
    fn reply_mut(&mut self, stream: u64) -> Option<&mut String> {
        let Self { open, settled, unconfirmed, .. } = self;
        open.get_mut(&stream)
            .or_else(|| settled.get_mut(&stream))
            .or_else(|| unconfirmed.get_mut(&stream))
    }

    fn on_settled(&mut self, stream: u64, outputs: &mut Vec<Output<M>>) {
        let Some(reply) = self.open.remove(&stream) else {
            // Of a consumer that was replaced.
            return;
        };
        self.done.insert(stream, reply.clone());
        if self.done.len() > DONE_MAX {
            self.done.pop_first();
        }
        if self.recovery.is_some() {
            self.settled.insert(stream, reply);
        } else if stream <= self.delivered_to {
            self.acknowledge(stream, reply, outputs);
        }
    }

    fn acknowledge(&mut self, stream: u64, reply: String, outputs: &mut Vec<Output<M>>) {
        if self.unconfirmed.insert(stream, reply.clone()).is_none() {
            outputs.push(Output::Acknowledge(stream, reply));
        }
    }

    /// Notes that an acknowledgement may be lost. The recovery repeats it once JetStream answers.
    fn on_unconfirmed(&mut self, now: Instant, stream: u64) {
        let Some(reply) = self.unconfirmed.remove(&stream) else {
            return;
        };
        self.stale.insert(stream, reply);
        self.recovery.get_or_insert_with(|| Recovery::begun(now));
    }

    /// Asks for the state when it is time. Acknowledgements in flight would make it ambiguous.
    fn ask(&mut self, now: Instant, outputs: &mut Vec<Output<M>>) {
        if let Some(recovery) = &mut self.recovery
            && !recovery.asked
            && self.unconfirmed.is_empty()
            && now >= recovery.ask_at
        {
            recovery.asked = true;
            outputs.push(Output::AskInfo);
        }
    }

    fn on_info(&mut self, now: Instant, info: Option<Info>, outputs: &mut Vec<Output<M>>) {
        let Some(recovery) = &mut self.recovery else {
            return;
        };
        recovery.asked = false;
        recovery.ask_at = now + ASK_AGAIN;
        let Some(info) = info else {
            return;
        };
        if self.created.as_ref().is_some_and(|created| *created != info.created) {
            *self = Self { created: Some(info.created), ..Self::new(now) };
            outputs.push(Output::Replaced);
            return;
        }
        self.created = Some(info.created.clone());
        if !self.stale.is_empty() {
            // JetStream may count these as pending or not. Once they are acknowledged, it does not.
            recovery.ask_at = now;
            for (stream, reply) in std::mem::take(&mut self.stale) {
                if stream <= info.stream {
                    self.acknowledge(stream, reply, outputs);
                }
            }
            return;
        }
        let given_up = now >= recovery.give_up_at;
        let known = self.known_to(info.stream);
        let missing = info.pending.abs_diff(known + self.phantoms);
        if let Some(recovery) = &mut self.recovery {
            recovery.missing = missing;
            if missing > 0 && !std::mem::replace(&mut recovery.repeated, true) {
                self.repeat_acknowledgements(&info, outputs);
            }
        }
        if !self.unconfirmed.is_empty() {
            if let Some(recovery) = &mut self.recovery {
                recovery.ask_at = now;
            }
            return;
        }
        if missing == 0 {
            self.recover(now, &info, outputs);
        } else if given_up {
            self.phantoms = info.pending.saturating_sub(known);
            outputs.push(Output::GaveUp(missing));
            self.recover(now, &info, outputs);
        }
    }

    /// Acknowledges again what was settled. A server that was killed may have forgotten that, and
    /// count messages as pending that it has removed, and so never redelivers.
    fn repeat_acknowledgements(&mut self, info: &Info, outputs: &mut Vec<Output<M>>) {
        let after_floor = info.floor.saturating_add(1);
        if after_floor > info.stream {
            return;
        }
        for (stream, reply) in self.done.clone().range(after_floor..=info.stream) {
            if !self.settled.contains_key(stream) {
                self.acknowledge(*stream, reply.clone(), outputs);
            }
        }
    }

    /// The number of messages up to `stream` that JetStream must consider pending.
    fn known_to(&self, stream: u64) -> usize {
        self.open.range(..=stream).count()
            + self.settled.range(..=stream).count()
            + self.held.range(..=stream).count()
    }

    /// Passes what is held up to the state, and ends the recovery if that is all.
    ///
    /// What is held beyond may be of an earlier leader, whose numbers mean nothing. The present
    /// leader's next state includes it.
    fn recover(&mut self, now: Instant, info: &Info, outputs: &mut Vec<Output<M>>) {
        let later = info.stream.checked_add(1).map(|next| self.held.split_off(&next));
        let complete = std::mem::replace(&mut self.held, later.unwrap_or_default());
        let passes = !complete.is_empty();
        for delivery in complete.into_values() {
            self.pass(delivery, outputs);
        }
        self.delivered_to = info.stream;
        for (stream, reply) in std::mem::take(&mut self.settled) {
            if stream <= info.stream {
                self.acknowledge(stream, reply, outputs);
            }
        }
        if self.held.is_empty() {
            self.next = info.consumer.saturating_add(1);
            self.recovery = None;
        } else if let Some(recovery) = &mut self.recovery
            && passes
        {
            recovery.ask_at = now;
        }
    }
}

impl Recovery {
    fn begun(now: Instant) -> Self {
        Self {
            repeated: false,
            missing: 0,
            begun: now,
            asked: false,
            ask_at: now,
            give_up_at: now + RECOVERY_MAX,
        }
    }
}

#[cfg(test)]
mod tests;
