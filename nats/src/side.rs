//! The local side of a bridge: it passes frames between the bridge and the border to this host's
//! daemon.
//!
//! The border forgets what is on its way for a host when that host's agents leave or change, so
//! this side keeps each incoming frame until it is settled, and passes it again when the host's
//! agents have joined. The daemon recognizes what it has accepted already.
//!
//! A host may be away while its messages wait here. Then their senders join for as long.

use crate::{
    bridge::Settings,
    local::{FromLocal, Remote, ToLocal},
    outbox::Refusal,
};
use agent_relay::{
    client::Ended,
    machines::{
        border::{AGENTS_MAX, Carry, Input, Outcome, Ticket},
        local::{Daemon, JoinError, Local, Transport},
    },
    protocol::{Moment, Now, envelope::Envelope, name::Host, name::Name, secret::Secret},
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::atomic::Ordering,
};
use tokio::sync::mpsc;

/// The pause before the daemon is asked again to admit a host's agents, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// Runs the local side until the bridge stops it, or the daemon no longer admits it.
pub fn run(daemon: Daemon, bridge: Secret, settings: &Settings, remote: &Remote) {
    let mut local = Local::new(daemon, settings.exports.clone());
    let mut side = Side {
        settings,
        bridge,
        to_bridge: remote.to.clone(),
        congested: &remote.congested,
        hosts: HashMap::new(),
        refusal: None,
    };
    let never = crossbeam_channel::never();
    if let Some(Some(why)) = local.run(&mut side, &remote.from, &never) {
        side.to_bridge(FromLocal::Ended(why));
    }
}

struct Side<'a> {
    settings: &'a Settings,
    /// The secret by which the daemon knows this bridge.
    bridge: Secret,
    to_bridge: mpsc::Sender<FromLocal>,
    congested: &'a std::sync::atomic::AtomicBool,
    hosts: HashMap<Host, Peer>,
    /// The last frame without an acknowledgement that the border has carried.
    refusal: Option<(Host, String)>,
}

/// A host, and what has come from it.
#[derive(Default)]
struct Peer {
    /// The agents that it exports, if it is present.
    exports: Option<Vec<Name>>,
    joined: Option<Vec<Name>>,
    /// When to try again to join.
    join_at: Option<Moment>,
    /// The last line about a failure to join.
    failure: Option<String>,
    /// Frames that are not settled.
    frames: BTreeMap<Ticket, Bytes>,
}

impl Peer {
    /// The agents to join: those that the host exports, or the senders of what it has left here.
    fn wanted(&self) -> Option<Vec<Name>> {
        if let Some(exports) = &self.exports {
            return Some(exports.clone());
        }
        let mut senders: Vec<Name> = Vec::new();
        for frame in self.frames.values() {
            let sender = sender(frame).filter(|sender| !senders.contains(sender));
            senders.extend(sender.filter(|_| senders.len() < AGENTS_MAX));
        }
        // To leave for a sender that has nothing here any more would disturb the others.
        let joined = self.joined.as_ref();
        let joined = joined.filter(|joined| senders.iter().all(|sender| joined.contains(sender)));
        (!self.frames.is_empty()).then(|| joined.cloned().unwrap_or(senders))
    }
}

/// The sender that a frame names. The border checks it.
fn sender(frame: &[u8]) -> Option<Name> {
    Name::parse(Envelope::read(frame).ok()?.from.as_deref()?).ok()
}

