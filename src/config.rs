//! config.toml and policy.toml: read, checked, explained; and where the daemon is found.

pub mod policy;
pub mod recipes;
pub mod service;
pub mod text;

use crate::{protocol::payload::Durability, router::Limits};
use std::{
    fmt, io,
    path::{Path, PathBuf},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The file's name in the home directory.
pub const FILE: &str = "config.toml";

/// The file in which a daemon leaves its endpoint.
pub const ENDPOINT_FILE: &str = "endpoint";

/// The lock in the home directory that a daemon holds for life.
pub const LOCK_FILE: &str = "daemon.lock";

/// What a daemon may be told. Every key is optional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the daemon listens; the system's default where absent.
    pub endpoint: Option<String>,
    /// The longest frame, its length not counted.
    pub max_frame_bytes: u64,
    /// Silence after which a PING goes out.
    pub heartbeat_ms: u64,
    /// How long a connection may take to say HELLO.
    pub handshake_timeout_ms: u64,
    /// How long after a disconnect a token is good.
    pub resume_window_ms: u64,
    /// Time to live of a message that states none.
    pub default_ttl_ms: u64,
    /// Messages in one agent's queue.
    pub queue_max_messages: u64,
    /// Their bytes.
    pub queue_max_bytes: u64,
    /// Delivered messages that a session has at hand to replay them.
    pub replay_messages: u64,
    /// Everything that the daemon holds.
    pub memory_max_bytes: u64,
    /// Connections with a handshake.
    pub max_clients: u64,
    /// Days after which the name of an agent that stays away is forgotten.
    pub mailbox_days: u64,
    /// Days after which a message that is over is forgotten.
    pub history_days: u64,
    /// The store's file, at most.
    pub store_max_bytes: u64,
    /// What a message survives that is accepted.
    pub durability: Durability,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            endpoint: None,
            max_frame_bytes: 1 << 20,
            heartbeat_ms: 5_000,
            handshake_timeout_ms: 5_000,
            resume_window_ms: 600_000,
            default_ttl_ms: 86_400_000,
            queue_max_messages: 10_000,
            queue_max_bytes: 16 << 20,
            replay_messages: 1_000,
            memory_max_bytes: 512 << 20,
            max_clients: 4_096,
            mailbox_days: 30,
            history_days: 7,
            store_max_bytes: 1 << 30,
            durability: Durability::Disk,
        }
    }
}

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// A number's key, what it may be, and where it goes.
type Number = (&'static str, u64, u64, fn(&mut Config) -> &mut u64);

/// Every key that is a number.
const NUMBERS: [Number; 13] = [
    ("max_frame_bytes", 4 << 10, 64 << 20, |config| &mut config.max_frame_bytes),
    ("heartbeat_ms", 100, HOUR_MS, |config| &mut config.heartbeat_ms),
    ("handshake_timeout_ms", 100, HOUR_MS, |config| &mut config.handshake_timeout_ms),
    ("resume_window_ms", 0, 30 * DAY_MS, |config| &mut config.resume_window_ms),
    ("default_ttl_ms", 1_000, 365 * DAY_MS, |config| &mut config.default_ttl_ms),
    ("queue_max_messages", 1, 1_000_000, |config| &mut config.queue_max_messages),
    ("queue_max_bytes", 4 << 10, 4 << 30, |config| &mut config.queue_max_bytes),
    ("replay_messages", 0, 1_000_000, |config| &mut config.replay_messages),
    ("memory_max_bytes", 16 << 20, 64 << 30, |config| &mut config.memory_max_bytes),
    ("max_clients", 1, 65_536, |config| &mut config.max_clients),
    ("mailbox_days", 1, 3_650, |config| &mut config.mailbox_days),
    ("history_days", 0, 3_650, |config| &mut config.history_days),
    ("store_max_bytes", 1 << 20, 1 << 40, |config| &mut config.store_max_bytes),
];

impl Config {
    /// Reads `<home>/config.toml`; where there is none, everything is as usual.
    pub fn load(home: &Path) -> Result<Self, ConfigError> {
        let path = home.join(FILE);
        match text::read(&path) {
            Ok(text) => Self::parse(&path, &text),
            Err(error) if is_absent(&error) => Ok(Self::default()),
            Err(error) => Err(ConfigError { path, line: None, reason: error.to_string() }),
        }
    }

    /// Reads the text of a file; `path` is for what is said about it.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let wrong = |place: Option<usize>, reason: String| ConfigError {
            path: path.to_owned(),
            line: place.map(|place| line_at(text, place)),
            reason,
        };
        let table = DeTable::parse(text).map_err(|error| {
            wrong(error.span().map(|span| span.start), not_toml(error.message()))
        })?;
        let mut config = Self::default();
        for (key, value) in table.get_ref() {
            config.set(key.get_ref(), value).map_err(|(place, reason)| {
                wrong(Some(place.unwrap_or_else(|| key.span().start)), reason)
            })?;
        }
        config.check_together().map_err(|reason| {
            let mut keys = table.get_ref().keys();
            let key = keys
                .find(|key| ["queue_max_bytes", "memory_max_bytes"].contains(&&**key.get_ref()));
            wrong(key.map(|key| key.span().start), reason)
        })?;
        Ok(config)
    }

    /// The router's limits; what no key sets is as usual.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Limits {
            frame_bytes_max: size(self.max_frame_bytes),
            heartbeat_ms: self.heartbeat_ms,
            handshake_ms: self.handshake_timeout_ms,
            resume_window_ms: self.resume_window_ms,
            ttl_ms: self.default_ttl_ms,
            queue_messages_max: size(self.queue_max_messages),
            queue_bytes_max: size(self.queue_max_bytes),
            replay_messages_max: size(self.replay_messages),
            memory_bytes_max: size(self.memory_max_bytes),
            clients_max: size(self.max_clients),
            mailbox_days: self.mailbox_days,
            durability: self.durability,
            ..Limits::default()
        }
    }

    /// Takes one key. What is wrong is said with its place, where that isn't the key itself.
    fn set(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), (Option<usize>, String)> {
        let place = Some(value.span().start);
        let found = value.get_ref();
        if key == "endpoint" {
            return match found.as_str() {
                Some(text) if !text.is_empty() => {
                    self.endpoint = Some(text.to_owned());
                    Ok(())
                }
                _ => Err((place, "`endpoint` is a path or a pipe's name, in quotes".to_owned())),
            };
        }
        if key == "durability" {
            let known = [Durability::Disk, Durability::Process];
            let found = known.into_iter().find(|known| found.as_str() == Some(known.as_str()));
            return match found {
                Some(durability) => {
                    self.durability = durability;
                    Ok(())
                }
                None => Err((place, "`durability` is \"disk\" or \"process\"".to_owned())),
            };
        }
        let Some((_, min, max, field)) = NUMBERS.iter().find(|(name, ..)| *name == key) else {
            return Err((None, unknown(key)));
        };
        match found.as_integer().and_then(|number| whole(number.as_str(), number.radix())) {
            Some(number) if (*min..=*max).contains(&number) => {
                *field(self) = number;
                Ok(())
            }
            _ => Err((place, format!("`{key}` is a whole number from {min} to {max}"))),
        }
    }

    fn check_together(&self) -> Result<(), String> {
        if self.queue_max_bytes > self.memory_max_bytes {
            return Err(format!(
                "`queue_max_bytes` ({}) is over `memory_max_bytes` ({})",
                self.queue_max_bytes, self.memory_max_bytes
            ));
        }
        Ok(())
    }
}

