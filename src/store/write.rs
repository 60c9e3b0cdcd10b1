//! Changes become rows, inside one transaction.

use super::{
    row::{self, signed},
    sweep,
};
use crate::record::{
    AcceptedSend, AgentRecord, Change, Clock, DedupRecord, DeliveryRecord, Ending, LastNumbers,
    MessageRecord, NoticeRecord, QuestionRecord, SessionRecord, StreamRecord,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Result, params};
use std::collections::BTreeMap;

/// Writes changes. What is written often has its statement at hand.
pub(super) struct Writer<'c> {
    connection: &'c Connection,
    message: CachedStatement<'c>,
    delivery: CachedStatement<'c>,
    double: CachedStatement<'c>,
    ended: CachedStatement<'c>,
    written: Written,
}

/// What a transaction wrote, as far as the rest of the store has to know.
#[derive(Default)]
pub(super) struct Written {
    /// The highest numbers, also of what is only referred to.
    pub(super) last: LastNumbers,
    /// Deliveries that ended.
    pub(super) ended: Vec<u64>,
    /// New doubles by sender.
    pub(super) doubles: BTreeMap<u64, usize>,
}

/// What is to be undone where nobody knows whether a SEND reached the disk.
#[derive(Debug)]
pub(super) struct Undo {
    message: u64,
    sender: u64,
    deliveries: Vec<u64>,
    /// Of a message that has come before.
    double: Option<DedupRecord>,
}

