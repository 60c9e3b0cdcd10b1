//! A link: two bridges that speak with each other through a pipe, each for the agents that its
//! machine exports.
//!
//! A link carries frames as docs/PROTOCOL.md, section 3, defines them. Both sides begin with HELLO,
//! which names the exported agents. A SEND is answered by ACK `accepted` or NACK; a side sends no
//! more than the window before these answers. Nothing but the names in HELLO and the frames of the
//! [border](super::border) is taken from the other side.

mod hello;
mod pipe;

pub use pipe::{Event, Pipe};

use super::{
    border::{Carry, Input, Outcome, Ticket},
    local::{Local, Transport},
};
use crate::{
    client::{ClientError, Ended},
    protocol::{
        Moment, Now,
        calendar::time_limit,
        envelope::{Envelope, Header, Kind},
        name::{Host, Name},
        payload::{Ack, Bye, Empty, Nack},
        text::Quoted,
    },
};
use hello::LinkHello;
use serde::Serialize;
use std::{cmp::Ordering, collections::HashMap, fmt, ops::ControlFlow};

/// The most messages that one side has sent and the other has not answered.
const WINDOW_MESSAGES: usize = 1_024;

/// The most bytes of these messages. A single message may always be sent.
const WINDOW_BYTES: usize = 16 << 20;

/// The most bytes that wait to be written before no more deliveries are taken.
const UNWRITTEN_BYTES_MAX: usize = 4 << 20;

/// The silence after which a side sends PING.
const PING_MS: u64 = 5_000;

/// The time without a byte from the other side, or with none written, after which the link is lost.
const SILENT_MS: u64 = 15_000;

/// The time without a byte before the other side's HELLO: a person may have to type a password.
const GREETING_MS: u64 = 120_000;

/// The most lines that a link writes to the log, since the other side can cause them.
const LOG_LINES_MAX: usize = 100;

/// The most bytes of a longest frame beyond `max_frame_bytes`, for refusals.
pub const FRAME_EXTRA_BYTES: usize = 4_096;

/// The reason why a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The pipe ended or is silent, or the other side left. Another link may work.
    Lost(String),
    /// Another link would end in the same way.
    Refused(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost(why) | Self::Refused(why) => why,
        })
    }
}

/// Both sides' agents.
#[derive(Clone, Debug)]
pub struct Agents {
    /// The other machine.
    pub peer: Host,
    /// The agents that this side exports.
    pub exports: Vec<Name>,
    /// The agents that this side wants of those that the other exports; all if absent.
    pub imports: Option<Vec<Name>>,
}

/// The messages that were sent in one direction and are not answered.
#[derive(Debug, Default)]
struct Window {
    messages: usize,
    bytes: usize,
}

impl Window {
    const fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes;
    }

    const fn remove(&mut self, bytes: usize) {
        self.messages -= 1;
        self.bytes -= bytes;
    }

    const fn is_full(&self) -> bool {
        self.messages >= WINDOW_MESSAGES || self.bytes >= WINDOW_BYTES
    }

    /// Whether the window has more than a side that obeys the rules would send.
    const fn is_exceeded(&self) -> bool {
        self.messages > 2 * WINDOW_MESSAGES || self.messages > 1 && self.bytes > 3 * WINDOW_BYTES
    }
}

/// One side of a link.
#[derive(Debug)]
pub struct Link<'a> {
    agents: &'a Agents,
    pipe: Pipe,
    /// The other side's longest frame, once its HELLO came.
    frame_bytes_max: Option<usize>,
    /// The messages that were sent and not answered: their bytes by their ids.
    sent: HashMap<String, usize>,
    sent_window: Window,
    /// The messages that came and are not answered: their bytes by their tickets.
    received: HashMap<Ticket, usize>,
    received_window: Window,
    next_ticket: Ticket,
    next_id: u64,
    last_read: Moment,
    /// The last time at which something was written, or nothing was left to be written.
    last_written: Moment,
    last_sent: Moment,
    log: fn(&str),
    logged: usize,
}

impl<'a> Link<'a> {
    /// Begins a link, and sends HELLO.
    pub fn begin(
        now: Now,
        agents: &'a Agents,
        pipe: Pipe,
        frame_bytes_max: u64,
        log: fn(&str),
    ) -> Self {
        let mut link = Self {
            agents,
            pipe,
            frame_bytes_max: None,
            sent: HashMap::new(),
            sent_window: Window::default(),
            received: HashMap::new(),
            received_window: Window::default(),
            next_ticket: 0,
            next_id: 0,
            last_read: now.monotonic,
            last_written: now.monotonic,
            last_sent: now.monotonic,
            log,
            logged: 0,
        };
        let hello = LinkHello::new(&agents.exports, frame_bytes_max);
        link.write(now, Kind::Hello, &hello);
        link
    }

