//! The tables, and how those of an older version become them.

use super::{file, trouble::Trouble};
use rusqlite::Connection;
use std::path::Path;

/// Marks a database as ours: "AgRe".
const APPLICATION_ID: i32 = 0x4167_5265;

/// Tables of one version, and how to get there from those before.
pub(super) struct Schema {
    /// Its version, from 1.
    pub(super) version: u32,
    /// Makes the tables of version 1 in an empty file.
    pub(super) create: &'static str,
    /// Their names.
    pub(super) tables: &'static [&'static str],
    /// Step `n` turns version `n + 1` into the next, in a new file as in an old one.
    pub(super) steps: &'static [&'static str],
}

/// What this program reads and writes.
pub(super) const CURRENT: Schema = Schema {
    version: 2,
    create: CREATE,
    tables: &[
        "agent", "answer", "delivery", "double", "history", "message", "meta", "question",
        "session", "stream", "words",
    ],
    steps: &[ANSWERS],
};

/// Version 2: what waits for a sender, and what is asked by a delivery that is over.
pub(super) const ANSWERS: &str = "
CREATE TABLE answer (
    number INTEGER PRIMARY KEY, agent INTEGER NOT NULL, checksum INTEGER NOT NULL,
    frame BLOB NOT NULL
) STRICT;
CREATE TABLE question (
    delivery BLOB PRIMARY KEY, sender INTEGER NOT NULL, recipient INTEGER NOT NULL,
    send_id TEXT NOT NULL, correlation_id TEXT NOT NULL, timeout_ms INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Version 1.
///
/// The send path appends to `message`, `delivery` and `double`, so that these have no indices. What is
/// over moves to `history` in pauses.
///
/// A delivery's row keeps its length when it is acknowledged: `ended_ms` has its place from the start,
/// and 0 and 1 take equal room. `hot` and `cold` count the rows of `delivery` and of `history` that need
/// a message.
pub(super) const CREATE: &str = "
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    monotonic INTEGER NOT NULL, unix_ms INTEGER NOT NULL,
    agent INTEGER NOT NULL, stream INTEGER NOT NULL,
    message INTEGER NOT NULL, delivery INTEGER NOT NULL,
    indexed INTEGER NOT NULL, reopened INTEGER NOT NULL
) STRICT;
INSERT INTO meta VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0);
CREATE TABLE message (
    number INTEGER PRIMARY KEY, hot INTEGER NOT NULL, cold INTEGER NOT NULL,
    sender INTEGER NOT NULL, unix_ms INTEGER NOT NULL, to_everyone INTEGER NOT NULL,
    checksum INTEGER NOT NULL, proof TEXT NOT NULL, session TEXT NOT NULL, send_id TEXT NOT NULL,
    shared BLOB NOT NULL
) STRICT;
CREATE TABLE delivery (
    number INTEGER PRIMARY KEY, message INTEGER NOT NULL, stream INTEGER NOT NULL,
    recipient INTEGER NOT NULL, name TEXT NOT NULL, seq INTEGER NOT NULL, id BLOB NOT NULL,
    expires INTEGER NOT NULL, attempts INTEGER NOT NULL, failures INTEGER NOT NULL,
    ending INTEGER NOT NULL, ended_ms INTEGER NOT NULL, code TEXT, why TEXT
) STRICT;
CREATE TABLE double (
    sender INTEGER NOT NULL, message INTEGER NOT NULL, fingerprint BLOB NOT NULL,
    recipients INTEGER, remaining BLOB,
    PRIMARY KEY (sender, message)
) STRICT, WITHOUT ROWID;
CREATE TABLE agent (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, since_unix_ms INTEGER NOT NULL,
    forget_at INTEGER
) STRICT;
CREATE TABLE session (
    agent INTEGER PRIMARY KEY, id TEXT NOT NULL, token BLOB NOT NULL, spent BLOB, expires INTEGER,
    ack INTEGER NOT NULL, resume INTEGER NOT NULL, max_inflight INTEGER NOT NULL,
    supports_topics INTEGER NOT NULL, subscriptions BLOB NOT NULL
) STRICT;
CREATE TABLE stream (
    number INTEGER PRIMARY KEY, sender INTEGER NOT NULL, recipient INTEGER NOT NULL, topic TEXT,
    reserved INTEGER NOT NULL
) STRICT;
CREATE TABLE history (
    number INTEGER PRIMARY KEY, message INTEGER NOT NULL, stream INTEGER NOT NULL,
    recipient INTEGER NOT NULL, name TEXT NOT NULL, seq INTEGER NOT NULL, id BLOB NOT NULL,
    expires INTEGER NOT NULL, attempts INTEGER NOT NULL, failures INTEGER NOT NULL,
    ending INTEGER NOT NULL, ended_ms INTEGER NOT NULL, code TEXT, why TEXT,
    sender_key TEXT NOT NULL, recipient_key TEXT NOT NULL, topic TEXT, send_id TEXT NOT NULL
) STRICT;
CREATE INDEX history_id ON history (id);
CREATE INDEX history_send_id ON history (send_id);
CREATE INDEX history_message ON history (message);
CREATE INDEX history_sender ON history (sender_key, number);
CREATE INDEX history_recipient ON history (recipient_key, number);
CREATE INDEX history_topic ON history (topic, number) WHERE topic IS NOT NULL;
CREATE INDEX history_dead ON history (number, id, recipient) WHERE ending = 2;
CREATE VIRTUAL TABLE words USING fts5 (
    body, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);
