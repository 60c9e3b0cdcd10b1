//! The words by which messages are found.

use super::row::signed;
use protocol::{deliver::Shared, payload::MessagePayload, typed};
use rusqlite::{Connection, params};

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
