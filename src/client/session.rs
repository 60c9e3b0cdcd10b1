//! A client's side of the protocol: the pure machine behind [`Client`](super::Client).
//!
//! It follows docs/PROTOCOL.md, section 15: it holds messages until the daemon has them, backs off
//! when a recipient is busy, resumes its session, drops duplicates, and answers what needs no
//! application.
//! A driver does what each [`Output`] says, in order, and calls again with whatever happens next.

mod answers;
mod comeback;
mod dice;
mod heard;
mod hold;
mod topics;

use super::message::{Answer, Delivery, Ended, Event, Outgoing, Reply, SendId, State};
use crate::protocol::{
    Moment, Now,
    code::{ErrorCode, NackCode, Violation},
    envelope::{Envelope, Header, Kind},
    payload::{
        Ack, Auth, Bye, Capabilities, Empty, Fault, Heartbeat, Hello, Nack, Resume, ResumeStreams,
        SessionClaim, Welcome,
    },
    secret::Secret,
};
use answers::Answers;
use comeback::Comeback;
use dice::Dice;
use heard::{Heard, INFLIGHT_MAX, Verdict};
use hold::Hold;
use serde::Serialize;
use std::{borrow::Cow, collections::VecDeque};
use topics::{Asked, SUBSCRIPTIONS_MAX, Topics};

/// The first wait before a reconnect, doubled with every further one.
pub const BACKOFF_MS: u64 = 100;

/// The longest wait, before jitter.
pub const BACKOFF_MS_MAX: u64 = 30_000;

/// The longest wait of a [local](Identity::local) client whose connection is lost, before jitter:
/// with it, a second has an attempt.
pub const LOCAL_WAIT_MS_MAX: u64 = 800;

/// Waits that double before a local client's is the longest.
const LOCAL_WAITS_MAX: u32 = 3;

/// Tries in one cycle.
pub const ATTEMPTS_MAX: u32 = 10;

/// How long the daemon may take to say WELCOME.
const WELCOME_MS: u64 = 10_000;

/// A connection that lasted so long begins a new cycle when it ends.
const STEADY_MS: u64 = 10_000;

/// How long it may take to answer RESUME before what came meanwhile is no longer held back.
const SYNC_MS: u64 = 10_000;

/// When an unanswerable delivery may come again.
const FULL_RETRY_MS: u64 = 1000;

/// Who the machine is, and how patient.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The name asked for; guests have none.
    pub agent: Option<String>,
    /// HELLO's `mode`.
    pub mode: Option<String>,
    /// HELLO's `capabilities`; `max_inflight` is at most as many deliveries as are told from doubles.
    pub capabilities: Capabilities,
    /// What proves a keyed name, or an operator.
    pub key: Option<Secret>,
    /// What an agent's companions prove themselves with.
    pub companion_key: Option<Secret>,
    /// Tries before the first WELCOME.
    pub first_attempts: u32,
    /// After a cycle of tries, or where somebody else has the name, begin anew after this time rather
    /// than end.
    pub again_after_ms: Option<u64>,
    /// Once joined, reconnect at least once a second without an end, unless the daemon answers with
    /// an ERROR.
    pub local: bool,
    /// For ids and jitter.
    pub seed: [u8; 32],
}

/// Everything that can happen.
#[derive(Debug)]
pub enum Input<'a> {
    /// The application wants a connection.
    Start,
    /// A stream is there.
    Connected,
    /// No stream could be opened.
    NotConnected {
        /// The system's words.
        why: String,
        /// Whether nobody listens there.
        absent: bool,
    },
    /// One whole frame's JSON.
    Frame(&'a [u8]),
    /// The connection ended, in these words.
    Disconnected(String),
    /// The application says something; the number comes back as [`Output::Released`].
    Send(SendId, Outgoing, usize),
    /// The application is done with a delivery.
    Acknowledge(String),
    /// The application answers a delivery that asks, and is done with it; the number comes back as
    /// [`Output::Released`].
    Answer(Reply, usize),
    /// The application gives a delivery back.
    GiveBack(Nack),
    /// The application wants to hear a topic.
    Subscribe(String),
    /// The application doesn't want to hear it any more.
    Unsubscribe(String),
    /// The application leaves.
    Close,
    /// The deadline is reached.
    Tick,
}

