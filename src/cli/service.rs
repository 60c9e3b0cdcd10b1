//! `service`: have the system start the daemon and watch over it.

mod hosted;
mod supervise;

pub(super) use hosted::Hosted;
pub(super) use supervise::supervise;

use super::{
    DONE, FAILED, Failure, TIMED_OUT, argv,
    ask::{ask, read},
    down,
    identity::{Identity, agent_around},
    launch::{self, own_program},
    place::{Asked, Place},
    print::{Out, duration, foreign_line, say},
    restart,
};
use crate::{
    client::{ClientError, Settings},
    config::{is_absent, service as directions},
    daemon::STORE_FILE,
    protocol::relay,
};
use argh::{ArgsInfo, FromArgs};
use platform::{
    clock, paths,
    peer::User,
    service::{self, Installed, Kind, Program, Site, State},
};
use serde::Serialize;
use std::{fs, path::Path, slice, thread, time::Duration};

/// How long the system may take until clients can connect, or until nobody can.
const WAIT_MS: u64 = 20_000;

/// Between two looks: nothing tells a stranger when a socket appears.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Have the system start the daemon and start it again if it fails: a systemd user unit on Linux, a launchd
/// agent on macOS, a service or a scheduled task on Windows.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "service",
    help_triggers("--help"),
    example = "agent-relay service install",
    example = "agent-relay service status",
    example = "agent-relay service uninstall"
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

/// Install the service, for this user, and start it. A daemon that runs makes room for it.
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
    /// on Windows: a task at this user's logon, in place of a service
    #[argh(switch)]
    logon: bool,

    /// on Windows: the user whom the service is for, if not who installs it
    #[argh(option, arg_name = "name", from_str_fn(argv::text))]
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

/// Start the service. A daemon that runs beside it makes room for it.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand, name = "start", help_triggers("--help"), example = "agent-relay service start")]
struct Start {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// Stop the service, until the next logon or until a command of yours wants a daemon.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand, name = "stop", help_triggers("--help"), example = "agent-relay service stop")]
struct Stop {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// Say what is installed, what it runs, and since when. Fails unless it runs.
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

/// How the service stands.
#[derive(Debug, Default, Serialize)]
struct Report {
    installed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    home: Option<String>,
    /// Whom a service serves that has an account of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    enabled: bool,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Since when clients can connect; milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    /// The directory in which its owner could put something else in its program's place.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaceable_in: Option<String>,
}

impl Service {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        match self.action {
            Action::Install(it) => it.run(asked),
            Action::Uninstall(it) => it.run(asked),
            Action::Start(it) => it.run(asked),
            Action::Stop(it) => it.run(asked),
            Action::Status(it) => it.run(asked),
        }
    }
}

impl Install {
    fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let site = if self.logon {
            if self.user.is_some() {
                return Err(Failure::usage(
                    "a task is for this user: leave --user out, or --logon",
                ));
            }
            service::check_logon().map(|()| None)
        } else {
            service::site(self.user.as_deref())
        };
        match site.map_err(Failure::because)? {
            Some(site) => self.at(&site, asked),
            None => self.as_me(asked),
        }
    }

    /// For its owner, under an account of its own.
    fn at(&self, site: &Site, asked: &Asked) -> Result<i32, Failure> {
        if asked.home.is_some() || asked.endpoint.is_some() {
            return Err(Failure::usage(
                "a service has its own home and endpoint: leave --home and --endpoint out, or install a \
                 task with --logon",
            ));
        }
        // Who never logged on has no place for what leads to the service, and one that is closed is known better
        // before it is there.
        let owners = paths::home_of(&site.owner).map_err(Failure::because)?;
        let program = hosted::program(site)?;
        service::check_install(&program, Some(site)).map_err(Failure::because)?;
        let _start_lock = if User::me().is_ok_and(|me| me == site.owner) {
            let mut place = Asked { home: own_home()?, endpoint: None }.place()?;
            // What this terminal leads to otherwise is none of the service's business.
            place.sources.environment = None;
            let start_lock = restart::hold_off(&place.home)?;
            make_room(&place)?;
            start_lock
        } else {
            None
        };
        paths::make_private_dir_of(&owners, &site.owner).map_err(Failure::because)?;
        let heard = log_length(&site.home);
        service::install(&program, Some(site)).map_err(Failure::because)?;
        tell_owner(site)?;
        tell_of_store(site)?;
        let mut place = place_of(asked, &installed()?)?;
        let installed = wait_until_up(&mut place, heard)?;
        show(&place, &installed, self.json)?;
        Ok(DONE)
    }

