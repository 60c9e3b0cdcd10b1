//! The client library: join, send, hear, acknowledge. Blocking, over one connection that comes back.
//!
//! [`session`] is the pure machine that knows the protocol; a driver thread owns it and waits.

mod driver;
mod message;
pub mod session;

pub use crate::protocol::payload::Meta;
pub use driver::Connect;
pub use message::{Answer, Delivery, Ended, Event, Outgoing, Reply, SendId, State};

use crate::{
    link::Connection,
    protocol::{
        code::NackCode,
        name::{EVERYONE, RELAY},
        payload::{Capabilities, Nack, Sync, THREAD_BYTES_MAX, Welcome},
        relay::{REQUEST, ReportRequest},
        secret::Secret,
    },
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use driver::{Account, Command, Driver, Server};
use platform::{endpoint::Endpoint, peer::User, transport::Stream};
use serde_json::value::{RawValue, to_raw_value};
use session::{Identity, Input, Session};
use std::{
    fmt, marker,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

/// The longest frame that a daemon may send: more than any configuration allows it.
const FRAME_BYTES_BOUND: usize = 80 * 1024 * 1024;

/// Events that wait for the application in its channel; more of them wait in the driver.
const EVENTS_MAX: usize = 64;

/// Commands of the application that wait for the driver.
const COMMANDS_MAX: usize = 1024;

/// How long [`Client::request`] and [`Client::subscribe`] wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How much longer [`Client::ask`] waits than the daemon: its word is on the way, or the connection lost.
const GRACE: Duration = Duration::from_secs(5);

/// Who joins, where, and how patient it is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The daemon's address: a path, or a pipe's name.
    pub endpoint: String,
    /// Who may run what is there beside this user, the system and administrators.
    pub server: Option<User>,
    /// As whom.
    pub mode: Mode,
    /// What HELLO says it can do. With `resume`, which agents have by default, the daemon keeps this
    /// client's subscriptions and at-most-once messages while the connection is lost.
    pub capabilities: Capabilities,
    /// What proves a keyed name, or an operator.
    pub key: Option<Secret>,
    /// What an agent's companions prove themselves with: it states that, and so do they.
    pub companion_key: Option<Secret>,
    /// Tries before [`Client::join`] fails.
    pub first_attempts: u32,
    /// After ten failed attempts (docs/PROTOCOL.md, section 15), begin anew after this time
    /// rather than end.
    pub again_after_ms: Option<u64>,
    /// For a daemon on this machine: once joined, reconnect at least once a second without an end.
    /// Waits after an ERROR of the daemon stay as in docs/PROTOCOL.md, section 15.
    pub local: bool,
    /// Called after each attempt to come back that finds nobody listening.
    pub when_absent: Option<WhenAbsent>,
}

/// What a client calls when nobody listens any more where its daemon was. It must return at once.
#[derive(Clone)]
pub struct WhenAbsent(pub Arc<dyn Fn() + Send + marker::Sync>);

impl fmt::Debug for WhenAbsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WhenAbsent")
    }
}

/// As whom a client joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// An agent of this name.
    Agent(String),
    /// One of those who speak in the name of an agent while it is here.
    Companion(String),
    /// Nobody in particular: it sends and gets answers.
    Guest,
    /// Who runs the place.
    Operator,
}

impl Settings {
    /// An agent that tries once, and once joined reconnects as in docs/PROTOCOL.md, section 15.
    #[must_use]
    pub fn agent(endpoint: impl Into<String>, name: impl Into<String>) -> Self {
        let capabilities = Capabilities { resume: true, ..Capabilities::default() };
        Self::new(endpoint.into(), Mode::Agent(name.into()), capabilities)
    }

    /// A guest that tries once. It has no session to come back to.
    #[must_use]
    pub fn guest(endpoint: impl Into<String>) -> Self {
        Self::new(endpoint.into(), Mode::Guest, Capabilities::default())
    }

    /// A companion of this agent that tries once.
    #[must_use]
    pub fn companion(endpoint: impl Into<String>, agent: impl Into<String>, key: Secret) -> Self {
        let mode = Mode::Companion(agent.into());
        let companion_key = Some(key);
        Self { companion_key, ..Self::new(endpoint.into(), mode, Capabilities::default()) }
    }

    /// An operator that tries once.
    #[must_use]
    pub fn operator(endpoint: impl Into<String>, key: Secret) -> Self {
        let key = Some(key);
        Self { key, ..Self::new(endpoint.into(), Mode::Operator, Capabilities::default()) }
    }

    fn new(endpoint: String, mode: Mode, capabilities: Capabilities) -> Self {
        Self {
            endpoint,
            server: None,
            mode,
            capabilities,
            key: None,
            companion_key: None,
            first_attempts: 1,
            again_after_ms: None,
            local: false,
            when_absent: None,
        }
    }