/// Everything that is to be done.
#[derive(Debug)]
pub enum Output {
    /// Open a stream, and say whether it worked.
    Connect,
    /// Write a frame.
    Frame(Vec<u8>),
    /// Let what was written leave, then close the stream.
    Close,
    /// Close the stream now.
    HangUp,
    /// A message or an answer of this weight is no longer held.
    Released(usize),
    /// Tell the application.
    Event(Event),
}

/// The machine.
#[derive(Debug)]
pub struct Session {
    identity: Identity,
    dice: Dice,
    phase: Phase,
    /// Whether there ever was a WELCOME.
    joined: bool,
    /// Tries in this cycle.
    attempts: u32,
    /// Waits in this cycle.
    waits: u32,
    /// Whether the last try found nobody.
    absent: bool,
    /// The newest, good for one return. It is shown until the daemon has answered it, since a HELLO may
    /// be lost as well as a WELCOME.
    token: Option<String>,
    /// The last WELCOME's.
    session_id: String,
    hold: Hold,
    heard: Heard,
    answers: Answers,
    comeback: Comeback,
    topics: Topics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Disconnected,
    Connecting,
    Handshaking { until: Moment },
    Ready { since: Moment },
    Backoff { until: Moment },
}

impl Session {
    /// A machine that does nothing until [`Input::Start`].
    #[must_use]
    pub fn new(mut identity: Identity) -> Self {
        let max_inflight = identity.capabilities.max_inflight.min(INFLIGHT_MAX);
        identity.capabilities.max_inflight = max_inflight;
        Self {
            dice: Dice::new(identity.seed),
            identity,
            phase: Phase::Disconnected,
            joined: false,
            attempts: 0,
            waits: 0,
            absent: false,
            token: None,
            session_id: String::new(),
            hold: Hold::new(),
            heard: Heard::default(),
            answers: Answers::default(),
            comeback: Comeback::default(),
            topics: Topics::default(),
        }
    }

    /// Takes one input and appends what is to be done.
    pub fn handle(&mut self, now: Now, input: Input<'_>, out: &mut Vec<Output>) {
        match input {
            Input::Start if self.phase == Phase::Disconnected => self.connect(out),
            Input::Start => {}
            Input::Connected => self.introduce(now, out),
            Input::NotConnected { why, absent } => {
                self.absent = absent;
                self.lost(now, why, 0, out);
            }
            Input::Disconnected(why) => self.lost(now, why, 0, out),
            Input::Frame(json) => self.frame(now, json, out),
            Input::Send(id, message, weight) => self.hold.add(now, id, &message, weight, out),
            Input::Acknowledge(id) => self.acknowledge(now, &id, out),
            Input::Answer(reply, weight) => {
                self.reply(now, reply, out);
                out.push(Output::Released(weight));
            }
            Input::GiveBack(nack) => {
                if self.heard.give_back(&nack.ack_id) {
                    self.say(now, Kind::Nack, &nack, out);
                }
            }
            Input::Subscribe(pattern) => self.subscribe(now, pattern, out),
            Input::Unsubscribe(pattern) => {
                if self.topics.give_up(&pattern) && self.is_ready() {
                    self.ask_for(now, Asked { pattern, wanted: false }, out);
                }
            }
            Input::Close => self.close(now, out),
            Input::Tick => self.tick(now, out),
        }
    }

    /// A bug planted on purpose.
    #[cfg(test)]
    pub(crate) fn forget_heard(&mut self) {
        self.heard = Heard::default();
    }

    /// Whether there ever was a WELCOME.
    #[must_use]
    pub const fn has_joined(&self) -> bool {
        self.joined
    }

