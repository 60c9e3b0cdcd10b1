//! `read`: show a whole message.

use super::{
    conversation::{Conversation, Several},
    failure::{DONE, Failure},
    frames::framed,
    identity::is_in_agent,
    join::join,
    messages::{self, Recipients, each_row, whole_text},
    print::{Colour, Out},
    request::{call_with, parse},
    wrapped::take,
};
use argh::{ArgsInfo, FromArgs};
use client::{Client, home::HomeOptions};
use protocol::{
    deliver::{Proof, Shared},
    relay::{HistoryRequest, MessageRequest, MessageRow, Messages, Page, Piece, RequestName},
    text::escaped_text,
};
use terminal::frame::{Head, Origin};

/// Show a whole message.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "read",
    help_triggers("--help"),
    example = "agent-relay read 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    note = "`agent-relay inbox` and `history` show the ids.",
    note = "In an agent whose CLI has hooks, a message that waits for the agent is delivered by this, except with --json."
)]
pub(super) struct Read {
    /// print one JSON object
    #[argh(switch)]
    json: bool,

    /// the id of the message or of its SEND, or the eight characters that an agent is shown
    #[argh(positional, arg_name = "id")]
    id: String,
}

impl Read {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        // In an agent, a message that waits for it is taken from its wrapper.
        let taken = if self.json { None } else { take(Some(&self.id)) };
        match taken.map(|taken| (taken.text, taken.why)) {
            Some((Some(text), _)) => {
                Out::new().line(text)?;
                return Ok(DONE);
            }
            Some((None, Some(why))) => {
                return Err(Failure::failed(format!("the message is not read here: {why}")));
            }
            _ => {}
        }
        let client = join(options)?;
        let request =
            MessageRequest { id: self.id.clone(), limit: Some(1), ..MessageRequest::default() };
        let json = call_with(&client, RequestName::Message, &request)?;
        let found: Messages<MessageRow<'_>> = parse(RequestName::Message, &json)?;
        let Some(row) = found.messages.into_iter().next() else {
            return Err(Failure::failed("the daemon knows the message and does not show it"));
        };
        with_content(&client, row, |row| self.show(&client, row))
    }

    fn show(&self, client: &Client, row: &MessageRow<'_>) -> Result<i32, Failure> {
        let mut out = Out::new();
        if self.json {
            out.json(messages::SCHEMA, row)?;
            return Ok(DONE);
        }
        let text = row.payload.map(whole_text).unwrap_or_default();
        if is_in_agent() {
            let thread = Conversation::of_row(row).thread;
            out.line(framed(Origin::Delivery(head(row, thread.as_deref())), &text)?)?;
            return Ok(DONE);
        }
        let recipients = recipients(client, row)?;
        let words = Conversation::of_row(row).words();
        let heading = out.paint(Colour::Bold, format!("{}{words}", recipients.route()));
        out.line(heading)?;
        if let Some(each) = recipients.each() {
            let each = out.paint(Colour::Faint, each);
            out.line(each)?;
        }
        out.line(escaped_text(&text))?;
        Ok(DONE)
    }
}

/// Returns the recipients of a row's message, as far as this client may see them.
fn recipients(client: &Client, row: &MessageRow<'_>) -> Result<Recipients, Failure> {
    if !row.to_everyone {
        return match Several::of_row(row) {
            Some(several) => recipients_of_several(client, row, &several),
            None => Ok(Recipients::of(row)),
        };
    }
    let mut found: Option<Recipients> = None;
    let request = |Page { cursor, limit }| MessageRequest {
        id: row.send_id.to_string(),
        cursor,
        limit,
        offset: None,
    };
    // Senders choose the ids of SENDs. An old message is no longer found by its SEND's id.
    let asked = each_row(client, RequestName::Message, usize::MAX, request, |_, other| {
        if other.from == row.from && other.send_id == row.send_id && other.taken == row.taken {
            match &mut found {
                Some(found) => found.add_older(other),
                None => found = Some(Recipients::of(other)),
            }
        }
        Ok(true)
    });
    asked.or_else(|failure| if failure.is_refused() { Ok(()) } else { Err(failure) })?;
    Ok(found.unwrap_or_else(|| Recipients::of(row)))
}

/// Returns the recipients of the message that a row is part of. They are found in the sender's
/// history, since each of its SENDs has a different id.
fn recipients_of_several(
    client: &Client,
    row: &MessageRow<'_>,
    several: &Several,
) -> Result<Recipients, Failure> {
    let mut found: Option<(Recipients, usize)> = None;
    let request = |Page { cursor, limit }| HistoryRequest {
        of: Some(row.from.to_string()),
        cursor,
        limit,
        ..HistoryRequest::default()
    };
    let since = row.taken.saturating_sub(Several::WITHIN_MS);
    let asked = each_row(client, RequestName::History, usize::MAX, request, |_, other| {
        if Several::of_row(other).is_some_and(|it| it.key == several.key) {
            match &mut found {
                Some((found, parts)) => {
                    found.add_older(other);
                    *parts += 1;
                }
                None => found = Some((Recipients::of(other), 1)),
            }
        }
        let is_whole = found.as_ref().is_some_and(|(_, parts)| *parts >= several.size);
        Ok(!is_whole && other.taken >= since)
    });
    asked.or_else(|failure| if failure.is_refused() { Ok(()) } else { Err(failure) })?;
    Ok(found.map_or_else(|| Recipients::of(row), |(found, _)| found))
}

/// Returns the data for the first line of a message's frame.
fn head<'a>(row: &'a MessageRow<'_>, thread: Option<&'a str>) -> Head<'a> {
    let auth =
        Some(row.auth).filter(|auth| !matches!(auth, Proof::Key | Proof::Token | Proof::Claim));
    let topic = row.topic.as_deref();
    Head { from: &row.from, id: &row.id, auth, topic, thread, ..Head::default() }
}

/// Calls `show` with a row that has the message's content, which is read if the row is truncated.
pub(super) fn with_content<T>(
    client: &Client,
    row: MessageRow<'_>,
    show: impl FnOnce(&MessageRow<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if !row.truncated {
        return show(&row);
    }
    let object = read_pieces(client, &row.id)?;
    let shared: Shared<'_> = parse(RequestName::Message, &object)?;
    let (payload, payload_meta) = (Some(shared.payload), shared.payload_meta);
    show(&MessageRow { payload, payload_meta, truncated: false, ..row })
}

/// Reads a message that is too long for one answer, piece by piece.
fn read_pieces(client: &Client, id: &str) -> Result<String, Failure> {
    let (mut text, mut offset) = (String::new(), Some(0));
    while offset.is_some() {
        let request = MessageRequest { id: id.to_owned(), offset, ..MessageRequest::default() };
        let json = call_with(client, RequestName::Message, &request)?;
        let piece: Piece<'_> = parse(RequestName::Message, &json)?;
        text.push_str(&piece.text);
        offset = piece.next_offset.filter(|next| *next == text.len());
    }
    Ok(text)
}
