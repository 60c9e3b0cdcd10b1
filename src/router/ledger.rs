//! What outlives the machine: the changes it says, and what waits until they are kept.
//!
//! Whatever the store has to keep goes out as [`Output::Keep`], and is counted. Nothing waits for most
//! of it. What does wait stands in line here, behind its change: an at-least-once message, which goes
//! out and is accepted only once it is kept, and numbers of a stream, which are used only then.

use super::{
    AgentKey, ClientId, MessageKey, Output, Router, StreamKey,
    doubles::{Content, Standing},
    message::{SendId, State},
    send::Said,
};
use crate::protocol::code::NackCode;
use crate::record::{
    AcceptedSend, AgentRecord, Change, DedupRecord, DeliveryRecord, LastNumbers, MessageRecord,
    StreamRecord,
};
use std::collections::VecDeque;

/// Numbers of a stream that are reserved at once.
const BLOCK: u64 = 1_024;

/// Blocks at once, at the most.
const BLOCKS_MAX: u64 = 1_024;

/// How many of a stream's numbers are reserved at once after this one: a quarter of those that were used,
/// in whole blocks. A disk takes its time, and a flood is not to catch up with it.
fn ahead(seq: u64) -> u64 {
    BLOCK * (1 + seq / (4 * BLOCK)).min(BLOCKS_MAX)
}

/// Changes of subscriptions that may wait at once.
const SUBSCRIBING_MAX: usize = 2_048;

/// SENDs that came again while they are being kept, and wait for their answers.
pub(super) const REPEATING_MAX: usize = 1 << 14;

/// How far a change is behind which something waits.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Changes that were said.
    said: u64,
    /// Changes of these that are kept.
    kept: u64,
    /// In the order of the changes.
    line: VecDeque<(u64, Waiting)>,
    /// Of these, changes of subscriptions.
    subscribing: usize,
    /// Of these, SENDs that came again.
    repeating: usize,
    /// The last numbers that were given.
    pub(super) last: LastNumbers,
    /// The last number of what waits for a sender.
    pub(super) last_answer: u64,
}

impl Ledger {
    /// Changes that the store has still before it.
    pub(super) const fn backlog(&self) -> u64 {
        self.said - self.kept
    }

    /// Whether so many subscriptions are being kept that no other may be. Each says a whole session again,
    /// and nothing else bounds what its connection says.
    pub(super) const fn is_busy_subscribing(&self) -> bool {
        self.subscribing >= SUBSCRIBING_MAX
    }

    /// Whether so many SENDs came again while they are being kept that no other may wait.
    pub(super) const fn is_busy_repeating(&self) -> bool {
        self.repeating >= REPEATING_MAX
    }

    pub(super) const fn is_kept(&self, ticket: u64) -> bool {
        ticket <= self.kept
    }

    /// What comes next that waits for no change beyond `upto`.
    fn next_until(&mut self, upto: u64) -> Option<Waiting> {
        let (_, waiting) = self.line.pop_front_if(|(ticket, _)| *ticket <= upto)?;
        self.subscribing -= usize::from(matches!(waiting, Waiting::Subscribed(..)));
        self.repeating -= usize::from(matches!(waiting, Waiting::Again(..)));
        Some(waiting)
    }
}

/// Something that goes on when a change is kept.
#[derive(Debug)]
enum Waiting {
    Taken(Box<Pending>),
    /// A SEND that was being kept came again, maybe on another connection.
    Again(Promise, AgentKey, Content),
    /// Numbers of a stream, up to this one.
    Numbers(StreamKey, u64),
    /// This connection's agent is here.
    Seated(ClientId),
    /// Subscriptions changed, as this connection asked with this id.
    Subscribed(ClientId, SendId),
}

/// A SEND that is being kept.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) sender: AgentKey,
    pub(super) content: Content,
    pub(super) deliveries: Vec<MessageKey>,
    /// What the sender hears; nothing where BUSY told it to come again.
    pub(super) promise: Option<Promise>,
}

/// Who is to hear that a SEND is accepted.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    pub(super) client: ClientId,
    pub(super) send_id: SendId,
    pub(super) recipients: Option<u64>,
    pub(super) away: bool,
}

