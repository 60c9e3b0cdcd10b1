//! JetStream's requests and answers: the JSON of its API, and the subject of acknowledgements.

use crate::{
    outbox::{Published, Refusal, RefusalKind},
    subject::{self, Token},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The delay before JetStream redelivers an unacknowledged message. A bridge acknowledges every
/// received message, so only lost messages are redelivered.
pub const ACK_WAIT: Duration = Duration::from_secs(3);

/// The greatest number of messages that JetStream has delivered to a host without an
/// acknowledgement.
pub const WINDOW: usize = 1024;

/// How long the stream recognizes a repeated `Nats-Msg-Id`.
pub const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// How long a message waits for its host, at most. Its sender has it until it is confirmed.
pub const AGE_MAX: Duration = Duration::from_secs(10 * 60);

/// The size of a host's stream, unless another one is given.
pub const STREAM_BYTES: i64 = 256 << 20;

/// The divisor of a stream's size: one sending host may fill one part. It may fill a second part by
/// making the server send messages of its own stream there.
const SHARES: i64 = 3;

/// The messages of one sending host that a stream takes at least, however small it is.
const SHARE_MIN: i64 = 16;

/// JetStream's code of "stream not found".
pub const STREAM_NOT_FOUND: u64 = 10059;

/// JetStream's code of "consumer not found".
pub const CONSUMER_NOT_FOUND: u64 = 10014;

/// JetStream's codes of "JetStream not enabled": for the account, and at all.
pub const NOT_ENABLED: [u64; 2] = [10039, 10076];

/// JetStream's code of "message size exceeds maximum allowed".
const MESSAGE_TOO_LARGE: u64 = 10054;

/// JetStream's code of an error of the stream's store, such as a limit that is reached.
const STORE_FAILED: u64 = 10077;

/// The settings of a stream that can be chosen.
#[derive(Clone, Copy, Debug)]
pub struct StreamSettings {
    /// The servers that keep it.
    pub replicas: usize,
    /// Its size, in bytes.
    pub bytes: i64,
}

/// An error that JetStream answers.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct ApiError {
    /// The kind, as a status of HTTP.
    pub code: u64,
    /// The error.
    #[serde(default)]
    pub err_code: u64,
    /// A sentence for a person.
    #[serde(default)]
    pub description: String,
}

/// The subject that creates a host's stream.
#[must_use]
pub fn create_stream_subject(host: &Token) -> String {
    format!("$JS.API.STREAM.CREATE.{}", subject::stream(host))
}

/// The subject that changes the settings of a host's stream.
#[must_use]
pub fn update_stream_subject(host: &Token) -> String {
    format!("$JS.API.STREAM.UPDATE.{}", subject::stream(host))
}

/// The subject that asks for the state of a host's stream.
#[must_use]
pub fn stream_info_subject(host: &Token) -> String {
    format!("$JS.API.STREAM.INFO.{}", subject::stream(host))
}

/// The subject that removes messages from a host's stream.
#[must_use]
pub fn purge_subject(host: &Token) -> String {
    format!("$JS.API.STREAM.PURGE.{}", subject::stream(host))
}

/// The subject that creates a host's consumer, which has the only filter that this subject allows.
#[must_use]
pub fn create_consumer_subject(host: &Token) -> String {
    format!("$JS.API.CONSUMER.CREATE.{}.{host}.{}", subject::stream(host), subject::filter(host))
}

/// The subject that asks for the state of a host's consumer.
#[must_use]
pub fn consumer_info_subject(host: &Token) -> String {
    format!("$JS.API.CONSUMER.INFO.{}.{host}", subject::stream(host))
}

/// The subject that asks for messages of a host's consumer.
#[must_use]
pub fn next_subject(host: &Token) -> String {
    format!("$JS.API.CONSUMER.MSG.NEXT.{}.{host}", subject::stream(host))
}

/// The most messages of one sending host in a stream of this size, if a message has at most
/// `payload_max` bytes: none can fill the stream for the others.
#[must_use]
pub fn share(stream_bytes: i64, payload_max: usize) -> i64 {
    let payload_max = i64::try_from(payload_max.max(1)).unwrap_or(i64::MAX);
    (stream_bytes / SHARES / payload_max).max(SHARE_MIN)
}

