//! `stop`: end a wrapped agent.

use super::{
    failure::{DONE, Failure},
    print::Out,
    wrapped::{self, explain},
};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::control::Ended;
use serde::Serialize;
use std::time::Duration;

/// The longest wait until a command has ended. An unresponsive command is killed after some
/// seconds, and sending its last messages can take some seconds more.
const END: Duration = Duration::from_secs(30);

/// The longest wait from the command's end to the wrapper's.
const CLOSE: Duration = Duration::from_secs(5);

/// End a wrapped agent.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "stop",
    help_triggers("--help"),
    example = "agent-relay stop Ann",
    note = "Its terminal is closed, and processes that ignore that are killed. Independent processes, such as daemons, go on.",
    note = "Messages wait until the agent is back. `agent-relay down` stops the daemon."
)]
pub(super) struct Stop {
    /// the wrapped agent
    #[argh(positional, arg_name = "agent")]
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
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let name = &self.name;
        let wrapper = wrapped::connect(options, name)?;
        let ended = wrapper.stop(END).map_err(|error| explain(name, &error))?;
        wrapper.await_close(CLOSE);
        let mut out = Out::new();
        if self.json {
            out.json("stop", &Report { name, ended: &ended })?;
        } else {
            out.line(format_args!("{name} {ended}"))?;
        }
        Ok(DONE)
    }
}
