//! A link: two bridges that speak with each other through a pipe, each for the agents that its
//! machine exports.
//!
//! A link carries frames as docs/PROTOCOL.md, section 3, defines them. Both sides begin with HELLO,
//! which names the exported agents. A SEND is answered by ACK `accepted` or NACK; a side sends no
//! more than the window before these answers. A later HELLO states the agents that are exported
//! since then, and their details. Only the names and details in HELLO and the frames of the
//! [border] are accepted from the other side.

mod hello;
mod pipe;
mod remote_agents;

pub use pipe::{Event, Pipe};

use super::{
    border::{self, Carry, Outcome, Ticket},
    exports::Exported,
    local::{JoinError, Local, Transport},
    report::{Counters, Reporter},
    selector::{Selector, listed},
    topics::Topics,
    window::Unanswered,
};
use client::{ClientError, Ended};
use crossbeam_channel::Receiver;
use hello::{LinkBye, LinkHello};
use protocol::{
    Moment, Now,
    calendar::time_limit,
    code::{ErrorCode, NackCode},
    envelope::{Envelope, Header, Kind},
    name::{Host, Name},
    payload::{Ack, Empty, Nack},
    secret::Secret,
    text::Quoted,
};
use remote_agents::RemoteAgents;
use serde::Serialize;
use std::{cmp::Ordering, collections::HashMap, fmt, ops::ControlFlow, sync::Arc};

/// The limit for bytes that wait to be written. Above it, no more messages are sent.
const UNWRITTEN_BYTES_MAX: usize = 1 << 20;

/// The limit for further bytes of answers that wait to be written, since the other side causes
/// them.
const UNWRITTEN_ANSWERS_MAX: usize = 8 << 20;

/// The silence that makes a side send PING.
const PING_MS: u64 = 5_000;

/// The time without a byte from the other side, or without writing one, that ends the link.
const SILENT_MS: u64 = 15_000;

/// The time without the other side's HELLO before this side reports that it waits.
const WAITING_MS: u64 = 3_000;

/// The longest text of the other side that is shown, in characters.
const TEXT_MAX: usize = 300;

/// The time without a byte before the other side's HELLO: a person may have to type a password.
const GREETING_MS: u64 = 120_000;

/// How long a side waits for names that another bridge has. This machine's side of an earlier link
/// notices a failure of the other machine only after [`SILENT_MS`].
const NAMES_MS: u64 = 20_000;

/// The pause before the daemon is asked again for such names.
const NAMES_RETRY_MS: u64 = 1_000;

/// The most lines that a link writes to the log in a minute, since the other side can cause them.
const LOG_LINES_MAX: usize = 50;
const LOG_MS: u64 = 60_000;

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
    /// The agents that this side exports at first.
    pub exports: Vec<Name>,
    /// Whether this side may export other agents later.
    pub has_patterns: bool,
    /// The exported agents of the other side that this side wants; all if absent.
    pub imports: Option<Vec<Selector>>,
    /// The messages to several recipients that cross, in both directions.
    pub topics: Topics,
    /// The secret that identifies this bridge to the daemons, on the side that has started the
    /// link. The other side uses the same.
    pub bridge: Option<Secret>,
}

/// A join of the daemon that waits.
#[derive(Debug)]
struct Joining {
    agents: Vec<Name>,
    bridge: Secret,
    began: Moment,
    again_at: Moment,
}