";

/// What a file was like.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    /// Empty.
    New,
    /// As it is to be.
    Current,
    /// Older; it is copied, and where to.
    Migrated(String),
}

/// Sees that the file has the tables of `schema`: makes them in an empty file, migrates older ones after
/// a copy.
pub(super) fn prepare(
    connection: &mut Connection,
    path: &Path,
    schema: &Schema,
) -> Result<Prepared, Trouble> {
    let found = version(connection)?;
    if found == 0 {
        make(connection, schema)?;
        return Ok(Prepared::New);
    }
    if found > schema.version {
        return Err(Trouble::Newer { found, known: schema.version });
    }
    let mut prepared = Prepared::Current;
    if found < schema.version {
        prepared = Prepared::Migrated(file::copy_before(connection, path, found)?);
        migrate(connection, found, schema)?;
    }
    check(connection, schema)?;
    Ok(prepared)
}

/// The version of the schema in a file, 0 if there is nothing in it. Somebody else's is damage.
pub(super) fn version(connection: &Connection) -> Result<u32, Trouble> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (id, found) = (number("application_id")?, number("user_version")?);
    let objects: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if (id, found, objects) == (0, 0, 0) {
        return Ok(0);
    }
    match u32::try_from(found) {
        Ok(found) if found > 0 && id == APPLICATION_ID => Ok(found),
        _ => Err(Trouble::Damaged("it is some other program's database".to_owned())),
    }
}

fn make(connection: &mut Connection, schema: &Schema) -> Result<(), Trouble> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(schema.create)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    step(&transaction, 1, schema)?;
    Ok(transaction.commit()?)
}

/// All steps or none.
fn migrate(connection: &mut Connection, found: u32, schema: &Schema) -> Result<(), Trouble> {
    let transaction = connection.transaction()?;
    step(&transaction, found, schema)?;
    Ok(transaction.commit()?)
}

fn step(connection: &Connection, found: u32, schema: &Schema) -> Result<(), Trouble> {
    for step in schema.steps.iter().skip(found as usize - 1) {
        connection.execute_batch(step)?;
    }
    Ok(connection.pragma_update(None, "user_version", schema.version)?)
}

/// Whether all tables are there.
pub(super) fn check(connection: &Connection, schema: &Schema) -> Result<(), Trouble> {
    let mut statement = connection
        .prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?")?;
    for table in schema.tables {
        if statement.query_row([table], |row| row.get::<_, u32>(0))? == 0 {
            return Err(Trouble::Damaged(format!("its table `{table}` is missing")));
        }
    }
    Ok(())
}
