//! Deliveries of queued messages: attempts, acknowledgements, returns and failures.

use super::{
    message::{Message, QueueState, RECORD_BYTES, Reliable, UnreadNotice},
    report_counts::bytes_of_report,
    table::Mail,
};
use crate::{
    context::Context,
    keys::{AgentKey, MessageKey, StreamKey},
    timers::Timer,
};
use protocol::{
    Moment,
    name::Name,
    record::{Change, DeliveryRecord, Ending, MessageRecord},
    relay::{Reported, WaitsFor},
};
use std::{
    collections::BTreeMap,
    ops::{Bound, RangeBounds},
};
use uuid::Uuid;

/// The number of failures after which a message becomes a dead letter.
const FAILURES_MAX: u32 = 10;

/// The numbers of messages in an agent's queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress<'a> {
    /// Messages that the agent has not been given yet, including those in its wrapper.
    pub(crate) waiting: u64,
    /// At-least-once DELIVERs that neither wait for the agent nor are acknowledged.
    pub(crate) in_flight: u64,
    /// The recipient's report on the oldest delivery that waits in its wrapper for a stated reason.
    pub(crate) why: Option<&'a Reported>,
}

impl Mail {
    /// Whether an agent's queue has room for another message of this sender.
    pub(crate) fn has_room(
        &self,
        ctx: &Context,
        to: AgentKey,
        from: AgentKey,
        bytes: usize,
    ) -> bool {
        let (outbox, listed) = (&self.mailboxes[to.0].outbox, ctx.accounts.listed_as(from));
        let has_room = outbox.has_room(&ctx.limits, from, listed, bytes);
        ctx.planted.has_room(has_room)
    }

    /// Whether another message that a sender sends to several recipients may wait for this one.
    pub(crate) fn has_room_for_copy(
        &self,
        ctx: &Context,
        to: AgentKey,
        from: AgentKey,
        bytes: usize,
    ) -> bool {
        let (outbox, listed) = (&self.mailboxes[to.0].outbox, ctx.accounts.listed_as(from));
        ctx.has_share_of_copies(from, outbox.copies_of(from, listed), bytes + RECORD_BYTES)
    }

    /// Returns the number of messages in an agent's queue, and their bytes.
    pub(crate) fn queued(&self, agent: AgentKey) -> (usize, usize) {
        let load = self.mailboxes[agent.0].outbox.total();
        (load.messages, load.bytes)
    }

    /// Returns the message that goes out to an agent next, if any may go out.
    pub(crate) fn next_for(
        &self,
        ctx: &Context,
        agent: AgentKey,
        in_flight_max: u64,
    ) -> Option<MessageKey> {
        let stream = self.mailboxes.get(agent.0)?.outbox.next(in_flight_max)?;
        let stream = &self.streams[stream];
        ctx.planted.first(&stream.waiting, |other| {
            let is_reliable = self.messages[other.0].reliable().is_some();
            stream.turn.is_some_and(|turn| turn.is_reliable == is_reliable)
        })
    }

    /// Whether a new message of a stream has to wait for others, or for its number to be reserved.
    pub(crate) fn has_to_wait(&self, stream: StreamKey, seq: u64, in_flight_max: u64) -> bool {
        let stream = &self.streams[stream];
        !stream.waiting.is_empty()
            || seq > stream.reserved
            || self.mailboxes[stream.to().0].outbox.next(in_flight_max).is_some()
    }

    /// Notes another attempt to deliver an at-least-once message.
    pub(crate) fn begin_attempt(&mut self, ctx: &mut Context, key: MessageKey) {
        let message = &mut self.messages[key.0];
        let (stream, seq, to) = (message.stream, message.seq, message.to);
        let attempts = message.attempts + 1;
        let Some(reliable) = message.reliable_mut() else { return };
        reliable.state = QueueState::InFlight { written: false };
        let is_recorded = attempts <= reliable.recorded;
        message.attempts = attempts;
        let stream = &mut self.streams[stream];
        stream.forget_waiting(seq);
        stream.in_flight.insert(seq, key);
        self.mailboxes[to.0].outbox.in_flight += 1;
        if !is_recorded {
            self.record_attempt(ctx, key);
        }
    }

    /// Notes that the operating system has accepted all bytes of a DELIVER.
    pub(crate) fn note_written(&mut self, key: MessageKey) {
        if let Some(reliable) = self.messages.get_mut(key.0).and_then(Message::reliable_mut)
            && let QueueState::InFlight { written } = &mut reliable.state
        {
            *written = true;
        }
    }

