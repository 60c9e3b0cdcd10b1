//! `release`: deliver agents' messages again.

use super::{failure::Failure, wrapped};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::control::Request;

/// Deliver agents' messages again, after `agent-relay hold`.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "release",
    help_triggers("--help"),
    example = "agent-relay release Ann Bob",
    example = "agent-relay release @reviewers"
)]
pub(super) struct Release {
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

impl Release {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let names = wrapped::each_once(options, &self.name, &self.others)?;
        wrapped::change(options, &names, &Request::Release, self.json, |name, waiting| {
            let verb = if waiting == 1 { "waits" } else { "wait" };
            format!("{name} gets its messages; {waiting} {verb} to be typed")
        })
    }
}
