//! The payloads of each type of envelope, as in docs/PROTOCOL.md.
//!
//! The daemon passes on the `payload` of a SEND without reading it; [`MessagePayload`] is the form
//! that this project's clients use.

use super::{
    code::{ErrorCode, NackCode, Violation},
    typed::{self, Object},
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, fmt};

/// HELLO: the identity of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The name requested; ignored for guests and operators.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The capabilities of the client.
    #[serde(default, deserialize_with = "typed::object")]
    pub capabilities: Capabilities,
    /// The claim to resume a session.
    #[serde(
        default,
        deserialize_with = "typed::present_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub session: Option<SessionClaim>,
    /// `companion`, `guest` or `operator`; absent for an agent.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The proof for a keyed name, or of an operator.
    #[serde(
        default,
        deserialize_with = "typed::present_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub auth: Option<Auth>,
    /// The key that an agent and its companions share.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub companion_key: Option<String>,
    /// The key that identifies a guest when it reconnects.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub guest_key: Option<String>,
    /// The program that the agent runs, for people.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The program's initial working directory, for people.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// The longest `program` in HELLO that the daemon keeps, in bytes.
pub const PROGRAM_BYTES_MAX: usize = 64;

/// The longest `directory` in HELLO that the daemon keeps, in bytes.
pub const DIRECTORY_BYTES_MAX: usize = 512;

/// HELLO's `session`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClaim {
    /// The resume token of the last WELCOME.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub resume_token: Option<String>,
}

/// HELLO's `auth`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Auth {
    /// The key of the name, or of the operator.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The capabilities of a client, or those that the daemon granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Whether the client acknowledges deliveries. A client that does not gets no at-least-once
    /// messages.
    pub ack: bool,
    /// Whether the client can resume its session.
    pub resume: bool,
    /// The limit of unacknowledged at-least-once DELIVERs; 0 means none.
    pub max_inflight: u64,
    /// Whether the client may subscribe to topics.
    pub supports_topics: bool,
    /// Whether the client reports the state of each delivery. A delivery without a report then
    /// waits for its agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reports: bool,
    /// Whether a client in place of all agents of another machine, `all@HOST`, gets messages to
    /// everyone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub broadcasts: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            ack: true,
            resume: false,
            max_inflight: 256,
            supports_topics: true,
            reports: false,
            broadcasts: false,
        }
    }
}

/// WELCOME: the new or resumed session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The session's id, which begins with `s-`.
    pub session_id: String,
    /// The token that resumes the session once, within `server.resume_window_ms`.
    pub resume_token: String,
    /// The name of the connection's agent.
    #[serde(default)]
    pub agent: String,
    /// The capabilities granted.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The daemon's limits and versions.
    pub server: Server,
}

/// WELCOME's `server`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The longest frame, without its prefix.
    pub max_frame_bytes: u64,
    /// The silence before the daemon sends a PING, in milliseconds.
    pub heartbeat_ms: u64,
    /// The version of the protocol, `1.1`; absent from a 1.0 daemon.
    #[serde(default)]
    pub protocol: String,
    /// The version of the daemon.
    #[serde(default)]
    pub version: String,
    /// How long the token stays valid after a disconnect, in milliseconds.
    #[serde(default)]
    pub resume_window_ms: u64,
    /// The most messages in each agent's queue.
    #[serde(default)]
    pub queue_max_messages: u64,
    /// The most channels that an operator's connection may have; absent for others, and from an
    /// older daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels_max: Option<u64>,
}

/// The members of a SEND's `payload_meta` that the daemon reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SendMeta {
    /// Whether to deliver at least once, rather than at most once.
    #[serde(default)]
    pub requires_ack: bool,
    /// The time to live, in milliseconds.
    #[serde(default, deserialize_with = "typed::present")]
    pub ttl_ms: Option<u64>,
    /// The parameters of a question, if the sender waits for an answer.
    #[serde(default, deserialize_with = "typed::present_object")]
    pub sync: Option<Sync>,
}

impl SendMeta {
    /// Whether to deliver at least once: a question always is.
    #[must_use]
    pub const fn is_at_least_once(&self) -> bool {
        self.requires_ack || self.sync.is_some()
    }
}

/// The parameters of a question: `payload_meta.sync`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sync {
    /// The sender's id of the question, at most 256 bytes.
    pub correlation_id: String,
    /// The time allowed for the answer, in milliseconds.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Whether the sender is blocked until the answer arrives.
    #[serde(default)]
    pub blocking: bool,
}

impl Sync {
    /// The time allowed by default, in milliseconds.
    pub const TIMEOUT_MS: u64 = 30_000;

    /// The longest time that can be allowed, in milliseconds.
    pub const TIMEOUT_MS_MAX: u64 = 3_600_000;
}

/// The longest `correlationId`, in bytes.
pub const CORRELATION_ID_BYTES_MAX: usize = 256;

/// The longest `thread` that this project's clients send, in bytes. The daemon does not check it.
pub const THREAD_BYTES_MAX: usize = 256;

