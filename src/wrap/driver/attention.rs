//! The driver's part for the agent's person: the sign in the terminal's title, and notices.

use super::{Driver, now};
use crate::wrap::{
    focus::{Askers, FocusReports},
    threads::Addition,
};
use crossbeam_channel::Sender;
use protocol::{Moment, activity::Activity};
use std::collections::BTreeSet;
use terminal::{
    SendHandle,
    attention::{Attention, Notice},
    overlay::Sign,
};

/// The agent's sign in the title, and the notices for its person.
pub(super) struct PersonWatch {
    attention: Attention,
    /// Whether the wrapper has a person's terminal.
    has_terminal: bool,
    /// The agent's sign, and the last sign that was given to the thread that writes to the screen.
    sign: Option<Sign>,
    added_sign: Option<Sign>,
    /// The next alert for that thread.
    next_alert: Option<Vec<u8>>,
    is_adding: bool,
    focus: FocusReports,
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
            added_sign: None,
            next_alert: None,
            is_adding: false,
            focus: FocusReports::default(),
            unanswered: BTreeSet::new(),
        }
    }

    /// Notes that the wrapper's terminal is gone.
    pub(super) fn lose_terminal(&mut self) {
        self.has_terminal = false;
        self.attention.focus(false);
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        [self.attention.deadline(), self.focus.deadline()].into_iter().flatten().min()
    }

    pub(super) fn does(&mut self, now: Moment, activity: Activity) {
        self.attention.does(now, activity);
    }

    /// Notes a message of the agent's that is in flight: the client library limits their number.
    pub(super) fn sent(&mut self, handle: SendHandle, is_to_person: bool) {
        if is_to_person {
            self.unanswered.insert(handle);
        }
    }

    /// Notes the daemon's answer to a message. Returns whether the message was to the person.
    pub(super) fn accepted(&mut self, handle: SendHandle) -> bool {
        self.unanswered.remove(&handle)
    }

    /// Notes that the last addition is on the screen, and hands over the next one.
    pub(super) fn added(&mut self, additions: &Sender<Addition>) {
        self.is_adding = false;
        self.add_next(additions);
    }

    fn add_next(&mut self, additions: &Sender<Addition>) {
        if self.is_adding || !self.has_terminal {
            return;
        }
        let next = if self.sign == self.added_sign {
            self.next_alert.take().map(Addition::Alert)
        } else {
            self.added_sign = self.sign;
            Some(Addition::Sign(self.sign))
        };
        if let Some(next) = next {
            // If the thread has ended, the person's terminal has ended, too.
            self.is_adding = additions.try_send(next).is_ok();
        }
    }
}

impl Driver {
    /// Gives the person the notices that are due, and shows the agent's state in the title.
    pub(super) fn call_person(&mut self) {
        self.person.attention.viewers(self.parts.clients.watching(now()));
        if let Some(notice) = self.person.attention.take_due(now()) {
            self.notify(notice);
        }
        let is_unseen = self.person.attention.is_unseen();
        self.activity.look(now(), &self.client, is_unseen);
        let sign = self.person.attention.sign();
        if sign != self.person.sign {
            self.person.sign = sign;
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

    /// Takes reports of the focus from the terminal's bytes, and returns the program's.
    pub(super) fn take_focus(&mut self, bytes: &[u8]) -> Vec<u8> {
        let program = self.side.screen().reports_focus();
        let askers = Askers { program, wrapper: self.parts.notifier.is_on() };
        let sent = self.person.focus.read(now(), bytes, askers);
        for is_focused in sent.reports {
            self.person.attention.focus(is_focused);
        }
        if sent.has_keys {
            self.person.attention.key(now());
        }
        sent.keys
    }

    /// Passes on bytes that began like a focus report but did not complete it.
    pub(super) fn pass_held_key_if_due(&mut self) {
        if let Some(keys) = self.person.focus.expired_keys(now()) {
            self.person.attention.key(now());
            match self.held_keys.is_empty() {
                true => self.type_until_detached(&keys),
                false => self.held_keys.extend(keys),
            }
        }
    }

    fn notify(&mut self, notice: Notice) {
        let name = self.client.name();
        tracing::debug!("the person is notified: {name} {notice}");
        if let Some(alert) = self.parts.notifier.notify(name, notice) {
            self.parts.clients.alert(&alert);
            self.person.next_alert = Some(alert);
            self.person.add_next(&self.channels.additions);
        }
    }
}
