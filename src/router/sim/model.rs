//! What was taken and is not over, and how each message may end.

use super::{Checked, ClientId, FAILURES_MAX, Heard, Place, limits};
use crate::protocol::envelope::{Envelope, Kind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A SEND of the simulation.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) id: String,
    pub(super) from: String,
    pub(super) to: Option<&'static str>,
    pub(super) topic: Option<&'static str>,
    pub(super) requires_ack: bool,
    pub(super) ttl: Option<u64>,
    pub(super) payload: String,
}

/// The SEND's id, and to whom.
type Key = (String, String);

/// From, to, topic.
type Stream = (String, String, Option<String>);

#[derive(Debug)]
struct Open {
    stream: Stream,
    /// Counts up over all deliveries that were taken.
    order: u64,
    payload: String,
    requires_ack: bool,
    expires: u64,
    seq: Option<u64>,
    /// The connections that had it, and whether the last one gave it back.
    had: BTreeSet<ClientId>,
    was_given_back: bool,
    /// How often it failed, at the most.
    failures: u32,
}

/// A message that was delivered, some time.
#[derive(Clone, Debug)]
struct Past {
    key: Key,
    requires_ack: bool,
    expires: u64,
}

/// A SEND while it is handled.
#[derive(Debug)]
struct Trial {
    said: Said,
    recipients: BTreeSet<String>,
    answers: Vec<(Kind, Value)>,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) now: u64,
    open: BTreeMap<Key, Open>,
    over: BTreeSet<Key>,
    orders: u64,
    /// Numbers by the order of taking, for each stream.
    numbers: BTreeMap<Stream, BTreeMap<u64, u64>>,
    trial: Option<Trial>,
    /// Each name's last SEND, and who still has to get it.
    last: BTreeMap<String, (Said, Option<BTreeSet<String>>)>,
    /// Who went before whom in this step. That is right only where the other is over by its end.
    overtaken: Vec<(Key, Key)>,
    /// What may end in this step, because its recipient has it.
    arrived: BTreeSet<Key>,
    /// Whose recipient wants it no more, in this step.
    refused: BTreeSet<Key>,
    /// What senders were told, in this step.
    told: BTreeMap<Key, BTreeSet<String>>,
    /// What the sender was told that nobody got, in this step and before.
    undelivered: BTreeSet<Key>,
    /// What was acknowledged, in this step and before.
    acknowledging: BTreeSet<Key>,
    acknowledged: BTreeSet<Key>,
    /// What was ever delivered, by its number.
    past: BTreeMap<Stream, BTreeMap<u64, Past>>,
    /// Streams of which something was taken and never delivered.
    lossy: BTreeSet<Stream>,
    /// What a connection was promised again.
    due: BTreeMap<(ClientId, Stream), BTreeMap<u64, Past>>,
}

impl Model {
    /// The last SEND of a name, if sending it again means something.
    pub(super) fn repeatable(&self, name: &str) -> Option<Said> {
        let (said, left) = self.last.get(name)?;
        (said.requires_ack || left.is_some()).then(|| said.clone())
    }

    pub(super) fn begin(&mut self, said: &Said, here: BTreeSet<String>) {
        let recipients = match self.last.get(&said.from) {
            Some((last, left)) if last.id == said.id => match left {
                Some(left) if left.is_empty() => here,
                Some(left) => left.clone(),
                None => BTreeSet::new(),
            },
            _ => here,
        };
        self.trial = Some(Trial { said: said.clone(), recipients, answers: Vec::new() });
    }

    pub(super) fn acknowledges(&mut self, key: &Key, cumulative: bool) {
        self.arrived.insert(key.clone());
        self.acknowledging.insert(key.clone());
        let Some(stream) = self.open.get(key).map(|open| open.stream.clone()) else { return };
        let others = self.open.iter().filter(|(_, open)| {
            cumulative && open.stream == stream && open.requires_ack && !open.had.is_empty()
        });
        let others: Vec<_> = others.map(|(key, _)| key.clone()).collect();
        self.acknowledging.extend(others.iter().cloned());
        self.arrived.extend(others);
    }