impl Side<'_> {
    fn to_bridge(&self, from: FromLocal) {
        // Without a bridge, this side is about to end.
        drop(self.to_bridge.blocking_send(from));
    }

    /// Joins or leaves as a host's presence and frames require. If that joins, it passes the
    /// host's frames to the border, and returns true.
    fn adjust(&mut self, now: Now, host: &Host, local: &mut Local) -> bool {
        let Some(peer) = self.hosts.get_mut(host) else { return false };
        let Some(wanted) = peer.wanted() else {
            if peer.joined.is_some() {
                local.absent(now, host);
            }
            self.hosts.remove(host);
            return false;
        };
        let wanted = self.settings.imported(host, wanted);
        if peer.joined.as_ref() == Some(&wanted) {
            return false;
        }
        peer.join_at = None;
        peer.joined = None;
        if let Err(JoinError { agent, error }) = local.present(now, host, &wanted, &self.bridge) {
            peer.join_at = Some(now.monotonic.plus(RETRY_MS));
            let line = format!("{agent} cannot join the daemon: {error}; trying again");
            if peer.failure.as_ref() != Some(&line) {
                peer.failure = Some(line.clone());
                self.to_bridge(FromLocal::Line(line));
            }
            return false;
        }
        peer.failure = None;
        peer.joined = Some(wanted);
        for (ticket, frame) in &peer.frames {
            local.input(now, Input::Frame(host, frame, *ticket));
        }
        true
    }

    fn incoming(&mut self, now: Now, host: &Host, frame: Bytes, ticket: Ticket, local: &mut Local) {
        let peer = self.hosts.entry(host.clone()).or_default();
        peer.frames.insert(ticket, frame.clone());
        if peer.exports.is_none() && self.adjust(now, host, local) {
            return;
        }
        // A host whose agents could not join yet has its frames passed when they have.
        if self.hosts.get(host).is_some_and(|peer| peer.joined.is_some()) {
            local.input(now, Input::Frame(host, &frame, ticket));
        }
    }
}

impl Transport for Side<'_> {
    type Event = ToLocal;
    /// The reason, unless the bridge has stopped this side.
    type End = Option<String>;

    fn event(&mut self, now: Now, event: ToLocal, local: &mut Local) -> ControlFlow<Self::End> {
        match event {
            ToLocal::Present(host, names) => {
                self.hosts.entry(host.clone()).or_default().exports = Some(names);
                self.adjust(now, &host, local);
            }
            ToLocal::Absent(host) => {
                self.hosts.entry(host.clone()).or_default().exports = None;
                self.adjust(now, &host, local);
            }
            ToLocal::Incoming(host, frame, ticket) => {
                self.incoming(now, &host, frame, ticket, local);
            }
            ToLocal::Carried(host, id) => local.input(now, Input::Carried(&host, id)),
            ToLocal::Refused(host, id, Refusal { message, .. }) => {
                local.input(now, Input::NotCarried(&host, id, message));
            }
            ToLocal::Stop => return ControlFlow::Break(None),
        }
        ControlFlow::Continue(())
    }

    fn tick(&mut self, now: Now, local: &mut Local) -> ControlFlow<Self::End> {
        let due = |peer: &Peer| peer.join_at.is_some_and(|at| at <= now.monotonic);
        let due = self.hosts.iter().filter(|(_, peer)| due(peer));
        for host in due.map(|(host, _)| host.clone()).collect::<Vec<_>>() {
            if let Some(peer) = self.hosts.get_mut(&host) {
                peer.join_at = None;
            }
            self.adjust(now, &host, local);
        }
        ControlFlow::Continue(())
    }

    fn deadline(&self) -> Option<Moment> {
        self.hosts.values().filter_map(|peer| peer.join_at).min()
    }

    fn has_room(&self, _host: &Host, _agent: &Name) -> bool {
        !self.congested.load(Ordering::Relaxed)
    }

    fn carry(&mut self, _now: Now, carry: Carry) -> Result<(), String> {
        if !carry.requires_ack {
            self.refusal = Some((carry.host.clone(), carry.id.clone()));
        }
        self.to_bridge(FromLocal::Carry(carry));
        Ok(())
    }

    fn settled(&mut self, now: Now, host: &Host, ticket: Ticket, outcome: Outcome) {
        if let Some(peer) = self.hosts.get_mut(host) {
            peer.frames.remove(&ticket);
            if peer.exports.is_none() && peer.frames.is_empty() {
                // Its agents leave.
                peer.join_at = Some(now.monotonic);
            }
        }
        // The border carries a refusal right before it settles the frame.
        let after = self.refusal.take().filter(|_| outcome == Outcome::Refused);
        self.to_bridge(FromLocal::Settled { ticket, after });
    }

    fn client_ended(&mut self, agent: &Name, ended: &Ended) -> ControlFlow<Self::End> {
        ControlFlow::Break(Some(format!("the daemon no longer admits {agent}: {ended}")))
    }

    fn log(&mut self, line: String) {
        self.to_bridge(FromLocal::Line(line));
    }
}
