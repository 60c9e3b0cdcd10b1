//! The keys and words by which ended deliveries are found.

use super::{
    error::StoreError,
    row::{self, signed},
};
use protocol::{Moment, deliver::Shared, payload::MessagePayload, typed};
use rusqlite::{Connection, params};

/// The key of a name. Names that differ only in case have the same key.
pub(super) fn name_key(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// Adds the words of a message's body to the index.
pub(super) fn index_words(
    connection: &Connection,
    number: u64,
    shared: &[u8],
) -> rusqlite::Result<()> {
    let Some(body) = body(shared) else { return Ok(()) };
    connection
        .prepare_cached("INSERT OR REPLACE INTO words (rowid, body) VALUES (?, ?)")?
        .execute(params![signed(number), body])
        .map(drop)
}

/// Adds the ids of deliveries with numbers above `after` and up to `last` to the index of ids.
pub(super) fn list_ids(connection: &Connection, after: u64, last: u64) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO lookup
        SELECT id, number FROM delivery WHERE number > ?1 AND number <= ?2
        UNION ALL
        SELECT CAST(send_id AS BLOB), delivery.number FROM delivery
        CROSS JOIN message ON message.number = delivery.message
        WHERE delivery.number > ?1 AND delivery.number <= ?2";
    connection.prepare_cached(sql)?.execute([signed(after), signed(last)]).map(drop)
}

/// Adds the ids of a delivery that is stored again, if the index has passed its number.
pub(super) fn list_if_late(connection: &Connection, delivery: u64) -> rusqlite::Result<()> {
    let late = "SELECT ? <= (SELECT listed FROM meta WHERE one = 1)";
    let mut statement = connection.prepare_cached(late)?;
    if statement.query_row([signed(delivery)], |row| row.get(0))? {
        list_ids(connection, delivery.saturating_sub(1), delivery)?;
    }
    Ok(())
}

/// The text of a message, unless it is damaged or its payload is of another kind.
fn body(shared: &[u8]) -> Option<String> {
    let payload = Shared::read(shared)?.payload.get();
    let payload: MessagePayload<'_> = typed::read(payload).ok()?;
    Some(payload.body.into_owned())
}

/// The bytes that a row of the history is charged with, besides its share of the message.
const ROW_BYTES: i64 = 300;

/// The principal that a sender's rows are charged to: its name, or all guests together.
fn holder(sender_key: &str) -> &str {
    const GUESTS: &str = "@guest";
    if sender_key.starts_with(GUESTS) { GUESTS } else { sender_key }
}

/// Moves a delivery to the history at this moment, if it is over and not there yet.
pub(super) fn move_to_history(
    connection: &Connection,
    delivery: u64,
    now: Moment,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT message, name, send_id, shared, hot + cold FROM delivery
         LEFT JOIN message ON message.number = delivery.message
         WHERE delivery.number = ? AND ending <> 0",
    )?;
    let mut rows = statement.query([signed(delivery)])?;
    let Some(row) = rows.next()? else { return Ok(()) };
    let message = row::integer(row, 0)?;
    let to = row::text(row, 1)?;
    let send_id = row::optional_text(row, 2)?.unwrap_or_default();
    let shared = Shared::read(row::optional_blob(row, 3)?.unwrap_or_default());
    let from = shared.as_ref().map_or("", |shared| &*shared.from);
    let topic = shared.as_ref().and_then(|shared| shared.topic.as_deref());
    connection
        .prepare_cached("DELETE FROM history WHERE number = ?")?
        .execute([signed(delivery)])?;
    let sender_key = name_key(from);
    let body_bytes = row::optional_blob(row, 3)?.map_or(0, <[u8]>::len) as i64;
    let sharers = row::optional_integer(row, 4)?.unwrap_or(1).max(1);
    connection
        .prepare_cached(&format!(
            "INSERT INTO history ({0}, sender_key, recipient_key, topic, send_id, moved, holder, bytes)
             SELECT {0}, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM delivery WHERE number = ?1",
            row::DELIVERY
        ))?
        .execute(params![
            signed(delivery),
            sender_key,
            name_key(to),
            topic,
            send_id,
            signed(now.0),
            holder(&sender_key),
            ROW_BYTES + body_bytes / sharers,
        ])?;
    connection
        .prepare_cached("DELETE FROM delivery WHERE number = ?")?
        .execute([signed(delivery)])?;
    connection
        .prepare_cached("UPDATE message SET hot = hot - 1, cold = cold + 1 WHERE number = ?")?
        .execute([message])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::deliver;

    #[test]
    fn body_is_read_from_the_shared_part() {
        let read = |payload| {
            let mut shared = Vec::new();
            deliver::append_shared(&mut shared, "Ann", Some("t"), payload, Some("{}"));
            body(&shared)
        };
        assert_eq!(read(r#"{"kind":"message","body":"caf\u00e9"}"#).as_deref(), Some("café"));
        assert_eq!(read(r#"{"body":7}"#), None);
        assert_eq!(body(b"\xff{"), None);
    }
}
