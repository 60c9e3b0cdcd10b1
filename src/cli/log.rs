//! Logs of the daemon and of spawned agents: files of limited size in the home directory. A full
//! log is copied to `*.log.old` and emptied in place. It is not renamed, since other handles to it
//! are open, such as the process's own standard error.
//!
//! Several processes write to a log: a refused daemon and the running one, and wrappers that
//! restart a daemon. So each line bears the id of its process, and [`Ended`] reads the lines of one
//! process.
//!
//! No thread that logs waits for the file, the terminal or the pipe: see [`queue`].

mod ended;
mod queue;

pub(super) use ended::Ended;

use super::{failure::Failure, print::LINE_PREFIX};
use platform::{paths, peer::User};
use protocol::text::escaped;
use queue::LogQueue;
use std::{
    backtrace::{Backtrace, BacktraceStatus},
    env, fmt,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    panic,
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex},
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime, SystemTime},
};

/// The daemon's log in the home directory.
pub(super) const FILE: &str = "daemon.log";

/// The directory in the home directory for the logs of spawned agents.
const AGENTS: &str = "logs";

/// The level of the log: `error`, `warn`, `info` (the default), `debug` or `trace`.
const LOG_LEVEL: &str = "AGENT_RELAY_LOG";

/// The longest log.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The most bytes that are read from the end of a log.
const TAIL_BYTES: u64 = 256 * 1024;

/// The path of the log of a spawned agent's wrapper.
pub(super) fn of_agent(home: &Path, name: &str) -> PathBuf {
    home.join(AGENTS).join(format!("{name}.log"))
}

/// The log of this process. Dropping it waits, for a limited time, until all lines are written.
#[must_use]
pub(super) struct Logging {
    queue: Arc<LogQueue>,
    /// Whether the log is a file, which other processes may write, too.
    is_file: bool,
}

impl Logging {
    /// Writes the message of a failure as the last line, instead of printing it: standard error may
    /// be a terminal or an unread pipe.
    pub(super) fn conclude(self, ended: Result<i32, Failure>) -> Result<i32, Failure> {
        ended.map_err(|failure| {
            if let Some(line) = failure.line() {
                let prefix = match self.is_file {
                    true => ended::conclusion_prefix(process::id()),
                    false => LINE_PREFIX.to_owned(),
                };
                self.queue.push(format!("{prefix}{line}\n").as_bytes());
            }
            failure.silenced()
        })
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.queue.flush();
    }
}

/// Starts to log to a file, or to standard error. Panics are logged as well.
pub(super) fn begin(path: Option<&Path>) -> Result<Logging, Failure> {
    let level = match env::var(LOG_LEVEL) {
        Ok(text) => text.parse().map_err(|_| {
            Failure::usage(format!("{LOG_LEVEL} is error, warn, info, debug or trace"))
        })?,
        Err(_) => LevelFilter::INFO,
    };
    let target: Box<dyn Write + Send> = match path {
        Some(path) => Box::new(
            Log::open(path)
                .map_err(|error| Failure::failed(format!("open {}: {error}", path.display())))?,
        ),
        None => Box::new(io::stderr()),
    };
    let queue = Arc::new(LogQueue::start(target).map_err(Failure::because)?);
    // A full disk or a closed pipe must not end the process. The library would print a report of
    // such an error to standard error, which may be the same disk or pipe.
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(false)
        .log_internal_errors(false)
        .with_timer(Stamp)
        .with_writer(Arc::clone(&queue))
        .init();
    log_panics(Arc::clone(&queue));
    Ok(Logging { queue, is_file: path.is_some() })
}

/// The beginning of each line: the time, and the id of the process.
struct Stamp;

impl FormatTime for Stamp {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        SystemTime.format_time(line)?;
        write!(line, " {}", process::id())
    }
}