    /// Ends a delivery: records its ending, and removes the message from every table.
    pub(crate) fn end(
        &mut self,
        ctx: &mut Context,
        key: MessageKey,
        ending: Ending,
    ) -> Option<Message> {
        if let Some(change) = self.record_of_end(ctx, key, ending) {
            ctx.record(change);
        }
        self.remove(ctx, key)
    }

    /// Ends a delivery that its recipient has acknowledged with others. The record may follow later.
    pub(crate) fn end_with_others(
        &mut self,
        ctx: &mut Context,
        key: MessageKey,
    ) -> Option<Message> {
        let to = self.messages.get(key.0)?.to;
        if let Some(change) = self.record_of_end(ctx, key, Ending::Acknowledged) {
            ctx.record_end(to, change);
        }
        self.remove(ctx, key)
    }

    fn record_of_end(
        &mut self,
        ctx: &mut Context,
        key: MessageKey,
        ending: Ending,
    ) -> Option<Change> {
        let message = self.messages.get(key.0)?;
        let (delivery, reliable) = (message.order, message.reliable()?);
        let waits = reliable.reported.as_deref().is_some_and(Reported::is_waiting);
        if ending == Ending::Acknowledged && waits {
            self.set_report(ctx, key, None);
        }
        Some(Change::Ended { delivery, ending, unix_ms: ctx.now.unix_ms })
    }

    /// Returns the open delivery with this id.
    pub(crate) fn delivery(&self, id: Uuid) -> Option<(MessageKey, &Message)> {
        let key = *self.deliveries.get(&id)?;
        Some((key, &self.messages[key.0]))
    }

    /// Returns the open delivery with this id, if it was handed out to this agent.
    pub(crate) fn delivered_to(&self, agent: AgentKey, id: Uuid) -> Option<MessageKey> {
        let key = *self.deliveries.get(&id)?;
        let is_own = self.messages[key.0].to == agent && self.was_delivered(key);
        is_own.then_some(key)
    }

    fn was_delivered(&self, key: MessageKey) -> bool {
        let message = &self.messages[key.0];
        message.reliable.is_some() && message.attempts > 0
    }

    /// Returns the other deliveries that an ACK of this delivery ends: those of the stream up to
    /// `cumulative_seq`, if the ACK states it.
    pub(crate) fn acknowledged_with(
        &self,
        key: MessageKey,
        cumulative_seq: Option<u64>,
    ) -> Vec<MessageKey> {
        let Some(last) = cumulative_seq else { return Vec::new() };
        let stream = &self.streams[self.messages[key.0].stream];
        let in_flight = stream.in_flight.range(..=last).map(|(_, key)| *key);
        let waiting = stream.waiting.iter().take_while(|(seq, _)| *seq <= last);
        let waiting = waiting.map(|(_, key)| *key).filter(|key| self.was_delivered(*key));
        in_flight.chain(waiting).filter(|other| *other != key).collect()
    }

    /// Queues a delivery again that its recipient returned. The whole stream waits until `until`.
    pub(crate) fn delay(&mut self, ctx: &mut Context, key: MessageKey, until: Moment) {
        let message = &mut self.messages[key.0];
        let (stream, seq) = (message.stream, message.seq);
        if message.reliable().is_none() {
            return;
        }
        self.end_flight(ctx, key, QueueState::Delayed(until));
        self.streams[stream].in_flight.remove(&seq);
        self.streams[stream].wait(seq, key);
        self.refresh_turn(stream);
        self.set_timer(ctx, key);
    }

    /// Sets the state of a delivery that is no longer in flight, with the counts of its recipient.
    pub(super) fn end_flight(&mut self, ctx: &mut Context, key: MessageKey, state: QueueState) {
        let message = &mut self.messages[key.0];
        let (to, order) = (message.to, message.order);
        if let Some(reliable) = message.reliable_mut() {
            let outbox = &mut self.mailboxes[to.0].outbox;
            outbox.in_flight -= 1;
            outbox.reports.remove(ctx, to, order, reliable.reported.as_deref());
            reliable.take_back(state);
        }
    }