    fn identity(self, seed: [u8; 32]) -> Identity {
        let (agent, mode) = match self.mode {
            Mode::Agent(name) => (Some(name), None),
            Mode::Companion(name) => (Some(name), Some("companion")),
            Mode::Guest => (None, Some("guest")),
            Mode::Operator => (None, Some("operator")),
        };
        let mode = mode.map(str::to_owned);
        Identity {
            agent,
            mode,
            capabilities: self.capabilities,
            key: self.key,
            companion_key: self.companion_key,
            first_attempts: self.first_attempts,
            again_after_ms: self.again_after_ms,
            local: self.local,
            seed,
        }
    }
}

/// A joined client. All its methods may be called from any thread; dropping it says BYE.
#[derive(Debug)]
pub struct Client {
    endpoint: String,
    welcome: Welcome,
    events: Receiver<Event>,
    commands: Sender<Command>,
    account: Arc<Account>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// Connects and says HELLO; returns once the daemon has said WELCOME.
    pub fn join(settings: Settings) -> Result<Self, ClientError> {
        let address = Endpoint::parse(settings.endpoint.as_ref())
            .map_err(|error| ClientError::System(error.to_string()))?;
        let server = settings.server.clone();
        let connect = move || {
            let stream = Stream::connect_among(&address, server.as_slice())?;
            Connection::over(stream, "client", FRAME_BYTES_BOUND)
        };
        Self::over(settings, Box::new(connect))
    }

    /// Joins over whatever `connect` opens, at first and after every loss.
    pub fn over(settings: Settings, connect: Connect) -> Result<Self, ClientError> {
        let system = |error: &dyn fmt::Display| ClientError::System(error.to_string());
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| system(&error))?;
        let endpoint = settings.endpoint.clone();
        let when_absent = settings.when_absent.clone();
        let session = Session::new(settings.identity(seed));
        let (events_sender, events) = bounded(EVENTS_MAX);
        let (commands, commands_receiver) = bounded(COMMANDS_MAX);
        let account = Arc::new(Account::default());
        let server = Server { connect, when_absent };
        let driver =
            Driver::new(session, server, commands_receiver, events_sender, Arc::clone(&account));
        let thread = thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || driver.run())
            .map_err(|error| system(&error))?;
        match wait_for_welcome(&events, &endpoint) {
            Ok(welcome) => {
                let thread = Some(thread);
                Ok(Self { endpoint, welcome, events, commands, account, thread })
            }
            Err(error) => {
                drop(commands);
                // Its own panic was reported by the panic hook; there is nothing left to end.
                drop(thread.join());
                Err(error)
            }
        }
    }

    /// Where the daemon is.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
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
        let (id, input) = self.outgoing(message)?;
        self.tell(Command::Tell(input))?;
        Ok(id)
    }

    /// Says that the delivery is done. Unknown ids, and those that need none, are ignored.
    pub fn acknowledge(&self, delivery_id: &str) {
        self.tell_if_there(Command::Tell(Input::Acknowledge(delivery_id.to_owned())));
    }

    /// Puts a question to one agent and waits for its answer, `timeout` at most, an hour at the longest.
    ///
    /// A connection that is lost meanwhile comes back, and so does the answer. Without one in time, the
    /// error is [`ClientError::Refused`] with `SYNC_TIMEOUT`, or [`ClientError::TimedOut`] where the daemon
    /// didn't say so; the message itself may still arrive.
    pub fn ask(&self, mut message: Outgoing, timeout: Duration) -> Result<Answer, ClientError> {
        if message.to.as_deref().is_none_or(|to| to == EVERYONE) {
            return Err(invalid("a question that is waited for goes to one agent: name it"));
        }
        let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let ms = ms.clamp(1, Sync::TIMEOUT_MS_MAX);
        message.meta.sync =
            Some(Sync { correlation_id: new_id()?.0, timeout_ms: Some(ms), blocking: true });
        let what = format!("the question to {}", message.to.as_deref().unwrap_or_default());
        let (id, input) = self.outgoing(message)?;
        let (reply, answer) = bounded(1);
        self.tell(Command::Ask(id.clone(), input, reply))?;
        let answer = wait(&answer, Duration::from_millis(ms) + GRACE, || what);
        if matches!(answer, Err(ClientError::TimedOut { .. })) {
            self.tell_if_there(Command::Forget(id));
        }
        answer
    }

    /// Answers a delivery that asks, and acknowledges it. The first answer counts; one to a delivery that
    /// doesn't ask, or asks no longer, only acknowledges.
    pub fn answer(
        &self,
        delivery: &Delivery,
        response: bool,
        data: Option<&RawValue>,
    ) -> Result<(), ClientError> {
        let Some(sync) = delivery.sync.as_deref().cloned() else {
            self.acknowledge(&delivery.id);
            return Ok(());
        };
        let (delivery_id, seq) = (delivery.id.clone(), delivery.seq);
        let data = data.map(ToOwned::to_owned);
        self.reply(Reply { delivery_id, seq, sync, response, data })
    }

    /// The same without the delivery at hand.
    pub fn reply(&self, reply: Reply) -> Result<(), ClientError> {
        let weight = reply.weight();
        self.account.open(weight)?;
        self.tell(Command::Tell(Input::Answer(reply, weight)))
    }

    /// Gives the delivery back: again after `retry_after_ms`, or for good without it.
    pub fn give_back(
        &self,
        delivery_id: &str,
        code: NackCode,
        message: &str,
        retry_after_ms: Option<u64>,
    ) {
        let nack = Nack { retry_after_ms, ..Nack::new(delivery_id, code, message) };
        self.tell_if_there(Command::Tell(Input::GiveBack(nack)));
    }

    /// Asks for a topic, now and after every reconnect; returns once the daemon has answered.
    pub fn subscribe(&self, pattern: &str) -> Result<(), ClientError> {
        let (reply, answer) = bounded(1);
        self.tell(Command::Subscribe(pattern.to_owned(), reply))?;
        wait(&answer, ANSWER_TIMEOUT, || format!("the subscription of {pattern}"))
    }

    /// Takes a subscription back.
    pub fn unsubscribe(&self, pattern: &str) {
        self.tell_if_there(Command::Tell(Input::Unsubscribe(pattern.to_owned())));
    }

    /// Asks the daemon something (`status`, `agents` …) and waits for the answer.
    ///
    /// What was sent before it has been routed when this returns.
    pub fn request(&self, body: &str, data: Option<&RawValue>) -> Result<Delivery, ClientError> {
        let (id, input) = self.outgoing(asked(body, data))?;
        let (reply, answer) = bounded(1);
        self.tell(Command::Request(id.clone(), input, reply))?;
        let answer = wait(&answer, ANSWER_TIMEOUT, || format!("the request {body:?}"));
        if matches!(answer, Err(ClientError::TimedOut { .. })) {
            self.tell_if_there(Command::Forget(id));
        }
        answer
    }

    /// Tells the daemon how far a delivery to this agent is. Nobody waits for what it says to that.
    pub fn report(&self, report: &ReportRequest) -> Result<(), ClientError> {
        let data = to_raw_value(report).expect("a report is JSON");
        let (id, input) = self.outgoing(asked("report", Some(&data)))?;
        let (unheard, _) = bounded(1);
        self.tell(Command::Request(id, input, unheard))
    }

    /// Says BYE, lets what was said leave, and ends every thread.
    pub fn close(self) {}

    /// Gives a message its id and makes room for it.
    fn outgoing(&self, message: Outgoing) -> Result<(SendId, Input<'static>), ClientError> {
        if message.thread.as_ref().is_some_and(|thread| thread.len() > THREAD_BYTES_MAX) {
            let why =
                format!("`thread` has more than {THREAD_BYTES_MAX} bytes: choose a shorter one");
            return Err(invalid(why));
        }
        let (id, weight) = (new_id()?, message.weight());
        self.account.open(weight)?;
        Ok((id.clone(), Input::Send(id, message, weight)))
    }

    fn tell(&self, command: Command) -> Result<(), ClientError> {
        self.commands.send(command).map_err(|_| ClientError::Closed)
    }

    /// For what has no answer: without a driver there is nobody left to tell, and the end of the
    /// events says so.
    fn tell_if_there(&self, command: Command) {
        drop(self.tell(command));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.tell_if_there(Command::Close);
        if let Some(thread) = self.thread.take() {
            // Its own panic was reported by the panic hook; there is nothing left to end.
            drop(thread.join());
        }
    }
}

