//! What outlives the daemon: records, and how they change.
//!
//! The machine in the middle says each [`Change`] once, in order; the store keeps them in that order and
//! reports how far it is. What it has when a daemon starts is an [`Image`]. What nobody holds in memory
//! any more is asked for with a [`Query`].
//!
//! Agents, streams, messages and deliveries have numbers, which count up and are never used twice. Those of
//! answers count up from the last that is still kept.
//! Moments are of the daemon's own clock, which goes on where the last daemon's ended: see [`Clock`].

#[cfg(test)]
pub(crate) mod oracle;

use crate::protocol::{
    Moment, Now, code::NackCode, deliver::Proof, name::Name, payload::Capabilities, secret::Hash,
};
use std::{collections::BTreeMap, sync::Arc};
use uuid::Uuid;

/// A SEND's id and content, as one number: what makes two of them doubles.
pub type Fingerprint = [u8; 16];

/// Something that is to be kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// An at-least-once SEND was taken. Where there is no room for it, it is refused.
    Taken(Box<Taken>),
    /// The same of one that was accepted, for a store that lost it: it can't be refused any more. Whatever
    /// is there of it makes place for this.
    TakenAgain(Box<Taken>),
    /// A delivery was handed out more often than its record says, or failed.
    Attempted {
        /// The delivery's number.
        delivery: u64,
        /// How often it was handed out.
        attempts: u32,
        /// How often that failed.
        failures: u32,
    },
    /// A delivery is over; of a dead one: it was acknowledged after all.
    Ended {
        /// The delivery's number.
        delivery: u64,
        /// How.
        ending: Ending,
        /// When.
        unix_ms: u64,
    },
    /// A dead letter is to be delivered again, as if it were new.
    Revived {
        /// The delivery's number.
        delivery: u64,
        /// Its new time to live.
        expires: Moment,
    },
    /// An agent is known, or what is known of it changed.
    Agent(Box<AgentRecord>),
    /// An agent is forgotten, its session and its doubles with it. Its streams end by themselves.
    AgentForgotten(u64),
    /// A session began or changed. An agent has one at the most.
    Session(Box<SessionRecord>),
    /// An agent has no session any more.
    SessionEnded {
        /// The agent's number.
        agent: u64,
    },
    /// A stream is open, or more of its numbers are reserved.
    Stream(Box<StreamRecord>),
    /// A stream is over.
    StreamEnded(u64),
    /// A sender that is away is to hear something. It may be refused for want of room, too, of which
    /// nobody is told: the daemon has it at hand.
    Answer(Box<AnswerRecord>),
    /// It was written to its sender, or nobody will come for it.
    AnswerEnded(u64),
    /// A delivery was acknowledged, and its sender still waits for an answer.
    Question(Box<QuestionRecord>),
    /// Nobody waits any more for an answer to this delivery.
    QuestionEnded(Uuid),
}

/// What taking a SEND changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The message; one that some recipients had no room for comes again when these have it.
    pub message: MessageRecord,
    /// Those that are new.
    pub deliveries: Vec<DeliveryRecord>,
    /// How the same SEND is recognised.
    pub double: DoubleRecord,
}

/// What all deliveries of a SEND have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// Its number.
    pub number: u64,
    /// The sender's number.
    pub sender: u64,
    /// The sender's session.
    pub session: Arc<str>,
    /// How the sender is known.
    pub proof: Proof,
    /// The SEND's id.
    pub send_id: Box<str>,
    /// It was sent to everyone or to a topic.
    pub to_everyone: bool,
    /// When it was taken.
    pub unix_ms: u64,
    /// The end of each DELIVER of it, from `"from":` to the last brace.
    pub shared: Arc<[u8]>,
}

/// One message for one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Its number; older ones go out first.
    pub number: u64,
    /// The message's number.
    pub message: u64,
    /// The stream's number.
    pub stream: u64,
    /// The recipient's number.
    pub to: u64,
    /// The recipient's name, as it was spelled then.
    pub to_name: Name,
    /// Its number in the stream.
    pub seq: u64,
    /// The DELIVER's id.
    pub id: Uuid,
    /// The end of its time to live.
    pub expires: Moment,
    /// How often it was handed out. A delivery to an agent that is here says 1 from the start: it may be
    /// one off after a crash, and costs no second record.
    pub attempts: u32,
    /// How often that failed.
    pub failures: u32,
}

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its recipient has it.
    Acknowledged,
    /// It is a dead letter.
    Dead {
        /// What its sender was told.
        code: NackCode,
        /// In words.
        why: Box<str>,
    },
}

/// A SEND that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoubleRecord {
    /// The message's number.
    pub message: u64,
    /// The sender's number.
    pub sender: u64,
    /// What it is recognised by.
    pub fingerprint: Fingerprint,
    /// How many have it, of a broadcast.
    pub recipients: Option<u64>,
    /// Numbers of those who had no room for it.
    pub left: Vec<u64>,
}

/// An agent that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRecord {
    /// Its number.
    pub number: u64,
    /// As it was last spelled.
    pub name: Name,
    /// Since when it is here, or away.
    pub since_unix_ms: u64,
    /// When it is to be forgotten, while it is away.
    pub forget_at: Option<Moment>,
}

/// What can be resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// The agent's number.
    pub agent: u64,
    /// The session's id.
    pub id: Arc<str>,
    /// Of the token that resumes it.
    pub token: Hash,
    /// Of the token that did so last.
    pub spent: Option<Hash>,
    /// Until when the token is good, while the agent is away.
    pub expires: Option<Moment>,
    /// What was granted.
    pub capabilities: Capabilities,
    /// Patterns.
    pub subscriptions: Vec<Arc<str>>,
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRecord {
    /// Its number.
    pub number: u64,
    /// The sender's number.
    pub from: u64,
    /// The recipient's number. 0: it stands for all streams of its sender that were closed.
    pub to: u64,
    /// Its topic.
    pub topic: Option<Arc<str>>,
    /// The last of its numbers that may have been used.
    pub reserved: u64,
}

