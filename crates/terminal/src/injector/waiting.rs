//! Reports to the daemon why messages wait.

use super::{Injector, delivering::Block};
use crate::{
    obstacle::Obstacle,
    output::{Output, Progress},
};
use protocol::Moment;

/// How long a new reason must hold before it replaces the reported one.
const LASTING_MS: u64 = 2000;

impl Injector {
    /// Returns a past time if a message's wait is yet to be reported, since the report is due at
    /// once.
    pub(super) fn report_at(&self) -> Option<Moment> {
        let is_due = !self.delivering.has_text() && self.queue.has_unreported();
        self.observer.times.started.filter(|_| is_due)
    }

    /// Reports why no text can be typed.
    ///
    /// New messages are reported at once. For the others, a new reason must first hold for a while,
    /// except for a hold by the person.
    pub(super) fn note_obstacle(&mut self, now: Moment, block: Block) {
        let Block { why, since } = block;
        let lasts = now.since(since) >= LASTING_MS || why == Obstacle::Held;
        if lasts || self.queue.has_unreported() {
            self.report_waiting(why, lasts);
        }
    }

    /// Notes why the current text is not submitted. Reports a change for the current text and for
    /// the messages behind it.
    pub(super) fn note_delay(&mut self, why: Option<Obstacle>) {
        let Some(text) = self.text.as_mut().filter(|text| text.content.is_some()) else { return };
        let is_new = text.obstacle != why;
        text.obstacle = why;
        if let Some(message) = text.message().filter(|_| is_new) {
            let progress = why.map_or(Progress::Unhindered, Progress::Waiting);
            self.out.push(Output::Report(message.id.clone(), progress));
        }
        // An ignored Enter concerns only the typed text, not the messages behind it.
        match why.filter(|why| *why != Obstacle::NoEnterTaken) {
            Some(why) if is_new || self.queue.has_unreported() => {
                self.report_waiting(why, true);
            }
            None if is_new => self.withdraw_reason(),
            _ => {}
        }
    }

    /// Reports again why the current message is not submitted.
    pub(super) fn repeat_delay(&mut self) {
        let Some(text) = &self.text else { return };
        if let (Some(message), Some(why)) = (text.message(), text.obstacle) {
            self.out.push(Output::Report(message.id.clone(), Progress::Waiting(why)));
        }
    }

    /// Reports that the reported reason no longer holds.
    pub(super) fn withdraw_reason(&mut self) {
        let reported = self.queue.withdraw_report();
        self.out.extend(reported.into_iter().map(|id| Output::Report(id, Progress::Unhindered)));
    }

    fn report_waiting(&mut self, why: Obstacle, lasts: bool) {
        let (why, unreported) = self.queue.report(why, lasts);
        self.out
            .extend(unreported.into_iter().map(|id| Output::Report(id, Progress::Waiting(why))));
    }
}
