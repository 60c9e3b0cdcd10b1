//! `history`: the messages that were accepted, or those of them that could not be delivered.

use super::{
    conversation::{Conversation, Several},
    dead_letters,
    failure::{DONE, Failure},
    join::join,
    messages::{self, FROM_TO, Recipients, TEXT, beginning_of_text, each_row, short_id},
    moment,
    print::Out,
    read::with_content,
    request::{call_with, daemon_process, parse},
    table::Column,
    values::{count, label, moment},
};
use argh::{ArgsInfo, FromArgs};
use client::{Client, home::HomeOptions};
use protocol::{
    relay::{HistoryRequest, MessageRequest, MessageRow, Messages, Page, RequestName},
    text::escaped,
};
use serde_json::value::RawValue;
use std::collections::HashMap;
use terminal::frame::Origin;

/// The most messages that are shown by default.
const LIMIT: u64 = 50;

/// The texts of an empty table.
const NO_MATCH: &str = "no stored message matches";
const NOTHING_STORED: &str = "no message is stored: at-least-once messages and answers are, for \
                              history_days of config.toml";

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
    note = "`agent-relay redeliver ID` delivers a dead letter again.",
    note = "Messages are kept for history_days of config.toml. Before a text, [LABEL] names its thread, and \
            re ID the message that it answers. A message to several agents is one row; \
            `agent-relay read` shows each recipient."
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

    /// only messages of this thread
    #[argh(option, arg_name = "label", from_str_fn(label))]
    thread: Option<String>,

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

    /// print one JSON object a line for each recipient of each message
    #[argh(switch)]
    json: bool,
}

impl History {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if self.search.as_deref().is_some_and(|text| !text.contains(char::is_alphanumeric)) {
            return Err(Failure::usage("--search has no word in it"));
        }
        let client = join(options)?;
        if self.dead {
            return self.list_dead(&client);
        }
        let (mut out, mut messages) = (Out::new(), Vec::new());
        let mut found = Found::new(self.most());
        self.each_row(&client, |json, row| {
            match (found.add(row), self.json) {
                (Place::BeyondLimit, _) => {}
                (_, true) => out.json_text(messages::SCHEMA, json)?,
                (Place::New, false) => messages.push(Message::of(row)),
                (Place::Known(place), false) => messages[place].recipients.add_older(row),
            }
            Ok(found.may_grow(row.taken))
        })?;
        if !self.json {
            let empty = if messages.is_empty() { why_empty(&client)? } else { String::new() };
            let columns = [
                Column::whole("SENT"),
                Column::whole("ID"),
                FROM_TO,
                Column::cut("STATE", 9),
                TEXT,
            ];
            let rows = messages.into_iter().map(Message::cells).collect();
            out.of_others(Origin::Others, |out| out.table(&columns, rows, &empty))?;
        }
        Ok(DONE)
    }

    /// Lists the dead letters, one for each recipient, since each has its own reason.
    fn list_dead(&self, client: &Client) -> Result<i32, Failure> {
        let (mut out, mut rows) = (Out::new(), Vec::new());
        let mut left = self.most();
        self.each_row(client, |json, row| {
            left -= 1;
            match self.json {
                true => out.json_text(messages::SCHEMA, json)?,
                false => rows.push(dead_letters::row(row)),
            }
            Ok(left > 0)
        })?;
        if !self.json {
            dead_letters::print(&mut out, rows)?;
        }
        Ok(DONE)
    }

    /// The most messages that are shown.
    fn most(&self) -> u64 {
        self.limit.unwrap_or(if self.dead { u64::MAX } else { LIMIT })
    }

    /// Calls `show` with each row that fits the options, until it returns false.
    fn each_row(
        &self,
        client: &Client,
        mut show: impl FnMut(&str, &MessageRow<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let request = |Page { cursor, limit }| HistoryRequest {
            of: self.of.clone(),
            with: self.with.clone(),
            topic: self.topic.clone(),
            search: self.search.clone(),
            dead: self.dead,
            cursor,
            limit,
        };
        each_row(client, RequestName::History, self.rows_wanted(), request, |json, row| {
            if self.includes(client, row)? { show(json, row) } else { Ok(true) }
        })
    }

    /// The rows of a page.
    fn rows_wanted(&self) -> usize {
        // This command could leave out all rows of a small page.
        let is_filtered = self.since.is_some()
            || self.until.is_some()
            || self.to.is_some()
            || self.thread.is_some();
        if is_filtered { usize::MAX } else { usize::try_from(self.most()).unwrap_or(usize::MAX) }
    }

    /// Whether a row fits the options that the daemon does not know.
    fn includes(&self, client: &Client, row: &MessageRow<'_>) -> Result<bool, Failure> {
        let fits = self.since.is_none_or(|since| row.taken >= since)
            && self.until.is_none_or(|until| row.taken < until)
            && self.to.as_deref().is_none_or(|to| row.to.eq_ignore_ascii_case(to));
        match &self.thread {
            Some(_) if fits => Ok(thread_of(client, row)? == self.thread),
            _ => Ok(fits),
        }
    }
}

