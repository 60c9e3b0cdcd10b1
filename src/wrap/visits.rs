//! The wrapper's own endpoint, where a person's commands come to one agent: the threads that wait there.
//!
//! They tell the driver who came and what was asked; it answers through a [`Line`] each. Only this
//! user's commands are let in, and no more than a few at a time.

use super::threads::spawn;
use crate::protocol::{
    control::{REQUEST_BYTES_MAX, Request},
    frame::Decoder,
    name::Name,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use platform::{endpoint::Endpoint, lock::Lock, paths, peer::User, transport};
use std::{
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

/// Connections at a time; one more is closed.
const VISITORS_MAX: usize = 32;

/// Calls that wait for the driver before those who make them wait, too.
const CALLS_MAX: usize = 64;

/// After the system refused to accept.
const PAUSE: Duration = Duration::from_millis(200);

/// Names a visitor.
pub(super) type VisitorId = u64;

/// What the driver is told.
pub(super) enum Call {
    /// Somebody connected.
    Came(Line),
    /// It asks this. After KEYS it is not heard until the line says that they were taken.
    Asked(Request),
    /// It is no user of ours, or its bytes are no requests; a sentence says so.
    Misspoke(String),
    /// The batch in the line's hand was written.
    Written,
    /// It is gone.
    Left,
}

/// The way to one visitor; dropping it ends the visit once what was said is written.
pub(super) struct Line {
    batches: Sender<Vec<u8>>,
    taken: Sender<()>,
    stream: transport::Stream,
}

impl Line {
    /// What it typed was taken.
    pub(super) fn keys_taken(&self) {
        // It waits for one word at a time, or is gone.
        let _ = self.taken.try_send(());
    }

    /// Hands over the next batch; false where the one before it is not yet written.
    pub(super) fn say(&self, batch: Vec<u8>) -> bool {
        !matches!(self.batches.try_send(batch), Err(TrySendError::Full(_)))
    }

    pub(super) fn hang_up(&self) {
        self.stream.hang_up();
    }
}

/// The endpoint, bound for the wrapper's life.
pub(super) struct Door {
    listener: Arc<transport::Listener>,
    owner: User,
    /// Whoever has it is the only one to bind here.
    lock: Lock,
}

impl Door {
    /// Binds the endpoint of an agent. What a wrapper left behind that has ended is replaced, never a
    /// live one's.
    pub(super) fn open(directory: &Path, name: &Name) -> io::Result<Self> {
        let endpoint = Endpoint::of_agent(directory, name.as_str())?;
        paths::make_private_dir(directory)?;
        // Names that differ in nothing but case are the same.
        let lock = directory.join(format!("{}.lock", name.as_str().to_ascii_lowercase()));
        let lock = Lock::take(&lock)?.ok_or_else(|| {
            let words = format!("another wrapper of {name} listens at {endpoint}");
            io::Error::new(io::ErrorKind::AddrInUse, words)
        })?;
        // Who gets in here types into the agent's terminal.
        let listener = Arc::new(transport::Listener::bind_guarded(&endpoint)?);
        Ok(Self { listener, owner: User::me()?, lock })
    }
}

/// The threads at the endpoint, and what they tell.
pub(super) struct Visits {
    /// By whom.
    pub(super) calls: Receiver<(VisitorId, Call)>,
    listener: Arc<transport::Listener>,
    stop: Sender<()>,
    acceptor: JoinHandle<Vec<Visitor>>,
    lock: Lock,
}

/// A connection, and the thread that reads from it.
type Visitor = (transport::Stream, JoinHandle<()>);

impl Visits {
    /// Lets visitors in.
    pub(super) fn start(door: Door) -> io::Result<Self> {
        let (calling, calls) = bounded(CALLS_MAX);
        let (stop, stopped) = bounded(0);
        let Door { listener, owner, lock } = door;
        let accepting = Arc::clone(&listener);
        let to_driver = ToDriver { calling, owner };
        let acceptor = spawn("visitors", move || accept(&accepting, &stopped, &to_driver))?;
        Ok(Self { calls, listener, stop, acceptor, lock })
    }

    /// Gives the endpoint up, and then ends all visits, whose lines these are: who hears the end finds
    /// nobody there any more.
    pub(super) fn stop(self, lines: impl IntoIterator<Item = Line>) {
        let Self { calls, listener, stop, acceptor, lock } = self;
        drop(stop);
        listener.stop();
        let visitors = acceptor.join().unwrap_or_else(|_| {
            tracing::error!("the thread that lets visitors in panicked");
            Vec::new()
        });
        drop((listener, lock));
        lines.into_iter().for_each(drop);
        for (stream, _) in &visitors {
            stream.hang_up();
        }
        // Nobody waits to tell it, and lines that nobody has taken end with their visits.
        for call in calls {
            drop(call);
        }
        for (_, thread) in visitors {
            join(thread);
        }
    }
}

/// What all visitors' threads share.
#[derive(Clone)]
struct ToDriver {
    calling: Sender<(VisitorId, Call)>,
    owner: User,
}

/// Lets visitors in until it is stopped; gives back those who are still there.
fn accept(
    listener: &transport::Listener,
    stopped: &Receiver<()>,
    to_driver: &ToDriver,
) -> Vec<Visitor> {
    let mut visitors: Vec<Visitor> = Vec::new();
    for id in 0.. {
        let visitor = listener.accept().and_then(|stream| {
            for (_, ended) in visitors.extract_if(.., |(_, thread)| thread.is_finished()) {
                join(ended);
            }
            if visitors.len() == VISITORS_MAX {
                stream.hang_up();
                return Err(io::Error::other(format!("{VISITORS_MAX} are connected already")));
            }
            Ok((stream.clone(), start(id, stream, to_driver.clone())?))
        });
        match visitor {
            Ok(visitor) => visitors.push(visitor),
            Err(error) => {
                if stopped.recv_timeout(Duration::ZERO) == Err(RecvTimeoutError::Disconnected) {
                    break;
                }
                tracing::warn!("a visitor is not let in: {error}");
                if stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Disconnected) {
                    break;
                }
            }
        }
    }
    visitors
}

fn join(visitor: JoinHandle<()>) {
    if visitor.join().is_err() {
        tracing::error!("a visitor's thread panicked");
    }
}

/// Starts a visitor's two threads; the one given back outlives the other.
fn start(
    id: VisitorId,
    stream: transport::Stream,
    to_driver: ToDriver,
) -> io::Result<JoinHandle<()>> {
    let (batches, to_write) = bounded::<Vec<u8>>(1);
    let (out, written) = (stream.clone(), to_driver.calling.clone());
    let writer = spawn("to a visitor", move || {
        for batch in to_write {
            // The reader finds the same end and tells it.
            if (&out).write_all(&batch).is_err() || written.send((id, Call::Written)).is_err() {
                break;
            }
        }
        out.hang_up();
    })?;
    spawn("visitor", move || {
        let (taken, keys_taken) = bounded(1);
        let line = Line { batches, taken, stream: stream.clone() };
        {
            let last_word = LastWord { id, calling: &to_driver.calling };
            if to_driver.calling.send((id, Call::Came(line))).is_ok() {
                read(id, &stream, &to_driver, &keys_taken);
            }
            drop(last_word);
        }
        // The driver drops the line when it hears the last word; that ends the writer.
        join(writer);
    })
}

/// Tells that a visitor is gone, also where its reader panics: that costs the visitor, nobody else.
struct LastWord<'a> {
    id: VisitorId,
    calling: &'a Sender<(VisitorId, Call)>,
}

