//! The Rust client of Agent Relay, the daemon that routes messages between the agents on a machine.
//!
//! A [`Client`] joins a daemon under a name, sends, receives and acknowledges messages, asks and
//! answers questions, subscribes to topics, and reconnects by itself. Calls that need an answer
//! block; there is no async runtime. The commands of `agent-relay` and its wrapper use this
//! library. docs/PROTOCOL.md specifies what goes over the wire; the types of payloads and codes are
//! those of the crate `protocol`.
//!
//! To use the library, read on. To change it, begin with [`session`], the pure state machine; the
//! module `driver` is the thread around it, [`link`] frames over a stream, which the daemon uses as
//! well, and [`home`] the files by which a daemon is found. The library starts no daemon.
//!
//! # Connect
//!
//! [`home::HomeOptions`] finds the daemon as the commands do: by `AGENT_RELAY_ENDPOINT`, the files
//! of the home directory, or the default endpoints. It starts no daemon.
//!
//! ```no_run
//! use client::{Settings, home::HomeOptions};
//!
//! let context = HomeOptions::default().context()?;
//! let client = context.try_join(&|endpoint| Settings::agent(endpoint, "Ann"))?;
//! println!("joined as {}", client.name());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! For a known endpoint, call [`Client::join`]. [`Settings`] has constructors for the other
//! [modes](Mode): a guest, a companion, the operator, a bridge. The client connects only to a
//! daemon of this user, of the system or its administrators, or of [`Settings::server`].
//!
//! # Send
//!
//! [`Client::send`] queues a message and returns its id. The outcome is an [`Event`] with that id.
//!
//! ```no_run
//! # use client::{Client, Event, Outgoing};
//! # fn send(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
//! let id = client.send(Outgoing::message("Bob", "Your turn"))?;
//! for event in client.events() {
//!     match event {
//!         Event::Accepted { send_id, .. } if send_id == id => break,
//!         Event::Refused { send_id, nack } if send_id == id => return Err(nack.message.into()),
//!         Event::Ended(ended) => return Err(ended.to_string().into()),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Outgoing::message`] makes an at-least-once message: once it is accepted, it survives the end
//! of the daemon and of both clients, and is delivered until the recipient acknowledges it or its
//! time to live is over. A later failure is another [`Event::Refused`]. Without
//! [`requires_ack`](Meta::requires_ack), a message is sent at most once and can be lost.
//!
//! # Receive
//!
//! [`Event::Delivered`] carries a message. Acknowledge it once it is stored or processed, or return
//! it with [`Client::return_delivery`]; otherwise the daemon delivers it again to the next client
//! of this name. A redelivery after a reconnect is not passed on twice.
//!
//! ```no_run
//! # use client::{Client, Event};
//! # fn receive(client: &Client) {
//! for event in client.events() {
//!     match event {
//!         Event::Delivered(delivery) => {
//!             println!("{} says {:?}", delivery.from, delivery.body);
//!             client.acknowledge(&delivery.id);
//!         }
//!         Event::Ended(_) => break,
//!         _ => {}
//!     }
//! }
//! # }
//! ```
//!
//! A body is another agent's text: escape its control characters before you print it. No event
//! follows [`Event::Ended`], and the channel stays open, so a loop must end there.
//!
//! # Ask and answer
//!
//! [`Client::ask`] sends a question and waits for the answer. A delivery with
//! [`sync`](Delivery::sync) is a question; [`Client::answer`] also acknowledges it.
//!
//! ```no_run
//! # use client::{Client, Delivery, Outgoing};
//! # use serde_json::{json, value::to_raw_value};
//! # use std::time::Duration;
//! # fn both(client: &Client, delivery: &Delivery) -> Result<(), Box<dyn std::error::Error>> {
//! let answer = client.ask(Outgoing::message("Bob", "Which port?"), Duration::from_secs(30))?;
//! println!("{} answers {:?}", answer.from, answer.body());
//!
//! let data = to_raw_value(&json!({"body": "8080"}))?;
//! client.answer(delivery, true, Some(&data))?;
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! | where | error | meaning |
//! |---|---|---|
//! | calls | [`ClientError::Refused`] | the daemon or the recipient refused; [`Nack`] says why |
//! | calls | [`ClientError::TimedOut`] | no answer came in time; the message may be accepted |
//! | calls | [`ClientError::Full`] | too much waits to be sent: send again later |
//! | calls | [`ClientError::Ended`] | the client has ended: close it, and join again if you want |
//! | events | [`Event::Refused`] | a message was not delivered, perhaps after it was accepted |
//! | events | [`Event::Missed`] | at-most-once messages may be lost |
//! | events | [`Event::Error`] | the daemon reported a violated rule, or broke one |
//! | events | [`Event::Ended`] | as the error of this name; the last event |
//!
//! # Reconnecting
//!
//! A lost connection is replaced after 100 ms, 200 ms and so on, at most 30 s apart, give or take
//! 15 %. The session is resumed with its token, so that subscriptions stay and missed messages
//! follow; messages without an answer are sent again with their ids. After ten attempts in a row
//! the client ends, unless [`Settings::retry_cycle_after_ms`] or [`Settings::local`] say otherwise.
//! An ERROR that a new attempt would get again, such as `NAME_IN_USE`, ends it at once.
//! [`Event::State`] reports each step.
//!
//! # Threads
//!
//! All methods take `&self` and may be called from any thread; each event goes to one of the
//! threads that read [`Client::events`]. A client has a thread `client`, which owns the
//! [`session`], and while it is connected `client-reader` and `client-writer`. [`Clients`] are many
//! clients in their owner's thread; with a daemon that has channels, they share one connection.
//!
//! # Shutdown
//!
//! Dropping a client or [`Client::close`] writes what is queued for the connection, sends BYE, and
//! ends all its threads, within a second or so. Messages without an [`Event::Accepted`] may not
//! have been accepted; those that wait for a connection are lost. [`Client::hang_up`] ends without
//! BYE, so that the daemon keeps the session's messages for its return.
//!
//! # Limits
//!
//! | what | at most | beyond it |
//! |---|---|---|
//! | messages that the daemon has not accepted | 4,096, or 16 MiB | [`ClientError::Full`] |
//! | unread events | 10,064, or 16 MiB | nothing is read from the daemon |
//! | deliveries that are not acknowledged | 4,096 | returned, to come again after 1 s |
//! | remembered ids, to drop duplicates | 4,096 | an older duplicate is delivered |
//! | answers that a reconnect repeats | 256, or 4 MiB | the oldest is dropped |
//! | subscriptions | 256 patterns | `LIMIT` |
//! | a frame | `max_frame_bytes` of [`Client::welcome`] | `TOO_LARGE` |
//!
//! Read the events: a client with unread events answers no PING, so that the daemon ends its
//! connection after three heartbeats (15 s).
//!
//! # Example
//!
//! `examples/agent.rs` is a whole program: `cargo run -p client --example agent -- Bob`.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")
)]

