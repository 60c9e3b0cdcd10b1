//! The border between this machine's agents and those of other machines: a state machine that
//! decides what crosses it.
//!
//! For each agent that another machine exports, a client joins the local daemon under the name
//! `NAME@HOST`. That client's deliveries go to the other machine, and it sends the messages that
//! come from there. The border enforces on this side:
//!
//! - only agents that this machine exports send to other machines, and receive from them;
//! - a frame of a machine comes from one of the agents that were joined for this machine, so a
//!   machine cannot speak for another one or for a local agent;
//! - messages to everyone and on topics cross only as far as the [`Topics`] of this side include
//!   them, and questions not at all. The daemon delivers such a message once for a machine, to a
//!   client under the name `all@HOST`, and the other side sends it to the recipients there. An
//!   agent of another machine cannot be exported, so no message crosses a second border.
//!
//! All state that has to survive is in the daemons. A message that was not accepted comes again
//! from the sender's daemon with the same id, and the recipient's daemon recognizes it.

mod frames;
mod pairs;

use super::{selector::listed, topics::Topics};
use client::{Answer, Delivery, Forwarded, Outgoing, Reply, SendId};
use frames::Way;
use pairs::{Arrived, Pair, Pairs};
use protocol::{
    Moment, Now,
    code::NackCode,
    envelope::{Envelope, Kind},
    name::{EVERYONE, Host, Name},
    payload::{Ack, Meta, Nack, SendMeta, Sync},
    text::Quoted,
};
use std::collections::{HashMap, HashSet};

/// The maximum number of agents that one machine exports: a sixteenth of the names and of the
/// connections of a daemon.
pub const AGENTS_MAX: usize = 256;

/// The maximum number of one machine's agents that a bridge of an earlier version accepts.
pub const EARLIER_AGENTS_MAX: usize = 20;

/// The maximum number of at-least-once messages in flight to one agent of another machine.
pub(crate) const IN_FLIGHT_MAX: u64 = 64;

/// The longest id of a message that crosses a border, in bytes. Ids of answers and refusals contain
/// the id of their message.
const ID_BYTES_MAX: usize = 64;

/// The longest sentence of another machine that goes into a refusal, in characters.
const TEXT_MAX: usize = 300;

/// The maximum number of messages in a minute that notify agents of late refusals by a machine.
const NOTICES_MAX: usize = 100;
const NOTICES_MS: u64 = 60_000;

/// A number that identifies a message that the transport has passed to the border.
pub type Ticket = u64;

