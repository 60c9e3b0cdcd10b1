//! The command that reaches the other machine.

use crate::{
    cli::{
        escape::escaped,
        failure::Failure,
        print::{LINE_PREFIX, eprint_line},
    },
    protocol::name::Host,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    thread::{self, JoinHandle},
    time::Duration,
};

/// The time that the command has to end after its input has ended.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest line of the command's messages that is shown whole, in bytes.
const LINE_BYTES_MAX: u64 = 1_024;

/// The exit code of a shell that does not find a command.
const NOT_FOUND: i32 = 127;

/// The running command.
pub(super) struct Running {
    child: Child,
    name: String,
    /// The thread that shows the command's messages. The channel is disconnected at their end.
    messages: Option<JoinHandle<()>>,
    messages_ended: Receiver<()>,
}

impl Running {
    /// Starts the command. Its messages are shown with the machine's name.
    pub(super) fn start(
        command: &[OsString],
        host: &Host,
    ) -> Result<(Self, ChildStdin, ChildStdout), Failure> {
        let name = escaped(&command[0].to_string_lossy());
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::failed(format!("cannot run {name}: {error}")))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            unreachable!("all three were asked for");
        };
        let (ended, messages_ended) = bounded(0);
        let mut running = Self { child, name, messages: None, messages_ended };
        let host = host.clone();
        let show = move || {
            show_messages(&host, errors);
            drop(ended);
        };
        let thread = thread::Builder::new().name("link messages".to_owned()).spawn(show);
        running.messages = Some(thread.map_err(Failure::because)?);
        Ok((running, input, output))
    }

    /// Waits for the end of the command, whose input has ended, and ends it if that takes too long.
    /// Returns what its exit code says, if it failed.
    pub(super) fn end(&mut self) -> Option<String> {
        if self.messages_ended.recv_timeout(END_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            // A command that has ended already cannot be killed.
            drop(self.child.kill());
        }
        let status = self.child.wait().ok()?;
        if let Some(thread) = self.messages.take() {
            // A panic of the thread was reported by the panic hook.
            drop(thread.join());
        }
        self.describe(status)
    }

    fn describe(&self, status: ExitStatus) -> Option<String> {
        let name = &self.name;
        match status.code() {
            Some(0) => None,
            Some(NOT_FOUND) => Some(format!(
                "{name} ended with code {NOT_FOUND}: agent-relay is not found on the other \
                 machine; install it there, or state its path"
            )),
            Some(code) => Some(format!("{name} ended with code {code}")),
            None => Some(format!("{name} was ended")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.messages.is_some() {
            drop(self.child.kill());
            self.end();
        }
    }
}

/// Shows what the command writes to its standard error.
fn show_messages(host: &Host, errors: ChildStderr) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    while let Ok(1..) = errors.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        let text = text.strip_prefix(LINE_PREFIX).unwrap_or(text);
        if !text.is_empty() {
            eprint_line(format_args!("{host}: {}", escaped(text)));
        }
        line.clear();
    }
}
