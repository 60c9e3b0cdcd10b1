//! What `@relay` is asked and answers: the shapes of a request's and a response's `data`.

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Rows wanted; the daemon may give fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// A response's `payload_meta`, and what our own clients read of any other's.
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
    /// What the daemon's driver says about itself: a [`Process`].
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<&'a RawValue>,
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
    /// Its session, while it is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Cow<'a, str>>,
    /// Since when it is here, or away; milliseconds since 1970.
    pub since: u64,
    /// Messages in its queue: waiting, on the way and mailbox.
    pub queued: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// At-least-once DELIVERs that it has not acknowledged.
    pub in_flight: u64,
    /// Patterns that it subscribed to.
    pub subscriptions: u64,
}

/// A tapper's copy of a SEND that was taken.
#[derive(Debug, Serialize, Deserialize)]
pub struct TapCopy<'a> {
    /// The DELIVER's id, where there is one recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Cow<'a, str>>,
    /// The SEND's id.
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
    /// Copies that were lost before this one, because the tapper was too slow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
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
