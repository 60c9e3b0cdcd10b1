//! A person's command at one wrapper's own endpoint: asks, and hears the answers.

use super::threads::spawn;
use crate::protocol::{
    control::{ANSWER_BYTES_MAX, Answer, Request},
    frame::Decoder,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use platform::{endpoint::Endpoint, transport::Stream};
use std::{
    fmt, fs,
    io::{self, Read, Write},
    path::Path,
    thread::JoinHandle,
    time::Duration,
};

/// Answers that wait to be heard.
const ANSWERS_MAX: usize = 16;

/// What ends the name of a file that a wrapper keeps beside its endpoint.
const KEY_FILE: &str = ".key";

/// The names of the wrappers that run there, or ended without cleaning up.
pub fn names(run_directory: &Path) -> Vec<String> {
    // A directory that isn't there, or can't be read, has no wrapper that could be reached.
    let Ok(files) = fs::read_dir(run_directory) else { return Vec::new() };
    let name = |file: io::Result<fs::DirEntry>| {
        let file = file.ok()?.file_name().into_string().ok()?;
        file.strip_suffix(KEY_FILE).map(str::to_owned)
    };
    let mut names: Vec<_> = files.filter_map(name).collect();
    names.sort();
    names
}

/// A connection to a wrapper.
#[derive(Debug)]
pub struct Visit {
    stream: Stream,
    answers: Receiver<Result<Answer, String>>,
    reader: Option<JoinHandle<()>>,
}

impl Visit {
    /// Connects to the wrapper of the agent with this name, however it spells itself.
    ///
    /// # Errors
    /// If nobody of that name is there, or it can't be reached.
    pub fn to(run_directory: &Path, name: &str) -> Result<Self, VisitError> {
        let others = names(run_directory).into_iter();
        let others = others.filter(|other| other != name && other.eq_ignore_ascii_case(name));
        for name in std::iter::once(name.to_owned()).chain(others) {
            let endpoint = Endpoint::of_agent(run_directory, &name).map_err(VisitError::System)?;
            match Stream::connect(&endpoint) {
                Ok(stream) => return Self::over(stream),
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(VisitError::System(error)),
            }
        }
        Err(VisitError::Nobody)
    }

    fn over(stream: Stream) -> Result<Self, VisitError> {
        let (told, answers) = bounded(ANSWERS_MAX);
        let reading = stream.clone();
        let reader =
            spawn("from a wrapper", move || read(&reading, &told)).map_err(VisitError::System)?;
        Ok(Self { stream, answers, reader: Some(reader) })
    }

    /// Asks, and waits at most so long for the next answer.
    ///
    /// # Errors
    /// If it is refused, doesn't come in time, or the wrapper ends.
    pub fn ask(&self, request: &Request, at_most: Duration) -> Result<Answer, VisitError> {
        let mut frame = Vec::new();
        request.append(&mut frame);
        // So little always finds room, unless nobody is there any more.
        (&self.stream).write_all(&frame).map_err(|_| VisitError::Gone)?;
        self.hear(at_most)
    }

    /// Waits at most so long for the next answer.
    ///
    /// # Errors
    /// As [`Visit::ask`].
    pub fn hear(&self, at_most: Duration) -> Result<Answer, VisitError> {
        match self.answers.recv_timeout(at_most) {
            Ok(heard) => judged(heard),
            Err(RecvTimeoutError::Timeout) => Err(VisitError::TimedOut),
            Err(RecvTimeoutError::Disconnected) => Err(VisitError::Gone),
        }
    }

    /// Waits at most so long until the wrapper has closed the connection, as it does at its end.
    pub fn await_close(&self, at_most: Duration) {
        while self.answers.recv_timeout(at_most).is_ok() {}
    }

    pub(super) fn answers(&self) -> &Receiver<Result<Answer, String>> {
        &self.answers
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.stream.hang_up();
        // A reader that waits for room ends with the channel.
        self.answers = crossbeam_channel::never();
        if let Some(reader) = self.reader.take() {
            // A panic of its own was reported where it happened.
            drop(reader.join());
        }
    }
}

/// What is heard, with refusals as errors.
pub(super) fn judged(heard: Result<Answer, String>) -> Result<Answer, VisitError> {
    match heard {
        Ok(Answer::Error { message }) => Err(VisitError::Refused(message)),
        Ok(answer) => Ok(answer),
        Err(sentence) => Err(VisitError::Misspoken(sentence)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn read(mut stream: &Stream, told: &Sender<Result<Answer, String>>) {
    let mut decoder = Decoder::new(ANSWER_BYTES_MAX);
    loop {
        match stream.read(decoder.space()) {
            Ok(0) => return,
            Ok(count) => decoder.filled(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return tracing::debug!("the wrapper can't be heard: {error}"),
        }
        loop {
            let frames = match decoder.take() {
                Ok(Some(frames)) => frames,
                Ok(None) => break,
                Err(violation) => return drop(told.send(Err(violation.message))),
            };
            for frame in frames {
                let answer = Answer::read(frame);
                let is_last = answer.is_err();
                if told.send(answer).is_err() || is_last {
                    return;
                }
            }
        }
    }
}

/// Why a visit came to nothing.
#[derive(Debug)]
pub enum VisitError {
    /// No wrapper of that name listens.
    Nobody,
    /// It can't be reached.
    System(io::Error),
    /// It says no.
    Refused(String),
    /// What it says makes no sense.
    Misspoken(String),
    /// It has ended.
    Gone,
    /// It doesn't answer.
    TimedOut,
}

impl fmt::Display for VisitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("no wrapper of that name runs here"),
            Self::System(error) => error.fmt(f),
            Self::Refused(sentence) | Self::Misspoken(sentence) => f.write_str(sentence),
            Self::Gone => f.write_str("its wrapper has ended"),
            Self::TimedOut => f.write_str("its wrapper does not answer"),
        }
    }
}

impl std::error::Error for VisitError {}
