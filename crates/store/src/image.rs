//! The image that a daemon starts with, read from the file.

use super::{
    error::StoreError,
    index,
    row::{self, NUMBER_MAX, Stored, signed},
};
use protocol::{
    code::NackCode,
    record::{
        AgentRecord, DeadLetterRecord, DedupRecord, Ending, Image, MessageRecord, NoticeRecord,
        QuestionRecord, SessionRecord, StreamRecord,
    },
};
use rusqlite::{Connection, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

/// An image and the damage that was repaired.
pub(super) struct Restored {
    /// The image.
    pub(super) image: Image,
    /// Sentences about rows that were damaged.
    pub(super) remarks: Vec<String>,
}

/// Reads the image. A delivery whose message is damaged becomes a dead letter, a damaged notice is
/// deleted.
pub(super) fn restore(
    connection: &mut Connection,
    dead_letters_max: usize,
    now_unix_ms: u64,
) -> Result<Restored, StoreError> {
    let (mut image, damaged) = read(connection)?;
    let lost_messages = end_damaged(connection, &mut image, damaged, now_unix_ms)?;
    let (notices, lost_notices) = restore_notices(connection)?;
    image.notices = notices;
    image.dead_letters = dead_letters(connection, dead_letters_max)?;
    Ok(Restored { image, remarks: [lost_messages, lost_notices].into_iter().flatten().collect() })
}

/// Reads all records except notices and dead letters, and the numbers of open deliveries that are
/// damaged. Repairs nothing.
pub(super) fn read(connection: &Connection) -> Result<(Image, Vec<u64>), StoreError> {
    let (clock, last) = row::find_meta(connection)?;
    let mut image = Image { clock, last, ..Image::default() };
    image.agents = table(connection, |agent: &AgentRecord| agent.number)?;
    image.sessions = table(connection, |session: &SessionRecord| session.agent)?;
    image.streams = table(connection, |stream: &StreamRecord| stream.number)?;
    image.dedup = table(connection, |entry: &DedupRecord| entry.message)?;
    let open = format!("SELECT {} FROM delivery WHERE ending = 0", row::DELIVERY);
    let mut damaged = Vec::new();
    let read = |row: &Row<'_>| {
        let delivery = row::read_delivery(row)?;
        let is_whole = row::is_whole(row, &delivery)?;
        if !is_whole {
            damaged.push(delivery.number);
        }
        Ok(is_whole.then_some(delivery))
    };
    image.deliveries = by_number(connection, &open, read, |it| it.number)?;
    image.messages = messages(connection, &image)?;
    image.questions = questions(connection)?;
    Ok((image, damaged))
}

/// All rows of a record's table, by number.
fn table<T: Stored>(
    connection: &Connection,
    key: impl Fn(&T) -> u64,
) -> Result<BTreeMap<u64, T>, StoreError> {
    by_number(connection, &T::select(), T::read, key)
}

/// All rows of a statement, by number.
fn by_number<T>(
    connection: &Connection,
    sql: &str,
    mut read: impl FnMut(&Row<'_>) -> Result<Option<T>, StoreError>,
    key: impl Fn(&T) -> u64,
) -> Result<BTreeMap<u64, T>, StoreError> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let Some(record) = read(row)? else { continue };
        let number = key(&record);
        if number > NUMBER_MAX / 2 {
            return Err(row::damaged("an impossible number"));
        }
        records.push((number, record));
    }
    Ok(records.into_iter().collect())
}

/// The messages of open deliveries, without damaged ones.
fn messages(
    connection: &Connection,
    image: &Image,
) -> Result<BTreeMap<u64, MessageRecord>, StoreError> {
    let mut wanted: Vec<u64> = image.deliveries.values().map(|it| it.message).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut messages = Vec::with_capacity(wanted.len());
    let mut statement = connection.prepare(&row::select_messages())?;
    // Neighbours are read in one go, which is faster than finding each.
    for run in wanted.chunk_by(|one, next| one + 1 == *next) {
        let ends = [run[0], run[run.len() - 1]].map(signed);
        let mut rows = statement.query(ends)?;
        while let Some(row) = rows.next()? {
            messages.extend(row::read_message(row)?.map(|message| (message.number, message)));
        }
    }
    Ok(messages.into_iter().collect())
}

