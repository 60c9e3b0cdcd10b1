//! Recording of the router's whole state, for a store that lost its records.

use super::{Router, keys::MessageKey, mail::SendState, notices, outcome::Notice};
use protocol::record::{AcceptedSend, Change, DedupRecord, DeliveryRecord};

impl Router {
    /// Records all agents, sessions, streams, accepted messages with open deliveries, notices and
    /// questions. Deliveries that have ended are lost.
    pub(super) fn record_all(&mut self) {
        for agent in self.directory.keys() {
            self.directory.record_agent(&mut self.ctx, agent);
            self.directory.record_session(&mut self.ctx, agent);
            self.mail.record_floor(&mut self.ctx, agent);
        }
        self.mail.record_streams_again(&mut self.ctx);
        for (number, deliveries) in self.mail.accepted() {
            if let Some(accepted) = self.accepted_record(number, &deliveries) {
                self.ctx.record(Change::AcceptedAgain(Box::new(accepted)));
            }
        }
        let mut notices = self.recorded_notices();
        notices.sort_unstable_by_key(|(_, notice)| notice.number);
        for (agent, Notice { frame, number }) in notices {
            // A forgotten agent does not return, so its notices are not needed.
            if let (Some(agent), Some(number)) = (self.directory.get(agent), number) {
                notices::record(&mut self.ctx, number, agent.number, &frame);
            }
        }
        let Self { questions, ctx, directory, .. } = self;
        questions.record_again(ctx, |agent| directory.get(agent).map(|agent| agent.number));
    }

    fn accepted_record(&self, number: u64, deliveries: &[MessageKey]) -> Option<AcceptedSend> {
        let key = *deliveries.first()?;
        let (message, record) = (self.mail.message(key)?, self.mail.message_record(key)?);
        let reliable = message.reliable()?;
        let (recipients, left) = match self.mail.send_state(message.sent.from, reliable.digest) {
            Some(SendState::Complete { recipients, .. }) => (*recipients, Vec::new()),
            Some(SendState::Partial { recipients, left, .. }) => {
                (Some(*recipients), self.directory.numbers_of(left))
            }
            None => (message.sent.to_everyone.then_some(deliveries.len() as u64), Vec::new()),
        };
        let (sender, fingerprint) = (record.sender, reliable.digest.fingerprint());
        let remaining = left;
        let dedup = DedupRecord { message: number, sender, fingerprint, recipients, remaining };
        let deliveries = deliveries.iter().filter_map(|key| self.delivery_record(*key)).collect();
        Some(AcceptedSend { message: record, deliveries, dedup })
    }

    /// Returns the record of an at-least-once delivery.
    pub(super) fn delivery_record(&self, key: MessageKey) -> Option<DeliveryRecord> {
        let to = self.mail.message(key)?.to;
        self.mail.delivery_record(key, self.directory.name(to)?)
    }
}
