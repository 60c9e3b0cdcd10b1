//! Settings of a client.

use platform::peer::User;
use protocol::{payload::Capabilities, secret::Secret};
use std::{fmt, sync::Arc, time::Duration};

/// The identity of a client, the daemon's address, and when to give up.
///
/// Begin with a constructor for the mode, and change fields:
///
/// ```
/// use client::Settings;
///
/// let agent = Settings::agent("/tmp/agent-relay.sock", "Ann");
/// let settings = Settings { first_attempts: 10, local: true, ..agent };
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// The daemon's address: a socket's path, or a pipe's name on Windows.
    pub endpoint: String,
    /// A user who may run the daemon, besides this user, the system and administrators.
    pub server: Option<User>,
    /// The role and the name to join with.
    pub mode: Mode,
    /// The capabilities that HELLO states. With `resume`, which agents have by default, the daemon
    /// keeps this client's subscriptions and at-most-once messages while the connection is lost.
    /// `max_inflight` limits the deliveries without an acknowledgement: 256 by default, and at most
    /// 4,096.
    pub capabilities: Capabilities,
    /// The key of the name, if the owner has set one, or the operator's.
    pub key: Option<Secret>,
    /// The key that an agent and its companions share, or the one that identifies a bridge.
    pub companion_key: Option<Secret>,
    /// The program that an agent runs, for people. The daemon keeps at most
    /// [`PROGRAM_BYTES_MAX`](protocol::payload::PROGRAM_BYTES_MAX) bytes.
    pub program: Option<String>,
    /// The program's initial working directory, for people. The daemon keeps at most
    /// [`DIRECTORY_BYTES_MAX`](protocol::payload::DIRECTORY_BYTES_MAX) bytes.
    pub directory: Option<String>,
    /// The number of attempts before [`Client::join`](super::Client::join) fails, 1 by default. The
    /// waits between them grow as after a lost connection.
    pub first_attempts: u32,
    /// The wait before a new cycle of attempts (docs/PROTOCOL.md, section 15), in milliseconds;
    /// without it, the default, a joined client ends after one cycle of ten attempts.
    pub retry_cycle_after_ms: Option<u64>,
    /// Whether the daemon is on this machine. Once joined, such a client tries to reconnect at
    /// least once a second without end. After an ERROR it still waits as docs/PROTOCOL.md, section
    /// 15, says.
    pub local: bool,
    /// The pause after each read from the daemon; none by default. With a pause, a client that gets
    /// many messages gets them later by up to the pause, and uses less of the processor.
    pub read_pause: Duration,
    /// A callback for each attempt to reconnect that finds no listener, such as one that starts a
    /// daemon.
    pub when_absent: Option<WhenAbsent>,
}

/// A callback for an absent daemon. The client's thread calls it, so it must return at once.
#[derive(Clone)]
pub struct WhenAbsent(pub Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for WhenAbsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WhenAbsent")
    }
}

/// The identity that a client joins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// An agent of this name: 1 to 64 letters, digits, `.`, `_` and `-`.
    Agent(String),
    /// A companion, which sends and asks in the name of this agent while that is connected.
    Companion(String),
    /// A guest, which has no name, sends, and gets answers.
    Guest,
    /// The owner of the daemon, who may ask `@relay` for everything.
    Operator,
    /// A bridge, under the name of an agent of another machine: `NAME@HOST`.
    Bridge(String),
}

impl Mode {
    /// HELLO's `agent`.
    pub(super) fn agent(&self) -> Option<&str> {
        match self {
            Self::Agent(name) | Self::Companion(name) | Self::Bridge(name) => Some(name),
            Self::Guest | Self::Operator => None,
        }
    }

    /// HELLO's `mode`.
    pub(super) const fn role(&self) -> Option<&str> {
        match self {
            Self::Agent(_) => None,
            Self::Companion(_) => Some("companion"),
            Self::Guest => Some("guest"),
            Self::Operator => Some("operator"),
            Self::Bridge(_) => Some("bridge"),
        }
    }
}

impl Settings {
    /// Settings of an agent that tries to join once. Once joined, the agent reconnects as in
    /// docs/PROTOCOL.md, section 15.
    #[must_use]
    pub fn agent(endpoint: impl Into<String>, name: impl Into<String>) -> Self {
        let capabilities = Capabilities { resume: true, ..Capabilities::default() };
        Self::new(endpoint.into(), Mode::Agent(name.into()), capabilities)
    }

    /// Settings of a guest, which tries to connect once and has no session to resume.
    #[must_use]
    pub fn guest(endpoint: impl Into<String>) -> Self {
        Self::new(endpoint.into(), Mode::Guest, Capabilities::default())
    }

    /// Settings of a companion of this agent that tries to join once.
    #[must_use]
    pub fn companion(endpoint: impl Into<String>, agent: impl Into<String>, key: Secret) -> Self {
        let mode = Mode::Companion(agent.into());
        let companion_key = Some(key);
        Self { companion_key, ..Self::new(endpoint.into(), mode, Capabilities::default()) }
    }

    /// Settings of an operator that tries to join once.
    #[must_use]
    pub fn operator(endpoint: impl Into<String>, key: Secret) -> Self {
        let key = Some(key);
        Self { key, ..Self::new(endpoint.into(), Mode::Operator, Capabilities::default()) }
    }

    /// Settings of a bridge under the name of an agent of another machine, with the operator's key
    /// and the bridge's own, that tries to join once.
    #[must_use]
    pub fn bridge(
        endpoint: impl Into<String>,
        name: impl Into<String>,
        (key, bridge): (Secret, Secret),
    ) -> Self {
        let capabilities = Capabilities { resume: true, ..Capabilities::default() };
        let (key, companion_key) = (Some(key), Some(bridge));
        let mode = Mode::Bridge(name.into());
        Self { key, companion_key, ..Self::new(endpoint.into(), mode, capabilities) }
    }

    fn new(endpoint: String, mode: Mode, capabilities: Capabilities) -> Self {
        Self {
            endpoint,
            server: None,
            mode,
            capabilities,
            key: None,
            companion_key: None,
            program: None,
            directory: None,
            first_attempts: 1,
            retry_cycle_after_ms: None,
            local: false,
            read_pause: Duration::ZERO,
            when_absent: None,
        }
    }
}
