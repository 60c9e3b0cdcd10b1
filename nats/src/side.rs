//! The local side of a bridge: it passes frames between the bridge and the border to this host's
//! daemon.
//!
//! A host's frames are passed while its agents have joined the daemon; at any other time they are
//! dropped, since the host sends them again. Frames in flight from a host are forgotten when its
//! agents leave or change, and its lanes start over.

use crate::{
    batch::Batch,
    inbox::{Arrived, Inbox},
    local::{FromLocal, Remote, ToLocal},
    outbox::Refusal,
    subject::Token,
};
use client::{ClientError, Ended};
use machines::{
    border::{self, Carry, Outcome, Ticket},
    local::{Daemon, JoinError, Local, Transport},
    report::Counters,
    topics::Topics,
    window::Unanswered,
};
use protocol::{
    Moment, Now,
    envelope::{Envelope, Kind},
    name::{Host, Name},
    payload::{Nack, SendMeta},
    secret::Secret,
};
use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
};
use tokio::sync::mpsc;

/// The pause before the daemon is asked again to admit a host's agents, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// How long a host's other agents wait for one that the daemon refuses before they join, in
/// milliseconds. An earlier bridge of this host may still have the name for part of that time.
const REFUSED_MS: u64 = 10_000;

/// The pause before the daemon is asked again for an agent that it has refused, in milliseconds.
const REFUSED_RETRY_MS: u64 = 30_000;

/// Runs the local side of a bridge with this secret, which initially exports these agents and lets
/// messages on these topics cross, until the bridge stops it or the daemon no longer admits it.
pub fn run(
    daemon: Daemon,
    secret: Secret,
    (exports, topics): (Vec<Name>, Topics),
    remote: &Remote,
    counters: Arc<Counters>,
) {
    let mut local = Local::new(daemon, exports, topics);
    let (to_bridge, hosts) = (remote.to.clone(), HashMap::new());
    let mut side = Side { secret, to_bridge, hosts, tickets: 0, counters };
    let never = crossbeam_channel::never();
    if let Some(Some(why)) = local.run(&mut side, &remote.from, &never) {
        side.to_bridge(FromLocal::Ended(why));
    }
}

struct Side {
    /// The secret that identifies this bridge to the daemon.
    secret: Secret,
    to_bridge: mpsc::Sender<FromLocal>,
    /// The hosts that are present.
    hosts: HashMap<Host, Peer>,
    tickets: Ticket,
    counters: Arc<Counters>,
}

/// A present host, and the messages in flight from and to it.
#[derive(Default)]
struct Peer {
    exports: Vec<Name>,
    /// The number of the host's presence.
    presence: u64,
    is_joined: bool,
    /// The agents that the daemon refuses.
    refused: Vec<Name>,
    /// When to try again to join.
    join_at: Option<Moment>,
    failing_since: Option<Moment>,
    /// The last line about a failure to join.
    failure: Option<String>,
    inbox: Inbox,
    /// The frames that were passed to the border.
    passed: HashMap<Ticket, Passed>,
    /// The messages among them.
    messages: HashSet<MessageKey>,
    /// The messages that the host has not confirmed.
    sent: Unanswered<String, Name>,
}

/// The key of a message among others of its host: its sender, in lower case, and its id.
type MessageKey = (String, String);

/// A frame that the border has not settled.
struct Passed {
    agent: Token,
    bytes: usize,
    /// The frame's id, if it is readable.
    id: Option<String>,
    message: Option<MessageKey>,
}

impl Peer {
    /// Forgets the host's frames, since its agents join again.
    fn begin(&mut self) {
        self.inbox = Inbox::default();
        self.passed.clear();
        self.messages.clear();
        self.join_at = None;
    }

    fn joining(&self) -> Vec<Name> {
        self.exports.iter().filter(|name| !self.refused.contains(name)).cloned().collect()
    }

    /// Notes a failure to join. Returns a line about it if it is another one than the last.
    fn failed(&mut self, JoinError { agent, error }: &JoinError) -> Option<String> {
        let line = format!("{agent} cannot join the daemon: {error}; trying again");
        (self.failure.replace(line.clone()).as_ref() != Some(&line)).then_some(line)
    }
}

impl Side {
    fn to_bridge(&self, from: FromLocal) {
        // Without a bridge, this side is about to end.
        drop(self.to_bridge.blocking_send(from));
    }

    /// Joins the daemon for a host's agents, replacing those that joined before.
    fn join(&mut self, now: Now, host: &Host, local: &mut Local) {
        let Some(peer) = self.hosts.get_mut(host) else { return };
        peer.begin();
        peer.is_joined = false;
        while let Err(failed) = local.present(now, host, &peer.joining(), &self.secret) {
            let since = *peer.failing_since.get_or_insert(now.monotonic);
            let line = peer.failed(&failed);
            let is_late = now.monotonic >= since.plus(REFUSED_MS);
            let refused = peer.exports.iter().find(|name| name.at(host) == failed.agent).cloned();
            let is_refused = matches!(failed.error, ClientError::Ended(Ended::Error(_)));
            match refused.filter(|_| is_late && is_refused) {
                Some(name) => peer.refused.push(name),
                None => {
                    peer.join_at = Some(now.monotonic.plus(RETRY_MS));
                    return self.line(line);
                }
            }
        }
        peer.is_joined = true;
        peer.failing_since = None;
        if peer.refused.is_empty() {
            peer.failure = None;
        } else {
            peer.join_at = Some(now.monotonic.plus(REFUSED_RETRY_MS));
        }
    }

