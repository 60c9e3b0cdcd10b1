//! Messages as the commands show them: pages, columns of tables, and states.

use super::{
    conversation::Conversation,
    failure::Failure,
    print::{compact, counted},
    request::{call_with, parse},
    table::Column,
};
use client::Client;
use platform::clock;
use protocol::{
    calendar::duration,
    name::OPERATOR,
    payload::MessagePayload,
    relay::{DeliveryState, MessageRow, Messages, Page, RequestName, WaitsFor},
    text::{self, escaped},
};
use serde::Serialize;
use serde_json::value::RawValue;
use std::fmt;

/// The number of rows in one request.
const ROWS: usize = 200;

/// The longest part of a text in a table. A terminal shows less.
const TEXT_CHARS: usize = 160;

/// The column with the beginnings of texts.
pub(super) const TEXT: Column = Column::cut("TEXT", 12);

/// The column with senders and recipients, as [`route`] shows them.
pub(super) const FROM_TO: Column = Column::cut("FROM, TO", 12);

/// The name of the schema of a message in JSON.
pub(super) const SCHEMA: &str = "message";

/// Calls `each` with the rows of the answer to a request and their JSON, page by page, until it
/// returns false. A page has at most `limit` rows.
pub(super) fn each_row<R: Serialize>(
    client: &Client,
    name: RequestName,
    limit: usize,
    request: impl Fn(Page) -> R,
    mut each: impl FnMut(&str, &MessageRow<'_>) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let mut cursor = None;
    loop {
        let page = Page { cursor: cursor.clone(), limit: Some(limit.min(ROWS)) };
        let json = call_with(client, name, &request(page))?;
        let found: Messages<&RawValue> = parse(name, &json)?;
        for row in found.messages {
            if !each(row.get(), &parse(name, row.get())?)? {
                return Ok(());
            }
        }
        if found.next_cursor.is_none() || found.next_cursor == cursor {
            return Ok(());
        }
        cursor = found.next_cursor;
    }
}

/// The beginning of an id as every command takes it, made safe to show.
pub(super) fn short_id(id: &str) -> String {
    escaped(&text::short_id(id))
}

/// The lines of a text that are shown while messages pass by.
const LINES_MAX: usize = 10;

/// The first lines of a text, with a note if there are more.
pub(super) fn first_lines(text: &str) -> String {
    match text.match_indices('\n').nth(LINES_MAX - 1) {
        None => text.to_owned(),
        Some((end, _)) => {
            let more = counted(text[end..].matches('\n').count() as u64, "more line");
            format!("{}\n    … {more} (--full)", &text[..end])
        }
    }
}

/// The sender, the recipient and the topic of a message.
pub(super) fn route(row: &MessageRow<'_>) -> String {
    Recipients::of(row).route()
}

/// The most recipients of a message that are named in its route.
const RECIPIENTS_NAMED: usize = 2;

/// The sender of a message, and its recipients, each with the state of its delivery.
#[derive(Debug)]
pub(super) struct Recipients {
    from: String,
    topic: Option<String>,
    /// The last recipient is the first one here.
    each: Vec<(String, String)>,
}

impl Recipients {
    /// The recipient of the newest of a message's rows.
    pub(super) fn of(row: &MessageRow<'_>) -> Self {
        let (from, topic) = (escaped(&row.from), row.topic.as_deref().map(escaped));
        let mut recipients = Self { from, topic, each: Vec::new() };
        recipients.add_older(row);
        recipients
    }

    /// Adds the recipient of a row that is older than those before.
    pub(super) fn add_older(&mut self, row: &MessageRow<'_>) {
        self.each.push((escaped(&row.to), DeliveryWords::of(row).short()));
    }

    /// The sender, the recipients and the topic: `Ann -> Bob, Eve +3 on build`.
    pub(super) fn route(&self) -> String {
        let names = self.each.iter().rev().take(RECIPIENTS_NAMED).map(|(name, _)| name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        let more = self.each.len().saturating_sub(RECIPIENTS_NAMED);
        let more = if more > 0 { format!(" +{more}") } else { String::new() };
        let topic = self.topic.as_ref().map(|topic| format!(" on {topic}")).unwrap_or_default();
        format!("{} -> {names}{more}{topic}", self.from)
    }

    /// The number of recipients in each state: `acknowledged` or `2 acknowledged, 1 dead (expired)`.
    pub(super) fn states(&self) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for (_, state) in self.each.iter().rev() {
            match counts.iter_mut().find(|(known, _)| known == state) {
                Some((_, count)) => *count += 1,
                None => counts.push((state, 1)),
            }
        }
        if let [(state, _)] = counts[..] {
            return state.to_owned();
        }
        let counts = counts.iter().map(|(state, count)| format!("{count} {state}"));
        counts.collect::<Vec<_>>().join(", ")
    }

    /// The state of each recipient's delivery: `Bob: acknowledged, Eve: waiting (agent)`. `None` if
    /// there is only one.
    pub(super) fn each(&self) -> Option<String> {
        let each = self.each.iter().rev().map(|(name, state)| format!("{name}: {state}"));
        (self.each.len() > 1).then(|| each.collect::<Vec<_>>().join(", "))
    }
}

/// The beginning of a message's text, on one line, after the mark of its conversation.
pub(super) fn beginning_of_text(row: &MessageRow<'_>) -> String {
    let text = match row.payload {
        Some(payload) => payload_text(payload),
        None => "(long: `agent-relay read` shows it)".to_owned(),
    };
    let line = escaped(&text.trim_end().replace(['\r', '\n', '\t'], " "));
    let line = Conversation::of_row(row).mark() + &line;
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

/// The text of a message's payload, and its data in a line below.
pub(super) fn whole_text(payload: &RawValue) -> String {
    let text = payload_text(payload);
    match serde_json::from_str::<MessagePayload<'_>>(payload.get()) {
        Ok(MessagePayload { body, data: Some(data), .. }) if !body.is_empty() => {
            format!("{text}\ndata: {}", compact(data))
        }
        _ => text,
    }
}

/// The state of a delivery in words, the same in every command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeliveryWords {
    /// The text of a [`DeliveryState`].
    pub(super) state: String,
    /// A word that qualifies the state: the obstacle, the reason of a dead message, or the state
    /// that its agent reported.
    detail: Option<String>,
    /// The reason for the state, with a remedy.
    pub(super) reason: Option<String>,
}

