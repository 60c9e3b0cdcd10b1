//! The database file: opened exclusively, copied, set aside when it is damaged.

use super::{error::StoreError, job::Settings, words};
use platform::{
    paths::{create_private_file, open_private_file},
    process::SYSTEM,
};
use protocol::{calendar, payload::Durability};
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// The size of a page, in bytes.
pub(super) const PAGE_BYTES: u64 = 4096;

/// The length of the log, in pages, after which a commit checkpoints it. A shorter log makes
/// commits wait more often, and a longer log makes them wait longer.
pub(super) const CHECKPOINT_PAGES: u32 = 4_000;

/// The length of the log that is kept for reuse, in bytes.
const LOG_BYTES_KEPT: u32 = 64 << 20;

/// The page cache, in KiB.
const CACHE_KIB: u32 = 32 << 10;

/// The page cache of the connection that answers queries, in KiB.
const READER_CACHE_KIB: u32 = 8 << 10;

/// The number of statements that stay prepared.
const STATEMENTS_CACHED: usize = 64;

/// Settings of every connection: nothing of the file is mapped, no file is made for temporary data,
/// and damage is looked for.
const CAUTION: &str = "PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;
    PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON";

/// The suffix of a database's log.
const LOG: &str = "-wal";

/// The mark of a database of this program: "AgRe".
pub(super) const APPLICATION_ID: i32 = 0x4167_5265;

/// Opens the file exclusively, and creates it if it does not exist.
pub(super) fn connect(settings: &Settings) -> Result<Connection, StoreError> {
    // SQLite gives its log the same permissions.
    let length = open_private_file(&settings.path)?.metadata()?.len();
    let log_length = fs::metadata(log_of(&settings.path)).map_or(0, |log| log.len());
    // SQLite would take both for a new database, and remove the log.
    match length {
        0 if log_length > 0 => Err("it is empty, and its log is not"),
        1..PAGE_BYTES => Err("it is shorter than a page"),
        _ => Ok(()),
    }
    .map_err(|why| StoreError::Damaged(why.to_owned()))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = open(&settings.path, flags)?;
    // The mode is set before the first read, so that no file of shared memory is made.
    if shared_vfs().is_none() {
        connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
    }
    // The version is read first, since another program's file must not be changed.
    schema_version(&connection)?;
    connection.execute_batch(&format!("PRAGMA page_size = {PAGE_BYTES}"))?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::Io(io::Error::other(
            "its file system does not support a write-ahead log",
        )));
    }
    let (synchronous, full) = match settings.durability {
        Durability::Disk => ("FULL", "ON"),
        Durability::Process => ("NORMAL", "OFF"),
    };
    let pages = settings.bytes_max / PAGE_BYTES;
    // `fullfsync` is for macOS, whose plain sync does not reach the disk's medium.
    connection.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous};
         PRAGMA fullfsync = {full}; PRAGMA checkpoint_fullfsync = {full};
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
         PRAGMA journal_size_limit = {LOG_BYTES_KEPT};
         PRAGMA cache_size = -{CACHE_KIB};
         PRAGMA max_page_count = {pages};
         PRAGMA secure_delete = ON; PRAGMA foreign_keys = OFF;
         {CAUTION}"
    ))?;
    Ok(connection)
}

/// Opens a connection that shares the file with the others of this process, if the system can.
fn open(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let connection = match shared_vfs() {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs)?,
        None => Connection::open_with_flags(path, flags)?,
    };
    connection.busy_timeout(Duration::ZERO)?;
    // A connection that is dropped after a failed sync must not sync again.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    words::add_function(&connection)?;
    Ok(connection)
}

/// SQLite's way to lock the file against other processes while connections of this one share it,
/// with the log's index in memory. Windows has none.
fn shared_vfs() -> Option<&'static str> {
    (SYSTEM != "windows").then_some("unix-excl")
}

/// Opens a second connection to the file that `connect` has opened, for reading. `None` if the
/// system has no way to let a second connection in and other processes not.
pub(super) fn connect_reader(path: &Path) -> Result<Option<Connection>, StoreError> {
    if shared_vfs().is_none() {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = open(path, flags)?;
    connection.execute_batch(&format!(
        "PRAGMA query_only = ON; PRAGMA cache_size = -{READER_CACHE_KIB}; {CAUTION}"
    ))?;
    Ok(Some(connection))
}

/// Creates a private file that is worth nothing until it is complete: a crash may leave any part.
pub(super) fn create_draft(path: &Path) -> Result<Connection, StoreError> {
    drop(create_private_file(path)?);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.execute_batch(&format!(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA page_size = {PAGE_BYTES};
         PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{CACHE_KIB};
         {CAUTION}"
    ))?;
    Ok(connection)
}

/// Opens an existing file for reading. Neither the file nor its log changes.
pub(super) fn open_read_only(path: &Path) -> Result<Connection, StoreError> {
    let has_log = log_of(path).exists();
    // SQLite reads the log of a dead process only on a connection that may write.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    // Closing must not checkpoint. But if opening created the log, closing removes the log again.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
    connection.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA query_only = ON;
         PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON",
    )?;
    Ok(connection)
}

