//! The wrapper's threads: each waits for one thing and tells the driver.

use crossbeam_channel::{Receiver, Sender, bounded};
use platform::pty::{Pty, Reader, Writer};
use std::{
    fs::File,
    io::{self, Read, Write},
    thread::{self, JoinHandle},
};

/// Read at a time, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Pieces of output that wait for the bridge; the command waits when there are more.
const PRINTED_MAX: usize = 64;

/// News of other kinds that wait: one piece typed, the screen's end and the command's are all there
/// can be, so that nobody ever waits to tell.
const NEWS_MAX: usize = 4;

/// The person's side, and the recording.
pub(super) struct Ends {
    pub(super) keys: Box<dyn Read + Send>,
    pub(super) screen: Box<dyn Write + Send>,
    pub(super) record: Option<File>,
}

/// What the threads tell, by urgency.
pub(super) struct Channels {
    /// What the command printed; closed when it will print no more.
    pub(super) printed: Receiver<Vec<u8>>,
    /// What the person's terminal sent; closed when nothing more comes.
    pub(super) keys: Receiver<Vec<u8>>,
    /// Everything else.
    pub(super) news: Receiver<News>,
    /// To be typed into the command's terminal; one at a time.
    pub(super) typing: Sender<Vec<u8>>,
}

/// What else happens.
pub(super) enum News {
    /// So many bytes were typed into the command's terminal.
    Typed(usize),
    /// The command has ended.
    Ended(i32),
    /// Nobody can see any more what the command prints.
    ScreenGone,
}

/// The threads that end with the command.
pub(super) struct Threads {
    reader: JoinHandle<Box<dyn Write + Send>>,
    writer: JoinHandle<()>,
    waiter: JoinHandle<()>,
}

/// Starts them all.
pub(super) fn start(pty: &Pty, ends: Ends) -> io::Result<(Threads, Channels)> {
    let (told, news) = bounded(NEWS_MAX);
    let (printed_sender, printed) = bounded(PRINTED_MAX);
    let (keys_sender, keys) = bounded(1);
    let (typing, typing_receiver) = bounded(1);
    let (reader, writer) = (pty.reader()?, pty.writer()?);
    let Ends { keys: source, screen, record } = ends;
    let unseen = told.clone();
    let reader = spawn("terminal output", move || {
        pass_output(reader, screen, record, &printed_sender, &unseen)
    })?;
    let typed = told.clone();
    let writer = spawn("terminal input", move || type_in(writer, &typing_receiver, &typed))?;
    let command = pty.clone();
    let waiter = spawn("command", move || wait(&command, &told))?;
    // It waits for the person's next key, for which nobody can wait at the end: it ends with the
    // process, or when there are no more keys.
    drop(spawn("keys", move || pass_keys(source, &keys_sender))?);
    let threads = Threads { reader, writer, waiter };
    Ok((threads, Channels { printed, keys, news, typing }))
}

impl Threads {
    /// Waits for their end and gives the screen back. The command has ended, its terminal is closed,
    /// and the sender of what is to be typed is gone.
    pub(super) fn join(self) -> Option<Box<dyn Write + Send>> {
        // A panic of theirs was reported by the panic hook; what they did ends all the same.
        drop(self.writer.join());
        drop(self.waiter.join());
        self.reader.join().ok()
    }
}

pub(super) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// What the command prints: to the screen first, then to the recording and the driver.
fn pass_output(
    mut command: Reader,
    mut screen: Box<dyn Write + Send>,
    mut record: Option<File>,
    printed: &Sender<Vec<u8>>,
    news: &Sender<News>,
) -> Box<dyn Write + Send> {
    let mut buffer = vec![0; READ_BYTES];
    let mut is_seen = true;
    loop {
        let bytes = match command.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => &buffer[..count],
            Err(error) => {
                tracing::warn!("what the command prints can't be read: {error}");
                break;
            }
        };
        if is_seen && let Err(error) = screen.write_all(bytes).and_then(|()| screen.flush()) {
            tracing::warn!("the terminal is gone: {error}");
            is_seen = false;
            // Without a driver there is nobody left who would end the command.
            drop(news.send(News::ScreenGone));
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
    screen
}

/// Types what the driver says, and reports it.
fn type_in(mut terminal: Writer, typing: &Receiver<Vec<u8>>, news: &Sender<News>) {
    for bytes in typing {
        if let Err(error) = terminal.write_all(&bytes) {
            // Its end is told by the thread that waits for it.
            tracing::debug!("the command's terminal takes no more: {error}");
            return;
        }
        if news.send(News::Typed(bytes.len())).is_err() {
            return;
        }
    }
}

/// Waits for the command, then lets its output end, whatever it has left behind.
fn wait(command: &Pty, news: &Sender<News>) {
    let code = command.wait().unwrap_or_else(|error| {
        tracing::error!("{error}");
        1
    });
    command.close();
    // Without a driver nobody wants to know.
    drop(news.send(News::Ended(code)));
}

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
                tracing::warn!("the terminal can't be read: {error}");
                return;
            }
        }
    }
}
