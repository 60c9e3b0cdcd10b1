//! The client side of a wrapper's control endpoint, for a person's commands.

use super::read_frames;
use crate::wrap::threads::spawn;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use platform::{endpoint::Endpoint, transport::Stream};
use protocol::control::{ANSWER_BYTES_MAX, AgentState, Answer, Ended, Request};
use std::{
    fmt, fs,
    io::{self, Write},
    path::Path,
    thread::JoinHandle,
    time::Duration,
};

/// The most answers that wait to be received.
const ANSWERS_MAX: usize = 16;

/// The extension of the file that a wrapper keeps next to its endpoint.
const KEY_FILE: &str = ".key";

/// Returns the names of agents with a key file in this directory: their wrapper runs, or ended
/// without removing the file.
pub(crate) fn names(run_directory: &Path) -> Vec<String> {
    // Without a readable directory, no wrapper can be reached.
    let Ok(files) = fs::read_dir(run_directory) else { return Vec::new() };
    let name = |file: io::Result<fs::DirEntry>| {
        let file = file.ok()?.file_name().into_string().ok()?;
        file.strip_suffix(KEY_FILE).map(str::to_owned)
    };
    let mut names: Vec<_> = files.filter_map(name).collect();
    names.sort();
    names
}

/// A connection to a wrapper's control endpoint.
#[derive(Debug)]
pub(crate) struct ControlClient {
    pub(in crate::wrap) stream: Stream,
    pub(in crate::wrap) answers: Receiver<Result<Answer, String>>,
    reader: Option<JoinHandle<()>>,
}

impl ControlClient {
    /// Connects to the wrapper of the agent with this name, in upper or lower case.
    ///
    /// # Errors
    /// If there is no such wrapper, or it cannot be reached.
    pub(crate) fn connect(run_directory: &Path, name: &str) -> Result<Self, ControlError> {
        let others = names(run_directory).into_iter();
        let others = others.filter(|other| other != name && other.eq_ignore_ascii_case(name));
        for name in std::iter::once(name.to_owned()).chain(others) {
            let endpoint =
                Endpoint::of_agent(run_directory, &name).map_err(ControlError::System)?;
            match Stream::connect(&endpoint) {
                Ok(stream) => return Self::new(stream),
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(ControlError::System(error)),
            }
        }
        Err(ControlError::NotRunning)
    }

    fn new(stream: Stream) -> Result<Self, ControlError> {
        let (received, answers) = bounded(ANSWERS_MAX);
        let reading = stream.clone();
        // Waits for: the system, then the channel of answers. Its client hangs up, then joins it.
        let reader = spawn("control answers", move || read(&reading, &received))
            .map_err(ControlError::System)?;
        Ok(Self { stream, answers, reader: Some(reader) })
    }

    /// Sends a request, and waits at most `timeout` for the next answer.
    ///
    /// # Errors
    /// If the wrapper refuses, does not answer in time, or ends.
    pub(crate) fn request(
        &self,
        request: &Request,
        timeout: Duration,
    ) -> Result<Answer, ControlError> {
        self.begin(request);
        self.receive(timeout)
    }

    /// Sends a request. [`receive`](Self::receive) returns its answer.
    pub(crate) fn begin(&self, request: &Request) {
        // A request fits into the system's buffer, so writing fails only if the wrapper has closed
        // the connection. Its last answer may say why.
        if let Err(error) = self.send(request) {
            tracing::debug!("the wrapper has closed the connection: {error}");
        }
    }

    fn send(&self, request: &Request) -> io::Result<()> {
        let mut frame = Vec::new();
        request.append(&mut frame);
        (&self.stream).write_all(&frame)
    }

    /// Tells the wrapper that a hook has printed the text of its answer.
    pub(crate) fn confirm_printed(&self) {
        if let Err(error) = self.send(&Request::Printed) {
            tracing::debug!("the wrapper does not learn that its text was printed: {error}");
        }
    }

