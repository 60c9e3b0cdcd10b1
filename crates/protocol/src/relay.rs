//! The `data` of requests to `@relay` and of its responses.

use super::{deliver::Proof, typed, wire_enum::wire_enum};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The `kind` of a request to `@relay`.
pub const REQUEST: &str = "request";

/// The `kind` of a response of `@relay`.
pub const RESPONSE: &str = "response";

/// The `kind` of a DELIVER that carries a [`TapCopy`].
pub const TAP: &str = "tap";

/// The `kind` of a DELIVER that carries a [`Change`].
pub const CHANGE: &str = "change";

wire_enum! {
    /// A request to `@relay`: the `body` that names it, its answer, its `data`, and who may ask.
    /// docs/RELAY-API.md has these comments as a table.
    RequestName {
        /// The answer is [the state of the daemon](docs/RELAY-API.md#status).
        ///
        /// No `data`.
        ///
        /// Everybody may ask.
        Status = "status",
        /// The answer is [the known agents](docs/RELAY-API.md#agents), in the order of their names.
        ///
        /// `cursor` (string), `limit` (whole number), both optional.
        ///
        /// Everybody may ask.
        Agents = "agents",
        /// The answer is [a row](docs/RELAY-API.md#rows-of-messages) for the delivery with this id,
        /// or for each delivery of the SEND with this id: how far it is, and its content. The first
        /// 4 to 31 digits of an id are enough if they fit one message. The ids of SENDs are found
        /// among the latest 65,536 messages.
        ///
        /// `id` (string); `cursor`, `limit`, `offset` (whole number), optional.
        ///
        /// Everybody may ask about their own mail.
        Message = "message",
        /// The answer is [a row](docs/RELAY-API.md#inbox-history-and-dead-letters) for each message
        /// that waits for an agent or that it has not acknowledged, oldest first.
        ///
        /// `of` (string), `cursor`, `limit`, all optional.
        ///
        /// Everybody may ask about their own mail.
        Inbox = "inbox",
        /// The answer is how many messages in [the operator's
        /// mailbox](docs/RELAY-API.md#the-operators-mailbox) are acknowledged now.
        ///
        /// `ids` (list of strings).
        ///
        /// Operators may ask.
        Take = "take",
        /// The answer is [a row](docs/RELAY-API.md#inbox-history-and-dead-letters) for each
        /// at-least-once message, newest first, as long as `history_days` keeps it.
        ///
        /// `of`, `with`, `topic`, `search` (strings), `dead` (boolean), `cursor`, `limit`, all
        /// optional.
        ///
        /// Everybody may ask about their own mail.
        History = "history",
        /// The answer is [a row](docs/RELAY-API.md#inbox-history-and-dead-letters) for each message
        /// that could not be delivered, newest first.
        ///
        /// `cursor`, `limit`, both optional.
        ///
        /// Operators may ask.
        DeadLetters = "dead-letters",
        /// The answer is how many dead letters are [delivered again](docs/RELAY-API.md#redeliver).
        ///
        /// `id` (string).
        ///
        /// Operators may ask.
        Redeliver = "redeliver",
        /// The daemon [forgets a name](docs/RELAY-API.md#forget-and-purge); the answer is `{}`.
        ///
        /// `name` (string).
        ///
        /// Operators may ask.
        Forget = "forget",
        /// The daemon [gives an agent another name](docs/RELAY-API.md#rename); the answer is `{}`.
        ///
        /// `name`, `new_name` (strings).
        ///
        /// Operators may ask.
        Rename = "rename",
        /// The daemon [ends the messages](docs/RELAY-API.md#forget-and-purge) that wait for an
        /// agent; the answer is how many.
        ///
        /// `name` (string); `force`, `delete` (booleans), optional.
        ///
        /// Operators may ask.
        Purge = "purge",
        /// A recipient [reports](docs/RELAY-API.md#report) how far it is with a delivery; the
        /// answer is `{}`.
        ///
        /// `id`, `state`, `why` (strings; `why` optional).
        ///
        /// The recipient may ask.
        Report = "report",
        /// An agent [reports](docs/RELAY-API.md#activity) what it does; the answer is `{}`.
        ///
        /// `activity`, `source` (strings), `for_ms` (whole number), `unseen` (boolean; optional).
        ///
        /// Agents may ask.
        Activity = "activity",
        /// From now on, this connection gets [a copy](docs/RELAY-API.md#tap) of what is routed, or
        /// with `changes` is told what [changes](docs/RELAY-API.md#changes); the answer repeats
        /// what was asked for.
        ///
        /// `changes` (boolean), optional.
        ///
        /// Operators may ask.
        Tap = "tap",
        /// The daemon [reads `policy.toml` again](docs/RELAY-API.md#reload); the answer, once it is
        /// in force, is `{}`.
        ///
        /// No `data`.
        ///
        /// Operators may ask.
        Reload = "reload",
        /// The answer is `{}`; then the daemon [stops](docs/RELAY-API.md#stop), and every client
        /// gets BYE.
        ///
        /// `reason` (string), optional.
        ///
        /// Operators may ask.
        Stop = "stop",
    }
}

