//! The local side of a bridge, which talks to this host's daemon.

use crate::outbox::Refusal;
use tokio::sync::mpsc;

/// The capacity of the channels between a bridge and its local side.
pub const CHANNEL_MAX: usize = 1024;

/// What the local side is notified of.
#[derive(Debug, PartialEq, Eq)]
pub enum ToLocal {
    /// A host is present and exports these agents. This replaces what it exported before.
    Present {
        /// The host's name.
        host: String,
        /// The agents' names.
        names: Vec<String>,
    },
    /// A host is absent.
    Absent {
        /// The host's name.
        host: String,
    },
    /// A frame has come from a host. The answer is [`FromLocal::Settled`].
    Incoming {
        /// The host's name.
        host: String,
        /// The frame, which may be anything.
        frame: Vec<u8>,
        /// The ticket of the answer.
        ticket: u64,
    },
    /// NATS has taken a frame.
    Carried {
        /// The host's name.
        host: String,
        /// The frame's id.
        id: String,
    },
    /// NATS does not take a frame.
    Refused {
        /// The host's name.
        host: String,
        /// The frame's id.
        id: String,
        /// Why.
        refusal: Refusal,
    },
}

/// What the local side asks for.
#[derive(Debug)]
pub enum FromLocal {
    /// Carry a frame. The answer is [`ToLocal::Carried`] or [`ToLocal::Refused`].
    Carry {
        /// The receiving host's name.
        host: String,
        /// The receiving agent's name.
        name: String,
        /// The frame's id.
        id: String,
        /// The frame.
        frame: Vec<u8>,
    },
    /// The daemon has accepted or refused an incoming frame for good.
    Settled(u64),
    /// A line for a person.
    Line(String),
    /// The local side has ended, for this reason.
    Ended(String),
}

/// A bridge's ends of the channels to its local side.
#[derive(Debug)]
pub struct Local {
    /// To the local side.
    pub to: mpsc::Sender<ToLocal>,
    /// From the local side.
    pub from: mpsc::Receiver<FromLocal>,
}

/// The local side's ends of the channels to its bridge.
#[derive(Debug)]
pub struct Remote {
    /// From the bridge.
    pub from: mpsc::Receiver<ToLocal>,
    /// To the bridge.
    pub to: mpsc::Sender<FromLocal>,
}

/// Both ends of the channels between a bridge and its local side.
#[must_use]
pub fn channels() -> (Local, Remote) {
    let (to_local, from_bridge) = mpsc::channel(CHANNEL_MAX);
    let (to_bridge, from_local) = mpsc::channel(CHANNEL_MAX);
    (Local { to: to_local, from: from_local }, Remote { from: from_bridge, to: to_bridge })
}
