//! What `@relay` is asked and answers: the shapes of a request's and a response's `data`.

use super::{deliver::Proof, typed};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The `kind` of a SEND that asks `@relay` for something.
pub const REQUEST: &str = "request";

/// The `kind` of the DELIVER that answers.
pub const RESPONSE: &str = "response";

/// The `kind` of a DELIVER that carries a [`TapCopy`].
pub const TAP: &str = "tap";

/// A request's `data` where the answer comes in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The last answer's `next_cursor`; absent asks for the first page.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Rows wanted; the daemon may give fewer.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// A `stop`'s `data`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// What BYE gives as its reason: `upgrade` where another daemon follows; absent is `stop`.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A response's `payload_meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplyMeta<'a> {
    /// The id of the SEND that asked; a response always has it.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Cow<'a, str>>,
}

/// The answer to `status`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status<'a> {
    /// The daemon's version.
    pub version: Cow<'a, str>,
    /// The protocol it speaks.
    pub protocol: Cow<'a, str>,
    /// Milliseconds since it was started.
    pub uptime_ms: u64,
    /// Connections, whatever they are.
    pub connections: u64,
    /// Agents that are connected.
    pub agents_here: u64,
    /// Names that are known, here or away.
    pub agents_known: u64,
    /// Guests that are connected.
    pub guests: u64,
    /// Streams that have a number to go on from.
    pub streams: u64,
    /// At-least-once messages that are not acknowledged yet, and all that wait.
    pub messages: u64,
    /// Bytes that count against `memory_bytes_max`.
    pub memory_bytes: u64,
    /// Their bound.
    pub memory_bytes_max: u64,
    /// What became of messages since the start.
    pub counts: Counts,
    /// What one agent said to another more often than policy allows, if any did.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub too_often: Option<TooOften<'a>>,
    /// What the daemon's driver says about itself: a [`Process`].
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<&'a RawValue>,
}

/// What came more often than policy allows: [`Status`]' `too_often`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooOften<'a> {
    /// Messages that were refused for it since the start.
    pub refused: u64,
    /// Who sent the last of them.
    pub from: Cow<'a, str>,
    /// To whom.
    pub to: Cow<'a, str>,
    /// When; milliseconds since 1970.
    pub at: u64,
}

/// What a daemon says about the process that it is: [`Status`]' `daemon`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process<'a> {
    /// The system's number of it, for a person to look at; it decides nothing.
    pub pid: u32,
    /// Where it listens.
    #[serde(borrow)]
    pub endpoint: Cow<'a, str>,
    /// Where its files are.
    #[serde(borrow)]
    pub home: Cow<'a, str>,
    /// Where it listened before, if somebody else took that place.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Cow<'a, str>>,
    /// Why the store keeps no messages, while it doesn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_fails: Option<String>,
    /// What the store has to say about its file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// What became of messages since the daemon's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// SENDs that were taken.
    pub taken: u64,
    /// DELIVERs that were handed out, redeliveries too.
    pub delivered: u64,
    /// At-least-once deliveries that were acknowledged.
    pub acknowledged: u64,
    /// SENDs that found no room.
    pub busy: u64,
    /// SENDs that were refused, and deliveries that failed for want of their recipient.
    pub refused: u64,
    /// Deliveries whose time to live ran out.
    pub expired: u64,
    /// Deliveries that the recipient gave back for good.
    pub given_back: u64,
    /// Deliveries that failed ten times.
    pub gave_up: u64,
}

/// A page of the answer to `agents`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agents<'a> {
    /// In the order of their names.
    #[serde(borrow)]
    pub agents: Vec<AgentRow<'a>>,
    /// Where the next page begins, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Cow<'a, str>>,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRow<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Whether it is connected.
    pub here: bool,
    /// It is away, was connected when the last daemon ended, and this one was started just now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reconnecting: bool,
    /// Its session, while it is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Cow<'a, str>>,
    /// Since when it is here, or away; milliseconds since 1970.
    pub since: u64,
    /// Messages in its queue: waiting, on the way and mailbox.
    pub queued: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// At-least-once DELIVERs that neither wait for its agent nor are acknowledged.
    pub in_flight: u64,
    /// The rest of its queue: messages that its agent has not been given yet.
    #[serde(default)]
    pub waiting: u64,
    /// Why the oldest of those waits that its recipient gave a reason for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'a, str>>,
    /// When that reason was reported; milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_since: Option<u64>,
    /// Patterns that it subscribed to.
    pub subscriptions: u64,
}

/// The `data` of `message`: the delivery with this id, or all of the SEND with this id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRequest {
    /// A DELIVER's id or a SEND's.
    pub id: String,
    /// As a [`Page`]'s.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// As a [`Page`]'s.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Not the delivery, but what was said as a text, from this byte on: for what is too long for a row.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
}

/// The `data` of `inbox`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxRequest {
    /// Whose; absent is the asker's own.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// As a [`Page`]'s.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// As a [`Page`]'s.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// The `data` of `history`. What is absent may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRequest {
    /// To or from this agent; absent is an agent's own, and everybody's for who has no name of its own.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// To or from that one too.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// On this topic.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// With these words in its body.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// As a [`Page`]'s.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// As a [`Page`]'s.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// The `data` of `redeliver`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedeliverRequest {
    /// A DELIVER's id, or a SEND's for all its dead letters.
    pub id: String,
}

