//! `down`: stop the daemon.

use super::{
    context::{context, way_to_daemon},
    failure::{DONE, Failure, TIMED_OUT},
    identity::Identity,
    print::Out,
    request::{call, daemon_process, parse},
    restart,
};
use argh::{ArgsInfo, FromArgs};
use client::{
    Client, ClientError, ConnectionState, Event, Settings,
    home::{Context, HomeOptions},
};
use platform::clock;
use protocol::{calendar::time_limit, relay, text::escaped};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::{path::Path, thread, time::Duration};

/// The reason that clients receive from a daemon that another one replaces.
const UPGRADE: &str = "upgrade";

/// The longest wait until a daemon has ended.
const STOP_MS: u64 = 15_000;

/// The pause between two checks of the lock: no system reports that a lock is free.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Stop the daemon, until your next command that needs one.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand, name = "down", help_triggers("--help"), example = "agent-relay down")]
pub(super) struct Down {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    home: &'a Path,
    stopped: bool,
}

impl Down {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let context = context(options)?;
        let identity = Identity::of_process(&context)?;
        let is_person = matches!(identity, Identity::Person(_));
        let _start_lock = if is_person { restart::prevent_starts(&context.home)? } else { None };
        let stopped = stop(&context, &identity)?.is_some();
        // A stopping daemon writes the stop mark itself, unless it is an older version. The mark is
        // also missing if no daemon was up.
        if is_person {
            restart::mark_stopped(&context.home)?;
        }
        let mut out = Out::new();
        if self.json {
            out.json("down", &Report { home: &context.home, stopped })?;
        } else {
            out.line(if stopped { "the daemon is down" } else { "no daemon was up" })?;
        }
        Ok(DONE)
    }
}

/// A daemon that was stopped.
pub(super) struct Stopped {
    /// The endpoint that the daemon listened at.
    pub(super) endpoint: String,
    pub(super) version: String,
}

/// Stops the daemon as the user `identity`, and waits until it has ended. `None` if none was up.
pub(super) fn stop(context: &Context, identity: &Identity) -> Result<Option<Stopped>, Failure> {
    stop_for(context, identity, None)
}

/// Stops a daemon that another one is to replace. The daemon tells its clients this reason.
pub(super) fn stop_for_replacement(context: &Context) -> Result<Option<Stopped>, Failure> {
    // An older daemon ignores the reason.
    let reason = relay::Stop { reason: Some(UPGRADE.into()) };
    let reason = to_raw_value(&reason).expect("a reason is JSON");
    stop_for(context, &Identity::of_process(context)?, Some(&reason))
}

fn stop_for(
    context: &Context,
    identity: &Identity,
    reason: Option<&RawValue>,
) -> Result<Option<Stopped>, Failure> {
    let client = match context.try_join(&|endpoint| identity.settings(endpoint)) {
        Ok(client) => client,
        Err(ClientError::NoDaemon { endpoint, .. }) => {
            return if context.is_locked()? {
                Err(not_at_endpoint(context, &endpoint))
            } else {
                Ok(None)
            };
        }
        Err(error) => return Err(error.into()),
    };
    check_home(context, &client)?;
    let start = clock::monotonic_ms();
    let left = || (start + STOP_MS).saturating_sub(clock::monotonic_ms());
    match call(&client, relay::RequestName::Stop, reason) {
        // The daemon may end before it answers. The loop below checks that it has ended.
        Ok(_) | Err(Failure { code: TIMED_OUT, .. }) => {}
        Err(failure) => return Err(failure),
    }
    while let Ok(event) = client.events().recv_timeout(Duration::from_millis(left())) {
        if matches!(event, Event::State(ConnectionState::Backoff { .. }) | Event::Ended(_)) {
            break;
        }
    }
    let version = client.welcome().server.version.clone();
    let endpoint = client.endpoint().to_owned();
    drop(client);
    while !is_gone(context, &endpoint, start)? {
        if left() == 0 {
            let waited = time_limit(STOP_MS);
            let message = format!("the daemon at {endpoint} is still up after {waited}");
            return Err(Failure::new(TIMED_OUT, message));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(Some(Stopped { endpoint, version }))
}

/// Checks that a daemon at a default endpoint has this home.
fn check_home(context: &Context, client: &Client) -> Result<(), Failure> {
    if context.sources.requested().is_some() {
        return Ok(());
    }
    let Some(about) = daemon_process(client)? else { return Ok(()) };
    let (theirs, ours) = (Path::new(&*about.home), &context.home);
    if context.sources.service.as_ref().is_some_and(|service| service.home == theirs) {
        return Ok(());
    }
    let is_same = match (theirs.canonicalize(), ours.canonicalize()) {
        (Ok(theirs), Ok(ours)) => theirs == ours,
        _ => theirs == ours,
    };
    if is_same {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "the daemon at {} has the home {}, not {}",
        client.endpoint(),
        escaped(&about.home),
        ours.display()
    ))
    .hint("to stop it, name its endpoint with --endpoint"))
}

/// Reports whether the daemon has ended: no daemon is up, or a daemon is up that was started after
/// `start`.
fn is_gone(context: &Context, endpoint: &str, start: u64) -> Result<bool, Failure> {
    match Client::join(context.with_server(Settings::guest(endpoint))) {
        Err(ClientError::NoDaemon { .. }) => Ok(!context.is_locked()?),
        // A daemon that is about to end may refuse the connection.
        Err(_) => Ok(false),
        Ok(client) => {
            let Ok(json) = call(&client, relay::RequestName::Status, None) else {
                return Ok(false);
            };
            let age = parse::<relay::Status<'_>>(relay::RequestName::Status, &json)?.uptime_ms;
            Ok(age < clock::monotonic_ms().saturating_sub(start))
        }
    }
}

/// The failure for a daemon that runs with this home at an unknown endpoint.
fn not_at_endpoint(context: &Context, endpoint: &str) -> Failure {
    Failure::failed(format!("a daemon runs for {}, but not at {endpoint}", context.home.display()))
        .hint(way_to_daemon(context))
}
