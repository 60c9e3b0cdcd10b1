//! Windows: the user's task, managed by schtasks.exe.
//!
//! schtasks.exe prints a task's state in the user's language, so the state is not parsed.

use std::{env, fs, io, io::Write as _, path::PathBuf, process};

use super::{Installed, Kind, NAME, Program, RunState, command::run, task};
use crate::{naming, paths, peer::User, refusal};

const SCHTASKS: &str = "schtasks.exe";

pub(super) fn check_install(program: &Program) -> io::Result<()> {
    let file = windowless(program).file;
    paths::check_only_owner_writes(&file).map_err(|error| {
        let words = "it is the program without a console window; install it next to agent-relay.exe, from the \
                     same package";
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
    // A failure to remove the file is ignored: it is in the directory for temporary files.
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
        state: RunState::Unknown,
    }))
}

/// The variant of the program that has no console window. The alternatives are worse: a program can
/// hide its console only after the console has appeared, and a console host (`conhost --headless`)
/// would be one more process.
fn windowless(program: &Program) -> Program {
    let file = program.file.with_file_name(format!("{NAME}w.exe"));
    Program { file, ..program.clone() }
}

/// The task's definition, if there is one. schtasks prints in the code page of its console, so it
/// runs in a console that is set to UTF-8.
fn text() -> io::Result<Option<String>> {
    let line = format!("chcp 65001 >nul & {SCHTASKS} /Query /TN {} /XML", name()?);
    match run("cmd.exe", &["/d", "/c", &line]) {
        Ok(text) => Ok(Some(text).filter(|text| text.contains("<Task"))),
        // schtasks states the reason for a failure only in the user's language, so every failure of
        // the command counts as a missing task.
        Err(error) if error.kind() == io::ErrorKind::Other => Ok(None),
        Err(error) => Err(error),
    }
}

/// The task's name. It contains the user, since the tasks of all users are in one directory.
fn name() -> io::Result<String> {
    Ok(format!("{NAME}-{}", User::me()?))
}
