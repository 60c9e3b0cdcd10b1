//! Starting a daemon on its own, for `up` and for the commands that want one.

use super::{
    AS_AGENT_RELAY, Failure, TIMED_OUT,
    ask::about,
    identity::agent_around,
    log,
    place::{Place, judged},
    print::foreign_line,
    restart,
    service::start_of,
};
use crate::{
    client::{Client, ClientError, Settings},
    config::{self, service::Service},
};
use platform::{clock, paths, process, service};
use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
    time::Duration,
};

/// How long a daemon may take until clients can connect.
const START_MS: u64 = 15_000;

/// Between two looks at whether it can be reached: nothing tells a stranger when a socket appears.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How much of a log's end is read for its last line.
const LOG_TAIL_BYTES: u64 = 16 * 1024;

/// Joins as a command does, once it has started a daemon where there is none.
pub(super) fn join_or_start(
    place: &mut Place,
    make: &dyn Fn(&str) -> Settings,
) -> Result<Client, Failure> {
    match place.try_join(make) {
        Err(ClientError::NoDaemon { .. }) => {
            start_as_asked(place)?;
            place.join(make)
        }
        joined => judged(joined, make),
    }
}

/// Starts a daemon for this command: a person's is always obeyed, an agent's within the bounds of
/// automatic starts.
pub(super) fn start_as_asked(place: &mut Place) -> Result<bool, Failure> {
    if agent_around().is_some() { restart::start_for_agent(place) } else { start(place) }
}

/// Starts a daemon on its own, and returns once it can be reached; false where somebody else's was
/// faster. From then on automatic starts are allowed.
pub(super) fn start(place: &mut Place) -> Result<bool, Failure> {
    let is_ours = start_unless(place, &|| false)?;
    restart::allow(&place.home)?;
    Ok(is_ours)
}

/// Starts a daemon on its own. Stops waiting for it, but not the daemon, once `is_over` says so.
pub(super) fn start_unless(place: &mut Place, is_over: &dyn Fn() -> bool) -> Result<bool, Failure> {
    if let Some(service) = place.sources.service_used() {
        return start_service(place, service).map(|()| true);
    }
    // One that ran beside the system's would be in its way, and nobody would look after it.
    if start_of(place)? {
        return Ok(true);
    }
    make_home(&place.home)?;
    let log = place.home.join(log::FILE);
    let log_end = log::make_room(&log)
        .map_err(|error| Failure::failed(format!("make room in {}: {error}", log.display())))?;
    let mut daemon =
        process::spawn_detached(&own_program()?, &arguments(place, "--detached"), &log)
            .map_err(Failure::because)?;
    let deadline = clock::monotonic_ms() + START_MS;
    let mut is_another_up = false;
    loop {
        place.look_again()?;
        match place.try_join(&|endpoint| Settings::guest(endpoint)) {
            Ok(client) if pid(&client) == Some(daemon.pid()) => return Ok(true),
            // Somebody else's was faster. Ours finds that out and ends; until then it might still
            // take that one's place, should it go down.
            Ok(_) => is_another_up = true,
            Err(ClientError::NoDaemon { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let has_ended = daemon.exited().map_err(Failure::because)?.is_some();
        if has_ended && is_another_up {
            return Ok(false);
        }
        if has_ended && !is_yet_to_listen(place)? {
            let why = last_line(&log, log_end).unwrap_or_else(|| "it said nothing".to_owned());
            return Err(Failure::failed(format!("the daemon did not start: {why}")));
        }
        if is_over() {
            return Ok(true);
        }
        if clock::monotonic_ms() > deadline {
            return Err(Failure::new(
                TIMED_OUT,
                format!(
                    "the daemon can't be reached {START_MS} ms after its start: its log is {}",
                    log.display()
                ),
            ));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Whether a daemon has this home that can't be reached yet: one that was faster than ours, which is gone
/// again. One that runs elsewhere is there for good.
fn is_yet_to_listen(place: &Place) -> Result<bool, Failure> {
    let tried = place.sources.candidates();
    let elsewhere = place.sources.left.as_deref().filter(|left| !tried.contains(left));
    let is_there = |at: &str| Client::join(place.trusting(Settings::guest(at))).is_ok();
    Ok(place.is_locked()? && !elsewhere.is_some_and(is_there))
}

/// The daemon of a service is the service's to start: one that is started beside it would have none of the
/// mail that waits there.
fn start_service(place: &Place, service: &Service) -> Result<(), Failure> {
    service::start().map_err(|error| {
        Failure::failed(match error.kind() {
            io::ErrorKind::NotFound => format!(
                "the service is gone that {} tells of: remove that file, or install the service again",
                place.home.join(config::service::FILE).display()
            ),
            _ => format!("the daemon is a service's, and that is not started: {error}"),
        })
    })?;
    let deadline = clock::monotonic_ms() + START_MS;
    loop {
        match place.try_join(&|endpoint| Settings::guest(endpoint)) {
            Ok(_) => return Ok(()),
            Err(ClientError::NoDaemon { .. }) if clock::monotonic_ms() <= deadline => {}
            Err(ClientError::NoDaemon { .. }) => {
                let log = service.home.join(log::FILE);
                let words = format!("the service can't be reached {START_MS} ms after its start");
                return Err(Failure::new(TIMED_OUT, format!("{words}: see {}", log.display())));
            }
            Err(error) => return Err(error.into()),
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// This program's file, to be run again: where it was when this process asked first. What is
/// installed there later is what runs next.
pub(super) fn own_program() -> Result<PathBuf, Failure> {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    if let Some(file) = FILE.get() {
        return Ok(file.clone());
    }
    let file = env::current_exe().map_err(|error| {
        Failure::failed(format!("this program doesn't find itself ({error}): start it by its path"))
    })?;
    Ok(FILE.get_or_init(|| file).clone())
}

pub(super) fn make_home(home: &Path) -> Result<(), Failure> {
    paths::make_private_dir(home).map_err(|error| {
        let advice = match error.kind() {
            // These say themselves what to do.
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory if home.exists() => "",
            _ => ": choose another home with --home",
        };
        Failure::failed(format!("{error}{advice}"))
    })
}

/// The number of the process that answers.
fn pid(client: &Client) -> Option<u32> {
    about(client).ok()?.map(|about| about.pid)
}

/// What a daemon on its own is started with; the last says by whom.
pub(super) fn arguments(place: &Place, by: &str) -> Vec<OsString> {
    words(&place.home, place.sources.option.as_deref(), by)
}

pub(super) fn words(home: &Path, endpoint: Option<&str>, by: &str) -> Vec<OsString> {
    let mut words = vec![AS_AGENT_RELAY.into(), "--home".into(), home.to_owned().into_os_string()];
    if let Some(endpoint) = endpoint {
        words.extend(["--endpoint".into(), endpoint.into()]);
    }
    words.extend(["up".into(), "--foreground".into(), by.into()]);
    words
}

/// What the daemon said last, of what it said since the log was so long.
pub(super) fn last_line(log: &Path, start: u64) -> Option<String> {
    let text = said_since(log, start)?;
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(foreign_line(line.trim().trim_start_matches("agent-relay: ")))
}

/// What a log's end says, of what was said since it was so long.
pub(super) fn said_since(log: &Path, start: u64) -> Option<String> {
    let mut file = fs::File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    // One that is shorter was begun anew.
    let start = if start > length { 0 } else { start };
    file.seek(SeekFrom::Start(start.max(length.saturating_sub(LOG_TAIL_BYTES)))).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
