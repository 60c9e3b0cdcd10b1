//! Queries of open and ended deliveries, which are found by indices, or by their ids.

use super::{
    error::StoreError,
    row::{self, IdForm, NUMBER_MAX, number, signed},
    words::{MARK_EXPRESSION, Words},
};
use protocol::{
    code::NackCode,
    deliver::Proof,
    name::Name,
    record::{DeliveryRow, Ending, Filter, MessageRecord, NamedAgent, QueryResult},
};
use rusqlite::{Connection, Statement, params};
use std::ops::Range;
use uuid::Uuid;

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

/// Finds deliveries whose ids are in a range, and have their first digits in `digits`.
pub(super) fn of_delivers(
    connection: &Connection,
    ids: &IdForm,
    [first, last]: [Uuid; 2],
    digits: Range<u64>,
    viewer: Option<u64>,
) -> Result<Vec<u64>, StoreError> {
    let (highest, own) = (self::last(connection)?, viewer.map(signed));
    let mut found = Vec::new();
    let mut statement = connection.prepare_cached(&of_deliver("number = ?4"))?;
    for digits in digits {
        let lowest = u64::from(ids.key.number(digits as u32));
        for number in (lowest..=highest).step_by(1 << 32) {
            let values = params![first.as_bytes(), last.as_bytes(), own, signed(number)];
            found.extend(read_numbers(&mut statement, values)?);
        }
    }
    Ok(found)
}

/// Finds deliveries of an older version whose ids are in a range.
pub(super) fn of_old_delivers(
    connection: &Connection,
    ids: &IdForm,
    [first, last]: [Uuid; 2],
    viewer: Option<u64>,
    limit: usize,
) -> Result<Vec<u64>, StoreError> {
    if ids.old == 0 {
        return Ok(Vec::new());
    }
    let sql = format!("{} LIMIT {limit}", of_deliver(&ids.which_are_old()));
    numbers(connection, &sql, params![first.as_bytes(), last.as_bytes(), viewer.map(signed)])
}

/// The statement that finds the deliveries with ids from ?1 to ?2 that ?3 has sent or gets.
pub(super) fn of_deliver(which: &str) -> String {
    format!(
        "SELECT number FROM delivery WHERE {which} AND id BETWEEN ?1 AND ?2 AND (?3 IS NULL
         OR recipient = ?3 OR (SELECT sender FROM message AS its WHERE its.number = message) = ?3)"
    )
}

/// The statement that finds the deliveries of SENDs with ids from ?1 to ?2 that ?3 has sent or
/// gets, among the messages from ?4 to before ?5.
pub(super) const OF_SENDS: &str = "
    SELECT delivery.number FROM message CROSS JOIN delivery ON delivery.message = message.number
    WHERE message.number >= ?4 AND message.number < ?5 AND send_id BETWEEN ?1 AND ?2
        AND (?3 IS NULL OR recipient = ?3 OR sender = ?3)
    ORDER BY message.number DESC LIMIT ?6";

/// Finds the newest deliveries of SENDs with ids in a range.
pub(super) fn of_sends(
    connection: &Connection,
    [first, last]: [&str; 2],
    viewer: Option<u64>,
    among: Range<u64>,
    limit: usize,
) -> Result<Vec<u64>, StoreError> {
    let [from, before] = [among.start, among.end].map(signed);
    let values = params![first, last, viewer.map(signed), from, before, limit as u32];
    numbers(connection, OF_SENDS, values)
}

/// The highest number of a delivery.
pub(super) fn last(connection: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(max(number), 0) FROM delivery";
    row::read_single(connection, sql, |row| Ok(number(row, 0)?.min(NUMBER_MAX)))
}

/// Words that a list is searched for.
#[derive(Debug)]
pub(super) struct Search {
    words: Words,
    /// The last message whose text is indexed, and the last message.
    indexed: u64,
    last: u64,
}

impl Search {
    /// Returns `None` for a text without a word.
    pub(super) fn new(connection: &Connection, text: &str) -> Result<Option<Self>, StoreError> {
        let Some(words) = Words::parse(text) else { return Ok(None) };
        let sql = "SELECT indexed, message FROM meta";
        row::read_single(connection, sql, |row| {
            Ok(Some(Self { words, indexed: number(row, 0)?, last: number(row, 1)? }))
        })
    }

    /// Whether few messages have to be read, or looked up in the index, to find all.
    pub(super) fn is_rare(&self, connection: &Connection, max: u32) -> Result<bool, StoreError> {
        let Some(expression) = &self.words.expression else { return Ok(false) };
        if self.last - self.last.min(self.indexed) > u64::from(max) {
            return Ok(false);
        }
        let sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 LIMIT ?2)";
        let mut statement = connection.prepare_cached(sql)?;
        let expression = format!("{expression} OR {MARK_EXPRESSION}");
        Ok(statement.query_row(params![expression, max + 1], |row| row.get::<_, u32>(0))? <= max)
    }

    /// The conditions under which messages have the words: first those that the index finds, then
    /// those whose texts are too long for the index.
    fn conditions(&self) -> Vec<String> {
        const READ: &str =
            " AND has_words((SELECT shared FROM message AS its WHERE its.number = message), ?12)";
        if self.words.expression.is_none() {
            return vec![READ.to_owned()];
        }
        let by_index = |expression: &str, rest: &str| {
            format!(
                " AND message <= ?11 AND message IN (SELECT rowid FROM words
                 WHERE words MATCH {expression} AND rowid BETWEEN ?2 AND ?3){rest}"
            )
        };
        let rest = if self.words.are_pieces { "" } else { READ };
        let marked = by_index(&format!("'{MARK_EXPRESSION}'"), READ);
        let mut conditions = vec![by_index("?1", rest), marked];
        if self.indexed < self.last {
            conditions.push(format!(" AND message > ?11{READ}"));
        }
        conditions
    }
}

