//! The codec between rows and records: the only place where a stored column becomes a value.
//!
//! Whatever a row contains, reading it gives a record or an error, never a panic.

use super::error::StoreError;
use protocol::{
    Moment, Now,
    code::NackCode,
    deliver::{self, Proof},
    delivery_id::IdKey,
    name::{NAME_BYTES_MAX, Name},
    payload::Capabilities,
    record::{
        AcceptedSend, AgentRecord, AnswerRecord, Clock, DeadLetterRecord, DedupRecord,
        DeliveryRecord, Ending, LastNumbers, MessageRecord, NoticeRecord, QuestionRecord,
        SessionRecord, StreamRecord,
    },
};
use rusqlite::{Connection, Params, Row};
use std::{borrow::Cow, sync::Arc};
use uuid::Uuid;

/// The limit of a stored time, in milliseconds. A higher time is damage, and sums with it could
/// overflow.
const MS_MAX: u64 = 1 << 48;

/// The highest number that a counter can have reached.
pub(super) const NUMBER_MAX: u64 = 1 << 62;

/// A kind of record with a table of its own, in which each record is one row.
pub(super) trait Stored: Sized {
    /// The table's name.
    const TABLE: &'static str;

    /// The table's columns, in the order of [`read`](Self::read) and [`values`](Self::values).
    const COLUMNS: &'static str;

    /// Reads a row of these columns. `None` if its checksum does not match.
    fn read(row: &Row<'_>) -> Result<Option<Self>, StoreError>;

    /// The values of these columns.
    fn values(&self) -> impl Params;

    /// The statement that writes such a row, in place of the one with its key.
    fn replace() -> String {
        Self::insert().replacen("INSERT", "INSERT OR REPLACE", 1)
    }

    /// The statement that writes a new row.
    fn insert() -> String {
        let places = vec!["?"; Self::COLUMNS.split(',').count()].join(", ");
        let (table, columns) = (Self::TABLE, Self::COLUMNS);
        format!("INSERT INTO {table} ({columns}) VALUES ({places})")
    }

    /// The statement that reads all rows of the table.
    fn select() -> String {
        format!("SELECT {} FROM {}", Self::COLUMNS, Self::TABLE)
    }
}

impl Stored for AgentRecord {
    const TABLE: &'static str = "agent";
    const COLUMNS: &'static str = "number, name, since_unix_ms, forget_at, guest_key, earlier";

    fn read(row: &Row<'_>) -> Result<Option<Self>, StoreError> {
        let earlier = optional_text(row, 5)?.unwrap_or_default().split_whitespace();
        Ok(Some(Self {
            number: number(row, 0)?,
            name: name(text(row, 1)?)?,
            since_unix_ms: number(row, 2)?,
            forget_at: optional_number(row, 3)?.map(Moment),
            guest_key: optional_bytes(row, 4)?,
            earlier: earlier.map(name).collect::<Result<_, _>>()?,
        }))
    }

    fn values(&self) -> impl Params {
        let earlier = self.earlier.iter().map(Name::as_str).collect::<Vec<_>>().join(" ");
        (
            signed(self.number),
            self.name.as_str(),
            signed(self.since_unix_ms),
            self.forget_at.map(|moment| signed(moment.0)),
            self.guest_key,
            // Most agents had no other name.
            (!earlier.is_empty()).then_some(earlier),
        )
    }
}

impl Stored for SessionRecord {
    const TABLE: &'static str = "session";
    const COLUMNS: &'static str = "agent, id, token, spent, expires, ack, resume, max_inflight, \
                                   supports_topics, subscriptions, former";

    fn read(row: &Row<'_>) -> Result<Option<Self>, StoreError> {
        Ok(Some(Self {
            agent: number(row, 0)?,
            id: text(row, 1)?.into(),
            token: bytes(row, 2)?,
            former: optional_bytes(row, 10)?,
            spent: optional_bytes(row, 3)?,
            expires: optional_number(row, 4)?.map(Moment),
            capabilities: Capabilities {
                ack: flag(row, 5)?,
                resume: flag(row, 6)?,
                max_inflight: number(row, 7)?,
                supports_topics: flag(row, 8)?,
                // Not stored: each connection states these capabilities itself.
                reports: false,
                broadcasts: false,
            },
            subscriptions: unpack(blob(row, 9)?)?,
        }))
    }

