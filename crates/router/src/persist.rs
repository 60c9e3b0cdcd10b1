//! Persisting of SENDs, and the actions that continue once the store has persisted a change.

use super::{
    Router,
    interface::ClientId,
    journal::{Acceptance, Continuation, PendingSend},
    keys::{AgentKey, MessageKey},
    mail::SendState,
    send_digest::SendDigest,
    send_request::SendRequest,
    sender::{SendId, SenderAuth},
};
use protocol::{
    code::NackCode,
    envelope::Kind,
    payload::Ack,
    record::{AcceptedSend, Change, DedupRecord},
};
use std::sync::Arc;

/// The most actions that continue at one input, so that frames are handled in between. The store
/// persists thousands of changes together.
pub(super) const ACTIONS_PER_INPUT: usize = if cfg!(test) { 64 } else { 512 };

/// How far a SEND has come.
#[derive(Default)]
pub(super) struct Reach<'a> {
    /// The number of recipients that have it, if it goes to several.
    pub(super) recipients: Option<u64>,
    /// The recipients that do not have it yet.
    pub(super) left: &'a [AgentKey],
}

/// A SEND that was handed to the store.
pub(super) struct Recorded {
    /// The message's number in records.
    pub(super) number: u64,
    /// The change's ticket.
    pub(super) ticket: u64,
}

/// Returns the ACK that accepts a SEND.
pub(super) fn acceptance_of(
    send: &SendRequest<'_>,
    recipients: Option<u64>,
    away: bool,
) -> Acceptance {
    let send_id = SendId::new(&send.envelope.id);
    Acceptance { client: send.client, send_id, recipients, away, answers: None }
}

impl Router {
    /// Hands a SEND to the store, or only its new deliveries if the message is stored already, with
    /// this number.
    pub(super) fn persist(
        &mut self,
        send: &SendRequest<'_>,
        digest: SendDigest,
        number: Option<u64>,
        deliveries: Vec<MessageKey>,
        Reach { recipients, left }: Reach<'_>,
        acceptance: Option<Acceptance>,
    ) -> Recorded {
        let is_first = number.is_none();
        let number = number.unwrap_or_else(|| self.ctx.journal.next_message());
        self.mail.set_message_number(&deliveries, number);
        let queued = deliveries.first().and_then(|key| self.mail.message(*key));
        let sent = match queued {
            Some(queued) => Arc::clone(&queued.sent),
            None => self.sent(send, recipients.is_some()),
        };
        let sender = self.directory[send.from].number;
        let message = sent.record(number, sender, self.ctx.now.unix_ms);
        let dedup = DedupRecord {
            message: number,
            sender,
            fingerprint: digest.fingerprint(),
            recipients,
            remaining: self.directory.numbers_of(left),
        };
        let records = deliveries.iter().filter_map(|key| self.delivery_record(*key)).collect();
        let accepted = AcceptedSend { message, deliveries: records, dedup };
        self.directory.record_guest(&mut self.ctx, send.from);
        let ticket = self.ctx.record(Change::Accepted(Box::new(accepted)));
        let sender = send.from;
        let pending = PendingSend { sender, digest, deliveries, is_first, acceptance };
        let awaited = self.ctx.planted.awaited(ticket);
        self.ctx.wait(awaited, Continuation::Accept(Box::new(pending)));
        Recorded { number, ticket }
    }

    /// Returns the session and proof of the connection that sent a SEND.
    pub(super) fn auth_of(&self, send: &SendRequest<'_>) -> &Arc<SenderAuth> {
        &self.connections.membership(send.client).expect("only members send").auth
    }

    /// Answers a repeated SEND, if the first one is queued for all its recipients. Returns the
    /// state of the first one, or `None` if no such SEND is remembered.
    pub(super) fn answer_repeated(
        &mut self,
        send: &SendRequest<'_>,
        digest: SendDigest,
    ) -> Option<SendState> {
        let state = self.mail.send_state(send.from, digest)?.clone();
        if let SendState::Complete { recipients, away, ticket, .. } = state {
            let acceptance = acceptance_of(send, recipients, away);
            if self.ctx.journal.is_persisted(ticket) {
                self.accept(&acceptance);
            } else {
                self.wait(Continuation::Repeat(acceptance, send.from, digest));
            }
        }
        Some(state)
    }

