//! Notices that wait for senders that are away.
//!
//! The store has a notice of a stored message's end until the operating system has accepted its
//! frame. After a crash before that, the notice is sent again.

use super::{context::Context, interface::Output, keys::AgentKey, outcome::Notice};
use protocol::{
    name::Name,
    record::{Change, NoticeRecord},
};
use rustc_hash::FxHashMap;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The waiting notices of all agents that have a session and are away.
#[derive(Debug, Default)]
pub(super) struct Notices(FxHashMap<AgentKey, AgentNotices>);

/// The notices of an agent, by their numbers.
#[derive(Debug, Default)]
struct AgentNotices {
    frames: BTreeMap<u64, Arc<[u8]>>,
    /// The length and the number of each; of equal lengths, the oldest is the last.
    by_length: BTreeSet<(usize, Reverse<u64>)>,
    bytes: usize,
}

impl AgentNotices {
    /// Whether the notices exceed the bound. A single notice never does.
    fn is_over(&self, bytes_max: usize) -> bool {
        self.bytes > bytes_max && self.frames.len() > 1
    }

    fn add(&mut self, number: u64, frame: Arc<[u8]>) {
        self.bytes += frame.len();
        self.by_length.insert((frame.len(), Reverse(number)));
        self.frames.insert(number, frame);
    }

    /// Removes the largest notice, the oldest of several, so that one recipient's long answers do
    /// not displace another's short ones.
    fn pop_largest(&mut self) -> Option<(u64, Arc<[u8]>)> {
        let (_, Reverse(number)) = self.by_length.pop_last()?;
        let frame = self.frames.remove(&number)?;
        self.bytes -= frame.len();
        Some((number, frame))
    }
}

impl Notices {
    /// Stores a notice until its sender returns. Beyond the bounds, the largest notices are dropped
    /// and a line is logged.
    pub(super) fn hold(
        &mut self,
        ctx: &mut Context,
        sender: AgentKey,
        name: &Name,
        number: u64,
        frame: Arc<[u8]>,
    ) {
        ctx.charge_memory(sender, frame.len());
        let waiting = self.0.entry(sender).or_default();
        waiting.add(number, frame);
        let mut dropped = 0;
        while !ctx.has_memory_for(0) || waiting.is_over(ctx.limits.waiting_answers_bytes_max) {
            let Some((number, largest)) = waiting.pop_largest() else { break };
            ctx.release_memory(sender, largest.len());
            ctx.record_end(sender, Change::NoticeEnded(number));
            dropped += 1;
        }
        if dropped > 0 {
            let line = format!("{name} is away: {dropped} of the answers that wait for it dropped");
            ctx.emit(Output::Log(line));
        }
    }

    /// Removes and returns an agent's notices.
    pub(super) fn take(&mut self, ctx: &mut Context, agent: AgentKey) -> Vec<Notice> {
        let Some(waiting) = self.0.remove(&agent) else { return Vec::new() };
        ctx.release_memory(agent, waiting.bytes);
        let frames = waiting.frames.into_iter();
        frames.map(|(number, frame)| Notice { frame, number: Some(number) }).collect()
    }

    /// Returns all notices that wait, with their senders.
    pub(super) fn all(&self) -> impl Iterator<Item = (AgentKey, Notice)> {
        self.0.iter().flat_map(|(agent, waiting)| {
            let notice = |number: &u64, frame: &Arc<[u8]>| Notice {
                frame: frame.clone(),
                number: Some(*number),
            };
            waiting.frames.iter().map(move |(number, frame)| (*agent, notice(number, frame)))
        })
    }
}

/// Records that a notice waits for the agent with this number.
pub(super) fn record(ctx: &mut Context, number: u64, agent: u64, frame: &Arc<[u8]>) {
    let record = NoticeRecord { number, agent, frame: frame.clone() };
    ctx.record(Change::Notice(Box::new(record)));
}

/// Records that a notice was written to its sender, or never will be.
pub(super) fn record_end(ctx: &mut Context, sender: AgentKey, notice: &Notice) {
    if let Some(number) = notice.number {
        ctx.record_end(sender, Change::NoticeEnded(number));
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Notices {
        /// Returns each agent that has notices, and their bytes.
        pub(crate) fn charged(&self) -> impl Iterator<Item = (AgentKey, usize)> {
            self.0.iter().map(|(agent, waiting)| (*agent, waiting.bytes))
        }
    }
}
