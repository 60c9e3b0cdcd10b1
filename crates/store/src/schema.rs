//! The tables, and the migrations from older versions.

use super::{
    error::StoreError,
    file::{self, APPLICATION_ID},
};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// The tables of one version, and the steps from earlier versions.
pub(super) struct Schema {
    /// The version.
    pub(super) version: u32,
    /// The statements that create the tables of version [`FIRST`].
    pub(super) create: &'static str,
    /// The names of the tables and of their indices.
    pub(super) tables: &'static [&'static str],
    /// The migrations: step `n` turns version `FIRST + n` into the next. A new file takes all.
    pub(super) steps: &'static [&'static str],
}

/// The first version that is migrated in place. The content of older files is
/// [taken over](super::takeover) into a new one.
pub(super) const FIRST: u32 = 6;

/// The schema of this program.
pub(super) const CURRENT: Schema = Schema {
    version: 7,
    create: CREATE,
    tables: &[
        "agent",
        "answer",
        "delivery",
        "delivery_dead",
        "delivery_message",
        "delivery_open",
        "delivery_recipient",
        "delivery_sender",
        "delivery_topic",
        "double",
        "holder",
        "message",
        "meta",
        "question",
        "session",
        "stream",
        "words",
    ],
    steps: &[EARLIER],
};

