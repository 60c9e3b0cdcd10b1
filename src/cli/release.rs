//! `release`: deliver an agent's messages again.

use super::{failure::Failure, wrapped};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::control::Request;

/// Deliver an agent's messages again, after `agent-relay hold`.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand, name = "release", help_triggers("--help"), example = "agent-relay release Ann")]
pub(super) struct Release {
    /// the wrapped agent
    #[argh(positional, arg_name = "agent")]
    name: String,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

impl Release {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let name = &self.name;
        wrapped::change(options, name, &Request::Release, self.json, |waiting| {
            let verb = if waiting == 1 { "waits" } else { "wait" };
            format!("{name} gets its messages; {waiting} {verb} to be typed")
        })
    }
}