impl DeliveryWords {
    pub(super) fn of(row: &MessageRow<'_>) -> Self {
        let delivery = &row.delivery;
        let reported = delivery.reported.as_ref().filter(|reported| !reported.is_waiting());
        let detail = match DeliveryState::parse(&delivery.state) {
            Some(DeliveryState::Acknowledged) => reported.map(|reported| escaped(&reported.state)),
            _ => delivery.waits_for.as_deref().map(escaped).or_else(|| {
                // A code is a word for programs: `STORE_FAILED`.
                let code = delivery.code.as_deref().map(escaped)?;
                Some(code.to_lowercase().replace('_', " "))
            }),
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

/// Writes the whole state: `waiting: a line is half typed`, `dead (expired): its time to live ran
/// out`.
impl fmt::Display for DeliveryWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            // The reason repeats the detail.
            Some(reason) if self.state == DeliveryState::Waiting.as_str() => {
                write!(f, "waiting: {reason}")
            }
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
    let words = match DeliveryState::parse(&delivery.state)? {
        DeliveryState::Waiting => match WaitsFor::parse(delivery.waits_for.as_deref()?)? {
            WaitsFor::Recipient if row.to == OPERATOR => {
                "until it is taken with `agent-relay inbox --take`".to_owned()
            }
            WaitsFor::Recipient => format!("until {to} is here"),
            WaitsFor::Store => "until it is stored".to_owned(),
            WaitsFor::Turn => "until earlier messages are delivered".to_owned(),
            WaitsFor::Window => format!("until {to} acknowledges others"),
            WaitsFor::Agent => format!("the wrapper of {to} has not typed it yet"),
            WaitsFor::Rest => {
                let until = delivery.until.map(ahead).unwrap_or_default();
                format!("{to} returned it; it is redelivered in {until}")
            }
        },
        DeliveryState::Delivered => format!("handed to {to}, who has not acknowledged it"),
        DeliveryState::Injected => format!("typed into {to}, who has not acknowledged it"),
        DeliveryState::Confirmed => {
            format!("{to} shows that it has it, and has not acknowledged it")
        }
        DeliveryState::Acknowledged | DeliveryState::Dead | DeliveryState::Over => return None,
    };
    Some(words)
}

/// The time since a moment, in words.
pub(super) fn ago(unix_ms: u64) -> String {
    format!("{} ago", duration(clock::unix_ms().saturating_sub(unix_ms)))
}

/// The time until a moment, in words, rounded up.
pub(super) fn ahead(unix_ms: u64) -> String {
    let left = unix_ms.saturating_sub(clock::unix_ms());
    duration(left.next_multiple_of(if left > 3_600_000 { 60_000 } else { 1000 }))
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
            let state = DeliveryWords::of(&serde_json::from_str(&json).unwrap());
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
                "dead (expired)",
                "dead (expired): it ran out",
            ),
        ] {
            assert_eq!(state(delivery), (short.to_owned(), long.to_owned()), "{delivery}");
        }
    }

    #[test]
    fn recipients_are_counted_by_their_states() {
        let row = |to: &str, state: &str| {
            format!(
                r#"{{"id":"i","send_id":"s","from":"Ann","auth":"claim","to":"{to}","to_everyone":true,
                "topic":"t","seq":1,"taken":1,"durability":"disk","attempts":1,"failures":0,{state}}}"#
            )
        };
        let read = [
            row("Dan", r#""state":"acknowledged""#),
            row("Cid", r#""state":"dead","code":"EXPIRED""#),
            row("Bob", r#""state":"acknowledged""#),
        ];
        let read = read.each_ref().map(|row| serde_json::from_str(row).unwrap());
        let mut recipients = Recipients::of(&read[0]);
        let shown = |of: &Recipients| (of.route(), of.states(), of.each().is_some());
        let one = ("Ann -> Dan on t".to_owned(), "acknowledged".to_owned(), false);
        assert_eq!(shown(&recipients), one);
        recipients.add_older(&read[2]);
        let two = ("Ann -> Bob, Dan on t".to_owned(), "acknowledged".to_owned(), true);
        assert_eq!(shown(&recipients), two);
        let mut recipients = Recipients::of(&read[0]);
        read[1..].iter().for_each(|row| recipients.add_older(row));
        assert_eq!(recipients.route(), "Ann -> Bob, Cid +1 on t");
        assert_eq!(recipients.states(), "2 acknowledged, 1 dead (expired)");
        let each = "Bob: acknowledged, Cid: dead (expired), Dan: acknowledged";
        assert_eq!(recipients.each().as_deref(), Some(each));
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
            let state = DeliveryWords::of(&row);
            assert_eq!(state.short(), "dead (expired)");
            assert_eq!(state.to_string(), "dead (expired): it ran out");
            beginning_of_text(&row)
        };
        assert_eq!(row(r#"{"body":"a\u001b[31m\nb"}"#), "a\\u{1b}[31m b");
        assert_eq!(row(r#"{"body":"","data":[1]}"#), r#"{"body":"","data":[1]}"#);
        assert_eq!(row(&format!(r#"{{"body":"{}"}}"#, "é".repeat(161))), "é".repeat(160) + "…");
    }
}
