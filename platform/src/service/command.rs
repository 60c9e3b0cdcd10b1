//! Runs of the system's own tools, such as `systemctl`.

use std::{io, process::Command};

#[cfg(windows)]
use windows_sys::Win32::System::Threading::CREATE_NO_WINDOW;

use crate::{naming, refusal};

/// Runs a program to its end; returns its output.
pub(super) fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    output_of(command)
}

/// Runs a prepared command to its end; returns its output.
pub(super) fn output_of(mut command: Command) -> io::Result<String> {
    // Keeps Windows from running a file of this name in the current directory.
    #[cfg(windows)]
    command.env("NoDefaultCurrentDirectoryInExePath", "1");
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(&mut command, CREATE_NO_WINDOW);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let output = command.output().map_err(naming(command.get_program().display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let words = [text(&output.stderr), text(&output.stdout)];
    let why = words.into_iter().find(|words| !words.is_empty());
    let why = why.unwrap_or_else(|| output.status.to_string()).replace('\n', "; ");
    Err(refusal(io::ErrorKind::Other, format!("{line}: {why}")))
}
