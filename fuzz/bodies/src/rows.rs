//! Fuzzing of a store with arbitrary values in its rows. The store must be opened, perhaps after it
//! was set aside as damaged, or refused with an error. An opened store must be consistent: a router
//! starts with it, queries are answered, and the next start has no remarks.

use crossbeam_channel::bounded;
use protocol::{
    Moment, Now,
    client_frame::ClientBatch,
    payload::Durability,
    record::{Change, Clock, Filter, Query},
};
use router::{ClientId, Input, Limits, Output, Router};
use rusqlite::{Connection, params_from_iter, types::Value};
use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process,
    sync::{Arc, OnceLock},
};
use store::{Cancel, Claim, Job, Opened, Settings, Store};

/// The most values of one input. More values would only take longer.
const VALUES_MAX: usize = 32;

/// The most jobs that wait for a store at a time.
const JOBS_MAX: usize = 4;

const UNIX_MS: u64 = 1 << 40;

/// Runs an input, which is a list of values, each with its table and column.
pub fn run(bytes: &[u8]) {
    let folder = Folder::new();
    let path = folder.0.join("relay.db");
    fs::write(&path, template()).expect("a temporary file");
    damage(&path, bytes);
    if let Ok(opened) = open(&path) {
        run_router(opened);
        let reopened = open(&path).expect("a store that was opened before");
        assert!(reopened.remarks.is_empty(), "{:?}", reopened.remarks);
    }
}

/// The right to the folder, which no other process takes.
#[derive(Debug)]
struct Held;

impl Claim for Held {
    fn is_held(&self) -> io::Result<bool> {
        Ok(true)
    }
}

fn open(path: &Path) -> Result<Opened, String> {
    let settings = Settings {
        path: path.to_owned(),
        claim: Arc::new(Held),
        durability: Durability::Process,
        history_ms: 1 << 30,
        bytes_max: 1 << 30,
        dedup_max: 16,
        dead_letters_max: 16,
    };
    let opened = Store::open(settings, UNIX_MS, &mut drop);
    opened.map_err(|error| error.to_string()).inspect_err(|why| assert!(why.len() > 8, "{why}"))
}

/// Starts and stops a router with the store, and runs two kinds of queries.
fn run_router(opened: Opened) {
    let now = Now { monotonic: opened.image.clock.moment_at(UNIX_MS), unix_ms: UNIX_MS };
    let mut router = Router::new(Limits::default(), [7; 32]);
    let mut changes = Changes::default();
    changes.restore(&mut router, now, opened);
    let (jobs, waiting) = bounded(JOBS_MAX);
    for open in [true, false] {
        let filter = Filter { search: Some("word".into()), ..Filter::default() };
        let filter = if open { Filter::default() } else { filter };
        jobs.send(Job::Query(1, None, Query::List(filter), Cancel::default()))
            .expect("it waits here");
    }
    changes.handle(&mut router, now, Input::Tick);
    changes.handle(&mut router, now, Input::Stop("stop"));
    let store = changes.store.take().expect("it was restored");
    jobs.send(Job::Write { changes: changes.list, clock: Clock(now) }).expect("it waits here");
    drop(jobs);
    store.run(&waiting, |_| {});
}

/// The changes that a router has made, and its store.
#[derive(Default)]
struct Changes {
    list: Vec<Change>,
    store: Option<Store>,
}

impl Changes {
    fn restore(&mut self, router: &mut Router, now: Now, opened: Opened) {
        let mut out = Vec::new();
        router.restore(now, opened.image, &mut out);
        self.store = Some(opened.store);
        self.collect(out);
    }

    fn handle(&mut self, router: &mut Router, now: Now, input: Input<'_>) {
        let mut out = Vec::new();
        router.handle(now, input, &mut out);
        self.collect(out);
    }

    fn collect(&mut self, out: Vec<Output>) {
        let changes = out.into_iter().filter_map(|output| match output {
            Output::Persist(change) => Some(change),
            _ => None,
        });
        self.list.extend(changes);
    }
}

