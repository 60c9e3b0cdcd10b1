//! Logs of what runs without a terminal: files in the home that never grow beyond a limit, and one older.
//!
//! Making room copies the log and empties it in place, because others hold it open too: the process's
//! own standard error, where a panic is written, ends in it.

use super::{Failure, print::has_colours};
use platform::{paths, peer::User, terminal::Standard};
use std::{
    env,
    fs::{self, File},
    io::{self, Write},
    panic,
    path::{Path, PathBuf},
    sync::Mutex,
};
use tracing::level_filters::LevelFilter;

/// The daemon's log in the home directory.
pub(super) const FILE: &str = "daemon.log";

/// The directory in the home for those of spawned agents.
const AGENTS: &str = "logs";

/// How much is logged.
const LOG_LEVEL: &str = "AGENT_RELAY_LOG";

/// A log that would be longer makes room.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The log of a spawned agent's wrapper.
pub(super) fn of_agent(home: &Path, name: &str) -> PathBuf {
    home.join(AGENTS).join(format!("{name}.log"))
}

/// The log goes into a file, or else where errors go.
pub(super) fn begin(path: Option<&Path>) -> Result<(), Failure> {
    let level = match env::var(LOG_LEVEL) {
        Ok(text) => text.parse().map_err(|_| {
            Failure::usage(format!("{LOG_LEVEL} is error, warn, info, debug or trace"))
        })?,
        Err(_) => LevelFilter::INFO,
    };
    // What can't be logged, because the disk is full or the reader has gone, is no reason to end: to say
    // so where errors go would be.
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .log_internal_errors(false);
    match path {
        Some(path) => {
            let file = Log::open(path)
                .map_err(|error| Failure::failed(format!("open {}: {error}", path.display())))?;
            log.with_ansi(false).with_writer(Mutex::new(file)).init();
        }
        None => log.with_ansi(has_colours(Standard::Error)).with_writer(io::stderr).init(),
    }
    Ok(())
}

/// Writes one line into the daemon's log, as a process beside the daemon. What can't be written is
/// lost: there is nobody else to tell.
pub(super) fn note(home: &Path, line: &str) {
    let path = home.join(FILE);
    let Ok(log) = paths::open_private_file(&path).and_then(|_| Log::open(&path)) else { return };
    let format = tracing_subscriber::fmt().with_target(false).log_internal_errors(false);
    let subscriber = format.with_ansi(false).with_writer(Mutex::new(log)).finish();
    tracing::subscriber::with_default(subscriber, || tracing::warn!("{line}"));
}

/// The log of a daemon that the system starts: the home's, made where there is none, for its owner to read.
/// Nobody reads where errors go, so that panics are said there, too.
pub(super) fn begin_in(home: &Path, owner: &User) -> Result<(), Failure> {
    let log = home.join(FILE);
    paths::open_private_file_for(&log, owner).map_err(Failure::because)?;
    begin(Some(&log))?;
    panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(())
}

/// Whoever writes to the log.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    bytes_max: u64,
}

impl Log {
    /// Opens a log that is there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file, bytes_max: BYTES_MAX })
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.file.metadata()?.len() + line.len() as u64 > self.bytes_max {
            put_aside(&self.path)?;
        }
        self.file.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Makes room if the log is over its limit; how long it is then.
pub(super) fn make_room(path: &Path) -> io::Result<u64> {
    let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if bytes <= BYTES_MAX {
        return Ok(bytes);
    }
    put_aside(path)?;
    Ok(0)
}

fn put_aside(path: &Path) -> io::Result<()> {
    fs::copy(path, path.with_extension("log.old"))?;
    File::options().write(true).open(path)?.set_len(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    #[test]
    fn a_log_never_grows_beyond_its_limit_and_keeps_what_was_last() {
        let directory = env::temp_dir().join(format!("agent-relay-log-{}", process::id()));
        paths::make_private_dir(&directory).unwrap();
        let path = directory.join(FILE);
        drop(paths::create_private_file(&path).unwrap());
        // Another handle, as the daemon's standard error has one.
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
        // Not every system removes what is open.
        drop((log, error));
        fs::remove_dir_all(&directory).unwrap();
    }
}