/// What became of a message, as its sender is to hear it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerRecord {
    /// Its number; lower ones are heard first.
    pub number: u64,
    /// The sender's number.
    pub agent: u64,
    /// The whole frame.
    pub frame: Arc<[u8]>,
}

/// A question whose delivery is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionRecord {
    /// The DELIVER's id.
    pub delivery: Uuid,
    /// The number of who asked.
    pub from: u64,
    /// The number of who is to answer.
    pub to: u64,
    /// The SEND's id.
    pub send_id: Box<str>,
    /// What the answer is known by.
    pub correlation_id: Box<str>,
    /// How long it had.
    pub timeout_ms: u64,
    /// When that is over.
    pub until: Moment,
}

/// The daemon's clock when something was kept last.
///
/// A daemon's moments go on from there: it adds what the wall clock says has gone by since. Where that is
/// less than nothing or more than 30 days, somebody has set the clock, and nothing is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock(pub Now);

impl Clock {
    /// More than that, and the wall clock is not believed.
    pub const GAP_MS_MAX: u64 = 30 * 86_400_000;

    /// The moment it is when the wall clock says `unix_ms`.
    #[must_use]
    pub fn moment_at(self, unix_ms: u64) -> Moment {
        let gap = unix_ms.checked_sub(self.0.unix_ms).filter(|gap| *gap <= Self::GAP_MS_MAX);
        self.0.monotonic.plus(gap.unwrap_or(0))
    }

    /// The moment it was when the wall clock said `unix_ms`, before something was kept last.
    #[must_use]
    pub fn moment_of(self, unix_ms: u64) -> Moment {
        let gap = self.0.unix_ms.checked_sub(unix_ms).filter(|gap| *gap <= Self::GAP_MS_MAX);
        Moment(self.0.monotonic.0.saturating_sub(gap.unwrap_or(0)))
    }
}

/// What a daemon starts with. Everything by its number, a session by its agent's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    /// When something was kept last.
    pub clock: Clock,
    /// Known agents.
    pub agents: BTreeMap<u64, AgentRecord>,
    /// Their sessions.
    pub sessions: BTreeMap<u64, SessionRecord>,
    /// Open streams.
    pub streams: BTreeMap<u64, StreamRecord>,
    /// Messages of which a delivery is open.
    pub messages: BTreeMap<u64, MessageRecord>,
    /// Open deliveries.
    pub deliveries: BTreeMap<u64, DeliveryRecord>,
    /// SENDs that are remembered, by their message's number.
    pub doubles: BTreeMap<u64, DoubleRecord>,
    /// Dead letters, the last ones.
    pub dead: BTreeMap<u64, DeadRecord>,
    /// What waits for senders that were away.
    pub answers: BTreeMap<u64, AnswerRecord>,
    /// Questions whose deliveries were acknowledged, by these.
    pub questions: BTreeMap<Uuid, QuestionRecord>,
    /// The highest numbers that were ever kept.
    pub last: Numbers,
}

/// A dead letter, as far as it is held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadRecord {
    /// The DELIVER's id.
    pub id: Uuid,
    /// The recipient's number.
    pub to: u64,
}

/// The highest number of each kind, also of those that are only referred to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each says its kind")]
pub struct Numbers {
    pub agent: u64,
    pub stream: u64,
    pub message: u64,
    pub delivery: u64,
}

/// A question to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// The delivery with this id, or all of the SEND with this id.
    Id(String),
    /// Deliveries, the newest first.
    List(Filter),
}

/// Which deliveries are wanted. Absent: any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// To or from this agent.
    pub of: Option<Name>,
    /// To or from that one too.
    pub with: Option<Name>,
    /// On this topic.
    pub topic: Option<String>,
    /// With these words in the body.
    pub search: Option<String>,
    /// Dead letters only.
    pub dead: bool,
    /// Below this number.
    pub before: Option<u64>,
    /// So many at the most.
    pub limit: usize,
    /// And no more than can be told in so many bytes, but one at least.
    pub bytes_max: usize,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// In the order asked for.
    pub rows: Vec<Row>,
    /// There are more below the last one.
    pub more: bool,
}

/// A delivery, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The delivery.
    pub delivery: DeliveryRecord,
    /// Its message.
    pub message: MessageRecord,
    /// How and when it ended, if it did.
    pub ended: Option<(Ending, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock stands at 5,000 where the wall clock says this.
    const UNIX_MS: u64 = 100 * 86_400_000;
    const DAYS_30: u64 = 30 * 86_400_000;

    #[test]
    fn a_gap_below_nothing_or_above_30_days_counts_as_nothing() {
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
    fn what_was_before_a_clock_is_judged_alike() {
        let clock = Clock(Now { monotonic: Moment(DAYS_30 + 5_000), unix_ms: UNIX_MS });
        for (unix_ms, moment) in [
            (UNIX_MS + 1, DAYS_30 + 5_000),
            (UNIX_MS - 1, DAYS_30 + 4_999),
            (UNIX_MS - DAYS_30, 5_000),
            (UNIX_MS - DAYS_30 - 1, DAYS_30 + 5_000),
        ] {
            assert_eq!(clock.moment_of(unix_ms), Moment(moment), "{unix_ms}");
        }
        let young = Clock(Now { monotonic: Moment(5), unix_ms: UNIX_MS });
        assert_eq!(young.moment_of(UNIX_MS - 6), Moment(0));
    }
}
