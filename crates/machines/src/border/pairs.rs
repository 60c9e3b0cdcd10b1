//! Messages from another machine on their way to the local daemon.
//!
//! At most one message of each pair of sender and recipient is with the daemon at a time, so that
//! their order is kept even if the daemon refuses one for now.

use super::Ticket;
use client::Forwarded;
use protocol::{
    Moment,
    name::{EVERYONE, Name},
    payload::Nack,
};
use std::collections::{HashMap, HashSet, VecDeque};

/// The first wait after a temporary refusal, in milliseconds. Each further wait is twice as long.
const RETRY_MS: u64 = 1_000;

/// The longest wait after a temporary refusal, in milliseconds.
const RETRY_MS_MAX: u64 = 30_000;

/// The beginning of the ids by which the daemon gets messages to everyone. A NACK that names one
/// of the recipients of such a message can come long after the message.
const TO_ALL: &str = "all-";

/// A sender, and a recipient.
pub(super) type Pair = (Name, Name);

/// A message from another machine.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) message: Forwarded,
    pub(super) ticket: Ticket,
}

impl Arrived {
    /// The message's id on the other machine.
    pub(super) fn id(&self) -> &str {
        let id = &*self.message.id.0;
        id.strip_prefix(TO_ALL).filter(|_| self.message.to == EVERYONE).unwrap_or(id)
    }
}

/// The id by which the daemon gets a message from another machine.
pub(super) fn forwarded_id(to: &Name, id: &str) -> String {
    if to.is_all() { format!("{TO_ALL}{id}") } else { id.to_owned() }
}

/// The messages of one pair, in order. The first one may be with the daemon.
#[derive(Debug, Default)]
struct Lane {
    messages: VecDeque<Arrived>,
    is_sent: bool,
    refusals: u32,
    retry_at: Option<Moment>,
}

/// The messages of all pairs of one machine.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    lanes: HashMap<Pair, Lane>,
    /// The recipients of the messages that are with the daemon, by sender and id.
    sent: HashMap<(Name, String), Name>,
    /// The senders and ids of all messages.
    ids: HashSet<(Name, String)>,
}

impl Pairs {
    /// Appends a message.
    pub(super) fn push(&mut self, pair: &Pair, arrived: Arrived) {
        self.ids.insert((pair.0.clone(), arrived.message.id.0.clone()));
        self.lanes.entry(pair.clone()).or_default().messages.push_back(arrived);
    }

    /// Whether a message of this sender and id is here.
    pub(super) fn contains(&self, sender: &Name, id: &str) -> bool {
        self.ids.contains(&(sender.clone(), id.to_owned()))
    }

    /// Returns the pair's next message if the daemon may have it now. Later messages of the pair
    /// wait until this one is removed or delayed.
    pub(super) fn next(&mut self, now: Moment, pair: &Pair) -> Option<&Forwarded> {
        let lane = self.lanes.get_mut(pair)?;
        if lane.is_sent || lane.retry_at.is_some_and(|at| now < at) {
            return None;
        }
        let next = &lane.messages.front()?.message;
        (lane.is_sent, lane.retry_at) = (true, None);
        self.sent.insert((pair.0.clone(), next.id.0.clone()), pair.1.clone());
        Some(next)
    }

    /// Returns the pair of a message that is with the daemon, which has answered it.
    fn answered(&mut self, sender: &Name, id: &str) -> Option<Pair> {
        let recipient = self.sent.remove(&(sender.clone(), id.to_owned()))?;
        Some((sender.clone(), recipient))
    }

    /// Removes a message that the daemon has accepted or refused for good.
    pub(super) fn take(&mut self, sender: &Name, id: &str) -> Option<(Pair, Arrived)> {
        let pair = self.answered(sender, id)?;
        self.ids.remove(&(sender.clone(), id.to_owned()));
        let lane = self.lanes.get_mut(&pair).expect("a message that was sent is in a lane");
        let arrived = lane.messages.pop_front().expect("a lane begins with the sent message");
        if lane.messages.is_empty() {
            self.lanes.remove(&pair);
        } else {
            (lane.is_sent, lane.refusals) = (false, 0);
        }
        Some((pair, arrived))
    }

    /// Removes the messages of these senders.
    pub(super) fn remove_senders(&mut self, left: impl Fn(&Name) -> bool) -> Vec<(Pair, Arrived)> {
        self.sent.retain(|(sender, _), _| !left(sender));
        self.ids.retain(|(sender, _)| !left(sender));
        let lanes = self.lanes.extract_if(|(sender, _), _| left(sender));
        let messages = lanes.flat_map(|(pair, lane)| {
            lane.messages.into_iter().map(move |arrived| (pair.clone(), arrived))
        });
        messages.collect()
    }

    /// Returns the recipient that a NACK names, if it is one recipient of a message to everyone. The
    /// NACK does not refuse the message itself then.
    pub(super) fn one_of_all<'n>(&self, sender: &Name, nack: &'n Nack) -> Option<&'n str> {
        let to = nack.to.as_deref().filter(|to| *to != EVERYONE)?;
        let sent = self.sent.get(&(sender.clone(), nack.ack_id.clone()));
        let is_to_all = nack.ack_id.starts_with(TO_ALL) && sent.is_none_or(Name::is_all);
        is_to_all.then_some(to)
    }

    /// Delays a message that the daemon has refused temporarily. Returns whether there is one.
    pub(super) fn put_off(&mut self, now: Moment, sender: &Name, id: &str) -> bool {
        let Some(pair) = self.answered(sender, id) else { return false };
        let lane = self.lanes.get_mut(&pair).expect("a message that was sent is in a lane");
        let wait_ms = (RETRY_MS << lane.refusals.min(16)).min(RETRY_MS_MAX);
        lane.refusals += 1;
        (lane.is_sent, lane.retry_at) = (false, Some(now.plus(wait_ms)));
        true
    }

    /// Returns the pairs that have waited long enough.
    pub(super) fn due(&self, now: Moment) -> Vec<Pair> {
        let is_due = |lane: &Lane| lane.retry_at.is_some_and(|at| at <= now);
        self.lanes.iter().filter(|(_, lane)| is_due(lane)).map(|(pair, _)| pair.clone()).collect()
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        self.lanes.values().filter_map(|lane| lane.retry_at).min()
    }
}