    fn values(&self) -> impl Params {
        let granted = &self.capabilities;
        (
            signed(self.agent),
            &*self.id,
            self.token,
            self.spent,
            self.expires.map(|moment| signed(moment.0)),
            granted.ack,
            granted.resume,
            signed(granted.max_inflight),
            granted.supports_topics,
            pack(&self.subscriptions),
            self.former,
        )
    }
}

impl Stored for StreamRecord {
    const TABLE: &'static str = "stream";
    const COLUMNS: &'static str = "number, sender, recipient, topic, reserved";

    fn read(row: &Row<'_>) -> Result<Option<Self>, StoreError> {
        Ok(Some(Self {
            number: number(row, 0)?,
            from: number(row, 1)?,
            to: number(row, 2)?,
            topic: optional_text(row, 3)?.map(Into::into),
            reserved: sequence_number(row, 4)?,
        }))
    }

    fn values(&self) -> impl Params {
        (
            signed(self.number),
            signed(self.from),
            signed(self.to),
            self.topic.as_deref(),
            signed(self.reserved),
        )
    }
}

impl Stored for DedupRecord {
    const TABLE: &'static str = "double";
    const COLUMNS: &'static str = "sender, message, fingerprint, recipients, remaining";

    fn read(row: &Row<'_>) -> Result<Option<Self>, StoreError> {
        let remaining = match optional_blob(row, 4)? {
            None => Vec::new(),
            Some(bytes) => {
                let (numbers, []) = bytes.as_chunks() else {
                    return Err(damaged("a piece of a number"));
                };
                numbers.iter().map(|number| u64::from_le_bytes(*number)).collect()
            }
        };
        Ok(Some(Self {
            sender: number(row, 0)?,
            message: number(row, 1)?,
            fingerprint: bytes(row, 2)?,
            recipients: optional_number(row, 3)?,
            remaining,
        }))
    }

    fn values(&self) -> impl Params {
        let remaining = || -> Vec<u8> {
            self.remaining.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        (
            signed(self.sender),
            signed(self.message),
            self.fingerprint,
            self.recipients.map(signed),
            // An empty list, which is the usual case, is stored as NULL.
            (!self.remaining.is_empty()).then(remaining),
        )
    }
}

impl Stored for NoticeRecord {
    const TABLE: &'static str = "answer";
    const COLUMNS: &'static str = "number, agent, checksum, frame";

    fn read(row: &Row<'_>) -> Result<Option<Self>, StoreError> {
        let notice =
            Self { number: number(row, 0)?, agent: number(row, 1)?, frame: blob(row, 3)?.into() };
        let is_whole = integer(row, 2)? == i64::from(notice_checksum(&notice));
        Ok(is_whole.then_some(notice))
    }

    fn values(&self) -> impl Params {
        (signed(self.number), signed(self.agent), notice_checksum(self), &*self.frame)
    }
}

impl Stored for QuestionRecord {
    const TABLE: &'static str = "question";
    const COLUMNS: &'static str =
        "delivery, sender, recipient, send_id, correlation_id, timeout_ms, until";

    fn read(row: &Row<'_>) -> Result<Option<Self>, StoreError> {
        Ok(Some(Self {
            delivery: Uuid::from_bytes(bytes(row, 0)?),
            from: number(row, 1)?,
            to: number(row, 2)?,
            send_id: text(row, 3)?.into(),
            correlation_id: text(row, 4)?.into(),
            timeout_ms: number(row, 5)?,
            until: Moment(number(row, 6)?),
        }))
    }

