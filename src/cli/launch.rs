//! Starts of a daemon in a process of its own.

use super::{
    context::Context,
    failure::{Failure, TIMED_OUT},
    installed, log,
    program::{AS_AGENT_RELAY, own_program},
    request::daemon_process,
};
use crate::{
    client::{Client, ClientError, Settings},
    config::{self, service::Service},
};
use platform::{clock, paths, process, service};
use std::{ffi::OsString, io, path::Path, thread, time::Duration};

/// The longest wait from the start of a daemon until clients can connect.
const START_MS: u64 = 15_000;

/// The pause between two attempts to connect: no system reports that a socket has appeared.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Starts a detached daemon, or the service, and waits until clients can connect. Returns false if
/// another process was faster.
///
/// Once `is_over` returns true the wait ends, and the daemon keeps running.
pub(super) fn start(context: &mut Context, is_over: &dyn Fn() -> bool) -> Result<bool, Failure> {
    if let Some(service) = context.sources.service_used() {
        return start_service(context, service).map(|()| true);
    }
    // Another daemon would prevent the service from starting, and nothing would restart it.
    if installed::start_if_installed(context)? {
        return Ok(true);
    }
    make_home(&context.home)?;
    let log = context.home.join(log::FILE);
    let log_end = log::make_room(&log)
        .map_err(|error| Failure::failed(format!("make room in {}: {error}", log.display())))?;
    let mut daemon =
        process::spawn_detached(&own_program()?, &arguments(context, "--detached"), &log)
            .map_err(Failure::because)?;
    let deadline = clock::monotonic_ms() + START_MS;
    let mut is_another_up = false;
    loop {
        context.reread_endpoint()?;
        match context.try_join(&|endpoint| Settings::guest(endpoint)) {
            Ok(client) if pid(&client) == Some(daemon.pid()) => return Ok(true),
            // Another daemon was faster. The daemon started here ends once it notices that, unless
            // the other one has ended by then.
            Ok(_) => is_another_up = true,
            Err(ClientError::NoDaemon { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let has_ended = daemon.exited().map_err(Failure::because)?.is_some();
        if has_ended && is_another_up {
            return Ok(false);
        }
        if has_ended && !is_yet_to_listen(context)? {
            let why =
                log::last_line(&log, log_end).unwrap_or_else(|| "it logged nothing".to_owned());
            return Err(Failure::failed(format!("the daemon did not start: {why}")));
        }
        if is_over() {
            return Ok(true);
        }
        if clock::monotonic_ms() > deadline {
            return Err(Failure::new(
                TIMED_OUT,
                format!(
                    "the daemon cannot be reached {START_MS} ms after its start: its log is {}",
                    log.display()
                ),
            ));
        }
        thread::sleep(POLL_INTERVAL);
    }
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

/// Starts the service that serves this user from an account of its own, and waits until clients can
/// connect. A daemon of this user's account would not have the messages that wait in the service.
fn start_service(context: &Context, service: &Service) -> Result<(), Failure> {
    service::start().map_err(|error| {
        Failure::failed(match error.kind() {
            io::ErrorKind::NotFound => format!(
                "there is no service, although {} names one: remove that file, or install the \
                 service again",
                context.home.join(config::service::FILE).display()
            ),
            _ => format!("the service was not started: {error}"),
        })
    })?;
    let deadline = clock::monotonic_ms() + START_MS;
    loop {
        match context.try_join(&|endpoint| Settings::guest(endpoint)) {
            Ok(_) => return Ok(()),
            Err(ClientError::NoDaemon { .. }) if clock::monotonic_ms() <= deadline => {}
            Err(ClientError::NoDaemon { .. }) => {
                let log = service.home.join(log::FILE);
                let message =
                    format!("the service cannot be reached {START_MS} ms after its start");
                return Err(Failure::new(TIMED_OUT, format!("{message}: see {}", log.display())));
            }
            Err(error) => return Err(error.into()),
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Makes the home directory, readable by its owner only.
pub(super) fn make_home(home: &Path) -> Result<(), Failure> {
    paths::make_private_dir(home).map_err(|error| {
        let advice = match error.kind() {
            // The texts of these errors already name a remedy.
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory if home.exists() => "",
            _ => ": choose another home with --home",
        };
        Failure::failed(format!("{error}{advice}"))
    })
}

/// Asks a daemon for its process id.
fn pid(client: &Client) -> Option<u32> {
    daemon_process(client).ok()?.map(|about| about.pid)
}

/// The arguments with which a program starts a daemon. `mode` is one of the hidden options of `up`:
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
