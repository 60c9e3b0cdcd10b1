//! The client library: join, send, hear, acknowledge. Blocking, over one connection that comes back.
//!
//! [`session`] is the pure machine that knows the protocol; a driver thread owns it and waits.

mod message;
pub mod session;

pub use message::{Delivery, Ended, Event, Meta, Outgoing, SendId, State};

use crate::protocol::{
    code::NackCode,
    payload::{Capabilities, Nack, Welcome},
};
use crossbeam_channel::Receiver;
use serde_json::value::RawValue;
use std::fmt;

/// Who joins, where, and how patient it is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The daemon's address: a path, or a pipe's name.
    pub endpoint: String,
    /// As whom.
    pub mode: Mode,
    /// What HELLO says it can do.
    pub capabilities: Capabilities,
    /// What proves a keyed name.
    pub key: Option<String>,
    /// What this agent's companions will prove themselves with.
    pub companion_key: Option<String>,
    /// Tries before [`Client::join`] fails.
    pub first_attempts: u32,
    /// After section 10's ten attempts, begin anew after this time rather than end.
    pub again_after_ms: Option<u64>,
}

/// As whom a client joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// An agent of this name.
    Agent(String),
    /// Nobody in particular: it sends and gets answers.
    Guest,
}

impl Settings {
    /// An agent that tries once, and once joined comes back by section 10.
    #[must_use]
    pub fn agent(endpoint: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(endpoint.into(), Mode::Agent(name.into()))
    }

    /// A guest that tries once.
    #[must_use]
    pub fn guest(endpoint: impl Into<String>) -> Self {
        Self::new(endpoint.into(), Mode::Guest)
    }

    fn new(endpoint: String, mode: Mode) -> Self {
        Self {
            endpoint,
            mode,
            capabilities: Capabilities { resume: true, ..Capabilities::default() },
            key: None,
            companion_key: None,
            first_attempts: 1,
            again_after_ms: None,
        }
    }
}

/// A joined client. All its methods may be called from any thread; dropping it says BYE.
#[derive(Debug)]
pub struct Client {
    welcome: Welcome,
    events: Receiver<Event>,
}

impl Client {
    /// Connects and says HELLO; returns once the daemon has said WELCOME.
    pub fn join(settings: Settings) -> Result<Self, ClientError> {
        let endpoint = settings.endpoint;
        Err(ClientError::NoDaemon { endpoint, why: "not built yet".to_owned() })
    }

    /// The connection's name, as the daemon says it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.welcome.agent
    }

    /// The first WELCOME.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// What happens, in order. Whoever leaves it unread stops hearing the daemon after a while.
    #[must_use]
    pub fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// Hands a message over. Never waits: it is held while the daemon is away or the recipient busy.
    ///
    /// An at-least-once message is answered by [`Event::Accepted`] or [`Event::Refused`]; any other
    /// only if it can't be routed.
    pub fn send(&self, message: Outgoing) -> Result<SendId, ClientError> {
        drop(message);
        Err(ClientError::Closed)
    }

    /// Says that the delivery is done. Unknown ids, and those that need none, are ignored.
    pub fn acknowledge(&self, delivery_id: &str) {
        let _ = delivery_id;
    }

    /// Gives the delivery back: again after `retry_after_ms`, or for good without it.
    pub fn give_back(
        &self,
        delivery_id: &str,
        code: NackCode,
        message: &str,
        retry_after_ms: Option<u64>,
    ) {
        let _ = (delivery_id, code, message, retry_after_ms);
    }

    /// Asks for a topic, now and after every reconnect; returns once the daemon has answered.
    pub fn subscribe(&self, pattern: &str) -> Result<(), ClientError> {
        let _ = pattern;
        Err(ClientError::Closed)
    }

    /// Asks the daemon something (`status`, `agents` …) and waits for the answer.
    ///
    /// What was sent before it has been routed when this returns.
    pub fn request(&self, body: &str, data: Option<&RawValue>) -> Result<Delivery, ClientError> {
        let _ = (body, data);
        Err(ClientError::Closed)
    }

    /// Says BYE, lets what was said leave, and ends every thread.
    pub fn close(self) {}
}

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// Nothing could be reached there.
    NoDaemon {
        /// Where.
        endpoint: String,
        /// What the system said.
        why: String,
    },
    /// The connection is over.
    Ended(Ended),
    /// The daemon said no.
    Refused(Nack),
    /// Too much is held already; the daemon is away, or a recipient busy.
    Full {
        /// Messages held.
        messages: usize,
        /// Their bytes.
        bytes: usize,
    },
    /// No answer in time.
    TimedOut {
        /// To what.
        what: String,
        /// After so long.
        ms: u64,
    },
    /// The client was closed.
    Closed,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDaemon { endpoint, why } => write!(f, "no daemon at {endpoint}: {why}"),
            Self::Ended(ended) => ended.fmt(f),
            Self::Refused(nack) => write!(f, "{} ({})", nack.message, nack.code),
            Self::Full { messages, bytes } => write!(
                f,
                "{messages} messages ({bytes} bytes) wait to be sent already; send again later"
            ),
            Self::TimedOut { what, ms } => write!(f, "no answer to {what} within {ms} ms"),
            Self::Closed => f.write_str("the client was closed"),
        }
    }
}

impl std::error::Error for ClientError {}
