//! `doctor`: checks the requirements of the daemon and the commands, and prints remedies. It
//! changes only what `--mend` names.

use super::{
    bridges,
    context::way_to_daemon,
    failure::{DONE, FAILED, Failure},
    identity::Identity,
    print::{Colour, Out},
    program::VERSION,
    request::daemon_process,
};
use crate::{
    config,
    daemon::{self, STORE_FILE},
};
use argh::{ArgsInfo, FromArgs};
use client::{
    Client, ClientError, Settings,
    home::{
        Config, ConfigError, Context, EndpointSources, FILE as CONFIG_FILE, HomeOptions,
        service as service_file,
    },
};
use machines::{
    report::{self, Kind, Known, State},
    settings,
};
use platform::{
    clock,
    endpoint::Endpoint,
    paths, service,
    transport::Listener,
    tty::{self, Standard},
};
use protocol::{calendar::duration, code::ErrorCode, relay::Process, text::escaped};
use serde::Serialize;
use std::{
    env, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Check what the daemon and the commands need.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "doctor",
    help_triggers("--help"),
    example = "agent-relay doctor",
    example = "agent-relay doctor --json"
)]
pub(super) struct Doctor {
    /// print one JSON object a line for each check
    #[argh(switch)]
    json: bool,

    /// remove the service.toml of a service that is gone
    #[argh(switch)]
    mend: bool,
}

/// The result of a check.
#[derive(Debug, Serialize)]
struct Check {
    id: &'static str,
    state: Finding,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Finding {
    Ok,
    Warn,
    Fail,
}

impl Check {
    fn ok(id: &'static str, detail: impl Into<String>) -> Self {
        Self { id, state: Finding::Ok, detail: detail.into(), remedy: None }
    }

    fn warn(id: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { id, state: Finding::Warn, detail: detail.into(), remedy: Some(remedy.into()) }
    }

    fn fail(id: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { id, state: Finding::Fail, detail: detail.into(), remedy: Some(remedy.into()) }
    }
}

impl Doctor {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let checks = examine(options, self.mend);
        let mut out = Out::new();
        for check in &checks {
            if self.json {
                out.json("check", check)?;
            } else {
                show(&mut out, check)?;
            }
        }
        let is_well = checks.iter().all(|check| check.state != Finding::Fail);
        Ok(if is_well { DONE } else { FAILED })
    }
}

fn show(out: &mut Out, check: &Check) -> Result<(), Failure> {
    let (colour, word) = match check.state {
        Finding::Ok => (Colour::Green, "ok  "),
        Finding::Warn => (Colour::Yellow, "warn"),
        Finding::Fail => (Colour::Red, "fail"),
    };
    let state = out.paint(colour, word);
    let remedy = check.remedy.as_deref().map(|remedy| format!(" -- {}", escaped(remedy)));
    let (id, detail) = (check.id, escaped(&check.detail));
    out.line(format_args!("{state} {id:<9} {detail}{}", remedy.unwrap_or_default()))
}

fn examine(options: &HomeOptions, mends: bool) -> Vec<Check> {
    let mut checks = vec![program()];
    let home = match options.home() {
        Ok(home) => home,
        Err(failure) => {
            checks.push(Check::fail("home", failure.to_string(), "set AGENT_RELAY_HOME"));
            return checks;
        }
    };
    checks.push(directory("home", &home, "choose another with --home, or move it away"));
    checks.push(locks());
    let config = Config::load(&home);
    checks.push(configuration(&home, &config));
    checks.extend(bridge_settings(&home));
    checks.extend(service_file(&home, mends));
    let config = config.unwrap_or_default();
    let sources = options.sources(&home, &config);
    checks.push(match sources.as_ref().ok().and_then(EndpointSources::service_used) {
        Some(service) => service_policy(&service.home),
        None => policy(&home),
    });
    match sources {
        Ok(sources) => {
            checks.push(endpoint(&sources));
            let context = Context { home: home.clone(), config, warning: None, sources };
            let identity = Identity::of_process(&context);
            let joined = context.try_join(&|endpoint| match &identity {
                Ok(identity) => identity.settings(endpoint),
                Err(_) => Settings::guest(endpoint),
            });
            checks.push(daemon(&context, &joined));
            let client = joined.ok();
            checks.extend(client.as_ref().and_then(lifetime));
            checks.push(store(&context, client.as_ref()));
        }
        Err(failure) => {
            checks.push(Check::fail("endpoint", failure.to_string(), "choose another endpoint"));
        }
    }
    checks.extend(links(&home));
    checks.push(terminal_check());
    checks
}