    /// Its recipient wants it later.
    pub(super) fn gives_back(&mut self, key: &Key) {
        if let Some(open) = self.open.get_mut(key) {
            open.failures += u32::from(!open.was_given_back);
            open.was_given_back = true;
        }
    }

    /// Its recipient wants it no more.
    pub(super) fn refuses(&mut self, key: &Key) {
        self.refused.insert(key.clone());
    }

    /// A connection is lost: which message that counts against, only the machine knows.
    pub(super) fn lost(&mut self, client: ClientId) {
        let had = self.open.values_mut().filter(|open| open.had.contains(&client));
        had.for_each(|open| open.failures += 1);
    }

    pub(super) fn was_written(&mut self, key: &Key) {
        self.arrived.insert(key.clone());
    }

    pub(super) fn answered(&mut self, name: &str, kind: Kind, payload: &Value) {
        let id = payload["ack_id"].as_str().unwrap_or_default().to_owned();
        if let Some(to) = payload["to"].as_str().filter(|_| kind == Kind::Nack) {
            let code = payload["code"].as_str().unwrap_or_default().to_owned();
            let key = (id.clone(), to.to_lowercase());
            if code == "AGENT_OFFLINE" {
                self.undelivered.insert(key.clone());
            }
            self.told.entry(key).or_default().insert(code);
        }
        if let Some(trial) = &mut self.trial
            && trial.said.id == id
            && trial.said.from == name
        {
            trial.answers.push((kind, payload.clone()));
        }
    }

    /// A DELIVER was handed out: is it one that was taken, and is it its turn?
    pub(super) fn delivered(
        &mut self,
        client: ClientId,
        heard: &Heard,
        envelope: &Envelope<'_>,
        seq: u64,
        attempt: u64,
    ) -> Checked {
        let key = &heard.key;
        let is_due = self.comes_again(client, envelope, seq)?;
        if self.over.contains(key) && is_due {
            return Ok(());
        }
        if self.over.contains(key) {
            return Err(format!("{key:?} is delivered although it is over"));
        }
        if !self.open.contains_key(key) {
            self.take_in_trial(key)?;
        }
        let open = self.open.get_mut(key).expect("it was just put there");
        if open.payload != envelope.payload {
            return Err(format!("{key:?} arrives as {}", envelope.payload));
        }
        let is_again = !open.had.is_empty() && open.requires_ack;
        if (attempt > 1) != is_again || open.seq.is_some_and(|before| before != seq) {
            return Err(format!("{key:?} has attempt {attempt} and seq {seq}: {open:?}"));
        }
        if open.had.contains(&client) && !open.was_given_back && !is_due {
            return Err(format!("{key:?} comes twice on {client:?}"));
        }
        open.seq = Some(seq);
        open.had.insert(client);
        open.was_given_back = false;
        let (order, stream) = (open.order, open.stream.clone());
        let past =
            Past { key: key.clone(), requires_ack: open.requires_ack, expires: open.expires };
        self.past.entry(stream.clone()).or_default().insert(seq, past);
        self.note_overtaken(client, key, order, &stream);
        let numbers = self.numbers.entry(stream).or_default();
        numbers.insert(order, seq);
        let (before, after) =
            (numbers.range(..order).next_back(), numbers.range(order + 1..).next());
        let is_ordered = before.is_none_or(|(_, before)| *before < seq)
            && after.is_none_or(|(_, after)| *after > seq);
        is_ordered
            .then_some(())
            .ok_or_else(|| format!("{key:?} has a wrong seq {seq}: {numbers:?}"))
    }

