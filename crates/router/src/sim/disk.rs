//! A simulated disk. It persists changes in order and with a delay, those of several inputs at a
//! time. It may fill up and fail, and a crash loses some or all changes that are not synced.

use crate::{Input, oracle::Testbed};
use protocol::{
    Now,
    record::{Change, DeliveryRecord, Image},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
};
use testkit::records::Oracle;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Health {
    #[default]
    Works,
    /// Messages find no space.
    Full,
    /// Every write fails.
    Fails,
}

#[derive(Debug, Default)]
pub(super) struct Disk {
    health: Health,
    pub(super) synced: Oracle,
    /// The records from before the disk lost them, with all changes since.
    former: Option<Oracle>,
    /// Open deliveries that are synced.
    pub(super) open: BTreeSet<u64>,
    /// Deliveries that were ever synced, by their SENDs' ids.
    of_send: BTreeMap<Box<str>, BTreeSet<u64>>,
    by_id: BTreeMap<Uuid, u64>,
    /// Frames of notices that were ever synced.
    notices: BTreeSet<Arc<[u8]>>,
    /// Changes that were reported as persisted and are not synced.
    owed: Vec<Change>,
    /// Whether the disk failed when it was to write some of them.
    owes_by_failure: bool,
    /// For each input whose changes are not reported yet, the number of its changes and its time.
    inputs: VecDeque<(usize, Now)>,
}

impl Disk {
    /// Notes how many changes an input caused.
    pub(super) fn take(&mut self, changes: usize, now: Now) {
        if changes > 0 {
            self.inputs.push_back((changes, now));
        }
    }

    pub(super) fn fails(&self) -> bool {
        self.health == Health::Fails
    }

    pub(super) fn set_health(&mut self, health: usize) {
        self.health = [Health::Works, Health::Full, Health::Fails][health];
    }

    /// Whether all changes are synced.
    pub(super) fn is_even(&self) -> bool {
        self.inputs.is_empty() && self.owed.is_empty()
    }

    pub(super) fn unwritten_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Commits the changes of the next `inputs` inputs, in one transaction.
    pub(super) fn commit(&mut self, bed: &mut Testbed, inputs: usize) -> Option<Input<'static>> {
        let (count, now) = self.first(inputs)?;
        let is_message = |change: &Change| matches!(change, Change::Accepted(_));
        let has_space = match self.health {
            Health::Works => true,
            Health::Full => !bed.pending.iter().take(count).any(is_message),
            Health::Fails => false,
        };
        let (changes, report) = bed.commit(count, has_space);
        // The end of an acknowledged delivery is synced with the next other change.
        if self.fails() || changes.iter().all(Change::may_wait_for_sync) {
            self.owed.extend(changes);
            self.owes_by_failure |= self.fails();
        } else {
            self.sync(changes, now);
        }
        Some(report)
    }

    /// Returns the number of changes of the next `inputs` inputs, and the time of the last one.
    fn first(&mut self, inputs: usize) -> Option<(usize, Now)> {
        let first = self.inputs.drain(..inputs.min(self.inputs.len()));
        first.reduce(|(sum, _), (changes, now)| (sum + changes, now))
    }

    fn sync(&mut self, changes: Vec<Change>, now: Now) {
        for change in mem::take(&mut self.owed).into_iter().chain(changes) {
            self.synced.apply(&change);
            if let Some(former) = &mut self.former {
                former.apply(&change);
            }
            match change {
                Change::Accepted(send) | Change::AcceptedAgain(send) => {
                    let of_send = self.of_send.entry(send.message.send_id).or_default();
                    for delivery in send.deliveries {
                        of_send.insert(delivery.number);
                        self.open.insert(delivery.number);
                        self.by_id.insert(delivery.id, delivery.number);
                    }
                }
                Change::Notice(notice) => {
                    self.notices.insert(notice.frame);
                }
                Change::Ended { delivery, .. } => {
                    self.open.remove(&delivery);
                }
                _ => {}
            }
        }
        self.owes_by_failure = false;
        self.synced.clock.0 = now;
    }

    /// Syncs what was put off.
    pub(super) fn sync_rest(&mut self) {
        if !self.fails() {
            self.sync(Vec::new(), self.synced.clock.0);
        }
    }

    /// Loses all records; only the last numbers survive.
    pub(super) fn begin_anew(&mut self) {
        let Oracle { clock, last, .. } = self.synced;
        let lost = mem::replace(&mut self.synced, Oracle { clock, last, ..Oracle::default() });
        self.former.get_or_insert(lost);
        self.open.clear();
    }

    pub(super) const fn is_anew(&self) -> bool {
        self.former.is_some()
    }

    /// Crashes the daemon. Of the changes that are not reported, those of the first `inputs` inputs
    /// had reached the disk. Returns changes that were reported and are lost.
    pub(super) fn crash(&mut self, bed: &mut Testbed, inputs: usize) -> Vec<Change> {
        let inputs = if self.health == Health::Works { inputs } else { 0 };
        if let Some((count, now)) = self.first(inputs) {
            let (changes, _) = bed.commit(count, true);
            self.sync(changes, now);
        }
        self.inputs.clear();
        self.owes_by_failure = false;
        mem::take(&mut self.owed)
    }

    pub(super) fn image(&self) -> Image {
        self.synced.image()
    }

    /// Whether a crash could open again what ended, although the disk works.
    pub(super) fn may_reopen(&self, delivery: u64) -> bool {
        self.open.contains(&delivery) && !self.owes_by_failure
    }

    /// Whether the disk ever had a notice with this frame.
    pub(super) fn had_notice(&self, frame: &[u8]) -> bool {
        self.notices.contains(frame)
    }

    pub(super) fn delivery(&self, id: Uuid) -> Option<(&DeliveryRecord, bool)> {
        let row = self.former.as_ref().unwrap_or(&self.synced).rows.get(self.by_id.get(&id)?)?;
        Some((&row.delivery, row.ended.is_some()))
    }

    /// Whether an agent was connected, as far as is synced.
    pub(super) fn is_here(&self, agent: u64) -> bool {
        self.synced.agents.get(&agent).is_some_and(|agent| agent.forget_at.is_none())
    }

    /// Returns how many recipients of a SEND have a delivery that was ever synced.
    pub(super) fn recipients(&self, send_id: &str) -> u64 {
        self.of_send.get(send_id).map_or(0, |numbers| numbers.len() as u64)
    }
}
