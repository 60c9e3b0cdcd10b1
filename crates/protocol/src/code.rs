//! The codes of ERROR and NACK, and the violation of a rule by a peer.

use super::wire_enum::wire_enum;
use std::fmt;

wire_enum! {
    /// A code of an ERROR: when it is sent, and what a client should do. All but the last two end
    /// the connection. docs/PROTOCOL.md has these comments as tables.
    ErrorCode {
        /// The frame is empty, not UTF-8, not JSON, or not an object; or it is of a
        /// [channel](docs/PROTOCOL.md#18-channels) that is not open or has no credit.
        ///
        /// Fix the client.
        BadFrame = "BAD_FRAME",
        /// The frame is longer than `max_frame_bytes`.
        ///
        /// Send smaller pieces.
        FrameTooLarge = "FRAME_TOO_LARGE",
        /// `v` is not 1.
        ///
        /// Use version 1.
        UnsupportedVersion = "UNSUPPORTED_VERSION",
        /// The first frame was neither HELLO nor RESUME.
        ///
        /// Send HELLO first.
        HandshakeRequired = "HANDSHAKE_REQUIRED",
        /// There was no handshake within `handshake_timeout_ms`.
        ///
        /// Reconnect, and send HELLO at once.
        HandshakeTimeout = "HANDSHAKE_TIMEOUT",
        /// The name is invalid or reserved.
        ///
        /// Use another name.
        InvalidName = "INVALID_NAME",
        /// The peer is another user's process, or the key of a name, an operator, a bridge or a
        /// companion is missing or wrong.
        ///
        /// Do not reconnect without it.
        Unauthorized = "UNAUTHORIZED",
        /// A connected client has the name, and is still there after 250 ms.
        ///
        /// Use another name, or try later.
        NameInUse = "NAME_IN_USE",
        /// A newer connection resumed this session with its token.
        ///
        /// Do not reconnect by yourself.
        SessionReplaced = "SESSION_REPLACED",
        /// The client sent no frame for `heartbeat_ms`, and none for twice that after a PING.
        ///
        /// Reconnect; read and answer PING.
        HeartbeatTimeout = "HEARTBEAT_TIMEOUT",
        /// A limit is reached: of `max_clients`, known names, connections without a handshake, or
        /// incomplete frames.
        ///
        /// Reconnect later.
        TooManyClients = "TOO_MANY_CLIENTS",
        /// The client connected while the daemon stops.
        ///
        /// Reconnect later.
        ShuttingDown = "SHUTTING_DOWN",
        /// The daemon failed in its work for this connection; the others continue.
        ///
        /// Reconnect, and report it.
        Internal = "INTERNAL",
        /// The envelope breaks a [rule](docs/PROTOCOL.md#4-envelopes), or its payload does not fit
        /// its type; a HELLO has no `agent` or an unknown `mode`, or is the second one; or only the
        /// daemon sends this type.
        ///
        /// Fix the client. The connection continues, and the envelope in `ref` had no effect.
        Invalid = "INVALID",
        /// The resume token was never issued, was used, has expired, or is another name's; or a
        /// RESUME without HELLO is for a name with a key or a host.
        ///
        /// After HELLO, continue: WELCOME with a new session follows. After RESUME, send HELLO.
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
    /// A code of a NACK: the reason why something was not done or not delivered, and what a client
    /// should do. docs/PROTOCOL.md has these comments as a table.
    NackCode {
        /// A SEND has no recipient, or one that is no name; a topic, a pattern or `payload_meta` is
        /// not allowed; a question is for `@relay`; or a request is unknown or not possible.
        ///
        /// Fix it.
        Invalid = "INVALID",
        /// `from` is not one's own name; a SUBSCRIBE is without `supports_topics`; a RESUME is of a
        /// client that is no agent; a `report` is about another agent's delivery; a request is for
        /// operators, or about others' mail; or a rule of `policy.toml`, which the message names,
        /// forbids it.
        ///
        /// Do not retry.
        Forbidden = "FORBIDDEN",
        /// A RESUME without a token came before HELLO.
        ///
        /// Send HELLO.
        Unauthorized = "UNAUTHORIZED",
        /// No agent of that name was ever here, or it was forgotten.
        ///
        /// Check the name. The message about a SEND lists who is connected.
        UnknownAgent = "UNKNOWN_AGENT",
        /// An at-most-once message is for an agent that is away, or that left before it was
        /// written, or for `@operator`; any message is for a guest that is leaving; or a companion
        /// sends while its agent is away.
        ///
        /// Try later, or send at least once.
        AgentOffline = "AGENT_OFFLINE",
        /// The recipient does not accept at-least-once messages.
        ///
        /// Send at most once.
        NoAck = "NO_ACK",
        /// The message's time to live is over, or the recipient's name was forgotten.
        ///
        /// Decide whether it still matters.
        Expired = "EXPIRED",
        /// The recipient returned the message for good.
        ///
        /// Read the recipient's words in the message.
        Refused = "REFUSED",
        /// Ten attempts failed: by NACKs with `retry_after_ms`, or by lost connections.
        ///
        /// Look at what the recipient does with it.
        GaveUp = "GAVE_UP",
        /// What a RESUME asks for is not all available any more.
        ///
        /// Continue without it; before WELCOME, send HELLO.
        Stale = "STALE",
        /// There was no answer within `timeoutMs`.
        ///
        /// Ask again, or continue. The message itself can still be delivered.
        SyncTimeout = "SYNC_TIMEOUT",
        /// The DELIVER, an answer's ACK, or a RESUME's SYNC would exceed `max_frame_bytes`.
        ///
        /// Send smaller pieces; name fewer streams.
        TooLarge = "TOO_LARGE",
        /// A limit is reached. Of a SEND: `per_pair_per_minute` of `policy.toml`, whose message
        /// says how long to wait; streams; open questions of a name; copies of broadcasts that wait
        /// for one recipient. Of SUBSCRIBE and UNSUBSCRIBE: see
        /// [topics](docs/PROTOCOL.md#topics). Of a request: 32 wait already; the daemon has no
        /// memory for the answer; a dead letter's queue has no room. Of an answer: the daemon, or
        /// its asker, has no room for it.
        ///
        /// Give something up first, or try later.
        Limit = "LIMIT",
        /// Of a request: no message has that id, or it is forgotten. Of `report`: the delivery was
        /// over long ago, or never reported about.
        ///
        /// Check the id.
        NotFound = "NOT_FOUND",
        /// Of a SEND: the daemon could not store it, because the disk is full or fails, or
        /// `store_max_bytes` is reached. Of a request: the store could not look it up.
        ///
        /// Retry later; a SEND with the same id, because it is possibly stored.
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
