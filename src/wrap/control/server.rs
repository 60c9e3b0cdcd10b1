//! The threads of a wrapper's control endpoint.
//!
//! The threads pass connections and requests to the driver, which answers each client through its
//! [`ClientHandle`]. Only processes of this user may connect, and only a limited number at a time:
//! when all places are taken, the process that has most loses its newest connection to one that has
//! fewer.

use super::read_frames;
use crate::wrap::threads::spawn;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use platform::{
    endpoint::Endpoint,
    lock::Lock,
    paths,
    peer::User,
    transport::{Listener, Stream},
};
use protocol::{
    control::{Answer, REQUEST_BYTES_MAX, Request},
    name::Name,
};
use std::{
    io::{self, Read, Write},
    mem,
    path::Path,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

/// The most connections at a time, without those that are being closed. There are as many of these
/// at most.
const CLIENTS_MAX: usize = 32;

/// The most events that wait for the driver before the threads wait, too.
const EVENTS_MAX: usize = 64;

/// The pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Identifies a connection.
pub(in crate::wrap) type ClientId = u64;

/// An event of one connection.
pub(in crate::wrap) enum ClientEvent {
    /// A client has connected.
    Connected(ClientHandle),
    /// The client sent a request. After KEYS no other is read until [`ClientHandle::accept_keys`].
    Requested(Request),
    /// The client runs as another user, or sent no valid request, as this sentence says.
    Rejected(String),
    /// The batch handed over last was written.
    Written,
    /// The client is gone.
    Disconnected,
}

/// The driver's end of a connection. Dropping the handle closes the connection after the last
/// batch.
pub(in crate::wrap) struct ClientHandle {
    batches: Sender<Vec<u8>>,
    accepted: Sender<()>,
    stream: Stream,
}

impl ClientHandle {
    /// Lets the reader proceed to the client's next request, once the terminal side has accepted
    /// the last KEYS.
    pub(super) fn accept_keys(&self) {
        // A full channel holds this signal already, and a closed channel means that the reader has
        // ended.
        let _ = self.accepted.try_send(());
    }

    /// Hands over the next batch. Returns false if the last one is not written yet.
    pub(super) fn send(&self, batch: Vec<u8>) -> bool {
        !matches!(self.batches.try_send(batch), Err(TrySendError::Full(_)))
    }

    pub(super) fn hang_up(&self) {
        self.stream.hang_up();
    }
}

/// A bound control endpoint.
pub(in crate::wrap) struct ControlEndpoint {
    listener: Arc<Listener>,
    owner: User,
    /// Ensures that one wrapper at a time binds the endpoint.
    _lock: Lock,
}

impl ControlEndpoint {
    /// Binds an agent's endpoint. An endpoint that a dead wrapper left behind is replaced.
    pub(in crate::wrap) fn bind(directory: &Path, name: &Name) -> io::Result<Self> {
        let endpoint = Endpoint::of_agent(directory, name.as_str())?;
        paths::make_private_dir(directory)?;
        // Names are compared without regard to case.
        let lock = directory.join(format!("{}.lock", name.as_str().to_ascii_lowercase()));
        let lock = Lock::take(&lock)?.ok_or_else(|| {
            let words = format!("another wrapper of {name} listens at {endpoint}");
            io::Error::new(io::ErrorKind::AddrInUse, words)
        })?;
        // The endpoint is guarded, since a client can type into the agent's terminal.
        let listener = Arc::new(Listener::bind_guarded(&endpoint)?);
        Ok(Self { listener, owner: User::me()?, _lock: lock })
    }
}

/// The running threads of an endpoint.
pub(in crate::wrap) struct ControlServer {
    pub(super) events: Receiver<(ClientId, ClientEvent)>,
    endpoint: ControlEndpoint,
    stop: Sender<()>,
    acceptor: JoinHandle<Vec<Connection>>,
}

/// A connection, and the thread that reads from it.
struct Connection {
    stream: Stream,
    /// The process at the other end, where the system tells it.
    pid: Option<u32>,
    thread: JoinHandle<()>,
    /// Whether the connection is being closed, so that another one has its place.
    is_displaced: bool,
}

impl ControlServer {
    /// Begins to accept connections.
    pub(super) fn start(endpoint: ControlEndpoint) -> io::Result<Self> {
        let (sender, events) = bounded(EVENTS_MAX);
        let (stop, stopped) = bounded(0);
        let listener = Arc::clone(&endpoint.listener);
        let context = Context { events: sender, owner: endpoint.owner.clone() };
        // Waits for: the system; after an error, a pause. The terminal side joins it.
        let acceptor = spawn("control accept", move || accept(&listener, &stopped, &context))?;
        Ok(Self { events, endpoint, stop, acceptor })
    }

    /// Unbinds the endpoint first, so that a client whose connection ends finds no endpoint. Then
    /// closes all open connections, given by their `handles`.
    pub(super) fn stop(self, handles: impl IntoIterator<Item = ClientHandle>) {
        let Self { events, endpoint, stop, acceptor } = self;
        drop(stop);
        endpoint.listener.stop();
        let connections = acceptor.join().unwrap_or_else(|_| {
            tracing::error!("the thread that accepts control connections panicked");
            Vec::new()
        });
        drop(endpoint);
        handles.into_iter().for_each(drop);
        for connection in &connections {
            connection.stream.hang_up();
        }
        // Draining lets blocked threads end, and drops handles that the driver has not received.
        for event in events {
            drop(event);
        }
        for connection in connections {
            join(connection.thread);
        }
    }
}

/// Values that all threads share.
#[derive(Clone)]
struct Context {
    events: Sender<(ClientId, ClientEvent)>,
    owner: User,
}

/// Accepts connections until the server is stopped. Returns the connections that are still open.
fn accept(listener: &Listener, stopped: &Receiver<()>, context: &Context) -> Vec<Connection> {
    let mut connections: Vec<Connection> = Vec::new();
    for id in 0.. {
        let connection = listener.accept().and_then(|stream| {
            for ended in connections.extract_if(.., |connection| connection.thread.is_finished()) {
                join(ended.thread);
            }
            let pid = stream.peer_pid();
            if !make_room(&mut connections, pid) {
                refuse(&stream);
                return Ok(None);
            }
            let thread = start(id, stream.clone(), context.clone())?;
            Ok(Some(Connection { stream, pid, thread, is_displaced: false }))
        });
        match connection {
            // There is no pause after a refusal: others may wait behind the refused client.
            Ok(connection) => connections.extend(connection),
            Err(error) => {
                if stopped.recv_timeout(Duration::ZERO) == Err(RecvTimeoutError::Disconnected) {
                    break;
                }
                tracing::warn!("a control connection is not accepted: {error}");
                if stopped.recv_timeout(ACCEPT_PAUSE) == Err(RecvTimeoutError::Disconnected) {
                    break;
                }
            }
        }
    }
    connections
}

/// Makes room for another connection of a process: if all places are taken, the process that has
/// most loses its newest one. Returns false if no process has more than this one would have.
fn make_room(connections: &mut [Connection], pid: Option<u32>) -> bool {
    let open: Vec<_> = connections.iter().map(|it| (!it.is_displaced).then_some(it.pid)).collect();
    if open.iter().flatten().count() < CLIENTS_MAX {
        return true;
    }
    if open.len() >= 2 * CLIENTS_MAX {
        return false;
    }
    let Some(displaced) = newest_of_largest(&open, pid) else { return false };
    let displaced = &mut connections[displaced];
    displaced.is_displaced = true;
    displaced.stream.hang_up();
    true
}

/// Returns the index of the last place of the process that has most of them, unless this process
/// would have as many with another one. A place is `None` if it is not taken.
fn newest_of_largest(places: &[Option<Option<u32>>], pid: Option<u32>) -> Option<usize> {
    let count = |pid| places.iter().filter(|place| **place == Some(pid)).count();
    let (most, largest) = places.iter().flatten().map(|pid| (count(*pid), *pid)).max()?;
    let newest = places.iter().rposition(|place| *place == Some(largest))?;
    (most > count(pid) + 1).then_some(newest)
}

/// Tells a client that there are too many, and closes its connection.
fn refuse(mut stream: &Stream) {
    let message = format!(
        "{CLIENTS_MAX} terminals and commands are connected to this agent: detach one, or try again"
    );
    let mut answer = Vec::new();
    Answer::Error { message }.append(&mut answer);
    // A client that is gone needs no answer.
    drop(stream.write_all(&answer));
    stream.hang_up();
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a control connection's thread panicked");
    }
}

