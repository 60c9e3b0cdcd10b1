//! Many clients of one daemon in their owner's thread, such as a bridge's.
//!
//! The clients are channels of one operator's connection (docs/PROTOCOL.md, section 18), which is
//! itself a client: its session reconnects, and the channels are opened again on each connection.
//! A daemon that has no channels gets a connection for each client.

mod shared;

use super::{
    checked_id,
    error::ClientError,
    join_error,
    link::Connection,
    message::{ConnectionState, Ended, Event, Forwarded, Outgoing, Reply, SendId},
    open,
    session::{Input, Output, Session},
    settings::Settings,
};
use crate::driver::{Connect, Quota, lost_because, not_connected, now};
use crossbeam_channel::{Select, TryRecvError};
use platform::random;
use protocol::{
    Moment,
    channel::{ReceiveCredit, SendCredit},
    frame::Batch,
    payload::Nack,
};
use shared::Shared;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::Duration,
};

/// The maximum number of channels with an incomplete handshake, so that the daemon's places for
/// those do not run out when it starts again.
const HANDSHAKES_MAX: usize = 64;

/// The most bytes of deliveries that wait here before reading from a client's own connection
/// pauses. In a channel, the daemon gets no credit for them.
const UNTAKEN_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The key of a client among others of the same [`Clients`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey(u64);

impl ClientKey {
    /// The key in events about the shared connection itself: reports of the daemon about it, and
    /// its refusal.
    pub const SHARED: Self = Self(u64::MAX);
}

/// Clients of one daemon. Nothing happens between the calls: the owner waits with
/// [`watch`](Self::watch), calls [`work`](Self::work), and takes the events.
///
/// Dropping this ends all connections without BYE, so that the sessions can be resumed.
pub struct Clients {
    /// The settings of the shared connection.
    operator: Settings,
    connect: Connect,
    shared: Shared,
    clients: BTreeMap<ClientKey, Member>,
    next_key: u64,
    /// The client whose frames are sent first, for fairness.
    turn: ClientKey,
    events: VecDeque<(ClientKey, Event)>,
}

/// A client, and its way to the daemon.
struct Member {
    session: Session,
    path: Path,
    /// Frames that wait for credit or for room in the connection.
    unsent: VecDeque<Vec<u8>>,
    quota: Quota,
    joining: Joining,
    /// The bytes of the deliveries among its events that the owner has not taken.
    untaken: usize,
}

/// Whether a client has joined the daemon for the first time.
enum Joining {
    Waiting,
    Joined,
    Failed(Ended),
}

enum Path {
    None,
    /// The session asked for a connection.
    Wanted,
    Channel(ChannelPath),
    Own(Connection),
}

/// A channel of the shared connection.
struct ChannelPath {
    number: u32,
    send: SendCredit,
    receive: ReceiveCredit,
    is_ready: bool,
}

impl Clients {
    /// Makes an owner without clients. `operator` is the operator who owns the shared connection to
    /// the daemon.
    #[must_use]
    pub fn new(operator: Settings) -> Self {
        let settings = operator.clone();
        Self::over(operator, Box::new(move || open(&settings)))
    }

    /// As [`new`](Self::new), over connections that `connect` opens.
    pub(crate) fn over(operator: Settings, connect: Connect) -> Self {
        Self {
            operator,
            connect,
            shared: Shared::Unknown,
            clients: BTreeMap::new(),
            next_key: 0,
            turn: ClientKey(0),
            events: VecDeque::new(),
        }
    }

    /// Joins as another client, and waits for it as [`Client::join`](super::Client::join) does. The
    /// shared connection's endpoint is used.
    ///
    /// # Errors
    /// As [`Client::join`](super::Client::join)'s.
    pub fn join(&mut self, settings: Settings) -> Result<ClientKey, ClientError> {
        let seed = random::bytes().map_err(|error| ClientError::System(error.to_string()))?;
        let key = ClientKey(self.next_key);
        self.next_key += 1;
        let session = Session::new(settings, seed);
        let (path, unsent, quota) = (Path::None, VecDeque::new(), Quota::default());
        let joining = Joining::Waiting;
        let member = Member { session, path, unsent, quota, joining, untaken: 0 };
        self.clients.insert(key, member);
        self.handle(key, Input::Start);
        loop {
            self.work();
            match self.clients.get(&key).map(|client| &client.joining) {
                Some(Joining::Joined) => return Ok(key),
                Some(Joining::Waiting) => self.wait(),
                Some(Joining::Failed(ended)) => {
                    let error = join_error(ended.clone(), &self.operator.endpoint);
                    self.hang_up(key);
                    return Err(error);
                }
                None => return Err(ClientError::Closed),
            }
        }
    }

    fn wait(&self) {
        let mut select = Select::new();
        self.watch(&mut select);
        match self.deadline() {
            Some(deadline) => {
                let timeout = deadline.since(now().monotonic);
                // Whichever operation is ready, there may be work.
                let _ = select.ready_timeout(Duration::from_millis(timeout));
            }
            None => {
                select.ready();
            }
        }
    }

    /// Adds operations to `select`. When one of them is ready, [`work`](Self::work) has something
    /// to do.
    pub fn watch<'a>(&'a self, select: &mut Select<'a>) {
        if let Shared::Open(shared) = &self.shared
            && let Some(connection) = &shared.connection
        {
            watch(select, connection, !shared.unwritten.is_empty());
        }
        for client in self.clients.values() {
            if let Path::Own(connection) = &client.path
                && client.may_read()
            {
                watch(select, connection, !client.unsent.is_empty());
            }
        }
    }

    /// The moment when [`work`](Self::work) has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        let shared = match &self.shared {
            Shared::Open(shared) => shared.session.deadline(),
            Shared::Unknown | Shared::Refused => None,
        };
        self.clients.values().filter_map(|it| it.session.deadline()).chain(shared).min()
    }

    /// Takes the oldest event.
    pub fn next_event(&mut self) -> Option<(ClientKey, Event)> {
        let (key, event) = self.events.pop_front()?;
        if let (Event::Delivered(delivery), Some(client)) = (&event, self.clients.get_mut(&key)) {
            client.untaken -= delivery.json().len();
            self.grant(key);
        }
        Some((key, event))
    }

    /// Whether there is an event.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Reads and writes what is possible without waiting, and does what is due.
    pub fn work(&mut self) {
        self.read_shared();
        self.read_own();
        self.tick();
        self.connect();
        self.write();
    }

    /// Sends a message, as [`Client::send`](super::Client::send) does.
    ///
    /// # Errors
    /// As [`Client::send`](super::Client::send)'s.
    pub fn send(&mut self, key: ClientKey, mut message: Outgoing) -> Result<SendId, ClientError> {
        let (id, weight) = (checked_id(&mut message)?, message.weight());
        self.reserve(key, weight)?;
        self.handle(key, Input::Send(id.clone(), message, weight));
        Ok(id)
    }

    /// Passes a message on, as [`Client::forward`](super::Client::forward) does.
    ///
    /// # Errors
    /// As [`Client::forward`](super::Client::forward)'s.
    pub fn forward(&mut self, key: ClientKey, message: Forwarded) -> Result<(), ClientError> {
        let weight = message.weight();
        self.reserve(key, weight)?;
        self.handle(key, Input::Forward(message, weight));
        Ok(())
    }

    /// Answers a question, as [`Client::reply`](super::Client::reply) does.
    ///
    /// # Errors
    /// As [`Client::reply`](super::Client::reply)'s.
    pub fn reply(&mut self, key: ClientKey, reply: Reply) -> Result<(), ClientError> {
        let weight = reply.weight();
        self.reserve(key, weight)?;
        self.handle(key, Input::Answer(reply, weight));
        Ok(())
    }

    /// Subscribes to a topic or a pattern of topics, as [`Client::subscribe`] does. The daemon's
    /// answer is [`Event::Subscribed`].
    ///
    /// [`Client::subscribe`]: super::Client::subscribe
    pub fn subscribe(&mut self, key: ClientKey, pattern: &str) {
        self.handle(key, Input::Subscribe(pattern.to_owned()));
    }

    /// Acknowledges a delivery, as [`Client::acknowledge`](super::Client::acknowledge) does.
    pub fn acknowledge(&mut self, key: ClientKey, delivery_id: &str) {
        self.handle(key, Input::Acknowledge(delivery_id.to_owned()));
    }

    /// Returns a delivery for good, as
    /// [`Client::return_delivery`](super::Client::return_delivery) does.
    pub fn return_delivery(&mut self, key: ClientKey, nack: Nack) {
        self.handle(key, Input::Return(nack));
    }

    /// Ends a client without BYE, so that its session can be resumed.
    pub fn hang_up(&mut self, key: ClientKey) {
        self.handle(key, Input::HangUp);
        self.clients.remove(&key);
        self.events.retain(|(of, _)| *of != key);
    }

    fn reserve(&self, key: ClientKey, weight: usize) -> Result<(), ClientError> {
        self.clients.get(&key).map_or(Err(ClientError::Closed), |it| it.quota.reserve(weight))
    }

    fn handle(&mut self, key: ClientKey, input: Input<'_>) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        let mut outputs = Vec::new();
        client.session.handle(now(), input, &mut outputs);
        for output in outputs {
            match output {
                Output::Connect => client.path = Path::Wanted,
                Output::Frame(bytes) => client.unsent.push_back(bytes),
                // No client here is closed with BYE.
                Output::Close | Output::HangUp => {
                    client.unsent.clear();
                    client.path.end(&mut self.shared);
                }
                Output::Released(weight) => client.quota.release(weight),
                Output::Event(event) => client.event(key, event, &mut self.events),
            }
        }
    }

    fn tick(&mut self) {
        let time = now().monotonic;
        let is_due = |session: &Session| session.deadline().is_some_and(|at| at <= time);
        if matches!(&self.shared, Shared::Open(shared) if is_due(&shared.session)) {
            self.handle_shared(Input::Tick);
        }
        let due = self.clients.iter().filter(|(_, client)| is_due(&client.session));
        for key in due.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.handle(key, Input::Tick);
        }
    }

    /// Gives the clients that want one a connection or a channel.
    fn connect(&mut self) {
        let is_wanted = |client: &Member| matches!(client.path, Path::Wanted);
        let wanted = self.clients.iter().filter(|(_, client)| is_wanted(client));
        let wanted: Vec<_> = wanted.map(|(key, _)| *key).collect();
        if wanted.is_empty() {
            return;
        }
        if matches!(self.shared, Shared::Unknown) {
            self.open_shared();
        }
        match &self.shared {
            Shared::Refused => wanted.into_iter().for_each(|key| self.connect_own(key)),
            Shared::Open(shared) if shared.is_ready => {
                let is_opening = |client: &Member| match &client.path {
                    Path::Channel(channel) => !channel.is_ready,
                    _ => false,
                };
                let opening = self.clients.values().filter(|client| is_opening(client)).count();
                let places = HANDSHAKES_MAX.saturating_sub(opening);
                wanted.into_iter().take(places).for_each(|key| self.open_channel(key));
            }
            // A client that has never joined does not wait for the daemon's return.
            Shared::Open(shared) => {
                let Some((why, absent)) = shared.down.clone() else { return };
                for key in wanted {
                    if matches!(self.clients[&key].joining, Joining::Waiting) {
                        self.handle(key, Input::NotConnected { why: why.clone(), absent });
                    }
                }
            }
            Shared::Unknown => {}
        }
        // The next connection may find another daemon.
        let has_own = |client: &Member| matches!(client.path, Path::Own(_));
        if matches!(self.shared, Shared::Refused) && !self.clients.values().any(has_own) {
            self.shared = Shared::Unknown;
        }
    }

    fn connect_own(&mut self, key: ClientKey) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        let input = match (self.connect)() {
            Ok(connection) => {
                client.path = Path::Own(connection);
                Input::Connected
            }
            Err(error) => {
                client.path = Path::None;
                not_connected(&error, self.operator.when_absent.as_ref(), &client.session)
            }
        };
        self.handle(key, input);
    }

    fn open_channel(&mut self, key: ClientKey) {
        let (Shared::Open(shared), Some(client)) = (&mut self.shared, self.clients.get_mut(&key))
        else {
            return;
        };
        let number = shared.open_channel(key);
        let (send, receive) = (SendCredit::default(), ReceiveCredit::default());
        client.path = Path::Channel(ChannelPath { number, send, receive, is_ready: false });
        self.handle(key, Input::Connected);
    }

    /// Reads from the connections that single clients have.
    fn read_own(&mut self) {
        let own = |client: &Member| matches!(client.path, Path::Own(_)) && client.may_read();
        let keys = self.clients.iter().filter(|(_, client)| own(client)).map(|(key, _)| *key);
        for key in keys.collect::<Vec<_>>() {
            let Some(Path::Own(connection)) = self.clients.get(&key).map(|client| &client.path)
            else {
                continue;
            };
            match connection.incoming.try_recv() {
                Ok(batch) => batch.frames().for_each(|it| self.handle(key, Input::Frame(it))),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    let why = lost_because(&connection.ending);
                    self.handle(key, Input::Disconnected(why));
                    if matches!(self.shared, Shared::Refused) {
                        self.shared = Shared::Unknown;
                    }
                }
            }
        }
    }

    /// Writes what is possible without waiting.
    pub fn write(&mut self) {
        let turn = self.turn;
        let later = self.clients.range(turn..).chain(self.clients.range(..turn));
        let has_unsent = |(_, client): &(_, &Member)| !client.unsent.is_empty();
        let keys: Vec<_> = later.filter(has_unsent).map(|(key, _)| *key).collect();
        for key in keys {
            let Some(client) = self.clients.get_mut(&key) else { continue };
            match (&mut client.path, &mut self.shared) {
                (Path::Own(connection), _) if !connection.outgoing.is_full() => {
                    let frames = Vec::from(std::mem::take(&mut client.unsent)).concat();
                    // Only this thread fills the channel, so there is room.
                    connection.send(Batch::of(frames));
                }
                (Path::Channel(channel), Shared::Open(shared)) => {
                    if !shared.has_room() {
                        self.turn = key;
                        break;
                    }
                    shared.append(channel, &mut client.unsent);
                }
                _ => {}
            }
            client.quota.set_unwritten(client.unsent.iter().map(Vec::len).sum());
        }
        if let Shared::Open(shared) = &mut self.shared {
            shared.write();
        }
    }
}

