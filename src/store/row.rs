//! Records as rows, and rows as records. Whatever stands in a row, reading it is a record or an error.

use super::trouble::Trouble;
use crate::protocol::{
    Moment,
    code::NackCode,
    deliver::Proof,
    name::{NAME_BYTES_MAX, Name},
    payload::Capabilities,
};
use crate::record::{
    AgentRecord, DedupRecord, DeliveryRecord, Ending, MessageRecord, NoticeRecord, QuestionRecord,
    SessionRecord, StreamRecord,
};
use rusqlite::Row;
use std::sync::Arc;
use uuid::Uuid;

/// A row's columns, in the order that the readers here expect.
pub(super) const MESSAGE: &str =
    "number, sender, unix_ms, to_everyone, checksum, proof, session, send_id, shared";
pub(super) const DELIVERY: &str = "number, message, stream, recipient, name, seq, id, expires, \
                                   attempts, failures, ending, ended_ms, code, why";
pub(super) const DOUBLE: &str = "sender, message, fingerprint, recipients, remaining";
pub(super) const AGENT: &str = "number, name, since_unix_ms, forget_at";
pub(super) const SESSION: &str = "agent, id, token, spent, expires, ack, resume, max_inflight, \
                                  supports_topics, subscriptions";
pub(super) const STREAM: &str = "number, sender, recipient, topic, reserved";
pub(super) const ANSWER: &str = "number, agent, checksum, frame";
pub(super) const QUESTION: &str =
    "delivery, sender, recipient, send_id, correlation_id, timeout_ms, until";

/// A delivery's `ending`.
pub(super) const OPEN: i64 = 0;
pub(super) const ACKNOWLEDGED: i64 = 1;
pub(super) const DEAD: i64 = 2;

/// LastNumbers and moments as SQLite has integers: the same bits.
pub(super) const fn signed(number: u64) -> i64 {
    number.cast_signed()
}

/// An ending as `ending`, `code`, `why`.
pub(super) fn ending(ending: &Ending) -> (i64, Option<&str>, Option<&str>) {
    match ending {
        Ending::Acknowledged => (ACKNOWLEDGED, None, None),
        Ending::Dead { code, why } => (DEAD, Some(code.as_str()), Some(why)),
    }
}

/// Over all of a message that reaches anybody.
pub(super) fn checksum(message: &MessageRecord) -> u32 {
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

/// A message; none if it is not what was written.
pub(super) fn message(row: &Row<'_>) -> Result<Option<MessageRecord>, Trouble> {
    let proof = proof(text(row, 5)?);
    let message = MessageRecord {
        number: number(row, 0)?,
        sender: number(row, 1)?,
        unix_ms: number(row, 2)?,
        to_everyone: row.get::<_, i64>(3)? == 1,
        proof: proof.unwrap_or(Proof::Guest),
        session: text(row, 6)?.into(),
        send_id: text(row, 7)?.into(),
        shared: blob(row, 8)?.into(),
    };
    let whole = proof.is_some() && row.get::<_, i64>(4)? == i64::from(checksum(&message));
    Ok(whole.then_some(message))
}

fn proof(text: &str) -> Option<Proof> {
    use Proof::{Claim, Companion, Guest, Key, Operator, Token};
    [Key, Token, Claim, Companion, Guest, Operator].into_iter().find(|proof| proof.as_str() == text)
}

/// A delivery, and how and when it ended.
pub(super) fn delivery(row: &Row<'_>) -> Result<(DeliveryRecord, Option<(Ending, u64)>), Trouble> {
    let delivery = DeliveryRecord {
        number: number(row, 0)?,
        message: number(row, 1)?,
        stream: number(row, 2)?,
        to: number(row, 3)?,
        to_name: name(text(row, 4)?)?,
        seq: place(row, 5)?,
        id: Uuid::from_bytes(bytes(row, 6)?),
        expires: Moment(number(row, 7)?),
        attempts: row.get(8)?,
        failures: row.get(9)?,
    };
    if delivery.seq == 0 {
        return Err(damaged("a delivery without a place in its stream"));
    }
    let ending = match row.get(10)? {
        OPEN => return Ok((delivery, None)),
        ACKNOWLEDGED => Ending::Acknowledged,
        DEAD => Ending::Dead {
            code: NackCode::parse(text(row, 12)?)
                .ok_or_else(|| damaged("a code that there is not"))?,
            why: text(row, 13)?.into(),
        },
        _ => return Err(damaged("an ending that there is not")),
    };
    Ok((delivery, Some((ending, number(row, 11)?))))
}

pub(super) fn double(row: &Row<'_>) -> Result<DedupRecord, Trouble> {
    let remaining = match row.get_ref(4)?.as_blob_or_null().map_err(rusqlite::Error::from)? {
        None => Vec::new(),
        Some(bytes) => {
            let (numbers, []) = bytes.as_chunks() else {
                return Err(damaged("a piece of a number"));
            };
            numbers.iter().map(|number| u64::from_le_bytes(*number)).collect()
        }
    };
    Ok(DedupRecord {
        sender: number(row, 0)?,
        message: number(row, 1)?,
        fingerprint: bytes(row, 2)?,
        recipients: maybe(row, 3)?,
        remaining,
    })
}

/// Of [`DedupRecord::remaining`]; nothing where it is empty, as it mostly is.
pub(super) fn remaining(numbers: &[u64]) -> Option<Vec<u8>> {
    let bytes = || numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    (!numbers.is_empty()).then(bytes)
}

pub(super) fn agent(row: &Row<'_>) -> Result<AgentRecord, Trouble> {
    Ok(AgentRecord {
        number: number(row, 0)?,
        name: name(text(row, 1)?)?,
        since_unix_ms: number(row, 2)?,
        forget_at: maybe(row, 3)?.map(Moment),
    })
}

pub(super) fn session(row: &Row<'_>) -> Result<SessionRecord, Trouble> {
    let spent = match row.get_ref(3)?.as_blob_or_null().map_err(rusqlite::Error::from)? {
        None => None,
        Some(_) => Some(bytes(row, 3)?),
    };
    Ok(SessionRecord {
        agent: number(row, 0)?,
        id: text(row, 1)?.into(),
        token: bytes(row, 2)?,
        spent,
        expires: maybe(row, 4)?.map(Moment),
        capabilities: Capabilities {
            ack: row.get::<_, i64>(5)? == 1,
            resume: row.get::<_, i64>(6)? == 1,
            max_inflight: number(row, 7)?,
            supports_topics: row.get::<_, i64>(8)? == 1,
            // Not stored: each connection says it anew.
            reports: false,
        },
        subscriptions: unpack(blob(row, 9)?)?,
    })
}

pub(super) fn stream(row: &Row<'_>) -> Result<StreamRecord, Trouble> {
    let topic = row.get_ref(3)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    Ok(StreamRecord {
        number: number(row, 0)?,
        from: number(row, 1)?,
        to: number(row, 2)?,
        topic: topic.map(Into::into),
        reserved: place(row, 4)?,
    })
}

/// Over all of an answer.
pub(super) fn checksum_of_answer(answer: &NoticeRecord) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in [answer.number, answer.agent] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(&answer.frame);
    hasher.finalize()
}