    fn values(&self) -> impl Params {
        (
            self.delivery.as_bytes(),
            signed(self.from),
            signed(self.to),
            &*self.send_id,
            &*self.correlation_id,
            signed(self.timeout_ms),
            signed(self.until.0),
        )
    }
}

/// The columns of a message, in the order of [`read_message`] and [`message_values`].
const MESSAGE: &str =
    "number, sender, unix_ms, to_everyone, checksum, proof, session, send_id, shared";

/// The statement that writes a message, unless it is stored already.
pub(super) fn insert_message() -> String {
    format!("INSERT OR IGNORE INTO message ({MESSAGE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
}

/// The values for [`insert_message`].
pub(super) fn message_values(message: &MessageRecord, checksum: u32) -> impl Params {
    (
        signed(message.number),
        signed(message.sender),
        signed(message.unix_ms),
        message.to_everyone,
        checksum,
        message.proof.as_str(),
        &*message.session,
        &*message.send_id,
        &*message.shared,
    )
}

/// The statement that reads the messages between two numbers.
pub(super) fn select_messages() -> String {
    select_messages_where("WHERE number BETWEEN ? AND ?")
}

/// The statement that reads all messages, or those of a condition.
pub(super) fn select_messages_where(condition: &str) -> String {
    format!("SELECT {MESSAGE} FROM message {condition} ORDER BY number")
}

/// Reads the message with this number. `None` if there is none, or its checksum does not match.
pub(super) fn find_message(
    connection: &Connection,
    number: u64,
) -> Result<Option<MessageRecord>, StoreError> {
    let sql = format!("SELECT {MESSAGE} FROM message WHERE number = ?");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([signed(number)])?;
    match rows.next()? {
        Some(row) => read_message(row),
        None => Ok(None),
    }
}

/// Reads a message. `None` if its checksum does not match.
pub(super) fn read_message(row: &Row<'_>) -> Result<Option<MessageRecord>, StoreError> {
    let proof = proof(text(row, 5)?);
    let message = MessageRecord {
        number: number(row, 0)?,
        sender: number(row, 1)?,
        unix_ms: number(row, 2)?,
        to_everyone: flag(row, 3)?,
        proof: proof.unwrap_or(Proof::Guest),
        session: text(row, 6)?.into(),
        send_id: text(row, 7)?.into(),
        shared: blob(row, 8)?.into(),
    };
    let is_whole = proof.is_some() && integer(row, 4)? == i64::from(message_checksum(&message));
    Ok(is_whole.then_some(message))
}

fn proof(text: &str) -> Option<Proof> {
    use Proof::{Bridge, Claim, Companion, Guest, Key, Operator, Token};
    let mut all = [Key, Token, Claim, Companion, Guest, Operator, Bridge].into_iter();
    all.find(|proof| proof.as_str() == text)
}

/// A checksum over every part of a message that reaches a client.
pub(super) fn message_checksum(message: &MessageRecord) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in [message.number, message.sender, message.unix_ms, message.to_everyone.into()] {
        hasher.update(&number.to_le_bytes());
    }
    for text in [message.proof.as_str(), &message.session, &message.send_id] {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.update(&message.shared);
    hasher.finalize()
}

fn notice_checksum(notice: &NoticeRecord) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in [notice.number, notice.agent] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(&notice.frame);
    hasher.finalize()
}

/// A checksum over what never changes in a delivery, and over its message's checksum, so that no
/// delivery takes another message for its own. Files before version 6 leave the message out.
pub(super) fn delivery_checksum(delivery: &DeliveryRecord, of_message: Option<u32>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    let DeliveryRecord { number, message, stream, to, seq, .. } = *delivery;
    for number in [number, message, stream, to, seq] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(delivery.id.as_bytes());
    hasher.update(delivery.to_name.as_str().as_bytes());
    if let Some(checksum) = of_message {
        hasher.update(&checksum.to_le_bytes());
    }
    hasher.finalize()
}

/// The columns of a delivery, in the order of [`read_delivery`] and [`read_ending`].
pub(super) const DELIVERY: &str = "number, message, stream, recipient, name, seq, id, expires, \
                                   attempts, failures, ending, ended_ms, code, why, checksum";

/// The place of the checksum among these columns.
pub(super) const CHECKSUM: usize = 14;

/// Values of a delivery's `ending`.
const OPEN: i64 = 0;
const ACKNOWLEDGED: i64 = 1;
const DEAD: i64 = 2;

/// The parts of a message that the rows of its deliveries repeat.
pub(super) struct OfMessage<'a> {
    pub(super) checksum: u32,
    pub(super) sender_name: &'a str,
    pub(super) topic: Option<Cow<'a, str>>,
    /// The bytes that the sender is charged with once the delivery is over.
    pub(super) bytes: u64,
}

impl<'a> OfMessage<'a> {
    /// Takes these from the shared part of a message to this number of recipients.
    pub(super) fn new(checksum: u32, shared: &'a [u8], recipients: u64) -> Self {
        let (sender_name, topic) = deliver::sender_and_topic(shared).unwrap_or_default();
        let bytes = ROW_BYTES + shared.len() as u64 / recipients.max(1);
        Self { checksum, sender_name, topic, bytes }
    }
}

/// The bytes that an ended delivery is charged with, besides its share of the message.
const ROW_BYTES: u64 = 300;

/// The statement that writes an open delivery.
pub(super) const INSERT_DELIVERY: &str = "INSERT INTO delivery VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, ?11, NULL, NULL, ?12, ?13, ?14, ?15, ?16)";

/// The statement that writes a delivery with all its columns, unless its number is there.
pub(super) const INSERT_ROW: &str = "INSERT OR IGNORE INTO delivery VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The values for [`INSERT_DELIVERY`], with the time.
pub(super) fn delivery_values(
    delivery: &DeliveryRecord,
    of_message: &OfMessage<'_>,
    now: Now,
) -> impl Params {
    (
        signed(delivery.number),
        signed(delivery.message),
        signed(delivery.stream),
        signed(delivery.to),
        delivery.to_name.as_str(),
        signed(delivery.seq),
        delivery.id.as_bytes(),
        signed(delivery.expires.0),
        delivery.attempts,
        delivery.failures,
        signed(now.unix_ms),
        delivery_checksum(delivery, Some(of_message.checksum)),
        signed(now.monotonic.0),
        of_message.sender_name,
        of_message.topic.as_deref(),
        signed(of_message.bytes),
    )
}

/// The statement that finds who is charged for an open delivery once it is over, and how much.
pub(super) const FIND_OPEN: &str =
    "SELECT sender_name, bytes FROM delivery WHERE number = ? AND ending = 0";

/// The statement that ends an open delivery. It returns nothing, since SQLite makes a temporary
/// table for what a change returns.
pub(super) const END_DELIVERY: &str = "UPDATE delivery
    SET ending = ?2, ended_ms = ?3, code = ?4, why = ?5, ended = ?6 WHERE number = ?1";

/// The statement that changes how a delivery ended, with the first five values of
/// [`END_DELIVERY`].
pub(super) const END_AGAIN: &str = "UPDATE delivery
    SET ending = ?2, ended_ms = ?3, code = ?4, why = ?5 WHERE number = ?1";

/// The values for [`END_DELIVERY`] but the last, or for [`END_AGAIN`].
pub(super) fn ending_values(
    delivery: u64,
    ending: &Ending,
    unix_ms: u64,
) -> (i64, i64, i64, Option<&'static str>, Option<&str>) {
    let (kind, code, why) = match ending {
        Ending::Acknowledged => (ACKNOWLEDGED, None, None),
        Ending::Dead { code, why } => (DEAD, Some(code.as_str()), Some(&**why)),
        Ending::Erased => unreachable!("the row of an erased delivery is deleted"),
    };
    (signed(delivery), kind, signed(unix_ms), code, why)
}

/// Reads a delivery.
pub(super) fn read_delivery(row: &Row<'_>) -> Result<DeliveryRecord, StoreError> {
    let delivery = DeliveryRecord {
        number: number(row, 0)?,
        message: number(row, 1)?,
        stream: number(row, 2)?,
        to: number(row, 3)?,
        to_name: name(text(row, 4)?)?,
        seq: sequence_number(row, 5)?,
        id: Uuid::from_bytes(bytes(row, 6)?),
        expires: Moment(number(row, 7)?),
        attempts: row.get(8)?,
        failures: row.get(9)?,
    };
    if delivery.seq == 0 {
        return Err(damaged("a delivery without a number in its stream"));
    }
    Ok(delivery)
}

/// Whether a delivery's checksum matches, with the checksum of its message. If not, it may name
/// another's message or recipient.
pub(super) fn is_whole(
    row: &Row<'_>,
    delivery: &DeliveryRecord,
    of_message: Option<u32>,
) -> Result<bool, StoreError> {
    Ok(integer(row, CHECKSUM)? == i64::from(delivery_checksum(delivery, of_message)))
}

/// Reads how and when a delivery ended, if it did.
pub(super) fn read_ending(row: &Row<'_>) -> Result<Option<(Ending, u64)>, StoreError> {
    let ending = match integer(row, 10)? {
        OPEN => return Ok(None),
        ACKNOWLEDGED => Ending::Acknowledged,
        DEAD => Ending::Dead {
            code: NackCode::parse(text(row, 12)?).ok_or_else(|| damaged("an unknown code"))?,
            why: text(row, 13)?.into(),
        },
        _ => return Err(damaged("an unknown ending")),
    };
    Ok(Some((ending, number(row, 11)?)))
}

/// Whether a delivery's `ending` says that it is open.
pub(super) fn is_open(row: &Row<'_>, column: usize) -> Result<bool, StoreError> {
    Ok(integer(row, column)? == OPEN)
}

/// The columns of a dead letter, in the order of [`read_dead_letter`].
pub(super) const DEAD_LETTER: &str = "number, id, recipient";

/// Reads a dead letter and its delivery's number.
pub(super) fn read_dead_letter(row: &Row<'_>) -> Result<(u64, DeadLetterRecord), StoreError> {
    let record = DeadLetterRecord { id: Uuid::from_bytes(bytes(row, 1)?), to: number(row, 2)? };
    Ok((number(row, 0)?, record))
}

/// The statement that writes the clock and the highest numbers, and counts open deliveries.
pub(super) const UPDATE_META: &str = "UPDATE meta SET monotonic = ?, unix_ms = ?, agent = ?,
    stream = ?, message = ?, delivery = ?, open = open + ?";

/// The values for [`UPDATE_META`].
pub(super) fn meta_values(clock: Clock, last: &LastNumbers, more_open: i64) -> impl Params + use<> {
    let numbers = [last.agent, last.stream, last.message, last.delivery];
    let [agent, stream, message, delivery] = numbers.map(signed);
    let (monotonic, unix_ms) = (signed(clock.0.monotonic.0), signed(clock.0.unix_ms));
    (monotonic, unix_ms, agent, stream, message, delivery, more_open)
}

/// The form of the ids of deliveries.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdForm {
    pub(super) key: IdKey,
    /// The highest number of a delivery whose id does not tell its number, since an older version
    /// has made it. These ids have an index.
    pub(super) old: u64,
}

