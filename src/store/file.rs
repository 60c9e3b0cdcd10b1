//! The file itself: opened for us alone, copied before it changes, set aside when it is damaged.

use super::{Durability, Settings, schema, trouble::Trouble};
use crate::protocol::calendar;
use platform::paths::{create_private_file, open_private_file};
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// SQLite's pages, in bytes.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Pages of the log after which a commit also carries them over into the file. Fewer make commits wait
/// more often, more make them wait longer.
const CHECKPOINT_PAGES: u32 = 4_000;

/// The log's length that is kept for reuse.
const LOG_BYTES_KEPT: u32 = 64 << 20;

/// Memory for pages.
const CACHE_KIB: u32 = 32 << 10;

/// Statements that stay prepared.
const STATEMENTS_KEPT: usize = 64;

/// Opens the file for this process alone, and makes it where there is none.
pub(super) fn connect(settings: &Settings) -> Result<Connection, Trouble> {
    // SQLite gives its log the same permissions.
    drop(open_private_file(&settings.path)?);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&settings.path, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    // A connection is also dropped because a sync has failed, and then must not sync again.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Before anything is read: so there is no memory shared with other processes, and no other process.
    connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
    // Another program's file is left as it is.
    schema::version(&connection)?;
    connection.execute_batch(&format!("PRAGMA page_size = {PAGE_BYTES}"))?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Trouble::Io(io::Error::other("its file system can keep no log for it")));
    }
    let (synchronous, full) = match settings.durability {
        Durability::Disk => ("FULL", "ON"),
        Durability::Process => ("NORMAL", "OFF"),
    };
    let pages = settings.bytes_max / PAGE_BYTES;
    // The two with `fullfsync` are for a system whose sync leaves it to the disk when it writes.
    connection.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous};
         PRAGMA fullfsync = {full}; PRAGMA checkpoint_fullfsync = {full};
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
         PRAGMA journal_size_limit = {LOG_BYTES_KEPT};
         PRAGMA cache_size = -{CACHE_KIB};
         PRAGMA max_page_count = {pages};
         PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;
         PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON"
    ))?;
    Ok(connection)
}

/// Opens a file that is there to look into it: it stays as it is, and so does its log.
pub(super) fn look_into(path: &Path) -> Result<Connection, Trouble> {
    let has_log = with(path, "-wal").exists();
    // Only who might write can read what a log holds that a dead process left.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    // Closing it carries nothing over; but where there was no log, the one that opening made goes again.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
    connection.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA query_only = ON;
         PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON",
    )?;
    Ok(connection)
}

/// Carries all of the log over into the file and empties it.
///
/// After a failed sync, the system may show what is not on the disk. What would be appended after that
/// would be lost with it, so the log begins anew.
pub(super) fn empty_log(connection: &Connection) -> Result<(), Trouble> {
    let busy = |row: &rusqlite::Row<'_>| row.get::<_, bool>(0);
    if connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], busy)? {
        return Err(Trouble::Io(io::Error::other("its log is in use")));
    }
    Ok(())
}

/// Closes the file in good order, with nothing left in its log.
pub(super) fn close(connection: Connection) -> Result<(), Trouble> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    connection.close().map_err(|(_, error)| error.into())
}

/// Copies the whole database beside itself and says where.
pub(super) fn copy_before(
    connection: &Connection,
    path: &Path,
    version: u32,
) -> Result<String, Trouble> {
    let copy = free(path, &format!(".before-v{version}"));
    drop(create_private_file(&copy)?);
    let name = copy.to_str().ok_or_else(|| {
        Trouble::Io(io::Error::other("its path is not UTF-8: choose another home"))
    })?;
    connection.execute("VACUUM INTO ?", [name])?;
    Ok(copy.display().to_string())
}

/// Renames the file and its log, so that a new one can be begun and the old one be looked at.
pub(super) fn set_aside(path: &Path, unix_ms: u64) -> io::Result<PathBuf> {
    let aside = free(path, &format!(".damaged-{}", stamp(unix_ms)));
    fs::rename(path, &aside)?;
    for log in ["-wal", "-shm"] {
        match fs::rename(with(path, log), with(&aside, log)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}

/// The first name of that kind that nothing has.
fn free(path: &Path, suffix: &str) -> PathBuf {
    let mut names = (1_u32..).map(|n| {
        let first = with(path, suffix);
        if n == 1 { first } else { with(&first, &format!("-{n}")) }
    });
    names.find(|name| !name.exists()).expect("names don't run out")
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// As `20261120T093015Z`.
fn stamp(unix_ms: u64) -> String {
    let seconds = &calendar::utc(unix_ms)[.."2026-11-20T09:30:15".len()];
    seconds.replace(['-', ':'], "") + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_set_aside_says_when() {
        assert_eq!(stamp(951_782_400_999), "20000229T000000Z");
    }
}
