//! Writes changes as rows, inside one transaction.

use super::{
    index,
    row::{self, Stored, signed},
};
use protocol::record::{
    AcceptedSend, AgentRecord, Change, Clock, DedupRecord, DeliveryRecord, Ending, LastNumbers,
    MessageRecord, StreamRecord,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Result, params};
use std::collections::BTreeMap;

/// Writes changes. The most frequent statements stay prepared.
pub(super) struct Writer<'c> {
    connection: &'c Connection,
    message: CachedStatement<'c>,
    delivery: CachedStatement<'c>,
    dedup: CachedStatement<'c>,
    ended: CachedStatement<'c>,
    written: Written,
}

/// A summary of a transaction.
#[derive(Default)]
pub(super) struct Written {
    /// The highest numbers of records, including numbers that are only referred to.
    pub(super) last: LastNumbers,
    /// Deliveries that ended.
    pub(super) ended: Vec<u64>,
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
    /// A writer that knows the highest numbers so far.
    pub(super) fn new(connection: &'c Connection, last: LastNumbers) -> Result<Self> {
        let cached = |sql: &str| connection.prepare_cached(sql);
        Ok(Self {
            connection,
            message: cached(&row::insert_message())?,
            delivery: cached(row::INSERT_DELIVERY)?,
            dedup: cached(&DedupRecord::insert())?,
            ended: cached(&row::end_delivery("delivery"))?,
            written: Written { last, ..Written::default() },
        })
    }

    /// Writes one change. A change to an unknown number is no error: the message that the change is
    /// about was refused.
    pub(super) fn apply(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Accepted(accepted) => self.accepted(accepted),
            Change::AcceptedAgain(accepted) => {
                self.remove(accepted.message.number, &numbers_of(accepted))?;
                self.accepted(accepted)
            }
            Change::Attempted { delivery, attempts, failures } => {
                let values = params![signed(*delivery), attempts, failures];
                for table in ["delivery", "history"] {
                    let set = "SET attempts = ?2, failures = ?3 WHERE number = ?1";
                    self.run(&format!("UPDATE {table} {set}"), values)?;
                }
                Ok(())
            }
            Change::Ended { delivery, ending, unix_ms } => self.ended(*delivery, ending, *unix_ms),
            Change::Redelivered { delivery, expires } => {
                redeliver(self.connection, *delivery, signed(expires.0))
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
        }
    }