/// The version of the schema in a file; 0 if the file is empty.
///
/// # Errors
/// [`StoreError::Damaged`] if the file is the database of another program.
pub(super) fn schema_version(connection: &Connection) -> Result<u32, StoreError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (id, found) = (number("application_id")?, number("user_version")?);
    let objects: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if (id, found, objects) == (0, 0, 0) {
        return Ok(0);
    }
    match u32::try_from(found) {
        Ok(found) if found > 0 && id == APPLICATION_ID => Ok(found),
        _ => Err(StoreError::Damaged("it is a database of another program".to_owned())),
    }
}

/// Sets whether the next commits sync the log. One that does syncs all that was written before it.
pub(super) fn sync_commits(connection: &Connection, syncs: bool) -> Result<(), StoreError> {
    let synchronous = if syncs { "FULL" } else { "NORMAL" };
    Ok(connection.pragma_update(None, "synchronous", synchronous)?)
}

/// The number of pages in the log.
pub(super) fn log_pages(connection: &Connection) -> Result<u32, StoreError> {
    let pages = |row: &rusqlite::Row<'_>| row.get::<_, i32>(1);
    let pages = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], pages)?;
    Ok(u32::try_from(pages).unwrap_or(0))
}

/// Checkpoints what no reader needs any more. Once that is the whole log, the next commit writes to
/// its beginning.
pub(super) fn checkpoint(connection: &Connection) -> Result<(), StoreError> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)
}

/// Checkpoints the whole log and empties it. Returns false if it is being read.
pub(super) fn truncate_log(connection: &Connection) -> Result<bool, StoreError> {
    let busy = |row: &rusqlite::Row<'_>| row.get::<_, bool>(0);
    Ok(!connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], busy)?)
}

/// Empties the log of a file that was opened again.
///
/// After a failed sync, the system may show pages that are not on the disk. Anything appended after
/// them would be lost with them, so the log starts over.
pub(super) fn empty_log(connection: &Connection) -> Result<(), StoreError> {
    match truncate_log(connection)? {
        true => Ok(()),
        false => Err(StoreError::Io(io::Error::other("its log is in use"))),
    }
}

/// Closes the file after a last checkpoint.
pub(super) fn close(connection: Connection) -> Result<(), StoreError> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    connection.close().map_err(|(_, error)| error.into())
}

/// Copies the database into a new private file. A copy that fails leaves no file.
pub(super) fn copy(connection: &Connection, to: &Path) -> Result<(), StoreError> {
    let name = to.to_str().ok_or_else(|| {
        StoreError::Io(io::Error::other("its path is not UTF-8; choose another home"))
    })?;
    drop(create_private_file(to)?);
    if let Err(error) = connection.execute("VACUUM INTO ?", [name]) {
        // That error says more than one of the removal.
        drop(fs::remove_file(to));
        return Err(error.into());
    }
    Ok(())
}

/// Renames the file and its log, so that a new file can be begun. Returns the new path, or `None`
/// if neither is there.
pub(super) fn set_aside(path: &Path, why: &str, unix_ms: u64) -> io::Result<Option<PathBuf>> {
    let aside = unused_name(path, &format!("{why}-{}", stamp(unix_ms)));
    Ok(rename_all(path, &aside)?.then_some(aside))
}

/// Renames the file and its log. Returns false if neither is there.
pub(super) fn rename_all(path: &Path, to: &Path) -> io::Result<bool> {
    let mut renamed = false;
    for part in ["", LOG, "-shm"] {
        match fs::rename(with_suffix(path, part), with_suffix(to, part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            outcome => renamed |= outcome.is_ok(),
        }
    }
    Ok(renamed)
}

/// The first name with that suffix that is not in use.
pub(super) fn unused_name(path: &Path, suffix: &str) -> PathBuf {
    names(path, suffix).find(|name| !name.exists()).expect("there are more names than files")
}

/// The last name with that suffix that is in use.
pub(super) fn last_name(path: &Path, suffix: &str) -> Option<PathBuf> {
    names(path, suffix).take_while(|name| name.exists()).last()
}

fn names(path: &Path, suffix: &str) -> impl Iterator<Item = PathBuf> {
    let first = with_suffix(path, suffix);
    (1_u32..)
        .map(move |n| if n == 1 { first.clone() } else { with_suffix(&first, &format!("-{n}")) })
}

/// The path of a database's log.
pub(super) fn log_of(path: &Path) -> PathBuf {
    with_suffix(path, LOG)
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// A time in the form `20261120T093015Z`.
pub(super) fn stamp(unix_ms: u64) -> String {
    let seconds = &calendar::utc(unix_ms)[.."2026-11-20T09:30:15".len()];
    seconds.replace(['-', ':'], "") + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_copy_leaves_no_file() {
        let folder = crate::tests::folder::Folder::new();
        let connection = Connection::open(folder.path()).unwrap();
        let copy = with_suffix(&folder.path(), ".copy");
        // Within a transaction nothing can be copied.
        connection.execute_batch("BEGIN; CREATE TABLE t (a)").unwrap();
        assert!(super::copy(&connection, &copy).is_err());
        assert!(!copy.exists());
        connection.execute_batch("COMMIT").unwrap();
        super::copy(&connection, &copy).unwrap();
        assert!(copy.exists());
    }

    #[test]
    fn stamp_is_the_time_without_punctuation() {
        assert_eq!(stamp(951_782_400_999), "20000229T000000Z");
    }
}
