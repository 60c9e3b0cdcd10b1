//! The driver's part for clients of the control endpoint.

use super::{Driver, GRACE_STOP};
use crate::wrap::{
    control::{
        clients::Action,
        server::{ClientEvent, ClientId},
    },
    now,
};
use platform::{clock, pty::Pty};
use protocol::{
    Now,
    control::{self, Dialog},
};
use std::{process, time::Duration};
use terminal::{Caller, Input, ReadFrom, Taken};

/// The longest time for clients to read the command's end.
const GOODBYE_MS: u64 = 1000;

/// How long an agent must work before its hooks count as dropped.
const UNHEARD_MS: u64 = 10_000;

/// The most pieces of output that are read before a choice in a dialog.
const PRINTED_MAX: usize = 64;

/// The reasons why a choice in a dialog is not made.
const CHANGED: &str = "nothing is pressed: its screen does not show that question any more";
const NO_CHOICE: &str = "nothing is pressed: the question has no such choice";
const PASTING: &str = "nothing is pressed: another terminal is pasting into it; try again";

const UNHEARD: &str = "its program was given some, and runs none";
const UNHEARD_EXTENSION: &str =
    "its program runs none of our extension: see `agent-relay gemini-extension --help`";

/// Returns the constant part of an agent's state.
pub(super) fn constant_state(
    name: &str,
    pty: &Pty,
    command: Vec<String>,
    directory: Option<String>,
) -> control::AgentState {
    control::AgentState {
        name: name.to_owned(),
        command,
        pid: pty.pid(),
        wrapper_pid: process::id(),
        directory,
        since: clock::unix_ms(),
        ..control::AgentState::default()
    }
}

impl Driver {
    pub(super) fn client_event(&mut self, id: ClientId, event: ClientEvent) {
        match self.parts.clients.handle(now(), id, event) {
            Some(Action::Resize(size)) => self.resize_to(size),
            Some(Action::Hold(held)) => {
                self.input(Input::Held(held));
                self.send_state(id);
            }
            Some(Action::Choose(dialog, choice)) => self.choose(id, &dialog, choice),
            Some(Action::Stop) => self.end_command(GRACE_STOP),
            Some(Action::SendState) => self.send_state(id),
            Some(Action::Explain) => {
                self.parts.clients.send(id, &control::Answer::Why(self.side.explain(now())));
            }
            Some(Action::Hook(report)) => {
                if let Some(follower) = &mut self.parts.follower {
                    follower.name(&report);
                }
                if let Some(record) = &mut self.parts.agent_record {
                    record.note(&report);
                }
                self.input(Input::Hooked(Caller(id), report));
            }
            Some(Action::HookUnconfirmed) => self.input(Input::HookUnconfirmed(Caller(id))),
            Some(Action::Take(message)) => self.input(Input::Take(Caller(id), message)),
            Some(Action::Count(to)) => self.input(Input::Count(Caller(id), to)),
            Some(Action::Wrote) => self.agent_wrote(),
            Some(Action::Edited(edit)) => {
                let at = Now { monotonic: now(), unix_ms: clock::unix_ms() };
                let noted = self.edits.note(at, edit);
                let answer = control::Answer::Edited { ago_ms: noted.ago_ms };
                self.parts.clients.send(id, &answer);
                if let Some((with, path)) = noted.collided {
                    self.input(Input::Collided(with, path));
                }
            }
            None => {}
        }
    }

    /// Types the clients' keys, as far as the terminal side accepts them, and writes pending
    /// output.
    pub(super) fn serve_clients(&mut self) {
        self.parts.clients.expire_keys(now());
        self.paste.expire(now());
        self.take_clients_keys();
        loop {
            let unconfirmed = self.parts.clients.serve(now(), self.side.screen()).into_iter();
            self.inputs.extend(unconfirmed.map(|id| Input::HookUnconfirmed(Caller(id))));
            if self.inputs.is_empty() {
                break;
            }
            // These may lead to further answers.
            self.take_inputs();
        }
        // A client that was disconnected may have left a paste open.
        self.take_clients_keys();
    }

    fn take_clients_keys(&mut self) {
        while self.side.wants_keys()
            && !self.paste.holds_others()
            && let Some(keys) = self.parts.clients.take_keys(now())
        {
            self.keys(&keys);
        }
    }

    /// Presses the key of a choice, if exactly this dialog is on the screen now.
    fn choose(&mut self, id: ClientId, dialog: &Dialog, choice: usize) {
        // The output that arrived meanwhile may show another dialog, and another program may read
        // the terminal.
        for bytes in self.channels.printed.clone().try_iter().take(PRINTED_MAX) {
            self.printed(&bytes);
        }
        self.update_reader();
        let refusal = match () {
            () if self.side.dialog(now()).as_ref() != Some(dialog) => CHANGED,
            () if !(1..=dialog.choices.len()).contains(&choice) => NO_CHOICE,
            () if !self.takes_keys() => PASTING,
            () => {
                self.keys(choice.to_string().as_bytes());
                return self.send_state(id);
            }
        };
        self.parts.clients.send(id, &control::Answer::Error { message: refusal.to_owned() });
    }

