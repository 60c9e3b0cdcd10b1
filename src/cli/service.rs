//! `service`: have the system start the daemon, and restart it if it fails.

mod hosted;
mod supervise;

pub(super) use hosted::Hosted;
pub(super) use supervise::supervise;

use super::{
    context::context,
    down,
    failure::{DONE, FAILED, Failure},
    identity::Identity,
    installed::{
        failed, home, installed, is_mine, log_length, no_service, running_process, start, state,
        wait_until_down, wait_until_up,
    },
    launch,
    print::{Out, eprint_line},
    program::own_program,
    restart,
};
use crate::daemon::STORE_FILE;
use argh::{ArgsInfo, FromArgs};
use client::home::{Context, HomeOptions, agent_around, is_absent, service as service_file};
use platform::{
    clock, paths,
    peer::User,
    service::{self, Installed, Kind, Program, RunState, Site},
};
use protocol::{calendar::duration, text::escaped};
use serde::Serialize;
use std::fs;

/// Have the system start the daemon, and restart it if it fails.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "service",
    help_triggers("--help"),
    example = "agent-relay service install",
    example = "agent-relay service status",
    example = "agent-relay service uninstall",
    note = "It is a systemd user unit on Linux, a launchd agent on macOS, and a service or a scheduled task on Windows."
)]
pub(super) struct Service {
    #[argh(subcommand)]
    action: Action,
}

#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Action {
    Install(Install),
    Uninstall(Uninstall),
    Start(Start),
    Stop(Stop),
    Status(Status),
}

/// Install the service for this user, and start it. A running daemon is stopped.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "install",
    help_triggers("--help"),
    example = "agent-relay service install",
    example = "agent-relay service install --logon",
    note = "On Windows an administrator installs it (a terminal opened with `Run as administrator`); \
            --logon needs none."
)]
struct Install {
    /// on Windows: a task at this user's logon instead of a service
    #[argh(switch)]
    logon: bool,

    /// on Windows: the user that the service is for; default: this user
    #[argh(option, arg_name = "user")]
    user: Option<String>,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// Stop the service and remove it. The home directory stays.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "uninstall",
    help_triggers("--help"),
    example = "agent-relay service uninstall"
)]
struct Uninstall {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// Start the service. Another daemon that runs is stopped.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand, name = "start", help_triggers("--help"), example = "agent-relay service start")]
struct Start {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// Stop the service until the next logon, or until a command of yours needs a daemon.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand, name = "stop", help_triggers("--help"), example = "agent-relay service stop")]
struct Stop {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// Show what is installed, what it runs, and since when. Fails unless it runs.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "status",
    help_triggers("--help"),
    example = "agent-relay service status"
)]
struct Status {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// The answer of `service status`, as `--json` prints it.
#[derive(Debug, Default, Serialize)]
struct ServiceStatus {
    installed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    home: Option<String>,
    /// The user that a service with a separate account serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    enabled: bool,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// The time since which clients can connect, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    /// A directory where the owner could replace the service's program.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaceable_in: Option<String>,
}

impl Service {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        match self.action {
            Action::Install(install) => install.run(options),
            Action::Uninstall(uninstall) => uninstall.run(options),
            Action::Start(start) => start.run(options),
            Action::Stop(stop) => stop.run(options),
            Action::Status(status) => status.run(options),
        }
    }
}

impl Install {
    fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let site = if self.logon {
            if self.user.is_some() {
                return Err(
                    Failure::usage("a task is for this user").hint("leave --user out, or --logon")
                );
            }
            service::check_logon().map(|()| None)
        } else {
            service::site(self.user.as_deref())
        };
        match site.map_err(Failure::because)? {
            Some(site) => self.install_for_owner(&site, options),
            None => self.install_for_this_user(options),
        }
    }

    /// Installs a service under a separate account, for its owner.
    fn install_for_owner(&self, site: &Site, options: &HomeOptions) -> Result<i32, Failure> {
        if options.home.is_some() || options.endpoint.is_some() {
            return Err(Failure::usage("a service has its own home and endpoint")
                .hint("leave --home and --endpoint out, or install a task with --logon"));
        }
        // service.toml goes into the owner's home. If the home is unknown, the command fails before
        // it installs anything.
        let owners_home = paths::home_of(&site.owner).map_err(Failure::because)?;
        let program = hosted::program(site)?;
        service::check_install(&program, Some(site)).map_err(Failure::because)?;
        let _start_lock = if User::me().is_ok_and(|me| me == site.owner) {
            let mut context = HomeOptions { home: own_home()?, endpoint: None }.context()?;
            // The environment of this terminal does not apply to the service.
            context.sources.environment = None;
            let start_lock = restart::prevent_starts(&context.home)?;
            stop_unmanaged(&context)?;
            start_lock
        } else {
            None
        };
        paths::make_private_dir_of(&owners_home, &site.owner).map_err(Failure::because)?;
        let log_start = log_length(&site.home);
        service::install(&program, Some(site)).map_err(Failure::because)?;
        write_service_file(site)?;
        notice_old_store(site)?;
        let mut context = context_of(options, &installed()?)?;
        let installed = wait_until_up(&mut context, log_start)?;
        show(&context, &installed, self.json)?;
        Ok(DONE)
    }