impl IdForm {
    pub(super) fn read(connection: &Connection) -> Result<Self, StoreError> {
        let form = read_single(connection, "SELECT id_key, old_ids FROM meta", |row| {
            Ok(Self { key: IdKey::new(bytes(row, 0)?), old: number(row, 1)? })
        })?;
        if form.old > NUMBER_MAX {
            return Err(damaged("an impossible number"));
        }
        Ok(form)
    }

    /// Writes the form into a new file, which has no delivery yet.
    pub(super) fn write(&self, connection: &Connection) -> Result<(), StoreError> {
        if self.old > 0 {
            let which = self.which_are_old();
            let index = format!("CREATE INDEX delivery_old_id ON delivery (id) WHERE {which}");
            connection.execute_batch(&index)?;
        }
        let sql = "UPDATE meta SET id_key = ?, old_ids = ?";
        connection.execute(sql, (self.key.to_bytes(), signed(self.old)))?;
        Ok(())
    }

    /// The condition of the index of old ids, in its words: SQLite compares these.
    pub(super) fn which_are_old(&self) -> String {
        format!("number <= {}", self.old)
    }
}

/// Reads the clock and the highest numbers.
pub(super) fn find_meta(connection: &Connection) -> Result<(Clock, LastNumbers), StoreError> {
    let sql = "SELECT monotonic, unix_ms, agent, stream, message, delivery FROM meta";
    read_single(connection, sql, |row| {
        let last = LastNumbers {
            agent: number(row, 2)?,
            stream: number(row, 3)?,
            message: number(row, 4)?,
            delivery: number(row, 5)?,
        };
        let (monotonic, unix_ms) = (Moment(number(row, 0)?), number(row, 1)?);
        let numbers = [last.agent, last.stream, last.message, last.delivery];
        if monotonic.0 > MS_MAX || unix_ms > MS_MAX || numbers.iter().any(|it| *it > NUMBER_MAX) {
            return Err(damaged("an impossible time or number"));
        }
        Ok((Clock(Now { monotonic, unix_ms }), last))
    })
}