    /// As this user.
    fn as_me(&self, asked: &Asked) -> Result<i32, Failure> {
        let mut place = asked.place_of_daemon()?;
        // What this terminal says of it, the system would not know.
        place.sources.option = place.sources.option.or_else(|| place.sources.environment.take());
        // The Task Scheduler takes every end of a program for a good one.
        let by = if self.logon { "--supervised" } else { "--service" };
        let arguments = launch::arguments(&place, by);
        let program = Program { file: own_program()?, arguments };
        service::check_install(&program, None).map_err(Failure::because)?;
        launch::make_home(&place.home)?;
        let _start_lock = restart::hold_off(&place.home)?;
        make_room(&place)?;
        let heard = log_length(&place.home);
        service::install(&program, None).map_err(|error| match service::installed() {
            // What fails at once may fail before the system has said that it starts.
            Ok(Some(installed)) => stays(failed(&place, &installed, &error.to_string(), heard)),
            _ => Failure::because(error),
        })?;
        let installed = wait_until_up(&mut place, heard).map_err(stays)?;
        show(&place, &installed, self.json)?;
        if let (false, Some(command)) = (self.json, service::without_logon()) {
            say(format_args!(
                "it runs while you are logged in; `{command}` has it run from the system's start on"
            ));
        }
        Ok(DONE)
    }
}

impl Uninstall {
    fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let installed = service::installed().map_err(Failure::because)?;
        let mut removed = service::uninstall().map_err(Failure::because)?;
        if let Some(task) = installed.as_ref().filter(|it| it.state == State::Unsaid) {
            // The task is gone all the same: what runs is not started again.
            if let Err(failure) = place_of(asked, task).and_then(|place| stop_unsaid(&place)) {
                let why = failure.words.unwrap_or_default();
                say(format_args!("the service is removed, but its daemon is not stopped: {why}"));
            }
        }
        let site = service::site(None).map_err(Failure::because)?;
        // What is no such file says nothing, and goes as well.
        let told = match &site {
            Some(_) => directions::Service::load(&paths::home().map_err(Failure::because)?).ok(),
            None => None,
        };
        for owner in owners(installed.as_ref(), site) {
            removed |= untell(&owner)?;
        }
        let home = installed.and_then(|it| it.after("--home").map(str::to_owned));
        let home = home.or_else(|| told.flatten().map(|told| told.home.display().to_string()));
        let home = home.map_or_else(|| asked.home().map(|home| home.display().to_string()), Ok)?;
        let mut out = Out::new();
        if self.json {
            #[derive(Serialize)]
            struct Removed<'a> {
                removed: bool,
                home: &'a str,
            }
            out.json("service-uninstall", &Removed { removed, home: &home })?;
        } else if removed {
            out.line(format_args!("the service is removed; {home} is left, with what it kept"))?;
        } else {
            out.line("no service was installed")?;
        }
        Ok(DONE)
    }
}

impl Start {
    fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let installed = installed()?;
        let mut place = place_of(asked, &installed)?;
        if agent_around().is_some() {
            restart::check_not_stopped(&place.home)?;
        }
        let _start_lock = restart::hold_off(&place.home)?;
        // Where the system doesn't say what it runs, what runs is taken for it; a second one would find no room.
        let is_unsaid = installed.state == State::Unsaid;
        if !is_unsaid && is_mine(&installed) {
            make_room(&place)?;
        }
        let is_up = is_unsaid && who_is_up(&place)?.is_some();
        let installed = if is_up { installed } else { start(&mut place, &installed)? };
        restart::allow(&place.home)?;
        show(&place, &installed, self.json)?;
        Ok(DONE)
    }
}

impl Stop {
    fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let before = installed()?;
        let mut place = place_of(asked, &before)?;
        let _start_lock = restart::hold_off(&place.home)?;
        match before.state {
            State::Unsaid => stop_unsaid(&place)?,
            _ => service::stop().map_err(Failure::because)?,
        }
        let after = wait_until_down(&mut place)?;
        restart::mark_stopped(&place.home)?;
        show(&place, &after, self.json)?;
        Ok(DONE)
    }
}