/// Starts a connection's two threads. Returns the reader, which joins the writer.
fn start(id: ClientId, stream: Stream, context: Context) -> io::Result<JoinHandle<()>> {
    let (batches, to_write) = bounded::<Vec<u8>>(1);
    let (out, written) = (stream.clone(), context.events.clone());
    // Waits for: its channel, the system, then the terminal side's channel. The reader joins it.
    let writer = spawn("control writer", move || {
        for batch in to_write {
            // The reader sees the same end and reports it.
            if (&out).write_all(&batch).is_err()
                || written.send((id, ClientEvent::Written)).is_err()
            {
                break;
            }
        }
        out.hang_up();
    })?;
    // Waits for: the system, the terminal side's channel, after keys the permission to go on, and
    // at its end `control writer`. The terminal side joins it after it has hung up.
    spawn("control reader", move || {
        let (accepted, keys_accepted) = bounded(1);
        let handle = ClientHandle { batches, accepted, stream: stream.clone() };
        {
            let disconnect = Disconnect { id, events: &context.events };
            if context.events.send((id, ClientEvent::Connected(handle))).is_ok() {
                read(id, &stream, &context, &keys_accepted);
            }
            drop(disconnect);
        }
        // The driver then drops the handle, which ends the writer.
        join(writer);
    })
}

