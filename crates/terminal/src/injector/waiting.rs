//! Reports to the daemon of the reasons why messages wait.

use super::{Injector, queue::Block};
use crate::{
    obstacle::Obstacle,
    output::{Output, Progress},
};
use protocol::Moment;

/// The time for which a new reason must hold before it replaces the reported one.
const LASTING_MS: u64 = 2000;

impl Injector {
    /// Returns a time in the past if a message's wait is still to be reported, since that is due at
    /// once.
    pub(super) fn report_at(&self) -> Option<Moment> {
        let is_due = self.injection.is_none() && self.queue.has_unreported();
        self.started_at.filter(|_| is_due)
    }

    /// Notes the reason why no text can be typed, and reports it.
    ///
    /// The reason is reported at once for new messages. For the others a new reason must first hold
    /// for a while, except for a hold by the person.
    pub(super) fn note_obstacle(&mut self, now: Moment, why: Obstacle, out: &mut Vec<Output>) {
        let before = self.block.filter(|block| block.why == why);
        let block = before.unwrap_or(Block { why, since: now });
        self.block = Some(block);
        let lasts = now.since(block.since) >= LASTING_MS || why == Obstacle::Held;
        if lasts || self.queue.has_unreported() {
            self.report_waiting(why, lasts, out);
        }
    }

    /// Notes why the current text is not submitted. Reports a change for the current text and for
    /// the messages behind it.
    pub(super) fn note_delay(&mut self, why: Option<Obstacle>, out: &mut Vec<Output>) {
        let Some(injection) = &mut self.injection else { return };
        let is_new = injection.obstacle != why;
        injection.obstacle = why;
        if let Some(message) = injection.message().filter(|_| is_new) {
            let progress = why.map_or(Progress::Unhindered, Progress::Waiting);
            out.push(Output::Report(message.id.clone(), progress));
        }
        // An ignored Enter concerns only the text that was typed, not the messages behind it.
        match why.filter(|why| *why != Obstacle::NoEnterTaken) {
            Some(why) if is_new || self.queue.has_unreported() => {
                self.report_waiting(why, true, out);
            }
            None if is_new => self.withdraw_reason(out),
            _ => {}
        }
    }

    /// Reports again why the current message is not submitted.
    pub(super) fn repeat_delay(&self, out: &mut Vec<Output>) {
        let Some(injection) = &self.injection else { return };
        if let (Some(message), Some(why)) = (injection.message(), injection.obstacle) {
            out.push(Output::Report(message.id.clone(), Progress::Waiting(why)));
        }
    }

    /// Reports that the reported reason no longer holds.
    pub(super) fn withdraw_reason(&mut self, out: &mut Vec<Output>) {
        let reported = self.queue.withdraw_report();
        out.extend(reported.into_iter().map(|id| Output::Report(id, Progress::Unhindered)));
    }

    fn report_waiting(&mut self, why: Obstacle, lasts: bool, out: &mut Vec<Output>) {
        let (why, unreported) = self.queue.report(why, lasts);
        out.extend(unreported.into_iter().map(|id| Output::Report(id, Progress::Waiting(why))));
    }
}
