//! `history`: the messages that were accepted.

use super::{
    context::GlobalOptions,
    escape::escaped,
    failure::{DONE, Failure},
    join::join,
    messages::{self, DeliveryState, ago, beginning_of_text, each_row, route},
    print::Out,
    values::count,
};
use crate::protocol::relay::{HistoryRequest, MessageRow, Page};
use argh::{ArgsInfo, FromArgs};

/// Show the accepted messages, the newest first.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "history",
    help_triggers("--help"),
    example = "agent-relay history --with Bob --limit 10",
    example = "agent-relay history --search \"port 8080\" --json",
    note = "Messages are kept for history_days of config.toml."
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

    /// at most this many; default: 50
    #[argh(option, arg_name = "count", from_str_fn(count), default = "50")]
    limit: u64,

    /// print one JSON object a line for each message
    #[argh(switch)]
    json: bool,
}

impl History {
    pub(super) fn run(self, options: &GlobalOptions) -> Result<i32, Failure> {
        if self.search.as_deref().is_some_and(|text| !text.contains(char::is_alphanumeric)) {
            return Err(Failure::usage("--search has no word in it: give the words to search for"));
        }
        let client = join(options)?;
        let (mut out, mut rows) = (Out::new(), Vec::new());
        let request = |Page { cursor, limit }| HistoryRequest {
            of: self.of.clone(),
            with: self.with.clone(),
            topic: self.topic.clone(),
            search: self.search.clone(),
            cursor,
            limit,
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        each_row(&client, "history", limit, request, |json, message| {
            if self.json {
                return out.json_text(messages::SCHEMA, json);
            }
            rows.push(row(message));
            Ok(())
        })?;
        if !self.json {
            let empty =
                "no such message is known: only at-least-once messages are kept, for a while";
            out.table(&["SENT", "FROM, TO", "STATE", "ID", "TEXT"], rows, empty)?;
        }
        Ok(DONE)
    }
}

fn row(message: &MessageRow<'_>) -> Vec<String> {
    vec![
        ago(message.taken),
        route(message),
        DeliveryState::of(message).short(),
        escaped(&message.id),
        beginning_of_text(message),
    ]
}
