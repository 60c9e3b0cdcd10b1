//! The operator's mailbox, as the commands of a person see it.

use super::{
    context::context,
    conversation::Conversation,
    failure::Failure,
    identity::Identity,
    join::join,
    messages::{SCHEMA, each_row, route, short_id, whole_text},
    moment,
    print::{Colour, Out, counted, eprint_line},
    read::with_content,
    request::{call, call_with, operators_only, parse},
};
use client::{Client, home::HomeOptions};
use platform::tty::{Standard, is_terminal};
use protocol::{
    name::OPERATOR,
    relay::{InboxRequest, MessageRow, Page, RequestName, Status, TakeRequest, WaitsFor},
    text::escaped_text,
};

/// The most messages that one request takes. The data of a request has at most 2,048 bytes.
const TAKEN_MAX: usize = 40;

/// Whether a client is an operator, and so has the mailbox.
pub(super) fn is_operator(client: &Client) -> bool {
    client.name() == OPERATOR
}

/// Joins as an operator, for a command that reads the mailbox. Refuses agents and guests.
pub(super) fn join_operator(options: &HomeOptions, command: &str) -> Result<Client, Failure> {
    Identity::of_process(&context(options)?)?.check_is_person()?;
    let client = join(options)?;
    if is_operator(&client) { Ok(client) } else { Err(operators_only(command)) }
}

/// Prints a line for a person at a terminal if messages wait in the mailbox of a client that is an
/// operator. A failure is ignored, since the command has done its work.
pub(super) fn remind(client: &Client) {
    if !is_operator(client) || !is_terminal(Standard::Error) {
        return;
    }
    let Ok(json) = call(client, RequestName::Status, None) else { return };
    let Ok(status) = parse::<Status<'_>>(RequestName::Status, &json) else { return };
    if status.mailbox > 0 {
        eprint_line(waiting(status.mailbox));
    }
}

fn waiting(count: u64) -> String {
    let verb = if count == 1 { "waits" } else { "wait" };
    format!("{} {verb} for you: run `agent-relay inbox`", counted(count, "message"))
}

/// Prints the messages in the mailbox, and then acknowledges them. A message that was printed and
/// not acknowledged stays.
pub(super) fn take_all(client: &Client, out: &mut Out, json: bool) -> Result<(), Failure> {
    let (mut printed, mut ids) = (0, Vec::new());
    let request = |Page { cursor, limit }| InboxRequest { of: None, cursor, limit };
    each_row(client, RequestName::Inbox, usize::MAX, request, |text, row| {
        if is_being_stored(row) {
            return Ok(true);
        }
        match json {
            true => out.json_text(SCHEMA, text)?,
            false => with_content(client, row.clone(), |row| show(out, row))?,
        }
        printed += 1;
        ids.push(row.id.to_string());
        if ids.len() == TAKEN_MAX {
            take(client, std::mem::take(&mut ids))?;
        }
        Ok(true)
    })?;
    if !ids.is_empty() {
        take(client, ids)?;
    }
    match printed {
        0 if !json => out.line("nothing waits for you"),
        _ => Ok(()),
    }
}

/// Acknowledges messages in the mailbox.
pub(super) fn take(client: &Client, ids: Vec<String>) -> Result<(), Failure> {
    call_with(client, RequestName::Take, &TakeRequest { ids }).map(drop)
}

/// Whether a message is not accepted yet.
pub(super) fn is_being_stored(row: &MessageRow<'_>) -> bool {
    row.delivery.waits_for.as_deref() == Some(WaitsFor::Store.as_str())
}

/// Prints a whole message of the mailbox.
fn show(out: &mut Out, row: &MessageRow<'_>) -> Result<(), Failure> {
    let (time, id) = (moment::short(row.taken), short_id(&row.id));
    let words = Conversation::of_row(row).words();
    let heading = out.paint(Colour::Bold, format!("{time} {id} {}{words}", route(row)));
    out.line(heading)?;
    out.line(row.payload.map(|payload| escaped_text(&whole_text(payload))).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_about_waiting_messages_has_their_number() {
        assert_eq!(waiting(1), "1 message waits for you: run `agent-relay inbox`");
        assert_eq!(waiting(2), "2 messages wait for you: run `agent-relay inbox`");
    }
}
