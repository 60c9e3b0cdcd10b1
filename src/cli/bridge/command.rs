//! The command that reaches the other machine.

use crate::cli::{failure::Failure, link::log, print::LINE_PREFIX};
use crossbeam_channel::{Receiver, bounded};
use platform::clock;
use protocol::{name::Host, text::escaped};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

/// How long the command may take to end and print its messages after its input has ended, in
/// milliseconds.
const END_MS: u64 = 2_000;

/// The pause between two checks whether the command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The most lines of the command's messages that are shown.
const LINES_MAX: usize = 500;

/// The longest line of the command's messages that is shown whole, in bytes.
const LINE_BYTES_MAX: u64 = 1_024;

/// The exit code of a shell that does not find a command.
const NOT_FOUND: i32 = 127;

/// The running command.
pub(super) struct Running {
    child: Child,
    name: String,
    /// Closed when the command's messages have ended and are shown.
    messages: Receiver<()>,
}

/// A command that has been started, and its pipes.
pub(super) struct Started {
    pub(super) running: Running,
    pub(super) input: ChildStdin,
    pub(super) output: ChildStdout,
}

impl Running {
    /// Starts the command. Its messages are shown with the machine's name, also those of a process
    /// that the command has left behind.
    pub(super) fn start(command: &[OsString], host: &Host) -> Result<Started, Failure> {
        let name = escaped(&command[0].to_string_lossy());
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::failed(format!("cannot run {name}: {error}")))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (showing, messages) = bounded(0);
        let running = Self { child, name, messages };
        let (Some(input), Some(output), Some(errors)) = pipes else {
            unreachable!("all three were asked for");
        };
        let host = host.clone();
        let show = move || {
            show_messages(&host, errors);
            drop(showing);
        };
        // Waits for: the system. Not joined: ends with its source; the main thread waits 2 s for
        // its end.
        let thread = thread::Builder::new().name("link messages".to_owned()).spawn(show);
        thread.map_err(Failure::because)?;
        Ok(Started { running, input, output })
    }

    /// Waits for the end of the command after its input has ended, and kills it if that takes too
    /// long. If it failed by itself, returns the meaning of its exit code, after its messages.
    pub(super) fn end(mut self) -> Option<String> {
        let until = clock::monotonic_ms() + END_MS;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if clock::monotonic_ms() < until => thread::sleep(POLL_INTERVAL),
                Ok(None) | Err(_) => return None,
            }
        };
        // A process that the command has left behind may keep its messages open.
        let left = until.saturating_sub(clock::monotonic_ms());
        let _ = self.messages.recv_timeout(Duration::from_millis(left));
        self.describe(status)
    }

    fn describe(&self, status: ExitStatus) -> Option<String> {
        let name = &self.name;
        match status.code() {
            Some(0) => None,
            Some(NOT_FOUND) => Some(format!(
                "{name} ended with code {NOT_FOUND}: a command is not found, probably agent-relay \
                 on the other machine; install it there, or state its path"
            )),
            Some(code) => Some(format!("{name} ended with code {code}")),
            None => Some(format!("{name} was ended")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A command that has ended already cannot be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Shows the command's messages on standard error.
fn show_messages(host: &Host, errors: ChildStderr) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    let mut shown = 0;
    while let Ok(1..) = errors.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        let text = text.strip_prefix(LINE_PREFIX).unwrap_or(text);
        shown += usize::from(!text.is_empty());
        if !text.is_empty() && shown < LINES_MAX {
            log(&format!("{host}: {text}"));
        } else if shown == LINES_MAX {
            log(&format!("{host}: further messages are not shown"));
            shown += 1;
        }
        line.clear();
    }
}
