//! Writes changes as rows, inside one transaction.

use super::{
    error::StoreError,
    holder::Charges,
    row::{self, OfMessage, Stored, number, signed},
    words,
};
use protocol::record::{
    AcceptedSend, AgentRecord, AnswerRecord, Change, Clock, DedupRecord, DeliveryRecord, Ending,
    LastNumbers, MessageRecord, StreamRecord,
};
use rusqlite::{CachedStatement, Connection, params};
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, StoreError>;

/// Writes changes. The most frequent statements stay prepared.
pub(super) struct Writer<'c> {
    connection: &'c Connection,
    clock: Clock,
    message: CachedStatement<'c>,
    delivery: CachedStatement<'c>,
    dedup: CachedStatement<'c>,
    open: CachedStatement<'c>,
    ended: CachedStatement<'c>,
    written: Written,
    charges: Charges,
    /// By how much the number of open deliveries has grown.
    more_open: i64,
}

/// A summary of a transaction.
#[derive(Default)]
pub(super) struct Written {
    /// The highest numbers of records, including numbers that are only referred to.
    pub(super) last: LastNumbers,
    /// The number of new dedup records by sender.
    pub(super) dedup: BTreeMap<u64, usize>,
    /// Whether a delivery was deleted, so that the index may have words of a deleted message.
    pub(super) has_erased: bool,
}

/// The state to restore if it is unknown whether a SEND reached the disk.
#[derive(Debug)]
pub(super) struct Undo {
    message: u64,
    sender: u64,
    deliveries: Vec<u64>,
    /// The dedup record of a SEND that was stored before.
    dedup: Option<DedupRecord>,
}

impl<'c> Writer<'c> {
    /// A writer that knows the highest numbers so far, and the time.
    pub(super) fn new(connection: &'c Connection, last: LastNumbers, clock: Clock) -> Result<Self> {
        let cached = |sql: &str| connection.prepare_cached(sql);
        Ok(Self {
            connection,
            clock,
            message: cached(&row::insert_message())?,
            delivery: cached(row::INSERT_DELIVERY)?,
            dedup: cached(&DedupRecord::insert())?,
            open: cached(row::FIND_OPEN)?,
            ended: cached(row::END_DELIVERY)?,
            written: Written { last, ..Written::default() },
            charges: Charges::default(),
            more_open: 0,
        })
    }

