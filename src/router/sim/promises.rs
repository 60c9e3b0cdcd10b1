//! What was promised, and what came of it, over all lives of the daemon.

use super::{Checked, FAILURES_MAX, disk::Disk, outcomes::Outcomes};
use crate::{
    protocol::{
        Moment,
        code::NackCode,
        deliver::{self, Delivery},
        envelope::Envelope,
        payload::{Ack, MessagePayload, Nack},
    },
    record::{AcceptedSend, Change, Ending},
    router::ClientId,
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// From, to, topic.
pub(super) type Stream = (String, String, Option<String>);

/// A SEND, by its number in this world.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// Who says it first, unless that is a guest.
    pub(super) by: Option<&'static str>,
    pub(super) to: Option<&'static str>,
    pub(super) topic: Option<&'static str>,
    pub(super) requires_ack: bool,
    /// It asks.
    pub(super) timeout_ms: Option<u64>,
    pub(super) ttl_ms: Option<u64>,
    pub(super) body: String,
}

impl Sent {
    /// The number in a body.
    pub(super) fn number(body: &str) -> Option<usize> {
        body.split(' ').next()?.parse().ok()
    }
}

#[derive(Debug, Default)]
pub(super) struct Promises {
    pub(super) sends: Vec<Sent>,
    /// Which SEND each number of a stream stands for.
    numbers: BTreeMap<Stream, BTreeMap<u64, usize>>,
    /// What was handed out, of at-least-once messages.
    handed: BTreeSet<Uuid>,
    /// What the applications said of what they heard.
    pub(super) acknowledged: BTreeSet<Uuid>,
    pub(super) given_up: BTreeSet<Uuid>,
    pub(super) outcomes: Outcomes,
    /// How often deliveries failed, at the most.
    failures: BTreeMap<Uuid, u32>,
    /// What each connection was handed: of all that, the loss of it counts against one.
    on_way: BTreeMap<ClientId, BTreeSet<Uuid>>,
    /// Deliveries that were taken, the last with each number.
    taken: BTreeMap<u64, (Uuid, Moment)>,
    agents: BTreeMap<u64, String>,
    streams: BTreeMap<u64, Stream>,
}