mod clients;
mod driver;
mod error;
pub mod home;
pub mod link;
mod message;
pub mod session;
mod settings;

pub use clients::{ClientKey, Clients};
pub use driver::Connect;
pub use error::ClientError;
pub use message::{
    Answer, ConnectionState, Delivery, Ended, Event, Forwarded, LastFailure, Outgoing, Reply,
    SendId,
};
pub use protocol::payload::Meta;
pub use settings::{Mode, Settings, WhenAbsent};

use crate::link::Connection;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use driver::{Command, Driver, Quota, Server};
use platform::{endpoint::Endpoint, random, transport::Stream};
use protocol::{
    code::NackCode,
    name::{EVERYONE, RELAY},
    payload::{Nack, Sync, THREAD_BYTES_MAX, Welcome},
    relay::{ActivityRequest, REQUEST, ReportRequest, RequestName},
};
use serde_json::value::{RawValue, to_raw_value};
use session::{Input, Session};
use std::{
    fmt, io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

/// The longest frame accepted from a daemon: more than any configuration allows.
const FRAME_BYTES_BOUND: usize = 80 * 1024 * 1024;

/// The capacity of the channel of events to the application; further events wait in the driver.
const EVENTS_MAX: usize = 64;

/// The capacity of the driver's channel of commands.
const COMMANDS_MAX: usize = 1024;

/// The time that [`Client::request`] and [`Client::subscribe`] wait for an answer: 10 s.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The additional time that [`Client::ask`] waits after the question's timeout, since the daemon's
/// answer may still be in flight.
const GRACE: Duration = Duration::from_secs(5);

/// A client that has joined a daemon. All its methods may be called from any thread.
///
/// Dropping the client closes it, as [`close`](Self::close) does.
#[derive(Debug)]
pub struct Client {
    endpoint: String,
    welcome: Welcome,
    events: Receiver<Event>,
    commands: Sender<Command>,
    quota: Arc<Quota>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// Connects, sends HELLO, and waits for WELCOME, at most 10 s for each of
    /// [`Settings::first_attempts`].
    ///
    /// # Errors
    /// [`ClientError::NoDaemon`] if no daemon listens; [`ClientError::Ended`] if the daemon refuses
    /// the client, another user runs it, or the attempts are used up; [`ClientError::System`] if
    /// the endpoint is malformed or the system has no thread or randomness left.
    pub fn join(settings: Settings) -> Result<Self, ClientError> {
        Endpoint::parse(settings.endpoint.as_ref())
            .map_err(|error| ClientError::System(error.to_string()))?;
        let of = settings.clone();
        Self::over(settings, Box::new(move || open(&of)))
    }

    /// Joins over connections that `connect` opens, at first and after every loss.
    /// [`Settings::endpoint`] is only reported in errors, and [`Settings::server`] is not checked.
    ///
    /// # Errors
    /// As [`join`](Self::join)'s.
    pub fn over(settings: Settings, connect: Connect) -> Result<Self, ClientError> {
        let system = |error: &dyn fmt::Display| ClientError::System(error.to_string());
        let seed = random::bytes().map_err(|error| system(&error))?;
        let endpoint = settings.endpoint.clone();
        let when_absent = settings.when_absent.clone();
        let session = Session::new(settings, seed);
        let (events_sender, events) = bounded(EVENTS_MAX);
        let (commands, commands_receiver) = bounded(COMMANDS_MAX);
        let quota = Arc::new(Quota::default());
        let server = Server { connect, when_absent };
        let driver =
            Driver::new(session, server, commands_receiver, events_sender, Arc::clone(&quota));
        // Waits for: its channels until the deadline of its session; at its end the daemon's close
        // (1 s), then the threads of its connection. Dropping the client joins it.
        let thread = thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || driver.run())
            .map_err(|error| system(&error))?;
        match wait_for_welcome(&events, &endpoint) {
            Ok(welcome) => {
                let thread = Some(thread);
                Ok(Self { endpoint, welcome, events, commands, quota, thread })
            }
            Err(error) => {
                drop(commands);
                // A panic of the thread was reported by the panic hook.
                drop(thread.join());
                Err(error)
            }
        }
    }

    /// The daemon's endpoint, as in [`Settings::endpoint`].
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The connection's name, which the daemon assigned or confirmed.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.welcome.agent
    }

    /// The first WELCOME: the session, the granted capabilities, and the daemon's limits. Each
    /// later WELCOME is in [`ConnectionState::Ready`].
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The events, in order, without those of joining.
    ///
    /// [`Event::Ended`] is the last one. The channel stays open after it, so a loop must end there.
    /// While 10,064 events, or 16 MiB of deliveries, are unread, nothing is read from the daemon,
    /// and no call gets its answer.
    #[must_use]
    pub fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// Queues a message for sending, without waiting for the daemon. The message stays queued while
    /// the daemon is away or the recipient is busy, and messages to one recipient stay in order.
    ///
    /// For an at-least-once message, [`Event::Accepted`] or [`Event::Refused`] follows. For any
    /// other message, [`Event::Refused`] follows only if the message cannot be routed.
    ///
    /// # Errors
    /// [`ClientError::Full`] if 4,096 messages or 16 MiB are queued already;
    /// [`ClientError::Refused`] with `INVALID` if [`Outgoing::thread`] is too long;
    /// [`ClientError::Ended`] once the client has ended.
    pub fn send(&self, message: Outgoing) -> Result<SendId, ClientError> {
        let (id, input) = self.outgoing(message)?;
        self.command(Command::Input(input))?;
        Ok(id)
    }

    /// Queues a message of another machine's agent for sending, as [`send`](Self::send) does.
    ///
    /// # Errors
    /// [`ClientError::Full`] and [`ClientError::Ended`], as [`send`](Self::send)'s.
    pub fn forward(&self, message: Forwarded) -> Result<(), ClientError> {
        let weight = message.weight();
        self.quota.reserve(weight)?;
        self.command(Command::Input(Input::Forward(message, weight)))
    }

    /// Acknowledges a delivery, given by its id. An unknown id, or one that needs no
    /// acknowledgement, is ignored.
    ///
    /// While the client is disconnected, the acknowledgement follows when the daemon delivers the
    /// message again.
    pub fn acknowledge(&self, delivery_id: &str) {
        self.command_if_running(Command::Input(Input::Acknowledge(delivery_id.to_owned())));
    }

    /// Asks one agent a question and waits for its answer, for at most `timeout` or an hour.
    ///
    /// The wait continues if the connection is lost and opened again meanwhile. No events tell of
    /// this question.
    ///
    /// # Errors
    /// If no answer comes in time: [`ClientError::Refused`] with `SYNC_TIMEOUT`, or
    /// [`ClientError::TimedOut`] if the daemon does not report the timeout within 5 s more. The
    /// question may still arrive. [`ClientError::Refused`] also if the daemon or the recipient
    /// refuses the question, or `message` names no single recipient (`INVALID`); else as
    /// [`send`](Self::send)'s.
    pub fn ask(&self, mut message: Outgoing, timeout: Duration) -> Result<Answer, ClientError> {
        let ms = make_question(&mut message, timeout)?;
        let what = format!("the question to {}", message.to.as_deref().unwrap_or_default());
        let (id, input) = self.outgoing(message)?;
        let (reply, answer) = bounded(1);
        self.command(Command::Ask(id.clone(), input, reply))?;
        let answer = wait(&answer, Duration::from_millis(ms) + GRACE, || what);
        if matches!(answer, Err(ClientError::TimedOut { .. })) {
            self.command_if_running(Command::Forget(id));
        }
        answer
    }

    /// Asks an agent a question, and returns without waiting for the answer: events have it, as
    /// they have the outcome of every message. `timeout` is as in [`ask`](Self::ask).
    ///
    /// # Errors
    /// [`ClientError::Refused`] with `INVALID` if `message` names no single recipient; else as
    /// [`send`](Self::send)'s.
    pub fn begin_ask(
        &self,
        mut message: Outgoing,
        timeout: Duration,
    ) -> Result<SendId, ClientError> {
        make_question(&mut message, timeout)?;
        self.send(message)
    }

    /// Answers a question and acknowledges its delivery. Only the first answer to a question
    /// counts. A delivery that has no question, or whose question is over, is only acknowledged.
    ///
    /// `response` says yes or no, and `data` the rest; by custom, a text is in `data`'s member
    /// `body`. The answer is sent again after a reconnect while the question may be open. If it
    /// cannot be passed on, [`Event::Refused`] has the id of the delivery.
    ///
    /// # Errors
    /// [`ClientError::Full`] and [`ClientError::Ended`], as [`send`](Self::send)'s.
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
        let (delivery_id, seq) = (delivery.id.clone(), Some(delivery.seq));
        let data = data.map(ToOwned::to_owned);
        self.reply(Reply { delivery_id, seq, sync, response: Some(response), data })
    }

    /// Answers a question like [`answer`](Self::answer), with the question and the answer in
    /// `reply`. The delivery may be one that an earlier client of this name received.
    ///
    /// # Errors
    /// As [`answer`](Self::answer)'s.
    pub fn reply(&self, reply: Reply) -> Result<(), ClientError> {
        let weight = reply.weight();
        self.quota.reserve(weight)?;
        self.command(Command::Input(Input::Answer(reply, weight)))
    }

    /// Returns a delivery with a NACK. The daemon redelivers it after `retry_after_ms`, at least
    /// 50 ms; without that time, the delivery fails for good, and its sender is told the first 200
    /// characters of `message`. The tenth NACK is final, too.
    ///
    /// Unlike an acknowledgement, a NACK is lost while the client is disconnected: the daemon
    /// delivers the message again.
    pub fn return_delivery(
        &self,
        delivery_id: &str,
        code: NackCode,
        message: &str,
        retry_after_ms: Option<u64>,
    ) {
        let nack = Nack { retry_after_ms, ..Nack::new(delivery_id, code, message) };
        self.command_if_running(Command::Input(Input::Return(nack)));
    }

    /// Subscribes to a pattern, such as `build.>`, and waits for the daemon's answer, at most
    /// [`ANSWER_TIMEOUT`]. The client subscribes again if a later connection begins a new session.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with `INVALID`, with `FORBIDDEN`, or with `LIMIT` if there are 256
    /// patterns; [`ClientError::TimedOut`] if no answer comes: the daemon may subscribe the client
    /// all the same, as after a reconnect; [`ClientError::Ended`] and [`ClientError::Closed`].
    pub fn subscribe(&self, pattern: &str) -> Result<(), ClientError> {
        let (reply, answer) = bounded(1);
        self.command(Command::Subscribe(pattern.to_owned(), reply))?;
        wait(&answer, ANSWER_TIMEOUT, || format!("the subscription of {pattern}"))
    }

    /// Ends a subscription, without waiting. Messages that are on their way may still arrive.
    pub fn unsubscribe(&self, pattern: &str) {
        self.command_if_running(Command::Input(Input::Unsubscribe(pattern.to_owned())));
    }

    /// Sends `@relay` a request, and waits for the answer, at most [`ANSWER_TIMEOUT`].
    /// docs/RELAY-API.md has the requests, their `data`, and their answers.
    ///
    /// When this call returns, the daemon has routed all messages that were sent before it.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the daemon refuses the request; [`ClientError::TimedOut`], also
    /// if the connection is lost after the request was written; else as [`send`](Self::send)'s.
    pub fn request(
        &self,
        name: RequestName,
        data: Option<&RawValue>,
    ) -> Result<Delivery, ClientError> {
        self.request_within(ANSWER_TIMEOUT, name, data)
    }

    /// Sends `@relay` a request as [`Self::request`] does, and waits at most `time` for the answer.
    ///
    /// # Errors
    /// As [`request`](Self::request)'s.
    pub fn request_within(
        &self,
        time: Duration,
        name: RequestName,
        data: Option<&RawValue>,
    ) -> Result<Delivery, ClientError> {
        let (id, input) = self.outgoing(request_message(name, data))?;
        let (reply, answer) = bounded(1);
        self.command(Command::Request(id.clone(), input, reply))?;
        let answer = wait(&answer, time, || format!("the request {:?}", name.as_str()));
        if matches!(answer, Err(ClientError::TimedOut { .. })) {
            self.command_if_running(Command::Forget(id));
        }
        answer
    }

    /// Reports to the daemon the state of a delivery that this agent received, without waiting for
    /// an answer. The outcome is not told.
    ///
    /// # Errors
    /// As [`send`](Self::send)'s.
    pub fn report(&self, report: &ReportRequest) -> Result<(), ClientError> {
        let data = to_raw_value(report).expect("a report is JSON");
        let (id, input) = self.outgoing(request_message(RequestName::Report, Some(&data)))?;
        let (ignored, _) = bounded(1);
        self.command(Command::Request(id, input, ignored))
    }

    /// Tells the daemon what this agent does. The daemon's answer comes through the channel; an
    /// older daemon refuses. If the connection is lost meanwhile, no answer may come.
    ///
    /// # Errors
    /// As [`send`](Self::send)'s.
    pub fn report_activity(
        &self,
        activity: &ActivityRequest,
    ) -> Result<Receiver<Result<Delivery, ClientError>>, ClientError> {
        let data = to_raw_value(activity).expect("a report is JSON");
        let (id, input) = self.outgoing(request_message(RequestName::Activity, Some(&data)))?;
        let (reply, answer) = bounded(1);
        self.command(Command::Request(id, input, reply))?;
        Ok(answer)
    }

    /// Writes what is queued for the connection, sends BYE, and ends every thread. Waits at most
    /// about a second for the daemon.
    ///
    /// BYE ends the session. To know that a message is accepted, await [`Event::Accepted`] first.
    pub fn close(self) {}

    /// Ends the connection without BYE and without what is queued, and ends every thread.
    ///
    /// The daemon keeps the session for its return. Its token is lost with this client, though, so
    /// a later client of this name begins a new one, and gets what was not acknowledged.
    pub fn hang_up(self) {
        self.command_if_running(Command::Input(Input::HangUp));
    }

    /// Gives a message an id, unless it has one, and reserves its weight.
    fn outgoing(&self, mut message: Outgoing) -> Result<(SendId, Input<'static>), ClientError> {
        let id = checked_id(&mut message)?;
        let weight = message.weight();
        self.quota.reserve(weight)?;
        Ok((id.clone(), Input::Send(id, message, weight)))
    }

    fn command(&self, command: Command) -> Result<(), ClientError> {
        self.commands.send(command).map_err(|_| ClientError::Closed)
    }

    /// Sends a command that has no answer. Once the driver has ended, the command has no effect;
    /// the application learns of the end from [`events`](Self::events).
    fn command_if_running(&self, command: Command) {
        drop(self.command(command));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.command_if_running(Command::Close);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by the panic hook.
            drop(thread.join());
        }
    }
}