/// The settings of a host's stream, in a request that creates it or changes it.
///
/// The stream's retention is by limits, and the host removes what it has acknowledged from the
/// beginning. Retention as a work queue would remove single messages, and a server that was killed
/// may then count some as pending that it has already removed. These would fill the consumer's
/// window for ever.
///
/// The stream keeps one subject for each sending host, and at most a [`share`] of messages with it.
/// A host could invent any number of subjects with names of agents.
#[must_use]
pub fn stream_settings(host: &Token, settings: StreamSettings, payload_max: usize) -> Value {
    let StreamSettings { replicas, bytes } = settings;
    json!({
        "name": subject::stream(host),
        "subjects": [subject::pattern(host)],
        "subject_transform": {"src": subject::pattern(host), "dest": subject::kept(host)},
        "max_msgs_per_subject": share(bytes, payload_max),
        "discard_new_per_subject": true,
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "num_replicas": replicas,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": bytes,
        "max_age": nanos(AGE_MAX),
        "duplicate_window": nanos(DUPLICATE_WINDOW),
    })
}

/// The prefix of a consumer's description, before the size of the stream: a host may ask for the
/// state of its own consumer only.
const DESCRIPTION: &str = "a host of agent-relay-nats; max_bytes of the stream: ";

/// The request that creates a host's consumer of a stream of a size.
#[must_use]
pub fn create_consumer(host: &Token, stream_bytes: i64) -> Value {
    json!({
        "stream_name": subject::stream(host),
        "config": {
            "name": host.as_str(),
            "durable_name": host.as_str(),
            "description": format!("{DESCRIPTION}{stream_bytes}"),
            "filter_subject": subject::filter(host),
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": nanos(ACK_WAIT),
            "max_deliver": -1,
            "max_ack_pending": WINDOW,
            "replay_policy": "instant",
        },
    })
}

/// The request that removes all messages of a stream up to `floor`. `None` if there is none, since
/// `{"seq": 1}`, which would keep everything, removes everything.
#[must_use]
pub fn purge(floor: u64) -> Option<Value> {
    (floor > 0).then(|| json!({"seq": floor.saturating_add(1)}))
}

