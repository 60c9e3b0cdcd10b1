//! config.toml: the settings of a home's daemon and of its agents' terminals.

use crate::home::{
    error::{ConfigError, is_absent},
    parse::{self, non_empty_text, whole_number},
    text,
};
use protocol::payload::Durability;
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Unexpected, Visitor, value::SeqAccessDeserializer},
};
use std::{fmt, path::Path};

/// The file's name in the home directory.
pub const FILE: &str = "config.toml";

/// The lock file in the home directory. A running daemon holds its lock.
pub const LOCK_FILE: &str = "daemon.lock";

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The settings of a home. Every key is optional. docs/CONFIGURATION.md has the comments of the
/// fields as a table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The daemon's endpoint.
    #[serde(deserialize_with = "non_empty_text")]
    pub endpoint: Option<String>,
    /// What an accepted message survives. `"process"`: a crash or a kill of the daemon. `"disk"`: a
    /// power failure, too.
    #[serde(deserialize_with = "durability")]
    pub durability: Durability,
    /// The longest frame in bytes, without its length prefix: a message with its metadata.
    #[serde(deserialize_with = "whole_number::<_, { 4 << 10 }, { 64 << 20 }>")]
    pub max_frame_bytes: u64,
    /// The silence before a client gets a PING. After twice as long again, it is disconnected.
    #[serde(deserialize_with = "whole_number::<_, 100, HOUR_MS>")]
    pub heartbeat_ms: u64,
    /// The longest time from a connection to its HELLO, the client's first frame.
    #[serde(deserialize_with = "whole_number::<_, 100, HOUR_MS>")]
    pub handshake_timeout_ms: u64,
    /// How long an agent's session waits for the agent's return after a disconnect.
    #[serde(deserialize_with = "whole_number::<_, 0, { 30 * DAY_MS }>")]
    pub resume_window_ms: u64,
    /// The time to live of a message that states none: how long it waits for its recipient.
    #[serde(deserialize_with = "whole_number::<_, 1_000, { 365 * DAY_MS }>")]
    pub default_ttl_ms: u64,
    /// The time to live of a message to an agent of another machine that states none. That agent
    /// cannot be reached while its link is down.
    #[serde(deserialize_with = "whole_number::<_, 1_000, 31_536_000_000>")]
    pub remote_ttl_ms: u64,
    /// The most messages that may wait for one agent. One sender may fill about half of what others
    /// leave of this.
    #[serde(deserialize_with = "whole_number::<_, 1, 1_000_000>")]
    pub queue_max_messages: u64,
    /// The most bytes that may wait for one agent, at most `memory_max_bytes`. One sender may fill
    /// about half of what others leave of this.
    #[serde(deserialize_with = "whole_number::<_, { 4 << 10 }, { 4 << 30 }>")]
    pub queue_max_bytes: u64,
    /// The most delivered messages that a session retains. An agent may request them again after
    /// its return.
    #[serde(deserialize_with = "whole_number::<_, 0, 1_000_000>")]
    pub replay_messages: u64,
    /// The most bytes of memory that the daemon uses for messages and sessions.
    #[serde(deserialize_with = "whole_number::<_, { 16 << 20 }, { 64 << 30 }>")]
    pub memory_max_bytes: u64,
    /// The most connections that have completed the handshake. All guests together, or the
    /// companions of one agent, may have about half of what others leave; so may a process, once
    /// half of the connections are open.
    #[serde(deserialize_with = "whole_number::<_, 1, 65_536>")]
    pub max_clients: u64,
    /// The days before the name of an absent agent is forgotten, with the messages that wait for
    /// it.
    #[serde(deserialize_with = "whole_number::<_, 1, 3_650>")]
    pub mailbox_days: u64,
    /// The days before a finished message is forgotten. Mail to `@operator` that states no time to
    /// live waits as long, but at least `default_ttl_ms`.
    #[serde(deserialize_with = "whole_number::<_, 0, 3_650>")]
    pub history_days: u64,
    /// The largest size of the store's file in bytes. When it is full, messages are refused, and
    /// everything else continues.
    #[serde(deserialize_with = "whole_number::<_, { 1 << 20 }, { 1 << 40 }>")]
    pub store_max_bytes: u64,
    /// Whether a terminal's title shows the agent's state and name, before the program's own title.
    pub title: bool,
    /// How you are notified when an agent that you are not looking at waits for you, has finished,
    /// or has written to you: by the terminal's bell, a sequence that some terminals show as a
    /// notification, or a command, where `{agent}` stands for the name and `{text}` for what has
    /// happened; without these, the whole sentence is its last argument.
    pub notify: Notify,
    /// Whether an agent CLI continues when its terminal is closed. `"detach"`: it continues in the
    /// background, and `attach` shows it. `"end"`: it ends, and `run` has no key that detaches.
    pub on_hangup: OnHangup,
    /// Whether two agents that edit the same file within ten minutes are told of each other, and
    /// `agents` and `top` show it.
    pub collisions: bool,
}

