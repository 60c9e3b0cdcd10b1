//! The client's side of the protocol: the state machine behind [`Client`](super::Client), without
//! I/O.
//!
//! It follows docs/PROTOCOL.md, section 15: it holds messages until the daemon has accepted them,
//! backs off when a recipient is busy, resumes its session, drops duplicates, and answers PINGs. A
//! driver executes each [`Output`] in order and calls again with the next [`Input`].

mod answers;
mod backoff;
mod outbox;
mod received;
mod resume;
mod rng;
mod step;
mod subscriptions;

pub use backoff::{BACKOFF_MS, BACKOFF_MS_MAX};
pub use step::{Input, Output};

use super::message::{Answer, Delivery, Ended, Event, Reply, SendId, State};
use crate::protocol::{
    Moment, Now,
    code::{ErrorCode, NackCode, Violation},
    envelope::{Envelope, Header, Kind},
    payload::{
        Ack, Auth, Bye, Capabilities, Empty, ErrorPayload, Heartbeat, Hello, Nack, Resume,
        ResumeStreams, SessionClaim, Welcome,
    },
    secret::Secret,
};
use answers::Answers;
use backoff::doubled;
use outbox::Outbox;
use received::{INFLIGHT_MAX, Received, Verdict};
use resume::ResumeState;
use rng::SessionRng;
use serde::Serialize;
use std::{borrow::Cow, collections::VecDeque};
use subscriptions::{Request, SUBSCRIPTIONS_MAX, Subscriptions};

/// The longest wait of a [local](Identity::local) client whose connection is lost, before jitter:
/// at least one attempt a second.
pub const LOCAL_WAIT_MS_MAX: u64 = 800;

/// The number of times that a local client's wait doubles.
const LOCAL_WAITS_MAX: u32 = 3;

/// Attempts in one cycle.
pub const ATTEMPTS_MAX: u32 = 10;

/// The time for the daemon to send WELCOME.
const WELCOME_MS: u64 = 10_000;

/// The duration after which the end of a connection begins a new cycle.
const STEADY_MS: u64 = 10_000;

/// The time for the daemon to answer RESUME, while deliveries are held back.
const SYNC_MS: u64 = 10_000;

/// The time after which a delivery that found too many unacknowledged ones may come again.
const FULL_RETRY_MS: u64 = 1000;

/// The identity of a session, and when to give up.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The name asked for; guests have none.
    pub agent: Option<String>,
    /// HELLO's `mode`.
    pub mode: Option<String>,
    /// HELLO's `capabilities`; `max_inflight` is at most the length of the dedup window.
    pub capabilities: Capabilities,
    /// The key of the name, or of the operator.
    pub key: Option<Secret>,
    /// The key that an agent and its companions share.
    pub companion_key: Option<Secret>,
    /// The number of attempts before the first WELCOME.
    pub first_attempts: u32,
    /// The wait before a new cycle of attempts, also if the name is in use; without it, the session
    /// ends after one cycle.
    pub retry_cycle_after_ms: Option<u64>,
    /// Whether the daemon is on this machine: once joined, the session reconnects at least once a
    /// second without end, unless the daemon answers with an ERROR.
    pub local: bool,
    /// The seed for ids and jitter.
    pub seed: [u8; 32],
}

/// The state machine of a client.
#[derive(Debug)]
pub struct Session {
    identity: Identity,
    rng: SessionRng,
    phase: Phase,
    /// Whether a WELCOME has ever arrived.
    joined: bool,
    /// Attempts in this cycle.
    attempts: u32,
    /// Waits in this cycle.
    waits: u32,
    /// Whether the last attempt found no listener.
    absent: bool,
    /// The newest resume token, good for one return. It is sent until the daemon has answered it,
    /// since a HELLO can be lost as well as a WELCOME.
    token: Option<String>,
    /// The session of the last WELCOME.
    session_id: String,
    outbox: Outbox,
    received: Received,
    answers: Answers,
    resume: ResumeState,
    subscriptions: Subscriptions,
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
    /// A session that does nothing until [`Input::Start`].
    #[must_use]
    pub fn new(mut identity: Identity) -> Self {
        let max_inflight = identity.capabilities.max_inflight.min(INFLIGHT_MAX);
        identity.capabilities.max_inflight = max_inflight;
        Self {
            rng: SessionRng::new(identity.seed),
            identity,
            phase: Phase::Disconnected,
            joined: false,
            attempts: 0,
            waits: 0,
            absent: false,
            token: None,
            session_id: String::new(),
            outbox: Outbox::new(),
            received: Received::default(),
            answers: Answers::default(),
            resume: ResumeState::default(),
            subscriptions: Subscriptions::default(),
        }
    }

