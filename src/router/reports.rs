//! What recipients said last about deliveries that are over.

use super::{AgentKey, hash::FastMap};
use crate::protocol::relay::Reported;
use std::collections::VecDeque;
use uuid::Uuid;

/// Of more, the oldest are forgotten.
const REPORTS_MAX: usize = 1024;

/// The last ones: a wrapper acknowledges what it has typed, and hears only then that its agent has it.
#[derive(Debug, Default)]
pub(super) struct Reports {
    by_id: FastMap<Uuid, (AgentKey, Reported)>,
    by_age: VecDeque<Uuid>,
}

impl Reports {
    pub(super) fn keep(&mut self, id: Uuid, to: AgentKey, reported: Reported) {
        if self.by_id.insert(id, (to, reported)).is_none() {
            self.by_age.push_back(id);
        }
        if self.by_age.len() > REPORTS_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }

    pub(super) fn get(&self, id: Uuid) -> Option<&Reported> {
        self.by_id.get(&id).map(|(_, reported)| reported)
    }

    /// Whose delivery it was.
    pub(super) fn recipient(&self, id: Uuid) -> Option<AgentKey> {
        self.by_id.get(&id).map(|(to, _)| *to)
    }
}
