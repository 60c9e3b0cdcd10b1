//! Messages as the commands show them: pages, columns of tables, and states.

use super::{
    escape::escaped,
    failure::Failure,
    print::{compact, duration},
    request::{call_with, parse},
};
use crate::{
    client::Client,
    protocol::{
        payload::MessagePayload,
        relay::{HistoryRequest, MessageRow, Messages, Page},
    },
};
use platform::clock;
use serde::Serialize;
use serde_json::value::RawValue;
use std::fmt;

/// The number of rows in one request.
const ROWS: usize = 200;

/// The longest part of a text in a table.
const TEXT_CHARS: usize = 48;

/// The length of the first part of an id, which agents see in message frames.
const FRAME_ID_CHARS: usize = 8;

/// The number of newest messages that are searched for an id with a given first part.
const FRAMES_MAX: usize = 1000;

/// The name of the schema of a message in JSON.
pub(super) const SCHEMA: &str = "message";

/// Calls `each` with at most `limit` rows of the answer to a request, page by page, and their JSON.
pub(super) fn each_row<R: Serialize>(
    client: &Client,
    body: &str,
    limit: usize,
    request: impl Fn(Page) -> R,
    mut each: impl FnMut(&str, &MessageRow<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut cursor, mut left) = (None, limit);
    while left > 0 {
        let page = Page { cursor: cursor.clone(), limit: Some(left.min(ROWS)) };
        let json = call_with(client, body, &request(page))?;
        let found: Messages<&RawValue> = parse(body, &json)?;
        for row in found.messages {
            each(row.get(), &parse(body, row.get())?)?;
            left = left.saturating_sub(1);
        }
        if found.next_cursor.is_none() || found.next_cursor == cursor {
            return Ok(());
        }
        cursor = found.next_cursor;
    }
    Ok(())
}

/// Completes the first part of an id, as agents see it. Other ids stay as they are.
pub(super) fn full_id(client: &Client, given: &str) -> Result<String, Failure> {
    let is_hex = |character: char| matches!(character, '0'..='9' | 'a'..='f');
    if given.len() != FRAME_ID_CHARS || !given.chars().all(is_hex) {
        return Ok(given.to_owned());
    }
    let request = |Page { cursor, limit }| HistoryRequest { cursor, limit, ..Default::default() };
    let mut found = Vec::new();
    each_row(client, "history", FRAMES_MAX, request, |_, row| {
        found.extend(row.id.starts_with(given).then(|| row.id.to_string()));
        Ok(())
    })?;
    match &*found {
        [] => Ok(given.to_owned()),
        [id] => Ok(id.clone()),
        ids => Err(Failure::failed(format!(
            "the ids of {} messages begin with {given}: give a whole id, as `agent-relay history` \
             shows it",
            ids.len()
        ))),
    }
}

/// The sender, the recipient and the topic of a message.
pub(super) fn route(row: &MessageRow<'_>) -> String {
    let topic = row.topic.as_deref().map(escaped);
    let topic = topic.map(|topic| format!(" on {topic}")).unwrap_or_default();
    format!("{} -> {}{topic}", escaped(&row.from), escaped(&row.to))
}

/// The beginning of a message's text, on one line.
pub(super) fn beginning_of_text(row: &MessageRow<'_>) -> String {
    let text = match row.payload {
        Some(payload) => payload_text(payload),
        None => "(long: `agent-relay read` shows it)".to_owned(),
    };
    let line = escaped(&text);
    match line.char_indices().nth(TEXT_CHARS) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

/// The text of a payload, or its JSON if it has none.
pub(super) fn payload_text(payload: &RawValue) -> String {
    match serde_json::from_str::<MessagePayload<'_>>(payload.get()) {
        Ok(message) if !message.body.is_empty() || message.data.is_none() => {
            message.body.into_owned()
        }
        _ => compact(payload),
    }
}

/// The state of a delivery in words, the same in every command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeliveryState {
    /// `waiting`, `delivered`, `injected`, `confirmed`, `acknowledged`, `dead`, `over`.
    pub(super) state: String,
    /// A word that qualifies the state: what the message waits for, why it is dead, or the state
    /// that its agent reported.
    detail: Option<String>,
    /// The reason for the state, with a remedy.
    pub(super) reason: Option<String>,
}

impl DeliveryState {
    pub(super) fn of(row: &MessageRow<'_>) -> Self {
        let delivery = &row.delivery;
        let reported = delivery.reported.as_ref().filter(|reported| !reported.is_waiting());
        let detail = match &*delivery.state {
            "acknowledged" => reported.map(|reported| escaped(&reported.state)),
            _ => delivery.waits_for.as_deref().or(delivery.code.as_deref()).map(escaped),
        };
        Self { state: escaped(&delivery.state), detail, reason: reason(row) }
    }

    /// The state for a column of a table: `waiting (agent)`.
    pub(super) fn short(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{} ({detail})", self.state),
            None => self.state.clone(),
        }
    }
}

