//! The codes of ERROR and NACK, and the violation of a rule by a peer.

use super::wire_enum::wire_enum;
use std::fmt;

wire_enum! {
    /// A code of an ERROR. All but the last two end the connection.
    ErrorCode {
        /// The frame is empty, not UTF-8, not JSON, or not an object.
        BadFrame = "BAD_FRAME",
        /// The frame is longer than `max_frame_bytes`.
        FrameTooLarge = "FRAME_TOO_LARGE",
        /// `v` is not 1.
        UnsupportedVersion = "UNSUPPORTED_VERSION",
        /// The first frame was neither HELLO nor RESUME.
        HandshakeRequired = "HANDSHAKE_REQUIRED",
        /// There was no handshake within `handshake_timeout_ms`.
        HandshakeTimeout = "HANDSHAKE_TIMEOUT",
        /// The name is invalid or reserved.
        InvalidName = "INVALID_NAME",
        /// The peer, its key or its mode is not allowed here.
        Unauthorized = "UNAUTHORIZED",
        /// Another connection has the name.
        NameInUse = "NAME_IN_USE",
        /// A newer connection resumed this session.
        SessionReplaced = "SESSION_REPLACED",
        /// The client did not answer PINGs in time.
        HeartbeatTimeout = "HEARTBEAT_TIMEOUT",
        /// A limit of connections or names is reached.
        TooManyClients = "TOO_MANY_CLIENTS",
        /// The daemon is stopping.
        ShuttingDown = "SHUTTING_DOWN",
        /// The daemon failed.
        Internal = "INTERNAL",
        /// The envelope breaks a rule; the connection continues.
        Invalid = "INVALID",
        /// The resume token is invalid; the handshake continues with a new session.
        ResumeRejected = "RESUME_REJECTED",
    }
}

impl ErrorCode {
    /// Whether an ERROR with this code ends the connection.
    #[must_use]
    pub const fn is_fatal(self) -> bool {
        !matches!(self, Self::Invalid | Self::ResumeRejected)
    }
}

wire_enum! {
    /// A code of a NACK: the reason why something was not done or not delivered.
    NackCode {
        /// A value is not allowed.
        Invalid = "INVALID",
        /// The policy or the client's role does not allow the request.
        Forbidden = "FORBIDDEN",
        /// A proof of identity is missing.
        Unauthorized = "UNAUTHORIZED",
        /// No agent of that name is known.
        UnknownAgent = "UNKNOWN_AGENT",
        /// The agent is away and the message cannot wait.
        AgentOffline = "AGENT_OFFLINE",
        /// The recipient does not accept at-least-once messages.
        NoAck = "NO_ACK",
        /// The message's time to live is over.
        Expired = "EXPIRED",
        /// The recipient refused the message permanently.
        Refused = "REFUSED",
        /// Ten attempts failed.
        GaveUp = "GAVE_UP",
        /// The requested messages are not retained any more.
        Stale = "STALE",
        /// There was no answer within `timeoutMs`.
        SyncTimeout = "SYNC_TIMEOUT",
        /// The DELIVER would be longer than a frame.
        TooLarge = "TOO_LARGE",
        /// A limit is reached.
        Limit = "LIMIT",
        /// No message, agent or question has that id.
        NotFound = "NOT_FOUND",
        /// The store could not write the message.
        StoreFailed = "STORE_FAILED",
    }
}

/// A peer's violation of a protocol rule: the content of the ERROR that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule's code.
    pub code: ErrorCode,
    /// A sentence for a person.
    pub message: String,
    /// The id of the envelope, if the id could be read.
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
    fn codes_read_back_and_two_errors_are_not_fatal() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), Some(*code));
        }
        for code in NackCode::ALL {
            assert_eq!(NackCode::parse(code.as_str()), Some(*code));
        }
        let minor: Vec<_> = ErrorCode::ALL.iter().filter(|code| !code.is_fatal()).collect();
        assert_eq!(minor, [&ErrorCode::Invalid, &ErrorCode::ResumeRejected]);
        assert_eq!(NackCode::parse("nonsense"), None);
    }
}