    /// Replaces the recipient's report on a delivery that is in flight. A reason for which the
    /// recipient's share of the memory has no room is left out.
    fn set_report(&mut self, ctx: &mut Context, key: MessageKey, mut reported: Option<Reported>) {
        let Some(message) = self.messages.get_mut(key.0) else { return };
        let (to, order) = (message.to, message.order);
        if let Some(reliable) = message.reliable_mut()
            && matches!(reliable.state, QueueState::InFlight { .. })
        {
            let reports = &mut self.mailboxes[to.0].outbox.reports;
            reports.remove(ctx, to, order, reliable.reported.as_deref());
            if let Some(reported) = &mut reported
                && !ctx.has_share_of_memory(to, bytes_of_report(reported))
            {
                reported.why = None;
            }
            reports.add(ctx, to, (order, key), reported.as_ref());
            reliable.reported = reported.map(Box::new);
        }
    }

    /// Ends a message's delay. Does nothing to a message that is not delayed.
    pub(crate) fn end_delay(&mut self, ctx: &mut Context, key: MessageKey) {
        let Some(message) = self.messages.get_mut(key.0) else { return };
        let stream = message.stream;
        if let Some(reliable @ Reliable { state: QueueState::Delayed(_), .. }) =
            message.reliable_mut()
        {
            reliable.state = QueueState::Waiting;
            self.set_timer(ctx, key);
            self.refresh_turn(stream);
        }
    }

    /// Counts a failed delivery. After too many failures, returns the reason for which the message
    /// becomes a dead letter.
    pub(crate) fn count_failure(&mut self, ctx: &mut Context, key: MessageKey) -> Option<String> {
        let reliable = self.messages.get_mut(key.0)?.reliable_mut()?;
        reliable.failures += 1;
        if reliable.failures < ctx.planted.failures_max(FAILURES_MAX) {
            self.record_attempt(ctx, key);
            return None;
        }
        Some(format!("{FAILURES_MAX} attempts to deliver it failed"))
    }

    fn record_attempt(&mut self, ctx: &mut Context, key: MessageKey) {
        let message = &mut self.messages[key.0];
        let (delivery, attempts) = (message.order, message.attempts);
        let Some(reliable) = message.reliable_mut() else { return };
        reliable.recorded = attempts;
        let failures = reliable.failures;
        ctx.record(Change::Attempted { delivery, attempts, failures });
    }

    /// Allows a persisted message to go out. Returns its recipient and its DELIVER's id, or `None`
    /// if the message has ended already.
    pub(crate) fn note_persisted(
        &mut self,
        ctx: &mut Context,
        key: MessageKey,
    ) -> Option<(AgentKey, Uuid)> {
        let message = self.messages.get_mut(key.0)?;
        let (stream, to) = (message.stream, message.to);
        let id = message.id;
        message.reliable_mut()?.state = QueueState::Waiting;
        self.set_timer(ctx, key);
        self.refresh_turn(stream);
        Some((to, id))
    }

    /// Queues all messages again that are in flight to an agent. Returns the oldest delivery that
    /// was completely written: it may have caused the end of the connection.
    pub(crate) fn take_back(&mut self, ctx: &mut Context, agent: AgentKey) -> Option<MessageKey> {
        let mut suspect: Option<(u64, MessageKey)> = None;
        let streams: Vec<_> = self.mailboxes[agent.0].in_flight_streams.iter().copied().collect();
        for stream in streams {
            for key in self.streams[stream].take_back(0) {
                let message = &mut self.messages[key.0];
                let order = message.order;
                let Some(reliable) = message.reliable_mut() else { continue };
                if reliable.state == (QueueState::InFlight { written: true })
                    && suspect.is_none_or(|(oldest, _)| order < oldest)
                {
                    suspect = Some((order, key));
                }
                self.end_flight(ctx, key, QueueState::Waiting);
            }
            self.refresh_turn(stream);
        }
        for stream in ctx.planted.lost(&self.mailboxes[agent.0].receives) {
            if let Some((_, key)) = self.streams[stream].waiting.front().copied() {
                self.remove(ctx, key);
            }
        }
        suspect.map(|(_, key)| key)
    }

    /// Returns the at-most-once messages that wait for an agent and have these orders, the oldest
    /// first.
    pub(crate) fn waiting_at_most_once(
        &self,
        agent: AgentKey,
        orders: impl RangeBounds<u64>,
    ) -> impl Iterator<Item = (u64, MessageKey)> {
        let mailbox = self.mailboxes.get(agent.0);
        let waiting = mailbox.map(|mailbox| mailbox.at_most_once.range(orders));
        waiting.into_iter().flatten().map(|(order, key)| (*order, *key))
    }

