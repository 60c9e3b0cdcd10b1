//! Envelopes from the daemon: the session's reaction to each.

use super::{Phase, SYNC_MS, Session, dedup::Verdict, step::Output, subscriptions::Request};
use crate::{
    message::{Answer, ConnectionState, Delivery, Ended, Event, LastFailure, SendId},
    settings::Mode,
};
use protocol::{
    Now,
    calendar::time_limit,
    code::{ErrorCode, NackCode, Violation},
    envelope::{Envelope, Kind},
    payload::{Ack, Bye, ErrorPayload, Heartbeat, Nack, Resume, ResumeStreams, Welcome},
};
use std::collections::VecDeque;

/// The delay before the daemon may redeliver a delivery that was returned because too many others
/// are unacknowledged.
const FULL_RETRY_MS: u64 = 1000;

impl Session {
    pub(super) fn frame(&mut self, now: Now, json: &[u8], out: &mut Vec<Output>) {
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

    /// Handles a violation of the protocol by the daemon: reports a minor violation, and ends the
    /// connection after any other.
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
            Kind::Welcome => self.welcome(now, envelope.decode_member(envelope.payload)?, out),
            Kind::Error => self.error(now, envelope.decode_member(envelope.payload)?, out),
            Kind::Bye => self.bye(now, &envelope.decode_member(envelope.payload)?, out),
            Kind::Ping => self.pong(now, &envelope.decode_member(envelope.payload)?, out),
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
        let is_agent = self.settings.mode.agent().is_some();
        self.token = Some(welcome.resume_token.clone()).filter(|_| is_agent);
        self.session_id.clone_from(&welcome.session_id);
        // The daemon keeps a session's messages only if the client's HELLO asked for that.
        let is_resumable = welcome.capabilities.resume && self.settings.capabilities.resume;
        let held_back = self.resume.welcome(is_resumable, is_same_session);
        let frame_bytes_max = usize::try_from(welcome.server.max_frame_bytes).unwrap_or(usize::MAX);
        out.push(Output::Event(Event::State(ConnectionState::Ready(Box::new(welcome)))));
        self.accept_all(now, held_back, out);
        if is_same_session && is_resumable {
            self.send_resume(now, frame_bytes_max, out);
        } else {
            self.subscriptions.new_session();
        }
        // Subscriptions are sent before messages, since a reply may come on a subscribed topic.
        for request in self.subscriptions.unsent() {
            self.request_subscription(now, request, out);
        }
        self.answers.connected(now.monotonic, frame_bytes_max, out);
        self.outbox.connected(now, frame_bytes_max, out);
    }

    /// Sends RESUME with the position in each stream, so that the daemon replays the rest.
    fn send_resume(&mut self, now: Now, frame_bytes_max: usize, out: &mut Vec<Output>) {
        let streams = self.resume.streams(frame_bytes_max);
        if streams.is_empty() {
            let held_back = self.resume.clear();
            return self.accept_all(now, held_back, out);
        }
        let resume = Resume {
            session_id: self.session_id.clone(),
            agent: self.settings.mode.agent().unwrap_or_default().to_owned(),
            resume_token: None,
            streams: ResumeStreams::List(streams),
        };
        let id = self.write(now, Kind::Resume, None, &resume, out);
        self.resume.requested(id, now.monotonic.plus(SYNC_MS));
    }

    /// Handles a RESUME that failed: the session continues without a replay, and the application is
    /// told that messages may be missing.
    pub(super) fn resume_failed(&mut self, now: Now, why: String, out: &mut Vec<Output>) {
        let held_back = self.resume.clear();
        out.push(Output::Event(Event::Missed { why }));
        self.accept_all(now, held_back, out);
    }