    /// Remembers the state of a SEND in its sender's dedup window. `opened` deliveries are new.
    pub(super) fn remember_send(
        &mut self,
        send: &SendRequest<'_>,
        digest: SendDigest,
        state: SendState,
        opened: u32,
    ) {
        let most = self.ctx.limits.dedup_max;
        self.mail.remember_send(&mut self.ctx, send.from, digest, state, opened, most);
        self.mail.bound_dedup(&mut self.ctx, |agent| self.directory.get(agent)?.forget_at);
    }

    fn accept(&mut self, acceptance: &Acceptance) {
        if let Some(question) = acceptance.answers {
            self.questions.close(&mut self.ctx, question);
            return;
        }
        let ack = Ack {
            ack_id: acceptance.send_id.as_str().into(),
            state: Some("accepted".into()),
            durability: Some(self.ctx.limits.durability.as_str().into()),
            recipients: acceptance.recipients,
            away: acceptance.away,
            ..Ack::default()
        };
        self.connections.answer(&mut self.ctx, acceptance.client, Kind::Ack, &ack);
    }

    /// Queues an action until all changes so far are persisted.
    pub(super) fn wait(&mut self, continuation: Continuation) {
        let last = self.ctx.journal.last_ticket();
        self.ctx.wait(last, continuation);
    }

    /// Hands out a client's WELCOME, and allows at-least-once messages to it, once the store has
    /// recorded its session and that its agent is here. A store that fails is not waited for.
    pub(super) fn await_recorded(&mut self, client: ClientId) {
        if self.ctx.journal.is_settled() {
            self.recorded(client);
        } else {
            self.wait(Continuation::Join(client));
        }
    }

    fn recorded(&mut self, client: ClientId) {
        self.connections.release_frames(&mut self.ctx, client);
        self.connections.ask_for_receipt(&mut self.ctx, client);
        if let Some(agent) = self.connections.note_recorded(client) {
            self.pump(agent);
        }
    }

    /// Acknowledges a change of subscriptions once all changes so far are persisted.
    pub(super) fn acknowledge_persisted(&mut self, client: ClientId, id: &str) {
        if self.ctx.journal.is_settled() {
            self.connections.acknowledge(&mut self.ctx, client, id);
        } else {
            self.wait(Continuation::Subscribe(client, SendId::new(id)));
        }
    }

    /// Handles the store's report that it has handled all changes up to this one. `refused` is the
    /// reason if the messages among them could not be persisted.
    pub(super) fn persisted(&mut self, upto: u64, refused: Option<&str>) {
        if refused.is_some() {
            // What was persisted before the refusal is accepted first.
            self.continue_persisted(usize::MAX, None);
        }
        self.ctx.journal.advance(upto);
        self.continue_persisted(refused.map_or(ACTIONS_PER_INPUT, |_| usize::MAX), refused);
    }

    /// Continues at most this number of actions whose changes the store has handled, and releases
    /// the charges for changes whose actions have continued.
    pub(super) fn continue_persisted(&mut self, most: usize, refused: Option<&str>) {
        for _ in 0..most {
            let Some(ready) = self.ctx.journal.next_ready() else { break };
            match (ready, refused) {
                (Continuation::Accept(pending), None) => self.accept_pending(*pending),
                (Continuation::Accept(pending), Some(why)) => self.refuse_pending(*pending, why),
                (Continuation::Repeat(acceptance, from, digest), _) => {
                    self.conclude_repeated(acceptance, from, digest);
                }
                // A store that refuses messages still persists the other changes, maybe later.
                // At-most-once messages and subscriptions do not wait for that.
                (Continuation::Reserve(stream, upto), _) => {
                    if let Some(to) = self.mail.note_reserved(stream, upto) {
                        self.pump(to);
                    }
                }
                (Continuation::Subscribe(client, id), _) => {
                    self.connections.acknowledge(&mut self.ctx, client, id.as_str());
                }
                (Continuation::Join(client), _) => self.recorded(client),
                (Continuation::Tell(outcome), _) => self.told(*outcome),
                (Continuation::Notices(agent), _) => self.hand_notices(agent),
                (Continuation::Respond(client, data), _) => self.request_persisted(client, &data),
            }
        }
        self.ctx.release_store();
        self.ctx.record_deferred(false);
        self.overdue.note_handled(&self.ctx);
        for agent in self.connections.end_store_pauses(&mut self.ctx) {
            self.pump(agent);
        }
    }