    /// Returns the replays that wait for an agent.
    pub(crate) fn waiting_replays(&self, agent: AgentKey) -> Vec<MessageKey> {
        let waiting = self.waiting_at_most_once(agent, ..).map(|(_, key)| key);
        waiting.filter(|key| self.messages[key.0].is_replay).collect()
    }

    /// Returns the messages of a stream that wait.
    pub(crate) fn waiting_in(&self, stream: StreamKey) -> Vec<MessageKey> {
        let stream = self.streams.get(stream);
        stream.into_iter().flat_map(|stream| &stream.waiting).map(|(_, key)| *key).collect()
    }

    /// Returns the at-least-once messages in an agent's queue after the order `after`, the oldest
    /// first.
    pub(crate) fn open_deliveries(
        &self,
        agent: AgentKey,
        after: u64,
    ) -> impl Iterator<Item = MessageKey> {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let mailbox = self.mailboxes.get(agent.0).into_iter();
        mailbox.flat_map(move |mailbox| mailbox.at_least_once.range(range)).map(|(_, key)| *key)
    }

    /// Returns the messages in an agent's queue that were not handed out, and with `in_flight` also
    /// those in flight. Replays are not among them.
    pub(crate) fn mail_of(
        &self,
        agent: AgentKey,
        in_flight: bool,
    ) -> impl Iterator<Item = MessageKey> {
        let mailbox = self.mailboxes.get(agent.0).into_iter();
        let keys = mailbox.flat_map(|mailbox| {
            mailbox.at_most_once.values().chain(mailbox.at_least_once.values())
        });
        keys.copied().filter(move |key| {
            let message = &self.messages[key.0];
            let state = message.reliable().map(|reliable| reliable.state);
            !message.is_replay && (in_flight || !matches!(state, Some(QueueState::InFlight { .. })))
        })
    }

    /// Returns the number of deliveries in flight to an agent.
    pub(crate) fn in_flight(&self, agent: AgentKey) -> u64 {
        self.mailboxes[agent.0].outbox.in_flight
    }

    /// Notes that a delivery is a dead letter. A late ACK from the recipient, whose number is `to`,
    /// still acknowledges it. `sender` is the number of its sender, or 0 for a guest or an unknown
    /// one.
    pub(crate) fn note_dead_letter(&mut self, id: Uuid, delivery: u64, to: u64, sender: u64) {
        self.dead_letters.add(id, delivery, to, sender);
    }

    /// Records a late ACK of a dead letter. Returns false if the agent with the number `agent`
    /// was not the recipient.
    pub(crate) fn acknowledge_dead_letter(
        &mut self,
        ctx: &mut Context,
        id: Uuid,
        agent: u64,
    ) -> bool {
        let Some(delivery) = self.dead_letters.acknowledge(id, agent) else { return false };
        let (ending, unix_ms) = (Ending::Acknowledged, ctx.now.unix_ms);
        ctx.record(Change::Ended { delivery, ending, unix_ms });
        true
    }

    /// Whether a dead letter in the store was neither redelivered nor acknowledged since.
    pub(crate) fn is_still_dead_letter(&self, id: Uuid) -> bool {
        !self.deliveries.contains_key(&id) && !self.dead_letters.is_acknowledged(id)
    }

    /// Forgets a dead letter, because it is redelivered.
    pub(crate) fn forget_dead_letter(&mut self, id: Uuid) {
        self.dead_letters.remove(id);
    }

    /// Handles a recipient's report on a delivery. Returns whether the delivery is open. A report
    /// on a delivery that is not in flight comes too late and changes nothing.
    pub(crate) fn report(&mut self, ctx: &mut Context, id: Uuid, reported: &Reported) -> bool {
        let Some(key) = self.deliveries.get(&id).copied() else { return false };
        self.set_report(ctx, key, Some(reported.clone()));
        true
    }

    /// Sets whether the sender of a delivery is told that the delivery waits.
    pub(crate) fn set_unread(&mut self, ctx: &mut Context, key: MessageKey, unread: UnreadNotice) {
        let message = self.messages.get_mut(key.0).and_then(Message::reliable_mut);
        let Some(reliable) = message else { return };
        if let UnreadNotice::ToldAt(at) = unread {
            ctx.timers.set(at, Timer::Unread(key));
        }
        reliable.unread = unread;
    }