/// Whether there is no such file; a home that is no directory is somebody else's to complain about.
#[must_use]
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// What is wrong with a file that is no TOML. The parser's own words are about what it tried to read last:
/// of `allow = nope` it says that a float is no `nan`.
fn not_toml(message: &str) -> String {
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let words = match what {
        "string values must be quoted" | "invalid float" | "invalid boolean" => {
            "a value is a number, true, false, or a text in quotes"
        }
        "duplicate key" => "this key is there already: leave one of the two out",
        "key with no value" | "invalid key-value pair" => "a line is KEY = VALUE, or [TABLE]",
        "unexpected key or value" => "nothing follows a value on its line",
        _ if what.ends_with("string") && (expected == "`'`" || expected == "`\"`") => {
            "a text ends with the quotes that it began with"
        }
        _ => return format!("this is not TOML: {what}"),
    };
    words.to_owned()
}

fn whole(digits: &str, radix: u32) -> Option<u64> {
    u64::from_str_radix(digits.trim_start_matches('+'), radix).ok()
}

fn unknown(key: &str) -> String {
    let keys: Vec<_> = ["endpoint", "durability"]
        .into_iter()
        .chain(NUMBERS.iter().map(|(name, ..)| *name))
        .collect();
    format!("unknown key {key:?}; the keys are {}", keys.join(", "))
}

