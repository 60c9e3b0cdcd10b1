//! Applications on the client library: their state, and the checks of the events that they get.

use super::{
    promises::Promises,
    sends::{Sent, Stream, number_of},
};
use crate::{ClientId, oracle::Checked};
use client::{Delivery, Event, Meta, Outgoing, Reply, SendId, Settings, session::Session};
use protocol::{
    code::NackCode,
    envelope::{Envelope, Kind},
    payload::{Capabilities, Sync},
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// An application on the client library.
#[derive(Debug)]
pub(super) struct App {
    pub(super) name: &'static str,
    pub(super) session: Session,
    pub(super) connection: Option<ClientId>,
    /// Whether the library wants a connection.
    pub(super) dials: bool,
    pub(super) is_over: bool,
    pub(super) is_guest: bool,
    /// Whether at-least-once messages can reach the application.
    pub(super) acknowledges: bool,
    /// Deliveries that the application has not answered.
    pub(super) held: Vec<Uuid>,
    /// Replies to questions among the held deliveries, and to some acknowledged ones.
    pub(super) asked: BTreeMap<Uuid, Reply>,
    pub(super) to_answer: Vec<Reply>,
    /// Envelopes with outcomes of the application's own messages.
    notices: BTreeSet<String>,
    /// Whether the current frame is a notice that the application has read before.
    pub(super) is_repeated: bool,
    /// Indexes of the received SENDs.
    received: BTreeSet<usize>,
    /// The last sequence number received from each stream, by sender and topic.
    last: BTreeMap<(String, Option<String>), u64>,
    /// Streams whose numbers began again, while the library may still hold earlier messages.
    renumbered: BTreeSet<(String, Option<String>)>,
    /// A delivery that the application returns each time.
    pub(super) poison: Option<Uuid>,
    /// Deliveries that the application returned once and wants again.
    given_back: BTreeSet<Uuid>,
    /// At-least-once SENDs without an answer.
    pub(super) unanswered: BTreeSet<usize>,
    /// SENDs that the store refused.
    pub(super) refused: Vec<usize>,
}

impl App {
    /// Returns an application without any state of an earlier run.
    pub(super) fn new(
        name: &'static str,
        is_guest: bool,
        capabilities: Capabilities,
        seed: [u8; 32],
    ) -> Self {
        let settings = if is_guest { Settings::guest("") } else { Settings::agent("", name) };
        let retry_cycle_after_ms = Some(1_000);
        let settings =
            Settings { capabilities, first_attempts: 1_000, retry_cycle_after_ms, ..settings };
        Self {
            name,
            session: Session::new(settings, seed),
            connection: None,
            dials: false,
            is_over: false,
            is_guest,
            acknowledges: capabilities.ack && !is_guest,
            held: Vec::new(),
            asked: BTreeMap::new(),
            to_answer: Vec::new(),
            notices: BTreeSet::new(),
            is_repeated: false,
            received: BTreeSet::new(),
            last: BTreeMap::new(),
            renumbered: BTreeSet::new(),
            poison: None,
            given_back: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            refused: Vec::new(),
        }
    }

    /// Returns the id and the message of a SEND. Notes the SEND as unanswered if it is at least
    /// once.
    pub(super) fn message(&mut self, number: usize, sent: &Sent) -> (SendId, Outgoing) {
        if sent.requires_ack {
            self.unanswered.insert(number);
        }
        let sync = sent.timeout_ms.map(|ms| Sync {
            correlation_id: format!("c{number}"),
            timeout_ms: Some(ms),
            blocking: false,
        });
        let (requires_ack, ttl_ms) = (sent.requires_ack, sent.ttl_ms);
        let meta = Meta { requires_ack, ttl_ms, sync, ..Meta::default() };
        let message = Outgoing {
            to: sent.to.map(str::to_owned),
            topic: sent.topic.map(str::to_owned),
            body: sent.body.clone(),
            meta,
            ..Outgoing::default()
        };
        (SendId(format!("s{number}")), message)
    }

    pub(super) fn holds_poison(&self) -> bool {
        self.held.iter().any(|id| Some(*id) == self.poison)
    }

    /// Takes note of a frame that the library is about to read.
    pub(super) fn reads(&mut self, frame: &[u8]) {
        self.is_repeated = Envelope::read(frame).is_ok_and(|envelope| {
            let is_notice = match envelope.kind {
                Kind::Nack => true,
                Kind::Ack => envelope.payload.contains("correlationId"),
                _ => false,
            };
            is_notice && !self.notices.insert(envelope.id.into_owned())
        });
    }

    /// The delivery in a frame, if the library has to keep it back: the application has it.
    pub(super) fn known(&self, frame: &[u8]) -> Option<Box<Delivery>> {
        let delivery = Delivery::read(&Envelope::read(frame).ok()?).ok()?;
        let is_wanted = Uuid::parse_str(&delivery.id).is_ok_and(|id| self.given_back.contains(&id));
        let is_received =
            Sent::number(&delivery.body).is_some_and(|it| self.received.contains(&it));
        (is_received && !is_wanted).then(|| Box::new(delivery))
    }

    /// Handles an event of the library.
    pub(super) fn takes(&mut self, event: Event, promises: &Promises) -> Checked {
        if self.is_repeated && matches!(event, Event::Refused { .. } | Event::Answered { .. }) {
            return Err(format!("{} is notified again: {event:?}", self.name));
        }
        match event {
            Event::Delivered(delivery) => return self.receives(&delivery, promises),
            Event::Accepted { send_id, .. } => {
                self.unanswered.retain(|number| Some(*number) != number_of(&send_id.0));
            }
            Event::Refused { send_id, nack } => {
                let Some(number) = number_of(&send_id.0) else { return Ok(()) };
                let is_direct = promises.sends[number].to.is_some_and(|to| to != "*");
                if nack.to.is_none() || is_direct {
                    self.unanswered.remove(&number);
                }
                if nack.code == NackCode::StoreFailed.as_str() {
                    self.refused.push(number);
                }
            }
            Event::Ended(_) => self.is_over = true,
            _ => {}
        }
        Ok(())
    }

    fn receives(&mut self, delivery: &Delivery, promises: &Promises) -> Checked {
        let name = self.name;
        let body = delivery.body.clone();
        let number = Sent::number(&body).ok_or_else(|| format!("{name} receives {body}"))?;
        let id = Uuid::parse_str(&delivery.id).map_err(|bad| bad.to_string())?;
        if let Some(sync) = &delivery.sync {
            let (delivery_id, seq) = (delivery.id.clone(), delivery.seq);
            let sync = (**sync).clone();
            let reply =
                Reply { delivery_id, seq: Some(seq), sync, response: Some(true), data: None };
            self.asked.insert(id, reply);
        }
        if self.given_back.remove(&id) {
            self.held.push(id);
            return Ok(());
        }
        if !self.received.insert(number) && !promises.may_double(number) {
            return Err(format!("{number} is received twice by {name}, now as {id}"));
        }
        let stream = (delivery.from.to_lowercase(), delivery.topic.clone());
        let is_renumbered =
            self.renumbered.contains(&stream) || promises.is_renumbered(&stream.0, name);
        let last = self.last.entry(stream).or_default();
        // A delivery that ended before a crash comes again if the crash lost the record of its end.
        let ended = [&promises.acknowledged, &promises.given_up, &promises.exhausted];
        let was_over = ended.iter().any(|ids| ids.contains(&id));
        if *last >= delivery.seq && !was_over && !is_renumbered {
            let seq = delivery.seq;
            return Err(format!("{number} is received by {name} as {seq}, which is after {last}"));
        }
        *last = delivery.seq.max(*last);
        if delivery.requires_ack {
            self.held.push(id);
        }
        Ok(())
    }

    /// Notes that the application returned a delivery and expects it again.
    pub(super) fn gives_back(&mut self, id: Uuid) {
        self.given_back.insert(id);
    }

    /// Notes that the numbers of a stream begin again.
    pub(super) fn forgets(&mut self, (from, to, topic): &Stream) {
        if to == self.name {
            self.renumbered.insert((from.clone(), topic.clone()));
        }
    }
}