impl<'c> Writer<'c> {
    /// A writer that knows the highest numbers so far.
    pub(super) fn new(connection: &'c Connection, last: LastNumbers) -> Result<Self> {
        let cached = |sql| connection.prepare_cached(sql);
        Ok(Self {
            connection,
            message: cached(
                "INSERT INTO message (number, hot, cold, sender, unix_ms, to_everyone, checksum,
                     proof, session, send_id, shared)
                 VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT DO UPDATE SET hot = hot + excluded.hot",
            )?,
            delivery: cached(
                "INSERT OR REPLACE INTO delivery VALUES
                 (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, ?11, NULL, NULL)",
            )?,
            double: cached("INSERT OR REPLACE INTO double VALUES (?1, ?2, ?3, ?4, ?5)")?,
            ended: cached(
                "UPDATE delivery SET ending = ?2, ended_ms = ?3, code = ?4, why = ?5
                 WHERE number = ?1",
            )?,
            written: Written { last, ..Written::default() },
        })
    }

    /// Writes one change. A number that is unknown is no error: its message was refused.
    pub(super) fn apply(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Accepted(taken) => self.taken(taken),
            Change::AcceptedAgain(taken) => {
                self.take_back(taken.message.number, &numbers_of(taken))?;
                self.taken(taken)
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
                revive(self.connection, *delivery, signed(expires.0))
            }
            Change::Agent(agent) => self.agent(agent),
            Change::AgentForgotten(agent) => {
                self.run("DELETE FROM agent WHERE number = ?", [signed(*agent)])?;
                self.run("DELETE FROM session WHERE agent = ?", [signed(*agent)])?;
                self.run("DELETE FROM double WHERE sender = ?", [signed(*agent)])
            }
            Change::Session(session) => self.session(session),
            Change::SessionEnded { agent } => {
                self.run("DELETE FROM session WHERE agent = ?", [signed(*agent)])
            }
            Change::Stream(stream) => self.stream(stream),
            Change::StreamEnded(stream) => {
                self.run("DELETE FROM stream WHERE number = ?", [signed(*stream)])
            }
            Change::Notice(answer) => self.answer(answer),
            Change::NoticeEnded(answer) => {
                self.run("DELETE FROM answer WHERE number = ?", [signed(*answer)])
            }
            Change::Question(question) => self.question(question),
            Change::QuestionEnded(delivery) => {
                self.run("DELETE FROM question WHERE delivery = ?", [delivery.as_bytes()])
            }
        }
    }

    /// Writes the time and the numbers, and so ends.
    pub(super) fn finish(self, clock: Clock) -> Result<Written> {
        let last = &self.written.last;
        self.run(
            "UPDATE meta SET monotonic = ?, unix_ms = ?, agent = ?, stream = ?, message = ?,
                 delivery = ?",
            params![
                signed(clock.0.monotonic.0),
                signed(clock.0.unix_ms),
                signed(last.agent),
                signed(last.stream),
                signed(last.message),
                signed(last.delivery)
            ],
        )?;
        Ok(self.written)
    }

    /// Writes something that was not there, so that it shows whether the disk takes it.
    pub(super) fn prove(&self) -> Result<()> {
        self.run("UPDATE meta SET reopened = reopened + 1", [])
    }

    /// What it takes to undo this SEND.
    pub(super) fn undo_of(&self, taken: &AcceptedSend) -> Result<Undo> {
        let (sender, message) = (taken.dedup.sender, taken.dedup.message);
        let double = if message <= self.written.last.message {
            read_double(self.connection, sender, message)?
        } else {
            None
        };
        Ok(Undo { message, sender, deliveries: numbers_of(taken), double })
    }

    /// Takes a SEND back, whether or not it is there.
    pub(super) fn undo(&mut self, undo: &Undo) -> Result<()> {
        self.take_back(undo.message, &undo.deliveries)?;
        match &undo.double {
            Some(double) => self.double(double),
            None => self.run(
                "DELETE FROM double WHERE sender = ? AND message = ?",
                [signed(undo.sender), signed(undo.message)],
            ),
        }
    }

    /// Removes deliveries, and their message if it has no others.
    fn take_back(&self, message: u64, deliveries: &[u64]) -> Result<()> {
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

    fn taken(&mut self, taken: &AcceptedSend) -> Result<()> {
        let message = &taken.message;
        if !taken.deliveries.is_empty() {
            self.message(message, taken.deliveries.len())?;
        }
        for delivery in &taken.deliveries {
            self.delivery(delivery, message.unix_ms)?;
        }
        self.double(&taken.dedup)?;
        *self.written.doubles.entry(taken.dedup.sender).or_default() += 1;
        let last = &mut self.written.last;
        last.message = last.message.max(message.number);
        last.agent = last.agent.max(message.sender);
        Ok(())
    }

    fn message(&mut self, message: &MessageRecord, deliveries: usize) -> Result<()> {
        if message.number <= self.written.last.message {
            self.index_if_late(message)?;
        }
        self.message.execute(params![
            signed(message.number),
            signed(deliveries as u64),
            signed(message.sender),
            signed(message.unix_ms),
            message.to_everyone,
            row::checksum(message),
            message.proof.as_str(),
            &*message.session,
            &*message.send_id,
            &*message.shared
        ])?;
        Ok(())
    }

    /// A message that comes again may be new here all the same; the sweep has passed its number then.
    fn index_if_late(&self, message: &MessageRecord) -> Result<()> {
        let late = "SELECT ?1 <= (SELECT indexed FROM meta)
                        AND NOT EXISTS (SELECT 1 FROM message WHERE number = ?1)";
        let mut statement = self.connection.prepare_cached(late)?;
        if statement.query_row([signed(message.number)], |row| row.get(0))? {
            sweep::index(self.connection, message.number, &message.shared)?;
        }
        Ok(())
    }

    fn delivery(&mut self, delivery: &DeliveryRecord, unix_ms: u64) -> Result<()> {
        self.delivery.execute(params![
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
            signed(unix_ms)
        ])?;
        let last = &mut self.written.last;
        last.delivery = last.delivery.max(delivery.number);
        last.stream = last.stream.max(delivery.stream);
        last.agent = last.agent.max(delivery.to);
        Ok(())
    }

    fn double(&mut self, double: &DedupRecord) -> Result<()> {
        self.double.execute(params![
            signed(double.sender),
            signed(double.message),
            double.fingerprint,
            double.recipients.map(signed),
            row::remaining(&double.remaining)
        ])?;
        Ok(())
    }

    fn ended(&mut self, delivery: u64, ending: &Ending, unix_ms: u64) -> Result<()> {
        let (kind, code, why) = row::ending(ending);
        let values = params![signed(delivery), kind, signed(unix_ms), code, why];
        if self.ended.execute(values)? > 0 {
            self.written.ended.push(delivery);
            return Ok(());
        }
        self.run(
            "UPDATE history SET ending = ?2, ended_ms = ?3, code = ?4, why = ?5 WHERE number = ?1",
            values,
        )
    }

    fn agent(&mut self, agent: &AgentRecord) -> Result<()> {
        self.written.last.agent = self.written.last.agent.max(agent.number);
        self.run(
            "INSERT OR REPLACE INTO agent VALUES (?, ?, ?, ?)",
            params![
                signed(agent.number),
                agent.name.as_str(),
                signed(agent.since_unix_ms),
                agent.forget_at.map(|moment| signed(moment.0))
            ],
        )
    }

    fn session(&self, session: &SessionRecord) -> Result<()> {
        let granted = &session.capabilities;
        self.run(
            "INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                signed(session.agent),
                &*session.id,
                session.token,
                session.spent,
                session.expires.map(|moment| signed(moment.0)),
                granted.ack,
                granted.resume,
                signed(granted.max_inflight),
                granted.supports_topics,
                row::pack(&session.subscriptions)
            ],
        )
    }

    fn stream(&mut self, stream: &StreamRecord) -> Result<()> {
        self.written.last.stream = self.written.last.stream.max(stream.number);
        self.run(
            "INSERT OR REPLACE INTO stream VALUES (?, ?, ?, ?, ?)",
            params![
                signed(stream.number),
                signed(stream.from),
                signed(stream.to),
                stream.topic.as_deref(),
                signed(stream.reserved)
            ],
        )
    }

    fn answer(&self, answer: &NoticeRecord) -> Result<()> {
        self.run(
            "INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?)",
            params![
                signed(answer.number),
                signed(answer.agent),
                row::checksum_of_answer(answer),
                &*answer.frame
            ],
        )
    }

    fn question(&self, question: &QuestionRecord) -> Result<()> {
        self.run(
            "INSERT OR REPLACE INTO question VALUES (?, ?, ?, ?, ?, ?, ?)",
            params![
                question.delivery.as_bytes(),
                signed(question.from),
                signed(question.to),
                &*question.send_id,
                &*question.correlation_id,
                signed(question.timeout_ms),
                signed(question.until.0)
            ],
        )
    }

    fn run(&self, sql: &str, values: impl rusqlite::Params) -> Result<()> {
        self.connection.prepare_cached(sql)?.execute(values).map(drop)
    }
}