/// The tables. Nothing is moved: a delivery stays where its SEND has put it until it is deleted.
///
/// - `meta`: the clock, the highest numbers, the number of open deliveries, the number up to which
///   the words of messages are indexed (0 until somebody searches), a number that each recovery
///   changes, the highest number of a delivery whose id has another form, and the key of the ids.
/// - `delivery`: `ended` is the moment of the daemon's clock at which the delivery was over, and
///   that of its acceptance before, so that the end does not change the row's length. `sender_name`
///   and `topic` are those of its message, and `bytes` is what the sender is charged with once the
///   delivery is over.
/// - `double`: the dedup records.
/// - `holder`: the bytes of ended deliveries by whom they are charged to.
///
/// Each index has its queries: what a start reads (`delivery_open`, `delivery_dead`); the
/// deliveries of a message, for searches and deletions (`delivery_message`); and those of a person, by agents
/// (`delivery_sender`, `delivery_recipient`) and topic (`delivery_topic`).
const CREATE: &str = "
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    monotonic INTEGER NOT NULL, unix_ms INTEGER NOT NULL,
    agent INTEGER NOT NULL, stream INTEGER NOT NULL,
    message INTEGER NOT NULL, delivery INTEGER NOT NULL, open INTEGER NOT NULL,
    indexed INTEGER NOT NULL, reopened INTEGER NOT NULL,
    old_ids INTEGER NOT NULL, id_key BLOB NOT NULL
) STRICT;
INSERT INTO meta VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, randomblob(16));
CREATE TABLE message (
    number INTEGER PRIMARY KEY,
    sender INTEGER NOT NULL, unix_ms INTEGER NOT NULL, to_everyone INTEGER NOT NULL,
    checksum INTEGER NOT NULL, proof TEXT NOT NULL, session TEXT NOT NULL, send_id TEXT NOT NULL,
    shared BLOB NOT NULL
) STRICT;
CREATE TABLE delivery (
    number INTEGER PRIMARY KEY, message INTEGER NOT NULL, stream INTEGER NOT NULL,
    recipient INTEGER NOT NULL, name TEXT NOT NULL COLLATE NOCASE, seq INTEGER NOT NULL,
    id BLOB NOT NULL, expires INTEGER NOT NULL, attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL, ending INTEGER NOT NULL, ended_ms INTEGER NOT NULL, code TEXT,
    why TEXT, checksum INTEGER NOT NULL, ended INTEGER NOT NULL,
    sender_name TEXT NOT NULL COLLATE NOCASE, topic TEXT, bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX delivery_open ON delivery (number) WHERE ending = 0;
CREATE INDEX delivery_dead ON delivery (number, id, recipient) WHERE ending = 2;
CREATE INDEX delivery_message ON delivery (message);
CREATE INDEX delivery_sender ON delivery (sender_name, number);
CREATE INDEX delivery_recipient ON delivery (name, number);
CREATE INDEX delivery_topic ON delivery (topic, number) WHERE topic IS NOT NULL;
CREATE TABLE holder (name TEXT PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE double (
    sender INTEGER NOT NULL, message INTEGER NOT NULL, fingerprint BLOB NOT NULL,
    recipients INTEGER, remaining BLOB,
    PRIMARY KEY (sender, message)
) STRICT, WITHOUT ROWID;
CREATE TABLE agent (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, since_unix_ms INTEGER NOT NULL,
    forget_at INTEGER, guest_key BLOB
) STRICT;
CREATE TABLE session (
    agent INTEGER PRIMARY KEY, id TEXT NOT NULL, token BLOB NOT NULL, spent BLOB, expires INTEGER,
    ack INTEGER NOT NULL, resume INTEGER NOT NULL, max_inflight INTEGER NOT NULL,
    supports_topics INTEGER NOT NULL, subscriptions BLOB NOT NULL, former BLOB
) STRICT;
CREATE TABLE stream (
    number INTEGER PRIMARY KEY, sender INTEGER NOT NULL, recipient INTEGER NOT NULL, topic TEXT,
    reserved INTEGER NOT NULL
) STRICT;
CREATE TABLE answer (
    number INTEGER PRIMARY KEY, agent INTEGER NOT NULL, checksum INTEGER NOT NULL,
    frame BLOB NOT NULL
) STRICT;
CREATE TABLE question (
    delivery BLOB PRIMARY KEY, sender INTEGER NOT NULL, recipient INTEGER NOT NULL,
    send_id TEXT NOT NULL, correlation_id TEXT NOT NULL, timeout_ms INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (
    body, content = '', contentless_delete = 1, tokenize = 'trigram case_sensitive 1'
);
";

/// Version 7: the names that an agent had before, with blanks between them.
const EARLIER: &str = "ALTER TABLE agent ADD COLUMN earlier TEXT";

/// The state in which a file was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    /// The file was empty.
    New,
    /// The file has the current version.
    Current,
    /// The file was older, and is kept at this path.
    Migrated(PathBuf),
}

/// Brings a file to the version of `schema`: creates the tables in an empty file, copies and
/// migrates an older one.
pub(super) fn prepare(
    connection: &mut Connection,
    path: &Path,
    schema: &Schema,
) -> Result<Prepared, StoreError> {
    let found = file::schema_version(connection)?;
    if found == 0 {
        create(connection, schema)?;
        return Ok(Prepared::New);
    }
    if found > schema.version {
        return Err(StoreError::Newer { found, known: schema.version });
    }
    if found < FIRST {
        return Err(StoreError::Damaged("it was put in place of a newer one".to_owned()));
    }
    let mut prepared = Prepared::Current;
    if found < schema.version {
        let copy = file::unused_name(path, &format!(".before-v{found}"));
        file::copy(connection, &copy)?;
        prepared = Prepared::Migrated(copy);
        migrate(connection, found, schema)?;
    }
    check(connection, schema)?;
    Ok(prepared)
}

/// Creates the tables in an empty file.
pub(super) fn create(connection: &mut Connection, schema: &Schema) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(schema.create)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    step(&transaction, FIRST, schema)?;
    Ok(transaction.commit()?)
}

/// Takes all steps or none.
fn migrate(connection: &mut Connection, found: u32, schema: &Schema) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    step(&transaction, found, schema)?;
    Ok(transaction.commit()?)
}

fn step(connection: &Connection, found: u32, schema: &Schema) -> Result<(), StoreError> {
    for step in schema.steps.iter().skip((found - FIRST) as usize) {
        connection.execute_batch(step)?;
    }
    Ok(connection.pragma_update(None, "user_version", schema.version)?)
}

/// Checks that all tables and indices exist.
pub(super) fn check(connection: &Connection, schema: &Schema) -> Result<(), StoreError> {
    let mut statement = connection.prepare("SELECT count(*) FROM sqlite_schema WHERE name = ?")?;
    for table in schema.tables {
        if statement.query_row([table], |row| row.get::<_, u32>(0))? == 0 {
            return Err(StoreError::Damaged(format!("its table or index `{table}` is missing")));
        }
    }
    Ok(())
}