impl Router {
    /// At-least-once mail waits until the store knows that its recipient is here.
    pub(super) fn await_seat(&mut self, client: ClientId) {
        let said = self.ledger.said;
        if self.ledger.is_kept(said) {
            self.seated(client);
        } else {
            self.wait_for(said, Waiting::Seated(client));
        }
    }

    fn seated(&mut self, client: ClientId) {
        if let Some(seat) = self.seat_mut(client) {
            seat.is_recorded = true;
            if let Some(agent) = self.agent_of(client) {
                self.pump(agent);
            }
        }
    }

    /// Hands a change to the store.
    pub(super) fn keep(&mut self, change: Change) -> u64 {
        self.out.push(Output::Keep(change));
        self.ledger.said += 1;
        self.ledger.said
    }

    fn wait_for(&mut self, ticket: u64, waiting: Waiting) {
        self.ledger.subscribing += usize::from(matches!(waiting, Waiting::Subscribed(..)));
        self.ledger.repeating += usize::from(matches!(waiting, Waiting::Again(..)));
        self.ledger.line.push_back((ticket, waiting));
    }

    /// Hands over a SEND, or the part of it that is new. Gives back its ticket and the message's number.
    pub(super) fn keep_taken(
        &mut self,
        said: &Said<'_>,
        (content, number): (Content, Option<u64>),
        deliveries: Vec<MessageKey>,
        (recipients, left): (Option<u64>, &[AgentKey]),
        promise: Option<Promise>,
    ) -> (u64, u64) {
        let number = number.unwrap_or_else(|| {
            self.ledger.last.message += 1;
            self.ledger.last.message
        });
        let sender = self.roster[said.from].number;
        let first = deliveries.first().and_then(|key| self.messages[*key].kept());
        let shared = first.map_or_else(|| self.shared(said), |kept| kept.shared.clone());
        let speaker = self.speaker(said);
        let message = MessageRecord {
            number,
            sender,
            session: speaker.session.clone(),
            proof: speaker.proof,
            send_id: (&*said.envelope.id).into(),
            to_everyone: recipients.is_some(),
            unix_ms: self.now.unix_ms,
            shared,
        };
        let double = DedupRecord {
            message: number,
            sender,
            fingerprint: content.fingerprint(),
            recipients,
            remaining: self.numbers_of(left),
        };
        for key in &deliveries {
            if let Some(kept) = self.messages[*key].kept_mut() {
                kept.message = number;
            }
        }
        let records = deliveries.iter().map(|key| self.delivery_record(*key, number)).collect();
        let taken = AcceptedSend { message, deliveries: records, dedup: double };
        let ticket = self.keep(Change::Accepted(Box::new(taken)));
        #[cfg(test)]
        let promise = self.accept_early(promise);
        let pending = Pending { sender: said.from, content, deliveries, promise };
        self.wait_for(ticket, Waiting::Taken(Box::new(pending)));
        (ticket, number)
    }

    pub(super) fn delivery_record(&self, key: MessageKey, message: u64) -> DeliveryRecord {
        let taken = &self.messages[key];
        let kept = taken.kept().expect("only what is kept has a record");
        let to = &self.roster[taken.to];
        DeliveryRecord {
            number: taken.order,
            message,
            stream: self.streams[taken.stream].number,
            to: to.number,
            to_name: to.name.clone(),
            seq: taken.seq,
            id: kept.id,
            expires: taken.expires,
            attempts: kept.recorded,
            failures: kept.failures,
        }
    }

    /// A SEND came again while it is being kept: its answer waits with it.
    pub(super) fn promise_again(&mut self, promise: Promise, from: AgentKey, content: Content) {
        let said = self.ledger.said;
        self.wait_for(said, Waiting::Again(promise, from, content));
    }

    /// Acknowledges what changed subscriptions, once all that was said until now is kept.
    pub(super) fn acknowledge_kept(&mut self, client: ClientId, id: &str) {
        let said = self.ledger.said;
        if self.ledger.is_kept(said) {
            self.acknowledge(client, id);
        } else {
            self.wait_for(said, Waiting::Subscribed(client, SendId::new(id)));
        }
    }

    pub(super) fn keep_agent(&mut self, agent: AgentKey) {
        let agent = &self.roster[agent];
        if agent.is_guest() {
            return;
        }
        let record = AgentRecord {
            number: agent.number,
            name: agent.name.clone(),
            since_unix_ms: agent.since_unix_ms,
            forget_at: agent.forget_at,
        };
        self.keep(Change::Agent(Box::new(record)));
    }