/// A part of a list: the deliveries with numbers from `from` to before `before`.
#[derive(Debug)]
pub(super) struct Window<'a> {
    pub(super) filter: &'a Filter,
    pub(super) search: Option<&'a Search>,
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
        let names = |agent: &Option<NamedAgent>| -> Vec<_> {
            let names = agent.iter().flat_map(NamedAgent::names);
            let names: Vec<_> = names.map(|(name, of)| (Some(name.clone()), of)).collect();
            if names.is_empty() { vec![(None, None)] } else { names }
        };
        let messages = self.messages(connection)?;
        let mut found = Vec::new();
        // An agent has few earlier names, and mostly none.
        for of in names(&self.filter.of) {
            for with in names(&self.filter.with) {
                let agents = [of.clone(), with];
                found.extend(self.find_between(connection, agents, messages, limit)?);
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.dedup();
        found.truncate(limit);
        Ok(found)
    }

    /// Finds the newest deliveries of agents under one of their names each. With a number, only
    /// those of the agent that has it.
    fn find_between(
        &self,
        connection: &Connection,
        [of, with]: [(Option<Name>, Option<u64>); 2],
        [first, last]: [i64; 2],
        limit: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let filter = self.filter;
        let name = |name: &Option<Name>| name.as_ref().map(|name| name.as_str().to_owned());
        let [from, before] = self.bounds();
        let values = params![
            self.search.and_then(|search| search.words.expression.as_deref()),
            first,
            last,
            from,
            before,
            filter.topic,
            name(&of.0),
            name(&with.0),
            signed(limit as u64),
            filter.viewer.map(signed),
            self.search.map(|search| signed(search.indexed)),
            self.search.map(|search| &search.words.all),
            of.1.map(signed),
            with.1.map(signed)
        ];
        let viewers = [filter.viewer, of.1, with.1].map(|viewer| viewer.is_some());
        let mut statement = connection.prepare_cached(&select(filter, viewers, self.search))?;
        let count = statement.parameter_count();
        read_numbers(&mut statement, &values[..count])
    }

    fn bounds(&self) -> [i64; 2] {
        [self.from, self.before].map(|number| i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// The first and the last message of the window's deliveries, between which to search for
    /// words.
    fn messages(&self, connection: &Connection) -> Result<[i64; 2], StoreError> {
        if self.search.is_none() || self.from == 0 {
            return Ok([0, i64::MAX]);
        }
        let sql = "SELECT coalesce(min(message), 0), coalesce(max(message), 0) FROM delivery
            WHERE number >= ? AND number < ?";
        let mut statement = connection.prepare_cached(sql)?;
        Ok(statement.query_row(self.bounds(), |row| Ok([row.get(0)?, row.get(1)?]))?)
    }
}

/// The statement that finds the deliveries of a list. Only those of the agents with the numbers
/// ?10, ?13 and ?14, if these are given.
pub(super) fn select(filter: &Filter, numbers: [bool; 3], search: Option<&Search>) -> String {
    let sides: &[&str] = match (&filter.of, &filter.with) {
        (None, None) => &["1"],
        (Some(_), Some(_)) => &["sender_name = ?7 AND name = ?8", "sender_name = ?8 AND name = ?7"],
        _ => &["sender_name = coalesce(?7, ?8)", "name = coalesce(?7, ?8)"],
    };
    let rest = conditions(filter, numbers);
    let found = search.map_or_else(|| vec![String::new()], Search::conditions);
    // Sender and recipient have an index each, so each condition is a query of its own. So is a
    // search by the index, whose messages are few, compared with the deliveries of a window.
    let mut selects = Vec::new();
    for side in sides {
        for found in &found {
            let index = if found.contains("MATCH") { "INDEXED BY delivery_message" } else { "" };
            selects.push(format!(
                "SELECT * FROM (SELECT number FROM delivery {index} WHERE {side}
                 AND number >= ?4 AND number < ?5{rest}{found} ORDER BY number DESC LIMIT ?9)"
            ));
        }
    }
    selects.join(" UNION ") + " ORDER BY 1 DESC LIMIT ?9"
}

fn conditions(filter: &Filter, numbers: [bool; 3]) -> String {
    let of_agent = |place: &str| {
        format!(
            " AND (recipient = {place}
             OR (SELECT sender FROM message AS its WHERE its.number = message) = {place})"
        )
    };
    let conditions = [
        (filter.dead, " AND ending = 2".to_owned()),
        (filter.topic.is_some(), " AND topic = ?6".to_owned()),
    ];
    let of_agents = numbers.into_iter().zip(["?10", "?13", "?14"].map(of_agent));
    let all = conditions.into_iter().chain(of_agents);
    all.filter(|(applies, _)| *applies).map(|(_, condition)| condition).collect()
}

fn numbers(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<u64>, StoreError> {
    read_numbers(&mut *connection.prepare_cached(sql)?, values)
}

fn read_numbers(
    statement: &mut Statement<'_>,
    values: impl rusqlite::Params,
) -> Result<Vec<u64>, StoreError> {
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
    let sql = format!("SELECT {} FROM delivery WHERE number = ?", row::DELIVERY);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([signed(delivery)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (delivery, ended) = (row::read_delivery(row)?, row::read_ending(row)?);
    let message = match last {
        Some(last) if last.number == delivery.message => last.clone(),
        _ => message(connection, delivery.message)?,
    };
    let is_whole = row::is_whole(row, &delivery, Some(row::message_checksum(&message)))?;
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
