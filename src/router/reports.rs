//! What recipients report about deliveries.

use super::{
    AgentKey, Router,
    hash::FastMap,
    message::{Kept, Message, State},
};
use crate::protocol::relay::Reported;
use std::collections::VecDeque;
use uuid::Uuid;

/// Deliveries that are over and may still be reported about. Of more, the oldest are forgotten.
const REPORTS_MAX: usize = 1024;

/// The last reports about deliveries that are over. A wrapper acknowledges what it has typed, and
/// learns only then that its agent has it.
#[derive(Debug, Default)]
pub(super) struct Reports {
    by_id: FastMap<Uuid, (AgentKey, Option<Reported>)>,
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

    /// Adds a report to a delivery that is over. Only what leads on counts: such a delivery does
    /// not wait any more, and what was confirmed stays confirmed. Returns whether the delivery is
    /// known.
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

    /// The recipient of that delivery.
    pub(super) fn recipient(&self, id: Uuid) -> Option<AgentKey> {
        self.by_id.get(&id).map(|(to, _)| *to)
    }
}

/// What an agent's queue is made of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress<'a> {
    /// Messages that the agent has not been given.
    pub(super) waiting: u64,
    /// Deliveries that are neither waiting nor acknowledged.
    pub(super) in_flight: u64,
    /// The reason of the oldest delivery that waits with one.
    pub(super) why: Option<&'a Reported>,
}

impl Router {
    /// Whether the agent's connection reports how far deliveries are.
    pub(super) fn reports_on_deliveries(&self, agent: AgentKey) -> bool {
        let client = self.roster.get(agent).and_then(|agent| agent.client);
        let seat = client.and_then(|client| self.seat_of(client));
        seat.is_some_and(|seat| seat.capabilities.reports)
    }

    /// Takes a report of a delivery's recipient. Returns whether the delivery is known. A report
    /// about a delivery that its recipient does not have now comes too late, and changes nothing.
    pub(super) fn take_report(&mut self, id: Uuid, reported: Reported) -> bool {
        let Some(key) = self.deliveries.get(&id) else { return self.reports.add(id, reported) };
        if let Some(kept) = self.messages.get_mut(*key).and_then(Message::kept_mut)
            && matches!(kept.state, State::OnWay { .. })
        {
            kept.reported = Some(Box::new(reported));
        }
        true
    }

    /// How far a delivery is that its recipient has and has not acknowledged: its state, and for
    /// what it waits.
    pub(super) fn progress_of(
        &self,
        message: &Message,
        kept: &Kept,
    ) -> (&'static str, Option<&'static str>) {
        match kept.reported.as_deref() {
            Some(reported) if reported.is_confirmed() => ("confirmed", None),
            Some(reported) if !reported.is_waiting() => ("injected", None),
            None if !self.reports_on_deliveries(message.to) => ("delivered", None),
            _ => ("waiting", Some("agent")),
        }
    }

    /// Counts what is in an agent's queue.
    pub(super) fn progress(&self, agent: AgentKey) -> Progress<'_> {
        let agent = &self.roster[agent];
        let mut progress =
            Progress { waiting: agent.outbox.total().messages as u64, ..Progress::default() };
        if agent.outbox.in_flight == 0 {
            return progress;
        }
        let streams = agent.hears.iter().filter_map(|key| self.streams.get(*key));
        let mut oldest = u64::MAX;
        for key in streams.flat_map(|stream| stream.on_way.values()) {
            let message = &self.messages[*key];
            let Some(kept) = message.kept() else { continue };
            if self.progress_of(message, kept).1.is_none() {
                progress.in_flight += 1;
            } else if let Some(reported) = kept.reported.as_deref()
                && reported.why.is_some()
                && message.order < oldest
            {
                oldest = message.order;
                progress.why = Some(reported);
            }
        }
        progress.waiting -= progress.in_flight;
        progress
    }
}
