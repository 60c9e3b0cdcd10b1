//! Changes that could not be written and can't be refused: the last word on each thing, until it can.

use super::commit::{bytes_of, bytes_of_answer};
use crate::protocol::Moment;
use crate::record::{
    AcceptedSend, AgentRecord, Change, Ending, NoticeRecord, QuestionRecord, SessionRecord,
    StreamRecord,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What is owed to the disk. There is no more of it than there are things.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// Accepted messages that a new file has not got, by their numbers: those that were open when it was
    /// begun. Their bytes are the daemon's own, as long as they are open.
    taken: BTreeMap<u64, Box<AcceptedSend>>,
    deliveries: BTreeMap<u64, DeliveryOwed>,
    /// Nothing: it is over.
    agents: BTreeMap<u64, Option<Box<AgentRecord>>>,
    sessions: BTreeMap<u64, Option<Box<SessionRecord>>>,
    streams: BTreeMap<u64, Option<Box<StreamRecord>>>,
    /// Of deliveries that were taken before the disk failed: so there are no more of these than of those.
    answers: BTreeMap<u64, Option<Box<NoticeRecord>>>,
    questions: BTreeMap<Uuid, Option<Box<QuestionRecord>>>,
}

/// Each overrules what stands before it.
#[derive(Debug, Default)]
struct DeliveryOwed {
    revived: Option<Moment>,
    attempted: Option<(u32, u32)>,
    ended: Option<(Ending, u64)>,
}

impl Owed {
    /// Takes a change over. A SEND isn't owed, its sender was refused.
    pub(super) fn push(&mut self, change: Change) {
        match change {
            Change::Accepted(_) => {}
            Change::AcceptedAgain(taken) => {
                // It says how its deliveries stand now.
                for delivery in &taken.deliveries {
                    self.deliveries.remove(&delivery.number);
                }
                self.taken.insert(taken.message.number, taken);
            }
            Change::Attempted { delivery, attempts, failures } => {
                self.delivery(delivery).attempted = Some((attempts, failures));
            }
            Change::Ended { delivery, ending, unix_ms } => {
                self.delivery(delivery).ended = Some((ending, unix_ms));
            }
            Change::Redelivered { delivery, expires } => {
                let revived = Some(expires);
                *self.delivery(delivery) = DeliveryOwed { revived, ..DeliveryOwed::default() };
            }
            Change::Agent(agent) => {
                self.agents.insert(agent.number, Some(agent));
            }
            Change::AgentForgotten(agent) => {
                self.agents.insert(agent, None);
                self.sessions.remove(&agent);
            }
            Change::Session(session) => {
                self.sessions.insert(session.agent, Some(session));
            }
            Change::SessionEnded { agent } => {
                self.sessions.insert(agent, None);
            }
            Change::Stream(stream) => {
                self.streams.insert(stream.number, Some(stream));
            }
            Change::StreamEnded(stream) => {
                self.streams.insert(stream, None);
            }
            Change::Notice(answer) => {
                self.answers.insert(answer.number, Some(answer));
            }
            Change::NoticeEnded(answer) => {
                self.answers.insert(answer, None);
            }
            Change::Question(question) => {
                self.questions.insert(question.delivery, Some(question));
            }
            Change::QuestionEnded(delivery) => {
                self.questions.insert(delivery, None);
            }
        }
    }

    /// What is to be written, in an order that is right.
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
        let deliveries = self.deliveries.iter().flat_map(|(number, owed)| owed.changes(*number));
        let answers = self.answers.iter().map(|(number, answer)| {
            answer.clone().map_or(Change::NoticeEnded(*number), Change::Notice)
        });
        let questions = self.questions.iter().map(|(delivery, question)| {
            question.clone().map_or(Change::QuestionEnded(*delivery), Change::Question)
        });
        let about_messages = deliveries.chain(answers).chain(questions);
        // Who is forgotten takes the doubles of these with him.
        let taken = self.taken.values().map(|taken| Change::AcceptedAgain(taken.clone()));
        taken.chain(agents).chain(sessions).chain(streams).chain(about_messages)
    }

    /// Room that the messages of it take.
    pub(super) fn taken_bytes(&self) -> usize {
        self.taken.values().map(|taken| bytes_of(taken)).sum()
    }

    /// Room that the answers of it take.
    pub(super) fn answer_bytes(&self) -> usize {
        self.answers.values().flatten().map(|answer| bytes_of_answer(answer)).sum()
    }

    /// There is no room for them.
    pub(super) fn refuse_answers(&mut self) {
        self.answers.retain(|_, answer| answer.is_none());
    }

    fn delivery(&mut self, number: u64) -> &mut DeliveryOwed {
        self.deliveries.entry(number).or_default()
    }
}

impl DeliveryOwed {
    fn changes(&self, delivery: u64) -> impl Iterator<Item = Change> + use<> {
        let revived = self.revived.map(|expires| Change::Redelivered { delivery, expires });
        let attempted = self.attempted.map(|(attempts, failures)| Change::Attempted {
            delivery,
            attempts,
            failures,
        });
        let ended = self.ended.clone();
        let ended = ended.map(|(ending, unix_ms)| Change::Ended { delivery, ending, unix_ms });
        [revived, attempted, ended].into_iter().flatten()
    }
}