/// Writes the whole state: `waiting: a line is half typed`, `dead (EXPIRED): its time to live ran
/// out`.
impl fmt::Display for DeliveryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            // The reason repeats the detail.
            Some(reason) if self.state == "waiting" => write!(f, "waiting: {reason}"),
            Some(reason) => write!(f, "{}: {reason}", self.short()),
            None => f.write_str(&self.short()),
        }
    }
}

/// The reason for the state of a delivery, from the daemon or the recipient.
fn reason(row: &MessageRow<'_>) -> Option<String> {
    let (delivery, to) = (&row.delivery, escaped(&row.to));
    if let Some(why) = &delivery.why {
        return Some(escaped(why));
    }
    Some(match (&*delivery.state, delivery.waits_for.as_deref()) {
        ("waiting", Some("recipient")) => format!("until {to} is here"),
        ("waiting", Some("store")) => "until it is stored".to_owned(),
        ("waiting", Some("turn")) => "until earlier messages are delivered".to_owned(),
        ("waiting", Some("window")) => format!("until {to} acknowledges others"),
        ("waiting", Some("agent")) => format!("the wrapper of {to} has not typed it yet"),
        ("waiting", Some("rest")) => {
            let until = delivery.until.map(ahead).unwrap_or_default();
            format!("{to} returned it; it is redelivered in {until}")
        }
        ("delivered", _) => format!("handed to {to}, who has not acknowledged it"),
        ("injected", _) => format!("typed into {to}, who has not acknowledged it"),
        ("confirmed", _) => format!("{to} shows that it has it, and has not acknowledged it"),
        _ => return None,
    })
}

/// The time since a moment, in words.
pub(super) fn ago(unix_ms: u64) -> String {
    format!("{} ago", duration(clock::unix_ms().saturating_sub(unix_ms)))
}

/// The time until a moment.
pub(super) fn ahead(unix_ms: u64) -> String {
    duration(unix_ms.saturating_sub(clock::unix_ms()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivery_state_shows_its_reason() {
        let state = |delivery: &str| {
            let json = format!(
                r#"{{"id":"i","send_id":"s","from":"Ann","auth":"claim","to":"Bob","seq":1,"taken":1,
                "durability":"disk","attempts":1,"failures":0,{delivery}}}"#
            );
            let state = DeliveryState::of(&serde_json::from_str(&json).unwrap());
            (state.short(), state.to_string())
        };
        let typed = r#""reported":{"state":"confirmed","at":1}"#;
        let why = r#""why":"a line is half typed: send it off""#;
        for (delivery, short, long) in [
            (
                r#""state":"waiting","waits_for":"recipient""#,
                "waiting (recipient)",
                "waiting: until Bob is here",
            ),
            (r#""state":"waiting","waits_for":"later""#, "waiting (later)", "waiting (later)"),
            (
                r#""state":"waiting","waits_for":"agent""#,
                "waiting (agent)",
                "waiting: the wrapper of Bob has not typed it yet",
            ),
            (
                &format!(r#""state":"waiting","waits_for":"agent",{why}"#),
                "waiting (agent)",
                "waiting: a line is half typed: send it off",
            ),
            (
                r#""state":"delivered""#,
                "delivered",
                "delivered: handed to Bob, who has not acknowledged it",
            ),
            (
                r#""state":"injected""#,
                "injected",
                "injected: typed into Bob, who has not acknowledged it",
            ),
            (r#""state":"acknowledged""#, "acknowledged", "acknowledged"),
            (
                &format!(r#""state":"acknowledged",{typed}"#),
                "acknowledged (confirmed)",
                "acknowledged (confirmed)",
            ),
            (
                r#""state":"dead","code":"EXPIRED","why":"it ran out""#,
                "dead (EXPIRED)",
                "dead (EXPIRED): it ran out",
            ),
        ] {
            assert_eq!(state(delivery), (short.to_owned(), long.to_owned()), "{delivery}");
        }
    }

    #[test]
    fn text_is_escaped_and_cut_to_one_line() {
        let row = |payload: &str| {
            let json = format!(
                r#"{{"id":"i","send_id":"s","from":"Ann","auth":"claim","to":"Bob","topic":"t","seq":1,
                "taken":1,"durability":"disk","state":"dead","attempts":1,"failures":0,"ended":2,
                "code":"EXPIRED","why":"it ran out","payload":{payload}}}"#
            );
            let row: MessageRow<'_> = serde_json::from_str(&json).unwrap();
            assert_eq!(route(&row), "Ann -> Bob on t");
            let state = DeliveryState::of(&row);
            assert_eq!(state.short(), "dead (EXPIRED)");
            assert_eq!(state.to_string(), "dead (EXPIRED): it ran out");
            beginning_of_text(&row)
        };
        assert_eq!(row(r#"{"body":"a\u001b[31m\nb"}"#), "a\\u{1b}[31m\\u{a}b");
        assert_eq!(row(r#"{"body":"","data":[1]}"#), r#"{"body":"","data":[1]}"#);
        assert_eq!(row(&format!(r#"{{"body":"{}"}}"#, "é".repeat(49))), "é".repeat(48) + "…");
    }
}
