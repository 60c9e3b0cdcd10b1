//! Queries of open and ended deliveries. Deliveries that are not in the history yet are found by a
//! scan, the others by the history's indices.

use super::{
    error::StoreError,
    index::name_key,
    row::{self, number, signed},
};
use crate::protocol::{
    deliver::{Proof, Shared},
    name::Name,
};
use crate::record::{DeliveryRow, Filter, MessageRecord, Query, QueryResult};
use rusqlite::{Connection, params};
use uuid::Uuid;

/// The most deliveries found by one id, and the most bytes of these deliveries.
const SAME_ID_MAX: usize = 4_096;
const SAME_ID_BYTES_MAX: usize = 16 << 20;

/// The bytes of a delivery's row in an answer, besides its message.
const ROW_BYTES: usize = 512;

/// The content shown for a message that is damaged.
const DAMAGED: &[u8] = br#""from":"@relay","payload":{"kind":"damaged","body":""}}"#;

/// Answers a query.
pub(super) fn find(connection: &Connection, query: &Query) -> Result<QueryResult, StoreError> {
    match query {
        Query::Id(id) => {
            let mut numbers = match Uuid::parse_str(id) {
                Ok(id) => of_deliver(connection, id)?,
                Err(_) => Vec::new(),
            };
            if numbers.is_empty() {
                numbers = of_send(connection, id)?;
            }
            rows(connection, numbers, SAME_ID_MAX, SAME_ID_BYTES_MAX)
        }
        Query::List(Filter { search: Some(words), .. }) if phrases(words).is_empty() => {
            Ok(QueryResult::default())
        }
        Query::List(filter) => {
            let limit = filter.limit.max(1);
            let mut numbers = outside_history(connection, filter, limit + 1)?;
            numbers.extend(in_history(connection, filter, limit + 1)?);
            rows(connection, numbers, limit, filter.bytes_max)
        }
    }
}

fn of_deliver(connection: &Connection, id: Uuid) -> Result<Vec<u64>, StoreError> {
    let sql = "SELECT number FROM history WHERE id = ?1
               UNION ALL SELECT number FROM delivery WHERE id = ?1";
    numbers(connection, sql, params![id.as_bytes()])
}

fn of_send(connection: &Connection, id: &str) -> Result<Vec<u64>, StoreError> {
    let sql = "SELECT number FROM history WHERE send_id = ?1
               UNION ALL
               SELECT delivery.number FROM delivery
               CROSS JOIN message ON message.number = delivery.message WHERE send_id = ?1
               ORDER BY 1 DESC LIMIT ?2";
    numbers(connection, sql, params![id, SAME_ID_MAX as u32 + 1])
}

