//! The local side of a bridge, which talks to this host's daemon.

use crate::outbox::Refusal;
use agent_relay::{
    machines::border::{Carry, Ticket},
    protocol::name::{Host, Name},
};
use bytes::Bytes;
use std::sync::{Arc, atomic::AtomicBool};
use tokio::sync::mpsc;

/// The capacity of the channels between a bridge and its local side.
pub const CHANNEL_MAX: usize = 1024;

/// A notification to the local side.
#[derive(Debug)]
pub enum ToLocal {
    /// A host is present and exports these agents, in place of those that it exported before.
    Present(Host, Vec<Name>),
    /// A host is absent.
    Absent(Host),
    /// A frame has come from a host, which may be anything. The answer is [`FromLocal::Settled`].
    Incoming(Host, Bytes, Ticket),
    /// NATS has taken the frame of this id.
    Carried(Host, String),
    /// NATS does not take the frame of this id.
    Refused(Host, String, Refusal),
    /// The bridge ends.
    Stop,
}

/// A request of the local side.
#[derive(Debug)]
pub enum FromLocal {
    /// Carry a frame. The answer is [`ToLocal::Carried`] or [`ToLocal::Refused`].
    Carry(Carry),
    /// The daemon has accepted or refused an incoming frame for good. The refusal is the frame of
    /// this id, which must be carried first.
    Settled {
        /// The ticket of the incoming frame.
        ticket: Ticket,
        /// The host of the refusal, and its id.
        after: Option<(Host, String)>,
    },
    /// A line for a person.
    Line(String),
    /// The local side has ended, for this reason.
    Ended(String),
}

/// A bridge's ends of the channels to its local side.
#[derive(Debug)]
pub struct Local {
    /// To the local side.
    pub to: crossbeam_channel::Sender<ToLocal>,
    /// From the local side.
    pub from: mpsc::Receiver<FromLocal>,
    /// Whether too much waits for NATS, so that the local side should carry nothing more.
    pub congested: Arc<AtomicBool>,
}

/// The local side's ends of the channels to its bridge.
#[derive(Debug)]
pub struct Remote {
    /// From the bridge.
    pub from: crossbeam_channel::Receiver<ToLocal>,
    /// To the bridge.
    pub to: mpsc::Sender<FromLocal>,
    /// Whether too much waits for NATS.
    pub congested: Arc<AtomicBool>,
}

/// Both ends of the channels between a bridge and its local side.
#[must_use]
pub fn channels() -> (Local, Remote) {
    let (to_local, from_bridge) = crossbeam_channel::bounded(CHANNEL_MAX);
    let (to_bridge, from_local) = mpsc::channel(CHANNEL_MAX);
    let congested = Arc::new(AtomicBool::new(false));
    let local = Local { to: to_local, from: from_local, congested: Arc::clone(&congested) };
    (local, Remote { from: from_bridge, to: to_bridge, congested })
}
