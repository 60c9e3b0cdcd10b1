//! The programs by which the system's own are asked.

use std::{io, process::Command};

#[cfg(windows)]
use windows_sys::Win32::System::Threading::CREATE_NO_WINDOW;

use crate::{naming, refusal};

/// Runs a program to its end; what it printed.
pub(super) fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    // Nothing of this name that lies where the user happens to be is meant.
    #[cfg(windows)]
    command.env("NoDefaultCurrentDirectoryInExePath", "1");
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(&mut command, CREATE_NO_WINDOW);
    let output = command.output().map_err(naming(program))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let words = [text(&output.stderr), text(&output.stdout)];
    let why = words.into_iter().find(|words| !words.is_empty());
    let why = why.unwrap_or_else(|| output.status.to_string()).replace('\n', "; ");
    Err(refusal(io::ErrorKind::Other, format!("{program} {}: {why}", arguments.join(" "))))
}
