//! The keys and words by which ended deliveries are found.

use super::{
    error::StoreError,
    row::{self, signed},
};
use crate::protocol::{deliver::Shared, payload::MessagePayload, typed};
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

/// The text of a message, unless it is damaged or its payload is of another kind.
fn body(shared: &[u8]) -> Option<String> {
    let payload = Shared::read(shared)?.payload.get();
    let payload: MessagePayload<'_> = typed::read(payload).ok()?;
    Some(payload.body.into_owned())
}

/// Moves a delivery to the history if it is over and not there yet.
pub(super) fn move_to_history(connection: &Connection, delivery: u64) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT message, name, send_id, shared FROM delivery
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
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO history
             SELECT {}, ?2, ?3, ?4, ?5 FROM delivery WHERE number = ?1",
            row::DELIVERY
        ))?
        .execute(params![signed(delivery), name_key(from), name_key(to), topic, send_id])?;
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
    use crate::protocol::deliver;

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
