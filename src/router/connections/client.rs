//! A connection to one client: its stage, its window and the frames that it sent too early.

use super::{deferred::Deferred, send_window::Window};
use crate::{
    protocol::{Moment, deliver::Proof, name::Name, payload::Capabilities, secret::Hash},
    router::{keys::AgentKey, sender::SenderAuth},
};

/// One connection.
#[derive(Debug)]
pub(in crate::router) struct Client {
    pub(in crate::router) stage: Stage,
    /// The agent that the client speaks for, from its WELCOME to its end.
    pub(in crate::router) agent: Option<AgentKey>,
    pub(in crate::router) window: Window,
    /// The time of the last frame.
    pub(super) last_frame: Moment,
    /// The time of a PING that no frame has followed yet.
    pub(super) pinged: Option<Moment>,
    /// The time of the client's timer.
    pub(in crate::router) timer: Option<Moment>,
    /// Reading is paused: the client leaves its answers unread, or waits for a name.
    pub(in crate::router) is_paused: bool,
    pub(in crate::router) deferred: Deferred,
}

impl Client {
    pub(super) fn new(since: Moment) -> Self {
        Self {
            stage: Stage::Unauthenticated { since },
            agent: None,
            window: Window::default(),
            last_frame: since,
            pinged: None,
            timer: None,
            is_paused: false,
            deferred: Deferred::default(),
        }
    }
}

/// How far a connection has come.
#[derive(Debug)]
pub(in crate::router) enum Stage {
    /// No handshake yet.
    Unauthenticated { since: Moment },
    /// Waits for a name whose holder is being asked for a sign of life.
    WaitingForName(Box<WaitingForName>),
    /// Speaks for an agent.
    Member(Box<Membership>),
    /// The client was told why it is closed, and still gets its last frames.
    Closing { since: Moment },
    /// Only [`Input::Disconnected`](crate::router::Input::Disconnected) is still to come.
    HungUp,
}

/// A request for a name, with what entitles to it.
#[derive(Debug)]
pub(in crate::router) struct Applicant {
    pub(in crate::router) name: Name,
    pub(in crate::router) capabilities: Capabilities,
    pub(in crate::router) proof: Proof,
    /// The hash of the key that the agent's companions have.
    pub(in crate::router) companion_key: Option<Hash>,
}

/// A client that waits for a name in use.
#[derive(Debug)]
pub(in crate::router) struct WaitingForName {
    pub(super) since: Moment,
    /// The agent that has the name.
    pub(super) agent: AgentKey,
    pub(super) applicant: Applicant,
}

/// A client's right to speak for an agent, from WELCOME to the end of the connection.
#[derive(Debug)]
pub(in crate::router) struct Membership {
    pub(in crate::router) auth: SenderAuth,
    pub(in crate::router) capabilities: Capabilities,
    /// Whether the store has recorded that the agent is connected. At-least-once DELIVERs begin
    /// only then: after a crash, the record says that messages for the agent may have been sent.
    pub(super) is_recorded: bool,
    /// The hash of the key that an agent's companions have, or that a companion showed.
    pub(in crate::router) companion_key: Option<Hash>,
}

impl Membership {
    pub(in crate::router) const fn new(
        auth: SenderAuth,
        capabilities: Capabilities,
        companion_key: Option<Hash>,
    ) -> Self {
        Self { auth, capabilities, is_recorded: false, companion_key }
    }

    /// Whether the client is a companion, which sends in the name of an agent: a companion or an
    /// operator. Such a client sends and gets answers, but no mail.
    pub(in crate::router) const fn is_beside(&self) -> bool {
        matches!(self.auth.proof, Proof::Companion | Proof::Operator)
    }

    pub(in crate::router) fn is_operator(&self) -> bool {
        self.auth.proof == Proof::Operator
    }

    /// Returns how many at-least-once DELIVERs may be in flight.
    pub(in crate::router) const fn in_flight_max(&self) -> u64 {
        let takes_any = self.is_recorded && self.capabilities.ack;
        if takes_any { self.capabilities.max_inflight } else { 0 }
    }
}
