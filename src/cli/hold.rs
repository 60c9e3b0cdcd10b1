//! `hold`: have an agent's messages wait.

use super::{DONE, Failure, argv, place::Asked, print::Out, wrapped};
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
        let visit = wrapped::visit(asked, &self.name)?;
        let state = wrapped::ask(&visit, &self.name, &Request::Hold)?;
        let mut out = Out::new();
        if self.json {
            out.json("wrapped", &state)?;
        } else {
            let (name, waiting) = (&self.name, state.waiting);
            out.line(format_args!("{name}'s messages are held; {waiting} wait"))?;
        }
        Ok(DONE)
    }
}
