//! What can go wrong with the file, and how it is told.

use rusqlite::{Error as SqlError, ErrorCode};
use std::{fmt, io};

/// A step that did not work.
#[derive(Debug)]
pub(super) enum Trouble {
    /// What SQLite says.
    Sql(SqlError),
    /// What the system says.
    Io(io::Error),
    /// What is in the file can't be, and why.
    Damaged(String),
    /// The file's schema is younger than this program.
    Newer { found: u32, known: u32 },
}

impl Trouble {
    /// Whether the file is no good any more. Anything else may pass.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Damaged(_) => true,
            Self::Io(_) | Self::Newer { .. } => false,
            Self::Sql(error) => match error {
                // A table or a column that is not what the schema says.
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

    /// What a person can do about it.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Self::Newer { .. } => "run that version, or move the file away",
            Self::Damaged(_) => "move the file away",
            Self::Io(_) => "see that the directory is there and yours",
            Self::Sql(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => "make room on its disk, or raise `store_max_bytes`",
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                    "end the other program that has it open"
                }
                Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                    "see that the file and its directory are there and yours"
                }
                _ => "look after the disk",
            },
        }
    }
}

impl From<SqlError> for Trouble {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Damaged(why) => f.write_str(why),
            Self::Newer { found, known } => write!(
                f,
                "it was written by a newer version of Agent Relay (schema {found}, this one knows {known})"
            ),
        }
    }
}
