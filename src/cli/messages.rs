//! What the commands have in common that show messages: pages of them, tables, and what was said.

use super::{
    Failure,
    ask::{ask, read},
    print::{compact, duration, foreign_line},
};
use crate::{
    client::Client,
    protocol::{
        payload::Spoken,
        relay::{HistoryRequest, MessageRow, Messages, Page, Way},
    },
};
use platform::clock;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// Rows that are asked for at once.
const ROWS: usize = 200;

/// The longest piece of what was said in a table.
const TEXT_CHARS: usize = 48;

/// So much of an id stands in the frame in which an agent gets a message.
const FRAME_ID_CHARS: usize = 8;

/// Among so many of the newest messages one is found by that.
const FRAMES_MAX: usize = 1000;

/// The schema of a message in JSON.
pub(super) const SCHEMA: &str = "message";

/// Shows `each` at most `limit` rows of the answer to a request, page by page, with their JSON.
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
        let data = to_raw_value(&request(page)).expect("a request is JSON");
        let json = ask(client, body, Some(&data))?;
        let found: Messages<&RawValue> = read(body, &json)?;
        for row in found.messages {
            each(row.get(), &read(body, row.get())?)?;
            left = left.saturating_sub(1);
        }
        if found.next_cursor.is_none() || found.next_cursor == cursor {
            return Ok(());
        }
        cursor = found.next_cursor;
    }
    Ok(())
}

/// A message's id where all that is given is what its frame shows of it; else what is given.
pub(super) fn id_in_full(client: &Client, given: &str) -> Result<String, Failure> {
    let is_a_frames = |character: char| matches!(character, '0'..='9' | 'a'..='f');
    if given.len() != FRAME_ID_CHARS || !given.chars().all(is_a_frames) {
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
            "{} messages have an id that begins with {given}: give all of one, as \
             `agent-relay history` shows it",
            ids.len()
        ))),
    }
}

/// Who said it to whom.
pub(super) fn people(row: &MessageRow<'_>) -> String {
    let topic = row.topic.as_deref().map(foreign_line);
    let topic = topic.map(|topic| format!(" on {topic}")).unwrap_or_default();
    format!("{} -> {}{topic}", foreign_line(&row.from), foreign_line(&row.to))
}

/// The beginning of what was said, on one line.
pub(super) fn beginning(row: &MessageRow<'_>) -> String {
    let text = match row.payload {
        Some(payload) => spoken(payload),
        None => "(long: `agent-relay read` shows it)".to_owned(),
    };
    let line = foreign_line(&text);
    match line.char_indices().nth(TEXT_CHARS) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

/// What was said, as far as it is a text.
pub(super) fn spoken(payload: &RawValue) -> String {
    match serde_json::from_str::<Spoken<'_>>(payload.get()) {
        Ok(spoken) if !spoken.body.is_empty() || spoken.data.is_none() => spoken.body.into_owned(),
        _ => compact(payload),
    }
}

/// How far it is, in few words.
pub(super) fn state(way: &Way<'_>) -> String {
    let what = way.waits_for.as_deref().or(way.code.as_deref());
    match what {
        Some(what) => format!("{} ({})", foreign_line(&way.state), foreign_line(what)),
        None => foreign_line(&way.state),
    }
}

/// How long ago that was.
pub(super) fn ago(unix_ms: u64) -> String {
    format!("{} ago", duration(clock::unix_ms().saturating_sub(unix_ms)))
}

/// How long it is until then.
pub(super) fn ahead(unix_ms: u64) -> String {
    duration(unix_ms.saturating_sub(clock::unix_ms()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_cut_to_a_harmless_line() {
        let row = |payload: &str| {
            let json = format!(
                r#"{{"id":"i","send_id":"s","from":"Ann","auth":"claim","to":"Bob","topic":"t","seq":1,
                "taken":1,"durability":"disk","state":"dead","attempts":1,"failures":0,"ended":2,
                "code":"EXPIRED","why":"it ran out","payload":{payload}}}"#
            );
            let row: MessageRow<'_> = serde_json::from_str(&json).unwrap();
            assert_eq!(people(&row), "Ann -> Bob on t");
            assert_eq!(state(&row.way), "dead (EXPIRED)");
            beginning(&row)
        };
        assert_eq!(row(r#"{"body":"a\u001b[31m\nb"}"#), "a\\u{1b}[31m\\u{a}b");
        assert_eq!(row(r#"{"body":"","data":[1]}"#), r#"{"body":"","data":[1]}"#);
        assert_eq!(row(&format!(r#"{{"body":"{}"}}"#, "é".repeat(49))), "é".repeat(48) + "…");
    }
}
