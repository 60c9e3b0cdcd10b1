//! `doctor`: what may be in the way, and what to do about it. It changes nothing.

use super::{
    DONE, FAILED, Failure, VERSION,
    ask::about,
    identity::Identity,
    place::{Asked, Place},
    print::{Colour, Out, foreign_line},
};
use crate::{
    client::{Client, ClientError, Ended, Settings},
    config::{self, Config, EndpointSources},
    daemon::{self, STORE_FILE},
    protocol::{code::ErrorCode, relay::Process},
};
use argh::{ArgsInfo, FromArgs};
use platform::{
    endpoint::Endpoint,
    paths,
    terminal::{self, Standard},
    transport::Listener,
};
use serde::Serialize;
use std::{env, fs, path::Path};

/// Check what the daemon and the commands need, one line a check. Changes nothing.
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
}

/// What was found.
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
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let checks = examine(asked);
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
    let remedy = check.remedy.as_deref().map(|remedy| format!(" -- {}", foreign_line(remedy)));
    let (id, detail) = (check.id, foreign_line(&check.detail));
    out.line(format_args!("{state} {id:<9} {detail}{}", remedy.unwrap_or_default()))
}

fn examine(asked: &Asked) -> Vec<Check> {
    let mut checks = vec![program()];
    let home = match asked.home() {
        Ok(home) => home,
        Err(failure) => {
            let detail = failure.words.unwrap_or_default();
            checks.push(Check::fail("home", detail, "set AGENT_RELAY_HOME"));
            return checks;
        }
    };
    checks.push(directory("home", &home, "choose another with --home, or move it away"));
    checks.push(locks());
    let config = Config::load(&home);
    checks.push(configuration(&home, &config));
    let config = config.unwrap_or_default();
    let sources = asked.sources(&home, &config);
    checks.push(match sources.as_ref().ok().and_then(EndpointSources::service_used) {
        Some(service) => anothers_policy(&service.home),
        None => policy(&home),
    });
    match sources {
        Ok(sources) => {
            checks.push(endpoint(&sources));
            let place = Place { home, config, sources };
            let identity = Identity::of_process(&place);
            let joined = place.try_join(&|endpoint| match &identity {
                Ok(identity) => identity.settings(endpoint),
                Err(_) => Settings::guest(endpoint),
            });
            checks.push(daemon(&place, &joined));
            checks.push(store(&place, joined.ok().as_ref()));
        }
        Err(failure) => {
            let detail = failure.words.unwrap_or_default();
            checks.push(Check::fail("endpoint", detail, "choose another endpoint"));
        }
    }
    checks.push(terminal_check());
    checks
}