/// Checks that a shell finds this program.
fn program() -> Check {
    let id = "program";
    let name = format!("agent-relay{}", env::consts::EXE_SUFFIX);
    let this = env::current_exe().and_then(|path| path.canonicalize());
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|dir| dir.join(&name)).find(|path| path.is_file());
    match (this, found) {
        (Err(error), _) => Check::fail(
            id,
            format!("the system does not say where this program is ({error})"),
            "start it by its path",
        ),
        (Ok(this), None) => Check::warn(
            id,
            format!("version {VERSION}, {}, which is not on the PATH", this.display()),
            "put its directory on the PATH, so that agents can call it",
        ),
        (Ok(this), Some(found)) if found.canonicalize().is_ok_and(|found| found == this) => {
            Check::ok(id, format!("version {VERSION}, {}", this.display()))
        }
        (Ok(this), Some(found)) => Check::warn(
            id,
            format!("this is {}, but the PATH leads to {}", this.display(), found.display()),
            "remove one of them",
        ),
    }
}

/// Checks that a directory is private and writable, or can be made.
fn directory(id: &'static str, path: &Path, remedy: &str) -> Check {
    let existing = path.ancestors().find(|path| path.symlink_metadata().is_ok());
    let existing = existing.unwrap_or(path);
    let (checked, note) = if existing == path {
        let is_private = paths::check_writable(path).and_then(|()| paths::check_private(path));
        (is_private, "")
    } else {
        (paths::check_writable(existing), " (made by the first start)")
    };
    match checked {
        Ok(()) => Check::ok(id, format!("{}{note}", path.display())),
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            Check::fail(id, error.to_string(), "free some disk space there")
        }
        Err(error) => Check::fail(id, error.to_string(), remedy),
    }
}

/// Checks the directory of the locks of all daemons, which is in the default home.
fn locks() -> Check {
    let id = "locks";
    match daemon::locks_directory() {
        Ok(path) => directory(
            id,
            &path,
            "correct that: every daemon of yours takes a lock in your default home",
        ),
        Err(error) => {
            Check::fail(id, error.to_string(), "correct that: every daemon takes a lock there")
        }
    }
}

fn configuration(home: &Path, config: &Result<Config, ConfigError>) -> Check {
    let path = home.join(CONFIG_FILE);
    match config {
        Ok(_) if path.exists() => Check::ok("config", path.display().to_string()),
        Ok(_) => Check::ok("config", format!("defaults (no {})", path.display())),
        Err(error) => Check::fail("config", error.to_string(), "correct that line"),
    }
}

/// Checks the settings of bridges, if there are any.
fn bridge_settings(home: &Path) -> Vec<Check> {
    let (nats, bridges) = (home.join(settings::NATS_FILE), home.join(settings::BRIDGES_FILE));
    let nats_read = settings::Nats::load(&nats).map(drop);
    let bridges_read = settings::Bridge::load_all(&bridges).map(drop);
    let files = [(nats, nats_read), (bridges, bridges_read)].into_iter();
    let files = files.filter(|(path, _)| path.exists());
    let check = |(path, read): (PathBuf, Result<(), ConfigError>)| match read {
        Ok(()) => Check::ok("config", path.display().to_string()),
        Err(error) => Check::fail("config", error.to_string(), "correct that line"),
    };
    files.map(check).collect()
}

/// Checks the bridges to other machines by their reports.
fn links(home: &Path) -> Vec<Check> {
    match report::read(home) {
        Ok(all) => all.iter().map(|known| link(home, known)).collect(),
        Err(error) => vec![Check::warn("bridge", error.to_string(), bridges::UNREADABLE)],
    }
}

fn link(home: &Path, Known { report, .. }: &Known) -> Check {
    let id = "bridge";
    let now = clock::unix_ms();
    let mut detail = format!("{}: {}", bridges::name(report), bridges::state(report, now));
    match report.state {
        State::Linked => {
            if let Some(error) = &report.error {
                let ago = duration(now.saturating_sub(error.at));
                detail.push_str(&format!("; last error {ago} ago: {}", error.text));
            }
            Check::ok(id, detail)
        }
        State::Connecting | State::Lost => Check::warn(
            id,
            detail,
            match report.kind {
                Kind::Nats => "check that a NATS server can be reached from here",
                Kind::Bridge | Kind::Stdio => {
                    "run the bridge's command by itself to see what it does"
                }
            },
        ),
        State::Ended => {
            let file = report.path(home);
            let remedy =
                format!("start it again, or delete {} if you do not need it", file.display());
            Check::fail(id, detail, remedy)
        }
    }
}