    /// When the machine wants [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        match self.phase {
            Phase::Disconnected | Phase::Connecting => None,
            Phase::Handshaking { until } | Phase::Backoff { until } => Some(until),
            Phase::Ready { .. } => {
                self.hold.deadline().into_iter().chain(self.comeback.deadline()).min()
            }
        }
    }

    fn tick(&mut self, now: Now, out: &mut Vec<Output>) {
        match self.phase {
            Phase::Backoff { until } if now.monotonic >= until => self.connect(out),
            Phase::Handshaking { until } if now.monotonic >= until => {
                let why = format!("the daemon did not say WELCOME within {WELCOME_MS} ms");
                self.lost(now, why, 0, out);
            }
            Phase::Ready { .. } => {
                if self.comeback.deadline().is_some_and(|until| now.monotonic >= until) {
                    let why = format!("the daemon did not answer RESUME within {SYNC_MS} ms");
                    self.miss(now, why, out);
                }
                self.hold.flush(now, out);
            }
            _ => {}
        }
    }

    fn connect(&mut self, out: &mut Vec<Output>) {
        self.phase = Phase::Connecting;
        self.attempts += 1;
        out.push(Output::Event(Event::State(State::Connecting)));
        out.push(Output::Connect);
    }

    fn introduce(&mut self, now: Now, out: &mut Vec<Output>) {
        self.phase = Phase::Handshaking { until: now.monotonic.plus(WELCOME_MS) };
        self.absent = false;
        out.push(Output::Event(Event::State(State::Handshaking)));
        let token = self.token.clone();
        let session = token.map(|token| SessionClaim { resume_token: Some(token) });
        let companion_key = self.identity.companion_key.as_ref();
        let hello = Hello {
            agent: self.identity.agent.clone(),
            capabilities: self.identity.capabilities,
            session,
            mode: self.identity.mode.clone(),
            auth: self.identity.key.as_ref().map(|key| Auth { key: Some(key.reveal().to_owned()) }),
            companion_key: companion_key.map(|key| key.reveal().to_owned()),
        };
        self.write(now, Kind::Hello, None, &hello, out);
    }

    /// A try failed or a connection ended; the next try waits at least `wait_ms_min`.
    fn lost(&mut self, now: Now, why: String, wait_ms_min: u64, out: &mut Vec<Output>) {
        if !self.end_connection(now, out) {
            return;
        }
        if !(self.joined && self.identity.local) {
            return self.try_again(now, why, wait_ms_min, out);
        }
        let wait = BACKOFF_MS.saturating_mul(1 << self.waits.min(20)).min(LOCAL_WAIT_MS_MAX);
        // An ERROR that follows begins a cycle.
        (self.attempts, self.waits) = (0, (self.waits + 1).min(LOCAL_WAITS_MAX));
        let wait_ms = self.dice.jitter(wait).max(wait_ms_min.min(BACKOFF_MS_MAX));
        self.back_off(now, wait_ms, why, out);
    }

    /// The daemon is there, and ended the connection with an ERROR that may pass: the cycle goes
    /// on, also of a local client.
    fn rejected(&mut self, now: Now, why: String, out: &mut Vec<Output>) {
        if self.end_connection(now, out) {
            self.try_again(now, why, 0, out);
        }
    }

    /// Ends what there is of a connection; false where there is none.
    fn end_connection(&mut self, now: Now, out: &mut Vec<Output>) -> bool {
        match self.phase {
            Phase::Disconnected | Phase::Backoff { .. } => return false,
            Phase::Ready { since } if now.monotonic.since(since) >= STEADY_MS => {
                (self.attempts, self.waits) = (0, 0);
            }
            _ => {}
        }
        self.leave(out);
        true
    }

    /// Waits for the next attempt of the cycle, or ends the cycle.
    fn try_again(&mut self, now: Now, why: String, wait_ms_min: u64, out: &mut Vec<Output>) {
        let limit = if self.joined { ATTEMPTS_MAX } else { self.identity.first_attempts };
        if self.attempts < limit {
            let wait = BACKOFF_MS.saturating_mul(1 << self.waits.min(20)).min(BACKOFF_MS_MAX);
            self.waits += 1;
            let wait_ms = self.dice.jitter(wait).max(wait_ms_min.min(BACKOFF_MS_MAX));
            return self.back_off(now, wait_ms, why, out);
        }
        let gave_up = Ended::GaveUp { attempts: self.attempts, why, absent: self.absent };
        self.end_cycle(now, gave_up, out);
    }

    /// This cycle of tries is over; another one begins later where the application wants it.
    fn end_cycle(&mut self, now: Now, ended: Ended, out: &mut Vec<Output>) {
        self.leave(out);
        (self.attempts, self.waits) = (0, 0);
        match self.begins_anew_after() {
            Some(wait_ms) => self.back_off(now, wait_ms, ended.to_string(), out),
            None => self.end(now, ended, out),
        }
    }

    fn begins_anew_after(&self) -> Option<u64> {
        self.identity.again_after_ms.filter(|_| self.joined)
    }

    fn back_off(&mut self, now: Now, wait_ms: u64, why: String, out: &mut Vec<Output>) {
        self.phase = Phase::Backoff { until: now.monotonic.plus(wait_ms) };
        out.push(Output::Event(Event::State(State::Backoff { wait_ms, why })));
    }

    fn end(&mut self, now: Now, ended: Ended, out: &mut Vec<Output>) {
        self.leave(out);
        let held_back = self.comeback.forget();
        self.take_all(now, held_back, out);
        out.push(Output::Event(Event::State(State::Disconnected)));
        out.push(Output::Event(Event::Ended(ended)));
    }

    /// The stream is no use any more.
    fn leave(&mut self, out: &mut Vec<Output>) {
        if matches!(self.phase, Phase::Handshaking { .. } | Phase::Ready { .. }) {
            out.push(Output::HangUp);
        }
        self.phase = Phase::Disconnected;
        self.hold.shut(out);
        self.answers.shut();
        self.comeback.lost();
        self.topics.lost();
    }

    fn close(&mut self, now: Now, out: &mut Vec<Output>) {
        if self.is_ready() {
            let bye = Bye { reason: "done".to_owned(), retry_after_ms: None };
            self.say(now, Kind::Bye, &bye, out);
            out.push(Output::Close);
            self.phase = Phase::Disconnected;
        }
        self.end(now, Ended::Closed, out);
    }

    const fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
    }
}

