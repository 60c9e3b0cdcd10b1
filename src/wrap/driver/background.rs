//! The driver's part for an agent CLI that goes on without its terminal, as if it had been spawned.

use super::{Driver, GRACE_GONE, GRACE_STOP, now};
use crate::wrap::{
    background::{Background, Farewell, Leaving, farewell},
    threads::spawn,
};
use crossbeam_channel::never;

impl Driver {
    /// Types the keys of this terminal, until one of them detaches.
    pub(super) fn person_keys(&mut self, keys: &[u8]) {
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
        // A terminal is also gone if the front was killed that leads its session.
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

    /// Handles the end of the front. It ends by itself once the agent goes on without it; before,
    /// it was killed, which ends the agent, too.
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
        match spawn("leave terminal", move || leaving.leave(farewell)) {
            Ok(thread) => self.leaving = Some(thread),
            Err(error) => tracing::error!("the terminal is not left: {error}"),
        }
    }
}
