//! The connection that many clients share: an operator's, with a channel for each of them.

use super::{ChannelPath, ClientKey, Clients, Path};
use crate::{
    driver::{lost_because, not_connected, now},
    link::Connection,
    message::{ConnectionState, Ended, Event},
    session::{Input, Output, Session},
};
use crossbeam_channel::TryRecvError;
use platform::random;
use protocol::{
    channel::{CREDIT_BYTES, Control, OWN},
    frame::Batch,
};
use std::{
    collections::{HashMap, VecDeque},
    mem,
};

/// The number of unwritten bytes that makes the channels wait.
const UNWRITTEN_BYTES: usize = 256 * 1024;

/// Whether clients share a connection.
pub(super) enum Shared {
    /// Not known: no client wanted a connection, or the daemon may be another one.
    Unknown,
    /// The daemon has no channels, or refuses them.
    Refused,
    Open(Box<SharedConnection>),
}

/// A connection, or its loss, with the session of the operator who owns it.
pub(super) struct SharedConnection {
    pub(super) session: Session,
    pub(super) connection: Option<Connection>,
    /// Whether channels can be opened.
    pub(super) is_ready: bool,
    /// Why there is no connection, and whether that is because no daemon listens.
    pub(super) down: Option<(String, bool)>,
    /// Bytes for the connection.
    pub(super) unwritten: Vec<u8>,
    /// The channel of the next bytes in `unwritten`, and the channel of the next frames that
    /// arrive.
    selected: u32,
    arriving: u32,
    /// The highest number of a channel so far.
    highest: u32,
    channels: HashMap<u32, ClientKey>,
    /// Whether the last attempt found no daemon.
    is_absent: bool,
}

impl SharedConnection {
    fn new(session: Session) -> Self {
        Self {
            session,
            connection: None,
            is_ready: false,
            down: None,
            unwritten: Vec::new(),
            selected: OWN,
            arriving: OWN,
            highest: OWN,
            channels: HashMap::new(),
            is_absent: false,
        }
    }

    /// Opens a channel for a client, and returns its number.
    pub(super) fn open_channel(&mut self, key: ClientKey) -> u32 {
        self.highest += 1;
        self.channels.insert(self.highest, key);
        // Channels have to be opened in the order of their numbers.
        self.select(self.highest);
        self.highest
    }

    /// Ends a channel, unless it has ended.
    pub(super) fn end_channel(&mut self, number: u32) -> Option<ClientKey> {
        let key = self.channels.remove(&number)?;
        Control::End(number).append(&mut self.unwritten);
        Some(key)
    }

    /// Whether channels need not wait.
    pub(super) const fn has_room(&self) -> bool {
        self.unwritten.len() < UNWRITTEN_BYTES
    }

    /// Appends the frames that a channel has credit for.
    pub(super) fn append(&mut self, channel: &mut ChannelPath, unsent: &mut VecDeque<Vec<u8>>) {
        while self.has_room()
            && let Some(frame) = unsent.front()
            && channel.send.spend(frame, frame.len()) > 0
        {
            self.select(channel.number);
            self.unwritten.extend_from_slice(frame);
            unsent.pop_front();
        }
    }

    fn append_own(&mut self, frame: &[u8]) {
        self.select(OWN);
        self.unwritten.extend_from_slice(frame);
    }

    fn select(&mut self, number: u32) {
        if mem::replace(&mut self.selected, number) != number {
            Control::Select(number).append(&mut self.unwritten);
        }
    }

    pub(super) fn write(&mut self) {
        if let Some(connection) = &mut self.connection
            && !self.unwritten.is_empty()
            && !connection.outgoing.is_full()
        {
            // Only this thread fills the channel, so there is room.
            connection.send(Batch::of(mem::take(&mut self.unwritten)));
        }
    }

    /// Ends the connection at once. Returns the clients that had a channel.
    pub(super) fn hang_up(&mut self) -> Vec<ClientKey> {
        if let Some(connection) = self.connection.take() {
            connection.ending.hang_up();
            connection.close();
        }
        self.is_ready = false;
        self.unwritten.clear();
        (self.selected, self.arriving, self.highest) = (OWN, OWN, OWN);
        self.channels.drain().map(|(_, key)| key).collect()
    }
}

impl Clients {
    /// Begins to open the shared connection.
    pub(super) fn open_shared(&mut self) {
        let Ok(seed) = random::bytes() else {
            self.shared = Shared::Refused;
            return;
        };
        let session = Session::new(self.operator.clone(), seed);
        self.shared = Shared::Open(Box::new(SharedConnection::new(session)));
        self.handle_shared(Input::Start);
    }

