//! What each kind of envelope carries, typed. The shapes are those of docs/PROTOCOL.md.
//!
//! A SEND's and a DELIVER's own `payload` is the agents' business and stays raw; [`MessagePayload`] is how
//! our own clients fill it.

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

/// HELLO: who is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The name asked for; ignored for guests and operators.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What the client can do.
    #[serde(default, deserialize_with = "typed::object")]
    pub capabilities: Capabilities,
    /// How it takes an earlier session up again.
    #[serde(
        default,
        deserialize_with = "typed::present_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub session: Option<SessionClaim>,
    /// Absent is an agent; `companion`, `guest` or `operator`.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// What proves a keyed name, or an operator.
    #[serde(
        default,
        deserialize_with = "typed::present_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub auth: Option<Auth>,
    /// An agent states it; its companion proves itself with it.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub companion_key: Option<String>,
}

/// HELLO's `session`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClaim {
    /// The token of the last WELCOME.
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

/// What a client can do, and what the daemon granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// It acknowledges; without it no at-least-once mail comes.
    pub ack: bool,
    /// It comes back with its token.
    pub resume: bool,
    /// Unacknowledged at-least-once DELIVERs at a time; 0 is none.
    pub max_inflight: u64,
    /// It may subscribe.
    pub supports_topics: bool,
    /// It reports how far each delivery is: one of which nothing is reported waits for its agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reports: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { ack: true, resume: false, max_inflight: 256, supports_topics: true, reports: false }
    }
}

/// WELCOME: the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Begins with `s-`.
    pub session_id: String,
    /// For one return within `server.resume_window_ms`.
    pub resume_token: String,
    /// The connection's name.
    #[serde(default)]
    pub agent: String,
    /// What was granted.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The daemon's side.
    pub server: Server,
}

/// WELCOME's `server`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The longest frame, its length not counted.
    pub max_frame_bytes: u64,
    /// Silence after which a PING comes.
    pub heartbeat_ms: u64,
    /// The protocol, `1.1`; absent from a 1.0 daemon.
    #[serde(default)]
    pub protocol: String,
    /// The daemon's own version.
    #[serde(default)]
    pub version: String,
    /// How long after a disconnect the token is good.
    #[serde(default)]
    pub resume_window_ms: u64,
    /// The bound of each agent's queue.
    #[serde(default)]
    pub queue_max_messages: u64,
}

/// The members of a SEND's `payload_meta` that the daemon reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SendMeta {
    /// At least once, rather than at most once.
    #[serde(default)]
    pub requires_ack: bool,
    /// How long it may wait, in milliseconds.
    #[serde(default, deserialize_with = "typed::present")]
    pub ttl_ms: Option<u64>,
    /// The sender waits for an answer.
    #[serde(default, deserialize_with = "typed::present_object")]
    pub sync: Option<Sync>,
}

/// `payload_meta.sync`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sync {
    /// The sender's word for the question; at most 256 bytes.
    pub correlation_id: String,
    /// How long the answer may take.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Tells the recipient that the sender waits.
    #[serde(default)]
    pub blocking: bool,
}

impl Sync {
    /// How long an answer may take where nothing is said.
    pub const TIMEOUT_MS: u64 = 30_000;

    /// The longest that may be asked for.
    pub const TIMEOUT_MS_MAX: u64 = 3_600_000;
}

/// The longest `correlationId`, in bytes.
pub const CORRELATION_ID_BYTES_MAX: usize = 256;

/// The longest `thread` that this project's programs send, in bytes. The daemon looks at none.
pub const THREAD_BYTES_MAX: usize = 256;

/// ACK, in both directions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ack<'a> {
    /// The id of what it answers.
    #[serde(borrow)]
    pub ack_id: Cow<'a, str>,
    /// The delivery's number.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Everything up to this number in the delivery's stream.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub cumulative_seq: Option<u64>,
    /// The question that it answers.
    #[serde(
        default,
        deserialize_with = "typed::present",
        rename = "correlationId",
        skip_serializing_if = "Option::is_none"
    )]
    pub correlation_id: Option<String>,
    /// Yes or no.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub response: Option<bool>,
    /// The answer.
    #[serde(default, borrow, rename = "responseData", skip_serializing_if = "Option::is_none")]
    pub response_data: Option<&'a RawValue>,
    /// `accepted`, from the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Cow<'a, str>>,
    /// What the message survives: `memory`, `process` or `disk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Cow<'a, str>>,
    /// How many have a broadcast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipients: Option<u64>,
    /// The recipient is not here: the message waits for it.
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
    /// The id of what it answers.
    pub ack_id: String,
    /// One of [`NackCode`]; a recipient may say anything.
    #[serde(default)]
    pub code: String,
    /// A sentence.
    #[serde(default)]
    pub message: String,
    /// The recipient it is about, of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The question that stays unanswered.
    #[serde(default, rename = "correlationId", skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// A recipient asks for the message again after this time.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Nack {
    /// A NACK that says no more than which, what and why.
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