/// Logs panics. The standard library would print them to standard error, and wait for it.
fn log_panics(queue: Arc<LogQueue>) {
    panic::set_hook(Box::new(move |panic| {
        let backtrace = Backtrace::capture();
        match backtrace.status() {
            BacktraceStatus::Captured => tracing::error!("{panic}\n{backtrace}"),
            _ => tracing::error!("{panic}"),
        }
        // A panic may end the process at once.
        queue.flush();
    }));
}

/// Writes one line to the daemon's log from a process other than the daemon. Errors are ignored,
/// since there is no other place for the line.
pub(super) fn note(home: &Path, line: &str) {
    let path = home.join(FILE);
    let Ok(log) = paths::open_private_file(&path).and_then(|_| Log::open(&path)) else { return };
    let format = tracing_subscriber::fmt().with_target(false).log_internal_errors(false);
    let format = format.with_ansi(false).with_timer(Stamp);
    let subscriber = format.with_writer(Mutex::new(log)).finish();
    tracing::subscriber::with_default(subscriber, || tracing::warn!("{line}"));
}

/// Starts to log to the home's log, for a daemon that the system starts. The log is made if it is
/// missing, readable by `owner`.
pub(super) fn begin_in(home: &Path, owner: &User) -> Result<Logging, Failure> {
    let log = home.join(FILE);
    paths::open_private_file_for(&log, owner).map_err(Failure::because)?;
    begin(Some(&log))
}

/// A log that is open for writing.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    bytes_max: u64,
}

impl Log {
    /// Opens an existing log.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file, bytes_max: BYTES_MAX })
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.file.metadata()?.len() + line.len() as u64 > self.bytes_max {
            rotate(&self.path)?;
        }
        self.file.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Makes room in a log that is over its limit. Returns its length.
pub(super) fn make_room(path: &Path) -> io::Result<u64> {
    let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if bytes <= BYTES_MAX {
        return Ok(bytes);
    }
    rotate(path)?;
    Ok(0)
}

fn rotate(path: &Path) -> io::Result<()> {
    fs::copy(path, path.with_extension("log.old"))?;
    File::options().write(true).open(path)?.set_len(0)
}

/// The length of a log, in bytes; 0 if it cannot be read.
pub(super) fn length(log: &Path) -> u64 {
    fs::metadata(log).map_or(0, |log| log.len())
}

/// The last line with this text that was written to a log since it was `start` bytes long, escaped.
pub(super) fn last_line(log: &Path, start: u64, with: &str) -> Option<String> {
    let text = text_since(log, start)?;
    let line = text.lines().rev().find(|line| line.contains(with) && !line.trim().is_empty())?;
    Some(escaped(line.trim().trim_start_matches(LINE_PREFIX)))
}

/// The text that was written to a log since it was `start` bytes long, at most its last
/// [`TAIL_BYTES`].
fn text_since(log: &Path, start: u64) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    // A log that is shorter than before was emptied in between.
    let start = if start > length { 0 } else { start };
    file.seek(SeekFrom::Start(start.max(length.saturating_sub(TAIL_BYTES)))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    #[test]
    fn log_is_limited_and_keeps_its_last_lines() {
        let directory = env::temp_dir().join(format!("agent-relay-log-{}", process::id()));
        paths::make_private_dir(&directory).unwrap();
        let path = directory.join(FILE);
        drop(paths::create_private_file(&path).unwrap());
        // A second handle, like the one of the daemon's standard error.
        let mut error = File::options().append(true).open(&path).unwrap();
        let mut log = Log { bytes_max: 64, ..Log::open(&path).unwrap() };
        for number in 0..100 {
            writeln!(log, "line {number}").unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= 64);
        }
        writeln!(error, "panic").unwrap();
        let old = fs::read_to_string(path.with_extension("log.old")).unwrap();
        let new = fs::read_to_string(&path).unwrap();
        let last: Vec<_> = old.lines().chain(new.lines()).rev().take(3).collect();
        assert_eq!(last, ["panic", "line 99", "line 98"]);
        assert!(old.len() <= 64, "{old}");
        // Windows cannot remove open files.
        drop((log, error));
        fs::remove_dir_all(&directory).unwrap();
    }
}