    /// Installs a service or a task that runs as this user.
    fn install_for_this_user(&self, options: &HomeOptions) -> Result<i32, Failure> {
        let mut context = options.context_of_daemon()?;
        // The system starts the service without this terminal's environment, so an endpoint from
        // the environment becomes an argument.
        context.sources.option =
            context.sources.option.or_else(|| context.sources.environment.take());
        // The Task Scheduler treats every exit of a program as a success and does not restart it.
        // So a task runs a process that supervises the daemon.
        let mode = if self.logon { "--supervised" } else { "--service" };
        let arguments = launch::arguments(&context, mode);
        let program = Program { file: own_program()?, arguments };
        service::check_install(&program, None).map_err(Failure::because)?;
        launch::make_home(&context.home)?;
        let _start_lock = restart::prevent_starts(&context.home)?;
        stop_unmanaged(&context)?;
        let log_start = log_length(&context.home);
        service::install(&program, None).map_err(|error| match service::installed() {
            // A daemon that fails at once may fail before the system reports its start.
            Ok(Some(installed)) => {
                stays_installed(failed(&context, &installed, &error.to_string(), log_start))
            }
            _ => Failure::because(error),
        })?;
        let installed = wait_until_up(&mut context, log_start).map_err(stays_installed)?;
        show(&context, &installed, self.json)?;
        if let (false, Some(command)) = (self.json, service::without_logon()) {
            eprint_line(format_args!(
                "the service runs while you are logged in; after `{command}` it runs from the start \
                 of the system on"
            ));
        }
        Ok(DONE)
    }
}

impl Uninstall {
    fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let installed = service::installed().map_err(Failure::because)?;
        let mut removed = service::uninstall().map_err(Failure::because)?;
        if let Some(task) = installed.as_ref().filter(|task| task.state == RunState::Unknown) {
            // A failure is only a notice: the task is removed already, so nothing starts the daemon
            // again.
            if let Err(failure) =
                context_of(options, task).and_then(|context| stop_daemon(&context))
            {
                let why = failure.into_message();
                eprint_line(format_args!(
                    "the service is removed, but its daemon is not stopped: {why}"
                ));
            }
        }
        let site = service::site(None).map_err(Failure::because)?;
        // A service.toml that cannot be parsed is removed below as well. Only the home of its
        // service stays unknown.
        let service_file = match &site {
            Some(_) => service_file::Service::load(&paths::home().map_err(Failure::because)?).ok(),
            None => None,
        };
        for owner in owners(installed.as_ref(), site) {
            removed |= remove_service_file(&owner)?;
        }
        let home = installed.and_then(|service| service.after("--home").map(str::to_owned));
        let home =
            home.or_else(|| service_file.flatten().map(|file| file.home.display().to_string()));
        let home =
            home.map_or_else(|| options.home().map(|home| home.display().to_string()), Ok)?;
        let mut out = Out::new();
        if self.json {
            #[derive(Serialize)]
            struct Removed<'a> {
                removed: bool,
                home: &'a str,
            }
            out.json("service-uninstall", &Removed { removed, home: &home })?;
        } else if removed {
            out.line(format_args!("the service is removed; its home {home} stays"))?;
        } else {
            out.line("no service was installed")?;
        }
        Ok(DONE)
    }
}

impl Start {
    fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let installed = installed()?;
        let mut context = context_of(options, &installed)?;
        if agent_around().is_some() {
            restart::check_not_stopped(&context.home)?;
        }
        let _start_lock = restart::prevent_starts(&context.home)?;
        // If the system does not report the state, the running daemon may be the service's own, and
        // is not stopped.
        let is_unknown = installed.state == RunState::Unknown;
        if !is_unknown && is_mine(&installed) {
            stop_unmanaged(&context)?;
        }
        let is_up = is_unknown && running_process(&context)?.is_some();
        let installed = if is_up { installed } else { start(&mut context, &installed)? };
        restart::allow_starts(&context.home)?;
        show(&context, &installed, self.json)?;
        Ok(DONE)
    }
}