/// What the daemon says.
impl Session {
    fn frame(&mut self, now: Now, json: &[u8], out: &mut Vec<Output>) {
        let handshaking = matches!(self.phase, Phase::Handshaking { .. });
        if !handshaking && !self.is_ready() {
            return;
        }
        let judged = match Envelope::read(json) {
            Ok(envelope) if handshaking => self.shake_hands(now, &envelope, out),
            Ok(envelope) => self.hear(now, &envelope, out),
            Err(violation) => Err(violation),
        };
        if let Err(violation) = judged {
            self.violated(now, violation, out);
        }
    }

    /// The daemon broke a rule: a small one is told, any other ends the connection.
    fn violated(&mut self, now: Now, violation: Violation, out: &mut Vec<Output>) {
        if violation.code.is_fatal() {
            self.rejected(now, format!("the daemon broke the protocol: {violation}"), out);
        } else {
            out.push(Output::Event(Event::Complaint(violation.into())));
        }
    }

    fn shake_hands(
        &mut self,
        now: Now,
        envelope: &Envelope<'_>,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        match envelope.kind {
            Kind::Welcome => self.welcome(now, envelope.typed(envelope.payload)?, out),
            Kind::Error => self.fault(now, envelope.typed(envelope.payload)?, out),
            Kind::Bye => self.bye(now, &envelope.typed(envelope.payload)?, out),
            Kind::Ping => self.pong(now, &envelope.typed(envelope.payload)?, out),
            kind => {
                let why = format!("the daemon said {} before WELCOME", kind.as_str());
                self.rejected(now, why, out);
            }
        }
        Ok(())
    }

    fn welcome(&mut self, now: Now, welcome: Welcome, out: &mut Vec<Output>) {
        self.phase = Phase::Ready { since: now.monotonic };
        self.joined = true;
        let is_back = self.token.is_some() && self.session_id == welcome.session_id;
        let is_agent = self.identity.agent.is_some();
        self.token = Some(welcome.resume_token.clone()).filter(|_| is_agent);
        self.session_id.clone_from(&welcome.session_id);
        // What the daemon keeps of a session, it keeps for those who asked it to.
        let is_kept = welcome.capabilities.resume && self.identity.capabilities.resume;
        let held_back = self.comeback.welcome(is_kept, is_back);
        let frame_bytes_max = welcome.server.max_frame_bytes;
        out.push(Output::Event(Event::State(State::Ready(Box::new(welcome)))));
        self.take_all(now, held_back, out);
        if is_back && is_kept {
            self.resume(now, frame_bytes_max, out);
        } else {
            self.topics.forget();
        }
        // Topics first: what is said next may be answered on one of them.
        for asked in self.topics.untold() {
            self.ask_for(now, asked, out);
        }
        self.answers.open(now.monotonic, frame_bytes_max, out);
        self.hold.open(now, frame_bytes_max, out);
    }

    /// Says how far each stream was heard, so that the rest comes.
    fn resume(&mut self, now: Now, frame_bytes_max: u64, out: &mut Vec<Output>) {
        let streams = self.comeback.streams(usize::try_from(frame_bytes_max).unwrap_or(usize::MAX));
        if streams.is_empty() {
            let held_back = self.comeback.forget();
            return self.take_all(now, held_back, out);
        }
        let resume = Resume {
            session_id: self.session_id.clone(),
            agent: self.identity.agent.clone().unwrap_or_default(),
            resume_token: None,
            streams: ResumeStreams::List(streams),
        };
        let id = self.write(now, Kind::Resume, None, &resume, out);
        self.comeback.asked(id, now.monotonic.plus(SYNC_MS));
    }

    /// RESUME brings nothing: what is kept for the session goes on, and the application is told.
    fn miss(&mut self, now: Now, why: String, out: &mut Vec<Output>) {
        let held_back = self.comeback.forget();
        out.push(Output::Event(Event::Missed { why }));
        self.take_all(now, held_back, out);
    }

    fn hear(
        &mut self,
        now: Now,
        envelope: &Envelope<'_>,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        match envelope.kind {
            Kind::Deliver => self.deliver(now, envelope, out),
            Kind::Ack => {
                let ack: Ack<'_> = envelope.typed(envelope.payload)?;
                if ack.correlation_id.is_none()
                    || self.heard.is_new_outcome(&envelope.id, &ack.ack_id)
                {
                    self.ack(now, envelope.from.as_deref().unwrap_or_default(), &ack, out);
                }
            }
            Kind::Nack => {
                let nack: Nack = envelope.typed(envelope.payload)?;
                if self.heard.is_new_outcome(&envelope.id, &nack.ack_id) {
                    self.nack(now, nack, out);
                }
            }
            Kind::Busy => {
                let busy = envelope.typed(envelope.payload)?;
                self.hold.busy(now, busy, &mut self.dice, out);
            }
            Kind::Ping => self.pong(now, &envelope.typed(envelope.payload)?, out),
            Kind::Error => self.fault(now, envelope.typed(envelope.payload)?, out),
            Kind::Bye => self.bye(now, &envelope.typed(envelope.payload)?, out),
            Kind::Sync => {
                let held_back = self.comeback.synced(&envelope.typed(envelope.payload)?);
                self.take_all(now, held_back, out);
            }
            Kind::Pong => {}
            kind @ (Kind::Hello
            | Kind::Welcome
            | Kind::Send
            | Kind::Resume
            | Kind::Subscribe
            | Kind::Unsubscribe) => {
                let words = format!("the daemon said {}, which means nothing now", kind.as_str());
                return Err(Violation::new(ErrorCode::Invalid, words));
            }
        }
        Ok(())
    }

    fn deliver(&mut self, now: Now, envelope: &Envelope<'_>, out: &mut Vec<Output>) {
        let delivery = match Delivery::read(envelope) {
            Ok(delivery) => delivery,
            Err(violation) => {
                let id = envelope.id.clone();
                let nack = Nack::new(id, NackCode::Invalid, violation.message);
                return self.say(now, Kind::Nack, &nack, out);
            }
        };
        if self.comeback.is_waiting() {
            let held_back = self.comeback.hold_back(delivery);
            self.take_all(now, held_back, out);
        } else {
            self.take(now, delivery, out);
        }
    }

    fn take_all(&mut self, now: Now, deliveries: VecDeque<Delivery>, out: &mut Vec<Output>) {
        for delivery in deliveries {
            self.take(now, delivery, out);
        }
    }

    fn take(&mut self, now: Now, delivery: Delivery, out: &mut Vec<Output>) {
        let verdict = self.heard.judge(&delivery);
        if verdict != Verdict::Full {
            self.comeback.note(&delivery);
        }
        match verdict {
            Verdict::New => out.push(Output::Event(Event::Delivered(delivery))),
            Verdict::Double => {}
            Verdict::Done => self.say_ack(now, &delivery.id, delivery.seq, out),
            Verdict::Full => {
                let words = "too many deliveries are unanswered here";
                let nack = Nack {
                    retry_after_ms: Some(FULL_RETRY_MS),
                    ..Nack::new(delivery.id, NackCode::Limit, words)
                };
                self.say(now, Kind::Nack, &nack, out);
            }
        }
    }

    fn ack(&mut self, now: Now, from: &str, ack: &Ack<'_>, out: &mut Vec<Output>) {
        if let Some(asked) = self.topics.done(&ack.ack_id) {
            Self::tell_subscriber(asked, None, out);
        } else if ack.state.as_deref() == Some("accepted") {
            self.hold.accepted(now, ack, out);
        } else if ack.correlation_id.is_some() {
            let answer = Answer {
                from: from.to_owned(),
                response: ack.response,
                data: ack.response_data.map(ToOwned::to_owned),
            };
            let send_id = SendId(ack.ack_id.clone().into_owned());
            out.push(Output::Event(Event::Answered { send_id, answer }));
        }
    }

    fn nack(&mut self, now: Now, nack: Nack, out: &mut Vec<Output>) {
        if self.comeback.is_about(&nack.ack_id) {
            self.miss(now, format!("{} ({})", nack.message, nack.code), out);
        } else if let Some(asked) = self.topics.refused(&nack.ack_id) {
            Self::tell_subscriber(asked, Some(nack), out);
        } else {
            self.answers.forget(&nack.ack_id);
            self.hold.refused(now, nack, out);
        }
    }

    fn tell_subscriber(asked: Asked, refused: Option<Nack>, out: &mut Vec<Output>) {
        if asked.wanted {
            out.push(Output::Event(Event::Subscribed { pattern: asked.pattern, refused }));
        }
    }

    fn pong(&mut self, now: Now, ping: &Heartbeat, out: &mut Vec<Output>) {
        self.write(now, Kind::Pong, None, ping, out);
    }

    fn fault(&mut self, now: Now, fault: Fault, out: &mut Vec<Output>) {
        let code = ErrorCode::parse(&fault.code);
        if code == Some(ErrorCode::ResumeRejected) {
            // The daemon goes on with a fresh session, and so do we.
            if !self.is_ready() {
                self.token = None;
            }
            return;
        }
        if !fault.fatal && !code.is_some_and(ErrorCode::is_fatal) {
            return match fault.reference.clone() {
                Some(id) if self.comeback.is_about(&id) => self.miss(now, fault.message, out),
                Some(id) if self.hold.has(&id) => {
                    self.hold.refused(now, Nack::new(id, NackCode::Invalid, fault.message), out);
                }
                _ => out.push(Output::Event(Event::Complaint(fault))),
            };
        }
        match code {
            Some(
                ErrorCode::HandshakeTimeout
                | ErrorCode::HeartbeatTimeout
                | ErrorCode::TooManyClients
                | ErrorCode::ShuttingDown
                | ErrorCode::Internal,
            ) => self.rejected(now, format!("{} ({})", fault.message, fault.code), out),
            // Who has the name now may leave.
            Some(ErrorCode::NameInUse) if self.begins_anew_after().is_some() => {
                out.push(Output::Event(Event::Complaint(fault.clone())));
                self.end_cycle(now, Ended::Fault(fault), out);
            }
            // Anything else would only happen again.
            _ => self.end(now, Ended::Fault(fault), out),
        }
    }

    fn bye(&mut self, now: Now, bye: &Bye, out: &mut Vec<Output>) {
        let why = format!("the daemon left: {}", bye.reason);
        self.lost(now, why, bye.retry_after_ms.unwrap_or(0), out);
    }
}