    /// Handles a RESUME that was not answered in time. The connection ends, since a late replay
    /// after later deliveries would be out of order.
    pub(super) fn resume_timed_out(&mut self, now: Now, out: &mut Vec<Output>) {
        let why = format!("the daemon did not answer RESUME within {}", time_limit(SYNC_MS));
        if !self.resume.time_out() {
            self.resume_failed(now, why.clone(), out);
            // Without positions, the next connection sends no RESUME.
            self.resume.clear();
        }
        self.lose_connection(now, why, 0, out);
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
                let ack: Ack<'_> = envelope.decode_member(envelope.payload)?;
                if ack.correlation_id.is_none()
                    || self.dedup.is_new_outcome(&envelope.id, &ack.ack_id)
                {
                    self.ack(now, envelope.from.as_deref().unwrap_or_default(), &ack, out);
                }
            }
            Kind::Nack => {
                let nack: Nack = envelope.decode_member(envelope.payload)?;
                if self.dedup.is_new_outcome(&envelope.id, &nack.ack_id) {
                    self.nack(now, nack, out);
                }
            }
            Kind::Busy => {
                let busy = envelope.decode_member(envelope.payload)?;
                self.outbox.busy(now, busy, &mut self.rng, out);
            }
            Kind::Ping => self.pong(now, &envelope.decode_member(envelope.payload)?, out),
            Kind::Error => self.error(now, envelope.decode_member(envelope.payload)?, out),
            Kind::Bye => self.bye(now, &envelope.decode_member(envelope.payload)?, out),
            Kind::Sync => {
                let held_back = self.resume.synced(&envelope.decode_member(envelope.payload)?);
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
        let is_bridge = matches!(self.settings.mode, Mode::Bridge(_));
        let read = if is_bridge { Delivery::read_any } else { Delivery::read };
        let delivery = match read(envelope) {
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

    pub(super) fn accept_all(
        &mut self,
        now: Now,
        deliveries: VecDeque<Delivery>,
        out: &mut Vec<Output>,
    ) {
        for delivery in deliveries {
            self.accept(now, delivery, out);
        }
    }

    fn accept(&mut self, now: Now, delivery: Delivery, out: &mut Vec<Output>) {
        let verdict = self.dedup.judge(&delivery);
        if verdict != Verdict::Full {
            self.resume.note(&delivery);
        }
        match verdict {
            Verdict::New => out.push(Output::Event(Event::Delivered(Box::new(delivery)))),
            Verdict::Duplicate => {}
            Verdict::Acknowledged => self.write_ack(now, &delivery.id, Some(delivery.seq), out),
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
        } else if let Some(correlation_id) = &ack.correlation_id {
            let answer = Answer {
                from: from.to_owned(),
                response: ack.response,
                data: ack.response_data.map(ToOwned::to_owned),
            };
            let send_id = SendId(ack.ack_id.clone().into_owned());
            let correlation_id = correlation_id.clone();
            out.push(Output::Event(Event::Answered { send_id, correlation_id, answer }));
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
            // The daemon rejected HELLO's token. Its WELCOME follows, with a new session.
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
                code @ (ErrorCode::HandshakeTimeout
                | ErrorCode::HeartbeatTimeout
                | ErrorCode::TooManyClients
                | ErrorCode::ShuttingDown
                | ErrorCode::Internal),
            ) => {
                self.last_failure = LastFailure::Refused(code);
                self.rejected(now, format!("{} ({})", error.message, error.code), out);
            }
            // The other client with this name may leave.
            Some(ErrorCode::NameInUse) if self.next_cycle_after().is_some() => {
                out.push(Output::Event(Event::Error(error.clone())));
                self.end_cycle(now, Ended::Error(error), out);
            }
            // A new attempt would get any other error again.
            _ => self.end(now, Ended::Error(error), out),
        }
    }

    fn bye(&mut self, now: Now, bye: &Bye, out: &mut Vec<Output>) {
        let why = format!("the daemon left: {}", bye.reason);
        self.lose_connection(now, why, bye.retry_after_ms.unwrap_or(0), out);
    }
}
