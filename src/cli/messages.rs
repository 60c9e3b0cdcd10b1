//! What the commands have in common that show messages: pages of them, tables, and what was said.

use super::{
    Failure,
    ask::{ask, read},
    print::{compact, duration, foreign_line},
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
use serde_json::value::{RawValue, to_raw_value};
use std::fmt;

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
    match serde_json::from_str::<MessagePayload<'_>>(payload.get()) {
        Ok(spoken) if !spoken.body.is_empty() || spoken.data.is_none() => spoken.body.into_owned(),
        _ => compact(payload),
    }
}

/// How far a delivery is, in words. Every command that shows a state shows this one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// `waiting`, `delivered`, `injected`, `confirmed`, `acknowledged`, `dead`, `over`.
    pub(super) state: String,
    /// One word more: for what it waits, why it is dead, what is known beyond its ACK.
    detail: Option<String>,
    /// A sentence about that, with what to do.
    pub(super) why: Option<String>,
}

impl Standing {
    pub(super) fn of(row: &MessageRow<'_>) -> Self {
        let way = &row.way;
        let reported = way.reported.as_ref().filter(|reported| !reported.is_waiting());
        let detail = match &*way.state {
            "acknowledged" => reported.map(|reported| foreign_line(&reported.state)),
            _ => way.waits_for.as_deref().or(way.code.as_deref()).map(foreign_line),
        };
        Self { state: foreign_line(&way.state), detail, why: why(row) }
    }

    /// For a column of a table: `waiting (agent)`.
    pub(super) fn short(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{} ({detail})", self.state),
            None => self.state.clone(),
        }
    }
}

/// In full: `waiting: a line is half typed`, `dead (EXPIRED): its time to live ran out`.
impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            // The reason says for what.
            Some(why) if self.state == "waiting" => write!(f, "waiting: {why}"),
            Some(why) => write!(f, "{}: {why}", self.short()),
            None => f.write_str(&self.short()),
        }
    }
}

fn why(row: &MessageRow<'_>) -> Option<String> {
    let (way, to) = (&row.way, foreign_line(&row.to));
    if let Some(why) = &way.why {
        return Some(foreign_line(why));
    }
    Some(match (&*way.state, way.waits_for.as_deref()) {
        ("waiting", Some("recipient")) => format!("until {to} is here"),
        ("waiting", Some("store")) => "until it is stored".to_owned(),
        ("waiting", Some("turn")) => "others go before it".to_owned(),
        ("waiting", Some("window")) => format!("until {to} acknowledges others"),
        ("waiting", Some("agent")) => format!("{to} has it, and has not typed it yet"),
        ("waiting", Some("rest")) => {
            let until = way.until.map(ahead).unwrap_or_default();
            format!("{to} gave it back, and gets it again in {until}")
        }
        ("delivered", _) => format!("handed to {to}, who has not acknowledged it"),
        ("injected", _) => format!("typed into {to}, who has not acknowledged it"),
        ("confirmed", _) => format!("{to} is seen to have it, and has not acknowledged it"),
        _ => return None,
    })
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
    fn standing_says_the_state_and_its_reason() {
        let standing = |way: &str| {
            let json = format!(
                r#"{{"id":"i","send_id":"s","from":"Ann","auth":"claim","to":"Bob","seq":1,"taken":1,
                "durability":"disk","attempts":1,"failures":0,{way}}}"#
            );
            let standing = Standing::of(&serde_json::from_str(&json).unwrap());
            (standing.short(), standing.to_string())
        };
        let typed = r#""reported":{"state":"confirmed","at":1}"#;
        let why = r#""why":"a line is half typed: send it off""#;
        for (way, short, long) in [
            (
                r#""state":"waiting","waits_for":"recipient""#,
                "waiting (recipient)",
                "waiting: until Bob is here",
            ),
            (r#""state":"waiting","waits_for":"later""#, "waiting (later)", "waiting (later)"),
            (
                r#""state":"waiting","waits_for":"agent""#,
                "waiting (agent)",
                "waiting: Bob has it, and has not typed it yet",
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
            assert_eq!(standing(way), (short.to_owned(), long.to_owned()), "{way}");
        }
    }

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
            let standing = Standing::of(&row);
            assert_eq!(standing.short(), "dead (EXPIRED)");
            assert_eq!(standing.to_string(), "dead (EXPIRED): it ran out");
            beginning(&row)
        };
        assert_eq!(row(r#"{"body":"a\u001b[31m\nb"}"#), "a\\u{1b}[31m\\u{a}b");
        assert_eq!(row(r#"{"body":"","data":[1]}"#), r#"{"body":"","data":[1]}"#);
        assert_eq!(row(&format!(r#"{{"body":"{}"}}"#, "é".repeat(49))), "é".repeat(48) + "…");
    }
}
