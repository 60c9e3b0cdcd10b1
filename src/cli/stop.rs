//! `stop`: end wrapped agents.

use super::{
    failure::{Failure, first_failure},
    print::Out,
    wrapped::{connect, each_once, explain},
};
use crate::wrap::control::client::ControlClient;
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use platform::clock;
use protocol::control::Ended;
use serde::Serialize;
use std::time::Duration;

/// The longest wait until all commands have ended. An unresponsive command is killed after some
/// seconds, and sending its last messages can take some seconds more.
const END_MS: u64 = 30_000;

/// The longest wait from the command's end to the wrapper's.
const CLOSE: Duration = Duration::from_secs(5);

/// End wrapped agents.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "stop",
    help_triggers("--help"),
    example = "agent-relay stop Ann",
    example = "agent-relay stop Ann Bob",
    example = "agent-relay stop @reviewers",
    note = "An agent's terminal is closed, and processes that ignore that are killed. Independent processes, such as daemons, go on.",
    note = "Messages wait until the agent is back. `agent-relay down` stops the daemon."
)]
pub(super) struct Stop {
    /// the wrapped agent, or a group of a team
    #[argh(positional, arg_name = "agent")]
    name: String,

    /// further agents
    #[argh(positional, arg_name = "agent")]
    others: Vec<String>,

    /// print one JSON object a line for each agent
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
        let names = each_once(options, &self.name, &self.others)?;
        // All are asked to end before this waits for the first one.
        let begin = |name: String| -> Result<_, Failure> {
            let wrapper = connect(options, &name)?;
            wrapper.begin_to_stop();
            Ok((name, wrapper))
        };
        let begun: Vec<_> = names.into_iter().map(begin).collect();
        let deadline = deadline();
        let ended = begun.into_iter().map(|begun| {
            let (name, wrapper) = begun?;
            await_end(&name, &wrapper, deadline, self.json)
        });
        Ok(first_failure(self.json, ended))
    }
}

/// The deadline for commands that begin to stop now.
pub(super) fn deadline() -> u64 {
    clock::monotonic_ms().saturating_add(END_MS)
}

/// Waits until an agent that stops has ended, and prints that.
pub(super) fn await_end(
    name: &str,
    wrapper: &ControlClient,
    deadline: u64,
    json: bool,
) -> Result<(), Failure> {
    let left = Duration::from_millis(deadline.saturating_sub(clock::monotonic_ms()));
    let ended = wrapper.await_end(left).map_err(|error| explain(name, &error))?;
    wrapper.await_close(CLOSE);
    let mut out = Out::new();
    match json {
        true => out.json("stop", &Report { name, ended: &ended }),
        // The exit code of a stopped command says nothing about the command.
        false => out.line(format_args!("{name} ended")),
    }
}
