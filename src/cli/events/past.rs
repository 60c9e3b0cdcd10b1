//! The past events, from the history of messages.

use super::event::{Event, Filter};
use crate::cli::{failure::Failure, messages::each_row, print::counted};
use client::Client;
use protocol::relay::{ChangeKind, HistoryRequest, Page, RequestName};
use std::cmp::Reverse;

/// The most messages of the history that are looked through. A message that was accepted before
/// the wanted time may have ended after it.
const ROWS_MAX: u64 = 200_000;

/// Past events, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) events: Vec<Event>,
    /// A sentence about the events that are left out.
    pub(super) left_out: Option<String>,
}

impl Past {
    /// Reads the newest `limit` events since a time.
    pub(super) fn read(
        client: &Client,
        filter: &Filter,
        since: u64,
        limit: usize,
    ) -> Result<Self, Failure> {
        let mut past = Self::default();
        if matches!(filter.kind, Some(ChangeKind::Agent | ChangeKind::Lost)) {
            return Ok(past);
        }
        let request = |page: Page| HistoryRequest {
            with: filter.any_name().map(ToOwned::to_owned),
            topic: filter.topic.clone(),
            cursor: page.cursor,
            limit: page.limit,
            ..HistoryRequest::default()
        };
        let mut rows = 0;
        each_row(client, RequestName::History, usize::MAX, request, |_, row| {
            let events = Event::of_row(row).into_iter().flatten();
            let wanted = events.filter(|event| event.time >= since && filter.includes(event));
            past.events.extend(wanted);
            if past.events.len() >= limit.saturating_mul(2) {
                past.cut(limit);
            }
            rows += 1;
            if rows == ROWS_MAX {
                past.left_out = Some(format!("only the newest {ROWS_MAX} messages are known here"));
            }
            Ok(rows < ROWS_MAX)
        })?;
        past.cut(limit);
        past.events.reverse();
        past.events.sort_by_key(|event| event.time);
        Ok(past)
    }

    /// Keeps the newest events. Those of equal times stay in their order.
    fn cut(&mut self, limit: usize) {
        if self.events.len() > limit {
            self.events.sort_by_key(|event| Reverse(event.time));
            self.events.truncate(limit);
            let shown = counted(limit as u64, "event");
            self.left_out = Some(format!("only the newest {shown} of the history can be shown"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_events_are_kept() {
        let event = |time| Event { time, ..Event::default() };
        let mut past = Past { events: vec![event(3), event(1), event(2)], left_out: None };
        past.cut(3);
        assert_eq!((past.events.len(), past.left_out.is_some()), (3, false));
        past.cut(2);
        let times: Vec<_> = past.events.iter().map(|event| event.time).collect();
        assert_eq!(times, [3, 2]);
        assert!(past.left_out.unwrap().contains("the newest 2 events"));
    }
}
