//! A reference implementation of the store in memory, for tests: the records that a series of
//! changes leaves.

use protocol::{
    deliver::Shared,
    name::Name,
    record::{
        AgentRecord, AnswerRecord, Change, Clock, DeadLetterRecord, DedupRecord, DeliveryRecord,
        DeliveryRow, Ending, Filter, Image, LastNumbers, MessageRecord, NamedAgent, NoticeRecord,
        Query, QueryResult, QuestionRecord, SessionRecord, StreamRecord,
    },
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The content of the store: all records that were written and not removed.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    pub clock: Clock,
    pub agents: BTreeMap<u64, AgentRecord>,
    pub sessions: BTreeMap<u64, SessionRecord>,
    pub streams: BTreeMap<u64, StreamRecord>,
    pub dedup: BTreeMap<u64, DedupRecord>,
    /// Deliveries, open and ended.
    pub rows: BTreeMap<u64, DeliveryRow>,
    pub notices: BTreeMap<u64, NoticeRecord>,
    pub questions: BTreeMap<Uuid, QuestionRecord>,
    pub last: LastNumbers,
}

impl Oracle {
    /// Applies one change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Accepted(_)
            | Change::AcceptedAgain(_)
            | Change::Answer(_)
            | Change::Attempted { .. }
            | Change::Ended { .. }
            | Change::Redelivered { .. } => self.apply_to_messages(change),
            Change::Agent(agent) => {
                self.last.agent = self.last.agent.max(agent.number);
                self.agents.insert(agent.number, (**agent).clone());
            }
            Change::AgentForgotten(agent) => {
                self.agents.remove(agent);
                self.sessions.remove(agent);
                self.dedup.retain(|_, dedup| dedup.sender != *agent);
            }
            Change::Session(session) => {
                self.last.agent = self.last.agent.max(session.agent);
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
            Change::Notice(notice) => {
                self.notices.insert(notice.number, (**notice).clone());
            }
            Change::NoticeEnded(notice) => {
                self.notices.remove(notice);
            }
            Change::Question(question) => {
                self.questions.insert(question.delivery, (**question).clone());
            }
            Change::QuestionEnded(delivery) => {
                self.questions.remove(delivery);
            }
            Change::Sync => {}
        }
    }

    fn apply_to_messages(&mut self, change: &Change) {
        match change {
            Change::Accepted(taken) | Change::AcceptedAgain(taken) => {
                self.last.message = self.last.message.max(taken.message.number);
                self.last.agent = self.last.agent.max(taken.message.sender);
                for delivery in &taken.deliveries {
                    self.note_delivery(&taken.message, delivery);
                    let (delivery, message) = (delivery.clone(), taken.message.clone());
                    self.rows
                        .insert(delivery.number, DeliveryRow { delivery, message, ended: None });
                }
                self.dedup.insert(taken.dedup.message, taken.dedup.clone());
            }
            Change::Answer(answer) => {
                let AnswerRecord { message, delivery } = (**answer).clone();
                self.note_delivery(&message, &delivery);
                let ended = Some((Ending::Acknowledged, message.unix_ms));
                self.rows.insert(delivery.number, DeliveryRow { delivery, message, ended });
            }
            Change::Attempted { delivery, attempts, failures } => {
                if let Some(row) = self.rows.get_mut(delivery) {
                    (row.delivery.attempts, row.delivery.failures) = (*attempts, *failures);
                }
            }
            Change::Ended { delivery, ending: Ending::Erased, .. } => {
                self.rows.remove(delivery);
            }
            Change::Ended { delivery, ending, unix_ms } => {
                if let Some(row) = self.rows.get_mut(delivery) {
                    row.ended = Some((ending.clone(), *unix_ms));
                }
            }
            Change::Redelivered { delivery, expires } => {
                if let Some(row) = self.rows.get_mut(delivery) {
                    row.ended = None;
                    row.delivery.expires = *expires;
                    (row.delivery.attempts, row.delivery.failures) = (0, 0);
                }
            }
            _ => unreachable!("changes of other records are applied above"),
        }
    }

    fn note_delivery(&mut self, message: &MessageRecord, delivery: &DeliveryRecord) {
        let last = &mut self.last;
        last.message = last.message.max(message.number);
        last.delivery = last.delivery.max(delivery.number);
        last.stream = last.stream.max(delivery.stream);
        last.agent = last.agent.max(message.sender).max(delivery.to);
    }

    /// Answers a query. Words to search for are matched literally.
    pub fn find(&self, query: &Query) -> QueryResult {
        let mut rows: Vec<DeliveryRow> = self.rows.values().rev().cloned().collect();
        match query {
            Query::OwnId(id, viewer) => {
                let QueryResult { mut rows, more } = self.find(&Query::Id(id.clone()));
                let is_own =
                    |row: &DeliveryRow| [row.message.sender, row.delivery.to].contains(viewer);
                if rows.iter().any(is_own) {
                    rows.retain(is_own);
                }
                QueryResult { rows, more }
            }
            Query::Id(id) => {
                let has_id = |row: &DeliveryRow| row.delivery.id.to_string() == *id;
                let of_send = |row: &DeliveryRow| *row.message.send_id == **id;
                let known = rows.iter().any(has_id);
                rows.retain(|row| if known { has_id(row) } else { of_send(row) });
                QueryResult { rows, more: false }
            }
            Query::List(filter) => {
                rows.retain(|row| is_wanted(filter, row));
                let more = rows.len() > filter.limit;
                rows.truncate(filter.limit);
                QueryResult { rows, more }
            }
        }
    }

    /// Returns the image that a daemon would start with.
    pub fn image(&self) -> Image {
        let open = || self.rows.iter().filter(|(_, row)| row.ended.is_none());
        let is_dead = |row: &DeliveryRow| matches!(row.ended, Some((Ending::Dead { .. }, _)));
        let dead_letter =
            |row: &DeliveryRow| DeadLetterRecord { id: row.delivery.id, to: row.delivery.to };
        let dead = self.rows.iter().filter(|(_, row)| is_dead(row));
        Image {
            clock: self.clock,
            agents: self.agents.clone(),
            sessions: self.sessions.clone(),
            streams: self.streams.clone(),
            messages: open().map(|(_, row)| (row.message.number, row.message.clone())).collect(),
            deliveries: open().map(|(number, row)| (*number, row.delivery.clone())).collect(),
            dedup: self.dedup.clone(),
            dead_letters: dead.map(|(number, row)| (*number, dead_letter(row))).collect(),
            notices: self.notices.clone(),
            questions: self.questions.clone(),
            last: self.last,
        }
    }
}

fn is_wanted(filter: &Filter, row: &DeliveryRow) -> bool {
    let shared = Shared::read(&row.message.shared).unwrap();
    let (from, to) = (&shared.from, &row.delivery.to_name);
    let numbers = [row.message.sender, row.delivery.to];
    let is_under = |(name, number): (&Name, Option<u64>)| {
        (name.matches(from) || to == name) && number.is_none_or(|number| numbers.contains(&number))
    };
    let concerns =
        |agent: &Option<NamedAgent>| agent.as_ref().is_none_or(|agent| agent.names().any(is_under));
    let is_dead = matches!(row.ended, Some((Ending::Dead { .. }, _)));
    filter.before.is_none_or(|before| row.delivery.number < before)
        && (is_dead || !filter.dead)
        && filter.viewer.is_none_or(|viewer| numbers.contains(&viewer))
        && concerns(&filter.of)
        && concerns(&filter.with)
        && (filter.topic.is_none() || filter.topic.as_deref() == shared.topic.as_deref())
        && filter.search.as_ref().is_none_or(|words| shared.payload.get().contains(words))
}
