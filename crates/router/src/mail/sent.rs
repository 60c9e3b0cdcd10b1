//! A SEND, as all its deliveries share it.

use crate::{
    interface::ClientId,
    keys::AgentKey,
    sender::{SendId, SenderAuth},
};
use protocol::record::MessageRecord;
use std::sync::Arc;

/// The part of a SEND that is the same for all its recipients.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) from: AgentKey,
    /// The connection that sent the message, if it is a companion's or an operator's. NACKs go to
    /// that connection. Once it has left, the agent gets only those of failed at-least-once
    /// deliveries.
    pub(crate) by: Option<ClientId>,
    pub(crate) auth: Arc<SenderAuth>,
    pub(crate) id: SendId,
    /// Whether the message was sent to everyone or to a topic.
    pub(crate) to_everyone: bool,
    /// The part of the DELIVERs that is the same for all recipients and attempts.
    pub(crate) shared: Arc<[u8]>,
}

impl Sent {
    /// Returns the SEND of a recorded message, whose sender is known as `from`.
    pub(crate) fn restored(from: AgentKey, message: &MessageRecord, auth: Arc<SenderAuth>) -> Self {
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
    pub(crate) fn record(&self, number: u64, sender: u64, unix_ms: u64) -> MessageRecord {
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
