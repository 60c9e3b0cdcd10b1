//! Errors of the client library.

use super::message::Ended;
use protocol::{
    calendar::time_limit,
    code::{ErrorCode, NackCode},
    payload::Nack,
};
use std::fmt;

/// The reason why an operation of a [`Client`](super::Client) failed. `Display` gives a line for a
/// person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// No daemon listens at the endpoint: none was reached in any attempt to join.
    NoDaemon {
        /// The endpoint.
        endpoint: String,
        /// The system's error.
        why: String,
    },
    /// The client has ended, or could not join. It does not reconnect.
    Ended(Ended),
    /// The daemon, the recipient, or (`INVALID`) the library refused the operation. The NACK's
    /// `code` is a [`NackCode`], its `message` a sentence.
    Refused(Box<Nack>),
    /// Too many messages wait to be sent: the daemon is away, or recipients are busy. The message
    /// was not queued; the operation may succeed later.
    Full {
        /// The number of messages.
        messages: usize,
        /// The bytes of these messages.
        bytes: usize,
    },
    /// No answer came in time. What was sent may have had its effect.
    TimedOut {
        /// The request, in words.
        what: String,
        /// The time waited, in milliseconds.
        ms: u64,
    },
    /// An error of the system's, in words: a malformed endpoint, or no thread or randomness left.
    System(String),
    /// The client was closed, or its thread has panicked.
    Closed,
}

impl ClientError {
    /// The code that the daemon ended the connection with, if it did.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Ended(ended) => ended.code(),
            _ => None,
        }
    }

    /// Whether the daemon is probably about to end, as [`Ended::is_of_ending_daemon`] says.
    #[must_use]
    pub fn is_of_ending_daemon(&self) -> bool {
        matches!(self, Self::Ended(ended) if ended.is_of_ending_daemon())
    }

    /// An error about a request that is not sent because it is invalid.
    pub(super) fn invalid(why: impl Into<String>) -> Self {
        Self::Refused(Box::new(Nack::new("", NackCode::Invalid, why)))
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDaemon { endpoint, why } => write!(f, "no daemon at {endpoint}: {why}"),
            Self::Ended(ended) => ended.fmt(f),
            Self::Refused(nack) => write!(f, "{} ({})", nack.message, nack.code),
            Self::Full { messages, bytes } => write!(
                f,
                "{messages} messages ({bytes} bytes) wait to be sent already; send again later"
            ),
            Self::TimedOut { what, ms } => {
                write!(f, "no answer to {what} within {}", time_limit(*ms))
            }
            Self::System(why) => f.write_str(why),
            Self::Closed => f.write_str("the client was closed"),
        }
    }
}

impl std::error::Error for ClientError {}
