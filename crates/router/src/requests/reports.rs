//! Recipients' reports on ended deliveries.

use crate::{accounts::Holders, keys::AgentKey};
use protocol::relay::Reported;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use uuid::Uuid;

/// The most ended deliveries that accept reports. The oldest of the recipient with most are
/// forgotten.
const REPORTS_MAX: usize = 1024;

/// The latest reports on ended deliveries. A wrapper acknowledges a message when it has typed it,
/// and learns only later that its agent has read it.
#[derive(Debug, Default)]
pub(super) struct Reports {
    by_id: FxHashMap<Uuid, (AgentKey, Option<Reported>)>,
    /// The deliveries of each recipient, the oldest first, and how many it is listed with.
    by_recipient: FxHashMap<AgentKey, (VecDeque<Uuid>, usize)>,
    holders: Holders<AgentKey>,
}

impl Reports {
    /// Remembers a delivery that has just ended.
    pub(super) fn close(&mut self, id: Uuid, to: AgentKey, reported: Option<Reported>) {
        if self.by_id.insert(id, (to, reported)).is_some() {
            return;
        }
        let (own, held) = self.by_recipient.entry(to).or_default();
        own.push_back(id);
        self.holders.hold(to, held, own.len());
        if self.by_id.len() > REPORTS_MAX
            && let Some((_, largest)) = self.holders.largest()
        {
            self.forget_oldest_of(largest);
        }
    }

    fn forget_oldest_of(&mut self, recipient: AgentKey) {
        let Some((own, held)) = self.by_recipient.get_mut(&recipient) else { return };
        if let Some(oldest) = own.pop_front() {
            self.by_id.remove(&oldest);
        }
        self.holders.hold(recipient, held, own.len());
        if own.is_empty() {
            self.by_recipient.remove(&recipient);
        }
    }

    /// Adds a report to an ended delivery. Ignores reports that the delivery waits, and all reports
    /// after its confirmation. Returns whether the delivery is known.
    pub(super) fn add(&mut self, id: Uuid, reported: Reported) -> bool {
        let Some((_, last)) = self.by_id.get_mut(&id) else { return false };
        let is_confirmed = last.as_ref().is_some_and(Reported::is_confirmed);
        if !reported.is_waiting() && !is_confirmed {
            *last = Some(reported);
        }
        true
    }

    pub(super) fn get(&self, id: Uuid) -> Option<&Reported> {
        self.by_id.get(&id)?.1.as_ref()
    }

    /// Returns the recipient of a delivery.
    pub(super) fn recipient(&self, id: Uuid) -> Option<AgentKey> {
        self.by_id.get(&id).map(|(to, _)| *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::AgentSlot;
    use slotmap::SlotMap;

    #[test]
    fn recipient_with_most_loses_its_oldest() {
        let mut slots = SlotMap::<AgentSlot, ()>::default();
        let [flooder, other] = [(); 2].map(|()| AgentKey(slots.insert(())));
        let mut reports = Reports::default();
        let id = |number: usize| Uuid::from_u128(number as u128);
        reports.close(id(0), other, None);
        for number in 1..2 * REPORTS_MAX {
            reports.close(id(number), flooder, None);
        }
        assert_eq!(reports.recipient(id(0)), Some(other));
        assert_eq!(reports.recipient(id(REPORTS_MAX)), None);
        assert_eq!(reports.recipient(id(REPORTS_MAX + 1)), Some(flooder));
        assert_eq!(reports.by_id.len(), REPORTS_MAX);
    }
}
