//! Records that outlive the daemon, and the changes that the router sends to the store.
//!
//! The router emits each [`Change`] once, in order. The store writes them in that order and reports
//! how many it has persisted. A starting daemon reads an [`Image`]; whatever is no longer in memory
//! is looked up with a [`Query`].
//!
//! Agents, streams, messages and deliveries have numbers that count up and are never reused.
//! Numbers of notices count up from the last one that is still stored. Moments are of the daemon's
//! own clock, which continues where the previous daemon's ended: see [`Clock`].

use crate::{
    Moment, Now, code::NackCode, deliver::Proof, name::Name, payload::Capabilities, secret::Hash,
};
use std::{collections::BTreeMap, sync::Arc};
use uuid::Uuid;

/// A hash of a SEND's id and content: two SENDs of one sender with equal fingerprints are
/// duplicates.
pub type Fingerprint = [u8; 16];

/// A change to the stored state.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Stores an at-least-once SEND that was accepted. The store refuses it if it has no capacity.
    Accepted(Box<AcceptedSend>),
    /// Stores an accepted SEND once more, for a store that lost its file. The record replaces
    /// whatever is stored of this SEND and cannot be refused.
    AcceptedAgain(Box<AcceptedSend>),
    /// Updates how often a delivery was attempted and how often it failed.
    Attempted {
        /// The delivery's number.
        delivery: u64,
        /// The number of DELIVERs sent so far.
        attempts: u32,
        /// The number of attempts that failed.
        failures: u32,
    },
    /// Ends a delivery. A dead letter can still end as acknowledged.
    Ended {
        /// The delivery's number.
        delivery: u64,
        /// The outcome.
        ending: Ending,
        /// The time of the end, in milliseconds since 1970.
        unix_ms: u64,
    },
    /// Makes a dead letter deliverable again, as if it were new.
    Redelivered {
        /// The delivery's number.
        delivery: u64,
        /// The new end of its time to live.
        expires: Moment,
    },
    /// Stores a new or changed agent.
    Agent(Box<AgentRecord>),
    /// Removes an agent with its session and its dedup records. Its streams are removed by changes
    /// of their own.
    AgentForgotten(u64),
    /// Stores a new or changed session. An agent has at most one.
    Session(Box<SessionRecord>),
    /// Removes an agent's session.
    SessionEnded {
        /// The agent's number.
        agent: u64,
    },
    /// Stores an open stream, or the new reserved number of a stored one.
    Stream(Box<StreamRecord>),
    /// Removes a stream.
    StreamEnded(u64),
    /// Stores a notice for a sender that is away. The store may drop it for lack of capacity,
    /// without a report: the daemon still holds it in memory.
    Notice(Box<NoticeRecord>),
    /// Removes a notice that was written to its sender, or whose sender will not return.
    NoticeEnded(u64),
    /// Stores a question whose delivery was acknowledged while its sender waits for the answer.
    Question(Box<QuestionRecord>),
    /// Removes a question, given by its delivery's id: it was answered or its time is over.
    QuestionEnded(Uuid),
    /// Stores an answer that its asker gets on its connection, as a message whose delivery has
    /// ended as acknowledged. The store drops it while it fails or lacks capacity, without a
    /// report: the asker gets the answer all the same.
    Answer(Box<AnswerRecord>),
    /// Changes nothing, but makes the store sync all earlier changes. The store delays the sync of
    /// acknowledgements.
    Sync,
}

impl Change {
    /// Whether a power failure may undo this change until the next sync: the recipient then gets a
    /// message again that it has acknowledged.
    #[must_use]
    pub const fn may_wait_for_sync(&self) -> bool {
        matches!(self, Self::Ended { ending: Ending::Acknowledged, .. })
    }
}

/// An accepted SEND, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedSend {
    /// The message. If some recipients had no room at first, the message is stored again when they
    /// have.
    pub message: MessageRecord,
    /// The deliveries that are not stored yet.
    pub deliveries: Vec<DeliveryRecord>,
    /// The record that identifies duplicates of the SEND.
    pub dedup: DedupRecord,
}

