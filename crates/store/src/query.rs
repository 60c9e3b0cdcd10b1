//! Queries of open and ended deliveries. Lists go through deliveries that are not in the history
//! yet; the others, and all ids, are found by indices.

use super::{
    error::StoreError,
    index::name_key,
    row::{self, number, signed},
};
use protocol::{
    code::NackCode,
    deliver::{Proof, Shared},
    name::Name,
    record::{DeliveryRow, Ending, Filter, MessageRecord, QueryResult},
};
use rusqlite::{Connection, params};
use std::ops::RangeInclusive;
use uuid::Uuid;

/// The most deliveries found by one id, and the most bytes of these deliveries.
const SAME_ID_MAX: usize = 4_096;
const SAME_ID_BYTES_MAX: usize = 16 << 20;

/// The bytes of a delivery's row in an answer, besides its message.
const ROW_BYTES: usize = 512;

/// The content shown for a message that is damaged.
const DAMAGED: &[u8] = br#""from":"@relay","payload":{"kind":"damaged","body":""}}"#;

/// Deliveries that were found, with their messages, the newest first.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) result: QueryResult,
    bytes: usize,
}

impl Found {
    /// Adds deliveries that are older than those before, up to the limits of an answer. Adds
    /// nothing if it fails.
    pub(super) fn add(
        &mut self,
        connection: &Connection,
        mut numbers: Vec<u64>,
        limit: usize,
        bytes_max: usize,
    ) -> Result<(), StoreError> {
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        let (mut new, mut bytes, mut more) = (Vec::new(), self.bytes, false);
        let old = &mut self.result.rows;
        for number in numbers {
            if old.len() + new.len() == limit {
                more = true;
                break;
            }
            let last = new.last().or_else(|| old.last()).map(|row: &DeliveryRow| &row.message);
            let Some(row) = read_row(connection, number, last)? else { continue };
            bytes += ROW_BYTES + row.message.shared.len();
            if bytes > bytes_max && old.len() + new.len() > 0 {
                more = true;
                break;
            }
            new.push(row);
        }
        old.extend(new);
        (self.result.more, self.bytes) = (more, bytes);
        Ok(())
    }
}

/// The digits of the beginning of an id.
const PREFIX_DIGITS: RangeInclusive<usize> = 4..=31;

/// Finds the deliveries with this id, or else those of the SENDs with this id, or else those whose
/// id, or whose SEND's id, begins with it. Of the ones by a SEND's id or a beginning, only those
/// that the viewer has sent or gets, if there is one.
pub(super) fn by_id(
    connection: &Connection,
    id: &str,
    viewer: Option<u64>,
) -> Result<QueryResult, StoreError> {
    let mut numbers = match Uuid::parse_str(id) {
        Ok(id) => of_deliver(connection, id)?,
        Err(_) => Vec::new(),
    };
    if numbers.is_empty() {
        numbers = of_send(connection, id, viewer)?;
    }
    if numbers.is_empty() {
        numbers = of_prefix(connection, id, viewer)?;
    }
    let mut found = Found::default();
    found.add(connection, numbers, SAME_ID_MAX, SAME_ID_BYTES_MAX)?;
    Ok(found.result)
}

/// The highest number of a delivery.
pub(super) fn last(connection: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT max(coalesce((SELECT max(number) FROM delivery), 0),
                          coalesce((SELECT max(number) FROM history), 0))";
    row::read_single(connection, sql, |row| number(row, 0))
}

/// Whether at most `max` messages have these words.
pub(super) fn is_rare(
    connection: &Connection,
    phrases: &str,
    max: u32,
) -> Result<bool, StoreError> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 LIMIT ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row(params![phrases, max + 1], |row| row.get::<_, u32>(0))? <= max)
}

/// The statement that finds a delivery by its id. The index of ids has the deliveries up to number
/// `listed`, and may have others with the same key.
pub(super) const OF_DELIVER: &str = "
    SELECT number FROM history WHERE id = ?1
    UNION ALL
    SELECT number FROM lookup CROSS JOIN delivery ON number = lookup.delivery
    WHERE key = ?1 AND id = ?1
    UNION ALL
    SELECT number FROM delivery
    WHERE number > (SELECT listed FROM meta WHERE one = 1) AND id = ?1";

/// The statement that finds the deliveries of the SENDs with an id.
pub(super) const OF_SEND: &str = "
    SELECT history.number FROM history CROSS JOIN message ON message.number = history.message
    WHERE history.send_id = ?1 AND (?3 IS NULL OR recipient = ?3 OR sender = ?3)
    UNION ALL
    SELECT delivery.number FROM lookup CROSS JOIN delivery ON delivery.number = lookup.delivery
    CROSS JOIN message ON message.number = delivery.message
    WHERE key = CAST(?1 AS BLOB) AND send_id = ?1
        AND (?3 IS NULL OR recipient = ?3 OR sender = ?3)
    UNION ALL
    SELECT delivery.number FROM delivery CROSS JOIN message ON message.number = delivery.message
    WHERE delivery.number > (SELECT listed FROM meta WHERE one = 1) AND send_id = ?1
        AND (?3 IS NULL OR recipient = ?3 OR sender = ?3)
    ORDER BY 1 DESC LIMIT ?2";