    fn accept_pending(&mut self, pending: PendingSend) {
        let is_answer = pending.acceptance.as_ref().is_some_and(|it| it.answers.is_some());
        if !is_answer {
            self.ctx.counts.taken += u64::from(pending.is_first);
            self.copy_accepted_to_taps(&pending.deliveries);
        }
        let has_ended = || pending.deliveries.iter().all(|key| self.mail.message(*key).is_none());
        // The sender of a message that has ended already is told so, and gets no ACK.
        let is_told = |it: &Acceptance| it.recipients.is_none() && !is_answer && has_ended();
        if let Some(acceptance) = pending.acceptance.filter(|it| !is_told(it)) {
            self.accept(&acceptance);
        }
        for key in pending.deliveries {
            // The message may have ended already, because its recipient's name was forgotten.
            if let Some((to, delivery)) = self.mail.note_persisted(&mut self.ctx, key) {
                self.notify_accepted(key);
                if self.questions.is_due(delivery, self.ctx.now.monotonic) {
                    self.time_out_question(delivery);
                }
                self.pump(to);
            }
        }
    }

    /// Undoes the deliveries of a SEND that could not be persisted, and sends a NACK in place of
    /// its ACK.
    fn refuse_pending(&mut self, pending: PendingSend, why: &str) {
        let recipients = pending.deliveries.iter();
        // The sender of a message that has ended already is told that.
        let has_ended = recipients.clone().all(|key| self.mail.message(*key).is_none());
        let recipients: Vec<_> =
            recipients.filter_map(|key| Some(self.mail.message(*key)?.to)).collect();
        for key in &pending.deliveries {
            if let Some(message) = self.mail.remove(&mut self.ctx, *key) {
                self.questions.close(&mut self.ctx, message.id);
                self.pump(message.to);
            }
        }
        let deliveries = pending.deliveries.len();
        self.mail.undo_send(&mut self.ctx, pending.sender, pending.digest, deliveries, recipients);
        let is_told =
            |it: &Acceptance| it.recipients.is_none() && it.answers.is_none() && has_ended;
        let Some(acceptance) = pending.acceptance.filter(|it| !is_told(it)) else { return };
        let message = format!("the store could not keep the message; send it again later: {why}");
        match acceptance.answers {
            Some(question) => self.return_mailed_answer(acceptance.client, question, message),
            None => {
                let id = acceptance.send_id.as_str();
                self.refuse(acceptance.client, id, NackCode::StoreFailed, message);
            }
        }
    }

    fn conclude_repeated(&mut self, acceptance: Acceptance, from: AgentKey, digest: SendDigest) {
        match self.mail.send_state(from, digest) {
            // The first SEND was refused, and a later repeat is being persisted: wait for that one.
            Some(SendState::Complete { ticket, .. }) if !self.ctx.journal.is_persisted(*ticket) => {
                self.wait(Continuation::Repeat(acceptance, from, digest));
            }
            Some(SendState::Complete { .. }) => self.accept(&acceptance),
            // The store refused the first SEND, at least for some recipients. This one is refused,
            // too.
            _ => {
                let message =
                    "the store could not keep the message; send it again later".to_owned();
                let id = acceptance.send_id.as_str();
                self.refuse(acceptance.client, id, NackCode::StoreFailed, message);
            }
        }
    }
}