    /// What an agent has heard, and how far.
    pub(super) fn places(&self, name: &str) -> Vec<Place> {
        let heard = self.past.iter().filter(|((_, to, _), _)| to == name);
        let places = heard.map(|((peer, _, topic), past)| Place {
            topic: topic.clone().unwrap_or_default(),
            peer: peer.clone(),
            last_seq: past.last_key_value().map_or(0, |(seq, _)| *seq),
        });
        places.collect()
    }

    /// SYNC promises everything that it says was missed.
    pub(super) fn synced(&mut self, client: ClientId, name: &str, sync: &Value) {
        for row in sync["streams"].as_array().into_iter().flatten() {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let topic = Some(text("topic")).filter(|topic| !topic.is_empty());
            let stream = (text("peer").to_lowercase(), name.to_owned(), topic);
            let last_seq = row["last_seq"].as_u64().unwrap_or_default();
            // A stream that is over is not known any more.
            if row["server_last_seq"].as_u64().unwrap_or_default() > last_seq
                && let Some(past) = self.past.get(&stream)
            {
                let missed = past.range(last_seq + 1..).map(|(seq, past)| (*seq, past.clone()));
                let due: Vec<_> = missed.filter(|(_, past)| self.is_wanted(past)).collect();
                self.due.entry((client, stream)).or_default().extend(due);
            }
        }
    }

    /// It is not past its time, and not a dead letter.
    fn is_wanted(&self, past: &Past) -> bool {
        let ends = self.ends(&past.key) && !self.acknowledged.contains(&past.key);
        let is_open = self.open.contains_key(&past.key) && !ends;
        let is_kept = match past.requires_ack {
            true => is_open || self.acknowledged.contains(&past.key),
            // Handed out and not written, and then there was nobody to hand it to again.
            false => !self.undelivered.contains(&past.key),
        };
        past.expires > self.now && is_kept
    }

    /// In this step something was heard of its end.
    fn ends(&self, key: &Key) -> bool {
        self.arrived.contains(key) || self.told.contains_key(key)
    }

    /// STALE is only for who has missed something.
    pub(super) fn is_stale(&self, name: &str, asked: &[Place]) -> Checked {
        let missed = asked.iter().any(|place| {
            let topic = Some(place.topic.clone()).filter(|topic| !topic.is_empty());
            let stream = (place.peer.clone(), name.to_owned(), topic);
            let last = self.past.get(&stream).and_then(|past| past.last_key_value());
            last.is_some_and(|(seq, _)| place.last_seq < *seq) || self.lossy.contains(&stream)
        });
        missed.then_some(()).ok_or_else(|| format!("{name} has missed nothing: {asked:?}"))
    }

    /// Whether this one was promised again; none that was is behind it.
    fn comes_again(
        &mut self,
        client: ClientId,
        envelope: &Envelope<'_>,
        seq: u64,
    ) -> Result<bool, String> {
        let folded = |name: Option<&str>| name.unwrap_or_default().to_lowercase();
        let topic = envelope.topic.as_deref().map(str::to_owned);
        let stream = (folded(envelope.from.as_deref()), folded(envelope.to.as_deref()), topic);
        let Some(mut due) = self.due.remove(&(client, stream.clone())) else { return Ok(false) };
        let is_due = due.remove(&seq).is_some();
        due.retain(|_, past| self.is_wanted(past) && !self.acknowledging.contains(&past.key));
        if let Some((first, past)) = due.first_key_value()
            && *first < seq
        {
            return Err(format!("{past:?} with seq {first} is to come again before {seq}"));
        }
        self.due.insert((client, stream), due);
        Ok(is_due)
    }

    pub(super) fn left(&mut self, client: ClientId) {
        self.due.retain(|(other, _), _| *other != client);
    }

