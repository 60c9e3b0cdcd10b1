//! The codes of ERROR and NACK, and a peer's mistake as a value.

use super::words::words;
use std::fmt;

words! {
    /// What an ERROR says. All but the last two end the connection.
    ErrorCode {
        /// Not a frame: empty, not UTF-8, not JSON, not an object.
        BadFrame = "BAD_FRAME",
        /// A length over `max_frame_bytes`.
        FrameTooLarge = "FRAME_TOO_LARGE",
        /// `v` is not 1.
        UnsupportedVersion = "UNSUPPORTED_VERSION",
        /// The first frame was neither HELLO nor RESUME.
        HandshakeRequired = "HANDSHAKE_REQUIRED",
        /// No handshake within `handshake_timeout_ms`.
        HandshakeTimeout = "HANDSHAKE_TIMEOUT",
        /// A name that can't be had by anyone.
        InvalidName = "INVALID_NAME",
        /// The peer, its key or its mode is not allowed here.
        Unauthorized = "UNAUTHORIZED",
        /// Somebody live has the name.
        NameInUse = "NAME_IN_USE",
        /// A newer connection took this session over.
        SessionReplaced = "SESSION_REPLACED",
        /// No sign of life for too long.
        HeartbeatTimeout = "HEARTBEAT_TIMEOUT",
        /// A bound on connections or names is reached.
        TooManyClients = "TOO_MANY_CLIENTS",
        /// The daemon is going down.
        ShuttingDown = "SHUTTING_DOWN",
        /// The daemon's own mistake.
        Internal = "INTERNAL",
        /// An envelope that breaks a rule; the connection goes on.
        Invalid = "INVALID",
        /// The resume token is not valid; the handshake goes on as a fresh session.
        ResumeRejected = "RESUME_REJECTED",
    }
}

impl ErrorCode {
    /// Whether the connection ends after it.
    #[must_use]
    pub const fn is_fatal(self) -> bool {
        !matches!(self, Self::Invalid | Self::ResumeRejected)
    }
}

words! {
    /// Why something was not done or not delivered.
    NackCode {
        /// A value that isn't allowed.
        Invalid = "INVALID",
        /// Not yours to do.
        Forbidden = "FORBIDDEN",
        /// Proof is missing.
        Unauthorized = "UNAUTHORIZED",
        /// Nobody of that name was ever here.
        UnknownAgent = "UNKNOWN_AGENT",
        /// The agent is away and the message can't wait.
        AgentOffline = "AGENT_OFFLINE",
        /// The recipient takes no at-least-once mail.
        NoAck = "NO_ACK",
        /// Its time to live ran out.
        Expired = "EXPIRED",
        /// The recipient refused it for good.
        Refused = "REFUSED",
        /// Ten attempts failed.
        GaveUp = "GAVE_UP",
        /// What was asked for is no longer kept.
        Stale = "STALE",
        /// No answer within `timeoutMs`.
        SyncTimeout = "SYNC_TIMEOUT",
        /// The DELIVER would be over the frame limit.
        TooLarge = "TOO_LARGE",
        /// A bound is reached.
        Limit = "LIMIT",
        /// Nothing has that id.
        NotFound = "NOT_FOUND",
        /// The store could not take it.
        StoreFailed = "STORE_FAILED",
    }
}

/// A rule that a peer's bytes broke: what the ERROR says that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule's code.
    pub code: ErrorCode,
    /// A sentence that a person understands.
    pub message: String,
    /// The id of the envelope, where it could be read.
    pub reference: Option<String>,
}

impl Violation {
    /// A violation that refers to no envelope.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), reference: None }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_and_only_two_errors_let_the_connection_live() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), Some(*code));
        }
        for code in NackCode::ALL {
            assert_eq!(NackCode::parse(code.as_str()), Some(*code));
        }
        let mild: Vec<_> = ErrorCode::ALL.iter().filter(|code| !code.is_fatal()).collect();
        assert_eq!(mild, [&ErrorCode::Invalid, &ErrorCode::ResumeRejected]);
        assert_eq!(NackCode::parse("nonsense"), None);
    }
}