    pub(super) fn handle_shared(&mut self, input: Input<'_>) {
        let mut outputs = Vec::new();
        if let Shared::Open(shared) = &mut self.shared {
            shared.session.handle(now(), input, &mut outputs);
        }
        for output in outputs {
            match output {
                Output::Connect => self.connect_shared(),
                Output::Frame(bytes) => {
                    if let Shared::Open(shared) = &mut self.shared {
                        shared.append_own(&bytes);
                    }
                }
                Output::Close | Output::HangUp => self.lose_shared(),
                Output::Released(_) => {}
                Output::Event(event) => self.shared_event(event),
            }
        }
    }

    fn connect_shared(&mut self) {
        let Shared::Open(shared) = &mut self.shared else { return };
        let input = match (self.connect)() {
            Ok(connection) => {
                shared.connection = Some(connection);
                Input::Connected
            }
            Err(error) => {
                not_connected(&error, self.operator.when_absent.as_ref(), &shared.session)
            }
        };
        shared.is_absent = matches!(input, Input::NotConnected { absent: true, .. });
        self.handle_shared(input);
    }

    fn lose_shared(&mut self) {
        let Shared::Open(shared) = &mut self.shared else { return };
        for key in shared.hang_up() {
            self.handle(key, Input::Disconnected("the connection to the daemon was lost".into()));
        }
    }

    fn shared_event(&mut self, event: Event) {
        let Shared::Open(shared) = &mut self.shared else { return };
        match event {
            Event::State(ConnectionState::Ready(welcome)) => {
                if welcome.server.channels_max.is_some() {
                    (shared.is_ready, shared.down) = (true, None);
                } else {
                    shared.hang_up();
                    self.shared = Shared::Refused;
                }
            }
            Event::State(ConnectionState::Backoff { why, .. }) => {
                shared.down = Some((why, shared.is_absent));
            }
            Event::Ended(ended) => {
                self.shared = Shared::Refused;
                if matches!(ended, Ended::Error(_)) {
                    self.events.push_back((ClientKey::SHARED, Event::Ended(ended)));
                }
            }
            Event::Error(_) => self.events.push_back((ClientKey::SHARED, event)),
            _ => {}
        }
    }

    /// Reads what has arrived on the shared connection, a batch at most.
    pub(super) fn read_shared(&mut self) {
        let Shared::Open(shared) = &self.shared else { return };
        let Some(connection) = &shared.connection else { return };
        match connection.incoming.try_recv() {
            Ok(batch) => batch.frames().for_each(|content| self.shared_frame(content)),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                let why = lost_because(&connection.ending);
                self.handle_shared(Input::Disconnected(why));
            }
        }
    }

    fn shared_frame(&mut self, content: &[u8]) {
        let Shared::Open(shared) = &mut self.shared else { return };
        match Control::parse(content) {
            Some(Control::Select(number)) => shared.arriving = number,
            Some(Control::Credit(number, bytes)) => {
                if let Some((_, channel)) = self.channel(number) {
                    channel.send.add(bytes.into());
                }
            }
            Some(Control::End(number)) => {
                if let Some(key) = shared.end_channel(number) {
                    let why = "the daemon closed the connection".to_owned();
                    self.handle(key, Input::Disconnected(why));
                }
            }
            None => match shared.arriving {
                OWN => self.handle_shared(Input::Frame(content)),
                number => self.channel_frame(number, content),
            },
        }
    }

    /// Passes a frame to its client. A frame for a channel that has ended here is ignored.
    fn channel_frame(&mut self, number: u32, content: &[u8]) {
        let Some((key, channel)) = self.channel(number) else { return };
        if !channel.receive.spend(content) {
            let why = "the daemon broke the protocol: a channel had no credit".to_owned();
            return self.handle_shared(Input::Disconnected(why));
        }
        self.handle(key, Input::Frame(content));
        self.grant(key);
    }

    /// Lets the daemon send more in a client's channel, as much as the owner has taken, if that is
    /// worth a frame.
    pub(super) fn grant(&mut self, key: ClientKey) {
        let (Shared::Open(shared), Some(client)) = (&mut self.shared, self.clients.get_mut(&key))
        else {
            return;
        };
        let room = CREDIT_BYTES.saturating_sub(client.untaken);
        if let Path::Channel(channel) = &mut client.path
            && let Some(bytes) = channel.receive.grant(room)
        {
            Control::Credit(channel.number, bytes).append(&mut shared.unwritten);
        }
    }

    fn channel(&mut self, number: u32) -> Option<(ClientKey, &mut ChannelPath)> {
        let Shared::Open(shared) = &self.shared else { return None };
        let key = *shared.channels.get(&number)?;
        match &mut self.clients.get_mut(&key)?.path {
            Path::Channel(channel) => Some((key, channel)),
            Path::None | Path::Wanted | Path::Own(_) => None,
        }
    }
}
