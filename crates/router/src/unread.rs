//! Notices to agents that a message of theirs waits at its recipient.
//!
//! An agent is told once, in one line, after the recipient's wrapper has reported a reason to wait
//! for a while. Only agents that report on deliveries themselves are told: their wrappers know what
//! to do with such a notice.

use super::{
    Router,
    connections::{Content, Membership},
    interface::ClientId,
    keys::{AgentKey, MessageKey},
    mail::UnreadNotice,
};
use protocol::{
    relay::{self, UNREAD},
    text::short_id,
};
use serde_json::value::to_raw_value;
use uuid::Uuid;

/// The time from the first report of a reason to the notice.
const UNREAD_MS: u64 = 30_000;

impl Router {
    /// Sets the time at which the sender of a delivery is told that the delivery waits, after a
    /// report of its recipient.
    pub(super) fn note_wait(&mut self, delivery: Uuid) {
        let Some((key, message)) = self.mail.delivery(delivery) else { return };
        let Some(reliable) = message.reliable() else { return };
        let waits = reliable.reported.as_deref().is_some_and(|reported| reported.why.is_some());
        if waits && reliable.unread == UnreadNotice::Untold && !message.sent.to_everyone {
            let at = self.ctx.now.monotonic.plus(UNREAD_MS);
            self.mail.set_unread(&mut self.ctx, key, UnreadNotice::ToldAt(at));
        }
    }

    /// Tells the sender of a delivery that the delivery waits, if it still does.
    pub(super) fn on_unread_timer(&mut self, key: MessageKey) {
        let Some(message) = self.mail.message(key) else { return };
        let Some(reliable) = message.reliable() else { return };
        let reported = reliable.reported.as_deref();
        let why = reported.filter(|reported| reported.is_waiting());
        let Some(why) = why.and_then(|reported| reported.why.clone()) else {
            // The next report of a reason starts over.
            return self.mail.set_unread(&mut self.ctx, key, UnreadNotice::Untold);
        };
        if let Some(client) = self.listening_sender(message.sent.from)
            && !self.mail.is_older_told(message)
        {
            self.tell_sender(client, key, &why);
        }
        self.mail.set_unread(&mut self.ctx, key, UnreadNotice::Settled);
    }

    /// Returns the connection of a sender that is told of messages that wait.
    fn listening_sender(&self, sender: AgentKey) -> Option<ClientId> {
        let agent = self.directory.get(sender).filter(|agent| !agent.is_guest())?;
        let client = agent.client?;
        let membership = self.connections.membership(client)?;
        membership.capabilities.reports.then_some(client)
    }

    fn tell_sender(&mut self, client: ClientId, key: MessageKey, why: &str) {
        let Some(message) = self.mail.message(key) else { return };
        let Some(to) = self.directory.get(message.to) else { return };
        let doing = to.client.and_then(|client| self.connections.membership(client));
        let doing = doing.and_then(|membership: &Membership| membership.doing);
        let now = self.ctx.now.unix_ms;
        let waited = message.reliable().map_or(0, |own| now.saturating_sub(own.unix_ms));
        let id = message.id.to_string();
        let short = short_id(&id);
        let body = format!(
            "Your message to {} (id {short}) waits: `agent-relay status {short}` says why.",
            to.name
        );
        let data = to_raw_value(&relay::Unread {
            id: id.into(),
            to: to.name.as_str().into(),
            for_ms: waited,
            why: why.into(),
            activity: doing.map(|doing| doing.activity.as_str().into()),
            activity_ms: doing.map(|doing| now.saturating_sub(doing.since)),
        })
        .expect("wire types are JSON");
        let sent = message.sent.clone();
        if let Some(frame) = self.relay_frame(client, UNREAD, &body, &data, sent.id.as_str()) {
            self.connections.hand(&mut self.ctx, client, frame, Content::Answer);
        }
    }
}
