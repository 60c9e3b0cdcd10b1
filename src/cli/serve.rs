//! The daemon in this process.

use super::{
    failure::{DONE, Failure},
    launch::{make_home, program_ends_with_starter},
    log,
};
use crate::daemon;
use client::home::{Context, HomeOptions};
use platform::{endpoint::Endpoint, lock::Lock, peer::User, process};
use protocol::text::escaped;
use std::fmt::Display;

/// Runs the daemon for a service manager: its messages go to its log.
pub(super) fn as_service(options: &HomeOptions) -> Result<i32, Failure> {
    let home = options.home()?;
    make_home(&home)?;
    let _logging = log::begin_in(&home, &User::me().map_err(Failure::because)?)?;
    let context = options.context_of_daemon().map_err(Failure::from);
    context.and_then(|context| foreground(context, false, None)).inspect_err(|failure| {
        if let Some(message) = &failure.message {
            tracing::error!("{message}");
        }
    })
}

/// Runs the daemon for this user. `start_lock` is released once clients can connect.
pub(super) fn foreground(
    context: Context,
    is_detached: bool,
    start_lock: Option<Lock>,
) -> Result<i32, Failure> {
    if let Some(service) = context.sources.service_used() {
        return Err(Failure::failed(format!(
            "the daemon is a service (at {}), which `agent-relay service start` starts: a daemon \
             next to it needs another --endpoint and --home",
            escaped(&service.endpoint)
        )));
    }
    let ends_with_starter = is_detached
        && process::ends_with_others().unwrap_or_else(|error| {
            tracing::warn!("{error}");
            false
        });
    if ends_with_starter {
        tracing::warn!("{}", program_ends_with_starter("the daemon"));
    }
    let owner = User::me().map_err(Failure::because)?;
    run(context, owner, ends_with_starter, &mut || {}, |_| drop(start_lock))
}

/// Runs the daemon of a context for its owner. `ready` is called once clients can connect, and
/// `progressed` during a long start.
pub(super) fn run(
    context: Context,
    owner: User,
    ends_with_starter: bool,
    progressed: &mut dyn FnMut(),
    ready: impl FnOnce(&Endpoint),
) -> Result<i32, Failure> {
    let failed = |error: &dyn Display| Failure::failed(escaped(&error.to_string()));
    let endpoint =
        context.sources.requested().map(|text| Endpoint::parse(text.as_ref())).transpose();
    let settings = daemon::Settings {
        owner,
        endpoint: endpoint.map_err(|error| failed(&error))?,
        limits: daemon::limits(&context.config),
        history_days: context.config.history_days,
        store_bytes_max: context.config.store_max_bytes,
        home: context.home,
        ends_with_starter,
    };
    daemon::run(settings, progressed, ready).map_err(|error| failed(&error))?;
    Ok(DONE)
}
