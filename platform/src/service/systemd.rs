//! Linux: the user's systemd.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    Installed, Kind, NAME, Program, RunState, Site,
    command::{output_of, run},
    definition, unit,
};
use crate::{paths, peer::User, refusal};

const RUNTIME: &str = "XDG_RUNTIME_DIR";

pub(super) fn without_logon() -> Option<&'static str> {
    let me = User::me().map(|me| me.to_string()).unwrap_or_default();
    let lingers = run("loginctl", &["show-user", &me, "--property=Linger", "--value"]);
    // If loginctl gives no answer, lingering is most likely off.
    (!lingers.is_ok_and(|lingers| lingers == "yes")).then_some("loginctl enable-linger")
}

pub(super) fn check_install(program: &Program, _: Option<&Site>) -> io::Result<()> {
    // Fails if the user's systemd is not reachable.
    systemctl(&["show-environment"])?;
    paths::check_only_owner_writes(&program.file)
}

pub(super) fn install(program: &Program, _: Option<&Site>) -> io::Result<()> {
    let path = path()?;
    definition::make_room(&path)?;
    definition::write(&path, &unit::write(program))?;
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", "--quiet", NAME])?;
    forget_failures();
    // A program of the earlier definition may be running, so this is a restart.
    systemctl(&["restart", NAME]).map(drop)
}

pub(super) fn uninstall() -> io::Result<bool> {
    let path = path()?;
    if !path.exists() {
        return Ok(false);
    }
    systemctl(&["disable", "--quiet", "--now", NAME])?;
    definition::remove(&path)?;
    systemctl(&["daemon-reload"])?;
    Ok(true)
}

pub(super) fn start() -> io::Result<()> {
    forget_failures();
    systemctl(&["start", NAME]).map(drop)
}

pub(super) fn stop() -> io::Result<()> {
    systemctl(&["stop", NAME]).map(drop)
}

pub(super) fn installed() -> io::Result<Option<Installed>> {
    let path = path()?;
    let Some(text) = definition::read(&path)? else { return Ok(None) };
    let shown = systemctl(&["show", NAME, "--property=ActiveState,MainPID,Result,UnitFileState"])?;
    Ok(Some(Installed {
        kind: Kind::Systemd,
        definition: path,
        program: unit::read(&text),
        is_enabled: property(&shown, "UnitFileState") == "enabled",
        state: state(&shown),
    }))
}

/// Resets the unit's count of failures. Above a limit, systemd would refuse to start the unit for
/// some seconds.
fn forget_failures() {
    // For a unit that systemd has not loaded, this is an error without consequences.
    systemctl(&["reset-failed", NAME]).ok();
}

fn state(shown: &str) -> RunState {
    let pid = property(shown, "MainPID").parse().unwrap_or(0);
    match property(shown, "ActiveState") {
        "failed" => RunState::Failed(property(shown, "Result").to_owned()),
        _ if pid > 0 => RunState::Running(pid),
        "activating" | "deactivating" => RunState::Changing,
        _ => RunState::Stopped,
    }
}

/// The value in one of the lines `NAME=VALUE`.
fn property<'a>(shown: &'a str, name: &str) -> &'a str {
    let mut lines = shown.lines().filter_map(|line| line.split_once('='));
    lines.find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

fn systemctl(arguments: &[&str]) -> io::Result<String> {
    let runtime = runtime()?;
    let mut command = Command::new("systemctl");
    command.arg("--user").args(arguments).env(RUNTIME, &runtime);
    output_of(command).map_err(|error| {
        if runtime.join("systemd/private").exists() {
            return error;
        }
        let words = "a service needs the user's own systemd, which runs while the user is logged in by ssh or at \
                     the console, or always after `loginctl enable-linger`; without a service, `agent-relay up` \
                     starts the daemon";
        refusal(error.kind(), format!("{error}: {words}"))
    })
}

/// The runtime directory of the user's systemd. After `su` and `sudo` the variable is unset, but
/// the directory exists.
fn runtime() -> io::Result<PathBuf> {
    let set = env::var_os(RUNTIME).map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = || Ok(Path::new("/run/user").join(User::me()?.to_string()));
    set.map_or_else(usual, Ok)
}

/// The path of the user's unit.
fn path() -> io::Result<PathBuf> {
    let set = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = || definition::user_directory().map(|home| home.join(".config"));
    Ok(set.map_or_else(usual, Ok)?.join(Path::new("systemd/user")).join(format!("{NAME}.service")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemctl_states_are_parsed() {
        for (shown, expected) in [
            ("MainPID=12\nActiveState=active\nResult=success", RunState::Running(12)),
            ("MainPID=0\nActiveState=inactive\nResult=success", RunState::Stopped),
            ("MainPID=0\nActiveState=activating\nResult=exit-code", RunState::Changing),
            (
                "MainPID=0\nActiveState=failed\nResult=exit-code",
                RunState::Failed("exit-code".into()),
            ),
            ("", RunState::Stopped),
        ] {
            assert_eq!(state(shown), expected, "{shown}");
        }
    }
}
