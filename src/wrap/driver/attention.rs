//! The driver's part for the agent's person: the sign in the terminal's title, and notices.

use super::{Driver, now};
use crate::wrap::threads::Addition;
use crossbeam_channel::Sender;
use protocol::{Moment, activity::Activity, name::OPERATOR};
use std::collections::BTreeSet;
use terminal::{
    SendHandle,
    attention::{Attention, Notice},
    overlay::Sign,
};

/// The reports of a terminal that it has got the focus, or lost it.
const FOCUSED: &[u8] = b"\x1b[I";
const UNFOCUSED: &[u8] = b"\x1b[O";

/// What the person sees of the agent, and is to be told.
pub(super) struct PersonWatch {
    attention: Attention,
    /// Whether the wrapper has a person's terminal.
    has_terminal: bool,
    /// The sign that the title shows, or is about to.
    sign: Option<Sign>,
    /// The sign and the alert for the thread that adds them to the screen.
    next_sign: Option<Option<Sign>>,
    next_alert: Option<Vec<u8>>,
    is_adding: bool,
    /// The agent's messages to its person that the daemon has not answered yet.
    unanswered: BTreeSet<SendHandle>,
}

impl PersonWatch {
    pub(super) fn new(now: Moment, has_terminal: bool) -> Self {
        let mut attention = Attention::new(now);
        if !has_terminal {
            attention.focus(false);
        }
        Self {
            attention,
            has_terminal,
            sign: None,
            next_sign: None,
            next_alert: None,
            is_adding: false,
            unanswered: BTreeSet::new(),
        }
    }

    /// Notes that the wrapper's terminal is gone.
    pub(super) fn lose_terminal(&mut self) {
        self.has_terminal = false;
        self.attention.focus(false);
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        self.attention.deadline()
    }

    pub(super) fn does(&mut self, now: Moment, activity: Activity) {
        self.attention.does(now, activity);
    }

    /// Notes a message of the agent's. The client library limits the number of those without an
    /// answer.
    pub(super) fn sends(&mut self, handle: SendHandle, to: &str) {
        if to == OPERATOR {
            self.unanswered.insert(handle);
        }
    }

    /// Notes the daemon's answer to a message. Returns whether it is one to the person.
    pub(super) fn accepted(&mut self, handle: SendHandle) -> bool {
        self.unanswered.remove(&handle)
    }

    /// Notes that an addition is on the screen, and hands over the next one.
    pub(super) fn added(&mut self, additions: &Sender<Addition>) {
        self.is_adding = false;
        self.add_next(additions);
    }

    fn add_next(&mut self, additions: &Sender<Addition>) {
        if self.is_adding || !self.has_terminal {
            return;
        }
        let sign = self.next_sign.take().map(Addition::Sign);
        if let Some(next) = sign.or_else(|| self.next_alert.take().map(Addition::Alert)) {
            // If the thread has ended, so has the person's terminal.
            self.is_adding = additions.try_send(next).is_ok();
        }
    }
}

impl Driver {
    /// Notifies the person of what is due, and shows the agent's state in the title.
    pub(super) fn call_person(&mut self) {
        self.person.attention.viewers(self.parts.clients.attached());
        if let Some(notice) = self.person.attention.take_due(now()) {
            self.notify(notice);
        }
        let sign = self.person.attention.sign();
        if sign != self.person.sign {
            self.person.sign = sign;
            self.person.next_sign = Some(sign);
            self.parts.clients.show_sign(sign);
            self.person.add_next(&self.channels.additions);
        }
    }

    /// Notes that the agent has sent a message to its person.
    pub(super) fn agent_wrote(&mut self) {
        if let Some(notice) = self.person.attention.wrote(now()) {
            self.notify(notice);
        }
    }

    /// Takes reports of the focus from the terminal's bytes, and returns the rest. If the program
    /// has asked for these reports, it gets them, too.
    pub(super) fn take_focus(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let (mut keys, mut rest) = (Vec::new(), &bytes[..]);
        while let Some(at) = rest.windows(FOCUSED.len()).position(is_focus) {
            let (before, report) = rest.split_at(at);
            self.person.attention.focus(report.starts_with(FOCUSED));
            keys.extend_from_slice(before);
            rest = &report[FOCUSED.len()..];
        }
        keys.extend_from_slice(rest);
        if !keys.is_empty() {
            self.person.attention.key(now());
        }
        if self.side.screen().reports_focus() { bytes } else { keys }
    }

    fn notify(&mut self, notice: Notice) {
        let name = self.client.name();
        tracing::debug!("the person is notified: {name} {notice}");
        if let Some(alert) = self.parts.notifier.notify(name, notice) {
            self.person.next_alert = Some(alert);
            self.person.add_next(&self.channels.additions);
        }
    }
}

fn is_focus(bytes: &[u8]) -> bool {
    bytes == FOCUSED || bytes == UNFOCUSED
}