impl Stop {
    fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let before = installed()?;
        let mut context = context_of(options, &before)?;
        let _start_lock = restart::prevent_starts(&context.home)?;
        match before.state {
            RunState::Unknown => stop_daemon(&context)?,
            _ => service::stop().map_err(Failure::because)?,
        }
        let after = wait_until_down(&mut context)?;
        restart::mark_stopped(&context.home)?;
        show(&context, &after, self.json)?;
        Ok(DONE)
    }
}

impl Status {
    fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let Some(installed) = service::installed().map_err(Failure::because)? else {
            if self.json {
                Out::new().json("service", &ServiceStatus::default())?;
                return Ok(FAILED);
            }
            return Err(no_service());
        };
        let context = context_of(options, &installed)?;
        let is_up = show(&context, &installed, self.json)?;
        Ok(if is_up { DONE } else { FAILED })
    }
}

/// Writes service.toml into the home of the service's owner.
fn write_service_file(site: &Site) -> Result<(), Failure> {
    let home = paths::home_of(&site.owner).map_err(Failure::because)?;
    let text = service_file::Service {
        endpoint: site.endpoint.as_text().to_owned(),
        home: site.home.clone(),
        account: site.account.to_string(),
    }
    .to_text();
    let file = home.join(service_file::FILE);
    paths::write_private_file_for(&file, text.as_bytes(), &site.owner).map_err(Failure::because)
}

/// Prints a notice if the owner's home has the store of an earlier daemon: the service does not use
/// that store.
fn notice_old_store(site: &Site) -> Result<(), Failure> {
    let store = paths::home_of(&site.owner).map_err(Failure::because)?.join(STORE_FILE);
    if store.exists() {
        eprint_line(format_args!(
            "{} stays: the service does not use the messages that an earlier daemon stored in it \
             (docs/WINDOWS.md says how to move them)",
            store.display()
        ));
    }
    Ok(())
}

/// Returns the users who may have a service.toml of a removed service: its owner, this user, and
/// all who have a service's home, since an earlier removal may have failed halfway.
fn owners(removed: Option<&Installed>, site: Option<Site>) -> Vec<User> {
    let mut owners: Vec<_> = removed.and_then(Installed::owner).into_iter().collect();
    let Some(site) = site else { return owners };
    let is_task = removed.is_some_and(|service| service.kind == Kind::Task);
    // If a task was removed, the services of other users stay. Only an administrator can list the
    // homes.
    let homes = site.home.parent().filter(|_| !is_task).and_then(|homes| fs::read_dir(homes).ok());
    let names = homes.into_iter().flatten().flatten().map(|home| home.file_name());
    owners.extend(names.filter_map(|name| User::parse(name.to_str()?).ok()));
    owners.push(site.owner);
    owners
}

/// Stops the daemon directly, for a system that does not report the state of the service.
fn stop_daemon(context: &Context) -> Result<(), Failure> {
    down::stop(context, &Identity::of_process(context)?).map(drop)
}

/// Removes a user's service.toml. Returns false if there was none.
fn remove_service_file(owner: &User) -> Result<bool, Failure> {
    let home = match paths::home_of(owner) {
        // The user was removed.
        Err(error) if is_absent(&error) => return Ok(false),
        home => home.map_err(Failure::because)?,
    };
    let file = home.join(service_file::FILE);
    match fs::remove_file(&file) {
        Ok(()) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => {
            let why = format!("the service is removed, but {} is not ({error})", file.display());
            Err(Failure::failed(why).hint("remove that file, too"))
        }
    }
}

/// Returns the context of the service's daemon, with the home and the endpoint of the service's
/// definition taking precedence over `options`. For a service with a separate account, the home is
/// this user's, which has service.toml: the owner cannot read the service's home.
fn context_of(options: &HomeOptions, installed: &Installed) -> Result<Context, Failure> {
    let word = |option: &str| installed.after(option).map(str::to_owned);
    let home = if installed.kind == Kind::Service { own_home()? } else { word("--home") };
    let options = HomeOptions {
        home: home.or_else(|| options.home.clone()),
        endpoint: word("--endpoint").or_else(|| options.endpoint.clone()),
    };
    context(&options)
}

/// Returns this user's default home, which has service.toml. The environment is ignored.
fn own_home() -> Result<Option<String>, Failure> {
    let home = paths::home().map_err(Failure::because)?;
    Ok(Some(home.display().to_string()))
}

