//! The order of what comes from another host.
//!
//! The sending bridge numbers the frames of each lane, and sends each until it is confirmed. An
//! [`Inbox`] passes them in the order of their numbers, even if some are lost, repeated or delayed.
//! So the order of messages does not depend on the state of NATS. A batch states the lowest number
//! that its bridge still sends. The inbox does not wait for frames with lower numbers, and drops
//! them if they come late: their messages may come again with higher numbers, behind earlier ones.
//!
//! Frames that do not fit are dropped, since the sender repeats them. A repeated frame is passed on
//! again, since the first one may not have reached the daemon. The daemon recognizes duplicates.

use crate::{batch::Batch, subject::Token};
use bytes::Bytes;
use machines::border::AGENTS_MAX;
use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
};

/// The maximum number of lanes of one host: more than the agents that a host can export.
const LANES_MAX: usize = AGENTS_MAX + 16;

/// The maximum number of a lane's frames that wait for an earlier one, or for the daemon. A bridge
/// has at most an agent's window of messages (64) in flight, and few answers.
const FRAMES_MAX: usize = 256;

/// The maximum number of a lane's waiting bytes. A single frame may be larger.
const BYTES_MAX: usize = 4 << 20;

/// The maximum number of waiting bytes in all lanes of one host. An empty lane may always have one
/// frame.
const HOST_BYTES_MAX: usize = 128 << 20;

/// A frame whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The frame.
    pub frame: Bytes,
    /// Whether it was passed before.
    pub again: bool,
}

#[derive(Debug)]
struct Lane {
    instance: u64,
    /// The bridge sends no frame with a lower number any more.
    base: u64,
    /// The number of the next frame.
    next: u64,
    /// Frames that wait for an earlier one.
    held: BTreeMap<u64, Bytes>,
    held_bytes: usize,
    /// The frames that were passed and are not settled, and their bytes.
    passed: usize,
    passed_bytes: usize,
    /// [`BYTES_MAX`], or 0 while all lanes together have too many.
    bytes_max: usize,
}

/// The lanes from one host. The module describes it.
#[derive(Debug, Default)]
pub struct Inbox {
    lanes: HashMap<Token, Lane>,
}

impl Inbox {
    /// Takes a batch for an agent. Returns the frames that are to be passed on, in order; each is
    /// [settled](Self::settled) later.
    pub fn arrived(&mut self, agent: &Token, batch: Batch) -> Vec<Arrived> {
        let Batch { instance, base, frames } = batch;
        if self.lanes.len() == LANES_MAX && !self.lanes.contains_key(agent) {
            return Vec::new();
        }
        let bytes = self.lanes.values().map(|lane| lane.held_bytes + lane.passed_bytes);
        let is_full = bytes.sum::<usize>() >= HOST_BYTES_MAX;
        let lane = self.lanes.entry(agent.clone()).or_insert_with(|| Lane::new(instance, base));
        if lane.instance != instance {
            // The frames from the earlier instance that were passed on are still unsettled.
            let Lane { passed, passed_bytes, .. } = *lane;
            *lane = Lane { passed, passed_bytes, ..Lane::new(instance, base) };
        }
        lane.bytes_max = if is_full { 0 } else { BYTES_MAX };
        let mut passed = Vec::new();
        lane.begin_at(base, &mut passed);
        for (number, frame) in frames {
            match number.cmp(&lane.next) {
                Ordering::Less if number < lane.base => {}
                Ordering::Less => {
                    let frame = lane.pass(frame);
                    passed.extend(frame.map(|frame| Arrived { frame, again: true }));
                }
                Ordering::Equal => lane.pass_next(frame, &mut passed),
                Ordering::Greater => lane.hold(number, frame),
            }
        }
        passed
    }

    /// Notes that a frame of this number of bytes for an agent is settled.
    pub fn settled(&mut self, agent: &Token, bytes: usize) {
        if let Some(lane) = self.lanes.get_mut(agent) {
            lane.passed -= 1;
            lane.passed_bytes -= bytes;
        }
    }
}

impl Lane {
    fn new(instance: u64, base: u64) -> Self {
        let (held, next) = (BTreeMap::new(), base);
        let (held_bytes, passed, passed_bytes, bytes_max) = (0, 0, 0, BYTES_MAX);
        Self { instance, base, next, held, held_bytes, passed, passed_bytes, bytes_max }
    }

    /// Waits for no number below `base`.
    fn begin_at(&mut self, base: u64, passed: &mut Vec<Arrived>) {
        self.base = self.base.max(base);
        if base <= self.next {
            return;
        }
        self.next = base;
        self.held = self.held.split_off(&base);
        let next = self.held.remove(&base);
        self.held_bytes = self.held.values().map(Bytes::len).sum();
        if let Some(frame) = next {
            self.pass_next(frame, passed);
        }
    }

    /// Returns a frame if there is room for it.
    fn pass(&mut self, frame: Bytes) -> Option<Bytes> {
        let fits = self.passed == 0
            || self.passed < FRAMES_MAX && self.passed_bytes + frame.len() <= self.bytes_max;
        fits.then(|| {
            self.passed += 1;
            self.passed_bytes += frame.len();
            frame
        })
    }

    /// Keeps a frame until the earlier ones have come, if there is room for it.
    fn hold(&mut self, number: u64, frame: Bytes) {
        let fits = self.held.is_empty()
            || self.held.len() < FRAMES_MAX && self.held_bytes + frame.len() <= self.bytes_max;
        if fits && !self.held.contains_key(&number) {
            self.held_bytes += frame.len();
            // A part of a message would keep all of it.
            self.held.insert(number, Bytes::copy_from_slice(&frame));
        }
    }

    /// Passes the next frame, and those that have waited for it.
    fn pass_next(&mut self, frame: Bytes, passed: &mut Vec<Arrived>) {
        let mut next = Some(frame);
        while let Some(frame) = next.and_then(|frame| self.pass(frame)) {
            self.next = self.next.saturating_add(1);
            passed.push(Arrived { frame, again: false });
            next = self.held.remove(&self.next);
            self.held_bytes -= next.as_ref().map_or(0, Bytes::len);
        }
    }
}

#[cfg(test)]
mod tests;
