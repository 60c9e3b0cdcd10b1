//! `inbox`: the messages that wait for an agent.

use super::{
    context::GlobalOptions,
    escape::escaped,
    failure::{DONE, Failure},
    identity::agent_around,
    join::join,
    messages::{self, DeliveryState, TEXT, beginning_of_text, each_row, short_id},
    moment,
    print::Out,
    table::Column,
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
            return Err(Failure::usage("no agent").hint("name it with --as NAME"));
        };
        let client = join(options)?;
        let (mut out, mut rows) = (Out::new(), Vec::new());
        let request = |Page { cursor, limit }| InboxRequest { of: Some(of.clone()), cursor, limit };
        each_row(&client, "inbox", usize::MAX, request, |json, message| {
            if self.json {
                out.json_text(messages::SCHEMA, json)?;
                return Ok(true);
            }
            let state = DeliveryState::of(message);
            rows.push((row(message, &state), state.reason.clone()));
            Ok(true)
        })?;
        if !self.json {
            let empty = format!("nothing waits for {}", escaped(&of));
            let columns = [
                Column::whole("SENT"),
                Column::whole("ID"),
                Column::cut("FROM", 10),
                Column::cut("STATE", 9),
                TEXT,
            ];
            out.table_with_notes(&columns, rows, &empty)?;
        }
        Ok(DONE)
    }

    fn take(&self) -> Result<i32, Failure> {
        if self.json || self.of.is_some() {
            let hint = "it prints the messages of the agent that it runs in";
            return Err(Failure::usage("--take has no other option").hint(hint));
        }
        let taken = take(None).ok_or_else(|| {
            let message = "only a command of a wrapped agent takes its messages";
            Failure::failed(message).hint("`agent-relay inbox --as NAME` shows them")
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
        moment::short(message.taken),
        short_id(&message.id),
        escaped(&message.from),
        state.short(),
        beginning_of_text(message),
    ]
}
