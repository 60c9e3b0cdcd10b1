//! Fixtures: a folder, an endpoint, a pair of streams, a process, a terminal.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use platform::{
    endpoint::Endpoint,
    pty::{Pty, Size, Writer},
    transport::{Listener, Stream},
};

use crate::roles::PLAY;

/// The timeout of a wait for an event, so that the test does not hang.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);

/// A temporary folder, removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        // Process ids are reused, and a socket's path must be short.
        let name = format!("c{}-{:x}-{number}", process::id(), platform::clock::unix_ms());
        let folder = env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::parse(&crate::system::endpoint_in(&self.0)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The two ends of one connection: the client's and the server's.
pub(crate) fn pair() -> (Stream, Stream) {
    let folder = Folder::new();
    let endpoint = folder.endpoint();
    let listener = Listener::bind(&endpoint).unwrap();
    let client = Stream::connect(&endpoint).unwrap();
    (client, listener.accept().unwrap())
}

/// Bytes with a long period, so that a test notices a lost or doubled byte.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

pub(crate) fn read_to_end(mut stream: &Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

pub(crate) fn read_exactly(mut stream: &Stream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A command that runs this program in a role.
pub(crate) fn role(role: &str, arguments: &[&Path]) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([PLAY, role]).args(arguments);
    command
}

/// A command line that runs this program in a role, for a pseudo-terminal.
pub(crate) fn role_command(role: &str, arguments: &[&str]) -> Vec<OsString> {
    let exe = env::current_exe().unwrap().into_os_string();
    let arguments = [PLAY, role].into_iter().chain(arguments.iter().copied());
    [exe].into_iter().chain(arguments.map(OsString::from)).collect()
}

/// Returns the first line that a process prints, and discards the rest.
pub(crate) fn first_line(process: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Starts a process in the role of a daemon, and waits until it has the lock and the endpoint.
pub(crate) fn start_daemon(mut role: Command) -> Child {
    let mut daemon = role.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(first_line(&mut daemon), "mine");
    daemon
}

/// The initial size of a [`Screen`].
pub(crate) const SIZE: Size = Size { rows: 30, cols: 90 };

/// A role in a pseudo-terminal, and its unread output.
pub(crate) struct Screen {
    pub(crate) pty: Pty,
    pub(crate) keys: Writer,
    output: mpsc::Receiver<Vec<u8>>,
    seen: Vec<u8>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Screen {
    pub(crate) fn play(role: &str, arguments: &[&str]) -> Self {
        let pty = Pty::spawn(&role_command(role, arguments), &[], None, SIZE);
        Self::new(pty.unwrap())
    }

    pub(crate) fn new(pty: Pty) -> Self {
        let (sender, output) = mpsc::channel();
        let mut reader = pty.reader().unwrap();
        let reader = thread::spawn(move || {
            let mut buffer = [0; 65536];
            loop {
                match reader.read(&mut buffer).unwrap() {
                    0 => return,
                    length => sender.send(buffer[..length].to_vec()).unwrap_or_default(),
                }
            }
        });
        let keys = pty.writer().unwrap();
        Self { pty, keys, output, seen: Vec::new(), reader: Some(reader) }
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the text is printed, and discards the output up to it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.read_until(text);
    }

    /// Waits until the text is printed, and returns the output before it.
    #[track_caller]
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        self.read_until_one_of(&[text]).1
    }

    /// Types the answer to each question, until the text is printed.
    #[track_caller]
    pub(crate) fn answer(&mut self, question: &str, answer: &str, text: &str) {
        while self.read_until_one_of(&[question, text]).0 == 0 {
            self.type_keys(answer);
        }
    }

    /// Waits until one of the texts is printed. Returns its index, and the output before it.
    #[track_caller]
    fn read_until_one_of(&mut self, texts: &[&str]) -> (usize, String) {
        let end = Instant::now() + TIMEOUT;
        loop {
            let place = |(index, text): (usize, &&str)| {
                let is_it = |bytes: &[u8]| bytes == text.as_bytes();
                Some((self.seen.windows(text.len()).position(is_it)?, index))
            };
            if let Some((position, index)) = texts.iter().enumerate().filter_map(place).min() {
                let before = String::from_utf8_lossy(&self.seen[..position]).into_owned();
                self.seen.drain(..position + texts[index].len());
                return (index, before);
            }
            match self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.extend(bytes),
                Err(why) => {
                    let seen = String::from_utf8_lossy(&self.seen);
                    panic!("no {texts:?} on the screen ({why}): {seen:?}");
                }
            }
        }
    }

    /// Waits for the command's end, closes the terminal, and returns the exit code and the rest of
    /// the output.
    pub(crate) fn finish(mut self) -> (i32, String) {
        let code = self.pty.wait().unwrap();
        self.pty.close();
        self.reader.take().unwrap().join().unwrap();
        for bytes in self.output.try_iter() {
            self.seen.extend(bytes);
        }
        (code, String::from_utf8_lossy(&self.seen).into_owned())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.pty.kill();
    }
}