fn wait_for_welcome(events: &Receiver<Event>, endpoint: &str) -> Result<Welcome, ClientError> {
    loop {
        match events.recv() {
            Ok(Event::State(State::Ready(welcome))) => return Ok(*welcome),
            Ok(Event::Ended(Ended::GaveUp { why, absent: true, .. })) => {
                return Err(ClientError::NoDaemon { endpoint: endpoint.to_owned(), why });
            }
            Ok(Event::Ended(ended)) => return Err(ClientError::Ended(ended)),
            Ok(_) => {}
            Err(_) => return Err(ClientError::Closed),
        }
    }
}

fn wait<T>(
    answer: &Receiver<Result<T, ClientError>>,
    timeout: Duration,
    what: impl FnOnce() -> String,
) -> Result<T, ClientError> {
    match answer.recv_timeout(timeout) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => Err(ClientError::TimedOut {
            what: what(),
            ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        }),
        Err(RecvTimeoutError::Disconnected) => Err(ClientError::Closed),
    }
}

/// What the daemon is asked.
fn asked(body: &str, data: Option<&RawValue>) -> Outgoing {
    Outgoing {
        to: Some(RELAY.to_owned()),
        kind: REQUEST.to_owned(),
        body: body.to_owned(),
        data: data.map(ToOwned::to_owned),
        ..Outgoing::default()
    }
}

/// What the daemon is not even asked.
fn invalid(why: impl Into<String>) -> ClientError {
    ClientError::Refused(Box::new(Nack::new("", NackCode::Invalid, why)))
}

fn new_id() -> Result<SendId, ClientError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| ClientError::System(error.to_string()))?;
    Ok(SendId(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()))
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
    Refused(Box<Nack>),
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
    /// The system said no.
    System(String),
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
            Self::System(words) => f.write_str(words),
            Self::Closed => f.write_str("the client was closed"),
        }
    }
}

impl std::error::Error for ClientError {}

#[cfg(test)]
mod tests;
