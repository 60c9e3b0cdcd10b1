//! What the driver does for people who come to the wrapper's own endpoint.

use super::{super::visitors::Order, super::visits::Call, super::visits::VisitorId};
use super::{Driver, GRACE_STOP, now};
use crate::{
    bridge::{Input, ReadFrom},
    protocol::control,
};
use platform::{clock, pty::Pty};
use std::{process, time::Duration};

/// How long those who look on may take to be told of the end.
const GOODBYE_MS: u64 = 1000;

/// What is always told of an agent.
pub(super) fn about(name: &str, pty: &Pty, command: Vec<String>) -> control::State {
    control::State {
        name: name.to_owned(),
        command,
        pid: pty.pid(),
        wrapper_pid: process::id(),
        since: clock::unix_ms(),
        ..control::State::default()
    }
}

impl Driver {
    pub(super) fn call(&mut self, id: VisitorId, call: Call) {
        match self.visitors.hear(now(), id, call) {
            Some(Order::Resize(size)) => self.resize_to(size),
            Some(Order::Hold(held)) => {
                self.input(Input::Held(held));
                self.tell(id);
            }
            Some(Order::Stop) => self.end_command(GRACE_STOP),
            Some(Order::Tell) => self.tell(id),
            None => {}
        }
    }

    /// Types what they pressed, as far as there is room, and gives them what they are owed.
    pub(super) fn serve_visitors(&mut self) {
        self.visitors.settle_keys(now());
        while self.bridge.wants_keys()
            && let Some(keys) = self.visitors.take_keys()
        {
            self.keys(&keys);
        }
        self.visitors.serve(now(), self.bridge.screen());
    }

    fn tell(&mut self, id: VisitorId) {
        let state = self.bridge.state();
        let told = control::State {
            waiting: state.waiting,
            why: state.why.map(|why| self.words(why)),
            held: state.held,
            connected: state.connected,
            attached: self.visitors.attached(),
            source: Some(self.source()),
            ..self.about.clone()
        };
        self.visitors.tell(id, told);
    }

    fn source(&self) -> control::Source {
        match self.bridge.read_from() {
            ReadFrom::Screen => control::Source::Screen,
            ReadFrom::Transcript(id) => {
                // One that was left for others keeps no name.
                let path = self.transcripts.get(&id);
                let path = path.map(|path| path.display().to_string()).unwrap_or_default();
                control::Source::Transcript { path }
            }
            ReadFrom::Nowhere => control::Source::Missing { since: self.about.since },
        }
    }

    /// The command is gone: everybody is told how it ended.
    pub(super) fn end(&mut self) -> control::Ended {
        let screen = self.bridge.screen();
        let full_screen = screen.alternate().then(|| screen.text());
        self.input(Input::ChildGone);
        // The thread that waits for the command tells its end, unless it panics.
        let code = self.ended.unwrap_or(1);
        let mut ended = control::Ended::new(code, &self.bridge.screen().text());
        if let Some(text) = full_screen.filter(|_| ended.last_lines.is_empty()) {
            ended = control::Ended { taken_away: true, ..control::Ended::new(code, &text) };
        }
        if self.is_ending {
            // Why it ended is known; what it showed are messages, which don't belong in a log.
            ended.last_lines.clear();
        }
        self.visitors.tell_end(&ended);
        self.visitors.serve(now(), self.bridge.screen());
        ended
    }

    /// Lets those who look on take in what they are told, but not for ever.
    pub(super) fn see_visitors_off(&mut self) {
        let until = now().plus(GOODBYE_MS);
        while self.visitors.is_telling() {
            let left = Duration::from_millis(until.since(now()));
            let Ok((id, call)) = self.visitors.calls().recv_timeout(left) else { return };
            // Nothing can be done for them any more.
            let _ = self.visitors.hear(now(), id, call);
            self.visitors.serve(now(), self.bridge.screen());
        }
    }
}