    /// Every promise is kept.
    pub(super) fn nothing_is_due(&self) -> Checked {
        let mut due = self.due.iter().flat_map(|(of, due)| due.iter().map(move |due| (of, due)));
        match due.find(|(_, (_, past))| self.is_wanted(past)) {
            Some(late) => Err(format!("{late:?} is to come again and doesn't")),
            None => Ok(()),
        }
    }

    /// Whatever was taken before it in its stream has been delivered here before it, or is over.
    fn note_overtaken(&mut self, client: ClientId, key: &Key, order: u64, stream: &Stream) {
        let overtaken = self.open.iter().find(|(other, open)| {
            open.stream == *stream
                && open.order < order
                && (!open.had.contains(&client) || open.was_given_back)
                // What only an older connection can have had is not this one's to wait for.
                && (open.requires_ack || open.had.is_empty())
                && !self.ends(other)
        });
        if let Some((other, _)) = overtaken {
            self.overtaken.push((key.clone(), other.clone()));
        }
    }

    /// A message goes straight out while its SEND is still handled.
    fn take_in_trial(&mut self, key: &Key) -> Checked {
        match &self.trial {
            Some(trial) if trial.said.id == key.0 && trial.recipients.contains(&key.1) => {
                let said = trial.said.clone();
                self.open(&said, key.clone());
                Ok(())
            }
            _ => Err(format!("{key:?} was never taken")),
        }
    }

    fn open(&mut self, said: &Said, key: Key) {
        self.orders += 1;
        let topic = said.topic.map(str::to_owned);
        let stream = (said.from.clone(), key.1.clone(), topic);
        let open = Open {
            stream,
            order: self.orders,
            payload: said.payload.clone(),
            requires_ack: said.requires_ack,
            expires: self.now + said.ttl.unwrap_or_else(|| limits().ttl_ms),
            seq: None,
            had: BTreeSet::new(),
            was_given_back: false,
            failures: 0,
        };
        self.open.insert(key, open);
    }

    /// After a step: what the machine holds is what was taken and is not over.
    pub(super) fn settle(&mut self, held: &BTreeSet<Key>, stayed: &BTreeSet<String>) -> Checked {
        if let Some(trial) = self.trial.take() {
            self.judge(trial, held)?;
        }
        let gone: Vec<_> = self.open.keys().filter(|key| !held.contains(*key)).cloned().collect();
        for key in gone {
            let open = self.open.remove(&key).expect("it was just found");
            self.judge_end(&key, &open, stayed.contains(&open.stream.0))?;
            if open.requires_ack {
                // It was on its way once more, and is not wanted any more.
                self.due.values_mut().for_each(|due| due.retain(|_, past| past.key != key));
            }
            if open.seq.is_none() {
                self.past.entry(open.stream.clone()).or_default();
                self.lossy.insert(open.stream);
            }
            if self.acknowledging.contains(&key) {
                self.acknowledged.insert(key.clone());
            }
            self.over.insert(key);
        }
        self.acknowledging.clear();
        self.arrived.clear();
        self.refused.clear();
        self.told.clear();
        let is_open = |(_, other): &(Key, Key)| self.open.contains_key(other);
        if let Some((key, other)) = std::mem::take(&mut self.overtaken).into_iter().find(is_open) {
            return Err(format!("{key:?} overtakes {other:?}"));
        }
        match held.iter().find(|key| !self.open.contains_key(*key)) {
            Some(key) => Err(format!("{key:?} is held and was not taken")),
            None => Ok(()),
        }
    }

