//! The installed service: which daemon it runs, its state, and its start.

use super::{
    failure::{Failure, TIMED_OUT},
    identity::looking,
    log,
    program::own_program,
    request::{call, parse},
};
use client::{ClientError, home::Context};
use platform::{
    clock,
    peer::User,
    service::{self, Installed, RunState},
};
use protocol::{calendar::time_limit, relay};
use std::{fs, path::Path, slice, thread, time::Duration};

/// The longest wait until clients can connect, or until they no longer can.
const WAIT_MS: u64 = service::PENDING_MAX.as_millis() as u64;

/// The pause between two checks: no system reports that a socket has appeared.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the installed service of this context's daemon, if the system reports the state of
/// services. If the system does not answer, returns `None`, since it would not start the service
/// either.
pub(super) fn of(context: &Context) -> Option<Installed> {
    let installed = service::watched().ok().flatten()?;
    let is_its_home =
        context.home.to_str().is_some_and(|home| installed.after("--home") == Some(home));
    let requested = context.sources.option.as_deref().or(context.sources.environment.as_deref());
    let defaults =
        context.sources.config.as_ref().map_or(&context.sources.defaults[..], slice::from_ref);
    let is_its_endpoint = requested.is_none_or(|requested| match installed.after("--endpoint") {
        Some(own) => own == requested,
        // A service without `--endpoint` listens at the endpoint of config.toml or a default one.
        None => defaults.iter().any(|default| default == requested),
    });
    (is_its_home && is_its_endpoint).then_some(installed)
}

/// Checks that a restart of the service would start this program and no other.
pub(super) fn check_program(installed: &Installed) -> Result<(), Failure> {
    let Some(program) = &installed.program else { return Ok(()) };
    let own = own_program()?;
    let real = |file: &Path| fs::canonicalize(file).ok();
    if real(&program.file).is_none_or(|file| real(&own) == Some(file)) {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "the service runs {}: `agent-relay service install` changes that to {}",
        program.file.display(),
        own.display()
    )))
}

/// Starts the installed service of this context's daemon, and waits until clients can connect.
/// Returns false if there is none.
pub(super) fn start_if_installed(context: &mut Context) -> Result<bool, Failure> {
    let Some(installed) = of(context) else { return Ok(false) };
    start(context, &installed).map(|_| true)
}

/// Starts an installed service, and waits until clients can connect.
pub(super) fn start(context: &mut Context, installed: &Installed) -> Result<Installed, Failure> {
    let log_start = log_length(Path::new(&home(context, installed)));
    service::start().map_err(|error| failed(context, installed, &error.to_string(), log_start))?;
    wait_until_up(context, log_start)
}

/// Returns the installed service, or fails.
pub(super) fn installed() -> Result<Installed, Failure> {
    service::installed().map_err(Failure::because)?.ok_or_else(no_service)
}

pub(super) fn no_service() -> Failure {
    Failure::failed("no service is installed").hint("run `agent-relay service install`")
}

/// Reports whether this user may ask the service's daemon for its status.
pub(super) fn is_mine(installed: &Installed) -> bool {
    installed.owner().is_none_or(|owner| User::me().is_ok_and(|me| me == owner))
}

/// Returns the state of a service, from the system or else from its daemon.
pub(super) fn state(context: &Context, installed: &Installed) -> Result<RunState, Failure> {
    if installed.state != RunState::Unknown {
        return Ok(installed.state.clone());
    }
    Ok(match running_process(context)? {
        Some((pid, _)) => RunState::Running(pid),
        None if context.is_locked()? => RunState::Changing,
        None => RunState::Stopped,
    })
}

/// Returns the process id of the daemon that clients can connect to, and its start in milliseconds
/// since 1970.
pub(super) fn running_process(context: &Context) -> Result<Option<(u32, u64)>, Failure> {
    let client = match context.try_join(&looking(context)) {
        Ok(client) => client,
        Err(ClientError::NoDaemon { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let json = call(&client, relay::RequestName::Status, None)?;
    let status: relay::Status<'_> = parse(relay::RequestName::Status, &json)?;
    let since = clock::unix_ms().saturating_sub(status.uptime_ms);
    let process = status
        .daemon
        .map(|json| parse::<relay::Process<'_>>(relay::RequestName::Status, json.get()));
    Ok(process.transpose()?.map(|process| (process.pid, since)))
}

/// Waits until clients can connect to the daemon of the service. An error shows the last line that
/// was logged after the first `log_start` bytes.
pub(super) fn wait_until_up(context: &mut Context, log_start: u64) -> Result<Installed, Failure> {
    let waited = time_limit(WAIT_MS);
    let late = format!("the daemon cannot be reached {waited} after the service's start");
    wait_until(context, &late, |context, now| {
        context.reread_endpoint()?;
        match state(context, now)? {
            RunState::Failed(why) => Err(failed(context, now, &why, log_start)),
            // This user cannot ask another user's daemon. The system reports such a daemon as
            // running only once clients can connect.
            RunState::Running(_) if !is_mine(now) => Ok(true),
            RunState::Running(pid) => {
                Ok(running_process(context)?.is_some_and(|(up, _)| up == pid))
            }
            _ => Ok(false),
        }
    })
}

pub(super) fn wait_until_down(context: &mut Context) -> Result<Installed, Failure> {
    let late = format!("the service still runs {} later", time_limit(WAIT_MS));
    wait_until(context, &late, |context, now| {
        Ok(!matches!(state(context, now)?, RunState::Running(_) | RunState::Changing))
    })
}

/// Waits until `is_reached` returns true, and returns the service's state at that time.
fn wait_until(
    context: &mut Context,
    late: &str,
    is_reached: impl Fn(&mut Context, &Installed) -> Result<bool, Failure>,
) -> Result<Installed, Failure> {
    let deadline = clock::monotonic_ms() + WAIT_MS;
    loop {
        let now = installed()?;
        if is_reached(context, &now)? {
            return Ok(now);
        }
        if clock::monotonic_ms() > deadline {
            let log = log_path(context, &now);
            return Err(Failure::new(TIMED_OUT, format!("{late}: its log is {log}")));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// The home of the service's daemon.
pub(super) fn home(context: &Context, installed: &Installed) -> String {
    let home = installed.after("--home").map(str::to_owned);
    home.unwrap_or_else(|| context.home.display().to_string())
}

fn log_path(context: &Context, installed: &Installed) -> String {
    Path::new(&home(context, installed)).join(log::FILE).display().to_string()
}

/// The length of the log in a home, which earlier daemons wrote; 0 if it cannot be read.
pub(super) fn log_length(home: &Path) -> u64 {
    fs::metadata(home.join(log::FILE)).map_or(0, |log| log.len())
}

pub(super) fn failed(
    context: &Context,
    installed: &Installed,
    why: &str,
    log_start: u64,
) -> Failure {
    let log = log_path(context, installed);
    // If only administrators may read the log, no line is shown; the event log has it as well.
    // A line of a wrapper may stand behind the service's own error.
    let line = ["ERROR", ""].into_iter();
    let line = line.filter_map(|with| log::last_line(Path::new(&log), log_start, with)).next();
    let line = line.map(|line| format!(", its last line: {line}")).unwrap_or_default();
    Failure::failed(format!("the service failed ({why}){line}; its log is {log}"))
}