/// A message: the data that all deliveries of a SEND have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// The message's number.
    pub number: u64,
    /// The sender's number.
    pub sender: u64,
    /// The sender's session.
    pub session: Arc<str>,
    /// The proof of the sender's identity.
    pub proof: Proof,
    /// The SEND's id.
    pub send_id: Box<str>,
    /// Whether the message was sent to everyone or to a topic.
    pub to_everyone: bool,
    /// The time of its acceptance, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The end of each of its DELIVERs, from `"from":` to the last brace. Read it with
    /// [`Shared::read`](crate::deliver::Shared::read).
    pub shared: Arc<[u8]>,
}

/// A delivery: one message for one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// The delivery's number; lower numbers are sent first.
    pub number: u64,
    /// The message's number.
    pub message: u64,
    /// The stream's number.
    pub stream: u64,
    /// The recipient's number.
    pub to: u64,
    /// The recipient's name, as it was spelled at the time of the SEND.
    pub to_name: Name,
    /// The delivery's number in its stream.
    pub seq: u64,
    /// The DELIVER's id.
    pub id: Uuid,
    /// The end of its time to live.
    pub expires: Moment,
    /// The number of DELIVERs sent so far. A delivery to a connected agent is stored with 1 from
    /// the start, which saves a second write and may be one too many after a crash.
    pub attempts: u32,
    /// The number of attempts that failed.
    pub failures: u32,
}

/// The outcome of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The recipient acknowledged the delivery.
    Acknowledged,
    /// The delivery became a dead letter.
    Dead {
        /// The code of the NACK to the sender.
        code: NackCode,
        /// The reason, as a sentence.
        why: Box<str>,
    },
    /// An operator ended the delivery, and the store keeps nothing of it.
    Erased,
}

/// An entry of a sender's dedup window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DedupRecord {
    /// The message's number.
    pub message: u64,
    /// The sender's number.
    pub sender: u64,
    /// The fingerprint that duplicates share.
    pub fingerprint: Fingerprint,
    /// The number of recipients that have a broadcast; none for a message to one agent.
    pub recipients: Option<u64>,
    /// The numbers of the recipients whose queue had no room for the message.
    pub remaining: Vec<u64>,
}

/// An agent that the daemon knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRecord {
    /// The agent's number.
    pub number: u64,
    /// The agent's name, in the latest spelling.
    pub name: Name,
    /// The time when the agent connected or left, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// The moment when the daemon forgets the agent's name, while the agent is away.
    pub forget_at: Option<Moment>,
    /// The hash of a guest's key.
    pub guest_key: Option<Hash>,
    /// The names that the agent had before, the latest last. Stored deliveries keep the names that
    /// they had when they were sent.
    pub earlier: Vec<Name>,
}

/// A session that can be resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// The agent's number.
    pub agent: u64,
    /// The session's id.
    pub id: Arc<str>,
    /// The hash of the token that resumes the session.
    pub token: Hash,
    /// The hash of the token before, which resumes the session as long as the client has not
    /// proved that it has `token`.
    pub former: Option<Hash>,
    /// The hash of the last token that was used up.
    pub spent: Option<Hash>,
    /// The end of the token's validity, while the agent is away.
    pub expires: Option<Moment>,
    /// The capabilities granted.
    pub capabilities: Capabilities,
    /// The patterns that the agent has subscribed to.
    pub subscriptions: Vec<Arc<str>>,
}

/// A stream of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRecord {
    /// The stream's number.
    pub number: u64,
    /// The sender's number.
    pub from: u64,
    /// The recipient's number; 0 stands for all closed streams of the sender.
    pub to: u64,
    /// The stream's topic.
    pub topic: Option<Arc<str>>,
    /// The highest of its numbers that may have been used.
    pub reserved: u64,
}

