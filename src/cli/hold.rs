//! `hold`: have an agent's messages wait.

use super::{Failure, argv, place::Asked, wrapped};
use crate::protocol::control::Request;
use argh::{ArgsInfo, FromArgs};

/// Have what others say to an agent wait until `release`. Nothing is lost, and nothing typed meanwhile.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "hold",
    help_triggers("--help"),
    example = "agent-relay hold Ann",
    note = "What is held expires as any message does that waits; if Ann ends, it waits for her return."
)]
pub(super) struct Hold {
    /// the wrapped agent
    #[argh(positional, from_str_fn(argv::text))]
    name: String,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

impl Hold {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let name = &self.name;
        wrapped::change(asked, name, &Request::Hold, self.json, |waiting| {
            format!("{name}'s messages are held; {waiting} wait")
        })
    }
}
