//! The thread that owns a [`Session`]: it waits for the connection, the application and the clock.
//!
//! The thread always waits for all three at once. Frames that the connection has no room for, and
//! events that the application has not read, are buffered here. While too many events are unread,
//! nothing is read from the daemon. The [`Quota`] limits what the application sends.

use super::{
    error::ClientError,
    message::{Answer, ConnectionState, Delivery, Ended, Event, SendId},
    session::{Input, Output, Session},
    settings::WhenAbsent,
};
use crate::link::{Connection, End, Ending};
use crossbeam_channel::{
    Receiver, RecvTimeoutError, Select, SendTimeoutError, Sender, TryRecvError, TrySendError,
    bounded,
};
use parking_lot::Mutex;
use platform::clock;
use protocol::{Moment, Now, frame::Batch, name::RELAY, payload::Nack};
use std::{
    collections::{HashMap, VecDeque},
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// A function that opens a connection to the daemon, for [`Client::over`](super::Client::over). The
/// client's thread calls it for each attempt, and waits for it. The errors `NotFound`,
/// `ConnectionRefused` and `TimedOut` mean that there is no daemon.
pub type Connect = Box<dyn FnMut() -> io::Result<Connection> + Send>;

/// The most messages that may wait for the daemon to accept them.
const HELD_MESSAGES_MAX: usize = 4096;

/// The most bytes of messages that wait for the daemon, and of frames that wait to be written.
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The most events that wait here, besides those in the application's channel, before reading from
/// the daemon pauses.
const BUFFERED_EVENTS_MAX: usize = 10_000;

/// The most bytes of deliveries among the events that wait here before reading pauses.
const BUFFERED_EVENTS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The longest time for writing the last frames and for the daemon to close the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A command of the application.
#[derive(Debug)]
pub(super) enum Command {
    /// An input for the session. No caller waits for an answer.
    Input(Input<'static>),
    /// A request to `@relay` with this id. The answer goes into the channel.
    Request(SendId, Input<'static>, Sender<Result<Delivery, ClientError>>),
    /// A question to another agent with this id. The answer goes into the channel.
    Ask(SendId, Input<'static>, Sender<Result<Answer, ClientError>>),
    /// Forgets the caller that waited for the answer to this message.
    Forget(SendId),
    Subscribe(String, Sender<Result<(), ClientError>>),
    Close,
}

/// The limit of what the application may send, shared with the driver. It also holds the reason why
/// the client has ended.
#[derive(Debug, Default)]
pub(super) struct Quota {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    unwritten: AtomicUsize,
    ended: Mutex<Option<Ended>>,
}

impl Quota {
    /// Reserves the weight of a message.
    pub(super) fn reserve(&self, weight: usize) -> Result<(), ClientError> {
        if let Some(ended) = self.ended.lock().clone() {
            return Err(ClientError::Ended(ended));
        }
        let messages = self.messages.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes.fetch_add(weight, Ordering::Relaxed)
            + self.unwritten.load(Ordering::Relaxed);
        if messages >= HELD_MESSAGES_MAX || (messages > 0 && bytes + weight > HELD_BYTES_MAX) {
            self.release(weight);
            return Err(ClientError::Full { messages, bytes });
        }
        Ok(())
    }

    pub(super) fn release(&self, weight: usize) {
        self.messages.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(weight, Ordering::Relaxed);
    }

    /// Counts the bytes of frames that wait to be written.
    pub(super) fn set_unwritten(&self, bytes: usize) {
        self.unwritten.store(bytes, Ordering::Relaxed);
    }

    /// Notes the end of the client. Nothing is reserved any more.
    pub(super) fn end(&self, ended: Ended) {
        self.ended.lock().get_or_insert(ended);
    }
}

/// The means to reach the daemon, and the callback for its absence.
pub(super) struct Server {
    pub(super) connect: Connect,
    pub(super) when_absent: Option<WhenAbsent>,
}

pub(super) struct Driver {
    session: Session,
    server: Server,
    connection: Option<Connection>,
    /// Frames that wait for the connection.
    unwritten: Vec<u8>,
    commands: Receiver<Command>,
    events: Sender<Event>,
    /// Events that wait for room in the application's channel.
    buffered_events: VecDeque<Event>,
    buffered_bytes: usize,
    quota: Arc<Quota>,
    requests: HashMap<SendId, Sender<Result<Delivery, ClientError>>>,
    questions: HashMap<SendId, Sender<Result<Answer, ClientError>>>,
    subscribing: HashMap<String, Vec<Sender<Result<(), ClientError>>>>,
}

/// A channel that is ready.
enum Ready {
    Incoming,
    Command,
    Other,
}

impl Driver {
    pub(super) fn new(
        session: Session,
        server: Server,
        commands: Receiver<Command>,
        events: Sender<Event>,
        quota: Arc<Quota>,
    ) -> Self {
        Self {
            session,
            server,
            connection: None,
            unwritten: Vec::new(),
            commands,
            events,
            buffered_events: VecDeque::new(),
            buffered_bytes: 0,
            quota,
            requests: HashMap::new(),
            questions: HashMap::new(),
            subscribing: HashMap::new(),
        }
    }

    /// Runs until the application closes the client.
    pub(super) fn run(mut self) {
        self.handle(Input::Start);
        loop {
            self.write();
            self.pass_events();
            match self.wait() {
                Ready::Incoming => self.read(),
                Ready::Command => match self.commands.try_recv() {
                    Ok(Command::Close) | Err(TryRecvError::Disconnected) => break,
                    Ok(command) => self.execute(command),
                    Err(TryRecvError::Empty) => {}
                },
                Ready::Other => {}
            }
            if self.session.deadline().is_some_and(|deadline| deadline <= now().monotonic) {
                self.handle(Input::Tick);
            }
        }
        self.handle(Input::Close);
        self.pass_events();
    }

    /// Waits until a channel is ready, at most until the session's deadline.
    fn wait(&self) -> Ready {
        let mut select = Select::new();
        let command = select.recv(&self.commands);
        let mut incoming = None;
        if let Some(connection) = &self.connection {
            if self.buffered_events.len() < BUFFERED_EVENTS_MAX
                && self.buffered_bytes < BUFFERED_EVENTS_BYTES_MAX
            {
                incoming = Some(select.recv(&connection.incoming));
            }
            if !self.unwritten.is_empty() {
                select.send(&connection.outgoing);
            }
        }
        if !self.buffered_events.is_empty() {
            select.send(&self.events);
        }
        let ready = match self.session.deadline() {
            Some(deadline) => {
                let timeout = deadline.since(now().monotonic);
                select.ready_timeout(Duration::from_millis(timeout)).ok()
            }
            None => Some(select.ready()),
        };
        match ready {
            Some(index) if index == command => Ready::Command,
            Some(index) if Some(index) == incoming => Ready::Incoming,
            _ => Ready::Other,
        }
    }

    fn read(&mut self) {
        let Some(connection) = &self.connection else { return };
        match connection.incoming.try_recv() {
            Ok(batch) => {
                for frame in batch.frames() {
                    self.handle(Input::Frame(frame));
                }
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                let why = lost_because(&connection.ending);
                self.handle(Input::Disconnected(why));
            }
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Input(input) => self.handle(input),
            Command::Request(id, input, reply) => {
                self.requests.insert(id, reply);
                self.handle(input);
            }
            Command::Ask(id, input, reply) => {
                self.questions.insert(id, reply);
                self.handle(input);
            }
            Command::Forget(id) => {
                self.requests.remove(&id);
                self.questions.remove(&id);
            }
            Command::Subscribe(pattern, reply) => {
                self.subscribing.entry(pattern.clone()).or_default().push(reply);
                self.handle(Input::Subscribe(pattern));
            }
            Command::Close => {}
        }
    }

    fn handle(&mut self, input: Input<'_>) {
        let mut outputs = Vec::new();
        self.session.handle(now(), input, &mut outputs);
        for output in outputs {
            match output {
                Output::Connect => self.connect(),
                Output::Frame(bytes) => self.unwritten.extend_from_slice(&bytes),
                Output::Close => self.close(),
                Output::HangUp => self.hang_up(),
                Output::Released(weight) => self.quota.release(weight),
                Output::Event(event) => self.dispatch(event),
            }
        }
    }

    fn connect(&mut self) {
        match (self.server.connect)() {
            Ok(connection) => {
                self.connection = Some(connection);
                self.handle(Input::Connected);
            }
            Err(error) => {
                let input = not_connected(&error, self.server.when_absent.as_ref(), &self.session);
                self.handle(input);
            }
        }
    }

    /// Passes waiting frames to the connection, if it has room for them.
    fn write(&mut self) {
        if let Some(connection) = &mut self.connection
            && !self.unwritten.is_empty()
            && !connection.outgoing.is_full()
        {
            let batch = Batch::of(mem::take(&mut self.unwritten));
            // Only this thread fills the channel, so there is room.
            connection.send(batch);
        }
        self.quota.set_unwritten(self.unwritten.len());
    }

    /// Writes the last frames and waits for the daemon to close, at most [`CLOSE_TIMEOUT`].
    fn close(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let deadline = now().monotonic.plus(CLOSE_TIMEOUT.as_millis() as u64);
        let left = || Duration::from_millis(deadline.since(now().monotonic));
        let batch = Batch::of(mem::take(&mut self.unwritten));
        match connection.outgoing.send_timeout(batch, left()) {
            Ok(()) => {
                // Dropping the sender ends the writer once it has written everything.
                connection.outgoing = bounded(0).0;
                while !matches!(
                    connection.incoming.recv_timeout(left()),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)
                ) {}
            }
            Err(SendTimeoutError::Timeout(_) | SendTimeoutError::Disconnected(_)) => {}
        }
        connection.ending.hang_up();
        connection.close();
    }

    fn hang_up(&mut self) {
        self.unwritten.clear();
        if let Some(connection) = self.connection.take() {
            connection.ending.hang_up();
            connection.close();
        }
    }

    /// Passes answers to the callers that wait for them, and other events to the application.
    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Delivered(delivery) if delivery.from == RELAY => {
                let request = delivery.reply_to.clone().map(SendId);
                match request.and_then(|id| self.requests.remove(&id)) {
                    Some(reply) => self.answer(&reply, Ok(*delivery)),
                    None => self.buffer(Event::Delivered(delivery)),
                }
            }
            Event::Refused { send_id, nack } => self.refused(send_id, nack),
            Event::Answered { send_id, correlation_id, answer } => {
                match self.questions.remove(&send_id) {
                    Some(reply) => self.answer(&reply, Ok(answer)),
                    None => self.buffer(Event::Answered { send_id, correlation_id, answer }),
                }
            }
            // The caller of a question waits for its answer.
            Event::Accepted { send_id, .. } | Event::Busy { send_id, .. }
                if self.questions.contains_key(&send_id) => {}
            Event::Subscribed { pattern, refused } => match self.subscribing.remove(&pattern) {
                Some(replies) => {
                    let nack = refused.map(Box::new);
                    let answer = nack.map_or(Ok(()), |nack| Err(ClientError::Refused(nack)));
                    for reply in replies {
                        self.answer(&reply, answer.clone());
                    }
                }
                None => self.buffer(Event::Subscribed { pattern, refused }),
            },
            Event::Ended(ended) => {
                self.quota.end(ended.clone());
                for (_, reply) in mem::take(&mut self.requests) {
                    self.answer(&reply, Err(ClientError::Ended(ended.clone())));
                }
                for (_, reply) in mem::take(&mut self.questions) {
                    self.answer(&reply, Err(ClientError::Ended(ended.clone())));
                }
                for reply in mem::take(&mut self.subscribing).into_values().flatten() {
                    self.answer(&reply, Err(ClientError::Ended(ended.clone())));
                }
                self.buffer(Event::Ended(ended));
            }
            event @ (Event::Delivered(_)
            | Event::Accepted { .. }
            | Event::Busy { .. }
            | Event::Missed { .. }
            | Event::Error(_)
            | Event::State(_)) => self.buffer(event),
        }
    }

    fn refused(&mut self, send_id: SendId, nack: Nack) {
        let refused = |nack| ClientError::Refused(Box::new(nack));
        if let Some(reply) = self.requests.remove(&send_id) {
            self.answer(&reply, Err(refused(nack)));
        } else if let Some(reply) = self.questions.remove(&send_id) {
            self.answer(&reply, Err(refused(nack)));
        } else {
            self.buffer(Event::Refused { send_id, nack });
        }
    }

    fn buffer(&mut self, event: Event) {
        // Of unread events about attempts to connect, only the latest is kept.
        if self.events.is_full()
            && is_of_attempt(&event)
            && let Some(last) = self.buffered_events.back_mut().filter(|last| is_of_attempt(last))
        {
            *last = event;
            return;
        }
        self.buffered_bytes += weight(&event);
        self.buffered_events.push_back(event);
    }

    /// Answers a caller, if it still waits. Earlier events are passed on first, since a caller may
    /// read them next to learn whether its messages were refused.
    fn answer<T>(&mut self, reply: &Sender<T>, value: T) {
        self.pass_events();
        drop(reply.try_send(value));
    }

    /// Moves events to the application's channel while it has room.
    fn pass_events(&mut self) {
        while let Some(event) = self.buffered_events.pop_front() {
            let bytes = weight(&event);
            match self.events.try_send(event) {
                Ok(()) => self.buffered_bytes -= bytes,
                Err(TrySendError::Full(event)) => return self.buffered_events.push_front(event),
                // The application has dropped the channel, and will close the client next.
                Err(TrySendError::Disconnected(_)) => self.buffered_bytes -= bytes,
            }
        }
    }
}

/// Whether an event only reports the progress of an attempt to connect.
const fn is_of_attempt(event: &Event) -> bool {
    use ConnectionState::{Backoff, Connecting, Handshaking};
    matches!(event, Event::State(Connecting | Handshaking | Backoff { .. }))
}

/// The bytes of an event that count against [`BUFFERED_EVENTS_BYTES_MAX`].
fn weight(event: &Event) -> usize {
    match event {
        Event::Delivered(delivery) => delivery.json().len(),
        Event::Answered { answer, .. } => answer.data.as_ref().map_or(0, |data| data.get().len()),
        Event::Accepted { .. }
        | Event::Refused { .. }
        | Event::Busy { .. }
        | Event::Subscribed { .. }
        | Event::Missed { .. }
        | Event::Error(_)
        | Event::State(_)
        | Event::Ended(_) => 0,
    }
}

/// The reason of a connection's end.
pub(super) fn lost_because(ending: &Ending) -> String {
    match ending.why() {
        None | Some(End::Closed) => "the daemon closed the connection".to_owned(),
        Some(End::Failed(why)) => why,
        Some(End::Violated(violation)) => format!("the daemon broke the protocol: {violation}"),
    }
}

/// The session's input for a failed attempt to connect. Calls `when_absent` if there is no daemon
/// any more.
pub(super) fn not_connected(
    error: &io::Error,
    when_absent: Option<&WhenAbsent>,
    session: &Session,
) -> Input<'static> {
    // `TimedOut` means a pipe that stays busy: its daemon has ended, and its clients hold it open.
    let absent = matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut
    );
    if let Some(WhenAbsent(callback)) = when_absent
        && absent
        && session.has_joined()
    {
        callback();
    }
    Input::NotConnected { why: error.to_string(), absent }
}