/// The `data` of a request with a paged answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The last answer's `next_cursor`; absent for the first page.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The number of rows wanted; the daemon may send fewer.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// The `data` of `stop`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// The reason for BYE: `upgrade` if another daemon follows; absent means `stop`.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A response's `payload_meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplyMeta<'a> {
    /// The id of the request's SEND; a response always has it.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Cow<'a, str>>,
}

/// The answer to `status`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status<'a> {
    /// The daemon's version.
    pub version: Cow<'a, str>,
    /// The version of the protocol.
    pub protocol: Cow<'a, str>,
    /// The time since its start, in milliseconds.
    pub uptime_ms: u64,
    /// The number of connections of every kind.
    pub connections: u64,
    /// The number of connected agents.
    pub agents_here: u64,
    /// The number of known names, connected or away.
    pub agents_known: u64,
    /// The number of connected guests.
    pub guests: u64,
    /// The number of streams whose last number is kept.
    pub streams: u64,
    /// The number of messages that wait or are not acknowledged yet.
    pub messages: u64,
    /// The number of messages in the operator's mailbox; absent if there is none, or for a client
    /// that is no operator.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mailbox: u64,
    /// The bytes that count against `memory_bytes_max`.
    pub memory_bytes: u64,
    /// The limit of `memory_bytes`.
    pub memory_bytes_max: u64,
    /// The outcomes of messages since the start.
    pub counts: Counts,
    /// Messages refused by a rate limit of policy, if any.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub too_often: Option<TooOften<'a>>,
    /// The description of the daemon's process: a [`Process`].
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<&'a RawValue>,
}

/// Messages refused by a rate limit of policy: `too_often` of [`Status`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooOften<'a> {
    /// The number of messages refused since the start.
    pub refused: u64,
    /// The sender of the last refused message.
    pub from: Cow<'a, str>,
    /// The recipient of the last refused message.
    pub to: Cow<'a, str>,
    /// The time of the last refusal, in milliseconds since 1970.
    pub at: u64,
}

/// The description of a daemon's process: `daemon` of [`Status`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process<'a> {
    /// The process id, for information only.
    pub pid: u32,
    /// The daemon's endpoint.
    #[serde(borrow)]
    pub endpoint: Cow<'a, str>,
    /// The directory of the daemon's files.
    #[serde(borrow)]
    pub home: Cow<'a, str>,
    /// The daemon's former endpoint, which another user has taken.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Cow<'a, str>>,
    /// The reason why nobody can connect at the endpoint, while that is so. Connections stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_fails: Option<String>,
    /// The reason why the store fails, while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_fails: Option<String>,
    /// Whether the system ends the daemon together with the program that started it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_with_starter: bool,
    /// The store's warnings about its file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// The outcomes of messages since the daemon's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// SENDs that were accepted.
    pub taken: u64,
    /// DELIVERs that were sent, including redeliveries.
    pub delivered: u64,
    /// At-least-once deliveries that were acknowledged.
    pub acknowledged: u64,
    /// SENDs that were answered with BUSY.
    pub busy: u64,
    /// SENDs that were refused, and at-most-once messages whose recipient left before they were
    /// written.
    pub refused: u64,
    /// Deliveries whose time to live ran out.
    pub expired: u64,
    /// Deliveries that the recipient refused permanently.
    pub given_back: u64,
    /// Deliveries that failed ten times.
    pub gave_up: u64,
}

