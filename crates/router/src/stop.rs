//! The daemon's orderly stop.

use super::{
    Router,
    connections::CLOSE_MS,
    interface::{CloseReason, Output},
    timers::Timer,
};
use protocol::{envelope::Kind, payload::Bye};

impl Router {
    /// Sends BYE to all clients and closes their connections. Clients have `CLOSE_MS` milliseconds
    /// to read their last frames.
    pub(super) fn stop(&mut self, reason: &'static str) {
        if !self.lifecycle.begin_stop(reason) {
            return;
        }
        let at = self.ctx.now.monotonic.plus(CLOSE_MS);
        self.ctx.timers.set(at, Timer::Stop);
        for agent in self.directory.keys() {
            self.drop_at_most_once(agent);
            self.end_all_leftovers_of(agent);
        }
        for client in self.connections.ids() {
            let bye = Bye { reason: reason.to_owned(), retry_after_ms: None };
            self.connections.answer(&mut self.ctx, client, Kind::Bye, &bye);
            self.close(client, CloseReason::Stopping);
        }
        self.stop_if_empty();
    }

    pub(super) fn stop_if_empty(&mut self) {
        let is_over = self.lifecycle.is_stopped() || !self.lifecycle.is_stopping();
        if !is_over && self.connections.is_empty() {
            self.stopped();
        }
    }

    /// Ends the router, and hangs up the remaining clients.
    pub(super) fn stopped(&mut self) {
        self.lifecycle.note_stopped();
        for (agent, notice) in self.connections.unwritten_notices() {
            if notice.number.is_none() {
                self.hold_notice(agent, notice);
            }
        }
        for outcome in self.ctx.journal.drop_line() {
            self.told(outcome);
        }
        self.ctx.record_deferred(true);
        self.mail.record_stop(&mut self.ctx);
        for client in self.connections.ids() {
            if !self.connections.is_hung_up(client) {
                self.ctx.emit(Output::HangUp(client));
            }
        }
        self.ctx.emit(Output::Stopped);
    }
}
