//! `inbox`: what waits for an agent.

use super::{
    DONE, Failure,
    ask::{agent_name, join},
    identity::agent_around,
    messages::{self, Standing, ago, beginning, each_row},
    place::Asked,
    print::{Out, foreign_line},
};
use crate::protocol::relay::{InboxRequest, MessageRow, Page};
use argh::{ArgsInfo, FromArgs};

/// Show what waits for an agent, and why, and what it has not acknowledged yet; that takes nothing
/// out.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "inbox",
    help_triggers("--help"),
    example = "agent-relay inbox --as Bob",
    example = "agent-relay inbox --as Bob --json"
)]
pub(super) struct Inbox {
    /// whose; inside a wrapped agent its own where absent
    #[argh(option, long = "as", arg_name = "name", from_str_fn(agent_name))]
    of: Option<String>,

    /// print one JSON object a line for each message
    #[argh(switch)]
    json: bool,
}

impl Inbox {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let Some(of) = self.of.or_else(agent_around) else {
            return Err(Failure::usage("whose inbox? Name the agent with --as NAME"));
        };
        let client = join(asked)?;
        let (mut out, mut rows) = (Out::new(), Vec::new());
        let request = |Page { cursor, limit }| InboxRequest { of: Some(of.clone()), cursor, limit };
        each_row(&client, "inbox", usize::MAX, request, |json, message| {
            if self.json {
                return out.json_text(messages::SCHEMA, json);
            }
            let standing = Standing::of(message);
            rows.push((row(message, &standing), standing.why.clone()));
            Ok(())
        })?;
        if !self.json {
            let nothing = format!("nothing waits for {}", foreign_line(&of));
            let heading = ["SENT", "FROM", "STATE", "ID", "TEXT"];
            out.table_with_notes(&heading, rows, &nothing)?;
        }
        Ok(DONE)
    }
}

fn row(message: &MessageRow<'_>, standing: &Standing) -> Vec<String> {
    vec![
        ago(message.taken),
        foreign_line(&message.from),
        standing.short(),
        foreign_line(&message.id),
        beginning(message),
    ]
}
