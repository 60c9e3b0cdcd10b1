//! What changes come to, as simply as can be said: a disk without a disk, for tests.

use super::{
    AgentRecord, AnswerRecord, Change, Clock, DeadRecord, DoubleRecord, Ending, Filter, Found,
    Image, Numbers, Query, QuestionRecord, Row, SessionRecord, StreamRecord,
};
use crate::protocol::{
    deliver::{Shared, shared_object},
    name::Name,
};
use std::collections::BTreeMap;
use uuid::Uuid;

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
    pub(crate) answers: BTreeMap<u64, AnswerRecord>,
    pub(crate) questions: BTreeMap<Uuid, QuestionRecord>,
    pub(crate) last: Numbers,
}

impl Oracle {
    /// Keeps one change.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Taken(_)
            | Change::TakenAgain(_)
            | Change::Attempted { .. }
            | Change::Ended { .. }
            | Change::Revived { .. } => self.apply_to_messages(change),
            Change::Agent(agent) => {
                self.last.agent = self.last.agent.max(agent.number);
                self.agents.insert(agent.number, (**agent).clone());
            }
            Change::AgentForgotten(agent) => {
                self.agents.remove(agent);
                self.sessions.remove(agent);
                self.doubles.retain(|_, double| double.sender != *agent);
            }
            Change::Session(session) => {
                self.sessions.insert(session.agent, (**session).clone());
            }
            Change::SessionEnded { agent } => {
                self.sessions.remove(agent);
            }
            Change::Stream(stream) => {
                self.last.stream = self.last.stream.max(stream.number);
                self.streams.insert(stream.number, (**stream).clone());
            }
            Change::StreamEnded(stream) => {
                self.streams.remove(stream);
            }
            Change::Answer(answer) => {
                self.answers.insert(answer.number, (**answer).clone());
            }
            Change::AnswerEnded(answer) => {
                self.answers.remove(answer);
            }
            Change::Question(question) => {
                self.questions.insert(question.delivery, (**question).clone());
            }
            Change::QuestionEnded(delivery) => {
                self.questions.remove(delivery);
            }
        }
    }

    fn apply_to_messages(&mut self, change: &Change) {
        match change {
            Change::Taken(taken) | Change::TakenAgain(taken) => {
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
            _ => unreachable!("no message changes"),
        }
    }

    /// What a query finds. Words are looked for as they stand.
    pub(crate) fn find(&self, query: &Query) -> Found {
        let mut rows: Vec<Row> = self.rows.values().rev().cloned().collect();
        match query {
            Query::Id(id) => {
                let is_it = |row: &Row| row.delivery.id.to_string() == *id;
                let of_send = |row: &Row| *row.message.send_id == **id;
                let known = rows.iter().any(is_it);
                rows.retain(|row| if known { is_it(row) } else { of_send(row) });
                Found { rows, more: false }
            }
            Query::List(filter) => {
                rows.retain(|row| is_wanted(filter, row));
                let more = rows.len() > filter.limit;
                rows.truncate(filter.limit);
                Found { rows, more }
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
            answers: self.answers.clone(),
            questions: self.questions.clone(),
            last: self.last,
        }
    }
}

fn is_wanted(filter: &Filter, row: &Row) -> bool {
    let object = shared_object(&row.message.shared);
    let said: Shared<'_> = serde_json::from_str(&object).unwrap();
    let concerns = |name: &Option<Name>| {
        name.as_ref().is_none_or(|name| name.is(&said.from) || row.delivery.to_name == *name)
    };
    let is_dead = matches!(row.ended, Some((Ending::Dead { .. }, _)));
    filter.before.is_none_or(|before| row.delivery.number < before)
        && (is_dead || !filter.dead)
        && concerns(&filter.of)
        && concerns(&filter.with)
        && (filter.topic.is_none() || filter.topic.as_deref() == said.topic.as_deref())
        && filter.search.as_ref().is_none_or(|words| said.payload.get().contains(words))
}
