//! Counts of recipients' last reports on the deliveries in flight to one agent.

use crate::{
    context::Context,
    keys::{AgentKey, MessageKey},
};
use protocol::relay::Reported;
use std::collections::BTreeMap;

/// The memory that a report takes besides its reason: itself, and its places in the tables.
const REPORT_BYTES: usize = 256;

/// The reports on an agent's deliveries in flight.
#[derive(Debug, Default)]
pub(crate) struct ReportCounts {
    /// The number of deliveries that the recipient has passed on.
    passed_on: u64,
    /// The number of deliveries that wait at the recipient.
    waiting: u64,
    /// The deliveries among these for which a reason is stated, by their order.
    reasons: BTreeMap<u64, MessageKey>,
}

impl ReportCounts {
    /// Counts the last report on a delivery that is in flight, and charges the recipient `to` for
    /// it.
    pub(super) fn add(
        &mut self,
        ctx: &mut Context,
        to: AgentKey,
        (order, key): (u64, MessageKey),
        reported: Option<&Reported>,
    ) {
        let Some(reported) = reported else { return };
        ctx.charge_memory(to, bytes_of_report(reported));
        if !reported.is_waiting() {
            self.passed_on += 1;
            return;
        }
        self.waiting += 1;
        if reported.why.is_some() {
            self.reasons.insert(order, key);
        }
    }

    /// Undoes [`add`](Self::add).
    pub(super) fn remove(
        &mut self,
        ctx: &mut Context,
        to: AgentKey,
        order: u64,
        reported: Option<&Reported>,
    ) {
        let Some(reported) = reported else { return };
        ctx.release_memory(to, bytes_of_report(reported));
        if !reported.is_waiting() {
            self.passed_on -= 1;
            return;
        }
        self.waiting -= 1;
        self.reasons.remove(&order);
    }

    /// Returns how many of `in_flight` deliveries do not wait at the recipient. `reports` tells
    /// whether the recipient reports; then a delivery without a report waits, too.
    pub(super) const fn not_waiting(&self, in_flight: u64, reports: bool) -> u64 {
        if reports { self.passed_on } else { in_flight - self.waiting }
    }

    /// Returns the oldest delivery that waits at the recipient for a stated reason.
    pub(super) fn oldest_reason(&self) -> Option<MessageKey> {
        self.reasons.first_key_value().map(|(_, key)| *key)
    }
}

/// The bytes that a report counts in the memory.
pub(crate) fn bytes_of_report(reported: &Reported) -> usize {
    REPORT_BYTES + reported.why.as_deref().map_or(0, str::len)
}