/// A page of the answer to `agents`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agents<'a> {
    /// The agents, sorted by name.
    #[serde(borrow)]
    pub agents: Vec<AgentRow<'a>>,
    /// The cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Cow<'a, str>>,
}

/// An agent in the answer to `agents`. Times are in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRow<'a> {
    /// The agent's name.
    pub name: Cow<'a, str>,
    /// The machine of an agent of another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Cow<'a, str>>,
    /// Whether the agent is connected.
    pub here: bool,
    /// Whether the agent is expected back: its session can be resumed, and the store has it as
    /// connected when the last daemon ended. Set only in the first 30 s after the daemon's start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reconnecting: bool,
    /// The agent's session, while the agent is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Cow<'a, str>>,
    /// The program that the agent runs, as its HELLO stated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Cow<'a, str>>,
    /// The program's initial working directory, as its HELLO stated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Cow<'a, str>>,
    /// The time when the agent connected or left.
    pub since: u64,
    /// The number of messages in its queue: waiting, in flight and mailbox.
    pub queued: u64,
    /// The bytes of the messages in its queue.
    pub queued_bytes: u64,
    /// The number of these messages that are `delivered`, `injected` or `confirmed`, and not
    /// acknowledged.
    pub in_flight: u64,
    /// The number of messages in its queue that the agent has not been given yet.
    #[serde(default)]
    pub waiting: u64,
    /// The reason reported for the oldest waiting message that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'a, str>>,
    /// The time of that report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_since: Option<u64>,
    /// The number of its subscriptions.
    pub subscriptions: u64,
    /// What the agent does, as it has [reported](docs/RELAY-API.md#activity) since it is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Cow<'a, str>>,
    /// The start of that activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity_since: Option<u64>,
    /// The reported source of the activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity_source: Option<Cow<'a, str>>,
    /// Whether the agent has finished its work since its person last looked at it, as reported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
}

/// The `data` of `message`, which asks for the delivery with an id, or all deliveries of the SEND
/// with that id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRequest {
    /// A DELIVER's id or a SEND's.
    pub id: String,
    /// The cursor, as in [`Page`].
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The limit, as in [`Page`].
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The offset of the requested part of the content's text, in bytes, for a message too long for
    /// a row.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
}

/// The `data` of `inbox`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxRequest {
    /// The agent; absent for the sender's own inbox.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The cursor, as in [`Page`].
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The limit, as in [`Page`].
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// The `data` of `history`. An absent member matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRequest {
    /// An agent that sent or received the messages. If absent, an operator gets the messages of all
    /// agents, and another client those of its own agent.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// A second agent that sent or received the messages.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// The messages' topic.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Words that the messages' bodies contain.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Whether only messages that could not be delivered match.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dead: bool,
    /// The cursor, as in [`Page`].
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The limit, as in [`Page`].
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// The `data` of `redeliver`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedeliverRequest {
    /// A DELIVER's id, or a SEND's for all its dead letters.
    pub id: String,
}

/// The `data` of `take`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeRequest {
    /// Whole DELIVERs' ids of messages in the operator's mailbox.
    pub ids: Vec<String>,
}

/// The answer to `take`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The number of messages that are acknowledged now and were not before.
    pub taken: u64,
}