    /// The next number of a stream, which goes out once it is reserved.
    pub(super) fn next_seq(&mut self, key: StreamKey) -> u64 {
        let seq = self.streams[key].next_seq();
        let ahead = ahead(seq);
        if seq + ahead / 2 > self.streams[key].asked {
            self.reserve(key, seq + ahead - 1);
        }
        seq
    }

    fn reserve(&mut self, key: StreamKey, upto: u64) {
        self.streams[key].asked = upto;
        let record = self.stream_record(key, upto);
        let ticket = self.keep(Change::Stream(Box::new(record)));
        self.wait_for(ticket, Waiting::Numbers(key, upto));
    }

    /// Streams of guests end with their last message and never come again: nothing is reserved, and the
    /// store hears of one only when it has to keep a message of it.
    pub(super) fn record_stream(&mut self, key: StreamKey) {
        if !self.streams[key].is_recorded {
            self.say_stream(key);
        }
    }

    /// Says of a recorded stream what was said of it last.
    pub(super) fn keep_stream_again(&mut self, key: StreamKey) {
        if self.streams[key].is_recorded {
            self.say_stream(key);
        }
    }

    fn say_stream(&mut self, key: StreamKey) {
        let asked = self.streams[key].asked;
        let record = self.stream_record(key, if asked == u64::MAX { 0 } else { asked });
        self.keep(Change::Stream(Box::new(record)));
    }

    fn stream_record(&mut self, key: StreamKey, reserved: u64) -> StreamRecord {
        if !self.streams[key].is_recorded {
            self.ledger.last.stream += 1;
            self.streams[key].number = self.ledger.last.stream;
            self.streams[key].is_recorded = true;
        }
        let stream = &self.streams[key];
        StreamRecord {
            number: stream.number,
            from: stream.from_number,
            to: self.roster[stream.to()].number,
            topic: stream.topic().cloned(),
            reserved,
        }
    }

    /// A stream is over, here and in the store.
    pub(super) fn close_stream(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.close(key)
            && stream.is_recorded
        {
            self.keep(Change::StreamEnded(stream.number));
        }
    }

    /// A delivery was handed out, or failed.
    pub(super) fn record_attempt(&mut self, key: MessageKey) {
        let message = &mut self.messages[key];
        let delivery = message.order;
        let Some(kept) = message.kept_mut() else { return };
        kept.recorded = kept.attempts;
        let (attempts, failures) = (kept.attempts, kept.failures);
        self.keep(Change::Attempted { delivery, attempts, failures });
    }

    /// The store has kept all changes up to this one.
    pub(super) fn kept(&mut self, upto: u64) {
        self.ledger.kept = upto.min(self.ledger.said);
        while let Some(waiting) = self.ledger.next_until(upto) {
            match waiting {
                Waiting::Taken(pending) => self.taken_is_kept(*pending),
                Waiting::Again(promise, from, content) => self.answer_again(promise, from, content),
                Waiting::Numbers(stream, upto) => self.reserved(stream, upto),
                Waiting::Subscribed(client, id) => self.acknowledge(client, id.as_str()),
                Waiting::Seated(client) => self.seated(client),
            }
        }
    }

    /// The changes up to this one are through, but of messages nothing could be kept.
    pub(super) fn refused(&mut self, upto: u64, why: &str) {
        self.ledger.kept = upto.min(self.ledger.said);
        while let Some(waiting) = self.ledger.next_until(upto) {
            match waiting {
                Waiting::Taken(pending) => self.not_kept(*pending, why),
                Waiting::Again(promise, from, content) => self.answer_again(promise, from, content),
                // The store owes them still. Who speaks at most once isn't to wait for a disk, nor who
                // wants to listen.
                Waiting::Numbers(stream, upto) => self.reserved(stream, upto),
                Waiting::Subscribed(client, id) => self.acknowledge(client, id.as_str()),
                Waiting::Seated(client) => self.seated(client),
            }
        }
    }

