//! An application on our client library: what it says, what it heard, and how it dies.

use super::{
    Checked,
    promises::{Promises, Sent, Stream},
};
use crate::{
    client::{
        Delivery, Event, Meta, Outgoing, Reply, SendId, State,
        session::{Identity, Session},
    },
    protocol::{
        code::NackCode,
        envelope::{Envelope, Kind},
        payload::{Capabilities, Sync},
    },
    router::ClientId,
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// One name's.
#[derive(Debug)]
pub(super) struct Person {
    pub(super) name: &'static str,
    pub(super) session: Session,
    pub(super) wire: Option<ClientId>,
    /// It awaits a stream.
    pub(super) dials: bool,
    pub(super) is_over: bool,
    pub(super) is_guest: bool,
    /// What is sent at least once can reach it.
    pub(super) acknowledges: bool,
    /// Deliveries that it has not answered.
    pub(super) held: Vec<Uuid>,
    /// What those of them ask, and some that it has acknowledged.
    pub(super) asked: BTreeMap<Uuid, Reply>,
    pub(super) to_answer: Vec<Reply>,
    /// What it was told of its own messages, by envelope.
    told: BTreeSet<String>,
    /// What the daemon says just now was told before.
    pub(super) knows: bool,
    /// Numbers of the SENDs that it heard.
    heard: BTreeSet<usize>,
    /// The last number that it heard of each stream, by who says it on which topic.
    last: BTreeMap<(String, Option<String>), u64>,
    /// Streams whose numbers began anew, while the library may still hold something of before.
    renumbered: BTreeSet<(String, Option<String>)>,
    /// What it wants to hear again.
    given_back: BTreeSet<Uuid>,
    /// At-least-once SENDs without an answer.
    pub(super) unanswered: BTreeSet<usize>,
    /// Those that the store refused.
    pub(super) refused: Vec<usize>,
}

impl Person {
    /// A new life, of which nothing is remembered.
    pub(super) fn new(
        name: &'static str,
        is_guest: bool,
        capabilities: Capabilities,
        seed: [u8; 32],
    ) -> Self {
        let identity = Identity {
            agent: (!is_guest).then(|| name.to_owned()),
            mode: is_guest.then(|| "guest".to_owned()),
            capabilities,
            key: None,
            companion_key: None,
            first_attempts: 1_000,
            again_after_ms: Some(1_000),
            local: false,
            seed,
        };
        Self {
            name,
            session: Session::new(identity),
            wire: None,
            dials: false,
            is_over: false,
            is_guest,
            acknowledges: capabilities.ack && !is_guest,
            held: Vec::new(),
            asked: BTreeMap::new(),
            to_answer: Vec::new(),
            told: BTreeSet::new(),
            knows: false,
            heard: BTreeSet::new(),
            last: BTreeMap::new(),
            renumbered: BTreeSet::new(),
            given_back: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            refused: Vec::new(),
        }
    }

    /// Something is to be said.
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

    /// The daemon says something: whether it has told so before.
    pub(super) fn reads(&mut self, frame: &[u8]) {
        self.knows = Envelope::read(frame).is_ok_and(|envelope| {
            let is_told = match envelope.kind {
                Kind::Nack => true,
                Kind::Ack => envelope.payload.contains("correlationId"),
                _ => false,
            };
            is_told && !self.told.insert(envelope.id.into_owned())
        });
    }

    /// The library tells something.
    pub(super) fn takes(&mut self, event: Event, promises: &Promises) -> Checked {
        if self.knows && matches!(event, Event::Refused { .. } | Event::Answered { .. }) {
            return Err(format!("{} is told again: {event:?}", self.name));
        }
        match event {
            Event::Delivered(delivery) => return self.hears(&delivery, promises),
            Event::Accepted { send_id, .. } => {
                self.unanswered.retain(|number| Some(*number) != number_of(&send_id));
            }
            Event::Refused { send_id, nack } => {
                let Some(number) = number_of(&send_id) else { return Ok(()) };
                let is_direct = promises.sends[number].to.is_some_and(|to| to != "*");
                if nack.to.is_none() || is_direct {
                    self.unanswered.remove(&number);
                }
                if nack.code == NackCode::StoreFailed.as_str() {
                    self.refused.push(number);
                }
            }
            Event::Ended(_) => self.is_over = true,
            // With another connection it has another name, by which nobody knows its doubles.
            Event::State(State::Backoff { .. }) => self.is_over |= self.is_guest,
            _ => {}
        }
        Ok(())
    }

    fn hears(&mut self, delivery: &Delivery, promises: &Promises) -> Checked {
        let who = self.name;
        let body = delivery.body.clone();
        let number = Sent::number(&body).ok_or_else(|| format!("{who} hears {body}"))?;
        let id = Uuid::parse_str(&delivery.id).map_err(|bad| bad.to_string())?;
        if let Some(sync) = &delivery.sync {
            let (delivery_id, seq) = (delivery.id.clone(), delivery.seq);
            let sync = (**sync).clone();
            let reply = Reply { delivery_id, seq, sync, response: true, data: None };
            self.asked.insert(id, reply);
        }
        if self.given_back.remove(&id) {
            self.held.push(id);
            return Ok(());
        }
        if !self.heard.insert(number) {
            return Err(format!("{number} is heard twice by {who}, now as {id}"));
        }
        let stream = (delivery.from.to_lowercase(), delivery.topic.clone());
        let is_renumbered = self.renumbered.contains(&stream);
        let last = self.last.entry(stream).or_default();
        // What an earlier life acknowledged or refused may come again when a crash has lost that.
        let was_over = promises.acknowledged.contains(&id) || promises.given_up.contains(&id);
        if *last >= delivery.seq && !was_over && !is_renumbered {
            let seq = delivery.seq;
            return Err(format!("{number} is heard by {who} as {seq}, which is after {last}"));
        }
        *last = delivery.seq.max(*last);
        if delivery.requires_ack {
            self.held.push(id);
        }
        Ok(())
    }

    /// It wants to hear a delivery again.
    pub(super) fn gives_back(&mut self, id: Uuid) {
        self.given_back.insert(id);
    }

    /// The stream's numbers begin anew.
    pub(super) fn forgets(&mut self, (from, to, topic): &Stream) {
        if to == self.name {
            self.renumbered.insert((from.clone(), topic.clone()));
        }
    }
}

/// What is no SEND's id is of something that the library said by itself.
fn number_of(id: &SendId) -> Option<usize> {
    id.0.strip_prefix('s')?.parse().ok()
}