impl Status {
    fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let Some(installed) = service::installed().map_err(Failure::because)? else {
            if self.json {
                Out::new().json("service", &Report::default())?;
                return Ok(FAILED);
            }
            return Err(no_service());
        };
        let place = place_of(asked, &installed)?;
        let is_up = show(&place, &installed, self.json)?;
        Ok(if is_up { DONE } else { FAILED })
    }
}

/// The service whose daemon is this place's, if the system says how that stands. Whom it doesn't answer, it would
/// start nothing for, either.
pub(super) fn of(place: &Place) -> Option<Installed> {
    let installed = service::watched().ok().flatten()?;
    let is_its_home =
        place.home.to_str().is_some_and(|home| installed.after("--home") == Some(home));
    let asked = place.sources.option.as_deref().or(place.sources.environment.as_deref());
    let defaults =
        place.sources.config.as_ref().map_or(&place.sources.defaults[..], slice::from_ref);
    let is_its_endpoint = asked.is_none_or(|asked| match installed.after("--endpoint") {
        Some(own) => own == asked,
        // It listens where a daemon of this home does that is told nothing.
        None => defaults.iter().any(|default| default == asked),
    });
    (is_its_home && is_its_endpoint).then_some(installed)
}

/// Refused where to start it again would not start this program.
pub(super) fn check_program(installed: &Installed) -> Result<(), Failure> {
    let Some(program) = &installed.program else { return Ok(()) };
    let own = own_program()?;
    let real = |file: &Path| fs::canonicalize(file).ok();
    if real(&program.file).is_none_or(|file| real(&own) == Some(file)) {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "the daemon is the service's, which runs {}: `agent-relay service install` has it run {}",
        program.file.display(),
        own.display()
    )))
}

/// Starts the service whose daemon is this place's, and returns once that can be reached; false where none is.
pub(super) fn start_of(place: &mut Place) -> Result<bool, Failure> {
    let Some(installed) = of(place) else { return Ok(false) };
    start(place, &installed).map(|_| true)
}

/// Starts it, and waits until clients can connect.
fn start(place: &mut Place, installed: &Installed) -> Result<Installed, Failure> {
    let heard = log_length(Path::new(&home(place, installed)));
    service::start().map_err(|error| failed(place, installed, &error.to_string(), heard))?;
    wait_until_up(place, heard)
}

/// Writes down for the owner where his service is.
fn tell_owner(site: &Site) -> Result<(), Failure> {
    let home = paths::home_of(&site.owner).map_err(Failure::because)?;
    let text = directions::Service {
        endpoint: site.endpoint.as_text().to_owned(),
        home: site.home.clone(),
        account: site.account.to_string(),
    }
    .to_text();
    let file = home.join(directions::FILE);
    paths::write_private_file_for(&file, text.as_bytes(), &site.owner).map_err(Failure::because)
}

/// A daemon before may have kept something, which the service's doesn't have.
fn tell_of_store(site: &Site) -> Result<(), Failure> {
    let kept = paths::home_of(&site.owner).map_err(Failure::because)?.join(STORE_FILE);
    if kept.exists() {
        say(format_args!(
            "{} stays: what a daemon kept in it before is not the service's (docs/WINDOWS.md says how it \
             becomes that)",
            kept.display()
        ));
    }
    Ok(())
}

/// Who may have been told of a service that is gone: its owner; and, since perhaps it was removed before but not
/// what leads to it, this user and all who have a service's home.
fn owners(removed: Option<&Installed>, site: Option<Site>) -> Vec<User> {
    let mut owners: Vec<_> = removed.and_then(Installed::owner).into_iter().collect();
    let Some(site) = site else { return owners };
    let is_task = removed.is_some_and(|it| it.kind == Kind::Task);
    // Beside a task there may be somebody else's service. Who can't look there is no administrator.
    let homes = site.home.parent().filter(|_| !is_task).and_then(|homes| fs::read_dir(homes).ok());
    let names = homes.into_iter().flatten().flatten().map(|home| home.file_name());
    owners.extend(names.filter_map(|name| User::parse(name.to_str()?).ok()));
    owners.push(site.owner);
    owners
}

/// Stops what runs where the system doesn't say whose it is.
fn stop_unsaid(place: &Place) -> Result<(), Failure> {
    down::stop(place, &Identity::of_process(place)?).map(drop)
}