/// Reports a disconnect when it is dropped, even if the reader panics.
struct Disconnect<'a> {
    id: ClientId,
    events: &'a Sender<(ClientId, ClientEvent)>,
}

impl Drop for Disconnect<'_> {
    fn drop(&mut self) {
        // Sending fails only without a driver, and then all connections are closed anyway.
        drop(self.events.send((self.id, ClientEvent::Disconnected)));
    }
}

fn read(id: ClientId, stream: &Stream, context: &Context, keys_accepted: &Receiver<()>) {
    let mut is_checked = false;
    let admit = || match mem::replace(&mut is_checked, true) {
        true => Ok(()),
        false => check(stream, &context.owner),
    };
    let pass_on = |frame: &[u8]| {
        let request = Request::read(frame)?;
        let are_keys = matches!(request, Request::Keys { .. });
        // Sending and receiving fail once the driver has closed the connection.
        let is_sent = context.events.send((id, ClientEvent::Requested(request))).is_ok();
        Ok(is_sent && (!are_keys || keys_accepted.recv().is_ok()))
    };
    let read = read_frames(stream, "a control connection", REQUEST_BYTES_MAX, admit, pass_on);
    if let Err(sentence) = read {
        drop(context.events.send((id, ClientEvent::Rejected(sentence))));
        discard(stream);
    }
}

/// Checks that the client runs as the wrapper's user, before its first request is decoded.
fn check(stream: &Stream, owner: &User) -> Result<(), String> {
    match stream.peer() {
        Ok(user) if user == *owner => Ok(()),
        Ok(user) => Err(format!("this wrapper belongs to user {owner}; user {user} cannot use it")),
        Err(error) => Err(format!("the system does not say who you are: {error}")),
    }
}

/// Discards further requests, so that the client can read its error before the close.
fn discard(mut stream: &Stream) {
    let mut scratch = [0; 4096];
    while matches!(stream.read(&mut scratch), Ok(count) if count > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_with_most_connections_loses_its_newest_to_others() {
        let (greedy, other) = (Some(1), Some(2));
        let mut places = vec![Some(greedy); CLIENTS_MAX];
        assert_eq!(newest_of_largest(&places, greedy), None);
        assert_eq!(newest_of_largest(&places, other), Some(CLIENTS_MAX - 1));
        places[CLIENTS_MAX - 1] = None;
        places.push(Some(other));
        assert_eq!(newest_of_largest(&places, other), Some(CLIENTS_MAX - 2));
        assert_eq!(newest_of_largest(&places, None), Some(CLIENTS_MAX - 2));
        let places: Vec<_> = (0..CLIENTS_MAX as u32).map(|pid| Some(Some(pid))).collect();
        assert_eq!(newest_of_largest(&places, Some(99)), None, "nobody has more than one");
    }
}
