//! `stop`: end a wrapped agent.

use super::{
    DONE, Failure, argv,
    place::Asked,
    print::Out,
    wrapped::{self, explain},
};
use crate::{
    protocol::control::{Answer, Ended, Request},
    wrap::visit::VisitError,
};
use argh::{ArgsInfo, FromArgs};
use serde::Serialize;
use std::time::Duration;

/// What hears no requests is ended by force after some seconds; its last messages take some, too.
const END: Duration = Duration::from_secs(30);

/// From the command's end to the wrapper's.
const CLOSE: Duration = Duration::from_secs(5);

/// End a wrapped agent's command and what runs with it: its terminal is hung up, and what ignores that is made
/// to end.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "stop",
    help_triggers("--help"),
    example = "agent-relay stop Ann",
    note = "What the command has made independent of itself, such as a daemon, goes on.",
    note = "What waits for the agent waits until it is back. `agent-relay down` stops the daemon."
)]
pub(super) struct Stop {
    /// the wrapped agent
    #[argh(positional, from_str_fn(argv::text))]
    name: String,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    #[serde(flatten)]
    ended: &'a Ended,
}

impl Stop {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let name = &self.name;
        let visit = wrapped::visit(asked, name)?;
        let ended = match visit.ask(&Request::Stop, END) {
            Ok(Answer::Ended(ended)) => ended,
            Ok(_) => {
                let odd = VisitError::Misspoken("it answers something else".into());
                return Err(explain(name, &odd));
            }
            Err(error) => return Err(explain(name, &error)),
        };
        visit.await_close(CLOSE);
        let mut out = Out::new();
        if self.json {
            out.json("stop", &Report { name, ended: &ended })?;
        } else {
            out.line(format_args!("{name} {ended}"))?;
        }
        Ok(DONE)
    }
}