/// One side of a link.
#[derive(Debug)]
pub struct Link<'a> {
    agents: &'a Agents,
    pipe: Pipe,
    /// The other side's longest frame, once its HELLO came.
    frame_bytes_max: Option<usize>,
    /// The join that waits for names of another bridge.
    joining: Option<Joining>,
    remote: RemoteAgents,
    /// Whether the other side has joined its daemon, too.
    is_open: bool,
    says_waiting: bool,
    sent: Unanswered<String, Name>,
    received: Unanswered<Ticket, Name>,
    /// The ids of the received messages without an answer.
    received_ids: HashMap<Ticket, String>,
    next_ticket: Ticket,
    next_id: u64,
    last_read: Moment,
    /// The last time when something was written, or when nothing was waiting.
    last_written: Moment,
    last_sent: Moment,
    began: Moment,
    log: fn(&str),
    reporter: Option<Reporter>,
    /// The agents that this side exports.
    exported: Exported,
    /// Whether the other side has not been told of them.
    is_untold: bool,
    own_frame_bytes_max: u64,
    counters: Arc<Counters>,
    logged: usize,
    logged_since: Moment,
    now: Moment,
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
            joining: None,
            remote: RemoteAgents::default(),
            is_open: false,
            says_waiting: agents.bridge.is_none(),
            sent: Unanswered::default(),
            received: Unanswered::default(),
            received_ids: HashMap::new(),
            next_ticket: 0,
            next_id: 0,
            last_read: now.monotonic,
            last_written: now.monotonic,
            last_sent: now.monotonic,
            began: now.monotonic,
            log,
            reporter: None,
            exported: Exported { agents: agents.exports.clone(), ..Exported::default() },
            is_untold: false,
            own_frame_bytes_max: frame_bytes_max,
            counters: Arc::default(),
            logged: 0,
            logged_since: now.monotonic,
            now: now.monotonic,
        };
        let hello = link.own_hello().of_bridge(agents.bridge.as_ref());
        link.write(now, Kind::Hello, &hello);
        link
    }

    /// Starts to report.
    pub fn report_to(&mut self, reporter: &Reporter) {
        self.counters = Arc::clone(reporter.counters());
        self.reporter = Some(reporter.clone());
    }

    /// Whether both sides have joined their daemons.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Tells the other side that this side leaves, and why. Then ends the link and its `events`,
    /// after a second at most. After a `refusal`, another link would end in the same way.
    pub fn leave(mut self, now: Now, reason: &str, refusal: bool, events: Receiver<Event>) {
        let reason = reason.chars().take(TEXT_MAX).collect();
        self.write(now, Kind::Bye, &LinkBye { reason, refusal });
        self.pipe.end(events);
    }

    fn write(&mut self, now: Now, kind: Kind, payload: &impl Serialize) {
        self.next_id += 1;
        let id = format!("l-{}", self.next_id);
        let header = Header::new(kind, &id, now.unix_ms);
        self.write_frame(now, |json| header.append_envelope(json, payload));
    }

    fn write_frame(&mut self, now: Now, append: impl FnOnce(&mut Vec<u8>)) {
        if self.pipe.unwritten() == 0 {
            self.last_written = now.monotonic;
        }
        self.last_sent = now.monotonic;
        self.pipe.write(append);
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
            Kind::Hello => self.later_hello(now, &envelope),
            Kind::Welcome => self.opened(now),
            Kind::Send => return self.message(&envelope, json, now, local),
            Kind::Ack if envelope.to.is_none() => {
                if let Ok(ack) = envelope.decode_member::<Ack<'_>>(envelope.payload) {
                    let id = ack.ack_id.into_owned();
                    self.sent.remove(&id);
                    local.input(now, border::Input::Carried(&self.agents.peer, id));
                }
            }
            Kind::Ack => local.input(now, border::Input::Frame(&self.agents.peer, json, 0)),
            Kind::Nack => {
                Counters::count(&self.counters.sent_refused);
                if let Ok(nack) = envelope.decode_member::<Nack>(envelope.payload) {
                    self.sent.remove(&nack.ack_id);
                }
                local.input(now, border::Input::Frame(&self.agents.peer, json, 0));
            }
            Kind::Ping => self.write(now, Kind::Pong, &Empty {}),
            Kind::Bye => {
                let bye: LinkBye = envelope.decode_member(envelope.payload).unwrap_or_default();
                let reason: String = bye.reason.chars().take(TEXT_MAX).collect();
                let why = format!("{} left: {reason}", self.agents.peer);
                return ControlFlow::Break(if bye.refusal {
                    End::Refused(why)
                } else {
                    End::Lost(why)
                });
            }
            // A later version may send more.
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn hello(&mut self, now: Now, envelope: &Envelope<'_>, local: &mut Local) -> ControlFlow<End> {
        let hello = envelope.decode_member(envelope.payload).map_err(|why| why.message);
        let Agents { peer, imports, .. } = self.agents;
        let hello = match hello.and_then(|hello: LinkHello| hello.check()) {
            Ok(hello) => hello,
            Err(why) => return self.refuse(&why),
        };
        self.frame_bytes_max = Some(hello.frame_bytes_max);
        let Some(bridge) = self.agents.bridge.clone().or(hello.bridge) else {
            return self
                .refuse("neither side has started the link: run `agent-relay bridge` on one");
        };
        let is_missing = |import: &&Selector| !hello.agents.iter().any(|it| import.selects(it));
        for missing in imports.iter().flatten().filter(is_missing) {
            (self.log)(&format!("{peer} does not export {missing}"));
        }
        let agents = self.imported(hello.agents);
        if agents.is_empty() && !hello.has_patterns {
            return self.refuse("it exports no agent that this side imports");
        }
        self.remote.begin(&bridge, hello.takes_more);
        self.warn_of_excess();
        let (began, again_at) = (now.monotonic, now.monotonic);
        self.join(now, Joining { agents, bridge, began, again_at }, local)
    }

    /// Joins the daemon for the other side's agents, later if another bridge has their names.
    fn join(&mut self, now: Now, joining: Joining, local: &mut Local) -> ControlFlow<End> {
        let Joining { agents, bridge, began, again_at } = joining;
        let Err(refused) = local.present(now, &self.agents.peer, &agents, &bridge) else {
            self.remote.joined(agents);
            self.write(now, Kind::Welcome, &Empty {});
            return ControlFlow::Continue(());
        };
        let JoinError { agent, error } = refused;
        let limit = time_limit(NAMES_MS);
        match error {
            ClientError::Ended(ref ended) if ended.has_code(ErrorCode::NameInUse) => {
                if now.monotonic >= began.plus(NAMES_MS) {
                    return ControlFlow::Break(End::Refused(format!(
                        "another bridge still has the name {agent} after {limit} (NAME_IN_USE); \
                         stop that one, or call the machine by another name"
                    )));
                }
                if again_at == began {
                    (self.log)(&format!(
                        "another bridge has the name {agent}; waiting at most {limit} for its end"
                    ));
                }
                let again_at = now.monotonic.plus(NAMES_RETRY_MS);
                self.joining = Some(Joining { agents, bridge, began, again_at });
                ControlFlow::Continue(())
            }
            ClientError::Ended(Ended::Error(_)) => ControlFlow::Break(End::Refused(format!(
                "cannot join the daemon here as {agent}: {error}"
            ))),
            _ => ControlFlow::Break(End::Lost(format!(
                "cannot join the daemon here as {agent}: {error}"
            ))),
        }
    }

    /// Notes that the other side has joined its daemon.
    fn opened(&mut self, now: Now) {
        self.is_open = true;
        if let Some(reporter) = &self.reporter {
            reporter.update(|report| report.linked(None));
        }
        self.report_agents();
        self.tell_exports(now);
        let Agents { peer, bridge, .. } = self.agents;
        // The other side's lines are shown next to this one's.
        if bridge.is_some() {
            let (here, there) = (self.remote.listed(peer), listed(&self.exported.agents));
            (self.log)(&format!("linked to {peer}: {here} here, {there} there"));
        }
        self.warn_of_topics();
    }

    fn message(
        &mut self,
        envelope: &Envelope<'_>,
        json: &[u8],
        now: Now,
        local: &mut Local,
    ) -> ControlFlow<End> {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.received_ids.insert(ticket, envelope.id.clone().into_owned());
        // A message without a valid recipient is refused at once, so it needs no window.
        if let Some(to) = envelope.to.as_deref().and_then(border::recipient)
            && (self.received.add(ticket, to, json.len()).is_exceeded(json.len())
                || self.received.is_exceeded(json.len()))
        {
            return self.refuse("it sends more than a link allows");
        }
        local.input(now, border::Input::Frame(&self.agents.peer, json, ticket));
        ControlFlow::Continue(())
    }

    /// Ends the link because of the other side's input.
    fn refuse(&self, what: &str) -> ControlFlow<End> {
        let peer = &self.agents.peer;
        ControlFlow::Break(End::Refused(format!("cannot link to {peer}: {what}")))
    }

    /// The time without a byte that ends the link.
    const fn silent_ms(&self) -> u64 {
        if self.frame_bytes_max.is_some() { SILENT_MS } else { GREETING_MS }
    }

    /// Whether the output that the other side causes grows without being read.
    fn is_flooded(&self) -> bool {
        let longest = self.frame_bytes_max.unwrap_or_default();
        self.pipe.unwritten() > UNWRITTEN_BYTES_MAX + UNWRITTEN_ANSWERS_MAX + longest
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
        self.now = now.monotonic;
        match event {
            Event::Read(batch) => {
                self.last_read = now.monotonic;
                for frame in batch.iter().flat_map(|batch| batch.frames()) {
                    self.frame(now, frame, local)?;
                }
            }
            Event::Written(bytes) => {
                self.pipe.written(bytes);
                self.last_written = now.monotonic;
            }
            Event::NoFrames(first_bytes) => {
                let text = String::from_utf8_lossy(&first_bytes);
                let what = format!("it does not speak as a bridge, but says {}", Quoted(&text));
                return self.refuse(&what);
            }
            Event::Closed(why) => return ControlFlow::Break(End::Lost(why)),
            Event::Exported(exported) => self.exports_changed(now, *exported, local),
        }
        if self.is_flooded() {
            return self.refuse("it does not read the answers to what it sends");
        }
        ControlFlow::Continue(())
    }

    fn tick(&mut self, now: Now, local: &mut Local) -> ControlFlow<End> {
        if now.monotonic >= self.lost_at() {
            let (peer, limit) = (&self.agents.peer, time_limit(self.silent_ms()));
            let why = format!("nothing came from {peer}, or reached it, for {limit}");
            return ControlFlow::Break(End::Lost(why));
        }
        self.now = now.monotonic;
        if self.frame_bytes_max.is_some() && now.monotonic >= self.last_sent.plus(PING_MS) {
            self.write(now, Kind::Ping, &Empty {});
        }
        if !self.says_waiting && now.monotonic >= self.began.plus(WAITING_MS) {
            self.says_waiting = true;
            if self.frame_bytes_max.is_none() {
                (self.log)(&format!("waiting for {}", self.agents.peer));
            }
        }
        if self.remote.change_at().is_some_and(|at| at <= now.monotonic) {
            self.change_remote_agents(now, local);
        }
        match self.joining.take_if(|joining| joining.again_at <= now.monotonic) {
            Some(joining) => self.join(now, joining, local),
            None => ControlFlow::Continue(()),
        }
    }

    fn deadline(&self) -> Option<Moment> {
        let ping = self.frame_bytes_max.map(|_| self.last_sent.plus(PING_MS));
        let waiting = (!self.says_waiting).then(|| self.began.plus(WAITING_MS));
        let joining = self.joining.as_ref().map(|joining| joining.again_at);
        let change = self.remote.change_at();
        [Some(self.lost_at()), ping, waiting, joining, change].into_iter().flatten().min()
    }

    fn has_room(&self, _: &Host, agent: &Name) -> bool {
        self.is_open && self.pipe.unwritten() < UNWRITTEN_BYTES_MAX && !self.sent.is_full(agent)
    }

    fn carry(&mut self, now: Now, carry: Carry) -> Result<(), String> {
        let bytes = carry.frame.len();
        if carry.is_message {
            Counters::count(&self.counters.sent);
        }
        let Some(most) = self.frame_bytes_max else { return Err("there is no link".to_owned()) };
        if bytes > most {
            let peer = &self.agents.peer;
            Counters::count(&self.counters.sent_refused);
            return Err(format!("{bytes} bytes are over max_frame_bytes of {peer} ({most})"));
        }
        if carry.is_message {
            self.sent.add(carry.id, carry.to, bytes);
        }
        self.write_frame(now, |json| json.extend_from_slice(&carry.frame));
        Ok(())
    }

    fn settled(&mut self, now: Now, _: &Host, ticket: Ticket, outcome: Outcome) {
        self.received.remove(&ticket);
        let id = self.received_ids.remove(&ticket);
        match outcome {
            Outcome::Accepted(id) => {
                Counters::count(&self.counters.received);
                let state = Some("accepted".into());
                self.write(now, Kind::Ack, &Ack { ack_id: id.into(), state, ..Ack::default() });
            }
            Outcome::Refused => Counters::count(&self.counters.received_refused),
            // The message was invalid, but the other side waits for an answer.
            Outcome::Dropped => {
                if let Some(id) = id {
                    let why = "it is no message from one agent to another";
                    self.write(now, Kind::Nack, &Nack::new(id, NackCode::Invalid, why));
                }
            }
        }
    }

    fn client_ended(&mut self, agent: &Name, ended: &Ended) -> ControlFlow<End> {
        ControlFlow::Break(End::Refused(format!("{agent} is cut off from the daemon: {ended}")))
    }

    fn log(&mut self, line: String) {
        self.say(&line);
    }
}

impl Link<'_> {
    /// Writes a line to the log, unless the other side may cause too many.
    fn say(&mut self, line: &str) {
        if self.now >= self.logged_since.plus(LOG_MS) {
            (self.logged, self.logged_since) = (0, self.now);
        }
        self.logged += 1;
        match self.logged.cmp(&LOG_LINES_MAX) {
            Ordering::Less => (self.log)(line),
            Ordering::Equal => (self.log)("further lines of this minute are not shown"),
            Ordering::Greater => {}
        }
    }
}

#[cfg(test)]
mod tests;
