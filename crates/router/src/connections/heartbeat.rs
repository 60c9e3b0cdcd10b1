//! Heartbeats, and the other deadlines of a connection.
//!
//! Each connection has one timer, and the connection's stage decides what happens when it fires. A
//! received frame usually only updates the time of the last frame and leaves the timer alone. So a
//! busy connection costs nothing here, and a silent one costs a timer for each heartbeat.

use super::{
    client::{Client, Stage},
    table::Connections,
};
use crate::{
    context::Context,
    interface::{ClientId, Output},
    limits::Limits,
    timers::Timer,
};
use protocol::{
    Moment,
    calendar::time_limit,
    code::{ErrorCode, Violation},
    envelope::Kind,
    payload::Heartbeat,
};

/// The longest time in which a closing connection, or the stopping daemon, writes its last frames.
pub(crate) const CLOSE_MS: u64 = 1_000;

impl Connections {
    /// Sets a client's timer to the client's next deadline.
    pub(crate) fn set_timer(&mut self, ctx: &mut Context, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let (old, due) = (client.timer, due(client, self.woke, &ctx.limits));
        if old == due {
            return;
        }
        client.timer = due;
        if let Some(old) = old {
            ctx.timers.cancel(old, Timer::Client(id));
        }
        if let Some(due) = due {
            ctx.timers.set(due, Timer::Client(id));
        }
    }

    /// Handles a client's timer. Returns a violation if the client has missed a deadline or its
    /// wait for a name is over.
    pub(crate) fn on_timer(&mut self, ctx: &mut Context, id: ClientId) -> Option<Violation> {
        let client = self.clients.get_mut(&id)?;
        client.timer = None;
        if due(client, self.woke, &ctx.limits).is_none_or(|due| due > ctx.now.monotonic) {
            self.set_timer(ctx, id);
            return None;
        }
        let (code, message) = match (&client.stage, client.pinged) {
            (Stage::Unauthenticated { .. }, _) => {
                let time = time_limit(ctx.limits.handshake_ms);
                (ErrorCode::HandshakeTimeout, format!("no HELLO came within {time}"))
            }
            (Stage::WaitingForName(waiting), _) => {
                let name = &waiting.applicant.name;
                let message =
                    format!("{name} is connected already; choose another name, or end that one");
                (ErrorCode::NameInUse, message)
            }
            (Stage::Member(_), None) => {
                client.pinged = Some(ctx.now.monotonic);
                self.ping(ctx, id);
                self.set_timer(ctx, id);
                return None;
            }
            (Stage::Member(_), Some(_)) => {
                let time = time_limit(ctx.limits.heartbeat_ms.saturating_mul(2));
                (ErrorCode::HeartbeatTimeout, format!("no frame came for {time} after a PING"))
            }
            (Stage::Closing { .. }, _) => {
                client.stage = Stage::HungUp;
                ctx.emit(Output::HangUp(id));
                return None;
            }
            (Stage::HungUp, _) => return None,
        };
        Some(Violation::new(code, message))
    }

    pub(crate) fn ping(&mut self, ctx: &mut Context, id: ClientId) {
        let nonce = ctx.random_hex(4);
        self.answer(ctx, id, Kind::Ping, &Heartbeat { nonce });
    }

    /// Sends a member the PING whose PONG proves that it got its WELCOME, unless that is known.
    pub(crate) fn ask_for_receipt(&mut self, ctx: &mut Context, id: ClientId) {
        let Some(membership) = self.membership_mut(id).filter(|it| !it.knows_session) else {
            return;
        };
        let nonce = ctx.random_hex(4);
        membership.receipt_nonce.clone_from(&nonce);
        self.answer(ctx, id, Kind::Ping, &Heartbeat { nonce });
    }

    /// Notes a PONG. Returns whether it is the first proof that the member got its WELCOME.
    pub(crate) fn note_receipt(&mut self, id: ClientId, nonce: &str) -> bool {
        let Some(membership) = self.membership_mut(id) else { return false };
        let is_receipt = !membership.knows_session
            && !membership.receipt_nonce.is_empty()
            && membership.receipt_nonce == nonce;
        membership.knows_session |= is_receipt;
        is_receipt
    }

    /// Notes that the driver woke late. Silence before that does not count against the clients.
    pub(crate) const fn note_late_wake(&mut self, now: Moment) {
        self.woke = now;
    }
}

/// Returns the moment of a client's next deadline.
fn due(client: &Client, woke: Moment, limits: &Limits) -> Option<Moment> {
    let (since, ms) = match &client.stage {
        // A frame that waits for the client's turn counts as a HELLO in time. One that waits until
        // the client reads its answers does not.
        Stage::Unauthenticated { .. } if client.has_spoken && !client.is_paused => return None,
        Stage::Unauthenticated { since } => (*since, limits.handshake_ms),
        Stage::WaitingForName(waiting) => (waiting.until, 0),
        Stage::Member(_) => match client.pinged {
            Some(pinged) => (pinged, limits.heartbeat_ms.saturating_mul(2)),
            None => (client.last_frame, limits.heartbeat_ms),
        },
        Stage::Closing { since } => (*since, CLOSE_MS),
        Stage::HungUp => return None,
    };
    Some(since.max(woke).plus(ms))
}
