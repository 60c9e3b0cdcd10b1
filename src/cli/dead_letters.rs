//! `dead-letters`: the messages that could not be delivered.

use super::{
    failure::{DONE, Failure},
    join::join,
    messages::{self, DeliveryWords, FROM_TO, TEXT, beginning_of_text, each_row, route, short_id},
    moment,
    print::Out,
    table::Column,
};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::relay::{MessageRow, RequestName};
use terminal::frame::Origin;

/// Show the messages that could not be delivered, and why.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "dead-letters",
    help_triggers("--help"),
    example = "agent-relay dead-letters",
    example = "agent-relay dead-letters --json",
    note = "`agent-relay redeliver ID` delivers one again."
)]
pub(super) struct DeadLetters {
    /// print one JSON object a line for each message
    #[argh(switch)]
    json: bool,
}

impl DeadLetters {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let client = join(options)?;
        let (mut out, mut rows) = (Out::new(), Vec::new());
        each_row(
            &client,
            RequestName::DeadLetters,
            usize::MAX,
            |page| page,
            |json, message| {
                if self.json {
                    out.json_text(messages::SCHEMA, json)?;
                } else {
                    rows.push(row(message));
                }
                Ok(true)
            },
        )?;
        if !self.json {
            let columns =
                [Column::whole("DIED"), Column::whole("ID"), FROM_TO, Column::cut("WHY", 12), TEXT];
            let empty = "no dead letters";
            out.of_others(Origin::Others, |out| out.table(&columns, rows, empty))?;
        }
        Ok(DONE)
    }
}

fn row(message: &MessageRow<'_>) -> Vec<String> {
    let reason = DeliveryWords::of(message).reason.unwrap_or_default();
    vec![
        moment::short(message.delivery.ended.unwrap_or(message.taken)),
        short_id(&message.id),
        route(message),
        reason.to_owned(),
        beginning_of_text(message),
    ]
}
