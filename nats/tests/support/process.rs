//! A process with a clean environment. Tests can await its lines.

use super::WATCHDOG;
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
    time::Instant,
};

/// The variables that a process gets from the tests. All others are removed.
const KEPT_VARIABLES: [&str; 2] = ["PATH", "TMPDIR"];

#[derive(Debug, Default)]
struct Lines {
    lines: Mutex<Vec<String>>,
    changed: Condvar,
}

/// A process, which is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    lines: Arc<Lines>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts a program with these arguments and additional variables.
    pub(crate) fn start<S: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = S>,
        variables: &[(&str, &OsStr)],
    ) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).env_clear();
        for name in KEPT_VARIABLES {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let lines = Arc::new(Lines::default());
        let readers = vec![
            read(child.stdout.take().unwrap(), &lines),
            read(child.stderr.take().unwrap(), &lines),
        ];
        Self { child, lines, readers }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that contains `part`, and returns it.
    pub(crate) fn line(&self, part: &str) -> String {
        let begun = Instant::now();
        let mut lines = self.lines.lines.lock().unwrap();
        loop {
            if let Some(line) = lines.iter().find(|line| line.contains(part)) {
                return line.clone();
            }
            let rest = WATCHDOG.saturating_sub(begun.elapsed());
            assert!(!rest.is_zero(), "no line contains {part:?}:\n{}", lines.join("\n"));
            lines = self.lines.changed.wait_timeout(lines, rest).unwrap().0;
        }
    }

    /// All lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lines.lock().unwrap().clone()
    }

    /// Waits for the end, and returns all lines.
    pub(crate) fn output(mut self) -> Vec<String> {
        self.wait();
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        self.lines()
    }

    /// Kills the process, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        super::until("the end of a process", || self.child.try_wait().unwrap())
    }

    /// Whether the process has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn read(stream: impl Read + Send + 'static, lines: &Arc<Lines>) -> JoinHandle<()> {
    let lines = Arc::clone(lines);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            lines.lines.lock().unwrap().push(line);
            lines.changed.notify_all();
        }
    })
}