/// Removes what leads a user to his service; false where there was nothing.
fn untell(owner: &User) -> Result<bool, Failure> {
    let home = match paths::home_of(owner) {
        // He is gone himself.
        Err(error) if is_absent(&error) => return Ok(false),
        home => home.map_err(Failure::because)?,
    };
    let file = home.join(directions::FILE);
    match fs::remove_file(&file) {
        Ok(()) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(Failure::failed(format!(
            "the service is removed, but {} is left, which leads to it ({error}): remove that, too",
            file.display()
        ))),
    }
}

fn installed() -> Result<Installed, Failure> {
    service::installed().map_err(Failure::because)?.ok_or_else(no_service)
}

fn no_service() -> Failure {
    Failure::failed("no service is installed: `agent-relay service install` does that")
}

/// Where the service's daemon is: what its own definition says comes first. The home of one that has an account
/// of its own is closed to its owner, who has service.toml in his.
fn place_of(asked: &Asked, installed: &Installed) -> Result<Place, Failure> {
    let word = |option: &str| installed.after(option).map(str::to_owned);
    let home = if installed.kind == Kind::Service { own_home()? } else { word("--home") };
    let asked = Asked {
        home: home.or_else(|| asked.home.clone()),
        endpoint: word("--endpoint").or_else(|| asked.endpoint.clone()),
    };
    asked.place()
}

/// Where service.toml of this user's is, whatever this terminal has for a home.
fn own_home() -> Result<Option<String>, Failure> {
    let home = paths::home().map_err(Failure::because)?;
    Ok(Some(home.display().to_string()))
}

/// Whether this user may ask its daemon how it is.
fn is_mine(installed: &Installed) -> bool {
    installed.owner().is_none_or(|owner| User::me().is_ok_and(|me| me == owner))
}

/// How it is, by the system's word or by its own.
fn state(place: &Place, installed: &Installed) -> Result<State, Failure> {
    if installed.state != State::Unsaid {
        return Ok(installed.state.clone());
    }
    Ok(match who_is_up(place)? {
        Some((pid, _)) => State::Running(pid),
        None if place.is_locked()? => State::Changing,
        None => State::Stopped,
    })
}

/// Ends a daemon of this home's that the system does not look after.
fn make_room(place: &Place) -> Result<(), Failure> {
    let ours = service::installed().map_err(Failure::because)?.map(|installed| installed.state);
    let Some((pid, _)) = who_is_up(place)? else { return Ok(()) };
    if ours != Some(State::Running(pid)) && down::make_room(place)?.is_some() {
        say(format_args!(
            "the daemon that ran as process {pid} makes room; its clients come back by themselves"
        ));
    }
    Ok(())
}