/// Stops a daemon of this home that the service manager does not run.
fn stop_unmanaged(context: &Context) -> Result<(), Failure> {
    let ours = service::installed().map_err(Failure::because)?.map(|installed| installed.state);
    let Some((pid, _)) = running_process(context)? else { return Ok(()) };
    if ours != Some(RunState::Running(pid)) && down::stop_for_replacement(context)?.is_some() {
        eprint_line(format_args!(
            "the daemon that ran as process {pid} is stopped; its clients reconnect by themselves"
        ));
    }
    Ok(())
}

/// Adds to the failure of a start that the service stays installed.
fn stays_installed(failure: Failure) -> Failure {
    let code = failure.code;
    let why = failure.into_message();
    Failure::new(code, format!("{why}; the service stays installed"))
        .hint("correct that, and run `agent-relay service start`")
}

/// Prints the state of the service. Returns whether it runs.
fn show(context: &Context, installed: &Installed, json: bool) -> Result<bool, Failure> {
    let state = state(context, installed)?;
    let pid = match state {
        RunState::Running(pid) => Some(pid),
        _ => None,
    };
    let up = if is_mine(installed) { running_process(context)? } else { None };
    let since = up.filter(|(up, _)| Some(*up) == pid).map(|(_, since)| since);
    let failed = match &state {
        RunState::Failed(why) => Some(why.clone()),
        _ => None,
    };
    let report = ServiceStatus {
        installed: true,
        kind: Some(installed.kind.word()),
        definition: Some(installed.definition.display().to_string()),
        program: installed.program.as_ref().map(|program| program.file.display().to_string()),
        home: Some(home(context, installed)),
        owner: installed.owner().map(|owner| owner.to_string()),
        enabled: installed.is_enabled,
        running: pid.is_some(),
        pid,
        since,
        failed,
        replaceable_in: replaceable_in(installed),
    };
    let mut out = Out::new();
    if json {
        out.json("service", &report)?;
    } else {
        lines(&report, &mut out, (installed.kind, &state))?;
    }
    if let Some(directory) = &report.replaceable_in {
        eprint_line(format_args!(
            "{} can be changed by the service's owner: programs of the owner, such as agents, could \
             replace the service's program and run under its account; move the executables into a \
             directory in %ProgramFiles%, and install from there",
            escaped(directory)
        ));
    }
    if let Some((up, _)) = up.filter(|(up, _)| Some(*up) != pid) {
        eprint_line(format_args!(
            "process {up} is a daemon that the service did not start: `agent-relay service start` \
             puts the service in its place"
        ));
    }
    Ok(pid.is_some())
}

/// Returns a directory where the owner could replace the program of a service with a separate
/// account.
fn replaceable_in(installed: &Installed) -> Option<String> {
    let (owner, program) = (installed.owner()?, installed.program.as_ref()?);
    // An error here is ignored, since the rest of the report is still useful.
    let directory = service::replaceable_by(&owner, program).ok().flatten()?;
    Some(directory.display().to_string())
}

fn lines(
    report: &ServiceStatus,
    out: &mut Out,
    (kind, state): (Kind, &RunState),
) -> Result<(), Failure> {
    let state = match (state, report.since) {
        (RunState::Running(pid), Some(since)) => {
            let time = duration(clock::unix_ms().saturating_sub(since));
            format!("runs as process {pid}, up for {time}")
        }
        (RunState::Running(pid), None) if report.owner.is_some() => {
            format!("runs as process {pid}")
        }
        (RunState::Running(pid), None) => format!("process {pid} starts"),
        (RunState::Changing, _) => "starts or stops".to_owned(),
        (RunState::Stopped | RunState::Unknown, _) => "stopped".to_owned(),
        (RunState::Failed(why), _) => format!("failed: {}", escaped(why)),
    };
    let program = match &report.program {
        None => "unknown: the definition was changed by hand".to_owned(),
        Some(program) if matches!(fs::exists(program), Ok(false)) => {
            format!("{program} (missing; run `agent-relay service install` from its new directory)")
        }
        Some(program) => program.clone(),
    };
    let when = match (kind, report.enabled) {
        (Kind::Service, true) => "started with the system",
        (Kind::Service, false) => "not started with the system",
        (_, true) => "started at each logon",
        (_, false) => "not started at logon",
    };
    out.line(format_args!("{kind}, {when}"))?;
    for (name, value) in [
        ("state", Some(state)),
        ("program", Some(program)),
        ("home", report.home.clone()),
        ("owner", report.owner.clone()),
        ("defined in", report.definition.clone()),
    ] {
        if let Some(value) = value {
            out.line(format_args!("  {name:<10} {}", escaped(&value)))?;
        }
    }
    Ok(())
}