/// What the application says.
impl Session {
    fn acknowledge(&mut self, now: Now, id: &str, out: &mut Vec<Output>) {
        // While away nothing is said: the delivery comes again, and is acknowledged then.
        if let Some(seq) = self.heard.acknowledge(id) {
            self.say_ack(now, id, seq, out);
        }
    }

    /// An ACK with the question's correlation id; it acknowledges, too.
    fn reply(&mut self, now: Now, reply: Reply, out: &mut Vec<Output>) {
        let Reply { delivery_id, seq, sync, response, data } = reply;
        let was_open = self.heard.acknowledge(&delivery_id).is_some();
        let ack = Ack {
            ack_id: Cow::Borrowed(&delivery_id),
            seq: Some(seq),
            correlation_id: Some(sync.correlation_id),
            response: Some(response),
            response_data: data.as_deref(),
            ..Ack::default()
        };
        let (id, mut frame) = (self.dice.id(), Vec::new());
        Header::new(Kind::Ack, &id, now.unix_ms).append(&mut frame, &ack);
        let id = delivery_id.clone();
        let is_said = self.answers.add(now.monotonic, delivery_id, frame, sync.timeout_ms, out);
        if was_open && !is_said {
            self.say_ack(now, &id, seq, out);
        }
    }

    fn subscribe(&mut self, now: Now, pattern: String, out: &mut Vec<Output>) {
        if !self.topics.want(&pattern) {
            let words = format!("a client has at most {SUBSCRIPTIONS_MAX} subscriptions");
            let refused = Some(Nack::new(pattern.clone(), NackCode::Limit, words));
            out.push(Output::Event(Event::Subscribed { pattern, refused }));
        } else if self.is_ready() {
            self.ask_for(now, Asked { pattern, wanted: true }, out);
        }
    }

