//! Notices on standard error about a connection, while a command waits for something else.

use super::{failure::Failure, print::eprint_line};
use client::{ConnectionState, Event};
use protocol::text::escaped;

/// Notices about events that a command does not wait for.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Whether the connection is lost and this was reported.
    is_away: bool,
}

impl Notices {
    /// Prints a notice about an event, if it is of interest. Fails if the session has ended.
    pub(super) fn print(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::State(ConnectionState::Backoff { why, .. }) if !self.is_away => {
                self.is_away = true;
                eprint_line(format_args!("{}; trying again", escaped(&why)));
            }
            Event::State(ConnectionState::Ready(_)) if self.is_away => {
                self.is_away = false;
                eprint_line("connected again");
            }
            Event::Error(fault) => {
                eprint_line(escaped(&fault.message));
            }
            Event::Missed { why } => {
                let why = escaped(&why);
                eprint_line(format_args!("messages sent at most once may be missing: {why}"));
            }
            Event::Ended(ended) => return Err(ended.into()),
            Event::State(_)
            | Event::Delivered(_)
            | Event::Accepted { .. }
            | Event::Refused { .. }
            | Event::Answered { .. }
            | Event::Busy { .. }
            | Event::Subscribed { .. } => {}
        }
        Ok(())
    }
}
