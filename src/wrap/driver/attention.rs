//! The driver's part for the agent's person: the sign in the terminal's title, and notices.

use super::{Driver, now};
use crate::wrap::threads::Addition;
use crossbeam_channel::Sender;
use protocol::{Moment, activity::Activity};
use std::{collections::BTreeSet, mem};
use terminal::{
    SendHandle,
    attention::{Attention, Notice},
    overlay::Sign,
};

/// The reports of a terminal that it has got the focus, or lost it.
const FOCUSED: &[u8] = b"\x1b[I";
const UNFOCUSED: &[u8] = b"\x1b[O";

/// The longest time from the first byte of a report to its last. A terminal sends them together,
/// and a connection may cut them.
const REPORT_MS: u64 = 50;

/// The agent's sign in the title, and the notices for its person.
pub(super) struct PersonWatch {
    attention: Attention,
    /// Whether the wrapper has a person's terminal.
    has_terminal: bool,
    /// The agent's sign, and the one that the thread which adds to the screen was given last.
    sign: Option<Sign>,
    added_sign: Option<Sign>,
    /// The next alert for that thread.
    next_alert: Option<Vec<u8>>,
    is_adding: bool,
    /// The beginning of what may be a report of the focus, and the moment at which it is a key.
    held: Vec<u8>,
    held_until: Option<Moment>,
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
            held: Vec::new(),
            held_until: None,
            unanswered: BTreeSet::new(),
        }
    }

    /// Notes that the wrapper's terminal is gone.
    pub(super) fn lose_terminal(&mut self) {
        self.has_terminal = false;
        self.attention.focus(false);
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        [self.attention.deadline(), self.held_until].into_iter().flatten().min()
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
        let next = if self.sign == self.added_sign {
            self.next_alert.take().map(Addition::Alert)
        } else {
            self.added_sign = self.sign;
            Some(Addition::Sign(self.sign))
        };
        if let Some(next) = next {
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

    /// Takes reports of the focus from the terminal's bytes, and returns the rest. If the program
    /// has asked for these reports, it gets them, too; else it must not take the beginning of one
    /// for the Escape key.
    pub(super) fn take_focus(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.person.held_until = None;
        let bytes = [&mem::take(&mut self.person.held), bytes].concat();
        let (mut keys, mut rest) = (Vec::new(), &bytes[..]);
        while let Some(at) = rest.windows(FOCUSED.len()).position(is_focus) {
            let (before, report) = rest.split_at(at);
            self.person.attention.focus(report.starts_with(FOCUSED));
            keys.extend_from_slice(before);
            rest = &report[FOCUSED.len()..];
        }
        keys.extend_from_slice(rest);
        let passes = self.side.screen().reports_focus();
        if !passes && self.parts.notifier.is_on() {
            let begun = [&FOCUSED[..1], &FOCUSED[..2]].into_iter().find(|it| keys.ends_with(it));
            self.person.held = keys.split_off(keys.len() - begun.map_or(0, <[u8]>::len));
            self.person.held_until = begun.map(|_| now().plus(REPORT_MS));
        }
        if !keys.is_empty() {
            self.person.attention.key(now());
        }
        if passes { bytes } else { keys }
    }

    /// Passes on what has begun like a report of the focus, and did not go on.
    pub(super) fn pass_held_key_if_due(&mut self) {
        if self.person.held_until.take_if(|until| *until <= now()).is_some() {
            let keys = mem::take(&mut self.person.held);
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
            self.person.next_alert = Some(alert);
            self.person.add_next(&self.channels.additions);
        }
    }
}

fn is_focus(bytes: &[u8]) -> bool {
    bytes == FOCUSED || bytes == UNFOCUSED
}
