//! The image that a daemon starts with, read from the file.

use super::{
    row::{self, number, signed},
    trouble::Trouble,
};
use crate::protocol::{Moment, Now, code::NackCode};
use crate::record::{
    Clock, DeadLetterRecord, Ending, Image, LastNumbers, MessageRecord, NoticeRecord,
    QuestionRecord,
};
use rusqlite::{Connection, Row, params};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// No clock stands there, and nothing was counted so far: beyond it, sums would overflow.
const MS_MAX: u64 = 1 << 48;
const NUMBER_MAX: u64 = 1 << 62;

/// What was read.
pub(super) struct Read {
    /// For the daemon.
    pub(super) image: Image,
    /// What was not as it had been written, if anything.
    pub(super) remarks: Vec<String>,
}

/// Reads everything that is open. What waits with a damaged message becomes a dead letter, a damaged answer
/// is dropped.
pub(super) fn read(
    connection: &mut Connection,
    dead_max: usize,
    now_unix_ms: u64,
) -> Result<Read, Trouble> {
    let mut image = open(connection)?;
    let buried = bury(connection, &mut image, now_unix_ms)?;
    let (answers, dropped) = answers(connection)?;
    image.notices = answers;
    image.dead_letters = dead(connection, dead_max)?;
    Ok(Read { image, remarks: [buried, dropped].into_iter().flatten().collect() })
}

/// Everything that is open, as it stands there.
pub(super) fn open(connection: &Connection) -> Result<Image, Trouble> {
    let (clock, last) = meta(connection)?;
    let mut image = Image { clock, last, ..Image::default() };
    let all = |table, columns| format!("SELECT {columns} FROM {table}");
    image.agents = table(connection, &all("agent", row::AGENT), row::agent, |it| it.number)?;
    image.sessions = table(connection, &all("session", row::SESSION), row::session, |it| it.agent)?;
    image.streams = table(connection, &all("stream", row::STREAM), row::stream, |it| it.number)?;
    image.dedup = table(connection, &all("double", row::DOUBLE), row::double, |it| it.message)?;
    let open = format!("SELECT {} FROM delivery WHERE ending = 0", row::DELIVERY);
    let open = table(connection, &open, |row| Ok(row::delivery(row)?.0), |it| it.number)?;
    image.deliveries = open;
    image.messages = messages(connection, &image)?;
    image.questions = questions(connection)?;
    Ok(image)
}

/// The clock, and the highest numbers.
pub(super) fn meta(connection: &Connection) -> Result<(Clock, LastNumbers), Trouble> {
    let sql = "SELECT monotonic, unix_ms, agent, stream, message, delivery FROM meta";
    one(connection, sql, |row| {
        let monotonic = Moment(number(row, 0)?);
        let last = LastNumbers {
            agent: number(row, 2)?,
            stream: number(row, 3)?,
            message: number(row, 4)?,
            delivery: number(row, 5)?,
        };
        let unix_ms = number(row, 1)?;
        let numbers = [last.agent, last.stream, last.message, last.delivery];
        if monotonic.0 > MS_MAX || unix_ms > MS_MAX || numbers.into_iter().any(|it| it > NUMBER_MAX)
        {
            return Err(Trouble::Damaged(
                "there is a time or a number in it that cannot be".into(),
            ));
        }
        Ok((Clock(Now { monotonic, unix_ms }), last))
    })
}

/// A row that is always there.
pub(super) fn one<T>(
    connection: &Connection,
    sql: &str,
    read: impl FnOnce(&Row<'_>) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    read(rows.next()?.ok_or_else(|| Trouble::Damaged("a row is missing in it".to_owned()))?)
}

/// All rows of a query, by number.
fn table<T>(
    connection: &Connection,
    sql: &str,
    read: impl Fn(&Row<'_>) -> Result<T, Trouble>,
    key: impl Fn(&T) -> u64,
) -> Result<BTreeMap<u64, T>, Trouble> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let record = read(row)?;
        let number = key(&record);
        if number > NUMBER_MAX / 2 {
            return Err(Trouble::Damaged("there is a number in it that cannot be".into()));
        }
        records.push((number, record));
    }
    Ok(records.into_iter().collect())
}

