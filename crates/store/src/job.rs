//! The store's settings, the jobs it is given and the reports it gives back.

use protocol::{
    payload::Durability,
    record::{Change, Clock, Query, QueryResult},
};
use std::{
    fmt, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The right of a process to the directory of its store.
pub trait Claim: fmt::Debug + Send + Sync {
    /// Whether this process still has the right, or has it again. While it does not, another
    /// process has it, whose files the store leaves alone.
    ///
    /// # Errors
    /// If the system does not tell.
    fn is_held(&self) -> io::Result<bool>;
}

/// Settings of a store.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The database, in a directory that only this user can read.
    pub path: PathBuf,
    /// The right to that directory.
    pub claim: Arc<dyn Claim>,
    /// The worst event that a persisted message survives.
    pub durability: Durability,
    /// The time for which ended deliveries are kept, in milliseconds.
    pub history_ms: u64,
    /// The size limit of the database; its log of some tens of megabytes comes on top.
    pub bytes_max: u64,
    /// The length of a sender's dedup window, not counting SENDs that are not acknowledged yet.
    pub dedup_max: usize,
    /// The number of dead letters in an [`Image`](protocol::record::Image).
    pub dead_letters_max: usize,
}

/// The id of a process that asks, or `None` for all processes whose id the system does not tell.
pub type Process = Option<u32>;

/// A job for the store.
#[derive(Debug)]
pub enum Job {
    /// Writes changes. A job without changes tells the store the time, which is stored once an
    /// hour.
    Write {
        /// The changes, in the order in which they apply.
        changes: Vec<Change>,
        /// The daemon's clock after the changes.
        clock: Clock,
    },
    /// Answers a query of a process; the number identifies the answer. The query runs until it is
    /// cancelled.
    Query(u64, Process, Query, Cancel),
}

/// A switch that cancels a query. The store answers a cancelled query soon; some rows may be
/// missing from that answer.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels the query.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the query is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A report of the store.
#[derive(Debug, PartialEq)]
pub enum Report {
    /// The number of further changes that are persisted.
    Persisted(u64),
    /// Further changes are done with, but the messages accepted with them are refused.
    Refused {
        /// The number of changes.
        count: u64,
        /// The reason, as a sentence.
        why: String,
    },
    /// The answer to the query with this number.
    Answer(u64, Result<QueryResult, String>),
    /// The store starts to fail, for this reason, or works again.
    Health(Result<(), String>),
    /// The file was damaged and is set aside, as this sentence says: its whole content has to be
    /// written again.
    Lost(String),
    /// A query found damage that none found before, as this sentence says.
    Damaged(String),
    /// The files were removed or replaced, and the whole content is in a new file, as this sentence
    /// says.
    Saved(String),
    /// The files were removed or replaced, and another process has the directory. The whole content
    /// is in a file elsewhere, as this sentence says, and nothing more is stored.
    Ousted(String),
}