/// Checks a message, and takes its id, or makes one up.
fn checked_id(message: &mut Outgoing) -> Result<SendId, ClientError> {
    if message.thread.as_ref().is_some_and(|thread| thread.len() > THREAD_BYTES_MAX) {
        let why = format!("`thread` has more than {THREAD_BYTES_MAX} bytes; choose a shorter one");
        return Err(ClientError::invalid(why));
    }
    message.id.take().map_or_else(SendId::random, Ok)
}

/// Opens a connection to the daemon of these settings.
fn open(settings: &Settings) -> io::Result<Connection> {
    let address = Endpoint::parse(settings.endpoint.as_ref()).map_err(io::Error::other)?;
    let stream = Stream::connect_among(&address, settings.server.as_slice())?;
    Connection::with_pauses(stream, "client", FRAME_BYTES_BOUND, settings.read_pause)
}

/// The error of a client that ended before it had joined.
fn join_error(ended: Ended, endpoint: &str) -> ClientError {
    match ended {
        Ended::GaveUp { why, last: LastFailure::NoListener, .. } => {
            ClientError::NoDaemon { endpoint: endpoint.to_owned(), why }
        }
        ended => ClientError::Ended(ended),
    }
}

fn wait_for_welcome(events: &Receiver<Event>, endpoint: &str) -> Result<Welcome, ClientError> {
    loop {
        match events.recv() {
            Ok(Event::State(ConnectionState::Ready(welcome))) => return Ok(*welcome),
            Ok(Event::Ended(ended)) => return Err(join_error(ended, endpoint)),
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

/// A request to `@relay`.
fn request_message(name: RequestName, data: Option<&RawValue>) -> Outgoing {
    Outgoing {
        to: Some(RELAY.to_owned()),
        kind: REQUEST.to_owned(),
        body: name.as_str().to_owned(),
        data: data.map(ToOwned::to_owned),
        ..Outgoing::default()
    }
}

impl SendId {
    /// Makes up an id.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn random() -> Result<Self, ClientError> {
        let bytes = random::bytes().map_err(|error| ClientError::System(error.to_string()))?;
        Ok(Self(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()))
    }
}

/// Makes a message a question to one agent. Returns the time for the answer, in milliseconds.
fn make_question(message: &mut Outgoing, timeout: Duration) -> Result<u64, ClientError> {
    if message.to.as_deref().is_none_or(|to| to == EVERYONE) {
        let why = "a question to wait for needs one recipient: name an agent";
        return Err(ClientError::invalid(why));
    }
    let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let ms = ms.clamp(1, Sync::TIMEOUT_MS_MAX);
    message.meta.sync =
        Some(Sync { correlation_id: SendId::random()?.0, timeout_ms: Some(ms), blocking: true });
    Ok(ms)
}

#[cfg(test)]
mod tests;
