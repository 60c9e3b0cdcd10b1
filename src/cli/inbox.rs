//! `inbox`: the messages that wait for an agent.

use super::{
    context::GlobalOptions,
    escape::escaped,
    failure::{DONE, Failure},
    identity::agent_around,
    join::join,
    messages::{self, DeliveryState, ago, beginning_of_text, each_row},
    print::Out,
    values::agent_name,
    wrapped::take,
};
use crate::protocol::relay::{InboxRequest, MessageRow, Page};
use argh::{ArgsInfo, FromArgs};

/// Show the messages that wait for an agent, and why.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "inbox",
    help_triggers("--help"),
    example = "agent-relay inbox --as Bob",
    example = "agent-relay inbox --as Bob --json",
    example = "agent-relay inbox --take",
    note = "Delivered messages are shown until they are acknowledged. Showing them does not acknowledge them.",
    note = "With --take, an agent whose CLI has hooks reads what waits for it, and that delivers it."
)]
pub(super) struct Inbox {
    /// the agent; default: the wrapped agent that this runs in
    #[argh(option, long = "as", arg_name = "name", from_str_fn(agent_name))]
    of: Option<String>,

    /// print one JSON object a line for each message
    #[argh(switch)]
    json: bool,

    /// in a wrapped agent: print what waits for it, as delivered
    #[argh(switch)]
    take: bool,
}

impl Inbox {
    pub(super) fn run(self, options: &GlobalOptions) -> Result<i32, Failure> {
        if self.take {
            return self.take();
        }
        let Some(of) = self.of.or_else(agent_around) else {
            return Err(Failure::usage("no agent: name the agent of the inbox with --as NAME"));
        };
        let client = join(options)?;
        let (mut out, mut rows) = (Out::new(), Vec::new());
        let request = |Page { cursor, limit }| InboxRequest { of: Some(of.clone()), cursor, limit };
        each_row(&client, "inbox", usize::MAX, request, |json, message| {
            if self.json {
                return out.json_text(messages::SCHEMA, json);
            }
            let state = DeliveryState::of(message);
            rows.push((row(message, &state), state.reason.clone()));
            Ok(())
        })?;
        if !self.json {
            let empty = format!("nothing waits for {}", escaped(&of));
            let heading = ["SENT", "FROM", "STATE", "ID", "TEXT"];
            out.table_with_notes(&heading, rows, &empty)?;
        }
        Ok(DONE)
    }

    fn take(&self) -> Result<i32, Failure> {
        if self.json || self.of.is_some() {
            return Err(Failure::usage("--take stands alone: it prints the agent's own messages"));
        }
        let taken = take(None).ok_or_else(|| {
            Failure::failed(
                "only a command of a wrapped agent takes its messages: `agent-relay inbox --as NAME` \
                 shows them",
            )
        })?;
        if let Some(why) = taken.why {
            return Err(Failure::failed(format!("nothing is read here: {why}")));
        }
        Out::new().line(taken.text.unwrap_or_else(|| "nothing waits for you".to_owned()))?;
        Ok(DONE)
    }
}

fn row(message: &MessageRow<'_>, state: &DeliveryState) -> Vec<String> {
    vec![
        ago(message.taken),
        escaped(&message.from),
        state.short(),
        escaped(&message.id),
        beginning_of_text(message),
    ]
}