/// Ends deliveries that are damaged, or whose message is. A damaged one loses its message, which
/// may be another's.
fn end_damaged(
    connection: &mut Connection,
    image: &mut Image,
    damaged: Vec<u64>,
    unix_ms: u64,
) -> Result<Option<String>, StoreError> {
    let messages = &image.messages;
    let without = image.deliveries.extract_if(.., |_, it| !messages.contains_key(&it.message));
    let without: Vec<u64> = without.map(|(number, _)| number).collect();
    let count = damaged.len() + without.len();
    if count == 0 {
        return Ok(None);
    }
    let ending = Ending::Dead {
        code: NackCode::StoreFailed,
        why: "the message is damaged in the store".into(),
    };
    let transaction = connection.transaction()?;
    for number in damaged.iter().chain(&without) {
        let values = row::ending_values(*number, &ending, unix_ms);
        transaction.execute(&row::end_delivery("delivery"), values)?;
    }
    for number in &damaged {
        let detach = "UPDATE delivery SET message = 0 WHERE number = ?";
        transaction.execute(detach, [signed(*number)])?;
    }
    if !damaged.is_empty() {
        transaction.execute_batch(COUNT_AGAIN)?;
    }
    transaction.execute_batch(UNLIST)?;
    for number in damaged.iter().chain(&without) {
        index::list_if_late(&transaction, *number)?;
    }
    transaction.commit()?;
    Ok(Some(format!("{count} deliveries with damaged messages are dead letters now")))
}

/// Counts again which messages the rows refer to.
const COUNT_AGAIN: &str = "
    CREATE TEMP TABLE counted (message INTEGER PRIMARY KEY, hot INTEGER, cold INTEGER);
    INSERT INTO counted SELECT message, sum(hot), sum(cold) FROM (
        SELECT message, 1 AS hot, 0 AS cold FROM delivery
        UNION ALL SELECT message, 0, 1 FROM history) GROUP BY message;
    UPDATE message SET hot = counted.hot, cold = counted.cold FROM counted
        WHERE counted.message = number;
    DELETE FROM words WHERE rowid IN
        (SELECT number FROM message WHERE number NOT IN (SELECT message FROM counted));
    DELETE FROM message WHERE number NOT IN (SELECT message FROM counted);
    DROP TABLE counted;
";

/// Deletes ids that a delivery and its message do not have from the index of ids.
const UNLIST: &str = "
    DELETE FROM lookup WHERE NOT EXISTS (
        SELECT 1 FROM delivery LEFT JOIN message ON message.number = delivery.message
        WHERE delivery.number = lookup.delivery AND key IN (id, CAST(send_id AS BLOB)));
";

/// Reads the notices for senders that were away, and deletes damaged ones.
fn restore_notices(
    connection: &mut Connection,
) -> Result<(BTreeMap<u64, NoticeRecord>, Option<String>), StoreError> {
    let transaction = connection.transaction()?;
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    {
        let mut statement = transaction.prepare(&NoticeRecord::select())?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            match NoticeRecord::read(row)?.filter(|it| it.number <= NUMBER_MAX / 2) {
                Some(notice) => whole.push((notice.number, notice)),
                None => damaged.push(row::number(row, 0)?),
            }
        }
    }
    for number in &damaged {
        transaction.execute("DELETE FROM answer WHERE number = ?", [signed(*number)])?;
    }
    transaction.commit()?;
    let count = damaged.len();
    let remark = format!("{count} damaged notices to senders that were away are deleted");
    Ok((whole.into_iter().collect(), (count > 0).then_some(remark)))
}

fn questions(connection: &Connection) -> Result<BTreeMap<Uuid, QuestionRecord>, StoreError> {
    let mut statement = connection.prepare(&QuestionRecord::select())?;
    let mut rows = statement.query([])?;
    let mut questions = BTreeMap::new();
    while let Some(row) = rows.next()? {
        questions.extend(QuestionRecord::read(row)?.map(|question| (question.delivery, question)));
    }
    Ok(questions)
}

/// The latest dead letters.
fn dead_letters(
    connection: &Connection,
    dead_letters_max: usize,
) -> Result<BTreeMap<u64, DeadLetterRecord>, StoreError> {
    let limit = i64::try_from(dead_letters_max).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT {0} FROM (
             SELECT {0} FROM delivery WHERE ending = 2
             UNION ALL
             SELECT {0} FROM history WHERE ending = 2
         ) ORDER BY number DESC LIMIT ?",
        row::DEAD_LETTER
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([limit])?;
    let mut dead_letters = BTreeMap::new();
    while let Some(row) = rows.next()? {
        dead_letters.extend([row::read_dead_letter(row)?]);
    }
    Ok(dead_letters)
}