/// Checks that there is the service that service.toml names. A removal without `service uninstall`,
/// such as by the .msi, leaves the file, and commands then look for the service.
fn service_file(home: &Path, mends: bool) -> Option<Check> {
    let id = "service";
    let file = home.join(service_file::FILE);
    let is_gone = match service::installed() {
        _ if !file.exists() => return None,
        Ok(installed) => installed.is_none_or(|service| service.kind != service::Kind::Service),
        Err(error) => {
            let words = format!("the system does not say whether there is a service ({error})");
            return Some(Check::warn(id, words, "look for it as an administrator"));
        }
    };
    if !is_gone {
        return Some(Check::ok(id, file.display().to_string()));
    }
    let gone = format!("there is no service, although {} names one", file.display());
    Some(match mends.then(|| fs::remove_file(&file)) {
        None => Check::fail(id, gone, "`agent-relay doctor --mend` removes the file"),
        Some(Ok(())) => Check::ok(id, format!("{gone}: the file is removed")),
        Some(Err(error)) => Check::fail(id, format!("{gone} ({error})"), "remove the file"),
    })
}

/// The policy of a service, which only its account and administrators can read.
fn service_policy(home: &Path) -> Check {
    let path = home.join(config::policy::FILE);
    Check::ok("policy", format!("{}, which administrators write", path.display()))
}

/// Checks policy.toml, which a running daemon may not have read yet.
fn policy(home: &Path) -> Check {
    let id = "policy";
    let path = home.join(config::policy::FILE);
    match daemon::load_policy(home) {
        Ok(_) if path.exists() => Check::ok(id, path.display().to_string()),
        Ok(_) => Check::ok(id, format!("everything is allowed (no {})", path.display())),
        Err(error) => Check::fail(
            id,
            error.to_string(),
            "correct that: no daemon starts with it, and a running one keeps its old policy",
        ),
    }
}

fn endpoint(sources: &EndpointSources) -> Check {
    let id = "endpoint";
    let first = sources.candidates().first().copied().unwrap_or_default().to_owned();
    let source = match sources {
        EndpointSources { option: Some(_), .. } => "from --endpoint",
        EndpointSources { environment: Some(_), .. } => "from AGENT_RELAY_ENDPOINT",
        EndpointSources { config: Some(_), .. } => "from config.toml",
        EndpointSources { service: Some(_), .. } => "from service.toml",
        EndpointSources { left: Some(_), .. } => "of the daemon that has the home",
        EndpointSources { .. } => "the default",
    };
    const REMEDY: &str = "choose another with --endpoint";
    // The endpoint of the last daemon does not matter for the next one.
    let next = sources.requested().or_else(|| sources.defaults.first().map(String::as_str));
    let is_foreign = Endpoint::parse(first.as_ref()).and_then(|endpoint| {
        if sources.service_used().is_some() {
            // The service runs under another account, which owns the endpoint.
            return Ok(false);
        }
        let is_foreign = Listener::is_foreign(&endpoint)?;
        let next = Endpoint::parse(next.unwrap_or(&first).as_ref())?;
        if is_foreign { Ok(true) } else { Listener::check_bindable(&next).map(|()| false) }
    });
    match is_foreign {
        Ok(false) => Check::ok(id, format!("{first} ({source})")),
        Ok(true) if sources.requested().is_none() => {
            let next = "a daemon would listen at a private one";
            Check::ok(id, format!("{first} ({source}) belongs to another user: {next}"))
        }
        Ok(true) => Check::fail(id, format!("{first} ({source}) belongs to another user"), REMEDY),
        Err(error) => Check::fail(id, error.to_string(), REMEDY),
    }
}

fn daemon(context: &Context, joined: &Result<Client, ClientError>) -> Check {
    let id = "daemon";
    match joined {
        Ok(client) => {
            let version = &client.welcome().server.version;
            if version == VERSION {
                return Check::ok(id, format!("up at {}", client.endpoint()));
            }
            let detail = format!("up, but version {version}; this is {VERSION}");
            Check::warn(id, detail, "`agent-relay up --replace` starts this version")
        }
        Err(ClientError::NoDaemon { endpoint, .. }) => match context.is_locked() {
            Ok(true) => Check::fail(
                id,
                format!("a daemon runs for this home, but not at {endpoint}"),
                way_to_daemon(context),
            ),
            Ok(false) => Check::warn(
                id,
                format!("none at {endpoint}"),
                "`agent-relay up` starts one, and so do run, send and listen",
            ),
            Err(failure) => Check::fail(
                id,
                failure.to_string(),
                "make the home directory readable for yourself",
            ),
        },
        Err(error) => Check::fail(id, error.to_string(), remedy(error)),
    }
}

