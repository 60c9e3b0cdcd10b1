//! Messages that wait to be typed.

use super::{Mail, recipe::Obstacle};
use std::collections::VecDeque;

/// Messages that wait here before no more are wanted. Of those that are to be acknowledged the daemon
/// sends fewer by itself.
const MAIL_MAX: usize = 1000;

/// And their bytes.
const MAIL_BYTES_MAX: usize = 16 << 20;

/// Those that wait, in the order in which they are typed: the urgent ones first.
#[derive(Default)]
pub(super) struct Mailbag {
    urgent: VecDeque<Waiting>,
    rest: VecDeque<Waiting>,
    bytes: usize,
}

struct Waiting {
    mail: Mail,
    /// Why it waits, as it was reported last.
    reported: Option<Obstacle>,
}

impl Mailbag {
    pub(super) fn len(&self) -> usize {
        self.urgent.len() + self.rest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= MAIL_MAX || self.bytes >= MAIL_BYTES_MAX
    }

    pub(super) fn holds(&self, id: &str) -> bool {
        self.all().any(|waiting| waiting.mail.id == id)
    }

    pub(super) fn push(&mut self, mail: Mail) {
        self.bytes += mail.body.len();
        let queue = if mail.urgent { &mut self.urgent } else { &mut self.rest };
        queue.push_back(Waiting { mail, reported: None });
    }

    pub(super) fn pop(&mut self) -> Option<Mail> {
        let Waiting { mail, .. } = self.urgent.pop_front().or_else(|| self.rest.pop_front())?;
        self.bytes -= mail.body.len();
        Some(mail)
    }

    /// Whether there are some of which nobody knows that they wait.
    pub(super) fn has_unreported(&self) -> bool {
        self.all().any(|waiting| waiting.reported.is_none())
    }

    /// Those of which nobody knows yet that they wait for this reason; now they do.
    pub(super) fn report(&mut self, why: Obstacle) -> impl Iterator<Item = &str> {
        let all = self.urgent.iter_mut().chain(&mut self.rest);
        all.filter_map(move |waiting| {
            let before = waiting.reported.replace(why);
            (before != Some(why)).then_some(waiting.mail.id.as_str())
        })
    }

    fn all(&self) -> impl Iterator<Item = &Waiting> {
        self.urgent.iter().chain(&self.rest)
    }
}
