//! A connection to one client: its stage, its window and its deferred frames.

use super::{deferred::Deferred, send_window::Window};
use crate::{
    protocol::{Moment, deliver::Proof, name::Name, payload::Capabilities, secret::Hash},
    router::{keys::AgentKey, sender::SenderAuth},
};

/// A connection to one client.
#[derive(Debug)]
pub(in crate::router) struct Client {
    pub(in crate::router) stage: Stage,
    /// The agent in whose name the client sends, from WELCOME to the end of the connection.
    pub(in crate::router) agent: Option<AgentKey>,
    pub(in crate::router) window: Window,
    /// The time of the last frame from the client.
    pub(super) last_frame: Moment,
    /// The time of the last PING, until a frame from the client follows.
    pub(super) pinged: Option<Moment>,
    /// The moment at which the client's timer fires.
    pub(in crate::router) timer: Option<Moment>,
    /// Whether reading is paused: the client leaves its answers unread, or waits for a name.
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

/// The stage of a connection.
#[derive(Debug)]
pub(in crate::router) enum Stage {
    /// The handshake is not complete.
    Unauthenticated { since: Moment },
    /// The client waits for a name whose holder has to answer a PING.
    WaitingForName(Box<WaitingForName>),
    /// The handshake is complete: the client sends in an agent's name.
    Member(Box<Membership>),
    /// The connection is being closed: its last frames are still written.
    Closing { since: Moment },
    /// The connection is hung up: only [`Input::Disconnected`](crate::router::Input::Disconnected)
    /// is still to come.
    HungUp,
}

/// A client's request for a name, with its proof.
#[derive(Debug)]
pub(in crate::router) struct Applicant {
    pub(in crate::router) name: Name,
    pub(in crate::router) capabilities: Capabilities,
    pub(in crate::router) proof: Proof,
    /// The hash of the companion key that the agent's HELLO stated.
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

/// A client's right to send in an agent's name, from WELCOME to the end of the connection.
#[derive(Debug)]
pub(in crate::router) struct Membership {
    pub(in crate::router) auth: SenderAuth,
    pub(in crate::router) capabilities: Capabilities,
    /// Whether the store has recorded that the agent is connected. At-least-once DELIVERs wait for
    /// that: after a crash, the record tells that messages may have been sent to the agent.
    pub(super) is_recorded: bool,
    /// The hash of the companion key that the client stated, as an agent or as a companion.
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

    /// Whether the client is a companion or an operator. Such a client sends and gets answers, but
    /// no mail.
    pub(in crate::router) const fn is_beside(&self) -> bool {
        matches!(self.auth.proof, Proof::Companion | Proof::Operator)
    }

    pub(in crate::router) fn is_operator(&self) -> bool {
        self.auth.proof == Proof::Operator
    }

    /// Returns how many at-least-once DELIVERs may be in flight to the client.
    pub(in crate::router) const fn in_flight_max(&self) -> u64 {
        let takes_any = self.is_recorded && self.capabilities.ack;
        if takes_any { self.capabilities.max_inflight } else { 0 }
    }
}