    /// Writes one change. A change to an unknown number is no error: the message that the change is
    /// about was refused.
    pub(super) fn apply(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Accepted(accepted) => {
                let is_new = accepted.message.number > self.written.last.message;
                self.accepted(accepted, is_new)
            }
            Change::AcceptedAgain(accepted) => {
                self.remove(accepted.message.number, &numbers_of(accepted))?;
                self.accepted(accepted, false)
            }
            Change::Attempted { delivery, attempts, failures } => {
                let sql = "UPDATE delivery SET attempts = ?2, failures = ?3 WHERE number = ?1";
                self.run(sql, params![signed(*delivery), attempts, failures])
            }
            Change::Ended { delivery, ending, unix_ms } => self.ended(*delivery, ending, *unix_ms),
            Change::Redelivered { delivery, expires } => {
                self.redeliver(*delivery, signed(expires.0))
            }
            Change::Agent(agent) => self.agent(agent),
            Change::AgentForgotten(agent) => {
                self.run("DELETE FROM agent WHERE number = ?", [signed(*agent)])?;
                self.run("DELETE FROM session WHERE agent = ?", [signed(*agent)])?;
                self.run("DELETE FROM double WHERE sender = ?", [signed(*agent)])
            }
            Change::Session(session) => {
                self.written.last.agent = self.written.last.agent.max(session.agent);
                self.replace(&**session)
            }
            Change::SessionEnded { agent } => {
                self.run("DELETE FROM session WHERE agent = ?", [signed(*agent)])
            }
            Change::Stream(stream) => self.stream(stream),
            Change::StreamEnded(stream) => {
                self.run("DELETE FROM stream WHERE number = ?", [signed(*stream)])
            }
            Change::Notice(notice) => self.replace(&**notice),
            Change::NoticeEnded(notice) => {
                self.run("DELETE FROM answer WHERE number = ?", [signed(*notice)])
            }
            Change::Question(question) => self.replace(&**question),
            Change::QuestionEnded(delivery) => {
                self.run("DELETE FROM question WHERE delivery = ?", [delivery.as_bytes()])
            }
            Change::Answer(answer) => self.answer(answer),
            Change::Sync => Ok(()),
        }
    }

    /// Writes the clock and the highest numbers, as the last step.
    pub(super) fn finish(self) -> Result<Written> {
        self.charges.write(self.connection)?;
        let values = row::meta_values(self.clock, &self.written.last, self.more_open);
        self.run(row::UPDATE_META, values)?;
        Ok(self.written)
    }

    /// Writes a new value, which shows whether the disk accepts writes.
    pub(super) fn probe(&self) -> Result<()> {
        self.run("UPDATE meta SET reopened = reopened + 1", [])
    }

    /// The state to restore if this SEND has to be undone.
    pub(super) fn undo_of(&self, accepted: &AcceptedSend) -> Result<Undo> {
        let (sender, message) = (accepted.dedup.sender, accepted.dedup.message);
        let dedup = if message <= self.written.last.message {
            find_dedup(self.connection, sender, message)?
        } else {
            None
        };
        Ok(Undo { message, sender, deliveries: numbers_of(accepted), dedup })
    }

    /// Removes the agents and streams that only a transaction of unknown outcome can have written:
    /// those that still exist are among the pending changes.
    pub(super) fn forget_unconfirmed(&self) -> Result<()> {
        let last = &self.written.last;
        self.run("DELETE FROM stream WHERE number > ?", [signed(last.stream)])?;
        self.run("DELETE FROM session WHERE agent > ?", [signed(last.agent)])?;
        self.run("DELETE FROM agent WHERE number > ?", [signed(last.agent)])
    }

    /// Undoes a SEND, whether or not it is stored.
    pub(super) fn undo(&mut self, undo: &Undo) -> Result<()> {
        self.remove(undo.message, &undo.deliveries)?;
        match &undo.dedup {
            Some(dedup) => self.replace(dedup),
            None => self.run(
                "DELETE FROM double WHERE sender = ? AND message = ?",
                [signed(undo.sender), signed(undo.message)],
            ),
        }
    }

    /// Removes deliveries, and their message if no other delivery refers to it.
    fn remove(&mut self, message: u64, deliveries: &[u64]) -> Result<()> {
        for delivery in deliveries {
            self.delete(*delivery)?;
        }
        Ok(delete_unused(self.connection, message)?)
    }

    /// Deletes a delivery. Returns its message.
    fn delete(&mut self, delivery: u64) -> Result<Option<u64>> {
        let sql = "DELETE FROM delivery WHERE number = ?
            RETURNING sender_name, bytes, ending, message";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([signed(delivery)])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        if row::is_open(row, 2)? {
            self.more_open -= 1;
        } else {
            self.charges.release(row)?;
        }
        let message = number(row, 3)?;
        // A statement that returns rows is over once it has no more of them.
        while rows.next()?.is_some() {}
        Ok(Some(message))
    }

    /// Writes an accepted SEND. If it is not new, it may have a dedup record.
    fn accepted(&mut self, accepted: &AcceptedSend, is_new: bool) -> Result<()> {
        let message = &accepted.message;
        let (checksum, recipients) = (row::message_checksum(message), accepted.deliveries.len());
        if recipients > 0 {
            self.message(message, checksum)?;
        }
        let of_message = OfMessage::new(checksum, &message.shared, recipients as u64);
        for delivery in &accepted.deliveries {
            self.delivery(delivery, &of_message)?;
        }
        if is_new {
            // A statement that may replace a row is dearer.
            self.dedup.execute(accepted.dedup.values())?;
        } else {
            self.replace(&accepted.dedup)?;
        }
        *self.written.dedup.entry(accepted.dedup.sender).or_default() += 1;
        self.note_message(message);
        Ok(())
    }

    /// Writes an answer, whose delivery has ended.
    fn answer(&mut self, answer: &AnswerRecord) -> Result<()> {
        let AnswerRecord { message, delivery } = answer;
        let checksum = row::message_checksum(message);
        self.message(message, checksum)?;
        self.delivery(delivery, &OfMessage::new(checksum, &message.shared, 1))?;
        self.note_message(message);
        self.ended(delivery.number, &Ending::Acknowledged, message.unix_ms)
    }

    fn note_message(&mut self, message: &MessageRecord) {
        let last = &mut self.written.last;
        last.message = last.message.max(message.number);
        last.agent = last.agent.max(message.sender);
    }

    fn message(&mut self, message: &MessageRecord, checksum: u32) -> Result<()> {
        if message.number <= self.written.last.message {
            self.index_if_late(message)?;
        }
        self.message.execute(row::message_values(message, checksum))?;
        Ok(())
    }

    /// Indexes a message that is stored again after the index has passed its number.
    fn index_if_late(&self, message: &MessageRecord) -> Result<()> {
        let late = "SELECT ?1 <= (SELECT indexed FROM meta)
                        AND NOT EXISTS (SELECT 1 FROM message WHERE number = ?1)";
        let mut statement = self.connection.prepare_cached(late)?;
        if statement.query_row([signed(message.number)], |row| row.get(0))? {
            words::index(self.connection, message.number, &message.shared)?;
        }
        Ok(())
    }

    fn delivery(&mut self, delivery: &DeliveryRecord, of_message: &OfMessage<'_>) -> Result<()> {
        if delivery.number <= self.written.last.delivery {
            self.delete(delivery.number)?;
        }
        self.delivery.execute(row::delivery_values(delivery, of_message, self.clock.0))?;
        self.more_open += 1;
        let last = &mut self.written.last;
        last.delivery = last.delivery.max(delivery.number);
        last.stream = last.stream.max(delivery.stream);
        last.agent = last.agent.max(delivery.to);
        Ok(())
    }

    fn ended(&mut self, delivery: u64, ending: &Ending, unix_ms: u64) -> Result<()> {
        if *ending == Ending::Erased {
            return self.erase(delivery);
        }
        let (number, kind, at, code, why) = row::ending_values(delivery, ending, unix_ms);
        let now = signed(self.clock.0.monotonic.0);
        if self.charges.charge(&mut self.open, number)? {
            self.more_open -= 1;
            self.ended.execute(params![number, kind, at, code, why, now])?;
            return Ok(());
        }
        self.run(row::END_AGAIN, (number, kind, at, code, why))
    }

    /// Deletes a delivery, and its message with it if it was the message's last one.
    fn erase(&mut self, delivery: u64) -> Result<()> {
        self.written.has_erased = true;
        match self.delete(delivery)? {
            Some(message) => Ok(delete_unused(self.connection, message)?),
            None => Ok(()),
        }
    }

    /// Makes a dead letter an open delivery again.
    fn redeliver(&mut self, delivery: u64, expires: i64) -> Result<()> {
        let sql = "UPDATE delivery SET ending = 0, code = NULL, why = NULL
            WHERE number = ? AND ending <> 0 RETURNING sender_name, bytes";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([signed(delivery)])?;
        while let Some(row) = rows.next()? {
            self.charges.release(row)?;
            self.more_open += 1;
        }
        let sql = "UPDATE delivery SET expires = ?2, attempts = 0, failures = 0 WHERE number = ?1";
        self.run(sql, [signed(delivery), expires])
    }

    fn agent(&mut self, agent: &AgentRecord) -> Result<()> {
        self.written.last.agent = self.written.last.agent.max(agent.number);
        self.replace(agent)
    }

    fn stream(&mut self, stream: &StreamRecord) -> Result<()> {
        self.written.last.stream = self.written.last.stream.max(stream.number);
        self.replace(stream)
    }

    /// Writes a record in place of the stored record with its key.
    fn replace<T: Stored>(&self, record: &T) -> Result<()> {
        self.run(&T::replace(), record.values())
    }

    fn run(&self, sql: &str, values: impl rusqlite::Params) -> Result<()> {
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }
}

fn numbers_of(accepted: &AcceptedSend) -> Vec<u64> {
    accepted.deliveries.iter().map(|delivery| delivery.number).collect()
}

/// Deletes a message, and its words, unless a delivery refers to it.
pub(super) fn delete_unused(connection: &Connection, message: u64) -> rusqlite::Result<()> {
    let dropped = connection
        .prepare_cached(
            "DELETE FROM message WHERE number = ?1
             AND NOT EXISTS (SELECT 1 FROM delivery WHERE message = ?1)",
        )?
        .execute([signed(message)])?;
    if dropped > 0 {
        connection
            .prepare_cached(
                "DELETE FROM words WHERE rowid = ?1 AND ?1 <= (SELECT indexed FROM meta)",
            )?
            .execute([signed(message)])?;
    }
    Ok(())
}

fn find_dedup(connection: &Connection, sender: u64, message: u64) -> Result<Option<DedupRecord>> {
    let sql = format!("{} WHERE sender = ? AND message = ?", DedupRecord::select());
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([signed(sender), signed(message)])?;
    // An unreadable row counts as none: at worst, a duplicate is accepted.
    Ok(rows.next()?.and_then(|row| DedupRecord::read(row).ok().flatten()))
}
