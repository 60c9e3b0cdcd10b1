//! `release`: let an agent have its messages again.

use super::{Failure, argv, place::Asked, wrapped};
use crate::protocol::control::Request;
use argh::{ArgsInfo, FromArgs};

/// Let an agent have again what others say to it.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand, name = "release", help_triggers("--help"), example = "agent-relay release Ann")]
pub(super) struct Release {
    /// the wrapped agent
    #[argh(positional, from_str_fn(argv::text))]
    name: String,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

impl Release {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let name = &self.name;
        wrapped::change(asked, name, &Request::Release, self.json, |waiting| {
            format!("{name} gets its messages; {waiting} wait to be typed")
        })
    }
}