/// A frame that waits for a sender that is away: the outcome of one of its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeRecord {
    /// The notice's number; lower numbers are written first.
    pub number: u64,
    /// The sender's number.
    pub agent: u64,
    /// The whole frame.
    pub frame: Arc<[u8]>,
}

/// A question that waits for its answer although its delivery has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionRecord {
    /// The DELIVER's id.
    pub delivery: Uuid,
    /// The number of the agent that asked.
    pub from: u64,
    /// The number of the agent that is to answer.
    pub to: u64,
    /// The SEND's id.
    pub send_id: Box<str>,
    /// The correlation id that the answer repeats.
    pub correlation_id: Box<str>,
    /// The time allowed for the answer, in milliseconds.
    pub timeout_ms: u64,
    /// The end of that time.
    pub until: Moment,
}

/// The answer to a question, as a message to the agent that asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerRecord {
    /// The message.
    pub message: MessageRecord,
    /// The message's only delivery.
    pub delivery: DeliveryRecord,
}

/// The daemon's clock at the last write.
///
/// The next daemon's moments continue from there, plus the time that has passed by the wall clock.
/// If that time is negative or over 30 days, the wall clock was changed, and nothing is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock(pub Now);

impl Clock {
    /// The longest gap that the wall clock is trusted for.
    pub(crate) const GAP_MS_MAX: u64 = 30 * 86_400_000;

    /// Returns the moment at wall clock time `unix_ms`, which is after the last write.
    #[must_use]
    pub fn moment_at(self, unix_ms: u64) -> Moment {
        let gap = unix_ms.checked_sub(self.0.unix_ms).filter(|gap| *gap <= Self::GAP_MS_MAX);
        self.0.monotonic.plus(gap.unwrap_or(0))
    }

    /// Returns the moment at wall clock time `unix_ms`, which is before the last write.
    #[must_use]
    pub fn moment_of(self, unix_ms: u64) -> Moment {
        let gap = self.0.unix_ms.checked_sub(unix_ms).filter(|gap| *gap <= Self::GAP_MS_MAX);
        Moment(self.0.monotonic.0.saturating_sub(gap.unwrap_or(0)))
    }
}

/// The stored state that a daemon starts with. Records are keyed by their number, sessions by
/// their agent's number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    /// The clock at the last write.
    pub clock: Clock,
    /// Known agents.
    pub agents: BTreeMap<u64, AgentRecord>,
    /// Resumable sessions.
    pub sessions: BTreeMap<u64, SessionRecord>,
    /// Open streams.
    pub streams: BTreeMap<u64, StreamRecord>,
    /// Messages with an open delivery.
    pub messages: BTreeMap<u64, MessageRecord>,
    /// Open deliveries.
    pub deliveries: BTreeMap<u64, DeliveryRecord>,
    /// Dedup windows of all senders, by the message's number.
    pub dedup: BTreeMap<u64, DedupRecord>,
    /// The latest dead letters.
    pub dead_letters: BTreeMap<u64, DeadLetterRecord>,
    /// Notices for senders that were away.
    pub notices: BTreeMap<u64, NoticeRecord>,
    /// Questions whose deliveries were acknowledged, by the DELIVER's id.
    pub questions: BTreeMap<Uuid, QuestionRecord>,
    /// The highest numbers ever stored.
    pub last: LastNumbers,
}

/// A dead letter, as far as the daemon holds it in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetterRecord {
    /// The DELIVER's id.
    pub id: Uuid,
    /// The recipient's number.
    pub to: u64,
}

/// The highest numbers that agents, streams, messages and deliveries ever had; new records get
/// higher numbers. A number counts even if only another record mentions it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LastNumbers {
    pub agent: u64,
    pub stream: u64,
    pub message: u64,
    pub delivery: u64,
}

/// A query to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// The delivery with this id, or all deliveries of the SEND with this id.
    Id(String),
    /// Like `Id`, but only for deliveries that the agent with this number sent or receives. If
    /// there are none, returns those of other agents, which shows that they exist.
    OwnId(String, u64),
    /// Deliveries that match a filter, the newest first.
    List(Filter),
}

