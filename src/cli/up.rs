//! `up`: start the daemon.

use super::{
    AS_AGENT_RELAY, DONE, Failure, TIMED_OUT,
    ask::{about, guest},
    down,
    log::{self, Log},
    place::{Asked, Place},
    print::{self, Out, foreign_line},
};
use crate::{
    client::{Client, ClientError, Settings},
    daemon,
};
use argh::{ArgsInfo, FromArgs};
use platform::{clock, endpoint::Endpoint, paths, process, terminal::Standard};
use serde::Serialize;
use std::{
    env,
    ffi::OsString,
    fmt::Display,
    fs,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    sync::Mutex,
    thread,
    time::Duration,
};
use tracing::level_filters::LevelFilter;

/// How much the daemon logs.
const LOG_LEVEL: &str = "AGENT_RELAY_LOG";

/// How long a daemon may take until clients can connect.
const START_MS: u64 = 15_000;

/// Between two looks at whether it can be reached: nothing tells a stranger when a socket appears.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How much of a log's end is read for its last line.
const LOG_TAIL_BYTES: u64 = 16 * 1024;

/// Start the daemon. Returns once clients can connect; already up is success.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "up",
    help_triggers("--help"),
    example = "agent-relay up",
    example = "agent-relay up --foreground"
)]
pub(super) struct Up {
    /// stay here, in this terminal, until Ctrl-C
    #[argh(switch)]
    foreground: bool,

    /// write the log into the home directory, as a daemon on its own does
    #[argh(switch, hidden_help)]
    detached: bool,

    /// stop the daemon that runs, and start this version's
    #[argh(switch)]
    replace: bool,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    endpoint: &'a str,
    home: Option<&'a str>,
    version: &'a str,
    started: bool,
}

impl Up {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let mut place = asked.place()?;
        if self.replace {
            down::stop(&place)?;
        }
        if self.foreground {
            log_to(self.detached.then(|| place.home.join(log::FILE)).as_deref())?;
            return foreground(place);
        }
        let started = match place.try_join(&|endpoint| Settings::guest(endpoint)) {
            Ok(_) => false,
            Err(ClientError::NoDaemon { .. }) => start(&mut place)?,
            Err(error) => return Err(error.into()),
        };
        self.report(&guest(&place)?, started)
    }

    fn report(&self, client: &Client, started: bool) -> Result<i32, Failure> {
        let (endpoint, version) = (client.endpoint(), client.welcome().server.version.as_str());
        let home = about(client)?.map(|about| about.home);
        let mut out = Out::new();
        if self.json {
            out.json("up", &Report { endpoint, home: home.as_deref(), version, started })?;
        } else {
            let words = if started { "the daemon is up" } else { "the daemon was up already" };
            let home = home.map(|home| format!(", home {}", foreign_line(&home)));
            let (version, home) = (foreign_line(version), home.unwrap_or_default());
            out.line(format_args!("{words} at {endpoint} (version {version}{home})"))?;
        }
        Ok(DONE)
    }
}

fn foreground(place: Place) -> Result<i32, Failure> {
    let failed = |error: &dyn Display| Failure::failed(foreign_line(&error.to_string()));
    let endpoint = place.sources.asked_for().map(|text| Endpoint::parse(text.as_ref())).transpose();
    let settings = daemon::Settings {
        endpoint: endpoint.map_err(|error| failed(&error))?,
        limits: place.config.limits(),
        home: place.home,
    };
    daemon::run(settings, |_| {}).map_err(|error| failed(&error))?;
    Ok(DONE)
}

/// The log goes into a file, or else where errors go.
fn log_to(path: Option<&Path>) -> Result<(), Failure> {
    let level = match env::var(LOG_LEVEL) {
        Ok(text) => text.parse().map_err(|_| {
            Failure::usage(format!("{LOG_LEVEL} is error, warn, info, debug or trace"))
        })?,
        Err(_) => LevelFilter::INFO,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_target(false);
    match path {
        Some(path) => {
            let file = Log::open(path)
                .map_err(|error| Failure::failed(format!("open {}: {error}", path.display())))?;
            log.with_ansi(false).with_writer(Mutex::new(file)).init();
        }
        None => log.with_ansi(print::has_colours(Standard::Error)).with_writer(io::stderr).init(),
    }
    Ok(())
}

/// Starts a daemon on its own, and returns once it can be reached; false where somebody else's was
/// faster.
pub(super) fn start(place: &mut Place) -> Result<bool, Failure> {
    let failed = |error: io::Error| Failure::failed(error.to_string());
    make_home(&place.home)?;
    let log = place.home.join(log::FILE);
    let log_end = log::make_room(&log)
        .map_err(|error| Failure::failed(format!("make room in {}: {error}", log.display())))?;
    let exe = env::current_exe().map_err(|error| {
        Failure::failed(format!("this program doesn't find itself ({error}): start it by its path"))
    })?;
    let mut daemon = process::spawn_detached(&exe, &arguments(place), &log).map_err(failed)?;
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
        if daemon.exited().map_err(failed)?.is_some() {
            if is_another_up {
                return Ok(false);
            }
            let why = last_line(&log, log_end).unwrap_or_else(|| "it said nothing".to_owned());
            return Err(Failure::failed(format!("the daemon did not start: {why}")));
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

fn make_home(home: &Path) -> Result<(), Failure> {
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

fn arguments(place: &Place) -> Vec<OsString> {
    let mut arguments =
        vec![AS_AGENT_RELAY.into(), "--home".into(), place.home.clone().into_os_string()];
    if let Some(endpoint) = &place.sources.option {
        arguments.extend(["--endpoint".into(), endpoint.into()]);
    }
    arguments.extend(["up".into(), "--foreground".into(), "--detached".into()]);
    arguments
}

/// What the daemon said last, of what it said since the log was so long.
fn last_line(log: &Path, start: u64) -> Option<String> {
    let mut file = fs::File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(start.max(length.saturating_sub(LOG_TAIL_BYTES)))).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(foreign_line(line.trim().trim_start_matches("agent-relay: ")))
}
