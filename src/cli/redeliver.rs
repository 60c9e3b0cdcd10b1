//! `redeliver`: a dead letter is delivered after all.

use super::{
    DONE, Failure, argv,
    ask::{ask, join, read},
    place::Asked,
    print::{Out, foreign_line, say},
};
use crate::protocol::relay::{RedeliverRequest, Redelivered};
use argh::{ArgsInfo, FromArgs};
use serde_json::value::to_raw_value;

/// Have a dead letter delivered again, as if it were new: with its id, and all of its time to live.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "redeliver",
    help_triggers("--help"),
    example = "agent-relay redeliver 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    note = "`agent-relay dead-letters` shows the ids."
)]
pub(super) struct Redeliver {
    /// print one JSON object
    #[argh(switch)]
    json: bool,

    /// the message's id; that of a SEND has all its dead letters delivered
    #[argh(positional, arg_name = "id", from_str_fn(argv::text))]
    id: String,
}

impl Redeliver {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let client = join(asked)?;
        let data = to_raw_value(&RedeliverRequest { id: self.id }).expect("a request is JSON");
        let json = ask(&client, "redeliver", Some(&data))?;
        let done: Redelivered = read("redeliver", &json)?;
        let mut out = Out::new();
        if self.json {
            out.json("redelivered", &done)?;
        } else {
            let messages = if done.redelivered == 1 { "message is" } else { "messages are" };
            out.line(format_args!("{} {messages} on the way again", done.redelivered))?;
        }
        if done.left > 0 {
            let why = foreign_line(done.why.as_deref().unwrap_or("nobody said why"));
            say(format_args!("{} stay dead letters: {why}", done.left));
        }
        Ok(DONE)
    }
}
