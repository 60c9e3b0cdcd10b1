//! The store: everything that outlives the daemon, on SQLite.
//!
//! The daemon hands over changes in order. The store's thread takes all that are queued, writes
//! them in one transaction and reports how many are persisted, so that one sync to the disk serves
//! many messages. A delivery stays where its SEND has put it, open and ended, until it is deleted.
//! While the store is idle, old deliveries are deleted; words are indexed once somebody has
//! searched.
//!
//! A disk can be full, fail, or return impossible content. While it is full or failing, messages
//! are refused, and every other change is kept in memory until the disk works again. The file is
//! then reopened, since a handle whose sync has failed cannot be trusted. A file with impossible
//! content is set aside, never deleted, and a new file is begun.
//!
//! # Where to begin
//!
//! [`Store`] is the interface. `commit` writes changes in groups, `pending_writes` keeps them while
//! the disk fails, `image` reads the file at a start, `takeover` brings an older file to the
//! current version, `save` writes the file again if it was removed, `sweep` deletes old deliveries.
//! The types that cross the border to the router are in `protocol::record`. The store decides
//! nothing about messages and starts no thread but that of queries.
//!
//! # Queries
//!
//! A query is answered in slices of some 20 ms, each a read transaction of its own, the newest
//! deliveries first. A slice that takes longer is tried again with fewer deliveries; with the
//! fewest, it fails after 200 ms. The next slice is for the process whose queries have used least
//! time. A query is cancelled by a switch ([`Cancel`]) that SQLite's progress handler reads.
//!
//! Except on Windows, queries run on a thread with a second connection, so that none delays a
//! commit: `unix-excl` lets it in and keeps other processes out. A read transaction that is open
//! makes `wal_checkpoint(TRUNCATE)` busy, so the store's thread lends the connection for one slice
//! at a time, and shortens a long log between two slices. On Windows, a second connection needs a
//! file of shared memory and lets other programs in; there the store's thread runs a slice after
//! each group of changes.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")
)]

mod active_query;
mod commit;
mod error;
mod fault;
mod file;
mod holder;
mod id_search;
mod image;
mod job;
mod pending_writes;
mod queries;
mod query;
mod row;
mod save;
mod schema;
mod sweep;
mod takeover;
#[cfg(test)]
mod tests;
mod time_shares;
mod words;
mod write;

pub use error::OpenError;
pub use job::{Cancel, Claim, Job, Process, Report, Settings};
pub use takeover::Progress;

use crossbeam_channel::Receiver;
use error::StoreError;
use protocol::{delivery_id::IdKey, record::Image};
use std::path::Path;

/// A store that is open.
#[derive(Debug)]
pub struct Store(commit::Committer);

/// A store and its content.
#[derive(Debug)]
pub struct Opened {
    /// The store, to be [run](Store::run).
    pub store: Store,
    /// The state that the daemon starts with.
    pub image: Image,
    /// The key of the ids of new deliveries.
    pub id_key: IdKey,
    /// Warnings for the owner, in sentences.
    pub remarks: Vec<String>,
}

/// Checks a file on which no store runs. The file does not change.
///
/// # Errors
/// If [`Store::open`] would refuse the file, or set it aside.
pub fn examine(path: &Path) -> Result<(), OpenError> {
    check(path).map_err(|error| {
        let outcome = match error.is_damage() {
            true => "the next start sets it aside and begins a new one",
            false => error.advice(),
        };
        OpenError(format!("{}: {error}; {outcome}", path.display()))
    })
}

fn check(path: &Path) -> Result<(), StoreError> {
    let connection = file::open_read_only(path)?;
    let found = file::schema_version(&connection)?;
    let known = schema::CURRENT.version;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    let verdict: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
    if verdict != "ok" {
        return Err(StoreError::Damaged(verdict));
    }
    // The content of an older file is read when it is taken over.
    if found == known {
        schema::check(&connection, &schema::CURRENT)?;
        drop(image::read(&connection)?);
    }
    Ok(())
}

impl Store {
    /// Opens the database, or creates it. A damaged file is set aside. The content of an older one
    /// is taken over, which takes some seconds for a million messages and is reported as it
    /// progresses.
    ///
    /// # Errors
    /// If the file cannot be opened, or is newer than this program.
    pub fn open(
        settings: Settings,
        now_unix_ms: u64,
        progressed: &mut dyn FnMut(Progress),
    ) -> Result<Opened, OpenError> {
        commit::Committer::open(settings, now_unix_ms, progressed)
    }

    /// Does jobs on this thread until the channel is disconnected, then closes the database.
    pub fn run(mut self, jobs: &Receiver<Job>, mut report: impl FnMut(Report)) {
        self.0.run(jobs, &mut report);
    }
}
