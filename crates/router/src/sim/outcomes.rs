//! Outcomes: senders are notified of failed deliveries and of the ends of their questions, also
//! after crashes, as long as their session lasts.

use super::{
    disk::Disk,
    sends::{Key, Sent, number_of},
};
use crate::oracle::{Checked, ensure};
use client::{Event, SendId};
use protocol::{
    code::NackCode,
    envelope::{Envelope, Kind},
    payload::{Ack, Nack},
    record::{Change, Ending},
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// A delivery whose sender is to be notified, in the session that sent it.
#[derive(Clone, Debug)]
struct Due {
    id: Uuid,
    by: &'static str,
    session: String,
}

#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// Accepted deliveries, by number.
    accepted: BTreeMap<u64, (Key, Due)>,
    /// Deliveries that failed.
    failed: BTreeMap<Key, Due>,
    /// Deliveries whose sender must get an answer.
    asked: BTreeMap<Key, Due>,
    /// Questions, by their deliveries' ids, whose answers were handed to the store.
    kept_answers: BTreeSet<Uuid>,
    /// The last session of each name.
    sessions: BTreeMap<String, String>,
}

impl Outcomes {
    /// Takes note of a change that the router emits.
    pub(super) fn changed(&mut self, change: &Change, sends: &[Sent]) {
        match change {
            Change::Accepted(send) => {
                let Some(number) = number_of(&send.message.send_id) else { return };
                let Some(by) = sends[number].by else { return };
                let session = self.sessions.get(by).cloned().unwrap_or_default();
                for delivery in &send.deliveries {
                    let key = (number, delivery.to_name.folded());
                    let due = Due { id: delivery.id, by, session: session.clone() };
                    if sends[number].timeout_ms.is_some() {
                        self.asked.insert(key.clone(), due.clone());
                    }
                    self.accepted.insert(delivery.number, (key, due));
                }
            }
            Change::Answer(answer) => {
                let question = answer.message.send_id.strip_prefix("answer-");
                self.kept_answers.extend(question.and_then(|id| Uuid::try_parse(id).ok()));
            }
            Change::Ended { delivery, ending: Ending::Dead { .. }, .. } => {
                if let Some((key, due)) = self.accepted.get(delivery) {
                    self.failed.insert(key.clone(), due.clone());
                }
            }
            _ => {}
        }
    }

    /// Takes note of the session that a member has now. The notices of an earlier session ended
    /// with it, also if a crash revives that session.
    pub(super) fn welcomes(&mut self, name: String, session: String) {
        let is_current = |_: &Key, due: &mut Due| due.by != name || due.session == session;
        self.failed.retain(is_current);
        self.asked.retain(is_current);
        self.sessions.insert(name, session);
    }

    /// Forgets what is due to a sender whose notices exceeded their bound.
    pub(super) fn drops(&mut self, name: &str) {
        self.failed.retain(|_, due| due.by != name);
        self.asked.retain(|_, due| due.by != name);
    }

    /// Takes note of an event that an application gets. Checks that the store got each answer, too.
    pub(super) fn notified(&mut self, event: &Event) -> Checked {
        match event {
            Event::Answered { send_id: SendId(id), answer, .. } => {
                let question = self.answered(id, &answer.from).map(|due| due.id);
                let is_kept = question.is_none_or(|id| self.kept_answers.contains(&id));
                return ensure(is_kept, || format!("the answer to {id} was not kept"));
            }
            Event::Refused { send_id: SendId(id), nack } => self.refused(id, nack),
            _ => {}
        }
        Ok(())
    }

    /// Takes note of a frame that is lost with its connection: a notice in the frame may never
    /// arrive.
    pub(super) fn loses(&mut self, frame: &[u8]) {
        let Ok(envelope) = Envelope::read(&frame[4..]) else { return };
        match envelope.kind {
            Kind::Ack => {
                if let Ok(Ack { ack_id, correlation_id: Some(_), .. }) =
                    envelope.decode_member(envelope.payload)
                {
                    self.answered(&ack_id, envelope.from.as_deref().unwrap_or_default());
                }
            }
            Kind::Nack => {
                if let Ok(nack) = envelope.decode_member::<Nack>(envelope.payload) {
                    self.refused(&nack.ack_id, &nack);
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, send_id: &str, from: &str) -> Option<Due> {
        self.asked.remove(&(number_of(send_id)?, from.to_lowercase()))
    }

    fn refused(&mut self, send_id: &str, nack: &Nack) {
        let (Some(number), Some(to)) = (number_of(send_id), &nack.to) else { return };
        let key = (number, to.to_lowercase());
        self.asked.remove(&key);
        if NackCode::parse(&nack.code) != Some(NackCode::SyncTimeout) {
            self.failed.remove(&key);
        }
    }

    /// Forgets all outcomes that are not on the disk, after a crash.
    pub(super) fn crash(&mut self, disk: &Disk) {
        self.asked.retain(|_, due| disk.delivery(due.id).is_some());
        self.failed.retain(|_, due| disk.delivery(due.id).is_some_and(|(_, is_over)| is_over));
    }

    /// Checks at the end that every sender was notified of its failures and got its answers.
    pub(super) fn every_sender_was_notified(&self, disk: &Disk) -> Checked {
        let mut all = self.failed.iter().chain(&self.asked);
        let late = all.find(|(_, due)| {
            self.sessions.get(due.by) == Some(&due.session) && disk.delivery(due.id).is_some()
        });
        match late {
            None => Ok(()),
            Some((key, due)) => Err(format!("a sender was never notified about {key:?}: {due:?}")),
        }
    }
}
