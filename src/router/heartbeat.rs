//! Signs of life, and everything else that a connection has to do in time.
//!
//! Each connection has one alarm. What it is for is found out when it goes off; a frame only notes the
//! time, so that an agent that talks costs nothing here and a silent one an alarm each heartbeat.

use super::{
    ClientId, Output, Router,
    alarm::Alarm,
    answer::CLOSE_MS,
    client::{Client, Stage},
};
use crate::protocol::{
    Moment,
    code::{ErrorCode, Violation},
    envelope::Kind,
    payload::Heartbeat,
};

/// How long the older connection of a name has to prove closed.
const CONTEST_MS: u64 = 250;

impl Router {
    /// Sets a client's alarm for what it has to do next.
    pub(super) fn arm(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(&id) else { return };
        let (old, due) = (client.alarm, self.due(client));
        if old == due {
            return;
        }
        if let Some(old) = old {
            self.alarms.remove(old, Alarm::Client(id));
        }
        if let Some(due) = due {
            self.alarms.set(due, Alarm::Client(id));
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.alarm = due;
        }
    }

    fn due(&self, client: &Client) -> Option<Moment> {
        let limits = &self.limits;
        let (since, ms) = match &client.stage {
            Stage::Stranger { since } => (*since, limits.handshake_ms),
            Stage::Contender(contender) => (contender.since, CONTEST_MS),
            Stage::Member(_) => match client.pinged {
                Some(pinged) => (pinged, limits.heartbeat_ms.saturating_mul(2)),
                None => (client.heard, limits.heartbeat_ms),
            },
            Stage::Closing { since } => (*since, CLOSE_MS),
            Stage::HungUp => return None,
        };
        Some(since.max(self.woke).plus(ms))
    }

    pub(super) fn ring_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.alarm = None;
        let client = &self.clients[&id];
        if self.due(client).is_some_and(|due| due > self.now.monotonic) {
            return self.arm(id);
        }
        match (&client.stage, client.pinged) {
            (Stage::Stranger { .. }, _) => {
                let ms = self.limits.handshake_ms;
                self.time_out(
                    id,
                    ErrorCode::HandshakeTimeout,
                    format!("no HELLO came within {ms} ms"),
                );
            }
            (Stage::Contender(contender), _) => {
                let name = contender.applicant.name.clone();
                self.time_out(
                    id,
                    ErrorCode::NameInUse,
                    format!("{name} is connected already; choose another name, or end that one"),
                );
            }
            (Stage::Member(_), None) => {
                self.ping(id);
                if let Some(client) = self.clients.get_mut(&id) {
                    client.pinged = Some(self.now.monotonic);
                }
                self.arm(id);
            }
            (Stage::Member(_), Some(_)) => {
                let ms = self.limits.heartbeat_ms.saturating_mul(2);
                self.time_out(
                    id,
                    ErrorCode::HeartbeatTimeout,
                    format!("no frame came for {ms} ms after a PING"),
                );
            }
            (Stage::Closing { .. }, _) => {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.stage = Stage::HungUp;
                }
                self.out.push(Output::HangUp(id));
            }
            (Stage::HungUp, _) => {}
        }
    }

    fn time_out(&mut self, id: ClientId, code: ErrorCode, message: String) {
        self.violated(id, Violation::new(code, message));
    }

    pub(super) fn ping(&mut self, id: ClientId) {
        let nonce = self.random_hex(4);
        self.answer(id, Kind::Ping, &Heartbeat { nonce });
    }
}