/// The process of the daemon that can be reached, and since when it can.
fn who_is_up(place: &Place) -> Result<Option<(u32, u64)>, Failure> {
    let client = match place.try_join(&|endpoint| Settings::guest(endpoint)) {
        Ok(client) => client,
        Err(ClientError::NoDaemon { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let json = ask(&client, "status", None)?;
    let status: relay::Status<'_> = read("status", &json)?;
    let since = clock::unix_ms().saturating_sub(status.uptime_ms);
    let process = status.daemon.map(|json| read::<relay::Process<'_>>("status", json.get()));
    Ok(process.transpose()?.map(|process| (process.pid, since)))
}

/// Waits until clients can connect to what the system has started. Of its log counts what it says from then on.
fn wait_until_up(place: &mut Place, heard: u64) -> Result<Installed, Failure> {
    let late = format!("the daemon can't be reached {WAIT_MS} ms after the service's start");
    wait_until(place, &late, |place, now| {
        place.look_again()?;
        match state(place, now)? {
            State::Failed(why) => Err(failed(place, now, &why, heard)),
            // It says so itself only when clients can connect.
            State::Running(_) if !is_mine(now) => Ok(true),
            State::Running(pid) => Ok(who_is_up(place)?.is_some_and(|(up, _)| up == pid)),
            _ => Ok(false),
        }
    })
}

fn wait_until_down(place: &mut Place) -> Result<Installed, Failure> {
    let late = format!("the service is still there {WAIT_MS} ms later");
    wait_until(place, &late, |place, now| {
        Ok(!matches!(state(place, now)?, State::Running(_) | State::Changing))
    })
}

/// Waits until what the system has installed is so, and says how it is then.
fn wait_until(
    place: &mut Place,
    late: &str,
    is_so: impl Fn(&mut Place, &Installed) -> Result<bool, Failure>,
) -> Result<Installed, Failure> {
    let deadline = clock::monotonic_ms() + WAIT_MS;
    loop {
        let now = installed()?;
        if is_so(place, &now)? {
            return Ok(now);
        }
        if clock::monotonic_ms() > deadline {
            let log = log(place, &now);
            return Err(Failure::new(TIMED_OUT, format!("{late}: its log is {log}")));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// The home of its daemon.
fn home(place: &Place, installed: &Installed) -> String {
    let home = installed.after("--home").map(str::to_owned);
    home.unwrap_or_else(|| place.home.display().to_string())
}

fn log(place: &Place, installed: &Installed) -> String {
    Path::new(&home(place, installed)).join(super::log::FILE).display().to_string()
}

/// How long the log in this home is: what stands in it is of daemons before. One that can't be seen tells nothing.
fn log_length(home: &Path) -> u64 {
    fs::metadata(home.join(super::log::FILE)).map_or(0, |log| log.len())
}

fn failed(place: &Place, installed: &Installed, why: &str, heard: u64) -> Failure {
    let log = log(place, installed);
    // Where only administrators read it, the event log says it, too.
    let said = launch::last_line(Path::new(&log), heard);
    let said = said.map(|said| format!(", its last word: {said}")).unwrap_or_default();
    Failure::failed(format!("the service failed ({why}){said}; its log is {log}"))
}

/// What failed at its installation is there all the same.
fn stays(failure: Failure) -> Failure {
    let why = failure.words.unwrap_or_default();
    let words =
        format!("{why}; it stays installed: once that is mended, `agent-relay service start`");
    Failure::new(failure.code, words)
}

/// Prints how it stands; whether it runs.
fn show(place: &Place, installed: &Installed, json: bool) -> Result<bool, Failure> {
    let state = state(place, installed)?;
    let pid = match state {
        State::Running(pid) => Some(pid),
        _ => None,
    };
    let up = if is_mine(installed) { who_is_up(place)? } else { None };
    let since = up.filter(|(up, _)| Some(*up) == pid).map(|(_, since)| since);
    let failed = match &state {
        State::Failed(why) => Some(why.clone()),
        _ => None,
    };
    let report = Report {
        installed: true,
        kind: Some(installed.kind.word()),
        definition: Some(installed.definition.display().to_string()),
        program: installed.program.as_ref().map(|program| program.file.display().to_string()),
        home: Some(home(place, installed)),
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
        say(format_args!(
            "{} can be changed by the service's owner: whatever runs as the owner, agents among it, could \
             replace the service's program and become its account; move the executables into a directory in \
             %ProgramFiles%, and install from there",
            foreign_line(directory)
        ));
    }
    if let Some((up, _)) = up.filter(|(up, _)| Some(*up) != pid) {
        say(format_args!(
            "process {up} is a daemon that the service did not start: `agent-relay service start` \
             puts the service in its place"
        ));
    }
    Ok(pid.is_some())
}

/// Where its owner could replace the program of a service that has an account of its own.
fn replaceable_in(installed: &Installed) -> Option<String> {
    let (owner, program) = (installed.owner()?, installed.program.as_ref()?);
    // What can't be looked at is no reason to say nothing else.
    let directory = service::replaceable_by(&owner, program).ok().flatten()?;
    Some(directory.display().to_string())
}

fn lines(report: &Report, out: &mut Out, (kind, state): (Kind, &State)) -> Result<(), Failure> {
    let state = match (state, report.since) {
        (State::Running(pid), Some(since)) => {
            let time = duration(clock::unix_ms().saturating_sub(since));
            format!("runs as process {pid}, up for {time}")
        }
        (State::Running(pid), None) if report.owner.is_some() => format!("runs as process {pid}"),
        (State::Running(pid), None) => format!("process {pid} starts"),
        (State::Changing, _) => "starts or stops at this moment".to_owned(),
        (State::Stopped | State::Unsaid, _) => "stopped".to_owned(),
        (State::Failed(why), _) => format!("failed: {}", foreign_line(why)),
    };
    let program = match &report.program {
        None => "not as it was installed: the definition was changed by hand".to_owned(),
        Some(program) if matches!(fs::exists(program), Ok(false)) => {
            format!("{program} (is not there: `agent-relay service install` from where it is now)")
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
            out.line(format_args!("  {name:<10} {}", foreign_line(&value)))?;
        }
    }
    Ok(())
}
