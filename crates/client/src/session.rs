//! The client's side of the protocol: the state machine behind [`Client`](super::Client), without
//! I/O.
//!
//! A session follows docs/PROTOCOL.md, section 15: it holds messages until the daemon has accepted
//! them, backs off when a recipient is busy, resumes its session, drops duplicates, and answers
//! PINGs. A driver executes each [`Output`] in order and calls again with the next [`Input`].

mod answers;
mod backoff;
mod connecting;
mod dedup;
mod outbox;
mod receive;
mod resume;
mod rng;
mod step;
mod subscriptions;

pub use step::{Input, Output};

use super::{
    message::{Ended, Event, LastFailure, Reply},
    settings::{Mode, Settings},
};
use answers::Answers;
use dedup::{Dedup, INFLIGHT_MAX};
use outbox::Outbox;
use protocol::{
    Moment, Now,
    calendar::time_limit,
    code::NackCode,
    envelope::{Header, Kind},
    payload::{Ack, Empty, Nack, Sync},
};
use resume::ResumeState;
use rng::SessionRng;
use serde::Serialize;
use std::borrow::Cow;
use subscriptions::{Request, SUBSCRIPTIONS_MAX, Subscriptions};

/// The longest wait of a disconnected [local](Settings::local) client, before jitter. Such a client
/// makes at least one attempt a second.
const LOCAL_WAIT_MS_MAX: u64 = 800;

/// The most attempts to connect in one cycle.
const ATTEMPTS_MAX: u32 = 10;

/// The time for the daemon to send WELCOME.
const WELCOME_MS: u64 = 10_000;

/// The minimum duration of a steady connection. The end of one begins a new cycle of attempts.
const STEADY_MS: u64 = 10_000;

/// The time for the daemon to answer RESUME. Until then, deliveries are held back.
const SYNC_MS: u64 = 10_000;

/// The state machine of a client.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    rng: SessionRng,
    phase: Phase,
    /// Whether a WELCOME has ever arrived.
    joined: bool,
    /// The number of attempts to connect in this cycle.
    attempts: u32,
    /// The number of waits in this cycle, which determines the next wait.
    waits: u32,
    last_failure: LastFailure,
    /// The newest resume token, which is good for one return. The session repeats the token until
    /// the daemon has answered, since HELLO or WELCOME can be lost.
    token: Option<String>,
    /// The key that identifies a guest after a reconnect, so that the daemon recognizes a repeated
    /// SEND.
    guest_key: Option<String>,
    /// The session of the last WELCOME.
    session_id: String,
    outbox: Outbox,
    dedup: Dedup,
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
    /// A session that does nothing until [`Input::Start`]. The seed is for ids and jitter.
    #[must_use]
    pub fn new(mut settings: Settings, seed: [u8; 32]) -> Self {
        let max_inflight = settings.capabilities.max_inflight.min(INFLIGHT_MAX);
        settings.capabilities.max_inflight = max_inflight;
        let mut rng = SessionRng::new(seed);
        let guest_key = (settings.mode == Mode::Guest).then(|| rng.id());
        Self {
            rng,
            settings,
            guest_key,
            phase: Phase::Disconnected,
            joined: false,
            attempts: 0,
            waits: 0,
            last_failure: LastFailure::Other,
            token: None,
            session_id: String::new(),
            outbox: Outbox::new(),
            dedup: Dedup::default(),
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
                self.last_failure =
                    if absent { LastFailure::NoListener } else { LastFailure::Other };
                self.lose_connection(now, why, 0, out);
            }
            Input::Disconnected(why) => {
                self.last_failure = LastFailure::Disconnected;
                self.lose_connection(now, why, 0, out);
            }
            Input::Frame(json) => self.frame(now, json, out),
            Input::Send(id, message, weight) => self.outbox.add(now, id, &message, weight, out),
            Input::Forward(message, weight) => {
                self.outbox.add_forwarded(now, message, weight, out);
            }
            Input::Acknowledge(id) => self.acknowledge(now, &id, out),
            Input::Answer(reply, weight) => {
                self.reply(now, reply, out);
                out.push(Output::Released(weight));
            }
            Input::Return(nack) => {
                if self.dedup.forget(&nack.ack_id) {
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
            Input::HangUp => self.end(now, Ended::Closed, out),
            Input::Tick => self.tick(now, out),
        }
    }

    /// Whether a WELCOME has ever arrived.
    #[must_use]
    pub(crate) const fn has_joined(&self) -> bool {
        self.joined
    }

    /// The moment when the session needs [`Input::Tick`].
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
                let why = format!(
                    "the daemon did not send WELCOME within {}: if its process is suspended, \
                     continue or end it",
                    time_limit(WELCOME_MS)
                );
                self.lose_connection(now, why, 0, out);
            }
            Phase::Ready { .. } => {
                if self.resume.deadline().is_some_and(|until| now.monotonic >= until) {
                    return self.resume_timed_out(now, out);
                }
                self.outbox.flush(now, out);
            }
            _ => {}
        }
    }

    const fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
    }
}

/// Inputs from the application.
impl Session {
    fn acknowledge(&mut self, now: Now, id: &str, out: &mut Vec<Output>) {
        // While disconnected, no ACK can be sent: the daemon delivers again, and the new delivery
        // is acknowledged.
        if let Some(seq) = self.dedup.acknowledge(id) {
            self.write_ack(now, id, Some(seq), out);
        }
    }

    /// Sends an ACK with the question's correlation id, which also acknowledges the delivery.
    fn reply(&mut self, now: Now, reply: Reply, out: &mut Vec<Output>) {
        let Reply { delivery_id, seq, sync, response, data } = reply;
        let was_unacknowledged = self.dedup.acknowledge(&delivery_id).is_some();
        let ack = Ack {
            ack_id: Cow::Borrowed(&delivery_id),
            seq,
            correlation_id: Some(sync.correlation_id),
            response,
            response_data: data.as_deref(),
            ..Ack::default()
        };
        let (id, mut frame) = (self.rng.id(), Vec::new());
        Header::new(Kind::Ack, &id, now.unix_ms).append(&mut frame, &ack);
        let id = delivery_id.clone();
        let until = now.monotonic.plus(sync.timeout_ms.unwrap_or(Sync::TIMEOUT_MS));
        let is_sent = self.answers.add(delivery_id, frame, until, out);
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

    fn write_ack(&mut self, now: Now, id: &str, seq: Option<u64>, out: &mut Vec<Output>) {
        let ack = Ack { ack_id: Cow::Borrowed(id), seq, ..Ack::default() };
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
