//! The image that a daemon starts with, read from the file.

use super::{
    error::StoreError,
    row::{self, NUMBER_MAX, Stored, signed},
};
use crate::protocol::code::NackCode;
use crate::record::{
    AgentRecord, DeadLetterRecord, DedupRecord, Ending, Image, MessageRecord, NoticeRecord,
    QuestionRecord, SessionRecord, StreamRecord,
};
use rusqlite::{Connection, Row};
use std::collections::{BTreeMap, BTreeSet};
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
    let mut image = read(connection)?;
    let lost_messages = end_without_message(connection, &mut image, now_unix_ms)?;
    let (notices, lost_notices) = restore_notices(connection)?;
    image.notices = notices;
    image.dead_letters = dead_letters(connection, dead_letters_max)?;
    Ok(Restored { image, remarks: [lost_messages, lost_notices].into_iter().flatten().collect() })
}

/// Reads all records except notices and dead letters. Repairs nothing.
pub(super) fn read(connection: &Connection) -> Result<Image, StoreError> {
    let (clock, last) = row::find_meta(connection)?;
    let mut image = Image { clock, last, ..Image::default() };
    image.agents = table(connection, |agent: &AgentRecord| agent.number)?;
    image.sessions = table(connection, |session: &SessionRecord| session.agent)?;
    image.streams = table(connection, |stream: &StreamRecord| stream.number)?;
    image.dedup = table(connection, |entry: &DedupRecord| entry.message)?;
    let open = format!("SELECT {} FROM delivery WHERE ending = 0", row::DELIVERY);
    image.deliveries =
        by_number(connection, &open, |row| row::read_delivery(row).map(Some), |it| it.number)?;
    image.messages = messages(connection, &image)?;
    image.questions = questions(connection)?;
    Ok(image)
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
    read: impl Fn(&Row<'_>) -> Result<Option<T>, StoreError>,
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
    let wanted: BTreeSet<u64> = image.deliveries.values().map(|it| it.message).collect();
    let mut messages = Vec::with_capacity(wanted.len());
    for number in wanted {
        if let Some(message) = row::find_message(connection, number)? {
            messages.push((number, message));
        }
    }
    Ok(messages.into_iter().collect())
}

/// Ends deliveries without a message.
fn end_without_message(
    connection: &mut Connection,
    image: &mut Image,
    unix_ms: u64,
) -> Result<Option<String>, StoreError> {
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
    let transaction = connection.transaction()?;
    for number in &damaged {
        let values = row::ending_values(*number, &ending, unix_ms);
        transaction.execute(&row::end_delivery("delivery"), values)?;
    }
    transaction.commit()?;
    let count = damaged.len();
    Ok(Some(format!("{count} deliveries with damaged messages are dead letters now")))
}

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
