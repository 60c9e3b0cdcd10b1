//! What outlives the daemon, on SQLite.
//!
//! The daemon hands over what changes, in order; the store's thread takes all that waits, writes it in
//! one transaction, and says how far it is: so one sync to the disk serves many messages. The send path
//! only appends. What is over moves to the history, with an index of its words, when nothing else is to
//! be done.
//!
//! Three things can be wrong with a disk. It has no room, or fails: then the messages that were to be
//! taken are refused, and every other change is owed until it works again, on a file that is opened
//! anew, since a handle whose sync has failed can't be trusted any more. Or what it gives back is not
//! what was written: then the file is set aside, never deleted, and a new one begun.

mod commit;
mod fault;
mod file;
mod image;

mod owed;
mod query;
mod row;
mod said;
mod schema;
mod sweep;
#[cfg(test)]
mod tests;
mod trouble;
mod write;

use crate::protocol::payload::Durability;
use crate::record::{Change, Clock, Image, Query, QueryResult};
use crossbeam_channel::Receiver;
use std::{
    fmt,
    path::{Path, PathBuf},
};
use trouble::Trouble;

/// How a store works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The database, in a directory that is this user's alone.
    pub path: PathBuf,
    /// What a kept message survives.
    pub durability: Durability,
    /// How long what is over is remembered.
    pub history_ms: u64,
    /// The database's size at the most; its log of some tens of megabytes comes on top.
    pub bytes_max: u64,
    /// SENDs of one sender whose doubles are recognised, those not yet acknowledged not counted.
    pub doubles_max: usize,
    /// Dead letters in an [`Image`].
    pub dead_max: usize,
}

/// Durable messages.
#[derive(Debug)]
pub struct Store(commit::Committer);

/// A store, and what was in it.
#[derive(Debug)]
pub struct Opened {
    /// To be [run](Store::run).
    pub store: Store,
    /// What the daemon starts with.
    pub image: Image,
    /// What its owner should know, in sentences.
    pub remarks: Vec<String>,
}

/// What is asked of a store.
#[derive(Debug)]
pub enum Job {
    /// To keep changes. Without any, it only tells the time, which is kept once an hour.
    Keep {
        /// In the order in which they count.
        changes: Vec<Change>,
        /// The daemon's clock after them.
        clock: Clock,
    },
    /// To look something up, and the number to answer with.
    Query(u64, Query),
}

/// What a store says.
#[derive(Debug, PartialEq)]
pub enum Report {
    /// So many more changes are kept.
    Kept(u64),
    /// So many more changes are through, but the messages taken with them are refused.
    NotKept {
        /// How many.
        count: u64,
        /// Why, in a sentence.
        why: String,
    },
    /// The answer to a query.
    Found(u64, Result<QueryResult, String>),
    /// The store begins to fail, and why; or works again.
    Health(Result<(), String>),
    /// The file was damaged and is set aside: whatever was in it has to be said again. In a sentence.
    Lost(String),
}

/// A store that can't be opened, as a sentence.
#[derive(Debug)]
pub struct StoreError(String);

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}

/// Looks into a file that is there, while nothing runs a store on it; it stays as it is.
///
/// # Errors
/// If [`Store::open`] would refuse it, or set it aside.
pub fn examine(path: &Path) -> Result<(), StoreError> {
    look(path).map_err(|trouble| {
        let outcome = match trouble.is_damage() {
            true => "the next start sets it aside and begins a new one",
            false => trouble.advice(),
        };
        StoreError(format!("{}: {trouble}; {outcome}", path.display()))
    })
}

fn look(path: &Path) -> Result<(), Trouble> {
    let connection = file::look_into(path)?;
    let found = schema::version(&connection)?;
    let known = schema::CURRENT.version;
    if found > known {
        return Err(Trouble::Newer { found, known });
    }
    let verdict: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
    if verdict != "ok" {
        return Err(Trouble::Damaged(verdict));
    }
    // What is empty or older becomes what it is to be first.
    if found == known {
        schema::check(&connection, &schema::CURRENT)?;
        image::open(&connection)?;
    }
    Ok(())
}

impl Store {
    /// Opens the database, or makes it. What is damaged is set aside, what is older is migrated.
    ///
    /// # Errors
    /// If it can't be opened, or is newer than this program.
    pub fn open(settings: Settings, now_unix_ms: u64) -> Result<Opened, StoreError> {
        let (committer, image, remarks) = commit::Committer::open(settings, now_unix_ms)?;
        Ok(Opened { store: Self(committer), image, remarks })
    }

    /// Does all jobs, on this thread, until nobody can give any more; then closes the database.
    pub fn run(mut self, jobs: &Receiver<Job>, mut report: impl FnMut(Report)) {
        self.0.run(jobs, &mut report);
    }
}
