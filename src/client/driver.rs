//! The thread that owns a [`Session`]: it waits for the connection, the application and the clock.
//!
//! It never waits for one of them alone. What the connection or the application doesn't take at once
//! is kept here: an application that doesn't hear stops being read for, and one that says too much is
//! told so by its [`Account`].

use super::{
    ClientError, WhenAbsent,
    message::{Answer, Delivery, Ended, Event, SendId, State},
    session::{Input, Output, Session},
};
use crate::{
    link::{Connection, End},
    protocol::{Moment, Now, frame::Batch, name::RELAY, payload::Nack},
};
use crossbeam_channel::{
    Receiver, RecvTimeoutError, Select, SendTimeoutError, Sender, TryRecvError, TrySendError,
    bounded,
};
use parking_lot::Mutex;
use platform::clock;
use std::{
    collections::{HashMap, VecDeque},
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Opens a connection to the daemon.
pub type Connect = Box<dyn FnMut() -> io::Result<Connection> + Send>;

/// Messages that one client holds until the daemon has them.
const HELD_MESSAGES_MAX: usize = 4096;

/// Their bytes, and those that wait for the connection to take them.
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Events kept beside the application's channel before nothing more is read.
const UNHEARD_MAX: usize = 10_000;

/// Bytes of deliveries among them.
const UNHEARD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long a connection may take to end politely.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What the application wants.
#[derive(Debug)]
pub(super) enum Command {
    /// Something for the machine, and nobody waits for what comes of it.
    Tell(Input<'static>),
    /// The machine is told to send what bears this id, and who asks waits for the answer.
    Request(SendId, Input<'static>, Sender<Result<Delivery, ClientError>>),
    /// The same for a question to another agent.
    Ask(SendId, Input<'static>, Sender<Result<Answer, ClientError>>),
    /// Nobody waits for the answer any more.
    Forget(SendId),
    Subscribe(String, Sender<Result<(), ClientError>>),
    Close,
}

/// What the driver and the application's threads know of each other: how much is held, and the end.
#[derive(Debug, Default)]
pub(super) struct Account {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    unwritten: AtomicUsize,
    ended: Mutex<Option<Ended>>,
}

impl Account {
    /// Makes room for one message, or says why not.
    pub(super) fn open(&self, weight: usize) -> Result<(), ClientError> {
        if let Some(ended) = self.ended.lock().clone() {
            return Err(ClientError::Ended(ended));
        }
        let messages = self.messages.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes.fetch_add(weight, Ordering::Relaxed)
            + self.unwritten.load(Ordering::Relaxed);
        if messages >= HELD_MESSAGES_MAX || (messages > 0 && bytes + weight > HELD_BYTES_MAX) {
            self.close(weight);
            return Err(ClientError::Full { messages, bytes });
        }
        Ok(())
    }

    fn close(&self, weight: usize) {
        self.messages.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(weight, Ordering::Relaxed);
    }
}

/// The way to the daemon, and who hears that it has gone.
pub(super) struct Server {
    pub(super) connect: Connect,
    pub(super) when_absent: Option<WhenAbsent>,
}

pub(super) struct Driver {
    session: Session,
    server: Server,
    connection: Option<Connection>,
    /// Frames that the connection didn't take yet.
    unwritten: Vec<u8>,
    commands: Receiver<Command>,
    events: Sender<Event>,
    /// Events that the application's channel had no room for.
    unheard: VecDeque<Event>,
    unheard_bytes: usize,
    account: Arc<Account>,
    requests: HashMap<SendId, Sender<Result<Delivery, ClientError>>>,
    questions: HashMap<SendId, Sender<Result<Answer, ClientError>>>,
    subscribing: HashMap<String, Vec<Sender<Result<(), ClientError>>>>,
}

/// What is ready.
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
        account: Arc<Account>,
    ) -> Self {
        Self {
            session,
            server,
            connection: None,
            unwritten: Vec::new(),
            commands,
            events,
            unheard: VecDeque::new(),
            unheard_bytes: 0,
            account,
            requests: HashMap::new(),
            questions: HashMap::new(),
            subscribing: HashMap::new(),
        }
    }

    /// Until the application closes.
    pub(super) fn run(mut self) {
        self.handle(Input::Start);
        loop {
            self.write();
            self.tell();
            match self.wait() {
                Ready::Incoming => self.read(),
                Ready::Command => match self.commands.try_recv() {
                    Ok(Command::Close) | Err(TryRecvError::Disconnected) => break,
                    Ok(command) => self.obey(command),
                    Err(TryRecvError::Empty) => {}
                },
                Ready::Other => {}
            }
            if self.session.deadline().is_some_and(|deadline| deadline <= now().monotonic) {
                self.handle(Input::Tick);
            }
        }
        self.handle(Input::Close);
        self.tell();
    }

    /// Waits until something can be done, at most until the machine's deadline.
    fn wait(&self) -> Ready {
        let mut select = Select::new();
        let command = select.recv(&self.commands);
        let mut incoming = None;
        if let Some(connection) = &self.connection {
            if self.unheard.len() < UNHEARD_MAX && self.unheard_bytes < UNHEARD_BYTES_MAX {
                incoming = Some(select.recv(&connection.incoming));
            }
            if !self.unwritten.is_empty() {
                select.send(&connection.outgoing);
            }
        }
        if !self.unheard.is_empty() {
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
            Some(place) if place == command => Ready::Command,
            Some(place) if Some(place) == incoming => Ready::Incoming,
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
                let why = match connection.ending.why() {
                    None | Some(End::Closed) => "the daemon closed the connection".to_owned(),
                    Some(End::Failed(why)) => why,
                    Some(End::Violated(violation)) => {
                        format!("the daemon broke the protocol: {violation}")
                    }
                };
                self.handle(Input::Disconnected(why));
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Tell(input) => self.handle(input),
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
                Output::Released(weight) => self.account.close(weight),
                Output::Event(event) => self.sort_out(event),
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
                // A pipe that is busy for so long is held open by clients of a daemon that has ended.
                let absent = matches!(
                    error.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::TimedOut
                );
                if let Some(WhenAbsent(tell)) = &self.server.when_absent
                    && absent
                    && self.session.has_joined()
                {
                    tell();
                }
                self.handle(Input::NotConnected { why: error.to_string(), absent });
            }
        }
    }

    /// Hands what is written to the connection, if it takes it.
    fn write(&mut self) {
        if let Some(connection) = &self.connection
            && !self.unwritten.is_empty()
            && !connection.outgoing.is_full()
        {
            let batch = Batch::of(mem::take(&mut self.unwritten));
            // Nobody else fills the channel; its end shows on the other one, after what the daemon
            // said last.
            drop(connection.outgoing.try_send(batch));
        }
        self.account.unwritten.store(self.unwritten.len(), Ordering::Relaxed);
    }

    /// Lets what was written leave, and waits until the daemon has closed, but not for ever.
    fn close(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let deadline = now().monotonic.plus(CLOSE_TIMEOUT.as_millis() as u64);
        let left = || Duration::from_millis(deadline.since(now().monotonic));
        let batch = Batch::of(mem::take(&mut self.unwritten));
        match connection.outgoing.send_timeout(batch, left()) {
            Ok(()) => {
                // Without its sender the writer writes what it has, and ends.
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

    /// Answers go to who asked, everything else to the application.
    fn sort_out(&mut self, event: Event) {
        match event {
            Event::Delivered(delivery) if delivery.from == RELAY => {
                let asked = delivery.reply_to.clone().map(SendId);
                match asked.and_then(|id| self.requests.remove(&id)) {
                    Some(reply) => self.answer(&reply, Ok(delivery)),
                    None => self.keep(Event::Delivered(delivery)),
                }
            }
            Event::Refused { send_id, nack } => self.refused(send_id, nack),
            Event::Answered { send_id, answer } => match self.questions.remove(&send_id) {
                Some(reply) => self.answer(&reply, Ok(answer)),
                None => self.keep(Event::Answered { send_id, answer }),
            },
            // Who asks waits for more than that.
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
                None => self.keep(Event::Subscribed { pattern, refused }),
            },
            Event::Ended(ended) => {
                self.account.ended.lock().get_or_insert_with(|| ended.clone());
                for (_, reply) in mem::take(&mut self.requests) {
                    self.answer(&reply, Err(ClientError::Ended(ended.clone())));
                }
                for (_, reply) in mem::take(&mut self.questions) {
                    self.answer(&reply, Err(ClientError::Ended(ended.clone())));
                }
                for reply in mem::take(&mut self.subscribing).into_values().flatten() {
                    self.answer(&reply, Err(ClientError::Ended(ended.clone())));
                }
                self.keep(Event::Ended(ended));
            }
            event @ (Event::Delivered(_)
            | Event::Accepted { .. }
            | Event::Busy { .. }
            | Event::Missed { .. }
            | Event::Complaint(_)
            | Event::State(_)) => self.keep(event),
        }
    }

    fn refused(&mut self, send_id: SendId, nack: Nack) {
        let refused = |nack| ClientError::Refused(Box::new(nack));
        if let Some(reply) = self.requests.remove(&send_id) {
            self.answer(&reply, Err(refused(nack)));
        } else if let Some(reply) = self.questions.remove(&send_id) {
            self.answer(&reply, Err(refused(nack)));
        } else {
            self.keep(Event::Refused { send_id, nack });
        }
    }

    fn keep(&mut self, event: Event) {
        // An application that does not listen for hours hears of the last attempt to reconnect, not
        // of all.
        if self.events.is_full()
            && is_of_attempt(&event)
            && let Some(last) = self.unheard.back_mut().filter(|last| is_of_attempt(last))
        {
            *last = event;
            return;
        }
        self.unheard_bytes += weight(&event);
        self.unheard.push_back(event);
    }

    /// Answers who asked, after the application was told what came before: who asks to be sure that
    /// nothing was refused looks right after it. Who asked may have stopped waiting.
    fn answer<T>(&mut self, reply: &Sender<T>, value: T) {
        self.tell();
        drop(reply.try_send(value));
    }

    /// Tells the application what its channel has room for.
    fn tell(&mut self) {
        while let Some(event) = self.unheard.pop_front() {
            let bytes = weight(&event);
            match self.events.try_send(event) {
                Ok(()) => self.unheard_bytes -= bytes,
                Err(TrySendError::Full(event)) => return self.unheard.push_front(event),
                // The application doesn't listen any more; closing follows.
                Err(TrySendError::Disconnected(_)) => self.unheard_bytes -= bytes,
            }
        }
    }
}

/// Whether an event tells only how an attempt to connect goes.
const fn is_of_attempt(event: &Event) -> bool {
    matches!(event, Event::State(State::Connecting | State::Handshaking | State::Backoff { .. }))
}

/// What an event takes while it is kept.
fn weight(event: &Event) -> usize {
    match event {
        Event::Delivered(delivery) => delivery.json().len(),
        Event::Answered { answer, .. } => answer.data.as_ref().map_or(0, |data| data.get().len()),
        Event::Accepted { .. }
        | Event::Refused { .. }
        | Event::Busy { .. }
        | Event::Subscribed { .. }
        | Event::Missed { .. }
        | Event::Complaint(_)
        | Event::State(_)
        | Event::Ended(_) => 0,
    }
}

fn now() -> Now {
    Now { monotonic: Moment(clock::monotonic_ms()), unix_ms: clock::unix_ms() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Settings;

    #[test]
    fn attempts_that_nobody_hears_of_are_kept_as_one() {
        let settings = Settings::guest("nowhere");
        let session = Session::new(settings.identity([1; 32]));
        let connect: Connect = Box::new(|| Err(io::ErrorKind::NotFound.into()));
        let (events, heard) = bounded(1);
        let server = Server { connect, when_absent: None };
        let mut driver =
            Driver::new(session, server, bounded(1).1, events, Arc::new(Account::default()));
        let attempt = |wait_ms| State::Backoff { wait_ms, why: "nobody".to_owned() };
        for wait_ms in 0..100 {
            driver.keep(Event::State(attempt(wait_ms)));
            driver.tell();
        }
        driver.keep(Event::Missed { why: "some".to_owned() });
        driver.keep(Event::State(State::Connecting));
        let mut all = Vec::new();
        while let Ok(event) = heard.try_recv() {
            all.push(event);
            driver.tell();
        }
        let [Event::State(first), Event::State(last), Event::Missed { .. }, Event::State(then)] =
            &all[..]
        else {
            panic!("{all:?}")
        };
        assert_eq!((first, last, then), (&attempt(0), &attempt(99), &State::Connecting));
    }
}