    /// Handles one input and appends the actions for the driver.
    pub fn handle(&mut self, now: Now, input: Input<'_>, out: &mut Vec<Output>) {
        match input {
            Input::Start if self.phase == Phase::Disconnected => self.connect(out),
            Input::Start => {}
            Input::Connected => self.send_hello(now, out),
            Input::NotConnected { why, absent } => {
                self.absent = absent;
                self.lost(now, why, 0, out);
            }
            Input::Disconnected(why) => self.lost(now, why, 0, out),
            Input::Frame(json) => self.frame(now, json, out),
            Input::Send(id, message, weight) => self.outbox.add(now, id, &message, weight, out),
            Input::Acknowledge(id) => self.acknowledge(now, &id, out),
            Input::Answer(reply, weight) => {
                self.reply(now, reply, out);
                out.push(Output::Released(weight));
            }
            Input::Return(nack) => {
                if self.received.forget(&nack.ack_id) {
                    self.write_if_ready(now, Kind::Nack, &nack, out);
                }
            }
            Input::Subscribe(pattern) => self.subscribe(now, pattern, out),
            Input::Unsubscribe(pattern) => {
                if self.subscriptions.cancel(&pattern) && self.is_ready() {
                    self.request_subscription(now, Request { pattern, wanted: false }, out);
                }
            }
            Input::Close => self.close(now, out),
            Input::Tick => self.tick(now, out),
        }
    }

    /// Loses the dedup windows: a bug that tests plant.
    #[cfg(test)]
    pub(crate) fn forget_received(&mut self) {
        self.received = Received::default();
    }

    /// Whether a WELCOME has ever arrived.
    #[must_use]
    pub const fn has_joined(&self) -> bool {
        self.joined
    }

