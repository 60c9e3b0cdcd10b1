//! A daemon with system calls that fail or kill it at moments that a test chooses.

use std::{
    ffi::OsString,
    io::{BufRead, BufReader},
    process::{Child, ChildStderr, Command, Stdio},
};
use testkit::{
    sandbox::Sandbox,
    waiting::{not_tried, wait},
};

/// Reports whether there is `strace`. If not, the test is not tried.
pub(super) fn has_strace() -> bool {
    let is_there = Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok();
    if !is_there {
        not_tried("strace is not installed (ci/setup does it)");
    }
    is_there
}

/// `agent-relay up --foreground` under strace. With `-D`, the daemon is the child of this process,
/// not of strace.
pub(super) fn traced(sandbox: &Sandbox, arguments: impl IntoIterator<Item = OsString>) -> Command {
    let mut command = sandbox.program("strace");
    command.args(["-D", "-y", "-qq", "-s", "0"]).args(arguments);
    let daemon = sandbox.command(["up", "--foreground"]);
    command.arg(daemon.get_program()).args(daemon.get_args());
    command
}

/// Arguments of strace: the calls `inject` on these files of the home. Without files, on any file.
pub(super) fn injected(sandbox: &Sandbox, inject: &str, files: &[&str]) -> Vec<OsString> {
    let calls = inject.split(':').next().unwrap_or_default();
    let mut arguments: Vec<OsString> = vec!["-f".into(), "-o".into()];
    arguments.push(sandbox.directory().join("log").into());
    arguments.extend(["-e".into(), format!("trace={calls}").into()]);
    arguments.extend(["-e".into(), format!("inject={inject}").into()]);
    for file in files {
        arguments.extend(["-P".into(), sandbox.home().join(file).into()]);
    }
    arguments
}

/// A strace that is attached to the sandbox's daemon, until it is dropped.
pub(super) struct Attached {
    strace: Child,
    _stderr: BufReader<ChildStderr>,
}

impl Attached {
    /// Attaches strace to all threads of a daemon.
    pub(super) fn to(sandbox: &Sandbox, pid: u64, arguments: Vec<OsString>) -> Self {
        let mut command = sandbox.program("strace");
        command.args(["-s", "0", "-p"]).arg(pid.to_string()).args(arguments);
        let mut strace = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(strace.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert!(line.contains(" attached"), "{line}");
        Self { strace, _stderr: stderr }
    }
}

/// Detaches strace cleanly, unlike a kill of strace.
impl Drop for Attached {
    fn drop(&mut self) {
        let pid = self.strace.id().to_string();
        Command::new("kill").args(["-s", "TERM", &pid]).status().ok();
        wait(&mut self.strace, "strace");
    }
}