/// Finds deliveries that are not in the history yet. Their messages are read, since the sender and
/// the topic of these deliveries are stored nowhere else.
fn outside_history(
    connection: &Connection,
    filter: &Filter,
    limit: usize,
) -> Result<Vec<u64>, StoreError> {
    let mut sql = "SELECT delivery.number, name, shared FROM delivery
                   CROSS JOIN message ON message.number = delivery.message
                   WHERE delivery.number < ?2"
        .to_owned();
    sql.push_str(&conditions(filter));
    sql.push_str(" ORDER BY delivery.number DESC");
    let mut statement = connection.prepare_cached(&sql)?;
    let words = filter.search.as_deref().map(phrases);
    let mut rows = statement.query(params![words, before(filter)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()?
        && found.len() < limit
    {
        if is_wanted(filter, row::text(row, 1)?, row::blob(row, 2)?) {
            found.push(number(row, 0)?);
        }
    }
    Ok(found)
}

fn is_wanted(filter: &Filter, to: &str, shared: &[u8]) -> bool {
    if filter.of.is_none() && filter.with.is_none() && filter.topic.is_none() {
        return true;
    }
    let Some(shared) = Shared::read(shared) else { return false };
    let between = |one: &Option<Name>, other: &Option<Name>| {
        one.as_ref().is_none_or(|name| name.matches(&shared.from))
            && other.as_ref().is_none_or(|name| name.matches(to))
    };
    (between(&filter.of, &filter.with) || between(&filter.with, &filter.of))
        && (filter.topic.is_none() || filter.topic.as_deref() == shared.topic.as_deref())
}

fn in_history(
    connection: &Connection,
    filter: &Filter,
    limit: usize,
) -> Result<Vec<u64>, StoreError> {
    let (one, other) = (filter.of.as_ref(), filter.with.as_ref());
    let sides: &[&str] = match (one, other) {
        (None, None) => &["1"],
        (Some(_), Some(_)) => {
            &["sender_key = ?4 AND recipient_key = ?5", "sender_key = ?5 AND recipient_key = ?4"]
        }
        _ => &["sender_key = coalesce(?4, ?5)", "recipient_key = coalesce(?4, ?5)"],
    };
    let mut rest = conditions(filter);
    if filter.topic.is_some() {
        rest.push_str(" AND topic = ?3");
    }
    // Sender and recipient have an index each, so each condition is a query of its own.
    let selects = sides.iter().map(|side| {
        format!(
            "SELECT * FROM (SELECT number FROM history WHERE {side} AND number < ?2{rest}
             ORDER BY number DESC LIMIT ?6)"
        )
    });
    let sql = selects.collect::<Vec<_>>().join(" UNION ") + " ORDER BY 1 DESC LIMIT ?6";
    let name = |name: Option<&Name>| name.map(|name| name_key(name.as_str()));
    let values = params![
        filter.search.as_deref().map(phrases),
        before(filter),
        filter.topic,
        name(one),
        name(other),
        signed(limit as u64)
    ];
    numbers(connection, &sql, values)
}

/// The conditions shared by open and ended deliveries.
fn conditions(filter: &Filter) -> String {
    let dead = if filter.dead { " AND ending = 2" } else { "" };
    let found = " AND message IN (SELECT rowid FROM words WHERE words MATCH ?1)";
    let search = if filter.search.is_some() { found } else { "" };
    [dead, search].concat()
}

fn before(filter: &Filter) -> i64 {
    filter.before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX))
}

/// The search expression for some words. Each word is a phrase of its own, whatever characters it
/// has, and all must occur.
fn phrases(words: &str) -> String {
    let phrases = words.split(|c: char| c.is_whitespace() || c.is_control());
    let phrases = phrases.filter(|word| word.contains(char::is_alphanumeric));
    let phrases: Vec<_> =
        phrases.map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    phrases.join(" ")
}

fn numbers(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<u64>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut numbers = Vec::new();
    while let Some(row) = rows.next()? {
        numbers.push(number(row, 0)?);
    }
    Ok(numbers)
}

/// Reads deliveries with their messages, the newest first, up to the limits.
fn rows(
    connection: &Connection,
    mut numbers: Vec<u64>,
    limit: usize,
    bytes_max: usize,
) -> Result<QueryResult, StoreError> {
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    let mut found = QueryResult { rows: Vec::new(), more: numbers.len() > limit };
    let mut bytes = 0;
    for number in numbers.into_iter().take(limit) {
        let last = found.rows.last().map(|row: &DeliveryRow| &row.message);
        let Some(row) = read_row(connection, number, last)? else { continue };
        bytes += ROW_BYTES + row.message.shared.len();
        if bytes > bytes_max && !found.rows.is_empty() {
            found.more = true;
            break;
        }
        found.rows.push(row);
    }
    Ok(found)
}

/// Reads a delivery with its message. The last row's message is reused if it is the same.
fn read_row(
    connection: &Connection,
    delivery: u64,
    last: Option<&MessageRecord>,
) -> Result<Option<DeliveryRow>, StoreError> {
    let sql = format!(
        "SELECT {0} FROM delivery WHERE number = ?1
         UNION ALL SELECT {0} FROM history WHERE number = ?1",
        row::DELIVERY
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([signed(delivery)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (delivery, ended) = (row::read_delivery(row)?, row::read_ending(row)?);
    let message = match last {
        Some(last) if last.number == delivery.message => last.clone(),
        _ => message(connection, delivery.message)?,
    };
    Ok(Some(DeliveryRow { delivery, message, ended }))
}

fn message(connection: &Connection, number: u64) -> Result<MessageRecord, StoreError> {
    let message = row::find_message(connection, number)?;
    Ok(message.unwrap_or_else(|| MessageRecord {
        number,
        sender: 0,
        session: "".into(),
        proof: Proof::Guest,
        send_id: "".into(),
        to_everyone: false,
        unix_ms: 0,
        shared: DAMAGED.into(),
    }))
}