/// Whether an agent CLI continues when its terminal is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnHangup {
    /// The agent continues in the background.
    #[default]
    Detach,
    /// The agent ends.
    End,
}

impl<'de> Deserialize<'de> for OnHangup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match &*String::deserialize(deserializer)? {
            "detach" => Ok(Self::Detach),
            "end" => Ok(Self::End),
            text => Err(D::Error::invalid_value(Unexpected::Str(text), &"\"detach\" or \"end\"")),
        }
    }
}

/// A way to notify a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// No notices.
    Off,
    /// The terminal's bell.
    #[default]
    Bell,
    /// The terminal's notification by OSC 9.
    Osc9,
    /// The terminal's notification by OSC 777.
    Osc777,
    /// A program and its arguments.
    Command(Vec<String>),
}

impl<'de> Deserialize<'de> for Notify {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NotifyVisitor)
    }
}

struct NotifyVisitor;

impl<'de> Visitor<'de> for NotifyVisitor {
    type Value = Notify;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#""off", "bell", "osc9", "osc777" or ["program", "argument"]"#)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Notify, E> {
        match text {
            "off" => Ok(Notify::Off),
            "bell" => Ok(Notify::Bell),
            "osc9" => Ok(Notify::Osc9),
            "osc777" => Ok(Notify::Osc777),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, words: A) -> Result<Notify, A::Error> {
        match Vec::<String>::deserialize(SeqAccessDeserializer::new(words)) {
            Ok(words) if words.first().is_some_and(|program| !program.is_empty()) => {
                Ok(Notify::Command(words))
            }
            _ => Err(A::Error::invalid_value(Unexpected::Seq, &self)),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            endpoint: None,
            durability: Durability::Disk,
            max_frame_bytes: 1 << 20,
            heartbeat_ms: 5_000,
            handshake_timeout_ms: 5_000,
            resume_window_ms: 600_000,
            default_ttl_ms: 86_400_000,
            remote_ttl_ms: 600_000,
            queue_max_messages: 10_000,
            queue_max_bytes: 16 << 20,
            replay_messages: 1_000,
            memory_max_bytes: 512 << 20,
            max_clients: 4_096,
            mailbox_days: 30,
            history_days: 7,
            store_max_bytes: 1 << 30,
            title: true,
            notify: Notify::default(),
            on_hangup: OnHangup::default(),
            collisions: true,
        }
    }
}

impl Config {
    /// Reads `<home>/config.toml`; a missing file means the defaults.
    pub fn load(home: &Path) -> Result<Self, ConfigError> {
        let path = home.join(FILE);
        match text::read(&path) {
            Ok(text) => Self::parse(&path, &text),
            Err(error) if is_absent(&error) => Ok(Self::default()),
            Err(error) => Err(ConfigError::unreadable(&path, &error)),
        }
    }

    /// Parses the text of a file; `path` is for errors.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let config: Self = parse::parse(path, text)?;
        if config.queue_max_bytes > config.memory_max_bytes {
            return Err(ConfigError {
                path: path.to_owned(),
                line: parse::line_of_key(text, &["queue_max_bytes", "memory_max_bytes"]),
                reason: format!(
                    "`queue_max_bytes` ({}) is over `memory_max_bytes` ({})",
                    config.queue_max_bytes, config.memory_max_bytes
                ),
            });
        }
        Ok(config)
    }
}

