//! Recipients' reports on ended deliveries.

use crate::keys::AgentKey;
use protocol::relay::Reported;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use uuid::Uuid;

/// The most ended deliveries that accept reports; the oldest are forgotten.
const REPORTS_MAX: usize = 1024;

/// The latest reports on ended deliveries. A wrapper acknowledges a message when it has typed it,
/// and learns only later that its agent has read it.
#[derive(Debug, Default)]
pub(super) struct Reports {
    by_id: FxHashMap<Uuid, (AgentKey, Option<Reported>)>,
    by_age: VecDeque<Uuid>,
}

impl Reports {
    /// Remembers a delivery that has just ended.
    pub(super) fn close(&mut self, id: Uuid, to: AgentKey, reported: Option<Reported>) {
        if self.by_id.insert(id, (to, reported)).is_none() {
            self.by_age.push_back(id);
        }
        if self.by_age.len() > REPORTS_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.by_id.remove(&oldest);
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