    /// Sends a request that is answered with the agent's state, like [`request`](Self::request).
    pub(crate) fn request_state(
        &self,
        request: &Request,
        timeout: Duration,
    ) -> Result<AgentState, ControlError> {
        match self.request(request, timeout)? {
            Answer::State(state) => Ok(state),
            _ => Err(ControlError::unexpected_answer()),
        }
    }

    /// Begins to end the agent's command.
    pub(crate) fn begin_to_stop(&self) {
        self.begin(&Request::Stop);
    }

    /// Waits at most `timeout` until the command has ended, after
    /// [`begin_to_stop`](Self::begin_to_stop).
    ///
    /// # Errors
    /// If the wrapper refuses, does not answer in time, or ends without an answer.
    pub(crate) fn await_end(&self, timeout: Duration) -> Result<Ended, ControlError> {
        match self.receive(timeout)? {
            Answer::Ended(ended) => Ok(ended),
            _ => Err(ControlError::unexpected_answer()),
        }
    }

    /// Waits at most `timeout` for the next answer.
    ///
    /// # Errors
    /// If the wrapper refuses, does not answer in time, or ends.
    pub(crate) fn receive(&self, timeout: Duration) -> Result<Answer, ControlError> {
        match self.answers.recv_timeout(timeout) {
            Ok(answer) => check(answer),
            Err(RecvTimeoutError::Timeout) => Err(ControlError::TimedOut),
            Err(RecvTimeoutError::Disconnected) => Err(ControlError::Ended),
        }
    }

    /// Waits until the wrapper closes the connection at its end, at most `timeout` after each
    /// answer.
    pub(crate) fn await_close(&self, timeout: Duration) {
        while self.answers.recv_timeout(timeout).is_ok() {}
    }
}

impl Drop for ControlClient {
    fn drop(&mut self) {
        self.stream.hang_up();
        // Dropping the channel ends a reader that waits to send.
        self.answers = crossbeam_channel::never();
        if let Some(reader) = self.reader.take() {
            // A panic was reported by the panic hook.
            drop(reader.join());
        }
    }
}

/// Turns a refusal into an error.
pub(in crate::wrap) fn check(answer: Result<Answer, String>) -> Result<Answer, ControlError> {
    match answer {
        Ok(Answer::Error { message }) => Err(ControlError::Refused(message)),
        Ok(answer) => Ok(answer),
        Err(sentence) => Err(ControlError::InvalidAnswer(sentence)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn read(stream: &Stream, received: &Sender<Result<Answer, String>>) {
    let pass_on = |frame: &[u8]| {
        let answer = Answer::read(frame);
        let is_valid = answer.is_ok();
        Ok(received.send(answer).is_ok() && is_valid)
    };
    let read = read_frames(stream, "the wrapper", ANSWER_BYTES_MAX, || Ok(()), pass_on);
    if let Err(sentence) = read {
        // Without a receiver, nobody needs the answer.
        drop(received.send(Err(sentence)));
    }
}

/// The reason why a wrapper did not carry out a request.
#[derive(Debug)]
pub(crate) enum ControlError {
    /// No wrapper of that name runs.
    NotRunning,
    /// The system could not reach the wrapper.
    System(io::Error),
    /// The wrapper refused, with this sentence.
    Refused(String),
    /// The wrapper's answer is not valid.
    InvalidAnswer(String),
    /// The wrapper has ended.
    Ended,
    /// The wrapper did not answer in time.
    TimedOut,
}

impl ControlError {
    fn unexpected_answer() -> Self {
        Self::InvalidAnswer("it answers something else".to_owned())
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRunning => f.write_str("no wrapper of that name runs here"),
            Self::System(error) => error.fmt(f),
            Self::Refused(sentence) | Self::InvalidAnswer(sentence) => f.write_str(sentence),
            Self::Ended => f.write_str("its wrapper has ended"),
            Self::TimedOut => f.write_str("its wrapper does not answer"),
        }
    }
}

impl std::error::Error for ControlError {}