fn durability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Durability, D::Error> {
    let text = String::deserialize(deserializer)?;
    let known = [Durability::Disk, Durability::Process];
    known
        .into_iter()
        .find(|durability| durability.as_str() == text)
        .ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &"\"disk\" or \"process\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("config.toml"), text)
    }

    #[track_caller]
    fn refused(text: &str, words: &str) {
        assert_eq!(parse(text).unwrap_err().to_string(), words);
    }

    /// The key of a number, its bounds, and its field.
    type Number = (&'static str, u64, u64, fn(&Config) -> u64);

    const NUMBERS: [Number; 14] = [
        ("max_frame_bytes", 4096, 67_108_864, |config| config.max_frame_bytes),
        ("heartbeat_ms", 100, 3_600_000, |config| config.heartbeat_ms),
        ("handshake_timeout_ms", 100, 3_600_000, |config| config.handshake_timeout_ms),
        ("resume_window_ms", 0, 2_592_000_000, |config| config.resume_window_ms),
        ("default_ttl_ms", 1_000, 31_536_000_000, |config| config.default_ttl_ms),
        ("remote_ttl_ms", 1_000, 31_536_000_000, |config| config.remote_ttl_ms),
        ("queue_max_messages", 1, 1_000_000, |config| config.queue_max_messages),
        ("queue_max_bytes", 4096, 4_294_967_296, |config| config.queue_max_bytes),
        ("replay_messages", 0, 1_000_000, |config| config.replay_messages),
        ("memory_max_bytes", 16_777_216, 68_719_476_736, |config| config.memory_max_bytes),
        ("max_clients", 1, 65_536, |config| config.max_clients),
        ("mailbox_days", 1, 3_650, |config| config.mailbox_days),
        ("history_days", 0, 3_650, |config| config.history_days),
        ("store_max_bytes", 1_048_576, 1_099_511_627_776, |config| config.store_max_bytes),
    ];

    #[test]
    fn empty_or_missing_file_means_the_defaults() {
        assert_eq!(parse("# nothing\n"), Ok(Config::default()));
        assert_eq!(Config::load(Path::new("/nonexistent/home")), Ok(Config::default()));
    }

    #[test]
    fn texts_and_hexadecimal_numbers_are_read() {
        let config = parse("endpoint = '/run/x.sock'\nmax_frame_bytes = 0x1000\n").unwrap();
        assert_eq!(config.endpoint.as_deref(), Some("/run/x.sock"));
        assert_eq!(config.max_frame_bytes, 4096);
        assert_eq!(parse("durability = 'process'").unwrap().durability, Durability::Process);
    }

    #[test]
    fn notify_is_a_word_or_a_command() {
        let command = parse("notify = ['notify-send', '{agent}', '{text}']").unwrap().notify;
        let words = ["notify-send", "{agent}", "{text}"].map(str::to_owned);
        assert_eq!(command, Notify::Command(words.into()));
        assert_eq!(parse("notify = 'osc9'").unwrap().notify, Notify::Osc9);
        let expected = "config.toml:1: `notify`: expected \"off\", \"bell\", \"osc9\", \"osc777\" \
                        or [\"program\", \"argument\"]";
        for wrong in ["'beep'", "[]", "['']", "['a', 1]", "true", "7", "{}"] {
            refused(&format!("notify = {wrong}"), expected);
        }
        assert_eq!(parse("on_hangup = 'end'").unwrap().on_hangup, OnHangup::End);
        let expected = "config.toml:1: `on_hangup`: expected \"detach\" or \"end\"";
        refused("on_hangup = ''", expected);
        refused("title = 1", "config.toml:1: `title`: expected true or false, without quotes");
    }

    #[test]
    fn each_number_is_read_within_its_bounds_and_refused_beyond_them() {
        for (key, min, max, field) in NUMBERS {
            let default = field(&Config::default());
            assert!((min..=max).contains(&default), "{key}: the default is allowed");
            for bound in [min, max] {
                // `queue_max_bytes` must not exceed `memory_max_bytes`, so either may need the
                // other set.
                let config = [
                    format!("{key} = {bound}"),
                    format!("{key} = {bound}\nqueue_max_bytes = 4096"),
                    format!("{key} = {bound}\nmemory_max_bytes = 68719476736"),
                ]
                .iter()
                .find_map(|text| parse(text).ok());
                assert_eq!(config.map(|config| field(&config)), Some(bound), "{key}");
            }
            let expected =
                format!("config.toml:1: `{key}`: expected a whole number from {min} to {max}");
            refused(&format!("{key} = {}", i128::from(min) - 1), &expected);
            refused(&format!("{key} = {}", max + 1), &expected);
        }
    }

    #[test]
    fn errors_name_line_key_and_expectation() {
        let keys = "endpoint, durability, max_frame_bytes, heartbeat_ms, handshake_timeout_ms, \
                    resume_window_ms, default_ttl_ms, remote_ttl_ms, queue_max_messages, \
                    queue_max_bytes, replay_messages, memory_max_bytes, max_clients, \
                    mailbox_days, history_days, store_max_bytes, title, notify, \
                    on_hangup, collisions";
        refused(
            "\ncolour = 1",
            &format!("config.toml:2: unknown key \"colour\"; the keys are {keys}"),
        );
        refused(
            "heartbeat = 1",
            "config.toml:1: unknown key \"heartbeat\" (did you mean \"heartbeat_ms\"?)",
        );
        let number = "config.toml:1: `heartbeat_ms`: expected a whole number from 100 to 3600000";
        for value in ["99", "3600001", "-1", "1.0", "\"5000\"", "true", "99999999999999999999"] {
            refused(&format!("heartbeat_ms = {value}"), number);
        }
        let text = "config.toml:3: `endpoint`: expected a text in quotes";
        refused("\n\nendpoint = 7", text);
        let empty = "config.toml:3: `endpoint`: expected a text that is not empty";
        refused("\n\nendpoint = ''", empty);
        let durability = "config.toml:1: `durability`: expected \"disk\" or \"process\"";
        refused("durability = 'memory'", durability);
        refused("durability = 1", "config.toml:1: `durability`: expected a text in quotes");
        let error = parse("heartbeat_ms = 1000\nheartbeat_ms = 1000").unwrap_err();
        assert_eq!(error.line, Some(2), "{error}");
        assert_eq!(parse("heartbeat_ms = \n").unwrap_err().line, Some(1));
        refused(
            "memory_max_bytes = 16777216\nqueue_max_bytes = 16777217",
            "config.toml:1: `queue_max_bytes` (16777217) is over `memory_max_bytes` (16777216)",
        );
    }
}