    /// Whether both sides have introduced themselves.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.frame_bytes_max.is_some()
    }

    /// Says that this side leaves.
    pub fn leave(&mut self, now: Now, reason: &str) {
        self.write(now, Kind::Bye, &Bye { reason: reason.to_owned(), retry_after_ms: None });
    }

    fn write(&mut self, now: Now, kind: Kind, payload: &impl Serialize) {
        self.next_id += 1;
        let (id, mut frame) = (format!("l-{}", self.next_id), Vec::new());
        Header::new(kind, &id, now.unix_ms).append(&mut frame, payload);
        self.write_frame(now, frame);
    }

    fn write_frame(&mut self, now: Now, frame: Vec<u8>) {
        if self.pipe.unwritten() == 0 {
            self.last_written = now.monotonic;
        }
        self.last_sent = now.monotonic;
        self.pipe.write(&frame);
    }

    fn frame(&mut self, now: Now, json: &[u8], local: &mut Local) -> ControlFlow<End> {
        let envelope = match Envelope::read(json) {
            Ok(envelope) => envelope,
            Err(violation) => return self.refuse(&violation.to_string()),
        };
        if self.frame_bytes_max.is_none() {
            return match envelope.kind {
                Kind::Hello => self.hello(now, &envelope, local),
                kind => self.refuse(&format!("it began with {kind}")),
            };
        }
        match envelope.kind {
            Kind::Send => return self.message(now, json, local),
            Kind::Ack if envelope.to.is_none() => {
                if let Ok(ack) = envelope.decode_member::<Ack<'_>>(envelope.payload) {
                    self.answered(&ack.ack_id);
                    local.input(now, Input::Carried(&self.agents.peer, ack.ack_id.into_owned()));
                }
            }
            Kind::Ack => local.input(now, Input::Frame(&self.agents.peer, json, 0)),
            Kind::Nack => {
                if let Ok(nack) = envelope.decode_member::<Nack>(envelope.payload) {
                    self.answered(&nack.ack_id);
                }
                local.input(now, Input::Frame(&self.agents.peer, json, 0));
            }
            Kind::Ping => self.write(now, Kind::Pong, &Empty {}),
            Kind::Bye => {
                let bye = envelope.decode_member::<Bye>(envelope.payload).unwrap_or_default();
                let peer = &self.agents.peer;
                return ControlFlow::Break(End::Lost(format!("{peer} left: {}", bye.reason)));
            }
            // A later version may send more.
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn hello(&mut self, now: Now, envelope: &Envelope<'_>, local: &mut Local) -> ControlFlow<End> {
        let hello = envelope.decode_member(envelope.payload).map_err(|why| why.message);
        let Agents { peer, imports, .. } = self.agents;
        let agents = match hello.and_then(|hello: LinkHello| hello.check()) {
            Ok((agents, frame_bytes_max)) => {
                self.frame_bytes_max = Some(frame_bytes_max);
                agents
            }
            Err(why) => return self.refuse(&why),
        };
        for missing in imports.iter().flatten().filter(|name| !agents.contains(name)) {
            (self.log)(&format!("{peer} does not export {missing}"));
        }
        let is_wanted = |name: &Name| imports.as_ref().is_none_or(|all| all.contains(name));
        let agents: Vec<_> = agents.into_iter().filter(is_wanted).collect();
        if agents.is_empty() {
            return self.refuse("it exports no agent that this side imports");
        }
        if let Err(refused) = local.present(now, peer, &agents) {
            let why =
                format!("cannot join the daemon here as {}: {}", refused.agent, refused.error);
            return ControlFlow::Break(match refused.error {
                ClientError::NoDaemon { .. } | ClientError::TimedOut { .. } => End::Lost(why),
                _ => End::Refused(why),
            });
        }
        let here: Vec<_> = agents.iter().map(|name| name.at(peer).to_string()).collect();
        let there: Vec<_> = self.agents.exports.iter().map(Name::to_string).collect();
        let (here, there) = (here.join(", "), there.join(", "));
        (self.log)(&format!("linked to {peer}: {here} here, {there} there"));
        ControlFlow::Continue(())
    }

    fn message(&mut self, now: Now, json: &[u8], local: &mut Local) -> ControlFlow<End> {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.received.insert(ticket, json.len());
        self.received_window.add(json.len());
        if self.received_window.is_exceeded() {
            return self.refuse("it sends more than a link allows");
        }
        local.input(now, Input::Frame(&self.agents.peer, json, ticket));
        ControlFlow::Continue(())
    }

    /// Notes that the other side has answered a message.
    fn answered(&mut self, id: &str) {
        if let Some(bytes) = self.sent.remove(id) {
            self.sent_window.remove(bytes);
        }
    }

    /// Ends the link because of what the other side sent.
    fn refuse(&self, what: &str) -> ControlFlow<End> {
        let peer = &self.agents.peer;
        ControlFlow::Break(End::Refused(format!("cannot link to {peer}: {what}")))
    }

    /// The time without a byte after which the link is lost.
    const fn silent_ms(&self) -> u64 {
        if self.is_open() { SILENT_MS } else { GREETING_MS }
    }

    fn lost_at(&self) -> Moment {
        let read = self.last_read.plus(self.silent_ms());
        if self.pipe.unwritten() == 0 {
            read
        } else {
            read.min(self.last_written.plus(self.silent_ms()))
        }
    }
}