fn numbers_of(taken: &AcceptedSend) -> Vec<u64> {
    taken.deliveries.iter().map(|delivery| delivery.number).collect()
}

/// Opens a dead letter again, wherever it is.
fn revive(connection: &Connection, delivery: u64, expires: i64) -> Result<()> {
    let fresh = "UPDATE delivery SET ending = 0, expires = ?2, attempts = 0, failures = 0,
                     code = NULL, why = NULL WHERE number = ?1";
    let values = [signed(delivery), expires];
    if connection.prepare_cached(fresh)?.execute(values)? > 0 {
        return Ok(());
    }
    let message: Option<i64> = connection
        .prepare_cached("SELECT message FROM history WHERE number = ?")?
        .query_row([signed(delivery)], |row| row.get(0))
        .optional()?;
    let Some(message) = message else { return Ok(()) };
    for sql in [
        &format!("INSERT INTO delivery SELECT {} FROM history WHERE number = ?", row::DELIVERY),
        "DELETE FROM history WHERE number = ?",
    ] {
        connection.prepare_cached(sql)?.execute([signed(delivery)])?;
    }
    connection
        .prepare_cached("UPDATE message SET hot = hot + 1, cold = cold - 1 WHERE number = ?")?
        .execute([message])?;
    connection.prepare_cached(fresh)?.execute(values).map(drop)
}

/// Notes that fewer deliveries need a message, and drops it when none does.
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

fn read_double(connection: &Connection, sender: u64, message: u64) -> Result<Option<DedupRecord>> {
    let sql = format!("SELECT {} FROM double WHERE sender = ? AND message = ?", row::DOUBLE);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([signed(sender), signed(message)])?;
    // One that can't be read is as good as none: a SEND that comes again is taken again.
    Ok(rows.next()?.and_then(|row| row::double(row).ok()))
}