    fn ask_for(&mut self, now: Now, asked: Asked, out: &mut Vec<Output>) {
        let kind = if asked.wanted { Kind::Subscribe } else { Kind::Unsubscribe };
        let id = self.write(now, kind, Some(&asked.pattern), &Empty {}, out);
        self.topics.said(id, asked);
    }

    fn say_ack(&mut self, now: Now, id: &str, seq: u64, out: &mut Vec<Output>) {
        let ack = Ack { ack_id: Cow::Borrowed(id), seq: Some(seq), ..Ack::default() };
        self.say(now, Kind::Ack, &ack, out);
    }

    fn say(&mut self, now: Now, kind: Kind, payload: &impl Serialize, out: &mut Vec<Output>) {
        if self.is_ready() {
            self.write(now, kind, None, payload, out);
        }
    }

    /// Gives back the envelope's id.
    fn write(
        &mut self,
        now: Now,
        kind: Kind,
        topic: Option<&str>,
        payload: &impl Serialize,
        out: &mut Vec<Output>,
    ) -> String {
        let id = self.dice.id();
        let mut bytes = Vec::new();
        Header { topic, ..Header::new(kind, &id, now.unix_ms) }.append(&mut bytes, payload);
        out.push(Output::Frame(bytes));
        id
    }
}

#[cfg(test)]
mod tests;
