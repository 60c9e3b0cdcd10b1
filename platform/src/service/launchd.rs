//! macOS: launchd, for the user who is logged in.

use std::{
    io,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use super::{
    Installed, Kind, NAME, Program, RunState, Site,
    command::run,
    definition,
    launch_agent::{self, LABEL},
    launchctl::{is_disabled, state},
};
use crate::{paths, peer::User, refusal};

pub(super) fn without_logon() -> Option<&'static str> {
    None
}

/// The longest wait until launchd has unloaded an agent and accepts it again.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn check_install(program: &Program, _: Option<&Site>) -> io::Result<()> {
    check_domain()?;
    paths::check_only_owner_writes(&program.file)
}

/// The label of agents that earlier versions installed.
const FORMER_LABEL: &str = NAME;

pub(super) fn install(program: &Program, _: Option<&Site>) -> io::Result<()> {
    let path = path(LABEL)?;
    definition::make_room(&path)?;
    let was_loaded = unload(LABEL)?;
    remove(FORMER_LABEL)?;
    definition::write(&path, &launch_agent::write(program))?;
    // launchd would refuse to load a disabled agent.
    run("launchctl", &["enable", &target(LABEL)?])?;
    // For some seconds after unloading an agent, launchd refuses another agent of that name.
    let give_up = Instant::now() + if was_loaded { SETTLE_TIMEOUT } else { Duration::ZERO };
    loop {
        match load(LABEL) {
            Err(_) if Instant::now() < give_up => thread::sleep(POLL_INTERVAL),
            loaded => return loaded,
        }
    }
}

pub(super) fn uninstall() -> io::Result<bool> {
    let removed = [remove(LABEL)?, remove(FORMER_LABEL)?];
    Ok(removed.contains(&true))
}

/// Unloads an agent and removes its file, if there is one.
fn remove(label: &str) -> io::Result<bool> {
    let path = path(label)?;
    if !path.exists() {
        return Ok(false);
    }
    unload(label)?;
    definition::remove(&path)?;
    Ok(true)
}

/// The label of the installed agent. Until it is installed again, it may be the former one.
fn label() -> io::Result<&'static str> {
    let is_former = !path(LABEL)?.exists() && path(FORMER_LABEL)?.exists();
    Ok(if is_former { FORMER_LABEL } else { LABEL })
}

pub(super) fn start() -> io::Result<()> {
    let label = label()?;
    match shown(label)? {
        None => load(label),
        Some(_) => run("launchctl", &["kickstart", &target(label)?]).map(drop),
    }
}

/// Ends a running program by SIGTERM, which is no failure, so that launchd does not restart it. A
/// failed agent is unloaded, since launchd would restart it some seconds later.
pub(super) fn stop() -> io::Result<()> {
    let label = label()?;
    match shown(label)?.map(|shown| state(&shown)) {
        Some(RunState::Running(_)) => {
            run("launchctl", &["kill", "SIGTERM", &target(label)?]).map(drop)
        }
        Some(RunState::Failed(_)) => unload(label).map(drop),
        _ => Ok(()),
    }
}

pub(super) fn installed() -> io::Result<Option<Installed>> {
    let label = label()?;
    let path = path(label)?;
    let Some(text) = definition::read(&path)? else { return Ok(None) };
    let shown = shown(label)?;
    Ok(Some(Installed {
        kind: Kind::Launchd,
        definition: path,
        program: launch_agent::read(&text),
        // At logon, launchd loads all agents in this directory except disabled ones.
        is_enabled: !is_disabled(label, &run("launchctl", &["print-disabled", &domain()?])?),
        state: shown.map_or(RunState::Stopped, |shown| state(&shown)),
    }))
}

/// Loads the agent, which also starts its program.
fn load(label: &str) -> io::Result<()> {
    let path = path(label)?;
    let path = path.to_string_lossy();
    run("launchctl", &["bootstrap", &domain()?, &path]).map(drop)
}

/// Unloads the agent, which also ends its program; returns false if the agent was not loaded. The
/// program may end after this returns.
fn unload(label: &str) -> io::Result<bool> {
    if shown(label)?.is_none() {
        return Ok(false);
    }
    let bootout = run("launchctl", &["bootout", &target(label)?]);
    let give_up = Instant::now() + SETTLE_TIMEOUT;
    while shown(label)?.is_some() {
        if Instant::now() > give_up {
            let words = format!(
                "launchd still has {} {} s after unloading it",
                target(label)?,
                SETTLE_TIMEOUT.as_secs()
            );
            return Err(bootout.err().unwrap_or_else(|| refusal(io::ErrorKind::TimedOut, words)));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(true)
}

/// launchd's description of the agent, if it is loaded.
fn shown(label: &str) -> io::Result<Option<String>> {
    check_domain()?;
    // The command fails if the agent is not loaded.
    Ok(run("launchctl", &["print", &target(label)?]).ok())
}

/// Checks that launchd has a domain for this user. It has one only for a user who is logged in at
/// the screen.
fn check_domain() -> io::Result<()> {
    run("launchctl", &["print", &domain()?]).map(drop).map_err(|error| {
        let words = "launchd has agents only for users logged in at the screen; run this in a terminal there; \
                     without a service, `agent-relay up` starts the daemon";
        refusal(error.kind(), format!("{error}: {words}"))
    })
}

fn domain() -> io::Result<String> {
    Ok(format!("gui/{}", User::me()?))
}

fn target(label: &str) -> io::Result<String> {
    Ok(format!("{}/{label}", domain()?))
}

/// The path of an agent's property list.
fn path(label: &str) -> io::Result<PathBuf> {
    Ok(definition::user_directory()?.join("Library/LaunchAgents").join(format!("{label}.plist")))
}
