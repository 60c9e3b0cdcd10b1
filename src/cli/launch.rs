//! Starts of a daemon in a separate process.

use super::{
    failure::{Failure, TIMED_OUT},
    identity::looking,
    installed, log,
    print::eprint_line,
    program::{AS_AGENT_RELAY, own_program},
    request::daemon_process,
};
use crate::daemon::TAKING_OVER;
use client::{
    Client, ClientError, Settings,
    home::{self, Context, service::Service},
};
use platform::{clock, paths, process, service};
use protocol::{calendar::time_limit, code::ErrorCode};
use std::{ffi::OsString, io, path::Path, thread, time::Duration};

/// The longest wait from the start of a daemon until clients can connect.
const START_MS: u64 = 15_000;

/// The pause between two attempts to connect: no system reports that a socket has appeared.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The pause between two reads of the log of a daemon that starts, in milliseconds.
const LOOK_INTERVAL_MS: u64 = 1_000;

/// A daemon that was started.
pub(super) struct Started {
    /// Whether the system ends the daemon together with the program that started it.
    pub(super) ends_with_starter: bool,
}

/// A sentence about a program that the system ends together with its starter, as in a Windows job.
pub(super) fn program_ends_with_starter(program: &str) -> String {
    format!(
        "{program} ends together with the program that started it, such as an editor; \
         `agent-relay service install --logon` installs a daemon that stays"
    )
}

