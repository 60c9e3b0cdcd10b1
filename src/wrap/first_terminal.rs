//! The wait of a wrapper in the background for its first terminal, before its command starts: the
//! command begins with the terminal's size, and the person sees all that it prints.

use super::{
    control::clients::{Action, ControlClients},
    now,
};
use platform::pty::Size;
use protocol::control::{AgentState, Answer};
use std::{io, time::Duration};
use terminal::screen::Screen;

/// The longest wait.
const WAIT_MS: u64 = 30_000;

/// Waits until a terminal attaches to drive the agent. Returns its size. Until then, others only
/// get the agent's state.
///
/// # Errors
/// If none attaches in time, or the agent is stopped.
pub(super) fn await_terminal(clients: &mut ControlClients, state: &AgentState) -> io::Result<Size> {
    let until = now().plus(WAIT_MS);
    let screen = Screen::new(1, 1);
    loop {
        let left = Duration::from_millis(until.since(now()));
        // Waits for: the first terminal that attaches, 30 s at most (Windows, a wrapper in the
        // background).
        let Ok((id, event)) = clients.events.recv_timeout(left) else {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no terminal has attached to it"));
        };
        match clients.handle(now(), id, event) {
            Some(Action::Resize(size)) => return Ok(size),
            Some(Action::SendState) => clients.send(id, &Answer::State(state.clone())),
            Some(Action::Stop) => return Err(io::Error::other("it was stopped before its start")),
            Some(_) => clients.send(id, &Answer::Error { message: "it has not started".into() }),
            None => {}
        }
        // There are no hooks yet.
        drop(clients.serve(now(), &screen));
    }
}
