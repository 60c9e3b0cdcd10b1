//! Messages that wait to be typed.

use super::{Mail, obstacle::Obstacle};
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
    /// Why they wait, as it was reported last: the same for all, since one is typed at a time.
    why: Option<Obstacle>,
    /// Something was typed since: that reason may be over.
    is_outdated: bool,
}

struct Waiting {
    mail: Mail,
    /// That reason was reported of it.
    is_reported: bool,
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
        queue.push_back(Waiting { mail, is_reported: false });
    }

    pub(super) fn pop(&mut self) -> Option<Mail> {
        let Waiting { mail, .. } = self.urgent.pop_front().or_else(|| self.rest.pop_front())?;
        self.bytes -= mail.body.len();
        Some(mail)
    }

    /// Whether there are messages whose reason to wait was not reported yet, or may be another one
    /// by now.
    pub(super) fn has_unreported(&self) -> bool {
        self.all().any(|waiting| self.is_outdated || !waiting.is_reported)
    }

    /// Has the reason of a message reported once more: its daemon has forgotten it.
    pub(super) fn forget_report(&mut self, id: &str) {
        let mut all = self.urgent.iter_mut().chain(&mut self.rest);
        if let Some(waiting) = all.find(|waiting| waiting.mail.id == id) {
            waiting.is_reported = false;
        }
    }

    /// Has the next reason count at once: something was typed.
    pub(super) fn outdate(&mut self) {
        self.is_outdated = true;
    }

    /// Whether a reason to wait was reported of the one that is typed next.
    pub(super) fn next_is_reported(&self) -> bool {
        self.why.is_some() && self.all().next().is_some_and(|waiting| waiting.is_reported)
    }

    /// Whether this reason was reported of all that wait.
    pub(super) fn waits_for(&self, why: Obstacle) -> bool {
        self.why == Some(why)
    }

    /// Takes the reason back. Returns the messages of which it was reported.
    pub(super) fn withdraw(&mut self) -> Vec<String> {
        match self.why.take() {
            Some(_) => {
                self.all().filter(|it| it.is_reported).map(|it| it.mail.id.clone()).collect()
            }
            None => Vec::new(),
        }
    }

    /// The messages to be reported as waiting, and the reason. Another reason than the last one
    /// counts if it `lasts`, or where something was typed since; until then, what has just come
    /// waits for the last one.
    pub(super) fn report(&mut self, why: Obstacle, lasts: bool) -> (Obstacle, Vec<String>) {
        let counts = std::mem::take(&mut self.is_outdated) || lasts;
        let why = self.why.filter(|_| !counts).unwrap_or(why);
        let is_new = self.why.replace(why) != Some(why);
        let all = self.urgent.iter_mut().chain(&mut self.rest);
        let unreported = all.filter_map(|waiting| {
            let is_told = std::mem::replace(&mut waiting.is_reported, true);
            (is_new || !is_told).then(|| waiting.mail.id.clone())
        });
        (why, unreported.collect())
    }

    fn all(&self) -> impl Iterator<Item = &Waiting> {
        self.urgent.iter().chain(&self.rest)
    }
}
