//! Connections of a session: attempts, the waits between them, and the end.

use super::{
    ATTEMPTS_MAX, LOCAL_WAIT_MS_MAX, Phase, STEADY_MS, Session, WELCOME_MS,
    backoff::{BACKOFF_MS, BACKOFF_MS_MAX, doubled},
    step::Output,
};
use crate::message::{ConnectionState, Ended, Event, LastFailure};
use protocol::{
    Now,
    envelope::Kind,
    payload::{Auth, Bye, Hello, SessionClaim},
};

/// The maximum number of doublings of a local client's wait.
const LOCAL_WAITS_MAX: u32 = 3;

impl Session {
    pub(super) fn connect(&mut self, out: &mut Vec<Output>) {
        self.phase = Phase::Connecting;
        self.attempts += 1;
        out.push(Output::Event(Event::State(ConnectionState::Connecting)));
        out.push(Output::Connect);
    }

    pub(super) fn send_hello(&mut self, now: Now, out: &mut Vec<Output>) {
        self.phase = Phase::Handshaking { until: now.monotonic.plus(WELCOME_MS) };
        self.last_failure = LastFailure::Other;
        out.push(Output::Event(Event::State(ConnectionState::Handshaking)));
        let token = self.token.clone();
        let session = token.map(|token| SessionClaim { resume_token: Some(token) });
        let companion_key = self.settings.companion_key.as_ref();
        let hello = Hello {
            agent: self.settings.mode.agent().map(str::to_owned),
            capabilities: self.settings.capabilities,
            session,
            mode: self.settings.mode.role().map(str::to_owned),
            auth: self.settings.key.as_ref().map(|key| Auth { key: Some(key.reveal().to_owned()) }),
            companion_key: companion_key.map(|key| key.reveal().to_owned()),
            guest_key: self.guest_key.clone(),
            program: self.settings.program.clone(),
            directory: self.settings.directory.clone(),
        };
        self.write(now, Kind::Hello, None, &hello, out);
    }

    /// Handles a failed attempt or a lost connection. The next attempt waits at least
    /// `wait_ms_min`.
    pub(super) fn lose_connection(
        &mut self,
        now: Now,
        why: String,
        wait_ms_min: u64,
        out: &mut Vec<Output>,
    ) {
        if !self.end_connection(now, out) {
            return;
        }
        if !(self.joined && self.settings.local) {
            return self.try_again(now, why, wait_ms_min, out);
        }
        let wait_ms = self.next_wait_ms(wait_ms_min, LOCAL_WAIT_MS_MAX);
        // An ERROR that ends a later attempt begins a new cycle.
        (self.attempts, self.waits) = (0, (self.waits + 1).min(LOCAL_WAITS_MAX));
        self.back_off(now, wait_ms, why, out);
    }

    /// Handles an ERROR that ended the connection and may be temporary, or a violation of the
    /// protocol by the daemon. The cycle of attempts continues, even for a local client.
    pub(super) fn rejected(&mut self, now: Now, why: String, out: &mut Vec<Output>) {
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
        let limit = if self.joined { ATTEMPTS_MAX } else { self.settings.first_attempts };
        if self.attempts < limit {
            let wait_ms = self.next_wait_ms(wait_ms_min, BACKOFF_MS_MAX);
            self.waits += 1;
            return self.back_off(now, wait_ms, why, out);
        }
        let gave_up = Ended::GaveUp { attempts: self.attempts, why, last: self.last_failure };
        self.end_cycle(now, gave_up, out);
    }

    /// The wait before the next attempt, in milliseconds: at most `max` before jitter.
    fn next_wait_ms(&mut self, min: u64, max: u64) -> u64 {
        let wait_ms = doubled(BACKOFF_MS, self.waits, max);
        self.rng.jitter(wait_ms).max(min.min(BACKOFF_MS_MAX))
    }

    /// Ends the cycle of attempts. Another cycle begins later if the settings ask for it and the
    /// client has joined before; otherwise the client ends.
    pub(super) fn end_cycle(&mut self, now: Now, ended: Ended, out: &mut Vec<Output>) {
        self.drop_connection(out);
        (self.attempts, self.waits) = (0, 0);
        match self.next_cycle_after() {
            Some(wait_ms) => self.back_off(now, wait_ms, ended.to_string(), out),
            None => self.end(now, ended, out),
        }
    }

    pub(super) fn next_cycle_after(&self) -> Option<u64> {
        self.settings.retry_cycle_after_ms.filter(|_| self.joined)
    }

    fn back_off(&mut self, now: Now, wait_ms: u64, why: String, out: &mut Vec<Output>) {
        self.phase = Phase::Backoff { until: now.monotonic.plus(wait_ms) };
        out.push(Output::Event(Event::State(ConnectionState::Backoff { wait_ms, why })));
    }

    pub(super) fn end(&mut self, now: Now, ended: Ended, out: &mut Vec<Output>) {
        self.drop_connection(out);
        let held_back = self.resume.clear();
        self.accept_all(now, held_back, out);
        out.push(Output::Event(Event::State(ConnectionState::Disconnected)));
        out.push(Output::Event(Event::Ended(ended)));
    }

    /// Tells every part of the session that the connection has ended.
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

    pub(super) fn close(&mut self, now: Now, out: &mut Vec<Output>) {
        if self.is_ready() {
            let bye = Bye { reason: "done".to_owned(), retry_after_ms: None };
            self.write_if_ready(now, Kind::Bye, &bye, out);
            out.push(Output::Close);
            self.phase = Phase::Disconnected;
        }
        self.end(now, Ended::Closed, out);
    }
}