/// The thread of a message, or else the thread of the message that it answers.
fn thread_of(client: &Client, row: &MessageRow<'_>) -> Result<Option<String>, Failure> {
    let place = |row: MessageRow<'_>| {
        with_content(client, row, |row: &MessageRow<'_>| Ok(Conversation::of_row(row)))
    };
    let (id, limit) = match place(row.clone())? {
        Conversation { thread: None, reply_to: Some(id) } => (id, Some(1)),
        Conversation { thread, .. } => return Ok(thread),
    };
    let request = MessageRequest { id, limit, ..MessageRequest::default() };
    let json = match call_with(client, RequestName::Message, &request) {
        // It is deleted by now, or was never this client's.
        Err(failure) if failure.is_refused() => return Ok(None),
        json => json?,
    };
    let found: Messages<MessageRow<'_>> = parse(RequestName::Message, &json)?;
    Ok(found.messages.into_iter().next().map(place).transpose()?.and_then(|it| it.thread))
}

/// Says why no message is shown, as far as the daemon knows.
fn why_empty(client: &Client) -> Result<String, Failure> {
    let request = HistoryRequest { limit: Some(1), ..HistoryRequest::default() };
    let json = call_with(client, RequestName::History, &request)?;
    let stored: Messages<&RawValue> = parse(RequestName::History, &json)?;
    let store_fails = daemon_process(client)?.and_then(|process| process.store_fails);
    Ok(empty(!stored.messages.is_empty(), store_fails.as_deref()))
}

/// Returns the text of an empty table.
fn empty(is_any_stored: bool, store_fails: Option<&str>) -> String {
    let why = if is_any_stored { NO_MATCH } else { NOTHING_STORED };
    match store_fails {
        Some(fails) => format!("{why}; nothing can be stored now: {}", escaped(fails)),
        None => why.to_owned(),
    }
}

/// The messages that are shown so far. A broadcast, or a message to a group, is one message with
/// several deliveries.
struct Found {
    /// The number of further messages that may be shown.
    left: u64,
    shown: usize,
    /// The places of messages with several deliveries among the shown messages.
    several: HashMap<String, usize>,
    /// The earliest time of further deliveries of these.
    oldest: Option<u64>,
}

/// The place of a delivery's message among the shown messages.
enum Place {
    New,
    Known(usize),
    BeyondLimit,
}

impl Found {
    fn new(limit: u64) -> Self {
        Self { left: limit, shown: 0, several: HashMap::new(), oldest: None }
    }

    /// Adds a delivery, the newest first.
    fn add(&mut self, row: &MessageRow<'_>) -> Place {
        let several = match row.to_everyone {
            // A sender may use an id again.
            true => Some((format!("{} {} {}", row.from, row.send_id, row.taken), row.taken)),
            false => Several::of_row(row)
                .map(|it| (it.key, row.taken.saturating_sub(Several::WITHIN_MS))),
        };
        if let Some((key, _)) = &several
            && let Some(place) = self.several.get(key)
        {
            return Place::Known(*place);
        }
        if self.left == 0 {
            return Place::BeyondLimit;
        }
        if let Some((key, since)) = several {
            self.several.insert(key, self.shown);
            self.oldest = Some(self.oldest.map_or(since, |oldest| oldest.min(since)));
        }
        self.left -= 1;
        self.shown += 1;
        Place::New
    }

    /// Whether rows after one of this time may be shown, of further messages or of known ones with
    /// several deliveries.
    fn may_grow(&self, taken: u64) -> bool {
        self.left > 0 || self.oldest.is_some_and(|oldest| taken >= oldest)
    }
}

/// A message as the table shows it.
struct Message {
    taken: u64,
    id: String,
    recipients: Recipients,
    text: String,
}

impl Message {
    fn of(row: &MessageRow<'_>) -> Self {
        let (id, text) = (short_id(&row.id), beginning_of_text(row));
        Self { taken: row.taken, id, recipients: Recipients::of(row), text }
    }

    fn cells(self) -> Vec<String> {
        let Self { taken, id, recipients, text } = self;
        vec![moment::short(taken), id, recipients.route(), recipients.states(), text]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_table_says_why() {
        assert_eq!(empty(true, None), NO_MATCH);
        assert_eq!(empty(false, None), NOTHING_STORED);
        let full = "no stored message matches; nothing can be stored now: full\\u{1b}";
        assert_eq!(empty(true, Some("full\u{1b}")), full);
    }
}
