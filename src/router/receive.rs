//! Frames from clients, reports of written bytes, and subscriptions.

use super::{
    Router,
    connections::{Content, Handling, Membership, Stage},
    directory::bytes_of,
    interface::{ClientId, CloseReason},
    notices,
};
use crate::protocol::{
    code::{ErrorCode, NackCode},
    envelope::{Envelope, Kind},
    payload::{Bye, Heartbeat},
    text::Quoted,
    topic::Pattern,
};

impl Router {
    pub(super) fn frame(&mut self, id: ClientId, json: &[u8]) {
        match self.connections.note_frame(&mut self.ctx, id, json) {
            None => {}
            Some(Handling::Now) => self.handle_frame(id, json),
            Some(Handling::Deferred) => {
                self.mail.make_room(&mut self.ctx, json.len());
                if let Some(violation) = self.connections.defer(&mut self.ctx, id, json) {
                    self.violated(id, violation);
                }
            }
        }
    }

    fn handle_frame(&mut self, id: ClientId, json: &[u8]) {
        match self.connections.stage(id) {
            Some(Stage::Member(_)) => match Envelope::read(json) {
                Ok(envelope) => self.envelope(id, &envelope),
                Err(violation) => self.violated(id, violation),
            },
            Some(Stage::Unauthenticated { .. }) => self.first_frame(id, json),
            Some(Stage::WaitingForName(_)) => unreachable!("reading from the client is paused"),
            Some(Stage::Closing { .. } | Stage::HungUp) | None => {}
        }
    }

    /// Handles a client's deferred frames, as long as the client reads its answers. Then ends the
    /// read pause.
    pub(super) fn handle_deferred(&mut self, id: ClientId) {
        while let Some(json) = self.connections.next_deferred(&mut self.ctx, id) {
            self.handle_frame(id, &json);
        }
        self.connections.resume_reading(&mut self.ctx, id);
    }

    fn envelope(&mut self, id: ClientId, envelope: &Envelope<'_>) {
        let done = match envelope.kind {
            Kind::Send => {
                self.send(id, envelope);
                Ok(())
            }
            // Companions and operators get no deliveries, so their ACKs and NACKs are ignored.
            Kind::Ack | Kind::Nack
                if self.connections.membership(id).is_some_and(Membership::is_beside) =>
            {
                Ok(())
            }
            Kind::Ack => {
                envelope.decode_member(envelope.payload).map(|ack| self.acknowledged(id, &ack))
            }
            Kind::Nack => {
                envelope.decode_member(envelope.payload).map(|nack| self.returned(id, &nack))
            }
            Kind::Pong => envelope.decode_member::<Heartbeat>(envelope.payload).map(drop),
            Kind::Subscribe | Kind::Unsubscribe => {
                self.subscribe(id, envelope);
                Ok(())
            }
            Kind::Bye => envelope.decode_member(envelope.payload).map(|bye: Bye| {
                self.log(id, &format!("said BYE: {}", Quoted(&bye.reason)));
                self.close(id, CloseReason::Bye);
            }),
            Kind::Resume => {
                self.resume(id, envelope);
                Ok(())
            }
            Kind::Hello => {
                let why = "this connection has sent HELLO already";
                Err(envelope.violation(ErrorCode::Invalid, why))
            }
            Kind::Welcome | Kind::Deliver | Kind::Ping | Kind::Error | Kind::Busy | Kind::Sync => {
                let why = format!("{} is sent only by the daemon", envelope.kind);
                Err(envelope.violation(ErrorCode::Invalid, why))
            }
        };
        if let Err(violation) = done {
            self.violated(id, violation);
        }
    }

    fn subscribe(&mut self, id: ClientId, envelope: &Envelope<'_>) {
        match self.change_subscription(id, envelope) {
            Ok(()) => self.acknowledge_persisted(id, &envelope.id),
            Err((code, message)) => {
                self.connections.nack(&mut self.ctx, id, &envelope.id, code, message);
            }
        }
    }

    fn change_subscription(
        &mut self,
        id: ClientId,
        envelope: &Envelope<'_>,
    ) -> Result<(), (NackCode, String)> {
        let kind = envelope.kind.as_str();
        let most = self.ctx.limits.subscriptions_max;
        let Some(agent) = self.connections.agent_of(id) else { return Ok(()) };
        let membership = self.connections.membership(id);
        if membership.is_none_or(|membership| !membership.capabilities.supports_topics) {
            return Err((NackCode::Forbidden, "this connection has supports_topics: false".into()));
        }
        let topic = envelope
            .topic
            .as_deref()
            .ok_or_else(|| (NackCode::Invalid, format!("{kind} names its topic in `topic`")))?;
        let pattern = Pattern::parse(topic).map_err(|why| (NackCode::Invalid, why.to_string()))?;
        let Some(session) = self.directory.session(agent) else { return Ok(()) };
        let journal = &self.ctx.journal;
        if journal.backlog() >= self.ctx.limits.backlog_max || journal.is_busy_subscribing() {
            return Err((NackCode::Limit, format!("the store is behind; send {kind} again later")));
        }
        let is_subscribed = session.subscriptions.contains(&pattern);
        match (envelope.kind, is_subscribed) {
            (Kind::Subscribe, false) if session.subscriptions.len() >= most => {
                let why = format!("a session has at most {most} subscriptions");
                return Err((NackCode::Limit, why));
            }
            (Kind::Subscribe, false) => {
                if !self.has_room_to_subscribe(&pattern) {
                    let why = "the daemon has no memory for another subscription; try later";
                    return Err((NackCode::Limit, why.into()));
                }
                self.directory.subscribe(&mut self.ctx, agent, pattern);
            }
            (Kind::Unsubscribe, true) => {
                self.directory.unsubscribe(&mut self.ctx, agent, &pattern);
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn has_room_to_subscribe(&mut self, pattern: &Pattern) -> bool {
        self.mail.make_room(&mut self.ctx, bytes_of(pattern));
        self.directory.has_room_to_subscribe(&self.ctx, pattern)
    }

    /// Notes that the operating system has accepted bytes of a client's frames.
    pub(super) fn written(&mut self, id: ClientId, bytes: usize) {
        if !self.connections.contains(id) {
            return;
        }
        self.connections.add_written(&self.ctx, id, bytes);
        let agent = self.connections.agent_of(id);
        while let Some(frame) = self.connections.next_written(&mut self.ctx, id) {
            match frame.content {
                Content::Answer | Content::Copy => {}
                Content::Notice(notice) => notices::record_end(&mut self.ctx, &notice),
                Content::AtMostOnce { from, .. } => {
                    if let Some(agent) = agent {
                        self.mail.release(&mut self.ctx, agent, from, frame.bytes);
                    }
                }
                // While a connection is being closed, its message may be in flight to the agent's
                // next connection already.
                Content::AtLeastOnce(key) if self.connections.membership(id).is_some() => {
                    self.mail.note_written(key);
                }
                Content::AtLeastOnce(_) => {}
            }
        }
        if self.connections.is_paused(id) {
            self.handle_deferred(id);
        }
        if let Some(agent) = agent {
            self.pump(agent);
        }
    }
}
