//! The client library: joins a daemon, sends, receives and acknowledges messages, and reconnects by
//! itself. Calls that need an answer block.
//!
//! [`session`] is the state machine that knows the protocol; a driver thread owns it and does the
//! I/O.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")
)]

mod driver;
mod error;
pub mod home;
pub mod link;
mod message;
pub mod session;
mod settings;

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
    fmt,
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

/// The time that [`Client::request`] and [`Client::subscribe`] wait for an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The additional time that [`Client::ask`] waits after the question's timeout, since the daemon's
/// answer may still be in flight.
const GRACE: Duration = Duration::from_secs(5);

/// A joined client. All its methods may be called from any thread. Dropping the client sends BYE.
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
    /// Connects, sends HELLO, and waits for WELCOME.
    pub fn join(settings: Settings) -> Result<Self, ClientError> {
        let address = Endpoint::parse(settings.endpoint.as_ref())
            .map_err(|error| ClientError::System(error.to_string()))?;
        let (server, pause) = (settings.server.clone(), settings.read_pause);
        let connect = move || {
            let stream = Stream::connect_among(&address, server.as_slice())?;
            Connection::with_pauses(stream, "client", FRAME_BYTES_BOUND, pause)
        };
        Self::over(settings, Box::new(connect))
    }

    /// Joins over connections that `connect` opens, at first and after every loss.
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

    /// The daemon's endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The connection's name, which the daemon assigned or confirmed.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.welcome.agent
    }

    /// The first WELCOME.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The events, in order. While too many of them are unread, nothing is read from the daemon.
    #[must_use]
    pub fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// Queues a message for sending, without waiting. The message stays queued while the daemon is
    /// away or the recipient is busy.
    ///
    /// For an at-least-once message, [`Event::Accepted`] or [`Event::Refused`] follows. For any
    /// other message, [`Event::Refused`] follows only if the message cannot be routed.
    pub fn send(&self, message: Outgoing) -> Result<SendId, ClientError> {
        let (id, input) = self.outgoing(message)?;
        self.command(Command::Input(input))?;
        Ok(id)
    }

    /// Queues a message of another machine's agent for sending, as [`send`](Self::send) does.
    pub fn forward(&self, message: Forwarded) -> Result<(), ClientError> {
        let weight = message.weight();
        self.quota.reserve(weight)?;
        self.command(Command::Input(Input::Forward(message, weight)))
    }

    /// Acknowledges a delivery. An unknown id, or one that needs no acknowledgement, is ignored.
    pub fn acknowledge(&self, delivery_id: &str) {
        self.command_if_running(Command::Input(Input::Acknowledge(delivery_id.to_owned())));
    }

    /// Asks one agent a question and waits for its answer, for at most `timeout` or an hour.
    ///
    /// The wait continues if the connection is lost and opened again meanwhile.
    ///
    /// # Errors
    /// If no answer comes in time: [`ClientError::Refused`] with `SYNC_TIMEOUT`, or
    /// [`ClientError::TimedOut`] if the daemon does not report the timeout. The question may still
    /// arrive.
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
    /// `reply`.
    pub fn reply(&self, reply: Reply) -> Result<(), ClientError> {
        let weight = reply.weight();
        self.quota.reserve(weight)?;
        self.command(Command::Input(Input::Answer(reply, weight)))
    }

    /// Returns a delivery with a NACK. The daemon redelivers it after `retry_after_ms`; without
    /// that time, the delivery fails for good.
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

    /// Subscribes to a pattern and waits for the daemon's answer. The subscription is repeated
    /// after every reconnect.
    pub fn subscribe(&self, pattern: &str) -> Result<(), ClientError> {
        let (reply, answer) = bounded(1);
        self.command(Command::Subscribe(pattern.to_owned(), reply))?;
        wait(&answer, ANSWER_TIMEOUT, || format!("the subscription of {pattern}"))
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, pattern: &str) {
        self.command_if_running(Command::Input(Input::Unsubscribe(pattern.to_owned())));
    }

    /// Sends `@relay` a request, and waits for the answer.
    ///
    /// When this call returns, the daemon has routed all messages that were sent before it.
    pub fn request(
        &self,
        name: RequestName,
        data: Option<&RawValue>,
    ) -> Result<Delivery, ClientError> {
        self.request_within(ANSWER_TIMEOUT, name, data)
    }

    /// Sends `@relay` a request as [`Self::request`] does, and waits at most `time` for the answer.
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
    /// an answer.
    pub fn report(&self, report: &ReportRequest) -> Result<(), ClientError> {
        let data = to_raw_value(report).expect("a report is JSON");
        let (id, input) = self.outgoing(request_message(RequestName::Report, Some(&data)))?;
        let (ignored, _) = bounded(1);
        self.command(Command::Request(id, input, ignored))
    }

    /// Tells the daemon what this agent does. The daemon's answer comes through the channel; an
    /// older daemon refuses. If the connection is lost meanwhile, no answer may come.
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

    /// Sends what is queued, then BYE, and ends every thread.
    pub fn close(self) {}

    /// Ends the connection without BYE and without what is queued, and ends every thread. The
    /// session can be resumed.
    pub fn hang_up(self) {
        self.command_if_running(Command::Input(Input::HangUp));
    }

    /// Gives a message an id and reserves its weight.
    fn outgoing(&self, message: Outgoing) -> Result<(SendId, Input<'static>), ClientError> {
        if message.thread.as_ref().is_some_and(|thread| thread.len() > THREAD_BYTES_MAX) {
            let why =
                format!("`thread` has more than {THREAD_BYTES_MAX} bytes; choose a shorter one");
            return Err(ClientError::invalid(why));
        }
        let (id, weight) = (new_id()?, message.weight());
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

fn wait_for_welcome(events: &Receiver<Event>, endpoint: &str) -> Result<Welcome, ClientError> {
    loop {
        match events.recv() {
            Ok(Event::State(ConnectionState::Ready(welcome))) => return Ok(*welcome),
            Ok(Event::Ended(Ended::GaveUp { why, last: LastFailure::NoListener, .. })) => {
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

fn new_id() -> Result<SendId, ClientError> {
    let bytes = random::bytes().map_err(|error| ClientError::System(error.to_string()))?;
    Ok(SendId(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()))
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
        Some(Sync { correlation_id: new_id()?.0, timeout_ms: Some(ms), blocking: true });
    Ok(ms)
}

#[cfg(test)]
mod tests;