/// Those messages of open deliveries that are whole.
fn messages(
    connection: &Connection,
    image: &Image,
) -> Result<BTreeMap<u64, MessageRecord>, Trouble> {
    let wanted: BTreeSet<u64> = image.deliveries.values().map(|it| it.message).collect();
    let sql = format!("SELECT {} FROM message WHERE number = ?", row::MESSAGE);
    let mut statement = connection.prepare(&sql)?;
    let mut messages = Vec::with_capacity(wanted.len());
    for number in wanted {
        let mut rows = statement.query([signed(number)])?;
        if let Some(row) = rows.next()?
            && let Some(message) = row::message(row)?
        {
            messages.push((number, message));
        }
    }
    Ok(messages.into_iter().collect())
}

/// Ends deliveries without a message.
fn bury(
    connection: &mut Connection,
    image: &mut Image,
    unix_ms: u64,
) -> Result<Option<String>, Trouble> {
    let messages = &image.messages;
    let damaged = image.deliveries.extract_if(.., |_, it| !messages.contains_key(&it.message));
    let damaged: Vec<u64> = damaged.map(|(number, _)| number).collect();
    if damaged.is_empty() {
        return Ok(None);
    }
    let ending = Ending::Dead {
        code: NackCode::StoreFailed,
        why: "the message is damaged in the store".into(),
    };
    let (kind, code, why) = row::ending(&ending);
    let transaction = connection.transaction()?;
    for number in &damaged {
        transaction.execute(
            "UPDATE delivery SET ending = ?, ended_ms = ?, code = ?, why = ? WHERE number = ?",
            params![kind, signed(unix_ms), code, why, signed(*number)],
        )?;
    }
    transaction.commit()?;
    let count = damaged.len();
    Ok(Some(format!("{count} deliveries with damaged messages are dead letters now")))
}

/// What waits for senders, as far as it is whole. Whatever else stands there is taken out.
fn answers(
    connection: &mut Connection,
) -> Result<(BTreeMap<u64, NoticeRecord>, Option<String>), Trouble> {
    let transaction = connection.transaction()?;
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    {
        let mut statement = transaction.prepare(&format!("SELECT {} FROM answer", row::ANSWER))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            match row::answer(row)?.filter(|it| it.number <= NUMBER_MAX / 2) {
                Some(answer) => whole.push((answer.number, answer)),
                None => damaged.push(row.get::<_, i64>(0)?),
            }
        }
    }
    for number in &damaged {
        transaction.execute("DELETE FROM answer WHERE number = ?", [number])?;
    }
    transaction.commit()?;
    let count = damaged.len();
    let remark = format!("{count} damaged answers to senders that were away are dropped");
    Ok((whole.into_iter().collect(), (count > 0).then_some(remark)))
}

fn questions(connection: &Connection) -> Result<BTreeMap<Uuid, QuestionRecord>, Trouble> {
    let mut statement = connection.prepare(&format!("SELECT {} FROM question", row::QUESTION))?;
    let mut rows = statement.query([])?;
    let mut questions = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let question = row::question(row)?;
        questions.insert(question.delivery, question);
    }
    Ok(questions)
}

/// The last dead letters.
fn dead(
    connection: &Connection,
    dead_max: usize,
) -> Result<BTreeMap<u64, DeadLetterRecord>, Trouble> {
    let limit = i64::try_from(dead_max).unwrap_or(i64::MAX);
    let sql = "SELECT number, id, recipient FROM (
                   SELECT number, id, recipient FROM delivery WHERE ending = 2
                   UNION ALL
                   SELECT number, id, recipient FROM history WHERE ending = 2
               ) ORDER BY number DESC LIMIT ?";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([limit])?;
    let mut dead = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let id = row::blob(row, 1)?.try_into();
        let id = id.map_err(|_| Trouble::Damaged("there is an id of another length in it".into()));
        let record = DeadLetterRecord { id: Uuid::from_bytes(id?), to: number(row, 2)? };
        dead.insert(number(row, 0)?, record);
    }
    Ok(dead)
}
