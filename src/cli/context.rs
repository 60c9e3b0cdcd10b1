//! The context of a command: which daemon it means, and the connection to it.

use super::{failure::Failure, print::eprint_line, program::VERSION};
use client::{
    Client, ClientError, Ended, Mode, Settings,
    home::{Context, HomeOptions},
};
use platform::shell::quoted;
use protocol::{code::ErrorCode, name::OPERATOR, text::escaped};

/// Returns the context of a command that joins a daemon. A broken config.toml is only reported, so
/// that agents can still reach the running daemon.
pub(super) fn context(options: &HomeOptions) -> Result<Context, Failure> {
    let context = options.context()?;
    if let Some(warning) = &context.warning {
        eprint_line(format_args!("{warning}"));
    }
    Ok(context)
}

/// The remedy if the daemon that has the home is not at the endpoint that was tried.
pub(super) fn way_to_daemon(context: &Context) -> String {
    match &context.sources.left {
        Some(left) => format!("name its endpoint: --endpoint {}", escaped(&quoted(left))),
        None => "name its endpoint with --endpoint".to_owned(),
    }
}

/// Joins as [`Context::try_join`] does, and turns the result into a command's, as [`report`] does.
pub(super) fn join(
    context: &Context,
    settings: &dyn Fn(&str) -> Settings,
) -> Result<Client, Failure> {
    report(context.try_join(settings), settings)
}

/// Converts the result of [`Context::try_join`] for a command: prints a notice about another
/// version, or returns a failure with a remedy.
pub(super) fn report(
    joined: Result<Client, ClientError>,
    settings: &dyn Fn(&str) -> Settings,
) -> Result<Client, Failure> {
    let client = joined.map_err(|error| join_failure(&settings(""), error))?;
    notice_other_home(&client, settings);
    Ok(notice_version(client))
}

/// Prints a notice if the daemon does not accept the key of this home: it has another home.
fn notice_other_home(client: &Client, settings: &dyn Fn(&str) -> Settings) {
    let endpoint = client.endpoint();
    if settings(endpoint).mode == Mode::Operator && client.name() != OPERATOR {
        let endpoint = escaped(endpoint);
        eprint_line(format_args!(
            "note: the daemon at {endpoint} has another home, and you are a guest there"
        ));
    }
}

/// Prints a notice if the daemon is of another version.
fn notice_version(client: Client) -> Client {
    let version = &client.welcome().server.version;
    if version != VERSION {
        let version = escaped(version);
        eprint_line(format_args!(
            "the daemon is version {version}, this is {VERSION}: `agent-relay up --replace` starts \
             this version"
        ));
    }
    client
}

/// Returns the failure to join, with the name that the daemon refused.
pub(super) fn join_failure(settings: &Settings, error: ClientError) -> Failure {
    match (&error, &settings.mode) {
        (ClientError::Ended(Ended::Error(fault)), Mode::Agent(name))
            if fault.has_code(ErrorCode::NameInUse) =>
        {
            Failure::failed(format!("{name} is connected already"))
                .hint(format!("`agent-relay attach {name}` shows it, or choose another name"))
        }
        (ClientError::Ended(Ended::Error(fault)), Mode::Agent(name))
            if fault.has_code(ErrorCode::Unauthorized) =>
        {
            let message = format!("policy.toml requires a key for {name}, and there is none here");
            let hint = format!("put it into keys/{name} in the home, or use --key-file FILE");
            Failure::failed(message).hint(hint)
        }
        _ => error.into(),
    }
}