/// ACK, in both directions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ack<'a> {
    /// The id of the answered envelope.
    #[serde(borrow)]
    pub ack_id: Cow<'a, str>,
    /// The delivery's number in its stream.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The highest acknowledged number of the stream; it acknowledges all up to it.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub cumulative_seq: Option<u64>,
    /// The correlation id of the answered question.
    #[serde(
        default,
        deserialize_with = "typed::present",
        rename = "correlationId",
        skip_serializing_if = "Option::is_none"
    )]
    pub correlation_id: Option<String>,
    /// The answer, yes or no.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub response: Option<bool>,
    /// The answer's data.
    #[serde(default, borrow, rename = "responseData", skip_serializing_if = "Option::is_none")]
    pub response_data: Option<&'a RawValue>,
    /// `accepted`, from the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Cow<'a, str>>,
    /// The message's [`Durability`], or `memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Cow<'a, str>>,
    /// The number of recipients of a broadcast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipients: Option<u64>,
    /// Whether the recipient is away, so that the message waits for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub away: bool,
}

/// The worst event that an accepted message survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A loss of power: the message is synced to the disk before it is accepted.
    #[default]
    Disk,
    /// The end of the daemon's process, in whatever way.
    Process,
}

impl Durability {
    /// The value's text in `config.toml` and in an ACK.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Process => "process",
        }
    }
}

/// NACK, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nack {
    /// The id of the answered envelope.
    pub ack_id: String,
    /// A [`NackCode`]; a recipient may also use another text.
    #[serde(default)]
    pub code: String,
    /// The reason, as a sentence.
    #[serde(default)]
    pub message: String,
    /// The recipient that the NACK is about, if the SEND had several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The correlation id of the question that stays unanswered.
    #[serde(default, rename = "correlationId", skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The delay before the redelivery that a recipient wants, in milliseconds.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Nack {
    /// A NACK with an id, a code and a reason only.
    #[must_use]
    pub fn new(ack_id: impl Into<String>, code: NackCode, message: impl Into<String>) -> Self {
        Self {
            ack_id: ack_id.into(),
            code: code.as_str().to_owned(),
            message: message.into(),
            ..Self::default()
        }
    }
}

/// BUSY: the message was not accepted and can be sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busy {
    /// The id of the SEND.
    #[serde(default)]
    pub ack_id: String,
    /// The first wait of the sender's backoff, in milliseconds.
    pub retry_after_ms: u64,
    /// The number of messages in the recipient's queue.
    pub queue_depth: u64,
    /// The recipients whose queues are full, if there are several; the others have the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy: Vec<String>,
}

/// PING and PONG.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// A text that the PONG repeats.
    pub nonce: String,
}

/// ERROR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorPayload {
    /// An [`ErrorCode`].
    pub code: String,
    /// Whether the connection ends after this ERROR.
    #[serde(default)]
    pub fatal: bool,
    /// The reason, as a sentence.
    #[serde(default)]
    pub message: String,
    /// The id of the envelope that the ERROR is about.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

impl ErrorPayload {
    /// Whether the ERROR has this code.
    #[must_use]
    pub fn has_code(&self, code: ErrorCode) -> bool {
        self.code == code.as_str()
    }
}

impl From<Violation> for ErrorPayload {
    fn from(violation: Violation) -> Self {
        Self {
            code: violation.code.as_str().to_owned(),
            fatal: violation.code.is_fatal(),
            message: violation.message,
            reference: violation.reference,
        }
    }
}

/// BYE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bye {
    /// `stop` or `upgrade` from the daemon; any text from a client.
    #[serde(default)]
    pub reason: String,
    /// The delay before the client should reconnect, in milliseconds.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// RESUME.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The session to resume.
    #[serde(default)]
    pub session_id: String,
    /// The session's agent.
    #[serde(default)]
    pub agent: String,
    /// The session's token, if RESUME is the first frame.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub resume_token: Option<String>,
    /// The position in each stream.
    #[serde(default)]
    pub streams: ResumeStreams,
}

/// The members of a RESUME that prove the right to a session.
#[derive(Debug, Deserialize)]
pub struct ResumeToken {
    /// The session's agent.
    #[serde(default)]
    pub agent: String,
    /// The session's token.
    #[serde(default, deserialize_with = "typed::present")]
    pub resume_token: Option<String>,
}

/// RESUME's `streams`, in either of its two forms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ResumeStreams {
    /// The form of version 1.0: one position by topic for all senders; `""` is no topic.
    ByTopic(BTreeMap<String, LastSeq>),
    /// A position for each stream.
    List(Vec<StreamPosition>),
}