/// Reads a row that always exists.
pub(super) fn read_single<T>(
    connection: &Connection,
    sql: &str,
    read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    read(rows.next()?.ok_or_else(|| StoreError::Damaged("a row is missing in it".to_owned()))?)
}

/// An estimate of the disk space that a notice takes.
pub(super) fn notice_bytes(notice: &NoticeRecord) -> usize {
    100 + notice.frame.len()
}

/// An estimate of the disk space that an accepted SEND takes.
pub(super) fn send_bytes(accepted: &AcceptedSend) -> usize {
    message_bytes(&accepted.message) + 150 * accepted.deliveries.len()
}

/// An estimate of the disk space that an answer takes.
pub(super) fn answer_bytes(answer: &AnswerRecord) -> usize {
    message_bytes(&answer.message) + 150
}

fn message_bytes(message: &MessageRecord) -> usize {
    300 + message.session.len() + message.send_id.len() + message.shared.len()
}

/// Texts packed into one column, each preceded by its length.
fn pack(texts: &[Arc<str>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

fn unpack(mut bytes: &[u8]) -> Result<Vec<Arc<str>>, StoreError> {
    let mut texts = Vec::new();
    while !bytes.is_empty() {
        let piece = bytes
            .split_first_chunk()
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
        let (text, rest) = piece.ok_or_else(|| damaged("a piece of a text"))?;
        texts.push(str::from_utf8(text).map_err(|_| damaged("a text that is not UTF-8"))?.into());
        bytes = rest;
    }
    Ok(texts)
}

/// Converts a number to SQLite's integer with the same 64 bits.
pub(super) const fn signed(number: u64) -> i64 {
    number.cast_signed()
}

/// Reads a number that [`signed`] wrote.
pub(super) fn number(row: &Row<'_>, column: usize) -> Result<u64, StoreError> {
    Ok(integer(row, column)?.cast_unsigned())
}

/// Reads a number in a stream, which must be low enough for higher ones to follow.
fn sequence_number(row: &Row<'_>, column: usize) -> Result<u64, StoreError> {
    let number = number(row, column)?;
    if number > NUMBER_MAX {
        return Err(damaged("an impossible number in a stream"));
    }
    Ok(number)
}

fn optional_number(row: &Row<'_>, column: usize) -> Result<Option<u64>, StoreError> {
    Ok(optional_integer(row, column)?.map(i64::cast_unsigned))
}

pub(super) fn integer(row: &Row<'_>, column: usize) -> Result<i64, StoreError> {
    Ok(row.get(column)?)
}

pub(super) fn optional_integer(row: &Row<'_>, column: usize) -> Result<Option<i64>, StoreError> {
    Ok(row.get(column)?)
}

fn flag(row: &Row<'_>, column: usize) -> Result<bool, StoreError> {
    Ok(integer(row, column)? == 1)
}

pub(super) fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str, StoreError> {
    Ok(row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?)
}

pub(super) fn optional_text<'a>(
    row: &'a Row<'_>,
    column: usize,
) -> Result<Option<&'a str>, StoreError> {
    Ok(row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from)?)
}

pub(super) fn blob<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8], StoreError> {
    Ok(row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?)
}

pub(super) fn optional_blob<'a>(
    row: &'a Row<'_>,
    column: usize,
) -> Result<Option<&'a [u8]>, StoreError> {
    Ok(row.get_ref(column)?.as_blob_or_null().map_err(rusqlite::Error::from)?)
}

fn bytes<const N: usize>(row: &Row<'_>, column: usize) -> Result<[u8; N], StoreError> {
    blob(row, column)?.try_into().map_err(|_| damaged("a value of the wrong length"))
}

fn optional_bytes<const N: usize>(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<[u8; N]>, StoreError> {
    optional_blob(row, column)?.map(|_| bytes(row, column)).transpose()
}

fn name(text: &str) -> Result<Name, StoreError> {
    if text.starts_with('@') && text.len() <= NAME_BYTES_MAX {
        return Ok(Name::made_by_daemon(text));
    }
    Name::parse_any(text).map_err(|_| damaged("an invalid name"))
}

/// Returns the error of a damaged file that contains `what`, such as `a piece of a number`.
pub(super) fn damaged(what: &str) -> StoreError {
    StoreError::Damaged(format!("it contains {what}"))
}