fn of_deliver(connection: &Connection, id: Uuid) -> Result<Vec<u64>, StoreError> {
    numbers(connection, OF_DELIVER, params![id.as_bytes()])
}

fn of_send(connection: &Connection, id: &str, viewer: Option<u64>) -> Result<Vec<u64>, StoreError> {
    numbers(connection, OF_SEND, params![id, SAME_ID_MAX as u32 + 1, viewer.map(signed)])
}

/// The statement that finds the deliveries whose ids are from ?1 to ?2, or whose SENDs' ids are
/// from ?3 to ?4.
pub(super) const OF_PREFIX: &str = "
    SELECT history.number FROM history CROSS JOIN message ON message.number = history.message
    WHERE id BETWEEN ?1 AND ?2 AND (?6 IS NULL OR recipient = ?6 OR sender = ?6)
    UNION
    SELECT history.number FROM history CROSS JOIN message ON message.number = history.message
    WHERE history.send_id BETWEEN ?3 AND ?4 AND (?6 IS NULL OR recipient = ?6 OR sender = ?6)
    UNION
    SELECT delivery.number FROM lookup CROSS JOIN delivery ON delivery.number = lookup.delivery
    CROSS JOIN message ON message.number = delivery.message
    WHERE key BETWEEN ?1 AND ?2 AND id BETWEEN ?1 AND ?2
        AND (?6 IS NULL OR recipient = ?6 OR sender = ?6)
    UNION
    SELECT delivery.number FROM lookup CROSS JOIN delivery ON delivery.number = lookup.delivery
    CROSS JOIN message ON message.number = delivery.message
    WHERE key BETWEEN CAST(?3 AS BLOB) AND CAST(?4 AS BLOB) AND send_id BETWEEN ?3 AND ?4
        AND (?6 IS NULL OR recipient = ?6 OR sender = ?6)
    UNION
    SELECT delivery.number FROM delivery CROSS JOIN message ON message.number = delivery.message
    WHERE delivery.number > (SELECT listed FROM meta WHERE one = 1)
        AND (id BETWEEN ?1 AND ?2 OR send_id BETWEEN ?3 AND ?4)
        AND (?6 IS NULL OR recipient = ?6 OR sender = ?6)
    ORDER BY 1 DESC LIMIT ?5";

/// Returns nothing for a text that is no beginning of an id.
fn of_prefix(
    connection: &Connection,
    id: &str,
    viewer: Option<u64>,
) -> Result<Vec<u64>, StoreError> {
    let digits = id.replace('-', "").to_ascii_lowercase();
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_hex || !PREFIX_DIGITS.contains(&digits.len()) {
        return Ok(Vec::new());
    }
    let filled = |digit: &str| {
        let filled = digits.clone() + &digit.repeat(32 - digits.len());
        Uuid::parse_str(&filled).unwrap_or_default()
    };
    let (first, last) = (filled("0"), filled("f"));
    let last_send = format!("{id}{}", char::MAX);
    let limit = SAME_ID_MAX as u32 + 1;
    let viewer = viewer.map(signed);
    let values = params![first.as_bytes(), last.as_bytes(), id, last_send, limit, viewer];
    numbers(connection, OF_PREFIX, values)
}

/// A part of a list: the deliveries with numbers from `from` to before `before`.
#[derive(Debug)]
pub(super) struct Window<'a> {
    pub(super) filter: &'a Filter,
    pub(super) from: u64,
    pub(super) before: u64,
}

