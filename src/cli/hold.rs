//! `hold`: let an agent's messages wait.

use super::{failure::Failure, wrapped};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::control::Request;

/// Let an agent's messages wait until `agent-relay release`.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "hold",
    help_triggers("--help"),
    example = "agent-relay hold Ann",
    note = "Held messages expire as others do. They also wait if the agent ends."
)]
pub(super) struct Hold {
    /// the wrapped agent
    #[argh(positional, arg_name = "agent")]
    name: String,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

impl Hold {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let name = &self.name;
        wrapped::change(options, name, &Request::Hold, self.json, |waiting| {
            let verb = if waiting == 1 { "waits" } else { "wait" };
            format!("{name}'s messages are held; {waiting} {verb}")
        })
    }
}
