//! Signs of life, and everything else that a connection has to do in time.
//!
//! Each connection has one timer. What it is for is decided when it fires; a frame only notes the
//! time. So an agent that talks costs nothing here, and a silent one a timer each heartbeat.

use super::{
    client::{Client, Stage},
    table::Connections,
};
use crate::{
    protocol::{
        Moment,
        code::{ErrorCode, Violation},
        envelope::Kind,
        payload::Heartbeat,
    },
    router::{
        context::Context,
        interface::{ClientId, Output},
        limits::Limits,
        timers::Timer,
    },
};

/// The time in which the holder of a name must answer a PING when another client asks for the name.
const TAKEOVER_PROBE_MS: u64 = 250;

/// The longest time in which a closing connection, or the stopping daemon, writes its last frames.
pub(in crate::router) const CLOSE_MS: u64 = 1_000;

impl Connections {
    /// Sets a client's timer for what the client has to do next.
    pub(in crate::router) fn set_timer(&mut self, ctx: &mut Context, id: ClientId) {
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

    /// Handles a client's timer. Returns the rule that the client broke by its silence, if it did.
    pub(in crate::router) fn on_timer(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
    ) -> Option<Violation> {
        let client = self.clients.get_mut(&id)?;
        client.timer = None;
        if due(client, self.woke, &ctx.limits).is_some_and(|due| due > ctx.now.monotonic) {
            self.set_timer(ctx, id);
            return None;
        }
        let (code, message) = match (&client.stage, client.pinged) {
            (Stage::Unauthenticated { .. }, _) => {
                let ms = ctx.limits.handshake_ms;
                (ErrorCode::HandshakeTimeout, format!("no HELLO came within {ms} ms"))
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
                let ms = ctx.limits.heartbeat_ms.saturating_mul(2);
                (ErrorCode::HeartbeatTimeout, format!("no frame came for {ms} ms after a PING"))
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

    pub(in crate::router) fn ping(&mut self, ctx: &mut Context, id: ClientId) {
        let nonce = ctx.random_hex(4);
        self.answer(ctx, id, Kind::Ping, &Heartbeat { nonce });
    }

    /// Notes that the driver woke late: earlier silence is no fault of the clients.
    pub(in crate::router) const fn note_late_wake(&mut self, now: Moment) {
        self.woke = now;
    }
}

/// Returns when a client's timer has to fire.
fn due(client: &Client, woke: Moment, limits: &Limits) -> Option<Moment> {
    let (since, ms) = match &client.stage {
        Stage::Unauthenticated { since } => (*since, limits.handshake_ms),
        Stage::WaitingForName(waiting) => (waiting.since, TAKEOVER_PROBE_MS),
        Stage::Member(_) => match client.pinged {
            Some(pinged) => (pinged, limits.heartbeat_ms.saturating_mul(2)),
            None => (client.last_frame, limits.heartbeat_ms),
        },
        Stage::Closing { since } => (*since, CLOSE_MS),
        Stage::HungUp => return None,
    };
    Some(since.max(woke).plus(ms))
}
