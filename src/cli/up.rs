//! `up`: start the daemon.

use super::{
    context::report,
    down::{self, Stopped},
    failure::{DONE, Failure},
    identity::looking,
    installed,
    join::start_by_command,
    log,
    print::{Out, eprint_line},
    program::VERSION,
    request::daemon_process,
    restart, serve,
    service::supervise,
};
use argh::{ArgsInfo, FromArgs};
use client::{
    Client, ClientError,
    home::{Context, HomeOptions, agent_around},
};
use platform::lock::Lock;
use protocol::{code::ErrorCode, text::escaped};
use serde::Serialize;

/// Start the daemon, unless it is up.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "up",
    help_triggers("--help"),
    example = "agent-relay up",
    example = "agent-relay up --foreground",
    note = "Returns once clients can connect."
)]
pub(super) struct Up {
    /// run in this terminal until Ctrl-C
    #[argh(switch)]
    foreground: bool,

    /// write the log to the home directory, as a detached daemon does
    #[argh(switch, hidden_help)]
    detached: bool,

    /// as --detached, started by a service manager: the home may be missing, and nobody reads
    /// standard error
    #[argh(switch, hidden_help)]
    service: bool,

    /// as --service, by a manager that does not see how it ends: this process restarts it
    #[argh(switch, hidden_help)]
    supervised: bool,

    /// stop the running daemon, and start this version; clients reconnect by themselves
    #[argh(switch)]
    replace: bool,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    /// The version of the daemon that was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<&'a str>,
    /// If the daemon has no room for this command, its endpoint, home and version are unknown.
    endpoint: Option<&'a str>,
    home: Option<&'a str>,
    version: Option<&'a str>,
    started: bool,
}

impl Up {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if self.service {
            return serve::as_service(options);
        }
        if self.supervised {
            return supervise(options);
        }
        if self.detached {
            let logging = log::begin(Some(&options.home()?.join(log::FILE)))?;
            return logging.conclude(self.start(options));
        }
        self.start(options)
    }

    fn start(&self, options: &HomeOptions) -> Result<i32, Failure> {
        let mut context = options.context_of_daemon()?;
        let restarts = self.replace && !self.foreground;
        let service = if restarts { installed::of(&context) } else { None };
        service.as_ref().map_or(Ok(()), installed::check_program)?;
        let start_lock = self.start_lock(&context)?;
        let old = if self.replace { down::stop_for_replacement(&context)? } else { None };
        // Clients reconnect to the old daemon's endpoint, so the new daemon listens there. A
        // service listens at the endpoint of its definition.
        if let (Some(old), None) = (&old, &service) {
            context.sources.option = Some(old.endpoint.clone());
        }
        if self.foreground {
            if let Some(old) = &old {
                eprint_line(format_args!("version {} was stopped", escaped(&old.version)));
            }
            if self.detached {
                return serve::foreground(context, true, start_lock);
            }
            let logging = log::begin(None)?;
            return logging.conclude(serve::foreground(context, false, start_lock));
        }
        let looking = looking(&context);
        let started = match context.try_join_lasting(&looking) {
            Ok(_) => Ok(false),
            Err(error) if is_full(&error) => Ok(false),
            Err(ClientError::NoDaemon { .. }) => start_by_command(&mut context),
            Err(error) => Err(error.into()),
        };
        let started = started.map_err(|failure| with_stopped(old.as_ref(), failure))?;
        match context.try_join(&looking) {
            Err(error) if is_full(&error) => self.report_full(&error, started, old.as_ref()),
            joined => self.report(&report(joined, &looking)?, started, old.as_ref()),
        }
    }

    /// Reports a daemon that is up but has no room for this command.
    fn report_full(
        &self,
        full: &ClientError,
        started: bool,
        old: Option<&Stopped>,
    ) -> Result<i32, Failure> {
        let replaced = old.map(|old| old.version.as_str());
        let mut out = Out::new();
        if self.json {
            let (endpoint, home, version) = (None, None, None);
            out.json("up", &Report { replaced, endpoint, home, version, started })?;
        } else {
            let full = escaped(&full.to_string());
            out.line(format_args!("{}, and full: {full}", state(started)))?;
        }
        Ok(DONE)
    }

    /// Takes the start lock for a replacement, so that no wrapper starts a daemon in between. In an
    /// agent, takes no lock, and fails if the daemon was stopped on purpose.
    fn start_lock(&self, context: &Context) -> Result<Option<Lock>, Failure> {
        if agent_around().is_none() {
            return if self.replace { restart::prevent_starts(&context.home) } else { Ok(None) };
        }
        // With `--detached`, the agent's command has checked this before it started this process.
        if self.foreground && !self.detached {
            restart::check_not_stopped(&context.home)?;
        }
        Ok(None)
    }

    fn report(
        &self,
        client: &Client,
        started: bool,
        old: Option<&Stopped>,
    ) -> Result<i32, Failure> {
        let (endpoint, version) = (client.endpoint(), client.welcome().server.version.as_str());
        if self.replace && version != VERSION {
            return Err(Failure::failed(format!(
                "another process started a daemon of version {} meanwhile",
                escaped(version)
            ))
            .hint("run `agent-relay up --replace` again"));
        }
        let home = daemon_process(client)?.map(|about| about.home);
        let replaced = old.map(|old| old.version.as_str());
        let mut out = Out::new();
        if self.json {
            out.json(
                "up",
                &Report {
                    replaced,
                    endpoint: Some(endpoint),
                    home: home.as_deref(),
                    version: Some(version),
                    started,
                },
            )?;
        } else {
            if let Some(replaced) = replaced {
                out.line(format_args!("version {} was stopped", escaped(replaced)))?;
            }
            let state = state(started);
            let home = home.map(|home| format!(", home {}", escaped(&home)));
            let (version, home) = (escaped(version), home.unwrap_or_default());
            out.line(format_args!("{state} at {endpoint} (version {version}{home})"))?;
        }
        Ok(DONE)
    }
}

const fn state(started: bool) -> &'static str {
    if started { "the daemon is up" } else { "the daemon was up already" }
}

/// Whether a daemon is up and has no room for another client.
fn is_full(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::TooManyClients)
}

/// Adds to the failure of a new daemon that the old one was stopped.
fn with_stopped(old: Option<&Stopped>, failure: Failure) -> Failure {
    let Some(old) = old else { return failure };
    let (code, version) = (failure.code, escaped(&old.version));
    let why = failure.into_message();
    Failure::new(code, format!("version {version} was stopped, and no daemon is up: {why}"))
}