/// The `data` of `report`: the state of a delivery at its recipient.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRequest {
    /// The DELIVER's id.
    pub id: String,
    /// The state reported: one of [`REPORTS`].
    pub state: String,
    /// The reason, in words.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The states that a recipient may report: not typed yet, typed, and seen to have arrived.
pub const REPORTS: [&str; 3] = [
    DeliveryState::Waiting.as_str(),
    DeliveryState::Injected.as_str(),
    DeliveryState::Confirmed.as_str(),
];

/// The `data` of `activity`: what its sender does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityRequest {
    /// The activity: the text of an [`Activity`](super::activity::Activity).
    pub activity: String,
    /// The source: the text of an [`ActivitySource`](super::activity::ActivitySource).
    pub source: String,
    /// How long the activity has lasted, in milliseconds.
    pub for_ms: u64,
    /// Whether the agent has finished its work since its person last looked at it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
}

/// The `kind` of a DELIVER that carries [`Unread`].
pub const UNREAD: &str = "unread";

/// The `data` of a DELIVER that tells an agent that its message waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread<'a> {
    /// The DELIVER's id of the message that waits.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The message's recipient.
    pub to: Cow<'a, str>,
    /// How long the message has waited, in milliseconds.
    pub for_ms: u64,
    /// The reason, in the recipient's words.
    pub why: Cow<'a, str>,
    /// The recipient's activity, as in [`AgentRow`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Cow<'a, str>>,
    /// How long that activity has lasted, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity_ms: Option<u64>,
}

/// A page of the answer to `message`, `inbox`, `history` and `dead-letters`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages<T> {
    /// [`MessageRow`]s.
    pub messages: Vec<T>,
    /// The cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An at-least-once delivery and its state. Times are in milliseconds since 1970.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MessageRow<'a> {
    /// The DELIVER's id.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The SEND's id.
    pub send_id: Cow<'a, str>,
    /// The sender's name.
    pub from: Cow<'a, str>,
    /// The proof of the sender's identity, as in the DELIVER.
    pub auth: Proof,
    /// The recipient's name.
    pub to: Cow<'a, str>,
    /// Whether the message was sent to everyone (`*`) or to a topic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub to_everyone: bool,
    /// The message's topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Cow<'a, str>>,
    /// The delivery's number in its stream.
    pub seq: u64,
    /// The time when the SEND was accepted.
    pub taken: u64,
    /// What the message survives once it is accepted: `disk` or `process`.
    pub durability: Cow<'a, str>,
    /// The state of the delivery.
    #[serde(flatten)]
    pub delivery: DeliveryProgress<'a>,
    /// The sender's `payload`; absent if `truncated`.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
    /// The sender's `payload_meta`; absent if `truncated`.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub payload_meta: Option<&'a RawValue>,
    /// Whether the content is too long for a row; `message` sends it in pieces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

wire_enum! {
    /// The state of a delivery. docs/RELAY-API.md has these comments as a table.
    DeliveryState {
        /// The delivery waits for what `waits_for` says.
        Waiting = "waiting",
        /// The recipient has the message, and has not acknowledged it.
        Delivered = "delivered",
        /// The message is typed, and not acknowledged.
        Injected = "injected",
        /// The agent is seen to have the message, which is not acknowledged.
        Confirmed = "confirmed",
        /// The recipient has acknowledged the message.
        Acknowledged = "acknowledged",
        /// The message is a dead letter.
        Dead = "dead",
        /// The delivery has ended, and its end is being stored.
        Over = "over",
    }
}

wire_enum! {
    /// The obstacle to the next attempt of a delivery. docs/RELAY-API.md has these comments as a
    /// table.
    WaitsFor {
        /// The message or the next numbers of its stream are being stored.
        Store = "store",
        /// The recipient is away.
        Recipient = "recipient",
        /// Other messages come before this one.
        Turn = "turn",
        /// `max_inflight` messages are in flight.
        Window = "window",
        /// The recipient returned the message, which is redelivered at the time `until`.
        Rest = "rest",
        /// The recipient has the message, and has not passed it on to its agent.
        Agent = "agent",
    }
}

