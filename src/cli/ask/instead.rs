//! An agent's actions instead of an answer to a question: it writes without naming the question, or
//! its turn ends.

use crate::cli::{
    conversation::Conversation,
    failure::Failure,
    messages::{beginning_of_text, each_row, short_id},
    print::eprint_line,
    read::with_content,
    request::{agent_row, call_with, parse},
};
use client::Client;
use platform::clock;
use protocol::{
    activity::Activity,
    relay::{HistoryRequest, MessageRequest, MessageRow, Messages, Page, RequestName},
    text::escaped,
};

/// How long after the end of a turn its answer may still come, in milliseconds.
const LATE_MS: u64 = 3000;

/// The number of rows in a page. Only the newest rows are examined.
const ROWS: usize = 20;

/// The facts that the person was told, each once.
#[derive(Debug, Default)]
pub(super) struct Instead {
    wrote: bool,
    rested: bool,
}

impl Instead {
    /// Whether there is nothing more to tell.
    pub(super) const fn is_told(&self) -> bool {
        self.wrote
    }

    /// Queries the asked agent's actions since the question with this id, and tells the person.
    pub(super) fn look(&mut self, client: &Client, question: &str) -> Result<(), Failure> {
        let id = question.to_owned();
        let request = MessageRequest { id, limit: Some(1), ..MessageRequest::default() };
        let json = call_with(client, RequestName::Message, &request)?;
        let found: Messages<MessageRow<'_>> = parse(RequestName::Message, &json)?;
        let Some(question) = found.messages.first() else { return Ok(()) };
        let to = escaped(&question.to);
        if let Some(written) = written_since(client, question)? {
            self.wrote = true;
            eprint_line(format_args!(
                "{to} wrote to you without naming the question: {written}; still waiting"
            ));
        } else if !self.rested && rests_since(client, question)? {
            self.rested = true;
            eprint_line(format_args!("{to} has ended its turn without an answer; still waiting"));
        }
        Ok(())
    }
}

/// Returns the asked agent's newest message to the asker that is not an answer, in words.
fn written_since(client: &Client, question: &MessageRow<'_>) -> Result<Option<String>, Failure> {
    let request = |Page { cursor, limit }| HistoryRequest {
        of: Some(question.from.to_string()),
        with: Some(question.to.to_string()),
        cursor,
        limit,
        ..HistoryRequest::default()
    };
    let mut written = None;
    each_row(client, RequestName::History, ROWS, request, |_, row| {
        if row.taken < question.taken || row.id == question.id {
            return Ok(false);
        }
        let is_to_asker = row.from == question.to && row.to == question.from && !row.to_everyone;
        if is_to_asker {
            with_content(client, row.clone(), |row| {
                if Conversation::of_row(row).reply_to.is_none() {
                    let text = beginning_of_text(row);
                    written = Some(format!("{text} ({})", short_id(&row.id)));
                }
                Ok(())
            })?;
        }
        Ok(written.is_none())
    })?;
    Ok(written)
}

/// Whether the asked agent has got the question, and its turn has ended since.
fn rests_since(client: &Client, question: &MessageRow<'_>) -> Result<bool, Failure> {
    let Some(given) = question.delivery.ended else { return Ok(false) };
    agent_row(client, &question.to, |row| {
        row.is_some_and(|row| {
            let is_idle = row.activity.as_deref().and_then(Activity::parse) == Some(Activity::Idle);
            let since = row.activity_since.unwrap_or(u64::MAX);
            is_idle && since >= given && since.saturating_add(LATE_MS) <= clock::unix_ms()
        })
    })
}
