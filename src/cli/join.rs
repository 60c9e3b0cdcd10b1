//! Connections of the commands to the daemon. Some commands start a daemon if none runs.

use super::{
    context::{self, context, report},
    failure::Failure,
    identity::{Identity, looking, or_print},
    launch,
    print::eprint_line,
    restart,
};
use client::{
    Client, ClientError, Settings,
    home::{Context, HomeOptions, agent_around, operator_key},
};

/// Joins the running daemon, as the user of this process.
pub(super) fn join(options: &HomeOptions) -> Result<Client, Failure> {
    let joined = context(options).and_then(|context| {
        let identity = Identity::of_process(&context)?;
        let settings = |endpoint: &str| identity.settings(endpoint);
        match (context.try_join(&settings), options.home_variable()) {
            (Err(ClientError::NoDaemon { endpoint, .. }), Some(variable))
                if context.sources.service.is_none()
                    && !context.home.join(operator_key::FILE).exists() =>
            {
                Err(Failure::no_daemon(&endpoint).hint(format!(
                    "none has run in the home that {variable} names: start one with \
                     `agent-relay up`, or unset {variable}"
                )))
            }
            (joined, _) => report(joined, &settings),
        }
    });
    joined.map_err(or_print)
}

/// Joins the daemon, and starts one first if none runs.
pub(super) fn join_or_start(
    context: &mut Context,
    settings: &dyn Fn(&str) -> Settings,
) -> Result<Client, Failure> {
    match context.try_join_lasting(settings) {
        Err(ClientError::NoDaemon { .. }) => {
            start_by_command(context)?;
            context::join(context, settings)
        }
        joined => report(joined, settings),
    }
}

/// Returns the endpoint of the daemon, which is started if none runs.
pub(super) fn endpoint_or_start(context: &mut Context) -> Result<String, Failure> {
    let looking = looking(context);
    Ok(join_or_start(context, &looking)?.endpoint().to_owned())
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

/// Starts a daemon for a person, and allows automatic starts afterwards. Returns false if another
/// process was faster.
pub(super) fn start_for_person(context: &mut Context) -> Result<bool, Failure> {
    let started = launch::start(context, &|| false)?;
    restart::allow_starts(&context.home)?;
    if started.as_ref().is_some_and(|started| started.ends_with_starter) {
        eprint_line(format_args!("note: {}", launch::program_ends_with_starter("the daemon")));
    }
    Ok(started.is_some())
}
