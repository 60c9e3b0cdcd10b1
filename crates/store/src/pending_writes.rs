//! Changes that could not be written and cannot be refused, kept until the disk works again.

use super::row::{notice_bytes, send_bytes};
use protocol::{
    Moment,
    record::{
        AcceptedSend, AgentRecord, Change, Ending, LastNumbers, NoticeRecord, QuestionRecord,
        SessionRecord, StreamRecord,
    },
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The changes to be written, at most one per record: a later change replaces an earlier one.
///
/// `None` stands for a record that is to be removed.
#[derive(Debug, Default)]
pub(super) struct PendingWrites {
    /// Open accepted messages that a newly begun file lacks. The bytes are shared with the router
    /// while the messages are open.
    accepted: BTreeMap<u64, Box<AcceptedSend>>,
    deliveries: BTreeMap<u64, PendingDelivery>,
    agents: BTreeMap<u64, Option<Box<AgentRecord>>>,
    sessions: BTreeMap<u64, Option<Box<SessionRecord>>>,
    streams: BTreeMap<u64, Option<Box<StreamRecord>>>,
    /// Notices can be pending only for deliveries accepted before the disk failed, which bounds
    /// their number.
    notices: BTreeMap<u64, Option<Box<NoticeRecord>>>,
    questions: BTreeMap<Uuid, Option<Box<QuestionRecord>>>,
    /// The highest numbers of agents and streams in the file, and of a pending message's sender.
    /// Whatever began after those and has ended needs no write.
    last_agent: u64,
    last_stream: u64,
}

/// The changes to a delivery, in the order in which they apply.
#[derive(Debug, Default)]
struct PendingDelivery {
    redelivered: Option<Moment>,
    attempted: Option<(u32, u32)>,
    ended: Option<(Ending, u64)>,
}

impl PendingWrites {
    /// Notes the highest numbers that are in the file.
    pub(super) fn note_written(&mut self, last: &LastNumbers) {
        self.last_agent = self.last_agent.max(last.agent);
        self.last_stream = self.last_stream.max(last.stream);
    }

    /// Adds a change. A new SEND is left out, since its sender is told that it is refused, and so
    /// is an answer, which has reached its asker.
    pub(super) fn push(&mut self, change: Change) {
        match change {
            Change::Accepted(_) | Change::Answer(_) | Change::Sync => {}
            Change::AcceptedAgain(accepted) => {
                // The change contains the current state of its deliveries.
                for delivery in &accepted.deliveries {
                    self.deliveries.remove(&delivery.number);
                }
                self.last_agent = self.last_agent.max(accepted.message.sender);
                self.accepted.insert(accepted.message.number, accepted);
            }
            Change::Attempted { delivery, attempts, failures } => {
                self.delivery(delivery).attempted = Some((attempts, failures));
            }
            Change::Ended { delivery, ending, unix_ms } => {
                self.delivery(delivery).ended = Some((ending, unix_ms));
            }
            Change::Redelivered { delivery, expires } => {
                let redelivered = Some(expires);
                *self.delivery(delivery) =
                    PendingDelivery { redelivered, ..PendingDelivery::default() };
            }
            Change::Agent(agent) => {
                self.agents.insert(agent.number, Some(agent));
            }
            Change::AgentForgotten(agent) => {
                self.sessions.remove(&agent);
                if agent <= self.last_agent {
                    self.agents.insert(agent, None);
                } else {
                    self.agents.remove(&agent);
                }
            }
            Change::Session(session) => {
                self.sessions.insert(session.agent, Some(session));
            }
            Change::SessionEnded { agent } if agent > self.last_agent => {
                self.sessions.remove(&agent);
            }
            Change::SessionEnded { agent } => {
                self.sessions.insert(agent, None);
            }
            Change::Stream(stream) => {
                self.streams.insert(stream.number, Some(stream));
            }
            Change::StreamEnded(stream) if stream > self.last_stream => {
                self.streams.remove(&stream);
            }
            Change::StreamEnded(stream) => {
                self.streams.insert(stream, None);
            }
            Change::Notice(notice) => {
                self.notices.insert(notice.number, Some(notice));
            }
            Change::NoticeEnded(notice) => {
                self.notices.insert(notice, None);
            }
            Change::Question(question) => {
                self.questions.insert(question.delivery, Some(question));
            }
            Change::QuestionEnded(delivery) => {
                self.questions.insert(delivery, None);
            }
        }
    }

    /// The changes, in an order in which they can be applied.
    pub(super) fn changes(&self) -> impl Iterator<Item = Change> + '_ {
        let agents = self.agents.iter().map(|(number, agent)| {
            agent.clone().map_or(Change::AgentForgotten(*number), Change::Agent)
        });
        let sessions = self.sessions.iter().map(|(agent, session)| {
            session.clone().map_or(Change::SessionEnded { agent: *agent }, Change::Session)
        });
        let streams = self.streams.iter().map(|(number, stream)| {
            stream.clone().map_or(Change::StreamEnded(*number), Change::Stream)
        });
        let deliveries =
            self.deliveries.iter().flat_map(|(number, pending)| pending.changes(*number));
        let notices = self.notices.iter().map(|(number, notice)| {
            notice.clone().map_or(Change::NoticeEnded(*number), Change::Notice)
        });
        let questions = self.questions.iter().map(|(delivery, question)| {
            question.clone().map_or(Change::QuestionEnded(*delivery), Change::Question)
        });
        let about_messages = deliveries.chain(notices).chain(questions);
        // Messages come before agents: removing an agent also removes its messages' dedup records.
        let accepted =
            self.accepted.values().map(|accepted| Change::AcceptedAgain(accepted.clone()));
        accepted.chain(agents).chain(sessions).chain(streams).chain(about_messages)
    }

    /// The disk space that the messages need.
    pub(super) fn message_bytes(&self) -> usize {
        self.accepted.values().map(|accepted| send_bytes(accepted)).sum()
    }

    /// The disk space that the notices need.
    pub(super) fn notice_bytes(&self) -> usize {
        self.notices.values().flatten().map(|notice| notice_bytes(notice)).sum()
    }

    /// Drops the notices, for which there is no space.
    pub(super) fn drop_notices(&mut self) {
        self.notices.retain(|_, notice| notice.is_none());
    }

    fn delivery(&mut self, number: u64) -> &mut PendingDelivery {
        self.deliveries.entry(number).or_default()
    }
}

impl PendingDelivery {
    fn changes(&self, delivery: u64) -> impl Iterator<Item = Change> + use<> {
        let redelivered = self.redelivered.map(|expires| Change::Redelivered { delivery, expires });
        let attempted = self.attempted.map(|(attempts, failures)| Change::Attempted {
            delivery,
            attempts,
            failures,
        });
        let ended = self.ended.clone();
        let ended = ended.map(|(ending, unix_ms)| Change::Ended { delivery, ending, unix_ms });
        [redelivered, attempted, ended].into_iter().flatten()
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl PendingWrites {
        pub(crate) fn streams(&self) -> usize {
            self.streams.len()
        }
    }
}
