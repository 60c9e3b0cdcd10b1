//! The SENDs of a world, and what names them and their streams.

use protocol::Moment;

/// A stream's sender, recipient and topic.
pub(super) type Stream = (String, String, Option<String>);

/// A SEND's number, and the recipient's folded name.
pub(super) type Key = (usize, String);

/// A SEND, by its number in this world.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// The name of the application, also if a guest sends the message.
    pub(super) app: &'static str,
    /// The agent that first sends the message; none if a guest does.
    pub(super) by: Option<&'static str>,
    pub(super) to: Option<&'static str>,
    pub(super) topic: Option<&'static str>,
    pub(super) requires_ack: bool,
    /// The time for an answer, if the SEND asks a question.
    pub(super) timeout_ms: Option<u64>,
    pub(super) ttl_ms: Option<u64>,
    pub(super) body: String,
    /// The time at which the router first read the SEND.
    pub(super) read_at: Option<Moment>,
}

impl Sent {
    /// Returns the number with which a message's body begins.
    pub(super) fn number(body: &str) -> Option<usize> {
        body.split(' ').next()?.parse().ok()
    }
}

/// Returns the number in a SEND's id, unless the library made the id.
pub(super) fn number_of(send_id: &str) -> Option<usize> {
    send_id.strip_prefix('s')?.parse().ok()
}