    /// Whether the sender of a delivery was told that an older one of the same stream waits, which
    /// still does.
    pub(crate) fn is_older_told(&self, message: &Message) -> bool {
        let oldest = self.streams[message.stream].in_flight.first_key_value();
        oldest.is_some_and(|(seq, key)| {
            let reliable = self.message(*key).and_then(Message::reliable);
            *seq < message.seq && reliable.is_some_and(|own| own.unread == UnreadNotice::Settled)
        })
    }

    /// Counts the messages in an agent's queue. `reports` tells whether the agent's connection
    /// reports on deliveries.
    pub(crate) fn progress(&self, agent: AgentKey, reports: bool) -> Progress<'_> {
        let outbox = &self.mailboxes[agent.0].outbox;
        let in_flight = outbox.reports.not_waiting(outbox.in_flight, reports);
        let oldest = outbox.reports.oldest_reason();
        Progress {
            waiting: outbox.total().messages as u64 - in_flight,
            in_flight,
            why: oldest.and_then(|key| self.message(key)?.reliable()?.reported.as_deref()),
        }
    }

    /// Returns the obstacle that keeps a waiting message from going out. `in_flight_max` is the
    /// limit of its recipient's connection, or `None` if the recipient is away.
    pub(crate) fn obstacle(&self, message: &Message, in_flight_max: Option<u64>) -> WaitsFor {
        let Some(in_flight_max) = in_flight_max else { return WaitsFor::Recipient };
        let stream = &self.streams[message.stream];
        let in_flight = self.mailboxes[message.to.0].outbox.in_flight;
        match stream.turn {
            None if message.seq > stream.reserved => WaitsFor::Store,
            Some(turn) if turn.order == message.order && in_flight >= in_flight_max => {
                WaitsFor::Window
            }
            _ => WaitsFor::Turn,
        }
    }

    /// Gives the deliveries of one SEND the number of their message in records.
    pub(crate) fn set_message_number(&mut self, deliveries: &[MessageKey], number: u64) {
        for key in deliveries {
            if let Some(reliable) = self.messages[key.0].reliable_mut() {
                reliable.message = number;
            }
        }
    }

    /// Returns the record of an at-least-once delivery to an agent of this name.
    pub(crate) fn delivery_record(
        &self,
        key: MessageKey,
        to_name: &Name,
    ) -> Option<DeliveryRecord> {
        let message = &self.messages[key.0];
        let reliable = message.reliable()?;
        Some(DeliveryRecord {
            number: message.order,
            message: reliable.message,
            stream: self.streams[message.stream].number,
            to: self.mailboxes[message.to.0].number,
            to_name: to_name.clone(),
            seq: message.seq,
            id: message.id,
            expires: message.expires,
            attempts: reliable.recorded,
            failures: reliable.failures,
        })
    }

    /// Returns the record of an at-least-once delivery's message.
    pub(crate) fn message_record(&self, key: MessageKey) -> Option<MessageRecord> {
        let message = &self.messages[key.0];
        let reliable = message.reliable()?;
        let sender = self.streams[message.stream].sender_number();
        Some(message.sent.record(reliable.message, sender, reliable.unix_ms))
    }

    /// Returns all accepted at-least-once deliveries, by the number of their message.
    pub(crate) fn accepted(&self) -> BTreeMap<u64, Vec<MessageKey>> {
        let mut accepted: BTreeMap<u64, Vec<MessageKey>> = BTreeMap::new();
        for key in self.deliveries.values() {
            if let Some(reliable) = self.messages[key.0].reliable()
                && reliable.state != QueueState::Persisting
            {
                accepted.entry(reliable.message).or_default().push(*key);
            }
        }
        for deliveries in accepted.values_mut() {
            deliveries.sort_unstable_by_key(|key| self.messages[key.0].order);
        }
        accepted
    }

    /// Records exact numbers of sequences and attempts at an orderly stop, in place of the upper
    /// bounds that were recorded in advance.
    pub(crate) fn record_stop(&mut self, ctx: &mut Context) {
        self.record_last_numbers(ctx);
        let differs = |key: &MessageKey| {
            let message = &self.messages[key.0];
            message.reliable().is_some_and(|reliable| message.attempts != reliable.recorded)
        };
        let mut differing: Vec<_> = self.deliveries.values().copied().filter(differs).collect();
        differing.sort_unstable_by_key(|key| self.messages[key.0].order);
        for key in differing {
            self.record_attempt(ctx, key);
        }
    }
}