    /// What is gone has arrived, or there is a reason, which a sender that is there was told.
    fn judge_end(&self, key: &Key, open: &Open, is_sender_here: bool) -> Checked {
        if self.arrived.contains(key) {
            return Ok(());
        }
        let is_reason = |code: &str| match code {
            "EXPIRED" => open.expires <= self.now,
            "REFUSED" => self.refused.contains(key),
            "GAVE_UP" => open.failures >= FAILURES_MAX,
            "AGENT_OFFLINE" => !open.requires_ack,
            _ => false,
        };
        match self.told.get(key) {
            Some(told) if told.iter().any(|code| is_reason(code)) => Ok(()),
            Some(told) => Err(format!("{key:?} is gone for {told:?}: {open:?}")),
            None if is_sender_here => Err(format!("{key:?} is gone and nobody was told: {open:?}")),
            None if ["EXPIRED", "REFUSED", "GAVE_UP", "AGENT_OFFLINE"]
                .into_iter()
                .any(is_reason) =>
            {
                Ok(())
            }
            None => Err(format!("{key:?} is gone without a reason: {open:?}")),
        }
    }

    /// Each recipient of a SEND has it, or the sender knows who hasn't.
    fn judge(&mut self, trial: Trial, held: &BTreeSet<Key>) -> Checked {
        let Trial { said, recipients, answers } = trial;
        let is_direct = said.to.is_some_and(|to| to != "*");
        let of = |kind| answers.iter().filter(move |(other, _)| *other == kind);
        let (acks, busies) = (of(Kind::Ack).count(), of(Kind::Busy).count());
        let names = |value: &Value| value.as_str().map(str::to_lowercase);
        let mut busy: BTreeSet<String> = of(Kind::Busy)
            .filter_map(|(_, payload)| payload["busy"].as_array())
            .flatten()
            .filter_map(names)
            .collect();
        let mut refused: BTreeSet<String> =
            of(Kind::Nack).filter_map(|(_, payload)| names(&payload["to"])).collect();
        if is_direct && of(Kind::Nack).count() > 0 {
            refused.clone_from(&recipients);
        }
        if is_direct && busies > 0 {
            busy.clone_from(&recipients);
        }
        let finals = acks + busies + usize::from(is_direct && !refused.is_empty());
        if finals > 1 || (said.requires_ack && finals == 0) {
            return Err(format!("{} has the answers {answers:?}", said.id));
        }
        for name in
            recipients.iter().filter(|name| !busy.contains(*name) && !refused.contains(*name))
        {
            let key = (said.id.clone(), name.clone());
            if !self.open.contains_key(&key) {
                self.open(&said, key.clone());
            }
            if !held.contains(&key) {
                return Err(format!("{key:?} was taken and is nowhere: {answers:?}"));
            }
        }
        let left = match busies {
            0 if is_direct && !refused.is_empty() => Some(BTreeSet::new()),
            0 => None,
            _ if busy.len() + refused.len() < recipients.len() || self.is_partly(&said) => {
                Some(busy)
            }
            _ => Some(BTreeSet::new()),
        };
        self.last.insert(said.from.clone(), (said, left));
        Ok(())
    }

    /// Whether some have it from an earlier time.
    fn is_partly(&self, said: &Said) -> bool {
        let last = self.last.get(&said.from);
        last.is_some_and(|(last, left)| {
            last.id == said.id && left.as_ref().is_some_and(|left| !left.is_empty())
        })
    }
}

/// What a DELIVER says: about which message, its number and attempt.
pub(super) fn heard(envelope: &Envelope<'_>, payload: &Value) -> Result<(Heard, u64, u64), String> {
    let delivery = envelope.delivery.ok_or("a DELIVER has `delivery`")?;
    let delivery: Value = serde_json::from_str(delivery).map_err(|e| e.to_string())?;
    let number = payload["n"].as_u64().ok_or_else(|| format!("nobody sent {payload}"))?;
    let to = envelope.to.as_deref().ok_or("a DELIVER has `to`")?;
    let heard = Heard {
        id: envelope.id.to_string(),
        key: (format!("s{number}"), to.to_lowercase()),
        requires_ack: delivery["requires_ack"].as_bool().unwrap_or_default(),
    };
    let seq = delivery["seq"].as_u64().ok_or("a DELIVER has a seq")?;
    Ok((heard, seq, delivery["attempt"].as_u64().unwrap_or(1)))
}