impl Member {
    /// Whether to read more for the client from a connection of its own.
    const fn may_read(&self) -> bool {
        self.untaken < UNTAKEN_BYTES_MAX
    }

    fn event(&mut self, key: ClientKey, event: Event, events: &mut VecDeque<(ClientKey, Event)>) {
        if matches!(event, Event::State(ConnectionState::Ready(_)))
            && let Path::Channel(channel) = &mut self.path
        {
            channel.is_ready = true;
        }
        match (&self.joining, event) {
            (Joining::Waiting, Event::State(ConnectionState::Ready(_))) => {
                self.joining = Joining::Joined;
            }
            (Joining::Waiting, Event::Ended(ended)) => self.joining = Joining::Failed(ended),
            (Joining::Joined, event) => {
                match &event {
                    Event::Ended(ended) => self.quota.end(ended.clone()),
                    Event::Delivered(delivery) => self.untaken += delivery.json().len(),
                    _ => {}
                }
                events.push_back((key, event));
            }
            (Joining::Waiting | Joining::Failed(_), _) => {}
        }
    }
}

impl Path {
    /// Ends a connection or a channel at once.
    fn end(&mut self, shared: &mut Shared) {
        match std::mem::replace(self, Self::None) {
            Self::Own(connection) => {
                connection.ending.hang_up();
                connection.close();
            }
            Self::Channel(channel) => {
                if let Shared::Open(shared) = shared {
                    shared.end_channel(channel.number);
                }
            }
            Self::None | Self::Wanted => {}
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for client in self.clients.values_mut() {
            client.path.end(&mut self.shared);
        }
        if let Shared::Open(shared) = &mut self.shared {
            shared.write();
            shared.hang_up();
        }
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("clients", &self.clients.len()).finish_non_exhaustive()
    }
}

fn watch<'a>(select: &mut Select<'a>, connection: &'a Connection, has_unsent: bool) {
    select.recv(&connection.incoming);
    if has_unsent {
        select.send(&connection.outgoing);
    }
}
