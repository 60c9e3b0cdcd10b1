//! `service`: have the system start the daemon and watch over it.

use super::{
    DONE, FAILED, Failure, TIMED_OUT,
    ask::{ask, read},
    down,
    launch::{self, own_program},
    place::{Asked, Place},
    print::{Out, duration, foreign_line, say},
};
use crate::{
    client::{ClientError, Settings},
    protocol::relay,
};
use argh::{ArgsInfo, FromArgs};
use platform::{
    clock, paths,
    service::{self, Installed, Program, State},
};
use serde::Serialize;
use std::{ffi::OsStr, path::Path, thread, time::Duration};

/// How long the system may take until clients can connect, or until nobody can.
const WAIT_MS: u64 = 20_000;

/// Between two looks: nothing tells a stranger when a socket appears.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Have the system start the daemon at each logon and start it again if it fails: a systemd user unit on
/// Linux, a launchd agent on macOS.
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
    example = "agent-relay service install"
)]
struct Install {
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

/// Stop the service until it is started again, or until the next logon.
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
    enabled: bool,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Since when clients can connect; milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
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
        let mut place = asked.place()?;
        // What this terminal says of it, the system would not know.
        place.sources.option = place.sources.option.or_else(|| place.sources.environment.take());
        let file = own_program()?;
        paths::check_unchangeable(&file).map_err(Failure::because)?;
        launch::make_home(&place.home)?;
        let program = Program { file, arguments: launch::arguments(&place, "--service") };
        make_room(&place)?;
        service::install(&program).map_err(Failure::because)?;
        let installed = wait_until_up(&mut place)?;
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
        let home = service::installed().map_err(Failure::because)?.and_then(|it| home_of(&it));
        let removed = service::uninstall().map_err(Failure::because)?;
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
        make_room(&place)?;
        service::start().map_err(Failure::because)?;
        let installed = wait_until_up(&mut place)?;
        show(&place, &installed, self.json)?;
        Ok(DONE)
    }
}

impl Stop {
    fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let before = installed()?;
        let place = place_of(asked, &before)?;
        service::stop().map_err(Failure::because)?;
        let after = wait_until_down(&place)?;
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

fn installed() -> Result<Installed, Failure> {
    service::installed().map_err(Failure::because)?.ok_or_else(no_service)
}

fn no_service() -> Failure {
    Failure::failed("no service is installed: `agent-relay service install` does that")
}

/// Where the service's daemon is: what its own definition says comes first.
fn place_of(asked: &Asked, installed: &Installed) -> Result<Place, Failure> {
    let asked = Asked {
        home: home_of(installed).or_else(|| asked.home.clone()),
        endpoint: after(installed, "--endpoint").or_else(|| asked.endpoint.clone()),
    };
    asked.place()
}

fn home_of(installed: &Installed) -> Option<String> {
    after(installed, "--home")
}

/// What comes after an option in what is installed.
fn after(installed: &Installed, option: &str) -> Option<String> {
    let mut words = installed.program.as_ref()?.arguments.iter();
    words.find(|word| *word == OsStr::new(option))?;
    words.next()?.to_str().map(str::to_owned)
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

/// Waits until clients can connect to what the system has started.
fn wait_until_up(place: &mut Place) -> Result<Installed, Failure> {
    let deadline = clock::monotonic_ms() + WAIT_MS;
    loop {
        let now = installed()?;
        place.look_again()?;
        match &now.state {
            State::Failed(why) => return Err(failed(place, why)),
            State::Running(pid) if who_is_up(place)?.is_some_and(|(up, _)| up == *pid) => {
                return Ok(now);
            }
            _ => {}
        }
        if clock::monotonic_ms() > deadline {
            let words =
                format!("the daemon can't be reached {WAIT_MS} ms after the service's start");
            return Err(Failure::new(TIMED_OUT, format!("{words}: its log is {}", log(place))));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

fn wait_until_down(place: &Place) -> Result<Installed, Failure> {
    let deadline = clock::monotonic_ms() + WAIT_MS;
    loop {
        let now = installed()?;
        if !matches!(now.state, State::Running(_)) {
            return Ok(now);
        }
        if clock::monotonic_ms() > deadline {
            let words = format!("the service is still there {WAIT_MS} ms later");
            return Err(Failure::new(TIMED_OUT, format!("{words}: its log is {}", log(place))));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

fn log(place: &Place) -> String {
    place.home.join(super::log::FILE).display().to_string()
}

fn failed(place: &Place, why: &str) -> Failure {
    let said = launch::last_line(Path::new(&log(place)), 0);
    let said = said.map(|said| format!(", its last word: {said}")).unwrap_or_default();
    Failure::failed(format!("the service failed ({why}){said}; its log is {}", log(place)))
}

/// Prints how it stands; whether it runs.
fn show(place: &Place, installed: &Installed, json: bool) -> Result<bool, Failure> {
    let pid = match installed.state {
        State::Running(pid) => Some(pid),
        _ => None,
    };
    let up = who_is_up(place)?;
    let since = up.filter(|(up, _)| Some(*up) == pid).map(|(_, since)| since);
    let failed = match &installed.state {
        State::Failed(why) => Some(why.clone()),
        _ => None,
    };
    let report = Report {
        installed: true,
        kind: Some(installed.kind.word()),
        definition: Some(installed.definition.display().to_string()),
        program: installed.program.as_ref().map(|program| program.file.display().to_string()),
        home: Some(place.home.display().to_string()),
        enabled: installed.is_enabled,
        running: pid.is_some(),
        pid,
        since,
        failed,
    };
    let mut out = Out::new();
    if json {
        out.json("service", &report)?;
    } else {
        lines(&report, &mut out, installed)?;
    }
    if let Some((up, _)) = up.filter(|(up, _)| Some(*up) != pid) {
        say(format_args!(
            "process {up} is a daemon that the service did not start: `agent-relay service start` \
             puts the service in its place"
        ));
    }
    Ok(pid.is_some())
}

fn lines(report: &Report, out: &mut Out, installed: &Installed) -> Result<(), Failure> {
    let state = match (&installed.state, report.since) {
        (State::Running(pid), Some(since)) => {
            let time = duration(clock::unix_ms().saturating_sub(since));
            format!("runs as process {pid}, up for {time}")
        }
        (State::Running(pid), None) => format!("process {pid} starts"),
        (State::Stopped, _) => "stopped".to_owned(),
        (State::Failed(why), _) => format!("failed: {}", foreign_line(why)),
    };
    let unknown = || "not as it was installed: the definition was changed by hand".to_owned();
    out.line(format_args!(
        "{}{}",
        installed.kind,
        if report.enabled { ", started at each logon" } else { ", not started at logon" }
    ))?;
    for (name, value) in [
        ("state", Some(state)),
        ("program", Some(report.program.clone().unwrap_or_else(unknown))),
        ("home", report.home.clone()),
        ("defined in", report.definition.clone()),
    ] {
        out.line(format_args!("  {name:<10} {}", foreign_line(&value.unwrap_or_default())))?;
    }
    Ok(())
}
