//! `forget`: forget the name of an agent that is away.

use super::{
    failure::{DONE, Failure},
    join::join,
    print::Out,
    request::call_with,
};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::relay::{ForgetRequest, RequestName};

/// Forget the name of an agent that is away and has no mail and no key.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "forget",
    help_triggers("--help"),
    example = "agent-relay forget Ann",
    note = "`agent-relay purge NAME` ends its mail first."
)]
pub(super) struct Forget {
    /// print one JSON object
    #[argh(switch)]
    json: bool,

    /// the agent
    #[argh(positional, arg_name = "agent")]
    name: String,
}

impl Forget {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let client = join(options)?;
        let request = ForgetRequest { name: self.name };
        call_with(&client, RequestName::Forget, &request)?;
        let mut out = Out::new();
        if self.json {
            out.json("forgotten", &request)?;
        } else {
            out.line(format_args!("{} is forgotten", request.name))?;
        }
        Ok(DONE)
    }
}
