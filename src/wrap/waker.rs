//! Waking an idle agent by another process of its CLI, which adds a text to the agent's queue of
//! prompts. The text goes over the process's standard input, since other users can see arguments.

use super::{Environment, threads::spawn};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader, Read, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};
use terminal::hooks::{PromptQueue, Step};

/// The time allowed for a prompt to begin a turn. After it, the prompt is deleted from the queue.
const BEGUN: Duration = Duration::from_secs(10);

/// The time for each last step: the answer to a deletion, and the end of the process.
const LAST_STEP: Duration = Duration::from_secs(2);

/// The longest line that is read. Longer lines are not answers.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The most lines that wait for the thread that handles them.
const LINES_MAX: usize = 16;

/// The most failures that wait for the driver.
const FAILURES_MAX: usize = 16;

/// The processes that wake an agent, one at a time. They are started as the agent's own.
pub(super) struct Waker {
    program: OsString,
    /// Changes of the environment: variables to set or to remove.
    env: Environment,
    directory: Option<PathBuf>,
    /// The ids of messages that did not begin a turn.
    pub(super) failed: Receiver<String>,
    failures: Sender<String>,
    /// Dropping the sender ends the time of the current process.
    stop: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Waker {
    pub(super) fn new(program: OsString, env: Environment, directory: Option<PathBuf>) -> Self {
        let (failures, failed) = bounded(FAILURES_MAX);
        Self { program, env, directory, failed, failures, stop: None, threads: Vec::new() }
    }

    /// Starts a process that adds a message's text to the queue of a conversation.
    pub(super) fn wake(&mut self, arguments: &[&str], session: String, text: String, id: String) {
        self.threads.retain(|thread| !thread.is_finished());
        let (stop, stopped) = bounded(0);
        self.stop = Some(stop);
        let mut command = Command::new(&self.program);
        command.args(arguments);
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let queue = PromptQueue::new(session, text, id.clone());
        // Without a word, the terminal side waits for a record in vain, and delivers the message
        // again.
        let (failures, failed) = (self.failures.clone(), id.clone());
        // Waits for: the process that it starts, with limits: 10 s for the prompt, 2 s for its
        // deletion, 2 s for the process's end, then a kill. The wrapper joins it at its end.
        let started = spawn("waker", move || {
            let has_begun = exchange(command, queue, &stopped).unwrap_or_else(|error| {
                tracing::info!("the agent is not woken: {error}");
                false
            });
            if !has_begun {
                let _ = failures.try_send(failed);
            }
        });
        match started {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                tracing::error!("the agent is not woken: {error}");
                let _ = self.failures.try_send(id);
            }
        }
    }

    /// Ends the processes, and deletes a prompt that has not begun a turn.
    pub(super) fn end(&mut self) {
        self.stop = None;
        for thread in self.threads.drain(..) {
            // A panic was reported by its hook.
            let _ = thread.join();
        }
    }
}

/// Runs the process. Returns whether the prompt has begun a turn, or may have.
fn exchange(mut command: Command, mut queue: PromptQueue, stop: &Receiver<()>) -> io::Result<bool> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let streams = read_lines(output.expect("a piped output"))
        .and_then(|lines| Ok((lines, write_lines(input.expect("a piped input"))?)));
    let (lines, input) = match streams {
        Ok(streams) => streams,
        Err(error) => {
            kill(&mut child);
            return Err(error);
        }
    };
    let has_begun = converse(&mut queue, &input, &lines, stop);
    drop(input);
    let has_failed = !end(&mut child, &lines);
    // A process that has failed before its first answer has added nothing.
    Ok(has_begun.unwrap_or_else(|| !(has_failed && queue.is_adding())))
}

/// Returns whether the prompt has begun a turn, or may have; `None` if the process has ended before
/// that was known.
fn converse(
    queue: &mut PromptQueue,
    input: &Sender<String>,
    lines: &Receiver<String>,
    stopped: &Receiver<()>,
) -> Option<bool> {
    input.try_send(queue.first_lines()).ok()?;
    let mut until = Instant::now() + BEGUN;
    let mut stopped = stopped.clone();
    loop {
        let step = crossbeam_channel::select! {
            recv(lines) -> line => queue.received(&line.ok()?),
            recv(stopped) -> _ => {
                stopped = crossbeam_channel::never();
                until = Instant::now();
                Step::Wait
            },
            default(until.saturating_duration_since(Instant::now())) => queue.time_out(),
        };
        match step {
            Step::Write(line) => {
                input.try_send(line).ok()?;
                until = Instant::now() + LAST_STEP;
            }
            Step::Wait => {}
            Step::Over(has_begun) => return Some(has_begun),
        }
    }
}

/// Ends the process after its input was closed: kills it if it does not end by itself. Returns
/// whether it succeeded.
fn end(child: &mut Child, lines: &Receiver<String>) -> bool {
    let until = Instant::now() + LAST_STEP;
    while lines.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
    // A process that has closed its output by its end keeps its exit code.
    kill(child)
}

/// Kills the process unless it has ended. Returns whether it had succeeded.
fn kill(child: &mut Child) -> bool {
    if let Err(error) = child.kill() {
        tracing::debug!("the process that wakes the agent is not killed: {error}");
    }
    match child.wait() {
        Ok(status) if status.success() => return true,
        Ok(status) => tracing::info!("the process that wakes the agent has ended: {status}"),
        Err(error) => tracing::debug!("the process that wakes the agent is lost: {error}"),
    }
    false
}

/// Writes lines on a thread that ends with the sender, or with the process. The process may not
/// read them.
fn write_lines(mut input: ChildStdin) -> io::Result<Sender<String>> {
    let (lines, from) = bounded::<String>(LINES_MAX);
    // Waits for: its channel, the system. Not joined: ends with the process that is woken.
    spawn("waker input", move || {
        for line in from {
            if let Err(error) = input.write_all(line.as_bytes()) {
                tracing::debug!("the process that wakes the agent reads nothing: {error}");
                return;
            }
        }
    })?;
    Ok(lines)
}

/// Reads lines on a thread that ends with its source.
fn read_lines(output: ChildStdout) -> io::Result<Receiver<String>> {
    let (to, lines) = bounded(LINES_MAX);
    let mut output = BufReader::new(output);
    // Waits for: the system, its channel. Not joined: ends with the process that is woken.
    spawn("waker output", move || {
        loop {
            let mut line = String::new();
            match output.by_ref().take(LINE_BYTES_MAX).read_line(&mut line) {
                Ok(read) if read > 0 && to.send(line).is_ok() => {}
                _ => return,
            }
        }
    })?;
    Ok(lines)
}
