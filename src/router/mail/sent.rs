//! A SEND, as all its deliveries share it.

use crate::{
    record::MessageRecord,
    router::{
        interface::ClientId,
        keys::AgentKey,
        sender::{SendId, SenderAuth},
    },
};
use std::sync::Arc;

/// The part of a SEND that is the same for all its recipients.
#[derive(Debug)]
pub(in crate::router) struct Sent {
    pub(in crate::router) from: AgentKey,
    /// The connection that sent the message, if it is a companion's or an operator's. NACKs go to
    /// that connection. Once it has left, the agent gets only those of failed at-least-once
    /// deliveries.
    pub(in crate::router) by: Option<ClientId>,
    pub(in crate::router) auth: Arc<SenderAuth>,
    pub(in crate::router) id: SendId,
    /// Whether the message was sent to everyone or to a topic.
    pub(in crate::router) to_everyone: bool,
    /// The part of the DELIVERs that is the same for all recipients and attempts.
    pub(in crate::router) shared: Arc<[u8]>,
}

impl Sent {
    /// Returns the SEND of a recorded message, whose sender is known as `from`.
    pub(in crate::router) fn restored(
        from: AgentKey,
        message: &MessageRecord,
        auth: Arc<SenderAuth>,
    ) -> Self {
        Self {
            from,
            by: None,
            auth,
            id: SendId::new(&message.send_id),
            to_everyone: message.to_everyone,
            shared: message.shared.clone(),
        }
    }

    /// Returns the record of the message, which came at `unix_ms` from the agent with the number
    /// `sender`.
    pub(in crate::router) fn record(
        &self,
        number: u64,
        sender: u64,
        unix_ms: u64,
    ) -> MessageRecord {
        MessageRecord {
            number,
            sender,
            session: self.auth.session.clone(),
            proof: self.auth.proof,
            send_id: self.id.as_str().into(),
            to_everyone: self.to_everyone,
            unix_ms,
            shared: self.shared.clone(),
        }
    }
}