    /// Joins the daemon for other agents of a host that is joined, and leaves it for former ones.
    fn change(&mut self, now: Now, host: &Host, exports: Vec<Name>, local: &mut Local) {
        let Some(peer) = self.hosts.get_mut(host) else { return };
        let joined = peer.joining();
        for name in joined.iter().filter(|name| !exports.contains(name)) {
            local.remove(now, host, name);
        }
        peer.refused = exports.iter().filter(|name| !joined.contains(name)).cloned().collect();
        peer.exports = exports;
        self.join_refused(now, host, local);
    }

    /// Asks the daemon again for the agents of a host that it has refused.
    fn join_refused(&mut self, now: Now, host: &Host, local: &mut Local) {
        let Some(peer) = self.hosts.get_mut(host) else { return };
        let mut line = None;
        for name in std::mem::take(&mut peer.refused) {
            if let Err(failed) = local.add(now, host, &name, &self.secret) {
                peer.refused.push(name);
                line = line.or_else(|| peer.failed(&failed));
            }
        }
        peer.join_at = (!peer.refused.is_empty()).then(|| now.monotonic.plus(REFUSED_RETRY_MS));
        self.line(line);
    }

    fn line(&self, line: Option<String>) {
        if let Some(line) = line {
            self.to_bridge(FromLocal::Line(line));
        }
    }

    fn incoming(
        &mut self,
        now: Now,
        host: &Host,
        (agent, batch): (Option<Token>, Batch),
        local: &mut Local,
    ) {
        let Some(peer) = self.hosts.get_mut(host).filter(|peer| peer.is_joined) else { return };
        let Some(agent) = agent.or_else(|| recipient(&batch)) else {
            return self.line(Some(format!("a message of {host} is dropped: it is for no agent")));
        };
        for arrived in peer.inbox.arrived(&agent, batch) {
            self.arrived(now, host, &agent, arrived, local);
        }
    }

    /// Passes the next frame of a lane to the border, unless the border has it already.
    fn arrived(
        &mut self,
        now: Now,
        host: &Host,
        agent: &Token,
        Arrived { frame, again }: Arrived,
        local: &mut Local,
    ) {
        let Some(peer) = self.hosts.get_mut(host) else { return };
        let header = Header::read(&frame);
        let message = header.as_ref().and_then(Header::message);
        if message.as_ref().is_some_and(|key| peer.messages.contains(key)) {
            return peer.inbox.settled(agent, frame.len());
        }
        let id = header.as_ref().map(|header| header.id.clone());
        // The daemon recognizes only messages that are sent at least once.
        if again && message.is_none() {
            peer.inbox.settled(agent, frame.len());
            return self.confirm(host, id);
        }
        self.tickets += 1;
        let ticket = self.tickets;
        peer.messages.extend(message.clone());
        let (agent, bytes) = (agent.clone(), frame.len());
        peer.passed.insert(ticket, Passed { agent, bytes, id, message });
        if let Some(refused) = header.and_then(|header| header.refused) {
            peer.sent.remove(&refused);
            Counters::count(&self.counters.sent_refused);
            self.to_bridge(FromLocal::Refused(host.clone(), refused));
        }
        local.input(now, border::Input::Frame(host, &frame, ticket));
    }

    fn confirm(&self, host: &Host, id: Option<String>) {
        if let Some(id) = id {
            self.to_bridge(FromLocal::Confirm(host.clone(), id));
        }
    }
}

/// The recipient of a batch's first frame. All frames of a bridge's batch have the same one.
fn recipient(batch: &Batch) -> Option<Token> {
    let envelope = Envelope::read(batch.frames.first()?.1.as_ref()).ok()?;
    Some(Token::of_agent(&border::recipient(envelope.to.as_deref()?)?))
}

/// The part of a frame that this side reads. The border checks it.
struct Header {
    id: String,
    /// The sender of a message that is sent at least once, in lower case.
    sender: Option<String>,
    /// The id of the message that the frame refuses.
    refused: Option<String>,
}

impl Header {
    fn read(frame: &[u8]) -> Option<Self> {
        let envelope = Envelope::read(frame).ok()?;
        let sender = envelope.from.as_deref().filter(|_| is_at_least_once(&envelope));
        let nack = (envelope.kind == Kind::Nack)
            .then(|| envelope.decode_member::<Nack>(envelope.payload).ok());
        Some(Self {
            id: envelope.id.to_string(),
            sender: sender.map(str::to_ascii_lowercase),
            refused: nack.flatten().map(|nack| nack.ack_id),
        })
    }

