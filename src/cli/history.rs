//! `history`: the messages that were accepted, or those of them that could not be delivered.

use super::{
    dead_letters,
    failure::{DONE, Failure},
    join::join,
    messages::{self, DeliveryWords, FROM_TO, TEXT, beginning_of_text, each_row, route, short_id},
    moment,
    print::Out,
    table::Column,
    values::{count, moment},
};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::relay::{HistoryRequest, MessageRow, Page, RequestName};
use terminal::frame::Origin;

/// The most messages that are shown by default.
const LIMIT: u64 = 50;

/// Show the accepted messages, the newest first.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "history",
    help_triggers("--help"),
    example = "agent-relay history --with Bob --limit 10",
    example = "agent-relay history --since yesterday --until 12:00",
    example = "agent-relay history --search \"port 8080\" --json",
    example = "agent-relay history --dead",
    note = "Messages are kept for history_days of config.toml.",
    note = "`agent-relay redeliver ID` delivers a dead letter again."
)]
pub(super) struct History {
    /// only messages to or from this agent, too
    #[argh(option, arg_name = "agent", hidden_help)]
    of: Option<String>,

    /// only messages to or from this agent
    #[argh(option, arg_name = "agent")]
    with: Option<String>,

    /// only messages on this topic
    #[argh(option, arg_name = "topic")]
    topic: Option<String>,

    /// only messages with all of these words
    #[argh(option, arg_name = "words")]
    search: Option<String>,

    /// only messages to this agent
    #[argh(option, arg_name = "agent")]
    to: Option<String>,

    /// only messages since this moment: 2h, 14:00, yesterday, 2026-11-23 14:00
    #[argh(option, arg_name = "moment", from_str_fn(moment))]
    since: Option<u64>,

    /// only messages until this moment
    #[argh(option, arg_name = "moment", from_str_fn(moment))]
    until: Option<u64>,

    /// only messages that could not be delivered, and why
    #[argh(switch)]
    dead: bool,

    /// maximum number (default 50, of dead letters all)
    #[argh(option, arg_name = "count", from_str_fn(count))]
    limit: Option<u64>,

    /// print one JSON object a line for each message
    #[argh(switch)]
    json: bool,
}

impl History {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if self.search.as_deref().is_some_and(|text| !text.contains(char::is_alphanumeric)) {
            return Err(Failure::usage("--search has no word in it"));
        }
        let client = join(options)?;
        let (mut out, mut rows) = (Out::new(), Vec::new());
        let request = |Page { cursor, limit }| HistoryRequest {
            of: self.of.clone(),
            with: self.with.clone(),
            topic: self.topic.clone(),
            search: self.search.clone(),
            dead: self.dead,
            cursor,
            limit,
        };
        let mut left = self.limit.unwrap_or(if self.dead { u64::MAX } else { LIMIT });
        // The daemon does not filter by these, so a small page could have no row to show.
        let is_filtered = self.since.is_some() || self.until.is_some() || self.to.is_some();
        let limit = usize::try_from(left).unwrap_or(usize::MAX);
        let page_rows = if is_filtered { usize::MAX } else { limit };
        each_row(&client, RequestName::History, page_rows, request, |json, message| {
            if !self.includes(message) {
                return Ok(true);
            }
            left -= 1;
            if self.json {
                out.json_text(messages::SCHEMA, json)?;
            } else {
                rows.push(if self.dead { dead_letters::row(message) } else { row(message) });
            }
            Ok(left > 0)
        })?;
        if self.dead && !self.json {
            dead_letters::print(&mut out, rows)?;
        } else if !self.json {
            let empty = "no message: only at-least-once messages are kept, for a while";
            let columns = [
                Column::whole("SENT"),
                Column::whole("ID"),
                FROM_TO,
                Column::cut("STATE", 9),
                TEXT,
            ];
            out.of_others(Origin::Others, |out| out.table(&columns, rows, empty))?;
        }
        Ok(DONE)
    }
}

impl History {
    fn includes(&self, message: &MessageRow<'_>) -> bool {
        self.since.is_none_or(|since| message.taken >= since)
            && self.until.is_none_or(|until| message.taken < until)
            && self.to.as_deref().is_none_or(|to| message.to.eq_ignore_ascii_case(to))
    }
}

fn row(message: &MessageRow<'_>) -> Vec<String> {
    vec![
        moment::short(message.taken),
        short_id(&message.id),
        route(message),
        DeliveryWords::of(message).short(),
        beginning_of_text(message),
    ]
}