impl Default for ResumeStreams {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl<'de> Deserialize<'de> for ResumeStreams {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct EitherShape;
        impl<'de> Visitor<'de> for EitherShape {
            type Value = ResumeStreams;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or a list")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut topics: A) -> Result<Self::Value, A::Error> {
                let mut positions = BTreeMap::new();
                while let Some((topic, Object(last))) = topics.next_entry()? {
                    positions.insert(topic, last);
                }
                Ok(ResumeStreams::ByTopic(positions))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut streams: A) -> Result<Self::Value, A::Error> {
                let mut positions = Vec::new();
                while let Some(Object(position)) = streams.next_element()? {
                    positions.push(position);
                }
                Ok(ResumeStreams::List(positions))
            }
        }
        json.deserialize_any(EitherShape)
    }
}

/// The position in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSeq {
    /// The last number received.
    pub last_seq: u64,
}

/// The position in one stream, in RESUME and SYNC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition {
    /// The stream's topic; `""` is none.
    pub topic: String,
    /// The stream's sender.
    pub peer: String,
    /// The last number received.
    pub last_seq: u64,
    /// The last number that the daemon gave, in SYNC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_last_seq: Option<u64>,
}

/// SYNC: the answer to RESUME.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncInfo {
    /// The resumed session.
    pub session_id: String,
    /// The last numbers of its streams.
    pub streams: Vec<StreamPosition>,
}

/// The form of a SEND's and DELIVER's `payload` that this project's clients use.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MessagePayload<'a> {
    /// `message`, `request`, `response`, or another kind that agents agree on.
    #[serde(borrow, default)]
    pub kind: Cow<'a, str>,
    /// The text.
    #[serde(borrow, default)]
    pub body: Cow<'a, str>,
    /// Further data: one JSON value.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
    /// A label for a conversation; at most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

/// The `kind` that the answer to a question has in the history.
pub const ANSWER: &str = "answer";

/// The highest `importance` by convention.
pub const IMPORTANCE_MAX: u8 = 100;

/// A SEND's `payload_meta`, as this project's clients write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Meta {
    /// Whether to deliver at least once, rather than at most once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub requires_ack: bool,
    /// The time to live, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The parameters of a question, if the sender waits for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// The id of the message that this one answers.
    #[serde(rename = "replyTo", skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The importance, 0 to 100; a wrapper types messages above 75 first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importance: Option<u8>,
    /// The message to several agents that this SEND is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<Group>>,
    /// The sender's count of messages with the recipient.
    #[serde(flatten)]
    pub hops: Option<LoopCount>,
}

/// A message to several agents, which is a SEND to each of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The id that all the SENDs share.
    pub id: String,
    /// The agents as the sender named them, such as `@reviewers`.
    pub name: String,
    /// The number of SENDs.
    pub size: usize,
}

/// An agent's count of messages with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopCount {
    /// The number of messages in both directions, with this one, since the last prompt of a person
    /// or the last use of a tool that the agent knows of.
    pub hops: u32,
    /// A number that changes with each prompt of the agent's person and each use of a tool.
    pub work: u32,
}

impl Meta {
    /// Whether no member is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The empty object, for types without a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_of_1_0_is_read_with_default_capabilities() {
        let hello: Hello = serde_json::from_str(
            r#"{"agent":"claude-1","capabilities":{"ack":false},"session":{"resume_token":"t"}}"#,
        )
        .unwrap();
        assert_eq!(hello.agent.as_deref(), Some("claude-1"));
        let capabilities = Capabilities { ack: false, ..Capabilities::default() };
        assert_eq!(hello.capabilities, capabilities);
        assert_eq!(hello.session.unwrap().resume_token.as_deref(), Some("t"));
        let bare: Hello = serde_json::from_str(r#"{"agent":"a"}"#).unwrap();
        let default = Capabilities {
            ack: true,
            resume: false,
            max_inflight: 256,
            supports_topics: true,
            reports: false,
            broadcasts: false,
        };
        assert_eq!(bare.capabilities, default);
    }

    #[test]
    fn meta_with_mistyped_members_is_refused() {
        for json in [
            r#"{"requires_ack":1}"#,
            r#"{"ttl_ms":"60"}"#,
            r#"{"ttl_ms":-1}"#,
            r#"{"sync":true}"#,
            r#"{"sync":{"correlationId":7}}"#,
        ] {
            assert!(serde_json::from_str::<SendMeta>(json).is_err(), "{json}");
        }
        let meta: SendMeta =
            serde_json::from_str(r#"{"importance":"any","requires_ack":true}"#).unwrap();
        assert!(meta.requires_ack);
    }

    #[test]
    fn both_forms_of_streams_are_read() {
        let by_topic: Resume = serde_json::from_str(
            r#"{"session_id":"s-1","agent":"a","streams":{"chat":{"last_seq":45}}}"#,
        )
        .unwrap();
        assert!(
            matches!(by_topic.streams, ResumeStreams::ByTopic(map) if map["chat"].last_seq == 45)
        );
        let list: Resume =
            serde_json::from_str(r#"{"streams":[{"topic":"","peer":"b","last_seq":1}]}"#).unwrap();
        assert!(matches!(list.streams, ResumeStreams::List(list) if list[0].peer == "b"));
    }
}