impl Promises {
    /// The daemon wants something to be kept: is that what happened?
    pub(super) fn said(&mut self, change: &Change, now: Moment, ttl_ms: u64) -> Checked {
        self.outcomes.said(change, &self.sends);
        match change {
            Change::Accepted(taken) => return self.takes(taken, now, ttl_ms),
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
                let (id, expires) =
                    self.taken.get(delivery).ok_or_else(|| format!("{delivery} ends untaken"))?;
                let is_right = match ending {
                    Ending::Acknowledged => self.acknowledged.contains(id),
                    Ending::Dead { code: NackCode::Expired, .. } => *expires <= now,
                    Ending::Dead { code: NackCode::Refused, .. } => self.given_up.contains(id),
                    Ending::Dead { code: NackCode::GaveUp, .. } => {
                        self.failures.get(id).is_some_and(|count| *count >= FAILURES_MAX)
                    }
                    Ending::Dead { .. } => false,
                };
                return ensure(is_right, || format!("{id} is lost: {ending:?}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Each delivery has all the time that its SEND says.
    fn takes(&mut self, taken: &AcceptedSend, now: Moment, ttl_ms: u64) -> Checked {
        let send_id = &*taken.message.send_id;
        let sent = send_id
            .strip_prefix('s')
            .and_then(|number| self.sends.get(number.parse::<usize>().ok()?));
        let sent = sent.ok_or_else(|| format!("{send_id} is taken, and nobody sent it"))?;
        let end = now.plus(sent.ttl_ms.unwrap_or(ttl_ms));
        for delivery in &taken.deliveries {
            ensure(delivery.expires == end, || format!("it ends not at {end:?}: {delivery:?}"))?;
            self.taken.insert(delivery.number, (delivery.id, delivery.expires));
        }
        Ok(())
    }

    /// A recipient wants something later: then that has failed.
    pub(super) fn gives_back(&mut self, nack: &Nack) {
        if let (Ok(id), Some(_)) = (Uuid::parse_str(&nack.ack_id), nack.retry_after_ms) {
            *self.failures.entry(id).or_default() += 1;
        }
    }

    /// A connection ends.
    pub(super) fn ends(&mut self, client: ClientId) {
        for id in self.on_way.remove(&client).unwrap_or_default() {
            *self.failures.entry(id).or_default() += 1;
        }
    }

    /// A SEND is accepted: then all its recipients have it on the disk.
    pub(super) fn accepts(&self, ack: &Ack<'_>, disk: &Disk) -> Checked {
        let (kept, told) = (disk.recipients(&ack.ack_id), ack.recipients.unwrap_or(1));
        ensure(kept >= told, || format!("{} is accepted before it is kept", ack.ack_id))?;
        ensure(kept <= told, || format!("{} is kept for {kept}, not {told}", ack.ack_id))
    }

    /// A DELIVER is handed out.
    pub(super) fn delivers(
        &mut self,
        client: ClientId,
        envelope: &Envelope<'_>,
        disk: &Disk,
    ) -> Checked {
        let delivery = deliver::read(envelope).map_err(|bad| bad.to_string())?;
        let text = |it: Option<&str>| it.unwrap_or_default().to_lowercase();
        let spoken: MessagePayload<'_> =
            serde_json::from_str(envelope.payload).map_err(|bad| bad.to_string())?;
        let number = Sent::number(&spoken.body);
        let number = number.filter(|number| self.sends.get(*number).is_some());
        let number = number.ok_or_else(|| format!("nobody sent {:?}", spoken.body))?;
        let topic = envelope.topic.as_deref().map(str::to_owned);
        let stream = (text(envelope.from.as_deref()), text(envelope.to.as_deref()), topic);
        let sent = &self.sends[number];
        let is_meant = sent.to.is_none_or(|to| to == "*" || to == stream.1);
        ensure(sent.body == spoken.body && is_meant, || {
            format!("{number} arrives as {envelope:?}")
        })?;
        if sent.requires_ack {
            let id = self.delivers_kept(number, envelope, &delivery, disk)?;
            self.on_way.entry(client).or_default().insert(id);
        }
        let numbers = self.numbers.entry(stream).or_default();
        let other = *numbers.entry(delivery.seq).or_insert(number);
        ensure(other == number, || format!("{number} has the number of {other}: {envelope:?}"))
    }

    fn delivers_kept(
        &mut self,
        number: usize,
        envelope: &Envelope<'_>,
        delivery: &Delivery<'_>,
        disk: &Disk,
    ) -> Result<Uuid, String> {
        let id = Uuid::parse_str(&envelope.id).map_err(|bad| bad.to_string())?;
        let (record, is_over) = disk
            .delivery(id)
            .ok_or_else(|| format!("{number} is delivered and not kept: {envelope:?}"))?;
        ensure(!is_over || !delivery.requires_ack, || {
            format!("{number} is delivered and over: {envelope:?}")
        })?;
        ensure(record.seq == delivery.seq, || format!("{number} has another number: {record:?}"))?;
        let is_again = !self.handed.insert(id);
        ensure(!is_again || delivery.attempt > 1, || {
            format!("{number} comes again as if it came first: {envelope:?}")
        })?;
        Ok(id)
    }

    /// A crash lost this, though it was through: hand-outs may be counted anew, and numbers of streams
    /// be used again. Gives back the streams.
    pub(super) fn loses(&mut self, lost: &[Change], disk: &Disk) -> Vec<Stream> {
        self.outcomes.crash(disk);
        self.on_way.clear();
        // Nobody waits for the disk before he is handed what was in his mailbox.
        self.handed.retain(|id| disk.delivery(*id).is_none_or(|(record, _)| record.attempts > 0));
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

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(why()) }
}
