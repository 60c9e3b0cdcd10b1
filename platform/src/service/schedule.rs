//! Windows: the user's own task, by schtasks.exe.
//!
//! What that says of a task's state is in the user's language, so that it isn't read.

use std::{env, fs, io, io::Write as _, path::PathBuf, process};

use super::{Installed, Kind, NAME, Program, State, command::run, task};
use crate::{naming, paths, peer::User, refusal};

const SCHTASKS: &str = "schtasks.exe";

pub(super) fn check_install(program: &Program) -> io::Result<()> {
    let file = windowless(program).file;
    paths::check_unchangeable(&file).map_err(|error| {
        let words = "it is what runs without a console window, and lies beside agent-relay.exe in every \
                     package";
        refusal(error.kind(), format!("{error}; {words}"))
    })
}

pub(super) fn install(program: &Program) -> io::Result<()> {
    let file = env::temp_dir().join(format!("{NAME}-task-{}.xml", process::id()));
    let text = task::write(&windowless(program), &User::me()?.to_string());
    let bytes: Vec<u8> =
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let mut written = paths::create_private_file(&file)?;
    let registered = written
        .write_all(&bytes)
        .map_err(naming(format!("write {}", file.display())))
        .and_then(|()| {
            drop(written);
            run(SCHTASKS, &["/Create", "/TN", &name()?, "/XML", &file.to_string_lossy(), "/F"])
        });
    // Of no use any more, whatever became of it; it is in a directory that is cleaned.
    let _ = fs::remove_file(&file);
    registered?;
    start()
}

pub(super) fn uninstall() -> io::Result<bool> {
    if text()?.is_none() {
        return Ok(false);
    }
    run(SCHTASKS, &["/Delete", "/TN", &name()?, "/F"])?;
    Ok(true)
}

pub(super) fn start() -> io::Result<()> {
    run(SCHTASKS, &["/Run", "/TN", &name()?]).map(drop)
}

pub(super) fn stop() -> io::Result<()> {
    run(SCHTASKS, &["/End", "/TN", &name()?]).map(drop)
}

pub(super) fn installed() -> io::Result<Option<Installed>> {
    Ok(text()?.map(|text| Installed {
        kind: Kind::Task,
        definition: PathBuf::from(format!(
            r"Task Scheduler Library\{}",
            name().unwrap_or_default()
        )),
        program: task::read(&text),
        is_enabled: task::is_enabled(&text),
        state: State::Unsaid,
    }))
}

/// The same program, made so that the system opens no console for it. There is no other way that holds: a
/// console is there before a program can hide it, and a host for hidden ones (`conhost --headless`) would be one
/// process more.
fn windowless(program: &Program) -> Program {
    let file = program.file.with_file_name(format!("{NAME}w.exe"));
    Program { file, ..program.clone() }
}

/// The task as the scheduler has it, if it is there. It prints in its console's code page, so that it gets a
/// console of its own that has all characters.
fn text() -> io::Result<Option<String>> {
    let line = format!("chcp 65001 >nul & {SCHTASKS} /Query /TN {} /XML", name()?);
    match run("cmd.exe", &["/d", "/c", &line]) {
        Ok(text) => Ok(Some(text).filter(|text| text.contains("<Task"))),
        // Why there is none, it says only in words.
        Err(error) if error.kind() == io::ErrorKind::Other => Ok(None),
        Err(error) => Err(error),
    }
}

/// Tasks of all users have their names together.
fn name() -> io::Result<String> {
    Ok(format!("{NAME}-{}", User::me()?))
}