/// The state of a delivery. Times are in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryProgress<'a> {
    /// The state of the delivery, in a word [below](docs/RELAY-API.md#states-in-rows).
    #[serde(borrow)]
    pub state: Cow<'a, str>,
    /// The obstacle to the next attempt, in a word [below](docs/RELAY-API.md#states-in-rows).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Cow<'a, str>>,
    /// The end of `rest`, a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// The number of times that it was delivered.
    pub attempts: u32,
    /// The number of attempts that failed.
    pub failures: u32,
    /// The end of the message's time to live, while the delivery is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// The recipient's last report about this delivery: `state`, `why`, and `at`, its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
    /// The time when the delivery was acknowledged or died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// The code that the sender got, if the delivery is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
    /// The reason why the delivery is dead, as its sender was told, or why it waits for its agent,
    /// as its recipient reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'a, str>>,
}

/// A report of a recipient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// The state reported: one of [`REPORTS`].
    pub state: Box<str>,
    /// The reason, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Box<str>>,
    /// The time of the report.
    pub at: u64,
}

impl Reported {
    /// Whether the message waits in the recipient's wrapper.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        &*self.state == DeliveryState::Waiting.as_str()
    }

    /// Whether the message was seen to have arrived at the agent.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        &*self.state == DeliveryState::Confirmed.as_str()
    }
}

/// The answer to a `message` with an `offset`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece<'a> {
    /// A part of the text of a JSON object with `from`, `topic`, `payload` and `payload_meta`.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
    /// The offset of the next part, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// The answer to `redeliver`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redelivered {
    /// The number of deliveries made.
    pub redelivered: u64,
    /// The number of dead letters that could not be redelivered.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left: u64,
    /// The reason why the first of the `left` dead letters was not redelivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The `data` of `forget`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetRequest {
    /// The name to forget.
    pub name: String,
}

/// The `data` of `rename`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenameRequest {
    /// The agent's name.
    pub name: String,
    /// The name that it gets.
    pub new_name: String,
}

/// The `data` of `purge`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeRequest {
    /// The name whose mail ends.
    pub name: String,
    /// Whether deliveries in flight end, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Whether the messages are deleted for good, and do not become dead letters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delete: bool,
}

/// The answer to `purge`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// The number of messages that ended.
    pub purged: u64,
    /// The number of deliveries in flight that were left.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_flight: u64,
    /// Whether more messages wait, so that the request should be repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// The `data` of `tap`, and of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tap {
    /// Whether the client gets [`Change`]s in place of [`TapCopy`]s. The answer of a daemon that
    /// knows no changes does not have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes: bool,
}

wire_enum! {
    /// The subject of a [`Change`].
    ChangeKind {
        /// A delivery was accepted or has ended.
        Message = "message",
        /// An answer to a question was passed on.
        Answer = "answer",
        /// An agent has joined or left, or its activity has changed.
        Agent = "agent",
        /// Changes were lost because the client reads too slowly.
        Lost = "lost",
    }
}

/// The state of a delivery that is accepted, in a [`Change`].
pub const ACCEPTED: &str = "accepted";

/// The state of a delivery that is acknowledged, in a [`Change`] and in [`DeliveryProgress`].
pub const ACKNOWLEDGED: &str = DeliveryState::Acknowledged.as_str();

/// The state of a dead letter, in a [`Change`] and in [`DeliveryProgress`].
pub const DEAD: &str = DeliveryState::Dead.as_str();

/// The state of a dead letter that is delivered again, in a [`Change`].
pub const REDELIVERED: &str = "redelivered";

/// The states of an agent that has just joined, left, and got another name, in a [`Change`].
pub const JOINED: &str = "joined";
/// See [`JOINED`].
pub const LEFT: &str = "left";
/// See [`JOINED`].
pub const RENAMED: &str = "renamed";