/// The `data` of `report`: how far a recipient is with a delivery of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRequest {
    /// The DELIVER's id.
    pub id: String,
    /// One of [`REPORTS`].
    pub state: String,
    /// In words.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What a recipient may report: not typed yet, typed, and seen to have arrived.
pub const REPORTS: [&str; 3] = ["waiting", "injected", "confirmed"];

/// A page of the answer to `message`, `inbox`, `history` and `dead-letters`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages<T> {
    /// [`MessageRow`]s.
    pub messages: Vec<T>,
    /// Where the next page begins, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One at-least-once delivery, and how far it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MessageRow<'a> {
    /// The DELIVER's id.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The SEND's id.
    pub send_id: Cow<'a, str>,
    /// Who said it.
    pub from: Cow<'a, str>,
    /// How its sender was known.
    pub auth: Proof,
    /// To whom this delivery is.
    pub to: Cow<'a, str>,
    /// It was sent to everyone or to a topic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub to_everyone: bool,
    /// On which topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Cow<'a, str>>,
    /// Its number in the stream.
    pub seq: u64,
    /// When it was taken; milliseconds since 1970.
    pub taken: u64,
    /// What it survives from its `accepted` on: `disk` or `process`.
    pub durability: Cow<'a, str>,
    /// How far it is.
    #[serde(flatten)]
    pub way: Way<'a>,
    /// What was said; absent where [`truncated`](Self::truncated).
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
    /// And its meta.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub payload_meta: Option<&'a RawValue>,
    /// What was said is too long for a row: `message` gives it in pieces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// How far a delivery is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way<'a> {
    /// `waiting`; `delivered`, `injected` or `confirmed` (and not acknowledged); `acknowledged`;
    /// `dead`; or `over` where the end isn't kept yet.
    #[serde(borrow)]
    pub state: Cow<'a, str>,
    /// For what it waits: `store` (to be kept), `recipient` (who is away), `turn` (others are
    /// before it), `window` (others are to be acknowledged first), `rest` (it was given back),
    /// `agent` (its recipient has it, and its agent has not been given it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Cow<'a, str>>,
    /// The end of its rest; milliseconds since 1970, as all times here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// How often it was handed out.
    pub attempts: u32,
    /// How often that failed.
    pub failures: u32,
    /// The end of its time to live, while it isn't over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// What its recipient reported last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Of a dead one: what its sender was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
    /// Why it is dead, or waits for its agent, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'a, str>>,
}

/// What a recipient reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// One of [`REPORTS`].
    pub state: Box<str>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Box<str>>,
    /// When.
    pub at: u64,
}

impl Reported {
    /// Whether the agent has not been given the message.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        &*self.state == REPORTS[0]
    }

    /// Whether the agent is seen to have the message.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        &*self.state == REPORTS[2]
    }
}

/// The answer to a `message` with an `offset`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece<'a> {
    /// A part of a JSON object with `from`, `topic`, `payload` and `payload_meta`.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
    /// Where the next part begins, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// The answer to `redeliver`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redelivered {
    /// So many deliveries are under way again.
    pub redelivered: u64,
    /// So many stay dead letters.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left: u64,
    /// Why the first of these does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A tapper's copy of a SEND that was taken, or of an answer that was handed on.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TapCopy<'a> {
    /// The DELIVER's id, where there is one recipient; an answer has that of its question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Cow<'a, str>>,
    /// The SEND's id; an answer has that of its question.
    pub send_id: Cow<'a, str>,
    /// Who said it.
    pub from: Cow<'a, str>,
    /// To whom, as it was said.
    pub to: Cow<'a, str>,
    /// On which topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Cow<'a, str>>,
    /// The delivery's number, where there is one recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// How many have it.
    pub recipients: u64,
    /// At least once.
    pub requires_ack: bool,
    /// What was said; absent where the copy would be over the frame limit.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
    /// And its meta.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub payload_meta: Option<&'a RawValue>,
    /// An answer's words; absent where the copy would be over the frame limit.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub answer: Option<TapAnswer<'a>>,
    /// Copies that were lost before this one, because the tapper was too slow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

impl<'a> TapCopy<'a> {
    /// Nothing of it yet but whose it is.
    pub fn new(send_id: &'a str, from: &'a str, to: &'a str) -> Self {
        Self { send_id: send_id.into(), from: from.into(), to: to.into(), ..Self::default() }
    }
}

/// What an ACK answers.
#[derive(Debug, Serialize, Deserialize)]
pub struct TapAnswer<'a> {
    /// Yes or no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<bool>,
    /// Anything else.
    #[serde(default, borrow, rename = "responseData", skip_serializing_if = "Option::is_none")]
    pub response_data: Option<&'a RawValue>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_back_and_keeps_what_the_driver_said() {
        let json = r#"{"version":"0.1.0","protocol":"1.1","uptime_ms":1,"connections":2,
            "agents_here":1,"agents_known":3,"guests":1,"streams":4,"messages":0,"memory_bytes":5,
            "memory_bytes_max":6,"counts":{"taken":9},"daemon":{"pid":7}}"#;
        let status: Status<'_> = serde_json::from_str(json).unwrap();
        assert_eq!((status.counts.taken, status.counts.busy), (9, 0));
        assert_eq!(status.daemon.unwrap().get(), r#"{"pid":7}"#);
    }
}
