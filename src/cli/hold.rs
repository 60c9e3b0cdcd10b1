//! `hold`: let agents' messages wait.

use super::{failure::Failure, wrapped};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::control::Request;

/// Let agents' messages wait until `agent-relay release`.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "hold",
    help_triggers("--help"),
    example = "agent-relay hold Ann Bob",
    example = "agent-relay hold @reviewers",
    note = "Held messages expire as others do. They also wait if the agent ends."
)]
pub(super) struct Hold {
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

impl Hold {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let names = wrapped::each_once(options, &self.name, &self.others)?;
        wrapped::change(options, &names, &Request::Hold, self.json, |name, waiting| {
            let verb = if waiting == 1 { "waits" } else { "wait" };
            format!("{name}'s messages are held; {waiting} {verb}")
        })
    }
}