/// A change, for a tap that asked for changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change<'a> {
    /// The subject: the text of a [`ChangeKind`].
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    /// The time of the change, in milliseconds since 1970.
    pub at: u64,
    /// The new state: of a message [`ACCEPTED`], [`ACKNOWLEDGED`], [`DEAD`] or [`REDELIVERED`]; of
    /// an agent [`JOINED`], [`LEFT`], [`RENAMED`] or the text of an
    /// [`Activity`](super::activity::Activity).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Cow<'a, str>>,
    /// The DELIVER's id; for an answer, the id of its question's DELIVER.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Cow<'a, str>>,
    /// The SEND's id; for an answer, the id of its question's SEND.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_id: Option<Cow<'a, str>>,
    /// The sender's name; of a renamed agent, the name before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Cow<'a, str>>,
    /// The recipient's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Cow<'a, str>>,
    /// The message's topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Cow<'a, str>>,
    /// Whether the message is delivered at least once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_ack: Option<bool>,
    /// The code of the NACK that the sender of a dead letter got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
    /// The reason, in words, why the delivery is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'a, str>>,
    /// The agent's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Cow<'a, str>>,
    /// The start of the agent's state, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// The source of an activity: the text of an
    /// [`ActivitySource`](super::activity::ActivitySource).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Cow<'a, str>>,
    /// With an activity, `unseen` as in [`AgentRow`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
    /// The number of changes that were lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

impl Change<'_> {
    /// A change with its subject and time only.
    #[must_use]
    pub fn new(kind: ChangeKind, at: u64) -> Self {
        Self { kind: kind.as_str().into(), at, ..Self::default() }
    }
}

/// A copy for a tap, of a SEND that was accepted or an answer that was passed on.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TapCopy<'a> {
    /// The DELIVER's id, if there is one recipient; for an answer, the id of its question's
    /// DELIVER.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Cow<'a, str>>,
    /// The SEND's id; for an answer, the id of its question's SEND.
    pub send_id: Cow<'a, str>,
    /// The sender's name.
    pub from: Cow<'a, str>,
    /// The recipient, in the sender's spelling.
    pub to: Cow<'a, str>,
    /// The message's topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Cow<'a, str>>,
    /// The delivery's number in its stream, if there is one recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The number of recipients.
    pub recipients: u64,
    /// Whether the message is delivered at least once.
    pub requires_ack: bool,
    /// The sender's `payload`; absent if the copy would be longer than a frame.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
    /// The sender's `payload_meta`.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub payload_meta: Option<&'a RawValue>,
    /// The answer; absent if the copy would be longer than a frame.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub answer: Option<TapAnswer<'a>>,
    /// The number of copies lost before this one because the tap was too slow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

impl<'a> TapCopy<'a> {
    /// A copy with sender and recipient only.
    pub fn new(send_id: &'a str, from: &'a str, to: &'a str) -> Self {
        Self { send_id: send_id.into(), from: from.into(), to: to.into(), ..Self::default() }
    }
}

/// The answer in a [`TapCopy`].
#[derive(Debug, Serialize, Deserialize)]
pub struct TapAnswer<'a> {
    /// The id of the answer's delivery in the history.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub id: Option<Cow<'a, str>>,
    /// The answer, yes or no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<bool>,
    /// Further data: one JSON value.
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
    fn status_reads_back_with_the_description_of_the_daemon() {
        let json = r#"{"version":"0.1.0","protocol":"1.1","uptime_ms":1,"connections":2,
            "agents_here":1,"agents_known":3,"guests":1,"streams":4,"messages":0,"memory_bytes":5,
            "memory_bytes_max":6,"counts":{"taken":9},"daemon":{"pid":7}}"#;
        let status: Status<'_> = serde_json::from_str(json).unwrap();
        assert_eq!((status.counts.taken, status.counts.busy), (9, 0));
        assert_eq!(status.daemon.unwrap().get(), r#"{"pid":7}"#);
    }
}