    /// The moment at which the session needs [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        match self.phase {
            Phase::Disconnected | Phase::Connecting => None,
            Phase::Handshaking { until } | Phase::Backoff { until } => Some(until),
            Phase::Ready { .. } => {
                self.outbox.deadline().into_iter().chain(self.resume.deadline()).min()
            }
        }
    }

    fn tick(&mut self, now: Now, out: &mut Vec<Output>) {
        match self.phase {
            Phase::Backoff { until } if now.monotonic >= until => self.connect(out),
            Phase::Handshaking { until } if now.monotonic >= until => {
                let why = format!("the daemon did not send WELCOME within {WELCOME_MS} ms");
                self.lost(now, why, 0, out);
            }
            Phase::Ready { .. } => {
                if self.resume.deadline().is_some_and(|until| now.monotonic >= until) {
                    let why = format!("the daemon did not answer RESUME within {SYNC_MS} ms");
                    self.resume_failed(now, why, out);
                }
                self.outbox.flush(now, out);
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

    fn send_hello(&mut self, now: Now, out: &mut Vec<Output>) {
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

    /// Handles a failed attempt or a lost connection. The next attempt waits at least
    /// `wait_ms_min`.
    fn lost(&mut self, now: Now, why: String, wait_ms_min: u64, out: &mut Vec<Output>) {
        if !self.end_connection(now, out) {
            return;
        }
        if !(self.joined && self.identity.local) {
            return self.try_again(now, why, wait_ms_min, out);
        }
        let wait = doubled(BACKOFF_MS, self.waits, LOCAL_WAIT_MS_MAX);
        // If an ERROR follows, it begins a new cycle.
        (self.attempts, self.waits) = (0, (self.waits + 1).min(LOCAL_WAITS_MAX));
        let wait_ms = self.rng.jitter(wait).max(wait_ms_min.min(BACKOFF_MS_MAX));
        self.back_off(now, wait_ms, why, out);
    }

    /// Handles an ERROR that ended the connection and may pass: the cycle continues, also that of a
    /// local client.
    fn rejected(&mut self, now: Now, why: String, out: &mut Vec<Output>) {
        if self.end_connection(now, out) {
            self.try_again(now, why, 0, out);
        }
    }

    /// Ends the connection or the attempt; false if there is none.
    fn end_connection(&mut self, now: Now, out: &mut Vec<Output>) -> bool {
        match self.phase {
            Phase::Disconnected | Phase::Backoff { .. } => return false,
            Phase::Ready { since } if now.monotonic.since(since) >= STEADY_MS => {
                (self.attempts, self.waits) = (0, 0);
            }
            _ => {}
        }
        self.drop_connection(out);
        true
    }

    /// Waits for the next attempt of the cycle, or ends the cycle after its last one.
    fn try_again(&mut self, now: Now, why: String, wait_ms_min: u64, out: &mut Vec<Output>) {
        let limit = if self.joined { ATTEMPTS_MAX } else { self.identity.first_attempts };
        if self.attempts < limit {
            let wait = doubled(BACKOFF_MS, self.waits, BACKOFF_MS_MAX);
            self.waits += 1;
            let wait_ms = self.rng.jitter(wait).max(wait_ms_min.min(BACKOFF_MS_MAX));
            return self.back_off(now, wait_ms, why, out);
        }
        let gave_up = Ended::GaveUp { attempts: self.attempts, why, absent: self.absent };
        self.end_cycle(now, gave_up, out);
    }

    /// Ends the cycle of attempts; another one begins later if the application wants it.
    fn end_cycle(&mut self, now: Now, ended: Ended, out: &mut Vec<Output>) {
        self.drop_connection(out);
        (self.attempts, self.waits) = (0, 0);
        match self.next_cycle_after() {
            Some(wait_ms) => self.back_off(now, wait_ms, ended.to_string(), out),
            None => self.end(now, ended, out),
        }
    }

    fn next_cycle_after(&self) -> Option<u64> {
        self.identity.retry_cycle_after_ms.filter(|_| self.joined)
    }

    fn back_off(&mut self, now: Now, wait_ms: u64, why: String, out: &mut Vec<Output>) {
        self.phase = Phase::Backoff { until: now.monotonic.plus(wait_ms) };
        out.push(Output::Event(Event::State(State::Backoff { wait_ms, why })));
    }

    fn end(&mut self, now: Now, ended: Ended, out: &mut Vec<Output>) {
        self.drop_connection(out);
        let held_back = self.resume.clear();
        self.accept_all(now, held_back, out);
        out.push(Output::Event(Event::State(State::Disconnected)));
        out.push(Output::Event(Event::Ended(ended)));
    }

    /// Drops the connection.
    fn drop_connection(&mut self, out: &mut Vec<Output>) {
        if matches!(self.phase, Phase::Handshaking { .. } | Phase::Ready { .. }) {
            out.push(Output::HangUp);
        }
        self.phase = Phase::Disconnected;
        self.outbox.disconnected(out);
        self.answers.disconnected();
        self.resume.disconnected();
        self.subscriptions.disconnected();
    }

    fn close(&mut self, now: Now, out: &mut Vec<Output>) {
        if self.is_ready() {
            let bye = Bye { reason: "done".to_owned(), retry_after_ms: None };
            self.write_if_ready(now, Kind::Bye, &bye, out);
            out.push(Output::Close);
            self.phase = Phase::Disconnected;
        }
        self.end(now, Ended::Closed, out);
    }

    const fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
    }
}

/// Envelopes from the daemon.
impl Session {
    fn frame(&mut self, now: Now, json: &[u8], out: &mut Vec<Output>) {
        let handshaking = matches!(self.phase, Phase::Handshaking { .. });
        if !handshaking && !self.is_ready() {
            return;
        }
        let handled = match Envelope::read(json) {
            Ok(envelope) if handshaking => self.handshake(now, &envelope, out),
            Ok(envelope) => self.envelope(now, &envelope, out),
            Err(violation) => Err(violation),
        };
        if let Err(violation) = handled {
            self.violated(now, violation, out);
        }
    }

    /// Handles a violation by the daemon: a minor one is reported, any other ends the connection.
    fn violated(&mut self, now: Now, violation: Violation, out: &mut Vec<Output>) {
        if violation.code.is_fatal() {
            self.rejected(now, format!("the daemon broke the protocol: {violation}"), out);
        } else {
            out.push(Output::Event(Event::Error(violation.into())));
        }
    }

    fn handshake(
        &mut self,
        now: Now,
        envelope: &Envelope<'_>,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        match envelope.kind {
            Kind::Welcome => self.welcome(now, envelope.typed(envelope.payload)?, out),
            Kind::Error => self.error(now, envelope.typed(envelope.payload)?, out),
            Kind::Bye => self.bye(now, &envelope.typed(envelope.payload)?, out),
            Kind::Ping => self.pong(now, &envelope.typed(envelope.payload)?, out),
            kind @ (Kind::Hello
            | Kind::Send
            | Kind::Deliver
            | Kind::Ack
            | Kind::Nack
            | Kind::Pong
            | Kind::Busy
            | Kind::Resume
            | Kind::Sync
            | Kind::Subscribe
            | Kind::Unsubscribe) => {
                let why = format!("the daemon sent {} before WELCOME", kind.as_str());
                self.rejected(now, why, out);
            }
        }
        Ok(())
    }

    fn welcome(&mut self, now: Now, welcome: Welcome, out: &mut Vec<Output>) {
        self.phase = Phase::Ready { since: now.monotonic };
        self.joined = true;
        let is_same_session = self.token.is_some() && self.session_id == welcome.session_id;
        let is_agent = self.identity.agent.is_some();
        self.token = Some(welcome.resume_token.clone()).filter(|_| is_agent);
        self.session_id.clone_from(&welcome.session_id);
        // The daemon keeps a session's messages only for clients that asked for that.
        let is_resumable = welcome.capabilities.resume && self.identity.capabilities.resume;
        let held_back = self.resume.welcome(is_resumable, is_same_session);
        let frame_bytes_max = welcome.server.max_frame_bytes;
        out.push(Output::Event(Event::State(State::Ready(Box::new(welcome)))));
        self.accept_all(now, held_back, out);
        if is_same_session && is_resumable {
            self.send_resume(now, frame_bytes_max, out);
        } else {
            self.subscriptions.new_session();
        }
        // Before the messages, whose replies may come on one of the topics.
        for request in self.subscriptions.unsent() {
            self.request_subscription(now, request, out);
        }
        self.answers.connected(now.monotonic, frame_bytes_max, out);
        self.outbox.connected(now, frame_bytes_max, out);
    }

    /// Sends RESUME with the position in each stream, so that the daemon replays the rest.
    fn send_resume(&mut self, now: Now, frame_bytes_max: u64, out: &mut Vec<Output>) {
        let streams = self.resume.streams(usize::try_from(frame_bytes_max).unwrap_or(usize::MAX));
        if streams.is_empty() {
            let held_back = self.resume.clear();
            return self.accept_all(now, held_back, out);
        }
        let resume = Resume {
            session_id: self.session_id.clone(),
            agent: self.identity.agent.clone().unwrap_or_default(),
            resume_token: None,
            streams: ResumeStreams::List(streams),
        };
        let id = self.write(now, Kind::Resume, None, &resume, out);
        self.resume.requested(id, now.monotonic.plus(SYNC_MS));
    }

    /// Handles a RESUME that failed: the session continues without a replay, which the application
    /// is told.
    fn resume_failed(&mut self, now: Now, why: String, out: &mut Vec<Output>) {
        let held_back = self.resume.clear();
        out.push(Output::Event(Event::Missed { why }));
        self.accept_all(now, held_back, out);
    }

    fn envelope(
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
                    || self.received.is_new_outcome(&envelope.id, &ack.ack_id)
                {
                    self.ack(now, envelope.from.as_deref().unwrap_or_default(), &ack, out);
                }
            }
            Kind::Nack => {
                let nack: Nack = envelope.typed(envelope.payload)?;
                if self.received.is_new_outcome(&envelope.id, &nack.ack_id) {
                    self.nack(now, nack, out);
                }
            }
            Kind::Busy => {
                let busy = envelope.typed(envelope.payload)?;
                self.outbox.busy(now, busy, &mut self.rng, out);
            }
            Kind::Ping => self.pong(now, &envelope.typed(envelope.payload)?, out),
            Kind::Error => self.error(now, envelope.typed(envelope.payload)?, out),
            Kind::Bye => self.bye(now, &envelope.typed(envelope.payload)?, out),
            Kind::Sync => {
                let held_back = self.resume.synced(&envelope.typed(envelope.payload)?);
                self.accept_all(now, held_back, out);
            }
            Kind::Pong => {}
            kind @ (Kind::Hello
            | Kind::Welcome
            | Kind::Send
            | Kind::Resume
            | Kind::Subscribe
            | Kind::Unsubscribe) => {
                let words = format!("the daemon sent {}, which is out of place", kind.as_str());
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
                return self.write_if_ready(now, Kind::Nack, &nack, out);
            }
        };
        if self.resume.is_waiting() {
            let held_back = self.resume.hold_back(delivery);
            self.accept_all(now, held_back, out);
        } else {
            self.accept(now, delivery, out);
        }
    }

    fn accept_all(&mut self, now: Now, deliveries: VecDeque<Delivery>, out: &mut Vec<Output>) {
        for delivery in deliveries {
            self.accept(now, delivery, out);
        }
    }

    fn accept(&mut self, now: Now, delivery: Delivery, out: &mut Vec<Output>) {
        let verdict = self.received.judge(&delivery);
        if verdict != Verdict::Full {
            self.resume.note(&delivery);
        }
        match verdict {
            Verdict::New => out.push(Output::Event(Event::Delivered(Box::new(delivery)))),
            Verdict::Duplicate => {}
            Verdict::Acknowledged => self.write_ack(now, &delivery.id, delivery.seq, out),
            Verdict::Full => {
                let words = "too many deliveries are unacknowledged here";
                let nack = Nack {
                    retry_after_ms: Some(FULL_RETRY_MS),
                    ..Nack::new(delivery.id, NackCode::Limit, words)
                };
                self.write_if_ready(now, Kind::Nack, &nack, out);
            }
        }
    }

    fn ack(&mut self, now: Now, from: &str, ack: &Ack<'_>, out: &mut Vec<Output>) {
        if let Some(request) = self.subscriptions.confirmed(&ack.ack_id) {
            Self::report_subscription(request, None, out);
        } else if ack.state.as_deref() == Some("accepted") {
            self.outbox.accepted(now, ack, out);
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
        if self.resume.is_about(&nack.ack_id) {
            self.resume_failed(now, format!("{} ({})", nack.message, nack.code), out);
        } else if let Some(request) = self.subscriptions.refused(&nack.ack_id) {
            Self::report_subscription(request, Some(nack), out);
        } else {
            self.answers.remove(&nack.ack_id);
            self.outbox.refused(now, nack, out);
        }
    }

    fn report_subscription(request: Request, refused: Option<Nack>, out: &mut Vec<Output>) {
        if request.wanted {
            out.push(Output::Event(Event::Subscribed { pattern: request.pattern, refused }));
        }
    }

    fn pong(&mut self, now: Now, ping: &Heartbeat, out: &mut Vec<Output>) {
        self.write(now, Kind::Pong, None, ping, out);
    }

    fn error(&mut self, now: Now, error: ErrorPayload, out: &mut Vec<Output>) {
        let code = ErrorCode::parse(&error.code);
        if code == Some(ErrorCode::ResumeRejected) {
            // The handshake continues with a new session.
            if !self.is_ready() {
                self.token = None;
            }
            return;
        }
        if !error.fatal && !code.is_some_and(ErrorCode::is_fatal) {
            return match error.reference.clone() {
                Some(id) if self.resume.is_about(&id) => {
                    self.resume_failed(now, error.message, out)
                }
                Some(id) if self.outbox.has(&id) => {
                    self.outbox.refused(now, Nack::new(id, NackCode::Invalid, error.message), out);
                }
                _ => out.push(Output::Event(Event::Error(error))),
            };
        }
        match code {
            Some(
                ErrorCode::HandshakeTimeout
                | ErrorCode::HeartbeatTimeout
                | ErrorCode::TooManyClients
                | ErrorCode::ShuttingDown
                | ErrorCode::Internal,
            ) => self.rejected(now, format!("{} ({})", error.message, error.code), out),
            // The name may become free.
            Some(ErrorCode::NameInUse) if self.next_cycle_after().is_some() => {
                out.push(Output::Event(Event::Error(error.clone())));
                self.end_cycle(now, Ended::Error(error), out);
            }
            // Any other error would only happen again.
            _ => self.end(now, Ended::Error(error), out),
        }
    }

    fn bye(&mut self, now: Now, bye: &Bye, out: &mut Vec<Output>) {
        let why = format!("the daemon left: {}", bye.reason);
        self.lost(now, why, bye.retry_after_ms.unwrap_or(0), out);
    }
}

