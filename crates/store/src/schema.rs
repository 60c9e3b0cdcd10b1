//! The tables, and the migrations from older versions.

use super::{
    error::StoreError,
    file::{self, APPLICATION_ID},
    row,
};
use rusqlite::Connection;
use std::path::Path;

/// The tables of one version, and the steps from earlier versions.
pub(super) struct Schema {
    /// The version, counted from 1.
    pub(super) version: u32,
    /// The statements that create the tables of version 1.
    pub(super) create: &'static str,
    /// The names of the tables.
    pub(super) tables: &'static [&'static str],
    /// The migrations: step `n` turns version `n + 1` into the next. A new file takes all steps.
    pub(super) steps: &'static [Step],
}

/// A migration by one version.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// The statements that change the tables.
    pub(super) sql: &'static str,
    /// Computes values that no statement can.
    pub(super) fill: fn(&Connection) -> Result<(), StoreError>,
}

impl Step {
    /// A step of statements only.
    pub(super) const fn sql(sql: &'static str) -> Self {
        Self { sql, fill: |_| Ok(()) }
    }
}

/// The schema of this program.
pub(super) const CURRENT: Schema = Schema {
    version: 5,
    create: CREATE,
    tables: &[
        "agent", "answer", "delivery", "double", "history", "holder", "lookup", "message", "meta",
        "question", "session", "stream", "words",
    ],
    steps: &STEPS,
};

/// The steps from version 1 to the current one.
pub(super) const STEPS: [Step; 4] = [
    Step::sql(NOTICES),
    Step { sql: HOLDERS, fill: row::fill_checksums },
    Step::sql(LOOKUP),
    Step::sql(KEYS),
];

/// Version 5: the keys of guests that may return, and the tokens before the last ones.
const KEYS: &str = "
ALTER TABLE agent ADD COLUMN guest_key BLOB;
ALTER TABLE session ADD COLUMN former BLOB;
";

/// Version 4: an index of the ids of deliveries and of their SENDs.
///
/// The send path does not write it: it has the rows of `delivery` up to number `listed`, which idle
/// times advance. Rows leave it with their delivery.
const LOOKUP: &str = "
CREATE TABLE lookup (
    key BLOB NOT NULL, delivery INTEGER NOT NULL, PRIMARY KEY (key, delivery)
) STRICT, WITHOUT ROWID;
ALTER TABLE meta ADD COLUMN listed INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER delivery_unlist AFTER DELETE ON delivery
WHEN old.number <= (SELECT listed FROM meta WHERE one = 1) BEGIN
    DELETE FROM lookup WHERE delivery = old.number AND key IN (old.id,
        (SELECT CAST(send_id AS BLOB) FROM message WHERE number = old.message));
END;
";

/// Version 3: checksums of deliveries, and for the history its age and who it is charged to.
///
/// `moved` is the moment of the daemon's clock at which a delivery came into the history. `holder`
/// is the principal that a row is charged to, with `bytes`; the table sums that up.
const HOLDERS: &str = "
ALTER TABLE delivery ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE history ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE history ADD COLUMN moved INTEGER NOT NULL DEFAULT 0;
ALTER TABLE history ADD COLUMN holder TEXT NOT NULL DEFAULT '';
ALTER TABLE history ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE history SET
    moved = (SELECT max(0, monotonic - min(max(unix_ms - ended_ms, 0), 2592000000)) FROM meta),
    holder = CASE WHEN substr(sender_key, 1, 6) = '@guest' THEN '@guest' ELSE sender_key END,
    bytes = 300 + coalesce((SELECT length(shared) / max(hot + cold, 1) FROM message
        WHERE message.number = history.message), 0);
CREATE INDEX history_holder ON history (holder, number);
CREATE TABLE holder (name TEXT PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO holder SELECT holder, sum(bytes) FROM history GROUP BY holder;
CREATE TRIGGER history_charge AFTER INSERT ON history BEGIN
    INSERT INTO holder VALUES (new.holder, new.bytes)
        ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER history_release AFTER DELETE ON history BEGIN
    UPDATE holder SET bytes = bytes - old.bytes WHERE name = old.holder;
    DELETE FROM holder WHERE name = old.holder AND bytes <= 0;
END;
";

/// Version 2: notices (table `answer`), and questions whose delivery is over.
const NOTICES: &str = "
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
/// The send path appends to `message`, `delivery` and `double` (dedup records), so these have no
/// indices. Ended deliveries move to `history` in idle times.
///
/// A delivery's row keeps its length when it is acknowledged: `ended_ms` is filled from the start,
/// and 0 and 1 take equal space. `hot` and `cold` count the rows of `delivery` and of `history`
/// that refer to a message.
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

/// The state in which a file was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    /// The file was empty.
    New,
    /// The file has the current version.
    Current,
    /// The file was older; the text is the path of its copy.
    Migrated(String),
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
    let mut prepared = Prepared::Current;
    if found < schema.version {
        prepared = Prepared::Migrated(file::copy_before(connection, path, found)?);
        migrate(connection, found, schema)?;
    }
    check(connection, schema)?;
    Ok(prepared)
}

fn create(connection: &mut Connection, schema: &Schema) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(schema.create)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    step(&transaction, 1, schema)?;
    Ok(transaction.commit()?)
}

/// Takes all steps or none.
fn migrate(connection: &mut Connection, found: u32, schema: &Schema) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    step(&transaction, found, schema)?;
    Ok(transaction.commit()?)
}

fn step(connection: &Connection, found: u32, schema: &Schema) -> Result<(), StoreError> {
    for step in schema.steps.iter().skip(found as usize - 1) {
        connection.execute_batch(step.sql)?;
        (step.fill)(connection)?;
    }
    Ok(connection.pragma_update(None, "user_version", schema.version)?)
}

/// Checks that all tables exist.
pub(super) fn check(connection: &Connection, schema: &Schema) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?")?;
    for table in schema.tables {
        if statement.query_row([table], |row| row.get::<_, u32>(0))? == 0 {
            return Err(StoreError::Damaged(format!("its table `{table}` is missing")));
        }
    }
    Ok(())
}
