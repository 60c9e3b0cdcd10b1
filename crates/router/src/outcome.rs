//! Outcomes: what senders are told of their messages.

use super::{interface::ClientId, keys::AgentKey};
use std::sync::Arc;

/// How a message ended, for its sender: it failed, or its question was answered.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) sender: AgentKey,
    /// The connection of the companion or operator that sent the message. Only it is told, or, of a
    /// failure after it has left, its agent.
    pub(super) by: Option<ClientId>,
    /// The connection that asked the question; if it has left, its agent is told.
    pub(super) client: Option<ClientId>,
    pub(super) is_failure: bool,
    pub(super) notice: Notice,
}

impl Outcome {
    /// Whether nobody is told once the connection that sent the message has left.
    pub(super) const fn ends_with_sender(&self) -> bool {
        self.by.is_some() && !self.is_failure
    }

    pub(super) fn notice_of_sender(&self) -> (AgentKey, Notice) {
        (self.sender, self.notice.clone())
    }

    /// The sender, and the bytes that it is charged with while the outcome waits.
    pub(super) fn charged(&self) -> (AgentKey, usize) {
        (self.sender, self.notice.frame.len())
    }
}

/// An outcome as a frame for its sender.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) frame: Arc<[u8]>,
    /// The number of the notice's record, if the store has one.
    pub(crate) number: Option<u64>,
}