/// The remedy for a daemon that neither other commands nor `up --replace` can join.
fn remedy(error: &ClientError) -> &'static str {
    match error.code() {
        None => {
            "end the program that listens there, or move it away, or choose another with --endpoint"
        }
        Some(ErrorCode::ShuttingDown) => {
            "wait until it has ended: `agent-relay up` starts the next"
        }
        Some(ErrorCode::TooManyClients) => {
            "end some of its clients, or raise max_clients in config.toml and restart it"
        }
        _ => "correct what it reports; daemon.log in its home may say more",
    }
}

/// Warns if the daemon ends together with another program.
fn lifetime(client: &Client) -> Option<Check> {
    let process = daemon_process(client).ok().flatten()?;
    process.ends_with_starter.then(|| {
        Check::warn(
            "lifetime",
            "the daemon ends when the program ends in which it was started, such as an editor",
            "`agent-relay service install --logon` installs a daemon that stays",
        )
    })
}

/// Checks the store: asks the daemon if one runs, and otherwise examines the store's file.
fn store(context: &Context, client: Option<&Client>) -> Check {
    let id = "store";
    let check = match (client, context.is_locked()) {
        (Some(client), _) => match daemon_process(client) {
            Ok(Some(process)) => store_of(&process),
            Ok(None) => Check::ok(id, "the daemon is too old to report its store"),
            Err(failure) => Check::warn(
                id,
                failure.into_message(),
                "only the daemon can report the state of its store",
            ),
        },
        (None, Ok(false)) => match daemon::examine_store(&context.home) {
            Ok(()) => {
                let path = context.home.join(STORE_FILE);
                let is_new = if path.exists() { "" } else { " (made by the first start)" };
                Check::ok(id, format!("{}{is_new}", path.display()))
            }
            Err(error) => {
                Check::fail(id, error.to_string(), "copy the file before you change anything")
            }
        },
        (None, _) => {
            Check::warn(id, "it belongs to a daemon that does not answer", "see `daemon` above")
        }
    };
    if check.state != Finding::Ok {
        return check;
    }
    match set_aside(&context.home).as_slice() {
        [] => check,
        names => Check::warn(
            id,
            format!(
                "{}: damaged and set aside; messages that waited in it were not delivered",
                names.join(", ")
            ),
            format!("keep it for an analysis, or delete it; it is in {}", context.home.display()),
        ),
    }
}

fn store_of(process: &Process<'_>) -> Check {
    let id = "store";
    match (&process.store_fails, process.remarks.as_slice()) {
        (Some(why), _) => Check::fail(
            id,
            format!("it stores no messages: {why}"),
            "correct that, and it works again by itself; after a change of config.toml run \
             `agent-relay up --replace`",
        ),
        (None, []) => Check::ok(id, "works"),
        (None, remarks) => Check::warn(id, remarks.join("; "), "restart the daemon to clear this"),
    }
}

/// The names of damaged stores that were set aside.
fn set_aside(home: &Path) -> Vec<String> {
    let prefix = format!("{STORE_FILE}.damaged-");
    // An unreadable home is reported by an earlier check.
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_log = |name: &String| name.ends_with("-wal") || name.ends_with("-shm");
    let mut names: Vec<_> =
        names.filter(|name| name.starts_with(&prefix) && !is_log(name)).collect();
    names.sort_unstable();
    names
}

fn terminal_check() -> Check {
    let id = "terminal";
    let both = tty::is_terminal(Standard::Input) && tty::is_terminal(Standard::Output);
    match tty::size().filter(|_| both) {
        Some(size) if size.cols < 40 => Check::warn(
            id,
            format!("{} columns by {} rows", size.cols, size.rows),
            "make it wider: messages are read from the screen",
        ),
        Some(size) => Check::ok(id, format!("{} columns by {} rows", size.cols, size.rows)),
        None => Check::warn(
            id,
            "standard input and output are not a terminal",
            "only agents that you type into need one",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_is_judged_by_the_report_of_the_daemon() {
        let check_of = |store_fails: Option<&str>, remarks: &[&str]| {
            let check = store_of(&Process {
                pid: 1,
                endpoint: "/e".into(),
                home: "/h".into(),
                left: None,
                endpoint_fails: None,
                store_fails: store_fails.map(str::to_owned),
                ends_with_starter: false,
                remarks: remarks.iter().map(|remark| (*remark).to_owned()).collect(),
            });
            (check.state, check.detail)
        };
        assert_eq!(check_of(None, &[]), (Finding::Ok, "works".to_owned()));
        assert_eq!(check_of(None, &["a", "b"]), (Finding::Warn, "a; b".to_owned()));
        let fails = (Finding::Fail, "it stores no messages: the disk is full".to_owned());
        assert_eq!(check_of(Some("the disk is full"), &["a"]), fails);
    }
}
