//! `redeliver`: deliver a dead letter again.

use super::{
    failure::{DONE, Failure},
    join::join,
    print::{Out, eprint_line},
    request::{call_with, parse},
};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::{
    relay::{RedeliverRequest, Redelivered, RequestName},
    text::escaped,
};

/// Deliver a dead letter again, with its id and its whole time to live.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "redeliver",
    help_triggers("--help"),
    example = "agent-relay redeliver 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    note = "`agent-relay history --dead` shows the ids."
)]
pub(super) struct Redeliver {
    /// print one JSON object
    #[argh(switch)]
    json: bool,

    /// the id of the message; the id of a SEND delivers all its dead letters
    #[argh(positional, arg_name = "id")]
    id: String,
}

impl Redeliver {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let client = join(options)?;
        let json = call_with(&client, RequestName::Redeliver, &RedeliverRequest { id: self.id })?;
        let done: Redelivered = parse(RequestName::Redeliver, &json)?;
        let mut out = Out::new();
        if self.json {
            out.json("redelivered", &done)?;
        } else {
            let messages = if done.redelivered == 1 { "message is" } else { "messages are" };
            out.line(format_args!("{} {messages} on the way again", done.redelivered))?;
        }
        if done.left > 0 {
            let why = escaped(done.why.as_deref().unwrap_or("for an unknown reason"));
            eprint_line(format_args!("{} stay dead letters: {why}", done.left));
        }
        Ok(DONE)
    }
}
