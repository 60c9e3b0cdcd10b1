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
