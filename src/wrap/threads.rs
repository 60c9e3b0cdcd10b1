//! The wrapper's threads. Each waits for one thing and reports to the driver.

use crossbeam_channel::{Receiver, Sender, bounded};
use platform::{
    front::Front,
    pty::{Pty, Reader, Writer},
};
use std::{
    fs::File,
    io::{self, Read, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};
use terminal::overlay::{Overlay, Sign};

/// The most bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// The most pieces of output that wait for the driver. Beyond that, the command has to wait.
const PRINTED_MAX: usize = 64;

/// The capacity of the channel of other events. At most one piece typed, one sign or alert shown,
/// the ends of the screen, of the front and of the command can wait, so no thread waits here.
const EVENTS_MAX: usize = 5;

/// The person's input and output, and the recording.
pub(super) struct Streams {
    pub(super) keys: Box<dyn Read + Send>,
    pub(super) screen: Box<dyn Write + Send>,
    /// The overlay of the screen, if it is a person's terminal.
    pub(super) overlay: Option<Overlay>,
    pub(super) record: Option<File>,
    /// The process that the person's shell waits for, if it is another than this one.
    pub(super) front: Option<Front>,
}

/// The person's screen. It is locked while it is written to.
#[derive(Clone)]
pub(super) struct Screen(Arc<Mutex<Shown>>);

struct Shown {
    screen: Box<dyn Write + Send>,
    overlay: Option<Overlay>,
    /// The bytes for the next write.
    bytes: Vec<u8>,
}

impl Screen {
    /// Whether a write waits for the person's terminal, or has just ended.
    pub(super) fn is_busy(&self) -> bool {
        self.0.try_lock().is_err()
    }

    /// Shows the command's output.
    fn show(&self, printed: &[u8]) -> io::Result<()> {
        let mut shown = self.lock();
        let Shown { screen, overlay, bytes } = &mut *shown;
        let Some(overlay) = overlay else {
            return screen.write_all(printed).and_then(|()| screen.flush());
        };
        overlay.pass(printed, bytes);
        shown.write()
    }

    /// Shows a sign or an alert, or makes the overlay show it later.
    fn add(&self, addition: &Addition) -> io::Result<()> {
        let mut shown = self.lock();
        let Shown { overlay: Some(overlay), bytes, .. } = &mut *shown else { return Ok(()) };
        match addition {
            Addition::Sign(sign) => overlay.set_sign(*sign, bytes),
            Addition::Alert(alert) => overlay.alert(alert, bytes),
        }
        shown.write()
    }

    /// Undoes the changes of the overlay, and shows the last bytes.
    pub(super) fn end(&self, last: &[u8]) -> io::Result<()> {
        self.lock().end(last)
    }

    /// Like [`end`](Self::end) if there are last bytes; then closes the person's output, so that
    /// nothing more is shown.
    pub(super) fn close(&self, last: Option<&str>) -> io::Result<()> {
        let mut shown = self.lock();
        let ended = last.map_or(Ok(()), |last| shown.end(last.as_bytes()));
        shown.screen = Box::new(io::sink());
        shown.overlay = None;
        ended
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown {
    fn end(&mut self, last: &[u8]) -> io::Result<()> {
        if let Some(overlay) = &mut self.overlay {
            overlay.end(&mut self.bytes);
        }
        self.bytes.extend_from_slice(last);
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        let Self { screen, bytes, .. } = self;
        let written = screen.write_all(bytes).and_then(|()| screen.flush());
        bytes.clear();
        written
    }
}

/// An addition of the driver's to the command's output on the person's screen.
pub(super) enum Addition {
    /// The sign in the title.
    Sign(Option<Sign>),
    /// An alert, such as a bell.
    Alert(Vec<u8>),
}

/// The driver's ends of the threads' channels.
pub(super) struct Channels {
    /// The command's output. The channel is closed at the end of the output.
    pub(super) printed: Receiver<Vec<u8>>,
    /// Bytes from the person's terminal. The channel is closed at their end.
    pub(super) keys: Receiver<Vec<u8>>,
    pub(super) events: Receiver<ThreadEvent>,
    /// Pieces for the command's terminal, one at a time.
    pub(super) typing: Sender<Vec<u8>>,
    /// Additions to the screen, one at a time.
    pub(super) additions: Sender<Addition>,
}

/// An event other than input and output.
pub(super) enum ThreadEvent {
    /// The command's terminal has accepted this number of bytes.
    Typed(usize),
    /// The person's terminal has accepted an addition.
    Added,
    /// The command has ended, with this exit code.
    Ended(i32),
    /// The person's terminal accepts no more output.
    ScreenGone,
    /// The front has ended.
    FrontEnded,
}

/// The threads that end with the command.
pub(super) struct Threads {
    pub(super) screen: Screen,
    /// The thread that reads the person's keys. It is only joined where its reading can be ended.
    pub(super) keys: Option<JoinHandle<()>>,
    handles: [JoinHandle<()>; 4],
}

/// Starts all threads.
pub(super) fn start(pty: &Pty, ends: Streams) -> io::Result<(Threads, Channels)> {
    let (sender, events) = bounded(EVENTS_MAX);
    let (printed_sender, printed) = bounded(PRINTED_MAX);
    let (keys_sender, keys) = bounded(1);
    let (typing, typing_receiver) = bounded(1);
    let (additions, to_add) = bounded(1);
    let (reader, writer) = (pty.reader()?, pty.writer()?);
    let Streams { keys: source, screen, overlay, record, front } = ends;
    let screen = Screen(Arc::new(Mutex::new(Shown { screen, overlay, bytes: Vec::new() })));
    let (added, screen_events) = (sender.clone(), sender.clone());
    let adds = screen.clone();
    // Waits for: its channel, `terminal output` while that writes to the terminal, the system, then
    // the terminal side's channel.
    let adder = spawn("terminal title", move || add_to_screen(&adds, &to_add, &added))?;
    let shown = screen.clone();
    // Waits for: the system (the PTY, the terminal), then the terminal side's channel.
    let reader = spawn("terminal output", move || {
        pass_output(reader, &shown, record, &printed_sender, &screen_events)
    })?;
    let typed = sender.clone();
    // Waits for: its channel, the system, then the terminal side's channel.
    let writer = spawn("terminal input", move || type_in(writer, &typing_receiver, &typed))?;
    if let Some(front) = front {
        let ended = sender.clone();
        // Waits for: the end of the front, then the terminal side's channel. Not joined: ends with
        // the front.
        spawn("front", move || {
            front.wait();
            // Sending fails only without a driver, and then the event is of no use.
            drop(ended.send(ThreadEvent::FrontEnded));
        })?;
    }
    let command = pty.clone();
    // Waits for: the wrapped command, then the terminal side's channel.
    let waiter = spawn("command", move || wait(&command, &sender))?;
    // Waits for: the system (the terminal), then the terminal side's channel. Joined only if the
    // wrapper leaves its terminal; else it ends with the process.
    let keys_reader = spawn("keys", move || pass_keys(source, &keys_sender))?;
    let threads =
        Threads { screen, keys: Some(keys_reader), handles: [writer, waiter, reader, adder] };
    Ok((threads, Channels { printed, keys, events, typing, additions }))
}

impl Threads {
    /// Joins the threads. The output must have ended, and [`Channels`] must be dropped.
    pub(super) fn join(self) {
        for thread in self.handles {
            // A panic was reported by the panic hook.
            drop(thread.join());
        }
    }
}

/// Starts a named thread.
pub(super) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// Passes the command's output to the screen, then to the recording and the driver.
fn pass_output(
    mut command: Reader,
    screen: &Screen,
    mut record: Option<File>,
    printed: &Sender<Vec<u8>>,
    events: &Sender<ThreadEvent>,
) {
    let mut buffer = vec![0; READ_BYTES];
    let mut is_seen = true;
    loop {
        let bytes = match command.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => &buffer[..count],
            Err(error) => {
                tracing::warn!("the command's output cannot be read: {error}");
                break;
            }
        };
        if is_seen && let Err(error) = screen.show(bytes) {
            tracing::warn!("the terminal is gone: {error}");
            is_seen = false;
            // Sending fails only without a driver, and then nothing would end the command.
            drop(events.send(ThreadEvent::ScreenGone));
        }
        if let Some(file) = &mut record
            && let Err(error) = file.write_all(bytes)
        {
            tracing::warn!("the recording ends here: {error}");
            record = None;
        }
        if printed.send(bytes.to_vec()).is_err() {
            break;
        }
    }
}

/// Adds to the screen, and reports each addition. The thread that shows the output gets the same
/// error and reports it.
fn add_to_screen(screen: &Screen, additions: &Receiver<Addition>, events: &Sender<ThreadEvent>) {
    for addition in additions {
        if screen.add(&addition).is_err() || events.send(ThreadEvent::Added).is_err() {
            return;
        }
    }
}

/// Writes pieces to the command's terminal, and reports each.
fn type_in(mut terminal: Writer, typing: &Receiver<Vec<u8>>, events: &Sender<ThreadEvent>) {
    for bytes in typing {
        if let Err(error) = terminal.write_all(&bytes) {
            // The thread that waits for the command reports its end.
            tracing::debug!("the command's terminal takes no more: {error}");
            return;
        }
        if events.send(ThreadEvent::Typed(bytes.len())).is_err() {
            return;
        }
    }
}

/// Waits for the command's end, and then closes its terminal, so that the output ends even if other
/// processes of the command remain.
fn wait(command: &Pty, events: &Sender<ThreadEvent>) {
    let code = command.wait().unwrap_or_else(|error| {
        tracing::error!("{error}");
        1
    });
    // Sending fails only without a driver, and then the event is of no use.
    drop(events.send(ThreadEvent::Ended(code)));
    command.close();
}

/// Passes the person's keys to the driver.
fn pass_keys(mut source: Box<dyn Read + Send>, keys: &Sender<Vec<u8>>) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                if keys.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!("the terminal cannot be read: {error}");
                return;
            }
        }
    }
}