    fn message(&self) -> Option<MessageKey> {
        Some((self.sender.clone()?, self.id.clone()))
    }
}

fn is_at_least_once(envelope: &Envelope<'_>) -> bool {
    let meta = envelope.payload_meta.filter(|_| envelope.kind == Kind::Send);
    let meta: Option<SendMeta> = meta.and_then(|meta| envelope.decode_member(meta).ok());
    meta.is_some_and(|meta| meta.is_at_least_once())
}

impl Transport for Side {
    type Event = ToLocal;
    /// The reason, unless the bridge has stopped this side.
    type End = Option<String>;

    fn event(&mut self, now: Now, event: ToLocal, local: &mut Local) -> ControlFlow<Self::End> {
        match event {
            ToLocal::Exported(exported) => {
                local.input(now, border::Input::Exports(exported.agents.clone()));
                self.to_bridge(FromLocal::Exported(exported));
            }
            ToLocal::Present(host, exports, presence) => {
                let peer = self.hosts.entry(host.clone()).or_default();
                if peer.is_joined && peer.presence == presence {
                    self.change(now, &host, exports, local);
                    return ControlFlow::Continue(());
                }
                (peer.exports, peer.refused, peer.presence) = (exports, Vec::new(), presence);
                self.join(now, &host, local);
            }
            ToLocal::Absent(host) => {
                self.hosts.remove(&host);
                local.absent(now, &host);
            }
            ToLocal::Incoming(host, agent, batch) => {
                self.incoming(now, &host, (agent, batch), local);
            }
            ToLocal::Carried(host, id) => {
                if let Some(peer) = self.hosts.get_mut(&host) {
                    peer.sent.remove(&id);
                }
                local.input(now, border::Input::Carried(&host, id));
            }
            ToLocal::Refused(host, id, Refusal { message, .. }) => {
                Counters::count(&self.counters.sent_refused);
                if let Some(peer) = self.hosts.get_mut(&host) {
                    peer.sent.remove(&id);
                }
                local.input(now, border::Input::NotCarried(&host, id, message));
            }
            ToLocal::Stop => return ControlFlow::Break(None),
        }
        ControlFlow::Continue(())
    }

    fn tick(&mut self, now: Now, local: &mut Local) -> ControlFlow<Self::End> {
        let due = |peer: &Peer| peer.join_at.is_some_and(|at| at <= now.monotonic);
        let due = self.hosts.iter().filter(|(_, peer)| due(peer));
        let due: Vec<_> = due.map(|(host, peer)| (host.clone(), peer.is_joined)).collect();
        for (host, is_joined) in due {
            if is_joined {
                self.join_refused(now, &host, local);
            } else {
                self.join(now, &host, local);
            }
        }
        ControlFlow::Continue(())
    }

    fn deadline(&self) -> Option<Moment> {
        self.hosts.values().filter_map(|peer| peer.join_at).min()
    }

    fn has_room(&self, host: &Host, agent: &Name) -> bool {
        self.hosts.get(host).is_some_and(|peer| !peer.sent.is_full(agent))
    }

    fn carry(&mut self, _now: Now, carry: Carry) -> Result<(), String> {
        let Some(peer) = self.hosts.get_mut(&carry.host) else {
            return Err(format!("{} is absent", carry.host));
        };
        if carry.is_message {
            Counters::count(&self.counters.sent);
            peer.sent.add(carry.id.clone(), carry.to.clone(), carry.frame.len());
        }
        let presence = peer.presence;
        self.to_bridge(FromLocal::Carry(carry, presence));
        Ok(())
    }

    fn settled(&mut self, _now: Now, host: &Host, ticket: Ticket, outcome: Outcome) {
        let Some(peer) = self.hosts.get_mut(host) else { return };
        let Some(passed) = peer.passed.remove(&ticket) else { return };
        peer.inbox.settled(&passed.agent, passed.bytes);
        passed.message.map(|key| peer.messages.remove(&key));
        match outcome {
            Outcome::Accepted(_) => Counters::count(&self.counters.received),
            Outcome::Refused => Counters::count(&self.counters.received_refused),
            Outcome::Dropped => {}
        }
        // A refusal is the answer to the refused message.
        if outcome != Outcome::Refused {
            self.confirm(host, passed.id);
        }
    }

    fn client_ended(&mut self, agent: &Name, ended: &Ended) -> ControlFlow<Self::End> {
        self.line(Some(format!("the daemon no longer admits {agent}: {ended}; joining again")));
        let host = agent.host().and_then(|host| Host::parse(host).ok());
        match host.and_then(|host| self.hosts.get_mut(&host)) {
            Some(peer) => {
                (peer.is_joined, peer.join_at) = (false, Some(Moment(0)));
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(Some(format!("{agent} is of no host: {ended}"))),
        }
    }

    fn log(&mut self, line: String) {
        self.to_bridge(FromLocal::Line(line));
    }
}