/// Inputs from the application.
impl Session {
    fn acknowledge(&mut self, now: Now, id: &str, out: &mut Vec<Output>) {
        // While disconnected nothing is sent: the delivery comes again and is acknowledged then.
        if let Some(seq) = self.received.acknowledge(id) {
            self.write_ack(now, id, seq, out);
        }
    }

    /// Sends an ACK with the question's correlation id, which also acknowledges the delivery.
    fn reply(&mut self, now: Now, reply: Reply, out: &mut Vec<Output>) {
        let Reply { delivery_id, seq, sync, response, data } = reply;
        let was_unacknowledged = self.received.acknowledge(&delivery_id).is_some();
        let ack = Ack {
            ack_id: Cow::Borrowed(&delivery_id),
            seq: Some(seq),
            correlation_id: Some(sync.correlation_id),
            response: Some(response),
            response_data: data.as_deref(),
            ..Ack::default()
        };
        let (id, mut frame) = (self.rng.id(), Vec::new());
        Header::new(Kind::Ack, &id, now.unix_ms).append(&mut frame, &ack);
        let id = delivery_id.clone();
        let is_sent = self.answers.add(now.monotonic, delivery_id, frame, sync.timeout_ms, out);
        if was_unacknowledged && !is_sent {
            self.write_ack(now, &id, seq, out);
        }
    }

