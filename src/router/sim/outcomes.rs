//! What senders are to hear of what was taken: that a delivery failed, and what became of a question. Each
//! sender hears it, over all lives of the daemon, as long as it goes on with its session.

use super::{Checked, disk::Disk, promises::Sent};
use crate::{
    client::{Event, SendId},
    protocol::{
        code::NackCode,
        envelope::{Envelope, Kind},
        payload::{Ack, Nack},
    },
    record::{Change, Ending},
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A SEND by its number, and to whom.
type Key = (usize, String);

#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// Deliveries by their numbers.
    taken: BTreeMap<u64, (Key, Uuid)>,
    /// Deliveries that failed, and those that are to be answered.
    failed: BTreeMap<Key, Uuid>,
    asked: BTreeMap<Key, Uuid>,
    /// The last session of each name, and its first SEND that counts.
    sessions: BTreeMap<String, (String, usize)>,
}

impl Outcomes {
    /// The daemon wants something to be kept.
    pub(super) fn said(&mut self, change: &Change, sends: &[Sent]) {
        match change {
            Change::Accepted(taken) => {
                let Some(number) = number_of(&taken.message.send_id) else { return };
                for delivery in &taken.deliveries {
                    let key = (number, delivery.to_name.folded());
                    if sends[number].timeout_ms.is_some() {
                        self.asked.insert(key.clone(), delivery.id);
                    }
                    self.taken.insert(delivery.number, (key, delivery.id));
                }
            }
            Change::Ended { delivery, ending: Ending::Dead { .. }, .. } => {
                if let Some((key, id)) = self.taken.get(delivery) {
                    self.failed.insert(key.clone(), *id);
                }
            }
            _ => {}
        }
    }

    /// Somebody is here. What was said before in another session is nothing that it hears of.
    pub(super) fn welcomes(&mut self, name: &str, session: &str, sends: &[Sent]) {
        let is_known = self.sessions.get(name).is_some_and(|(known, _)| known == session);
        if !is_known {
            self.sessions.insert(name.to_owned(), (session.to_owned(), sends.len()));
        }
    }

    /// So much waited that the oldest was dropped.
    pub(super) fn drops(&mut self, name: &str, sends: &[Sent]) {
        if let Some((_, first)) = self.sessions.get_mut(name) {
            *first = sends.len();
        }
    }

    /// An application hears something.
    pub(super) fn heard(&mut self, event: &Event) {
        match event {
            Event::Answered { send_id: SendId(id), answer } => self.answered(id, &answer.from),
            Event::Refused { send_id: SendId(id), nack } => self.refused(id, nack),
            _ => {}
        }
    }

    /// A frame was lost with a connection of the daemon's that died, or reached nobody. Who is here when
    /// the daemon dies may never hear what it was handed.
    pub(super) fn loses(&mut self, frame: &[u8]) {
        let Ok(envelope) = Envelope::read(&frame[4..]) else { return };
        match envelope.kind {
            Kind::Ack => {
                if let Ok(Ack { ack_id, correlation_id: Some(_), .. }) =
                    envelope.typed(envelope.payload)
                {
                    self.answered(&ack_id, envelope.from.as_deref().unwrap_or_default());
                }
            }
            Kind::Nack => {
                if let Ok(nack) = envelope.typed::<Nack>(envelope.payload) {
                    self.refused(&nack.ack_id, &nack);
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, send_id: &str, from: &str) {
        if let Some(number) = number_of(send_id) {
            self.asked.remove(&(number, from.to_lowercase()));
        }
    }

    fn refused(&mut self, send_id: &str, nack: &Nack) {
        let (Some(number), Some(to)) = (number_of(send_id), &nack.to) else { return };
        let key = (number, to.to_lowercase());
        self.asked.remove(&key);
        if NackCode::parse(&nack.code) != Some(NackCode::SyncTimeout) {
            self.failed.remove(&key);
        }
    }

    /// The daemon died: what it had not kept has not happened.
    pub(super) fn crash(&mut self, disk: &Disk) {
        self.asked.retain(|_, id| disk.delivery(*id).is_some());
        self.failed.retain(|_, id| disk.delivery(*id).is_some_and(|(_, is_over)| is_over));
    }

    /// Everybody is here, and nothing is to come.
    pub(super) fn nothing_is_due(&self, sends: &[Sent], disk: &Disk) -> Checked {
        let all = self.failed.iter().chain(&self.asked);
        let mut due = all.filter(|((number, _), id)| {
            let first = sends[*number].by.and_then(|by| self.sessions.get(by));
            first.is_some_and(|(_, first)| number >= first) && disk.delivery(**id).is_some()
        });
        match due.next() {
            None => Ok(()),
            Some(((number, to), id)) => {
                let by = sends[*number].by;
                Err(format!("{by:?} was never told what became of {number} to {to} ({id})"))
            }
        }
    }
}

fn number_of(send_id: &str) -> Option<usize> {
    send_id.strip_prefix('s')?.parse().ok()
}