/// An input of the border. Agents of another machine have their names there, without `@HOST`.
#[derive(Debug)]
pub enum Input<'a> {
    /// This machine now exports these agents.
    Exports(Vec<Name>),
    /// These agents of a machine are joined to the daemon, and no others.
    Present(Host, Vec<Name>),
    /// All agents of a machine left the daemon.
    Absent(Host),
    /// The daemon delivered a message to an agent of a machine.
    Delivered(&'a Host, Name, Box<Delivery>),
    /// The daemon accepted a message of a machine's agent.
    Accepted(&'a Host, Name, SendId),
    /// The daemon refused a message of a machine's agent, or returned it later.
    Refused(&'a Host, Name, Nack),
    /// A question of a machine's agent, with this `correlationId`, was answered.
    Answered(&'a Host, Name, SendId, String, Answer),
    /// The other machine's daemon has accepted the message with this id.
    Carried(&'a Host, String),
    /// The transport could not carry the message with this id; a sentence says why.
    NotCarried(&'a Host, String, String),
    /// A frame came from a machine. The transport gets [`Output::Settled`] for it.
    Frame(&'a Host, &'a [u8], Ticket),
    /// The deadline has passed.
    Tick,
}

/// An action for the driver of the border. Agents of another machine have their names there.
#[derive(Debug)]
pub enum Output {
    /// Send a message for an agent of a machine.
    Forward(Host, Name, Forwarded),
    /// Acknowledge a delivery to an agent of a machine, by its id.
    Acknowledge(Host, Name, String),
    /// Return a delivery to an agent of a machine for good: its id, and a sentence.
    Return(Host, Name, String, String),
    /// Answer a question for an agent of a machine.
    Answer(Host, Name, Reply),
    /// Send a message of the border itself in the name of an agent of a machine.
    Notify(Host, Name, Outgoing),
    /// Carry a frame to a machine.
    Carry(Carry),
    /// A frame of a machine is settled: the local daemon is responsible for it, or it was refused.
    /// The transport must not pass it to the border again.
    Settled(Host, Ticket, Outcome),
    /// Write a line to the log.
    Log(String),
}

/// The outcome of a frame of another machine.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The local daemon accepted the message with this id.
    Accepted(String),
    /// The message was refused; a [`Carry`] has the refusal.
    Refused,
    /// The frame was no message, or no valid one.
    Dropped,
}

/// A frame for another machine.
#[derive(Debug)]
pub struct Carry {
    /// The machine.
    pub host: Host,
    /// The agent that the frame is for, with its name there.
    pub to: Name,
    /// The frame's id. A frame that is carried again has the same id and content.
    pub id: String,
    /// Whether the frame is a message, rather than an answer or a refusal.
    pub is_message: bool,
    /// Whether the frame is an at-least-once message. The transport then has to send
    /// [`Input::Carried`] or [`Input::NotCarried`].
    pub requires_ack: bool,
    /// The time to live of a message, in milliseconds; 0 for other frames, which have none.
    pub ttl_ms: u64,
    /// The frame's JSON.
    pub frame: Vec<u8>,
}

impl Carry {
    const fn reply(host: Host, to: Name, id: String, frame: Vec<u8>) -> Self {
        Self { host, to, id, is_message: false, requires_ack: false, ttl_ms: 0, frame }
    }
}

/// A machine, and the messages in flight from and to it.
#[derive(Debug, Default)]
struct Remote {
    agents: HashSet<Name>,
    /// The at-least-once deliveries that the other machine has not accepted: their recipients
    /// there.
    in_flight: HashMap<String, Name>,
    pairs: Pairs,
    /// The late refusals that agents were notified of since this moment.
    notices: (Moment, usize),
}

impl Remote {
    /// Whether an agent may be notified of one more late refusal.
    fn may_notify(&mut self, now: Moment) -> bool {
        let (since, count) = self.notices;
        self.notices = if now >= since.plus(NOTICES_MS) { (now, 1) } else { (since, count + 1) };
        self.notices.1 <= NOTICES_MAX
    }
}

/// The state machine of a border.
#[derive(Debug)]
pub struct Border {
    exports: HashSet<Name>,
    topics: Topics,
    /// The time to live of a message that states none, in milliseconds.
    ttl_ms: u64,
    remotes: HashMap<Host, Remote>,
}

impl Border {
    /// A border that exports these agents and lets messages on these topics cross. The local daemon
    /// gives a message to another machine this time to live.
    #[must_use]
    pub fn new(exports: impl IntoIterator<Item = Name>, topics: Topics, ttl_ms: u64) -> Self {
        Self { exports: exports.into_iter().collect(), topics, ttl_ms, remotes: HashMap::new() }
    }

    /// Handles one input and appends the actions for the driver.
    pub fn handle(&mut self, now: Now, input: Input<'_>, out: &mut Vec<Output>) {
        match input {
            Input::Exports(agents) => self.exports = agents.into_iter().collect(),
            Input::Present(host, agents) => self.present(now, host, agents, out),
            Input::Absent(host) => {
                self.remotes.remove(&host);
            }
            Input::Delivered(host, agent, delivery) => {
                self.delivered(now, host, agent, &delivery, out);
            }
            Input::Accepted(host, agent, id) => self.accepted(now, host, &agent, &id.0, out),
            Input::Refused(host, agent, nack) => self.refused(now, host, &agent, nack, out),
            Input::Answered(host, agent, id, correlation_id, answer) => {
                answered(now, host, &agent, (&id.0, correlation_id), &answer, out);
            }
            Input::Carried(host, id) => {
                if let Some(agent) = self.take_in_flight(host, &id) {
                    out.push(Output::Acknowledge(host.clone(), agent, id));
                }
            }
            Input::NotCarried(host, id, why) => match self.take_in_flight(host, &id) {
                Some(agent) => out.push(Output::Return(host.clone(), agent, id, why)),
                None => out.push(Output::Log(format!("{id} for {host} is dropped: {why}"))),
            },
            Input::Frame(host, json, ticket) => self.frame(now, host, json, ticket, out),
            Input::Tick => self.tick(now, out),
        }
    }

    /// Refuses the waiting messages of a machine's agents that have left.
    fn present(&mut self, now: Now, host: Host, agents: Vec<Name>, out: &mut Vec<Output>) {
        let remote = self.remotes.entry(host.clone()).or_default();
        remote.agents = agents.into_iter().collect();
        let left = |sender: &Name| !remote.agents.contains(sender);
        for ((from, to), arrived) in remote.pairs.remove_senders(left) {
            let why = format!("no {from}@{host} has joined here any more");
            let (way, id) = (Way { from: &to, to: &from }, arrived.id());
            refuse(now, &host, way, id, (NackCode::Forbidden.as_str(), &why), out);
            out.push(Output::Settled(host.clone(), arrived.ticket, Outcome::Refused));
        }
    }

    /// The moment when the border needs [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        self.remotes.values().filter_map(|remote| remote.pairs.deadline()).min()
    }

    fn tick(&mut self, now: Now, out: &mut Vec<Output>) {
        for (host, remote) in &mut self.remotes {
            for pair in remote.pairs.due(now.monotonic) {
                forward_next(now, host, remote, &pair, out);
            }
        }
    }

    fn take_in_flight(&mut self, host: &Host, id: &str) -> Option<Name> {
        self.remotes.get_mut(host)?.in_flight.remove(id)
    }
}

/// Inputs from the local daemon.
impl Border {
    fn delivered(
        &mut self,
        now: Now,
        host: &Host,
        to: Name,
        delivery: &Delivery,
        out: &mut Vec<Output>,
    ) {
        let sender = self.sender(host, &to, delivery);
        let Some(remote) = self.remotes.get_mut(host) else { return };
        let from = match sender {
            Ok(from) => from,
            Err(why) => {
                let id = || delivery.id.clone();
                // Nobody has addressed this machine.
                let is_copy = delivery.original_to.is_some();
                out.extend(match delivery.requires_ack {
                    true if is_copy => Some(Output::Acknowledge(host.clone(), to, id())),
                    true => Some(Output::Return(host.clone(), to, id(), why)),
                    false if is_copy => None,
                    false => {
                        Some(Output::Log(format!("a message to {to}@{host} is dropped: {why}")))
                    }
                });
                return;
            }
        };
        if delivery.requires_ack {
            remote.in_flight.insert(delivery.id.clone(), to.clone());
        }
        let envelope = Envelope::read(delivery.json().as_bytes()).expect("a delivery was read");
        let (topic, way) = (delivery.topic.as_deref(), Way { from: &from, to: &to });
        let frame = way.send(now, &delivery.id, topic, envelope.payload, envelope.payload_meta);
        let meta = envelope.payload_meta.map(|meta| envelope.decode_member::<SendMeta>(meta));
        let stated = meta.and_then(Result::ok).and_then(|meta| meta.ttl_ms);
        out.push(Output::Carry(Carry {
            host: host.clone(),
            to,
            id: delivery.id.clone(),
            is_message: true,
            requires_ack: delivery.requires_ack,
            ttl_ms: stated.unwrap_or(self.ttl_ms),
            frame,
        }));
    }

    /// Returns the sender of a delivery, if the delivery may cross. The error is a sentence.
    fn sender(&self, host: &Host, to: &Name, delivery: &Delivery) -> Result<Name, String> {
        if to.is_all() && !self.topics.includes(delivery.topic.as_deref()) {
            return Err(match &delivery.topic {
                Some(topic) => format!("messages to all on {topic} do not cross to {host}"),
                None => format!("messages to all do not cross to {host}"),
            });
        }
        if let Ok(from) = Name::parse(&delivery.from)
            && self.exports.contains(&from)
        {
            return Ok(from);
        }
        let mut exported: Vec<_> = self.exports.iter().cloned().collect();
        exported.sort_by_key(Name::folded);
        Err(format!("{} is not exported to {host}: only {}", delivery.from, listed(&exported)))
    }

    fn accepted(&mut self, now: Now, host: &Host, agent: &Name, id: &str, out: &mut Vec<Output>) {
        let Some(remote) = self.remotes.get_mut(host) else { return };
        let Some((pair, arrived)) = remote.pairs.take(agent, id) else { return };
        let outcome = Outcome::Accepted(arrived.id().to_owned());
        out.push(Output::Settled(host.clone(), arrived.ticket, outcome));
        forward_next(now, host, remote, &pair, out);
    }

    /// Handles a NACK: the daemon refused the message, or the message failed after its acceptance.
    fn refused(&mut self, now: Now, host: &Host, agent: &Name, nack: Nack, out: &mut Vec<Output>) {
        let Some(remote) = self.remotes.get_mut(host) else { return };
        // The sender's own daemon ends a question that is not answered in time.
        if nack.code == NackCode::SyncTimeout.as_str() {
            return;
        }
        if let Some(to) = remote.pairs.one_of_all(agent, &nack) {
            let Nack { code, message, .. } = &nack;
            let line = format!("{to} does not get a message of {agent}@{host} to all: {message}");
            return out.push(Output::Log(format!("{line} ({code})")));
        }
        let may_pass =
            [NackCode::Limit, NackCode::StoreFailed].iter().any(|code| code.as_str() == nack.code);
        if may_pass && remote.pairs.put_off(now.monotonic, agent, &nack.ack_id) {
            return;
        }
        let taken = remote.pairs.take(agent, &nack.ack_id);
        let by = match (&taken, nack.to.as_deref().map(Name::parse)) {
            (Some(((_, to), _)), _) => to.clone(),
            (None, Some(Ok(to))) => to,
            (None, _) => {
                let Nack { code, message, .. } = nack;
                return out.push(Output::Log(format!("{agent}@{host}: {message} ({code})")));
            }
        };
        let id = taken.as_ref().map_or(&*nack.ack_id, |(_, arrived)| arrived.id());
        let way = Way { from: &by, to: agent };
        refuse(now, host, way, id, (&nack.code, &nack.message), out);
        if let Some((pair, arrived)) = taken {
            out.push(Output::Settled(host.clone(), arrived.ticket, Outcome::Refused));
            forward_next(now, host, remote, &pair, out);
        }
    }
}

/// Carries the answer to a question back to the machine of the agent that asked.
fn answered(
    now: Now,
    host: &Host,
    asker: &Name,
    (question, correlation_id): (&str, String),
    answer: &Answer,
    out: &mut Vec<Output>,
) {
    let Ok(from) = Name::parse(&answer.from) else { return };
    let id = format!("answer-{question}");
    let ack = Ack {
        ack_id: question.into(),
        correlation_id: Some(correlation_id),
        response: answer.response,
        response_data: answer.data.as_deref(),
        ..Ack::default()
    };
    let frame = Way { from: &from, to: asker }.answer(now, &id, &ack);
    let (host, to) = (host.clone(), asker.clone());
    out.push(Output::Carry(Carry::reply(host, to, id, frame)));
}

/// Carries the refusal of a message back to the machine of its sender.
fn refuse(
    now: Now,
    host: &Host,
    way: Way<'_>,
    message_id: &str,
    (code, why): (&str, &str),
    out: &mut Vec<Output>,
) {
    let id = format!("refusal-{message_id}");
    let (from, to) = (way.from, way.to);
    // The daemon's own sentences tell more about this machine than another one may know.
    let why = match NackCode::parse(code) {
        Some(NackCode::UnknownAgent) => format!("no agent {from} was ever there"),
        Some(NackCode::Forbidden) if why.contains("policy.toml") => {
            format!("a rule there forbids messages from {to} to {from}")
        }
        _ => why.chars().take(TEXT_MAX).collect(),
    };
    let nack = Nack {
        ack_id: message_id.to_owned(),
        code: code.to_owned(),
        message: why,
        ..Nack::default()
    };
    let frame = way.refusal(now, &id, &nack);
    let (host, to) = (host.clone(), way.to.clone());
    out.push(Output::Carry(Carry::reply(host, to, id, frame)));
}

/// Sends the next message of a pair, if none of its messages is with the daemon.
fn forward_next(now: Now, host: &Host, remote: &mut Remote, pair: &Pair, out: &mut Vec<Output>) {
    while let Some(next) = remote.pairs.next(now.monotonic, pair) {
        let (next, is_answered) = (next.clone(), next.at_least_once);
        let id = next.id.0.clone();
        out.push(Output::Forward(host.clone(), pair.0.clone(), next));
        if is_answered {
            return;
        }
        // The daemon does not report the acceptance of an at-most-once message.
        let (_, arrived) = remote.pairs.take(&pair.0, &id).expect("the message was sent just now");
        let outcome = Outcome::Accepted(arrived.id().to_owned());
        out.push(Output::Settled(host.clone(), arrived.ticket, outcome));
    }
}

/// The recipient in a message from another machine: an agent of this machine, or all of them.
/// `None` if the name is invalid.
#[must_use]
pub fn recipient(to: &str) -> Option<Name> {
    if to == EVERYONE { Some(Name::all()) } else { Name::parse(to).ok() }
}

/// Inputs from another machine.
impl Border {
    fn frame(&mut self, now: Now, host: &Host, json: &[u8], ticket: Ticket, out: &mut Vec<Output>) {
        let outcome = match self.read(host, json) {
            Ok((envelope, pair)) => match envelope.kind {
                Kind::Send => return self.message(now, host, &envelope, pair, ticket, out),
                Kind::Ack => self.answer(host, &envelope, pair, out),
                Kind::Nack => self.refusal(now, host, &envelope, pair, out),
                kind => Err(format!("{kind} does not cross a border")),
            },
            Err(why) => Err(why),
        };
        if let Err(why) = outcome {
            out.push(Output::Log(format!("a frame of {host} is dropped: {why}")));
        }
        out.push(Output::Settled(host.clone(), ticket, Outcome::Dropped));
    }

    /// Reads a frame, and checks that it is from an agent that was joined for this machine to one
    /// that is exported. A SEND that fails only these checks is refused later, by name. Only a SEND
    /// is to everyone, and only a NACK, which refuses one, comes from everyone.
    fn read<'a>(&self, host: &Host, json: &'a [u8]) -> Result<(Envelope<'a>, Pair), String> {
        let envelope = Envelope::read(json).map_err(|violation| violation.to_string())?;
        let name = |member: &str, text: Option<&str>| {
            let text = text.ok_or_else(|| format!("it has no `{member}`"))?;
            match (text, member, envelope.kind) {
                (EVERYONE, "to", Kind::Send) | (EVERYONE, "from", Kind::Nack) => Ok(Name::all()),
                _ => Name::parse(text).map_err(|why| format!("`{member}` {}: {why}", Quoted(text))),
            }
        };
        let from = name("from", envelope.from.as_deref())?;
        let to = name("to", envelope.to.as_deref())?;
        if envelope.id.len() > ID_BYTES_MAX && envelope.kind == Kind::Send {
            return Err(format!("its id has more than {ID_BYTES_MAX} bytes"));
        }
        let is_joined = self.remotes.get(host).is_some_and(|it| it.agents.contains(&from));
        if envelope.kind != Kind::Send && !(is_joined && self.exports.contains(&to)) {
            return Err(format!("{from} of {host} and {to} are not both exported"));
        }
        Ok((envelope, (from, to)))
    }

    fn message(
        &mut self,
        now: Now,
        host: &Host,
        envelope: &Envelope<'_>,
        (from, to): Pair,
        ticket: Ticket,
        out: &mut Vec<Output>,
    ) {
        let refusal = match self.check(host, envelope, &from, &to) {
            Ok(_) if to.is_all() && !self.topics.includes(envelope.topic.as_deref()) => {
                // Here it has no recipients.
                let outcome = Outcome::Accepted(envelope.id.clone().into_owned());
                return out.push(Output::Settled(host.clone(), ticket, outcome));
            }
            Ok(at_least_once) => {
                let remote = self.remotes.get_mut(host).expect("a joined agent is of a machine");
                let message = Forwarded {
                    id: SendId(pairs::forwarded_id(&to, &envelope.id)),
                    to: frames::address(&to).to_owned(),
                    topic: envelope.topic.as_deref().map(str::to_owned),
                    payload: envelope.payload.to_owned(),
                    meta: envelope.payload_meta.map(str::to_owned),
                    at_least_once,
                };
                let pair = (from, to);
                remote.pairs.push(&pair, Arrived { message, ticket });
                return forward_next(now, host, remote, &pair, out);
            }
            Err(refusal) => refusal,
        };
        let (code, why) = (refusal.0.as_str(), &*refusal.1);
        refuse(now, host, Way { from: &to, to: &from }, &envelope.id, (code, why), out);
        out.push(Output::Settled(host.clone(), ticket, Outcome::Refused));
    }

    /// Checks a message. Returns whether it is at least once.
    fn check(
        &self,
        host: &Host,
        envelope: &Envelope<'_>,
        from: &Name,
        to: &Name,
    ) -> Result<bool, (NackCode, String)> {
        if !self.remotes.get(host).is_some_and(|remote| remote.agents.contains(from)) {
            let why = format!("no {from}@{host} has joined here");
            return Err((NackCode::Forbidden, why));
        }
        if to.is_all() && self.topics.is_empty() {
            let why = format!("messages to all of {host} are not taken here");
            return Err((NackCode::Forbidden, why));
        }
        if !to.is_all() && !self.exports.contains(to) {
            return Err((NackCode::Forbidden, format!("{to} is not exported to {host}")));
        }
        if self.remotes[host].pairs.contains(from, &pairs::forwarded_id(to, &envelope.id)) {
            let why = "an earlier message of this id is not answered yet";
            return Err((NackCode::Invalid, why.to_owned()));
        }
        let meta: SendMeta = match envelope.payload_meta {
            Some(meta) => envelope
                .decode_member(meta)
                .map_err(|violation| (NackCode::Invalid, violation.message))?,
            None => SendMeta::default(),
        };
        if to.is_all() && meta.sync.is_some() {
            let why = "questions to all do not cross to another machine";
            return Err((NackCode::Invalid, why.to_owned()));
        }
        Ok(meta.is_at_least_once())
    }

    fn answer(
        &self,
        host: &Host,
        envelope: &Envelope<'_>,
        (from, _): Pair,
        out: &mut Vec<Output>,
    ) -> Result<(), String> {
        let ack: Ack<'_> =
            envelope.decode_member(envelope.payload).map_err(|violation| violation.message)?;
        let correlation_id =
            ack.correlation_id.ok_or_else(|| "it has no `correlationId`".to_owned())?;
        let reply = Reply {
            delivery_id: ack.ack_id.into_owned(),
            seq: None,
            sync: Sync { correlation_id, timeout_ms: None, blocking: false },
            response: ack.response,
            data: ack.response_data.map(ToOwned::to_owned),
        };
        out.push(Output::Answer(host.clone(), from, reply));
        Ok(())
    }

    /// Handles the refusal of a message that was carried. If the local daemon has not heard of an
    /// outcome yet, it returns the message to the sender; otherwise the sender gets a message.
    fn refusal(
        &mut self,
        now: Now,
        host: &Host,
        envelope: &Envelope<'_>,
        (from, to): Pair,
        out: &mut Vec<Output>,
    ) -> Result<(), String> {
        let Nack { ack_id, code, message, .. } =
            envelope.decode_member(envelope.payload).map_err(|violation| violation.message)?;
        let cut = |text: &str, most| text.chars().take(most).collect::<String>();
        let why = format!("{} ({})", cut(&message, TEXT_MAX), cut(&code, 32));
        match self.take_in_flight(host, &ack_id) {
            Some(agent) => out.push(Output::Return(host.clone(), agent, ack_id, why)),
            None => {
                let remote = self.remotes.get_mut(host).ok_or("the machine has left")?;
                if !remote.may_notify(now.monotonic) {
                    return Err("it refuses too much".to_owned());
                }
                let body = format!("your message to {from}@{host} was not delivered: {why}");
                let meta = Meta { requires_ack: true, reply_to: Some(ack_id), ..Meta::default() };
                let notice = Outgoing { meta, ..Outgoing::message(to.as_str(), body) };
                out.push(Output::Notify(host.clone(), from, notice));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