impl Drop for LastWord<'_> {
    fn drop(&mut self) {
        // Without a driver all visits are over.
        drop(self.calling.send((self.id, Call::Left)));
    }
}

fn read(
    id: VisitorId,
    mut stream: &transport::Stream,
    to_driver: &ToDriver,
    keys_taken: &Receiver<()>,
) {
    let mut decoder = Decoder::new(REQUEST_BYTES_MAX);
    let mut known = false;
    loop {
        match stream.read(decoder.space()) {
            Ok(0) => return,
            Ok(count) => decoder.filled(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return tracing::debug!("a visitor can't be heard: {error}"),
        }
        let heard = if known { Ok(()) } else { check(stream, &to_driver.owner) };
        known = true;
        match heard.and_then(|()| pass_on(id, &mut decoder, to_driver, keys_taken)) {
            Ok(true) => {}
            Ok(false) => return,
            Err(sentence) => {
                drop(to_driver.calling.send((id, Call::Misspoke(sentence))));
                return discard(stream);
            }
        }
    }
}

/// The system's own word on who is there, asked before the first request is looked at.
fn check(stream: &transport::Stream, owner: &User) -> Result<(), String> {
    match stream.peer() {
        Ok(peer) if peer.user == *owner => Ok(()),
        Ok(peer) => {
            Err(format!("this wrapper belongs to user {owner}; user {} can't use it", peer.user))
        }
        Err(error) => Err(format!("the system doesn't say who you are: {error}")),
    }
}

/// Tells the driver all whole requests; false where it is gone, or wants no more of this visitor.
fn pass_on(
    id: VisitorId,
    decoder: &mut Decoder,
    to_driver: &ToDriver,
    keys_taken: &Receiver<()>,
) -> Result<bool, String> {
    loop {
        let frames = match decoder.take() {
            Ok(Some(frames)) => frames,
            Ok(None) => return Ok(true),
            Err(violation) => return Err(violation.message),
        };
        for frame in frames {
            let request = Request::read(frame)?;
            let are_keys = matches!(request, Request::Keys { .. });
            let is_told = to_driver.calling.send((id, Call::Asked(request))).is_ok();
            if !is_told || are_keys && keys_taken.recv().is_err() {
                return Ok(false);
            }
        }
    }
}

/// Reads on without looking, so that the visitor can take in what it is told before the end.
fn discard(mut stream: &transport::Stream) {
    let mut scratch = [0; 4096];
    while matches!(stream.read(&mut scratch), Ok(count) if count > 0) {}
}