/// The program that a shell would find is this one.
fn program() -> Check {
    let id = "program";
    let name = format!("agent-relay{}", env::consts::EXE_SUFFIX);
    let this = env::current_exe().and_then(|path| path.canonicalize());
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|dir| dir.join(&name)).find(|path| path.is_file());
    match (this, found) {
        (Err(error), _) => Check::fail(
            id,
            format!("this program doesn't find itself ({error})"),
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

/// A directory that is this user's alone and takes files, or that a start can make.
fn directory(id: &'static str, path: &Path, remedy: &str) -> Check {
    let there = path.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(path);
    let (checked, note) = if there == path {
        let is_private = paths::check_writable(path).and_then(|()| paths::check_private(path));
        (is_private, "")
    } else {
        (paths::check_writable(there), " (made by the first start)")
    };
    match checked {
        Ok(()) => Check::ok(id, format!("{}{note}", path.display())),
        Err(error) => Check::fail(id, error.to_string(), remedy),
    }
}

/// Every daemon has a lock there, whatever its home.
fn locks() -> Check {
    let id = "locks";
    match daemon::locks_directory() {
        Ok(path) => directory(
            id,
            &path,
            "mend that: every daemon of yours takes a lock in your default home, whatever its own is",
        ),
        Err(error) => {
            Check::fail(id, error.to_string(), "mend that: every daemon has a lock there")
        }
    }
}

fn configuration(home: &Path, config: &Result<Config, config::ConfigError>) -> Check {
    let path = home.join(config::FILE);
    match config {
        Ok(_) if path.exists() => Check::ok("config", path.display().to_string()),
        Ok(_) => Check::ok("config", format!("everything as usual (no {})", path.display())),
        Err(error) => Check::fail("config", error.to_string(), "correct that line"),
    }
}

/// A service's is read by its own account and by administrators only.
fn anothers_policy(home: &Path) -> Check {
    let path = home.join(config::policy::FILE);
    Check::ok("policy", format!("{}, which is an administrator's to write", path.display()))
}

/// The file as it is, which a daemon that runs may not have read yet.
fn policy(home: &Path) -> Check {
    let id = "policy";
    let path = home.join(config::policy::FILE);
    match daemon::load_policy(home) {
        Ok(_) if path.exists() => Check::ok(id, path.display().to_string()),
        Ok(_) => Check::ok(id, format!("everything is allowed (no {})", path.display())),
        Err(error) => Check::fail(
            id,
            error.to_string(),
            "correct that: no daemon starts with it, and one that runs goes on with what it read before",
        ),
    }
}

fn endpoint(sources: &EndpointSources) -> Check {
    let id = "endpoint";
    let first = sources.candidates().first().copied().unwrap_or_default().to_owned();
    let whence = match sources {
        EndpointSources { option: Some(_), .. } => "by --endpoint",
        EndpointSources { environment: Some(_), .. } => "by AGENT_RELAY_ENDPOINT",
        EndpointSources { config: Some(_), .. } => "by config.toml",
        EndpointSources { service: Some(_), .. } => "by service.toml",
        EndpointSources { left: Some(_), .. } => "where the last daemon was",
        EndpointSources { .. } => "as usual",
    };
    const REMEDY: &str = "choose another with --endpoint";
    // Where the last daemon was is not where the next one will be.
    let next = sources.requested().or_else(|| sources.defaults.first().map(String::as_str));
    let judged = Endpoint::parse(first.as_ref()).and_then(|endpoint| {
        if sources.service_used().is_some() {
            // Whose that is, service.toml says.
            return Ok(false);
        }
        let is_foreign = endpoint.is_foreign()?;
        let next = Endpoint::parse(next.unwrap_or(&first).as_ref())?;
        if is_foreign { Ok(true) } else { Listener::check(&next).map(|()| false) }
    });
    match judged {
        Ok(false) => Check::ok(id, format!("{first} ({whence})")),
        Ok(true) => Check::fail(id, format!("{first} ({whence}) belongs to another user"), REMEDY),
        Err(error) => Check::fail(id, error.to_string(), REMEDY),
    }
}

fn daemon(place: &Place, joined: &Result<Client, ClientError>) -> Check {
    let id = "daemon";
    match joined {
        Ok(client) => {
            let version = &client.welcome().server.version;
            if version == VERSION {
                return Check::ok(id, format!("up at {}", client.endpoint()));
            }
            let detail = format!("up, but version {version}; this is {VERSION}");
            Check::warn(id, detail, "`agent-relay up --replace` brings them together")
        }
        Err(ClientError::NoDaemon { endpoint, .. }) => match place.is_locked() {
            Ok(true) => Check::fail(
                id,
                format!("one runs for this home, but not at {endpoint}"),
                "name its endpoint with --endpoint",
            ),
            Ok(false) => Check::warn(
                id,
                format!("none at {endpoint}"),
                "`agent-relay up` starts one; run, send and listen do so by themselves",
            ),
            Err(failure) => {
                let detail = failure.words.unwrap_or_default();
                Check::fail(id, detail, "make the home readable for yourself")
            }
        },
        Err(error) => Check::fail(id, error.to_string(), remedy(error)),
    }
}

/// What to do about something that can't be joined; `up --replace` couldn't either.
fn remedy(error: &ClientError) -> &'static str {
    let ClientError::Ended(Ended::Fault(fault)) = error else {
        return "end what listens there, or move it away, or choose another with --endpoint";
    };
    match ErrorCode::parse(&fault.code) {
        Some(ErrorCode::ShuttingDown) => "wait until it is gone: `agent-relay up` starts the next",
        Some(ErrorCode::TooManyClients) => {
            "end some of its clients, or raise max_clients in config.toml and start it anew"
        }
        _ => "what it says tells what to mend; daemon.log in its home may say more",
    }
}

/// What the daemon says, where one runs; else what is in the file.
fn store(place: &Place, client: Option<&Client>) -> Check {
    let id = "store";
    let check = match (client, place.is_locked()) {
        (Some(client), _) => match about(client) {
            Ok(Some(process)) => store_of(&process),
            Ok(None) => Check::ok(id, "the daemon is too old to say how it is"),
            Err(failure) => Check::warn(
                id,
                failure.words.unwrap_or_default(),
                "only the daemon can say how its store is",
            ),
        },
        (None, Ok(false)) => match daemon::examine_store(&place.home) {
            Ok(()) => {
                let path = place.home.join(STORE_FILE);
                let is_new = if path.exists() { "" } else { " (made by the first start)" };
                Check::ok(id, format!("{}{is_new}", path.display()))
            }
            Err(error) => {
                Check::fail(id, error.to_string(), "copy the file before you do anything")
            }
        },
        (None, _) => Check::warn(id, "a daemon has it that can't be asked", "see `daemon` above"),
    };
    if check.state != Finding::Ok {
        return check;
    }
    match set_aside(&place.home).as_slice() {
        [] => check,
        names => Check::warn(
            id,
            format!(
                "{}: damaged, and set aside; what waited in it was not delivered",
                names.join(", ")
            ),
            format!("keep for who can look into it, or delete; it is in {}", place.home.display()),
        ),
    }
}

fn store_of(process: &Process<'_>) -> Check {
    let id = "store";
    match (&process.store_fails, process.remarks.as_slice()) {
        (Some(why), _) => Check::fail(
            id,
            format!("it keeps no messages: {why}"),
            "it works again by itself once that is mended",
        ),
        (None, []) => Check::ok(id, "works"),
        (None, remarks) => {
            Check::warn(id, remarks.join("; "), "a daemon that is started anew says it no more")
        }
    }
}

/// Files that were found damaged, by name.
fn set_aside(home: &Path) -> Vec<String> {
    let prefix = format!("{STORE_FILE}.damaged-");
    // A home that can't be read is told above.
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
    let both = terminal::is_terminal(Standard::Input) && terminal::is_terminal(Standard::Output);
    match terminal::size().filter(|_| both) {
        Some(size) if size.cols < 40 => Check::warn(
            id,
            format!("{} columns by {} rows", size.cols, size.rows),
            "make it wider: messages are read from the screen",
        ),
        Some(size) => Check::ok(id, format!("{} columns by {} rows", size.cols, size.rows)),
        None => Check::warn(
            id,
            "standard input and output are not a terminal",
            "an agent that is run here gets no keys from a person; nothing else needs one",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_daemon_says_of_its_store_is_judged() {
        let said = |store_fails: Option<&str>, remarks: &[&str]| {
            let check = store_of(&Process {
                pid: 1,
                endpoint: "/e".into(),
                home: "/h".into(),
                left: None,
                store_fails: store_fails.map(str::to_owned),
                remarks: remarks.iter().map(|remark| (*remark).to_owned()).collect(),
            });
            (check.state, check.detail)
        };
        assert_eq!(said(None, &[]), (Finding::Ok, "works".to_owned()));
        assert_eq!(said(None, &["a", "b"]), (Finding::Warn, "a; b".to_owned()));
        let fails = (Finding::Fail, "it keeps no messages: the disk is full".to_owned());
        assert_eq!(said(Some("the disk is full"), &["a"]), fails);
    }
}
