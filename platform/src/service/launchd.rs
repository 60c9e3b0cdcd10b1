//! macOS: launchd, for the user who is logged in.

use std::{env, fs, io, path::PathBuf};

use super::{Installed, Kind, NAME, Program, Site, State, command::run, plist};
use crate::{naming, paths, peer::User, refusal};

pub(super) const WITHOUT_LOGON: Option<&str> = None;

pub(super) fn is_odd(character: char) -> bool {
    character.is_control()
}

pub(super) fn check_install(program: &Program, _: Option<&Site>) -> io::Result<()> {
    paths::check_unchangeable(&program.file)
}

pub(super) fn install(program: &Program, _: Option<&Site>) -> io::Result<()> {
    let path = definition()?;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(naming(format!("make {}", directory.display())))?;
    }
    unload()?;
    fs::write(&path, plist::write(program)).map_err(naming(format!("write {}", path.display())))?;
    load()
}

pub(super) fn uninstall() -> io::Result<bool> {
    let path = definition()?;
    if !path.exists() {
        return Ok(false);
    }
    unload()?;
    fs::remove_file(&path).map_err(naming(format!("remove {}", path.display())))?;
    Ok(true)
}

pub(super) fn start() -> io::Result<()> {
    match shown()? {
        None => load(),
        Some(_) => run("launchctl", &["kickstart", &target()?]).map(drop),
    }
}

/// It ends without a failure then, after which launchd leaves it.
pub(super) fn stop() -> io::Result<()> {
    match shown()?.map(|shown| state(&shown)) {
        Some(State::Running(_)) => run("launchctl", &["kill", "SIGTERM", &target()?]).map(drop),
        _ => Ok(()),
    }
}

pub(super) fn installed() -> io::Result<Option<Installed>> {
    let definition = definition()?;
    let text = match fs::read_to_string(&definition) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(naming(definition.display())(error)),
    };
    let shown = shown()?;
    Ok(Some(Installed {
        kind: Kind::Launchd,
        definition,
        program: plist::read(&text),
        // All that lies there is loaded at logon, unless the user has said otherwise.
        is_enabled: !is_disabled(&run("launchctl", &["print-disabled", &domain()?])?),
        state: shown.map_or(State::Stopped, |shown| state(&shown)),
    }))
}

/// Also starts it.
fn load() -> io::Result<()> {
    let path = definition()?;
    let path = path.to_string_lossy();
    run("launchctl", &["bootstrap", &domain()?, &path]).map(drop)
}

fn unload() -> io::Result<()> {
    if shown()?.is_some() {
        run("launchctl", &["bootout", &target()?])?;
    }
    Ok(())
}

/// What launchd prints of it, if it is loaded.
fn shown() -> io::Result<Option<String>> {
    // Who is not logged in has no domain; of what is not loaded it says only that.
    run("launchctl", &["print", &domain()?])?;
    Ok(run("launchctl", &["print", &target()?]).ok())
}

/// From lines as `state = running`, `pid = 12` and `last exit code = 1`.
fn state(shown: &str) -> State {
    let value = |name: &str| {
        let mut lines = shown.lines().filter_map(|line| line.trim().split_once(" = "));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value)
    };
    if let Some(pid) = value("pid").and_then(|pid| pid.parse().ok()) {
        return State::Running(pid);
    }
    match value("last exit code") {
        None | Some("0" | "(never exited)") => State::Stopped,
        Some(code) => State::Failed(format!("exit code {code}")),
    }
}

/// From lines as `"agent-relay" => disabled`, or, before macOS 13, `=> true`.
fn is_disabled(shown: &str) -> bool {
    let of_ours = format!("\"{NAME}\" => ");
    let mut lines = shown.lines().filter_map(|line| line.trim().strip_prefix(&of_ours));
    lines.any(|value| matches!(value, "disabled" | "true"))
}

fn domain() -> io::Result<String> {
    Ok(format!("gui/{}", User::me()?))
}

fn target() -> io::Result<String> {
    Ok(format!("{}/{NAME}", domain()?))
}

fn definition() -> io::Result<PathBuf> {
    let home = env::home_dir().filter(|home| home.is_absolute()).ok_or_else(|| {
        refusal(io::ErrorKind::NotFound, "this user has no home directory: set HOME")
    })?;
    Ok(home.join("Library/LaunchAgents").join(format!("{NAME}.plist")))
}
