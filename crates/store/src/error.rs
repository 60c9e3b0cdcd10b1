//! Errors of the store: inside it as values, outside it as sentences.

use rusqlite::{Error as SqlError, ErrorCode};
use std::{fmt, io, time::Duration};

/// A store that cannot be opened, as a sentence.
#[derive(Debug)]
pub struct OpenError(pub(super) String);

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

/// The failure of an operation on the file.
#[derive(Debug)]
pub(super) enum StoreError {
    /// An error of SQLite's.
    Sql(SqlError),
    /// An error of the system's.
    Io(io::Error),
    /// Impossible content of the file, in words.
    Damaged(String),
    /// A small part of a query that took longer than this.
    TooSlow(Duration),
    /// A schema that is newer than this program.
    Newer { found: u32, known: u32 },
    /// No room on the disk to take an older file over, which needs about this number of bytes.
    NoRoom(u64),
}

impl StoreError {
    /// Whether the file is unusable for good. Any other error may pass.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Damaged(_) => true,
            Self::Io(_) | Self::TooSlow(_) | Self::Newer { .. } | Self::NoRoom(_) => false,
            Self::Sql(error) => match error {
                // A table or a column differs from the schema.
                SqlError::SqlInputError { .. }
                | SqlError::FromSqlConversionFailure(..)
                | SqlError::IntegralValueOutOfRange(..)
                | SqlError::InvalidColumnType(..)
                | SqlError::Utf8Error(..) => true,
                _ => matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
                ),
            },
        }
    }

    /// Whether a statement of SQLite's was interrupted.
    pub(super) fn is_interruption(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
    }

    /// Whether the disk is full.
    pub(super) fn is_full(&self) -> bool {
        match self {
            Self::Sql(error) => error.sqlite_error_code() == Some(ErrorCode::DiskFull),
            Self::Io(error) => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }

    /// The remedy for a person.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Self::Newer { .. } => "run that version, or move the file away",
            Self::NoRoom(_) => "free some disk space; the file is as it was",
            Self::Damaged(_) => "move the file away",
            Self::TooSlow(_) => "ask again when the machine is less busy, or check the disk",
            Self::Io(_) => "check that the directory exists and belongs to you",
            Self::Sql(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => "free some disk space, or raise `store_max_bytes`",
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                    "end the other program that has it open; if there is none, the \
                     home's file system locks no files: choose a home on a local disk"
                }
                Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                    "check that the file and its directory exist and belong to you"
                }
                _ => "check the disk",
            },
        }
    }
}

impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Damaged(why) => f.write_str(why),
            Self::TooSlow(max) => {
                write!(f, "a small part of the query took longer than {} ms", max.as_millis())
            }
            Self::NoRoom(bytes) => write!(
                f,
                "the disk has no room for the new file that takes over this older one, which needs \
                 about {} MiB",
                bytes >> 20
            ),
            Self::Newer { found, known } => write!(
                f,
                "it was written by a newer version of Agent Relay (schema {found}, this one knows \
                 {known})"
            ),
        }
    }
}