    /// Whether a key that comes now goes to the command at once, and not into a paste of another
    /// terminal.
    fn takes_keys(&self) -> bool {
        self.side.wants_keys() && !self.paste.holds_others() && !self.parts.clients.is_pasting()
    }

    fn send_state(&mut self, id: ClientId) {
        let side = self.side.state();
        let state = control::AgentState {
            waiting: side.waiting,
            why: side.why.map(|why| self.explain(why)),
            held: side.held,
            connected: side.connected,
            attached: self.parts.clients.attached(),
            has_terminal: self.attached,
            source: Some(self.source()),
            no_hooks: self.no_hooks(),
            dialog: self.side.dialog(now()),
            collisions: self.edits.collisions(now()),
            ..self.constant_state.clone()
        };
        self.parts.clients.send(id, &control::Answer::State(state));
    }

    /// Answers a hook. If the hook is gone, its text was not shown.
    pub(super) fn answer_hook(&mut self, caller: Caller, text: Option<String>) {
        if !self.parts.clients.answer(now(), caller.0, &control::Answer::Hooked { text }) {
            self.inputs.push_back(Input::HookGone(caller));
        }
    }

    /// Answers a command that takes messages.
    pub(super) fn answer_taker(&mut self, caller: Caller, taken: Taken) {
        let (text, why) = match taken {
            Taken::Text(text) => (Some(text), None),
            Taken::Nothing => (None, None),
            Taken::Unreadable(why) => (None, Some(why.to_string())),
        };
        // If the command is gone, the messages that it has not shown are delivered again after the
        // turn.
        self.parts.clients.answer(now(), caller.0, &control::Answer::Taken { text, why });
    }

    /// Returns the reason why the agent's CLI reports nothing by hooks, although it could.
    fn no_hooks(&self) -> Option<String> {
        let unheard = self.side.unheard_since().filter(|_| self.parts.hooks.are_given);
        match unheard.map(|since| now().since(since)).filter(|ms| *ms >= UNHEARD_MS) {
            Some(_) if self.parts.hooks.need_extension => Some(UNHEARD_EXTENSION.to_owned()),
            Some(_) => Some(UNHEARD.to_owned()),
            None => self.parts.hooks.why_not.clone(),
        }
    }

    fn source(&self) -> control::Source {
        match self.side.read_from() {
            ReadFrom::Screen => control::Source::Screen,
            ReadFrom::Transcript(id) => {
                // Only followed files have a known path.
                let path = self.transcripts.get(&id);
                let path = path.map(|path| path.display().to_string()).unwrap_or_default();
                control::Source::Transcript { path }
            }
            ReadFrom::Nowhere { since } => {
                let missed_ms = since.map_or(0, |since| now().since(since));
                control::Source::Missing { since: clock::unix_ms().saturating_sub(missed_ms) }
            }
        }
    }

    /// Tells the clients how the command ended.
    pub(super) fn end(&mut self) -> control::Ended {
        let screen = self.side.screen();
        let full_screen = screen.alternate().then(|| screen.text());
        self.input(Input::ChildGone);
        // A last message to a group is sent to its agents.
        self.take_inputs();
        // The thread that waits for the command reports its exit code, unless it panics.
        let code = self.exit_code.unwrap_or(1);
        let mut ended = control::Ended::new(code, &self.side.screen().text());
        if let Some(text) = full_screen.filter(|_| ended.last_lines.is_empty()) {
            ended = control::Ended { taken_away: true, ..control::Ended::new(code, &text) };
        }
        ended.has_messages = self.has_messages;
        if self.is_ending {
            // The reason of the end is known without the last lines, which may hold messages, and
            // messages do not belong in a log.
            ended.last_lines.clear();
        }
        self.parts.clients.send_end(&ended);
        // The agent has ended, so it does not matter which hooks have printed.
        let _ = self.parts.clients.serve(now(), self.side.screen());
        ended
    }

    /// Waits for a limited time until clients have read their pending output.
    pub(super) fn flush_clients(&mut self) {
        let until = now().plus(GOODBYE_MS);
        while self.parts.clients.is_writing() {
            let left = Duration::from_millis(until.since(now()));
            let Ok((id, event)) = self.parts.clients.events.recv_timeout(left) else { return };
            // The command has ended, so no action makes a difference.
            let _ = self.parts.clients.handle(now(), id, event);
            let _ = self.parts.clients.serve(now(), self.side.screen());
        }
    }
}