/// An answer; none if it is not what was written.
pub(super) fn answer(row: &Row<'_>) -> Result<Option<NoticeRecord>, Trouble> {
    let answer = NoticeRecord {
        number: number(row, 0)?,
        agent: number(row, 1)?,
        frame: blob(row, 3)?.into(),
    };
    let whole = row.get::<_, i64>(2)? == i64::from(checksum_of_answer(&answer));
    Ok(whole.then_some(answer))
}

pub(super) fn question(row: &Row<'_>) -> Result<QuestionRecord, Trouble> {
    Ok(QuestionRecord {
        delivery: Uuid::from_bytes(bytes(row, 0)?),
        from: number(row, 1)?,
        to: number(row, 2)?,
        send_id: text(row, 3)?.into(),
        correlation_id: text(row, 4)?.into(),
        timeout_ms: number(row, 5)?,
        until: Moment(number(row, 6)?),
    })
}

/// Texts in a row's one column: each with its length before it.
pub(super) fn pack(texts: &[Arc<str>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

fn unpack(mut bytes: &[u8]) -> Result<Vec<Arc<str>>, Trouble> {
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

pub(super) fn number(row: &Row<'_>, at: usize) -> Result<u64, Trouble> {
    Ok(row.get::<_, i64>(at)?.cast_unsigned())
}

/// A number in a stream, from which it can still be counted on.
fn place(row: &Row<'_>, at: usize) -> Result<u64, Trouble> {
    let place = number(row, at)?;
    if place > 1 << 62 {
        return Err(damaged("a number that no stream comes to"));
    }
    Ok(place)
}

fn maybe(row: &Row<'_>, at: usize) -> Result<Option<u64>, Trouble> {
    Ok(row.get::<_, Option<i64>>(at)?.map(i64::cast_unsigned))
}

fn text<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a str, Trouble> {
    Ok(row.get_ref(at)?.as_str().map_err(rusqlite::Error::from)?)
}

pub(super) fn blob<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a [u8], Trouble> {
    Ok(row.get_ref(at)?.as_blob().map_err(rusqlite::Error::from)?)
}

fn bytes<const N: usize>(row: &Row<'_>, at: usize) -> Result<[u8; N], Trouble> {
    blob(row, at)?.try_into().map_err(|_| damaged("a value of another length"))
}

fn name(text: &str) -> Result<Name, Trouble> {
    if text.starts_with('@') && text.len() <= NAME_BYTES_MAX {
        return Ok(Name::made_by_daemon(text));
    }
    Name::parse(text).map_err(|_| damaged("a name that nobody can have"))
}

fn damaged(what: &str) -> Trouble {
    Trouble::Damaged(format!("there is {what} in it"))
}