    /// Writes the clock and the highest numbers, as the last step.
    pub(super) fn finish(self, clock: Clock) -> Result<Written> {
        self.run(row::UPDATE_META, row::meta_values(clock, &self.written.last))?;
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
            Some(dedup) => self.dedup(dedup),
            None => self.run(
                "DELETE FROM double WHERE sender = ? AND message = ?",
                [signed(undo.sender), signed(undo.message)],
            ),
        }
    }

    /// Removes deliveries, and their message if no other delivery refers to it.
    fn remove(&self, message: u64, deliveries: &[u64]) -> Result<()> {
        let remove = |table| -> Result<u32> {
            let sql = format!("DELETE FROM {table} WHERE number = ?");
            let mut delete = self.connection.prepare_cached(&sql)?;
            let mut gone = 0;
            for delivery in deliveries {
                gone += u32::from(delete.execute([signed(*delivery)])? > 0);
            }
            Ok(gone)
        };
        release(self.connection, message, remove("history")?, remove("delivery")?)
    }

    fn accepted(&mut self, accepted: &AcceptedSend) -> Result<()> {
        let message = &accepted.message;
        if !accepted.deliveries.is_empty() {
            self.message(message, accepted.deliveries.len())?;
        }
        for delivery in &accepted.deliveries {
            self.delivery(delivery, message.unix_ms)?;
        }
        self.dedup(&accepted.dedup)?;
        *self.written.dedup.entry(accepted.dedup.sender).or_default() += 1;
        let last = &mut self.written.last;
        last.message = last.message.max(message.number);
        last.agent = last.agent.max(message.sender);
        Ok(())
    }

    fn message(&mut self, message: &MessageRecord, deliveries: usize) -> Result<()> {
        if message.number <= self.written.last.message {
            self.index_if_late(message)?;
        }
        self.message.execute(row::message_values(message, deliveries))?;
        Ok(())
    }

    /// Indexes a message that is stored again after the index has passed its number.
    fn index_if_late(&self, message: &MessageRecord) -> Result<()> {
        let late = "SELECT ?1 <= (SELECT indexed FROM meta)
                        AND NOT EXISTS (SELECT 1 FROM message WHERE number = ?1)";
        let mut statement = self.connection.prepare_cached(late)?;
        if statement.query_row([signed(message.number)], |row| row.get(0))? {
            index::index_words(self.connection, message.number, &message.shared)?;
        }
        Ok(())
    }

    fn delivery(&mut self, delivery: &DeliveryRecord, unix_ms: u64) -> Result<()> {
        self.delivery.execute(row::delivery_values(delivery, unix_ms))?;
        if delivery.number <= self.written.last.delivery {
            index::list_if_late(self.connection, delivery.number)?;
        }
        let last = &mut self.written.last;
        last.delivery = last.delivery.max(delivery.number);
        last.stream = last.stream.max(delivery.stream);
        last.agent = last.agent.max(delivery.to);
        Ok(())
    }

    fn dedup(&mut self, record: &DedupRecord) -> Result<()> {
        self.dedup.execute(record.values())?;
        Ok(())
    }

    fn ended(&mut self, delivery: u64, ending: &Ending, unix_ms: u64) -> Result<()> {
        if *ending == Ending::Erased {
            return self.erase(delivery);
        }
        if self.ended.execute(row::ending_values(delivery, ending, unix_ms))? > 0 {
            self.written.ended.push(delivery);
            return Ok(());
        }
        let values = row::ending_values(delivery, ending, unix_ms);
        self.run(&row::end_delivery("history"), values)
    }

    /// Deletes a delivery, and its message with it if it was the message's last one.
    fn erase(&mut self, delivery: u64) -> Result<()> {
        self.written.has_erased = true;
        for (table, cold, hot) in [("delivery", 0, 1), ("history", 1, 0)] {
            let sql = format!("DELETE FROM {table} WHERE number = ? RETURNING message");
            let mut statement = self.connection.prepare_cached(&sql)?;
            let message = statement.query_map([signed(delivery)], |row| row.get::<_, i64>(0))?;
            for message in message.collect::<Result<Vec<_>>>()? {
                release(self.connection, message.cast_unsigned(), cold, hot)?;
            }
        }
        Ok(())
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
        self.run(&T::insert(), record.values())
    }

    fn run(&self, sql: &str, values: impl rusqlite::Params) -> Result<()> {
        self.connection.prepare_cached(sql)?.execute(values).map(drop)
    }
}

fn numbers_of(accepted: &AcceptedSend) -> Vec<u64> {
    accepted.deliveries.iter().map(|delivery| delivery.number).collect()
}

/// Makes a dead letter an open delivery again, wherever the dead letter is: in the table of
/// deliveries or in the history.
fn redeliver(connection: &Connection, delivery: u64, expires: i64) -> Result<()> {
    let reopen = "UPDATE delivery SET ending = 0, expires = ?2, attempts = 0, failures = 0,
                     code = NULL, why = NULL WHERE number = ?1";
    let values = [signed(delivery), expires];
    if connection.prepare_cached(reopen)?.execute(values)? > 0 {
        return Ok(());
    }
    let message: Option<i64> = connection
        .prepare_cached("SELECT message FROM history WHERE number = ?")?
        .query_row([signed(delivery)], |row| row.get(0))
        .optional()?;
    let Some(message) = message else { return Ok(()) };
    for sql in [
        &format!(
            "INSERT INTO delivery ({0}) SELECT {0} FROM history WHERE number = ?",
            row::DELIVERY
        ),
        "DELETE FROM history WHERE number = ?",
    ] {
        connection.prepare_cached(sql)?.execute([signed(delivery)])?;
    }
    connection
        .prepare_cached("UPDATE message SET hot = hot + 1, cold = cold - 1 WHERE number = ?")?
        .execute([message])?;
    index::list_if_late(connection, delivery)?;
    connection.prepare_cached(reopen)?.execute(values).map(drop)
}

/// Lowers a message's counts of deliveries, and deletes the message when no delivery is left.
pub(super) fn release(connection: &Connection, message: u64, cold: u32, hot: u32) -> Result<()> {
    connection
        .prepare_cached("UPDATE message SET cold = cold - ?2, hot = hot - ?3 WHERE number = ?1")?
        .execute(params![signed(message), cold, hot])?;
    let dropped = connection
        .prepare_cached("DELETE FROM message WHERE number = ? AND hot <= 0 AND cold <= 0")?
        .execute([signed(message)])?;
    if dropped > 0 {
        connection
            .prepare_cached("DELETE FROM words WHERE rowid = ?")?
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
