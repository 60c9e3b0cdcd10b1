//! The local side of a bridge, which talks to this host's daemon.

use crate::{batch::Batch, outbox::Refusal, subject::Token};
use machines::{border::Carry, exports::Exported};
use protocol::name::{Host, Name};
use tokio::sync::mpsc;

/// The capacity of the channel to the local side. Its notifications may be large.
pub const TO_LOCAL_MAX: usize = 64;

/// The capacity of the channel from the local side.
pub const FROM_LOCAL_MAX: usize = 1024;

/// A notification to the local side.
#[derive(Debug)]
pub enum ToLocal {
    /// This host now exports these agents.
    Exported(Box<Exported>),
    /// A host is present and exports these agents, replacing those that it exported before. The
    /// number changes when the host was absent.
    Present(Host, Vec<Name>, u64),
    /// A host is absent.
    Absent(Host),
    /// A batch has come from a host, for an agent if the stream has kept its name. Its frames may
    /// be anything.
    Incoming(Host, Option<Token>, Batch),
    /// The other host has confirmed the frame of this id.
    Carried(Host, String),
    /// The frame of this id is not carried.
    Refused(Host, String, Refusal),
    /// The bridge ends.
    Stop,
}

/// A request of the local side.
#[derive(Debug)]
pub enum FromLocal {
    /// Carry a frame to a host whose presence had this number. The answer is [`ToLocal::Carried`]
    /// or [`ToLocal::Refused`], unless the host becomes absent.
    Carry(Carry, u64),
    /// The frame of this id of a host was handled and not refused.
    Confirm(Host, String),
    /// A host has refused the message of this id.
    Refused(Host, String),
    /// This host now exports these agents.
    Exported(Box<Exported>),
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
}

/// The local side's ends of the channels to its bridge.
#[derive(Debug)]
pub struct Remote {
    /// From the bridge.
    pub from: crossbeam_channel::Receiver<ToLocal>,
    /// To the bridge.
    pub to: mpsc::Sender<FromLocal>,
}

/// Both ends of the channels between a bridge and its local side.
#[must_use]
pub fn channels() -> (Local, Remote) {
    let (to_local, from_bridge) = crossbeam_channel::bounded(TO_LOCAL_MAX);
    let (to_bridge, from_local) = mpsc::channel(FROM_LOCAL_MAX);
    (Local { to: to_local, from: from_local }, Remote { from: from_bridge, to: to_bridge })
}
