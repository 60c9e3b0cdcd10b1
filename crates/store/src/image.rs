//! The image that a daemon starts with, read from the file.

use super::{
    error::StoreError,
    holder::Charges,
    row::{self, NUMBER_MAX, Stored, signed},
};
use protocol::{
    code::NackCode,
    record::{
        AgentRecord, DeadLetterRecord, DedupRecord, DeliveryRecord, Ending, Image, MessageRecord,
        NoticeRecord, QuestionRecord, SessionRecord, StreamRecord,
    },
};
use rusqlite::{Connection, Row, params};
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
    let Content { mut image, damaged, miscounted } = read(connection)?;
    let found = image.deliveries.len() + damaged.len();
    let recounted = miscounted.map(|expected| recount(connection, expected, found)).transpose()?;
    let lost_messages = end_damaged(connection, &mut image, damaged, now_unix_ms)?;
    let (notices, lost_notices) = restore_notices(connection)?;
    image.notices = notices;
    image.dead_letters = dead_letters(connection, dead_letters_max)?;
    let remarks = [recounted, lost_messages, lost_notices].into_iter().flatten().collect();
    Ok(Restored { image, remarks })
}

/// The content of a file.
pub(super) struct Content {
    /// All records but notices and dead letters.
    pub(super) image: Image,
    /// The numbers of open deliveries that are damaged.
    damaged: Vec<u64>,
    /// The number of open deliveries by the file's count, if their index does not have as many.
    miscounted: Option<u64>,
}

/// Reads what a file contains. Repairs nothing.
pub(super) fn read(connection: &Connection) -> Result<Content, StoreError> {
    let (clock, last) = row::find_meta(connection)?;
    let mut image = Image { clock, last, ..Image::default() };
    image.agents = table(connection, |agent: &AgentRecord| agent.number)?;
    image.sessions = table(connection, |session: &SessionRecord| session.agent)?;
    image.streams = table(connection, |stream: &StreamRecord| stream.number)?;
    image.dedup = table(connection, |entry: &DedupRecord| entry.message)?;
    let count = row::read_single(connection, "SELECT open FROM meta", |row| row::number(row, 0))?;
    let (open, miscounted) = match open_deliveries(connection, "INDEXED BY delivery_open") {
        Ok(open) if open.is_in_order && open.count == count => (open, None),
        Err(error) if !error.is_damage() => return Err(error),
        // The index may be damaged. The table has its own words.
        _ => (open_deliveries(connection, "NOT INDEXED")?, Some(count)),
    };
    image.messages = messages(connection, &open.deliveries)?;
    let damaged;
    (image.deliveries, damaged) = open.check(&image.messages);
    image.questions = questions(connection)?;
    Ok(Content { image, damaged, miscounted })
}

/// Open deliveries that were read.
#[derive(Default)]
struct OpenDeliveries {
    /// Deliveries, with their checksums.
    deliveries: BTreeMap<u64, (DeliveryRecord, i64)>,
    count: u64,
    /// Whether each row was open, and had a higher number than the one before.
    is_in_order: bool,
}

impl OpenDeliveries {
    /// Tells damaged deliveries from the others by the checksums of whole messages. Those whose
    /// message is not whole count as others.
    fn check(
        self,
        messages: &BTreeMap<u64, MessageRecord>,
    ) -> (BTreeMap<u64, DeliveryRecord>, Vec<u64>) {
        let mut damaged = Vec::new();
        let mut last = None;
        let whole = self.deliveries.into_iter().filter_map(|(number, (delivery, checksum))| {
            let of_message = match last {
                Some((message, of_message)) if message == delivery.message => of_message,
                _ => messages.get(&delivery.message).map(row::message_checksum),
            };
            last = Some((delivery.message, of_message));
            let is_whole = of_message.is_none_or(|_| {
                checksum == i64::from(row::delivery_checksum(&delivery, of_message))
            });
            if !is_whole {
                damaged.push(number);
            }
            is_whole.then_some((number, delivery))
        });
        (whole.collect(), damaged)
    }
}

fn open_deliveries(connection: &Connection, by: &str) -> Result<OpenDeliveries, StoreError> {
    let columns = row::DELIVERY;
    let sql = format!("SELECT {columns} FROM delivery {by} WHERE ending = 0 ORDER BY number");
    let mut open = OpenDeliveries { is_in_order: true, ..OpenDeliveries::default() };
    let mut last = None;
    let read = |row: &Row<'_>| {
        let delivery = row::read_delivery(row)?;
        open.count += 1;
        open.is_in_order &= last < Some(delivery.number) && row::read_ending(row)?.is_none();
        last = Some(delivery.number);
        Ok(Some((delivery, row::integer(row, row::CHECKSUM)?)))
    };
    open.deliveries = by_number(connection, &sql, read, |(delivery, _)| delivery.number)?;
    Ok(open)
}

/// Writes the index and the count of open deliveries again.
fn recount(connection: &mut Connection, expected: u64, found: usize) -> Result<String, StoreError> {
    let transaction = connection.transaction()?;
    transaction.execute_batch("REINDEX delivery_open")?;
    transaction.execute("UPDATE meta SET open = ?", [signed(found as u64)])?;
    transaction.commit()?;
    Ok(format!("the index of open deliveries was damaged: {found} are there, {expected} were"))
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
    open: &BTreeMap<u64, (DeliveryRecord, i64)>,
) -> Result<BTreeMap<u64, MessageRecord>, StoreError> {
    let mut wanted: Vec<u64> = open.values().map(|(delivery, _)| delivery.message).collect();
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
    let (mut charges, now) = (Charges::default(), image.clock.moment_at(unix_ms));
    for number in damaged.iter().chain(&without) {
        let (number, kind, at, code, why) = row::ending_values(*number, &ending, unix_ms);
        charges.charge(&mut *transaction.prepare_cached(row::FIND_OPEN)?, number)?;
        let values = params![number, kind, at, code, why, signed(now.0)];
        transaction.prepare_cached(row::END_DELIVERY)?.execute(values)?;
    }
    charges.write(&transaction)?;
    for number in &damaged {
        let detach = "UPDATE delivery SET message = 0 WHERE number = ?";
        transaction.execute(detach, [signed(*number)])?;
    }
    transaction.execute_batch(COUNT_AGAIN)?;
    transaction.commit()?;
    Ok(Some(format!("{count} deliveries with damaged messages are dead letters now")))
}

/// Counts open deliveries again, and deletes messages without a delivery.
const COUNT_AGAIN: &str = "
    UPDATE meta SET open = (SELECT count(*) FROM delivery WHERE ending = 0);
    DELETE FROM words WHERE rowid IN (
        SELECT number FROM message
        WHERE NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.message = message.number));
    DELETE FROM message
        WHERE NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.message = message.number);
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
        "SELECT {} FROM delivery WHERE ending = 2 ORDER BY number DESC LIMIT ?",
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
