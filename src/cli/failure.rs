//! The exit codes of the commands, and the failure that ends one early.

use super::exit_code_as;
use client::{ClientError, Ended, LastFailure, home::HomeError};
use protocol::{calendar::time_limit, code::NackCode, text::escaped};
use serde::Serialize;
use std::{fmt::Display, io, path::Path};

/// Exit code: done.
pub(super) const DONE: i32 = 0;
/// Exit code: failed.
pub(super) const FAILED: i32 = 1;
/// Exit code: the command line is wrong.
pub(super) const USAGE: i32 = 2;
/// Exit code: a message was not delivered.
pub(super) const NOT_DELIVERED: i32 = 3;
/// Exit code: no answer in time.
pub(super) const TIMED_OUT: i32 = 4;

/// The end of a command before it is done: an exit code, and a message unless there is nothing to
/// say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: i32,
    pub(super) message: Option<String>,
    /// The remedy.
    pub(super) hint: Option<String>,
    /// The daemon's code, if the daemon or the recipient refused something.
    refusal: Option<String>,
}

/// A failure as a JSON object.
#[derive(Serialize)]
struct Report<'a> {
    /// The daemon's code, or a word for the exit code.
    code: &'a str,
    exit_code: i32,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

impl Failure {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()), hint: None, refusal: None }
    }

    /// The end of a command that has nothing to say.
    pub(super) fn silent(code: i32) -> Self {
        Self { code, message: None, hint: None, refusal: None }
    }

    /// Removes the message, which was reported in another way.
    pub(super) fn silenced(self) -> Self {
        Self { message: None, ..self }
    }

    /// Adds a remedy.
    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds the code of the daemon's or the recipient's refusal.
    pub(super) fn refused(self, code: &str) -> Self {
        Self { refusal: Some(code.to_owned()), ..self }
    }

    /// Whether the daemon or the recipient has refused something.
    pub(super) const fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Whether the daemon does not know the agent.
    pub(super) fn is_of_unknown_agent(&self) -> bool {
        self.refusal.as_deref() == Some(NackCode::UnknownAgent.as_str())
    }

    /// Returns the failure as a JSON object. `None` if there is nothing to say.
    pub(super) fn json(&self) -> Option<impl Serialize> {
        let code = match (&self.refusal, self.code) {
            (Some(refusal), _) => refusal,
            (None, USAGE) => "USAGE",
            (None, NOT_DELIVERED) => "NOT_DELIVERED",
            (None, TIMED_OUT) => "TIMED_OUT",
            (None, _) => "FAILED",
        };
        let (message, hint) = (self.message.as_deref()?, self.hint.as_deref());
        Some(Report { code, exit_code: self.code, message, hint })
    }

    /// Returns the message with the hint, on one line.
    pub(super) fn line(&self) -> Option<String> {
        let message = self.message.as_deref()?;
        Some(match &self.hint {
            Some(hint) => format!("{message}; {hint}"),
            None => message.to_owned(),
        })
    }

    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(FAILED, message)
    }

    /// A failure with the message of an error.
    pub(super) fn because(error: impl Display) -> Self {
        Self::failed(error.to_string())
    }

    /// A failure to do something with a file.
    pub(super) fn of_file(what: &str, file: &Path, error: &io::Error) -> Self {
        let failure = Self::failed(escaped(&format!("{what} {}: {error}", file.display())));
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.hint("free some disk space there")
            }
            _ => failure,
        }
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(super) fn no_daemon(endpoint: &str) -> Self {
        Self::failed(format!("no daemon at {endpoint}")).hint("start one with `agent-relay up`")
    }

    /// A failure to write to standard output; success if its reader has closed it.
    pub(super) fn unwritten(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::silent(DONE);
        }
        Self::failed(format!("write to standard output: {error}"))
    }

    /// Returns the message with the hint, or an empty text.
    pub(super) fn into_message(self) -> String {
        self.line().unwrap_or_default()
    }
}

/// Reports each failure of several results on a separate line, or as JSON. Returns the exit code:
/// the first failure's, or [`DONE`].
pub(super) fn first_failure(json: bool, results: impl Iterator<Item = Result<(), Failure>>) -> i32 {
    let codes = results.map(|result| exit_code_as(json, result.map(|()| DONE)));
    codes.fold(DONE, |first, code| if first == DONE { code } else { first })
}

impl From<HomeError> for Failure {
    fn from(error: HomeError) -> Self {
        let code = if error.is_usage { USAGE } else { FAILED };
        Self { hint: error.hint, ..Self::new(code, error.message) }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::NoDaemon { endpoint, .. } => Self::no_daemon(&endpoint),
            ClientError::TimedOut { what, ms } => {
                let waited = time_limit(ms);
                Self::new(TIMED_OUT, format!("no answer to {} within {waited}", escaped(&what)))
            }
            ClientError::Refused(nack) => Self::failed(escaped(&nack.message)).refused(&nack.code),
            ClientError::Ended(ended) => ended.into(),
            error => Self::failed(escaped(&error.to_string())),
        }
    }
}

impl From<Ended> for Failure {
    fn from(ended: Ended) -> Self {
        let message = escaped(&ended.to_string());
        match ended {
            Ended::GaveUp { last: LastFailure::NoListener, .. } => {
                Self::failed(message).hint("start a daemon with `agent-relay up`")
            }
            _ => Self::failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn giving_up_on_an_absent_daemon_names_the_command_that_starts_one() {
        let message = |last| {
            let why = "connect to /s: Connection refused".to_owned();
            Failure::from(Ended::GaveUp { attempts: 10, why, last }).into_message()
        };
        let gave_up = "gave up after 10 attempts: connect to /s: Connection refused";
        assert_eq!(
            message(LastFailure::NoListener),
            format!("{gave_up}; start a daemon with `agent-relay up`")
        );
        assert_eq!(message(LastFailure::Other), gave_up);
    }

    #[test]
    fn closed_standard_output_is_not_a_failure() {
        assert_eq!(Failure::unwritten(io::ErrorKind::BrokenPipe.into()).code, DONE);
        assert_eq!(Failure::unwritten(io::ErrorKind::StorageFull.into()).code, FAILED);
    }
}
