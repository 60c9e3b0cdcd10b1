//! What changes come to, as simply as can be said: a disk without a disk, for tests.

use super::{
    AgentRecord, Change, Clock, DeadRecord, DoubleRecord, Ending, Image, Numbers, Row,
    SessionRecord, StreamRecord,
};
use std::collections::BTreeMap;

/// Everything that was ever kept and is not forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) clock: Clock,
    pub(crate) agents: BTreeMap<u64, AgentRecord>,
    pub(crate) sessions: BTreeMap<u64, SessionRecord>,
    pub(crate) streams: BTreeMap<u64, StreamRecord>,
    pub(crate) doubles: BTreeMap<u64, DoubleRecord>,
    /// Deliveries, over or not.
    pub(crate) rows: BTreeMap<u64, Row>,
    pub(crate) last: Numbers,
}

impl Oracle {
    /// Keeps one change.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Taken(taken) => {
                self.last.message = self.last.message.max(taken.message.number);
                self.last.agent = self.last.agent.max(taken.message.sender);
                for delivery in &taken.deliveries {
                    self.last.delivery = self.last.delivery.max(delivery.number);
                    self.last.stream = self.last.stream.max(delivery.stream);
                    self.last.agent = self.last.agent.max(delivery.to);
                    let (delivery, message) = (delivery.clone(), taken.message.clone());
                    self.rows.insert(delivery.number, Row { delivery, message, ended: None });
                }
                self.doubles.insert(taken.double.message, taken.double.clone());
            }
            Change::Attempted { delivery, attempts, failures } => {
                if let Some(row) = self.rows.get_mut(delivery) {
                    (row.delivery.attempts, row.delivery.failures) = (*attempts, *failures);
                }
            }
            Change::Ended { delivery, ending, unix_ms } => {
                if let Some(row) = self.rows.get_mut(delivery) {
                    row.ended = Some((ending.clone(), *unix_ms));
                }
            }
            Change::Revived { delivery, expires } => {
                if let Some(row) = self.rows.get_mut(delivery) {
                    row.ended = None;
                    row.delivery.expires = *expires;
                    (row.delivery.attempts, row.delivery.failures) = (0, 0);
                }
            }
            Change::Agent(agent) => {
                self.last.agent = self.last.agent.max(agent.number);
                self.agents.insert(agent.number, agent.clone());
            }
            Change::AgentForgotten(agent) => {
                self.agents.remove(agent);
                self.sessions.remove(agent);
                self.doubles.retain(|_, double| double.sender != *agent);
            }
            Change::Session(session) => {
                self.sessions.insert(session.agent, session.clone());
            }
            Change::SessionEnded { agent } => {
                self.sessions.remove(agent);
            }
            Change::Stream(stream) => {
                self.last.stream = self.last.stream.max(stream.number);
                self.streams.insert(stream.number, stream.clone());
            }
            Change::StreamEnded(stream) => {
                self.streams.remove(stream);
            }
        }
    }

    /// What a daemon would start with.
    pub(crate) fn image(&self) -> Image {
        let open = || self.rows.iter().filter(|(_, row)| row.ended.is_none());
        let dead = |row: &Row| matches!(row.ended, Some((Ending::Dead { .. }, _)));
        let grave = |row: &Row| DeadRecord { id: row.delivery.id, to: row.delivery.to };
        let dead = self.rows.iter().filter(|(_, row)| dead(row));
        Image {
            clock: self.clock,
            agents: self.agents.clone(),
            sessions: self.sessions.clone(),
            streams: self.streams.clone(),
            messages: open().map(|(_, row)| (row.message.number, row.message.clone())).collect(),
            deliveries: open().map(|(number, row)| (*number, row.delivery.clone())).collect(),
            doubles: self.doubles.clone(),
            dead: dead.map(|(number, row)| (*number, grave(row))).collect(),
            last: self.last,
        }
    }
}
