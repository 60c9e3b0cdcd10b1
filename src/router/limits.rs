//! The machine's bounds and times, each with a name. Its outcome stands where it is enforced.

use crate::protocol::payload::Durability;

/// Everything that is bounded, and every length of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest frame, its length not counted.
    pub frame_bytes_max: usize,
    /// Silence after which a PING goes out; twice as long again, and the connection is dead.
    pub heartbeat_ms: u64,
    /// How long a connection may take to say HELLO.
    pub handshake_ms: u64,
    /// How long after a disconnect a token is good.
    pub resume_window_ms: u64,
    /// Time to live of a message that states none.
    pub ttl_ms: u64,
    /// Messages in one agent's queue: waiting, on the way and mailbox.
    pub queue_messages_max: usize,
    /// Their bytes.
    pub queue_bytes_max: usize,
    /// Everything that is held, inside the machine and outside.
    pub memory_bytes_max: usize,
    /// What a message survives that is accepted.
    pub durability: Durability,
    /// Changes that the store may have before it; beyond that, an at-least-once SEND hears BUSY.
    pub backlog_max: u64,
    /// Connections with a handshake.
    pub clients_max: usize,
    /// Days after which the name of an agent that stays away is forgotten.
    pub mailbox_days: u64,
    /// Known names.
    pub names_max: usize,
    /// Streams.
    pub streams_max: usize,
    /// Connections without a handshake.
    pub strangers_max: usize,
    /// Subscriptions of a session.
    pub subscriptions_max: usize,
    /// Delivered messages that a session has at hand to replay them.
    pub replay_messages_max: usize,
    /// Their bytes.
    pub replay_bytes_max: usize,
    /// SENDs of a name that are remembered to know their doubles.
    pub doubles_max: usize,
    /// Those of all names together, for about 200 bytes each; beyond it, who has been away for longest
    /// forgets first.
    pub doubles_total_max: usize,
    /// Answers that a client may leave unread before it isn't read from.
    pub answers_bytes_max: usize,
    /// Bytes of answers that wait for a session to be taken up; one may always wait.
    pub waiting_answers_bytes_max: usize,
    /// Questions of a name that are not answered.
    pub questions_max: usize,
    /// DELIVERs handed out and not yet written, for each client. One may always be.
    pub window_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes_max: 1 << 20,
            heartbeat_ms: 5_000,
            handshake_ms: 5_000,
            resume_window_ms: 600_000,
            ttl_ms: 86_400_000,
            queue_messages_max: 10_000,
            queue_bytes_max: 16 << 20,
            memory_bytes_max: 512 << 20,
            durability: Durability::Disk,
            backlog_max: 1 << 16,
            clients_max: 4_096,
            mailbox_days: 30,
            names_max: 4_096,
            streams_max: 65_536,
            strangers_max: 256,
            subscriptions_max: 256,
            replay_messages_max: 1_000,
            replay_bytes_max: 16 << 20,
            doubles_max: 4_096,
            doubles_total_max: 1 << 19,
            answers_bytes_max: 1 << 20,
            waiting_answers_bytes_max: 1 << 20,
            questions_max: 1_024,
            window_bytes: 256 << 10,
        }
    }
}