/// Starts a detached daemon, or the service, and waits until clients can connect. Returns `None` if
/// another process was faster.
///
/// Once `is_over` returns true the wait ends, and the daemon keeps running.
pub(super) fn start(
    context: &mut Context,
    is_over: &dyn Fn() -> bool,
) -> Result<Option<Started>, Failure> {
    let service = Started { ends_with_starter: false };
    if let Some(used) = context.sources.service_used() {
        return start_service(context, used).map(|()| Some(service));
    }
    // Another daemon would prevent the service from starting, and nothing would restart it.
    if installed::start_if_installed(context)? {
        return Ok(Some(service));
    }
    make_home(&context.home)?;
    let log = context.home.join(log::FILE);
    if await_free_home(context, &mut Patience::new(&log))? {
        return Ok(None);
    }
    let log_end =
        log::make_room(&log).map_err(|error| Failure::of_file("make room in", &log, &error))?;
    // The daemon runs in another directory, where a relative endpoint would be another one.
    let sources = &context.sources;
    let endpoint = sources.option.as_deref().or(sources.environment.as_deref());
    let arguments = arguments_for(&context.home, endpoint, "--detached");
    let mut daemon =
        process::spawn_detached(&own_program()?, &arguments, &log).map_err(Failure::because)?;
    let ends_with_starter = daemon.ends_with_others();
    let looking = looking(context);
    let (mut patience, mut is_another_up) = (Patience::new(&log), false);
    loop {
        context.reread_endpoint()?;
        match context.try_join(&looking) {
            Ok(client) if pid(&client) == Some(daemon.pid()) => {
                return Ok(Some(Started { ends_with_starter }));
            }
            // Another daemon was faster. The daemon started here ends once it notices that, unless
            // the other one has ended by then.
            Ok(_) => is_another_up = true,
            Err(error) if is_yet_to_answer(&error) => {}
            // Clients that reconnected were faster. A daemon that has ended is not the one here.
            Err(error) if error.code() == Some(ErrorCode::TooManyClients) => {
                let is_ours = daemon.exited().map_err(Failure::because)?.is_none();
                return Ok(is_ours.then_some(Started { ends_with_starter }));
            }
            Err(error) => return Err(error.into()),
        }
        let exit_code = daemon.exited().map_err(Failure::because)?;
        if exit_code.is_some() && is_another_up {
            return Ok(None);
        }
        if let Some(code) = exit_code
            && !is_yet_to_listen(context)?
        {
            let why = log::Ended::read(&log, log_end, daemon.pid()).reason(code);
            return Err(Failure::failed(format!("the daemon did not start: {why}")));
        }
        if is_over() {
            return Ok(Some(Started { ends_with_starter }));
        }
        if patience.is_over() {
            let waited = time_limit(START_MS);
            let late = format!("the daemon cannot be reached {waited} after its start");
            return Err(Failure::new(TIMED_OUT, late).hint(format!("see {}", log.display())));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// The wait for a daemon that starts: [`START_MS`], and as long after each line of its log about a
/// takeover of an older store, which may take longer.
struct Patience<'a> {
    log: &'a Path,
    /// The length of the log at the start.
    log_end: u64,
    deadline: u64,
    next_look: u64,
    heard: Option<String>,
}

impl<'a> Patience<'a> {
    fn new(log: &'a Path) -> Self {
        let (log_end, now) = (log::length(log), clock::monotonic_ms());
        Self { log, log_end, deadline: now + START_MS, next_look: now, heard: None }
    }

    /// Whether the daemon has been silent for too long. Prints its log.
    fn is_over(&mut self) -> bool {
        let now = clock::monotonic_ms();
        if now >= self.next_look {
            self.next_look = now + LOOK_INTERVAL_MS;
            let news = log::last_line(self.log, self.log_end, TAKING_OVER);
            if let Some(news) = news.filter(|news| self.heard.as_ref() != Some(news)) {
                let from = news.find(TAKING_OVER).unwrap_or(0);
                eprint_line(format_args!("note: the daemon is {}", &news[from..]));
                self.deadline = now + START_MS;
                self.heard = Some(news);
            }
        }
        now > self.deadline
    }
}

/// Waits while a daemon holds this home and may still begin to listen, or has been killed and the
/// system has not closed its files yet. Returns true if a daemon is up.
fn await_free_home(context: &mut Context, patience: &mut Patience<'_>) -> Result<bool, Failure> {
    let looking = looking(context);
    while is_yet_to_listen(context)? && !patience.is_over() {
        context.reread_endpoint()?;
        match context.try_join(&looking) {
            Ok(_) => return Ok(true),
            Err(error) if error.code() == Some(ErrorCode::TooManyClients) => return Ok(true),
            Err(error) if is_yet_to_answer(&error) => thread::sleep(POLL_INTERVAL),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Reports whether an error means that no daemon listens, or that one is about to end.
fn is_yet_to_answer(error: &ClientError) -> bool {
    matches!(error, ClientError::NoDaemon { .. }) || error.is_of_ending_daemon()
}

/// Reports whether another daemon holds this home and may still begin to listen at an endpoint of
/// this context. A daemon that already listens at another endpoint will not.
fn is_yet_to_listen(context: &Context) -> Result<bool, Failure> {
    let tried = context.sources.candidates();
    let elsewhere = context.sources.left.as_deref().filter(|left| !tried.contains(left));
    let is_up_at =
        |endpoint: &str| Client::join(context.with_server(Settings::guest(endpoint))).is_ok();
    Ok(context.is_locked()? && !elsewhere.is_some_and(is_up_at))
}

/// Starts the service that serves this user under a separate account, and waits until clients can
/// connect. A daemon of this user's account would not have the messages that wait in the service.
fn start_service(context: &Context, service: &Service) -> Result<(), Failure> {
    service::start().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let file = context.home.join(home::service::FILE);
            let why = format!("there is no service, although {} names one", file.display());
            Failure::failed(why)
                .hint("`agent-relay doctor --mend` removes it, or install the service again")
        }
        _ => Failure::failed(format!("the service was not started: {error}")),
    })?;
    let looking = looking(context);
    let log = service.home.join(log::FILE);
    let mut patience = Patience::new(&log);
    loop {
        match context.try_join(&looking) {
            Ok(_) => return Ok(()),
            Err(error) if is_yet_to_answer(&error) && !patience.is_over() => {}
            Err(ClientError::NoDaemon { .. }) => {
                let waited = time_limit(START_MS);
                let late = format!("the service cannot be reached {waited} after its start");
                return Err(Failure::new(TIMED_OUT, late).hint(format!("see {}", log.display())));
            }
            Err(error) => return Err(error.into()),
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Makes the home directory, readable by its owner only.
pub(super) fn make_home(home: &Path) -> Result<(), Failure> {
    paths::make_private_dir(home).map_err(|error| match error.kind() {
        // The texts of these errors already name a remedy.
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory if home.exists() => {
            Failure::because(error)
        }
        _ => Failure::because(error).hint("choose another home with --home"),
    })
}

/// Asks a daemon for its process id.
fn pid(client: &Client) -> Option<u32> {
    daemon_process(client).ok()?.map(|about| about.pid)
}

/// The arguments that make a program start a daemon. `mode` is one of the hidden options of `up`:
/// `--detached`, `--service` or `--supervised`.
pub(super) fn arguments(context: &Context, mode: &str) -> Vec<OsString> {
    arguments_for(&context.home, context.sources.option.as_deref(), mode)
}

/// As [`arguments`], with the home and the endpoint.
pub(super) fn arguments_for(home: &Path, endpoint: Option<&str>, mode: &str) -> Vec<OsString> {
    let mut arguments =
        vec![AS_AGENT_RELAY.into(), "--home".into(), home.to_owned().into_os_string()];
    if let Some(endpoint) = endpoint {
        arguments.extend(["--endpoint".into(), endpoint.into()]);
    }
    arguments.extend(["up".into(), "--foreground".into(), mode.into()]);
    arguments
}
