//! A store that lost what it had is told everything anew.

use super::{AgentKey, MessageKey, Router, doubles::Standing, message::State};
use crate::record::{AcceptedSend, Change, DedupRecord, MessageRecord};
use std::collections::BTreeMap;

impl Router {
    /// Says what is known, every message that was accepted and is not over, and what its sender waits for.
    /// What is over is lost.
    pub(super) fn say_again(&mut self) {
        for agent in self.roster.keys() {
            self.keep_agent(agent);
            if self.roster[agent].session.is_some() {
                self.keep_session(agent);
            }
            self.keep_floor(agent);
        }
        for stream in self.streams.keys() {
            self.keep_stream_again(stream);
        }
        let mut messages: BTreeMap<u64, Vec<MessageKey>> = BTreeMap::new();
        for key in self.deliveries.values() {
            if let Some(kept) = self.messages[*key].kept()
                && kept.state != State::Storing
            {
                messages.entry(kept.message).or_default().push(*key);
            }
        }
        for (number, mut deliveries) in messages {
            deliveries.sort_unstable_by_key(|key| self.messages[*key].order);
            self.keep_taken_again(number, &deliveries);
        }
        self.say_answers_again();
        self.say_questions_again();
    }

    fn keep_taken_again(&mut self, number: u64, deliveries: &[MessageKey]) {
        let first = &self.messages[deliveries[0]];
        let Some(kept) = first.kept() else { return };
        let sender = self.streams[first.stream].from_number;
        let message = MessageRecord {
            number,
            sender,
            session: kept.speaker.session.clone(),
            proof: kept.speaker.proof,
            send_id: first.send_id.as_str().into(),
            to_everyone: kept.to_everyone,
            unix_ms: kept.unix_ms,
            shared: kept.shared.clone(),
        };
        let standing = self.roster.get(first.from).and_then(|it| it.doubles.standing(kept.content));
        let (recipients, remaining) = match standing {
            Some(Standing::Taken { recipients, .. }) => (*recipients, Vec::new()),
            Some(Standing::Partly { recipients, left, .. }) => {
                (Some(*recipients), self.numbers_of(left))
            }
            None => (kept.to_everyone.then_some(deliveries.len() as u64), Vec::new()),
        };
        let fingerprint = kept.content.fingerprint();
        let dedup = DedupRecord { message: number, sender, fingerprint, recipients, remaining };
        let deliveries = deliveries.iter().map(|key| self.delivery_record(*key, number)).collect();
        self.keep(Change::AcceptedAgain(Box::new(AcceptedSend { message, deliveries, dedup })));
    }

    /// Those of them that are known still.
    pub(super) fn numbers_of(&self, agents: &[AgentKey]) -> Vec<u64> {
        agents.iter().filter_map(|agent| Some(self.roster.get(*agent)?.number)).collect()
    }
}
