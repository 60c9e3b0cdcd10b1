//! `history`: what was said.

use super::{
    DONE, Failure, argv,
    ask::{join, whole},
    messages::{self, Standing, ago, beginning, each_row, people},
    place::Asked,
    print::{Out, foreign_line},
};
use crate::protocol::relay::{HistoryRequest, MessageRow, Page};
use argh::{ArgsInfo, FromArgs};

/// Show the messages that were accepted, the newest first, as long as history_days keeps them.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "history",
    help_triggers("--help"),
    example = "agent-relay history --with Bob --limit 10",
    example = "agent-relay history --search \"port 8080\" --json"
)]
pub(super) struct History {
    /// to or from this agent
    #[argh(option, arg_name = "name", from_str_fn(argv::text))]
    with: Option<String>,

    /// on this topic
    #[argh(option, from_str_fn(argv::text))]
    topic: Option<String>,

    /// with all of these words
    #[argh(option, arg_name = "text", from_str_fn(argv::text))]
    search: Option<String>,

    /// so many at the most; 50 where absent
    #[argh(option, arg_name = "count", from_str_fn(whole), default = "50")]
    limit: u64,

    /// print one JSON object a line for each message
    #[argh(switch)]
    json: bool,
}

impl History {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        if self.search.as_deref().is_some_and(|text| !text.contains(char::is_alphanumeric)) {
            return Err(Failure::usage("--search has no word in it: say what to look for"));
        }
        let client = join(asked)?;
        let (mut out, mut rows) = (Out::new(), Vec::new());
        let request = |Page { cursor, limit }| HistoryRequest {
            of: None,
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
            let nothing = "no such message is known: only at-least-once ones are kept, for a while";
            out.table(&["SENT", "FROM, TO", "STATE", "ID", "TEXT"], rows, nothing)?;
        }
        Ok(DONE)
    }
}

fn row(message: &MessageRow<'_>) -> Vec<String> {
    vec![
        ago(message.taken),
        people(message),
        Standing::of(message).short(),
        foreign_line(&message.id),
        beginning(message),
    ]
}