impl Window<'_> {
    /// Finds the newest deliveries of the list in this window, in no order.
    pub(super) fn find(
        &self,
        connection: &Connection,
        limit: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let mut numbers = self.outside_history(connection, limit)?;
        numbers.extend(self.in_history(connection, limit)?);
        Ok(numbers)
    }

    /// Finds deliveries that are not in the history yet. Their messages are read, since the sender
    /// and the topic of these deliveries are stored nowhere else.
    fn outside_history(
        &self,
        connection: &Connection,
        limit: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let filter = self.filter;
        let sql = format!(
            "SELECT delivery.number, name, shared FROM delivery
             CROSS JOIN message ON message.number = delivery.message
             WHERE delivery.number >= ?4 AND delivery.number < ?5{}
             ORDER BY delivery.number DESC",
            conditions(filter, 6)
        );
        let [from, before] = self.bounds();
        let [first, last] = self.messages(connection, "delivery")?;
        let mut statement = connection.prepare_cached(&sql)?;
        let words = filter.search.as_deref().map(phrases);
        let viewer = filter.viewer.map(signed);
        let values = params![words, first, last, from, before, viewer];
        let mut rows = match filter.viewer {
            Some(_) => statement.query(values)?,
            None => statement.query(&values[..5])?,
        };
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

    fn in_history(&self, connection: &Connection, limit: usize) -> Result<Vec<u64>, StoreError> {
        let filter = self.filter;
        let name = |name: &Option<Name>| name.as_ref().map(|name| name_key(name.as_str()));
        let [from, before] = self.bounds();
        let [first, last] = self.messages(connection, "history")?;
        let values = params![
            filter.search.as_deref().map(phrases),
            first,
            last,
            from,
            before,
            filter.topic,
            name(&filter.of),
            name(&filter.with),
            signed(limit as u64),
            filter.viewer.map(signed)
        ];
        let count = values.len() - usize::from(filter.viewer.is_none());
        numbers(connection, &select_history(filter), &values[..count])
    }

    fn bounds(&self) -> [i64; 2] {
        [self.from, self.before].map(|number| i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// The first and the last message of the window's deliveries, between which to search for
    /// words.
    fn messages(&self, connection: &Connection, table: &str) -> Result<[i64; 2], StoreError> {
        if self.filter.search.is_none() || self.from == 0 {
            return Ok([0, i64::MAX]);
        }
        let sql = format!(
            "SELECT coalesce(min(message), 0), coalesce(max(message), 0) FROM {table}
             WHERE number >= ? AND number < ?"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        Ok(statement.query_row(self.bounds(), |row| Ok([row.get(0)?, row.get(1)?]))?)
    }
}

/// The statement that finds deliveries in the history.
fn select_history(filter: &Filter) -> String {
    let sides: &[&str] = match (&filter.of, &filter.with) {
        (None, None) => &["1"],
        (Some(_), Some(_)) => {
            &["sender_key = ?7 AND recipient_key = ?8", "sender_key = ?8 AND recipient_key = ?7"]
        }
        _ => &["sender_key = coalesce(?7, ?8)", "recipient_key = coalesce(?7, ?8)"],
    };
    let mut rest = conditions(filter, 10);
    if filter.topic.is_some() {
        rest.push_str(" AND topic = ?6");
    }
    // The words' messages are few beside the deliveries of a window.
    let index = if filter.search.is_some() { "INDEXED BY history_message" } else { "" };
    // Sender and recipient have an index each, so each condition is a query of its own.
    let selects = sides.iter().map(|side| {
        format!(
            "SELECT * FROM (SELECT number FROM history {index}
             WHERE {side} AND number >= ?4 AND number < ?5{rest} ORDER BY number DESC LIMIT ?9)"
        )
    });
    selects.collect::<Vec<_>>().join(" UNION ") + " ORDER BY 1 DESC LIMIT ?9"
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

/// The conditions shared by open and ended deliveries. `viewer` is the number of the parameter with
/// the agent that asks.
fn conditions(filter: &Filter, viewer: u8) -> String {
    let own = format!(
        " AND (recipient = ?{viewer}
            OR (SELECT sender FROM message AS its WHERE its.number = message) = ?{viewer})"
    );
    let own = if filter.viewer.is_some() { &*own } else { "" };
    let dead = if filter.dead { " AND ending = 2" } else { "" };
    let found = " AND message IN
        (SELECT rowid FROM words WHERE words MATCH ?1 AND rowid BETWEEN ?2 AND ?3)";
    let search = if filter.search.is_some() { found } else { "" };
    [dead, search, own].concat()
}

/// The search expression for some words. Each word is a phrase of its own, whatever characters it
/// has, and all must occur.
pub(super) fn phrases(words: &str) -> String {
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
    let is_whole = row::is_whole(row, &delivery)?;
    let message = match last {
        Some(last) if last.number == delivery.message => last.clone(),
        _ => message(connection, delivery.message)?,
    };
    let message = if is_whole { message } else { damaged(delivery.message) };
    Ok(Some(DeliveryRow { delivery, message, ended }))
}

fn message(connection: &Connection, number: u64) -> Result<MessageRecord, StoreError> {
    let message = row::find_message(connection, number)?;
    Ok(message.unwrap_or_else(|| damaged(number)))
}

/// Whether a row is shown as damaged, unless the damage made it a dead letter.
pub(super) fn is_damaged(row: &DeliveryRow) -> bool {
    let is_known = matches!(row.ended, Some((Ending::Dead { code: NackCode::StoreFailed, .. }, _)));
    *row.message.shared == *DAMAGED && !is_known
}

/// The text that replaces a damaged message.
fn damaged(number: u64) -> MessageRecord {
    MessageRecord {
        number,
        sender: 0,
        session: "".into(),
        proof: Proof::Guest,
        send_id: "".into(),
        to_everyone: false,
        unix_ms: 0,
        shared: DAMAGED.into(),
    }
}