/// Returns the file of a store with rows in all tables.
fn template() -> &'static [u8] {
    static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let folder = Folder::new();
        let path = folder.0.join("relay.db");
        let opened = open(&path).expect("a new store");
        let now = Now { monotonic: Moment(1), unix_ms: UNIX_MS };
        let mut router = Router::new(Limits::default(), [7; 32]);
        let mut changes = Changes::default();
        changes.restore(&mut router, now, opened);
        for (id, frames) in [(1, BOB), (2, ANN)] {
            changes.handle(&mut router, now, Input::Connected(ClientId(id), None));
            for frame in frames {
                let batch = ClientBatch::of_frame(frame.as_bytes());
                let input = Input::Frame(ClientId(id), batch.frame(0));
                changes.handle(&mut router, now, input);
                let count = changes.list.len() as u64;
                changes.handle(&mut router, now, Input::Persisted(count));
            }
        }
        // Ann is away when her question times out.
        changes.handle(&mut router, now, Input::Disconnected(ClientId(2)));
        let now = Now { monotonic: Moment(100), unix_ms: UNIX_MS + 99 };
        changes.handle(&mut router, now, Input::Tick);
        let is_answer = |change: &Change| matches!(change, Change::Notice(_));
        assert!(changes.list.iter().any(is_answer), "an answer waits for Ann");
        let (jobs, waiting) = bounded(JOBS_MAX);
        let store = changes.store.take().expect("it was restored");
        jobs.send(Job::Write { changes: changes.list, clock: Clock(now) }).expect("it waits here");
        drop(jobs);
        store.run(&waiting, |_| {});
        // This row is a question with an ended delivery.
        let question = "INSERT INTO question VALUES (zeroblob(16), 2, 1, 'q', 'c', 1000, 1000)";
        let connection = Connection::open(&path).expect("the store's file");
        connection.execute_batch(question).expect("a row");
        drop(connection);
        fs::read(&path).expect("the store's file")
    })
}

const BOB: &[&str] = &[
    r#"{"v":1,"type":"HELLO","id":"h","ts":1,"payload":{"agent":"Bob","capabilities":{"resume":true}}}"#,
    r#"{"v":1,"type":"SUBSCRIBE","id":"s","ts":1,"topic":"news.*","payload":{}}"#,
    r#"{"v":1,"type":"SUBSCRIBE","id":"s","ts":1,"topic":"word","payload":{}}"#,
];

const ANN: &[&str] = &[
    r#"{"v":1,"type":"HELLO","id":"h","ts":1,"payload":{"agent":"Ann"}}"#,
    r#"{"v":1,"type":"SEND","id":"m","ts":1,"to":"Bob","payload":{"body":"a word"},"payload_meta":{"requires_ack":true}}"#,
    r#"{"v":1,"type":"SEND","id":"q","ts":1,"to":"Bob","payload":{"body":"a word?"},"payload_meta":{"sync":{"correlationId":"c","timeoutMs":50}}}"#,
    r#"{"v":1,"type":"SEND","id":"n","ts":1,"topic":"news.today","payload":{"body":"news"},"payload_meta":{"requires_ack":true}}"#,
];

/// Damages the store with the values of an input. Each value is written into a column of all rows
/// of a table, or the rows are copied.
fn damage(path: &Path, mut bytes: &[u8]) {
    let connection = Connection::open(path).expect("SQLite's own file");
    connection.execute_batch("PRAGMA synchronous = OFF").expect("no other process uses the file");
    let columns = columns(&connection);
    for _ in 0..VALUES_MAX {
        let Some(([at, kind], rest)) = bytes.split_first_chunk() else { return };
        let (table, column) = &columns[usize::from(*at) % columns.len()];
        let (value, rest) = value(*kind, rest);
        bytes = rest;
        // The statement copies the table's rows, so that rows are equal, or sets a column to the
        // value.
        let sql = match kind >> 6 {
            0 => format!("INSERT OR IGNORE INTO {table} SELECT * FROM {table} WHERE ?1 NOT NULL"),
            _ => format!("UPDATE OR IGNORE {table} SET {column} = ?1"),
        };
        // The schema does not allow some values. They cannot be in any store, so the error is
        // ignored.
        connection.execute(&sql, params_from_iter([value])).ok();
    }
}

fn value(kind: u8, bytes: &[u8]) -> (Value, &[u8]) {
    let (count, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let (taken, rest) = rest.split_at(usize::from(*count).min(rest.len()));
    let number = || {
        let mut eight = [0; 8];
        let count = taken.len().min(8);
        eight[..count].copy_from_slice(&taken[..count]);
        i64::from_le_bytes(eight)
    };
    let value = match kind % 5 {
        0 => Value::Null,
        1 => Value::Integer(number()),
        2 => Value::Integer(number().wrapping_neg()),
        3 => Value::Text(String::from_utf8_lossy(taken).into_owned()),
        _ => Value::Blob(taken.to_vec()),
    };
    (value, rest)
}

/// Returns the tables and columns of a store, without those of the full-text index.
fn columns(connection: &Connection) -> Vec<(String, String)> {
    let sql = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c
               WHERE m.type = 'table' AND m.name NOT LIKE 'words%' ORDER BY m.name, c.cid";
    let mut statement = connection.prepare(sql).expect("SQLite's own tables");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.expect("a query without parameters").map(|row| row.expect("two names")).collect()
}

/// A temporary directory, which is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("ar-rows-{}-{number}", process::id()));
        fs::create_dir(&folder).expect("a temporary directory");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