/// BUSY: not taken, send it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busy {
    /// The id of the SEND.
    #[serde(default)]
    pub ack_id: String,
    /// Where the sender's backoff begins.
    pub retry_after_ms: u64,
    /// Messages in the recipient's queue.
    pub queue_depth: u64,
    /// Who has no room, of several; the others have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy: Vec<String>,
}

/// PING and PONG.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// A PONG repeats the PING's.
    pub nonce: String,
}

/// ERROR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorPayload {
    /// One of [`ErrorCode`].
    pub code: String,
    /// Whether the connection ends with it.
    #[serde(default)]
    pub fatal: bool,
    /// A sentence.
    #[serde(default)]
    pub message: String,
    /// The id of the envelope it is about.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

impl ErrorPayload {
    /// Whether it says `code`.
    #[must_use]
    pub fn is(&self, code: ErrorCode) -> bool {
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
    /// `stop` or `upgrade` from the daemon; a client's own words.
    #[serde(default)]
    pub reason: String,
    /// When it makes sense to come back.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// RESUME.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The session to take up.
    #[serde(default)]
    pub session_id: String,
    /// Its agent.
    #[serde(default)]
    pub agent: String,
    /// Where RESUME is the first frame.
    #[serde(default, deserialize_with = "typed::present", skip_serializing_if = "Option::is_none")]
    pub resume_token: Option<String>,
    /// What was heard of each stream.
    #[serde(default)]
    pub streams: ResumeStreams,
}

/// RESUME's `streams`, in either of its two shapes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ResumeStreams {
    /// 1.0's: by topic, every peer on it; `""` is no topic.
    ByTopic(BTreeMap<String, LastSeq>),
    /// One by one.
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
                let mut places = BTreeMap::new();
                while let Some((topic, Object(last))) = topics.next_entry()? {
                    places.insert(topic, last);
                }
                Ok(ResumeStreams::ByTopic(places))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut streams: A) -> Result<Self::Value, A::Error> {
                let mut places = Vec::new();
                while let Some(Object(place)) = streams.next_element()? {
                    places.push(place);
                }
                Ok(ResumeStreams::List(places))
            }
        }
        json.deserialize_any(EitherShape)
    }
}

/// How far a stream was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSeq {
    /// The last number heard.
    pub last_seq: u64,
}

/// One stream in RESUME and SYNC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition {
    /// Its topic; `""` is none.
    pub topic: String,
    /// Its sender.
    pub peer: String,
    /// The last number heard.
    pub last_seq: u64,
    /// The last number given, in SYNC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_last_seq: Option<u64>,
}

/// SYNC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncInfo {
    /// The session taken up.
    pub session_id: String,
    /// Where its streams stand.
    pub streams: Vec<StreamPosition>,
}

/// How our own clients fill a SEND's `payload`, and read a DELIVER's.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MessagePayload<'a> {
    /// `message`, `request`, `response` or what the agents agree on.
    #[serde(borrow, default)]
    pub kind: Cow<'a, str>,
    /// The text.
    #[serde(borrow, default)]
    pub body: Cow<'a, str>,
    /// Anything else.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
    /// A label for a conversation; at most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

/// The highest `importance`, by custom.
pub const IMPORTANCE_MAX: u8 = 100;

/// How our own clients fill a SEND's `payload_meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Meta {
    /// At least once, rather than at most once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub requires_ack: bool,
    /// How long it may wait, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The sender waits for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// The id of the message that this one answers.
    #[serde(rename = "replyTo", skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// 0 to 100; a recipient's wrapper types what is above 75 before others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importance: Option<u8>,
}

impl Meta {
    /// Whether there is nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The empty object, for kinds that carry nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_1_0_hello_is_read_and_missing_capabilities_have_their_defaults() {
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
        };
        assert_eq!(bare.capabilities, default);
    }

    #[test]
    fn a_meta_of_the_wrong_kind_does_not_pass() {
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
    fn both_shapes_of_streams_are_read() {
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
