//! Frames from clients, reports of written bytes, and subscriptions.

use super::{
    Router,
    accounts::{Class, nameless},
    connections::{Content, Membership, Stage},
    directory::bytes_of,
    interface::{ClientId, CloseReason},
    keys::AgentKey,
    mail::Load,
    notices,
    work::{self, FRAME_WORK},
};
use protocol::{
    client_frame::{ClientFrame, ClientPayload, wrong_payload},
    code::{ErrorCode, NackCode, Violation},
    envelope::{Envelope, Kind},
    text::Quoted,
    topic::Pattern,
};

impl Router {
    /// Handles a frame whose turn it is.
    pub(super) fn frame(&mut self, id: ClientId, frame: &ClientFrame<'_>) {
        self.ctx.spend(FRAME_WORK + work::of_bytes(frame.bytes()));
        match (self.connections.stage(id), frame) {
            (Some(Stage::Member(_)), ClientFrame::Valid(envelope, payload)) => {
                if let Err(violation) = self.envelope(id, envelope, *payload) {
                    self.violated(id, violation);
                }
            }
            (Some(Stage::Member(_)), ClientFrame::Malformed(malformed)) => {
                self.violated(id, malformed.violation.clone());
            }
            (Some(Stage::Unauthenticated { .. }), frame) => {
                self.first_frame(id, frame);
                if let Some(late) = self.connections.note_first_frame(&mut self.ctx, id) {
                    self.violated(id, late);
                }
            }
            // The client's frames wait while it waits for a name. A client that has gone meanwhile
            // has nothing more to say.
            (Some(Stage::WaitingForName(_) | Stage::Closing { .. } | Stage::HungUp) | None, _) => {}
        }
    }

    fn envelope(
        &mut self,
        id: ClientId,
        envelope: &Envelope<'_>,
        payload: Result<&ClientPayload, &str>,
    ) -> Result<(), Violation> {
        let is_beside = self.connections.membership(id).is_some_and(Membership::is_beside);
        match (envelope.kind, payload) {
            (Kind::Send, payload) => self.send(id, envelope, payload),
            // Companions and operators get no deliveries, so their ACKs and NACKs are ignored.
            (Kind::Ack | Kind::Nack, _) if is_beside => {}
            (Kind::Subscribe | Kind::Unsubscribe, _) => self.subscribe(id, envelope),
            (Kind::Resume, _) => {
                let resume = self.read_resume(envelope);
                let resume = resume.map_err(|why| wrong_payload(envelope, &why))?;
                self.resume(id, envelope, &resume);
            }
            (Kind::Hello, _) => {
                let why = "this connection has sent HELLO already";
                return Err(envelope.violation(ErrorCode::Invalid, why));
            }
            (
                Kind::Welcome | Kind::Deliver | Kind::Ping | Kind::Error | Kind::Busy | Kind::Sync,
                _,
            ) => {
                let why = format!("{} is sent only by the daemon", envelope.kind);
                return Err(envelope.violation(ErrorCode::Invalid, why));
            }
            (Kind::Ack | Kind::Nack | Kind::Pong | Kind::Bye, Err(why)) => {
                return Err(wrong_payload(envelope, why));
            }
            (Kind::Ack | Kind::Nack | Kind::Pong | Kind::Bye, Ok(payload)) => match payload {
                ClientPayload::Ack(ack) => self.acknowledged(id, ack),
                ClientPayload::Nack(nack) => self.returned(id, nack),
                ClientPayload::Pong(pong) => self.ponged(id, &pong.nonce),
                ClientPayload::Bye(bye) => {
                    self.log(id, &format!("said BYE: {}", Quoted(&bye.reason)));
                    self.close(id, CloseReason::Bye);
                }
                _ => {}
            },
        }
        Ok(())
    }

    /// Handles a PONG. The first one proves that the client got its WELCOME: its older token ends,
    /// and it gets the notices that wait for it.
    fn ponged(&mut self, id: ClientId, nonce: &str) {
        if self.connections.note_receipt(id, nonce)
            && let Some(agent) = self.connections.agent_of(id)
        {
            self.directory.confirm_token(&mut self.ctx, agent);
            self.hand_waiting_notices(agent);
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
        let is_subscribed = session.subscriptions.contains(&pattern);
        match (envelope.kind, is_subscribed) {
            (Kind::Subscribe, false) if session.subscriptions.len() >= most => {
                let why = format!("a session has at most {most} subscriptions");
                return Err((NackCode::Limit, why));
            }
            (Kind::Subscribe, false) => {
                if !self.has_room_to_subscribe(agent, &pattern) {
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

    /// Whether the memory has room for another subscription of an agent. All subscriptions take at
    /// most half of `memory_bytes_max`, so that the other half remains for messages.
    fn has_room_to_subscribe(&mut self, agent: AgentKey, pattern: &Pattern) -> bool {
        let (bytes, most) = (bytes_of(pattern), self.ctx.limits.memory_bytes_max / 2);
        if self.ctx.accounts.excess(Class::Subscriptions, Some(agent), bytes, most) > 0 {
            return false;
        }
        self.mail.make_room(&mut self.ctx, bytes);
        self.ctx.has_memory_for(bytes)
    }

    /// Notes that the operating system has accepted bytes of a client's frames.
    pub(super) fn written(&mut self, id: ClientId, bytes: usize) {
        if !self.connections.contains(id) {
            return;
        }
        let agent = self.connections.agent_of(id);
        let is_member = self.connections.membership(id).is_some();
        let Self { ctx, connections, mail, .. } = self;
        // Most frames that are written together are messages of one sender.
        let mut run: Option<(AgentKey, Load)> = None;
        connections.take_written(ctx, id, bytes, |ctx, content| match content {
            Content::Answer | Content::Copy => {}
            Content::Notice(notice) => {
                notices::record_end(ctx, agent.unwrap_or_else(nameless), &notice);
            }
            Content::AtMostOnce { sent, charged, .. } => match &mut run {
                Some((sender, load)) if *sender == sent.from => load.add(Load::of(&sent, charged)),
                _ => {
                    let ended = run.replace((sent.from, Load::of(&sent, charged)));
                    mail.release_all(ctx, agent, ended);
                }
            },
            // While a connection is being closed, its message may be in flight to the agent's next
            // connection already.
            Content::AtLeastOnce(key) if is_member => mail.note_written(key),
            Content::AtLeastOnce(_) => {}
        });
        mail.release_all(ctx, agent, run);
        self.connections.end_pause(&mut self.ctx, id);
        if let Some(agent) = agent {
            self.pump(agent);
        }
        self.notify_lost(id);
    }
}