pub(super) fn now() -> Now {
    Now { monotonic: Moment(clock::monotonic_ms()), unix_ms: clock::unix_ms() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    #[test]
    fn unread_attempts_are_merged_into_the_last() {
        let settings = Settings::guest("nowhere");
        let session = Session::new(settings, [1; 32]);
        let connect: Connect = Box::new(|| Err(io::ErrorKind::NotFound.into()));
        let (events, received) = bounded(1);
        let server = Server { connect, when_absent: None };
        let mut driver =
            Driver::new(session, server, bounded(1).1, events, Arc::new(Quota::default()));
        let attempt = |wait_ms| ConnectionState::Backoff { wait_ms, why: "nobody".to_owned() };
        for wait_ms in 0..100 {
            driver.buffer(Event::State(attempt(wait_ms)));
            driver.pass_events();
        }
        driver.buffer(Event::Missed { why: "some".to_owned() });
        driver.buffer(Event::State(ConnectionState::Connecting));
        let mut all = Vec::new();
        while let Ok(event) = received.try_recv() {
            all.push(event);
            driver.pass_events();
        }
        let [Event::State(first), Event::State(last), Event::Missed { .. }, Event::State(then)] =
            &all[..]
        else {
            panic!("{all:?}")
        };
        assert_eq!((first, last, then), (&attempt(0), &attempt(99), &ConnectionState::Connecting));
    }
}
