//! The part of the driver that lets an agent CLI continue without its terminal, as if it had been
//! spawned.

use super::{Driver, GRACE_GONE, GRACE_STOP, now};
use crate::wrap::{
    background::{Background, Farewell, Leaving, farewell},
    threads::spawn,
};
use crossbeam_channel::never;
use std::mem;

/// The limit for bytes of keys that wait, before reading from the person's terminal pauses.
const HELD_KEYS_MAX: usize = 64 << 10;

impl Driver {
    /// Types the keys of this terminal, until one of them detaches.
    pub(super) fn person_keys(&mut self, bytes: &[u8]) {
        let keys = self.take_focus(bytes);
        self.type_until_detached(&keys);
    }

    pub(super) fn type_until_detached(&mut self, keys: &[u8]) {
        let detaches =
            self.parts.background.as_ref().and_then(|background| background.detach_key.find(keys));
        let (before, rest) = keys.split_at(detaches.unwrap_or(keys.len()));
        self.paste.feed(now(), before);
        if detaches.is_none() || self.paste.holds_others() {
            self.paste.feed(now(), rest);
            self.keys(keys);
            return;
        }
        if !before.is_empty() {
            self.keys(before);
        }
        self.detach();
    }

    /// Whether keys are examined although the program reads none, since one of them may detach.
    pub(super) fn holds_keys(&self) -> bool {
        self.parts.background.is_some() && self.held_keys.len() < HELD_KEYS_MAX
    }

    /// Keeps keys until the program reads again, unless one of them detaches.
    pub(super) fn hold_keys(&mut self, bytes: &[u8]) {
        let keys = self.take_focus(bytes);
        self.held_keys.extend_from_slice(&keys);
        let background = self.parts.background.as_ref();
        if background.is_some_and(|background| background.detach_key.find(&keys).is_some()) {
            self.type_held_keys();
        }
    }

    /// Types the keys that were kept. Returns whether there were any.
    pub(super) fn type_held_keys(&mut self) -> bool {
        let held = mem::take(&mut self.held_keys);
        if !held.is_empty() {
            self.type_until_detached(&held);
        }
        !held.is_empty()
    }

    fn detach(&mut self) {
        let reset = self.reset();
        let line = farewell(self.client.name());
        let farewell = Farewell { reset, line, show: self.parts.show_notice };
        if let Some(background) = self.parts.background.take() {
            self.go_to_background(
                background,
                Some(farewell),
                "the person has detached; the agent goes on",
            );
        }
    }

    /// Handles the end of the person's terminal.
    pub(super) fn hang_up(&mut self) {
        let background = self.parts.background.take();
        // The terminal is also gone if the front led its session and was killed.
        match background.filter(|background| background.front.runs()) {
            Some(background) => {
                let line = "the terminal is gone; the agent goes on without it";
                self.go_to_background(background, None, line);
            }
            None if self.outlived_terminal => {}
            None => {
                self.is_cut_off = true;
                self.end_command(GRACE_GONE);
            }
        }
    }

    /// Handles the end of the front. The front ends by itself once the agent continues without it.
    /// An earlier end means that it was killed, and ends the agent, too.
    pub(super) fn front_ended(&mut self) {
        if !self.outlived_terminal {
            self.is_cut_off = true;
            self.end_command(GRACE_STOP);
        }
    }

    fn go_to_background(&mut self, background: Background, farewell: Option<Farewell>, line: &str) {
        let Background { front, keys, begin_log, .. } = background;
        let log = begin_log();
        tracing::info!("{line}");
        self.attached = false;
        self.outlived_terminal = true;
        self.side.lose_terminal();
        self.person.lose_terminal();
        self.parts.clients.follow_size();
        // The thread that reads keys may wait for this channel.
        self.channels.keys = never();
        let screen = self.threads.screen.clone();
        let (reader, raw) = (self.threads.keys.take(), self.parts.raw.take());
        let leaving = Leaving { front, screen, reader, keys, raw, log };
        // Waits for: `terminal output` while that writes, the system, then `keys`. The driver joins
        // it at its end, unless the output goes on.
        match spawn("leave terminal", move || leaving.leave(farewell)) {
            Ok(thread) => self.leaving = Some(thread),
            Err(error) => tracing::error!("the terminal is not left: {error}"),
        }
    }
}