    fn subscribe(&mut self, now: Now, pattern: String, out: &mut Vec<Output>) {
        if !self.subscriptions.add(&pattern) {
            let words = format!("a client has at most {SUBSCRIPTIONS_MAX} subscriptions");
            let refused = Some(Nack::new(pattern.clone(), NackCode::Limit, words));
            out.push(Output::Event(Event::Subscribed { pattern, refused }));
        } else if self.is_ready() {
            self.request_subscription(now, Request { pattern, wanted: true }, out);
        }
    }

    fn request_subscription(&mut self, now: Now, request: Request, out: &mut Vec<Output>) {
        let kind = if request.wanted { Kind::Subscribe } else { Kind::Unsubscribe };
        let id = self.write(now, kind, Some(&request.pattern), &Empty {}, out);
        self.subscriptions.sent(id, request);
    }

    fn write_ack(&mut self, now: Now, id: &str, seq: u64, out: &mut Vec<Output>) {
        let ack = Ack { ack_id: Cow::Borrowed(id), seq: Some(seq), ..Ack::default() };
        self.write_if_ready(now, Kind::Ack, &ack, out);
    }

    fn write_if_ready(
        &mut self,
        now: Now,
        kind: Kind,
        payload: &impl Serialize,
        out: &mut Vec<Output>,
    ) {
        if self.is_ready() {
            self.write(now, kind, None, payload, out);
        }
    }

    /// Writes an envelope. Returns its id.
    fn write(
        &mut self,
        now: Now,
        kind: Kind,
        topic: Option<&str>,
        payload: &impl Serialize,
        out: &mut Vec<Output>,
    ) -> String {
        let id = self.rng.id();
        let mut bytes = Vec::new();
        Header { topic, ..Header::new(kind, &id, now.unix_ms) }.append(&mut bytes, payload);
        out.push(Output::Frame(bytes));
        id
    }
}

#[cfg(test)]
mod tests;