    fn taken_is_kept(&mut self, pending: Pending) {
        if let Some(promise) = pending.promise {
            self.accept(&promise);
        }
        for key in pending.deliveries {
            // It may be over already: its recipient's name was forgotten.
            let Some(message) = self.messages.get_mut(key) else { continue };
            let (stream, to) = (message.stream, message.to);
            if let Some(kept) = message.kept_mut() {
                kept.state = State::Waiting;
                let delivery = kept.id;
                self.question_is_kept(delivery);
            }
            self.set_alarm(key);
            self.refresh_turn(stream);
            self.pump(to);
        }
    }

    fn reserved(&mut self, key: StreamKey, upto: u64) {
        // It may be over already, with its recipient's name.
        if self.streams.get(key).is_some() {
            self.streams[key].reserved = upto;
            self.refresh_turn(key);
            self.pump(self.streams[key].to());
        }
    }

    /// Undoes the taking of a SEND, as far as it could not be kept.
    fn not_kept(&mut self, pending: Pending, why: &str) {
        let agents: Vec<_> =
            pending.deliveries.iter().filter_map(|key| Some(self.messages.get(*key)?.to)).collect();
        for key in &pending.deliveries {
            if let Some(message) = self.settle(*key) {
                if let Some(kept) = message.kept() {
                    self.close_question(kept.id);
                }
                self.pump(message.to);
            }
        }
        self.forget_taken(&pending, agents);
        let Some(promise) = pending.promise else { return };
        let message = format!("the store could not keep it; send it again later: {why}");
        self.refuse(promise.client, promise.send_id.as_str(), NackCode::StoreFailed, message);
    }

    /// The same SEND is to reach these again; who has it from an earlier time keeps it.
    fn forget_taken(&mut self, pending: &Pending, mut agents: Vec<AgentKey>) {
        let Some(sender) = self.roster.get_mut(pending.sender) else { return };
        let Some(standing) = sender.doubles.standing(pending.content).cloned() else { return };
        let (had, number) = match standing {
            Standing::Taken { recipients, number, .. } => (recipients.unwrap_or(1), number),
            Standing::Partly { recipients, left, number, .. } => {
                agents.extend(left);
                (recipients, number)
            }
        };
        let recipients = had.saturating_sub(pending.deliveries.len() as u64);
        let doubles = &mut sender.doubles;
        self.doubles -= doubles.len();
        if recipients == 0 {
            doubles.forget(pending.content);
        } else {
            doubles.restate(
                pending.content,
                Standing::Partly { recipients, left: agents, number, ticket: 0 },
            );
        }
        self.doubles += doubles.len();
    }

    fn answer_again(&mut self, promise: Promise, from: AgentKey, content: Content) {
        let sender = self.roster.get(from);
        match sender.and_then(|sender| sender.doubles.standing(content)) {
            // What came first was refused, and what is being kept was sent anew.
            Some(Standing::Taken { ticket, .. }) if !self.ledger.is_kept(*ticket) => {
                self.promise_again(promise, from, content);
            }
            Some(Standing::Taken { .. }) => self.accept(&promise),
            // BUSY or the store's refusal was the first one's answer, and is the second one's.
            _ => {
                let message = "the store could not keep it; send it again later".to_owned();
                self.refuse(
                    promise.client,
                    promise.send_id.as_str(),
                    NackCode::StoreFailed,
                    message,
                );
            }
        }
    }

    /// The daemon ends in good order: what was recorded for the worst case is put right.
    pub(super) fn settle_ledger(&mut self) {
        for key in self.streams.keys() {
            let stream = &self.streams[key];
            if stream.is_recorded && stream.asked != u64::MAX && stream.asked != stream.last_seq() {
                let last = stream.last_seq();
                let record = self.stream_record(key, last);
                self.keep(Change::Stream(Box::new(record)));
            }
        }
        let is_off = |key: &MessageKey| {
            self.messages[*key].kept().is_some_and(|kept| kept.attempts != kept.recorded)
        };
        let off: Vec<_> = self.deliveries.values().copied().filter(is_off).collect();
        for key in off {
            self.record_attempt(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_numbers_were_used_the_more_are_reserved() {
        assert_eq!([1, 513, 4_095].map(ahead), [BLOCK; 3]);
        assert_eq!([4_096, 1 << 20].map(ahead), [2 * BLOCK, 257 * BLOCK]);
        assert_eq!([1 << 30, 1 << 52].map(ahead), [BLOCKS_MAX * BLOCK; 2]);
    }
}
