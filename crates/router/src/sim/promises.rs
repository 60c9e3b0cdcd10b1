//! The promises of the protocol, also over crashes: no message is lost or delivered twice, each
//! keeps its number and its time to live, and senders are notified correctly.

use super::{
    FAILURES_MAX,
    disk::Disk,
    limits,
    once::Once,
    outcomes::Outcomes,
    replay::Replay,
    sends::{Key, Sent, Stream, number_of},
};
use crate::{
    ClientId,
    oracle::{Checked, ensure},
};
use protocol::{
    Moment,
    code::NackCode,
    deliver::{self, Delivery},
    envelope::{Envelope, Kind},
    payload::{Ack, MessagePayload, Nack},
    record::{AcceptedSend, Change, Ending},
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// A delivery that was accepted.
#[derive(Debug)]
struct Accepted {
    id: Uuid,
    key: Key,
    expires: Moment,
}

#[derive(Debug, Default)]
pub(super) struct Promises {
    pub(super) sends: Vec<Sent>,
    /// The SEND of each sequence number of a stream.
    numbers: BTreeMap<Stream, BTreeMap<u64, usize>>,
    /// At-least-once deliveries that were handed to a connection.
    delivered: BTreeSet<Uuid>,
    /// Those that the daemon has to know of from an earlier one.
    delivered_earlier: BTreeSet<Uuid>,
    /// Deliveries that applications acknowledged, and deliveries that they refused.
    pub(super) acknowledged: BTreeSet<Uuid>,
    pub(super) given_up: BTreeSet<Uuid>,
    /// Deliveries that the daemon gave up after too many failures. A crash can undo that.
    pub(super) exhausted: BTreeSet<Uuid>,
    pub(super) outcomes: Outcomes,
    pub(super) once: Once,
    pub(super) replay: Replay,
    /// Upper bounds for the numbers of each delivery's failures.
    failures: BTreeMap<Uuid, u32>,
    /// Deliveries that each connection was handed. The loss of the connection counts as a failure
    /// of one of them.
    in_flight: BTreeMap<ClientId, BTreeSet<Uuid>>,
    /// Accepted deliveries, by number.
    accepted: BTreeMap<u64, Accepted>,
    agents: BTreeMap<u64, String>,
    streams: BTreeMap<u64, Stream>,
    /// The accepted SENDs of each sender.
    of_sender: BTreeMap<u64, BTreeSet<usize>>,
    /// Those of senders whose names were forgotten: if repeated, they are new ones.
    forgotten: BTreeSet<usize>,
    /// Names that were forgotten: the numbers of their streams begin again.
    forgotten_names: BTreeSet<String>,
}

impl Promises {
    /// Takes note of a frame that the router reads, from a member or another client.
    pub(super) fn reads(&mut self, from: Option<&str>, envelope: &Envelope<'_>, now: Moment) {
        match envelope.kind {
            Kind::Nack => {
                if let Ok(nack) = envelope.decode_member(envelope.payload) {
                    self.gives_back(&nack);
                }
            }
            Kind::Send => {
                let number = number_of(&envelope.id);
                let Some((number, sent)) =
                    number.and_then(|number| Some((number, self.sends.get_mut(number)?)))
                else {
                    return;
                };
                sent.read_at.get_or_insert(now);
                if let (Some(from), Some(to)) = (from, sent.to)
                    && !sent.requires_ack
                    && to != "*"
                {
                    self.once.sent((number, to.to_owned()), from);
                }
            }
            _ => {}
        }
    }

    /// Takes note of a notice to a sender. A failure that no crash undoes is on the disk.
    pub(super) fn notifies(&mut self, nack: &Nack, disk: &Disk) -> Checked {
        let ends = [NackCode::Expired, NackCode::Refused, NackCode::GaveUp];
        if ends.iter().any(|code| nack.code == code.as_str()) {
            self.check_told(&nack.ack_id, nack.to.as_deref(), disk)?;
        }
        if let Some(key) = self.once.refused(nack)
            && !self.sends[key.0].requires_ack
        {
            self.replay.ends(&key, true);
        }
        Ok(())
    }

    /// Checks that the end of a delivery, which its sender is told of, is on the disk.
    pub(super) fn check_told(&self, send_id: &str, to: Option<&str>, disk: &Disk) -> Checked {
        let key = number_of(send_id).zip(to.map(str::to_lowercase));
        let accepted = self.accepted.iter().filter(|(_, it)| Some(&it.key) == key.as_ref());
        let open: Vec<_> = accepted.filter(|(number, _)| disk.may_reopen(**number)).collect();
        ensure(open.is_empty(), || format!("the end is told before it is stored: {open:?}"))
    }

    /// Takes note of a delivery that the current input ends.
    pub(super) fn ended(&mut self, change: &Change) {
        if let Change::Ended { delivery, ending, .. } = change
            && let Some(accepted) = self.accepted.get(delivery)
        {
            self.replay.ends(&accepted.key, *ending != Ending::Acknowledged);
        }
    }

    /// Checks a change that the router emits.
    pub(super) fn changed(&mut self, change: &Change, now: Moment, ttl_ms: u64) -> Checked {
        self.outcomes.changed(change, &self.sends);
        match change {
            Change::Accepted(send) => return self.note_accepted(send, now, ttl_ms),
            Change::AgentForgotten(agent) => {
                self.forgotten.extend(self.of_sender.remove(agent).into_iter().flatten());
                self.forgotten_names.extend(self.agents.get(agent).cloned());
            }
            Change::Agent(agent) => {
                self.agents.insert(agent.number, agent.name.folded());
            }
            Change::Stream(stream) => {
                let name = |number| self.agents.get(number).cloned().unwrap_or_default();
                let topic = stream.topic.as_deref().map(str::to_owned);
                let names = (name(&stream.from), name(&stream.to), topic);
                self.streams.insert(stream.number, names);
            }
            Change::Ended { delivery, ending, .. } => {
                let Accepted { id, expires, key } = self
                    .accepted
                    .get(delivery)
                    .ok_or_else(|| format!("{delivery} ends and was not accepted"))?;
                let is_right = match ending {
                    Ending::Acknowledged => self.acknowledged.contains(id),
                    // The mail that an application sends itself does not hold its name.
                    Ending::Dead { code: NackCode::Expired, why } => {
                        *expires <= now
                            || why.contains("forgotten") && key.1 == self.sends[key.0].app
                    }
                    Ending::Dead { code: NackCode::Refused, .. } => self.given_up.contains(id),
                    Ending::Dead { code: NackCode::GaveUp, .. } => {
                        self.failures.get(id).is_some_and(|count| *count >= FAILURES_MAX)
                    }
                    Ending::Dead { .. } | Ending::Erased => false,
                };
                if matches!(ending, Ending::Dead { code: NackCode::GaveUp, .. }) {
                    self.exhausted.insert(*id);
                }
                return ensure(is_right, || format!("{id} is lost: {ending:?}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes note of an accepted SEND's deliveries, and checks that they have its time to live.
    fn note_accepted(&mut self, send: &AcceptedSend, now: Moment, ttl_ms: u64) -> Checked {
        let send_id = &*send.message.send_id;
        let number = number_of(send_id).filter(|number| *number < self.sends.len());
        let number = number.ok_or_else(|| format!("{send_id} is accepted and was not sent"))?;
        self.of_sender.entry(send.message.sender).or_default().insert(number);
        let end = now.plus(self.sends[number].ttl_ms.unwrap_or(ttl_ms));
        for delivery in &send.deliveries {
            let (id, expires) = (delivery.id, delivery.expires);
            ensure(expires == end, || format!("it does not expire at {end:?}: {delivery:?}"))?;
            let key = (number, delivery.to_name.folded());
            self.accepted.insert(delivery.number, Accepted { id, key, expires });
        }
        Ok(())
    }

    /// Takes note of a returned delivery, which counts as a failure.
    fn gives_back(&mut self, nack: &Nack) {
        if let (Ok(id), Some(_)) = (Uuid::parse_str(&nack.ack_id), nack.retry_after_ms) {
            *self.failures.entry(id).or_default() += 1;
            self.in_flight.values_mut().for_each(|ids| _ = ids.remove(&id));
        }
    }

    /// Takes note of the end of a connection.
    pub(super) fn ends(&mut self, client: ClientId) {
        self.replay.left(client);
        for id in self.in_flight.remove(&client).unwrap_or_default() {
            *self.failures.entry(id).or_default() += 1;
        }
    }

    /// Returns a delivery that one of the chosen connections was handed.
    pub(super) fn in_flight_at(&self, chosen: impl Fn(ClientId) -> bool) -> Option<Uuid> {
        let mut chosen = self.in_flight.iter().filter(|(client, _)| chosen(**client));
        chosen.find_map(|(_, ids)| ids.first().copied())
    }

    /// Whether a SEND may be accepted twice, since its sender's name was forgotten meanwhile.
    pub(super) fn may_double(&self, number: usize) -> bool {
        self.forgotten.contains(&number)
    }

    /// Whether the numbers of the streams between these names begin again at any time.
    pub(super) fn is_renumbered(&self, from: &str, to: &str) -> bool {
        [from, to].iter().any(|name| self.forgotten_names.contains(*name))
    }

    /// Checks that a SEND which the router acknowledges is on the disk for all its recipients.
    pub(super) fn check_ack(&self, ack: &Ack<'_>, disk: &Disk) -> Checked {
        let (stored, accepted) = (disk.recipients(&ack.ack_id), ack.recipients.unwrap_or(1));
        ensure(stored >= accepted, || format!("{} is accepted before it is stored", ack.ack_id))?;
        let may_double = number_of(&ack.ack_id).is_some_and(|number| self.may_double(number));
        ensure(stored <= accepted || may_double, || {
            format!("{} is stored for {stored} recipients, but accepted for {accepted}", ack.ack_id)
        })
    }

    /// Checks a DELIVER that the router hands out.
    pub(super) fn check_deliver(
        &mut self,
        client: ClientId,
        envelope: &Envelope<'_>,
        disk: &Disk,
        now: Moment,
    ) -> Checked {
        let delivery = deliver::read(envelope).map_err(|bad| bad.to_string())?;
        let folded = |name: Option<&str>| name.unwrap_or_default().to_lowercase();
        let message: MessagePayload<'_> =
            serde_json::from_str(envelope.payload).map_err(|bad| bad.to_string())?;
        let number = Sent::number(&message.body);
        let number = number.filter(|number| self.sends.get(*number).is_some());
        let number = number.ok_or_else(|| format!("nobody sent {:?}", message.body))?;
        let topic = envelope.topic.as_deref().map(str::to_owned);
        let stream = (folded(envelope.from.as_deref()), folded(envelope.to.as_deref()), topic);
        let sent = &self.sends[number];
        let is_meant = sent.to.is_none_or(|to| to == "*" || to == stream.1);
        ensure(sent.body == message.body && is_meant, || {
            format!("{number} arrives as {envelope:?}")
        })?;
        let ttl_ms = sent.ttl_ms.unwrap_or_else(|| limits().ttl_ms);
        let (requires_ack, read_at) = (sent.requires_ack, sent.read_at.unwrap_or_default());
        let stored = match requires_ack {
            true => Some(self.check_stored_delivery(number, envelope, &delivery, disk)?),
            false => None,
        };
        let expires = stored.map_or_else(|| read_at.plus(ttl_ms), |(_, expires)| expires);
        let past = ((number, stream.1.clone()), expires);
        let is_due = self.replay.delivered(client, &stream, delivery.seq, past, now)?;
        if let Some((id, _)) = stored {
            let is_new = self.in_flight.entry(client).or_default().insert(id);
            ensure(is_new || is_due, || format!("{number} comes twice on {client:?}"))?;
        }
        let is_renumbered = self.is_renumbered(&stream.0, &stream.1);
        let numbers = self.numbers.entry(stream).or_default();
        let other = *numbers.entry(delivery.seq).or_insert(number);
        ensure(other == number || is_renumbered, || {
            format!("{number} has the number of {other}: {envelope:?}")
        })
    }

    /// Checks a delivery against its record; returns its id and the end of its time to live.
    fn check_stored_delivery(
        &mut self,
        number: usize,
        envelope: &Envelope<'_>,
        delivery: &Delivery<'_>,
        disk: &Disk,
    ) -> Checked<(Uuid, Moment)> {
        let id = Uuid::parse_str(&envelope.id).map_err(|bad| bad.to_string())?;
        let (record, is_over) = disk
            .delivery(id)
            .ok_or_else(|| format!("{number} is delivered and not stored: {envelope:?}"))?;
        ensure(!is_over || !delivery.requires_ack, || {
            format!("{number} is delivered and over: {envelope:?}")
        })?;
        ensure(record.seq == delivery.seq, || format!("{number} has another number: {record:?}"))?;
        let is_again = !self.delivered.insert(id);
        ensure(!is_again || delivery.attempt > 1, || {
            format!("{number} comes again as if it came first: {envelope:?}")
        })?;
        Ok((id, record.expires))
    }

    /// Forgets the state that a crash may lose. Returns the streams that may reuse sequence
    /// numbers, because changes that were reported are lost.
    pub(super) fn crash(&mut self, lost: &[Change], disk: &Disk) -> Vec<Stream> {
        self.outcomes.crash(disk);
        self.once.crash();
        self.replay.crash();
        for Accepted { id, key, .. } in self.accepted.values() {
            if disk.delivery(*id).is_some_and(|(_, is_over)| !is_over) {
                self.replay.reopens(key);
            }
        }
        self.in_flight.clear();
        // A message goes out before its attempt is persisted, but after its recipient's arrival is.
        let Self { delivered, delivered_earlier, .. } = self;
        delivered.retain(|id| {
            delivered_earlier.contains(id)
                || disk
                    .delivery(*id)
                    .is_none_or(|(record, _)| record.attempts > 0 || disk.is_here(record.to))
        });
        delivered_earlier.clone_from(delivered);
        let mut streams = Vec::new();
        for change in lost {
            if let Change::Stream(record) = change
                && let Some(stream) = self.streams.get(&record.number)
            {
                self.numbers.remove(stream);
                streams.push(stream.clone());
            }
        }
        streams
    }
}
