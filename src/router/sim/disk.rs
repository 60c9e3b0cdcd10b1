//! A disk: changes reach it in order and are kept after a while, some at a time. It fills up, fails, and
//! loses in a crash what was not synced, or not all of that.

use crate::protocol::Now;
use crate::record::{Change, DeliveryRecord, Image, oracle::Oracle};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
};
use uuid::Uuid;

/// How it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Health {
    #[default]
    Works,
    /// No message finds room, all else does.
    Full,
    /// Nothing is written.
    Fails,
}

/// What it says of the changes up to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Kept(u64),
    Refused(u64),
}

#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) health: Health,
    pub(super) synced: Oracle,
    /// The same, had it not begun anew.
    former: Option<Oracle>,
    /// Open deliveries that are synced.
    pub(super) open: BTreeSet<u64>,
    /// Deliveries that ever were synced, by the numbers of their messages' SENDs.
    of_send: BTreeMap<Box<str>, BTreeSet<u64>>,
    by_id: BTreeMap<Uuid, u64>,
    /// Frames that ever were synced.
    answers: BTreeSet<Arc<[u8]>>,
    /// Through, but not on the disk.
    owed: Vec<Change>,
    /// What each input gave rise to, and when, while nothing is known of it.
    waiting: VecDeque<(Vec<Change>, Now)>,
    /// Changes that were said, of this daemon.
    said: u64,
    /// Changes that it has reported.
    through: u64,
}

impl Disk {
    /// One input's changes.
    pub(super) fn take(&mut self, changes: Vec<Change>, now: Now) {
        if !changes.is_empty() {
            self.said += changes.len() as u64;
            self.waiting.push_back((changes, now));
        }
    }

    /// All that was said is synced.
    pub(super) fn is_even(&self) -> bool {
        self.waiting.is_empty() && self.owed.is_empty()
    }

    pub(super) fn behind(&self) -> usize {
        self.waiting.len()
    }

    /// One transaction, of so many inputs.
    pub(super) fn commit(&mut self, inputs: usize) -> Option<Report> {
        let (group, now) = self.first(inputs)?;
        self.through += group.len() as u64;
        let is_message = |change: &Change| matches!(change, Change::Accepted(_));
        let (messages, others): (Vec<_>, Vec<_>) = match self.health {
            Health::Works => (Vec::new(), group),
            _ => group.into_iter().partition(is_message),
        };
        if self.health == Health::Fails {
            self.owed.extend(others);
            return Some(Report::Refused(self.through));
        }
        self.sync(others, now);
        let report = if messages.is_empty() { Report::Kept } else { Report::Refused };
        Some(report(self.through))
    }

    /// The changes of so many inputs, and when the last of these was.
    fn first(&mut self, inputs: usize) -> Option<(Vec<Change>, Now)> {
        let (mut group, mut last) = (Vec::new(), None);
        for (changes, now) in self.waiting.drain(..inputs.min(self.waiting.len())) {
            group.extend(changes);
            last = Some(now);
        }
        Some((group, last?))
    }

    fn sync(&mut self, changes: Vec<Change>, now: Now) {
        for change in mem::take(&mut self.owed).into_iter().chain(changes) {
            self.synced.apply(&change);
            if let Some(former) = &mut self.former {
                former.apply(&change);
            }
            match change {
                Change::Accepted(taken) | Change::AcceptedAgain(taken) => {
                    let of_send = self.of_send.entry(taken.message.send_id).or_default();
                    for delivery in taken.deliveries {
                        of_send.insert(delivery.number);
                        self.open.insert(delivery.number);
                        self.by_id.insert(delivery.id, delivery.number);
                    }
                }
                Change::Notice(answer) => {
                    self.answers.insert(answer.frame);
                }
                Change::Ended { delivery, .. } => {
                    self.open.remove(&delivery);
                }
                _ => {}
            }
        }
        self.synced.clock.0 = now;
    }

    /// It has lost everything, but for the numbers that its store knows.
    pub(super) fn begin_anew(&mut self) {
        let Oracle { clock, last, .. } = self.synced;
        let lost = mem::replace(&mut self.synced, Oracle { clock, last, ..Oracle::default() });
        self.former.get_or_insert(lost);
        self.open.clear();
    }

    pub(super) const fn is_anew(&self) -> bool {
        self.former.is_some()
    }

    /// The daemon is gone. Of what nothing was reported, so many inputs' changes had reached the disk.
    /// Gives back what was through and is lost.
    pub(super) fn crash(&mut self, inputs: usize) -> Vec<Change> {
        let inputs = if self.health == Health::Works { inputs } else { 0 };
        if let Some((reached, now)) = self.first(inputs) {
            self.sync(reached, now);
        }
        self.waiting.clear();
        (self.said, self.through) = (0, 0);
        mem::take(&mut self.owed)
    }

    pub(super) fn image(&self) -> Image {
        self.synced.image()
    }

    /// Whether a frame waited there for its sender at any time.
    pub(super) fn had_answer(&self, frame: &[u8]) -> bool {
        self.answers.contains(frame)
    }

    pub(super) fn delivery(&self, id: Uuid) -> Option<(&DeliveryRecord, bool)> {
        let row = self.former.as_ref().unwrap_or(&self.synced).rows.get(self.by_id.get(&id)?)?;
        Some((&row.delivery, row.ended.is_some()))
    }

    /// How many recipients of a SEND it has.
    pub(super) fn recipients(&self, send_id: &str) -> u64 {
        self.of_send.get(send_id).map_or(0, |numbers| numbers.len() as u64)
    }
}