/// The request for up to `batch` messages.
#[must_use]
pub fn next(batch: usize, expires: Duration, heartbeat: Duration) -> Value {
    json!({
        "batch": batch,
        "expires": nanos(expires),
        "idle_heartbeat": nanos(heartbeat),
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads an answer of the API.
///
/// # Errors
/// If JetStream answers with an error, or with an invalid answer.
pub fn read<'a, T: Deserialize<'a>>(answer: &'a [u8]) -> Result<T, ApiError> {
    #[derive(Deserialize)]
    struct OnlyError {
        error: Option<ApiError>,
    }
    let unreadable = |error: serde_json::Error| ApiError {
        code: 0,
        err_code: 0,
        description: format!("its answer is unreadable: {error}"),
    };
    let OnlyError { error } = serde_json::from_slice(answer).map_err(unreadable)?;
    error.map_or_else(|| serde_json::from_slice(answer).map_err(unreadable), Err)
}

/// The state of a consumer, and its settings.
#[derive(Debug, Deserialize)]
pub struct ConsumerInfo {
    /// The consumer's settings.
    pub config: ConsumerConfig,
    /// The last delivery.
    pub delivered: Place,
    /// The last delivery before which all are acknowledged.
    pub ack_floor: Place,
    /// The number of messages that are delivered and not acknowledged.
    pub num_ack_pending: usize,
    /// The servers that keep it, if there is a cluster.
    #[serde(default)]
    cluster: Option<Cluster>,
}

/// The servers that keep a consumer, the same as its stream's.
#[derive(Debug, Deserialize)]
struct Cluster {
    /// All but the leader.
    #[serde(default)]
    replicas: Vec<IgnoredAny>,
}

/// A place in the stream.
#[derive(Debug, Deserialize)]
pub struct Place {
    /// The sequence in the stream.
    pub stream_seq: u64,
}

/// Settings of a consumer.
#[derive(Debug, Deserialize)]
pub struct ConsumerConfig {
    /// A text that only this program's setup writes.
    #[serde(default)]
    pub description: String,
    /// The subjects that it delivers.
    #[serde(default)]
    pub filter_subject: String,
    /// The kind of acknowledgement.
    pub ack_policy: String,
    /// The greatest number of deliveries of a message, or -1.
    #[serde(default)]
    pub max_deliver: i64,
}

impl ConsumerConfig {
    /// Why a consumer with these settings cannot be used by `host`.
    #[must_use]
    pub fn unusable(&self, host: &Token) -> Option<String> {
        let filter = subject::filter(host);
        let (name, wanted, found) = if self.filter_subject != filter {
            ("filter_subject", filter, self.filter_subject.clone())
        } else if self.ack_policy != "explicit" {
            ("ack_policy", "explicit".to_owned(), self.ack_policy.clone())
        } else if self.max_deliver > 0 {
            ("max_deliver", "-1".to_owned(), self.max_deliver.to_string())
        } else {
            return None;
        };
        Some(format!("its {name} is {found}, and must be {wanted}"))
    }
}

impl ConsumerConfig {
    /// The size of the stream, if the description has it.
    #[must_use]
    pub fn stream_bytes(&self) -> Option<i64> {
        self.description.strip_prefix(DESCRIPTION)?.parse().ok()
    }
}

impl ConsumerInfo {
    /// The settings of the stream, as far as its consumer shows them. `known` has the others.
    #[must_use]
    pub fn stream(&self, known: StreamSettings) -> StreamSettings {
        let others = self.cluster.as_ref().map_or(0, |cluster| cluster.replicas.len());
        let bytes = self.config.stream_bytes().unwrap_or(known.bytes);
        StreamSettings { replicas: others + 1, bytes }
    }

    /// The highest sequence with all messages up to it acknowledged.
    #[must_use]
    pub fn floor(&self) -> u64 {
        let floor = self.ack_floor.stream_seq;
        // A server's floor can stay behind although all that it has delivered is acknowledged.
        if self.num_ack_pending == 0 { floor.max(self.delivered.stream_seq) } else { floor }
    }
}

/// The state of the stream.
#[derive(Clone, Debug, Deserialize)]
pub struct StreamInfo {
    /// The stream's settings.
    config: Map<String, Value>,
}

impl StreamInfo {
    /// The stream's size and replicas.
    #[must_use]
    pub fn settings(&self) -> StreamSettings {
        let number = |key| self.config.get(key).and_then(Value::as_i64);
        let replicas = number("num_replicas").and_then(|it| usize::try_from(it).ok());
        let bytes = number("max_bytes").unwrap_or(-1);
        StreamSettings { replicas: replicas.unwrap_or(1), bytes }
    }

    /// All settings of the stream, with those of [`stream_settings`] replaced.
    #[must_use]
    pub fn changed(self, host: &Token, settings: StreamSettings, payload_max: usize) -> Value {
        let mut config = self.config;
        if let Value::Object(wanted) = stream_settings(host, settings, payload_max) {
            config.extend(wanted);
        }
        Value::Object(config)
    }
}

/// The outcome of a publish to a host, from JetStream's answer. `bytes` is the size of the host's
/// stream, if known.
#[must_use]
pub fn published(host: &Token, answer: &[u8], bytes: Option<i64>) -> Published {
    #[derive(Deserialize)]
    struct Stored {
        #[serde(rename = "seq")]
        _sequence: u64,
    }
    let Err(ApiError { err_code, description, .. }) = read::<Stored>(answer) else {
        return Published::Stored;
    };
    let stream = subject::stream(host);
    match err_code {
        MESSAGE_TOO_LARGE => {
            let message =
                format!("NATS's stream {stream} refuses the message: {description}; shorten it");
            Published::Refused(Refusal { kind: RefusalKind::TooLarge, message })
        }
        STORE_FAILED if description.contains("maximum") => {
            let size = bytes.map(|bytes| format!(" (its max_bytes is {bytes})"));
            let size = size.unwrap_or_default();
            Published::Full(format!("NATS's stream {stream} is full: {description}{size}"))
        }
        // JetStream has no leader yet, or its disk has failed. The publish is repeated.
        _ => Published::Unknown,
    }
}

/// Whether a subject is for acknowledgements of deliveries to `host`.
#[must_use]
pub fn is_acknowledgement(host: &Token, reply: &str) -> bool {
    let tokens: Vec<_> = reply.split('.').collect();
    // Either `$JS.ACK` and seven tokens, or with a domain and an account before these.
    let at = match tokens.len() {
        9 => 2,
        11.. => 4,
        _ => return false,
    };
    tokens[..2] == ["$JS", "ACK"] && tokens[at] == subject::stream(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::name::Host;

    fn pi() -> Token {
        Token::of_host(&Host::parse("pi").unwrap())
    }

    #[test]
    fn subject_of_acknowledgement_has_two_forms() {
        let pi = pi();
        assert!(is_acknowledgement(&pi, "$JS.ACK.RELAY_pi.pi.1.7.3.1795730015892832530.0"));
        assert!(is_acknowledgement(&pi, "$JS.ACK._.hash.RELAY_pi.pi.1.7.3.179573.0.x"));
        for other in ["", "$JS.ACK.RELAY_x.pi.1.7.3.1.0", "$JS.API.RELAY_pi.pi.1.7.3.1.0", "a.b"] {
            assert!(!is_acknowledgement(&pi, other), "{other}");
        }
    }

    #[test]
    fn outcome_of_publish_is_final_only_for_limits() {
        let error = |err_code, description| {
            let error = json!({"code": 400, "err_code": err_code, "description": description});
            serde_json::to_vec(&json!({"error": error})).unwrap()
        };
        let stored = br#"{"stream": "RELAY", "seq": 4, "duplicate": true}"#;
        assert_eq!(published(&pi(), stored, None), Published::Stored);
        assert_eq!(
            published(&pi(), &error(10023, "insufficient resources"), None),
            Published::Unknown
        );
        assert_eq!(published(&pi(), b"x", None), Published::Unknown);
        let full = published(&pi(), &error(10077, "maximum bytes exceeded"), Some(1024));
        let Published::Full(why) = full else { panic!("{full:?}") };
        assert!(why.contains("exceeded (its max_bytes is 1024)"), "{why}");
    }

    #[test]
    fn share_of_a_sending_host_is_a_third_of_a_stream() {
        assert_eq!(share(256 << 20, 1 << 20), 85);
        assert_eq!(share(256 << 20, 2 << 20), 42);
        assert_eq!(share(1 << 20, 1 << 20), SHARE_MIN);
        assert_eq!(share(-1, 0), SHARE_MIN);
    }

    #[test]
    fn changed_stream_keeps_its_other_settings() {
        let config = json!({"config": {"max_bytes": 7, "num_replicas": 3, "allow_direct": true}});
        let info: StreamInfo = serde_json::from_value(config).unwrap();
        let StreamSettings { replicas, bytes } = info.settings();
        assert_eq!((replicas, bytes), (3, 7));
        let changed = info.changed(&pi(), StreamSettings { replicas: 1, bytes: 1 << 30 }, 1 << 20);
        assert_eq!(changed["allow_direct"], true);
        assert_eq!((&changed["num_replicas"], &changed["max_bytes"]), (&json!(1), &json!(1 << 30)));
    }

    #[test]
    fn purge_of_nothing_is_not_requested() {
        assert_eq!(purge(0), None);
        assert_eq!(purge(7), Some(json!({"seq": 8})));
    }

    #[test]
    fn consumer_with_other_settings_is_not_used() {
        let pi = pi();
        let mut config: ConsumerConfig =
            serde_json::from_value(create_consumer(&pi, 7)["config"].clone()).unwrap();
        assert_eq!(config.unusable(&pi), None);
        assert_eq!(config.stream_bytes(), Some(7));
        config.ack_policy = "none".to_owned();
        assert!(config.unusable(&pi).unwrap().contains("ack_policy"));
        config.filter_subject = "relay.>".to_owned();
        assert!(config.unusable(&pi).unwrap().contains("must be relay.pi.>"));
    }
}