/// A filter for deliveries. An absent member matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// An agent that sent or received the messages.
    pub of: Option<NamedAgent>,
    /// A second agent that sent or received the messages.
    pub with: Option<NamedAgent>,
    /// The number of the agent that sent or received the messages. Names are reused, numbers are
    /// not.
    pub viewer: Option<u64>,
    /// The messages' topic.
    pub topic: Option<String>,
    /// Words that the messages' bodies contain.
    pub search: Option<String>,
    /// Whether to match dead letters only.
    pub dead: bool,
    /// An exclusive upper bound of the deliveries' numbers.
    pub before: Option<u64>,
    /// The maximum number of rows.
    pub limit: usize,
    /// The maximum size of the encoded rows, in bytes; the first row is always included.
    pub bytes_max: usize,
}

/// An agent as a filter names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAgent {
    /// The name. Messages of every agent that has had the name match.
    pub name: Name,
    /// The number of the agent that has the name now; 0 if there is none.
    pub number: u64,
    /// The names that this agent had before. Under these, only its own messages match.
    pub earlier: Vec<Name>,
}

impl NamedAgent {
    /// Returns each of the names, with the number of the agent if only its messages match.
    pub fn names(&self) -> impl Iterator<Item = (&Name, Option<u64>)> {
        let earlier = self.earlier.iter().map(|name| (name, Some(self.number)));
        std::iter::once((&self.name, None)).chain(earlier)
    }
}

/// A name that no known agent has, or whose agent never had another name.
impl From<Name> for NamedAgent {
    fn from(name: Name) -> Self {
        Self { name, number: 0, earlier: Vec::new() }
    }
}

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryResult {
    /// The rows, in the order of the query.
    pub rows: Vec<DeliveryRow>,
    /// Whether more rows follow the last one.
    pub more: bool,
}

/// A delivery with its message and its ending.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryRow {
    /// The delivery.
    pub delivery: DeliveryRecord,
    /// The delivery's message.
    pub message: MessageRecord,
    /// The outcome and its time in milliseconds since 1970, if the delivery has ended.
    pub ended: Option<(Ending, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wall clock time when the daemon's clock reads 5,000.
    const UNIX_MS: u64 = 100 * 86_400_000;
    const DAYS_30: u64 = 30 * 86_400_000;

    #[test]
    fn negative_gap_or_gap_over_30_days_counts_as_zero() {
        let clock = Clock(Now { monotonic: Moment(5_000), unix_ms: UNIX_MS });
        for (unix_ms, moment) in [
            (0, 5_000),
            (UNIX_MS - 1, 5_000),
            (UNIX_MS, 5_000),
            (UNIX_MS + 1, 5_001),
            (UNIX_MS + DAYS_30, 5_000 + DAYS_30),
            (UNIX_MS + DAYS_30 + 1, 5_000),
            (u64::MAX, 5_000),
        ] {
            assert_eq!(clock.moment_at(unix_ms), Moment(moment), "{unix_ms}");
        }
    }

    #[test]
    fn times_before_the_last_write_are_bounded_alike() {
        let clock = Clock(Now { monotonic: Moment(DAYS_30 + 5_000), unix_ms: UNIX_MS });
        for (unix_ms, moment) in [
            (UNIX_MS + 1, DAYS_30 + 5_000),
            (UNIX_MS - 1, DAYS_30 + 4_999),
            (UNIX_MS - DAYS_30, 5_000),
            (UNIX_MS - DAYS_30 - 1, DAYS_30 + 5_000),
        ] {
            assert_eq!(clock.moment_of(unix_ms), Moment(moment), "{unix_ms}");
        }
        let recent = Clock(Now { monotonic: Moment(5), unix_ms: UNIX_MS });
        assert_eq!(recent.moment_of(UNIX_MS - 6), Moment(0));
    }
}