fn line_at(text: &str, place: usize) -> usize {
    1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count()
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Which.
    pub path: PathBuf,
    /// The line, from 1, where what stands in the file is at fault.
    pub line: Option<usize>,
    /// What, and what would be right.
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for ConfigError {}

/// What may say where the daemon is, the strongest first.
#[derive(Clone, Debug, Default)]
pub struct EndpointSources {
    /// `--endpoint`.
    pub option: Option<String>,
    /// `AGENT_RELAY_ENDPOINT`.
    pub environment: Option<String>,
    /// `endpoint` in config.toml.
    pub config: Option<String>,
    /// service.toml, where somebody has installed a service for this user.
    pub service: Option<service::Service>,
    /// What the last daemon left in `<home>/endpoint`.
    pub left: Option<String>,
    /// The system's own, in the order in which they are tried.
    pub defaults: Vec<String>,
}

impl EndpointSources {
    /// What somebody asked for, which is then the only one.
    #[must_use]
    pub fn asked_for(&self) -> Option<&str> {
        [&self.option, &self.environment, &self.config].into_iter().find_map(Option::as_deref)
    }

    /// The service, where that is what a command would use first.
    #[must_use]
    pub fn service_used(&self) -> Option<&service::Service> {
        let service = self.service.as_ref()?;
        self.asked_for().is_none_or(|asked| asked == service.endpoint).then_some(service)
    }

    /// All that a command tries, in order.
    #[must_use]
    pub fn candidates(&self) -> Vec<&str> {
        if let Some(endpoint) = self.asked_for() {
            return vec![endpoint];
        }
        let mut candidates = Vec::new();
        let service = self.service.as_ref().map(|service| &service.endpoint);
        for endpoint in service.into_iter().chain(&self.left).chain(&self.defaults) {
            if !candidates.contains(&endpoint.as_str()) {
                candidates.push(endpoint);
            }
        }
        candidates
    }
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

    #[test]
    fn an_empty_file_leaves_everything_as_usual() {
        assert_eq!(parse("# nothing\n"), Ok(Config::default()));
        assert_eq!(Config::load(Path::new("/nonexistent/home")), Ok(Config::default()));
    }

    #[test]
    fn without_a_file_the_limits_are_the_routers_own() {
        let own = Limits::default();
        assert_eq!(format!("{:?}", Config::default().limits()), format!("{own:?}"));
    }

    #[test]
    fn every_key_is_read() {
        let mut config = parse("endpoint = '/run/x.sock'\nmax_frame_bytes = 0x1000\n").unwrap();
        assert_eq!(config.endpoint.as_deref(), Some("/run/x.sock"));
        assert_eq!(config.max_frame_bytes, 4096);
        for (key, min, max, field) in NUMBERS {
            let usual = *field(&mut Config::default());
            assert!((min..=max).contains(&usual), "{key}'s default is allowed");
            config = parse(&format!("{key} = {min}\nqueue_max_bytes = 4096"))
                .or_else(|_| parse(&format!("{key} = {min}")))
                .unwrap();
            assert_eq!(*field(&mut config), min);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let keys = "endpoint, durability, max_frame_bytes, heartbeat_ms, handshake_timeout_ms, \
                    resume_window_ms, default_ttl_ms, queue_max_messages, queue_max_bytes, \
                    replay_messages, memory_max_bytes, max_clients, mailbox_days, history_days, store_max_bytes";
        refused(
            "\nheartbeat = 1",
            &format!("config.toml:2: unknown key \"heartbeat\"; the keys are {keys}"),
        );
        let number = "config.toml:1: `heartbeat_ms` is a whole number from 100 to 3600000";
        for value in ["99", "3600001", "-1", "1.0", "\"5000\"", "true", "99999999999999999999"] {
            refused(&format!("heartbeat_ms = {value}"), number);
        }
        let endpoint = "config.toml:3: `endpoint` is a path or a pipe's name, in quotes";
        refused("\n\nendpoint = 7", endpoint);
        refused("\n\nendpoint = ''", endpoint);
        let durability = "config.toml:1: `durability` is \"disk\" or \"process\"";
        refused("durability = 'memory'", durability);
        refused("durability = 1", durability);
        let error = parse("heartbeat_ms = 1000\nheartbeat_ms = 1000").unwrap_err();
        assert_eq!(error.line, Some(2), "{error}");
        assert_eq!(parse("heartbeat_ms = \n").unwrap_err().line, Some(1));
        refused(
            "memory_max_bytes = 16777216\nqueue_max_bytes = 16777217",
            "config.toml:1: `queue_max_bytes` (16777217) is over `memory_max_bytes` (16777216)",
        );
    }

    #[test]
    fn what_is_no_toml_is_said_in_words_for_people() {
        let value = "a value is a number, true, false, or a text in quotes";
        let line = "a line is KEY = VALUE, or [TABLE]";
        let ends = "a text ends with the quotes that it began with";
        for (text, words) in [
            ("allow = nope", value),
            ("allow = True", value),
            ("allow = yes", value),
            ("a =", value),
            ("a = 1.0.0", value),
            ("a = 1\na", line),
            ("a : 1", line),
            ("{", line),
            ("a = 'x", ends),
            ("a = \"x", ends),
            ("a = '''x", ends),
            ("a = 1 b = 2", "nothing follows a value on its line"),
            ("[a]\n[a]", "this key is there already: leave one of the two out"),
            ("[a", "this is not TOML: unclosed table"),
            ("a = 1__2", "this is not TOML: `_` may only go between digits"),
            ("a = 12:99", "this is not TOML: invalid time"),
        ] {
            let number = text.lines().count();
            let said = format!("x.toml:{number}: {words}");
            assert_eq!(Config::parse(Path::new("x.toml"), text).unwrap_err().to_string(), said);
            let path = Path::new("x.toml");
            assert_eq!(policy::parse(path, text).unwrap_err().to_string(), said, "{text:?}");
        }
    }

    #[test]
    fn what_was_asked_for_is_the_only_endpoint() {
        let mut sources = EndpointSources {
            left: Some("/left".to_owned()),
            defaults: vec!["/shared".to_owned(), "/left".to_owned()],
            ..EndpointSources::default()
        };
        assert_eq!(sources.candidates(), ["/left", "/shared"]);
        let endpoint = "/service".to_owned();
        sources.service = Some(service::Service { endpoint, ..service::Service::default() });
        assert_eq!(sources.candidates(), ["/service", "/left", "/shared"]);
        assert_eq!(sources.service_used(), sources.service.as_ref());
        sources.config = Some("/config".to_owned());
        assert_eq!(sources.candidates(), ["/config"]);
        assert_eq!(sources.service_used(), None);
        sources.environment = Some("/environment".to_owned());
        assert_eq!(sources.candidates(), ["/environment"]);
        sources.option = Some("/option".to_owned());
        assert_eq!(sources.candidates(), ["/option"]);
        sources.option = Some("/service".to_owned());
        assert!(sources.service_used().is_some());
    }
}
