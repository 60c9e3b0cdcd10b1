//! Reading the reports of a home.

use super::{DIRECTORY, Kind, LastError, Report, State};
use platform::lock::Lock;
use serde::Serialize;
use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
    time::UNIX_EPOCH,
};

/// The report of a bridge, and whether that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Known {
    /// Whether the bridge runs.
    pub running: bool,
    /// Its last report. Its state is `ended` if it does not run.
    #[serde(flatten)]
    pub report: Report,
}

/// Reads the reports of a home, in the order of their kinds and names. A killed `stdio` has no
/// report: the other machine starts the next one.
///
/// # Errors
/// If a report cannot be read; the error names the file.
pub fn read(home: &Path) -> io::Result<Vec<Known>> {
    let directory = home.join(DIRECTORY);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(naming(&directory, error)),
    };
    let mut all = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| naming(&directory, error))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            all.extend(read_one(&path)?.filter(|it| it.running || it.report.kind != Kind::Stdio));
        }
    }
    all.sort_by(|one, other| {
        let key = |known: &Known| (known.report.kind, known.report.name.to_lowercase());
        key(one).cmp(&key(other))
    });
    Ok(all)
}

fn read_one(path: &Path) -> io::Result<Option<Known>> {
    // Checked before the file is read, so that a bridge that begins in between is not reported as
    // ended.
    let running = Lock::is_held(&path.with_extension("lock"))?;
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        // The bridge was stopped just now.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(naming(path, error)),
    };
    let mut report: Report =
        serde_json::from_str(&text).map_err(|error| naming(path, error.into()))?;
    if !running && report.state != State::Ended {
        let written = fs::metadata(path)?.modified()?.duration_since(UNIX_EPOCH);
        let at = written.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        report.hosts.clear();
        (report.state, report.since) = (State::Ended, at);
        report.error = Some(LastError { text: "it was killed, or it crashed".to_owned(), at });
    }
    Ok(Some(Known { running, report }))
}

fn naming(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
