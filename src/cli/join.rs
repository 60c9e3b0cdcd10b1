//! Connections of the commands to the daemon. Some commands start a daemon if none runs.

use super::{
    context::{Context, GlobalOptions, report},
    failure::Failure,
    identity::{Identity, agent_around, or_print},
    launch, restart,
};
use crate::client::{Client, ClientError, Settings};

/// Joins the running daemon, as the user of this process.
pub(super) fn join(options: &GlobalOptions) -> Result<Client, Failure> {
    let joined = options.context().and_then(|context| {
        let identity = Identity::of_process(&context)?;
        context.join(&|endpoint| identity.settings(endpoint))
    });
    joined.map_err(or_print)
}

/// Joins the running daemon as a guest.
pub(super) fn join_as_guest(context: &Context) -> Result<Client, Failure> {
    context.join(&|endpoint| Settings::guest(endpoint))
}

/// Joins the daemon, and starts one first if none runs.
pub(super) fn join_or_start(
    context: &mut Context,
    settings: &dyn Fn(&str) -> Settings,
) -> Result<Client, Failure> {
    match context.try_join(settings) {
        Err(ClientError::NoDaemon { .. }) => {
            start_by_command(context)?;
            context.join(settings)
        }
        joined => report(joined, settings),
    }
}

/// Starts a daemon for a command. A person's command always starts a daemon, an agent's command
/// only within the limits of automatic starts. Returns false if another process was faster.
pub(super) fn start_by_command(context: &mut Context) -> Result<bool, Failure> {
    if agent_around().is_some() {
        restart::start_for_agent(context)
    } else {
        start_for_person(context)
    }
}

/// Starts a daemon for a person, and allows automatic starts from then on. Returns false if another
/// process was faster.
pub(super) fn start_for_person(context: &mut Context) -> Result<bool, Failure> {
    let is_ours = launch::start(context, &|| false)?;
    restart::allow_starts(&context.home)?;
    Ok(is_ours)
}
