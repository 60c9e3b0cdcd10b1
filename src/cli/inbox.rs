//! `inbox`: the messages that wait for an agent, or for the person at the command line.

use super::{
    failure::{DONE, Failure},
    join::join,
    mailbox::{join_operator, take_all},
    messages::{self, DeliveryWords, TEXT, beginning_of_text, each_row, short_id},
    moment,
    print::Out,
    table::Column,
    values::agent_name,
    wrapped::take,
};
use argh::{ArgsInfo, FromArgs};
use client::{
    Client,
    home::{HomeOptions, agent_around},
};
use protocol::{
    relay::{InboxRequest, MessageRow, Page, RequestName},
    text::escaped,
};
use terminal::frame::Origin;

/// Show the messages that wait for you, or for an agent and why.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "inbox",
    help_triggers("--help"),
    example = "agent-relay inbox",
    example = "agent-relay inbox --take",
    example = "agent-relay inbox --as Bob --json",
    note = "Without --as, outside of agents: your mailbox, with what agents sent to @operator and late answers to your questions.",
    note = "Delivered messages are shown until they are acknowledged. Showing them does not acknowledge them.",
    note = "--take prints your messages whole, and then takes them out; `agent-relay history` still shows them. An agent whose CLI has hooks reads what waits for it with --take, and that delivers it."
)]
pub(super) struct Inbox {
    /// the agent; default: you, or the wrapped agent that this runs in
    #[argh(option, long = "as", arg_name = "name", from_str_fn(agent_name))]
    of: Option<String>,

    /// print one JSON object a line for each message
    #[argh(switch)]
    json: bool,

    /// print what waits for you, or for the wrapped agent that this runs in, and take it out
    #[argh(switch)]
    take: bool,
}

impl Inbox {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let agent = agent_around();
        if self.take && agent.is_some() {
            return self.take_of_agent();
        }
        if self.take && self.of.is_some() {
            let hint = "an agent takes its own; `agent-relay inbox --as NAME` shows them";
            return Err(Failure::usage("--take is for your own messages").hint(hint));
        }
        let Some(of) = self.of.clone().or(agent) else {
            return self.run_for_person(&join_operator(options, "inbox")?);
        };
        let client = join(options)?;
        let (mut out, mut rows) = (Out::new(), Vec::new());
        let request = |Page { cursor, limit }| InboxRequest { of: Some(of.clone()), cursor, limit };
        each_row(&client, RequestName::Inbox, usize::MAX, request, |json, message| {
            if self.json {
                out.json_text(messages::SCHEMA, json)?;
                return Ok(true);
            }
            let state = DeliveryWords::of(message);
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
            out.of_others(Origin::Others, |out| out.table_with_notes(&columns, rows, &empty))?;
        }
        Ok(DONE)
    }

    fn run_for_person(&self, client: &Client) -> Result<i32, Failure> {
        let mut out = Out::new();
        match self.take {
            true => take_all(client, &mut out, self.json)?,
            false => show_own(client, &mut out, self.json)?,
        }
        Ok(DONE)
    }

    fn take_of_agent(&self) -> Result<i32, Failure> {
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

/// Shows the messages in the operator's mailbox.
fn show_own(client: &Client, out: &mut Out, json: bool) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let request = |Page { cursor, limit }| InboxRequest { of: None, cursor, limit };
    each_row(client, RequestName::Inbox, usize::MAX, request, |text, message| {
        if json {
            out.json_text(messages::SCHEMA, text)?;
            return Ok(true);
        }
        rows.push(vec![
            moment::short(message.taken),
            short_id(&message.id),
            escaped(&message.from),
            beginning_of_text(message),
        ]);
        Ok(true)
    })?;
    if !json {
        let is_empty = rows.is_empty();
        let columns = [Column::whole("SENT"), Column::whole("ID"), Column::cut("FROM", 10), TEXT];
        out.table(&columns, rows, "nothing waits for you")?;
        if !is_empty {
            out.broken("`agent-relay inbox --take` prints them whole and takes them out")?;
        }
    }
    Ok(())
}

fn row(message: &MessageRow<'_>, state: &DeliveryWords) -> Vec<String> {
    vec![
        moment::short(message.taken),
        short_id(&message.id),
        escaped(&message.from),
        state.short(),
        beginning_of_text(message),
    ]
}