impl Transport for Link<'_> {
    type Event = Event;
    type End = End;

    fn event(&mut self, now: Now, event: Event, local: &mut Local) -> ControlFlow<End> {
        match event {
            Event::Read(batch) => {
                self.last_read = now.monotonic;
                for frame in batch.iter().flat_map(|batch| batch.frames()) {
                    self.frame(now, frame, local)?;
                }
            }
            Event::Written => {
                self.pipe.written();
                self.last_written = now.monotonic;
            }
            Event::NoFrames(first_bytes) => {
                let text = String::from_utf8_lossy(&first_bytes);
                let what = format!("it does not speak as a bridge, but says {}", Quoted(&text));
                return self.refuse(&what);
            }
            Event::Closed(why) => return ControlFlow::Break(End::Lost(why)),
        }
        ControlFlow::Continue(())
    }

    fn tick(&mut self, now: Now, _: &mut Local) -> ControlFlow<End> {
        if now.monotonic >= self.lost_at() {
            let (peer, limit) = (&self.agents.peer, time_limit(self.silent_ms()));
            let why = format!("nothing came from {peer}, or reached it, for {limit}");
            return ControlFlow::Break(End::Lost(why));
        }
        if self.is_open() && now.monotonic >= self.last_sent.plus(PING_MS) {
            self.write(now, Kind::Ping, &Empty {});
        }
        ControlFlow::Continue(())
    }

    fn deadline(&self) -> Option<Moment> {
        let ping = self.last_sent.plus(PING_MS);
        Some(if self.is_open() { self.lost_at().min(ping) } else { self.lost_at() })
    }

    fn is_congested(&self) -> bool {
        !self.is_open()
            || self.sent_window.is_full()
            || self.pipe.unwritten() >= UNWRITTEN_BYTES_MAX
    }

    fn carry(&mut self, now: Now, carry: Carry) -> Result<(), String> {
        let bytes = carry.frame.len();
        let Some(most) = self.frame_bytes_max else { return Err("there is no link".to_owned()) };
        if bytes > most {
            let peer = &self.agents.peer;
            return Err(format!("{bytes} bytes are over max_frame_bytes of {peer} ({most})"));
        }
        if carry.is_message {
            self.sent.insert(carry.id, bytes);
            self.sent_window.add(bytes);
        }
        self.write_frame(now, with_length(&carry.frame));
        Ok(())
    }

    fn settled(&mut self, now: Now, _: &Host, ticket: Ticket, outcome: Outcome) {
        if let Some(bytes) = self.received.remove(&ticket) {
            self.received_window.remove(bytes);
        }
        if let Outcome::Accepted(id) = outcome {
            let state = Some("accepted".into());
            self.write(now, Kind::Ack, &Ack { ack_id: id.into(), state, ..Ack::default() });
        }
    }

    fn client_ended(&mut self, agent: &Name, ended: &Ended) -> ControlFlow<End> {
        ControlFlow::Break(End::Refused(format!("{agent} is cut off from the daemon: {ended}")))
    }

    fn log(&mut self, line: String) {
        self.logged += 1;
        match self.logged.cmp(&LOG_LINES_MAX) {
            Ordering::Less => (self.log)(&line),
            Ordering::Equal => (self.log)("further lines of this link are not shown"),
            Ordering::Greater => {}
        }
    }
}

fn with_length(json: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(json.len() + 4);
    crate::protocol::frame::append(&mut frame, |bytes| bytes.extend_from_slice(json));
    frame
}

#[cfg(test)]
mod tests;
