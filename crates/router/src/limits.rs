//! The router's limits. The code that enforces a limit documents what happens when it is reached.

use protocol::{
    name::OPERATOR,
    payload::{Durability, SendMeta},
};

/// The longest time to live that a SEND may state. A longer one is shortened.
const TTL_MS_MAX: u64 = 30 * 86_400_000;

/// The most names divided by this number is how many names are forgotten at once.
const NAME_PARTS: usize = 64;

/// The limits: bounds, and spans of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of the longest frame, without its length.
    pub frame_bytes_max: usize,
    /// The silence after which a connection gets a PING. If the silence lasts twice this time after
    /// the PING, the connection is closed.
    pub heartbeat_ms: u64,
    /// The longest time from a connection's start to its HELLO.
    pub handshake_ms: u64,
    /// The time after a disconnect for which a token is valid.
    pub resume_window_ms: u64,
    /// The time to live of a message that does not state one.
    pub ttl_ms: u64,
    /// The time to live of a message to an agent of another machine that does not state one.
    pub remote_ttl_ms: u64,
    /// The most messages in one agent's queue, waiting and in flight. The queue remains while the
    /// agent is away.
    pub queue_messages_max: usize,
    /// The most bytes of the messages in one agent's queue.
    pub queue_bytes_max: usize,
    /// The most bytes of memory that the daemon holds, inside and outside the router.
    pub memory_bytes_max: usize,
    /// The most bytes of at-least-once messages, which have to find room in the store. Each
    /// recipient of a message counts.
    pub mail_bytes_max: usize,
    /// The worst failure that an accepted message survives.
    pub durability: Durability,
    /// The most changes that wait for the store, each with the deliveries and subscriptions in it.
    /// A principal whose share is used up waits.
    pub backlog_max: usize,
    /// The most connections that have completed the handshake.
    pub clients_max: usize,
    /// Days after which the name of an agent that stays away is forgotten.
    pub mailbox_days: u64,
    /// The most known names.
    pub names_max: usize,
    /// The most open streams.
    pub streams_max: usize,
    /// The time for which the operator's mail waits if its SEND states none, and for which an
    /// answer that is late still becomes mail.
    pub operator_mail_ms: u64,
    /// The most connections that have not completed the handshake.
    pub unauthenticated_max: usize,
    /// The most subscriptions of a session.
    pub subscriptions_max: usize,
    /// The most messages in a session's replay buffer.
    pub replay_messages_max: usize,
    /// The most bytes of the messages in a session's replay buffer.
    pub replay_bytes_max: usize,
    /// The most SENDs in an agent's dedup window, without older SENDs that have an open delivery.
    pub dedup_max: usize,
    /// The most SENDs in all dedup windows, of about 200 bytes each. Beyond this number, the
    /// windows of the agents that have been away longest shrink first.
    pub dedup_total_max: usize,
    /// The bytes of unread answers above which reading from a client is paused.
    pub answers_bytes_max: usize,
    /// The most bytes of notices that wait for an agent's session to be resumed. A single notice
    /// may always wait.
    pub waiting_answers_bytes_max: usize,
    /// The most open questions of one agent.
    pub questions_max: usize,
    /// The most bytes of DELIVERs that are handed out to a client and not written yet. A single
    /// DELIVER may always be handed out.
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
            remote_ttl_ms: 600_000,
            queue_messages_max: 10_000,
            queue_bytes_max: 16 << 20,
            memory_bytes_max: 512 << 20,
            mail_bytes_max: 640 << 20,
            durability: Durability::Disk,
            backlog_max: 4_096,
            clients_max: 4_096,
            mailbox_days: 30,
            names_max: 4_096,
            streams_max: 65_536,
            operator_mail_ms: 7 * 86_400_000,
            unauthenticated_max: 256,
            subscriptions_max: 256,
            replay_messages_max: 1_000,
            replay_bytes_max: 16 << 20,
            dedup_max: 4_096,
            dedup_total_max: 1 << 19,
            answers_bytes_max: 1 << 20,
            waiting_answers_bytes_max: 1 << 20,
            questions_max: 1_024,
            window_bytes: 256 << 10,
        }
    }
}

impl Limits {
    /// The most names that are forgotten at once: a search is too expensive to forget only one.
    pub(super) const fn names_forgotten_at_once(&self) -> usize {
        self.names_max.div_ceil(NAME_PARTS)
    }

    /// Returns the time to live of a message to `to` whose SEND has this `payload_meta`.
    pub(super) fn ttl_of(&self, meta: &SendMeta, to: &str) -> u64 {
        let usual = match to.find('@') {
            Some(0) if to.eq_ignore_ascii_case(OPERATOR) => self.operator_mail_ms,
            None | Some(0) => self.ttl_ms,
            Some(_) => self.remote_ttl_ms,
        };
        meta.ttl_ms.map_or(usual, |stated| stated.min(TTL_MS_MAX))
    }
}
